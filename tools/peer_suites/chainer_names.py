"""Chainer's names, as far as its tests of devices and transfers use them; the arrays are CuPy's."""

from __future__ import annotations

import contextlib
import functools
import importlib
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tools.peer_suites import cupy_names, cupy_testing
from tools.peer_suites.adapting import SHIM
from tools.peer_suites.arrays import PeerArray, wrap
from tools.peer_suites.missing import PREFIX, Missing, skip
from tools.peer_suites.streams import Device, Event, Stream


def cupy() -> Any:
    return sys.modules[f"{SHIM}.cupy"]


# --- chainer.backends.cuda


class DummyDeviceType:
    """Chainer's device of NumPy's arrays."""

    id = -1

    def __init__(self) -> None:
        self.own = xl.Device("cpu")

    def __int__(self) -> int:
        return -1

    def __enter__(self) -> DummyDeviceType:
        self.own.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:  # noqa: PYI036
        self.own.__exit__(*error)

    def use(self) -> None:
        """Nothing."""

    def synchronize(self) -> None:
        """Nothing."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DummyDeviceType)

    def __hash__(self) -> int:
        return hash(DummyDeviceType)


DUMMY = DummyDeviceType()


def get_device_from_id(number: Any) -> Any:
    if number is None:
        return DUMMY
    if not isinstance(number, (int, np.integer)) or number < 0:
        raise ValueError(number)
    return Device(number)


def get_device_from_array(*arrays: Any) -> Any:
    for each in arrays:
        if isinstance(each, PeerArray):
            return Device.over(xl.device_of(each.native))
    return DUMMY


def get_device(*args: Any) -> Any:
    for each in args:
        if isinstance(each, (Device, DummyDeviceType)):
            return each
        if isinstance(each, (int, np.integer)):
            return get_device_from_id(each)
    return get_device_from_array(*args)


def _accepted(value: Any) -> None:
    kinds = (PeerArray, np.ndarray, np.generic, bool, type(None))
    parts = value if isinstance(value, (list, tuple)) else (value,)
    if not all(isinstance(each, kinds) for each in parts):
        raise TypeError(type(value))


def _kept(result: Any, given: dict[int, Any], dress: Callable[[Any], Any]) -> Any:
    """The peer's objects for what was returned: the very one that was given, where xferlib returned that."""
    if isinstance(result, (list, tuple)):
        return type(result)(_kept(each, given, dress) for each in result)
    if result is None:
        return None
    if id(result) not in given:
        given[id(result)] = dress(result)
    return given[id(result)]


def _parts(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def to_gpu(value: Any, device: Any = None, stream: Any = None) -> Any:
    """`xl.tree.to_device`, with what is there already itself."""
    _accepted(value)
    given = {id(each.native): each for each in _parts(value) if isinstance(each, PeerArray)}
    with contextlib.nullcontext() if device is None else get_device(device):
        native = xl.tree.to_device(_bare(value), copy=None, stream=getattr(stream, "own", None))
    return _kept(native, given, wrap)


def to_cpu(value: Any, stream: Any = None) -> Any:
    """`xl.tree.to_host`, with what is there already itself."""
    _accepted(value)
    if isinstance(value, (np.generic, bool)):
        return np.asarray(value)
    given = {id(each): each for each in _parts(value) if isinstance(each, np.ndarray)}
    native = xl.tree.to_host(_bare(value), copy=None, stream=getattr(stream, "own", None))
    return _kept(native, given, np.asarray)


def _bare(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(map(_bare, value))
    return value.native if isinstance(value, PeerArray) else np.asarray(value) if value is not None else None


# --- chainer.backend


class PeerDevice:
    """A device by Chainer's name, over xferlib's."""

    own: xl.Device
    name: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PeerDevice) and type(self) is type(other) and self.own == other.own

    def __hash__(self) -> int:
        return hash(self.own)

    def __str__(self) -> str:
        return str(self.name)

    def __repr__(self) -> str:
        skip("texts of devices")


class CpuDevice(PeerDevice):
    """`xl.Device("cpu")` by Chainer's name."""

    xp = np
    supported_array_types = (np.ndarray,)
    name = "@numpy"

    def __init__(self) -> None:
        self.own = xl.Device("cpu")

    @staticmethod
    def from_array(array: Any) -> CpuDevice | None:
        return CpuDevice() if isinstance(array, np.ndarray) else None

    def is_array_supported(self, array: Any) -> bool:
        return isinstance(array, np.ndarray)

    def send(self, value: Any) -> Any:
        return to_cpu(value)

    def use(self) -> None:
        """Nothing."""


class GpuDevice(PeerDevice):
    """An `xl.Device` by Chainer's name."""

    xp = property(lambda self: cupy())
    supported_array_types = (PeerArray,)

    def __init__(self, device: Any) -> None:
        self.device, self.own = device, device.own

    name = property(lambda self: f"@cupy:{self.device.id}")

    @staticmethod
    def from_array(array: Any) -> GpuDevice | None:
        return GpuDevice(get_device_from_array(array)) if isinstance(array, PeerArray) else None

    @staticmethod
    def from_device_id(number: Any) -> GpuDevice:
        if number is None:
            raise ValueError(number)
        return GpuDevice(get_device_from_id(number))

    def is_array_supported(self, array: Any) -> bool:
        return isinstance(array, PeerArray) and xl.device_of(array.native) == self.own

    def send(self, value: Any) -> Any:
        return to_gpu(value, self.device)

    def use(self) -> None:
        self.device.use()


def backend_device(spec: Any) -> Any:
    """`chainer.get_device`: its own words for devices, translated."""
    if isinstance(spec, PeerDevice):
        return spec
    if isinstance(spec, Device):
        return GpuDevice(spec)
    text = str(spec) if isinstance(spec, (int, str)) else ""
    if text in ("@numpy", "-1"):
        return CpuDevice()
    if (found := re.fullmatch(r"(?:@cupy:)?(\d+)", text)) is not None:
        return GpuDevice.from_device_id(int(found[1]))
    if text.startswith(("native", "cuda:", "@intel64")):
        skip("ChainerX and iDeep")
    raise RuntimeError(f"{spec!r} is no device; and there is no ChainerX")


def device_from_array(*arrays: Any) -> Any:
    for each in arrays:
        if isinstance(each, PeerArray):
            return GpuDevice.from_array(each)
    return CpuDevice()


def using_device(spec: Any) -> Any:
    device = backend_device(spec)
    return device.device if isinstance(device, GpuDevice) else contextlib.nullcontext(device)


def copyto(target: Any, source: Any) -> None:
    """Between any two arrays."""
    for each in (target, source):
        if not isinstance(each, (PeerArray, np.ndarray)):
            raise TypeError(type(each))
    if isinstance(target, PeerArray):
        native = source.native if isinstance(source, PeerArray) else source
        xl.to_device(native, out=target.native, dtype=target.dtype)
    elif isinstance(source, PeerArray):
        xl.to_host(source.native, out=target, dtype=target.dtype)
    else:
        np.copyto(target, source, casting="same_kind")


# --- chainer.testing


def _needs(what: str) -> Any:
    return pytest.mark.skip(reason=f"{PREFIX}{what}")


class BackendConfig:
    """The device that a test is repeated for."""

    def __init__(self, options: dict[str, Any]) -> None:
        if options.get("use_chainerx") or options.get("use_ideep"):
            skip("ChainerX and iDeep")
        self.use_cuda = bool(options.get("use_cuda"))
        self.cuda_device = options.get("cuda_device", 0)

    @property
    def device(self) -> Any:
        return GpuDevice.from_device_id(self.cuda_device) if self.use_cuda else CpuDevice()

    def get_array(self, array: Any) -> Any:
        return self.device.send(array)


def inject_backend_tests(names: Any, sets: Any) -> Callable[[type], type]:
    """One class for each device; a second use of it names the devices `backend_config1` and `backend_config2`."""

    def make(cls: type) -> type:
        outer = getattr(cls, "configs", [{}])
        namespace = vars(sys.modules[cls.__module__])
        combined = [[*known, each] if known else [each] for known in outer for each in sets]
        tests = [name for name in vars(cls) if name.startswith("test")]
        body: dict[str, Any] = {"configs": combined}
        for name in tests:
            body[name] = _repeated(getattr(cls, f"_bare_{name}", None) or vars(cls)[name], combined)
            body[f"_bare_{name}"] = getattr(cls, f"_bare_{name}", None) or vars(cls)[name]
        made = type(cls.__name__, (cls,), body)
        made.__module__ = cls.__module__
        namespace[cls.__name__] = made
        return made

    return make


def _repeated(test: Any, combined: list[list[dict[str, Any]]]) -> Any:
    @functools.wraps(test)
    def run(self: Any) -> None:
        ran = False
        wrong: BaseException | None = None
        for configs in combined:
            try:
                made = [BackendConfig(each) for each in configs]
                named = {"backend_config": made[0]} if len(made) == 1 else {
                    "backend_config1": made[0], "backend_config2": made[1],
                }  # fmt: skip
                test(self, **named)
                ran = True
            except pytest.skip.Exception as error:
                wrong = error
        if not ran and wrong is not None:
            raise wrong

    del run.__wrapped__
    return run


_CUDA: dict[str, Any] = {
    "DummyDeviceType": DummyDeviceType, "DummyDevice": DUMMY, "get_device_from_id": get_device_from_id,
    "get_device_from_array": get_device_from_array, "get_device": get_device, "to_gpu": to_gpu, "to_cpu": to_cpu,
    "Device": Device, "Stream": Stream, "Event": Event, "ndarray": PeerArray, "available": True,
    "get_array_module": cupy_names.NAMES["cupy"]["get_array_module"],
}  # fmt: skip
NAMES: dict[str, dict[str, Any]] = {
    **cupy_names.NAMES,
    "chainer": {"get_device": backend_device, "Variable": Missing("chainer.Variable")},
    "chainer.backend": {
        "CpuDevice": CpuDevice, "GpuDevice": GpuDevice, "get_device": backend_device, "copyto": copyto,
        "get_device_from_array": device_from_array, "using_device": using_device,
        "get_array_module": cupy_names.NAMES["cupy"]["get_array_module"],
    },
    "chainer.backends": {},
    "chainer.backends.cuda": _CUDA,
    "chainer.testing": {
        "parameterize": cupy_testing.parameterize, "product": cupy_testing.product,
        "assert_warns": cupy_testing.Warns, "run_module": lambda *_: None,
    },
    "chainer.testing.backend": {"inject_backend_tests": inject_backend_tests},
    "chainer.testing.attr": {
        "gpu": cupy_testing.identity(), "multi_gpu": cupy_testing.multi_gpu, "chainerx": _needs("ChainerX and iDeep"),
        "ideep": _needs("ChainerX and iDeep"), "cudnn": _needs("layers of networks"),
    },
    "chainerx": {"is_available": lambda: False},
    "six": {"PY3": True},
}  # fmt: skip
FILES = [
    *(f"tests/chainer_tests/backends_tests/test_{name}.py" for name in ("cuda", "cpu")),
    "tests/chainer_tests/test_backend.py",
]


def prepare() -> None:
    cupy_names.prepare()
    backends: Any = importlib.import_module(f"{SHIM}.chainer.backends.cuda")
    backends.cupy = importlib.import_module(f"{SHIM}.cupy")
    vars(np)["complex_"] = np.complex128  # NumPy 2 has only the other name
