"""Batches cut from rows, and items of a sequence that several threads read, for `prefetch`."""

from __future__ import annotations

import contextvars
import functools
import operator
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from xferlib._core import registry
from xferlib._core.arguments import flatten
from xferlib._pipeline.rows import has_rows
from xferlib._runtime import checks
from xferlib._runtime.checks import MOST_AHEAD, guard_end, whole
from xferlib._runtime.threads import Handed, OwnThread, deferred
from xferlib.errors import ArgumentError, LayoutError, UnsupportedArrayError, quote

_MOST_WORKERS = 256


class RowBatches:
    """The rows of arrays, or of objects that take slices, as batches: read by number, as often as one likes.

    Args:
        leaves: They have as many rows each.
        rebuild: Makes the tree of a batch from its parts.
        rows: Their number.
        size: Rows of a batch; the last one may be smaller.
    """

    def __init__(self, leaves: list[Any], rebuild: Callable[[list[Any]], Any], rows: int, size: int) -> None:
        self._leaves = leaves
        self._rebuild = rebuild
        self._rows = rows
        self._size = size

    def __len__(self) -> int:
        return (self._rows + self._size - 1) // self._size

    def __getitem__(self, number: int) -> Any:
        if not 0 <= number < len(self):
            raise IndexError(number)
        begin = number * self._size
        end = min(begin + self._size, self._rows)
        return self._rebuild([self._read(leaf, slice(begin, end)) for leaf in self._leaves])

    _read = staticmethod(guard_end("prefetch: reading rows", operator.getitem))


def cut_batches(given: Any, batch_size: Any) -> Any:
    """The batches of rows: a list where all is in memory, which is read without copies; else they are read by number.

    Raises:
        ArgumentError: The size is no whole number from 1.
        UnsupportedArrayError: There is something else than arrays and objects that take slices.
        LayoutError: They have different numbers of rows.
    """
    size = whole(batch_size, least=1)
    if size is None:
        raise ArgumentError(f"prefetch: batch_size={quote(batch_size)} is not a whole number of rows from 1; give one")
    leaves, rebuild = flatten(given, moving="")
    for leaf in leaves:
        if not (has_rows(leaf) and checks.has(leaf, "__getitem__")):
            raise UnsupportedArrayError(
                f"prefetch: batch_size cuts rows of arrays, and there is {type(leaf).__name__}; give an array, a "
                "memory map, a zarr or h5py array, or several of them in a tuple or dict; or batches, and no batch_size"
            )
    counts = [int(leaf.shape[0]) for leaf in leaves]
    if len(set(counts)) != 1:
        raise LayoutError(
            f"prefetch: batch_size, and arrays of {counts} rows; give one or more, with as many rows each"
        )
    batches = RowBatches(leaves, rebuild, counts[0], size)
    is_in_memory = all(registry.owner_of(leaf) is not None for leaf in leaves)
    return [batches[number] for number in range(len(batches))] if is_in_memory else batches


def count_workers(workers: Any, batches: Any) -> int:
    """The threads that read items; 0 where none is wanted.

    Raises:
        ArgumentError: They are no number from 1, or the items have none.
    """
    if workers is None:
        return 0
    found = whole(workers, least=1)
    if found is None or found > _MOST_WORKERS:
        raise ArgumentError(f"prefetch: workers={quote(workers)} is not a number of threads from 1 to {_MOST_WORKERS}")
    kind = type(batches)
    if not (hasattr(kind, "__len__") and hasattr(kind, "__getitem__")) or isinstance(batches, Mapping):
        raise ArgumentError(
            f"prefetch: workers={found} read items by their numbers, which {kind.__name__} has not; give an object "
            "with [] and len(), such as a list or a data set, or leave workers out"
        )
    return found


class _Item(Handed):
    """An item that a thread has read, or the error that it met."""

    __slots__ = ("error", "value")

    def __init__(self) -> None:
        self.value: Any = None
        self.error: BaseException | None = None


class _Shelf(Handed):
    """Items that have been read and not taken: what the threads share. `_changed` is not held while an item is read."""

    def __init__(self, items: Any, ahead: int) -> None:
        self._read_item = guard_end("prefetch: reading an item", functools.partial(operator.getitem, items))
        self._count = len(items)
        self._ahead = ahead
        self._begun = self._taken = 0
        self._read: dict[int, _Item] = {}
        self._is_closed = False
        self._changed = threading.Condition()
        self._site = checks.user_site()
        self.hand_on()

    def work(self) -> None:
        """Read items until there is none: a thread's body."""
        checks.inherited.site = self._site
        self.take_over()
        while (number := self._next_number()) is not None:
            item = _Item()
            try:
                item.value = self._read_item(number)
            except BaseException as error:
                item.error = error
            item.hand_on()
            with self._changed:
                self._read[number] = item
                self._changed.notify_all()
            del item

    def _next_number(self) -> int | None:
        with self._changed:
            self._changed.wait_for(lambda: self._has_ended or self._begun < self._taken + self._ahead)
            if self._has_ended:
                return None
            self._begun += 1
            return self._begun - 1

    @property
    def _has_ended(self) -> bool:
        return self._is_closed or self._begun >= self._count

    def take(self) -> Any:
        """Return the next item, in their order.

        Raises:
            StopIteration: There is none.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._taken in self._read or self._taken >= self._count)
            if self._is_closed or self._taken >= self._count:
                raise StopIteration
            item = self._read.pop(self._taken)
            self._taken += 1
            self._changed.notify_all()
        item.take_over()
        if item.error is not None:
            self.close()
            raise item.error
        return item.value

    def close(self) -> None:
        """Read no more: each thread ends behind the item that it reads."""
        with self._changed:
            self._is_closed = True
            self._read.clear()
            self._changed.notify_all()


class Readers(Iterator[Any]):
    """The items of a sequence in their order, read by several threads; dropping it ends them.

    Args:
        items: Read by number, several at a time.
        workers: The number of threads.
        ahead: Items that are read, or being read, and not taken.
    """

    def __init__(self, items: Any, workers: int, ahead: int) -> None:
        self._shelf = _Shelf(items, min(ahead, MOST_AHEAD))
        finalizer = weakref.finalize(self, self._shelf.close)
        finalizer.atexit = False
        with deferred:  # or Ctrl-C might leave some that nothing ends
            for number in range(min(workers, max(len(items), 1))):
                run = contextvars.copy_context().run  # the source sees the defaults of the thread that made this
                OwnThread(functools.partial(run, self._shelf.work), f"xferlib-read-{number}").start()

    def __next__(self) -> Any:
        return self._shelf.take()

    def close(self) -> None:
        """Take nothing more, in whichever thread waits for an item."""
        self._shelf.close()
