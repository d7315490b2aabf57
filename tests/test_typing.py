"""The public names as type checkers see them: misspelt ones are errors, arrays have the class of their backend."""

from __future__ import annotations

import importlib.util
import inspect
import itertools
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest

import xferlib as xl
from tests.needed import need
from tests.processes import run

ROOT = Path(__file__).parents[1]
PROGRAM = ROOT / "tests" / "typed_program.py"

CONFIG = """
[mypy]
strict = True
[mypy-torch.*,cupy.*,pycuda.*]
ignore_missing_imports = True
follow_imports = skip
"""
"""A user's, but that it does not read all of torch, which takes long."""

checkout = pytest.mark.skipif(not (ROOT / "tools").is_dir(), reason="the tools are not beside the tests")
has_mypy = pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")


@has_mypy
def test_types_and_errors_of_a_program_are_those_that_its_comments_name(tmp_path: Path) -> None:
    """``# is T`` after a `reveal_type`, ``# error: code`` where mypy must complain, and nothing else."""
    config = tmp_path / "mypy.ini"
    config.write_text(CONFIG)
    done = run("-m", "mypy", "--config-file", str(config), "--cache-dir", str(tmp_path), str(PROGRAM), cwd=ROOT)
    found = {}
    for line, what in re.findall(r"typed_program\.py:(\d+): (error.*|note: Revealed.*)", done.stdout):
        revealed, code = re.search(r'type is "(.*)"', what), re.search(r"error: .*\[([\w-]+)\]$", what)
        found[int(line)] = f"is {revealed[1]}" if revealed else f"error: {code[1]}" if code else what
    marked = enumerate(PROGRAM.read_text(encoding="utf-8").splitlines(), 1)
    expected = {line: text.partition("  # ")[2] for line, text in marked if re.search("  # (is|error:) ", text)}
    assert found == expected, done.stdout + done.stderr


@checkout
@pytest.mark.skipif(shutil.which("pyright") is None, reason="pyright is not installed (npm install --global pyright)")
def test_pyright_finds_the_same_in_the_program_and_nothing_in_the_examples() -> None:
    examples = sorted(map(str, (ROOT / "examples").glob("*.py")))
    command = ["pyright", "--outputjson", "--pythonpath", sys.executable, str(PROGRAM), *examples]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    told = json.loads(done.stdout)["generalDiagnostics"]
    marked = dict(enumerate(PROGRAM.read_text(encoding="utf-8").splitlines(), 1))
    wrong = [
        (Path(each["file"]).name, each["range"]["start"]["line"] + 1) for each in told if each["severity"] == "error"
    ]
    assert sorted(wrong) == [(PROGRAM.name, line) for line, text in marked.items() if "  # error: " in text], (
        done.stdout
    )
    for each in told:
        if each["severity"] == "information":
            kind = each["message"].rpartition(' is "')[2].rstrip('"')
            expected = marked[each["range"]["start"]["line"] + 1].partition("  # is ")[2]
            assert re.sub(r"\b\w+\.", "", expected) == kind


def test_only_public_names_complete() -> None:
    for module in (xl, xl.sim):
        assert [name for name in dir(module) if not name.startswith("__")] == sorted(module.__all__)
    names = set(dir(xl.zeros(3, backend="sim")))
    assert {"shape", "sum", "reshape", "to_device"} <= names
    assert not {"allocation", "info", "memory", "spans"} & names


def test_transfers_name_their_result_in_annotations() -> None:
    transfer: xl.Transfer[object] = xl.to_device_async([1, 2], backend="numpy")
    assert str(xl.Transfer[int]).endswith("Transfer[int]")
    transfer.result()


SAME: dict[str, Any] = {"T": lambda x: (x.T, x[:1].T), "mT": lambda x: (x.mT, x[None].mT)}


@pytest.mark.parametrize("name", ["numpy", "torch", "sim", "cupy", "pycuda"])
def test_members_of_the_protocol_give_the_same_on_every_backend(name: str) -> None:
    need(name)
    members = {each for each in vars(xl.DeviceArray) if not each.startswith("_")}
    array = xl.ones((2, 2), backend=name)
    assert [each for each in (*members, "__len__", "__matmul__") if not hasattr(array, each)] == []
    assert members - {"shape", "dtype", "ndim", "nbytes", "itemsize", "device"} == set(SAME)
    for dtype, (each, use) in itertools.product(
        ("bool", "uint8", "int32", "float32", "float64", "complex64"), SAME.items()
    ):
        host = np.array([[1.0, 4.0, 2.0], [3.0, 0.5, 6.0]]).astype(dtype)
        expected = [np.asarray(value) for value in use(host)]
        found = [xl.to_host(value) for value in use(xl.to_device(host, backend=name))]
        for one, other in zip(found, expected, strict=True):
            assert one.shape == other.shape, each
            assert one.dtype == other.dtype, each
            assert np.array_equal(one, other), each


@pytest.mark.parametrize("backend", ["numpy", "sim"])
def test_the_type_of_namespaces_lists_what_they_have(backend: str) -> None:
    """Each function with the parameters of the one that xferlib wrote; NumPy's own have the same names."""
    xp: Any = xl.get_array_module(xl.zeros(1, backend=backend))
    parts = get_type_hints(xl.ArrayModule)
    for listed, found in ((xl.ArrayModule, xp), (parts["linalg"], xp.linalg), (parts["fft"], xp.fft)):
        functions = {name: each for name, each in vars(listed).items() if inspect.isfunction(each) and name[0] != "_"}
        assert functions.keys() <= set(dir(found))
        if backend == "sim":
            assert functions.keys() == {n for n in dir(found) if inspect.isfunction(getattr(found, n)) and n[0] != "_"}
            for name, each in functions.items():
                expected = [(p.name, p.kind) for p in inspect.signature(getattr(found, name)).parameters.values()]
                own = [(p.name, p.kind) for p in inspect.signature(each).parameters.values()][1:]
                assert [p for p in own if p[1] != 0] == [p for p in expected if p[1] != 0], name
                assert len(own) == len(expected), name


def test_an_array_is_an_instance_of_the_type() -> None:
    x = np.ones(3)
    for each in (x, xl.zeros(3, backend="sim")):
        assert xl.is_array(each)
        assert isinstance(each, xl.DeviceArray)
    for other in ([1.0], 2.5, np.float64(2.5), None, xl.Stream):
        assert not xl.is_array(other)
        assert not isinstance(other, xl.DeviceArray)
    assert issubclass(np.ndarray, xl.DeviceArray)
    assert not issubclass(list, xl.DeviceArray)
    with xl.use_backend("sim"):
        assert xl.namespace() is xl.get_array_module(xl.zeros(1))
