"""The code in the notes of the table of other libraries' names: each piece runs on the simulator."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests.test_peer_page import SECTIONS, resolve
from xferlib.errors import UnsupportedError
from xferlib.testing import configured
from xferlib.testing.tools import in_threads

OTHERS = {
    ".npz", "loadtxt", "savetxt", "xferlib info", "with", "pycuda.autoprimaryctx", "int.bit_length", 'extern "C"',
    "add_source", "add_file", "reduce_type", "stack", "path", "pathlib.Path",
}  # fmt: skip
"""Words of the notes that are no code of xferlib's."""
SOURCE = 'extern "C" __global__ void copy(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }'
PIECES = [
    (section, answer.ours, piece)
    for section, answers in SECTIONS.items()
    for answer in answers
    for piece in re.findall(r"`([^`]+)`", answer.note)
    if piece not in OTHERS
]


def _kernel(section: str) -> Any:
    """The kernel that a section speaks of."""
    if section == "pycuda.scan":
        return xl.scan("a + b", neutral="0")
    if section == "cupy.ReductionKernel":
        return xl.reduction("T x", "T y", map_expr="x", reduce_expr="a + b", identity="0")
    if section.startswith("cupy.Raw"):
        return xl.raw_module(SOURCE).get_function("copy", cpu=lambda x, y: np.copyto(y, x))
    return xl.elementwise("T x", "T y", "y = x")


def _names(section: str) -> dict[str, Any]:
    """The names that the pieces use, as a reader would have them."""
    x, stream = xl.to_device(np.ones(4, np.float32)), xl.Stream()
    start, event, end = (stream.record(xl.Event(timing=True)) for _ in range(3))
    end.synchronize()
    kernel, module = _kernel(section), xl.raw_module(SOURCE)
    stream.wait(xl.current_stream())
    with xl.Stream(non_blocking=True).capture() as graph:
        xl.elementwise("T x", "T y", "y = x + 1")(x)
    own = {
        "x": x,
        "value": 2.0,
        "xp": xl.get_array_module(x),
        "stream": stream,
        "start": start,
        "event": event,
        "end": end,
        "kernel": kernel,
        "module": module,
        "graph": graph,
        "device": xl.get_device(),
        "default_rng": xl.random.default_rng,
        "seed": 1,
        "shape": (2, 3),
    }
    return {**{name: getattr(xl, name) for name in xl.__all__}, "xl": xl, **own}


FILLED = {
    "configure(pinned_limit=...)": 'configure(pinned_limit="64 MiB")',
    'xl.empty(order="F")': 'xl.empty((2, 3), "f4", order="F")',
    "xl.to_device(x, out=..., device=..., stream=...)": (
        "xl.to_device(x, out=xl.empty_like(x), device=device, stream=stream)"
    ),
    "with stream.capture() as graph:": "with Stream(non_blocking=True).capture() as graph:",
    "stream.capture()": "Stream(non_blocking=True).capture()",
    "with xl.pin(x):": "with xl.pin(xl.to_host(x)):",
    'available_backends()["torch"].devices': 'available_backends()["sim"].devices',
    "kernel(..., shared_nbytes=n)": "kernel((1,), (4,), (x, empty_like(x)), shared_nbytes=0)",
    "kernel(..., cooperative=True)": "kernel((1,), (4,), (x, empty_like(x)), cooperative=True)",
}
"""Pieces that leave something to the reader, or to another backend."""
SIGNATURES = {"raw_module(path=...)", "raw_module(source, link=(other, path))"}
"""Pieces that want files, of which the arguments are looked up."""


@pytest.fixture(autouse=True)
def _on_the_simulator() -> Any:
    with configured(), xl.use_backend("sim"):
        yield


def _run(text: str, section: str) -> None:
    """Run a piece in a thread of its own, which takes the streams and devices that it chooses with it."""

    def work(code: str) -> None:
        with xl.use_backend("sim"):
            exec(code, _names(section))

    in_threads(work, [text])


def _has_argument(piece: str, ours: tuple[str, ...]) -> bool:
    named = re.findall(r"\b(\w+)=", piece)
    functions = [resolve(name) for name in ours] + [xl.to_device, xl.raw_module, xl.scan]
    return all(any(name in inspect.signature(each).parameters for each in functions) for name in named)


@pytest.mark.parametrize(("section", "ours", "piece"), PIECES)
def test_a_piece_of_advice_works(section: str, ours: tuple[str, ...], piece: str) -> None:
    if re.fullmatch(r"\w+=.*", piece) or piece in SIGNATURES:
        assert _has_argument(piece, ours)
        return
    if re.fullmatch(r"\w+", piece):
        found = [resolve(name) for name in ours] + [xl, xl.errors, xl.Device]
        functions = [each for each in [*found, xl.elementwise, xl.reduction] if callable(each)]
        is_ours = any(hasattr(each, piece) for each in found) or piece in {name.rpartition(".")[2] for name in ours}
        assert is_ours or any(
            piece in inspect.signature(each).parameters for each in functions if inspect.isfunction(each)
        )
        return
    text = FILLED.get(piece, piece)
    try:
        _run(f"{text} current_stream().call(int)" if text.startswith("with ") else text, section)
    except UnsupportedError:
        assert section.startswith(("cupy.", "torch.", "pycuda."))  # of CUDA's devices alone


def test_a_wrong_piece_is_found() -> None:
    assert not _has_argument("nothing_of_that_name=1", ("xl.raw_module",))
    with pytest.raises(AttributeError):
        _run("stream.nothing_of_that_name()", "cupy.cuda")
