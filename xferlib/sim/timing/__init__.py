"""The virtual clock: the times that operations would take on a real machine."""
