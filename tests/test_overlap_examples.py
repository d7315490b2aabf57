"""The programs of the tutorial on overlap: xferlib's run everywhere, and overlap on the clock of a simulated GPU."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import xferlib as xl
from tests.running import run_example
from tests.sizes import IS_LONG

FOLDER = Path(__file__).parents[1] / "examples" / "overlap"
PAGE = Path(__file__).parents[1] / "docs" / "tutorial" / "overlap.md"

LONG, SHORT = "SHAPE = (1000, 10_000)", "SHAPE = (100, 1000)"
"""The size of the arrays in the programs, and in the tests unless all is to be tested."""
RESULTS = {
    "pageable_xferlib": (r"sums (2e\+07 and 1e\+07|200000 and 100000)", []),
    "pinned_xferlib": (r"sums (2e\+07 and 1e\+07|200000 and 100000)", []),
    "back_xferlib": (r"sum (1e\+07|100000)", []),
    "loop_xferlib": (r"norm 10\.239", ["4", "256"]),
}
CUPY = {"pageable_cupy", "pinned_cupy", "back_cupy", "loop_cupy", "loop_cupy_by_hand"}


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The programs can import one another."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    for path in FOLDER.glob("*.py"):
        sys.modules.pop(path.stem, None)


def program(name: str) -> ModuleType:
    return importlib.import_module(name)


def test_every_program_is_run() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == {*RESULTS, *CUPY, "training"}


@pytest.fixture(scope="module")
def shorter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the programs, whose arrays are small where nothing depends on their size."""
    folder = tmp_path_factory.mktemp("overlap")
    texts = {path.name: path.read_text() for path in FOLDER.glob("*_xferlib.py")}
    assert sum(LONG in text for text in texts.values()) == 2
    for name, text in texts.items():
        (folder / name).write_text(text if IS_LONG else text.replace(LONG, SHORT))
    return folder


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("backend", sorted(xl.available_backends()))
@pytest.mark.parametrize("name", sorted(RESULTS))
def test_a_program_runs_on_every_backend(
    name: str, backend: str, shorter: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected, arguments = RESULTS[name]
    assert re.fullmatch(expected, run_example(shorter / f"{name}.py", backend, arguments, monkeypatch, capsys))


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("name", sorted(CUPY))
def test_a_program_for_cupy_gives_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert re.match(r"sums? [12]e\+07|norm \d", run_example(FOLDER / f"{name}.py", "cupy", [], monkeypatch, capsys))


@pytest.mark.usefixtures("programs")
def test_the_first_array_is_doubled_while_the_second_is_on_its_way() -> None:
    """Program 2, on the simulator's clock."""
    with xl.use_backend("sim"):
        a, b = (xl.pinned_array(np.ones((1000, 1000))) for _ in range(2))
        with xl.trace() as t:
            program("pageable_xferlib").run(a, b)
    assert t.overlap == 1.0


@pytest.mark.usefixtures("programs")
def test_the_loop_overlaps_and_the_plain_one_does_not() -> None:
    """Program 5, with `prefetch` and without: of eight batches only the last is trained on while nothing is copied."""
    training = program("training")
    data, weights = training.data_of(8, 1024)
    with xl.use_backend("sim"):
        data, w = xl.pinned_array(data), xl.to_device(weights)
        with xl.trace() as prefetched:
            program("loop_xferlib").run(data, 1024, w)
        with xl.trace() as plain:
            for batch in training.batches_of(data, 1024):
                w = training.step(xl.to_device(batch), w)
                xl.synchronize()
    assert plain.overlap == 0.0
    assert prefetched.overlap == pytest.approx(7 / 8)


def test_the_page_shows_the_programs_as_they_are() -> None:
    text = PAGE.read_text()
    for path in FOLDER.glob("*.py"):
        assert f"examples/overlap/{path.name}" in text
