"""Ctrl-C wherever Python looks for it: raised once, and nothing leaks, hangs or is corrupted."""

from __future__ import annotations

import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from xferlib._memory import host as _host
from xferlib._runtime import interrupts as _interrupts
from xferlib.testing import assert_same_bits, held_nbytes, lent_chunks, settle_all

ROOT = Path(xl.__file__).parent
OURS = tuple(
    f"{ROOT / folder}/"
    for folder in (
        "_api",
        "_core",
        "_memory",
        "_native",
        "_pipeline",
        "_runtime",
        "_trace",
        "_transfer",
        "backends",
        "kernels",
    )
)
STRIKES = 8
"""Of each program, spread over its length."""


@pytest.fixture(autouse=True)
def handler() -> Iterator[Any]:
    """Python's own, whatever started the tests: a shell starts what runs in the background with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    signal.signal(signal.SIGINT, before)


class Strike:
    """Lets SIGINT's handler run at the n-th place where CPython would call it: behind a call, and in a new frame.

    In the calling thread, in the library's own code. Python ignores what is raised in a ``__del__`` and in a generator
    that is closed, and leaves out an ``__exit__`` that is struck as it is entered (bpo-29988): there it strikes at the
    next place.
    """

    def __init__(self, at: int) -> None:
        self.at = at
        self.passed = 0
        self.struck = ""

    def run(self, program: Callable[[], Any]) -> Any:
        sys.setprofile(self._look)
        try:
            return program()
        finally:
            sys.setprofile(None)

    def _look(self, frame: FrameType, event: str, _: Any) -> None:
        if event not in ("call", "c_return") or not _is_ours(frame.f_code.co_filename):
            return
        self.passed += 1
        if self.passed > self.at and not self.struck and not _is_ignored(frame, event):
            self.struck = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} ({event})"
            handler = signal.getsignal(signal.SIGINT)
            assert callable(handler)
            handler(signal.SIGINT, frame)


def _is_ours(file: str) -> bool:
    return file.startswith(OURS) and file != _interrupts.__file__


def _is_ignored(frame: FrameType | None, event: str) -> bool:
    if frame is not None and frame.f_code.co_name == "__exit__" and event == "call":
        return True
    while frame is not None:
        if frame.f_code.co_name in ("__del__", "<genexpr>"):
            return True
        frame = frame.f_back
    return False


def held() -> list[Any]:
    """The objects that an operation might keep by mistake."""
    settle_all()  # transfers without a handle go on by themselves
    xl.synchronize()
    return [held_nbytes(), lent_chunks(), xl.current_stream().handle, str(xl.get_device())]


def struck_everywhere(program: Callable[[Callable[[Callable[[], Any]], Any]], int | None]) -> None:
    """Runs a program with a strike here and there.

    Args:
        program: Calls what it is given with whatever may be struck, and again after each KeyboardInterrupt; it says by
            an assertion what is wrong, and returns how many batches it has lost.
    """
    assert not program(lambda part: part())
    count, before = Strike(sys.maxsize), held()
    assert not program(count.run)
    times = 0
    for at in range(0, count.passed, max(1, count.passed // STRIKES)):
        strike, interrupts = Strike(at), []

        def run(part: Callable[[], Any], strike: Strike = strike, interrupts: list[str] = interrupts) -> Any:
            while True:
                try:
                    return strike.run(part)
                except KeyboardInterrupt:
                    interrupts.append(strike.struck)
                    assert len(interrupts) == 1

        lost = program(run) or 0
        assert len(interrupts) == bool(strike.struck), strike.struck
        assert lost <= len(interrupts), strike.struck
        times += len(interrupts)
        if held() != before:
            gc.collect()  # an error that a job keeps holds the job
        found = held()
        assert found[1:] == before[1:], strike.struck
        assert all(now <= then for now, then in zip(found[0], before[0], strict=True)), strike.struck
    assert times  # or nothing was tried


def batch(number: int, kind: str) -> Any:
    if kind == "tree":
        return {"x": np.full(70_000, number, np.float32), "t": np.arange(5) + number}
    size = {"small": 100, "medium": 70_000, "large": 700_000, "staged": 5 << 18}[kind]
    return np.full(size, number, np.float32)


def listed(items: list[Any]) -> Any:
    return items


def pinned(items: list[Any]) -> Any:
    return [xl.pinned_array(item) for item in items]


def generated(items: list[Any]) -> Iterator[Any]:
    return (item for item in items)


@pytest.mark.parametrize("source", [listed, pinned, generated], ids=lambda source: source.__name__)
@pytest.mark.parametrize("kind", ["small", "medium", "large", "staged", "tree"])
def test_prefetch_loses_one_batch_at_most_and_hands_out_none_twice(backend: str, kind: str, source: Any) -> None:
    if source is pinned and kind == "tree":
        pytest.skip("pinned_array takes one array")
    items = [batch(number, kind) for number in range(4)]
    kept = items if source is generated else source(items)

    def program(run: Callable[[Callable[[], Any]], Any]) -> int:
        prefetcher, numbers = xl.prefetch(source(kept) if source is generated else kept), []
        while (batch := run(lambda: next(prefetcher, None))) is not None:
            value = xl.tree.to_host(batch)
            x = value["x"] if kind == "tree" else value
            numbers.append(int(x[0]))
            item = items[numbers[-1]]
            if kind == "tree":
                assert_same_bits(value["t"], item["t"])
            assert_same_bits(x, item["x"] if kind == "tree" else item)
        prefetcher.close()
        assert numbers == sorted(set(numbers))
        return len(items) - len(numbers)

    struck_everywhere(program)


HOSTS: dict[str, Callable[[], np.ndarray[Any, Any]]] = {
    "empty": lambda: np.empty((0, 3), np.float32),
    "small": lambda: np.full((3, 5), 2.0),
    "medium": lambda: np.full((300, 500), 2.0),
    "staged": lambda: np.full(5 << 18, 2.0, np.float32),
    "strided": lambda: np.full((3000, 2000), 2.0, np.float32)[:, ::2],
    "swapped": lambda: np.full((700, 900), 2.0, ">f4"),
}


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("way", ["up", "down", "both ways, async", "into", "pinned"])
def test_a_transfer_is_made_again(backend: str, way: str, host: str) -> None:
    array = HOSTS[host]()
    there = xl.to_device(array)
    ways: dict[str, Callable[[], Any]] = {
        "up": lambda: xl.to_device(array),
        "down": lambda: xl.to_host(there),
        "both ways, async": lambda: xl.to_host_async(xl.to_device_async(array).result()).result(),
        "into": lambda: xl.to_device(array, out=there),
        "pinned": lambda: xl.pinned_array(array),
    }

    def program(run: Callable[[Callable[[], Any]], Any]) -> None:
        found = run(ways[way])
        assert_same_bits(xl.to_host(found), np.ascontiguousarray(array, array.dtype.newbyteorder("=")))

    struck_everywhere(program)


def test_a_tree_is_sent_again(backend: str) -> None:
    tree = {"a": [batch(number, "small") for number in range(9)], "b": batch(3, "staged"), "c": 7}

    def program(run: Callable[[Callable[[], Any]], Any]) -> None:
        found = run(lambda: xl.tree.to_host(run(lambda: xl.tree.to_device(tree))))
        assert found["c"] == 7
        for item, value in zip([*tree["a"], tree["b"]], [*found["a"], found["b"]], strict=True):
            assert_same_bits(value, item)

    struck_everywhere(program)


def test_a_tree_of_large_arrays_is_sent_again(backend: str) -> None:
    tree = [batch(number, "staged") for number in range(3)]

    def program(run: Callable[[Callable[[], Any]], Any]) -> None:
        found = run(lambda: xl.tree.to_host(run(lambda: xl.tree.to_device(tree))))
        for item, value in zip(tree, found, strict=True):
            assert_same_bits(value, item)

    struck_everywhere(program)


def test_a_map_goes_on_or_begins_again(backend: str) -> None:
    source = np.arange(40 * 9000, dtype=np.float32).reshape(40, 9000)

    def program(run: Callable[[Callable[[], Any]], Any]) -> None:
        rest: dict[str, Any] = {}

        def mapped() -> Any:
            try:
                return xl.stream_map(lambda chunk: chunk, source, chunk_rows=7, **rest)
            except KeyboardInterrupt as stopped:
                if hasattr(stopped, "rows_done"):  # else it had not begun
                    rest.update(start=stopped.rows_done, out=stopped.out)
                raise

        assert_same_bits(run(mapped), source)

    struck_everywhere(program)


def test_a_stream_is_left_and_the_one_before_is_current_again(backend: str) -> None:
    array = batch(3, "medium")

    def program(run: Callable[[Callable[[], Any]], Any]) -> None:
        def within() -> Any:
            with xl.Stream() as stream:
                there = xl.to_device(array)
                stream.synchronize()
            return there

        assert_same_bits(xl.to_host(run(within)), array)

    struck_everywhere(program)


def test_memory_of_results_that_is_kept_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_host, "RECYCLED_FROM", 1 << 16)
    before = xl.configure(host_cache=9 << 20)

    def program(run: Callable[[Callable[[], Any]], Any]) -> None:
        cache = _host.HostCache()
        for size in (1, 1, 1, 2, 2, 1, 2):
            found = [run(lambda size=size: cache.empty((size << 18,), np.dtype(np.float32))) for _ in range(2)]
            assert found[0].nbytes == size << 20
            del found
        kept = [len(block) for blocks in cache._free.values() for block in blocks]
        assert sum(kept) == cache.nbytes_free <= 9 << 20
        assert len(kept) > 1

    try:
        struck_everywhere(program)
    finally:
        xl.configure(host_cache=before.host_cache)


# --- putting it off


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def test_what_is_put_off_is_raised_at_the_end_and_the_handler_is_the_one_before(handler: Any) -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), _interrupts.deferred:
        interrupt()
        with _interrupts.deferred:
            interrupt()
        done.append(1)
    assert done == [1]
    assert signal.getsignal(signal.SIGINT) is handler
    assert not _interrupts.deferred.is_noted


def test_it_is_raised_where_that_is_asked_for(handler: Any) -> None:
    with pytest.raises(KeyboardInterrupt), _interrupts.deferred:
        _interrupts.deferred.check()
        interrupt()
        _interrupts.deferred.check()
        pytest.fail("not raised")
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_handler_of_the_program_is_called_and_may_return(handler: Any) -> None:
    called = []
    signal.signal(signal.SIGINT, lambda number, frame: called.append(number))
    with _interrupts.deferred:
        interrupt()
        assert not called
    assert called == [signal.SIGINT]


@pytest.mark.parametrize("fixed", [signal.SIG_IGN, signal.SIG_DFL])
def test_where_python_raises_nothing_nothing_is_changed(handler: Any, fixed: Any) -> None:
    signal.signal(signal.SIGINT, fixed)
    with _interrupts.deferred:
        assert signal.getsignal(signal.SIGINT) is fixed


def test_a_handler_that_is_set_meanwhile_stays(handler: Any) -> None:
    mine = lambda number, frame: None
    with _interrupts.deferred:
        signal.signal(signal.SIGINT, mine)
    assert signal.getsignal(signal.SIGINT) is mine


def test_wherever_it_comes_in_a_with_it_is_raised_once_and_the_handler_is_the_one_before(handler: Any) -> None:
    places, code = [], _interrupts._Deferred.__exit__.__code__

    def tried(at: int) -> bool:
        """Whether it is raised if it comes at a place of ``__exit__``."""
        passed, is_raised = 0, False

        def look(frame: FrameType, event: str, _: Any) -> None:
            nonlocal passed
            if frame.f_code is code and event in ("call", "c_return"):
                passed += 1
                if passed == at + 1:
                    places.append(at)
                    signal.getsignal(signal.SIGINT)(signal.SIGINT, frame)  # type: ignore[operator,misc]

        sys.setprofile(look)
        try:
            with _interrupts.deferred:
                pass
        except KeyboardInterrupt:
            is_raised = True
        finally:
            sys.setprofile(None)
        assert signal.getsignal(signal.SIGINT) is handler
        with _interrupts.deferred:
            pass  # nothing is left to raise
        return is_raised

    for at in range(6):
        assert tried(at) == (at in places)
    assert len(places) > 2


def test_other_threads_put_off_nothing(handler: Any) -> None:
    seen = []

    def enter() -> None:
        with _interrupts.deferred:
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert seen == [handler]
