"""Random numbers that are the same, bit for bit, on every backend and device.

Each number is computed by itself from a key and a counter, by kernels of exact operations: Philox 4x32-10, of Salmon,
Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11. So a program that draws on a GPU can be
repeated on a laptop, and neither block sizes nor threads nor the device change a result.

    rng = xl.random.default_rng(7)
    x = rng.normal(size=(1000, 3))          # an array of the current backend; the same numbers on each
"""

from __future__ import annotations

import math
import secrets
import struct
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib import _native
from xferlib._api import transfers
from xferlib._api.creation import Shape
from xferlib._core import registry
from xferlib._core.arrays import Array, check_dtype, shape_of
from xferlib._runtime.checks import refuse_no_flag, whole
from xferlib._transfer import describe
from xferlib.errors import (
    ArgumentError,
    LayoutError,
    OutOfMemoryError,
    UnsupportedArrayError,
    UnsupportedDTypeError,
    quote,
)
from xferlib.kernels import random as philox
from xferlib.kernels.arguments import refuse_followed
from xferlib.kernels.random import Draw

if TYPE_CHECKING:
    from xferlib._core.device import Device, DeviceSpec

__all__ = ["Generator", "default_rng"]

_WORD = 1 << 64

# What comes through the checks is what a kernel can use.

_DType = np.dtype[Any]
_Seed = int | tuple[int, ...]

_ALGORITHM = "philox4x32-10"
_BLOCKS = 1 << 64
"""The blocks of a stream."""
_MOST_CHILDREN = 1 << 32
"""The most generators that one makes: their numbers are hashed as words of 32 bits."""


# The usual calls are one call of C, which takes blocks of a stream and fills a new array with its numbers.

_PACKED = struct.Struct("=4Q")
"""A stream: its key, the upper half of its counters, and the number of the next block, the lower half first."""
_RANDOM, _UNIFORM, _NORMAL, _INTEGERS = range(4)
"""The methods, as `random.c` numbers them."""


def _take_in_python(packed: bytearray, blocks: int) -> int | None:
    """Take blocks of a stream: the number of the first, None where there are not as many."""
    *_, low, high = _PACKED.unpack(packed)
    first = low | high << 64
    if first + blocks > _BLOCKS:
        return None
    struct.pack_into("=2Q", packed, 16, (first + blocks) % _WORD, (first + blocks) // _WORD)
    return int(first)


def _leave_to_python(*_: Any) -> Any:
    """In place of a compiled function: there is none."""
    return None


_compiled = _native.replay()
_draw = _leave_to_python if _compiled is None else _compiled.draw
_take_blocks = _leave_to_python if _compiled is None else _compiled.take_blocks


class _State(NamedTuple):
    """The stream of a generator, how many others the generator has made, and how many blocks it has taken."""

    seed: _Seed
    spawn_key: tuple[int, ...]
    spawned: int
    block: int

    def describe(self) -> dict[str, Any]:
        seed = list(self.seed) if isinstance(self.seed, tuple) else self.seed
        return {"algorithm": _ALGORITHM, **self._asdict(), "seed": seed, "spawn_key": list(self.spawn_key)}


def _state_of(given: Any) -> _State:
    """Read the result of `_State.describe`, or a copy of it that went through JSON."""
    try:
        algorithm, numbers, path, spawned, block = (given[name] for name in ("algorithm", *_State._fields))
        found = _State(_seed_of(numbers), _numbers(path), *_numbers((spawned, block)))
        is_state = isinstance(algorithm, str) and algorithm == _ALGORITHM
        is_state &= max(found.spawn_key, default=0) < _MOST_CHILDREN >= found.spawned and found.block <= _BLOCKS
    except Exception:  # a foreign object may raise anything; it is not a state
        is_state = False
    if not is_state:
        raise ArgumentError(f"set_state: {quote(given)} is not a state of a generator; give what rng.state returned")
    return found


def _seed_of(given: Any) -> _Seed:
    number = whole(given, least=0)
    if number is not None:
        return number
    try:
        numbers = _numbers(given) if isinstance(given, (Sequence, np.ndarray)) else ()
    except Exception:  # as above
        numbers = ()
    if not numbers:
        raise ArgumentError(
            f"seed={quote(given)} is neither an int from 0 on nor a sequence of such; give one of them, or None"
        )
    return numbers


def _numbers(given: Iterable[Any]) -> tuple[int, ...]:
    found = tuple(whole(each, least=0) for each in given)
    if None in found:
        raise TypeError
    return found  # type: ignore[return-value]


def _children(count: Any, spawned: int) -> int:
    """How many generators to make, where there are ``spawned`` already."""
    wanted = whole(count, least=0)
    if wanted is None or wanted > _MOST_CHILDREN - spawned:
        raise ArgumentError(
            f"spawn: count={quote(count)} is not an int from 0 to {_MOST_CHILDREN - spawned}, what is left of 2^32; "
            "give fewer, or spawn from one that was spawned"
        )
    return wanted


# --- distributions


def _float_dtype(call: str, dtype: Any) -> _DType:
    wanted = check_dtype(dtype, what=f"{call}: dtype")
    if wanted.name not in ("float32", "float64"):
        raise UnsupportedDTypeError(
            f"{call}: dtype={wanted.name!r} is neither float32 nor float64; draw one of them and convert it"
        )
    return wanted


def _integer_dtype(dtype: Any) -> _DType:
    wanted = check_dtype(dtype, what="integers: dtype")
    if wanted.kind not in "biu":
        raise UnsupportedDTypeError(
            f"integers: dtype={wanted.name!r} is not an integer dtype; use random() or uniform(), or convert the result"
        )
    return wanted


def _finite(call: str, name: str, value: Any, dtype: _DType) -> float:
    """A finite number, rounded to ``dtype``."""
    if isinstance(value, (int, float, np.integer, np.floating)):
        try:
            with np.errstate(over="ignore"):
                found = float(dtype.type(value))
        except OverflowError:  # an int beyond every float
            found = math.inf
        if math.isfinite(found):
            return found
    raise ArgumentError(
        f"{call}: {name}={quote(value)} is not a finite number of {dtype}; give one, such as "
        "float(xferlib.to_host(x)) of an array"
    )


def _limits(low: Any, high: Any, dtype: _DType) -> tuple[float, float]:
    """The lower limit, and the distance to the upper one, rounded to ``dtype``."""
    first, last = _finite("uniform", "low", low, dtype), _finite("uniform", "high", high, dtype)
    with np.errstate(over="ignore"):
        span = float(dtype.type(last) - dtype.type(first))
    if not 0 <= span < math.inf:
        raise ArgumentError(
            f"uniform: from low={quote(low)} to high={quote(high)} is not a finite distance of {dtype}; "
            "give low <= high"
        )
    return first, span


def _integer_range(low: Any, high: Any, dtype: _DType, *, endpoint: bool) -> tuple[int, int]:
    """The least value, and how many values there are."""
    first, last = (0, low) if high is None else (low, high)
    ends = [whole(each, least=-(1 << 64)) for each in (first, last)]
    given = f"low={quote(first)}, high={quote(last)}"
    if ends[0] is None or ends[1] is None:
        raise ArgumentError(
            f"integers: {given} are not two ints of 64 bits; give such ints, such as "
            "int(xferlib.to_host(x)) of an array"
        )
    least, count = ends[0], ends[1] - ends[0] + endpoint
    bounds = (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    if count <= 0:
        raise ArgumentError(f"integers: {given}, endpoint={endpoint} leave no value; give low < high")
    if least < bounds[0] or least + count - 1 > bounds[1]:
        raise ArgumentError(
            f"integers: {given} are beyond {dtype}, which holds {bounds[0]} to {bounds[1]}; give a wider dtype"
        )
    return least, count


def _length(x: Any) -> int:
    count = whole(x, least=0)
    if count is not None:
        return count
    if isinstance(x, (int, float, complex, np.generic)):
        raise ArgumentError(f"permutation: x={quote(x)} is not an int from 0 on; give one, or an array")
    raise UnsupportedArrayError(
        f"permutation: x is an object of type {type(x).__name__}, not an array; pass an int or xferlib.asarray(x)"
    )


_METHODS = {
    "permuted": "permutation", "rand": "random", "randint": "integers", "randn": "normal", "random_sample": "random",
    "shuffle": "permutation", "standard_normal": "normal",
}  # fmt: skip
"""Names of NumPy's and others, and the method that does the same, or returns what they leave in place."""


def _explain_missing_name(holder: Any, name: str, generator: type) -> AttributeError:
    """The error for a name that ``holder``, the module or a generator, does not have: it says what there is instead."""
    is_module = not isinstance(holder, generator)
    method, remedy = _METHODS.get(name, name), ""
    if not name.startswith("_") and hasattr(generator, method):
        remedy = f"; a generator has it: xferlib.random.default_rng().{method}" if is_module else f"; use {method}"
    elif name in ("seed", "manual_seed"):
        remedy = "; a generator has its seed from the start: xferlib.random.default_rng(seed)"
    elif name == "choice":
        remedy = "; write xp.take(x, rng.integers(0, x.shape[0], size), axis=0)"
    elif hasattr(np.random.Generator, name):
        remedy = f"; draw on the host: xferlib.to_device(numpy.random.default_rng(seed).{name}(...))"
    what = "module 'xferlib.random'" if is_module else "'Generator' object"
    return AttributeError(f"{what} has no attribute {name!r}{remedy}", name=name, obj=holder)


class Generator:
    """A stream of random numbers; its methods make arrays of the current backend, on its current stream.

    The same seed and the same calls give the same bits on every backend and device; a version that changed them would
    say so in the changelog. Each call takes whole blocks of 128 bits, of which a stream has 2^64: an array of n numbers
    takes ``ceil(n / k)``, and what is left of the last one is dropped. ``k`` is 4 for float32, 2 for float64, and for
    integers as `integers` says. So two calls for multiples of ``k`` numbers give what one call for all of them gives.

    A generator may be used by several threads: no two calls get the same numbers, but which call gets which depends on
    their order. `spawn` makes a generator for each thread. Pickles and copies go on from the same state; so does a
    forked child.

    Args:
        seed: An int from 0 on, of any size, or a sequence of such, each of which counts: a seed with the number of a
            run, say. 128 bits of the operating system's entropy if omitted; ``state["seed"]`` tells them.
        backend: Registry name of the arrays' backend; at each call the default backend, if omitted.
        device: The arrays' device; at each call the backend's current one, if omitted.

    Raises:
        ArgumentError: ``seed`` is neither.
        BackendNotFoundError, BackendUnavailableError, DeviceNotFoundError: No such backend or device.
    """

    def __init__(
        self, seed: int | Sequence[int] | None = None, *, backend: str | None = None, device: DeviceSpec = None
    ) -> None:
        numbers = secrets.randbits(128) if seed is None else _seed_of(seed)
        owner = None if backend is None else registry.get(backend)
        self._backend = None if owner is None else owner.name
        self._device = None if device is None else registry.resolve(device, backend=owner)
        self._lock = threading.Lock()
        self._begin(_State(numbers, (), 0, 0))

    def _begin(self, state: _State) -> None:
        key, first = philox.stream(state.seed, state.spawn_key)
        with self._lock:
            self._seed, self._spawn_key, self._spawned, block = state
            self._key, self._first = key, first
            self._stream = bytearray(_PACKED.pack(key, first >> 64, block % _WORD, block // _WORD))

    # --- distributions
    def random(self, size: Shape | None = None, dtype: Any = "float64") -> Array:
        """Uniform numbers from 0 up to and without 1: multiples of 2^-53, or of 2^-24 for float32, all equally likely.

        Args:
            size: Shape; an array of shape () if omitted, for a scalar would have to leave the device.
            dtype: float64 or float32.

        Raises:
            LayoutError: ``size`` is not a shape.
            UnsupportedDTypeError: Another dtype.
            ArgumentError: The stream has ended.
            MemoryError: The device has too little memory; the generator is as before.
        """
        made = _draw(self._stream, _RANDOM, 0, 0, False, size, dtype, self._device, self._backend)
        if made is not None:
            return made
        return self._fill_new(Draw(philox.random, _float_dtype("random", dtype)), size, dtype)

    def uniform(self, low: float = 0.0, high: float = 1.0, size: Shape | None = None, dtype: Any = "float64") -> Array:
        """Uniform numbers from ``low`` up to ``high``: ``low + (high - low) * random()``, each operation rounded.

        Rounding may give ``high`` itself.

        Args:
            low, high: Finite numbers, in the range of ``dtype``, ``low`` not above ``high``.
            size, dtype: As for `random`.

        Raises:
            ArgumentError: The limits are not as above, or too far apart for the dtype.
            Others: As for `random`.
        """
        made = _draw(self._stream, _UNIFORM, low, high, False, size, dtype, self._device, self._backend)
        if made is not None:
            return made
        wanted = _float_dtype("uniform", dtype)
        first, span = _limits(low, high, wanted)
        return self._fill_new(Draw(philox.uniform, wanted, numbers=(first, span)), size, dtype)

    def integers(
        self,
        low: int,
        high: int | None = None,
        size: Shape | None = None,
        dtype: Any = "int64",
        *,
        endpoint: bool = False,
    ) -> Array:
        """Integers from ``low`` up to and without ``high``; those up to ``low``, from 0, if there is no ``high``.

        Of r values, if r is a power of two, each has exactly the same probability, and a block gives 4 numbers for r up
        to 2^32, else 2. For any other r up to 2^32 a block gives 2, and the probability of a value differs from 1/r by
        less than 2^-64; for a larger r it gives 1, and the difference is less than 2^-128. To see that, a test would
        need about as many numbers as a stream has. The method is Lemire's ("Fast random integer generation in an
        interval", ACM TOMACS 29, 2019) without its rejection, which would take more numbers now and then.

        Args:
            low, high: Ints, all values between them in the range of ``dtype``.
            size: As for `random`.
            dtype: An integer dtype, or bool.
            endpoint: Whether ``high`` is one of the values.

        Raises:
            ArgumentError: There is no value, or one outside the dtype's range.
            Others: As for `random`.
        """
        made = _draw(self._stream, _INTEGERS, low, high, endpoint, size, dtype, self._device, self._backend)
        if made is not None:
            return made
        wanted = _integer_dtype(dtype)
        refuse_no_flag(endpoint, "integers: endpoint")
        first, count = _integer_range(low, high, wanted, endpoint=endpoint)
        bits, shift = 64, count.bit_length() - 1
        if count == 1 << shift:
            bits = 32 if shift <= 32 else 64
            draw = Draw(philox.integers_by_shift, wanted, bits, numbers=(first % _WORD, bits - shift))
        else:
            draw = Draw(philox.integers_by_product, wanted, 64 if shift < 32 else 128, numbers=(first % _WORD, count))
        return self._fill_new(draw, size, wanted)

    def normal(self, loc: float = 0.0, scale: float = 1.0, size: Shape | None = None, dtype: Any = "float64") -> Array:
        """Normal numbers: ``loc + scale * z``, each operation rounded, for ``z`` of mean 0 and standard deviation 1.

        ``z`` is of Box and Muller's method (Ann. Math. Stat. 29, 1958), computed in ``dtype`` by series of Taylor to
        within a few ulp. Its absolute value is at most 9.42, or 6.67 for float32; a normal number is larger once in
        10^20, or in 10^10.

        Args:
            loc: The mean, a finite number.
            scale: The standard deviation, a finite number from 0 on.
            size, dtype: As for `random`.

        Raises:
            ArgumentError: ``loc`` or ``scale`` is not as above.
            Others: As for `random`.
        """
        made = _draw(self._stream, _NORMAL, loc, scale, False, size, dtype, self._device, self._backend)
        if made is not None:
            return made
        wanted = _float_dtype("normal", dtype)
        mean, deviation = _finite("normal", "loc", loc, wanted), _finite("normal", "scale", scale, wanted)
        if deviation < 0:
            raise ArgumentError(f"normal: scale={quote(scale)} is negative; give a standard deviation from 0 on")
        return self._fill_new(Draw(philox.normal, wanted, numbers=(mean, deviation)), size, dtype)

    def permutation(self, x: int | Array) -> Array:
        """The numbers below ``x`` in random order, as int64, or the rows of an array in random order, in a new array.

        The host sorts random keys of 64 bits, one a number, with equal keys in their order, and the result is uploaded.
        Devices' sorts differ in the order of equal keys, and a cipher on the device, which needs no sort, would repeat
        its rounds as often as the data say, and reach few of all orders. All orders have the same probability but for
        equal keys, which n numbers have with a probability below n^2 / 2^65.

        Args:
            x: An int from 0 on, or an array of any backend, of one dimension or more; it is not changed.

        Returns:
            An array of shape (x,), or of the shape, dtype and device of ``x``. Takes a block for every two numbers.

        Raises:
            ArgumentError: ``x`` is a number that is not an int from 0 on.
            UnsupportedArrayError, UnsupportedDTypeError: ``x`` is not an array that a device can hold.
            KernelTypeError: torch follows ``x`` for a derivative.
            LayoutError: ``x`` has no dimension, or is more than an array holds.
            MemoryError: The host has too little memory for the keys.
            Others: As for `random`.
        """
        owner = registry.owner_of(x)
        if owner is None:
            (count,) = shape_of(_length(x), what="x")
            return transfers.to_device(self._order(count), device=self._place(), copy=None)
        refuse_followed("permutation", [x], ["x"])
        describe.source_of(x)  # refuses what no device can hold
        info = owner.view(x)
        if not info.shape:
            raise LayoutError("permutation: x has shape () and no rows; give an array of one dimension or more")
        rows, width = info.shape[0], math.prod(info.shape[1:])
        order = self._order(rows)
        if not info.size:
            return transfers.to_device(x, device=info.device)
        whole_rows = x if info.is_c_contiguous else transfers.to_device(x, device=info.device)
        if isinstance(whole_rows, np.ndarray):
            whole_rows = np.asarray(whole_rows)  # a np.matrix has two dimensions, whatever is asked of it
        places = transfers.to_device(order[:, None] * width, device=info.device)
        columns = 0 if width == 1 else transfers.to_device(np.arange(width)[None], device=info.device)
        return philox.gather()(whole_rows, places, columns).reshape(info.shape)

    # --- streams
    def spawn(self, count: int) -> list[Generator]:
        """Make new generators whose streams are independent of this one's, and of each other's.

        Each call makes others; the numbers of this generator stay what they were. 128 bits, key and upper half of the
        counter, hashed from the seed and the numbers of the children on the way, tell streams apart (NumPy's
        `numpy.random.SeedSequence` is the hash).

        Args:
            count: How many, from 0 on; all calls together give 2^32 at most.

        Raises:
            ArgumentError: ``count`` is no such int.
        """
        with self._lock:
            first = self._spawned
            wanted = _children(count, first)
            self._spawned = first + wanted
        children = []
        for number in range(first, first + wanted):
            child = Generator(0, backend=self._backend, device=self._device)
            child._begin(_State(self._seed, (*self._spawn_key, number), 0, 0))
            children.append(child)
        return children

    @property
    def state(self) -> dict[str, Any]:
        """The state as a dict of strings, ints and a list, which JSON holds as well: what `set_state` takes.

        ``block`` is the number of blocks taken so far.
        """
        with self._lock:
            *_, low, high = _PACKED.unpack(bytes(self._stream))
            state = _State(self._seed, self._spawn_key, self._spawned, low | high << 64)
        return state.describe()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, of this generator or another one; backend and device stay.

        Raises:
            ArgumentError: It is not a state.
        """
        self._begin(_state_of(state))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_generator, (self.state, self._backend, self._device)

    def __repr__(self) -> str:
        state = self.state
        child = f", spawned as {state['spawn_key']}" if state["spawn_key"] else ""
        return f"<Generator {state['algorithm']}, seed {quote(state['seed'])}{child}, block {state['block']}>"

    if not TYPE_CHECKING:  # or any name would pass a type checker

        def __getattr__(self, name: str) -> Any:
            raise _explain_missing_name(self, name, Generator)

    # --- drawing
    def _place(self) -> Device:
        return registry.resolve(self._device, backend=None if self._backend is None else registry.get(self._backend))

    def _fill_new(self, draw: Draw, size: Shape | None, dtype: Any) -> Array:
        shape = () if size is None else shape_of(size, what="size")
        count = math.prod(shape)
        place = self._place()
        owner = registry.get(place.backend).at(place)
        owner.attach(place)
        room = draw.room(count)
        numbers = owner.empty((room,), check_dtype(dtype), device=place, stream=owner.stream_current(place))
        if room:
            draw.fill(numbers, *self._take(draw.blocks(count)))
        if room > count:
            numbers = numbers[:count]
        return numbers if shape == (count,) else numbers.reshape(shape)

    def _order(self, count: int) -> np.ndarray[Any, Any]:
        draw = Draw(philox.integers_by_shift, np.dtype(np.uint64), 64, numbers=(0, 0))
        try:
            keys = np.empty(draw.room(count), np.uint64)
            if count:
                draw.fill(keys, *self._take(draw.blocks(count)))
            return philox.order(keys[:count])
        except MemoryError as error:
            raise OutOfMemoryError(
                f"permutation: the host has no memory for the keys of {count} numbers ({error}); permute parts"
            ) from error

    def _take(self, blocks: int) -> tuple[int, int]:
        """Take blocks for one call; returns the counter of the first one, and the key."""
        with self._lock:
            taken = _take_blocks(self._stream, blocks)
            if taken is None:
                taken = _take_in_python(self._stream, blocks)
            if taken is None:
                *_, low, high = _PACKED.unpack(self._stream)
                raise ArgumentError(
                    f"the stream has {_BLOCKS - (low | high << 64)} of its 2^64 blocks left and the call takes "
                    f"{blocks}; go on with a generator of spawn()"
                )
            return self._first + taken, self._key


def default_rng(
    seed: int | Sequence[int] | Generator | None = None, *, backend: str | None = None, device: DeviceSpec = None
) -> Generator:
    """A generator, named as in NumPy; one that is given is returned itself.

    Args:
        seed, backend, device: As for `Generator`.

    Raises:
        ArgumentError: ``seed`` is a generator, which has a backend and a device of its own, and another was named.
        BackendNotFoundError, BackendUnavailableError, DeviceNotFoundError: No such backend or device.
    """
    if not isinstance(seed, Generator):
        return Generator(seed, backend=backend, device=device)
    if backend is not None or device is not None:
        raise ArgumentError(
            f"default_rng: {seed!r} keeps its backend and device; give no backend= and device= with a generator"
        )
    return seed


if not TYPE_CHECKING:  # as above

    def __getattr__(name: str) -> Any:
        raise _explain_missing_name(sys.modules[__name__], name, Generator)


def _restore_generator(state: dict[str, Any], backend: str | None, device: Device | None) -> Generator:
    generator = Generator(0, backend=backend, device=device)
    generator.set_state(state)
    return generator
