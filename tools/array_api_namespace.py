"""The namespace of the default backend, ``XFERLIB_BACKEND``, as a module that the Array API's test suite imports."""

import sys

import xferlib as xl

sys.modules[__name__] = xl.get_array_module(xl.zeros(1))
