"""CUDA C for an element-wise program and one kind of layout.

Two obvious kernels fail. One with the call's extents and strides written in is fast, but every new shape waits for a
compilation. One that takes any layout from parameters divides indices for every element and moves one element at a
time: instructions bind it instead of memory. So the source depends on a *kind* of call (`CallKind`): the number of
dimensions that remain after collapsing, how each operand is addressed, the width of an access. The extents and
strides are a parameter, and one compilation serves all sizes of a kind.

Each thread computes ``width`` neighbouring elements of the innermost dimension, so that an operand that is contiguous
there moves in one access of up to 16 bytes. An operand that is contiguous across the rows instead (a transposed one)
would waste most of every 32-byte sector: there a warp covers a tile of several rows. Offsets take 64 bits only where
32 could overflow: 64-bit index arithmetic costs registers and time. An address that is no multiple of the element's
size is moved in parts, for a misaligned access on a GPU is an error that destroys the context.

The text is part of the disk cache's key: any change of it, a blank too, compiles every user's kernels anew.
"""

from __future__ import annotations

from dataclasses import dataclass

from xferlib.kernels.engines.cuda import loops, updates
from xferlib.kernels.engines.cuda.ops import c_type, constant, expression, fetched, loaded, put, storage_type, stored
from xferlib.kernels.engines.cuda.prelude import PARTS, prelude
from xferlib.kernels.ir.formulas.own_functions import expanded
from xferlib.kernels.ir.layout_facts import facts
from xferlib.kernels.ir.nodes import DType, Node, Program
from xferlib.kernels.ir.updates import real_operands

ENTRY = "xf_kernel"


@dataclass(frozen=True, slots=True)
class OperandAccess:
    """How an operand's elements are addressed: ``vector``, ``unit``, ``strided``, or ``same`` for the whole row."""

    kind: str
    is_restrict: bool
    word: int
    """Bytes of the widest access to an element: see `xferlib.kernels.ir.layout.word_of`."""


@dataclass(frozen=True, slots=True)
class CallKind:
    """The kind of a call: all that the source depends on besides the program."""

    rank: int
    width: int
    unroll: int
    is_wide: bool
    """Offsets need 64 bits."""
    accesses: tuple[OperandAccess, ...]
    """For each element-wise operand, in parameter order."""
    tile: int
    """Rows of a warp's tile, where an operand is contiguous across the rows of a matrix; 0: no tiles."""
    raw_ranks: tuple[int, ...]
    """For each raw operand: the dimensions that remain after collapsing."""
    raw_words: tuple[int, ...]
    """For each raw operand: as `OperandAccess.word`."""
    threads: int = 256
    """Of a block."""


def elementwise_source(program: Program, shape: CallKind) -> str:
    """The whole source of the kernel, named `ENTRY`."""
    program = expanded(program)
    writer = _ElementwiseWriter(program, shape)
    functions = updates.FUNCTIONS if updates.kinds([program]) - {"store"} else ""
    return prelude([program]) + (PARTS if writer.needs_parts() else "") + functions + writer.kernel()


class _ElementwiseWriter:
    def __init__(self, program: Program, shape: CallKind) -> None:
        self.program = program
        self.shape = shape
        self.index = "long long" if shape.is_wide else "int"
        params = list(enumerate(program.params))
        self.elements = [number for number, param in params if not (param.is_raw or param.is_scalar)]
        self.raw = [number for number, param in params if param.is_raw]
        self.scalars = [number for number, param in params if param.is_scalar]
        self.access = dict(zip(self.elements, shape.accesses, strict=True))
        self.words = {number: access.word for number, access in self.access.items()}
        self.words |= dict(zip(self.raw, shape.raw_words, strict=True))
        self.names: dict[int, str] = {}
        self.facts = facts(program)

    def needs_parts(self) -> bool:
        """Whether the elements of an operand are not aligned."""
        return any(word < self._dtype(number).itemsize for number, word in self.words.items())

    def kernel(self) -> str:
        body = self._body()
        return f"""\
struct xf_geometry {{ {self._geometry()} }};
extern "C" __global__ void __launch_bounds__({self.shape.threads}) {ENTRY}({", ".join(self._parameters())}) {{
{body}}}
"""

    def _geometry(self) -> str:
        rank, operands = self.shape.rank, len(self.elements)
        fields = ["count", "vectors"]
        if rank > 1:
            fields += [f"extent[{rank}]", "row_vectors", "tiles"]
        if operands:
            fields.append(f"stride[{operands}][{max(rank, 1)}]")
        for number, raw_rank in zip(self.raw, self.shape.raw_ranks, strict=True):
            fields += [f"length{number}", f"raw_extent{number}[{raw_rank}]", f"raw_stride{number}[{raw_rank}]"]
        fields += [f"fact{number}" for number, _ in enumerate(self.facts)]
        return " ".join(f"{self._field_type(each)} {each};" for each in fields)

    def _field_type(self, field: str) -> str:
        return "long long" if field.startswith(("length", "raw", "fact")) else self.index

    def _parameters(self) -> list[str]:
        result = []
        for number in (*self.elements, *self.raw):
            is_const = number not in self.program.writes
            is_restrict = self.access[number].is_restrict if number in self.access else is_const
            restrict = " __restrict__" if is_restrict else ""
            result.append(f"{'const ' if is_const else ''}char*{restrict} p{number}")
        scalars = [f"{storage_type(self._dtype(number))} s{number}" for number in self.scalars]
        return [*result, *scalars, "const __grid_constant__ xf_geometry g"]

    # --- the body
    def _body(self) -> str:
        width, unroll = self.shape.width, self.shape.unroll
        lines = [f"  {self.index} vector = ({self.index})blockIdx.x * {self.shape.threads * unroll} + threadIdx.x;"]
        if unroll > 1:
            lines.append(f"  #pragma unroll\n  for (int u = 0; u < {unroll}; ++u, vector += {self.shape.threads}) {{")
        lines.append("  if (vector >= g.vectors) return;")
        lines += self._offsets()
        lines.append(f"  const bool is_full = left >= {width};")
        for number in self.elements:
            lines += self._load(number)
        for number in self._written():
            lines.append(f"  __align__(16) {storage_type(self._dtype(number))} o{number}[{width}];")
        lines.append(f"  #pragma unroll\n  for (int j = 0; j < {width}; ++j) {{")
        if any(each.index is not None for each in self.program.stores) or self.raw:
            lines.append("    if (j >= left) break;")
        lines += self._nodes()
        lines += self._stores()
        lines.append("  }")
        for number in self._written():
            lines += self._flush(number)
        if unroll > 1:
            lines.append("  }")
        return "\n".join(lines) + "\n"

    def _offsets(self) -> list[str]:
        """Define ``first`` (index of the first element), ``left`` (elements to the row's end) and offsets ``f*``."""
        width, rank, index = self.shape.width, self.shape.rank, self.index
        if rank <= 1:
            lines = [f"  {index} first = vector * {width}, column = first, left = g.count - first;"]
            return lines + [f"  {index} f{number} = 0;" for number in self.elements]
        if self.shape.tile:
            return self._tile_offsets()
        lines = [
            f"  {index} row = vector / g.row_vectors, column = (vector - row * g.row_vectors) * {width};",
            f"  {index} first = row * g.extent[{rank - 1}] + column, left = g.extent[{rank - 1}] - column;",
        ]
        lines += [f"  {index} f{number} = 0;" for number in self.elements]
        for axis in range(rank - 2, -1, -1):
            if axis:
                extent = f"g.extent[{axis}]"
                lines.append(f"  {{ {index} rest = row / {extent}, at = row - rest * {extent}; row = rest;")
            else:
                lines.append(f"  {{ {index} at = row;")
            steps = [f"f{number} += at * g.stride[{k}][{axis}];" for k, number in enumerate(self.elements)]
            lines.append("    " + " ".join(steps) + " }")
        return lines

    def _tile_offsets(self) -> list[str]:
        """The offsets of a warp's tile, which reads whole sectors of operands along the rows and across them alike."""
        width, tile, index = self.shape.width, self.shape.tile, self.index
        lines = [
            f"  {index} warp = vector >> 5, lane = vector & 31, band = warp / g.tiles;",
            f"  {index} row = band * {tile} + lane % {tile};",
            f"  {index} column = ((warp - band * g.tiles) * {32 // tile} + lane / {tile}) * {width};",
            "  if (row >= g.extent[0] || column >= g.extent[1]) return;",
            f"  {index} first = row * g.extent[1] + column, left = g.extent[1] - column;",
        ]
        return lines + [f"  {index} f{number} = row * g.stride[{k}][0];" for k, number in enumerate(self.elements)]

    def _dtype(self, number: int) -> DType:
        return self.program.params[number].dtype

    def _written(self) -> list[int]:
        return [number for number in self.elements if number in self.program.writes]

    def _address(self, number: int, element: str) -> str:
        axis = max(self.shape.rank, 1) - 1
        kind = self.access[number].kind
        size = self._dtype(number).itemsize
        if kind == "same":
            return f"p{number} + f{number}"
        step = f"{size}" if kind in ("vector", "unit") else f"g.stride[{self.elements.index(number)}][{axis}]"
        return f"p{number} + f{number} + ({element}) * {step}"

    def _load(self, number: int) -> list[str]:
        if number not in self.program.reads:
            return []
        memory, width = storage_type(self._dtype(number)), self.shape.width
        name = f"l{number}"
        lines = [f"  __align__(16) {memory} {name}[{width}];"]
        each = self._fetched(number, self._address(number, "column + j"))
        loop = f"#pragma unroll\n    for (int j = 0; j < {width}; ++j) if (j < left) {name}[j] = {each};"
        if self.access[number].kind == "vector" and width > 1:
            nbytes = width * self._dtype(number).itemsize
            moves = _vector_moves(nbytes, name, self._address(number, "column"), is_load=True)
            lines.append(f"  if (is_full) {{ {moves} }} else {{\n    {loop}\n  }}")
        elif self.access[number].kind == "same":
            same = self._fetched(number, self._address(number, "0"))
            lines.append(f"  {{ {memory} v = {same};\n    #pragma unroll")
            lines.append(f"    for (int j = 0; j < {width}; ++j) {name}[j] = v; }}")
        else:
            lines.append(f"  {{\n    {loop}\n  }}")
        return lines

    def _flush(self, number: int) -> list[str]:
        width = self.shape.width
        each = self._put(number, self._address(number, "column + j"), f"o{number}[j]")
        loop = f"#pragma unroll\n    for (int j = 0; j < {width}; ++j) if (j < left) {each}"
        if self.access[number].kind == "vector" and width > 1:
            nbytes = width * self._dtype(number).itemsize
            moves = _vector_moves(nbytes, f"o{number}", self._address(number, "column"), is_load=False)
            return [f"  if (is_full) {{ {moves} }} else {{\n    {loop}\n  }}"]
        return [f"  {{\n    {loop}\n  }}"]

    def _fetched(self, number: int, address: str) -> str:
        return fetched(address, self._dtype(number), self.words[number])

    def _put(self, number: int, address: str, value: str) -> str:
        return put(address, value, self._dtype(number), self.words[number])

    # --- nodes
    def _nodes(self) -> list[str]:
        nodes, math = self.program.nodes, self.program.math
        return loops.statements(nodes, self.names, "v", self._value, self._gather, self._update, math)

    def _value(self, node: Node) -> str:
        op = node.op
        if op == "const":
            return constant(node.attr, node.dtype)
        if op == "load":
            is_scalar = self.program.params[node.attr].is_scalar
            return loaded(f"s{node.attr}" if is_scalar else f"l{node.attr}[j]", node.dtype)
        if op == "index":
            return "(long long)first + j"
        if op == "size":
            return "(long long)g.count"
        if op == "fact":
            return f"g.fact{self.facts.index(node.attr)}"
        if op == "length":
            return f"g.length{node.attr}"
        if op == "gather":
            return self._gather(node, node.attr, [self.names[id(each)] for each in real_operands(node)])
        return expression(node, [self.names[id(each)] for each in node.args], self.program.math)

    def _gather(self, node: Node, array: int, args: list[str]) -> str:
        """An element of a raw array; 0 out of range, so that a wrong kernel cannot read foreign memory."""
        index, *mask = args
        inside = " && ".join([*mask, f"(unsigned long long){index} < (unsigned long long)g.length{array}"])
        value = loaded(self._fetched(array, self._raw_address(array, index)), node.dtype)
        zero = f"{c_type(node.dtype)}{{0, 0}}" if node.dtype.kind == "c" else f"({c_type(node.dtype)})0"
        return f"{inside} ? {value} : {zero}"

    def _update(self, node: Node, array: int, args: list[str], name: str) -> str:
        """The statement of an update; none out of range."""
        index, value, mask, *_ = args
        address = self._raw_address(array, index)
        if node.attr.kind == "store":
            done = self._put(array, address, stored(value, node.dtype))
        else:
            done = updates.statement(node.attr, node.dtype, address, args, name)
        return f"if ({mask} && (unsigned long long){index} < (unsigned long long)g.length{array}) {{ {done} }}"

    def _raw_address(self, number: int, index: str) -> str:
        rank = self.shape.raw_ranks[self.raw.index(number)]
        terms, rest = [], index
        for axis in range(rank - 1, -1, -1):
            extent = f"g.raw_extent{number}[{axis}]"
            at = f"({rest})" if axis == 0 else f"({rest}) % {extent}"
            terms.append(f"({at}) * g.raw_stride{number}[{axis}]")
            rest = f"({rest}) / {extent}"
        return f"p{number} + {' + '.join(terms)}"

    def _stores(self) -> list[str]:
        lines = []
        for store in self.program.stores:
            dtype = self._dtype(store.param)
            value = stored(self.names[id(store.value)], dtype)
            if store.index is None:
                lines.append(f"    o{store.param}[j] = {value};")
                continue
            index = self.names[id(store.index)]
            test = f"(unsigned long long){index} < (unsigned long long)g.length{store.param}"
            if store.mask is not None:
                test = f"{self.names[id(store.mask)]} && {test}"
            address = self._raw_address(store.param, index)
            lines.append(f"    if ({test}) {{ {self._put(store.param, address, value)} }}")
        return lines


def _vector_moves(nbytes: int, local: str, address: str, *, is_load: bool) -> str:
    """The moves between memory and a local array, in words of 16 bytes or the largest power of two that fits."""
    word = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "uint2"}.get(nbytes, "uint4")
    size = min(nbytes, 16)
    moves = []
    for part in range(nbytes // size):
        inner = f"(({word}*){local})[{part}]"
        outer = f"(({'const ' if is_load else ''}{word}*)({address}))[{part}]"
        moves.append(f"{inner} = {outer};" if is_load else f"{outer} = {inner};")
    return " ".join(moves)
