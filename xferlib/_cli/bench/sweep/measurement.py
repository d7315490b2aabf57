"""One case, checked and timed."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

from xferlib._cli.bench.sweep.figures import CaseFigures
from xferlib._cli.bench.sweep.kinds import KINDS, kind_of
from xferlib._cli.bench.sweep.peers import Peers
from xferlib._cli.bench.sweep.timing import Key, Timing
from xferlib._cli.bench.sweep.trial import Case, Trial, reason
from xferlib.errors import XferError

_COLD_PEERS, _NEAR = 3, 2


def measured(case: Case, peers: Peers, other_work: Callable[[float], None], *, is_twice: bool = False) -> CaseFigures:
    """Check xferlib's results, then time every way in both regimes; if wanted, the peers' ways twice."""
    kind = kind_of(case)
    found = CaseFigures(name=case.name, kind=kind, text=str(case), nbytes=case.nbytes, group=case.group)
    try:
        trial = KINDS[kind].make(case, peers)
        if trial.subject not in trial.ways:
            found.problem = f"xferlib refuses it: {trial.absent[trial.subject]}"
            return found
        for way in trial.ways[trial.subject].values():
            found.problem = found.problem or trial.problem(way.run())
    except (XferError, MemoryError, RuntimeError) as error:
        found.problem = reason(error)
        return found
    chance = np.random.default_rng(zlib.crc32(case.name.encode()))
    with np.errstate(all="ignore"):  # NumPy's float16 overflows where others' sums do not
        trial.try_peers()
        found.absent = trial.absent
        _time(trial, found, Timing(trial.change, other_work, chance), is_twice=is_twice)
    return found


def _time(trial: Trial, found: CaseFigures, timing: Timing, *, is_twice: bool) -> None:
    ways = {Key(library, name): way for library, each in trial.ways.items() for name, way in each.items()}
    runs = {key: way.run for key, way in ways.items()}
    pinned = {key for key, way in ways.items() if way.is_pinned}
    for key in sorted(pinned):
        found.pinned.setdefault(key.library, []).append(key.way)
    again = {_again(key): key for key in runs if is_twice and key.library != trial.subject}
    hot = timing.hot(runs | {twin: runs[key] for twin, key in again.items()}, pinned | {_again(key) for key in pinned})
    hot_again = {key: hot.pop(twin) for twin, key in again.items()}
    chosen = _in_contention({key: hot[key] for key in hot if key not in pinned}, trial.subject)
    chosen |= _in_contention({key: hot[key] for key in pinned}, trial.subject)
    again = {twin: key for twin, key in again.items() if key in chosen}
    cold = timing.cold({key: runs[key] for key in chosen} | {twin: runs[key] for twin, key in again.items()})
    cold_again = {key: cold.pop(twin) for twin, key in again.items()}
    found.seconds.update(hot=_grouped(hot), cold=_grouped(cold))
    if is_twice:
        found.again.update(hot=_grouped(hot_again), cold=_grouped(cold_again))


def _again(key: Key) -> Key:
    """The second run of a way."""
    return Key(key.library, f"{key.way}, again")


def _grouped(seconds: dict[Key, float]) -> dict[str, dict[str, float]]:
    grouped: dict[str, dict[str, float]] = {}
    for (library, way), each in seconds.items():
        grouped.setdefault(library, {})[way] = each
    return grouped


def _in_contention(hot: dict[Key, float], subject: str) -> set[Key]:
    """The subject's ways, and of the others the three fastest that are near the fastest: no pause brings more back."""
    peers = sorted((key for key in hot if key.library != subject), key=hot.__getitem__)
    near = {key for key in peers[:_COLD_PEERS] if hot[key] <= _NEAR * hot[peers[0]]}
    return near | {key for key in hot if key.library == subject}
