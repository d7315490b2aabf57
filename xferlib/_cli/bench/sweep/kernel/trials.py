"""Kernels that are ready to be timed, and what is right."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import xferlib as xl
from xferlib._cli.bench import libraries
from xferlib._cli.bench.libraries import ArrayLibrary, HostArray
from xferlib._cli.bench.sweep.kernel import expressions, ways
from xferlib._cli.bench.sweep.kernel.cases import KernelCase
from xferlib._cli.bench.sweep.peers import Peers
from xferlib._cli.bench.sweep.trial import Trial, Ways
from xferlib.kernels.ir.functions import guarantee

_CHECKED = 1 << 18
_ROOM = 64


def of_kernel(case: KernelCase, peers: Peers) -> Trial:
    """A kernel on arrays that stay as they are: its time does not depend on them."""
    memory = [each.memory() for each in case.inputs]
    kernel = xl.elementwise(expressions.function(expressions.text(case.expression), np, case.names), name="sweep")
    device = libraries.XferlibDevice(case.library)
    host = host_inputs(case, memory)
    trial = Trial(subject=device.name, problem=partial(_difference, case, kernel, host))
    for library in sorted(peers.libraries.values(), key=lambda each: each.name != case.library):
        trial.add(library.name, partial(_add, trial, case, peers, library, memory, kernel, device))
    return trial


def host_inputs(case: KernelCase, memory: list[HostArray]) -> list[HostArray]:
    """The inputs in host memory."""
    return [each.cut().of(one) for each, one in zip(case.inputs, memory, strict=True)]


def _add(
    trial: Trial, case: KernelCase, peers: Peers, library: ArrayLibrary, memory: list[HostArray],
    kernel: xl.ElementwiseKernel, device: libraries.XferlibDevice,
) -> Ways:  # fmt: skip
    """Add xferlib's way if these are its arrays, and return the library's own."""
    cuts = [each.cut() for each in case.inputs]
    inputs = [each.on_device(library, one) for each, one in zip(cuts, memory, strict=True)]
    out = None if case.is_new else case.out.cut().on_device(library, np.zeros_like(case.out.memory()))
    if library.name == case.library:
        trial.add(device.name, partial(ways.own, device, kernel, inputs, out))
    found = ways.eager(library, case, inputs, out)
    if isinstance(library, libraries.CupyLibrary):
        found |= ways.cupy(library, case, inputs, out)
    elif isinstance(library, libraries.TorchLibrary):
        if peers.compiles:
            trial.add("torch.compile", partial(ways.torch_compiled, library, case, inputs, out))
    elif peers.has_numexpr:
        trial.add("numexpr", partial(ways.numexpr, case, inputs, out))
    return found


def _difference(case: KernelCase, kernel: xl.ElementwiseKernel, host: list[HostArray], result: Any) -> str:
    """Compare with the CPU's bits where they are promised, and with NumPy's numbers."""
    arrived = xl.to_host(result)
    functions = expressions.functions(case.expression)
    if all(guarantee(name, case.out.dtype).is_identical for name in functions) and arrived.shape == case.out.shape:
        given, found = _sampled(host, arrived)
        if found.tobytes() != np.asarray(kernel(*given)).tobytes():
            return "the bits differ from the CPU's"
    return number_difference(case, host, arrived)


def number_difference(case: KernelCase, host: list[HostArray], arrived: HostArray) -> str:
    """How a result differs from NumPy's by more than rounding; empty if it does not."""
    if arrived.shape != case.out.shape or arrived.dtype != case.out.dtype:
        return f"the result is {arrived.dtype} {arrived.shape}"
    given, found = _sampled(host, arrived)
    largest = [1.0]
    expected = expressions.evaluated(case.expression, dict(zip(case.names, given, strict=True)), largest)
    return "" if is_near(found, expected, largest[0]) else "the numbers differ from NumPy's"


def _sampled(host: list[HostArray], arrived: HostArray) -> tuple[list[HostArray], HostArray]:
    """Some elements of the inputs and of the result, the first and the last among them."""
    some = np.random.default_rng(0).integers(0, arrived.size, min(arrived.size, _CHECKED))
    some[:2] = 0, arrived.size - 1
    index = np.unravel_index(some, arrived.shape)
    return [np.broadcast_to(each, arrived.shape)[index] for each in host], arrived[index]


def is_near(found: HostArray, expected: HostArray, largest: float) -> bool:
    """Whether numbers are equal but for rounding: each step errs by some ulp, and hands on errors by its operands."""
    if expected.dtype.kind not in "fc":
        return np.array_equal(found, expected)
    room = _ROOM * float(np.finfo(expected.dtype).eps) * largest**2
    return bool((np.abs(found - expected) <= room).all())
