"""Rules for the packages that the contracts of import-linter cannot express, and proof that those can fail."""

from __future__ import annotations

import ast
import collections
import functools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import xferlib

ROOT = Path(xferlib.__file__).parent
FLAT = {"__init__", "__main__", "errors", "random", "tree"}
HEAVY = {"cupy", "cupyx", "torch", "pycuda", "cuda", "array_api_compat"}
"""Libraries that take a second to import, or are not installed everywhere."""
OWNERS = tuple(f"xferlib.backends.{name}" for name in ("cuda", "cupy", "pycuda", "torch"))
"""The modules and packages that may import those."""
PROGRAMS = ("xferlib._cli", "xferlib._pretend", "xferlib.testing")
"""They use the library as its users do."""


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")


MODULES = {_name(path): path for path in ROOT.rglob("*.py")}


def _is_in(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == each or name.startswith(f"{each}.") for each in packages)


def _statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All statements, those inside others too. `ast.walk` would go through their expressions, which take most time."""
    for node in body:
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, field, ())
            if isinstance(inner, list):  # that of a lambda or a conditional expression is one node
                yield from _statements(inner)


def _imported(nodes: Iterable[ast.AST]) -> set[str]:
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {
                full if (full := f"{node.module}.{alias.name}") in MODULES else str(node.module) for alias in node.names
            }
    return found


class _Facts(NamedTuple):
    """Names that a module imports, inside functions and for types too or at module level, and those of its classes."""

    imports: set[str]
    imports_first: set[str]
    classes: list[str]


@functools.cache
def _facts(name: str) -> _Facts:
    body = ast.parse(MODULES[name].read_text(encoding="utf-8")).body
    nodes = list(_statements(body))
    return _Facts(_imported(nodes), _imported(body), [node.name for node in nodes if isinstance(node, ast.ClassDef)])


def test_the_root_holds_packages_and_few_files() -> None:
    assert {path.stem for path in ROOT.glob("*.py")} == FLAT


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports inside functions and for types count: they tie modules as much as others."""
    below = {name: {each for each in _facts(name).imports if each in MODULES and each != name} for name in MODULES}
    below["xferlib"] = set()  # the front door shows what it imports
    while leaves := {name for name, imported in below.items() if not imported}:
        below = {name: imported - leaves for name, imported in below.items() if name not in leaves}
    assert not below, f"circles among {sorted(below)}"


def test_array_libraries_are_imported_by_their_backends_alone() -> None:
    """At module level; inside functions they may be imported anywhere."""
    found = {name: {each.partition(".")[0] for each in _facts(name).imports_first} & HEAVY for name in MODULES}
    owned = {name: heavy for name, heavy in found.items() if heavy and _is_in(name, OWNERS)}
    assert owned, "this test sees no import of them"
    assert not {name: heavy for name, heavy in found.items() if heavy and name not in owned}


def test_nothing_imports_the_front_door() -> None:
    """``import xferlib as xl`` inside the package would make the order of imports matter; programs may."""
    importing = {name for name in MODULES if "xferlib" in _facts(name).imports_first}
    assert importing, "the programs do, and this test sees it"
    assert not {name for name in importing if not _is_in(name, PROGRAMS)}


def test_these_tests_see_imports() -> None:
    assert "xferlib._runtime.supported" in _facts("xferlib").imports
    assert "numpy" in _facts("xferlib._core.arrays").imports_first


def test_the_modules_in_which_no_thread_parks_at_exit_exist() -> None:
    """A module that is moved without its name there would let a thread park with a lock held."""
    named = re.findall(r'"(_\w+\.\w+)"', MODULES["xferlib._runtime.process"].read_text(encoding="utf-8"))
    assert len(named) > 10
    assert {f"xferlib.{each}" for each in named} <= set(MODULES)


SHARED_NAMES = {"Chunk", "Plan", "RawKernel"}
"""Classes that two modules name alike: a C structure and its Python counterpart, and two public names."""


def test_a_class_name_means_one_class() -> None:
    names = collections.Counter(each for name in MODULES for each in _facts(name).classes)
    alike = {name for name, count in names.items() if count > 1} - SHARED_NAMES
    assert not alike, f"two modules have a class of each of these names: choose another for yours: {sorted(alike)}"


TESTS = Path(__file__).parent
MOST_PRIVATE = 25
"""Private names that tests may import, each once for each file: those of unit tests of C and of pools."""


def _private_imports(source: str) -> list[str]:
    """The private names that a file imports from xferlib."""
    named = [
        f"{node.module}.{alias.name}"
        for node in _statements(ast.parse(source).body)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("xferlib")
        for alias in node.names
    ]
    return [name for name in named if any(part.startswith("_") for part in name.split("."))]


def test_tests_reach_the_library_by_its_public_names() -> None:
    found = {path.name: _private_imports(path.read_text(encoding="utf-8")) for path in TESTS.rglob("*.py")}
    count = sum(map(len, found.values()))
    assert count <= MOST_PRIVATE, (
        f"tests import {count} private names, and {MOST_PRIVATE} are allowed: use public names or those of "
        "xferlib.testing, and give it a new one where writers of backends or programs have a use for it too; "
        f"they are { ({name: names for name, names in found.items() if names}) }"
    )


def test_this_test_sees_private_imports() -> None:
    source = """
import xferlib
from xferlib import _native
from xferlib import testing
from xferlib._core import arrays as layout
from xferlib.backends.base import Device, __all__
def function():
    from xferlib._core.device import RawStream, RawEvent
"""
    assert _private_imports(source) == [
        "xferlib._native", "xferlib._core.arrays", "xferlib.backends.base.__all__", "xferlib._core.device.RawStream",
        "xferlib._core.device.RawEvent",
    ]  # fmt: skip


_VIEWS = frozenset({"frombuffer", "from_buffer"})
"""Functions whose result lies over memory that something else holds."""
_TAKES_ADDRESS = re.compile(r"\.ctypes\b|__array_interface__|\baddressof\b")
"""In the text of each module that `_addresses_of_nothing` finds something in; parsing all of them takes a second."""


def _addresses_of_nothing(tree: ast.AST) -> Iterator[int]:
    """The lines that take the address of an array or a `ctypes` object that has no name, and is freed with the line."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr="data", value=ast.Attribute(attr="ctypes", value=ast.Call() as made)):
                pass
            case ast.Subscript(value=ast.Attribute(attr="__array_interface__", value=ast.Call() as made)):
                pass
            case ast.Call(func=ast.Name("addressof") | ast.Attribute(attr="addressof"), args=[ast.Call() as made]):
                pass
            case _:
                continue
        name = made.func.attr if isinstance(made.func, ast.Attribute) else getattr(made.func, "id", "")
        if name not in _VIEWS:
            yield node.lineno


def test_no_address_is_taken_of_an_array_that_nothing_holds() -> None:
    sources = {name: path.read_text(encoding="utf-8") for name, path in MODULES.items()}
    taking = {name: source for name, source in sources.items() if _TAKES_ADDRESS.search(source)}
    assert taking, "some do, and this test sees it"
    assert not [(name, line) for name, each in taking.items() for line in _addresses_of_nothing(ast.parse(each))]


@pytest.mark.parametrize(
    ("line", "is_bad"),
    [
        ("join(np.empty(n).ctypes.data)", True),
        ("join(ctypes.addressof(ctypes.c_int(3)))", True),
        ("join(make(n).__array_interface__['data'][0])", True),
        ("join(room.ctypes.data)", False),
        ("join(np.frombuffer(held, np.uint8).ctypes.data)", False),
    ],
)
def test_this_test_sees_such_an_address(line: str, is_bad: bool) -> None:
    assert _TAKES_ADDRESS.search(line) or not is_bad
    assert bool([*_addresses_of_nothing(ast.parse(line))]) == is_bad
