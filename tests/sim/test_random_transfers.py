"""The detector against an independent model: random transfers, batches of `prefetch` and kernels."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests.sim.random_transfers import Model, draw, verdict
from tests.sizes import IS_LONG
from xferlib import sim

PROGRAMS = 20_000 if IS_LONG else 100
SHARDS = 80 if IS_LONG else 2  # beyond two minutes a test counts as one that hangs

pytestmark = pytest.mark.usefixtures("silence")


@pytest.mark.parametrize("shard", range(SHARDS))
def test_simulator_and_model_agree_and_programs_without_a_race_have_one_result(shard: int) -> None:
    each = PROGRAMS // SHARDS
    assert [seed for seed in range(shard * each, (shard + 1) * each) if verdict(seed)[0]] == []


def test_the_study_has_programs_of_both_kinds() -> None:
    racy = sum(Model(is_lax=True).run(draw(seed)).is_racy() for seed in range(100))
    assert 100 / 4 < racy < 3 * 100 / 4


def test_the_study_notices_a_simulator_that_sees_no_reads_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xferlib._core.observe.note_host_access", lambda *_, **__: None)
    assert any(verdict(seed)[0] == "missed" for seed in range(PROGRAMS))


SEVERAL: dict[str, Callable[[Any, Any], Any]] = {
    "tree": lambda x, y: xl.tree.to_device([x, y]),
    "list": lambda x, y: list(xl.prefetch([x, y])),
    "generator": lambda x, y: list(xl.prefetch(iter([x, y]))),
    "list of trees": lambda x, y: list(xl.prefetch([{"x": x, "y": y}, {"x": x, "y": y}])),
}


@pytest.mark.parametrize("elements", [16, 70_000])
@pytest.mark.parametrize("is_pinned", [False, True])
@pytest.mark.parametrize("what", SEVERAL)
def test_arrays_that_travel_together_are_read_by_the_host(what: str, elements: int, *, is_pinned: bool) -> None:
    with xl.use_backend("sim"):
        x, y = np.ones(elements), xl.pinned_array(np.ones(elements)) if is_pinned else np.ones(elements)
        d = xl.zeros(elements)
        for waits in (False, True):
            with sim.check("log") as checked:
                arriving = xl.to_host_async(d, out=y)
                if waits:
                    arriving.result()
                SEVERAL[what](x, y)
                arriving.result()
            assert (sim.Hazard.HOST_READ in {race.hazard for race in checked.races}) is not waits


@pytest.mark.parametrize("how", ["ordinary", "of the pool", "registered"])
@pytest.mark.parametrize("is_tree", [False, True])
def test_a_small_batch_in_pinned_memory_is_read_beside_the_consumers_work(how: str, *, is_tree: bool) -> None:
    with xl.use_backend("sim"), contextlib.ExitStack() as stack:
        x = xl.pinned_array(np.ones(16)) if how == "of the pool" else np.ones(16)
        if how == "registered":
            stack.enter_context(xl.pin(x))
        with sim.check("log") as checked:
            for _ in xl.prefetch([{"x": x} if is_tree else x]):
                sim.writes(x)
            xl.synchronize()
        assert (sim.Hazard.HOST_WRITE in {race.hazard for race in checked.races}) is (how != "ordinary")
