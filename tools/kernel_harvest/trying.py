"""Translates a kernel for several dtypes, to see whether xferlib takes it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tools.kernel_harvest.finding import Found
from xferlib.errors import XferError
from xferlib.kernels import elementwise, reduction
from xferlib.kernels.definitions import CParam, may_be_numbers, parse_parameters

_DTYPES = ("float64", "float32", "int32", "int64", "uint8", "complex128", "bool")
_USUAL = ("float64", "int32", "complex128")
_MOST_TRIES = 400
MOST_BINDINGS = 3


@dataclass(frozen=True, slots=True)
class Taken:
    """A kernel that xferlib takes, for the first dtypes with which it does."""

    found: Found
    kernel: Any
    math: str
    types: dict[str, np.dtype[Any]]
    """The dtype of each generic letter."""
    inputs: tuple[CParam, ...]
    outputs: tuple[CParam, ...]
    scalars: frozenset[int]
    """The inputs that are numbers: those declared ``raw`` and never indexed, and those that end a reduction."""

    def dtype(self, param: CParam) -> np.dtype[Any]:
        return param.dtype or self.types[str(param.generic)]


def trials(found: Found) -> list[Taken] | str:
    """The kernel, exact or else fast, for the first few dtypes that fit; or why it is refused."""
    exact = _trials(found, "exact")
    fast = _trials(found, "fast") if isinstance(exact, str) else exact
    return exact if isinstance(fast, str) else fast


def _trials(found: Found, math: str) -> list[Taken] | str:
    texts = found.texts
    try:
        inputs = tuple(parse_parameters(texts["in_params"], "in_params"))
        outputs = tuple(parse_parameters(texts.get("out_params", ""), "out_params"))
        kernel = _kernel(found, math)
    except XferError as error:
        return str(error)
    params = (*inputs, *outputs)
    bodies = " ".join(text for key, text in texts.items() if not key.endswith("params"))
    ends = " ".join(texts.get(each) or "" for each in ("post_map_expr", "identity"))
    scalars = may_be_numbers(inputs, bodies) | {k for k, each in enumerate(inputs) if is_named(each, ends)}
    refused, taken = "", []
    for types in _bindings(sorted({each.generic for each in params if each.generic})):
        kinds = tuple(each.dtype or types[str(each.generic)] for each in params)
        try:
            kernel.definition.specialize(kinds, scalars)
        except XferError as error:
            refused = refused or str(error)
        else:
            taken.append(Taken(found, kernel, math, types, inputs, outputs, scalars))
        if len(taken) == MOST_BINDINGS:
            break
    return taken or refused


def is_named(param: CParam, ends: str) -> bool:
    """Whether the end of a reduction uses an input that is no array."""
    return not param.is_raw and re.search(rf"\b{param.name}\b", ends) is not None


def _bindings(letters: list[str]) -> Iterator[dict[str, np.dtype[Any]]]:
    """Dtypes for the letters, each choice once: all alike, in between the usual ones, then any."""
    count = len(letters)
    alike = [(name,) * count for name in _DTYPES]
    usual = list(itertools.product(_USUAL, repeat=count))
    mixed = [each for pair in itertools.zip_longest(alike, usual) for each in pair if each is not None]
    names = itertools.chain(mixed, itertools.product(_DTYPES, repeat=count))
    for chosen in dict.fromkeys(itertools.islice(names, _MOST_TRIES)):
        yield {letter: np.dtype(name) for letter, name in zip(letters, chosen, strict=True)}


def _kernel(found: Found, math: str) -> Any:
    texts = found.texts
    preamble = texts.get("preamble", "")
    if not found.is_reduction:
        lists: list[Any] = [texts[each] for each in ("in_params", "out_params") if each in texts]
        make: Any = elementwise  # of two texts or three
        return make(
            *lists,
            texts["operation"],
            preamble=preamble,
            loop_prep=texts.get("loop_prep", ""),
            after_loop=texts.get("after_loop", ""),
            math=math,
        )
    return reduction(
        texts["in_params"], texts.get("out_params"), map_expr=texts["map_expr"], reduce_expr=texts["reduce_expr"],
        post_map_expr=texts.get("post_map_expr"), identity=texts.get("identity"), dtype=texts.get("reduce_type"),
        preamble=preamble, math=math,
    )  # fmt: skip
