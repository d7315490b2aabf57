"""GPUs as `nvidia-smi` reports them: clocks, throttling, free memory, modes and errors. Nothing is set."""

from __future__ import annotations

from collections.abc import Iterator

from xferlib._cli.doctor.finding import PROBLEM, SLOW, Finding, fine, note, problem, slow
from xferlib._cli.doctor.machine import InspectedMachine, number

_THROTTLES = {
    0x4: ("the power cap", note),
    0x8: ("a hardware slowdown", slow),
    0x20: ("the driver, for its temperature", slow),
    0x40: ("the hardware, for its temperature", slow),
    0x80: ("the power supply's brake", slow),
}
"""Bits of NVML's clocks event reasons that say more than idle or chosen clocks."""
_LEAST_FREE = 0.1


def findings(machine: InspectedMachine) -> Iterator[Finding]:
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
    if free is not None and total and free < _LEAST_FREE * total:
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
