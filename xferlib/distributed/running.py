"""A call, from the comparison with the other ranks to its result; and checks of arguments that need the group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xferlib._runtime.checks import refuse_no_flag, whole
from xferlib.distributed.call import Call, Signature
from xferlib.distributed.collective import Collective
from xferlib.errors import ArgumentError, LayoutError, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xferlib.distributed.drivers.driver import Pending
    from xferlib.distributed.group import Group
    from xferlib.distributed.operands import Operand

_MOST_TAG = 10_000


def begin(group: Group, signature: Signature) -> Call:
    """Compare a call with those of the other ranks; open operations of several steps are completed before it."""
    with group.lock:
        group.check_usable()
        with group.failing():
            if group.open:
                group.settle(all_of_them=False)
            return group.begin(signature)


def run(
    group: Group, signature: Signature, taken: Iterator[Pending], array: Any, is_async: bool, is_in_steps: bool = True
) -> Any:
    """Take the steps of a call.

    Args:
        group: Of the ranks.
        signature: Of the call.
        taken: Its steps.
        array: Its result.
        is_async: Return a `Collective` at once.
        is_in_steps: Whether the steps begin more than one operation of the driver, or need the host between them.
    """
    refuse_no_flag(is_async, f"{signature.name}: async_op")
    with group.lock:
        call = begin(group, signature)
        with group.failing():
            if not is_async:
                group.run(taken, call)
                return array
            begun = Collective(group, call, taken, array, is_in_steps=is_in_steps)
            group.open.append(begun)
            return begun


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
