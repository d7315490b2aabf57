"""Prefetching: order, contents, errors in their place, and an end that leaves nothing behind."""

from __future__ import annotations

import contextlib
import gc
import itertools
import signal
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xferlib as xl
from xferlib import errors as e
from xferlib.testing import assert_same_bits, backend_named, cores, native

pytestmark = pytest.mark.usefixtures("backend")

DTYPES = ["bool", "int8", "uint16", "int32", "float16", "float32", "float64", "complex128", ">f4"]


def array(number: int, shape: tuple[int, ...] = (3, 5), dtype: str = "float32") -> np.ndarray[Any, Any]:
    """Values that tell batches apart."""
    size = int(np.prod(shape))
    return (np.arange(size) * 7 + number).astype(np.uint8).astype(dtype).reshape(shape)


def listed(batches: Any, **options: Any) -> list[Any]:
    return [xl.tree.to_host(batch) for batch in xl.prefetch(batches, **options)]


SOURCES: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "iterator": iter,
    "generator": lambda items: (item for item in items),
    "map": lambda items: map(dict, items),
}


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("depth", [1, 2, 5])
def test_batches_of_every_source_and_depth_come_in_order(kind: str, depth: int) -> None:
    items = [{"x": array(n, (n + 1, 300)), "t": array(n, (n,), "int32"), "n": n, "no": None} for n in range(9)]
    for item, found in zip(items, listed(SOURCES[kind](items), depth=depth), strict=True):
        assert found["n"] == item["n"]
        assert found["no"] is None
        assert_same_bits(found["x"], item["x"])
        assert_same_bits(found["t"], item["t"])


@given(
    shapes=st.lists(st.lists(st.integers(0, 40), max_size=3).map(tuple), max_size=7),
    dtypes=st.lists(st.sampled_from(DTYPES), min_size=7, max_size=7),
    depth=st.integers(1, 4),
    is_read_ahead=st.booleans(),
    is_kept=st.booleans(),
)
def test_shapes_and_dtypes_may_change_from_batch_to_batch(
    shapes: list[tuple[int, ...]], dtypes: list[str], depth: int, is_read_ahead: bool, is_kept: bool
) -> None:
    items = [array(n, shape, dtype) for n, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=False))]
    prefetcher = xl.prefetch(iter(items) if is_read_ahead else items, depth=depth)
    found = list(prefetcher) if is_kept else [xl.to_host(batch) for batch in prefetcher]
    for item, batch in zip(items, found, strict=True):
        assert_same_bits(xl.to_host(batch), item.astype(item.dtype.newbyteorder("=")))


@pytest.mark.parametrize("rows", [1, 40, 900])  # small, medium and large
@pytest.mark.parametrize("kind", ["array", "pinned", "tree"])
def test_a_generator_may_fill_the_same_memory_again(kind: str, rows: int) -> None:
    memory: Any = np.zeros((rows, 1000), np.float32)
    if kind == "pinned":
        memory = xl.pinned_array(memory)
    tree: Any = {"x": np.empty((rows, 500), ">f4"), "y": [np.empty((500, rows)).T]} if kind == "tree" else memory
    leaves = [tree["x"], tree["y"][0]] if kind == "tree" else [memory]

    def source() -> Iterator[Any]:
        for number in range(12):
            for leaf in leaves:
                leaf[...] = number
            yield tree
        for leaf in leaves:
            leaf[...] = 99

    found = [xl.tree.to_host(batch) for batch in list(xl.prefetch(source(), depth=3))]
    assert len(found) == 12
    for number, batch in enumerate(found):
        for each, leaf in zip([batch["x"], batch["y"][0]] if kind == "tree" else [batch], leaves, strict=True):
            assert_same_bits(each, np.full(leaf.shape, number, leaf.dtype.newbyteorder("=")))


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


class Numbered:
    """Gives some arrays; all that an iterator may be asked, but for the next one, is answered wrongly."""

    def __init__(self, count: int) -> None:
        self._left = iter([array(number) for number in range(count)])

    def __next__(self) -> Any:
        return next(self._left)


class Unsized(Numbered):
    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        raise TypeError("object of type 'InfiniteSampler' has no len()")


class Empty(Unsized):
    def __len__(self) -> int:
        return 0


class Endless(Unsized):
    def __len__(self) -> int:
        return 1 << 40

    def __bool__(self) -> bool:
        raise ValueError("neither true nor false")

    def __eq__(self, other: object) -> bool:
        raise ValueError("neither equal nor not")

    __hash__ = None  # type: ignore[assignment]


def loaded(count: int) -> Any:
    torch = pytest.importorskip("torch")

    class Stream(torch.utils.data.IterableDataset):  # type: ignore[name-defined]
        def __iter__(self) -> Iterator[Any]:
            return Numbered(count)._left

    return torch.utils.data.DataLoader(Stream(), batch_size=None)


def anew(make: Callable[[int], Any]) -> Callable[[int], Any]:
    """An iterable whose iterator is made by ``make``: by itself it has nothing but ``__iter__``."""
    return lambda count: type("Source", (), {"__iter__": lambda _: make(count)})()


@pytest.mark.parametrize("make", [Unsized, Empty, Endless, loaded, *map(anew, (Numbered, Unsized, Empty, Endless))])
def test_an_iterator_is_asked_for_nothing_but_its_next_item(make: Any) -> None:
    found = [xl.to_host(batch) for batch in xl.prefetch(make(5))]
    for number, batch in enumerate(found):
        assert_same_bits(batch, array(number))
    assert len(found) == 5


# --- errors


@pytest.mark.parametrize("after", [0, 1, 2, 5])
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
@pytest.mark.parametrize("after", [0, 1, 4])
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
def test_an_ended_source_stays_ended(kind: str) -> None:
    batches = [array(0)]
    prefetcher = xl.prefetch(SOURCES[kind](batches))
    next(prefetcher)
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(prefetcher)
        batches.append(array(1))


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
    for number, batch in enumerate(found):
        assert_same_bits(batch, array(number))
    assert len(found) == 5


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="the platform sends no signal to a thread")
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
    for number, batch in enumerate(found):
        assert_same_bits(batch, array(number))
    assert len(found) == 2


def test_an_interrupt_in_the_middle_of_staging_is_itself_and_loses_nothing(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if xl.get_device().kind == "cpu":
        pytest.skip("a CPU device stages nothing")
    if backend not in ("fake", "sim") and native().is_on:
        pytest.skip("its copies are enqueued in C")
    items = [array(number, (5, 1 << 20)) for number in range(4)]
    copies, own, errors = itertools.count(), backend_named(backend).copy, []

    def interrupted(*args: Any, **options: Any) -> None:
        if next(copies) == 5:
            raise KeyboardInterrupt
        own(*args, **options)

    monkeypatch.setattr(backend_named(backend), "copy", interrupted)
    found: list[Any] = []
    prefetcher = xl.prefetch(items)
    while len(found) < 4:
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


def ends(prefetcher: xl.Prefetcher) -> None:
    """The thread that reads for a prefetcher ends."""
    feed: Any = prefetcher._feed
    thread = feed.thread
    thread.join(60.0)
    assert not thread.is_alive()


def test_close_ends_an_endless_source_and_lets_its_clean_up_run() -> None:
    ended = threading.Event()

    def source() -> Iterator[Any]:
        try:
            for number in itertools.count():
                yield array(number, (100, 999))
        finally:
            ended.set()

    with xl.prefetch(source()) as prefetcher:
        for number, batch in zip(range(5), prefetcher, strict=False):
            assert_same_bits(xl.to_host(batch), array(number, (100, 999)))
    ends(prefetcher)
    assert ended.is_set()
    prefetcher.close()
    for _ in range(2):
        with pytest.raises(e.ClosedError, match="closed after 5 batches"):
            next(prefetcher)


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


@pytest.mark.parametrize("how", ["break", "error", "unused"])
def test_a_dropped_prefetcher_ends_its_thread_and_its_source(how: str) -> None:
    begun, ended = threading.Event(), threading.Event()

    def source() -> Iterator[Any]:
        try:
            begun.set()
            for number in itertools.count():
                yield array(number)
        finally:
            ended.set()

    def consume() -> weakref.ref[Any]:
        prefetcher = xl.prefetch(source())
        if how == "unused":
            assert begun.wait(60.0)  # a generator that has not begun has nothing to end
        else:
            for number, _ in enumerate(prefetcher):
                if number == 3 and how == "break":
                    break
                if number == 3:
                    raise ZeroDivisionError
        return weakref.ref(prefetcher._feed)

    try:
        consume()
    except ZeroDivisionError:
        pass
    gc.collect()
    assert ended.wait(60.0)


@pytest.mark.parametrize("fault", ["batch", "transform", "device"])
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
def test_close_does_not_wait_for_a_source_that_waits_and_a_consumer_learns_of_it(is_waited_for: bool) -> None:
    release = threading.Event()
    seen: list[str] = []
    found: list[BaseException] = []

    def source() -> Iterator[Any]:
        seen.append(xl.get_backend().name)  # the default of the thread that made the prefetcher
        yield array(0)
        release.wait()
        yield array(1)

    def consume() -> None:
        try:
            next(prefetcher)
        except e.ClosedError as error:
            found.append(error)

    prefetcher = xl.prefetch(source())
    assert_same_bits(xl.to_host(next(prefetcher)), array(0))  # the first comes although the second does not
    consumer = threading.Thread(target=consume)
    if is_waited_for:
        consumer.start()
    prefetcher.close()
    if is_waited_for:
        consumer.join(60.0)
    release.set()
    ends(prefetcher)
    assert seen == [xl.get_backend().name]
    assert len(found) == is_waited_for


def test_two_at_once_and_in_threads_of_the_user() -> None:
    wrong: list[object] = []

    def consume(start: int) -> None:
        try:
            items = [array(start + n, (50, 997)) for n in range(8)]
            one, two = xl.prefetch(iter(items)), xl.prefetch(items)
            for item, a, b in zip(items, one, two, strict=True):
                assert_same_bits(xl.to_host(a), item)
                assert_same_bits(xl.to_host(b), item)
        except BaseException as error:
            wrong.append(error)

    consumers = [threading.Thread(target=consume, args=(100 * n,)) for n in range(4)]
    with_default = xl.get_backend().name
    assert with_default
    for consumer in consumers:
        consumer.start()
    for consumer in consumers:
        consumer.join()
    assert not wrong


# --- transform and stream


@pytest.mark.parametrize("kind", ["list", "iterator"])
def test_a_transform_sees_batches_on_the_device_and_its_results_are_handed_out(kind: str) -> None:
    def copied(batch: Any) -> Any:
        assert xl.device_of(batch["x"]) is xl.get_device()
        return xl.to_device(batch["x"]), "beside", batch["x"]

    items = [{"x": array(n, (40, 1000))} for n in range(7)]
    for item, (copy, beside, same) in zip(items, xl.prefetch(SOURCES[kind](items), transform=copied), strict=True):
        assert beside == "beside"
        assert_same_bits(xl.to_host(copy), item["x"])
        assert_same_bits(xl.to_host(same), item["x"])


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
                copy = xl.to_host_async(copied, stream=streams[number % 3])
            assert_same_bits(copy.result(), item)


# --- arguments


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    **{
        f"depth {depth}": (lambda depth=depth: xl.prefetch([], depth=depth), e.ArgumentError, "depth=.*2 suits")
        for depth in (0, -1, 1.0, True, None, "2")
    },
    **{
        f"batches {number}": (lambda each=each: xl.prefetch(each), e.UnsupportedArrayError, "batches is")
        for number, each in enumerate(({"x": array(0)}, "x.npy", 5, None, np.array(1.0)))
    },
    "transform": (lambda: xl.prefetch([], transform="float32"), e.ArgumentError, "transform is str"),  # type: ignore[arg-type]
    "device": (lambda: xl.prefetch([], device="cuda:99"), e.DeviceNotFoundError, "cuda:99"),
    "stream": (lambda: xl.prefetch([], stream="fast"), e.StreamError, "stream"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_arguments_are_refused(case: str) -> None:
    call, error, words = REFUSED[case]
    with pytest.raises(error, match=words):
        call()


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
    for rows, count in ((100, 1), (2200, 3)):  # medium ones on one stream beside it, others on those of their slots
        with xl.trace() as found, stream:
            for _ in xl.prefetch(array(number, (rows, 1000)) for number in range(5)):
                pass
        beside = {each.stream for each in found.operations if each.kind == "h2d" and each.file == __file__}
        assert len(beside) == count
        assert not beside & own


def test_pinned_batches_of_a_list_arrive_whatever_comes_between_them() -> None:
    name = xl.get_backend().name
    make = lambda number, shape=(100, 1000), dtype="float32": np.full(shape, number, dtype)
    pinned = [xl.pinned_array(make(number), backend=name) for number in range(3)]
    wide = xl.pinned_array(make(7, (200, 1000)), backend=name)
    batches = [
        *pinned,
        make(3),  # of the same form, and not pinned
        pinned[1],
        wide[::2],  # pinned, with gaps
        pinned[2],
        wide[:100],  # a view
        make(4, dtype=">f4"),
        xl.pinned_array(make(5, dtype="int32"), backend=name),
        xl.pinned_array(make(6, (1000, 100)), backend=name),
        wide.T,
        pinned[0],
    ]
    for depth in (1, 3):
        with xl.prefetch(batches, depth=depth) as ahead:
            for expected, batch in zip(batches, ahead, strict=True):
                native = expected.astype(expected.dtype.newbyteorder("="))
                assert_same_bits(xl.to_host(batch), native)


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """The tree with ``function`` of each leaf."""
    if isinstance(tree, dict):
        return {key: mapped(function, child) for key, child in tree.items()}
    return type(tree)(mapped(function, child) for child in tree) if isinstance(tree, (list, tuple)) else function(tree)


def leaves_of(tree: Any) -> list[Any]:
    leaves: list[Any] = []
    mapped(leaves.append, tree)
    return leaves


TREES: dict[str, Callable[[int], Any]] = {
    "images and labels": lambda n: (array(n, (600, 1000)), array(-n, (256,), "int64")),
    "three": lambda n: {
        "x": array(n, (600, 1000)),
        "y": array(-n, (50, 1000)),
        "z": [array(n, (90_000,), "uint8")],
        "n": n,
    },
    "four": lambda n: [array(n + k, (300, 1000)) for k in range(4)],
    "large": lambda n: (array(n, (2300, 1000)), None, array(n, (600, 1000), "uint8")),
    "swapped": lambda n: (array(n, (600, 1000), ">f4"), array(n, (3,))),
    "transposed": lambda n: (array(n, (600, 1000)).T, np.float32(n)),
    "empty": lambda n: (array(n, (600, 1000)), array(n, (0, 5)), array(n, ())),
    "sizes change": lambda n: (array(n, (600 + 300 * (n % 3), 1000)), array(n, (100, 1 + n % 2, 300))),
}


@pytest.mark.parametrize("form", TREES)
@pytest.mark.parametrize("kind", ["list", "generator", "generator of tensors"])
def test_batches_of_a_few_arrays_arrive_as_trees_do(form: str, kind: str) -> None:
    batches = [TREES[form](number) for number in range(7)]
    expected = [xl.tree.to_host(xl.tree.to_device(batch)) for batch in batches]
    if kind == "generator of tensors":
        torch = pytest.importorskip("torch")
        if form == "swapped":
            pytest.skip("no tensor has swapped bytes")
        as_given = lambda leaf: torch.from_numpy(leaf) if isinstance(leaf, np.ndarray) else leaf
        batches = [mapped(as_given, batch) for batch in batches]

    def refilled() -> Iterator[Any]:
        for batch in batches:
            yield batch
            for leaf in leaves_of(batch):
                if hasattr(leaf, "shape") and not isinstance(leaf, np.generic):
                    leaf[...] = 0

    with cores(16), xl.prefetch(batches if kind == "list" else refilled()) as ahead:
        for batch, there in zip(expected, ahead, strict=True):
            assert type(there) is type(batch)
            for one, other in zip(leaves_of(xl.tree.to_host(there)), leaves_of(batch), strict=True):
                if isinstance(other, np.ndarray):
                    assert_same_bits(one, other)
                else:
                    assert one == other


@pytest.mark.parametrize("form", ["2.8 MB", "4.2 MB", "images and labels"])
@pytest.mark.parametrize("kind", ["list", "generator"])
def test_batches_of_a_few_mib_are_staged_as_a_whole_and_sent_on_one_stream(kind: str, form: str) -> None:
    if xl.get_device().kind == "cpu" or not native().is_on:
        pytest.skip("no streams, or staging in C is missing")
    makes = {"2.8 MB": lambda n: (array(n, (700, 1000)),), "4.2 MB": lambda n: (array(n, (1048, 1000)),)} | TREES
    batches = [makes[form](number) for number in range(6)]
    expected = [tuple(leaf.copy() for leaf in batch) for batch in batches]
    with cores(16), xl.trace() as found, xl.prefetch(batches if kind == "list" else iter(batches)) as ahead:
        got = [xl.tree.to_host(batch) for batch in ahead]
    for each, whole in zip(got, expected, strict=True):
        for one, two in zip(each, whole, strict=True):
            assert_same_bits(one, two)
    images = [each for each in found.operations if each.kind == "h2d" and each.nbytes == batches[0][0].nbytes]
    assert len(images) == 6
    assert len({each.stream for each in images}) == 1


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
            for number, batch in enumerate(found):
                expected = batches[number]["x"] if isinstance(batch, dict) else batches[number]
                assert_same_bits(xl.to_host(batch["x"] if isinstance(batch, dict) else batch), expected)


@pytest.mark.parametrize("is_pinned", [False, True])
def test_small_batches_of_a_list_are_one_copy_each(fake: Any, is_pinned: bool) -> None:
    made = (lambda x: xl.pinned_array(x, backend="fake")) if is_pinned else np.copy
    batches = [made(array(number, (3, 5))) for number in range(6)]
    batches += [{"x": made(array(number)), "y": array(-number, (7,), "int16")} for number in range(6)]
    with xl.trace() as found, xl.prefetch(batches, device="fake:sim:0") as ahead:
        arrived = [xl.tree.to_host(batch) for batch in ahead]
    for there, here in zip(arrived[:6], batches[:6], strict=True):
        assert_same_bits(there, here)
    for there, here in zip(arrived[6:], batches[6:], strict=True):
        assert_same_bits(there["x"], here["x"])
        assert_same_bits(there["y"], here["y"])
    assert (
        len([each for each in found.operations if each.kind == "h2d" and each.file == __file__]) == 12
    )  # one for both leaves


@given(
    kinds=st.lists(
        st.sampled_from(["plain", "plain", "plain", "other", "swapped", "strided", "empty", "tree"]), max_size=12
    ),
    depth=st.integers(1, 4),
)
def test_small_batches_that_differ_from_those_before_arrive_like_any(kinds: list[str], depth: int) -> None:
    makes: dict[str, Callable[[int], Any]] = {
        "plain": lambda number: array(number, (3, 5)),
        "other": lambda number: array(number, (5, 3), "int16"),
        "swapped": lambda number: array(number, (3, 5)).astype(">f4"),
        "strided": lambda number: array(number, (3, 10))[:, ::2],
        "empty": lambda number: array(number, (0, 5)),
        "tree": lambda number: {"x": array(number, (3, 5)), "y": 7},
    }
    batches = [makes[kind](number) for number, kind in enumerate(kinds)]
    found = [xl.tree.to_host(batch) for batch in xl.prefetch(batches, depth=depth)]
    assert len(found) == len(batches)
    for arrived, batch in zip(found, batches, strict=True):
        pairs = [(arrived, batch)] if not isinstance(batch, dict) else [(arrived["x"], batch["x"])]
        for there, here in pairs:
            assert_same_bits(there, here.astype(here.dtype.newbyteorder("=")))
