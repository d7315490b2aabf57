"""Imports go one way: front door, verbs, registry, transfers and kernels, backends."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import xferlib

ROOT = Path(xferlib.__file__).parent
BACKENDS = sorted(path.stem for path in (ROOT / "backends").glob("[!_]*"))

LAYERS = [
    # Lower numbers may be imported by higher ones at module level; a module not named here is not constrained.
    {"errors", "_opaque", "_site", "_immortal", "_counts", "_pages", "_interrupts"},
    {"_recording"},
    {"_config", "_array", "_layout", "_convert", "_handover"},
    {"backends.base"},
    {"_registry"},
    {"_device", "_leaves"},
    {"_exit"},
    {"_stream", "_hostmem", "_workers", "_pin", "_pinned", "_staging", "_pieces", "_devicecopy"},
    {"_plan", "_inflight"},
    {"_transfer", "_copying", "_direct"},
    {"_move"},
    {"_packing"},
    {"_api"},
    {"_create", "_arriving", "_ahead", "tree", "_overlap"},
    {"_lane"},
    {"_batch"},
    {"_pipeline"},
    {"_readahead", "_inturn"},
    {"_prefetch", "_rows"},
    {"_results"},
    {"_station"},
    {"_streammap"},
    {"_recorder"},
    {"_trace"},
]
FOR_BACKENDS = {
    "errors", "_array", "_layout", "_device", "_registry", "_handover", "_site", "_immortal", "_interrupts",
    "_exit", "backends.base", "backends._host", "backends._cuda", "backends._cuda_calls", "backends._cuda_contexts",
    "backends._cuda_copies", "backends._cuda_devices", "backends._cuda_errors", "backends._cuda_kernels",
    "backends._cuda_memory", "backends._cuda_streams",
    "_native", "_native.calling",
}  # fmt: skip
"""What a backend may know: the seam, and what backends share. Nothing that decides."""


def _module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(tree: ast.Module, *, at_module_level: bool) -> set[str]:
    """The xferlib modules that a module imports, by name below ``xferlib``; those for types alone do not count."""
    found: set[str] = set()
    pending: list[ast.AST] = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and at_module_level:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name.partition("xferlib.")[2] for alias in node.names if alias.name.startswith("xferlib.")}
        elif isinstance(node, ast.ImportFrom) and node.module == "xferlib":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("xferlib."):
            module = str(node.module).partition("xferlib.")[2]
            found |= {module} | {f"{module}.{alias.name}" for alias in node.names}
        pending.extend(ast.iter_child_nodes(node))
    return found


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


MODULES = {_module_name(path): path for path in ROOT.rglob("*.py")}


def test_the_layers_name_modules_that_exist() -> None:
    named = {name for layer in LAYERS for name in layer} | FOR_BACKENDS
    assert named <= set(MODULES)


@pytest.mark.parametrize("name", sorted({name for layer in LAYERS for name in layer}))
def test_a_layer_imports_only_what_lies_below_it(name: str) -> None:
    depth = {module: index for index, layer in enumerate(LAYERS) for module in layer}
    imported = _imports(_tree(MODULES[name]), at_module_level=True)
    above = {module for module in imported if module in depth and depth[module] > depth[name]}
    assert not above, f"{name} imports {sorted(above)}, which lie above it"


@pytest.mark.parametrize("name", sorted(module for module in MODULES if module.startswith("backends.")))
def test_a_backend_imports_the_seam_and_no_other_backend(name: str) -> None:
    imported = _imports(_tree(MODULES[name]), at_module_level=False) & set(MODULES)
    package = ".".join(name.split(".")[:2])
    own = {module for module in MODULES if f"{module}.".startswith(f"{package}.")}  # one backend in several files
    strangers = imported - FOR_BACKENDS - {"backends"} - own
    assert not strangers, f"{name} imports {sorted(strangers)}; a backend executes and decides nothing"


@pytest.mark.parametrize("name", sorted(MODULES))
def test_backends_are_reached_through_the_registry_alone(name: str) -> None:
    if f"{name}.".startswith(("backends.", "sim.")):
        return
    concrete = {f"backends.{backend}" for backend in BACKENDS if backend != "base"}
    if name == "kernels.autograd":  # asks what torch follows, of tensors alone
        concrete -= {"backends.torch"}
    imported = _imports(_tree(MODULES[name]), at_module_level=False) & concrete
    assert not imported, f"{name} imports {sorted(imported)}; ask the registry"


@pytest.mark.parametrize("name", sorted(MODULES))
def test_array_libraries_are_imported_by_their_backends_alone(name: str) -> None:
    heavy = {"cupy", "cupyx", "torch", "pycuda", "cuda", "array_api_compat"}
    owners = {"backends.cupy", "backends.pycuda"}
    owners |= {module for module in MODULES if module.startswith(("backends._cuda", "backends.torch", "namespaces"))}
    found = set()
    for node in _tree(MODULES[name]).body:
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(str(node.module).partition(".")[0])
    assert name in owners or not found & heavy, f"{name} imports {sorted(found & heavy)} at module level"


def test_nothing_imports_the_front_door() -> None:
    """``import xferlib as xl`` inside the package would make the order of imports matter; programs may."""
    for name, path in MODULES.items():
        if name == "" or name.partition(".")[0] in {"testing", "bench", "_cli", "__main__", "_demo", "_pytest_plugin"}:
            continue
        for node in _tree(path).body:
            imports_it = isinstance(node, ast.Import) and any(alias.name == "xferlib" for alias in node.names)
            assert not imports_it, f"{name} imports xferlib itself at module level"


def test_only_the_standard_library_numpy_and_the_seam_are_below_the_verbs() -> None:
    """A check that the parser above sees anything at all: `_api` does import the transfers."""
    assert {"_move", "_registry", "_array"} <= _imports(_tree(MODULES["_api"]), at_module_level=True)
