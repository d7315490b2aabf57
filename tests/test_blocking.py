"""Blocking transfers of one array in Python, as where C does not replay them."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import xferlib as xl
from xferlib.errors import LayoutError, SlowPathError, UnsupportedArrayError, UnsupportedDTypeError
from xferlib.testing import THRESHOLDS, assert_same_bits, configured, forced, load_backend, strategies
from xferlib.testing.strategies import bits_of

HERE, THERE = "fake:sim:0", "fake:sim:1"


@pytest.fixture
def copies(fake: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The driver's copies, in order."""
    seen: list[str] = []
    for name in ("copy_to_device", "copy_to_host"):
        own = getattr(fake, name)

        def noted(*args: Any, _name: str = name, _own: Callable[..., bool] = own, **options: Any) -> bool:
            seen.append(_name)
            return _own(*args, **options)

        monkeypatch.setattr(fake, name, noted)
    return seen


zeros: Any = xl.zeros


def _host(out: Any) -> np.ndarray[Any, Any]:
    return out if isinstance(out, np.ndarray) else xl.to_host(out)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (lambda x: x[:, ::2], lambda: xl.zeros((4, 4), "float32", device=HERE)),
        (lambda x: x[:, ::2], lambda: xl.zeros((4, 8), "float32", device=HERE)[:, ::2]),
        (lambda x: x[::-1], lambda: xl.zeros((4, 8), "float32", device=HERE)),
        (lambda x: x, lambda: zeros((8, 4), "float32", device=HERE).transpose(1, 0)),
        (lambda x: x.T, lambda: zeros((4, 8), "float32", device=HERE).transpose(1, 0)),
        (lambda x: x.astype(">f4"), lambda: xl.zeros((4, 8), "float32", device=HERE)),
        (lambda x: x[:0], lambda: xl.zeros((0, 8), "float32", device=HERE)),
        (lambda x: x.astype("float64").tolist(), lambda: xl.zeros((4, 8), "float64", device=HERE)),
        (lambda x: x.view(type("Sub", (np.ndarray,), {})), lambda: xl.zeros((4, 8), "float32", device=HERE)),
        (lambda x: x[:, ::2], lambda: np.zeros((4, 4), "float32")),
        (lambda x: x, lambda: np.zeros((8, 4), "float32").T),
    ],
)
def test_an_upload_of_more_than_one_copy_gives_the_same_bits(fake: Any, source: Any, target: Any) -> None:
    x, out = np.arange(32, dtype=np.float32).reshape(4, 8), target()
    given_ = source(x)
    xl.Device(HERE).synchronize()  # the driver's copy is for an idle stream
    assert xl.to_device(given_, out=out) is out
    assert_same_bits(_host(out), np.asarray(given_))


def _up(x: Any, d: Any, out: Any) -> Any:
    return xl.to_device(x, out=out)


def _down(x: Any, d: Any, out: Any) -> Any:
    return xl.to_host(d, out=out)


def _convert_up(dtype: Any) -> Callable[[Any, Any, Any], Any]:
    return lambda x, d, out: xl.to_device(x.astype("complex64"), device=HERE, dtype=dtype)


def _frozen(out: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    out.flags.writeable = False
    return out


def _strictly(x: Any, d: Any, out: Any) -> Any:
    with configured(strict="pageable"):
        return xl.to_host(xl.empty(1 << 20, "uint8", device=HERE), out=out)


@pytest.mark.parametrize(
    ("call", "make", "error", "words"),
    [
        (_up, lambda: xl.zeros((4, 8), "float64", device=HERE), LayoutError, "dtype float64, but float32"),
        (_up, lambda: xl.zeros((8, 4), "float32", device=HERE), LayoutError, r"shape \(8, 4\).*shape \(4, 8\)"),
        (_up, lambda: np.zeros((4, 8), "float64"), LayoutError, "dtype float64, but float32"),
        (_up, lambda: np.zeros((8, 4), "float32"), LayoutError, r"shape \(8, 4\).*shape \(4, 8\)"),
        (_up, object, UnsupportedArrayError, "out is object"),
        (_down, lambda: np.zeros((4, 8), "float64"), LayoutError, "dtype float64, but float32"),
        (_down, lambda: np.zeros((4, 8), ">f4"), LayoutError, "dtype >f4, but float32"),
        (_down, lambda: np.zeros((8, 4), "float32"), LayoutError, r"shape \(8, 4\).*shape \(4, 8\)"),
        (_down, lambda: _frozen(np.zeros((4, 8), "float32")), LayoutError, "read-only"),
        (_down, lambda: _frozen(np.zeros((8, 4), "float32").T), LayoutError, "read-only"),
        (_down, object, UnsupportedArrayError, "out is object"),
        (lambda x, d, out: xl.to_host(object()), lambda: None, UnsupportedArrayError, "object"),
        (_convert_up("float32"), lambda: None, UnsupportedDTypeError, "imaginary part"),
        (_convert_up("int128"), lambda: None, UnsupportedDTypeError, "not a dtype"),
        (_convert_up(object), lambda: None, UnsupportedDTypeError, "no device holds"),
        (_convert_up(3), lambda: None, UnsupportedDTypeError, "not a dtype"),
        (_strictly, lambda: np.zeros(1 << 20, "uint8"), SlowPathError, "XFERLIB_STRICT=pageable"),
    ],
)
def test_what_does_not_fit_is_refused_by_name_and_writes_nothing(
    copies: list[str], call: Any, make: Any, error: type[Exception], words: str
) -> None:
    x = bits_of(128, np.float32, seed=2).reshape(4, 8)
    d, out = xl.to_device(x, device=HERE), make()
    xl.Device(HERE).synchronize()  # the driver's copy is for an idle stream
    copies.clear()
    with pytest.raises(error, match=words):
        call(x, d, out)
    assert copies == []
    assert out is None or type(out) is object or not _host(out).any()


def test_a_download_that_would_drop_the_imaginary_part_is_refused(fake: Any) -> None:
    with pytest.raises(UnsupportedDTypeError):
        xl.to_host(xl.to_device(np.arange(6, dtype=np.complex64), device=HERE), dtype="float32")


def test_a_download_of_more_than_one_copy_gives_the_same_bits(fake: Any) -> None:
    x = bits_of(128, np.float32, seed=2).reshape(4, 8)
    d: Any = xl.to_device(x, device=HERE)
    for array, out, expected in [
        (d[:, ::2], None, x[:, ::2]),
        (d[:, ::2], np.zeros((4, 4), "float32"), x[:, ::2]),
        (d[:, ::2], np.zeros((4, 8), "float32")[:, ::2], x[:, ::2]),
        (d.transpose(1, 0), np.zeros((8, 4), "float32"), x.T),
        (d, np.zeros((8, 4), "float32").T, x),
        (d[:0], None, x[:0]),
        (np.arange(4, dtype=">f4"), None, np.arange(4, dtype=">f4")),
        ([1, 2], None, np.array([1, 2])),
    ]:
        found = xl.to_host(array, out=out)
        assert_same_bits(found, expected)
        assert out is None or found is out


def test_a_stream_with_pending_work_is_not_waited_for_upward(copies: list[str], fake: Any) -> None:
    fake.machine.progresses_on_query = False
    try:
        pinned = xl.pinned_array(bits_of(100_000, np.uint8, seed=3), backend="fake")
        d = xl.to_device(pinned, device=HERE, stream=xl.current_stream(HERE))  # still pending
        xl.to_device(bits_of(100_000, np.uint8, seed=4), out=d)
        assert "copy_to_device" not in copies
    finally:
        fake.machine.progresses_on_query = True
    assert_same_bits(xl.to_host(d), bits_of(100_000, np.uint8, seed=4))


@pytest.mark.parametrize("nbytes", [1000, 100_000, THRESHOLDS.medium_nbytes])
def test_a_stream_of_the_users_is_not_waited_for_while_the_source_is_read(
    copies: list[str], fake: Any, nbytes: int
) -> None:
    x = bits_of(nbytes, np.uint8, seed=5)
    stream = xl.Stream(HERE)
    pinned = xl.pinned_array(x[::-1], backend="fake")
    fake.machine.progresses_on_query = False
    try:
        d = xl.to_device(pinned, device=HERE, stream=stream)  # still pending
        changing = x.copy()
        xl.to_device(changing, out=d, stream=stream)
        assert not fake.stream_done(stream._raw)
        changing[:] = 0  # it has been read
    finally:
        fake.machine.progresses_on_query = True
    assert copies == []
    with stream:
        assert_same_bits(xl.to_host(d), x)


def test_a_driver_that_refuses_the_memory_is_not_an_error(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("copy_to_device", "copy_to_host"):
        monkeypatch.setattr(fake, name, lambda *args, **options: False)
    x = bits_of(100_000, np.uint8, seed=6)
    d = xl.to_device(x, device=HERE)
    stream = xl.Stream(HERE)
    assert_same_bits(xl.to_host(xl.to_device(x, device=HERE, stream=stream), stream=stream), x)
    assert_same_bits(xl.to_host(xl.to_device(x[::-1].copy(), out=d)), x[::-1])
    assert_same_bits(xl.to_host(d, out=np.empty_like(x)), x[::-1])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(x=strategies.host_arrays(), place=st.sampled_from([HERE, THERE]))
def test_it_gives_the_bits_of_every_other_way(fake: Any, x: Any, place: str) -> None:
    d = xl.to_device(x, device=place)
    plain = np.array(x, order="C")
    if plain.dtype.isnative:
        xl.to_device(plain, out=d)
    with forced("staged"):
        expected = xl.to_host(d)
    assert_same_bits(xl.to_host(d), expected)
    assert_same_bits(xl.to_host(d, out=np.empty_like(expected)), expected)


def test_an_array_that_its_library_does_not_let_be_written_is_not(
    plugins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its memory could be: that of an array of JAX, for instance."""
    tiny = load_backend("tiny")
    own = tiny.view
    out = xl.to_device(np.zeros(3), backend="tiny")
    monkeypatch.setattr(tiny, "view", lambda array: own(array)._replace(is_writable=False))
    with pytest.raises(LayoutError, match="read-only"):
        xl.to_device(np.ones(3), out=out)
    monkeypatch.undo()
    assert_same_bits(xl.to_host(out), np.zeros(3))


_LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda a: a, "reversed": lambda a: a[::-1], "turned": lambda a: a.T, "rows": lambda a: a[::2]
}  # fmt: skip
_DTYPES = ("bool", "int8", "uint16", "int64", "float16", "float32", "float64", "complex64")


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=3), given_=st.sampled_from(_DTYPES),
    wanted=st.sampled_from(_DTYPES), is_swapped=st.booleans(), layout=st.sampled_from(sorted(_LAYOUTS)),
    into=st.booleans(),
)  # fmt: skip
def test_small_arrays_of_any_layout_arrive_converted_and_come_back(
    fake: Any, shape: list[int], given_: str, wanted: str, is_swapped: bool, layout: str, into: bool
) -> None:
    if given_ == "complex64" and wanted != "complex64":
        wanted = given_
    x = np.random.default_rng(shape).integers(0, 100, math.prod(shape)).astype(given_).reshape(shape)
    x = x.astype(x.dtype.newbyteorder()) if is_swapped else x
    view = _LAYOUTS[layout]
    source = view(x)
    expected = np.array(source).astype(wanted)
    out = xl.zeros(source.shape, wanted, device=HERE) if into else None
    d = xl.to_device(source, device=None if into else HERE, dtype=wanted, out=out)
    assert d is out or not into
    assert_same_bits(xl.to_host(d), expected)
    target = view(np.zeros(shape, given_))
    if given_ == "complex64" or wanted != "complex64":
        back = xl.to_host(d, dtype=given_, out=target)
        assert back is target
        assert_same_bits(np.array(target), expected.astype(given_))
        assert_same_bits(xl.to_host(d, dtype=given_), expected.astype(given_))
