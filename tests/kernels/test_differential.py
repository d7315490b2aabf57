"""Snippets against a C++ compiler: random programs, compiled many at a time, give the same bits or are refused."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.kernels import random_programs
from tests.kernels.bits import same_bits
from xferlib.errors import KernelSyntaxError, KernelTypeError
from xferlib.kernels import elementwise, reduction
from xferlib.testing import configured

LONG = "XFERLIB_TEST_LONG"
"""The variable for many programs, from a seed that it gives: ``XFERLIB_TEST_LONG=1``."""
FEW, MANY, BATCH = 100, 5000, 200
MOST_REFUSED = 0.1

X = np.array([0.0, -0.0, 1.5, -2.25, 3.0, 7.5, -1.0, 0.1, 1e30, -1e5, np.inf, np.nan])
K = np.array([0, 1, -1, 2, 3, 7, -8, 100, 5, 4, 2**31 - 1, -(2**31)], np.int32)
A = np.array([1.0, -2.5, 0.5, 3.25, -0.75, 10.0, 2.0, -4.0])
_FLAGS = ("-O0", "-w", "-std=c++17", "-fwrapv", "-ffp-contract=off", "-frounding-math", "-shared", "-fPIC")


def _seeds() -> range:
    start = os.environ.get(LONG)
    return range(FEW) if not start else range(int(start) * 1_000_000, int(start) * 1_000_000 + MANY)


def _batches(seeds: range) -> Iterator[range]:
    return (seeds[start : start + BATCH] for start in range(0, len(seeds), BATCH))


def _compiled(programs: list[random_programs.Program], number: str, folder: Path) -> ctypes.CDLL:
    name = f"{number}{programs[0].seed}"  # a library of a name that was loaded is not loaded again
    source, library = folder / f"{name}.cpp", folder / f"{name}.so"
    source.write_text(random_programs.unit(programs, number))
    done = subprocess.run(["g++", *_FLAGS, str(source), "-o", str(library)], capture_output=True, text=True)
    assert done.returncode == 0, f"the generator wrote what is no C++:\n{done.stderr[:3000]}"
    return ctypes.CDLL(str(library))


def _outputs(dtype: str) -> list[np.ndarray]:
    return [np.full(len(X), -77, dtype), np.full(len(X), -55, np.int32), np.full(2 * len(X), -33, dtype)]


def _by_compiler(library: ctypes.CDLL, number: int, dtype: str) -> list[np.ndarray]:
    found = _outputs(dtype)
    arrays = (X.astype(dtype), K, A.astype(dtype), *found)
    library.run(number, len(X), *(each.ctypes.data_as(ctypes.c_void_p) for each in arrays))
    return found


def _by_snippet(program: random_programs.Program, dtype: str) -> list[np.ndarray]:
    made = elementwise(
        random_programs.INPUTS, random_programs.outputs(program), program.operation, preamble=program.preamble
    )
    found = _outputs(dtype)
    given = (X.astype(dtype), K, A.astype(dtype))
    if program.gives_outputs:
        made(*given, *(found if program.has_elements else found[:2]))
        return found
    return [*made(*given), found[2]]


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++ to compare with")
def test_a_program_gives_what_a_compiler_gives_or_is_refused(tmp_path: Path) -> None:
    wrong: list[str] = []
    refused: dict[int, str] = {}
    seeds = _seeds()
    for batch in _batches(seeds):
        for dtype, number, part in (("float64", "double", batch[::2]), ("float32", "float", batch[1::2])):
            programs = [random_programs.program(seed) for seed in part]
            library = _compiled(programs, number, tmp_path)
            for at, program in enumerate(programs):
                expected = _by_compiler(library, at, dtype)
                try:
                    with configured(loop_turns=100_000):  # a loop that never ends is another error
                        found = _by_snippet(program, dtype)
                except (KernelSyntaxError, KernelTypeError) as error:
                    refused[program.seed] = str(error)
                    continue
                if not all(map(same_bits, found, expected)):
                    wrong.append(str(program))
    print(f"{len(seeds)} programs, {len(refused)} refused: {dict(list(refused.items())[:20])}")
    assert not wrong, f"{len(wrong)} programs are wrong, the first one is\n{wrong[0]}"
    assert len(refused) <= MOST_REFUSED * len(seeds), f"{len(refused)} programs are refused: {refused}"


ADDING = "struct P { T a; int b; P& add(T v) { a += v; return *this; } void twice() { P *p = this; p->a *= 2; } };"
SORT = """
void exchange(T& p, T& q) { T t = p; p = q; q = t; }
void order(T& p, T& q) { if (q < p) exchange(p, q); }
T median(T p, T q, T r) { order(p, q); order(q, r); order(p, q); return q; }
"""
PLUS = "P &operator+=(P &p, const P &q) { p.a += q.a; p.b += q.b; return p; }"
KEPT = {
    "a reference in a block": ("", "T v = x; if (x > 0) { T &r = v; r += 1; } y = v;", [2.5, -2, 4]),
    "a pointer in a loop": ("", "T v = x; for (int c = 0; c < x; c++) { T *p = &v; *p += 1; } y = v;", [3.5, -2, 6]),
    "a reference read twice": ("T g(const T& v) { return v; } T f(const T& v) { return g(v) + g(v); }", "y = f(x)",
        [3, -4, 6]),
    "a parameter handed on": (SORT, "y = median(x, 2, 1)", [1.5, 1, 2]),
    "this in a loop": (ADDING, "P p = {x, 0}; for (int c = 0; c < x; c++) p.add(1); y = p.a;", [3.5, -2, 6]),
    "this handed on": (ADDING, "P p = {x, 0}; p.twice(); y = p.a;", [3, -4, 6]),
    "calls in a chain": (ADDING, "P p = {x, 0}; p.add(1).add(2).b = 5; y = p.a + p.b;", [9.5, 6, 11]),
    "an operator in a chain": (ADDING + PLUS, "P p = {x, 1}; (p += p) += p; y = p.a + p.b;", [10, -4, 16]),
    "a member's name":
        ("struct P { T a; T f(T a, T g = 2) { this->a += a * g; { T a = 9; a += 1; } return this->a; } };",
        "P p = {x}; y = p.f(3);", [7.5, 4, 9]),
    "a counter": ("", "T v = x; for (int c = 0; c < 2 * x; c++) { int &r = c; r += 1; v += r; } y = v;", [5.5, -2, 12]),
    "one of two": ("", "T v = x, w = 1; T &r = x > 0 ? v : w; r = 7; y = 10 * v + w;", [71, -13, 71]),
    "one of two by a pointer": ("void set(T *p) { *p = 7; }", "T v = x, w = 1; set(x > 0 ? &v : &w); y = 10 * v + w;",
        [71, -13, 71]),
    "a returned reference": ("T &at(T *p, int k) { return p[k]; }",
        "T m[2] = {x, 1}; at(m, x > 0) = 5; y = m[0] + 2 * m[1];", [11.5, 7, 13]),
    "a converted reference": ("T f(const T &v) { return v / 2; }",
        "int v = x; const float &r = v + 0.5f; y = f(v) + r;", [2, -2.5, 5]),
    "several references": ("", "T v = x, &r = v, &s = r; s = 1; y = v;", [1, 1, 1]),
    "a name for a type in a block": ("", "{ typedef int R; R v = x; y = v; } { using R = double; R v = x; y += v; }",
        [2.5, -4, 6]),
    "a hidden name for a type": ("typedef double R; R f(R v) { return v / 2; }",
        "typedef int R; R v = x; { typedef T R; y = R(x) / 2; } y += f(x) + v;", [2.5, -4, 6]),
    "names for types in structs":
        ("struct A { typedef int V; T v; V f() { return v; } }; struct B { typedef T V; V v; V f() { return v; } };",
        "y = A{x}.f() + B{x}.f()", [2.5, -4, 6]),
    "a template's letter": ("T g(T v) { return v / 2; } template <typename T> T f(T v) { return v + g(v); }",
        "y = f((int)x)", [1, -3, 4]),
    "constants' names":
        ("", "T M_PI = 1, NAN = 2; float INFINITY = x; int CHAR_BIT = 3; y = M_PI + NAN + INFINITY + CHAR_BIT",
        [7.5, 4, 9]),
    "limits": ("#include <climits>\n#include <cfloat>",
        "y = x + SHRT_MAX + CHAR_BIT + (UCHAR_MAX == 255) + FLT_MANT_DIG + DBL_DIG", [32816.5, 32813, 32818]),
    "written by two conditions": ("", "if (x > 0) y = 1; if (!(x > 0)) y = 2;", [1, 2, 1]),
    "written by a switch": ("", "switch ((int)x) { default: y = 2; break; case 1: y = 1; break; case 3: y = 3; }",
        [1, 2, 3]),
    "written in a loop": ("", "for (T v = x;; v += 1) { if (v > 5) { y = v; return; } if (v < 0) { y = 0; break; } }",
        [5.5, 0, 6]),
    "written before each return": ("", "for (int c = 0; c < x; c++) { if (c == 2) { y = 9; return; } } y = 1;",
        [1, 1, 9]),
    "a struct that a loop returns": ("struct P { T a; }; P f(T v) { for (;;) { v += 1; if (v > 4) return P{v}; } }",
        "y = f(x).a", [4.5, 5, 5]),
    "a restricted pointer": ("T f(const T *__restrict__ p) { return p[0] * 2; }", "T v = x; y = f(&v);", [3, -4, 6]),
    "a pointer that is set again": ("", "T v = x, *p = &v; p = &v; *p += 1; y = v;", [2.5, -1, 4]),
    "a pointer that moves": ("", "T m[2] = {1, x}, *p = m; p++; y = *p--; y += *p;", [2.5, -1, 4]),
    "a name for a pointer": ("typedef float *P;", "float v = x; P p = &v; *p += 1; y = v;", [2.5, -1, 4]),
    "structs of one name": (
        "T f(T v) { struct S { int a; }; S s = {v}; return s.a; } T g(T v) { struct S { T a; } s = {v}; return s.a; }",
        "y = f(x) + g(x)", [2.5, -4, 6],
    ),
    "a macro that is defined again": ("const int N = 1;",
        "y = N;\n#define N 2\ny += N;\n#undef N\n#define N 3\ny += N;", [6, 6, 6]),
    "a reference to one of several": ("T &f(T *p, T v) { if (v > 0) return p[0]; return p[1]; }",
        "T m[2] = {x}; f(m, x) = 1; y = m[0];", [1, -2, 1]),
    "a returned pointer": ("int *f(int *p) { return p + 1; }", "int v[2] = {1, (int)x}; y = *f(v);", [1, -2, 3]),
    "a static constant": ("static int N = 3;", "static const T c[2] = {1, sizeof(T)}; y = x + c[1] + N;",
        [12.5, 9, 14]),
}  # fmt: skip
"""Preambles, operations, and what g++ gives where ``x`` is 1.5, -2 and 3."""


def test_what_a_name_leads_to_is_kept() -> None:
    x = np.array([1.5, -2.0, 3.0])
    found = {
        name: elementwise("T x", "T y", text, preamble=given)(x).tolist() for name, (given, text, _) in KEPT.items()
    }
    assert found == {name: expected for name, (_, _, expected) in KEPT.items()}


@pytest.mark.parametrize(
    ("preamble", "operation", "message"),
    [
        ("", "static int c = 0; c += 1; y = c;", "static variable 'c' is not supported"),
        ("T f(T v) { static T c = 0; c += v; return c; }", "y = f(x)", "static variable 'c' is not supported"),
        ("", "static const T c = x; y = c;", "static 'c' keeps the value of its first run"),
        ("", "T v = x, w = 1, *p = &v; p = &w; y = v;", "pointer 'p' leads to one array or variable"),
        ("", "T m[2] = {x}, q[2] = {1}, *p = m; if (x > 0) p = q; y = *p;", "pointer 'p' leads to one array"),
        ("T *f(T *p, T v) { while (v > 0) { if (v < 1) return p; v -= 1; } return p; }", "y = *f(&y, x);",
         "cannot return a reference or a pointer"),
        ("void f(T &v) { v = 1; }", "f(x + 1); y = x;", "reference 'v' may change what it leads to"),
        ("", "T &r = x + 1; y = r;", "reference 'r' leads to no variable"),
        ("", "float true = 3; y = true;", "'true' is a value of C"),
        ("typedef float R; typedef double R;", "y = R(x);", "'R' means float and double"),
        ("struct S { int a; }; struct S { T a; };", "y = x;", "struct S is defined twice"),
        ("", "union U { int a; float b; }; y = x;", "union is not supported"),
    ],
)  # fmt: skip
def test_what_is_refused_is_named(preamble: str, operation: str, message: str) -> None:
    with pytest.raises((KernelSyntaxError, KernelTypeError), match=message):
        elementwise("T x", "T y", operation, preamble=preamble)(np.ones(2))


def test_the_names_of_a_reductions_inputs_come_first() -> None:
    total = reduction(
        "T _J, T NAN", "T y", map_expr="_J + NAN", reduce_expr="a + b", post_map_expr="y = a", identity="0"
    )
    assert total(np.array([1.5, 2.5]), np.array([1.0, 2.0])) == 7
