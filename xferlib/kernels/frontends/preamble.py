"""Device functions that a snippet may call: the ``preamble=`` of CuPy's and PyCUDA's kernels.

They are parsed as C and inlined at each call, so that they mean the same on every backend. Every path through a
function that returns a value ends with ``return``. A function template is translated for the types of each call. Its
pointers and references lead to variables of the caller, which it may change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from xferlib.errors import KernelSyntaxError, KernelTypeError
from xferlib.kernels.frontends.control import assigned
from xferlib.kernels.frontends.cpp import directives, type_names
from xferlib.kernels.frontends.cpp.macros import Macros
from xferlib.kernels.frontends.cpp.structs import METHOD, SELF, StructText, take_structs
from xferlib.kernels.frontends.ctext import SnippetText
from xferlib.kernels.frontends.memory.contents import Place, Variable
from xferlib.kernels.frontends.memory.structs import StructType, StructValue
from xferlib.kernels.frontends.memory.translation import is_place, is_reference
from xferlib.kernels.frontends.signature import COMMENT, CONTINUATION
from xferlib.kernels.ir.nodes import BOOL, Builder, Node, is_complex, part_dtype

MOST_DEPTH = 32

_QUALIFIERS = re.compile(r"__(?:device|host|forceinline|inline|noinline|constant)__|\binline\b")


class PreambleFunction(NamedTuple):
    """A function of the preamble, and the text that its errors point into."""

    text: SnippetText
    tree: Any
    types: tuple[str, ...] = ()
    """The type parameters of a template."""

    @property
    def params(self) -> list[Any]:
        given = self.tree.decl.type.args
        return [each for each in given.params if not _is_void(each)] if given else []

    @property
    def is_within_struct(self) -> bool:
        """Whether it stands within a struct, whose types are those of its first argument."""
        return bool(self.params) and self.params[0].name == SELF

    @property
    def has_places(self) -> bool:
        """Whether it is called with pointers or references."""
        return any(type(each.type).__name__ != "TypeDecl" for each in self.params)

    @property
    def returns_reference(self) -> bool:
        return is_reference(self.tree.decl.type.type)


@dataclass(frozen=True, slots=True)
class Preamble:
    """The contents of a preamble, which serve the other texts of a kernel."""

    functions: dict[str, tuple[PreambleFunction, ...]] = field(default_factory=dict)
    """By name, those that the types of their parameters tell apart."""
    macros: Macros = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    """Names of types, each by the type's words."""
    structs: dict[str, StructText] = field(default_factory=dict)
    constants: tuple[Any, ...] = ()
    """Declarations of constants, tables and enumerations, in order."""
    text: SnippetText | None = None
    """For errors of the constants."""


NO_PREAMBLE = Preamble()


def read(source: str, generics: frozenset[str]) -> Preamble:
    """The functions, macros and type names of a preamble.

    Raises:
        KernelSyntaxError: It is not C, or holds anything else.
    """
    if not source.strip():
        return NO_PREAMBLE
    blank, macros = directives.split(source, "preamble")
    blank = _without_comments(blank)
    blank, structs = take_structs(_QUALIFIERS.sub(lambda match: " " * len(match[0]), blank))
    blank, enums = type_names.take_enums(blank)
    blank, templates = type_names.take_templates(blank)
    makers = {each.constructor: each.types for each in structs.values()}
    letters = generics.union(*templates.values(), *makers.values())
    text = SnippetText(blank, letters, "preamble", macros, dict.fromkeys(enums, "int"), frozenset(structs))
    functions: dict[str, tuple[PreambleFunction, ...]] = {}
    constants: list[Any] = []
    for each in text.definitions():
        kind = type(each).__name__
        if kind == "FuncDef":
            name, at = each.decl.name, text.position(each.decl.coord.line, each.decl.coord.column)
            types = templates.get(at, makers.get(name, ()))
            functions[name] = (*functions.get(name, ()), PreambleFunction(text, each, types))
        elif kind == "Decl" and (_is_constant(each) or type(each.type).__name__ == "Enum"):
            constants.append(each)
        elif kind == "Typedef" and type(each.type).__name__ == "TypeDecl":
            _name_type(text, each)
        elif not (kind == "Decl" and type(each.type).__name__ == "FuncDecl"):
            name = f" of {each.name!r}" if getattr(each, "name", None) else ""
            raise KernelSyntaxError(
                f"preamble: it holds a {kind}{name}; write functions, macros, structs, constants with their values, "
                "and names of types"
            )
    return Preamble(functions, macros, text.aliases, structs, tuple(constants), text)


def _without_comments(text: str) -> str:
    """The text with blanks for its comments, whose lines may be continued, and every line where it was."""
    marked = COMMENT.sub(
        lambda match: re.sub(r"[^\n\1]", " ", match[0]).replace("\1", "\2"),
        CONTINUATION.sub(lambda match: "\1" * len(match[0]), text),
    )
    pairs = zip(marked, text, strict=True)
    return "".join(own if mark == "\1" or own == "\n" else " " if mark == "\2" else mark for mark, own in pairs)


def _name_type(text: SnippetText, typedef: Any) -> None:
    """Note a name of a type that all texts of the kernel know."""
    name, words = typedef.name, " ".join(getattr(typedef.type.type, "names", ["struct"]))
    if typedef.coord.line < 2:  # written by `ctext` for the parser
        return
    if text.aliases.setdefault(name, words) != words:
        raise KernelSyntaxError(f"preamble: typedef {name!r} means {text.aliases[name]} and {words}; rename one")


def _is_constant(declaration: Any) -> bool:
    return declaration.init is not None and type(declaration.type).__name__ in ("TypeDecl", "ArrayDecl")


class Inliner:
    """Inlines a call of a function of the preamble into the program.

    Args:
        caller: The translator of the call.
        function: What is called.
        make: Makes the translator of the function for its template's types.
        types: Those of its template's types that the call names.
    """

    def __init__(
        self,
        caller: Any,
        function: PreambleFunction,
        make: Callable[[Mapping[str, Any]], Any],
        types: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.b: Builder = caller.b
        self._caller = caller
        self._function = function
        self._make = make
        self._types = types

    def call(
        self, node: Any, given: list[Any], *, is_apart: bool, is_told: bool = False, as_place: bool = False
    ) -> Any:
        """The value that the function returns; false where it returns none.

        Args:
            node: The call.
            given: The arguments: values, or expressions of which some are for pointers and references.
            is_apart: The function may run under no condition.
            is_told: The types of its template are known without the arguments.
            as_place: The place is wanted to which the reference leads that it returns.
        """
        function, scope = self._function, self._caller.scope
        declaration, params = function.tree.decl.type, function.params
        if len(params) != len(given):
            name, more = function.tree.decl.name.removeprefix(METHOD), int(function.is_within_struct)
            count = f"{name}() takes {len(params) - more} argument(s), {len(given) - more} were given"
            self._make({}).fail(function.tree.decl, count)
        args = [self._argument(param, each) for param, each in zip(params, given, strict=True)]
        translator = self._make({} if is_told else self._deduced(node, params, args))
        names: dict[str, Variable] = {}
        own: list[Variable] = []
        for param, each in zip(params, args, strict=True):
            names[param.name] = self._bound(translator, node, param, each, own)
        translator.params = frozenset(names)
        if function.is_within_struct:
            names = {**scope.members(names[SELF]), **names}
        translator.is_function = True
        translator.returned_places = [] if as_place else None
        kind = declaration.type.type if function.returns_reference else declaration.type
        if type(kind).__name__ != "TypeDecl":
            translator.fail(function.tree.decl, "a function that returns a pointer is not supported; return a number")
        is_void = getattr(kind.type, "names", None) == ["void"]
        translator.returns = returned = None if is_void else translator.type_of(kind.type)
        with scope.function(names, own, is_apart=is_apart):
            translator.run(function.tree.body.block_items or [])
            is_whole = any(map(_always_returns, function.tree.body.block_items or []))
            found = scope.returned(returned) if is_whole and not is_void else None
        if is_void:
            return self.b.const(False, BOOL)
        if not is_whole:
            translator.fail(function.tree.decl, "a path through the function ends without return")
        if as_place:
            return self._only(node, translator.returned_places)
        assert found is not None
        assert found.dtype == returned
        return found

    def _only(self, node: Any, places: list[Place]) -> Place:
        if any(each != places[0] for each in places):
            name = self._function.tree.decl.name.removeprefix(METHOD)
            self._caller.fail(node, f"{name}() returns references to several variables; assign to them by their names")
        return places[0]

    def _argument(self, param: Any, given: Any) -> Node | StructValue | Place:
        if isinstance(given, (Node, StructValue)):
            return given
        if isinstance(given, Place):
            is_value = type(param.type).__name__ == "TypeDecl"
            return self._caller.evaluated(param, given) if is_value else given
        if type(param.type).__name__ == "TypeDecl":
            return self._caller.any_value(given)  # type: ignore[no-any-return]
        if not is_reference(param.type):
            return self._caller.pointed(given)  # type: ignore[no-any-return]
        # What is no variable is a value; so is any that nothing changes while the function runs.
        is_const = "const" in getattr(param.type.type, "quals", ())
        is_unchanged = is_const and all(map(_is_constant_param, self._function.params))
        if is_place(given) or (not is_unchanged and self._caller.is_lvalue(given)):
            return self._caller.place(given)  # type: ignore[no-any-return]
        if not is_const and param.name != SELF:
            self._caller.fail(given, f"reference {param.name!r} may change what it leads to; give it a variable")
        return self._caller.any_value(given)  # type: ignore[no-any-return]

    def _deduced(self, node: Any, params: list[Any], args: list[Node | StructValue | Place]) -> dict[str, Any]:
        """The types of a template, by those of the arguments."""
        found: dict[str, Any] = {**self._types}
        pairs = [*zip(params, args, strict=True)]
        for param, each in pairs[:1] if self._function.is_within_struct else pairs:
            kind = param.type if type(param.type).__name__ == "TypeDecl" else param.type.type
            name = " ".join(getattr(getattr(kind, "type", None), "names", []))
            self._match(node, name, each.variable.dtype if isinstance(each, Place) else each.dtype, found)
        if missing := set(self._function.types) - found.keys():
            self._caller.fail(node, f"no argument says what {min(missing)} of the template is", KernelTypeError)
        return found

    def _match(self, node: Any, name: str, dtype: Any, found: dict[str, Any]) -> None:
        """Find the types of a template in one parameter's, which a dtype is given for."""
        if name in self._types:
            return
        if name in self._function.types:
            if found.setdefault(name, dtype) != dtype:
                problem = f"{name} of the template is {found[name]} by one argument and {dtype} by another"
                self._caller.fail(node, f"{problem}; cast one", KernelTypeError)
            return
        base, args = type_names.instance(self._function.text.aliases.get(name, name))
        if base == "complex" and len(args) == 1 and not isinstance(dtype, StructType):
            if not is_complex(dtype):
                self._caller.fail(node, f"a complex number is wanted, and {dtype} is given", KernelTypeError)
            self._match(node, args[0], part_dtype(dtype), found)
        elif isinstance(dtype, StructType) and (dtype.base, len(dtype.args)) == (base, len(args)):
            for each, given in zip(args, dtype.args, strict=True):
                self._match(node, each, given, found)

    def _bound(
        self, translator: Any, node: Any, param: Any, given: Node | StructValue | Place, own: list[Variable]
    ) -> Variable:
        """The variable that a parameter is; one of the function's own is added to ``own``."""
        scope = self._caller.scope
        if isinstance(given, Place) and is_reference(param.type) and translator.is_converted(param.type, given):
            given = scope.read_place(given, param.name, lambda message: self._caller.fail(node, message))
        if not isinstance(given, Place):
            kind = param.type if type(param.type).__name__ == "TypeDecl" else param.type.type
            dtype = translator.type_of(kind.type)
            if (isinstance(given, StructValue) or isinstance(dtype, StructType)) and given.dtype != dtype:
                self._caller.fail(
                    node, f"argument {param.name!r} is a {given.dtype}, and must be {dtype}", KernelTypeError
                )
            value = given if isinstance(given, StructValue) else self.b.cast(given, dtype)
            own.append(scope.variable(param.name, dtype, value))
            return own[-1]
        if type(param.type.type).__name__ != "TypeDecl":
            translator.fail(param, "a parameter must be a number, or a pointer or reference to numbers")
        translator._check_pointed(node, param.type.type.type, given)
        return scope.leading(param.name, given, is_reference=is_reference(param.type))  # type: ignore[no-any-return]


def _always_returns(node: Any) -> bool:
    """Whether every path through a statement ends with ``return``."""
    kind = type(node).__name__
    if kind == "Compound":
        return any(map(_always_returns, node.block_items or []))
    if kind == "If":
        return node.iffalse is not None and _always_returns(node.iftrue) and _always_returns(node.iffalse)
    if kind == "Switch":
        return _always_returns_from(node)
    if kind in ("For", "While", "DoWhile"):
        return _is_endless(node) and assigned.has(("Return",), node.stmt) and not assigned.has(("Break",), node.stmt)
    return kind == "Return"


def _is_endless(loop: Any) -> bool:
    """Whether the condition of a loop is plainly true, or there is none."""
    condition = loop.cond
    return condition is None or getattr(condition, "value", getattr(condition, "name", None)) in ("1", "true")


def _always_returns_from(switch: Any) -> bool:
    """Whether no value passes a ``switch``: one of its cases takes each, none breaks, and the last one returns."""
    cases = switch.stmt.block_items or [] if type(switch.stmt).__name__ == "Compound" else []
    takes_all = any(type(each).__name__ == "Default" for each in cases)
    return takes_all and not assigned.has(("Break",), switch) and any(map(_always_returns, cases[-1].stmts or []))


def _is_constant_param(param: Any) -> bool:
    """Whether nothing outside of a function changes by a parameter."""
    return type(param.type).__name__ == "TypeDecl" or "const" in getattr(param.type.type, "quals", ())


def _is_void(param: Any) -> bool:
    kind = getattr(param.type, "type", None)
    return getattr(kind, "names", None) == ["void"]
