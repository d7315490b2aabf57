"""Configuration: defaults < ``XFERLIB_*`` < ``configure()``; scopes of a backend or device live with them.

The environment is read once, at the first look-up, and validated as a whole: a value that xferlib
cannot use is an error that names the variable, never a silent default.
"""

from __future__ import annotations

import atexit
import ctypes
import itertools
import os
import re
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from types import FrameType
from typing import Any, TypeVar

from xferlib._runtime import checks
from xferlib.errors import ConfigError, XferError, did_you_mean, nearest, quote

# Generation counter, bumped whenever something that a cached fast path relies on changes.
#
# A short cut may keep what it has found out (no recording is open, no path is forced, this is the default device) for
# as long as the number stays. It stands in one place so that C looks at it in a nanosecond. `bump_epoch` follows the
# change.

fast_path_epoch = [1]
"""The current number; never one that was there before."""
scopes: list[None] = []
"""Not empty once a block has been entered: from then on asynchronous tasks may have their own backend and stream."""

_numbers = itertools.count(2)


def bump_epoch() -> None:
    """Void the findings of short cuts."""
    fast_path_epoch[0] = next(_numbers)


_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:I?B)?", re.IGNORECASE)
_PREFIX = "XFERLIB_"
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse_nbytes(text: str) -> int:
    """Bytes from ``"256MiB"``, ``"1g"`` or ``"4096"``; the units are powers of 1024."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError("expected a size such as 256MiB, 1GiB or 4096")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def _parse_count(most: int, what: str) -> Callable[[str], int]:
    """Parses whole numbers from 1 to ``most``."""

    def parse(text: str) -> int:
        count = int(text) if text.strip().isdecimal() else 0
        if not 1 <= count <= most:
            raise ValueError(f"expected a whole number of {what} from 1 to {most}")
        return count

    return parse


def _parse_seed(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("expected a whole number") from None


def _parse_name(text: str) -> str:
    if not text.isidentifier():
        raise ValueError("expected the name of a backend, such as cupy")
    return text


def _parse_strict(text: str) -> frozenset[str]:
    words = frozenset(word.strip() for word in text.split(",") if word.strip())
    if not words <= {"pageable"}:
        raise ValueError("expected 'pageable'")
    return words


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(f"expected one of {', '.join(words)}{did_you_mean(text, words)}")
        return text

    return parse


def _parse_arch(text: str) -> str:
    if not re.fullmatch(r"compute_\d{2,3}", text):
        raise ValueError("expected a target of NVRTC, such as compute_90")
    return text


def _variable(name: str, parse: Callable[[str], Any], default: Any, doc: str) -> Any:
    return field(default=default, metadata={"variable": name, "parse": parse, "doc": doc})


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Every setting, with its environment variable; `xferlib info` prints them."""

    backend: str | None = _variable(
        "XFERLIB_BACKEND", _parse_name, None,
        "Default backend. Unset: the first usable of cupy, torch with CUDA, pycuda, numpy.",
    )  # fmt: skip
    device: str | None = _variable(
        "XFERLIB_DEVICE", str, None,
        "Default device: 'cpu', 'cuda:1', '1', 'torch:cuda:1' or a backend alone. Unset: the library's current device.",
    )  # fmt: skip
    pinned_limit: int = _variable(
        "XFERLIB_PINNED_LIMIT", parse_nbytes, 0,
        "Most page-locked bytes that the pinned pool may hold, in use and free; 0: no limit.",
    )  # fmt: skip
    host_cache: int = _variable(
        "XFERLIB_HOST_CACHE", parse_nbytes, 4 << 30,
        "Most bytes of released results of to_host kept for reuse in a loop; the kernel may reclaim them at any time.",
    )  # fmt: skip
    threads: int | None = _variable(
        "XFERLIB_THREADS", _parse_count(256, "threads"), None,
        "Threads that stage a copy or run a CPU kernel. Unset: from the cores that this process may use, at most 10 to "
        "stage, or all of them into memory that was never touched.",
    )  # fmt: skip
    cpu: str = _variable(
        "XFERLIB_CPU", _one_of("auto", "native", "numpy"), "auto",
        "How kernels run on a CPU. 'auto': by NumPy, until a C compiler that is there has compiled them in the "
        "background; 'native': compiled before their first call, an error without a compiler; 'numpy': by NumPy.",
    )  # fmt: skip
    loop_turns: int = _variable(
        "XFERLIB_LOOP_TURNS", _parse_count(1 << 40, "turns"), 1 << 20,
        "Most turns of a loop in a kernel on a CPU, where the data decide when the loop ends; more are an error. "
        "The loops of a thread of CUDA source that is checked count together, up to 64 times as many in a small block. "
        "A GPU does not count them.",
    )  # fmt: skip
    kernel_check: str = _variable(
        "XFERLIB_KERNEL_CHECK", _one_of("auto", "1", "0"), "auto",
        "'1': CUDA source on a CPU runs with every access checked; '0': unchecked; 'auto': checked on sim alone.",
    )  # fmt: skip
    kernel_schedule: str = _variable(
        "XFERLIB_KERNEL_SCHEDULE", _one_of("auto", "in-order", "reversed", "random"), "auto",
        "The order of threads and blocks of CUDA source on a CPU. 'auto': in order, or on sim as XFERLIB_SIM_SCHEDULE: "
        "reversed for 'lifo', 'random' by XFERLIB_SIM_SEED.",
    )  # fmt: skip
    kernel_arch: str = _variable(
        "XFERLIB_KERNEL_ARCH", _parse_arch, "compute_90",
        "The target of NVRTC for CUDA source on a CPU, of modules that are loaded afterwards: the bits of some results "
        "follow it, and what __CUDA_ARCH__ is. An older one is used where this has instructions that no CPU runs.",
    )  # fmt: skip
    kernel_overflow: str = _variable(
        "XFERLIB_KERNEL_OVERFLOW", _one_of("1", "0"), "0",
        "'1': where CUDA source is checked, an index that is computed in 32 bits and does not fit is an error.",
    )  # fmt: skip
    native: str = _variable(
        "XFERLIB_NATIVE", _one_of("on", "off"), "on",
        "Stage and call the driver through the parts in C where they have been compiled, or all in Python.",
    )  # fmt: skip
    strict: frozenset[str] = _variable(
        "XFERLIB_STRICT", _parse_strict, frozenset(),
        "'pageable': a transfer that would pass through pageable memory is an error.",
    )  # fmt: skip
    torch_float: str = _variable(
        "XFERLIB_TORCH_FLOAT", _one_of("float64", "torch"), "float64",
        "Floats that the namespace of tensors makes where no dtype is given: float64 as NumPy, or torch's own default.",
    )  # fmt: skip
    torch_operators: str | None = _variable(
        "XFERLIB_TORCH_OPERATORS", _one_of("numpy", "torch", "warn"), None,
        "'numpy': tensors have NumPy's operators and indexing in each thread that uses xferlib; 'torch': their own; "
        "'warn': their own, and a warning for each line of the program where NumPy's result has another dtype. Unset: "
        "'warn' where torch is the default backend and no line of the program names it, else 'torch'.",
    )  # fmt: skip
    sim: str = _variable(
        "XFERLIB_SIM", _one_of("raise", "log", "off"), "raise",
        "What backend sim does about a missing synchronisation: raise, write to the log 'xferlib.sim', or nothing.",
    )  # fmt: skip
    sim_implicit: str | None = _variable(
        "XFERLIB_SIM_IMPLICIT", _one_of("raise", "log", "allow"), None,
        "What backend sim does where a program copies to the host without a call that says so: raise, count by line "
        "and show a table at the end, or let it pass. Unset: float(x) and its like raise, x[mask] passes.",
    )  # fmt: skip
    sim_strict: str = _variable(
        "XFERLIB_SIM_STRICT", _one_of("auto", "1", "0"), "auto",
        "'1': arrays of backend sim refuse what is not the same on all backends, and say what is; '0': they have "
        "NumPy's methods and operators; 'auto': '1' in tests by a fixture of the plug-in for pytest, '0' elsewhere.",
    )  # fmt: skip
    sim_devices: int = _variable(
        "XFERLIB_SIM_DEVICES", _parse_count(64, "devices"), 2, "How many devices backend sim has.",
    )  # fmt: skip
    sim_memory: int = _variable(
        "XFERLIB_SIM_MEMORY", parse_nbytes, 8 << 30, "Memory of each device of backend sim.",
    )  # fmt: skip
    sim_schedule: str = _variable(
        "XFERLIB_SIM_SCHEDULE", _one_of("eager", "lazy", "lifo", "random"), "lazy",
        "The order in which backend sim carries out what is enqueued, among those that the program allows.",
    )  # fmt: skip
    sim_seed: int = _variable(
        "XFERLIB_SIM_SEED", _parse_seed, 0, "Repeats a random schedule of backend sim; a failing test prints its seed.",
    )  # fmt: skip
    sim_profile: str = _variable(
        "XFERLIB_SIM_PROFILE", _one_of("h200", "laptop"), "h200", "The machine whose times backend sim computes.",
    )  # fmt: skip
    cache_dir: str = _variable(
        "XFERLIB_CACHE_DIR", str, "~/.cache/xferlib",
        "Compiled kernels and the machine's calibration.",
    )  # fmt: skip


SETTINGS: dict[str, Field[Any]] = {each.name: each for each in fields(Config)}
"""By name."""


def _read(environ: Mapping[str, str]) -> Config:
    for name, meant in misspelt(environ).items():
        raise ConfigError(
            f"{name} is not a variable that xferlib reads (did you mean {meant}?); rename or unset {name}"
        )
    return Config(**{name: from_environment(setting, environ) for name, setting in SETTINGS.items()})


def from_environment(setting: Field[Any], environ: Mapping[str, str]) -> Any:
    """The value of one setting by its variable, its default where that is not set.

    Raises:
        ConfigError: The variable has a value that the setting cannot have.
    """
    variable = setting.metadata["variable"]
    text = environ.get(variable, "").strip()
    if not text:
        return setting.default
    try:
        return setting.metadata["parse"](text)
    except (ValueError, OverflowError) as error:
        raise ConfigError(f"{variable}={text!r}: {error}; mend it or unset {variable}") from None


def misspelt(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that nothing reads and that are nearly one that is read: how each was meant."""
    return _guess_variables({name: name.removeprefix(_PREFIX) for name in environ if name.startswith(_PREFIX)})


def elsewhere(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables whose beginning is nearly right, such as ``XFER_BACKEND`` and ``xferlib_backend``: how each was meant.

    They may be another program's, and so are no error. Where the variable meant is set too, they are surely that.
    """
    endings = {}
    for name in environ:
        beginning, _, ending = name.upper().partition("_")
        # The first two letters are compared alone: most environments then import nothing here.
        if beginning[:2] == "XF" and not name.startswith(_PREFIX) and nearest(beginning, ["XFERLIB"]) is not None:
            endings[name] = ending
    return {name: meant for name, meant in _guess_variables(endings).items() if meant not in environ}


def _guess_variables(endings: Mapping[str, str]) -> dict[str, str]:
    """The variable that each name probably stands for, by the endings: what all have in common is no likeness."""
    variables = [setting.metadata["variable"] for setting in SETTINGS.values()]
    known = {variable: variable.removeprefix(_PREFIX) for variable in variables}
    found = {name: nearest(ending, known.values()) for name, ending in endings.items() if name not in known}
    return {name: f"{_PREFIX}{near}" for name, near in found.items() if near is not None}


def _warn_of_elsewhere(environ: Mapping[str, str]) -> None:
    for name, meant in elsewhere(environ).items():
        checks.warn(
            f"{name} is not a variable that xferlib reads (did you mean {meant}?); rename or unset {name}, or set "
            f"{meant}"
        )


_lock = threading.RLock()
_config: Config | None = None
_environment: Config | None = None
"""The configuration as the environment gave it."""


def get() -> Config:
    """The configuration in force."""
    config = _config
    return config if config is not None else _load()


def _load() -> Config:
    global _config, _environment
    with _lock:
        if _config is not None:
            return _config
        loaded = _config = _environment = _read(os.environ)
        bump_epoch()
    _warn_of_elsewhere(os.environ)
    return loaded


watchers: dict[str, Callable[[], None]] = {}
"""Called after `configure` has given a setting of that name another value."""


def is_by_program(name: str) -> bool:
    """Whether `configure` has given a setting its value, and not the environment."""
    return bool(getattr(_config, name, None) != getattr(_environment, name, None))


def origin(name: str) -> tuple[str, str]:
    """A setting's name for messages, and the remedy: its variable's, or those of `configure` if that came later."""
    setting = SETTINGS[name]
    if not is_by_program(name):
        variable = setting.metadata["variable"]
        return variable, f"mend or unset {variable}"
    default = "" if setting.default == frozenset() else setting.default
    return f"xferlib.configure: {name}", f"give xferlib.configure another {name}, or {name}={default!r}"


def configure(**settings: Any) -> Config:
    """Change settings for the process, over the environment; returns the configuration before.

    Args:
        **settings: Fields of `Config` by name, as values or as the environment spells them:
            ``configure(threads=4, pinned_limit="1GiB")``.

    Raises:
        ConfigError: No such setting, or a value that it cannot have; nothing has changed.
    """
    global _config
    before = get()
    if unknown := sorted(set(settings) - set(SETTINGS)):
        near = did_you_mean(unknown[0], SETTINGS)
        raise ConfigError(f"{unknown[0]!r} is not a setting{near}; the settings are {', '.join(sorted(SETTINGS))}")
    checked = {name: _check_value(SETTINGS[name], value) for name, value in settings.items()}
    with _lock:
        _config = replace(before, **checked)
        bump_epoch()
    for name, value in checked.items():
        if name in watchers and value != getattr(before, name):
            watchers[name]()
    return before


def _check_value(setting: Field[Any], value: Any) -> Any:
    """Check a value by the rules of the variable, and return the default or the parsed text."""
    kinds = (type(None), str, bool, int, float, frozenset)
    is_path = (type(value) is str and value) or isinstance(value, os.PathLike)
    text_of = checks.path(value) if is_path else None  # None of what no variable of the environment can hold
    if text_of is None if is_path else type(value) not in kinds:
        raise ConfigError(
            f"configure({setting.name}={quote(value)}): a setting is text, a number or None; give what the variable "
            "takes"
        )
    if not is_path and value == setting.default:
        return value
    text = ",".join(sorted(map(str, value))) if isinstance(value, frozenset) else text_of or str(value)
    try:
        return setting.metadata["parse"](text)
    except (ValueError, OverflowError) as error:
        raise ConfigError(f"configure({setting.name}={quote(value)}): {error}") from None


# A fork while other threads of the library run: what must be whole, and the steps that a child takes first.

fork_lock = threading.RLock()
"""Held where a thread imports, or has a lock or a pipe of another module open: a fork waits for its end.

The child would find half of a module or a lock that no thread opens, or keep a pipe open that is read to its end."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=fork_lock.acquire, after_in_parent=fork_lock.release, after_in_child=fork_lock.release)


def reset_in_child(step: Callable[[], object]) -> None:
    """Call ``step`` in each forked child before anything else: locks and tables are the parent's, its threads gone."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=step)


# Objects that must not be destroyed before the process is gone.
#
# A forked child inherits the parent's streams and memory, and the driver, which did not survive the fork, would crash
# where it is asked to destroy them. At the end of an interpreter a library may free memory that another stream has
# used: it asks that stream, which must still be there.


def keep(thing: object, _increase: Any = ctypes.pythonapi.Py_IncRef, _object: Any = ctypes.py_object) -> None:
    """Keep an object for as long as this process lives; may be called while the interpreter ends."""
    _increase(_object(thing))


# The end of the interpreter, while daemon threads use the library.
#
# The obvious way is to do nothing: daemon threads end with the process. But after the exit handlers the main thread
# holds the GIL, and a daemon thread that wants it is ended by ``pthread_exit`` (until Python 3.13). That unwinds its
# C++ frames, and the process aborts if one of them is ``noexcept``, as where torch takes the GIL back; or it destroys
# the objects that the thread owns, and PyCUDA aborts if a context is among them. Joining the threads does not help
# either: a user's daemon thread need never end. So before that, in an exit handler:
#
# 1. `finish` closes the seam: a daemon thread that then enters a backend parks, for ever and without the GIL, if it
#    holds no lock. The backends' class is exchanged for that, so that an operation pays nothing before the end.
# 2. `finish` runs the registered steps: the library's own threads end, and threads that wait for them are woken. A
#    thread that fails with an error of the library's parks.
# 3. `await_threads`, called by one of these steps, waits for threads inside the library or about to enter it, for a
#    bounded time.
#
# Left are threads in the user's own code, and those for which that time was too short: `_native/calls/ending.c` stops
# one where it would abort the process, as every daemon thread stops from Python 3.14 on. Where it is not compiled, such
# a thread aborts the process, as it does without this library.
#
# No lock protects the state here. `_finisher` is set once, and each thread compares itself with it. `_forever` is
# locked at import and never released: threads park by acquiring it. The tables are filled when modules are imported,
# and read by the finisher alone.

T = TypeVar("T")

_INSIDE_S = 2.0
"""The longest wait for threads inside the library."""
_OUTSIDE_S = 0.1
"""The longest wait for threads that run elsewhere, and may enter the library."""
_LOOK_S = 0.0005

_PACKAGE = __package__.partition(".")[0]
_OWN = f"{_PACKAGE}._runtime.threads"
"""The module of the library's own threads' first function: those threads end by themselves."""
_LOCKING = {
    f"{_PACKAGE}.{name}"
    for name in (
        "_core.observe", "_core.registry", "_memory.buffers", "_memory.lifetimes", "_memory.pinned",
        "_pipeline.batches", "_pipeline.chunks", "_pipeline.feeds", "_pipeline.prefetch", "_runtime.threads",
        "_trace.recorder", "_trace.trace", "_transfer.plan", "_transfer.staging",
    )
}  # fmt: skip
"""Modules that call a backend with a lock held, or within a step that other threads wait for: no thread parks there."""
_BELOW = (f"{_PACKAGE}.backends.", f"{_PACKAGE}.sim.", f"{_PACKAGE}._native")
"""The backends, which use themselves: such a use is no entry into the library."""

_seams: list[Callable[[], Iterable[Any]]] = []
_firsts: list[Callable[[], None]] = []
_steps: list[Callable[[], None]] = []
_forever = threading.Lock()
_forever.acquire()
keep(_forever)  # a lock that dies is released
_parked: set[int] = set()
_finisher: int | None = None
"""The thread that ends the interpreter; None before the end."""


def register(step: Callable[[], None]) -> Callable[[], None]:
    """Call a function at the end, those registered last first, when the seam is closed."""
    _steps.append(step)
    return step


def close_at_end(backends: Callable[[], Iterable[Any]]) -> None:
    """Close the seam at the end: every use of the objects that ``backends`` returns then calls `_knock` first."""
    _seams.append(backends)


def call_first(step: Callable[[], None]) -> None:
    """Call a function at the end, before anything else, if there are other threads than the main one."""
    _firsts.append(step)


def list_living(table: weakref.WeakValueDictionary[int, T]) -> list[T]:
    """Return the objects of a table that other threads may add to; a `WeakSet` could not be read meanwhile."""
    return [each for each in (reference() for reference in table.valuerefs()) if each is not None]


def gate() -> None:
    """Park here if the interpreter ends; to be called before a lock is taken that is held while a backend is used."""
    if _finisher is not None and threading.get_ident() != _finisher:
        _park()


def _park() -> None:
    _parked.add(threading.get_ident())
    while True:
        _forever.acquire()


def _modules(frame: FrameType | None) -> Iterator[str]:
    while frame is not None:
        yield str(frame.f_globals.get("__name__", ""))
        frame = frame.f_back


def _is_ours(module: str) -> bool:
    return module == _PACKAGE or module.startswith(f"{_PACKAGE}.")


def _knock() -> None:
    """Park the calling thread, which uses a backend after the seam was closed, unless it may hold a lock."""
    if threading.get_ident() == _finisher:
        return
    modules = list(_modules(sys._getframe(2)))
    if _is_ours(modules[0]) and not modules[0].startswith(_BELOW) and _LOCKING.isdisjoint(modules):
        _park()


def _close(backend: Any) -> None:
    """Let every use of a backend call `_knock` first."""
    kind: Any = type(backend)

    def __getattribute__(self: Any, name: str) -> Any:  # noqa: N807 - of the class made below
        _knock()
        return kind.__getattribute__(self, name)

    try:
        backend.__class__ = type(kind.__name__, (kind,), {"__slots__": (), "__getattribute__": __getattribute__})
    except TypeError:  # a foreign backend, whose class cannot be exchanged: its threads are only waited for
        return


def _silence() -> None:
    """Park a thread that fails because the library has ended."""
    before = threading.excepthook

    def hook(what: threading.ExceptHookArgs) -> None:
        if what.exc_type is not None and issubclass(what.exc_type, XferError):
            gate()
        before(what)

    threading.excepthook = hook


def is_exiting() -> bool:
    """Whether the interpreter ends, so that every thread must pass the seam, which calls in C alone do not."""
    return _finisher is not None


@atexit.register
def finish() -> None:
    """End everything; a second call is a no-op."""
    global _finisher
    if _finisher is not None:
        return
    _finisher = threading.get_ident()
    if len(sys._current_frames()) > 1:
        for step in _firsts:
            step()
    _silence()
    for backend in {id(part): part for backends in _seams for part in backends()}.values():
        _close(backend)
    bump_epoch()
    while _steps:
        _steps.pop()()


def await_threads() -> None:
    """Wait until no other thread runs in the library or is about to enter it, for a bounded time."""
    start_s = time.monotonic()
    before: dict[int, tuple[int, int]] = {}
    while True:
        time.sleep(_LOOK_S)  # without the GIL
        inside, outside, before = _look(before)
        waited_s = time.monotonic() - start_s
        if waited_s > _INSIDE_S or not (inside or (outside and waited_s <= _OUTSIDE_S)):
            return


def _look(before: dict[int, tuple[int, int]]) -> tuple[bool, bool, dict[int, tuple[int, int]]]:
    """Return whether a thread is in the library, whether one runs elsewhere, and each thread's position."""
    inside = outside = False
    now: dict[int, tuple[int, int]] = {}
    for thread, frame in sys._current_frames().items():
        if thread == _finisher or thread in _parked:
            continue
        now[thread] = (id(frame), frame.f_lasti)
        runs = before.get(thread) != now[thread]
        modules = [each for each in _modules(frame) if each != "threading"]
        if any(map(_is_ours, modules)) and modules[-1] != _OWN:  # a user's thread, however far inside
            inside = True
        elif runs:
            outside = True
    return inside, outside, now
