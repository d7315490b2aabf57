"""Loops that end with an element's data: their body becomes a program of its own, see `xferlib.kernels.ir.loops`.

A turn is translated once, as if each variable that the loop assigns had a value of unknown origin, its leaf. The
values at the end of the turn, and whether another one follows, are then functions of the leaves.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from xferlib.kernels.frontends.control import assigned
from xferlib.kernels.frontends.memory.contents import RESULT, Carried
from xferlib.kernels.frontends.memory.elements import UNTOUCHED, Touched
from xferlib.kernels.ir import loops
from xferlib.kernels.ir.nodes import BOOL, Node, ordered


class Loop(NamedTuple):
    """A loop of the source: the parts of it that repeat."""

    node: Any
    condition: Any
    body: Any
    after: Any
    number: int
    """Its own among the loops of a translation."""
    is_late: bool
    """``do``: the condition stands behind the body."""


def translate(translator: Any, loop: Loop) -> None:
    """Translate a loop, from the scope's present state on."""
    b, scope = translator.b, translator.scope
    parts = (loop.condition, loop.body, loop.after)
    before = b.made
    results = (translator.returns or BOOL) if assigned.has(("Return",), *parts) else None
    translator._fold()
    carried = scope.carried(assigned.names(translator.assigning, *parts), results)
    changing = translator.work.changing.setdefault(id(loop.node), {})
    carried += scope.further(changing, carried)
    start = scope.snapshot()
    memory = {array: loops.leaf(b, (loop.number, "memory", array), scope.true) for array in scope.ordered}
    while True:
        outside = scope.enter_loop([(each, _leaves(translator, loop, n, each)) for n, each in enumerate(carried)])
        scope.touched = {array: Touched(node, ()) for array, node in memory.items()}
        again = _rest(translator, loop, loop.condition) if loop.is_late else _turn(translator, loop)
        scope.end_jump(("break", loop.number))
        scope.check_written(outside)
        if not (missed := scope.missed(outside, carried)):
            break
        changing.update((each.key, None) for each in missed)  # or loops within loops would double the work each time
        carried += missed  # what changed is known only behind a turn, which is translated anew as if it changes always
        scope.restore(start)
    returned = next((scope.contents(each).written for each in carried if each.key == RESULT), None)
    with_result: set[int] = set()
    variables: list[tuple[Node, Node, Node]] = []
    for number, each in enumerate(carried):
        value, written = scope.contents(each)
        leaf, flag = _leaves(translator, loop, number, each)
        variables.append((each.value, leaf, value))
        if flag is None or each.written is None:
            continue
        if scope.is_sure(b.op("or", again, written)):  # the last turn has written it
            carried[number] = each._replace(written=None)
            continue
        if returned is not None and each.key != RESULT and scope.is_sure(b.op("or", b.op("not", returned), written)):
            with_result.add(number)
        variables.append((each.written, flag, written))
    inside, scope.touched = scope.touched, dict(outside.touched)
    effects, after = _order(scope, memory, inside)
    nodes = ordered([*effects, again, *(value for _, _, value in variables)])
    b.work += len(nodes)
    needed = set(map(id, nodes))
    leaves = [node for node in memory.values() if id(node) in needed or not variables]
    variables += [(scope.true, node, node) for node in leaves]
    made, values = loops.make(b, scope.start(outside), variables, again, before, effects, after)
    _touch(scope, memory, inside, made)
    last = iter(values)
    ends = [(each, next(last), next(last) if each.written else None) for each in carried]
    result = next((written for each, _, written in ends if each.key == RESULT), None)
    for number in (
        with_result if result is not None else ()
    ):  # what each return has written, is known to be so behind it
        each, value, written = ends[number]
        ends[number] = each, value, b.op("or", result, written)
    scope.leave_loop(outside, ends)


def _order(scope: Any, memory: dict[int, Node], inside: dict[int, Touched]) -> tuple[list[Node], list[Node]]:
    """The last updates of a turn, and the nodes before the loop that must come before it."""
    effects: list[Node] = []
    after: list[Node] = []
    for array, (last, reads) in inside.items():
        is_written = last is not None and last is not memory[array]
        earlier, earlier_reads = scope.touched.get(array, UNTOUCHED)
        if last is not None and is_written:
            effects.append(last)
            after += earlier_reads
        if earlier is not None and (is_written or reads):
            after.append(earlier)
    return effects, after


def _touch(scope: Any, memory: dict[int, Node], inside: dict[int, Touched], made: Node) -> None:
    """Note that a loop has touched ordered arrays."""
    for array, (last, reads) in inside.items():
        earlier = scope.touched.get(array, UNTOUCHED)
        if last is not memory[array]:
            scope.touched[array] = Touched(made, ())
        elif reads:
            scope.touched[array] = Touched(earlier.update, (*earlier.reads, made))


def _leaves(translator: Any, loop: Loop, number: int, each: Carried) -> tuple[Node, Node | None]:
    b = translator.b
    value = loops.leaf(b, (loop.number, number, "value"), each.value)
    return value, loops.leaf(b, (loop.number, number, "written"), each.written) if each.written else None


def _turn(translator: Any, loop: Loop) -> Node:
    b, scope = translator.b, translator.scope
    goes = b.const(True, BOOL) if loop.condition is None else b.truth(translator.expression(loop.condition))
    with scope.branch(goes) as yes:
        again = _rest(translator, loop, None)
    with scope.branch(b.op("not", goes)) as no:
        pass
    scope.merge(goes, yes, no)
    return b.op("and", goes, again)  # type: ignore[no-any-return]


def _rest(translator: Any, loop: Loop, condition: Any) -> Node:
    """The body and what follows it; returns whether another turn follows."""
    b, scope = translator.b, translator.scope
    with translator.block():
        translator._statement(loop.body)
    scope.end_jump(("continue", loop.number))
    stopped = scope.jumped()
    stays = b.const(True, BOOL) if stopped is None else b.op("not", stopped)
    with scope.branch(stays) as rest:
        if loop.after is not None:
            translator.part(loop.after)
        again = b.const(True, BOOL) if condition is None else b.truth(translator.expression(condition))
    with scope.branch(b.op("not", stays)) as skipped:
        pass
    scope.merge(stays, rest, skipped)
    return b.op("and", stays, again)  # type: ignore[no-any-return]
