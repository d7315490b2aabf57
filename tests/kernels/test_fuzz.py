"""Whatever is given as a kernel is read, or refused by an error that says why: in bounded time."""

import string

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from xferlib.errors import XferError
from xferlib.kernels import elementwise, raw_module, reduction

TOKENS = [
    "x", "y", "z", "i", "n", "k", "t", "T", "a", "b", "f", "g", "_ind", "size", "int", "float", "double", "long",
    "unsigned", "const", "raw", "bool", "half", "char", "struct", "return", "if", "else", "for", "while", "do", "break",
    "switch", "sizeof", "static_cast", "complex", "real", "min", "fmax", "pow", "exp", "abs", "round", "isnan",
    "true", "NAN",
    "0", "1", "2", "3", "07", "0x1f", "0x1p3f", "0x1p99999", "1e999", "1.5", ".5f", "1'000", "9" * 40, "9" * 5000,
    "'a'", '"s"', "0b11", "1u", "2ll", "__device__", "inline", "void", "typedef", "...",
    "+", "-", "*", "/", "%", "=", "==", "!=", "<", ">", "<=", "<<", ">>", ">>=", "&", "&&", "|", "||", "^", "~", "!",
    "?", ":", ";", ";", ",", ".", "->", "(", ")", "(", ")", "[", "]", "{", "}", "++", "--", "+=", "-=", "/=", "%=",
    "\\\n", "\n", "//", "/*", "*/", "#", "\0", "\u00e9", "$", "@", "`", "\\",
]  # fmt: skip
SOUP = st.lists(st.sampled_from(TOKENS), max_size=24).map(" ".join)

SNIPPETS = [
    "z = x * 2 + pow(x, 3)",
    "T t = x; for (int k = 0; k < 5; ++k) { if (t > k) t -= k; else t *= 2; } z = t",
    "z = i > 0 && y[i - 1] > 1 ? y[i - 1] : (T)-1",
    "int j = i; y[j] += x; z = y[j] % 3",
    "z = f(x) + static_cast<float>(x) - _ind.size() * min(x, 1e3f)",
    "while (0) ; do z = -x; while (false); z += ~(int)x >> 2;",
]
PREAMBLES = [
    "__device__ T f(T v) { return v * v; }",
    "double f(double v, int w) { if (v < w) return w; else if (v > 3) { return 3; } double t = v; return t; }",
    "float f(float v) { float s = 0; for (int k = 0; k < 4; ++k) s += v / k; return s; }",
]
PARAMS = ["T x", "raw T y, T x", "float *x, const float *y", "T x, int64 n2", "complex<float> x, unsigned char y"]


@st.composite
def mutated(draw, texts):
    """A valid text with some pieces cut, doubled, swapped or replaced."""
    text = draw(st.sampled_from(texts))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 8)))
        piece = draw(st.sampled_from(["", text[start:end] * 2, *TOKENS, *string.punctuation]))
        text = text[:start] + piece + text[end:]
    return text


def _refused_or_run(make):
    x, y, z = np.ones(3), np.arange(3.0), np.zeros(3)
    try:
        kernel = make()
        kernel(*(x, y, z)[: max(1, len(getattr(kernel, "definition", kernel).names))])
    except XferError:
        pass


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.one_of(SOUP, mutated(SNIPPETS)))
@example("z = " + "-(" * 3000 + "x" + ")" * 3000)
@example("z = " + "x + " * 5000 + "x")
@example("".join(f"if (x > {k}) " for k in range(2000)) + "z = x;")
def test_a_snippet(source):
    _refused_or_run(lambda: elementwise("T x, raw T y", "T z", source, preamble=PREAMBLES[0]))
    _refused_or_run(lambda: elementwise("double *x, double *y, double *z", source))


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.one_of(SOUP, mutated(PREAMBLES)))
@example("T f(T v) { return " + "(" * 3000 + "v" + ")" * 3000 + "; }")
@example("T f(T v) { return f(v) + f(v + 1); }")
@example("T f(T v) { " + "if (v) " * 2000 + "return v; return 1; }")
def test_a_preamble(source):
    _refused_or_run(lambda: elementwise("T x", "T z", "z = f(x) + f(x + 1)", preamble=source))
    _refused_or_run(
        lambda: reduction("T x", "T y", map_expr="f(x)", reduce_expr="f(a) + b", post_map_expr="y = a", preamble=source)
    )


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.one_of(SOUP, mutated(["x * x", "y[i + 1] * x", "a + b", "y = sqrt(a)", "0"])), st.integers(0, 3))
def test_a_reduction(source, place):
    texts = ["x * x", "a + b", "z = a", "0"]
    texts[place] = source
    mapped, reduced, post, identity = texts
    _refused_or_run(
        lambda: reduction(
            "T x, T *y", "T z", map_expr=mapped, reduce_expr=reduced, post_map_expr=post, identity=identity
        )
    )


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.one_of(SOUP, mutated(PARAMS), st.text(max_size=20)))
@example("(" * 5000)
@example("float" + " " * 5000)
@example("const " * 3000 + "float x")
@example("float " + "*" * 5000 + "x")
@example("x" + "<" * 3000)
@example("int a" + "\t" * 20000 + "!")
def test_a_parameter_list(text):
    _refused_or_run(lambda: elementwise(text, "T z", "z = x"))
    _refused_or_run(lambda: elementwise(text, "z[i] = x[i]"))
    _refused_or_run(lambda: reduction(text, map_expr="x", reduce_expr="a + b", dtype="float"))
    module = raw_module('extern "C" __global__ void f(float *x) {}')
    try:
        module.get_function("f", signature=text)
        raw_module(f"__global__ void f({text}) {{}}").get_function("f")
    except XferError:
        pass


OPERANDS = ["x", "y", "n", "m", "2", "-3", "0.5", "1j", "True", "2**40", "np.float32(2)", "np.int8(-1)", "np.pi"]
FUNCTIONS = ["abs({})", "-{}", "~{}", "np.sqrt({})", "np.exp({})", "np.where({}, {}, {})", "np.clip({}, {}, {})",
             "np.maximum({}, {})", "({} + {})", "({} * {})", "({} / {})", "({} // {})", "({} % {})",
             "({} ** 2)", "({} ** -1)", "({} ** 0.5)",
             "({} < {})", "({} == {})", "({} & {})", "({} >> {})", "({}).real", "({}).astype('int16')", "np.sum({})",
             "({} if {} else {})", "round({})",
             "np.arctan2({}, {})", "np.copysign({}, {})", "np.round({})"]  # fmt: skip


@st.composite
def expressions(draw, depth=3):
    if depth == 0:
        return draw(st.sampled_from(OPERANDS))
    form = draw(st.sampled_from(FUNCTIONS))
    return form.format(*(draw(expressions(depth=draw(st.integers(0, depth - 1)))) for _ in range(form.count("{}"))))


BUILTIN = (ZeroDivisionError, OverflowError, TypeError, ValueError, AttributeError)
"""The error that Python itself raises for an expression of its own numbers."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float32", "complex64"])
def test_a_python_function(dtype):
    x = np.array([0, 1, 1, 0], dtype)

    @settings(max_examples=50, deadline=None, derandomize=True)
    @given(expressions(), st.sampled_from([0, 3, -2, 300, 2**70, 0.5, True, 1j]), st.sampled_from([1, -7, 2.5]))
    def check(source, n, m):
        kernel = elementwise(eval(f"lambda x, y, n, m: {source}", {"np": np}))
        try:
            kernel(x, x[::-1], n, m)
        except XferError:
            pass
        except BUILTIN as error:
            with pytest.raises(type(error)):  # Python refuses it, too, or NumPy does
                eval(source, {"np": np, "x": x, "y": x[::-1], "n": n, "m": m})

    check()
