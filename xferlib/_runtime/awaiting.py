"""Blocking calls in tasks of asyncio: a thread waits, and the event loop runs other tasks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_END: Any = object()


def wait_for(call: Callable[[], T]) -> Generator[Any, None, T]:
    """Make a blocking call in a thread, with the task's context, and once more in the task, where it returns at once.

    What happens-before the call's end is known to the thread that makes it: the second call makes it known to the task.
    """
    import asyncio  # a program without it does not wait for its import

    yield from asyncio.to_thread(call).__await__()
    return call()


async def iterate(items: Iterable[T]) -> AsyncIterator[T]:
    """The items, each fetched by a thread with the task's context."""
    import asyncio

    iterator = iter(items)
    while (item := await asyncio.to_thread(next, iterator, _END)) is not _END:
        yield item
