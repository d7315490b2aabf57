"""`tools/check_words.py`: its rules find what they name, each where it reads, and its lists name existing files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools import check_words

ROOT = Path(__file__).parents[1]


def rules_found(name: str, source: str) -> list[str]:
    return [each.rule for each in check_words.findings(name, source, check_words.RULES)]


@pytest.mark.parametrize(
    ("name", "source", "expected"),
    [
        ("a.py", "# waits for the interpreter's lock\n", ["interpreters-lock"]),
        ("a.py", '"""What nobody knows."""\n', ["subject", "nobody"]),
        ("a.py", 'x = 1\n"""One; two; three."""\n', ["semicolon-chain"]),
        ("a.py", 'x = "what is to be had upward"\n', []),
        ("a.c", "int upward; /* goes upward */\n", ["directions"]),
        ("a.md", "Threads of Python's wake.\n", ["threads-of-pythons"]),
        ("a.md", 'Say GIL, not "the interpreter\'s lock", nor *upward*, nor `upward`.\n', []),
        ("a.md", "```python\n# upward\n```\n", []),
        ("a.py", "# goes upward  words: ok\n", []),
        ("a.py", "# Copies go to the device.\n", []),
        ("a.py", "def copied(): ...\n", ["participle"]),
        ("a.py", "class A:\n    def _begun_ahead(self): ...\n", ["participle"]),
        ("a.py", "def event_unrecorded_again(): ...\ndef rows_done(): ...\n", ["participle"]),
        ("a.py", "class A:\n    def refuse_masked(self): ...\n    def is_pinned(self): ...\n", []),
        ("a.py", "def pinned_rows(): ...\ndef string(): ...\ndef event_done(): ...\n", []),
        ("a.py", "class MadeBy: ...\nclass Place: ...\ndef place(): ...\n", ["riddle-name", "riddle-name"]),
        (
            "a.py",
            "# As `check_words` and `Path.read_text`, not as `nothing_is_called_so` or `a.SoNeither`\n",
            ["no-such-name"] * 2,
        ),
        ("a.py", 'raise ValueError(f"{x} is no shape")\nprint("it is no shape")\n', ["is-no"]),
        ("a.py", 'raise ValueError("there is no shape, and it is no longer one")\n', []),
    ],
)
def test_rules_find_what_they_name(name: str, source: str, expected: list[str]) -> None:
    assert rules_found(name, source) == expected


def test_a_finding_names_the_line_and_what_to_write() -> None:
    (found,) = check_words.findings("a.md", "One.\n\nIt is to be had.\n", check_words.RULES)
    assert str(found) == "a.md:3: to be had -> exists, is available [to-be-had]"


def test_rules_and_clean_files_exist() -> None:
    assert set(check_words.NEW_RULES) <= set(check_words.RULES)
    assert all(list(ROOT.glob(name)) for name in (*check_words.CLEAN, *check_words.NEW_CLEAN))
    assert len(check_words.ALLOWED) <= 10


def test_every_rule_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert check_words.main(["--count", str(ROOT / "ARCHITECTURE.md")]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(check_words.RULES)


def test_only_the_standard_library_is_needed() -> None:
    source = (ROOT / "tools" / "check_words.py").read_text(encoding="utf-8")
    imports = [line.split()[1] for line in source.splitlines() if line.startswith(("import ", "from "))]
    assert {name.partition(".")[0] for name in imports} <= set(sys.stdlib_module_names)
