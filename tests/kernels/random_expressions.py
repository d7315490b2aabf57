"""Random expressions for kernels: every operation whose bits both engines of a CPU have in common, on every dtype."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.kernels.bits import COMPLEX, DTYPES, FLOATS, INTEGERS, random_bits, specials
from xferlib.kernels.functions import CALLS, TABLE, accepts

NAMES = ("x", "y", "z")
_NUMBERS = ("1", "2", "3", "7", "0", "-1")
_REAL = (
    "({a} + {b})", "({a} - {b})", "({a} * {b})", "({a} / {b})", "({a} // {b})", "({a} % {b})", "-{a}", "abs({a})",
    "np.minimum({a}, {b})", "np.maximum({a}, {b})", "np.where({c}, {a}, {b})", "np.sign({a})", "np.square({a})",
    "np.fmod({a}, {b})", "({a} + {n})", "({a} * {n})", "({a} // {n})", "({a} % {n})", "({a} - s)", "({a} * s)",
)  # fmt: skip
_INTEGER = ("({a} & {b})", "({a} | {b})", "({a} ^ {b})", "~{a}", "({a} << {b})", "({a} >> {b})", "({a} >> 3)")
_FLOAT = (
    "np.sqrt({a})", "np.floor({a})", "np.ceil({a})", "np.trunc({a})", "np.rint({a})", "np.copysign({a}, {b})",
    "np.nextafter({a}, {b})", "np.fmax({a}, {b})", "np.fmin({a}, {b})", "np.where(np.isnan({a}), {b}, {a})",
    "({a} * 0.5)", "({a} + 1e-3)", "np.reciprocal({a})",
)  # fmt: skip
_OF_TWO = {"power": "({a} ** {b})", "arctan2": "np.arctan2({a}, {b})", "hypot": "np.hypot({a}, {b})",
           "logaddexp": "np.logaddexp({a}, {b})"}  # fmt: skip
_CALLS = {**{name: f"np.{name}({{a}})" for name in CALLS if name != "rsqrt"}, **_OF_TWO}
"""The mathematical functions that NumPy has, of a float or complex dtype."""
_COMPLEX = (
    "({a} + {b})", "({a} - {b})", "({a} * {b})", "({a} / {b})", "-{a}", "np.conj({a})", "np.where({c}, {a}, {b})",
    "({a}.real * {b})", "({a} * 1j)", "({a}.imag + {b})",
)  # fmt: skip
_CONDITIONS = ("{a} < {b}", "{a} >= {b}", "{a} == {b}", "{a} != {b}")
_LOGIC = ("({p} & {p})", "({p} | {p})", "({p} ^ {p})", "~({p})", "{p}")


@functools.cache
def _calls_of(kind: str) -> tuple[str, ...]:
    """The functions that take a dtype."""
    return tuple(text for name, text in _CALLS.items() if accepts(TABLE[name], np.dtype(kind)))


class Expression:
    """The text of a function, and its arguments: ``x``, ``y``, ``z`` and the number ``s``."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.dtypes = [self.rng.choice(DTYPES)] * 3
        self.is_mixed = self.rng.random() < 0.3
        if self.is_mixed:
            self.dtypes = [self.rng.choice(DTYPES) for _ in NAMES]
        self.text = self._value(self.rng.randint(1, 4))
        if self.rng.random() < 0.2:
            self.text = f"({self.text}, {self._value(2)})"
        if self.rng.random() < 0.3:
            self.text = self._cast(self.text)

    def _cast(self, text: str) -> str:
        if text.startswith("("):
            return text
        return f"({text}).astype('{self.rng.choice(DTYPES)}')"

    def _value(self, depth: int) -> str:
        if depth == 0:
            name = self.rng.choice(NAMES)
            return name if self.rng.random() < 0.85 else f"{name}.astype('{self.rng.choice(DTYPES)}')"
        kind = self.dtypes[0]
        templates: Sequence[str] = _REAL
        if kind in COMPLEX:
            templates = _COMPLEX + _calls_of(kind)
        elif kind in FLOATS:
            templates = _REAL + _FLOAT + _calls_of(kind)
        elif kind in INTEGERS:
            templates = _REAL + _INTEGER
        elif kind == "bool":
            templates = (*_INTEGER[:4], "np.where({c}, {a}, {b})", "({c})")
        return self._fill(self.rng.choice(templates), depth)

    def _fill(self, template: str, depth: int) -> str:
        text = template
        while "{" in text:
            hole = text[text.index("{") : text.index("}") + 1]
            meant = {
                "{a}": lambda: self._value(self.rng.randint(0, depth - 1)),
                "{b}": lambda: self._value(self.rng.randint(0, depth - 1)),
                "{c}": lambda: self.rng.choice(_LOGIC).replace("{p}", f"({self.rng.choice(_CONDITIONS)})"),
                "{n}": lambda: self.rng.choice(_NUMBERS),
            }[hole]()
            text = text.replace(hole, meant.replace("{a}", "x").replace("{b}", "y"), 1)
        return text

    def function(self) -> Any:
        """The function of x, y, z, and of the number s."""
        return eval(f"lambda x, y, z, *, s: {self.text}", {"np": np})

    def arrays(self, count: int) -> list[np.ndarray[Any, Any]]:
        """Operands: values at which operations go wrong, then random bits."""
        found = []
        for number, dtype in enumerate(self.dtypes):
            special = self.rng.sample(list(specials(dtype)), len(specials(dtype)))
            values = np.concatenate([np.array(special, dtype), random_bits(dtype, count, self.rng.randrange(1 << 30))])
            values = values[:count].copy()
            small = np.arange(count) % (5 + number) == 0
            values[small] = (np.arange(count) % 11 - 3)[small].astype(dtype)
            found.append(values)
        return found

    def layouts(self, arrays: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        """The same operands in a random layout that broadcasts."""
        kind = self.rng.choice(["flat", "flat", "matrix", "transposed", "sliced", "broadcast", "reversed", "shifted"])
        if kind == "flat":
            return list(arrays)
        count = len(arrays[0]) // 12 * 12
        found = [each[:count].reshape(12, -1) for each in arrays]
        if kind == "transposed":
            found[1] = np.ascontiguousarray(found[1].T).T
        elif kind == "sliced":
            found = [each[:, ::2] for each in found]
        elif kind == "broadcast":
            found[0], found[2] = found[0][:, :1], found[2][:1]
        elif kind == "reversed":
            found[2] = found[2][::-1, ::-1]
        elif kind == "shifted":  # at odd addresses
            memory = np.empty(found[0].nbytes + 1, np.uint8)
            memory[1:] = np.frombuffer(found[0].tobytes(), np.uint8)
            found[0] = memory[1:].view(found[0].dtype).reshape(12, -1)
        return found
