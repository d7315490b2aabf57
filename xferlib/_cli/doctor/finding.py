"""One finding of the doctor: a fact about the machine, and what follows from it."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

PROBLEM = "problem"
"""A program fails or computes something wrong."""
SLOW = "slow"
"""Programs run, more slowly than they could."""
NOTE = "note"
"""Nothing hurts now; it explains a surprise."""
FINE = "fine"
SEVERITIES = (PROBLEM, SLOW, NOTE, FINE)
"""The worst first."""


class Finding(NamedTuple):
    """A fact, its consequence and the remedy; the last two are empty where all is fine."""

    check: str
    """Its name; the command fills in that of the check which found it, where it is empty."""
    severity: str
    fact: str
    consequence: str = ""
    remedy: str = ""


problem, slow, note, fine = (partial(Finding, "", severity) for severity in SEVERITIES)
"""A finding of that severity, from its fact, consequence and remedy."""


def ordered(found: list[Finding]) -> list[Finding]:
    """Sort by severity, and within one by the order of the checks."""
    return sorted(found, key=lambda each: SEVERITIES.index(each.severity))
