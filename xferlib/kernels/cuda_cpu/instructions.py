"""Instructions of PTX in C: the handler of each.

Where C differs from the GPU: NaN results of float are 0x7fffffff; shifts by more than the width give 0 or the sign;
division of integers by 0 gives all ones; conversions to integers clamp. min and max ignore NaN, and order the zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from xferlib.kernels.cuda_cpu import dataflow, ptx
from xferlib.kernels.cuda_cpu.dataflow import NO_EFFECT
from xferlib.kernels.cuda_cpu.function_writer import (
    C_NBYTES,
    FLOATS,
    SPACE_FLAGS,
    VECTORS,
    FunctionWriter,
    Handler,
    name_c_type,
    write_integer,
)
from xferlib.kernels.cuda_cpu.ptx import (
    NBYTES,
    Address,
    Immediate,
    Instruction,
    NoOperand,
    Operand,
    OperandList,
    Pair,
    PtxFunction,
    PtxLabel,
    PtxVariable,
    Register,
    Special,
    Symbol,
    Vector,
)

_NARROW = {"f16": "XF_HALF", "bf16": "XF_BFLOAT"}
_PACKED = {"f16x2": "f16", "bf16x2": "bf16", "u16x2": "u16", "s16x2": "s16", "f32x2": "f32"}
_MODES = {"rn": "XF_RN", "rz": "XF_RZ", "rm": "XF_RM", "rp": "XF_RP", "rna": "XF_RNA",
          "rni": "XF_RN", "rzi": "XF_RZ", "rmi": "XF_RM", "rpi": "XF_RP"}  # fmt: skip
_SPACES = ("global", "shared", "local", "const", "param")
_SCOPES = {"cta", "cluster", "gpu", "sys"}
_CACHE = {"ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "unified", "weak"}
_ORDERS: dict[str, list[str]] = {
    "volatile": [], "relaxed": [], "mmio": [], "acquire": ["XF_ACQUIRE"], "release": ["XF_RELEASE"],
}  # fmt: skip
"""The words of a load or a store that is seen by other threads, and their flags."""
_ATOMIC_ORDERS: dict[str, list[str]] = {
    "relaxed": [], "noftz": [], "cta": ["XF_NARROW"], "acquire": ["XF_ACQUIRE"], "release": ["XF_RELEASE"],
    "acq_rel": ["XF_ACQUIRE", "XF_RELEASE"], "sc": ["XF_ACQUIRE", "XF_RELEASE"],
}  # fmt: skip
_ATOMICS = {"add": "XF_ADD", "min": "XF_MIN", "max": "XF_MAX", "inc": "XF_INC", "dec": "XF_DEC", "and": "XF_AND",
            "or": "XF_OR", "xor": "XF_XOR", "exch": "XF_EXCH", "cas": "XF_CAS"}  # fmt: skip
_ATOMIC_TYPES = {"b16": "XF_U16", "u16": "XF_U16", "b32": "XF_U32", "u32": "XF_U32", "s32": "XF_S32", "b64": "XF_U64",
                 "u64": "XF_U64", "s64": "XF_S64", "f16": "XF_F16", "f16x2": "XF_F16X2", "bf16": "XF_BF16",
                 "bf16x2": "XF_BF16X2", "f32": "XF_F32", "f64": "XF_F64", "b128": "XF_B128"}  # fmt: skip
_BUILTINS = {"vprintf": 2, "__assertfail": 5, "malloc": 1, "free": 1}

_INTEGERS = {"u16", "s16", "u32", "s32", "u64", "s64", "b16", "b32", "b64"}
_PACKED_INTEGERS = {"u16x2", "s16x2"}
_HANDLERS: dict[str, Handler] = {}
"""By opcode."""
_FLOAT_HANDLERS: dict[str, Handler] = {}
"""Of the opcodes that have another one for floats."""


def _covers(*opcodes: str, table: dict[str, Handler] = _HANDLERS) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        table.update(dict.fromkeys(opcodes, handler))
        return handler

    return register


def find_handler(item: Instruction) -> Handler | None:
    """The handler of an instruction; None of one that is not known."""
    types = [word for word in item.modifiers if word in NBYTES]
    integers = _INTEGERS | _PACKED_INTEGERS if item.opcode in ("add", "sub", "min", "max") else _INTEGERS
    is_float = item.opcode in _FLOAT_HANDLERS and bool(types) and types[-1] not in integers
    return (_FLOAT_HANDLERS if is_float else _HANDLERS).get(item.opcode)


def _find_unsigned(ptx_type: str) -> str:
    return f"u{8 * NBYTES[ptx_type]}"


@dataclass(frozen=True, slots=True)
class _Formula:
    """An instruction that is one C expression of its operands.

    In the types ``u`` and ``t`` are that of the instruction, unsigned and as it is. The expression has the operands by
    number, ``nbits``, ``is_signed`` and the highest bit ``top`` of the type, and whether each flag is there.
    """

    result: str
    operands: str
    expression: str
    flags: tuple[str, ...] = ()

    def __call__(self, writer: FunctionWriter, item: Instruction) -> None:
        (ptx_type,), flags = writer.split(item, self.flags, 1)
        kind = _find_unsigned(ptx_type)
        types = [{"u": kind, "t": ptx_type}.get(each, each) for each in (self.result, *self.operands.split())]
        d, *operands = writer.take_operands(len(types))
        values = [writer.read(operand, each) for operand, each in zip(operands, types[1:], strict=True)]
        nbits = 8 * NBYTES[ptx_type]
        given = {flag: int(flag in flags) for flag in self.flags}
        expression = self.expression.format(
            *values, kind=kind, type=ptx_type, nbits=nbits, is_signed=int(ptx_type[0] == "s"),
            top=write_integer(1 << (nbits - 1), kind), **given,
        )  # fmt: skip
        writer.assign(d, types[0], expression)


_HANDLERS.update({
    "div": _Formula("u", "t t", "xf_div_{type}({0}, {1})"), "rem": _Formula("u", "t t", "xf_rem_{type}({0}, {1})"),
    "popc": _Formula("u32", "u", "xf_popc({0})"), "clz": _Formula("u32", "u", "xf_clz{nbits}({0})"),
    "brev": _Formula("u", "u", "xf_brev{nbits}({0})"), "cnot": _Formula("u", "u", "({kind})({0} == 0)"),
    "bfind": _Formula("u32", "u", "xf_bfind({0}, {nbits}, {is_signed}, {shiftamt})", ("shiftamt",)),
    "fns": _Formula("u32", "u32 u32 s32", "xf_fns({0}, {1}, {2})"),
    "bfi": _Formula("u", "u u u32 u32", "({kind})xf_bfi({0}, {1}, {2}, {3}, {nbits})"),
    "bmsk": _Formula("u32", "u32 u32", "xf_bmsk({0}, {1}, {wrap})", ("clamp", "wrap")),
    "szext": _Formula("u32", "u32 u32", "xf_szext({0}, {1}, {wrap}, {is_signed})", ("clamp", "wrap")),
    "selp": _Formula("t", "t t pred", "({2} ? {0} : {1})"),
    "copysign": _Formula("u", "u u", "(({0} & {top}) | ({1} & ~{top}))"),
})  # fmt: skip
_EXTRACT = _Formula("u", "u u32 u32", "({kind})xf_bfe({0}, {1}, {2}, {nbits}, {is_signed})")


def _write_packed(
    writer: FunctionWriter, ptx_type: str, sources: list[Operand], scalar: Callable[[list[str]], str]
) -> None:
    """An instruction on both halves of its operands; `scalar` writes it for one half, given the operands' halves."""
    part = _PACKED[ptx_type]
    nbytes = NBYTES[part]
    half = name_c_type(f"b{8 * nbytes}")
    names = writer.bind(ptx_type, sources)
    lows = [f"(({half}){name})" for name in names]
    highs = [f"(({half})({name} >> {8 * nbytes}))" for name in names]
    if part == "f32":
        lows, highs = ([f"xf_f32({name})" for name in side] for side in (lows, highs))
    low, high = scalar(lows), scalar(highs)
    if part == "f32":
        low, high = f"xf_b32({low})", f"xf_b32({high})"
    kind = name_c_type(ptx_type)
    writer.assign(
        writer.instruction.operands[0],
        ptx_type,
        f"({kind})(({kind})({half})({low}) | ({kind})({half})({high}) << {8 * nbytes})",
    )


# ---- integers ----


def _wrap(ptx_type: str, expression: str) -> str:
    return f"(({_find_unsigned(ptx_type)})({expression}))"


@_covers("add", "sub")
def _add(writer: FunctionWriter, item: Instruction) -> None:
    types, flags = writer.split(item, {"sat", "cc"}, 1)
    ptx_type = types[0]
    operator = "+" if item.opcode == "add" else "-"
    _, a, b = writer.take_operands(3)
    if ptx_type in _PACKED:
        _write_packed(writer, ptx_type, [a, b], lambda halves: f"{halves[0]} {operator} {halves[1]}")
    elif "sat" in flags:
        writer.assign(item.operands[0], "u32", f"xf_{item.opcode}s({writer.read(a, 's32')}, {writer.read(b, 's32')})")
    elif "cc" in flags:
        x, y = writer.bind(_find_unsigned(ptx_type), [a, b])
        writer.add_line(
            f"cc = {f'({_find_unsigned(ptx_type)})({x} + {y}) < {x}' if operator == '+' else f'{x} >= {y}'};"
        )
        writer.assign(item.operands[0], _find_unsigned(ptx_type), f"{x} {operator} {y}")
    else:
        kind = _find_unsigned(ptx_type)
        writer.assign(
            item.operands[0], kind, _wrap(ptx_type, f"{writer.read(a, kind)} {operator} {writer.read(b, kind)}")
        )


@_covers("addc", "subc")
def _add_carry(writer: FunctionWriter, item: Instruction) -> None:
    """With the carry of what came before: of a difference, which is a sum with the complement, that there is no borrow.

    PTX's manual speaks of a borrow; what NVRTC makes of a quotient of __int128 reads the carry of `subc` by `addc`.
    """
    types, flags = writer.split(item, {"cc"}, 1)
    kind = _find_unsigned(types[0])
    d, a, b = writer.take_operands(3)
    x, y = writer.bind(kind, [a, b])
    if item.opcode == "addc":
        writer.add_line(f"const {kind} s = {x} + {y}, r = s + cc;")
        carry = f"(s < {x}) | (r < s)"
    else:
        writer.add_line(f"const {kind} s = {x} - {y}, r = s - !cc;")
        carry = f"({x} >= {y}) & (s >= !cc)"
    if "cc" in flags:
        writer.add_line(f"cc = {carry};")
    writer.assign(d, kind, "r")


def _write_product(ptx_type: str, part: str, a: str, b: str) -> str:
    """The part (lo, hi, wide) of a product; a and b have the type's own C type."""
    unsigned, nbits, signed = _find_unsigned(ptx_type), 8 * NBYTES[ptx_type], ptx_type[0] == "s"
    if part == "lo":
        return f"((u16)((u32){a} * (u32){b}))" if nbits == 16 else f"(({unsigned}){a} * ({unsigned}){b})"
    if nbits == 64:
        return f"xf_mulhi_{ptx_type}({a}, {b})"
    wide = f"{'s' if signed else 'u'}{2 * nbits}"
    product = f"(({wide}){a} * ({wide}){b})"
    if part == "wide":
        return f"((u{2 * nbits}){product})"
    return f"(({unsigned})({product} >> {nbits}))"


@_covers("mul", "mad")
def _multiply(writer: FunctionWriter, item: Instruction) -> None:
    types, flags = writer.split(item, {"lo", "hi", "wide", "sat", "cc"}, 1)
    ptx_type = types[0]
    part = next((word for word in ("lo", "hi", "wide") if word in flags), "")
    if not part or (part == "wide" and NBYTES[ptx_type] == 8):
        writer.refuse()
    result = f"u{16 * NBYTES[ptx_type]}" if part == "wide" else _find_unsigned(ptx_type)
    operands = writer.take_operands(3 if item.opcode == "mul" else 4)
    product = _write_product(ptx_type, part, writer.read(operands[1], ptx_type), writer.read(operands[2], ptx_type))
    if item.opcode == "mul":
        writer.assign(operands[0], result, product)
    elif "sat" in flags:
        writer.assign(operands[0], "u32", f"xf_adds((s32){product}, {writer.read(operands[3], 's32')})")
    elif "cc" in flags:
        _write_carry_product(writer, operands, result, product, carry_in=False, carry_out=True)
    else:
        writer.assign(operands[0], result, _wrap(result, f"{product} + {writer.read(operands[3], result)}"))


def _write_carry_product(
    writer: FunctionWriter, operands: list[Operand], kind: str, product: str, *, carry_in: bool, carry_out: bool
) -> None:
    third, carry = writer.read(operands[3], kind), " + cc" if carry_in else ""
    writer.open_block(f"const {kind} p = {product}, y = {third}, s = p + y, r = s{carry};")
    if carry_out:
        writer.add_line("cc = (s < p) | (r < s);")
    writer.assign(operands[0], kind, "r")


@_covers("madc")
def _multiply_carry(writer: FunctionWriter, item: Instruction) -> None:
    types, flags = writer.split(item, {"lo", "hi", "cc"}, 1)
    operands = writer.take_operands(4)
    product = _write_product(
        types[0],
        "lo" if "lo" in flags else "hi",
        writer.read(operands[1], types[0]),
        writer.read(operands[2], types[0]),
    )
    _write_carry_product(writer, operands, _find_unsigned(types[0]), product, carry_in=True, carry_out="cc" in flags)


@_covers("mul24", "mad24")
def _multiply24(writer: FunctionWriter, item: Instruction) -> None:
    types, flags = writer.split(item, {"lo", "hi", "sat"}, 1)
    operands = writer.take_operands(3 if item.opcode == "mul24" else 4)
    wide = "s64" if types[0] == "s32" else "u64"
    factors = [f"({wide})(({types[0]})({writer.read(operand, 'u32')} << 8) >> 8)" for operand in operands[1:3]]
    product = f"((u32)(({factors[0]} * {factors[1]}) >> {16 if 'hi' in flags else 0}))"
    if item.opcode == "mad24":
        c = operands[3]
        product = (
            f"xf_adds((s32){product}, {writer.read(c, 's32')})"
            if "sat" in flags
            else f"({product} + {writer.read(c, 'u32')})"
        )
    writer.assign(operands[0], "u32", product)


@_covers("sad")
def _sum_differences(writer: FunctionWriter, item: Instruction) -> None:
    (ptx_type,), _ = writer.split(item, (), 1)
    d, a, b, c = writer.take_operands(4)
    kind = _find_unsigned(ptx_type)
    third = writer.read(c, kind)
    x, y = writer.bind(ptx_type, [a, b])
    writer.assign(
        d, kind, _wrap(ptx_type, f"{third} + ({x} < {y} ? ({kind}){y} - ({kind}){x} : ({kind}){x} - ({kind}){y})")
    )


@_covers("abs", "neg")
def _take_absolute(writer: FunctionWriter, item: Instruction) -> None:
    (ptx_type,), _ = writer.split(item, (), 1)
    d, a = writer.take_operands(2)
    kind = _find_unsigned(ptx_type)
    (x,) = writer.bind(kind, [a])
    negated = f"({kind})(0 - {x})"
    writer.assign(d, kind, negated if item.opcode == "neg" else f"(({ptx_type}){x} < 0 ? {negated} : {x})")


@_covers("min", "max")
def _choose_extreme(writer: FunctionWriter, item: Instruction) -> None:
    (ptx_type,), flags = writer.split(item, {"relu"}, 1)
    sign = "<" if item.opcode == "min" else ">"

    def scalar(kind: str, a: str, b: str) -> str:
        result = f"(({kind}){a} {sign} ({kind}){b} ? ({kind}){a} : ({kind}){b})"
        return f"({result} > 0 ? {result} : 0)" if "relu" in flags else result

    d, a, b = writer.take_operands(3)
    if ptx_type in _PACKED:
        _write_packed(writer, ptx_type, [a, b], lambda halves: scalar(_PACKED[ptx_type], *halves))
    else:
        x, y = writer.bind(ptx_type, [a, b])
        writer.assign(d, _find_unsigned(ptx_type), f"({_find_unsigned(ptx_type)}){scalar(name_c_type(ptx_type), x, y)}")


@_covers("bfe")
def _extract(writer: FunctionWriter, item: Instruction) -> None:
    (ptx_type,), _ = writer.split(item, (), 1)
    d, a, b, c = writer.take_operands(4)
    if isinstance(b, Immediate) and isinstance(c, Immediate) and not b.nbits and not c.nbits:
        kind, nbits = _find_unsigned(ptx_type), 8 * NBYTES[ptx_type]
        begin, count = int(b.value) & 255, int(c.value) & 255
        if count and begin + count <= nbits:  # two shifts
            value = writer.read(a, kind)
            writer.assign(d, kind, f"({kind})(({ptx_type})({value} << {nbits - begin - count}) >> {nbits - count})")
            return
    _EXTRACT(writer, item)


@_covers("dp4a", "dp2a")
def _add_dot_product(writer: FunctionWriter, item: Instruction) -> None:
    types, flags = writer.split(item, {"lo", "hi"}, 2)
    d, a, b, c = writer.take_operands(4)
    second = writer.read(b, "u32")
    if "hi" in flags:
        second = f"({second} >> 16)"
    signs = ", ".join(str(int(ptx_type == "s32")) for ptx_type in types)
    writer.assign(
        d, "u32", f"xf_dot{item.opcode[2]}({writer.read(a, 'u32')}, {second}, {writer.read(c, 'u32')}, {signs})"
    )


@_covers("and", "or", "xor", "not")
def _combine_bits(writer: FunctionWriter, item: Instruction) -> None:
    (ptx_type,), _ = writer.split(item, (), 1)
    kind = "pred" if ptx_type == "pred" else _find_unsigned(ptx_type)
    if item.opcode == "not":
        d, a = writer.take_operands(2)
        value = writer.read(a, kind)
        writer.assign(d, kind, f"!{value}" if ptx_type == "pred" else _wrap(ptx_type, f"~{value}"))
        return
    d, a, b = writer.take_operands(3)
    operator = {"and": "&", "or": "|", "xor": "^"}[item.opcode]
    expression = f"{writer.read(a, kind)} {operator} {writer.read(b, kind)}"
    writer.assign(d, kind, expression if ptx_type == "pred" else _wrap(ptx_type, expression))


@_covers("lop3")
def _look_up_bits(writer: FunctionWriter, item: Instruction) -> None:
    _, flags = writer.split(item, {"or", "and"}, 1)
    d, a, b, c, table, *rest = writer.take_operands(5, 6)
    if not isinstance(table, Immediate):
        writer.fail("the table of lop3 is not a constant")
    x, y, z = writer.bind("u32", [a, b, c])
    lut = int(table.value) & 255
    inverted = lut.bit_count() > 4
    terms = [
        f"({'' if bit & 4 else '~'}{x} & {'' if bit & 2 else '~'}{y} & {'' if bit & 1 else '~'}{z})"
        for bit in range(8)
        if (lut >> bit & 1) != inverted
    ]
    expression = f"{'~' if inverted else ''}({' | '.join(terms) or '0u'})"
    if isinstance(d, Pair):
        writer.add_line(f"const u32 r = {expression};")
        writer.add_line(f"const u32 q = {writer.read(rest[0], 'pred')};")
        _assign_with_predicate(writer, d, f"(r != 0) {'|' if 'or' in flags else '&'} q")
    else:
        writer.assign(d, "u32", expression)


@_covers("shl", "shr")
def _shift(writer: FunctionWriter, item: Instruction) -> None:
    (ptx_type,), _ = writer.split(item, (), 1)
    d, a, b = writer.take_operands(3)
    kind, nbits = _find_unsigned(ptx_type), 8 * NBYTES[ptx_type]
    signed = item.opcode == "shr" and ptx_type[0] == "s"
    value = writer.read(a, ptx_type if signed else kind)
    operator = "<<" if item.opcode == "shl" else ">>"
    if isinstance(b, Immediate) and not b.nbits:
        amount = int(b.value) & 0xFFFFFFFF
        if amount >= nbits and not signed:
            writer.assign(d, kind, write_integer(0, kind))
        else:
            writer.assign(d, kind, _wrap(ptx_type, f"{value} {operator} {min(amount, nbits - 1)}"))
        return
    amount_of = writer.read(b, "u32")
    if signed:
        writer.assign(d, kind, _wrap(ptx_type, f"{value} >> ({amount_of} < {nbits} ? {amount_of} : {nbits - 1})"))
    else:
        writer.assign(d, kind, f"({amount_of} < {nbits} ? {_wrap(ptx_type, f'{value} {operator} {amount_of}')} : 0)")


@_covers("shf")
def _shift_funnel(writer: FunctionWriter, item: Instruction) -> None:
    _, flags = writer.split(item, {"l", "r", "clamp", "wrap"}, 1)
    d, a, b, c = writer.take_operands(4)
    side = "l" if "l" in flags else "r"
    values = ", ".join(writer.read(operand, "u32") for operand in (a, b, c))
    writer.assign(d, "u32", f"xf_shf_{side}({values}, {int('wrap' in flags)})")


@_covers("prmt")
def _permute(writer: FunctionWriter, item: Instruction) -> None:
    modes = ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
    _, flags = writer.split(item, modes, 1)
    d, a, b, c = writer.take_operands(4)
    values = ", ".join(writer.read(operand, "u32") for operand in (a, b, c))
    mode = next((number for number, name in enumerate(modes) if name in flags), None)
    writer.assign(d, "u32", f"xf_prmt({values})" if mode is None else f"xf_prmt_mode({values}, {mode})")


@_covers(*(f"v{name}{lanes}" for name in ("add", "sub", "avrg", "absdiff", "min", "max") for lanes in "24"))
def _compute_video(writer: FunctionWriter, item: Instruction) -> None:
    """Bytes or halves of words; with .add their sum instead."""
    types, flags = writer.split(item, {"add", "sat"}, 3)
    operands = writer.take_operands(4)
    lanes, name = int(item.opcode[-1]), item.opcode[1:-1]
    nbits = 32 // lanes
    mask = (1 << nbits) - 1
    a, b, c = writer.bind("u32", operands[1:])
    least, most = (-(1 << (nbits - 1)), mask >> 1) if types[0] == "s32" else (0, mask)
    parts = []
    for lane in range(lanes):
        x, y = (
            f"(s32)({'s' if ptx_type == 's32' else 'u'}{nbits})({value} >> {lane * nbits})"
            for value, ptx_type in ((a, types[1]), (b, types[2]))
        )
        result = {
            "add": f"({x} + {y})", "sub": f"({x} - {y})", "avrg": f"(({x} + {y} + ({x} + {y} >= 0)) >> 1)",
            "absdiff": f"({x} < {y} ? {y} - {x} : {x} - {y})", "min": f"({x} < {y} ? {x} : {y})",
            "max": f"({x} > {y} ? {x} : {y})",
        }[name]  # fmt: skip
        if "sat" in flags:
            result = f"({result} < {least} ? {least} : {result} > {most} ? {most} : {result})"
        parts.append(f"(u32){result}")
    if "add" in flags:
        writer.assign(operands[0], "u32", f"({c} + {' + '.join(parts)})")
    else:
        joined = " | ".join(f"({part} & {mask}u) << {lane * nbits}" for lane, part in enumerate(parts))
        writer.assign(operands[0], "u32", f"({joined})")


# ---- floats ----


class _Float:
    """How values of one floating type are read, rounded and finished: with .ftz, .sat, .relu and a canonical NaN."""

    def __init__(self, writer: FunctionWriter, ptx_type: str, flags: set[str]) -> None:
        self.writer, self.type, self.flags = writer, ptx_type, flags

    def take(self, bits: str) -> str:
        """A C float out of an operand's C value: bits for the narrow types."""
        if self.type == "f16":
            return f"xf_half({f'xf_narrow_ftz({bits}, 0x7c00)' if 'ftz' in self.flags else bits})"
        if self.type == "bf16":
            return f"xf_bfloat({bits})"
        return f"xf_ftz({bits})" if self.type == "f32" and "ftz" in self.flags else bits

    def read(self, operand: Operand) -> str:
        return self.take(self.writer.read(operand, self.type))

    def finish(self, expression: str, destination: Operand | None = None) -> str:
        """The operand's C value out of a C float, which is not yet rounded for the narrow types."""
        if self.type == "f32":
            if "ftz" in self.flags:
                expression = f"xf_ftz({expression})"
            if "sat" in self.flags:
                return f"xf_sat({expression})"
            if isinstance(destination, Register) and destination.number not in self.writer.observed:
                return expression
            return f"xf_nan({expression})"
        if self.type == "f64":
            return f"xf_sat64({expression})" if "sat" in self.flags else expression
        return self.finish_bits(f"m->narrow({expression}, {_NARROW[self.type]}, XF_RN, XF_INFINITE)")

    def finish_bits(self, bits: str) -> str:
        one, infinity = ("0x3c00", "0x7c00") if self.type == "f16" else ("0x3f80", "0x7f80")
        if "ftz" in self.flags and self.type == "f16":
            bits = f"xf_narrow_ftz({bits}, {infinity})"
        if "sat" in self.flags:
            bits = f"xf_narrow_sat({bits}, {one}, {infinity})"
        if "relu" in self.flags:
            bits = f"xf_narrow_relu({bits})"
        return f"((u16){bits})"

    def compute(self, opcode: str, values: list[str], mode: str, destination: Operand | None) -> str:
        """The finished result of an arithmetic instruction on C floats."""
        if self.type in _NARROW:
            if opcode in ("fma", "mad"):
                return self.finish_bits(f"m->fma_narrow({', '.join(values)}, {_NARROW[self.type]})")
            operator = {"add": "+", "sub": "-", "mul": "*"}.get(opcode)
            if operator is None:
                self.writer.refuse()
            return self.finish(f"(f64){values[0]} {operator} {values[1]}")
        bits = self.type[1:]
        if mode == "XF_RN":
            plain = {
                "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}", "rcp": "1 / {0}",
                "fma": f"xf_fma{bits}(m, {{0}}, {{1}}, {{2}})", "mad": f"xf_fma{bits}(m, {{0}}, {{1}}, {{2}})",
                "sqrt": f"xf_sqrt{bits}(m, {{0}})",
            }[opcode]  # fmt: skip
            expression = plain.format(*values)
        else:
            name = {"mad": "fma", "rcp": "div", "sub": "add"}.get(opcode, opcode)
            if opcode == "rcp":
                values = [f"({self.type})1", *values]
            elif opcode == "sub":
                values = [values[0], f"-({values[1]})"]
            expression = f"m->{name}_{self.type}({', '.join(values)}, {mode})"
        return self.finish(f"({expression})", destination)


_ARITHMETIC_FLAGS = {"rn", "rz", "rm", "rp", "ftz", "sat", "relu", "approx", "full"}


def _find_mode(flags: Iterable[str]) -> str:
    return next((_MODES[flag] for flag in flags if flag in _MODES), "XF_RN")


@_covers("fma")
@_covers("add", "sub", "mul", "mad", "div", "rem", table=_FLOAT_HANDLERS)
def _compute_float(writer: FunctionWriter, item: Instruction) -> None:
    types, flags = writer.split(item, _ARITHMETIC_FLAGS, 1)
    ptx_type = types[0]
    count = {"fma": 3, "mad": 3}.get(item.opcode, 2)
    operands = writer.take_operands(count + 1)
    if {"approx", "full"} & flags:  # quotients of float are expanded before
        writer.refuse()
    part = _PACKED.get(ptx_type)
    kind = _Float(writer, part or ptx_type, flags)
    if (
        kind.type not in ("f32", "f64", *_NARROW)
        or item.opcode == "rem"
        or (kind.type in _NARROW and item.opcode == "div")
    ):
        writer.refuse()
    if part:
        _write_packed(
            writer, ptx_type, operands[1:],
            lambda halves: kind.compute(item.opcode, [kind.take(half) for half in halves], _find_mode(flags), None),
        )  # fmt: skip
    else:
        values = [kind.read(operand) for operand in operands[1:]]
        writer.assign(operands[0], ptx_type, kind.compute(item.opcode, values, _find_mode(flags), operands[0]))


@_covers("rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh")
def _compute_unary(writer: FunctionWriter, item: Instruction) -> None:
    (ptx_type,), flags = writer.split(item, _ARITHMETIC_FLAGS, 1)
    d, a = writer.take_operands(2)
    part = _PACKED.get(ptx_type, ptx_type)
    kind = _Float(writer, part, flags)
    number = f"XF_{item.opcode.upper()}"
    if "approx" not in flags:
        if item.opcode not in ("rcp", "sqrt") or ptx_type not in FLOATS:
            writer.refuse()
        writer.assign(d, ptx_type, kind.compute(item.opcode, [kind.read(a)], _find_mode(flags), d))
    elif ptx_type == "f64":
        if item.opcode not in ("rcp", "rsqrt"):
            writer.refuse()
        name = "rsqrt_ftz_f64" if item.opcode == "rsqrt" and "ftz" in flags else f"{item.opcode}_f64"
        writer.assign(d, ptx_type, f"m->approximate->{name}({writer.read(a, ptx_type)})")
    elif ptx_type == "f32":
        table = "flushed" if "ftz" in flags else "full"
        writer.assign(d, ptx_type, f"m->approximate->{table}[{number}]({writer.read(a, ptx_type)})")
    else:
        if item.opcode not in ("ex2", "tanh") or part not in _NARROW:
            writer.refuse()

        def narrow(bits: str) -> str:
            return f"((u16)m->approximate->narrow({number}, {bits}, {_NARROW[part]}))"

        if ptx_type in _PACKED:
            _write_packed(writer, ptx_type, [a], lambda halves: narrow(halves[0]))
        else:
            writer.assign(d, ptx_type, narrow(writer.read(a, ptx_type)))


@_covers("abs", "neg", table=_FLOAT_HANDLERS)
def _change_sign(writer: FunctionWriter, item: Instruction) -> None:
    (ptx_type,), flags = writer.split(item, {"ftz"}, 1)
    d, a = writer.take_operands(2)
    negates = item.opcode == "neg"
    if ptx_type == "f32":
        kind = _Float(writer, ptx_type, flags)
        value = kind.read(a)
        writer.assign(
            d, ptx_type, kind.finish(f"(-{value})" if negates else f"xf_f32(xf_b32({value}) & 0x7fffffffu)", d)
        )
    elif ptx_type == "f64":
        writer.assign(d, ptx_type, f"xf_{item.opcode}64({writer.read(a, ptx_type)})")
    elif ptx_type in _NARROW or ptx_type in ("f16x2", "bf16x2"):
        bits, sign = _find_unsigned(ptx_type), 0x8000 if ptx_type in _NARROW else 0x80008000
        value = writer.read(a, bits)
        if "ftz" in flags:
            if ptx_type in _NARROW:
                value = f"xf_narrow_ftz({value}, 0x7c00)"
            else:
                value = f"(xf_narrow_ftz({value} & 0xffff, 0x7c00) | xf_narrow_ftz({value} >> 16, 0x7c00) << 16)"
        mask = write_integer(sign if negates else ~sign, bits)
        writer.assign(d, bits, _wrap(ptx_type, f"{value} {'^' if negates else '&'} {mask}"))
    else:
        writer.refuse()


@_covers("min", "max", table=_FLOAT_HANDLERS)
def _choose_float_extreme(writer: FunctionWriter, item: Instruction) -> None:
    (ptx_type,), flags = writer.split(item, {"ftz", "NaN", "xorsign", "abs"}, 1)
    operands = writer.take_operands(3, 4)
    part = _PACKED.get(ptx_type, ptx_type)
    if part not in ("f32", "f64", *_NARROW):
        writer.refuse()
    kind = _Float(writer, part, flags)
    bits = 64 if part == "f64" else 32
    float_type = f"f{bits}"
    top = write_integer(1 << (bits - 1), f"u{bits}")

    def scalar(values: list[str]) -> str:
        names = values
        if "abs" in flags:
            names = [f"xf_f{bits}(xf_b{bits}({value}) & ~{top})" for value in values]
        result = names[0]
        for name in names[1:]:
            result = f"xf_{item.opcode}{bits}({result}, {name})"
        if "NaN" in flags:
            tests = " || ".join(f"{name} != {name}" for name in names)
            nan = "xf_f32(0x7fffffffu)" if bits == 32 else "xf_f64(0x7fffffffffffffffull)"
            result = f"({tests} ? {nan} : {result})"
        if "xorsign" in flags:
            signs = " ^ ".join(f"xf_b{bits}({value})" for value in values)
            result = f"xf_f{bits}(xf_b{bits}({result}) | (({signs}) & {top}))"
        return result

    def finish(values: list[str]) -> str:
        if part in _NARROW:
            return f"((u16)m->narrow({scalar(values)}, {_NARROW[part]}, XF_RN, XF_INFINITE))"
        return kind.finish(scalar(values), operands[0])

    if ptx_type in _PACKED:
        _write_packed(writer, ptx_type, operands[1:], lambda halves: finish([kind.take(half) for half in halves]))
        return
    values = [kind.read(operand) for operand in operands[1:]]
    names = [writer.make_temporary() for _ in values]
    declared = ", ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))
    writer.open_block(f"const {float_type} {declared};")
    writer.assign(operands[0], ptx_type, finish(names))


@_covers("testp")
def _test(writer: FunctionWriter, item: Instruction) -> None:
    (ptx_type,), flags = writer.split(item, {"finite", "infinite", "number", "notanumber", "normal", "subnormal"}, 1)
    d, a = writer.take_operands(2)
    bits = _find_unsigned(ptx_type)
    top, exponent, least = (
        (0x7FFFFFFF, 0x7F800000, 0x00800000) if ptx_type == "f32" else ((1 << 63) - 1, 0x7FF << 52, 1 << 52)
    )
    size = f"({writer.read(a, bits)} & {write_integer(top, bits)})"
    infinity, tiny = write_integer(exponent, bits), write_integer(least, bits)
    (flag,) = flags
    expression = {
        "finite": f"{size} < {infinity}", "infinite": f"{size} == {infinity}", "number": f"{size} <= {infinity}",
        "notanumber": f"{size} > {infinity}", "normal": f"{size} >= {tiny} && {size} < {infinity}",
        "subnormal": f"{size} && {size} < {tiny}",
    }[flag]  # fmt: skip
    writer.assign(d, "pred", f"({expression})")


# ---- comparisons ----

_COMPARISONS = {
    "eq": "{0} == {1}", "ne": "({0} < {1} || {0} > {1})", "lt": "{0} < {1}", "le": "{0} <= {1}", "gt": "{0} > {1}",
    "ge": "{0} >= {1}", "equ": "!({0} < {1} || {0} > {1})", "neu": "{0} != {1}", "ltu": "!({0} >= {1})",
    "leu": "!({0} > {1})", "gtu": "!({0} <= {1})", "geu": "!({0} < {1})",
    "num": "({0} == {0} && {1} == {1})", "nan": "({0} != {0} || {1} != {1})",
}  # fmt: skip
_UNORDERED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_BOOLEANS = {"and": "&", "or": "|", "xor": "^"}


def _write_comparison(writer: FunctionWriter, ptx_type: str, flags: set[str], word: str) -> Callable[[list[str]], str]:
    """Writes a comparison of two C values of the type."""
    if ptx_type in _INTEGERS:
        word = _UNORDERED.get(word, word)
        operator = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}.get(word)
        if operator is None:
            writer.refuse()
        return lambda values: f"({values[0]} {operator} {values[1]})"
    if word not in _COMPARISONS or ptx_type not in ("f32", "f64", *_NARROW):
        writer.refuse()
    kind = _Float(writer, ptx_type, flags)
    return lambda values: f"({_COMPARISONS[word].format(*(kind.take(value) for value in values))})"


@_covers("setp", "set")
def _compare(writer: FunctionWriter, item: Instruction) -> None:
    words = [word for word in item.modifiers if word not in NBYTES]
    types = [word for word in item.modifiers if word in NBYTES]
    flags = {word for word in words if word == "ftz"}
    plain = [word for word in words if word != "ftz"]
    if not plain or len(plain) > 2 or len(types) != (1 if item.opcode == "setp" else 2):
        writer.refuse()
    word, boolean = plain[0], plain[1] if len(plain) > 1 else ""
    if boolean and boolean not in _BOOLEANS:
        writer.refuse()
    operands = writer.take_operands(4 if boolean else 3)
    d, ptx_type = operands[0], types[-1]
    part = _PACKED.get(ptx_type, ptx_type)
    compare = _write_comparison(writer, part, flags, word)
    third = writer.read(operands[3], "pred") if boolean else ""

    def combine(test: str) -> str:
        return f"({test} {_BOOLEANS[boolean]} {third})" if boolean else test

    if ptx_type in _PACKED:
        x, y = writer.bind(ptx_type, operands[1:3])
        low = combine(compare([f"((u16){x})", f"((u16){y})"]))
        high = combine(compare([f"(u16)({x} >> 16)", f"(u16)({y} >> 16)"]))
        if item.opcode == "setp":
            if not isinstance(d, Pair):
                writer.fail("two halves need two predicates")
            writer.add_line(f"const u32 low = {low}, high = {high};")
            writer.assign(d.first, "pred", "low")
            writer.assign(d.second, "pred", "high")
        else:
            one = _ONE.get(_PACKED.get(types[0], ""), "0xffffu")
            writer.assign(
                d, types[0] if types[0] in _PACKED else "u32", f"(({low}) ? {one} : 0u) | (({high}) ? {one} : 0u) << 16"
            )
        return
    x, y = writer.bind(ptx_type, operands[1:3])
    test = combine(compare([x, y]))
    if item.opcode == "set":
        result = types[0]
        if result == "f32":
            writer.assign(d, "f32", f"({test} ? 1.0f : 0.0f)")
        elif result in _NARROW:
            writer.assign(d, result, f"(u16)({test} ? {_ONE[result]} : 0)")
        else:
            writer.assign(d, _find_unsigned(result), f"({_find_unsigned(result)})({test} ? -1 : 0)")
    elif isinstance(d, Pair):
        opposite = combine(f"!{compare([x, y])}")
        writer.add_line(f"const u32 p = {test}, q = {opposite};")
        writer.assign(d.first, "pred", "p")
        writer.assign(d.second, "pred", "q")
    else:
        writer.assign(d, "pred", test)


_ONE = {"f16": "0x3c00u", "bf16": "0x3f80u"}


@_covers("slct")
def _select_by_sign(writer: FunctionWriter, item: Instruction) -> None:
    (ptx_type, selector), flags = writer.split(item, {"ftz"}, 2)
    d, a, b, c = writer.take_operands(4)
    value = writer.read(c, selector)
    if selector == "f32" and "ftz" in flags:
        value = f"xf_ftz({value})"
    writer.assign(d, ptx_type, f"({value} >= 0 ? {writer.read(a, ptx_type)} : {writer.read(b, ptx_type)})")


# ---- moves and conversions ----


@_covers("mov")
def _move(writer: FunctionWriter, item: Instruction) -> None:
    (ptx_type,), flags = writer.split(item, VECTORS, 1)
    d, a = writer.take_operands(2)
    if flags and isinstance(d, Vector):
        names = (
            [Special(f"{a.name}.{letter}") for letter in "xyzw"]
            if isinstance(a, Special)
            else a.items
            if isinstance(a, Vector)
            else ()
        )
        for target, source in zip(d.items, names, strict=False):
            writer.assign(target, ptx_type, writer.read(source, ptx_type))
    elif isinstance(a, Vector):
        writer.assign(d, ptx_type, writer.pack(a, ptx_type))
    elif isinstance(a, PtxLabel):
        writer.refuse("the address of a label")
    else:
        writer.assign(d, ptx_type, writer.read(a, ptx_type))


@_covers("cvta")
def _convert_address(writer: FunctionWriter, item: Instruction) -> None:
    types, flags = writer.split(item, {"to", *_SPACES, "shared::cta", "param::entry"}, 1)
    d, a = writer.take_operands(2)
    value = writer.read(a, types[0])
    if {"shared", "shared::cta"} & flags:
        value = f"({value} {'-' if 'to' in flags else '+'} sh)"
    writer.assign(d, "u64", value)


@_covers("isspacep")
def _ask_space(writer: FunctionWriter, item: Instruction) -> None:
    _, flags = writer.split(item, {*_SPACES, "shared::cta", "shared::cluster", "param::entry"}, 0)
    d, a = writer.take_operands(2)
    (x,) = writer.bind("u64", [a])
    shared = f"({x} - sh < t->dynamic_begin + t->dynamic_nbytes)"
    local = f"({x} >= t->stack_begin && {x} < t->stack_end)"
    (space,) = flags
    const = f"({x} - md < {writer.layout.const_end}ull)"
    expression = {
        "shared": shared, "shared::cta": shared, "shared::cluster": shared, "local": local, "const": const,
        "param": "0", "param::entry": "0", "global": f"(!{shared} && !{local} && !{const})",
    }[space]  # fmt: skip
    writer.assign(d, "pred", expression)


_CVT_FLAGS = {"rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "rna", "ftz", "sat", "relu", "satfinite"}
_LIMITS = {f"s{nbits}": (-(1 << nbits - 1), (1 << nbits - 1) - 1) for nbits in (8, 16, 32, 64)}


@_covers("cvt")
def _convert(writer: FunctionWriter, item: Instruction) -> None:
    if "pack" in item.modifiers:
        _convert_and_pack(writer, item)
        return
    types, flags = writer.split(item, _CVT_FLAGS, 2)
    target, source = types
    operands = writer.take_operands(2, 3)
    d, mode = operands[0], _find_mode(flags)
    floats = ("f16", "bf16", "f32", "f64")
    if target in ("f16x2", "bf16x2") and source == "f32":
        part = _Float(writer, "f16" if target == "f16x2" else "bf16", flags & {"relu"})
        high, low = (_narrow(part, writer.read(operand, "f32"), flags) for operand in operands[1:])
        writer.assign(d, "u32", f"((u32){high} << 16 | {low})")
    elif target in ("e4m3x2", "e5m2x2"):
        _convert_to_8(writer, operands, target, source, flags)
    elif target == "f16x2" and source in ("e4m3x2", "e5m2x2"):
        (x,) = writer.bind("u16", operands[1:])
        name = f"XF_{source[:4].upper()}"
        parts = [
            f"m->narrow(m->widen({x}{shift} & 255, {name}), XF_HALF, XF_RN, XF_INFINITE)" for shift in ("", " >> 8")
        ]
        if "relu" in flags:
            parts = [f"xf_narrow_relu({part})" for part in parts]
        writer.assign(d, "u32", f"({parts[0]} | {parts[1]} << 16)")
    elif target == "tf32" and source == "f32":
        value = f"m->narrow({writer.read(operands[1], 'f32')}, XF_TF32, {mode}, {_name_overflow(flags)})"
        writer.assign(d, "u32", f"({value} >> 31 ? 0u : {value})" if "relu" in flags else value)
    elif source in floats and target in floats:
        _convert_float(writer, operands, target, source, flags, mode)
    elif source in floats and target in _INT_TYPES:
        _convert_to_int(writer, operands, target, source, flags, mode)
    elif source in _INT_TYPES and target in floats:
        _convert_from_int(writer, operands, target, source, flags, mode)
    elif source in _INT_TYPES and target in _INT_TYPES:
        value = writer.read(operands[1], source)
        if "sat" in flags:
            value = _clamp(writer, operands[1], source, target)
        writer.assign(
            d, target, value if name_c_type(source) == name_c_type(target) else f"(({name_c_type(target)}){value})"
        )
    else:
        writer.refuse()


_INT_TYPES = {"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64", "b8", "b16", "b32", "b64"}


def _name_overflow(flags: set[str]) -> str:
    return "XF_SATFINITE" if "satfinite" in flags else "XF_INFINITE"


def _narrow(part: _Float, value: str, flags: set[str]) -> str:
    bits = f"m->narrow({value}, {_NARROW[part.type]}, {_find_mode(flags)}, {_name_overflow(flags)})"
    return part.finish_bits(bits)


def _convert_to_8(writer: FunctionWriter, operands: list[Operand], target: str, source: str, flags: set[str]) -> None:
    name = f"XF_{target[:4].upper()}"
    if source == "f32":
        high, low = (writer.read(operand, "f32") for operand in operands[1:3])
    elif source in ("f16x2", "bf16x2"):
        (x,) = writer.bind("u32", operands[1:])
        wide = "xf_half" if source == "f16x2" else "xf_bfloat"
        high, low = f"{wide}({x} >> 16)", f"{wide}({x} & 0xffff)"
    else:
        writer.refuse()
    parts = [f"m->narrow({value}, {name}, XF_RN, XF_SATFINITE)" for value in (high, low)]
    if "relu" in flags:
        parts = [f"({part} & 128 ? 0 : {part})" for part in parts]
    writer.assign(operands[0], "u16", f"(u16)({parts[0]} << 8 | {parts[1]})")


def _convert_float(
    writer: FunctionWriter, operands: list[Operand], target: str, source: str, flags: set[str], mode: str
) -> None:
    integral = any(word in flags for word in ("rni", "rzi", "rmi", "rpi"))
    reader = _Float(writer, source, flags if source == "f32" else set())
    value = reader.read(operands[1])
    kind = _Float(writer, target, flags)
    if target == "f64":
        if source == "f64":
            value = f"m->round_f64({value}, {mode})" if integral else value
        else:
            value = f"(f64){value}"
        writer.assign(operands[0], "f64", f"xf_sat64({value})" if "sat" in flags else value)
    elif target == "f32":
        if source == "f64":
            value = f"(f32){value}" if mode == "XF_RN" else f"m->f32_from_f64({value}, {mode})"
        elif integral:
            value = f"m->round_f32({value}, {mode})"
        if source == "bf16" and not flags:  # a shift on a GPU, which keeps the bits of a NaN
            writer.assign(operands[0], "f32", value)
            return
        writer.assign(operands[0], "f32", kind.finish(f"({value})", operands[0]))
    elif integral:
        bits = f"m->narrow(m->round_f32({value}, {mode}), {_NARROW[target]}, XF_RN, XF_INFINITE)"
        writer.assign(operands[0], target, kind.finish_bits(bits))
    else:
        kind.flags = flags - {"ftz"}
        writer.assign(operands[0], target, _narrow(kind, value, flags))


def _convert_to_int(
    writer: FunctionWriter, operands: list[Operand], target: str, source: str, flags: set[str], mode: str
) -> None:
    value = _Float(writer, source, flags if source == "f32" else set()).read(operands[1])
    target = target.replace("b", "u")
    nbits = 8 * NBYTES[target]
    # The manual: NaN becomes 0, or where either side has 64 bits the number with the highest bit alone.
    nan = 1 << (nbits - 1) if source == "f64" or nbits == 64 else 0
    if target == "s32" and mode == "XF_RZ":
        writer.assign(operands[0], "s32", f"xf_to_s32({value}, {nan}u)")
        return
    x = writer.make_temporary()
    writer.open_block(f"const f64 {x} = {value};")
    if target[0] == "s":
        least, most = _LIMITS[target]
        whole = f"m->to_s64({x}, {mode}, {least + 1}ll - 1, {most}ll)"
    else:
        whole = f"m->to_u64({x}, {mode}, {(1 << nbits) - 1}ull)"
    kind = name_c_type(target)
    writer.assign(operands[0], target, f"({x} == {x} ? ({kind}){whole} : ({kind}){nan}ull)")


def _convert_from_int(
    writer: FunctionWriter, operands: list[Operand], target: str, source: str, flags: set[str], mode: str
) -> None:
    source = source.replace("b", "u")
    value = writer.read(operands[1], source)
    wide = f"{source[0]}64"
    kind = _Float(writer, target, flags)
    if target in _NARROW:
        exact = f"m->f64_from_{wide}({value}, XF_ODD)" if NBYTES[source] == 8 else f"(f64){value}"
        writer.assign(operands[0], target, _narrow(kind, exact, flags))
    elif mode == "XF_RN":
        expression = f"xf_{target}_from_u64(m, {value})" if source == "u64" else f"({target}){value}"
        writer.assign(
            operands[0], target, f"xf_sat({expression})" if "sat" in flags and target == "f32" else expression
        )
    else:
        writer.assign(operands[0], target, f"m->{target}_from_{wide}({value}, {mode})")


def _clamp(writer: FunctionWriter, operand: Operand, source: str, target: str) -> str:
    """An integer between the limits of the target's type."""
    value = writer.read(operand, source)
    least, most = _LIMITS.get(target, (0, (1 << 8 * NBYTES[target]) - 1))
    kind = name_c_type(source)
    own_least, own_most = _LIMITS.get(source, (0, (1 << 8 * NBYTES[source]) - 1))
    result = value
    if own_most > most:
        result = f"({value} > ({kind}){most}ull ? ({kind}){most}ull : {result})"
    if own_least < least:
        result = f"({value} < ({kind}){least} ? ({kind}){least} : {result})"
    return result


def _convert_and_pack(writer: FunctionWriter, item: Instruction) -> None:
    types, _ = writer.split(item, {"pack", "sat"})
    if len(types) < 2 or types[1] != "s32" or types[0] not in ("u16", "s16", "u8", "s8", "u4", "s4"):
        writer.refuse()
    operands = writer.take_operands(3, 4)
    nbits = 8 * NBYTES[types[0]]
    mask = (1 << nbits) - 1
    a, b = writer.bind("s32", operands[1:3])
    third = f"{writer.read(operands[3], 'u32')} << {2 * nbits}" if len(operands) > 3 else "0u"
    least, most = _LIMITS.get(types[0], (0, mask))
    parts = [f"((u32)({x} < {least} ? {least} : {x} > {most} ? {most} : {x}) & {mask}u)" for x in (a, b)]
    writer.assign(operands[0], "u32", f"({parts[0]} << {nbits} | {parts[1]} | {third})")


# ---- memory ----


@dataclass(slots=True)
class _Access:
    space: str  # one of _SPACES, or "" for a generic address
    flags: str  # of kernel.h
    is_strong: bool
    count: int
    type: str
    operation: str  # of an atomic


def _read_access(writer: FunctionWriter, item: Instruction) -> _Access:
    """Read the words of a load, a store or an atomic."""
    is_atomic, is_load = item.opcode in ("atom", "red"), item.opcode in ("ld", "ldu")
    space, operation, count, is_strong = "", "", 1, is_atomic
    known = _ATOMIC_ORDERS if is_atomic else _ORDERS
    types, orders = [], []
    if item.opcode == "ldu" and "shared::cluster" in item.modifiers:
        writer.refuse()
    for word in item.modifiers:
        base = word.partition("::")[0]
        if is_atomic and word in _ATOMICS:
            operation = word
        elif word in (_ATOMIC_TYPES if is_atomic else NBYTES):
            types.append(word)
        elif word in VECTORS:
            count = VECTORS[word]
        elif base in (("global", "shared") if is_atomic else _SPACES):
            space = base
        elif word in known:
            is_strong = True
            orders += known[word]
        elif word not in _SCOPES and base not in ("L1", "L2") and (is_atomic or word not in _CACHE):
            writer.refuse(f"'.{word}' of the instruction '{item.name}'")
        else:
            is_strong = is_strong or word == "cv"
    if len(types) != 1 or bool(operation) != is_atomic:
        writer.refuse()
    flags = ["XF_STRONG", *orders] if is_atomic else ["XF_READ" if is_load else "XF_WRITE", *orders]
    if is_strong and not is_atomic:
        flags.append("XF_STRONG")
    if not is_atomic and (meaning := writer.meanings.get(writer.index)):
        flags.append(meaning)
    if is_load and writer.doubtful & dataflow.find_results(item) and dataflow.may_reach_block_memory(item):
        flags.append("XF_COPY")
    if space in SPACE_FLAGS:
        flags.append(SPACE_FLAGS[space])
    return _Access(space, " | ".join(flags), is_strong, count, types[0], operation)


def _write_host_address(writer: FunctionWriter, operand: Operand, space: str) -> str:
    address = writer.write_address(operand)
    if space == "shared":
        return f"(sh + {address})"
    return address


def _check_param(writer: FunctionWriter, operand: Operand, nbytes: int) -> None:
    """A parameter's bytes are known here: what lies outside of them is an error of the text."""
    base = operand.base if isinstance(operand, Address) else None
    if isinstance(operand, Address) and isinstance(base, Symbol) and isinstance(variable := base.target, PtxVariable):
        begin = base.offset + operand.offset
        if begin < 0 or (variable.nbytes and begin + nbytes > variable.nbytes):
            writer.fail(
                f"bytes {begin} to {begin + nbytes} are outside of '{variable.name}', which has {variable.nbytes}"
            )


@_covers("ld", "ldu")
def _load(writer: FunctionWriter, item: Instruction) -> None:
    access = _read_access(writer, item)
    d, source = writer.take_operands(2, 3)[:2]
    kind = name_c_type(access.type)
    nbytes = NBYTES[access.type] * access.count
    direct = access.space == "param"  # the translator itself has laid them out
    if direct:
        _check_param(writer, source, nbytes)
    if writer.checked and not direct:
        pointer = f"run->access(t, {writer.write_address(source)}, {nbytes}, {access.flags}, {writer.site})"
    else:
        pointer = _write_host_address(writer, source, access.space)
        if access.is_strong and (writer.index in writer.in_loop or not writer.function.is_entry):
            writer.add_line(f"run->yield(t, {writer.site});")
    volatile = "volatile " if access.is_strong else ""
    # Loads go as bits into registers that hold bits: a register's C type is known only now.
    if access.count == 1:
        if isinstance(d, Vector):
            d = d.items[0] if len(d.items) == 1 else writer.fail("a vector needs .v2, .v4 or .v8")
        kind, ptx_type = _find_load_type(writer, d, access.type)
        writer.assign(d, ptx_type, f"*(const {volatile}{kind} *){pointer}")
        return
    if not isinstance(d, Vector) or len(d.items) != access.count:
        writer.fail(f"the destination is not a vector of {access.count}")
    name = writer.make_temporary()
    writer.open_block(f"const {volatile}{kind} *const {name} = (const {volatile}{kind} *){pointer};")
    values = [writer.make_temporary() for _ in d.items]
    wanted = [_find_load_type(writer, target, access.type) for target in d.items]
    for number, value in enumerate(values):
        writer.add_line(
            f"const {wanted[number][0]} {value} = *(const {volatile}{wanted[number][0]} *)({name} + {number});"
        )
    for target, value, (_, ptx_type) in zip(d.items, values, wanted, strict=True):
        writer.assign(target, ptx_type, value)


def _find_load_type(writer: FunctionWriter, operand: Operand, ptx_type: str) -> tuple[str, str]:
    if isinstance(operand, Register) and ptx_type in ("b32", "u32", "f32", "b64", "u64", "f64"):
        own = writer.find_name(operand)[1]
        if own in ("u32", "f32", "u64", "f64") and C_NBYTES[own] == NBYTES[ptx_type]:
            return own, own
    return name_c_type(ptx_type), ptx_type


@_covers("st")
def _store(writer: FunctionWriter, item: Instruction) -> None:
    access = _read_access(writer, item)
    target, value = writer.take_operands(2, 3)[:2]
    kind = name_c_type(access.type)
    nbytes = NBYTES[access.type] * access.count
    items = list(value.items) if isinstance(value, Vector) else [value]
    if len(items) != access.count:
        writer.fail(f"the source is not a vector of {access.count}")
    values = [writer.read(operand, access.type) for operand in items]
    direct = access.space == "param"
    if direct:
        _check_param(writer, target, nbytes)
    if writer.checked and not direct:
        address = writer.write_address(target)
        writer.open_block(f"const {kind} x[{access.count}] = {{{', '.join(values)}}};")
        writer.add_line(f"run->store(t, {address}, {nbytes}, {access.flags}, x, {writer.site});")
        return
    volatile = "volatile " if access.is_strong else ""
    pointer = _write_host_address(writer, target, access.space)
    if access.count == 1:
        if isinstance(items[0], Register) and access.type in ("b32", "u32", "f32", "b64", "u64", "f64"):
            kind, ptx_type = _find_load_type(writer, items[0], access.type)
            values = [writer.read(items[0], ptx_type)]
        writer.add_line(f"*({volatile}{kind} *){pointer} = {values[0]};")
        return
    name = writer.make_temporary()
    writer.open_block(f"{volatile}{kind} *const {name} = ({volatile}{kind} *){pointer};")
    for number, text in enumerate(values):
        writer.add_line(f"{name}[{number}] = {text};")


@_covers("atom", "red")
def _update_atomically(writer: FunctionWriter, item: Instruction) -> None:
    access = _read_access(writer, item)
    operation, count, ptx_type, operands = access.operation, access.count, access.type, item.operands
    is_atom = item.opcode == "atom"
    needed = 2 + (operation == "cas") + is_atom
    if not needed <= len(operands) <= needed + 1:
        writer.fail(f"'{item.name}' has {len(operands)} operands")
    target = operands[0] if is_atom else NoOperand()
    address, first = operands[is_atom], operands[is_atom + 1]
    second = operands[is_atom + 2] if operation == "cas" else None
    kind, step = name_c_type(ptx_type), NBYTES[ptx_type]
    has_no_sign = ptx_type in ("s32", "s64") and operation in ("add", "and", "or", "xor", "exch", "cas")
    name = _ATOMIC_TYPES[_find_unsigned(ptx_type) if has_no_sign else ptx_type]
    targets = target.items if isinstance(target, Vector) and count > 1 else (target,) * count
    sources = first.items if isinstance(first, Vector) and count > 1 else (first,)
    if len(sources) != count or len(targets) != count:
        writer.fail(f"an operand is not a vector of {count}")
    where = writer.write_address(address)
    writer.open_block(f"const u64 a = {where};")
    for number, source in enumerate(sources):
        other = f", y = {writer.read(second, ptx_type)}" if second is not None else ""
        pointer = "&y" if second is not None else "0"
        writer.add_line(f"{{ {kind} x = {writer.read(source, ptx_type)}{other}, o;")
        place = f"a + {number * step}" if number else "a"
        writer.add_line(
            f"run->atomic(t, {place}, XF_{operation.upper()}, {name}, &x, {pointer}, &o, "
            f"{access.flags}, {writer.site});"
        )
        if not isinstance(targets[number], NoOperand):
            writer.assign(targets[number], ptx_type, "o")
        writer.add_line("}")


@_covers("fence", "membar")
def _add_fence(writer: FunctionWriter, item: Instruction) -> None:
    if "proxy" in item.modifiers or any(
        word.startswith(("proxy", "mbarrier_init", "op_restrict")) for word in item.modifiers
    ):
        return
    scope = "XF_FENCE_BLOCK"
    if {"gl", "gpu", "cluster"} & set(item.modifiers):
        scope = "XF_FENCE_DEVICE"
    elif "sys" in item.modifiers:
        scope = "XF_FENCE_SYSTEM"
    writer.add_line(f"run->fence(t, {scope}, {writer.site});")


@_covers("alloca")
def _allocate(writer: FunctionWriter, _item: Instruction) -> None:
    d, nbytes = writer.take_operands(2, 3)[:2]
    size = writer.read(nbytes, "u64")
    writer.open_block(f"const u64 n = {size}; char *const x = (char *)(((u64)__builtin_alloca(n + 64) + 31) & ~31ull);")
    if writer.checked:
        writer.add_line("run->local_begin(t, x, (u32)n);")
    writer.assign(d, "u64", "(u64)x")


@_covers("stacksave", "createpolicy")
def _give_nothing(writer: FunctionWriter, item: Instruction) -> None:
    """Give a number that no other instruction here looks at."""
    writer.assign(item.operands[0], "u64", "0ull")


@_covers(*NO_EFFECT)
def _do_nothing(writer: FunctionWriter, item: Instruction) -> None:
    """Hints, and what orders the launches of a stream: a CPU has no use for them."""


# ---- control ----


@_covers("bra")
def _branch(writer: FunctionWriter, _item: Instruction) -> None:
    label = writer.take_operands(1)[0]
    assert isinstance(label, PtxLabel)
    _jump(writer, label)


def _jump(writer: FunctionWriter, label: PtxLabel) -> None:
    if writer.positions[label.number] <= writer.index:
        writer.add_line(f"XF_TICK({writer.site});")
    writer.add_line(f"goto L{label.number};")


@_covers("brx")
def _branch_by_index(writer: FunctionWriter, item: Instruction) -> None:
    index, _ = writer.take_operands(2)
    labels = dataflow.find_targets(writer.function, item)
    if not labels:
        writer.fail("the list of targets is not defined")
    writer.add_line(f"switch ({writer.read(index, 'u32')}) {{")
    for number, label in enumerate(labels):
        writer.add_line(f"case {number}:" if number + 1 < len(labels) else "default:")
        _jump(writer, label)
    writer.add_line("}")


@_covers("ret", "exit")
def _leave(writer: FunctionWriter, item: Instruction) -> None:
    writer.leave(str(int(item.opcode == "exit")))


@_covers("trap", "brkpt")
def _trap(writer: FunctionWriter, _item: Instruction) -> None:
    writer.add_line(f"run->trap(t, {writer.site});")


@_covers("nanosleep")
def _sleep(writer: FunctionWriter, _item: Instruction) -> None:
    writer.add_line(f"run->yield(t, {writer.site});")


@_covers("call")
def _call(writer: FunctionWriter, item: Instruction) -> None:
    operands = list(item.operands)
    returns: tuple[Operand, ...] = ()
    if operands and isinstance(operands[0], OperandList):
        returns = operands.pop(0).items  # type: ignore[union-attr]
    if not operands:
        writer.fail("a call of nothing")
    target = operands.pop(0)
    arguments: tuple[Operand, ...] = ()
    if operands and isinstance(operands[0], OperandList):
        arguments = operands.pop(0).items  # type: ignore[union-attr]
    if isinstance(target, Symbol) and isinstance(target.target, str):
        found = writer.layout.resolve(target.target, writer.function)
        if isinstance(found, PtxFunction) and found.body is not None:
            name = writer.layout.name_function(found.name)
            may_end = found.name in writer.layout.ends
            _call_function(writer, name, found.returns, found.params, returns, arguments, may_end=may_end)
            return
        _call_builtin(writer, target.target, returns, arguments)
    elif isinstance(target, Register):
        writer.calls_pointers = True
        prototype = operands[0] if operands else None
        name = prototype.target if isinstance(prototype, Symbol) and isinstance(prototype.target, str) else ""
        known = writer.function.prototypes.get(name)
        if known is None and name in writer.function.call_targets:
            first = writer.layout.resolve(writer.function.call_targets[name][0], writer.function)
            known = ptx.Prototype(first.returns, first.params) if isinstance(first, PtxFunction) else None
        if known is None:
            writer.fail("a call by address needs a prototype")
        types = ", ".join(["xf_thread *", *["char *"] * (len(known.returns) + len(known.params))])
        pointer = f"((u32 (*)({types}))xf_function({writer.read_register(target, 'u64')}))"
        _call_function(writer, pointer, known.returns, known.params, returns, arguments, may_end=True)
    else:
        writer.fail("a call of what is not a function")


def _call_function(
    writer: FunctionWriter, name: str, formal_returns: list[PtxVariable], formal_params: list[PtxVariable],
    returns: tuple[Operand, ...], arguments: tuple[Operand, ...], *, may_end: bool,
) -> None:  # fmt: skip
    if len(formal_returns) != len(returns) or len(formal_params) != len(arguments):
        writer.fail(f"a call with {len(arguments)} arguments of a function of {len(formal_params)}")
    writer.open_block("")
    passed, results = [], []
    for formal, actual in (*zip(formal_returns, returns, strict=True), *zip(formal_params, arguments, strict=True)):
        if isinstance(actual, Symbol) and isinstance(actual.target, PtxVariable) and actual.target.space == "param":
            if actual.target.nbytes - actual.offset < formal.nbytes:
                writer.fail(f"'{actual.target.name}' is smaller than the parameter, which has {formal.nbytes} bytes")
            passed.append(f"(char *){writer.find_address(actual)}")
            continue
        temporary = writer.make_temporary()  # a register or a number is passed by value: in memory of its own
        is_result = len(passed) < len(returns)
        writer.add_line(
            f"{name_c_type(formal.type)} {temporary}{'' if is_result else f' = {writer.read(actual, formal.type)}'};"
        )
        if is_result:
            results.append((actual, formal.type, temporary))
        passed.append(f"(char *)&{temporary}")
    call = f"{name}({', '.join(['t', *passed])})"
    given, received = (
        [each.target if isinstance(each, Symbol) else None for each in operands] for operands in (arguments, returns)
    )
    writer.add_doubt_exchange(given, "t->doubts[{number}] = {name};")
    if may_end:
        writer.add_line(f"if ({call}) {{")
        writer.leave("1")
        writer.add_line("}")
    else:
        writer.add_line(f"{call};")
    writer.add_doubt_exchange(received, "{name} = t->doubts[{number}];")
    for actual, ptx_type, temporary in results:
        writer.assign(actual, ptx_type, temporary)


def _call_builtin(
    writer: FunctionWriter, name: str, returns: tuple[Operand, ...], arguments: tuple[Operand, ...]
) -> None:
    if name not in _BUILTINS:
        writer.refuse(f"a call of '{name}', which is not defined in the module,")
    if len(arguments) < _BUILTINS[name]:
        writer.fail(f"'{name}' needs {_BUILTINS[name]} arguments")

    def value(operand: Operand, ptx_type: str) -> str:
        if isinstance(operand, Symbol) and isinstance(operand.target, PtxVariable) and operand.target.space == "param":
            return f"*({name_c_type(ptx_type)} *){writer.find_address(operand)}"
        return writer.read(operand, ptx_type)

    def result(ptx_type: str, expression: str) -> None:
        target = returns[0] if returns else NoOperand()
        if isinstance(target, Symbol):
            writer.add_line(f"*({name_c_type(ptx_type)} *){writer.find_address(target)} = {expression};")
        elif isinstance(target, NoOperand):
            writer.add_line(f"{expression};")
        else:
            writer.assign(target, ptx_type, expression)

    site = writer.site
    if name == "vprintf":
        text, values = (value(argument, "u64") for argument in arguments[:2])
        result("u32", f"run->printf(t, (const char *){text}, (const char *){values}, {site})")
    elif name == "malloc":
        result("u64", f"run->allocate(t, {value(arguments[0], 'u64')}, {site})")
    elif name == "free":
        writer.add_line(f"run->release(t, {value(arguments[0], 'u64')}, {site});")
    else:
        message, file, line, function = (value(a, "u32" if n == 2 else "u64") for n, a in enumerate(arguments[:4]))
        pointers = f"(const char *){message}, (const char *){file}, {line}, (const char *){function}"
        writer.add_line(f"run->assert_fail(t, {pointers}, {site});")


# ---- threads together ----


@_covers("bar", "barrier")
def _wait_at_barrier(writer: FunctionWriter, item: Instruction) -> None:
    words = [word for word in item.modifiers if word not in ("cta", "aligned")]
    if "cluster" in words:
        writer.refuse()
    operands = item.operands
    if words[:2] == ["warp", "sync"]:
        writer.add_line(f"run->warp_sync(t, {writer.read(operands[0], 'u32')}, {writer.site});")
        return
    kind = words[0] if words else ""
    aligned = "" if item.opcode == "bar" or "aligned" in item.modifiers else " | XF_BAR_UNALIGNED"
    if kind in ("sync", "arrive") and 1 <= len(operands) <= 2:
        count = writer.read(operands[1], "u32") if len(operands) > 1 else "0"
        name = f"XF_BAR_{kind.upper()}{aligned}"
        bypass = writer.bypasses.get(writer.index)
        if bypass is not None:
            writer.add_line(f"t->bypass = {bypass + 1};")
        writer.add_line(f"run->barrier(t, {name}, {writer.read(operands[0], 'u32')}, {count}, 0, {writer.site});")
        if bypass is not None:
            writer.add_line("t->bypass = 0;")
    elif kind == "red" and len(words) >= 2 and words[1] in ("popc", "and", "or") and 3 <= len(operands) <= 4:
        count = writer.read(operands[2], "u32") if len(operands) > 3 else "0"
        value = writer.read(operands[-1], "pred")
        name = f"XF_BAR_{words[1].upper()}{aligned}"
        call = f"run->barrier(t, {name}, {writer.read(operands[1], 'u32')}, {count}, {value}, {writer.site})"
        writer.assign(
            operands[0], "u32" if words[1] == "popc" else "pred", call if words[1] == "popc" else f"({call} != 0)"
        )
    else:
        writer.refuse()


def _write_lane_mask(writer: FunctionWriter, item: Instruction, number: int) -> str:
    """The mask of a warp operation; old ones without .sync have the threads that are there."""
    if "sync" in item.modifiers:
        return writer.read(item.operands[number], "u32")
    return f"run->active_mask(t, {writer.site})"


@_covers("shfl")
def _shuffle(writer: FunctionWriter, item: Instruction) -> None:
    _, flags = writer.split(item, {"sync", "up", "down", "bfly", "idx"}, 1)
    operands = writer.take_operands(4, 5)
    mode = next((word for word in ("up", "down", "bfly", "idx") if word in flags), None)
    if mode is None:
        writer.refuse()
    d = operands[0]
    a, b, c = (writer.read(operand, "u32") for operand in operands[1:4])
    mask = _write_lane_mask(writer, item, 4)
    call = f"run->shuffle(t, XF_SHFL_{mode.upper()}, {a}, {b}, {c}, {mask}, &p, {writer.site})"
    writer.open_block(f"u32 p; const u32 r = {call};")
    _assign_with_predicate(writer, d)


def _assign_with_predicate(writer: FunctionWriter, d: Operand, predicate: str = "(p != 0)") -> None:
    """Assign ``r``, and the predicate where the instruction has one."""
    if isinstance(d, Pair):
        writer.assign(d.first, "b32", "r")
        writer.assign(d.second, "pred", predicate)
    else:
        writer.assign(d, "b32", "r")


@_covers("vote")
def _vote(writer: FunctionWriter, item: Instruction) -> None:
    types, flags = writer.split(item, {"sync", "all", "any", "uni", "ballot"}, 1)
    operands = writer.take_operands(2, 3)
    mode = next((word for word in ("all", "any", "uni", "ballot") if word in flags), None)
    if mode is None:
        writer.refuse()
    mask = _write_lane_mask(writer, item, 2)
    call = f"run->vote(t, XF_VOTE_{mode.upper()}, {writer.read(operands[1], 'pred')}, {mask}, {writer.site})"
    writer.assign(operands[0], types[0], call if mode == "ballot" else f"({call} != 0)")


@_covers("match")
def _match(writer: FunctionWriter, item: Instruction) -> None:
    (ptx_type,), flags = writer.split(item, {"sync", "any", "all"}, 1)
    d, a, mask = writer.take_operands(3)
    mode = "XF_MATCH_ALL" if "all" in flags else "XF_MATCH_ANY"
    value = writer.read(a, ptx_type)
    writer.open_block(
        f"u32 p; const u32 r = run->match(t, {mode}, {value}, {writer.read(mask, 'u32')}, &p, {writer.site});"
    )
    _assign_with_predicate(writer, d)


@_covers("redux")
def _reduce(writer: FunctionWriter, item: Instruction) -> None:
    (ptx_type,), flags = writer.split(item, {"sync", "add", "min", "max", "and", "or", "xor"}, 1)
    if ptx_type == "f32":
        writer.refuse()
    d, a, mask = writer.take_operands(3)
    operation = next(word for word in ("add", "min", "max", "and", "or", "xor") if word in flags)
    kind = "XF_S32" if ptx_type == "s32" else "XF_U32"
    values = f"{writer.read(a, 'u32')}, {writer.read(mask, 'u32')}"
    writer.assign(d, "u32", f"run->redux(t, XF_{operation.upper()}, {kind}, {values}, {writer.site})")


@_covers("activemask")
def _read_active_mask(writer: FunctionWriter, item: Instruction) -> None:
    writer.split(item, (), 1)
    writer.assign(writer.take_operands(1)[0], "u32", f"run->active_mask(t, {writer.site})")


@_covers("elect")
def _elect(writer: FunctionWriter, _item: Instruction) -> None:
    d, mask = writer.take_operands(2)
    (x,) = writer.bind("u32", [mask])
    writer.add_line(f"run->warp_sync(t, {x}, {writer.site}); const u32 r = 31 - xf_clz32({x} & (0 - {x}));")
    _assign_with_predicate(writer, d, "(t->lane == r)")
