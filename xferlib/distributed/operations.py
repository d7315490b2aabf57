"""The collectives: one table with the checks, the result's shape and the steps of each, and the function that runs it.

Steps are generators which yield whenever they have begun an operation of a driver, so that blocking and asynchronous
calls are the same code: the communicator waits between them. In host memory the driver of the launcher carries data,
and from GPU to GPU a `DeviceDriver`. Each library adds in an order of its own. What must have the same bits everywhere,
and what a library does not reduce, goes another way, the same in both memories: each rank gets one part of all ranks'
elements, reduces it by the same kernels, and all gather the parts.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib._api import transfers
from xferlib._core.dtypes import name_of, refuse_arithmetic, small_float
from xferlib._core.streams import ArrayUse, Stream
from xferlib._memory.buffers import host_cache
from xferlib._runtime import checks, process
from xferlib._runtime.checks import refuse_no_flag, whole
from xferlib.distributed.drivers import DeviceCall, DeviceDriver, Enqueued, Order
from xferlib.distributed.membership import Call, Result, Signature, operand_of, separate
from xferlib.errors import ArgumentError, LayoutError, MismatchError, UnsupportedDTypeError, did_you_mean, quote
from xferlib.kernels.elementwise import ElementwiseKernel, conversion, elementwise

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from xferlib._core.arrays import ArrayInfo, HostArray
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib.distributed.drivers import Driver, Pending
    from xferlib.distributed.membership import Group, Operand

    Shape = tuple[int, ...]
    HostSteps = Callable[..., Iterator[Pending]]
    DeviceSteps = Callable[..., Iterator[Pending]]


# A collective operation that was begun with ``async_op=True``.


class Collective(ArrayUse):
    """A collective operation that runs beside the program; made by ``async_op=True``.

    Neither ``x`` may be written nor ``out`` be used before `wait` returns. The ranks may wait for their operations in
    any order. An operation that the program drops goes on; `Communicator.close` waits for it.
    """

    _is_what = "a Collective is an operation in progress"
    array_remedy = "the array is what its wait() gives: write operation.wait()"
    _peers = checks.COLLECTIVE_NAMES

    __slots__ = ("_array", "_call", "_group", "_pending", "_steps", "is_in_steps")

    def __init__(self, group: Group, call: Call, steps: Iterator[Pending], array: Any) -> None:
        self.is_in_steps = True
        """Whether it begins more than one operation of the driver, so that the next call must wait for it."""
        self._group = group
        self._call = call
        self._steps = steps
        self._array = array
        # The first step is taken here, so that data move while the program goes on; the later ones in calls of the
        # program alone: a thread would begin them in an order that the other ranks cannot know.
        self._pending: Pending | None = next(steps, None)

    @property
    def is_done(self) -> bool:
        """Whether the operation is complete, so that `wait` returns at once."""
        if self._pending is not None:
            self._group.check_process()
        with self._group.lock:
            while self._pending is not None and not self._group.cause and self._pending.wait(0.0):
                self._pending = next(self._steps, None)
            return self._pending is None

    def wait(self) -> Any:
        """Wait until the operation is complete, and return its array.

        Where NCCL carries device memory, the host does not wait: later work of the call's stream does.

        Raises:
            DistributedError: A rank has failed, or did not come in time.
            ForkError: It is in flight in the process that this one was forked from.
        """
        if self._pending is not None:
            self._group.check_process()
        with self._group.lock:
            if self._pending is None:
                return self._array
            self._group.check_usable()
            with self._group.fail_on_error():
                while (pending := self._pending) is not None:
                    self._group.wait(pending, self._call)
                    if self._pending is pending:  # else the group has looked after it meanwhile
                        self._pending = next(self._steps, None)
        return self._array

    def __repr__(self) -> str:
        return f"<Collective: {self._call}>"


_BYTE = np.dtype(np.uint8)


# Reductions over ranks: the operations, and the order in which reproducible ones add.

OPS = ("sum", "prod", "min", "max", "mean")
_AVERAGES = {"avg": "mean", "average": "mean"}
_GATHERED_MOST = 32 << 10
"""Bytes of all ranks' data up to which every rank reduces all of it: one exchange instead of two."""
_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda x, y: x + y,
    "prod": lambda x, y: x * y,
    "min": lambda x, y: np.minimum(x, y),  # noqa: PLW0108 - of the kernels: carries NaN, holds -0 for less than +0
    "max": lambda x, y: np.maximum(x, y),  # noqa: PLW0108 - a kernel is traced from a function of Python
    "divide": lambda x, y: x / y,
}


@functools.cache
def kernel(op: str) -> ElementwiseKernel:
    """The kernel of an operation, which gives the same bits on every backend."""
    return elementwise(_FUNCTIONS[op], name=f"xferlib_{op}")


@functools.cache
def _kernel_of_float32(op: str) -> ElementwiseKernel:
    """The kernel of an operation on small floats, of which either may be an intermediate result in float32."""
    function = _FUNCTIONS[op]
    return elementwise(lambda x, y: function(x.astype("float32"), y.astype("float32")), name=f"xferlib_float32_{op}")


def check_op(op: str, dtype: np.dtype[Any], call: str) -> None:
    """Refuse an unknown operation, and one that the dtype does not have.

    Raises:
        ArgumentError: It is none of `OPS`.
        UnsupportedDTypeError: A sum of bool, a mean of integers, an extremum of complex numbers.
    """
    if not isinstance(op, str) or op not in OPS:
        hint = did_you_mean(_AVERAGES.get(op.lower(), op.lower()), OPS) if isinstance(op, str) else ""
        raise ArgumentError(f"{call}: op={quote(op)} is none of {', '.join(OPS)}{hint}")
    refuse_arithmetic(dtype, f"{call}: the dtype of x, to be reduced by op={op!r},")
    if dtype.kind == "b" and op not in ("min", "max"):
        raise UnsupportedDTypeError(f"{call}: op={op!r} of bool; use 'max' for any, 'min' for all, or convert to int64")
    if dtype.kind in "iu" and op == "mean":
        raise UnsupportedDTypeError(f"{call}: op='mean' of {dtype}; convert to float64, or use 'sum'")
    if dtype.kind == "c" and op in ("min", "max"):
        raise UnsupportedDTypeError(f"{call}: op={op!r} of {dtype}, which has no order; reduce real parts or abs(x)")


def as_numbers(x: HostArray, op: str) -> HostArray:
    """The same memory in a dtype with the same result: parts of complex numbers, and bytes of bool."""
    if x.dtype.kind == "c" and op in ("sum", "mean"):
        return x.view(np.float32 if x.dtype.itemsize == 8 else np.float64)
    return x.view(np.uint8) if x.dtype.kind == "b" else x


def is_one_step(driver: Driver, dtype: np.dtype[Any], op: str, nbytes: int) -> bool:
    """Whether the driver reduces ``nbytes`` of the dtype by itself."""
    known = driver.reduces(as_numbers(np.empty(0, dtype), op).dtype, "sum" if op == "mean" else op)
    return known and nbytes < driver.reduces_below


def pairwise(rows: Sequence[Any] | HostArray, op: str, dtype: np.dtype[Any], *, in_place: bool = True) -> Any:
    """Reduce rows: neighbours first, then neighbours of these results, and so on.

    Rows 0 to 4 give ((0 + 1) + (2 + 3)) + 4; the mean is that by their number. Small floats are computed with in
    float32, and rounded once.

    Args:
        rows: One array for each rank, all of one shape.
        op: One of `OPS`.
        dtype: Of the rows.
        in_place: The result is the first row; otherwise all stay as they are, and it is a new array.
    """
    found, is_small = list(rows), small_float(dtype) is not None
    if len(found) == 1:
        return found[0]
    combine = (_kernel_of_float32 if is_small else kernel)("sum" if op == "mean" else op)
    may_write = in_place and not is_small
    while len(found) > 1:
        pairs = [found[first : first + 2] for first in range(0, len(found), 2)]
        found = [combine(*each, out=each[0] if may_write else None) if len(each) == 2 else each[0] for each in pairs]
        may_write = True  # what has no neighbour is the last, and never written
    if op == "mean":
        divide(found[0], len(rows))
    if not is_small:
        return found[0]
    return conversion(name_of(dtype), saturate=False)(found[0], out=rows[0] if in_place else None)


def divide(x: Any, count: int) -> None:
    """Divide floats by the number of ranks, where they are."""
    if count > 1:
        kernel("divide")(x, float(count), out=x)


def reduce_in_order(driver: Driver, out: HostArray, x: HostArray, op: str, in_order: bool) -> Iterator[Pending]:
    """Reduce ``x`` of all ranks into ``out``, which may be ``x`` itself; both flat and not empty."""
    result = as_numbers(out, op)
    given = result if x is out else as_numbers(x, op)  # the same array for both: drivers know by identity
    if in_order or not is_one_step(driver, x.dtype, op, x.nbytes):
        return (yield from _fold_in_order(driver, result, given, op))
    yield driver.all_reduce(result, given, "sum" if op == "mean" else op)
    if op == "mean":
        divide(result, driver.size)


def _fold_in_order(driver: Driver, out: HostArray, x: HostArray, op: str) -> Iterator[Pending]:
    """Each rank reduces one part of the elements in the order of `pairwise`, and all gather the parts."""
    size = driver.size
    count = x.size // size
    # Then all of it counts as the rest, below.
    if size == 1 or x.nbytes * size <= _GATHERED_MOST:
        count = 0
    main = count * size
    rest = np.empty(0, x.dtype)
    if main < x.size:
        rest = np.empty((size, x.size - main), x.dtype)
        yield driver.all_gather(rest.reshape(-1), x[main:])
        rest = pairwise(rest, op, x.dtype)
    if count:
        yield driver.all_gather(out[:main], (yield from _reduce_own_part(driver, x[:main], op)))
    # Last: ``out`` may be ``x``, whose end is read above.
    out[main:] = rest


def _reduce_own_part(driver: Driver, x: HostArray, op: str) -> Generator[Pending, None, HostArray]:
    """This rank's part of the reduction of all ranks' ``x``, which has as many equal parts as there are ranks."""
    rows = host_cache.empty((driver.size, x.size // driver.size), x.dtype)
    yield driver.all_to_all(rows.reshape(-1), x)
    reduced: HostArray = pairwise(rows, op, x.dtype)
    return reduced


def scatter_in_order(driver: Driver, out: HostArray, x: HostArray, op: str) -> Iterator[Pending]:
    """Reduce part ``rank`` of all ranks' ``x`` into ``out``, in the order of `pairwise`."""
    result = as_numbers(out, op)
    result[...] = yield from _reduce_own_part(driver, as_numbers(x, op), op)


class OnDevice(NamedTuple):
    """The driver of the group's devices, and one call's arrays."""

    driver: DeviceDriver
    rank: int
    size: int
    operand: Operand
    result: Result
    is_beside: bool
    made: list[Any]
    """Arrays of intermediate data, which the driver may use until the call's end."""

    @property
    def order(self) -> Order:
        device, stream = self.operand.source.device, self.operand.raw_stream
        assert device is not None
        assert stream is not None
        return Order(device, stream, self.operand.source.backend, self.is_beside)

    @property
    def out(self) -> ArrayInfo:
        """The result's location and layout."""
        info = self.result.info
        assert info is not None
        return info

    def on_stream(self) -> Stream:
        """The call's stream, to make it current for kernels."""
        return Stream._of(self.order.stream, self.operand.source.backend)

    def readable_source(self, *, may_be_same: bool = True) -> tuple[Any, ArrayInfo]:
        """The array and its location; of one that has gaps, that the result overlaps in part, or that is lazy, a copy.

        Args:
            may_be_same: Whether the driver may read and write the same array.
        """
        source, out = self.operand.source, self.out
        info = source.info
        assert info is not None
        # The library reads and writes in pieces, in an order of its own: of two arrays that overlap in part it would
        # read pieces of the result. The very same array is what it calls in place, and takes.
        begins_inside = info.pointer != out.pointer and (
            info.pointer < out.pointer + out.nbytes and out.pointer < info.pointer + info.nbytes
        )
        is_apart = info.pointer != out.pointer or (may_be_same and info.nbytes == out.nbytes)
        if info.is_c_contiguous and not begins_inside and is_apart and not source.backend.is_lazy(source.given):
            return source.given, info
        copied = transfers.to_device(source.given, device=source.device, stream=self.operand.stream)
        self.made.append(copied)
        return copied, source.backend.view(copied)

    def enqueue(self, call: DeviceCall, *kept: Any) -> Iterator[Pending]:
        """Enqueue a collective as the last step of the call, which uses the memory of ``kept`` and of the result."""
        enqueued = self.driver.enqueue(call, self.order)
        if enqueued is not None:
            yield _Beside(enqueued, (*kept, self.result.array))

    def reduce_own_part(self, x: int, count: int, dtype: np.dtype[Any], op: str) -> Any:
        """This rank's part of the reduction of ``count`` elements of all ranks, as `_reduce_own_part` on the host.

        Part k of every rank arrives in rank k as one row for each rank: the rows are in the order of ranks, as
        `pairwise` has to see them, whichever came first.
        """
        return self._reduce_rows("all_to_all", x, count, count // self.size, dtype, op)

    def reduce_everywhere(self, x: int, count: int, dtype: np.dtype[Any], op: str) -> Any:
        """The reduction of ``count`` elements of all ranks, which every rank computes by itself."""
        return self._reduce_rows("all_gather", x, count, count, dtype, op)

    def _reduce_rows(self, name: str, x: int, count: int, part: int, dtype: np.dtype[Any], op: str) -> Any:
        backend, order, nbytes = self.operand.source.backend, self.order, part * dtype.itemsize
        slab = backend.empty((self.size * nbytes,), _BYTE, device=order.device, stream=order.stream)
        self.made.append(slab)
        call = DeviceCall(name, backend.view(slab).pointer, x, count * dtype.itemsize, _BYTE)
        # On the call's own stream: the kernels behind it run there, and an exchange beside it would need an event on
        # each side of them.
        self.driver.enqueue(call, order._replace(is_beside=False))
        return pairwise([backend.subarray(slab, k * nbytes, (part,), dtype) for k in range(self.size)], op, dtype)

    def over(self, pointer: int, count: int, dtype: np.dtype[Any]) -> Any:
        """A flat array inside the result."""
        backend = self.operand.source.backend
        return backend.over(pointer, (count,), dtype, device=self.order.device, owner=self.result.array)


class _Beside:
    """An operation beside the stream as a step: complete for the host at once, where the host may go on."""

    def __init__(self, enqueued: Enqueued, kept: Any) -> None:
        self._enqueued = enqueued
        self._kept = kept  # the memory that it reads and writes

    def wait(self, most_s: float) -> bool:
        if not most_s:
            return self._enqueued.is_done()
        self._enqueued.wait()
        return True


def _device_all_reduce(on: OnDevice, op: str, in_order: bool) -> Iterator[Pending]:
    array, info = on.readable_source()
    out, (dtype, count) = on.out.pointer, numbers(info, op)
    if not info.size:
        return
    if not in_order and on.driver.reduces(dtype, op):
        yield from on.enqueue(DeviceCall("all_reduce", out, info.pointer, count, dtype, op), array)
        return
    part = count // on.size
    main = part * on.size * dtype.itemsize
    with on.on_stream():
        rest = None
        if part * on.size < count:
            # What the ranks cannot share evenly, fewer elements than there are ranks. Read before ``out``, which may be
            # the same array, is written.
            rest = on.reduce_everywhere(info.pointer + main, count - part * on.size, dtype, op)
        if part:
            own = on.operand.source.backend.view(on.reduce_own_part(info.pointer, part * on.size, dtype, op))
            gather = DeviceCall("all_gather", out, own.pointer, part * dtype.itemsize, _BYTE)
            on.driver.enqueue(gather, on.order._replace(is_beside=False))
        if rest is not None:
            transfers.to_device(rest, out=on.over(out + main, count - part * on.size, dtype))


def _device_reduce_scatter(on: OnDevice, op: str) -> Iterator[Pending]:
    array, info = on.readable_source()
    out, (dtype, count) = on.out.pointer, numbers(info, op)
    if not info.size:
        return
    part = count // on.size
    if on.driver.reduces(dtype, op, "reduce_scatter"):
        yield from on.enqueue(DeviceCall("reduce_scatter", out, info.pointer, part, dtype, op), array)
        return
    with on.on_stream():
        transfers.to_device(on.reduce_own_part(info.pointer, count, dtype, op), out=on.over(out, part, dtype))


def _device_broadcast(on: OnDevice, root: int) -> Iterator[Pending]:
    out, given = on.out, on.operand.source.given
    if on.rank == root and on.result.array is not given:
        transfers.to_device(given, out=on.result.array, stream=on.operand.stream)
    if out.nbytes:
        yield from on.enqueue(DeviceCall("broadcast", out.pointer, out.pointer, out.nbytes, _BYTE, root))


def _device_exchange(name: str, *, may_be_same: bool) -> DeviceSteps:
    def steps(on: OnDevice) -> Iterator[Pending]:
        array, info = on.readable_source(may_be_same=may_be_same)
        if info.nbytes:
            yield from on.enqueue(DeviceCall(name, on.out.pointer, info.pointer, info.nbytes, _BYTE), array)

    return steps


def numbers(info: ArrayInfo, op: str) -> tuple[np.dtype[Any], int]:
    """The dtype in which the elements are reduced, and how many there are of it: see `as_numbers`."""
    dtype = as_numbers(np.empty(0, info.dtype), op).dtype
    return dtype, math.prod(info.shape) * info.dtype.itemsize // dtype.itemsize


# Reductions on devices that repeat an earlier one: arrays are compared with those of that call, not described anew.
#
# To describe and check two arrays takes longer than NCCL needs for 4 KiB; to compare them, a fraction of that.

_MOST = 256
"""Calls that are remembered: networks have about as many shapes."""


class Repeat(NamedTuple):
    """A checked call of `Communicator.all_reduce`, as its repetitions need it."""

    matches: Callable[..., bool]
    backend: Backend
    device: Device
    signature: Signature
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    nbytes: int
    number_count: int
    number_dtype: np.dtype[Any]
    """As `as_numbers` has it, and ``number_count`` elements of it."""
    op: str


class Repeats:
    """The reductions that one communicator has made on its devices, to be repeated."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._known: dict[type, dict[tuple[Any, ...], Repeat]] = {}

    def find(self, x: Any, op: Any, out: Any) -> Repeat | None:
        """Find an earlier call that differs from this one in addresses alone; None if there is none."""
        known = self._known.get(type(x))
        if known is None or type(op) is not str or (out is not None and type(out) is not type(x)):
            return None
        found = known.get((op, x.shape, _kind(x, out)))
        if found is None or not (found.matches(x) if out is None or out is x else found.matches(x, out)):
            return None
        return found

    def add(self, signature: Signature, on: OnDevice, op: str) -> None:
        """Remember a call of `all_reduce`, if the driver carried its arrays as they are, in one operation."""
        source, result = on.operand.source, on.result
        given, info = source.given, source.info
        assert info is not None
        dtype, count = numbers(info, op)
        if on.made or not info.nbytes or not on.driver.reduces(dtype, op):
            return
        out = result.array if result.is_given else None
        arrays = (given,) if out is None or out is given else (given, out)
        known = self._known.setdefault(type(given), {})
        if len(known) >= _MOST:
            known.clear()
        known[op, given.shape, _kind(given, out)] = Repeat(
            source.backend.matcher(arrays), source.backend, info.device, signature, info.shape, info.dtype,
            info.nbytes, count, dtype, op,
        )  # fmt: skip

    def run(self, repeat: Repeat, x: Any, out: Any) -> Any:
        """Make the call again.

        Returns:
            Its result; None, with nothing sent, where the arrays overlap in part.
        """
        group, backend, device = self._group, repeat.backend, repeat.device
        backend.attach(device)
        stream = backend.stream_current(device)
        if out is None:
            result = backend.empty(repeat.shape, repeat.dtype, device=device, stream=stream)
        else:
            result = out
        source, target = backend.operands((x, result))
        if source != target and abs(source - target) < repeat.nbytes:
            return None
        if out is not None:
            backend.note_write(out, "all_reduce: out")
        with group.lock:
            group.check_usable()
            driver, watch = group.device_driver, group.watch
            if driver is None or watch is None:  # another thread ends the process
                return None
            try:
                if group.open:
                    group.open.settle(all_of_them=False)
                watch.enters(group.begin(repeat.signature))
                try:
                    order = Order(device, stream, backend)
                    count, dtype = repeat.number_count, repeat.number_dtype
                    driver.enqueue(DeviceCall("all_reduce", target, source, count, dtype, repeat.op), order)
                except BaseException:
                    process.keep((x, result))  # the library may still read and write the memory
                    raise
                watch.leaves()
            except BaseException as error:
                group.fail(error)
                raise
        return result


def _kind(x: Any, out: Any) -> int:
    return 0 if out is None else 1 if out is x else 2


# A call, from the comparison with the other ranks to its result; and checks of arguments that need the group.

_MOST_TAG = 10_000


def begin(group: Group, signature: Signature) -> Call:
    """Compare a call with those of the other ranks; open operations of several steps are completed before it."""
    with group.lock:
        group.check_usable()
        with group.fail_on_error():
            if group.open:
                group.open.settle(all_of_them=False)
            return group.begin(signature)


def call(
    group: Group, name: str, x: Any, *choice: Any, out: Any, stream: Any, async_op: bool, repeats: Repeats | None = None
) -> Any:
    """Check the arguments of a collective, and take its steps.

    Args:
        group: Of the ranks.
        name: Of the collective, in `COLLECTIVES`.
        x, out, stream, async_op: As the user gave them.
        *choice: The operation, and whether it is made in the order of `pairwise`; or the root.
        repeats: The memory of calls like this one, where it may be added.
    """
    collective = COLLECTIVES[name]
    refuse_no_flag(async_op, f"{name}: async_op")
    operand = operand_of(x, name, stream)
    options = collective.check(group, operand, choice, name)
    result = Result(operand, collective.shape(group.size, operand.shape), out, name)
    is_on_device = group.check_device(operand, name)
    signature = Signature(name, operand.shape, operand.dtype_name, options, "device" if is_on_device else "host")
    # Generators, of which nothing runs before `run` below or the handle takes the first step: the calls are compared
    # first, and an array of another shape in one rank is never sent.
    steps = collective.host(group.driver, operand, result, *choice)
    if is_on_device:
        steps = _run_on_device(group, signature, operand, result, steps, choice, repeats, is_beside=async_op)
    array = result.array
    with group.lock:
        group.check_usable()
        try:  # as `begin` and `fail_on_error`, which take microseconds
            if group.open:
                group.open.settle(all_of_them=False)
            begun = group.begin(signature)
            if not async_op:
                group.run(steps, begun)
                return array
            handle = Collective(group, begun, steps, array)
            # One operation of the driver is begun at once, and later calls may pass it. Several must begin in the same
            # order in every rank: the next call completes them first.
            if is_on_device:
                handle.is_in_steps = group.device_driver is None  # which the first step may have made
            elif name == "all_reduce":
                op, in_order = choice
                is_one = is_one_step(group.driver, operand.dtype, op, operand.nbytes)
                handle.is_in_steps = in_order or operand.source.host is None or not is_one
            # Behind the handle's first step, which its constructor takes: if that raises, the group fails, and nothing
            # open is left to wait for.
            group.open.add(handle)
            return handle
        except BaseException as error:
            group.fail(error)
            raise


def _run_on_device(
    group: Group, signature: Signature, operand: Operand, result: Result, on_host: Iterator[Pending],
    choice: tuple[Any, ...], repeats: Repeats | None, *, is_beside: bool,
) -> Iterator[Pending]:  # fmt: skip
    """The steps on the group's devices; those of host memory where two ranks share a device."""
    call = Call(signature, group.count)
    driver = group.devices(operand, call)
    watch = group.watch
    if driver is None or watch is None:
        return (yield from on_host)
    on = OnDevice(driver, group.rank, group.size, operand, result, is_beside, [])
    watch.enters(call)
    try:
        for pending in COLLECTIVES[signature.name].device(on, *choice):
            watch.leaves()
            yield pending
            watch.enters(call)
        # Remembered behind the last step: a call that fails on the way is checked anew when it comes again.
        if repeats is not None:
            repeats.add(signature, on, choice[0])
    except BaseException:
        process.keep(on)  # the library may still read and write the memory
        raise
    watch.leaves()


def message(group: Group, signature: Signature, taken: Iterator[Pending]) -> None:
    """Take the steps of a message from rank to rank."""
    group.check_usable()
    group.messages += 1
    with group.fail_on_error():
        group.run(taken, Call(signature, group.messages, "message"))


def check_rank(group: Group, rank: Any, what: str) -> None:
    """Refuse a number that is no rank.

    Raises:
        ArgumentError: It is none.
    """
    found = whole(rank, least=0)
    if found is None or found >= group.size:
        raise ArgumentError(f"{what}={quote(rank)} is not a rank of {group.size}; give one from 0 to {group.size - 1}")


def check_peer(group: Group, rank: Any, tag: Any, what: str) -> None:
    """Refuse this rank itself, and a tag out of range.

    Raises:
        ArgumentError: Either, or no rank at all.
    """
    check_rank(group, rank, what)
    if int(rank) == group.rank:
        raise ArgumentError(f"{what}={group.rank} is this rank itself; give another one")
    if (found := whole(tag, least=0)) is None or found > _MOST_TAG:
        raise ArgumentError(f"tag={quote(tag)} is not a whole number from 0 to {_MOST_TAG}; give one")


def check_parts(group: Group, operand: Operand, call: str) -> None:
    """Refuse an array that has not one part for each rank.

    Raises:
        LayoutError: Its first axis is of another length.
    """
    if not operand.shape or operand.shape[0] != group.size:
        raise LayoutError(
            f"{call}: x has shape {operand.shape}, but its first axis has one part for each of the {group.size} "
            f"ranks; reshape it to ({group.size}, ...)"
        )


# The steps of each collective, between which the communicator waits: the same for blocking and asynchronous calls.

_HEADER_NBYTES = 256
_TAGS = 3
"""Of a message: its data, its header, and the answer to that."""


def _fill_host(steps: Callable[..., Iterator[Pending]], *, in_place: bool = False) -> HostSteps:
    """The steps of a collective that fills ``out`` from ``x``, both flat; ``in_place``: which may be the same."""

    def on_host(driver: Driver, operand: Operand, result: Result, *choice: Any) -> Iterator[Pending]:
        x = operand.load()
        out = result.buffer(x if in_place else _NOTHING)
        if x.size:
            # Drivers know by identity that they work in place. Where the arrays overlap in part, a driver that stores
            # one part before it has read the next would read its own results.
            yield from steps(driver, out, x if out is x else separate(x, out), *choice)
        result.store(out)

    return on_host


def _host_broadcast(driver: Driver, operand: Operand, result: Result, root: int) -> Iterator[Pending]:
    if driver.rank == root:
        x = operand.load()
        out = result.buffer(x)
        if out is not x:
            out[...] = separate(x, out)
    else:
        out = result.buffer(_NOTHING)
    if out.size:
        yield driver.broadcast(out, root)
    # The root's own array holds the elements already: storing them would copy it over itself.
    if driver.rank != root or result.array is not operand.source.given:
        result.store(out)


_NOTHING = np.empty(0, np.uint8)


# The table of collectives, by which `call` checks their arguments and takes their steps.


class CollectiveKind(NamedTuple):
    """One collective: its checks, its shape and its steps."""

    shape: Callable[[int, Shape], Shape]
    """The result's shape, from the number of ranks and the shape of ``x``."""
    host: HostSteps
    device: DeviceSteps
    choice: str = ""
    """``"op"``, ``"root"`` or nothing."""
    has_parts: bool = False
    """Whether the first axis of ``x`` has one part for each rank."""

    def check(self, group: Group, operand: Operand, choice: tuple[Any, ...], name: str) -> str:
        """Check the choice and the parts; return their text, which must be the same in every rank."""
        if self.choice == "op":
            check_op(choice[0], operand.dtype, name)
        if self.has_parts:
            check_parts(group, operand, name)
        is_in_order = len(choice) > 1 and choice[1]
        return (f"{self.choice}={choice[0]!r}" if choice else "") + (", reproducible=True" if is_in_order else "")


COLLECTIVES = {
    "all_reduce": CollectiveKind(
        lambda size, shape: shape, _fill_host(reduce_in_order, in_place=True), _device_all_reduce, "op"
    ),
    "broadcast": CollectiveKind(lambda size, shape: shape, _host_broadcast, _device_broadcast, "root"),
    "all_gather": CollectiveKind(
        lambda size, shape: (size, *shape),
        _fill_host(lambda driver, out, x: iter((driver.all_gather(out, x),))),
        _device_exchange("all_gather", may_be_same=True),
    ),
    "reduce_scatter": CollectiveKind(
        lambda size, shape: shape[1:], _fill_host(scatter_in_order), _device_reduce_scatter, "op", has_parts=True
    ),
    "all_to_all": CollectiveKind(
        lambda size, shape: shape,
        _fill_host(lambda driver, out, x: iter((driver.all_to_all(out, x),))),
        _device_exchange("all_to_all", may_be_same=False),
        has_parts=True,
    ),
}


# Messages from rank to rank.


def send(driver: Driver, operand: Operand, dest: int, tag: int, described: str | None) -> Iterator[Pending]:
    """Send a header, wait for the answer, and send the data.

    Raises:
        MismatchError: The receiver expects another array; nothing was sent.
    """
    if described is not None:
        # The header needs an answer before the data go: a receive of fewer bytes than come is an error that ends the
        # job in MPI, and closes the connection in gloo.
        answer = np.empty(_HEADER_NBYTES, np.uint8)
        yield driver.send(_header(described), dest, _TAGS * tag + 1)
        yield driver.recv(answer, dest, _TAGS * tag + 2)
        _compare(f"rank {driver.rank} sends {described}", f"rank {dest} expects", _text(answer), described)
    x = operand.load()
    if x.size:
        yield driver.send(x, dest, _TAGS * tag)


def recv(driver: Driver, result: Result, source: int, tag: int, described: str | None) -> Iterator[Pending]:
    """Answer a header, and receive the data.

    Raises:
        MismatchError: The sender has another array; nothing was sent.
    """
    if described is not None:
        header = np.empty(_HEADER_NBYTES, np.uint8)
        yield driver.recv(header, source, _TAGS * tag + 1)
        yield driver.send(_header(described), source, _TAGS * tag + 2)
        _compare(f"rank {driver.rank} expects {described}", f"rank {source} sends", _text(header), described)
    out = result.buffer(_NOTHING)
    if out.size:
        yield driver.recv(out, source, _TAGS * tag)
    result.store(out)


def _header(text: str) -> HostArray:
    return np.frombuffer(text.encode()[:_HEADER_NBYTES].ljust(_HEADER_NBYTES, b"\0"), np.uint8).copy()


def _text(header: HostArray) -> str:
    return header.tobytes().rstrip(b"\0").decode(errors="replace")


def _compare(own: str, other: str, told: str, described: str) -> None:
    if told != _text(_header(described)):
        raise MismatchError(f"{own}, but {other} {told}; nothing was sent; give both arrays the same shape and dtype")
