"""Errors name the remedy for what a newcomer writes first."""

from __future__ import annotations

import datetime as dt
import math
import operator
import re
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from functools import partial
from math import cos
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.recfunctions import structured_to_unstructured

import xferlib as xl
from tests.console import main
from tests.processes import run
from xferlib import errors as e
from xferlib.testing import assert_same_bits, configured

X = np.arange(12, dtype="float32").reshape(3, 4)
unchecked: Any = xl  # for type checkers, which see what is wrong
TWO_KERNELS = 'extern "C" __global__ void first(float *x) {}\n__global__ __launch_bounds__(64) void second(float *x) {}'
CONDITIONAL = "#if __CUDA_ARCH__ > 800\n__global__ void k(float *x) {}\n#endif"
FILL = "__global__ void fill(float *x) { x[threadIdx.x] = 1; }"


def on_sim() -> Any:
    return xl.to_device(X, backend="sim")


def ones() -> Any:
    return xl.ones(3, backend="sim")


def sim_namespace() -> Any:
    return xl.get_array_module(ones())


def fill(**options: Any) -> Any:
    return xl.raw_module(FILL).get_function("fill", **options)


def twice() -> Any:
    return xl.elementwise("T x", "T y", "y = x * 2", name="twice")


def copies(chunk: Any) -> Any:
    return chunk


def math_without_source() -> Any:
    names: dict[str, Any] = {"math": math, "xl": xl}
    exec("function = lambda x: math.sin(x)", names)
    return xl.elementwise(names["function"])(X)


# --- calls that are refused: each error names the remedy

REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    # prefetch and stream_map
    (lambda: xl.prefetch((np.zeros((1000, 7)), np.zeros(1000, "int64"))), e.UnsupportedArrayError,
     r"tuple of 2 arrays of 1000 rows each.*X\[i:i"),
    *[(lambda x=source: xl.stream_map(np.sqrt, x, chunk_rows=1), e.UnsupportedArrayError,
       r"loop over batches of your own: xferlib.prefetch\(batches\)")
      for source in ([X, X], (row for row in X), {"x": X})],
    (lambda: xl.stream_map(abs, "rows.npy", chunk_rows=1), e.XferError, r"numpy\.load\(path, mmap_mode='r'\)"),
    (lambda: xl.stream_map(lambda chunk: chunk.sum(), np.ones((4, 2)), chunk_rows=2), e.LayoutError,
     r"one row for each row, or give reduce=[^;]*\n"),
    (lambda: xl.stream_map(copies, np.ones(4), chunk_rows=2, out=np.empty(4, "float32")), e.LayoutError,
     r"there; let it end with astype\('float32'\)"),
    # devices and backends
    *[(lambda c=call: c(X, "sim"), TypeError, "'sim' came by position.*device='sim'")
      for call in (unchecked.to_device, unchecked.to_device_async)],
    (lambda: unchecked.to_device(X, np.float32), TypeError, "by name: device=, dtype="),
    (lambda: xl.use_backend("toch"), e.BackendNotFoundError, "did you mean 'torch'"),
    (lambda: unchecked.use_backend(np), e.BackendNotFoundError, "give its name, 'numpy'"),
    (lambda: unchecked.use_backend(math), e.BackendNotFoundError, "registered ones are"),
    *[(lambda n=name: xl.use_backend(n), e.BackendNotFoundError, remedy) for name, remedy in (
        ("NumPy", "did you mean 'numpy'"), ("PyTorch", "did you mean 'torch'"), ("simulator", "did you mean 'sim'"),
        ("cdua", "did you mean 'cuda'"), ("cpu", "device='cpu'"), ("host", "device='cpu'"),
        *[(gpu, "GPUs are devices 'cuda:0'") for gpu in ("cuda", "GPU", "cuda0", "cuda:0", "GPU:1")])],
    (lambda: unchecked.get_backend("torch"), e.UnsupportedArrayError, r"use_backend\(name\)"),
    (lambda: xl.to_device(X, device="gpu"), e.XferError, "GPUs are devices 'cuda:0'"),
    (lambda: xl.configure(thread=4), e.ConfigError, "did you mean 'threads'"),
    (lambda: unchecked.configure(sim_seed="x"), e.ConfigError, "expected a whole number$"),
    # streams and events
    (lambda: unchecked.Event().elapsed_ms(3), TypeError, "start is int, not an Event"),
    (lambda: unchecked.Stream().wait("tomorrow"), TypeError, "(no|not a) stream"),
    (lambda: unchecked.Stream().wait(X), e.StreamTypeError, "ndarray is (no|not a) stream, Event or Transfer"),
    (lambda: unchecked.to_device(X, stream=xl.Event()), e.StreamTypeError, r"stream\.wait\(event\)"),
    (lambda: unchecked.to_device_async(X).wait(3), e.StreamTypeError,
     r"int is (no|not a) Stream; for the host, write result"),
    (lambda: unchecked.Graph(), e.ArgumentError, r"write: with stream.capture\(\) as graph"),
    # arrays
    (lambda: xl.to_device(X, dtype="flaot32"), e.XferError, "did you mean 'float32'"),
    *[
        (lambda typed=typed: xl.zeros(3, dtype=typed), e.XferError, f"did you mean {meant!r}")
        for typed, meant in (("int4", "int4_x2"), ("uint4", "uint4_x2"), ("int46", "int64"), ("bfloat", "bfloat16"))
    ],
    (lambda: xl.zeros(3, dtype=pytest.importorskip("ml_dtypes").uint4), e.XferError, "did you mean 'uint4_x2'"),
    (lambda: unchecked.zeros(3, 4), e.XferError, "extents of a shape stand in one tuple"),
    (lambda: xl.zeros(3, dtype=pytest.importorskip("torch").complex32), e.XferError, r"dtype torch\.complex32; give"),
    (lambda: unchecked.full(3, "1.0"), e.UnsupportedArrayError, r"number; give one: full\(shape, number\)"),
    (lambda: unchecked.full(3, None), e.UnsupportedArrayError, "fill_value=None is (no|not a) number; give one"),
    *[(lambda c=call: c(2**70), e.UnsupportedArrayError, r"more than 64 bits has no dtype; give float\(x\)")
      for call in (xl.to_device, lambda x: xl.full(3, x))],
    *[(lambda x=x: xl.to_device(x), e.UnsupportedArrayError, remedy) for x, remedy in (
        ({"a": X}, r"tree\.to_device"), ([X, {"a": X}], r"tree\.to_device"), ("rows.npy", r"load\(path\)"),
        (Path("rows.npy"), r"load\(path\)"), ((n for n in range(3)), "list of its numbers"),
        ({1, 2}, "list of its numbers"))],
    (lambda: xl.to_device([[1.5, "a", None]]), e.UnsupportedArrayError,
     r"whose NoneType, float, str have no dtype .*without the texts"),
    (lambda: unchecked.to_host([ones()]), e.UnsupportedArrayError, r"tree\.to_host"),
    *[(lambda o=options: xl.pinned_empty(1 << 50, "int8", **o), e.PinnedMemoryError, "free arrays, or work on parts")
      for options in ({}, {"backend": "sim"})],
    (lambda: unchecked.save({"a": X}, "model.npz"), e.ArgumentError, r"save\(path, tree\)"),
    (lambda: on_sim() @ xl.ones((2, 3), backend="sim"), e.LayoutError, r"do not fit: 4 columns, 2 rows; reshape one$"),
    (lambda: on_sim() ** "a", e.KernelTypeError, r"^pow: argument 'x2' is str"),
    (lambda: sim_namespace().where(ones() > 0, ones()), e.XferError, r"give both, or neither for the indices$"),
    (lambda: sim_namespace().concat(ones()), e.XferError, r"write concat\(\[x, y\]\)$"),
    (lambda: sim_namespace().stack(ones()), e.XferError, r"write stack\(\[x, y\]\)$"),
    # the simulator and recordings
    (lambda: unchecked.sim.faults("x"), e.ArgumentError, "'x' is (no|not a) fault; give some of out of memory, "),
    (lambda: unchecked.sim.check("strict"), e.ArgumentError, "one of raise, log, off"),
    (lambda: xl.sim.timeline("h20"), e.ArgumentError, "did you mean 'h200'"),
    (lambda: xl.trace().plot("run.png"), e.ArgumentError, "never opened .* with xferlib.trace"),
    (lambda: xl.trace().write("run.json"), e.ArgumentError, "never opened .* with xferlib.trace"),
    # kernels in Python
    *[(lambda f=function: xl.elementwise(f)(xl.to_device(X)), e.KernelSyntaxError, said) for function, said in (
        (lambda a: math.sin(a) + 1, r"use np\.sin\(x\) instead of math\.sin"), (lambda a: 2 * cos(a), r"use np\.cos"),
        (lambda a: math.fabs(a), r"use np\.abs"), (lambda a: float(a), r"use astype\('float64'\)"))],
    (math_without_source, e.KernelSyntaxError, r"or a function of Python's math: .* np\.sin\(x\)"),
    (lambda: xl.elementwise(np.sin), e.XferError, r"write lambda x: np\.sin\(x\)$"),
    (lambda: xl.elementwise(lambda x: x @ x)(X), e.KernelError, r"x @ y: .* xp\.matmul"),
    # kernels in C
    (lambda: xl.elementwise("flaot32 x", "float32 y", "y = x"), e.XferError, "did you mean 'float32'"),
    *[(lambda s=source: xl.elementwise("T x", "T y", s), e.KernelError, said) for source, said in (
        ("for i in range(3): y = x", "looks like Python: give a function"),
        ("y = math.sin(x)", r"write sin\(x\) in place of math\.sin\(x\)"),
        ("y = np.exp(x)", r"write exp\(x\) in place of np\.exp\(x\)"),
        ("y = snh(x)", r"unknown function 'snh' \(did you mean 'sinh'\?\)\n"))],
    (lambda: xl.elementwise("T x", "T y", "if (x > 0) y = x;")(X), e.KernelError, "an if without else"),
    (lambda: unchecked.elementwise("T x", "T y", "y = x", "copy"), e.KernelTypeError, "name="),
    (lambda: unchecked.reduction("T x", "T y", "x", "a + b", "y = a", "0"), e.KernelTypeError,
     "map_expr=, reduce_expr="),
    (lambda: unchecked.reduction(max), e.XferError, r"strings of C, and (no|not a) function; for a sum: reduction"),
    # calls of kernels
    (lambda: twice()(X, stream=xl.Stream()), e.KernelError, "on the current stream: with stream:"),
    (lambda: twice()("a"), e.KernelError, "is str, .* give an array or a number"),
    (lambda: twice()(xl.to_device_async(X)), e.KernelTypeError, r"write transfer\.result\(\)"),
    (lambda: twice()[1, 32](X), e.KernelTypeError,
     r"twice\[...\] would choose threads.*call it with arrays: twice\(x\)"),
    (lambda: unchecked.kernels.reductions.sum(X, axis="0"), e.KernelError,
     "axis '0' is neither an int nor a tuple of ints"),
    # CUDA source
    (lambda: fill(cpu=lambda *_: None)[1, 32](X), e.KernelTypeError, r"write fill\(grid, block, arguments\)"),
    (lambda: fill()(1, 12, xl.to_device(X)), e.KernelTypeError, r"args is an array.*\(x,\) for one"),
    (lambda: xl.raw_module("kernels.cu"), e.KernelSyntaxError, r"name of a file; write raw_module\(path='kernels.cu'"),
    (lambda: xl.raw_module(TWO_KERNELS).get_function("frst"), e.KernelSyntaxError,
     "no kernel .frst. .did you mean .first.*first, second"),
    (lambda: xl.raw_module(CONDITIONAL).get_function("j"), e.KernelSyntaxError, "give signature="),
    *[(lambda n=name, a=arguments: getattr(unchecked, n)(*a), e.KernelTypeError, said) for name, arguments, said in (
        ("ElementwiseKernel", ("T x", "T y", "y = x"), r"xferlib\.elementwise makes; call"),
        ("ReductionKernel", ("T x", "T y", "x", "a+b"), r"xferlib\.reduction makes; call"),
        ("ScanKernel", ("a + b",), r"xferlib\.scan makes; call"),
        ("RawModule", ("void f();",), r"xferlib\.raw_module makes; call"),
        ("RawKernel", ("__global__ void k() {}", "k"), r"raw_module\(source\)\.get_function"))],
    # keywords of other libraries
    *[(lambda c=call, k=keywords: c(X, **k), TypeError, remedy) for call, keywords, remedy in (
        (xl.to_device, {"non_blocking": True}, r"keyword argument 'non_blocking'; to_device_async\(x\) and"),
        (xl.to_device_async, {"non_blocking": True}, r"to_device_async\(x\) and .* return at once"),
        (xl.to_host, {"blocking": False}, r"to_host\(\) got .* 'blocking'; .* return at once"),
        (xl.to_host_async, {"pin_memory": True}, r"pinned_array\(x\) makes"),
        (xl.to_device, {"n" * 100_000: 1}, r"argument 'n{80}'\.\.\.; its parameters"),
        (xl.to_device, {"devices": "cpu"}, r"'devices' \(did you mean 'device'\?\); its parameters"),
        (xl.get_array_module, {"exact": True}, r"'exact'; xferlib.get_exact_module\(x\) has"),
        (xl.get_array_module, {"device": "cpu"}, r"'device'; its parameters are arrays, by position"),
        (xl.prefetch, {"num_workers": 2}, "'num_workers'; workers=n lets n threads read items"),
        (xl.prefetch, {"batchsize": 2}, r"'batchsize' \(did you mean 'batch_size'\?\); its parameters"),
        (xl.prefetch, {"prefetch_factor": 2}, "depth=n copies n batches ahead"),
        (xl.prefetch, {"fn": np.sqrt}, "transform=function"),
        (xl.prefetch, {"backend": "sim"}, "device=name takes the name of a backend"),
        (partial(xl.stream_map, np.sqrt), {"chunk_rows": 1, "backend": "sim"}, r"devices=\[name\] takes"),
        (partial(xl.stream_map, np.sqrt), {"chunk_rows": 1, "num_workers": 2}, "engine= takes"),
        (partial(xl.stream_map, np.sqrt), {"chunk_size": 1}, "missing .* 'chunk_rows'"))],
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "said"), REFUSED)
def test_a_wrong_call_is_told_the_right_one(call: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        call()


# --- names that are missing: each error names ours

MISSING: list[tuple[Callable[[], Any], str, str]] = [
    *[(lambda: xl, name, said) for name, said in (
        ("asnumpy", r"xferlib\.to_host\(x\) does that"), ("array", r"xferlib\.to_device\(x\) does that"),
        ("sync", r"xferlib\.synchronize\(\) does that"), ("to_devcie", "no attribute 'to_devcie'$"),
        ("cumsum", r"xferlib\.get_array_module\(x\)\.cumulative_sum$"),
        ("unwrap", r"use numpy\.unwrap with xferlib\.to_host\(x\)$"),
        ("vectorize", r"xferlib\.elementwise\(function\) does that"),
        ("raw_kernel", r"xferlib\.raw_module\(source\)\.get_function\(name\) does that"),
        ("set_device", r"xferlib\.get_device\(spec\)\.use\(\) does that"),
        ("devices", r"xferlib\.available_backends\(\) does that"),
        ("device_put", "'device_put'; xferlib.to_device"), ("device_get", "'device_get'; xferlib.to_host"),
        ("gpuarray", "'gpuarray'; xferlib.to_device"), ("pagelocked_empty", "; xferlib.pinned_empty"),
        ("pin_memory", "; xferlib.pinned_array"), ("mem_alloc", "; xferlib.empty"),
        ("manual_seed", r"; xferlib.random.default_rng\(seed\)"), ("randn", "; xferlib.random.*standard_normal"),
        ("float32", "; dtypes are NumPy's: numpy.float32"), ("backend", "; xferlib.get_backend"))],
    *[(lambda: xl.random, name, said) for name, said in (
        ("normal", r"xferlib\.random\.default_rng\(\)\.normal$"), ("nromal", "no attribute 'nromal'$"),
        ("randint", r"xferlib\.random\.default_rng\(\)\.integers$"), ("seed", r"default_rng\(seed\)$"))],
    (lambda: xl.distributed, "all_reduce", r"xferlib\.distributed\.init\(\)\.all_reduce$"),
    (lambda: xl.tree, "map", r"'xferlib.tree' has no attribute 'map'; write optree.tree_map\(function"),
    (lambda: xl.tree, "tree_leaves", r"write optree.tree_leaves\(tree"),
    (lambda: xl.tree, "mpa", "no attribute 'mpa'$"),
    *[(lambda: xl.trace(), name, said) for name, said in (
        ("save", r"write trace\.write\('run\.json'\)$"), ("colour", r"no attribute 'colour'$"))],
    *[(lambda: xl.get_device("sim"), name, said) for name, said in (
        ("type", r"write device\.kind$"), ("colour", r"no attribute 'colour'$"))],
    *[(lambda: xl.Stream(), name, said) for name, said in (
        ("wait_event", r"stream\.wait\(event\)"), ("wait_stream", r"stream\.wait\(other\)"),
        ("query", r"stream\.is_done"), ("colour", r"no attribute 'colour'$"))],
    *[(lambda: xl.Event(), name, said) for name, said in (
        ("record", r"stream\.record\(event\)"), ("elapsed_time", "elapsed_ms"), ("colour", r"no attribute 'colour'$"))],
    *[(lambda: xl.to_device_async(X), name, said) for name, said in (
        ("get", r"write transfer\.result\(\)$"), ("is_done", r"write transfer\.done\(\)$"),
        ("shapes", "'Transfer' object has no attribute 'shapes'"),
        *[(name, rf"transfer\.result\(\)\.{name}$") for name in ("shape", "dtype", "sum", "T", "astype", "mean")])],
    *[(on_sim, name, said) for name, said in (
        *[(name, rf"no attribute '{name}'; xferlib\.to_host\(x\)") for name in ("get", "cpu", "numpy", "to_host")],
        ("to", r"xferlib\.copy_to\(x, device\)"), ("permute", r"get_array_module\(x\)\.permute_dims"),
        ("fill_", r"x\[\.\.\.\] = value"), ("block_until_ready", r"xferlib\.synchronize\(\)"),
        ("at", r"x\[index\] = value writes in place"), ("contiguous", r"x.copy\(\) is contiguous"),
        ("half", r"get_array_module\(x\).astype\(x, dtype\)"))],
    *[(sim_namespace, name, said) for name, said in (
        ("clamp", "get_array_module.*clip"), ("cat", "get_array_module.*concat"),
        ("tensor", "get_array_module.*asarray"), ("asnumpy", r"xferlib.to_host\(x\)"))],
    (lambda: xl.raw_module(TWO_KERNELS), "first", r"no attribute 'first'; write module\.get_function\('first'\)$"),
]  # fmt: skip


@pytest.mark.parametrize(("thing", "name", "said"), MISSING)
def test_a_missing_name_leads_to_the_right_one(thing: Any, name: str, said: str) -> None:
    with pytest.raises(AttributeError, match=said):
        getattr(thing(), name)


def test_protocols_that_a_thing_has_not_are_missing_as_ever() -> None:
    for thing, names in (
        (on_sim(), ("__cuda_array_interface__",)), (xl.to_device_async(X), ("__dlpack__",)), (xl.Event(), ("ptr",)),
        (xl.Stream(), ("ptr",)), (xl.get_device("cpu"), ("ptr",)), (xl.raw_module(TWO_KERNELS), ("_repr_html_",)),
    ):  # fmt: skip
        assert not [name for name in names if hasattr(thing, name)]


@pytest.mark.parametrize(
    "name",
    ["id", "attributes", "get_attribute", "mem_info", "compute_capability", "multi_processor_count", "name", "type"],
)
def test_a_device_names_its_own_property_for_that_of_another_library(name: str) -> None:
    device = xl.get_device("sim:sim:0")
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; write device") as caught:
        getattr(device, name)
    advice = str(caught.value).partition("; write ")[2]
    assert eval(advice, {"device": device, "name": "warp_size"}) is not None


def test_pythons_traceback_adds_the_name_that_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    for module, name, meant in (
        (xl, "to_devcie", "to_device"), (xl.random, "defualt_rng", "default_rng"), (xl.distributed, "int", "init")
    ):  # fmt: skip
        try:
            getattr(module, name)
        except AttributeError:
            sys.__excepthook__(*sys.exc_info())
        assert f"Did you mean: '{meant}'?" in capsys.readouterr().err


def test_modules_that_are_not_imported_with_the_package_say_so() -> None:
    program = "import xferlib as xl; xl.testing"
    done = run("-c", program)
    assert "it is a module of its own: import xferlib.testing" in done.stderr


@pytest.mark.parametrize("name", ["ImplicitCopyError", "RaceError", "SimError", "WrongDeviceError"])
def test_a_report_of_the_simulator_has_the_name_that_a_program_catches(name: str) -> None:
    found = getattr(xl.sim, name)
    assert f"{found.__module__}.{found.__qualname__}" == f"xferlib.sim.{name}"


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [(["doctr", "--quick"], "did you mean 'doctor'"), (["version"], "did you mean '--version'"),
     (["help"], "did you mean '--help'")],
)  # fmt: skip
def test_a_command_that_is_nearly_one_whatever_follows(
    arguments: list[str], remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code: Any = main(arguments)
    except SystemExit as end:
        code = end.code
    assert code == 2
    assert remedy in capsys.readouterr().err


def test_a_count_is_shown_as_a_count(capsys: pytest.CaptureFixture[str]) -> None:
    """It read "1 MiB" once."""
    main(["info"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "XFERLIB_LOOP_TURNS 1048576" in shown
    assert "XFERLIB_HOST_CACHE 4 GiB" in shown


# --- a transfer used as its array


def launch_raw(grid: Any, block: Any, args: Any) -> None:
    xl.raw_module('extern "C" __global__ void k(float *x) {}').get_function("k")(grid, block, args)


def test_a_transfer_used_as_an_array_names_result() -> None:
    uses: list[Callable[[Any], Any]] = [
        lambda t: t + 1, lambda t: 1 - t, lambda t: X * t, lambda t: t @ X, lambda t: -t, lambda t: t > 1,
        lambda t: t[0], lambda t: operator.setitem(t, 0, 1), list, float, np.asarray, np.sqrt,
        lambda t: np.concatenate([t, X]), np.sum, xl.get_array_module, xl.get_backend, xl.to_host, xl.to_device,
        xl.common, xl.device_of, xl.elementwise(lambda x: x + 1), lambda t: launch_raw((1,), (1,), (t,)),
    ]  # fmt: skip
    one, two = xl.to_device_async(X), xl.to_device_async(X)
    for number, use in enumerate(uses):
        with pytest.raises((e.UnsupportedArrayError, e.KernelTypeError), match=r"result\(\)"):
            use(one)
            pytest.fail(str(number))
    assert xl.to_host(one.result()).tolist() == X.tolist()
    assert one == one
    assert one != two
    assert len({one, two}) == 2
    assert one


# --- prefetch


@pytest.mark.parametrize("nbytes", [64, 6 << 20])
def test_each_loop_over_a_list_begins_anew(nbytes: int, backend: str) -> None:
    batches = [np.full(nbytes // 4, number, "float32") for number in range(4)]
    loader = xl.prefetch(batches)
    assert len(loader) == 4
    for taken in (4, 2, 4):
        found = [float(xl.to_host(batch)[-1]) for batch, _ in zip(loader, range(taken), strict=False)]
        assert found == [0, 1, 2, 3][:taken]


@given(st.integers(0, 5), st.lists(st.integers(0, 6), max_size=5))
def test_every_iteration_is_the_source_from_its_start(count: int, taken: list[int]) -> None:
    loader = xl.prefetch([np.full(3, number) for number in range(count)])
    for most in taken:
        iteration = iter(loader)
        found = [int(xl.to_host(batch)[0]) for _, batch in zip(range(most), iteration, strict=False)]
        assert found == list(range(min(most, count)))


def test_an_iteration_goes_on_until_another_begins() -> None:
    loader = xl.prefetch([np.full(3, number) for number in range(4)])
    first = iter(loader)
    assert iter(first) is first
    assert [int(xl.to_host(next(first))[0]) for _ in range(2)] == [0, 1]
    assert [int(xl.to_host(batch)[0]) for batch in first] == [2, 3]
    second = iter(loader)
    assert int(xl.to_host(next(second))[0]) == 0
    with pytest.raises(e.ClosedError, match="begun anew"):
        next(first)


def test_what_gives_its_items_again_is_asked_again() -> None:
    class Loader:
        def __iter__(self) -> Iterator[Any]:
            return (np.full(3, number) for number in range(3))

    loader = xl.prefetch(Loader())
    assert [len(list(loader)) for _ in range(3)] == [3, 3, 3]
    with pytest.raises(TypeError, match="a prefetcher over Loader has no len"):
        len(loader)


def test_a_second_loop_over_an_iterator_that_has_ended_is_an_error() -> None:
    loader = xl.prefetch(iter([X, X]))
    assert len(list(loader)) == 2
    with pytest.raises(e.ClosedError, match="all 2 batches of its iterator.*anew for each epoch"):
        list(loader)
    with pytest.raises(TypeError, match=r"has no len\(\)"):
        len(loader)


def test_a_closed_prefetcher_does_not_begin_anew() -> None:
    with xl.prefetch([X, X]) as loader:
        next(loader)
    with pytest.raises(e.ClosedError):
        list(loader)


@pytest.mark.parametrize(
    "batches",
    [
        (np.zeros((1000, 7)), np.zeros((1000, 7))),
        (np.zeros((1000, 7)), np.zeros((999, 7), "int16")),
        (np.zeros((3, 7)), np.zeros(3)),
        [np.zeros((1000, 7)), np.zeros(1000)],
        (np.zeros((1000, 7)),),
        ({"x": np.zeros(1000)}, {"x": np.zeros(1000, "int8")}),
        (np.array(1.0), np.array(1)),
    ],
)
def test_other_tuples_and_lists_are_batches(batches: Any) -> None:
    assert sum(1 for _ in xl.prefetch(batches)) == len(batches)


# --- devices and the environment


def test_the_device_of_a_tensor_is_a_device() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.zeros(3)
    for spec in (tensor.device, torch.device("cpu")):
        assert xl.device_of(xl.zeros(3, device=spec)) is xl.get_device("torch:cpu")
        assert xl.get_device(spec) is xl.get_device("torch:cpu")
        assert isinstance(xl.to_device(X, device=spec), torch.Tensor)
    with pytest.raises(e.DeviceNotFoundError, match=r"does not exist: torch sees"):
        xl.get_device(torch.device("cuda", 77))
    with pytest.raises(e.DeviceNotFoundError, match="belongs to backend 'torch'"):
        xl.zeros(3, backend="numpy", device=tensor.device)


def test_a_device_of_cupy_is_a_device_of_backend_cupy() -> None:
    class Device:
        id = 3

    Device.__module__ = "cupy.cuda.device"
    with pytest.raises((e.BackendUnavailableError, e.DeviceNotFoundError), match="cupy"):
        xl.get_device(Device())


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("XFERLIB_BACKED", "XFERLIB_BACKEND"),
        ("XFERLIB_DEVISE", "XFERLIB_DEVICE"),
        ("XFERLIB_THREAD", "XFERLIB_THREADS"),
        ("XFERLIB_CACHEDIR", "XFERLIB_CACHE_DIR"),
    ],
)
def test_a_misspelt_variable_is_an_error_that_names_the_right_one(name: str, meant: str) -> None:
    with (
        pytest.raises(e.ConfigError, match=f"{name} is (no|not a) variable.*did you mean {meant}"),
        configured({name: "1"}),
    ):
        pass


@pytest.mark.parametrize("name", ["XFERLIBRARY", "XFERLIB_EXIT_TIMES", "XFERLIB_TEST_DATA", "xferlib_backed"])
def test_variables_of_others_are_left_alone(name: str) -> None:
    with configured({name: "1"}):
        pass


def test_a_misspelt_backend_names_the_variable_and_the_right_word() -> None:
    with configured({"XFERLIB_BACKEND": "simm"}):
        for call in (xl.get_backend, lambda: xl.zeros(3), xl.get_device):
            with pytest.raises(e.BackendNotFoundError, match=r"XFERLIB_BACKEND='simm'.*did you mean 'sim'"):
                call()


@pytest.mark.parametrize("device", ["toch:cpu", "gpu:0", "numpi", "cpu:x", "numpy:cuda:0"])
def test_a_wrong_device_of_the_environment_names_the_variable_at_the_first_use(device: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with configured({"XFERLIB_DEVICE": device}), ThreadPoolExecutor(1) as new_thread:
        done = new_thread.submit(xl.zeros, 3)
        with pytest.raises(e.DeviceNotFoundError, match="XFERLIB_DEVICE"):
            done.result()


# --- kernels and explanations


def test_explain_knows_that_a_cpu_was_calibrated(tmp_path: Path) -> None:
    big = np.zeros(1 << 20)
    with configured({"XFERLIB_CACHE_DIR": str(tmp_path)}):
        assert "run xferlib.calibrate()" in str(xl.explain(big, backend="numpy"))
        xl.calibrate("numpy:cpu")
        found = xl.explain(big, backend="numpy")
    assert found.expected_ms is not None
    assert found.expected_ms > 0
    assert "calibrate" not in str(found)


def test_a_value_in_a_kernel_says_that_it_is_one_element() -> None:
    shown = []

    @xl.elementwise
    def printing(a: Any) -> Any:
        shown.append(repr(a))
        return a.sum()

    with pytest.raises(AttributeError, match="no 'sum': it is one element"):
        printing(xl.to_device(X))
    assert shown == ["<a float32 in a kernel>"]


def test_a_function_of_torch_in_a_kernel_is_told_of_numpys() -> None:
    torch = pytest.importorskip("torch")
    kernel = xl.elementwise(lambda x: torch.sin(x))
    with pytest.raises(e.KernelSyntaxError, match="torch's sin: .* NumPy's function"):
        kernel(X)


# --- what no device holds: the remedy does what it says


rational = pytest.importorskip("numpy._core._rational_tests").rational  # a dtype that NumPy was taught, as ml_dtypes'
TIMES, SPANS = (f"numpy.array(x, '{kind}64[us]').astype('int64')" for kind in ("datetime", "timedelta"))


def structured() -> Any:
    return np.array([(1, 2.5), (3, 4.5)], [("a", "i4"), ("b", "f8")])


NAMES = {"numpy": np, "np": np, "xl": xl, "xferlib": xl, "structured_to_unstructured": structured_to_unstructured}


@pytest.mark.parametrize(
    ("x", "remedy", "numbers"),
    [
        (structured(), "x['a']", [1, 3]),
        (structured(), "structured_to_unstructured(x)", [[1, 2.5], [3, 4.5]]),
        (structured().view(np.recarray), "x['a']", [1, 3]),
        (np.array([("p", (7,)), ("q", (8,))], [("t", "U4"), ("of", [("n", ">i4")])]), "x['of']['n']", [7, 8]),
        (np.array([("1.5",)], [("t", "U4")]), "x['t'].astype('float64')", [1.5]),
        (np.array([(1, 2)], [("a", "g"), ("b", "g")]), "x['a'].astype('float64')", [1.0]),
        (np.array(["1970-01-03"], "M8[D]"), "x.astype('int64')", [2]),
        (np.datetime64("1970-01-03"), "x.astype('int64')", 2),
        ([np.datetime64("1970-01-03")], "numpy.asarray(x).astype('int64')", [2]),
        (np.array([90], "m8[s]"), "x.astype('int64')", [90]),
        ([dt.datetime.fromisoformat("1970-01-01T00:00:02")], TIMES, [2_000_000]),
        ([dt.date(1970, 1, 2), None], TIMES, [86_400_000_000, -(2**63)]),
        (dt.date(1970, 1, 2), TIMES, 86_400_000_000),
        (np.array([dt.date(1970, 1, 2)]), "x.astype('datetime64[us]').astype('int64')", [86_400_000_000]),
        ([dt.timedelta(0, 1), np.timedelta64(2, "s")], SPANS, [1_000_000, 2_000_000]),
        (dt.timedelta(0, 1), "x.total_seconds()", 1.0),
        (np.array(["2.5", "1"]), "x.astype('float64')", [2.5, 1.0]),
        (np.array(["b", "a", "b"]), "numpy.unique(x, return_inverse=True)[1]", [1, 0, 1]),
        (["2.5", "1"], "numpy.asarray(x).astype('float64')", [2.5, 1.0]),
        (np.array(["b", "a"], np.dtypes.StringDType()), "numpy.unique(x, return_inverse=True)[1]", [1, 0]),
        (np.array([b"2.5"]), "x.astype('float64')", [2.5]),
        (np.frombuffer(b"\1\2\3\4", "V2"), "numpy.frombuffer(x.tobytes(), 'uint8')", [1, 2, 3, 4]),
        (np.array([rational(1, 2), rational(3)]), "x.astype('float64')", [0.5, 3.0]),
        (np.array([1, None], object), "x.astype('float64')", [1.0, np.nan]),
        (np.array([1, 2j], object), "x.astype('complex128')", [1, 2j]),
        (np.array([X[0, :1], X[0]], object), "xferlib.tree.to_device([numpy.asarray(part) for part in x])[1]", X[0]),
        ([[0.0], [1.0, 1.0]], "xferlib.tree.to_device([numpy.asarray(part) for part in x])[1]", [1, 1]),
        (np.array([1 + 2j], np.clongdouble), "x.astype('complex128')", [1 + 2j]),
        ([Fraction(1, 2), Decimal(3)], "numpy.array(x, 'float64')", [0.5, 3.0]),
        ([2**70], "numpy.array(x, 'float64')", [2.0**70]),
        ([[1, 2], [3, None]], "numpy.array(x, 'float64')", [[1.0, 2.0], [3.0, np.nan]]),
        (b"\1\2", "numpy.frombuffer(x, 'uint8')", [1, 2]),
    ],
)  # fmt: skip
def test_the_remedy_of_what_no_device_holds_is_taken(x: Any, remedy: str, numbers: list[Any]) -> None:
    with pytest.raises((e.UnsupportedDTypeError, e.UnsupportedArrayError), match=re.escape(remedy.removesuffix("[1]"))):
        xl.to_device(x)
    moved = xl.to_device(eval(remedy, {**NAMES, "x": x}))
    assert_same_bits(xl.to_host(moved), np.asarray(numbers).astype(xl.to_host(moved).dtype))


def test_the_remedy_of_a_dtype_of_ml_dtypes_is_taken() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for name, wide in (("float8_e4m3", "float32"), ("float6_e2m3fn", "float32"), ("int4", "int8"), ("uint4", "int8")):
        x = np.ones(2, getattr(ml_dtypes, name))
        with pytest.raises(e.UnsupportedDTypeError, match=re.escape(f"x.astype({wide!r})")):
            xl.to_device(x)
        assert xl.to_host(xl.to_device(x.astype(wide))).tolist() == [1, 1]


LAZY, NEGATIVE = "torch.zeros(2, dtype=torch.complex64).conj()", "torch.zeros(2, dtype=torch.complex64).conj().imag"
OF_TORCH = [
    ("torch.ones(2, dtype=torch.complex64).to(torch.complex32)", "xl.to_host(x)", "x.to(torch.complex64)"),
    ("torch.zeros(2, dtype=torch.uint8).view(torch.bits8)", "xl.to_host(x)", "x.view(torch.uint8)"),
    ("torch.zeros(2, dtype=torch.int16).view(torch.bits16)", "xl.to_host(x)", "x.view(torch.int16)"),
    ("torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8)", "xl.to_device(x)", "x.dequantize()"),
    ("torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8)", "xl.to_device(x)", "x.int_repr()"),
    ("torch.empty(2, device='meta')", "xl.to_host(x)", "torch.zeros_like(x, device='cpu')"),
    ("torch.empty(2, device='meta')", "copied(x)", "torch.zeros_like(x, device='cpu')"),
    ("torch.eye(2).to_sparse()", "xl.to_device(x)", "x.to_dense()"),
    ("torch.eye(2).to_sparse_csr()", "copied(x)", "x.to_dense()"),
    *[
        (f"torch.nested.nested_tensor([torch.ones(1), torch.ones(2)], layout=torch.{layout})", "xl.to_host(x)",
         "torch.nested.to_padded_tensor(x, 0.0)")
        for layout in ("strided", "jagged")
    ],
    (LAZY, "xl.to_device(numpy.ones(2, 'complex64'), out=x)", "x.resolve_conj().resolve_neg()"),
    (NEGATIVE, "xl.to_device(numpy.ones(2, 'float32'), out=x)", "x.resolve_conj().resolve_neg()"),
    (LAZY, "copied(torch.ones(2, dtype=torch.complex64), out=x)", "x.resolve_conj().resolve_neg()"),
    (LAZY, "summed(torch.ones(2, 2, dtype=torch.complex64), axis=0, out=x)", "x.resolve_conj().resolve_neg()"),
    ("torch.ones(2, dtype=torch.int8)", "xp.add(x, 2**40)", "xp.astype(x, 'int64')"),
    ("torch.ones(2, dtype=torch.int64)", "xp.add(x, 2**63)", "xp.astype(x, 'uint64')"),
    ("torch.ones(2, dtype=torch.int8)", "xp.add(x, 2**70)", "xp.astype(x, 'float64')"),
]  # fmt: skip
OF_ALL = [
    ("np.add", "xl.elementwise(x)(np.ones(2), np.ones(2))", "lambda x, y: np.add(x, y)"),
    ("np.exp", "xl.elementwise(x)(np.ones(2))", "lambda x: np.exp(x)"),
    ("np.longdouble(2)", "added(x, np.ones(2))", "numpy.float64(x)"),
    ("np.ones(2, 'complex64')", "xl.to_device(x, out=np.zeros(2, 'float32'), dtype='float32')", "x.real"),
    ("np.ones(2, 'complex64')", "xl.to_device(x, out=np.zeros(2, 'float32'))", "abs(x)"),
    ("np.broadcast_to(np.zeros(2), 2)", "xl.to_device(np.ones(2), out=x)", "x.copy()"),
    *[
        ("xl.full((), 2.0, backend='sim')", call, "float(xferlib.to_host(x))")
        for call in (
            "xl.linspace(x, 1, 3)",
            "xl.arange(x)",
            "xl.random.default_rng(1).uniform(x, 3.0, 2)",
            "sim.arange(0, x)",
        )
    ],
    ("xl.full((), 2.0, backend='sim')", "xl.full(3, x)", "xferlib.to_host(x)"),
    ("xl.full((), 1, backend='sim')", "xl.random.default_rng(1).integers(x, 3)", "int(xferlib.to_host(x))"),
    ("xl.full((), 1, backend='sim')", "raw(1, 1, (xl.zeros(2, backend='sim'), x))", "xferlib.to_host(x).item()"),
    ("np.broadcast_to(np.zeros(2), 2)", "copied(np.ones(2), out=x)", "x.copy()"),
]


@pytest.mark.filterwarnings("ignore")  # torch's, of its own prototypes
@pytest.mark.parametrize(("made", "call", "remedy"), [*OF_ALL, *OF_TORCH])
def test_the_remedy_of_a_message_is_taken(made: str, call: str, remedy: str) -> None:
    kernels = {"copied": xl.elementwise("T x", "T y", "y = x"), "added": xl.elementwise("S x, T y", "T z", "z = x + y")}
    raw = xl.raw_module("__global__ void k(double *x, int n) {}").get_function("k", cpu=lambda *_: None)
    names = {**NAMES, **kernels, "raw": raw, "summed": xl.kernels.reductions.sum}
    names["sim"] = xl.get_array_module(xl.zeros(1, backend="sim"))
    if "torch" in made:
        torch = pytest.importorskip("torch")
        names |= {"torch": torch, "xp": xl.get_array_module(torch.ones(1))}
    names["x"] = eval(made, names)
    with pytest.raises((e.XferError, OverflowError), match=re.escape(remedy)):
        eval(call, names)
    names["x"] = eval(remedy, names)
    eval(call, names)


def test_a_table_of_several_kinds_is_named_by_its_kinds() -> None:
    class DataFrame:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.array([[1.0, "x"]], object)

    with pytest.raises(e.UnsupportedArrayError, match="x is DataFrame, whose float, str have no dtype"):
        xl.to_device(DataFrame())


@pytest.mark.parametrize(
    ("name", "remedy"), [("__dlpack__", "numpy.from_dlpack(x)"), ("__cuda_array_interface__", "asarray(x)")]
)
def test_memory_of_another_library_is_named(name: str, remedy: str) -> None:
    kind = type("Other", (), {name: None})
    with pytest.raises(e.UnsupportedArrayError, match=re.escape(remedy)):
        xl.to_device(kind())
    with pytest.raises(e.UnsupportedArrayError, match="x is type, .*pass a NumPy array"):
        xl.to_device(kind)


def test_a_file_of_one_array_is_not_loaded_as_a_tree(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(e.ArgumentError, match=r"is an \.npy file.*xferlib.to_device\(numpy.load\(path\)\)"):
        xl.load(tmp_path / "x.npy")


def test_a_list_of_device_arrays_is_put_together_there() -> None:
    x = [xl.zeros(2, backend="sim"), xl.ones(2, backend="sim")]
    with pytest.raises(e.UnsupportedArrayError, match=r"xferlib.get_array_module\(x\[0\]\).stack\(x\)"):
        xl.to_device(x, backend="sim")
    assert xl.to_host(xl.get_array_module(x[0]).stack(x)).tolist() == [[0, 0], [1, 1]]


@pytest.mark.parametrize("dtype", [object, "U3", "M8[s]", [("a", "i4")]])
def test_a_dtype_argument_that_no_device_holds_is_no_arrays(backend: str, dtype: Any) -> None:
    for call in (
        lambda: xl.to_device([1.0], dtype=dtype),
        lambda: xl.zeros(2, dtype),
        lambda: xl.pinned_empty(2, dtype),
    ):
        with pytest.raises(
            e.UnsupportedDTypeError, match=r"^dtype: .* no device holds; give one of bool, int8"
        ) as said:
            call()
        assert "astype" not in str(said.value)


def test_a_simulated_array_in_a_text_says_what_to_write() -> None:
    x = xl.full((), 2.5, backend="sim")
    with pytest.raises(xl.sim.ImplicitCopyError, match=r"format\(xferlib.to_host\(x\), '.2f'\)"):
        f"{x:.2f}"
    assert f"{x}" == str(x)
    assert format(xl.to_host(x), ".2f") == "2.50"
