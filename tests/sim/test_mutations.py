"""Every program of the study, every synchronisation: what changes the result is reported, nothing else is."""

from __future__ import annotations

import pytest

from tests.sim.mutations import study
from tests.sim.programs import PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_deletion_that_changes_the_result_is_reported_and_no_correct_program_is(name: str) -> None:
    found = study(PROGRAMS[name])
    assert found.alarms == 0
    assert found.wrong == 0
    assert found.deletions, "a program without synchronisation has nothing to delete"
    assert [each.label for each in found.deletions if each.changes_the_result and not each.is_reported] == []
    assert [each.label for each in found.deletions if each.is_reported and not each.changes_the_result] == []


def test_the_study_has_enough_programs_and_enough_that_matters() -> None:
    assert len(PROGRAMS) >= 12


def test_running_as_a_cpu_fallback_does_finds_nothing() -> None:
    found = study(PROGRAMS["double buffered pipeline"])
    assert not any(each.is_found_by_running for each in found.deletions)
    assert all(each.changes_the_result for each in found.deletions)
