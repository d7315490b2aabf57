"""Functions as formulas of other operations, written once, so that every engine computes the same bits."""
