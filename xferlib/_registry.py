"""Which backends exist, which can run, and which one a call uses.

Names map to dotted paths, loaded at first use. Array types are matched by dotted name along the
MRO, so that looking at a ``torch.Tensor`` never imports CuPy. Third parties register under the
entry-point group ``xferlib.backends``; an environment variable only ever selects a registered name.
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Iterable
from contextvars import ContextVar, Token
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from xferlib import _config, _immortal, _recording
from xferlib.errors import (
    BackendNotFoundError,
    BackendUnavailableError,
    ConfigError,
    ForkError,
    MixedBackendsError,
    MixedDevicesError,
    UnsupportedArrayError,
    shown,
)

if TYPE_CHECKING:
    from xferlib._array import ArrayInfo
    from xferlib.backends.base import Backend

ENTRY_POINT_GROUP = "xferlib.backends"


@dataclass(frozen=True, slots=True)
class _Spec:
    path: str
    install: str
    array_types: tuple[str, ...] = ()


_BUILTIN: dict[str, _Spec] = {
    "cupy": _Spec("xferlib.backends.cupy:CupyBackend", "pip install 'xferlib[cupy]'", ("cupy.ndarray",)),
    "torch": _Spec("xferlib.backends.torch:TorchBackend", "pip install 'xferlib[torch]'", ("torch.Tensor",)),
    "pycuda": _Spec(
        "xferlib.backends.pycuda:PycudaBackend", "pip install 'xferlib[pycuda]'", ("pycuda.gpuarray.GPUArray",)
    ),
    "sim": _Spec("xferlib.sim.backend:SimBackend", "pip install xferlib", ("xferlib.sim.arrays.SimArray",)),
    "numpy": _Spec("xferlib.backends.numpy:NumpyBackend", "pip install numpy", ("numpy.ndarray", "numpy.generic")),
}

_SCALARS = (bool, int, float, complex)


@dataclass(frozen=True, slots=True)
class BackendStatus:
    """What `available_backends` says of one backend."""

    name: str
    is_available: bool
    reason: str
    """Why it cannot run; empty when it can."""
    install: str
    """The command that installs it."""
    devices: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"available on {', '.join(self.devices)}" if self.is_available else f"unavailable: {self.reason}"


_lock = threading.RLock()
_loaded: dict[str, Backend] = {}
_failed: dict[str, BackendUnavailableError | ForkError] = {}
_by_type: dict[type, Backend | None] = {}
_plugins: dict[str, Any] | None = None
_automatic: str | None = None


def names() -> tuple[str, ...]:
    """Every registered backend, built in or by entry point."""
    return (*_BUILTIN, *(name for name in _entry_points() if name not in _BUILTIN))


def get(name: str) -> Backend:
    """The backend of that name, loaded at the first call.

    Raises:
        BackendNotFoundError: Nothing is registered under ``name``.
        BackendUnavailableError: It cannot run here; the message says why and how to install it.
        ForkError: It was initialised before this process was forked.
    """
    try:
        backend = _loaded.get(name)
    except TypeError:  # nothing that could be a name
        backend = None
    return backend if backend is not None else _load(name)


def _load(name: str) -> Backend:
    if not isinstance(name, str):
        raise BackendNotFoundError(f"{shown(name)} names no backend; the registered ones are {', '.join(names())}")
    with _lock:
        if name in _loaded:
            return _loaded[name]
        if name in _failed:
            raise _failed[name]
        factory = _factory(name)
        try:
            backend: Backend = factory()
        except ForkError:
            raise
        except (ImportError, OSError, RuntimeError) as error:
            failure = _unavailable(name, error)
            _failed[name] = failure
            raise failure from error
        _loaded[name] = backend
    if (recorder := _recording.active) is not None:
        recorder.met(backend)
    return backend


def loaded() -> tuple[Backend, ...]:
    """The backends that this process has used."""
    return tuple(_loaded.values())


def _factory(name: str) -> Any:
    spec = _BUILTIN.get(name)
    if spec is None:
        point = _entry_points().get(name)
        if point is None:
            raise BackendNotFoundError(
                f"there is no backend {shown(name)}; the registered ones are {', '.join(names())}"
            )
        try:
            return point.load()
        except (ImportError, AttributeError) as error:
            raise _unavailable(name, error) from error
    module, _, attribute = spec.path.partition(":")

    def build() -> Backend:
        backend: Backend = getattr(importlib.import_module(module), attribute)()
        return backend

    return build


def _unavailable(name: str, error: Exception) -> BackendUnavailableError:
    return BackendUnavailableError(f"backend {name!r} cannot run here: {error}; install it with {_install(name)}")


def _install(name: str) -> str:
    spec = _BUILTIN.get(name)
    if spec is not None:
        return spec.install
    distribution = getattr(_entry_points()[name], "dist", None)
    return f"pip install {distribution.name}" if distribution is not None else f"the package that provides {name!r}"


def _entry_points() -> dict[str, Any]:
    global _plugins
    if _plugins is None:
        from importlib.metadata import entry_points  # 34 ms: only when a name or type is not built in

        _plugins = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
    return _plugins


def available_backends() -> dict[str, BackendStatus]:
    """Every registered backend by name: whether it can run here, and if not, why and how to install it.

    Loads each backend, and so imports its library.
    """
    return {name: _status(name) for name in names()}


def _status(name: str) -> BackendStatus:
    try:
        backend = get(name)
    except (BackendUnavailableError, ForkError) as error:
        reason = str(error.__cause__ or error)
        return BackendStatus(name, False, reason, _install(name))
    return BackendStatus(name, True, "", _install(name), tuple(str(device) for device in backend.devices()))


# --- from arrays


def backend_of(array: Any) -> Backend | None:
    """The backend whose array type this is; None for anything else, scalars and sequences included."""
    cls = type(array)
    try:
        return _by_type[cls]
    except KeyError:
        return _match(cls)


def is_array_type(cls: type) -> bool:
    """Whether objects of this class are arrays of some backend."""
    return (_by_type[cls] if cls in _by_type else _match(cls)) is not None


def _match(cls: type) -> Backend | None:
    found: Backend | None = None
    if cls not in _SCALARS:
        dotted = {f"{base.__module__}.{base.__qualname__}" for base in cls.__mro__}
        name = next((n for n, spec in _BUILTIN.items() if not dotted.isdisjoint(spec.array_types)), None)
        if name is not None:
            found = get(name)
        elif cls.__module__ != "builtins":
            found = next((b for b in _plugin_backends() if not dotted.isdisjoint(b.array_types)), None)
    _by_type[cls] = found
    return found


def _plugin_backends() -> Iterable[Backend]:
    for name in _entry_points():
        if name not in _BUILTIN:
            try:
                yield get(name)
            except BackendUnavailableError:
                continue


def common_backend(arrays: tuple[Any, ...], *, call: str) -> Backend | None:
    """The one backend of all arrays among ``arrays``; None if there is none. Python scalars mix.

    Raises:
        MixedBackendsError: Arrays of two backends.
    """
    found: Backend | None = None
    first = 0
    for index, array in enumerate(arrays):
        backend = backend_of(array)
        if backend is None:
            if not isinstance(array, _SCALARS):
                raise UnsupportedArrayError(
                    f"{call}: argument {index} is {type(array).__name__}, not an array of any backend; "
                    "pass it through xferlib.to_device() first"
                )
        elif found is None:
            found, first = backend, index
        elif backend is not found:
            raise mixed_backends(call, (f"argument {first}", found), (f"argument {index}", backend))
    return found


def mixed_backends(call: str, one: tuple[str, Backend], two: tuple[str, Backend]) -> MixedBackendsError:
    """The error for arrays of two backends, naming both and the call that mends it."""
    (what_one, first), (what_two, second) = one, two
    return MixedBackendsError(
        f"{call}: {what_one} is a {first.name} array and {what_two} a {second.name} array; "
        f"move one of them first: xferlib.to_device(x, backend={first.name!r}) or xferlib.to_host(x)"
    )


def mixed_devices(call: str, one: tuple[str, ArrayInfo], two: tuple[str, ArrayInfo]) -> MixedDevicesError:
    """The error for arrays of two devices, naming both and the call that mends it."""
    (what_one, first), (what_two, second) = one, two
    return MixedDevicesError(
        f"{call}: {what_one} is on {first.device} and {what_two} on {second.device}; "
        f"move one of them first: xferlib.to_device(x, device={str(first.device)!r})"
    )


# --- from the environment and the scopes


class use_backend:  # noqa: N801 - reads as a verb: `use_backend("torch")`, `with use_backend("torch"):`
    """Choose the default backend: a plain call for the process, ``with`` for the block.

    Inside ``with`` the choice holds for this thread and its asynchronous tasks only.

    Args:
        name: A registered backend.

    Raises:
        BackendNotFoundError: Nothing is registered under ``name``.
        BackendUnavailableError: It cannot run here.
    """

    __slots__ = ("_before", "_is_scope", "_thread", "_tokens", "name")

    def __init__(self, name: str) -> None:
        global _process_choice
        self.name = get(name).name
        self._tokens: list[Token[str | None]] = []
        self._is_scope = False
        self._thread = threading.get_ident()
        self._before: use_backend | None = None
        if _scope.get() is not None:  # inside a block: the call holds until the block ends
            self._tokens.append(_scope.set(self.name))
            return
        with _lock:
            before = _process_choice
            if before is not None and before._thread == self._thread:
                before._before = None  # a plain call that stayed one: nothing can undo it any more
            self._before = before
            _process_choice = self

    def __enter__(self) -> Backend:
        global _process_choice
        if self._tokens and not self._is_scope:
            self._is_scope = True
            return get(self.name)
        with _lock:
            self._is_scope = True
            while _process_choice is not None and _process_choice._is_scope:
                _process_choice = _process_choice._before
        self._tokens.append(_scope.set(self.name))
        return get(self.name)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _scope.reset(self._tokens.pop())


_scope: ContextVar[str | None] = ContextVar("xferlib_backend", default=None)
_process_choice: use_backend | None = None


def default_backend() -> Backend:
    """The innermost ``use_backend``, then ``XFERLIB_BACKEND``, then the first usable one.

    Raises:
        BackendNotFoundError, BackendUnavailableError: The one asked for by name is not to be had.
    """
    name = _scope.get()
    if name is None:
        choice = _process_choice
        name = choice.name if choice is not None else environment_choice()
    return get(name)


def environment_choice() -> str:
    """The default where no ``use_backend`` says otherwise."""
    return _config.get().backend or _from_device() or _first_usable()


def scoped_default(name: str) -> Token[str | None]:
    """Make ``name`` the default for this context until `reset_default`."""
    return _scope.set(name)


def reset_default(token: Token[str | None]) -> None:
    _scope.reset(token)


def _from_device() -> str | None:
    """The backend that ``XFERLIB_DEVICE`` names, if it names one."""
    device = _config.get().device or ""
    prefix = device.partition(":")[0]
    return prefix if prefix in names() else None


def _first_usable() -> str:
    global _automatic
    if _automatic is None:
        _automatic = next((name for name in ("cupy", "torch", "pycuda") if _runs_on_cuda(name)), "numpy")
    return _automatic


def _runs_on_cuda(name: str) -> bool:
    if not _cuda_driver_present():  # importing torch costs a second: not where it cannot help
        return False
    try:
        return any(device.kind == "cuda" for device in get(name).devices())
    except BackendUnavailableError:
        return False


def _cuda_driver_present() -> bool:
    import ctypes

    try:
        driver = ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
        count = ctypes.c_int(0)
        return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
    except OSError:
        return False


# --- fork


def _after_fork_in_child() -> None:
    """CUDA cannot be used in a forked child: every backend that was live now says so, or its CUDA part does."""
    global _lock
    _lock = threading.RLock()
    for name, backend in list(_loaded.items()):
        if backend.capabilities.streams and not backend.survives_fork:
            _immortal.keep(_loaded.pop(name))  # and what its driver owns
            _failed[name] = ForkError(
                f"backend {name!r} was initialised before this process (pid {os.getpid()}) was forked, and CUDA does "
                "not survive a fork; start workers with multiprocessing.get_context('spawn'), or fork first"
            )
    for cls, found in list(_by_type.items()):
        if found is not None and found.capabilities.streams and not found.survives_fork:
            del _by_type[cls]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def device_backend(name: str | None, *, device_text: str) -> Backend:
    """The backend for a device specification; the default one where it names none.

    Raises:
        ConfigError: ``XFERLIB_DEVICE`` and ``XFERLIB_BACKEND`` name different backends.
    """
    config = _config.get()
    if name is not None and device_text == config.device and config.backend not in (None, name):
        raise ConfigError(
            f"XFERLIB_DEVICE={device_text!r} names backend {name!r}, but XFERLIB_BACKEND={config.backend!r}; "
            "make them agree, or name no backend in XFERLIB_DEVICE"
        )
    return get(name) if name is not None else default_backend()
