"""The demo's result on one device."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(kw_only=True)
class Row:
    """One line of the table: a run, or the reason why there is none."""

    backend: str
    device: str = ""
    device_name: str = ""
    reason: str = ""
    """The reason why it did not run; empty if it did."""
    has_failed: bool = False
    """Whether it should have run, and did not."""
    accuracy: float = 0.0
    images_per_s: float = 0.0
    nbytes: int = 0
    difference: float = 0.0
    """Largest absolute difference of a trained weight from NumPy's."""
    losses: list[float] = field(default_factory=list)
