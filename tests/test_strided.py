"""The C that gathers, scatters and converts: the bits of NumPy for every layout, dtype and range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xferlib as xl
from tests.sizes import some
from tools import strided_cases
from xferlib.testing import assert_same_bits, forced, native
from xferlib.testing.strategies import bits_of

pytestmark = [
    pytest.mark.skipif(not native().is_on, reason=native().why_no_staging or "native=off"),
    pytest.mark.usefixtures("fake"),
]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


@pytest.mark.parametrize("seed", some(range(4), 2))
def test_random_layouts_have_the_bits_of_numpy(seed: int) -> None:
    with np.errstate(all="ignore"):
        assert strided_cases.run(500, seed) == []


@pytest.mark.parametrize("wide", ["float32", "float64"])
def test_every_half_is_converted_exactly_and_back(wide: str) -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)[::-1]
    with forced("staged"):
        found = xl.to_host(xl.to_device(halves, device="fake:sim:0", dtype=wide))
        assert not strided_cases.differ(found, halves.astype(wide))
        back = xl.to_host(xl.to_device(found[::-1], device="fake:sim:0", dtype="float16"))
    assert not strided_cases.differ(back, halves[::-1].copy())


def test_nans_keep_their_payloads_between_floats_and_halves() -> None:
    """As NumPy has them, signaling ones too, which the processor's own conversion makes quiet."""
    floats = np.array([0x7F800001, 0x7FA12345, 0xFF812345, 0x7FC00000, 0x3F800000] * 5, np.uint32).view(np.float32)
    halves = np.array([0x7C01, 0x7D55, 0xFC01, 0x7E00, 0x3C00] * 5, np.uint16).view(np.float16)
    with forced("staged"):
        to_half = xl.to_host(xl.to_device(floats[::-1], device="fake:sim:0", dtype="float16"))
        to_float = xl.to_host(xl.to_device(halves[::-1], device="fake:sim:0", dtype="float32"))
    assert_same_bits(to_half.view(np.uint16), floats[::-1].astype(np.float16).view(np.uint16))
    assert_same_bits(to_float.view(np.uint32), halves[::-1].astype(np.float32).view(np.uint32))


def test_a_double_is_rounded_once_to_a_half() -> None:
    """Halfway between two halves, and a little above: rounding to a float first would lose that little."""
    halves = np.arange(0x7BFF, dtype=np.uint16).view(np.float16).astype(np.float64)
    middles = (halves + np.append(halves[1:], 65504.0)) / 2
    values = np.concatenate([middles, np.nextafter(middles, np.inf), np.nextafter(middles, -np.inf)])
    values = np.concatenate([values, -values])[::-1]
    with forced("staged"):
        found = xl.to_host(xl.to_device(values, device="fake:sim:0", dtype="float16"))
    assert_same_bits(found, values.astype(np.float16))


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
def test_floats_saturate_at_the_ends_of_the_range(source: str, target: str) -> None:
    limits, kind = np.iinfo(target), np.dtype(source).type
    with np.errstate(over="ignore"):
        ends = [kind(float(end)) for end in (limits.min, limits.max)]
    near = [np.nextafter(end, kind(sign * np.inf)) for end in ends for sign in (-1, 1)]
    small = [kind(x) for x in (0.5, -0.5, -0.0, 0.99, -0.99, 1.5, -1.5, np.inf, -np.inf, np.nan)]
    values = np.array([*ends, *near, *small] * 9, source)
    expected = [
        0 if np.isnan(x) else min(max(int(x) if np.isfinite(x) else int(np.sign(x)) << 70, limits.min), limits.max)
        for x in values
    ]
    with forced("staged"):
        found = xl.to_host(xl.to_device(values, device="fake:sim:0", dtype=target))
    assert_same_bits(found, np.array(expected, target))


@pytest.mark.parametrize("path", ["small", "staged"])
def test_images_arrive_with_their_channels_first(path: str) -> None:
    images = bits_of(5 * 33 * 47 * 3, np.uint8, seed=1).reshape(5, 33, 47, 3).transpose(0, 3, 1, 2)
    with forced(path):
        d = xl.to_device(images, device="fake:sim:0", dtype="float32")
        out = np.zeros((5, 33, 47, 3), np.float32).transpose(0, 3, 1, 2)
        xl.to_host(d, out=out)
    assert_same_bits(out, images.astype(np.float32))


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_any_bits_of_doubles_become_halves_and_unsigned_numbers_as_in_numpy(seed: int) -> None:
    """All exponents, signs and NaNs; those of halves and of 64-bit numbers as often as all others."""
    chance = np.random.default_rng(seed)
    bits = chance.integers(0, 1 << 64, 30_000, np.uint64)
    near = bits & np.uint64(0x800FFFFFFFFFFFFF) | chance.integers(990, 1100, 30_000).astype(np.uint64) << np.uint64(52)
    x = np.concatenate([bits, near]).view(np.float64)
    with forced("staged"), np.errstate(all="ignore"):
        halves = xl.to_host(xl.to_device(x, device="fake:sim:0", dtype="float16"))
        numbers = xl.to_host(xl.to_device(x, device="fake:sim:0", dtype="uint64"))
        expected = [
            min(max(int(each), 0), 2**64 - 1) if abs(each) < np.inf else (2**64 - 1) * (each > 0) for each in x.tolist()
        ]
        assert_same_bits(halves.view(np.uint16), x.astype(np.float16).view(np.uint16))
    assert_same_bits(numbers, np.array(expected, np.uint64))


@pytest.mark.parametrize("source", ["int64", "uint64"])
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_integers_of_64_bits_are_rounded_once_to_floats(source: str, seed: int) -> None:
    """Of every size, and next to the powers of two at which another way begins; four small ones, or among larger."""
    chance = np.random.default_rng(seed)
    bits = chance.integers(0, 1 << 64, 4000, np.uint64) >> chance.integers(0, 64, 4000).astype(np.uint64)
    powers = np.uint64(1) << np.repeat(np.arange(64, dtype=np.uint64), 40)
    near = powers + chance.integers(0, 5, len(powers)).astype(np.uint64) - np.uint64(2)
    small = chance.integers(0, 1000, 4001, np.uint64)
    x = np.concatenate([bits, near, small, -bits, -near, -small]).view(source)
    rows = np.concatenate([x, x])[: len(x) // 200 * 400].reshape(-1, 200)[::2]
    for wanted in ("float32", "float64"):
        with forced("staged"):
            for each in (x, chance.permutation(x), rows, rows[:, ::-1]):
                found = xl.to_host(xl.to_device(each, device="fake:sim:0", dtype=wanted))
                assert_same_bits(found, each.astype(wanted))


@pytest.mark.parametrize("source", ["float32", "float64"])
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_any_bits_of_floats_become_signed_numbers_as_in_python(source: str, seed: int) -> None:
    chance = np.random.default_rng(seed)
    fraction, bias = (23, 127) if source == "float32" else (52, 1023)
    unsigned: Any = np.uint32 if source == "float32" else np.uint64
    bits = chance.integers(0, 1 << (8 * np.dtype(source).itemsize), 3000, unsigned)
    exponents = chance.integers(bias - 2, bias + 66, 3000).astype(unsigned) << unsigned(fraction)
    near = bits & ~unsigned(((1 << 11) - 1 if fraction == 52 else 255) << fraction) | exponents
    x = np.concatenate([bits, near, np.sort(near)]).view(source)
    with forced("staged"):
        numbers = xl.to_host(xl.to_device(x, device="fake:sim:0", dtype="int64"))
    ends = np.iinfo(np.int64)
    expected = [
        0 if np.isnan(each) else ends.max if each >= 2**63 else ends.min if each < -(2**63) else int(each)
        for each in x.tolist()
    ]
    assert_same_bits(numbers, np.array(expected, np.int64))


@settings(deadline=None, max_examples=200)
@given(
    shape=st.lists(st.sampled_from([1, 2, 3, 5, 9, 10, 15, 16, 17, 18, 20, 21, 33, 64, 65]), min_size=1, max_size=4),
    near=st.sampled_from([18, 20, 21, 31, 33, 64, 100, 300]),
    order=st.randoms(use_true_random=False),
    source=st.sampled_from(["uint8", "int16", "float32", ">i4", "float64", "complex128"]),
    is_repeated=st.booleans(),
)
def test_short_rows_in_any_order_of_axes_are_converted(
    shape: list[int], near: int, order: Any, source: str, *, is_repeated: bool
) -> None:
    """They are converted a block at a time, of which neighbours on the host may be the outermost axis."""
    extents = [near, *shape, 3]
    while np.prod(extents) > 200_000:
        extents.pop(1)
    axes = list(range(len(extents)))
    order.shuffle(axes)
    base = (np.arange(np.prod(extents)) % 113).reshape([extents[axis] for axis in axes]).astype(source)
    x = base.transpose(np.argsort(axes))
    if is_repeated:
        x = np.broadcast_to(x[:1], x.shape)
    target = "complex64" if source == "complex128" else "int32" if source != ">i4" else "int16"
    out = np.full(x.shape, 7, target)
    back = np.zeros_like(base)
    with xl.use_backend("numpy"):
        assert_same_bits(xl.to_device(x, dtype=target), x.astype(target))
        xl.to_device(x, dtype=target, out=out)
        assert_same_bits(out, x.astype(target))
        if not is_repeated and base.dtype.isnative:
            xl.to_host(out, out=back.transpose(np.argsort(axes)), dtype=source)
            assert_same_bits(back, base)


@pytest.mark.parametrize("near", [16, 18, 20, 21, 64, 65])
@pytest.mark.parametrize("inner", [(7, 3), (22, 3), (30, 3), (33, 3), (3, 5, 7), (700, 3)])
@pytest.mark.parametrize("step", [1, 3])
def test_a_line_of_the_cache_that_a_block_does_not_hold_is_read_once(
    near: int, inner: tuple[int, ...], step: int
) -> None:
    """Where fewer neighbours fit than a line has, the block has fewer inner axes, and more neighbours."""
    shape = (*inner[::-1], near * step)  # all axes reversed, or the inner ones would be one
    x = (np.arange(np.prod(shape)) % 113).astype("uint8").reshape(shape)[..., ::step].T
    memory = np.full(x.size + 8192, 7, "int32")
    with xl.use_backend("numpy"):
        xl.to_device(x, dtype="int32", out=memory[: x.size].reshape(x.shape))
    assert_same_bits(memory[: x.size].reshape(x.shape), x.astype("int32"))
    assert (memory[x.size :] == 7).all()


@pytest.mark.parametrize("count", [2, 64, 2500])
def test_one_row_repeated_is_converted(count: int) -> None:
    x = np.broadcast_to(np.arange(6, dtype="uint8").reshape(3, 2).T, (count, 2, 3))
    with xl.use_backend("numpy"):
        assert_same_bits(xl.to_device(x, dtype="int32"), x.astype("int32"))
