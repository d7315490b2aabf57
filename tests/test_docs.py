"""The documentation is true: its programs run and print what it says, its links, tables and names hold.

`pytest -m quick tests/test_docs.py` leaves the programs out.
"""

from __future__ import annotations

import codeop
import functools
import importlib.util
import re
import tomllib
from contextlib import nullcontext, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import xferlib as xl
from tests.kernels.targets import has_nvrtc
from tests.needed import ABSENT
from tests.sizes import alternated
from xferlib.kernels.functions import TABLE, accepts, guarantee
from xferlib.testing import configured

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\((?!https?:)([^)#]+)(#[^)]*)?\)")
BLOCK = re.compile(
    r"(?:<!-- (?:needs: (?P<needs>[\w ]+)|prints for: (?P<printer>\w+)) -->\n)?^```python\n(?P<code>.*?)^```\n"
    r"(?:\n```text\n(?P<output>.*?)^```)?",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    line: int
    needs: tuple[str, ...]
    printer: str | None
    """The backend whose output stands on the page, where each has its own."""
    code: str
    output: str | None


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    of_page = "".join(re.findall(r"<!-- page needs: ([\w ]+) -->", text))
    return [
        Block(
            text[: match.start("code")].count("\n"),
            tuple(f"{of_page} {match['needs'] or ''}".split()),
            match["printer"],
            match["code"],
            match["output"],
        )
        for match in BLOCK.finditer(text)
    ]


PROGRAMS = [page for page in PAGES if page.name != "api.md" and blocks(page)]  # the API page's blocks are signatures


def is_there(name: str) -> bool:
    """Whether what a block needs is there: a backend, another library, ``nvrtc``, or an NVIDIA GPU (``cuda``)."""
    if name == "nvrtc":
        return has_nvrtc()
    backends = xl.available_backends()
    if name == "cuda":
        return any("cuda" in device for status in backends.values() for device in status.devices)
    return backends[name].is_available if name in backends else importlib.util.find_spec(name) is not None


def backend_with(device: str) -> str:
    """Return the backend's name; skip the test where it lacks the device."""
    name = device.partition(":")[0]
    status = xl.available_backends()[name]
    if device not in status.devices:
        pytest.skip(f"{device}: {status.reason or 'no such device'}")
    return name


DEVICES = ["numpy:cpu", "torch:cpu", "sim:sim:0", "cupy:cuda:0", "torch:cuda:0", "pycuda:cuda:0"]
DEVICES = [each for each in DEVICES if each.partition(":")[0] not in ABSENT]


@pytest.mark.parametrize(
    ("page", "where"), alternated(PROGRAMS, DEVICES), ids=lambda each: str(getattr(each, "name", each))
)
def test_programs_run_and_print_what_the_page_says(
    page: Path, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = backend_with(where)
    monkeypatch.chdir(tmp_path)
    xl.trim()  # pages that count what is kept begin with nothing
    names: dict[str, Any] = {"__name__": "page"}
    # sim.check() reports a fault again that an earlier run had.
    with xl.use_backend(backend), xl.Device(where), xl.sim.check():
        for block in blocks(page):
            if all(map(is_there, block.needs)):
                printed = StringIO()
                with redirect_stdout(printed):
                    exec(compile("\n" * block.line + block.code, page, "exec"), names)
                if block.output is not None and block.printer in (None, backend):
                    assert printed.getvalue() == block.output, f"{page.name}, line {block.line}"


EXAMPLES = dict(
    re.findall(
        r"^== (\S+)\n(.*?)(?=^== |\Z)",
        (ROOT / "tools" / "api_examples.txt").read_text(),
        re.DOTALL | re.MULTILINE,
    )
)


@pytest.fixture(scope="module")
def own_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("cache"))


@pytest.mark.parametrize(
    ("name", "where"),  # test_calibration.py has `calibrate`, which takes seconds, on the simulator
    [(name, where) for name in EXAMPLES for where in DEVICES if (name, where) != ("calibrate", "sim:sim:0")],
)
def test_the_examples_of_the_reference_run(
    name: str, where: str, own_folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = backend_with(where)
    monkeypatch.chdir(tmp_path)
    own_cache: Any = nullcontext()  # else what is compiled is found in the run's
    if name == "calibrate":  # which writes there, and copies for a second and more
        own_cache = configured({"XFERLIB_CACHE_DIR": own_folder})
        monkeypatch.setattr("xferlib._api.diagnose._NBYTES", 1 << 20)
    printed = StringIO()
    with own_cache, xl.use_backend(backend), xl.Device(where), redirect_stdout(printed):
        exec(compile(EXAMPLES[name], name, "exec"), {"np": np, "xl": xl})
    if expected := re.findall(r"# -> (.*)", EXAMPLES[name]):
        assert printed.getvalue().splitlines() == expected


def test_each_call_of_the_reference_has_an_example() -> None:
    entries = re.split(r"^### ", (ROOT / "docs" / "reference" / "api.md").read_text(), flags=re.MULTILINE)[1:]
    calls = {entry.partition("`")[2].partition("`")[0]: entry for entry in entries if "\n```python\n" in entry}
    assert [name for name, entry in calls.items() if "**Example**" not in entry and "\n    " not in entry] == []
    assert set(EXAMPLES) <= {entry.partition("`")[2].partition("`")[0] for entry in entries}


def test_the_reference_shows_programs_and_no_insides() -> None:
    text = (ROOT / "docs" / "reference" / "api.md").read_text()
    assert not re.findall(r"ForwardRef|RawStream|try_start|Transfer\($|Prefetcher\(", text, re.MULTILINE)


@pytest.mark.parametrize("page", PROGRAMS, ids=lambda page: str(page.relative_to(ROOT)))
def test_programs_can_be_pasted_into_an_interactive_session(page: Path) -> None:
    for block in blocks(page):
        type_in(block.code, page.name, block.line)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_can_be_pasted_into_an_interactive_session(name: str) -> None:
    type_in(EXAMPLES[name], name, 0)


def type_in(code: str, name: str, first: int) -> None:
    typed: list[str] = []
    for number, line in enumerate([*code.rstrip("\n").splitlines(), ""], first):
        typed.append(line)
        try:
            if codeop.compile_command("\n".join(typed)) is not None:
                typed = []
        except SyntaxError as error:
            pytest.fail(f"{name}, line {number}: {error}")
    assert not typed, f"{name}, line {first}: the block ends early"


def test_a_documented_property_has_no_deadline() -> None:
    """A first call compiles, and a runner may be slow: Hypothesis' 200 ms fail there by no fault of the program's."""
    examples = [*(ROOT / "examples").rglob("*.py"), *(ROOT / "xferlib").rglob("*.py")]
    texts = {page: [block.code for block in blocks(page)] for page in PAGES}
    texts |= {path: [path.read_text()] for path in examples}
    given = re.compile(r"^((?: *@.*\n)*)(?= *def )", re.MULTILINE)
    late = [
        f"{path.relative_to(ROOT)}: {decorators}"
        for path, codes in texts.items()
        for code in codes
        for decorators in given.findall(code)
        if "@given(" in decorators and "deadline=None" not in decorators
    ]
    assert not late


def test_the_front_page_claims_the_bounds_of_the_functions() -> None:
    claim = (ROOT / "README.md").read_text().split("**The same bits on every backend.**")[1].split("\n- **")[0]
    bounds = {
        dtype: max(guarantee(name, dtype).bound_ulp or 0 for name in TABLE if accepts(TABLE[name], np.dtype(dtype)))
        for dtype in ("float32", "float64")
    }
    assert bounds == {"float32": 0.5, "float64": 0.55}
    assert "float32 functions are correctly rounded, float64 ones within 0.55 units of the last place" in claim


def test_a_block_that_needs_a_library_says_so_visibly() -> None:
    for page in PAGES:
        for noted, needs in re.findall(r"(?m)^(.*)\n+<!-- (?:page )?needs: (\w+)[\w ]* -->", page.read_text()):
            assert re.match(rf"\*\*Needs \w*{needs}", noted, re.IGNORECASE), f"{page.name}: {noted}"


def test_every_page_has_its_place_in_the_navigation() -> None:
    listed = re.findall(r"^ +- (?:.*: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(listed) == [str(page.relative_to(ROOT / "docs")) for page in PAGES[1:]]


def test_the_front_page_leads_to_every_page() -> None:
    texts = [(ROOT / "docs" / name).read_text() for name in ("index.md", "studies.md")]
    linked = {match[1] for text in texts for match in LINK.finditer(text)}
    assert {str(page.relative_to(ROOT / "docs")) for page in PAGES[1:]} - linked == {"index.md"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    found = LINK.findall(page.read_text())
    missing = [target for target, _ in found if not (page.parent / target).exists()]
    missing += [
        target + place
        for target, place in found
        if target.endswith(".md") and place and place[1:] not in places_of(page.parent / target)
    ]
    assert not missing


@functools.cache
def places_of(page: Path) -> set[str]:
    """The names by which links lead into a page: those of its headings, as Python-Markdown makes them, and its own."""
    text = page.read_text()
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", re.sub(r"<!--.*?-->", "", each)).strip().lower() for each in headings]
    return {re.sub(r"[-\s]+", "-", each) for each in plain} | set(re.findall(r'id="([^"]+)"', text))


OTHER_PAGES = [ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")]
PATH = re.compile(r"\b(?:xferlib|tests|tools|examples|benchmarks|packaging)/[\w./]*\.(?:py|c|h|sh|txt|json|yaml)\b")
MODULE = re.compile(r"python -m ((?:tools|benchmarks|xferlib)(?:\.\w+)*)")


@pytest.mark.parametrize("page", [*PAGES, *OTHER_PAGES], ids=lambda page: str(page.relative_to(ROOT)))
def test_files_and_modules_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text().replace("tests/test_X.py", "")  # any name
    modules = {module.replace(".", "/") for module in MODULE.findall(text)}
    missing = {place for place in PATH.findall(text) if not (ROOT / place).exists()}
    missing |= {path for path in modules if not ((ROOT / path).is_dir() or (ROOT / f"{path}.py").exists())}
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tables_have_a_head_and_rows_of_one_length(page: Path) -> None:
    for table in re.findall(r"(?:^\|.*\n)+", page.read_text(), re.MULTILINE):
        rows = [re.sub(r"\\\||`[^`]*`", "", row).strip().strip("|").split("|") for row in table.splitlines()]
        assert len(rows) > 1, table
        assert all(set(cell.strip()) <= set(":-") and "-" in cell for cell in rows[1]), table
        assert {len(row) for row in rows} == {len(rows[0])}, table


PAGE_PX, LETTER_PX, PADDING_PX = 810, 6.6, 20
"""Widths of a page on a screen of 1280 pixels, with some play, of a letter of code, and of a column's padding."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tables_are_no_wider_than_the_page(page: Path) -> None:
    """Code is not broken in a table, but for its head; other text is, between words."""
    for table in re.findall(r"(?:^\|.*\n)+", page.read_text(), re.MULTILINE):
        rows = [re.split(r"(?<!\\)\|", row.strip()[1:-1]) for row in table.splitlines()[2:]]
        letters = [max(len(word) for cell in column for word in re.findall(r"`[^`]*`|[^`\s]+|$", cell))
                   for column in zip(*rows, strict=False)]  # fmt: skip
        width = sum(letters) * LETTER_PX + len(letters) * PADDING_PX
        longest = [max((word for cell in column for word in re.findall(r"`[^`]*`", cell)), key=len, default="")
                   for column in zip(*rows, strict=False)]  # fmt: skip
        assert width <= PAGE_PX, (
            f"under {table.partition(chr(10))[0]}: the longest words of all columns together are {width:.0f} px wide, "
            f"{PAGE_PX} fit; shorten {max(longest, key=len)}"
        )


def test_every_export_is_in_the_reference() -> None:
    text = (ROOT / "docs" / "reference" / "api.md").read_text()
    assert [name for name in xl.__all__ if f"`{name}`" not in text and f"`xl.{name}`" not in text] == ["errors"]


def test_install_hints_name_what_can_be_installed() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    text = "\n".join(page.read_text() for page in PAGES)
    hints = "\n".join(status.install for status in xl.available_backends().values())
    named = ",".join(re.findall(r"['\"/][\w./-]*\[([\w,-]+)\]['\"]", hints + text)).split(",")
    assert {"cupy", "torch-cpu", "trace"} <= set(named)
    assert set(named) <= set(extras)


def test_every_error_is_in_its_tree() -> None:
    page = (ROOT / "docs" / "reference" / "errors.md").read_text()
    tree = page.partition("```text")[2].partition("```")[0]
    errors = {name for name, thing in vars(xl.errors).items() if isinstance(thing, type)}
    assert {word for word in re.findall(r"\w+(?:Error|Warning)", tree) if hasattr(xl.errors, word)} == errors
    for name in errors - {"XferError", "XferWarning"}:
        line = next(line for line in tree.splitlines() if f" {name}" in line)
        for builtin in re.findall(r"\((\w+(?:Error|Warning))\)", line):
            assert issubclass(getattr(xl.errors, name), getattr(__import__("builtins"), builtin))
