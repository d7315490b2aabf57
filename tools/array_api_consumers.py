"""Run the Array-API tests of SciPy, scikit-learn or array-api-extra on `sim`.

Usage: python tools/array_api_consumers.py scipy|sklearn|array_api_extra [arguments for pytest]

The package is the one that is installed; its tests are named as for pytest, such as ``--pyargs scipy.fft``. A package
lists the namespaces that its tests run on. The lines that put `sim` on that list are here, as the package would have
them; nothing of it is changed on disk.

Values are read with ``numpy.asarray(x)``, ``float(x)`` and their kin, which `sim` then allows.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

NAME, ALIAS = "xferlib.sim", "xferlib_sim"
"""Of the namespace, and a name to import it by: there is a module of the first one."""
ROOT = Path(__file__).resolve().parents[1]
VARIABLE = "XFERLIB_CONSUMER"


def find_namespace() -> Any:
    """The namespace of `sim`, which is the default backend of the run."""
    import xferlib as xl

    xl.use_backend("sim")
    return xl.get_array_module(xl.zeros(1))


def import_changed(name: str, changes: dict[str, str], **names: Any) -> Any:
    """Import a module, which is returned, with passages of its source exchanged; each must be there once."""
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text(encoding="utf-8")
    for before, after in changes.items():
        if source.count(before) != 1:
            raise SystemExit(f"{spec.origin} has {before!r} {source.count(before)} times, where 1 is expected")
        source = source.replace(before, after)
    module = importlib.util.module_from_spec(spec)
    vars(module).update(names)
    sys.modules[name] = module
    exec(compile(source, spec.origin, "exec"), vars(module))  # noqa: S102 - an installed package's own code
    return module


SCIPY = """
xp_known_backends.add({name!r})
xp_skip_cpu_only_backends.add({name!r})
xp_available_backends[:] = [pytest.param(xferlib_sim, id="sim", marks=pytest.mark.array_api_backends)]
"""


def add_to_scipy() -> None:
    fixture = "@pytest.fixture(params=xp_available_backends)\n"
    import_changed("scipy.conftest", {fixture: f"{SCIPY.format(name=NAME)}\n{fixture}"}, xferlib_sim=find_namespace())


def add_to_sklearn() -> None:
    import sklearn.utils._array_api as array_api

    sys.modules[ALIAS] = find_namespace()  # its tests import namespaces by name
    namespaces: Any = lambda include_numpy_namespaces=True: [(ALIAS, None, "float64"), (ALIAS, None, "float32")]
    array_api.yield_namespace_device_dtype_combinations = namespaces


def add_to_extra() -> None:
    sys.modules[ALIAS] = find_namespace()
    last = '    JAX_GPU = "jax.numpy:gpu"\n'
    changed = import_changed("array_api_extra._lib._backends", {last: f"{last}    SIM = {ALIAS!r}\n"})
    vars(sys.modules["array_api_extra._lib"])["Backend"] = changed.Backend


CONSUMERS = {"scipy": add_to_scipy, "sklearn": add_to_sklearn, "array_api_extra": add_to_extra}


# The plug-in.


class Counts:
    """Counts tests by package."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {}
        self._packages: dict[str, str] = {}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        self._packages = {each.nodeid: each.module.__name__.partition(".tests")[0] for each in items}

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or report.outcome != "passed":
            package = self._packages[report.nodeid]
            outcome = "xfailed" if report.outcome == "skipped" and hasattr(report, "wasxfail") else report.outcome
            self.counts.setdefault(package, Counter())[outcome] += 1

    def table(self) -> str:
        columns = ("passed", "failed", "xfailed", "skipped")
        lines = ["| tests of | passed | failed | expected to fail | skipped |", "|---|---:|---:|---:|---:|"]
        for package, counts in sorted(self.counts.items()):
            lines.append(f"| `{package}` | " + " | ".join(str(counts[each]) for each in columns) + " |")
        return "\n".join(lines)


def pytest_configure(config: Any) -> None:
    CONSUMERS[os.environ[VARIABLE]]()
    config.pluginmanager.register(Counts(), "xferlib-counts")


def pytest_terminal_summary(terminalreporter: Any, config: Any) -> None:
    terminalreporter.write_line(config.pluginmanager.get_plugin("xferlib-counts").table())


def main(arguments: list[str]) -> int:
    """Run the tests; returns pytest's exit status."""
    if not arguments or arguments[0] not in CONSUMERS:
        print(__doc__)
        return 2
    os.environ |= {
        VARIABLE: arguments[0], "XFERLIB_SIM_IMPLICIT": "allow", "XFERLIB_BACKEND": "sim", "SCIPY_ARRAY_API": "1",
    }  # fmt: skip
    sys.path.insert(0, str(ROOT))
    return int(pytest.main(["-p", "tools.array_api_consumers", "-p", "no:cacheprovider", "-q", *arguments[1:]]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
