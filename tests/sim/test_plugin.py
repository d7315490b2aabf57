"""The pytest fixture, in a run of pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATH = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
TESTS = """
import numpy as np
import xferlib as xl

def sum_of(*, waits):
    copies, work = xl.Stream(), xl.Stream()
    x = xl.to_device(xl.pinned_zeros(1 << 15), stream=copies)
    if waits:
        work.wait(copies)
    with work:
        y = x + 1.0
    copies.wait(work)
    return xl.to_host(y, stream=work)[0]

def test_right(xferlib_sim):
    assert sum_of(waits=True) == 1

def test_wrong(xferlib_sim):
    assert sum_of(waits=False) == 1

def test_right_again(xferlib_sim):
    assert sum_of(waits=True) == 1

def test_found_at_the_end(xferlib_sim):
    x = xl.to_device(xl.pinned_zeros(1 << 15), stream=(s := xl.Stream()))
    t = xl.Stream()
    t.wait(s)
    with t:
        y = x * 2.0
    del x
"""


def run(tmp_path: Path, **environ: str) -> str:
    file = tmp_path / "test_program.py"
    file.write_text(TESTS)
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": PATH, **environ}
    command = [sys.executable, "-m", "pytest", "-p", "xferlib.testing.plugin", "-q", "-rA", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [*command, str(file)], capture_output=True, text=True, env=environment, cwd=tmp_path, check=False
    )
    return done.stdout + done.stderr


def test_a_missing_synchronisation_fails_the_test_that_lacks_it_and_no_other(tmp_path: Path) -> None:
    output = run(tmp_path)
    assert "ERROR test_program.py::test_found_at_the_end" in output
    assert "PASSED test_program.py::test_right\n" in output
    assert "PASSED test_program.py::test_right_again\n" in output
    assert "FAILED test_program.py::test_wrong" in output
    assert "read of what is still being written" in output
    assert "test_program.py:11 in sum_of" in output  # the line of the addition


def test_a_random_schedule_leaves_its_seed_in_the_failure(tmp_path: Path) -> None:
    given = "XFERLIB_SIM_SCHEDULE=random XFERLIB_SIM_SEED=77"  # tests/test_pytest_plugin.py has one that is drawn
    assert given in run(tmp_path, XFERLIB_SIM_SCHEDULE="random", XFERLIB_SIM_SEED="77")


def test_off_means_off(tmp_path: Path) -> None:
    output = run(tmp_path, XFERLIB_SIM="off")
    assert "RaceError" not in output
    assert "ERROR" not in output
