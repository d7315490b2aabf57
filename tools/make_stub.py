"""Write `xferlib/__init__.pyi`: the public names as type checkers and editors see them.

    python tools/make_stub.py [--check]

The names are those of `xferlib/__init__.py`, the signatures those of the functions. Where a function takes ``backend=``
and returns an array, the stub has one signature for each built-in backend, which returns the library's own class; where
it fills ``out`` or follows another array, the result has the class of that array. ``--check`` writes nothing and exits
with 1 where the stub is out of date.
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import xferlib as xl  # noqa: E402 - from this tree, installed or not
from tools import pages  # noqa: E402
from xferlib._core import registry  # noqa: E402

STUB = ROOT / "xferlib" / "__init__.pyi"
MODULES = ("distributed", "errors", "kernels", "random", "sim", "tree")
HEAD = """# Written by tools/make_stub.py from the names and signatures of the code; change those instead.
from collections.abc import Sequence
from typing import Any, Literal, TypeVar, overload

import cupy
import numpy as np
import torch
from pycuda.gpuarray import GPUArray

{modules}
{imports}

_HostArray = np.ndarray[Any, Any]
_A = TypeVar("_A")

class _TorchTensor(torch.Tensor): ...  # type: ignore[misc, unused-ignore]
class _CupyArray(cupy.ndarray): ...  # type: ignore[misc, unused-ignore]
class _PycudaArray(GPUArray): ...  # type: ignore[misc, unused-ignore]

__version__: str

__all__ = [
{names}
]
"""
CLASSES = {
    "numpy": "_HostArray",
    "torch": "_TorchTensor",
    "cupy": "_CupyArray",
    "pycuda": "_PycudaArray",
    "sim": "sim.SimArray",
}
"""The class of a backend's arrays; a test holds the names against the registry.

A name that cannot be imported is unknown to a type checker, and with it, to pyright's strict mode, each function that
may return it. A subclass of it is known, and is a whole `torch.Tensor` where PyTorch is installed."""


def imported() -> dict[str, str]:
    """The public names by the module that defines them."""
    found = {name: getattr(xl, name) for name in xl.__all__ if name not in MODULES}
    modules = vars(xl)["_MODULES"]
    return {name: value.__module__ if isinstance(value, type) else modules[name] for name, value in found.items()}


def function_of(name: str, module: str) -> ast.FunctionDef | None:
    """The definition of a function; None for classes and other objects."""
    path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    if not path.exists():
        return None
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return next((node for node in body if isinstance(node, ast.FunctionDef) and node.name == name), None)


def signatures(function: ast.FunctionDef) -> Iterator[str]:
    """The overloads of a function whose result depends on its arguments; none where one signature says it all."""
    names = [each.arg for each in [*function.args.args, *function.args.kwonlyargs]]
    result = ast.unparse(function.returns) if function.returns else "Any"
    if result not in ("Array", "Transfer"):
        return
    around = "{}" if result == "Array" else "Transfer[{}]"
    if function.name == "concat":
        yield define(function, {"arrays": "Sequence[_A]"}, around.format("_A"))
    elif function.name.endswith("_like"):
        yield define(function, {"x": "_A", "device": "None"}, "_A")
        yield define(function, {"device": "DeviceName"}, "DeviceArray", without_default="device")
    elif "backend" in names:
        if "out" in names:
            yield define(function, {"out": "_A"}, around.format("_A"), without_default="out")
        rest = {"out": "None"} if "out" in names else {}
        for backend, cls in CLASSES.items():
            literal = {"backend": f'Literal["{backend}"]', **rest}
            yield define(function, literal, around.format(cls), without_default="backend")
        yield define(function, rest, around.format("DeviceArray"))
    elif function.name == "copy_to":
        yield define(function, {}, "DeviceArray")


def define(function: ast.FunctionDef, types: dict[str, str], result: str, *, without_default: str = "") -> str:
    """A stub of the function with other annotations; ``without_default`` must be given by its callers."""
    positional, keyword = [], []
    first_default = len(function.args.args) - len(function.args.defaults)
    for index, each in enumerate(function.args.args):
        default = function.args.defaults[index - first_default] if index >= first_default else None
        positional.append(parameter(each, default, types))
    for each, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
        keyword.append(parameter(each, None if each.arg == without_default else default, types))
    everything = [*positional, *(["*", *keyword] if keyword else [])]
    return f"@overload\ndef {function.name}({', '.join(everything)}) -> {result}: ..."


def parameter(each: ast.arg, default: ast.expr | None, types: dict[str, str]) -> str:
    annotation = types.get(each.arg) or (ast.unparse(each.annotation) if each.annotation else "Any")
    annotation = re.sub(r"\bHostArray\b", "_HostArray", re.sub(r"\bArray\b", "Any", annotation))
    return f"{each.arg}: {annotation}" + (f" = {ast.unparse(default)}" if default is not None else "")


def stub(_: str = "") -> str:
    """The text of the stub, formatted."""
    overloaded: list[str] = []
    imports = ["from xferlib._api.creation import Shape", "from xferlib._core.device import DeviceName, DeviceSpec"]
    for name, module in imported().items():
        function = function_of(name, module)
        found = [*signatures(function)] if function is not None and inspect.isroutine(getattr(xl, name)) else []
        if not found:
            imports.append(f"from {module} import {name} as {name}")
        elif len(found) == 1:
            overloaded.append(found[0].removeprefix("@overload\n"))
        else:
            overloaded.extend(found)
    head = HEAD.format(
        modules="\n".join(f"from xferlib import {name} as {name}" for name in MODULES),
        imports="\n".join(sorted(imports)),
        names="\n".join(f'    "{name}",' for name in xl.__all__),
    )
    return formatted(head + "\n" + "\n".join(overloaded) + "\n")


def formatted(text: str) -> str:
    ruff = Path(sys.executable).with_name("ruff")
    options = ["--config", str(ROOT / "pyproject.toml"), "--stdin-filename", str(STUB), "-"]
    for command in (["check", "--fix", "--quiet", "--exit-zero"], ["format"]):
        done = subprocess.run([str(ruff), *command, *options], input=text, capture_output=True, text=True, check=True)
        text = done.stdout
    return text


if __name__ == "__main__":
    assert set(CLASSES) == set(registry._BUILTIN), "a backend has come or gone: say in CLASSES what its arrays are"
    pages.keep({STUB: stub})
