"""Installed versions: too old for xferlib, built for a newer CUDA than the driver's, or bad together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import metadata
from typing import Any

from xferlib._cli.doctor.finding import PROBLEM, Finding, fine, note, problem, slow
from xferlib._cli.doctor.machine import InspectedMachine
from xferlib._runtime.version import install_command

_RUNTIME_EXTRAS = frozenset({"cuda", "cupy", "torch", "torch-cpu", "pycuda", "pycuda-math", "dask", "mpi"})
_CUPY = re.compile(r"cupy(?:-cuda(?P<major>\d\d)x|-rocm.*)?")
_TOOLKIT = re.compile(r"(?:cuda-bindings|nvidia-cuda-(?:nvrtc|runtime)(?:-cu\d\d)?)")
_FAMILY = ("numpy", "torch", "pycuda", "cuda-core", "cuda-bindings", "nvmath-python", "array-api-compat", "numba")
"""Packages whose own requirements are compared, beside those of CuPy."""
_TORCH_CUDA = re.compile(r"\+cu(\d+)(\d)$")


def findings(machine: InspectedMachine) -> Iterator[Finding]:
    """Versions against what xferlib needs, against one another, and against the driver."""
    installed = _installed()
    found = [*_too_old(installed), *_together(installed), *_at_odds(installed), *_against_driver(machine, installed)]
    if not any(each.severity == PROBLEM for each in found):
        names = ("numpy", "torch", "cuda-core", "cuda-bindings", "pycuda", *_cupys(installed))
        text = ", ".join(f"{name} {installed[name]}" for name in names if name in installed)
        yield fine(f"{text or 'the installed libraries'}: known to work together")
    yield from found


def _installed() -> dict[str, str]:
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
    for name, built in _built_for(installed):
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


def _built_for(installed: dict[str, str]) -> Iterator[tuple[str, tuple[int, int]]]:
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
