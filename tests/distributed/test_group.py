"""A rank that fails: the others end, soon and with the cause, and none hangs."""

from __future__ import annotations

import functools
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.distributed import launching
from tests.distributed.failing import KINDS, MEETING, WAYS, gpus

PROGRAM = str(launching.HERE / "failing.py")
CAUSES = {
    "killed": r"PeerError: rank 0: rank 1 has failed, .*call 2, all_reduce of shape \(1000,\), dtype float64.* is gone",
    "raising": r"PeerError: rank 0: rank 1 has failed, .*call 2, .*ValueError: no file weights.npz",
    "leaving": r"PeerError: rank 0: rank 1 has failed, .*its program has ended",
    "stuck": r"DistributedTimeoutError: rank 0: call 2, all_reduce of shape \(1000,\), .* timed out after 0.5 s",
    "aborting": r"PeerError: rank 0: rank 1 has failed, .*aborted: the loss is NaN",
    "killed-inside": r"PeerError: rank 0: call 2, all_reduce of shape \(1000,\), .* on the device: rank 1 .* is gone",
    "stuck-inside": r"(DistributedTimeout|Peer)Error: rank 0: call 2, all_reduce .* timed out after 3 s on the device",
    "raising-in-mpi": r"PeerError: rank 0: rank 1 has failed, .*call 2, .*completed: ValueError: no file weights.npz",
    "stuck-in-mpi": r"DistributedTimeoutError: rank 0: call 2, all_reduce .* timed out after 3 s; see",
    "interrupted-in-mpi": "is an operation of MPI known to be open: True",
    "interrupted-behind-mpi": "is an operation of MPI known to be open: True",
    "absent": r"DistributedTimeoutError: rank 0: init\(driver='\w+'\).* timed out after 0.5 s",
}
BY_THE_DRIVER = r"PeerError: rank 0: call 2, all_reduce .* failed: driver 'torch' says"
"""On many hosts a process that is gone is seen by gloo, as a connection that is closed."""


WAYS_IN_MPI = ("raising-in-mpi", "stuck-in-mpi", "interrupted-in-mpi", "interrupted-behind-mpi")


def need_gpus() -> None:
    if len(gpus()) < 2:
        pytest.skip("two GPUs are needed")


@pytest.fixture
def meeting(tmp_path: Path) -> dict[str, str]:
    """Where the ranks of a program wait for each other."""
    os.mkfifo(tmp_path / "meeting")
    return {MEETING: str(tmp_path / "meeting")}


@functools.cache
def said(kinds: str) -> dict[str, Any]:
    """The error output of ranks by kind and way, and how they ended; one process imports PyTorch for all."""
    done = launching.run([*launching.command("single", 1), PROGRAM, kinds])
    assert done.returncode == 0, done.stderr
    ranks: dict[str, Any] = json.loads(done.stdout)
    return ranks


@pytest.mark.parametrize(("kind", "way"), [(kind, way) for kind, ways in KINDS.items() for way in ways])
def test_a_rank_over_gloo_ends_with_the_cause(kind: str, way: str) -> None:
    launching.need("torch")
    if kind == "gpus":
        need_gpus()
    ranks = said(kind if kind == "gpus" else ",".join(each for each in KINDS if each != "gpus"))[kind]
    expected = "^$" if kind == "no-output" else CAUSES[way]
    expected += f"|{BY_THE_DRIVER}" if kind == "many-hosts" and way in ("killed", "leaving") else ""
    assert re.search(expected, ranks[way]["said"]), ranks[way]["said"]
    assert ranks[way]["code"] == 1


@pytest.mark.parametrize(
    ("kind", "way"),
    [("one-host", way) for way in WAYS]
    + [("many-hosts", way) for way in ("raising", "stuck")]
    + [("simulated-devices", "killed-inside")]
    + [("aware-mpi", way) for way in WAYS_IN_MPI]
    + [("gpus", way) for way in ("killed", "raising", "killed-inside", "stuck-inside")],
)
def test_a_rank_of_mpi_ends_with_the_cause(kind: str, way: str, meeting: dict[str, str]) -> None:
    launching.need("mpi")
    if kind == "gpus":
        need_gpus()
    launcher, *rest = launching.command("mpi", 2)
    alone = ["-disable-auto-cleanup"] if launching.mpi_kind() == "Hydra" else []  # Open MPI always ends the others
    done = launching.run([launcher, *alone, *rest, PROGRAM, way, kind], **meeting)
    told = done.stderr + done.stdout
    expected = CAUSES[way] + (r"|signal 9" if way.startswith("killed") else "")  # the launcher may be first to say so
    assert re.search(expected, told), told
    assert done.returncode != 0


def test_a_job_ends_as_its_launcher_has_it(meeting: dict[str, str]) -> None:
    """That of MPI ends the other ranks, which the test above keeps it from."""
    driver = "mpi" if launching.mpiexec() is not None else "torch"
    done = launching.job(driver, 2, PROGRAM, "raising", "one-host", **meeting)
    assert done.returncode != 0
    assert re.search(f"ValueError: no file weights.npz.*{CAUSES['raising']}", done.stderr, re.DOTALL), done.stderr
