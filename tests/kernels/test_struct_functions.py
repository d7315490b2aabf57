"""Operators and functions of structs in preambles: each expected value is what g++ gives for the same text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.kernels.emulated import as_cuda
from xferlib.errors import KernelSyntaxError, KernelTypeError
from xferlib.kernels import elementwise, reduction

X = np.array([0.5, -1.5, 3.25, 2.0])

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
BOX = """
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
PROGRAMS = {
    "vectors": (
        VECTORS,
        """float3 a = make_float3(x, 1, 2), b = make_float3(2, x, 3); float3 c = a + b * 2.f - 0.5f * a; c += -a;
        y = c.x + 10 * c.y + 100 * c.z + (a * b) + (a == b) + 2 * (a < b)""",
        [518.25, 473.25, 578.125, 550.0],
    ),
    "a plane": (
        PLANE,
        """Q q(x); Q r = q * q * Q(2); r += q; r.scale(3);
        y = r.norm() + (-q).re + r.twice().im + (q < 3.f)""",
        [65.75, 186.75, 4579.90625, 766.0],
    ),
    "in a loop": (
        PLANE,
        "Q q(x, 0); for (int k = 0; k < 3; ++k) { q += Q(k); if (q < 20.f) q.scale(1.5f); } y = q.re - q.im",
        [-2.375, -6.875, 3.875, 2.0],
    ),
    "in a loop that ends with the data": (
        PLANE,
        "Q q(x, 0.25f); int k = 0; while (q < 50.f) { q.scale(2); ++k; if (k > 20) break; } y = q.re - q.im + k",
        [8.0, -11.0, 14.0, 9.0],
    ),
    "a pointer": (
        PLANE,
        """Q q(x); Q* p = &q; p->scale(2);
        y = p->norm() + q.re""",
        [6.0, 10.0, 52.75, 24.0],
    ),
    "a template": (
        BOX,
        """Box<T> a(x), b; a.add(1);
        y = (a + b).get() * 2 + (a * b).v; Box<int> c(3); c.add(2.7);
        y += c.get()""",
        [18.5, 8.5, 32.25, 26.0],
    ),
    "functions of one name": (
        NAMES,
        """P p = {x};
        y = p.f(2.5) + p.f(1) + p.f(1, 1.0)""",
        [7.25, -1.75, 19.625, 14.0],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_operators_and_functions_of_structs(name: str) -> None:
    preamble, text, expected = PROGRAMS[name]
    kernel = elementwise("T x", "T y", text, preamble=preamble)
    assert kernel(X).tolist() == expected
    found: Any = np.zeros_like(X)
    as_cuda(kernel, X, found)
    assert found.tolist() == expected


def test_a_reduction_adds_by_an_operator() -> None:
    kernel = reduction(
        "float32 x", "float32 y", map_expr="make_float3(x, 1, x * x)", reduce_expr="a + b",
        post_map_expr="y = a.z / a.y - a.x", dtype="float3", preamble=VECTORS,
    )  # fmt: skip
    assert kernel(np.array([1, 2, 3, 6], "f4")) == 12.5 - 12


@pytest.mark.parametrize(
    ("text", "preamble", "words"),
    [
        ("Q a = {x}; y = (a + a).v", "struct Q { T v; };", "a Q is not a number"),
        ("Q a = {x}; a += a; y = a.v", "struct Q { T v; Q operator+(Q o) { return o; } };", "a Q is not a number"),
        ("Q a = {x}; y = a.g()", "struct Q { T v; T f() { return v; } };", r"no method \.g\(\)"),
        (
            "Q a = {x}; y = a.f(1)",
            "struct Q { T v; T f() { return v; } };",
            r"f\(\) takes 0 argument\(s\), 1 were given",
        ),
        ("Q a = {x}; y = a + 1", "struct Q { T v; }; T operator+(Q a, Q b) { return 1; }", "must be Q"),
        ("y = x.f()", "struct Q { T v; T f() { return v; } };", r"no method \.f\(\)"),
    ],
)
def test_mistakes_are_told(text: str, preamble: str, words: str) -> None:
    with pytest.raises((KernelSyntaxError, KernelTypeError), match=words):
        elementwise("T x", "T y", text, preamble=preamble)(X)
