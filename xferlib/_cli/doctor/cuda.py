"""The CUDA driver: whether it is there, why it does not start, and devices that the toolkit has left behind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from xferlib._cli.doctor.finding import Finding, fine, note, problem
from xferlib._cli.doctor.machine import InspectedMachine

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


def findings(machine: InspectedMachine) -> Iterator[Finding]:
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
        yield _refused(machine, found["status"])
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


def _refused(machine: InspectedMachine, status: int) -> Finding:
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
