"""Prefetching: order, contents, errors in their place, and an end that leaves nothing behind."""

from __future__ import annotations

import collections.abc
import contextlib
import copy
import gc
import importlib.util
import itertools
import operator
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import optree
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import xferlib as xl
from tests.rows import Sliced
from xferlib import errors as e
from xferlib.testing import assert_same_bits, batches_read_by, cores, load_backend, native

pytestmark = pytest.mark.usefixtures("backend")


@pytest.fixture(params=["thread", "consumer"])
def reader(request: pytest.FixtureRequest) -> Iterator[str]:
    with batches_read_by(request.param):
        yield request.param


@pytest.fixture
def thread() -> Iterator[None]:
    with batches_read_by("thread"):
        yield


def array(number: int, shape: tuple[int, ...] = (3, 5), dtype: str = "float32") -> np.ndarray[Any, Any]:
    """Values that tell batches apart."""
    pattern = (np.arange(256) * 7 + number).astype(np.uint8)
    return np.resize(pattern, int(np.prod(shape))).astype(dtype).reshape(shape)


SOURCES: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "iterator": iter,
    "generator": lambda items: (item for item in items),
    "map": lambda items: map(operator.itemgetter(0), [(item,) for item in items]),
}


def same(found: Any, expected: Any) -> None:
    """Compare a batch on a device with what was given: containers, values, and bits in native byte order."""
    assert optree.tree_structure(found) == optree.tree_structure(expected)
    for one, other in zip(optree.tree_leaves(xl.tree.to_host(found)), optree.tree_leaves(expected), strict=True):
        if isinstance(other, np.ndarray):
            assert_same_bits(one, other.astype(other.dtype.newbyteorder("=")))
        else:
            assert one == other


def pinned(shape: tuple[int, ...], number: int) -> np.ndarray[Any, Any]:
    return xl.pinned_array(array(number, shape), backend=xl.get_backend().name)


BATCHES: dict[str, Callable[[int], Any]] = {
    "small": array,
    "small tree": lambda n: {"x": array(n), "y": 7, "no": None},
    "grows": lambda n: array(n, (n + 1, 300)),
    "other": lambda n: array(n, (5, 3), "int16"),
    "swapped": lambda n: array(n, (3, 5), ">f4"),
    "strided": lambda n: array(n, (3, 10))[:, ::2],
    "empty": lambda n: array(n, (0, 5)),
    "scalar": lambda n: array(n, (), "complex128"),
    "medium": lambda n: array(n, (100, 1000)),
    "medium half": lambda n: array(n, (100, 1000), "float16"),
    "medium swapped": lambda n: array(n, (100, 1000), ">f4"),
    "small and pinned": lambda n: pinned((3, 5), n),
    "pinned": lambda n: pinned((100, 1000), n),
    "pinned of another form": lambda n: pinned((1000, 100), n).view("int32"),
    "pinned with gaps": lambda n: pinned((200, 1000), n)[::2],
    "pinned view": lambda n: pinned((200, 1000), n)[:100],
    "pinned transposed": lambda n: pinned((200, 1000), n).T,
    "images and labels": lambda n: (array(n, (600, 1000)), array(-n, (256,), "int64")),
    "three": lambda n: {
        "x": array(n, (600, 1000)), "y": array(-n, (50, 1000)), "z": [array(n, (90_000,), "uint8")], "n": n,
    },
    "four": lambda n: [array(n + k, (300, 1000)) for k in range(4)],
    "large": lambda n: (array(n, (2300, 1000)), None, array(n, (600, 1000), "uint8")),
    "swapped and small": lambda n: (array(n, (600, 1000), ">f4"), array(n, (3,))),
    "transposed": lambda n: (array(n, (600, 1000)).T, np.float32(n)),
    "with empty": lambda n: (array(n, (600, 1000)), array(n, (0, 5)), array(n, ())),
    "sizes change": lambda n: (array(n, (600 + 300 * (n % 3), 1000)), array(n, (100, 1 + n % 2, 300))),
}  # fmt: skip
"""Batches by their number: small, medium and large ones, pinned ones, and trees of a few arrays."""


def is_array(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray)


def clearing(batches: list[Any]) -> Iterator[Any]:
    """Overwrite each batch as soon as the next is asked for."""
    for batch in batches:
        yield batch
        for leaf in filter(is_array, optree.tree_leaves(batch)):
            leaf[...] = 0


def as_tensors(batches: Any) -> Any:
    """Batches of tensors, where torch is installed."""
    if importlib.util.find_spec("torch") is None:
        return batches
    import torch

    as_given = lambda leaf: torch.from_numpy(leaf) if is_array(leaf) and leaf.dtype.isnative else leaf
    return [optree.tree_map(as_given, batch) for batch in batches]


@settings(max_examples=100 if os.environ.get("XFERLIB_TEST_LONG") else 25)
@given(
    runs=st.lists(st.tuples(st.sampled_from(sorted(BATCHES)), st.integers(1, 4)), max_size=5),
    kind=st.sampled_from([*SOURCES, "clearing", "tensors"]),
    depth=st.integers(1, 5),
    is_kept=st.booleans(),
    core_count=st.sampled_from([1, 16]),
    reader=st.sampled_from(["thread", "consumer", "watched"]),
    direct_most=st.sampled_from([100, 128 << 10, 1 << 20]),
)
@example(
    runs=[(name, 3) for name in BATCHES], kind="list", depth=2, is_kept=False, core_count=16, reader="watched",
    direct_most=1 << 20,
)  # fmt: skip
@example(
    runs=[(name, 4) for name in BATCHES], kind="list", depth=2, is_kept=True, core_count=16, reader="consumer",
    direct_most=128 << 10,
)  # fmt: skip
@example(
    runs=[(name, 3) for name in BATCHES], kind="clearing", depth=2, is_kept=False, core_count=16, reader="thread",
    direct_most=128 << 10,
)  # fmt: skip
@example(
    runs=[(name, 3) for name in BATCHES], kind="tensors", depth=2, is_kept=False, core_count=16, reader="thread",
    direct_most=128 << 10,
)  # fmt: skip
def test_batches_of_every_form_and_source_come_in_order_though_they_change(
    runs: list[tuple[str, int]], kind: str, depth: int, is_kept: bool, core_count: int, reader: str, direct_most: int
) -> None:
    names = [name for name, count in runs for _ in range(count)]
    batches = [BATCHES[name](number) for number, name in enumerate(names)]
    expected = copy.deepcopy(batches)
    source = {**SOURCES, "clearing": clearing, "tensors": as_tensors}[kind](batches)
    way = batches_read_by(reader, direct_most=direct_most) if reader != "watched" else contextlib.nullcontext()
    with cores(core_count), way:
        prefetcher = xl.prefetch(source, depth=depth)
        found = list(prefetcher) if is_kept else [xl.tree.to_host(batch) for batch in prefetcher]
        for there, here in zip(found, expected, strict=True):
            same(there, here)


@pytest.mark.parametrize("rows", [1, 40, 900])  # small, medium and large
@pytest.mark.parametrize("kind", ["array", "pinned", "tree"])
@pytest.mark.usefixtures("reader")
def test_a_generator_may_fill_the_same_memory_again(kind: str, rows: int) -> None:
    trees: dict[str, Callable[[], Any]] = {
        "array": lambda: np.zeros((rows, 1000), np.float32),
        "pinned": lambda: xl.pinned_array(np.zeros((rows, 1000), np.float32)),
        "tree": lambda: {"x": np.empty((rows, 500), ">f4"), "y": [np.empty((500, rows)).T]},
    }
    tree = trees[kind]()

    def fill(number: int) -> Any:
        for leaf in optree.tree_leaves(tree):
            leaf[...] = number
        return tree

    def source() -> Iterator[Any]:
        yield from map(fill, range(7))
        fill(99)

    found = [xl.tree.to_host(batch) for batch in list(xl.prefetch(source(), depth=3))]
    assert len(found) == 7
    for number, batch in enumerate(found):
        same(batch, fill(number))


@pytest.mark.parametrize("nbytes", [64, 3 << 20])
@pytest.mark.parametrize("is_on_device", [False, True])
def test_batches_may_be_kept_for_ever_and_belong_to_the_consumer(nbytes: int, is_on_device: bool) -> None:
    items: list[Any] = [np.full(nbytes, number, np.uint8) for number in range(7)]
    kept = list(xl.prefetch([xl.to_device(item) for item in items] if is_on_device else items))
    for item in items:
        item[:] = 77
    for number, batch in enumerate(kept):
        assert_same_bits(xl.to_host(batch), np.full(nbytes, number, np.uint8))


def test_iter_is_called_once_and_the_source_is_not_read_beyond_its_depth() -> None:
    class Source:
        iterations = 0
        given = 0

        def __iter__(self) -> Iterator[Any]:
            self.iterations += 1
            return self

        def __next__(self) -> Any:
            self.given += 1
            return array(self.given)

    source = Source()
    with xl.prefetch(source, depth=2) as prefetcher:
        for number in range(1, 6):
            next(prefetcher)
            assert source.given <= number + 2
        assert iter(prefetcher) is prefetcher
    assert source.iterations == 1


def raising(error: Exception) -> Callable[..., Any]:
    def method(*_: Any) -> Any:
        raise error

    return method


HOSTILE: dict[str, dict[str, Any]] = {
    "iterates": {},
    "without a length": {"__len__": raising(TypeError("object of type 'InfiniteSampler' has no len()"))},
    "empty": {"__len__": lambda _: 0},
    "endless": {
        "__len__": lambda _: 1 << 40, "__bool__": raising(ValueError("neither true nor false")),
        "__eq__": raising(ValueError("neither equal nor not")), "__hash__": None,
    },
}  # fmt: skip
"""Methods that an iterator lacks, or by which it answers wrongly when it is asked for more than the next item."""


@pytest.mark.parametrize("is_made_anew", [False, True])
@pytest.mark.parametrize("kind", HOSTILE)
def test_an_iterator_is_asked_for_nothing_but_its_next_item(kind: str, is_made_anew: bool) -> None:
    left = map(array, range(5))
    methods = {"__iter__": lambda self: self, "__next__": lambda _: next(left), **HOSTILE[kind]}
    if is_made_anew:
        methods.pop("__iter__")
    source: Any = type("Source", (), methods)()
    if is_made_anew:
        source = type("Source", (), {"__iter__": lambda _, iterator=source: iterator})()
    same([xl.to_host(batch) for batch in xl.prefetch(source)], [array(number) for number in range(5)])


def test_a_loader_without_a_length_is_a_source() -> None:
    data: Any = pytest.importorskip("torch.utils.data")
    stream = type("Stream", (data.IterableDataset,), {"__iter__": lambda _: map(array, range(5))})
    found = xl.prefetch(data.DataLoader(stream(), batch_size=None))
    same([xl.to_host(batch) for batch in found], [array(number) for number in range(5)])


def test_items_of_an_iterable_with_a_length_that_refuses_numbers_are_stacked() -> None:
    def refuse(_: Any, number: int) -> Any:
        raise NotImplementedError

    methods = {"__iter__": lambda _: map(array, range(5)), "__len__": lambda _: 5, "__getitem__": refuse}
    found = [xl.to_host(batch) for batch in xl.prefetch(type("Stream", (), methods)(), batch_size=2)]
    same(found, [np.stack([array(number) for number in part]) for part in ((0, 1), (2, 3), (4,))])


def test_a_mapping_that_is_no_tree_is_not_cut_into_its_keys() -> None:
    class Group(collections.abc.Mapping[str, Any]):
        def __getitem__(self, key: str) -> Any:
            return array(1)

        def __iter__(self) -> Iterator[str]:
            return iter("ab")

        def __len__(self) -> int:
            return 2

    with pytest.raises(xl.errors.XferError, match="there is Group"):
        xl.prefetch(Group(), batch_size=2)


# --- errors


@pytest.mark.parametrize("after", [0, 1, 5])
@pytest.mark.usefixtures("reader")
def test_an_error_of_the_source_comes_after_every_batch_before_it_and_again(after: int) -> None:
    def source() -> Iterator[Any]:
        yield from (array(number) for number in range(after))
        raise KeyError("the file is gone")

    prefetcher = xl.prefetch(source())
    for number in range(after):
        assert_same_bits(xl.to_host(next(prefetcher)), array(number))
    for _ in range(3):
        with pytest.raises(KeyError, match="the file is gone"):
            next(prefetcher)


@pytest.mark.parametrize("kind", ["list", "iterator"])
@pytest.mark.parametrize("form", ["small", "small tree", "medium tree"])
@pytest.mark.parametrize("after", [0, 4])
@pytest.mark.usefixtures("reader")
def test_a_batch_that_no_device_holds_is_an_error_in_its_turn_and_again(kind: str, form: str, after: int) -> None:
    bad: dict[str, Any] = {
        "small": np.array([{}]), "small tree": {"x": array(1), "t": np.array(["text"])},
        "medium tree": (array(1, (600, 1000)), np.array(["text"])),
    }  # fmt: skip
    items = [array(number) for number in range(after)]
    with cores(16):
        prefetcher = xl.prefetch(SOURCES[kind]([*items, bad[form], array(9)]))
        for item in items:
            assert_same_bits(xl.to_host(next(prefetcher)), item)
        for _ in range(3):
            with pytest.raises(e.UnsupportedDTypeError, match="object|<U4"):
                next(prefetcher)


@pytest.mark.parametrize("kind", ["list", "iterator"])
@pytest.mark.usefixtures("reader")
def test_an_ended_source_stays_ended(kind: str) -> None:
    batches = [array(0)]
    prefetcher = xl.prefetch(SOURCES[kind](batches))
    next(prefetcher)
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(prefetcher)
        batches.append(array(1))


@settings(max_examples=50)
@given(
    steps=st.lists(st.sampled_from(["grow", "next", "loop"]), max_size=8),
    count=st.integers(0, 3),
    is_large=st.booleans(),
)
def test_a_list_that_grows_behind_its_end_has_ended_until_the_next_loop(
    steps: list[str], count: int, is_large: bool
) -> None:
    """`next` and loops in any order."""
    new = lambda number: array(number, (300, 1000) if is_large else (3, 5))
    batches = [new(number) for number in range(count)]
    prefetcher = xl.prefetch(batches)
    expected, is_begun_anew = iter(batches), False
    for step in steps:
        if step == "grow":
            if is_begun_anew:  # else the end may have been read ahead
                batches.append(new(len(batches)))
        elif step == "next":
            found, other = next(prefetcher, None), next(expected, None)
            assert (found is None) == (other is None) == ("ended" in repr(prefetcher))
            is_begun_anew |= other is None
            if other is not None:
                same(found, other)
        else:
            if is_begun_anew:
                expected = iter(batches)
            is_begun_anew = True
            for found, other in zip(prefetcher, expected, strict=True):
                same(found, other)
            assert "ended" in repr(prefetcher)
    prefetcher.close()
    with pytest.raises(e.ClosedError):
        next(prefetcher)


@pytest.mark.parametrize("kind", ["list", "iterator"])
def test_a_transform_that_fails_once_loses_no_batch(kind: str) -> None:
    calls = itertools.count()

    def fails_at_the_third(batch: Any) -> Any:
        if next(calls) == 2:
            raise ZeroDivisionError("not this time")
        return batch

    prefetcher = xl.prefetch(SOURCES[kind]([array(n) for n in range(5)]), transform=fails_at_the_third)
    found = [xl.to_host(next(prefetcher)) for _ in range(2)]
    with pytest.raises(ZeroDivisionError, match="not this time"):
        next(prefetcher)
    found += [xl.to_host(batch) for batch in prefetcher]
    same(found, [array(number) for number in range(5)])


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="the platform sends no signal to a thread")
@pytest.mark.usefixtures("thread")
def test_ctrl_c_while_a_batch_is_waited_for_is_itself_and_loses_nothing() -> None:
    release, waits, has_struck = threading.Event(), threading.Event(), threading.Event()

    def strike(*_: Any) -> None:
        if not has_struck.is_set():
            has_struck.set()
            raise KeyboardInterrupt

    def source() -> Iterator[Any]:
        yield array(0)
        waits.set()
        release.wait()
        yield array(1)

    def interrupt() -> None:
        waits.wait()
        while not has_struck.wait(0.1):  # CPython sees a signal late that comes right before it waits for a lock
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    prefetcher = xl.prefetch(source())
    found = [xl.to_host(next(prefetcher))]
    interrupter = threading.Thread(target=interrupt)
    before = signal.signal(signal.SIGINT, strike)
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupter.start()
            next(prefetcher)
            release.wait()  # the signal may come a little later
        interrupter.join()
    finally:
        signal.signal(signal.SIGINT, before)
    release.set()
    found += [xl.to_host(batch) for batch in prefetcher]
    same(found, [array(number) for number in range(2)])


def test_ctrl_c_in_a_generator_that_the_consumer_reads_is_no_silent_end(reader: str) -> None:
    struck = itertools.count()

    class Counted:
        given = 0

        def __iter__(self) -> Iterator[Any]:
            return self

        def __next__(self) -> Any:
            if next(struck) == 1:
                raise KeyboardInterrupt
            self.given += 1
            return array(self.given)

    goes_on = xl.prefetch(Counted())  # an iterator that is no generator is none the worse for it
    assert_same_bits(xl.to_host(next(goes_on)), array(1))
    with pytest.raises(KeyboardInterrupt):
        next(goes_on)
    if reader == "consumer":
        assert_same_bits(xl.to_host(next(goes_on)), array(2))
    goes_on.close()

    def source() -> Iterator[Any]:
        yield array(0)
        raise KeyboardInterrupt

    ended = xl.prefetch(source())
    assert_same_bits(xl.to_host(next(ended)), array(0))
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            next(ended)


def test_an_interrupt_in_the_middle_of_staging_is_itself_and_loses_nothing(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if xl.get_device().kind == "cpu":
        pytest.skip("a CPU device stages nothing")
    if backend not in ("fake", "sim") and native().is_on:
        pytest.skip("its copies are enqueued in C")
    items = [array(number, (9, 1 << 20)) for number in range(2)]  # none is staged as a whole on any host
    copies, own, errors = itertools.count(), load_backend(backend).copy, []

    def interrupted(*args: Any, **options: Any) -> None:
        if next(copies) == 5:
            raise KeyboardInterrupt
        own(*args, **options)

    monkeypatch.setattr(load_backend(backend), "copy", interrupted)
    found: list[Any] = []
    prefetcher = xl.prefetch(items)
    while len(found) < len(items):
        try:
            found.append(next(prefetcher))
        except KeyboardInterrupt as error:
            errors.append(error)
    assert len(errors) == 1
    for item, batch in zip(items, found, strict=True):
        assert_same_bits(xl.to_host(batch), item)


def test_a_torch_data_loader_is_a_source() -> None:
    data = pytest.importorskip("torch.utils.data")
    torch = pytest.importorskip("torch")
    images, labels = torch.arange(2000.0).reshape(20, 100), torch.arange(20)
    loader = data.DataLoader(data.TensorDataset(images, labels), batch_size=6)
    for _ in range(2):
        batches = list(xl.prefetch(loader))
        assert [len(xl.to_host(x)) for x, _ in batches] == [6, 6, 6, 2]
        assert_same_bits(np.concatenate([xl.to_host(x) for x, _ in batches]), images.numpy())
        assert_same_bits(np.concatenate([xl.to_host(t) for _, t in batches]), labels.numpy())


# --- the end


def ends(prefetcher: xl.Prefetcher[Any]) -> None:
    """The thread that reads for a prefetcher ends."""
    feed: Any = prefetcher._feed
    thread = feed.thread
    thread.join(60.0)
    assert not thread.is_alive()


@pytest.mark.parametrize("how", ["close", "break", "error", "unused"])
@pytest.mark.usefixtures("thread")
def test_a_prefetcher_that_is_closed_or_dropped_ends_its_thread_and_its_source(how: str) -> None:
    begun, ended = threading.Event(), threading.Event()

    def source() -> Iterator[Any]:
        try:
            begun.set()
            for number in itertools.count():
                yield array(number, (100, 999))
        finally:
            ended.set()

    def consume() -> None:
        prefetcher = xl.prefetch(source())
        assert begun.wait(60.0)  # a generator that has not begun has nothing to end
        if how == "unused":
            return
        for number, batch in zip(range(5), prefetcher, strict=False):
            same(batch, array(number, (100, 999)))
        if how == "error":
            raise ZeroDivisionError
        if how == "close":
            prefetcher.close()
            ends(prefetcher)
            assert ended.is_set()
            prefetcher.close()
            for _ in range(2):
                with pytest.raises(e.ClosedError, match="closed after 5 batches"):
                    next(prefetcher)

    with contextlib.suppress(ZeroDivisionError):
        consume()
    gc.collect()
    assert ended.wait(60.0)


def test_a_closed_prefetcher_needs_nothing_of_a_module_when_it_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter closes each at its end, and collects a program's own when modules have no names any more."""
    for source in ([array(0), array(1)], iter([array(0), array(1)])):
        prefetcher: Any = xl.prefetch(source)
        next(prefetcher)
        feed = prefetcher._feed
        feeds = sys.modules[type(feed).__module__]
        feed.close(waits=True)
        with monkeypatch.context() as patch:
            for name in [each for each in vars(feeds) if not each.startswith("__")]:
                patch.setattr(feeds, name, None)
            prefetcher.__del__()


def test_a_prefetcher_whose_close_was_interrupted_ends_its_thread_when_it_is_dropped(backend: str) -> None:
    """Ctrl-C at each line of a close, when all copies are complete: no thread waits for the interpreter's end."""
    for count in itertools.count():
        ended, left = threading.Event(), [count]

        def source(ended: threading.Event = ended) -> Iterator[np.ndarray[Any, Any]]:
            try:
                for number in itertools.count():
                    yield array(number, (100, 999))
            finally:
                ended.set()

        def strike(frame: Any, event: str, _: Any, left: list[int] = left) -> Any:
            if frame.f_code.co_qualname not in ("Feed.close", "Feed._drop"):
                return None
            if event == "line":
                left[0] -= 1
                if left[0] < 0:
                    sys.settrace(None)
                    signal.raise_signal(signal.SIGINT)
            return strike

        with batches_read_by("thread"):
            prefetcher: Any = xl.prefetch(source())
            next(prefetcher)
        feed = prefetcher._feed
        is_waiting = False
        while not is_waiting:  # for room, without which it looks at nothing
            with feed._changed:
                is_waiting = feed._phase.name == "IDLE" and not feed._has_room
        del feed
        if backend == "fake":  # whose copies are late
            xl.synchronize()
        tracing = sys.gettrace()
        sys.settrace(strike)
        try:
            with contextlib.suppress(KeyboardInterrupt):
                prefetcher.close()
        finally:
            sys.settrace(tracing)
        del prefetcher
        assert ended.wait(60.0), count
        if left[0] >= 0:
            break
    assert count > 3


class Rebuilt:
    """A container of one array; a function is called where the main thread rebuilds it."""

    called: Callable[[Any], None] = staticmethod(lambda x: None)

    def __init__(self, x: Any) -> None:
        self.x = x

    @classmethod
    def around(cls, _: Any, leaves: Any) -> Any:
        (x,) = leaves
        if threading.current_thread() is threading.main_thread():
            cls.called(x)
        return cls(x)


xl.tree.register(Rebuilt, lambda made: ((made.x,), None), Rebuilt.around)


@pytest.mark.parametrize("kind", ["list", "generator"])
def test_a_batch_that_was_closed_in_the_middle_of_its_turn_is_not_handed_out(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [Rebuilt(array(number)) for number in range(9)]
    prefetcher = xl.prefetch(SOURCES[kind](items))
    next(prefetcher)
    taken, closed_at = 1, []

    def close_behind(x: Any) -> None:
        if any(x is item.x for item in items):
            return
        closer = threading.Thread(target=prefetcher.close)
        closer.start()
        closer.join()
        closed_at.append(taken)

    monkeypatch.setattr(Rebuilt, "called", close_behind)
    with pytest.raises(e.ClosedError) as refused:
        while True:
            next(prefetcher)
            taken += 1
    assert closed_at[0] == taken
    assert f"closed after {taken} batches" in str(refused.value)
    with pytest.raises(e.ClosedError, match=f"closed after {taken} batches"):
        next(prefetcher)


@pytest.mark.parametrize("fault", ["batch", "transform", "device"])
@pytest.mark.usefixtures("thread")
def test_a_prefetcher_dropped_after_an_error_ends_its_thread_without_a_collection(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def source() -> Iterator[Any]:
        yield array(0)
        for _ in itertools.count():
            yield np.array([None]) if fault == "batch" else np.zeros(600_000, np.float32)

    def fails(*_: Any, **__: Any) -> Any:
        raise e.DeviceError("lost")

    others = threading.enumerate()
    prefetcher = xl.prefetch(source(), transform=fails if fault == "transform" else None)
    (thread,) = (each for each in threading.enumerate() if each.name == "xferlib-feed" and each not in others)
    if fault == "device":
        monkeypatch.setattr(xl.get_backend(), "event_synchronize", fails)
    for _ in range(4):
        with contextlib.suppress(e.XferError):
            next(prefetcher)
    gc.disable()
    try:
        del prefetcher
        thread.join(60.0)
        assert not thread.is_alive()
    finally:
        gc.enable()


@pytest.mark.parametrize("is_waited_for", [False, True])
@pytest.mark.usefixtures("thread")
def test_close_does_not_wait_for_a_source_that_waits_and_a_consumer_learns_of_it(is_waited_for: bool) -> None:
    release = threading.Event()
    seen: list[str] = []

    def source() -> Iterator[Any]:
        seen.append(xl.get_backend().name)  # the default of the thread that made the prefetcher
        yield array(0)
        release.wait()
        yield array(1)

    prefetcher = xl.prefetch(source())
    same(next(prefetcher), array(0))  # the first comes although the second does not
    with ThreadPoolExecutor(1) as executor:
        waiting = executor.submit(next, prefetcher) if is_waited_for else None
        prefetcher.close()
        if waiting is not None:
            with pytest.raises(e.ClosedError):
                waiting.result(60.0)
    release.set()
    ends(prefetcher)
    assert seen == [xl.get_backend().name]


def test_two_at_once_and_in_threads_of_the_user() -> None:
    def consume(start: int) -> None:
        items = [array(start + n, (50, 997)) for n in range(8)]
        for item, a, b in zip(items, xl.prefetch(iter(items)), xl.prefetch(items), strict=True):
            same([a, b], [item, item])

    assert xl.get_backend().name
    with ThreadPoolExecutor(4) as executor:
        list(executor.map(consume, range(0, 400, 100)))


# --- transform and stream


@pytest.mark.parametrize("kind", ["list", "iterator"])
def test_a_transform_sees_batches_on_the_device_and_its_results_are_handed_out(kind: str) -> None:
    def copied(batch: Any) -> Any:
        assert xl.device_of(batch["x"]) is xl.get_device()
        return xl.to_device(batch["x"]), "beside", batch["x"]

    items = [{"x": array(n, (40, 1000))} for n in range(7)]
    for item, (copied_x, beside, batch) in zip(items, xl.prefetch(SOURCES[kind](items), transform=copied), strict=True):
        assert beside == "beside"
        assert_same_bits(xl.to_host(copied_x), item["x"])
        assert_same_bits(xl.to_host(batch), item["x"])


@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.parametrize("is_given", [False, True])
def test_batches_are_ordered_on_the_stream_that_is_current_when_they_are_taken(rows: int, is_given: bool) -> None:
    place = xl.get_device()
    streams = [xl.Stream(place), xl.current_stream(place), xl.Stream(place)]
    items = [array(n, (rows, 1000)) for n in range(9)]
    with xl.prefetch(items, depth=3, stream=xl.Stream(place) if is_given else None) as ahead:
        for number, item in enumerate(items):
            with streams[number % 3]:
                copied = xl.to_device(next(ahead))
                back = xl.to_host_async(copied, stream=streams[number % 3])
            assert_same_bits(back.result(), item)


# --- arguments


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    *(({"depth": depth}, e.ArgumentError, "depth=.*2 suits") for depth in (0, -1, 1.0, True, None, "2")),
    *(
        ({"batches": batches}, e.UnsupportedArrayError, "batches is")
        for batches in ({"x": array(0)}, "x.npy", 5, None, np.array(1.0))
    ),
    ({"transform": "float32"}, e.ArgumentError, "transform is str"),
    ({"device": "cuda:99"}, e.DeviceNotFoundError, "cuda:99"),
    ({"stream": "fast"}, e.StreamError, "stream"),
]


@pytest.mark.parametrize(("options", "error", "words"), REFUSED)
def test_wrong_arguments_are_refused(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        xl.prefetch(**{"batches": [], **options})


@pytest.mark.parametrize("kind", ["list", "iterator"])
@pytest.mark.parametrize("is_failing", [False, True])
def test_a_prefetcher_whose_source_has_ended_is_freed_with_its_streams(kind: str, is_failing: bool) -> None:
    class Source(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            yield from super().__iter__()
            if is_failing:
                raise KeyError("the file is gone")

    prefetcher = xl.prefetch(SOURCES[kind](Source([array(1), array(2)])) if kind == "iterator" else [array(1)])
    freed, feed = weakref.ref(prefetcher), weakref.ref(prefetcher._feed)
    thread = getattr(prefetcher._feed, "_thread", None)
    try:
        for batch in prefetcher:
            del batch
    except KeyError:
        assert is_failing
    if thread is not None:
        thread.join()
    del prefetcher, thread
    gc.collect()
    assert freed() is None
    assert feed() is None


def fail(batch: Any) -> Any:
    raise ZeroDivisionError("not this one")


BAD: dict[str, tuple[Any, Callable[[Any], Any] | None]] = {
    "small": (np.array([{}]), None),
    "small tree": ({"x": array(1), "t": np.array(["text"])}, None),
    "medium": (np.array(["text"] * 100_000), None),
    "medium tree": ((array(1, (600, 1000)), np.array(["text"])), None),
    "large": ((array(1, (2300, 1000)), np.array(["text"])), None),
    "large transform": (array(1, (2300, 1000)), fail),
    "small transform": (array(1), fail),
}
"""Batches that raise an error in their turn, and a transform that does."""


@pytest.mark.parametrize("form", BAD)
@pytest.mark.parametrize("again", [0, 2])
def test_a_prefetcher_that_is_dropped_behind_an_error_ends_its_thread_at_once(
    form: str, again: int, reader: str
) -> None:
    """Not at some later collection of garbage: until then the thread would hold batches, and read on."""
    bad, transform = BAD[form]
    others = {*threading.enumerate()}

    def consume() -> None:
        prefetcher = xl.prefetch((each for each in [bad, *map(array, range(9))]), transform=transform)
        for _ in range(1 + again):
            try:
                next(prefetcher)
            except (e.XferError, ZeroDivisionError):
                pass

    gc.collect()
    gc.disable()
    try:
        consume()
        for thread in {*threading.enumerate()} - others:
            if thread.name == "xferlib-feed":
                thread.join(60)
                assert not thread.is_alive()
    finally:
        gc.enable()


def test_a_thread_that_cannot_be_started_is_an_error_and_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another start is tried at the next ``next``, and no item is lost."""
    start, failures = threading.Thread.start, [True, True]

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "xferlib-feed" and failures:
            failures.pop()
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with batches_read_by("consumer", hidden_ns=0):
        prefetcher = xl.prefetch(map(array, range(5)))
        found = [xl.to_host(next(prefetcher)) for _ in range(3)]
        for _ in range(2):
            with pytest.raises(RuntimeError, match="can't start new thread"):
                next(prefetcher)
        found += [xl.to_host(batch) for batch in prefetcher]
    same(found, [array(number) for number in range(5)])


@pytest.mark.usefixtures("thread")
def test_small_batches_of_a_generator_travel_on_the_consumers_stream() -> None:
    place = xl.get_device()
    if place.kind == "cpu":
        pytest.skip("a CPU has no streams")
    with xl.trace() as found, xl.Stream(place) as stream:
        for _ in xl.prefetch(array(number) for number in range(5)):
            pass
        stream.synchronize()
    copies = [each for each in found.operations if each.kind == "h2d" and each.file == __file__]
    assert 1 <= len(copies) <= 5  # as many at once as were ready; another test's transfers may be on their way, too
    assert sum(each.nbytes for each in copies) >= 5 * array(0).nbytes
    assert len({each.stream for each in copies}) == 1
    own = {each.stream for each in copies}
    for rows, count in ((100, 1), (9000, 3)):  # staged whole on one stream beside it, larger ones on those of slots
        with xl.trace() as found, stream:
            for _ in xl.prefetch(array(number, (rows, 1000)) for number in range(5)):
                pass
        beside = {each.stream for each in found.operations if each.kind == "h2d" and each.file == __file__}
        assert len(beside) == count
        assert not beside & own


@pytest.mark.parametrize("form", ["2.8 MB", "4.2 MB", "images and labels"])
@pytest.mark.parametrize("kind", ["list", "generator"])
def test_batches_of_a_few_mib_are_staged_as_a_whole_and_sent_on_one_stream(kind: str, form: str) -> None:
    if xl.get_device().kind == "cpu" or not native().is_on:
        pytest.skip("no streams, or staging in C is missing")
    makes = {"2.8 MB": lambda n: (array(n, (700, 1000)),), "4.2 MB": lambda n: (array(n, (1048, 1000)),)} | BATCHES
    batches = [makes[form](number) for number in range(6)]
    expected = [tuple(leaf.copy() for leaf in batch) for batch in batches]
    with cores(16), xl.trace() as found, xl.prefetch(batches if kind == "list" else iter(batches)) as ahead:
        got = [xl.tree.to_host(batch) for batch in ahead]
    same(got, expected)
    images = [each for each in found.operations if each.kind == "h2d" and each.nbytes == batches[0][0].nbytes]
    assert len(images) == 6
    assert len({each.stream for each in images}) == 1


@pytest.mark.parametrize("moves", [False, True])
def test_a_batch_is_copied_beside_the_work_on_the_one_before_though_it_is_staged_behind_that(
    moves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, backend = xl.get_device(), xl.get_backend()
    if place.kind == "cpu":
        pytest.skip("a CPU has no streams")
    asked, done, log = threading.Semaphore(0), 0, []
    items = [array(number, (100 + (moves and number % 2), 1000)) for number in range(8)]

    def source() -> Iterator[Any]:
        for item in items:
            asked.acquire()  # so that the consumer is always first
            yield item

    record, wait = backend.event_record, backend.event_wait

    def record_event(stream: Any, **options: Any) -> Any:
        event = record(stream, **options)
        log.append((stream.handle, event, done))
        return event

    waited: list[tuple[int, int]] = []

    def wait_event(stream: Any, event: Any) -> None:
        on, recorded = next((handle, count) for handle, each, count in reversed(log) if each is event)
        if on == own and stream.handle != own:
            waited.append((done, recorded))
        wait(stream, event)

    with xl.trace(), batches_read_by("thread"), xl.Stream(place) as stream:
        own = stream.handle
        monkeypatch.setattr(backend, "event_record", record_event)
        monkeypatch.setattr(backend, "event_wait", wait_event)
        ahead, found = xl.prefetch(source()), []
        for _ in items:
            asked.release()
            found.append(next(ahead))
            done += 1  # the consumer's work on it
        assert next(ahead, None) is None
        monkeypatch.undo()
        same([xl.to_host(batch) for batch in found], items)
    behind = [works - recorded for works, recorded in waited]
    assert len(behind) == len(items)
    assert behind == [0] * 8 if moves else behind == [0] + [1] * 7


def test_a_thread_reads_a_generator_once_that_hides_its_work_behind_the_consumers() -> None:
    readers: list[str] = []

    def source() -> Iterator[Any]:
        for number in range(6):
            readers.append(threading.current_thread().name)
            yield array(number)

    here = threading.current_thread().name
    for threshold, expected in ((1 << 62, [here] * 6), (0, [here] * 3 + ["xferlib-feed"] * 3)):
        readers.clear()
        with batches_read_by("consumer", hidden_ns=threshold):
            same([xl.to_host(batch) for batch in xl.prefetch(source())], [array(number) for number in range(6)])
        assert readers == expected


@pytest.mark.parametrize("kind", ["list", "generator"])
def test_no_stream_is_made_for_batches_that_travel_on_the_consumers(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(xl.get_backend(), "stream_create", lambda *_, **__: made.append(1))
    items = [array(number) for number in range(4)]
    with batches_read_by("consumer"):
        same([xl.to_host(batch) for batch in xl.prefetch(SOURCES[kind](items))], items)
    assert not made


def test_a_batch_that_is_no_tree_says_so_when_its_turn_comes() -> None:
    class Node:
        pass

    def flatten(node: Node) -> Any:
        raise ZeroDivisionError("no children today")

    xl.tree.register(Node, flatten, lambda metadata, children: Node())
    with xl.prefetch([Node(), array(1)]) as batches, pytest.raises(ZeroDivisionError, match="no children today"):
        next(batches)


def test_a_thread_reads_ahead_only_where_the_host_is_kept_busy() -> None:
    name = xl.get_backend().name
    backend, place = xl.get_backend(), xl.get_device()
    is_host = place.kind == "cpu"
    stages_alone = native().is_on and backend.fast is not None and backend.fast.staging_calls(place) is not None
    large = [np.arange(2 << 20, dtype="float32") + number for number in range(4)]
    pinned = [xl.pinned_array(each, backend=name) for each in large]
    gaps = [each.repeat(2)[::2] for each in large]
    cases: list[tuple[list[Any], bool]] = [
        (large, not stages_alone),
        (pinned, is_host),  # where no device reads them by itself
        (gaps, not stages_alone),
        ([each.astype(">f4") for each in large], not stages_alone),
        ([{"x": each} for each in pinned], is_host),
        ([each[:1000] for each in large], False),
    ]
    for batches, is_threaded in cases:
        before = set(threading.enumerate())
        with xl.prefetch(batches) as found:
            begun = {each.name for each in {*threading.enumerate()} - before}
            assert ("xferlib-feed" in begun) == is_threaded
            for there, here in zip(found, batches, strict=True):
                same(there, here)


@pytest.mark.parametrize("is_pinned", [False, True])
def test_small_batches_of_a_list_are_one_copy_each(fake: Any, is_pinned: bool) -> None:
    made = (lambda x: xl.pinned_array(x, backend="fake")) if is_pinned else np.copy
    batches = [made(array(number, (3, 5))) for number in range(6)]
    batches += [{"x": made(array(number)), "y": array(-number, (7,), "int16")} for number in range(6)]
    with xl.trace() as found, xl.prefetch(batches, device="fake:sim:0") as ahead:
        arrived = [xl.tree.to_host(batch) for batch in ahead]
    same(arrived, batches)
    assert (
        len([each for each in found.operations if each.kind == "h2d" and each.file == __file__]) == 12
    )  # one for both leaves


# --- rows that are cut into batches, and several threads that read


class Items:
    """A data set: its items are read by number."""

    def __init__(self, count: int, read: Callable[[int], Any] = array) -> None:
        self.count, self.read = count, read

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> Any:
        return self.read(number)


@settings(max_examples=30)
@given(st.integers(0, 20), st.integers(1, 7), st.sampled_from([None, 1, 3]), st.booleans())
def test_rows_are_cut_into_batches(rows: int, size: int, workers: int | None, is_sliced: bool) -> None:
    x, y = array(0, (rows, 3)), array(1, (rows,), "int32")
    sources: Any = [Sliced(x), Sliced(y)] if is_sliced else [x, y]
    with xl.prefetch({"x": sources[0], "y": (sources[1],)}, batch_size=size, workers=workers) as batches:
        assert len(batches) == -(-rows // size)
        for _ in range(2):
            found = list(batches)
            expected = [{"x": x[n : n + size], "y": (y[n : n + size],)} for n in range(0, rows, size)]
            assert len(found) == len(expected)
            for one, other in zip(found, expected, strict=True):
                same(one, other)
    assert len([*xl.prefetch(x, batch_size=size)]) == len(expected)


def test_items_come_in_their_order_whichever_thread_is_first() -> None:
    """Each item waits until the next one has been read."""
    count, workers = 9, 3
    read = [threading.Event() for _ in range(count)]

    def item(number: int) -> Any:
        if number % workers != workers - 1:
            assert read[number + 1].wait(60)
        read[number].set()
        return array(number)

    found = [xl.to_host(each) for each in xl.prefetch(Items(count, item), workers=workers)]
    assert_same_bits(np.stack(found), np.stack([array(number) for number in range(count)]))


@pytest.mark.parametrize("workers", [1, 4])
def test_an_error_of_an_item_is_raised_in_its_place_and_again(workers: int) -> None:
    def item(number: int) -> Any:
        if number == 5:
            raise KeyError(number)
        return array(number)

    with xl.prefetch(Items(9, item), workers=workers) as batches:
        for number in range(5):
            same(next(batches), array(number))
        for _ in range(2):
            with pytest.raises(KeyError, match="5"):
                next(batches)


def test_few_items_are_read_ahead_and_closing_ends_the_threads() -> None:
    """Also where one of them is in the source, which returns later, and where the prefetcher is dropped."""
    seen: list[int] = []
    is_over, others = threading.Event(), {*threading.enumerate()}

    def item(number: int) -> Any:
        seen.append(number)
        if number > 3:
            is_over.wait(60)
        return array(number)

    batches = xl.prefetch(Items(100, item), depth=1, workers=2)
    for number in range(4):
        same(next(batches), array(number))
    batches.close()
    with pytest.raises(e.ClosedError):
        next(batches)
    is_over.set()
    dropped = xl.prefetch(Items(100, item), depth=1, workers=2)
    same(next(dropped), array(0))
    del dropped
    gc.collect()
    for thread in {*threading.enumerate()} - others:
        if thread.name.startswith(("xferlib-read", "xferlib-feed")):
            thread.join(60)
            assert not thread.is_alive()
    assert len(seen) < 30


def test_rows_that_cannot_be_cut_and_workers_without_numbers_are_refused() -> None:
    x = np.zeros((4, 2))
    with pytest.raises(e.UnsupportedArrayError, match=r"one array of 4 rows.*give batch_size="):
        xl.prefetch(x)
    arrays: list[Any] = [Sliced(x), xl.to_device(x)]
    for given_ in arrays:
        with pytest.raises(e.UnsupportedArrayError, match="one array of 4 rows"):
            xl.prefetch(given_)
    for size in (0, -1, 1.5, "2"):
        with pytest.raises(e.ArgumentError, match="batch_size="):
            xl.prefetch(x, batch_size=size)  # type: ignore[arg-type]
    for alone in (2.0, "ab", (x, 2.0)):
        with pytest.raises(e.UnsupportedArrayError, match="there is (float|str)"):
            xl.prefetch(alone, batch_size=2)  # type: ignore[arg-type]
    with pytest.raises(e.LayoutError, match=r"have \[4, 3\]; give"):
        xl.prefetch((x, x[:3]), batch_size=2)
    for count in (0, 1.5, 1 << 20):
        with pytest.raises(e.ArgumentError, match="workers="):
            xl.prefetch([x], workers=count)  # type: ignore[arg-type]
    with pytest.raises(e.ArgumentError, match="which generator has not"):
        xl.prefetch((each for each in [x]), workers=2)
    with pytest.raises(e.ArgumentError, match="which generator has not"):
        xl.prefetch((each for each in [x]), batch_size=2, workers=2)


LEAF = st.tuples(
    st.sampled_from(["float32", "int16", "bool", "number", "text"]), st.lists(st.integers(0, 3), max_size=2)
)


def item_of(leaves: list[tuple[str, list[int]]], number: int, memory: list[Any]) -> Any:
    """The item of a number: a dict of arrays, which lie in ``memory`` where that is not empty, of numbers and texts."""
    item: dict[str, Any] = {}
    for place, (kind, shape) in enumerate(leaves):
        if kind in ("number", "text"):
            item[str(place)] = [number / 2, f"{number}"][kind == "text"]
            continue
        value = np.arange(np.prod(shape)).reshape(shape) + number + place
        if len(memory) <= place:
            memory += [np.empty(0)] * (place + 1 - len(memory))
        if memory[place].shape != value.shape or memory[place].dtype != kind:
            memory[place] = np.empty(shape, kind)
        memory[place][...] = value
        item[str(place)] = memory[place]
    return item


@settings(max_examples=30)
@given(
    st.lists(LEAF, min_size=1, max_size=3), st.integers(0, 12), st.integers(1, 5),
    st.sampled_from(["a list", "a data set", "a generator", "a set of workers"]),
)  # fmt: skip
def test_items_are_stacked_into_batches(
    leaves: list[tuple[str, list[int]]], count: int, size: int, source: str
) -> None:
    """As by NumPy's stack, also where the source fills the same arrays again; of a text a batch has a list."""
    items = [item_of(leaves, number, []) for number in range(count)]
    memory: list[Any] = []
    given: Any = {
        "a list": items,
        "a data set": Items(count, lambda number: item_of(leaves, number, memory)),
        "a generator": (item_of(leaves, number, memory) for number in range(count)),
        "a set of workers": Items(count, lambda number: items[number]),
    }[source]
    with xl.prefetch(given, batch_size=size, workers=3 if source == "a set of workers" else None) as batches:
        found = list(batches)
        if source != "a generator":
            assert len(batches) == len(found) == len([*batches])
    assert len(found) == -(-count // size)
    for number, batch in enumerate(found):
        chosen = items[number * size : (number + 1) * size]
        assert batch.keys() == chosen[0].keys()
        for place, (kind, _) in enumerate(leaves):
            column = [item[str(place)] for item in chosen]
            if kind == "text":
                assert batch[str(place)] == column
            else:
                assert_same_bits(xl.to_host(batch[str(place)]), np.stack(column))


def test_items_that_differ_are_refused_in_their_place() -> None:
    """Columns in a list among them, which are no items."""
    x, y = np.zeros((4, 2)), np.zeros(4, "int64")
    for items, match in (
        ([x, x, x[:3]], r"item is an array of shape \(3, 2\).*batch_size stacks items that are alike"),
        ([x, y], r"columns of a data set are a tuple, \(X, y\)"),
        ([{"a": x}, {"b": x}], r"consists of item\['b'\], and those before of item\['a'\]"),
        ([x, "text"], "item is str in one item of a batch, and an array in others"),
        ([("text", x), (x, x)], r"item\[0\] is ndarray in one item|item\[0\] is an? .*array"),
    ):
        with pytest.raises(e.LayoutError, match=match):
            list(xl.prefetch(items, batch_size=3))
    if xl.get_device().kind != "cpu":
        with pytest.raises(e.UnsupportedArrayError, match="batch_size stacks items on the host"):
            list(xl.prefetch([xl.zeros(3)], batch_size=3))


@pytest.mark.parametrize("workers", [None, 2])
def test_stop_iteration_inside_a_reader_or_a_transform_is_an_error(workers: int | None) -> None:
    """Taken for the end, it would lose the rest without a word."""

    def stop(number: int) -> Any:
        if number == 3:
            next(iter(()))
        return array(number)

    def transform(batch: Any) -> Any:
        stop(int(xl.to_host(batch).ravel()[0]))
        return batch

    class Rows(Sliced):
        def __getitem__(self, part: Any) -> Any:
            if part.start >= 4:
                next(iter(()))
            return super().__getitem__(part)

    rows: Any = Rows(np.arange(8.0).reshape(8, 1))
    whole_numbers = [np.full(2, float(number)) for number in range(6)]
    sources: list[Callable[[], Any]] = [
        lambda: xl.prefetch(whole_numbers, transform=transform, workers=workers),
        lambda: xl.prefetch(rows, batch_size=2, workers=workers),
    ]
    if workers:
        sources.append(lambda: xl.prefetch(Items(6, stop), workers=workers))
    for source in sources:
        with pytest.raises(RuntimeError, match=r"prefetch: .* raised StopIteration"), source() as batches:
            for _ in batches:
                pass
