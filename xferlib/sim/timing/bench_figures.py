"""Reads a machine's figures from the output of the benchmarks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from xferlib.errors import ConfigError

Figures = str | Path | Mapping[str, Any]
_UP, _DOWN = "pinned to existing device array", "device to pinned host array"
_STAGED = "pageable to existing device array"


class Measured(NamedTuple):
    """A device's name, and bytes per second as in `Profile`; ``memory`` is None if not measured."""

    name: str
    h2d: float
    d2h: float
    staging: float
    memory: float | None = None


def read(transfers: Figures, kernels: Figures | None, nbytes: int | None) -> Measured:
    """The figures in the arguments of `Profile.from_bench`."""
    figures = _read(transfers)
    machine = figures.get("machine", {})
    results = figures.get("results", [])
    found = Measured(
        name=str(machine.get("device", "measured")),
        h2d=_speed(results, _UP, None),
        d2h=_speed(results, _DOWN, None),
        staging=_speed(results, _STAGED, nbytes),
    )
    if kernels is None:
        return found
    cases = [each for each in _read(kernels).get("results", []) if each["nbytes"]]
    speeds = [each["nbytes"] / seconds for each in cases for seconds in _ours(each)]
    if not speeds:
        raise ConfigError("the figures of kernels have no case that device memory limits; run that benchmark on a GPU")
    return found._replace(memory=max(speeds))


def _read(figures: Figures) -> Mapping[str, Any]:
    if isinstance(figures, Mapping):
        return figures
    try:
        found: Mapping[str, Any] = json.loads(Path(figures).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{figures} is not what a benchmark's `--json` writes: {error}") from error
    return found


def _ours(result: Mapping[str, Any]) -> list[float]:
    return [seconds for name, seconds in result["seconds"].items() if name.startswith("xferlib")]


def _speed(results: list[Mapping[str, Any]], case: str, nbytes: int | None) -> float:
    """Bytes per second of a case, for the largest transfer or the one nearest to ``nbytes``."""
    sized: dict[int, float] = {
        each["nbytes"]: min(_ours(each)) for each in results if each["case"] == case and _ours(each)
    }
    if not sized:
        raise ConfigError(
            f"the figures have no case {case!r}: run `xferlib bench transfer --json FILE` on a machine with a GPU"
        )
    size = max(sized) if nbytes is None else min(sized, key=lambda each: abs(each - nbytes))
    return size / sized[size]
