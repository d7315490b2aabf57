"""CuPy's `testing`: cases by dtype and order, and comparisons with NumPy."""

from __future__ import annotations

import functools
import inspect
import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tools.peer_suites.adapting import SHIM
from tools.peer_suites.missing import PREFIX, skip
from xferlib._pretend.arrays import ndarray
from xferlib._pretend.cupy import MAKERS
from xferlib._pretend.functions import to_numpy

ALL = "?bBhHiIlLqQefdFD"


def host(value: Any) -> Any:
    """The same on the host, for comparisons."""
    return np.asarray(to_numpy(value))


def cupy() -> Any:
    return sys.modules[f"{SHIM}.cupy"]


def parameterize(*sets: dict[str, Any]) -> Callable[[type], type]:
    """One class for each set of attributes, in the module of the class."""

    def make(cls: type) -> Any:
        namespace = vars(sys.modules[cls.__module__])
        for number, attributes in enumerate(sets):
            name = f"{cls.__name__}_{number}"
            namespace[name] = type(name, (cls,), {**attributes, "__test__": True})
        cls.__test__ = False  # type: ignore[attr-defined]
        return cls

    return make


def product(choices: Any) -> list[dict[str, Any]]:
    if isinstance(choices, dict):
        return [dict(zip(choices, each, strict=True)) for each in itertools.product(*choices.values())]
    return [{key: value for part in each for key, value in part.items()} for each in itertools.product(*choices)]


def _without(run: Any, *names: str) -> Any:
    """A wrapper whose arguments ``names`` are no fixtures of pytest's; its others are those of the test."""
    given = inspect.signature(run)
    del run.__wrapped__
    run.__signature__ = given.replace(parameters=[each for name, each in given.parameters.items() if name not in names])
    return run


def for_each(sets: Sequence[dict[str, Any]]) -> Callable[[Any], Any]:
    """A test repeated for sets of arguments."""

    def decorate(test: Any) -> Any:
        @functools.wraps(test)
        def run(*args: Any, **options: Any) -> None:
            for each in sets:
                test(*args, **{**options, **each})

        return _without(run, *(sets[0] if sets else ()))

    return decorate


def _chosen(codes: str, **refused: bool) -> list[Any]:
    out = {"no_bool": "?", "no_complex": "FD"}
    dropped = "".join(out.get(name, "") for name, value in refused.items() if value)
    return [np.dtype(each).type for each in codes if each not in dropped]


def dtypes(codes: str) -> Callable[..., Any]:
    def decorate(name: str = "dtype", **refused: Any) -> Any:
        return for_each([{name: each} for each in _chosen(codes, **refused)])

    return decorate


def combined(codes: str) -> Callable[..., Any]:
    """Pairs of dtypes: each occurs as either, with another partner."""

    def decorate(names: Any = ("dtyes",), full: Any = None, **refused: Any) -> Any:
        listed = [names] if isinstance(names, str) else list(names)
        found = _chosen(codes, **refused)
        return for_each([
            {name: found[(row + place * 5) % len(found)] for place, name in enumerate(listed)}
            for row in range(len(found))
        ])  # fmt: skip

    return decorate


def comparing(check: Callable[..., None]) -> Callable[..., Any]:
    """The results of a test for NumPy and for CuPy are compared."""

    def options(*_: Any, name: str = "xp", accept_error: Any = False, **given: Any) -> Any:
        def decorate(test: Any) -> Any:
            @functools.wraps(test)
            def run(*args: Any, **others: Any) -> None:
                with np.errstate(all="ignore"):
                    mine, wrong = _tried(test, args, {**others, name: cupy()})
                    other, expected = _tried(test, args, {**others, name: np})
                if expected is not None or wrong is not None:
                    accepted = accept_error if isinstance(accept_error, (type, tuple)) else Exception
                    if not accept_error or not isinstance(expected, accepted) or wrong is None:
                        raise wrong or AssertionError(f"no error, but NumPy has {expected!r}")
                    return
                pairs = zip(mine, other, strict=True) if isinstance(other, (tuple, list)) else [(mine, other)]
                for one, two in pairs:
                    check(one, two, **given)

            return _without(run, name)

        return decorate

    return options


def _tried(test: Any, args: Any, options: Any) -> tuple[Any, BaseException | None]:
    try:
        return test(*args, **options), None
    except Exception as error:
        return None, error


def same_arrays(mine: Any, other: Any, *, strides_check: bool = False, type_check: bool = True, **_: Any) -> None:
    assert_array_equal(mine, other)
    _same_form(mine, other, strides_check, type_check)


def close_arrays(
    mine: Any, other: Any, *, rtol: Any = 1e-7, atol: float = 0, type_check: bool = True, strides_check: bool = False,
    **_: Any,
) -> None:  # fmt: skip
    bound: Any = rtol.get(np.dtype(other.dtype).type, rtol.get("default", 1e-7)) if isinstance(rtol, dict) else rtol
    assert_allclose(mine, other, rtol=bound, atol=atol)
    _same_form(mine, other, strides_check, type_check)


def _same_form(mine: Any, other: Any, strides: bool, types: bool) -> None:
    if isinstance(mine, ndarray) and isinstance(other, (np.ndarray, np.generic)):
        if types:
            assert mine.dtype == other.dtype, (mine.dtype, other.dtype)
        if strides:
            assert mine.strides == other.strides, (mine.strides, other.strides)


def same(mine: Any, other: Any, **_: Any) -> None:
    assert mine == other


def assert_allclose(mine: Any, other: Any, rtol: float = 1e-7, atol: float = 0, **_: Any) -> None:
    np.testing.assert_allclose(host(mine), host(other), rtol=rtol, atol=atol)


def assert_array_equal(mine: Any, other: Any, *_: Any, strides_check: bool = False, **__: Any) -> None:
    np.testing.assert_array_equal(host(mine), host(other))
    if strides_check:
        _same_form(mine, other, strides=True, types=False)


def multi_gpu(count: int) -> Callable[[Any], Any]:
    """Of a machine with ``count`` devices."""
    found = sum(each.kind != "cpu" for each in xl.get_backend().devices())
    marked: Any = pytest.mark.skipif(found < count, reason=f"{PREFIX}fewer than {count} devices")
    return marked  # type: ignore[no-any-return]


def slow(test: Any = None) -> Any:
    marked = pytest.mark.skip(reason=f"{PREFIX}slow tests, which the peer's own runs leave out")
    return marked if test is None else marked(test)


def identity(*_: Any, **__: Any) -> Callable[[Any], Any]:
    return lambda test: test


class Warns:
    """The block of `assert_warns`: warnings are not compared."""

    def __init__(self, *_: Any) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def _wraps_partial(wrapped: Any, *names: str) -> Callable[[Any], Any]:
    """CuPy's decorator for wrappers that supply some of the arguments."""

    def decorate(run: Any) -> Any:
        return _without(functools.wraps(wrapped)(run), *names)

    return decorate


class DummyObjectWithCudaArrayInterface:
    """An object of another library that has CUDA's interface for arrays."""

    def __init__(
        self, array: Any, ver: int = 3, include_strides: bool | None = False, mask: Any = None, stream: Any = None
    ) -> None:
        if mask is not None:
            skip("masked arrays")
        self.a = array if isinstance(array, ndarray) else None
        _of_a_gpu()
        self._given, self._version, self._strides, self._stream = array, ver, include_strides, stream

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.a is None:
            shape, strides, typestr, descr, pointer = self._given
            described = {"shape": shape, "typestr": typestr, "descr": descr, "data": (pointer, False)}
            is_plain = True
        else:
            kind, pointer, strides = self.a.dtype, self.a.data.ptr, self.a.strides
            described = {"shape": self.a.shape, "typestr": kind.str, "descr": kind.descr, "data": (pointer, False)}
            is_plain = self.a.flags.c_contiguous
        described["version"] = self._version
        if not is_plain or self._strides:
            described["strides"] = strides
        elif self._strides is None:
            described["strides"] = None
        if self._stream is not None:
            described["stream"] = max(self._stream.ptr, 1)
        return described


def _of_a_gpu() -> None:
    if xl.get_device().kind != "cuda":
        skip("__cuda_array_interface__ of a CPU")


NAMES: dict[str, Any] = {
    "parameterize": parameterize,
    "product": product,
    "for_all_dtypes": dtypes(ALL),
    "for_float_dtypes": dtypes("efd"),
    "for_int_dtypes": dtypes("?bBhHiIlLqQ"),
    "for_complex_dtypes": dtypes("FD"),
    "for_all_dtypes_combination": combined(ALL),
    "for_dtypes": lambda given, name="dtype": for_each([{name: np.dtype(each).type} for each in given]),
    "for_orders": lambda given, name="order": for_each([{name: each} for each in given]),
    "for_CF_orders": lambda name="order": for_each([{name: each} for each in (None, "C", "F", "c", "f")]),
    "numpy_cupy_array_equal": comparing(same_arrays),
    "numpy_cupy_allclose": comparing(close_arrays),
    "numpy_cupy_equal": comparing(same),
    "assert_array_equal": assert_array_equal,
    "assert_allclose": assert_allclose,
    "assert_warns": Warns,
    **MAKERS,
    "multi_gpu": multi_gpu,
    "with_requires": identity,
    "slow": slow,
}
LOOPS = {"_wraps_partial": _wraps_partial}
PROTOCOLS = {"DummyObjectWithCudaArrayInterface": DummyObjectWithCudaArrayInterface}
