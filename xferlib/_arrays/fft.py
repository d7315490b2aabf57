"""``xp.fft``: the Array API's Fourier transforms, by NumPy where the host can read the memory, else by a library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xferlib._arrays import functions as manipulation
from xferlib._arrays import indexing
from xferlib._arrays.primitives import Primitives, checked_dtype
from xferlib._arrays.products import computed
from xferlib._core.arrays import Array, axes_of, axis_of
from xferlib._runtime.checks import choice
from xferlib.errors import ArgumentError, LayoutError, LayoutTypeError, UnsupportedDTypeError, shown

_HALF = ("rfft", "ihfft")
"""Their results have one half and the middle."""
_WHOLE = ("irfft", "hfft")
"""Their arguments have; their results are real."""


def _dtype(name: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    found: np.dtype[Any] = getattr(np.fft, name)(np.zeros(2, dtype)).dtype
    return found


def _extent(name: str, given: int, n: int | None) -> int:
    """The elements of the result along an axis."""
    if name in _WHOLE:
        return 2 * (given - 1) if n is None else n
    elements = given if n is None else n
    return elements // 2 + 1 if name in _HALF else elements


def _along(name: str) -> Callable[..., Array]:
    """The transform of that name along one axis."""

    def transform(
        lib: Primitives, x: Array, /, n: int | None = None, axis: int = -1, norm: str | None = "backward"
    ) -> Array:
        x, call = lib.array(f"fft.{name}", x), f"fft.{name}"
        info = lib.info(x)
        along = axis_of(call, axis, len(info.shape))
        _check_real(call, name, info.dtype)
        extent = _extent(name, info.shape[along], n)
        if (n if n is not None else info.shape[along]) < 1 or extent < 1:
            raise LayoutError(f"{call}: no elements along axis {axis}; give n= of 1 or more")
        norm = _checked_norm(call, norm)
        shape = (*info.shape[:along], extent, *info.shape[along + 1 :])
        result = _dtype(name, info.dtype)
        if not info.size:  # of which NumPy reads memory that it has not filled
            return indexing.filled(lib, shape, 0, result, info.device)
        run = lambda namespace, a: getattr(namespace.fft, name)(a, n=n, axis=along, norm=norm)
        return computed(lib, call, run, [x], [(shape, result)])[0]

    return _named(transform, name)


def _over(name: str) -> Callable[..., Array]:
    """The transform of that name over several axes."""
    single = name[:-1]

    def transform(
        lib: Primitives,
        x: Array,
        /,
        s: Sequence[int] | None = None,
        axes: Sequence[int] | None = None,
        norm: str | None = "backward",
    ) -> Array:
        x, call = lib.array(f"fft.{name}", x), f"fft.{name}"
        info = lib.info(x)
        rank = len(info.shape)
        chosen = _listed(call, "axes", axes)
        given = _listed(call, "s", s)
        if chosen is None:
            chosen = (*range(-rank if given is None else -len(given), 0),)
        places = [*axes_of(call, chosen, rank)]
        sizes: list[int | None] = [None] * len(places) if given is None else [*given]
        if len(sizes) != len(places):
            raise LayoutError(f"{call}: s has {len(sizes)} sizes, and there are {len(places)} axes; give one for each")
        if given is not None:
            sizes = [info.shape[p] if size == -1 else size for p, size in zip(places, sizes, strict=True)]
        norm = _checked_norm(call, norm)
        _check_real(call, single, info.dtype)
        if not places and name in ("rfftn", "irfftn"):
            raise LayoutError(f"{call}: there is no axis to transform; give an array or axes= with one")
        shape = list(info.shape)
        for number, (place, size) in enumerate(zip(places, sizes, strict=True)):
            is_last = number == len(places) - 1
            shape[place] = _extent(single if is_last else "fft", shape[place], size)
        elements = [info.shape[place] if size is None else size for place, size in zip(places, sizes, strict=True)]
        if any(each < 1 for each in (*elements, *[shape[place] for place in places])):
            raise LayoutError(f"{call}: no elements along one of axes {chosen}; give s= of 1 or more")
        result = _dtype(single, info.dtype)
        if result == np.float16 and len(places) > 1:
            result = np.dtype("float32")  # as NumPy, whose first transform is to complex64
        if not info.size:
            return indexing.filled(lib, tuple(shape), 0, result, info.device)
        extents = None if given is None else sizes
        run = lambda namespace, a: getattr(namespace.fft, name)(a, s=extents, axes=places, norm=norm)
        return computed(lib, call, run, [x], [(tuple(shape), result)])[0]

    return _named(transform, name)


def _named(function: Callable[..., Array], name: str) -> Callable[..., Array]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"``fft.{name}`` of the Array API, as NumPy computes it."
    return function


def _listed(call: str, what: str, given: Any) -> tuple[int, ...] | None:
    """A tuple of integers, or None."""
    if given is None:
        return None
    if not isinstance(given, (tuple, list)):
        raise LayoutTypeError(f"{call}: {what}={shown(given)} is no tuple of integers; give one")
    return tuple(given)


def _check_real(call: str, name: str, dtype: np.dtype[Any]) -> None:
    """Refuse complex numbers for a transform of real ones."""
    if dtype.kind == "c" and name in (*_HALF, "rfft"):
        raise UnsupportedDTypeError(f"{call}: takes real numbers, not {dtype}; use fft.fft or fft.fftn")


def _checked_norm(call: str, norm: str | None) -> str:
    if norm is None:
        return "backward"
    return choice(norm, ("backward", "ortho", "forward"), f"{call}: norm")


def _frequencies(name: str) -> Callable[..., Array]:
    function = getattr(np.fft, name)

    def frequencies(
        lib: Primitives, n: int, /, d: float = 1.0, *, dtype: Any = None, device: Any = None
    ) -> Array:  # fmt: skip
        if n < 1:
            raise ArgumentError(f"fft.{name}: n={n} is no number of elements; give 1 or more")
        return lib.upload(function(n, d), device, checked_dtype(dtype))

    return _named(frequencies, name)


fftfreq, rfftfreq = _frequencies("fftfreq"), _frequencies("rfftfreq")


def _shifted(name: str, sign: int) -> Callable[..., Array]:
    def shift(lib: Primitives, x: Array, /, axes: int | Sequence[int] | None = None) -> Array:
        x = lib.array(f"fft.{name}", x)
        extents = lib.info(x).shape
        places = axes_of(f"fft.{name}", tuple(axes) if isinstance(axes, list) else axes, len(extents))
        steps = tuple(sign * (extents[place] // 2) for place in places)
        return manipulation.roll(lib, x, steps, axis=places)

    return _named(shift, name)


fftshift, ifftshift = _shifted("fftshift", 1), _shifted("ifftshift", -1)

FUNCTIONS: tuple[Callable[..., Any], ...] = (
    *map(_along, ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")), *map(_over, ("fftn", "ifftn", "rfftn", "irfftn")),
    fftfreq, rfftfreq, fftshift, ifftshift,
)  # fmt: skip
