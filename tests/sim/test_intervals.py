"""The interval map against a list with one entry a byte."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from xferlib.sim.memory import IntervalMap

LENGTH = 24
ranges = st.tuples(st.integers(0, LENGTH - 1), st.integers(1, LENGTH)).map(lambda r: (r[0], min(r[0] + r[1], LENGTH)))
updates = st.lists(st.tuples(ranges, st.sampled_from("abc"), st.booleans()), max_size=12)


@given(updates)
def test_it_holds_what_a_list_of_bytes_holds(changes: list[tuple[tuple[int, int], str, bool]]) -> None:
    found: IntervalMap[tuple[str, ...]] = IntervalMap(LENGTH, ())
    model: list[tuple[str, ...]] = [()] * LENGTH
    for (start, stop), letter, appends in changes:
        change = (lambda old, new=letter: (*old, new)) if appends else (lambda old, new=(letter,): new)
        found.update(start, stop, change)
        model[start:stop] = [change(state) for state in model[start:stop]]
        assert [found.at(position) for position in range(LENGTH)] == model
        within = found.within(start, stop)
        assert within == [each for each in found.within(0, LENGTH) if each[0] < stop and start < each[1]]


@given(updates)
def test_segments_cover_the_line_once_and_in_order(changes: list[tuple[tuple[int, int], str, bool]]) -> None:
    found: IntervalMap[object] = IntervalMap(LENGTH, None)
    for (start, stop), _, _ in changes:
        found.update(start, stop, lambda old, new=object(): new)  # noqa: B008 - a new one at each step
        segments = found.within(0, LENGTH)
        assert segments[0][0] == 0
        assert segments[-1][1] == LENGTH
        assert all(one[1] == two[0] for one, two in itertools.pairwise(segments))
        assert all(one[2] is not two[2] for one, two in itertools.pairwise(segments))


@given(updates)
def test_one_state_for_all_is_one_segment(changes: list[tuple[tuple[int, int], str, bool]]) -> None:
    found: IntervalMap[str] = IntervalMap(LENGTH, "")
    for (start, stop), letter, _ in changes:
        found.update(start, stop, lambda old, new=letter: new)
    found.rewrite(lambda old: "same")
    assert found.within(0, LENGTH) == [(0, LENGTH, "same")]
    assert len(found) == 1


def test_a_state_met_in_several_segments_is_changed_once() -> None:
    found: IntervalMap[object] = IntervalMap(10, None)
    found.update(4, 6, lambda old: "middle")
    calls: list[object] = []
    found.update(0, 10, lambda old: calls.append(old) or old)  # type: ignore[func-returns-value]
    assert calls == [None, "middle"]
