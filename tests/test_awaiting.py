"""``await`` of transfers and events, and ``async for`` over batches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from xferlib.errors import TransferError

BACKENDS = [each for each in ("numpy", "sim", "torch") if xl.available_backends()[each].is_available]


@pytest.fixture(params=BACKENDS, autouse=True)
def _backend(request: pytest.FixtureRequest) -> Any:
    with xl.use_backend(request.param):
        yield


async def _beside(others: list[int]) -> None:
    """Another task, which counts how often it runs."""
    while True:
        others.append(1)
        await asyncio.sleep(0)


def _run(program: Callable[[], Any]) -> Any:
    async def both() -> Any:
        others: list[int] = []
        beside = asyncio.create_task(_beside(others))
        found = await program()
        beside.cancel()
        assert others  # the loop went on
        return found

    return asyncio.run(both())


def test_transfers_and_events_are_awaited_on_their_streams() -> None:
    x = np.arange(600_000.0)

    async def program() -> Any:
        with xl.Stream() as stream:
            up = await xl.to_device_async(x)
            doubled = xl.get_array_module(up).multiply(up, 2.0)
            await stream.record()
            return await xl.to_host_async(doubled)

    assert np.array_equal(_run(program), 2 * x)


def test_tasks_await_at_a_time() -> None:
    async def there_and_back(number: int) -> float:
        back = await xl.to_host_async(await xl.to_device_async(np.full(100_000, float(number))))
        return float(back.sum())

    async def program() -> list[float]:
        return await asyncio.gather(*map(there_and_back, range(8)))

    assert _run(program) == [100_000.0 * each for each in range(8)]


@pytest.mark.parametrize("is_list", [True, False])
def test_batches_come_in_order(is_list: bool) -> None:
    batches = [np.full(shape, float(number)) for number, shape in enumerate([10, 100_000, 700_000, 10])]

    async def program() -> list[float]:
        found = []
        async for batch in xl.prefetch(batches if is_list else iter(batches)):
            found.append(float(xl.to_host(batch)[-1]))
        return found

    assert _run(program) == [0.0, 1.0, 2.0, 3.0]


def test_errors_of_the_source_reach_the_task() -> None:
    def broken() -> Any:
        yield np.ones(3)
        raise ValueError("no more")

    async def program() -> int:
        count = 0
        with pytest.raises(ValueError, match="no more"):
            async for _ in xl.prefetch(broken()):
                count += 1
        return count

    assert _run(program) == 1


def test_a_cancelled_transfer_raises() -> None:
    async def program() -> None:
        transfer = xl.to_device_async(np.ones(3_000_000))
        transfer.cancel()
        try:
            await transfer
        except TransferError:
            return

    _run(program)


def test_a_loop_that_is_left_closes() -> None:
    async def program() -> int:
        with xl.prefetch([np.ones(4)] * 5) as batches:
            async for _ in batches:
                break
        return sum([1 async for _ in _count(xl.prefetch([np.ones(4)] * 3))])

    assert _run(program) == 3


async def _count(batches: Any) -> AsyncIterator[Any]:
    async for each in batches:
        yield each
