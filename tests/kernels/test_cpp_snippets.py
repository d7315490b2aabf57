"""C++ in snippets: macros, templates, references, pointers, local arrays, names of types."""

import numpy as np
import pytest

from tests.kernels.bits import same_bits
from tests.kernels.emulated import all_as_cuda, as_cuda
from xferlib.errors import KernelSyntaxError, KernelTypeError
from xferlib.kernels import elementwise, reduction

pytestmark = pytest.mark.usefixtures("kernels_apart")

X = np.array([-3.5, -1.0, 0.25, 2.0, 5.0, 11.0])

SWAP = "__device__ void order(T& low, T& high) { if (high < low) { T t = low; low = high; high = t; } }"
BOUNDS = """
__device__ bool bounds(T &p, const int limit, int &low, int &high) {
    if (p < -1 || p > limit) return false;
    low = (int)floor(p);
    high = low + 1;
    if (low <= -1) { p = 0; } else if (high >= limit) { p = (T)(limit - 1); }
    return true;
}
"""
STATE = """
inline unsigned step(unsigned* s) { unsigned a = s[0], b = s[1]; s[0] = b; s[1] = a * 5u + b; return s[0] ^ s[1]; }
"""
SEARCH = """
template<typename I> __device__ I find(I value, const I* table, I count) {
    I low = 0, high = count - 1;
    while (low <= high) {
        I middle = (low + high) / 2;
        if (table[middle] == value) { return middle; }
        if (table[middle] < value) { low = middle + 1; } else { high = middle - 1; }
    }
    return (I)(-1);
}
"""

MACROS = """
#define CALL(f, type, ...) f##type(__VA_ARGS__)
#define TWO 2
#define JOINED(a, b) a##b
#define NAMED(a, b) JOINED(a, b)
"""
TEMPLATES = """
template <typename T> __device__ T one() { return 1; }
template <typename A, typename B> __device__ A halved(B b) { return b / (A)2; }
template <typename T> __device__ T third(T a) { return a / 3; }
template <typename T> __device__ T twice_third(T a) { return third<T>(a) * 2; }
template <typename T> __device__ void increase(T& a) { a += 1; }
"""


def _bounds(v: float) -> float:
    if v < -1 or v > 4:
        return -100
    low = int(np.floor(v))
    p = 0 if low <= -1 else 3 if low + 1 >= 4 else v
    return p * 100 + low * 10 + low + 1


def _steps(v: float) -> int:
    a, b, found = 1, int(max(v, 0)), 0
    for _ in range(int(max(v, 0)) % 4):
        a, b = b, a * 5 + b
        found ^= a ^ b
    return found


KERNELS = {
    "object macro": ("#define TWICE (2 * x)\n", "y = TWICE + TWICE;", lambda v: 4 * v),
    "function macro": (
        "#include <math.h>\n#define ADD(a, b) ((a) + (b)) // sum\n#define THREE(x) ADD(x, ADD(x, \\\n x))\n",
        "#pragma unroll\ny = THREE(x * 2);", lambda v: 6 * v,
    ),
    "macro of statements": ("#define BODY T a = x; T b = a * a;\n", "BODY; y = a + b;", lambda v: v + v * v),
    "template": ("template <typename V> V twice(V v) { const V two = 2; return v * two; }",
                 "y = twice(x) + twice(3) + twice(0.5f);", lambda v: 2 * v + 7),
    "reference": (SWAP, "T a = x, b = 1; order(a, b); y = 10 * a + b;", lambda v: 10 * min(v, 1) + max(v, 1)),
    "reference to the output": (SWAP, "T a = 1; y = x; order(a, y); y = 10 * a + y;",
                                lambda v: 10 * min(v, 1) + max(v, 1)),
    "reference behind a sum": (SWAP, "T a[] = {0, x, 1}, *p = a; order((p + 1)[0], (p + 1)[1]); y = 10 * a[1] + a[2]",
                               lambda v: 10 * min(v, 1) + max(v, 1)),
    "references under conditions": (
        BOUNDS, "T p = x; int a, b; y = -100; if (bounds(p, 4, a, b)) { y = p * 100 + a * 10 + b; }", _bounds),
    "pointer": ("", "T a = x; T* p = &a; *p += 1; p[0] *= 2; y = a;", lambda v: 2 * v + 2),
    "local reference": ("", "T a = x; T& r = a; r += 1; y = a;", lambda v: v + 1),
    "local array": ("", "T a[] = {x, 1, 2}; a[1] += a[0]; const int k = 1; y = a[k] * a[2] + sizeof(T);",
                    lambda v: 2 * (1 + v) + 8),
    "two dimensions of a parameter": (
        """T sum(const T p[][2], int k) { return p[k][0] + p[k][1]; }
        void set(T p[3][2], T v) { p[1][0] = v; p[2][1] += v; }
        void both(T p[3][2], T v) { set(p, v); p[0][1] = sum(p, v > 0 ? 2 : 1); }""",
        """T a[3][2] = {{1, 2}, {3, 4}, {5, 6}};
        both(a, x);
        y = sum(a, 0) + 10 * sum(a, 1) + 100 * sum(a, (int)(x > 0) + 1);""",
        lambda v: 1 + (11 + v if v > 0 else v + 4) + 10 * (v + 4) + 100 * (11 + v if v > 0 else v + 4)),
    "computed index": ("", "T a[4] = {1, 2}; a[(int)(x > 0)] = x; int k = x > 3 ? 1 : 0; y = a[k] + a[k + 2] + a[3];",
                       lambda v: v if v > 3 or v <= 0 else 1),
    "two dimensions": (
        "", "T a[2][3]; for (int j = 0; j < 2; j++) for (int k = 0; k < 3; k++) a[j][k] = x * j + k; y = a[1][2];",
        lambda v: v + 2),
    "a first extent that the values say": (
        "", """T a[][3] = {{x, 2}, {4, 5, 6}, 7}, b[][2][2] = {{{1}, {x}}, {5, 6, 7, 8}};
        typedef T row[2]; row c[] = {{1}, {x}};
        y = a[0][2] + 10 * a[1][0] + 100 * a[2][0] + sizeof(a) + b[0][0][1] + b[0][1][0] * b[1][1][1] + c[0][1];
        y += c[1][0];""",
        lambda v: 812 + 8 * v + v),
    "array in a loop": (
        STATE, "int m = max(x, 0.); unsigned s[] = {1, m}, f = 0; for (int j = 0; j < m % 4; j++) f ^= step(s); y = f",
        _steps),
    "reference in a loop": (
        SWAP, "T a = x; for (int j = 0; j < x; j++) { T b = 2; order(b, a); a = a / 2 + b; } y = a;", None),
    "auto": ("", "auto a = x > 0 ? 1 : 2; auto b = a / 2; y = b + x;", lambda v: v + (0 if v > 0 else 1)),
    "auto reference": ("", "T a[] = {x, 1}; auto& p = a[0]; const auto& q = a[1]; T const& r = a[0]; p += q; y = r;",
                       lambda v: v + 1),
    "auto pointer": ("", "T a[] = {x, 1}; auto* p = &a[0]; auto q = &a[1]; p[1] = *p; y = *q + x;", lambda v: 2 * v),
    "constexpr": ("constexpr int two() { return 2; }", "constexpr int three = 3; y = x * three + two();",
                  lambda v: 3 * v + 2),
    "named limits": ("", "y = (FLT_MAX > x) + (x < -DBL_MAX) + (LLONG_MAX - UINT_MAX) * (INT_MIN + INT_MAX)",
                     lambda v: float(1 - (2**63 - 2**32))),
    "bits of numbers": (
        "", "y = x - __int_as_float(__float_as_int(x)) + __longlong_as_double(__double_as_longlong(x) ^ (1ll << 63));",
        lambda v: -v),
    "read by another cache": ("", "T a = x; T* p = &a; y = 2 * __ldg(&a) + __ldg(p);", lambda v: 3 * v),
    "names of types": ("typedef unsigned int word; typedef double uint64_t_like;\nusing real = float;",
                       "using count = long; word w = 3000u; count c = w; real q = 0.1; y = (real)x + c - w; y += q;",
                       lambda v: v + float(np.float32(0.1))),
    "unsigned literal": ("", "y = x + T(18446744073709551615) / T(18446744073709551615);", lambda v: v + 1),
    "sincos": ("", "T s, c; sincos(x, &s, &c); y = s * s + c * c - 1; y = y > 1e-9 || y < -1e-9;", lambda v: 0),
    "assert": ("", "assert(x > 100); y = x;", lambda v: v),
    "joined words": (
        MACROS, "float v2 = x; y = CALL(fabs, f, NAMED(v, TWO)) + CALL(fmin, f, x, 1);", lambda v: abs(v) + min(v, 1)),
    "commas": ("", "float a = x; if constexpr (sizeof(float) == 4) { y = a, a += 1, y *= a; } else y = 0;",
               lambda v: v * (v + 1)),
    "a reference of a type that is named": (TEMPLATES, "y = x; increase<T>(y);", lambda v: v + 1),
    "brackets around names": (
        "", "T a = x; int b = x; y = -(a * (a)) - 1; y = (b * (b)) && x ? y : -(a * (b * (2))) * x;",
        lambda v: -v * v - 1 if int(v) else -0.0),
    "types of one word within brackets": (
        "",
        "y = (long(x)) - (unsigned(7.5) % 4) + (short((x)) * short(2)) + int(sizeof(signed(x))) - (double)(long(-x));",
        lambda v: 4 * int(v) + 1),
    "parameters without names": (
        "struct S { T a; S(T, T a, int) : a(a) {} }; T f(T v, int, int = 4) { return v; } T g(int, T v) { return v; }",
        "y = f(x, 2) + g(1, 5) + S(3, x, 1).a;", lambda v: 2 * v + 5),
    "void function without a call's value": ("void set(T* p, T v) { if (v < 0) return; p[0] = v; }",
                                             "y = 7; set(&y, x);", lambda v: 7 if v < 0 else v),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_a_snippet_means_what_cpp_means(engine, name):
    preamble, operation, by_hand = KERNELS[name]
    found = engine.get(elementwise("T x", "T y", operation, preamble=preamble)(engine.put(X)))
    if by_hand is not None:
        assert found.tolist() == [by_hand(each) for each in X.tolist()]
    assert same_bits(found, elementwise("T x", "T y", operation, preamble=preamble)(X))


def test_its_cuda_source_computes_the_same():
    kernels = {
        name: elementwise("T x", "T y", operation, preamble=preamble)
        for name, (preamble, operation, _) in KERNELS.items()
    }
    found = {name: np.zeros_like(X) for name in kernels}
    all_as_cuda([(kernels[name], X, found[name]) for name in kernels])
    assert [name for name, kernel in kernels.items() if not same_bits(found[name], kernel(X))] == []


def test_pointers_lead_to_elements_of_arrays(engine):
    kernel = elementwise(
        "int32 v, raw int32 table, int32 count", "int32 at",
        "const int* t = &table[0]; at = find(v, t, count) * 100 + find(v, &(table[1]), count - 1);", preamble=SEARCH,
    )  # fmt: skip
    table = np.array([2, 3, 5, 7, 11], np.int32)
    values = np.array([2, 7, 4, 11], np.int32)
    found = engine.get(kernel(engine.put(values), engine.put(table), 5))
    assert found.tolist() == [-1, 302, -101, 403]
    again = np.zeros(4, np.int32)
    as_cuda(elementwise("int32 v, raw int32 table", "int32 at", "at = find(v, &table[0] + 1, 4);", preamble=SEARCH),
            values, table, again)  # fmt: skip
    assert again.tolist() == [-1, 2, -1, 3]


def test_parts_of_complex_elements_are_set(engine):
    operation = "auto a = w[i].imag(); z[i].real(a); z[i].imag(-1); C j(0, 2.); z[i] = z[i] * j;"
    kernel = elementwise("raw C w", "raw C z", operation)
    w = np.array([1 + 2j, 3 - 4j, 0.5j])
    z = engine.put(np.zeros(3, complex))
    kernel(engine.put(w), z, size=3)
    assert engine.get(z).tolist() == [2 + 4j, 2 - 8j, 2 + 1j]


def test_names_of_a_preamble_serve_a_reduction():
    kernel = reduction(
        "T x", "T y", map_expr="SQUARE(x)", reduce_expr="plus(a, b)", post_map_expr="y = (real)a", identity="0",
        preamble="#define SQUARE(v) (v * v)\ntypedef float real; template<class V> V plus(V a, V b) {return a + b;}",
    )  # fmt: skip
    assert float(kernel(np.array([1.0, 2.0, 0.1]))) == float(np.float32(1.0 + 4.0 + 0.1 * 0.1))


def test_a_read_only_array_is_not_written_by_a_pointer():
    with pytest.raises(KernelSyntaxError, match="read-only"):
        elementwise("raw T x", "T y", "T* p = &x[i]; *p = 1; y = 2;")(X, X)
    with pytest.raises(KernelTypeError, match="cannot become one to float64"):
        elementwise("raw int32 x", "T y", "T* p = (T*)&x[i]; y = *p;")(np.arange(6, dtype="i4"), X)


OVERLOADS = {
    "by type": ("float f(float v) { return 1; } float f(int v) { return 2; }",
        "f((float)x) + 10 * f(3) + 100 * f('a')", 221),
    "by count": ("int f(T v) { return 1; } int f(T v, int w) { return 2; } int f() { return 3; }",
        "f(x) + 10 * f(x, 1) + 100 * f()", 321),
    "a function before a template": ("template <typename U> int f(U v) { return 1; } int f(int v) { return 2; }",
        "f(x) + 10 * f(3) + 100 * f(3u)", 121),
    "the nearer template": (
        """template <typename U> U f(U v) { return 1; }
        template <class U> U f(complex<U> z) { return z.imag(); }""",
        "f(x) + 10 * f(complex<T>(x, 2)) + 100 * f(complex<float>(0, 3))",
        321,
    ),
    "by structs": (
        """struct A { int a; }; template <typename U> struct B { U b; }; int f(A a) { return a.a; }
        template <typename U> int f(B<U> b) { return 2 * b.b; } int f(B<int> b) { return 7; }""",
        "f(A{1}) + 10 * f(B<float>{2}) + 100 * f(B<int>{1})",
        741,
    ),
    "by references":
        ("int f(const double& v) { return 1; } int f(const int& v) { return 2; } int f(int* v) { return *v; }",
        "f(x) + 10 * f(k) + 100 * f(k++) + 1000 * k + 10000 * f(&k)", 44221),
    "by promotion": ("int f(double v) { return 1; } int f(int v) { return 2; }",
        "f(1.5f) + 10 * f(true) + 100 * f((short)1)", 221),
}  # fmt: skip


@pytest.mark.parametrize("name", OVERLOADS)
def test_the_arguments_choose_the_function(name):
    preamble, text, expected = OVERLOADS[name]
    kernel = elementwise("T x", "int64 y", f"int k = 3; y = {text}", preamble=preamble)
    assert kernel(np.ones(2)).tolist() == [expected, expected]


# --- the preprocessor, and small words

CONDITIONS = """
#ifndef SCALE
#define SCALE 2  /* the usual one */
#endif
#if SCALE > 2 && defined(SCALE)
__device__ float scaled(float x) { return x * SCALE; }
#elif SCALE == 2
__device__ float scaled(float x) { return x + \\
    x; }
#else
#error no such scale
#endif
"""


@pytest.mark.parametrize(("options", "factor"), [((), 2), (("-DSCALE=3",), 3)])
def test_conditions_of_a_preamble_are_decided(engine, options, factor):
    kernel = elementwise("float x", "float y", "y = scaled(x)", preamble=CONDITIONS, options=options)
    assert engine.get(kernel(engine.put(np.array([1, 2], np.float32)))).tolist() == [factor, 2 * factor]


def test_a_condition_may_lead_to_an_error():
    with pytest.raises(KernelSyntaxError, match="#error"):
        elementwise("float x", "float y", "y = scaled(x)", preamble=CONDITIONS, options=("-DSCALE=1",))(X)


def test_the_argument_of_a_complex_number(engine):
    z = np.array([1 + 1j, -2, -3j], np.complex64)
    found = engine.get(elementwise("complex64 z", "float y", "y = arg(z)")(engine.put(z)))
    assert same_bits(found, engine.get(elementwise(lambda z: np.angle(z))(engine.put(z))))
    assert np.allclose(found, np.angle(z))


# --- templates whose types a call names

CALLS = {
    "one<T>() + x": [2, 8], "halved<double, int>(x)": [0.5, 3.5], "halved<double>(x)": [0.5, 3.5],
    "third<int>(7) + third<double>(7)": [2 + 7 / 3] * 2, "twice_third< int >(x)": [0, 4],
    "third<unsigned int>(-1) > 0": [1, 1], "(n < 3 > (x))": [0, 0],
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_a_call_may_name_the_types_of_a_template(engine, call):
    kernel = elementwise("T x", "float64 y", f"int n = 3; y = {call};", preamble=TEMPLATES)
    found = engine.get(kernel(engine.put(np.array([1.0, 7.0]))))
    assert np.allclose(found, CALLS[call], rtol=1e-15)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("V v{1, 2}, u{3, 4}; y = v.a * 10 + u.b", 14),
        ("V v(1, 2), u(3, 4); y = v.a * 10 + u.b", 14),
        ("V v, u{3, 4}; y = u.b", 4),
        ("int a(1), b(2); y = a * 10 + b", 12),
        ("const double a{1}, b{2}; y = a * 10 + b", 12),
        ("if (x > 0) { y = 1; } double a = fmax(x, fmin(x, 1)), b(3); y = a * b", 7.5),
        ("y = 0; for (int a(0), b{5}; a < b; a++, --b) y += a * b", 10),
        ("y = g(x)", 2),
    ],
)
def test_every_declarator_of_a_declaration_may_have_brackets(source, expected):
    preamble = """
    struct V { double a, b; };
    double f(double a, double b) { return a - b; }
    double g(double v) { double p(1), q(f(v, f(v, 1))); return p + q; }"""
    kernel = elementwise("double x", "double y", source, preamble=preamble)
    assert kernel(np.array([2.5])).tolist() == [expected]


@pytest.mark.parametrize("head", ["while (1)", "while (true)", "for (;;)", "for (int k = 0; ; ++k)"])
def test_a_function_may_end_with_a_loop_that_only_return_leaves(head):
    preamble = f"double f(double v) {{ {head} {{ v *= 0.5; if (v < 1) return v; }} }}"
    kernel = elementwise("double x", "double y", "y = f(x)", preamble=preamble)
    assert kernel(np.array([2.5, 0.5])).tolist() == [0.625, 0.25]
    without = "double f(double v) { while (true) { v += 1; } }"
    with pytest.raises(KernelSyntaxError, match="has no end; add one"):
        elementwise("double x", "double y", "y = f(x)", preamble=without)(np.array([2.5]))


@pytest.mark.parametrize(
    "declared", ["const double n = 2;", "double n() { return 2; }", "enum { n = 2 };", "#define n 2\n"]
)
def test_a_preamble_may_declare_what_cupys_kernels_do_not(declared):
    used = "n()" if "return" in declared else "n"
    assert elementwise("T x", "T y", f"y = x * {used}", preamble=declared)(X).tolist() == (2 * X).tolist()
    texts = {"map_expr": f"x * {used}", "reduce_expr": "a + b", "post_map_expr": "y = a", "identity": "0"}
    total = reduction("T x", "T y", **texts, preamble=declared)
    assert total(X) == (2 * X).sum()


def test_the_size_of_a_call_hides_a_constant_in_pycudas_notation():
    y = X.copy()
    elementwise("double *x, double *y", "y[i] = x[i] * n", preamble="const double n = 2;")(X, y)
    assert y.tolist() == (len(X) * X).tolist()


SAME = "template <typename A> A same(A x, A y) { return x + y; } template <typename A> int none() { return 1; }"


@pytest.mark.parametrize(
    ("preamble", "operation", "words"),
    [
        ("int f(int a, float b) { return 1; } int f(float a, int b) { return 2; }", "y = f(1, 2)",
            "more than one function"),
        ("int f(double a) { return 1; } int f(int a) { return 2; }", "y = f(1LL)", "more than one function f\\(\\)"),
        ("int f(int* a) { return 1; } int f(float* a) { return 2; }", "y = f(1)", "no function f\\(\\)"),
        ("int f(int a) { return 1; } int f(int a, int b) { return 2; }", "y = f(1, 2, 3)", "no function f\\(\\)"),
        (TEMPLATES, "y = x; none<T>(x)", "no template none<>"),
        (TEMPLATES, "y = x; one<T, T>()", "no template one<> of 2"),
        (TEMPLATES, "y = x; halved<>(x)", "what A of"),
        (TEMPLATES, "y = x; increase<int>(y)", "a reference to int32 cannot lead to float64"),
        (SAME, "y = same(x, 1)", "A of the template is float64 by one argument and int32 by another"),
        (SAME, "y = none()", "no argument says what A of the template is"),
        ("template <int N> int f() { return N; }", "y = x", "write a template of types"),
    ],
)  # fmt: skip
def test_calls_that_fit_no_function_are_refused(preamble, operation, words):
    with pytest.raises((KernelSyntaxError, KernelTypeError), match=words):
        elementwise("T x", "T y", operation, preamble=preamble)(X)
