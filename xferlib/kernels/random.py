"""Random numbers by counter: Philox 4x32-10 in exact operations, and what each distribution makes of its words."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from xferlib import _native
from xferlib._core import registry
from xferlib._core.arrays import Array
from xferlib._core.dtypes import dlpack_type
from xferlib.kernels.definitions import FixedDefinition
from xferlib.kernels.elementwise import ElementwiseKernel, elementwise
from xferlib.kernels.ir import FLOAT32, FLOAT64, INT32, INT64, UINT32, UINT64, Builder, DType, Node, Param, store_all

# Random orders: sorted random keys, the same on every backend because the host sorts them.

A = np.ndarray[Any, Any]


def order(keys: A) -> A:
    """The indices that sort random keys of 64 bits; equal ones stay in their order."""
    module, places = _native.find_calls(), np.empty(keys.size, np.int64)
    if module is not None and module.order_keys(keys, places, np.ndarray):
        return places
    return np.argsort(keys, kind="stable")


@functools.cache
def gather() -> ElementwiseKernel:
    """A kernel that reads an array at the sum of two indices."""
    return elementwise("raw T x, int64 row, int64 column", "T y", "y = x[row + column]", name="gather")


# Philox 4x32-10: four random words of 32 bits from a counter of four words and a key of two.
#
# Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11 (doi 10.1145/2063384.2063405). A
# block depends on nothing but its counter and its key, so that every element of a call computes its own, in any order.

ROUNDS = 10
WORDS = 4
"""The words of a block."""
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
"""The addends of each round to the words of the key."""


def philox_words(b: Builder, counter: tuple[Node, ...], key: tuple[Node, ...]) -> tuple[Node, ...]:
    """The block of a counter, its lowest word first; all values are uint32."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        high0, low0 = _product(b, c0, _MULTIPLIERS[0])
        high1, low1 = _product(b, c2, _MULTIPLIERS[1])
        c0, c1 = b.op("xor", b.op("xor", high1, c1), k0), low1
        c2, c3 = b.op("xor", b.op("xor", high0, c3), k1), low0
        k0, k1 = (b.op("add", each, b.const(step, UINT32)) for each, step in zip((k0, k1), _WEYL, strict=True))
    return c0, c1, c2, c3


def _product(b: Builder, x: Node, factor: int) -> tuple[Node, Node]:
    """The upper and the lower word of a product."""
    product = b.op("mul", b.cast(x, UINT64), b.const(factor, UINT64))
    return b.cast(b.op("shr", product, b.const(32, UINT64)), UINT32), b.cast(product, UINT32)


def pair(b: Builder, low: Node, high: Node) -> Node:
    """Two words as one number of 64 bits."""
    upper = b.op("shl", b.cast(high, UINT64), b.const(32, UINT64))
    return b.op("or", upper, b.cast(low, UINT64))


# Uniform numbers and integers from random words: shifts, products and conversions, each of them exact.

Words = tuple[Node, ...]


class Distribution(NamedTuple):
    """The numbers that a kernel makes of each block of words."""

    name: str
    dtype: DType
    per_block: int
    """The numbers that a block gives."""
    parameters: tuple[tuple[str, DType], ...]
    """Names and dtypes of the numbers that a call takes besides counter and key."""
    values: Callable[[Builder, Words, Sequence[Node]], Sequence[Node]]
    """From the words of a block, and the parameters, to its numbers."""
    compiled: str
    """The name in `random.c` of the same numbers."""


def wide(b: Builder, words: Words) -> Words:
    """A block as two numbers of 64 bits."""
    return pair(b, words[0], words[1]), pair(b, words[2], words[3])


def random(dtype: DType) -> Distribution:
    """Multiples of 2^-24 (float32) or 2^-53 (float64) from 0 up to and without 1."""
    return Distribution("random", dtype, _floats_per_block(dtype), (), lambda b, words, _: [*_units(b, words, dtype)],
                        "random")  # fmt: skip


def uniform(dtype: DType) -> Distribution:
    """``low + span * random``, both operations rounded."""

    def values(b: Builder, words: Words, parameters: Sequence[Node]) -> Sequence[Node]:
        low, span = parameters
        return [b.op("add", low, b.op("mul", span, each)) for each in _units(b, words, dtype)]

    parameters = ("low", dtype), ("span", dtype)
    return Distribution("uniform", dtype, _floats_per_block(dtype), parameters, values, "uniform")


def _floats_per_block(dtype: DType) -> int:
    return 4 if dtype == FLOAT32 else 2


def _units(b: Builder, words: Words, dtype: DType) -> Words:
    is_single = dtype == FLOAT32
    sources, bits = (words, 24) if is_single else (wide(b, words), 53)
    scale = b.const(2.0**-bits, dtype)
    return tuple(b.op("mul", b.cast(_upper(b, each, bits), dtype), scale) for each in sources)


def _upper(b: Builder, word: Node, bits: int) -> Node:
    return b.op("shr", word, b.const(8 * word.dtype.itemsize - bits, word.dtype))


# --- integers


def integers_by_shift(dtype: DType, bits: int) -> Distribution:
    """``low`` plus the upper bits of a random number of 32 or 64 ``bits``: 2^n values, all equally likely.

    The parameter ``shift`` is the number of bits dropped.
    """
    work = UINT32 if bits == 32 else UINT64

    def values(b: Builder, words: Words, parameters: Sequence[Node]) -> Sequence[Node]:
        low, shift = parameters
        sources = words if bits == 32 else wide(b, words)
        return [_shift_by(b, b.op("shr", each, shift), low, dtype) for each in sources]

    return Distribution("integers", dtype, 128 // bits, (("low", UINT64), ("shift", work)), values, f"shift{bits}")


def integers_by_product(dtype: DType, bits: int) -> Distribution:
    """``low`` plus the upper part of the product of ``count`` and a random number of 64 or 128 ``bits``.

    ``count`` has at most 32 bits beside 64, at most 64 beside 128. Lemire, "Fast random integer generation in an
    interval", ACM TOMACS 29 (2019), without its rejection: the probability of each value is off by less than 2^-bits.
    """

    def values(b: Builder, words: Words, parameters: Sequence[Node]) -> Sequence[Node]:
        low, count = parameters
        if bits == 64:
            found = [_upper_of_96(b, words[0], words[1], count), _upper_of_96(b, words[2], words[3], count)]
        else:
            found = [_upper_of_192(b, wide(b, words), count)]
        return [_shift_by(b, each, low, dtype) for each in found]

    parameters = ("low", UINT64), ("count", UINT64)
    return Distribution("integers", dtype, 128 // bits, parameters, values, f"product{bits}")


def _shift_by(b: Builder, offset: Node, low: Node, dtype: DType) -> Node:
    """``low + offset``, wrapping, as ``dtype``."""
    work = UINT32 if dtype.itemsize <= 4 else UINT64
    return b.cast(b.op("add", b.cast(low, work), b.cast(offset, work)), dtype)


def _upper_of_96(b: Builder, low: Node, high: Node, count: Node) -> Node:
    """The bits from 64 on of the product of two words and ``count``, of 32 bits; nothing overflows."""
    carry = _shr32(b, b.op("mul", b.cast(low, UINT64), count))
    return _shr32(b, b.op("add", b.op("mul", b.cast(high, UINT64), count), carry))


def _upper_of_192(b: Builder, words: Words, count: Node) -> Node:
    """The bits from 128 on of the product of two numbers of 64 bits and ``count``."""
    carry = _upper_of_128(b, words[0], count)
    low = b.op("mul", words[1], count)
    has_carried = b.op("lt", b.op("add", low, carry), low)
    return b.op("add", _upper_of_128(b, words[1], count), b.cast(has_carried, UINT64))


def _upper_of_128(b: Builder, x: Node, y: Node) -> Node:
    """The bits from 64 on of the product of two numbers of 64 bits, by halves."""
    mask = b.const(0xFFFFFFFF, UINT64)
    (x0, x1), (y0, y1) = ((b.op("and", each, mask), _shr32(b, each)) for each in (x, y))
    middle = b.op("add", b.op("mul", x1, y0), _shr32(b, b.op("mul", x0, y0)))
    rest = b.op("add", b.op("mul", x0, y1), b.op("and", middle, mask))
    return b.op("add", b.op("add", b.op("mul", x1, y1), _shr32(b, middle)), _shr32(b, rest))


def _shr32(b: Builder, x: Node) -> Node:
    return b.op("shr", x, b.const(32, UINT64))


# Fills an array with random numbers: one element of a kernel call computes one block, and writes all its numbers.

_WORD = 1 << 32
_COUNTER = ("counter0", "counter1", "counter2", "counter3", "key0", "key1")


def draw_definition(distribution: Distribution) -> FixedDefinition:
    """The kernel of a distribution; its outputs are the first number of each block, the second, and so on."""
    inputs = (*((name, UINT32) for name in _COUNTER), *distribution.parameters)
    b = Builder(Param(name=name, dtype=dtype, is_scalar=True) for name, dtype in inputs)
    given = [b.load(number) for number in range(len(inputs))]
    first = b.op("add", given[0], b.cast(b.index(), UINT32))
    words = philox_words(b, (first, *given[1:4]), tuple(given[4:6]))
    values = distribution.values(b, words, given[6:])
    return FixedDefinition(distribution.name, store_all(b, "out", values), len(inputs))


@functools.cache
def _distribution(make: Callable[..., Distribution], *args: Any) -> Distribution:
    return make(*args)


@functools.cache
def _kernel(make: Callable[..., Distribution], *args: Any) -> ElementwiseKernel:
    return ElementwiseKernel(draw_definition(_distribution(make, *args)))


class Draw:
    """A distribution with its numbers; compiled, or a kernel that is made once for each distribution.

    Args:
        make: A function of `xferlib.kernels.random` or `normal`.
        args: Its arguments, the dtype first.
        numbers: The parameters of the call.
    """

    def __init__(self, make: Callable[..., Distribution], *args: Any, numbers: tuple[float, ...] = ()) -> None:
        self._distribution = _distribution(make, *args)
        self._per_block = self._distribution.per_block
        self._made = (make, *args)
        self._numbers = numbers

    def blocks(self, count: int) -> int:
        """The blocks that ``count`` numbers take; what is left of the last one is dropped."""
        return -(-count // self._per_block)

    def room(self, count: int) -> int:
        """The elements of an array that `fill` needs for ``count`` numbers."""
        return self.blocks(count) * self._per_block

    def fill(self, out: Array, counter: int, key: int) -> None:
        """Fill a one-dimensional array with whole blocks, the first one that of ``counter``, a number of 128 bits."""
        if self._fill_on_host(out, counter, key):
            return
        kernel, size, filled = _kernel(*self._made), out.shape[0], 0
        while filled < size:  # one call only, but where the lowest word of the counter overflows
            low = counter % _WORD
            most = min(size - filled, (_WORD - low) * self._per_block)
            part = out[filled : filled + most] if most < size else out
            words = [counter >> shift & _WORD - 1 for shift in (0, 32, 64, 96)]
            outputs = [part[number :: self._per_block] for number in range(self._per_block)]
            kernel(*words, key % _WORD, key >> 32, *self._numbers, *outputs)
            filled += most
            counter += most // self._per_block

    def _fill_on_host(self, out: Array, counter: int, key: int) -> bool:
        """Do the same in the host's memory; False, a no-op, where a kernel has to."""
        module, owner = _native.find_calls(), registry.owner_of(out)
        assert owner is not None
        device = owner.device_of(out)
        if module is None or device.kind == "cuda":
            return False
        dtype = self._distribution.dtype
        kind = self._distribution.compiled, *dlpack_type(dtype)[:2]
        low, span = (*self._numbers, 0, 0)[:2]

        def fill(row: A) -> None:
            if not module.fill_random(*kind, row, counter % (1 << 64), counter >> 64, key, low, span, np.ndarray):
                made = np.empty(row.shape, dtype)
                module.fill_random(*kind, made, counter % (1 << 64), counter >> 64, key, low, span, np.ndarray)
                row[...] = made

        return owner.at(device).compute_on_host(self._distribution.name, fill, (), (out,))


# Normal numbers with the same bits on every backend: Box and Muller's method in exact and rounded operations alone.
#
# Box and Muller, "A note on the generation of random normal deviates", Ann. Math. Stat. 29 (1958): a point whose
# squared distance from the origin is ``-2 log(u)``, in a direction of its own, has two independent normal coordinates.
# A ziggurat is faster on one core, but repeats its loop as often as the numbers say. The platforms' own float64
# ``log``, ``sin`` and ``cos`` differ in their last bits, so the series of Taylor are written out; no coefficient is
# fitted.


class _Format(NamedTuple):
    """A float dtype, the integers of its width, and how many terms its series need."""

    dtype: DType
    unsigned: DType
    signed: DType
    mantissa: int
    """The bits of the mantissa that are stored."""
    log_terms: int
    circle_terms: int

    @property
    def bits(self) -> int:
        return 8 * self.dtype.itemsize

    @property
    def root_half(self) -> int:
        """The bits of the square root of 1/2."""
        return int.from_bytes(self.dtype.type(math.sqrt(0.5)).tobytes(), "little")


# The first term left out is below a quarter of an ulp.
_SINGLE = _Format(FLOAT32, UINT32, INT32, 23, log_terms=6, circle_terms=6)
_DOUBLE = _Format(FLOAT64, UINT64, INT64, 52, log_terms=11, circle_terms=9)


def normal(dtype: DType) -> Distribution:
    """``loc + scale * z``, both operations rounded, for pairs of independent normal ``z``."""
    form = _SINGLE if dtype == FLOAT32 else _DOUBLE

    def values(b: Builder, words: Words, parameters: Sequence[Node]) -> Sequence[Node]:
        loc, scale = parameters
        sources = words if form is _SINGLE else wide(b, words)
        pairs = [_pair(b, form, *sources[at : at + 2]) for at in range(0, len(sources), 2)]
        return [b.op("add", loc, b.op("mul", scale, each)) for pair in pairs for each in pair]

    return Distribution("normal", dtype, 128 // form.bits, (("loc", dtype), ("scale", dtype)), values, "normal")


def _pair(b: Builder, form: _Format, x: Node, y: Node) -> tuple[Node, Node]:
    """Two normal numbers from two random words, or pairs of words.

    The radius is of ``x``. The upper bits of ``y`` are an angle within 1/8 turn of 0; its bit 0 mirrors the point on
    the diagonal and bit 1 on the origin, which takes it to every part of the circle alike.
    """
    radius = b.op("sqrt", _minus_two_log(b, form, x))
    sign = b.op("shl", b.op("shr", y, b.const(1, form.unsigned)), b.const(form.bits - 1, form.unsigned))
    radius = b.bitcast(b.op("xor", b.bitcast(radius, form.unsigned), sign), form.dtype)
    cosine, sine = _near_zero(b, form, y)
    is_mirrored = b.truth(b.op("and", y, b.const(1, form.unsigned)))
    first, second = b.select(is_mirrored, sine, cosine), b.select(is_mirrored, cosine, sine)
    return b.op("mul", radius, first), b.op("mul", radius, second)


def _minus_two_log(b: Builder, form: _Format, x: Node) -> Node:
    """``-2 log(u)`` of the odd number ``u``, in units of 2^-bits, that has the upper bits of ``x``.

    ``u`` is ``m * 2**k`` with ``m`` between the roots of 1/2 and 2; ``log(m) = 2 artanh((m - 1) / (m + 1))``.
    """
    unsigned, dtype = form.unsigned, form.dtype
    one = int.from_bytes(dtype.type(1).tobytes(), "little")
    number = b.cast(b.op("or", x, b.const(1, unsigned)), dtype)
    bits = b.op("add", b.bitcast(number, unsigned), b.const(one - form.root_half, unsigned))
    exponent = b.bitcast(b.op("shr", bits, b.const(form.mantissa, unsigned)), form.signed)
    k = b.op("sub", exponent, b.const((one >> form.mantissa) + form.bits, form.signed))
    rest = b.op("and", bits, b.const((1 << form.mantissa) - 1, unsigned))
    m = b.bitcast(b.op("add", rest, b.const(form.root_half, unsigned)), dtype)
    s = b.op("div", b.op("sub", m, b.const(1, dtype)), b.op("add", m, b.const(1, dtype)))
    series = _polynomial(b, b.op("mul", s, s), [Fraction(1, 2 * n + 1) for n in range(form.log_terms)])
    whole = b.op("mul", b.cast(k, dtype), b.const(-2 * math.log(2), dtype))
    return b.op("add", whole, b.op("mul", b.op("mul", s, b.const(-4, dtype)), series))


def _near_zero(b: Builder, form: _Format, y: Node) -> tuple[Node, Node]:
    """Cosine and sine of an angle within 1/8 turn of 0: ``y`` as a signed number, cut to what a mantissa holds."""
    shift = form.bits - form.mantissa - 2
    upper = b.op("shr", b.bitcast(y, form.signed), b.const(shift, form.signed))
    odd = b.cast(b.op("or", upper, b.const(1, form.signed)), form.dtype)
    angle = b.op("mul", odd, b.const(math.pi / 4 * 2.0 ** -(form.mantissa + 1), form.dtype))
    square = b.op("mul", angle, angle)
    terms = [Fraction((-1) ** n, math.factorial(2 * n)) for n in range(form.circle_terms)]
    sines = [each / (2 * n + 1) for n, each in enumerate(terms)]
    return _polynomial(b, square, terms), b.op("mul", angle, _polynomial(b, square, sines))


def _polynomial(b: Builder, x: Node, coefficients: Sequence[Fraction]) -> Node:
    """The sum of ``coefficients[n] * x**n``, by Horner's rule."""
    total = b.const(float(coefficients[-1]), x.dtype)
    for each in reversed(coefficients[:-1]):
        total = b.op("add", b.op("mul", total, x), b.const(float(each), x.dtype))
    return total


# The stream of a seed: a key and the upper half of a counter, hashed from it.


def stream(seed: int | tuple[int, ...], path: tuple[int, ...]) -> tuple[int, int]:
    """The key of a stream, of 64 bits, and its first counter, a multiple of 2^64 below 2^128.

    NumPy's ``SeedSequence`` hashes words of 32 bits. Each number comes after its length, and all come after their
    count: without that, 5 + 3 * 2^128 would have the words, and so the stream, of child number 3 of 5.

    Args:
        seed: One number or several, each from 0 on.
        path: The numbers, below 2^32, by which generators made each other, from that of the seed to this one.
    """
    numbers = (seed,) if isinstance(seed, int) else seed
    entropy = [len(numbers), *(each for number in numbers for each in (number.bit_length(), number))]
    words = np.random.SeedSequence(entropy, spawn_key=path).generate_state(4, np.uint32).tolist()
    return words[0] | words[1] << 32, words[2] << 64 | words[3] << 96
