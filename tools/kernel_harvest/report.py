"""The results of a harvest: as text, and as a page of the documentation."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tools.kernel_harvest.trying import Taken

if TYPE_CHECKING:
    from tools.kernel_harvest.comparing import Comparison


@dataclass(slots=True)
class Project:
    """The kernels of one project's sources."""

    name: str
    revision: str
    taken: list[list[Taken]]
    """Each kernel, for a few choices of its dtypes."""
    refused: dict[str, str]
    """The reason by the place."""
    compared: list[Comparison] = field(default_factory=list)

    @property
    def found(self) -> int:
        return len(self.taken) + len(self.refused)

    @property
    def fast(self) -> list[str]:
        """The places of the kernels that are taken with ``math="fast"`` alone."""
        return [each[0].found.where for each in self.taken if each[0].math == "fast"]

    @property
    def agreeing(self) -> int:
        return sum(_agrees(each) for each in self.compared)


def _agrees(each: Comparison) -> bool:
    return bool(each.agreed) and not each.differed and not each.beyond


def summary(projects: Sequence[Project], *, refused: bool) -> str:
    """The results as text; ``refused``: with each refusal and its place."""
    lines = [f"{each.name}: {len(each.taken)} of {each.found} taken" for each in projects]
    taken, found = sum(len(each.taken) for each in projects), sum(each.found for each in projects)
    fast = sum(len(each.fast) for each in projects)
    lines.append(f"all: {taken} of {found} taken" + (f", {fast} of them with math='fast' alone" if fast else ""))
    for group, places in sorted(_groups(projects).items(), key=lambda item: -len(item[1])):
        lines.append(f"{len(places):4} {group}")
        lines += [f"       {each}" for each in places if refused]
    compared = [each for project in projects for each in project.compared]
    if compared:
        agreeing, runs = sum(map(_agrees, compared)), sum(len(each.agreed) for each in compared)
        lines.append(f"compared with C++: {agreeing} of {len(compared)} agree, in {runs} runs")
        lines.append(f"  left out: {sum(each.undefined for each in compared)} elements that C++ leaves undefined")
        lines += [f"  {_problem(each)}" for each in compared if not _agrees(each)]
    return "".join(f"{line}\n" for line in lines)


def _problem(each: Comparison) -> str:
    where = each.taken.found.where
    if each.differed or each.beyond:
        return f"differs: {where}: {'; '.join(each.differed)}, {each.beyond} beyond the bound"
    return f"not compared: {where}: {each.reason}"


def _groups(projects: Sequence[Project]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for project in projects:
        for where, reason in project.refused.items():
            found[_group(reason)].append(f"{where}: {reason}")
    return found


def _group(reason: str) -> str:
    """The first line of a refusal, without its names and numbers."""
    first = reason.partition("\n")[0]
    return re.sub(r"'[^']*'|\b\w+\[\w*\]|line \d+, column \d+|\d+", "*", first)[:110]


# --- the page

_INTRODUCTION = """\
# Kernels of other projects

<!-- Written by tools/harvest_kernels.py; run it again instead of editing this page. -->

`tools/harvest_kernels.py` finds the element-wise and reduction kernels in the Python sources of other projects, as
far as their texts are static, and gives each text to `xl.elementwise` or `xl.reduction` as it stands, for a few
choices of its dtypes. Then the same text runs as C++, compiled by g++ (`-O0 -ffp-contract=off`), on the same random
inputs: any bits, NaN, infinities, zeros of both signs, the extremes of integers, and values that serve as indices.
Everything that a kernel writes must be equal bit for bit, any NaN being equal to any NaN.

C++ promises no bits of functions such as `exp`, of complex division, and of complex functions. The C++ program asks
xferlib for their results; real ones are compared with g++'s long double functions, within the bounds of the
[table](kernels.md#guarantees), and with the bounds given for [snippets](kernels.md#c-snippets). Elements for which
C++ leaves the result undefined (an integer divided by 0, a float beyond an integer's range, a shift by the width) are
left out. The C++ program takes the elements one after the other, and reductions in xferlib's order.

A kernel counts for the first dtypes with which it is taken. One that adds up numbers of a generic type by `atomicAdd`
is taken, and compared, with integers; with floats it needs `math="fast"`, because their sum depends on the order.
"""


_COLUMNS = ("sources", "kernels", "taken", 'of these with `math="fast"` alone', "agree with C++", "runs")


def page(projects: Sequence[Project]) -> str:
    """The results as Markdown."""
    rows = [_cells(_COLUMNS), "|---" * len(_COLUMNS) + "|"]
    rows += [_row(f"{each.name} {each.revision}".strip(), [each]) for each in projects]
    rows.append(_row("all", projects))
    refused = [f"`{where}`: {_line(why)}" for each in projects for where, why in each.refused.items()]
    ordered = [f"`{where}`" for each in projects for where in each.fast]
    compared = [each for project in projects for each in project.compared]
    unlike = [f"`{each.taken.found.where}`: {_line(_why(each))}" for each in compared if not _agrees(each)]
    parts = [
        _INTRODUCTION,
        "\n".join(rows),
        f"## Not taken\n\n{_listed(refused)}",
        f'## Taken with `math="fast"` alone\n\nTheir results depend on the order of elements.\n\n{_listed(ordered)}',
        f"## Taken, and not shown to agree\n\n{_listed(unlike)}",
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _cells(texts: Sequence[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _row(name: str, projects: Sequence[Project]) -> str:
    found, taken = sum(each.found for each in projects), sum(len(each.taken) for each in projects)
    fast = sum(len(each.fast) for each in projects)
    agreeing = sum(each.agreeing for each in projects)
    runs = sum(len(each.agreed) for project in projects for each in project.compared)
    return _cells([name, f"{found}", f"{taken} ({taken / max(found, 1):.1%})", f"{fast}", f"{agreeing}", f"{runs}"])


def _why(each: Comparison) -> str:
    return f"the results differ for {'; '.join(each.differed)}" if each.differed else each.reason


def _line(text: str) -> str:
    first = text.partition("\n")[0].replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
    return re.split("; known (?:here )?are", first)[0]


def _listed(lines: list[str]) -> str:
    return "\n".join(f"- {each}" for each in lines) if lines else "None."
