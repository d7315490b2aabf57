"""Programs on NumPy arrays, block by block: the reference, and the engine of every CPU backend."""
