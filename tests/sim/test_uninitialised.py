"""Device memory that nothing has written: copies of it are quiet, uses of its values are reported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xferlib as xl
from xferlib import sim

pytestmark = pytest.mark.usefixtures("on_sim")


def reported(program: Callable[[], Any]) -> list[sim.Race]:
    with sim.check("log") as checked:
        program()
    return checked.races


@xl.elementwise
def _twice(x: Any) -> Any:
    return x * 2.0


def run(code: str) -> list[sim.Race]:
    """The reports of a program."""
    program = compile(code, "program.py", "exec")
    return reported(lambda: exec(program, {"xl": xl, "np": np, "twice": _twice}))


IN_COLUMNS = "x = xl.empty((4, 6))\nfor column in range(6): x[:, column] = column\n"
USES = {
    "to_host": "xl.to_host(xl.empty(8))",
    "to_host_async": "xl.to_host_async(xl.empty(8)).result()",
    "operator": "xl.empty(8) + 1.0",
    "in place": "x = xl.empty(8); x += 1.0",
    "kernel": "twice(xl.empty(8))",
    "reduction": "xl.get_array_module(xl.zeros(1)).sum(xl.empty(8))",
    "assigned from": "xl.zeros(8)[...] = xl.empty(8)",
    "a view not written": "x = xl.empty((4, 4)); x[:, ::2] = 1.0; xl.to_host(x[:, 1::2])",
    "a copy": "xl.to_host(xl.to_device(xl.empty(8)))",
    "a copy on another device": "xl.to_host(xl.to_device(xl.empty(8), device='sim:1'))",
    "a copy in another layout": "xl.to_host(xl.to_device(xl.empty((8, 4)).T))",
    "another column": "x = xl.empty((4, 6)); x[:, 2] = 1.0; xl.to_host(x[:, 3] * 2.0)",
    "the whole of it": "x = xl.empty((4, 6)); x[:, 2] = 1.0; xl.to_host(x)",
    "selected elements": "x = xl.empty(8); x[::2] = 1.0; xl.to_host(x[np.array([0, 3])])",
    "memory handed out again": "x = xl.ones(1000); x += 1.0; del x; xl.to_host(xl.empty(1000) + 1.0)",
}
QUIET = {
    "written by a transfer": "x = xl.empty(8); xl.to_device(np.ones(8), out=x); xl.to_host(x)",
    "written later": "x = xl.to_device_async(np.ones(8), out=xl.empty(8)).result(); x += 1.0; xl.to_host(x)",
    "written by a kernel": "xl.to_host(twice(xl.ones(8), out=xl.empty(8)))",
    "written in parts": "x = xl.empty((4, 4)); x[:, ::2] = 1.0; x[:, 1::2] = 2.0; xl.to_host(x)",
    "the written part": "x = xl.empty((4, 4)); x[1:3] = 1.0; x[1:3] += xl.to_device(x)[1:3]; xl.to_host(x[1:3])",
    "copied and never used": "xl.to_device(xl.empty(8), device='sim:1')",
    "written after the copy": "y = xl.to_device(xl.empty(8)); y[...] = 1.0; xl.to_host(y)",
    "packed as a tree": "xl.tree.to_host(xl.tree.to_device({'a': np.ones(3), 'b': np.ones(5, np.int8)}))",
    "selected": "x = xl.empty(4); x[xl.to_device(np.array([True] * 4))] = 1.0; xl.to_host(x)",
    "by columns": IN_COLUMNS + "assert (xl.to_host(x + 1.0) == np.arange(6.0) + 1.0).all()",
    "by columns, copied": IN_COLUMNS + "xl.to_host(x.copy())",
    "a column": "x = xl.empty((4, 6)); x[:, 2] = 1.0; xl.to_host(x[:, 2] * 2.0)",
    "by index arrays": "x = xl.empty(8); x[np.array([0, 2, 4, 6])] = 1.0\n"
    "x[xl.to_device(np.array([1, 3, 5, 7]))] = 2.0\n"
    "assert (xl.to_host(x) == [1.0, 2.0] * 4).all()",
    "by a range and by steps": "x = xl.empty(8); x[:4] = 1.0; x[4::2] = 2.0; x[5::2] = 3.0; xl.to_host(x * 2.0)",
}


@pytest.mark.parametrize("code", USES.values(), ids=USES)
def test_a_use_of_what_nothing_has_written_is_reported_where_it_is_used(code: str) -> None:
    (race,) = run(code)
    assert race.hazard is sim.Hazard.UNINITIALISED
    assert (race.second.site.file, race.second.site.line) == ("program.py", 1)
    assert "zeros() instead of empty()" in race.remedy


@pytest.mark.parametrize("code", QUIET.values(), ids=QUIET)
def test_written_memory_is_used_without_a_report(code: str) -> None:
    assert run(code) == []


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
