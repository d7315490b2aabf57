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

from collections.abc import Mapping
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
from xferlib.kernels.frontends.memory.translation import Places
from xferlib.kernels.frontends.preamble import PreambleFunction
from xferlib.kernels.ir.formulas import complex_division
from xferlib.kernels.ir.formulas.lower_complex import complex_equal, complex_multiply, complex_not_equal, each_part
from xferlib.kernels.ir.nodes import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    Builder,
    DType,
    Node,
    is_complex,
    is_float,
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


def parse(text: SnippetText) -> Any:
    """The syntax tree of a snippet: a list of statements.

    Raises:
        KernelSyntaxError: It is not C, or nested too deeply.
    """
    from pycparser import c_parser

    try:
        tree = c_parser.CParser().parse(text.statements(), filename="")
    except c_parser.ParseError as error:
        raise text.parse_error(str(error)) from None
    except RecursionError:
        raise text.error("is nested too deeply; use local variables for parts of it", None) from None
    body = tree.ext[-1]
    if type(body).__name__ != "FuncDef" or body.decl.name != "kernel":
        raise text.error("a closing brace without its opening one", text.source.find("}"))
    return body.body.block_items or []


class Translator(Statements, Calls, Methods, Places):
    """Builds the nodes of one snippet for one binding of the generic types."""

    def __init__(
        self,
        builder: Builder,
        scope: Scope,
        text: SnippetText,
        types: Mapping[str, DType],
        functions: Mapping[str, PreambleFunction] = MappingProxyType({}),
        depth: int = 0,
        work: TranslationState | None = None,
    ) -> None:
        self.b = builder
        self.work = work or TranslationState()
        self._functions = functions
        self.assigning = float_functions.ASSIGNING.union(name for name, each in functions.items() if each.has_places)
        self._has_loops = any(assigned.has(("For", "While", "DoWhile"), each.tree) for each in functions.values())
        self._depth = depth
        self.scope = scope
        self.text = text
        self.types = {**C_TYPES, **types}

    def within(self, function: PreambleFunction, types: Mapping[str, DType]) -> Translator:
        """The translator of a function's body; ``types`` are those of its template."""
        known = {**self.types, **types}
        return Translator(self.b, self.scope, function.text, known, self._functions, self._depth + 1, self.work)

    def run(self, statements: list[Any]) -> None:
        """Translate the statements, changing the scope."""
        try:
            self._block(statements)
        except RecursionError:
            raise self.text.error("is nested too deeply; use local variables for parts of it", None) from None

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

    def value(self, statements: list[Any]) -> Node:
        """The value of a snippet that is one expression."""
        if len(statements) != 1:
            raise self.text.error("must be one expression; it has several statements", None)
        try:
            return self.expression(statements[0])
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
        self._step(node)
        handler = getattr(self, f"_eval_{type(node).__name__.lower()}", None)
        if handler is None:
            self.fail(node, f"{type(node).__name__} is not supported in a snippet; use raw_module")
        result: Node = handler(node)
        return result

    def _eval_constant(self, node: Any) -> Node:
        try:
            value, dtype = cnumbers.parse(node.value)
        except cnumbers.NumberError as problem:
            self.fail(node, str(problem))
        return self.b.const(value, dtype)

    def _eval_id(self, node: Any) -> Node:
        if node.name in ("true", "false"):
            return self.b.const(node.name == "true", BOOL)
        if node.name in ("M_PI", "CUDART_PI"):
            return self.b.const(3.141592653589793, FLOAT64)
        if node.name in ("NAN", "INFINITY"):
            return self.b.const(float(node.name[:3]), FLOAT32)
        return self.scope.read(node.name, lambda message: self.fail(node, message))

    def _eval_cast(self, node: Any) -> Node:
        if type(node.to_type.type).__name__ != "TypeDecl":
            self.fail(node, "a cast to a pointer has no value; cast to a number")
        dtype = self.type_of(node.to_type.type.type)
        if type(node.expr).__name__ == "ExprList":
            return self._complex_of(node, dtype)
        return self.b.cast(self.expression(node.expr), dtype)

    def _complex_of(self, node: Any, dtype: DType) -> Node:
        """``complex<T>(real, imag)``."""
        parts = node.expr.exprs
        if len(parts) != 2 or not is_complex(dtype):
            self.fail(node, f"{dtype} is made of one value, and {len(parts)} are given")
        real = FLOAT32 if dtype.itemsize == 8 else FLOAT64
        return self.b.complex(*(self.b.cast(self.expression(each), real) for each in parts))

    def type_of(self, node: Any) -> DType:
        if type(node).__name__ != "IdentifierType":
            self.fail(node, "struct, union and enum are not supported; use numbers")
        words = sorted((word for word in node.names if word != "signed" or len(node.names) == 1), reverse=True)
        name = " ".join(words)
        name = name.removesuffix(" int") if (name != "int" and "long" in name) or "short" in name else name
        name = "int" if name == "signed" else name
        dtype = self.types.get(name) or self.types.get(" ".join(node.names)) or self._alias(name)
        if dtype is None:
            self.fail(node, f"unknown type {' '.join(node.names)!r}; use a C or NumPy type name")
        return dtype

    def _alias(self, name: str) -> DType | None:
        """The type to which the source gives a name."""
        for _ in range(len(self.text.aliases)):
            name = " ".join(self.text.aliases.get(name, name).split())
        return self.types.get(name)

    def _eval_unaryop(self, node: Any) -> Node:
        if node.op in ("++", "--", "p++", "p--"):
            before = self.expression(node.expr)
            after = self._binary(node, node.op.lstrip("p")[0], before, self.b.const(1, INT32))
            assigned = self.assign(node.expr, after)
            return before if node.op.startswith("p") else assigned
        if node.op == "*":
            return self._read(node)
        if node.op == "&":
            self.fail(node, "an address is no number; pass it to a function, or declare a pointer by it")
        if node.op == "sizeof":
            return self._size_of(node)
        value = self.expression(node.expr)
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

    def _eval_binaryop(self, node: Any) -> Node:
        if node.op in ("&&", "||"):
            left = self.b.truth(self.expression(node.left))
            taken = left if node.op == "&&" else self.b.op("not", left)
            right = self.b.truth(self._guarded(taken, node.right))
            return self.b.op("and" if node.op == "&&" else "or", left, right)
        return self._binary(node, node.op, self.expression(node.left), self.expression(node.right))

    def _guarded(self, condition: Node, node: Any) -> Node:
        """An operand that is evaluated only under ``condition``; it may not assign."""
        with self.scope.branch(condition) as branch:
            value = self.expression(node)
        if self.scope.has_changed(branch):
            self.fail(node, "an assignment inside && , || or ?: is not supported; use if")
        return value

    def _binary(self, node: Any, op: str, left: Node, right: Node) -> Node:
        b = self.b
        if op in _SHIFTS:
            return self._shift(node, op, left, right)
        common = c_common(left.dtype, right.dtype)
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

    def _eval_ternaryop(self, node: Any) -> Node:
        condition = self.b.truth(self.expression(node.cond))
        yes = self._guarded(condition, node.iftrue)
        no = self._guarded(self.b.op("not", condition), node.iffalse)
        dtype = yes.dtype if yes.dtype == no.dtype else c_common(yes.dtype, no.dtype)
        return self.b.select(condition, self.b.cast(yes, dtype), self.b.cast(no, dtype))

    def _eval_assignment(self, node: Any) -> Node:
        value = self.expression(node.rvalue)
        if node.op != "=":
            value = self._binary(node, node.op[:-1], self.expression(node.lvalue), value)
        return self.assign(node.lvalue, value)
