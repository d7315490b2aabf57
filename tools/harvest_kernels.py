"""Try the kernels of other projects' sources: which snippets are taken, and do they mean what C++ means?

    python -m tools.harvest_kernels FOLDER[@REVISION] ... [--refused] [--compare] [--page FILE]

Calls of ``ElementwiseKernel``, ``ReductionKernel`` and of Chainer's ``elementwise`` and ``reduce`` are found in the
Python files by their syntax trees, where every text is static: a literal, or a name that one literal is assigned to.
Each kernel is translated for several dtypes and counts as taken where one of them works, with ``math="exact"`` or else
with ``math="fast"``; refusals are grouped by their reason.

With ``--compare`` each taken kernel runs on NumPy arrays, and its own text runs as C++, compiled by g++ without
optimisation and without contraction, on the same random inputs. Everything that the kernel writes must be equal bit
for bit, any NaN being equal to any NaN. Functions such as ``exp`` have no bits in C++: the C++ program asks xferlib
for their results, and each is compared with g++'s long double function, from which it may differ by the bound that
xferlib documents. Elements for which C++ leaves the result undefined are left out, and counted.

With ``--page`` the results are written as a page of the documentation. The exit status is 1 where a kernel that ran
did not agree.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.kernel_harvest import finding, trying
from tools.kernel_harvest.report import Project, page, summary

_BATCH = 24


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="FOLDER[@REVISION]")
    parser.add_argument("--refused", action="store_true", help="show each refusal and where it is")
    parser.add_argument("--compare", action="store_true", help="run the kernels, and their text as C++")
    parser.add_argument("--page", type=Path, help="write the results as a page of the documentation")
    given = parser.parse_args()
    projects = [_project(each) for each in given.folders]
    if given.compare:
        for each in projects:
            _compare(each)
    print(summary(projects, refused=given.refused), end="")
    if given.page:
        given.page.write_text(page(projects), encoding="utf-8")
    return int(any(each.agreeing < len(each.compared) for each in projects))


def _project(given: str) -> Project:
    path, _, revision = given.partition("@")
    folder = Path(path)
    found = {each.where: trying.trials(each) for each in finding.kernels_in(folder)}
    taken = [each for each in found.values() if not isinstance(each, str)]
    refused = {where: reason for where, reason in found.items() if isinstance(reason, str)}
    return Project(folder.name, revision, taken, refused)


def _compare(project: Project) -> None:
    from tools.kernel_harvest import comparing

    for start in range(0, len(project.taken), _BATCH):
        project.compared += comparing.compare(project.taken[start : start + _BATCH])


if __name__ == "__main__":
    sys.exit(main())
