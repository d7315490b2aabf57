"""From the arguments of a kernel call to its run: checked once, prepared, remembered."""
