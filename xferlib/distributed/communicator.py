"""The communicator: checks the arguments of a call, compares it with those of the other ranks, and runs its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from xferlib._runtime import peer_names
from xferlib._runtime.checks import refuse_no_flag, whole
from xferlib.distributed import device_steps, ending, reductions, running, steps
from xferlib.distributed.call import Signature
from xferlib.distributed.group import Group
from xferlib.distributed.operands import Operand, Result, operand_of
from xferlib.distributed.repeats import Repeats
from xferlib.distributed.running import Ways
from xferlib.errors import ArgumentError, DistributedError, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xferlib._core.array import Array
    from xferlib.distributed.device_steps import OnDevice
    from xferlib.distributed.drivers.driver import Pending


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
        ending.watch(group)

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
            peer_names.refuse(self, name, peer_names.COMMUNICATOR_NAMES)

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
                driver's, and so is the result of ``min`` and ``max`` where there are NaNs.
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
        refuse_no_flag(async_op, "all_reduce: async_op")
        operand = operand_of(x, "all_reduce", stream)
        reductions.check_op(op, operand.dtype, "all_reduce")
        result = Result(operand, operand.shape, out, "all_reduce")
        driver = self._group.driver
        options = f"op={op!r}{', reproducible=True' if reproducible else ''}"

        def on_device(on: OnDevice) -> Iterator[Pending]:
            # Remembered behind the last step: a call that fails on the way is checked anew when it comes again.
            yield from device_steps.all_reduce(on, op, in_order=reproducible)
            if may_repeat:
                self._repeats.add(_signature("all_reduce", operand, options)._replace(via="device"), on, op)

        ways = Ways(steps.all_reduce(driver, operand, result, op, in_order=reproducible), on_device)
        return running.run(
            self._group, "all_reduce", options, operand, result, ways, is_async=async_op,
            # One operation of the driver is begun at once, and later calls may pass it. Several must begin in the same
            # order in every rank: the next call completes them first.
            is_in_steps=async_op
            and (
                reproducible
                or operand.source.host is None
                or not reductions.is_one_step(driver, operand.dtype, op, operand.nbytes)
            ),
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
        operand = operand_of(x, "broadcast", stream)
        running.check_rank(self._group, root, "broadcast: root")
        result = Result(operand, operand.shape, out, "broadcast")
        host = steps.broadcast(self._group.driver, operand, result, int(root))
        ways = Ways(host, lambda on: device_steps.broadcast(on, int(root)))
        return running.run(self._group, "broadcast", f"root={int(root)}", operand, result, ways, is_async=async_op)

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
        operand = operand_of(x, "all_gather", stream)
        result = Result(operand, (self.size, *operand.shape), out, "all_gather")
        ways = Ways(steps.all_gather(self._group.driver, operand, result), device_steps.all_gather)
        return running.run(self._group, "all_gather", "", operand, result, ways, is_async=async_op)

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
        operand = operand_of(x, "reduce_scatter", stream)
        reductions.check_op(op, operand.dtype, "reduce_scatter")
        running.check_parts(self._group, operand, "reduce_scatter")
        result = Result(operand, operand.shape[1:], out, "reduce_scatter")
        host = steps.reduce_scatter(self._group.driver, operand, result, op)
        ways = Ways(host, lambda on: device_steps.reduce_scatter(on, op))
        return running.run(self._group, "reduce_scatter", f"op={op!r}", operand, result, ways, is_async=async_op)

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
        operand = operand_of(x, "all_to_all", stream)
        running.check_parts(self._group, operand, "all_to_all")
        result = Result(operand, operand.shape, out, "all_to_all")
        ways = Ways(steps.all_to_all(self._group.driver, operand, result), device_steps.all_to_all)
        return running.run(self._group, "all_to_all", "", operand, result, ways, is_async=async_op)

    def barrier(self) -> None:
        """Wait until every rank has called; the work of devices is not waited for."""
        call = running.begin(self._group, Signature("barrier", (), ""))
        # The comparison of the calls is a barrier already; without it, or with one rank, the exchange is.
        if not self._group.is_checked:
            with self._group.failing():
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
        running.check_peer(self._group, dest, tag, "send: dest")
        taken = steps.send(self._group.driver, operand, int(dest), tag, self._described(operand))
        running.message(self._group, _signature("send", operand, f"dest={int(dest)}, tag={tag}"), taken)

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
        running.check_peer(self._group, source, tag, "recv: source")
        result = Result(operand, operand.shape, out, "recv")
        taken = steps.recv(self._group.driver, result, int(source), tag, self._described(operand))
        running.message(self._group, _signature("recv", operand, f"source={int(source)}, tag={tag}"), taken)
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
                f"split: color={shown(color)}, key={shown(key)}: no whole numbers; give color from 0 or None, and a key"
            )
        group = self._group
        with group.lock:
            call = running.begin(group, Signature("split", (), ""))
            group.parts += 1
            with group.failing():
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
        ending.abort(self._group, DistributedError(f"rank {self.rank}: aborted: {reason}"))

    def close(self) -> None:
        """Complete what is pending and release the group; every rank calls it. A second call is a no-op."""
        group = self._group
        with group.lock:
            if not group.cause:
                with group.failing():
                    group.open.settle(all_of_them=True)
                group.close()
                group.release()
                ending.forget(group)

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self._group.fail(error)
        else:
            self.close()

    def _described(self, operand: Operand) -> str | None:
        return f"shape {operand.shape}, dtype {operand.dtype}" if self._group.is_checked else None


def _signature(name: str, operand: Operand, options: str = "") -> Signature:
    return Signature(name, operand.shape, operand.dtype_name, options)
