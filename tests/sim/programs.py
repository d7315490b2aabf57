"""Correct programs of several streams, each synchronisation deletable: the subjects of the mutation study.

A program takes `sync`: ``sync("label", call)`` makes the call unless that label is the deleted one.
It returns what it computed. Host reads of memory that devices write are declared with `sim.reads`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import xferlib as xl
from xferlib import sim

Array = np.ndarray[Any, Any]
Sync = Callable[[str, Callable[[], Any]], None]
Program = Callable[[Sync], list[Array]]

N = 1 << 14  # float64: 128 KiB, above the size that is copied before the call returns
PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    PROGRAMS[function.__name__.replace("_", " ")] = function
    return function


def pinned(value: float) -> Array:
    array = xl.pinned_empty(N)
    array.fill(value)
    return array


def taken(*arrays: Array) -> list[Array]:
    """The values of pinned arrays, read here."""
    for array in arrays:
        sim.reads(array)
    return [array.copy() for array in arrays]


@program
def double_buffered_pipeline(sync: Sync) -> list[Array]:
    """Two device buffers in turn, copied in, doubled and copied out by a stream each."""
    up, work, down = xl.Stream(), xl.Stream(), xl.Stream()
    sources = [pinned(value) for value in (1.0, 2.0, 3.0, 4.0)]
    results = [xl.pinned_empty(N) for _ in sources]
    buffers = [xl.empty(N), xl.empty(N)]
    xl.synchronize()
    drained: list[xl.Event | None] = [None, None]
    for number, source in enumerate(sources):
        buffer, event = buffers[number % 2], drained[number % 2]
        if event is not None:
            sync("copy in waits until the buffer is drained", lambda event=event: up.wait(event))
        xl.to_device(source, out=buffer, stream=up)
        sync("kernel waits for the copy in", lambda: work.wait(up))
        with work:
            buffer *= 2.0
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
        weight = xl.zeros(N)
    ahead = xl.to_device(pinned(1.0), stream=copies)
    ready = copies.record()
    for value in (2.0, 3.0, None):
        batch, arrived = ahead, ready
        if value is not None:
            ahead = xl.to_device(pinned(value), stream=copies)
            ready = copies.record()
        sync("training waits for its batch", lambda arrived=arrived: train.wait(arrived))
        with train:
            weight *= 0.5
            weight += batch
        sync("the batch outlives its use", lambda: copies.wait(train))
    return [xl.to_host(weight, stream=train)]


@program
def out_of_core_map(sync: Sync) -> list[Array]:
    """A ring of two pinned chunks each way: filled and emptied by the host between copies."""
    streams = [xl.Stream(), xl.Stream()]
    inward, outward = [pinned(0.0), pinned(0.0)], [pinned(0.0), pinned(0.0)]
    result = []
    for number in range(4):
        slot, stream = number % 2, streams[number % 2]
        if number >= 2:
            sync("host waits before it empties a slot", stream.synchronize)
            result += taken(outward[slot])
        sim.writes(inward[slot])
        inward[slot].fill(number + 1)
        device = xl.to_device(inward[slot], stream=stream)
        with stream:
            device += 0.5
        xl.to_host_async(device, out=outward[slot], stream=stream)
    sync("host waits for the first of the last slots", streams[0].synchronize)
    result += taken(outward[0])
    sync("host waits for the second of the last slots", streams[1].synchronize)
    return result + taken(outward[1])


@program
def split_over_two_devices(sync: Sync) -> list[Array]:
    """Each device sums half; the second half travels to the first device and is added there."""
    one, two = xl.Stream("sim:0"), xl.Stream("sim:1")
    left = xl.to_device(pinned(3.0), stream=one)
    right = xl.to_device(pinned(4.0), stream=two)
    with two:
        right *= 10.0
    sync("the copy between devices waits for the second device", lambda: one.wait(two))
    with xl.Device("sim:1"):
        moved = xl.to_device(right, device="sim:0", stream=one)
    with one:
        left += moved
    out = xl.pinned_empty(N)
    xl.to_host_async(left, out=out, stream=one)
    sync("host waits for the sum", one.synchronize)
    return taken(out)


@program
def ring_of_pinned_buffers(sync: Sync) -> list[Array]:
    """The host refills a pinned buffer when the copy from it has passed."""
    stream = xl.Stream()
    ring = [pinned(0.0) for _ in range(3)]
    passed: list[xl.Event | None] = [None, None, None]
    total = xl.zeros(N)
    xl.synchronize()
    for number in range(7):
        slot = number % 3
        event = passed[slot]
        if event is not None:
            sync("host waits before it refills a buffer", event.synchronize)
        sim.writes(ring[slot])
        ring[slot].fill(2.0**number)
        batch = xl.to_device(ring[slot], stream=stream)
        passed[slot] = stream.record()
        with stream:
            total += batch
    return [xl.to_host(total, stream=stream)]


@program
def chain_of_events(sync: Sync) -> list[Array]:
    """Four streams, each behind the one before by an event."""
    streams = [xl.Stream() for _ in range(4)]
    x = xl.to_device(pinned(1.0), stream=streams[0])
    for number, (before, after) in enumerate(itertools.pairwise(streams)):
        event = before.record()
        sync(f"stream {number + 2} waits for stream {number + 1}", lambda e=event, s=after: s.wait(e))
        with after:
            x *= float(number + 2)
            x += 1.0
    out = xl.pinned_empty(N)
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
    x = xl.ones(N)
    with blocking:
        x += 1.0
    x *= 3.0
    sync("non-blocking stream waits for the legacy one", lambda: apart.wait(xl.current_stream()))
    with apart:
        x += 4.0
    sync("legacy stream waits for the non-blocking one", lambda: xl.current_stream().wait(apart))
    x *= 5.0
    with blocking:
        y = x + 1.0
    return [xl.to_host(y, stream=blocking)]


@program
def fork_and_join(sync: Sync) -> list[Array]:
    """One producer, two consumers, one join."""
    source, left, right = xl.Stream(), xl.Stream(), xl.Stream()
    x = xl.to_device(pinned(2.0), stream=source)
    made = source.record()
    sync("left consumer waits for the producer", lambda: left.wait(made))
    with left:
        a = x * 3.0
    sync("right consumer waits for the producer", lambda: right.wait(made))
    with right:
        b = x + 5.0
    sync("join waits for the left consumer", lambda: source.wait(left))
    sync("join waits for the right consumer", lambda: source.wait(right))
    with source:
        c = a - b
    found = [xl.to_host(c, stream=source)]
    xl.synchronize()
    return found


@program
def tree_reduction(sync: Sync) -> list[Array]:
    """Four streams fill a part each; pairs are added, then the pairs' sums."""
    streams = [xl.Stream() for _ in range(4)]
    parts = [xl.to_device(pinned(10.0**n), stream=stream) for n, stream in enumerate(streams)]
    sync("first pair", lambda: streams[0].wait(streams[1]))
    with streams[0]:
        parts[0] += parts[1]
    sync("second pair", lambda: streams[2].wait(streams[3]))
    with streams[2]:
        parts[2] += parts[3]
    sync("pair of pairs", lambda: streams[0].wait(streams[2]))
    with streams[0]:
        parts[0] += parts[2]
    found = [xl.to_host(parts[0], stream=streams[0])]
    xl.synchronize()
    return found


@program
def halo_exchange(sync: Sync) -> list[Array]:
    """Two devices step in turn and hand their edge to the other between steps."""
    streams = [xl.Stream("sim:0"), xl.Stream("sim:1")]
    cells = [xl.to_device(pinned(n + 1.0), stream=stream) for n, stream in enumerate(streams)]
    for stream in streams:
        stream.synchronize()
    for _ in range(2):
        halos = []
        for mine, other, label in ((0, 1, "first"), (1, 0, "second")):
            sync(f"{label} device waits for its neighbour's step", lambda m=mine, o=other: streams[m].wait(streams[o]))
            with xl.Device(f"sim:{mine}"):
                halos.append(xl.to_device(cells[other], device=f"sim:{mine}", stream=streams[mine]))
        for mine, other, label in ((0, 1, "first"), (1, 0, "second")):
            label = f"{label} device waits until its cells are copied"
            sync(label, lambda m=mine, o=other: streams[m].wait(streams[o]))
            with streams[mine]:
                cells[mine] += 0.25 * halos[mine]
    found = [xl.to_host(each, stream=stream) for each, stream in zip(cells, streams, strict=True)]
    xl.synchronize("sim:0")
    xl.synchronize("sim:1")
    return found


@program
def parameters_updated_behind_readers(sync: Sync) -> list[Array]:
    """Readers on two streams, then a new value written over what they read."""
    writer, one, two = xl.Stream(), xl.Stream(), xl.Stream()
    weights = xl.to_device(pinned(1.0), stream=writer)
    writer.synchronize()
    with one:
        a = weights * 2.0
    with two:
        b = weights * 3.0
    sync("the update waits for the first reader", lambda: writer.wait(one))
    sync("the update waits for the second reader", lambda: writer.wait(two))
    xl.to_device(pinned(100.0), out=weights, stream=writer)
    sync("the third reader waits for the update", lambda: one.wait(writer))
    with one:
        a += weights
    found = [xl.to_host(a, stream=one), xl.to_host(b, stream=two)]
    xl.synchronize()
    return found


@program
def checkpoint_while_training(sync: Sync) -> list[Array]:
    """The state is copied out while the next step computes, which must not overwrite it meanwhile."""
    train, save = xl.Stream(), xl.Stream()
    state = xl.to_device(pinned(1.0), stream=train)
    saved = [xl.pinned_empty(N) for _ in range(3)]
    for number in range(3):
        with train:
            gradient = state * 0.5
        sync("the copy waits for the step", lambda: save.wait(train))
        xl.to_host_async(state, out=saved[number], stream=save)
        sync("the update waits for the copy", lambda: train.wait(save))
        with train:
            state += gradient
    sync("host waits for the checkpoints", save.synchronize)
    found = taken(*saved)
    xl.synchronize()
    return found


@program
def asynchronous_transfers(sync: Sync) -> list[Array]:
    """`to_device_async` and `to_host_async` with their own streams; transfers are waited for."""
    work = xl.Stream()
    x = xl.empty(N)
    y = xl.empty(N)
    xl.synchronize()
    one, two = xl.to_device_async(pinned(6.0), out=x), xl.to_device_async(pinned(7.0), out=y)
    sync("kernel waits for the first transfer", lambda: work.wait(one))
    sync("kernel waits for the second transfer", lambda: work.wait(two))
    with work:
        z = x * y
    out = xl.pinned_empty(N)
    down = xl.to_host_async(z, out=out, stream=work)
    sync("host waits for the result", down.result)
    found = taken(out)
    xl.synchronize()
    return found


@program
def array_freed_behind_its_last_use(sync: Sync) -> list[Array]:
    """A temporary of one stream is read by another; its memory must not be reused before that."""
    owner, reader = xl.Stream(), xl.Stream()
    total = xl.zeros(N)
    xl.synchronize()
    for value in (1.0, 2.0):
        temporary = xl.to_device(pinned(value), stream=owner)
        sync("reader waits for the temporary", lambda: reader.wait(owner))
        with reader:
            total += temporary
        sync("the memory's stream waits for the reader", lambda: owner.wait(reader))
        del temporary
    return [xl.to_host(total, stream=reader)]
