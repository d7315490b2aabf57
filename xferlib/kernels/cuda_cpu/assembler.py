"""The choices of NVIDIA's assembler where PTX leaves it free, as far as results show them.

Read off the machine code that ptxas 13.0 writes for sm_90:

- A quotient with `.approx` or `.full` is a product with an approximate reciprocal, scaled against overflow.
- An approximate instruction of a constant is the correctly rounded value, not the GPU's (but tanh).
- A product and a sum without `.rn` are contracted into one `fma`. The operators of `half` are written so, and hence
  `a * b + c` of half is rounded once on a GPU; of float and double NVRTC has contracted most before. The rule is the
  same for all types: a product is contracted if each of its uses is a term of a plain sum in the same basic block, into
  all of these sums. A sum of two such products takes the one that is used once, else the first. Copies and negations
  of a product count as the product.
"""

from __future__ import annotations

import math
import re
import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count

from xferlib.kernels.cuda_cpu import ptx
from xferlib.kernels.cuda_cpu.dataflow import find_registers
from xferlib.kernels.cuda_cpu.ptx import Address, Immediate, Instruction, Operand, PtxFunction, PtxLabel, Register

_TYPES = {"f16", "f16x2", "bf16", "bf16x2", "f32", "f64"}
_BLOCK_ENDS = {"bra", "brx", "call", "exit", "ret"}


@dataclass(slots=True)
class _Product:
    index: int
    item: Instruction
    uses: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Term:
    """One of the two terms of a sum, that is a product."""

    product: int  # the number of its register
    side: int
    is_negative: bool  # by negations on the way


_OPEN = re.compile(r"\b(mul|add|sub)((?:\.ftz|\.sat)*\.b?f16(?:x2)?)\b")


def forbid_contraction(text: str) -> str:
    """PTX whose arithmetic of half keeps its roundings, as `--fmad=false` demands: NVRTC writes so for float only."""
    return _OPEN.sub(r"\1.rn\2", text)


def assemble(function: PtxFunction) -> list[Instruction | PtxLabel]:
    """The body of a function as a GPU computes it, in PTX again."""
    expanded = _Expansion(function)
    return _Contraction(expanded.rewrite(), expanded.numbers).rewrite()


class _Numbers:
    """New registers of a function."""

    def __init__(self, function: PtxFunction) -> None:
        used = {register.number for register in function.param_registers.values()}
        for _, item in function.instructions:
            used |= find_registers(item.operands, with_addresses=True)
            used |= {item.guard.number} if item.guard is not None else set()
        self.numbers = count(max(used, default=0) + 1)

    def make(self, name: str, ptx_type: str) -> Register:
        number = next(self.numbers)
        return Register(f"{name}{number}", ptx_type, number)


# ---- quotients and constants ----

_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "rcp": lambda a: 1 / a,
    "sqrt": math.sqrt,
    "rsqrt": lambda a: 1 / math.sqrt(a),
    "sin": math.sin,
    "cos": math.cos,
    "lg2": math.log2,
    "ex2": lambda a: 2.0**a,
}
_LEAST, _MOST = 2.0**-126, 2.0**128


class _Expansion:
    def __init__(self, function: PtxFunction) -> None:
        self.body = function.body or []
        self.numbers = _Numbers(function)
        self.constants: dict[int, Immediate] = {}
        instructions = [item for _, item in function.instructions]
        written = Counter(
            number for item in instructions for number in find_registers(item.operands[:1], with_addresses=True)
        )
        for item in instructions:
            if item.opcode == "mov" and item.guard is None and len(item.operands) == 2:
                target, source = item.operands
                if isinstance(target, Register) and isinstance(source, Immediate) and written[target.number] == 1:
                    self.constants[target.number] = source

    def rewrite(self) -> list[Instruction | PtxLabel]:
        made: list[Instruction | PtxLabel] = []
        for item in self.body:
            if not isinstance(item, Instruction) or item.modifiers[-1:] != ("f32",):
                made.append(item)
            elif item.opcode == "div" and {"approx", "full"} & {*item.modifiers} and len(item.operands) == 3:
                made += self.divide(item)
            elif item.opcode in _FUNCTIONS and "approx" in item.modifiers and len(item.operands) == 2:
                value = self.fold(item.opcode, item.operands[1])
                made.append(
                    item
                    if value is None
                    else replace(item, opcode="mov", modifiers=("f32",), operands=[item.operands[0], value])
                )
            else:
                made.append(item)
        return made

    def fold(self, opcode: str, operand: Operand) -> Immediate | None:
        """The rounded value for a constant, where both are normal numbers."""
        if isinstance(operand, Register):
            operand = self.constants.get(operand.number, operand)
        if not isinstance(operand, Immediate) or operand.nbits != 32:
            return None
        value = struct.unpack("<f", struct.pack("<I", int(operand.value)))[0]
        if not _LEAST <= abs(value) < _MOST or (value < 0 and opcode in ("sqrt", "rsqrt", "lg2")):
            return None
        if opcode == "ex2" and abs(value) > 125:
            return None
        result = _FUNCTIONS[opcode](value)
        if not _LEAST <= abs(result) < _MOST:
            return None
        return Immediate(struct.unpack("<I", struct.pack("<f", result))[0], 32)

    def divide(self, item: Instruction) -> list[Instruction]:
        target, a, b = item.operands
        flags = ("ftz",) if "ftz" in item.modifiers else ()
        made: list[Instruction] = []

        def add(opcode: str, modifiers: tuple[str, ...], ptx_type: str, *operands: Operand) -> Register:
            register = self.numbers.make("quotient", ptx_type)
            made.append(
                replace(
                    item, opcode=opcode, modifiers=modifiers, operands=[register, *operands], guard=None, negated=False
                )
            )
            return register

        reciprocal: Operand | None = self.fold("rcp", b)
        if reciprocal is None:
            one = Immediate(0x3F800000, 32)
            scale: Operand = one
            if "full" in item.modifiers:
                size = add("abs", ("f32",), "f32", b)
                is_large = add("setp", ("gt", *flags, "f32"), "pred", size, Immediate(0x7E800000, 32))
                scale = add("selp", ("f32",), "f32", Immediate(0x3E800000, 32), scale, is_large)
            if not flags:
                size = add("abs", ("f32",), "f32", b)
                is_small = add("setp", ("lt", "f32"), "pred", size, Immediate(0x00800000, 32))
                scale = add("selp", ("f32",), "f32", Immediate(0x4B800000, 32), scale, is_small)
            if scale is not one:
                a = add("mul", ("rn", *flags, "f32"), "f32", a, scale)
                b = add("mul", ("rn", *flags, "f32"), "f32", b, scale)
            reciprocal = add("rcp", ("approx", "ftz", "f32"), "f32", b)
        product = replace(item, opcode="mul", modifiers=(*flags, "f32"), operands=[target, a, reciprocal])
        return [*made, product]


# ---- contraction ----


def _is_plain(item: Instruction, *allowed: str) -> bool:
    """Whether an arithmetic instruction of a floating type leaves its rounding open."""
    return (
        len(item.operands) == 3
        and item.modifiers[-1:] != ()
        and item.modifiers[-1] in _TYPES
        and {*item.modifiers[:-1]} <= {"ftz", *allowed}
    )


class _Contraction:
    def __init__(self, body: list[Instruction | PtxLabel], numbers: _Numbers) -> None:
        self.body = body
        self.numbers = numbers
        self.blocks: list[int] = []
        self.definitions: dict[int, list[int]] = {}  # of each register, the instructions that may write it
        self.readers: dict[int, list[int]] = {}
        self.aliases: dict[int, tuple[int, bool]] = {}  # of copies and negations: the register, and whether negated
        block = 0
        for index, item in enumerate(body):
            block += isinstance(item, PtxLabel)
            self.blocks.append(block)
            if isinstance(item, PtxLabel):
                continue
            block += item.opcode in _BLOCK_ENDS
            for position, operand in enumerate(item.operands):
                for register in ptx.walk([operand]):
                    if isinstance(register, Register):
                        is_target = position == 0 and not isinstance(operand, Address)
                        (self.definitions if is_target else self.readers).setdefault(register.number, []).append(index)
            if item.guard is not None:
                self.readers.setdefault(item.guard.number, []).append(index)

    def rewrite(self) -> list[Instruction | PtxLabel]:
        products = self.find_products()
        while True:
            chosen = self.choose(products)
            taken = Counter(term.product for term in chosen.values())
            lost = {
                number: len(product.uses) for number, product in products.items() if taken[number] < len(product.uses)
            }
            if not lost:
                break
            # The most used first: sums that these leave may take another product.
            most = max(lost.values())
            products = {number: each for number, each in products.items() if lost.get(number) != most}
        removed = {product.index for product in products.values()}
        removed |= {self.definitions[alias][0] for alias in self.aliases if self.resolve(alias)[0] in products}
        made: list[Instruction | PtxLabel] = []
        for index, item in enumerate(self.body):
            if index in removed:
                continue
            if isinstance(item, Instruction) and (term := chosen.get(index)):
                made += self.fuse(item, products[term.product].item, term)
            else:
                made.append(item)
        return made

    def is_single(self, register: Operand) -> bool:
        return isinstance(register, Register) and len(self.definitions.get(register.number, ())) == 1

    def find_products(self) -> dict[int, _Product]:
        """The products that only sums of their block use, by register."""
        found: dict[int, _Product] = {}
        for index, item in enumerate(self.body):
            if isinstance(item, PtxLabel) or item.guard is not None:
                continue
            target = item.operands[0] if item.operands else None
            if not isinstance(target, Register) or not self.is_single(target):
                continue
            if item.opcode == "mul" and _is_plain(item):
                found[target.number] = _Product(index, item)
            elif item.opcode in ("mov", "neg") and len(item.modifiers) == 1 and len(item.operands) == 2:
                source = item.operands[1]
                if isinstance(source, Register) and self.is_single(source):
                    self.aliases[target.number] = source.number, item.opcode == "neg"
        members: dict[int, list[int]] = {number: [number] for number in found}
        for alias in self.aliases:
            root, _ = self.resolve(alias)
            if root in members:
                members[root].append(alias)
        for root, numbers in members.items():
            copies = {self.definitions[number][0] for number in numbers if number != root}
            found[root].uses = [use for number in numbers for use in self.readers.get(number, ()) if use not in copies]
        return {number: product for number, product in found.items() if self.is_usable(product)}

    def resolve(self, number: int) -> tuple[int, bool]:
        is_negative = False
        seen = set()
        while number in self.aliases and number not in seen:
            seen.add(number)
            number, negates = self.aliases[number]
            is_negative ^= negates
        return number, is_negative

    def is_usable(self, product: _Product) -> bool:
        last = max(product.uses, default=0)
        for number in find_registers(product.item.operands[1:], with_addresses=True):
            changes = self.definitions.get(number, [])
            change = bisect_right(changes, product.index)
            if change < len(changes) and changes[change] < last:
                return False
        for use in product.uses:
            item = self.body[use]
            if isinstance(item, PtxLabel) or item.opcode not in ("add", "sub") or not _is_plain(item, "sat"):
                return False
            if {*item.modifiers} - {"sat"} != {*product.item.modifiers}:
                return False
            if use < product.index or self.blocks[use] != self.blocks[product.index]:
                return False
        return bool(product.uses) and len({*product.uses}) == len(product.uses)

    def choose(self, products: dict[int, _Product]) -> dict[int, _Term]:
        """Give each sum the product that it would take."""
        chosen: dict[int, _Term] = {}
        for index in {use for product in products.values() for use in product.uses}:
            item = self.body[index]
            assert isinstance(item, Instruction)
            terms = []
            for side, operand in enumerate(item.operands[1:]):
                if isinstance(operand, Register):
                    number, is_negative = self.resolve(operand.number)
                    if number in products:
                        terms.append(_Term(number, side, is_negative))
            chosen[index] = min(terms, key=lambda term: (len(products[term.product].uses) > 1, term.side))
        return chosen

    def fuse(self, total: Instruction, product: Instruction, term: _Term) -> list[Instruction]:
        a, b = product.operands[1:]
        other = total.operands[2 - term.side]
        is_difference = total.opcode == "sub"
        made = []
        ptx_type = total.modifiers[-1]
        if term.is_negative ^ (is_difference and term.side == 1):
            made.append(self.negate(total, a, ptx_type))
            a = made[-1].operands[0]
        if is_difference and term.side == 0:
            made.append(self.negate(total, other, ptx_type))
            other = made[-1].operands[0]
        modifiers = "rn", *(flag for flag in total.modifiers[:-1] if flag in ("ftz", "sat")), ptx_type
        made.append(replace(total, opcode="fma", modifiers=modifiers, operands=[total.operands[0], a, b, other]))
        return made

    def negate(self, total: Instruction, operand: Operand, ptx_type: str) -> Instruction:
        bits = {"f64": "b64", "f16": "b16", "bf16": "b16"}.get(ptx_type, "b32")
        register = self.numbers.make("negative", bits)
        operands: list[Operand] = [register, operand]
        return replace(total, opcode="neg", modifiers=(ptx_type,), operands=operands, guard=None, negated=False)
