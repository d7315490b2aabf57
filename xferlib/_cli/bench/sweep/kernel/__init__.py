"""Element-wise expressions."""
