"""Copies that are ready to be timed, from fresh host arrays."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import xferlib as xl
from xferlib._cli.bench.libraries import HostArray
from xferlib._cli.bench.sweep.arrays import laid_out
from xferlib._cli.bench.sweep.peers import Peers
from xferlib._cli.bench.sweep.transfer import ways
from xferlib._cli.bench.sweep.transfer.array_cases import ArrayCase
from xferlib._cli.bench.sweep.transfer.tree_cases import TreeCase
from xferlib._cli.bench.sweep.trial import Trial, Ways
from xferlib._core.convert import copy_into


def of_array(case: ArrayCase, peers: Peers) -> Trial:
    """A copy of one array; it has other data each time."""
    source, out = memory(case)
    own = ways.XferlibWays(case.library)
    trial = Trial(
        subject=own.name, problem=lambda result: _difference(case, source, out, result), change=_changer(source)
    )

    def make(library: ways.LibraryWays, case: ArrayCase) -> Callable[[], Ways]:
        return partial(library.up, case, source) if case.is_upload else partial(library.down, case, source, out)

    def make_on_stream(library: ways.LibraryWays) -> Callable[[], Ways]:
        return partial(ways.on_stream, library.stream(), make(library, replace(case, has_stream=False)))

    def make_both() -> Ways:
        """With the stream named in the call, and in its block."""
        in_block = make_on_stream(own)()
        return make(own, case)() | {f"{name} in a block": way for name, way in in_block.items()}

    has_both = case.has_stream and own.place.kind == "cuda"
    trial.add(own.name, make_both if has_both else make(own, case))
    for peer in (ways.of(each, case.library) for each in peers.libraries.values()):
        trial.add(peer.name, make_on_stream(peer) if case.has_stream else make(peer, case))
    return trial


def of_tree(case: TreeCase, peers: Peers) -> Trial:
    """A copy of a tree, of which the first leaf has other data each time."""
    source = case.host_arrays()
    own = ways.XferlibWays(case.library)

    def problem(result: Any) -> str:
        pairs = zip(source, xl.tree.to_host(result) if case.is_upload else result, strict=True)
        return "" if all(np.array_equal(one, two) for one, two in pairs) else "the tree differs"

    trial = Trial(subject=own.name, problem=problem, change=_changer(source[0]))
    for library in (own, *(ways.of(each, case.library) for each in peers.libraries.values())):
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


def _difference(case: ArrayCase, source: HostArray, out: HostArray | None, result: Any) -> str:
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
