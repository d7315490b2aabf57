"""Try the kernels of other projects' sources: which snippets are taken, and do they mean what C++ means?

    python -m tools.harvest_kernels FOLDER [FOLDER ...] [--refused] [--compare]

Calls of ``ElementwiseKernel``, ``ReductionKernel`` and of Chainer's ``elementwise`` and ``reduce`` are found in the
Python files by their syntax trees, where every text is static: a literal, or a name that one literal is assigned to.
Each kernel is translated for several dtypes and counts as taken where one of them works, with ``math="exact"`` or else
with ``math="fast"``; refusals are grouped by their reason.

With ``--compare`` each taken kernel runs on NumPy arrays, and its own text runs as C++, compiled by g++ without
optimisation and without contraction, on the same random inputs. Everything that the kernel writes must be equal bit
for bit, any NaN being equal to any NaN. Functions such as ``exp`` have no bits in C++: the C++ program asks xferlib
for their results, and each is compared with g++'s long double function, from which it may differ by the bound that
xferlib documents. Elements for which C++ leaves the result undefined are left out, and counted.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from pathlib import Path

from tools.kernel_harvest import finding, trying

_BATCH = 24


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--refused", action="store_true", help="show each refusal and where it is")
    parser.add_argument("--compare", action="store_true", help="run the kernels, and their text as C++")
    given = parser.parse_args()
    refused: dict[str, list[str]] = defaultdict(list)
    taken: list[list[trying.Taken]] = []
    total = 0
    for folder in given.folders:
        found = {each.where: trying.trials(each) for each in finding.kernels_in(folder)}
        mine = [each for each in found.values() if not isinstance(each, str)]
        for where, reason in found.items():
            if isinstance(reason, str):
                refused[_group(reason)].append(f"{where}: {reason}")
        print(f"{folder.name}: {len(mine)} of {len(found)} taken")
        taken, total = taken + mine, total + len(found)
    fast = sum(each[0].math == "fast" for each in taken)
    print(f"all: {len(taken)} of {total} taken" + (f", {fast} of them with math='fast' alone" if fast else ""))
    for group, places in sorted(refused.items(), key=lambda item: -len(item[1])):
        print(f"{len(places):4} {group}")
        if given.refused:
            print("".join(f"       {each}\n" for each in places), end="")
    if given.compare:
        _compare(taken)


def _compare(taken: list[list[trying.Taken]]) -> None:
    from tools.kernel_harvest import comparing

    results = [
        each for start in range(0, len(taken), _BATCH) for each in comparing.compare(taken[start : start + _BATCH])
    ]
    agreed = [each for each in results if each.agreed and not each.differed and not each.beyond]
    runs = sum(len(each.agreed) for each in results)
    print(f"compared with C++: {len(agreed)} of {len(results)} agree, in {runs} runs")
    print(f"  left out: {sum(each.undefined for each in results)} elements that C++ leaves undefined")
    for each in results:
        if each.differed or each.beyond:
            print(f"  differs: {each.taken.found.where}: {'; '.join(each.differed)}, {each.beyond} beyond the bound")
        elif not each.agreed:
            print(f"  not compared: {each.taken.found.where}: {each.reason}")


def _group(reason: str) -> str:
    """The first line of a refusal, without its names and numbers."""
    first = reason.partition("\n")[0]
    return re.sub(r"'[^']*'|\b\w+\[\w*\]|line \d+, column \d+|\d+", "*", first)[:110]


if __name__ == "__main__":
    main()
