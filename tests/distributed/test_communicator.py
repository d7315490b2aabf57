"""Communicators: the same tests in one process, and in the ranks of real jobs of MPI and of torchrun."""

from __future__ import annotations

import pytest

from tests.distributed import launching
from xferlib import distributed
from xferlib.errors import ArgumentError, DriverUnavailableError


@pytest.mark.parametrize(("driver", "size"), [("single", 1), ("mpi", 3), ("torch", 2)])
def test_ranks_pass(driver: str, size: int) -> None:
    files = ("collectives.py", "parameters.py", "devices.py", "disagreements.py")
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
