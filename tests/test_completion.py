"""``xferlib completion``: the scripts complete in the shells that are here."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.console import main

ASK = """
source "$1"
read -ra COMP_WORDS <<< "$2"
if [[ $2 == *" " ]]; then COMP_WORDS+=(""); fi
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_shtab_xferlib
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def bash_script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("shtab")
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    path = tmp_path_factory.mktemp("completion") / "xferlib.bash"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("builtins.print", lambda text: path.write_text(text))
        assert main(["completion", "bash"]) == 0
    return path


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("xferlib doc", {"doctor"}),
        ("xferlib bench ", {"transfer", "sweep"}),
        ("xferlib cache c", {"clear"}),
        ("xferlib doctor --q", {"--quick"}),
        ("xferlib doctor --backend nu", {"numpy"}),
        ("xferlib bench sweep --with", {"--without-compile"}),
        ("xferlib completion z", {"zsh"}),
        ("xferlib trace --plot pic", {"picture.png"}),
    ],
)
def test_bash_completes(typed: str, expected: set[str], bash_script: Path, tmp_path: Path) -> None:
    (tmp_path / "picture.png").touch()
    command = ["bash", "-c", ASK, "ask", str(bash_script), typed]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert expected <= set(done.stdout.split())
    assert not done.stderr


def test_the_script_for_zsh_knows_the_same_commands(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("shtab")
    assert main(["completion", "zsh"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("#compdef xferlib")
    for word in ("doctor:", "transfer:", "clear:", "--without-compile", "--quick"):
        assert word in text
    if (zsh := shutil.which("zsh")) is not None:
        (tmp_path / "_xferlib").write_text(text)
        subprocess.run([zsh, "-n", str(tmp_path / "_xferlib")], check=True)


def test_without_shtab_it_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["completion", "bash"]) == 2
    captured = capsys.readouterr()
    assert not captured.out
    assert re.search(r"pip install .+\[completion\]'", captured.err)
