"""`trace`: records copies, staging and kernels, and shows them."""
