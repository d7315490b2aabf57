"""Every program of the study, every synchronisation: what changes the result is reported, nothing else is."""

from __future__ import annotations

import pytest

from tests.sim.mutations import Study, study, table, written
from tests.sim.programs import PROGRAMS


@pytest.fixture(scope="module")
def studies() -> dict[str, Study]:
    return {name: study(program) for name, program in PROGRAMS.items()}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_deletion_that_changes_the_result_is_reported_and_no_correct_program_is(
    name: str, studies: dict[str, Study]
) -> None:
    found = studies[name]
    assert found.alarms == 0
    assert found.wrong == 0
    assert found.deletions, "a program without synchronisation has nothing to delete"
    assert [each.label for each in found.deletions if each.changes_the_result and not each.is_reported] == []
    assert [each.label for each in found.deletions if each.is_reported and not each.changes_the_result] == []


def test_the_study_has_enough_programs_and_enough_that_matters(studies: dict[str, Study]) -> None:
    assert len(PROGRAMS) >= 12
    assert sum(each.changes_the_result for found in studies.values() for each in found.deletions) >= 36


def test_running_as_a_cpu_fallback_does_finds_nothing(studies: dict[str, Study]) -> None:
    assert not any(each.is_found_by_running for found in studies.values() for each in found.deletions)


def test_the_published_table_is_this_study(studies: dict[str, Study]) -> None:
    """`python -m tests.sim.mutations` writes it."""
    assert written() == table(studies)
