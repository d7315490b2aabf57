"""The registry of backends: those that exist, those that can run, and the one that a call uses.

Names map to dotted paths, loaded at first use. A table gives the backend of an array by its exact type; a type that
is seen for the first time is matched by the dotted names along its MRO, so that looking at a ``torch.Tensor`` never
imports CuPy. Third parties register under the entry-point group ``xferlib.backends``; an environment variable only ever
selects a registered name.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from xferlib._core import observe
from xferlib._runtime import circumstances, leak, shutdown, torch_compile
from xferlib._runtime.fork import reset_in_child
from xferlib._runtime.version import install_command
from xferlib.errors import BackendNotFoundError, BackendUnavailableError, ForkError, did_you_mean, shown

if TYPE_CHECKING:
    from xferlib._core.backend import Backend

ENTRY_POINT_GROUP = "xferlib.backends"


@dataclass(frozen=True, slots=True)
class _Spec:
    path: str
    array_types: tuple[str, ...]
    extra: str = ""
    """Of xferlib, which brings the library; empty where that comes with it."""


_BUILTIN: dict[str, _Spec] = {
    "cupy": _Spec("xferlib.backends.cupy:CupyBackend", ("cupy.ndarray",), "cupy"),
    "torch": _Spec("xferlib.backends.torch:TorchBackend", ("torch.Tensor",), "torch"),
    "pycuda": _Spec("xferlib.backends.pycuda:PycudaBackend", ("pycuda.gpuarray.GPUArray",), "pycuda"),
    "sim": _Spec("xferlib.sim.backend:SimBackend", ("xferlib.sim.SimArray",)),
    "numpy": _Spec("xferlib.backends.numpy:NumpyBackend", ("numpy.ndarray", "numpy.generic")),
}


@dataclass(frozen=True, slots=True)
class BackendStatus:
    """The entry of one backend in `available_backends`."""

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
_failed: dict[str, tuple[type[BackendUnavailableError | ForkError], str, str]] = {}
"""The error of each backend that cannot be used, and the reason, in words: a traceback would keep arrays alive."""
_loading: set[str] = set()
by_type: dict[type, Backend | None] = {}
"""The backend of each type that was seen, None for what is no array; filled by `backend_of`, and never replaced."""
namespaces: dict[type, ModuleType] = {}
"""The namespace of types in `by_type`, for `xferlib.get_array_module` to fill."""
_plugins: dict[str, Any] | None = None


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
    except Exception:  # nothing that could be a name: a stranger's object, asked for its hash, may raise anything
        backend = None
    return backend if backend is not None else _load(name)


def library(name: str) -> tuple[str, str]:
    """The module that a registered backend's arrays are from, and the command that installs it; loads neither."""
    spec = _BUILTIN.get(name)
    dotted = spec.array_types[0] if spec is not None else _module_of(_entry_points()[name])
    return dotted.partition(".")[0], _install(name)


def is_installed(name: str) -> bool:
    """Whether there is a module as `library` names it, which need not work; loads no library."""
    from importlib import util

    try:
        return util.find_spec(library(name)[0]) is not None
    except (ImportError, ValueError):  # a plug-in whose entry point names no module, or one without a specification
        return True


def _load(name: str) -> Backend:
    if not isinstance(name, str):
        near = name.__name__ if isinstance(name, ModuleType) else None  # such as torch
        hint = f"; give its name, {near!r}" if near in names() else f"; the registered ones are {', '.join(names())}"
        raise BackendNotFoundError(f"{shown(name)} names no backend{hint}")
    with _lock:
        if name in _loaded:
            return _loaded[name]
        if name in _failed:
            kind, said, reason = _failed[name]
            raise kind(said) from (ImportError(reason) if reason else None)
        factory = _factory(name)
        if name in _loading:  # with the lock: this thread loads it
            raise BackendUnavailableError(f"backend {name!r} is being loaded: it may not ask for itself meanwhile")
        try:
            _loading.add(name)
            backend: Backend = torch_compile.untraced(factory)()  # whose imports torch's tracer would look into
            _check(name, backend)
        except (ForkError, KeyboardInterrupt):
            raise
        except BaseException as error:  # a library may fail in any way, and a plug-in end the program
            failure = _unavailable(name, error)
            _failed[name] = type(failure), str(failure), _said(error)
            raise failure from error
        finally:
            _loading.discard(name)
        _loaded[name] = backend
        forget_types(lambda found: found is None)  # some may be arrays of this one
    if (recorder := observe.active) is not None:
        recorder.met(backend)
    return backend


def _check(name: str, backend: Any) -> None:
    """Refuse what a plug-in has made where the library, which asks each backend that is loaded, would stumble on it."""
    from xferlib._core.backend import Backend
    from xferlib._core.capabilities import Capabilities

    if not isinstance(backend, Backend):
        raise TypeError(f"its entry point makes {shown(backend)}, which is no xferlib.backends.base.Backend")
    if backend.name != name:
        raise TypeError(f"its entry point is {name!r}, and the backend's name {shown(backend.name)}: they must agree")
    if not isinstance(backend.capabilities, Capabilities) or not isinstance(backend.pinned_domain, str):
        raise TypeError("its attribute capabilities is no Capabilities, or its pinned_domain no str")
    types = backend.array_types
    if not isinstance(types, tuple) or not all(isinstance(each, str) for each in types):
        raise TypeError(f"its array_types is {shown(types)}, which is no tuple of dotted names")
    if any(each.startswith("builtins.") for each in types):
        raise TypeError(f"its array_types is {shown(types)}: Python's own types are no arrays")
    devices = backend.devices()
    if not isinstance(devices, (tuple, list)) or not devices or any(not _is_device(each, name) for each in devices):
        raise TypeError(f"its devices() are {shown(devices)}, which are no tuple of devices of {name!r}")
    if name in _BUILTIN:  # whose libraries set a device up when they are asked for the current one
        return
    for each in devices:
        if not isinstance(part := backend.at(each), Backend):
            raise TypeError(f"its at({each}) is {shown(part)}, which is no xferlib.backends.base.Backend")
    if not _is_device(current := backend.device_current(), name):
        raise TypeError(f"its device_current() is {shown(current)}, which is no device of {name!r}")
    if not isinstance(backend.survives_fork, bool):
        raise TypeError("its survives_fork is no bool")


def _is_device(thing: Any, name: str) -> bool:
    from xferlib._core.device import Device

    return isinstance(thing, Device) and thing.backend == name


def loaded() -> tuple[Backend, ...]:
    """The backends that this process has used."""
    return tuple(_loaded.values())


_DEVICES = {
    **dict.fromkeys(("cpu", "host"), "; the CPU is a device of numpy and torch, device='cpu'"),
    **dict.fromkeys(("cuda", "gpu"), "; GPUs are devices 'cuda:0', 'cuda:1', ..."),
}
"""The hint for a kind of device that is given as a backend's name."""
_OTHER_NAMES = {"simulator": "sim", "simulated": "sim", "np": "numpy", "cp": "cupy", "pt": "torch"}


def _factory(name: str) -> Any:
    spec = _BUILTIN.get(name)
    if spec is None:
        point = _entry_points().get(name)
        if point is None:
            kind = name.casefold()
            near = _DEVICES.get(kind.partition(":")[0].rstrip("0123456789"))
            near = near or did_you_mean(_OTHER_NAMES.get(kind, name), names())
            near = near or did_you_mean(kind, [*names(), *_DEVICES])
            raise BackendNotFoundError(
                f"there is no backend {shown(name)}{near}; the registered ones are {', '.join(names())}"
            )

        def load() -> Any:  # inside it, since the import may fail in any way
            return point.load()()

        return load
    module, _, attribute = spec.path.partition(":")

    def build() -> Backend:
        backend: Backend = getattr(importlib.import_module(module), attribute)()
        return backend

    return build


def _unavailable(name: str, error: BaseException) -> BackendUnavailableError:
    is_absent = name in _BUILTIN or isinstance(error, ImportError)
    remedy = f"install it with {_install(name)}" if is_absent else f"update or uninstall {_provider(name)}"
    return BackendUnavailableError(
        f"backend {name!r} cannot run here: {_said(error)}; {remedy}, or ask `xferlib doctor`"
    )


def _said(error: BaseException) -> str:
    """An error in words, never none: its class where that tells more than the text, or has to stand for it."""
    try:
        text = str(error)
    except Exception:  # of a plug-in's own class
        text = ""
    kind = type(error)
    if text and kind in (ImportError, ModuleNotFoundError, OSError, RuntimeError, BackendUnavailableError):
        return text
    return f"{kind.__name__}: {text}" if text else kind.__name__


def _install(name: str) -> str:
    spec = _BUILTIN.get(name)
    if spec is not None:
        is_cpu = name == "torch" and not cuda_driver_present()  # where torch would bring gigabytes of CUDA
        return install_command("torch-cpu" if is_cpu else spec.extra, cpu_torch=is_cpu)
    provider = _provider(name)
    return provider if " " in provider else f"pip install {provider}"


def _provider(name: str) -> str:
    """The distribution that a plug-in is from."""
    try:
        found = getattr(getattr(_entry_points()[name], "dist", None), "name", None)
    except Exception:  # whose metadata cannot be read
        found = None
    return found if isinstance(found, str) and found else f"the package that provides {name!r}"


def cuda_driver_present() -> bool:
    """Whether the CUDA driver starts and sees a device; imports no library."""
    import ctypes

    try:
        driver = ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
        count = ctypes.c_int(0)
        return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
    except (OSError, AttributeError):  # there is none, or something else by its name
        return False


def _entry_points() -> dict[str, Any]:
    global _plugins
    if _plugins is None:
        from importlib import metadata  # 34 ms: only when a name or type is not built in

        try:
            points = [*metadata.entry_points(group=ENTRY_POINT_GROUP)]
        except Exception:  # a package whose entry points cannot be read, of this group or another
            points = [point for each in metadata.distributions() for point in _points_of(each)]
        found = {point.name: point for point in points}
        if _plugins is None:  # else another thread was faster, and what it found may be in use
            _plugins = found
    return _plugins


def _points_of(distribution: Any) -> list[Any]:
    try:
        return [*distribution.entry_points.select(group=ENTRY_POINT_GROUP)]
    except Exception:
        return []


def _module_of(point: Any) -> str:
    """The module that an entry point names; empty where its text is none."""
    try:
        return str(point.module)
    except Exception:
        return ""


def available_backends() -> dict[str, BackendStatus]:
    """Every registered backend by name: whether it can run here, and if not, why and how to install it.

    Loads each backend, and so imports its library.
    """
    found = {}
    for name in names():
        try:
            found[name] = status(name)
        except Exception as error:  # of a library that was lost meanwhile
            found[name] = BackendStatus(name, False, _said(error), _install(name))
    return found


def status(name: str) -> BackendStatus:
    try:
        backend = get(name)
    except (BackendUnavailableError, ForkError) as error:
        return BackendStatus(name, False, _said(error.__cause__ or error), _install(name))
    return BackendStatus(name, True, "", _install(name), tuple(str(device) for device in backend.devices()))


# --- from arrays


def backend_of(array: Any) -> Backend | None:
    """The backend whose array type this is; None for anything else, scalars and sequences included."""
    cls = type(array)
    try:
        return by_type[cls]
    except KeyError:
        return _match(cls)


def is_array_type(cls: type) -> bool:
    """Whether objects of this class are arrays of some backend."""
    return (by_type[cls] if cls in by_type else _match(cls)) is not None


forgotten = 0
"""How often types were forgotten."""


def forget_types(belongs: Callable[[Backend | None], bool]) -> None:
    """Match the types of some backends anew, when they are next seen."""
    global forgotten
    for cls, found in list(by_type.items()):
        if belongs(found):
            by_type.pop(cls, None)
            namespaces.pop(cls, None)
    forgotten += 1
    circumstances.changed()


def _match(cls: type) -> Backend | None:
    found: Backend | None = None
    count = len(_loaded)
    if cls.__module__ != "builtins":
        name = next((n for n, spec in _BUILTIN.items() if _is_declared(cls, spec.array_types)), None)
        if name is not None:
            found = get(name)
        else:
            found = next((each for each in _plugin_backends(cls) if _is_declared(cls, each.array_types)), None)
    with _lock:  # which the thread holds that loads a backend and forgets these types
        if found is not None or count == len(_loaded):  # else one was loaded meanwhile, which this may be an array of
            by_type[cls] = found
    return found


def _is_declared(cls: type, names: tuple[str, ...]) -> bool:
    """Whether a class or a base of it is named so, by itself or by a module that is imported."""
    return any(f"{base.__module__}.{base.__qualname__}" in names for base in cls.__mro__) or any(
        _imported(each) in cls.__mro__ for each in names
    )


def _imported(dotted: str) -> Any:
    """The object of that name; None where its module is not imported or has no such name yet."""
    module, _, name = dotted.rpartition(".")
    return getattr(sys.modules.get(module), "__dict__", {}).get(name)


def _plugin_backends(cls: type) -> Iterator[Backend]:
    """The plug-ins that a class may belong to: others would import a library only to look at a type."""
    roots = {base.__module__.partition(".")[0] for base in cls.__mro__}
    for name, point in _entry_points().items():
        module = _module_of(point)
        is_near = module.partition(".")[0] in roots or name in sys.modules or module in sys.modules
        if name not in _BUILTIN and (name in _loaded or is_near):
            try:
                yield get(name)
            except BackendUnavailableError:
                continue


# --- fork


def _after_fork_in_child() -> None:
    """Make every backend that was live, or its CUDA part, raise ForkError: CUDA does not work in a forked child."""
    global _lock
    _lock = threading.RLock()
    _loading.clear()  # by threads that the child has not
    for name, backend in list(_loaded.items()):
        if backend.capabilities.streams and not backend.survives_fork:
            leak.keep(_loaded.pop(name))  # and what its driver owns
            said = (
                f"backend {name!r} was initialised before this process (pid {os.getpid()}) was forked, and CUDA does "
                "not survive a fork; start workers with multiprocessing.get_context('spawn'), or fork first"
            )
            _failed[name] = ForkError, said, ""
    forget_types(lambda found: found is not None and found.capabilities.streams and not found.survives_fork)


reset_in_child(_after_fork_in_child)


def _parts() -> list[Backend]:
    """The loaded backends, and the parts of them that serve a device."""
    found = list(loaded())
    for backend in loaded():
        with suppress(Exception):  # of a library that was lost meanwhile; the others are to be closed
            found += [backend.at(device) for device in backend.devices()]
    return found


def _end_threads() -> None:
    from xferlib._native import driver_calls  # here: most programs end without threads, and need none of it

    driver_calls.end_threads()


shutdown.close_at_end(_parts)
shutdown.call_first(_end_threads)
