"""The block in which tensors' operators and indexing do what NumPy's do, and that nothing changes outside it."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
