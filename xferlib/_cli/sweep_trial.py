"""The time of competing ways: in a loop, and each call after other work.

The obvious way, one loop behind the other, measures each beside what the one before has left: torch's threads spin for
some milliseconds behind a parallel loop, on all cores, and whichever library comes next shares them. So a loop begins
when no other thread runs; those of a library whose own loop it is may spin as they like.

A case costs, beside its data: in the loop, one call of each way to check it, one to try it, then two to five rounds, in
each of which every way has 4 ms or one call; after other work, three to five rounds of 20 ms and 5 ms for each way.
Both end as soon as every median is steady, so that a case of small arrays and four ways takes 0.2 s. Where a round of
calls takes more than 0.2 s, the least number of rounds is all; a way four times slower than the fastest is called in
the first round only. Kernels are compiled besides, which no time includes.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import math
import shutil
import statistics
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

import xferlib as xl
from xferlib._cli import bench
from xferlib._cli.bench import ArrayLibrary, HostArray, Run

# Host arrays of random layouts, and the same views of a library's arrays.

Shape = tuple[int, ...]
LAYOUTS = ("contiguous", "contiguous", "transposed", "permuted", "every second row", "cropped", "reversed", "swapped")
_VIEWS = ("transposed", "permuted", "every second row", "cropped", "reversed")
_PERIOD = 65_537
_LEAST, _MOST = 1 << 10, 64 << 20
"""Elements of the arrays that kernels and reductions take."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A view of memory in C order: its extents, the axes' order, and the part."""

    extents: Shape
    axes: tuple[int, ...]
    index: tuple[slice, ...]

    def of(self, memory: HostArray) -> HostArray:
        """The view of a host array of any shape."""
        return memory.reshape(self.extents).transpose(self.axes)[self.index]

    def on_device(self, library: ArrayLibrary, memory: HostArray) -> Any:
        """The view of a copy of ``memory`` among the library's arrays."""
        return library.permuted(library.array(memory.reshape(self.extents)), self.axes)[self.index]


def cut(shape: Shape, layout: str, chance: np.random.Generator) -> Cut:
    """A view of that shape and layout; ``swapped`` is contiguous."""
    extents = list(shape)
    order = list(range(len(shape)))
    index = tuple(slice(None) for _ in shape)
    if layout == "transposed":
        order.reverse()
    elif layout == "permuted":
        order = [int(axis) for axis in chance.permutation(len(shape))]
    elif layout == "every second row":
        extents[0] *= 2
        index = (slice(None, None, 2), *index[1:])
    elif layout == "cropped":
        extents = [extent + max(1, extent // 4) for extent in shape]
        index = tuple(slice(extent // 8, extent // 8 + extent) for extent in shape)
    elif layout == "reversed":
        index = (slice(None, None, -1), *index[1:])
    return Cut(tuple(extents[axis] for axis in order), tuple(int(axis) for axis in np.argsort(order)), index)


def laid_out(
    shape: Shape, dtype: np.dtype[Any], layout: str, chance: np.random.Generator, *, is_pinned: bool = False
) -> HostArray:
    """An array of that layout with random numbers in it; only a contiguous one may be pinned."""
    view = cut(shape, layout, chance)
    if layout == "swapped":
        dtype = dtype.newbyteorder()
    memory = numbers(math.prod(view.extents), dtype, chance)
    if is_pinned:
        import xferlib as xl

        memory = xl.pinned_array(memory)
    return view.of(memory)


def numbers(count: int, dtype: np.dtype[Any], chance: np.random.Generator) -> HostArray:
    """Small numbers, which every dtype holds; their period is prime, so that no two blocks are the same."""
    some = chance.integers(0, 2 if dtype.kind == "b" else 120, min(count, _PERIOD)).astype(dtype.newbyteorder("="))
    return np.resize(some, count).astype(dtype, copy=False)


def scaled(count: int, dtype: np.dtype[Any], chance: np.random.Generator) -> HostArray:
    """As `numbers`; floats are from 0 to 2."""
    found = numbers(count, dtype, chance)
    return found / dtype.type(64) if dtype.kind in "fc" else found


def drawn_operand(dtype: str, most: int | None, chance: np.random.Generator) -> Shape:
    """Extents of one to four axes of what a kernel takes, log-uniform in size; ``most``: bytes, if that is less."""
    room = _MOST if most is None else max(min(_MOST, most // np.dtype(dtype).itemsize), 2 * _LEAST)
    return drawn_shape(drawn_size(_LEAST, room, chance), int(chance.integers(1, 5)), chance)


def drawn_view(shape: Shape, library: str, chance: np.random.Generator) -> str:
    """The layout of what a kernel takes: contiguous, half of the time."""
    layout = str(chance.choice(_VIEWS)) if chance.random() < 0.5 else "contiguous"
    if (layout == "reversed" and library == "torch") or (layout in ("transposed", "permuted") and len(shape) < 2):
        return "contiguous"  # a tensor has no negative strides
    return layout


def drawn_shape(size: float, axes: int, chance: np.random.Generator) -> Shape:
    """Extents whose product is about ``size``, of very different lengths."""
    shares = chance.dirichlet(np.full(axes, 2.0))
    return tuple(max(2, round(size**share)) for share in shares)


def drawn_size(least: float, most: float, chance: np.random.Generator) -> float:
    """A log-uniform number."""
    return math.exp(chance.uniform(math.log(least), math.log(most)))


# The libraries here that xferlib is compared with.


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    """Libraries, and what they have beside them."""

    libraries: dict[str, ArrayLibrary]
    backends: tuple[str, ...]
    """Those whose arrays xferlib takes and makes."""
    is_gpu: bool
    compiles: bool
    """Whether ``torch.compile`` takes part."""
    has_numexpr: bool
    absent: dict[str, str]
    """Libraries that are not here, with the reason."""


def present_peers(*, compiles: bool) -> Peers:
    """The libraries with a GPU, or else those of the CPU."""
    names, absent = bench.with_cuda(("cupy", "torch"))
    found: dict[str, bench.ArrayLibrary] = {}
    if "cupy" in names:
        found["cupy"] = bench.CupyLibrary()
    if "torch" in names:
        found["torch"] = bench.TorchLibrary()
    is_gpu = bool(found)
    if not is_gpu:
        found["numpy"] = bench.NumpyLibrary()
        if xl.available_backends()["torch"].is_available:
            found["torch"] = bench.TorchLibrary("cpu")
    has_numexpr = not is_gpu and importlib.util.find_spec("numexpr") is not None
    if not is_gpu and not has_numexpr:
        absent["numexpr"] = "not installed"
    if "torch" in found:
        missing = _missing_compiler(is_gpu=is_gpu) if compiles else "--without-compile"
        if missing:
            absent["torch.compile"] = missing
    return Peers(
        libraries=found, backends=tuple(found), is_gpu=is_gpu, has_numexpr=has_numexpr, absent=absent,
        compiles="torch" in found and "torch.compile" not in absent,
    )  # fmt: skip


def _missing_compiler(*, is_gpu: bool) -> str:
    """The reason why ``torch.compile`` is left out; empty if it is not."""
    if not any(map(shutil.which, ("cc", "gcc", "clang") if is_gpu else ("g++", "clang++"))):
        return "no C compiler" if is_gpu else "no C++ compiler"
    return "Triton is not installed" if is_gpu and importlib.util.find_spec("triton") is None else ""


class Key(NamedTuple):
    """A way of a library."""

    library: str
    way: str


_OTHER_WORK_S = 0.02
"""Before each round."""
_PAUSE_S = 0.005
"""Before each call: more than the 0.3 ms for which threads spin, and a pass over more memory than a core caches."""
_LOOP_S = 0.004
_LOOP_MOST = 25
_LONG_S = 0.02
"""A call of this length is as hot after another way's call as after its own."""
_DEAR_S = 0.2
_HOPELESS = 4
_QUIET_S, _LOOK_S = 0.05, 0.0002
"""The longest wait for other threads, and between two looks at them."""
_HOT_ROUNDS, _COLD_ROUNDS = (2, 5), (3, 5)
_HOT_TOLERANCE, _COLD_TOLERANCE = 0.05, 0.1


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
        settle: Callable[[], None] = await_quiet,
    ) -> None:
        self._change, self._other_work, self._chance, self._clock = change, other_work, chance, clock
        self._settle = settle

    def hot(self, runs: Mapping[Key, Run], apart: Collection[Key] = ()) -> dict[Key, float]:
        """Median seconds of each way in a loop of its own calls.

        Args:
            runs: Each has been called once, so that it has its memory and what it compiles.
            apart: Those that compete among themselves.
        """
        samples: dict[Key, list[float]] = {key: [] for key in runs}
        once_s: dict[Key, float] = {}
        for key in self._shuffled(runs):
            once_s[key] = self._seconds(runs[key])
            if once_s[key] >= _LONG_S:
                samples[key].append(once_s[key])
        chosen = [
            key
            for key in runs
            if once_s[key] <= _HOPELESS * min(once_s[other] for other in runs if (other in apart) == (key in apart))
        ]
        least, most = _HOT_ROUNDS
        for number in range(least if sum(once_s[key] for key in chosen) > _DEAR_S else most):
            for key in self._shuffled(chosen if number else runs):
                samples[key] += self._loop(runs[key], is_long=once_s[key] >= _LONG_S)
            if number + 1 >= least and all(is_steady(samples[key], _HOT_TOLERANCE) for key in chosen):
                break
        return {key: statistics.median(each) for key, each in samples.items()}

    def cold(self, runs: Mapping[Key, Run]) -> dict[Key, float]:
        """Median seconds of calls, each of which follows other work."""
        samples: dict[Key, list[float]] = {key: [] for key in runs}
        least, most = _COLD_ROUNDS
        for number in range(most):
            if number >= least:
                is_dear = sum(each[-1] for each in samples.values()) > _DEAR_S
                if is_dear or all(is_steady(each, _COLD_TOLERANCE) for each in samples.values()):
                    break
            self._other_work(_OTHER_WORK_S)
            for key in self._shuffled(runs):
                self._other_work(_PAUSE_S)
                samples[key].append(self._seconds(runs[key]))
        return {key: statistics.median(each) for key, each in samples.items()}

    def _loop(self, run: Run, *, is_long: bool) -> list[float]:
        """Seconds of the calls of one turn, of which the first does not count unless it is long."""
        self._settle()
        if not is_long:
            self._seconds(run)
        samples = [self._seconds(run)]
        while sum(samples) < _LOOP_S and len(samples) < _LOOP_MOST:
            samples.append(self._seconds(run))
        return samples

    def _seconds(self, run: Run) -> float:
        self._change()
        begun_s = self._clock()
        kept = run()
        elapsed_s = self._clock() - begun_s
        del kept  # the release of a result is not the call's
        return elapsed_s

    def _shuffled(self, keys: Iterable[Key]) -> list[Key]:
        listed = list(keys)
        return [listed[int(number)] for number in self._chance.permutation(len(listed))]


def is_steady(samples: list[float], tolerance: float) -> bool:
    """Whether the median is known to that share of it: its standard error is near the quartiles' distance by root n."""
    if len(samples) < 3:
        return False
    low, middle, high = statistics.quantiles(samples, n=4, method="inclusive")
    return high - low <= tolerance * middle * math.sqrt(len(samples))


# A case that is ready to be timed: the ways of each library, and how a result is checked.


class Case(Protocol):
    """A random case, known by its name; its text says what it is."""

    @property
    def name(self) -> str: ...
    @property
    def library(self) -> str:
        """The backend of the arrays that xferlib makes or takes."""

    @property
    def nbytes(self) -> int:
        """Bytes that are read, or read and written."""

    @property
    def group(self) -> str:
        """Names its colour in the picture."""


@dataclass(frozen=True, slots=True)
class Way:
    """One complete use of a library, from the call until the result is there."""

    run: Run
    is_pinned: bool = False
    """The result is a new array in page-locked memory."""


Runs = dict[str, Run]
Ways = dict[str, Way]


def ordinary(runs: Runs) -> Ways:
    return {name: Way(run) for name, run in runs.items()}


def pinned(runs: Runs) -> Ways:
    return {name: Way(run, is_pinned=True) for name, run in runs.items()}


def _unchanged() -> None:
    """Leave the data as it is: nothing between host and device keeps it."""


@dataclass(slots=True, kw_only=True)
class Trial:
    """The ways of one case."""

    subject: str
    """xferlib, named with its backend."""
    problem: Callable[[Any], str]
    """Why a result of xferlib's is wrong; empty if it is right."""
    ways: dict[str, Ways] = field(default_factory=dict)
    """By library."""
    change: Callable[[], None] = _unchanged
    """Called before each run: writes other data."""
    absent: dict[str, str] = field(default_factory=dict)
    """The reason why a library or a way is left out."""

    def add(self, library: str, make: Callable[[], Ways]) -> None:
        """Add the ways of a library, unless it refuses the case."""
        try:
            found = make()
        except Exception as error:  # each library has errors of its own
            self.absent[library] = reason(error)
        else:
            if found:
                self.ways[library] = found

    def try_peers(self) -> None:
        """Call each way of the peers, and leave out those that fail."""
        for library, ways in list(self.ways.items()):
            for name, way in list(ways.items()):
                if library == self.subject:
                    continue
                try:
                    way.run()
                except Exception as error:
                    self.absent[f"{library}, {name}"] = reason(error)
                    del ways[name]
            if not ways:
                del self.ways[library]


def reason(error: BaseException) -> str:
    """The first line of an error, with its type."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]
