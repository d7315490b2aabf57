"""``xferlib demo``: the program of ``examples/digits.py`` on every backend, and its data."""
