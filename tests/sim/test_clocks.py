"""Vector clocks against reachability in the graph of what happened."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xferlib as xl
from xferlib.sim.machine import machine
from xferlib.sim.model import Hosts, KeptClock, Participant, ParticipantKeys, join_clocks
from xferlib.testing.tools import in_threads

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
    both = join_clocks(one, two)
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


def test_a_thread_learns_what_another_one_knows_of_a_thing_that_it_has_handed_on_itself() -> None:
    hosts = Hosts(ParticipantKeys())
    own, marks = hosts.publish(None), []

    def work(before: object) -> None:
        hosts.began()
        hosts.current().tick()
        marks.append((hosts.current(), hosts.publish(before)))
        hosts.note_end()

    in_threads(work, [own, None])
    for other, mark in marks:
        hosts.acquire(hosts.publish(mark))  # of which the calling thread has not taken the first one over
        assert hosts.main.clock[other.key] == 1


CHAINS: dict[str, Callable[[xl.Stream], object]] = {
    "uploads": lambda s: xl.to_device_async(np.ones(4)).result(),
    "uploads of a stream": lambda s: s.wait(xl.to_device_async(np.ones(4), stream=s)),
    "uploads for a stream": lambda s: s.wait(xl.to_device_async(np.ones(4))),
    "downloads": lambda s: xl.to_host_async(xl.zeros(4)).result(),
    "dropped downloads": lambda s: xl.to_host_async(xl.zeros(4)),
    "streams": lambda s: xl.to_device(np.ones(4), stream=xl.Stream()),
}


@pytest.mark.parametrize("chain", CHAINS)
def test_clocks_do_not_grow_with_the_transfers_that_there_were(chain: str) -> None:
    with xl.use_backend("sim"):
        stream, kept = xl.Stream(), []
        xl.synchronize()
        for number in range(400):
            kept.append(CHAINS[chain](stream))
            if number == 200:
                before = _entries()
        assert _entries() - before < 100
        xl.synchronize()


def _entries() -> int:
    streams = [stream for each in machine().streams.values() for stream in each.every if stream.tail is not None]
    return max(len(each.clock) for each in (*machine().hosts, *streams))
