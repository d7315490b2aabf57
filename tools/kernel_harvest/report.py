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

Can xferlib run the kernels that others have written, unchanged, and are the results those of C++? The table counts the
element-wise and reduction kernels in the Python sources of other projects, wherever their texts are static: literals,
or names that one literal is assigned to. `tools/harvest_kernels.py` finds them and gives each text to `xl.elementwise`
or `xl.reduction` as it stands, with several choices of its dtypes. It is *taken* if it works with one of them.

Then the same text runs as C++, compiled by g++ (`-O0 -ffp-contract=off`), on the same random inputs: any bits, NaN,
infinities, zeros of both signs, the extremes of integers, and values that serve as indices. A *run* is one choice of
dtypes with one kind of input. A kernel *agrees* if all that it writes is equal bit for bit in every run, any NaN being
equal to any NaN. The C++ program takes the elements one after the other, and reductions in xferlib's order.

C++ does not define the bits of functions such as `exp`, of complex division and of complex functions. There the C++
program asks xferlib for the results. Those that are real are compared with g++'s long double functions, within the
bounds of the [table](kernels.md#guarantees) and those given for [snippets](kernels.md#c-snippets). Elements for which
C++ leaves the result undefined are left out: an integer divided by 0, a float beyond an integer's range, a shift by the
width.

A kernel that adds numbers of a generic type by `atomicAdd` is taken, and compared, with integers. With floats it needs
`math="fast"`, because their sum depends on the order.
"""


_IN_ORDER = "Their results depend on the order in which elements are computed."
_COLUMNS = ("sources", "kernels", "taken", 'of these only with `math="fast"`', "agree with C++", "runs")


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
        f'## Taken only with `math="fast"`\n\n{_IN_ORDER}\n\n{_listed(ordered)}',
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
    share = f"{100 * taken / max(found, 1):.0f} %"
    return _cells([name, f"{found}", f"{taken} ({share})", f"{fast}", f"{agreeing}", f"{runs}"])


def _why(each: Comparison) -> str:
    return f"the results differ for {'; '.join(each.differed)}" if each.differed else each.reason


def _line(text: str) -> str:
    first = text.partition("\n")[0].replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
    return re.split("; known (?:here )?are", first)[0]


def _listed(lines: list[str]) -> str:
    return "\n".join(f"- {each}" for each in lines) if lines else "None."
