"""``xferlib info`` and ``cache``: this machine's backends and devices, xferlib's settings, the compiled kernels.

What one line cannot find out is that line's text: the others are printed all the same.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import Field
from functools import partial
from importlib import metadata, util
from typing import Any, NamedTuple

from xferlib import __version__, _native
from xferlib._cli.main import Command, argument, terminal_columns, wrap
from xferlib._core import registry
from xferlib._native import cuda_driver
from xferlib._runtime import process
from xferlib.errors import ConfigError
from xferlib.kernels import native_engine

_DISTRIBUTIONS = ("numpy", "torch", "array-api-compat", "pycuda", "cuda-core", "cuda-bindings")
_INDENT = 6


class Fact(NamedTuple):
    """One line: what it is about, what is known, and whether that is a failure."""

    name: str
    text: str
    is_failure: bool = False


def run_info(options: argparse.Namespace) -> int:
    """Print everything; 1 where a line says that something failed."""
    sections = {
        "Backends": [*_facts("backends", lambda: _backends(is_loading=options.load))],
        "Configuration": [*_facts("configuration", _configuration)],
        "CUDA on a CPU": [*_facts("CUDA on a CPU", _cuda_on_cpu)],
        "Versions": [*_facts("versions", _versions)],
    }
    if options.json:
        print(json.dumps({title.lower(): [each._asdict() for each in found] for title, found in sections.items()}))
    else:
        print(as_text(sections, terminal_columns()))
    return int(any(each.is_failure for found in sections.values() for each in found))


def as_text(sections: dict[str, list[Fact]], width: int | None) -> str:
    """The sections as lines of at most ``width`` columns; of any length where that is None, as in a pipe."""
    lines = []
    for title, found in sections.items():
        lines += [title]
        column = max((len(each.name) for each in found), default=0)
        for each in found:
            line = f"  {each.name:{column}}  {each.text}".rstrip()
            lines += wrap(line, width, indent=_INDENT)
        lines += [""]
    return "\n".join(lines)


def _facts(name: str, find: Callable[[], Iterator[Fact]]) -> Iterator[Fact]:
    """All that ``find`` gives; what ends it early is one more fact."""
    try:
        yield from find()
    except Exception as error:
        yield Fact(name, str(error) or type(error).__name__, is_failure=True)


def _backends(*, is_loading: bool) -> Iterator[Fact]:
    for name in registry.names():
        yield from _facts(name, partial(_report_loaded if is_loading or name == "numpy" else _report_installed, name))
    if not is_loading:
        yield from (Fact("driver", text) for text in cuda_driver.facts())
    yield from _facts("default", lambda: _default(is_loading=is_loading))


def _default(*, is_loading: bool) -> Iterator[Fact]:
    yield Fact("default", registry.default_backend().name if is_loading else registry.describe_default())


def _report_installed(name: str) -> Iterator[Fact]:
    module, install = registry.library(name)
    if not registry.is_installed(name):
        yield Fact(name, f"not installed: {install}")
    elif module == "xferlib":
        yield Fact(name, "part of xferlib")
    else:
        yield Fact(name, f"installed; `xferlib info --load` imports {module} and lists its devices")


def _report_loaded(name: str) -> Iterator[Fact]:
    status = registry.status(name)
    if not status.is_available:
        yield Fact(name, f"unavailable: {status.reason}; install: {status.install}")
        return
    backend = registry.get(name)
    for device in backend.devices():
        found = backend.device_properties(device)
        details = [str(device), found.name, f"{found.total_nbytes / (1 << 30):.1f} GiB"]
        if device.kind == "cuda":
            capability = ".".join(map(str, found.compute_capability))
            details.append(f"compute capability {capability}, {found.multiprocessor_count} multiprocessors")
        yield Fact(name, ", ".join(details))


def _configuration() -> Iterator[Fact]:
    try:
        settings: process.Config | None = process.get()
    except ConfigError:  # each variable says for itself what is wrong with it
        settings = None
    for name, meant in process.misspelt(os.environ).items():
        yield Fact(name, f"nothing reads this variable; did you mean {meant}?", is_failure=True)
    for setting in process.SETTINGS.values():
        yield from _facts(setting.metadata["variable"], partial(_report_setting, setting, settings))


def _report_setting(setting: Any, settings: process.Config | None) -> Iterator[Fact]:
    given = process.from_environment(setting, os.environ)
    value = given if settings is None else getattr(settings, setting.name)
    text = os.environ.get(setting.metadata["variable"], "").strip()
    origin = "configure()" if value != given else "environment" if text else "default"
    yield Fact(setting.metadata["variable"], f"{format_setting(setting, value)}  ({origin})  {setting.metadata['doc']}")


def format_setting(setting: Field[Any], value: Any) -> str:
    """Format a setting's value as a person would write it."""
    if isinstance(value, frozenset):
        return ",".join(sorted(value)) or "unset"
    if setting.metadata["parse"] is process.parse_nbytes and value and value % (1 << 20) == 0:
        return f"{value >> 30} GiB" if value % (1 << 30) == 0 else f"{value >> 20} MiB"
    return "unset" if value is None else str(value)


def _cuda_on_cpu() -> Iterator[Fact]:
    from xferlib.kernels import code_cache
    from xferlib.kernels.cuda_cpu import toolchain

    for part in toolchain.find_parts():
        yield Fact(part.name, "; ".join(filter(None, (part.text, part.remedy))))
    found = code_cache.info()
    yield Fact("cache", found.problem or str(found.directory))


def _versions() -> Iterator[Fact]:
    yield Fact("xferlib", __version__)
    yield Fact("Python", f"{platform.python_version()} on {platform.platform()}")
    yield Fact("staging in C:", _native.why_absent() or "compiled")
    yield Fact("driver calls in C:", _native.why_calls_absent() or "compiled")
    yield Fact("kernels on a CPU:", native_engine.describe_engine())
    for name in (*_DISTRIBUTIONS, *_cupy_distributions()):
        try:
            yield Fact(name, metadata.version(name))
        except metadata.PackageNotFoundError:
            yield Fact(name, "not installed")


def _cupy_distributions() -> Sequence[str]:
    """List the installed distributions of CuPy, which has one for each CUDA version."""
    if util.find_spec("cupy") is None:
        return ["cupy"]
    return metadata.packages_distributions().get("cupy", ["cupy"])


# `xferlib cache`: the compiled kernels on disk.


def run_cache_info(_: argparse.Namespace) -> int:
    """Print where compiled kernels are kept, and how many."""
    from xferlib.kernels import code_cache as cache

    found = cache.info()
    print(f"{found.directory}: {found.files} kernel(s), {found.nbytes / 1e6:.1f} MB")
    if found.problem:
        print(f"not used: {found.problem}")
    return 0


def run_cache_clear(_: argparse.Namespace) -> int:
    """Delete the compiled kernels; 1 where the directory cannot be used."""
    from xferlib.kernels import code_cache as cache

    found = cache.clear()
    if found.problem:
        print(f"nothing deleted: {found.problem}")
        return 1
    print(f"{found.directory}: deleted {found.files} kernel(s), {found.nbytes / 1e6:.1f} MB")
    return 0


COMMANDS = {
    "info": Command(
        run_info,
        "Backends with their devices, the configuration, and versions.",
        lambda: (
            argument("--load", action="store_true", help="import every library, and list the devices that it sees"),
            argument("--json", action="store_true", help="print the same as JSON"),
        ),
    ),
    "cache info": Command(run_cache_info, "Print where compiled kernels are kept, and how many."),
    "cache clear": Command(run_cache_clear, "Delete the compiled kernels; programs that run keep theirs."),
}
