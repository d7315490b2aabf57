"""Draws calls of the public functions of a namespace, spelled as programs spell them, with mistakes among them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.comparing import DTYPES
from tests.drawing import LAYOUTS

VIEWS: dict[str, Callable[[Any, Any], Any]] = {**LAYOUTS, "backwards": lambda xp, x: xp.flip(x)}
INTEGERS, INDICES = ("int64", "int32", "uint8"), ("int64", "int64", "int32", "uint8", "float64", "bool")
NUMBERS = (0, 1, -1, 300, 2**40, -(2**63), 1.5, float("nan"), 1j, True, np.float32(2.5), np.int8(3), np.uint64(5))


class Viewed:
    """An array, and how a view is made of it where it is."""

    def __init__(self, array: Any, view: str = "whole") -> None:
        self.array, self.view = np.array(array, order="C"), view

    def on(self, xp: Any, put: Callable[[Any], Any]) -> Any:
        return VIEWS[self.view](xp, put(self.array.copy()))

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.on(np, lambda x: x).shape
        return shape

    def __repr__(self) -> str:
        return f"{self.array.dtype}{self.array.shape} {self.view} {self.array.tolist()}"


class Drawing:
    """Draws arguments by a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def one(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def happens(self, probability: float) -> bool:
        return self.random.random() < probability

    def shape(self, least: int = 0, most: int = 3) -> tuple[int, ...]:
        return tuple(self.one(0, 1, 1, 2, 2, 3) for _ in range(self.random.randint(least, most)))

    def array(
        self, shape: Sequence[int] | None = None, dtypes: Sequence[str] = DTYPES, *, is_whole: bool = False
    ) -> Viewed:
        extents = self.shape() if shape is None else tuple(shape)
        dtype = np.dtype(self.one(*dtypes))
        values = [0, 1, 2, 3, *[-1] * (dtype.kind in "ifc"), *[0.5] * (dtype.kind in "fc")]
        drawn = np.array([self.one(*values) for _ in range(int(np.prod(extents)))]).astype(dtype).reshape(extents)
        return Viewed(drawn, "whole" if is_whole else self.one(*VIEWS, "whole", "whole"))

    def like(self, x: Viewed) -> Viewed:
        """Of the same shape, or one that broadcasts, or another."""
        return self.array([self.one(extent, extent, 1) for extent in x.shape] if self.happens(0.9) else None)

    def axis(self, ndim: int) -> Any:
        """Mostly one that there is."""
        if self.happens(0.15):
            return self.one(ndim, -ndim - 1, 1.0, "0", None, np.int64(0), [0])
        return self.random.randint(-ndim, ndim - 1) if ndim else 0

    def axes(self, ndim: int) -> Any:
        if self.happens(0.6):
            return self.one(None, self.axis(ndim))
        return tuple(self.random.randint(0, max(ndim - 1, 0)) for _ in range(self.random.randint(0, ndim)))

    def number(self) -> Any:
        return self.one(*NUMBERS)


Call = tuple[list[Any], dict[str, Any]]


def _along(d: Drawing, **options: tuple[Any, ...]) -> Call:
    x = d.array()
    return [x], {"axis": d.axis(len(x.shape)), **_some(d, options)}


def _over(d: Drawing, **options: tuple[Any, ...]) -> Call:
    x = d.array()
    return [x], {"axis": d.axes(len(x.shape)), **_some(d, options)}


def _some(d: Drawing, options: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
    return {name: d.one(*choices) for name, choices in options.items() if d.happens(0.4)}


def _concat(d: Drawing) -> Call:
    x = d.array(is_whole=True)
    others = [d.array(x.shape if d.happens(0.7) else None) for _ in range(d.random.randint(0, 2))]
    return [[x, *others]], {"axis": d.axis(len(x.shape))}


def _searchsorted(d: Drawing) -> Call:
    x = d.array([3], is_whole=True) if d.happens(0.9) else d.array()
    if x.array.ndim:
        x.array.sort()
    options: dict[str, Any] = {"side": d.one("left", "right", "left", "middle")}
    if d.happens(0.3):
        options["sorter"] = Viewed(np.arange(3, dtype=d.one("int64", "int32", "float64")))
    return [x, d.array() if d.happens(0.8) else d.one(1, 2.5, np.float32(1))], options


def _take(d: Drawing) -> Call:
    x, places = d.array(), [d.one(0, 0, 0, -1, 1, 4) for _ in range(d.random.randint(0, 3))]
    options = {"axis": d.axis(len(x.shape))} if d.happens(0.9) else {}
    return [x, Viewed(np.array(places, "int64").astype(d.one(*INDICES)))], options


def _take_along_axis(d: Drawing) -> Call:
    x = d.array()
    shape = [d.one(extent, 1) for extent in x.shape] if d.happens(0.9) else d.shape()
    places = np.array([d.one(0, 0, -1, 3) for _ in range(int(np.prod(shape)))], "int64").reshape(shape)
    return [x, Viewed(places.astype(d.one(*INDICES)))], {"axis": d.axis(len(x.shape))}


def _repeat(d: Drawing) -> Call:
    x = d.array()
    counts = np.array([d.one(0, 1, 2) for _ in range(d.one(1, *x.shape))], "int64").astype(d.one(*INDICES))
    return [x, Viewed(counts) if d.happens(0.5) else d.one(0, 2, -1, np.int32(1))], {"axis": d.axes(1)}


def _full(d: Drawing) -> Call:
    return [d.one((), 3, (2, 0), [2, 2], -1, (2, -1), (1.0,), np.int64(2)), d.number()], _some(
        d, {"dtype": (*DTYPES, "nope")}
    )


def _moveaxis(d: Drawing) -> Call:
    x = d.array()
    if d.happens(0.6):
        return [x, d.axis(len(x.shape)), d.axis(len(x.shape))], {}
    sources = tuple(range(d.random.randint(0, len(x.shape))))
    return [x, sources, tuple(range(len(x.shape)))[: d.random.randint(0, 2)]], {}


def _permute_dims(d: Drawing) -> Call:
    x = d.array()
    order = d.random.sample(range(len(x.shape)), len(x.shape))
    return [x, tuple(order if d.happens(0.8) else [*order, d.axis(len(x.shape))])], {}


def _reshape(d: Drawing) -> Call:
    x = d.array()
    size = int(np.prod(x.shape))
    return [x, d.one(-1, (-1,), (size,), (1, size), (2, -1), (-1, -1), (), (size + 1,), (2.0,), [size])], {}


def _broadcast_to(d: Drawing) -> Call:
    x = d.array()
    return [x, d.one((2, *x.shape), tuple(d.one(extent, 3) for extent in x.shape), 3, (-1,), (1.0,), x.shape[1:])], {}


def _two(d: Drawing) -> Call:
    x = d.array()
    other = d.like(x) if d.happens(0.8) else d.number()
    return ([x, other] if d.happens(0.5) else [other, x]), {}


def _tensordot(d: Drawing) -> Call:
    shapes = ((2, 3), (3, 2), (2,), (2, 3, 2), ())
    axes = d.one(0, 1, 2, 4, ((0,), (0,)), ((1,), (0,)), ([0, 1], [1, 0]), ((5,), (0,)), ((0,), (0, 1)), (1, 0))
    return [d.array(d.one(*shapes)), d.array(d.one(*shapes))], {"axes": axes}


def _product(d: Drawing) -> Call:
    shapes = ((2,), (3,), (2, 3), (3, 2), (2, 2, 3), (1, 3, 2), (), (0,), (0, 3))
    return [d.array(d.one(*shapes), is_whole=True), d.array(d.one(*shapes), is_whole=True)], {}


def _clip(d: Drawing) -> Call:
    x = d.array()
    return [x, *(d.one(None, d.like(x), d.one(1, 2.5, np.float32(1), 300)) for _ in range(2))], {}


def _where(d: Drawing) -> Call:
    x = d.array()
    condition = d.array([d.one(extent, 1) for extent in x.shape] if d.happens(0.9) else None, ["bool"])
    return [condition, x, d.like(x) if d.happens(0.7) else d.number()], {}


def _roll(d: Drawing) -> Call:
    x = d.array()
    return [x, d.one(0, 1, -2, 7, (1, 2), (1,))], {"axis": d.one(None, d.axis(len(x.shape)), (0, -1), (0,))}


def _diff(d: Drawing) -> Call:
    x = d.array(is_whole=True)
    ends = {
        name: d.array(x.shape, [x.array.dtype.name], is_whole=True) for name in ("prepend", "append") if d.happens(0.2)
    }
    return [x], {"axis": d.axis(len(x.shape)), "n": d.one(1, 1, 2, -1), **ends}


def _numbers(d: Drawing) -> Call:
    return [d.one(d.number(), d.array())], {}


WHOLE_FLOATS = tuple(name for name in DTYPES if name != "float16")
"""The dtypes of transforms; libraries scale those of float16 in different precisions."""
MODES: dict[str, tuple[Any, ...]] = {"n": (None, 1, 2, 3, 0), "norm": (None, "backward", "ortho", "forward", "x")}


def _transform(d: Drawing) -> Call:
    x = d.array([d.one(1, 2, 3) for _ in range(d.random.randint(0, 3))], WHOLE_FLOATS)
    return [x], {"axis": d.axis(len(x.shape)), **_some(d, MODES)}


def _transform_over(d: Drawing) -> Call:
    x = d.array([d.one(1, 2, 3) for _ in range(d.random.randint(1, 3))], WHOLE_FLOATS)
    options = _some(d, {"axes": ((0,), (-1,), (0, 1), (0, 0), [1], 0, (5,)), "norm": MODES["norm"]})
    if d.happens(0.4):
        options["s"] = d.one((1,), (2, 3), (3,), (0,), 2)
    return [x], options


def _shift(d: Drawing) -> Call:
    x = d.array(d.shape(1, 3))
    return [x], _some(d, {"axes": (None, 0, (-1,), (0, 1), 4)})


def _vectors(d: Drawing) -> Call:
    shapes = ((3,), (2, 3), (3, 3), (1, 3), (2,), ())
    return [d.array(d.one(*shapes)), d.array(d.one(*shapes))], {}


def _power(d: Drawing) -> Call:
    return [d.array(d.one((2, 2), (1, 1), (2, 2, 2), (2, 3), (2,)), is_whole=True), d.one(0, 1, 2, 3, 1.0)], {}


def _norm(d: Drawing) -> Call:
    x = d.array()
    return [x], {"axis": d.axes(len(x.shape)), **_some(d, {"ord": (2, 1, 0, 3, np.inf), "keepdims": (True, False)})}


CALLS: dict[str, Callable[[Drawing], Call]] = {
    **dict.fromkeys(("sum", "prod"), lambda d: _over(d, dtype=DTYPES, keepdims=(True, False))),
    **dict.fromkeys(("mean", "max", "min", "all", "any", "count_nonzero"), lambda d: _over(d, keepdims=(True, False))),
    **dict.fromkeys(("std", "var"), lambda d: _over(d, keepdims=(True, False), correction=(0, 1, 0.5))),
    **dict.fromkeys(("argmax", "argmin"), lambda d: _over(d, keepdims=(True, False))),
    **dict.fromkeys(("cumulative_sum", "cumulative_prod"), lambda d: _along(d, include_initial=(True, False))),
    **dict.fromkeys(("sort", "argsort"), lambda d: _along(d, stable=(True,))),
    **dict.fromkeys(("flip", "squeeze", "expand_dims"), _over),
    "unstack": _along,
    **dict.fromkeys(
        ("add", "multiply", "divide", "maximum", "less", "logical_or", "atan2", "bitwise_and", "isin"), _two
    ),
    **dict.fromkeys(("matmul", "vecdot"), _product),
    **dict.fromkeys(("sqrt", "abs", "negative", "isnan", "sign", "nonzero", "matrix_transpose"), _numbers),
    **dict.fromkeys(("tril", "triu"), lambda d: ([d.array()], _some(d, {"k": (0, 1, -1, 5)}))),
    **dict.fromkeys([f"fft.{name}" for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")], _transform),
    **dict.fromkeys([f"fft.{name}" for name in ("fftn", "ifftn", "rfftn", "irfftn")], _transform_over),
    **dict.fromkeys(("fft.fftshift", "fft.ifftshift"), _shift),
    **dict.fromkeys(("fft.fftfreq", "fft.rfftfreq"), lambda d: ([d.one(1, 2, 5, 0)], _some(d, {"d": (0.5, 2)}))),
    **dict.fromkeys(("linalg.outer", "linalg.cross"), _vectors),
    **dict.fromkeys(("linalg.trace", "linalg.diagonal"), lambda d: ([d.array()], _some(d, {"offset": (0, 1, -1, 5)}))),
    "linalg.matrix_power": _power,
    "linalg.vector_norm": _norm,
    "broadcast_to": _broadcast_to,
    "clip": _clip,
    "concat": _concat,
    "diff": _diff,
    "full": _full,
    "moveaxis": _moveaxis,
    "meshgrid": lambda d: (
        [d.array() for _ in range(d.random.randint(0, 3))],
        _some(d, {"indexing": ("xy", "ij", "x")}),
    ),
    "permute_dims": _permute_dims,
    "repeat": _repeat,
    "reshape": _reshape,
    "roll": _roll,
    "searchsorted": _searchsorted,
    "stack": _concat,
    "take": _take,
    "take_along_axis": _take_along_axis,
    "tensordot": _tensordot,
    "where": _where,
    "tile": lambda d: ([d.array(), d.one((2,), (1, 2), (), (0,), 2, [2, 1])], {}),
    "zeros": lambda d: (
        [d.one((), 3, (2, 0), [2, 2], -1, (1.0,), "a", np.int64(2))],
        _some(d, {"dtype": (*DTYPES, "nope")}),
    ),
    "arange": lambda d: (
        [d.one(0, 3, 2.5, -2, np.int8(3)) for _ in range(d.random.randint(1, 3))],
        _some(d, {"dtype": DTYPES[1:]}),
    ),
    "asarray": lambda d: (
        [d.one(300, [1, 2], [300, -1], 2**63, -(2**63), [[1], [2, 3]], [1j], [1.5], True)],
        _some(d, {"dtype": DTYPES}),
    ),
    "eye": lambda d: ([d.one(0, 1, 3, -1, 2.0), *d.one([], [2], [0])], _some(d, {"k": (0, 1, -1, 9)})),
    "linspace": lambda d: (
        [d.one(0, 1.5, -2), d.one(1, 3, 2.5), d.one(0, 1, 5, -1)],
        _some(d, {"endpoint": (True, False)}),
    ),
}
"""The arguments of each function."""
