"""Checks of the arguments of `xferlib.random`: what comes through is what a kernel can use."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xferlib._core.arrays import check_dtype
from xferlib._runtime.checks import whole
from xferlib.errors import ArgumentError, UnsupportedArrayError, UnsupportedDTypeError, shown

DType = np.dtype[Any]
Seed = int | tuple[int, ...]

ALGORITHM = "philox4x32-10"
BLOCKS = 1 << 64
"""The blocks of a stream."""
MOST_CHILDREN = 1 << 32
"""The most generators that one makes: their numbers are hashed as words of 32 bits."""


class State(NamedTuple):
    """The stream of a generator, how many others the generator has made, and how many blocks it has taken."""

    seed: Seed
    spawn_key: tuple[int, ...]
    spawned: int
    block: int

    def described(self) -> dict[str, Any]:
        seed = list(self.seed) if isinstance(self.seed, tuple) else self.seed
        return {"algorithm": ALGORITHM, **self._asdict(), "seed": seed, "spawn_key": list(self.spawn_key)}


def state(given: Any) -> State:
    """Read the result of `State.described`, or a copy of it that went through JSON."""
    try:
        algorithm, numbers, path, spawned, block = (given[name] for name in ("algorithm", *State._fields))
        found = State(seed(numbers), _numbers(path), *_numbers((spawned, block)))
        is_state = isinstance(algorithm, str) and algorithm == ALGORITHM
        is_state &= max(found.spawn_key, default=0) < MOST_CHILDREN >= found.spawned and found.block <= BLOCKS
    except Exception:  # a foreign object may raise anything; it is no state
        is_state = False
    if not is_state:
        raise ArgumentError(f"set_state: {shown(given)} is no state of a generator; give what rng.state returned")
    return found


def seed(given: Any) -> Seed:
    number = whole(given, least=0)
    if number is not None:
        return number
    try:
        numbers = _numbers(given) if isinstance(given, (Sequence, np.ndarray)) else ()
    except Exception:  # as above
        numbers = ()
    if not numbers:
        raise ArgumentError(
            f"seed={shown(given)} is neither an int from 0 on nor a sequence of such; give one of them, or None"
        )
    return numbers


def _numbers(given: Iterable[Any]) -> tuple[int, ...]:
    found = tuple(whole(each, least=0) for each in given)
    if None in found:
        raise TypeError
    return found  # type: ignore[return-value]


def children(count: Any, spawned: int) -> int:
    """How many generators to make, where there are ``spawned`` already."""
    wanted = whole(count, least=0)
    if wanted is None or wanted > MOST_CHILDREN - spawned:
        raise ArgumentError(
            f"spawn: count={shown(count)} is no int from 0 to {MOST_CHILDREN - spawned}, what is left of 2^32; "
            "give fewer, or spawn from one that was spawned"
        )
    return wanted


# --- distributions


def float_dtype(call: str, dtype: Any) -> DType:
    wanted = check_dtype(dtype, what=f"{call}: dtype")
    if wanted.name not in ("float32", "float64"):
        raise UnsupportedDTypeError(
            f"{call}: dtype={wanted.name!r} is neither float32 nor float64; draw one of them and convert it"
        )
    return wanted


def integer_dtype(dtype: Any) -> DType:
    wanted = check_dtype(dtype, what="integers: dtype")
    if wanted.kind not in "biu":
        raise UnsupportedDTypeError(
            f"integers: dtype={wanted.name!r} is no integer dtype; use random() or uniform(), or convert the result"
        )
    return wanted


def finite(call: str, name: str, value: Any, dtype: DType) -> float:
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
        f"{call}: {name}={shown(value)} is no finite number of {dtype}; give one, such as "
        "float(xferlib.to_host(x)) of an array"
    )


def limits(low: Any, high: Any, dtype: DType) -> tuple[float, float]:
    """The lower limit, and the distance to the upper one, rounded to ``dtype``."""
    first, last = finite("uniform", "low", low, dtype), finite("uniform", "high", high, dtype)
    with np.errstate(over="ignore"):
        span = float(dtype.type(last) - dtype.type(first))
    if not 0 <= span < math.inf:
        raise ArgumentError(
            f"uniform: from low={shown(low)} to high={shown(high)} is no finite distance of {dtype}; give low <= high"
        )
    return first, span


def integer_range(low: Any, high: Any, dtype: DType, *, endpoint: bool) -> tuple[int, int]:
    """The least value, and how many values there are."""
    first, last = (0, low) if high is None else (low, high)
    ends = [whole(each, least=-(1 << 64)) for each in (first, last)]
    given = f"low={shown(first)}, high={shown(last)}"
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


def length(x: Any) -> int:
    count = whole(x, least=0)
    if count is not None:
        return count
    if isinstance(x, (int, float, complex, np.generic)):
        raise ArgumentError(f"permutation: x={shown(x)} is no int from 0 on; give one, or an array")
    raise UnsupportedArrayError(
        f"permutation: x is an object of type {type(x).__name__}, not an array; pass an int or xferlib.asarray(x)"
    )


_METHODS = {
    "permuted": "permutation", "rand": "random", "randint": "integers", "randn": "normal", "random_sample": "random",
    "shuffle": "permutation", "standard_normal": "normal",
}  # fmt: skip
"""Names of NumPy's and others, and the method that does the same, or returns what they leave in place."""


def missing(holder: Any, name: str, generator: type) -> AttributeError:
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
