"""Every example runs on every backend that this machine has, and states its result."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import xferlib as xl
from tests.kernels.targets import need_nvrtc
from tests.processes import TORCH, path_with, printed, run
from tests.running import read_example, run_example
from tests.sizes import alternated

FOLDER = Path(__file__).parents[1] / "examples"

# What the last line says, and the arguments that keep a run short.
RESULTS: dict[str, tuple[str, list[str]]] = {
    "batches.py": (r"mean 3\.00, standard deviation 2\.00, from 10 batches", []),
    "cuda_source.py": (r"reverse_sums: \[ 0\.97847867  1\.6574655  -0\.11691695  0\.14469069\]", []),
    "dataloader.py": (r"12 batches of a DataLoader; .* right for 253 of 297 digits", []),
    "data_parallel.py": (r"rank 0 of 1: checksum of the weights be4b93ad", []),
    "digits.py": (r"\w+:\w+(:\d+)?: 9[5-9]\.\d% of 297 held-out digits, loss 2\.2\d -> 0\.03\d+", []),
    "elevation.py": (r"-99 m to 2769 m became 0 to 255, the middle 135\.01", []),
    "either.py": (r"softplus\(x \+ 1\) on .*", []),
    "from_chainer.py": (r"log-likelihood -0\.463934", []),
    "images.py": (r"24 PNGs of 96 x 128: mean 0\.000, standard deviation \[1\.0, 1\.0, 1\.0\]", []),
    "kernel.py": (r"checksum of softplus\(x\) \* x \+ 1 on 100,000 numbers: c3c74472", []),
    "many_workers.py": (r"20000 rows on .*; the elements sum to 650204", []),
    "matmul.py": (r"the two agree to .*", ["256"]),
    "memory.py": (r"trim\(\) gave back \d+ MiB", []),
    "model.py": (r"89,610 parameters and their optimizer on \w+:\w+(:\d+)?; b3 is -0\.1", []),
    "out_of_core.py": (r"19 MiB in 10 chunks; the last column sums to 19921\.9", []),
    "overlapped_gradients.py": (r"rank 0 of 1: 9[3-7]\.\d% of 297 digits; weights differ by 0\.0 between ranks", []),
    "raw_kernel.py": (r"KernelTypeError: add\(\): argument 'ny' is 2\.5 and the parameter int32; round it first", []),
    "split_batch.py": (r"half a batch each on .* and .*: 9[1-9]\.\d% of 297 digits, with the bits of one device", []),
    "split_layers.py": (r"layers on .* and .*: 9[1-9]\.\d% of 297 digits, with the bits of one device", []),
    "two_streams.py": (r"doubled: 2 to 2; 80 MB came back", []),
    "without_cuda.py": (r"BackendNotFoundError: there is no backend 'abacus'.*", []),
}


# Programs that compute for longer than a test should, unless all is to be tested: what stands in them, what takes its
# place, and what the last line says then.
SHORTER: dict[str, tuple[str, str, str]] = {
    "data_parallel.py": ("RATE = 60,", "RATE = 6,", r"rank 0 of 1: checksum of the weights aff306d9"),
    "digits.py": ("train(place)", "train(place, 2)", r"\w+:\w+(:\d+)?: [89]\d\.\d% .*, loss 2\.2\d -> 1\.\d+"),
    "overlapped_gradients.py": ("= 12, 100", "= 2, 100", r"rank 0 of 1: [789]\d\.\d% .*; weights differ by 0\.0 .*"),
    "split_batch.py": ("epochs: int = 5", "epochs: int = 2", r"half a batch each .*, with the bits of one device"),
    "split_layers.py": ("epochs: int = 5", "epochs: int = 2", r"layers on .*, with the bits of one device"),
    "two_streams.py": ("(1000, 10_000)", "(1000, 1000)", r"doubled: 2 to 2; 8 MB came back"),
}


@pytest.mark.parametrize(("name", "backend"), alternated(sorted(RESULTS), sorted(xl.available_backends())))
def test_example(
    name: str, backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, (expected, arguments) = FOLDER / name, RESULTS[name]
    if name == "cuda_source.py":
        need_nvrtc()
    if name in SHORTER and not os.environ.get("XFERLIB_TEST_LONG"):
        long, short, expected = SHORTER[name]
        text = path.read_text()
        assert text.count(long) == 1
        path = tmp_path / name
        path.write_text(text.replace(long, short))
    last = run_example(path, backend, arguments, monkeypatch, capsys)
    assert re.fullmatch(expected, last), last


@pytest.mark.parametrize("name", ["raw_kernel.py", "cuda_source.py"])
def test_cuda_source_is_one_program_with_one_output(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    need_nvrtc()
    usable = [name for name, status in xl.available_backends().items() if status.is_available]
    outputs = {backend: read_example(FOLDER / name, backend, [], monkeypatch, capsys) for backend in usable}
    assert len(outputs) > 1
    assert len(set(outputs.values())) == 1, outputs


def test_every_example_is_run() -> None:
    assert {path.name for path in FOLDER.glob("*.py")} == set(RESULTS)


def test_a_map_may_be_larger_than_the_device() -> None:
    found = printed(str(FOLDER / "elevation.py"), XFERLIB_BACKEND="sim", XFERLIB_SIM_MEMORY="16MiB")
    first, last = found.splitlines()
    assert first == "32 MiB do not fit a device of 16 MiB at once"
    assert re.fullmatch(RESULTS["elevation.py"][0], last)


def test_matrices_are_small_where_no_gpu_multiplies_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    last = run_example(FOLDER / "matmul.py", "sim", [], monkeypatch, capsys)  # 15,360 to a side take a CPU minutes
    assert "the two agree to" in last


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")
def test_the_backend_for_jax_passes_the_conformance_suite(tmp_path: Path) -> None:
    """In a process of its own: one that has used JAX must not fork, as other tests do."""
    package = FOLDER / "jax_backend"
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    installed = tmp_path / f"xferlib_jax-{project['version']}.dist-info"  # what pip would write
    installed.mkdir()
    (installed / "METADATA").write_text(f"Metadata-Version: 2.1\nName: xferlib-jax\nVersion: {project['version']}\n")
    ((group, entries),) = project["entry-points"].items()
    lines = [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (installed / "entry_points.txt").write_text("\n".join(lines))
    paths = [str(FOLDER.parent), str(package), str(tmp_path), os.environ.get("PYTHONPATH", "")]
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, f"--rootdir={package}", str(package)]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "JAX_PLATFORMS": "cpu"}
    environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
    done = subprocess.run(
        [*command, "--import-mode=importlib", "-p", "no:cacheprovider"],
        env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:]
    assert " passed" in done.stdout


def test_the_sample_package_passes_its_tests_on_every_backend() -> None:
    package = FOLDER / "sample_package"
    given: dict[str, Any] = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": path_with(FOLDER.parent, package)}
    arguments = ("-m", "pytest", "-p", "no:cacheprovider", "-rA")
    done = run(*arguments, cwd=package, after=TORCH, **given)
    assert done.returncode == 0, done.stdout[-5000:]
    usable = {name for name, status in xl.available_backends().items() if status.is_available}
    for test in ("centred_signals_have_no_mean", "any_layout_will_do", "power_of_batches"):
        assert set(re.findall(rf"PASSED \S+::test_{test}\[(\w+)\]", done.stdout)) == usable
