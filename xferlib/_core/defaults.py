"""The backend of a call that names none: ``use_backend``, the environment, the first that can run."""

from __future__ import annotations

import threading
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING

from xferlib._runtime import circumstances
from xferlib._runtime import config as _config
from xferlib._runtime.fork import reset_in_child
from xferlib.errors import BackendNotFoundError, BackendUnavailableError, ConfigError

if TYPE_CHECKING:
    from xferlib._core.backend import Backend

from xferlib._core.registry import cuda_driver_present, get, names

_lock = threading.Lock()
_automatic: str | None = None


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
        circumstances.changed()

    def __enter__(self) -> Backend:
        global _process_choice
        if self._tokens and not self._is_scope:
            self._is_scope = True
            return get(self.name)
        with _lock:
            self._is_scope = True
            while _process_choice is not None and _process_choice._is_scope:
                _process_choice = _process_choice._before
        circumstances.changed()
        self._tokens.append(_scope.set(self.name))
        _note_scope()
        return get(self.name)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _scope.reset(self._tokens.pop())

    def __repr__(self) -> str:
        return f"<use_backend {self.name!r}>"


_scope: ContextVar[str | None] = ContextVar("xferlib_backend", default=None)
scope = _scope.get
"""Returns the default backend of this context; None outside any block."""
_process_choice: use_backend | None = None


def default_backend() -> Backend:
    """The innermost ``use_backend``, then ``XFERLIB_BACKEND``, then the first usable one.

    Raises:
        BackendNotFoundError, BackendUnavailableError: The backend asked for by name does not exist or is unavailable.
    """
    name = _scope.get()
    if name is None:
        choice = _process_choice
        name = choice.name if choice is not None else environment_choice()
        if choice is None and name == _config.get().backend:
            return _chosen_by_environment(name)
    return get(name)


def chosen() -> str | None:
    """The name of the backend that the program has chosen by `use_backend` or a device; None if it has not."""
    choice = _process_choice
    name = _scope.get()
    return name if name is not None or choice is None else choice.name


def described() -> str:
    """The default backend in words, without loading one to find out.

    Raises:
        BackendNotFoundError: ``XFERLIB_BACKEND`` names one that does not exist.
    """
    name = _config.get().backend or _from_device()
    if name is not None:
        return name if name in names() else _chosen_by_environment(name).name
    if not cuda_driver_present():
        return "numpy"
    return "the first of cupy, torch and pycuda that runs on a CUDA device; else numpy"


def _chosen_by_environment(name: str) -> Backend:
    try:
        return get(name)
    except (BackendNotFoundError, BackendUnavailableError) as error:
        raise type(error)(f"XFERLIB_BACKEND={name!r}: {error}; or unset XFERLIB_BACKEND") from error.__cause__


def environment_choice() -> str:
    """The default without ``use_backend``."""
    return _config.get().backend or _from_device() or _first_usable()


def _note_scope() -> None:
    if not circumstances.scopes:
        circumstances.scopes.append(None)


def set_scope(name: str | None) -> None:
    """Make ``name`` the default backend of this context from now on."""
    _scope.set(name)
    _note_scope()


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
    if not cuda_driver_present():  # importing torch costs a second: not where it cannot help
        return False
    try:
        return any(device.kind == "cuda" for device in get(name).devices())
    except BackendUnavailableError:
        return False


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


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.Lock()


reset_in_child(_after_fork_in_child)
