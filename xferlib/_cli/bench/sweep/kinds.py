"""The kinds of random cases: how each is drawn, and made ready."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from xferlib._cli.bench.sweep.kernel import cases as kernel_cases
from xferlib._cli.bench.sweep.kernel import trials as kernel_trials
from xferlib._cli.bench.sweep.peers import Peers
from xferlib._cli.bench.sweep.reduction import cases as reduction_cases
from xferlib._cli.bench.sweep.reduction import trials as reduction_trials
from xferlib._cli.bench.sweep.transfer import array_cases, tree_cases
from xferlib._cli.bench.sweep.transfer import trials as transfer_trials
from xferlib._cli.bench.sweep.trial import Case, Trial
from xferlib.errors import ArgumentError, shown


class CaseKind(NamedTuple):
    """One kind of case."""

    draw: Callable[[int, int, tuple[str, ...], int | None], Case]
    """By seed, number, the backends to choose from, and the bytes of the largest."""
    make: Callable[[Any, Peers], Trial]


KINDS: dict[str, CaseKind] = {
    "transfer": CaseKind(array_cases.drawn, transfer_trials.of_array),
    "tree": CaseKind(tree_cases.drawn, transfer_trials.of_tree),
    "kernel": CaseKind(kernel_cases.drawn, kernel_trials.of_kernel),
    "reduction": CaseKind(reduction_cases.drawn, reduction_trials.of_reduction),
}


def kind_of(case: Case) -> str:
    return case.name.partition(":")[0]


def named(name: str, backends: tuple[str, ...], most: int | None) -> Case:
    """The case of that name.

    Raises:
        ArgumentError: It is no name of a case.
    """
    kind, _, rest = name.partition(":")
    seed, _, number = rest.partition(":")
    if kind not in KINDS or not seed.isdecimal() or not number.isdecimal():
        raise ArgumentError(f"--case {shown(name)} names no case; a sweep prints them, such as transfer:7:12")
    return KINDS[kind].draw(int(seed), int(number), backends, most)


def turns(
    kinds: list[str], seconds: float, clock: Callable[[], float] = time.perf_counter
) -> Iterator[tuple[str, int]]:
    """The kind and the number of each case: the kind with the least time so far, until all have had an even share."""
    spent_s, numbers = dict.fromkeys(kinds, 0.0), dict.fromkeys(kinds, 0)
    while True:
        kind = min(spent_s, key=spent_s.__getitem__)
        if spent_s[kind] >= seconds / len(spent_s):
            return
        begun_s = clock()
        yield kind, numbers[kind]
        spent_s[kind] += clock() - begun_s
        numbers[kind] += 1
