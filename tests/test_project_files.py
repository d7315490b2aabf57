"""The files beside the code: they parse, and what two of them say alike is the same."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from tests.console import main
from tests.processes import run

ROOT = Path(__file__).parents[1]
MADE = re.compile(r"`make ([\w-]+)")

pytestmark = pytest.mark.skipif(not (ROOT / "CONTRIBUTING.md").is_file(), reason="the project is not beside the tests")


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_citation_names_this_version_and_licence() -> None:
    cited = dict(re.findall(r"^([\w-]+): (.+)$", read("CITATION.cff"), re.MULTILINE))
    project = tomllib.loads(read("pyproject.toml"))["project"]
    assert f'RELEASE = "{cited["version"]}"\n' in read("xferlib/_runtime/version.py")
    assert cited["license"] == project["license"]
    assert cited["title"] == project["name"]


def test_every_make_target_that_a_page_or_a_workflow_names_exists() -> None:
    targets = set(re.findall(r"^([\w-]+):", read("Makefile"), re.MULTILINE))
    for page in ("CONTRIBUTING.md", "README.md", "ARCHITECTURE.md"):
        assert set(MADE.findall(read(page))) <= targets, page
    for workflow in (ROOT / ".github" / "workflows").glob("*.yml"):
        assert set(re.findall(r"run: make ([\w-]+)", workflow.read_text(encoding="utf-8"))) <= targets, workflow.name


def test_every_workflow_that_a_page_names_exists() -> None:
    known = {path.stem for path in (ROOT / ".github" / "workflows").glob("*.yml")}
    for page in PAGES:
        text = read(page)
        assert {*re.findall(r"workflow `(\w+)`", text), *re.findall(r"`(\w+)` workflow", text)} <= known, page
        assert "nightly" in known or "each night" not in text, page


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "changes/README.md"])
def test_every_link_leads_to_a_file_or_heading(page: str) -> None:
    folder = (ROOT / page).parent
    for path, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(#[\w-]+)?\)", " ".join(read(page).split())):
        target = folder / path if path else ROOT / page
        assert target.exists(), path
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor[1:] in {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings}


PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "ARCHITECTURE.md",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")),
]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
CALL = re.compile(r"^(?:python -m )?xferlib ([a-z][^#]*)")


def calls(page: str) -> set[str]:
    """The calls of the command in the code of a page, without comments."""
    text = read(page)
    shell = [line for language, block in BLOCK.findall(text) if language == "sh" for line in block.splitlines()]
    spans = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", BLOCK.sub("", text))]
    return {found[1].strip() for line in shell + spans if (found := CALL.match(line))}


def test_every_command_and_option_that_a_page_names_exists(capsys: pytest.CaptureFixture[str]) -> None:
    commands = set(re.findall(r"^\| `xferlib ([a-z ]+)`", read("docs/reference/command-line.md"), re.MULTILINE))
    assert len(commands) > 5
    for page in PAGES:
        for call in calls(page):
            name = next((each for each in commands if f"{call} ".startswith(f"{each} ")), None)
            if name is None:
                assert call.split()[0] in {"command", *(each.split()[0] for each in commands)}, (
                    f"{page}: xferlib {call}"
                )
                continue
            with pytest.raises(SystemExit):
                main([*name.split(), "--help"])
            known = set(re.findall(r"--[a-z][a-z-]*", capsys.readouterr().out))
            rest = call.partition(".py ")[0] if "--plot" not in call else call  # behind a script stand its own options
            assert set(re.findall(r"(?<!\S)--[a-z][a-z-]*", rest)) <= known | {"--epochs"}, f"{page}: xferlib {call}"


@pytest.mark.parametrize("page", PAGES)
def test_every_benchmark_that_a_page_names_exists(page: str) -> None:
    for name in re.findall(r"python -m benchmarks ([a-z_]+)", " ".join(read(page).split())):
        assert (ROOT / "benchmarks" / f"{name}.py").is_file(), name


WRITERS = sorted(path.name for path in (ROOT / "tools").glob("make_*.py"))
"""The tools that write files of the project from its code."""


@pytest.mark.parametrize("tool", WRITERS)
def test_what_a_tool_writes_from_the_code_is_as_it_writes_it(tool: str) -> None:
    if tool == "make_stub.py" and not Path(sys.executable).with_name("ruff").exists():
        pytest.skip("ruff is not installed, which formats the stub")
    done = run(str(ROOT / "tools" / tool), "--check")
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\n`make reference` runs all of these tools"


def test_one_command_runs_all_of_these_tools() -> None:
    recipe = read("Makefile").partition("\nreference: ")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"tools/(make_\w+\.py)", recipe)) == WRITERS


def test_numbers_of_the_project_are_those_of_its_files() -> None:
    project = tomllib.loads(read("pyproject.toml"))
    floor = project["tool"]["coverage"]["report"]["fail_under"]
    assert f"the floor is {floor}" in read("README.md")
    for page in ("README.md", "CONTRIBUTING.md", "docs/how-to/install.md", "docs/index.md"):
        for version in re.findall(r"Python (3\.\d+) or newer", read(page)):
            assert f">={version}" == project["project"]["requires-python"], page


def test_the_layers_of_the_page_are_those_that_are_checked() -> None:
    (checked,) = [
        each["layers"]
        for each in tomllib.loads(read("pyproject.toml"))["tool"]["importlinter"]["contracts"]
        if each["id"] == "layers"
    ]
    level = {name.strip(): number for number, names in enumerate(checked) for name in names.split("|")}
    rows = re.findall(r"^\| (`[^|]+`) \|", read("ARCHITECTURE.md").partition("## The life of")[0], re.MULTILINE)
    named = [re.findall(r"`(\w+)(?:/|\.py)`", row) for row in rows]
    order = [level[name] for row in named for name in row if name != "__init__"]
    assert order == sorted(order)
    assert {name for row in named for name in row} - {"__init__"} == level.keys() - {"__main__"}


def test_the_names_of_threads_are_those_of_the_code() -> None:
    table = read("ARCHITECTURE.md").partition("## Threads")[2].partition("## Locks")[0]
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "xferlib").rglob("*.py"))
    names = {re.sub(r"\d+$", "", name) for name in re.findall(r"`(xferlib-[\w-]+)`", table)}
    assert len(names) > 5
    assert not [name for name in names if f'"{name}' not in code]
    assert set(re.findall(r'name="(xferlib-[a-z]+)', code)) <= {name.rstrip("-") for name in names}


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
