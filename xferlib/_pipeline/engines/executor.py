"""`stream_map` on the workers of an executor: ranges are submitted, and what comes back is stored here.

A range that is computed twice, because the worker of the first time died, gives the same rows again. So the executor
may retry; Dask does.
"""

from __future__ import annotations

import asyncio
import math
import os
import socket
import time
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from typing import TYPE_CHECKING, Any

from xferlib._core import defaults
from xferlib._pipeline import row_sinks
from xferlib._pipeline.chunk_ledger import Results
from xferlib._pipeline.engines import portable, ranges
from xferlib.errors import ArgumentError, DistributedError, DistributedTimeoutError, LayoutError

if TYPE_CHECKING:
    import numpy as np

    from xferlib._core.layout import HostArray
    from xferlib._pipeline.engines.ranges import MapRequest

_AHEAD = 2
"""Ranges submitted for each worker: one that it computes, and the next."""
_LOOK_S = 1.0
_DESERTED_S = 60.0
"""Dask waits for workers for ever; one that has died is started again within seconds, if at all."""


class DaskExecutor:
    """A Dask client as an executor, with `look` while nothing is complete, and `drop` at the end.

    Dask has one, which raises a TypeError where a worker dies just after its result has been collected.

    Raises:
        ArgumentError: The client is asynchronous, or its cluster has no workers.
    """

    def __init__(self, client: Any) -> None:
        if getattr(client, "asynchronous", False):
            raise ArgumentError(
                "stream_map: engine is an asynchronous Dask client, which a blocking call cannot use; make one without "
                "asynchronous=True"
            )
        self._client = client
        self._seen_s = time.monotonic()
        self._tasks: dict[Future[Any], Any] = {}
        self.workers = len(client.nthreads())
        if not self.workers:
            raise ArgumentError(
                "stream_map: engine is a Dask client whose cluster has no workers; start some, or wait for them with "
                "client.wait_for_workers(1)"
            )

    def submit(self, function: Any, *given: Any) -> Future[Any]:
        task = self._client.submit(function, *given, pure=False)
        future = asyncio.run_coroutine_threadsafe(self._gathered(task), self._client.loop.asyncio_loop)
        self._tasks[future] = task
        future.add_done_callback(self._tasks.pop)
        return future

    async def _gathered(self, task: Any) -> Any:
        try:
            return await self._client.gather(task, asynchronous=True)
        except CancelledError as error:
            raise DistributedError(
                f"stream_map: the cluster has dropped a range: {str(error).partition(chr(10))[0]} its scheduler has "
                "ended, or the client was closed; start the cluster again"
            ) from error

    def drop(self) -> None:
        """Let the cluster forget what it has not computed."""
        if tasks := list(self._tasks.values()):
            self._client.cancel(tasks)

    def look(self) -> None:
        """Refuse to wait for workers that do not come.

        Raises:
            DistributedTimeoutError: There has been none for too long.
        """
        if self._client.nthreads():
            self._seen_s = time.monotonic()
        elif time.monotonic() - self._seen_s > _DESERTED_S:
            raise DistributedTimeoutError(
                f"stream_map: the cluster has had no workers for {_DESERTED_S:g} s; start some, with nannies that "
                "start them again"
            )


class RangeSink:
    """Stores the results of whole ranges: folds lists of them, or copies rows; or they have been written already.

    Args:
        sink: Takes the results of chunks; None where workers write them.
        out: What they write.
    """

    def __init__(self, sink: row_sinks.Sink | None, out: Any) -> None:
        self._sink = sink
        self._out = out
        self.is_reduction = sink is not None and sink.is_reduction
        self.is_ordered = sink is not None and sink.is_ordered
        self.waits = True

    @property
    def value(self) -> Any:
        return self._out if self._sink is None else self._sink.value

    def target(self, start: int, stop: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> HostArray | None:
        """Return None: ranges come as they are, and `put` copies them."""

    def put(self, start: int, stop: int, host: Any) -> None:
        if self._sink is None:
            return
        if self.is_reduction:
            for each in host:
                self._sink.put(start, stop, each)
            return
        into = self._sink.target(start, stop, host.shape, host.dtype)
        if into is not None:
            into[...] = host
        self._sink.put(start, stop, host)


def run(request: MapRequest, engine: Any) -> Any:
    """Compute a call on the workers of a Dask client, or of a `concurrent.futures.Executor`."""
    executor = DaskExecutor(engine) if hasattr(engine, "get_executor") else engine
    if isinstance(request.sink, row_sinks.InPlace):
        raise LayoutError(
            "stream_map: out is the source itself, which an engine may not replace: a range that is tried again would "
            "be computed from its own results; give out memory of its own, or leave engine away"
        )
    source = portable.of_source(request.source)
    out = None if request.out is None else portable.of_out(request.out)
    unit = request.chunk_rows if out is None else math.lcm(request.chunk_rows, portable.stored_rows(request.out))
    workers = getattr(executor, "workers", None) or getattr(engine, "_max_workers", None) or os.cpu_count() or 1
    spans = ranges.cut(request, unit, workers, is_carried=source is None)
    sink = RangeSink(request.sink if out is None else None, request.out)
    job = ranges.RangeJob(
        request.fn, source, out, sink.is_reduction, request.chunk_rows, request.devices, request.depth,
        request.may_alias, defaults.chosen(), socket.gethostname(),
    )  # fmt: skip
    results = Results(request.reader, sink, spans, request.progress)
    try:
        _work(executor, job, request, results, _AHEAD * workers)
    except BaseException as error:
        results.explain(error)
        raise
    return results.value


def _work(executor: Any, job: ranges.RangeJob, request: MapRequest, results: Results, ahead: int) -> None:
    """Submit ranges in their order, ``ahead`` at most, and store what comes; an ordered sink gets them in order."""
    dask = executor if isinstance(executor, DaskExecutor) else None
    running: dict[Future[Any], int] = {}
    arrived: dict[int, Any] = {}
    numbers = iter(range(len(results.spans)))
    stored = 0
    results.report()
    try:
        while True:
            while len(running) + len(arrived) < ahead and (number := next(numbers, None)) is not None:
                low, high = results.spans[number]
                carried = portable.carried(request.source, low, high) if job.source is None else None
                running[executor.submit(ranges.stream_rows, job, low, high, carried)] = number
            if not running:
                return
            done = wait(running, None if dask is None else _LOOK_S, FIRST_COMPLETED).done
            if not done and dask is not None:
                dask.look()
            for future in done:
                arrived[running.pop(future)] = future.result()
            for number in sorted(arrived):
                if number == stored or not request.sink.is_ordered:
                    results.store(number, arrived.pop(number))
                    stored += 1
            results.report()
    finally:
        if dask is not None:
            dask.drop()
        else:
            for future in running:
                future.cancel()
