"""Torch's namespace as a module, and with what only torch has: gradients, compilation, dtypes of its own."""

from __future__ import annotations

import itertools
import operator
import pickle
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import xferlib as xl  # noqa: E402
from tests.comparing import DTYPES, numpys, report  # noqa: E402
from tests.entered import functions_of  # noqa: E402
from xferlib.errors import (  # noqa: E402
    DeviceNotFoundError,
    LayoutError,
    MixedBackendsError,
    UnsupportedArrayError,
    UnsupportedDTypeError,
)
from xferlib.testing import assert_identical, configured  # noqa: E402

I32, F32, F64 = torch.ones(3, dtype=torch.int32), torch.ones(3), torch.ones(3, dtype=torch.float64)


@pytest.fixture
def xp() -> Any:
    return xl.get_array_module(F32)


def test_it_is_a_module_with_what_the_standard_asks_of_it(xp: Any) -> None:
    import array_api_compat.torch as compat

    assert isinstance(xp, types.ModuleType)
    assert xp.__name__ == "xferlib.backends.torch.namespace"
    assert xp.__array_api_version__ == compat.__array_api_version__
    assert {each for each in getattr(compat, "__all__", ()) if each != "__builtins__"} <= set(xp.__all__)
    assert dir(xp) == xp.__all__
    assert all(hasattr(xp, name) for name in xp.__all__)
    assert xp.__array_namespace_info__().default_dtypes()["real floating"] == torch.float64


def test_every_other_name_is_torchs(xp: Any) -> None:
    assert xp.nn is torch.nn
    assert xp.relu is torch.relu
    assert xp.linalg.norm is torch.linalg.norm
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = xp.no_such_name
    with pytest.raises(AttributeError, match=r"'power'; use get_array_module\(x\)\.pow"):
        _ = xp.power
    with pytest.raises(AttributeError, match=r"'identity'; write xp\.eye\(n\)"):
        _ = xp.identity


def test_it_pickles_by_name_and_so_do_its_functions(xp: Any) -> None:
    for thing in (xp, xp.add, xp.sqrt, xp.sum, xp.zeros, xp.matmul, xp.where, xp.flip):
        assert pickle.loads(pickle.dumps(thing)) is thing


def test_the_operators_are_torchs_and_the_functions_numpys(xp: Any) -> None:
    assert (I32 / I32).dtype == torch.float32
    assert xp.divide(I32, I32).dtype == torch.float64
    assert (I32 + F32).dtype == torch.float32
    assert xp.add(I32, F32).dtype == torch.float64


def test_gradients_pass_through(xp: Any) -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = torch.tensor([3, 4], dtype=torch.int32)
    total = xp.sum(xp.where(x > 1, xp.multiply(xp.sqrt(x), y), xp.add(x, np.float64(1))))
    total = xp.add(total, xp.mean(xp.concat([xp.astype(x, "float64"), xp.clip(x, 0, 1.5)])))
    total.backward()
    np.testing.assert_allclose(x.grad, [1 + 0.5, 4 / (2 * np.sqrt(2)) + 0.25], rtol=1e-6)


class _OnCuda(torch.Tensor):  # type: ignore[name-defined]
    """A tensor that says it is on a GPU."""

    is_cuda = True


class _Pageable(torch.Tensor):  # type: ignore[name-defined]
    """One in host memory, which cannot be copied to a GPU while its stream is captured."""

    def to(self, *args: Any, **options: Any) -> Any:
        raise RuntimeError("operation not permitted when stream is capturing")


@pytest.mark.parametrize("number", [3.0, float("inf"), -0.0, 2 - 1j])
def test_a_divisor_without_axes_is_not_copied_in_a_capture(
    xp: Any, monkeypatch: pytest.MonkeyPatch, number: complex
) -> None:
    x = torch.tensor([1.0, -2.0], dtype=torch.complex128 if isinstance(number, complex) else torch.float64)
    divisor = torch.tensor(number, dtype=x.dtype)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    with pytest.raises(RuntimeError, match="capturing"):
        xp.divide(x.as_subclass(_OnCuda), divisor.as_subclass(_Pageable))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    found = xp.divide(x.as_subclass(_OnCuda), divisor.as_subclass(_Pageable))
    assert torch.equal(found.as_subclass(torch.Tensor), x / divisor)


def test_a_divisor_that_needs_gradients_has_them(xp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    divisor = torch.tensor(4.0, requires_grad=True)
    xp.sum(xp.divide(F32.as_subclass(_OnCuda), divisor)).backward()
    assert float(divisor.grad) == -3 / 16


def _parts(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def _several(xp: Any, x: Any) -> Any:
    i = xp.astype(x, "int32")
    y = xp.add(xp.divide(i, 2), xp.multiply(x, i))
    z = xp.concat([xp.sqrt(xp.abs(y)), xp.astype(x, "float64"), xp.zeros(2, device=x.device)])
    return xp.sum(z, dtype="float32"), xp.where(x > 0, 1, i), xp.max(xp.astype(i, "uint16")), xp.less(x, i)


COMPILED: dict[str, Callable[[Any, Any], Any]] = {
    "several functions": _several,
    "arange": lambda xp, x: xp.arange(0, 1, 0.3, device=x.device),
    "arange of integers": lambda xp, x: xp.arange(x.shape[0], device=x.device),
    "linspace": lambda xp, x: xp.linspace(0, 1, 5, device=x.device),
    "full": lambda xp, x: xp.full((2, 3), 2.0, device=x.device),
    "eye": lambda xp, x: xp.eye(3, device=x.device),
    "tile": lambda xp, x: xp.tile(x, (2, 2)),
    "clip": lambda xp, x: xp.clip(x, -1, None),
    "searchsorted": lambda xp, x: xp.searchsorted(x, x + 0.5),
    "remainder": lambda xp, x: xp.remainder(x, 3),
    "take": lambda xp, x: xp.take(x, xp.astype(x, "int64")),
    "trace": lambda xp, x: xp.linalg.trace(xp.reshape(x, (2, 2))),
}


@pytest.mark.parametrize("dynamic", [False, True])
def test_torch_compile_traces_all_of_these_in_one_graph(xp: Any, dynamic: bool) -> None:
    """Where one breaks the graph the error names its line: each by itself would cost ten times as much."""
    x = torch.arange(4.0)
    run = lambda x: [program(xp, x) for program in COMPILED.values()]
    torch.compiler.reset()  # it compiles the same lambda a limited number of times
    compiled = torch.compile(run, backend="eager", fullgraph=True, dynamic=dynamic)
    for name, one, two in zip(COMPILED, compiled(x), run(x), strict=True):
        for found, expected in zip(_parts(one), _parts(two), strict=True):
            assert found.dtype == expected.dtype, name
            assert torch.equal(found, expected), name


def test_a_device_that_torch_does_not_have_is_refused(xp: Any) -> None:
    for device in ("sim:0", "numpy:cpu", 1.5, xl.get_device("sim:0"), "nonsense"):
        with pytest.raises(DeviceNotFoundError, match="give 'cpu', 'cuda:0' or x.device"):
            xp.zeros(2, device=device)


def test_torchs_own_dtypes_follow_torchs_rules(xp: Any) -> None:
    half = torch.ones(2, dtype=torch.bfloat16)
    assert xp.add(half, half).dtype == xp.sum(half).dtype == xp.sqrt(half).dtype == torch.bfloat16
    assert xp.add(half, 2).dtype == xp.max(half).dtype == xp.zeros(2, dtype=torch.bfloat16).dtype == torch.bfloat16
    assert xp.result_type(half, torch.float32) == torch.float32


def test_what_is_no_tensor_is_refused_with_the_remedy(xp: Any) -> None:
    with pytest.raises(MixedBackendsError, match=r"add: a NumPy array .* xp\.asarray\(a, device=x\.device\)"):
        xp.add(F32, np.ones(3))
    with pytest.raises(UnsupportedArrayError, match=r"add: list is neither"):
        xp.add(F32, [1])
    with pytest.raises(UnsupportedArrayError, match=r"sum: list is neither a tensor nor a number"):
        xp.sum([1])
    with pytest.raises(UnsupportedDTypeError, match=r"maximum: torch does not order complex numbers \(complex64\)"):
        xp.maximum(torch.ones(2, dtype=torch.complex64), F32[:2])
    with pytest.raises(UnsupportedDTypeError, match=r"datetime64"):
        xp.zeros(3, dtype="datetime64[s]")
    with pytest.raises(ValueError, match=r"pow: an integer to the power of -1"):
        xp.pow(I32, -1)


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_logical_functions_refuse_an_integer_as_numpy_does(xp: Any, name: str) -> None:
    for given in (torch.tensor(False), torch.ones(2), torch.ones(2, dtype=torch.uint64)):
        for number in (2**63, -(2**63) - 1):
            with pytest.raises(OverflowError, match="too large"):
                getattr(np, name)(given.numpy(), number)
            with pytest.raises(OverflowError, match="does not fit into int64"):
                getattr(xp, name)(given, number)
        assert getattr(xp, name)(given, 2**63 - 1).dtype is torch.bool


def test_memory_is_shared_where_that_is_asked_for_and_possible(xp: Any) -> None:
    host = np.arange(3.0)
    shared = xp.asarray(host, device="cpu")
    shared += 1
    assert host.tolist() == [1, 2, 3]
    assert xp.asarray(host, copy=True, device="cpu").data_ptr() != host.ctypes.data
    with pytest.raises(ValueError, match="copy=False"):
        xp.asarray(host[::-1], copy=False, device="cpu")
    assert xp.asarray([F32, F64]).dtype == torch.float64
    assert xp.full(2, F32[0]).tolist() == [1, 1]


@pytest.mark.parametrize("code", ["q", "Q", "l", "L"])
def test_both_of_numpys_types_of_64_bits_are_taken(xp: Any, code: str) -> None:
    host = np.array([3, 5], code)
    found = xp.asarray(host, device="cpu")
    assert found.dtype == (torch.int64 if code.islower() else torch.uint64)
    assert found.data_ptr() == host.ctypes.data
    assert xp.asarray([1 << 63], dtype=xp.uint64).tolist() == [1 << 63]


def test_limits_of_dtypes_are_numbers_with_their_dtype(xp: Any) -> None:
    for name in ("float16", "float32", "float64", "complex64"):
        found, expected = xp.finfo(name), np.finfo(name)
        assert str(found.dtype) == f"torch.{expected.dtype}"
        for each in ("bits", "eps", "max", "min", "smallest_normal"):
            assert getattr(found, each) == getattr(expected, each)
    found = xp.iinfo(torch.ones(2, dtype=torch.uint64))
    assert (found.dtype, found.bits, found.max, found.min) == (torch.uint64, 64, 2**64 - 1, 0)


def test_shapes_that_do_not_broadcast_are_named(xp: Any) -> None:
    assert xp.broadcast_shapes((3, 1), (4,)) == (3, 4)
    with pytest.raises(ValueError, match=r"\(3,\) and \(4,\) do not broadcast"):
        xp.broadcast_shapes((3,), (4,))


NAN = float("nan")
SMALL, WIDE = np.array([1, 2, 300], np.uint16), np.array([300, 2**63], np.uint64)
BASES = np.array([0, 1, 2, 3, 2**63 + 1, 2**64 - 1], np.uint64)
EXPONENTS = np.array([0, 1, 5, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1], np.uint64)[:, None]
COMPLEX = np.array(
    [1 + 1j, complex(NAN, 1), complex(1, NAN), 2 - 1j, 1 + 1j, 1 - 5j, complex(NAN, NAN), complex(NAN, 0)]
)


def _far(dtype: str) -> tuple[Any, Any]:
    random, limits = np.random.default_rng(5), np.finfo(dtype)
    size = random.integers(limits.minexp, limits.maxexp, (2, 4000)).astype(float)
    one, two = (random.uniform(-1, 1, (2, 4000)) * np.exp2(size)).astype(dtype)
    two[two == 0] = limits.smallest_subnormal
    return one, two


CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    # a number beside float16 is rounded first
    *(("divide", (np.array([1, 3], np.float16), each), {}) for each in (65505, 65519.0, 65520, -7e4, 0.1, 1e-5)),
    ("unique_all", (np.array([[3, 1, 3], [2, 1, 0]], np.uint64),), {}),
    ("unique_all", (COMPLEX,), {}),  # complex numbers have an order in sets alone
    *(("isin", each, {}) for each in ((SMALL, WIDE), (WIDE, SMALL), (SMALL, 2), (WIDE, np.int8(1)))),
    ("searchsorted", (SMALL, 2), {}),
    *(("remainder", _far(dtype), {}) for dtype in ("float32", "float64")),
    ("pow", (BASES, EXPONENTS), {}),
]


def test_results_are_numpys(xp: Any) -> None:
    tensors = lambda args: [torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in args]
    for name, args, options in CALLS:
        with np.errstate(all="ignore"):
            expected = getattr(np, name)(*args, **options)
        found = getattr(xp, name)(*tensors(args), **options)
        for one, two in zip(_parts(found), _parts(expected), strict=True):
            np.testing.assert_array_equal(one.numpy(), two, err_msg=name)
        if name == "remainder":
            np.testing.assert_array_equal(torch.func.vmap(xp.remainder)(*tensors(args)).numpy(), expected)
    host = np.array([[1.0, 2, 4], [3, 5, 9]])
    for name, axis in itertools.product(("std", "var"), (None, 0, (0, 1))):  # corrections may be fractions
        found = getattr(xp, name)(torch.from_numpy(host), axis=axis, correction=0.5)
        np.testing.assert_allclose(found.numpy(), getattr(np, name)(host, axis=axis, ddof=0.5), rtol=1e-14)


def test_the_default_float_can_be_torchs(xp: Any) -> None:
    makers: list[Any] = [
        lambda **o: xp.zeros(2, **o), lambda **o: xp.full(2, 1.5, **o), lambda **o: xp.arange(0.0, 2, **o),
        lambda **o: xp.linspace(0, 1, 3, **o), lambda **o: xp.eye(2, **o), lambda **o: xp.asarray([1.5], **o),
        lambda **o: xp.fft.fftfreq(4, **o),
    ]  # fmt: skip
    assert {make().dtype for make in makers} == {torch.float64}
    with configured(torch_float="torch"):
        assert {make().dtype for make in makers} == {torch.get_default_dtype()}
        assert {make(dtype="float64").dtype for make in makers} == {torch.float64}
        assert xp.asarray([1j]).dtype == xp.full(2, 1j).dtype == torch.complex64
        assert xp.asarray(np.ones(2)).dtype == xp.full(2, np.float64(1)).dtype == torch.float64
        assert xp.asarray([1]).dtype == xp.arange(2).dtype == torch.int64
        assert xp.__array_namespace_info__().default_dtypes()["complex floating"] == torch.complex64


@pytest.mark.parametrize(("name", "entered"), [("add", 1), ("multiply", 1), ("sqrt", 1), ("sum", 5)])
def test_a_call_that_torch_computes_as_numpy_goes_straight_to_it(xp: Any, name: str, entered: int) -> None:
    args = (F32, F32) if name in ("add", "multiply") else (F32,)
    assert len(functions_of(lambda: getattr(xp, name)(*args))) == entered


def test_three_dtypes_promote_as_numpy_has_it(xp: Any) -> None:
    names = ("bool", "int8", "int32", "uint16", "uint64", "float16", "float32", "complex64")
    for three in itertools.product(names, names, names):
        assert str(xp.result_type(*three)) == f"torch.{np.result_type(*map(np.dtype, three))}", three


def test_numbers_alone_become_tensors_as_in_numpy(xp: Any) -> None:
    assert xp.add(1, 2).dtype is torch.int64
    assert xp.add(1, np.float32(2)).dtype is torch.float32
    assert xp.abs(1j - 1).item() == abs(1j - 1)
    assert xp.sum(2.5).dtype is torch.float64


def test_an_index_beyond_the_extent_is_refused(xp: Any) -> None:
    for take in (xp.take, xp.take_along_axis):
        with pytest.raises(IndexError, match="out of range"):
            take(F32, torch.tensor([3]), axis=0)
        with pytest.raises(IndexError, match="out of range"):
            take(F32, torch.tensor([-4]), axis=0)


def test_an_integer_that_no_element_holds_is_nowhere(xp: Any) -> None:
    assert xp.isin(torch.tensor([0, 1], dtype=torch.uint64), 1 << 64).tolist() == [False, False]
    assert xp.isin(torch.tensor([0, 1], dtype=torch.uint8), 300, invert=True).tolist() == [True, True]
    transposed = torch.arange(6.0).reshape(2, 3).T
    assert xp.isin(transposed, transposed[:, :1]).sum() == 3


def test_places_beyond_the_extent_read_zero_where_torch_would_end_the_process(
    xp: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xferlib.backends.torch.functions.raises_indices", lambda x: False)
    x = torch.arange(12).reshape(3, 4)
    assert xp.take(x, torch.tensor([1, -1, 3, -4]), axis=0)[:, 1].tolist() == [5, 9, 0, 0]
    assert xp.take(x, torch.tensor([[-1, 4]]), axis=1).tolist() == [[[3, 0]], [[7, 0]], [[11, 0]]]
    assert xp.take_along_axis(x, torch.tensor([[0, 9], [1, -9], [2, -1]]), axis=1).tolist() == [
        [0, 0],
        [5, 0],
        [10, 11],
    ]
    for function in (xp.take, xp.take_along_axis):
        with pytest.raises(IndexError, match="axis 0 of 0 elements"):
            function(x[:0, 0], torch.tensor([0]), axis=0)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_products_of_integers_are_exact_where_torch_has_floats_alone(
    xp: Any, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xferlib.backends.torch.extensions.has_integer_products", lambda device: False)
    rng = np.random.default_rng(5)

    def drawn(*shape: int) -> Any:
        values = np.frombuffer(rng.bytes(8 * int(np.prod(shape))), np.uint64).reshape(shape)
        return values % 2 == 1 if dtype == "bool" else values.astype(dtype)

    shapes = [((3, 4), (4, 5)), ((4,), (4,)), ((2, 3, 4), (4,)), ((3, 0), (0, 2)), ((2, 1, 3, 4), (5, 4, 2))]
    pairs = [(drawn(*one), drawn(*two)) for one, two in shapes]
    for one, two in pairs:
        assert_identical(xp.matmul(torch.from_numpy(one), torch.from_numpy(two)), np.matmul(one, two))
    one, two = torch.from_numpy(pairs[0][0]), torch.from_numpy(pairs[0][1])
    assert_identical(xp.tensordot(one, two, axes=((1,), (0,))), np.tensordot(*pairs[0], axes=((1,), (0,))))
    assert_identical(xp.vecdot(one, one), np.vecdot(pairs[0][0], pairs[0][0]))
    square = drawn(3, 3)
    for power in range(7):
        found = xp.linalg.matrix_power(torch.from_numpy(square), power)
        assert_identical(found, np.linalg.matrix_power(square, power))


def test_long_sums_of_products_of_integers_are_exact(xp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xferlib.backends.torch.extensions.has_integer_products", lambda device: False)
    x = torch.full(((1 << 21) + 1,), -1, dtype=torch.int32)
    assert xp.vecdot(x, x).item() == x.numel()


# --- linalg and fft


TOLERANCE = {"float16": 4e-3, "complex64": 1e-5, "float32": 1e-5}
"""Relative, some hundred units of the last place: libraries decompose in different orders."""
MATRIX, ONE, TWO, ROW = np.array([[4, 1], [1, 3]]), np.array([1, 2, 3]), np.array([3, 1, 2]), np.array([3, 1, 2, 0, 5])
SOLVERS = (
    "cholesky", "det", "eigvalsh", "inv", "matrix_norm", "matrix_rank", "pinv", "slogdet", "svdvals", "vector_norm",
)  # fmt: skip
OF_REAL = ("rfft", "rfftn", "ihfft")
EXTENSIONS: dict[str, tuple[Any, ...]] = {
    **{f"linalg.{name}": (MATRIX,) for name in (*SOLVERS, "trace", "diagonal", "matrix_transpose")},
    "linalg.solve": (MATRIX, MATRIX),
    **{f"linalg.{name}": (ONE, TWO) for name in ("outer", "cross", "matmul", "vecdot")},
    "linalg.tensordot": (ONE.reshape(3, 1), TWO.reshape(1, 3)),
    **{f"fft.{name}": (ROW,) for name in ("fft", "ifft", "irfft", "fftn", "ifftn", "irfftn", "hfft", *OF_REAL)},
    **{f"fft.{name}": (ROW,) for name in ("fftshift", "ifftshift")},
}
"""Functions, and the values of their arguments, of any dtypes."""


def _difference(found: Any, expected: Any) -> str | None:
    """The difference from NumPy's result; None if there is none."""
    if isinstance(expected, Exception) or isinstance(found, Exception):
        is_same = isinstance(expected, Exception) and isinstance(found, Exception)
        return None if is_same else f"{found!r} instead of {expected!r}"
    if isinstance(expected, tuple):
        return next(filter(None, map(_difference, found, expected)), None)
    host, wanted = xl.to_host(found), np.asarray(expected)
    if (host.dtype, host.shape) != (wanted.dtype, wanted.shape):
        return f"{host.dtype}{host.shape} instead of {wanted.dtype}{wanted.shape}"
    is_near = np.allclose(np.abs(host), np.abs(wanted), TOLERANCE.get(wanted.dtype.name, 1e-10), 1e-3)
    return None if is_near else f"{host} instead of {wanted}"


@pytest.mark.parametrize("name", EXTENSIONS)
def test_extensions_have_numpys_dtypes_and_shapes_and_its_values_within_rounding(xp: Any, name: str) -> None:
    arrays, wrong = EXTENSIONS[name], []
    options = {"axes": 1} if name == "linalg.tensordot" else {}
    no_numpy = {"complex64", "complex128"} if name[4:] in OF_REAL else set()
    if arrays[0] is MATRIX:
        no_numpy = {"bool", "float16"}  # singular; NumPy refuses it
    for dtypes in itertools.product([each for each in DTYPES if each not in no_numpy], repeat=len(arrays)):
        given = [x.astype(dtype) for x, dtype in zip(arrays, dtypes, strict=True)]
        found = numpys(operator.attrgetter(name)(xp), *map(torch.from_numpy, given), **options)
        expected = numpys(operator.attrgetter(name)(np), *given, **options)
        wrong.append((f"{name}{dtypes}", _difference(found, expected)))
    report(wrong)


def test_frequencies_are_float64_unless_another_dtype_is_asked_for(xp: Any) -> None:
    for name in ("fftfreq", "rfftfreq"):
        found, expected = getattr(xp.fft, name)(5, d=0.5), getattr(np.fft, name)(5, d=0.5)
        np.testing.assert_array_equal(found.cpu().numpy(), expected, strict=True)
        assert getattr(xp.fft, name)(5, dtype="float32").dtype == torch.float32


def test_other_names_are_array_api_compats_and_torchs(xp: Any) -> None:
    assert xp.linalg.norm is torch.linalg.norm
    assert xp.fft.fft2 is torch.fft.fft2
    assert {"inv", "outer"} <= set(dir(xp.linalg))
    assert {"fft", "fftfreq"} <= set(dir(xp.fft))
    for function in (xp.linalg.inv, xp.linalg.matmul, xp.fft.fft, xp.fft.fftshift):
        assert pickle.loads(pickle.dumps(function)) is function


def test_refusals_say_what_to_do(xp: Any) -> None:
    with pytest.raises(LayoutError, match=r"outer: 2 and 1 axes instead of one each; give x1\[:, None\] \* x2"):
        xp.linalg.outer(torch.ones(2, 2), torch.ones(2))
    with pytest.raises(UnsupportedDTypeError, match="subtract of bool and bool does not exist"):
        xp.linalg.cross(torch.ones(3, dtype=torch.bool), torch.ones(3, dtype=torch.bool))
