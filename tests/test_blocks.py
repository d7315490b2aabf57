"""``with`` blocks of streams, devices and backends: they follow the task, and are left once, where they began."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xferlib as xl
from xferlib.errors import BlockError
from xferlib.testing import load_backend
from xferlib.testing.tools import in_threads

pytestmark = pytest.mark.usefixtures("plugins")


def native(device: xl.Device) -> Any:
    """The library's own current device and stream, read without a call of xferlib's."""
    part = load_backend(device.backend).at(device)
    return part.device_current(), part.stream_current(device).handle


def all_native(devices: list[xl.Device]) -> list[Any]:
    return [native(each) for each in devices]


@pytest.fixture
def devices(backend: str) -> list[xl.Device]:
    """Two devices of the backend, or one twice."""
    found = [each for each in xl.get_backend().devices() if each.kind == xl.get_device().kind]
    return [found[0], found[-1]]


def test_three_tasks_do_not_see_each_others_streams(devices: list[xl.Device]) -> None:
    device = devices[0]
    seen: list[bool] = []
    x = np.arange(6.0)

    async def work(stream: xl.Stream | None) -> None:
        expected = before if stream is None else (native(device)[0], stream.handle)
        with stream or xl.use_backend(device.backend):
            for _ in range(3):
                await asyncio.sleep(0)
                seen.append(native(device) == expected)
                assert xl.current_stream(device).handle == expected[1]
                d = xl.to_device(x, device=device) * 2 if device.backend != "fake" else xl.to_device(x, device=device)
                await asyncio.sleep(0)
                seen.append(native(device) == expected)
                assert xl.to_host(d).shape == (6,)
        seen.append(native(device) == before)

    async def main() -> None:
        await asyncio.gather(*map(work, [xl.Stream(device), None, xl.Stream(device), xl.Stream(device)]))

    before = native(device)
    asyncio.run(main())
    assert native(device) == before
    assert len(seen) == 4 * 7
    assert all(seen)


def test_a_task_inherits_the_blocks_around_it_and_keeps_them(devices: list[xl.Device]) -> None:
    one, two = devices
    outer, inner = xl.Stream(one), xl.Stream(one)

    async def child() -> list[Any]:
        found = []
        with xl.get_device(two):
            for _ in range(3):
                found.append((xl.current_stream(one).handle, native(one)[1], xl.get_device()))
                await asyncio.sleep(0)
        return found

    async def main() -> None:
        with inner:
            made = asyncio.create_task(child())
            await asyncio.sleep(0)
            assert native(one)[1] == inner.handle
        assert native(one)[1] == outer.handle
        expected = two if two.kind != "cpu" else xl.get_device(xl.get_backend().name)
        assert await made == [(inner.handle, inner.handle, expected)] * 3
        assert native(one)[1] == outer.handle

    before = all_native(devices)
    with outer:
        asyncio.run(main())
        assert native(one)[1] == outer.handle
    assert all_native(devices) == before


STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["stream", "device", "backend", "leave", "leave", "call"])),
    max_size=40,
)


@given(steps=STEPS)
def test_tasks_that_take_turns_at_random_are_each_in_their_own_blocks(steps: list[tuple[int, str]]) -> None:
    """Against the rule: the innermost block of the task that runs, whatever others have entered meanwhile."""
    places = [xl.Device("sim:sim:0"), xl.Device("sim:sim:1")]
    streams = [xl.Stream(place) for place in (places[0], places[1], places[0])]

    async def task(number: int, turns: list[str], entered: list[Any]) -> None:
        for turn, step in enumerate(turns):
            await asyncio.sleep(0)
            if step == "leave" and entered:
                entered.pop().__exit__(None, None, None)
            elif step == "stream":
                entered.append(streams[(number + turn) % 3])
                entered[-1].__enter__()
            elif step == "device":
                entered.append(places[(number + turn) % 2])
                entered[-1].__enter__()
            elif step == "backend":
                entered.append(xl.use_backend(("numpy", "sim")[turn % 2]))
                entered[-1].__enter__()
            elif step == "call":
                xl.to_device(np.zeros(2), backend="sim")
            check(entered)
            await asyncio.sleep(0)
            check(entered)
        while entered:
            entered.pop().__exit__(None, None, None)

    def check(entered: list[Any]) -> None:
        current, handles, backend = places[0], dict.fromkeys(places, 0), "numpy"
        for each in entered:
            if isinstance(each, xl.Stream):
                current = each.device
                handles[current] = each.handle
            elif isinstance(each, xl.Device):
                current, backend = each, "sim"
            else:
                backend = each.name
        assert [native(place) for place in places] == [(current, handles[place]) for place in places]
        assert [xl.current_stream(place).handle for place in places] == [*handles.values()]
        assert xl.get_backend().name == backend
        assert xl.get_device() is (current if backend == "sim" else xl.Device("numpy:cpu"))

    async def main() -> None:
        turns = [[step for number, step in steps if number == each] for each in range(4)]
        await asyncio.gather(*(task(number, each, []) for number, each in enumerate(turns)))

    with xl.use_backend("numpy"):
        asyncio.run(main())
        check([])


def test_a_thread_that_is_given_a_context_is_in_its_blocks_while_it_runs_there(devices: list[xl.Device]) -> None:
    device = devices[0]
    streams = [xl.Stream(device), xl.Stream(device)]
    x, y = xl.zeros(4, device=device), np.zeros(4)
    xl.synchronize(device)
    kernel = xl.elementwise("T x", "T y", "y = x + 1")
    calls: list[Callable[[], Any]] = [
        lambda: xl.to_device(y, device=device), lambda: xl.to_host(x), lambda: xl.zeros(3, device=device),
        lambda: xl.tree.to_host({"x": x}), lambda: kernel(x), lambda: xl.get_device(device.backend),
        lambda: xl.to_device(y),
    ]  # fmt: skip
    if device.backend == "fake":  # whose devices run no kernels
        calls.remove(calls[4])

    async def main() -> None:
        for call in calls * 2:
            for stream in streams:
                with stream:
                    assert await asyncio.to_thread(_native_within, call, device) == stream.handle
            assert await asyncio.to_thread(_native_within, call, device) == before

    before = native(device)[1]
    asyncio.run(main())


def _native_within(call: Callable[[], Any], device: xl.Device) -> Any:
    call()
    return native(device)[1]


# --- left twice, by another, in another order


def entered(devices: list[xl.Device]) -> list[Callable[[], Any]]:
    return [lambda: xl.Stream(devices[0]), lambda: devices[-1], lambda: xl.use_backend(devices[0].backend)]


def test_a_block_that_was_not_entered_or_is_left_twice_is_an_error(devices: list[xl.Device]) -> None:
    before = all_native(devices)
    for make in entered(devices):
        made = make()
        with pytest.raises(BlockError, match="has not been entered here, or has been left"):
            made.__exit__(None, None, None)
        with made:
            pass
        with pytest.raises(BlockError, match="leave each block once"):
            made.__exit__(None, None, None)
        with made, made:
            pass
        with xl.Stream(devices[0]) as stream:
            with pytest.raises(BlockError):
                make().__exit__(None, None, None)
            assert native(devices[0])[1] == stream.handle
    assert all_native(devices) == before


@pytest.mark.filterwarnings("ignore:Stream.capture:xferlib.errors.XferWarning")
def test_other_blocks_are_left_once_too(tmp_path: Path) -> None:
    makers: list[Callable[[], Any]] = [
        lambda: xl.Stream("sim:sim:0").capture(), lambda: xl.pin(np.zeros(9)), lambda: xl.trace(tmp_path / "made.json"),
    ]  # fmt: skip
    for make in makers:
        made = make()
        with pytest.raises(BlockError):
            made.__exit__(None, None, None)
        with made:
            pass
        with pytest.raises(BlockError):
            made.__exit__(None, None, None)


def test_another_tasks_or_threads_block_is_not_left(devices: list[xl.Device]) -> None:
    before = all_native(devices)

    async def main() -> None:
        for make in entered(devices):
            made = make()
            with made:
                inside = all_native(devices)
                await asyncio.create_task(_call(lambda made=made: _leave_refused(made)))
                await asyncio.to_thread(_leave_refused, made)
                assert all_native(devices) == inside
            assert all_native(devices) == before
            task = asyncio.create_task(_waiting(made))
            await asyncio.sleep(0)
            _leave_refused(made)
            await task

    async def _waiting(made: Any) -> None:
        with made:
            await asyncio.sleep(0)

    asyncio.run(main())
    for make in entered(devices):
        made = make()
        with made:
            in_threads(_leave_refused, (made,))
    assert all_native(devices) == before


def _leave_refused(made: Any) -> None:
    with pytest.raises(BlockError):
        made.__exit__(None, None, None)


def test_a_block_belongs_to_its_context_whatever_task_or_thread_runs_in_it(devices: list[xl.Device]) -> None:
    """As `unittest.IsolatedAsyncioTestCase` has its parts in several tasks, and none, of one context."""
    before = all_native(devices)
    for make in entered(devices):
        made = make()
        with asyncio.Runner() as runner:
            context = contextvars.copy_context()
            runner.run(_call(made.__enter__), context=context)
            runner.run(_call(lambda made=made: _leave_refused(made)), context=context.copy())
            inside = runner.run(_call(lambda: xl.current_stream(devices[0])), context=context)
            assert inside == context.run(lambda: xl.current_stream(devices[0]))
            _leave_refused(made)
            runner.run(_call(lambda made=made: made.__exit__(None, None, None)), context=context)
            copied = context.copy()
            context.run(made.__enter__)
            with ThreadPoolExecutor(1) as pool:
                pool.submit(copied.run, _leave_refused, made).result()
                pool.submit(context.run, made.__exit__, None, None, None).result()
            context.run(_leave_refused, made)
            context.run(made.__enter__)
            copied = context.copy()
            context.run(made.__exit__, None, None, None)
            copied.run(_leave_refused, made)  # a copy, behind the end of the block
        xl.current_stream(devices[0])
        assert all_native(devices) == before


async def _call(function: Callable[[], Any]) -> Any:
    return function()


def test_blocks_left_in_another_order_are_an_error_and_leave_nothing_behind(devices: list[xl.Device]) -> None:
    device, before = devices[0], all_native(devices)
    one, two = xl.Stream(device), xl.Stream(device)
    one.__enter__()
    two.__enter__()
    with pytest.raises(BlockError, match="is left before that of .* within it"):
        one.__exit__(None, None, None)
    assert xl.current_stream(device) == two
    two.__exit__(None, None, None)
    assert all_native(devices) == before


def test_generators_in_blocks_end_in_any_order(devices: list[xl.Device]) -> None:
    """A block holds while its generator waits, as any ``with``; in the wrong order nothing is left behind."""
    device, before = devices[0], all_native(devices)

    def generator(stream: xl.Stream) -> Iterator[xl.Stream]:
        with stream:
            yield xl.current_stream(device)
            yield xl.current_stream(device)

    one, two = generator(first := xl.Stream(device)), generator(second := xl.Stream(device))
    assert (next(one), next(two)) == (first, second)
    one.close()  # type: ignore[attr-defined]
    assert xl.current_stream(device) == second
    two.close()  # type: ignore[attr-defined]
    assert all_native(devices) == before
    one, two = generator(first), generator(second)
    next(one), next(two)
    with pytest.raises(BlockError, match="generators"):
        list(one)
    assert xl.current_stream(device) == second
    del two
    assert all_native(devices) == before


def test_an_error_in_a_block_is_told_and_not_the_order(devices: list[xl.Device]) -> None:
    before, outer, inner = all_native(devices), xl.Stream(devices[0]), xl.Stream(devices[0])
    with pytest.raises(KeyError), outer:
        inner.__enter__()
        raise KeyError
    inner.__exit__(None, None, None)
    assert all_native(devices) == before


def test_use_in_a_block_holds_until_the_block_ends(devices: list[xl.Device]) -> None:
    one, two = devices
    before = all_native(devices)
    streams = [xl.Stream(one), xl.Stream(one)]

    async def task(stream: xl.Stream) -> None:
        with xl.Stream(one):
            stream.use()
            two.use()
            for _ in range(3):
                await asyncio.sleep(0)
                assert xl.current_stream(one) == stream
                assert native(two)[0] is two
        assert all_native(devices) == before

    async def main() -> None:
        await asyncio.gather(*map(task, streams))

    asyncio.run(main())
    assert all_native(devices) == before
