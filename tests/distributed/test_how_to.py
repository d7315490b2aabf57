"""The launch lines of the how-to page start what they say, here on one machine."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests import processes
from tests.distributed import launching
from tests.processes import HANG_S
from tests.sizes import IS_LONG

ROOT = launching.HERE.parents[1]
PAGE = ROOT / "docs" / "how-to" / "from-one-gpu-to-a-cluster.md"

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="the documentation is not beside the tests")

FOR_OPEN_MPI = "--oversubscribe"
CHECKSUM = "be4b93ad"
"""Of the weights that the example ends with, whatever starts it; tests/test_examples.py has it for every backend."""


def lines() -> list[list[str]]:
    """The lines of each block that a shell runs; one that ends with a backslash goes on in the next."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return [re.sub(r"\\\n *", "", block).splitlines() for block in blocks]


def is_alone(block: list[str]) -> bool:
    """Whether each line of a block is a job of its own."""
    return "$FIRST" not in block[0] and not block[0].startswith("dask")


_LAUNCHERS = """
import os, runpy, shlex, sys
launchers = []
for line in sys.argv[1:]:
    if not (child := os.fork()):
        sys.argv = shlex.split(os.path.expandvars(line))
        runpy.run_module("torch.distributed.run", run_name="__main__", alter_sys=True)
        sys.exit()
    launchers.append(child)
sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in launchers))
"""
"""Launchers of torch side by side, of one process that has imported it."""


def run_together(commands: list[str], folder: Path) -> list[str]:
    """Run lines at once, as on several hosts; the output of each, or of all torchruns together."""
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    named = {"python": sys.executable, "torchrun": f"{sys.executable} -m torch.distributed.run"}
    named |= {"mpiexec": str(launching.mpiexec()), "dask": f"{sys.executable} -m dask"}
    for name, program in named.items():
        script = bin_folder / name
        script.write_text(f'#!/bin/sh\nexec {program} "$@"\n')
        script.chmod(0o755)
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / "hosts").write_text("localhost\n")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    environ = launching.environ(PATH=f"{bin_folder}:{os.environ['PATH']}", FIRST="127.0.0.1", PORT=port)
    if FOR_OPEN_MPI in commands[0]:  # the line itself says what the variables say
        environ = {name: value for name, value in environ.items() if not name.startswith(("OMPI_", "PRTE_"))}
    if commands[0].startswith("torchrun") and not IS_LONG:
        return [processes.printed("-c", _LAUNCHERS, *commands, cwd=folder, environ=environ, after=processes.TORCH)]
    started = [
        subprocess.Popen(["sh", "-c", f"exec {line}"], cwd=folder, env=environ, stdout=-1, stderr=-1, text=True)
        for line in commands
    ]
    servers = [process for process, line in zip(started, commands, strict=True) if line.startswith("dask")]
    programs = [process for process in started if process not in servers]
    try:
        said = [process.communicate(timeout=HANG_S) for process in programs]
    finally:
        for process in servers:
            process.terminate()
            process.communicate()
    assert [process.returncode for process in programs] == [0] * len(programs), said
    return [output for output, _ in said]


def ranks_in(output: str) -> set[tuple[str, str, str]]:
    return set(re.findall(r"rank (\d) of (\d): checksum of the weights (\w{8})", output))


@pytest.mark.parametrize("line", [line for block in lines() for line in block if is_alone(block)])
def test_a_line_for_one_launcher_starts_its_ranks(line: str, tmp_path: Path) -> None:
    launching.need("mpi" if line.startswith("mpiexec") else "torch" if line.startswith("torchrun") else "single")
    if FOR_OPEN_MPI in line and launching.mpi_kind() != "Open MPI":
        pytest.skip(f"a line for Open MPI, and this mpiexec is {launching.mpi_kind()}'s")
    if "--hostfile" in line and shutil.which("ssh") is None:
        pytest.skip("Open MPI starts the ranks of a host file by ssh, which is not installed")
    if line.startswith("torchrun") and not IS_LONG:
        pytest.skip("the lines for two hosts start the same program by the same launcher")
    size = int(found[1]) if (found := re.search(r"(?:-n |per-node=)(\d)", line)) else 1
    (output,) = run_together([line], tmp_path)
    assert ranks_in(output) == {(str(rank), str(size), CHECKSUM) for rank in range(size)}


def test_the_lines_for_two_hosts_join_their_ranks(tmp_path: Path) -> None:
    launching.need("torch")
    (pair,) = (block for block in lines() if "$FIRST" in block[0])
    found = set.union(*map(ranks_in, run_together(pair, tmp_path)))
    assert found == {("0", "2", CHECKSUM), ("1", "2", CHECKSUM)}


def test_the_lines_for_dask_start_a_cluster(tmp_path: Path) -> None:
    if not launching.has("distributed"):
        pytest.skip("Dask is not installed")
    (block,) = (block for block in lines() if block[0].startswith("dask"))
    (output,) = run_together(block, tmp_path)
    assert re.fullmatch(r"20000 rows on [12] workers; the elements sum to 650204\n", output)  # one may come late


def test_the_page_has_lines() -> None:
    assert sum(map(len, lines())) >= 6
