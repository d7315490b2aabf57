"""The counts of the peers' tests: noted in `results.json`, written to the documentation from there."""

from __future__ import annotations

import collections
import functools
import json
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "peer-suites.md"
RESULTS = Path(__file__).with_name("results.json")
REASONS = Path(__file__).with_name("exceptions.txt")
ELSEWHERE = Path(__file__).with_name("not_applicable.txt")
MOST_OF_ONE_KIND = 6
"""Tests of one class that fail for one reason, which the page names; if there are more, it names the class."""

Outcomes = dict[str, tuple[str, str]]
"""By the name of a test: ``passed``, ``failed``, ``skipped`` or ``not applicable``, and why."""


class Counts(NamedTuple):
    """The outcomes of the tests of a peer on a backend, counted."""

    peer: str
    backend: str
    passed: int
    failed: dict[str, str]
    """By the name of a test, the first line of its error."""
    not_applicable: dict[str, int]
    """By the reason."""

    @property
    def of(self) -> int:
        return self.passed + len(self.failed)


def counted(peer: str, backend: str, outcomes: Outcomes) -> Counts:
    """The counts of the outcomes; a test of `ELSEWHERE` counts as not applicable where it passes, too."""
    outcomes = {name: _sorted(name, backend, outcome) for name, outcome in outcomes.items()}
    failed = {name.rpartition("/")[2]: why[:200] for name, (kind, why) in outcomes.items() if kind == "failed"}
    left_out = collections.Counter(why for kind, why in outcomes.values() if kind not in ("passed", "failed"))
    passed = sum(kind == "passed" for kind, _ in outcomes.values())
    return Counts(peer, backend, passed, failed, dict(left_out.most_common()))


def sorted_out(counts: Counts) -> Counts:
    """The counts without the failures that `ELSEWHERE` lists, for those that were noted before its last line."""
    reasons = {name: _elsewhere(name, counts.backend) for name in counts.failed}
    failed = {name: why for name, why in counts.failed.items() if not reasons[name]}
    left_out = collections.Counter(counts.not_applicable)
    left_out.update(filter(None, reasons.values()))
    return counts._replace(failed=failed, not_applicable=dict(left_out.most_common()))


def _sorted(name: str, backend: str, outcome: tuple[str, str]) -> tuple[str, str]:
    reason = _elsewhere(name, backend)
    return ("not applicable", reason) if reason and outcome[0] in ("passed", "failed") else outcome


def _elsewhere(name: str, backend: str) -> str:
    """Why a test says nothing about xferlib, or nothing."""
    library = backend.partition(" ")[0]
    for pattern, backends, reason in _not_applicable():
        if pattern in name and (backends == "*" or library in backends.split(",")):
            return reason
    return ""


@functools.cache
def _not_applicable() -> list[list[str]]:
    return _lines_of(ELSEWHERE, fields=3)


def _lines_of(file: Path, *, fields: int) -> list[list[str]]:
    """The lines of a table, without comments."""
    lines = file.read_text(encoding="utf-8").splitlines()
    split = [line.split(" | ", fields - 1) for line in lines if not line.startswith("#")]
    return [[field.strip() for field in line] for line in split if len(line) == fields]


def told(counts: Counts) -> str:
    """The counts as lines for a reader."""
    counts = sorted_out(counts)
    left_out = sum(counts.not_applicable.values())
    head = f"{counts.peer} on {counts.backend}: {counts.passed} of {counts.of} passed, {left_out} not applicable"
    return "\n".join([head, *(f"  {name}: {why[:150]}" for name, why in counts.failed.items())])


def noted() -> list[Counts]:
    """All counts that are noted."""
    return [Counts(**each) for each in json.loads(RESULTS.read_text(encoding="utf-8"))]


def note(found: list[Counts]) -> None:
    """Note counts, in the place of earlier ones of the same peer and backend."""
    known = {(each.peer, each.backend): each for each in (noted() if RESULTS.is_file() else [])}
    known.update({(each.peer, each.backend): each for each in found})
    lines = [json.dumps(known[key]._asdict(), sort_keys=True) for key in sorted(known)]
    RESULTS.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def reasons() -> list[tuple[str, str]]:
    """Parts of the names of tests, and why those fail."""
    return [(pattern, reason) for pattern, reason in _lines_of(REASONS, fields=2)]


def reason_of(name: str, known: list[tuple[str, str]]) -> str:
    """Why a test fails, or nothing."""
    return next((reason for pattern, reason in known if pattern in name), "")


HEAD = """# The peers' own tests

Tests of CuPy, PyCUDA, PyTorch and Chainer, run on xferlib by a thin shim of their names. Those of CuPy and PyCUDA use
the modules of `xferlib pretend`, on any backend and without the functions that NumPy computes there, and run each night
on the backends of a CPU (the workflow `nightly`):

```sh
python -m tools.peer_suites cupy=../cupy pycuda=../pycuda --backend numpy,torch,sim --record --page
```

The counts of PyTorch's and Chainer's are of November 2026; their shims are no longer kept.

The tests are fetched and adapted, and none is kept: only their imports are changed, which name the shim, and texts of
errors are not compared. A test is **applicable** if everything that it uses has a counterpart: a name that has one in
the [table of names](other-libraries.md), a member of arrays that moves, copies, views or describes memory, or a
function of the Array API. A test is not applicable if it tests

- the peer's internals, settings or deprecations, or what another library's own arrays do;
- a name for which the table has no counterpart;
- hardware that the backend lacks (machine code on a CPU, a second device);
- an error where xferlib does the work;
- memory that the test reads and never writes, or an order that it leaves to chance, where the simulator reports it;

or if the peer itself leaves it out. `not_applicable.txt` beside the tool lists those that no name tells. Layouts are
compared where a test asks for it.

numpy, sim and torch ran on a CPU; cupy, pycuda and torch (CUDA) on one H100 or H200. torch's tests are those of its
version 2.4. Of a newer version, whose files are no longer at hand, 87 of 90 cases passed on cupy and 95 of 100 on
pycuda: of those that failed, `test_caching_pinned_memory` fails by decision (the copy of a few bytes has read its
source when it returns, so that the block is free), and the others are corrected and have not run again.

"""


def page(found: list[Counts]) -> str:
    """The page: counts, exceptions with their reasons, and what is not applicable."""
    known = reasons()
    found = [sorted_out(each) for each in found]
    lines = [HEAD + "| suite | backend | passed | of | not applicable |", "|---|---|---:|---:|---:|"]
    for each in found:
        left_out = sum(each.not_applicable.values())
        lines.append(f"| {each.peer} | {each.backend} | {each.passed} | {each.of} | {left_out} |")
    lines += ["", "| backend | passed of all suites | share |", "|---|---:|---:|"]
    for backend in sorted({each.backend for each in found}):
        lines.append(_total(backend, [each for each in found if each.backend == backend]))
    lines += [_total("together", found), "", "## Exceptions", ""]
    grouped = sorted(_grouped(found, known).items())
    for reason in dict.fromkeys(why for (_, why), _ in grouped):
        lines.append(f"- {reason or 'to be looked at'}:")
        lines += [f"    - `{name}`: {', '.join(sorted(where))}" for (name, why), where in grouped if why == reason]
    skipped: collections.Counter[str] = collections.Counter()
    for each in found:
        skipped.update(each.not_applicable)
    lines += ["", "## Not applicable", "", "| because of | tests |", "|---|---:|"]
    lines += [f"| {reason} | {count} |" for reason, count in sorted(skipped.items(), key=lambda each: -each[1])]
    return "\n".join([*lines, "", "<!-- Written by tools/peer_suites from its results.json. -->", ""])


def _total(name: str, found: list[Counts]) -> str:
    passed, of = sum(each.passed for each in found), sum(each.of for each in found)
    return f"| {name} | {passed} of {of} | {passed / max(of, 1):.1%} |"


def _grouped(found: list[Counts], known: list[tuple[str, str]]) -> dict[tuple[str, str], set[str]]:
    """The backends by the test that fails there, and why; by its class, where many tests of it fail for one reason."""
    failed: dict[str, set[str]] = {}
    for each in found:
        for name in each.failed:
            failed.setdefault(name, set()).add(each.backend)
    classes = collections.Counter((_class_of(name), reason_of(name, known)) for name in failed)
    grouped: dict[tuple[str, str], set[str]] = {}
    for name, where in failed.items():
        why = reason_of(name, known)
        many = classes[_class_of(name), why] > MOST_OF_ONE_KIND
        grouped.setdefault((_class_of(name) if many else name, why), set()).update(where)
    return grouped


def _class_of(name: str) -> str:
    """The file and the class of a test, without the number of a set of its parameters."""
    head = name.partition("[")[0].rpartition("::")[0]
    stem, _, number = head.rpartition("_")
    return stem if number.isdigit() else head
