"""The list of `make quick` names tests that exist, each once, and the marker reaches them and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

import xferlib.testing

TESTS = Path(__file__).parent
LISTED = (TESTS / "quick.txt").read_text(encoding="utf-8").split()
DESELECTED = [name.removeprefix("--deselect=") for name in LISTED if name.startswith("--deselect=")]


def test_every_file_exists_and_is_listed_once() -> None:
    files = [name for name in LISTED if not name.startswith("--")]
    assert files
    assert len(LISTED) == len(set(LISTED))
    assert not [name for name in files if not (TESTS.parent / name.partition("::")[0]).is_file()]


def test_what_is_left_out_is_in_a_file_of_the_list() -> None:
    assert len(DESELECTED) == sum(name.startswith("--") for name in LISTED)
    contract = list(Path(xferlib.testing.__file__).parent.glob("*.py"))
    for name in DESELECTED:
        where, _, test = name.rpartition("::")
        assert where in LISTED, f"{where} is not run anyway"
        files = contract if "test_conformance" in where else [TESTS.parent / where]
        assert any(f"def {test}(" in path.read_text(encoding="utf-8") for path in files), f"there is no {test}"


def test_the_heart_is_in_it() -> None:
    """A backend's contract, transfers, kernels, arrays of the simulator, messages, exports and the layers."""
    heart = ("test_conformance", "test_transfer", "kernels/test_elementwise", "sim/test_machine", "test_messages")
    files = {name.partition("::")[0] for name in LISTED}
    assert {f"tests/{name}.py" for name in (*heart, "test_exports", "test_architecture")} <= files


def test_the_marker_is_set_on_the_files_of_the_list(request: pytest.FixtureRequest) -> None:
    is_listed = request.path.relative_to(TESTS.parent).as_posix() in LISTED
    assert is_listed == any(mark.name == "quick" for mark in request.node.iter_markers())
