"""The plug-in for pytest, in runs of pytest of their own."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import xferlib as xl
from tests import processes

ROOT = Path(__file__).parents[1]
PATH = processes.path_with(ROOT)
PLUGIN = "xferlib.testing.plugin"

PRETEND = """
import sys

import xferlib_tiny
from xferlib.backends.base import make_device
from xferlib.errors import DeviceLostError


class PretendBackend(xferlib_tiny.TinyBackend):
    "Two devices that say that they are GPUs, and fail when they are told to."

    name = "pretend"
    array_types = ("xferlib_pretend.PretendArray",)
    is_broken = False

    def __init__(self):
        super().__init__()
        self.all = tuple(make_device("pretend", "cuda", index) for index in range(2))
        self.device = self.all[0]

    def devices(self):
        return self.all

    def device_synchronize(self, device):
        if PretendBackend.is_broken:
            raise DeviceLostError(f"synchronising {device} failed: an earlier kernel broke the context")
"""


@pytest.fixture
def pretend(tmp_path: Path) -> dict[str, Any]:
    """The environment of a run in which a backend `pretend` with two GPUs is installed."""
    installed = tmp_path / "site" / "xferlib_pretend-1.0.dist-info"
    installed.mkdir(parents=True)
    (installed.parent / "xferlib_pretend.py").write_text(PRETEND)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: xferlib-pretend\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[xferlib.backends]\npretend = xferlib_pretend:PretendBackend\n")
    return {"PYTHONPATH": os.pathsep.join([PATH, str(installed.parent), str(ROOT / "tests" / "plugin")])}


PYTEST, AFTER = ("-m", "pytest", "-p", "no:cacheprovider"), (*processes.SIM, "pytest")
WITHOUT_TORCH = "import sys\nsys.modules['torch'] = None\n"  # its import takes longer than all else


def run(
    tmp_path: Path,
    program: str,
    *options: str,
    head: str = WITHOUT_TORCH,
    after: tuple[str, ...] = AFTER,
    **environ: str,
) -> str:
    """The output of a run of pytest over a program."""
    (tmp_path / "test_program.py").write_text(f"{head}import pytest\nimport xferlib as xl\n{program}")
    given: dict[str, Any] = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": PATH, **environ}
    # by itself pytest would look at all that lies beside the folders of this one
    arguments = ["-rA", f"--rootdir={tmp_path}", f"--confcutdir={tmp_path}", "-c", os.devnull, *options]
    done = processes.run(*PYTEST, "-p", PLUGIN, *arguments, "test_program.py", cwd=tmp_path, after=after, **given)
    return done.stdout + done.stderr


EVERYWHERE = """
def test_everywhere(xl_backend, xp):
    assert xl.get_backend() is xl_backend
    x = xl.ones(3)
    assert xl.get_array_module(x) is xp
    assert xl.get_backend(x) is xl_backend
    assert xl.to_host(xp.sum(x)) == 3
"""


def test_tests_run_on_every_backend_that_can_run_here(tmp_path: Path) -> None:
    """The page's among them, which once failed with NumPy alone: NumPy takes no device but its own."""
    page = (ROOT / "docs" / "reference" / "pytest-plugin.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(import numpy.*?|def centre.*?)^```", page, re.MULTILINE | re.DOTALL)
    output = run(tmp_path, "\n".join([EVERYWHERE, *blocks]), head="")
    statuses = xl.available_backends().values()
    usable = {each.name for each in statuses if each.is_available}
    assert {"numpy", "sim"} <= usable
    for test in ("everywhere", "sum", "centre"):
        assert set(re.findall(rf"PASSED test_program.py::test_{test}\[(\w+)\]", output)) == usable
    assert "    3 on sim:sim:0\n" in output
    for each in statuses:
        assert each.is_available or f"not on {each.name}: {each.reason} ({each.install})" in output


def test_the_option_names_the_backends(tmp_path: Path) -> None:
    output = run(tmp_path, EVERYWHERE, "--xferlib-backend=sim,numpy, sim")
    assert re.findall(r"PASSED .*\[(\w+)\]", output) == ["sim", "numpy"]
    assert "not on" not in output


FORGETFUL = """
import numpy as np

def centre(x):
    xp = xl.get_array_module(x)
    return x - xp.full(x.shape, 2.0)  # on the current device

def test_centre(xl_backend, xl_device):
    print("on", xl_device)
    x = xl.to_device(np.arange(4.0), device=xl_device)
    assert xl.to_host(centre(x)).tolist() == [-2, -1, 0, 1]
"""


def test_data_off_the_current_device_show_a_forgotten_device(tmp_path: Path) -> None:
    output = run(tmp_path, FORGETFUL, "--xferlib-backend=numpy,sim")
    assert re.findall(r"(\w+) test_program.py::test_centre\[(\w+)\]", output)[-2:] == [
        ("PASSED", "numpy"), ("FAILED", "sim"),
    ]  # fmt: skip
    assert "on sim:sim:1\n" in output
    assert "MixedDevicesError" in output
    assert "device=y.device" in output
    output = run(tmp_path, FORGETFUL, "--xferlib-backend=sim:0")
    assert "PASSED test_program.py::test_centre[sim]" in output


FAULTY = """
import numpy as np
from xferlib.testing import assert_allclose_ulp, assert_identical

add = xl.elementwise("float32 x", "float32 y", "y = x + 1", name="add")
ahead = xl.elementwise("raw T x", "T y", "y = x[i + 1]", name="ahead")

def test_dtype(xl_backend):
    add(xl.ones(3))

def test_devices(xl_backend, xl_device):
    xl.ones(3, device=xl_device) + xl.ones(3)

def test_index(xl_backend):
    y = ahead(xl.ones(3), size=3)
    xl.to_host(y)

def test_bits(xl_backend):
    assert_identical(xl.ones(3), np.zeros(3))

def test_ulp(xl_backend):
    assert_allclose_ulp(xl.ones(3), np.zeros(3), max_ulp=1)

def test_shape(xl_backend):
    assert_identical(xl.ones(3), np.ones(4))
"""


def test_tracebacks_end_at_the_line_of_the_test(tmp_path: Path) -> None:
    output = run(tmp_path, FAULTY, "--xferlib-backend=sim")
    assert re.findall(r"^(\S+\.py):\d+: \w*Error", output, re.MULTILINE) == ["test_program.py"] * 6
    assert "xferlib/" not in "".join(re.findall(r"^\S+\.py:\d+: in ", output, re.MULTILINE))
    assert re.search(r"ahead was called at \S*test_program\.py:\d+ in test_index", output)
    output = run(tmp_path, FAULTY, "--xferlib-backend=sim", "--full-trace", "-k", "test_devices")
    assert re.search(r"^\S*xferlib/kernels/\w+\.py:\d+: MixedDevicesError", output, re.MULTILINE)


NUMPYISM = """
def test_size(xl_backend, xp):
    assert xp.zeros(3).size == 3

def test_alone(xferlib_sim):
    assert xl.zeros(3).size == 3
"""


def test_a_device_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    output = run(tmp_path, EVERYWHERE, "--xferlib-backend=sim:7")
    assert "ERROR: --xferlib-backend: device='sim:7' does not exist: sim sees sim:sim:0, sim:sim:1" in output


@pytest.mark.parametrize(("value", "refused"), [("auto", 2), ("1", 2), ("0", 0)])
def test_what_is_not_portable_fails_on_the_simulator(tmp_path: Path, value: str, refused: int) -> None:
    output = run(tmp_path, NUMPYISM, "--xferlib-backend=numpy,sim", XFERLIB_SIM_STRICT=value)
    assert len(re.findall("^FAILED .*NotPortableError", output, re.MULTILINE)) == refused
    assert len(re.findall("^PASSED", output, re.MULTILINE)) == 3 - refused


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("simm", "did you mean 'sim'"),
        ("numpy,absent", "the registered ones are cupy, torch"),
        ("pretend2", "pretend"),
    ],
)
def test_a_backend_that_does_not_exist_is_refused(
    option: str, message: str, tmp_path: Path, pretend: dict[str, Any]
) -> None:
    output = run(tmp_path, EVERYWHERE, f"--xferlib-backend={option}", **pretend)
    assert "ERROR: --xferlib-backend: there is no backend" in output
    assert message in output
    assert "passed" not in output


@pytest.mark.skipif(xl.available_backends()["pycuda"].is_available, reason="PyCUDA is installed")
def test_a_backend_that_cannot_run_is_refused(tmp_path: Path) -> None:
    output = run(tmp_path, EVERYWHERE, "--xferlib-backend=pycuda")
    assert "ERROR: --xferlib-backend: pycuda cannot run here" in output
    assert re.search(r"pip install .+\[pycuda\]'", output)


def test_a_test_may_say_itself_on_which_backends_it_runs(tmp_path: Path) -> None:
    program = """
@pytest.mark.parametrize("xl_backend", ["sim"], indirect=True)
def test_there(xl_backend):
    assert xl.get_backend().name == "sim"

def test_by_name(request):
    assert request.getfixturevalue("xl_backend") is xl.get_backend()
"""
    assert re.findall(r"PASSED .*::(\S+)", run(tmp_path, program)) == ["test_there[sim]", "test_by_name"]


MARKED = """
@pytest.mark.gpu
def test_gpu():
    pass

@pytest.mark.gpu
def test_each(xl_backend):
    assert any(device.kind == "cuda" for device in xl_backend.devices())

@pytest.mark.multi_gpu
def test_two():
    pass

@pytest.mark.multi_gpu(n=3)
def test_three(xl_backend):
    pass

@pytest.mark.multi_gpu(3)
def test_three_too():
    pass

def test_namespace(xp):
    pass
"""


def test_tests_for_gpus_run_where_there_are_enough(tmp_path: Path, pretend: dict[str, Any]) -> None:
    output = run(tmp_path, MARKED, "--strict-markers", "--xferlib-backend=pretend,numpy", **pretend)
    passed = re.findall(r"PASSED .*::(\S+)", output)
    assert {"test_gpu", "test_each[pretend]", "test_two", "test_namespace[numpy]"} <= set(passed)
    assert "test_each[numpy]" not in output
    assert re.search(r"    1 skipped: backend 'pretend': .*TinyArray cannot compute", output)
    assert "    1 skipped: needs 3 GPUs, and pretend has 2" in output  # of the two in the option
    assert "skipped: needs 3 GPUs, and " in output


@pytest.mark.skipif(
    any(":cuda:" in device for each in xl.available_backends().values() for device in each.devices),
    reason="there is a GPU",
)
def test_without_a_gpu_they_are_skipped_for_one_reason(tmp_path: Path) -> None:
    output = run(tmp_path, MARKED)
    assert "FAILED" not in output
    assert re.search(r"    2 skipped: needs a GPU, and ", output)
    assert re.search(r"    2 skipped: needs 3 GPUs, and ", output)


def test_a_marker_that_the_project_declares_is_its_own(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  multi_gpu(n): theirs\n")
    output = run(tmp_path, MARKED, "-c", "pytest.ini", "--strict-markers", "-k", "three")
    assert "PASSED test_program.py::test_three_too" in output
    assert "PASSED test_program.py::test_three[" not in output


RACE = """
def race():
    copies, work = xl.Stream(), xl.Stream()
    x = xl.to_device(xl.pinned_zeros(1 << 15), stream=copies)
    with work:
        x = x + 1.0

def test_fixture(xl_backend):
    race()

def test_plain():
    with xl.use_backend("sim"):
        race()

def read_early():
    out = xl.pinned_zeros(100)
    transfer = xl.to_host_async(xl.ones(100), out=out)
    early = out.max()
    transfer.result()

def test_host_read():
    with xl.use_backend("sim"):
        read_early()

def test_host_read_with_fixture(xl_backend):
    read_early()

def test_kernels_are_checked(xl_backend):
    from xferlib._runtime import process
    assert process.get().kernel_check == ("auto" if xl_backend.name == "sim" else "1")

def test_and_only_there():
    from xferlib._runtime import process
    assert process.get().kernel_check == "auto"
"""


@pytest.fixture(scope="module")
def races(tmp_path_factory: pytest.TempPathFactory) -> str:
    return run(tmp_path_factory.mktemp("races"), RACE, "--xferlib-backend=numpy,sim")


def test_races_fail_the_test_on_sim_and_no_other(races: str) -> None:
    assert "PASSED test_program.py::test_fixture[numpy]" in races
    assert "FAILED test_program.py::test_fixture[sim]" in races
    assert "RaceError: read of what is still being written, at " in races
    assert "work.wait(copies) before " in races
    assert "PASSED test_program.py::test_host_read_with_fixture[numpy]" in races
    assert "FAILED test_program.py::test_host_read_with_fixture[sim]" in races
    assert "host read before synchronisation" in races


def test_cuda_source_is_checked_on_each_cpu(races: str) -> None:
    """An index beyond an array would spoil memory of the process otherwise, and end it in another test."""
    assert races.count("PASSED test_program.py::test_kernels_are_checked") == 2
    assert "PASSED test_program.py::test_and_only_there" in races


def test_a_report_shows_the_lines_of_the_program_and_none_of_the_librarys(races: str) -> None:
    report = races.partition("test_fixture[sim] ___")[2].partition("test_plain ___")[0]
    assert re.search(r"^> +x = x \+ 1\.0$", report, re.MULTILINE)
    assert not re.search(r"^\S*xferlib/\S+\.py:\d+", report, re.MULTILINE)


USED_ELSEWHERE = """
    x = xl.to_device(xl.pinned_zeros(1 << 15), stream=(s := xl.Stream()))
    t = xl.Stream()
    t.wait(s)
    with t:
        y = x * 2.0
"""
AT_THE_END = f"""
def test_at_the_end(xl_backend):{USED_ELSEWHERE}    del x

def test_returns(xl_backend):{USED_ELSEWHERE}
"""


def test_a_fault_found_behind_the_test_is_a_report_without_a_traceback(tmp_path: Path) -> None:
    output = run(tmp_path, AT_THE_END, "--xferlib-backend=sim", XFERLIB_SIM_SCHEDULE="random")
    _, first, second = output.partition("backends of xferlib")[0].split("ERROR at teardown")
    for report in (first, second):
        assert report.splitlines()[1].startswith("RaceError: use after free, at ")
        assert "XFERLIB_SIM_SCHEDULE=random XFERLIB_SIM_SEED=" in report
    assert re.search(r"^RaceError: use after free, at \S*test_program\.py:\d+ in test_returns$", second, re.MULTILINE)
    assert "as the program's function returned" in second
    assert "_pytest" not in output


@pytest.mark.skipif(sys.platform != "linux" or sys.maxsize < 1 << 32, reason="the page guard needs 64-bit Linux")
def test_strict_checks_see_what_the_host_reads_early(tmp_path: Path, races: str) -> None:
    strict = run(tmp_path, RACE, "-k", "not fixture", "--xferlib-sim-strict", "--full-trace")
    assert "PASSED test_program.py::test_host_read" in races
    assert "FAILED test_program.py::test_host_read" in strict or "ERROR test_program.py::test_host_read" in strict
    assert "host read before synchronisation" in strict
    assert "FAILED test_program.py::test_plain" in strict
    assert re.search(r"^\S*xferlib/sim/detector\.py:\d+", strict, re.MULTILINE)


IN_SUITES = """
import numpy as np

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

def test_found_at_the_end(xferlib_sim):"""
IN_SUITES += f"{USED_ELSEWHERE}    del x\n"


def test_a_missing_synchronisation_fails_the_test_that_lacks_it_and_no_other(tmp_path: Path) -> None:
    seed: dict[str, Any] = {"XFERLIB_SIM_SCHEDULE": "random", "XFERLIB_SIM_SEED": "77"}
    output = run(tmp_path, IN_SUITES, **seed)
    assert "PASSED test_program.py::test_right\n" in output
    assert "PASSED test_program.py::test_right_again\n" in output
    assert "FAILED test_program.py::test_wrong" in output
    assert "read of what is still being written" in output
    line = (tmp_path / "test_program.py").read_text().splitlines().index("        y = x + 1.0") + 1
    assert f"test_program.py:{line} in sum_of" in output
    assert "ERROR test_program.py::test_found_at_the_end" in output
    assert " ".join(f"{name}={value}" for name, value in seed.items()) in output


def test_off_means_off(tmp_path: Path) -> None:
    output = run(tmp_path, IN_SUITES, XFERLIB_SIM="off")
    assert "RaceError" not in output
    assert "ERROR" not in output


BREAKS = """
import sys

xl.use_backend("pretend")

def test_fine(xl_backend):
    pass

def test_breaks(xl_backend):
    sys.modules["xferlib_pretend"].PretendBackend.is_broken = True

def test_after(xl_backend):
    pass

@pytest.mark.gpu
def test_marked():
    pass

def test_without():
    pass
"""


def test_an_asynchronous_error_fails_the_test_that_caused_it(tmp_path: Path, pretend: dict[str, Any]) -> None:
    options = ("--xferlib-backend=pretend", "--xferlib-cuda-sync")
    output = run(tmp_path, BREAKS, *options, **pretend)
    assert "PASSED test_program.py::test_fine[pretend]" in output
    assert "FAILED test_program.py::test_breaks[pretend] - xferlib.errors.DeviceLostError" in output
    assert "found by --xferlib-cuda-sync after test_program.py::test_breaks[pretend]" in output
    assert "PASSED test_program.py::test_without" in output
    reason = r"    2 skipped: CUDA can no longer be used in this process, since test_program.py::test_breaks\[pretend\]"
    assert re.search(reason, output)
    fails = BREAKS.replace("is_broken = True", "is_broken = True\n    assert 1 == 2")
    failing = run(tmp_path, fails, *options, **pretend)
    assert "FAILED test_program.py::test_breaks[pretend] - assert 1 == 2" in failing
    assert "after it, synchronising pretend:cuda:0 failed" in failing


def test_workers_of_xdist_report_to_one_summary(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    output = run(tmp_path, EVERYWHERE, "-p", "xdist", "-n", "2")
    assert "    1 on sim:sim:0\n" in output
    assert "not on torch: import of torch halted" in output


def test_a_run_that_does_not_use_it_pays_for_no_library(tmp_path: Path) -> None:
    """Some 3 ms, `xferlib` itself among them: `python -X importtime -c "import pytest, xferlib.testing.plugin"`."""
    script = f"import sys, pytest; before = set(sys.modules); import {PLUGIN}; print(*set(sys.modules) - before)"
    found = processes.printed("-c", script, after=()).split()
    assert {name for name in found if not name.startswith("xferlib")} == set()
    assert len(found) <= 10, found
    program = """
import sys

@pytest.mark.other
def test_loads_nothing():
    assert not [name for name in sys.modules if name.startswith("xferlib.sim")]
    assert "xferlib.testing.plugin_checks" not in sys.modules
"""
    assert "1 passed" in run(tmp_path, program, after=())


def test_other_projects_do_not_load_it() -> None:
    """An entry point would make pytest look at each file of xferlib: 20 ms and more in every run, on Python 3.12."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "pytest11" not in project.get("entry-points", {})


def test_a_conftest_loads_it(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(f'pytest_plugins = ["{PLUGIN}"]\n')
    (tmp_path / "test_program.py").write_text(f"{WITHOUT_TORCH}import xferlib as xl\n{EVERYWHERE}")
    given: dict[str, Any] = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": PATH}
    arguments = ["-W", "error", "-c", os.devnull, "--rootdir", str(tmp_path), "--xferlib-backend=numpy,sim"]
    done = processes.run(*PYTEST, *arguments, "test_program.py", cwd=tmp_path, after=AFTER, **given)
    assert "2 passed" in done.stdout, done.stdout + done.stderr
