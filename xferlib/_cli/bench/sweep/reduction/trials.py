"""Reductions that are ready to be timed, and what is right."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import xferlib as xl
from xferlib._cli.bench import libraries
from xferlib._cli.bench.libraries import ArrayLibrary, HostArray
from xferlib._cli.bench.sweep.peers import Peers
from xferlib._cli.bench.sweep.reduction import ways
from xferlib._cli.bench.sweep.reduction.cases import ReductionCase
from xferlib._cli.bench.sweep.trial import Trial, Ways
from xferlib.kernels import reductions

_COMPARED = 1 << 22
"""Elements up to which the CPU reduces the array too."""
_ROOM = 64
_FLOAT16_MOST = 60_000


def of_reduction(case: ReductionCase, peers: Peers) -> Trial:
    """A reduction of an array that stays as it is: its time does not depend on it."""
    memory = case.memory()
    device = libraries.XferlibDevice(case.library)
    trial = Trial(subject=device.name, problem=partial(_difference, case, case.cut().of(memory)))
    for library in sorted(peers.libraries.values(), key=lambda each: each.name != case.library):
        trial.add(library.name, partial(_add, trial, case, library, memory, device))
    return trial


def _add(
    trial: Trial, case: ReductionCase, library: ArrayLibrary, memory: HostArray, device: libraries.XferlibDevice
) -> Ways:
    """Add xferlib's way if this is its array, and return the library's own."""
    array = case.cut().on_device(library, memory)
    if library.name == case.library:
        trial.add(device.name, partial(ways.own, device, case, array))
    if isinstance(library, libraries.TorchLibrary):
        return ways.torch(library, case, array)
    return ways.numpy_like(library, case, array)


def _difference(case: ReductionCase, host: HostArray, result: Any) -> str:
    """Compare with the CPU's bits, if that is soon done, and with NumPy's numbers."""
    arrived = np.asarray(xl.to_host(result))
    if host.size <= _COMPARED:
        expected = np.asarray(getattr(reductions, case.operation)(host, axis=case.axis))
        if expected.dtype != arrived.dtype or expected.tobytes() != arrived.tobytes():
            return "the bits differ from the CPU's"
    return number_difference(case, host, arrived)


def number_difference(case: ReductionCase, host: HostArray, arrived: HostArray) -> str:
    """How a result differs from NumPy's by more than rounding; empty if it does not.

    All numbers are positive, so that a sum of n errs by some ulp where it is added in pairs.
    """
    wide = {"f": np.float64, "c": np.complex128}.get(host.dtype.kind)
    is_rounded = case.operation in ("sum", "prod", "mean", "var") and wide is not None
    options: dict[str, Any] = {"dtype": wide} if is_rounded else {}
    expected = np.asarray(getattr(np, case.operation)(host, axis=case.axis, **options))
    if arrived.shape != expected.shape:
        return f"the result is {arrived.dtype} {arrived.shape}"
    if not is_rounded:
        return "" if np.array_equal(arrived, expected) else "the results differ from NumPy's"
    found = arrived.astype(wide)
    if host.dtype == np.float16:  # a sum may be beyond the largest
        found, expected = np.minimum(found, _FLOAT16_MOST), np.minimum(expected, _FLOAT16_MOST)
    room = _ROOM * float(np.finfo(host.dtype).eps)
    return "" if np.allclose(found, expected, rtol=room, atol=room) else "the numbers differ from NumPy's"
