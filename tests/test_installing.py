"""Installing, as the pages and the recipe for conda tell it; `make installed` does it in an empty environment."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import xferlib as xl
from xferlib._runtime import version

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
    assert recipe["context"]["version"] == version.RELEASE
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


# --- the version


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, version.RELEASE),
        ({".git/HEAD": "ref: refs/heads/main", ".git/refs/heads/main": "0123456789ab\n"}, ".dev0+g0123456"),
        ({".git/HEAD": "ref: refs/heads/a/b", ".git/packed-refs": "# pack\nfedc012 refs/heads/a/b\n"}, "dev0+gfedc012"),
        ({".git/HEAD": "0123456789ab"}, "dev0+g0123456"),
        (
            {".git": "gitdir: {root}/main/.git/worktrees/w", "main/.git/worktrees/w/HEAD": "ref: refs/heads/w",
             "main/.git/worktrees/w/commondir": "../..", "main/.git/refs/heads/w": "abcdef0123"},
            "dev0+gabcdef0",
        ),
        ({"PKG-INFO": "Metadata-Version: 2.4\nVersion: 1.2.dev3+g12\n", ".git/HEAD": "0123456789ab"}, "1.2.dev3+g12"),
        ({"xferlib/_runtime/version.txt": "1.2.3\n", "PKG-INFO": "Version: 1.2\n"}, "1.2.3"),
    ],
)  # fmt: skip
def test_the_version_names_the_commit_between_releases(
    files: dict[str, str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.format(root=tmp_path) if "{root}" in text else text)
    monkeypatch.setattr("xferlib._runtime.version.__file__", str(tmp_path / "xferlib" / "_runtime" / "version.py"))
    assert version._find_version().endswith(expected)
    assert xl.__version__.startswith(version.RELEASE)


def test_the_build_names_the_commits_behind_the_last_tag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    interface = SimpleNamespace(BuildHookInterface=object)  # hatchling is there in a build alone
    monkeypatch.setitem(sys.modules, "hatchling.builders.hooks.plugin.interface", interface)
    hatch_build: Any = importlib.import_module("hatch_build")

    def git(*arguments: str) -> None:
        settings = ["-c", "user.name=test", "-c", "user.email=test", "-c", "core.hooksPath="]
        subprocess.run(["git", *settings, *arguments], cwd=tmp_path, check=True, capture_output=True)

    (tmp_path / "xferlib" / "_runtime").mkdir(parents=True)
    (tmp_path / "xferlib" / "_runtime" / "version.py").write_text('RELEASE = "1.2.0"\n')
    monkeypatch.setattr(hatch_build, "__file__", str(tmp_path / "hatch_build.py"))
    assert hatch_build.find_version() == "1.2.0"
    git("init")
    for expected in (r"1\.2\.0\.dev1\+g\w{7}", r"1\.2\.0", r"1\.2\.0\.dev1\+g\w{7}"):
        if expected != r"1\.2\.0":
            git("commit", "--allow-empty", "-m", "work")
        else:
            git("tag", "v1.2.0")
        assert re.fullmatch(expected, hatch_build.find_version())


# --- what messages say


REQUIRES = [
    "numpy>=2.1", 'cuda-core>=1.0; extra == "cuda"', "xferlib[cuda]; extra == 'torch'",
    'xferlib[torch-cpu] ; extra == "torch"', "torch>=2.4; extra == 'torch-cpu'",
    "array-api-compat; extra == 'torch-cpu'",
]  # fmt: skip


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ({"url": "file://{tmp}/a%20clone", "dir_info": {"editable": True}}, ["-e", "{tmp}/a clone[torch]"]),
        ({"url": "file://{tmp}/a%20clone", "dir_info": {}}, ["{tmp}/a clone[torch]"]),
        ({"url": "file://{tmp}/x-1-any.whl", "archive_info": {}}, ["{tmp}/x-1-any.whl[torch]"]),
        (
            {"url": "https://host/x.git", "vcs_info": {"vcs": "git", "commit_id": "12ab"}, "subdirectory": "py"},
            ["xferlib[torch] @ git+https://host/x.git@12ab#subdirectory=py"],
        ),
        ({"url": "https://host/x-1-any.whl", "archive_info": {}}, ["xferlib[torch] @ https://host/x-1-any.whl"]),
        ({"url": "file://{tmp}/gone.whl"}, ["cuda-core>=1.0", "torch>=2.4", "array-api-compat"]),
        (None, ["cuda-core>=1.0", "torch>=2.4", "array-api-compat"]),
    ],
)
def test_messages_name_what_pip_can_install(
    url: dict[str, Any] | None, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clone or the wheel that is installed, as long as it is there; no package index has xferlib."""
    (tmp_path / "a clone").mkdir()
    (tmp_path / "x-1-any.whl").touch()
    text = None if url is None else json.dumps(url).replace("{tmp}", tmp_path.as_posix())
    found = SimpleNamespace(read_text=lambda name: text, requires=REQUIRES)
    monkeypatch.setattr("importlib.metadata.distribution", lambda name: found)
    monkeypatch.setattr("xferlib._runtime.version.__file__", str(tmp_path / "site-packages" / "xferlib" / "a" / "b.py"))
    for name in ("cupy", "torch", "pycuda"):
        status = xl.available_backends()[name]
        if name != "torch" or "torch-cpu" not in status.install:
            assert shlex.split(status.install)[:2] == ["pip", "install"]
    command = version.install_command("torch")
    assert shlex.split(command) == ["pip", "install", *(each.format(tmp=tmp_path) for each in expected)]
    assert "uv" not in shlex.split(version.install_command("torch-cpu", cpu_torch=True))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"url": "file:///no/such/clone"}', '{"url": "file:"}'])
def test_metadata_that_is_damaged_or_absent_is_no_error(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = SimpleNamespace(read_text=lambda name: text, requires=None)
    monkeypatch.setattr("importlib.metadata.distribution", lambda name: found)
    assert shlex.split(version.install_command("cupy")) == ["pip", "install", f"{ROOT}[cupy]"]


def test_every_message_takes_its_command_from_one_function() -> None:
    """A literal would name a package that no index has."""
    sources = {path: path.read_text(encoding="utf-8") for path in Path(xl.__file__).parent.rglob("*.py")}
    assert not [path for path, text in sources.items() if re.search(r"pip install '?xferlib", text)]
