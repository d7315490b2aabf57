"""Everything that xferlib raises on purpose.

    XferError
    ├── ConfigError (ValueError)                 an XFERLIB_* variable or a use_*() argument
    ├── ArgumentError (ValueError)               an argument out of its range
    ├── BlockError (RuntimeError)                a ``with`` block left twice, by another task, or before one within it
    ├── BackendError
    │   ├── BackendNotFoundError (ValueError)        no backend of that name
    │   ├── BackendUnavailableError (ImportError)    it exists, but cannot run here
    │   ├── MixedBackendsError (TypeError)           arrays of two backends in one call
    │   └── UnsupportedError (NotImplementedError)   the backend cannot do this
    ├── DeviceError
    │   ├── DeviceNotFoundError (ValueError)         no such device
    │   ├── MixedDevicesError (ValueError)           arrays of two devices in one call
    │   ├── StreamError (ValueError)                 a stream of another device or backend, or none at all
    │   │   ├── StreamTypeError (TypeError)              an object that is no stream, event or transfer
    │   │   └── CaptureError (RuntimeError)              what a capture or a graph does not allow
    │   ├── ContextError (RuntimeError)              a CUDA context that is not the primary one
    │   ├── DeviceLostError (RuntimeError)           a sticky CUDA error: the process must restart
    │   └── ForkError (RuntimeError)                 a device used in a forked child
    ├── ArrayError
    │   ├── UnsupportedArrayError (TypeError)        not an array that xferlib knows
    │   ├── UnsupportedDTypeError (TypeError)        a dtype that no device holds
    │   └── LayoutError (ValueError)                 shape, dtype, contiguity or writability of ``out``
    │       ├── LayoutIndexError (IndexError)            an axis that the array does not have
    │       └── LayoutTypeError (TypeError)              a shape that is none, or ``out`` of another dtype
    ├── OutOfMemoryError (MemoryError)
    │   ├── DeviceMemoryError
    │   └── PinnedMemoryError
    ├── ClosedError (RuntimeError)               more was asked of something that was closed
    ├── TransferError (RuntimeError)             a copy failed after it was accepted
    │   ├── TransferTimeoutError (TimeoutError)
    │   └── SlowPathError                        refused by XFERLIB_STRICT
    ├── DistributedError (RuntimeError)          ranks that do not work together; their group refuses more calls
    │   ├── DistributedTimeoutError (TimeoutError)   a rank did not come in time
    │   ├── MismatchError (ValueError)               the ranks made different calls
    │   ├── PeerError                                another rank failed, was killed, or ended its program
    │   └── DriverUnavailableError (ImportError)     what carries the data cannot run here
    └── KernelError
        ├── KernelSyntaxError (ValueError)           a kernel that cannot be read
        ├── KernelTypeError (TypeError)              argument count, dtype, shape or device
        │   ├── KernelRangeError (OverflowError)     a number that a dtype cannot hold
        │   ├── KernelShapeError (ValueError)        shapes or axes that do not fit
        │   └── KernelOrderError                     a result that depends on the order of the elements
        ├── KernelCompileError (RuntimeError)        NVRTC refused the source
        └── KernelFaultError (RuntimeError)          a kernel that ran on a CPU made a mistake

    XferWarning (UserWarning)                    it works, but not as it could

Every message is a fact, the value that caused it, and the remedy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def quote(value: object, depth: int = 3) -> str:
    """Format a value for a message: one of Python's and NumPy's simple types by its value, any other by its type alone.

    A foreign object's ``__repr__`` is never called, since it may take long, fail, or have side effects. Of lists and
    tuples, which may hold themselves, ``depth`` levels are shown.
    """
    kind = type(value)
    if kind is tuple or kind is list:
        items: list[object] = list(value)  # type: ignore[call-overload]
        if items and not depth:
            return "[...]" if kind is list else "(...)"
        inside = ", ".join([*(quote(item, depth - 1) for item in items[:8]), *(["..."] if len(items) > 8 else [])])
        return f"[{inside}]" if kind is list else f"({inside}{',' if len(items) == 1 else ''})"
    if kind is slice:
        parts: tuple[object, ...] = (value.start, value.stop, value.step)  # type: ignore[attr-defined]
        return f"slice{quote(parts, depth)}"
    if isinstance(value, int) and int.bit_length(value) > 256:  # Python itself refuses to show very long ones
        return f"an int of {int.bit_length(value)} bits"
    if kind not in _SIMPLE and not _is_numpy_number(kind):
        return f"an object of type {kind.__name__}"
    if kind in (str, bytes) and len(value) > 80:  # type: ignore[arg-type]
        return f"{value[:80]!r}..."  # type: ignore[index]
    return repr(value)


def _is_numpy_number(kind: type) -> bool:
    if kind.__module__ != "numpy":
        return False
    import numpy as np  # here: errors are all that `import xferlib` brings in, and need no library

    return issubclass(kind, (np.number, np.bool))


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The one of ``known`` that was probably meant; None if none is like ``name``."""
    import difflib  # only on the way to an error

    names = sorted(known)
    if name and len(longer := [each for each in names if each.startswith(f"{name}_")]) == 1:
        return longer[0]  # int4_x2 for int4, of which int64 has as many letters
    return next(iter(difflib.get_close_matches(name, names, n=1, cutoff=0.7)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``" (did you mean 'sim'?)"`` for a name that is nearly one of ``known``; empty for any other."""
    near = nearest(name, known)
    return f" (did you mean {near!r}?)" if near is not None else ""


_SIMPLE = frozenset({type(None), type(...), bool, int, float, complex, str, bytes})


class XferError(Exception):
    """Base of every error that xferlib raises on purpose."""


class ConfigError(XferError, ValueError):
    """A configuration value that xferlib cannot use."""


class ArgumentError(XferError, ValueError):
    """An argument out of its range."""


class BlockError(XferError, RuntimeError):
    """A ``with`` block was left twice, by another task than it was entered by, or before one within it."""


class BackendError(XferError):
    """A backend could not be chosen or used."""


class BackendNotFoundError(BackendError, ValueError):
    """No backend of that name is registered."""


class BackendUnavailableError(BackendError, ImportError):
    """The backend is registered but cannot run on this machine."""


class MixedBackendsError(BackendError, TypeError):
    """Arrays of two backends met in one call."""


class UnsupportedError(BackendError, NotImplementedError):
    """The chosen backend lacks the requested ability."""


class DeviceError(XferError):
    """A device could not be found or used."""


class DeviceNotFoundError(DeviceError, ValueError):
    """The device does not exist on this machine."""


class MixedDevicesError(DeviceError, ValueError):
    """Arrays of two devices met in one call."""


class StreamError(DeviceError, ValueError):
    """The stream belongs to another device or backend, or the object is no stream."""


class StreamTypeError(StreamError, TypeError):
    """The object is no stream or event: it is of no known type, or its ``__cuda_stream__`` gives none."""


class CaptureError(StreamError, RuntimeError):
    """A stream that is being captured, or a graph, does not allow the call."""


class ContextError(DeviceError, RuntimeError):
    """The thread's current CUDA context is not the device's primary context."""


class DeviceLostError(DeviceError, RuntimeError):
    """A sticky CUDA error: nothing more can run on the device in this process."""


class ForkError(DeviceError, RuntimeError):
    """A device was used in a process forked after the device was initialised."""


class ArrayError(XferError):
    """An array that the call cannot take."""


class UnsupportedArrayError(ArrayError, TypeError):
    """The object is no array that xferlib knows."""


class UnsupportedDTypeError(ArrayError, TypeError):
    """The dtype cannot be held by a device."""


class LayoutError(ArrayError, ValueError):
    """The shape, dtype, layout or writability of an array does not fit the call."""


class LayoutIndexError(LayoutError, IndexError):
    """The array does not have that axis."""


class LayoutTypeError(LayoutError, TypeError):
    """An object that is no shape, or ``out`` of another dtype than what arrives."""


class OutOfMemoryError(XferError, MemoryError):
    """An allocation failed; nothing was changed."""


class DeviceMemoryError(OutOfMemoryError):
    """The device has too little free memory."""


class PinnedMemoryError(OutOfMemoryError):
    """The host has too little page-lockable memory, or the pinned pool is at its limit."""


class ClosedError(XferError, RuntimeError):
    """A closed object was used."""


class TransferError(XferError, RuntimeError):
    """A copy failed after it was accepted; its destination holds nothing of use."""


class TransferTimeoutError(TransferError, TimeoutError):
    """A transfer did not finish within the time that the caller allowed."""


class SlowPathError(TransferError):
    """``XFERLIB_STRICT`` refused a transfer that would have taken a slow path."""


class DistributedError(XferError, RuntimeError):
    """The ranks of a group cannot go on together; the group refuses every later call."""


class DistributedTimeoutError(DistributedError, TimeoutError):
    """A rank did not come, or its data did not arrive, within the group's timeout."""


class MismatchError(DistributedError, ValueError):
    """The ranks made different calls, or gave arrays of different shapes or dtypes; nothing was sent."""


class PeerError(DistributedError):
    """Another rank failed, was killed, or ended its program."""


class DriverUnavailableError(DistributedError, ImportError):
    """The driver of a communicator is not installed, or the process was not started for it."""


class KernelError(XferError):
    """A kernel could not be defined, compiled or called."""


class KernelSyntaxError(KernelError, ValueError):
    """The kernel's definition cannot be read."""


class KernelTypeError(KernelError, TypeError):
    """The arguments of a kernel call do not fit its signature."""


class KernelRangeError(KernelTypeError, OverflowError):
    """A number is out of range for the dtype that it is to have."""


class KernelShapeError(KernelTypeError, ValueError):
    """Shapes or axes do not fit: they do not broadcast, an axis does not exist, or has no elements to reduce."""


class KernelOrderError(KernelTypeError):
    """A result would depend on the order of the elements, where exact results are promised."""


class KernelCompileError(KernelError, RuntimeError):
    """The CUDA compiler refused the kernel's source."""


class KernelFaultError(KernelError, RuntimeError):
    """A kernel that ran on a CPU made a mistake: out of bounds, a race, a barrier that not all threads reach, ...

    Attributes:
        kind: What it is, in a word or two: ``"out of bounds"``, ``"race"``.
        kernel: The kernel's name.
        line: In its source, from 1; 0 where it is not known.
        thread, block: Their indices along x, y and z.
        index: Of the element, counted through the array; None where the fault is not an access to an array.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str = "",
        kernel: str = "",
        line: int = 0,
        thread: tuple[int, ...] = (0, 0, 0),
        block: tuple[int, ...] = (0, 0, 0),
        index: int | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.kernel = kernel
        self.line = line
        self.thread = thread
        self.block = block
        self.index = index


class XferWarning(UserWarning):
    """Something works, but not as it could; the message says how to mend it, and how to be rid of the message."""
