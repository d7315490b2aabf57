"""Finds the calls that make kernels, by the syntax trees of Python files; nothing of them is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_ELEMENTWISE = ("in_params", "out_params", "operation", "name")
_REDUCTION = ("in_params", "out_params", "map_expr", "reduce_expr", "post_map_expr", "identity", "name")
_MAKERS = {"ElementwiseKernel": _ELEMENTWISE, "ReductionKernel": _REDUCTION}
_CHAINER = {"elementwise": _ELEMENTWISE, "reduce": _REDUCTION}
_TEXTS = frozenset((*_ELEMENTWISE, *_REDUCTION, "preamble", "loop_prep", "after_loop", "reduce_type", "options"))


@dataclass(frozen=True, slots=True)
class Found:
    """A kernel's texts by the names of their parameters."""

    where: str
    texts: dict[str, str]

    @property
    def is_reduction(self) -> bool:
        return "map_expr" in self.texts


def kernels_in(folder: Path) -> Iterator[Found]:
    """Every kernel whose texts are static, in the order of the files."""
    for file in sorted(folder.rglob("*.py")):
        if "tests" in file.relative_to(folder).parts or file.name.startswith("test_"):
            continue
        try:
            tree = ast.parse(file.read_text(errors="replace"))
        except SyntaxError:
            continue
        yield from _kernels(tree, str(file.relative_to(folder.parent)))


def _kernels(tree: ast.Module, file: str) -> Iterator[Found]:
    known = _assigned(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (names := _maker(node)) and (texts := _texts(node, names, known)):
            yield Found(f"{file}:{node.lineno}", texts)


def _maker(node: ast.Call) -> tuple[str, ...] | None:
    if isinstance(node.func, ast.Name):
        return _MAKERS.get(node.func.id)
    if not isinstance(node.func, ast.Attribute):
        return None
    owner = node.func.value
    is_chainer = isinstance(owner, ast.Name) and owner.id == "cuda"
    return _MAKERS.get(node.func.attr) or (_CHAINER.get(node.func.attr) if is_chainer else None)


def _assigned(tree: ast.Module) -> dict[str, str]:
    """The names to which the module assigns one text, and that one only."""
    found: dict[str, str | None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            found[name] = None if name in found else _text(node.value, {})
    return {name: text for name, text in found.items() if text is not None}


def _text(node: ast.expr, known: dict[str, str]) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float):
        return str(node.value)
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _text(node.left, known), _text(node.right, known)
        return None if left is None or right is None else left + right
    return None


def _named(node: ast.Call, names: tuple[str, ...]) -> tuple[str, ...]:
    """The parameters of a call in their order; PyCUDA's element-wise kernels have one list of arguments."""
    first = _text(node.args[0], {}) if node.args else None
    is_pycuda = names is _ELEMENTWISE and first is not None and "*" in first
    return ("in_params", "operation", "name", "preamble") if is_pycuda else names


def _texts(node: ast.Call, names: tuple[str, ...], known: dict[str, str]) -> dict[str, str] | None:
    given = dict(zip(_named(node, names), node.args, strict=False))
    given |= {each.arg: each.value for each in node.keywords if each.arg in _TEXTS}
    given.pop("options", None)
    texts: dict[str, str] = {}
    for name, value in given.items():
        if name == "name" or (isinstance(value, ast.Constant) and value.value is None):
            continue
        text = _text(value, known)
        if text is None:
            return None
        texts[name] = text
    return texts if "in_params" in texts and {"operation", "map_expr"} & texts.keys() else None
