"""`scan`: running results of an associative operation, whole or in segments, in the same order on every backend."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from xferlib import _native
from xferlib._core import blocks, observe, registry
from xferlib._core.arrays import ArrayInfo
from xferlib._runtime.checks import NoPublicConstructor, refuse_no_flag
from xferlib.errors import KernelError, KernelShapeError, KernelTypeError
from xferlib.kernels.arguments import needs_gradient
from xferlib.kernels.calls import native_dtype
from xferlib.kernels.definitions import check_texts
from xferlib.kernels.elementwise import ElementwiseKernel, elementwise
from xferlib.kernels.ir import DType, Program
from xferlib.kernels.native_scan import NativeScan
from xferlib.kernels.numpy_engine import BlockFunction, quiet_context

# The order of a scan: the elements of a chunk of 32 one after the other, the first of them after the running result of
# the chunks before it; those are the running results of the chunks' totals, in chunks likewise. An element that begins
# a segment is combined with none before it, and the total of its chunk with none of the chunks before.
#
# In host memory, operations that `scan.c` knows are in the extension. Any other is compiled in the background, as
# kernels are; until then each place in a chunk is a call of NumPy's functions for all chunks.

A = np.ndarray[Any, Any]
Running = Callable[[A, A, A | None], None]
"""Writes the running results of a row into another, or into itself; anew at each flag."""
CHUNK = 32
"""Elements of a chunk."""
_BLOCK = 1 << 15
"""Elements of a call of NumPy's functions, which fit the cache."""
_COMPILED = {
    "a + b": "add", "a * b": "mul", "a & b": "and", "a | b": "or", "a ^ b": "xor", "max(a, b)": "fmax",
    "min(a, b)": "fmin", "maximum(a, b)": "max", "minimum(a, b)": "min", "a > b ? a : b": "greater",
    "a < b ? a : b": "less",
}  # fmt: skip
"""The operations that `scan.c` knows, as it names them."""


@functools.cache
def _operation(expression: str) -> ElementwiseKernel:
    return elementwise("T a, T b", "T xf_result", f"xf_result = ({expression})")


@functools.cache
def _program_of(expression: str, dtype: DType) -> str:
    """The program of an operation as text; empty where it is not defined for the dtype."""
    try:
        return _operation(expression).definition.specialize((dtype, dtype, dtype), frozenset()).program.text
    except KernelError:
        return ""


def find_compiled(program: Program, dtype: DType) -> Callable[..., bool] | None:
    """The compiled scan of an operation, by its program; None where there is none."""
    used = {node.op for node in program.nodes}
    for expression, name in _COMPILED.items():
        ops = {"fmax": "max", "fmin": "min", "greater": "gt", "less": "lt"}
        if ops.get(name, name) in used and _program_of(expression, dtype) == program.text:
            return _native.bind_scan(name, dtype)
    return None


def scan_rows(combine: Callable[[A, A], A], x: A, begun: A | None = None) -> A:
    """The running results of rows, anew at each flag; ``combine`` takes and returns arrays of one shape."""
    rows, extent = x.shape
    count = -(-extent // CHUNK)

    def cut(given: A) -> A:
        """The elements by their places in the chunks."""
        found = np.zeros((rows, count * CHUNK), given.dtype)
        found[:, :extent] = given
        return np.ascontiguousarray(np.moveaxis(found.reshape(rows, count, CHUNK), -1, 0))

    def after(before: A, elements: A, begins: A | None) -> A:
        made = combine(before, elements)
        return made if begins is None else np.where(begins, elements, made)

    chunks, flags = cut(x), None if begun is None else cut(begun)
    if count > 1:
        totals = np.ascontiguousarray(chunks[0, :, :-1])
        for k in range(1, CHUNK):
            totals = after(totals, chunks[k, :, :-1], None if flags is None else flags[k, :, :-1])
        before = scan_rows(combine, totals, None if flags is None else np.logical_or.reduce(flags[:, :, :-1]))
        chunks[0, :, 1:] = after(before, chunks[0, :, 1:], None if flags is None else flags[0, :, 1:])
    for k in range(1, CHUNK):
        chunks[k] = after(chunks[k - 1], chunks[k], None if flags is None else flags[k])
    return np.moveaxis(chunks, 0, -1).reshape(rows, -1)[:, :extent]


def shift(row: A, begins: A | None, neutral: A) -> None:
    """Make running results those before each element; the first of a segment is the neutral element."""
    row[1:] = row[:-1].copy()
    row[:1] = neutral
    if begins is not None:
        row[begins] = neutral


def _is_row(array: Any, shape: tuple[int, ...]) -> bool:
    return type(array) is np.ndarray and array.shape == shape and array.flags.c_contiguous


def _is_apart(out: A, x: A, segments: A | None) -> bool:
    """Whether a result is the row itself, or shares no memory with it; and none with the flags."""
    is_fit = out is x or not np.may_share_memory(out, x)
    return is_fit and (segments is None or not np.may_share_memory(out, segments))


def make_host_scan(program: Program, dtype: DType) -> Running:
    """The scan of an operation in host memory."""
    compiled = find_compiled(program, dtype)
    by_numpy = BlockFunction(program, _BLOCK)
    native = NativeScan(program)

    def combine(a: A, b: A) -> A:
        found = np.empty(a.shape, dtype)
        rows = [np.ascontiguousarray(each).reshape(-1) for each in (a, b)] + [found.reshape(-1)]
        for at in range(0, found.size, _BLOCK):
            by_numpy([each[at : at + _BLOCK] for each in rows])
        return found

    def run(x: A, out: A, begins: A | None) -> None:
        if compiled is not None and compiled(x, out, max(x.size, 1) if begins is None else begins):
            return
        if native.is_ready() and x.flags.aligned and out.flags.aligned:
            native.run(x, out, begins)
        else:
            out[...] = quiet_context().run(scan_rows, combine, x[None], None if begins is None else begins[None])[0]

    return run


_COMBINED = "\n\nT xf_combined(T a, T b) {{ return ({}); }}"
_NEUTRAL = "\nT xf_neutral() {{ return ({}); }}"
"""The expressions stand in functions, and the names below are no user's: a preamble may have an ``x`` or a ``d``."""
_TOTAL = """
xf_y = xf_x[i * 32];
for (int xf_k = 1; xf_k < 32; ++xf_k) xf_y = xf_combined(xf_y, xf_x[i * 32 + xf_k]);"""
_TOTAL_IN_SEGMENTS = """
xf_y = xf_x[i * 32];
xf_begins = xf_begun[i * 32];
for (int xf_k = 1; xf_k < 32; ++xf_k) {
    if (xf_begun[i * 32 + xf_k]) xf_begins = true;
    xf_y = xf_begun[i * 32 + xf_k] ? xf_x[i * 32 + xf_k] : xf_combined(xf_y, xf_x[i * 32 + xf_k]);
}"""
_RUNNING = """
long long xf_at = i / 32 * 32;
xf_y = xf_x[xf_at];
if (xf_at) xf_y = xf_combined(xf_before[i / 32 - 1], xf_y);
for (++xf_at; xf_at <= i; ++xf_at) xf_y = xf_combined(xf_y, xf_x[xf_at]);"""
_RUNNING_IN_SEGMENTS = """
long long xf_at = i / 32 * 32;
xf_y = xf_x[xf_at];
if (xf_at && !xf_begun[xf_at]) xf_y = xf_combined(xf_before[i / 32 - 1], xf_y);
for (++xf_at; xf_at <= i; ++xf_at) xf_y = xf_begun[xf_at] ? xf_x[xf_at] : xf_combined(xf_y, xf_x[xf_at]);"""
_SHIFT = "xf_y = i == 0 ? xf_neutral() : xf_x[i - 1];"
_SHIFT_IN_SEGMENTS = "xf_y = i == 0 || xf_begun[i] ? xf_neutral() : xf_x[i - 1];"


class ScanKernel(metaclass=NoPublicConstructor, by="scan"):
    """A scan made by `scan`.

    The order of the operations depends on nothing but the elements' positions in ``x``: the elements of a chunk of 32
    one after the other, the first of them after the running result of the chunks before it; those are the running
    results of the chunks' totals, in chunks likewise. Segments do not change the chunks; an element that begins one is
    combined with none before it. A CPU makes one pass over the array, a GPU two.
    """

    def __init__(self, expression: str, neutral: str | None, name: str, math: str, preamble: str) -> None:
        self.name = name
        self._made = (expression, neutral, name, math, preamble)

        def make(inputs: str, outputs: str, text: str, functions: str = "") -> ElementwiseKernel:
            return elementwise(inputs, outputs, text, name=name, math=math, preamble=preamble + functions)

        # Made first, so that a message speaks of the expression's own text.
        self._operation = make("T a, T b", "T xf_result", f"xf_result = ({expression})")
        self._running: dict[DType, Running] = {}
        self._compiled: dict[DType, Callable[..., bool]] = {}
        self._neutrals: dict[DType, A] = {}
        functions = _COMBINED.format(expression)
        flags = ", raw bool xf_begun"
        self._total = make("raw T xf_x", "T xf_y", _TOTAL, functions)
        self._total_in_segments = make(f"raw T xf_x{flags}", "T xf_y, bool xf_begins", _TOTAL_IN_SEGMENTS, functions)
        before = "raw T xf_x, raw T xf_before"
        self._running_of = make(before, "T xf_y", _RUNNING, functions)
        self._running_in_segments = make(f"{before}{flags}", "T xf_y", _RUNNING_IN_SEGMENTS, functions)
        self._shift = self._shift_in_segments = None
        if neutral is not None:
            functions = _NEUTRAL.format(neutral)
            self._neutral = make("T xf_x", "T xf_y", "xf_y = xf_neutral();", functions)
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
        if type(x) is np.ndarray:
            if segments is None and exclusive is False and observe.active is None:
                compiled = self._compiled.get(x.dtype)
                to = np.empty_like(x) if compiled is not None and out is None else out
                if compiled is not None and compiled(x, to, None):
                    return to
            if (found := self._run_plain(x, segments, out, exclusive=exclusive)) is not None:
                return found
        blocks.follow()
        refuse_no_flag(exclusive, f"{self.name}(): exclusive")
        infos = self._check(x, segments)
        if exclusive and self._shift is None:
            raise KernelTypeError(f"{self.name}(): an exclusive scan needs a neutral element; scan(..., neutral='0')")
        found = self._run_on_host(x, segments, infos, exclusive=exclusive)
        if found is None:
            found = self._run_kernels(x, segments, infos[0].shape[0], exclusive=exclusive)
        if out is not None:
            return _copy()(found, out)
        return found

    def _run_kernels(self, x: Any, segments: Any, count: int, *, exclusive: bool) -> Any:
        found = self._run_by_chunks(x, segments, count)
        if exclusive and segments is None:
            assert self._shift is not None
            found = self._shift(found, size=count)
        elif exclusive:
            assert self._shift_in_segments is not None
            found = self._shift_in_segments(found, segments, size=count)
        return found

    def _run_by_chunks(self, x: Any, segments: Any, count: int) -> Any:
        before, chunks = x, -(-count // CHUNK)  # of one chunk nothing is read before it
        if segments is None:
            if chunks > 1:
                before = self._run_by_chunks(self._total(x, size=chunks - 1), None, chunks - 1)
            return self._running_of(x, before, size=count)
        if chunks > 1:
            totals, begun = self._total_in_segments(x, segments, size=chunks - 1)
            before = self._run_by_chunks(totals, begun, chunks - 1)
        return self._running_in_segments(x, before, segments, size=count)

    def _run_plain(self, x: A, segments: Any, out: Any, *, exclusive: Any) -> A | None:
        """The result for NumPy arrays in C order and apart, of dtypes met before; None where there is more to check."""
        dtype, shape = x.dtype, x.shape
        run = self._running.get(dtype)
        neutral = self._neutrals.get(dtype) if exclusive is True else None
        if run is None or len(shape) != 1 or not x.flags.c_contiguous or observe.active is not None:
            return None
        if exclusive is not False and neutral is None:
            return None
        if segments is not None and not (_is_row(segments, shape) and segments.dtype == np.bool_):
            return None
        if out is None:
            out = np.empty(shape, dtype)
        elif not (_is_row(out, shape) and out.dtype == dtype and out.flags.writeable and _is_apart(out, x, segments)):
            return None
        run(x, out, segments)
        if neutral is not None:
            shift(out, segments, neutral)
        return out  # type: ignore[no-any-return]

    def _run_on_host(self, x: Any, segments: Any, infos: list[ArrayInfo], *, exclusive: bool) -> Any:
        """The result where the host computes on the arrays' memory; None where kernels have to, or to refuse."""
        given = [each for each in (x, segments) if each is not None]
        backend, place = registry.owner_of(x), infos[0].device
        assert backend is not None
        if place.kind == "cuda" or any(each.device is not place for each in infos) or needs_gradient(given):
            return None
        owner = backend.at(place)
        given = [owner.resolved(each) if owner.is_lazy(each) else each for each in given]
        dtype = native_dtype(self.name, infos[0].dtype, "x")
        run, neutral = self._host_scan(dtype), self._neutral_of(dtype) if exclusive else None
        out = owner.empty(infos[0].shape, dtype, device=place, stream=owner.stream_current(place))

        def scan(*rows: A) -> None:
            row = np.ascontiguousarray(rows[0], dtype)
            begins = np.ascontiguousarray(rows[1]) if segments is not None else None
            run(row, rows[-1], begins)
            if neutral is not None:
                shift(rows[-1], begins, neutral)

        owner.compute_on_host(self.name, scan, given, [out])
        return out

    def _host_scan(self, dtype: DType) -> Running:
        found = self._running.get(dtype)
        if found is None:
            special = self._operation.definition.specialize((dtype, dtype, dtype), frozenset())
            found = self._running[dtype] = make_host_scan(special.program, dtype)
            if (compiled := find_compiled(special.program, dtype)) is not None:
                self._compiled[dtype] = compiled
        return found

    def _neutral_of(self, dtype: DType) -> A:
        found = self._neutrals.get(dtype)
        if found is None:
            found = np.zeros(1, dtype)
            program = self._neutral.definition.specialize((dtype, dtype), frozenset()).program
            quiet_context().run(BlockFunction(program, 1), [np.zeros(1, dtype), found])
            self._neutrals[dtype] = found
        return found

    def _check(self, x: Any, segments: Any) -> list[ArrayInfo]:
        """The arrays' descriptions."""
        infos = [self._row("x", x)]
        if segments is not None:
            infos.append(self._row("segments", segments))
            count, dtype, found = infos[0].shape[0], infos[1].dtype, infos[1].shape[0]
            if dtype.kind != "b":
                raise KernelTypeError(f"{self.name}(): segments has dtype {dtype}; pass bool, True where one begins")
            if found != count:
                raise KernelShapeError(f"{self.name}(): segments has {found} elements and x {count}; pass one for each")
        return infos

    def _row(self, name: str, array: Any) -> ArrayInfo:
        """The description of an array of one axis."""
        backend = registry.owner_of(array)
        if backend is None:
            raise KernelTypeError(
                f"{self.name}(): {name} is {type(array).__name__}, not an array of a backend; pass it through "
                "xferlib.to_device() first"
            )
        info = backend.view(array)
        if len(info.shape) != 1:
            raise KernelShapeError(f"{self.name}(): {name} has shape {info.shape}; pass an array of one axis")
        return info


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
