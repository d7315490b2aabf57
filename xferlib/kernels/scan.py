"""`scan`: running results of an associative operation, whole or in segments, in the same order on every backend."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from xferlib._core import blocks, registry
from xferlib._runtime.checks import NoPublicConstructor, refuse_no_flag
from xferlib.errors import KernelShapeError, KernelTypeError
from xferlib.kernels.elementwise import ElementwiseKernel, elementwise
from xferlib.kernels.signature import check_texts

_COMBINED = "\n\nT xf_combined(T a, T b) {{ return ({}); }}"
_NEUTRAL = "\nT xf_neutral() {{ return ({}); }}"
"""The expressions stand in functions, and the names below are no user's: a preamble may have an ``x`` or a ``d``."""
_STEP = "xf_y = i < xf_distance ? xf_x[i] : xf_combined(xf_x[i - xf_distance], xf_x[i]);"
_STEP_IN_SEGMENTS = """
xf_begins = xf_begun[i];
xf_y = xf_x[i];
if (i >= xf_distance && !xf_begins) {
    xf_y = xf_combined(xf_x[i - xf_distance], xf_x[i]);
    xf_begins = xf_begun[i - xf_distance];
}"""
_SHIFT = "xf_y = i == 0 ? xf_neutral() : xf_x[i - 1];"
_SHIFT_IN_SEGMENTS = "xf_y = i == 0 || xf_begun[i] ? xf_neutral() : xf_x[i - 1];"


class ScanKernel(metaclass=NoPublicConstructor, by="scan"):
    """A scan made by `scan`.

    It runs in passes over the whole array, one more each time that the length doubles. Each combines an element with
    the one ``2**k`` before it, in an order that depends on nothing but their positions.
    """

    def __init__(self, expression: str, neutral: str | None, name: str, math: str, preamble: str) -> None:
        self.name = name
        self._made = (expression, neutral, name, math, preamble)

        def make(inputs: str, outputs: str, text: str, functions: str = "") -> ElementwiseKernel:
            return elementwise(inputs, outputs, text, name=name, math=math, preamble=preamble + functions)

        make(
            "T a, T b", "T xf_result", f"xf_result = ({expression})"
        )  # so that a message speaks of the expression's own text
        functions = _COMBINED.format(expression)
        self._step = make("raw T xf_x, int64 xf_distance", "T xf_y", _STEP, functions)
        self._step_in_segments = make(
            "raw T xf_x, raw bool xf_begun, int64 xf_distance", "T xf_y, bool xf_begins", _STEP_IN_SEGMENTS, functions
        )
        self._shift = self._shift_in_segments = None
        if neutral is not None:
            functions = _NEUTRAL.format(neutral)
            self._shift = make("raw T xf_x", "T xf_y", _SHIFT, functions)
            self._shift_in_segments = make("raw T xf_x, raw bool xf_begun", "T xf_y", _SHIFT_IN_SEGMENTS, functions)

    def __reduce__(self) -> tuple[Any, ...]:
        return ScanKernel, self._made

    def __copy__(self) -> ScanKernel:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ScanKernel:
        return self

    def __repr__(self) -> str:
        return f"<ScanKernel {self.name}>"

    def __call__(self, x: Any, *, exclusive: bool = False, segments: Any = None, out: Any = None) -> Any:
        """Scan an array of one axis, on its device and the current stream.

        Args:
            x: The array, in C order.
            exclusive: Result ``i`` combines the elements before ``i``, and the first is the neutral one; otherwise
                element ``i`` too.
            segments: A bool array of the same length, True where a new segment begins; one segment if omitted.
            out: The result, which may be ``x``; a new array if omitted.

        Returns:
            ``out``, or a new array of the shape and dtype of ``x``.

        Raises:
            KernelShapeError: ``x`` has not one axis, or ``segments`` another length.
            KernelTypeError: ``x`` is no array; ``segments`` is not of bool; no neutral element for ``exclusive``.
            LayoutError: ``out`` of another shape or dtype, or ``x`` not in C order.
        """
        blocks.follow()
        refuse_no_flag(exclusive, f"{self.name}(): exclusive")
        count = self._check(x, segments)
        if exclusive and self._shift is None:
            raise KernelTypeError(f"{self.name}(): an exclusive scan needs a neutral element; scan(..., neutral='0')")
        found, begins = x, segments
        distance = 1
        while distance < count:
            if segments is None:
                found = self._step(found, distance, size=count)
            else:
                found, begins = self._step_in_segments(found, begins, distance, size=count)
            distance *= 2
        if exclusive and segments is None:
            assert self._shift is not None
            found = self._shift(found, size=count)
        elif exclusive:
            assert self._shift_in_segments is not None
            found = self._shift_in_segments(found, segments, size=count)
        if out is not None:
            return _copy()(found, out)
        return _copy()(found) if found is x else found

    def _check(self, x: Any, segments: Any) -> int:
        """The number of elements."""
        count, _ = self._row("x", x)
        if segments is not None:
            found, dtype = self._row("segments", segments)
            if dtype.kind != "b":
                raise KernelTypeError(f"{self.name}(): segments has dtype {dtype}; pass bool, True where one begins")
            if found != count:
                raise KernelShapeError(f"{self.name}(): segments has {found} elements and x {count}; pass one for each")
        return count

    def _row(self, name: str, array: Any) -> tuple[int, np.dtype[Any]]:
        """Length and dtype of an array of one axis."""
        backend = registry.owner_of(array)
        if backend is None:
            raise KernelTypeError(f"{self.name}(): {name} is {type(array).__name__}, not an array of a backend")
        info = backend.view(array)
        if len(info.shape) != 1:
            raise KernelShapeError(f"{self.name}(): {name} has shape {info.shape}; pass an array of one axis")
        return info.shape[0], info.dtype


@functools.cache
def _copy() -> ElementwiseKernel:
    return elementwise("T x", "T y", "y = x", name="scan_result")


def scan(
    expression: str, *, neutral: str | None = None, name: str = "scan", math: str = "exact", preamble: str = ""
) -> ScanKernel:
    """Make a scan: running sums, maxima, or any other associative operation.

        running_sum = xl.scan("a + b", neutral="0")
        running_sum(x)                                   # x[0], x[0] + x[1], ...
        running_sum(x, exclusive=True)                   # 0, x[0], x[0] + x[1], ...
        running_sum(x, segments=starts)                  # anew at each True

    Args:
        expression: C, in ``a``, the result so far, and ``b``, the next element; associative up to rounding.
        neutral: C, the element that changes nothing; for exclusive scans.
        name: For messages and profilers.
        math: ``"exact"`` or ``"fast"``.
        preamble: C functions that the expressions may call.

    Raises:
        KernelSyntaxError: An expression cannot be read.
    """
    texts = {"expression": expression, "name": name, "math": math, "preamble": preamble}
    check_texts("scan", **(texts if neutral is None else {**texts, "neutral": neutral}))
    return ScanKernel(expression, neutral, name, math, preamble)
