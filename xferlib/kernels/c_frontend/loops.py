"""Loops of a snippet.

A loop whose condition is known at translation is written out: its indices and branches are known then. Any other one
becomes a loop of the program. A turn of it is translated once, as if each cell that the loop changes had a value of
unknown origin, its leaf; what the turn leaves in those cells, and whether another one follows, are functions of the
leaves. Which cells those are is guessed from the syntax and then checked: where a turn has changed another cell, it is
translated again with that one among them. So nothing that a turn changes is missed, whatever way the write took.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from xferlib.kernels import ir
from xferlib.kernels.c_frontend import functions, tree
from xferlib.kernels.c_frontend.memory import UNTOUCHED, MemoryState, OrderNeededError, SsaValue, Touched
from xferlib.kernels.c_frontend.scope import (
    Cell,
    Constant,
    Element,
    Jump,
    PointerVariable,
    ReadOnly,
    cells_of,
    is_variable,
)
from xferlib.kernels.c_frontend.translation import Translation
from xferlib.kernels.ir import BOOL, MOST_STEPS, Node, sort_nodes

MOST_TURNS = 4096
"""Limit of the turns that one loop is written out with."""
MOST_WRITTEN_OUT = MOST_STEPS // 2
"""Limit of the work for one loop that is written out."""


class UnrolledError(Exception):
    """A loop is too long to be written out."""


class Loops:
    """Translates loops, for a translator."""

    def __init__(self, translator: Translation, may_write: Callable[[tree.CallExpression], bool]) -> None:
        self._t = translator
        self._may_write = may_write
        """Whether a call may write to its arguments."""
        self._too_long: set[int] = set()
        """The loops that are not written out."""

    def loop(self, node: tree.Loop) -> None:
        with self._t.block():
            if node.begin is not None:
                self._t.statement(node.begin)
            self._turns(node)

    def _turns(self, node: tree.Loop) -> None:
        memory, frame = self._t.memory, self._t.frame
        is_endless = self._is_endless(node)
        if is_endless and not _leaves(node.body):
            self._t.fail(node, "a loop without a condition, break or return has no end; add one")
        outside = frame.loops
        stop, following = Jump(), Jump()
        frame.loops = (*outside, (stop, following))
        if is_endless or id(node) in self._too_long:
            self._run(node, stop, following)
        else:
            start, done = memory.snapshot(), len(memory.created)
            scope = frame.scope
            try:
                self._unroll(node, stop, following)
            except UnrolledError:
                self._too_long.add(id(node))
                memory.restore(start)
                del memory.created[done:]
                frame.scope, frame.loops = scope, (*outside, (stop, following))
                self._run(node, stop, following)
        memory.end_jump(stop)
        frame.loops = outside

    def _is_endless(self, node: tree.Loop) -> bool:
        """Whether the condition of a loop is plainly true, or there is none."""
        condition = node.condition
        if isinstance(condition, tree.Literal):
            return bool(self._t.value_of_number(condition).attr)
        return condition is None or (isinstance(condition, tree.Name) and condition.name == "true")

    def _unroll(self, node: tree.Loop, stop: Jump, following: Jump) -> None:
        """Write the turns of a loop out; the rest of it runs from where its condition is not known."""
        begun, turns = self._t.b.work, 0
        expected = self._count_turns(node)
        if expected is not None and expected > MOST_TURNS:
            raise UnrolledError

        goes: bool | None = True

        def runs() -> Iterator[Callable[[], Any]]:
            nonlocal turns, goes
            while (not turns and node.is_late) or (goes := self._test(node.condition)):
                turns += 1
                if turns > MOST_TURNS or self._t.b.work - begun > MOST_WRITTEN_OUT:
                    raise UnrolledError
                yield lambda: self._body(node, following)
                if node.after is not None:
                    yield lambda: self._after(node)
                if turns == 1 and expected and (self._t.b.work - begun) * expected > MOST_WRITTEN_OUT:
                    raise UnrolledError

        def last() -> None:
            if goes is None:
                self._run(node, stop, following, is_late=False)

        self._t.follow(runs(), last)

    def _body(self, node: tree.Loop, following: Jump) -> None:
        """A turn's body, after which a counter is a constant again."""
        with self._t.block():
            self._t.statement(node.body)
        self._t.memory.end_jump(following)
        self._t.memory.fold()

    def _after(self, node: tree.Loop) -> None:
        self._t.effect(node.after)
        self._t.memory.fold()

    def _count_turns(self, node: tree.Loop) -> int | None:
        """The turns of a loop that counts between constants; None where they are not plain to see."""
        condition, after = node.condition, node.after
        if not (isinstance(condition, tree.Binary) and condition.op in ("<", "<=", ">", ">=", "!=")):
            return None
        if not isinstance(condition.left, tree.Name):
            return None
        step = 0
        if isinstance(after, tree.Unary) and after.op.strip("p") in ("++", "--"):
            target, step = after.expr, 1 if "+" in after.op else -1
        elif isinstance(after, tree.Assignment) and after.op in ("+=", "-="):
            target = after.target
            if not isinstance(after.value, tree.Literal):
                return None
            try:
                step = int(functions.number(after.value.text)[0]) * (1 if after.op == "+=" else -1)
            except functions.NumberError:
                return None
        else:
            return None
        if not isinstance(target, tree.Name) or target.name != condition.left.name or not step:
            return None
        before = self._t.memory.snapshot()
        given = [self._t.value(each) for each in (condition.left, condition.right)]
        self._t.memory.restore(before)
        values = [self._t.memory.constant(each) if isinstance(each, Node) else None for each in given]
        first, last = values
        if first is None or last is None or first.dtype.kind not in "biu" or last.dtype.kind not in "biu":
            return None
        for each in tree.walk(node.body):
            changed = each.args if isinstance(each, tree.CallExpression) else [tree.find_target(each)]
            if any(owner_of(one) == target.name for one in changed):
                return None
        return max(0, int((int(last) - int(first)) / step))

    def _test(self, condition: Any) -> bool | None:
        """The value of a condition; None if it is not known, with memory as before."""
        before = self._t.memory.snapshot() if may_change(condition) else None
        value = self._t.memory.constant(self._t.b.truth(self._t.value_of_number(condition)))
        if value is None:
            if before is not None:
                self._t.memory.restore(before)
            return None
        return bool(value)

    def _run(self, node: tree.Loop, stop: Jump, following: Jump, *, is_late: bool | None = None) -> None:
        """Translate a loop that the program runs, from memory's present state on."""
        is_late = node.is_late if is_late is None else is_late
        before = self._t.b.node_count
        start = self._t.memory.snapshot()
        carried = self._guess_writes(node)
        while True:
            self._t.count(8)
            more = self._attempt(node, stop, following, carried, before, is_late=is_late)
            if not more:
                return
            self._t.memory.restore(start)
            carried += more

    def _guess_writes(self, node: tree.Loop) -> list[Cell]:
        """The cells that a loop may change, as far as its syntax shows: a guess, which the translation checks."""
        found: dict[Cell, None] = {}
        parts = (node.condition, node.body, node.after)
        has_calls = False
        for each in tree.walk(*parts):
            targets = [tree.find_target(each)]
            if isinstance(each, tree.CallExpression):
                has_calls = True
                if isinstance(each.function, tree.Member):
                    targets = [each.function.owner]
                if self._may_write(each):
                    targets += each.args
            for target in targets:
                name = owner_of(target)
                entity = self._t.frame.scope.find(name) if name is not None else None
                if isinstance(entity, PointerVariable):
                    is_moved = isinstance(target, tree.Name) and not isinstance(each, tree.CallExpression)
                    if is_moved and entity.cell is not None:
                        found[entity.cell] = None
                    elif not is_moved:
                        found.update(dict.fromkeys(cells_of(entity.base)))
                elif entity is not None and is_variable(entity) and not isinstance(entity, (ReadOnly, Constant)):
                    found.update(dict.fromkeys(cells_of(entity)))
        if has_calls and self._t.frame.this is not None:
            found.update(dict.fromkeys(cells_of(self._t.frame.this)))
        return list(found)

    def _attempt(
        self, node: tree.Loop, stop: Jump, following: Jump, carried: list[Cell], before: int, *, is_late: bool
    ) -> list[Cell]:
        """Translate one turn of a loop; returns further cells that it changes, with memory to be restored, or none."""
        memory, b = self._t.memory, self._t.b
        mark = memory.serial
        returned = len(self._t.frame.references or ())
        outside = memory.snapshot()
        key = id(node), memory.serial, b.work
        slots: list[tuple[Cell, Node, Node | None, Node, Node | None]] = []
        around, memory.around = memory.around, (*memory.around, outside.path)
        memory.path, memory.state.jumps = None, {}
        for number, cell in enumerate(carried):
            slot = outside.state.cells.get(cell)
            value = b.const(0, cell.dtype) if slot is None else slot.value
            written: Node | None = None
            if (cell.param is not None or cell in memory.outputs) and (slot is None or slot.written is not memory.true):
                written = b.const(False, BOOL) if slot is None else slot.written
            leaf = ir.add_carried(b, (*key, number, "value"), value)
            memory.own_indices.starts[id(leaf)] = value
            flag = None if written is None else ir.add_carried(b, (*key, number, "written"), written)
            slots.append((cell, value, written, leaf, flag))
            memory.state.cells[cell] = SsaValue(leaf, flag or memory.true)
        arrays = {each: ir.add_carried(b, (*key, "memory", each), memory.true) for each in memory.ordered}
        memory.touched = {array: Touched(leaf, ()) for array, leaf in arrays.items()}
        entered = memory.state.copy()
        again = self._rest(node, following, node.condition) if is_late else self._turn(node, following)
        broken = memory.state.jumps.pop(stop, None)
        memory.around = around
        if memory.constant(again):
            self._t.fail(node, "a loop whose condition is always true, without break or return, has no end; add one")
        if len(self._t.frame.references or ()) > returned:
            self._t.fail(
                node, "a loop that ends with the data cannot return a reference or a pointer; return behind it"
            )
        more = self._list_writes(entered, mark, carried)
        if more:
            return more
        variables: list[tuple[Node, Node, Node]] = []
        for cell, value, written, leaf, flag in slots:
            slot = memory.state.cells[cell]
            variables.append((value, leaf, slot.value))
            if flag is not None and written is not None:
                variables.append((written, flag, slot.written))
        no = b.const(False, BOOL)
        jumps = list(memory.state.jumps.items())
        implied = {
            cell: [
                number for number, (_, condition) in enumerate(jumps)
                if memory.always(b.op("or", b.op("not", condition), memory.state.cells[cell].written))
            ]
            for cell, _, _, _, flag in slots if flag is not None
        }  # fmt: skip
        """The jumps with which a cell is certainly written."""
        whole: set[Cell] = set()
        """The cells that are written whichever way an endless loop is left."""
        if self._is_endless(node):
            exits = b.const(False, BOOL) if broken is None else broken
            for _, condition in jumps:
                exits = b.op("or", exits, condition)
            stays = b.op("not", exits)
            whole.update(cell for cell in implied if memory.always(b.op("or", stays, memory.state.cells[cell].written)))
        for number, (_, condition) in enumerate(jumps):
            variables.append((no, ir.add_carried(b, (*key, "jump", number), no), condition))
        inside, memory.touched = memory.touched, dict(outside.touched)
        effects, after = self._order(arrays, inside)
        needed = set(map(id, sort_nodes([*effects, again, *(value for _, _, value in variables)])))
        leaves_of = [leaf for leaf in arrays.values() if id(leaf) in needed or not variables]
        variables += [(memory.true, leaf, leaf) for leaf in leaves_of]
        begins = memory.true if outside.path is None else outside.path
        made, values = ir.add_loop(b, begins, variables, again, before, effects, after)
        self._touch(arrays, inside, made)
        memory.path, memory.state = outside.path, outside.state
        last = iter(values)
        ended = [(cell, next(last), None if flag is None else next(last)) for cell, _, _, _, flag in slots]
        is_endless = self._is_endless(node) and not any(
            isinstance(each, tree.JumpStatement) and each.kind == "break" for each in tree.walk(node.body)
        )
        left = [memory.true if is_endless and len(jumps) == 1 else next(last) for _ in jumps]
        for (jump, _), condition in zip(jumps, left, strict=True):
            earlier = memory.state.jumps.get(jump)
            memory.state.jumps[jump] = condition if earlier is None else b.op("or", condition, earlier)
        for cell, value, flag in ended:
            written = memory.true if flag is None or cell in whole else flag
            for number in implied.get(cell, ()):
                if written is not memory.true:
                    written = memory.true if left[number] is memory.true else b.op("or", left[number], written)
            memory.state.cells.pop(cell, None)
            memory.state.cells[cell] = SsaValue(value, written)
        return []

    def _list_writes(self, entered: MemoryState, mark: int, carried: list[Cell]) -> list[Cell]:
        """The cells from before the loop that a turn has changed and that are not among ``carried``."""
        known = set(carried)
        found: list[Cell] = []
        for key, slot in self._t.memory.state.cells.items():
            if entered.cells.get(key) is slot or key in known:
                continue
            if isinstance(key, Element):
                raise OrderNeededError(key.param)
            if key.serial <= mark:
                found.append(key)
        return found

    def _order(self, arrays: dict[int, Node], inside: dict[int, Touched]) -> tuple[list[Node], list[Node]]:
        """The last updates of a turn, and the nodes before the loop that must come before it."""
        effects: list[Node] = []
        after: list[Node] = []
        for array, (last, reads) in inside.items():
            is_written = last is not None and last is not arrays[array]
            earlier, earlier_reads = self._t.memory.touched.get(array, UNTOUCHED)
            if last is not None and is_written:
                effects.append(last)
                after += earlier_reads
            if earlier is not None and (is_written or reads):
                after.append(earlier)
        return effects, after

    def _touch(self, arrays: dict[int, Node], inside: dict[int, Touched], made: Node) -> None:
        """Note that a loop has touched ordered arrays."""
        touched = self._t.memory.touched
        for array, (last, reads) in inside.items():
            earlier = touched.get(array, UNTOUCHED)
            if last is not arrays[array]:
                touched[array] = Touched(made, ())
            elif reads:
                touched[array] = Touched(earlier.update, (*earlier.reads, made))

    def _turn(self, node: tree.Loop, following: Jump) -> Node:
        b = self._t.b
        goes = b.const(True, BOOL) if node.condition is None else b.truth(self._t.value_of_number(node.condition))
        again, _ = self._t.where(goes, lambda: self._rest(node, following, None))
        return b.op("and", goes, again)

    def _rest(self, node: tree.Loop, following: Jump, condition: Any) -> Node:
        """The body and what follows it; returns whether another turn follows."""
        b, memory = self._t.b, self._t.memory
        with self._t.block():
            self._t.statement(node.body)
        memory.end_jump(following)
        stopped = memory.jump_condition()
        stays = b.const(True, BOOL) if stopped is None else b.op("not", stopped)

        def rest() -> Node:
            if node.after is not None:
                self._t.effect(node.after)
            return b.const(True, BOOL) if condition is None else b.truth(self._t.value_of_number(condition))

        again, _ = self._t.where(stays, rest)
        return b.op("and", stays, again)


def may_change(node: Any) -> bool:
    """Whether an expression may change memory."""
    return any(
        isinstance(each, (tree.Assignment, tree.CallExpression))
        or (isinstance(each, tree.Unary) and each.op in tree.STEPS)
        for each in tree.walk(node)
    )


def _leaves(node: Any) -> bool:
    """Whether a statement of a loop's body may leave the loop."""
    return any(
        isinstance(each, tree.Return) or (isinstance(each, tree.JumpStatement) and each.kind == "break")
        for each in tree.walk(node)
    )


_WHOLES = {tree.Index: "array", tree.Member: "owner", tree.Unary: "expr", tree.Cast: "expr", tree.Binary: "left"}
"""The field of an expression that has the variable of which it is a part."""


def owner_of(target: Any) -> str | None:
    """The name of the variable of which a target is a part."""
    while (field := _WHOLES.get(type(target))) is not None:
        target = getattr(target, field)
    return target.name if isinstance(target, tree.Name) else None
