"""Structs, constants, tables, enumerations, switch and numeric limits in snippets, and reductions over structs."""

from __future__ import annotations

import pickle
import re
from typing import Any

import numpy as np
import pytest

from tests.kernels.emulated import as_cuda
from xferlib.errors import KernelSyntaxError, KernelTypeError
from xferlib.kernels import elementwise, reduction

pytestmark = pytest.mark.usefixtures("kernels_apart")

PAIR = "struct Pair { double a; int b; };"
X = np.array([0.5, -1.5, 3.25, 2.0])

MINMAX = """
struct minmax_collector
{
  float cur_min; float cur_max;  // as in PyCUDA's example
  __device__ minmax_collector() { }
  __device__ minmax_collector(float cmin, float cmax) : cur_min(cmin), cur_max(cmax) { }
  __device__ minmax_collector(minmax_collector const &src) : cur_min(src.cur_min), cur_max(src.cur_max) { }
  __device__ minmax_collector volatile &operator=(minmax_collector const &src) volatile
  { cur_min = src.cur_min; cur_max = src.cur_max; return *this; }
};
__device__ minmax_collector agg_mmc(minmax_collector a, minmax_collector b)
{ return minmax_collector(fminf(a.cur_min, b.cur_min), fmaxf(a.cur_max, b.cur_max)); }
"""

PROGRAMS = {
    "members": ("Pair p; p.a = x; p.b = 2; y = p.a * p.b", "", 2 * X),
    "a list": ("Pair p = {x, 2}; y = f(p)", "__device__ double f(Pair p) { return p.a * p.b; }", 2 * X),
    "constructors": (
        "Pair p(x, 2); Pair q{x, 3}; y = f(p) + f(Pair(x, 1)) + f(Pair{x, 10}) + q.b + f(Pair())",
        "__device__ double f(const Pair& p) { return p.a * p.b; }",
        13 * X + 3,
    ),
    "a result": (
        "Pair p = g(x); y = p.a + g(x * 2).b",
        "__device__ Pair g(double v) { Pair r; if (v > 1) { r.a = 1; r.b = 7; return r; } r.a = v; r.b = 1; return r; }",  # noqa: E501
        [1.5, -0.5, 8, 8],
    ),
    "a pointer": ("Pair p(x, 2); h(&p); y = p.a", "__device__ void h(Pair* p) { p->a += p->b; }", X + 2),
    "an address": (
        "Pair p(x, 2); h((&p)->a); y = (&p)->a + (&p)->b",
        "__device__ void h(double& v) { v += 1; }",
        X + 3,
    ),
    "a reference": ("Pair p(x, 2); h(p); y = p.a", "__device__ void h(Pair& p) { p.a += p.b; }", X + 2),
    "a loop": ("Pair p(x, 0); while (p.a < 10) { p.a += 1; p.b += 1; } y = p.b", "", [10, 12, 7, 8]),
    "a choice": ("Pair p(x, 2); Pair q(1, 3); Pair r = x > 0 ? p : q; r.b += 1; y = r.a * r.b", "", [1.5, 4, 9.75, 6]),
    "a branch": ("Pair p(x, 2); if (x > 0) { Pair q(7, 1); p = q; } y = p.a + p.b", "", [8, 0.5, 8, 8]),
    "one within another": (
        "Outer q; q.p.a = x; q.p.b = 1; Outer s = q; s.p.a = 9; s.c = 2; y = q.p.a + s.p.b * s.c",
        "struct Outer { Pair p; float c; };",
        X + 2,
    ),
    "a typedef": ("M m = {x, x}; m.lo -= 1; y = m.lo + m.hi", "typedef struct { float lo, hi; } M;", 2 * X - 1),
    "a template": ("Pair p(x, 1); y = same(p).a", "template <typename U> __device__ U same(U u) { return u; }", X),
    "auto and sizeof": ("auto p = Pair(x, 1); y = p.a + sizeof(Pair) + sizeof(p)", "", X + 32),
    "struct as a word": ("struct Pair p = {x, 4}; y = p.b", "", [4, 4, 4, 4]),
    "as PyCUDA has them": (
        "minmax_collector m = agg_mmc(minmax_collector(x, x), minmax_collector(0, 1)); y = m.cur_max - m.cur_min",
        MINMAX,
        [1, 2.5, 3.25, 2],
    ),
    "structs of the same numbers": (
        "y = f(Pair{x, 1}) - f(Swapped{x, 1})",
        "struct Swapped { double b; int a; }; template <typename U> __device__ double f(U u) { return u.a - 2 * u.b; }",
        3 * X - 3,
    ),
    "arguments of the same numbers": (
        "y = f(make_double2(x, 1), x) - 10 * f(x, make_double2(1, x))",
        "template <typename U, typename V> __device__ int f(U u, V v) { return sizeof(u) + 2 * sizeof(v); }",
        [32 - 10 * 40] * 4,
    ),
    "constructors of every plain form": (
        "Full p(x, 2); Full q(p); Full r; r = q; Full s(x); Full z = Full(); y = r.a * r.b + z.a + z.b + s.b",
        """struct Full { double a; int b; public: Full() : a(0.0), b() { }
        explicit Full(const double &a) { this->a = a; } Full(double v, int const b) : a(v) { this->b = b; }
        Full(const Full &o) : b(o.b), a(o.a) { } Full &operator =(Full o) { a = o.a; this->b = o.b; return *this; } };
        """,
        2 * X,
    ),
    "vectors": (
        "float3 v = make_float3(x, 2, 3); v.x += 1; y = dot(v, v) + make_int2(4, 5).y",
        "__device__ float dot(float3 a, float3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }",
        (X + 1) ** 2 + 18,
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_structs_in_snippets(engine, name):
    text, preamble, expected = PROGRAMS[name]
    kernel = elementwise("T x", "T y", text, preamble=PAIR + preamble)
    assert engine.get(kernel(engine.put(X))).tolist() == np.asarray(expected, float).tolist()


@pytest.mark.parametrize("name", ["a result", "a loop", "as PyCUDA has them"])
def test_the_cuda_source_computes_the_same(name):
    text, preamble, expected = PROGRAMS[name]
    found = np.zeros_like(X)
    as_cuda(elementwise("T x", "T y", text, preamble=PAIR + preamble), X, found)
    assert found.tolist() == np.asarray(expected, float).tolist()


def test_a_reduction_over_structs(engine):
    x = np.random.default_rng(5).normal(size=(7, 3000)).astype(np.float32)
    kinds = {"identity": "minmax_collector(10000, -10000)", "dtype": "minmax_collector", "preamble": MINMAX}
    pair = reduction("float *x", map_expr="minmax_collector(x[i], x[i])", reduce_expr="agg_mmc(a, b)", **kinds)
    least, most = map(engine.get, pair(engine.put(x.ravel())))
    assert (least, most) == (x.min(), x.max())
    text = "lo = a.cur_min; hi = 2 * a.cur_max"
    named = reduction(
        "T x", "T lo, T hi", map_expr="minmax_collector(x, x)", reduce_expr="agg_mmc(a, b)", post_map_expr=text, **kinds
    )
    low, high = map(engine.get, pickle.loads(pickle.dumps(named))(engine.put(x), axis=1))
    assert (low.tolist(), high.tolist()) == (x.min(1).tolist(), (2 * x.max(1)).tolist())
    empty = map(engine.get, named(engine.put(x[:, :0]), axis=1))
    assert [each.tolist() for each in empty] == [[10000.0] * 7, [-20000.0] * 7]


def test_a_sum_over_structs_is_one_over_each_member():
    x = np.random.default_rng(6).normal(size=10_001)
    preamble = "struct Moments { double s, q; }; __device__ Moments add(Moments a, Moments b) "
    preamble += "{ return Moments{a.s + b.s, a.q + b.q}; }"
    both = reduction("T x", map_expr="Moments(x, x * x)", reduce_expr="add(a, b)", dtype="Moments", preamble=preamble)
    plain = [reduction("T x", "T y", map_expr=text, reduce_expr="a + b") for text in ("x", "x * x")]
    assert [each.tolist() for each in both(x)] == [each(x).tolist() for each in plain]


def test_constants_tables_and_enumerations(engine):
    preamble = """
    __constant__ double K[3] = {1, 2, 3};
    static const int N = 3;
    typedef enum { A, B = 5, C } Kind;
    enum Other { D = 3 };
    __device__ Kind next(enum Other d) { return d == D ? C : A; }
    __device__ double f(double v) { return K[2] + N * v; }
    """
    kernel = elementwise("T x, int32 k", "T y", "Kind c = next(D); y = x * K[k] + N + c + f(x)", preamble=preamble)
    k = np.array([0, 1, 2, 1], np.int32)
    expected = X * np.array([1.0, 2, 3, 2]) + 3 + 6 + 3 + 3 * X
    assert engine.get(kernel(engine.put(X), engine.put(k))).tolist() == expected.tolist()


def test_errors_behind_an_enumeration_are_of_their_lines():
    for enum in (
        "typedef enum\nKind\n{\n A\n}\nName;",
        "enum\nKind {\n A, B\n}\n;\n",
        "typedef\nenum {\n\n A }\nName;",
    ):
        preamble = f"{enum}\n__device__ int f(double v) {{ return w; }}"
        line = preamble.count("\n") + 1
        with pytest.raises(KernelSyntaxError, match=rf"preamble, line {line}, .*'w' is not declared"):
            elementwise("T x", "T y", "y = f(x)", preamble=preamble)(X)


def test_constants_hide_behind_parameters_and_are_not_written():
    assert elementwise("T x, T N", "T y", "y = x + N", preamble="const int N = 3;")(X, 1.0).tolist() == (X + 1).tolist()
    for text in ("K[1] = 2; y = x", "N = 2; y = x", "N++; y = x"):
        with pytest.raises(KernelSyntaxError, match="is read-only here"):
            elementwise("T x", "T y", text, preamble="const double K[2] = {1, 2}; const int N = 3;")(X)
    structs = PAIR + "struct Outer { Pair p; int c; }; const Pair Z = {4, 5}; const Outer O = {{4, 5}, 6};"
    for text in ("Z.a = 3; y = Z.a * x", "O.p.b = 3; y = x", "O.c++; y = x", "Pair q; Z = q; y = x"):
        with pytest.raises(KernelSyntaxError, match="is read-only here"):
            elementwise("T x", "T y", text, preamble=structs)(X)
    assert elementwise("T x", "T y", "Pair q = Z; q.a += O.c; y = q.a * x", preamble=structs)(X).tolist() == [*(10 * X)]
    total = reduction(
        "T x", "T y", map_expr="x * N", reduce_expr="a + b", identity="N - 3", preamble="const int N = 3;"
    )
    assert total(X) == 3 * X.sum()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("switch (n) { case 1: y = 10; break; case 2: case 3: y = 20; break; default: y = -n; }", [0, 10, 20, 20, -4]),
        ("y = 0; switch (n) { case 1: y += 1; case 2: y += 2; break; case 3: y += 4; }", [0, 3, 2, 4, 0]),
        ("y = 0; switch (n) { default: y += 8; case 2: y += 2; break; case 3: y += 4; }", [10, 10, 2, 4, 10]),
        ("y = 7; switch (n) { case 0: return; case 1: y = 1; } y += 1;", [7, 2, 8, 8, 8]),
        ("y = 0; for (int k = 0; k < n; ++k) switch (k) { case 1: continue; case 2: y += 9; break; default: ++y; }",
         [0, 1, 1, 10, 11]),
        ("y = 0; while (y < n) { switch (n) { case 4: break; default: y += 1; } y += 1; }", [0, 2, 2, 4, 4]),
        ("y = f(n)", [5, 6, 7, 7, 7]),
        ("switch (n > 2) { case true: { int k = 5; y = k; break; } default: y = 1; }", [1, 1, 1, 5, 5]),
    ],
)  # fmt: skip
def test_cases_fall_through_and_jumps_leave_them(engine, text, expected):
    n = np.arange(5, dtype=np.int32)
    f = "__device__ int f(int n) { switch (n) { case 0: return 5; case 1: return 6; default: return 7; } }"
    assert engine.get(elementwise("int32 n", "int32 y", text, preamble=f)(engine.put(n))).tolist() == expected


def test_a_switch_promotes_its_value(engine):
    text = "switch (c) { case 300: z = 1; break; case -1: z = 2; break; case 2: z = 4; break; default: z = 3; }"
    for dtype, values, expected in (
        ("uint8", [44, 1, 255], [3, 3, 3]),
        ("int8", [44, -1, 2], [3, 2, 4]),
        ("bool", [False, True], [3, 3]),
        ("uint32", [300, 2**32 - 1], [1, 2]),
        ("uint64", [2**64 - 1, 2**32 - 1], [2, 3]),
    ):
        kernel = elementwise(f"{dtype} c", "int32 z", text)
        assert engine.get(kernel(engine.put(np.array(values, dtype)))).tolist() == expected


def test_limits():
    text = "a = std::numeric_limits<T>::max(); b = numeric_limits<int>::min(); c = numeric_limits<float>::infinity();"
    a, b, c = elementwise("T x", "T a, int32 b, float32 c", text)(X)
    assert (a[0], b[0], c[0]) == (np.finfo(float).max, -(2**31), np.inf)
    for name, value in (("min", np.finfo("f4").tiny), ("lowest", np.finfo("f4").min), ("epsilon", np.finfo("f4").eps)):
        assert elementwise("float32 x", "float32 y", f"y = numeric_limits<float>::{name}()")(X.astype("f4"))[0] == value
    with pytest.raises(KernelSyntaxError, match=r"numeric_limits of float64 have no digits\(\)"):
        elementwise("T x", "T y", "y = numeric_limits<T>::digits()")(X)


CONSTRUCTORS = {
    "Q(float u, float v) : a(u), b(v) { a = u * 100; }": ("Q q(x, 2)", 100 * X + 2, 2),
    "Q(float u) : a(0), b(-2) { if (u > 0) b = u; }": ("Q q(x)", [0.5, -2, 3.25, 2], [0.5, -2, 3.25, 2]),
    "Q(float u, float v) : b{v * 2 + a}, a(u + v) { }": ("Q q{x, 2}", 2 * X + 8, X + 6),
    "Q(float b, float a) : a(a), b(b) { this->a += b; }": ("auto q = Q(x, 2)", X + X + 2, X),
    "Q(int u) : a(u) { }": ("Q q = Q(x * 2)", np.trunc(2 * X), 0),
    "Q() { a = 5; b = 7; }": ("Q q", 12, 7),
    "Q() : a(5), b{7} { }": ("Q q = Q(); Q p{}; q.a += p.b - 7", 12, 7),
    "Q(float u, float v = 3, float w = 4) : a(u + w), b(v) { }": ("Q q(x); q.b += Q(1, 2, 3).b", X + 9, 5),
    "Q(float u) : Q(u, 1) { } Q(float u, float v) : a(u), b(v) { b += a; }": ("Q q(x)", 2 * X + 1, X + 1),
    "Q() : Q(1) { } Q(float u) : a(u), b(sizeof(Q)) { float c = a; { a = c + b; } }": ("Q q", 17, 8),
    "Q(double u) : a(u), b(1) { } Q(int u) : a(u), b(2) { }": ("Q q(x); q.a += Q(3).b", X + 3, 1),
    "typedef float R; Q(R u, R(v)) : a(u), b(v) { }": ("Q q(x, 1)", X + 1, 1),
    "Q(const float& u, P p) : a(u * p.c), b(p.c) { }": ("Q q(x, P(2))", 3 * X + 3, 3),
}


@pytest.mark.parametrize("function", CONSTRUCTORS)
def test_constructors(function):
    text, sums, b = CONSTRUCTORS[function]
    preamble = f"struct P {{ float c; P(int c) : c(c + 1) {{ }} }}; struct Q {{ float a, b; {function} }};"
    y, z = elementwise("T x", "T y, T z", f"{text}; y = q.a + q.b; z = q.b", preamble=preamble)(X)
    assert (y.tolist(), z.tolist()) == ((sums + 0 * X).tolist(), (b + 0 * X).tolist())


def test_a_constructor_makes_the_members_that_have_one():
    preamble = "struct P { int c; P() : c(-1) {} }; struct Q { P p; float d; Q(float d) : d(d) {} }; struct R { Q q; };"
    kernel = elementwise("T x", "T y", "Q q(x); R r = {Q(x)}; P p; y = q.p.c + q.d + p.c + r.q.p.c", preamble=preamble)
    assert kernel(X).tolist() == (X - 3).tolist()
    with pytest.raises(KernelTypeError, match="Q has no constructor for these 0 values"):
        elementwise("T x", "T y", "Q q; y = q.d", preamble=preamble)(X)
    with pytest.raises(KernelTypeError, match="more than one constructor for these 1 values; cast them"):
        elementwise("T x", "T y", "Q q(1LL); y = q.d", preamble="struct Q { T d; Q(T v):d(v){} Q(int v):d(v){} };")(X)


@pytest.mark.parametrize(
    "function",
    [
        "Q() { count(); }", "Q(float *u) : a(*u) { }", "Q(float u) : c(u) { }",
        "Q(const Q& o) : a(o.a * 2), b(o.b) { }", "Q(const Q& o) : a(o.b), b(o.a) { }", "Q(const Q& o) : a(o.a) { }",
        "Q(const Q& o) { }",
        "Q& operator=(const Q& o) { a = o.a * 2; b = o.b; return *this; }",
        "Q& operator=(const Q& o) { a = o.a; return *this; b = o.b; }",
        "Q& operator=(float v) { a = v; return *this; }",
        "friend float dot(const Q& o) { return a * o.a + b * o.b; }",
        "template <typename V> Q(V u) : a(u) { }", "operator float() { return a; }",
        "float operator()(float v) { return a * v; }",
        "virtual float f() { return a; }",
    ],
)  # fmt: skip
def test_other_functions_of_a_struct_are_refused(function):
    with pytest.raises((KernelSyntaxError, KernelTypeError)):
        elementwise("T x", "T y", "Q q(Q(x)); y = q.a", preamble=f"struct Q {{ float a, b; {function} }};")(X)


@pytest.mark.parametrize("operator", ["operator()", "operator[]", "operator->"])
def test_an_operator_that_is_not_supported_is_named(operator):
    preamble = (
        f"struct Q {{ float a; float &{operator}({'' if operator == 'operator->' else 'int k'}) {{ return a; }} }};"
    )
    with pytest.raises(
        KernelSyntaxError, match=f"struct Q has a function {re.escape(operator)}, which is not supported"
    ):
        elementwise("T x", "T y", "Q q; q.a = x; y = q.a", preamble=preamble)


LOWEST = """
template <typename T>
struct lowest {  // as in CuPy's reductions
    T value;
    int index;
    __device__ lowest() : index(-1) { }
    __device__ lowest(T v, int i) : value(v), index(i) { }
};
template <typename T>
__device__ lowest<T> lower(const lowest<T>& a, const lowest<T>& b) {
    if (a.index == -1) return b;
    if (b.index == -1) return a;
    if (a.value == b.value) return lowest<T>(a.value, min(a.index, b.index));
    return a.value <= b.value ? a : b;
}
"""
BOX = "template <typename A> struct Box { A v; };"
TEMPLATES = {
    "CuPy's": ("lowest<T> a(x, i), b; b = lower(a, b); y = b.value + lower(b, lowest<T>{1, 9}).index", LOWEST,
        X + [0, 1, 9, 9]),
    "two types": (
        "Two<int, T> p = {x, x}; y = f(p) + sizeof(Two<char, char>)",
        """template <typename A, class B> struct Two { A a; B b; };
        template <typename A, typename B> __device__ B f(Two<A, B> p) { return p.a - p.b; }""",
        np.trunc(X) - X + 2,
    ),
    "one within another": ("Box<Box<float>> p; p.v.v = x; using I = Box<unsigned int>; I q{3}; y = p.v.v + q.v + g(p)",
        BOX + "template <typename A> __device__ A g(Box<Box<A>> p) { A a = 2; return a * p.v.v; }", 3 * X + 3),
    "a template's member": ("Line<T> l; l.from.v = x; l.to.v = 2; y = l.to.v - l.from.v",
        BOX + "template <typename A> struct Line { Box<A> from, to; };", 2 - X),
    "chosen types": ("""typename std::conditional<std::is_same<T, float>::value, int, T>::type a = x;
        using S = typename cupy::type_traits::conditional<
            cupy::type_traits::is_same<T, double>::value, short, T>::type;
        y = a + sizeof(S)""", "", X + 2),
}  # fmt: skip


@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_of_structs(name):
    text, preamble, expected = TEMPLATES[name]
    kernel = elementwise("T x", "T y", text, preamble=preamble)
    assert kernel(X).tolist() == np.asarray(expected, float).tolist()
    found = np.zeros_like(X)
    as_cuda(kernel, X, found)
    assert found.tolist() == np.asarray(expected, float).tolist()


def test_a_reduction_over_a_template_of_structs():
    kernel = reduction(
        "T x, int32 k", "T y, int32 z", map_expr="lowest<T>(x, k)", reduce_expr="lower(a, b)",
        post_map_expr="y = a.value; z = a.index", identity="lowest<T>()", dtype="lowest<T>", preamble=LOWEST,
    )  # fmt: skip
    for dtype in ("float32", "int64"):
        x = np.random.default_rng(3).integers(-50, 50, (40, 30)).astype(dtype)
        y, z = kernel(x, np.arange(30, dtype="i4"), axis=1)
        assert (y.dtype, y.tolist(), z.tolist()) == (dtype, x.min(1).tolist(), x.argmin(1).tolist())


def test_a_map_that_indexes_freely_gives_no_struct():
    with pytest.raises(KernelSyntaxError, match="the map indexes an array freely and gives a Pair"):
        reduction("raw double x", map_expr="Pair(x[i], x[0])", reduce_expr="a", dtype="Pair", preamble=PAIR)(X)


# --- operators and functions of structs: each expected value is what g++ gives for the same text


VECTORS = """
__device__ float3 operator+(const float3& a, const float3& b) { return make_float3(a.x + b.x, a.y + b.y, a.z + b.z); }
__device__ float3 operator*(float3 a, float s) { return make_float3(a.x * s, a.y * s, a.z * s); }
__device__ float3 operator*(float s, float3 a) { return a * s; }
__device__ float operator*(float3 a, float3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
__device__ float3 operator-(float3 a) { return make_float3(-a.x, -a.y, -a.z); }
__device__ float3 operator -(float3 a, float3 b) { return a + -b; }
__device__ void operator+=(float3 &a, float3 b) { a.x += b.x; a.y += b.y; a.z += b.z; }
__device__ bool operator==(float3 a, float3 b) { return a.x == b.x && a.y == b.y; }
__device__ bool operator<(float3 a, float3 b) { return a.x < b.x; }
"""
PLANE = """
struct Q {
  float re, im;
  Q(float r, float i = 1) : re(r), im(i) {}
  float norm() const { return re * re + im * im; }
  Q operator*(const Q& o) const { return Q(re * o.re - im * o.im, re * o.im + im * o.re); }
  Q& operator+=(const Q& o) { re += o.re; im += o.im; return *this; }
  Q operator-() const { return Q(-re, -im); }
  bool operator<(float v) const { return norm() < v; }
  void scale(float f, float g = 2) { re *= f; this->im *= g; }
  Q twice() const { Q q = *this; q.scale(2); return q; }
};
"""
VALUE_BOX = """
template <typename A> struct Box {
  A v;
  Box() : v(3) {}
  Box(A w) : v(w) {}
  Box operator+(const Box& o) const { return Box(v + o.v); }
  A get() const { return v; }
  void add(A w) { v += w; }
};
template <typename A> Box<A> operator*(Box<A> a, Box<A> b) { return Box<A>(a.v * b.v); }
"""
NAMES = (
    "struct P { double a; double f(double v) { return a * v; } double f(int v, double w = 2) { return a + v + w; } };"
)
FUNCTIONS = {
    "vectors": (
        VECTORS,
        """float3 a = make_float3(x, 1, 2), b = make_float3(2, x, 3); float3 c = a + b * 2.f - 0.5f * a; c += -a;
        y = c.x + 10 * c.y + 100 * c.z + (a * b) + (a == b) + 2 * (a < b)""",
        [518.25, 473.25, 578.125, 550.0],
    ),
    "a plane": (PLANE, """Q q(x); Q r = q * q * Q(2); r += q; r.scale(3);
        y = r.norm() + (-q).re + r.twice().im + (q < 3.f)""", [65.75, 186.75, 4579.90625, 766.0]),
    "in a loop":
        (PLANE, "Q q(x, 0); for (int k = 0; k < 3; ++k) { q += Q(k); if (q < 20.f) q.scale(1.5f); } y = q.re - q.im",
        [-2.375, -6.875, 3.875, 2.0]),
    "in a loop that ends with the data":
        (PLANE,
        "Q q(x, 0.25f); int k = 0; while (q < 50.f) { q.scale(2); ++k; if (k > 20) break; } y = q.re - q.im + k",
        [8.0, -11.0, 14.0, 9.0]),
    "a pointer": (PLANE, """Q q(x); Q* p = &q; p->scale(2);
        y = p->norm() + q.re""", [6.0, 10.0, 52.75, 24.0]),
    "a template": (VALUE_BOX, """Box<T> a(x), b; a.add(1);
        y = (a + b).get() * 2 + (a * b).v; Box<int> c(3); c.add(2.7);
        y += c.get()""", [18.5, 8.5, 32.25, 26.0]),
    "functions of one name": (NAMES, """P p = {x};
        y = p.f(2.5) + p.f(1) + p.f(1, 1.0)""", [7.25, -1.75, 19.625, 14.0]),
}  # fmt: skip


def test_a_reduction_adds_by_an_operator() -> None:
    kernel = reduction(
        "float32 x", "float32 y", map_expr="make_float3(x, 1, x * x)", reduce_expr="a + b",
        post_map_expr="y = a.z / a.y - a.x", dtype="float3", preamble=VECTORS,
    )  # fmt: skip
    assert kernel(np.array([1, 2, 3, 6], "f4")) == 12.5 - 12


@pytest.mark.parametrize("name", FUNCTIONS)
def test_operators_and_functions_of_structs(name: str) -> None:
    preamble, text, expected = FUNCTIONS[name]
    kernel = elementwise("T x", "T y", text, preamble=preamble)
    found: Any = np.zeros_like(X)
    as_cuda(kernel, X, found)
    assert (kernel(X).tolist(), found.tolist()) == (expected, expected)


WRONG = [
    ("Pair p(x, 1); y = p + 1", "", "a Pair is not a number; take a member of it"),
    ("Pair p(x, 1); y = p", "", "'y' is float64, and a struct is assigned"),
    ("Pair p(x, 1); y = p.c", "", "Pair has no member 'c'; its members are a, b"),
    ("y = x.a", "", "a scalar has no members"),
    ("Pair p(x, 1, 2); y = p.a", "", r"Pair has 2 member\(s\), 3 are given"),
    ("Pair p(x, 1); Other q(1); p = q; y = p.a", "struct Other { double a; };", "is a Pair"),
    ("y = f(x)", "__device__ double f(Pair p) { return p.a; }", "is a float64, and must be Pair"),
    ("y = x", "struct Q { double* v; };", "is neither a number nor a struct"),
    ("y = x", "struct Q { int n; ~Q() { n = 0; } };", "is not supported; write it outside of it"),
    ("y = x", "struct Q { int a, b; Q(int u) : c(u) {} };", "':? ?c\\(u\\)' sets no member"),
    ("Q q; q.a = 1; y = x", "struct Q { foo a; };", "struct Q: unknown type 'foo' of member 'a'"),
    ("union U { int a; } u; y = x", "", "union is not supported"),
    ("y = x", "int n;", "'n' is a variable of all elements"),
    ("Pair* p[2]; y = x", "", "an array of pointers is not supported"),
    ("switch (x) { case 1: y = 1; }", "", "switch needs an integer, not float64"),
    ("Box<int, int> b; y = x", BOX, r"the template takes 1 type\(s\)"),
    ("Box b; y = x", BOX, r"the template takes 1 type\(s\)"),
    ("Box<foo> b; y = x", BOX, "give C or NumPy type names"),
    ("y = x", "template <int N> struct Box { int v; };", "its parameters must be types"),
    ("y = f(Box<T>{x})", BOX + "int f(Box<int> b) { return b.v; }", "must be"),
    ("Q a = {x}; y = (a + a).v", "struct Q { T v; };", "a Q is not a number"),
    ("Q a = {x}; a += a; y = a.v", "struct Q { T v; Q operator+(Q o) { return o; } };", "a Q is not a number"),
    ("Q a = {x}; y = a.g()", "struct Q { T v; T f() { return v; } };", r"no method \.g\(\)"),
    ("Q a = {x}; y = a.f(1)", "struct Q { T v; T f() { return v; } };", r"f\(\) takes 0 argument\(s\), 1 were given"),
    ("Q a = {x}; y = a + 1", "struct Q { T v; }; T operator+(Q a, Q b) { return 1; }", "must be Q"),
    ("y = x.f()", "struct Q { T v; T f() { return v; } };", r"no method \.f\(\)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "preamble", "words"), WRONG)
def test_mistakes_are_told(text: str, preamble: str, words: str) -> None:
    with pytest.raises((KernelSyntaxError, KernelTypeError), match=words):
        elementwise("T x", "T y", text, preamble=PAIR + preamble)(X)
