"""Usual calls in C: those that are made there, with the results of the functions in Python, and those that are not."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
import inspect
import itertools
import math
import os
import pickle
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import xferlib as xl
from tests.direct import DriverBackend
from tests.entered import functions_of
from tests.fake import FakeArray, hold_back
from xferlib.backends.base import DirectCopies, PlainArrays
from xferlib.errors import (
    ArgumentError,
    BackendNotFoundError,
    DeviceNotFoundError,
    LayoutError,
    MixedBackendsError,
    StreamError,
    StreamTypeError,
    TransferError,
    UnsupportedArrayError,
    UnsupportedDTypeError,
    UnsupportedError,
    XferError,
)
from xferlib.testing import (
    DTYPES,
    assert_identical,
    assert_same_bits,
    batches_read_by,
    configured,
    cores,
    forced,
    fresh_registry,
    in_python,
    load_backend,
    strategies,
)
from xferlib.testing.strategies import bits_of, host_arrays

pytestmark = pytest.mark.skipif(not inspect.isbuiltin(xl.to_device), reason="the front is not compiled, or not wanted")

to_device: Any = xl.to_device
copy_to: Any = xl.copy_to
astype: Any = xl.astype
to_host: Any = xl.to_host
HERE = "direct:sim:0"
OWN = ("xferlib._core.arrays.",)
"""Modules that the double below is made of."""
WORD = ctypes.c_uint64


class DirectArray(FakeArray):
    """An array of `Direct`."""


class Direct(DriverBackend):
    """One device of the fake accelerator, whose driver may refuse."""

    name = "direct"
    array_class: Any = DirectArray
    array_types = (f"{__name__}.DirectArray",)
    pinned_domain = "direct"
    plain_arrays = PlainArrays(DirectArray)

    unnoted = frozenset({"current", "query", "attribute", "is_captured"})

    def __init__(self) -> None:
        super().__init__()
        self.result = self.launch_result = self.later_result = 0
        self.from_pinned, self.fetched_at = False, 0
        """Whether the host's end of the last copy was pinned, and where the last one to the host went."""
        self.keeps_sources = False
        """The caller keeps pinned memory until it has been read on the default stream."""
        self.captured: set[int] = set()
        """Streams that another library's graph records."""
        self.managed = range(0)
        """Addresses of memory that the driver knows, but has not pinned."""
        self._kernels: list[Any] = []

    def devices(self) -> Any:
        return self._devices[:1]

    def _send(self, dst: int, src: int, nbytes: int) -> int:
        self.from_pinned = self.is_pinned(src)
        if not self.result:
            self.copy_to_device(dst, src, nbytes, stream=self._on(0))
            self._wait(0)
        return self.result

    def _fetch(self, dst: int, src: int, nbytes: int) -> int:
        self.from_pinned, self.fetched_at = self.is_pinned(dst), dst
        if not self.result:
            self.copy_to_host(dst, src, nbytes, stream=self._on(0))
        return self.result

    def _enqueue(self, dst: int, src: int, nbytes: int, handle: int | None) -> int | None:
        assert handle or self.keeps_sources or not self.is_pinned(src)
        return super()._enqueue(dst, src, nbytes, handle)

    def _fetch_later(self, dst: int, src: int, nbytes: int, handle: int | None) -> int | None:
        return self.later_result or super()._fetch_later(dst, src, nbytes, handle)

    def _is_captured(self, handle: int | None, status: Any) -> None:
        status[0] = int(handle in self.captured)

    def _attribute(self, answer: Any, name: int, pointer: int) -> int:
        assert name == 2  # CU_POINTER_ATTRIBUTE_MEMORY_TYPE
        is_managed = pointer in self.managed
        answer[0] = 2 if is_managed else int(self.is_pinned(pointer))  # CU_MEMORYTYPE_DEVICE, _HOST
        return 0

    def load(self, cubin: bytes, *, name: str, device: Any) -> Any:
        self._kernels.append(super().load(cubin, name=name, device=device))
        self._kernels[-1].handle = len(self._kernels)
        return self._kernels[-1]

    def _launch(self, kernel: int, *given: Any) -> int:
        *sizes, shared, handle, params, extra = given
        assert not shared
        assert not extra
        if not self.launch_result:
            pointers = ctypes.cast(params, ctypes.c_void_p).value or 0
            self.launch(self._kernels[kernel - 1], sizes[:3], sizes[3:], pointers, stream=self._on(handle))
        return self.launch_result

    def direct(self, device: Any) -> DirectCopies:
        return super().direct(device)._replace(is_current=lambda: self.device_current() is device)


@pytest.fixture
def direct(monkeypatch: pytest.MonkeyPatch) -> Any:
    # As in a program without a simulator, which earlier tests may have begun: beside it Python lends pinned blocks.
    monkeypatch.setattr("xferlib._runtime.happens_before.listener", None)
    with fresh_registry(direct=Direct):
        found: Any = load_backend("direct")  # made once for all tests
        found.result, found.launch_result, found.later_result, found.managed = 0, 0, 0, range(0)
        found.keeps_sources = False
        found.calls.clear()
        yield found
        found.machine.finish()
        assert not found.machine.violations


class PairedArray(FakeArray):
    """An array of `Paired`."""


class Paired(Direct):
    """`Direct` with two devices."""

    name = "paired"
    array_class: Any = PairedArray
    array_types = (f"{__name__}.PairedArray",)
    pinned_domain = "paired"
    plain_arrays = PlainArrays(PairedArray)

    def devices(self) -> Any:
        return self._devices

    def direct(self, device: Any) -> DirectCopies:
        return super().direct(device)._replace(stream=lambda: 0)  # the default one, which the fake numbers by device


@pytest.fixture
def paired() -> Any:
    with fresh_registry(paired=Paired):
        found: Any = load_backend("paired")
        yield found
        found.machine.finish()
        assert not found.machine.violations


def frames_of(call: Callable[[], Any]) -> list[str]:
    """The functions of xferlib that ``call`` enters, with their modules."""
    return [f"{module}.{name}" for module, name in functions_of(call)]


def test_they_are_functions_like_any_other() -> None:
    for found, names in [
        (
            to_device,
            ["x", "backend", "device", "dtype", "stream", "out", "copy", "order", "saturate"],
        ),
        (to_host, ["d", "dtype", "stream", "out", "pinned", "copy", "saturate"]),
    ]:
        own = in_python(found)
        assert (found.__name__, found.__qualname__, found.__module__) == (
            own.__name__,
            own.__qualname__,
            own.__module__,
        )
        assert inspect.getdoc(found) == inspect.getdoc(own)
        assert list(inspect.signature(found).parameters) == names
        refused = {name for name, kind in own.__annotations__.items() if kind == "Never"}
        assert [each.default for each in inspect.signature(found).parameters.values()] == [
            each.default for name, each in inspect.signature(own).parameters.items() if name not in refused
        ]
        assert pickle.loads(pickle.dumps(found)) is found


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: to_device(), "x"),
        (lambda x: to_device(x, "cpu"), "by position"),
        (lambda x: to_device(x, devise=None), "devise"),
        (lambda x: to_device(x, pinned=False), "pinned"),
        (lambda x: to_host(x, device=None), "device"),
        (lambda x: to_host(x, order="C"), "order"),
        (lambda x: to_host(x, None), "positional"),
        (lambda x: to_host(d=x, e=None), "e"),
        (lambda x: to_device(x, non_blocking=True), "unexpected keyword argument 'non_blocking'; to_device_async"),
        (lambda x: to_host(x, non_blocking=True), "unexpected keyword argument 'non_blocking'; to_device_async"),
        (lambda x: copy_to(x, "cpu", out=x), "unexpected keyword argument 'out'; xferlib.to_device"),
        (lambda x: copy_to(x, "cpu", pined=True), "'pined'; its parameters are x, device, dtype"),
        (lambda x: astype(x, "float32", copy=True), "'copy'; it always makes a new array"),
    ],
)
def test_arguments_that_there_are_not_are_refused(call: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        call(np.zeros(3))
    for flag in (None, 1):
        with pytest.raises(ArgumentError, match="pinned"):
            to_host(np.zeros(3), pinned=flag)


def test_names_that_are_made_at_run_time_are_the_same_names() -> None:
    x = np.arange(3.0)
    for name, value in [("out", np.zeros(3)), ("device", xl.Device("numpy:cpu")), ("dtype", np.float32)]:
        options = {"".join(list(name)): value}
        assert to_device(x, **options).dtype == (np.float32 if name == "dtype" else np.float64)
    with xl.use_backend("numpy"):
        assert_same_bits(to_device(x=x), x)


def test_usual_calls_enter_no_function_in_python(direct: Any) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    device, out, numbers = xl.get_device(HERE), np.zeros_like(x), np.zeros((4, 3), np.int64)
    equal = x.dtype.newbyteorder("=")
    assert equal is not x.dtype, "as an array has it that was read by pickle, or made in C"
    with device:
        d = to_device(x)
        for name, call in [
            ("send", lambda: to_device(x)),
            ("send", lambda: to_device(x, device=device)),
            ("send", lambda: to_device(x, out=d)),
            ("send", lambda: to_device(np.repeat(x, 2, axis=1)[:, ::2], out=d)),
            ("send", lambda: to_device(x, backend=None, dtype=None, stream=None, copy=True, device=None)),
            ("send", lambda: to_device(x, dtype="float16")),
            ("send", lambda: to_device(x.astype(np.int64), out=d, dtype=np.float32)),
            ("send", lambda: to_device(x.T, device=device, dtype=np.dtype(np.float64))),
            ("send", lambda: to_device(x.astype(">f4"), out=d)),
            ("send", lambda: to_device(x.astype(">i8").T, dtype="float32")),
            ("send", lambda: to_device(np.frombuffer(x.tobytes(), equal).reshape(x.shape), out=d)),
            ("fetch", lambda: to_host(d)),
            ("fetch", lambda: to_host(d, out=out, pinned=False, dtype=None)),
            ("fetch", lambda: to_host(d, dtype="float16")),
            ("fetch", lambda: to_host(d, out=numbers.T, dtype=np.int64)),
        ]:
            xl.synchronize(HERE)
            call()
            xl.synchronize(HERE)
            direct.calls.clear()
            assert not [each for each in frames_of(call) if not each.startswith(OWN)]
            assert direct.calls == [name]
        to_host(d, pinned=True)
        direct.calls.clear()
        assert_same_bits(to_host(d, pinned=True), x)
        assert direct.calls == ["fetch"]
    assert_same_bits(out, x)


STEPS = [
    ("transposed", (700, 300), (1, 0), "f4", "f4"),
    ("transposed, odd", (1 << 18, 3), (1, 0), "u1", "u1"),
    ("colours last", (3, 400, 300), (1, 2, 0), "u2", "u2"),
    ("permuted", (4, 131, 7, 50), (2, 0, 3, 1), "f8", "f8"),
    ("complex", (290, 180), (1, 0), "c16", "c16"),
    ("wider", (700, 300), (0, 1), "u1", "f4"),
    ("wider, transposed", (300, 700), (1, 0), "i2", "f8"),
    ("unsigned, transposed", (300, 700), (1, 0), "i1", "u8"),
    ("unsigned", (300, 700), (0, 1), "i1", "u8"),
    ("floats", (300, 700), (0, 1), "f4", "f8"),
    ("halves", (300, 700), (0, 1), "f2", "f4"),
    ("halves, transposed", (300, 700), (1, 0), "f2", "f8"),
    ("small", (100, 350), (0, 1), "u1", "f4"),
    ("small, transposed", (256, 256), (1, 0), "u2", "u2"),
]


def let_kernels_convert(direct: Any, monkeypatch: Any) -> None:
    """Let plans leave conversions to the device's kernels, as those of CUDA do."""
    means = sys.modules["xferlib._transfer.plan"].means_of(direct, xl.get_device(HERE))._replace(is_cuda=True)
    monkeypatch.setattr("xferlib._transfer.plan.means_of", lambda *_: means)
    monkeypatch.setattr("xferlib._transfer.plan.known", {})


def assert_a_kernel_is_part(direct: Any, x: Any, back: Any, wanted: str, monkeypatch: Any) -> None:
    """Neither way enters Python, and both launch a kernel: behind the copy of ``x``, and before that to ``back``."""
    out = to_device(np.zeros(x.shape, wanted), device=HERE)
    device = xl.get_device(HERE)
    let_kernels_convert(direct, monkeypatch)

    def steps(call: Callable[[], Any]) -> list[str]:
        """The driver's part of a call in which nothing is asked, as it is once a second."""
        for _ in range(5):
            xl.synchronize(HERE)
            direct.calls.clear()
            if not [each for each in frames_of(call) if not each.startswith(OWN)]:
                return list(direct.calls)
        raise AssertionError("each call enters Python")

    for call in (lambda: to_device(x, device=device, dtype=wanted), lambda: to_device(x, out=out, dtype=wanted)):
        assert steps(call)[-1] == "launch"
        assert_same_bits(to_host(call()), x.astype(wanted))
    assert steps(lambda: to_host(out, out=back, dtype=x.dtype))[0] == "launch"
    assert_same_bits(back, x)


@pytest.mark.parametrize(
    ("shape", "order", "given", "wanted"), [row[1:] for row in STEPS], ids=[row[0] for row in STEPS]
)
def test_what_the_device_puts_in_order_or_converts_enters_no_function_in_python(
    direct: Any, shape: tuple[int, ...], order: tuple[int, ...], given: str, wanted: str, monkeypatch: Any
) -> None:
    x = bits_of(math.prod(shape) * np.dtype(given).itemsize, given, seed=5).reshape(shape).transpose(order)
    if given != wanted and x.dtype.kind == "f":
        x = np.nan_to_num(x)  # whose payloads may change
    assert_a_kernel_is_part(direct, x, np.zeros(shape, given).transpose(order), wanted, monkeypatch)


def test_what_is_large_and_becomes_narrower_is_put_in_order_by_the_device(direct: Any, monkeypatch: Any) -> None:
    x = bits_of(2200 * 1000, "uint8", seed=4).astype("int32").reshape(2200, 1000).T
    assert_a_kernel_is_part(direct, x, np.zeros_like(x, order="A"), "uint8", monkeypatch)


@pytest.mark.parametrize("cut", [
    lambda x: x[::2], lambda x: x[:, 3:400], lambda x: x[::-1, ::-1], lambda x: x[:400].T[::3],
    lambda x: x.reshape(10, 60, 14, 50).transpose(2, 0, 3, 1)[:, 1:, :, ::2],
])  # fmt: skip
@pytest.mark.parametrize(("given", "wanted"), [("uint8", "float32"), ("int16", "float64"), ("float32", "float64")])
def test_what_has_gaps_is_gathered_and_the_device_converts_it(
    direct: Any, cut: Callable[[Any], Any], given: str, wanted: str, monkeypatch: Any
) -> None:
    whole = np.nan_to_num(bits_of(600 * 700 * np.dtype(given).itemsize, given, seed=9).reshape(600, 700))
    x, back = cut(whole), cut(kept := np.zeros_like(whole))
    assert_a_kernel_is_part(direct, x, back, wanted, monkeypatch)
    back[...] = 0
    assert not kept.any()  # and nothing between the elements was written


def assert_a_kernel_is_part_on_any_stream(direct: Any, x: Any, back: Any, wanted: str, *, is_named: bool) -> None:
    """New and existing arrays are filled in the order of the program's own streams, and come back."""
    device = xl.get_device(HERE)
    out = to_device(np.zeros(x.shape, wanted), device=HERE)
    xl.synchronize(HERE)
    for stream in [xl.Stream(HERE) for _ in range(2)] * 2:
        options: Any = {"stream": stream} if is_named else {}
        with contextlib.nullcontext() if is_named else stream:
            direct.calls.clear()
            new = to_device(x, device=device, dtype=wanted, **options)
            to_device(x, out=out, dtype=wanted, **options)
            assert_same_bits(to_host(new, **options), x.astype(wanted))
            back[...] = 0
            to_host(out, out=back, dtype=x.dtype, **options)
            assert direct.calls.count("launch") == 3
            assert_same_bits(back, x)
        stream.synchronize()


@pytest.mark.parametrize(
    ("shape", "order", "given", "wanted"), [row[1:] for row in STEPS[::4]], ids=[row[0] for row in STEPS[::4]]
)
@pytest.mark.parametrize("is_named", [False, True])
def test_what_the_device_puts_in_order_or_converts_is_in_the_order_of_any_stream(
    direct: Any, shape: tuple[int, ...], order: tuple[int, ...], given: str, wanted: str, is_named: bool,
    monkeypatch: Any,
) -> None:  # fmt: skip
    x = (np.arange(math.prod(shape)) % 100).astype(given).reshape(shape).transpose(order)
    let_kernels_convert(direct, monkeypatch)
    assert_a_kernel_is_part_on_any_stream(direct, x, np.zeros(shape, given).transpose(order), wanted, is_named=is_named)


@pytest.mark.parametrize("is_pinned", [False, True])
@pytest.mark.parametrize("is_named", [False, True])
def test_what_has_gaps_is_converted_in_the_order_of_any_stream(
    direct: Any, is_named: bool, is_pinned: bool, monkeypatch: Any
) -> None:
    whole, kept = (np.arange(600 * 700) % 100).astype("uint8").reshape(600, 700), np.zeros((600, 700), "uint8")
    if is_pinned:
        whole, kept = xl.pinned_array(whole, backend="direct"), xl.pinned_array(kept, backend="direct")
    let_kernels_convert(direct, monkeypatch)
    assert_a_kernel_is_part_on_any_stream(direct, whole[:, 1:400:2], kept[:, 1:400:2], "float32", is_named=is_named)


@pytest.mark.parametrize("stream", ["default", "current", "named"])
def test_the_device_converts_what_is_pinned(direct: Any, stream: str, monkeypatch: Any) -> None:
    values = (np.arange(600_000) % 1000).astype(np.float32)
    x, device = xl.pinned_array(values, backend="direct"), xl.get_device(HERE)
    let_kernels_convert(direct, monkeypatch)
    d = to_device(np.zeros(values.shape, np.float16), device=device)
    own = xl.Stream(HERE)
    xl.synchronize(HERE)
    with own if stream == "current" else contextlib.nullcontext():
        options: Any = {"stream": own} if stream == "named" else {}
        for call in (
            lambda: to_device(x, device=device, dtype="float16", **options),
            lambda: to_device(x, out=d, dtype="float16", **options),
        ):
            direct.calls.clear()
            found = call()
            assert "launch" in direct.calls
            assert_same_bits(to_host(found, **options), values.astype(np.float16))
        direct.calls.clear()
        back = to_host(d, dtype=np.float32, pinned=True, **options)
        assert "launch" in direct.calls
        assert_same_bits(back, values)
    own.synchronize()


def test_more_forms_than_there_are_places_for_keep_their_bits(direct: Any) -> None:
    base = bits_of(4 * 200 * 60, np.float32, seed=7).reshape(200, 60)
    for number in range(700):
        x = base[: number % 190 + 2, : number % 50 + 3 : number % 2 + 1]
        d = to_device(x, device=xl.get_device(HERE))
        out = np.zeros((x.shape[0], 2 * x.shape[1]), np.float32)[:, ::2]
        assert_same_bits(to_host(d, out=out), x)


def test_a_launch_that_is_refused_leaves_the_call_to_python(direct: Any) -> None:
    x = bits_of(840_000, np.float32, seed=6).reshape(700, 300).T
    device, out, back = (
        xl.get_device(HERE),
        to_device(np.zeros_like(x), device=HERE),
        np.zeros((700, 300), np.float32).T,
    )
    direct.launch_result = 1
    for call in (lambda: to_device(x, device=device), lambda: to_device(x, out=out), lambda: to_host(out, out=back)):
        direct.calls.clear()
        found = call()
        assert "launch" in direct.calls
        assert_same_bits(found if found is back else to_host(found), x)


@given(data=st.data(), dtype=st.sampled_from(["uint8", "bool", "int16", "float32", "float64", "complex128"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
def test_dense_arrays_in_any_order_of_axes_keep_their_bits(direct: Any, data: Any, dtype: str) -> None:
    shape = data.draw(st.lists(st.sampled_from([1, 2, 3, 5, 8, 33]), min_size=1, max_size=4), "shape")
    shape.append(
        -(-(100 << 10) // (math.prod(shape) * np.dtype(dtype).itemsize)) + data.draw(st.integers(0, 3), "more")
    )
    order = data.draw(st.permutations(range(len(shape))), "order")
    lie = data.draw(st.permutations(shape), "as they lie")
    x = bits_of(math.prod(lie) * np.dtype(dtype).itemsize, dtype, seed=len(lie)).reshape(lie).transpose(order)
    made, out = to_device(x, device=HERE), xl.empty(x.shape, x.dtype, device=HERE)
    back = np.zeros(lie, dtype).transpose(order)
    assert_same_bits(to_host(made), x)
    assert_same_bits(to_host(to_device(x, out=out)), x)
    assert_same_bits(to_host(made, out=back), x)


@given(
    data=st.data(),
    dtypes=st.sampled_from([
        ("uint8", "float32"), ("int16", "float64"), ("float16", "float32"), ("bool", "int32"), ("int32", "uint8"),
    ]),
)  # fmt: skip
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_gaps_and_conversions_go_together(direct: Any, data: Any, dtypes: tuple[str, str], monkeypatch: Any) -> None:
    given_, wanted = dtypes
    let_kernels_convert(direct, monkeypatch)
    shape = data.draw(st.lists(st.sampled_from([1, 2, 3, 5, 33]), max_size=3), "shape")
    shape.append(300_000 // math.prod(shape) + data.draw(st.integers(0, 3), "more"))
    order = data.draw(st.permutations(range(len(shape))), "order")
    steps = st.sampled_from([1, 1, 2, 3, -1, -2])
    cut = tuple(slice(None, None, data.draw(steps, "step")) for _ in shape)
    whole = np.nan_to_num(bits_of(math.prod(shape) * np.dtype(given_).itemsize, given_, seed=3)).reshape(shape)
    x, kept = whole.transpose(order)[cut], np.zeros_like(whole)
    back, device = kept.transpose(order)[cut], xl.get_device(HERE)
    expected = to_device(np.ascontiguousarray(x), backend="numpy", dtype=wanted)
    returned = to_device(expected, backend="numpy", dtype=given_)
    for _ in range(2):  # the first call describes the kernel
        sent = to_device(x, device=device, dtype=wanted)
        assert_same_bits(to_host(sent), expected)
        assert_same_bits(to_host(to_device(x, out=xl.empty(x.shape, wanted, device=device), dtype=wanted)), expected)
        to_host(sent, out=back, dtype=given_)
        assert_same_bits(back, returned)
    back[...] = 0
    assert not kept.any()  # and nothing between the elements was written


@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_usual_calls_on_a_cpu_enter_no_function_but_that_which_notes_writes(name: str) -> None:
    library = pytest.importorskip(name)
    if name == "torch" and library.cuda.device_count() > 0:
        pytest.skip("torch's current device is a GPU")
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    out, columns = np.zeros_like(x), np.zeros((4, 3), np.float32).T
    halves, numbers = x.astype(">f2"), np.zeros(x.shape, np.int16)
    own = ("note_write", ".empty")  # of the backend
    with xl.use_backend(name):
        d = to_device(x)
        across, transposed = to_device(x.T), d.T
        for call in (
            lambda: to_device(x),
            lambda: to_device(x.T),
            lambda: to_device(x[::-1, ::2]),
            lambda: to_device(halves, dtype="float32"),
            lambda: to_device(np.ones(3, halves.dtype.newbyteorder())),
            lambda: to_device(x, out=d),
            lambda: to_device(x, out=transposed.T),
            lambda: to_device(x, out=across.T),
            lambda: to_device(x.T, out=across),
            lambda: to_device(halves, out=d, dtype="float32"),
            lambda: to_host(d),
            lambda: to_host(transposed),
            lambda: to_host(d, dtype="float64"),
            lambda: to_host(d, out=out),
            lambda: to_host(d, out=columns),
            lambda: to_host(d, out=numbers, dtype="int16"),
        ):
            call()
            assert not [each for each in frames_of(call) if not each.endswith(own)]
    for filled in (out, columns, numbers):
        assert_same_bits(filled, x.astype(filled.dtype))


def test_devices_and_backends_are_named_in_any_way(direct: Any) -> None:
    x = np.arange(12, dtype=np.float32)
    to_device(x, device=HERE)
    for options in ({"device": HERE}, {"backend": "direct"}, {"backend": "direct", "device": 0}):
        xl.synchronize(HERE)
        direct.calls.clear()
        d = to_device(x, **options)
        assert isinstance(d, DirectArray)
        assert direct.calls == ["send"]
        assert_same_bits(to_host(d), x)
    for options in ({"device": 1, "backend": "direct"}, {"device": "cpu", "backend": "direct"}, {"backend": "direkt"}):
        with pytest.raises((DeviceNotFoundError, BackendNotFoundError)):
            to_device(x, **options)
    with pytest.raises(MixedBackendsError):
        to_device(x, backend="numpy", out=d)


def test_the_driver_that_declines_leaves_the_call_to_python(direct: Any) -> None:
    x = bits_of(1000, np.uint8, seed=1)
    d = to_device(x, device=xl.get_device(HERE))
    direct.result = 1
    assert_same_bits(to_host(to_device(x[::-1].copy(), out=d)), x[::-1])
    assert_same_bits(to_host(to_device(x, device=xl.get_device(HERE))), x)
    assert {"send", "fetch"} <= set(direct.calls)


def test_an_upload_waits_a_moment_for_its_stream_and_seldom_where_that_was_in_vain(
    direct: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, busy = bits_of(100_000, np.uint8, seed=2), [False, True]
    asked: list[None] = []
    d = to_device(x, device=xl.get_device(HERE))
    xl.synchronize(HERE)

    def stream_done(_: Any) -> bool:
        asked.append(None)
        return not (busy.pop(0) if len(busy) > 1 else busy[0])

    def queries(*answers: bool) -> int:
        busy[:] = answers
        asked.clear()
        direct.calls.clear()
        to_device(x, out=d)
        assert ("send" in direct.calls) == (not answers[-1])
        return len(asked)

    monkeypatch.setattr(direct, "stream_done", stream_done)
    assert queries(True, False) == 2
    assert [queries(True) > 2 for _ in range(18)] == [True, *[False] * 15, True, False]
    assert queries(False) == 1
    assert queries(True) > 2  # the stream was idle meanwhile


class GilArray(FakeArray):
    """An array of `Gil`."""


class Gil(Direct):
    """`Direct`, whose stream is idle, and whose copies succeed and do nothing, where the GIL is not held meanwhile."""

    name = "gil"
    array_class: Any = GilArray
    array_types = (f"{__name__}.GilArray",)
    pinned_domain = "gil"
    plain_arrays = PlainArrays(GilArray)

    def direct(self, device: Any) -> DirectCopies:
        is_held = ctypes.cast(ctypes.pythonapi.PyGILState_Check, ctypes.c_void_p).value or 0
        return super().direct(device)._replace(query=is_held, send=is_held, fetch=is_held)


def test_other_threads_run_while_the_driver_is_asked_and_copies() -> None:
    with fresh_registry(gil=Gil):
        x, rows = np.ones(30_000, np.uint8), np.ones((1000, 200), np.uint8)[:, ::2]
        d, e = (xl.zeros(each.shape, "uint8", device="gil:sim:0") for each in (x, rows))
        xl.synchronize("gil:sim:0")
        for source, out in ((x, d), (rows, e)):
            to_device(source, out=out)
            with configured(native="off"):
                assert not to_host(out).any(), "the GIL was held, so that Python copied"
        found: Any = load_backend("gil")
        found.machine.finish()
        back = np.full(30_000, 7, np.uint8)
        assert to_host(d, out=back) is back
        assert (back == 7).all(), "likewise"


class MadeArray(FakeArray):
    """An array of `Made`."""


class Made(Direct):
    """`Direct`, whose library has a function for C that makes arrays of its own dtypes; here they are numbers."""

    name = "made"
    array_class: Any = MadeArray
    array_types = (f"{__name__}.MadeArray",)
    pinned_domain = "made"
    plain_arrays = PlainArrays(MadeArray, dtypes=tuple(range(30)))
    asked: list[Any]

    def direct(self, device: Any) -> DirectCopies:
        def make(shape: tuple[int, ...], steps: tuple[int, ...], dtype: int) -> Any:
            self.asked.append((shape, steps))
            return self.empty(shape, np.dtype(np.float64), device=device, stream=self._on(0))

        return super().direct(device)._replace(maker=make)


@given(
    x=st.sampled_from([bits_of(8 * count, np.float64, seed=count) for count in (1, 6, 48, 5000)]),
    axes=st.integers(1, 3),
)
@settings(max_examples=20, deadline=None)
def test_a_librarys_function_for_c_makes_new_arrays(x: Any, axes: int) -> None:
    x = x.reshape((2, -1, 1)[:axes] if axes > 1 and x.size > 1 else -1)
    with fresh_registry(made=Made):
        found: Any = load_backend("made")
        found.asked = []
        assert_same_bits(to_host(to_device(x, device="made:sim:0")), x)
        assert found.asked == [(x.shape, tuple(step // 8 for step in x.strides))]
        assert_same_bits(to_host(to_device(x[:0], device="made:sim:0")), x[:0])  # of no elements it makes none
        assert len(found.asked) == 1
        found.machine.finish()


@pytest.mark.parametrize("without", [forced("staged"), configured(native="off")], ids=["forced", "without C"])
def test_a_loop_that_is_not_copied_by_c_leaves_what_the_one_before_kept(direct: Any, without: Any) -> None:
    items = [np.full(60_000, number, np.float32) for number in range(4)]
    with batches_read_by("consumer"):
        list(xl.prefetch(items, device=HERE))
        kept = dict(xl.pinned_pool("direct").kept)
        assert kept
        with without, pytest.MonkeyPatch.context() as patch:
            patch.setattr("xferlib._transfer.staging.fill_crew", lambda: pytest.fail("C fills the buffers"))
            found = list(xl.prefetch(items, device=HERE))
        assert xl.pinned_pool("direct").kept == kept
    for item, batch in zip(items, found, strict=True):
        assert_same_bits(to_host(batch), item)


@pytest.mark.parametrize("kind", ["list", "generator"])
def test_a_loop_over_small_arrays_runs_ahead_of_the_device_by_more_than_its_buffers(
    direct: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _forget_simulator(monkeypatch)
    items = [np.full(9_000, number, np.float32) for number in range(9)]
    direct.machine.progresses_on_query = False
    try:
        direct.calls.clear()
        with batches_read_by("consumer"):
            found = list(xl.prefetch(items if kind == "list" else (item for item in items), device=HERE))
        assert direct.calls.count("enqueue") >= len(items) - 3  # those for which no buffer was free, by the driver
    finally:
        direct.machine.progresses_on_query = True
    for item, batch in zip(items, found, strict=True):
        assert_same_bits(to_host(batch), item)


_READ_AT_ONCE = 16 << 10
"""Bytes of pinned memory that the driver reads, by way of ordinary memory, before its call returns."""


@pytest.mark.parametrize("nbytes", [1000, _READ_AT_ONCE, _READ_AT_ONCE + 1, 32 << 10, 190_001, 384 << 10])
def test_more_than_some_bytes_come_through_pinned_memory(direct: Any, nbytes: int) -> None:
    x = bits_of(nbytes, np.uint8, seed=nbytes)
    device = xl.get_device(HERE)
    for source in (x, xl.pinned_array(x, backend="direct")):
        xl.synchronize(HERE)
        direct.calls.clear()
        direct.from_pinned = False
        d = to_device(source, device=device)
        assert direct.from_pinned == (source is not x and nbytes > _READ_AT_ONCE)
        for out in (None, np.zeros_like(x), xl.pinned_empty(x.shape, x.dtype, backend="direct")):
            found = to_host(d, out=out)
            assert_same_bits(found, x)
            assert direct.from_pinned == (32 << 10 < nbytes <= 384 << 10 or direct.is_pinned(found.ctypes.data))
        sent = "enqueue" if source is not x and nbytes <= _READ_AT_ONCE else "send"
        assert direct.calls == [sent] + ["fetch"] * 3


def test_arrays_that_come_through_pinned_memory_lie_one_behind_the_other_there(direct: Any) -> None:
    x = bits_of(100_000, np.uint8, seed=1)
    d = to_device(x, device=xl.get_device(HERE))
    places = []
    for _ in range(80):
        assert_same_bits(to_host(d), x)
        places.append(direct.fetched_at)
    assert len(set(places)) >= (4 << 20) // 102_400  # in whole pages
    assert max(places) - min(places) <= (4 << 20) - x.nbytes


# --- large arrays, which threads of C stage


@given(data=st.data(), dtype=st.sampled_from(["uint8", "int16", "float32", "float64", "complex64"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
def test_a_large_array_of_any_layout_is_staged_in_the_call(direct: Any, data: Any, dtype: str) -> None:
    rows = data.draw(st.integers(1, 600), "rows")
    columns = (3 << 20) // (rows * np.dtype(dtype).itemsize) + data.draw(st.integers(1, 9), "more")
    nbytes = 2 * rows * columns * np.dtype(dtype).itemsize
    whole = bits_of(nbytes, np.dtype(dtype), seed=rows).reshape(2 * rows, columns)
    x = data.draw(st.sampled_from([whole[::2], whole[::-2], whole[:rows], whole[:rows, ::-1], whole[:rows, 1:]]))
    device = xl.get_device(HERE)
    direct.calls.clear()
    made = to_device(x, device=device)
    existing = to_device(x, out=xl.empty(x.shape, x.dtype, device=HERE))
    for d in (made, existing):
        assert_same_bits(to_host(d), x)
        back = np.zeros((len(x), 2 * x.shape[1]), x.dtype)[:, ::2]
        assert_same_bits(to_host(d, out=back), x)
    assert not direct.calls  # the driver's own copies


@pytest.mark.parametrize(("dtype", "wanted"), [("float64", "float32"), ("float64", "float16"), ("int64", "uint8")])
def test_a_large_array_is_converted_on_its_way(direct: Any, dtype: str, wanted: str) -> None:
    x = (np.random.default_rng(5).random(700_001) * 300 - 100).astype(dtype)
    device = xl.get_device(HERE)
    to_device(x, device=device, dtype=wanted)
    d = to_device(x, device=device, dtype=wanted)
    assert not [name for name in frames_of(lambda: to_device(x, out=d, dtype=wanted)) if not name.startswith(OWN)]
    assert_same_bits(to_host(d), in_python(to_host)(in_python(to_device)(x, device=device, dtype=wanted)))
    assert_same_bits(to_host(d, dtype=dtype), in_python(to_host)(d, dtype=dtype))


@pytest.mark.parametrize("cut", [lambda x: x, lambda x: x[::2], lambda x: x[:, 3:-3]])
def test_a_large_copy_enters_no_function_of_python(direct: Any, cut: Callable[[Any], Any]) -> None:
    x = cut(bits_of(4 << 20, np.uint8, seed=1).reshape(-1, 1 << 10))
    d, out = to_device(x, device=xl.get_device(HERE)), np.empty(x.shape, np.uint8)
    for call in (lambda: to_device(x, out=d), lambda: to_host(d, out=out)):
        call()
        call()  # on a stream that is busy since then, which is staged where the first one need not be
        assert not [name for name in frames_of(call) if not name.startswith(OWN)]
    assert_same_bits(out, x)


def test_memory_that_the_driver_knows_is_not_staged(direct: Any) -> None:
    x = bits_of(3 << 20, np.uint8, seed=2)
    d = to_device(x, device=xl.get_device(HERE))
    direct.managed = range(x.ctypes.data, x.ctypes.data + 1)
    assert any(name.startswith("xferlib._transfer") for name in frames_of(lambda: to_device(x, out=d)))
    pinned = xl.pinned_array(x[::-1], backend="direct")
    of_others: Any = np.frombuffer(pinned, np.uint8)  # about which the driver is asked
    for source in (pinned, of_others):
        xl.synchronize(HERE)  # behind other work the driver is not asked
        direct.calls.clear()
        to_device(source, out=d)
        to_host(d, out=source)
        assert direct.calls == ["send", "fetch"]
    assert_same_bits(to_host(d), x[::-1])


def test_a_copy_whose_chunks_were_given_up_goes_on(direct: Any) -> None:
    x = bits_of(3 << 20, np.uint8, seed=3)
    d = to_device(x, device=xl.get_device(HERE))
    for _ in range(2):
        xl.trim()
        assert_same_bits(to_host(to_device(x[::-1], out=d)), x[::-1])
        assert_same_bits(to_host(to_device(x, out=d)), x)


def test_an_error_of_a_staged_copy_is_raised_and_the_next_copy_works(direct: Any) -> None:
    x = bits_of(3 << 20, np.uint8, seed=4)
    d = to_device(x, device=xl.get_device(HERE))
    direct.machine.failing = RuntimeError("the link is down")
    for call in (lambda: to_device(x, out=d), lambda: to_host(d)):
        with pytest.raises(RuntimeError, match="the link is down"):
            call()
    direct.machine.failing = None
    assert_same_bits(to_host(to_device(x[::-1], out=d)), x[::-1])


def plain(x: Any) -> Any:
    return x


def rows(x: Any) -> Any:
    return x.reshape(-1, 1 << 10)[::2]


@pytest.mark.parametrize(("cut", "kib", "is_upload", "shared"), [
    (plain, 512, True, True), (plain, 320, True, False), (plain, 768, False, True),
    (rows, 1280, True, True), (rows, 640, True, False), (rows, 1280, False, True), (rows, 640, False, False),
])  # fmt: skip
def test_other_threads_take_part_only_in_a_loop_for_which_they_spin(
    direct: Any, cut: Callable[[Any], Any], kib: int, *, is_upload: bool, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = cut(bits_of(kib << 10, np.uint8, seed=6))
    out = cut(np.zeros(kib << 10, np.uint8))
    d = to_device(x, device=xl.get_device(HERE))
    xl.synchronize(HERE)
    crew = sys.modules["xferlib._runtime.threads"].crew()

    def transfer() -> None:
        if is_upload:
            to_device(x, out=d)
        else:
            to_host(d, out=out)
        xl.synchronize(HERE)

    for fillers in (0, 1):
        few = crew._replace(each_way=2, both_ways=2, fillers=fillers)
        monkeypatch.setattr("xferlib._runtime.threads.crew", lambda few=few: few)
        xl.trim()  # and with it what was known of threads
        with configured(threads=2):
            with forced("staged"):  # new chunks have an event on the stream each, which is busy until then
                transfer()
            direct.calls.clear()
            for _ in range(200):  # one of them will come within a millisecond of the one before
                transfer()
        assert (len(direct.calls) < 200) == bool(fillers and shared)
    assert_same_bits(to_host(d) if is_upload else out, x)


@given(
    data=st.data(),
    dtype=st.sampled_from(["bool", "int8", "uint16", "int32", "int64", "float16", "float32", "float64"]),
    wanted=st.sampled_from(["uint8", "int32", "uint64", "float16", "float32", "complex64"]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_small_array_is_converted_on_the_way_back(direct: Any, data: Any, dtype: str, wanted: str) -> None:
    x = data.draw(host_arrays(dtype=dtype))
    d = to_device(x, device=HERE)
    with configured(native="off"):
        expected = to_host(d, dtype=wanted)
    for found in (to_host(d, dtype=wanted), to_host(d, dtype=wanted, pinned=True)):
        assert_identical(found, expected)
    out = np.zeros((*x.shape, 2), wanted)[..., 0]
    assert_identical(to_host(d, out=out, dtype=wanted), expected)


@pytest.mark.parametrize("count", [1000, 100_000, 200_000])
def test_few_gathered_bytes_are_sent_from_ordinary_memory(direct: Any, count: int) -> None:
    x = bits_of(6 * count, np.uint16, seed=count)[::3]
    d = to_device(x, device=xl.get_device(HERE))
    assert direct.calls[-1:] == ["send"]
    assert direct.from_pinned == (x.nbytes > 256 << 10)
    assert_same_bits(to_host(d), x)


def test_the_driver_copies_any_number_of_bytes_of_the_pool(direct: Any) -> None:
    x = xl.pinned_array(bits_of(3 << 20, np.uint8, seed=1), backend="direct")
    device, out = xl.get_device(HERE), xl.pinned_empty(x.shape, x.dtype, backend="direct")
    xl.synchronize(HERE)
    d = to_device(x, device=device)
    for source in (x, x[:-1][1:], x.reshape(3, -1)[1:], x.view(np.uint64)):
        xl.synchronize(HERE)
        direct.calls.clear()
        to_device(source, device=device)
        assert direct.calls == ["send"]
        assert direct.from_pinned
    to_device(x, out=d)
    direct.calls.clear()
    assert to_host(d, out=out) is out
    assert direct.calls == ["fetch"]
    assert_same_bits(out, x)
    assert_same_bits(to_host(to_device(x[1::2], out=xl.empty(len(x) // 2, x.dtype, device=HERE))), x[1::2])


def test_arrays_without_axes_or_elements_go_to_pinned_memory_too(direct: Any) -> None:
    scalar, empty = to_device(np.array(-0.0), device=HERE), to_device(np.zeros((3, 0)), device=HERE)
    found = xl.tree.to_host({"a": scalar, "b": scalar, "c": to_device(np.ones(2), device=HERE)}, pinned=True)
    assert_same_bits(found["a"], np.array(-0.0))
    assert found["a"] is found["b"]
    found = xl.tree.to_host([scalar, empty], pinned=True)
    assert_same_bits(found[0], np.array(-0.0))
    assert found[1].shape == (3, 0)


@pytest.mark.parametrize("fails", ["later_result", "result"])
def test_arrays_whose_copy_is_refused_go_to_pinned_memory_by_python(direct: Any, fails: str) -> None:
    expected = [bits_of(4000, np.float32, seed=number) for number in range(4)]
    arrays = [to_device(each, device=HERE) for each in expected]
    transposed = to_device(expected[0].reshape(10, 100), device=HERE).transpose()
    xl.synchronize(HERE)
    found = xl.tree.to_host([*arrays, transposed], pinned=True)  # the last is none that can be enqueued
    assert_same_bits(found[-1], expected[0].reshape(10, 100).T)
    setattr(direct, fails, 1)
    for one, other in zip(xl.tree.to_host(arrays, pinned=True), expected, strict=True):
        assert_same_bits(one, other)


LEAVES: dict[str, Callable[[int], Any]] = {
    "vector": lambda n: np.arange(5, dtype=np.float32) + n,
    "longer": lambda n: np.arange(6, dtype=np.float32) + n,
    "other dtype": lambda n: np.arange(5, dtype=np.int32) + n,
    "of long long": lambda n: np.arange(5, dtype=np.longlong) + n,
    "matrix": lambda n: np.arange(600, dtype=np.int16).reshape(20, 30) + np.int16(n),
    "other shape": lambda n: np.arange(600, dtype=np.int16).reshape(30, 20) + np.int16(n),
    "transposed": lambda n: np.arange(600, dtype=np.int16).reshape(30, 20).T + np.int16(n),
    "gaps": lambda n: np.arange(10, dtype=np.float32)[::2] + n,
    "swapped": lambda n: np.arange(5, dtype=">f4") + n,
    "scalar": lambda n: np.array(n, np.complex128),
    "empty": lambda n: np.zeros((0, 3), np.float32),
    "some KiB": lambda n: np.full(70_000, n, np.float64),
    "pinned": lambda n: xl.pinned_array(np.full(300, n, np.uint8), backend="direct"),
    "large and pinned": lambda n: xl.pinned_array(np.full(200_000, n, np.float64), backend="direct"),
    "number": lambda n: n,
    "none": lambda n: None,
}


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    names=st.lists(st.sampled_from(sorted(LEAVES)), min_size=1, max_size=8),
    changes=st.lists(st.tuples(st.integers(0, 7), st.sampled_from(sorted(LEAVES))), max_size=4),
    repeats=st.integers(1, 3),
)
@example(
    names=["vector", "matrix", "number"], changes=[(0, "longer"), (0, "of long long"), (1, "transposed")], repeats=3
)
@example(names=["large and pinned"] * 3 + ["vector"] * 2, changes=[], repeats=2)
def test_trees_of_a_known_form_and_of_nearly_that_form_arrive(
    direct: Any, names: list[str], changes: list[tuple[int, str]], repeats: int
) -> None:
    direct.keeps_sources = True
    kinds, number = list(names), itertools.count(1)
    for place, name in [(0, kinds[0]), *changes]:
        kinds[place % len(kinds)] = name
        for _ in range(repeats):
            leaves = [LEAVES[kind](next(number)) for kind in kinds]
            tree = {"first": leaves[0], "others": (leaves[1:], leaves[-1])}  # one stands in two places
            sent = xl.tree.to_device(tree, device=HERE)
            found = xl.tree.to_host(sent)
            assert sent["others"][0] == [] or sent["others"][1] is sent["others"][0][-1]
            for one, other in zip([found["first"], *found["others"][0]], leaves, strict=True):
                if isinstance(other, np.ndarray):
                    assert_same_bits(one, other.astype(other.dtype.newbyteorder("=")))
                else:
                    assert one is other


def _forget_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy as in a program without a simulator, which earlier tests may have begun: it follows each copy in Python."""
    monkeypatch.setattr("xferlib._core.observe.listener", None)


def test_few_small_arrays_of_a_tree_that_are_converted_are_copied_one_by_one(
    direct: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _forget_simulator(monkeypatch)
    leaves = [bits_of(4 * count, np.float32, seed=count) for count in (10, 1000, 10_000)]
    for others, is_few in [
        ([], True),
        ([3, None, "text"], True),
        (leaves[:1] * 2, True),
        ([each.copy() for each in leaves * 2], False),
    ]:
        tree = {"first": leaves, "others": others}
        for dtype in (None, "float64"):
            to_device(leaves[0], device=HERE)
            xl.synchronize(HERE)
            direct.calls.clear()
            sent = xl.tree.to_device(tree, device=HERE, dtype=dtype)
            found = xl.tree.to_host(sent)
            assert (direct.calls[:6] == ["send"] * 3 + ["fetch"] * 3) == (is_few and dtype is not None)
            for one, two in zip(found["first"], leaves, strict=True):
                assert_identical(one, two if dtype is None else to_device(two, backend="numpy", dtype=dtype))
    with pytest.raises(UnsupportedDTypeError):
        xl.tree.to_device([leaves[0], np.array(["text"])], device=HERE)


def test_a_busy_stream_is_not_waited_for(direct: Any) -> None:
    pinned = xl.pinned_array(bits_of(100_000, np.uint8, seed=3), backend="direct")
    d = to_device(pinned, device=HERE)
    direct.machine.progresses_on_query = False
    try:
        direct.stream_call(direct._on(0), int)  # still pending
        direct.calls.clear()
        to_device(bits_of(100_000, np.uint8, seed=4), out=d)
        small = xl.zeros(1000, "uint8", device=HERE)
        managed = np.ones(1000, np.uint8)
        direct.managed = range(managed.ctypes.data, managed.ctypes.data + managed.nbytes)
        to_device(managed, out=small)  # would be read late
        assert direct.calls == []
        changing = np.full(1000, 2, np.uint8)
        to_device(changing, out=small)
        e = to_device(changing, device=xl.get_device(HERE))
        changing[:] = 3
        lent = xl.pinned_array(np.full(1000, 2, np.uint8), backend="direct")
        to_device(lent, out=small)
        lent[:] = 3
        assert direct.calls == ["enqueue"] * 3
    finally:
        direct.machine.progresses_on_query = True
    assert_same_bits(to_host(d), bits_of(100_000, np.uint8, seed=4))
    for found in (small, e):
        assert_same_bits(to_host(found), np.full(1000, 2, np.uint8))


@pytest.mark.parametrize("end", ["none", "close", "drop"])
def test_pinned_batches_are_only_enqueued_and_their_memory_is_not_lent_before_their_copies(
    direct: Any, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "keeps_sources", True)
    _forget_simulator(monkeypatch)
    expected = [bits_of(1000 + 100 * number, np.uint8, seed=number) for number in range(70)]
    items = [xl.pinned_array(each, backend="direct") for each in expected]
    shapes = [each.shape for each in items]
    with batches_read_by("consumer"):
        ahead = xl.prefetch(items, device=HERE)
    found = [next(ahead) for _ in range(2)]  # the first finds the stream and the way
    direct.machine.progresses_on_query = False
    try:
        direct.stream_call(direct._on(0), int)  # still pending
        direct.calls.clear()
        found += [next(ahead) for _ in range(68)]
        assert direct.calls == ["enqueue"] * 68
        if end == "close":
            ahead.close()
        elif end == "drop":
            del ahead
        items.clear()
        for shape in shapes:
            xl.pinned_empty(shape, "uint8", backend="direct")[:] = 77
    finally:
        direct.machine.progresses_on_query = True
    for one, other in zip(found, expected, strict=True):
        assert_same_bits(to_host(one), other)


@given(
    counts=st.lists(st.sampled_from([1, 100, 9_000, 60_000, 200_000, 300_000, 1 << 20]), max_size=12),
    kind=st.sampled_from(["list", "renewed list", "generator", "pinned generator"]),
    core_count=st.sampled_from([1, 16]),
    left=st.integers(0, 3),
    end=st.sampled_from(["none", "close", "drop"]),
    is_late=st.booleans(),
    seed=st.integers(0, 9),
)
@example(counts=[200_000] * 9, kind="list", core_count=16, left=0, end="none", is_late=True, seed=0)
@example(counts=[200_000] * 9, kind="renewed list", core_count=16, left=0, end="none", is_late=False, seed=0)
@example(counts=[200_000] * 9, kind="list", core_count=16, left=3, end="drop", is_late=False, seed=1)
@example(counts=[60_000] * 9, kind="generator", core_count=1, left=3, end="close", is_late=True, seed=1)
@example(counts=[60_000] * 9, kind="pinned generator", core_count=16, left=0, end="none", is_late=True, seed=1)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
def test_batches_pass_through_pinned_memory_that_is_filled_again_only_behind_their_copies(
    direct: Any, counts: list[int], kind: str, core_count: int, left: int, end: str, is_late: bool, seed: int
) -> None:
    """A generator may change an item when the next is asked for; a list may be given another one before its turn."""
    streams = [direct._on(0), direct.stream_create(direct.devices()[0], non_blocking=True, priority=0)]
    items = [np.full(count, number, np.float32) for number, count in enumerate(counts)]
    if kind == "pinned generator":
        items = [xl.pinned_array(item, backend="direct") for item in items]
    chance = np.random.default_rng(seed)
    is_large, is_list = max(counts, default=0) >= 300_000, kind in ("list", "renewed list")
    goes_beside = is_large and is_list and core_count == 1  # Python sends it ahead, and what follows
    copied: list[int] = []

    def copy_array(router: Any, item: Any) -> Any:
        copied.append(item.nbytes)
        return item.copy()

    def source() -> Any:
        for item in items:
            yield item
            item[:] = -1

    with pytest.MonkeyPatch.context() as patched, cores(core_count), batches_read_by("consumer"):
        _forget_simulator(patched)
        patched.setattr("xferlib._pipeline.batches.Router._copy_array", copy_array)
        ahead = xl.prefetch(items if is_list else source(), device=HERE)
        direct.machine.progresses_on_query = not is_late
        direct.calls.clear()
        try:
            found = []
            for number in range(len(counts) - min(left, len(counts))):
                direct.stream_use(streams[chance.integers(2)])
                found.append(next(ahead))
                if kind == "renewed list" and number + 1 < len(items) and not goes_beside:
                    old = items[number + 1]
                    items[number + 1] = old + 0
                    if end == "none":
                        old[:] = 55
            if end == "close":
                ahead.close()
            elif end == "drop":
                del ahead
            if end != "none":
                for item in items:
                    item[:] = 77  # no thread reads it, nor its copy
        finally:
            direct.machine.progresses_on_query = True
            direct.stream_use(streams[0])
        sizes = [4 * count for count in counts[: len(found)]]
        most = sum(nbytes <= 64 << 10 for nbytes in sizes)  # by the driver's own copies of ordinary memory
        assert goes_beside or kind == "pinned generator" or direct.calls == ["enqueue"] * most
        assert all(nbytes <= 64 << 10 for nbytes in copied)
        for stream in streams:
            direct.stream_synchronize(stream)
        for number, batch in enumerate(found):
            assert_same_bits(to_host(batch), np.full(counts[number], number, np.float32))


@given(
    counts=st.lists(st.sampled_from([10, 3_000, 9_000, 60_000]), max_size=16),
    kinds=st.sampled_from(["pinned", "mixed"]),
    depth=st.integers(1, 9),
    moves=st.sampled_from(["none", "once", "random"]),
    late_from=st.integers(0, 12),
    left=st.integers(0, 4),
    end=st.sampled_from(["none", "close", "drop"]),
    fault=st.sampled_from(["none", "event_wait", "empty", "Ctrl-C"]),
    seed=st.integers(0, 99),
)
@example([9_000] * 16, "pinned", 2, "none", 0, 0, "none", "none", 0)
@example([9_000] * 16, "pinned", 2, "none", 0, 4, "close", "none", 1)
@example([9_000] * 16, "pinned", 9, "none", 0, 4, "drop", "none", 2)
@example([9_000] * 16, "pinned", 2, "once", 0, 0, "none", "none", 3)
@example([9_000] * 16, "pinned", 2, "none", 0, 0, "none", "empty", 4)
@example([9_000] * 16, "pinned", 2, "none", 0, 2, "close", "event_wait", 5)
@example([9_000] * 16, "pinned", 2, "none", 0, 0, "none", "Ctrl-C", 6)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
def test_pinned_arrays_are_sent_beside_the_consumers_work(
    direct: Any, counts: list[int], kinds: str, depth: int, moves: str, late_from: int, left: int, end: str, fault: str,
    seed: int,
) -> None:  # fmt: skip
    """The memory of what is not handed out is given to others only behind its copy, and so is that of the sources."""
    device = direct.devices()[0]
    streams = [direct.stream_create(device, non_blocking=True, priority=0) for _ in range(2)]
    expected = [np.full(count, number + 1, np.float32) for number, count in enumerate(counts)]
    chance = np.random.default_rng(seed)
    is_pinned = [kinds == "pinned" or bool(chance.integers(4)) for _ in counts]
    items = [xl.pinned_array(x, backend="direct") if p else x for x, p in zip(expected, is_pinned, strict=True)]
    found, faults = [], [] if fault == "none" else [fault]
    with pytest.MonkeyPatch.context() as patched, batches_read_by("consumer", direct_most=10_000):
        _forget_simulator(patched)
        xl.pinned_pool("direct").kept.clear()
        ahead = xl.prefetch(items, device=HERE, depth=depth)
        try:
            number = 0
            while number < len(counts) - min(left, len(counts)):
                if number >= late_from:
                    direct.machine.progresses_on_query = False
                if moves == "random" or (moves == "once" and number == len(counts) // 2):
                    direct.stream_use(streams[chance.integers(2)])
                elif not number:
                    direct.stream_use(streams[0])
                try:
                    with pytest.MonkeyPatch.context() as failing:
                        if faults and number == len(counts) // 2:
                            fail_once(direct, faults.pop(), failing)
                        found.append(next(ahead))
                except (MemoryError, XferError, KeyboardInterrupt):
                    assert fault != "none"
                    continue
                number += 1
                if number % 2:
                    direct.stream_call(direct.stream_current(device), int)  # the consumer's work
            if end == "close":
                ahead.close()
            elif end == "drop":
                ahead = xl.prefetch([])
            if end != "none":
                others = [xl.empty(x.shape, x.dtype, device=HERE) for x in expected]
                items.clear()
                for x in expected:
                    xl.pinned_empty(x.shape, x.dtype, backend="direct")[:] = 77
                del others
        finally:
            direct.machine.progresses_on_query = True
        for stream in streams:
            direct.stream_synchronize(stream)
        for batch, x in zip(found, expected, strict=False):
            assert_same_bits(to_host(batch), x)
        direct.stream_use(direct.stream_wrap(0, device))
        del ahead, found
    assert not direct.machine.violations


@pytest.mark.parametrize(("nbytes", "is_ahead"), [(9_999, False), (10_000, True), (10_001, True)])
def test_a_pinned_array_goes_ahead_from_the_size_that_is_said(
    direct: Any, nbytes: int, is_ahead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "keeps_sources", True)
    _forget_simulator(monkeypatch)
    items = [xl.pinned_array(bits_of(nbytes, np.uint8, seed=number), backend="direct") for number in range(9)]
    with batches_read_by("consumer", direct_most=10_000):
        ahead = xl.prefetch(items, device=HERE, depth=2)
        found = [next(ahead) for _ in range(5)]
        assert direct.calls.count("enqueue") == 5 + 2 * is_ahead
        found += ahead
    for one, other in zip(found, items, strict=True):
        assert_same_bits(to_host(one), other)


def fail_once(backend: Any, what: str, failing: pytest.MonkeyPatch) -> None:
    """Let the next order of two streams, or the next allocation, fail, or Ctrl-C strike there."""

    def fail(*given: Any, **named: Any) -> Any:
        failing.undo()
        raise {"event_wait": TransferError, "empty": MemoryError, "Ctrl-C": KeyboardInterrupt}[what]

    failing.setattr(backend, "event_wait" if what == "event_wait" else "empty", fail)


@pytest.mark.parametrize("depth", [1, 2, 9])
def test_memory_that_the_consumer_drops_is_written_again_only_behind_its_work(
    direct: Any, depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _forget_simulator(monkeypatch)
    expected = [bits_of(20_000, np.uint8, seed=number) for number in range(12)]
    items = [xl.pinned_array(each, backend="direct") for each in expected]
    found = [xl.pinned_empty(each.shape, each.dtype, backend="direct") for each in expected]
    stream = direct.stream_create(direct.devices()[0], non_blocking=True, priority=0)
    direct.stream_use(stream)
    direct.machine.progresses_on_query = False
    try:
        with batches_read_by("consumer", direct_most=10_000), hold_back(direct.machine):
            for batch, result in zip(xl.prefetch(items, device=HERE, depth=depth), found, strict=True):
                direct.copy(result.ctypes.data, batch.pointer, batch.info.nbytes, stream=stream)
                del batch
            assert direct.calls == ["enqueue"] * len(items)
    finally:
        direct.machine.progresses_on_query = True
        direct.stream_synchronize(stream)
        direct.stream_use(direct.stream_wrap(0, direct.devices()[0]))
    for one, other in zip(found, expected, strict=True):
        assert_same_bits(one, other)


@pytest.mark.parametrize("depth", [1, 2, 12])
def test_a_loop_leaves_the_stream_beside_the_consumers_to_the_next_one(
    direct: Any, depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _forget_simulator(monkeypatch)
    monkeypatch.setattr(direct, "keeps_sources", True)
    expected = [bits_of(20_000, np.uint8, seed=number) for number in range(12)]
    items = [xl.pinned_array(each, backend="direct") for each in expected]
    made: list[Any] = []
    create = direct.stream_create

    def count(*given: Any, **named: Any) -> Any:
        made.append(create(*given, **named))
        return made[-1]

    monkeypatch.setattr(direct, "stream_create", count)
    xl.pinned_pool("direct").kept.clear()
    for _ in range(2):
        direct.machine.progresses_on_query = False
        try:
            direct.calls.clear()
            with batches_read_by("consumer", direct_most=10_000), xl.prefetch(items, device=HERE, depth=depth) as ahead:
                found = [next(ahead)]
                assert len(direct.calls) == 1 + min(depth, 8)
                found += ahead
            assert direct.calls == ["enqueue"] * len(items)
            assert len(made) == 1
        finally:
            direct.machine.progresses_on_query = True
        for one, other in zip(found, expected, strict=True):
            assert_same_bits(to_host(one), other)


@pytest.mark.parametrize("kind", ["list", "generator"])
def test_a_loop_leaves_its_pinned_memory_to_the_next_one_and_trim_takes_it(
    direct: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _forget_simulator(monkeypatch)
    pool, items = xl.pinned_pool("direct"), [np.full(60_000, number, np.float32) for number in range(7)]

    def loop() -> tuple[int, int]:
        with xl.prefetch(items if kind == "list" else (item for item in items), device=HERE) as batches:
            for item, batch in zip(items, batches, strict=True):
                assert_same_bits(to_host(batch), item)
        return pool.stats().allocations, pool.stats().reuses

    with batches_read_by("consumer"):
        pool.trim()
        assert loop() == loop()
        assert pool.stats().in_use_nbytes >= 3 * items[0].nbytes
        xl.synchronize(HERE)
        assert pool.trim() >= 3 * items[0].nbytes
        assert loop()[0] == loop()[0]
        xl.synchronize(HERE)
        pool.trim()
        loop()
        monkeypatch.setattr(pool, "max_bytes", pool.stats().total_nbytes)
        xl.synchronize(HERE)
        array = pool.empty((pool.stats().total_nbytes // 2 + 1,), np.dtype(np.uint8))  # which has no room beside it
        assert pool.find(array.ctypes.data) is not None


def test_other_circumstances_are_left_to_python_and_end(direct: Any) -> None:
    x = bits_of(1000, np.uint8, seed=5)
    device = xl.get_device(HERE)
    d = to_device(x, device=device)

    def seen() -> list[str]:
        xl.synchronize(HERE)
        direct.calls.clear()
        to_device(x, out=d)
        assert_same_bits(to_host(d), x)
        assert_same_bits(to_host(to_device(x, device=device)), x)
        return direct.calls

    usual = ["send", "fetch"] * 2
    assert seen() == usual
    with xl.trace() as t:
        assert seen() == []
    assert {each.kind for each in t.operations} >= {"h2d", "d2h"}
    assert seen() == usual
    with forced("staged"):
        assert seen() == []
    with configured(native="off"):
        assert seen() == []
    with configured(strict="pageable"):
        assert seen() == []
    with xl.Stream(HERE):
        assert seen() == ["enqueue", "fetch_later", "wait"] * 2
    assert seen() == usual


@pytest.mark.parametrize("nbytes", [100, 300_000, 3 << 20])
@pytest.mark.parametrize("form", ["plain", "rows", "swapped", "narrowed", "pinned"])
@pytest.mark.parametrize("is_named", [False, True])
def test_copies_on_streams_of_the_programs_own_are_in_their_order(
    direct: Any, nbytes: int, form: str, is_named: bool
) -> None:
    values = (np.arange(nbytes // 4) % 10_007).astype(np.float32)
    sources: dict[str, Callable[[], Any]] = {
        "plain": values.copy,
        "rows": lambda: np.repeat(values, 2).reshape(-1, 2)[:, 0],
        "swapped": lambda: values.astype(">f4"),
        "narrowed": lambda: values.astype(np.float64),
        "pinned": lambda: xl.pinned_array(values, backend="direct"),
    }
    device = xl.get_device(HERE)
    out = to_device(np.zeros_like(values), device=device)
    xl.synchronize(HERE)
    streams = [xl.Stream(HERE) for _ in range(6)]  # more than there are ways for
    for stream in streams * 2 if nbytes < 1 << 20 else [*streams, streams[0]]:
        x = sources[form]()
        with contextlib.nullcontext() if is_named else stream:
            options: Any = {"stream": stream} if is_named else {}
            new = to_device(x, device=None if is_named else device, dtype="float32", **options)
            to_device(x, out=out, dtype=None if x.dtype == np.float32 else "float32", **options)
            if not (is_named and form == "pinned"):  # which is read when the stream comes to it
                x[:] = 0
            assert_same_bits(to_host(new, **options), values)
            into = np.zeros((len(values), 2), np.float32)[:, 1]
            assert_same_bits(to_host(out, out=into, **options), values)
            assert_same_bits(to_host(new, pinned=True, **options), values)
            both = xl.tree.to_host([new, out], pinned=True, **options)
            assert_same_bits(both[0], values)
            assert_same_bits(both[1], values)
        stream.synchronize()
        to_device(np.zeros_like(values), out=out)
        xl.synchronize(HERE)


@pytest.mark.parametrize("is_named", [False, True])
def test_an_array_that_a_stream_of_the_programs_own_fills_lives_until_it_is_filled(direct: Any, is_named: bool) -> None:
    x, device = bits_of(1000, np.uint8, seed=5), xl.get_device(HERE)
    for _ in range(5):
        d = to_device(x, device=device)
        xl.synchronize(HERE)
        stream = xl.Stream(HERE)
        with contextlib.nullcontext() if is_named else stream:
            direct.calls.clear()
            to_device(x, out=d, **({"stream": stream} if is_named else {}))
            assert direct.calls == ["enqueue"]
        del d
        made = to_device(x, device=device)  # in its memory, if that is free too early
        stream.synchronize()
        assert_same_bits(to_host(made), x)


@pytest.mark.parametrize("is_named", [False, True])
def test_calls_on_a_stream_of_the_programs_own_enter_python_for_the_memory_alone(direct: Any, is_named: bool) -> None:
    x, device = np.arange(1000, dtype=np.float32), xl.get_device(HERE)
    stream = xl.Stream(HERE)
    options: Any = {"stream": stream} if is_named else {}
    with contextlib.nullcontext() if is_named else stream:
        d = to_device(x, device=device)
        for call, names in [
            (lambda: to_device(x, device=device, **options), {"_empty_on"}),
            (lambda: to_device(x, out=d, **options), {"_hold"}),
            (lambda: to_host(d, **options), set()),
            (lambda: to_host(d, out=np.empty_like(x), **options), set()),
            (lambda: to_device(x[::-1], device=device, **options), {"_empty_on"}),
        ]:
            call()
            found = {name.rpartition(".")[2] for name in frames_of(call)}
            assert found & {"_empty_on", "_hold", "to_device", "to_host", "copy", "stage"} == names


@pytest.mark.parametrize("is_named", [False, True])
def test_managed_memory_on_a_stream_of_the_programs_own_is_left_to_python(direct: Any, is_named: bool) -> None:
    x, device = np.arange(3000.0), xl.get_device(HERE)
    d, stream = to_device(x, device=device), xl.Stream(HERE)
    direct.managed = range(x.ctypes.data, x.ctypes.data + x.nbytes)
    with contextlib.nullcontext() if is_named else stream:
        options: Any = {"stream": stream} if is_named else {}
        direct.calls.clear()
        new = to_device(x, device=device, **options)
        to_device(x, out=d, **options)
        assert "enqueue" not in direct.calls
        assert_same_bits(to_host(new, **options), x)
        assert_same_bits(to_host(d, **options), x)


@pytest.mark.parametrize("kind", ["ordinary", "pinned", "managed"])
@pytest.mark.parametrize("is_named", [False, True])
def test_a_small_array_has_been_read_on_return_from_an_upload_on_a_stream(
    direct: Any, is_named: bool, kind: str
) -> None:
    values, device = np.arange(500.0), xl.get_device(HERE)
    x = xl.pinned_array(values, backend="direct") if kind == "pinned" else values.copy()
    d, stream = to_device(x, device=device), xl.Stream(HERE)
    direct.managed = range(x.ctypes.data, x.ctypes.data + x.nbytes) if kind == "managed" else range(0)
    with contextlib.nullcontext() if is_named else stream:
        options: Any = {"stream": stream} if is_named else {}
        for call in (lambda: to_device(x, device=device, **options), lambda: to_device(x, out=d, **options)):
            x[...] = values
            direct.calls.clear()
            found = call()
            assert "enqueue" in direct.calls
            x[...] = -1
            assert_same_bits(to_host(found, **options), values)


def test_a_stream_that_another_librarys_graph_records_is_left_to_python(direct: Any) -> None:
    x, device = np.arange(10.0), xl.get_device(HERE)
    d = to_device(x, device=device)
    with xl.Stream(HERE) as stream:
        direct.captured.add(stream.handle)
        direct.calls.clear()
        to_device(x, device=device)
        to_device(x, out=d, stream=stream)
        to_host(d)
        assert not direct.calls
        direct.captured.clear()
        to_host(d)
        assert direct.calls == ["fetch_later", "wait"]


def test_a_stream_of_another_device_or_library_is_left_to_python(direct: Any) -> None:
    x = np.arange(10.0)
    with pytest.raises(StreamError, match="is of sim:"):
        to_device(x, device=HERE, stream=xl.Stream("sim"))
    d = to_device(x, device=HERE)
    with pytest.raises(StreamError, match="is of sim:"):
        to_host(d, stream=xl.Stream("sim"))
    with pytest.raises(StreamTypeError, match="str is not a stream"):
        to_device(x, device=HERE, stream="0")
    assert_same_bits(to_device(x, backend="numpy", stream=xl.Stream("numpy")), x)


def test_each_task_and_thread_has_its_default(direct: Any) -> None:
    x = np.arange(5.0)
    kinds: list[str] = []

    async def task(name: str) -> None:
        with xl.use_backend(name):
            for _ in range(3):
                kinds.append(f"{name} {xl.device_of(to_device(x)).backend}")
                await asyncio.sleep(0)

    async def both() -> None:
        await asyncio.gather(task("numpy"), task("direct"))

    with configured(backend="numpy"):
        asyncio.run(both())
        with xl.use_backend("direct"):
            thread = threading.Thread(target=lambda: kinds.append(f"thread {type(to_device(x)).__name__}"))
            thread.start()
            thread.join()
            assert isinstance(to_device(x), DirectArray)
        assert isinstance(to_device(x), np.ndarray)
    assert sorted(set(kinds)) == ["direct direct", "numpy numpy", "thread ndarray"]


def test_a_backend_that_is_found_anew_is_another_one(direct: Any) -> None:
    x = np.arange(3.0)
    d = to_device(x, device=HERE)
    with fresh_registry(direct=Direct):
        assert_same_bits(to_host(d), x)
        e = to_device(x, device=HERE)
    assert_same_bits(to_host(e), to_host(d))


_LAYOUTS: list[Callable[[Any], Any]] = [
    lambda a: a, lambda a: a[::-1], lambda a: a.T, lambda a: a[..., ::2], lambda a: a[1:], lambda a: a.reshape(-1),
    lambda a: a.view(type("Sub", (np.ndarray,), {})), lambda a: a.astype(a.dtype.newbyteorder()),
    lambda a: np.lib.stride_tricks.as_strided(a, (*a.shape, 2), (*a.strides, 0)), lambda a: a[:0],
    lambda a: np.frombuffer(b"\0" + a.tobytes(), np.uint8)[1:].view(a.dtype).reshape(a.shape),
]  # fmt: skip


def _outcome(call: Callable[[], Any], *, is_converted: bool = False) -> Any:
    """The bits of a call's result, or its error; a NaN that was converted may have any payload."""
    try:
        found = call()
    except Exception as error:
        return type(error), str(error)
    host = np.asarray(found) if isinstance(found, np.ndarray) else in_python(to_host)(found)
    if is_converted and host.dtype.kind in "fc":
        parts = np.ascontiguousarray(host).view(f"f{host.dtype.itemsize // (2 if host.dtype.kind == 'c' else 1)}")
        return type(found), host.dtype, host.shape, np.where(np.isnan(parts), np.nan, parts).tobytes()
    return type(found), host.dtype, host.shape, host.tobytes()


_converted = functools.partial(_outcome, is_converted=True)
_WANTED = [
    *DTYPES,
    *map(np.dtype, DTYPES),
    *(np.dtype(name).type for name in DTYPES),
    ">f4",
    "text",
    float,
    3,
    [],
    object,
]


@pytest.mark.parametrize("name", ["numpy", "torch", "sim", "direct"])
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(x=strategies.host_arrays(), layout=st.sampled_from(_LAYOUTS), wanted=st.sampled_from(_WANTED), data=st.data())
def test_it_converts_as_python_does(
    direct: Any, name: str, x: Any, layout: Callable[[Any], Any], wanted: Any, data: Any
) -> None:
    if name == "torch":
        pytest.importorskip("torch")
    source, up, down = layout(np.atleast_1d(x)), in_python(to_device), in_python(to_host)
    with xl.use_backend(name):
        assert _converted(lambda: to_device(source, dtype=wanted)) == _converted(lambda: up(source, dtype=wanted))
        there = xl.zeros(source.shape, data.draw(st.sampled_from(DTYPES)))
        found = _converted(lambda: to_device(source, out=there, dtype=wanted))
        assert found == _converted(lambda: up(source, out=there, dtype=wanted))
        try:
            d = up(source)
        except UnsupportedDTypeError:
            return
        assert _converted(lambda: to_host(d, dtype=wanted)) == _converted(lambda: down(d, dtype=wanted))
        out = layout(np.zeros(np.atleast_1d(x).shape, data.draw(st.sampled_from(DTYPES))))
        found = _converted(lambda: to_host(d, out=out, dtype=wanted))
        assert found == _converted(lambda: down(d, out=out, dtype=wanted))


@pytest.mark.parametrize(("given_", "wanted"), [("float64", "float32"), ("float32", "float64"), ("uint8", "float32")])
@pytest.mark.parametrize("count", [1, 8192, 70_000, 300_000])
def test_conversions_of_every_size_have_numpys_bits(direct: Any, given_: str, wanted: str, count: int) -> None:
    x = (np.arange(count) % 251).astype(given_)
    for source in (x, x[::-1], x.astype(x.dtype.newbyteorder()), xl.pinned_array(x, backend="direct")):
        assert_same_bits(to_host(to_device(source, backend="direct", dtype=wanted)), source.astype(wanted))
        there = xl.zeros(count, wanted, backend="direct")
        assert to_device(source, out=there, dtype=wanted) is there
        assert_same_bits(to_host(there), source.astype(wanted))


@pytest.mark.parametrize("name", ["numpy", "torch", "sim", "direct"])
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(x=strategies.host_arrays(), layout=st.sampled_from(_LAYOUTS), other=st.sampled_from(_LAYOUTS), data=st.data())
def test_it_does_as_python_does(
    direct: Any, name: str, x: Any, layout: Callable[[Any], Any], other: Callable[[Any], Any], data: Any
) -> None:
    if name == "torch":
        pytest.importorskip("torch")
    shape = np.atleast_1d(x)
    source, target = layout(shape), other(shape.copy())
    up, down = in_python(to_device), in_python(to_host)
    with xl.use_backend(name):
        device = data.draw(st.sampled_from([None, xl.get_device()]))
        assert _outcome(lambda: to_device(source, device=device)) == _outcome(lambda: up(source, device=device))
        try:
            d, there = up(source), up(target)
        except UnsupportedDTypeError:
            return
        assert _outcome(lambda: to_host(d)) == _outcome(lambda: down(d))
        assert _outcome(lambda: to_host(d, pinned=True)) == _outcome(lambda: down(d, pinned=True))
        for into, call, own in [(target, to_host, down), (there, to_device, up)]:
            start = down(into).copy()
            given_ = d if own is down else source
            found = _outcome(lambda call=call, given_=given_, into=into: call(given_, out=into))
            if _outcome(lambda into=into, start=start: up(start, out=into))[0] != LayoutError:
                assert found == _outcome(lambda own=own, given_=given_, into=into: own(given_, out=into))


def test_memory_that_overlaps_is_copied_as_numpy_does() -> None:
    base = np.arange(20.0)
    with xl.use_backend("numpy"):
        for dst, src in [(base[2:12], base[:10]), (base[:10], base[2:12]), (base[:10], base[:10])]:
            expected = src.copy()
            to_device(src, out=dst)
            assert_same_bits(dst, expected)
            expected = src.copy()
            to_host(src, out=dst)
            assert_same_bits(dst, expected)


def test_read_only_targets_are_refused() -> None:
    kept = np.zeros(3)
    kept.flags.writeable = False
    for call in (to_device, to_host):
        with xl.use_backend("numpy"), pytest.raises(LayoutError, match="read-only"):
            call(np.ones(3), out=kept)
    assert not kept.any()


# --- torch


@pytest.fixture
def torch() -> Any:
    found = pytest.importorskip("torch")
    with xl.use_backend("torch"), xl.get_device("cpu"):
        yield found


def test_tensors_that_stand_for_others_have_their_values(torch: Any) -> None:
    z = torch.tensor([1 + 2j, 3 - 4j])
    for t in (z.conj(), z.conj().imag, z.imag, torch.eye(2).T[1]):
        assert_same_bits(to_host(t), t.resolve_conj().resolve_neg().clone().numpy())
    target = z.conj()
    with pytest.raises(LayoutError):
        to_device(np.ones(2, np.complex128).astype(np.complex64), out=target)


def test_writes_are_told_to_torch_and_refused_where_it_must(torch: Any) -> None:
    x = np.ones(3, np.float32)
    t = torch.zeros(3)
    before = t._version
    to_device(x, out=t)
    assert t._version > before
    assert t.tolist() == [1, 1, 1]
    with pytest.raises(LayoutError, match="requires gradients"):
        to_device(x, out=torch.zeros(3, requires_grad=True))
    with torch.inference_mode():
        made = torch.zeros(3)
        to_device(x, out=made)
    with pytest.raises(LayoutError, match="inference_mode"):
        to_device(np.zeros(3, np.float32), out=made)
    assert made.tolist() == [1, 1, 1]
    w = torch.ones(3, requires_grad=True)
    product = w * t
    to_device(x, out=t)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensors_of_transforms_are_left_to_python(torch: Any) -> None:
    def host(t: Any) -> Any:
        to_host(t)
        return t.sum()

    for transform in (torch.func.vmap, torch.func.grad):
        with pytest.raises(UnsupportedArrayError):
            transform(host)(torch.ones(3))
    with pytest.raises(UnsupportedError, match=r"torch\.jit\.trace"):
        torch.jit.trace(host, (torch.ones(3),))


def test_parameters_and_subclasses_are_tensors_too(torch: Any) -> None:
    p = torch.nn.Parameter(torch.arange(3.0))
    assert_same_bits(to_host(p), p.detach().numpy())
    q = torch.ones(3).as_subclass(type("Own", (torch.Tensor,), {}))
    assert_same_bits(to_host(q), np.ones(3, np.float32))


def test_results_are_ordinary_tensors(torch: Any) -> None:
    x = np.arange(6.0).reshape(2, 3)
    x.flags.writeable = False
    for source in (x, x.T, x.copy(), x[:, ::-1]):
        t = to_device(source)
        assert t.is_contiguous()
        assert t._version == 0
        assert_same_bits(np.array(t.tolist()), np.array(source))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_goes_on(torch: Any) -> None:
    if torch.cuda.is_available():
        pytest.skip("CUDA does not survive a fork: test_contexts holds what is said then")
    x = np.arange(3.0)
    d = to_device(x)
    pid = os.fork()
    if not pid:
        is_right = to_host(to_device(x, out=d)).tolist() == [0, 1, 2] and to_device(x).tolist() == [0, 1, 2]
        os._exit(not is_right)
    assert os.waitpid(pid, 0)[1] == 0


def test_each_block_of_a_device_is_served_in_c(paired: Any) -> None:
    x = np.arange(100.0)
    for index in (0, 1, 0, 1):
        with xl.get_device(f"paired:sim:{index}") as device:
            paired.calls.clear()
            found = to_device(x)
            assert xl.device_of(found) is device
            assert paired.calls == ["send"]
            assert_same_bits(xl.to_host(found), x)


FOREIGN = """
#include <pthread.h>
typedef void (*call)(int);
static void *calls(void *made) { for (int i = 0; i < 3; i++) ((call)made)(i); return 0; }
void run(call made) { pthread_t thread; pthread_create(&thread, 0, calls, (void *)made); pthread_join(thread, 0); }
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_thread_of_c_shares_no_scratch_with_another(direct: Any, tmp_path: Path) -> None:
    """Python makes a new thread state for each of its calls, and gives what the one before held to others."""
    (tmp_path / "foreign.c").write_text(FOREIGN)
    library = tmp_path / "foreign.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-pthread", "-o", str(library), str(tmp_path / "foreign.c")], check=True)
    device, x = xl.get_device(HERE), np.ones(400_000, np.uint8)[::2]  # less than a loop shares
    sources: list[int] = []
    send = direct._send

    def noted(dst: int, src: int, nbytes: int) -> int:
        sources.append(src)
        return int(send(dst, src, nbytes))

    direct._functions["send"] = ctypes.CFUNCTYPE(ctypes.c_int, WORD, WORD, ctypes.c_size_t)(noted)
    sent, over = threading.Event(), threading.Event()

    def other() -> None:
        to_device(x, device=device)
        sent.set()
        over.wait(60)

    thread = threading.Thread(target=other)

    @ctypes.CFUNCTYPE(None, ctypes.c_int)
    def called(number: int) -> None:
        if number == 1:
            thread.start()
            assert sent.wait(60)
        xl.synchronize(device)
        to_device(x, device=device)

    ctypes.CDLL(str(library)).run(called)
    over.set()
    thread.join()
    others, second, third = sources[-3:]
    assert others not in (second, third)


ENDING = """
import threading, time
import numpy as np, xferlib as xl
from tests.test_front import Direct, HERE
from xferlib.testing import fresh_registry
from xferlib._runtime import process as shutdown

with fresh_registry(direct=Direct):
    device, x = xl.get_device(HERE), np.ones(1000, np.uint8)
    out, counts, begun = xl.to_device(x, device=device), [0], threading.Event()

    def calls():
        while True:
            xl.to_device(x, out=out)
            counts[0] += 1
            begun.set()

    threading.Thread(target=calls, daemon=True).start()
    begun.wait()
    shutdown.finish()
    deadline = time.monotonic() + 30
    while not shutdown._parked and time.monotonic() < deadline:
        time.sleep(0.001)
    print(len(shutdown._parked))
"""


def test_a_daemon_thread_parks_at_the_end() -> None:
    command = [sys.executable, "-c", ENDING]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1])
    assert done.stdout == "1\n"
