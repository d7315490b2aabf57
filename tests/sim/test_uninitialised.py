"""Device memory that nothing has written: copies of it are quiet, uses of its values are reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xferlib as xl
from xferlib import sim


@pytest.fixture(autouse=True)
def on_sim() -> Iterator[None]:
    with xl.use_backend("sim"):
        yield


def reported(program: Callable[[], Any]) -> list[sim.Race]:
    with sim.check("log") as checked:
        program()
    return checked.races


@xl.elementwise
def _twice(x: Any) -> Any:
    return x * 2.0


def to_host() -> None:
    xl.to_host(xl.empty(8))


def to_host_later() -> None:
    xl.to_host_async(xl.empty(8)).result()


def operator() -> None:
    _ = xl.empty(8) + 1.0


def in_place() -> None:
    x = xl.empty(8)
    x += 1.0


def kernel() -> None:
    _twice(xl.empty(8))


def reduced() -> None:
    xl.get_array_module(xl.zeros(1)).sum(xl.empty(8))


def assigned_from() -> None:
    xl.zeros(8)[...] = xl.empty(8)


def a_view_not_written() -> None:
    x = xl.empty((4, 4))
    x[:, ::2] = 1.0
    xl.to_host(x[:, 1::2])


def a_copy() -> None:
    xl.to_host(xl.to_device(xl.empty(8)))


def a_copy_on_another_device() -> None:
    xl.to_host(xl.to_device(xl.empty(8), device="sim:1"))


def a_copy_in_another_layout() -> None:
    xl.to_host(xl.to_device(xl.empty((8, 4)).T))


USES = [
    to_host, to_host_later, operator, in_place, kernel, reduced, assigned_from, a_view_not_written, a_copy,
    a_copy_on_another_device, a_copy_in_another_layout,
]  # fmt: skip


@pytest.mark.parametrize("program", USES)
def test_a_use_of_what_nothing_has_written_is_reported_where_it_is_used(program: Callable[[], Any]) -> None:
    (race,) = reported(program)
    assert race.hazard is sim.Hazard.UNINITIALISED
    assert race.second.site.function == program.__name__
    assert "zeros() instead of empty()" in race.remedy


def written_by_a_transfer() -> None:
    x, y = xl.empty(8), xl.empty(8)
    xl.to_device(np.ones(8), out=x)
    transfer = xl.to_device_async(np.ones(8), out=y)
    x += transfer.result()
    xl.to_host(x)


def written_by_a_kernel() -> None:
    xl.to_host(_twice(xl.ones(8), out=xl.empty(8)))


def written_in_parts() -> None:
    x = xl.empty((4, 4))
    x[:, ::2] = 1.0
    x[:, 1::2] = 2.0
    xl.to_host(x)


def only_the_written_part_is_used() -> None:
    x = xl.empty((4, 4))
    x[1:3] = 1.0
    x[1:3] += xl.to_device(x)[1:3]
    xl.to_host(x[1:3])


def copied_and_never_used() -> None:
    xl.to_device(xl.empty(8), device="sim:1")


def written_after_the_copy() -> None:
    y = xl.to_device(xl.empty(8))
    y[...] = 1.0
    xl.to_host(y)


def packed_as_a_tree() -> None:
    xl.tree.to_host(xl.tree.to_device({"a": np.ones(3), "b": np.ones(5, np.int8)}))


def selected_and_written() -> None:
    x = xl.empty(4)
    x[xl.to_device(np.array([True, True, True, True]))] = 1.0
    xl.to_host(x)


QUIET = [
    written_by_a_transfer, written_by_a_kernel, written_in_parts, only_the_written_part_is_used, copied_and_never_used,
    written_after_the_copy, packed_as_a_tree, selected_and_written,
]  # fmt: skip


@pytest.mark.parametrize("program", QUIET)
def test_written_memory_is_used_without_a_report(program: Callable[[], Any]) -> None:
    assert reported(program) == []


PARTS = st.tuples(st.integers(0, 7), st.integers(1, 8)).map(lambda each: slice(each[0], each[0] + each[1]))


@given(st.lists(PARTS, max_size=4), PARTS, st.integers(0, 2))
def test_every_range_is_reported_exactly_if_some_of_its_bytes_lack_a_value(
    written: list[slice], used: slice, copies: int
) -> None:
    is_written = np.zeros(8, bool)

    def program() -> None:
        x = xl.empty(8)
        for part in written:
            is_written[part] = True
            x[part] = 1.0
        for number in range(copies):
            x = xl.to_device(x, device=f"sim:{(number + 1) % 2}")
        xl.to_host(x[used])

    assert bool(reported(program)) == (not is_written[used].all())


# --- separate runs of bytes


def by_columns() -> None:
    x = xl.empty((4, 6))
    for column in range(6):
        x[:, column] = column
    assert (xl.to_host(x + 1.0) == np.arange(6.0) + 1.0).all()


def by_index_arrays() -> None:
    x = xl.empty(8)
    x[np.array([0, 2, 4, 6])] = 1.0
    x[xl.to_device(np.array([1, 3, 5, 7]))] = 2.0
    assert (xl.to_host(x) == [1.0, 2.0] * 4).all()


def half_by_a_range_half_by_steps() -> None:
    x = xl.empty(8)
    x[:4] = 1.0
    x[4::2] = 2.0
    x[5::2] = 3.0
    xl.to_host(x * 2.0)


def a_column_that_was_written() -> None:
    x = xl.empty((4, 6))
    x[:, 2] = 1.0
    xl.to_host(x[:, 2] * 2.0)


def a_copy_on_the_device_of_what_columns_have_filled() -> None:
    x: Any = xl.empty((4, 6))
    for column in range(6):
        x[:, column] = column
    xl.to_host(x.copy())


@pytest.mark.parametrize(
    "program",
    [
        by_columns,
        by_index_arrays,
        half_by_a_range_half_by_steps,
        a_column_that_was_written,
        a_copy_on_the_device_of_what_columns_have_filled,
    ],
)
def test_bytes_of_separate_writes_have_a_value(program: Callable[[], None]) -> None:
    assert reported(program) == []


def another_column() -> None:
    x = xl.empty((4, 6))
    x[:, 2] = 1.0
    xl.to_host(x[:, 3] * 2.0)


def the_whole_of_it() -> None:
    x = xl.empty((4, 6))
    x[:, 2] = 1.0
    xl.to_host(x)


def elements_that_an_index_array_selects() -> None:
    x = xl.empty(8)
    x[::2] = 1.0
    xl.to_host(x[np.array([0, 3])])


def memory_handed_out_again() -> None:
    x = xl.ones(1000)
    x += 1.0
    del x
    xl.to_host(xl.empty(1000) + 1.0)


@pytest.mark.parametrize(
    "program", [another_column, the_whole_of_it, elements_that_an_index_array_selects, memory_handed_out_again]
)
def test_bytes_between_separate_writes_have_no_value(program: Callable[[], None]) -> None:
    assert [race.hazard for race in reported(program)] == [sim.Hazard.UNINITIALISED]


_KEYS = st.one_of(
    st.tuples(st.builds(slice, st.integers(0, 5), st.integers(0, 6), st.integers(1, 3)), st.integers(0, 6)),
    st.tuples(st.integers(0, 5), st.builds(slice, st.integers(0, 6), st.integers(0, 7), st.integers(1, 3))),
    st.tuples(st.integers(0, 5)),
    st.tuples(st.lists(st.integers(0, 5), min_size=1, max_size=4).map(lambda rows: np.array(rows, np.int64))),
)


@settings(max_examples=60)
@given(writes=st.lists(_KEYS, max_size=8), read=_KEYS)
def test_a_read_is_reported_exactly_if_an_element_was_never_written(writes: list[Any], read: Any) -> None:
    written = np.zeros((6, 7), bool)

    def program() -> None:
        x = xl.empty((6, 7))
        for key in writes:
            if written[key].size:
                written[key] = True
                x[key] = 1.0
        if written[read].size:
            xl.to_host(x[read] * 2.0)

    races = reported(program)
    is_void = bool(written[read].size) and not written[read].all()
    assert [race.hazard for race in races] == [sim.Hazard.UNINITIALISED] * is_void
