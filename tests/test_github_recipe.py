"""The workflow for packages of users: its text is a workflow, and its commands test the sample package."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes import path_with, run
from xferlib.testing import configured

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "how-to" / "github-actions.md"
EXPRESSION = re.compile(r"\$\{\{ (.*?) \}\}")


@pytest.fixture(scope="module")
def workflow() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    (text,) = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def combinations(job: dict[str, Any]) -> Iterator[dict[str, str]]:
    """The cells of a job's matrix, as GitHub extends them by ``include``; one for each check, on one Python."""
    matrix = job.get("strategy", {}).get("matrix")
    if matrix is None:
        yield {}
        return
    for check in matrix["check"]:
        (extra,) = [each for each in matrix["include"] if each["check"] == check]
        yield {"python": matrix["python"][0], **extra}


def fill(text: str, cell: dict[str, str]) -> str:
    """The text with its expressions evaluated: ``matrix.name``, ``matrix.name || 'default'``, ``github.run_number``."""

    def value(match: re.Match[str]) -> str:
        name, _, default = match[1].partition(" || ")
        if name == "github.run_number":
            return "17"
        kind, _, key = name.partition(".")
        assert kind == "matrix"
        assert default or key in cell, f"the matrix has no {key}"
        return cell.get(key) or default.strip("'")

    return EXPRESSION.sub(value, text)


def cells(workflow: dict[str, Any]) -> Iterator[tuple[dict[str, str], list[str]]]:
    """The settings of each cell of the matrices, and the words of its last command."""
    for job in workflow["jobs"].values():
        for cell in combinations(job):
            *_, command = [fill(step["run"], cell) for step in job["steps"] if "run" in step]
            yield {name: fill(value, cell) for name, value in job["env"].items()}, shlex.split(command)


def test_jobs_have_what_github_wants(workflow: dict[str, Any]) -> None:
    assert set(workflow) == {"name", True, "permissions", "env", "jobs"}  # YAML 1.1 reads `on` as a truth value
    for job in workflow["jobs"].values():
        assert job["runs-on"] == "ubuntu-24.04"
        assert all(len({"uses", "run"} & set(step)) == 1 for step in job["steps"])


def test_its_settings_and_options_exist(workflow: dict[str, Any]) -> None:
    known = (ROOT / "docs/reference/pytest-plugin.md").read_text(encoding="utf-8")
    found = list(cells(workflow))
    for settings, (python, m, pytest_, *options) in found:
        assert (python, m, pytest_) == ("python", "-m", "pytest")
        assert all(f"`{option.partition('=')[0]}" in known for option in options)
        with configured(settings) as config:  # which reads them, and refuses names and values that do not exist
            assert config.backend in ("sim", "torch")
    assert len(found) == 4


def test_its_commands_test_the_sample_package(workflow: dict[str, Any], tmp_path: Path) -> None:
    """One of them; `test_examples.py` runs the package's tests on every backend."""
    shutil.copytree(ROOT / "examples" / "sample_package", tmp_path / "package")
    settings, (_, *arguments) = list(cells(workflow))[2]
    assert settings["XFERLIB_SIM_IMPLICIT"] == "raise"
    given: dict[str, Any] = {**settings, "PYTHONPATH": path_with(ROOT)}
    done = run(*arguments, "-q", "-p", "no:cacheprovider", "-k", "centred or power", cwd=tmp_path / "package", **given)
    assert "2 passed" in done.stdout, done.stdout
