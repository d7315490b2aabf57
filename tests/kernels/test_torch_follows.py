"""Torch follows its tensors: changes are counted, gradients are right or refused, transforms and tracers too."""

from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests.kernels.bits import same_bits
from xferlib.errors import KernelTypeError, LayoutError, UnsupportedArrayError, UnsupportedError, XferError
from xferlib.kernels import elementwise, raw_module, reduction, reductions
from xferlib.kernels.functions import CALLS
from xferlib.kernels.python_frontend import NAMESPACE

torch = pytest.importorskip("torch")

fw = torch.autograd.forward_ad

twice = elementwise("float *x", "x[i] = 2 * x[i]", name="twice")
into = elementwise("const float *x, float *z", "z[i] = 3 * x[i]", name="into")
square = elementwise("T x", "T z", "z = x * x", name="square")
SOURCE = """
extern "C" __global__ void triple(float *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= 3;
}"""


def _triple(x, n):
    x[:n] *= 3


triple = raw_module(SOURCE).get_function("triple", cpu=_triple)


@pytest.fixture(params=["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"])
def device(request):
    return request.param


def _mapped(out):
    xl.stream_map(lambda x: x, np.ones(3, np.float32), chunk_rows=2, out=out)


WRITES = {
    "in place": twice,
    "a C parameter": lambda b: into(torch.ones_like(b), b),
    "an output by position": lambda b: square(torch.ones_like(b), b),
    "out=": lambda b: elementwise(lambda x: x + 1)(torch.ones_like(b), out=b),
    "out= of several": lambda b: elementwise(lambda x: (x, x))(torch.ones_like(b), out=(torch.empty_like(b), b)),
    "a reduction": lambda b: reductions.sum(torch.ones(2, 3, device=b.device), axis=0, out=b),
    "a raw kernel": lambda b: triple(1, 32, (b, 3)),
    "to_device": lambda b: xl.to_device(np.ones(3, np.float32), out=b),
    "to_device, converting": lambda b: xl.to_device(np.ones(3), out=b, dtype=np.float32),
    "to_device, of a tensor": lambda b: xl.to_device(torch.ones_like(b), out=b),
    "to_device, of a tensor, converting": lambda b: xl.to_device(torch.ones_like(b).double(), out=b, dtype="float32"),
    "to_device_async": lambda b: xl.to_device_async(np.ones(3, np.float32), out=b).result(),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_every_write_is_counted(write, device):
    w, b = torch.ones(3, device=device, requires_grad=True), torch.ones(3, device=device)
    for _ in range(3):  # the first call is checked, the second looked up, the third is like the last one
        y = (w * b).sum()
        write(b)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()


def test_a_write_of_stream_map_is_counted():
    w, b = torch.ones(3, requires_grad=True), torch.ones(3)
    y = (w * b).sum()
    with xl.use_backend("numpy"):
        _mapped(b)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


@pytest.mark.parametrize("write", [*WRITES.values(), _mapped], ids=[*WRITES, "stream_map"])
def test_a_tensor_that_requires_gradients_is_not_written(write):
    leaf = torch.zeros(3, requires_grad=True)
    for tensor in (leaf, leaf * 1, leaf.view(3)):
        with pytest.raises((LayoutError, KernelTypeError), match=r"no_grad\(\)"), xl.use_backend("torch"):
            write(tensor)
    assert leaf.tolist() == [0, 0, 0]
    with torch.no_grad(), xl.use_backend("torch"):
        before = leaf._version
        write(leaf)
        assert leaf._version > before
    with pytest.raises((LayoutError, KernelTypeError)), xl.use_backend("torch"):  # no_grad() is not remembered
        write(leaf)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_an_inference_tensor_is_written_in_inference_mode_alone(write):
    with torch.inference_mode():
        tensor = torch.zeros(3)
        write(tensor)
    with pytest.raises(LayoutError, match="inference_mode"):
        write(tensor)


def test_an_input_is_not_counted():
    x = torch.ones(3)
    square(x)
    into(x, torch.empty(3))
    reductions.sum(x)
    xl.to_host(x)
    assert x._version == 0


def test_a_parameter_that_is_written_has_no_gradient():
    with pytest.raises(KernelTypeError, match="does not write to its inputs"):
        into(torch.ones(3, requires_grad=True), torch.empty(3))


# --- reductions


def _tensor(*shape, seed=0, low=0.5, high=2.0):
    return torch.tensor(np.random.default_rng(seed).uniform(low, high, shape), requires_grad=True)


@pytest.mark.parametrize("name", ["sum", "prod", "min", "max", "mean", "norm", "var"])
@pytest.mark.parametrize(("axis", "keepdims"), [(None, False), (1, False), ((0, 2), True)])
def test_gradients_of_ready_made_reductions(name, axis, keepdims):
    call = lambda x: getattr(reductions, name)(x, axis=axis, keepdims=keepdims)
    x = _tensor(1, 3, 2)
    assert torch.autograd.gradcheck(call, (x,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(call, (x,))
    assert same_bits(call(x).detach().numpy(), call(x.detach()).numpy())


def test_the_greatest_share_their_gradient():
    x = torch.tensor([1.0, 3, 3, 2], requires_grad=True)
    reductions.max(x).backward()
    assert x.grad.tolist() == [0, 0.5, 0.5, 0]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_gradients_of_narrow_floats(dtype):
    x = torch.ones(4, dtype=getattr(torch, dtype), requires_grad=True)
    reductions.mean(x).backward()
    assert x.grad.dtype == x.dtype
    assert x.grad.tolist() == [0.25] * 4


def test_gradients_of_no_elements():
    x = torch.zeros(0, 3, requires_grad=True)
    reductions.sum(x, axis=0).sum().backward()
    assert x.grad.shape == (0, 3)


def test_counts_and_positions_have_no_gradient():
    x = torch.ones(3, requires_grad=True)
    assert not reductions.argmax(x).requires_grad
    assert not reductions.any(x).requires_grad


_halving = reduction("T x", "T z", map_expr="x", reduce_expr="a + b / 2", post_map_expr="z = a", identity="0")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (_halving, "added, multiplied"),
        (lambda x: reductions.sum(x.to(torch.complex64)), "complex"),
        (lambda x: reductions.sum(x, out=torch.empty(())), "out="),
        (lambda x: triple(1, 32, (x, 3)), r"x\.detach\(\)"),
    ],
)
def test_a_function_without_a_gradient_is_refused(call, words):
    with pytest.raises(KernelTypeError, match=words):
        call(torch.ones(3, requires_grad=True))


def test_no_grad_is_not_remembered_by_reductions():
    x = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        assert not reductions.sum(x).requires_grad
    assert reductions.sum(x).requires_grad
    assert not reductions.sum(x.detach()).requires_grad


@pytest.mark.parametrize("arguments", [{}, {"exclusive": True}, {"segments": True}])
def test_no_grad_is_not_remembered_by_scans(device, arguments):
    scan = xl.scan("a + b", neutral="0")
    x = torch.ones(40, device=device, requires_grad=True)
    if "segments" in arguments:
        arguments = {"segments": torch.zeros(40, dtype=torch.bool, device=device)}
    for _ in range(2):
        with torch.no_grad():
            for _ in range(4):  # from the second call on C repeats it, where it may
                scan(x, **arguments)
                scan(x.detach(), **arguments)
        with pytest.raises(KernelTypeError, match=r"no_grad\(\)"):
            scan(x, **arguments)


# --- forward mode and transforms


def test_a_tangent_is_carried_on():
    x, t = torch.tensor([1.0, 2, 3]), torch.tensor([1.0, 0, 2])
    for _ in range(3):
        square(x)
        with fw.dual_level():
            dual = fw.make_dual(x, t)
            assert fw.unpack_dual(square(dual)).tangent.tolist() == [2, 0, 12]
            assert fw.unpack_dual(reductions.sum(dual)).tangent.item() == 3
            assert fw.unpack_dual(square(x)).tangent is None
            for write in (
                twice,
                lambda d: triple(1, 32, (d, 3)),
                lambda d: xl.to_device(np.ones(3, np.float32), out=d),
            ):
                with pytest.raises(XferError):
                    write(dual)


_kernel = elementwise(lambda x, y: x * x * y, name="kernel")


def test_transforms():
    x, y = _tensor(3, 4).detach(), _tensor(4, seed=1).detach()
    loss = lambda x, y: reductions.sum(_kernel(x, y))
    assert torch.equal(torch.func.grad(loss)(x[0], y), 2 * x[0] * y)
    assert torch.equal(torch.func.vmap(_kernel, in_dims=(1, 0))(x, y), _kernel(x, y).T)
    assert torch.equal(torch.func.vmap(loss, in_dims=(0, None))(x, y), reductions.sum(_kernel(x, y), axis=1))
    assert torch.equal(torch.func.vmap(torch.func.grad(loss), in_dims=(0, None))(x, y), 2 * x * y)
    primal, tangent = torch.func.jvp(lambda x: _kernel(x, y), (x,), (torch.ones_like(x),))
    assert torch.equal(primal, _kernel(x, y))
    assert torch.equal(tangent, 2 * x * y)
    assert torch.equal(torch.func.hessian(loss)(x[0], y), torch.diag(2 * y))
    assert torch.equal(torch.func.jacfwd(reductions.prod)(y), torch.func.jacrev(reductions.prod)(y))


def test_examples_cannot_share_the_number_of_an_element():
    numbered = elementwise("T x", "T z", "z = x + i")
    with pytest.raises(KernelTypeError, match="number of its element"):
        torch.func.vmap(numbered)(torch.zeros(2, 3))


@pytest.mark.parametrize(
    "call",
    [
        xl.to_host, xl.to_device, twice, lambda x: square(torch.ones(3), x), lambda x: triple(1, 32, (x, 3)),
        lambda x: xl.to_device(np.ones(3, np.float32), out=x),
        lambda x: reductions.sum(torch.ones(3), axis=(), out=x),
    ],
)  # fmt: skip
def test_a_tensor_without_memory_inside_a_transform_is_refused(call):
    with pytest.raises(XferError), xl.use_backend("torch"):
        torch.func.vmap(call)(torch.zeros(2, 3))


def test_batched_gradients_are_refused():
    x = torch.ones(3, requires_grad=True)
    y = square(x)
    with pytest.raises(UnsupportedArrayError, match="no memory of its own"):
        torch.autograd.grad(y, x, torch.eye(3), is_grads_batched=True)


def test_a_fake_tensor_is_refused():
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        fake = torch.ones(3)
    for call in (square, reductions.sum, xl.to_host):
        with pytest.raises(UnsupportedArrayError, match="FakeTensor"):
            call(fake)


@pytest.mark.filterwarnings("ignore")
def test_a_trace_of_torch_script_is_refused():
    square(torch.ones(3))
    square(torch.ones(3))
    for function in (lambda x: square(x), lambda x: reductions.sum(x)):
        with pytest.raises(UnsupportedError, match=r"torch\.jit\.trace"):
            torch.jit.trace(function, torch.ones(3))


# --- torch.compile


@pytest.mark.filterwarnings("ignore")
def test_compiled_functions_give_the_same_bits():
    def function(x, out):
        y = x.sin()
        square(y.detach(), out)
        return reductions.sum(_kernel(y, x) + 1) + out.sum()

    results = []
    for each in (function, torch.compile(function, backend="eager")):
        x, out = torch.arange(1.0, 4).requires_grad_(), torch.zeros(3)
        value = each(x, out)
        value.backward()
        results.append([value.detach().numpy(), x.grad.numpy(), out.numpy()])
        assert out._version
    assert all(same_bits(one, two) for one, two in zip(*results, strict=True))


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_function_in_one_piece_names_the_kernel():
    function = lambda x: reductions.sum(x.sin())
    with pytest.raises(Exception, match="xferlib|ReductionKernel"):
        torch.compile(function, backend="eager", fullgraph=True)(torch.ones(3))


def test_a_refused_map_counts_no_write():
    memory = torch.zeros(20, 2, dtype=torch.float64)
    before = memory._version
    with pytest.raises(LayoutError, match="shares memory"):
        xl.stream_map(lambda chunk: chunk, memory[:16], chunk_rows=4, out=memory[4:], devices="numpy:cpu")
    assert memory._version == before


def _flagged(kind, device):
    """A tensor whose elements are not in its memory, and the same elements in one where they are."""
    x = torch.arange(1, 13, device=device).to(torch.complex64).mul(1 + 2j)
    rows = x.reshape(3, 4)
    made = {
        "conj": lambda: x.conj(),
        "conj of a slice": lambda: x.conj()[::2],
        "conj of a transpose": lambda: rows.mH,
        "conj of a broadcast": lambda: x[:4].conj().expand(3, 4),
        "imag of conj": lambda: x.conj().imag,
        "conj of nothing": lambda: x[:0].conj(),
        "negative": lambda: torch._neg_view(x),
        "negative of conj": lambda: torch._neg_view(x).conj(),
        "a subclass": lambda: x.as_subclass(type("Special", (torch.Tensor,), {})).conj(),
        "zero": lambda: torch._efficientzerotensor((12,), device=device),
    }[kind]()
    plain = torch.zeros(12, device=device) if kind == "zero" else made.resolve_conj().resolve_neg()
    return made, plain


FLAGS = (
    "conj", "conj of a slice", "conj of a transpose", "conj of a broadcast", "imag of conj", "conj of nothing",
    "negative", "negative of conj", "a subclass", "zero",
)  # fmt: skip
same = elementwise("T x", "T y", "y = x", name="same")
weighted = elementwise(lambda x, y, k: x * k + y)
gathered = elementwise("raw T x, int64 n", "T y", "y = x[n - 1 - i]", name="gathered")
numbered = elementwise(lambda x, k: x * (k + 1))
total = reduction("T x", "T y", map_expr="x", reduce_expr="a + b", identity="0")
running = xl.scan("a + b")
READS: dict[str, Any] = {
    "a snippet": same, "a function": lambda x: weighted(x, x, 2),
    "one of two": lambda x: weighted(torch.ones(x.shape, dtype=x.dtype, device=x.device), x, 3),
    "computed indices": lambda x: gathered(x, x.numel(), size=x.numel()),
    "numbers": lambda x: (numbered(x, 1), numbered(x, 0.5)),
    "out=": lambda x: same(x, out=torch.empty(x.shape, dtype=x.dtype, device=x.device)),
    "a reduction": total,
    "along an axis, out=": lambda x: total(x, axis=0, out=torch.empty(x.shape[1:], dtype=x.dtype, device=x.device)),
    "a ready-made reduction": reductions.sum, "norm": reductions.norm, "scan": lambda x: running(x.flatten()[:7]),
    "to_host": xl.to_host,
    "to_host, converting": lambda x: xl.to_host(x, dtype="complex128"),
    "to_host_async": lambda x: xl.to_host_async(x).result(),
    "to_device": xl.to_device, "copy_to": lambda x: xl.copy_to(x, "cpu"),
    "a tree": lambda x: xl.tree.to_host([x] * 12),
}  # fmt: skip


def _several(result):
    return result if isinstance(result, (tuple, list)) else [result]


@pytest.mark.parametrize("kind", FLAGS)
def test_every_reader_of_memory_sees_the_elements(kind, device):
    for name, read in READS.items():
        for _ in range(3):  # checked, looked up, and repeated
            for each in _flagged(kind, device):
                found = read(each)
                expected = read(_flagged(kind, device)[1])
                for one, two in zip(_several(found), _several(expected), strict=True):
                    assert same_bits(xl.to_host(one), xl.to_host(two)), (name, kind)


@pytest.mark.parametrize("kind", FLAGS)
def test_kernels_ask_for_the_memory_of_no_tensor_that_holds_other_elements(kind, monkeypatch):
    """On the CPU such a tensor's memory is a copy; a GPU gets its address."""
    from xferlib.backends.torch.backend import TorchCpu

    def host_view(self, array):
        assert not self.is_lazy(array)
        return array.detach().numpy()

    monkeypatch.setattr(TorchCpu, "host_view", host_view)
    x, plain = _flagged(kind, "cpu")
    for name in ("a snippet", "a function", "one of two", "computed indices", "numbers", "out=", "a reduction", "scan"):
        for _ in range(3):
            assert str(READS[name](x)) == str(READS[name](plain)), name


def test_derivatives_of_a_negated_tensor_are_those_of_its_elements(device):
    z = torch.tensor([1 + 2j, 3 - 4j], device=device, requires_grad=True)
    square(z.conj().imag).sum().backward()
    assert z.grad.tolist() == [4j, -8j]


@pytest.mark.parametrize("kind", [kind for kind in FLAGS if kind != "conj of nothing"])
def test_what_would_be_written_to_a_copy_is_refused(kind, device):
    x, plain = _flagged(kind, device)
    calls = {
        "an output": lambda: same(plain, out=x),
        "a C parameter": lambda: elementwise("T *x", "x[i] = 2", name="set")(x),
        "a reduction": lambda: total(torch.stack([plain, plain]), axis=0, out=x),
        "to_device": lambda: xl.to_device(plain, out=x),
    }
    for _ in range(2):
        for call in calls.values():
            with pytest.raises(LayoutError):
                call()


def test_cuda_source_gets_no_tensor_that_holds_other_elements(device):
    source = (
        'extern "C" __global__ void copy(const float *x, float *y, int n) { for (int i = 0; i < n; ++i) y[i] = *x; }'
    )
    copy = raw_module(source).get_function("copy", cpu=lambda x, y, n: np.copyto(y, x))
    x, y = torch.ones(3, device=device), torch.zeros(3, device=device)
    for _ in range(3):
        copy(1, 1, (x, y, 3))
        for args in ((torch._neg_view(x), y, 3), (x, torch._neg_view(y), 3)):
            with pytest.raises(LayoutError, match="flag on the tensor"):
                copy(1, 1, args)
    assert y.tolist() == [1, 1, 1]


def _freed():
    x = torch.ones(3)
    x.untyped_storage().resize_(0)
    return x


class _Wrapping(torch.Tensor):  # type: ignore[name-defined]
    @staticmethod
    def __new__(cls):
        return torch.Tensor._make_wrapper_subclass(cls, (3,))

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise AssertionError("xferlib computes with it")


WITHOUT_MEMORY = {
    "sparse": lambda: torch.eye(3).to_sparse(),
    "sparse rows": lambda: torch.eye(3).to_sparse_csr(),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "jagged": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
    "quantized": lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8),
    "meta": lambda: torch.empty(3, device="meta"),
    "fake": lambda: torch._subclasses.fake_tensor.FakeTensorMode().from_tensor(torch.ones(3)),
    "functional": lambda: torch._to_functional_tensor(torch.ones(3)),
    "lazy parameter": lambda: torch.nn.UninitializedParameter(requires_grad=False),
    "freed": _freed,
    "wrapping": _Wrapping,
}


@pytest.mark.filterwarnings("ignore")  # of prototypes
@pytest.mark.parametrize("kind", WITHOUT_MEMORY)
def test_tensors_without_memory_are_refused_by_every_reader(kind):
    x, plain = WITHOUT_MEMORY[kind](), torch.ones(3)
    for read in (same, reductions.sum, running, xl.to_host, xl.to_device, lambda x: xl.to_host(x, stream=None),
                 lambda x: xl.to_host_async(x).result(), lambda x: xl.tree.to_host([x]), xl.asarray, xl.explain,
                 lambda x: same(plain, out=x), lambda x: xl.to_device(np.ones(3, "f4"), out=x),
                 lambda x: next(iter(xl.prefetch([x], device="sim")))):  # fmt: skip
        for each in (plain, plain, x, plain, x) if read in (same, reductions.sum, running) else (x,):
            if each is plain:
                read(each)  # what is remembered of it must not serve the other
            else:
                with pytest.raises(XferError):
                    read(each)


# --- gradients of element-wise kernels


gradcheck = torch.autograd.gradcheck

DOMAINS = {"arccosh": (1.2, 3), "log": (0.2, 3), "log2": (0.2, 3), "log10": (0.2, 3), "rsqrt": (0.2, 3),
           "cbrt": (0.2, 3), "log1p": (-0.5, 2)}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_every_function(name):
    call = getattr(NAMESPACE, name)
    kernel = elementwise(lambda x: call(x), name=name)
    low, high = DOMAINS.get(name, (-0.8, 0.8))
    assert gradcheck(kernel, (_tensor(7, low=low, high=high),))


def test_keyword_scalar_and_integer_output():
    @elementwise
    def kernel(x, *, alpha=2.0):
        return x * x * alpha, x > 0.5

    x = _tensor(7, low=0, high=1)
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


_ROOT = reduction("T x, T y", "T z", map_expr="x * y", reduce_expr="a + b", post_map_expr="z = sqrt(a)", identity="0")
_BRANCHES = elementwise("T x, T y", "T z, T w", "if (x > y) { z = x * x; w = x * y; } else { z = y; w = 1; }")
_ZEROS = torch.tensor([[0.7, 0, 1.5, 2], [0.7, 0, 0, 2], [1, 2, 3, 4]], dtype=torch.float64, requires_grad=True)
_PAIR = (_tensor(7, low=0.3, seed=1), _tensor(7, low=0.3, seed=2))
DIFFERENTIABLE = [
    (lambda x, y: _ROOT(x, y, axis=1), (_tensor(3, 4), _tensor(4, 1, 1, seed=1))),
    (lambda x: reductions.prod(x, axis=1), (_ZEROS,)),
    (_BRANCHES, (_tensor(7, low=0, high=1, seed=4), _tensor(7, low=0, high=1, seed=5))),
    (elementwise(lambda x, y: np.exp(x) * y * y), (_tensor(7, low=-1, high=1), _tensor(7, low=-1, high=1, seed=3))),
    (elementwise(lambda x, y, z: x * y + z), (_tensor(3, 4), _tensor(4), _tensor(3, 1))),
    (elementwise(lambda x, y: np.where(x > 1, np.exp(x) / y, np.tanh(x) * y)), (_tensor(2, 5), _tensor(5, seed=1))),
    (elementwise(lambda x, y: x + y * x - y), _PAIR), (elementwise(lambda x, y: x / y), _PAIR),
    (elementwise(lambda x, y: np.maximum(x, y) * np.minimum(x, y)), _PAIR),
    (elementwise(lambda x, y: abs(x) + np.sqrt(y)), _PAIR),
    (elementwise(lambda x, y: np.where(x > y, x * y, x - y)), _PAIR),
    (elementwise(lambda x, y: y**x), _PAIR), (elementwise(lambda x, y: np.arctan2(x, y)), _PAIR),
    (elementwise(lambda x, y: np.hypot(x, y)), _PAIR), (elementwise(lambda x, y: np.fmod(x, y)), _PAIR),
    (elementwise(lambda x, y: np.floor(x) * y), _PAIR), (elementwise(lambda x, y: np.logaddexp(x, y)), _PAIR),
    (elementwise(lambda x, y: NAMESPACE.fma(x, y, x)), _PAIR),
]  # fmt: skip


@pytest.mark.parametrize(("call", "arguments"), DIFFERENTIABLE)
def test_first_and_second_derivatives(call, arguments):
    assert gradcheck(call, arguments, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(call, arguments)


@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2", "arctan2", "hypot", "power", "multiply", "divide"])
def test_derivatives_at_equal_operands(name):
    """A value that a formula computes by a branch of its own there has the derivatives of its neighbours."""
    kernel = elementwise(lambda x, y: getattr(np, name)(x, y))
    x = _tensor(7, low=0.3)
    assert gradcheck(kernel, (x, x.detach().clone().requires_grad_()), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(kernel, (x, x.detach().clone().requires_grad_()))


@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
@pytest.mark.parametrize("limit", [-np.inf, np.inf])
def test_derivatives_of_sums_of_logarithms_at_infinities(name, limit):
    x, y = (torch.full((1,), limit, dtype=torch.float64, requires_grad=True) for _ in range(2))
    found = torch.autograd.grad(elementwise(lambda x, y: getattr(np, name)(x, y))(x, y), (x, y))
    assert sum(found).item() == 1


SPECIAL = ("erf", "erfc", "erfcx", "erfinv", "erfcinv", "ndtr", "ndtri", "exp10", "expit", "logit", "sinc", "i0")


@pytest.mark.parametrize("name", SPECIAL)
def test_derivatives_of_special_functions(name):
    kernel = elementwise(lambda x: getattr(np if hasattr(np, name) else x.__array_namespace__(), name)(x))
    x = _tensor(7, low=0.05, high=0.95)
    assert gradcheck(kernel, (x,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(kernel, (x,))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_the_sigmoid_and_its_slope_far_from_zero(dtype):
    """Where exp(-x) overflows, too."""
    kernel = elementwise(lambda x: x.__array_namespace__().expit(x))
    x = torch.tensor(
        [-np.inf, -1e4, -800, -100, -89, -60, -12, -1, -0.0, 0, 1, 3, np.inf], dtype=dtype
    ).requires_grad_()
    y = kernel(x)
    (slope,) = torch.autograd.grad(y.sum(), x)
    wide = x.detach().double()
    tiny = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    close = {"rtol": 4 * torch.finfo(dtype).eps, "atol": 2 * tiny}
    torch.testing.assert_close(y.detach().double(), torch.sigmoid(wide), **close)
    torch.testing.assert_close(slope.double(), torch.sigmoid(wide) * torch.sigmoid(-wide), **close)


@pytest.mark.parametrize("exponent", [-300, -200, -20, -8, -3, 20, 160, 300])
def test_slopes_of_tiny_and_huge_operands(exponent):
    """Where a square underflows or overflows, too."""
    size = 10.0**exponent
    x = torch.tensor([size, -size], dtype=torch.float64, requires_grad=True)
    even = {"sinc": -(np.pi**2) / 3, "i0": 0.5}  # second derivatives at 0
    for name, second in even.items() if exponent < 0 else ():
        function = elementwise(lambda x: getattr(np, name)(x))  # noqa: B023 - called here
        (slope,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
        (bend,) = torch.autograd.grad(slope.sum(), x)
        torch.testing.assert_close(slope.detach(), second * x.detach(), rtol=2 * size**2 + 1e-14, atol=0)
        torch.testing.assert_close(bend, torch.full_like(bend, second), rtol=4 * size**2 + 1e-14, atol=0)
    y = torch.full_like(x, size, requires_grad=True)
    found = torch.autograd.grad(elementwise(lambda x, y: np.arctan2(x, y))(x, y).sum(), (x, y))
    torch.testing.assert_close(torch.stack(found), torch.tensor([[0.5, 0.5], [-0.5, 0.5]], dtype=x.dtype) / size)
    for name in ("arcsinh", "arccosh") if exponent > 0 else ():
        found = torch.autograd.grad(elementwise(lambda x: getattr(np, name)(x))(x).sum(), x)[0]  # noqa: B023 - called here
        assert found[0].item() == pytest.approx(1 / size, rel=1e-15, abs=0)


@pytest.mark.parametrize("name", ["sinc", "i0"])
def test_even_functions_bend_at_zero(name):
    x = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    kernel = elementwise(lambda x: getattr(np, name)(x))
    assert gradcheck(kernel, (x,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(kernel, (x,))


def test_derivatives_of_a_product_with_a_logarithm_at_zero():
    kernel = elementwise(lambda x, y: x.__array_namespace__().xlogy(x, y))
    x = torch.tensor([0.0, 0.0, 1.5], dtype=torch.float64, requires_grad=True)
    assert gradcheck(kernel, (x, _tensor(3, low=0.3)), check_forward_ad=True)
    assert torch.autograd.grad(kernel(x, torch.zeros_like(x)).sum(), x)[0].tolist() == [0, 0, -np.inf]


@pytest.mark.parametrize("name", ["gamma", "gammaln"])
def test_derivatives_that_are_not_known_are_refused(name):
    kernel = elementwise(lambda x: getattr(x.__array_namespace__(), name)(x))
    with pytest.raises(KernelTypeError, match="the derivative of .gamma is not known"):
        kernel(torch.ones(1, requires_grad=True)).backward()
