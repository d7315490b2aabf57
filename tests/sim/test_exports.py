"""The names of `xferlib.sim` are what they say, also after every file of it has been imported."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

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


def test_the_reference_has_a_row_for_each_hazard() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "simulator.md").read_text()
    rows = page.partition("| hazard | the program |\n")[2].partition("\n\n")[0].splitlines()[1:]
    listed = [name for row in rows for name in re.findall(r"`([A-Z_]+)`", row.split("|")[1])]
    assert sorted(listed) == sorted(sim.Hazard.__members__)


def test_the_reference_lists_the_methods_of_an_array() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "simulator.md").read_text()
    listed = page.partition("arrays have NumPy's methods ")[2].partition(".\n")[0]
    array = xl.zeros(1, backend="sim")
    methods = [name for name in dir(array) if hasattr(np.ndarray, name) and callable(getattr(np.ndarray, name))]
    public = {name for name in methods if not name.startswith("_")}
    assert set(re.findall(r"`(\w+)`", listed)) == public - {"item", "to_device", "tolist"}
