"""Finds the memory of an operation's address, and refuses what would fail or corrupt data on a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from xferlib._runtime.callsite import user_site
from xferlib.errors import ArgumentError
from xferlib.sim.detect.reports import Access, Hazard, Race, SimError, WrongDeviceError
from xferlib.sim.model.blocks import Span

if TYPE_CHECKING:
    from xferlib._core.device import Device
    from xferlib.sim.detect.detector import Detector
    from xferlib.sim.model.blocks import Block
    from xferlib.sim.model.memory import AddressSpace
    from xferlib.sim.model.streams import SimStream


def span(memory: AddressSpace, detector: Detector, pointer: int, nbytes: int, name: str, stream: SimStream) -> Span:
    """The span at an address, for an operation about to be enqueued.

    Raises:
        SimError: It is not, or not completely, in memory that devices reach.
        RaceError: The memory has been freed.
    """
    block = memory.find(pointer)
    if block is not None and pointer - block.pointer + nbytes <= block.nbytes:
        return Span(block, pointer - block.pointer, pointer - block.pointer + nbytes)
    freed = memory.freed(pointer)
    if block is None and freed is not None:
        race = Race(
            hazard=Hazard.USE_AFTER_FREE,
            first=Access.of(freed.action),
            second=Access(name, stream.label, user_site()),
            memory=freed.where,
            missing="the memory was freed before this operation was even enqueued",
            remedy=f"keep the array alive until after {user_site()}",
        )
        detector.report(race)
    raise SimError(
        f"{name}: {nbytes} bytes at address {pointer:#x} are "
        + (f"beyond the end of {block.where}" if block is not None else "in no device memory and not page-locked")
        + f" ({user_site()}); a GPU would fail or corrupt other data"
    )


def on_device(memory: AddressSpace, pointer: int, nbytes: int, device: Device) -> Block:
    """The block of a device that holds some bytes at an address.

    Raises:
        ArgumentError: There is none.
    """
    block = memory.find(pointer)
    if block is None or block.device is not device or pointer - block.pointer + nbytes > block.nbytes:
        raise ArgumentError(
            f"{nbytes} bytes at address {pointer:#x} are in no array of {device}; give the address of one that is alive"
        )
    return block


def refuse_foreign(block: Block, name: str, stream: SimStream) -> NoReturn:
    """Raise the error for a kernel on a stream of another device than its memory."""
    raise WrongDeviceError(
        f"{Hazard.WRONG_DEVICE.value}: {name} at {user_site()} uses {block.where} on {stream.label}; use "
        f"a stream of {block.device}, or move the array with to_device(x, device={str(stream.device)!r})"
    )
