"""The tests of CuPy, PyCUDA and Chainer, run on xferlib by a thin shim of their names: see `__main__`."""
