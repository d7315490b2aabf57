"""The namespace whose functions give the same bits on every backend."""

import inspect
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import xferlib as xl
from tests.kernels.bits import same_bits
from xferlib.errors import MixedBackendsError, UnsupportedArrayError

BACKENDS = [name for name in ("torch", "sim", "cupy", "pycuda") if xl.available_backends()[name].is_available]
EXACT = xl.get_exact_module()
FUNCTIONS = [each for each in dir(EXACT) if each[0] != "_" and inspect.isfunction(getattr(EXACT, each))]
FUNCTIONS = [name for name in FUNCTIONS if getattr(EXACT, name) is not getattr(np, name) and name != "astype"]
FUNCTIONS.append("linalg.vector_norm")


def find(xp, name):
    for part in name.split("."):
        xp = getattr(xp, part)
    return xp


def outcome(call):
    try:
        return xl.to_host(call())
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    function=st.sampled_from(FUNCTIONS),
    dtype=st.sampled_from(["f4", "f8", "f2", "i4", "i8", "c8", "c16", "?"]),
    axis=st.sampled_from([None, 0, 1]),
    seed=st.integers(0, 99),
)
def test_the_bits_are_those_of_numpys_arrays(backend, function, dtype, axis, seed):
    parameters = [*inspect.signature(find(EXACT, function)).parameters]
    arity, is_along = 1 + ("x2" in parameters), "axis" in parameters
    rng = np.random.default_rng(seed)
    x, y = ((3 * rng.standard_normal((7, 33)) + (1j if dtype[0] == "c" else 0)).astype(dtype) for _ in range(2))
    options = {"axis": axis or 0 if "include_initial" in parameters else axis} if is_along else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        a, b = (xl.to_device(each, backend=backend) for each in (x, y))
        found = outcome(lambda: find(xl.get_exact_module(a), function)(*[a, b][:arity], **options))
        expected = outcome(lambda: find(EXACT, function)(*[x, y][:arity], **options))
    assert found == expected if isinstance(expected, type) else same_bits(found, expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_everything_else_is_the_librarys(backend):
    x = xl.to_device(np.arange(6.0), backend=backend)
    exact, own = xl.get_exact_module(x), xl.get_array_module(x)
    assert exact.reshape is own.reshape
    assert exact.linalg.matmul is own.linalg.matmul
    assert {"reshape", "exp", "linalg"} <= {*dir(exact)}
    assert xl.get_exact_module(x, 2.0) is exact
    with pytest.raises(AttributeError):
        getattr(exact, "no_such" + "_name")
    with pytest.raises(MixedBackendsError):
        exact.exp(np.ones(2))
    with pytest.raises(MixedBackendsError):
        xl.get_exact_module(x, np.ones(2))


def test_numbers_are_numpys_and_lists_are_refused():
    assert xl.get_exact_module(1.0) is xl.get_exact_module(np.ones(1)) is xl.get_exact_module()
    with pytest.raises(UnsupportedArrayError):
        xl.get_exact_module([1.0])


def test_torch_follows_the_functions():
    torch = pytest.importorskip("torch")
    x = torch.nn.Parameter(torch.tensor([0.5, 1.5]))
    xp: Any = xl.get_exact_module(x)
    xp.sum(xp.exp(x)).backward()
    assert same_bits(x.grad.numpy(), xp.exp(x).detach().numpy())
