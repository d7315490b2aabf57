"""The parts in C: compiled or not, and why not."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from xferlib import _native
from xferlib._cli.doctor.finding import Finding, fine, note, slow
from xferlib._cli.doctor.machine import InspectedMachine
from xferlib._native import driver_calls


def findings(machine: InspectedMachine) -> Iterator[Finding]:
    """Two parts, each found for itself."""
    staging, calls = _native.why_absent(), driver_calls.why_absent()
    if not staging and not calls:
        yield fine("staging and driver calls are compiled")
    remedy = "Install a C compiler (gcc or clang) and the CPython headers, then run: python -m xferlib._native.build"
    if sys.platform == "win32":
        remedy = "None is tried on Windows yet: they compile for it, and have not run with Python there."
    if staging:
        yield slow(
            f"staging in C: {staging}",
            "Each large transfer is staged by one Python thread, which holds the GIL in between.",
            remedy,
        )
    if calls:
        found = slow if machine.cuda_count else note
        yield found(
            f"driver calls in C: {calls}",
            "Small copies and kernel calls go through ctypes, and get_array_module through Python.",
            remedy,
        )
