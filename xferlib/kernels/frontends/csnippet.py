"""The front end for C snippets: pycparser parses them, and this module translates the tree into a program.

Passing the C text through to NVRTC would be shorter, and CuPy does it. But then the CPU engine could not run the
kernel, and results would differ: NVRTC contracts ``a*b+c``, and leaves ``(int)NaN`` or ``x % 0`` undefined. Here the
operations of the representation define every result, on every backend.

Three things of C need care in the translation. C converts silently, by the integer promotions and the usual
arithmetic conversions: each becomes an explicit cast. A branch becomes straight-line code: both sides are computed
and one is selected, which is sound because no operation of the representation can fail; reading or writing an
element at a computed index could, so it carries the branch's condition as its mask. ``&&``, ``||`` and ``?:`` guard
their operands alike, and an operand that C may skip must not assign.

A short snippet may expand to millions of nodes through its loops and functions; `cloops` bounds that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NoReturn

from xferlib.errors import KernelTypeError
from xferlib.kernels.frontends import cnumbers
from xferlib.kernels.frontends.calls import float_functions
from xferlib.kernels.frontends.calls.functions import Calls
from xferlib.kernels.frontends.calls.methods import Methods
from xferlib.kernels.frontends.cloops import NEXT_ELEMENT, TranslationState
from xferlib.kernels.frontends.control import assigned
from xferlib.kernels.frontends.cscope import Scope
from xferlib.kernels.frontends.cstatements import Statements
from xferlib.kernels.frontends.ctext import SnippetText
from xferlib.kernels.frontends.memory.contents import Branch, Place
from xferlib.kernels.frontends.memory.structs import Structs, StructType, StructValue
from xferlib.kernels.frontends.memory.translation import Places
from xferlib.kernels.frontends.preamble import NO_PREAMBLE, Preamble, PreambleFunction
from xferlib.kernels.ir.formulas import complex_division
from xferlib.kernels.ir.formulas.lower_complex import (
    complex_equal,
    complex_multiply,
    complex_not_equal,
    each_part,
    with_real,
)
from xferlib.kernels.ir.nodes import (
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    Builder,
    DType,
    Node,
    is_complex,
    is_float,
    part_dtype,
)
from xferlib.kernels.ir.types import C_TYPES, c_common, c_promoted

_ARITHMETIC = {"+": "add", "-": "sub", "*": "mul", "/": "div"}
_COMPLEX = {
    "+": each_part("add"), "-": each_part("sub"), "*": complex_multiply, "/": complex_division.divide,
    "==": complex_equal, "!=": complex_not_equal,
}  # fmt: skip
_COMPARE = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_BITS = {"&": "and", "|": "or", "^": "xor"}
_SHIFTS = {"<<": "shl", ">>": "shr"}


def begin(b: Builder, scope: Scope, types: Mapping[str, DType], preamble: Preamble) -> None:
    """Declare the constants of a preamble in a new scope."""
    if preamble.text is not None and preamble.constants:
        Translator(b, scope, preamble.text, types, preamble).declare_constants(preamble.constants)


class Translator(Statements, Calls, Methods, Places, Structs):
    """Builds the nodes of one snippet for one binding of the generic types."""

    def __init__(
        self,
        builder: Builder,
        scope: Scope,
        text: SnippetText,
        types: Mapping[str, DType],
        preamble: Preamble = NO_PREAMBLE,
        depth: int = 0,
        work: TranslationState | None = None,
        own_types: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """``types`` are those of the kernel's letters, ``own_types`` those of a function's template."""
        self.b = builder
        self.work = TranslationState(float_functions.ASSIGNING) if work is None else work
        self._preamble = preamble
        self._functions = functions = preamble.functions
        self.structs = preamble.structs
        if work is None:
            own = [each for overloads in functions.values() for each in overloads]
            self.work.assigning |= {each.tree.decl.name for each in own if each.has_places}
            self.work.has_loops = any(assigned.has(("For", "While", "DoWhile"), each.tree) for each in own)
        self.assigning = self.work.assigning
        self._depth = depth
        self.scope = scope
        self.text = text
        self._letters = types
        self.types = {**C_TYPES, **types}
        self.own_types = dict(own_types)

    def within(self, function: PreambleFunction, types: Mapping[str, DType]) -> Translator:
        """The translator of a function's body; ``types`` are those of its template."""
        preamble, depth = self._preamble, self._depth + 1
        return Translator(self.b, self.scope, function.text, self._letters, preamble, depth, self.work, types)

    def run(self, statements: list[Any]) -> None:
        """Translate the statements, changing the scope."""
        try:
            self._block(statements)
        except RecursionError:
            raise self.text.error("is nested too deeply; use local variables for parts of it", None) from None

    def declare_constants(self, declarations: Iterable[Any]) -> None:
        """Declare constants, tables and the numbers of enumerations, which nothing changes."""
        self.is_global = True
        for each in declarations:
            if type(each.type).__name__ != "Enum":
                self._do_decl(each)
                continue
            value = self.b.const(0, INT32)
            for number in each.type.values.enumerators:
                if number.value is not None:
                    value = self.b.cast(self.expression(number.value), INT32)
                self.scope.declare(number.name, INT32, value)
                value = self.b.op("add", value, self.b.const(1, INT32))
        self.scope.keep_constants()

    def run_apart(self, statements: list[Any]) -> None:
        """Translate the statements, whose variables end with them."""
        with self.scope.nested():
            self.run(statements)
        self.scope.end_jump(NEXT_ELEMENT)

    def run_unless_returned(self, statements: list[Any]) -> None:
        """Translate statements that run where those before have not met ``return``."""
        returned = self.scope.jumped()
        if returned is None:
            self.run_apart(statements)
        elif returned.op != "const":
            before = self.scope.enter(self.b.op("not", returned))
            self.run_apart(statements)
            self.scope.resume(returned, before)

    def value(self, dtype: Any) -> Any:
        """The value of a snippet that is one expression, as a number or a struct of this type."""
        statements = self.text.statements
        if len(statements) != 1:
            raise self.text.error("must be one expression; it has several statements", None)
        try:
            return self.converted(statements[0], dtype)
        except RecursionError:
            raise self.text.error("is nested too deeply; use local variables for parts of it", None) from None

    def error(self, node: Any, message: str, kind: type[Exception] | None = None) -> Exception:
        """An error that points at ``node``."""
        coordinate = node.coord
        position = self.text.position(coordinate.line, coordinate.column or 1) if coordinate else None
        width = len(node.name) if type(node).__name__ == "ID" else 1
        found: Exception = self.text.error(message, position, width, **({"kind": kind} if kind else {}))
        return found

    def fail(self, node: Any, message: str, kind: type[Exception] | None = None) -> NoReturn:
        raise self.error(node, message, kind)

    # --- expressions
    def expression(self, node: Any) -> Node:
        """The value of an expression that is a number."""
        return self._number(node, self.any_value(node))

    def _number(self, node: Any, value: Any) -> Node:
        if isinstance(value, StructValue):
            self.fail(node, f"a {value.dtype} is no number; take a member of it", KernelTypeError)
        return value  # type: ignore[no-any-return]

    def converted(self, node: Any, dtype: Any) -> Any:
        """The value of an initializer or an expression, as a number or a struct of this type."""
        if isinstance(dtype, StructType):
            return self.made_record(node, dtype, node.exprs if type(node).__name__ == "InitList" else [node])
        return self.b.cast(self.expression(node), dtype)

    def any_value(self, node: Any) -> Any:
        """The value of an expression: a number, or a struct."""
        self._step(node)
        handler = getattr(self, f"_eval_{type(node).__name__.lower()}", None)
        if handler is None:
            self.fail(node, f"{type(node).__name__} is not supported in a snippet; use raw_module")
        return handler(node)

    def _eval_constant(self, node: Any) -> Node:
        try:
            value, dtype = cnumbers.parse(node.value)
        except cnumbers.NumberError as problem:
            self.fail(node, str(problem))
        return self.b.const(value, dtype)

    def _eval_id(self, node: Any) -> Any:
        if node.name in cnumbers.NAMED and not self.scope.is_declared(node.name):
            return self.b.const(*cnumbers.NAMED[node.name])
        found: Node = self.scope.read(node.name, lambda message: self.fail(node, message))
        return found

    def _eval_cast(self, node: Any) -> Any:
        if type(node.to_type.type).__name__ != "TypeDecl":
            self.fail(node, "a cast to a pointer has no value; cast to a number")
        dtype = self.type_of(node.to_type.type.type)
        is_list = type(node.expr).__name__ == "ExprList"
        if isinstance(dtype, StructType):
            return self.made_record(node, dtype, node.expr.exprs if is_list else [node.expr])
        if is_list:
            return self._complex_of(node, dtype)
        return self.b.cast(self.expression(node.expr), dtype)

    def _eval_compoundliteral(self, node: Any) -> Any:
        """``(P){a, b}``."""
        return self.converted(node.init, self.type_of(node.type.type.type))

    def _complex_of(self, node: Any, dtype: DType) -> Node:
        """``complex<T>(real, imag)``."""
        parts = node.expr.exprs
        if len(parts) != 2 or not is_complex(dtype):
            self.fail(node, f"{dtype} is made of one value, and {len(parts)} are given")
        real = FLOAT32 if dtype.itemsize == 8 else FLOAT64
        return self.b.complex(*(self.b.cast(self.expression(each), real) for each in parts))

    def _eval_unaryop(self, node: Any) -> Any:
        if node.op in ("++", "--", "p++", "p--"):
            before, after = self.updated(
                node.expr, lambda value: self._binary(node, node.op.lstrip("p")[0], value, self.b.const(1, INT32))
            )
            return before if node.op.startswith("p") else after
        if node.op == "*":
            found: Node = self._read(node)
            return found
        if node.op == "&":
            self.fail(node, "an address is no number; pass it to a function, or declare a pointer by it")
        if node.op == "sizeof":
            return self._size_of(node)
        given = self.operand(node.expr) if self.is_overloaded(node.op) else node.expr
        if (found := self.operated(node, node.op, [given])) is not None:
            return found
        value = self._number(node, self.evaluated(node, given))
        if node.op == "!":
            return self.b.op("not", self.b.truth(value))
        value = self.b.cast(value, c_promoted(value.dtype))
        if node.op == "+":
            return value
        if node.op == "~":
            if value.dtype.kind not in "iu":
                self.fail(node, f"~ needs an integer, not {value.dtype}", KernelTypeError)
            return self.b.op("not", value)
        return each_part("neg")(self.b, value) if is_complex(value.dtype) else self.b.op("neg", value)

    def _eval_binaryop(self, node: Any) -> Any:
        if node.op in ("&&", "||"):
            left = self.b.truth(self.expression(node.left))
            taken = left if node.op == "&&" else self.b.op("not", left)
            value, ran = self._guarded(taken, node.right)
            right = self.b.truth(self._number(node.right, value))
            self._merge(taken, ran)
            return self.b.op("and" if node.op == "&&" else "or", left, right)
        if self.is_overloaded(node.op):
            given = [self.operand(node.left), self.operand(node.right)]
            if (found := self.operated(node, node.op, given)) is not None:
                return found
            values = [self.evaluated(node, each) for each in given]
        else:  # with as few calls as may be: a long sum is a deep tree
            values = [self.any_value(node.left), self.any_value(node.right)]
        return self._binary(node, node.op, *(self._number(node, each) for each in values))

    def _guarded(self, condition: Node, node: Any) -> tuple[Any, Branch]:
        """An operand that is evaluated only under ``condition``, and what it has assigned."""
        with self.scope.branch(condition) as branch:
            value = self.any_value(node)
        return value, branch

    def _merge(self, condition: Node, yes: Branch, no: Branch | None = None) -> None:
        """Set the variables after operands that ran under ``condition`` and, if there is one, its opposite."""
        with self.scope.branch(condition) as before:
            pass
        no = no or before
        if yes.state != before.state or no.state != before.state:  # most operands assign nothing
            self.scope.merge(condition, yes, no)

    def _binary(self, node: Any, op: str, left: Node, right: Node) -> Node:
        b = self.b
        if op in _SHIFTS:
            return self._shift(node, op, left, right)
        common = c_common(left.dtype, right.dtype)
        if op in _ARITHMETIC and is_complex(left.dtype) != is_complex(right.dtype):
            part = part_dtype(common)
            x, y = (b.cast(each, common if is_complex(each.dtype) else part) for each in (left, right))
            if (found := with_real(b, _ARITHMETIC[op], x, y)) is not None:
                return found
        x, y = b.cast(left, common), b.cast(right, common)
        if is_complex(common):
            if op not in _COMPLEX:
                self.fail(node, f"{op} is not defined for {common}", KernelTypeError)
            return _COMPLEX[op](b, x, y)
        if op in _COMPARE:
            return b.op(_COMPARE[op], x, y)
        if op in _BITS or op == "%":
            if is_float(common):
                remedy = "use fmod" if op == "%" else "cast to an integer"
                self.fail(node, f"{op} is not defined for {left.dtype} and {right.dtype}; {remedy}", KernelTypeError)
            return b.op("imod" if op == "%" else _BITS[op], x, y)
        if op == "/" and not is_float(common):
            return b.op("idiv", x, y)
        return b.op(_ARITHMETIC[op], x, y)

    def _shift(self, node: Any, op: str, left: Node, right: Node) -> Node:
        if left.dtype.kind not in "biu" or right.dtype.kind not in "biu":
            problem = f"{op} is not defined for {left.dtype} and {right.dtype}; cast to integers"
            self.fail(node, problem, KernelTypeError)
        value = self.b.cast(left, c_promoted(left.dtype))
        count = self.b.cast(right, INT64)
        if value.dtype.itemsize < 8:  # a count beyond the narrow type must stay beyond it
            width = self.b.const(8 * value.dtype.itemsize, INT64)
            is_inside = self.b.op("and", self.b.op("ge", count, self.b.const(0, INT64)), self.b.op("lt", count, width))
            count = self.b.select(is_inside, count, width)
        return self.b.op(_SHIFTS[op], value, self.b.cast(count, value.dtype))

    def _eval_ternaryop(self, node: Any) -> Any:
        condition = self.b.truth(self.expression(node.cond))
        yes, ran = self._guarded(condition, node.iftrue)
        no, ran_else = self._guarded(self.b.op("not", condition), node.iffalse)
        self._merge(condition, ran, ran_else)
        if isinstance(yes, StructValue) or isinstance(no, StructValue):
            if yes.dtype != no.dtype:
                self.fail(
                    node, f"?: chooses between a {yes.dtype} and a {no.dtype}; make them one type", KernelTypeError
                )
            return self.scope.selected(condition, yes, no)
        dtype = yes.dtype if yes.dtype == no.dtype else c_common(yes.dtype, no.dtype)
        return self.b.select(condition, self.b.cast(yes, dtype), self.b.cast(no, dtype))

    def _eval_exprlist(self, node: Any) -> Any:
        """The comma operator: all are evaluated, and the last one is the value."""
        for each in node.exprs[:-1]:
            self._statement(each)
        return self.any_value(node.exprs[-1])

    def _eval_assignment(self, node: Any) -> Any:
        self.refuse_pointer(node.lvalue)
        if node.op == "=":
            return self.assign(node.lvalue, self.any_value(node.rvalue))
        right, target = node.rvalue, node.lvalue
        if self.is_overloaded(node.op):  # C++ evaluates the right side first
            right, target = self.operand(right), self.operand(target)
        if (found := self.operated(node, node.op, [target, right])) is not None:
            return found
        number = self._number(node.rvalue, self.evaluated(node, right))
        known = target if isinstance(target, Place) else None
        return self.updated(node.lvalue, lambda before: self._binary(node, node.op[:-1], before, number), known)[1]
