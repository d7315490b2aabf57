"""Keeps torch.compile out of xferlib: its tracer would replace NumPy calls by torch's, which give other bits.

A compiled function that calls xferlib is cut there, as at any library that torch.compile does not look into, and runs
the call as it is. The tracer is a package that comes with the first ``torch.compile``, perhaps long after xferlib.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

_TRACER = "torch._dynamo"
_in_python: dict[Callable[..., Any], Callable[..., Any]] = {}
"""Functions compiled from C, and those in Python that do the same."""
_PACKAGE = __file__.replace(os.sep, "/").rpartition("/_runtime/")[0]  # pathlib would take a fifth of the import
_SEEN = tuple(
    f"{_PACKAGE}/{part}"
    for part in (
        "_core/arrays", "_core/namespaces", "_runtime/process", "backends/torch/dtypes", "backends/torch/elementwise",
        "backends/torch/extensions", "backends/torch/functions", "backends/torch/namespace",
    )
)  # fmt: skip
"""Where the paths of files begin that the tracer looks into: torch's namespace computes with tensors alone."""


def keep_tracer_out() -> None:
    """Tell torch's tracer not to look into xferlib: now, or when it is imported."""
    tracer = sys.modules.get(_TRACER)
    if tracer is not None:
        _tell(tracer)
    else:
        sys.meta_path.insert(0, _Watcher())


def show_python(compiled: Callable[..., Any], function: Callable[..., Any]) -> None:
    """Let the tracer see ``function`` in place of one compiled from C, of which it would warn the user."""
    _in_python[compiled] = function
    tracer = sys.modules.get(_TRACER)
    if tracer is not None:
        _substitute(tracer, compiled, function)


def _tell(tracer: ModuleType) -> None:
    add: Any = getattr(getattr(tracer, "trace_rules", None), "add", None)
    if add is not None:
        add("xferlib")
    seen: Any = getattr(getattr(tracer, "trace_rules", None), "get_legacy_mod_inlinelist", set)()
    seen.update(_SEEN)
    for compiled, function in _in_python.items():
        _substitute(tracer, compiled, function)


def _substitute(tracer: ModuleType, compiled: Callable[..., Any], function: Callable[..., Any]) -> None:
    substitute: Any = getattr(tracer, "substitute_in_graph", None)
    if substitute is not None:
        # From none of xferlib's files, or the tracer would refuse to look into it.
        code = compile("lambda *args, **options: function(*args, **options)", "<called by xferlib>", "eval")
        substitute(compiled, skip_signature_check=True)(eval(code, {"function": function}))  # noqa: S307 - the line above


class _Watcher:
    """An import hook that finds nothing itself: it sees the tracer being imported, once, and calls `_tell` then."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != _TRACER:
            return None
        import importlib.util  # here, because importing xferlib would spend a tenth of its time on it

        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_tell(module: ModuleType) -> None:
            execute(module)
            _tell(module)

        spec.loader.exec_module = execute_and_tell  # type: ignore[method-assign]
        return spec


def hide_from_tracer(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a program's own function so that torch's tracer leaves it alone when xferlib calls it."""
    tracer = sys.modules.get("torch._dynamo")
    disable: Any = getattr(tracer, "disable", None)
    return function if disable is None else disable(function)
