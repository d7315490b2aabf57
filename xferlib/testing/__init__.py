"""The conformance suite that every backend is held to, and the tools it is made of.

Needs pytest and Hypothesis (``pip install 'xferlib[test]'``); ``import xferlib`` needs neither.

    import xferlib.testing

    class TestMine(xferlib.testing.BackendConformance):
        backend = "mine"
"""

from xferlib.testing import strategies
from xferlib.testing.asserts import assert_same_bits, native_bits, scribble
from xferlib.testing.conformance import BackendConformance
from xferlib.testing.harness import forced

__all__ = ["BackendConformance", "assert_same_bits", "forced", "native_bits", "scribble", "strategies"]
