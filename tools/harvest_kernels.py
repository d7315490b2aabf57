"""Try the kernels of other projects' sources: which snippets are taken, and why not the others?

    python -m tools.harvest_kernels FOLDER [FOLDER ...] [--refused]

Calls of ``ElementwiseKernel``, ``ReductionKernel`` and of Chainer's ``elementwise`` and ``reduce`` are found in the
Python files by their syntax trees, where every text is static: a literal, or a name that one literal is assigned to.
Each kernel is translated for several dtypes and counts as taken where one of them works; refusals are grouped by their
reason. Translation is all that is tried: no kernel is run, so that no result is compared.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from pathlib import Path

from tools.kernel_harvest import finding, trying


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--refused", action="store_true", help="show each refusal and where it is")
    given = parser.parse_args()
    refused: dict[str, list[str]] = defaultdict(list)
    found = taken = 0
    for folder in given.folders:
        kernels = list(finding.kernels_in(folder))
        refusals = {each.where: reason for each in kernels if (reason := trying.refusal(each)) is not None}
        for where, reason in refusals.items():
            refused[_group(reason)].append(f"{where}: {reason}")
        print(f"{folder.name}: {len(kernels) - len(refusals)} of {len(kernels)} taken")
        found, taken = found + len(kernels), taken + len(kernels) - len(refusals)
    print(f"all: {taken} of {found} taken")
    for group, places in sorted(refused.items(), key=lambda item: -len(item[1])):
        print(f"{len(places):4} {group}")
        if given.refused:
            print("".join(f"       {each}\n" for each in places), end="")


def _group(reason: str) -> str:
    """The first line of a refusal, without its names and numbers."""
    first = reason.partition("\n")[0]
    return re.sub(r"'[^']*'|\b\w+\[\w*\]|line \d+, column \d+|\d+", "*", first)[:110]


if __name__ == "__main__":
    main()
