"""Loops that end with the data, ``break``, ``continue`` ``return``: against Python, and as CUDA source."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels import targets
from tests.kernels.bits import same_bits
from tests.kernels.emulated import as_cuda
from xferlib.errors import KernelError, KernelSyntaxError, KernelTypeError
from xferlib.kernels import elementwise, reduction
from xferlib.testing import configured

X = np.arange(-5, 30)

pytestmark = pytest.mark.usefixtures("kernels_apart")


def _collatz(v: int) -> int:
    count = 0
    while v > 1:
        v, count = (3 * v + 1 if v % 2 else v // 2), count + 1
    return count


def _sum(v: int) -> int:
    return sum(j for j in range(min(v, 11)) if j != 3)


KERNELS = {
    "next element": ("y = 1; if (x < 4) continue; y = x;", lambda v: 1 if v < 4 else v),
    "nan": ('y = isnan(nan("0x7ff")) ? 2 : x;', lambda v: 2),
    "while": ("T v = x; T c = 0; while (v > 1) { v = v % 2 ? 3 * v + 1 : v / 2; c++; } y = c;", _collatz),
    "break": ("T s = 0; for (int j = 0; j < x; ++j) { if (j == 3) continue; if (j > 10) break; s += j; } y = s;", _sum),
    "return": ("y = 0; for (;;) { y += 3; if (y > x) return; }", lambda v: max(3, v // 3 * 3 + 3)),
    "do": ("T j = 0; do { j += 2; if (j == 4) continue; if (j == 8) break; } while (j < x); y = j;",
           lambda v: 8 if v > 6 else max(2, v + v % 2)),
    "output": ("y = 0; while (y * y < x) y++;", lambda v: next(k for k in range(9) if k * k >= v)),
    "nested": ("y = 0; for (T a = 0; a < x; a++) for (T b = a; b < x; b++) if (a + b == 7) y += b;",
               lambda v: sum(b for a in range(v) for b in range(a, v) if a + b == 7)),
    "written out": ("y = 1; for (int j = 0; j < 6; j++) { if (j > x) break; if (j == 2) continue; y += j; }",
                    lambda v: 1 + sum(j for j in range(6) if j != 2 and j <= v)),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("library", targets.ENGINES)
def test_a_loop_gives_what_python_gives(library, name):
    target = targets.target(library)
    operation, by_hand = KERNELS[name]
    kernel = elementwise("T x", "T y", operation)
    assert target.get(kernel(target.put(X))).tolist() == [by_hand(each) for each in X.tolist()]


@pytest.mark.parametrize("name", KERNELS)
def test_a_loop_in_cuda_gives_the_same(name):
    kernel = elementwise("T x", "T y", KERNELS[name][0])
    found = np.zeros_like(X)
    as_cuda(kernel, X, found)
    assert same_bits(found, kernel(X))


def test_floats_and_arrays_in_a_loop():
    kernel = elementwise(
        "T x, raw T a, raw int64 ends", "T y",
        "y = x; for (long j = i > 0 ? ends[i - 1] : 0; j < ends[i]; j++) "
        "y = y * 0.7f + sqrt(a[j] * a[j] + 1) / (y * y + 3);",
    )  # fmt: skip
    rng = np.random.default_rng(0)
    ends = np.cumsum(rng.integers(0, 6, 100))
    x, a = rng.standard_normal(100).astype(np.float32), rng.standard_normal(int(ends[-1])).astype(np.float32)
    expected = kernel(x, a, ends)
    values = np.split(a, ends[:-1])
    assert [len(each) == 0 for each in values] == (expected == x).tolist()
    found = np.zeros_like(x)
    as_cuda(kernel, x, a, ends, found)
    assert same_bits(found, expected)


def test_large_calls_and_other_layouts_give_the_same():
    kernel = elementwise("T x, int64 k", "T y", "y = x; for (int j = 0; j < k + x % 3; j++) y = y * 3 + j;")
    x = np.arange(200_000).reshape(400, 500)
    whole = kernel(x, 4)
    np.testing.assert_array_equal(whole[::7, ::-3], kernel(x[::7, ::-3], 4))
    with configured(threads=2):
        np.testing.assert_array_equal(kernel(x.T, 4), whole.T)


def test_a_function_loops_where_it_is_called():
    preamble = "int f(int v) { while (v != 1) v = v % 2 ? 3 * v + 1 : v / 2; return v; }"
    kernel = elementwise("int32 x", "int32 y", "y = 5; if (x > 0) y = f(x);", preamble=preamble)
    assert kernel(np.array([0, 7, 1, -3], np.int32)).tolist() == [5, 1, 1, 5]  # f(0) and f(-3) never end


def test_a_loop_without_a_turn_reads_nothing():
    kernel = elementwise("T x, raw T a, int64 k", "T y", "y = x; for (int j = 0; j < x; j++) y += a[k];")
    assert kernel(np.zeros(2), np.ones(3), 99).tolist() == [0, 0]


def test_a_loop_without_end_is_an_error_on_a_cpu():
    kernel = elementwise("T x", "T y", "y = x; while (y > 0) y = x;")
    with configured(loop_turns=50), pytest.raises(KernelError, match="has made 50 turns and 2 element"):
        kernel(np.array([1.0, 0.0, 2.0]))
    assert kernel(np.zeros(3)).tolist() == [0, 0, 0]


def test_a_loop_whose_result_is_written_over_its_operand():
    kernel = elementwise("T x", "T y", "T v = x; while (v < 9) { v += 4; } y = v;")
    x = np.arange(6.0)
    assert kernel(x, x).tolist() == [12, 9, 10, 11, 12, 9]


def test_a_reduction_takes_no_loop_that_ends_with_the_data():
    preamble = "int f(int v) { while (v > 9) v /= 2; return v; }"
    with pytest.raises(KernelSyntaxError, match="which a reduction's expressions cannot run"):
        reduction(
            "int32 x", "int32 y", map_expr="f(x)", reduce_expr="a + b", post_map_expr="y = a", identity="0",
            preamble=preamble,
        )(np.ones(3, np.int32))  # fmt: skip


def test_a_loop_has_no_gradient():
    torch = pytest.importorskip("torch")
    kernel = elementwise("T x", "T y", "y = x; while (y < 9) y = y * 2;")
    with pytest.raises(KernelTypeError, match="gradients of loops"):
        kernel(torch.ones(3, requires_grad=True)).sum().backward()


# --- random programs


class _Writer:
    """A random program as C and as Python."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.c: list[str] = []
        self.python: list[str] = []
        self.loops = 0

    def value(self) -> str:
        form = self.draw(st.sampled_from(["{0} + {1}", "{0} * 3 - {1}", "({0} ^ {1}) + 1", "{0} - 5"]))
        return form.format(*(self.draw(st.sampled_from("abx")) for _ in range(2)))

    def condition(self) -> str:
        return f"({self.value()}) % 5 {self.draw(st.sampled_from(['==', '!=']))} 0"

    def block(self, depth: int, indent: str, again: tuple[str, ...]) -> None:
        """Statements; ``again``: what Python runs before ``continue``, empty outside of loops."""
        for _ in range(self.draw(st.integers(1, 3))):
            kinds = ["assign"] * 3 + ["if", "for"] * (depth > 0) + ["break", "continue"] * bool(again) + ["return"]
            self.statement(self.draw(st.sampled_from(kinds)), depth, indent, again)

    def statement(self, kind: str, depth: int, indent: str, again: tuple[str, ...]) -> None:
        if kind == "assign":
            name, text = self.draw(st.sampled_from("ab")), self.value()
            self.add(indent, f"{name} = ({text}) & 1023;", f"{name} = ({text}) & 1023")
        elif kind == "if":
            text = self.condition()
            self.add(indent, f"if ({text}) {{", f"if {text}:")
            self.block(depth - 1, indent + "  ", again)
            self.add(indent, "}")
        elif kind == "for":
            self.loop(depth, indent)
        else:  # under a condition, or the rest would never run
            text = self.condition()
            end = "y = a; return;" if kind == "return" else f"{kind};"
            self.add(indent, f"if ({text}) {{ {end} }}", f"if {text}:")
            lines = {"return": ("return a",), "break": ("break",), "continue": (*again, "continue")}[kind]
            self.python += [f"{indent}  {each}" for each in lines]

    def loop(self, depth: int, indent: str) -> None:
        self.loops += 1
        counter, turns = f"t{self.loops}", self.draw(st.sampled_from(["a & 3", "x & 3", "2"]))
        step = f"{counter} += 1"
        self.add(indent, f"for (long {counter} = 0; {counter} < ({turns}); ++{counter}) {{", f"{counter} = 0")
        self.python.append(f"{indent}while {counter} < ({turns}):")
        self.block(depth - 1, indent + "  ", (step,))
        self.add(indent, "}")
        self.python.append(f"{indent}  {step}")

    def add(self, indent: str, c: str, python: str | None = None) -> None:
        self.c.append(c)
        if python is not None:
            self.python.append(indent + python)


@st.composite
def programs(draw: Any) -> tuple[str, str]:
    """A kernel's operation, and the function ``f(x)`` that it must equal, as texts."""
    writer = _Writer(draw)
    writer.block(3, "  ", ())
    operation = "long a = x, b = 1; y = 0; " + " ".join(writer.c) + " y = a * 2048 + b;"
    return operation, "\n".join(["def f(x):", "  a, b = x, 1", *writer.python, "  return a * 2048 + b"])


@given(programs())
@settings(max_examples=150, deadline=None)
def test_random_programs_give_what_python_gives(program):
    operation, source = program
    names: dict[str, Any] = {}
    exec(source, names)
    x = np.arange(0, 40)
    found = elementwise("int64 x", "int64 y", operation)(x)
    assert found.tolist() == [names["f"](each) for each in x.tolist()], (operation, source)
