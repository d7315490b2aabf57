"""Trees of arrays over ranks: parameters from one rank to all, and means of gradients, many arrays in one call.

A call for each array would pay the comparison and the latency for each. So arrays of one dtype and device lie one
behind the other in a slab, a `Bucket`, which one call sends; the results are views of it. Trees are compared as a whole
before: buckets of equal bytes may hold different arrays.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._api import creation, transfers
from xferlib._core import registry
from xferlib._core.array import check_dtype
from xferlib._core.containers import flatten, say_where
from xferlib._runtime.checks import refuse_no_flag, whole
from xferlib.distributed import reductions, running
from xferlib.distributed.call import Signature
from xferlib.distributed.communicator import Communicator
from xferlib.errors import ArgumentError, UnsupportedDTypeError, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from xferlib._core.array import ArrayInfo
    from xferlib._core.backend import Backend

_BUCKET_BYTES = 25 << 20


class Bucket:
    """Arrays of one dtype and device, one behind the other in one array, which one call sends."""

    def __init__(self, members: list[tuple[int, Any, ArrayInfo]], backend: Backend) -> None:
        first = members[0][2]
        self._members = members
        self._backend = backend
        self._itemsize = first.dtype.itemsize
        count = sum(info.size for _, _, info in members)
        if len(members) == 1:
            self.given = members[0][1]
            self.flat: Any = creation.empty(first.shape, first.dtype, device=first.device)
            return
        self._slab = creation.empty((count * self._itemsize,), np.uint8, device=first.device)
        self.flat = self.given = self._view(0, (count,), first.dtype)
        for (_, array, _), view in zip(members, self._views(), strict=True):
            transfers.to_device(array, out=view)

    def _views(self) -> Iterator[Any]:
        offset = 0
        for _, _, info in self._members:
            yield self._view(offset, info.shape, info.dtype)
            offset += info.size * self._itemsize

    def _view(self, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """An array inside the slab; a library on the CPU has memory of others for the same."""
        if (place := self._members[0][2].device).kind != "cpu":
            return self._backend.subarray(self._slab, offset, shape, dtype)
        pointer = self._backend.view(self._slab).pointer + offset
        return self._backend.over(pointer, shape, dtype, device=place, owner=self._slab)

    def put(self, results: list[Any]) -> None:
        """Put the arrays in their positions; they are views of the one that was sent."""
        arrays = [self.flat] if len(self._members) == 1 else self._views()
        for (number, _, _), array in zip(self._members, arrays, strict=True):
            results[number] = array


def _buckets(leaves: list[Any], bucket_bytes: int) -> list[Bucket]:
    """Group the arrays, in the order of the tree; an array of more than a bucket's bytes is alone."""
    groups: dict[Hashable, list[tuple[int, Any, ArrayInfo]]] = {}
    filled: dict[Hashable, int] = {}
    buckets: list[Bucket] = []

    def close(key: Hashable) -> None:
        members = groups.pop(key)
        filled.pop(key)
        backend = registry.get(members[0][2].device.backend).at(members[0][2].device)
        buckets.append(Bucket(members, backend))

    for number, leaf in enumerate(leaves):
        owner = registry.backend_of(leaf)
        if owner is None:
            continue
        info = owner.view(leaf)
        if not info.size:
            continue
        key = info.device, info.dtype
        if key in groups and filled[key] + info.nbytes > bucket_bytes:
            close(key)
        groups.setdefault(key, []).append((number, leaf, info))
        filled[key] = filled.get(key, 0) + info.nbytes
    for last in list(groups):
        close(last)
    return buckets


def _described(leaves: list[Any]) -> str:
    """The arrays of a tree, for the comparison of ranks: how many, the first, and a digest of all."""
    texts = [
        f"{tuple(leaf.shape)} {check_dtype(owner.view(leaf).dtype)}"
        for leaf in leaves
        if (owner := registry.backend_of(leaf)) is not None
    ]
    digest = hashlib.blake2b("; ".join(texts).encode(), digest_size=8).hexdigest()
    return f"{len(texts)} arrays: {'; '.join(texts[:4])}{'; ...' if len(texts) > 4 else ''} ({digest})"


class TreeCollective:
    """Means of gradients that are computed beside the program; made by ``mean_grads(..., async_op=True)``."""

    def __init__(self, finish: Callable[[], Any]) -> None:
        self._finish: Callable[[], Any] | None = finish
        self._tree: Any = None

    def wait(self) -> Any:
        """Wait until all are complete, and return the tree.

        Raises:
            DistributedError: As `Collective.wait`.
        """
        if self._finish is not None:
            self._tree = self._finish()
            self._finish = None
        return self._tree


def broadcast_params(comm: Communicator, tree: Any, root: int = 0) -> Any:
    """Copy every array of a tree from one rank to all.

    Args:
        comm: The communicator.
        tree: Arrays in nested dicts, lists, tuples, named tuples, dataclasses and registered nodes: as many, of the
            same shapes and dtypes, in every rank. Other leaves stay as they are.
        root: The rank whose elements all get.

    Returns:
        A tree of the same structure with new arrays, on the backends and devices of the given ones, in rank ``root``
        too. Small arrays share one allocation.

    Raises:
        ArgumentError: There is no rank ``root``, or no array in a tree of other leaves.
        MismatchError: Arrays differ in number, shape or dtype; nothing was sent.
    """
    leaves, rebuild = _flattened(comm, tree, "broadcast_params")
    running.check_rank(comm._group, root, "broadcast_params: root")
    _compare(comm, "broadcast_params", leaves)
    results = list(leaves)
    for bucket in _buckets(leaves, _BUCKET_BYTES):
        comm.broadcast(bucket.given, root, out=bucket.flat)
        bucket.put(results)
    return rebuild(results)


def mean_grads(
    comm: Communicator, tree: Any, *, bucket_bytes: int = _BUCKET_BYTES, reproducible: bool = False,
    async_op: bool = False,
) -> Any:  # fmt: skip
    """Mean over ranks of every array of a tree; arrays of one dtype travel together.

    Args:
        comm: The communicator.
        tree: Arrays of floats or complex numbers, as for `broadcast_params`. It is not changed.
        bucket_bytes: The most bytes of arrays that travel together. Fewer bytes begin earlier, more need fewer calls.
        reproducible: As for `Communicator.all_reduce`.
        async_op: Return at once. To overlap with a backward pass, begin a call for the arrays of each part of the model
            as soon as they are there, and wait for all of them at the end.

    Returns:
        A tree of the same structure with new arrays; a `TreeCollective` that gives it, with ``async_op``.

    Raises:
        ArgumentError: ``bucket_bytes`` is no whole number from 1, or there is no array in a tree of other leaves.
        UnsupportedDTypeError: An array of integers.
        MismatchError: Arrays differ in number, shape or dtype; nothing was sent.
    """
    leaves, rebuild = _flattened(comm, tree, "mean_grads")
    if whole(bucket_bytes, least=1) is None:
        raise ArgumentError(f"mean_grads: bucket_bytes={shown(bucket_bytes)} is no whole number from 1; give one")
    refuse_no_flag(reproducible, "mean_grads: reproducible")
    refuse_no_flag(async_op, "mean_grads: async_op")
    try:
        for leaf in leaves:
            _check_gradient(leaf)
    except UnsupportedDTypeError as error:
        say_where(error, tree, _check_gradient, "tree")
        raise
    _compare(comm, "mean_grads", leaves)
    begun = [
        (bucket, comm.all_reduce(bucket.given, "mean", out=bucket.flat, reproducible=reproducible, async_op=True))
        for bucket in _buckets(leaves, int(bucket_bytes))
    ]

    def finish() -> Any:
        results = list(leaves)
        for bucket, operation in begun:
            operation.wait()
            bucket.put(results)
        return rebuild(results)

    return TreeCollective(finish) if async_op else finish()


def _check_gradient(leaf: Any) -> None:
    """Refuse an array that has no mean in its dtype, such as a counter among a model's buffers."""
    owner = registry.backend_of(leaf)
    if owner is not None and (dtype := owner.view(leaf).dtype).kind in "biu":
        raise UnsupportedDTypeError(
            f"mean_grads: op='mean' of {dtype}, which is no gradient's dtype; leave the array out of the tree, or "
            "convert it to float64"
        )


def _flattened(comm: Communicator, tree: Any, name: str) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """The leaves of a tree, and the function that rebuilds it.

    Raises:
        ArgumentError: There is something in the tree and no array, such as a module in place of its parameters, which
            would stay as they are; or ``comm`` is no communicator.
    """
    if not isinstance(comm, Communicator):
        raise ArgumentError(f"{name}: comm is {type(comm).__name__}, no communicator; call {name}(comm, tree)")
    leaves, rebuild = flatten(tree, moving="any")
    others = [leaf for leaf in leaves if leaf is not None]
    if others and all(registry.backend_of(leaf) is None for leaf in others):
        raise ArgumentError(
            f"{name}: there is no array in tree, but {type(others[0]).__name__}; give arrays in dicts or lists, such "
            "as model.state_dict() or list(model.parameters())"
        )
    return leaves, rebuild


def _compare(comm: Communicator, name: str, leaves: list[Any]) -> None:
    """Compare the trees of all ranks: buckets of equal bytes may hold different arrays."""
    if comm._group.is_checked:
        running.begin(comm._group, Signature(name, (), "", _described(leaves)))


def pairwise_sum(*trees: Any) -> Any:
    """Add trees of arrays in the order in which ``reproducible=True`` adds ranks, with the same bits on every backend.

    Neighbours are added first, then neighbours of these sums, and so on: 5 trees give ((0 + 1) + (2 + 3)) + 4. So where
    a batch is cut into a number of parts that is a power of two, and each rank adds the gradients of as many
    neighbouring parts, a reproducible `Communicator.all_reduce` gives the bits of one process that adds all of them.

    Args:
        *trees: At least one; of the same structure, with arrays of the same shapes, dtypes, backends and devices.

    Returns:
        A tree of the same structure; the given one itself where there is one alone. Leaves that are no arrays are those
        of the first tree.

    Raises:
        ArgumentError: There is none, or they have different numbers of leaves.
        KernelShapeError, MixedBackendsError, MixedDevicesError: Arrays do not fit.
    """
    if not trees:
        raise ArgumentError("pairwise_sum: there is no tree to add; give at least one")
    flat, (rebuild, *_) = zip(*(flatten(tree, moving="any") for tree in trees), strict=True)
    if len(set(map(len, flat))) > 1:
        counts = ", ".join(str(len(leaves)) for leaves in flat)
        raise ArgumentError(f"pairwise_sum: the trees have {counts} leaves; give trees of one structure")
    return rebuild([_sum(list(rows)) for rows in zip(*flat, strict=True)])


def _sum(rows: list[Any]) -> Any:
    if registry.backend_of(rows[0]) is None:
        return rows[0]
    add = reductions.kernel("sum")
    while len(rows) > 1:
        rows = [add(*pair) if len(pair) > 1 else pair[0] for pair in _pairs(rows)]
    return rows[0]


def _pairs(rows: list[Any]) -> Iterator[list[Any]]:
    return (rows[first : first + 2] for first in range(0, len(rows), 2))
