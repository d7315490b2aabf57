"""Run the Array API's own test suite on the namespace of a backend: of ``torch`` within `numpy_operators`.

Usage: python tools/array_api_suite.py PATH [--backend sim] [--markdown] [arguments for pytest]

PATH is a checkout of data-apis/array-api-tests with its submodule; its requirements are pytest-json-report, ndindex
and Hypothesis. ``--markdown`` prints the table of docs/reference/simulator.md, or of docs/reference/namespaces.md. With
pytest-xdist the tests run in several processes: ``-n 12``.

The suite reads results with ``float(x)``, ``bool(x)`` and their kin, which `sim` refuses because on a GPU they copy and
wait. Here it allows them; the tests of these conversions themselves are skipped, with the other deliberate refusals
below.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

CONVERSIONS = "float(x), int(x), bool(x), complex(x) and x as an index would copy to the host: refused"
SHARING = "memory of a simulated device is shared with no other library"
NESTED = "makes an array from nested lists of arrays, which would copy each of them to the host"
NUMPYS = "a special case that NumPy does otherwise"
SIGNS = "the sign of a NaN, or of a zero that is the sign of a complex zero, is not kept: see the table of guarantees"
METHODS = "torch's tensors have no such method"
FLOOR_DIVIDE, EXPM1 = "test_special_cases.py::test_{}[{}(", "test_special_cases.py::test_unary[expm1(real"
AS_NUMPY = {
    "test_special_cases.py::test_unary[tanh(real(x_i) is +infinity and isfinite(": NUMPYS,
    FLOOR_DIVIDE.format("binary", "floor_divide"): NUMPYS,
    FLOOR_DIVIDE.format("binary", "__floordiv__"): NUMPYS,
    FLOOR_DIVIDE.format("iop", "__ifloordiv__"): NUMPYS,
}
TORCH = AS_NUMPY | {
    "test_has_names.py::test_has_names[array_method-__array_namespace__]": METHODS,
    "test_has_names.py::test_has_names[array_method-to_device]": METHODS,
    "test_signatures.py::test_array_method_signature[__array_namespace__]": METHODS,
    "test_signatures.py::test_array_method_signature[to_device]": METHODS,
    "test_special_cases.py::test_unary[expm1(": NUMPYS,
}
MADE = AS_NUMPY | {
    "test_linalg.py::test_matrix_transpose": NESTED,
    "test_linalg.py::test_linalg_matrix_transpose": NESTED,
    "test_linalg.py::test_outer": NESTED,
    "test_data_type_functions.py::test_can_cast": NUMPYS,
    EXPM1: NUMPYS,
    "test_special_cases.py::test_unary[expm1((real(x_i) is +0": SIGNS,
    "test_special_cases.py::test_unary[sign((real(x_i) is -0": SIGNS,
    "test_special_cases.py::test_unary[signbit(x_i is -NaN)": SIGNS,
}
"""Tests of every namespace that xferlib makes."""
SIM = MADE | {
    "test_array_object.py::test_scalar_casting": CONVERSIONS,
    "test_signatures.py::test_array_method_signature[__dlpack__]": SHARING,
    "test_dlpack.py::": SHARING,
}
REFUSED = {"sim": SIM, "torch": TORCH}
"""Tests of what is refused on purpose or is not ours, by backend and the beginning of their name."""
ROOT = Path(__file__).resolve().parents[1]
MODULES = {"torch": "xferlib.backends.torch.namespace"}
OTHERS = "tools.array_api_namespace"
"""The module of the suite, by backend, and that of the others."""


class Suite:
    """A plug-in of pytest: gives the suite a way to read values, skips what is refused, and counts."""

    def __init__(self, backend: str) -> None:
        self.refused = REFUSED.get(backend, MADE)
        self.counts: dict[str, Counter[str]] = {}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        for item in items:
            name = item.nodeid.rpartition("array_api_tests/")[2]
            for begin, reason in self.refused.items():
                if name.startswith(begin):
                    item.add_marker(pytest.mark.xfail(reason=reason) if reason is NUMPYS else pytest.mark.skip(reason))

    def pytest_runtest_logreport(self, report: Any) -> None:
        file = report.nodeid.partition("::")[0].rpartition("/")[2].removeprefix("test_").removesuffix(".py")
        if report.when == "call" or report.outcome != "passed":
            outcome = "numpy" if report.outcome == "skipped" and hasattr(report, "wasxfail") else report.outcome
            self.counts.setdefault(file.replace("_", " "), Counter())[outcome] += 1

    def table(self) -> str:
        """Counts by file of the suite, in Markdown."""
        columns = ("passed", "failed", "numpy", "skipped")
        lines = ["| tests of | passed | failed | as NumPy does it | skipped |", "|---|---:|---:|---:|---:|"]
        total: Counter[str] = Counter()
        for file, counts in sorted(self.counts.items()):
            total += counts
            lines.append(f"| {file} | " + " | ".join(str(counts[each]) for each in columns) + " |")
        lines.append("| **all** | " + " | ".join(f"**{total[each]}**" for each in columns) + " |")
        return "\n".join(lines)


# --- the plug-in, which each of pytest-xdist's processes loads by the name of this module


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--markdown", action="store_true", help="print a table of the results")


def pytest_configure(config: Any) -> None:
    backend = os.environ["XFERLIB_BACKEND"]
    if backend == "torch":
        stack = ExitStack()
        stack.enter_context(importlib.import_module(MODULES["torch"]).numpy_operators())
        config.add_cleanup(stack.close)
    config.pluginmanager.register(Suite(backend), "xferlib-suite")


def pytest_terminal_summary(terminalreporter: Any, config: Any) -> None:
    if config.getoption("--markdown"):
        terminalreporter.write_line(config.pluginmanager.get_plugin("xferlib-suite").table())


def main(arguments: list[str]) -> int:
    """Run the suite; returns pytest's exit status."""
    if not arguments or arguments[0].startswith("-"):
        print(__doc__)
        return 2
    suite = Path(arguments.pop(0)).resolve()
    if not (suite / "array_api_tests").is_dir():
        print(f"{suite} is no checkout of array-api-tests", file=sys.stderr)
        return 2
    backend = "sim"
    if "--backend" in arguments:
        position = arguments.index("--backend")
        backend = arguments[position + 1]
        del arguments[position : position + 2]
    os.environ |= {"XFERLIB_BACKEND": backend, "XFERLIB_SIM_IMPLICIT": "allow"}
    os.environ["ARRAY_API_TESTS_MODULE"] = MODULES.get(backend, OTHERS)
    os.chdir(suite)
    sys.path[:0] = [str(suite), str(ROOT)]
    options = ["-p", "tools.array_api_suite", "-p", "no:cacheprovider", "--disable-deadline", "-q"]
    if not any(each.startswith("array_api_tests") for each in arguments):
        options.append("array_api_tests")
    return int(pytest.main([*options, *arguments]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
