"""Kernels of the namespaces on CUDA devices: running results, sorts of rows, products of matrices.

The text of the kernels is ``cuda_arrays.cu``. A scan keeps the documented order, so that its bits are a CPU's.
"""

from __future__ import annotations

import functools
import operator
import struct
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib.kernels import cuda_source
from xferlib.kernels.c_text import WORDS, c_type, constant, storage_type, to_memory, to_register
from xferlib.kernels.cuda_engine import kernel_for
from xferlib.kernels.cuda_launch import (
    Direct,
    ParameterBlock,
    counters_nbytes,
    find_scratch,
    repeat_call,
    shares_scratch,
)
from xferlib.kernels.cuda_source import HALF, TYPES
from xferlib.kernels.ir import FLOAT32, FLOAT64, DType, Program, bodies
from xferlib.kernels.native_functions import Sections, collect_sections, read_sections

if TYPE_CHECKING:
    from xferlib._core.backend import Multiply, Product
    from xferlib._core.device import Device, RawStream

_CHUNK, _TILE, _LEVELS = 32, 1 << 10, 8
"""As in the text: elements of a chunk and of a tile, levels of totals."""
_BLOCK_NBYTES = 1 << 15
"""Of the elements of a block, which lie in shared memory."""
_WIDE = {1: "unsigned", 2: "unsigned", 4: "unsigned", 8: "unsigned long long"}
"""The types in which integers are added and multiplied, by their bytes: they wrap."""
ROOM = 1 << 12
"""The longest row that is sorted in shared memory; half as long of complex128."""
_LONGEST = 1 << 30
"""Elements of a row that a word of four bytes can count; a longer one has words of eight."""
_DIGITS, _THREADS, _GROUP = 256, 384, 32
"""Of a pass of a radix sort: digits, threads of a block, and tiles of a group."""
_ITEMS, _THREAD_NBYTES = 16, 96
"""The most elements of a thread in a pass, and the bytes of them and of their positions in shared memory."""
_COUNTING = 512
"""Blocks that count digits, which fill a large GPU: each adds to the counts of its row at its end."""
_BYTE = np.dtype(np.uint8)
_SHORT, _EACH = 1 << 10, 8
"""Of a sort in shared memory: elements of a block, if rows are short, and of a thread."""


class ArrayKernel:
    """A kernel over whole arrays, prepared for one layout on one device.

    Args:
        backend: The CUDA part of a backend.
        device: Where to run.
        source: The text, whose arguments are addresses and a struct.
        launch: The kernel's name, and the numbers of blocks and of threads in each.
        addresses: The number of addresses: of the inputs, of the outputs, and of scratch memory.
        numbers: The struct.
        scratch: The bytes of scratch memory and the counters in it, which come first; the kernel leaves them 0.
    """

    def __init__(
        self, backend: Any, device: Device, source: str, launch: tuple[str, int, int], addresses: int, numbers: bytes,
        scratch: tuple[int, int] = (0, 0),
    ) -> None:  # fmt: skip
        name, blocks, threads = launch
        self._backend, self._device, self._scratch, self._addresses = backend, device, scratch, addresses
        self._lock = threading.Lock()
        self._parameters = ParameterBlock(addresses, (), numbers)
        self._launches = kernel_for(backend, device, source, name), blocks, threads
        self._launch = backend.prepare_launch(
            self._launches[0], (blocks, 1, 1), (threads, 1, 1), self._parameters.address, device=device
        )
        self._kept: Any = None
        """The scratch memory to which calls in one step have the address."""

    def run(self, pointers: Sequence[int], stream: RawStream) -> None:
        """Launch on ``stream``; the addresses are those of the inputs and of the outputs."""
        into, _kept = self._find_scratch(stream)  # to the end: what is freed is reused in stream order
        with self._lock:  # the driver copies the arguments during the launch
            self._patch([*pointers, *into])
            self._launch(stream.handle)

    def repeat(
        self, given: Sequence[tuple[Any, DType]], pointers: Sequence[int],
        new: Sequence[tuple[tuple[int, ...], DType]], stream: RawStream,
    ) -> Direct | None:  # fmt: skip
        """A function that does a call like this one, with new outputs, in one step; None where Python must.

        Args:
            given: The arrays of the call, with their dtypes.
            pointers: Their addresses, and those of the outputs.
            new: The shape and the dtype of each output.
            stream: The current stream.
        """
        if not shares_scratch(stream, *self._scratch):
            return None
        if stream.capture is not None or self._backend.stream_is_recorded(stream):  # what is cleared there is not yet
            return None
        into, self._kept = self._find_scratch(stream)
        with self._lock:
            self._patch([*pointers, *into])
            arguments = [(*each, pointer) for each, pointer in zip(given, pointers, strict=False)]
            places = range(len(pointers))
            return repeat_call(
                self._backend, self._device, self._launches, self._parameters, arguments,
                [(*each, None) for each in new], places, only=stream if self._scratch[0] else None
            )  # fmt: skip

    def _patch(self, pointers: Sequence[int]) -> None:
        self._parameters.patch([*pointers, *[0] * (self._addresses - len(pointers))])

    def _find_scratch(self, stream: RawStream) -> tuple[list[int], Any]:
        """The addresses of counters and of what lies behind them, and what keeps them."""
        nbytes, counters = self._scratch
        if not nbytes:
            return [], None
        base, kept = find_scratch(self._backend, stream, nbytes, counters)
        return [base, base + counters_nbytes(counters)], kept


@functools.cache
def _sections() -> Sections:
    return read_sections(Path(__file__).with_name("cuda_arrays.cu"))


def _source(name: str, types: dict[str, str], words: dict[str, Any], program: Program | None = None) -> str:
    sections = _sections()
    texts = [sections[each][1] for each in collect_sections(sections, [name])]
    aliases = [f"typedef {text} {each};\n" for each, text in types.items()]
    functions = "" if program is None else cuda_source.prelude([program])
    used = [each for each in (HALF, TYPES) if each not in functions]
    defined = [f"#define {word} {text}\n" for word, text in words.items()]
    return "".join([*used, functions, *aliases, *defined, *texts])


def scans(given: DType, dtype: DType) -> bool:
    """Whether a kernel computes running results in ``dtype`` of elements of another dtype, which it converts."""
    if not {given.kind, dtype.kind} <= {*"biufc"}:
        return False
    return given == dtype or (dtype.kind in "iuf" and np.can_cast(given, dtype, "safe"))


_COMBINED = {
    ("b", "+"): "a | b", ("b", "*"): "a & b",
    ("c", "+"): "T{a.x + b.x, a.y + b.y}", ("c", "*"): "T{a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x}",
}  # fmt: skip
"""Operations on numbers of a kind that are no operators of C."""
_OPERANDS = [("load", 0), ("load", 1)]
_FEW_NODES = 16
_LONG = frozenset({"call", "loop", "div", "sqrt", "idiv", "imod", "floordiv", "floormod"})
"""An operation of a scan that has so few nodes, and none of these, is in the text for each element of a chunk."""


class Combination(NamedTuple):
    """An operation of a scan in CUDA C."""

    kind: str
    """The type in which its operands ``a`` and ``b`` are, and its result."""
    text: str
    """The statements of the function, which return that."""
    program: Program | None = None
    """The program that they compute, where there is one."""


def combine_by(symbol: str, dtype: DType) -> Combination:
    """The sum or the product of numbers; of float16 in float32."""
    kind = _WIDE[dtype.itemsize] if dtype.kind in "biu" else c_type(dtype)
    return Combination(kind, f"return {_COMBINED.get((dtype.kind, symbol), f'a {symbol} b')};")


def combine_as(program: Program) -> Combination:
    """The operation that a program of two elements of one dtype computes.

    A sum or a product of floats is the operator: by the functions that round likewise, which the compiler knows less
    well, a scan has half as many registers again, and of 5 x 10^7 float64 took 652 us on an H200 instead of 501.
    """
    dtype, value = program.params[0].dtype, program.stores[0].value
    symbol = {"add": "+", "mul": "*"}.get(value.op, "")
    if symbol and dtype in (FLOAT32, FLOAT64) and [(x.op, x.attr) for x in value.args] == _OPERANDS:
        return combine_by(symbol, dtype)
    kind = "int" if dtype.kind in "biu" and dtype.itemsize < 4 else c_type(dtype)
    lines, (result,) = cuda_source.body(program, {n: f"({c_type(dtype)}){name}" for n, name in enumerate("ab")})
    return Combination(kind, " ".join([*lines, f"return {result};"]), program)


def prepare_scan(
    backend: Any, device: Device, given: DType, dtype: DType, combination: Combination, rows: int, extent: int,
    *, is_segmented: bool = False, first: Any = None,
) -> ArrayKernel:  # fmt: skip
    """Running results of ``rows`` of ``extent`` elements, in C order, to the same layout.

    The results may take the elements' place, unless it is an exclusive scan.

    Args:
        backend, device: The CUDA part of a backend, and where to run.
        given, dtype: Of the elements, and of the results.
        combination: The operation; what it returns is rounded to ``dtype`` at the end.
        rows, extent: The shape.
        is_segmented: Whether flags follow the elements, a byte each, at which results begin anew; of one row.
        first: Of an exclusive scan, the result where there are no elements before.
    """
    nbytes = max(dtype.itemsize, 4)
    lengths = [-(-extent // _CHUNK)]
    while lengths[-1] > 1:
        lengths.append(-(-lengths[-1] // _CHUNK))
    is_packed, warps = extent <= _TILE and rows > 1, _BLOCK_NBYTES // (_TILE * nbytes)
    chunks = lengths[0]
    held = warps * (_CHUNK // chunks) if is_packed else 1
    blocks = -(-extent // (warps * _TILE))  # of a row
    totals = [0, blocks, *lengths[1:]][: _LEVELS + 1]
    if blocks > 1:
        totals[2] = blocks * warps
    at, flags, counters = [0] * _LEVELS, [0] * _LEVELS, 2
    size = 0
    if blocks > 1:
        for level in range(1, len(totals)):
            at[level], flags[level] = size, counters
            size += rows * totals[level]
            counters += rows * (blocks if level == 2 else totals[level])
        flags[0] = counters
    totals += [0] * (_LEVELS - len(totals))
    numbers = struct.pack(f"{4 + 3 * _LEVELS}q", rows, extent, chunks, blocks, *at, *flags, *totals)
    program = combination.program
    nodes = [] if program is None else [node for each in bodies(program) for node in each.nodes]
    is_long = len(nodes) > _FEW_NODES or any(node.op in _LONG for node in nodes)
    types = {"X": storage_type(given), "Y": storage_type(dtype), "T": combination.kind}
    words = {
        "LOAD(x)": f"T({to_register('(x)', given)})", "STORE(x)": to_memory("(x)", dtype),
        "COMBINED": combination.text, "COMPLEX": int(dtype.kind == "c"), "PACKED": int(is_packed), "WARPS": warps,
        "SEGMENTED": int(is_segmented), "EXCLUSIVE": int(first is not None), "UNROLLED": 1 if is_long else _CHUNK,
    }  # fmt: skip
    if first is not None:
        parts = [constant(each, np.asarray(each).dtype) for each in (first.real, first.imag)[: 1 + (dtype.kind == "c")]]
        words["NEUTRAL"] = f"T{{{', '.join(parts)}}}"
    launch = "xf_scan", -(-rows // held) if is_packed else rows * blocks, 32 * warps
    total_nbytes = nbytes * (1 + is_segmented)
    scratch = (counters_nbytes(counters) + size * total_nbytes, counters) if blocks > 1 else (0, 0)
    source, addresses = _source("scan", types, words, program), 4 + is_segmented
    return ArrayKernel(backend, device, source, launch, addresses, numbers, scratch)


def _key_words(dtype: DType, *, descending: bool) -> tuple[dict[str, str], dict[str, Any]]:
    """The types and the words of the text of keys."""
    part = np.empty(0, dtype).real.dtype
    infinite = np.array(np.inf, part).view(f"u{part.itemsize}") if part.kind == "f" else 0
    words = {"KIND": f"'{dtype.kind}'", "INFINITE": f"{int(infinite)}ull", "DESCENDING": int(descending)}
    return {"P": WORDS[part.itemsize]}, words


def prepare_sort(
    backend: Any, device: Device, dtype: DType, rows: int, extent: int, *, descending: bool, wants: str
) -> ArrayKernel | RadixSort:
    """A stable sort of ``rows`` of ``extent`` elements, in C order, NaN last.

    Args:
        backend, device, dtype: The CUDA part of a backend, where to run, and the elements' dtype.
        rows, extent: The shape.
        descending: The order.
        wants: The outputs: ``v`` for the elements in order, ``p`` for the positions from which they come, int64.
    """
    types, words = _key_words(dtype, descending=descending)
    room = ROOM if dtype.itemsize <= 8 else ROOM // 2
    if extent > room:
        return RadixSort(backend, device, dtype, rows, extent, types, words, wants)
    words |= {"ROOM": room, "VALUED": int("v" in wants), "INDEXED": int("p" in wants)}
    chunks = -(-extent // _EACH)
    held = min(rows, max(1, _SHORT // (chunks * _EACH)))
    threads = -(-held * chunks // 32) * 32
    launch = "xf_sort", -(-rows // held), threads
    numbers = struct.pack("q4i", rows, extent, held, chunks, 0)
    return ArrayKernel(backend, device, _source("sort", types, words), launch, 1 + len(wants), numbers)


class RadixSort:
    """A sort of long rows, by eight bits of the elements in each launch.

    Args:
        backend, device, dtype, rows, extent, wants: As of `prepare_sort`.
        types, words: What the text needs to know of the elements.
    """

    def __init__(
        self, backend: Any, device: Device, dtype: DType, rows: int, extent: int, types: dict[str, str],
        words: dict[str, Any], wants: str,
    ) -> None:  # fmt: skip
        self._backend, self._device, self._wants = backend, device, wants
        self._passes, self._size, self._dtype = dtype.itemsize, rows * extent, dtype
        is_indexed, is_long = "p" in wants, extent >= _LONGEST
        self._word = word = 8 if is_long else 4
        items = min(_ITEMS, _THREAD_NBYTES // (dtype.itemsize + is_indexed * word))
        tiles = -(-extent // (_THREADS * items))
        groups = tiles // _GROUP
        self._counts, self._words = word * rows * self._passes * _DIGITS, word * rows * (tiles + groups) * _DIGITS
        self._tickets = -(-4 * rows // 16) * 16
        types |= {"W": WORDS[word], "PLACE": "long long" if is_long else "int"}
        words |= {"THREADS": _THREADS, "ITEMS": items, "GROUP": _GROUP, "INDEXED": int(is_indexed)}
        counters = min(tiles, max(1, _COUNTING // rows))

        def prepare(name: str, blocks: int, addresses: int, number: int) -> ArrayKernel:
            is_last = number == self._passes - 1
            ends = {"FIRST": int(number == 0), "LAST": int(is_last)} if is_indexed else {}
            numbers = struct.pack("q4i", extent, tiles, groups, 8 * number, counters)
            source = _source("radix", types, {**words, **ends})
            return ArrayKernel(backend, device, source, (name, blocks, _THREADS), addresses, numbers)

        self._count = prepare("xf_count", rows * counters, 2, 0)
        places = 2 * is_indexed
        self._moves = [
            prepare("xf_move", rows * tiles, 5 + places - (places and number == 0), number)
            for number in range(self._passes)
        ]

    def run(self, pointers: Sequence[int], stream: RawStream) -> None:
        """Enqueue on ``stream``; the addresses are those of the input and of the outputs."""
        backend, x = self._backend, pointers[0]
        outputs = dict(zip(self._wants, pointers[1:], strict=True))
        each_nbytes = self._tickets + self._words
        zeros = backend.zeros_for(self._counts + self._passes * each_nbytes, stream)
        places_nbytes = -(-self._word * self._size // 16) * 16 * ("p" in outputs)  # behind which keys are aligned
        keys_nbytes = self._size * self._dtype.itemsize
        nbytes = 2 * places_nbytes + keys_nbytes * (1 + ("v" not in outputs))
        rest = backend.empty((nbytes,), _BYTE, device=self._device, stream=stream)
        counts, spare = backend.operands([zeros, rest])
        places, spare = [spare, spare + places_nbytes], spare + 2 * places_nbytes
        keys = [outputs.get("v", spare + keys_nbytes), spare]
        self._count.run([x, counts], stream)
        for number, move in enumerate(self._moves):
            left = self._passes - 1 - number  # the last pass writes the result
            arguments = [x if number == 0 else keys[(left + 1) % 2], keys[left % 2]]
            if "p" in outputs:
                arguments += [places[(left + 1) % 2]] * (number > 0) + [places[left % 2] if left else outputs["p"]]
            told = counts + self._counts + number * each_nbytes
            move.run([*arguments, counts, told, told + self._tickets], stream)

    def repeat(self, *_: Any) -> None:
        """Nothing: it is several launches."""


_SIDE, _SQUARE = 64, 256
"""Of a tile of a product: rows and columns, and the threads of its block."""
_AT_ONCE = 128
"""Blocks that run at a time on a large GPU."""
_WORTH = 1 << 13
"""Elements of a product for each time that blocks fill the GPU, from which tiles are faster than a sum for each one: a
block walks along both matrices alone."""


def multiplies(product: Product) -> bool:
    """Whether a kernel multiplies such matrices in tiles, faster than element by element."""
    dtype = product.dtype
    if dtype.kind not in "iuf" or dtype == np.float16 or product.out.is_transposed:
        return False
    tiles = product.batch * -(-product.rows // _SIDE) * -(-product.columns // _SIDE)
    return product.batch * product.rows * product.columns >= _WORTH * -(-tiles // _AT_ONCE)


def prepare_multiply(backend: Any, device: Device, product: Product) -> Multiply:
    """Multiply matrices that lie so, in one launch; sums of floats add one rounded product after the other."""
    dtype, batch, rows, inner, columns, left, right, out = product
    across = -(-columns // _SIDE)
    tiles = -(-rows // _SIDE) * across
    kind = _WIDE[dtype.itemsize] if dtype.kind in "iu" else c_type(dtype)
    add = {"f4": "fmaf(a, b, sum)", "f8": "fma(a, b, sum)"}.get(dtype.str[1:], "(sum) + (a) * (b)")
    types = {"X": storage_type(dtype), "T": kind}
    words = {
        "ADD_PRODUCT(a, b, sum)": add,
        "LEFT_TURNED": str(int(left.is_transposed)), "RIGHT_TURNED": str(int(right.is_transposed)),
    }  # fmt: skip
    numbers = struct.pack(
        "11q", rows, inner, columns, across, tiles, left.leading, right.leading, out.leading, left.step, right.step,
        out.step
    )  # fmt: skip
    launch = "xf_matmul", batch * tiles, _SQUARE
    kernel = ArrayKernel(backend, device, _source("matmul", types, words), launch, 3, numbers)

    offsets = left.offset, right.offset, out.offset

    def multiply(left: int, right: int, out: int, *, stream: RawStream) -> None:
        kernel.run([*map(operator.add, (left, right, out), offsets)], stream)

    return multiply
