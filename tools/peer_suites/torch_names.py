"""PyTorch's names, as far as its tests of streams, events, pinned memory, copies and DLPack use them.

A tensor is of NumPy on the CPU, and an array of the backend on a device.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import types
import unittest
import uuid
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tools.peer_suites.arrays import PeerArray, checked, host, wrap
from tools.peer_suites.missing import PREFIX, Missing, skip
from tools.peer_suites.streams import Device, Event, NullStream, Stream, begin_capture, current_stream, end_capture

SPIN = """
extern "C" __global__ void spin(long long cycles) {
    long long start = clock64();
    while (clock64() - start < cycles) {}
}
"""
LARGE = 1 << 28
CPU_OF_DLPACK = 1
CYCLES_PER_MS = 1_000_000
DTYPES = {
    "float16": "e", "half": "e", "float32": "f", "float": "f", "float64": "d", "double": "d", "uint8": "B", "int8": "b",
    "int16": "h", "int32": "i", "int64": "l", "long": "l", "uint16": "H", "uint32": "I", "uint64": "L", "bool": "?",
    "complex64": "F", "complex128": "D",
}  # fmt: skip
BFLOAT16 = Missing("dtypes that devices do not hold")
"""A dtype of which NumPy knows nothing, and so the shim neither."""


class Tensor(PeerArray):
    """A tensor: on the CPU if its array is NumPy's and no backend's of its own."""

    __slots__ = ("is_host",)

    def __new__(cls, *args: Any, **options: Any) -> Any:
        return object.__new__(cls)

    def __init__(self, native: Any, is_host: bool = False) -> None:
        self.native, self.is_host = native, is_host

    is_cuda = property(lambda self: not self.is_host)

    def cuda(self, *_: Any, non_blocking: bool = False) -> Tensor:
        if not self.is_host:
            return self
        return Tensor(xl.to_device(self.native, stream=xl.current_stream() if non_blocking else None))

    def cpu(self) -> Tensor:
        return self if self.is_host else Tensor(xl.to_host(self.native), is_host=True)

    def to(self, device: Any = None, non_blocking: bool = False, **options: Any) -> Tensor:
        if options or not isinstance(device, str):
            skip("Tensor.to of other arguments")
        if device != "cpu":
            return self.cuda(non_blocking=non_blocking)
        if non_blocking:
            skip("copies to the host that are handed out before they are complete")
        return self.cpu()

    def pin_memory(self) -> Tensor:
        return Tensor(xl.pinned_array(self.native), is_host=True)

    def is_pinned(self) -> bool:
        if not xl.get_backend().capabilities.streams:
            skip("pinned memory on a CPU")
        return self.is_host and xl.explain(self.native).path == "pinned"

    def data_ptr(self) -> int:
        return int(self.native.ctypes.data if self.is_host else self._info.pointer)

    def copy_(self, source: Tensor, non_blocking: bool = False) -> Tensor:
        stream = xl.current_stream() if non_blocking else None
        if self.is_host:
            xl.to_host(source.native, out=self.native, dtype=self.dtype, stream=stream)
        else:
            xl.to_device(source.native, out=self.native, dtype=self.dtype, stream=stream)
        return self

    def fill_(self, value: Any) -> Tensor:
        if self.is_host:
            self.native[...] = value
        else:
            self.native[...] = value
        return self

    def zero_(self) -> Tensor:
        return self.fill_(0)

    def numpy(self) -> Any:
        if not self.is_host:
            raise TypeError("on a device")
        return self.native

    def stride(self) -> tuple[int, ...]:
        return tuple(each // self.itemsize for each in self.strides)

    def size(self) -> tuple[int, ...]:
        return tuple(self.shape)

    def numel(self) -> int:
        return int(np.prod(self.shape))

    def element_size(self) -> int:
        return int(self.itemsize)

    def t(self) -> Tensor:
        return Tensor(self.native.T, self.is_host)

    def view(self, *shape: Any) -> Tensor:
        return self.reshape(*shape)

    def reshape(self, *shape: Any, **_: Any) -> Tensor:
        if self.is_host:
            return Tensor(self.native.reshape(*shape), is_host=True)
        return Tensor(PeerArray.reshape(self, *shape).native)

    def get(self, *args: Any, **options: Any) -> Any:
        return self.native if self.is_host else PeerArray.get(self, *args, **options)

    def __getitem__(self, key: Any) -> Tensor:
        return Tensor(PeerArray.__getitem__(self, key).native, self.is_host)

    owner = "torch"
    grad = property(lambda self: skip("gradients"), lambda self, value: skip("gradients"))

    def sum(self, *args: Any, **options: Any) -> Any:
        if args or options or self.is_host:
            skip("Tensor.sum of other arguments")
        return PeerArray.sum(self)

    def __dlpack__(self, stream: Any = None, **options: Any) -> Any:
        if self.is_host:
            skip("DLPack of tensors on the CPU, which are NumPy's arrays here")
        return PeerArray.__dlpack__(self, **({} if stream is None else {"stream": stream}), **options)

    def record_stream(self, stream: Any) -> None:
        skip("Tensor.record_stream: copies and kernels of xferlib's note the streams themselves")

    def __repr__(self) -> str:
        skip("texts of tensors")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("native", "is_host"):
            raise AttributeError(name)
        skip(f"Tensor.{name}")


def _operator(name: str) -> Any:
    def run(self: Tensor, other: Any) -> Tensor:
        mine = self.native
        if self.is_host:
            return Tensor(getattr(mine, name)(host(other) if isinstance(other, Tensor) else other), is_host=True)
        result = getattr(PeerArray, name)(wrap(mine), wrap(other.native) if isinstance(other, Tensor) else other)
        return Tensor(result.native)

    return run


for _name in ("__add__", "__radd__", "__sub__", "__mul__", "__rmul__", "__truediv__"):
    setattr(Tensor, _name, _operator(_name))


def made(values: Any, device: Any = None, pin_memory: bool = False, **_: Any) -> Tensor:
    """A tensor of these values."""
    if device is not None and not isinstance(device, str):
        skip("devices that are objects")
    if np.size(values) >= LARGE:
        skip("tensors of gigabytes")
    tensor = Tensor(np.ascontiguousarray(values), is_host=True)
    if pin_memory:
        return tensor.pin_memory()
    return tensor if device in (None, "cpu") else tensor.cuda()


def _values(values: Any) -> Any:
    return np.asarray(values) if not hasattr(values, "__dlpack__") else from_dlpack(values).native


def _shape(shape: Any) -> Any:
    return shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape


def filled(fill: Callable[..., Any]) -> Callable[..., Tensor]:
    """`torch.zeros` and its kin."""

    def call(*shape: Any, dtype: Any = np.float32, requires_grad: bool = False, **options: Any) -> Tensor:
        if requires_grad:
            skip("gradients")
        if math.prod(np.atleast_1d(_shape(shape))) >= LARGE:
            skip("tensors of gigabytes")
        return made(fill(_shape(shape)).astype(checked(dtype)), **options)

    return call


def typed(kind: str, device: str | None = None) -> Callable[..., Tensor]:
    """`torch.FloatTensor` and its kin: of values, or of a shape."""

    def call(*given: Any) -> Tensor:
        is_shape = not given or isinstance(given[0], (int, tuple))
        return made(np.zeros(_shape(given), kind) if is_shape else np.array(given[0], kind), device)

    return call


def make_tensor(shape: Any, dtype: Any, device: Any = None, **_: Any) -> Tensor:
    kind = checked(dtype)
    return made((np.random.default_rng(3).random(shape) * 9).astype(kind), device)


def from_dlpack(x: Any) -> Tensor:
    if type(x).__name__ == "PyCapsule":
        skip("capsules of DLPack without the array")
    if isinstance(x, Tensor):
        if x.is_host:
            skip("DLPack of tensors on the CPU, which are NumPy's arrays here")
        if xl.get_backend(x.native).name == "sim":
            skip("simulated memory in another library")
        return Tensor(xl.get_backend().namespace().from_dlpack(x.native))
    if xl.get_backend().name == "sim":
        skip("simulated memory in another library")
    if x.__dlpack_device__()[0] == CPU_OF_DLPACK:
        return Tensor(np.from_dlpack(x), is_host=True)
    return Tensor(xl.get_backend().namespace().from_dlpack(x))


@functools.cache
def _spinning() -> Any:
    return xl.raw_module(SPIN).get_function("spin")


def sleep(cycles: int) -> None:
    """A kernel of the device that takes as many cycles."""
    if xl.get_device().kind != "cuda":
        skip("CUDA source without a GPU")
    _spinning()((1,), (1,), [np.int64(cycles)])


class TorchStream(Stream):
    """torch's stream, which the default stream does not wait for: its own names over xferlib's."""

    def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
        if device is not None or _:
            skip("streams of a device that is named, and by their parts")
        super().__init__(non_blocking=True, priority=priority)

    cuda_stream = property(lambda self: 0 if self.own.handle in (0, 1) else self.own.handle)

    def query(self) -> bool:
        return bool(self.own.is_done)

    def record_event(self, event: Any = None) -> Event:
        return self.record(event if event is not None else TorchEvent())

    def wait_stream(self, other: Any) -> None:
        self.own.wait(other.own)

    def __repr__(self) -> str:
        skip("texts of streams")


class TorchEvent(Event):
    """torch's event: its own names over xferlib's."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        super().__init__(blocking, not enable_timing, interprocess)

    def elapsed_time(self, end: Event) -> float:
        return self.time_till(end)

    def __repr__(self) -> str:
        skip("texts of events")


def current() -> Any:
    found = current_stream()
    return found if isinstance(found, TorchStream) else TorchStream.over(found.own)


class Graph:
    """torch's graph over xferlib's capture of the current stream."""

    def capture_begin(self, *_: Any, **__: Any) -> None:
        if not xl.get_backend().capabilities.streams:
            skip("captures of a library's own operations on a CPU")
        self._graph = begin_capture(xl.current_stream())

    def capture_end(self) -> None:
        with warnings.catch_warnings(record=True) as told:
            end_capture()
        if told:
            warnings.warn("The CUDA Graph is empty, by torch's text", stacklevel=1)

    def replay(self) -> None:
        self._graph.launch(None)

    def reset(self) -> None:
        del self._graph


def capturing() -> bool:
    return xl.current_stream()._raw.capture is not None


class Function:
    """The base of functions with a gradient."""

    @staticmethod
    def apply(*_: Any) -> None:
        skip("gradients")


class TestCase(unittest.TestCase):
    """The base of torch's tests."""

    __test__ = False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("assert"):
            skip(f"TestCase.{name}, which is torch's own")
        raise AttributeError(name)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__test__ = True

    def assertEqual(self, first: Any, second: Any, msg: Any = None, exact_dtype: bool = True, **_: Any) -> None:  # noqa: N802 - unittest's name
        if isinstance(first, Tensor) or isinstance(second, Tensor):
            one, two = host(first), host(second)
            np.testing.assert_array_equal(one, two, str(msg))
            assert not exact_dtype or one.dtype == two.dtype
        else:
            super().assertEqual(first, second, msg)  # noqa: PT009 - of the peer's base


def dtypes(*kinds: Any) -> Callable[[Any], Any]:
    def decorate(test: Any) -> Any:
        test.dtypes = kinds
        return test

    return decorate


def instantiate(cls: type, scope: dict[str, Any], **_: Any) -> None:
    """The tests of a class for the device, one for each dtype."""
    body: dict[str, Any] = {}
    for name in dir(cls):
        test = getattr(cls, name)
        if not name.startswith("test"):
            continue
        takes_device = "device" in inspect.signature(test).parameters
        if set(inspect.signature(test).parameters) > {"self", "device", "dtype"}:
            body[name] = pytest.mark.skip(reason=f"{PREFIX}optimizers and settings of torch's own")(lambda self: None)
            continue
        kinds = getattr(test, "dtypes", (None,))
        for number, kind in enumerate(kinds):
            given = {"device": "cuda"} if takes_device else {}
            label = "cuda" if kind is None else f"cuda_{np.dtype(kind).name if kind is not BFLOAT16 else number}"
            body[f"{name}_{label}"] = _given(test, {**given, **({} if kind is None else {"dtype": kind})})
        body[name] = None
    scope[cls.__name__ + "CUDA"] = type(cls.__name__ + "CUDA", (cls,), {**body, "__module__": cls.__module__})
    cls.__test__ = False  # type: ignore[attr-defined]


def _given(test: Any, arguments: dict[str, Any]) -> Any:
    def run(self: Any) -> None:
        if arguments.get("dtype") is BFLOAT16:
            skip("dtypes that devices do not hold")
        test(self, **arguments)

    return run


def _plain(test: Any = None, *_: Any, **__: Any) -> Any:
    return test if callable(test) else lambda inner: inner


def only_cuda(test: Any) -> Any:
    @functools.wraps(test)
    def run(self: Any, *args: Any, **options: Any) -> None:
        if not xl.get_backend().capabilities.streams:
            skip("streams and device memory of CUDA on a CPU")
        test(self, *args, **options)

    return run


class Properties:
    """The current device's."""

    total_memory = 1 << 30

    @property
    def uuid(self) -> uuid.UUID:
        if xl.get_device().kind != "cuda":
            skip("CUDA's number of a device, on a CPU")
        return uuid.UUID(str(xl.get_device().uuid).removeprefix("GPU-"))


_PROPERTIES = Properties()
_ALL = [np.dtype(each) for each in "BbhilfdFD"]
_CUDA: dict[str, Any] = {
    "Stream": TorchStream, "Event": TorchEvent, "current_stream": current, "synchronize": xl.synchronize,
    "default_stream": lambda *_: TorchStream.over(NullStream(null=True).own), "_sleep": sleep, "CUDAGraph": Graph,
    "stream": lambda stream: stream if stream is not None else contextlib.nullcontext(),
    "is_current_stream_capturing": capturing, "current_device": lambda: xl.get_device().index, "device": Device,
    "device_count": lambda: len(xl.get_backend().devices()), "empty_cache": lambda: None, "_HAS_PYNVML": False,
    "is_available": lambda: True, "is_bf16_supported": lambda: False, "get_allocator_backend": lambda: "native",
    "FloatTensor": typed("f", "cuda"),
    "get_device_properties": lambda *_: _PROPERTIES,
}  # fmt: skip
_SKIPS = (
    "skipMeta", "onlyNativeDeviceTypes", "skipCUDAIfRocm", "serialTest", "skipCUDANonDefaultStreamIf", "skipIfRocm",
    "setBlasBackendsToDefaultFinally", "skipCUDAMemoryLeakCheckIf", "largeTensorTest", "markDynamoStrictTest",
    "gcIfJetson", "instantiate_parametrized_tests",
)  # fmt: skip
_DECORATORS = dict.fromkeys(_SKIPS, _plain)
_LEFT_OUT = pytest.mark.skip(reason=f"{PREFIX}slow tests, which the peer's own runs leave out")
_OF_TORCH = pytest.mark.skip(reason=f"{PREFIX}optimizers and settings of torch's own")
NAMES: dict[str, dict[str, Any]] = {
    "torch": {
        **{name: np.dtype(code) for name, code in DTYPES.items()}, "bfloat16": BFLOAT16, "inf": np.inf, "nan": np.nan,
        "Tensor": Tensor, "ones": filled(np.ones), "zeros": filled(np.zeros), "empty": filled(np.empty),
        "rand": filled(np.random.random_sample), "randn": filled(np.random.standard_normal),
        "full": lambda shape, value, **options: made(np.full(shape, value), **options),
        "arange": lambda *args, **options: made(np.arange(*args), **options),
        "tensor": lambda values, **options: made(_values(values), **options), "from_dlpack": from_dlpack,
        "FloatTensor": typed("f"), "ByteTensor": typed("B"), "IntTensor": typed("i"), "DoubleTensor": typed("d"),
        "version": types.SimpleNamespace(hip=None, cuda="13.0"),
    },
    "torch.cuda": _CUDA,
    "torch.autograd": {"Function": Function},
    "torch.testing": {"make_tensor": make_tensor},
    "torch.testing._internal": {},
    "torch.testing._internal.common_utils": {
        **_DECORATORS, "TestCase": TestCase, "IS_JETSON": False, "run_tests": lambda: None, "TEST_CUDA": True,
        "TEST_CUDA_GRAPH": True, "TEST_NUMPY": True, "TEST_WITH_ROCM": False, "IS_WINDOWS": False, "IS_LINUX": True,
        "EXPANDABLE_SEGMENTS": False, "get_cycles_per_ms": lambda: CYCLES_PER_MS, "slowTest": _LEFT_OUT,
        "IS_FBCODE": False, "IS_SANDCASTLE": False, "IS_ARM64": False, "NO_MULTIPROCESSING_SPAWN": True,
        "parametrize": lambda *_, **__: _OF_TORCH, "subtest": lambda *_, **__: None, "load_tests": None,
    },
    "torch.testing._internal.common_device_type": {
        **_DECORATORS, "dtypes": dtypes, "instantiate_device_type_tests": instantiate, "onlyCUDA": only_cuda,
    },
    "torch.testing._internal.common_cuda": {"TEST_MULTIGPU": False, "TEST_CUDNN": False, "TEST_NUMBA_CUDA": False},
    "torch.testing._internal.common_dtype": {"all_types_and_complex_and": lambda *extra: [*_ALL, *extra]},
    "torch.testing._internal.common_optimizers": {"optim_db": [], "optims": lambda *_, **__: _OF_TORCH},
    "torch.utils.dlpack": {
        "from_dlpack": from_dlpack, "to_dlpack": lambda x: skip("capsules of DLPack without the array"),
    },
    "torch.testing._internal.autocast_test_lists": {"TestAutocast": TestCase},
    "psutil": {},
    "torchvision": {},
}  # fmt: skip
FILES = ["test/test_cuda.py", "test/test_dlpack.py"]


def prepare() -> None:
    Stream.null = NullStream(null=True)
    if xl.get_backend().capabilities.streams:
        Stream.ptds = Stream(ptds=True)
