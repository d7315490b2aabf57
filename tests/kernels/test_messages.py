"""Errors point at what the user wrote: the column of a snippet, the line of a traced function, the definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xferlib as xl
from xferlib.errors import KernelSyntaxError, KernelTypeError, MixedBackendsError
from xferlib.kernels import elementwise, raw_module, reduction

X = np.ones(3, np.float32)
RAW = raw_module('extern "C" __global__ void f(float *x, int n) {}').get_function("f", cpu=lambda x, n: None)


@pytest.mark.parametrize(
    ("operation", "words", "column"),
    [
        ("z = x +", "is not complete C", None),
        ("z = foo(x)", "unknown function 'foo'", 4),
        ("z = x ** 2", "pow", 9),
        ("z = y", "'y' is not declared; known here are x, z", 4),
        ("z = x; w = 1", "'w' is not declared", 7), ("x = z", "'x' is read-only", 0),
        ("atomicAdd(&x, 1); z = x", "atomicAdd: 'x' is read-only", 0),
        ("z = x % 2", "% is not defined for float32 and int32; use fmod", None),
        ("z = exp(x, x)", r"exp\(\) takes 1 argument", 4),
        ("z = x[i]", "declare it 'raw'", 4),
        ("for (;;) z = x;", "a loop without a condition", None),
        ("z = x; break;", "break stands outside of a loop", None),
        ("z = x; return x;", "the snippet returns no value", None),
        ("z = yn(2, x)", "unknown function 'yn'", 4),
        ("T t; z = t", "'t' is read before it has a value", 9),
        ("T t = 1; T t = 2; z = t", "declared already", None),
        ("foo t = x; z = t", "unknown type 'foo'", 0),
        ("floaq t = x; z = t", r"unknown type 'floaq' \(did you mean 'float'\?\); use a C or NumPy type name", 0),
        ("z = (floaq)x", r"unknown type 'floaq' \(did you mean 'float'\?\); use a C or NumPy type name", 5),
        ('z = "a"', "is not a number", 4), ("z = x & 1", "& is not defined", None),
        ("z = x }", "C cannot be read|closing brace", None),
        ("#if __CUDA_ARCH__ > 700\nz = x;\n#endif", "is decided by the compiler of a GPU", None),
        ("#error no\nz = x", "#error is not supported", 0),
        ("#include <own.h>\nz = x", "header <own.h> is not known", 0),
        ("#define A A\nz = A", "'A' is not declared", 4),
        ("z = x\u00b2", "cannot stand in C", 5), ("z = x\0", "cannot stand in C", 5),
        ("z = &x", "an address is not a number", 4),
        ("T* p; z = x", "be given its place where it is declared", None),
        ("T* p = &x; z = p[1]", "points to a single number", None),
        ("T* p = &x; z = p", "is an array; index it", 15),
        ("int* p = &x; z = x", "a pointer to int32 cannot lead to float32", None),
        ("T a[2] = {x, x}; z = a[2]", "has 2 element", None),
        ("T a[2]; z = a[0]", "is read before it has a value", None),
        ("T a[n]; z = x", "must be known at translation", None),
        ("T a[2] = {x, x, x}; z = a[0]", "no fewer than values", None),
        ("auto a; z = x", "has no value that says its type", None),
        ("z = x; x > 0 && x < 1;", "a statement without effect; assign", None),
        ("x * x", "a statement without effect: 'x' is not a type, and this a product; assign", 0),
        ("z = x ^ 2", r"cast to an integer, or write pow\(x, y\) for a power", 4),
    ],
)  # fmt: skip
def test_snippet(operation, words, column):
    with pytest.raises((KernelSyntaxError, KernelTypeError), match=words) as caught:
        elementwise("T x", "T z", operation)(X, X.copy())
    if column is not None:
        line, carets = str(caught.value).splitlines()[-2:]
        assert carets.index("^") - 4 == column
        assert line.startswith("    ")


def test_caret_keeps_its_column_behind_comments_and_casts():
    with pytest.raises(KernelSyntaxError) as caught:
        elementwise("T x", "T z", "T a = static_cast<T>(x); // half\n  z = a + bar;")(X)
    message = str(caught.value)
    assert "line 2, column 11" in message
    assert message.splitlines()[-1].index("^") - 4 == 10


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ("T", "expected 'type name'"), ("T x, quux y", "unknown type 'quux'"), ("T 1x", "not a C identifier"),
        ("T \u00e9", "not a C identifier"), ("T x\0", "not a C identifier"), ("T i", "a meaning of its own"),
        ("float **x", "pointer to a pointer"), ("raw T *x", "two notations"), ("T x, ", "expected 'type name'"),
    ],
)  # fmt: skip
def test_signature(params, words):
    with pytest.raises(KernelSyntaxError, match=words) as caught:
        elementwise(params, "T z", "z = 1")
    assert "^" in str(caught.value)


def test_duplicate_parameter():
    with pytest.raises(KernelSyntaxError, match="'x' is declared twice"):
        elementwise("T x", "T x", "x = 1")


def test_name_of_the_kernel():
    for name in ("a b", "f\0", "\u00e9", "x;y"):
        with pytest.raises(KernelSyntaxError, match="not a C identifier"):
            elementwise("T x", "T z", "z = x", name=name)


def test_long_snippet_is_refused():
    with pytest.raises(KernelSyntaxError, match="100004 characters; at most 65536"):
        elementwise("T x", "T z", "z = " + "x" * 100_000)


def test_deep_snippet_is_refused():
    with pytest.raises(KernelSyntaxError, match="nested too deeply"):
        elementwise("T x", "T z", "z = " + "(" * 20_000 + "x" + ")" * 20_000)


def test_long_flat_snippet_works():
    kernel = elementwise("T x", "T z", "T t = x;" + "t = t + 1;" * 2000 + "z = t")
    assert kernel(np.zeros(2)).tolist() == [2000.0, 2000.0]


def _branches(x):
    if x > 0:
        return x
    return -x


def _joins(x):
    return x > 0 and x < 1


def _loops(x):
    for _ in range(x):
        pass


def _converts(x):
    return float(x)


def _recurses(x):
    return _recurses(x - 1)


def _foreign(x):
    return x + [1]


def _too_wide(x):
    return x + 2**40


def _unknown(x):
    return np.gcd(x, 3)


@pytest.mark.parametrize(
    ("function", "words", "line"),
    [
        (_branches, "use where", "if x > 0:"),
        (_joins, "use where", "return x > 0 and x < 1"),
        (_loops, "range", "for _ in range(x):"),
        (_converts, "astype", "return float(x)"),
        (_foreign, "list", "return x + [1]"),
        (_too_wide, "out of range for int32", "return x + 2**40"),
        (_unknown, "no kernel function 'gcd'", "return np.gcd(x, 3)"),
    ],
)
def test_traced_function(function, words, line):
    with pytest.raises((KernelSyntaxError, KernelTypeError), match=words) as caught:
        elementwise(function)(np.ones(3, np.int32))
    message = str(caught.value)
    assert f"    {line}" in message
    assert __file__ in message
    assert "^" in message.splitlines()[-1]


OPERANDS = {0: lambda x: (), 1: lambda x: (x,), 2: lambda x: (x, x), 3: lambda x: (x, x, x)}


@pytest.mark.parametrize(("name", "takes"), [("erf", 1), ("i0", 1), ("xlogy", 2), ("logaddexp2", 2)])
@pytest.mark.parametrize("count", OPERANDS)
def test_a_function_that_is_made_of_others_says_how_many_operands_it_takes(name, takes, count):
    def call(x, /):
        return getattr(x.__array_namespace__(), name)(*given(x))

    given = OPERANDS[count]
    if count != takes:
        with pytest.raises(KernelTypeError, match=rf"{name}\(\) takes {takes} operand\(s\), {count} were given"):
            elementwise(call)(X)


def test_recursion_in_a_traced_function():
    with pytest.raises(KernelSyntaxError, match="recurses without end"):
        elementwise(_recurses)(X)


def test_expressions_cannot_execute_python():
    for operation in ("z = __import__('os')", "z = x.__class__", "z = exec(1)", "z = (lambda: 1)()"):
        with pytest.raises((KernelSyntaxError, KernelTypeError)):
            elementwise("T x", "T z", operation)(X)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: elementwise("T x", "T z", "z = x", preamble=None), "elementwise: preamble=None is not a string"),
        (lambda: elementwise("T x", "T z", "z = x", after_loop=3), "elementwise: after_loop=3 is not a string"),
        (lambda: elementwise("T x", "T z", "z = x", options=None), "options=None is not a list of strings"),
        (lambda: reduction("T x", "T z", map_expr="x", reduce_expr="a + b", identity=0), "reduction: identity=0 is no"),
        (lambda: reduction("T x", "T z", map_expr=None, reduce_expr="a + b"),
            "reduction: map_expr=None is not a string"),
        (lambda: elementwise("T x", "T z", "z = x")(X, out=2), "output 'z' is int, not an array"),
        (lambda: elementwise("T x", "T z", "z = x")(X, 2), "output 'z' is int, not an array"),
        (lambda: elementwise(lambda x: x * 2, name="twice")(X, out=2), "output 'out0' is int, not an array"),
        (lambda: elementwise("raw T x", "T z", "z = x[i]")(X, size=[1, 2]), "size"),
        (lambda: RAW(1, 1, None), "args=None is not a tuple of arguments"),
        (lambda: RAW(1, 1, (X, None)), "argument 'n' is NoneType, and the parameter a number"),
        (lambda: RAW(1, 1, (int, 3)), "argument 'x' is type, and the parameter a pointer"),
    ],
)  # fmt: skip
def test_a_part_of_another_kind(call, words):
    with pytest.raises((KernelSyntaxError, KernelTypeError), match=words):
        call()


def test_an_output_of_a_library_that_torch_follows_is_of_another_backend():
    torch = pytest.importorskip("torch")
    for out in (torch.ones(3), torch.ones(3, requires_grad=True)):
        with pytest.raises(MixedBackendsError, match="argument 'out0' a torch array"):
            elementwise(lambda x: x * 2)(np.ones(3), out=out)


# --- a C definition that no call could use is refused where it is written


NUMBERS = np.arange(1.0, 5.0)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: xl.elementwise("T x", "T y", "y = sqt(x)"), r"5: unknown function 'sqt' \(did you mean 'sqrt'\?\)"),
        (lambda: xl.elementwise("T speed", "T y", "y = sped"), r"'sped' is not declared \(did you mean 'speed'\?\)"),
        (lambda: xl.elementwise("T x", "T y", "y = z + x"), "'z' is not declared; known here are x, y"),
        (lambda: xl.elementwise("T x", "T y", "yy = x"), "'yy' is not declared"),
        (lambda: xl.elementwise("T x", "T y", "x + 1"), "a statement without effect"),
        (lambda: xl.elementwise("T x", "T y, T z", "y = x"), "output 'z' is never written"),
        (lambda: xl.elementwise("float *x, float *y", "y[i] = sqt(x[i])"), "unknown function 'sqt'"),
        (lambda: xl.elementwise("float *x, float *y", "y[i] = x[j]"), "'j' is not declared"),
        (lambda: xl.elementwise("T x", "T y", "y = x.imga()"), r"no method .imga\(\)"),
        (lambda: xl.elementwise("T x", "T y", "y = f(x)", preamble="float f(float v) { return v * q; }"),
         "preamble, line 1, column .*: 'q' is not declared"),
        (lambda: xl.elementwise("T x", "T y", "y = x * k", loop_prep="T k = 2 * kk;"), "'kk' is not declared"),
        (lambda: xl.reduction("T x", "T y", map_expr="sqt(x)", reduce_expr="a + b", post_map_expr="y = a"),
         "map_expr, line 1, column 1: unknown function 'sqt'"),
        (lambda: xl.reduction("T x", "T y", map_expr="x", reduce_expr="a + c", post_map_expr="y = a"),
         "reduce_expr, line 1, column 5: 'c' is not declared"),
        (lambda: xl.reduction("T x", "T y", map_expr="x", reduce_expr="a + b", post_map_expr="z = a"),
         "'z' is not declared"),
        (lambda: xl.reduction("T x", "T y", map_expr="x", reduce_expr="a + b", post_map_expr="y = a", identity="nul"),
         "'nul' is not declared"),
        (lambda: xl.scan("a + c"), "'c' is not declared"),
    ],
)  # fmt: skip
def test_a_name_that_does_not_exist_is_an_error_of_the_definition(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(KernelSyntaxError, match=said):
        make()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: xl.elementwise("T x", "T y", "y = sqrt(x, x)"), r"sqrt\(\) takes 1 argument\(s\), 2 were given"),
        (lambda: xl.elementwise("float x", "float y", "y = x % 2.5f"), "% is not defined for float32"),
        (lambda: xl.elementwise("double *x", "x[i] = x[i] << 1"), "<< is not defined for float64"),
    ],
)
def test_so_is_an_operation_that_no_argument_allows(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(KernelTypeError, match=said):
        make()


@pytest.mark.parametrize(
    ("definition", "good", "bad"),
    [
        (("T x", "T y", "y = x << 1"), np.arange(3), NUMBERS),
        (("T x", "T y", "y = x % 2"), np.arange(3), NUMBERS),
        (("T z", "float64 y", "y = z.real()"), NUMBERS + 1j, NUMBERS),
        (("T x", "T y", "y = x.real() > 0 ? x : -x"), NUMBERS + 1j, NUMBERS),
        (("T x, U k", "T y", "y = x * (k << 2)"), (NUMBERS, np.arange(4)),
            (NUMBERS, NUMBERS)),
        (("U k, T x", "T y", "y = x * (k << 2)"), (np.arange(4), NUMBERS),
            (NUMBERS, NUMBERS)),
        (("raw T x, int32 n", "float64 y", "double s = 0; for (int k = 0; k < n; k++) s += x[k]; y = s"), None, None),
    ],
)  # fmt: skip
def test_what_some_dtypes_allow_is_left_to_the_calls(definition: tuple[str, ...], good: Any, bad: Any) -> None:
    kernel = xl.elementwise(*definition)
    if good is not None:
        kernel(*(good if isinstance(good, tuple) else (good,)))
        with pytest.raises((KernelTypeError, KernelSyntaxError)):
            kernel(*(bad if isinstance(bad, tuple) else (bad,)))


def test_a_number_may_be_declared_raw() -> None:
    kernel = xl.elementwise("raw T a, raw int32 size", "T y", "y = i < size ? a[i] : T(0)")
    assert kernel(NUMBERS, 1, size=3).tolist() == [NUMBERS[0], 0, 0]
    kernel = xl.elementwise("T x, raw T k, raw T l, raw T a", "T y", "y = k < l ? a[i] : x")
    assert kernel(NUMBERS, 1, 2, -NUMBERS).tolist() == (-NUMBERS).tolist()
    total = xl.reduction("T x, raw int32 k", "T y", map_expr="k + x", reduce_expr="a + b", identity="0")
    assert total(NUMBERS, 2) == (NUMBERS + 2).sum()


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float32", "complex64"])
def test_an_identity_or_cast_to_any_dtype_can_be_defined(dtype: str) -> None:
    kernel = xl.elementwise("T x", f"{dtype} y", "y = x")
    assert kernel(np.ones(3, dtype)).dtype == dtype


@given(st.sampled_from(["x + y", "x * y - x", "x & y", "x << 1", "x % y", "x / y", "~x", "!x", "x == y", "(int)x"]))
def test_every_expression_that_works_for_some_dtype_can_be_defined(expression: str) -> None:
    kernel = xl.elementwise("T x, T y", "T z", f"z = {expression}")
    assert kernel(np.ones(3, "int32"), np.ones(3, "int32")).shape == (3,)


NAMED: dict[str, Any] = {
    "elementwise": elementwise("float32 x, int32 n", "float32 y", "y = x + n", name="scale"),
    "generic": elementwise("T x, T n", "T y", "y = x + n", name="scale"),
    "traced": elementwise(lambda x, n: x + n, name="scale"),
    "reduction": reduction(
        "float32 x, int32 n", "float32 y", map_expr="x * n", reduce_expr="a + b", identity="0", name="scale"
    ),
    "raw": raw_module('extern "C" __global__ void scale(float *x, int n) {}').get_function("scale", cpu=print),
}  # fmt: skip
BAD = {
    "dtype": (np.ones(3), 2), "number": (X, 2.5), "complex number": (X, 1j), "large number": (X, 2**40),
    "two dtypes": (X, np.ones(3)), "two shapes": (X, np.ones(4, np.float32)),
    "list": ([1.0], 2), "text": (X, "2"), "None": (X, None), "too few": (X,), "too many": (X, 2, X, X, X),
    "dtype that no device holds": (np.ones(3, np.longdouble), 2), "objects": (np.array([None]), 2),
}  # fmt: skip


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("kind", NAMED)
def test_a_refused_call_names_the_kernel(kind: str, bad: str) -> None:
    """A program has many kernels, and on the simulator an error may come at another line than the call."""
    kernel, args = NAMED[kind], BAD[bad]
    try:
        kernel(1, 32, args) if kind == "raw" else kernel(*args)
    except Exception as error:
        found = error
    else:
        return  # what one kind of kernel refuses is right for another
    assert str(found).startswith("scale"), found
