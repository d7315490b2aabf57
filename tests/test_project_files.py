"""The files beside the code: they parse, and what two of them say alike is the same."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import xferlib as xl

ROOT = Path(__file__).parents[1]
MADE = re.compile(r"`make ([\w-]+)")

pytestmark = pytest.mark.skipif(not (ROOT / "CONTRIBUTING.md").is_file(), reason="the project is not beside the tests")


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_citation_names_this_version_and_licence() -> None:
    cited = dict(re.findall(r"^([\w-]+): (.+)$", read("CITATION.cff"), re.MULTILINE))
    project = tomllib.loads(read("pyproject.toml"))["project"]
    assert cited["version"] == xl.__version__
    assert cited["license"] == project["license"]
    assert cited["title"] == project["name"]


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "README.md"])
def test_every_make_target_that_a_page_names_exists(page: str) -> None:
    targets = set(re.findall(r"^([\w-]+):", read("Makefile"), re.MULTILINE))
    assert set(MADE.findall(read(page))) <= targets


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "changes/README.md"])
def test_every_link_leads_to_a_file_or_heading(page: str) -> None:
    folder = (ROOT / page).parent
    for path, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(#[\w-]+)?\)", " ".join(read(page).split())):
        target = folder / path if path else ROOT / page
        assert target.exists(), path
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor[1:] in {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings}


def test_every_fragment_is_of_a_known_kind() -> None:
    kinds = {each["directory"] for each in tomllib.loads(read("pyproject.toml"))["tool"]["towncrier"]["type"]}
    fragments = [path for path in (ROOT / "changes").iterdir() if path.name != "README.md"]
    assert {path.name.rpartition(".md")[0].rpartition(".")[2] for path in fragments} <= kinds
    assert kinds == set(re.findall(r"^\| `(\w+)` \|", read("changes/README.md"), re.MULTILINE))


def test_pins_of_pre_commit_fit_what_make_lint_installs() -> None:
    pinned = dict(re.findall(r'"([\w-]+)==([\d.]+)"', read(".pre-commit-config.yaml")))
    wanted = " ".join(tomllib.loads(read("pyproject.toml"))["project"]["optional-dependencies"]["lint"])
    for name in ("ruff", "codespell"):
        least = re.search(rf"\b{name}(?:\[\w+\])?>=([\d.]+)", wanted)
        assert least is not None
        assert [*map(int, pinned[name].split("."))] >= [*map(int, least[1].split("."))]
