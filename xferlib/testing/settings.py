"""Blocks in which the library is set up otherwise; afterwards everything is as it was."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

from xferlib._core import defaults, registry
from xferlib._core.backend import Backend
from xferlib._memory import mmap_advice, slab, staging_ring
from xferlib._pipeline import chunk_ledger
from xferlib._runtime import circumstances, config, thread_budget, threads
from xferlib._runtime.jobs import Job
from xferlib._transfer import compiled_staging, plan
from xferlib._transfer.plan import Path


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Replace an attribute for a block."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    circumstances.changed()
    try:
        yield
    finally:
        setattr(owner, name, before)
        circumstances.changed()


@contextmanager
def configured(environ: Mapping[str, str] | None = None, /, **settings: Any) -> Iterator[Any]:
    """Give the library other settings for a block; yields the configuration in force.

    What ``xl.configure`` and ``xl.use_backend`` change within the block ends with it, too.

    Args:
        environ: Read the ``XFERLIB_*`` variables of this environment first; what is in force if omitted.
        **settings: As for ``xl.configure``.

    Raises:
        ConfigError: No such setting, or a value that it cannot have; nothing has changed.
    """
    before = config.get() if environ is None else config._read(environ)
    given = config._environment if environ is None else before
    with (
        replaced(config, "_config", before),
        replaced(config, "_environment", given),
        replaced(defaults, "_process_choice", defaults._process_choice),
    ):
        config.configure(**settings)
        yield config.get()


@contextmanager
def fresh_registry(**backends: Callable[[], Backend]) -> Iterator[None]:
    """Look for installed backends anew, and match the types of arrays anew, for a block.

    Args:
        **backends: What makes each backend, by name, instead of those that are installed.
    """
    points = {
        name: SimpleNamespace(load=lambda made=made: made, module=made.__module__) for name, made in backends.items()
    }
    with replaced(registry, "_plugins", points or None):
        registry.forget_types(lambda _: True)
        yield


@contextmanager
def fresh_staging(chunks: int | None = None) -> Iterator[None]:
    """Begin with no staging buffers shared among transfers, for a block.

    Args:
        chunks: Most chunks of a new ring, and of each direction and transfer; the library's own limits if omitted.
    """
    limits = (
        (staging_ring, "RING_CHUNKS"), (staging_ring, "LENT_CHUNKS"),
        (compiled_staging, "LENT_CHUNKS"), (compiled_staging, "ONE_WAY_CHUNKS"),
    )  # fmt: skip
    with ExitStack() as stack:
        stack.enter_context(replaced(staging_ring.rings, "made", {}))
        stack.enter_context(replaced(slab, "_local", threading.local()))  # whose slabs are idle ones afterwards
        stack.enter_context(replaced(slab, "_idle_slabs", {}))
        for module, name in limits if chunks is not None else ():
            stack.enter_context(replaced(module, name, chunks))
        yield
        staging_ring.trim()  # waits for what is in flight


@contextmanager
def no_peers(backend: str) -> Iterator[None]:
    """Let no device of a backend reach another's memory, so that copies between them pass through the host."""
    with replaced(registry.get(backend), "reaches", lambda device, other: False):
        yield


@contextmanager
def cores(count: int) -> Iterator[None]:
    """Make the library start threads as on a machine with ``count`` cores, for a block."""
    with replaced(thread_budget, "usable_cores", lambda: count):
        yield


@contextmanager
def results_begun() -> Iterator[None]:
    """Make `stream_map` begin the download of small results, too, while earlier ones are received, for a block."""
    with replaced(chunk_ledger, "RESULT_BEGUN_FROM", 0):
        yield


@contextmanager
def work_shared() -> Iterator[list[int]]:
    """Note the work of copies and kernels that is shared with the thread pool, of all threads, for a block.

    Yields:
        Grows by a number of steps at each piece of work that the thread pool may help with.
    """
    noted: list[int] = []
    own = threads.workers.run

    def run(job: Job) -> None:
        noted.append(job.steps)
        own(job)

    with replaced(threads.workers, "run", run):
        yield noted


@contextmanager
def advised() -> Iterator[list[tuple[str, int, int]]]:
    """Note the advice that the system gets about pages of memory maps, in all threads, for a block.

    Yields:
        Grows by an option of madvise(2), an address and a number of bytes at each call.
    """
    noted: list[tuple[str, int, int]] = []
    own = mmap_advice._advise

    def advise(name: str, address: int, nbytes: int) -> int:
        noted.append((name, address, nbytes))
        return own(name, address, nbytes)

    with replaced(mmap_advice, "_advise", advise):
        yield noted


@contextmanager
def forced(path: str | None, *, chunk_nbytes: int | None = None, helpers: int | None = None) -> Iterator[None]:
    """Make transfers of this thread take ``path`` where the array allows it, in chunks of that size.

    Args:
        path: One of `PATHS`; None: the library's own choice.
        chunk_nbytes: Most bytes of a staging chunk; the library's own choice if omitted.
        helpers: The most threads that help this one to copy between host arrays; the library's own choice if omitted.
    """
    chosen = None if path is None else Path(path)
    tokens = plan._forced.set(chosen), _chunk.set(chunk_nbytes), _helpers.set(helpers)
    circumstances.changed()
    try:
        with _standing_in:
            yield
    finally:
        plan._forced.reset(tokens[0])
        _chunk.reset(tokens[1])
        _helpers.reset(tokens[2])
        circumstances.changed()


_chunk: ContextVar[int | None] = ContextVar("xferlib_forced_chunk", default=None)
_helpers: ContextVar[int | None] = ContextVar("xferlib_forced_helpers", default=None)


_plan: Any = plan  # whose functions are replaced


class _StandIns:
    """Functions that ask the thread's `forced` first take the place of the library's while any thread is in a block."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._own = (plan.chunk_nbytes, plan.helpers)

    def __enter__(self) -> None:
        with self._lock:
            if not self._count:
                self._own = (plan.chunk_nbytes, plan.helpers)
                _plan.chunk_nbytes = self._or_own(_chunk, self._own[0])
                _plan.helpers = self._or_own(_helpers, self._own[1])
            self._count += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._count -= 1
            if not self._count:
                _plan.chunk_nbytes, _plan.helpers = self._own

    @staticmethod
    def _or_own(wanted: ContextVar[int | None], own: Callable[..., int]) -> Callable[..., int]:
        """The library's own choice, where the thread that asked for the transfer made none."""

        def chosen(*nbytes: int) -> int:
            found = wanted.get()
            return own(*nbytes) if found is None else found

        return chosen


_standing_in = _StandIns()
