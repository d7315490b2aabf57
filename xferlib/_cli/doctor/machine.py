"""The machine as the checks see it: files of the kernel, the environment, `nvidia-smi`, child processes.

Everything here answers None or nothing where the machine does not tell, and raises nothing.
"""

from __future__ import annotations

import csv
import functools
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xferlib._cli.doctor import child
from xferlib._native import cuda_driver

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
        return child.answer_of_script(cuda_driver.__file__, cuda_driver.LIBRARY, environ=self.environ)

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
