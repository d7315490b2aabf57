"""Where one test notes for the others that CUDA can no longer be used in this process."""

import pytest

BROKEN_BY = pytest.StashKey[str]()
"""The test after which it cannot."""
