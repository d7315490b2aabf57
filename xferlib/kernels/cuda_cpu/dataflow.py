"""The flow of a function's values, for the faults that a checked translation reports.

PTX has no types beyond a register's size and no variables, so what a program means by an access is read from where its
value goes:

- A volatile read that only decides what is done is a flag; one whose value is computed with is data, which need order.
- A plain read that only decides whether its thread writes the same word afterwards may be old: `if (level[v] < 0)
  level[v] = depth;`, `if (x > *most) atomicMax(most, x);`. So may one that a compare-and-swap of the word verifies: it
  expects the value, and writes nothing that is made of an older one.
- A register that is read where nothing has set it is a variable without a value, as far as the compiler has left one.
- A signed product that is widened to be part of an address is an index.

Local arrays lie side by side in one variable of PTX; the compiler takes the address of each by one kind of instruction.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from xferlib.kernels.cuda_cpu.ptx import (
    Address,
    Immediate,
    Instruction,
    Operand,
    PtxFunction,
    PtxLabel,
    PtxVariable,
    Register,
    Symbol,
    walk,
)

Word = tuple[int, int]
"""The register of an address, and the offset."""

NO_EFFECT = {
    "prefetch", "prefetchu", "griddepcontrol", "pmevent", "applypriority", "discard", "setmaxnreg", "stackrestore",
}  # fmt: skip
_NO_TARGET = {
    "st", "red", "bra", "brx", "call", "bar", "barrier", "ret", "exit", "trap", "nanosleep", *NO_EFFECT,
}  # fmt: skip
STRONG = {"volatile", "relaxed", "acquire", "mmio", "cv"}
_COMMUNICATES = {"st", "red", "atom", "shfl", "match", "redux", "bar", "barrier", "brx"}
_COMPUTES = {
    "add", "sub", "mul", "mad", "fma", "div", "rem", "setp", "min", "max", "neg", "abs", "sqrt", "rsqrt", "rcp", "ex2",
    "lg2", "sin", "cos", "shl",
}  # fmt: skip
_MEMORY = {"ld", "ldu", "st", "atom", "red"}
_LEADS = _COMMUNICATES | {"ld", "ldu"}
"""Where a value is seen by others, or is part of an address."""


def find_registers(operands: Iterable[Operand], *, with_addresses: bool = False) -> set[int]:
    """The numbers of the registers among operands."""
    return {each.number for each in walk(operands, with_addresses=with_addresses) if isinstance(each, Register)}


_Found = TypeVar("_Found", bound=Hashable)


def close(begin: Iterable[_Found], follow: Callable[[_Found], Iterable[_Found]]) -> set[_Found]:
    """Everything that is reached from a beginning by following, the beginning among it."""
    found = set(begin)
    waiting = list(found)
    while waiting:
        more = set(follow(waiting.pop())) - found
        found |= more
        waiting += more
    return found


def has_target(item: Instruction) -> bool:
    """Whether the first operand is what an instruction writes."""
    return item.opcode not in _NO_TARGET or (item.opcode in ("bar", "barrier") and "red" in item.modifiers)


def find_sources(item: Instruction) -> set[int]:
    """The registers that an instruction reads, without its guard."""
    return find_registers(item.operands[has_target(item) :], with_addresses=True)


def find_results(*items: Instruction) -> set[int]:
    """The registers that instructions write."""
    found: set[int] = set()
    for item in items:
        if has_target(item) and item.operands:
            target = item.operands[0]
            found |= {target.number} if isinstance(target, Register) else find_registers([target])
    return found


def find_used(item: Instruction) -> set[int]:
    """The registers that an instruction reads, its guard among them."""
    return find_sources(item) | ({item.guard.number} if item.guard is not None else set())


def find_targets(function: PtxFunction, instruction: Instruction) -> list[PtxLabel]:
    """The labels that a branch may lead to."""
    if instruction.opcode == "bra":
        return [operand for operand in instruction.operands if isinstance(operand, PtxLabel)]
    if instruction.opcode == "brx":
        operand = instruction.operands[-1]
        if isinstance(operand, Symbol) and isinstance(operand.target, str):
            return function.branch_targets.get(operand.target, [])
    return []


def find_unwritten(function: PtxFunction) -> set[int]:
    """Registers that may be read before they are written: what is live at the beginning."""
    flow = ValueFlow(function)
    blocks = flow.blocks
    params = {register.number for register in function.param_registers.values()}
    reads: list[set[int]] = [set() for _ in blocks.starts]  # before a block writes them
    writes: list[set[int]] = [set() for _ in blocks.starts]  # for sure
    writes[0] |= params
    for index, item in flow.instructions:
        number = blocks.find(index)
        reads[number] |= find_used(item) - writes[number]
        if item.guard is None:
            writes[number] |= find_results(item)
    if not flow.body or len(flow.body) in flow.find_next(len(flow.body) - 1):
        reads[-1] |= params - writes[-1]
    is_changed = True
    while is_changed:
        is_changed = False
        for number in range(len(reads) - 1, -1, -1):
            more = set[int]().union(*(reads[each] for each in blocks.after[number])) - writes[number] - reads[number]
            reads[number] |= more
            is_changed = is_changed or bool(more)
    return reads[0]


def _is_param(item: Instruction) -> bool:
    return "param" in item.modifiers


class ValueFlow:
    """Where the values of a function's registers go."""

    def __init__(self, function: PtxFunction) -> None:
        self.function = function
        self.body = body = function.body or []
        self.positions = {item.number: index for index, item in enumerate(body) if isinstance(item, PtxLabel)}
        self.users: defaultdict[int, list[Instruction]] = defaultdict(list)
        self.guards: defaultdict[int, list[Instruction]] = defaultdict(list)
        self.writes: defaultdict[int, list[int]] = defaultdict(list)
        """The indices of the instructions that set a register."""
        self.instructions = function.instructions
        self.indices = {id(item): index for index, item in self.instructions}
        for index, item in self.instructions:
            for number in find_sources(item):
                self.users[number].append(item)
            for number in find_results(item):
                self.writes[number].append(index)
            if item.guard is not None:
                self.guards[item.guard.number].append(item)

    @cached_property
    def blocks(self) -> _Blocks:
        return _Blocks(self)

    def find_dependent(self, number: int) -> set[int]:
        """The registers that are computed from one."""
        users = (item for item in self.users[number] if item.opcode not in _LEADS or item.opcode == "shfl")
        return find_results(*users, *(item for item in self.guards[number] if item.opcode not in _MEMORY))

    def follow(self, results: set[int], verifying: Collection[int] = ()) -> tuple[set[int], bool]:
        """The registers that depend on some, and whether any reaches memory, an address or another thread.

        Args:
            results: The registers.
            verifying: The indices of instructions that do not count: see `verifies`.
        """
        found = close(results, self.find_dependent)
        users = (item for number in found for item in self.users[number])
        return found, any(  # a call's use is not known
            item.opcode in _LEADS and not _is_param(item) and self.indices[id(item)] not in verifying for item in users
        )

    def verifies(self, load: Instruction, index: int) -> bool:
        """Whether a compare-and-swap expects what a load has read, and makes what it writes of nothing older."""
        swap = self.body[index]
        assert isinstance(swap, Instruction)
        result, (_, _, expected, value) = load.operands[0], swap.operands[:4]
        if not isinstance(result, Register) or not isinstance(expected, Register):
            return False

        def find_copies(number: int) -> set[int]:
            moves = (each for each in self.users[number] if each.opcode == "mov")
            return find_results(*(each for each in moves if isinstance(each.operands[1], Register)))

        def find_older(number: int) -> set[int]:
            return self.find_dependent(number) - {expected.number}

        users = (each for each in self.users[expected.number] if each is not swap)
        late = [each for each in users if not self.is_kept(expected.number, self.indices[id(each)], index)]
        older = close(({result.number} | find_results(*late)) - {expected.number}, find_older)
        return expected.number in close({result.number}, find_copies) and older.isdisjoint(find_registers([value]))

    def polls(self, index: int, dependent: set[int], loops: Iterable[tuple[int, int]]) -> bool:
        """Whether a loop around an instruction ends by what depends on it."""
        for begin, end in loops:
            if not begin <= index <= end:
                continue
            for at in range(begin, end + 1):
                item = self.body[at]
                if isinstance(item, PtxLabel) or item.guard is None or item.guard.number not in dependent:
                    continue
                if item.opcode in ("exit", "ret") or at == end:
                    return True
                if any(
                    not begin <= self.positions[target.number] <= end for target in find_targets(self.function, item)
                ):
                    return True
        return False

    def is_behind(self, index: int, first: int) -> bool:
        """Whether every path to an instruction passes the other one."""
        before, behind = self.blocks.find(first), self.blocks.find(index)
        return first < index if before == behind else bool(self.blocks.dominators[behind] >> before & 1)

    def is_kept(self, register: int, first: int, index: int) -> bool:
        """Whether no path from an instruction to one behind it sets a register, unless it passes the first again."""
        writes, after = self.writes[register], self.blocks.after
        if len(writes) < 2:  # in front of both
            return True
        home = self.blocks.find(first)

        def leads(start: int, end: int) -> bool:
            begin, goal = self.blocks.find(start), self.blocks.find(end)
            if begin == goal and start < end and not start < first < end:
                return True
            if begin == home and start < first:
                return False
            reached = close(after[begin], lambda each: () if each == home else after[each])
            return goal in reached and not (goal == home and first < end)

        return first not in writes and not any(leads(first, at) and leads(at, index) for at in writes)

    def is_number(self, load: Instruction) -> bool:
        """Whether a load's value is one number: all that uses it computes with it as a whole."""
        users = [user for number in find_results(load) for user in self.users[number]]
        return isinstance(load.operands[0], Register) and bool(users) and all(
            user.opcode in _COMPUTES and load.modifiers[-1][1:] == user.modifiers[-1][1:] for user in users
        )  # fmt: skip

    def find_next(self, at: int) -> list[int]:
        """The indices at which a thread may go on behind an instruction."""
        item = self.body[at]
        if isinstance(item, PtxLabel):
            return [at + 1]
        found = [self.positions[target.number] for target in find_targets(self.function, item)]
        if item.guard is not None or item.opcode not in ("bra", "brx", "ret", "exit"):
            found.append(at + 1)
        return found


def _find_word(operand: Operand) -> Word | None:
    if isinstance(operand, Address) and isinstance(operand.base, Register):
        return operand.base.number, operand.offset
    return None


def find_meanings(flow: ValueFlow, loops: set[tuple[int, int]]) -> dict[int, str]:
    """Flags of kernel.h, by index: XF_DATA of volatile loads and stores, XF_GUARDED and XF_NUMBER of plain ones."""
    meanings: dict[int, str] = {}
    loads: defaultdict[Word, list[int]] = defaultdict(list)
    writes: defaultdict[Word, list[tuple[int, Instruction]]] = defaultdict(list)
    for index, item in flow.instructions:
        if item.opcode not in _MEMORY or _is_param(item) or "local" in item.modifiers:
            continue
        if "volatile" in item.modifiers:
            if item.opcode == "st":
                meanings[index] = "XF_DATA"
                continue
            dependent, escapes = flow.follow(find_results(item))
            if escapes and not flow.polls(index, dependent, loops):
                meanings[index] = "XF_DATA"
        elif item.opcode in ("ld", "ldu"):
            word = _find_word(item.operands[1])
            if flow.is_number(item):
                meanings[index] = "XF_NUMBER"
            if word and "const" not in item.modifiers and STRONG.isdisjoint(item.modifiers):
                loads[word].append(index)
        else:
            word = _find_word(item.operands[item.opcode == "atom"])
            if word:
                writes[word].append((index, item))
    for word, found in loads.items():
        for first in found:
            load = flow.body[first]
            assert isinstance(load, Instruction)
            behind = [
                (index, item) for index, item in writes[word]
                if flow.is_behind(index, first) and flow.is_kept(word[0], first, index)
            ]  # fmt: skip
            verifying = [index for index, item in behind if "cas" in item.modifiers and flow.verifies(load, index)]
            if not behind or flow.follow(find_results(load), verifying)[1]:
                continue
            meanings[first] = " | ".join(filter(None, (meanings.get(first), "XF_GUARDED")))
            for index, item in behind:
                if item.opcode == "st" and STRONG.isdisjoint(item.modifiers):
                    meanings[index] = "XF_GUARDED"
    return meanings


# ---- barriers in branches ----


class _Blocks:
    """The basic blocks of a function; sets of them are integers with a bit for each."""

    def __init__(self, flow: ValueFlow) -> None:
        self.body = flow.body
        self.starts = [0]
        for index, item in enumerate(flow.body):
            is_end = isinstance(item, Instruction) and item.opcode in ("bra", "brx", "ret", "exit", "trap")
            for start in [index] if isinstance(item, PtxLabel) else [index + 1] if is_end else []:
                if self.starts[-1] < start < len(flow.body):
                    self.starts.append(start)
        ends = [*self.starts[1:], len(flow.body)]
        numbers = {start: number for number, start in enumerate(self.starts)}
        self.after = [[numbers[at] for at in flow.find_next(end - 1) if at in numbers] for end in ends]
        self.before: list[list[int]] = [[] for _ in self.starts]
        for number, following in enumerate(self.after):
            for each in following:
                self.before[each].append(number)

    @cached_property
    def dominators(self) -> list[int]:
        return self.dominate(self.before, [0], range(len(self.starts)))

    @cached_property
    def post_dominators(self) -> list[int]:
        exits = [number for number, following in enumerate(self.after) if not following]
        return self.dominate(self.after, exits, range(len(self.starts) - 1, -1, -1))

    def dominate(self, sources: list[list[int]], roots: list[int], order: range) -> list[int]:
        """For each block those that every path from the roots to it passes, itself among them."""
        found = [(1 << len(self.starts)) - 1] * len(self.starts)
        for root in roots:
            found[root] = 1 << root
        is_changed = True
        while is_changed:
            is_changed = False
            for number in order:
                if number in roots:
                    continue
                common = -1
                for source in sources[number]:
                    common &= found[source]
                if sources[number] and (common := common | 1 << number) != found[number]:
                    found[number] = common
                    is_changed = True
        return found

    def find(self, index: int) -> int:
        return bisect_right(self.starts, index) - 1

    def find_nearest(self, own: int, is_wanted: Callable[[int], bool]) -> int | None:
        """The first block that every path from another one to the end passes, among those wanted."""
        wanted = (
            number for number in range(len(self.starts))
            if number != own and self.post_dominators[own] >> number & 1 and is_wanted(number)
        )  # fmt: skip
        return max(wanted, key=lambda number: self.post_dominators[number].bit_count(), default=None)

    def reach(self, begin: int, end: int | None) -> set[int]:
        """The blocks on the ways from one to another."""
        return close([begin], lambda number: {*self.after[number]} - {end})

    def find_first(self, number: int) -> int:
        """The index of a block's first instruction."""
        at = self.starts[number]
        while at + 1 < len(self.body) and isinstance(self.body[at], PtxLabel):
            at += 1
        return at


def find_joins(flow: ValueFlow, most: int) -> dict[int, int]:
    """Barriers of all threads that a thread may pass by, and where it has passed them: the end of the branch.

    Where nothing but the end of the kernel comes behind, a thread that passes by only leaves early.
    """
    barriers = [
        index for index, item in flow.instructions
        if item.opcode in ("bar", "barrier") and {"warp", "cluster"}.isdisjoint(item.modifiers)
        and "sync" in item.modifiers and len(item.operands) == 1
    ]  # fmt: skip
    if not barriers:
        return {}
    blocks = flow.blocks
    joins: dict[int, int] = {}
    for barrier in barriers:
        own = blocks.find(barrier)
        nearest = blocks.find_nearest(own, lambda number, own=own: not blocks.dominators[number] >> own & 1)  # type: ignore[misc]
        if nearest is None:
            continue
        at = blocks.find_first(nearest)
        item = flow.body[at]
        if isinstance(item, Instruction) and item.opcode not in ("ret", "exit") and len(joins) < most:
            joins[barrier] = at
    return joins


# ---- variables without a value ----


def may_reach_block_memory(item: Instruction) -> bool:
    """Whether an access may be to shared or local memory."""
    return not {"global", "const", "param"} & set(item.modifiers)


@dataclass(frozen=True, slots=True)
class Decision:
    """The effects of a branch."""

    join: int | None  # the index at which its ways meet again
    results: set[int]  # registers that are set on the ways, and used behind them
    writes: set[int]  # the indices of stores and atomics on them
    is_of_write: bool  # its outcome alone decides whether one of these is executed


_MOST_BLOCKS = 1000  # in a function whose decisions are looked for, which takes their square
_MOST_DECISIONS = 64


def find_doubtful(
    flow: ValueFlow, unwritten: set[int], loops: Iterable[tuple[int, int]]
) -> tuple[set[int], dict[int, Decision]]:
    """Registers that may have no value, from those that may be read before they are written, and those of shuffles.

    Where such a one is stored, what is loaded may have none either: kernels store a row of values of which they use
    the first ones. Also returns what branches decide by such registers, by the branch's index.
    """
    found = _spread_doubts(
        flow, unwritten | find_results(*(item for _, item in flow.instructions if item.opcode == "shfl"))
    )
    decisions: dict[int, Decision] = {}
    while found:
        found = _add_stored(flow, found)
        for index, item in flow.instructions:
            if (
                item.opcode == "bra" and item.guard is not None and item.guard.number in found
                and index not in decisions and len(decisions) < _MOST_DECISIONS
                and len(flow.blocks.starts) < _MOST_BLOCKS
            ):  # fmt: skip
                decisions[index] = _find_decision(flow, index, loops)
        more = found.union(*(each.results for each in decisions.values()))
        if more == found:
            break
        found = _spread_doubts(flow, more)
    return found, decisions


def _find_decision(flow: ValueFlow, index: int, loops: Iterable[tuple[int, int]]) -> Decision:
    """The effects of the branch at an index.

    A compiler moves a condition out of a loop, and then both ways have the loop: its writes do not count.
    """
    blocks = flow.blocks
    own = blocks.find(index)
    join = blocks.find_nearest(own, lambda _: True)
    ways = [blocks.reach(each, join) for each in blocks.after[own] if each != join]
    both = set[int]().union(*ways)
    results: set[int] = set()
    used: set[int] = set()
    writes: set[int] = set()
    in_loops: set[int] = set()
    for at, item in flow.instructions:
        if blocks.find(at) not in both:
            used |= find_used(item)
            continue
        results |= find_results(item)
        is_write = item.opcode in ("atom", "red") or (item.opcode == "st" and "global" in item.modifiers)
        if is_write:
            is_near = all(begin <= index <= end for begin, end in loops if begin <= at <= end)
            (writes if is_near else in_loops).add(at)
    if len(ways) < 2 or any(way.isdisjoint(map(blocks.find, in_loops)) for way in ways):
        writes |= in_loops
    behind = [blocks.post_dominators[each] for each in blocks.after[own] if each != join]
    is_of_write = any(each >> blocks.find(at) & 1 for each in behind for at in writes)
    return Decision(None if join is None else blocks.find_first(join), results & used, writes, is_of_write)


def _add_stored(flow: ValueFlow, found: set[int]) -> set[int]:
    """Registers that may have no value, with those that are loaded where such have been stored."""
    memory = [item for _, item in flow.instructions if may_reach_block_memory(item)]
    if not any(item.opcode == "st" and find_registers(item.operands[1:]) & found for item in memory):
        return found
    return _spread_doubts(flow, found | find_results(*(item for item in memory if item.opcode == "ld")))


def find_parts(flow: ValueFlow) -> set[int]:
    """Registers that hold part of a value beside zeros: `or` puts such together, and else combines whole values."""
    begin = (
        item
        for _, item in flow.instructions
        if item.opcode in ("shl", "bfi", "prmt") or (item.opcode == "and" and isinstance(item.operands[-1], Immediate))
    )
    return close(
        find_results(*begin),
        lambda number: find_results(*(user for user in flow.users[number] if user.opcode in ("or", "mov", "cvt"))),
    )


def _spread_doubts(flow: ValueFlow, unwritten: set[int]) -> set[int]:
    def find_dependent(number: int) -> set[int]:
        return find_results(*(item for item in flow.users[number] + flow.guards[number] if item.opcode not in _MEMORY))

    return close(unwritten, find_dependent)


# ---- indices ----

_WIDE = {"mul", "mad"}
_OF_ADDRESSES = {"add", "sub", "mov", "cvta", "shl", "mad", "mul", "selp"}


def is_widening(item: Instruction) -> bool:
    """Whether an instruction makes 64 bits of a signed number of 32 bits."""
    if item.opcode in _WIDE:
        return "wide" in item.modifiers and "s32" in item.modifiers
    return item.opcode == "cvt" and item.modifiers[-2:] == ("s64", "s32")


def is_exact_step(item: Instruction) -> bool:
    """Whether it computes 32 bits that its operands determine as whole numbers."""
    words = item.modifiers
    if "sat" in words or "cc" in words:
        return False
    if item.opcode in ("add", "sub"):
        return words in (("s32",), ("u32",))
    if item.opcode in _WIDE:
        return "lo" in words and ("s32" in words or "u32" in words)
    if item.opcode == "shl":
        return isinstance(item.operands[2], Immediate) and int(item.operands[2].value) < 31 and words == ("b32",)
    return item.opcode == "mov" and words in (("u32",), ("s32",), ("b32",)) and isinstance(item.operands[1], Register)


def find_indices(flow: ValueFlow) -> tuple[set[int], set[int]]:
    """Registers whose whole number is compared with their 32 bits, and the widening instructions' indices."""
    writers: defaultdict[int, list[Instruction]] = defaultdict(list)
    addresses: set[int] = set()
    for _, item in flow.instructions:
        for number in find_results(item):
            writers[number].append(item)
        if item.opcode in _MEMORY and not _is_param(item):
            addresses |= find_registers(each.base for each in item.operands if isinstance(each, Address))

    def find_parts_of_address(number: int) -> Iterator[int]:  # as far as they have 64 bits
        for item in writers[number]:
            if not is_widening(item):
                yield from find_sources(item) if item.opcode in _OF_ADDRESSES else ()
            elif item.opcode == "mad":
                yield from find_registers(item.operands[3:])

    reach = close(addresses, find_parts_of_address)
    widenings = {index: item for index, item in flow.instructions if is_widening(item) and find_results(item) & reach}

    def find_exact(numbers: Iterable[int]) -> set[int]:
        return {number for number in numbers if any(is_exact_step(item) for item in writers[number])}

    exact = close(
        find_exact(number for item in widenings.values() for number in find_registers(item.operands[1:3])),
        lambda number: find_exact(
            source for item in writers[number] if is_exact_step(item) for source in find_sources(item)
        ),
    )
    return exact, set(widenings)


# ---- local arrays ----


@dataclass(frozen=True, slots=True)
class LocalArrays:
    """The arrays of a function's local memory, apart from one another."""

    variable: PtxVariable
    nbytes: int  # of all of them with the gaps
    ranges: tuple[tuple[int, int], ...]  # the new offset and the bytes of each
    body: list[Instruction | PtxLabel]  # with the new offsets


def separate_locals(function: PtxFunction, gap: int) -> LocalArrays | None:
    """Put a gap between the local arrays that the compiler has put side by side.

    Returns None where there is one array, or the addresses are used in a form that shows no beginnings.
    """
    body = function.body or []
    depot = next((each for each in function.variables if each.name.startswith("__local_depot")), None)
    if depot is None:
        return None
    bases: set[int] = set()
    begins: set[int] = {0}
    uses: list[tuple[int, int, int]] = []  # index, number of the operand, offset
    for index, item in function.instructions:
        operands = item.operands
        first = operands[1] if len(operands) > 1 else None
        is_base = isinstance(first, Symbol) and first.target is depot and not first.offset
        is_base = is_base or (isinstance(first, Register) and first.number in bases)
        if item.opcode in ("mov", "cvta") and is_base and isinstance(operands[0], Register):
            bases.add(operands[0].number)
            continue
        for number, operand in enumerate(operands):
            if isinstance(operand, Address) and isinstance(operand.base, Register) and operand.base.number in bases:
                uses.append((index, number, operand.offset))
            elif find_registers([operand]) & bases or (isinstance(operand, Symbol) and operand.target is depot):
                is_sum = item.opcode == "add" and number == 1 and item.modifiers == ("u64",)
                addend = operands[2] if is_sum else None
                if not isinstance(addend, Immediate) or find_registers(operands[:1]) & bases:
                    return None
                begins.add(int(addend.value))
                uses.append((index, 2, int(addend.value)))
    starts = sorted(begins)
    if len(starts) < 2 or starts[-1] >= depot.nbytes or any(not 0 <= offset < depot.nbytes for _, _, offset in uses):
        return None
    gap = -(-gap // depot.align) * depot.align
    ranges = tuple(
        (begin + number * gap, end - begin)
        for number, (begin, end) in enumerate(zip(starts, [*starts[1:], depot.nbytes], strict=True))
    )
    changed = list(body)
    for index, place, offset in uses:
        old = changed[index]
        assert isinstance(old, Instruction)
        moved = offset + gap * sum(start <= offset for start in starts[1:])
        changed[index] = replace(old, operands=[
            operand if number != place
            else replace(operand, offset=moved) if isinstance(operand, Address) else Immediate(moved)
            for number, operand in enumerate(old.operands)
        ])  # fmt: skip
    return LocalArrays(depot, depot.nbytes + gap * (len(starts) - 1), ranges, changed)
