"""Batches cut from rows or stacked of items, and items that several threads read, for `prefetch`."""

from __future__ import annotations

import contextvars
import functools
import operator
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core import registry
from xferlib._core.trees import flatten, locate_leaves, take_apart
from xferlib._pipeline.rows import has_rows
from xferlib._runtime import checks
from xferlib._runtime.checks import MOST_AHEAD, guard_end, whole
from xferlib._runtime.threads import PATIENCE_S, Handed, OwnThread, deferred
from xferlib.errors import ArgumentError, LayoutError, UnsupportedArrayError, quote

if TYPE_CHECKING:
    from xferlib._core.arrays import HostArray

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


class _Column:
    """The leaves of one place in the items of a batch: an array with a row for each, or a list of other things."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._memory: HostArray | None = None
        self._others: list[Any] = []

    def add(self, path: str, number: int, leaf: Any) -> None:
        """Copy a leaf, or keep what is no array, as that of the batch's item ``number``."""
        array = _array_of(path, leaf)
        if number == 0:
            self._begin(array)
        memory = self._memory
        if array is None or memory is None:
            if array is not None or memory is not None:
                raise LayoutError(f"prefetch: {path} is {_say(leaf)} in one item of a batch, and an array in others")
            self._others.append(leaf)
        elif array.shape != memory.shape[1:] or array.dtype != memory.dtype:
            raise LayoutError(
                f"prefetch: {path} is {_say(array)} in one item of a batch, and {_say(memory[0])} in those before; "
                "batch_size stacks items that are alike: pad or convert them, or batch them yourself, without "
                "batch_size. The columns of a data set are a tuple, (X, y)"
            )
        else:
            memory[number] = array

    def _begin(self, array: HostArray | None) -> None:
        self._others = []
        if array is None:
            self._memory = None
        elif self._memory is None or (self._memory.shape[1:], self._memory.dtype) != (array.shape, array.dtype):
            self._memory = np.empty((self._size, *array.shape), array.dtype)

    def take(self, count: int) -> Any:
        """The column of a batch of ``count`` items."""
        return self._others if self._memory is None else self._memory[:count]


def _array_of(path: str, leaf: Any) -> HostArray | None:
    """A leaf as an array on the host; None of what is neither an array nor a number."""
    if isinstance(leaf, (bool, int, float, complex, np.generic)) and not isinstance(leaf, (str, bytes)):
        return np.asarray(leaf)
    owner = registry.owner_of(leaf)
    if owner is None:
        return None
    if (device := owner.view(leaf).device).kind != "cpu":
        raise UnsupportedArrayError(
            f"prefetch: {path} is on {device}, and batch_size stacks items on the host; stack them there, and give "
            "batches without batch_size"
        )
    host: HostArray = leaf if owner.name == "numpy" else owner.host_view(leaf)
    return host


def _say(leaf: Any) -> str:
    if isinstance(leaf, (np.ndarray, np.generic)):
        return f"an array of shape {leaf.shape} and {leaf.dtype}"
    return type(leaf).__name__


class _BatchMaker:
    """Makes batches of items, each of which is copied when it comes, so that a source may fill it again.

    Args:
        size: Items of a batch.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._columns: dict[str, _Column] = {}
        self._rebuild: Callable[[list[Any]], Any] | None = None
        self.count = 0

    @property
    def is_full(self) -> bool:
        return self.count == self._size

    def add(self, item: Any) -> None:
        """Add an item to the batch.

        Raises:
            LayoutError: It is not as those before it.
            UnsupportedArrayError: It is on a device.
        """
        found = dict(locate_leaves(item, "item"))
        if self._rebuild is None:
            self._rebuild = take_apart(item)[1]
            if list(found) != list(self._columns):
                self._columns = {path: _Column(self._size) for path in found}
        if found.keys() != self._columns.keys():
            raise LayoutError(
                f"prefetch: an item of a batch consists of {', '.join(found)}, and those before of "
                f"{', '.join(self._columns)}; batch_size stacks items that are alike"
            )
        for path, leaf in found.items():
            self._columns[path].add(path, self.count, leaf)
        self.count += 1

    def take(self) -> Any:
        """The batch: it lies in memory that the next one fills again."""
        assert self._rebuild is not None
        batch = self._rebuild([column.take(self.count) for column in self._columns.values()])
        self._rebuild, self.count = None, 0
        return batch


def stack(items: Iterable[Any], size: int) -> Iterator[Any]:
    """Stack items of an iterable to batches; the last one may be smaller."""
    made = _BatchMaker(size)
    for item in items:
        made.add(item)
        if made.is_full:
            yield made.take()
    if made.count:
        yield made.take()


class StackedItems:
    """The items of an iterable that gives them again, as batches: stacked anew for each iteration."""

    def __init__(self, items: Any, size: int) -> None:
        self._items = items
        self._size = size

    def __iter__(self) -> Iterator[Any]:
        return stack(self._items, self._size)


class NumberedItems(StackedItems):
    """The items of a data set as batches, which are read by number as well, several at a time."""

    def __len__(self) -> int:
        return (len(self._items) + self._size - 1) // self._size

    def __getitem__(self, number: int) -> Any:
        count = len(self._items)
        return next(
            stack(map(self._read, range(number * self._size, min((number + 1) * self._size, count))), self._size)
        )

    def __iter__(self) -> Iterator[Any]:
        return stack(map(self._read, range(len(self._items))), self._size)

    @property
    def _read(self) -> Callable[[int], Any]:
        return guard_end("prefetch: reading an item", functools.partial(operator.getitem, self._items))


def _is_numbered(given: Any) -> bool:
    return hasattr(type(given), "__len__") and hasattr(type(given), "__getitem__")


def make_batches(given: Any, batch_size: Any) -> Any:
    """The batches of rows, or of items: a list where all is in memory, which is read without copies.

    A tuple, a dict, or another tree of arrays has the columns of a data set, whose rows are cut. A list, an object with
    numbers, and any other iterable give items, which are stacked.

    Raises:
        ArgumentError: The size is no whole number from 1.
        UnsupportedArrayError: There is something else than arrays and objects that take slices.
        LayoutError: They have different numbers of rows.
    """
    size = whole(batch_size, least=1)
    if size is None:
        raise ArgumentError(f"prefetch: batch_size={quote(batch_size)} is not a whole number of rows from 1; give one")
    leaves, rebuild = flatten(given, moving="")
    is_leaf = len(leaves) == 1 and leaves[0] is given
    if isinstance(given, list) or (is_leaf and not has_rows(given) and not isinstance(given, (str, bytes, Mapping))):
        if isinstance(given, Iterator):
            return stack(given, size)
        # An iterable that is no sequence may have a length, and refuse numbers: torch's `IterableDataset` does.
        if _is_numbered(given) and (isinstance(given, Sequence) or not hasattr(type(given), "__iter__")):
            return NumberedItems(given, size)
        if checks.has(given, "__iter__"):
            return StackedItems(given, size)
    for leaf in leaves:
        if not (has_rows(leaf) and checks.has(leaf, "__getitem__")):
            raise UnsupportedArrayError(
                f"prefetch: batch_size cuts rows of arrays, and there is {type(leaf).__name__}; give an array, a "
                "memory map, a zarr or h5py array, or several of them in a tuple or dict; or items to stack: a list, a "
                "data set or a generator of them; or batches, and no batch_size"
            )
    counts = [int(leaf.shape[0]) for leaf in leaves]
    if len(set(counts)) != 1:
        raise LayoutError(
            f"prefetch: batch_size= cuts arrays of one number of rows, and these have {counts}; give as many of each"
        )
    batches = RowBatches(leaves, rebuild, counts[0], size)
    is_in_memory = all(registry.owner_of(leaf) is not None for leaf in leaves)
    return [batches[number] for number in range(len(batches))] if is_in_memory else batches


def count_workers(workers: Any, batches: Any, given: Any) -> int:
    """The number of threads that read items.

    Raises:
        ArgumentError: It is no number from 1, or the items have none.
    """
    found = whole(workers, least=1)
    if found is None or found > _MOST_WORKERS:
        raise ArgumentError(f"prefetch: workers={quote(workers)} is not a number of threads from 1 to {_MOST_WORKERS}")
    if not _is_numbered(batches) or isinstance(batches, Mapping):
        raise ArgumentError(
            f"prefetch: workers={found} read items by their numbers, which {type(given).__name__} has not; give an "
            "object with [] and len(), such as a list or a data set, or leave workers out"
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
            while not (self._is_closed or self._taken in self._read or self._taken >= self._count):
                self._changed.wait(PATIENCE_S)  # as in `ThreadedFeed`: this may be the consumer's own thread
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
