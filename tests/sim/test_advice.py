"""Advice is true: followed to the letter, it ends the report and gives what the program gives call by call."""

from __future__ import annotations

import pytest

from tests.sim.advised import draw, followed, run, study, synchronous
from tests.sizes import IS_LONG, sized
from xferlib.sim import detector as reports
from xferlib.sim.detector import Hazard

PROGRAMS, SHARDS = sized(120), 2 if IS_LONG else 1


@pytest.mark.parametrize("shard", range(SHARDS))
def test_advice_followed_to_the_letter_ends_every_report_and_gives_the_synchronous_values(shard: int) -> None:
    each = PROGRAMS // SHARDS
    studies = {seed: study(seed) for seed in range(shard * each, (shard + 1) * each)}
    assert {seed: found.fault for seed, found in studies.items() if found.fault} == {}
    assert sum(found.fixes for found in studies.values()) > each  # or there was little to follow


@pytest.mark.parametrize(
    ("racy", "expected"),
    [
        (["w = xl.to_device(np.ones(n))", "t1 = xl.to_host_async(w)", "w -= 0.5", "seen[0] = t1.result()"], 1.0),
        (
            [
                "w, a = xl.to_device(np.ones(n)), np.full(n, 3.0)",
                "t1 = xl.to_device_async(a, out=w)",
                "y = w + 1",
                "t1.result(); seen[0] = xl.to_host(y)",
            ],
            4.0,
        ),
    ],
)
@pytest.mark.parametrize("n", [1, 1 << 17])
def test_the_first_request_comes_first(racy: list[str], expected: float, n: int) -> None:
    lines = [*(line for line in draw(0)[0] if line[0] in "dh"), *racy]
    (race,) = run(lines, n, "log", "lazy").races
    assert "async" in lines[race.first.site.line - 1]
    assert race.second.what in ("subtract", "add")
    mended = followed(lines, race)
    for schedule in ("lazy", "lifo"):
        outcome = run(mended, n, "log", schedule)
        assert not outcome.races
        assert (outcome.values[-1] == expected).all()
    assert (synchronous(lines, n)[-1] == expected).all()


@pytest.mark.parametrize(
    "racy",
    [
        ["t1 = xl.to_device_async(h9, out=d0, stream=s1)", "t2 = xl.to_host_async(d1, out=h9, stream=s1)"],
        ["t1 = xl.to_host_async(d0, out=h9, stream=s1)", "t2 = xl.to_host_async(d1, out=h9, stream=s1)"],
    ],
    ids=["a copy in flight reads the target", "a copy in flight writes it"],
)
def test_an_undeclared_write_into_a_target_that_another_copy_uses_is_found(racy: list[str]) -> None:
    setup = [*draw(0)[0][:10], "h9 = xl.pinned_array(np.full(n, 11.0))"]
    silent = "h9[:] = 118.0"
    races = run([*setup, *racy, silent], 64, "log", "lazy").races
    assert Hazard.TARGET_CHANGED in [race.hazard for race in races]
    assert run([*setup, *racy], 64, "log", "lazy").races == []
    assert run([*setup, *racy, "s1.synchronize()", silent], 64, "log", "lazy").races == []


@pytest.mark.parametrize("seed", [2045, 4577, 5344])
def test_programs_with_a_write_into_a_target_in_use(seed: int) -> None:
    """Once without a report, and with wrong values."""
    assert study(seed).fault == ""


def test_the_study_notices_advice_that_lets_the_copy_follow_what_came_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    right = reports._remedy

    def late(hazard: object, first: object, second: object, names: object) -> str:
        return right(hazard, first, second, names).replace(" before ", " after ")  # type: ignore[arg-type]

    monkeypatch.setattr(reports, "_remedy", late)
    assert any(study(seed).fault for seed in range(20))
