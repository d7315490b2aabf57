"""The detector against brute force: random programs, each under every schedule that it allows."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.sim.random_programs import Step, draw, outcomes, races, sets_again, sets_elsewhere
from tests.sizes import IS_LONG, sized
from xferlib.sim.detector import Hazard, Race
from xferlib.sim.model import History, Pool

PROGRAMS = sized(1200)
SHARDS = 4 if IS_LONG else 1
MOST_SCHEDULES = 200


pytestmark = pytest.mark.usefixtures("silence")


RIGHT, MISSED, FLAGGED = "right", "missed", "flagged without reason"


def study(seeds: range) -> Iterator[tuple[int, bool, str]]:
    """Each program's seed, whether it is nondeterministic, and what the detector makes of it."""
    for seed in seeds:
        steps = draw(seed)
        found = outcomes(steps, MOST_SCHEDULES)
        if found is None:
            continue
        reported = races(steps)
        if len(found) > 1:
            yield seed, True, RIGHT if reported else MISSED
        else:
            yield seed, False, RIGHT if not reported or all(map(_has_reason, *_find_ends(steps))) else FLAGGED


def notices(fault: str) -> bool:
    """Whether the detector, made worse by a test, is wrong in this way about a program."""
    return any(verdict == fault for *_, verdict in study(range(300)))


def _find_ends(steps: list[Step]) -> tuple[list[Race], list[list[Step]]]:
    """The races of a program, and for each the program up to its second access."""
    found: list[Race] = []
    ends = []
    for end in range(1, len(steps) + 1):
        more = races(steps[:end])[len(found) :]
        found += more
        ends += [steps[:end]] * len(more)
    return found, ends


def _has_reason(race: Race, steps: list[Step]) -> bool:
    """Whether a race is one although the whole program has no second outcome.

    Up to there it has one, and what comes behind hides it: which of two unordered writes wins cannot be seen where both
    are overwritten unread. Or an array dies while a stream other than its memory's uses it, and the memory happens to
    be used next by that very stream, or is set twice.
    """
    found = outcomes(steps, MOST_SCHEDULES)
    assert found is not None
    return len(found) > 1 or (race.hazard is Hazard.USE_AFTER_FREE and (sets_elsewhere(steps) or sets_again(steps)))


@pytest.mark.parametrize("shard", range(SHARDS))
def test_the_detector_misses_no_nondeterministic_program_and_flags_no_other(shard: int) -> None:
    each = PROGRAMS // SHARDS
    found = list(study(range(shard * each, (shard + 1) * each)))
    assert [(seed, verdict) for seed, _, verdict in found if verdict != RIGHT] == []
    nondeterministic = sum(is_nondeterministic for _, is_nondeterministic, _ in found)
    assert each / 3 < nondeterministic < 2 * each / 3  # a study of one kind only would show nothing


def test_a_write_that_outlives_its_array_is_unseen_where_the_memory_is_set_twice() -> None:
    assert [verdict for *_, verdict in study(range(910253, 910254))] == [RIGHT]


@pytest.mark.parametrize(("streams", "is_one"), [((0, 0), False), ((0, 1), True)])
def test_two_writes_have_a_reason_only_where_their_order_can_be_seen(streams: tuple[int, int], is_one: bool) -> None:
    race: Any = SimpleNamespace(hazard=Hazard.WRITE_AFTER_WRITE)
    steps = [Step("kernel", streams[0]), Step("record"), Step("kernel", streams[1])]
    assert _has_reason(race, steps) is is_one


def test_the_study_notices_a_detector_that_forgets_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    note = History.note

    def forgetful(self: History, span: Any, action: Any, *, is_write: bool) -> None:
        if is_write:
            note(self, span, action, is_write=True)

    monkeypatch.setattr(History, "note", forgetful)
    assert notices(MISSED)


def test_the_study_notices_a_pool_that_forgets_who_uses_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pool, "take", lambda *_: None)
    assert notices(MISSED)


def test_the_study_notices_a_detector_that_ignores_the_legacy_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    from xferlib.sim.machine import Machine

    order = Machine.order

    def ignorant(self: Machine, stream: Any, host: Any) -> object:
        before = dict(stream.clock)
        after = order(self, stream, host)
        stream.clock.clear()
        stream.clock.update(before)
        stream.learn(host.clock)
        stream._seen.clear()
        return after

    monkeypatch.setattr(Machine, "order", ignorant)
    assert notices(FLAGGED)
