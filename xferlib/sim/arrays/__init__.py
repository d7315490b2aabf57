"""Arrays of the simulated devices and their Array-API namespace."""
