"""A peer's tests made to use the shim: their imports name it, so that the peer itself can be imported beside it."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

SHIM = "peer_shim"
"""The package that the shim's modules are in."""


def _imported(alias: ast.alias, roots: Collection[str]) -> str:
    root, _, rest = alias.name.partition(".")
    if root not in roots:
        return f"import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")
    if alias.asname:
        return f"import {SHIM}.{alias.name} as {alias.asname}"
    deep = f"import {SHIM}.{alias.name}; " if rest else ""
    return f"{deep}import {SHIM}.{root} as {root}"


def _compares_text(node: ast.AST) -> bool:
    """Whether a statement asserts something of the text of an error: that is each library's own."""
    return isinstance(node, ast.Assert) and any(
        isinstance(part, ast.Call)
        and isinstance(part.func, ast.Name)
        and part.func.id == "str"
        and any(isinstance(each, ast.Attribute) and each.attr in ("value", "exception") for each in part.args)
        for part in ast.walk(node)
    )


def adapted(source: str, roots: Collection[str]) -> str:
    """The source with the shim's names of modules, in imports and texts; without assertions of texts of errors."""
    lines = source.splitlines(keepends=True)
    node: Any
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.lineno == node.end_lineno:
            if node.value.partition(".")[0] in roots and re.fullmatch(r"\w+(\.\w+)+", node.value):
                line = lines[node.lineno - 1]
                lines[node.lineno - 1] = line.replace(node.value, f"{SHIM}.{node.value}", 1)  # of `mock.patch`
            continue
        if _compares_text(node):
            text = "pass"
        elif isinstance(node, ast.Import) and any(each.name.partition(".")[0] in roots for each in node.names):
            text = "; ".join(_imported(each, roots) for each in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and str(node.module).partition(".")[0] in roots:
            names = ", ".join(each.name + (f" as {each.asname}" if each.asname else "") for each in node.names)
            text = f"from {SHIM}.{node.module} import {names}"
        else:
            continue
        first, last = node.lineno - 1, int(node.end_lineno or node.lineno)
        lines[first] = f"{lines[first][: node.col_offset]}{text}\n"
        lines[first + 1 : last] = ["\n"] * (last - first - 1)  # the lines after it keep their numbers
    return "".join(lines)


def adapt(files: Collection[Path], checkout: Path, folder: Path, roots: Collection[str]) -> list[Path]:
    """Write the adapted ``files`` of a checkout to ``folder``, at the same paths in it."""
    written = []
    for each in files:
        target = folder / each.relative_to(checkout)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(adapted(each.read_text(encoding="utf-8"), roots), encoding="utf-8")
        written.append(target)
    return written
