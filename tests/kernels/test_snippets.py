"""C snippets: numbers and lines as C has them, loops and functions written out in linear time, NaN in min and max."""

import pickle
from typing import Any

import numpy as np
import pytest

from tests.kernels.bits import same_bits, specials
from tests.kernels.emulated import all_as_cuda, as_cuda
from xferlib.errors import KernelError, KernelSyntaxError, KernelTypeError
from xferlib.kernels import elementwise, raw_module, reduction
from xferlib.kernels.c_frontend import translate
from xferlib.testing import configured

pytestmark = pytest.mark.usefixtures("kernels_apart")


# --- what is written out

BRANCHING = (
    "int c = 0; T s = x; for (int k = 0; k < {turns}; ++k) {{ if (s > k) {{ s = s * 2; c += 1; }} else c -= k; }} "
    "z = s + c"
)


def _by_hand(x, turns):
    count = 0
    for k in range(turns):
        if x > k:
            x, count = x * 2, count + 1
        else:
            count -= k
    return x + count


@pytest.mark.parametrize("turns", [8, 12, 32, 100, 500])
def test_branches_in_a_loop_grow_with_its_turns_alone(turns):
    kernel = elementwise("T x", "T z", BRANCHING.format(turns=turns))
    x = np.array([-1.0, 0.5, 3.0, 40.0])
    np.testing.assert_allclose(kernel(x), [_by_hand(each, turns) for each in x], rtol=1e-14)
    assert kernel.ir("float64", "float64").count("\n") < 10 * turns + 20


def test_an_integer_that_branches_change_is_known_only_where_it_is():
    source = "int c = 0; for (int k = 0; k < 40; ++k) { if (k % 3) c += k; else if (x > k) c -= 1; } z = c"
    x = np.array([0.0, 10.0, 100.0])
    expected = [sum(k if k % 3 else -int(v > k) for k in range(40)) for v in x]
    assert elementwise("T x", "T z", source)(x).tolist() == expected


NESTED = """
int s = 0;
for (int k = -2; k < 4; ++k) {
  if (x > k) { for (int j = 0; j < 2; ++j) s += j * k; }
}
z = s
"""


def test_a_loop_within_an_if_leaves_the_counter_of_the_outer_loop_known():
    kernel = elementwise("T x", "T z", NESTED)
    x = np.array([-5.0, 0.5, 9.0])
    assert kernel(x).tolist() == [sum(k for k in range(-2, 4) if v > k) for v in x]
    assert "loop" not in kernel.ir("float64", "float64")


# --- what is known to be taken, or never to be


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("z = 3; if (false) return; z = 4", 4),
        ("z = 3; if (false) z = 4", 3),
        ("z = 3; for (int k = 0; k < 3; ++k) { if (false) break; z += 1; }", 6),
        ("z = 3; for (int k = 0; k < 3; ++k) { if (false) continue; z += 1; }", 6),
        ("z = 3; for (int k = 0; k < x + 2; ++k) { if (false) break; z += 1; }", 6),
        ("z = 3; if (true) { z = 5; return; } z = 4", 5),
        ("z = f(x)", 7),
        ("z = 0; for (int k = 0; k < 9; ++k) { if (k == 4) break; z += k; }", 6),
        ("z = 0; switch (2) { case 3: z = 4; break; case 2: z = 9; default: z += 1; }", 10),
    ],
)
def test_a_condition_without_arrays(engine, source, expected):
    preamble = "__device__ int f(int k) { if (false) return 3; if (k == 9) return 4; return 7; }"
    kernel = elementwise("T x", "T z", source, preamble=preamble)
    assert engine.get(kernel(engine.put(np.ones(3)))).tolist() == [expected] * 3


# --- assignments within && , || and ?:


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("int n = 5; z = x > 0 ? n++ : n--; z += n * 10", [65, 45, 65]),
        ("int n = 5; z = 0; if (x > 0 && (n = 7)) z = 1; z += n * 10", [71, 50, 71]),
        ("int n = 5; z = 0; if (x > 0 || (n = 7)) z = 1; z += n * 10", [51, 71, 51]),
        ("int k = 0; while (k < 10 && (k += 3) < x * 4) ; z = k", [6, 3, 12]),
        ("int q = 1; z = (x > 0 && q++ && q++ && x > 2 && q++); z += 10 * q", [30, 10, 41]),
        ("int a[3] = {1, 2, 3}; z = x > 0 ? a[1] = 9 : 0; z += a[1]", [18, 2, 18]),
        ("z = 3; x > 0 && (z = 1);", [1, 3, 1]),
        ("x > 2 ? (z = 1) : (z = 2);", [2, 2, 1]),
        ("int n = 5; z = (n += 2, n * 10); while (n -= 1, n > 3) z += 1", [73, 73, 73]),
        ("z = 0; for (int k = 0; k < 3; ++k) { if (x > k) { z += x > 1 ? f(x) : 1; } }", [1, 0, 27]),
    ],
)
def test_an_operand_that_assigns(engine, source, expected):
    loop = "for (int k = 0; k < 3; ++k) { int a[2]; a[0] = k; a[1] = 1; p += a[p & 1] + 1; }"
    preamble = f"__device__ int f(int p) {{ {loop} return p; }}"
    kernel = elementwise("T x", "T z", source, preamble=preamble)
    assert engine.get(kernel(engine.put(np.array([1.0, -2.0, 3.0])))).tolist() == expected


def test_early_returns_and_calls_are_shared():
    rounds = 60
    steps = "".join(f"if (v > {k}) {{ t += {k}; if (v < {k}.5) return -t; }}\n" for k in range(rounds))
    preamble = f"double g(double v) {{ double t = 0; {steps} return t; }}"
    kernel = elementwise("double x", "double z", "z = g(x)", preamble=preamble)
    x = np.array([-1.0, 0.25, 7.25, 7.75, 100.0])

    def by_hand(v):
        t = 0.0
        for k in range(rounds):
            if v > k:
                t += k
                if v < k + 0.5:
                    return -t
        return t

    assert kernel(x).tolist() == [by_hand(v) for v in x]
    assert kernel.ir("float64", "float64").count("\n") < 20 * rounds
    chain = "".join(f"double f{k}(double v) {{ return f{k - 1}(v) + f{k - 1}(v); }}\n" for k in range(1, 41))
    chain = "double f0(double v) { return v; }\n" + chain
    with pytest.raises(KernelSyntaxError, match="nested more than 32"):
        elementwise("double x", "double z", "z = f40(x)", preamble=chain)
    doubled = elementwise("double x", "double z", "z = f30(x)", preamble=chain)
    assert doubled(x).tolist() == (x * 2.0**30).tolist()


def test_each_return_is_converted_to_what_the_function_returns():
    preamble = "long long f(float v) { if (v > 0) return 0.5f; return 9007199254740993LL; }"
    kernel = elementwise("float x", "int64 z", "z = f(x)", preamble=preamble)
    assert kernel(np.array([1, -1], np.float32)).tolist() == [0, 9007199254740993]


@pytest.mark.parametrize(
    ("source", "preamble", "words"),
    [
        ("for (int a = 0; a < 100; a++) z = f(x + a)",
         "T f(T v) { int k = 0; while (k < 4000) { v = v * v + k; k++; } return v; }",
         "more than 90000 steps"),
        ("z = f4(x)", "".join(f"T f{n}(T v) {{ return {' + '.join(f'f{n - 1}(v + {k})' for k in range(30))}; }}"
                              if n else "T f0(T v) { return v; }" for n in range(5)), "more than 90000 steps"),
    ],
)  # fmt: skip
def test_unrolling_has_a_limit(source, preamble, words, monkeypatch):
    monkeypatch.setattr(translate, "MOST_STEPS", 90_000)
    with pytest.raises(KernelSyntaxError, match=words):
        elementwise("T x", "T z", source, preamble=preamble)(np.ones(2))


@pytest.mark.parametrize("opened", ["(", "-(", "x + (", "x ? (", "f("])
def test_deep_text_is_refused_in_a_snippet_and_a_preamble(opened):
    deep = opened * 4000 + "x" + ")" * 4000
    for source, preamble in ((f"z = {deep}", ""), ("z = g(x)", f"T g(T x) {{ return {deep}; }}")):
        with pytest.raises(KernelSyntaxError, match="nested too deeply|not complete C|C cannot be read"):
            elementwise("T x", "T z", source, preamble=preamble)(np.ones(2))


# --- numbers

NUMBERS: dict[str, Any] = {
    "0x1p3": np.float64(8), "0x1p3f": np.float32(8), "0x.8p1F": np.float32(1), "0x1p99999": np.float64(np.inf),
    "1e999": np.float64(np.inf), "1'000.": np.float64(1000), "1'0.5e1": np.float64(105), ".5f": np.float32(0.5),
    "5.": np.float64(5),
    "1'000": np.int32(1000), "0b1'01": np.int32(5), "010": np.int32(8), "0x7fff'ffff": np.int32(2**31 - 1),
    "0xffffffff": np.uint32(2**32 - 1), "4294967295": np.int64(2**32 - 1), "5u": np.uint32(5), "5ll": np.int64(5),
    "0": np.int32(0), "00": np.int32(0), "18446744073709551615ull": np.uint64(2**64 - 1),
}  # fmt: skip


@pytest.mark.parametrize("text", NUMBERS)
def test_a_number(text):
    value = NUMBERS[text]
    kernel = elementwise("int8 x", f"{value.dtype} z", f"z = {text}")
    assert kernel(np.zeros(1, np.int8))[0] == value
    assert f"/{value.tobytes().hex()}" in kernel.ir("int8", value.dtype)


MALFORMED = ["1.0L", "1.0df", "9" * 40, "9" * 5000, "1.5.2", "'ab'", "'\\q'", "''", "L'a'", "0x", "08", "1.f.", "0b2"]


@pytest.mark.parametrize("text", MALFORMED)
def test_malformed_numbers(text):
    with pytest.raises(KernelSyntaxError, match="line 1, column"):
        elementwise("T x", "T z", f"z = {text}")(np.ones(1))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a[j++] += 10; a[j++] *= 2; z = j * 1000 + a[0] * 10 + a[1]", 2114),
        ("a[++j]++; z = j * 1000 + a[0] * 100 + a[1] * 10 + a[2]", 1133),
        ("z = a[j++]++ + 10 * j; z += 100 * a[0] + 1000 * --a[++j]", 2211),
        ("int* p = &a[1]; p[j++] -= 5; *&a[++j] <<= 1; z = j * 100 + a[1] * 10 + a[2]", 176),
    ],
)
def test_a_target_is_evaluated_once(text, expected):
    kernel = elementwise("T x", "int32 z", f"int a[4] = {{1, 2, 3, 4}}; int j = 0; {text}")
    assert kernel(np.ones(1)).tolist() == [expected]


def test_an_element_of_an_array_is_updated_once():
    kernel = elementwise("T x", "raw T y, int32 z", "int j = 2 * i; y[j++] += x; z = j")
    y, z = np.zeros(6), np.zeros(3, "i4")
    kernel(np.array([1.0, 2, 3]), y, z)
    assert (y.tolist(), z.tolist()) == ([1, 0, 2, 0, 3, 0], [1, 3, 5])


CHARACTERS = {
    "'a'": 97, "'\\n'": 10, "'{'": 123, "'\\x41'": 65, "'\\''": 39, "'\\\\'": 92, "'\\377'": -1, "'\\0'": 0, "';'": 59,
    "'\"'": 34, "'/' + '*'": 89, "sizeof('a')": 1, "-'a'": -97, "1'000'000": 1000000, "Q": 40, "'a'/*'*/": 97,
}  # fmt: skip


@pytest.mark.parametrize("text", CHARACTERS)
def test_characters(text):
    kernel = elementwise("T x", "int32 z", f"z = {text}; // it's", preamble="#define Q '('\n")
    assert kernel(np.ones(1)).tolist() == [CHARACTERS[text]]


# --- lines

CONTINUED = "\\\n"


def test_a_continued_line_is_whitespace_everywhere():
    x = np.arange(4.0)
    kernel = elementwise(f"T x,{CONTINUED} T {CONTINUED} y", f"T{CONTINUED}z",
                         f"z = f(x) +{CONTINUED} y // half {CONTINUED} * 9",
                         preamble=f"T f(T v) {{ {CONTINUED} return 2 * v; }} // {CONTINUED} nothing")  # fmt: skip
    assert kernel(x, x).tolist() == (3 * x).tolist()
    total = reduction(f"T {CONTINUED}x", f"T{CONTINUED} y", map_expr=f"x{CONTINUED}*x", reduce_expr=f"a{CONTINUED}+ b",
                      post_map_expr=f"y{CONTINUED}= a", identity="0")  # fmt: skip
    assert total(x) == 14
    module = raw_module("// nothing")
    parameters = module.get_function(
        "f", signature=f"const{CONTINUED}float *x,{CONTINUED} int {CONTINUED} n"
    ).parameters
    assert [(each.name, each.dtype, each.is_pointer) for each in parameters] == [  # type: ignore[comparison-overlap]
        ("x", np.float32, True),
        ("n", np.int32, False),
    ]


def test_comments_in_a_parameter_list():
    kernel = elementwise("T x, /* the other, */ T y // last\n", "T z", "z = x - y")
    assert kernel(np.ones(2), np.ones(2)).tolist() == [0, 0]


def test_an_error_behind_a_continued_line_points_at_its_column():
    with pytest.raises(KernelSyntaxError) as caught:
        elementwise("T x", "T z", f"z = x +{CONTINUED}   foo;")(np.ones(1))
    assert "line 2, column 4" in str(caught.value)
    with pytest.raises(KernelSyntaxError, match="unknown type 'foo'") as caught:
        elementwise(f"T x,{CONTINUED}  foo y", "T z", "z = x")
    assert str(caught.value).endswith("      foo y\n      ^^^^^")


# --- min and max


def _c_extremum(x, y, ufunc):
    """C's fmin and fmax, with -0 below +0."""
    with np.errstate(all="ignore"):
        result = ufunc(x, y)
    zeros = (x == 0) & (y == 0)
    result[zeros] = np.where(
        np.signbit(x) | np.signbit(y) if ufunc is np.fmin else np.signbit(x) & np.signbit(y), -0.0, 0.0
    )[zeros]
    return result


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["min", "max", "fmin", "fmax"])
def test_min_and_max_of_c_drop_nan(name, dtype, engine):
    x, y = (each.ravel().copy() for each in np.meshgrid(specials(dtype), specials(dtype)))
    expected = _c_extremum(x, y, np.fmin if "min" in name else np.fmax)
    in_preamble = f"T pick(T v, T w) {{ return {name}(v, w); }}"
    for source, preamble in ((f"z = {name}(x, y)", ""), ("z = pick(x, y)", in_preamble)):
        kernel = elementwise("T x, T y", "T z", source, preamble=preamble)
        assert same_bits(engine.get(kernel(engine.put(x), engine.put(y))), expected)


@pytest.mark.parametrize("name", ["min", "max", "fmin", "fmax"])
def test_reductions_in_c_drop_nan(name, engine):
    kernel = reduction("T x", "T y", map_expr="x", reduce_expr=f"{name}(a, b)", post_map_expr="y = a")
    rng = np.random.default_rng(0)
    for length in (1, 5, 700, 9000):
        x = rng.standard_normal((3, length)).astype(np.float32)
        x[rng.random(x.shape) < 0.5] = np.nan
        x[2] = np.nan
        with np.errstate(all="ignore"):
            expected = (np.fmin if "min" in name else np.fmax).reduce(x, axis=1)
        assert same_bits(engine.get(kernel(engine.put(x), axis=1)), expected)


def test_minimum_and_maximum_carry_nan():
    x, y = np.array([np.nan, 1.0]), np.array([1.0, np.nan])
    for name in ("minimum", "maximum"):
        assert np.isnan(elementwise("T x, T y", "T z", f"z = {name}(x, y)")(x, y)).all()
        assert np.isnan(elementwise(lambda x, y: getattr(np, name)(x, y))(x, y)).all()  # noqa: B023


@pytest.mark.parametrize("name", ["min", "max"])
def test_the_gradient_goes_to_the_operand_that_is_taken(name):
    torch = pytest.importorskip("torch")
    x = torch.tensor([np.nan, 1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    y = torch.tensor([1.0, np.nan, 5.0, 3.0], dtype=torch.float64, requires_grad=True)
    elementwise("T x, T y", "T z", f"z = {name}(x, y)")(x, y).sum().backward()
    takes_x = [0.0, 1.0, float(name == "min"), 0.5]
    assert x.grad.tolist() == takes_x
    assert y.grad.tolist() == [1 - each for each in takes_x]


# --- C++'s initializers, operators by name, and statements before the loop


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("T a { x + 1 }, b{2}; T c{}; y = a * b + c;", lambda x: (x + 1) * 2),
        ("T a(x + 1); T b(2 * (x - 1)); y = a * b;", lambda x: (x + 1) * 2 * (x - 1)),
        ("y = max(T{1}, x) + T { x * (1 + T{2}) };", lambda x: np.maximum(1, x) + x * 3),
        ("int s{0}; for (int k{0}; k < 3; ++k) { s += k; } y = s + x;", lambda x: x + 3),
        ("if (x > 1) { y = x; } else { const T q{ -x }; y = q; }", lambda x: np.where(x > 1, x, -x)),
        ("y = x > 1 and not (x > 2) or x < 0 ? 1 : 0;", lambda x: ((x > 1) & ~(x > 2) | (x < 0)).astype(float)),
        ("y = std::sqrt(std :: abs(x));", lambda x: np.sqrt(np.abs(x))),
    ],
)
def test_the_ways_in_which_cpp_writes_values(engine, operation, expected):
    x = np.array([-1.5, 0.25, 1.25, 3.0])
    assert same_bits(engine.get(elementwise("T x", "T y", operation)(engine.put(x))), expected(x))


def test_functions_of_a_preamble_have_initializers_too():
    preamble = (
        "double g(double v) { double w(v * (v + 1)); return w; } double f(double v) { double u{g(v)}; return u; }"
    )
    x = np.array([0.5, 2.0])
    assert elementwise("T x", "T y", "y = f(x)", preamble=preamble)(x).tolist() == [0.75, 6.0]


def test_a_complex_number_is_made_of_two_parts():
    found = elementwise("float32 x", "complex64 y", "y = complex<float>(x, 2)")(np.array([1.0], np.float32))
    assert found.tolist() == [1 + 2j]
    with pytest.raises(KernelSyntaxError, match="is made of one value, and 2 are given"):
        elementwise("T x", "T y", "y = T(x, 2)")(np.ones(2))


def test_rounding_a_complex_number_is_refused():
    with pytest.raises(KernelTypeError, match=r"round\(\) is not defined for complex64"):
        elementwise("complex64 x", "int32 y", "y = round(x)")(np.ones(2, np.complex64))


def test_a_list_of_values_is_no_number():
    with pytest.raises(KernelSyntaxError, match="float64 is made of one value, and 2 are given"):
        elementwise("T x", "T y", "T q{ 1, 2 }; y = q;")(np.ones(2))


def test_a_parameter_may_be_named_n():
    kernel = elementwise("T x, int32 n", "T y", "y = x * n + _ind.size()")
    assert kernel(np.array([1.0, 2.0]), 5).tolist() == [7.0, 12.0]
    assert elementwise("T x", "T y", "y = n")(np.ones(3)).tolist() == [3, 3, 3]


def test_values_that_are_the_same_for_every_element_come_first(engine):
    kernel = elementwise("T x", "T y", "y = w * x; k = y;", loop_prep="const double w { 2.0 / _ind.size() }; double k;")
    x = np.array([1.0, 3.0, 5.0, 8.0])
    assert same_bits(engine.get(kernel(engine.put(x))), x * 0.5)
    again = pickle.loads(pickle.dumps(kernel))
    assert same_bits(again(x), x * 0.5)


def test_each_element_begins_with_the_values_of_loop_prep(engine):
    x = np.array([1.0, -1.0, 2.0, 3.0])
    kernel = elementwise("T x", "T y", "if (x > 0) { w += x; } y = w++; y += w;", loop_prep="double w = 2;")
    assert engine.get(kernel(engine.put(x))).tolist() == [7, 5, 9, 11]


@pytest.mark.parametrize("after", ["", "z = -z;"])
def test_loop_prep_may_return(engine, after):
    texts = {"loop_prep": "if (n > 3) return;", "after_loop": after}
    kernel = elementwise("T x", "T z", "z = x; if (x < 0) return; z += 1", **texts)
    x = np.array([1.0, -2.0, 3.0, 4.0])
    for count, expected in ((3, [-2, -2, -4] if after else [2, -2, 4]), (4, [7] * 4)):
        z = engine.put(np.full(count, 7.0))
        kernel(engine.put(x[:count]), z)
        assert engine.get(z).tolist() == expected


def test_a_variable_of_an_inner_block_hides_one_of_loop_prep():
    operation = "y = w; if (x > 1) { T w = x; w += 1; y = w; }"
    assert elementwise("T x", "T y", operation, loop_prep="T w = 7;")(np.array([1.0, 2.0])).tolist() == [7.0, 3.0]


@pytest.mark.parametrize("name", ["and", "or", "not"])
def test_operators_are_no_names(name):
    with pytest.raises(KernelSyntaxError, match="has a meaning of its own"):
        elementwise(f"T {name}", "T y", "y = 1")


def test_nested_initializers_are_read_in_linear_time():
    depth = 2000
    with pytest.raises(KernelSyntaxError, match="nested too deeply"):
        elementwise("T x", "T y", "y = " + "T{" * depth + "x" + "}" * depth)


def test_statements_before_the_loop_are_for_snippets():
    with pytest.raises(KernelTypeError, match="loop_prep= is for C snippets"):
        elementwise(lambda x: x, loop_prep="int k = 0;")
    with pytest.raises(KernelSyntaxError, match="loop_prep, line 1"):
        elementwise("T x", "T y", "y = x", loop_prep="int k = ;")


@pytest.mark.parametrize("name", ["expf", "logf", "log2f", "log10f", "sinf", "cosf", "tanf", "powf"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_intrinsics_of_float_are_the_accurate_functions(name, dtype, engine):
    args = "x, 3" if name == "powf" else "x"
    x = engine.put(np.concatenate([specials(dtype), np.linspace(-90, 90, 1001, dtype=dtype)]))
    fast, accurate = (elementwise("T x", "float z", f"z = {each}({args})") for each in (f"__{name}", name))
    assert fast.ir(dtype, "float32") == accurate.ir(dtype, "float32")
    assert same_bits(engine.get(fast(x)), engine.get(accurate(x)))


def test_an_intrinsic_names_itself_in_its_errors():
    with pytest.raises(KernelTypeError, match=r"__powf\(\) takes 2"):
        elementwise("T x", "T z", "z = __powf(x)")(np.ones(1))


def test_after_loop_follows_each_element_with_what_loop_prep_has_declared(engine):
    x = np.array([3, -1, 4, -1, 5], np.int32)
    texts = {"loop_prep": "int least = 0;", "after_loop": "atomicAdd(&total[0], least);"}
    operation = "int d = 2 * x; if (d > 0) least = d; y = least"
    kernel = elementwise("int32 x", "int32 y, raw int32 total", operation, **texts)
    y, total = engine.put(np.zeros(5, np.int32)), engine.put(np.zeros(1, np.int32))
    kernel(engine.put(x), y, total)
    assert engine.get(y).tolist() == [6, 0, 8, 0, 10]
    assert engine.get(total).tolist() == [24]


def test_after_loop_runs_after_continue_and_not_after_return():
    x = np.array([1.0, 2.0, 3.0])
    texts = {"loop_prep": "T k = 1;", "after_loop": "if (k > 0) y = y + k;"}
    for jump, expected in (("continue", [11, 2, 3]), ("return", [10, 2, 3])):
        kernel = elementwise("T x", "T y", f"y = 10; if (x < 2) {jump}; y = x - 1;", **texts)
        assert kernel(x).tolist() == expected


def test_after_loop_knows_no_variable_of_the_snippet():
    with pytest.raises(KernelSyntaxError, match="after_loop, line 1, column 5: 'd' is not declared"):
        elementwise("T x", "T y", "T d = x; y = d", after_loop="y = d;")(np.ones(2))
    with pytest.raises(KernelTypeError, match="after_loop= is for C snippets"):
        elementwise(lambda x: x, after_loop="int k = 0;")
    assert pickle.loads(pickle.dumps(elementwise("T x", "T y", "y = x", after_loop="y = 2 * y;")))(np.ones(1)) == 2


# --- loops that end with the data: against Python, and as CUDA source; random ones are in test_differential


X = np.arange(-5, 30)


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
    "return in the first turn": ("T c = 0; do { if (c < 7) { y = x - c; return; } y = 1; } while (++c < x); y += 5;",
                                 lambda v: v),
    "output": ("y = 0; while (y * y < x) y++;", lambda v: next(k for k in range(9) if k * k >= v)),
    "nested": ("y = 0; for (T a = 0; a < x; a++) for (T b = a; b < x; b++) if (a + b == 7) y += b;",
               lambda v: sum(b for a in range(v) for b in range(a, v) if a + b == 7)),
    "written out": ("y = 1; for (int j = 0; j < 6; j++) { if (j > x) break; if (j == 2) continue; y += j; }",
                    lambda v: 1 + sum(j for j in range(6) if j != 2 and j <= v)),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_a_loop_gives_what_python_gives(engine, name):
    operation, by_hand = KERNELS[name]
    kernel = elementwise("T x", "T y", operation)
    assert engine.get(kernel(engine.put(X))).tolist() == [by_hand(each) for each in X.tolist()]


def test_a_loop_in_cuda_gives_the_same():
    kernels = {name: elementwise("T x", "T y", operation) for name, (operation, _) in KERNELS.items()}
    found = {name: np.zeros_like(X) for name in kernels}
    all_as_cuda([(kernels[name], X, found[name]) for name in kernels])
    assert [name for name, kernel in kernels.items() if not same_bits(found[name], kernel(X))] == []


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
