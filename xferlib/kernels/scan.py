"""`scan`: running results of an associative operation, whole or in segments, in the same order on every backend."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib import _native
from xferlib._core import blocks, observe, registry
from xferlib._core.arrays import ArrayInfo, share_bytes
from xferlib._runtime.checks import NoPublicConstructor, refuse_no_flag
from xferlib.errors import KernelError, KernelShapeError, KernelTypeError
from xferlib.kernels import host_compiler, native_engine, native_source
from xferlib.kernels.arguments import common_device, needs_gradient, requires_gradient
from xferlib.kernels.c_text import c_type, storage_type, to_memory, to_register
from xferlib.kernels.calls import check_output, native_dtype, refuse_freed
from xferlib.kernels.definitions import check_texts
from xferlib.kernels.elementwise import ElementwiseKernel, elementwise
from xferlib.kernels.ir import DType, Program, is_complex
from xferlib.kernels.native_functions import expand
from xferlib.kernels.native_reduction import evaluate, find_uncovered, support_text
from xferlib.kernels.numpy_engine import BlockFunction, quiet_context
from xferlib.kernels.plans import Plans
from xferlib.kernels.small_floats import storage, store_bits, view_bits

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib.kernels.cuda_arrays import ArrayKernel

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
        """The elements by their places in the chunks; behind the last one again that, which the operation can take."""
        found = np.empty((rows, count * CHUNK), given.dtype)
        found[:, :extent] = given
        found[:, extent:] = given[:, -1:]
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


_ENTRY = "xf_scan"
_WITH_LOCK = 1 << 12
"""Elements during which other threads wait for a scan in C."""


def _write_c(program: Program) -> str:
    """The C text of a scan by an operation of two elements."""
    program = expand(program)
    dtype = program.params[0].dtype
    memory, kind = storage_type(dtype), c_type(dtype)
    body, results = evaluate(program, {0: "a", 1: "b"}, {})
    chunks = Path(_native.__file__).with_name("compute").joinpath("chunks.h").read_text(encoding="ascii")
    return f"""{support_text([program])}
{chunks}
static inline {kind} xf_combine(const {kind} a, const {kind} b) {{ {body} return {results[0]}; }}
#define XF_LOAD(x) {to_register("(x)", dtype)}
#define XF_STORE(x) {to_memory("(x)", dtype)}
BY_CHUNKS(xf_row, {memory}, {kind}, XF_LOAD, xf_combine, XF_STORE)
XF_EXPORT void {_ENTRY}(const {memory} *x, {memory} *out, long long count, const char *begins) {{
  xf_row(x, out, count, begins);
}}
"""


class NativeScan(native_engine.NativeKernel):
    """The compiled scan of an operation, or how far it is."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.why_not = self.why_not or find_uncovered([program])
        if is_complex(program.params[0].dtype):
            self.why_not = "its elements are complex"

    def _build(self, target: host_compiler.Target) -> int | None:
        library = host_compiler.load_c(_write_c(self.program), flags=native_source.OPTIONS, target=target)
        # For few elements the GIL is kept: to release it takes as long as they do.
        self._functions = [
            make(None, *[ctypes.c_void_p] * 2, ctypes.c_longlong, ctypes.c_void_p)((_ENTRY, library))
            for make in (ctypes.PYFUNCTYPE, ctypes.CFUNCTYPE)
        ]
        return ctypes.cast(library[_ENTRY], ctypes.c_void_p).value

    def run(self, x: A, out: A, begins: A | None) -> None:
        """Scan a row into another, or into itself; anew at each flag."""
        flags = None if begins is None else begins.ctypes.data
        scan = self._functions[x.size > _WITH_LOCK]
        scan(x.__array_interface__["data"][0], out.__array_interface__["data"][0], x.size, flags)


def make_host_scan(program: Program, dtype: DType, compiled: Callable[..., bool] | None) -> Running:
    """The scan of an operation in host memory, by the one of the extension where there is one."""
    by_numpy = BlockFunction(program, _BLOCK)
    native = NativeScan(store_bits(program))

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
"""The expressions stand in functions, which know nothing else; no user has the names: a preamble may have an ``x``."""


class _DeviceScan:
    """A kernel for rows of one length on a device, and the function that does a whole call in C, once it is there."""

    def __init__(self, kernel: ArrayKernel) -> None:
        self.kernel = kernel
        self.direct: Callable[..., Any] | None = None
        self.is_first = True


class ScanKernel(metaclass=NoPublicConstructor, by="scan"):
    """A scan made by `scan`.

    The order of the operations depends on nothing but the elements' positions in ``x``: the elements of a chunk of 32
    one after the other, the first of them after the running result of the chunks before it; those are the running
    results of the chunks' totals, in chunks likewise. Segments do not change the chunks; an element that begins one is
    combined with none before it. A CPU makes one pass over the array, and a GPU too.
    """

    def __init__(self, expression: str, neutral: str | None, name: str, math: str, preamble: str) -> None:
        self.name = name
        self._made = (expression, neutral, name, math, preamble)

        def make(inputs: str, outputs: str, text: str, functions: str = "") -> ElementwiseKernel:
            return elementwise(inputs, outputs, text, name=name, math=math, preamble=preamble + functions)

        make("T a, T b", "T xf_result", f"xf_result = ({expression})")  # whose message speaks of that text alone
        of_two = "xf_result = xf_combined(a, b)"
        self._operation = make("T a, T b", "T xf_result", of_two, _COMBINED.format(expression))
        self._neutral = None
        if neutral is not None:
            self._neutral = make("T xf_x", "T xf_y", "xf_y = xf_neutral()", _NEUTRAL.format(neutral))
        self._running: dict[DType, Running] = {}
        self._compiled: dict[DType, Callable[..., bool]] = {}
        self._neutrals: dict[DType, A] = {}
        self._kernels: Plans[_DeviceScan] = Plans()
        self._last: dict[tuple[type, type, bool], Callable[..., Any]] = {}
        """Functions in C for calls like the last one on a device, by the types of x and segments, and `exclusive`."""

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
            x: The array; on a GPU it is copied first if it is not in C order.
            exclusive: Result ``i`` combines the elements before ``i``, and the first is the neutral one; otherwise
                element ``i`` too.
            segments: A bool array of the same length, True where a new segment begins; one segment if omitted.
            out: The result, which may be ``x``; a new array if omitted.

        Returns:
            ``out``, or a new array of the shape and dtype of ``x``.

        Raises:
            KernelShapeError: ``x`` has not one axis, or ``segments`` another length.
            KernelTypeError: ``x`` is no array; ``segments`` is not of bool; no neutral element for ``exclusive``; torch
                follows an array for a derivative.
            LayoutError: ``out`` of another shape or dtype, or read-only.
            MixedBackendsError, MixedDevicesError: Arrays of two backends or devices.
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
        is_exclusive = exclusive is True
        direct = self._last.get((type(x), type(segments), is_exclusive))
        if direct is not None and is_exclusive is exclusive and out is None and observe.active is None:
            found = direct((x,) if segments is None else (x, segments))
            if found is not NotImplemented:
                return found
        refuse_no_flag(exclusive, f"{self.name}(): exclusive")
        given = {"x": x} if segments is None else {"x": x, "segments": segments}
        owner, device, infos = self._check(given, out)
        if exclusive and self._neutral is None:
            raise KernelTypeError(f"{self.name}(): an exclusive scan needs a neutral element; scan(..., neutral='0')")
        if needs_gradient([*given.values(), out]):
            raise KernelTypeError(
                f"{self.name}(): a scan has no derivative; call it under torch.no_grad(), or on x.detach()"
            )
        arrays = [owner.resolved(each) if owner.is_lazy(each) else each for each in given.values()]
        dtype = native_dtype(self.name, infos[0].dtype, "x")
        if device.kind == "cuda":
            found = self._run_on_device(owner, device, arrays, dtype, infos[0].shape, out, exclusive=exclusive)
        else:
            found = self._run_on_host(owner, device, arrays, dtype, infos[0].shape, exclusive=exclusive)
        return found if out is None or found is out else _copy()(found, out)

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

    def _run_on_host(
        self,
        owner: Backend,
        device: Device,
        arrays: list[Any],
        dtype: DType,
        shape: tuple[int, ...],
        *,
        exclusive: bool,
    ) -> Any:
        """The result in a new array, of arrays whose memory the host computes on."""
        run, neutral = self._host_scan(dtype), self._neutral_of(dtype) if exclusive else None
        out = owner.empty(shape, dtype, device=device, stream=owner.stream_current(device))

        def scan(*rows: A) -> None:
            row = np.ascontiguousarray(rows[0], dtype)
            begins = np.ascontiguousarray(rows[1]) if len(arrays) > 1 else None
            run(row, rows[-1], begins)
            if neutral is not None:
                shift(rows[-1], begins, neutral)

        owner.compute_on_host(self.name, scan, arrays, [out])
        return out

    def _run_on_device(
        self, owner: Backend, device: Device, arrays: list[Any], dtype: DType, shape: tuple[int, ...], out: Any,
        *, exclusive: bool,
    ) -> Any:  # fmt: skip
        """The result in ``out``, or where that cannot be, in a new array, enqueued on the current stream."""
        rows = [each if _is_plain(owner.view(each)) else _copy()(each) for each in arrays]
        stream = owner.stream_current(device)
        is_direct = out is not None and not owner.is_lazy(out)
        is_direct = is_direct and _is_fit(owner.view(out), [*map(owner.view, rows)], takes_x=not exclusive)
        found = out if is_direct else owner.empty(shape, dtype, device=device, stream=stream)
        if is_direct:
            owner.note_write(out, f"{self.name}(): out")
        if not shape[0]:
            return found
        key = (device, dtype, shape, len(rows), exclusive)
        plan = self._kernels.get(key)
        if plan is None:
            kernel = self._prepare(owner, device, dtype, shape[0], is_segmented=len(rows) > 1, exclusive=exclusive)
            self._kernels.keep(key, plan := _DeviceScan(kernel))
        everything = [*rows, found]
        pointers = owner.operands(everything)
        refuse_freed(self.name, map(owner.view, everything), pointers)
        if (recorder := observe.active) is None:
            plan.kernel.run(pointers, stream)
        else:
            nbytes = sum(owner.view(each).nbytes for each in everything)
            launch = functools.partial(plan.kernel.run, pointers, stream)
            recorder.enqueue(observe.Kind.KERNEL, self.name, nbytes, owner, stream, launch)
        if stream.handle or owner.has_made_streams:  # arrays of another stream must outlast the work on this one
            for each in everything:
                owner.note_use(each, stream)
        is_plain = found is not out and not requires_gradient(arrays)  # else no_grad() would hide a gradient later
        if plan.direct is None and not plan.is_first and is_plain:  # the second call: the first should not wait
            dtypes = [owner.view(each).dtype for each in rows]
            given = [*zip(rows, dtypes, strict=True)]
            plan.direct = plan.kernel.repeat(given, pointers, [(shape, dtype)], stream)
        if plan.direct is not None:
            self._last[type(rows[0]), type(rows[1] if len(rows) > 1 else None), exclusive] = plan.direct
        plan.is_first = False
        return found

    def _prepare(
        self, owner: Backend, device: Device, dtype: DType, count: int, *, is_segmented: bool, exclusive: bool
    ) -> ArrayKernel:
        """The kernel for rows of a length on a device."""
        from xferlib.kernels import cuda_arrays

        program = store_bits(self._specialize(dtype))
        first = view_bits(self._neutral_of(dtype))[0] if exclusive else None
        stored = storage(dtype)
        return cuda_arrays.prepare_scan(
            owner, device, stored, stored, cuda_arrays.combine_as(program), 1, count, is_segmented=is_segmented,
            first=first,
        )  # fmt: skip

    def _specialize(self, dtype: DType) -> Program:
        return self._operation.definition.specialize((dtype, dtype, dtype), frozenset()).program

    def _host_scan(self, dtype: DType) -> Running:
        found = self._running.get(dtype)
        if found is None:
            program = self._specialize(dtype)
            compiled = find_compiled(program, dtype)
            found = self._running[dtype] = make_host_scan(program, dtype, compiled)
            if compiled is not None:
                self._compiled[dtype] = compiled
        return found

    def _neutral_of(self, dtype: DType) -> A:
        found = self._neutrals.get(dtype)
        if found is None:
            assert self._neutral is not None
            found = np.zeros(1, dtype)
            program = self._neutral.definition.specialize((dtype, dtype), frozenset()).program
            quiet_context().run(BlockFunction(program, 1), [np.zeros(1, dtype), found])
            self._neutrals[dtype] = found
        return found

    def _check(self, given: dict[str, Any], out: Any) -> tuple[Backend, Device, list[ArrayInfo]]:
        """The owner and the device of all arrays, and the descriptions of the given ones."""
        infos = [self._row(name, each) for name, each in given.items()]
        if len(infos) > 1:
            count, dtype, found = infos[0].shape[0], infos[1].dtype, infos[1].shape[0]
            if dtype.kind != "b":
                raise KernelTypeError(f"{self.name}(): segments has dtype {dtype}; pass bool, True where one begins")
            if found != count:
                raise KernelShapeError(f"{self.name}(): segments has {found} elements and x {count}; pass one for each")
        backend, device, known = common_device(self.name, [*given, "out"], [*given.values(), out])
        assert backend is not None
        assert device is not None
        if len(given) in known:
            dtype = native_dtype(self.name, infos[0].dtype, "x")
            of_out = known[len(given)]
            of_out = of_out._replace(dtype=native_dtype(self.name, of_out.dtype, "out"))
            check_output(f"{self.name}()", "out", of_out, infos[0].shape, dtype)
        elif out is not None:
            raise KernelTypeError(f"{self.name}(): out is {type(out).__name__}, not an array; pass one of x's shape")
        return backend.at(device), device, infos

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


def _is_plain(info: ArrayInfo) -> bool:
    """Whether a kernel may read it as a row: in C order, at an address for its elements, in native byte order."""
    return info.is_c_contiguous and info.pointer % info.dtype.itemsize == 0 and info.dtype.isnative


def _is_fit(out: ArrayInfo, rows: list[ArrayInfo], *, takes_x: bool) -> bool:
    """Whether a kernel may write results there: where it reads nothing, or with ``takes_x`` over the elements."""
    to, x, *flags = [(each.pointer, each.shape, each.strides, each.dtype.itemsize) for each in (out, *rows)]
    others = flags if takes_x and to == x else [x, *flags]
    return _is_plain(out) and not any(share_bytes(to, each) for each in others)


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
