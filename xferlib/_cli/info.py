"""``xferlib info``: this machine's backends and devices, and xferlib's settings."""

from __future__ import annotations

import argparse
import os
import platform
from dataclasses import fields
from importlib import metadata
from typing import TYPE_CHECKING, Any

from xferlib import __version__, _native
from xferlib._core import defaults, registry
from xferlib._native import driver_calls
from xferlib._runtime import config

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_DISTRIBUTIONS = ("numpy", "torch", "array-api-compat", "pycuda", "cuda-core", "cuda-bindings")


def main(argv: list[str]) -> int:
    """Print everything; an unusable ``XFERLIB_*`` variable is an error."""
    argparse.ArgumentParser(
        prog="xferlib info", description="Backends with their devices, the configuration, and versions."
    ).parse_args(argv)
    settings = config.get()
    for title, lines in (
        ("Backends", _backends()),
        ("Configuration", _configuration(settings)),
        ("Versions", _versions()),
    ):
        print(title)
        for line in lines:
            print(f"  {line}")
        print()
    return 0


def _backends() -> Iterator[str]:
    statuses = registry.available_backends()
    width = max(map(len, statuses))
    for status in statuses.values():
        if not status.is_available:
            yield f"{status.name:{width}}  unavailable: {status.reason}"
            yield f"{'':{width}}  install: {status.install}"
            continue
        backend = registry.get(status.name)
        for index, device in enumerate(backend.devices()):
            found = backend.device_properties(device)
            capability = ".".join(map(str, found.compute_capability))
            details = [str(device), found.name, f"{found.total_nbytes / (1 << 30):.1f} GiB"]
            if device.kind == "cuda":
                details.append(f"compute capability {capability}, {found.multiprocessor_count} multiprocessors")
            yield f"{status.name if index == 0 else '':{width}}  {', '.join(details)}"
    yield f"default: {defaults.default_backend().name}"


def _configuration(settings: config.Config) -> Iterator[str]:
    width = max(len(setting.metadata["variable"]) for setting in fields(settings))
    for setting in fields(settings):
        value = getattr(settings, setting.name)
        variable = setting.metadata["variable"]
        yield f"{variable:{width}}  {shown(value)}  ({_origin(setting, value)})"
        yield f"{'':{width}}    {setting.metadata['doc']}"


def shown(value: Any) -> str:
    """Format a setting's value as a person would write it."""
    if isinstance(value, frozenset):
        return ",".join(sorted(value)) or "unset"
    if isinstance(value, int) and value and value % (1 << 20) == 0:
        return f"{value >> 30} GiB" if value % (1 << 30) == 0 else f"{value >> 20} MiB"
    return "unset" if value is None else str(value)


def _origin(setting: Any, value: Any) -> str:
    """Return the origin of a value: it differs from the environment's only if `configure` changed it."""
    text = os.environ.get(setting.metadata["variable"], "").strip()
    given = setting.metadata["parse"](text) if text else setting.default
    if value != given:
        return "configure()"
    return "environment" if text else "default"


def _versions() -> Iterator[str]:
    yield f"xferlib {__version__}"
    yield f"Python {platform.python_version()} on {platform.platform()}"
    yield f"staging in C: {_native.why_absent() or 'compiled'}"
    yield f"driver calls in C: {driver_calls.why_absent() or 'compiled'}"
    for name in (*_DISTRIBUTIONS, *_cupy_distributions()):
        try:
            yield f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            yield f"{name} not installed"


def _cupy_distributions() -> Sequence[str]:
    """List the installed distributions of CuPy, which has one for each CUDA version."""
    return metadata.packages_distributions().get("cupy", ["cupy"])
