"""Communicators: the same tests in one process, and in the ranks of real jobs of MPI and of torchrun."""

from __future__ import annotations

import socket
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests.distributed import launching
from tests.distributed.failing import free_port
from xferlib import distributed
from xferlib.errors import ArgumentError, DriverUnavailableError, KernelTypeError, UnsupportedArrayError


@pytest.mark.parametrize(("driver", "size"), [("single", 1), ("mpi", 3), ("torch", 2)])
def test_ranks_pass(driver: str, size: int) -> None:
    files = ("collectives.py", "parameters.py", "devices.py", "streaming.py", "disagreements.py")
    launching.passes_in_ranks(driver, size, *files, is_ended_by_mpi=driver == "mpi")


def test_one_process_needs_no_driver() -> None:
    with distributed.init() as comm:
        assert (comm.driver, comm.rank, comm.size, comm.local_rank) == ("single", 0, 1, 0)
        assert comm.all_reduce([1, 2]).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("options", "text"),
    [({"driver": "troch"}, "did you mean 'torch'"), ({"driver": 3}, "driver=3"), ({"timeout": 0}, "timeout=0"),
     ({"timeout": "long"}, "timeout='long'"), ({"check": None}, "check=None"), ({"cuda_aware": 1}, "cuda_aware=1"),
     ({"driver": "nccl", "cuda_aware": True}, "driver='nccl' has NCCL .* cuda_aware=True has MPI")],
)  # fmt: skip
def test_a_wrong_argument_of_init_is_refused(options: dict[str, object], text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        distributed.init(**options)  # type: ignore[arg-type]


def test_a_driver_without_its_launcher_says_what_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    launching.need("torch")
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(DriverUnavailableError, match="torchrun"):
        distributed.init("torch")


@pytest.mark.parametrize(
    ("address", "variables", "is_on_loopback"),
    [("127.0.0.1", {}, True), ("localhost", {}, True), (socket.gethostname(), {}, False),
     ("127.0.0.1", {"GLOO_SOCKET_IFNAME": "lo"}, False)],
)  # fmt: skip
def test_gloo_asks_for_the_name_of_the_host_only_where_it_must(
    monkeypatch: pytest.MonkeyPatch, address: str, variables: dict[str, str], *, is_on_loopback: bool
) -> None:
    """A name server that does not answer costs seconds for each group."""
    launching.need("torch")
    import torch.distributed

    given: list[Any] = []

    class Noted(torch.distributed.ProcessGroupGloo):
        def __init__(self, store: Any, rank: int, size: int, options: Any) -> None:
            given.append(options)
            super().__init__(store, rank, size, options)

    monkeypatch.setattr(torch.distributed, "ProcessGroupGloo", Noted)
    started = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": address, "MASTER_PORT": str(free_port())}
    for name, value in (started | variables).items():
        monkeypatch.setenv(name, value)
    with distributed.init("torch", timeout=60.0) as comm:
        assert comm.all_reduce([1, 2]).tolist() == [1, 2]
    (options,) = given
    assert isinstance(options, timedelta) is not is_on_loopback


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [(lambda comm: comm.Get_rank(), AttributeError, r"write comm\.rank"),
     (lambda comm: comm.allreduce(1.0), AttributeError, r"write comm\.all_reduce\(x\)"),
     (lambda comm: comm.nothing, AttributeError, "no attribute 'nothing'$"),
     (lambda _: distributed.get_world_size, AttributeError, r"write comm\.size, with"),  # type: ignore[attr-defined]
     (lambda comm: comm.all_reduce(1.0, "avg"), ArgumentError, "did you mean 'mean'"),
     (lambda comm: comm.all_reduce(1.0, "SUM"), ArgumentError, "did you mean 'sum'"),
     (lambda _: distributed.init("gloo"), ArgumentError, "did you mean 'torch'"),
     (lambda _: distributed.init("MPI"), ArgumentError, "did you mean 'mpi'"),
     (lambda comm: begun(comm).result(), AttributeError, r"write operation\.wait\(\)"),
     (lambda comm: begun(comm).sum(), AttributeError, r"a Collective is not an array .*write operation\.wait\(\)\.sum"),
     (lambda comm: begun(comm) + 1, UnsupportedArrayError, r"a Collective is an operation in progress, .*wait\(\)"),
     (lambda comm: np.asarray(begun(comm)), UnsupportedArrayError, "conversion to an array: a Collective"),
     (lambda comm: xl.get_array_module(begun(comm)), UnsupportedArrayError, r"is Collective, .*operation\.wait\(\)"),
     (lambda comm: xl.elementwise("T x", "T y", "y = x")(begun(comm)), KernelTypeError, "write operation.wait")],
)  # fmt: skip
def test_names_of_other_libraries_lead_to_ours(call: Any, error: type[Exception], text: str) -> None:
    with distributed.init("single") as comm, pytest.raises(error, match=text):
        call(comm)


def begun(comm: distributed.Communicator) -> Any:
    return comm.all_reduce([1.0, 2.0], async_op=True)
