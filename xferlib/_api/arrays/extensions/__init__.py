"""The optional extensions of the Array API: linear algebra and Fourier transforms."""
