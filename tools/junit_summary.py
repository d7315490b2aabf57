"""Count a pytest run's outcomes per backend, from its JUnit report.

A test belongs to every backend that its class or its parameters name (``Test_cupy_cuda::test_x``,
``test_x[cupy-float32]``); the others are "shared".
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

BACKENDS = ("numpy", "torch", "cupy", "pycuda", "sim")
OUTCOMES = ("passed", "failed", "error", "skipped")


def outcome_of(case: ET.Element) -> str:
    """The outcome of a test; an expected failure counts as skipped, as in JUnit."""
    tags = {child.tag for child in case}
    if "failure" in tags:
        return "failed"
    return "error" if "error" in tags else "skipped" if "skipped" in tags else "passed"


def backends_of(case: ET.Element) -> tuple[str, ...]:
    """The backends that a test's class or parameters name."""
    named = f"{case.get('classname', '').rpartition('.')[2]} {case.get('name', '').partition('[')[2]}"
    words = set(re.split(r"[^A-Za-z0-9]+|_", named))
    return tuple(backend for backend in BACKENDS if backend in words) or ("shared",)


def count(report: Path) -> tuple[dict[str, Counter[str]], Counter[str]]:
    """Outcomes per backend, and why tests were skipped."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in (*BACKENDS, "shared")}
    reasons: Counter[str] = Counter()
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - pytest's own report
        outcome = outcome_of(case)
        for backend in backends_of(case):
            counts[backend][outcome] += 1
        skipped = case.find("skipped")
        if skipped is not None:
            reasons[skipped.get("message", "")] += 1
    return counts, reasons


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path)
    parser.add_argument("--json", type=Path, help="write the counts here as well")
    options = parser.parse_args()
    if not options.report.exists():
        print(f"{options.report} does not exist: the test run ended before it wrote its report")
        return 1
    counts, reasons = count(options.report)
    print(f"{'backend':8}" + "".join(f"{outcome:>9}" for outcome in OUTCOMES))
    for backend, found in counts.items():
        print(f"{backend:8}" + "".join(f"{found[outcome]:9}" for outcome in OUTCOMES))
    for reason, times in reasons.most_common(20):
        print(f"skipped {times:5} {reason[:140]}")
    if options.json:
        options.json.write_text(json.dumps({"counts": counts, "skipped": reasons}, indent=2) + "\n")
    return 1 if any(found["failed"] + found["error"] for found in counts.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
