from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests.console import main

DATA = files("xferlib") / "_cli" / "demo"


@pytest.fixture(autouse=True)
def automatic_choice() -> Iterator[None]:
    """The demo's own choice of backends, whatever the environment of the tests names."""
    before = xl.configure(backend=None, device=None)
    yield
    xl.configure(backend=before.backend, device=before.device)


def run(tmp_path: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    file = tmp_path / "demo.json"
    status = main(["demo", *arguments, "--json", str(file)])
    return status, json.loads(file.read_text())


def test_digits_are_the_ones_described_beside_them() -> None:
    raw = (DATA / "digits.npz").read_bytes()
    described = (DATA / "digits.md").read_text()
    with (DATA / "digits.npz").open("rb") as file, np.load(file) as data:
        images, labels = data["images"], data["labels"]
    assert (images.shape, images.dtype, int(images.max())) == ((1797, 8, 8), np.uint8, 16)
    assert (labels.shape, labels.dtype) == ((1797,), np.uint8)
    assert set(labels) == set(range(10))
    assert hashlib.sha256(raw).hexdigest() in described
    assert hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest() in described


def test_every_usable_backend_learns_the_same_and_another_has_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    set_terminal(monkeypatch, 40)
    status, found = run(tmp_path, "--epochs", "10", "--trace", str(tmp_path / "run.svg"))
    assert status == 0
    ran = [row for row in found["rows"] if not row["reason"]]
    reasons = {row["backend"]: row["reason"] for row in found["rows"]}
    states = xl.available_backends()
    assert set(reasons) == set(states)
    assert all(state.is_available or state.reason in reasons[name] for name, state in states.items())
    assert "numpy:cpu" in {row["device"] for row in ran}
    for row in ran:
        assert row["accuracy"] > 0.95
        assert row["images_per_s"] > 0
        assert row["nbytes"] > 10 * 1500 * (64 + 10) * 4  # every batch of every epoch
        assert len(row["losses"]) == 10
        # 150 steps in float32; sums in another order differ by units in the last place, and this grows slowly.
        assert row["difference"] < 1e-3
        assert (tmp_path / f"run-{row['device'].replace(':', '-')}.svg").is_file()
    check_lines(capsys.readouterr().out, 40)


def set_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """Let standard output be a terminal of that width."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)


def check_lines(text: str, columns: int) -> None:
    """No line is longer than that, and none was broken."""
    lines = text.splitlines()
    assert max(map(len, lines)) <= columns
    assert any(line.split()[:1] == ["accuracy"] for line in lines)
    assert "numpy:cpu (CPU)" in lines


@pytest.mark.parametrize("columns", [60, 80])
def test_a_narrow_terminal_has_no_broken_lines(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    set_terminal(monkeypatch, columns)
    xl.configure(backend="numpy")
    assert main(["demo", "--epochs", "1"]) == 0
    check_lines(capsys.readouterr().out, columns)


def test_a_named_backend_is_the_only_one(tmp_path: Path) -> None:
    xl.configure(backend="numpy")
    _, found = run(tmp_path, "--epochs", "1")
    assert [row["backend"] for row in found["rows"]] == ["numpy"]


def test_a_named_backend_that_cannot_run_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    xl.configure(backend="abacus")
    assert main(["demo", "--epochs", "1"]) == 2
    assert "abacus" in capsys.readouterr().err


def test_a_backend_that_fails_has_its_message_and_spoils_the_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **options: Any) -> Any:
        raise xl.errors.DeviceMemoryError("the device is full")

    monkeypatch.setattr(xl, "to_device", full)
    xl.configure(backend="numpy")
    status, found = run(tmp_path, "--epochs", "1")
    assert status == 1
    assert found["rows"][0]["reason"] == "the device is full"


def test_the_command_runs_the_example_itself_and_repeats_it_bit_for_bit(tmp_path: Path) -> None:
    xl.configure(backend="numpy")
    once, again = (run(tmp_path, "--epochs", "1", "--seed", "7")[1]["rows"][0] for _ in range(2))
    assert (once["losses"], once["accuracy"]) == (again["losses"], again["accuracy"])
    source = Path(sys.modules["xferlib._cli.digits"].__file__ or "")
    assert source.samefile(Path(__file__).parents[1] / "examples" / "digits.py")


def test_the_table_has_a_line_for_each_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    xl.configure(backend="numpy")
    assert run(tmp_path, "--epochs", "1")[0] == 0
    title, header, row, _caption = capsys.readouterr().out.splitlines()
    assert "297 held out" in title
    assert header.split()[:2] == ["device", "accuracy"]
    assert row.startswith("numpy:cpu (CPU)")


def test_plot_writes_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    xl.configure(backend="numpy")
    picture = tmp_path / "loss.png"
    run(tmp_path, "--epochs", "1", "--plot", str(picture))
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        *((["--epochs", number], "--epochs") for number in ("0", "-1", "many")),
        *((["--json", path], path) for path in ("nowhere/demo.json", ".")),
        *((["--plot", path], path) for path in ("loss.txt", "nowhere/loss.png")),
        (["--trace", "run.txt"], "is not a timeline"),
    ],
)
def test_wrong_arguments_are_refused_before_the_work(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(["demo", *arguments])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_the_timeline_is_of_the_last_epoch(tmp_path: Path) -> None:
    xl.configure(backend="sim")
    with xl.sim.check():  # which finishes what earlier tests left to be staged
        run(tmp_path, "--epochs", "2", "--trace", str(tmp_path / "run.json"))
    events = json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    lines = [each["args"]["source"] for each in events if each.get("cat") == "h2d"]
    assert [line for line in lines if "digits.py" not in line] == []
    copies = Counter(lines).most_common(1)[0][1]
    assert copies == 15  # batches, images and targets in one copy
