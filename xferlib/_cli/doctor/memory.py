"""Host memory: huge pages, the memory-lock limit, a container's limit, and the pinned pool's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from xferlib._cli.doctor.finding import Finding, fine, note, slow
from xferlib._cli.doctor.machine import InspectedMachine, number
from xferlib._runtime import config
from xferlib.errors import ConfigError

_GIB = 1 << 30
_MOST_LOCKED = 64 << 20
"""A limit below this is a default, not a choice."""


def findings(machine: InspectedMachine) -> Iterator[Finding]:
    """The memory of the machine, and each limit."""
    total = _total_nbytes(machine)
    if total:
        yield fine(f"{total / _GIB:.1f} GiB of host memory")
    yield from _huge_pages(machine)
    yield from _locked(machine)
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


def _locked(machine: InspectedMachine) -> Iterator[Finding]:
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
    limit = _setting(machine, "pinned_limit")
    if limit:
        too_large = total is not None and limit > total // 2
        yield (slow if too_large else note)(
            f"the pinned pool may hold {limit / _GIB:.2f} GiB (XFERLIB_PINNED_LIMIT)",
            "That is more than half of the memory: the rest of the system may swap."
            if too_large
            else "A full pool raises PinnedMemoryError, or waits, as the call chooses.",
            "Set a lower limit." if too_large else "",
        )


def _setting(machine: InspectedMachine, name: str) -> Any:
    """A setting by its variable; its default where that is unset or cannot be used."""
    setting = next(each for each in fields(config.Config) if each.name == name)
    try:
        return config.from_environment(setting, machine.environ)
    except ConfigError:
        return setting.default
