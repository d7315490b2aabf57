"""Regions of bytes against sets with one entry a byte."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sizes import IS_LONG
from xferlib.sim import memory as blocks
from xferlib.sim import model as ranges
from xferlib.sim.memory import Block, Span
from xferlib.sim.model import ByteFlags, Cells, Strided

NBYTES = 400
LINE = ((lambda: None).__code__, 0)
BLOCK = Block(np.zeros(NBYTES, np.uint8), 0, NBYTES, 1 << 50, None, None, LINE)


def touched(span: Span) -> set[int]:
    """The bytes of a span, by its definition."""
    if span.form is None:
        return set(range(span.start, span.stop))
    if isinstance(span.form, Cells):
        begins, run = span.form.starts.tolist(), span.form.run
    else:
        begins, run = [span.start], span.form.run
        for stride, extent in span.form.axes:
            begins = [begin + index * stride for begin in begins for index in range(extent)]
    return {begin + byte for begin in begins for byte in range(run)}


def elements(start: int, shape: list[int], strides: list[int], itemsize: int) -> set[int]:
    """The bytes of a view's elements, by its strides."""
    begins = [start]
    for extent, stride in zip(shape, strides, strict=True):
        begins = [begin + index * stride for begin in begins for index in range(extent)]
    return {begin + byte for begin in begins for byte in range(itemsize)}


@st.composite
def views(draw: st.DrawFn) -> tuple[int, list[int], list[int], int]:
    """Start, shape, strides and itemsize of a view inside the block: overlapping, reversed, repeated and all."""
    itemsize = draw(st.sampled_from([1, 2, 4, 8]))
    shape = draw(st.lists(st.integers(1, 6), max_size=3))
    strides = [draw(st.integers(-40, 40)) for _ in shape]
    low = sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True) if stride < 0)
    high = sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True) if stride > 0)
    if high - low + itemsize > NBYTES:
        shape, strides, low, high = [], [], 0, 0
    return draw(st.integers(-low, NBYTES - high - itemsize)), shape, strides, itemsize


@st.composite
def spans(draw: st.DrawFn) -> Span:
    kind = draw(st.sampled_from(["view", "cells", "bits"]))
    if kind == "bits":
        flags = np.zeros(NBYTES, np.bool_)
        for begin in draw(st.lists(st.integers(0, NBYTES // 4 - 1), min_size=1, max_size=12)):
            flags[4 * begin : 4 * begin + draw(st.sampled_from([1, 2, 4, 4, 9, 16]))] = True
        first, last = np.flatnonzero(flags)[[0, -1]].tolist()
        return Span(BLOCK, first, last + 1, ByteFlags(first, flags[first : last + 1]))
    if kind == "view":
        (span,) = blocks.strided_spans(BLOCK, *draw(views()))
        return span
    run = draw(st.integers(1, 9))
    begins = draw(st.lists(st.integers(0, NBYTES - run), min_size=1, max_size=12))
    return Span(BLOCK, min(begins), max(begins) + run, Cells(run, lambda: np.array(begins)))


@given(views())
def test_a_span_has_the_bytes_of_the_view(view: tuple[int, list[int], list[int], int]) -> None:
    (span,) = blocks.strided_spans(BLOCK, *view)
    expected = elements(*view)
    assert touched(span) == expected
    assert (span.start, span.stop) == (min(expected), max(expected) + 1)
    begins, run = ranges.starts(span)
    assert (np.diff(begins) > 0).all()
    assert {begin + byte for begin in begins.tolist() for byte in range(run)} == expected


@pytest.mark.parametrize("most_work", [ranges.MOST_WORK, 1])
@given(one=spans(), two=spans())
@settings(max_examples=300 if IS_LONG else 60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_two_spans_meet_where_they_have_a_byte_in_common(
    monkeypatch: pytest.MonkeyPatch, most_work: int, one: Span, two: Span
) -> None:
    monkeypatch.setattr(ranges, "MOST_WORK", most_work)  # 1: the solver gives up, and the bytes are listed
    common = touched(one) & touched(two)
    assert ranges.meet(one, two) == bool(common)
    assert ranges.find_common(one, two) == min(common, default=None)
    begins, run = ranges.starts(one)
    index = ranges.find_first_overlap(begins, run, two)
    assert (index is not None) == bool(common)
    if index is not None:
        assert common & set(range(begins[index], begins[index] + run))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), min_size=1, max_size=40), st.integers(0, 70))
def test_regions_of_flags_have_these_bytes_however_many_runs_they_are(runs: list[tuple[int, int]], start: int) -> None:
    flags = np.array([flag for gap, run in runs for flag in [False] * gap + [True] * run] + [False] * 3)
    found = [Span(*each) for each in ranges.regions_of(BLOCK, start, flags)]
    expected = {start + int(each) for each in np.flatnonzero(flags)}
    assert set[int]().union(*map(touched, found)) == expected
    assert len(found) <= 8
    again = ranges.regions_of(BLOCK, start - start % 64, np.concatenate([np.zeros(start % 64, np.bool_), flags]))
    assert [Span(*each) for each in again] == found
    assert {hash(each[1:]) for each in again} == {hash(each[1:]) for each in found}


def test_a_pattern_of_a_million_runs_is_a_few_numbers_or_one_bit_a_byte() -> None:
    regular = np.tile([True, False, False, False], 1 << 20)
    (strided,) = ranges.regions_of(BLOCK, 0, regular)
    assert strided.form == Strided(1, ((4, 1 << 20),))
    (bits,) = ranges.regions_of(BLOCK, 0, np.random.default_rng(1).random(1 << 22) < 0.5)
    assert isinstance(bits.form, ByteFlags)
    assert bits.form.packed.nbytes <= (1 << 19) + 8


def test_the_same_bytes_seen_in_other_ways_are_the_same_span() -> None:
    x = np.zeros((6, 5, 4), np.uint16)
    views = [x[:, ::2, 1], x[:, ::2, 1].T, x[::-1, ::2, 1], x[:, ::2, 1, None], x[:, ::2, 1][:, ::-1].T]
    found = {
        blocks.strided_spans(BLOCK, each.ctypes.data - x.ctypes.data, each.shape, each.strides, each.itemsize)
        for each in views
    }
    assert len(found) == 1


def test_a_part_without_gaps_is_one_range() -> None:
    assert blocks.strided_spans(BLOCK, 8, (3, 4), (16, 4), 4) == (Span(BLOCK, 8, 56),)
    assert blocks.strided_spans(BLOCK, 8, (1, 4), (999, 4), 4) == (Span(BLOCK, 8, 24),)
    assert blocks.strided_spans(BLOCK, 8, (3, 0), (16, 4), 4) == ()
    ((*_, form),) = blocks.strided_spans(BLOCK, 0, (3, 2, 5), (100, 50, 10), 4)
    assert form == Strided(4, ((10, 30),))


def test_columns_of_a_large_matrix_cost_no_memory() -> None:
    """A region is told by its strides: nothing of the size of the matrix is made to compare two."""
    block = Block(np.empty(1 << 26, np.uint8), 0, 1 << 26, 1 << 51, None, None, LINE)
    (one,), (two,) = (blocks.strided_spans(block, 8 * n, (1 << 12,), (1 << 14,), 8) for n in (3, 4))
    assert not ranges.meet(one, two)
    assert ranges.meet(one, one)
    assert ranges.meet(Span(block, 1 << 20, 1 << 21), one)
    assert not ranges.meet(Span(block, 4 * 8, 1 << 14), one)
