"""The syntax of snippets: tree-sitter reads the tokens, and this module makes a small typed tree of what it finds.

C++ cannot be parsed without knowing which names are types: ``(T)-x`` is a cast or a difference, ``a<b>(c)`` a call or
two comparisons, ``T q(x)`` a variable or a function. tree-sitter knows no names and chooses one meaning; here the names
are known, because each block has its own, and where the choice was wrong the parts are put together anew: a chain of
operators is taken apart and built by precedence, and the brackets of a declaration are read again as arguments.

tree-sitter is lenient: it goes on behind errors, and takes more than C++ has. So each node is converted only if all of
its parts are known; anything else is refused by its name. Numbers and characters are read from their tokens, not by
tree-sitter, whose text has a plain number in their place.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NoReturn

from xferlib.kernels.c_frontend import tree
from xferlib.kernels.c_frontend.preprocess import (
    LEVELS,
    NONE,
    PREDEFINED,
    Macros,
    Preprocessor,
    SourceText,
    Token,
    TokenMacro,
)
from xferlib.kernels.c_frontend.syntax import (
    IGNORED_WORDS,
    TEMPLATES,
    TYPES,
    SyntaxText,
    find_closing_brace,
    number_type,
    read_syntax,
    templates_in,
)
from xferlib.kernels.c_frontend.tree import DeclaredType, TypeName
from xferlib.kernels.functions import C_TYPES, know_types, tell_unknown_type

# --- reading

NAMESPACES = frozenset({"std", "thrust", "cupy", "cuda", "type_traits", "pycuda", "experimental", ""})
CASTS = frozenset({"static_cast", "reinterpret_cast", "const_cast"})
_SIZED = frozenset({"unsigned", "signed", "long", "short"})
KEYWORDS = frozenset("""
    alignas alignof and_eq asm auto bitand bitor bool break case catch char class compl const constexpr const_cast
    continue decltype default delete do double dynamic_cast else enum explicit export extern false float for friend goto
    if inline int long mutable namespace new noexcept not_eq nullptr operator or_eq private protected public register
    reinterpret_cast return short signed sizeof static static_assert static_cast struct switch template this throw true
    try typedef typeid typename union unsigned using virtual void volatile while xor xor_eq and or not
""".split())  # fmt: skip # noqa: SIM905
"""The words of C++, which name nothing else."""
_WORDS = {"and": "&&", "or": "||", "not": "!", "bitand": "&", "bitor": "|", "xor": "^", "compl": "~", "not_eq": "!=",
          "and_eq": "&=", "or_eq": "|=", "xor_eq": "^="}  # fmt: skip
_NOT_SUPPORTED = {
    "lambda_expression": "a lambda", "goto_statement": "goto", "labeled_statement": "a label",
    "gnu_asm_expression": "asm", "asm_statement": "asm", "union_specifier": "union",
    "for_range_loop": "for over a range",
    "class_specifier": "class", "namespace_definition": "a namespace", "linkage_specification": 'extern "C"',
    "throw_statement": "throw", "try_statement": "try", "new_expression": "new", "delete_expression": "delete",
    "kernel_call_expression": "a kernel's launch", "friend_declaration": "friend", "base_class_clause": "a base",
    "operator_cast": "a conversion operator", "null": "a null pointer",
    "variadic_parameter_declaration": "a parameter of any number",
}  # fmt: skip


_PREAMBLE = "write functions, macros, structs, constants with their values, and names of types"
_DECLARING = frozenset({
    "declaration", "type_definition", "alias_declaration", "enum_specifier", "struct_specifier",
})  # fmt: skip
_DECLARED = frozenset({
    "identifier", "field_identifier", "type_identifier", "operator_name", "primitive_type", "template_function",
    "qualified_identifier",
})  # fmt: skip
"""The nodes of names in the middle of a declarator."""
_IGNORED_NODES = frozenset({
    "attribute_declaration", "alignas_qualifier", "alignas_specifier", "default_method_clause", "delete_method_clause",
})  # fmt: skip
_POSTFIX = {"call_expression": "function", "subscript_expression": "argument", "field_expression": "argument"}
"""The expressions that stand behind their operand, and the field of the operand."""
_PREFIXES = {
    **dict.fromkeys(("unary_expression", "pointer_expression", "update_expression"), "argument"),
    "cast_expression": "value",
}
"""Those that stand before it, likewise."""
_OWN_OPERATORS = frozenset(f"operator{each}" for each in ("=", "()", "[]", "->", ",", "&&", "||", "++", "--"))
"""The operators that a struct may not define."""
NO_NAMES: Mapping[str, str] = MappingProxyType({})


NameKinds = ChainMap[str, str]
"""The kinds of the names of a block and those around it: ``type``, ``template`` (of types), a ``function`` or ``""``.

Within a template of structs its own name is ``both``: the type, and the template.
"""


def _outermost(types: frozenset[str] = frozenset()) -> NameKinds:
    return ChainMap({**dict.fromkeys(TYPES | types, "type"), **dict.fromkeys(TEMPLATES, "template")})


@dataclass(slots=True)
class Preamble:
    """The definitions of a preamble in their order, and the names and macros that it makes known."""

    source: SourceText
    definitions: tuple[Any, ...] = ()
    macros: Macros = field(default_factory=lambda: PREDEFINED)
    names: NameKinds = field(default_factory=_outermost)


@dataclass(slots=True)
class Snippet:
    """The statements of a text, or its one expression."""

    source: SourceText
    statements: tuple[Any, ...]

    @property
    def is_empty(self) -> bool:
        """Whether it does nothing."""
        return all(isinstance(each, tree.Compound) and not each.statements for each in self.statements)


def read_preamble(text: str, types: frozenset[str], macros: Mapping[str, TokenMacro] = NONE) -> Preamble:
    """The definitions of a preamble.

    Args:
        text: The user's.
        types: The letters of types in force.
        macros: Those of a compiler's options.

    Raises:
        KernelSyntaxError: It is not C++, or holds what a snippet cannot use.
    """
    know_types(text)
    source = SourceText(text, "preamble")
    preprocessor = Preprocessor(source, {**PREDEFINED, **macros})
    tokens = preprocessor.run()
    names = _outermost(types)
    reader = _Reading(source, tokens, names)
    definitions = tuple(reader.definitions())
    return Preamble(source, definitions, preprocessor.macros, names)


def read_snippet(text: str, what: str, preamble: Preamble, *, is_expression: bool = False) -> Snippet:
    """The statements of a snippet; of an expression, the one that returns it.

    Raises:
        KernelSyntaxError: It is not C++.
    """
    know_types(text)
    source = SourceText(text, what)
    tokens = Preprocessor(source, dict(preamble.macros)).run()
    reader = _Reading(source, tokens, preamble.names.new_child())
    return Snippet(source, tuple(reader.expression() if is_expression else reader.statements()))


# --- nodes of tree-sitter


def _part(node: Any, name: str) -> Any:
    """The child of a field; None where there is none."""
    return node.child_by_field_name(name)


def _declarators(node: Any) -> list[Any]:
    return list(node.children_by_field_name("declarator"))


def _is_behind(node: Any) -> bool:
    """Whether the operator of ``p++`` stands behind the operand."""
    return bool(_part(node, "operator").start_byte > _part(node, "argument").start_byte)


class _Reading:
    """Makes the tree of one text."""

    def __init__(self, source: SourceText, tokens: list[Token], names: NameKinds) -> None:
        self.source = source
        self.tokens = tokens
        self.names = names
        self.text = SyntaxText([], "", "")
        known = {name for name, kind in names.items() if kind in ("template", "function", "both")}
        self.templates = {*TEMPLATES, *CASTS, *templates_in(tokens), *known}
        self._is_in_function = False

    # --- entries
    def definitions(self) -> list[Any]:
        root = self._parse(self.tokens, "", "")
        return self._safely(lambda: [found for each in root.children for found in self._definition(each)])

    def statements(self) -> list[Any]:
        tokens = self.tokens
        if tokens and tokens[-1].text != ";":
            tokens = [*tokens, Token("sign", ";", len(self.source.text))]
        self._is_in_function = True
        return self._safely(lambda: self._body(tokens, "void kernel(){ ", "}"))

    def expression(self) -> list[Any]:
        tokens = self.tokens
        while tokens and tokens[-1].text == ";":
            tokens = tokens[:-1]
        self._is_in_function = True
        if not tokens:
            raise self.source.error("must be one expression; it is empty")
        found = []
        if not any(each.text == ";" for each in tokens):
            found = self._safely(lambda: self._body(tokens, "void kernel(){ return ", ";}"))
        if len(found) != 1 or not isinstance(found[0], tree.Return) or isinstance(found[0].value, tree.Comma):
            raise self.source.error("must be one expression; it has several statements")
        return found

    def _safely(self, make: Callable[[], list[Any]]) -> list[Any]:
        try:
            return make()
        except RecursionError:
            raise self.source.error("is nested too deeply; use local variables for parts of it") from None

    def _body(self, tokens: list[Token], before: str, after: str) -> list[Any]:
        root = self._parse(tokens, before, after)
        kernel: Any = root.children[0] if root.children else None
        if len(root.children) != 1 or kernel.type != "function_definition":
            raise self.source.error("a closing brace without its opening one", find_closing_brace(self.source, tokens))
        return self._block(_part(kernel, "body"))

    def _parse(self, tokens: list[Token], before: str, after: str) -> Any:
        self.text, root = read_syntax(self.source, tokens, before, after, self.templates)
        return root

    # --- positions and names
    def _at(self, node: Any) -> int:
        number = self.text.token(node.start_byte)
        return self.text.tokens[number].at if number < len(self.text.tokens) else len(self.source.text)

    def _span(self, node: Any) -> tuple[int, int]:
        return self.text.token(node.start_byte), self.text.token(node.end_byte)

    def _texts(self, node: Any) -> list[str]:
        return [self.text.tokens[number].text for number in range(*self._span(node))]

    def fail(self, node: Any, message: str) -> NoReturn:
        raise self.source.error(message, self._at(node))

    def _unknown_error(self, node: Any) -> Exception:
        what = f"{_NOT_SUPPORTED.get(node.type, node.type.replace('_', ' '))} is not supported in a snippet"
        return self.source.error(f"{what}; use raw_module for such a kernel", self._at(node))

    def _unknown(self, node: Any) -> NoReturn:
        raise self._unknown_error(node)

    def _word(self, node: Any) -> str:
        """The text of a name."""
        text: str = node.text.decode()
        if text in ("true", "false", "this", "nullptr"):
            self.fail(node, f"{text!r} is a value of C++; choose another name")
        if text in KEYWORDS:
            self.fail(node, f"{text!r} is a word of C++ and no name here; C cannot be read before it")
        if "$" in text:
            self.fail(node, f"{text!r} cannot stand in C")
        return text

    def _declare(self, name: str, kind: str = "") -> None:
        self.names[name] = kind

    @contextmanager
    def _scope(self, known: Mapping[str, str] = NO_NAMES) -> Iterator[None]:
        """Read a block, whose names end with it."""
        outside = self.names
        self.names = outside.new_child(dict(known))
        yield
        self.names = outside

    @contextmanager
    def _inside(self, *, is_function: bool) -> Iterator[None]:
        """Read the body of a function, or of a struct."""
        outside, self._is_in_function = self._is_in_function, is_function
        yield
        self._is_in_function = outside

    # --- types
    def _type(self, node: Any) -> TypeName:
        if node.type == "sized_type_specifier":
            words = self._texts(node)
            sized = number_type(words)
            if sized is None:
                self.fail(node, f"{' '.join(words)!r} is not a type of a kernel; long double exists on no GPU")
            return TypeName(((sized, None),), at=self._at(node), width=len(words[0]))
        if node.type in ("struct_specifier", "enum_specifier", "class_specifier"):
            if _part(node, "body") is not None or _part(node, "name") is None:
                self.fail(node, "a struct or an enum is defined in the preamble, or in front of its variables")
            return self._type(_part(node, "name"))
        if node.type == "union_specifier":
            self.fail(node, "union is not supported; use numbers, and functions such as __float_as_int for their bits")
        parts = self._parts(node)
        (name, args), *others = parts
        if args is None and not others:
            parts = ((number_type([name]) or name, None),)
        return TypeName(parts, at=self._at(node), width=len(name))

    def _parts(self, node: Any) -> tuple[tuple[str, tuple[Any, ...] | None], ...]:
        """The names between ``::`` of a type or a value, without namespaces, each with its template's arguments."""
        text = node.text.decode()
        if node.type == "dependent_type":
            (inner,) = [each for each in node.children if each.type not in ("typename", "template")]
            return self._parts(inner)
        if node.type == "qualified_identifier":
            scope, parts = _part(node, "scope"), self._parts(_part(node, "name"))
            return parts if self._is_namespace(scope) else (*self._parts(scope), *parts)
        if node.type in ("template_type", "template_function"):
            args = tuple(self._template_args(_part(node, "arguments")))
            return ((self._word(_part(node, "name")), args),)
        if node.type in ("primitive_type", "namespace_identifier") or text in ("auto", *_SIZED):
            return ((text, None),)
        if node.type in ("type_identifier", "identifier"):
            return ((self._word(node), None),)
        raise self._unknown_error(node)

    def _is_namespace(self, scope: Any) -> bool:
        """Whether what stands before ``::`` says nothing."""
        return scope is None or (scope.type == "namespace_identifier" and scope.text.decode() in NAMESPACES)

    def _template_args(self, node: Any) -> Iterator[Any]:
        for each in node.named_children:
            yield self._descriptor(each) if each.type == "type_descriptor" else self._expr(each)

    def _descriptor(self, node: Any) -> DeclaredType:
        """The type of a cast, of ``sizeof``, or an argument of a template."""
        kind, is_const, _ = self._specifiers(node)
        found = DeclaredType(self._type(kind), is_const=is_const, at=self._at(node))
        _, function = self._declarator(_part(node, "declarator"), found)
        if function is not None:
            self._unknown(function)
        return found

    def _is_type(self, node: Any) -> bool:
        """Whether a name, or a name with a template's arguments, is that of a type."""
        if node.type in ("primitive_type", "sized_type_specifier", "dependent_type"):
            return True
        if node.type in ("identifier", "type_identifier"):
            return self.names.get(node.text.decode()) in ("type", "both") or node.text.decode() in _SIZED
        if node.type in ("template_function", "template_type"):
            return self.names.get(_part(node, "name").text.decode()) in ("template", "both")
        if node.type != "qualified_identifier":
            return False
        scope, last = _part(node, "scope"), _part(node, "name")
        if self._is_namespace(scope):
            return self._is_type(last)
        while last.type == "qualified_identifier":
            last = _part(last, "name")
        return bool(last.text == b"value_type" or (last.text == b"type" and scope.type != "namespace_identifier"))

    def _is_known(self, name: TypeName) -> bool:
        first = name.parts[0][0]
        return self.names.get(first) in ("type", "template", "both") or " " in first

    # --- expressions
    def _expr(self, node: Any) -> Any:
        handler = _EXPRESSIONS.get(node.type)
        if handler is None:
            self._unknown(node)
        return handler(self, node)

    def _leaf(self, node: Any) -> Any:
        at = self._at(node)
        if node.type in ("number_literal", "string_literal"):
            return tree.Literal(self.text.tokens[self.text.token(node.start_byte)].text, at=at)
        if node.type == "this":
            return tree.This(at=at, width=4)
        name = node.text.decode() if node.type in ("true", "false") else self._word(node)
        return tree.Name(name, at=at, width=len(name))

    def _parentheses(self, node: Any) -> Any:
        (inner,) = node.named_children
        return self._expr(inner)

    def _name_in_scope(self, node: Any) -> Any:
        *owner, (name, args) = self._parts(node)
        at = self._at(node)
        return tree.Name(name, args, TypeName(tuple(owner), at=at) if owner else None, at=at, width=len(name))

    def _unary(self, node: Any) -> Any:
        if node.type == "update_expression" and _is_behind(node):
            return self._postfix(node)
        if self._misread_cast(node):
            return self._binary(node)
        return self._apply_prefix(node, self._expr(_part(node, "argument")))

    def _chain(self, node: Any) -> list[Any]:
        """The operands and operators of nested binary expressions, in the order of the text."""
        found: list[Any] = []
        stack = [node]
        while stack:
            each = stack.pop()
            if isinstance(each, str):
                found.append(each)
            elif each.type == "binary_expression":
                (op,) = self._texts(_part(each, "operator"))
                stack += [_part(each, "right"), _WORDS.get(op, op), _part(each, "left")]
            elif nodes := self._misread_cast(each):
                value = _part(nodes[-1], "value")
                stack += [_part(value, "argument"), _part(value, "operator").type]
                found.append([*nodes[:-1], _part(nodes[-1], "type")])
            else:
                found.append(each)
        return found

    def _misread_cast(self, node: Any) -> list[Any]:
        """The nodes of ``-~(a) - b`` down to ``(a) - b``, where that was read as a cast; else none."""
        nodes = [node]
        while not self._is_no_cast(node):
            if node.type not in _PREFIXES or (node.type == "update_expression" and _is_behind(node)):
                return []
            node = _part(node, _PREFIXES[node.type])
            nodes.append(node)
        return nodes

    def _apply_prefix(self, node: Any, value: Any) -> Any:
        at = self._at(node)
        if node.type == "cast_expression":
            return tree.Cast(self._cast_type(node), value, at=at)
        op = _part(node, "operator").type
        return tree.Unary(_WORDS.get(op, op), value, at=at)

    def _is_no_cast(self, node: Any) -> bool:
        """Whether ``(a) - b`` was read as a cast, though ``a`` is no type."""
        if node.type != "cast_expression":
            return False
        kind, value = _part(node, "type"), _part(node, "value")
        if kind.child_count != 1 or kind.children[0].type != "type_identifier" or self._is_type(kind.children[0]):
            return False
        is_signed = value.type in ("unary_expression", "pointer_expression")
        return is_signed and _part(value, "operator").type in ("+", "-", "*", "&")

    def _type_in(self, node: Any) -> Any:
        """The node of the type that stands alone in brackets; None of anything else."""
        inner = node.named_children
        is_name = len(inner) == 1 and inner[0].type in ("identifier", "qualified_identifier")
        return inner[0] if is_name and self._is_type(inner[0]) else None

    def _casts(self, node: Any) -> list[TypeName]:
        """The types of ``(T)``, or of ``(T)(U)``: an operand of a chain that is casts of what follows."""
        if node.type == "parenthesized_expression":
            types = [self._type_in(node)]
        elif node.type == "call_expression" and _part(node, "function").type == "parenthesized_expression":
            types = [self._type_in(_part(node, each)) for each in ("function", "arguments")]
        else:
            types = [None]
        return [] if None in types else [self._type(each) for each in types]

    def _binary(self, node: Any) -> Any:
        """The tree of a chain of operands and operators, by the precedence of the operators."""
        chain = self._chain(node)
        place = 0

        def operand() -> Any:
            nonlocal place
            node = chain[place]
            *prefixes, node = node if isinstance(node, list) else [node]
            if casts := self._casts(node):
                op = chain[place + 1] if place + 1 < len(chain) else ""
                if op not in ("+", "-", "*", "&"):
                    raise self.source.error(
                        f"type {str(casts[0])!r} is not a value; C cannot be read here", casts[0].at, casts[0].width
                    )
                place += 2
                value: Any = tree.Unary(op, operand(), at=casts[0].at)
                for each in reversed(casts):
                    value = tree.Cast(DeclaredType(each, at=each.at), value, at=each.at)
                return value
            if node.type == "type_descriptor" and (node.child_count, node.children[0].type) != (1, "type_identifier"):
                self._unknown(node)
            found = self._leaf(node) if node.type == "type_descriptor" else self._expr(node)
            if (
                isinstance(found, tree.Name)
                and place
                and chain[place - 1] == "<"
                and self.names.get(found.name) == "type"
            ):
                name = self._expr(chain[place - 2])
                shown = name.name if isinstance(name, tree.Name) else "of this name"
                raise self.source.error(f"the preamble has no template {shown}<>", name.at, name.width)
            place += 1
            for each in reversed(prefixes):
                found = self._apply_prefix(each, found)
            return found

        def level(least: int) -> Any:
            nonlocal place
            left = operand()
            while place < len(chain) and LEVELS.get(chain[place], -1) >= least:
                op = chain[place]
                place += 1
                left = tree.Binary(op, left, level(LEVELS[op] + 1), at=left.at)
            return left

        found = level(0)
        if place < len(chain):
            raise self.source.error(f"operator {chain[place]} is not supported in a snippet", found.at)
        return found

    def _assign(self, node: Any) -> Any:
        op = _part(node, "operator").type
        target, value = self._expr(_part(node, "left")), self._expr(_part(node, "right"))
        return tree.Assignment(_WORDS.get(op, op), target, value, at=self._at(node))

    def _conditional(self, node: Any) -> Any:
        parts = [_part(node, each) for each in ("condition", "consequence", "alternative")]
        if parts[1] is None:
            self.fail(node, "?: has a value on each side of the colon")
        return tree.Conditional(*map(self._expr, parts), at=self._at(node))

    def _comma(self, node: Any) -> Any:
        parts: list[Any] = []
        at = self._at(node)
        while node.type == "comma_expression":
            parts.append(self._expr(_part(node, "left")))
            node = _part(node, "right")
        return tree.Comma((*parts, self._expr(node)), at=at)

    def _list(self, node: Any) -> Any:
        return tree.Listed(self._items(node), at=self._at(node))

    def _items(self, node: Any) -> tuple[Any, ...]:
        """The values of a list, or of the arguments of a call."""
        for each in node.named_children:
            if each.type in ("initializer_pair", "parameter_pack_expansion"):
                self._unknown(each)
        return tuple(map(self._expr, node.named_children))

    def _cast(self, node: Any) -> Any:
        if self._misread_cast(node):
            return self._binary(node)
        return tree.Cast(self._cast_type(node), self._expr(_part(node, "value")), at=self._at(node))

    def _cast_type(self, node: Any) -> DeclaredType:
        kind = self._descriptor(_part(node, "type"))
        if not kind.pointers and not self._is_known(kind.base):
            raise self.source.error(tell_unknown_type(str(kind.base)), kind.base.at, kind.base.width)
        return kind

    def _compound_literal(self, node: Any) -> Any:
        """``T{a, b}`` and ``(T){a, b}``."""
        kind = _part(node, "type")
        name = self._descriptor(kind).base if kind.type == "type_descriptor" else self._type(kind)
        return tree.Construct(name, self._items(_part(node, "value")), at=self._at(node))

    def _sizeof(self, node: Any) -> Any:
        kind, value, at = _part(node, "type"), _part(node, "value"), self._at(node)
        if kind is not None:
            return tree.SizeOf(self._descriptor(kind), at=at)
        inner = value.named_children[0] if value.type == "parenthesized_expression" else value
        if inner.type in ("identifier", "qualified_identifier", "template_function") and self._is_type(inner):
            name = self._type(inner)
            return tree.SizeOf(DeclaredType(name, at=name.at), at=at)
        return tree.SizeOf(self._expr(value), at=at)

    def _postfix(self, node: Any) -> Any:
        """Calls, indices and members: their chain, and casts in front of it that were read as calls."""
        chain = []
        while node.type in _POSTFIX or (node.type == "update_expression" and _is_behind(node)):
            if node.type == "call_expression" and self._is_conversion(node):
                break
            chain.append(node)
            node = _part(node, _POSTFIX.get(node.type, "argument"))
        casts: list[TypeName] = []
        if node.type != "call_expression":
            found = self._expr(node)
        elif (head := _part(node, "function")).type != "parenthesized_expression":
            found = self._construct(node, head)
        else:
            inner = self._type_in(head)
            while inner is not None:  # (T)(U)(x)
                casts.append(self._type(inner))
                args = _part(node, "arguments")
                inner = self._type_in(args)
                if not args.named_children or (inner is not None and not (chain and chain[-1].type == node.type)):
                    name = casts[-1] if inner is None else self._type(inner)
                    self.fail(node, f"a cast to {name} needs a value")
                node = node if inner is None else chain.pop()
            items = self._items(args)
            found = items[0] if len(items) == 1 else tree.Comma(items, at=self._at(node))
        for each in reversed(chain):
            found = self._apply(each, found)
        for cast in reversed(casts):
            found = tree.Cast(DeclaredType(cast, at=cast.at), found, at=cast.at)
        return found

    def _is_conversion(self, node: Any) -> bool:
        """Whether a call is a conversion ``T(x)``, or a cast ``(T)(x)``."""
        function = _part(node, "function")
        if function.type == "parenthesized_expression":
            return self._type_in(function) is not None
        if function.type == "template_function" and _part(function, "name").text.decode() in CASTS:
            return True
        return self._is_type(function)

    def _construct(self, node: Any, function: Any) -> Any:
        args, at = self._items(_part(node, "arguments")), self._at(node)
        name = _part(function, "name").text.decode() if function.type == "template_function" else ""
        if name not in CASTS:
            return tree.Construct(self._type(function), args, at=at)
        kinds = list(self._template_args(_part(function, "arguments")))
        if len(kinds) != 1 or not isinstance(kinds[0], DeclaredType) or len(args) != 1:
            self.fail(node, f"{name} takes one type and one value")
        return tree.Cast(kinds[0], args[0], at=at)

    def _apply(self, node: Any, inner: Any) -> Any:
        """A call, an index, a member or ``++`` of what stands in front of it."""
        at = inner.at
        if node.type == "update_expression":
            return tree.Unary(f"p{_part(node, 'operator').type}", inner, at=at)
        if node.type == "call_expression":
            return tree.CallExpression(inner, self._items(_part(node, "arguments")), at=at)
        if node.type == "subscript_expression":
            items = self._items(_part(node, "indices"))
            if not items:
                self.fail(node, "an index is missing between the brackets")
            return tree.Index(inner, items[0] if len(items) == 1 else tree.Comma(items, at=at), at=at)
        member = _part(node, "field")
        if member.type not in ("field_identifier", "dependent_name"):
            self._unknown(member)
        return tree.Member(inner, self._word(member), _part(node, "operator").type == "->", self._at(member), at=at)

    # --- statements
    def _block(self, node: Any) -> list[Any]:
        return [found for each in node.named_children for found in self._statement(each)]

    def _statement(self, node: Any) -> list[Any]:
        at, kind = self._at(node), node.type
        if kind in _DECLARING:
            return self._declaration(node)
        if kind == "attributed_statement":
            return self._statement(node.named_children[-1])
        if kind in ("break_statement", "continue_statement"):
            return [tree.JumpStatement(kind.partition("_")[0], at=at)]
        inner = node.named_children
        if kind in ("empty_declaration", ";") or (kind == "expression_statement" and not inner):
            return [tree.Compound((), at=at)]
        if kind == "expression_statement":
            return [tree.Evaluate(self._expr(inner[0]), at=at)]
        if kind == "return_statement":
            return [tree.Return(self._expr(inner[0]) if inner else None, at=at)]
        if kind not in _COMPOUND:
            self._unknown(node)
        with self._scope():
            return [_COMPOUND[kind](self, node)]

    def _compound(self, node: Any) -> Any:
        return tree.Compound(tuple(self._block(node)), at=self._at(node))

    def _one(self, node: Any) -> Any:
        """A statement as the body of another."""
        with self._scope():
            found = self._statement(node)
        return found[0] if len(found) == 1 else tree.Compound(tuple(found), at=self._at(node))

    def _condition(self, node: Any) -> tuple[Any, Any]:
        """The declaration in front of a condition, and the condition."""
        if node.type != "condition_clause":
            return None, self._expr(node)
        begin, value = _part(node, "initializer"), _part(node, "value")
        found = None
        if begin is not None:
            (found,) = self._statement(begin.named_children[0] if begin.type == "init_statement" else begin)[:1]
        if value.type == "declaration":
            self.fail(value, "a condition that declares a variable is not supported; declare it in front")
        return found, self._expr(value)

    def _if(self, node: Any) -> Any:
        begin, condition = self._condition(_part(node, "condition"))
        yes, other = self._one(_part(node, "consequence")), _part(node, "alternative")
        no = None if other is None else self._one(other.named_children[0])
        return tree.If(condition, yes, no, begin, at=self._at(node))

    def _for(self, node: Any) -> Any:
        at, begin = self._at(node), _part(node, "initializer")
        first = None
        if begin is not None:
            is_statement = begin.type in ("declaration", "expression_statement", "alias_declaration")
            found = self._statement(begin) if is_statement else [tree.Evaluate(self._expr(begin), at=at)]
            first = found[0] if len(found) == 1 else tree.Declaration(tuple(found), at=at)
        parts = [_part(node, each) for each in ("condition", "update")]
        condition, after = (None if each is None else self._expr(each) for each in parts)
        return tree.Loop(first, condition, after, self._one(_part(node, "body")), at=at)

    def _while(self, node: Any) -> Any:
        begin, condition = self._condition(_part(node, "condition"))
        return tree.Loop(begin, condition, None, self._one(_part(node, "body")), at=self._at(node))

    def _do(self, node: Any) -> Any:
        body = self._one(_part(node, "body"))
        return tree.Loop(None, self._expr(_part(node, "condition")), None, body, is_late=True, at=self._at(node))

    def _switch(self, node: Any) -> Any:
        begin, value = self._condition(_part(node, "condition"))
        if begin is not None:
            self.fail(node, "a switch that declares a variable is not supported; declare it in front")
        body = _part(node, "body")
        found = []
        for each in body.named_children if body.type == "compound_statement" else [body]:
            if each.type != "case_statement":
                self.fail(each, "a statement in a switch stands behind no case; move it, or add one")
            label = _part(each, "value")
            inner = [other for other in each.named_children if label is None or other.id != label.id]
            statements = tuple(one for other in inner for one in self._statement(other))
            found.append(tree.SwitchCase(None if label is None else self._expr(label), statements, at=self._at(each)))
        return tree.Switch(value, tuple(found), at=self._at(node))

    # --- declarations
    def _specifiers(self, node: Any) -> tuple[Any, bool, set[str]]:
        """The node of a declaration's type, whether it is constant, and its other words."""
        words: set[str] = set()
        for number, each in enumerate(node.children):
            if node.field_name_for_child(number) or each.type in (",", ";", "field_initializer_list", "typedef"):
                continue
            if each.type in ("type_qualifier", "storage_class_specifier", "explicit_function_specifier", "virtual"):
                words.update(self._texts(each))
            elif each.type == "virtual_function_specifier":
                words.add("virtual")
            elif each.is_named and each.type not in _IGNORED_NODES:
                self._unknown(each)
        return _part(node, "type"), bool(words & {"const", "constexpr"}), words - IGNORED_WORDS

    def _declarator(self, node: Any, kind: DeclaredType) -> tuple[Any, Any]:
        """Add what stands around a declared name to its type.

        Returns:
            The node of the name, None where there is none, and that of a function's parameters.
        """
        function = None
        while node is not None and node.type not in _DECLARED:
            shape = node.type.removeprefix("abstract_")
            if shape == "destructor_name":
                self.fail(node, "a destructor is not supported; write it outside of it")
            elif shape == "pointer_declarator":
                kind.pointers += 1
            elif shape == "reference_declarator":
                kind.is_reference = True
            elif shape == "array_declarator":
                size = _part(node, "size")
                kind.extents = (None if size is None else self._expr(size), *kind.extents)
            elif shape == "function_declarator" and function is None:
                function = node
            elif shape != "parenthesized_declarator":
                self._unknown(node)
            inner = _part(node, "declarator")
            if inner is None and shape != "array_declarator":
                ends = ("declarator", "identifier", "_name")
                inner = next((each for each in node.named_children if each.type.endswith(ends)), None)
            if inner is None and shape == node.type:
                self._unknown(node)
            node = inner
        if node is not None and node.type in ("template_function", "qualified_identifier"):
            self.fail(node, f"{node.text.decode()!r} is defined for special types, which is not supported")
        return node, function

    def _declaration(self, node: Any) -> list[Any]:
        """The statements that a declaration is."""
        if node.type == "alias_declaration":
            return [self._alias(node)]
        if node.type in ("enum_specifier", "struct_specifier"):
            return self._definition_of(node, "")[0]
        if node.type == "type_definition":
            return self._typedef(node)
        at = self._at(node)
        kind, is_const, words = self._specifiers(node)
        if kind is None:
            self._unknown(node)
        if words & {"__shared__", "extern", "thread_local", "__managed__"}:
            what = f"{min(words)} is not supported in a snippet"
            self.fail(node, f"{what}, whose elements share nothing; use raw_module")
        before, base = self._base_type(kind, "")
        is_known = before or base.name == "auto" or self._is_known(base) or base.parts[0][0] in C_TYPES
        if self._is_in_function and not is_known:
            declarator = _part(node, "declarator")
            is_product = declarator is not None and declarator.type in ("pointer_declarator", "reference_declarator")
            if is_product:  # a * b; of values: a pointer would be given its place here
                known = "" if self.names.get(str(base)) == "" else f": {str(base)!r} is not a type, and this a product"
                raise self.source.error(f"a statement without effect{known}; assign its value", at)
            raise self.source.error(tell_unknown_type(str(base)), base.at, max(base.width, 1))
        variables = []
        for each in _declarators(node):
            found = self._variable(each, DeclaredType(base, is_const=is_const, at=base.at))
            if found is not None:
                found.is_static = "static" in words
                variables.append(found)
        return [*before, *([tree.Declaration(tuple(variables), at=at)] if variables else [])]

    def _base_type(self, kind: Any, name: str) -> tuple[list[Any], TypeName]:
        """The struct or the enumeration that a declaration defines, if it does, and the name of its type."""
        is_definition = kind.type in ("enum_specifier", "struct_specifier") and _part(kind, "body") is not None
        return self._definition_of(kind, name) if is_definition else ([], self._type(kind))

    def _variable(self, node: Any, kind: DeclaredType) -> tree.Variable | None:
        """One declarator; None of a function that is declared only."""
        value: Any = None
        value_node = _part(node, "value") if node.type == "init_declarator" else None
        name_node, function = self._declarator(_part(node, "declarator") if value_node is not None else node, kind)
        if function is not None:
            if not self._is_in_function:
                return None
            params = _part(function, "parameters")
            if self._declares_function(params):
                self.fail(function, "a function is declared here; functions stand in the preamble")
            value = self._as_arguments(params)
        name = self._word(name_node)
        self._declare(name)
        if value_node is not None and value_node.type == "argument_list":
            value = tree.Arguments(self._items(value_node), at=self._at(value_node))
        elif value_node is not None:
            value = self._expr(value_node)
        return tree.Variable(name, kind, value, at=self._at(name_node), width=len(name))

    def _declares_function(self, params: Any) -> bool:
        """Whether the brackets of a declarator hold parameters, and not the arguments of a constructor."""
        for each in params.named_children:
            if each.type != "parameter_declaration":
                return True
            kind = _part(each, "type")
            if kind.type in ("type_identifier", "template_type", "qualified_identifier") and not self._is_type(kind):
                return False
        return True

    def _as_arguments(self, params: Any) -> tree.Arguments:
        """The brackets of a declarator, read again as arguments."""
        outside = self.text
        tokens = outside.tokens[slice(*self._span(params))]
        root = self._parse(tokens, "void kernel(){ xf ", ";}")
        statement = _part(root.children[0], "body").named_children
        call = statement[0].named_children[0] if len(statement) == 1 and statement[0].named_children else None
        if call is None or call.type != "call_expression":
            self.fail(root, "these are not arguments; C cannot be read here")
        found = tree.Arguments(self._items(_part(call, "arguments")), at=tokens[0].at)
        self.text = outside
        return found

    def _alias(self, node: Any) -> tree.Alias:
        name = self._word(_part(node, "name"))
        kind = self._descriptor(_part(node, "type"))
        self._declare(name, "type")
        return tree.Alias(name, kind, at=self._at(node), width=len(name))

    def _typedef(self, node: Any) -> list[Any]:
        declarators = _declarators(node)
        found, base = self._base_type(_part(node, "type"), declarators[0].text.decode())
        for each in declarators:
            kind = DeclaredType(base, at=base.at)
            name_node, function = self._declarator(each, kind)
            name = name_node.text.decode()
            if function is not None:
                self.fail(each, f"{name!r} is a type of functions, which a snippet has not")
            if kind.base.parts == ((name, None),) and not kind.pointers and not kind.extents:
                continue  # typedef struct P { ... } P
            self._declare(name, "type")
            found.append(tree.Alias(name, kind, at=self._at(each), width=len(name)))
        return found

    def _definition_of(self, node: Any, name: str) -> tuple[list[Any], TypeName]:
        """The definition of an enumeration or a struct, and its name; ``name`` is that of a typedef."""
        at, name_node = self._at(node), _part(node, "name")
        own = self._word(name_node) if name_node is not None else ""
        if _part(node, "body") is None:
            if not own:
                self._unknown(node)
            self._declare(own, "type")  # declared only
            return [], TypeName(((own, None),), at=at)
        label = own or name or f"(unnamed at {at})"
        define = self._enumeration if node.type == "enum_specifier" else self._struct_tree
        return [define(node, label)], TypeName(((label, None),), at=at, width=len(own) or 1)

    def _enumeration(self, node: Any, label: str) -> tree.Enumeration:
        is_scoped = any(each.type in ("class", "struct") for each in node.children)
        base = _part(node, "base")
        self._declare(label, "type")
        numbers = []
        for each in _part(node, "body").named_children:
            if each.type != "enumerator":
                self._unknown(each)
            word, value = self._word(_part(each, "name")), _part(each, "value")
            numbers.append((word, None if value is None else self._expr(value)))
            if not is_scoped:
                self._declare(word)
        kind = None if base is None else self._type(base)
        return tree.Enumeration(label, tuple(numbers), is_scoped, kind, at=self._at(node))

    # --- definitions of a preamble
    def _definition(self, node: Any) -> list[Any]:
        kind = node.type
        if kind == "template_declaration":
            return self._template(node)
        if kind == "function_definition":
            return [self._function(node)]
        if kind in _DECLARING:
            found = self._declaration(node)
            for each in found:
                for variable in each.variables if isinstance(each, tree.Declaration) else ():
                    if variable.value is None or variable.type.pointers or variable.type.is_reference:
                        what = f"{variable.name!r} is a variable of all elements"
                        raise self.source.error(f"{what}; {_PREAMBLE}", variable.at, variable.width)
            return found
        if kind in (";", "empty_declaration") or (kind == "expression_statement" and not node.named_children):
            return []
        if kind == "linkage_specification":
            body = _part(node, "body")
            inner = body.named_children if body.type == "declaration_list" else [body]
            return [found for each in inner for found in self._definition(each)]
        what = _NOT_SUPPORTED.get(kind, kind.replace("_", " "))
        raise self.source.error(f"the preamble holds {what}; {_PREAMBLE}", self._at(node))

    def _template(self, node: Any) -> list[Any]:
        types: list[str] = []
        for each in _part(node, "parameters").named_children:
            if each.type != "type_parameter_declaration" or len(each.named_children) != 1:
                self.fail(each, "a parameter of a template: its parameters must be types; write a template of types")
            types.append(self._word(each.named_children[0]))
        if not types:
            self.fail(node, "a template for special types is not supported; write a template of types")
        inner = node.named_children[-1]
        if inner.type == "function_definition":
            return [self._function(inner, tuple(types))]
        if inner.type == "struct_specifier":
            name = self._word(_part(inner, "name"))
            self._declare(name, "template")
            return [self._struct_tree(inner, name, tuple(types))]
        if inner.type not in ("alias_declaration", "declaration"):
            self._unknown(inner)
        with self._scope(dict.fromkeys(types, "type")):
            if inner.type == "alias_declaration":
                alias = self._alias(inner)
                alias.types = tuple(types)
            else:
                name_node, function = self._declarator(_part(inner, "declarator"), _nameless())
                if function is None:
                    self.fail(inner, "a template of variables is not supported")
        if inner.type == "declaration":  # of a function, which follows
            self._declare(self._word(name_node), "function")
            return []
        self._declare(alias.name, "template")
        return [alias]

    def _function(self, node: Any, types: tuple[str, ...] = (), *, is_method: bool = False) -> tree.FunctionTree:
        declarator = _part(node, "declarator")
        if declarator is None or declarator.type == "operator_cast":
            self.fail(node, "a conversion operator is not supported; write a function outside of the struct")
        outer = self.names
        if types and not is_method:
            name_node = declarator
            while name_node.type.endswith("declarator"):
                inner = _part(name_node, "declarator")
                name_node = inner if inner is not None else name_node.named_children[-1]
            if name_node.type in ("identifier", "field_identifier"):
                self._declare(self._word(name_node), "function")
        with self._scope(dict.fromkeys(types, "type")):
            kind, _, words = self._specifiers(node)
            if "virtual" in words:
                self.fail(node, "virtual is not supported; write a function outside of the struct")
            result = None if kind is None else DeclaredType(self._type(kind), at=self._at(node))
            name_node, function = self._declarator(declarator, result or _nameless())
            if function is None:
                self.fail(node, "C cannot be read here; a function has its parameters in brackets")
            is_operator = name_node.type == "operator_name"
            name = "".join(self._texts(name_node)) if is_operator else self._word(name_node)
            if not is_method and not is_operator and not types and outer.maps[0].get(name) != "function":
                outer[name] = ""
            if any(each.type == "trailing_return_type" for each in function.named_children):
                self.fail(function, "a type behind the parameters is not supported; write it in front of the function")
            params = self._parameters(_part(function, "parameters"))
            body = _part(node, "body")
            if body is None:
                self.fail(node, f"function {name!r} has no body of its own; write one, or leave it out")
            with self._inside(is_function=True):
                sets = tuple(self._sets(node))
                with self._scope():
                    statements = self._compound(body)
        return tree.FunctionTree(
            name, result, params, statements, types, sets, "static" in words, source=self.source,
            at=self._at(name_node), width=len(name),
        )  # fmt: skip

    def _parameters(self, node: Any) -> tuple[tree.Parameter, ...]:
        found: list[tree.Parameter] = []
        for each in node.named_children:
            if each.type not in ("parameter_declaration", "optional_parameter_declaration"):
                self._unknown(each)
            kind_node, is_const, _ = self._specifiers(each)
            base = self._type(kind_node)
            kind = DeclaredType(base, is_const=is_const, at=base.at)
            declarator, name_node = _part(each, "declarator"), None
            if declarator is not None and declarator.type == "abstract_function_declarator":  # R(v)
                inner = _part(declarator, "parameters").named_children
                name_node = _part(inner[0], "type") if len(inner) == 1 else None
                if name_node is None or name_node.type != "type_identifier" or inner[0].child_count != 1:
                    self._unknown(declarator)
            else:
                name_node, function = self._declarator(declarator, kind)
                if function is not None and name_node is None:
                    self._unknown(function)
                if function is not None:
                    self.fail(function, "a parameter must be a number, a struct, or a pointer or reference to them")
            name = "" if name_node is None else self._word(name_node)
            if base.name == "void" and not kind.pointers and not name:
                continue
            if name:
                self._declare(name)
            is_named = name_node is not None and declarator.type != "abstract_function_declarator"
            default = _part(each, "default_value")
            value = None if default is None else self._expr(default)
            found.append(
                tree.Parameter(name, kind, value, at=self._at(name_node if is_named else each), width=len(name) or 1)
            )
        return tuple(found)

    def _sets(self, node: Any) -> Iterator[tuple[str, tree.Arguments]]:
        """The members' values before a constructor's body."""
        for each in node.named_children:
            for one in each.named_children if each.type == "field_initializer_list" else ():
                name, value = one.named_children
                args = tree.Arguments(self._items(value), at=self._at(one))
                yield name.text.decode().partition("<")[0].strip(), args

    def _struct_tree(self, node: Any, name: str, types: tuple[str, ...] = ()) -> tree.StructTree:
        if any(each.type == "base_class_clause" for each in node.children):
            self.fail(node, f"struct {name} has a base, which is not supported; make it a member")
        if not types:
            self._declare(name, "type")
        found = tree.StructTree(
            name, (), types, {}, [], (), source=self.source, at=self._at(node), width=len(name)
        )  # fmt: skip
        names = {**dict.fromkeys(types, "type"), name: "both" if types else "type"}
        with self._scope(names), self._inside(is_function=False):
            bodies = []
            for each in _part(node, "body").named_children:
                if each.type == "field_declaration":
                    self._field(found, each)
                elif each.type in ("type_definition", "alias_declaration", "enum_specifier"):
                    found.aliases += tuple(self._declaration(each))
                elif each.type == "function_definition":
                    bodies.append(each)
                elif each.type == "declaration":  # a constructor without a body
                    self.fail(each, f"struct {name}: a function has no body here; write one, or leave it out")
                elif each.type != "access_specifier":
                    what = _NOT_SUPPORTED.get(each.type, each.type.replace("_", " "))
                    self.fail(each, f"struct {name} has {what}, which is not supported; write it outside of it")
            if not found.members or len({each.name for each in found.members}) < len(found.members):
                self.fail(node, f"struct {name} must have members, each with a name of its own")
            for each in bodies:
                self._method(found, each)
        return found

    def _field(self, struct: tree.StructTree, node: Any) -> None:
        """Add members, a constant or an enumeration to a struct."""
        kind_node, is_const, words = self._specifiers(node)
        default, declarators = _part(node, "default_value"), _declarators(node)
        what = f"struct {struct.name}: {' '.join(self._texts(node)).removesuffix(' ;')!r}"
        is_constant = is_const and "static" in words and default is not None
        if not is_constant and kind_node is not None and kind_node.type == "enum_specifier":
            struct.aliases += tuple(self._definition_of(kind_node, "")[0])
            if declarators:
                self.fail(node, f"struct {struct.name}: give the enumeration a name, and declare its members behind it")
            return
        if not is_constant and ("static" in words or kind_node is None or _part(kind_node, "body") is not None):
            self.fail(node, f"{what} is neither a number nor a struct, which each element has")
        base = self._type(kind_node)
        if base.name == struct.name and not is_constant:
            self.fail(node, f"struct {struct.name}: unknown type {str(base)!r} of a member: it holds itself")
        for each in declarators:
            kind = DeclaredType(base, is_const=is_const, at=self._at(node) if is_constant else base.at)
            name_node, function = self._declarator(each, kind)
            is_plain = function is None and not kind.pointers and not kind.is_reference
            if is_constant and not (is_plain and not kind.extents):
                self.fail(node, "a constant within a struct must be a number")
            if not is_plain:
                self.fail(each, f"{what} is neither a number nor a struct, nor an array of them")
            word = self._word(name_node)
            self._declare(word)
            value = self._expr(default) if is_constant else None
            found = tree.Variable(word, kind, value, at=self._at(name_node), width=len(word))
            if is_constant:
                struct.aliases += (found,)
            else:
                struct.members += (found,)
        if not is_constant and (default is not None or any(each.type == "bitfield_clause" for each in node.children)):
            self.fail(node, f"{what} has a value or a width of its own; set members in a constructor")

    def _method(self, struct: tree.StructTree, node: Any) -> None:
        """Add a function to a struct."""
        if any(each.type == "default_method_clause" for each in node.children):
            return
        function = self._function(node, is_method=True)
        function.struct = struct
        name, what = function.name, f"struct {struct.name}"
        other = _other(struct, function)
        is_copy = other is not None and _is_copy(struct, function, other)
        if name == struct.name:
            if function.returns is not None:
                self.fail(node, f"{what}: {name} is not supported; write it outside of it")
            if other is not None and not is_copy:
                self.fail(
                    node, f"{what} copies in a way of its own, which is not supported; write a function outside of it"
                )
            if other is not None:
                return
            for member, value in function.sets:
                if member not in {struct.name, *(each.name for each in struct.members)}:
                    text = self.source.text[value.at :].partition(")")[0]
                    raise self.source.error(f"{what}: '{text})' sets no member", value.at)
            struct.constructors.append(function)
        elif function.returns is None:
            self.fail(node, f"{what}: {name} has no type; write what it returns")
        elif name != "operator=" or not is_copy:
            if name in _OWN_OPERATORS:
                self.fail(
                    node, f"{what} has a function {name}, which is not supported; write it outside of it under a name "
                    "of its own",
                )  # fmt: skip
            struct.functions.setdefault(name, []).append(function)


def _nameless() -> DeclaredType:
    """A declared type for a function that has none, such as a constructor."""
    return DeclaredType(TypeName((("", None),), at=0), at=0)


def _other(struct: tree.StructTree, function: tree.FunctionTree) -> str | None:
    """The parameter of a function that takes another such struct alone; None if it takes anything else."""
    if len(function.params) != 1:
        return None
    (param,) = function.params
    is_struct = param.type.base.name == struct.name and not param.type.pointers
    return param.name if is_struct else None


def _is_copy(struct: tree.StructTree, function: tree.FunctionTree, other: str) -> bool:
    """Whether a constructor or an assignment copies each member of ``other``, and does nothing else."""
    copied: list[tuple[str, Any]] = [
        (name, value.items[0] if len(value.items) == 1 else None) for name, value in function.sets
    ]
    *statements, last = [*function.body.statements, None]
    if statements and isinstance(statements[-1], tree.Return):
        last = statements.pop()
    for each in statements:
        expr = each.expr if isinstance(each, tree.Evaluate) else None
        if not isinstance(expr, tree.Assignment) or expr.op != "=":
            return False
        target = expr.target
        is_own = isinstance(target, tree.Name) or (
            isinstance(target, tree.Member) and isinstance(target.owner, tree.This)
        )
        copied.append((target.name if is_own else "", expr.value))
    if last is not None:  # return *this;
        value = last.value
        if not (isinstance(value, tree.Unary) and value.op == "*" and isinstance(value.expr, tree.This)):
            return False
    pairs = [
        (name, value.name)
        for name, value in copied
        if isinstance(value, tree.Member) and isinstance(value.owner, tree.Name) and value.owner.name == other
    ]
    names = sorted(each.name for each in struct.members)
    return len(pairs) == len(copied) and sorted(pairs) == [(name, name) for name in names]


_EXPRESSIONS: dict[str, Any] = {
    **dict.fromkeys(
        ("identifier", "number_literal", "string_literal", "true", "false", "this"), _Reading._leaf
    ),
    **dict.fromkeys(("qualified_identifier", "template_function"), _Reading._name_in_scope),
    **dict.fromkeys(("unary_expression", "pointer_expression", "update_expression"), _Reading._unary),
    **dict.fromkeys(("initializer_list", "argument_list"), _Reading._list),
    **dict.fromkeys(_POSTFIX, _Reading._postfix),
    "parenthesized_expression": _Reading._parentheses, "binary_expression": _Reading._binary,
    "assignment_expression": _Reading._assign, "conditional_expression": _Reading._conditional,
    "comma_expression": _Reading._comma, "cast_expression": _Reading._cast,
    "compound_literal_expression": _Reading._compound_literal, "sizeof_expression": _Reading._sizeof,
}  # fmt: skip

_COMPOUND: dict[str, Any] = {
    "compound_statement": _Reading._compound, "if_statement": _Reading._if, "for_statement": _Reading._for,
    "while_statement": _Reading._while, "do_statement": _Reading._do, "switch_statement": _Reading._switch,
}  # fmt: skip
"""The statements that are blocks of their own."""
