"""The steps of each collective, between which the communicator waits: the same for blocking and asynchronous calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xferlib.distributed import reductions
from xferlib.distributed.operands import separate
from xferlib.errors import MismatchError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xferlib._core.layout import HostArray
    from xferlib.distributed.drivers.driver import Driver, Pending
    from xferlib.distributed.operands import Operand, Result

_HEADER_NBYTES = 256
_TAGS = 3
"""Of a message: its data, its header, and the answer to that."""


def all_reduce(driver: Driver, operand: Operand, result: Result, op: str, *, in_order: bool) -> Iterator[Pending]:
    x = operand.loaded()
    out = result.buffer(x)
    if x.size:
        # ``out`` may be ``x`` as a whole, which drivers do in place. Where they overlap in part, a driver that stores
        # one part before it has read the next would reduce its own results.
        x = x if out is x else separate(x, out)
        yield from reductions.all_reduce(driver, out, x, op, in_order=in_order)
    result.stored(out)


def broadcast(driver: Driver, operand: Operand, result: Result, root: int) -> Iterator[Pending]:
    if driver.rank == root:
        x = operand.loaded()
        out = result.buffer(x)
        if out is not x:
            out[...] = separate(x, out)
    else:
        out = result.buffer(_NOTHING)
    if out.size:
        yield driver.broadcast(out, root)
    # The root's own array holds the elements already: storing them would copy it over itself.
    if driver.rank != root or result.array is not operand.source.given:
        result.stored(out)


_NOTHING = np.empty(0, np.uint8)


def all_gather(driver: Driver, operand: Operand, result: Result) -> Iterator[Pending]:
    x = operand.loaded()
    out = result.buffer(_NOTHING)
    if x.size:
        yield driver.all_gather(out, separate(x, out))
    result.stored(out)


def all_to_all(driver: Driver, operand: Operand, result: Result) -> Iterator[Pending]:
    x = operand.loaded()
    out = result.buffer(_NOTHING)
    if x.size:
        yield driver.all_to_all(out, separate(x, out))
    result.stored(out)


def reduce_scatter(driver: Driver, operand: Operand, result: Result, op: str) -> Iterator[Pending]:
    x = operand.loaded()
    out = result.buffer(_NOTHING)
    if x.size:
        yield from reductions.reduce_scatter(driver, out, x, op)
    result.stored(out)


def send(driver: Driver, operand: Operand, dest: int, tag: int, described: str | None) -> Iterator[Pending]:
    """Send a header, wait for the answer, and send the data.

    Raises:
        MismatchError: The receiver expects another array; nothing was sent.
    """
    if described is not None:
        # The header needs an answer before the data go: a receive of fewer bytes than come is an error that ends the
        # job in MPI, and closes the connection in gloo.
        answer = np.empty(_HEADER_NBYTES, np.uint8)
        yield driver.send(_header(described), dest, _TAGS * tag + 1)
        yield driver.recv(answer, dest, _TAGS * tag + 2)
        _compare(f"rank {driver.rank} sends {described}", f"rank {dest} expects", _text(answer), described)
    x = operand.loaded()
    if x.size:
        yield driver.send(x, dest, _TAGS * tag)


def recv(driver: Driver, result: Result, source: int, tag: int, described: str | None) -> Iterator[Pending]:
    """Answer a header, and receive the data.

    Raises:
        MismatchError: The sender has another array; nothing was sent.
    """
    if described is not None:
        header = np.empty(_HEADER_NBYTES, np.uint8)
        yield driver.recv(header, source, _TAGS * tag + 1)
        yield driver.send(_header(described), source, _TAGS * tag + 2)
        _compare(f"rank {driver.rank} expects {described}", f"rank {source} sends", _text(header), described)
    out = result.buffer(_NOTHING)
    if out.size:
        yield driver.recv(out, source, _TAGS * tag)
    result.stored(out)


def _header(text: str) -> HostArray:
    return np.frombuffer(text.encode()[:_HEADER_NBYTES].ljust(_HEADER_NBYTES, b"\0"), np.uint8).copy()


def _text(header: HostArray) -> str:
    return header.tobytes().rstrip(b"\0").decode(errors="replace")


def _compare(own: str, other: str, told: str, described: str) -> None:
    if told != _text(_header(described)):
        raise MismatchError(f"{own}, but {other} {told}; nothing was sent; give both arrays the same shape and dtype")
