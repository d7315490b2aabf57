"""The namespace that xferlib makes, over the arrays of each library that it can be made for."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests.needed import need
from xferlib.testing import load_backend


class Space:
    """A namespace of xferlib's, and the way to its arrays and back."""

    def __init__(self, name: str, xp: Any) -> None:
        self.name = name
        self.xp = xp

    def put(self, x: Any) -> Any:
        return xl.to_device(x, backend=self.name)

    def get(self, y: Any) -> Any:
        """An array on the host, or a tuple of those of a list or a tuple, in one transfer."""
        return tuple(xl.tree.to_host([*y])) if isinstance(y, (tuple, list)) else xl.to_host(y)

    def put_all(self, values: Any) -> Any:
        """NumPy arrays among values, also in lists, as arrays of the library."""
        if isinstance(values, (tuple, list)):
            return type(values)([self.put_all(each) for each in values])
        return self.put(values) if isinstance(values, np.ndarray) else values

    def check(self, name: str, *args: Any, like: Any = None, **options: Any) -> None:
        """Compare a function with NumPy's, or ``like``: dtypes, shapes and values."""
        function = getattr(self.xp, name)
        expected = (getattr(np, name) if like is None else like)(*args, **options)
        same(self.get(function(*self.put_all(args), **{k: self.put_all(v) for k, v in options.items()})), expected)


def same(found: Any, expected: Any) -> None:
    """Compare arrays, or tuples of them; NaN equals NaN, and -0 equals 0."""
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for one, two in zip(found, expected, strict=True):
            same(one, two)
        return
    expected = np.asarray(expected)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)


def namespace_over(name: str) -> Any:
    """The namespace over the arrays of a backend."""
    backend: Any = load_backend(name)
    return backend.namespace()


SPACES = ("bare", "sim", *(["pycuda"] if find_spec("pycuda") else []))
"""The backends whose namespace xferlib makes, of those that are installed."""


def opened(name: str) -> Iterator[Space]:
    """The namespace over a library, whose arrays are the default."""
    need(name)
    with xl.use_backend(name):
        yield Space(name, namespace_over(name))


@pytest.fixture
def bare(plugins: object) -> Iterator[Space]:
    """The namespace over memory of the CPU, which NumPy can share."""
    yield from opened("bare")


@pytest.fixture(params=SPACES)
def space(request: pytest.FixtureRequest, plugins: object) -> Iterator[Space]:
    """The namespace over each library."""
    yield from opened(request.param)
