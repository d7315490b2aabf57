"""The virtual clock: what things would cost on a real machine."""
