"""`sim.explore`, with the schedules that it gives to `sim.check`."""

from __future__ import annotations

import pytest

import xferlib as xl
from xferlib import sim


def test_a_program_runs_once_under_each_order_of_its_unordered_operations() -> None:
    def program(schedule: object) -> int:
        with xl.use_backend("sim"), sim.check("off", schedule=schedule):  # type: ignore[arg-type]
            x, streams = xl.zeros(1), [xl.Stream(), xl.Stream()]
            xl.synchronize()
            for stream, number in zip(streams, (1, 2), strict=True):
                with stream:
                    x[...] = number
            xl.synchronize()
            return int(xl.to_host(x)[0])

    assert sorted(sim.explore(program)) == [1, 2]


def test_the_schedule_of_before_is_back_after_an_error() -> None:
    def program(schedule: object) -> None:
        with xl.use_backend("sim"), sim.check("off", schedule=schedule):  # type: ignore[arg-type]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(sim.explore(program))
    with xl.use_backend("sim"):
        assert xl.to_host(xl.ones(3)).sum() == 3
