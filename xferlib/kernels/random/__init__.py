"""Random numbers by counter: Philox 4x32-10 in exact operations, and what each distribution makes of its words."""
