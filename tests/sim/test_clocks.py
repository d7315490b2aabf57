"""Vector clocks against reachability in the graph of what happened."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from xferlib.sim.model.clocks import KeptClock, Participant, ParticipantKeys, joined

clocks = st.dictionaries(st.integers(0, 4), st.integers(1, 5), max_size=5)
histories = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=25)


@given(histories)
def test_a_clock_has_reached_a_tick_exactly_when_a_path_leads_there(history: list[tuple[int, int]]) -> None:
    """Each step: a participant joins another one (itself: does not), then acts."""
    participants = [Participant(key, str(key)) for key in range(4)]
    actions: list[tuple[int, int, set[int]]] = []  # participant, tick, the actions before it
    known: list[set[int]] = [set() for _ in participants]
    for actor, other in history:
        participants[actor].join(participants[other])
        known[actor] |= known[other]
        tick = participants[actor].tick()
        actions.append((actor, tick, set(known[actor])))
        known[actor].add(len(actions) - 1)
    for actor, participant in enumerate(participants):
        for number, (by, tick, _) in enumerate(actions):
            assert (participant.clock.get(by, 0) >= tick) == (number in known[actor])


@given(clocks, clocks)
def test_a_join_covers_both_and_is_the_least_that_does(one: dict[int, int], two: dict[int, int]) -> None:
    both = joined(one, two)
    assert all(both.get(key, 0) >= tick for clock in (one, two) for key, tick in clock.items())
    assert all(tick in (one.get(key), two.get(key)) for key, tick in both.items())


def test_joining_again_without_news_changes_nothing() -> None:
    one, two = Participant(1, "one"), Participant(2, "two")
    two.tick()
    one.join(two)
    version = one.version
    one.join(two)
    assert one.version == version
    two.tick()
    one.join(two)
    assert one.clock[2] == 2


def test_a_forgotten_participant_is_in_no_clock() -> None:
    one, two = Participant(1, "one"), Participant(2, "two")
    one.join(two)
    one.forget({2})
    assert 2 not in one.clock


def test_a_kept_clock_loses_those_that_have_left_since() -> None:
    keys = ParticipantKeys()
    stays, leaves = keys.enter(), keys.enter()
    kept = KeptClock({stays: 3, leaves: 5}, keys)
    assert kept.clock == {stays: 3, leaves: 5}
    keys.leave({leaves})
    assert kept.clock == {stays: 3}
