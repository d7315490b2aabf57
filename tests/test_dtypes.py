"""Dtypes that NumPy has not: moved with every bit, converted, saved, refused, on each backend."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xferlib as xl
import xferlib.tree
from tests.needed import among, need
from tests.processes import TORCH, printed
from xferlib.errors import ArgumentError, LayoutError, LayoutTypeError, UnsupportedDTypeError
from xferlib.testing import arrays as core_arrays
from xferlib.testing import configured, dtypes, load_backend, strategies

ml_dtypes = pytest.importorskip("ml_dtypes")

NAMES = (*dtypes.SMALL_FLOATS, *dtypes.STORED)
OF_SAFETENSORS = tuple(name for name in NAMES if name in dtypes.SMALL_FLOATS or dtypes.STORED[name].safetensors)
OF_TORCH = OF_SAFETENSORS
"""Torch's format has the dtypes that torch has."""
HostArray = np.ndarray[Any, Any]


@pytest.fixture(params=among("numpy", "torch", "sim", "cupy", "pycuda"))
def library(request: pytest.FixtureRequest) -> Iterator[str]:
    need(request.param)
    with xl.use_backend(request.param):
        yield request.param


def skip_lacking(library: str, name: str) -> None:
    if library == "torch" and name not in OF_TORCH:
        pytest.skip(f"torch has no {name}")


def host_array(name: str, shape: tuple[int, ...] = (5, 7), seed: int = 0) -> HostArray:
    """An array of any bits."""
    dtype = core_arrays.check_dtype(name)
    count = int(np.prod(shape)) * dtype.itemsize
    return np.random.default_rng(seed).integers(0, 256, count, dtype=np.uint8).view(dtype).reshape(shape)


def assert_same(found: HostArray, expected: HostArray) -> None:
    assert (found.dtype, found.shape, found.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())


# --- one table


def test_names_in_every_spelling() -> None:
    torch = pytest.importorskip("torch")
    for name in dtypes.SMALL_FLOATS:
        own = np.dtype(getattr(ml_dtypes, name))
        for spelling in (name, own, getattr(ml_dtypes, name), getattr(torch, name)):
            assert core_arrays.check_dtype(spelling) is own
        assert dtypes.name_of(own) == name
    assert core_arrays.check_dtype(torch.float4_e2m1fn_x2) == core_arrays.check_dtype("float4_e2m1fn_x2")


def test_the_page_has_every_name_of_the_table() -> None:
    page = (Path(__file__).parents[1] / "docs" / "reference" / "dtypes.md").read_text("utf-8")
    assert not [name for name in NAMES if f"`{name}`" not in page]


def test_the_table_has_the_numbers_of_ml_dtypes() -> None:
    for name, form in dtypes.SMALL_FLOATS.items():
        info = ml_dtypes.finfo(name)
        limits = dtypes.float_limits(core_arrays.check_dtype(name))
        assert (form.itemsize * 8, form.fraction, 2.0 ** (1 - form.bias)) == (
            info.bits,
            info.nmant,
            info.smallest_normal,
        )
        assert limits[:5] == tuple(map(float, (info.bits, info.eps, info.max, info.min, info.smallest_normal)))
        bits = np.array([form.most, form.beyond, form.nan], f"u{form.itemsize}").view(limits.dtype).astype(np.float64)
        assert bits[0] == float(info.max)
        assert not np.isfinite(bits[1])
        assert np.isnan(bits[2])


def test_no_import_of_ml_dtypes_before_one_is_met() -> None:
    # CuPy imports it by itself.
    code = (
        "import sys, numpy as np, xferlib as xl; xl.to_device(np.ones(3), backend='numpy'); "
        "assert 'ml_dtypes' not in sys.modules"
    )
    printed("-c", code)


# --- moved with every bit


@pytest.mark.parametrize("name", NAMES)
def test_there_and_back(library: str, name: str) -> None:
    skip_lacking(library, name)
    x = host_array(name)
    for each in (x, x.T, x[::2, 1:], x[:, ::-1], x[0, :0], x[0, 0]):
        moved = xl.to_device(each)
        assert_same(xl.to_host(moved), np.asarray(each))
        assert_same(xl.to_host(xl.to_device_async(each).result()), np.asarray(each))


@pytest.mark.parametrize("native", ["on", "off"])
@pytest.mark.parametrize("name", ["bfloat16", "float8_e5m2", "int4_x2"])
@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_any_layout(name: str, native: str, data: st.DataObject) -> None:
    dtype = core_arrays.check_dtype(name)
    bits = data.draw(strategies.host_arrays(dtype=f"uint{8 * dtype.itemsize}"))
    layout = data.draw(strategies.layouts(dtype=bits.dtype, shape=bits.shape, distinct=True, native=True))
    out = layout.over(np.zeros(layout.nbytes, np.uint8))
    with configured(native=native):
        xl.to_host(xl.to_device(bits.view(dtype), backend="sim"), out=out.view(dtype))
    np.testing.assert_array_equal(out, bits)


@pytest.mark.parametrize("name", NAMES)
def test_into_given_arrays_and_onwards(library: str, name: str) -> None:
    skip_lacking(library, name)
    x = host_array(name)
    out = xl.empty(x.shape, name)
    assert xl.to_device(x, out=out) is out
    host = np.zeros_like(x)
    assert_same(xl.to_host(out, out=host), x)
    assert_same(xl.to_host(xl.copy_to(out, library)), x)
    assert_same(xl.to_host(xl.copy_to(out, "sim")), x)


@pytest.mark.parametrize("name", NAMES)
def test_prefetch(library: str, name: str) -> None:
    skip_lacking(library, name)
    batches = [host_array(name, seed=seed) for seed in range(4)]
    for found, batch in zip(xl.prefetch(batches, device=library), batches, strict=True):
        assert_same(xl.to_host(found), batch)


def test_stream_map_over_rows() -> None:
    x = host_array("bfloat16", (1000, 8))
    found = xl.stream_map(lambda part: part, x, chunk_rows=64, devices=["sim"])
    assert_same(np.asarray(found), x)


def test_trees_keep_ties_and_dtypes(library: str) -> None:
    """A decoder's state: weights in bfloat16 of which two are one, float8 parts with scales, and a norm in float32."""
    shared = host_array("bfloat16", (64, 32))
    layers = {
        str(number): {
            "weight": host_array("float8_e4m3fn", (32, 96), number), "bias": host_array("bfloat16", (96,), number),
            "scale": host_array("float8_e8m0fnu", (32, 3), number), "norm": np.ones(32, np.float32),
            "packed": host_array("float4_e2m1fn_x2", (32, 16), number),
        }
        for number in range(3)
    }  # fmt: skip
    state = {"embed": shared, "head": shared, "layers": layers}
    moved = xl.tree.to_device(state)
    assert moved["embed"] is moved["head"]
    found = xl.tree.to_host(moved)
    assert_same(found["embed"], shared)
    for number, layer in layers.items():
        for name, each in layer.items():
            assert_same(found["layers"][number][name], each)


def test_a_torch_module_goes_from_torch_to_torch() -> None:
    torch = pytest.importorskip("torch")
    state = torch.nn.Linear(8, 4).to(torch.bfloat16).state_dict()
    moved = xl.tree.to_device(state, backend="torch", device="torch:cpu")
    assert all(torch.equal(moved[name], each) and moved[name].dtype == each.dtype for name, each in state.items())


# --- converted on the way


@pytest.mark.parametrize("native", ["on", "off"])
@pytest.mark.parametrize("wanted", ["float16", "float32", "float64", "int8", "bool"])
@pytest.mark.parametrize("name", dtypes.SMALL_FLOATS)
def test_converted_on_the_way(library: str, name: str, wanted: str, native: str) -> None:
    if native == "off" and library in ("cupy", "pycuda", "torch"):
        pytest.skip("converted by the same code")
    for shape in ((5, 7), (300, 500)):  # of which C converts the larger one
        x = host_array(name, shape)
        with configured(native=native):
            wide = xl.to_host(xl.to_device(x, dtype=wanted))
            expected = np.empty(shape, wanted)
            core_arrays.copy_into(expected, x)
            assert_same(wide, expected)
            assert_same(xl.to_host(xl.to_device(x), dtype=wanted), expected)
            back = np.empty(shape, x.dtype)
            core_arrays.copy_into(back, expected)
            assert_same(xl.to_host(xl.to_device(expected, dtype=name)), back)


EIGHT = tuple(name for name, form in dtypes.SMALL_FLOATS.items() if form.itemsize == 1)


@pytest.mark.parametrize("wanted", EIGHT)
@pytest.mark.parametrize("source", ["float32", "float64", "int16", "bfloat16", "float8_e5m2"])
def test_saturated_on_the_way(library: str, source: str, wanted: str, tmp_path: Path) -> None:
    """By each verb, of any layout, on any stream, as `astype` does where the array is."""
    x = host_array(source, (6, 40), 3)[::-2, 1::3].T
    with np.errstate(all="ignore"):
        expected = xl.astype(x, wanted, saturate=True)
    if source == "float32":
        assert (expected.view(np.uint8) != xl.astype(x, wanted).view(np.uint8)).any()
    stream, here = xl.Stream(), xl.get_device()
    there = xl.to_device(x)
    found = [
        xl.to_device(x, dtype=wanted, saturate=True), xl.to_device(there, dtype=wanted, saturate=True),
        xl.to_device(x, dtype=wanted, saturate=True, out=xl.empty(x.shape, wanted)),
        xl.to_device(there, dtype=wanted, saturate=True, order="F"),
        xl.copy_to(there, here, dtype=wanted, saturate=True),
        xl.to_host(there, dtype=wanted, saturate=True), xl.to_host(x, dtype=wanted, saturate=True, copy=None),
        xl.to_host(there, dtype=wanted, saturate=True, out=np.empty(x.shape, expected.dtype)),
        xl.to_device_async(x, dtype=wanted, saturate=True).result(),
        xl.to_device_async(there, dtype=wanted, saturate=True, out=xl.empty(x.shape, wanted)).result(),
        xl.to_host_async(there, dtype=wanted, saturate=True).result(),
    ]  # fmt: skip
    tied = {"x": x, "there": [there, 2.5], "again": x}
    sent = xl.tree.to_device(tied, dtype=wanted, saturate=True)
    fetched = xl.tree.to_host(tied, dtype=wanted, saturate=True)
    kept = xl.tree.to_device(sent, dtype=wanted, copy=None)
    assert (sent["x"] is sent["again"], sent["there"][1], kept["x"] is sent["x"]) == (True, 2.5, True)
    found += [sent["x"], sent["there"][0], fetched["x"], fetched["there"][0], next(xl.prefetch([sent]))["x"]]
    xl.save(tmp_path / "x.npz", [np.ascontiguousarray(x).astype(np.float64)])
    (loaded,) = xl.load(tmp_path / "x.npz", dtype=wanted, saturate=True)
    found += [loaded, xl.stream_map(lambda rows: xl.astype(rows, wanted, saturate=True), x, chunk_rows=2)]
    found += xl.prefetch([x], transform=lambda batch: xl.astype(batch, wanted, saturate=True))
    with stream:
        on_stream = xl.to_device(x)
    found += [
        xl.to_host(on_stream, dtype=wanted, saturate=True, stream=stream),
        xl.to_device(x, dtype=wanted, saturate=True, stream=stream),
    ]
    stream.synchronize()
    for each in found:
        assert_same(np.ascontiguousarray(xl.to_host(each)), np.ascontiguousarray(expected))


@pytest.mark.parametrize("name", NAMES)
def test_a_view_has_the_dtype(library: str, name: str) -> None:
    skip_lacking(library, name)
    x = host_array(name)
    given = xl.to_device(x)
    backend = load_backend(library).at(xl.device_of(given))
    info = backend.view(given)
    part = backend.strided_view(given, info.strides[0], (2, 3), (2 * info.strides[0], info.strides[1]), info.dtype)
    assert_same(xl.to_host(part), x[1:5:2, :3].copy())
    assert_same(xl.to_host(backend.reversed_axes(given)), x.T.copy())


def test_what_saturates_is_no_copy_where_none_is_needed() -> None:
    x = host_array("float8_e4m3fn")
    assert xl.to_device(x, dtype=x.dtype, saturate=True, copy=None, backend="numpy") is x
    assert xl.tree.to_device([x], dtype=x.dtype, saturate=True, copy=None, backend="numpy")[0] is x
    assert xl.tree.to_host([x], dtype=x.dtype, saturate=True, copy=False)[0] is x
    assert xl.to_device(x, dtype=x.dtype, saturate=True, backend="numpy") is not x
    with pytest.raises(LayoutError, match="has dtype float32, not float8_e4m3fn"):
        xl.to_device(np.ones(3, np.float32), dtype=x.dtype, saturate=True, copy=False, backend="numpy")


def test_infinities_of_a_float8_saturate_to_its_own_dtype_too() -> None:
    x = np.array([np.inf, -np.inf, 3, np.nan], ml_dtypes.float8_e5m2)
    for found in (
        xl.to_device(x, dtype=x.dtype, saturate=True, copy=None, backend="numpy"), xl.astype(x, x.dtype, saturate=True),
        xl.to_host(x, dtype="float8_e5m2", saturate=True), xl.to_host(x, saturate=True),
    ):  # fmt: skip
        np.testing.assert_array_equal(np.asarray(found, np.float32), [57344, -57344, 3, np.nan])
    with pytest.raises(LayoutError, match="has dtype float8_e5m2, not float8_e5m2 saturated"):
        xl.to_device(x, dtype=x.dtype, saturate=True, copy=False, backend="numpy")


def test_what_cannot_saturate_on_the_way_is_refused() -> None:
    x = np.ones(3, np.float32)
    with_copy: list[Any] = [xl.to_device, xl.to_host, xl.tree.to_device, xl.tree.to_host]
    calls: list[Any] = [*with_copy, xl.to_device_async, xl.to_host_async]
    for call in calls:
        for dtype in (None, "float32", "bfloat16", "int8"):
            with pytest.raises(UnsupportedDTypeError, match=r"saturate=True with dtype='.*', but it is for float8"):
                call(x, dtype=dtype, saturate=True)
        with pytest.raises(ArgumentError, match="saturate=1 is neither True nor False"):
            call(x, dtype="float8_e5m2", saturate=1)
    for call in with_copy:
        with pytest.raises(UnsupportedDTypeError, match="but it is for float8"):
            call(x, dtype="int8", saturate=True, copy=False)
        with pytest.raises(ArgumentError, match="copy='bad'"):
            call(x, dtype="float8_e5m2", saturate=True, copy="bad")
    where = r"tree\['b'\]\[0\] \(ndarray\): saturate=True with dtype='float32'"
    with pytest.raises(UnsupportedDTypeError, match=where):
        xl.tree.to_device({"a": x.astype("float8_e5m2"), "b": [x]}, saturate=True)
    loops: list[Any] = [xl.prefetch, lambda x, **words: xl.stream_map(np.abs, x, chunk_rows=1, **words)]
    for call in loops:
        with pytest.raises(TypeError, match=r"'saturate'; xferlib.astype\(x, dtype, saturate=True\) converts on the"):
            call([x], saturate=True)


@pytest.mark.parametrize("name", dtypes.SMALL_FLOATS)
def test_every_bit_pattern_is_converted_as_ml_dtypes_does(name: str) -> None:
    """By compiled C, to float32, float64 and the other small floats, and from every float16."""
    dtype = core_arrays.check_dtype(name)
    x = np.resize(np.arange(1 << 8 * dtype.itemsize, dtype=f"u{dtype.itemsize}"), 1 << 18).view(dtype)
    halves = np.resize(np.arange(1 << 16, dtype=np.uint16), 1 << 18).view(np.float16)
    with np.errstate(all="ignore"):
        for other in ("float32", "float64", *dtypes.SMALL_FLOATS):
            out = np.empty(x.shape, core_arrays.check_dtype(other))
            assert_same(xl.to_device(x, out=out, dtype=other, backend="numpy"), x.astype(out.dtype))
        out = np.empty(halves.shape, dtype)
        assert_same(xl.to_device(halves, out=out, dtype=name, backend="numpy"), halves.astype(dtype))


NARROW = ("bool", "int8", "uint8", "int16", "uint16", "float16", *dtypes.SMALL_FLOATS)
"""Those of which each bit pattern is converted."""


def every_pattern(name: str) -> HostArray:
    dtype = core_arrays.check_dtype(name)
    return np.arange(2 if name == "bool" else 1 << 8 * dtype.itemsize, dtype=f"u{dtype.itemsize}").view(dtype)


def convert(x: HostArray, wanted: str, native: str) -> HostArray:
    """``x`` in another dtype: by compiled C, which converts large arrays, or by NumPy."""
    with configured(native=native):
        large = np.resize(x, max(x.size, 1 << 17))
        return np.asarray(xl.to_device(large, dtype=wanted, backend="numpy"))[: x.size]


def words_of(x: HostArray) -> HostArray:
    return x.view(f"u{x.itemsize}") if x.itemsize <= 8 else x.view(np.uint64)


@pytest.mark.parametrize("native", ["on", "off"])
@pytest.mark.parametrize("given", NARROW)
def test_every_pattern_becomes_what_ml_dtypes_and_torch_make_of_it(given: str, native: str) -> None:
    """All pairs with a small float; the page of dtypes says where torch differs."""
    torch = pytest.importorskip("torch")
    x = every_pattern(given)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
    others = (*dtypes.SMALL_FLOATS, *dtypes.DTYPES) if given in dtypes.SMALL_FLOATS else dtypes.SMALL_FLOATS
    tensor = torch.from_numpy(words_of(x).copy()).view(getattr(torch, given))
    for wanted in others:
        found, dtype = convert(x, wanted, native), core_arrays.check_dtype(wanted)
        assert found.dtype == dtype
        are_compared = np.ones(x.shape, bool)
        if dtype.kind in "iu":  # a float beyond the integers is undefined in C
            info = np.iinfo(dtype)
            are_compared = (np.trunc(wide) >= float(info.min)) & (np.trunc(wide) < float(info.max) + 1)
            size = np.nan_to_num(wide, nan=0.0)
            assert np.all(found[~are_compared & (size > 0)] == info.max)
            assert np.all(found[~are_compared & (size < 0)] == info.min)
            assert np.all(found[np.isnan(wide)] == 0)
        elif wanted == "float16":  # of whose NaN there are many
            are_compared = ~np.isnan(wide)
            assert np.all(np.isnan(found[~are_compared]))
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(
                words_of(found[are_compared]), words_of(x[are_compared].astype(dtype)), f"ml_dtypes: {wanted}"
            )
        if wanted in dtypes.SMALL_FLOATS:  # versions differ in what is beyond, and bits of NaN
            are_compared = np.abs(wide) <= dtypes.float_limits(dtype).max
        elif dtype.kind in "fc":
            are_compared = ~np.isnan(wide)
        by_torch = tensor.to(getattr(torch, wanted)).view(torch.uint8).numpy().view(np.uint8)
        in_bytes = found.view(np.uint8).reshape(x.size, -1)[are_compared]
        np.testing.assert_array_equal(in_bytes, by_torch.reshape(x.size, -1)[are_compared], f"torch: {wanted}")


def test_overflow_and_nan() -> None:
    x = np.array([449.0, 464.0, 465.0, 1e9, np.inf, -np.inf, np.nan, -np.nan, 61439.0, 61440.0, -0.0], np.float32)
    found = {
        name: xl.to_device(x, dtype=name, backend="numpy").view(f"u{form.itemsize}")
        for name, form in dtypes.SMALL_FLOATS.items()
    }
    assert found["float8_e4m3fn"].tolist() == [0x7E, 0x7E, 0x7F, 0x7F, 0x7F, 0xFF, 0x7F, 0xFF, 0x7F, 0x7F, 0x80]
    assert found["float8_e5m2"].tolist() == [0x5F, 0x5F, 0x5F, 0x7C, 0x7C, 0xFC, 0x7E, 0xFE, 0x7B, 0x7C, 0x80]
    assert found["float8_e5m2fnuz"].tolist() == [0x63, 0x63, 0x63, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7F, 0x80, 0]
    assert found["bfloat16"].tolist() == [
        0x43E0,
        0x43E8,
        0x43E8,
        0x4E6E,
        0x7F80,
        0xFF80,
        0x7FC0,
        0xFFC0,
        0x4770,
        0x4770,
        0x8000,
    ]


# --- files


@pytest.mark.parametrize("name", OF_SAFETENSORS)
def test_safetensors(library: str, name: str, tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    x, path = host_array(name, (3, 4)), tmp_path / "x.safetensors"
    xl.save(path, {"x": xl.to_device(x), "rest": [x.T]})
    found = xl.load(path)
    assert_same(xl.to_host(found["x"]), x)
    assert_same(xl.to_host(found["rest"][0]), x.T)


def test_safetensors_of_torch(tmp_path: Path) -> None:
    torch, files = pytest.importorskip("torch"), pytest.importorskip("safetensors.torch")
    state = {name: torch.arange(48, dtype=torch.uint8).view(getattr(torch, name)).reshape(4, -1) for name in OF_TORCH}
    files.save_file(state, tmp_path / "one.safetensors")
    found = xl.load(tmp_path / "one.safetensors", device="torch:cpu")
    for name, each in state.items():
        assert found[name].dtype == each.dtype
        assert torch.equal(found[name].view(torch.uint8), each.view(torch.uint8))
    xl.save(tmp_path / "two.safetensors", found)
    again = files.load_file(tmp_path / "two.safetensors")
    assert all(torch.equal(again[name].view(torch.uint8), each.view(torch.uint8)) for name, each in state.items())


def decoder(layers: int, hidden: int, kv: int, inner: int, vocabulary: int) -> dict[str, HostArray]:
    """The state of a decoder by its published names: one half of the layers in float8 with scales, and a tied head."""
    shapes = {
        "self_attn.q_proj.weight": (hidden, hidden), "self_attn.q_proj.bias": (hidden,),
        "self_attn.k_proj.weight": (kv, hidden), "self_attn.v_proj.weight": (kv, hidden),
        "self_attn.o_proj.weight": (hidden, hidden), "input_layernorm.weight": (hidden,),
    }  # fmt: skip
    state = {"model.embed_tokens.weight": host_array("bfloat16", (vocabulary, hidden))}
    for number in range(layers):
        of = f"model.layers.{number}."
        state |= {of + name: host_array("bfloat16", shape, number) for name, shape in shapes.items()}
        for name, (rows, columns) in (("gate", (inner, hidden)), ("up", (inner, hidden)), ("down", (hidden, inner))):
            kind = "float8_e4m3fn" if number % 2 else "bfloat16"
            state[f"{of}mlp.{name}_proj.weight"] = host_array(kind, (rows, columns), number)
            if number % 2:
                state[f"{of}mlp.{name}_proj.scale"] = host_array("float8_e8m0fnu", (rows, columns // 32), number)
    return {**state, "lm_head.weight": state["model.embed_tokens.weight"]}


@pytest.mark.parametrize("place", ["numpy", "torch:cpu", "sim"])
def test_a_model_goes_from_its_file_to_the_device_without_a_second_copy(place: str, tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    need(place.partition(":")[0])
    state, path = decoder(2, 448, 64, 1216, 4096), tmp_path / "model.safetensors"
    xl.save(path, state)
    nbytes = sum({id(each): each.nbytes for each in state.values()}.values())
    assert nbytes <= path.stat().st_size < nbytes + 100_000  # the tied weight is there once
    device = xl.get_device(place)
    xl.load(path, device=device)  # what is made once
    tracemalloc.start()
    try:
        found = xl.load(path, device=device)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found["lm_head.weight"] is found["model.embed_tokens.weight"]
    assert [*found] == [*state]
    for name, each in state.items():
        assert_same(xl.to_host(found[name]), each)
    if place != "sim":  # which keeps a flag for each byte; the memory of tensors is not NumPy's
        assert most < nbytes * (1.2 if place == "numpy" else 0.2)


def test_npz_has_packed_numbers_but_not_those_of_ml_dtypes(tmp_path: Path) -> None:
    x = host_array("int4_x2")
    xl.save(tmp_path / "x.npz", {"x": x})
    assert_same(xl.to_host(xl.load(tmp_path / "x.npz")["x"]), x)
    with pytest.raises(UnsupportedDTypeError, match=r"x is bfloat16, which \.npz does not have; save to \.safetensors"):
        xl.save(tmp_path / "y.npz", {"x": host_array("bfloat16")})


# --- exchange


def test_from_dlpack_of_torch() -> None:
    torch = pytest.importorskip("torch")
    for name in OF_TORCH:
        form = dtypes.dlpack_type(core_arrays.check_dtype(name))
        x = torch.arange(8, dtype=torch.uint8).view(getattr(torch, name))
        assert dtypes.of_dlpack(*form) == core_arrays.check_dtype(name)
        assert_same(xl.to_host(xl.to_device(x, backend="sim")).view(np.uint8), np.arange(8, dtype=np.uint8))


# --- refusals


MISSING = """
import sys
sys.modules["ml_dtypes"] = None
import numpy as np, torch, xferlib as xl
from xferlib.kernels import elementwise, reductions
t, x = torch.ones(3, dtype=torch.bfloat16), np.ones(3)
calls = {
    "zeros": lambda: xl.zeros(3, "bfloat16"), "to_device": lambda: xl.to_device(t), "to_host": lambda: xl.to_host(t),
    "dtype=": lambda: xl.to_device(x, dtype="bfloat16"), "torch": lambda: xl.to_device(x, dtype=torch.bfloat16),
    "astype": lambda: xl.astype(x, "bfloat16"), "kernel": lambda: elementwise(lambda x: x + 1)(t),
    "sum": lambda: reductions.sum(t), "tree": lambda: xl.tree.to_device({"a": t}),
    "prefetch": lambda: next(iter(xl.prefetch([t]))), "copy_to": lambda: xl.copy_to(t, "cpu"),
    "snippet": lambda: elementwise("__nv_bfloat16 x", "float y", "y = x")(x),
    "save": lambda: xl.save("x.safetensors", {"a": t}), "explain": lambda: xl.explain(t),
}
for name, call in calls.items():
    try:
        call()
    except xl.errors.UnsupportedDTypeError as error:
        assert "bfloat16 on the host are those of the package ml_dtypes" in str(error), (name, error)
        assert "pip install" in str(error) and "dtypes]" in str(error), (name, error)
    else:
        raise AssertionError(name)
assert xl.to_host(xl.to_device(np.zeros(3, [("int4_x2", "u1")]), backend="sim")).nbytes == 3  # which needs no package
"""


def test_each_verb_names_ml_dtypes_where_it_is_missing() -> None:
    pytest.importorskip("torch")
    printed("-c", MISSING, after=TORCH)


def test_missing_ml_dtypes_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ImportError("No module named 'ml_dtypes'")

    monkeypatch.setattr(dtypes, "_ml_dtypes", fail)
    with pytest.raises(
        UnsupportedDTypeError, match=r"float8_e5m2 on the host are those of the package ml_dtypes.*pip install"
    ):
        dtypes.find("float8_e5m2")


def test_a_dtype_that_torch_lacks() -> None:
    pytest.importorskip("torch")
    with pytest.raises(UnsupportedDTypeError, match=r"has no dtype int4_x2; move the bytes: x\.view\('uint8'\)"):
        xl.to_device(host_array("int4_x2"), backend="torch")


@pytest.mark.parametrize("name", ["int4", "uint4", "float4_e2m1fn"])
def test_unpacked_numbers_are_told_how_they_are_packed(name: str) -> None:
    x = np.ones((2, 4), getattr(ml_dtypes, name))
    with pytest.raises(UnsupportedDTypeError) as caught:
        xl.to_device(x)
    how = str(caught.value).partition("as '")[2].partition(": ")[2].partition(" where b is")[0]
    packed = eval(how, {"b": x.view("uint8")})
    assert packed.dtype == core_arrays.check_dtype(f"{name}_x2")
    assert packed.view("uint8").tolist() == [[x.view("uint8")[0, 0] * 17] * 2] * 2


@pytest.mark.parametrize("name", dtypes.STORED)
def test_what_is_stored_is_not_converted(name: str) -> None:
    with pytest.raises(UnsupportedDTypeError, match=rf"the array is {name}, .*view it as 'uint8'"):
        xl.to_device(host_array(name), dtype="float32")
    with pytest.raises(UnsupportedDTypeError, match=rf"dtype is {name}"):
        xl.to_device(np.ones(3), dtype=name)


def test_an_out_of_another_dtype() -> None:
    with pytest.raises(
        LayoutTypeError, match="out has dtype bfloat16, but float32 arrives; pass dtype='bfloat16' to convert"
    ):
        xl.to_device(np.ones(3, np.float32), out=np.empty(3, ml_dtypes.bfloat16))


def test_complex_numbers_keep_their_imaginary_parts() -> None:
    with pytest.raises(UnsupportedDTypeError, match="would drop the imaginary part"):
        xl.to_device(np.ones(3, np.complex64), dtype="bfloat16")
