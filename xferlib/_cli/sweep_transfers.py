"""How each library makes a case's transfer: for the others every way that its users know, of which the fastest counts.

A way is one complete transfer, from the call to the arrival of the data. It takes the source as it is: what a library
cannot take directly, such as a negative stride, is made contiguous first, within the time.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np

import xferlib as xl
from xferlib._cli import bench
from xferlib._cli.bench import HostArray, Run, size_text
from xferlib._cli.sweep_trial import (
    LAYOUTS,
    Peers,
    Runs,
    Shape,
    Trial,
    Ways,
    drawn_shape,
    drawn_size,
    laid_out,
    ordinary,
    pinned,
)
from xferlib._core.arrays import copy_into

# Random copies of one array: in what layout, from and to what memory.

TRANSFER_DTYPES = ("float32", "float64", "float16", "uint8", "int32", "int64", "bool", "int16", "complex64")
WIDENED = {"uint8": "float32", "float16": "float32", "float32": "float64", "int16": "float32"}
NARROWED = {"float64": "float32", "float32": "float16", "int64": "float32", "int32": "float32"}
GROUPS = {True: "to the device", False: "to the host"}
_LEAST_ARRAY, _MOST_ARRAY = 4 << 10, 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayCase:
    """One array, copied in one direction."""

    name: str
    library: str
    """The backend of the device arrays that xferlib makes."""
    is_upload: bool
    is_new: bool
    """To a new array, rather than into one that is there."""
    is_pinned: bool
    layout: str
    """Of the array on the host; of a download to a new array, nothing."""
    shape: Shape
    given: str
    """The dtype of the source."""
    wanted: str
    """The dtype that arrives."""
    variant: int
    """Chooses among the layouts of that name, and the data."""
    has_stream: bool
    """On a GPU the arrays and the copy are of a stream of the program's own; else of the default one."""

    @property
    def nbytes(self) -> int:
        """Bytes of the narrower side."""
        return math.prod(self.shape) * min(np.dtype(self.given).itemsize, np.dtype(self.wanted).itemsize)

    @property
    def group(self) -> str:
        return GROUPS[self.is_upload]

    def __str__(self) -> str:
        memory = "pinned " if self.is_pinned else ""
        ends = f"up to {'a new' if self.is_new else 'an existing'}" if self.is_upload else "down to " + (
            "a new" if self.is_new else "an existing"
        )  # fmt: skip
        dtypes = self.given if self.given == self.wanted else f"{self.given} as {self.wanted}"
        stream = ", stream of its own" if self.has_stream else ""
        what = f"{size_text(self.nbytes)} {dtypes} {self.shape} {memory}{self.layout}"
        return f"{what}, {ends} {self.library} array{stream}"

    def host_array(self, *, of_target: bool = False) -> HostArray:
        """A new array of the case's layout; of a download the target, with the dtype that arrives."""
        dtype = np.dtype(self.wanted if of_target else self.given)
        return laid_out(self.shape, dtype, self.layout, np.random.default_rng(self.variant), is_pinned=self.is_pinned)


def draw_array_case(seed: int, number: int, libraries: tuple[str, ...], most: int | None = None) -> ArrayCase:
    """Draw a case; sizes are log-uniform from 4 KiB.

    Args:
        seed, number: Of the sweep, and of the case in it: the same case at each call.
        libraries: To choose from.
        most: Bytes of the largest; 256 MiB if omitted.
    """
    chance = np.random.default_rng([seed, number])
    nbytes = drawn_size(_LEAST_ARRAY, most or _MOST_ARRAY, chance)
    library = libraries[number % len(libraries)]
    given = str(chance.choice(TRANSFER_DTYPES))
    is_upload, is_new = bool(chance.random() < 0.6), bool(chance.random() < 0.5)
    layout = str(chance.choice(LAYOUTS))
    if not is_upload and (is_new or layout == "swapped"):  # a result has no other layout, a target the native order
        layout = "contiguous"
    wanted = given
    if chance.random() < 0.2:
        wanted = (WIDENED if chance.random() < 0.5 else NARROWED).get(given, given)
    is_pinned = layout == "contiguous" and bool(chance.random() < 0.25) and (is_upload or not is_new)
    axes = {"transposed": 2, "permuted": int(chance.integers(3, 6)), "cropped": int(chance.integers(2, 4))}.get(
        layout, int(chance.integers(1, 4))
    )
    if layout == "every second row":
        axes = max(axes, 2)
    return ArrayCase(
        name=f"transfer:{seed}:{number}", library=library, is_upload=is_upload, is_new=is_new, is_pinned=is_pinned,
        layout=layout, shape=drawn_shape(nbytes / np.dtype(given).itemsize, axes, chance), given=given, wanted=wanted,
        variant=int(chance.integers(1 << 31)), has_stream=bool(chance.random() < 0.2),
    )  # fmt: skip


# The shapes of the parameters of published networks, in the order in which their authors' code has them.

TensorShape = tuple[int, ...]


def resnet50() -> list[TensorShape]:
    """161 tensors, 25.6 million numbers: He et al., Deep Residual Learning for Image Recognition, 2015."""
    shapes: list[TensorShape] = [(64, 3, 7, 7), (64,), (64,)]
    given = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            convolutions = [(width, given, 1, 1), (width, width, 3, 3), (4 * width, width, 1, 1)]
            if not block:
                convolutions.append((4 * width, given, 1, 1))
            for shape in convolutions:
                shapes += [shape, (shape[0],), (shape[0],)]
            given = 4 * width
    return [*shapes, (1000, 2048), (1000,)]


def bert_base() -> list[TensorShape]:
    """197 tensors, 108.9 million numbers: Devlin et al., BERT, 2018; without the pooler."""
    shapes: list[TensorShape] = [(30522, 768), (512, 768), (2, 768), (768,), (768,)]
    for _ in range(12):
        for rows, columns in ((768, 768),) * 4:
            shapes += [(rows, columns), (rows,)]
        shapes += [(768,), (768,), (3072, 768), (3072,), (768, 3072), (768,), (768,), (768,)]
    return shapes


def decoder_1b() -> list[TensorShape]:
    """201 tensors, 1.1 billion numbers: Zhang et al., TinyLlama, 2024."""
    shapes: list[TensorShape] = [(32000, 2048)]
    for _ in range(22):
        shapes += [(2048, 2048), (256, 2048), (256, 2048), (2048, 2048)]
        shapes += [(5632, 2048), (5632, 2048), (2048, 5632), (2048,), (2048,)]
    return [*shapes, (2048,), (32000, 2048)]


def unet() -> list[TensorShape]:
    """46 tensors, 31 million numbers: Ronneberger et al., U-Net, 2015."""
    widths = (64, 128, 256, 512, 1024)
    shapes: list[TensorShape] = []

    def convolved(given: int, width: int) -> None:
        for each in (given, width):
            shapes.extend([(width, each, 3, 3), (width,)])

    for given, width in zip((1, *widths), widths, strict=False):
        convolved(given, width)
    for width in widths[-2::-1]:
        shapes.extend([(2 * width, width, 2, 2), (width,)])
        convolved(2 * width, width)
    return [*shapes, (2, 64, 1, 1), (2,)]


NETWORKS: dict[str, Callable[[], list[TensorShape]]] = {
    "ResNet-50": resnet50,
    "BERT-base": bert_base,
    "decoder of 1.1 billion": decoder_1b,
    "U-Net": unet,
}


# Random copies of many arrays: the parameters of published networks, and trees of random leaves.

_MOST_TREE = 4 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeCase:
    """Many arrays, copied in one direction."""

    name: str
    library: str
    is_upload: bool
    tree: str
    """The network, or what was drawn."""
    shapes: tuple[Shape, ...]
    dtype: str

    @property
    def nbytes(self) -> int:
        return sum(map(math.prod, self.shapes)) * np.dtype(self.dtype).itemsize

    @property
    def group(self) -> str:
        return GROUPS[self.is_upload]

    def __str__(self) -> str:
        way = "up to" if self.is_upload else "down from"
        arrays = f"{len(self.shapes)} arrays, {size_text(self.nbytes)} of {self.dtype}"
        return f"{self.tree} ({arrays}), {way} {self.library}"

    def host_arrays(self) -> list[HostArray]:
        """New contiguous arrays."""
        dtype = np.dtype(self.dtype)
        return [np.full(shape, number % 100, dtype) for number, shape in enumerate(self.shapes)]


def draw_tree_case(seed: int, number: int, libraries: tuple[str, ...], most: int | None = None) -> TreeCase:
    """Draw a published network, or random leaves.

    Args:
        seed, number, libraries: As for one array.
        most: Bytes of the largest; 4 GiB if omitted.
    """
    chance = np.random.default_rng([seed, number, 1])
    library, is_upload = libraries[number % len(libraries)], bool(chance.random() < 0.5)
    names = [*NETWORKS, "random"]
    tree = names[int(chance.choice(len(names), p=[0.15, 0.15, 0.1, 0.1, 0.5]))]
    dtype = str(chance.choice(["float32", "float32", "float16", "float64"]))
    if tree.startswith("decoder"):
        dtype = "float16"
    if tree == "random":
        leaves = int(math.exp(chance.uniform(0, math.log(600))))
        middle = chance.uniform(math.log(64), math.log(1 << 20))
        sizes = np.exp(chance.normal(middle, 2.0, leaves)).clip(1, 1 << 24)
        shapes = tuple(drawn_shape(float(size), int(chance.integers(1, 4)), chance) for size in sizes)
    else:
        shapes = tuple(NETWORKS[tree]())
    room = (most or _MOST_TREE) // np.dtype(dtype).itemsize
    shapes = tuple(shape for shape in shapes if math.prod(shape) <= room // 2) or ((room // 2,),)
    while sum(map(math.prod, shapes)) > room:
        shapes = shapes[: -(-len(shapes) // 2)]
    return TreeCase(
        name=f"tree:{seed}:{number}", library=library, is_upload=is_upload, tree=tree, shapes=shapes, dtype=dtype
    )


Stream: TypeAlias = AbstractContextManager[Any]


def on_stream(stream: Stream | None, make: Callable[[], Ways]) -> Ways:
    """Ways that are made, and run, in a stream's block; None is no block."""
    if stream is None:
        return make()

    def inside(run: Run) -> Run:
        def block() -> Any:
            with stream:
                return run()

        return block

    with stream:
        found = make()
    return {name: replace(way, run=inside(way.run)) for name, way in found.items()}


class LibraryWays(Protocol):
    """A library that makes transfers. A missing way is left out."""

    name: str

    def stream(self) -> Stream | None:
        """A stream of the program's own, which is current in its block; None on a CPU."""

    def up(self, case: ArrayCase, source: HostArray) -> Ways: ...
    def down(self, case: ArrayCase, source: HostArray, out: HostArray | None) -> Ways:
        """Ways to the host, of a device array with the elements of ``source``; into ``out`` if given."""

    def tree_up(self, sources: list[HostArray]) -> Ways: ...
    def tree_down(self, sources: list[HostArray]) -> Ways: ...


class XferlibWays(bench.XferlibDevice):
    """xferlib, making or reading the arrays of one backend: the obvious way, and pinned results; a stream is named.

    Args:
        backend: Of the device arrays.
    """

    def __init__(self, backend: str) -> None:
        super().__init__(backend)
        self._pins = self.place.kind == "cuda"

    def _options(self, case: ArrayCase) -> dict[str, Any]:
        options: dict[str, Any] = {} if case.given == case.wanted else {"dtype": case.wanted}
        return options | ({"stream": xl.Stream(self.place)} if case.has_stream and self._pins else {})

    def stream(self) -> Stream | None:
        return xl.Stream(self.place) if self._pins else None

    def up(self, case: ArrayCase, source: HostArray) -> Ways:
        options = self._options(case)
        if case.is_new:
            return ordinary({"to_device": self.awaited(lambda: xl.to_device(source, device=self.place, **options))})
        target = xl.empty(case.shape, case.wanted, device=self.place)
        return ordinary({"to_device(out=)": self.awaited(lambda: xl.to_device(source, out=target, **options))})

    def down(self, case: ArrayCase, source: HostArray, out: HostArray | None) -> Ways:
        held = xl.to_device(source, device=self.place)
        self.place.synchronize()
        options = self._options(case)
        if out is not None:
            return ordinary({"to_host(out=)": lambda: xl.to_host(held, out=out, **options)})
        ways = ordinary({"to_host": lambda: xl.to_host(held, **options)})
        if self._pins:
            ways |= pinned({"to_host(pinned=True)": lambda: xl.to_host(held, pinned=True, **options)})
        return ways

    def tree_up(self, sources: list[HostArray]) -> Ways:
        return ordinary({"tree.to_device": self.awaited(lambda: xl.tree.to_device(sources, device=self.place))})

    def tree_down(self, sources: list[HostArray]) -> Ways:
        held = xl.tree.to_device(sources, device=self.place)
        ways = ordinary({"tree.to_host": lambda: xl.tree.to_host(held)})
        if self._pins:
            ways |= pinned({"tree.to_host(pinned=True)": lambda: xl.tree.to_host(held, pinned=True)})
        return ways


class CupyWays:
    """CuPy: ``asarray``, ``set`` and ``get``, the last into a new array of its pinned pool too."""

    name = "cupy"

    def __init__(self, library: bench.CupyLibrary) -> None:
        import cupyx

        self._cupy, self._awaited, self._new_pinned = library.module, library.awaited, cupyx.empty_pinned

    def stream(self) -> Stream | None:
        made: Stream = self._cupy.cuda.Stream(non_blocking=True)
        return made

    def up(self, case: ArrayCase, source: HostArray) -> Ways:
        cp, wanted = self._cupy, case.wanted
        arrays: Runs = {"asarray": lambda: cp.asarray(_native(source))}
        if case.given != wanted:
            arrays = {
                "asarray, then astype": lambda: cp.asarray(_native(source)).astype(wanted),
                "astype, then asarray": lambda: cp.asarray(source.astype(wanted)),
            }
        if case.is_new:
            return ordinary({name: self._awaited(make) for name, make in arrays.items()})
        target = cp.empty(case.shape, wanted)
        runs: Runs = {"set": lambda: target.set(np.ascontiguousarray(source, wanted))}
        runs |= {f"{name}, assigned": functools.partial(_fill, target, make) for name, make in arrays.items()}
        return ordinary({name: self._awaited(run) for name, run in runs.items()})

    def down(self, case: ArrayCase, source: HostArray, out: HostArray | None) -> Ways:
        held = self._cupy.asarray(np.ascontiguousarray(source))
        wanted = case.wanted
        gets: Runs = {"get": held.get}
        if case.given != wanted:
            gets = {
                "astype, then get": lambda: held.astype(wanted).get(),
                "get, then astype": lambda: held.get().astype(wanted),
            }
        if out is None:
            return ordinary(gets) | pinned(
                {"get(out=emptypinned())": self._awaited(lambda: self._pinned(held, wanted))}
            )
        if case.given == wanted and out.flags.c_contiguous and out.dtype.isnative:
            return ordinary({"get(out=)": lambda: held.get(out=out)})
        return ordinary({f"{name}, assigned": functools.partial(_fill, out, get) for name, get in gets.items()})

    def _pinned(self, held: Any, dtype: str) -> Any:
        """Request a new pinned array, and do not wait for it."""
        return held.astype(dtype, copy=False).get(out=self._new_pinned(held.shape, dtype), blocking=False)

    def tree_up(self, sources: list[HostArray]) -> Ways:
        return ordinary({"asarray of each": self._awaited(lambda: [self._cupy.asarray(each) for each in sources])})

    def tree_down(self, sources: list[HostArray]) -> Ways:
        held = [self._cupy.asarray(each) for each in sources]
        dtype = str(held[0].dtype)
        late = self._awaited(lambda: [self._pinned(each, dtype) for each in held])
        return ordinary({"get of each": lambda: [each.get() for each in held]}) | pinned(
            {"get(out=emptypinned()) of each": late}
        )


class TorchWays:
    """PyTorch: ``cuda`` and ``cpu``, with and without ``pin_memory`` and ``non_blocking``."""

    name = "torch"

    def __init__(self, library: bench.TorchLibrary) -> None:
        self._torch, self._awaited, self._device = library.module, library.awaited, library.device
        self._pins = library.device != "cpu"

    def stream(self) -> Stream | None:
        cuda = self._torch.cuda
        return cuda.stream(cuda.Stream(self._device)) if self._pins else None

    def _tensor(self, array: HostArray) -> Any:
        if not array.dtype.isnative or any(stride < 0 for stride in array.strides):
            array = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
        return self._torch.from_numpy(array)

    def up(self, case: ArrayCase, source: HostArray) -> Ways:
        wanted, device = getattr(self._torch, case.wanted), self._device
        is_same = case.given == case.wanted
        if not case.is_new:
            target = self._torch.empty(case.shape, dtype=wanted, device=device)
            runs: Runs = {"copy_": self._awaited(lambda: target.copy_(self._tensor(source), non_blocking=True))}
            if self._pins and not case.is_pinned:
                runs["pin_memory, then copy_"] = self._awaited(
                    lambda: target.copy_(self._tensor(source).contiguous().pin_memory(), non_blocking=True)
                )
            return ordinary(runs)
        flat = self._torch.contiguous_format

        def to() -> Any:
            there = self._tensor(source).to(device, non_blocking=True, copy=True, memory_format=flat)
            return there.to(wanted)

        runs = {"to": self._awaited(to)}
        if not is_same:
            runs["dtype first"] = self._awaited(lambda: self._tensor(source).to(wanted).to(device, non_blocking=True))
        if self._pins and not case.is_pinned:
            runs["pin_memory, then to"] = self._awaited(
                lambda: self._tensor(source).to(wanted).contiguous().pin_memory().to(device, non_blocking=True)
            )
        return ordinary(runs)

    def down(self, case: ArrayCase, source: HostArray, out: HostArray | None) -> Ways:
        held = self._tensor(source).contiguous().to(self._device, copy=True)
        wanted = getattr(self._torch, case.wanted)
        if out is None:
            runs: Runs = {"cpu": lambda: held.to(wanted).to("cpu", copy=not self._pins)}
            if case.given != case.wanted:
                runs["dtype last"] = lambda: held.cpu().to(wanted)
            if not self._pins:
                return ordinary(runs)
            late = {"non_blocking": self._awaited(lambda: held.to(wanted).to("cpu", non_blocking=True))}
            return ordinary(runs) | pinned(late)
        if out.dtype.isnative and all(stride >= 0 for stride in out.strides):
            target = self._torch.from_numpy(out)
            return ordinary({"copy_": lambda: target.copy_(held)})
        return ordinary({"cpu, assigned": lambda: np.copyto(out, held.to(wanted).cpu().numpy())})

    def tree_up(self, sources: list[HostArray]) -> Ways:
        tensors = [self._tensor(each) for each in sources]
        runs: Runs = {"to of each": self._awaited(lambda: [each.to(self._device, copy=True) for each in tensors])}
        if self._pins:
            runs["pin_memory, then to"] = self._awaited(
                lambda: [each.pin_memory().to(self._device, non_blocking=True) for each in tensors]
            )
        return ordinary(runs)

    def tree_down(self, sources: list[HostArray]) -> Ways:
        held = [self._tensor(each).to(self._device, copy=True) for each in sources]
        ways = ordinary({"cpu of each": lambda: [each.to("cpu", copy=not self._pins) for each in held]})
        if self._pins:
            late = self._awaited(lambda: [each.to("cpu", non_blocking=True) for each in held])
            ways |= pinned({"non_blocking": late})
        return ways


class NumpyWays:
    """A plain copy in host memory: the peer where there is no GPU."""

    name = "numpy"

    def stream(self) -> Stream | None:
        return None

    def up(self, case: ArrayCase, source: HostArray) -> Ways:
        if case.is_new:
            return ordinary({"array": lambda: np.array(source, case.wanted, order="C")})
        target = np.empty(case.shape, case.wanted)
        return ordinary({"copyto": lambda: np.copyto(target, source, casting="unsafe")})

    def down(self, case: ArrayCase, source: HostArray, out: HostArray | None) -> Ways:
        held = np.ascontiguousarray(source)
        if out is None:
            return ordinary({"array": lambda: np.array(held, case.wanted, order="C")})
        return ordinary({"copyto": lambda: np.copyto(out, held, casting="unsafe")})

    def tree_up(self, sources: list[HostArray]) -> Ways:
        return ordinary({"copy of each": lambda: [each.copy() for each in sources]})

    tree_down = tree_up


class NumpyWaysOfTensors:
    """The same for tensors in host memory, by way of their NumPy arrays, which share it."""

    name = "numpy"

    def __init__(self) -> None:
        import torch

        self._torch = torch

    def stream(self) -> Stream | None:
        return None

    def up(self, case: ArrayCase, source: HostArray) -> Ways:
        tensor = self._torch.from_numpy
        if case.is_new:
            return ordinary({"array, then from_numpy": lambda: tensor(np.array(source, case.wanted, order="C"))})
        target = self._torch.empty(case.shape, dtype=getattr(self._torch, case.wanted))
        return ordinary({"copyto(numpy())": lambda: np.copyto(target.numpy(), source, casting="unsafe")})

    def down(self, case: ArrayCase, source: HostArray, out: HostArray | None) -> Ways:
        held = self._torch.from_numpy(np.ascontiguousarray(source))
        if out is None:
            return ordinary({"array(numpy())": lambda: np.array(held.numpy(), case.wanted, order="C")})
        return ordinary({"copyto(numpy())": lambda: np.copyto(out, held.numpy(), casting="unsafe")})

    def tree_up(self, sources: list[HostArray]) -> Ways:
        tensor = self._torch.from_numpy
        return ordinary({"copy of each, then from_numpy": lambda: [tensor(each.copy()) for each in sources]})

    def tree_down(self, sources: list[HostArray]) -> Ways:
        held = [self._torch.from_numpy(each) for each in sources]
        return ordinary({"copy of each's numpy()": lambda: [each.numpy().copy() for each in held]})


def _fill(out: Any, get: Run) -> None:
    out[...] = get()


def _native(array: HostArray) -> HostArray:
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def of(library: bench.ArrayLibrary, backend: str) -> LibraryWays:
    """The ways of one of the peers, where xferlib makes arrays of ``backend``."""
    if isinstance(library, bench.CupyLibrary):
        return CupyWays(library)
    if isinstance(library, bench.TorchLibrary):
        return TorchWays(library)
    return NumpyWaysOfTensors() if backend == "torch" else NumpyWays()


# Copies that are ready to be timed, from fresh host arrays.


def of_array(case: ArrayCase, peers: Peers) -> Trial:
    """A copy of one array; it has other data each time."""
    source, out = memory(case)
    own = XferlibWays(case.library)
    trial = Trial(
        subject=own.name,
        problem=lambda result: _transfer_difference(case, source, out, result),
        change=_changer(source),
    )

    def make(library: LibraryWays, case: ArrayCase) -> Callable[[], Ways]:
        return partial(library.up, case, source) if case.is_upload else partial(library.down, case, source, out)

    def make_on_stream(library: LibraryWays) -> Callable[[], Ways]:
        return partial(on_stream, library.stream(), make(library, replace(case, has_stream=False)))

    def make_both() -> Ways:
        """With the stream named in the call, and in its block."""
        in_block = make_on_stream(own)()
        return make(own, case)() | {f"{name} in a block": way for name, way in in_block.items()}

    has_both = case.has_stream and own.place.kind == "cuda"
    trial.add(own.name, make_both if has_both else make(own, case))
    for peer in (of(each, case.library) for each in peers.libraries.values()):
        trial.add(peer.name, make_on_stream(peer) if case.has_stream else make(peer, case))
    return trial


def of_tree(case: TreeCase, peers: Peers) -> Trial:
    """A copy of a tree, of which the first leaf has other data each time."""
    source = case.host_arrays()
    own = XferlibWays(case.library)

    def problem(result: Any) -> str:
        pairs = zip(source, xl.tree.to_host(result) if case.is_upload else result, strict=True)
        return "" if all(np.array_equal(one, two) for one, two in pairs) else "the tree differs"

    trial = Trial(subject=own.name, problem=problem, change=_changer(source[0]))
    for library in (own, *(of(each, case.library) for each in peers.libraries.values())):
        make = library.tree_up if case.is_upload else library.tree_down
        trial.add(library.name, partial(make, source))
    return trial


def memory(case: ArrayCase) -> tuple[HostArray, HostArray | None]:
    """The source, and of a download into an existing array its target."""
    if case.is_upload:
        return case.host_array(), None
    dtype = np.dtype(case.given)
    source = laid_out(case.shape, dtype, "contiguous", np.random.default_rng(case.variant))
    return source, None if case.is_new else case.host_array(of_target=True)


def _transfer_difference(case: ArrayCase, source: HostArray, out: HostArray | None, result: Any) -> str:
    expected = np.empty(case.shape, case.wanted)
    copy_into(expected, source)
    arrived = xl.to_host(result) if case.is_upload else result
    if not case.is_upload and out is not None and arrived is not out:
        return "the target was not returned"
    return "" if np.array_equal(arrived, expected) else "the bits differ"


def _changer(array: HostArray) -> Callable[[], None]:
    """A function that changes the data a little."""
    numbers, origin = itertools.cycle((0, 1)), (0,) * array.ndim

    def change() -> None:
        array[origin] = next(numbers)

    return change
