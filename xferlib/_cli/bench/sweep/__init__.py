"""`xferlib bench sweep`: random cases beside the other libraries."""
