"""A rank that fails: the others end, soon and with the cause, and none hangs."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.distributed import launching
from tests.distributed.failing import WAYS

PROGRAM = str(launching.HERE / "failing.py")
HOSTS = ["one-host", "many-hosts"]
CAUSES = {
    "killed": r"PeerError: rank 0: rank 1 has failed, .*call 2, all_reduce of shape \(1000,\), dtype float64.* is gone",
    "raising": r"PeerError: rank 0: rank 1 has failed, .*call 2, .*ValueError: no file weights.npz",
    "leaving": r"PeerError: rank 0: rank 1 has failed, .*its program has ended",
    "stuck": r"DistributedTimeoutError: rank 0: call 2, all_reduce of shape \(1000,\), .* timed out after 3 s",
    "aborting": r"PeerError: rank 0: rank 1 has failed, .*aborted: the loss is NaN",
    "absent": r"DistributedTimeoutError: rank 0: init\(driver='\w+'\).* timed out after 3 s",
}
BY_THE_DRIVER = r"PeerError: rank 0: call 2, all_reduce .* failed: driver 'torch' says"
"""On many hosts a process that is gone is seen by gloo, as a connection that is closed."""


@pytest.fixture(scope="module", params=HOSTS)
def forked(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    launching.need("torch")
    done = launching.run(launching.command("single", 1) + [PROGRAM, request.param])
    assert done.returncode == 0, done.stderr
    return request.param, json.loads(done.stdout)


@pytest.mark.parametrize("way", WAYS)
def test_a_rank_over_gloo_ends_with_the_cause(forked: tuple[str, dict[str, Any]], way: str) -> None:
    hosts, ranks = forked
    expected = CAUSES[way] + (f"|{BY_THE_DRIVER}" if hosts == "many-hosts" and way in ("killed", "leaving") else "")
    assert re.search(expected, ranks[way]["said"]), ranks[way]["said"]
    assert ranks[way]["code"] == 1


@pytest.mark.parametrize(
    ("way", "hosts"),
    [(way, "one-host") for way in WAYS] + [(way, "many-hosts") for way in ("raising", "stuck", "aborting")],
)
def test_a_rank_of_mpi_ends_with_the_cause(way: str, hosts: str) -> None:
    launching.need("mpi")
    launcher, *rest = launching.command("mpi", 2)
    alone = ["-disable-auto-cleanup"] if launching.mpi_kind() == "Hydra" else []  # Open MPI always ends the others
    done = launching.run([launcher, *alone, *rest, PROGRAM, way, hosts])
    said = done.stderr + done.stdout
    expected = CAUSES[way] + (r"|signal 9" if way == "killed" else "")  # the launcher may be first to say so
    assert re.search(expected, said), said
    assert done.returncode != 0


@pytest.mark.parametrize("driver", ["mpi", "torch"])
def test_a_job_ends_as_its_launcher_has_it(driver: str) -> None:
    done = launching.job(driver, 2, PROGRAM, "raising")
    assert done.returncode != 0
    assert "ValueError: no file weights.npz" in done.stderr
    assert re.search(CAUSES["raising"], done.stderr), done.stderr
