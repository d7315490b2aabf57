"""The markers, by name, as ``pytest --markers`` shows them, and what the parts of the plug-in tell each other."""

import pytest

MARKERS = {
    "gpu": "gpu: skip the test unless a backend of xferlib can use a GPU; with xl_backend it runs on those backends",
    "multi_gpu": "multi_gpu(n=2): as gpu, for tests that need n GPUs",
}

BROKEN_BY = pytest.StashKey[str]()
"""The test after which CUDA can no longer be used in this process."""
