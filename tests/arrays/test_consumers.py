"""Published code for the Array API on arrays whose functions are xferlib's: array-api-extra, SciPy and scikit-learn."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests.arrays.conftest import Space
from tests.needed import need
from tests.processes import printed
from xferlib.sim import ImplicitCopyError
from xferlib.testing import load_backend

ROOT = Path(__file__).parents[2]
X = np.array([[3.0, 1.0, 2.0], [np.nan, 5.0, 4.0]])
Y = np.arange(12.0).reshape(3, 4)
I = np.array([3, 1, 1, 2])  # noqa: E741 - integers

Call = Callable[[Any, Callable[[Any], Any], Any], Any]
EXTRA: dict[str, Call] = {
    "angle": lambda f, put, xp: f(put(Y + 1j * Y)),
    "apply_where": lambda f, put, xp: f(put(Y) > 3, (put(Y),), lambda a: a * 2, lambda a: a - 1),
    "argpartition": lambda f, put, xp: xp.take(put(I), f(put(I), 2)[2:3]),
    "at": lambda f, put, xp: f(put(Y.copy()))[1:, 0].add(put(np.array([5.0, 6.0]))),
    "atleast_nd": lambda f, put, xp: f(put(I), ndim=3, xp=xp),
    "cov": lambda f, put, xp: f(put(Y)),
    "create_diagonal": lambda f, put, xp: f(put(I), offset=1, xp=xp),
    "deg2rad": lambda f, put, xp: f(put(Y)),
    "isclose": lambda f, put, xp: f(put(Y), put(Y + 1e-12)),
    "isin": lambda f, put, xp: f(put(I), put(I[:2])),
    "kron": lambda f, put, xp: f(put(Y), put(Y[:2])),
    "lazy_apply": lambda f, put, xp: f(lambda a: a * 2, put(Y)),
    "nan_to_num": lambda f, put, xp: f(put(X), fill_value=7.0),
    "nanmax": lambda f, put, xp: f(put(X), axis=0),
    "nanmean": lambda f, put, xp: f(put(X), axis=0),
    "nansum": lambda f, put, xp: f(put(X), axis=0),
    "nunique": lambda f, put, xp: f(put(I)),
    "one_hot": lambda f, put, xp: f(put(I), 5),
    "pad": lambda f, put, xp: f(put(Y), ((1, 0), (2, 1)), constant_values=3.0),
    "partition": lambda f, put, xp: f(put(I), 2)[2:3],
    "setdiff1d": lambda f, put, xp: f(put(I), put(np.array([1]))),
    "sinc": lambda f, put, xp: f(put(Y)),
    "triu_indices": lambda f, put, xp: f(3, xp=xp)[1],
    "union1d": lambda f, put, xp: f(put(I), put(np.array([7, 1]))),
    "unravel_index": lambda f, put, xp: f(put(I), (2, 3))[1],
}  # fmt: skip
READS = ("nanmax",)
"""Functions that ask for the values of an array, which the simulator refuses."""


@pytest.mark.parametrize("name", EXTRA)
def test_a_function_of_array_api_extra(space: Space, name: str) -> None:
    extra = pytest.importorskip("array_api_extra")
    function = getattr(extra, name, None)
    if function is None:
        pytest.skip(f"array-api-extra {extra.__version__} has no {name}")
    expected = np.asarray(EXTRA[name](function, lambda x: x, np))
    if space.name == "sim" and name in READS:
        with pytest.raises(ImplicitCopyError):
            EXTRA[name](function, space.put, space.xp)
        return
    found = EXTRA[name](function, space.put, space.xp)
    there = np.asarray(found) if isinstance(found, int) else space.get(found)
    np.testing.assert_allclose(there, expected, rtol=1e-12)


@pytest.mark.parametrize("name", EXTRA)
def test_a_function_of_array_api_extra_over_torchs_namespace(name: str) -> None:
    extra, torch = pytest.importorskip("array_api_extra"), pytest.importorskip("torch")
    function: Any = getattr(extra, name, None)
    if function is None or "xp" not in inspect.signature(function).parameters:
        pytest.skip(f"array-api-extra {extra.__version__} takes no namespace for {name}")
    xp = xl.get_array_module(torch.ones(1))
    put = lambda x: xl.to_device(x, backend="torch")
    found = EXTRA[name](functools.partial(function, xp=xp), put, xp)
    there = np.asarray(found) if isinstance(found, int) else xl.to_host(found)
    np.testing.assert_allclose(there, np.asarray(EXTRA[name](function, lambda x: x, np)), rtol=1e-12)


ON_THE_HOST = ("special.gammaln", "stats.ttest_ind", "metrics.roc_auc_score")
"""Functions that SciPy and scikit-learn compute by NumPy's arrays alone."""
WATCHED = (
    "stats.zscore", "fft.rfftn", "signal.fftconvolve", "special.logsumexp", "integrate.trapezoid", "cluster.vq.whiten",
    "spatial.Rotation.apply", "metrics.rbf_kernel", "PolynomialFeatures", "PCA", "Ridge",
)  # fmt: skip
"""Functions that never ask for a value, so that the simulator watches them from beginning to end."""


@pytest.mark.parametrize("backend", ["sim", "bare", "pycuda"])
@pytest.mark.parametrize("library", ["scipy", "sklearn"])
def test_functions_of_scipy_and_scikit_learn(plugins: object, library: str, backend: str) -> None:
    """Optional: where they are installed."""
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    need(backend)
    if backend == "pycuda" and load_backend(backend).function_library is None:
        pytest.skip(load_backend(backend).capabilities.why["function_library"])
    output = printed("-m", "tests.arrays.published", library, backend, cwd=ROOT, SCIPY_ARRAY_API="1")
    found: dict[str, str] = json.loads(output.splitlines()[-1])
    if backend == "sim":
        assert set(found.values()) <= {"same", "ImplicitCopyError"}
        assert {found[name] for name in WATCHED if name in found} == {"same"}
        return
    assert {name: kind for name, kind in found.items() if kind != "same"} == {
        name: "UnsupportedArrayError" for name in ON_THE_HOST if name in found
    }
