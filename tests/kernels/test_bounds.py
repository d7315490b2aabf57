"""The published bounds hold: here, on every code path of NumPy, on every device; and so do the figures kept."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.kernels import targets
from tools import kernel_ulp, ulp_oracle
from xferlib.kernels.functions import guarantee

ROOT = Path(__file__).parent.parent.parent
ROWS = kernel_ulp.rows()

pytestmark = pytest.mark.skipif(not ulp_oracle.IS_PRECISE, reason="long double is no wider than float64 here")


@pytest.mark.parametrize("row", ROWS, ids="-".join)
@pytest.mark.parametrize("name", targets.NAMES)
def test_every_bound_holds_on_every_device(row, name):
    target = targets.target(name)
    function, dtype = row
    inputs = ulp_oracle.inputs_of(function, dtype, 10_000, seed=3)
    actual = target.get(kernel_ulp.kernel_of(function)(*map(target.put, inputs)))
    ulp, place = ulp_oracle.worst(function, inputs, actual)
    bound = guarantee(function, dtype).bound_ulp
    assert bound is not None
    assert ulp <= bound, place


PATHS = kernel_ulp.paths()


@pytest.mark.parametrize(
    "path",
    PATHS if os.environ.get("XFERLIB_TEST_LONG") else PATHS[-1:],
    ids=lambda path: path.replace(" ", "-") or "everything",
)
def test_every_bound_holds_on_every_path_of_numpy(path):
    environment = {**os.environ, "NPY_DISABLE_CPU_FEATURES": path, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tools.kernel_ulp", "--backend=numpy", "--count=4000", "--workers=0", "--seed=8"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, "\n".join(line for line in done.stdout.splitlines() if "FAIL" in line) + done.stderr


def test_every_row_has_a_figure_within_its_bound():
    figures = json.loads(kernel_ulp.FIGURES.read_text())
    assert {(name, dtype) for dtype, found in figures["x86-64"].items() for name in found} == set(ROWS)
    for column, dtypes in figures.items():
        for dtype, found in dtypes.items():
            for name, figure in found.items():
                assert figure["ulp"] <= guarantee(name, dtype).bound_ulp, (column, name, dtype)


def precisely(mpmath, name, is_complex, operands):
    """The function in the working precision of mpmath."""
    if name in ("divide", "reciprocal"):
        return operands[0] / operands[1] if name == "divide" else 1 / operands[0]
    pairs = {"power": mpmath.power, "arctan2": mpmath.atan2, "hypot": mpmath.hypot}
    if name in pairs:
        return pairs[name](*operands)
    if is_complex:
        from tests.kernels.test_complex import exact

        return exact(name, operands[0])
    from tools.kernel_hard_cases import exact as exact_real

    return exact_real(mpmath, name, operands[0])


@pytest.mark.parametrize("row", ROWS, ids="-".join)
def test_the_oracle_is_right(row):
    mpmath = pytest.importorskip("mpmath")
    name, dtype = row
    inputs = ulp_oracle.inputs_of(name, dtype, 28, seed=4)
    info = np.finfo(dtype)
    is_complex = np.dtype(dtype).kind == "c"
    limit = 1e4 if is_complex and name in ulp_oracle.EXPONENTIALS + ulp_oracle.CIRCULAR else np.inf
    with np.errstate(all="ignore"), mpmath.workprec(2600):
        found = ulp_oracle.exact(name, *inputs)
        for place, operands in enumerate(zip(*inputs, strict=True)):
            value = (found[0][place], found[1][place]) if is_complex else (found[place], np.longdouble(0))
            size = np.hypot(*value)
            is_plain = size <= info.max and all(abs(each) < limit for each in operands)
            if not is_plain or all(each == 0 for each in operands):  # mpmath has no -0
                continue
            numbers = [mpmath.mpmathify(each.item()) for each in operands]
            unit = mpmath.mpf(float(ulp_oracle.spacing(size, info.dtype)))
            real, imag = (mpmath.mpf(np.format_float_scientific(each, precision=25)) for each in value)
            away = abs(mpmath.mpc(real, imag) - precisely(mpmath, name, is_complex, numbers)) / unit
            assert away < 0.02, (operands, value)


def test_a_result_beyond_its_bound_is_found():
    inputs = ulp_oracle.inputs_of("tanh", "float64", 1000, seed=5)
    exact = ulp_oracle.exact("tanh", *inputs).astype(np.float64)
    exact[500] = np.nextafter(np.nextafter(exact[500], 2), 2)
    ulp, place = ulp_oracle.worst("tanh", inputs, exact)
    assert 1.5 <= ulp <= 2.5
    assert place == float(inputs[0][500]).hex()


def test_a_nan_or_an_infinity_too_many_is_found():
    inputs = [np.array([0.5, 0.25])]
    assert ulp_oracle.worst("exp", inputs, np.array([np.nan, np.exp(0.25)]))[0] == np.inf
    assert ulp_oracle.worst("exp", inputs, np.array([np.inf, np.exp(0.25)]))[0] > 1e15
