"""What the CUDA backends share, written once on cuda.core and the driver."""
