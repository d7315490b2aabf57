"""Guards the pages of host memory that a copy in flight uses, and so finds the line at which NumPy touches them.

Until the copy is carried out, pages of a target cannot be accessed, and pages of a source cannot be written. A thread
that does so gets a memory fault, whose handler notes the running line of Python, removes the guard from those pages
and lets the access continue. The next call into the simulator reports it. Linux only.
"""

from __future__ import annotations

import ctypes
import mmap
import signal
import sys
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from xferlib._runtime.callsite import Site, user_site
from xferlib.errors import UnsupportedError
from xferlib.sim.model.blocks import Span
from xferlib.sim.model.operations import Operation

if TYPE_CHECKING:
    from types import TracebackType

_NONE, _READ, _READ_WRITE = 0, 1, 3
_SA_SIGINFO = 4
_ADDRESS_OFFSET = 16  # of si_addr in siginfo_t, on every 64-bit Linux
_Handler = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class _Sigaction(ctypes.Structure):
    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ulong * 16),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


class Touch(NamedTuple):
    """An access of the host to bytes that a copy in flight uses."""

    operation: Operation
    span: Span
    is_write: bool
    """True for a write; False for a read or a write."""
    site: Site


class PageGuard:
    """Guards pages inside its ``with`` block; one at a time in a process.

    Raises:
        UnsupportedError: The platform is not Linux.
    """

    def __init__(self) -> None:
        if sys.platform != "linux" or sys.maxsize < 1 << 32:
            raise UnsupportedError("the page guard needs 64-bit Linux; leave out guard=True, and say sim.reads(x)")
        self.touches: deque[Touch] = deque()
        self._guarded: dict[tuple[Operation, int], tuple[Span, bool]] = {}
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._callback = _Handler(self._fault)
        self._before = _Sigaction()
        self._is_entered = False

    def __enter__(self) -> PageGuard:
        action = _Sigaction(handler=ctypes.cast(self._callback, ctypes.c_void_p).value, flags=_SA_SIGINFO)
        self._check(self._libc.sigaction(signal.SIGSEGV, ctypes.byref(action), ctypes.byref(self._before)))
        self._is_entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for operation, _ in list(self._guarded):
            self.lift(operation)
        self._is_entered = False
        self._check(self._libc.sigaction(signal.SIGSEGV, ctypes.byref(self._before), None))

    def _check(self, result: int) -> None:
        if result:
            raise OSError(ctypes.get_errno(), "the page guard could not be set")

    def protect(self, operation: Operation, span: Span, *, is_target: bool) -> None:
        """Guard the pages of host memory that a copy uses, until `lift`."""
        if self._is_entered:
            self._guarded[operation, span.start] = (span, is_target)
            self._set(span, _NONE if is_target else _READ)

    def lift(self, operation: Operation) -> None:
        """Remove the guard, before the copy is carried out."""
        for key in [key for key in self._guarded if key[0] is operation]:
            span, _ = self._guarded.pop(key)
            self._set(span, _READ_WRITE)

    def _set(self, span: Span, protection: int) -> None:
        first, last = _pages(span)
        if last > first:
            self._check(self._libc.mprotect(ctypes.c_void_p(first), ctypes.c_size_t(last - first), protection))

    def _fault(self, number: int, info: int, context: Any) -> None:
        address = ctypes.c_uint64.from_address(info + _ADDRESS_OFFSET).value
        is_ours = False
        for (operation, _), (span, is_target) in list(self._guarded.items()):
            first, last = _pages(span)
            if first <= address < last:
                is_ours = True
                self._set(span, _READ_WRITE)
                if span.start <= address - span.block.pointer < span.stop:
                    self.touches.append(Touch(operation, span, not is_target, user_site()))
        if not is_ours:  # another fault: let it occur again under the handler that was installed before
            self._libc.sigaction(signal.SIGSEGV, ctypes.byref(self._before), None)


def _pages(span: Span) -> tuple[int, int]:
    """The whole pages inside a range: those at its ends may hold something else."""
    page = mmap.PAGESIZE
    begin, end = span.block.pointer + span.start, span.block.pointer + span.stop
    return -(-begin // page) * page, end // page * page
