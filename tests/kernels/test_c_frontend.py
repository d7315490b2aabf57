"""The front end of C: what C++ means by two readings of a text, by objects that names lead to, by its preprocessor."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.kernels import random_programs
from tests.kernels.bits import same_bits
from tests.kernels.test_differential import _by_compiler, _by_snippet, _compiled
from xferlib.errors import KernelSyntaxError, KernelTypeError
from xferlib.kernels import elementwise, reduction

_BY_HAND = Path(__file__).with_name("programs.cpp").read_text(encoding="utf-8")
PROGRAMS = [each.split("// operation\n") for each in _BY_HAND.split("// ===\n")[1:]]
"""Preambles and operations."""


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++ to compare with")
@pytest.mark.parametrize(("dtype", "number"), [("float64", "double"), ("float32", "float")])
def test_a_program_written_by_hand_gives_what_a_compiler_gives(tmp_path: Path, dtype: str, number: str) -> None:
    programs = [
        random_programs.Program(at, preamble, operation, "w[" in operation, True)
        for at, (preamble, operation) in enumerate(PROGRAMS)
    ]
    library = _compiled(programs, number, tmp_path)
    for at, program in enumerate(programs):
        found, expected = _by_snippet(program, dtype), _by_compiler(library, at, dtype)
        assert all(map(same_bits, found, expected)), str(program)


# --- memory that C sees in another way

X = np.arange(6.0)
Z = np.array([1 + 2j, 3 - 4j])


def _indexed(params: str, outputs: str, operation: str, *args: Any) -> Any:
    kernel = elementwise(params, outputs, operation)
    kernel(*args, size=len(args[-1]))
    return args[-1].tolist()


def test_the_number_of_an_element_may_be_changed() -> None:
    operation = "int x0 = i % nx; i -= x0; i /= nx; y[x0 * 2 + i] = x[i * nx + x0];"
    assert _indexed("raw T x, int32 nx", "raw T y", operation, X, 3, np.zeros(6)) == [0, 3, 1, 4, 2, 5]
    kernel = elementwise("double *x, double *y", "int q = i; i -= 1; if (i < 0) i = 0; y[q] = x[i];")
    y = np.zeros(6)
    kernel(X, y, size=6)
    assert y.tolist() == [0, 0, 1, 2, 3, 4]


def test_pointers_lead_to_the_parts_of_complex_numbers() -> None:
    operation = "typedef typename C::value_type R; y = z; R *p = reinterpret_cast<R *>(&y); p[1] += 1; *p *= 2;"
    assert elementwise("C z", "C y", operation)(Z).tolist() == [2 + 3j, 6 - 3j]
    operation = "const C::value_type *p = reinterpret_cast<const C::value_type *>(&z[i]); y = p[0] * 10 + p[1];"
    assert elementwise("raw C z", "float64 y", operation)(Z, size=2).tolist() == [12, 26]
    operation = "C::value_type *p = reinterpret_cast<C::value_type *>(&(y[i])); p[0] = z.imag(); p[1] = 5;"
    y = np.zeros(2, complex)
    elementwise("C z", "raw C y", operation)(Z, y)
    assert y.tolist() == [2 + 5j, -4 + 5j]
    with pytest.raises((KernelSyntaxError, KernelTypeError)):
        elementwise("complex64 z", "raw complex64 y", "atomicAdd((float *)&y[0], z.real());", math="fast")


def test_pointers_see_the_bits_of_numbers() -> None:
    x = X.astype("f4")
    operation = "float v = x; y = *(int *)&v; unsigned *p = (unsigned *)&v; *p ^= 0x80000000u; z = v;"
    y, z = elementwise("float32 x", "int32 y, float32 z", operation)(x)
    assert (y.tolist(), z.tolist()) == (x.view("i4").tolist(), (-x).tolist())
    with pytest.raises(KernelTypeError, match="a pointer to float32 cannot become one to float64"):
        elementwise("float32 x", "float32 y", "float v = x; double *p = (double *)&v; y = *p;")


def test_an_index_may_be_a_constant_array() -> None:
    kernel = elementwise("raw T x", "T y", "const int at[] = {1, (int)(i)}; y = x[at];")
    assert kernel(X.reshape(2, 3), size=3).tolist() == [3, 4, 5]


# --- outputs of reductions


def test_an_output_that_one_path_writes_keeps_its_content_on_the_others() -> None:
    kernel = reduction(
        "T x", "T y", map_expr="x", reduce_expr="a + b", post_map_expr="if (a > 30) y = a;", identity="0"
    )
    assert kernel(X, out=np.array(5.0)) == 5
    assert kernel(3 * X, out=np.array(5.0)) == 45


# --- the preprocessor


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("#if N > 2 && defined(N)\ny = x;\n#else\ny = -x;\n#endif\n#undef N\n#ifdef N\ny = 7;\n#endif", [1, 2]),
        ("#define A(v) B(v, v)\n#define B(p, q) ((p) * (q))\ny = A(x + 1);", [4, 9]),
        ("#define F(a, ...) G(a, __VA_ARGS__)\n#define G(a, b, c) a + b * c\ny = F(x, 2, 3);", [7, 8]),
        ("#define JOIN(a, b) a ## b\n#define J(a, b) JOIN(a, b)\n#define K 2\nT v2 = x; y = J(v, K) + JOIN(v, 2);",
            [2, 4]),
        ("#define x2 (x + x)\n#define x x\ny = x2;", [2, 4]),
        ("#define f(v) (v * 2)\nT f = 1; y = f(x) + f;", [3, 5]),
        ("#define EMPTY\n#define ID(v) v\ny = EMPTY x EMPTY + ID() 1;", [2, 3]),
        ("#if 0\n#if 1\nnonsense (\n#endif\n#elif (1 ? 2 : 3) == 2 && !defined(Q)\ny = x;\n#endif", [1, 2]),
        ("y = x; // a comment with 'a quote\n/* and \" one */ y += '/' - '/';", [1, 2]),
        ("#define N_ 1 // one\ny = x + N_ /* two\nlines */ - 1;", [1, 2]),
    ],
)  # fmt: skip
def test_the_preprocessor_reads_tokens(operation: str, expected: list[float]) -> None:
    assert elementwise("T x", "T y", operation, options=("-DN=3",))(np.array([1.0, 2.0])).tolist() == expected


# --- messages


@pytest.mark.parametrize(
    ("operation", "words", "column"),
    [
        ("#define A(v) v\ny = A(1, 2);", "macro A() takes 1 argument(s), 2 were given", None),
        ("#if 1\ny = x;", "this condition has no #endif", None),
        ("#endif\ny = x;", "#endif stands behind no #if", None),
        ("#define J(a) a ## -\ny = J(x);", "joins 'x' and '-' to no token", None),
        ("#if __CUDA_ARCH__ > 700\ny = x;\n#endif", "decided by the compiler of a GPU", None),
        ("#line 3\ny = x;", "#line is not supported", None),
        ('y = "abc', "has no end on its line", None),
        ("y = (x", "'(' of line 1 is open", None),
        ("y = x]", "a closing bracket without its opening one", 5),
        ("goto e; e: y = x", "goto is not supported in a snippet; use raw_module", 0),
        ("y = [](int q) { return q; }(3)", "a lambda is not supported", 4),
        ("y = x->q", "this is not a pointer", 4),
        ("T &r; y = x", "reference 'r' must be given its variable", 3),
        ("int q = 1, q = 2; y = x", "'q' is declared already", 11),
        ("y = sin", "'sin' is not declared", 4),
        ("y = T", "'T' is a type, and has no value", 4),
        ("y = none<T>(x)", "the preamble has no template none<>", 4),
        ("y = nullptr", "a null pointer is not supported", 4),
        ("long double q = 1; y = q", "long double exists on no GPU", 0),
        ("extern int q; y = x", "extern is not supported", 0),
        ("__shared__ float s[3]; y = x", "__shared__ is not supported", 0),
        ("const int q = 1; q = 2; y = x", "'q' is read-only here", 17),
        ("int q[2][2]; int (*p)[2] = &q[0]; y = x", "a pointer to a row of an array is not supported", 28),
        ("int q[][0] = {1}; y = x", "a row of this array has no elements", 13),
        ("int q[2][0] = {{1}, {2}}; y = x", "a row of this array has no elements", 14),
        ("while (true) y = x;", "a loop without a condition, break or return has no end", 0),
        ('printf("%d", 3); y = x', "unknown function 'printf'", 0),
        ("int q = 3; y = q(x)", "'q' is a variable, and not a function", 15),
        ("throw 3; y = x", "throw is not supported", 0),
        ("case 1: y = x;", "case statement is not supported", 0),
    ],
)
def test_a_message_names_the_fact_and_points_at_it(operation: str, words: str, column: int | None) -> None:
    with pytest.raises((KernelSyntaxError, KernelTypeError), match=re.escape(words)) as caught:
        elementwise("T x", "T y", operation)
    if column is not None:
        assert str(caught.value).splitlines()[-1].index("^") - 4 == column


def test_a_name_with_the_meaning_of_a_type_elsewhere_is_read_by_its_block() -> None:
    preamble = "typedef double R; R half(R v) { int R = 2; return (v) / R; } struct S { typedef float R; R v; };"
    operation = "typedef int R; R v = x; { int R = 3; y = (R) - x; } S s = {0.1}; y += (R)-v + half(x) + s.v;"
    found = elementwise("T x", "T y", operation, preamble=preamble)(np.array([1.5]))
    assert found.tolist() == [3 - 1.5 - 1 + 0.75 + float(np.float32(0.1))]


def _combined(parts: st.SearchStrategy[tuple[str, str]]) -> st.SearchStrategy[tuple[str, str]]:
    def both(form: str, in_python: str = "") -> st.SearchStrategy[tuple[str, str]]:
        return st.tuples(parts, parts).map(
            lambda drawn: (
                form.format(drawn[0][0], drawn[1][0]), (in_python or form).format(drawn[0][1], drawn[1][1])
            )
        )  # fmt: skip

    return st.one_of(
        *map(both, ("({})", "-({})", "~({})", "f({})", "{} + {}", "{} - {}", "{} * {}", "{} & {}", "{} ^ {}")),
        both("(T)({})", "({})"), both("T({})", "({})"),
        both("+(({}) < (v) && x > ({}))", "int(({}) < v and x > ({}))"),
    )  # fmt: skip


@given(st.recursive(st.sampled_from(["x", "v", "a[0]", "2"]).map(lambda name: (name, name)), _combined, max_leaves=8))
@example(("-(x) + x * v", "-(x) + x * v"))
@example(("~(x) - (v) * x & -+(v) - x * x", "~(x) - (v) * x & -+(v) - x * x"))
@example(("-(T)-(x) * 2 + (T)(v) - x * v", "-(-(x)) * 2 + (v) - x * v"))
@settings(max_examples=100, deadline=None)
def test_brackets_around_names_are_no_casts(texts: tuple[str, str]) -> None:
    """tree-sitter takes ``(x * (v)) - 2`` for a cast of ``-2`` to a pointer to a function."""
    expression, in_python = texts
    operation = f"T a[1] = {{5}}; y = {expression}; y = y == ({expression}) ? y : 0;"
    preamble = "template <typename T> T f(T w) { return w + 1; }"
    kernel = elementwise("int64 x, int64 v", "T y", operation, preamble=preamble)
    expected = eval(in_python, {"x": 7, "v": -3, "a": [5], "f": lambda w: w + 1})
    y = np.zeros(1, "int64")
    kernel(np.array([7]), np.array([-3]), y)
    assert y.tolist() == [(expected + 2**63) % 2**64 - 2**63]


@pytest.mark.parametrize(
    ("operation", "told"),
    [
        ("y = (decltype(x)) - x;", "decltype is not supported"),
        ("decltype(x) && z = x + 1; y = z;", "decltype is not supported"),
        ("y = ((int (*)(int)) &f)(x);", "abstract function declarator is not supported"),
    ],
)
def test_a_type_that_is_refused_is_named_before_an_operator(operation: str, told: str) -> None:
    with pytest.raises(KernelSyntaxError, match=told):
        elementwise("int32 x", "int32 y", operation)(np.arange(2, dtype="int32"))
