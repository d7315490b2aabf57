"""Checks of arguments, the lines of the program that gave them, names for ours, and the calls that errors recommend."""

from __future__ import annotations

import functools
import operator
import os
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FrameType, ModuleType
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np

from xferlib.errors import ArgumentError, KernelTypeError, XferWarning, did_you_mean, quote

# Lines of the user's program that called xferlib.

_PACKAGE = os.path.realpath(__file__).rsplit(os.sep, 2)[0] + os.sep
_TESTING = _PACKAGE + "testing" + os.sep
_IMPORTING = f"{os.__file__.rpartition(os.sep)[0]}{os.sep}importlib{os.sep}"
_OURS = (_PACKAGE, np.__file__.rpartition(os.sep)[0] + os.sep, _IMPORTING, "<frozen")
_is_ours: dict[str, bool] = {}
is_recorded = False
"""Whether a trace is open, so that each job notes the line that it works for."""


class Site(NamedTuple):
    """A line of the user's program."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


CodeLocation = Site | tuple[CodeType, int]
"""A line of code: resolved, or as a code object and an offset in its instructions."""

_AS_CALLED = {
    "_Iteration._take": "prefetch", "Prefetcher._take": "prefetch", "Station._run": "stream_map",
    "ThreadedFeed._run": "reading ahead",
}  # fmt: skip
"""Words for methods that no program calls by their names: the loop over a prefetcher, and what threads run."""
NOWHERE = Site("<outside the program>", 0, "?")
inherited = threading.local()
"""``inherited.site``: for one of xferlib's own threads, the line that it works for."""


def is_own(file: str) -> bool:
    """Whether a file of code is xferlib's or NumPy's, and not the program's."""
    return file.startswith(_OURS) and not file.startswith(_TESTING)


def is_package(file: str) -> bool:
    """Whether a file of code is xferlib's or NumPy's, those of xferlib's tools for tests among them."""
    return file.startswith(_OURS)


_RUNNERS = ("_pytest", "pluggy", "unittest", "IPython", "ipykernel")
"""Packages whose code calls the program's functions, or runs its cells."""


def is_of_runner(site: Site) -> bool:
    """Whether a line is of what runs the program, where an array dies when a test returns."""
    folders = os.path.dirname(site.file).split(os.sep)  # noqa: PTH120, PTH206  pathlib is imported by few programs
    return any(each in folders for each in _RUNNERS)


def user_site() -> Site:
    """Return the innermost line outside xferlib and NumPy; in one of xferlib's own threads, the line it works for."""
    return site_of(user_call()[0])


def user_call(skip: int = 0) -> tuple[CodeLocation, str]:
    """Return `location`, and the name of xferlib's function that was called there.

    ``skip``: how many of the innermost callers, which are xferlib's, have another one of its functions as their caller.
    """
    frame: FrameType | None = sys._getframe(1 + skip)
    called = ""
    while frame is not None:
        code = frame.f_code
        file = code.co_filename
        ours = _is_ours.get(file)
        if ours is None:
            ours = _is_ours[file] = is_own(file)
        if not ours:
            if file == threading.__file__:
                break
            return (code, frame.f_lasti), _AS_CALLED.get(called, called)
        called = code.co_qualname
        frame = frame.f_back
    site: Site = getattr(inherited, "site", NOWHERE)
    return site, _AS_CALLED.get(called, called)


def call_from(frame: FrameType, called: str) -> tuple[CodeLocation, str]:
    """`user_call` in a function of xferlib's of that name, whose caller has this frame: mostly it is the program's."""
    code = frame.f_code
    file = code.co_filename
    if _is_ours.get(file, True) or file == threading.__file__:
        return user_call(1)
    return (code, frame.f_lasti), called


def location() -> CodeLocation:
    """Return `user_site` unresolved: `site_of` looks the line up when it is needed, since that takes long."""
    return user_call()[0]


def site_of(location: CodeLocation) -> Site:
    """Resolve a location to a line."""
    if isinstance(location, Site):
        return location
    code, offset = location
    found = code.co_firstlineno
    for start, stop, line in code.co_lines():
        if start <= offset < stop:
            found = line or found
            break
    return Site(code.co_filename, found, code.co_qualname)


def warn(text: str) -> None:
    """Warn at the line of the program that has called xferlib."""
    site = user_site()
    warnings.warn_explicit(text, XferWarning, site.file, site.line)


# Names of other libraries' objects, for the errors of a program that is being moved.

ARRAY_NAMES = {
    **dict.fromkeys(
        ("asnumpy", "copy_to_host", "cpu", "detach", "get", "get_async", "numpy", "to_host"),
        "xferlib.to_host(x) copies it to the host",
    ),
    "at": "x[index] = value writes in place",
    "block_until_ready": "xferlib.synchronize() waits for all work on its device",
    "clone": "x.copy() makes another",
    "contiguous": "x.copy() is contiguous",
    "cuda": "xferlib.to_device(x, device='cuda:0') copies it there",
    "data_ptr": "x.__cuda_array_interface__ has the address on a GPU",
    **dict.fromkeys(
        ("double", "float", "half", "int", "long", "type"), "get_array_module(x).astype(x, dtype) converts it"
    ),
    "dim": "x.ndim counts its axes",
    "fill_": "x[...] = value fills it",
    "gpudata": "x.__cuda_array_interface__ has the address on a GPU",
    "is_cuda": "x.device.kind == 'cuda' tells",
    "numel": "x.size counts its elements",
    "permute": "get_array_module(x).permute_dims does that",
    "to": "get_array_module(x).astype(x, dtype) converts it, xferlib.copy_to(x, device) copies it to a device",
    "unsqueeze": "get_array_module(x).expand_dims does that",
    "zero_": "x[...] = 0 fills it",
}
"""For arrays: attributes that ours do not have, with what to say."""
TREE_NAMES = {
    name.removeprefix("tree_"): f"optree.{name}({arguments}, namespace='xferlib')"
    for name, arguments in {
        "tree_leaves": "tree", "tree_map": "function, tree", "tree_reduce": "function, tree",
        "tree_structure": "tree", "tree_unflatten": "structure, leaves",
    }.items()
}  # fmt: skip
TREE_NAMES |= {f"tree_{name}": ours for name, ours in TREE_NAMES.items()}
TRACE_NAMES = {
    **dict.fromkeys(("dump", "export", "export_chrome_trace", "save", "to_json"), "trace.write('run.json')"),
    **dict.fromkeys(("savefig", "show"), "trace.plot('run.png')"),
    **dict.fromkeys(("events", "key_averages", "table"), "trace.summary() or trace.operations"),
}
STREAM_NAMES = {
    "add_callback": "stream.call(function, *arguments)",
    "launch_host_func": "stream.call(function, *arguments)",
    "begin_capture": "with stream.capture() as graph:",
    "end_capture": "with stream.capture() as graph:",
    "cuda_stream": "stream.handle",
    "ptr": "stream.handle",
    "done": "stream.is_done",
    "query": "stream.is_done",
    "record_event": "stream.record(event)",
    "wait_event": "stream.wait(event)",
    "wait_for_event": "stream.wait(event)",
    "wait_stream": "stream.wait(other)",
}
EVENT_NAMES = {
    "done": "event.is_done",
    "query": "event.is_done",
    "elapsed_time": "end.elapsed_ms(start)",
    "time_since": "end.elapsed_ms(start)",
    "time_till": "end.elapsed_ms(start)",
    "record": "stream.record(event)",
    "wait": "stream.wait(event)",
}
DEVICE_NAMES = {
    "attributes": "device.attribute(name)",
    "compute_capability": "device.properties.compute_capability",
    "get_attribute": "device.attribute(name)",
    "get_attributes": "device.attribute(name)",
    "id": "device.index",
    "mem_info": "device.free_memory, device.total_memory",
    "multi_processor_count": "device.properties.multiprocessor_count",
    "name": "device.properties.name",
    "type": "device.kind",
}
TRANSFER_NAMES = {
    "get": "transfer.result()",
    "is_done": "transfer.done()",
    "query": "transfer.done()",
    "synchronize": "transfer.result()",
}
COLLECTIVE_NAMES = {
    "Test": "operation.is_done",
    "Wait": "operation.wait()",
    "get_future": "operation.wait()",
    "is_completed": "operation.is_done",
    "result": "operation.wait()",
    "synchronize": "operation.wait()",
    "test": "operation.is_done",
}
_OF_MPI = {
    "Abort": "abort(reason)", "Allgather": "all_gather(x)", "Allreduce": "all_reduce(x)", "Alltoall": "all_to_all(x)",
    "Barrier": "barrier()", "Bcast": "broadcast(x, root)", "Free": "close()", "Get_rank": "rank", "Get_size": "size",
    "Iallreduce": "all_reduce(x, async_op=True)", "Recv": "recv(out, source)",
    "Reduce_scatter_block": "reduce_scatter(x)", "Send": "send(x, dest)", "Split": "split(color, key)",
}  # fmt: skip
_OF_TORCH = {
    "all_gather_into_tensor": "all_gather(x)", "all_to_all_single": "all_to_all(x)",
    "destroy_process_group": "close()", "get_rank": "rank", "get_world_size": "size", "new_group": "split(color, key)",
    "reduce": "all_reduce(x)", "reduce_scatter_tensor": "reduce_scatter(x)", "world_size": "size",
}  # fmt: skip
COMMUNICATOR_NAMES = {name: f"comm.{ours}" for name, ours in (_OF_MPI | _OF_TORCH).items()}
COMMUNICATOR_NAMES |= {name.lower(): ours for name, ours in COMMUNICATOR_NAMES.items()}

_AT_ONCE = "to_device_async(x) and to_host_async(x) return at once"
_PIN = "nothing has to be pinned; pinned_array(x) makes an array that is"
_OF_TRANSFERS = {
    **dict.fromkeys(("async_", "asynchronous", "blocking", "non_blocking"), _AT_ONCE),
    "pin_memory": _PIN,
}
_CONVERTED = "xferlib.astype(x, dtype, saturate=True) converts"
_AHEAD = "depth=n copies n batches ahead"
_AS_THEY_COME = "prefetch takes batches as they come: a DataLoader, a generator or a list"
_WORKERS = "engine= takes a Dask client, whose workers compute, or a communicator of ranks"
KEYWORDS = {
    "astype": {
        "copy": "it always makes a new array",
        "device": "xferlib.copy_to(x, device, dtype=dtype) converts on the way",
        "out": "xferlib.to_device(x, out=y, dtype=dtype) fills an array that exists",
    },
    "copy_to": _OF_TRANSFERS | {"out": "xferlib.to_device(x, out=y) fills an array that exists"},
    "get_array_module": {"exact": "xferlib.get_exact_module(x) has functions with the same bits everywhere"},
    "to_device": _OF_TRANSFERS,
    "to_device_async": _OF_TRANSFERS,
    "to_host": _OF_TRANSFERS,
    "to_host_async": _OF_TRANSFERS,
    "RawKernel": {
        "shared_mem": "shared_nbytes= is dynamic shared memory of a block",
        "texrefs": "a texture object is passed as an argument, by its handle",
        "time_kernel": "events made with Event(timing=True), recorded around the call, have elapsed_ms",
    },
    "prefetch": {
        "backend": "device=name takes the name of a backend too",
        **dict.fromkeys(("buffer_size", "maxsize", "prefetch_factor", "queue_size", "size"), _AHEAD),
        "num_workers": "workers=n lets n threads read items by their numbers",
        "shuffle": _AS_THEY_COME,
        **dict.fromkeys(("fn", "func", "function", "map"), "transform=function is applied to each batch"),
        "pin_memory": _PIN,
        **dict.fromkeys(("dtype", "saturate"), f"{_CONVERTED} on the device in transform=, or on the host before"),
    },
    "stream_map": {
        **dict.fromkeys(("backend", "device"), "devices=[name] takes devices and names of backends"),
        **dict.fromkeys(("max_workers", "n_jobs", "num_workers", "processes", "threads", "workers"), _WORKERS),
        **dict.fromkeys(("dtype", "saturate"), f"{_CONVERTED} on the device in fn"),
    },
}
"""For calls: the keywords that ours do not have, with what to say."""


def refuse(thing: object, name: str, names: Mapping[str, str]) -> NoReturn:
    """Raise the `AttributeError` of a name that ``thing`` does not have, with ours where another library has it."""
    remedy = f"; write {names[name]}" if name in names else ""
    owner = f"module {thing.__name__!r}" if isinstance(thing, ModuleType) else f"{type(thing).__name__!r} object"
    raise AttributeError(f"{owner} has no attribute {name!r}{remedy}", name=name, obj=thing)


MOST_AHEAD = 4096
"""The most batches or chunks that may be in flight: each has a stream."""


def whole(value: Any, *, least: int | None) -> int | None:
    """Return the value as an int; None where it is no whole number, or less than ``least``.

    NumPy's integers are whole numbers; True and 2.0 are not.
    """
    try:
        found = None if isinstance(value, bool) else operator.index(value)
    except Exception:  # a foreign object may raise anything; it is no number
        return None
    return found if found is not None and (least is None or found >= least) else None


R = TypeVar("R")


def guard_end(what: str, function: Callable[..., R]) -> Callable[..., R]:
    """``function``, whose StopIteration is an error of its own: taken for the end it would lose what comes behind.

    A generator does the same (PEP 479).
    """

    @functools.wraps(function, updated=())
    def guarded(*args: Any) -> R:
        try:
            return function(*args)
        except StopIteration as error:
            raise RuntimeError(f"{what} raised StopIteration, which ends no iteration there; catch it") from error

    return guarded


def has(x: Any, name: str) -> bool:
    """Whether an object has an attribute; False where a stranger's object raises anything but says so."""
    try:
        return hasattr(x, name)
    except Exception:
        return False


def path(value: Any) -> str | None:
    """Return a path as a string; None where it is none, or one that no file can have."""
    try:
        found = os.fspath(value)
        text = os.fsdecode(found)
        os.fsencode(text)
    except Exception:  # surrogates that stand for no byte, and what a stranger's object raises
        return None
    return text if text and "\0" not in text else None


def flag(value: Any, what: str) -> bool:
    """Return a flag as True or False; NumPy's, 0 and 1 are such.

    Raises:
        ArgumentError: It is none; an array may be on a device, and a container's truth is that of its length.
    """
    if type(value) in (int, np.bool) and value in (0, 1):
        return bool(value)
    refuse_no_flag(value, what)
    return value is True


def choice(value: Any, choices: Sequence[str], what: str) -> str:
    """Return a word that is one of several.

    Raises:
        ArgumentError: It is none of them.
    """
    if isinstance(value, str) and value in choices:
        return value
    *first, last = map(repr, choices)
    listed = f"neither {first[0]} nor {last}" if len(first) == 1 else f"none of {', '.join(first)} and {last}"
    raise ArgumentError(f"{what}={quote(value)} is {listed}; give one of them")


class NoPublicConstructor(type):
    """The class of what a function makes; its constructor, called as another library's, names that function.

    Args:
        by: The function.
    """

    def __new__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any], *, by: str) -> NoPublicConstructor:
        made = super().__new__(cls, name, bases, members)
        made._by = by
        return made

    def __init__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any], *, by: str) -> None:
        super().__init__(name, bases, members)

    _by: str

    def __call__(cls, *args: Any, **options: Any) -> Any:
        try:
            return super().__call__(*args, **options)
        except TypeError as error:
            trace = error.__traceback__
            if trace is None or trace.tb_next is not None:  # raised within the constructor, not by its signature
                raise
            raise KernelTypeError(
                f"{cls.__name__} is only the class of what xferlib.{cls._by} makes; call that"
            ) from None


def refuse_no_flag(value: Any, what: str) -> None:
    """Refuse anything but True and False, without asking a stranger's object for its truth.

    Raises:
        ArgumentError: It is neither.
    """
    if value is not True and value is not False:
        raise ArgumentError(f"{what}={quote(value)} is neither True nor False; give one of them")


def refuse_no_copy(value: Any, call: str) -> None:
    """Refuse a ``copy=`` that is not one of its three values: a true one of another type would be no request to copy.

    Raises:
        ArgumentError: It is not.
    """
    if value is not True and value is not False and value is not None:
        raise ArgumentError(f"{call}: copy={quote(value)} is neither True, False nor None; give one of them")


def refuse_keyword(call: str, unknown: Mapping[str, object], known: Sequence[str] | None = None) -> NoReturn:
    """Refuse a keyword that a call does not have, as Python would, and name ours where other libraries have it.

    Args:
        call: The name of the call.
        unknown: What it was given.
        known: The names that it has; those of the caller if omitted.

    Raises:
        TypeError: Always.
    """
    name, code = next(iter(unknown)), sys._getframe(1).f_code
    if known is None:
        known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    remedy = KEYWORDS[call].get(name)
    meant = "" if remedy else did_you_mean(name, known)
    remedy = remedy or f"its parameters are {', '.join(known) or 'arrays, by position'}"
    raise TypeError(f"{call}() got an unexpected keyword argument {quote(name)}{meant}; {remedy}")


def refuse_positional(call: str, misplaced: tuple[Any, ...]) -> NoReturn:
    """Refuse what a call of one array was given by position, as Python would, and name the keyword.

    Raises:
        TypeError: Always.
    """
    given = quote(misplaced[0])
    remedy = f"device={given}" if isinstance(misplaced[0], str) else "device=, dtype=, stream= or out="
    raise TypeError(f"{call} takes one array, but {given} came by position after it; give it by name: {remedy}")


# The calls that errors recommend, as the program writes them: xferlib's, or those of a pretended library.


class RemedyCalls:
    """xferlib's own. A stream is given as the program can write it."""

    def synchronize(self) -> str:
        """The host waits for all work of a device."""
        return "xferlib.synchronize()"

    def await_stream(self, stream: str) -> str:
        """The host waits for the work of a stream."""
        return f"{stream}.synchronize()"

    def wait(self, stream: str, other: str) -> str:
        """A stream waits for the work so far of another."""
        return f"{stream}.wait({other})"

    def write_current_stream(self, device: str) -> str:
        """The current stream of a device, which is named where it is not the first."""
        return f"xferlib.current_stream({repr(device) if device else ''})"

    def write_default_stream(self, handle: int, device: str) -> str:
        """CUDA's default stream, by its handle, of a device, which is named where it is not the first."""
        return f"xferlib.Stream.from_any({handle}{f', {device!r}' if device else ''})"

    def find_stream(self, value: Any) -> Any:
        """The stream of xferlib's that an object of the program's is; other objects as they are."""
        return value

    def unite(self, device: str) -> str:
        """Two arrays come to one device."""
        return (
            f"make it with device=y.device, where y is an array on {device}, or move it: "
            f"xferlib.to_device(x, device={device!r})"
        )


remedy_calls = RemedyCalls()
"""Those of the library that the program was written for."""
