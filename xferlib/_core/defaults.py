"""The backend of a call that names none: ``use_backend``, the environment, the first that can run."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from xferlib._core import blocks
from xferlib._core.device import DeviceParts, parse
from xferlib._runtime import circumstances
from xferlib._runtime import config as _config
from xferlib._runtime.fork import reset_in_child
from xferlib.errors import (
    BackendNotFoundError,
    BackendUnavailableError,
    ConfigError,
    DeviceNotFoundError,
    did_you_mean,
)

if TYPE_CHECKING:
    from xferlib._core.backend import Backend

from xferlib._core.registry import cuda_driver_present, get, names

HOMES = {"cpu": "numpy", "sim": "sim"}
"""The backends to ask for a kind of device that the default backend has none of."""

_lock = threading.Lock()
_automatic: str | None = None
_NOWHERE = DeviceParts(None, None, None)
_checked: tuple[_config.Config | None, DeviceParts] = (None, _NOWHERE)
"""The settings that `environment_device` was last asked of, and its answer."""


class use_backend(blocks.Enterable):  # noqa: N801 - reads as a verb: `use_backend("torch")`, `with use_backend("torch"):`
    """Choose the default backend: a plain call for the process, ``with`` for the block.

    Inside ``with`` the choice holds for this thread and its asynchronous tasks only.

    Args:
        name: A registered backend.

    Raises:
        BackendNotFoundError: Nothing is registered under ``name``.
        BackendUnavailableError: It cannot run here.
        BlockError: The block is left twice, by another task, or before one within it.
    """

    __slots__ = ("_around", "_before", "_is_scope", "_thread", "name")

    def __init__(self, name: str) -> None:
        global _process_choice
        self.name = get(name).name
        self._is_scope = False
        self._thread = threading.get_ident()
        self._before: use_backend | None = None
        around = blocks.here()
        self._around: blocks.Blocks | None = None
        if around and blocks.alter(self.name, is_chosen=True):  # inside a block: the call holds until the block ends
            self._around = around
            return
        with _lock:
            before = _process_choice
            if before is not None and before._thread == self._thread:
                before._before = None  # a plain call that stayed one: nothing can undo it any more
            self._before = before
            _process_choice = self
        circumstances.changed()

    def __enter__(self) -> Backend:
        global _process_choice
        around, self._around = self._around, None
        if around is not None:  # the call was no plain one
            blocks.restore(around)
        elif not self._is_scope:
            with _lock:
                self._is_scope = True
                while _process_choice is not None and _process_choice._is_scope:
                    _process_choice = _process_choice._before
            circumstances.changed()
        blocks.enter(self, self.name)
        return get(self.name)

    def __repr__(self) -> str:
        return f"<use_backend {self.name!r}>"


_process_choice: use_backend | None = None


def default_backend() -> Backend:
    """The innermost ``use_backend``, then ``XFERLIB_BACKEND``, then the first usable one.

    Raises:
        BackendNotFoundError, BackendUnavailableError: The backend asked for by name does not exist or is unavailable.
    """
    name = blocks.scope()
    if name is None:
        choice = _process_choice
        name = choice.name if choice is not None else environment_choice()
        if choice is None and name == _config.get().backend:
            return _chosen_by_environment(name)
    return get(name)


def chosen() -> str | None:
    """The name of the backend that the program has chosen by `use_backend` or a device; None if it has not."""
    choice = _process_choice
    name = blocks.scope()
    return name if name is not None or choice is None else choice.name


def is_unnamed(name: str) -> bool:
    """Whether a backend is the default one although no line of the program has named it; looks for none."""
    if chosen() is not None or _config.is_by_program("backend") or _config.is_by_program("device"):
        return False
    return name == (_named_by_environment() or _automatic)


def described() -> str:
    """The default backend in words, without loading one to find out.

    Raises:
        BackendNotFoundError: ``XFERLIB_BACKEND`` names one that does not exist.
    """
    name = _named_by_environment()
    if name is not None:
        return name if name in names() else _chosen_by_environment(name).name
    if not cuda_driver_present():
        return "numpy"
    return "the first of cupy, torch and pycuda that runs on a CUDA device; else numpy"


def _chosen_by_environment(name: str) -> Backend:
    try:
        return get(name)
    except (BackendNotFoundError, BackendUnavailableError) as error:
        said, remedy = _config.origin("backend")
        raise type(error)(f"{said}={name!r}: {error}; or {remedy}") from error.__cause__


def environment_choice() -> str:
    """The default without ``use_backend``.

    Raises:
        ConfigError, DeviceNotFoundError: As `environment_device`.
    """
    return _named_by_environment() or _first_usable()


def _named_by_environment() -> str | None:
    """The backend that a setting names, or whose kind of device it names; None where none does."""
    device = environment_device()  # checked even where it does not decide
    return _config.get().backend or device.backend or HOMES.get(device.kind or "")


def environment_device(config: _config.Config | None = None) -> DeviceParts:
    """The parts of ``XFERLIB_DEVICE``, which may say no more than which backend it is.

    Args:
        config: The settings; those in force if omitted.

    Raises:
        DeviceNotFoundError: It cannot be read, or names a backend that is not registered.
        ConfigError: It and ``XFERLIB_BACKEND`` name different backends.
    """
    global _checked
    config = _config.get() if config is None else config
    if _checked[0] is not config:
        _checked = config, _checked_device(config)
    return _checked[1]


def _checked_device(config: _config.Config) -> DeviceParts:
    spec = config.device
    if spec is None:
        return _NOWHERE
    said, remedy = _config.origin("device")
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
            f"{said}={spec!r} names backend {name!r}, but {_config.origin('backend')[0]}={config.backend!r}; "
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


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.Lock()


reset_in_child(_after_fork_in_child)
