"""The steps that a forked child takes first."""

from __future__ import annotations

import os
from collections.abc import Callable


def reset_in_child(step: Callable[[], object]) -> None:
    """Call ``step`` in each forked child before anything else: locks and tables are the parent's, its threads gone."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=step)
