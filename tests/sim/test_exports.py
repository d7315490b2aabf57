"""The names of `xferlib.sim` are what they say, also after every file of it has been imported."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType
from typing import Any

import xferlib as xl
from xferlib import sim


def test_no_file_of_the_package_hides_one_of_its_names() -> None:
    for module in pkgutil.iter_modules(sim.__path__):
        importlib.import_module(f"xferlib.sim.{module.name}")
    assert [name for name in sim.__all__ if isinstance(getattr(sim, name), ModuleType)] == []


def test_the_namespace_lists_functions_and_dtypes_only() -> None:
    namespace: Any = xl.get_array_module(xl.zeros(1, backend="sim"))
    assert {"add", "sum", "asarray", "float32", "matmul", "unique_values"} <= set(namespace.__all__)
    assert [name for name in namespace.__all__ if isinstance(getattr(namespace, name), ModuleType)] == []
