"""Training loops that are measured against each other: the same batches, the same kernel, different copying.

Every loop computes on each batch with a kernel whose time can be set, and adds the batch to a sum that is
checked afterwards: a loop that computes on half-copied data is found out.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np

import xferlib as xl

HostArray = np.ndarray[Any, Any]
Work = Callable[[Any], None]

_SOURCE = """
extern "C" __global__ void work(float* sum, const float* x, long long n, long long rounds, float one, float zero) {
    const long long stride = (long long)gridDim.x * blockDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += stride) {
        float v = x[i];
        for (long long k = 0; k < rounds; ++k) v = __fmaf_rn(v, one, zero);
        sum[i] += v;
    }
}
"""
_BLOCKS, _THREADS = 132 * 8, 256


class Compute(Protocol):
    """Work on a batch that takes a given time, and adds the batch to a sum."""

    rounds: int

    def __call__(self, batch: Any) -> None: ...
    def seconds(self, times: int = ...) -> float: ...
    def take(self, seconds: float) -> None: ...
    def check(self, expected: HostArray) -> None: ...


def compute_on(place: xl.Device, elements: int) -> Compute:
    """Return the work on batches of ``elements`` float32 values on a device."""
    return HostCompute(elements) if place.kind == "cpu" else DeviceCompute(place, elements)


def summed(batches: Sequence[HostArray]) -> HostArray:
    """Sum batches, some of which are the same object."""
    total = np.zeros(batches[0].size, np.float32)
    for batch, count in Counter(map(id, batches)).items():
        total += next(each for each in batches if id(each) == batch).reshape(-1) * np.float32(count)
    return total


def check_sum(found: HostArray, expected: HostArray) -> None:
    """Check that a sum is that of the batches, times the number of epochs.

    Raises:
        AssertionError: A batch was lost, or computed on before it was there.
    """
    epochs = round(float(found[:: found.size // 64].sum() / expected[:: found.size // 64].sum()))
    assert epochs > 0
    np.testing.assert_array_equal(found, expected * np.float32(epochs))


class HostCompute:
    """NumPy on the host, a pass over the batch a round."""

    def __init__(self, elements: int) -> None:
        self._sum = np.zeros(elements, np.float32)
        self._scratch = np.zeros(elements, np.float32)
        self.rounds = 0

    def __call__(self, batch: Any) -> None:
        values = np.asarray(batch).reshape(-1)
        for _ in range(self.rounds):
            np.sqrt(values, out=self._scratch)
        self._sum += values

    def seconds(self, times: int = 3) -> float:
        batch = np.zeros(self._sum.size, np.float32)
        start = time.perf_counter()
        for _ in range(times):
            self(batch)
        return (time.perf_counter() - start) / times

    def take(self, seconds: float) -> None:
        self.rounds = 0
        base = self.seconds()
        self.rounds = 4
        self.rounds = max(0, round((seconds - base) / ((self.seconds() - base) / self.rounds)))

    def check(self, expected: HostArray) -> None:
        found, self._sum = self._sum, np.zeros_like(self._sum)
        check_sum(found, expected)


class DeviceCompute:
    """A kernel that reads a batch, works for a given time, and adds the batch to a sum.

    Args:
        place: A CUDA device; its backend's arrays are computed on.
        elements: float32 values of a batch.
    """

    def __init__(self, place: xl.Device, elements: int) -> None:
        self._place = place
        self._elements = elements
        self._kernel = xl.raw_module(_SOURCE).get_function("work")
        self._sum = xl.zeros(elements, "float32", device=place)
        self.rounds = 0

    def __call__(self, batch: Any) -> None:
        args = (self._sum, batch, self._elements, self.rounds, np.float32(1), np.float32(0))
        self._kernel(_BLOCKS, _THREADS, args)

    def seconds(self, times: int = 5) -> float:
        """Of one call, on the device: the median of some rounds, since a host that hesitates idles the device."""
        batch = xl.zeros(self._elements, "float32", device=self._place)
        self(batch)
        stream, found = xl.current_stream(self._place), []
        for _ in range(5):
            start = stream.record()
            for _ in range(times):
                self(batch)
            found.append(stream.record().elapsed_ms(start) / 1e3 / times)
        return statistics.median(found)

    def take(self, seconds: float) -> None:
        self.rounds = 0
        base = self.seconds()
        self.rounds = 1000
        for _ in range(3):
            slope = (self.seconds() - base) / self.rounds
            self.rounds = max(1, round((seconds - base) / slope))

    def check(self, expected: HostArray) -> None:
        found = xl.to_host(self._sum)
        self._sum = xl.zeros(self._elements, "float32", device=self._place)
        check_sum(found, expected)


class XferlibLoop:
    """xferlib on one backend."""

    def __init__(self, place: xl.Device) -> None:
        self.name = f"xferlib ({place.backend})"
        self.place = place

    def prefetched(self, batches: Iterable[Any], work: Work) -> None:
        for batch in xl.prefetch(batches, device=self.place):
            work(batch)
        self.place.synchronize()

    def in_turn(self, batches: Iterable[Any], work: Work) -> None:
        """The loop without prefetch: copy, compute, copy, compute."""
        for batch in batches:
            work(xl.to_device(batch, device=self.place))
            self.place.synchronize()


class CupyLoop:
    """CuPy by hand: two pinned buffers, two device buffers, a stream for the copies, events both ways."""

    name = "cupy by hand"

    def __init__(self) -> None:
        import cupy

        self.place = xl.get_device("cupy")
        self._cupy = cupy
        self._buffers: dict[int, list[tuple[HostArray, Any]]] = {}

    def _slots(self, nbytes: int) -> list[tuple[HostArray, Any]]:
        if nbytes not in self._buffers:
            import cupyx

            self._buffers = {}
            self._buffers[nbytes] = [
                (cupyx.empty_pinned(nbytes // 4, np.float32), self._cupy.empty(nbytes // 4, np.float32))
                for _ in range(2)
            ]
        return self._buffers[nbytes]

    def prefetched(self, batches: Sequence[HostArray], work: Work, *, is_pinned: bool) -> None:
        cupy = self._cupy
        slots = self._slots(batches[0].nbytes)
        copies, current = cupy.cuda.Stream(non_blocking=True), cupy.cuda.get_current_stream()
        copied = [cupy.cuda.Event(disable_timing=True) for _ in slots]
        used = [cupy.cuda.Event(disable_timing=True) for _ in slots]

        def send(number: int) -> None:
            pinned, target = slots[number % 2]
            source = batches[number]
            if not is_pinned:
                copied[number % 2].synchronize()  # the copy before may still be reading this memory
                source = pinned.reshape(source.shape)
                np.copyto(source, batches[number])
            copies.wait_event(used[number % 2])
            target.set(source.reshape(-1), stream=copies)
            copied[number % 2].record(copies)

        send(0)
        for number in range(len(batches)):
            current.wait_event(copied[number % 2])
            work(slots[number % 2][1])
            used[number % 2].record(current)
            if number + 1 < len(batches):
                send(number + 1)
        cupy.cuda.Device().synchronize()


def peers(*, is_pinned: bool) -> list[Any]:
    """The libraries that can be measured here, each used the best ways that its users know."""
    states = xl.available_backends()
    has_gpu = {name for name in ("cupy", "torch") if any(":cuda:" in each for each in states[name].devices)}
    found: list[Any] = [CupyLoop()] if "cupy" in has_gpu else []
    if "torch" in has_gpu:
        found += [TorchLoop(), TorchLoop(has_stream=True)]
        found += [] if is_pinned else [TorchLoop(workers=4, has_stream=True)]
    return found


class TorchLoop:
    """PyTorch: a ``DataLoader`` with ``pin_memory``, and ``non_blocking`` copies in the loop.

    Args:
        workers: Processes of the loader.
        has_stream: Copy one batch ahead, on a stream of its own, as the prefetchers of training examples do.
    """

    def __init__(self, *, workers: int = 0, has_stream: bool = False) -> None:
        import torch

        self.name = f"torch DataLoader{f', {workers} workers' if workers else ''}{', own stream' if has_stream else ''}"
        self.place = xl.get_device("torch")
        self._torch = torch
        self._workers = workers
        self._has_stream = has_stream
        self._loader: tuple[Any, Any] = (None, None)

    def _loaded(self, batches: Sequence[HostArray], *, is_pinned: bool) -> Any:
        if self._loader[0] is not batches:
            tensors = [self._torch.from_numpy(batch) for batch in batches]
            loader = self._torch.utils.data.DataLoader(
                tensors, batch_size=None, shuffle=False, pin_memory=not is_pinned, num_workers=self._workers,
                persistent_workers=self._workers > 0,
            )  # fmt: skip
            self._loader = (batches, loader)
        return self._loader[1]

    def prefetched(self, batches: Sequence[HostArray], work: Work, *, is_pinned: bool) -> None:
        loader = self._loaded(batches, is_pinned=is_pinned)
        if self._has_stream:
            self._on_stream(iter(loader), work)
        else:
            for batch in loader:
                work(batch.to("cuda", non_blocking=True).contiguous())
        self._torch.cuda.synchronize()

    def _on_stream(self, loader: Any, work: Work) -> None:
        torch = self._torch
        copies, current = torch.cuda.Stream(), torch.cuda.current_stream()

        def sent() -> Any:
            batch = next(loader, None)
            if batch is None:
                return None
            with torch.cuda.stream(copies):
                return batch.to("cuda", non_blocking=True).contiguous()

        ahead = sent()
        while ahead is not None:
            current.wait_stream(copies)
            ahead.record_stream(current)
            batch, ahead = ahead, sent()
            work(batch)
