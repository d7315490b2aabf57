"""Environment variables: misspelt names, values that cannot be used, and CUDA's own that make programs slow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields

from xferlib._cli.doctor.finding import PROBLEM, Finding, fine, note, problem, slow
from xferlib._cli.doctor.machine import InspectedMachine, usable_cores
from xferlib._core import defaults, registry
from xferlib._runtime import config
from xferlib.errors import ConfigError, XferError, did_you_mean

_PREFIX = "XFERLIB_"
_OFF = ("", "0")
CHOICES = ("XFERLIB_BACKEND", "XFERLIB_DEVICE")
"""The variables that choose the default."""
_KNOWN = {setting.metadata["variable"]: setting for setting in fields(config.Config)}


def findings(machine: InspectedMachine) -> Iterator[Finding]:
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
        *config.misspelt(environ),
        *config.elsewhere(environ),
        *(name for name in _KNOWN if _error(name, environ)),
    }
    broken |= set(CHOICES)
    return {name: value for name, value in environ.items() if name not in broken}


def _error(name: str, environ: Mapping[str, str]) -> str:
    try:
        config.from_environment(_KNOWN[name], environ)
    except ConfigError as error:
        return str(error)
    return ""


def _names(environ: Mapping[str, str]) -> Iterator[Finding]:
    misspelt = config.misspelt(environ)
    for name, meant in misspelt.items():
        yield problem(
            f"{name} is set, which xferlib does not know (did you mean {meant}?)",
            "Programs that use xferlib stop at its first call, with a ConfigError.",
            f"Rename it to {meant}, or unset it.",
        )
    for name, meant in config.elsewhere(environ).items():
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
        defaults.environment_device(
            config.Config(backend=backend or None, device=environ.get("XFERLIB_DEVICE", "").strip() or None)
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
