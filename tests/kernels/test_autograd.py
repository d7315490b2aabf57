"""Gradients in torch: checked numerically, against torch's own, and absent where no input requires them."""

import numpy as np
import pytest

from xferlib.errors import KernelTypeError
from xferlib.kernels import elementwise
from xferlib.kernels.functions import CALLS
from xferlib.kernels.python_frontend import NAMESPACE

torch = pytest.importorskip("torch")
gradcheck = torch.autograd.gradcheck

DOMAINS = {"arccosh": (1.2, 3), "log": (0.2, 3), "log2": (0.2, 3), "log10": (0.2, 3), "rsqrt": (0.2, 3),
           "cbrt": (0.2, 3), "log1p": (-0.5, 2)}  # fmt: skip


def _tensor(low, high, shape=(7,), seed=0):
    values = np.random.default_rng(seed).uniform(low, high, shape)
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("name", CALLS)
def test_every_function(name):
    call = getattr(NAMESPACE, name)
    kernel = elementwise(lambda x: call(x), name=name)
    assert gradcheck(kernel, (_tensor(*DOMAINS.get(name, (-0.8, 0.8))),))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x + y * x - y,
        lambda x, y: x / y,
        lambda x, y: np.maximum(x, y) * np.minimum(x, y),
        lambda x, y: abs(x) + np.sqrt(y),
        lambda x, y: np.where(x > y, x * y, x - y),
        lambda x, y: y**x,
        lambda x, y: np.arctan2(x, y),
        lambda x, y: np.hypot(x, y),
        lambda x, y: np.fmod(x, y),
        lambda x, y: np.floor(x) * y,
        lambda x, y: np.logaddexp(x, y),
        lambda x, y: NAMESPACE.fma(x, y, x),
    ],
)
def test_operations(function):
    assert gradcheck(elementwise(function), (_tensor(0.3, 2, seed=1), _tensor(0.3, 2, seed=2)))


def test_second_derivative():
    kernel = elementwise(lambda x, y: np.exp(x) * y * y)
    assert torch.autograd.gradgradcheck(kernel, (_tensor(-1, 1), _tensor(-1, 1, seed=3)))


def test_broadcast_operands_get_summed_gradients():
    kernel = elementwise(lambda x, y, z: x * y + z)
    assert gradcheck(kernel, (_tensor(0, 1, (3, 4)), _tensor(0, 1, (4,)), _tensor(0, 1, (3, 1))))


def test_snippet_and_several_outputs():
    kernel = elementwise("T x, T y", "T z, T w", "if (x > y) { z = x * x; w = x * y; } else { z = y; w = 1; }")
    assert gradcheck(kernel, (_tensor(0, 1, seed=4), _tensor(0, 1, seed=5)))


def test_keyword_scalar_and_integer_output():
    @elementwise
    def kernel(x, *, alpha=2.0):
        return x * x * alpha, x > 0.5

    x = _tensor(0, 1)
    value, is_more = kernel(x, alpha=3.0)
    assert not is_more.requires_grad
    value.sum().backward()
    torch.testing.assert_close(x.grad, 6 * x.detach(), rtol=2**-51, atol=0)  # two roundings


def test_no_gradient_no_graph():
    kernel = elementwise(lambda x: x * x)
    plain = torch.ones(3)
    assert kernel(plain).grad_fn is None
    x = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        assert kernel(x).grad_fn is None
    assert kernel(x).grad_fn is not None  # no_grad() must not be remembered
    assert kernel(x.detach()).grad_fn is None


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: elementwise(lambda x: x * x)(x, out=torch.empty(3)), "out="),
        (lambda x: elementwise("raw T x, T y", "T z", "z = x[i] * y")(x, x), "raw"),
        (lambda x: elementwise(lambda x: np.copysign(x, -1.0))(x).sum().backward(), "copysign"),
        (lambda x: elementwise(lambda x: x * 2)(x.to(torch.complex64)).sum().abs().backward(), "complex"),
    ],
)
def test_refused(call, words):
    with pytest.raises(KernelTypeError, match=words):
        call(torch.ones(3, requires_grad=True))
