"""Random numbers: known answers, the plain formulas bit for bit on every backend, streams, statistics, refusals."""

from __future__ import annotations

import copy
import itertools
import json
import math
import pickle
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xferlib as xl
from xferlib.errors import (
    ArgumentError,
    DeviceMemoryError,
    KernelTypeError,
    LayoutError,
    UnsupportedArrayError,
    UnsupportedDTypeError,
)
from xferlib.kernels import random as philox_kernels
from xferlib.kernels.random import Draw
from xferlib.random import Generator
from xferlib.testing import assert_same_bits, configured
from xferlib.testing.tools import in_threads

KNOWN = {
    "zeros": ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    "ones": ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    "pi": ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
}
"""Counter, key and block from the known answers of the Random123 distribution, lowest word first."""


@pytest.fixture
def library(backend: str) -> str:
    """Each library that runs kernels, as the default."""
    if backend == "fake":
        pytest.skip("fake: it runs no kernels")
    return backend


# --- the definition, in plain Python and NumPy


def philox(counter: int, key: int) -> list[int]:
    """A block, as the paper has it."""
    c = [counter >> shift & 0xFFFFFFFF for shift in (0, 32, 64, 96)]
    k = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        one, two = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [two >> 32 ^ c[1] ^ k[0], two & 0xFFFFFFFF, one >> 32 ^ c[3] ^ k[1], one & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


class Plain:
    """A stream, by its definition."""

    def __init__(self, seed: int | list[int], path: tuple[int, ...] = (), block: int = 0) -> None:
        seeds = [seed] if isinstance(seed, int) else seed
        entropy = [len(seeds)]
        for each in seeds:
            entropy += [each.bit_length()]
            entropy += [each >> 32 * n & 0xFFFFFFFF for n in range(max(1, math.ceil(each.bit_length() / 32)))]
        words = [int(each) for each in np.random.SeedSequence(entropy, spawn_key=path).generate_state(4, np.uint32)]
        self.key = words[0] | words[1] << 32
        self.counter = (words[2] << 64 | words[3] << 96) + block

    def words(self, bits: int, count: int) -> list[int]:
        """Numbers of 32, 64 or 128 bits; the rest of the last block is dropped."""
        found: list[int] = []
        while len(found) < count:
            whole = sum(word << 32 * number for number, word in enumerate(philox(self.counter, self.key)))
            found += [whole >> shift & (1 << bits) - 1 for shift in range(0, 128, bits)]
            self.counter += 1
        return found[:count]

    def random(self, count: int, dtype: Any) -> np.ndarray[Any, Any]:
        if np.dtype(dtype) == np.float32:
            return np.array([(word >> 8) * 2.0**-24 for word in self.words(32, count)], np.float32)
        return np.array([(word >> 11) * 2.0**-53 for word in self.words(64, count)])

    def uniform(self, low: float, high: float, count: int, dtype: Any) -> np.ndarray[Any, Any]:
        low, high = np.dtype(dtype).type(low), np.dtype(dtype).type(high)
        return low + (high - low) * self.random(count, dtype)

    def integers(self, low: int, r: int, count: int, dtype: Any) -> np.ndarray[Any, Any]:
        is_power = r & (r - 1) == 0
        bits = 32 if is_power and r <= 1 << 32 else 64 if is_power or r <= 1 << 32 else 128
        return np.array([low + (word * r >> bits) for word in self.words(bits, count)], dtype)

    def normal(self, loc: float, scale: float, count: int, dtype: Any) -> np.ndarray[Any, Any]:
        kind = np.dtype(dtype).type
        bits = 8 * np.dtype(dtype).itemsize
        words = self.words(bits, count + count % 2)
        pairs = zip(words[::2], words[1::2], strict=True)
        z = np.array([each for x, y in pairs for each in box_muller(x, y, kind, bits)], kind)[:count]
        return kind(loc) + kind(scale) * z


def box_muller(x: int, y: int, kind: Any, bits: int) -> tuple[Any, Any]:
    """Two normal numbers, each operation rounded to ``kind``."""
    mantissa, logs, circles = (23, 6, 6) if bits == 32 else (52, 11, 9)
    m, k = (kind(each) for each in np.frexp(kind(x | 1)))
    if m < kind(math.sqrt(0.5)):
        m, k = m * kind(2), k - kind(1)
    s = (m - kind(1)) / (m + kind(1))
    series = horner(s * s, [1 / (2 * n + 1) for n in range(logs)], kind)
    radius = np.sqrt((k - kind(bits)) * kind(-2 * math.log(2)) + s * kind(-4) * series)
    odd = signed(y, bits) >> bits - mantissa - 2 | 1
    angle = kind(odd) * kind(math.pi / 4 * 2.0 ** -(mantissa + 1))
    square = angle * angle
    cosine = horner(square, [(-1) ** n / math.factorial(2 * n) for n in range(circles)], kind)
    sine = angle * horner(square, [(-1) ** n / math.factorial(2 * n + 1) for n in range(circles)], kind)
    radius = -radius if y & 2 else radius
    return (radius * sine, radius * cosine) if y & 1 else (radius * cosine, radius * sine)


def signed(y: int, bits: int) -> int:
    return y - (y >> bits - 1 << bits)


def horner(x: Any, coefficients: list[float], kind: Any) -> Any:
    total = kind(coefficients[-1])
    for each in coefficients[-2::-1]:
        total = total * x + kind(each)
    return total


def drawn(array: Any) -> np.ndarray[Any, Any]:
    return xl.to_host(array)


# --- the same bits


@pytest.mark.parametrize("name", KNOWN)
def test_blocks_are_those_of_the_paper(library: str, name: str) -> None:
    counter, key, block = (
        sum(int(word, 16) << 32 * number for number, word in enumerate(each.split())) for each in KNOWN[name]
    )
    out = xl.empty(4, "uint32")
    Draw(philox_kernels.integers_by_shift, np.dtype("uint32"), 32, numbers=(0, 0)).fill(out, counter, key)
    assert sum(word << 32 * number for number, word in enumerate(drawn(out).tolist())) == block
    assert philox(counter, key) == drawn(out).tolist()


SEEDS = st.one_of(
    st.integers(0, 2**64), st.integers(0, 2**300), st.lists(st.integers(0, 2**70), min_size=1, max_size=4)
)
SIZES = st.one_of(st.none(), st.integers(0, 9), st.lists(st.integers(0, 4), max_size=3).map(tuple))
FLOATS = st.sampled_from(["float32", "float64"])
EDGES = [0, 1, 2, 3, 5, 255, 256, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**63, 2**64 - 1]


@st.composite
def ranges(draw: Any) -> tuple[int, int, str]:
    """Low, high and a dtype that holds them."""
    dtype = draw(st.sampled_from(["bool", *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64))]))
    info = np.iinfo("uint8" if dtype == "bool" else dtype)
    least, most = (0, 1) if dtype == "bool" else (int(info.min), int(info.max))
    low = draw(st.one_of(st.just(least), st.integers(least, most)))
    span = draw(st.one_of(st.sampled_from(EDGES), st.integers(0, most - low)))
    return low, min(low + span, most), dtype


@st.composite
def calls(draw: Any) -> tuple[str, tuple[Any, ...]]:
    """A method, and its arguments but for the size."""
    method = draw(st.sampled_from(["random", "uniform", "integers", "normal"]))
    if method == "integers":
        return method, draw(ranges())
    limits = sorted(draw(st.tuples(*[st.floats(-1e6, 1e6)] * 2)))
    numbers = {"random": (), "uniform": tuple(limits), "normal": (limits[0], abs(limits[1]))}[method]
    return method, (*numbers, draw(FLOATS))


@pytest.mark.usefixtures("library")
@settings(max_examples=60)
@given(seed=SEEDS, sized=st.lists(st.tuples(calls(), SIZES), min_size=1, max_size=4))
def test_every_call_gives_the_numbers_of_the_definition(seed: Any, sized: list[Any]) -> None:
    rng, plain = xl.random.default_rng(seed), Plain(seed)
    first = plain.counter
    for (method, (*numbers, dtype)), size in sized:
        shape = () if size is None else (size,) if isinstance(size, int) else size
        options = {"endpoint": True} if method == "integers" else {}
        got = getattr(rng, method)(*numbers, size=size, dtype=dtype, **options)
        if method == "integers":
            numbers = [numbers[0], numbers[1] - numbers[0] + 1]
        with np.errstate(all="ignore"):
            expected = getattr(plain, method)(*numbers, math.prod(shape), dtype)
        assert xl.get_backend(got) is xl.get_backend()
        assert_same_bits(drawn(got), expected.reshape(shape))
        assert rng.state["block"] == plain.counter - first
        if method == "uniform":
            low, high = (np.dtype(dtype).type(each) for each in numbers)
            assert np.all((low <= drawn(got)) & (drawn(got) <= high))


def test_a_version_keeps_the_numbers_of_the_last_one(library: str) -> None:
    rng = xl.random.default_rng(7)
    words = [1069861864, 1817974985, 323606805, 2791218586]
    uniform = ["0x1.c2ec6d9be2951p-1", "0x1.b756cb34a0be0p-5"]
    normal = ["-0x1.b8b71120ef68ep-1", "-0x1.1877e2e56b6eap+0"]
    single = ["0x1.3d6e800000000p+0", "0x1.1bc5c40000000p-2"]
    assert drawn(rng.integers(2**32, size=4, dtype="uint32")).tolist() == words
    assert [each.hex() for each in drawn(rng.random(2)).tolist()] == uniform
    assert [each.hex() for each in drawn(rng.normal(size=2)).tolist()] == normal
    assert [float(each).hex() for each in drawn(rng.normal(size=2, dtype="float32"))] == single
    assert drawn(rng.permutation(9)).tolist() == [7, 8, 2, 0, 5, 6, 4, 3, 1]
    assert drawn(xl.random.default_rng([7, 1]).spawn(2)[1].integers(1000, size=3)).tolist() == [967, 774, 524]


def test_integers_are_upper_words_of_products(library: str) -> None:
    for count in (3, 2**31 + 1, 2**32 - 1, 2**32 + 1, 2**40 + 1, 2**63 + 2**40 + 1, 2**64 - 1):
        got = drawn(xl.random.default_rng(12).integers(count, size=300, dtype="uint64"))
        assert_same_bits(got, Plain(12).integers(0, count, 300, "uint64"))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("method", ["random", "normal"])
def test_large_arrays_have_the_same_numbers_with_any_number_of_threads(library: str, method: str, dtype: str) -> None:
    count = 200_001
    found = []
    for threads in (1, 3):
        with configured({"XFERLIB_THREADS": str(threads)}):
            found.append(drawn(getattr(xl.random.default_rng(3), method)(size=count, dtype=dtype)))
    assert_same_bits(*found)
    rng = Generator(3, backend="numpy")
    rng.set_state({**rng.state, "block": 50_000 if dtype == "float32" else 100_000})
    assert_same_bits(found[0][200_000:], getattr(rng, method)(size=1, dtype=dtype))


def test_the_lowest_word_of_the_counter_carries(library: str) -> None:
    for block in (2**32 - 3, 2**33 - 1, 2**63 + 2**32 - 2):
        rng = xl.random.default_rng(5)
        rng.set_state({**rng.state, "block": block})
        assert_same_bits(drawn(rng.random(31, "float32")), Plain(5, block=block).random(31, "float32"))
        assert rng.state["block"] == block + 8


# --- what a call takes, and gives


def test_results_are_plain_writable_arrays(library: str) -> None:
    rng = xl.random.default_rng(2)
    sizes: list[tuple[Any, tuple[int, ...]]] = [
        (None, ()), (3, (3,)), (np.int64(3), (3,)), ((2, 3),) * 2, ([1, 0], (1, 0)),
    ]  # fmt: skip
    for size, shape in sizes:
        info = xl.get_backend(x := rng.random(size)).view(x)
        assert info.shape == shape
        assert info.is_writable
        assert info.is_c_contiguous


def test_backend_and_device_are_chosen_at_the_call_or_kept() -> None:
    free, bound = Generator(4), Generator(4, backend="sim")
    placed = Generator(4, device="sim:sim:0")
    with xl.use_backend("numpy"):
        assert xl.get_backend(free.random(3)).name == "numpy"
        for each in (bound, placed, *(pickle.loads(pickle.dumps(kept)) for kept in (bound, placed))):
            assert xl.get_backend(each.random(3)).name == "sim"
        assert str(xl.device_of(placed.permutation(3))) == "sim:sim:0"
    with xl.use_backend("sim"):
        assert xl.get_backend(free.random(3)).name == "sim"


def test_draws_run_on_the_current_stream() -> None:
    with xl.use_backend("sim"):
        rng = xl.random.default_rng(4)
        with (stream := xl.Stream()):
            x = rng.random(1000)
        stream.synchronize()  # without it the simulator would report a race
        assert_same_bits(xl.to_host(x), Generator(4, backend="numpy").random(1000))


def test_memory_that_is_not_there_leaves_the_generator_as_it_was() -> None:
    rng = Generator(6, backend="sim")
    with pytest.raises(DeviceMemoryError):
        rng.random(2**50)
    assert rng.state["block"] == 0


def test_normal_numbers_are_within_a_few_ulp_of_the_exact_ones() -> None:
    kinds: list[tuple[Any, int]] = [(np.float32, 32), (np.float64, 64)]
    for dtype, bits in kinds:
        words = [*Plain(9).words(bits, 400), 0, 3, 2**bits - 1, 0, 2 ** (bits - 1), 1, 2**bits - 2, 2**bits - 1]
        for x, y in zip(words[::2], words[1::2], strict=True):
            for got, exact in zip(box_muller(x, y, dtype, bits), _exact(x, y, dtype, bits), strict=True):
                assert abs(mpmath.mpf(float(got)) - exact) <= 4 * np.spacing(abs(dtype(exact)))
    assert 9.41 < box_muller(0, 0, np.float64, 64)[0] < 9.42
    assert 6.66 < box_muller(0, 0, np.float32, 32)[0] < 6.67


def _exact(x: int, y: int, dtype: Any, bits: int) -> tuple[Any, Any]:
    """The same two numbers without rounding, but for that of x to the dtype."""
    mantissa = np.finfo(dtype).nmant
    with mpmath.workprec(200):
        radius = mpmath.sqrt(-2 * mpmath.log(mpmath.mpf(float(dtype(x | 1))) / 2**bits))
        odd = signed(y, bits) >> bits - mantissa - 2 | 1
        angle = mpmath.mpf(odd) * mpmath.pi / 4 / 2 ** (mantissa + 1)
        angle = mpmath.pi / 2 - angle if y & 1 else angle
        radius = -radius if y & 2 else radius
        return radius * mpmath.cos(angle), radius * mpmath.sin(angle)


# --- permutations


def test_a_permutation_sorts_random_keys(library: str) -> None:
    keys = Plain(8).words(64, 301)
    rng = xl.random.default_rng(8)
    assert_same_bits(drawn(rng.permutation(301)), np.array(sorted(range(301), key=keys.__getitem__)))
    assert rng.state["block"] == 151


def test_equal_keys_stay_in_their_order() -> None:
    for count, values, shift in itertools.product((0, 1, 2, 3, 5, 13, 500, 20_000), (1, 50, 5000, 2**64), (0, 5, 58)):
        keys = np.random.default_rng(0).integers(0, values, count, dtype=np.uint64) << np.uint64(shift)
        assert_same_bits(philox_kernels.order(keys), np.argsort(keys, kind="stable"))


def test_an_array_that_cannot_be_permuted_takes_no_numbers() -> None:
    torch = pytest.importorskip("torch")
    rng = Generator(1, backend="numpy")
    arrays = [
        (np.zeros(3, [("a", "i4")]), UnsupportedDTypeError, "which no device holds; convert"),
        (np.ma.masked_array([1, 2], [False, True]), UnsupportedArrayError, "masked array.*pass x.filled"),
        (torch.ones(3, requires_grad=True), KernelTypeError, "x.detach"),
    ]
    for x, error, says in arrays:
        with pytest.raises(error, match=says):
            rng.permutation(x)
    assert rng.state["block"] == 0


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_arrays_of_every_kind_are_permuted(tmp_path: Path) -> None:
    rows = np.arange(12, dtype=np.int32).reshape(4, 3)
    order = Generator(8, backend="numpy").permutation(4)
    np.save(tmp_path / "rows.npy", rows)
    frozen = rows.copy()
    frozen.flags.writeable = False
    for x in (np.matrix(rows), rows.astype(">i4"), frozen, np.load(tmp_path / "rows.npy", mmap_mode="r")):
        assert_same_bits(Generator(8, backend="numpy").permutation(x), rows[order])
    repeated = np.broadcast_to(rows[0], (4, 3))
    assert_same_bits(Generator(8, backend="numpy").permutation(repeated), repeated.copy())


def test_rows_are_permuted_and_the_array_stays(library: str) -> None:
    shapes = ((7,), (5, 3), (4, 1, 2), (0, 3), (3, 0), (1, 6))
    for shape, dtype in itertools.product(shapes, ("bool", "int16", "float32", "complex128")):
        rows = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
        x = xl.to_device(rows)
        got = xl.random.default_rng(8).permutation(x)
        assert_same_bits(drawn(got), rows[drawn(xl.random.default_rng(8).permutation(shape[0]))])
        assert_same_bits(drawn(x), rows)
    rows = np.arange(24.0).reshape(4, 6)
    x = xl.to_device(rows)
    for view, expected in ((x[::2], rows[::2]), (x.T, rows.T)):
        order = drawn(xl.random.default_rng(8).permutation(expected.shape[0]))
        assert_same_bits(drawn(xl.random.default_rng(8).permutation(view)), expected[order])


def test_an_array_decides_where_its_permutation_is() -> None:
    assert xl.get_backend(Generator(1, backend="sim").permutation(np.arange(3))).name == "numpy"


# --- streams


def test_no_seed_shares_the_stream_of_another_seeds_child() -> None:
    """The words of a seed, and the numbers of children, are told apart: NumPy's generators mix these up."""
    seeds: list[Any] = [5, 5 + (3 << 128), 5 << 32, [5, 0], [0, 5], [5, 0, 3], [5, 3], [0], 0, [0, 0], [5 + (3 << 128)]]
    children = [each for seed in (5, [5, 0], 0) for each in Generator(seed).spawn(6)]
    generators = [*map(Generator, seeds), *children]
    found = [(each._key, each._first) for each in generators]
    assert len({*found}) == len(found) - 2  # [5 + (3 << 128)] and [0] are lists of one number
    child, other = np.random.SeedSequence(5).spawn(4)[3], np.random.SeedSequence(5 + (3 << 128))
    assert child.generate_state(4).tolist() == other.generate_state(4).tolist()


def test_a_stream_ends() -> None:
    rng = Generator(3, backend="numpy")
    rng.set_state({**rng.state, "block": 2**64 - 2})
    with pytest.raises(ArgumentError, match=r"has 2 of its 2\^64 blocks left and the call takes 3; go on with .*spawn"):
        rng.random(5)
    assert_same_bits(rng.random(4), Plain(3, block=2**64 - 2).random(4, float))
    _with_state(rng.state).random(0)
    with pytest.raises(ArgumentError, match="has 0 of"):
        rng.permutation(1)


def test_a_seed_repeats_and_another_one_does_not() -> None:
    one, again, other, fresh, new = (
        Generator(seed, backend="numpy").integers(2**64, size=8, dtype="uint64").tolist()
        for seed in (7, 7, 8, None, None)
    )
    assert one == again
    assert len({*one, *other, *fresh, *new}) == 32


def test_spawned_streams_differ_and_repeat() -> None:
    def firsts(rng: Generator) -> list[int]:
        return rng.integers(2**64, size=4, dtype="uint64").tolist()

    rng = Generator(7, backend="numpy")
    children = [*rng.spawn(2), *rng.spawn(1)]
    grandchildren = children[1].spawn(2)
    everyone = [rng, *children, *grandchildren]
    found = [number for each in everyone for number in firsts(each)]
    assert len(set(found)) == 4 * len(everyone)
    again = Generator(7, backend="numpy").spawn(3)
    assert [firsts(each) for each in again] == [found[4:8], found[8:12], found[12:16]]
    assert firsts(Generator(7, backend="numpy")) == found[:4]
    assert Plain(7, (1, 0)).words(64, 4) == found[16:20]
    assert rng.spawn(0) == []


@pytest.mark.parametrize(
    "again",
    [
        lambda rng: pickle.loads(pickle.dumps(rng)),
        copy.copy,
        copy.deepcopy,
        lambda rng: _with_state(json.loads(json.dumps(rng.state))),
    ],
    ids=["pickle", "copy", "deepcopy", "state"],
)
def test_a_copy_goes_on_from_the_same_state(again: Callable[[Any], Any]) -> None:
    rng = Generator(2**200, backend="numpy").spawn(3)[2]
    rng.random(5)
    rng.spawn(1)
    other = again(rng)
    assert other.state == rng.state
    assert_same_bits(other.random(9), rng.random(9))
    rng.random(9)
    assert other.state != rng.state
    assert_same_bits(other.spawn(1)[0].random(2), rng.spawn(1)[0].random(2))


def _with_state(state: dict[str, Any]) -> Generator:
    rng = Generator(0, backend="numpy")
    rng.set_state(state)
    return rng


def test_default_rng_returns_a_generator_itself() -> None:
    rng = xl.random.default_rng(3)
    assert xl.random.default_rng(rng) is rng
    assert "seed 3, spawned as [1], block 0" in repr(rng.spawn(2)[1])
    with pytest.raises(ArgumentError, match="seed 3, block 0> keeps its backend and device; give no backend="):
        xl.random.default_rng(rng, backend="sim")


def test_a_seed_may_be_a_sequence() -> None:
    seeds: list[Any] = [[7, 2**80], (7, 2**80), np.array([7, 3]), range(2)]
    for seed in seeds:
        rng = Generator(seed, backend="numpy")
        assert rng.state["seed"] == [int(each) for each in seed]
        assert json.loads(json.dumps(rng.state)) == rng.state
        assert_same_bits(Generator(rng.state["seed"], backend="numpy").random(2), rng.random(2))
    assert_same_bits(Generator([7], backend="numpy").random(2), Generator(7, backend="numpy").random(2))


def test_threads_share_a_generator_without_sharing_numbers() -> None:
    rng = Generator(11, backend="numpy")
    found: list[int] = []
    start = threading.Barrier(4)

    def draw(_: int) -> None:
        start.wait()
        for _ in range(100):
            found.extend(rng.integers(2**64, size=2, dtype="uint64").tolist())

    in_threads(draw, range(4))
    assert sorted(found) == sorted(Generator(11, backend="numpy").integers(2**64, size=800, dtype="uint64").tolist())


# --- statistics: fixed seeds, so that a test passes always or never


def chi_square(counts: Any, expected: Any) -> float:
    """How many standard deviations of its distribution the statistic is away from its mean."""
    counts, expected = np.asarray(counts, float), np.broadcast_to(expected, np.shape(counts)).astype(float)
    freedom = counts.size - 1
    return float(((counts - expected) ** 2 / expected).sum() - freedom) / math.sqrt(2 * freedom)


COUNT = 1 << 18
SIGMAS = 4.0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_uniform_numbers_are_uniform(dtype: str) -> None:
    x = Generator(101, backend="numpy").random(COUNT, dtype).astype(float)
    assert abs(chi_square(np.histogram(x, 256, (0, 1))[0], COUNT / 256)) < SIGMAS
    low = x * (2**24 if dtype == "float32" else 2**53) % 256  # the lowest bits
    assert abs(chi_square(np.bincount(low.astype(int), minlength=256), COUNT / 256)) < SIGMAS
    pairs = np.histogram2d(x[::2], x[1::2], 16, ((0, 1), (0, 1)))[0]
    assert abs(chi_square(pairs.ravel(), COUNT / 512)) < SIGMAS


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normal_numbers_are_normal(dtype: str) -> None:
    z = Generator(102, backend="numpy").normal(size=COUNT, dtype=dtype).astype(float)
    for power, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs((z**power).mean() - mean) < SIGMAS * math.sqrt(variance / COUNT)
    edges = np.linspace(-3, 3, 61)
    below = np.array([0, *(0.5 * math.erfc(-each / math.sqrt(2)) for each in edges), 1])
    counts = np.bincount(np.searchsorted(edges, z), minlength=62)
    assert abs(chi_square(counts, COUNT * np.diff(below))) < SIGMAS
    assert abs(np.corrcoef(z[::2], z[1::2])[0, 1]) < SIGMAS / math.sqrt(COUNT / 2)
    assert abs(np.corrcoef(z[::2] ** 2, z[1::2] ** 2)[0, 1]) < SIGMAS / math.sqrt(COUNT / 2)


def test_integers_and_orders_are_equally_likely_and_streams_are_not_correlated() -> None:
    for count in (2, 6, 64, 1000):
        x = Generator(103, backend="numpy").integers(-3, count - 3, COUNT) + 3
        assert abs(chi_square(np.bincount(x, minlength=count), COUNT / count)) < SIGMAS
    rng = Generator(104, backend="numpy")
    orders = {order: number for number, order in enumerate(itertools.permutations(range(4)))}
    counts = np.bincount([orders[tuple(rng.permutation(4).tolist())] for _ in range(1200)], minlength=24)
    assert abs(chi_square(counts, 50)) < SIGMAS
    rng = Generator(105, backend="numpy")
    streams = np.stack([each.normal(size=1 << 14) for each in (rng, *rng.spawn(7))])
    assert np.abs(np.corrcoef(streams)[np.triu_indices(8, 1)]).max() < SIGMAS / math.sqrt(1 << 14)


# --- refusals


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda rng: Generator(-1), ArgumentError, "seed=-1 is neither an int from 0 on nor a sequence of such; give"),
        (lambda rng: Generator([]), ArgumentError, r"seed=\[\] .*give"),
        (lambda rng: Generator([1, -1]), ArgumentError, r"seed=\[1, -1\] .*give"),
        (lambda rng: Generator(cast(Any, "12")), ArgumentError, "seed='12' .*give"),
        (lambda rng: Generator(cast(Any, itertools.count())), ArgumentError, "seed=.*give"),
        (lambda rng: Generator(cast(int, 1.5)), ArgumentError, "seed=1.5 .*give"),
        (lambda rng: Generator(True), ArgumentError, "seed=True .*give"),
        (lambda rng: rng.random(-1), LayoutError, r"size=\(-1,\) has a negative extent; extents are"),
        (lambda rng: rng.random(2.5), LayoutError, "size=2.5 is not a shape; give an int"),
        (lambda rng: rng.random(2, "int32"), UnsupportedDTypeError, "'int32' is neither float32 nor float64; draw"),
        (lambda rng: rng.normal(size=2, dtype="float16"), UnsupportedDTypeError, "'float16' is neither .*convert"),
        (lambda rng: rng.normal(0, -1), ArgumentError, "scale=-1 is negative; give"),
        (lambda rng: rng.normal(math.nan), ArgumentError, "loc=nan is not a finite number of float64; give"),
        (lambda rng: rng.normal(1e300, dtype="float32"), ArgumentError, r"loc=1e\+300 .* float32; give"),
        (lambda rng: rng.normal(10**400), ArgumentError, "loc=an int of .*give"),
        (lambda rng: rng.uniform(2, 1), ArgumentError, "from low=2 to high=1 .*give low <= high"),
        (lambda rng: rng.uniform(-1.7e308, 1.7e308), ArgumentError, "not a finite distance of float64; give"),
        (lambda rng: rng.uniform("a"), ArgumentError, "low='a' is not a finite number .*give"),
        (lambda rng: rng.integers(0), ArgumentError, "low=0, high=0, endpoint=False leave no value; give low < high"),
        (lambda rng: rng.integers(5, 2), ArgumentError, "low=5, high=2.*give"),
        (lambda rng: rng.integers(1.5), ArgumentError, "high=1.5 are not two ints .*give"),
        (lambda rng: rng.integers(0, 300, dtype="int8"), ArgumentError, "beyond int8, which holds -128 to 127; give"),
        (lambda rng: rng.integers(0, 3, dtype=bool), ArgumentError, "beyond bool, which holds 0 to 1; give"),
        (lambda rng: rng.integers(3, dtype="float32"), UnsupportedDTypeError, "'float32' is not an integer dtype; use"),
        (lambda rng: rng.integers(3, endpoint=1), ArgumentError, "endpoint=1 is neither True nor False; give"),
        (lambda rng: rng.permutation(-1), ArgumentError, "x=-1 is not an int from 0 on; give"),
        (lambda rng: rng.permutation(2**80), LayoutError, "x=.*than can be addressed"),
        (lambda rng: rng.permutation(2.0), ArgumentError, "x=2.0 is not an int from 0 on; give"),
        (lambda rng: rng.permutation([1, 2]), UnsupportedArrayError, "type list, not an array; pass .*asarray"),
        (lambda rng: rng.permutation(np.array(3)), LayoutError, r"shape \(\) and no rows; give"),
        (lambda rng: rng.spawn(-1), ArgumentError, r"count=-1 is not an int from 0 to 4294967296, .* 2\^32; give"),
        (lambda rng: rng.spawn(2**32 + 1), ArgumentError, "count=4294967297 .*give"),
        (lambda rng: rng.set_state({}), ArgumentError, "is not a state of a generator; give"),
        (lambda rng: rng.set_state({**rng.state, "block": 2**64 + 1}), ArgumentError, "is not a state .*give"),
        (lambda rng: rng.set_state({**rng.state, "spawned": 2**32 + 1}), ArgumentError, "is not a state .*give"),
        (lambda rng: rng.set_state({**rng.state, "spawn_key": [2**32]}), ArgumentError, "is not a state .*give"),
        (lambda rng: rng.set_state({**rng.state, "seed": []}), ArgumentError, "is not a state .*give"),
        (lambda rng: rng.set_state({**rng.state, "algorithm": np.arange(3)}), ArgumentError, "is not a state .*give"),
        (lambda rng: rng.set_state({**rng.state, "algorithm": "mt19937"}), ArgumentError, "is not a state .*give"),
        (lambda rng: rng.set_state({**rng.state, "spawn_key": [-1]}), ArgumentError, "is not a state .*give"),
    ],
)
def test_a_bad_argument_is_refused_with_value_and_remedy(
    call: Callable[[Any], Any], error: type[Exception], says: str
) -> None:
    rng = Generator(1, backend="numpy")
    with pytest.raises(error, match=says):
        call(rng)
    assert rng.state == Generator(1).state


def test_names_of_numpys_generators_name_what_there_is() -> None:
    rng = xl.random.default_rng(3)
    for holder in (rng, xl.random):
        for name in (each for each in dir(np.random.Generator) if not each.startswith("_")):
            if hasattr(holder, name):
                continue
            with pytest.raises(AttributeError, match=f"has no attribute '{name}'; ") as raised:
                getattr(holder, name)
            found = re.search(r"(?:use |default_rng\(\)\.)(\w+)$", str(raised.value))
            assert found is None or callable(getattr(rng, found[1]))
    with pytest.raises(AttributeError, match="'standard_normal'; use normal$"):
        _ = rng.standard_normal  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'$"):
        _ = rng.nonsense  # type: ignore[attr-defined]
    x, xp, size = xl.arange(5), xl.get_array_module(xl.arange(5)), (2, 3)
    advice = "xp.take(x, rng.integers(0, x.shape[0], size), axis=0)"
    with pytest.raises(AttributeError, match=re.escape(advice)):
        _ = rng.choice  # type: ignore[attr-defined]
    assert xp.take(x, rng.integers(0, x.shape[0], size), axis=0).shape == size
