"""Phrases and names that this project does not use, and rules for docstrings: prints ``file:line: phrase -> better``.

    python tools/check_words.py [files]            the rules of each file; exit status 1 where one is broken
    python tools/check_words.py --count [files]    how often each rule is broken, whether it holds there or not
    python tools/check_words.py --all [files]      every rule in every file; exit status 1 where one is broken

Without files: all that git tracks. In Python only comments and docstrings are read, in C only comments, in Markdown
everything but code, quotations and *emphasis*, which mention a phrase rather than use it. A line that must mention one
elsewhere ends in ``words: ok``. Of the code itself two things are read: the names of functions and classes, and the
messages of exceptions. A name in backticks, of several words, must be one that the code has.

The words themselves are in the glossary of CONTRIBUTING.md.
"""

from __future__ import annotations

import argparse
import ast
import collections
import functools
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SUFFIXES = {".py", ".c", ".md"}

CLEAN = (
    "ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "SECURITY.md", "changes", "docs", "examples", "tests", "tools",
    "xferlib",
)  # fmt: skip
"""The files, and the folders with all that is below them, in which every rule of prose holds."""
NEW_RULES = frozenset({"circumstances", "is-no", "kin", "no-such-name", "participle", "riddle-name", "the-same-as"})
NEW_CLEAN = ("tools/check_words.py", "xferlib")
"""The rules that hold in fewer files than the others, and those files."""


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
    "amiss": _rule(r"\bamiss\b", "wrong"),
    "kin": _rule(r"\bkin\b", "the like, the same family"),
    "circumstances": _rule(r"\bcircumstances\b", "what the fast path relies on; the epoch"),
    "the-same-as": _rule(r"\A(?:The same,? (?:as|for|of)\b|Of (?:those|these)\b)", "an active verb", docstrings=True),
    "participle": _rule(r"", "a verb: `copy`, not `copied`; a noun for a value"),
    "riddle-name": _rule(
        r"\A_?(?:amiss|mend\w*|kin|circumstances|(?-i:Conveyor|Ahead\w*|MadeBy|OtherNumbersError|Before|Contents|Place))\Z",
        "the field's term",
    ),
    "is-no": _rule(r"(?<!there )\b(?:is|are) no (?!longer\b|more\b)\w", "is not a ..."),
    "no-such-name": Rule(re.compile(r"(?<!`)`(?:\w+\.)*(\w*(?:[^\W_]_\w|[a-z][A-Z])\w*)`"), "a name that the code has"),
    "semicolon-chain": _rule(
        r"\A(?=[^\n]*\Z)[^;\n]*;[^;\n]*;", "one sentence, or a summary line and a body", docstrings=True
    ),
}


def _read_words(name: str) -> frozenset[str]:
    """The words of a file of `tools/words`."""
    return frozenset((ROOT / "tools" / "words" / name).read_text(encoding="utf-8").split())


PARTICIPLES, VERBS, NO_PARTICIPLES = map(_read_words, ("participles.txt", "verbs.txt", "no_participles.txt"))
_ADJECTIVES = frozenset({"pinned", "strided"})
"""Of the field, before a noun: `pinned_empty`."""
ALLOWED = {
    "load_backend": "public",
    "done": "as concurrent.futures has it",
    "dropped": "public",
    "elapsed_ms": "as the driver's event has it",
    "pending": "a state, as an engine's",
    "pending_count": "public",
    "searchsorted": "as NumPy has it",
    "source_released": "public",
}
"""Names that stay, and why; besides them those in `__all__` of their package, and the seam to backends."""


def is_participle(name: str) -> bool:
    """Whether a function's name begins with a participle, or ends with one and has no verb before it."""
    words = name.strip("_").lower().split("_")
    if name.startswith("__") or name in ALLOWED or words[0] in _ADJECTIVES:
        return False
    return _is_participle(words[0]) or (_is_participle(words[-1]) and words[0] not in VERBS)


def _is_participle(word: str) -> bool:
    regular = len(word) > 4 and word.endswith(("ed", "ing")) and word not in NO_PARTICIPLES
    return regular or word in PARTICIPLES


class Passage(NamedTuple):
    """Prose of a file; or a name or a message of its code, which ``kind`` says."""

    line: int
    text: str
    is_docstring: bool
    kind: str = "prose"


class Finding(NamedTuple):
    """A place where a rule is broken."""

    file: str
    line: int
    rule: str
    phrase: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.phrase} -> {RULES[self.rule].better} [{self.rule}]"


# --- prose


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Every statement below a node, without a look at the expressions in it, which are most of a tree."""
    for field in ("body", "handlers", "orelse", "finalbody", "cases"):
        for each in getattr(node, field, ()):
            if isinstance(each, ast.stmt):
                yield each
            yield from _statements(each)


def _docstrings(statements: Iterable[ast.stmt]) -> Iterator[Passage]:
    """Docstrings, and strings that stand alone behind an attribute."""
    for node in statements:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield Passage(node.lineno, node.value.value, True)


_STRING_OR_COMMENT = re.compile(
    r"""'{3}(?:\\.|[^\\])*?'{3}|"{3}(?:\\.|[^\\])*?"{3}|'(?:\\.|[^\\'])*'|"(?:\\.|[^\\"])*"|(#[^\n]*)""", re.DOTALL
)


def _comments(source: str) -> Iterator[Passage]:
    """Every comment: what is no string and begins with a number sign, which takes a fifth of the time of `tokenize`."""
    line = start = 0
    for match in _STRING_OR_COMMENT.finditer(source):
        if match[1]:
            line += source.count("\n", start, match.start())
            start = match.start()
            yield Passage(line + 1, match[1].lstrip("#! "), False)


_SEAM = ROOT / "xferlib" / "_core" / "backend.py"


@functools.cache
def _public_names() -> frozenset[str]:
    """Names in the package's `__all__` lists, and those that backends of other packages implement."""
    found = [
        re.findall(r"^__all__ = \[(.*?)\]", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for path in _sources()
    ]
    names = {name for texts in found for text in texts for name in re.findall(r"\w+", text)}
    seam = _SEAM.read_text(encoding="utf-8") if _SEAM.is_file() else ""
    return frozenset(names.union(re.findall(r"^    (?:def )?(\w+)[:(]", seam, flags=re.MULTILINE)))


@functools.cache
def _code_words() -> frozenset[str]:
    """The words of all code, those in backticks and comments of C left out, and of the files' names."""
    found: set[str] = set()
    for path in (each for folder in FOLDERS for each in (ROOT / folder).rglob("*.*")):
        found.add(path.stem)
        if path.suffix in {".py", ".c", ".cu", ".h", ".hpp", ".txt"}:
            text = re.sub(r"`[^`\n]*`|/\*.*?\*/", " ", path.read_text(encoding="utf-8"), flags=re.DOTALL)
            found.update(re.findall(r"\w+", text))
    return frozenset(found)


def _sources() -> list[Path]:
    return sorted((ROOT / "xferlib").rglob("*.py"))


def _names(scopes: Iterable[ast.AST]) -> Iterator[Passage]:
    """Functions and classes that are not public; what a function defines inside itself has its own rules."""
    for scope in scopes:
        if not isinstance(scope, ast.Module | ast.ClassDef):
            continue
        for node in scope.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                is_function = not isinstance(node, ast.ClassDef)
                if not (is_function and node.name in _public_names()):
                    yield Passage(node.lineno, node.name, False, "function" if is_function else "class")


def _messages(statements: Iterable[ast.stmt]) -> Iterator[Passage]:
    for node in statements:
        if isinstance(node, ast.Raise) and node.exc is not None:
            for each in ast.walk(node.exc):
                if isinstance(each, ast.Constant) and isinstance(each.value, str):
                    yield Passage(each.lineno, each.value, False, "message")


def _of_python(source: str) -> Iterator[Passage]:
    tree = ast.parse(source)
    statements = list(_statements(tree))
    yield from _docstrings(statements)
    yield from _comments(source)
    yield from _names([tree, *statements])
    yield from _messages(statements)


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
            if not _applies(rule, passage) or (in_docstrings_alone and not passage.is_docstring):
                continue
            if rule == "participle":
                if is_participle(passage.text):
                    yield Finding(name, passage.line, rule, passage.text)
                continue
            for match in pattern.finditer(passage.text):
                if rule == "no-such-name" and match[1] in _code_words():
                    continue
                line = passage.line + passage.text[: match.start()].count("\n")
                if not (line <= len(lines) and lines[line - 1].rstrip().endswith("words: ok")):
                    yield Finding(name, line, rule, " ".join(match[0].split()))


_KINDS = {"participle": ("function",), "riddle-name": ("function", "class"), "is-no": ("message",)}
"""The kinds of passages of code that a rule reads; the others read prose."""


def _applies(rule: str, passage: Passage) -> bool:
    return passage.kind in _KINDS.get(rule, ("prose",))


def is_enforced(rule: str, name: str) -> bool:
    """Whether breaking a rule in that file, a path below the project's root, fails a run."""
    clean = NEW_CLEAN if rule in NEW_RULES else CLEAN
    return any(name == each or name.startswith(f"{each}/") for each in clean)


FOLDERS = ("changes", "docs", "examples", "tests", "tools", "xferlib")


def _list_tracked() -> list[str]:
    if (ROOT / ".git").exists():
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
        paths = [ROOT / name for name in listed.stdout.splitlines()]
    else:  # an unpacked source archive
        paths = [*ROOT.glob("*"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))]
    return [path.relative_to(ROOT).as_posix() for path in paths if path.suffix in SUFFIXES and path.is_file()]


def _list_readable(files: Iterable[str]) -> list[str]:
    """Paths below the project's root, of the files that can be read here."""
    paths = (Path(file).resolve() for file in files)
    return [path.relative_to(ROOT).as_posix() for path in paths if path.suffix in SUFFIXES]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*")
    parser.add_argument(
        "--count", action="store_true", help="count what each rule finds, whether it holds there or not"
    )
    parser.add_argument("--all", action="store_true", help="report every rule in every file")
    chosen = parser.parse_args(arguments)
    names = _list_readable(chosen.files) if chosen.files else _list_tracked()
    found: list[Finding] = []
    for name in names:
        rules = [rule for rule in RULES if chosen.count or chosen.all or is_enforced(rule, name)]
        found += findings(name, (ROOT / name).read_text(encoding="utf-8"), rules)
    if chosen.count:
        counts = collections.Counter(each.rule for each in found)
        for rule in RULES:
            print(f"{counts[rule]:5} {rule}")
        return 0
    for each in found:
        print(each)
    if found:
        print("the rules and the glossary are in CONTRIBUTING.md: Names and docstrings, Words")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
