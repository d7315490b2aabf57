"""Installing, as the pages and the recipe for conda tell it; `make installed` does it in an empty environment."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import xferlib as xl

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/index.md", "docs/tutorial/first-steps.md", "docs/how-to/install.md")
FOR_DEVELOPERS = {"native", "test", "lint", "docs", "release", "dev"}
CONDA_NAMES = {"cupy-cuda13x": "cupy", "torch": "pytorch"}
ONLY_ON_PYPI = {"nvidia-cuda-nvrtc", "nvidia-cuda-runtime"}
"""Wheels of what conda's packages of cuda-bindings bring by themselves."""

pytestmark = pytest.mark.skipif(not (ROOT / "CONTRIBUTING.md").is_file(), reason="the project is not beside the tests")


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads(read("pyproject.toml"))
    return found


def test_every_page_installs_in_the_same_way() -> None:
    blocks = {re.search(r"<!-- install.*?<!-- end of install -->", read(page), re.DOTALL) for page in PAGES}
    texts = {found[0] for found in blocks if found is not None}
    assert None not in blocks
    assert len(texts) == 1
    lines = [line.partition(" #")[0].strip() for line in texts.pop().splitlines()[2:-2]]
    assert lines == ["python3 -m venv env && . env/bin/activate", "pip install .", "xferlib doctor"]


def test_the_table_of_costs_has_every_extra_of_users(project: dict[str, Any]) -> None:
    table = read("docs/how-to/install.md").partition("<!-- extras -->")[2].partition("<!-- end of extras -->")[0]
    named = [name for row in table.splitlines()[3:] for name in re.findall(r"`([\w-]+)`", row.split("|")[1])]
    assert sorted(named) == sorted(set(project["project"]["optional-dependencies"]) - FOR_DEVELOPERS)


def test_a_machine_without_a_gpu_is_not_told_to_install_cuda() -> None:
    status = xl.available_backends()["torch"]
    has_device = any("cuda" in device for found in xl.available_backends().values() for device in found.devices)
    assert ("torch-cpu" in status.install) != has_device


# --- the recipe for conda


@pytest.fixture(scope="module")
def recipe() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    found: dict[str, Any] = yaml.safe_load(read("packaging/conda/recipe.yaml"))
    return found


def limits(requirements: list[str]) -> dict[str, str]:
    """Names, as conda has them, with their limits."""
    found = {}
    for each in requirements:
        name, limit = re.fullmatch(r"([\w-]+?)\s*([<>=!].*)?", each.strip()).groups()  # type: ignore[union-attr]
        found[CONDA_NAMES.get(name, name)] = limit or ""
    return found


def test_the_recipe_is_of_this_project(recipe: dict[str, Any], project: dict[str, Any]) -> None:
    assert recipe["package"]["name"] == project["project"]["name"]
    assert recipe["context"]["version"] == xl.__version__
    assert recipe["about"]["license"] == project["project"]["license"]
    assert recipe["about"]["summary"] == project["project"]["description"]
    assert (ROOT / recipe["about"]["license_file"]).is_file()
    assert (ROOT / "packaging" / "conda" / recipe["source"]["path"] / "pyproject.toml").resolve().is_file()
    scripts = [f"{name} = {path}" for name, path in project["project"]["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == scripts


def test_the_recipe_asks_for_what_the_project_asks_for(recipe: dict[str, Any], project: dict[str, Any]) -> None:
    wanted = {"python": project["project"]["requires-python"], **limits(project["project"]["dependencies"])}
    assert limits(recipe["requirements"]["run"]) == wanted
    building = {
        "python": project["project"]["requires-python"],
        "pip": "",
        **limits(project["build-system"]["requires"]),
    }
    assert limits(recipe["requirements"]["host"]) == building
    extras = project["project"]["optional-dependencies"]
    optional = [
        each for name in ("cuda", "cupy", "pycuda", "torch-cpu") for each in extras[name] if "xferlib" not in each
    ]
    given = {name: limit for name, limit in limits(optional).items() if name not in ONLY_ON_PYPI}
    assert limits(recipe["requirements"]["run_constraints"]) == given


def test_the_tests_of_the_recipe_pass(recipe: dict[str, Any]) -> None:
    (python,) = [each["python"] for each in recipe["tests"] if "python" in each]
    (script,) = [each["script"] for each in recipe["tests"] if "script" in each]
    commands = [[sys.executable, "-c", f"import {', '.join(python['imports'])}"]]
    programs = {"python": [sys.executable], "xferlib": [sys.executable, "-m", "xferlib"]}
    for line in script:
        program, *arguments = shlex.split(line)
        commands.append([*programs[program], *arguments])
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
