"""The example programs of CuPy and PyCUDA, ported: their results on every backend, and their length."""

from __future__ import annotations

import ast
import io
import os
import re
import tokenize
from pathlib import Path
from typing import NamedTuple

import pytest

import xferlib as xl
from tests.distributed import launching
from tests.running import run_example

FOLDER = Path(__file__).parents[1] / "examples" / "peers"


class Port(NamedTuple):
    """A program, the lines of code of its original, the last line that it writes, and arguments for a short run."""

    name: str
    original: int
    result: str
    arguments: str = ""


# Lines of the originals at CuPy 15's and PyCUDA 2026's sources, counted as below; where one program stands for several,
# those that it does the work of are added, and the shortest of those that do the same is taken.
PORTS = [
    Port("cupy/black_scholes", 106, r"mean call 2\.9827, mean put 31\.2099", "10000"),
    Port("cupy/builtin_vectors", 36, r"8 vectors: as expected"),
    Port("cupy/cg", 60, r"\w+:\w+(:\d+)?: \d+\.\d\d s, off by \d\.\de-(0[6789]|1\d)", "40"),
    Port("cupy/complex_struct", 91, r"struct of 80 bytes: the sum of its members is 55"),
    Port("cupy/gmm", 142, r"test accuracy: 92\.2 %", "2000"),
    Port("cupy/kmeans", 111, r"by_kernels: centers \[\[-1.07, -1.06\], \[1.03, 1.04\]\], sizes \[1992, 2008\]", "2000"),
    Port("cupy/monte_carlo", 119, r"20 options, 5000 samples: standard deviation of the error 0\.0359", "20 5000"),
    Port("cupy/monte_carlo_multigpu", 74, r"\d device.s., 3000 .*: standard deviation of the error 0\.0\d+", "20 3000"),
    Port("cupy/packed_matrix", 72, r"8 matrices of double: as expected"),
    Port("cupy/sgemm", 66 + 19 + 149, r"100 x 150 times 150 x 70: the two agree to 0\.001", "100 70 150"),
    Port("cupy/stream_event", 24, r"norm 3\.741657 on each stream"),
    Port("cupy/stream_libraries", 16 + 15 + 9 + 15 + 17 + 15, r"(sort|fft): the same on three streams"),
    Port("cupy/stream_map_reduce", 34, r"\d+\.\d ms; the sum is -383\.861"),
    Port("cupy/stream_memcpy", 35, r"both at a time: \d+\.\d\d ms"),
    Port("pycuda/cai_arrays", 19 + 15, r"doubled: numpy\.ndarray"),
    Port("pycuda/demo", 34, r" \[-4\.6500616 +-0\.43758333 -2\.491822 +-1\.4645348 \]\]"),
    Port("pycuda/demo_cdp_print", 90, r"42 blocks were launched, 40 of them by blocks", "3"),
    Port("pycuda/demo_elementwise", 21, r"off by 2\.6e-06"),
    Port("pycuda/demo_meta", 42, r"norm of the difference: 0\.0"),
    Port("pycuda/demo_struct", 62, r"doubled the second: \[2\.0, 4\.0, 6\.0, 0\.0, 16\.0\]"),
    Port("pycuda/dump_properties", 14, r"(\w+:\w+(:\d+)?: .*|  clock_rate: \d+)"),
    Port("pycuda/fill_gpu_with_nans", 20, r"filled 16 MiB with NaNs", "16"),
    Port("pycuda/hello_gpu", 19, r"largest difference: 0\.0"),
    Port("wiki/arithmetic_example", 37, r"1\.3457320928573608 became 0\.005277380812913179"),
    Port("wiki/convolution", 274, r"120 x 90, radius 8: off by [12]\.\de-07"),
    Port("wiki/demo_complex", 21, r"off by 1\.3e-06"),
    Port("wiki/distance_element_wise3d", 40, r"the farthest point is 200\.72 away"),
    Port("wiki/fft2d", 61, r"256 x 256 in 4 bands: off by [0-9]e[+-]\d\d of the largest"),
    Port("wiki/function_templates", 28, r"incremented: \[1\.6369617 1\.2697867 1\.0409735 1\.0165277 1\.8132702\]"),
    Port("wiki/game_of_life", 68, r"6791 live cells after 20 turns"),
    Port("wiki/gpu_scalar_mult", 87, r"2\*\*20 elements: \d\.\d+ ms"),
    Port("wiki/kernel_concurrency", 60, r"data set 1: complete after \d+\.\d+ ms", "2"),
    Port("wiki/mandelbrot", 112, r"3[01]\.\d% within; \d+ points differ"),
    Port("wiki/manhattan_distance", 37, r" \[-4 -4 -4 -4 -4 -4 -4\]\]"),
    Port("wiki/matrix_transpose", 149, r"128 x 144: \d+\.\d GB/s", "128"),
    Port("wiki/matrixmul_simple", 54, r"off by \d\.\de-0[78]"),
    Port("wiki/matrixmul_tiled", 82, r"l2 norm of the difference from NumPy: \d\.\de[+-]\d\d"),
    Port("wiki/measure_random", 48, r" +4096 +\d+\.\d +\d+\.\d", "12"),
    Port("wiki/multiple_threads", 44, r"\w+:\w+(:\d+)?: 7\.0"),
    Port("wiki/rotate", 78, r".*60, 80.* became \(126, 144\); 42\.2% of it lie outside"),
    Port("wiki/select_to_list", 98, r"6537 of 65536 chosen"),
    Port("wiki/simple_rgb2gray", 32, r"mean brightness 127\.57"),
    Port("wiki/simple_speed_test", 84, r"NumPy: \d\.\d+ s, \[0\.1688525 0\.1688525 0\.1688525\]"),
    Port("wiki/sparse_solve", 59, r"64 unknowns, \d\d steps, residual \d\.\de-\d\d", "8"),
    Port("wiki/thrust_interop", 60, r"sorted: \[0\.02426451 0\.03096056 0\.0311591 \] to 0\.9857637882232666"),
    Port("wiki/using_printf", 11, r"(I am thread 3\.3 of block 1\.1)?"),
]
BY_MPI = Port("cupy/mpi4py_multiple_devices", 32, "")
"""Run by two processes."""

LIBRARIES = sorted(xl.available_backends().keys() - (set() if os.environ.get("XFERLIB_TEST_LONG") else {"numpy"}))
"""By default without NumPy, which computes what the simulator's arrays and kernels do."""


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("port", PORTS, ids=lambda port: port.name)
def test_a_port_has_the_result_of_its_original(
    port: Port, library: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    last = run_example(FOLDER / f"{port.name}.py", library, port.arguments.split(), monkeypatch, capsys)
    assert re.fullmatch(port.result, last), last


def test_two_processes_exchange_their_arrays_by_mpi() -> None:
    done = launching.job("mpi", 2, str(FOLDER / "cupy" / "mpi4py_multiple_devices.py"))
    assert done.stdout.count("of 2 on") == 2, done.stdout + done.stderr


def code_lines(text: str) -> int:
    """Lines that hold code: no blank ones, comments or docstrings."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            lines -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    rows = text.splitlines()
    return sum(1 for number in lines if number <= len(rows) and rows[number - 1].strip())


@pytest.mark.parametrize("port", [*PORTS, BY_MPI], ids=lambda port: port.name)
def test_a_port_is_shorter_than_its_original(port: Port) -> None:
    assert code_lines((FOLDER / f"{port.name}.py").read_text(encoding="utf-8")) < port.original


def test_every_port_is_run() -> None:
    found = {path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.py")}
    assert found == {port.name for port in PORTS} | {BY_MPI.name}
