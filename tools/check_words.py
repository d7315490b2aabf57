"""Phrases that this project does not use, and rules for docstrings: prints ``file:line: phrase -> better``.

    python tools/check_words.py [files]            the enforced rules; exit status 1 where one is broken
    python tools/check_words.py --count [files]    how often each rule is broken, enforced or not
    python tools/check_words.py --all [files]      every rule, enforced or not; exit status 1 where one is broken

Without files: all that git tracks. In Python only comments and docstrings are read, in C only comments, in Markdown
everything but code, quotations and *emphasis*, which mention a phrase rather than use it. A line that must mention one
elsewhere ends in ``words: ok``.

The words themselves are in the glossary of ARCHITECTURE.md.
"""

from __future__ import annotations

import argparse
import ast
import collections
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SUFFIXES = {".py", ".c", ".md"}

ENFORCED: tuple[str, ...] = ()
"""The rules that hold in every file. Those with few findings left come next: see ``--count``."""
CLEAN = (
    "ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "SECURITY.md", "changes", "docs", "examples", "tests", "tools",
    "xferlib",
)  # fmt: skip
"""The files, and the folders with all that is below them, in which every rule holds."""


class Rule(NamedTuple):
    """A pattern, and what to write instead."""

    pattern: re.Pattern[str]
    better: str
    in_docstrings_alone: bool = False


def _rule(pattern: str, better: str, *, docstrings: bool = False) -> Rule:
    return Rule(re.compile(pattern, re.IGNORECASE), better, docstrings)


RULES: dict[str, Rule] = {
    "interpreters-lock": _rule(r"\b(?:interpreter|Python)'s (?:own )?lock\b|\block of Python's\b", "the GIL"),
    "threads-of-pythons": _rule(r"\bthreads? of Python's\b", "Python thread"),
    "pythons-headers": _rule(r"\bPython's headers\b", "the CPython headers"),
    "to-be-had": _rule(r"\bto be had\b", "exists, is available"),
    "directions": _rule(r"\b(?:up|down)wards?\b", "host-to-device or device-to-host; upload, download"),
    "vigil": _rule(r"\bvigil\b|\blooks? out for\b", "spin"),
    "so-many": _rule(r"\bso (?:many|much|long)\b(?! (?:that|as|each)\b)", "name the quantity"),
    "awake": _rule(r"\bthreads? that (?:is|are) awake\b", "a spinning thread"),
    "passed-event": _rule(r"\bevents? (?:that )?(?:has|have) passed\b", "has completed"),
    "of-the-drivers": _rule(r"\bcalls? of the driver's\b", "driver call"),
    "hands": _rule(r"\bmore hands\b", "more threads"),
    "subject": _rule(
        r"\A(?:what|who|whoever|nobody|somebody|whose|which)\b", "the thing first, then an active verb", docstrings=True
    ),
    "whoever": _rule(r"\bwhoever\b", "the thread that, the caller that"),
    "nobody": _rule(r"\b(?:nobody|somebody|everybody|anybody)\b", "no thread, another thread, the caller"),
    "unattended": _rule(r"\b(?:un)?attended\b", "orphaned; driven by a thread"),
    "lap": _rule(r"\blaps?\b", "a slice"),
    "crew": _rule(r"\bcrews?\b", "the thread budget"),
    "settled": _rule(
        r"\b(?:dtypes?|shapes?|axes|loops?|memory|plans?|notes?|arrays?|events?)\b[^.;]{0,20}\bsettled?\b",
        "fixed, known, freed, complete: only a transfer settles",
    ),
    "lane": _rule(
        r"\blanes? (?:a|per|for)\b|\bdraws? (?:a|the) lanes?\b|\bhost's lanes?\b", "a row, an engine, a route"
    ),
    "place": _rule(
        r"\b(?:at|in|to) (?:each|another|other|these|whose) places?\b(?! of)", "device, offset, index, line"
    ),
    "bury": _rule(r"\bbur(?:y|ies|ied)\b", "free, process"),
    "semicolon-chain": _rule(
        r"\A(?=[^\n]*\Z)[^;\n]*;[^;\n]*;", "one sentence, or a summary line and a body", docstrings=True
    ),
}


class Passage(NamedTuple):
    """Prose of a file."""

    line: int
    text: str
    is_docstring: bool


class Finding(NamedTuple):
    """A place where a rule is broken."""

    file: str
    line: int
    rule: str
    phrase: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.phrase} -> {RULES[self.rule].better} [{self.rule}]"


# --- prose


def _docstrings(source: str) -> Iterator[Passage]:
    """Docstrings, and strings that stand alone behind an attribute."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield Passage(node.lineno, node.value.value, True)


def _comments(source: str) -> Iterator[Passage]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Passage(token.start[0], token.string.lstrip("#! "), False)


def _of_python(source: str) -> Iterator[Passage]:
    yield from _docstrings(source)
    yield from _comments(source)


def _of_c(source: str) -> Iterator[Passage]:
    for match in re.finditer(r"/\*(.*?)\*/|//([^\n]*)", source, re.DOTALL):
        yield Passage(source[: match.start()].count("\n") + 1, match[1] or match[2] or "", False)


def _of_markdown(source: str) -> Iterator[Passage]:
    blank = lambda match: re.sub(r"[^\n]", " ", match[0])  # keeps the lines' numbers
    source = re.sub(r"^```.*?^```", blank, source, flags=re.MULTILINE | re.DOTALL)
    source = re.sub(r"`[^`\n]*`", blank, source)
    yield Passage(1, re.sub(r"\"[^\"\n]*\"|(?<![*\w])\*[^*\n]+\*(?![*\w])", blank, source), False)


READERS: dict[str, Callable[[str], Iterator[Passage]]] = {".py": _of_python, ".c": _of_c, ".md": _of_markdown}


# --- the check


def findings(name: str, source: str, rules: Iterable[str]) -> Iterator[Finding]:
    """Every place in a file's prose where one of these rules is broken."""
    lines = source.splitlines()
    for passage in READERS[Path(name).suffix](source):
        for rule in rules:
            pattern, _, in_docstrings_alone = RULES[rule]
            if in_docstrings_alone and not passage.is_docstring:
                continue
            for match in pattern.finditer(passage.text):
                line = passage.line + passage.text[: match.start()].count("\n")
                if not (line <= len(lines) and lines[line - 1].rstrip().endswith("words: ok")):
                    yield Finding(name, line, rule, " ".join(match[0].split()))


def is_enforced(rule: str, name: str) -> bool:
    """Whether breaking a rule in that file, a path below the project's root, fails a run."""
    return rule in ENFORCED or any(name == each or name.startswith(f"{each}/") for each in CLEAN)


FOLDERS = ("changes", "docs", "examples", "tests", "tools", "xferlib")


def _tracked() -> list[str]:
    if (ROOT / ".git").exists():
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
        paths = [ROOT / name for name in listed.stdout.splitlines()]
    else:  # an unpacked source archive
        paths = [*ROOT.glob("*"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))]
    return [path.relative_to(ROOT).as_posix() for path in paths if path.suffix in SUFFIXES and path.is_file()]


def _named(files: Iterable[str]) -> list[str]:
    """Paths below the project's root, of the files that can be read here."""
    paths = (Path(file).resolve() for file in files)
    return [path.relative_to(ROOT).as_posix() for path in paths if path.suffix in SUFFIXES]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--count", action="store_true", help="count what each rule finds, enforced or not")
    parser.add_argument("--all", action="store_true", help="report every rule in every file")
    chosen = parser.parse_args(arguments)
    names = _named(chosen.files) if chosen.files else _tracked()
    found = [each for name in names for each in findings(name, (ROOT / name).read_text(encoding="utf-8"), RULES)]
    if chosen.count:
        counts = collections.Counter(each.rule for each in found)
        for rule in RULES:
            print(f"{counts[rule]:5} {rule:20} {'enforced' if rule in ENFORCED else 'enforced in clean files'}")
        return 0
    told = [each for each in found if chosen.all or is_enforced(each.rule, each.file)]
    for each in told:
        print(each)
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
