"""Cores and NUMA nodes: which of them this process may use, and which are near the GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from xferlib._cli.doctor.finding import Finding, fine, note, slow
from xferlib._cli.doctor.machine import InspectedMachine, bus_address, number, parse_list, usable_cores


def findings(machine: InspectedMachine) -> Iterator[Finding]:
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
