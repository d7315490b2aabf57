"""Finds the example program, so that the command runs what people read and not a copy."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib import Device

_MODULE = "xferlib._cli.demo.digits"


class TrainingResult(Protocol):
    """The program's report of one run."""

    accuracy: float
    weights: dict[str, Any]
    losses: list[float]
    epoch_s: list[float]
    nbytes: int


class DemoProgram(Protocol):
    """The module ``digits.py``."""

    TRAIN: int

    def train(self, device: Device, epochs: int, seed: int, on_epoch: Callable[[], Any]) -> TrainingResult: ...


def load() -> DemoProgram:
    """The module: inside the package when installed from a wheel, under ``examples`` in a source tree."""
    here = Path(__file__).parent
    path = here / "digits.py"
    if not path.exists():
        path = here.parents[2] / "examples" / "digits.py"
    spec = importlib.util.spec_from_file_location(_MODULE, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[_MODULE] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return cast("DemoProgram", module)
