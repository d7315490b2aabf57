"""``xferlib doctor``: what makes programs fail or slow on this machine, from facts by tables of rules.

A check collects facts about one thing, and its table of `Rule` says what each state of it means. A number that the
machine does not tell is NaN, for which no comparison holds, so that the rules about it are silent. What may crash or
hang runs in a process of its own: the CUDA driver, and each library (`doctor_trial`).
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from xferlib import __version__, _native
from xferlib._cli.main import Command, CommandArgument, argument, terminal_columns, wrap
from xferlib._core import registry
from xferlib._native import cuda_driver
from xferlib._runtime import process
from xferlib._runtime.version import install_command
from xferlib.errors import ConfigError, XferError, did_you_mean
from xferlib.kernels import code_cache, native_engine
from xferlib.kernels.cuda_cpu import toolchain

PROBLEM = "problem"
"""A program fails or computes something wrong."""
SLOW = "slow"
"""Programs run, more slowly than they could."""
NOTE = "note"
"""Nothing hurts now; it explains a surprise."""
FINE = "fine"
SEVERITIES = (PROBLEM, SLOW, NOTE, FINE)
"""The worst first."""


class Finding(NamedTuple):
    """A fact, its consequence and the remedy; the last two are empty where all is fine."""

    check: str
    """Its name; the command fills in that of the check which found it, where it is empty."""
    severity: str
    fact: str
    consequence: str = ""
    remedy: str = ""


class Rule(NamedTuple):
    """A finding for the facts of which a condition holds; its texts name facts in braces."""

    severity: str
    holds: Callable[[Any], object]
    fact: str
    consequence: str = ""
    remedy: str = ""
    check: str = ""


def judge(rules: Iterable[Rule], **facts: Any) -> list[Finding]:
    """The findings of all rules whose condition holds."""
    known = SimpleNamespace(**facts)
    return [
        Finding(rule.check, rule.severity, *(text.format_map(facts) for text in rule[2:5]))
        for rule in rules
        if rule.holds(known)
    ]


def find(severity: str, fact: str, consequence: str = "", remedy: str = "", check: str = "") -> Finding:
    """A finding without a rule."""
    return Finding(check, severity, fact, consequence, remedy)


def are_fine(found: list[Finding], *bad: str) -> bool:
    """Whether no finding has one of these severities."""
    return not any(each.severity in bad for each in found)


def capitalize(remedy: str) -> str:
    """A remedy as the sentence that a finding has it as; a command stays as it is typed."""
    return remedy if remedy.startswith("pip ") else f"{remedy[:1].upper()}{remedy[1:]}"


# Questions answered in a process of their own: a library that crashes or hangs there ends that process alone.

_ROOT = str(Path(__file__).resolve().parents[2])
_LIMIT_S = 120
_MARK = "xferlib-doctor:"
"""The beginning of the line with the answer, given to the program: libraries write lines of their own."""
_TRIAL = ("-W", "ignore", "-m", "xferlib._cli.doctor_trial")
_DRIVER = ("-I", "-S", cuda_driver.__file__)
"""A file that imports nothing of xferlib: a new process in 20 ms."""


def ask(*arguments: str, program: Sequence[str] = _TRIAL, environ: Mapping[str, str]) -> dict[str, Any]:
    """Ask a program in a new process; ``problem`` in the answer says why there is none.

    Args:
        *arguments: The question, and what it is about.
        program: The arguments of Python that run it.
        environ: The environment of the new process.
    """
    paths = os.pathsep.join(each for each in (_ROOT, environ.get("PYTHONPATH", "")) if each)
    try:
        done = subprocess.run(  # noqa: S603 - this Python, with a module of ours
            [sys.executable, *program, _MARK, *arguments],
            capture_output=True, text=True, errors="replace", timeout=_LIMIT_S, check=False, stdin=subprocess.DEVNULL,
            env={**environ, "PYTHONPATH": paths},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"problem": f"no answer within {_LIMIT_S} s"}
    except OSError as error:
        return {"problem": f"no process could be started: {error}"}
    for line in reversed(done.stdout.splitlines()):
        if line.startswith(_MARK):
            found: dict[str, Any] = json.loads(line.removeprefix(_MARK))
            return found
    if done.returncode < 0:
        known = {each.value: each.name for each in signal.Signals}
        return {"problem": f"the process was ended by {known.get(-done.returncode, f'signal {-done.returncode}')}"}
    last = (done.stderr.strip().splitlines() or ["nothing was said"])[-1]
    return {"problem": f"the process ended with status {done.returncode}: {last}"}


# The machine as the checks see it: files of the kernel, the environment, `nvidia-smi`, child processes. Everything
# answers None, NaN or nothing where the machine does not tell, and raises nothing.

_SMI_S = 30
_NOT_A_FIELD = re.compile(r'Field "([\w.]+)" is not a valid field')
_FIELDS = (
    "index", "name", "pci.bus_id", "pstate", "persistence_mode", "compute_mode", "mig.mode.current",
    "memory.free", "memory.total", "clocks.current.sm", "clocks.max.sm", "clocks.current.memory", "clocks.max.memory",
    "clocks_event_reasons.active", "clocks_throttle_reasons.active", "temperature.gpu",
    "pcie.link.gen.current", "pcie.link.gen.max", "pcie.link.gen.gpumax", "pcie.link.width.current",
    "pcie.link.width.max", "ecc.errors.uncorrected.volatile.total",
)  # fmt: skip
_APP_FIELDS = ("gpu_bus_id", "pid", "used_memory")


class InspectedMachine:
    """The answers of a machine to the checks.

    Args:
        root: The directory that holds ``proc`` and ``sys``.
        environ: The environment variables.
    """

    def __init__(self, root: Path, environ: Mapping[str, str]) -> None:
        self._root = root
        self.environ = environ

    def read(self, path: str | Path) -> str | None:
        """The text of a file below the root, stripped; None where it cannot be read."""
        try:
            return (self._root / path).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return None

    def paths(self, pattern: str) -> list[Path]:
        """The files below the root that match, sorted."""
        try:
            return sorted(self._root.glob(pattern))
        except OSError:
            return []

    @cached_property
    def gpus(self) -> list[Path]:
        """The folders of the NVIDIA GPUs on the PCI bus, named by their addresses; empty too where it is hidden."""
        return [
            vendor.parent
            for vendor in self.paths("sys/bus/pci/devices/*/vendor")
            if self.read(vendor) == "0x10de" and (self.read(vendor.with_name("class")) or "").startswith("0x03")
        ]

    @cached_property
    def has_nvidia_gpu(self) -> bool:
        """Whether the kernel shows one, whatever CUDA says."""
        return bool(self.gpus or self.paths("proc/driver/nvidia/version") or self.paths("dev/nvidiactl"))

    @cached_property
    def smi(self) -> list[dict[str, str]]:
        """The answers of `nvidia-smi` by field, for each GPU; fields that it does not know are left out."""
        return _ask_smi("gpu", _FIELDS)

    @cached_property
    def compute_apps(self) -> list[dict[str, str]]:
        """The processes with CUDA contexts, by what `nvidia-smi` says of each; empty where it hides them."""
        return [each for each in _ask_smi("compute-apps", _APP_FIELDS) if "pid" in each]

    @cached_property
    def driver(self) -> dict[str, Any]:
        """The answers of the CUDA driver, asked in a process of its own; ``problem`` where there are none."""
        return ask(cuda_driver.LIBRARY, program=_DRIVER, environ=self.environ)

    @cached_property
    def cuda_count(self) -> int:
        """The number of CUDA devices that programs see."""
        return len(self.driver.get("devices", []))


def _ask_smi(kind: str, wanted: tuple[str, ...]) -> list[dict[str, str]]:
    """The rows that `nvidia-smi` answers, by field; those that have no answer are left out."""
    names = list(wanted)
    while True:
        command = ["nvidia-smi", f"--query-{kind}={','.join(names)}", "--format=csv,noheader,nounits"]
        try:
            done = subprocess.run(  # noqa: S603 - the driver's own program
                command, capture_output=True, text=True, timeout=_SMI_S, check=False
            )
        except (OSError, subprocess.SubprocessError, UnicodeError):
            return []
        unknown = _NOT_A_FIELD.search(done.stdout + done.stderr)
        if unknown is None or unknown[1] not in names:
            break
        names.remove(unknown[1])
    rows = csv.reader(done.stdout.splitlines() if not done.returncode else [], skipinitialspace=True)
    return [
        {name: text.strip() for name, text in zip(names, row, strict=True) if "N/A" not in text}
        for row in rows
        if len(row) == len(names)
    ]


def number(text: str | None) -> float:
    """A number that a file or `nvidia-smi` gives, whatever unit follows; NaN for anything else."""
    match = re.match(r"\d+(?:\.\d+)?", (text or "").strip())
    return float(match[0]) if match is not None else math.nan


def parse_list(text: str | None) -> set[int]:
    """The numbers of ``0-3,8``, as the kernel writes lists of cores."""
    found: set[int] = set()
    for part in (text or "").split(","):
        first, _, last = part.partition("-")
        if first.strip().isdecimal():
            found |= set(range(int(first), int(last or first) + 1))
    return found


def usable_cores() -> set[int]:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


# The directory of compiled kernels: whether it can be trusted, written to and filled. Of these rules the first counts.

_ANEW = "Kernels are compiled anew in every process."
_CACHE = (
    Rule(SLOW, lambda f: f.problem, "{problem}", _ANEW, "{remedy}."),
    Rule(SLOW, lambda f: not f.is_writable,
         "{directory} cannot be written: {folder} is not a directory that this user may write to", _ANEW,
         "Set XFERLIB_CACHE_DIR to a directory of your own."),
    Rule(SLOW, lambda f: f.free < 64, "the disk of {directory} has {free} MiB free", _ANEW,
         "Free some, or set XFERLIB_CACHE_DIR to a directory elsewhere."),
    Rule(FINE, lambda f: True, "{directory}: {files} kernel(s), {mb:.1f} MB"),
)  # fmt: skip


def check_caches(_machine: InspectedMachine) -> Iterator[Finding]:
    """The directory; nothing is written."""
    try:
        found = code_cache.info()
    except ConfigError:  # the variables' check has said so
        return
    folder = found.directory
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    fact, _, remedy = found.problem.partition("; ")
    yield judge(
        _CACHE, problem=fact, remedy=capitalize(remedy or "set XFERLIB_CACHE_DIR to a directory of your own"),
        is_writable=folder.is_dir() and os.access(folder, os.W_OK | os.X_OK), directory=found.directory, folder=folder,
        free=shutil.disk_usage(folder).free >> 20, files=found.files, mb=found.nbytes / 1e6,
    )[0]  # fmt: skip


# The parts in C: compiled or not, and why not.

_CALLS = "Small copies and kernel calls go through ctypes, and get_array_module through Python."
_COMPILED = (
    Rule(FINE, lambda f: not f.staging and not f.calls, "staging and driver calls are compiled"),
    Rule(SLOW, lambda f: f.staging, "staging in C: {staging}",
         "Each large transfer is staged by one Python thread, which holds the GIL in between.", "{remedy}"),
    Rule(SLOW, lambda f: f.calls and f.has_cuda, "driver calls in C: {calls}", _CALLS, "{remedy}"),
    Rule(NOTE, lambda f: f.calls and not f.has_cuda, "driver calls in C: {calls}", _CALLS, "{remedy}"),
)  # fmt: skip


def check_native(machine: InspectedMachine) -> list[Finding]:
    """Two parts, each found for itself."""
    remedy = "Install a C compiler (gcc or clang) and the CPython headers, then run: python -m xferlib._native.build"
    if sys.platform == "win32":
        remedy = "None is tried on Windows yet: they compile for it, and have not run with Python there."
    calls = _native.why_calls_absent()
    has_cuda = bool(calls and machine.cuda_count)
    return judge(_COMPILED, staging=_native.why_absent(), calls=calls, has_cuda=has_cuda, remedy=remedy)


# CUDA source on a CPU: NVRTC, a C compiler and the runtime; where one is missing, raw kernels need `cpu=`.

_NOT_RUN = "raw_module on numpy, torch's CPU and sim runs no CUDA source: get_function needs cpu=."
_ON_CPU = (
    Rule(NOTE, lambda f: f.remedy and not f.is_slow, "CUDA source on a CPU: {name}: {text}", _NOT_RUN, "{remedy}."),
    Rule(NOTE, lambda f: f.is_slow, "CUDA source on a CPU: {name}: {text}", "Raw kernels take longer.", "{remedy}."),
)  # fmt: skip
_RAN = (
    Rule(PROBLEM, lambda f: f.problem, "CUDA source on a CPU fails: {problem}", _NOT_RUN,
         "Look at the other findings first; then report it with the output of `xferlib doctor --json`."),
    Rule(FINE, lambda f: not f.problem and f.is_tried, "CUDA source runs on the CPU, its mistakes are found: {parts}"),
    Rule(FINE, lambda f: not f.problem and not f.is_tried, "CUDA source can run on the CPU: {parts}"),
)  # fmt: skip
_NAMED = ("NVRTC", "C compiler")


def check_cuda_on_cpu(machine: InspectedMachine, *, is_quick: bool) -> Iterator[Finding]:
    """Each part, and where all are there, a kernel with a mistake, in a process of its own."""
    parts = [*toolchain.find_parts()]
    for part in parts:
        yield from judge(_ON_CPU, **part._replace(remedy=capitalize(part.remedy))._asdict())
    if all(part.is_slow or not part.remedy for part in parts):
        problem = "" if is_quick else ask("cuda-on-cpu", environ=_usable(machine.environ)).get("problem", "")
        text = ", ".join(f"{part.name} {part.text.partition(', ')[0]}" for part in parts if part.name in _NAMED)
        yield from judge(_RAN, problem=problem, is_tried=not is_quick, parts=text)


# Kernels on the CPU: whether a compiler is there for them. Of these rules the first counts.

_ENGINE = (
    Rule(FINE, lambda f: f.mode == "numpy" or f.is_compiled, "kernels on a CPU run {engine}"),
    Rule(NOTE, lambda f: True, "kernels on a CPU run {engine}",
         "Compiled ones have the same bits, and take a tenth of the time.",
         "Install gcc or clang; nothing else is to be done."),
)  # fmt: skip


def check_engine(_machine: InspectedMachine) -> Iterator[Finding]:
    """The engine; nothing is compiled."""
    try:
        mode, engine = process.get().cpu, native_engine.describe_engine()
    except ConfigError:  # the variables' check has said so
        return
    yield judge(_ENGINE, mode=mode, engine=engine, is_compiled=engine.startswith("in C"))[0]


# Cores and NUMA nodes: which of them this process may use, and which are near the GPUs.

_CORES = (
    Rule(FINE, lambda f: True, "this process may use {cores} core(s) on {nodes} NUMA node(s)"),
    Rule(SLOW, lambda f: 0 < f.quota < f.cores,
         "the container may use the time of {quota:.1f} cores, and sees {cores}",
         "xferlib starts threads for the cores that it sees; the kernel stops them all when the time is used up.",
         "Set XFERLIB_THREADS={threads}, or start the container with a set of cores (--cpuset-cpus)."),
)  # fmt: skip
_NUMA = (
    Rule(SLOW, lambda f: not f.cores & f.near, "{name} is on NUMA node {node}, and this process on node {own}",
         "Every transfer crosses the link between the processors.",
         "Start programs with numactl --cpunodebind={node} --preferred={node}"),
    Rule(NOTE, lambda f: f.cores & f.near and f.cores - f.near,
         "{name} is on NUMA node {node}, and this process may use {nodes} nodes",
         "Threads and memory may be on the far one: times differ from run to run.",
         "For even times, start programs with numactl --cpunodebind={node} --preferred={node}"),
)  # fmt: skip


def check_cores(machine: InspectedMachine) -> Iterator[Finding]:
    """The cores, a quota of them, and the node of each GPU."""
    cores = usable_cores()
    nodes = {
        int(path.parent.name.removeprefix("node")): parse_list(machine.read(path))
        for path in machine.paths("sys/devices/system/node/node[0-9]*/cpulist")
    }
    words = (machine.read("sys/fs/cgroup/cpu.max") or "").split()
    if len(words) != 2:
        words = [machine.read(f"sys/fs/cgroup/cpu/cpu.cfs_{each}_us") or "" for each in ("quota", "period")]
    quota = number(words[0]) / (number(words[1]) or math.nan)
    threads = max(1, int(quota)) if quota > 0 else 0
    yield from judge(_CORES, cores=len(cores), nodes=max(1, len(nodes)), quota=quota, threads=threads)
    if len(nodes) < 2:
        return
    indices = {bus_address(each["bus"]): i for i, each in enumerate(machine.driver.get("devices", [])) if "bus" in each}
    own = ", ".join(str(node) for node, its in sorted(nodes.items()) if its & cores)
    for gpu in machine.gpus:
        name = f"cuda:{indices[gpu.name]}" if gpu.name in indices else f"the GPU at {gpu.name}"
        node = machine.read(gpu / "numa_node") or ""
        if node.isdecimal() and int(node) in nodes:
            near = nodes[int(node)]
            yield from judge(_NUMA, name=name, node=node, near=near, cores=cores, own=own, nodes=len(nodes))
    if machine.read("proc/sys/kernel/numa_balancing") == "1" and machine.has_nvidia_gpu:
        yield find(
            NOTE,
            "the kernel moves pages between NUMA nodes by itself (kernel.numa_balancing = 1)",
            "Large copies are interrupted by faults, and their times differ.",
            "An administrator ends it: sysctl kernel.numa_balancing=0",
        )


def bus_address(text: str) -> str:
    """A PCI address as sysfs writes it, from any of NVIDIA's spellings: ``00000000:17:00.0``."""
    domain, _, rest = text.lower().partition(":")
    return f"{domain[-4:]}:{rest}"


# The CUDA driver: whether it is there, why it does not start, and devices that the toolkit has left behind.

_OLDEST = (7, 5)
"""The lowest compute capability that NVRTC of CUDA 13 compiles for."""
_NONE = "No CUDA library can be used."
_STATUS = {
    3: ("NOT_INITIALIZED", _NONE, "Start a new process; if that does not help, reboot."),
    46: ("DEVICE_UNAVAILABLE", _NONE, "End the process that holds the GPU for itself (nvidia-smi)."),
    100: ("NO_DEVICE", "The driver is installed and sees no device.",
          "Look at CUDA_VISIBLE_DEVICES, and start a container with its GPUs (docker run --gpus all)."),
    101: ("INVALID_DEVICE", _NONE, "Name existing devices in CUDA_VISIBLE_DEVICES (nvidia-smi -L)."),
    802: ("SYSTEM_NOT_READY", _NONE,
          "Start the fabric manager of the machine's NVSwitch (systemctl start nvidia-fabricmanager), or wait for it."),
    803: ("SYSTEM_DRIVER_MISMATCH",
          "The library libcuda and the kernel's module are of different versions, as after an update.",
          "Reboot, or load the module anew; in a container, use the host's libcuda."),
    804: ("COMPAT_NOT_SUPPORTED_ON_DEVICE",
          "The library libcuda is the forward-compatible one, which is for data-centre GPUs alone.",
          "Take the directory cuda/compat off LD_LIBRARY_PATH, and update the driver."),
    999: ("UNKNOWN", _NONE,
          "Load the module nvidia_uvm (modprobe nvidia_uvm), also after the machine slept; then read dmesg."),
}  # fmt: skip
"""By the status of cuInit: the rest of its name, the consequence, the remedy."""
_START = (
    Rule(PROBLEM, lambda f: f.problem, "asking the CUDA driver failed: {problem}",
         "Programs that load a CUDA library end in the same way.",
         "Reinstall the NVIDIA driver; dmesg may say more."),
    Rule(FINE, lambda f: f.absent and not f.has_gpu,
         "no NVIDIA GPU: numpy, sim and torch on the CPU are what can run"),
    Rule(PROBLEM, lambda f: f.absent and f.has_gpu,
         "this machine has an NVIDIA GPU, and the driver's library cannot be loaded: {absent}", _NONE,
         "Install the NVIDIA driver; start a container with its GPUs (docker run --gpus all)."),
    Rule(NOTE, lambda f: f.status == 100 and not f.has_gpu, "the CUDA driver does not start: cuInit returns {name}",
         "{consequence}", "{remedy}"),
    Rule(PROBLEM, lambda f: f.status and (f.status != 100 or f.has_gpu),
         "the CUDA driver does not start: cuInit returns {name}", "{consequence}", "{remedy}"),
    Rule(NOTE, lambda f: f.devices == [], "the CUDA driver, for CUDA {version}, sees no device", _NONE),
)  # fmt: skip
_DEVICE = (
    Rule(PROBLEM, lambda f: f.status, "cuda:{index} cannot be used: cuDeviceGet returns error {status}",
         "Libraries fail on this device.", "nvidia-smi and dmesg may say why."),
    Rule(PROBLEM, lambda f: not f.status and f.capability < _OLDEST, "{text}",
         "CUDA 13 compiles for 7.5 and newer: kernels fail on it, transfers may work.",
         "Use another device, or backend numpy."),
    Rule(FINE, lambda f: not f.status and f.capability >= _OLDEST, "{text}; the driver is for CUDA {version}"),
)  # fmt: skip


def check_cuda(machine: InspectedMachine) -> Iterator[Finding]:
    """The driver, then each device."""
    found = machine.driver
    status = found.get("status", 0)
    name, consequence, remedy = f"error {status}", _NONE, "Look for the number in CUDA's driver API, CUresult."
    if status in _STATUS:
        name, consequence, remedy = _STATUS[status]
        name = f"CUDA_ERROR_{name} ({status})"
    version = ".".join(map(str, found.get("version", ())))
    yield from judge(
        _START, problem=found.get("problem", ""), absent=found.get("absent", ""), has_gpu=machine.has_nvidia_gpu,
        status=status, name=name, consequence=consequence, remedy=remedy, version=version, devices=found.get("devices"),
    )  # fmt: skip
    for index, device in enumerate(found.get("devices", ())):
        capability = tuple(device.get("capability", (0, 0)))
        text = f"cuda:{index} is {device.get('name')}, compute capability {'.'.join(map(str, capability))}"
        status = device.get("status", 0)
        yield from judge(_DEVICE, index=index, status=status, capability=capability, text=text, version=version)


# GPUs as `nvidia-smi` reports them: clocks, throttling, free memory, modes and errors. Nothing is set.

_THROTTLES = {
    0x4: ("the power cap", NOTE),
    0x8: ("a hardware slowdown", SLOW),
    0x20: ("the driver, for its temperature", SLOW),
    0x40: ("the hardware, for its temperature", SLOW),
    0x80: ("the power supply's brake", SLOW),
}
"""Bits of NVML's clocks event reasons that say more than idle or chosen clocks."""
_GPU = (
    *(Rule(severity, lambda f, bit=bit: f.reasons & bit,  # type: ignore[misc]
           "{name} runs at {clock} of {most} MHz, held back by " + cause,
           "Kernels take longer, and times differ from run to run.",
           "Look at cooling and power (nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER).")
      for bit, (cause, severity) in _THROTTLES.items()),
    Rule(SLOW, lambda f: f.free < 0.1 * f.total, "{name} has {free:.0f} of {total:.0f} MiB free",
         "Other processes hold the rest: large arrays end in DeviceMemoryError.",
         "End those processes (nvidia-smi lists them), or use another device."),
    Rule(NOTE, lambda f: f.users, "{name} has contexts of {users} process(es): {pids}",
         "They share its memory, and take turns on it: times differ from run to run.",
         "Measure when they have ended, or on another device.", "contexts"),
    Rule(PROBLEM, lambda f: f.mode == "Prohibited", "{name} is in compute mode {mode}",
         "No process can make a CUDA context on it.", "An administrator allows it: nvidia-smi -c DEFAULT"),
    Rule(NOTE, lambda f: f.mode.startswith("Exclusive"), "{name} is in compute mode {mode}",
         "One process at a time can use it: workers of a pool, and a second notebook, fail.",
         "An administrator allows more: nvidia-smi -c DEFAULT"),
    Rule(NOTE, lambda f: f.persistence == "Disabled", "{name} has persistence mode off",
         "Where no process uses the GPU, the next one waits until the driver has started it again.",
         "An administrator runs nvidia-persistenced, or nvidia-smi -pm 1."),
    Rule(NOTE, lambda f: f.mig == "Enabled", "{name} is split into MIG instances",
         "A process sees one instance, with a part of memory."),
    Rule(PROBLEM, lambda f: f.errors > 0,
         "{name} has had {errors:.0f} uncorrected memory error(s) since the driver started", "Results may be wrong.",
         "Stop using it; nvidia-smi -q -d ECC,PAGE_RETIREMENT says more."),
)  # fmt: skip


def check_gpus(machine: InspectedMachine) -> Iterator[Finding]:
    """Each GPU, or why nothing is known of them."""
    if not machine.smi and machine.has_nvidia_gpu:
        yield find(
            NOTE,
            "nvidia-smi gives no answer",
            "Clocks, throttling and other processes' memory were not looked at.",
            "Install the driver's utilities; give a container the driver capability `utility`.",
        )
    for gpu in machine.smi:
        name = f"GPU {gpu.get('index', '?')} ({gpu.get('name', 'of unknown name')})"
        clock, most = gpu.get("clocks.current.sm", "?"), gpu.get("clocks.max.sm", "?")
        reasons = gpu.get("clocks_event_reasons.active") or gpu.get("clocks_throttle_reasons.active") or ""
        pids = [each["pid"] for each in machine.compute_apps if each.get("gpu_bus_id") == gpu.get("pci.bus_id", "?")]
        found = judge(
            _GPU, name=name, clock=clock, most=most, users=len(pids), pids=", ".join(pids[:8]),
            reasons=int(reasons, 16) if re.fullmatch("0x[0-9a-fA-F]+", reasons) else 0,
            free=number(gpu.get("memory.free")), total=number(gpu.get("memory.total")),
            mode=gpu.get("compute_mode", ""), persistence=gpu.get("persistence_mode"), mig=gpu.get("mig.mode.current"),
            errors=number(gpu.get("ecc.errors.uncorrected.volatile.total")),
        )  # fmt: skip
        if are_fine(found, PROBLEM, SLOW):
            yield find(FINE, f"{name}: {clock} of {most} MHz in state {gpu.get('pstate', '?')}, not throttled")
        yield from found


# The PCIe link of each GPU: its width and generation, against what both ends can do.

_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
"""By GT/s."""
_LINK = (
    Rule(SLOW, lambda f: 0 < f.width < f.most_width, "{name} is linked by {width:.0f} of {most_width:.0f} PCIe lanes",
         "Transfers reach {share:.0f} % of what a full link carries.",
         "Put the card into a slot with all lanes, seat it anew, and look at the slot's setting in the firmware."),
    Rule(SLOW, lambda f: 0 < f.generation < f.most_generation and f.is_busy,
         "{name} is linked by PCIe {generation:.0f}.0, and both ends can do {most_generation:.0f}.0",
         "Transfers reach a half or less of what the link carries.",
         "Look at the slot's setting in the firmware, at risers and cables, and in dmesg for PCIe errors."),
    Rule(NOTE, lambda f: 0 < f.most_generation < f.own_generation,
         "{name} can do PCIe {own_generation:.0f}.0, and its slot {most_generation:.0f}.0",
         "Transfers are as fast as the slot."),
)  # fmt: skip


def check_links(machine: InspectedMachine) -> Iterator[Finding]:
    """Each link; `nvidia-smi` is asked first, since it knows whether the GPU is idle."""
    for link in [*map(_link_from_smi, machine.smi)] or [_link_from_kernel(machine, gpu) for gpu in machine.gpus]:
        width, most_width, most_generation = (link[key] for key in ("width", "most_width", "most_generation"))
        found = judge(_LINK, share=100 * width // (most_width or math.nan), **link)
        yield from found
        if not found and width > 0 and most_generation > 0:
            yield find(FINE, f"{link['name']}: PCIe {most_generation:.0f}.0 x{width:.0f}")


def _link_from_smi(gpu: dict[str, str]) -> dict[str, Any]:
    clock, most = number(gpu.get("clocks.current.sm")), number(gpu.get("clocks.max.sm"))
    fields = {"width": "width.current", "most_width": "width.max", "generation": "gen.current",
              "most_generation": "gen.max", "own_generation": "gen.gpumax"}  # fmt: skip
    return {
        "name": f"GPU {gpu.get('index', '?')}",
        **{fact: number(gpu.get(f"pcie.link.{field}")) for fact, field in fields.items()},
        # A GPU in its highest state that runs at less than half its clock is idle all the same, and so may its link be.
        "is_busy": gpu.get("pstate") == "P0" and clock > 0 and not clock <= most / 2,
    }


def _link_from_kernel(machine: InspectedMachine, gpu: Path) -> dict[str, Any]:
    speeds = (number(machine.read(gpu / f"{each}_link_speed")) for each in ("current", "max"))
    generation, most_generation = (_GENERATIONS.get(each, math.nan) for each in speeds)
    width, most_width = (number(machine.read(gpu / f"{each}_link_width")) for each in ("current", "max"))
    return {
        "name": f"GPU at {gpu.name}", "width": width, "most_width": most_width, "generation": generation,
        "most_generation": most_generation, "own_generation": math.nan,
        "is_busy": False,  # the kernel does not tell, and an idle link is slow to save power
    }  # fmt: skip


# Host memory: huge pages, the memory-lock limit, a container's limit, and the pinned pool's.

_GIB = 1 << 30
_MOST_LOCKED = 64 << 20
"""A limit below this is a default, not a choice."""
_MEMORY = (
    Rule(FINE, lambda f: f.total > 0, "{total:.1f} GiB of host memory"),
    Rule(SLOW, lambda f: "[never]" in f.pages, "transparent huge pages are off",
         "A new result of to_host is made of pages of 4 KiB: the kernel clears and maps 512 times as many.",
         "An administrator allows them: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"),
    Rule(FINE, lambda f: f.pages != "?" and "[never]" not in f.pages, "transparent huge pages are allowed"),
    Rule(NOTE, lambda f: f.has_gpu and f.locked < _MOST_LOCKED,
         "a process may lock {locked_text} of memory (ulimit -l)",
         "CUDA's pinned memory does not count; memory that InfiniBand or RDMA libraries register does, and fails.",
         "Start containers with --ulimit memlock=-1, or raise it in /etc/security/limits.conf."),
    Rule(FINE, lambda f: f.locked >= (_MOST_LOCKED if f.has_gpu else 0),
         "a process may lock {locked_text} of memory (ulimit -l)"),
    Rule(NOTE, lambda f: f.limit >= 0 and not f.limit >= f.total, "the container may use {limit:.1f} GiB of memory",
         "Pinned memory counts and cannot be swapped; beyond the limit the kernel ends a process.",
         "Set XFERLIB_PINNED_LIMIT and XFERLIB_HOST_CACHE where programs pin or fetch much."),
    Rule(SLOW, lambda f: f.pool > f.total / 2, "the pinned pool may hold {pool:.2f} GiB (XFERLIB_PINNED_LIMIT)",
         "That is more than half of the memory: the rest of the system may swap.", "Set a lower limit."),
    Rule(NOTE, lambda f: f.pool and not f.pool > f.total / 2,
         "the pinned pool may hold {pool:.2f} GiB (XFERLIB_PINNED_LIMIT)",
         "A full pool raises PinnedMemoryError, or waits, as the call chooses."),
)  # fmt: skip


def check_memory(machine: InspectedMachine) -> list[Finding]:
    """The memory of the machine, and each limit."""
    match = re.search(r"^MemTotal:(.*)", machine.read("proc/meminfo") or "", re.MULTILINE)
    limits = (number(machine.read(f"sys/fs/cgroup/{each}")) for each in ("memory.max", "memory/memory.limit_in_bytes"))
    locked = math.nan
    try:
        import resource
    except ImportError:  # not a POSIX system
        pass
    else:
        soft = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
        locked = math.inf if soft == resource.RLIM_INFINITY else soft
    return judge(
        _MEMORY, total=number(match[1] if match else None) / (1 << 20), has_gpu=machine.has_nvidia_gpu,
        pages="?" if (pages := machine.read("sys/kernel/mm/transparent_hugepage/enabled")) is None else pages,
        locked=locked, locked_text="any amount" if locked == math.inf else f"{locked // 1024:.0f} KiB",
        limit=next((each for each in limits if each >= 0), math.nan) / _GIB,
        pool=(_read_setting(machine, "pinned_limit") or 0) / _GIB,
    )  # fmt: skip


def _read_setting(machine: InspectedMachine, name: str) -> Any:
    """A setting by its variable; its default where that is unset or cannot be used."""
    setting = process.SETTINGS[name]
    try:
        return process.from_environment(setting, machine.environ)
    except ConfigError:
        return setting.default


# Environment variables: misspelt names, values that cannot be used, and CUDA's own that make programs slow.

_CHOICES = ("XFERLIB_BACKEND", "XFERLIB_DEVICE")
"""The variables that choose the default."""
_KNOWN = {setting.metadata["variable"]: setting for setting in process.SETTINGS.values()}
_STOPS = "Programs that use xferlib stop at its first call, with a ConfigError."


def _is_on(text: str) -> bool:
    return text not in ("", "0")


_SETTINGS: tuple[tuple[str, str, Callable[[str], bool], str, str], ...] = (
    (SLOW, "XFERLIB_NATIVE", lambda text: text.strip() == "off",
     "Large transfers are staged by one Python thread each, and driver calls go through ctypes.",
     "Unset XFERLIB_NATIVE."),
    (SLOW, "CUDA_LAUNCH_BLOCKING", _is_on, "Each kernel launch waits for the kernel's end: nothing overlaps.",
     "Unset CUDA_LAUNCH_BLOCKING."),
    (SLOW, "PYTORCH_NO_CUDA_MEMORY_CACHING", _is_on, "Each tensor is a cudaMalloc, which waits for the device.",
     "Unset PYTORCH_NO_CUDA_MEMORY_CACHING."),
    (SLOW, "CUDA_DEVICE_MAX_CONNECTIONS", lambda text: text == "1",
     "All streams share one queue to the device: copies wait for kernels of other streams.",
     "Unset it, unless a library such as Megatron asks for it."),
    (NOTE, "CUDA_DISABLE_JIT", _is_on,
     "Kernels of libraries without machine code for this GPU fail to load; xferlib's have it.",
     "Unset CUDA_DISABLE_JIT."),
    (NOTE, "CUDA_MODULE_LOADING", lambda text: text.upper() == "EAGER",
     "Libraries load all their kernels at the first use: programs begin later and use more device memory.",
     "Unset it: kernels are then loaded as they are called."),
)  # fmt: skip
"""Severity, variable, whether its value is such, consequence and remedy."""
_VISIBLE = (
    Rule(PROBLEM, lambda f: f.is_empty, "CUDA_VISIBLE_DEVICES={value!r}", "Programs see no CUDA device.",
         "Unset it, or name the devices that programs may use."),
    Rule(NOTE, lambda f: not f.is_empty, "CUDA_VISIBLE_DEVICES={value!r}",
         "Programs see these devices alone, numbered from 0."),
)  # fmt: skip


def check_variables(machine: InspectedMachine) -> Iterator[Finding]:
    """All about variables; one finding that all is well where nothing else is found."""
    environ = machine.environ
    found = [*_judge_names(environ), *_judge_values(environ)]
    if (visible := environ.get("CUDA_VISIBLE_DEVICES")) is not None and machine.has_nvidia_gpu:
        found += judge(_VISIBLE, value=visible, is_empty=visible.strip() in ("", "-1", "NoDevFiles"))
    given = [name for name in sorted(_KNOWN) if environ.get(name, "").strip()]
    if are_fine(found, PROBLEM):
        text = ", ".join(f"{name}={environ[name]}" for name in given)
        yield find(FINE, f"{text}: all can be used" if given else "no XFERLIB_* variable is set")
    yield from found


def _judge_names(environ: Mapping[str, str]) -> Iterator[Finding]:
    misspelt = process.misspelt(environ)
    for name, meant in misspelt.items():
        fact = f"{name} is set, which xferlib does not know (did you mean {meant}?)"
        yield find(PROBLEM, fact, _STOPS, f"Rename it to {meant}, or unset it.")
    for name, meant in process.elsewhere(environ).items():
        yield find(
            NOTE,
            f"{name} is set (did you mean {meant}?)",
            "xferlib does not read it, and programs that use xferlib warn of it.",
            f"If xferlib should, rename it to {meant}; if it is another program's, set {meant} as well.",
        )
    for name in sorted(environ):
        if name.startswith("XFERLIB_") and name not in _KNOWN and name not in misspelt:
            yield find(NOTE, f"{name} is set, and the library does not read it", "It has no effect.")


def _judge_values(environ: Mapping[str, str]) -> Iterator[Finding]:
    for message in filter(None, (_refusal(name, environ) for name in _KNOWN)):
        fact, _, remedy = message.rpartition("; ")
        yield find(PROBLEM, fact, _STOPS, f"{capitalize(remedy)}.")
    yield from judge_choice(environ)
    for severity, name, is_such, consequence, remedy in _SETTINGS:
        if is_such(environ.get(name, "")):
            yield find(severity, f"{name}={environ[name].strip()}", consequence, remedy)
    threads, cores = environ.get("XFERLIB_THREADS", "").strip(), len(usable_cores())
    if threads.isdecimal() and int(threads) > cores:
        yield find(
            SLOW,
            f"XFERLIB_THREADS={threads}, and this process may use {cores} core(s)",
            "Threads that stage wait for one another's core.",
            f"Set XFERLIB_THREADS to {cores} at most, or unset it.",
        )


def _refusal(name: str, environ: Mapping[str, str]) -> str:
    """Why a variable's value cannot be used, or nothing."""
    try:
        process.from_environment(_KNOWN[name], environ)
    except ConfigError as error:
        return str(error)
    return ""


def judge_choice(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Faults of the variables that choose the default; loads no backend."""
    backend, device = (environ.get(name, "").strip() for name in _CHOICES)
    names = registry.names()
    if backend.isidentifier() and backend not in names:
        yield find(
            PROBLEM,
            f"XFERLIB_BACKEND={backend!r} names no backend{did_you_mean(backend, names)}",
            "Calls that name no backend themselves fail with a BackendNotFoundError.",
            f"Set it to one of {', '.join(names)}, or unset it.",
        )
        return
    try:
        registry.environment_device(process.Config(backend=backend or None, device=device or None))
    except XferError as error:
        fact, _, remedy = str(error).rpartition("; ")
        kind = type(error).__name__
        yield find(PROBLEM, fact, f"Calls that name no device themselves fail with a {kind}.", f"{capitalize(remedy)}.")


# Each backend tried in a process of its own, and those of CUDA together in one: findings from their answers.

_ON_CUDA = ("cupy", "torch", "pycuda")
_TRIED = (
    Rule(PROBLEM, lambda f: f.problem, "trying {name} failed: {problem}",
         "Programs that use {name} end in the same way.", "Install its library anew: {install}"),
    Rule(NOTE, lambda f: f.reason and f.is_expected, "{name} is installed and cannot run here: {reason}",
         "Calls that name it fail."),
    Rule(PROBLEM, lambda f: f.reason and not f.is_expected, "{name} is installed and cannot run here: {reason}",
         "Programs that use {name} fail.", "{install}"),
)  # fmt: skip
_TOGETHER = (
    Rule(FINE, lambda f: not f.wrong, "{names} share their contexts in one process", check="contexts"),
    Rule(PROBLEM, lambda f: f.wrong, "{names} in one process: {wrong}",
         "Programs that use several of these libraries fail.",
         "Use one of them, or install builds for one CUDA version; import pycuda.autoprimaryctx, not pycuda.autoinit.",
         "contexts"),
)  # fmt: skip


def check_backends(
    machine: InspectedMachine, chosen: Sequence[str], report: Callable[[str], None]
) -> Iterator[Finding]:
    """The backends in turn, those of them that are installed; ``report`` is told which one is tried."""
    environ = _usable(machine.environ)
    on_cuda = []
    given = {name: machine.environ[name] for name in _CHOICES if machine.environ.get(name, "").strip()}
    if given and not any(judge_choice(machine.environ)):
        report("trying the default device")
        text = ", ".join(f"{name}={value}" for name, value in given.items())
        yield _judge_default(text, ask("trial", environ={**environ, **given}))
    for name in chosen:
        install = registry.library(name)[1]
        if not registry.is_installed(name):
            yield find(FINE, f"{name} is not installed ({install})")
            continue
        report(f"trying {name}")
        answer = ask("trial", name, environ=environ)
        devices = answer.get("devices", [])
        if any(each["device"].startswith(f"{name}:cuda") for each in devices):
            on_cuda.append(name)
        yield from judge(
            _TRIED, name=name, problem=answer.get("problem"), reason=answer.get("reason"),
            install=answer.get("install", install), is_expected=name in _ON_CUDA and not machine.cuda_count,
        )  # fmt: skip
        for device in devices:
            yield from _judge_device(device)
    if machine.cuda_count and not on_cuda and set(_ON_CUDA) <= set(chosen):
        fact = f"this machine has {machine.cuda_count} CUDA device(s), and no backend that runs on them"
        is_older = 0 < (machine.driver.get("version") or [0])[0] < 13
        yield find(SLOW, fact, "Programs run on the CPU.", install_command("cupy-cuda12x" if is_older else "cupy"))
    if len(on_cuda) > 1:
        names = ", ".join(on_cuda)
        report(f"trying {names} together")
        answer = ask("together", *on_cuda, environ=environ)
        yield from judge(_TOGETHER, names=names, wrong="; ".join(answer.get("wrong") or ()) or answer.get("problem"))


def _usable(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without variables that end every program or draw a warning: for trials of something else."""
    broken = {*process.misspelt(environ), *process.elsewhere(environ), *_CHOICES}
    broken |= {name for name in _KNOWN if _refusal(name, environ)}
    return {name: value for name, value in environ.items() if name not in broken}


def _judge_default(given: str, answer: dict[str, Any]) -> Finding:
    """The default device as the variables choose it."""
    wrong = answer.get("problem") or answer.get("reason")
    if wrong is None:
        return find(FINE, f"{given}: the default device is {answer['device']}")
    remedy = "Mend or unset the variables." if "problem" in answer else wrong.rpartition("; ")[2]
    return find(
        PROBLEM,
        f"with {given} the first call fails: {wrong}",
        "Calls that name no device themselves fail.",
        capitalize(remedy),
    )


def _judge_device(found: dict[str, Any]) -> Iterator[Finding]:
    device = found["device"]
    for wrong in found["wrong"]:
        yield find(
            PROBLEM,
            f"{device}: {wrong}",
            "Programs on this device fail, or compute something wrong.",
            "Look at the other findings first; then report it with the output of `xferlib doctor --json`.",
        )
    for left_out in found["left_out"]:
        yield find(NOTE, f"{device}: {left_out}")
    if not found["wrong"]:
        right = "transfers" if found["left_out"] else "transfers and kernels"
        yield find(FINE, f"{device} ({found['name']}): {right} are right, bit for bit")


# Installed versions: too old for xferlib, built for a newer CUDA than the driver's, or bad together.

_RUNTIME_EXTRAS = frozenset(
    {"", "cuda", "cuda12", "cupy", "cupy-cuda12x", "torch", "torch-cpu", "pycuda", "pycuda-math", "dask", "mpi"}
)
_CUPY = re.compile(r"cupy(?:-cuda(?P<major>\d\d)x|-rocm.*)?")
_BUILDS = (
    re.compile(r"(?:cuda-bindings|nvidia-cuda-(?:nvrtc|runtime)(?:-cu\d\d)?) (\d+)\.(\d+).*"),
    re.compile(r"cupy-cuda(\d\d)x ()"),
    re.compile(r"torch \S+\+cu(\d+)(\d)"),
)
"""The CUDA version that a library was built for, in its name and version."""
_FAMILY = ("numpy", "torch", "pycuda", "cuda-core", "cuda-bindings", "nvmath-python", "array-api-compat", "numba")
"""Packages whose own requirements are compared, beside those of CuPy."""
_INSTALLED = (
    Rule(PROBLEM, lambda f: len(f.cupys) > 1, "{names} are installed beside one another",
         "They overwrite one another's files in the package cupy, which then fails in ways of its own.",
         "pip uninstall {words}, then install the one for your CUDA version."),
    Rule(PROBLEM, lambda f: f.torch and not f.compat, "torch {torch} is installed, and array-api-compat is not",
         "get_array_module of a tensor fails: its namespace is made of it.", "{compat_command}"),
    Rule(NOTE, lambda f: f.compiler and f.headers and _numbers(f.compiler)[:2] != _numbers(f.headers)[:2],
         "nvidia-cuda-nvrtc is {compiler}, and nvidia-cuda-runtime is {headers}",
         "Kernels are compiled with headers of another CUDA release: one that includes cuda_fp16.h may not compile.",
         "Install both of one release."),
)  # fmt: skip
_DRIVER_VERSIONS = (
    Rule(PROBLEM, lambda f: f.built[0] > f.driver[0],
         "{name} is for CUDA {built[0]}, and the driver is for CUDA {driver[0]}.{driver[1]}", "It cannot use the GPU.",
         "Update the NVIDIA driver, or install the build of {package} for CUDA {driver[0]}; the extras cuda12 and "
         "cupy-cuda12x of xferlib bring what is for CUDA 12."),
    Rule(NOTE, lambda f: f.built[0] == f.driver[0] and f.built > f.driver,
         "{name} is for CUDA {built[0]}.{built[1]}, and the driver is for CUDA {driver[0]}.{driver[1]}",
         "It runs, but what needs the newer driver fails, such as PTX of CUDA {built[0]}.{built[1]}.",
         "Update the NVIDIA driver if a library asks for it."),
)  # fmt: skip


def check_versions(machine: InspectedMachine) -> Iterator[Finding]:
    """Versions against what xferlib needs, against one another, and against the driver."""
    installed: dict[str, str] = {}
    for each in metadata.distributions():
        # `each.metadata` would parse all of the file, of which the packages' front pages are most
        text = each.read_text("METADATA") or each.read_text("PKG-INFO") or each.read_text("") or ""
        told = dict(re.findall(r"^(Name|Version): *(\S+)", text.partition("\n\n")[0], re.MULTILINE))
        if name := told.get("Name"):  # a half-deleted one has none
            installed.setdefault(re.sub(r"[-_.]+", "-", name).lower(), told.get("Version", ""))
    cupys = sorted(name for name in installed if _CUPY.fullmatch(name))
    found = [
        *_judge_needs(installed),
        *judge(
            _INSTALLED, cupys=cupys, names=", ".join(cupys), words=" ".join(cupys), torch=installed.get("torch"),
            compat=installed.get("array-api-compat"), compiler=installed.get("nvidia-cuda-nvrtc"),
            headers=installed.get("nvidia-cuda-runtime"), compat_command=install_command("torch-cpu", cpu_torch=True),
        ),
        *_judge_family({*_FAMILY, *cupys} & set(installed), installed),
        *_judge_builds(machine, installed),
    ]  # fmt: skip
    if are_fine(found, PROBLEM):
        names = ("numpy", "torch", "cuda-core", "cuda-bindings", "pycuda", *cupys)
        text = ", ".join(f"{name} {installed[name]}" for name in names if name in installed)
        yield find(FINE, f"{text or 'the installed libraries'}: known to work together")
    yield from found


def _judge_needs(installed: dict[str, str]) -> Iterator[Finding]:
    try:
        needed = metadata.requires("xferlib") or []
    except metadata.PackageNotFoundError:
        yield find(NOTE, "xferlib is used from a checkout: its requirements were not compared")
        return
    choices: dict[str, list[str]] = {}  # an extra for CUDA 12 and one for 13 take different versions of a package
    for name, limits, extra in map(_parse_requirement, needed):
        if extra in _RUNTIME_EXTRAS and name in installed:
            choices.setdefault(name, []).append(limits)
    for name, accepted in choices.items():
        if not any(_fits(installed[name], limits) for limits in accepted):
            yield find(
                PROBLEM,
                f"{name} {installed[name]} is installed, and xferlib needs {' or '.join(dict.fromkeys(accepted))}",
                "What xferlib calls of it may be absent, or behave otherwise.",
                f"pip install '{name}{accepted[0]}'",
            )


def _judge_family(family: set[str], installed: dict[str, str]) -> Iterator[Finding]:
    """Requirements of the libraries on one another, those that hold on every platform."""
    for name in sorted(family):
        for requirement in metadata.requires(name) or []:
            other, limits, _ = _parse_requirement(requirement)
            if ";" not in requirement and other in family and not _fits(installed[other], limits):
                yield find(
                    NOTE,
                    f"{name} {installed[name]} asks for {other}{limits}, and {other} {installed[other]} is installed",
                    f"{name} may fail in ways of its own.",
                    f"pip install '{other}{limits}', or another version of {name}.",
                )


def _judge_builds(machine: InspectedMachine, installed: dict[str, str]) -> Iterator[Finding]:
    """The CUDA version of each library against the driver's."""
    driver = tuple(machine.driver.get("version") or ())
    if not driver:
        return
    for package, version in sorted(installed.items()):
        name = f"{package} {version}"
        match = next(filter(None, (pattern.match(name) for pattern in _BUILDS)), None)
        if match is not None:
            built = int(match[1]), int(match[2] or 0)
            yield from judge(_DRIVER_VERSIONS, name=name, package=package, built=built, driver=driver)
    if machine.cuda_count and installed.get("torch", "").endswith("+cpu"):
        yield find(
            SLOW,
            f"torch {installed['torch']} is a build without CUDA, and this machine has a GPU",
            "Tensors stay on the CPU.",
            "Install the build of PyTorch for your CUDA version, or use CuPy.",
        )


def _parse_requirement(requirement: str) -> tuple[str, str, str]:
    """Name, limits and extra of a requirement: ``cuda-core>=1.0; extra == 'cuda'``."""
    plain, _, marker = requirement.partition(";")
    name, limits = re.fullmatch(r"([\w.-]+)(?:\[.*\])?\s*(.*?)\s*", plain).groups()  # type: ignore[union-attr]
    extra = re.search(r"extra == ['\"]([\w-]+)", marker)
    return name.lower(), limits, extra[1] if extra is not None else ""


def _fits(version: str, limits: str) -> bool:
    """Whether a version is within ``>=1.6,<2`` or ``==13.*``; limits of any other kind are not looked at."""
    found = _numbers(version)
    for operator, text in re.findall(r"(>=|<(?!=)|==)\s*([\d.]+)", limits):
        limit = _numbers(text)
        if found[: len(limit)] != limit if operator == "==" else (found < limit) != (operator == "<"):
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"\d+", re.match(r"[\d.]*", version)[0]))  # type: ignore[index]


# The command: every check in turn, none of which can end another, and their findings in order.

Check = Callable[[InspectedMachine], Iterable[Finding]]

_CHECKS: dict[str, Check] = {
    "variables": check_variables,
    "driver": check_cuda,
    "versions": check_versions,
    "compiled parts": check_native,
    "kernels on a CPU": check_engine,
    "GPUs": check_gpus,
    "links": check_links,
    "cores": check_cores,
    "memory": check_memory,
    "cache": check_caches,
}
_INDENT = 9


def run_doctor(options: argparse.Namespace) -> int:
    """Print the findings, the worst first; 1 if one of them is a problem."""
    machine = InspectedMachine(options.root, dict(os.environ))
    checks: dict[str, Check] = {**_CHECKS, "CUDA source on a CPU": partial(check_cuda_on_cpu, is_quick=options.quick)}
    if not options.quick:
        checks["backends"] = partial(check_backends, chosen=options.backend or registry.names(), report=_report)
    found = [each for name, check in checks.items() for each in _run_check(name, check, machine)]
    found.sort(key=lambda each: SEVERITIES.index(each.severity))
    status = int(not are_fine(found, PROBLEM))
    if options.json:
        print(json.dumps({"version": __version__, "status": status, "findings": [each._asdict() for each in found]}))
    else:
        print(as_text(found, terminal_columns()))
    return status


def list_arguments() -> tuple[CommandArgument, ...]:
    """The arguments of ``doctor``."""
    names = registry.names()
    backend = f"try this backend alone: {', '.join(names)}; may be given repeatedly"
    root = "where proc and sys are, such as those of a host"
    return (
        argument("--json", action="store_true", help="print the same as JSON"),
        argument("--quick", action="store_true", help="leave out the trials on each backend, which take seconds"),
        argument("--backend", action="append", choices=names, metavar="NAME", help=backend),
        argument("--root", type=_directory, metavar="DIR", default=Path("/"), help=root),
    )


def _directory(text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"there is no directory {text!r}")
    return path


def _report(text: str) -> None:
    if sys.stderr.isatty():
        print(f"{text} ...", file=sys.stderr, flush=True)


def _run_check(name: str, check: Check, machine: InspectedMachine) -> Iterator[Finding]:
    """All that a check finds; an error of its own is one more finding."""
    try:
        for found in check(machine):
            yield found._replace(check=found.check or name)
    except Exception as error:
        yield find(
            NOTE,
            f"this check failed: {type(error).__name__}: {error}",
            "It says nothing about the machine.",
            "Report it with the output of `xferlib doctor --json`.",
            name,
        )


def as_text(found: list[Finding], width: int | None) -> str:
    """The findings as lines of at most ``width`` columns; of any length where that is None, as in a pipe."""
    lines = []
    for each in found:
        paragraphs = [text for text in each[2:] if text]
        for head, text in zip((each.severity, "", ""), paragraphs, strict=False):
            lines += wrap(f"{head:{_INDENT}}{text}", width, indent=_INDENT)
        if len(paragraphs) > 1:
            lines.append("")
    counts = {severity: sum(each.severity == severity for each in found) for severity in SEVERITIES}
    plural = {PROBLEM: "problems", NOTE: "notes"}
    summary = ", ".join(f"{n} {plural.get(name, name) if n != 1 else name}" for name, n in counts.items())
    return "\n".join([*lines, *([] if lines[-1:] == [""] else [""]), summary])


COMMANDS = {
    "doctor": Command(
        run_doctor,
        "Find out what on this machine makes programs fail or slow, and what to do about it. Nothing is changed.",
        list_arguments,
        {"epilog": "The exit status is 1 if there is a problem, 0 if there is none."},
    )
}
