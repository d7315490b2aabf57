"""A call, from the comparison with the other ranks to its result; and checks of arguments that need the group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from xferlib._runtime import leak
from xferlib._runtime.checks import refuse_no_flag, whole
from xferlib.distributed.call import Call, Signature
from xferlib.distributed.collective import Collective
from xferlib.distributed.device_steps import OnDevice
from xferlib.errors import ArgumentError, LayoutError, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from xferlib.distributed.drivers.driver import Pending
    from xferlib.distributed.group import Group
    from xferlib.distributed.operands import Operand, Result

_MOST_TAG = 10_000


def begin(group: Group, signature: Signature) -> Call:
    """Compare a call with those of the other ranks; open operations of several steps are completed before it."""
    with group.lock:
        group.check_usable()
        with group.failing():
            if group.open:
                group.open.settle(all_of_them=False)
            return group.begin(signature)


class Ways(NamedTuple):
    """The steps of a call, in the memory that carries its data."""

    host: Iterator[Pending]
    device: Callable[[OnDevice], Iterator[Pending]]


def run(
    group: Group, name: str, options: str, operand: Operand, result: Result, ways: Ways, *, is_async: bool,
    is_in_steps: bool = True,
) -> Any:  # fmt: skip
    """Take the steps of a call.

    Args:
        group: Of the ranks.
        name: Of the call.
        options: All else that must be the same in every rank.
        operand, result: The arrays.
        ways: The steps.
        is_async: Return a `Collective` at once.
        is_in_steps: Whether the steps in host memory begin more than one operation of the driver.
    """
    refuse_no_flag(is_async, f"{name}: async_op")
    is_on_device = group.check_device(operand, name)
    signature = Signature(name, operand.shape, operand.dtype_name, options, "device" if is_on_device else "host")
    # Both are generators, of which nothing runs before `run` below or the handle takes the first step: the calls are
    # compared first, and an array of another shape in one rank is never sent.
    taken = _on_device(group, signature, operand, result, ways, is_async) if is_on_device else ways.host
    array = result.array
    with group.lock:
        group.check_usable()
        try:  # as `begin` and `failing`, which take microseconds
            if group.open:
                group.open.settle(all_of_them=False)
            call = group.begin(signature)
            if not is_async:
                group.run(taken, call)
                return array
            begun = Collective(group, call, taken, array)
            begun.is_in_steps = is_in_steps and not (
                is_on_device and group.device_driver is not None  # which its begin may make
            )
            # Behind the handle's first step, which its constructor takes: if that raises, the group fails, and nothing
            # open is left to wait for.
            group.open.add(begun)
            return begun
        except BaseException as error:
            group.fail(error)
            raise


def _on_device(
    group: Group, signature: Signature, operand: Operand, result: Result, ways: Ways, is_async: bool
) -> Iterator[Pending]:
    """The steps on the group's devices; those of host memory where two ranks share a device."""
    call = Call(signature, group.count)
    driver = group.devices(operand, call)
    watch = group.watch
    if driver is None or watch is None:
        return (yield from ways.host)
    on = OnDevice(driver, group.rank, group.size, operand, result, is_async, [])
    watch.enters(call)
    try:
        for pending in ways.device(on):
            watch.leaves()
            yield pending
            watch.enters(call)
    except BaseException:
        leak.keep(on)  # the library may still read and write the memory
        raise
    watch.leaves()


def message(group: Group, signature: Signature, taken: Iterator[Pending]) -> None:
    """Take the steps of a message from rank to rank."""
    group.check_usable()
    group.messages += 1
    with group.failing():
        group.run(taken, Call(signature, group.messages, "message"))


def check_rank(group: Group, rank: Any, what: str) -> None:
    """Refuse a number that is no rank.

    Raises:
        ArgumentError: It is none.
    """
    found = whole(rank, least=0)
    if found is None or found >= group.size:
        raise ArgumentError(f"{what}={shown(rank)} is no rank of {group.size}; give one from 0 to {group.size - 1}")


def check_peer(group: Group, rank: Any, tag: Any, what: str) -> None:
    """Refuse this rank itself, and a tag out of range.

    Raises:
        ArgumentError: Either, or no rank at all.
    """
    check_rank(group, rank, what)
    if int(rank) == group.rank:
        raise ArgumentError(f"{what}={group.rank} is this rank itself; give another one")
    if (found := whole(tag, least=0)) is None or found > _MOST_TAG:
        raise ArgumentError(f"tag={shown(tag)} is no whole number from 0 to {_MOST_TAG}; give one")


def check_parts(group: Group, operand: Operand, call: str) -> None:
    """Refuse an array that has not one part for each rank.

    Raises:
        LayoutError: Its first axis is of another length.
    """
    if not operand.shape or operand.shape[0] != group.size:
        raise LayoutError(
            f"{call}: x has shape {operand.shape}, but its first axis has one part for each of the {group.size} "
            f"ranks; reshape it to ({group.size}, ...)"
        )
