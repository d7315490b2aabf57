"""Ranks that make different calls, or do not come: all of them learn of it, and of the cause."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from xferlib import distributed
from xferlib.distributed import Communicator
from xferlib.errors import DistributedError, DistributedTimeoutError, MismatchError, PeerError

X = np.ones(6, np.float32)


@pytest.fixture(params=["one host", "many hosts"])
def other(request: pytest.FixtureRequest, comm: Communicator, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that makes another communicator of the same ranks, which will be of no use after the test."""
    if comm.size == 1:
        pytest.skip("one rank agrees with itself")
    if request.param == "many hosts":
        monkeypatch.setattr(socket, "gethostname", lambda: f"host-{comm.rank}")

    def make(timeout_s: float = 60.0) -> Communicator:
        made = distributed.init(comm.driver, timeout=60.0)
        made._group.timeout_s = timeout_s  # behind the start, which may take longer on a busy machine
        return made

    return make


DIFFERENT: dict[str, tuple[Callable[[Communicator], Any], Callable[[Communicator], Any], str]] = {
    "shape": (lambda c: c.all_reduce(X), lambda c: c.all_reduce(X[:5]), r"shape \(5,\), dtype float32"),
    "dtype": (lambda c: c.all_reduce(X), lambda c: c.all_reduce(X.astype("int32")), "dtype int32"),
    "operation": (lambda c: c.all_reduce(X), lambda c: c.all_reduce(X, "max"), "op='max'"),
    "order": (lambda c: c.all_gather(X), lambda c: c.barrier(), "barrier"),
    "root": (lambda c: c.broadcast(X, 0), lambda c: c.broadcast(X, 1), "root=1"),
    "bits": (lambda c: c.all_reduce(X), lambda c: c.all_reduce(X, reproducible=True), "reproducible=True"),
    "split": (lambda c: c.split(0), lambda c: c.all_reduce(X), "split"),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_different_calls_are_named_in_every_rank(comm: Communicator, other: Any, what: str) -> None:
    usual, differs, text = DIFFERENT[what]
    made = other()
    made.all_reduce(X)
    with pytest.raises(MismatchError, match=text) as caught:
        (differs if comm.rank == comm.size - 1 else usual)(made)
    assert f"rank {comm.size - 1}: " in str(caught.value)
    assert f"rank {comm.rank}: call 2" in str(caught.value)
    with pytest.raises(DistributedError, match="refuses work: MismatchError"):
        made.barrier()
    made.close()
    comm.barrier()


class Late:
    """An operation that is complete here when the group has had a look at another rank's failure."""

    def __init__(self, group: Any, pending: Any) -> None:
        self._group = group
        self._pending = pending
        self._is_known = False

    def wait(self, most_s: float) -> bool:
        if self._is_known:
            return bool(self._pending.wait(most_s))
        self._is_known = bool(self._group.control.failures())
        return False


def test_a_rank_that_learns_late_of_different_calls_names_them_too(comm: Communicator, other: Any) -> None:
    made = other()
    made.all_reduce(X)
    gather = made._group.driver.all_gather
    if comm.rank == 0:  # of the words of the calls, which alone are bytes
        made._group.driver.all_gather = lambda out, x: (
            Late(made._group, gather(out, x)) if x.dtype == np.uint8 else gather(out, x)
        )
    with pytest.raises(MismatchError, match="rank 0: call 2 .*barrier" if comm.rank == 0 else "barrier"):
        made.all_gather(X) if comm.rank else made.barrier()
    comm.barrier()


def test_a_rank_that_does_not_come_is_named(comm: Communicator, other: Any, request: pytest.FixtureRequest) -> None:
    made = other(0.2)
    if comm.rank:
        with pytest.raises(
            (DistributedTimeoutError, PeerError), match=r"all_reduce of shape \(6,\), dtype float32"
        ) as caught:
            made.all_reduce(X)
        if isinstance(caught.value, DistributedTimeoutError):
            assert "timed out after 0.2 s" in str(caught.value)
            if "one host" in request.node.name:
                assert "rank 0 has not come" in str(caught.value)
    comm.barrier()
    if not comm.rank:  # too late
        with pytest.raises(PeerError, match="has failed.*DistributedTimeoutError"):
            made.all_reduce(X)
    comm.barrier()


def test_a_message_that_is_not_received_is_named(comm: Communicator, other: Any) -> None:
    made = other(0.5)
    if comm.rank < 2:
        with pytest.raises((DistributedTimeoutError, PeerError), match="message 1, send of shape") as caught:
            made.send(X, 1 - comm.rank)
        assert "timed out after 0.5 s; see the output" in str(caught.value)
    comm.barrier()


def test_messages_that_differ_are_named_by_both(comm: Communicator, other: Any) -> None:
    made = other()
    if comm.rank == 0:
        with pytest.raises(MismatchError, match=r"rank 0 sends shape \(6,\).*, but rank 1 expects shape \(3,\)"):
            made.send(X, 1)
    elif comm.rank == 1:
        with pytest.raises(MismatchError, match=r"rank 1 expects shape \(3,\).*, but rank 0 sends shape \(6,\)"):
            made.recv(np.empty(3, np.float32), 0)
    comm.barrier()


def test_an_error_in_a_with_block_is_told_to_the_others(comm: Communicator, other: Any) -> None:
    made = other()
    if comm.rank == 1:
        with pytest.raises(ValueError, match="no weights"), made:
            raise ValueError("no weights")
    else:
        with pytest.raises(PeerError, match="rank 1 has failed.*ValueError: no weights"):
            made.all_reduce(X)
    comm.barrier()
