"""Correct programs of several streams, each synchronisation deletable: the subjects of the mutation study.

A program takes `sync`: ``sync("label", call)`` makes the call unless that label is the deleted one, and ``sync.n`` is
how many elements its arrays have. It returns what it computed. Host reads of memory that devices write are declared.
They run on every backend with streams: what they compute, kernels of `xferlib.elementwise` do.
"""

from __future__ import annotations

import itertools
import operator as op
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

import xferlib as xl
from xferlib import sim

Array = np.ndarray[Any, Any]


class Sync(Protocol):
    """Makes synchronisations, or all but one."""

    n: int

    def __call__(self, label: str, call: Callable[[], Any]) -> None: ...


Program = Callable[[Sync], list[Array]]
PROGRAMS: dict[str, Program] = {}
ON_TWO_DEVICES: set[str] = set()


def program(function: Program) -> Program:
    PROGRAMS[function.__name__.replace("_", " ")] = function
    return function


def on_two_devices(function: Program) -> Program:
    ON_TWO_DEVICES.add(function.__name__.replace("_", " "))
    return program(function)


@xl.elementwise
def _product(x: Any, y: Any) -> Any:
    return x * y


@xl.elementwise
def _sum(x: Any, y: Any) -> Any:
    return x + y


def _computed(operator: Callable[[Any, Any], Any], kernel: Any, x: Any, y: Any, out: Any) -> Any:
    """By the library's own operator, in place if ``out`` is ``x``; PyCUDA's do not follow streams: by a kernel."""
    if xl.get_backend(x).name == "pycuda":
        return kernel(x, y, out=out) if out is not None else kernel(x, y)
    return operator(x, y)


def times(x: Any, y: Any, out: Any = None) -> Any:
    return _computed(op.mul if out is None else op.imul, _product, x, y, out)


def plus(x: Any, y: Any, out: Any = None) -> Any:
    return _computed(op.add if out is None else op.iadd, _sum, x, y, out)


def pinned(sync: Sync, value: float) -> Array:
    array = xl.pinned_empty(sync.n)
    array.fill(value)
    return array


def host_reads(array: Array) -> None:
    if xl.get_backend().name == "sim":
        sim.reads(array)


def host_writes(array: Array) -> None:
    if xl.get_backend().name == "sim":
        sim.writes(array)


def taken(*arrays: Array) -> list[Array]:
    """The values of pinned arrays, read here: those that come last first, which are the likeliest to be late."""
    for array in reversed(arrays):
        host_reads(array)
    return [array.copy() for array in reversed(arrays)][::-1]


@program
def double_buffered_pipeline(sync: Sync) -> list[Array]:
    """Two device buffers in turn, copied in, doubled and copied out by a stream each."""
    up, work, down = xl.Stream(), xl.Stream(), xl.Stream()
    sources = [pinned(sync, value) for value in (1.0, 2.0, 3.0, 4.0)]
    results = [xl.pinned_empty(sync.n) for _ in sources]
    buffers = [xl.empty(sync.n), xl.empty(sync.n)]
    xl.synchronize()
    drained: list[xl.Event | None] = [None, None]
    for number, source in enumerate(sources):
        buffer, event = buffers[number % 2], drained[number % 2]
        if event is not None:
            sync("copy in waits until the buffer is drained", lambda event=event: up.wait(event))
        xl.to_device(source, out=buffer, stream=up)
        sync("kernel waits for the copy in", lambda: work.wait(up))
        with work:
            times(buffer, 2.0, out=buffer)
        sync("copy out waits for the kernel", lambda: down.wait(work))
        xl.to_host_async(buffer, out=results[number], stream=down)
        drained[number % 2] = down.record()
    sync("host waits for the last copy out", down.synchronize)
    found = taken(*results)
    xl.synchronize()
    return found


@program
def prefetch_of_batches(sync: Sync) -> list[Array]:
    """Batch k+1 is copied while batch k trains a weight."""
    copies, train = xl.Stream(), xl.Stream()
    with train:
        weight = xl.zeros(sync.n)
    ahead = xl.to_device(pinned(sync, 1.0), stream=copies)
    ready = copies.record()
    for value in (2.0, 3.0, None):
        batch, arrived = ahead, ready
        if value is not None:
            ahead = xl.to_device(pinned(sync, value), stream=copies)
            ready = copies.record()
        sync("training waits for its batch", lambda arrived=arrived: train.wait(arrived))
        with train:
            times(weight, 0.5, out=weight)
            plus(weight, batch, out=weight)
        sync("the batch outlives its use", lambda: copies.wait(train))
    return [xl.to_host(weight, stream=train)]


@program
def out_of_core_map(sync: Sync) -> list[Array]:
    """A ring of two pinned chunks each way: filled and emptied by the host between copies."""
    streams = [xl.Stream(), xl.Stream()]
    inward, outward = [pinned(sync, 0.0), pinned(sync, 0.0)], [pinned(sync, 0.0), pinned(sync, 0.0)]
    result = []
    for number in range(4):
        slot, stream = number % 2, streams[number % 2]
        if number >= 2:
            sync("host waits before it empties a slot", stream.synchronize)
            result += taken(outward[slot])
        host_writes(inward[slot])
        inward[slot].fill(number + 1)
        device = xl.to_device(inward[slot], stream=stream)
        with stream:
            plus(device, 0.5, out=device)
        xl.to_host_async(device, out=outward[slot], stream=stream)
    sync("host waits for the first of the last slots", streams[0].synchronize)
    result += taken(outward[0])
    sync("host waits for the second of the last slots", streams[1].synchronize)
    return result + taken(outward[1])


@on_two_devices
def split_over_two_devices(sync: Sync) -> list[Array]:
    """Each device sums half; the second half travels to the first device and is added there."""
    one, two = xl.Stream(0), xl.Stream(1)
    left = xl.to_device(pinned(sync, 3.0), stream=one)
    right = xl.to_device(pinned(sync, 4.0), stream=two)
    with two:
        times(right, 10.0, out=right)
    sync("the copy between devices waits for the second device", lambda: one.wait(two))
    with xl.Device(1):
        moved = xl.to_device(right, device=0, stream=one)
    with one:
        plus(left, moved, out=left)
    out = xl.pinned_empty(sync.n)
    xl.to_host_async(left, out=out, stream=one)
    sync("host waits for the sum", one.synchronize)
    return taken(out)


@program
def ring_of_pinned_buffers(sync: Sync) -> list[Array]:
    """The host refills a pinned buffer when the copy from it has passed."""
    stream = xl.Stream()
    ring = [pinned(sync, 0.0) for _ in range(3)]
    passed: list[xl.Event | None] = [None, None, None]
    total = xl.zeros(sync.n)
    xl.synchronize()
    for number in range(7):
        slot = number % 3
        event = passed[slot]
        if event is not None:
            sync("host waits before it refills a buffer", event.synchronize)
        host_writes(ring[slot])
        ring[slot].fill(2.0**number)
        batch = xl.to_device(ring[slot], stream=stream)
        passed[slot] = stream.record()
        with stream:
            plus(total, batch, out=total)
    return [xl.to_host(total, stream=stream)]


@program
def chain_of_events(sync: Sync) -> list[Array]:
    """Four streams, each behind the one before by an event."""
    streams = [xl.Stream() for _ in range(4)]
    x = xl.to_device(pinned(sync, 1.0), stream=streams[0])
    for number, (before, after) in enumerate(itertools.pairwise(streams)):
        event = before.record()
        sync(f"stream {number + 2} waits for stream {number + 1}", lambda e=event, s=after: s.wait(e))
        with after:
            times(x, float(number + 2), out=x)
            plus(x, 1.0, out=x)
    out = xl.pinned_empty(sync.n)
    xl.to_host_async(x, out=out, stream=streams[-1])
    last = streams[-1].record()
    sync("host waits for the last event", last.synchronize)
    found = taken(out)
    xl.synchronize()
    return found


@program
def legacy_and_non_blocking_streams(sync: Sync) -> list[Array]:
    """A blocking stream and the legacy one order each other; the non-blocking one has to be told."""
    blocking, apart = xl.Stream(non_blocking=False), xl.Stream()
    x = xl.ones(sync.n)
    with blocking:
        plus(x, 1.0, out=x)
    times(x, 3.0, out=x)
    sync("non-blocking stream waits for the legacy one", lambda: apart.wait(xl.current_stream()))
    with apart:
        plus(x, 4.0, out=x)
    sync("legacy stream waits for the non-blocking one", lambda: xl.current_stream().wait(apart))
    times(x, 5.0, out=x)
    with blocking:
        y = plus(x, 1.0)
    return [xl.to_host(y, stream=blocking)]


@program
def fork_and_join(sync: Sync) -> list[Array]:
    """One producer, two consumers, one join."""
    source, left, right = xl.Stream(), xl.Stream(), xl.Stream()
    x = xl.to_device(pinned(sync, 2.0), stream=source)
    made = source.record()
    sync("left consumer waits for the producer", lambda: left.wait(made))
    with left:
        a = times(x, 3.0)
    sync("right consumer waits for the producer", lambda: right.wait(made))
    with right:
        b = plus(x, 5.0)
    sync("join waits for the left consumer", lambda: source.wait(left))
    sync("join waits for the right consumer", lambda: source.wait(right))
    with source:
        c = plus(a, times(b, -1.0))
    found = [xl.to_host(c, stream=source)]
    xl.synchronize()
    return found


@program
def tree_reduction(sync: Sync) -> list[Array]:
    """Four streams fill a part each; pairs are added, then the pairs' sums."""
    streams = [xl.Stream() for _ in range(4)]
    parts = [xl.to_device(pinned(sync, 10.0**n), stream=stream) for n, stream in enumerate(streams)]
    sync("first pair", lambda: streams[0].wait(streams[1]))
    with streams[0]:
        plus(parts[0], parts[1], out=parts[0])
    sync("second pair", lambda: streams[2].wait(streams[3]))
    with streams[2]:
        plus(parts[2], parts[3], out=parts[2])
    sync("pair of pairs", lambda: streams[0].wait(streams[2]))
    with streams[0]:
        plus(parts[0], parts[2], out=parts[0])
    found = [xl.to_host(parts[0], stream=streams[0])]
    xl.synchronize()
    return found


@on_two_devices
def halo_exchange(sync: Sync) -> list[Array]:
    """Two devices step in turn and hand their edge to the other between steps."""
    streams = [xl.Stream(0), xl.Stream(1)]
    cells = [xl.to_device(pinned(sync, n + 1.0), stream=stream) for n, stream in enumerate(streams)]
    for stream in streams:
        stream.synchronize()
    for _ in range(2):
        halos = []
        for mine, other, label in ((0, 1, "first"), (1, 0, "second")):
            sync(f"{label} device waits for its neighbour's step", lambda m=mine, o=other: streams[m].wait(streams[o]))
            with xl.Device(mine):
                halos.append(xl.to_device(cells[other], device=mine, stream=streams[mine]))
        for mine, other, label in ((0, 1, "first"), (1, 0, "second")):
            label = f"{label} device waits until its cells are copied"
            sync(label, lambda m=mine, o=other: streams[m].wait(streams[o]))
            with streams[mine]:
                plus(cells[mine], times(halos[mine], 0.25), out=cells[mine])
    found = [xl.to_host(each, stream=stream) for each, stream in zip(cells, streams, strict=True)]
    xl.synchronize(0)
    xl.synchronize(1)
    return found


@program
def parameters_updated_behind_readers(sync: Sync) -> list[Array]:
    """Readers on two streams, then a new value written over what they read."""
    writer, one, two = xl.Stream(), xl.Stream(), xl.Stream()
    weights = xl.to_device(pinned(sync, 1.0), stream=writer)
    writer.synchronize()
    with one:
        a = times(weights, 2.0)
    with two:
        b = times(weights, 3.0)
    sync("the update waits for the first reader", lambda: writer.wait(one))
    sync("the update waits for the second reader", lambda: writer.wait(two))
    xl.to_device(pinned(sync, 100.0), out=weights, stream=writer)
    sync("the third reader waits for the update", lambda: one.wait(writer))
    with one:
        plus(a, weights, out=a)
    found = [xl.to_host(a, stream=one), xl.to_host(b, stream=two)]
    xl.synchronize()
    return found


@program
def checkpoint_while_training(sync: Sync) -> list[Array]:
    """The state is copied out while the next step computes, which must not overwrite it meanwhile."""
    train, save = xl.Stream(), xl.Stream()
    state = xl.to_device(pinned(sync, 1.0), stream=train)
    saved = [xl.pinned_empty(sync.n) for _ in range(3)]
    for number in range(3):
        with train:
            gradient = times(state, 0.5)
        sync("the copy waits for the step", lambda: save.wait(train))
        xl.to_host_async(state, out=saved[number], stream=save)
        sync("the update waits for the copy", lambda: train.wait(save))
        with train:
            plus(state, gradient, out=state)
    sync("host waits for the checkpoints", save.synchronize)
    found = taken(*saved)
    xl.synchronize()
    return found


@program
def asynchronous_transfers(sync: Sync) -> list[Array]:
    """`to_device_async` and `to_host_async` with their own streams; transfers are waited for."""
    work = xl.Stream()
    x = xl.empty(sync.n)
    y = xl.empty(sync.n)
    xl.synchronize()
    one, two = xl.to_device_async(pinned(sync, 6.0), out=x), xl.to_device_async(pinned(sync, 7.0), out=y)
    sync("kernel waits for the first transfer", lambda: work.wait(one))
    sync("kernel waits for the second transfer", lambda: work.wait(two))
    with work:
        z = times(x, y)
    out = xl.pinned_empty(sync.n)
    down = xl.to_host_async(z, out=out, stream=work)
    sync("host waits for the result", down.result)
    found = taken(out)
    xl.synchronize()
    return found


@program
def array_freed_behind_its_last_use(sync: Sync) -> list[Array]:
    """A temporary of one stream is read by another; its memory must not be reused before that."""
    owner, reader = xl.Stream(), xl.Stream()
    total = xl.zeros(sync.n)
    xl.synchronize()
    for value in (1.0, 2.0):
        temporary = xl.to_device(pinned(sync, value), stream=owner)
        sync("reader waits for the temporary", lambda: reader.wait(owner))
        with reader:
            plus(total, temporary, out=total)
        sync("the memory's stream waits for the reader", lambda: owner.wait(reader))
        del temporary
    return [xl.to_host(total, stream=reader)]


@program
def prefetched_batches_on_a_stream_of_their_own(sync: Sync) -> list[Array]:
    """`prefetch` orders a batch on the stream that is current where it is asked for; the work is on another."""
    train = xl.Stream()
    with train:
        weight = xl.zeros(sync.n)
    current = xl.current_stream()
    for batch in xl.prefetch([pinned(sync, value) for value in (1.0, 2.0, 3.0, 4.0)]):
        sync("training waits for the stream that has the batch", lambda: train.wait(current))
        with train:
            times(weight, 0.5, out=weight)
            plus(weight, batch, out=weight)
        sync("the batch outlives its use", lambda: current.wait(train))
    return [xl.to_host(weight, stream=train)]


@program
def prefetched_batches_from_a_generator(sync: Sync) -> list[Array]:
    """The thread of `prefetch` reads a generator ahead, which fills one buffer; results leave by a stream of theirs."""
    save = xl.Stream()
    buffer = xl.pinned_empty(sync.n)
    saved = [xl.pinned_empty(sync.n) for _ in range(3)]

    def source() -> Iterator[Array]:
        for value in (1.0, 2.0, 3.0):
            buffer.fill(value)
            yield buffer

    for number, batch in enumerate(xl.prefetch(source())):
        result = times(batch, 10.0)
        current = xl.current_stream()
        sync("the copy out waits for the kernel", lambda current=current: save.wait(current))
        xl.to_host_async(result, out=saved[number], stream=save)
        sync("the result outlives its copy", lambda current=current: current.wait(save))
    sync("host waits for the copies out", save.synchronize)
    found = taken(*saved)
    xl.synchronize()
    return found


@program
def out_of_core_map_by_stream_map(sync: Sync) -> list[Array]:
    """`stream_map` orders chunks and results on the stream that is current in the function; the work is on another."""
    work = xl.Stream()
    source = np.concatenate([np.full(sync.n, value) for value in (1.0, 2.0, 3.0, 4.0)])

    def fn(chunk: Any) -> Any:
        current = xl.current_stream()
        sync("the work waits for the chunk", lambda: work.wait(current))
        with work:
            result = times(chunk, 10.0)
            plus(result, 0.5, out=result)
        sync("the copy out waits for the work", lambda: current.wait(work))
        return result

    return [xl.stream_map(fn, source, chunk_rows=sync.n)]
