"""The block in which tensors' operators and indexing do what NumPy's do, and that nothing changes outside it."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

torch = pytest.importorskip("torch")

import xferlib as xl  # noqa: E402
from tests.test_namespace import SCALARS, TABLE, Operands, reported, wrong  # noqa: E402
from xferlib._core.array import DTYPES  # noqa: E402
from xferlib.backends.torch import namespace as xp  # noqa: E402
from xferlib.errors import MixedBackendsError, UnsupportedDTypeError  # noqa: E402
