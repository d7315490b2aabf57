"""``xferlib doctor``: checks of this machine, each of which may find several things.

What may crash or hang runs in a process of its own: the CUDA driver, and each library (`doctor_trial`).
"""

from __future__ import annotations

import argparse
import csv
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from xferlib import __version__, _native
from xferlib._cli.main import Command, terminal_columns, wrap
from xferlib._core import registry
from xferlib._native import cuda_driver
from xferlib._runtime import process
from xferlib._runtime.version import install_command
from xferlib.errors import ConfigError, XferError, did_you_mean
from xferlib.kernels import cuda_engine

# One finding of the doctor: a fact about the machine, and what follows from it.

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


problem, slow, note, fine = (partial(Finding, "", severity) for severity in SEVERITIES)
"""A finding of that severity, from its fact, consequence and remedy."""


def sort_findings(found: list[Finding]) -> list[Finding]:
    """Sort by severity, and within one by the order of the checks."""
    return sorted(found, key=lambda each: SEVERITIES.index(each.severity))


# Questions answered in a process of their own: a library that crashes or hangs there ends that process alone.

_ROOT = str(Path(__file__).resolve().parents[2])
_LIMIT_S = 120
MARK = "xferlib-doctor:"
"""The beginning of the line with the answer, given to the program: libraries write lines of their own."""


def ask(question: str, *arguments: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """Ask `doctor_trial` in a new process; ``problem`` in the answer says why there is none.

    Args:
        question: One of its questions.
        *arguments: For it.
        environ: The environment of the new process.
    """
    paths = os.pathsep.join(each for each in (_ROOT, environ.get("PYTHONPATH", "")) if each)
    command = ["-W", "ignore", "-m", "xferlib._cli.doctor_trial", MARK, question, *arguments]
    return _run(command, {**environ, "PYTHONPATH": paths})


def ask_script(path: str, *arguments: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """Ask as `ask`, a file that imports nothing of xferlib and is given `MARK` first: a new process in 20 ms."""
    return _run(["-I", "-S", path, MARK, *arguments], environ)


def _run(arguments: list[str], environ: Mapping[str, str]) -> dict[str, Any]:
    try:
        done = subprocess.run(  # noqa: S603 - this Python, with a module of ours
            [sys.executable, *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LIMIT_S,
            check=False,
            stdin=subprocess.DEVNULL,
            env=environ,
        )
    except subprocess.TimeoutExpired:
        return {"problem": f"no answer within {_LIMIT_S} s"}
    except OSError as error:
        return {"problem": f"no process could be started: {error}"}
    for line in reversed(done.stdout.splitlines()):
        if line.startswith(MARK):
            found: dict[str, Any] = json.loads(line.removeprefix(MARK))
            return found
    return {"problem": _describe_end(done.returncode, done.stderr)}


def _describe_end(status: int, errors: str) -> str:
    if status < 0:
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        return f"the process was ended by {name}"
    last = (errors.strip().splitlines() or ["nothing was said"])[-1]
    return f"the process ended with status {status}: {last}"


# The machine as the checks see it: files of the kernel, the environment, `nvidia-smi`, child processes.
#
# Everything here answers None or nothing where the machine does not tell, and raises nothing.

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


@dataclass(frozen=True)
class Gpu:
    """An NVIDIA GPU on the PCI bus, as the kernel knows it."""

    address: str
    """``0000:17:00.0``."""
    folder: Path

    def read(self, name: str) -> str | None:
        """A file of its folder."""
        return _read(self.folder / name)


class InspectedMachine:
    """The answers of a machine to the checks.

    Args:
        root: The directory that holds ``proc`` and ``sys``.
        environ: The environment variables.
    """

    def __init__(self, root: Path, environ: Mapping[str, str]) -> None:
        self._root = root
        self.environ = environ

    def read(self, path: str) -> str | None:
        """The text of a file below the root, stripped; None where it cannot be read."""
        return _read(self._root / path)

    def paths(self, pattern: str) -> list[Path]:
        """The files below the root that match, sorted."""
        try:
            return sorted(self._root.glob(pattern))
        except OSError:
            return []

    @functools.cached_property
    def gpus(self) -> list[Gpu]:
        """The NVIDIA GPUs on the bus; empty too where the system hides the bus."""
        found = []
        for vendor in self.paths("sys/bus/pci/devices/*/vendor"):
            gpu = Gpu(vendor.parent.name, vendor.parent)
            if _read(vendor) == "0x10de" and (gpu.read("class") or "").startswith("0x03"):
                found.append(gpu)
        return found

    @functools.cached_property
    def has_nvidia_gpu(self) -> bool:
        """Whether the kernel shows one, whatever CUDA says."""
        return bool(self.gpus or self.paths("proc/driver/nvidia/version") or self.paths("dev/nvidiactl"))

    @functools.cached_property
    def smi(self) -> list[dict[str, str]]:
        """The answers of `nvidia-smi` by field, for each GPU; fields that it does not know are left out."""
        return _ask_smi("gpu", _FIELDS)

    @functools.cached_property
    def compute_apps(self) -> list[dict[str, str]]:
        """The processes with CUDA contexts, by what `nvidia-smi` says of each; empty where it hides them."""
        return [each for each in _ask_smi("compute-apps", _APP_FIELDS) if "pid" in each]

    @functools.cached_property
    def driver(self) -> dict[str, Any]:
        """The answers of the CUDA driver, asked in a process of its own; ``problem`` where there are none."""
        return ask_script(cuda_driver.__file__, cuda_driver.LIBRARY, environ=self.environ)

    @functools.cached_property
    def cuda_count(self) -> int:
        """The number of CUDA devices that programs see."""
        return len(self.driver.get("devices", []))


def _ask_smi(kind: str, wanted: tuple[str, ...]) -> list[dict[str, str]]:
    """The rows that `nvidia-smi` answers, by field; those that have no answer are left out."""
    fields = list(wanted)
    while fields:
        command = ["nvidia-smi", f"--query-{kind}={','.join(fields)}", "--format=csv,noheader,nounits"]
        try:
            done = subprocess.run(  # noqa: S603 - the driver's own program
                command, capture_output=True, text=True, timeout=_SMI_S, check=False
            )
        except (OSError, subprocess.SubprocessError, UnicodeError):
            return []
        unknown = _NOT_A_FIELD.search(done.stdout + done.stderr)
        if unknown is not None and unknown[1] in fields:
            fields.remove(unknown[1])
        else:
            break
    if done.returncode:
        return []
    rows = csv.reader(done.stdout.splitlines(), skipinitialspace=True)
    return [
        {name: text.strip() for name, text in zip(fields, row, strict=True) if "N/A" not in text}
        for row in rows
        if len(row) == len(fields)
    ]


def bus_address(text: str) -> str:
    """A PCI address as sysfs writes it, from any of NVIDIA's spellings: ``00000000:17:00.0``."""
    domain, _, rest = text.lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def parse_list(text: str | None) -> set[int]:
    """The numbers of ``0-3,8``, as the kernel writes lists of cores."""
    found: set[int] = set()
    for part in (text or "").split(","):
        first, _, last = part.partition("-")
        if first.strip().isdecimal():
            found |= set(range(int(first), int(last or first) + 1))
    return found


def number(text: str | None) -> float | None:
    """A number that a file or `nvidia-smi` gives, whatever unit follows; None for anything else."""
    match = re.match(r"\d+(?:\.\d+)?", (text or "").strip())
    return float(match[0]) if match is not None else None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def usable_cores() -> set[int]:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


# The directory of compiled kernels: whether it can be trusted, written to and filled.

_LEAST_FREE = 64 << 20
_CONSEQUENCE = "Kernels are compiled anew in every process."


def check_caches(_machine: InspectedMachine) -> Iterator[Finding]:
    """The directory; nothing is written."""
    try:
        found = cuda_engine.info()
    except ConfigError:  # the variables' check has said so
        return
    folder = found.directory
    if found.problem:
        fact, _, remedy = found.problem.partition("; ")
        remedy = remedy or "set XFERLIB_CACHE_DIR to a directory of your own"
        yield slow(fact, _CONSEQUENCE, f"{remedy[0].upper()}{remedy[1:]}.")
        return
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        yield slow(
            f"{found.directory} cannot be written: {folder} is not a directory that this user may write to",
            _CONSEQUENCE,
            "Set XFERLIB_CACHE_DIR to a directory of your own.",
        )
    elif (free := shutil.disk_usage(folder).free) < _LEAST_FREE:
        yield slow(
            f"the disk of {found.directory} has {free >> 20} MiB free",
            _CONSEQUENCE,
            "Free some, or set XFERLIB_CACHE_DIR to a directory elsewhere.",
        )
    else:
        yield fine(f"{found.directory}: {found.files} kernel(s), {found.nbytes / 1e6:.1f} MB")


# The parts in C: compiled or not, and why not.


def check_native(machine: InspectedMachine) -> Iterator[Finding]:
    """Two parts, each found for itself."""
    staging, calls = _native.why_absent(), _native.why_calls_absent()
    if not staging and not calls:
        yield fine("staging and driver calls are compiled")
    remedy = "Install a C compiler (gcc or clang) and the CPython headers, then run: python -m xferlib._native.build"
    if sys.platform == "win32":
        remedy = "None is tried on Windows yet: they compile for it, and have not run with Python there."
    if staging:
        yield slow(
            f"staging in C: {staging}",
            "Each large transfer is staged by one Python thread, which holds the GIL in between.",
            remedy,
        )
    if calls:
        found = slow if machine.cuda_count else note
        yield found(
            f"driver calls in C: {calls}",
            "Small copies and kernel calls go through ctypes, and get_array_module through Python.",
            remedy,
        )


# Cores and NUMA nodes: which of them this process may use, and which are near the GPUs.


def check_cores(machine: InspectedMachine) -> Iterator[Finding]:
    """The cores, a quota of them, and the node of each GPU."""
    cores = usable_cores()
    folders = [path.parent.name for path in machine.paths("sys/devices/system/node/node[0-9]*/cpulist")]
    nodes = {
        int(name.removeprefix("node")): parse_list(machine.read(f"sys/devices/system/node/{name}/cpulist"))
        for name in folders
    }
    yield fine(f"this process may use {len(cores)} core(s) on {max(1, len(nodes))} NUMA node(s)")
    yield from _quota(machine, len(cores))
    if len(nodes) > 1:
        yield from _far(machine, cores, nodes)
        if machine.read("proc/sys/kernel/numa_balancing") == "1" and machine.has_nvidia_gpu:
            yield note(
                "the kernel moves pages between NUMA nodes by itself (kernel.numa_balancing = 1)",
                "Large copies are interrupted by faults, and their times differ.",
                "An administrator ends it: sysctl kernel.numa_balancing=0",
            )


def _quota(machine: InspectedMachine, cores: int) -> Iterator[Finding]:
    quota = _quota_cores(machine)
    if quota is not None and quota < cores:
        yield slow(
            f"the container may use the time of {quota:.1f} cores, and sees {cores}",
            "xferlib starts threads for the cores that it sees; the kernel stops them all when the time is used up.",
            f"Set XFERLIB_THREADS={max(1, int(quota))}, or start the container with a set of cores (--cpuset-cpus).",
        )


def _quota_cores(machine: InspectedMachine) -> float | None:
    words = (machine.read("sys/fs/cgroup/cpu.max") or "").split()
    if len(words) == 2:
        quota, period = number(words[0]), number(words[1])
    else:
        quota = number(machine.read("sys/fs/cgroup/cpu/cpu.cfs_quota_us"))
        period = number(machine.read("sys/fs/cgroup/cpu/cpu.cfs_period_us"))
    return quota / period if quota and period else None


def _far(machine: InspectedMachine, cores: set[int], nodes: dict[int, set[int]]) -> Iterator[Finding]:
    indices = {bus_address(each["bus"]): i for i, each in enumerate(machine.driver.get("devices", [])) if "bus" in each}
    for gpu in machine.gpus:
        index = indices.get(gpu.address)
        name = f"cuda:{index}" if index is not None else f"the GPU at {gpu.address}"
        text = gpu.read("numa_node")
        if text is None or not text.isdecimal() or int(text) not in nodes:
            continue
        if not cores & nodes[int(text)]:
            own = sorted(node for node, its in nodes.items() if its & cores)
            yield slow(
                f"{name} is on NUMA node {text}, and this process on node {', '.join(map(str, own))}",
                "Every transfer crosses the link between the processors.",
                f"Start programs with numactl --cpunodebind={text} --preferred={text}",
            )
        elif cores - nodes[int(text)]:
            yield note(
                f"{name} is on NUMA node {text}, and this process may use {len(nodes)} nodes",
                "Threads and memory may be on the far one: times differ from run to run.",
                f"For even times, start programs with numactl --cpunodebind={text} --preferred={text}",
            )


# The CUDA driver: whether it is there, why it does not start, and devices that the toolkit has left behind.

_OLDEST = (7, 5)
"""The lowest compute capability that NVRTC of CUDA 13 compiles for."""


class _Cause(NamedTuple):
    name: str
    consequence: str
    remedy: str


_NONE = "No CUDA library can be used."
_STATUS = {
    3: _Cause("CUDA_ERROR_NOT_INITIALIZED", _NONE, "Start a new process; if that does not help, reboot."),
    46: _Cause("CUDA_ERROR_DEVICE_UNAVAILABLE", _NONE, "End the process that holds the GPU for itself (nvidia-smi)."),
    100: _Cause(
        "CUDA_ERROR_NO_DEVICE",
        "The driver is installed and sees no device.",
        "Look at CUDA_VISIBLE_DEVICES, and start a container with its GPUs (docker run --gpus all).",
    ),
    101: _Cause("CUDA_ERROR_INVALID_DEVICE", _NONE, "Name existing devices in CUDA_VISIBLE_DEVICES (nvidia-smi -L)."),
    802: _Cause(
        "CUDA_ERROR_SYSTEM_NOT_READY",
        _NONE,
        "Start the fabric manager of the machine's NVSwitch (systemctl start nvidia-fabricmanager), or wait for it.",
    ),
    803: _Cause(
        "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        "The library libcuda and the kernel's module are of different versions, as after an update.",
        "Reboot, or load the module anew; in a container, use the host's libcuda.",
    ),
    804: _Cause(
        "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
        "The library libcuda is the forward-compatible one, which is for data-centre GPUs alone.",
        "Take the directory cuda/compat off LD_LIBRARY_PATH, and update the driver.",
    ),
    999: _Cause(
        "CUDA_ERROR_UNKNOWN",
        _NONE,
        "Load the module nvidia_uvm (modprobe nvidia_uvm), also after the machine slept; then read dmesg.",
    ),
}


def check_cuda(machine: InspectedMachine) -> Iterator[Finding]:
    """The driver, then each device."""
    found = machine.driver
    if "problem" in found:
        yield problem(
            f"asking the CUDA driver failed: {found['problem']}",
            "Programs that load a CUDA library end in the same way.",
            "Reinstall the NVIDIA driver; dmesg may say more.",
        )
    elif "absent" in found:
        yield _absent(machine, found["absent"])
    elif "status" in found:
        yield _explain_status(machine, found["status"])
    else:
        yield from _devices(found)


def _absent(machine: InspectedMachine, reason: str) -> Finding:
    if not machine.has_nvidia_gpu:
        return fine("no NVIDIA GPU: numpy, sim and torch on the CPU are what can run")
    return problem(
        f"this machine has an NVIDIA GPU, and the driver's library cannot be loaded: {reason}",
        _NONE,
        "Install the NVIDIA driver; start a container with its GPUs (docker run --gpus all).",
    )


def _explain_status(machine: InspectedMachine, status: int) -> Finding:
    cause = _STATUS.get(status, _Cause(f"error {status}", _NONE, "Look for the number in CUDA's driver API, CUresult."))
    is_plain_absence = status == 100 and not machine.has_nvidia_gpu
    return (note if is_plain_absence else problem)(
        f"the CUDA driver does not start: cuInit returns {cause.name}" + (f" ({status})" if status in _STATUS else ""),
        cause.consequence,
        cause.remedy,
    )


def _devices(found: dict[str, Any]) -> Iterator[Finding]:
    major, minor = found["version"]
    if not found["devices"]:
        yield note(f"the CUDA driver, for CUDA {major}.{minor}, sees no device", _NONE)
    for index, device in enumerate(found["devices"]):
        if "status" in device:
            yield problem(
                f"cuda:{index} cannot be used: cuDeviceGet returns error {device['status']}",
                "Libraries fail on this device.",
                "nvidia-smi and dmesg may say why.",
            )
            continue
        capability = tuple(device["capability"])
        name = f"cuda:{index} is {device['name']}, compute capability {capability[0]}.{capability[1]}"
        if capability < _OLDEST:
            yield problem(
                name,
                "CUDA 13 compiles for 7.5 and newer: kernels fail on it, transfers may work.",
                "Use another device, or backend numpy.",
            )
        else:
            yield fine(f"{name}; the driver is for CUDA {major}.{minor}")


# GPUs as `nvidia-smi` reports them: clocks, throttling, free memory, modes and errors. Nothing is set.

_THROTTLES = {
    0x4: ("the power cap", note),
    0x8: ("a hardware slowdown", slow),
    0x20: ("the driver, for its temperature", slow),
    0x40: ("the hardware, for its temperature", slow),
    0x80: ("the power supply's brake", slow),
}
"""Bits of NVML's clocks event reasons that say more than idle or chosen clocks."""
_LEAST_FREE_GPU = 0.1


def check_gpus(machine: InspectedMachine) -> Iterator[Finding]:
    """Each GPU, or why nothing is known of them."""
    if not machine.smi and machine.has_nvidia_gpu:
        yield note(
            "nvidia-smi gives no answer",
            "Clocks, throttling and other processes' memory were not looked at.",
            "Install the driver's utilities; give a container the driver capability `utility`.",
        )
    for gpu in machine.smi:
        name = f"GPU {gpu.get('index', '?')} ({gpu.get('name', 'of unknown name')})"
        found = [*_clocks(name, gpu), *_memory(name, gpu), *_sharers(name, gpu, machine), *_modes(name, gpu)]
        if not any(each.severity in (PROBLEM, SLOW) for each in found):
            clock, most = gpu.get("clocks.current.sm", "?"), gpu.get("clocks.max.sm", "?")
            state = gpu.get("pstate", "?")
            yield fine(f"{name}: {clock} of {most} MHz in state {state}, not throttled")
        yield from found


def _clocks(name: str, gpu: dict[str, str]) -> Iterator[Finding]:
    text = gpu.get("clocks_event_reasons.active") or gpu.get("clocks_throttle_reasons.active") or ""
    try:
        reasons = int(text, 16)
    except ValueError:
        return
    clock, most = gpu.get("clocks.current.sm", "?"), gpu.get("clocks.max.sm", "?")
    for bit, (cause, found) in _THROTTLES.items():
        if reasons & bit:
            yield found(
                f"{name} runs at {clock} of {most} MHz, held back by {cause}",
                "Kernels take longer, and times differ from run to run.",
                "Look at cooling and power (nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER).",
            )


def _memory(name: str, gpu: dict[str, str]) -> Iterator[Finding]:
    free, total = number(gpu.get("memory.free")), number(gpu.get("memory.total"))
    if free is not None and total and free < _LEAST_FREE_GPU * total:
        yield slow(
            f"{name} has {free:.0f} of {total:.0f} MiB free",
            "Other processes hold the rest: large arrays end in DeviceMemoryError.",
            "End those processes (nvidia-smi lists them), or use another device.",
        )


def _sharers(name: str, gpu: dict[str, str], machine: InspectedMachine) -> Iterator[Finding]:
    bus = gpu.get("pci.bus_id")
    processes = [each["pid"] for each in machine.compute_apps if each.get("gpu_bus_id") == bus]
    if bus is not None and processes:
        yield note(
            f"{name} has contexts of {len(processes)} process(es): {', '.join(processes[:8])}",
            "They share its memory, and take turns on it: times differ from run to run.",
            "Measure when they have ended, or on another device.",
        )._replace(check="contexts")


def _modes(name: str, gpu: dict[str, str]) -> Iterator[Finding]:
    mode = gpu.get("compute_mode", "")
    if mode == "Prohibited":
        yield problem(
            f"{name} is in compute mode {mode}",
            "No process can make a CUDA context on it.",
            "An administrator allows it: nvidia-smi -c DEFAULT",
        )
    elif mode.startswith("Exclusive"):
        yield note(
            f"{name} is in compute mode {mode}",
            "One process at a time can use it: workers of a pool, and a second notebook, fail.",
            "An administrator allows more: nvidia-smi -c DEFAULT",
        )
    if gpu.get("persistence_mode") == "Disabled":
        yield note(
            f"{name} has persistence mode off",
            "Where no process uses the GPU, the next one waits until the driver has started it again.",
            "An administrator runs nvidia-persistenced, or nvidia-smi -pm 1.",
        )
    if gpu.get("mig.mode.current") == "Enabled":
        yield note(f"{name} is split into MIG instances", "A process sees one instance, with a part of memory.")
    errors = number(gpu.get("ecc.errors.uncorrected.volatile.total"))
    if errors:
        yield problem(
            f"{name} has had {errors:.0f} uncorrected memory error(s) since the driver started",
            "Results may be wrong.",
            "Stop using it; nvidia-smi -q -d ECC,PAGE_RETIREMENT says more.",
        )


# The PCIe link of each GPU: its width and generation, against what both ends can do.

_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
"""By GT/s."""


class _Link(NamedTuple):
    name: str
    width: int | None
    most_width: int | None
    generation: int | None
    most_generation: int | None
    own_generation: int | None
    """Of the GPU itself; the slot may have less."""
    is_busy: bool


def check_links(machine: InspectedMachine) -> Iterator[Finding]:
    """Each link; `nvidia-smi` is asked first, since it knows whether the GPU is idle."""
    for link in [*_from_smi(machine)] or [*map(_from_kernel, machine.gpus)]:
        found = [*_judge_link(link)]
        yield from found
        if not found and link.width and link.most_generation:
            yield fine(f"{link.name}: PCIe {link.most_generation}.0 x{link.width}")


def _judge_link(link: _Link) -> Iterator[Finding]:
    if link.width and link.most_width and link.width < link.most_width:
        yield slow(
            f"{link.name} is linked by {link.width} of {link.most_width} PCIe lanes",
            f"Transfers reach {100 * link.width // link.most_width} % of what a full link carries.",
            "Put the card into a slot with all lanes, seat it anew, and look at the slot's setting in the firmware.",
        )
    if link.generation and link.most_generation and link.generation < link.most_generation and link.is_busy:
        yield slow(
            f"{link.name} is linked by PCIe {link.generation}.0, and both ends can do {link.most_generation}.0",
            "Transfers reach a half or less of what the link carries.",
            "Look at the slot's setting in the firmware, at risers and cables, and in dmesg for PCIe errors.",
        )
    if link.own_generation and link.most_generation and link.most_generation < link.own_generation:
        yield note(
            f"{link.name} can do PCIe {link.own_generation}.0, and its slot {link.most_generation}.0",
            "Transfers are as fast as the slot.",
        )


def _from_smi(machine: InspectedMachine) -> Iterator[_Link]:
    for gpu in machine.smi:
        yield _Link(
            f"GPU {gpu.get('index', '?')}",
            _whole(gpu.get("pcie.link.width.current")),
            _whole(gpu.get("pcie.link.width.max")),
            _whole(gpu.get("pcie.link.gen.current")),
            _whole(gpu.get("pcie.link.gen.max")),
            _whole(gpu.get("pcie.link.gen.gpumax")),
            is_busy=gpu.get("pstate") == "P0" and (number(gpu.get("clocks.current.sm")) or 0) > _half_clock(gpu),
        )


def _half_clock(gpu: dict[str, str]) -> float:
    """A GPU in its highest state that runs slower than this is idle all the same, and so may its link be."""
    return (number(gpu.get("clocks.max.sm")) or 0) / 2


def _from_kernel(gpu: Gpu) -> _Link:
    return _Link(
        f"GPU at {gpu.address}",
        _whole(gpu.read("current_link_width")),
        _whole(gpu.read("max_link_width")),
        _generation(gpu.read("current_link_speed")),
        _generation(gpu.read("max_link_speed")),
        None,
        is_busy=False,  # the kernel does not tell, and an idle link is slow to save power
    )


def _whole(text: str | None) -> int | None:
    found = number(text)
    return int(found) if found is not None else None


def _generation(text: str | None) -> int | None:
    match = re.match(r"[\d.]+", text or "")
    return _GENERATIONS.get(float(match[0])) if match is not None else None


# Host memory: huge pages, the memory-lock limit, a container's limit, and the pinned pool's.

_GIB = 1 << 30
_MOST_LOCKED = 64 << 20
"""A limit below this is a default, not a choice."""


def check_memory(machine: InspectedMachine) -> Iterator[Finding]:
    """The memory of the machine, and each limit."""
    total = _total_nbytes(machine)
    if total:
        yield fine(f"{total / _GIB:.1f} GiB of host memory")
    yield from _huge_pages(machine)
    yield from _check_locked_memory(machine)
    yield from _container(machine, total)
    yield from _pool(machine, total)


def _total_nbytes(machine: InspectedMachine) -> int | None:
    for line in (machine.read("proc/meminfo") or "").splitlines():
        name, _, text = line.partition(":")
        if name == "MemTotal" and (kib := number(text)) is not None:
            return int(kib) << 10
    return None


def _huge_pages(machine: InspectedMachine) -> Iterator[Finding]:
    text = machine.read("sys/kernel/mm/transparent_hugepage/enabled")
    if text is not None and "[never]" in text:
        yield slow(
            "transparent huge pages are off",
            "A new result of to_host is made of pages of 4 KiB: the kernel clears and maps 512 times as many.",
            "An administrator allows them: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        )
    elif text is not None:
        yield fine("transparent huge pages are allowed")


def _check_locked_memory(machine: InspectedMachine) -> Iterator[Finding]:
    try:
        import resource
    except ImportError:  # not a POSIX system
        return
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    is_small = limit != resource.RLIM_INFINITY and limit < _MOST_LOCKED
    if is_small and machine.has_nvidia_gpu:
        yield note(
            f"a process may lock {limit >> 10} KiB of memory (ulimit -l)",
            "CUDA's pinned memory does not count; memory that InfiniBand or RDMA libraries register does, and fails.",
            "Start containers with --ulimit memlock=-1, or raise it in /etc/security/limits.conf.",
        )
    else:
        text = "any amount" if limit == resource.RLIM_INFINITY else f"{limit >> 10} KiB"
        yield fine(f"a process may lock {text} of memory (ulimit -l)")


def _container(machine: InspectedMachine, total: int | None) -> Iterator[Finding]:
    limit = _limit_nbytes(machine)
    if limit is None or (total is not None and limit >= total):
        return
    yield note(
        f"the container may use {limit / _GIB:.1f} GiB of memory",
        "Pinned memory counts and cannot be swapped; beyond the limit the kernel ends a process.",
        "Set XFERLIB_PINNED_LIMIT and XFERLIB_HOST_CACHE where programs pin or fetch much.",
    )


def _limit_nbytes(machine: InspectedMachine) -> int | None:
    """The limit of the process's control group, as a container sees it; None where there is none."""
    for path in ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"):
        limit = number(machine.read(path))
        if limit is not None:
            return int(limit)
    return None


def _pool(machine: InspectedMachine, total: int | None) -> Iterator[Finding]:
    limit = _read_setting(machine, "pinned_limit")
    if limit:
        too_large = total is not None and limit > total // 2
        yield (slow if too_large else note)(
            f"the pinned pool may hold {limit / _GIB:.2f} GiB (XFERLIB_PINNED_LIMIT)",
            "That is more than half of the memory: the rest of the system may swap."
            if too_large
            else "A full pool raises PinnedMemoryError, or waits, as the call chooses.",
            "Set a lower limit." if too_large else "",
        )


def _read_setting(machine: InspectedMachine, name: str) -> Any:
    """A setting by its variable; its default where that is unset or cannot be used."""
    setting = next(each for each in fields(process.Config) if each.name == name)
    try:
        return process.from_environment(setting, machine.environ)
    except ConfigError:
        return setting.default


# Environment variables: misspelt names, values that cannot be used, and CUDA's own that make programs slow.

_PREFIX = "XFERLIB_"
_OFF = ("", "0")
CHOICES = ("XFERLIB_BACKEND", "XFERLIB_DEVICE")
"""The variables that choose the default."""
_KNOWN = {setting.metadata["variable"]: setting for setting in fields(process.Config)}


def check_variables(machine: InspectedMachine) -> Iterator[Finding]:
    """All about variables; one finding that all is well where nothing else is found."""
    found = [*_names(machine.environ), *_values(machine.environ), *_speed(machine.environ), *_cuda(machine)]
    given = sorted(name for name in _KNOWN if machine.environ.get(name, "").strip())
    if not any(each.severity == PROBLEM for each in found):
        text = ", ".join(f"{name}={machine.environ[name]}" for name in given)
        yield fine(f"{text}: all can be used" if given else "no XFERLIB_* variable is set")
    yield from found


def usable(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without variables that end every program or draw a warning: for trials of something else."""
    broken = {
        *process.misspelt(environ),
        *process.elsewhere(environ),
        *(name for name in _KNOWN if _error(name, environ)),
    }
    broken |= set(CHOICES)
    return {name: value for name, value in environ.items() if name not in broken}


def _error(name: str, environ: Mapping[str, str]) -> str:
    try:
        process.from_environment(_KNOWN[name], environ)
    except ConfigError as error:
        return str(error)
    return ""


def _names(environ: Mapping[str, str]) -> Iterator[Finding]:
    misspelt = process.misspelt(environ)
    for name, meant in misspelt.items():
        yield problem(
            f"{name} is set, which xferlib does not know (did you mean {meant}?)",
            "Programs that use xferlib stop at its first call, with a ConfigError.",
            f"Rename it to {meant}, or unset it.",
        )
    for name, meant in process.elsewhere(environ).items():
        yield note(
            f"{name} is set (did you mean {meant}?)",
            "xferlib does not read it, and programs that use xferlib warn of it.",
            f"If xferlib should, rename it to {meant}; if it is another program's, set {meant} as well.",
        )
    for name in sorted(environ):
        if name.startswith(_PREFIX) and name not in _KNOWN and name not in misspelt:
            yield note(f"{name} is set, and the library does not read it", "It has no effect.")


def _values(environ: Mapping[str, str]) -> Iterator[Finding]:
    for name in _KNOWN:
        if message := _error(name, environ):
            fact, _, remedy = message.rpartition("; ")
            yield problem(
                fact,
                "Programs that use xferlib stop at its first call, with a ConfigError.",
                f"{remedy[:1].upper()}{remedy[1:]}.",
            )
    yield from choice(environ)


def choice(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Faults of the variables that choose the default; loads no backend."""
    backend, names = environ.get("XFERLIB_BACKEND", "").strip(), registry.names()
    if backend.isidentifier() and backend not in names:
        yield problem(
            f"XFERLIB_BACKEND={backend!r} names no backend{did_you_mean(backend, names)}",
            "Calls that name no backend themselves fail with a BackendNotFoundError.",
            f"Set it to one of {', '.join(names)}, or unset it.",
        )
        return
    try:
        registry.environment_device(
            process.Config(backend=backend or None, device=environ.get("XFERLIB_DEVICE", "").strip() or None)
        )
    except XferError as error:
        fact, _, remedy = str(error).rpartition("; ")
        yield problem(
            fact,
            f"Calls that name no device themselves fail with a {type(error).__name__}.",
            f"{remedy[:1].upper()}{remedy[1:]}.",
        )


def _speed(environ: Mapping[str, str]) -> Iterator[Finding]:
    if environ.get("XFERLIB_NATIVE", "").strip() == "off":
        yield slow(
            "XFERLIB_NATIVE=off",
            "Large transfers are staged by one Python thread each, and driver calls go through ctypes.",
            "Unset XFERLIB_NATIVE.",
        )
    threads, cores = environ.get("XFERLIB_THREADS", "").strip(), len(usable_cores())
    if threads.isdecimal() and int(threads) > cores:
        yield slow(
            f"XFERLIB_THREADS={threads}, and this process may use {cores} core(s)",
            "Threads that stage wait for one another's core.",
            f"Set XFERLIB_THREADS to {cores} at most, or unset it.",
        )


def _cuda(machine: InspectedMachine) -> Iterator[Finding]:
    environ = machine.environ
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and machine.has_nvidia_gpu:
        is_empty = visible.strip() in ("", "-1", "NoDevFiles")
        yield (problem if is_empty else note)(
            f"CUDA_VISIBLE_DEVICES={visible!r}",
            "Programs see no CUDA device." if is_empty else "Programs see these devices alone, numbered from 0.",
            "Unset it, or name the devices that programs may use." if is_empty else "",
        )
    for name, consequence in _SLOW_WHERE_SET.items():
        if environ.get(name, "") not in _OFF:
            yield slow(f"{name}={environ[name]}", consequence, f"Unset {name}.")
    if environ.get("CUDA_DEVICE_MAX_CONNECTIONS", "") == "1":
        yield slow(
            "CUDA_DEVICE_MAX_CONNECTIONS=1",
            "All streams share one queue to the device: copies wait for kernels of other streams.",
            "Unset it, unless a library such as Megatron asks for it.",
        )
    if environ.get("CUDA_DISABLE_JIT", "") not in _OFF:
        yield note(
            f"CUDA_DISABLE_JIT={environ['CUDA_DISABLE_JIT']}",
            "Kernels of libraries without machine code for this GPU fail to load; xferlib's have it.",
            "Unset CUDA_DISABLE_JIT.",
        )
    if environ.get("CUDA_MODULE_LOADING", "").upper() == "EAGER":
        yield note(
            f"CUDA_MODULE_LOADING={environ['CUDA_MODULE_LOADING']}",
            "Libraries load all their kernels at the first use: programs begin later and use more device memory.",
            "Unset it: kernels are then loaded as they are called.",
        )


_SLOW_WHERE_SET = {
    "CUDA_LAUNCH_BLOCKING": "Each kernel launch waits for the kernel's end: nothing overlaps.",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "Each tensor is a cudaMalloc, which waits for the device.",
}


# Each backend tried in a process of its own, and those of CUDA together in one: findings from their answers.

_ON_CUDA = ("cupy", "torch", "pycuda")


def check_backends(
    machine: InspectedMachine, chosen: Sequence[str], report: Callable[[str], None]
) -> Iterator[Finding]:
    """The backends in turn, those of them that are installed; ``report`` is told which one is tried."""
    environ = usable(machine.environ)
    on_cuda = []
    given = {name: machine.environ[name] for name in CHOICES if machine.environ.get(name, "").strip()}
    if given and not any(choice(machine.environ)):
        report("trying the default device")
        text = ", ".join(f"{name}={value}" for name, value in given.items())
        yield from _default(text, ask("trial", environ={**environ, **given}))
    for name in chosen:
        if not registry.is_installed(name):
            yield fine(f"{name} is not installed ({registry.library(name)[1]})")
            continue
        report(f"trying {name}")
        answer = ask("trial", name, environ=environ)
        if any(each["device"].startswith(f"{name}:cuda") for each in answer.get("devices", [])):
            on_cuda.append(name)
        yield from _judge_trial(machine, name, answer)
    if machine.cuda_count and not on_cuda and set(_ON_CUDA) <= set(chosen):
        yield slow(
            f"this machine has {machine.cuda_count} CUDA device(s), and no backend that runs on them",
            "Programs run on the CPU.",
            install_command("cupy"),
        )
    if len(on_cuda) > 1:
        report(f"trying {', '.join(on_cuda)} together")
        yield _judge_together(on_cuda, ask("together", *on_cuda, environ=environ))._replace(check="contexts")


def _default(given: str, answer: dict[str, Any]) -> Iterator[Finding]:
    """The default device as the variables choose it."""
    wrong = answer.get("problem") or answer.get("reason")
    if wrong is None:
        yield fine(f"{given}: the default device is {answer['device']}")
    else:
        remedy = "Mend or unset the variables." if "problem" in answer else wrong.rpartition("; ")[2]
        yield problem(
            f"with {given} the first call fails: {wrong}",
            "Calls that name no device themselves fail.",
            f"{remedy[:1].upper()}{remedy[1:]}",
        )


def _judge_trial(machine: InspectedMachine, name: str, answer: dict[str, Any]) -> Iterator[Finding]:
    if "problem" in answer:
        yield problem(
            f"trying {name} failed: {answer['problem']}",
            f"Programs that use {name} end in the same way.",
            f"Install its library anew: {registry.library(name)[1]}",
        )
    elif "reason" in answer:
        is_expected = name in _ON_CUDA and not machine.cuda_count
        yield (note if is_expected else problem)(
            f"{name} is installed and cannot run here: {answer['reason']}",
            "Calls that name it fail." if is_expected else f"Programs that use {name} fail.",
            "" if is_expected else answer["install"],
        )
    for device in answer.get("devices", []):
        yield from _device(device)


def _device(found: dict[str, Any]) -> Iterator[Finding]:
    device = found["device"]
    for wrong in found["wrong"]:
        yield problem(
            f"{device}: {wrong}",
            "Programs on this device fail, or compute something wrong.",
            "Look at the other findings first; then report it with the output of `xferlib doctor --json`.",
        )
    for left_out in found["left_out"]:
        yield note(f"{device}: {left_out}")
    if not found["wrong"]:
        right = "transfers" if found["left_out"] else "transfers and kernels"
        yield fine(f"{device} ({found['name']}): {right} are right, bit for bit")


def _judge_together(names: list[str], answer: dict[str, Any]) -> Finding:
    wrong = answer.get("wrong") or ([answer["problem"]] if "problem" in answer else [])
    together = ", ".join(names)
    if not wrong:
        return fine(f"{together} share their contexts in one process")
    return problem(
        f"{together} in one process: {'; '.join(wrong)}",
        "Programs that use several of these libraries fail.",
        "Use one of them, or install builds for one CUDA version; import pycuda.autoprimaryctx, not pycuda.autoinit.",
    )


# Installed versions: too old for xferlib, built for a newer CUDA than the driver's, or bad together.

_RUNTIME_EXTRAS = frozenset({"cuda", "cupy", "torch", "torch-cpu", "pycuda", "pycuda-math", "dask", "mpi"})
_CUPY = re.compile(r"cupy(?:-cuda(?P<major>\d\d)x|-rocm.*)?")
_TOOLKIT = re.compile(r"(?:cuda-bindings|nvidia-cuda-(?:nvrtc|runtime)(?:-cu\d\d)?)")
_FAMILY = ("numpy", "torch", "pycuda", "cuda-core", "cuda-bindings", "nvmath-python", "array-api-compat", "numba")
"""Packages whose own requirements are compared, beside those of CuPy."""
_TORCH_CUDA = re.compile(r"\+cu(\d+)(\d)$")


def check_versions(machine: InspectedMachine) -> Iterator[Finding]:
    """Versions against what xferlib needs, against one another, and against the driver."""
    installed = _list_distributions()
    found = [*_too_old(installed), *_together(installed), *_at_odds(installed), *_against_driver(machine, installed)]
    if not any(each.severity == PROBLEM for each in found):
        names = ("numpy", "torch", "cuda-core", "cuda-bindings", "pycuda", *_cupys(installed))
        text = ", ".join(f"{name} {installed[name]}" for name in names if name in installed)
        yield fine(f"{text or 'the installed libraries'}: known to work together")
    yield from found


def _list_distributions() -> dict[str, str]:
    """Each installed distribution's version, by its normalised name."""
    found: dict[str, str] = {}
    for each in metadata.distributions():
        name = each.metadata["Name"] if each.metadata is not None else None
        if name:  # a half-deleted one has no name
            found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), each.version or "")
    return found


def _cupys(installed: dict[str, str]) -> list[str]:
    return sorted(name for name in installed if _CUPY.fullmatch(name))


def _too_old(installed: dict[str, str]) -> Iterator[Finding]:
    try:
        wanted = metadata.requires("xferlib") or []
    except metadata.PackageNotFoundError:
        yield note("xferlib is used from a checkout: its requirements were not compared")
        return
    seen: set[str] = set()
    for requirement in wanted:
        name, limits, extra = _parts(requirement)
        version = installed.get(name)
        if version is None or name in seen or (extra and extra not in _RUNTIME_EXTRAS) or _fits(version, limits):
            continue
        seen.add(name)
        yield problem(
            f"{name} {version} is installed, and xferlib needs {limits}",
            "What xferlib calls of it may be absent, or behave otherwise.",
            f"pip install '{name}{limits}'",
        )


def _parts(requirement: str) -> tuple[str, str, str]:
    """Name, limits and extra of one of xferlib's own requirements: ``cuda-core>=1.0; extra == 'cuda'``."""
    plain, _, marker = requirement.partition(";")
    name, limits = re.fullmatch(r"([\w.-]+)(?:\[.*\])?\s*(.*?)\s*", plain).groups()  # type: ignore[union-attr]
    extra = re.search(r"extra == ['\"]([\w-]+)", marker)
    return name.lower(), limits, extra[1] if extra is not None else ""


def _fits(version: str, limits: str) -> bool:
    """Whether a version is within ``>=1.6,<2`` or ``==13.*``; limits of any other kind are not looked at."""
    found = _numbers(version)
    for operator, text in re.findall(r"(>=|<(?!=)|==)\s*([\d.]+)", limits):
        limit = _numbers(text)
        if operator == "==":
            is_within = found[: len(limit)] == limit
        else:
            is_within = (found < limit) == (operator == "<")
        if not is_within:
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"\d+", re.match(r"[\d.]*", version)[0]))  # type: ignore[index]


def _together(installed: dict[str, str]) -> Iterator[Finding]:
    if len(cupys := _cupys(installed)) > 1:
        yield problem(
            f"{', '.join(cupys)} are installed beside one another",
            "They overwrite one another's files in the package cupy, which then fails in ways of its own.",
            f"pip uninstall {' '.join(cupys)}, then install the one for your CUDA version.",
        )
    if "torch" in installed and "array-api-compat" not in installed:
        yield problem(
            f"torch {installed['torch']} is installed, and array-api-compat is not",
            "get_array_module of a tensor fails: its namespace is made of it.",
            install_command("torch-cpu", cpu_torch=True),
        )
    compiler, headers = installed.get("nvidia-cuda-nvrtc"), installed.get("nvidia-cuda-runtime")
    if compiler and headers and _pair(compiler) != _pair(headers):
        yield note(
            f"nvidia-cuda-nvrtc is {compiler}, and nvidia-cuda-runtime is {headers}",
            "Kernels are compiled with headers of another CUDA release: one that includes cuda_fp16.h may not compile.",
            "Install both of one release.",
        )


def _at_odds(installed: dict[str, str]) -> Iterator[Finding]:
    """Requirements of the libraries on one another, those that hold on every platform."""
    family = {*_FAMILY, *_cupys(installed)} & set(installed)
    for name in sorted(family):
        for requirement in metadata.requires(name) or []:
            if ";" in requirement:
                continue
            other, limits, _ = _parts(requirement)
            if other in family and not _fits(installed[other], limits):
                yield note(
                    f"{name} {installed[name]} asks for {other}{limits}, and {other} {installed[other]} is installed",
                    f"{name} may fail in ways of its own.",
                    f"pip install '{other}{limits}', or another version of {name}.",
                )


def _against_driver(machine: InspectedMachine, installed: dict[str, str]) -> Iterator[Finding]:
    version = machine.driver.get("version")
    if not version:
        return
    driver = (version[0], version[1])
    for name, built in _list_cuda_versions(installed):
        if built[0] > driver[0]:
            yield problem(
                f"{name} is for CUDA {built[0]}, and the driver is for CUDA {driver[0]}.{driver[1]}",
                "It cannot use the GPU.",
                f"Update the NVIDIA driver, or install the build of {name.partition(' ')[0]} for CUDA {driver[0]}.",
            )
        elif built > driver:
            yield note(
                f"{name} is for CUDA {built[0]}.{built[1]}, and the driver is for CUDA {driver[0]}.{driver[1]}",
                f"It runs, but what needs the newer driver fails, such as PTX of CUDA {built[0]}.{built[1]}.",
                "Update the NVIDIA driver if a library asks for it.",
            )
    yield from _torch_without_cuda(machine, installed)


def _torch_without_cuda(machine: InspectedMachine, installed: dict[str, str]) -> Iterator[Finding]:
    if machine.cuda_count and installed.get("torch", "").endswith("+cpu"):
        yield slow(
            f"torch {installed['torch']} is a build without CUDA, and this machine has a GPU",
            "Tensors stay on the CPU.",
            "Install the build of PyTorch for your CUDA version, or use CuPy.",
        )


def _list_cuda_versions(installed: dict[str, str]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Each library with its version, and the CUDA version that it was built for."""
    for name, version in sorted(installed.items()):
        if _TOOLKIT.fullmatch(name) and (pair := _pair(version)) is not None:
            yield f"{name} {version}", pair
        elif (match := _CUPY.fullmatch(name)) is not None and match["major"]:
            yield f"{name} {version}", (int(match["major"]), 0)
        elif name == "torch" and (match := _TORCH_CUDA.search(version)) is not None:
            yield f"{name} {version}", (int(match[1]), int(match[2]))


def _pair(version: str) -> Any:
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match is not None else None


# The command: every check in turn, none of which can end another, and their findings in order.

Check = Callable[[InspectedMachine], Iterator[Finding]]

_CHECKS: dict[str, Check] = {
    "variables": check_variables,
    "driver": check_cuda,
    "versions": check_versions,
    "compiled parts": check_native,
    "GPUs": check_gpus,
    "links": check_links,
    "cores": check_cores,
    "memory": check_memory,
    "cache": check_caches,
}
_INDENT = 9


def run_doctor(argv: list[str]) -> int:
    """Print the findings, the worst first; 1 if one of them is a problem."""
    options = doctor_parser().parse_args(argv)
    machine = InspectedMachine(options.root, dict(os.environ))
    checks = dict(_CHECKS)
    if not options.quick:
        checks["backends"] = partial(check_backends, chosen=options.backend or registry.names(), report=_report)
    found = sort_findings([each for name, check in checks.items() for each in _run_check(name, check, machine)])
    status = int(any(each.severity == PROBLEM for each in found))
    if options.json:
        print(json.dumps({"version": __version__, "status": status, "findings": [each._asdict() for each in found]}))
    else:
        print(as_text(found, terminal_columns()))
    return status


def doctor_parser() -> argparse.ArgumentParser:
    """The arguments of ``doctor``."""
    made = argparse.ArgumentParser(
        prog="xferlib doctor",
        description="Find out what on this machine makes programs fail or slow, and what to do about it. "
        "Nothing is changed.",
        epilog="The exit status is 1 if there is a problem, 0 if there is none.",
    )
    made.add_argument("--json", action="store_true", help="print the same as JSON")
    made.add_argument("--quick", action="store_true", help="leave out the trials on each backend, which take seconds")
    names = registry.names()
    made.add_argument(
        "--backend",
        action="append",
        choices=names,
        metavar="NAME",
        help=f"try this backend alone: {', '.join(names)}; may be given repeatedly",
    )
    made.add_argument(
        "--root",
        type=_directory,
        metavar="DIR",
        default=Path("/"),
        help="where proc and sys are, such as those of a host",
    )
    return made


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
        yield note(
            f"this check failed: {type(error).__name__}: {error}",
            "It says nothing about the machine.",
            "Report it with the output of `xferlib doctor --json`.",
        )._replace(check=name)


def as_text(found: list[Finding], width: int | None) -> str:
    """The findings as lines of at most ``width`` columns; of any length where that is None, as in a pipe."""
    lines = []
    for each in found:
        texts = [each.fact, each.consequence, each.remedy]
        paragraphs = [text for text in texts if text]
        for number, text in enumerate(paragraphs):
            head = each.severity if number == 0 else ""
            lines += wrap(f"{head:{_INDENT}}{text}", width, indent=_INDENT)
        if len(paragraphs) > 1:
            lines.append("")
    return "\n".join([*lines, *([] if lines[-1:] == [""] else [""]), _summary(found)])


def _summary(found: list[Finding]) -> str:
    counts = {severity: sum(each.severity == severity for each in found) for severity in SEVERITIES}
    plural = {PROBLEM: "problems", NOTE: "notes"}
    return ", ".join(f"{n} {plural.get(name, name) if n != 1 else name}" for name, n in counts.items())


COMMANDS = {"doctor": Command(doctor_parser, run_doctor)}
