"""The scripts that make environments and count results."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.kernels import emulated
from tools import compiler_faults
from xferlib.testing import configured

TOOLS = Path(__file__).parents[1] / "tools"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("planned", "refused"),
    [
        (["torch", "sympy"], ""),
        (["torch", "nvidia-cublas"], "gigabytes"),
        (["torch", "cuda-bindings"], "gigabytes"),
        (None, "finds no torch"),
    ],
)
def test_a_torch_that_brings_cuda_is_never_installed(
    planned: list[str] | None, refused: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = load("install_cpu_torch")
    calls: list[tuple[str, ...]] = []

    def pip(*arguments: str) -> Any:
        calls.append(arguments)
        if "--report" in arguments:
            if planned is None:
                return subprocess.CompletedProcess(arguments, 1, stderr="ERROR: no matching distribution")
            report = {"install": [{"metadata": {"name": name}} for name in planned]}
            Path(arguments[arguments.index("--report") + 1]).write_text(json.dumps(report))
        return subprocess.CompletedProcess(arguments, 0, stderr="")

    monkeypatch.setattr(script, "pip", pip)
    monkeypatch.setattr(script.importlib.util, "find_spec", lambda name: None)
    assert script.main() == 0
    assert refused in capsys.readouterr().out
    assert any("--dry-run" not in call for call in calls) == (not refused)


OUTCOMES = """
import pytest

class Test_cupy_cuda:
    def test_bits(self): pass

@pytest.mark.parametrize("name", ["digits.py-torch", "digits.py-pycuda"])
def test_example(name):
    if "pycuda" in name: pytest.skip("absent")
    raise ValueError(name)

def test_help(): pass
"""


@pytest.mark.parametrize("workers", ["0", "1"])
def test_outcomes_are_counted_for_the_backends_that_a_test_names(workers: str, tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(OUTCOMES)
    environ = {
        **os.environ,
        "OUT": str(tmp_path),
        "COUNTS": str(tmp_path / "counts.json"),
        "PYTHONPATH": str(TOOLS.parent),
    }
    environ = {name: value for name, value in environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-n", workers, "-c", os.devnull, "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [*command, "-p", "tools.gpu_report", "-p", "no:cacheprovider", str(tmp_path)],
        env=environ, capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    found = json.loads((tmp_path / "counts.json").read_text())
    counts = {name: each for name, each in found["counts"].items() if each}
    assert counts == {
        "cupy": {"passed": 1}, "torch": {"failed": 1}, "pycuda": {"skipped": 1}, "shared": {"passed": 1},
    }, done.stdout  # fmt: skip
    assert found["skipped"] == {"Skipped: absent": 1}
    assert "ValueError: digits.py-torch" in (tmp_path / "failures.txt").read_text()


def test_a_python_that_is_too_old_is_refused_with_the_remedy(tmp_path: Path) -> None:
    old = tmp_path / "python"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    found = subprocess.run(
        ["sh", str(TOOLS / "make_venv.sh"), str(tmp_path / "venv")],
        env={"PYTHON": str(old), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 1
    assert "needs Python 3.11 or newer" in found.stderr
    assert not (tmp_path / "venv").exists()


@pytest.mark.parametrize("shape", [(), (3,), (2, 2)])
def test_numbers_of_random_layouts_differ_by_their_bits_and_not_by_those_of_nans(shape: tuple[int, ...]) -> None:
    differ = load("strided_cases").differ
    nan, other = (np.full(shape, bits, "uint32").view("float32") for bits in (0x7FC00000, 0x7FC00001))
    assert not differ(nan + 0j, (other + 0j).astype("complex64"))
    assert not differ(nan, other)
    assert differ(nan, np.zeros(shape, "float32"))
    assert differ(np.zeros(shape, "float32"), np.full(shape, -0.0, "float32"))


def test_a_tree_compared_with_itself_is_measured_and_summed_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    times = tmp_path / "times.json"
    here = TOOLS.parent
    asked = ["--backends", "numpy", "--rounds", "1", "--processes", "1", "--match"]
    assert load("compare_trees").main([str(here), *asked, "transfer, small 1[78]:", "--json", str(times)]) == 0
    found = json.loads(times.read_text())
    assert [case["case"].partition(":")[0] for case in found["cases"]] == [
        "numpy transfer, small 17", "numpy transfer, small 18",
    ]  # fmt: skip
    assert all(case["ratio"] > 0 for case in found["cases"])
    assert "| numpy transfer, small | 2 |" in capsys.readouterr().out


def test_a_case_that_one_tree_refuses_is_told_and_not_compared() -> None:
    script = load("compare_trees")
    slower = {"case": "torch up 4 B", "us": 2.0, "other_us": 1.0, "ratio": 0.5, "ratios": [0.4, 0.5, 0.9]}
    perhaps = {"case": "torch up 8 B", "us": 2.0, "other_us": 1.0, "ratio": 0.4, "ratios": [0.4, 0.4, 1.1]}
    told = script.report([perhaps, slower, {"case": "torch tree", "problem": "AttributeError: none"}])
    assert "2 of 2 cases are more than 3 % slower, 1 of them in every pair of processes:" in told
    assert told.index("- torch up 4 B: 1.0 us -> 2.0 us\n") < told.index("- torch up 8 B: 1.0 us -> 2.0 us, in 2 of 3")
    assert "- not compared: torch tree: AttributeError: none" in told


# Runs until it is told that a line about it was printed.
PATIENT = """
import pathlib, sys, time
print("Collecting numpy", flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.01)
print("ERROR: no room", flush=True)
sys.exit(3)
"""


def test_an_installation_is_never_silent_and_its_output_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = load("install_packages")
    told = tmp_path / "told"
    lines: list[str] = []

    def listen(line: str, **_: Any) -> None:
        lines.append(line)
        if "Collecting numpy" in line:
            told.touch()

    monkeypatch.setattr(script, "print", listen, raising=False)
    status, output = script.run([sys.executable, "-c", PATIENT, str(told)], every_s=0.01)
    assert status == 3
    assert output == "Collecting numpy\nERROR: no room\n"
    assert all(" s: starting" in line or " s: Collecting numpy" in line for line in lines)


def test_the_output_of_an_installation_may_be_no_text() -> None:
    script = load("install_packages")
    assert script.run([sys.executable, "-c", r"import os; os.write(1, b'gcc: \xff\n')"]) == (0, "gcc: \\xff\n")


def test_a_failed_installation_tells_what_pip_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = load("install_packages")
    monkeypatch.setattr(sys, "argv", ["install_packages.py", "--no-index", "xferlib-does-not-exist"])
    assert script.main() == 1
    assert "xferlib-does-not-exist" in capsys.readouterr().err


SETTINGS = """\
:env:.config-file='pip.conf'
:env:.find-links='/b /c'
:env:.timeout='9'
global.find-links='/a'
global.index-url='https://host/simple'
install.constraint='limits.txt'
wheel.no-binary='all'
"""


def test_uv_is_told_what_pip_is_configured_to_do() -> None:
    script = load("install_packages")
    options = ["--constraints", "limits.txt", "--find-links", "/b", "--find-links", "/c"]
    assert script.convert_settings(SETTINGS) == [*options, "--index-url", "https://host/simple"]
    assert script.convert_settings("") == []
    assert script.convert_settings(SETTINGS + "global.only-binary=':all:'\n") is None


def test_uv_is_not_used_where_packages_of_another_interpreter_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would install those anew, and CuPy would meet another NumPy than its own."""
    script = load("install_packages")
    uv = tmp_path / "bin" / "uv"
    uv.parent.mkdir()
    uv.write_text("#!/bin/sh\n")
    uv.chmod(0o755)
    monkeypatch.setattr(script, "UV_FOLDER", tmp_path)
    monkeypatch.setattr(script, "_PIP", (sys.executable, "-c", "print('')"))
    monkeypatch.setattr(script.sysconfig, "get_path", lambda name: str(tmp_path))
    assert script.find_uv_command()[:3] == [str(uv), "pip", "install"]
    (tmp_path / "installed-backends.pth").touch()
    assert script.find_uv_command() == []
    assert "installed-backends.pth" in (TOOLS / "make_venv.sh").read_text()


UV = """\
import json, sys
if "absent" in sys.argv:
    sys.exit("no solution found")
print(json.dumps({"changes": [{"name": "torch", "action": "installed"}, {"name": "numpy", "action": "removed"}]}))
"""


def test_pip_installs_what_uv_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = load("install_packages")
    (tmp_path / "uv.py").write_text(UV)
    monkeypatch.setattr(script, "find_uv_command", lambda: [sys.executable, str(tmp_path / "uv.py")])
    monkeypatch.setattr(script, "_PIP", (sys.executable, "-c", "print('by pip')"))
    report = tmp_path / "report.json"
    assert script.install("absent") == (0, "by pip\n")
    assert script.install("--dry-run", "--report", str(report), "absent") == (0, "by pip\n")
    assert not report.exists()
    assert script.install("--dry-run", "--report", str(report), "torch")[0] == 0
    assert json.loads(report.read_text()) == {"install": [{"metadata": {"name": "torch"}}]}


def test_the_packages_of_an_extra_are_installed_without_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    script = load("install_packages")
    packages: list[str] = []

    def install(*arguments: str) -> tuple[int, str]:
        packages.extend(arguments)
        return 0, ""

    monkeypatch.setattr(script, "install", install)
    monkeypatch.setattr(sys, "argv", ["install_packages.py", "--packages-of", "native"])
    assert script.main() == 0
    assert {"numpy", "ziglang"} <= {each.partition(">")[0] for each in packages}
    assert not [each for each in packages if each.startswith(("xferlib", "-", "."))]


@pytest.mark.parametrize("name", ["h200/transfer", "h200/kernels", "h200/sweep"])
def test_pictures_of_benchmarks_have_no_background_and_are_read_on_light_and_dark(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.pictures.DPI", 65)  # a quarter of the pixels
    image = pytest.importorskip("matplotlib.image")
    figures = pytest.importorskip("tools.benchmark_figures")
    drawn = tmp_path / "drawn.png"
    figures.DRAWN[name](json.loads((figures.FOLDER / f"{name}.json").read_text()), drawn)
    for path in (drawn, figures.FOLDER / f"{name}.png"):
        pixels = image.imread(path)
        assert pixels[:4, :4, 3].max() == 0
        rims = pixels[pixels[:, :, 3] > 0.99]  # full ink: text, lines and bars
        assert 0.1 < np.median(rims[:, :3] ** 2.2 @ [0.2126, 0.7152, 0.0722]) < 0.5


@pytest.mark.parametrize(
    ("status", "summary", "result"), [(0, "1 passed", 0), (1, "1 failed, 2 passed", 1), (0, "3 skipped", 1)]
)
def test_tests_that_fail_or_are_skipped_under_a_sanitizer_count_though_nothing_is_reported(
    status: int, summary: str, result: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = load("check_native")

    def copy(_: Path, tree: Path, **__: Any) -> None:
        (tree / "xferlib" / "_native").mkdir(parents=True)
        (tree / "xferlib" / "_native" / "emulator.so").touch()

    def run(*command: str, **_: Any) -> Any:
        is_tests = "pytest" in command
        return subprocess.CompletedProcess(command, status if is_tests else 0, summary if is_tests else "True", "")

    monkeypatch.setattr(script, "find_runtimes", lambda *_: "libasan.so")
    monkeypatch.setattr(script.shutil, "copytree", copy)
    monkeypatch.setattr(script, "run", run)
    assert script.watch_tests("cc", ["tests"]) == result


@pytest.mark.parametrize(
    "options", ["--slices 0", "--seed -1", "--nvcc ./none", f"--nvcc {TOOLS}", f"--nvcc {sys.executable}"]
)
def test_a_search_for_compiler_faults_that_compares_nothing_fails(
    options: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["compiler_faults", *options.split()])
    with pytest.raises(SystemExit) as error:
        compiler_faults.main()
    assert error.value.code == 2
    assert options.split()[1] in capsys.readouterr().err


@pytest.mark.parametrize("is_wrong", [False, True])
def test_a_fault_of_a_compiler_is_shown_with_its_operands(
    is_wrong: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(calls: list[tuple[Any, ...]], compile_sources: Any) -> None:
        for kernel, *operands, out in calls:
            with configured(cpu="numpy"), np.errstate(all="ignore"):
                out[...] = kernel(*operands)
        if is_wrong:
            bits = calls[0][-1].view(np.uint8)
            bits[:2] ^= 1

    monkeypatch.setattr(emulated, "all_as_cuda", run)
    monkeypatch.setattr(sys, "argv", ["compiler_faults", "--nvcc", sys.executable, "--seed", "5", "--slices", "1"])
    assert compiler_faults.main() == is_wrong
    found = capsys.readouterr().out.splitlines()
    assert (" differ, at (" in found[0]) == is_wrong
    assert found[-1].startswith("up to seed 44: ")
    assert found[-1].endswith(f"{int(is_wrong)} differ")
