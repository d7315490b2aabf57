"""A few lines may stand for any amount of work: it is bounded, by a count, and more is an error that says so."""

import os
import sys

import numpy as np
import pytest

from xferlib.errors import KernelSyntaxError
from xferlib.kernels import elementwise, reduction


def chain(depth, body, first="return v * 0.5;"):
    """Functions of which each is made of the one before it."""
    functions = [f"double f0(double v) {{ {first} }}"]
    functions += [f"double f{n}(double v) {{ {body.replace('@', str(n - 1))} }}" for n in range(1, depth + 1)]
    return "\n".join(functions), f"z = f{depth}(x)"


def nest(depth, inner, head="for (int k{n} = 0; k{n} < 2; k{n}++) "):
    """Loops, each in the one before it."""
    return "", f"double s = 0; {''.join(head.format(n=n) for n in range(depth))} {{ {inner} }} z = s;"


def macros(depth, line, use, first="#define M0(v) (v + 1)"):
    lines = [first, *(line.replace("@", str(n)).replace("?", str(n - 1)) for n in range(1, depth + 1))]
    return "\n".join(lines), f"z = {use}"


def structs(depth, member="S?"):
    lines = ["struct S0 { double a; double b; };"]
    lines += [f"struct S{n} {{ {member} a; {member} b; }};".replace("?", str(n - 1)) for n in range(1, depth + 1)]
    return "\n".join(lines), f"S{depth} s; s{'.a' * (depth + 1)} = x; z = s{'.a' * (depth + 1)};"


EXPLOSIONS = {
    "calls with variables": chain(24, "double a = f@(v + 1); double b = f@(v * a); return a + b;"),
    "calls under conditions": chain(24, "if (v > @) return f@(v + 1); return f@(v - 1);"),
    "calls in ?:": chain(24, "return v > @ ? f@(v + 1) : f@(v - 1);"),
    "calls in loops": chain(12, "double s = 0; for (int k = 0; k < 3; k++) s += f@(v + k); return s;"),
    "calls with pointers": chain(24, "double a = v; a = f@(a + 1); { double b = a; a = f@(b * 2); } return a;"),
    "templates": tuple(
        each.replace("double f", "template <typename T> T f").replace("double v", "T v")
        for each in chain(24, "T a = f@(v + 1); return a + f@(v * a);")
    ),
    "loops with variables": (
        "",
        "double s = 0; "
        + "".join(f"for (int k{n} = 0; k{n} < 3; k{n}++) {{ double t{n} = s; if (s > x) s += t{n}; " for n in range(30))
        + "}" * 30 + " z = s;",
    ),
    "macros": macros(40, "#define M@(v) (M?(v) + M?(v))", "M40(x)"),
    "macros without parameters": macros(40, "#define M@ M? + M?", "M40", "#define M0 x"),
    "macros as arguments": macros(40, "#define M@(v) M?(M?(v))", "M40(x)"),
    "macros within macros": ("#define F(a) G(a)\n#define G(a) ((a) + 1)", f"z = {'F(' * 4000}x{')' * 4000}"),
    "macros of doubled arguments": macros(40, "#define M@(v) M?(v + v)", "M40(x)"),
    "structs": structs(20),
    "arrays": ("", "double s = 0; double a[1024]; " + "a[(int)(s += x)] = s; " * 900 + "z = a[(int)x];"),
    "many texts": ("double f(double v) { return v; }\n" * 1500, "double s = 0; " + "s = s * x + 1; " * 3000 + "z = s;"),
}  # fmt: skip
BOUNDS = "more than|nested too deeply|write out|numbers; at most|characters; at most"


@pytest.fixture
def low_bound(monkeypatch):
    """A sixteenth of the work that is allowed, so that reaching the bound takes as little."""
    if not os.environ.get("XFERLIB_TEST_LONG"):
        for name, module in list(sys.modules.items()):
            if name.startswith("xferlib.kernels") and hasattr(module, "MOST_STEPS"):
                monkeypatch.setattr(module, "MOST_STEPS", module.MOST_STEPS // 16)


@pytest.mark.usefixtures("low_bound")
@pytest.mark.parametrize("name", EXPLOSIONS)
def test_what_a_few_lines_write_out_is_bounded(name):
    preamble, operation = EXPLOSIONS[name]
    with pytest.raises(KernelSyntaxError, match=BOUNDS):
        elementwise("double x", "double z", operation, preamble=preamble)


@pytest.mark.usefixtures("low_bound")
@pytest.mark.parametrize("depth", [20, 60] if os.environ.get("XFERLIB_TEST_LONG") else [60])
@pytest.mark.parametrize("inner", ["s += x;", "s = s * x + 1;", "s += x; if (s > 3) break;"])
def test_nested_loops_are_written_out_in_part_and_run_in_part(depth, inner):
    _, operation = nest(depth, inner)
    try:
        elementwise("double x", "double z", operation)
    except KernelSyntaxError as error:
        assert "more than" in str(error)  # noqa: PT017 - either is right


def test_a_long_loop_is_run_rather_than_refused():
    text = "double s = 0; for (int k = 0; k < 4096; k++) { if (s > k) s += x * k; else s -= 1; } z = s;"
    expected = 0.0
    for k in range(4096):
        expected = expected + 1.5 * k if expected > k else expected - 1
    kernel = elementwise("double x", "double z", text)
    assert kernel(np.array([1.5])).tolist() == [expected]


def test_a_traced_function_is_bounded(low_bound):
    def doubled(x, depth):
        return x if depth == 0 else doubled(x, depth - 1) + doubled(x + depth, depth - 1)

    with pytest.raises(KernelSyntaxError, match="has recorded more than"):
        elementwise(lambda x: doubled(x, 40))(np.ones(2))


def test_an_error_that_follows_much_work_comes_once():
    work = "double s = 0; for (int k = 0; k < 2000; k++) { s = s * x + k; }"
    with pytest.raises(KernelSyntaxError, match="'missing' is not declared"):
        elementwise("T x, U y, V w", "T z", f"{work} z = missing;")(np.ones(2), np.ones(2), np.ones(2))


def test_a_reduction_is_bounded(low_bound):
    preamble, _ = chain(24, "double a = f@(v + 1); return a + f@(v * a);")
    with pytest.raises(KernelSyntaxError, match="more than"):
        reduction(
            "double x", "double z", map_expr="f24(x)", reduce_expr="a + b", post_map_expr="z = a", identity="0",
            preamble=preamble,
        )  # fmt: skip


@pytest.mark.parametrize("line", ["#define M@ M? + M?", "#define M@(v) (M?(v) + M?(v))"])
def test_macros_of_a_raw_module_are_bounded(line):
    from xferlib.kernels import raw_module

    lines = ["#define M0 1" if "(" not in line else "#define M0(v) v"]
    lines += [line.replace("@", str(n)).replace("?", str(n - 1)) for n in range(1, 60)]
    use = "M59" if "(" not in line else "M59(1)"
    source = "\n".join([*lines, f'extern "C" __global__ void f(float *x, int n) {{ x[0] = {use}; }}'])
    assert raw_module(source).get_function("f", cpu=lambda x, n: None) is not None
