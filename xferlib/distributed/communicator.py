"""The communicator: checks the arguments of a call, compares it with those of the other ranks, and runs its steps."""

from __future__ import annotations

import hashlib
import importlib.util
import numbers
import os
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from xferlib._api import creation, transfers
from xferlib._core import registry
from xferlib._core.arrays import check_dtype
from xferlib._core.trees import flatten, say_where
from xferlib._runtime import checks
from xferlib._runtime.checks import refuse_no_flag, whole
from xferlib.distributed import drivers, membership, operations
from xferlib.distributed.drivers import SingleDriver
from xferlib.distributed.membership import Group, Operand, Result, Signature, operand_of
from xferlib.distributed.operations import Repeats
from xferlib.errors import ArgumentError, DistributedError, UnsupportedDTypeError, did_you_mean, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from xferlib._core.arrays import Array, ArrayInfo
    from xferlib._core.backend import Backend
    from xferlib.distributed.drivers import Driver


class Communicator:
    """The processes of a job, numbered as ranks from 0, which call its methods in the same order.

    Made by `init`, and by `split`. Arrays are of any backend; the result is of the same backend and on the same device
    as ``x``. ``x`` may have any strides; ``out`` is C-contiguous, of the result's shape and dtype, and may be ``x``
    itself where the shapes are equal. Each rank may have its array on another backend: shape and dtype must agree.

    Every method raises, beside what it says:

    - `MismatchError` in every rank, before data move, where the ranks make different calls or give arrays of different
      shapes or dtypes;
    - `DistributedTimeoutError` where a rank does not come, or its data do not arrive, within the timeout;
    - `PeerError` where another rank has raised an exception, was killed or has ended its program.

    After such an error the communicator refuses work with a `DistributedError`. As a context manager it is closed at
    the end of the block; an exception there is told to the other ranks.
    """

    def __init__(self, group: Group) -> None:
        self._group = group
        self._repeats = Repeats(group)
        membership.watch(group)

    @property
    def rank(self) -> int:
        """The number of this process, from 0."""
        return self._group.rank

    @property
    def size(self) -> int:
        """The number of processes."""
        return self._group.size

    @property
    def local_rank(self) -> int:
        """The number of this process among those of its host: the device to use, where each has one of its own."""
        return self._group.local_rank

    @property
    def driver(self) -> str:
        """The driver: ``"single"``, ``"mpi"`` or ``"torch"``."""
        return self._group.driver.name

    @property
    def timeout_s(self) -> float:
        """The longest wait within one call, in seconds."""
        return self._group.timeout_s

    def __repr__(self) -> str:
        group = self._group
        return f"<Communicator {group.name}: rank {group.rank} of {group.size}, driver {group.driver.name!r}>"

    if not TYPE_CHECKING:  # or every name would be an attribute for a type checker

        def __getattr__(self, name: str) -> NoReturn:
            checks.refuse(self, name, checks.COMMUNICATOR_NAMES)

    def __reduce__(self) -> NoReturn:
        raise DistributedError(f"{self!r} is of this process; call init() in the one that is to join the job")

    # --- collectives

    def all_reduce(
        self, x: Any, op: str = "sum", *, out: Array | None = None, stream: Any = None, reproducible: bool = False,
        async_op: bool = False,
    ) -> Any:  # fmt: skip
        """Reduce the arrays of all ranks, element by element; every rank gets the result.

        Args:
            x: Array of shape S and dtype D, the same in every rank.
            op: ``"sum"``, ``"prod"``, ``"min"``, ``"max"``, or ``"mean"``, the sum divided by `size`. Integers wrap.
            out: Array (S, D) to fill, such as ``x`` itself; a new one if omitted.
            stream: Of a device array: the stream that orders the call; the current one if omitted.
            reproducible: Give the same bits whatever the driver, the backend and the distribution of ranks over hosts:
                elements are reduced pairwise in the order of ranks, as `pairwise_sum` adds. Otherwise the order is the
                driver's, and so is the result of ``min`` and ``max`` where there are NaNs. bfloat16 and float8 are
                always reduced in that order: in float32, rounded once.
            async_op: Return at once.

        Returns:
            ``out``, or a new array (S, D); a `Collective` that gives it, with ``async_op``.

        Raises:
            ArgumentError, UnsupportedDTypeError: ``op`` is unknown, or the dtype does not have it.
            UnsupportedArrayError: ``x`` is no array.
            LayoutError: ``out`` does not fit, is not contiguous, or is read-only.
        """
        # A repetition skips every check below: a stream, a handle to wait for and a fixed order need the long way.
        may_repeat = reproducible is False and async_op is False and stream is None
        if may_repeat and (repeat := self._repeats.find(x, op, out)) is not None:
            done = self._repeats.run(repeat, x, out)
            if done is not None:
                return done
        refuse_no_flag(reproducible, "all_reduce: reproducible")
        return operations.call(
            self._group, "all_reduce", x, op, reproducible, out=out, stream=stream, async_op=async_op,
            repeats=self._repeats if may_repeat else None,
        )  # fmt: skip

    def broadcast(
        self, x: Any, root: int = 0, *, out: Array | None = None, stream: Any = None, async_op: bool = False
    ) -> Any:
        """Copy the array of one rank to every rank.

        Args:
            x: Array (S, D), the same shape and dtype in every rank; its elements matter in rank ``root`` alone.
            root: The rank whose elements all get.
            out, stream, async_op: As for `all_reduce`.

        Returns:
            ``out``, or a new array (S, D), in rank ``root`` too.

        Raises:
            ArgumentError: There is no rank ``root``.
            UnsupportedArrayError, LayoutError: As `all_reduce`.
        """
        operations.check_rank(self._group, root, "broadcast: root")
        return operations.call(self._group, "broadcast", x, int(root), out=out, stream=stream, async_op=async_op)

    def all_gather(self, x: Any, *, out: Array | None = None, stream: Any = None, async_op: bool = False) -> Any:
        """Collect the arrays of all ranks in every rank.

        Args:
            x: Array (S, D), the same shape and dtype in every rank.
            out: Array of shape ``(size, *S)``; a new one if omitted.
            stream, async_op: As for `all_reduce`.

        Returns:
            Array of shape ``(size, *S)``: element ``i`` is the array of rank ``i``.

        Raises:
            UnsupportedArrayError, LayoutError: As `all_reduce`.
        """
        return operations.call(self._group, "all_gather", x, out=out, stream=stream, async_op=async_op)

    def reduce_scatter(
        self, x: Any, op: str = "sum", *, out: Array | None = None, stream: Any = None, async_op: bool = False
    ) -> Any:
        """Reduce the arrays of all ranks, element by element; each rank gets one part of the result.

        Args:
            x: Array of shape ``(size, *S)``, the same shape and dtype in every rank.
            op: As for `all_reduce`. In host memory the elements are always reduced in the order of ``reproducible``.
            out: Array of shape S; a new one if omitted.
            stream, async_op: As for `all_reduce`.

        Returns:
            Array of shape S: the reduction of ``x[rank]`` of all ranks.

        Raises:
            LayoutError: The first axis is not of length `size`; or as `all_reduce`.
            ArgumentError, UnsupportedDTypeError, UnsupportedArrayError: As `all_reduce`.
        """
        return operations.call(self._group, "reduce_scatter", x, op, out=out, stream=stream, async_op=async_op)

    def all_to_all(self, x: Any, *, out: Array | None = None, stream: Any = None, async_op: bool = False) -> Any:
        """Send one part of each rank's array to each rank.

        Args:
            x: Array of shape ``(size, *S)``, the same shape and dtype in every rank; ``x[i]`` goes to rank ``i``.
            out: Array of shape ``(size, *S)`` to fill, such as ``x`` itself; a new one if omitted.
            stream, async_op: As for `all_reduce`.

        Returns:
            Array of shape ``(size, *S)``: element ``i`` comes from rank ``i``.

        Raises:
            LayoutError: The first axis is not of length `size`; or as `all_reduce`.
            UnsupportedArrayError: ``x`` is no array.
        """
        return operations.call(self._group, "all_to_all", x, out=out, stream=stream, async_op=async_op)

    def barrier(self) -> None:
        """Wait until every rank has called; the work of devices is not waited for."""
        call = operations.begin(self._group, Signature("barrier", (), ""))
        # The comparison of the calls is a barrier already; without it, or with one rank, the exchange is.
        if not self._group.is_checked:
            with self._group.fail_on_error():
                self._group.exchange(b"", call)

    # --- from rank to rank

    def send(self, x: Any, dest: int, *, tag: int = 0, stream: Any = None) -> None:
        """Send an array to one rank, which calls `recv`; ``x`` may be changed on return.

        Args:
            x: Array of any shape and dtype.
            dest: The rank that receives, another than this.
            tag: From 0 to 10000, the same as the receiver's.
            stream: As for `all_reduce`.

        Raises:
            ArgumentError: There is no such rank or tag.
            MismatchError: The receiver expects another shape or dtype; both raise it, and nothing was sent.
        """
        operand = operand_of(x, "send", stream)
        operations.check_peer(self._group, dest, tag, "send: dest")
        taken = operations.send(self._group.driver, operand, int(dest), tag, self._describe(operand))
        operations.message(self._group, _signature("send", operand, f"dest={int(dest)}, tag={tag}"), taken)

    def recv(self, out: Array, source: int, *, tag: int = 0, stream: Any = None) -> Array:
        """Receive an array from one rank, which calls `send`.

        Args:
            out: Array of the sender's shape and dtype to fill.
            source: The rank that sends, another than this.
            tag, stream: As for `send`.

        Returns:
            ``out``.

        Raises:
            ArgumentError, MismatchError: As `send`.
            LayoutError: ``out`` is not contiguous, or read-only.
        """
        operand = operand_of(out, "recv", stream)
        operations.check_peer(self._group, source, tag, "recv: source")
        result = Result(operand, operand.shape, out, "recv")
        taken = operations.recv(self._group.driver, result, int(source), tag, self._describe(operand))
        operations.message(self._group, _signature("recv", operand, f"source={int(source)}, tag={tag}"), taken)
        return out

    # --- the group

    def split(self, color: int | None, key: int = 0) -> Communicator | None:
        """Make communicators of parts of the ranks; every rank calls it.

        Args:
            color: Ranks of equal colour, a whole number from 0, are in one communicator; None for a rank in none.
            key: Ranks are numbered by it, and by their rank here where it is equal.

        Returns:
            The communicator of this rank's part, with the same timeout; None for ``color=None``.

        Raises:
            ArgumentError: ``color`` or ``key`` is no whole number.
        """
        if (color is not None and whole(color, least=0) is None) or whole(key, least=-(1 << 62)) is None:
            raise ArgumentError(
                f"split: color={quote(color)}, key={quote(key)}: no whole numbers; give color from 0 or None, and a key"
            )
        group = self._group
        with group.lock:
            call = operations.begin(group, Signature("split", (), ""))
            group.parts += 1
            with group.fail_on_error():
                told = [text.decode() for text in group.exchange(f"{color},{key}".encode(), call)]
                given = [text.split(",") for text in told]
                members = [rank for rank, (shade, _) in enumerate(given) if shade == str(color)]
                if color is None:
                    return None
                members.sort(key=lambda rank: (int(given[rank][1]), rank))
                name = f"{group.name}/{group.parts}.{color}"
                part = group.driver.split(members, name)
                return Communicator(Group(part, group.timeout_s, is_checked=group.checks, name=name))

    def abort(self, reason: str) -> None:
        """End the job: write the reason, tell it to the other ranks, which raise `PeerError`, and end this process.

        Args:
            reason: For the error output of every rank.
        """
        membership.abort(self._group, DistributedError(f"rank {self.rank}: aborted: {reason}"))

    def close(self) -> None:
        """Complete what is pending and release the group; every rank calls it. A second call is a no-op."""
        group = self._group
        with group.lock:
            if not group.cause:
                with group.fail_on_error():
                    group.open.settle(all_of_them=True)
                group.close()
                group.release()
                membership.forget(group)

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self._group.fail(error)
        else:
            self.close()

    def _describe(self, operand: Operand) -> str | None:
        return f"shape {operand.shape}, dtype {operand.dtype}" if self._group.is_checked else None


def _signature(name: str, operand: Operand, options: str = "") -> Signature:
    return Signature(name, operand.shape, operand.dtype_name, options)


# How a process joins its job: which driver its launcher speaks, and the first communicator.

_DRIVERS = ("auto", "single", "mpi", "torch", "nccl")
_PARTS = {"gloo": "torch", "mpi4py": "mpi", "pytorch": "torch"}
"""Names of libraries, and the drivers that use them: for the error of an unknown one."""


def init(driver: str = "auto", timeout: float = 300.0, check: bool = True, *, cuda_aware: bool = False) -> Communicator:
    """Join the other processes of the job; every process calls it.

    Args:
        driver: ``"mpi"``, for a program started by mpiexec or srun; ``"torch"``, by torchrun, with gloo for host memory
            and NCCL for GPUs; ``"single"`` for one process alone; ``"nccl"`` for NCCL beside the driver of the
            launcher, which must be installed then. ``"auto"`` takes the driver that the launcher's environment
            variables tell, else ``"single"``, and with MPI it takes NCCL too, where that is installed. Without NCCL,
            where ranks share a GPU, and where the program has initialised MPI below ``MPI_THREAD_MULTIPLE``, device
            arrays pass through pinned host memory.
        timeout: The longest wait within one call, in seconds.
        check: Compare each call with those of the other ranks before data move. Without it mismatched calls hang, fail
            somewhere else or give wrong numbers.
        cuda_aware: Where each rank has a GPU of its own, give MPI the addresses of device memory, in place of NCCL and
            of pinned host memory. The host waits for each call. An MPI that was not built for CUDA crashes then, as
            those of the wheels do.

    Returns:
        The communicator of all processes. A second call makes another, independent one.

    Raises:
        ArgumentError: There is no such driver, or ``timeout`` is no positive number; ``cuda_aware`` with PyTorch or
            with NCCL.
        DriverUnavailableError: The driver's library is missing, or the program was not started for it.
        DistributedTimeoutError: Another process has not called it in time.
    """
    if not isinstance(driver, str) or driver not in _DRIVERS:
        hint = did_you_mean(_PARTS.get(driver.lower(), driver.lower()), _DRIVERS) if isinstance(driver, str) else ""
        raise ArgumentError(f"init: driver={quote(driver)} is none of {', '.join(_DRIVERS)}{hint}")
    if isinstance(timeout, np.generic):  # a float32 would be compared as one
        timeout = timeout.item()
    is_number = isinstance(timeout, numbers.Real) and not isinstance(timeout, bool)
    if not is_number or not 0 < timeout <= sys.float_info.max:
        raise ArgumentError(f"init: timeout={quote(timeout)} is not a positive number of seconds; give one, as 300.0")
    refuse_no_flag(check, "init: check")
    refuse_no_flag(cuda_aware, "init: cuda_aware")
    made = _join(driver, float(timeout), is_cuda_aware=cuda_aware)
    return Communicator(Group(made, float(timeout), is_checked=check, name="world"))


def _join(driver: str, timeout_s: float, *, is_cuda_aware: bool) -> Driver:
    if driver == "nccl" and is_cuda_aware:
        raise ArgumentError(
            "init: driver='nccl' has NCCL carry device memory, and cuda_aware=True has MPI do it; give one of the two"
        )
    if driver == "nccl":
        drivers.require_nccl()
    host = driver if driver in ("single", "mpi", "torch") else find_launcher_driver()
    if is_cuda_aware and host == "torch":
        raise ArgumentError(
            "init: cuda_aware=True is for MPI, and this job is torchrun's; start it with mpiexec, or leave it away"
        )
    if host == "torch":
        return drivers.torch_world(timeout_s)
    if host == "mpi":
        return drivers.mpi_world(timeout_s, has_nccl=driver in ("nccl", "auto"), is_cuda_aware=is_cuda_aware)
    return SingleDriver()


def find_launcher_driver() -> str:
    """The driver that this process was started for, by the variables that launchers set."""
    if all(name in os.environ for name in drivers.VARIABLES):
        return "torch"
    if any(name in os.environ for name in drivers.RANK_VARIABLES):
        return "mpi"
    if int(os.environ.get("SLURM_NTASKS", "1") or 1) > 1 and importlib.util.find_spec("mpi4py") is not None:
        return "mpi"
    return "single"


# Trees of arrays over ranks: parameters from one rank to all, and means of gradients, many arrays in one call.
#
# A call for each array would pay the comparison and the latency for each. So arrays of one dtype and device lie one
# behind the other in a slab, a `Bucket`, which one call sends; the results are views of it. Trees are compared as a
# whole before: buckets of equal bytes may hold different arrays.

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

    def scatter(self, results: list[Any]) -> None:
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
        owner = registry.owner_of(leaf)
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


def _describe_leaves(leaves: list[Any]) -> str:
    """The arrays of a tree, for the comparison of ranks: how many, the first, and a digest of all."""
    texts = [
        f"{tuple(leaf.shape)} {check_dtype(owner.view(leaf).dtype)}"
        for leaf in leaves
        if (owner := registry.owner_of(leaf)) is not None
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
    leaves, rebuild = _flatten_arrays(comm, tree, "broadcast_params")
    operations.check_rank(comm._group, root, "broadcast_params: root")
    _compare(comm, "broadcast_params", leaves)
    results = list(leaves)
    for bucket in _buckets(leaves, _BUCKET_BYTES):
        comm.broadcast(bucket.given, root, out=bucket.flat)
        bucket.scatter(results)
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
    leaves, rebuild = _flatten_arrays(comm, tree, "mean_grads")
    if whole(bucket_bytes, least=1) is None:
        raise ArgumentError(f"mean_grads: bucket_bytes={quote(bucket_bytes)} is not a whole number from 1; give one")
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
            bucket.scatter(results)
        return rebuild(results)

    return TreeCollective(finish) if async_op else finish()


def _check_gradient(leaf: Any) -> None:
    """Refuse an array that has no mean in its dtype, such as a counter among a model's buffers."""
    owner = registry.owner_of(leaf)
    if owner is not None and (dtype := owner.view(leaf).dtype).kind in "biu":
        raise UnsupportedDTypeError(
            f"mean_grads: op='mean' of {dtype}, which is not a gradient's dtype; leave the array out of the tree, or "
            "convert it to float64"
        )


def _flatten_arrays(comm: Communicator, tree: Any, name: str) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """The leaves of a tree, and the function that rebuilds it.

    Raises:
        ArgumentError: There is something in the tree and no array, such as a module in place of its parameters, which
            would stay as they are; or ``comm`` is no communicator.
    """
    if not isinstance(comm, Communicator):
        raise ArgumentError(f"{name}: comm is {type(comm).__name__}, no communicator; call {name}(comm, tree)")
    leaves, rebuild = flatten(tree, moving="any")
    others = [leaf for leaf in leaves if leaf is not None]
    if others and all(registry.owner_of(leaf) is None for leaf in others):
        raise ArgumentError(
            f"{name}: there is no array in tree, but {type(others[0]).__name__}; give arrays in dicts or lists, such "
            "as model.state_dict() or list(model.parameters())"
        )
    return leaves, rebuild


def _compare(comm: Communicator, name: str, leaves: list[Any]) -> None:
    """Compare the trees of all ranks: buckets of equal bytes may hold different arrays."""
    if comm._group.is_checked:
        operations.begin(comm._group, Signature(name, (), "", _describe_leaves(leaves)))


def pairwise_sum(*trees: Any) -> Any:
    """Add trees of arrays in the order in which ``reproducible=True`` adds ranks, with the same bits on every backend.

    Neighbours are added first, then neighbours of these sums, and so on: 5 trees give ((0 + 1) + (2 + 3)) + 4. So where
    a batch is cut into a number of parts that is a power of two, and each rank adds the gradients of as many
    neighbouring parts, a reproducible `Communicator.all_reduce` gives the bits of one process that adds all of them.
    Sums of bfloat16 and float8 are made in float32 and rounded once: add their parts as float32 arrays to that end.

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
    owner = registry.owner_of(rows[0])
    return rows[0] if owner is None else operations.pairwise(rows, "sum", owner.view(rows[0]).dtype, in_place=False)
