"""The registry of backends: those that exist, those that can run, and the one that a call uses.

Names map to dotted paths, loaded at first use. A table gives the backend of an array by its exact type; a type that
is seen for the first time is matched by the dotted names along its MRO, so that looking at a ``torch.Tensor`` never
imports CuPy. Third parties register under the entry-point group ``xferlib.backends``; an environment variable only ever
selects a registered name.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from xferlib._core import blocks, device, observe
from xferlib._core.device import Capabilities, Device, DeviceParts, DeviceSpec, make_device, parse, refuse_device
from xferlib._runtime import checks, process, torch_compile
from xferlib._runtime.process import reset_in_child
from xferlib._runtime.version import install_command
from xferlib.errors import (
    ArgumentError,
    BackendNotFoundError,
    BackendUnavailableError,
    ConfigError,
    DeviceNotFoundError,
    ForkError,
    MixedBackendsError,
    MixedDevicesError,
    UnsupportedArrayError,
    did_you_mean,
    quote,
)

if TYPE_CHECKING:
    from xferlib._core.backend import Backend

ENTRY_POINT_GROUP = "xferlib.backends"


@dataclass(frozen=True, slots=True)
class _Spec:
    path: str
    array_types: tuple[str, ...]
    extra: str = ""
    """The extra of xferlib that brings the library; empty where that comes with it."""


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


_registry_lock = threading.RLock()
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


def part_of(device: Device) -> Backend:
    """The part of a backend that serves a device, which exists."""
    backend = _loaded.get(device.backend)
    return (backend if backend is not None else _load(device.backend)).at(device)


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
        raise BackendNotFoundError(f"{quote(name)} does not name a backend{hint}")
    with _registry_lock:
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
            backend: Backend = torch_compile.hide_from_tracer(factory)()  # whose imports torch's tracer would look into
            _check(name, backend)
        except (ForkError, KeyboardInterrupt):
            raise
        except BaseException as error:  # a library may fail in any way, and a plug-in end the program
            failure = _unavailable(name, error)
            _failed[name] = type(failure), str(failure), _format_error(error)
            raise failure from error
        finally:
            _loading.discard(name)
        _loaded[name] = backend
        forget_types(lambda found: found is None)  # some may be arrays of this one
    if (recorder := observe.active) is not None:
        recorder.add_backend(backend)
    return backend


def _check(name: str, backend: Any) -> None:
    """Refuse what a plug-in has made where the library, which asks each backend that is loaded, would stumble on it."""
    from xferlib._core.backend import Backend

    if not isinstance(backend, Backend):
        raise TypeError(f"its entry point makes {quote(backend)}, which is not an xferlib.backends.base.Backend")
    if backend.name != name:
        raise TypeError(f"its entry point is {name!r}, and the backend's name {quote(backend.name)}: they must agree")
    if not isinstance(backend.capabilities, Capabilities) or not isinstance(backend.pinned_domain, str):
        raise TypeError("its attribute capabilities is not a Capabilities, or its pinned_domain not a str")
    types = backend.array_types
    if not isinstance(types, tuple) or not all(isinstance(each, str) for each in types):
        raise TypeError(f"its array_types is {quote(types)}, which is not a tuple of dotted names")
    if any(each.startswith("builtins.") for each in types):
        raise TypeError(f"its array_types is {quote(types)}: Python's own types are not arrays")
    devices = backend.devices()
    if not isinstance(devices, (tuple, list)) or not devices or any(not _is_device(each, name) for each in devices):
        raise TypeError(f"its devices() are {quote(devices)}, which are not a tuple of devices of {name!r}")
    if name in _BUILTIN:  # whose libraries set a device up when they are asked for the current one
        return
    for each in devices:
        if not isinstance(part := backend.at(each), Backend):
            raise TypeError(f"its at({each}) is {quote(part)}, which is not an xferlib.backends.base.Backend")
    if not _is_device(current := backend.device_current(), name):
        raise TypeError(f"its device_current() is {quote(current)}, which is not a device of {name!r}")
    if not isinstance(backend.survives_fork, bool):
        raise TypeError("its survives_fork is not a bool")


def _is_device(thing: Any, name: str) -> bool:
    return isinstance(thing, Device) and thing.backend == name


def list_loaded() -> tuple[Backend, ...]:
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
                f"there is no backend {quote(name)}{near}; the registered ones are {', '.join(names())}"
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
        f"backend {name!r} cannot run here: {_format_error(error)}; {remedy}, or ask `xferlib doctor`"
    )


def _format_error(error: BaseException) -> str:
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
    from xferlib._native import cuda_driver  # here: most look-ups name their backend

    return bool(cuda_driver.answer().get("devices"))


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
            found[name] = BackendStatus(name, False, _format_error(error), _install(name))
    return found


def status(name: str) -> BackendStatus:
    try:
        backend = get(name)
    except (BackendUnavailableError, ForkError) as error:
        return BackendStatus(name, False, _format_error(error.__cause__ or error), _install(name))
    return BackendStatus(name, True, "", _install(name), tuple(str(device) for device in backend.devices()))


# --- from arrays


def owner_of(array: Any) -> Backend | None:
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
    process.bump_epoch()


def _match(cls: type) -> Backend | None:
    found: Backend | None = None
    count = len(_loaded)
    if cls.__module__ != "builtins":
        name = next((n for n, spec in _BUILTIN.items() if _is_declared(cls, spec.array_types)), None)
        if name is not None:
            found = get(name)
        else:
            found = next((each for each in _plugin_backends(cls) if _is_declared(cls, each.array_types)), None)
    with _registry_lock:  # which the thread holds that loads a backend and forgets these types
        if found is not None or count == len(_loaded):  # else one was loaded meanwhile, which this may be an array of
            by_type[cls] = found
    return found


def _is_declared(cls: type, names: tuple[str, ...]) -> bool:
    """Whether a class or a base of it is named so, by itself or by a module that is imported."""
    return any(f"{base.__module__}.{base.__qualname__}" in names for base in cls.__mro__) or any(
        _find_imported(each) in cls.__mro__ for each in names
    )


def _find_imported(dotted: str) -> Any:
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


def _reset_registry_after_fork() -> None:
    """Make every backend that was live, or its CUDA part, raise ForkError: CUDA does not work in a forked child."""
    global _registry_lock, _lock
    _registry_lock, _lock = threading.RLock(), threading.Lock()
    _loading.clear()  # by threads that the child has not
    for name, backend in list(_loaded.items()):
        if backend.capabilities.streams and not backend.survives_fork:
            process.keep(_loaded.pop(name))  # and what its driver owns
            said = (
                f"backend {name!r} was initialised before this process (pid {os.getpid()}) was forked, and CUDA does "
                "not survive a fork; start workers with multiprocessing.get_context('spawn'), or fork first"
            )
            _failed[name] = ForkError, said, ""
    forget_types(lambda found: found is not None and found.capabilities.streams and not found.survives_fork)


reset_in_child(_reset_registry_after_fork)


def _parts() -> list[Backend]:
    """The loaded backends, and the parts of them that serve a device."""
    found = list(list_loaded())
    for backend in list_loaded():
        with suppress(Exception):  # of a library that was lost meanwhile; the others are to be closed
            found += [backend.at(device) for device in backend.devices()]
    return found


def _end_threads() -> None:
    from xferlib import _native  # here: most programs end without threads, and need none of it

    _native.end_threads()


process.close_at_end(_parts)
process.call_first(_end_threads)


# The backend of a call that names none: ``use_backend``, the environment, the first that can run.

HOMES = {"cpu": "numpy", "sim": "sim"}
"""The backends to ask for a kind of device that the default backend has none of."""

_lock = threading.Lock()
_automatic: str | None = None
_NOWHERE = DeviceParts(None, None, None)
_checked: tuple[process.Config | None, DeviceParts] = (None, _NOWHERE)
"""The settings that `environment_device` was last asked of, and its answer."""


class use_backend(blocks.Enterable):  # noqa: N801 - reads as a verb: `use_backend("torch")`, `with use_backend("torch"):`
    """Choose the default backend: a plain call for the process, ``with`` for the block.

    Inside ``with`` the choice holds for this thread and its asynchronous tasks only.

    Args:
        name: A registered backend.
        operators: Whose rules the operators of its arrays follow, as ``XFERLIB_TORCH_OPERATORS`` has them: with torch
            'numpy', 'torch' or 'warn'; 'numpy' with every backend. As around the block, or as the setting says, if
            omitted.

    Raises:
        ArgumentError: The backend does not have these operators.
        BackendNotFoundError: Nothing is registered under ``name``.
        BackendUnavailableError: It cannot run here.
        BlockError: The block is left twice, by another task, or before one within it.
    """

    __slots__ = ("_around", "_changes", "_thread", "name", "operators")

    def __init__(self, name: str, *, operators: Literal["numpy", "torch", "warn"] | None = None) -> None:
        global _process_choices
        backend = get(name)
        self.name = backend.name
        self.operators = operators
        self._changes = _choose_operators(backend, operators)
        self._thread = threading.get_ident()
        around = blocks.here()
        self._around: blocks.Blocks | None = None
        # Inside a block the call holds until the block ends.
        if around and blocks.alter(self.name, self._changes, is_chosen=True):
            self._around = around
            return
        with _lock:
            before = _process_choices
            if before and before[-1]._thread == self._thread:  # a plain call that stayed one: nothing can undo it
                before = before[-1:]
            _process_choices = (*before, self)
        _note_process_choice(before, _process_choices)

    def __enter__(self) -> Backend:
        global _process_choices
        around, self._around = self._around, None
        if around is not None:  # the call was no plain one
            blocks.restore(around)
        elif self in (before := _process_choices):
            with _lock:
                _process_choices = tuple(each for each in _process_choices if each is not self)
            _note_process_choice(before, _process_choices)
        blocks.enter(self, self.name, self._changes)
        return get(self.name)

    def __repr__(self) -> str:
        return f"<use_backend {self.name!r}{f', operators={self.operators!r}' if self.operators else ''}>"


_process_choices: tuple[use_backend, ...] = ()
"""Plain calls, the one in force last; those before it are in force again if it becomes a block."""


class _Rules(threading.local):
    def __init__(self) -> None:
        self.chosen: dict[str, str] = {}
        """The operators that blocks have given this thread, by backend."""


_rules = _Rules()
_are_operators_chosen = False
"""Whether any block or call of this process has chosen operators: each new tensor asks which."""


def get_chosen_operators(name: str) -> str | None:
    """The operators that `use_backend` has chosen for a backend, by a block or for the process."""
    if not _are_operators_chosen:
        return None
    if (chosen := _rules.chosen.get(name)) is not None:
        return chosen
    choices = _process_choices
    return choices[-1].operators if choices and choices[-1].name == name else None


def has_block_operators(name: str) -> bool:
    """Whether a block has given this thread operators: others have those of the process."""
    return name in _rules.chosen


def _note_process_choice(before: tuple[use_backend, ...], after: tuple[use_backend, ...]) -> None:
    """Tell the backends whose operators follow another choice now."""
    one, two = ({(each.name, each.operators) for each in choices[-1:]} for choices in (before, after))
    for name in {name for name, operators in one ^ two if operators is not None}:
        look_again_at_operators(name)
    process.bump_epoch()


def look_again_at_operators(name: str) -> None:
    """Let each thread ask for the namespace of a backend anew, and this one follow the choice of the process."""
    forget_types(lambda found: found is not None and found.name == name)
    if (backend := _loaded.get(name)) is not None:
        backend.operators_changed()


def _choose_operators(backend: Backend, operators: Any) -> tuple[blocks.Change, ...]:
    """The changes of a block that give arrays these operators.

    Raises:
        ArgumentError: The backend does not have them.
    """
    global _are_operators_chosen
    if operators is None:
        return ()
    if operators not in backend.operators:
        known = " or ".join(map(repr, backend.operators))
        raise ArgumentError(
            f"use_backend: operators={quote(operators)} with {backend.name}, whose arrays can have {known}; give "
            f"{'one of these' if len(backend.operators) > 1 else 'that'}, or leave operators out"
        )
    _are_operators_chosen = True
    return (_OperatorsChange(backend, operators),) if len(backend.operators) > 1 else ()


class _OperatorsChange:
    """Gives the arrays of a thread other operators."""

    def __init__(self, backend: Backend, operators: str) -> None:
        self._backend = backend
        self._operators = operators

    def make(self, undo: list[blocks.Undo]) -> None:
        undo.append(functools.partial(self._use, _rules.chosen.get(self._backend.name)))
        self._use(self._operators)

    def _use(self, operators: str | None) -> None:
        if operators is None:
            _rules.chosen.pop(self._backend.name, None)
        else:
            _rules.chosen[self._backend.name] = operators
        self._backend.operators_changed()


def default_backend() -> Backend:
    """The innermost ``use_backend``, then ``XFERLIB_BACKEND``, then the first usable one.

    Raises:
        BackendNotFoundError, BackendUnavailableError: The backend asked for by name does not exist or is unavailable.
    """
    name = blocks.scope()
    if name is None:
        choices = _process_choices
        name = choices[-1].name if choices else environment_choice()
        if not choices and name == process.get().backend:
            return _load_from_environment(name)
    return get(name)


def get_chosen_backend() -> str | None:
    """The name of the backend that the program has chosen by `use_backend` or a device; None if it has not."""
    choices = _process_choices
    name = blocks.scope()
    return name if name is not None or not choices else choices[-1].name


_outside: tuple[process.Config | None, str | None, str | None] = (None, None, None)
"""The settings and the automatic choice that were last looked at, and the backend that they make the default one."""


def is_unnamed(name: str) -> bool:
    """Whether a backend is the default one although no line of the program has named it; looks for none."""
    global _outside
    config = process.get()
    if _outside[0] is not config or _outside[1] is not _automatic:  # each new array of torch's asks
        _outside = (config, _automatic, _get_environment_backend() or _automatic)
    if name != _outside[2] or get_chosen_backend() is not None:
        return False
    return not (process.is_by_program("backend") or process.is_by_program("device"))


def describe_default() -> str:
    """The default backend in words, without loading one to find out.

    Raises:
        BackendNotFoundError: ``XFERLIB_BACKEND`` names one that does not exist.
    """
    name = _get_environment_backend()
    if name is not None:
        return name if name in names() else _load_from_environment(name).name
    if not cuda_driver_present():
        return "numpy"
    return "the first of cupy, torch and pycuda that runs on a CUDA device; else numpy"


def _load_from_environment(name: str) -> Backend:
    try:
        return get(name)
    except (BackendNotFoundError, BackendUnavailableError) as error:
        said, remedy = process.origin("backend")
        raise type(error)(f"{said}={name!r}: {error}; or {remedy}") from error.__cause__


def environment_choice() -> str:
    """The default without ``use_backend``.

    Raises:
        ConfigError, DeviceNotFoundError: As `environment_device`.
    """
    return _get_environment_backend() or _first_usable()


def _get_environment_backend() -> str | None:
    """The backend that a setting names, or whose kind of device it names; None where none does."""
    device = environment_device()  # checked even where it does not decide
    return process.get().backend or device.backend or HOMES.get(device.kind or "")


def environment_device(config: process.Config | None = None) -> DeviceParts:
    """The parts of ``XFERLIB_DEVICE``, which may say no more than which backend it is.

    Args:
        config: The settings; those in force if omitted.

    Raises:
        DeviceNotFoundError: It cannot be read, or names a backend that is not registered.
        ConfigError: It and ``XFERLIB_BACKEND`` name different backends.
    """
    global _checked
    config = process.get() if config is None else config
    if _checked[0] is not config:
        _checked = config, _check_device_setting(config)
    return _checked[1]


def _check_device_setting(config: process.Config) -> DeviceParts:
    spec = config.device
    if spec is None:
        return _NOWHERE
    said, remedy = process.origin("device")
    try:
        parts = parse(spec, said)
    except DeviceNotFoundError as error:
        raise DeviceNotFoundError(f"{error}; or {remedy}") from None
    name = parts.backend
    if name is not None and name not in names():
        raise DeviceNotFoundError(
            f"{said}={spec!r}: there is no backend {name!r}{did_you_mean(name, names())}; the registered ones are "
            f"{', '.join(names())}; {remedy}"
        )
    if name is not None and config.backend not in (None, name):
        raise ConfigError(
            f"{said}={spec!r} names backend {name!r}, but {process.origin('backend')[0]}={config.backend!r}; "
            f"make them agree, or {remedy}"
        )
    return parts


def _first_usable() -> str:
    global _automatic
    if _automatic is None:
        _automatic = next((name for name in ("cupy", "torch", "pycuda") if _runs_on_cuda(name)), "numpy")
    return _automatic


def _runs_on_cuda(name: str) -> bool:
    if not cuda_driver_present():  # importing torch costs a second: not where it cannot help
        return False
    try:
        return any(device.kind == "cuda" for device in get(name).devices())
    except BackendUnavailableError:
        return False


# The list of devices, the parser of specifications, and the current device.

_local = threading.local()
settle: Callable[[Device], None] | None = None
"""Waits until the transfers on a device are enqueued; `streams` sets it."""


def synchronize_device(device: Device) -> None:
    """Wait until all work on a device is done."""
    refuse_device("synchronize", device)
    if settle is not None:
        settle(device)
    part_of(device).device_synchronize(device)


def use_device(device: Device) -> None:
    """Make a device, and its backend, current from now on."""
    change = _Switch(device)
    if not blocks.alter(device.backend, (change,)):
        undo: list[blocks.Undo] = []
        try:
            change.make(undo)
        except BaseException:
            for each in reversed(undo):
                each()
            raise
        use_backend(device.backend)


def enter_device(device: Device) -> None:
    """Make a device, and its backend, current for a block."""
    if device.kind == "cpu":
        blocks.enter(device, None)
    else:
        blocks.enter(device, device.backend, (_Switch(device),))


device.directory = sys.modules[__name__]


class _Switch:
    """Makes a device current in its library, and in each other one that has it."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def make(self, undo: list[blocks.Undo]) -> None:
        device = self.device
        owner = get(device.backend)
        after = [(owner, device)]
        # Asked here, so that a later first look does not undo this with XFERLIB_DEVICE.
        undo.append(functools.partial(owner.device_use, current_device(owner)))
        for each in list_loaded():  # some share their current device, so all are asked before any is told
            here = current_device(each) if each is not owner and each.pinned_domain == owner.pinned_domain else None
            if here is not None and (there := _same(device, each, here)) is not None:
                undo.append(functools.partial(each.device_use, here))
                after.append((each, there))
        for backend, there in reversed(after):  # the library that was named comes last, where they share
            backend.device_use(there)


def _same(device: Device, backend: Backend, here: Device) -> Device | None:
    """The device as another library has it; None if that is current there, or the library is to stay elsewhere."""
    there = make_device(backend.name, device.kind, device.index)
    return there if here is not there and here.kind == device.kind and there in backend.devices() else None


def _join(backend: Backend) -> None:
    """Make a library that the thread meets within blocks of devices as if it had met it before them."""
    for made in blocks.list_thread_blocks():
        for change in made.block.changes:
            if isinstance(change, _Switch) and get(change.device.backend).pinned_domain == backend.pinned_domain:
                here = backend.device_current()
                if (there := _same(change.device, backend, here)) is not None:
                    made.undo.append(functools.partial(backend.device_use, here))
                    backend.device_use(there)


def resolve(spec: DeviceSpec, *, backend: Backend | None = None, default: Backend | None = None) -> Device:
    """A device that exists, from any specification.

    Args:
        spec: As for `Device`.
        backend: The backend that the call has settled on, if it has.
        default: The backend of a specification that names none; the default one if omitted.

    Raises:
        DeviceNotFoundError: It cannot be read or does not exist, or is of another backend.
    """
    if spec is None:
        return current_device(backend or default or default_backend())
    blocks.follow()
    name: str | None
    kind: str | None
    index: int | None
    if isinstance(spec, Device):
        if (backend is None or backend.name == spec.backend) and backend_of(spec) is not None:
            return spec
        name, kind, index = spec.backend, spec.kind, spec.index
    elif type(spec) is not str and (native := _from_native(spec)) is not None:
        return _of_native(*native, spec, backend)
    elif isinstance(spec, str):
        name, kind, index = parse(spec, "device")
    elif type(spec) is int:
        name, kind, index = None, None, spec
        if index < 0:
            raise DeviceNotFoundError(
                f"device={quote(index)} is not a device: their numbers begin at 0; give None for the current one"
            )
    else:
        raise DeviceNotFoundError(
            f"device={quote(spec)} is {type(spec).__name__}, not a device; give 'cuda:0', 'cpu', a Python int "
            "(int(x) of a NumPy integer) or None; xferlib.device_of(x) gives the device of an array"
        )
    if name is not None and backend is not None and name != backend.name:
        raise _other_backend(spec, name, backend)
    owner = backend if backend is not None else _owner(name, kind, default)
    return _find_device(owner, kind, index, spec)


def _from_native(native: Any) -> tuple[str, str, int | None] | None:
    """Backend, kind and index of a library's own device object; None for any other object.

    The library is not imported: the object's class says where it is from. The index is None for torch's ``"cuda"``,
    which is the current device.
    """
    cls = type(native)
    library = cls.__module__.partition(".")[0]
    if library == "torch" and cls.__name__ == "device":
        return "torch", native.type, native.index if native.type != "cpu" else 0
    if library == "cupy" and cls.__name__ == "Device":
        return "cupy", "cuda", int(native.id)
    return None


def _of_native(name: str, kind: str, index: int | None, spec: Any, backend: Backend | None) -> Device:
    """The device that a library's own device object means."""
    if backend is not None and backend.name != name:
        raise _other_backend(spec, name, backend)
    owner = get(name)
    if index is None:
        index = next((each.index for each in [current_device(owner)] if each.kind == kind), 0)
    return _find_device(owner, kind, index, spec)


def _other_backend(spec: Any, name: str, backend: Backend) -> DeviceNotFoundError:
    return DeviceNotFoundError(
        f"device={text(spec)!r} belongs to backend {name!r}, but this call uses {backend.name!r}; "
        f"leave one of the two out"
    )


def text(spec: Any) -> str:
    """A specification that has been read, for a message."""
    return quote(spec) if type(spec) is int else str(spec)


def backend_of(device: Device) -> Backend | None:
    """The backend's part that serves a device; None where that does not exist."""
    owner = get(device.backend)
    return owner.at(device) if device in owner.devices() else None


def _owner(name: str | None, kind: str | None, default: Backend | None) -> Backend:
    if name is not None:
        return get(name)
    owner = default if default is not None else default_backend()
    if kind not in HOMES or any(device.kind == kind for device in owner.devices()):
        return owner
    return get(HOMES[kind])


def _find_device(backend: Backend, kind: str | None, index: int | None, spec: Any, setting: str = "device") -> Device:
    """The device of a backend that a specification means, which ``setting`` names in messages."""
    if index is None:
        return current_device(backend)
    devices = backend.devices()
    kind = devices[0].kind if kind is None else kind
    for each in devices:  # as it is called by name in each transfer: a generator takes twice as long
        if each.index == index and each.kind == kind:
            return each
    names = ", ".join(map(str, devices))
    raise DeviceNotFoundError(
        f"{setting}={text(spec)!r} does not exist: {backend.name} sees {names}; `xferlib info --load` lists all"
    )


def current_device(backend: Backend) -> Device:
    """The backend's current device for this thread and task; the setting's at the thread's first look behind it."""
    blocks.follow()
    mine = _local
    try:
        is_seen = backend.name in mine.seen
    except AttributeError:
        mine.seen = set()
        is_seen = False
    if not is_seen:
        _apply_default(backend)
        mine.seen.add(backend.name)
        _join(backend)
        if backend.asks_each_thread:
            backend.hand_out()
    return backend.device_current()


def _look_again() -> None:
    """Let each thread make the setting's device current, which the program has just changed."""
    global _local
    _local = threading.local()


process.watchers["device"] = _look_again


def _apply_default(backend: Backend) -> None:
    """Make the environment's device current, if it is one of this backend's.

    NumPy is the host side of every backend, and the CPU and the simulated devices belong to some only: where such a
    device is not the program's default, the setting is meant for another backend.
    """
    spec = process.get().device
    if spec is None:
        return
    name, kind, index = environment_device()
    if index is None or name not in (None, backend.name):
        return
    is_elsewhere = kind in HOMES and all(each.kind != kind for each in backend.devices())
    if (backend.name == "numpy" or is_elsewhere) and environment_choice() != backend.name:
        return
    said, remedy = process.origin("device")
    try:
        device = _find_device(backend, kind, index, spec, said)
    except DeviceNotFoundError as error:
        raise DeviceNotFoundError(f"{error}; or {remedy}") from None
    backend.device_use(device)


def device_of(x: Any) -> Device:
    """The device that holds an array.

    Raises:
        UnsupportedArrayError: ``x`` is not an array of any backend.
    """
    backend = owner_of(x)
    if backend is None:
        remedy = find_array_remedy(x, "xferlib.get_device(spec) takes specifications")
        raise UnsupportedArrayError(f"device_of: {type(x).__name__} is not an array of any backend; {remedy}")
    return backend.device_of(x)


def for_array(spec: Any, array: Any) -> Device:
    """`get_device`, of the array's own backend where the specification names none; NumPy's is the default one."""
    if isinstance(spec, (str, int)) or spec is None:
        owner = owner_of(array)
        return resolve(spec, default=None if owner is None or owner.name == "numpy" else owner)
    return get_device(spec)


def get_device(spec: Any = None) -> Device:
    """A device from a specification or an array; None is the current device.

    ``with get_device(x): y = x + 1`` works for arrays of every backend: a CPU device is a no-op. A NumPy integer is
    neither: it is refused, as by `Device`.
    """
    if isinstance(spec, (str, int, Device, np.generic)) or owner_of(spec) is None:
        return resolve(spec)
    return device_of(spec)


# Arrays of one call: the backend that they share, and the errors where they share none, or no device.

SCALARS = (bool, int, float, complex, type(None))


def common_backend(arrays: tuple[Any, ...], *, call: str) -> Backend | None:
    """The one backend of all arrays among ``arrays``; None if there is none. Python scalars and None mix.

    NumPy's scalars mix with arrays of every backend, and are NumPy's where there is no array.

    Raises:
        MixedBackendsError: Arrays of two backends.
        UnsupportedArrayError: As `check_backend`.
    """
    found: Backend | None = None
    of_scalars: Backend | None = None
    first = 0
    for index, array in enumerate(arrays):
        backend = check_backend(array, index, call=call)
        if backend is None:
            continue
        if isinstance(array, np.generic):
            of_scalars = backend
            continue
        if found is None:
            found, first = backend, index
        elif backend is not found:
            raise make_mixed_backends_error(call, (f"argument {first}", found), (f"argument {index}", backend))
    return of_scalars if found is None else found


def check_backend(array: Any, index: int, *, call: str) -> Backend | None:
    """The backend of an argument; None for Python scalars and None.

    Raises:
        UnsupportedArrayError: It is neither an array of a backend nor a scalar.
    """
    backend = owner_of(array)
    if backend is None and not isinstance(array, SCALARS):
        raise make_unsupported_error(call, f"argument {index}", array)
    return backend


def find_array_remedy(value: Any, otherwise: str = "pass it through xferlib.to_device() first") -> str:
    """The remedy where an array is needed: the way to that of a handle (`ArrayUse`), or ``otherwise``."""
    remedy: str = getattr(type(value), "array_remedy", otherwise)
    return remedy


def make_unsupported_error(call: str, what: str, array: Any) -> UnsupportedArrayError:
    """The error for an object that is an array of no backend."""
    name = type(array).__name__
    remedy = find_array_remedy(array)
    if isinstance(array, str):
        remedy = "give an array; a backend is chosen by name with xferlib.use_backend(name)"
    if hasattr(type(array), "__array_namespace__"):
        name = f"{type(array).__module__}.{name}"
        remedy += ", or compute with the functions of x.__array_namespace__()"
    return UnsupportedArrayError(f"{call}: {what} is {name}, not an array of any backend; {remedy}")


def make_mixed_backends_error(call: str, one: tuple[str, Backend], two: tuple[str, Backend]) -> MixedBackendsError:
    """The error for arrays of two backends, naming both and the call that remedies it."""
    (what_one, first), (what_two, second) = one, two
    return MixedBackendsError(
        f"{call}: {what_one} is a {first.name} array and {what_two} a {second.name} array; "
        f"move one of them first: xferlib.to_device(x, backend={first.name!r}) or xferlib.to_host(x); "
        "xferlib.common(x, y) moves what is elsewhere"
    )


def check_device(arrays: tuple[Any, ...], backend: Backend, *, call: str) -> None:
    """Refuse arrays of two devices of one backend.

    Raises:
        MixedDevicesError: There are two.
    """
    first = backend.device_of(arrays[0])
    for index, array in enumerate(arrays):
        if (device := backend.device_of(array)) is not first:
            raise make_mixed_devices_error(call, ("argument 0", first), (f"argument {index}", device))


def make_mixed_devices_error(call: str, one: tuple[str, Device], two: tuple[str, Device]) -> MixedDevicesError:
    """The error for arrays of two devices, naming both and the call that remedies it."""
    (what_one, first), (what_two, second) = one, two
    # Where nothing said so, an array is on the current device: that one is likely to be there by mistake.
    is_forgotten = current_device(part_of(first)) is first
    remedy = checks.remedy_calls.unite(str(second if is_forgotten else first))
    return MixedDevicesError(f"{call}: {what_one} is on {first} and {what_two} on {second}; {remedy}")
