"""Drawn programs of twenty steps: views of views, operators in place and assignments that overlap, as in NumPy."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.arrays.conftest import Space
from tests.comparing import quiet

STEPS, PROGRAMS = 20, 40
DTYPES = ("int8", "int32", "int64", "uint8", "uint16", "uint64", "float16", "float32", "float64")
OF_TWO = ("add", "multiply", "subtract", "maximum", "less", "bitwise_xor", "logical_and")
OVER = ("sum", "max", "prod", "any", "count_nonzero", "argmax", "cumulative_sum", "sort", "argsort", "diff")
IN_PLACE = (operator.iadd, operator.isub, operator.imul)

Step = Callable[[Any, list[Any]], Any]


def key(r: random.Random, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """A key whose result is a view in NumPy, too: it always has an ellipsis."""
    parts: list[Any] = []
    for extent in shape[: r.randint(0, len(shape))]:
        if extent and r.random() < 0.25:
            parts.append(r.randrange(-extent, extent))
        else:
            parts.append(slice(r.choice([None, 0, 1, -1]), r.choice([None, 2, -1, 5]), r.choice([None, 1, 2, -1, -2])))
    parts.insert(r.randint(0, len(parts)), Ellipsis)
    if r.random() < 0.2:
        parts.insert(r.randint(0, len(parts)), None)
    return tuple(parts)


def put(x: Any, where: Any, value: Any) -> None:
    x[where] = value


def changed(function: Any, x: Any, value: Any) -> None:
    function(x, value)


def step(r: random.Random, values: list[Any]) -> Step:
    """One step, which returns a new value or changes one in place."""
    one, two = r.randrange(len(values)), r.randrange(len(values))
    x = values[one]
    to, source, is_own = key(r, x.shape), key(r, x.shape), r.random() < 0.6
    name, function, other = r.choice(OF_TWO), r.choice(IN_PLACE), one if is_own else two
    axis = r.randrange(x.ndim) if x.ndim else None
    over = r.choice(OVER if x.ndim else OVER[:6])
    order = tuple(r.sample(range(x.ndim), x.ndim))
    options = {"stable": True} if "sort" in over else {}
    from_ = source if is_own else Ellipsis
    steps: tuple[Step, ...] = (
        lambda xp, v: v[one][to],
        lambda xp, v: xp.permute_dims(v[one], order),
        lambda xp, v: xp.broadcast_to(v[one], (2, *v[one].shape)),
        lambda xp, v: getattr(xp, name)(v[one], v[two]),
        lambda xp, v: getattr(xp, over)(v[one], axis=axis, **options),
        lambda xp, v: xp.where(v[one] > 1, v[one], v[two]),
        lambda xp, v: put(v[one], to, v[other][from_]),
        lambda xp, v: put(v[one], to, 2.0),
        lambda xp, v: put(v[one], v[one] > 1, 1),
        lambda xp, v: changed(function, v[one][to], v[other][from_]),
    )
    return r.choice(steps)


def attempt(function: Step, xp: Any, values: list[Any]) -> tuple[Any, str]:
    """The new value, and the refusal, empty if there is none."""
    try:
        return function(xp, values), ""
    except (TypeError, ValueError, IndexError, OverflowError) as error:
        return None, str(error)


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_a_program_does_what_numpys_does(space: Space, seed: int) -> None:
    r = random.Random(seed)
    shapes = [tuple(r.choices((1, 2, 3, 4), k=r.randint(0, 3))) for _ in range(3)]
    ours, theirs = [], []
    for shape in shapes:
        host = np.array([r.randint(0, 4) for _ in range(int(np.prod(shape)))]).astype(r.choice(DTYPES)).reshape(shape)
        ours.append(space.put(host.copy()))
        theirs.append(host)
    for _ in range(STEPS):
        function = step(r, theirs)
        with quiet():
            expected, refusal = attempt(function, np, theirs)
            found, ours_refused = attempt(function, space.xp, ours)
        if "read-only" in refusal and not ours_refused:
            return  # a view of one row of a broadcast array, which NumPy keeps so
        assert bool(refusal) == bool(ours_refused), (refusal, ours_refused)
        if expected is not None:
            theirs.append(np.array(expected) if isinstance(expected, np.generic) else expected)
            ours.append(found)
        for there, two in zip(space.get(ours), theirs, strict=True):
            assert (there.dtype, there.shape) == (two.dtype, two.shape)
            np.testing.assert_array_equal(there, two)
