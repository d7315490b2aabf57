"""Translates a kernel for several dtypes, to see whether xferlib takes it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tools.kernel_harvest.finding import Found
from xferlib.errors import XferError
from xferlib.kernels import elementwise, reduction
from xferlib.kernels.frontends import signature

_DTYPES = ("float64", "float32", "int32", "int64", "uint8", "complex128", "bool")
_MOST_TRIES = 60


def refusal(found: Found) -> str | None:
    """The reason why the kernel is refused for the first dtypes; None where it is taken for any."""
    texts = found.texts
    try:
        inputs = signature.parse(texts["in_params"], "in_params")
        params = [*inputs, *signature.parse(texts.get("out_params", ""), "out_params")]
        definition = _kernel(found).definition
    except XferError as error:
        return str(error)
    letters = sorted({each.generic for each in params if each.generic})
    first = None
    alike = ((name,) * len(letters) for name in _DTYPES)
    for names in itertools.islice(itertools.chain(alike, itertools.product(_DTYPES, repeat=len(letters))), _MOST_TRIES):
        types = {letter: np.dtype(name) for letter, name in zip(letters, names, strict=True)}
        kinds = tuple(each.dtype or types[str(each.generic)] for each in params)
        try:
            definition.specialize(kinds, frozenset())
        except XferError as error:
            first = first or str(error)
        else:
            return None
    return first


def _kernel(found: Found) -> Any:
    texts = found.texts
    preamble = texts.get("preamble", "")
    if "after_loop" in texts:
        raise XferError("after_loop= does not exist in xferlib; put its statements into the operation")
    if not found.is_reduction:
        lists: list[Any] = [texts[each] for each in ("in_params", "out_params") if each in texts]
        make: Any = elementwise  # of two texts or three
        return make(*lists, texts["operation"], preamble=preamble, loop_prep=texts.get("loop_prep", ""))
    return reduction(
        texts["in_params"], texts.get("out_params"), map_expr=texts["map_expr"], reduce_expr=texts["reduce_expr"],
        post_map_expr=texts.get("post_map_expr"), identity=texts.get("identity"), dtype=texts.get("reduce_type"),
        preamble=preamble,
    )  # fmt: skip
