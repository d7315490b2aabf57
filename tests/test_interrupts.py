"""Ctrl-C wherever Python looks for it: raised once, and nothing leaks, hangs or is corrupted."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests.sizes import IS_LONG, crossed
from tests.striking import python_s_handler, struck_everywhere
from xferlib.backends.base import deferred
from xferlib.testing import assert_same_bits, cores, in_python, load_backend, no_peers


@pytest.fixture(autouse=True)
def handler() -> Iterator[Any]:
    """Python's own."""
    with python_s_handler() as own:
        yield own


def batch(number: int, kind: str) -> Any:
    if kind in ("tree", "images"):
        size = 70_000 if kind == "tree" else 600_000
        return {"x": np.full(size, number, np.float32), "t": np.arange(5) + number}
    size = {"small": 100, "medium": 270_000, "large": 700_000, "staged": 5 << 18}[kind]
    return np.full(size, number, np.float32)


def listed(items: list[Any]) -> Any:
    return items


def pinned(items: list[Any]) -> Any:
    return [xl.pinned_array(item) for item in items]


def generated(items: list[Any]) -> Iterator[Any]:
    return (item for item in items)


@pytest.mark.parametrize(
    ("kind", "source"),
    crossed(2, ["small", "medium", "large", "staged", "tree", "images"], [listed, generated, pinned]),
    ids=lambda each: str(getattr(each, "__name__", each)),
)
def test_prefetch_loses_one_batch_at_most_and_hands_out_none_twice(backend: str, kind: str, source: Any) -> None:
    is_tree = kind in ("tree", "images")
    if source is pinned and is_tree:
        pytest.skip("pinned_array takes one array")
    items = [batch(number, kind) for number in range(4)]
    kept = items if source is generated else source(items)

    def program(run: Callable[[Callable[[], Any]], Any]) -> int:
        prefetcher, numbers = xl.prefetch(source(kept) if source is generated else kept), []
        while (batch := run(lambda: next(prefetcher, None))) is not None:
            value = xl.tree.to_host(batch)
            x = value["x"] if is_tree else value
            numbers.append(int(x[0]))
            item = items[numbers[-1]]
            if is_tree:
                assert_same_bits(value["t"], item["t"])
            assert_same_bits(x, item["x"] if is_tree else item)
        prefetcher.close()
        assert numbers == sorted(set(numbers))
        return len(items) - len(numbers)

    with cores(16) if kind == "images" else contextlib.nullcontext():  # where threads that spin stage them
        struck_everywhere(program)


HOSTS: dict[str, Callable[[], np.ndarray[Any, Any]]] = {
    "empty": lambda: np.empty((0, 3), np.float32),
    "small": lambda: np.full((3, 5), 2.0),
    "medium": lambda: np.full((300, 500), 2.0),
    "staged": lambda: np.full(5 << 18, 2.0, np.float32),
    "strided": lambda: np.full((3000, 2000), 2.0, np.float32)[:, ::2],
    "swapped": lambda: np.full((700, 900), 2.0, ">f4"),
}


@pytest.mark.parametrize(("way", "host"), crossed(2, ["up", "down", "both ways, async", "into", "pinned"], list(HOSTS)))
def test_a_transfer_is_made_again(backend: str, way: str, host: str) -> None:
    array = HOSTS[host]()
    there = xl.to_device(array)
    to_device, to_host = in_python(xl.to_device), in_python(xl.to_host)  # which C leaves all but small copies to
    ways: dict[str, Callable[[], Any]] = {
        "up": lambda: to_device(array),
        "down": lambda: to_host(there),
        "both ways, async": lambda: xl.to_host_async(xl.to_device_async(array).result()).result(),
        "into": lambda: to_device(array, out=there),
        "pinned": lambda: xl.pinned_array(array),
    }

    def program(run: Callable[[Callable[[], Any]], Any]) -> None:
        found = run(ways[way])
        assert_same_bits(xl.to_host(found), np.ascontiguousarray(array, array.dtype.newbyteorder("=")))

    struck_everywhere(program)


def test_a_transfer_that_is_struck_as_it_begins_is_not_waited_for() -> None:
    array = HOSTS["medium"]()

    def program(run: Callable[[Callable[[], Any]], Any]) -> None:
        run(lambda: xl.to_device_async(array)).result()

    with xl.use_backend("sim"):
        struck_everywhere(program, strikes=1000)  # of one that was never begun nothing is pending


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
            except KeyboardInterrupt as error:
                stopped: Any = error
                if hasattr(stopped, "rows_complete"):  # else it had not begun
                    rest.update(start=stopped.rows_complete, out=stopped.out)
                raise

        assert_same_bits(run(mapped), source)

    struck_everywhere(program)


@pytest.mark.parametrize("source", ["arrays", "a data set"])
def test_batches_that_workers_read_are_lost_one_at_most(backend: str, source: str) -> None:
    items = [batch(number, "tree") for number in range(5)]
    rows = np.repeat(np.arange(5, dtype=np.float32), 70_000).reshape(5, 70_000)

    def program(run: Callable[[Callable[[], Any]], Any]) -> int:
        options: dict[str, Any] = {"workers": 2} if source == "a data set" else {"workers": 2, "batch_size": 1}
        prefetcher, numbers = run(lambda: xl.prefetch(items if source == "a data set" else rows, **options)), []
        while (found := run(lambda: next(prefetcher, None))) is not None:
            x = xl.tree.to_host(found)["x"] if source == "a data set" else xl.to_host(found)[0]
            numbers.append(int(x[0]))
            assert_same_bits(x, rows[numbers[-1]])
        prefetcher.close()
        assert numbers == sorted(set(numbers))
        return len(items) - len(numbers)

    struck_everywhere(program)


PROGRAM = Path(__file__).with_name("interrupted.py")


@pytest.mark.parametrize(
    ("name", "way", "code"),
    [
        ("numpy", "loops", 0),
        ("sim", "loops", 0),
        ("numpy", "blocked", -signal.SIGINT),
        ("sim", "blocked rows", -signal.SIGINT),
    ],
)
def test_a_signal_from_outside_ends_a_loop_and_leaves_neither_threads_nor_half_a_result(
    name: str, way: str, code: int
) -> None:
    """A source that does not answer, too: its threads end with the process."""
    command = [sys.executable, str(PROGRAM), name, way]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        guard = threading.Timer(120, child.kill)  # if Ctrl-C is lost
        guard.start()
        try:
            for line in child.stdout:
                assert line == "ready\n"
                child.send_signal(signal.SIGINT)
                if code:  # a source that does not answer: nothing more is written
                    break
            said = _end(child)
        finally:
            guard.cancel()
            child.kill()
    assert child.returncode == code, said
    assert said == "" if code == 0 else said.count("\nKeyboardInterrupt\n") == 1


def _end(child: subprocess.Popen[str]) -> str:
    """Return what it says by its end.

    CPython sees no signal that comes while a thread gives the GIL away to begin a wait, as long as this lasts. Here it
    lasts for ever; so there is a second one.
    """
    try:
        return child.communicate(timeout=5)[1]
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGINT)
    return child.communicate(timeout=60)[1]


def test_a_device_is_left_and_the_one_before_is_current_again(fake: Any) -> None:
    array = batch(3, "medium")

    def program(run: Callable[[Callable[[], Any]], Any]) -> None:
        def within() -> Any:
            with xl.Device("fake:sim:1"):
                return xl.to_device(array)

        assert_same_bits(xl.to_host(run(within)), array)
        assert xl.get_device() is xl.Device("fake:sim:0")

    with xl.use_backend("fake"):
        struck_everywhere(program, strikes=100)


@pytest.mark.parametrize("is_direct", [True, False])
def test_a_copy_to_another_device_is_made_again(fake: Any, is_direct: bool) -> None:
    with xl.use_backend("fake"), contextlib.nullcontext() if is_direct else no_peers("fake"):
        x = xl.to_device(np.arange(5 << 18), device="fake:sim:1")

        def program(run: Callable[[Callable[[], Any]], Any]) -> None:
            assert_same_bits(xl.to_host(run(lambda: xl.copy_to(x, 0))), np.arange(5 << 18))

        struck_everywhere(program)


@pytest.mark.parametrize("source", [listed, generated], ids=lambda source: source.__name__)
@pytest.mark.parametrize("kind", ["small", "medium", "staged"])
def test_batches_for_two_devices_stay_in_step(fake: Any, kind: str, source: Any) -> None:
    items = [batch(number, kind) for number in range(6)]

    def program(run: Callable[[Callable[[], Any]], Any]) -> int:
        prefetcher, numbers = xl.prefetch(source(items), devices=["fake:sim:0", "fake:sim:1"]), []
        while (batch := run(lambda: next(prefetcher, None))) is not None:
            numbers.append(int(xl.to_host(batch)[0]))
            assert_same_bits(xl.to_host(batch), items[numbers[-1]])
            assert xl.device_of(batch).index == numbers[-1] % 2
        prefetcher.close()
        assert numbers == sorted(set(numbers))
        return len(items) - len(numbers)

    with xl.use_backend("fake"):
        struck_everywhere(program)


def test_a_loop_that_is_struck_as_it_begins_leaves_no_thread(backend: str) -> None:
    items = [batch(number, "large") for number in range(2)]

    def begun() -> None:
        xl.prefetch(iter(items)).close()
        xl.stream_map(lambda chunk: chunk, items[0], chunk_rows=300_000)

    struck_everywhere(lambda run: run(begun), strikes=40 if IS_LONG else 20)
    for thread in threading.enumerate():
        if thread.name.startswith(("xferlib-feed", "xferlib-drain")):
            thread.join(60)
            assert not thread.is_alive()


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


def test_a_capture_that_is_struck_ends(backend: str) -> None:
    if not load_backend(backend).capabilities.graphs:
        pytest.skip("the backend has no graphs")

    def program(run: Callable[[Callable[[], Any]], Any]) -> None:
        source, result = xl.pinned_array(np.arange(100.0)), xl.pinned_zeros(100)
        device, stream = xl.zeros(100), xl.Stream()
        xl.synchronize()

        def captured() -> Any:
            with stream.capture() as graph:
                xl.to_device(source, out=device)
                xl.to_host_async(device, out=result)
            return graph

        graph = run(captured)
        graph.launch(stream)
        stream.synchronize()
        assert_same_bits(result, source)

    struck_everywhere(program)


# --- putting it off


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def test_what_is_put_off_is_raised_at_the_end_and_the_handler_is_the_one_before(handler: Any) -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), deferred:
        interrupt()
        with deferred:
            interrupt()
        done.append(1)
    assert done == [1]
    assert signal.getsignal(signal.SIGINT) is handler
    assert not deferred.is_noted


def test_it_is_raised_where_that_is_asked_for(handler: Any) -> None:
    with pytest.raises(KeyboardInterrupt), deferred:
        deferred.check()
        interrupt()
        deferred.check()
        pytest.fail("not raised")
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_handler_of_the_program_is_called_and_may_return(handler: Any) -> None:
    called = []
    signal.signal(signal.SIGINT, lambda number, frame: called.append(number))
    with deferred:
        interrupt()
        assert not called
    assert called == [signal.SIGINT]


@pytest.mark.parametrize("fixed", [signal.SIG_IGN, signal.SIG_DFL])
def test_where_python_raises_nothing_nothing_is_changed(handler: Any, fixed: Any) -> None:
    signal.signal(signal.SIGINT, fixed)
    with deferred:
        assert signal.getsignal(signal.SIGINT) is fixed


def test_a_handler_that_is_set_meanwhile_stays(handler: Any) -> None:
    mine = lambda number, frame: None
    with deferred:
        signal.signal(signal.SIGINT, mine)
    assert signal.getsignal(signal.SIGINT) is mine


def test_wherever_it_comes_in_a_with_it_is_raised_once_and_the_handler_is_the_one_before(handler: Any) -> None:
    places, code = [], type(deferred).__exit__.__code__

    def tried(at: int) -> bool:
        """Whether it is raised if it comes at a place of ``__exit__``."""
        passed, is_raised = 0, False

        def look(frame: FrameType, event: str, _: Any) -> None:
            nonlocal passed
            if frame.f_code is code and event in ("call", "c_return"):
                passed += 1
                if passed == at + 1:
                    places.append(at)
                    signal.getsignal(signal.SIGINT)(signal.SIGINT, frame)  # type: ignore[operator]

        sys.setprofile(look)
        try:
            with deferred:
                pass
        except KeyboardInterrupt:
            is_raised = True
        finally:
            sys.setprofile(None)
        assert signal.getsignal(signal.SIGINT) is handler
        with deferred:
            pass  # nothing is left to raise
        return is_raised

    for at in range(6):
        assert tried(at) == (at in places)
    assert len(places) > 2


def test_other_threads_put_off_nothing(handler: Any) -> None:
    seen = []

    def enter() -> None:
        with deferred:
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert seen == [handler]
