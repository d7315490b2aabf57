"""``xferlib bench``: transfers, kernels and reductions beside the best ways of the other libraries.

`bench transfer` measures the usual copies at fixed sizes, `bench sweep` cases that it draws. Both time in the same way:
hot, the same call in a loop, and cold, each call after other work.

The obvious way, one loop behind the other, measures each beside what the one before has left: torch's threads spin for
some milliseconds behind a parallel loop, on all cores, and whichever library comes next shares them. So a loop begins
when no other thread runs. And the obvious way to wait is each library's own ``synchronize``. Those differ:
`torch.cuda.synchronize` takes some 6 us more than CuPy's, on the same idle device. So all wait by the driver's call.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import platform
import re
import shutil
import statistics
import sys
import time
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib import metadata, util
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

import xferlib as xl
from xferlib._cli.main import Command, align, argument, output_file, parse_seed, parse_size, progress, seconds
from xferlib._core.arrays import check_dtype, copy_into
from xferlib._core.dtypes import float_info, is_numpys, kind_of, name_of
from xferlib._runtime import threads
from xferlib.errors import ArgumentError, TransferError, XferError, quote
from xferlib.kernels import reductions

HostArray: TypeAlias = np.ndarray[Any, Any]
Run: TypeAlias = Callable[[], Any]
Runs: TypeAlias = dict[str, Run]
"""Complete uses of a library, from the call until the result is there, by name."""
Shape: TypeAlias = tuple[int, ...]


# Random cases. The same seed and number give the same case at each call.

LAYOUTS = ("contiguous", "contiguous", "transposed", "permuted", "every second row", "cropped", "reversed", "swapped")
_VIEWS = ("transposed", "permuted", "every second row", "cropped", "reversed")
_PERIOD = 65_537
_LEAST_ARRAY, _MOST_ARRAY = 4 << 10, 256 << 20
"""Bytes of the arrays of transfers."""
_LEAST, _MOST = 1 << 10, 64 << 20
"""Elements of the arrays that kernels and reductions take."""
_DTYPES = (
    "float32", "float64", "float16", "uint8", "int32", "int64", "bool", "int16", "complex64", "bfloat16", "bfloat16",
    "float8_e4m3fn", "float8_e5m2",
)  # fmt: skip
_WIDENED = {
    "uint8": ("float32",), "float16": ("float32",), "float32": ("float64",), "int16": ("float32",),
    "bfloat16": ("float32",), "float8_e4m3fn": ("float32", "bfloat16"), "float8_e5m2": ("float32", "bfloat16"),
}  # fmt: skip
_NARROWED = {
    "float64": ("float32",), "float32": ("float16", "bfloat16", "float8_e4m3fn"), "int64": ("float32",),
    "int32": ("float32",), "bfloat16": ("float8_e4m3fn", "float8_e5m2"),
}  # fmt: skip
_KERNEL_DTYPES = {
    "float32": "f", "float64": "f", "float16": "f", "int32": "i", "int64": "i", "uint8": "i", "int16": "i",
    "bool": "b", "complex64": "c", "bfloat16": "f", "float8_e4m3fn": "f", "float8_e5m2": "f",
}  # fmt: skip
_WITHOUT_ML_DTYPES = {"bfloat16": "float16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}
"""Drawn in their places where the package is not installed."""
_EXPRESSIONS = {
    "f": (
        "x * y + z", "x - y", "sqrt(abs(x) + 1)", "x * y + exp(-abs(x))", "tanh(x) * y - z", "x / (abs(y) + 1)",
        "log1p(abs(x)) * sin(y)", "maximum(x, y) + minimum(y, z)", "cos(x * 3) + y / 4", "(x + y) * (x - z)",
    ),
    "i": ("x * y + z", "x - y", "x * 3 + 7", "(x & y) ^ z", "maximum(x, y) - z", "minimum(x * 3, y + 7)"),
    "b": ("x & y", "x | y", "(x ^ y) & z"),
    "c": ("x * y + z", "x - y", "(x + y) * (x - z)"),
}  # fmt: skip
"""By the kind of dtype, expressions in the words of NumPy and torch, and but for two of C. A divisor and what is under
a root is at least 1, and an exponent negative, so that rounding errors stay small."""
_REDUCED_DTYPES = ("float32", "float32", "float32", "float16", "bfloat16", "float64", "int32", "int64", "uint8")
_REDUCTIONS = ("sum", "mean", "max", "min", "argmax", "any", "prod", "var", "norm")
_OF_FLOATS, _OF_ONE_AXIS = ("mean", "var", "norm"), ("argmax", "prod")
"""Those that torch has for floats alone, and for one axis or all."""
_TORCHS = {"min": "amin", "max": "amax"}
"""Its names for those of NumPy."""
_FUNCTIONS = ("abs", "cos", "exp", "log1p", "maximum", "minimum", "sin", "sqrt", "tanh")


def size_text(nbytes: int) -> str:
    """Bytes as a person writes them."""
    for unit, step in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if nbytes >= 1 << step:
            return f"{nbytes / (1 << step):.4g} {unit}"
    return f"{nbytes} B"


@dataclass(frozen=True, slots=True)
class Cut:
    """A view of memory in C order: its extents, the axes' order, and the part."""

    extents: Shape
    axes: Shape
    index: tuple[slice, ...]

    def of(self, memory: HostArray) -> HostArray:
        """The view of a host array of any shape."""
        return memory.reshape(self.extents).transpose(self.axes)[self.index]


def _cut(shape: Shape, layout: str, variant: int) -> Cut:
    """A view of that shape and layout; ``swapped`` is contiguous."""
    extents, order = list(shape), list(range(len(shape)))
    index = tuple(slice(None) for _ in shape)
    if layout == "transposed":
        order.reverse()
    elif layout == "permuted":
        order = np.random.default_rng(variant).permutation(len(shape)).tolist()
    elif layout == "every second row":
        extents[0] *= 2
        index = (slice(None, None, 2), *index[1:])
    elif layout == "cropped":
        extents = [extent + max(1, extent // 4) for extent in shape]
        index = tuple(slice(extent // 8, extent // 8 + extent) for extent in shape)
    elif layout == "reversed":
        index = (slice(None, None, -1), *index[1:])
    return Cut(tuple(extents[axis] for axis in order), tuple(np.argsort(order).tolist()), index)


def _name_here(name: str) -> str:
    """A dtype of the same size that is here; chosen last, so that the rest of a case is the same everywhere."""
    return _WITHOUT_ML_DTYPES.get(name, name) if util.find_spec("ml_dtypes") is None else name


def _numbers(count: int, dtype: np.dtype[Any], variant: int) -> HostArray:
    """Small numbers, which every dtype holds; their period is prime, so that no two blocks are the same."""
    chance = np.random.default_rng(variant)
    some = chance.integers(0, 2 if dtype.kind == "b" else 120, min(count, _PERIOD)).astype(dtype.newbyteorder("="))
    return np.resize(some, count).astype(dtype, copy=False)


def _draw_shape(size: float, axes: int, chance: np.random.Generator) -> Shape:
    """Extents whose product is about ``size``, of very different lengths."""
    return tuple(max(2, round(size**share)) for share in chance.dirichlet(np.full(axes, 2.0)))


def _draw_size(least: float, most: float, chance: np.random.Generator) -> float:
    """A log-uniform number."""
    return math.exp(chance.uniform(math.log(least), math.log(most)))


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferCase:
    """One array, copied in one direction."""

    name: str
    library: str
    """The backend of the device arrays that xferlib makes."""
    is_upload: bool
    is_new: bool
    """To a new array, rather than into one that is there."""
    is_pinned: bool = False
    layout: str = "contiguous"
    """Of the array on the host; of a download to a new array, nothing."""
    shape: Shape
    given: str
    """The dtype of the source."""
    wanted: str
    """The dtype that arrives."""
    variant: int = 0
    """Chooses among the layouts of that name, and the data."""

    @property
    def dtypes(self) -> frozenset[str]:
        return frozenset({self.given, self.wanted})

    @property
    def nbytes(self) -> int:
        """Bytes of the narrower side."""
        return math.prod(self.shape) * min(check_dtype(self.given).itemsize, check_dtype(self.wanted).itemsize)

    def __str__(self) -> str:
        ends = f"{'up' if self.is_upload else 'down'} to {'a new' if self.is_new else 'an existing'}"
        dtypes = self.given if self.given == self.wanted else f"{self.given} as {self.wanted}"
        memory = f"{'pinned ' * self.is_pinned}{self.layout}"
        return f"{size_text(self.nbytes)} {dtypes} {self.shape} {memory}, {ends} {self.library} array"

    def host_array(self, *, of_target: bool = False) -> HostArray:
        """A new array of the case's layout; of a download the target, with the dtype that arrives."""
        dtype, view = check_dtype(self.wanted if of_target else self.given), _cut(self.shape, self.layout, self.variant)
        if self.layout == "swapped":
            dtype = dtype.newbyteorder()
        memory = _numbers(math.prod(view.extents), dtype, self.variant)
        return view.of(xl.pinned_array(memory) if self.is_pinned else memory)

    @classmethod
    def draw(cls, seed: int, number: int, libraries: tuple[str, ...], most: int | None = None) -> TransferCase:
        """Draw a case, log-uniform in size from 4 KiB to ``most`` bytes, for one of the backends."""
        chance = np.random.default_rng([seed, number])
        nbytes = _draw_size(_LEAST_ARRAY, most or _MOST_ARRAY, chance)
        given = str(chance.choice(_DTYPES))
        is_upload, is_new = bool(chance.random() < 0.6), bool(chance.random() < 0.5)
        layout = str(chance.choice(LAYOUTS))
        # A result is contiguous, a target has the native order, and ml_dtypes' have one alone.
        if not is_upload and (is_new or layout == "swapped"):
            layout = "contiguous"
        if layout == "swapped" and given in _WITHOUT_ML_DTYPES:
            layout = "contiguous"
        wanted = given
        if chance.random() < 0.2:
            wanted = str(chance.choice((_WIDENED if chance.random() < 0.5 else _NARROWED).get(given, (given,))))
        is_pinned = layout == "contiguous" and bool(chance.random() < 0.25) and (is_upload or not is_new)
        axes = {"transposed": 2, "permuted": int(chance.integers(3, 6)), "cropped": int(chance.integers(2, 4))}.get(
            layout, int(chance.integers(1, 4))
        )
        shape = _draw_shape(
            nbytes / check_dtype(_name_here(given)).itemsize,
            max(axes, 2) if layout == "every second row" else axes,
            chance,
        )
        return cls(
            name=f"transfer:{seed}:{number}", library=libraries[number % len(libraries)], is_upload=is_upload,
            is_new=is_new, is_pinned=is_pinned, layout=layout, shape=shape, given=_name_here(given),
            wanted=_name_here(wanted), variant=int(chance.integers(1 << 31)),
        )  # fmt: skip


_MOST_ITEM, _ITEMS, _DISTINCT_NBYTES = 32 << 20, 40, 256 << 20
"""Bytes of the largest item of a loop, the number of its items, and the bytes of those that are distinct."""
_MOST_LEAF, _MOST_TREE, _MOST_LEAVES = 16 << 20, 160 << 20, 500
SOURCES = ("list", "generator", "pinned list")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefetchCase:
    """A loop over arrays of one size, with some small kernels for each."""

    name: str
    library: str
    source: str
    """Of `SOURCES`."""
    item_nbytes: int
    kernels: int
    dtypes = frozenset({"float32"})

    @property
    def nbytes(self) -> int:
        """Bytes of the whole loop."""
        return _ITEMS * self.item_nbytes

    def __str__(self) -> str:
        kernels = f"{self.kernels} kernel{'s' * (self.kernels > 1)}"
        return f"{_ITEMS} items of {size_text(self.item_nbytes)}, {self.source}, {kernels} each, {self.library}"

    @classmethod
    def draw(cls, seed: int, number: int, libraries: tuple[str, ...], most: int | None = None) -> PrefetchCase:
        """Draw a case, log-uniform in size from 4 KiB an item."""
        chance = np.random.default_rng([seed, number, 1])
        return cls(
            name=f"prefetch:{seed}:{number}", library=libraries[number % len(libraries)],
            source=str(chance.choice(SOURCES)), kernels=int(chance.integers(1, 13)),
            item_nbytes=int(_draw_size(_LEAST_ARRAY, min(most or _MOST_ITEM, _MOST_ITEM), chance)) // 4 * 4,
        )  # fmt: skip

    def make_source(self) -> Callable[[], Iterable[HostArray]]:
        """A function that gives the items anew for each loop."""
        count = self.item_nbytes // 4
        distinct = [
            np.full(count, number, np.float32) for number in range(max(3, min(_ITEMS, _DISTINCT_NBYTES // (4 * count))))
        ]
        if self.source == "pinned list":
            distinct = [xl.pinned_array(each, backend=self.library) for each in distinct]
        items = list(itertools.islice(itertools.cycle(distinct), _ITEMS))
        return (lambda: (item for item in items)) if self.source == "generator" else (lambda: items)

    def work(self, batch: Any) -> Any:
        """The consumer's work on one; sums of small whole numbers are exact."""
        for _ in range(self.kernels):
            batch = batch + 1
        return batch


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeCase:
    """A dict of float32 vectors, copied in one direction."""

    name: str
    library: str
    is_upload: bool
    is_pinned: bool
    """The host's end is."""
    sizes: tuple[int, ...]
    """Of the leaves, in elements."""
    dtypes = frozenset({"float32"})

    @property
    def nbytes(self) -> int:
        """Bytes of all leaves."""
        return 4 * sum(self.sizes)

    def __str__(self) -> str:
        least, most = size_text(4 * min(self.sizes)), size_text(4 * max(self.sizes))
        way = f"{'up' if self.is_upload else 'down'}{', pinned' * self.is_pinned}"
        return f"{len(self.sizes)} leaves of {least} to {most}, {way}, {self.library}"

    @classmethod
    def draw(cls, seed: int, number: int, libraries: tuple[str, ...], most: int | None = None) -> TreeCase:
        """Draw a case, log-uniform in the number of leaves and their size: all alike, or each for itself."""
        chance = np.random.default_rng([seed, number, 2])
        count = int(_draw_size(2, _MOST_LEAVES, chance))
        largest = _draw_size(16, min(most or _MOST_LEAF, _MOST_LEAF), chance)
        is_alike = bool(chance.random() < 0.5)
        sizes = np.array([largest if is_alike else _draw_size(8, largest, chance) for _ in range(count)])
        sizes *= min(1.0, _MOST_TREE / sizes.sum())
        return cls(
            name=f"tree:{seed}:{number}", library=libraries[number % len(libraries)],
            is_upload=bool(chance.random() < 0.5), is_pinned=bool(chance.random() < 0.5),
            sizes=tuple(max(2, int(size / 4)) for size in sizes),
        )  # fmt: skip

    def host_tree(self) -> dict[str, HostArray]:
        """New arrays, in the memory of an upload's source."""
        leaves = [np.full(size, number, np.float32) for number, size in enumerate(self.sizes)]
        if self.is_pinned and self.is_upload:
            leaves = [xl.pinned_array(each, backend=self.library) for each in leaves]
        return {f"leaf {number}": leaf for number, leaf in enumerate(leaves)}


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnArray:
    """One array of a kernel, which broadcasts to the shape of the result."""

    shape: Shape
    dtype: str
    layout: str = "contiguous"
    variant: int = 0
    """Chooses among the layouts of that name, and the data."""

    def host_array(self) -> HostArray:
        """The array on the host; floats are from 0 to 2."""
        dtype, view = check_dtype(self.dtype), _cut(self.shape, self.layout, self.variant)
        found = _numbers(math.prod(view.extents), dtype, self.variant)
        return view.of(found / dtype.type(64) if kind_of(dtype) in "fc" else found)

    @classmethod
    def draw(cls, chance: np.random.Generator, shape: Shape, dtype: str, library: str) -> DrawnArray:
        """Draw the layout: contiguous, half of the time."""
        layout = str(chance.choice(_VIEWS)) if chance.random() < 0.5 else "contiguous"
        if (layout == "reversed" and library == "torch") or (layout in ("transposed", "permuted") and len(shape) < 2):
            layout = "contiguous"  # a tensor has no negative strides
        return cls(shape=shape, dtype=dtype, layout=layout, variant=int(chance.integers(1 << 31)))


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCase:
    """An expression of one to three arrays, to a new one."""

    name: str
    library: str
    """The backend of the arrays that xferlib takes."""
    expression: str
    inputs: tuple[DrawnArray, ...]
    shape: Shape
    dtype: str

    @property
    def dtypes(self) -> frozenset[str]:
        return frozenset({self.dtype})

    @property
    def result(self) -> str:
        """The dtype of the result: of float8, which is no dtype to compute in, float32."""
        return "float32" if self.dtype.startswith("float8") else self.dtype

    @property
    def names(self) -> tuple[str, ...]:
        return ("x", "y", "z")[: len(self.inputs)]

    @property
    def nbytes(self) -> int:
        """Bytes read and written."""
        read = sum(math.prod(each.shape) for each in self.inputs) * check_dtype(self.dtype).itemsize
        return read + math.prod(self.shape) * check_dtype(self.result).itemsize

    def __str__(self) -> str:
        named = zip(self.names, self.inputs, strict=True)
        inputs = "; ".join(f"{name} {each.shape} {each.layout}" for name, each in named)
        return f"{self.expression}, {size_text(self.nbytes)} {self.dtype}, {inputs}, {self.library}"

    @classmethod
    def draw(cls, seed: int, number: int, libraries: tuple[str, ...], most: int | None = None) -> KernelCase:
        """Draw a kernel, log-uniform in size from 1 Ki elements to 64 Mi, or to ``most`` bytes of each array."""
        chance = np.random.default_rng([seed, number, 2])
        library, dtype = libraries[number % len(libraries)], _name_here(str(chance.choice(list(_KERNEL_DTYPES))))
        if dtype.startswith("float8") and "torch" in libraries:  # others have no arrays of it
            library = "torch"
        expression = str(chance.choice(_EXPRESSIONS[_KERNEL_DTYPES[dtype]]))
        room = _MOST if most is None else max(min(_MOST, most // check_dtype(dtype).itemsize), 2 * _LEAST)
        shape = _draw_shape(_draw_size(_LEAST, room, chance), int(chance.integers(1, 5)), chance)
        inputs = [DrawnArray.draw(chance, shape, dtype, library)]
        for _ in range(1, 1 + max("xyz".find(name) for name in "xyz" if re.search(rf"\b{name}\b", expression))):
            extents = _draw_broadcast(chance, shape) if chance.random() < 0.3 else shape
            inputs.append(DrawnArray.draw(chance, extents, dtype, library))
        return cls(
            name=f"kernel:{seed}:{number}", library=library, expression=expression, inputs=tuple(inputs), shape=shape,
            dtype=dtype,
        )  # fmt: skip

    def function(self, module: Any) -> Callable[..., Any]:
        """The expression by the functions of a module."""
        words = {name: getattr(module, name) for name in _FUNCTIONS}
        made: Callable[..., Any] = eval(f"lambda {', '.join(self.names)}: {self.expression}", words)  # noqa: S307 - ours
        made.__name__ = "sweep"
        return made

    def peer_function(self, module: Any) -> Callable[..., Any]:
        """The expression as users of that module write it: float8 is converted to float32 before they compute."""
        compute = self.function(module)
        if self.result == self.dtype:
            return compute
        widen = (lambda x: x.float()) if module.__name__ == "torch" else (lambda x: x.astype(np.float32))
        return lambda *given: compute(*map(widen, given))

    @property
    def c_text(self) -> str:
        """The expression in CUDA C++."""
        return re.sub(r"\b(max|min)imum\b", r"\1", self.expression)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionCase:
    """A reduction of one array along some axes, to a new array."""

    name: str
    library: str
    """The backend of the array that xferlib takes."""
    reduction: str
    """Its name in `xferlib.kernels.reductions`."""
    inputs: tuple[DrawnArray]
    axes: Shape

    c_text = None
    """No expression in CUDA C++."""

    @property
    def dtypes(self) -> frozenset[str]:
        return frozenset({self.inputs[0].dtype})

    @property
    def axis(self) -> Shape | int | None:
        """The axes as libraries take them: all are None, and one is a number."""
        if len(self.axes) == len(self.inputs[0].shape):
            return None
        return self.axes[0] if len(self.axes) == 1 else self.axes

    @property
    def nbytes(self) -> int:
        """Bytes read."""
        return math.prod(self.inputs[0].shape) * check_dtype(self.inputs[0].dtype).itemsize

    def __str__(self) -> str:
        (x,) = self.inputs
        return (
            f"{self.reduction} along {self.axes}, {size_text(self.nbytes)} {x.dtype}, {x.shape} {x.layout}, "
            f"{self.library}"
        )

    @classmethod
    def draw(cls, seed: int, number: int, libraries: tuple[str, ...], most: int | None = None) -> ReductionCase:
        """Draw a reduction of 1 Ki elements to 64 Mi, or to ``most`` bytes, along any of the axes of up to four."""
        chance = np.random.default_rng([seed, number, 3])
        library, dtype = libraries[number % len(libraries)], _name_here(str(chance.choice(_REDUCED_DTYPES)))
        words = [word for word in _REDUCTIONS if word not in _OF_FLOATS or kind_of(check_dtype(dtype)) == "f"]
        word, rank = str(chance.choice(words)), int(chance.integers(1, 5))
        room = _MOST if most is None else max(min(_MOST, most // check_dtype(dtype).itemsize), 2 * _LEAST)
        size = _draw_size(_LEAST, room, chance)
        shape = tuple(max(1, round(size**share)) for share in chance.dirichlet(np.full(rank, 0.8)))
        axes = chance.permutation(rank)[: int(chance.integers(1, rank + 1))].tolist()
        if word in _OF_ONE_AXIS and len(axes) < rank:
            del axes[1:]
        given = DrawnArray.draw(chance, shape, dtype, library)
        return cls(
            name=f"reduction:{seed}:{number}", library=library, reduction=word, inputs=(given,),
            axes=tuple(sorted(axes)),
        )  # fmt: skip

    def function(self, module: Any) -> Callable[[Any], Any]:
        """The reduction by the functions of a module."""
        axis, word = self.axis, self.reduction
        if module.__name__ == "torch":
            found = module.linalg.vector_norm if word == "norm" else getattr(module, _TORCHS.get(word, word))
            options: dict[str, Any] = {"correction": 0} if word == "var" else {}
            options |= {} if axis is None and word in _OF_ONE_AXIS else {"dim": self.axes if axis is None else axis}
            return partial(found, **options)
        if word != "norm":
            return partial(getattr(module, word), axis=axis)
        if isinstance(axis, tuple):  # which `linalg.norm` takes for a matrix
            return lambda x: module.sqrt(module.sum(x * x, axis=axis))
        return partial(module.linalg.norm, axis=axis)

    peer_function = function


def _draw_broadcast(chance: np.random.Generator, shape: Shape) -> Shape:
    """A shape that broadcasts to it: without its first axes, or with extents of 1."""
    if len(shape) > 1 and chance.random() < 0.5:
        return shape[int(chance.integers(1, len(shape))) :]
    is_whole = chance.random(len(shape)) < 0.5
    is_whole[int(chance.integers(len(shape)))] = False
    return tuple(extent if whole else 1 for extent, whole in zip(shape, is_whole, strict=True))


_PROGRAMS = {
    "softplus": "log1p(exp(-abs(x))) + x",
    "norm": "sqrt(sum(x * x))",
    "centre": "(x - mean(x, axis=0)) / std(x, axis=0)",
    "scan": "cumulative_sum(x, axis=-1)",
    "sort": "sort(x, axis=-1)",
    "matmul": "x @ y",
}  # fmt: skip
"""In the words of the Array API, which the peers spell as `Words` does."""
_LEAST_PROGRAM, _MOST_PROGRAM = 8, 4_000_000
"""Elements of the arrays of programs."""


class Words:
    """The functions of programs in a library's own module, by the Array API's names."""

    def __init__(self, module: Any) -> None:
        names = ("abs", "exp", "log1p", "mean", "sqrt", "std", "sum", "sort")
        self.functions: dict[str, Callable[..., Any]] = {name: getattr(module, name) for name in names}
        self.functions["cumulative_sum"] = getattr(module, "cumulative_sum", None) or module.cumsum
        if module.__name__ == "torch":
            self.functions |= {
                "std": partial(module.std, correction=0), "sort": lambda x, axis: module.sort(x, dim=axis).values
            }  # fmt: skip

    def function(self, program: str) -> Callable[..., Any]:
        """A program as a function of its arrays."""
        names = ", ".join(_array_names(program))
        made: Callable[..., Any] = eval(f"lambda {names}: {program}", self.functions)  # noqa: S307 - ours
        return made


def _array_names(program: str) -> list[str]:
    return [name for name in "xy" if re.search(rf"\b{name}\b", program)]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceCase:
    """A program of a few functions of a namespace that xferlib makes, beside other libraries' own modules."""

    name: str
    library: str
    """The backend of the arrays that xferlib takes."""
    program: str
    shapes: tuple[Shape, ...]
    dtype: str
    variant: int

    @property
    def dtypes(self) -> frozenset[str]:
        return frozenset({self.dtype})

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that are given."""
        return sum(map(math.prod, self.shapes)) * check_dtype(self.dtype).itemsize

    def __str__(self) -> str:
        shapes = ", ".join(map(str, self.shapes))
        return f"{self.program}: {_PROGRAMS[self.program]}, {self.dtype} {shapes}, {self.library}"

    def host_arrays(self) -> list[HostArray]:
        """The arrays on the host, of random numbers."""
        chance, dtype = np.random.default_rng(self.variant), np.dtype(self.dtype)
        scale = 1 if dtype.kind == "f" else 1000
        return [(chance.standard_normal(shape) * scale).astype(dtype) for shape in self.shapes]

    @classmethod
    def draw(cls, seed: int, number: int, libraries: tuple[str, ...], most: int | None = None) -> NamespaceCase:
        """Draw a program, log-uniform in size from 8 elements to 4 million, or to ``most`` bytes of each array."""
        chance = np.random.default_rng([seed, number, 3])
        program = str(chance.choice(list(_PROGRAMS)))
        kinds = ("float32", "float64", "int32", "int64") if program in ("scan", "sort") else ("float32", "float64")
        dtype = str(chance.choice(kinds))
        room = min(_MOST_PROGRAM, (most or 1 << 40) // check_dtype(dtype).itemsize)
        if program == "matmul":
            first, second, third = (_draw_size(1, math.sqrt(room), chance) for _ in range(3))
            rows, inner, columns = (max(int(extent), 1) for extent in (first, second, third))
            shapes: tuple[Shape, ...] = ((rows, inner), (inner, columns))
        else:
            axes = 2 if chance.random() < 0.25 else 1
            shapes = (_draw_shape(_draw_size(_LEAST_PROGRAM, room, chance), axes, chance),)
        return cls(
            name=f"namespace:{seed}:{number}", library="pycuda" if "cupy" in libraries else "sim", program=program,
            shapes=shapes, dtype=dtype, variant=int(chance.integers(1 << 31)),
        )  # fmt: skip


# Libraries, each with every way that its users know to make a transfer or to compute an expression.
#
# A way is complete: from the call to the arrival of the data. It takes the source as it is: what a library cannot take
# directly, such as a negative stride, is made contiguous first, within the time; what it compiles, it compiles before.


def wait_for(device: xl.Device) -> Callable[[], None] | None:
    """The call that waits for all work on the device, of every library; None for a CPU, where a call ends its work.

    On a GPU it is the driver's ``cuCtxSynchronize`` in the primary context, which all libraries share: the least that
    each one's own wait does.
    """
    if device.kind == "cpu":
        return None
    if device.kind != "cuda":
        return device.synchronize
    from xferlib.backends.cuda.driver import context_synchronize

    def wait() -> None:
        if status := context_synchronize():
            raise TransferError(f"{device}: cuCtxSynchronize returned error {status}; an earlier call has failed")

    return wait


class ArrayLibrary:
    """A library on a device: the ways that it has. A missing way is left out."""

    name: str
    module: Any = None

    def __init__(self, place: xl.Device) -> None:
        self.place = place
        self.has_pinned = place.kind == "cuda"
        self._wait = wait_for(place)

    def wait_after(self, run: Run) -> Run:
        """A run that ends when the device has done its work."""
        wait = self._wait
        if wait is None:
            return run

        def run_and_wait() -> Any:
            result = run()
            wait()
            return result

        return run_and_wait

    def transfers(self, case: TransferCase, source: HostArray, out: HostArray | None) -> Runs:
        """Ways to the device, each until the data are there; or to the host, into ``out`` if given."""
        if not case.is_upload:
            return self.down(case, source, out)
        return {name: self.wait_after(run) for name, run in self.up(case, source).items()}

    def up(self, case: TransferCase, source: HostArray) -> Runs:
        raise NotImplementedError("no transfers")

    def down(self, case: TransferCase, source: HostArray, out: HostArray | None) -> Runs:
        raise NotImplementedError("no transfers")

    def send(self, source: HostArray) -> Any:
        """The library's usual upload of one array, as a plain loop has it."""
        raise NotImplementedError("no loops")

    def loops(self, case: PrefetchCase, source: Callable[[], Iterable[HostArray]]) -> Runs:
        """Ways of a loop, each of which returns what the last item became when the device has done its work."""

        def plain() -> Any:
            done = None
            for item in source():
                done = case.work(self.send(item))
            return done

        by_hand = {} if case.source == "pinned list" else self.by_hand(case, source)
        return {name: self.wait_after(run) for name, run in {"plain loop": plain, **by_hand}.items()}

    def by_hand(self, case: PrefetchCase, source: Callable[[], Iterable[HostArray]]) -> Runs:
        """Loops with pinned buffers of the program's own."""
        return {}

    def trees(self, case: TreeCase, tree: dict[str, HostArray]) -> Runs:
        """Ways of a tree, up or down, each until it is there; a result may share memory with the next one's."""
        if case.is_upload:
            runs = {"one by one": lambda: {name: self.send(leaf) for name, leaf in tree.items()}, **self.up_flat(tree)}
            return {name: self.wait_after(run) for name, run in runs.items()}
        held = {name: self.send(leaf) for name, leaf in tree.items()}
        return {"one by one": lambda: {name: self.fetch(leaf) for name, leaf in held.items()}, **self.down_flat(held)}

    def fetch(self, array: Any) -> Any:
        """The library's usual download of one array."""
        raise NotImplementedError("no trees")

    def up_flat(self, tree: dict[str, HostArray]) -> Runs:
        """Ways by one buffer for all leaves."""
        return {}

    def down_flat(self, held: dict[str, Any]) -> Runs:
        """Likewise to the host."""
        return {}

    def array(self, source: HostArray) -> Any:
        """A new array in C order on the device."""
        raise NotImplementedError("no kernels")

    def permute(self, array: Any, axes: Shape) -> Any:
        """A view with the axes in another order."""
        return array.transpose(axes)

    def operand(self, given: DrawnArray, values: HostArray) -> Any:
        """The array of a kernel's operand, in its layout."""
        view = _cut(given.shape, given.layout, given.variant)
        memory = np.zeros(view.extents, check_dtype(given.dtype))
        view.of(memory)[...] = values
        return self.permute(self.array(memory), view.axes)[view.index]

    def kernels(self, case: KernelCase | ReductionCase, inputs: list[Any]) -> Runs:
        """Ways to compute an expression or a reduction, each until the result is there."""
        return {name: self.wait_after(partial(run, *inputs)) for name, run in self.compile(case, inputs).items()}

    def compile(self, case: KernelCase | ReductionCase, inputs: list[Any]) -> dict[str, Callable[..., Any]]:
        """The functions that compute it, of which one is a call of the library for each step."""
        return {"eager": case.peer_function(self.module)}


class Xferlib(ArrayLibrary):
    """xferlib, making or reading the arrays of one backend."""

    def __init__(self, backend: str) -> None:
        self.name = f"xferlib ({backend})"
        super().__init__(xl.get_device(backend))

    def up(self, case: TransferCase, source: HostArray) -> Runs:
        words = _conversion(case)
        if case.is_new:
            return {"to_device": lambda: xl.to_device(source, device=self.place, **words)}
        target = xl.empty(case.shape, case.wanted, device=self.place)
        return {"to_device(out=)": lambda: xl.to_device(source, out=target, **words)}

    def down(self, case: TransferCase, source: HostArray, out: HostArray | None) -> Runs:
        words, held = _conversion(case), xl.to_device(source, device=self.place)
        self.place.synchronize()
        if out is None:
            return {"to_host": lambda: xl.to_host(held, **words)}
        return {"to_host(out=)": lambda: xl.to_host(held, out=out, **words)}

    def loops(self, case: PrefetchCase, source: Callable[[], Iterable[HostArray]]) -> Runs:
        def run() -> Any:
            done = None
            with xl.prefetch(source(), device=self.place) as batches:
                for batch in batches:
                    done = case.work(batch)
            return done

        return {"prefetch": self.wait_after(run)}

    def trees(self, case: TreeCase, tree: dict[str, HostArray]) -> Runs:
        if case.is_upload:
            return {"tree.to_device": self.wait_after(lambda: xl.tree.to_device(tree, device=self.place))}
        held = xl.tree.to_device(tree, device=self.place)
        self.place.synchronize()
        return {"tree.to_host": lambda: xl.tree.to_host(held, pinned=case.is_pinned)}

    def array(self, source: HostArray) -> Any:
        return xl.to_device(source, device=self.place)


def _conversion(case: TransferCase) -> dict[str, Any]:
    return {} if case.given == case.wanted else {"dtype": case.wanted}


class Numpy(ArrayLibrary):
    """NumPy: a plain copy in host memory, the peer where there is no GPU.

    A tensor stays one: its copy ends with `torch.from_numpy`, or begins with ``numpy()``, which share its memory.
    """

    name = "numpy"
    module: Any = np

    def __init__(self) -> None:
        super().__init__(xl.get_device("numpy"))

    def up(self, case: TransferCase, source: HostArray) -> Runs:
        from_numpy: Callable[[HostArray], Any] = np.asarray
        numpy: Callable[[Any], HostArray] = np.asarray
        if case.library == "torch":
            import torch

            from_numpy, numpy = partial(_tensor_over, torch), partial(_array_over, torch)
        if case.is_new:
            return {"array": lambda: from_numpy(np.array(source, case.wanted, order="C"))}
        target = from_numpy(np.empty(case.shape, case.wanted))
        return {"copyto": lambda: np.copyto(numpy(target), source, casting="unsafe")}

    def down(self, case: TransferCase, source: HostArray, out: HostArray | None) -> Runs:
        held = np.ascontiguousarray(source)
        if out is None:
            return {"array": lambda: np.array(held, case.wanted, order="C")}
        return {"copyto": lambda: np.copyto(out, held, casting="unsafe")}

    def send(self, source: HostArray) -> Any:
        return source.copy()

    def fetch(self, array: Any) -> Any:
        return array.copy()

    def array(self, source: HostArray) -> Any:
        return np.array(source, order="C")


class Cupy(ArrayLibrary):
    """CuPy: ``asarray``, ``set`` and ``get``."""

    name = "cupy"

    def __init__(self) -> None:
        import cupy

        super().__init__(xl.get_device("cupy"))
        self.module = cupy

    def up(self, case: TransferCase, source: HostArray) -> Runs:
        cp, wanted = self.module, case.wanted
        native: Run = lambda: source if source.dtype.isnative else source.astype(source.dtype.newbyteorder("="))
        arrays: Runs = {"asarray": lambda: cp.asarray(native())}
        if case.given != wanted:
            arrays = {
                "asarray, then astype": lambda: cp.asarray(native()).astype(wanted),
                "astype, then asarray": lambda: cp.asarray(source.astype(wanted)),
            }
        if case.is_new:
            return arrays
        target = cp.empty(case.shape, wanted)
        return {"set": lambda: target.set(np.ascontiguousarray(source, wanted)), **_assign_to(target, arrays)}

    def down(self, case: TransferCase, source: HostArray, out: HostArray | None) -> Runs:
        held, wanted = self.module.asarray(np.ascontiguousarray(source)), case.wanted
        gets: Runs = {"get": held.get}
        if case.given != wanted:
            gets = {
                "astype, then get": lambda: held.astype(wanted).get(),
                "get, then astype": lambda: held.get().astype(wanted),
            }
        if out is None:
            return gets
        if case.given == wanted and out.flags.c_contiguous and out.dtype.isnative:
            return {"get(out=)": lambda: held.get(out=out)}
        return _assign_to(out, gets)

    def send(self, source: HostArray) -> Any:
        return self.module.asarray(source)

    def fetch(self, array: Any) -> Any:
        return array.get()

    def by_hand(self, case: PrefetchCase, source: Callable[[], Iterable[HostArray]]) -> Runs:
        cp, count = self.module, case.item_nbytes // 4
        pinned = [cp.cuda.alloc_pinned_memory(case.item_nbytes) for _ in range(2)]
        buffers = [np.frombuffer(memory, np.float32, count) for memory in pinned]
        events = [cp.cuda.Event(disable_timing=True) for _ in range(2)]

        def run() -> Any:
            done, stream = None, cp.cuda.get_current_stream()
            for item, buffer, event in zip(source(), itertools.cycle(buffers), itertools.cycle(events), strict=False):
                event.synchronize()
                buffer[:] = item
                there = cp.empty(count, np.float32)
                there.set(buffer, stream=stream)
                event.record(stream)
                done = case.work(there)
            return done

        return {"two pinned buffers": run}

    def up_flat(self, tree: dict[str, HostArray]) -> Runs:
        cp, sizes = self.module, [leaf.size for leaf in tree.values()]
        buffer = np.frombuffer(cp.cuda.alloc_pinned_memory(4 * sum(sizes)), np.float32, sum(sizes))

        def run() -> Any:
            np.concatenate(list(tree.values()), out=buffer)
            there = cp.empty(len(buffer), np.float32)
            there.set(buffer)
            return dict(zip(tree, _split(there, sizes), strict=True))

        return {"a flat buffer": run}

    def down_flat(self, held: dict[str, Any]) -> Runs:
        sizes = [leaf.size for leaf in held.values()]

        def run() -> Any:
            return dict(zip(held, _split(self.module.concatenate(list(held.values())).get(), sizes), strict=True))

        return {"concatenate": run}

    def array(self, source: HostArray) -> Any:
        return self.module.array(source, order="C")

    def compile(self, case: KernelCase | ReductionCase, inputs: list[Any]) -> dict[str, Callable[..., Any]]:
        if isinstance(case, ReductionCase):
            return super().compile(case, inputs)
        parameters = ", ".join(f"T {name}" for name in case.names)
        kernel = self.module.ElementwiseKernel(parameters, "T out", f"out = {case.c_text}", "sweep")
        return {**super().compile(case, inputs), "ElementwiseKernel": kernel}


def _split(array: Any, sizes: list[int]) -> list[Any]:
    """Views of these numbers of elements, one behind the other."""
    ends = list(itertools.accumulate(sizes))
    return [array[end - size : end] for size, end in zip(sizes, ends, strict=True)]


def _assign_to(out: Any, gets: Runs) -> Runs:
    """The same, into an array that is there."""

    def assign(get: Run) -> None:
        out[...] = get()

    return {f"{name}, assigned": partial(assign, get) for name, get in gets.items()}


def _tensor_over(torch: Any, array: HostArray) -> Any:
    """The tensor over the memory of an array; of small floats too, which `torch.from_numpy` refuses."""
    if is_numpys(array.dtype):
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(f"i{array.itemsize}")).view(getattr(torch, name_of(array.dtype)))


def _array_over(torch: Any, tensor: Any) -> HostArray:
    """The array over the memory of a tensor on the CPU."""
    found = check_dtype(tensor.dtype)
    integers = torch.int16 if found.itemsize == 2 else torch.int8
    array: HostArray = tensor.numpy() if is_numpys(found) else tensor.view(integers).numpy().view(found)
    return array


class Torch(ArrayLibrary):
    """PyTorch on the current GPU, or on the CPU: with and without ``pin_memory`` and ``non_blocking``."""

    name = "torch"

    def __init__(self, device: str = "cuda", *, compiles: bool = False) -> None:
        import torch

        super().__init__(xl.get_device(f"torch:{device}"))
        self.module, self.device, self._compiles = torch, device, compiles

    def _tensor(self, array: HostArray) -> Any:
        if not array.dtype.isnative or any(stride < 0 for stride in array.strides):
            array = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
        return _tensor_over(self.module, array)

    def up(self, case: TransferCase, source: HostArray) -> Runs:
        torch, device, tensor = self.module, self.device, self._tensor
        wanted = getattr(torch, case.wanted)
        if case.is_new:
            options = {"non_blocking": True, "copy": True, "memory_format": torch.contiguous_format}
            runs: Runs = {"to": lambda: tensor(source).to(device, **options).to(wanted)}
            if case.given != case.wanted:
                runs["dtype first"] = lambda: tensor(source).to(wanted).to(device, non_blocking=True)
            pinned = lambda: tensor(source).to(wanted).contiguous().pin_memory().to(device, non_blocking=True)
        else:
            target = torch.empty(case.shape, dtype=wanted, device=device)
            runs = {"copy_": lambda: target.copy_(tensor(source), non_blocking=True)}
            pinned = lambda: target.copy_(tensor(source).contiguous().pin_memory(), non_blocking=True)
        return runs | ({"pin_memory first": pinned} if self.has_pinned and not case.is_pinned else {})

    def down(self, case: TransferCase, source: HostArray, out: HostArray | None) -> Runs:
        held = self._tensor(source).contiguous().to(self.device, copy=True)
        wanted = getattr(self.module, case.wanted)
        if out is None:
            runs: Runs = {"cpu": lambda: held.to(wanted).to("cpu", copy=not self.has_pinned)}
            return runs if case.given == case.wanted else runs | {"dtype last": lambda: held.cpu().to(wanted)}
        if out.dtype.isnative and all(stride >= 0 for stride in out.strides):
            target = _tensor_over(self.module, out)
            return {"copy_": lambda: target.copy_(held)}
        return {"cpu, assigned": lambda: np.copyto(out, _array_over(self.module, held.to(wanted).cpu()))}

    def send(self, source: HostArray) -> Any:
        return self.module.from_numpy(source).to(self.device, non_blocking=True, copy=True)

    def fetch(self, array: Any) -> Any:
        return array.to("cpu", copy=not self.has_pinned)

    def by_hand(self, case: PrefetchCase, source: Callable[[], Iterable[HostArray]]) -> Runs:
        if not self.has_pinned:
            return {}
        torch, count = self.module, case.item_nbytes // 4
        buffers = [torch.empty(count, pin_memory=True) for _ in range(2)]
        events, side = [torch.cuda.Event() for _ in range(2)], torch.cuda.Stream()

        def fill(item: HostArray, number: int) -> Any:
            events[number % 2].synchronize()
            return buffers[number % 2].copy_(torch.from_numpy(item))

        def run() -> Any:
            done = None
            for number, item in enumerate(source()):
                there = fill(item, number).to(self.device, non_blocking=True)
                events[number % 2].record()
                done = case.work(there)
            return done

        def run_beside() -> Any:
            done, ahead, current = None, None, torch.cuda.current_stream()
            for number, item in enumerate(itertools.chain(source(), (None,))):
                before, ahead = ahead, None
                if item is not None:
                    staged = fill(item, number)
                    with torch.cuda.stream(side):
                        ahead = staged.to(self.device, non_blocking=True)
                        events[number % 2].record()
                if before is not None:
                    current.wait_event(events[(number - 1) % 2])
                    before.record_stream(current)
                    done = case.work(before)
            return done

        return {"two pinned buffers": run, "two pinned buffers and a stream": run_beside}

    def up_flat(self, tree: dict[str, HostArray]) -> Runs:
        torch, sizes = self.module, [leaf.size for leaf in tree.values()]
        buffer = torch.empty(sum(sizes), pin_memory=self.has_pinned)
        flat = buffer.numpy()

        def run() -> Any:
            np.concatenate(list(tree.values()), out=flat)
            return dict(zip(tree, self.send(flat).split(sizes), strict=True))

        def run_cat() -> Any:
            there = torch.cat([torch.from_numpy(leaf) for leaf in tree.values()]).to(self.device, copy=True)
            return dict(zip(tree, there.split(sizes), strict=True))

        return {"a flat buffer": run, "cat": run_cat}

    def down_flat(self, held: dict[str, Any]) -> Runs:
        torch, sizes = self.module, [leaf.numel() for leaf in held.values()]

        def run_cat() -> Any:
            return dict(zip(held, torch.cat(list(held.values())).cpu().split(sizes), strict=True))

        def run() -> Any:
            buffer = torch.empty(sum(sizes), pin_memory=True)
            buffer.copy_(torch.cat(list(held.values())), non_blocking=True)
            torch.cuda.current_stream().synchronize()
            return dict(zip(held, buffer.split(sizes), strict=True))

        return {"cat": run_cat, "a flat buffer": run} if self.has_pinned else {"cat": run_cat}

    def array(self, source: HostArray) -> Any:
        return _tensor_over(self.module, np.ascontiguousarray(source)).to(self.device, copy=True)

    def permute(self, array: Any, axes: Shape) -> Any:
        return array.permute(axes)

    def compile(self, case: KernelCase | ReductionCase, inputs: list[Any]) -> dict[str, Callable[..., Any]]:
        ways = super().compile(case, inputs)
        if self._compiles:
            self.module._dynamo.reset()  # behind eight functions torch gives up, and looks slower than it is
            ways["compile"] = self.module.compile(ways["eager"], dynamic=False)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ways["compile"](*inputs)
        return ways


class Pycuda(ArrayLibrary):
    """PyCUDA in the primary context, as the others: ``to_gpu``, ``set`` and ``get`` of contiguous arrays."""

    name = "pycuda"

    def __init__(self) -> None:
        super().__init__(xl.get_device("pycuda"))  # makes the context
        import pycuda.gpuarray

        self.module = pycuda.gpuarray

    def up(self, case: TransferCase, source: HostArray) -> Runs:
        if not source.flags.c_contiguous:
            raise TypeError("only contiguous arrays")
        if case.is_new:
            return {"to_gpu": lambda: self.module.to_gpu(source.astype(case.wanted, copy=False))}
        target = self.module.empty(case.shape, case.wanted)
        return {"set": lambda: target.set(source.astype(case.wanted, copy=False))}

    def down(self, case: TransferCase, source: HostArray, out: HostArray | None) -> Runs:
        held = self.module.to_gpu(np.ascontiguousarray(source))
        return {"get": held.get} if out is None else {"get(out)": lambda: held.get(out)}

    def send(self, source: HostArray) -> Any:
        return self.module.to_gpu(source)

    def fetch(self, array: Any) -> Any:
        return array.get()


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    """The libraries here that xferlib is compared with."""

    libraries: dict[str, ArrayLibrary]
    is_gpu: bool
    absent: dict[str, str]
    """Those that are not here, with the reason."""


def find_peers(*names: str, compiles: bool = False, on_gpu: bool = True) -> Peers:
    """Those of the libraries that see a GPU; if none does, NumPy, and torch on the CPU if it is among the names."""
    states = xl.available_backends()
    found = [name for name in names if on_gpu and any(":cuda:" in device for device in states[name].devices)]
    is_gpu = bool(found)
    if not is_gpu:
        found = ["numpy", *(name for name in ("torch",) if name in names and states[name].is_available)]
    absent = {name: states[name].reason or "no CUDA device" for name in names if name not in found}
    if compiles and "torch" in found:  # a reason why ``torch.compile`` is left out
        compilers = ("cc", "gcc", "clang") if is_gpu else ("g++", "clang++")
        if not any(map(shutil.which, compilers)):
            absent["torch.compile"] = "no C compiler" if is_gpu else "no C++ compiler"
        elif is_gpu and util.find_spec("triton") is None:
            absent["torch.compile"] = "Triton is not installed"
        compiles = "torch.compile" not in absent
    made: dict[str, Callable[[], ArrayLibrary]] = {
        "numpy": Numpy, "cupy": Cupy, "pycuda": Pycuda,
        "torch": lambda: Torch("cuda" if is_gpu else "cpu", compiles=compiles),
    }  # fmt: skip
    return Peers(libraries={name: made[name]() for name in found}, is_gpu=is_gpu, absent=absent)


# A case that is ready to be timed: the ways of each library, and how a result is checked.

Case: TypeAlias = TransferCase | KernelCase | ReductionCase | PrefetchCase | TreeCase | NamespaceCase
_CHECKED = 1 << 18
"""Elements of a kernel's result that are compared."""
_RECOMPUTED = 1 << 24
"""Elements that a CPU reduces again, or those of one result, if they are more."""
_ROOM = 64
"""How many ulp a result may be away from NumPy's: each step errs by some, of numbers from 0 to 12."""


class Key(NamedTuple):
    """A way of a library."""

    library: str
    way: str


@dataclass(slots=True, kw_only=True)
class Trial:
    """The ways of one case."""

    subject: str
    """xferlib, named with its backend."""
    find_problem: Callable[[Any], str]
    """Tells why a result of xferlib's is wrong; empty if it is right."""
    change: Callable[[], None] = lambda: None
    """Called before each run: writes other data."""
    ways: dict[Key, Run] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    """The reason why a library or a way is left out."""

    def add(self, library: str, make: Callable[[], Runs]) -> None:
        """Add the ways of a library, unless it refuses the case; each of a peer's is tried once."""
        try:
            found = make()
        except Exception as error:  # each library has errors of its own
            self.absent[library] = reason(error)
            return
        for name, run in found.items():
            try:
                if library != self.subject:
                    run()
                self.ways[Key(library, name)] = run
            except Exception as error:
                self.absent[f"{library}, {name}"] = reason(error)


def reason(error: BaseException) -> str:
    """The first line of an error, with its type."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


def try_transfer(case: TransferCase, peers: Peers) -> Trial:
    """Make ready a copy of one array; it has other data each time."""
    source = case.host_array() if case.is_upload else replace(case, layout="contiguous", is_pinned=False).host_array()
    out = None if case.is_upload or case.is_new else case.host_array(of_target=True)
    values, origin = itertools.cycle((0, 1)), (0,) * source.ndim
    own = Xferlib(case.library)

    def change() -> None:
        source[origin] = next(values)

    def find_problem(result: Any) -> str:
        expected = np.empty(case.shape, case.wanted)
        copy_into(expected, source)
        return "" if np.array_equal(xl.to_host(result) if case.is_upload else result, expected) else "the bits differ"

    trial = Trial(subject=own.name, find_problem=find_problem, change=change)
    for library in (own, *peers.libraries.values()):
        trial.add(library.name, partial(library.transfers, case, source, out))
    return trial


def try_prefetch(case: PrefetchCase, peers: Peers) -> Trial:
    """Make ready a loop over items that stay as they are, for the library whose kernels are its consumer's."""
    own, source = Xferlib(case.library), case.make_source()
    expected = case.work(list(source())[-1])

    def find_problem(result: Any) -> str:
        return "" if np.array_equal(xl.to_host(result), expected) else "the last item differs"

    trial = Trial(subject=own.name, find_problem=find_problem)
    for library in (own, peers.libraries[case.library]):
        trial.add(library.name, partial(library.loops, case, source))
    return trial


def try_tree(case: TreeCase, peers: Peers) -> Trial:
    """Make ready the copies of a tree that stays as it is."""
    own, tree = Xferlib(case.library), case.host_tree()

    def find_problem(result: Any) -> str:
        found = xl.tree.to_host(result)
        wrong = [name for name, leaf in tree.items() if not np.array_equal(found[name], leaf)]
        return f"{wrong[0]} differs" if wrong else ""

    trial = Trial(subject=own.name, find_problem=find_problem)
    for library in (own, peers.libraries[case.library]):
        trial.add(library.name, partial(library.trees, case, tree))
    return trial


def try_kernel(case: KernelCase, peers: Peers) -> Trial:
    """Make ready a kernel on arrays that stay as they are: its time does not depend on them."""
    kernel = xl.elementwise(case.function(np), name="sweep")
    host = [each.host_array() for each in case.inputs]
    return _try_computation(case, peers, host, {"elementwise": kernel}, partial(_find_difference, case, kernel, host))


def try_reduction(case: ReductionCase, peers: Peers) -> Trial:
    """Make ready a reduction of an array that stays as it is."""
    reduce = partial(getattr(reductions, case.reduction), axis=case.axis)
    host = [each.host_array() for each in case.inputs]
    return _try_computation(case, peers, host, {"reductions": reduce}, partial(_find_other_bits, case, reduce, *host))


def _find_other_bits(case: ReductionCase, reduce: Callable[..., Any], host: HostArray, result: Any) -> str:
    """Compare some results with the CPU's bits."""
    arrived, index = xl.to_host(result), [slice(0, extent) for extent in host.shape]
    kept = [axis for axis in range(host.ndim) if axis not in case.axes]
    while kept and math.prod(each.stop for each in index) > _RECOMPUTED:
        longest = max(kept, key=lambda axis: index[axis].stop)
        if index[longest].stop == 1:
            break
        index[longest] = slice(0, index[longest].stop // 2)
    expected = np.asarray(reduce(host[tuple(index)]))
    if arrived.ndim != len(kept) or arrived.shape != tuple(host.shape[axis] for axis in kept):
        return f"the result is {arrived.dtype} {arrived.shape}"
    found = np.ascontiguousarray(arrived[tuple(index[axis] for axis in kept)])
    return "" if found.tobytes() == expected.tobytes() else "the bits differ from the CPU's"


def _try_computation(
    case: KernelCase | ReductionCase,
    peers: Peers,
    host: list[HostArray],
    ways: dict[str, Callable[..., Any]],
    find_problem: Callable[[Any], str],
) -> Trial:
    """The trial of what xferlib does in these ``ways``, beside the peers'."""
    own = Xferlib(case.library)
    trial = Trial(subject=own.name, find_problem=find_problem)

    def make(library: ArrayLibrary) -> Runs:
        """The library's own ways; and xferlib's, if these are its arrays."""
        inputs = [library.operand(each, values) for each, values in zip(case.inputs, host, strict=True)]
        if library.name == case.library:
            trial.add(own.name, lambda: {name: own.wait_after(partial(way, *inputs)) for name, way in ways.items()})
        return library.kernels(case, inputs)

    for library in sorted(peers.libraries.values(), key=lambda each: each.name != case.library):
        trial.add(library.name, partial(make, library))
    return trial


def _find_difference(case: KernelCase, kernel: Callable[..., Any], host: list[HostArray], result: Any) -> str:
    """Compare with the CPU's bits where they are promised, and with NumPy's numbers."""
    arrived = xl.to_host(result)
    if arrived.shape != case.shape or arrived.dtype != case.result:
        return f"the result is {arrived.dtype} {arrived.shape}"
    some = np.random.default_rng(0).integers(0, arrived.size, min(arrived.size, _CHECKED))
    some[:2] = 0, arrived.size - 1
    index = np.unravel_index(some, arrived.shape)
    given, found = [np.broadcast_to(each, arrived.shape)[index] for each in host], arrived[index]
    if found.tobytes() != np.asarray(kernel(*given)).tobytes():
        return "the bits differ from the CPU's"
    expected = case.peer_function(np)(*given)
    if kind_of(expected.dtype) not in "fc":
        return "" if np.array_equal(found, expected) else "the numbers differ from NumPy's"
    room = _ROOM * float(float_info(expected.dtype).eps)
    if not is_numpys(expected.dtype):  # of which NumPy has no products with numbers of Python
        found, expected = found.astype(np.float32), expected.astype(np.float32)
    return "" if np.allclose(found, expected, rtol=room, atol=room) else "the numbers differ from NumPy's"


def try_namespace(case: NamespaceCase, peers: Peers) -> Trial:
    """Make ready a program in the namespace of xferlib's arrays, and in the modules of other libraries."""
    own, host, text = Xferlib(case.library), case.host_arrays(), _PROGRAMS[case.program]

    def find_problem(result: Any) -> str:
        found, wide = xl.to_host(result), np.dtype(case.dtype)
        if wide.kind == "f":  # NumPy's running sums of float64, one after the other, are off by more than is allowed
            wide = np.dtype(np.longdouble if case.program == "scan" else np.float64)
        expected = Words(np).function(text)(*(each.astype(wide) for each in host))
        size = np.max(np.abs(expected), initial=1)
        room = _ROOM * float(np.finfo(case.dtype).eps) * float(size) if wide.kind == "f" else 0.0
        same = found.shape == expected.shape and np.allclose(found, expected, rtol=0, atol=room, equal_nan=True)
        return "" if same else "the numbers differ from NumPy's"

    def make(library: ArrayLibrary) -> Runs:
        arrays = [library.array(each) for each in host]
        module = xl.get_array_module(arrays[0]) if library is own else library.module
        function = Words(module).function(text)
        return {"namespace" if library is own else "eager": library.wait_after(partial(function, *arrays))}

    trial = Trial(subject=own.name, find_problem=find_problem)
    for library in (own, *peers.libraries.values()):
        trial.add(library.name, partial(make, library))
    return trial


# The time of competing ways.
#
# In the loop, two to four rounds, in each of which every way has 4 ms or one call; after other work, three to four
# rounds of 20 ms and 5 ms for each way. Where a round of calls takes more than 0.2 s, the fewest rounds are made.


_OTHER_WORK_S = 0.02
"""Before each round."""
_PAUSE_S = 0.005
"""Before each call: more than the 0.3 ms for which threads spin, and a pass over more memory than a core caches."""
_LOOP_S, _LOOP_MOST = 0.004, 25
_DEAR_S = 0.2
_QUIET_S, _LOOK_S = 0.05, 0.0002
"""The longest wait for other threads, and between two looks at them."""
_HOT_ROUNDS, _COLD_ROUNDS = (2, 4), (3, 4)


class OtherWork:
    """The work of a program between two calls: takes some time, and leaves other data in the caches."""

    def __init__(self) -> None:
        self._parts = itertools.cycle(np.ones((64, 1 << 16), np.float32))

    def __call__(self, seconds: float) -> None:
        until_s = time.perf_counter() + seconds
        while time.perf_counter() < until_s:
            part = next(self._parts)
            np.add(part, 1, out=part)


def await_quiet() -> None:
    """Wait until no other thread of the machine wants a core, but not for long; on Linux alone, which tells."""
    until_s = time.perf_counter() + _QUIET_S
    with contextlib.suppress(OSError, ValueError, IndexError):  # `/proc/loadavg` is not there, or of another form
        while int(Path("/proc/loadavg").read_text().split()[3].split("/")[0]) > 1 and time.perf_counter() < until_s:
            time.sleep(_LOOK_S)


class Timing:
    """How the ways of one case are timed; they take turns, in a random order that each round draws anew.

    Args:
        change: Called before each call, outside the time: writes other data.
        other_work: Works for the seconds that it is given.
        chance: Draws the orders.
        clock: Returns seconds.
        settle: Called before each loop.
    """

    def __init__(
        self,
        change: Callable[[], None],
        other_work: Callable[[float], None],
        chance: np.random.Generator,
        clock: Callable[[], float] = time.perf_counter,
        settle: Callable[[], None] = lambda: None,
    ) -> None:
        self._change, self._other_work, self._chance, self._clock = change, other_work, chance, clock
        self._settle = settle

    def hot(self, runs: dict[Key, Run]) -> dict[Key, float]:
        """Median seconds of each way in a loop of its own calls; each has been called once."""
        return self._median(runs, _HOT_ROUNDS, self._loop, pause_s=0.0)

    def cold(self, runs: dict[Key, Run]) -> dict[Key, float]:
        """Median seconds of calls, each of which follows other work."""

        def call(run: Run) -> list[float]:
            self._other_work(_PAUSE_S)
            return [self._seconds(run)]

        return self._median(runs, _COLD_ROUNDS, call, pause_s=_OTHER_WORK_S)

    def _median(
        self, runs: dict[Key, Run], rounds: tuple[int, int], sample: Callable[[Run], list[float]], pause_s: float
    ) -> dict[Key, float]:
        samples: dict[Key, list[float]] = {key: [] for key in runs}
        keys, (least, most) = list(runs), rounds
        for number in range(most):
            if number >= least and sum(each[-1] for each in samples.values()) > _DEAR_S:
                break
            if pause_s:
                self._other_work(pause_s)
            for key in (keys[place] for place in self._chance.permutation(len(keys)).tolist()):
                samples[key] += sample(runs[key])
        return {key: statistics.median(each) for key, each in samples.items()}

    def _loop(self, run: Run) -> list[float]:
        """Seconds of the calls of one turn, of which the first does not count."""
        self._settle()
        self._seconds(run)
        samples = [self._seconds(run)]
        while sum(samples) < _LOOP_S and len(samples) < _LOOP_MOST:
            samples.append(self._seconds(run))
        return samples

    def _seconds(self, run: Run) -> float:
        self._change()
        begun_s = self._clock()
        result = run()
        elapsed_s = self._clock() - begun_s
        del result  # its release is not the call's
        return elapsed_s


# The figures of a case, and of a sweep.

REGIMES = {"hot": "the same call in a loop", "cold": "each call after at least 5 ms of other work"}
_BEHIND = 1 / 1.1
_KINDS: dict[str, tuple[Callable[..., Case], Callable[[Any, Peers], Trial]]] = {
    "transfer": (TransferCase.draw, try_transfer),
    "kernel": (KernelCase.draw, try_kernel),
    "reduction": (ReductionCase.draw, try_reduction),
    "prefetch": (PrefetchCase.draw, try_prefetch),
    "tree": (TreeCase.draw, try_tree),
    "namespace": (NamespaceCase.draw, try_namespace),
}
"""How the cases of each kind are drawn, and made ready."""


@dataclass(slots=True, kw_only=True)
class CaseFigures:
    """One case: median seconds of each way, by regime and library."""

    name: str
    """The argument of ``--case``."""
    kind: str
    text: str
    nbytes: int
    seconds: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    """By regime, library and way."""
    absent: dict[str, str] = field(default_factory=dict)
    """Libraries and ways that are left out, with the reason."""
    problem: str = ""
    """The error, or how the bits differ; empty where they are right."""

    def has_peers(self) -> bool:
        """Whether xferlib and a peer were timed."""
        return bool(self.seconds) and len({library.startswith("xferlib") for library in self.seconds["hot"]}) == 2

    def best(self, regime: str, *, is_own: bool = False) -> tuple[str, float]:
        """The fastest way of a peer, or of xferlib, and its seconds."""
        return min(
            (
                (f"{library}, {way}", seconds)
                for library, ways in self.seconds[regime].items()
                for way, seconds in ways.items()
                if library.startswith("xferlib") is is_own
            ),
            key=lambda each: each[1],
        )

    def ratio(self, regime: str) -> float:
        """The best peer's time over xferlib's: above 1 xferlib is faster."""
        return self.best(regime)[1] / self.best(regime, is_own=True)[1]


def summarize(cases: list[CaseFigures]) -> list[dict[str, Any]]:
    """The ratios of each kind and regime, summed up."""
    found = []
    for kind, regime in itertools.product(_KINDS, REGIMES):
        ratios = np.array([case.ratio(regime) for case in cases if case.kind == kind and case.has_peers()])
        if ratios.size:
            low, quarter, middle = np.percentile(ratios, (5, 25, 50)).tolist()
            found.append({
                "kind": kind, "regime": regime, "count": ratios.size, "worst": float(ratios.min()), "percentile_5": low,
                "percentile_25": quarter, "median": middle, "behind": float((ratios < _BEHIND).mean()),
            })  # fmt: skip
    return found


def parse_case(name: str, backends: tuple[str, ...], most: int | None) -> Case:
    """The case of that name.

    Raises:
        ArgumentError: It is no name of a case.
    """
    kind, _, rest = name.partition(":")
    seed, _, number = rest.partition(":")
    if kind not in _KINDS or not seed.isdecimal() or not number.isdecimal():
        raise ArgumentError(f"--case {quote(name)} names no case; a sweep prints them, such as transfer:7:12")
    return _KINDS[kind][0](int(seed), int(number), backends, most)


_MOST_REFUSED = 1000
"""Cases in a row without the wanted dtype, behind which there will be none."""


def draw_cases(
    kind: str, seed: int, backends: tuple[str, ...], most: int | None = None, dtype: str | None = None
) -> Iterator[Case]:
    """The cases of a kind and a seed, one after the other: all, or those in which an array has a dtype.

    Raises:
        ArgumentError: There is none.
    """
    refused = 0
    for number in itertools.count():
        case = _KINDS[kind][0](seed, number, backends, most)
        if dtype is None or dtype in case.dtypes:
            refused = 0
            yield case
        elif (refused := refused + 1) == _MOST_REFUSED:
            raise ArgumentError(
                f"--dtype {quote(dtype)}: no {kind} case has an array of it; choose kinds that have by --kind"
            )


def share_seconds(kinds: list[str], seconds: float, clock: Callable[[], float] = time.perf_counter) -> Iterator[str]:
    """The kind of each case: the one with the least time so far, until all have had an even share."""
    spent_s = dict.fromkeys(kinds, 0.0)
    while True:
        kind = min(spent_s, key=spent_s.__getitem__)
        if spent_s[kind] >= seconds / len(spent_s):
            return
        begun_s = clock()
        yield kind
        spent_s[kind] += clock() - begun_s


def measure(case: Case, peers: Peers, other_work: Callable[[float], None]) -> CaseFigures:
    """Check xferlib's results, then time every way in both regimes."""
    kind = case.name.partition(":")[0]
    found = CaseFigures(name=case.name, kind=kind, text=str(case), nbytes=case.nbytes)
    with np.errstate(all="ignore"):  # NumPy's float16 overflows where others' sums do not
        try:
            trial = _KINDS[kind][1](case, peers)
            found.absent = trial.absent
            own = [run for key, run in trial.ways.items() if key.library == trial.subject]
            if not own:
                found.problem = f"xferlib refuses it: {trial.absent[trial.subject]}"
            for run in own:
                found.problem = found.problem or trial.find_problem(run())
        except (XferError, MemoryError, RuntimeError) as error:
            found.problem = reason(error)
        if found.problem:
            return found
        chance = np.random.default_rng(zlib.crc32(case.name.encode()))
        timing = Timing(trial.change, other_work, chance, settle=await_quiet)
        for regime, timed in (("hot", timing.hot(trial.ways)), ("cold", timing.cold(trial.ways))):
            for key, seconds in timed.items():
                found.seconds.setdefault(regime, {}).setdefault(key.library, {})[key.way] = seconds
    return found


# The usual transfers at fixed sizes.

_GIB = 1 << 30
_USUAL: dict[str, dict[str, Any]] = {
    "pageable to new device array": {"is_upload": True, "is_new": True},
    "pageable to existing device array": {"is_upload": True, "is_new": False},
    "device to new host array": {"is_upload": False, "is_new": True},
    "device to existing host array": {"is_upload": False, "is_new": False},
    "pinned to existing device array": {"is_upload": True, "is_new": False, "is_pinned": True},
    "device to pinned host array": {"is_upload": False, "is_new": False, "is_pinned": True},
}


def usual_cases(largest: int, backend: str) -> Iterator[TransferCase]:
    """The usual transfers, each at many sizes; then large arrays of other layouts, and a conversion."""
    plain: dict[str, Any] = {"library": backend, "given": "float32", "wanted": "float32"}
    sizes = [size for size in (1 << power for power in range(10, 31, 2)) if size <= largest]
    for text, form in _USUAL.items():
        if "pinned" not in text or xl.get_device(backend).kind == "cuda":
            yield from (TransferCase(name=f"transfer:{text}", shape=(size // 4,), **plain, **form) for size in sizes)
    up: dict[str, Any] = {"is_upload": True, "is_new": True}
    side = int((largest // 4) ** 0.5)
    for layout, rows in (("transposed", side), ("every second row", side // 2)):
        yield TransferCase(name=f"transfer:{layout}", shape=(rows, side), layout=layout, **plain, **up)
    plain |= {"given": "float64", "name": "transfer:float64 to float32, of source"}
    yield TransferCase(shape=(largest // 8,), **plain, **up)


def measure_usual(backend: str, largest: int, report: Callable[[str], None]) -> tuple[list[dict[str, Any]], Peers]:
    """The usual transfers on every library here: seconds in a loop, and of a transfer after other work."""
    peers, other_work, results = find_peers("cupy", "torch", "pycuda"), OtherWork(), []
    for case in usual_cases(largest, backend):
        text, nbytes = case.name.partition(":")[2], math.prod(case.shape) * check_dtype(case.given).itemsize
        report(f"{text}, {size_text(nbytes)}")
        found = measure(case, peers, other_work)
        if found.problem:
            raise TransferError(f"bench transfer: {text}, {size_text(nbytes)}: {found.problem}")
        hot, cold = (
            {library: min(ways.values()) for library, ways in found.seconds[regime].items()} for regime in REGIMES
        )
        results.append({"case": text, "nbytes": nbytes, "seconds": hot, "first_seconds": cold})
    return results, peers


def describe_machine(backend: str) -> dict[str, Any]:
    """Return the machine and the versions that figures belong to."""
    versions = {}
    for name in ("numpy", "torch", "pycuda", "cuda-core", "cuda-bindings"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    if "cupy" in sys.modules:
        versions["cupy"] = sys.modules["cupy"].__version__
    return {
        "device": xl.get_device(backend).properties.name,
        "cores": threads.usable_cores(),
        "staging threads": threads.crew().each_way,
        "python": platform.python_version(),
        "xferlib": xl.__version__,
        **versions,
    }


# Tables.

_WORST, _NOTES = 20, 10


def time_text(seconds: float) -> str:
    """Seconds as a person writes them."""
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"


def print_heading(machine: dict[str, Any], absent: dict[str, str]) -> None:
    """Print what was measured, and which libraries are missing."""
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    for name, why in absent.items():
        print(f"{name}: absent ({why})")


def print_usual(results: list[dict[str, Any]]) -> None:
    """Print GB/s of every case and library, microseconds where that says more, and the ratio to the best peer."""
    libraries = list(dict.fromkeys(name for result in results for name in result["seconds"]))
    rows = [["case", "size", *libraries, "xferlib / best peer", "after other work"]]
    for case, nbytes, *regimes in (each.values() for each in results):
        speeds = {name: f"{nbytes / taken / 1e9:.2f} GB/s" for name, taken in regimes[0].items()}
        if nbytes < 1 << 18:
            speeds = {name: time_text(taken) for name, taken in regimes[0].items()}
        ratios = []
        for timed in regimes:
            own = next(taken for name, taken in timed.items() if name.startswith("xferlib"))
            peers = [taken for name, taken in timed.items() if not name.startswith("xferlib")]
            ratios.append(f"{min(peers) / own:.2f}" if peers else "-")
        rows.append([case, size_text(nbytes), *(speeds.get(name, "-") for name in libraries), *ratios])
    for row, before in zip(rows[:0:-1], rows[-2::-1], strict=True):
        row[0] = "" if row[0] == before[0] else row[0]
    print("\n".join(align(rows)))


def print_sweep(cases: list[CaseFigures]) -> None:
    """Print what each kind and regime came to, the worst cases of each, and those that went wrong."""
    left_out = Counter(f"{way}: {why}" for case in cases for way, why in case.absent.items())
    for way, count in left_out.most_common(_NOTES):
        print(f"left out in {count} of {len(cases)} cases: {way}")
    print("\nThe best peer's time over xferlib's; below 1 xferlib is slower.")
    rows = [["kind", "regime", "cases", "worst", "5 %", "25 %", "median", "behind by over 10 %"]]
    for kind, regime, count, *ratios, behind in (each.values() for each in summarize(cases)):
        rows.append([kind, regime, str(count), *(f"{ratio:.2f}" for ratio in ratios), f"{behind:.1%}"])
    print("\n".join(align(rows)))
    for kind, regime in itertools.product(_KINDS, REGIMES):
        timed = [case for case in cases if case.kind == kind and case.has_peers()]
        if timed:
            print(f"\nWorst of {kind}, {regime} ({REGIMES[regime]}):")
        for case in sorted(timed, key=lambda case: case.ratio(regime))[:_WORST]:
            (_, own_s), (way, peer_s) = case.best(regime, is_own=True), case.best(regime)
            times = f"{time_text(own_s)}, {way} {time_text(peer_s)}"
            print(f"  {case.ratio(regime):.2f}  {times}: {case.text}  --case {case.name}")
    for case in cases:
        if case.problem:
            print(f"\nWRONG: {case.problem}\n  --case {case.name}: {case.text}")


def print_case(case: CaseFigures) -> None:
    """Print every way of one case."""
    print(f"{case.name}: {case.text}")
    for way, why in case.absent.items():
        print(f"  left out: {way} ({why})")
    if case.problem:
        print(f"WRONG: {case.problem}")
    for regime, libraries in case.seconds.items():
        for library, ways in libraries.items():
            for way, taken in ways.items():
                print(f"  {regime:5} {library}, {way}: {time_text(taken)}, {case.nbytes / taken / 1e9:.2f} GB/s")


# The commands.


def run_transfer(options: argparse.Namespace) -> int:
    """Measure the usual transfers, print a table, write JSON."""
    backend = options.backend or xl.get_backend().name
    largest = options.largest or (_GIB if xl.get_device(backend).kind == "cuda" else 64 << 20)
    with progress("measuring transfers") as report:
        results, peers = measure_usual(backend, largest, report)
    machine = describe_machine(backend)
    print_heading(machine, peers.absent)
    print_usual(results)
    if options.json is not None:
        figures = {"machine": machine, "absent": peers.absent, "results": results}
        options.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    return 0


def _find_usual_kinds() -> list[str]:
    """All kinds; without PyCUDA's arrays, whose namespace xferlib makes, all but that one."""
    has_pycuda = any(":cuda:" in device for device in xl.available_backends()["pycuda"].devices)
    return [kind for kind in _KINDS if kind != "namespace" or has_pycuda]


def run_sweep(options: argparse.Namespace) -> int:
    """Measure for some seconds, print what it came to and the worst cases, write JSON."""
    peers, other_work = find_peers("cupy", "torch", compiles=not options.without_compile), OtherWork()
    most = options.largest or (None if peers.is_gpu else 32 << 20)
    seed = options.seed if options.seed is not None else time.time_ns() // 1_000_000 % 1_000_000
    backends = tuple(peers.libraries)
    if options.case is not None:
        print_case(measure(parse_case(options.case, backends, most), peers, other_work))
        return 0
    cases: list[CaseFigures] = []
    kinds = options.kind or _find_usual_kinds()
    drawn = {kind: draw_cases(kind, seed, backends, most, options.dtype) for kind in kinds}
    with progress("measuring") as report:
        for kind in share_seconds(kinds, options.seconds):
            case = next(drawn[kind])
            report(f"{len(cases)}: {case}")
            cases.append(measure(case, peers, other_work))
    machine = {**describe_machine(backends[0]), "seed": seed}
    print_heading(machine, peers.absent)
    print_sweep(cases)
    if options.json is not None:
        figures = {
            "machine": machine, "absent": peers.absent, "regimes": REGIMES, "summaries": summarize(cases),
            "cases": [asdict(each) for each in cases],
        }  # fmt: skip
        options.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    return int(any(each.problem for each in cases))


_JSON = argument("--json", type=output_file, metavar="FILE", help="write the figures to this file")
_OF_KINDS = (
    f"of cases, which share the seconds evenly: {', '.join(_KINDS)} (default: all; namespace, which is PyCUDA's or the "
    "simulator's, where PyCUDA is)"
)
_LARGEST = "array, e.g. 64MiB (default: transfers 256MiB, others 2**26 elements; 32MiB on a CPU)"
_WITHOUT = "leave out torch.compile, which takes seconds for each kernel"

COMMANDS = {
    "bench transfer": Command(
        run_transfer,
        "The usual transfers by xferlib, beside CuPy, PyTorch and PyCUDA, in one run, on the same data.",
        lambda: (
            argument("--backend", help="backend that xferlib uses (default: the current one)"),
            argument("--largest", type=parse_size, help="largest one, e.g. 64MiB (default: 1GiB; 64MiB on a CPU)"),
            _JSON,
        ),
    ),
    "bench sweep": Command(
        run_sweep,
        "Random transfers, kernels and reductions by xferlib, beside the fastest of the other libraries' ways.",
        lambda: (
            argument("--seed", type=parse_seed, help="of the cases (default: from the clock)"),
            argument("--seconds", type=seconds, default=60.0, help="how long to draw cases (default: 60)"),
            argument("--kind", choices=tuple(_KINDS), metavar="KIND", action="append", help=_OF_KINDS),
            argument("--dtype", help="draw only cases with an array of this dtype, e.g. bfloat16"),
            argument("--case", help="measure this one, as the list of the worst names it"),
            argument("--largest", type=parse_size, help=_LARGEST),
            argument("--without-compile", action="store_true", help=_WITHOUT),
            _JSON,
        ),
    ),
}
