"""A fault of a kernel in words: kernel, source line, threads and blocks, argument and index, and the remedy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from xferlib.errors import KernelFaultError
from xferlib.kernels.cuda_cpu import runtime
from xferlib.kernels.cuda_cpu.translation import REDZONE, SHARED_BEGIN

if TYPE_CHECKING:
    from xferlib.kernels.cuda_cpu.translation import FaultSite, SharedVariable


class NamedMemory(NamedTuple):
    """A region of memory in words."""

    name: str
    """``argument 'x'``, ``variable 'table'``."""
    dtype: str
    """Of its elements; empty where they are not known."""
    item_nbytes: int
    nbytes: int

    @property
    def size(self) -> int:
        return self.nbytes // self.item_nbytes


_SHARED, _LOCAL, _NOWHERE = -1, -2, -3
_NULL_NBYTES = 4096
"""Addresses below are elements of what a null pointer points to."""
_DIGITS = re.compile(r"[1-9]\d*")

_REMEDIES = {
    "out of bounds": "guard the access, as in `if (i < n)`, or make the array larger",
    "dynamic": "give the launch as much as its threads use: shared_nbytes=",
    "misaligned": "let each access begin at a multiple of its own size",
    "uninitialised": "write the memory first, in the thread that reads it, or in another one before a __syncthreads()",
    "unset": "give it a value where it is declared",
    "lane": "name in the mask the lanes that call the shuffle, and use values of these alone",
    "race": "separate the two with __syncthreads() in a block, or use atomics",
    "race between blocks": (
        "give each element to one block, use atomics, or __threadfence() before a flag is set and after it is read"
    ),
    "divergent barrier": "move __syncthreads() out of the branch, so that all threads of the block reach the same one",
    "deadlock": "let all threads that a barrier or a mask names reach it, or leave the kernel",
    "read-only": "declare the parameter without const and pass a writable array, or do not write",
    "endless": "let the loop end; xferlib.configure(loop_turns=...) allows more turns",
    "stack overflow": "use less local memory, or fewer levels of recursion",
    "segmentation fault": "pass the array, and use no pointer that does not come from an argument",
    "assertion": "see the kernel's own condition",
    "trap": "see the kernel's own condition",
    "unsupported": "leave it out of what runs on a CPU, or give get_function(..., cpu=function)",
    "bad mask": "name in the mask just the threads that reach the call: __activemask() or a smaller mask",
    "out of memory": "use less memory",
    "overflow": "compute it in 64 bits, as in `(size_t)row * width + column`",
    "bad free": "free what malloc returned in a kernel, and once",
}

_OPERATIONS = {True: "writes", False: "reads"}


def raise_fault(
    kernel: str,
    report: runtime.FaultReport,
    sites: Sequence[FaultSite],
    memories: Sequence[NamedMemory],
    shared: Sequence[SharedVariable],
) -> None:
    """Raise the fault that ended a launch.

    Args:
        kernel: Its name.
        report: What the runtime found.
        sites: The locations in the program, by number.
        memories: The regions of the launch, in their order.
        shared: The kernel's shared variables.

    Raises:
        KernelFaultError: Always.
    """
    kind = runtime.FAULTS[report.kind]
    here, other = report.here, report.other
    where, index = _locate(report, memories, shared)
    does = _OPERATIONS[bool(here.flags & runtime.WRITE)]
    bytes_of = f"{report.nbytes} byte{'s' * (report.nbytes != 1)}"
    is_race_of_blocks = kind == "race" and tuple(here.ctaid) != tuple(other.ctaid)
    is_register = kind == "uninitialised" and not here.flags
    is_of_lane = is_register and other.site != runtime.NOWHERE
    remedy = _REMEDIES[
        "race between blocks" if is_race_of_blocks else "lane" if is_of_lane else "unset" if is_register else kind
    ]
    if kind == "out of bounds" and report.region == _NOWHERE:
        remedy = _REMEDIES["segmentation fault"]
    elif kind == "out of bounds" and report.region == _SHARED and report.offset >= _find_end(shared):
        remedy = _REMEDIES["dynamic"]
    fact = {
        "out of bounds": f"{does} {bytes_of} out of bounds, {where}",
        "misaligned": f"{does} {bytes_of} at an address that is not a multiple of {report.nbytes}, {where}",
        "uninitialised": (
            f"uses the value of lane {report.text.decode()}, which takes no part in the shuffle at "
            f"{_find_words(other, sites)}"
            if is_of_lane
            else "uses a variable that nothing has set"
            if is_register
            else f"reads {bytes_of} that nothing has written, {where}"
        ),
        "overflow": f"computes the index {report.text.decode()}, which does not fit in 32 bits",
        "race": f"{does} {where}",
        "divergent barrier": (
            "waits at a barrier while other threads of its block wait at another one"
            if other.site != runtime.NOWHERE
            else f"waits at a barrier that {_describe_thread(other)} has passed by"
        ),
        "deadlock": "waits at a barrier that other threads never reach",
        "read-only": f"writes {where}, which is read-only",
        "endless": "has not left a loop after very many turns",
        "stack overflow": "has used up its stack",
        "segmentation fault": f"uses memory {where}"
        if report.region == _NOWHERE
        else f"uses an address that is no memory of the launch, {where}",
        "assertion": f"fails an assertion: {report.text.decode(errors='replace')}",
        "trap": f"executes a trap{_in_brackets(report)}",
        "unsupported": f"reaches {_quote_instruction(here, sites)!r}, which does not run on a CPU",
        "bad mask": "calls a warp function with a mask of threads that do not take part",
        "out of memory": f"gets no memory{_in_brackets(report)}",
        "bad free": "frees what is not an allocation of a kernel",
    }[kind]
    if kind == "race":
        also = _OPERATIONS[bool(other.flags & runtime.WRITE)]
        fact += f", which {_describe_thread(other)} {also} at {_find_words(other, sites)} without order between them"
    elif other.site != runtime.NOWHERE and not is_of_lane:
        fact += f" ({_describe_thread(other)}, {_find_words(other, sites)})"
    is_known = here.site < len(sites)  # without checks neither the place nor the thread
    where_at = f", {_find_words(here, sites)}: {_describe_thread(here)}" if is_known else ": a thread"
    line = sites[here.site].source_line if is_known else 0
    message = f"{kernel}(){where_at} {fact}; {remedy}"
    raise KernelFaultError(
        message, kind=kind, kernel=kernel, line=line, thread=tuple(here.tid), block=tuple(here.ctaid), index=index
    )


def raise_unset(kernel: str, site: FaultSite) -> None:
    """Raise that a kernel uses a variable which nothing sets, as the source shows without a run.

    Raises:
        KernelFaultError: Always.
    """
    message = f"{kernel}(), line {site.line}: uses a variable that nothing has set; {_REMEDIES['unset']}"
    raise KernelFaultError(message, kind="uninitialised", kernel=kernel, line=site.line)


def _describe_thread(location: runtime.ThreadLocation) -> str:
    return f"thread {tuple(location.tid)} of block {tuple(location.ctaid)}"


def _find_words(location: runtime.ThreadLocation, sites: Sequence[FaultSite]) -> str:
    return sites[location.site].words if location.site < len(sites) else "a line that is not known"


def _quote_instruction(location: runtime.ThreadLocation, sites: Sequence[FaultSite]) -> str:
    return sites[location.site].instruction if location.site < len(sites) else "an instruction"


def _in_brackets(report: runtime.FaultReport) -> str:
    text = report.text.decode(errors="replace")
    return f" ({text})" if text else ""


def _demangle(name: str) -> str:
    """The last name in a mangled one, such as ``_ZZ4stepPfE4tile``: that of a variable in a kernel."""
    if not name.startswith("_Z"):
        return name
    found, at = "", 0
    while at < len(name):
        digits = _DIGITS.match(name, at)
        if digits is None:
            at += 1
            continue
        at = digits.end() + int(digits[0])
        found = name[digits.end() : at] or found
    return found or name


def _find_end(shared: Sequence[SharedVariable]) -> int:
    """Where dynamic shared memory begins in the window, at the least."""
    return shared[-1].offset + shared[-1].nbytes + REDZONE if shared else SHARED_BEGIN


def _locate(
    report: runtime.FaultReport, memories: Sequence[NamedMemory], shared: Sequence[SharedVariable]
) -> tuple[str, int | None]:
    """The memory of an access in words, and the index of the element; None where there is no index."""
    if report.region >= 0:
        memory = memories[report.region]
        if memory.dtype == "bytes":
            return f"{memory.name} at byte {report.offset} of {memory.nbytes}", None
        index = report.offset // memory.item_nbytes
        elements = f"{memory.size} element{'s' * (memory.size != 1)}{f' of {memory.dtype}' if memory.dtype else ''}"
        return f"{memory.name} at index {index} of {elements}", index
    if report.region == _SHARED:
        if report.offset < SHARED_BEGIN:
            return f"shared memory at byte {report.offset}, where no variable is", None
        if report.offset >= _find_end(shared):
            return "dynamic shared memory", None
        # Redzones are as wide on both sides: an access between two variables is nearest to one of them.
        nearest = min(
            shared, key=lambda each: max(each.offset - report.offset, report.offset - each.offset - each.nbytes)
        )
        byte = report.offset - nearest.offset
        return f"shared variable {_demangle(nearest.name)!r} at byte {byte} of {nearest.nbytes}", None
    if report.region == _LOCAL:
        return f"local memory at byte {report.offset}", None
    address = report.offset & (2**64 - 1)
    text = f"at address {address:#x}{' (a null pointer)' * (address < _NULL_NBYTES)}, in no array of the launch"
    return report.text.decode(errors="replace") or text, None
