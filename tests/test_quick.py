"""The list of `make quick` names tests that exist, each once, and the marker reaches them and no other."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import xferlib.testing
from tests.conftest import LISTED, QUICK, TOO_SLOW, pytest_collection_modifyitems

TESTS = Path(__file__).parent


def test_every_file_exists_and_is_listed_once() -> None:
    assert QUICK
    assert len(LISTED) == len(set(LISTED))
    assert not [name for name in QUICK if not (TESTS.parent / name.partition("::")[0]).is_file()]


def test_what_is_left_out_is_one_test_of_the_list() -> None:
    contract = list(Path(xferlib.testing.__file__).parent.glob("*.py"))
    for name in TOO_SLOW:
        where, _, test = name.rpartition("::")
        assert where in QUICK, f"{where} is not run anyway"
        files = contract if "test_conformance" in where else [TESTS.parent / where]
        texts = [path.read_text(encoding="utf-8") for path in files]
        assert [each for text in texts for each in re.findall(rf"def ({test}\w*)\(", text)] == [test]


def test_the_heart_is_in_it() -> None:
    """A backend's contract, transfers, kernels, arrays of the simulator, messages, exports and the layers."""
    heart = ("test_conformance", "test_transfer", "kernels/test_elementwise", "sim/test_machine", "test_messages")
    files = {name.partition("::")[0] for name in QUICK}
    assert {f"tests/{name}.py" for name in (*heart, "test_exports", "test_architecture")} <= files


def test_the_marker_is_set_on_the_files_of_the_list(request: pytest.FixtureRequest) -> None:
    is_listed = request.path.relative_to(TESTS.parent).as_posix() in QUICK
    assert is_listed == any(mark.name == "quick" for mark in request.node.iter_markers())


@pytest.mark.parametrize(
    ("name", "is_quick"),
    [("tests/test_pinned.py::test_one", True), ("tests/test_pinned.py::TestOne::test_one[a::b]", True),
     ("tests/test_conformance.py::Test_numpy_cpu::test_one", True), ("tests/test_exit.py::test_one", False),
     ("tests/test_conformance.py::Test_torch_cpu::test_one", False), (TOO_SLOW[0], False),
     (f"{TOO_SLOW[-1]}[a-1]", False)],
)  # fmt: skip
def test_the_marker_is_for_listed_tests_that_are_not_left_out(name: str, is_quick: bool) -> None:
    marks: list[object] = []
    pytest_collection_modifyitems([SimpleNamespace(nodeid=name, add_marker=marks.append)])
    assert bool(marks) == is_quick
