"""Raw kernels: structs, vectors, pointers and foreign arrays as arguments; parameters as a source declares them."""

from __future__ import annotations

import contextlib
import copy
import io
import pickle
import re
import shutil
import subprocess
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import xferlib as xl
from tests import driver_double
from tests.kernels.targets import need_nvrtc
from xferlib.errors import (
    ArgumentError,
    KernelCompileError,
    KernelSyntaxError,
    KernelTypeError,
    LayoutError,
    UnsupportedError,
)
from xferlib.kernels import raw_module
from xferlib.kernels.cuda_signature import CudaSource, preprocess, whole_shape
from xferlib.kernels.raw import find_codes
from xferlib.testing import load_backend


def _need_compiler() -> None:
    if not _is_cuda():
        need_nvrtc()


def _is_cuda() -> bool:
    return xl.get_device().kind == "cuda"


def _kernel(source: str, name: str, cpu: Any = None, **options: Any) -> xl.RawKernel:
    return raw_module(source, **options).get_function(name, cpu=cpu)


def _parameters(source: str, name: str = "k", **options: Any) -> list[tuple[str, Any]]:
    found = _kernel(source, name, **options).parameters
    return [(each.name, "pointer" if each.is_pointer else each.dtype) for each in found]


# --- structs and vectors by value

_MOVE = """
struct Motion { float3 by; int times; double scale[2]; };
extern "C" __global__ void move(float *x, Motion m, float2 offset, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * (float)m.scale[1] + m.by.x * m.times + m.by.z + offset.y;
}"""


def _move(x: Any, m: Any, offset: Any, n: Any) -> None:
    x[:n] = x[:n] * np.float32(m["scale"][1]) + m["by"]["x"] * m["times"] + m["by"]["z"] + offset["y"]


_FORMS = {
    "tuples": (((1.0, 2.0, 3.0), 4, (5.0, 6.0)), (7.0, 8.0)),
    "dicts": ({"by": (1.0, 2.0, 3.0), "times": 4, "scale": [5, 6]}, {"y": 8, "x": 7}),
    "arrays": (((1.0, 2.0, 3.0), 4, np.array([5.0, 6.0])), np.array([7, 8])),
    "lists": ([(1, 2, 3), 4, [5, 6]], [7, 8]),
}


@pytest.mark.parametrize("form", _FORMS)
def test_structs_and_vectors_are_passed_by_value(library: str, form: str) -> None:
    kernel = _kernel(_MOVE, "move", _move)
    x = xl.to_device(np.arange(5, dtype=np.float32))
    for _ in range(2):
        kernel(1, 32, (x, *_FORMS[form], 5))
    once = np.arange(5, dtype=np.float32) * 6 + 15
    assert xl.to_host(x).tolist() == (once * 6 + 15).tolist()


def test_a_numpy_record_is_passed_by_its_bytes(library: str) -> None:
    kernel = _kernel(_MOVE, "move", _move)
    motion, offset = (np.dtype(each.dtype) for each in kernel.parameters[1:3])
    by, scale = np.dtype([(each, "f4") for each in "xyz"]), np.dtype([("a", "f8"), ("b", "f8")])
    assert motion.fields is not None
    offsets = [at for _, at, *_ in motion.fields.values()]
    alike = np.dtype({"names": [*motion.fields], "formats": [by, "i4", scale], "offsets": offsets})
    record, other = np.zeros(1, motion), np.zeros(1, alike)
    record["by"]["z"] = other["by"]["z"] = 2
    pair = np.zeros(2, offset["x"]).view([("all", offset["x"], 2)])
    for value in (record[0], record.reshape(()), record, record.reshape(1, 1), other):
        for beside in (np.zeros((), offset), pair):
            x = xl.to_device(np.ones(3, np.float32))
            kernel(1, 32, (x, value, beside, 3))
            assert xl.to_host(x).tolist() == [2.0] * 3


class _Speaks:
    """An array of a library that is no backend, which speaks DLPack."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize(
    "wrong",
    [5, None, "abc", (1, 2), (1, 2, 3, 4), ((1, 2), 3, (4, 5)), {"by": (1, 2, 3)},
     ((1, 2, 3), "x", (4, 5)), ((1, 2, 3), 4, (5, 6, 7)), np.zeros(2), np.float64(1),
     np.zeros(2, [("by", "f4", 3), ("times", "i4"), ("scale", "f8", 2)])],
    ids=repr,
)  # fmt: skip
def test_what_is_no_such_struct_is_refused(library: str, wrong: Any) -> None:
    x = xl.to_device(np.zeros(3, np.float32))
    with pytest.raises(KernelTypeError, match="'m' is .*a struct of by, times, scale"):
        _kernel(_MOVE, "move", _move)(1, 32, (x, wrong, (1, 2), 3))
    assert xl.to_host(x).tolist() == [0] * 3


_TIMES = np.dtype([("by", [(each, "f4") for each in "xyz"]), ("times", "f8"), ("scale", "f8", 2)])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (((1, 2, 3), 2**40, (4, 5)), r"'m\.times' is 1099511627776, out of range for int32"),
        (((1, 2, 3), 2.5, (4, 5)), r"'m\.times' is 2\.5 and the parameter int32"),
        (((1, 2, 10**40), 2, (4, 5)), r"'m\.by\.z' is 1.*out of range for float32"),
        ({"by": (1, 2, 3), "times": np.array(-(2**31) - 1), "scale": (4, 5)}, r"'m\.times' is -2147483649"),
        (np.array(((1, 2, 3), 2.5, (4, 5)), _TIMES), r"'m\.times' is 2\.5"),
        (((1, 2, 3), 2, (4, 5j)), r"'m\.scale' is complex"),
        (((1, 2, 3), 10**5000, (4, 5)), r"'m\.times' is an int of 16610 bits, out of range"),
        (((10**5000, 2, 3), 1, (4, 5)), r"'m\.by\.x' is an int of 16610 bits, out of range"),
    ],
)
def test_a_member_is_checked_as_a_number_is(library: str, wrong: Any, words: str) -> None:
    x = xl.to_device(np.zeros(3, np.float32))
    with pytest.raises(KernelTypeError, match=words):
        _kernel(_MOVE, "move", _move)(1, 32, (x, wrong, (1, 2), 3))


@pytest.mark.parametrize("number", [np.array(3), np.zeros(1, np.int32)])
def test_an_array_in_place_of_a_number_is_told(library: str, number: Any) -> None:
    x = xl.to_device(np.zeros(3, np.float32))
    kernel = _kernel("__global__ void k(float *x, int n) {}", "k", lambda x, n: None)
    for each in (number, xl.to_device(number)):
        with pytest.raises(KernelTypeError, match=r"'n' is an array, and the parameter a number; pass .*item\(\)"):
            kernel(1, 32, (x, each))


def test_a_struct_can_be_declared_where_the_source_hides_it(library: str) -> None:
    source = """
struct Ends { float low, high; };
struct Range : Ends {};
extern "C" __global__ void clamp(float *x, Range r) { x[0] = fminf(fmaxf(x[0], r.low), r.high); }"""
    with pytest.raises(KernelSyntaxError, match="types="):
        _kernel(source, "clamp")
    kernel = _kernel(
        source,
        "clamp",
        lambda x, r: np.clip(x, r["low"], r["high"], out=x),
        types={"Range": np.dtype([("low", "f4"), ("high", "f4")])},
    )
    x = xl.to_device(np.full(1, 9, np.float32))
    kernel(1, 1, (x, (1, 2)))
    assert xl.to_host(x).tolist() == [2]


_LIMITS = """
struct Limits {
    float low = 0, high{1};
    static const int count = 2;
    enum { most = 4 };
    Limits() = default;
    __host__ __device__ Limits(float low, float high) : low(low), high{high} { if (high < low) { this->high = low; } }
    __device__ float operator[](int i) const { return i ? high : low; }
    template <class T> __device__ T width() const { return T(high - low); }
};
extern "C" __global__ void clamp(float *x, Limits r) { x[0] = fminf(fmaxf(x[0], r[0]), r[1]); }"""


def test_functions_and_constants_of_a_struct_take_no_room(library: str) -> None:
    kernel = _kernel(_LIMITS, "clamp", lambda x, r: np.clip(x, r["low"], r["high"], out=x))
    x = xl.to_device(np.full(1, 9, np.float32))
    kernel(1, 1, (x, {"high": 2, "low": 1}))
    assert xl.to_host(x).tolist() == [2]


@pytest.mark.parametrize(
    "body",
    ["float x; virtual void f();", "float x; void (*f)(int);", "int x : 3;", "union { int a; float b; };",
     "enum K { a } k;", "DECLARED(float, x); int y;", "alignas(8) float x;", "float &x;", "int a[count];"],
)  # fmt: skip
def test_a_struct_with_members_that_cannot_be_read_is_refused(body: str) -> None:
    with pytest.raises(KernelSyntaxError, match="types="):
        _parameters(f'struct S {{ {body} }}; extern "C" __global__ void k(S s) {{}}', "k")


def test_an_aligned_struct_is_as_large_as_it_asks_for() -> None:
    source = """
template <class T> struct Pair { T a; T b; };
struct __align__(16) Wide { float x; Pair<short> p; const float *__restrict__ q; };
extern "C" __global__ void k(Wide s) {}"""
    [(_, dtype)] = _parameters(source, "k")
    assert {name: found[1] for name, found in dtype.fields.items()} == {"x": 0, "p": 4, "q": 8}
    assert dtype.itemsize == 16


def test_an_array_of_vectors_has_an_axis_of_their_members(library: str) -> None:
    source = 'extern "C" __global__ void up(float3 *x, const float2 *y) { x[threadIdx.x].y += y[threadIdx.x].x; }'

    def up(x: Any, y: Any) -> None:
        x[:, 1] += y[:, 0]

    x, y = xl.to_device(np.zeros((4, 3), np.float32)), xl.to_device(np.ones((4, 2), np.float32))
    _kernel(source, "up", up)(1, 4, (x, y))
    assert xl.to_host(x).tolist() == [[0, 1, 0]] * 4


def test_a_record_with_the_names_exchanged_is_refused(library: str) -> None:
    kernel = _kernel(_MOVE, "move", _move)
    motion, offset = (np.dtype(each.dtype) for each in kernel.parameters[1:3])
    exchanged = np.zeros((), [(name, offset[name]) for name in "yx"])
    with pytest.raises(KernelTypeError, match="a struct of"):
        kernel(1, 32, (xl.to_device(np.ones(3, np.float32)), np.zeros((), motion), exchanged, 3))


_MACROS = """
#define ARRAY(T) const T *__restrict__
#define PASTED(a, b) a##b
#define NAMED(a, b) PASTED(a, b)
#define OF float
#define SUFFIX 2
#define MAKE(name, T, ...) extern "C" __global__ void name##_##T(T *y, __VA_ARGS__) { y[0] = 1; }
MAKE(fill, double, ARRAY(OF) x, NAMED(float, SUFFIX) v)
#undef ARRAY
#define ARRAY(T) T *
extern "C" __global__ void other(ARRAY(OF) x) {}
"""


def test_macros_with_parameters_are_replaced() -> None:
    found = [(name, str(dtype)) for name, dtype in _parameters(_MACROS, "fill_double")]
    assert found == [("y", "pointer"), ("x", "pointer"), ("v", "[('x', '<f4'), ('y', '<f4')]")]
    y, x = _kernel(_MACROS, "fill_double").parameters[:2]
    assert (str(y.dtype), y.is_const, str(x.dtype), x.is_const) == ("float64", False, "float32", True)
    assert not _kernel(_MACROS, "other").parameters[0].is_const


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no compiler to compare with")
@given(
    st.lists(
        st.sampled_from(
            ["F(1)", "F(F(2))", "G(a,b)", "G(F(x),(1,2))", "V(1,2,3)", "V(1)", "N()", "H(G(p,q), O)", "F (3)", "O", "F",
             "S(a + b)", "C(O, 1)", "D(O, 1)", "G(a)"]
        ),
        min_size=1,
        max_size=4,
    )
)  # fmt: skip
@settings(max_examples=20, deadline=None)
def test_macros_mean_what_they_mean_to_a_compiler(calls: list[str]) -> None:
    assume("G(a)" not in calls)  # an error of the compiler's
    source = """
#define O 7
#define F(x) (x + O)
#define G(x, y) x y F(y)
#define V(x, ...) x: __VA_ARGS__
#define N() none
#define H(x, y) G(x, y)
#define S(x) #x
#define C(a, b) a##b
#define D(a, b) C(a, b)
""" + " | ".join(calls)
    told = subprocess.run(["gcc", "-E", "-P", "-xc", "-"], input=source, capture_output=True, text=True, check=True)
    wanted = told.stdout.strip().splitlines()[-1]
    found = preprocess(source)[0]
    assert "".join(found.split()) == "".join(wanted.split())


_SPELLED = """
enum Kind { A, B };
enum class Small : unsigned char { C };
typedef enum { D, E } Other;
extern "C" __global__ void k(float const *a, float *const b, const float *const __restrict__ c, Kind d, Small e,
    enum Kind f, Other g, dim3 h, __half i, float j = 1.0f) {}"""


def test_the_words_of_parameters_are_those_of_cpp() -> None:
    kernel = _kernel(_SPELLED, "k")
    assert [each.is_const for each in kernel.parameters[:3]] == [True, False, True]
    sizes = ["float32", "float32", "float32", "int32", "uint8", "int32", "int32"]
    assert [str(each.dtype) for each in kernel.parameters[:7]] == sizes
    assert [str(each.dtype) for each in kernel.parameters[8:]] == ["float16", "float32"]
    assert kernel.parameters[7].nbytes == 12


def test_an_instance_may_be_spelled_with_other_blanks(library: str) -> None:
    source = "template <typename T, int n> __global__ void fill(T *x) { x[0] = n; }"
    kernel = _kernel(source, "fill<float,3>", lambda x: x.fill(3), names=("fill< float, 3 >",))
    x = xl.to_device(np.zeros(1, np.float32))
    kernel(1, 1, (x,))
    assert xl.to_host(x).tolist() == [3]


_BOX = """
template <typename T, int N = 2> struct Box { T low[N]; short tag; };
typedef Box<float> Pair;
using Triple = Box<double, 3>;
template <typename T> __global__ void k(T *x, const Box<T> a, Box< int , 4 > b, Pair p, Triple t) {}"""


def test_the_instances_of_a_template_of_structs_are_read_from_the_source() -> None:
    found = dict(_parameters(_BOX, "k<double>", names=("k<double>",)))
    sizes = {
        name: (dtype["low"].shape, dtype["low"].base.name, dtype.itemsize)
        for name, dtype in found.items()
        if name != "x"
    }
    assert sizes == {
        "a": ((2,), "float64", 24), "b": ((4,), "int32", 20), "p": ((2,), "float32", 12), "t": ((3,), "float64", 32),
    }  # fmt: skip


def test_the_instance_of_a_template_can_be_declared(library: str) -> None:
    source = """
template <typename T> struct Factor { T by; __device__ T operator()(T x) const { return x * by; } };
template <typename T> struct Scale : Factor<T> {};
extern "C" __global__ void scale(float *x, Scale< float > s) { x[0] = s(x[0]); }"""
    with pytest.raises(KernelSyntaxError, match="types="):
        _kernel(source, "scale")
    cpu = lambda x, s: np.multiply(x, s["by"], out=x)
    kernel = _kernel(source, "scale", cpu, types={"Scale<float>": [("by", "f4")]})
    x = xl.to_device(np.full(1, 9, np.float32))
    kernel(1, 1, (x, (2,)))
    assert xl.to_host(x).tolist() == [18]


@pytest.mark.parametrize(
    "types", [{"A": "object"}, {"A": None.__class__}, {"a b": "f4"}, {3: "f4"}, {"A": "V0"}, {"A<": "f4"}, {"": "f4"}]
)
def test_a_declared_type_that_has_no_bytes_is_refused(types: Any) -> None:
    with pytest.raises(KernelSyntaxError, match="types: "):
        raw_module("", types=types)


_NUMBERS = {"char": "i1", "short": "i2", "int": "i4", "long long": "i8", "float": "f4", "double": "f8", "void *": "u8",
            "unsigned char": "u1", "unsigned int": "u4", "size_t": "u8"}  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from([*_NUMBERS]), st.sampled_from([(), (1,), (3,), (2, 5)])), min_size=1))
def test_a_struct_lies_in_memory_as_in_c(members: list[tuple[str, tuple[int, ...]]]) -> None:
    lines = [f"  {kind} m{n}{''.join(f'[{d}]' for d in dims)};" for n, (kind, dims) in enumerate(members)]
    body = "\n".join(lines)
    expected = np.dtype([(f"m{n}", _NUMBERS[kind], dims) for n, (kind, dims) in enumerate(members)], align=True)
    for source in (f"struct S {{\n{body}\n}};", f"typedef struct {{{body}}} S;", f"typedef struct other {{{body}}} S;"):
        ((_, found),) = _parameters(source + '\nextern "C" __global__ void k(S s) {}')
        assert found.itemsize == expected.itemsize
        assert dict(found.fields or {}) == dict(expected.fields or {})


def test_vectors_are_aligned_as_cuda_has_them() -> None:
    source = """
struct Inner { char a; double2 d; };
struct S { char a; float4 b; char c; float3 d; char2 e; Inner f; uchar4 g; int *p, n; };
__global__ void k(S s) {}"""
    ((_, found),) = _parameters(source)
    offsets = {name: found.fields[name][1] for name in found.names}
    assert offsets == {"a": 0, "b": 16, "c": 32, "d": 36, "e": 48, "f": 64, "g": 96, "p": 104, "n": 112}
    assert found.itemsize == 128


# --- pointers

_FILL = """
extern "C" __global__ void fill(float *x, const float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = y ? y[i] : 7;
}"""


class _Allocation:
    def __init__(self, pointer: int) -> None:
        self.pointer = pointer

    def __int__(self) -> int:
        return self.pointer


@pytest.mark.parametrize("kind", [lambda _: None, int, _Allocation])
def test_a_pointer_is_null_an_address_or_an_allocation(library: str, kind: Any) -> None:
    x, y = (xl.to_device(np.full(3, value, np.float32)) for value in (0, 7))
    given = kind(load_backend(library).view(y).pointer)
    seen: list[Any] = []

    def cpu(x: Any, y: Any, n: Any) -> None:
        seen.append(y)
        x.fill(7)

    kernel = _kernel(_FILL, "fill", cpu)
    for _ in range(2):
        kernel(1, 32, (x, given, 3))
        xl.synchronize()
        assert xl.to_host(x).tolist() == [7] * 3
    assert _is_cuda() or all(each is given if given is None else int(each) == int(given) for each in seen)


@pytest.mark.parametrize("wrong", [1.5, True, -1, 1 << 64, "x", b"x", [], np.float32(1), 1j], ids=repr)
def test_what_is_no_pointer_is_refused(library: str, wrong: Any) -> None:
    x = xl.to_device(np.zeros(3, np.float32))
    with pytest.raises(KernelTypeError, match="'y' is .* the parameter a pointer"):
        _kernel(_FILL, "fill", lambda x, y, n: None)(1, 32, (x, wrong, 3))


def test_an_array_that_speaks_dlpack_is_no_struct() -> None:
    x = np.zeros(3, np.float32)
    with pytest.raises(KernelTypeError, match="'m' is .*a struct of"):
        _kernel(_MOVE, "move", _move)(1, 32, (x, _Speaks(x), (1, 2), 3))


def test_addresses_are_written_at_once_and_other_pointers_are_converted_each_time() -> None:
    x = np.zeros(3, np.float32)
    parameters = _kernel(_FILL, "fill").parameters
    for pointer, code in ((x, "Q"), (4096, "Q"), (np.uint64(4096), "Q"), (None, None), (_Speaks(x), None)):
        expected = None if code is None else ["Q", code, "i"]
        assert find_codes(parameters, (x, pointer, 3)) == expected
    assert find_codes(_kernel(_MOVE, "move").parameters, (x, ((1, 2, 3), 4, (5, 6)), (7, 8), 3)) is None


# --- arrays of other libraries


def test_an_array_that_speaks_dlpack_is_an_argument() -> None:
    kernel = _kernel(_FILL, "fill", lambda x, y, n: np.copyto(x, y))
    with xl.use_backend("numpy"):
        x = np.zeros(3, np.float32)
        kernel(1, 32, (x, _Speaks(np.arange(3, dtype=np.float32)), 3))
        assert x.tolist() == [0, 1, 2]
        kernel(1, 32, (_Speaks(x), _Speaks(np.full(3, 5, np.float32)), 3))
        assert x.tolist() == [5, 5, 5]
        with pytest.raises(KernelTypeError, match="dtype float64"):
            kernel(1, 32, (x, _Speaks(np.zeros(3)), 3))


def _interface(array: Any, **changed: Any) -> Any:
    info = load_backend(xl.device_of(array).backend).view(array)
    described = {
        "data": (info.pointer, False), "shape": info.shape, "strides": None, "typestr": info.dtype.str, "version": 3,
    }  # fmt: skip
    return SimpleNamespace(__cuda_array_interface__={**described, **changed}, array=array)


def test_an_array_by_cudas_interface_is_an_argument(library: str) -> None:
    kernel = _kernel(_FILL, "fill", lambda x, y, n: None)
    x, y = xl.to_device(np.zeros(4, np.float32)), xl.to_device(np.arange(4, dtype=np.float32))
    if not _is_cuda():
        with pytest.raises(KernelTypeError, match="memory of a GPU"):
            kernel(1, 32, (x, _interface(y), 4))
        return
    stream = xl.Stream()
    for foreign in (
        _interface(y),
        _interface(y, stream=1),
        _interface(y, stream=stream.handle),
        _interface(y, strides=(4,)),
    ):
        xl.to_device(np.zeros(4, np.float32), out=x)
        kernel(1, 32, (x, foreign, 4))
        assert xl.to_host(x).tolist() == [0, 1, 2, 3]
    kernel(1, 32, (_interface(x), _interface(y, data=(0, True), shape=(0,)), 0))
    with pytest.raises(LayoutError, match="knows no strides"):
        kernel(1, 32, (x, _interface(y, strides=(8,), shape=(2,)), 2))
    with pytest.raises(LayoutError, match="read-only"):
        kernel(1, 32, (_interface(x, data=(1, True)), y, 2))


def test_a_foreign_array_is_on_the_device_that_the_driver_tells() -> None:
    driver_double.run(
        driver_double.TWO_DEVICES
        + """
from types import SimpleNamespace
from xferlib.kernels.raw import Adopted

def described(pointer, *shape):
    interface = {"data": (pointer, False), "shape": shape, "typestr": "<f4", "version": 3}
    return SimpleNamespace(__cuda_array_interface__=interface)

x = SimpleNamespace(is_pointer=True, is_const=False, name="x")
there = 1 << 32
for args, found in (
    ([described(there, 2)], [(there, one)]),
    ([described(64, 2)], [(64, zero)]),
    ([described(0, 0), described(there, 2)], [(one, one), (there, one)]),
    ([described(0, 0)], [(zero, zero)]),
):
    two.seen.clear()
    assert Adopted("k", [x] * len(args), args, two, zero).args == found, found
    assert two.seen == [place for what, place in found if what not in (zero, one)]
"""
    )


# --- parameters as the source declares them


_CHOICE = """
#ifndef PRECISION
  #define PRECISION 2
#endif
#if PRECISION == 2
  #define TYPE double
#elif PRECISION == 1 && !defined WIDE
  #define TYPE float
#else
  #error precision not supported
#endif
#ifdef WIDE
__global__ void k(TYPE *x, long long n, TYPE a) {}
#else
__global__ void k(TYPE *x, int n, TYPE a) {}
#endif
"""


_CONTINUED = """
#define REAL float
#define ARRAY(T) T *__restrict__
#define COUNT REAL \\
  // the rest of the line
#define PAIR REAL a, \\
             int b
extern "C" __global__ \\
void __launch_bounds__(256, 2) k(const REAL *x, /* in, out */ PAIR, // )
    unsigned \\
    int n, COUNT c) {}
"""
_ERROR = "#ifndef T\n#error no T\n#endif\n__global__ void k(T *x, T a) {}"
_LINES = """
#define T float
__global__ void first(T *x, T a) {}
struct Pair { T a; int n[SIZE]; };
#undef T
#define T double
__global__ void second(T *x, T a, Pair p) {}
"""
_NAMED = "__global__ void k(real *x, const real a) {}"
_OVERLOAD = "template <typename T> __global__ void k(T a) {}\n__global__ void k(int *x, int n) {}"


def _template(head: str, parameters: str) -> str:
    return f"namespace space {{ template <{head}>\n__global__ void k({parameters}) {{}} }}"


_DECLARED: list[tuple[str, str, tuple[str, ...], list[Any]]] = [
    (_CONTINUED, "k", (), ["*", "f4", "i4", "u4", "f4"]),
    (_ERROR, "k", ("-DT=double",), ["*", "f8"]), (_ERROR, "k", ("--define-macro=T=short",), ["*", "i2"]),
    (_CHOICE, "k", (), ["*", "i4", "f8"]), (_CHOICE, "k", ("-DPRECISION=1",), ["*", "i4", "f4"]),
    (_CHOICE, "k", ("-DWIDE",), ["*", "i8", "f8"]),
    (_CHOICE, "k", ("-D", "WIDE", "-DWIDE", "-UWIDE"), ["*", "i4", "f8"]),
    (_CHOICE, "k", ("--define-macro=PRECISION=(3-1)", "-DWIDE=0"), ["*", "i8", "f8"]),
    (_LINES, "first", (), ["*", "f4"]),
    (_LINES, "second", ("-DSIZE=3",), ["*", "f8", np.dtype([("a", "f4"), ("n", "i4", (3,))])]),
    ("typedef double real;" + _NAMED, "k", (), ["*", "f8"]), ("using real = double;" + _NAMED, "k", (), ["*", "f8"]),
    ("typedef double r;using real = r;" + _NAMED, "k", (), ["*", "f8"]),
    (_OVERLOAD, "k", (), ["*", "i4"]), (_OVERLOAD, "k<double>", (), ["f8"]),
    (_template("typename T", "T *x, T a, long long n"), "space::k<double>", (), ["*", "f8", "i8"]),
    (_template("class T", "const T *x, T a"), "space::k<unsigned char>", (), ["*", "u1"]),
    (_template("typename T, int N", "T *x, float a"), "space::k<float, 4>", (), ["*", "f4"]),
    (_template("typename T, typename U = T", "T *x, U a"), "space::k<short>", (), ["*", "i2"]),
    (_template("typename T, typename U = T", "T *x, U a"), "space::k<short, int>", (), ["*", "i4"]),
    (_template("typename T", "T a"), "space::k<complex<float>>", (), ["c8"]),
    (_template("typename T", "T a"), "space::k<float4>", (), [np.dtype([(name, "f4") for name in "xyzw"])]),
    (_template("bool B", "int n"), "space::k<true>", (), ["i4"]),
]  # fmt: skip


@pytest.mark.parametrize(("source", "name", "options", "expected"), _DECLARED)
def test_parameters_are_read_as_the_source_declares_them(
    source: str, name: str, options: tuple[str, ...], expected: list[Any]
) -> None:
    found = _kernel(source, name, options=options, names=(name,) if "<" in name else ()).parameters
    assert ["*" if each.is_pointer else each.dtype for each in found] == expected


def test_a_macro_without_a_value_is_an_error_of_the_source() -> None:
    assert [name for name, _ in _parameters(_CONTINUED)] == ["x", "a", "b", "n", "c"]
    with pytest.raises(KernelSyntaxError, match="'T' cannot be passed by value"):
        _parameters(_ERROR)


_DEPENDS = "#if __CUDA_ARCH__ >= 800\n{}\n#else\n{}\n#endif\n"


@pytest.mark.parametrize(
    "source",
    [
        _DEPENDS.format("__global__ void k(float *x, float a) {}", "__global__ void k(double *x, double a) {}"),
        _DEPENDS.format("#define T float", "#define T double") + "__global__ void k(T *x, T a) {}",
        _DEPENDS.format("typedef float T;", "using T = double;") + "__global__ void k(T *x, T a) {}",
        _DEPENDS.format("struct T { float x; };", "struct T { double x; };") + "__global__ void k(T *x, T a) {}",
        '#include "own.h"\n#ifdef FAST\n#define T float\n#endif\n__global__ void k(T *x, T a) {}',
    ],
)
def test_parameters_that_only_the_compiler_knows_need_a_signature(source: str) -> None:
    with pytest.raises(KernelSyntaxError, match="signature=|types="):
        _parameters(source)
    found = raw_module(source).get_function("k", "float *x, float a").parameters
    assert [each.dtype for each in found] == ["f4", "f4"]


@pytest.mark.parametrize(
    "condition", ["__CUDA_ARCH__ >= 600", "__has_include(<own.h>)", "defined(__GNUC__) || F(2)", "%"]
)
def test_what_only_the_compiler_decides_may_stand_beside_the_parameters(condition: str) -> None:
    source = f"#if {condition}\n#define LOCAL 1\n#else\n#define LOCAL 2\n#endif\n__global__ void k(short n) {{}}"
    assert _parameters(source) == [("n", "i2")]


_WORDS = st.sampled_from(["A", "B", "C"])
_TERMS = st.one_of(
    _WORDS, st.builds("defined({})".format, _WORDS), st.builds("!defined {}".format, _WORDS),
    st.sampled_from(["0", "1", "2u", "0x10", "010", "-3L", "7"]),
)  # fmt: skip
_OPERATORS = ["+", "-", "*", "/", "%", "<<", ">>", "==", "!=", "<", ">=", "&&", "||", "&", "|", "^"]
_CONDITIONS = st.recursive(
    _TERMS,
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(_OPERATORS), inner),
        st.builds("(!{})".format, inner), st.builds("(({}) ? {} : {})".format, inner, inner, inner),
    ),
    max_leaves=4,
)  # fmt: skip
_LINES = st.recursive(
    st.one_of(
        st.integers(0, 99).map("line{} A B C".format), st.builds("#define {} {}".format, _WORDS, st.integers(0, 3)),
        st.builds("#undef {}".format, _WORDS),
    ),
    lambda inner: st.builds(
        "#{}\n{}\n#elif {}\n{}\n# else\n{}\n#endif".format,
        st.one_of(st.builds("if {}".format, _CONDITIONS), st.builds(
            "if{}def {}".format, st.sampled_from(["", "n"]), _WORDS)
        ),
        inner, _CONDITIONS, inner, inner,
    ),
    max_leaves=12,
)  # fmt: skip


@pytest.mark.skipif(shutil.which("cpp") is None, reason="no preprocessor to compare with")
@settings(max_examples=40, deadline=None)
@given(st.lists(_LINES, max_size=5), st.sampled_from([(), ("-DA=2",), ("-DB", "-DC=0")]))
def test_lines_are_those_that_a_preprocessor_leaves(pieces: list[str], options: tuple[str, ...]) -> None:
    source = "\n".join(pieces)
    done = subprocess.run(["cpp", "-P", "-w", *options], input=source, capture_output=True, text=True)
    assume(done.returncode == 0)  # a division by zero, a shift without a meaning
    text, is_decided = preprocess(source, options)
    if not re.search("2u|/|%|<<|>>", source):  # these may have no value, or an unsigned one
        assert is_decided
    if is_decided:
        assert text.split() == done.stdout.split()


def test_an_instance_that_the_source_does_not_tell_needs_a_signature() -> None:
    source = "template <typename T, typename U> __global__ void k(T a, U b) {}"
    with pytest.raises(KernelSyntaxError, match="give signature="):
        _parameters(source, "k<int>", names=("k<int>",))
    kernel = raw_module(source, names=("k<int>",)).get_function("k<int>", "int a, float b")
    assert [str(each.dtype) for each in kernel.parameters] == ["int32", "float32"]


@given(st.text(max_size=60), st.text("k<>(),; T*\n\\#define{}", max_size=60))
def test_any_text_is_read_or_refused(one: str, two: str) -> None:
    for source in (f"__global__ void k({one}) {{}}", f"template <{two}> __global__ void k({one}) {{ {two}", one + two):
        for name in ("k", "k<int>"):
            try:
                raw_module(source.replace("\0", ""), names=(name,)).get_function(name)
            except KernelSyntaxError:
                continue


# --- modules

_SOURCE = """
__constant__ float table[4];
__device__ int counter = 5;
__device__ double2 odd;
const int half_as_many = 4;
__device__ float many[half_as_many * 2][3];
__constant__ short listed[] = {1, 2, 3};
namespace space { __device__ long long far[2][3]; }
extern "C" __global__ void look(float *x) { x[threadIdx.x] = table[threadIdx.x] + counter; }
extern "C" __global__ void far_too(long long *x) { x[0] = space::far[1][2]; space::far[0][0] = 9; odd.x = 1; }
extern "C" __global__ void meet(int *x, int n) {
  if (threadIdx.x) return;
  atomicAdd(&x[0], 1);
  while (atomicAdd(&x[0], 0) < n) {}
  atomicAdd(&x[1], 1);
}
extern "C" __global__ void shared(float *x) {
  extern __shared__ float s[];
  s[24000 + threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = s[24000 + 31 - threadIdx.x];
}
"""


@pytest.fixture(scope="module")
def module() -> xl.RawModule:
    return raw_module(_SOURCE, names=("&space::far",), options=("--std=c++17",))


def test_variables_of_the_device_are_arrays(library: str, module: xl.RawModule) -> None:
    _need_compiler()
    table, counter = module.get_global("table"), module.get_global("counter")
    infos = [load_backend(library).view(each) for each in (table, counter)]
    assert [(each.shape, str(each.dtype)) for each in infos] == [((4,), "float32"), ((), "int32")]
    assert int(xl.to_host(counter)) == 5
    xl.to_device(np.arange(4, dtype=np.float32), out=table)
    xl.to_device(np.int32(100), out=counter)
    x = xl.zeros(4, np.float32)
    module.get_function("look")(1, 4, (x,))
    assert xl.to_host(x).tolist() == [100, 101, 102, 103]
    far = module.get_global("space::far")
    xl.to_device(np.arange(6).reshape(2, 3), out=far)
    y = xl.zeros(1, np.int64)
    module.get_function("far_too")(1, 1, (y,))
    assert (xl.to_host(y).tolist(), xl.to_host(far).tolist()) == ([5], [[9, 1, 2], [3, 4, 5]])
    assert load_backend(library).view(module.get_global("odd")).shape == (16,)
    assert load_backend(library).view(module.get_global("many")).shape == (8, 3)
    assert xl.to_host(module.get_global("listed")).tolist() == [1, 2, 3]
    assert xl.to_host(module.get_global("odd", "float64")).tolist() == [1, 0]
    with pytest.raises(ArgumentError, match="no variable 'missing'"):
        module.get_global("missing")
    with pytest.raises(LayoutError, match="no multiple"):
        module.get_global("counter", "float64")


@pytest.mark.parametrize(
    ("name", "count", "shape"),
    [("table", 4, (4,)), ("table", 5, None), ("counter", 1, ()), ("many", 24, (8, 3)), ("many", 25, None),
     ("listed", 3, (3,))],
)  # fmt: skip
def test_an_extent_that_is_no_number_follows_from_the_size(name: str, count: int, shape: Any) -> None:
    found = CudaSource(_SOURCE).variable(name)
    assert found is not None
    assert whole_shape(found[1], count) == shape


def test_a_cooperative_launch_runs_all_blocks_at_a_time(library: str, module: xl.RawModule) -> None:
    kernel = module.get_function("meet", cpu=lambda x, n: x.__iadd__(n))
    x = xl.zeros(2, np.int32)
    for _ in range(1 if not _is_cuda() else 2):
        xl.to_device(np.zeros(2, np.int32), out=x)
        kernel(4, 32, (x, 4), cooperative=True)
        assert xl.to_host(x).tolist() == [4, 4]
    with pytest.raises(xl.errors.XferError, match="cooperative"):
        kernel(8, 32, (x, 8), cooperative=1)
    if _is_cuda():
        with pytest.raises(xl.errors.XferError, match="COOPERATIVE"):
            kernel(1 << 20, 1024, (x, 0), cooperative=True)


def test_a_block_has_more_than_48_kib_of_shared_memory(library: str, module: xl.RawModule) -> None:
    kernel = module.get_function("shared", cpu=lambda x: np.copyto(x, x[::-1].copy()))
    x = xl.to_device(np.arange(32, dtype=np.float32))
    kernel(1, 32, (x,), shared_nbytes=96_128 + 1024)
    assert xl.to_host(x).tolist() == [*range(31, -1, -1)]


def test_a_kernels_resources_are_told(library: str, module: xl.RawModule) -> None:
    _need_compiler()
    kernel = module.get_function("look")
    found = kernel.attributes()
    assert found.max_threads >= 32
    assert (found.registers > 0) is _is_cuda()
    assert (found.local_nbytes, found.shared_nbytes) == (0, 0)
    if not _is_cuda():
        with pytest.raises(UnsupportedError, match="uses no resources"):
            kernel.occupancy(128)
        return
    assert kernel.occupancy(1024) >= 1
    assert kernel.occupancy((32, 2)) >= kernel.occupancy(1024)
    assert module.get_function("shared").occupancy(32, shared_nbytes=100 << 10) >= 1
    with pytest.raises(KernelTypeError, match="1024 threads"):
        kernel.occupancy(1025)


def test_the_compilers_messages_are_written(library: str) -> None:
    log = io.StringIO()
    source = 'extern "C" __global__ void k(float *x) { int unused; }'
    _need_compiler()
    raw_module(source).compile(log_stream=log)
    assert "unused" in log.getvalue()
    with pytest.raises(KernelCompileError):
        raw_module("nonsense").compile()


@pytest.mark.parametrize("suffix", [".cubin", ".ptx"])
def test_machine_code_is_loaded_from_a_file(library: str, suffix: str, tmp_path: Any) -> None:
    file = tmp_path / f"kernels{suffix}"
    if not _is_cuda():
        file.write_bytes(b"\x7fELF")
    else:
        owner: Any = load_backend(library)
        device = xl.get_device()
        is_ptx = suffix == ".ptx"
        file.write_bytes(_PTX.encode() if is_ptx else owner.compile(_FILL, device=device).cubin)
    made = raw_module(path=file)
    file.unlink()
    with pytest.raises(KernelSyntaxError, match="give signature="):
        made.get_function("fill")
    x = xl.zeros(3, np.float32)
    for each in (made, pickle.loads(pickle.dumps(made))):
        kernel = each.get_function("fill", "float *x, const float *y, int n", cpu=lambda x, y, n: x.fill(7))
        kernel(1, 32, (x, None, 3))
        assert xl.to_host(x).tolist() == [7] * 3


_PTX = """
.version 7.0
.target sm_80
.address_size 64
.visible .entry fill(.param .u64 x, .param .u64 y, .param .u32 n)
{
  .reg .u64 %p; .reg .u64 %o; .reg .u32 %t; .reg .f32 %f;
  ld.param.u64 %p, [x];
  cvta.to.global.u64 %p, %p;
  mov.u32 %t, %tid.x;
  .reg .pred %q; .reg .u32 %n;
  ld.param.u32 %n, [n];
  setp.ge.u32 %q, %t, %n;
  @%q ret;
  mul.wide.u32 %o, %t, 4;
  add.u64 %p, %p, %o;
  mov.f32 %f, 0f40E00000;
  st.global.f32 [%p], %f;
  ret;
}
"""


def test_a_module_is_of_source_or_of_a_file(tmp_path: Any) -> None:
    source, file = tmp_path / "kernels.cu", tmp_path / "kernels.cubin"
    source.write_text(_FILL)
    assert raw_module(path=str(source)).source == _FILL
    file.write_bytes(b"x")
    both: dict[str, Any] = {"source": "", "path": file}
    for options in ({}, both):
        with pytest.raises(KernelTypeError, match="one of the two"):
            raw_module(**options)
    with pytest.raises(ArgumentError, match="is not compiled"):
        raw_module(path=file, options=("-DN=3",))
    with pytest.raises(FileNotFoundError):
        raw_module(path=tmp_path / "missing.cu")


def test_a_file_of_source_is_utf_8_with_or_without_its_mark(tmp_path: Any) -> None:
    plain = "// µs\n__global__ void k(int n) {}"
    file = tmp_path / "kernels.cu"
    for content in (plain.encode(), plain.encode("utf-8-sig")):
        file.write_bytes(content)
        assert raw_module(path=file).source == plain
        assert raw_module(plain, link=[file]).get_function("k").parameters
    assert raw_module(f"\ufeff{plain}").source == plain
    file.write_bytes(plain.encode("latin-1"))
    for make in (lambda: raw_module(path=file), lambda: raw_module(plain, link=[file])):
        with pytest.raises(KernelSyntaxError, match=r"kernels\.cu' is not UTF-8, at byte 3 \(0xb5\); save it as"):
            make()


@pytest.mark.parametrize(
    "make",
    [
        lambda text: raw_module(text),
        lambda text: raw_module("", options=(text,)),
        lambda text: raw_module("", names=(text,)),
        lambda text: raw_module("", link=(text,)),
    ],
)
@pytest.mark.parametrize("character", ["\0", "\udcff"])
def test_text_that_no_compiler_takes_is_refused(make: Any, character: str) -> None:
    with pytest.raises((KernelSyntaxError, ArgumentError), match="raw_module"):
        make(f"// {character}")


def test_a_texture_is_a_number_to_a_launch() -> None:
    assert _parameters("__global__ void k(cudaTextureObject_t t, cudaSurfaceObject_t s) {}") == _parameters(
        "__global__ void k(unsigned long long t, size_t s) {}"
    )


def _twin(x: Any, m: Any, offset: Any, n: Any) -> None:
    _move(x, m, offset, n)


def test_modules_and_kernels_with_structs_travel(library: str) -> None:
    made = raw_module(_MOVE, types={"Other": "f4"})
    kernel = made.get_function("move", cpu=_twin)
    for each in (pickle.loads(pickle.dumps(kernel)), copy.copy(kernel), copy.deepcopy(kernel)):
        x = xl.to_device(np.zeros(3, np.float32))
        each(1, 32, (x, *_FORMS["tuples"], 3))
        assert xl.to_host(x).tolist() == [15.0] * 3
    assert pickle.loads(pickle.dumps(made)).source == _MOVE


# --- the parameters of kernels whose names are mangled: those names are g++'s


SOURCE = """
struct float3; namespace space { namespace deep { struct P { int a; }; template<class T> struct M { T v; }; } }
"""
NAMES = {
    "_Z3mixI6float3EvPT_PKS1_S1_": ["*", "*", "float3"],
    "_Z3mixISt7complexIfEEvPT_PKS2_S2_": ["*complex64", "*complex64", "complex64"],
    "_Z3vecP6float3S_PKS_": ["*", "float3", "*"],
    "_Z4convIi6float3EvPKT_PT0_m": ["*int32", "*", "uint64"],
    "_Z4cplxPSt7complexIfES_IdEPKS0_": ["*complex64", "complex128", "*complex64"],
    "_Z4nonev": [],
    "_Z5plainPKfPfPS1_yba": ["*float32", "*float32", "*", "uint64", "bool", "int8"],
    "_Z5scaleIN5space4deep1PEEvPT_S4_PKS3_S3_i": ["*", "*", "*", "P", "int32"],
    "_Z5scaleIdEvPT_S1_PKS0_S0_i": ["*float64", "*float64", "*float64", "float64", "int32"],
    "_ZN5space4deep1kIhLin4EEEvPT_PKS2_i": ["*uint8", "*uint8", "int32"],
    "_ZN5space4deep5otherEPNS0_1PENS0_1MIfEEPKS4_S1_": ["*", "M", "*", "P"],
}
_STRUCTS = {("x", "y", "z"): "float3", ("a",): "P", ("v",): "M"}


def _kind(parameter: Any) -> str:
    dtype = parameter.dtype
    text = "" if dtype is None else _STRUCTS[dtype.names] if dtype.names else dtype.name
    return f"*{text}" if parameter.is_pointer else text


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_read_from_a_mangled_name(name: str) -> None:
    kernel = xl.raw_module(SOURCE).get_function(name, cpu=lambda *_: None)
    assert [_kind(each) for each in kernel.parameters] == NAMES[name]


def test_const_pointers_are_read_only() -> None:
    kernel = xl.raw_module("").get_function("_Z4copyPKfPf", cpu=lambda x, y: np.copyto(y, x))
    assert [each.is_const for each in kernel.parameters] == [True, False]
    x, y = np.ones(3, "f4"), np.zeros(3, "f4")
    x.flags.writeable = False
    kernel(1, 3, (x, y))
    assert y.tolist() == [1] * 3


@given(st.text(alphabet="_ZNSTIEKPLfdijmv0123456789", max_size=40))
@example("0TE_")
def test_any_other_name_needs_a_signature(rest: str) -> None:
    with contextlib.suppress(KernelSyntaxError):  # which says what is missing
        assert xl.raw_module("").get_function(f"_Z{rest}").parameters is not None
