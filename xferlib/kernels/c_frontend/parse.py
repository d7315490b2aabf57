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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

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
from xferlib.kernels.c_frontend.tree import (
    Alias,
    Arguments,
    Assignment,
    Binary,
    CallExpression,
    Cast,
    Comma,
    Compound,
    Conditional,
    Construct,
    Declaration,
    DeclaredType,
    Enumeration,
    Evaluate,
    FunctionTree,
    If,
    Index,
    JumpStatement,
    Listed,
    Literal,
    Loop,
    Member,
    Name,
    Parameter,
    Return,
    SizeOf,
    StructTree,
    Switch,
    SwitchCase,
    This,
    TypeName,
    Unary,
    Variable,
)
from xferlib.kernels.functions import C_TYPES

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


@dataclass(slots=True)
class NameKinds:
    """The kinds of the names that a block knows: ``type``, ``template`` (of types), a ``function`` or ``""``.

    Within a template of structs its own name is ``both``: the type, and the template.
    """

    known: dict[str, str]
    outer: NameKinds | None = None

    def templates(self) -> set[str]:
        """The names of all templates."""
        found = {name for name, kind in self.known.items() if kind in ("template", "function", "both")}
        return found if self.outer is None else found | self.outer.templates()

    def find(self, name: str) -> str | None:
        """The kind of a name; None of one that is not known."""
        scope: NameKinds | None = self
        while scope is not None:
            if name in scope.known:
                return scope.known[name]
            scope = scope.outer
        return None


def _outermost(types: frozenset[str] = frozenset()) -> NameKinds:
    return NameKinds({**dict.fromkeys(TYPES | types, "type"), **dict.fromkeys(TEMPLATES, "template")})


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
        return all(isinstance(each, Compound) and not each.statements for each in self.statements)


def read_preamble(text: str, types: frozenset[str], macros: Mapping[str, TokenMacro] = NONE) -> Preamble:
    """The definitions of a preamble.

    Args:
        text: The user's.
        types: The letters of types in force.
        macros: Those of a compiler's options.

    Raises:
        KernelSyntaxError: It is not C++, or holds what a snippet cannot use.
    """
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
    source = SourceText(text, what)
    tokens = Preprocessor(source, dict(preamble.macros)).run()
    reader = _Reading(source, tokens, NameKinds({}, preamble.names))
    return Snippet(source, tuple(reader.expression() if is_expression else reader.statements()))


class _Reading:
    """Makes the tree of one text."""

    def __init__(self, source: SourceText, tokens: list[Token], names: NameKinds) -> None:
        self.source = source
        self.tokens = tokens
        self.names = names
        self.text = SyntaxText([], "", "")
        self.templates = {*TEMPLATES, *CASTS, *templates_in(tokens), *names.templates()}
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
        if any(each.text == ";" for each in tokens):
            raise self.source.error("must be one expression; it has several statements")
        found = self._safely(lambda: self._body(tokens, "void kernel(){ return ", ";}"))
        if len(found) != 1 or not isinstance(found[0], Return) or isinstance(found[0].value, Comma):
            raise self.source.error("must be one expression; it has several statements")
        return found

    def _safely(self, make: Any) -> list[Any]:
        try:
            found: list[Any] = make()
        except RecursionError:
            raise self.source.error("is nested too deeply; use local variables for parts of it") from None
        return found

    def _body(self, tokens: list[Token], before: str, after: str) -> list[Any]:
        root = self._parse(tokens, before, after)
        kernel: Any = root.children[0] if root.children else None
        if len(root.children) != 1 or kernel.type != "function_definition":
            raise self.source.error("a closing brace without its opening one", find_closing_brace(self.source, tokens))
        return self._block(kernel.child_by_field_name("body"))

    def _parse(self, tokens: list[Token], before: str, after: str) -> Any:
        self.text, root = read_syntax(self.source, tokens, before, after, self.templates)
        return root

    # --- positions
    def _at(self, node: Any) -> int:
        number = self.text.token(node.start_byte)
        return self.text.tokens[number].at if number < len(self.text.tokens) else len(self.source.text)

    def _token(self, node: Any) -> Token:
        return self.text.tokens[self.text.token(node.start_byte)]

    def fail(self, node: Any, message: str) -> NoReturn:
        raise self.source.error(message, self._at(node))

    def _unknown_error(self, node: Any) -> Exception:
        what = _NOT_SUPPORTED.get(node.type, node.type.replace("_", " "))
        return self.source.error(
            f"{what} is not supported in a snippet; use raw_module for such a kernel", self._at(node)
        )

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
        self.names.known[name] = kind

    # --- types
    def _type(self, node: Any) -> TypeName:
        kind = node.type
        if kind == "sized_type_specifier":
            words = self._texts(node)
            name = number_type(words)
            if name is None:
                self.fail(node, f"{' '.join(words)!r} is not a type of a kernel; long double exists on no GPU")
            return TypeName(((name, None),), at=self._at(node), width=len(words[0]))
        if kind in ("struct_specifier", "enum_specifier", "class_specifier"):
            if node.child_by_field_name("body") is not None or node.child_by_field_name("name") is None:
                self.fail(node, "a struct or an enum is defined in the preamble, or in front of its variables")
            return self._type(node.child_by_field_name("name"))
        if kind == "union_specifier":
            self.fail(node, "union is not supported; use numbers, and functions such as __float_as_int for their bits")
        return self._type_of_name(node)

    def _type_of_name(self, node: Any) -> TypeName:
        parts = self._parts(node)
        (name, args), *others = parts
        if args is None and not others:
            parts = ((number_type([name]) or name, None),)
        return TypeName(parts, at=self._at(node), width=len(name))

    def _texts(self, node: Any) -> list[str]:
        return [self.text.tokens[number].text for number in range(*self._span(node))]

    def _span(self, node: Any) -> tuple[int, int]:
        return self.text.token(node.start_byte), self.text.token(node.end_byte)

    def _parts(self, node: Any) -> tuple[tuple[str, tuple[Any, ...] | None], ...]:
        """The names between ``::`` of a type or a value, without namespaces, each with its template's arguments."""
        text = node.text.decode()
        if node.type == "dependent_type":
            (inner,) = [each for each in node.children if each.type not in ("typename", "template")]
            return self._parts(inner)
        if node.type == "qualified_identifier":
            scope, parts = node.child_by_field_name("scope"), self._parts(node.child_by_field_name("name"))
            return parts if self._is_namespace(scope) else (*self._parts(scope), *parts)
        if node.type in ("template_type", "template_function"):
            args = tuple(self._template_args(node.child_by_field_name("arguments")))
            return ((self._word(node.child_by_field_name("name")), args),)
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
            if each.type == "type_descriptor":
                yield self._descriptor(each)
            else:
                yield self._expr(each)

    def _descriptor(self, node: Any) -> DeclaredType:
        """The type of a cast, of ``sizeof``, or an argument of a template."""
        found: DeclaredType | None = None
        is_const = False
        for each in node.named_children:
            if each.type == "type_qualifier":
                is_const = is_const or each.text == b"const"
            elif found is None:
                found = DeclaredType(self._type(each), at=self._at(node))
            else:
                found = self._abstract(each, found)
        assert found is not None
        found.is_const = is_const
        return found

    def _abstract(self, node: Any, found: DeclaredType) -> DeclaredType:
        """A declarator without a name."""
        while node is not None:
            if node.type == "abstract_pointer_declarator":
                found.pointers += 1
            elif node.type == "abstract_reference_declarator":
                found.is_reference = True
            elif node.type == "abstract_array_declarator":
                size = node.child_by_field_name("size")
                found.extents = (None if size is None else self._expr(size), *found.extents)
            else:
                self._unknown(node)
            inner = [each for each in node.named_children if each.type.startswith("abstract_")]
            node = inner[0] if inner else None
        return found

    def _is_type(self, node: Any) -> bool:
        """Whether a name, or a name with a template's arguments, is that of a type."""
        if node.type in ("primitive_type", "sized_type_specifier"):
            return True
        if node.type in ("identifier", "type_identifier"):
            return self.names.find(node.text.decode()) in ("type", "both") or node.text.decode() in _SIZED
        if node.type in ("template_function", "template_type"):
            return self.names.find(node.child_by_field_name("name").text.decode()) in ("template", "both")
        if node.type == "dependent_type":
            return True
        if node.type == "qualified_identifier":
            scope, name = node.child_by_field_name("scope"), node.child_by_field_name("name")
            if self._is_namespace(scope):
                return self._is_type(name)
            last = name
            while last.type == "qualified_identifier":
                last = last.child_by_field_name("name")
            return bool(last.text == b"value_type" or (last.text == b"type" and scope.type != "namespace_identifier"))
        return False

    # --- expressions
    def _expr(self, node: Any) -> Any:
        handler = _EXPRESSIONS.get(node.type)
        if handler is None:
            self._unknown(node)
        return handler(self, node)

    def _name(self, node: Any) -> Any:
        name = self._word(node)
        return Name(name, at=self._at(node), width=len(name))

    def _constant(self, node: Any) -> Any:
        name = node.text.decode()
        return Name(name, at=self._at(node), width=len(name))

    def _number(self, node: Any) -> Any:
        token = self._token(node)
        return Literal(token.text, at=token.at)

    def _this(self, node: Any) -> Any:
        return This(at=self._at(node), width=4)

    def _parentheses(self, node: Any) -> Any:
        (inner,) = node.named_children
        return self._expr(inner)

    def _parse_scoped_name(self, node: Any) -> Any:
        *owner, (name, args) = self._parts(node)
        found = Name(name, args, at=self._at(node), width=len(name))
        if owner:
            found.owner = TypeName(tuple(owner), at=found.at)
        return found

    def _unary(self, node: Any) -> Any:
        op = node.child_by_field_name("operator").type
        expr = self._expr(node.child_by_field_name("argument"))
        return Unary(_WORDS.get(op, op), expr, at=self._at(node))

    def _update(self, node: Any) -> Any:
        op = node.child_by_field_name("operator")
        argument = node.child_by_field_name("argument")
        if op.start_byte > argument.start_byte:
            return self._postfix(node)
        return Unary(op.type, self._expr(argument), at=self._at(node))

    def _binary(self, node: Any) -> Any:
        return self._by_precedence(self._chain(node))

    def _chain(self, node: Any) -> list[Any]:
        """The operands and operators of nested binary expressions, in the order of the text."""
        found: list[Any] = []
        stack = [node]
        while stack:
            each = stack.pop()
            if isinstance(each, str) or each is None:
                found.append(each)
            elif each.type == "binary_expression":
                op = self._token(each.child_by_field_name("operator")).text
                stack += [each.child_by_field_name("right"), _WORDS.get(op, op), each.child_by_field_name("left")]
            elif self._is_no_cast(each):
                value = each.child_by_field_name("value")
                stack += [value.child_by_field_name("argument"), value.child_by_field_name("operator").type]
                found.append(each.child_by_field_name("type"))
            else:
                found.append(each)
        return found

    def _is_no_cast(self, node: Any) -> bool:
        """Whether ``(a) - b`` was read as a cast, though ``a`` is no type."""
        if node.type != "cast_expression":
            return False
        kind = node.child_by_field_name("type")
        if kind.child_count != 1 or kind.children[0].type != "type_identifier" or self._is_type(kind.children[0]):
            return False
        value = node.child_by_field_name("value")
        return value.type in ("unary_expression", "pointer_expression") and (
            value.child_by_field_name("operator").type in ("+", "-", "*", "&")
        )

    def _operand(self, node: Any) -> Any:
        """An operand of a chain; the type in brackets of a cast that was read as an operator."""
        if node.type == "parenthesized_expression" and (inner := self._type_in(node)) is not None:
            return self._type_of_name(inner)
        if node.type == "call_expression" and (inner := self._cast_within(node)) is not None:
            return (
                self._type_of_name(node.child_by_field_name("function").named_children[0]),
                self._type_of_name(inner),
            )
        if node.type == "type_descriptor":
            child = node.children[0]
            if node.child_count != 1 or child.type != "type_identifier":
                self._unknown(node)
            return self._name(child)
        return self._expr(node)

    def _cast_within(self, node: Any) -> Any:
        """The node of the type ``U``, of ``(T)(U)`` that was read as a call."""
        function = node.child_by_field_name("function")
        is_cast = function.type == "parenthesized_expression" and self._is_head(node)
        return self._type_in(node.child_by_field_name("arguments")) if is_cast else None

    def _type_in(self, node: Any) -> Any:
        """The node of the type that stands alone in brackets; None of anything else."""
        inner = node.named_children
        is_name = len(inner) == 1 and inner[0].type in ("identifier", "qualified_identifier")
        return inner[0] if is_name and self._is_type(inner[0]) else None

    def _by_precedence(self, chain: list[Any]) -> Any:
        """The tree of a chain, by the precedence of its operators."""
        place = 0

        def operand() -> Any:
            nonlocal place
            found = self._operand(chain[place])
            if isinstance(found, Name) and place and chain[place - 1] == "<" and self.names.find(found.name) == "type":
                name = self._operand(chain[place - 2])
                shown = name.name if isinstance(name, Name) else "of this name"
                raise self.source.error(f"the preamble has no template {shown}<>", name.at, name.width)
            place += 1
            casts = [found] if isinstance(found, TypeName) else list(found) if isinstance(found, tuple) else []
            if not casts:
                return found
            found = casts[0]
            if place >= len(chain) or chain[place] not in ("+", "-", "*", "&"):
                raise self.source.error(
                    f"type {str(found)!r} is not a value; C cannot be read here", found.at, found.width
                )
            op = chain[place]
            place += 1
            value: Any = Unary(op, operand(), at=found.at)
            for each in reversed(casts):
                value = Cast(DeclaredType(each, at=each.at), value, at=each.at)
            return value

        def level(least: int) -> Any:
            nonlocal place
            left = operand()
            while place < len(chain) and LEVELS.get(chain[place], -1) >= least:
                op = chain[place]
                place += 1
                right = level(LEVELS[op] + 1)
                left = Binary(op, left, right, at=left.at)
            return left

        found = level(0)
        if place < len(chain):
            raise self.source.error(f"operator {chain[place]} is not supported in a snippet", found.at)
        return found

    def _assign(self, node: Any) -> Any:
        op = node.child_by_field_name("operator").type
        target = self._expr(node.child_by_field_name("left"))
        value = self._expr(node.child_by_field_name("right"))
        return Assignment(_WORDS.get(op, op), target, value, at=self._at(node))

    def _choice(self, node: Any) -> Any:
        names = ("condition", "consequence", "alternative")
        parts = [node.child_by_field_name(each) for each in names]
        if parts[1] is None:
            self.fail(node, "?: has a value on each side of the colon")
        return Conditional(*(self._expr(each) for each in parts), at=self._at(node))

    def _comma(self, node: Any) -> Any:
        parts: list[Any] = []
        at = self._at(node)
        while node.type == "comma_expression":
            parts.append(self._expr(node.child_by_field_name("left")))
            node = node.child_by_field_name("right")
        return Comma((*parts, self._expr(node)), at=at)

    def _list(self, node: Any) -> Any:
        return Listed(tuple(self._items(node)), at=self._at(node))

    def _items(self, node: Any) -> list[Any]:
        """The values of a list, or of the arguments of a call."""
        for each in node.named_children:
            if each.type in ("initializer_pair", "parameter_pack_expansion"):
                self._unknown(each)
        return [self._expr(each) for each in node.named_children]

    def _cast(self, node: Any) -> Any:
        if self._is_no_cast(node):
            return self._binary(node)
        kind = self._descriptor(node.child_by_field_name("type"))
        if not kind.pointers and not self._is_known(kind.base):
            raise self.source.error(f"{str(kind.base)!r} is not a type here", kind.base.at, kind.base.width)
        value = self._expr(node.child_by_field_name("value"))
        return Cast(kind, value, at=self._at(node))

    def _is_known(self, name: TypeName) -> bool:
        first = name.parts[0][0]
        return self.names.find(first) in ("type", "template", "both") or " " in first

    def _compound(self, node: Any) -> Any:
        """``T{a, b}`` and ``(T){a, b}``."""
        kind = node.child_by_field_name("type")
        name = self._descriptor(kind).base if kind.type == "type_descriptor" else self._type(kind)
        return Construct(name, tuple(self._items(node.child_by_field_name("value"))), at=self._at(node))

    def _sizeof(self, node: Any) -> Any:
        kind = node.child_by_field_name("type")
        if kind is not None:
            return SizeOf(self._descriptor(kind), at=self._at(node))
        value = node.child_by_field_name("value")
        inner = value.named_children[0] if value.type == "parenthesized_expression" else value
        if inner.type in ("identifier", "qualified_identifier", "template_function") and self._is_type(inner):
            named = self._type_of_name(inner)
            return SizeOf(DeclaredType(named, at=named.at), at=self._at(node))
        return SizeOf(self._expr(value), at=self._at(node))

    def _postfix(self, node: Any) -> Any:
        """Calls, indices and members: their chain, and a cast in front of it that was read as a call."""
        chain = []
        while node.type in ("call_expression", "subscript_expression", "field_expression") or (
            node.type == "update_expression"
            and node.child_by_field_name("operator").start_byte > node.child_by_field_name("argument").start_byte
        ):
            if node.type == "call_expression" and self._is_head(node):
                break
            chain.append(node)
            inner = node.child_by_field_name("function" if node.type == "call_expression" else "argument")
            node = inner
        casts: list[TypeName] = []
        if node.type == "call_expression":
            function = node.child_by_field_name("function")
            if function.type == "parenthesized_expression":
                casts.append(self._type_of_name(function.named_children[0]))
                while (inner := self._type_in(node.child_by_field_name("arguments"))) is not None:  # (T)(U)(x)
                    casts.append(self._type_of_name(inner))
                    if not chain or chain[-1].type != "call_expression":
                        self.fail(node, f"a cast to {casts[-1]} needs a value")
                    node = chain.pop()
                args = self._items(node.child_by_field_name("arguments"))
                if not args:
                    self.fail(node, f"a cast to {casts[-1]} needs a value")
                found = args[0] if len(args) == 1 else Comma(tuple(args), at=self._at(node))
            else:
                found = self._construct(node, function)
        else:
            found = self._expr(node)
        for each in reversed(chain):
            found = self._apply(each, found)
        for cast in reversed(casts):
            found = Cast(DeclaredType(cast, at=cast.at), found, at=cast.at)
        return found

    def _is_head(self, node: Any) -> bool:
        """Whether a call is a conversion ``T(x)``, or a cast ``(T)(x)``."""
        function = node.child_by_field_name("function")
        if function.type == "parenthesized_expression":
            return self._type_in(function) is not None
        if function.type == "template_function" and function.child_by_field_name("name").text.decode() in CASTS:
            return True
        return self._is_type(function)

    def _construct(self, node: Any, function: Any) -> Any:
        args = self._items(node.child_by_field_name("arguments"))
        at = self._at(node)
        if function.type == "template_function":
            name = function.child_by_field_name("name").text.decode()
            if name in CASTS:
                kinds = list(self._template_args(function.child_by_field_name("arguments")))
                if len(kinds) != 1 or not isinstance(kinds[0], DeclaredType) or len(args) != 1:
                    self.fail(node, f"{name} takes one type and one value")
                return Cast(kinds[0], args[0], name == "reinterpret_cast", at=at)
        return Construct(self._type_of_name(function), tuple(args), at=at)

    def _apply(self, node: Any, inner: Any) -> Any:
        """A call, an index, a member or ``++`` of what stands in front of it."""
        at = inner.at
        if node.type == "update_expression":
            return Unary(f"p{node.child_by_field_name('operator').type}", inner, at=at)
        if node.type == "subscript_expression":
            items = self._items(node.child_by_field_name("indices"))
            if not items:
                self.fail(node, "an index is missing between the brackets")
            return Index(inner, items[0] if len(items) == 1 else Comma(tuple(items), at=at), at=at)
        if node.type == "call_expression":
            args = node.child_by_field_name("arguments")
            return CallExpression(inner, tuple(self._items(args)), at=at)
        field_node = node.child_by_field_name("field")
        if field_node.type not in ("field_identifier", "dependent_name"):
            self._unknown(field_node)
        name = self._word(field_node)
        is_arrow = node.child_by_field_name("operator").type == "->"
        return Member(inner, name, is_arrow, self._at(field_node), at=at)

    # --- statements
    def _in_block(self, make: Any) -> Any:
        outer = self.names
        self.names = NameKinds({}, outer)
        found = make()
        self.names = outer
        return found

    def _block(self, node: Any) -> list[Any]:
        return [found for each in node.named_children for found in self._statement(each)]

    def _statement(self, node: Any) -> list[Any]:
        at, kind = self._at(node), node.type
        if kind == "compound_statement":
            return [Compound(tuple(self._in_block(lambda: self._block(node))), at=at)]
        if kind == "expression_statement":
            inner = node.named_children
            return [Evaluate(self._expr(inner[0]), at=at) if inner else Compound((), at=at)]
        if kind in ("declaration", "type_definition", "alias_declaration", "enum_specifier", "struct_specifier"):
            return self._declaration(node)
        if kind == "if_statement":
            return [self._in_block(lambda: self._if(node))]
        if kind in ("for_statement", "while_statement", "do_statement"):
            return [self._in_block(lambda: self._loop(node))]
        if kind == "switch_statement":
            return [self._in_block(lambda: self._switch(node))]
        if kind in ("break_statement", "continue_statement"):
            return [JumpStatement(kind.partition("_")[0], at=at)]
        if kind == "return_statement":
            value = node.named_children
            return [Return(self._expr(value[0]) if value else None, at=at)]
        if kind in ("empty_declaration", ";"):
            return [Compound((), at=at)]
        if kind == "attributed_statement":
            return self._statement(node.named_children[-1])
        raise self._unknown_error(node)

    def _one(self, node: Any) -> Any:
        """A statement as the body of another."""
        found = self._in_block(lambda: self._statement(node))
        return found[0] if len(found) == 1 else Compound(tuple(found), at=self._at(node))

    def _condition(self, node: Any) -> tuple[Any, Any]:
        """The declaration in front of a condition, and the condition."""
        if node.type != "condition_clause":
            return None, self._expr(node)
        begin, value = node.child_by_field_name("initializer"), node.child_by_field_name("value")
        found = None
        if begin is not None:
            inner = begin.named_children[0] if begin.type == "init_statement" else begin
            found = self._statement(inner)[0]
        if value.type == "declaration":
            self.fail(value, "a condition that declares a variable is not supported; declare it in front")
        return found, self._expr(value)

    def _if(self, node: Any) -> Any:
        begin, condition = self._condition(node.child_by_field_name("condition"))
        yes = self._one(node.child_by_field_name("consequence"))
        other = node.child_by_field_name("alternative")
        no = None if other is None else self._one(other.named_children[0])
        return If(condition, yes, no, begin, at=self._at(node))

    def _loop(self, node: Any) -> Any:
        at = self._at(node)
        part = node.child_by_field_name
        if node.type == "for_statement":
            begin = part("initializer")
            first = None
            if begin is not None:
                is_statement = begin.type in ("declaration", "expression_statement", "alias_declaration")
                found = self._statement(begin) if is_statement else [Evaluate(self._expr(begin), at=at)]
                first = found[0] if len(found) == 1 else Declaration(tuple(found), at=at)
            condition = None if part("condition") is None else self._expr(part("condition"))
            after = None if part("update") is None else self._expr(part("update"))
            return Loop(first, condition, after, self._one(part("body")), at=at)
        if node.type == "do_statement":
            body = self._one(part("body"))
            return Loop(None, self._expr(part("condition")), None, body, is_late=True, at=at)
        begin, condition = self._condition(part("condition"))
        return Loop(begin, condition, None, self._one(part("body")), at=at)

    def _switch(self, node: Any) -> Any:
        begin, value = self._condition(node.child_by_field_name("condition"))
        if begin is not None:
            self.fail(node, "a switch that declares a variable is not supported; declare it in front")
        body = node.child_by_field_name("body")
        cases = body.named_children if body.type == "compound_statement" else [body]
        found = []
        for each in cases:
            if each.type != "case_statement":
                self.fail(each, "a statement in a switch stands behind no case; move it, or add one")
            label = each.child_by_field_name("value")
            inner = [other for other in each.named_children if label is None or other.id != label.id]
            statements = tuple(one for other in inner for one in self._statement(other))
            value_of = None if label is None else self._expr(label)
            found.append(SwitchCase(value_of, statements, at=self._at(each)))
        return Switch(value, tuple(found), at=self._at(node))

    # --- declarations
    def _specifiers(self, node: Any) -> tuple[Any, bool, set[str]]:
        """The node of a declaration's type, whether it is constant, and its other words."""
        kind = node.child_by_field_name("type")
        words: set[str] = set()
        for number, each in enumerate(node.children):
            if node.field_name_for_child(number) or each.type in (",", ";", "field_initializer_list", "typedef"):
                continue
            if each.type in ("type_qualifier", "storage_class_specifier", "explicit_function_specifier", "virtual"):
                words.update(self._texts(each))
            elif each.type == "virtual_function_specifier":
                words.add("virtual")
            elif each.type in ("attribute_declaration", "alignas_qualifier", "alignas_specifier"):
                pass
            elif each.is_named and each.type not in ("default_method_clause", "delete_method_clause"):
                self._unknown(each)
        return kind, bool(words & {"const", "constexpr"}), words - IGNORED_WORDS

    def _declaration(self, node: Any) -> list[Any]:
        """The statements that a declaration is."""
        at = self._at(node)
        if node.type == "alias_declaration":
            return [self._alias(node)]
        if node.type in ("enum_specifier", "struct_specifier"):
            return self._definition_of(node, "")[0]
        if node.type == "type_definition":
            return self._typedef(node)
        kind, is_const, words = self._specifiers(node)
        if kind is None:
            self._unknown(node)
        if words & {"__shared__", "extern", "thread_local", "__managed__"}:
            word = min(words)
            self.fail(node, f"{word} is not supported in a snippet, whose elements share nothing; use raw_module")
        before: list[Any] = []
        if kind.type in ("enum_specifier", "struct_specifier") and kind.child_by_field_name("body") is not None:
            before, base = self._definition_of(kind, "")
        else:
            base = self._type(kind)
            is_known = base.name == "auto" or self._is_known(base) or base.parts[0][0] in C_TYPES
            if self._is_in_function and not is_known:
                declarator = node.child_by_field_name("declarator")
                kind_of = "" if declarator is None else declarator.type
                is_product = kind_of in ("pointer_declarator", "reference_declarator")
                if is_product and self.names.find(str(base)) == "":  # a * b; of values
                    raise self.source.error("a statement without effect; assign its value", at)
                raise self.source.error(
                    f"unknown type {str(base)!r}; use a C or NumPy type name", base.at, max(base.width, 1)
                )
        variables: list[Any] = []
        for number, each in enumerate(node.children):
            if node.field_name_for_child(number) == "declarator":
                found = self._variable(each, base, is_const=is_const)
                if found is not None:
                    found.is_static = "static" in words
                    variables.append(found)
        return [*before, *([Declaration(tuple(variables), at=at)] if variables else [])]

    def _variable(self, node: Any, base: TypeName, *, is_const: bool) -> Variable | None:
        """One declarator; None of a function that is declared only."""
        value: Any = None
        value_node = None
        if node.type == "init_declarator":
            value_node = node.child_by_field_name("value")
            declarator = node.child_by_field_name("declarator")
        else:
            declarator = node
        kind = DeclaredType(base, is_const=is_const, at=base.at)
        name_node, function = self._declarator(declarator, kind)
        if function is not None:
            if not self._is_in_function:
                return None
            params = function.child_by_field_name("parameters")
            if self._declares_function(params):
                self.fail(function, "a function is declared here; functions stand in the preamble")
            value = self._as_arguments(params)
        name = self._word(name_node)
        self._declare(name)
        if value_node is not None:
            if value_node.type == "argument_list":
                value = Arguments(tuple(self._items(value_node)), at=self._at(value_node))
            else:
                value = self._expr(value_node)
        return Variable(name, kind, value, at=self._at(name_node), width=len(name))

    def _declares_function(self, params: Any) -> bool:
        """Whether the brackets of a declarator hold parameters, and not the arguments of a constructor."""
        given = params.named_children
        if not given:
            return True
        for each in given:
            if each.type != "parameter_declaration":
                return True
            kind = each.child_by_field_name("type")
            if kind.type in ("type_identifier", "template_type", "qualified_identifier") and not self._is_type(kind):
                return False
        return True

    def _as_arguments(self, params: Any) -> Arguments:
        """The brackets of a declarator, read again as arguments."""
        first, last = self._span(params)
        tokens = self.text.tokens[first:last]
        outside = self.text
        root = self._parse(tokens, "void kernel(){ xf ", ";}")
        statement = root.children[0].child_by_field_name("body").named_children
        call = statement[0].named_children[0] if len(statement) == 1 and statement[0].named_children else None
        if call is None or call.type != "call_expression":
            self.fail(root, "these are not arguments; C cannot be read here")
        found = Arguments(tuple(self._items(call.child_by_field_name("arguments"))), at=tokens[0].at)
        self.text = outside
        return found

    def _declarator(self, node: Any, kind: DeclaredType) -> tuple[Any, Any]:
        """The node of the name, and that of a function's parameters; what stands around it is added to ``kind``."""
        function = None
        while node.type not in (
            "identifier", "field_identifier", "type_identifier", "operator_name", "primitive_type", "template_function",
            "qualified_identifier",
        ):  # fmt: skip
            if node.type == "destructor_name":
                self.fail(node, "a destructor is not supported; write it outside of it")
            if node.type == "pointer_declarator":
                kind.pointers += 1
            elif node.type == "reference_declarator":
                kind.is_reference = True
            elif node.type == "array_declarator":
                size = node.child_by_field_name("size")
                kind.extents = (None if size is None else self._expr(size), *kind.extents)
            elif node.type == "function_declarator":
                if function is not None:
                    self._unknown(node)
                function = node
            elif node.type != "parenthesized_declarator":
                self._unknown(node)
            inner = [each for each in node.named_children if each.type.endswith(("declarator", "identifier", "_name"))]
            declared = node.child_by_field_name("declarator")
            if declared is None and not inner:
                self._unknown(node)
            node = declared if declared is not None else inner[0]
        if node.type in ("template_function", "qualified_identifier"):
            self.fail(node, f"{node.text.decode()!r} is defined for special types, which is not supported")
        return node, function

    def _alias(self, node: Any) -> Alias:
        name = self._word(node.child_by_field_name("name"))
        kind = self._descriptor(node.child_by_field_name("type"))
        self._declare(name, "type")
        return Alias(name, kind, at=self._at(node), width=len(name))

    def _typedef(self, node: Any) -> list[Any]:
        kind_node = node.child_by_field_name("type")
        before: list[Any] = []
        declarators = [each for n, each in enumerate(node.children) if node.field_name_for_child(n) == "declarator"]
        if (
            kind_node.type in ("enum_specifier", "struct_specifier")
            and kind_node.child_by_field_name("body") is not None
        ):
            before, base = self._definition_of(kind_node, declarators[0].text.decode())
        else:
            base = self._type(kind_node)
        found: list[Any] = []
        for each in declarators:
            kind = DeclaredType(base, at=base.at)
            name_node, function = self._declarator(each, kind)
            name = name_node.text.decode()
            if function is not None:
                self.fail(each, f"{name!r} is a type of functions, which a snippet has not")
            if kind.base.parts == ((name, None),) and not kind.pointers and not kind.extents:
                continue  # typedef struct P { ... } P
            self._declare(name, "type")
            found.append(Alias(name, kind, at=self._at(each), width=len(name)))
        return [*before, *found]

    def _definition_of(self, node: Any, name: str) -> tuple[list[Any], TypeName]:
        """The definition of an enumeration or a struct, and its name; ``name`` is that of a typedef."""
        at = self._at(node)
        name_node = node.child_by_field_name("name")
        own = self._word(name_node) if name_node is not None else ""
        body = node.child_by_field_name("body")
        if body is None:
            if not own:
                self._unknown(node)
            self._declare(own, "type")  # declared only
            return [], TypeName(((own, None),), at=at)
        label = own or name or f"(unnamed at {at})"
        kind = TypeName(((label, None),), at=at, width=len(own) or 1)
        if node.type == "enum_specifier":
            is_scoped = any(each.type in ("class", "struct") for each in node.children)
            base = node.child_by_field_name("base")
            self._declare(label, "type")
            numbers = []
            for each in body.named_children:
                if each.type != "enumerator":
                    self._unknown(each)
                word = self._word(each.child_by_field_name("name"))
                value = each.child_by_field_name("value")
                numbers.append((word, None if value is None else self._expr(value)))
                if not is_scoped:
                    self._declare(word)
            found = Enumeration(label, tuple(numbers), is_scoped, None if base is None else self._type(base), at=at)
            return [found], kind
        return [self._struct_tree(node, label, ())], kind

    # --- definitions of a preamble
    def _definition(self, node: Any) -> list[Any]:
        kind = node.type
        if kind == "template_declaration":
            return self._template(node)
        if kind == "function_definition":
            return [self._function(node, ())]
        if kind in ("declaration", "type_definition", "alias_declaration", "enum_specifier", "struct_specifier"):
            found = self._declaration(node)
            for each in found:
                for variable in each.variables if isinstance(each, Declaration) else ():
                    if variable.value is None or variable.type.pointers or variable.type.is_reference:
                        raise self.source.error(
                            f"{variable.name!r} is a variable of all elements; write functions, macros, structs, "
                            "constants with their values, and names of types", variable.at, variable.width,
                        )  # fmt: skip
            return found
        if kind in (";", "empty_declaration") or (kind == "expression_statement" and not node.named_children):
            return []
        if kind == "linkage_specification":
            body = node.child_by_field_name("body")
            inner = body.named_children if body.type == "declaration_list" else [body]
            return [found for each in inner for found in self._definition(each)]
        raise self.source.error(
            f"the preamble holds {_NOT_SUPPORTED.get(kind, kind.replace('_', ' '))}; write functions, macros, structs, "
            "constants with their values, and names of types",
            self._at(node),
        )

    def _template(self, node: Any) -> list[Any]:
        types: list[str] = []
        for each in node.child_by_field_name("parameters").named_children:
            if each.type != "type_parameter_declaration" or len(each.named_children) != 1:
                self.fail(each, "a parameter of a template: its parameters must be types; write a template of types")
            types.append(self._word(each.named_children[0]))
        if not types:
            self.fail(node, "a template for special types is not supported; write a template of types")
        inner = node.named_children[-1]
        outer = self.names
        self.names = NameKinds(dict.fromkeys(types, "type"), outer)
        found: list[Any]
        if inner.type == "function_definition":
            self.names = outer
            found = [self._function(inner, tuple(types))]
        elif inner.type == "struct_specifier":
            self.names = outer
            name = self._word(inner.child_by_field_name("name"))
            self._declare(name, "template")
            found = [self._struct_tree(inner, name, tuple(types))]
        elif inner.type == "alias_declaration":
            alias = self._alias(inner)
            alias.types = tuple(types)
            outer.known[alias.name] = "template"
            found = [alias]
        elif inner.type == "declaration":
            declarator = inner.child_by_field_name("declarator")
            name_node, function = self._declarator(declarator, DeclaredType(TypeName((("", None),), at=0), at=0))
            if function is None:
                self.fail(inner, "a template of variables is not supported")
            outer.known[self._word(name_node)] = "function"
            found = []
        else:
            self._unknown(inner)
        self.names = outer
        return found

    def _function(self, node: Any, types: tuple[str, ...], struct: str | None = None) -> Any:
        outer = self.names
        declarator = node.child_by_field_name("declarator")
        if declarator is None or declarator.type == "operator_cast":
            self.fail(node, "a conversion operator is not supported; write a function outside of the struct")
        if types and struct is None:
            name_node = declarator
            while name_node.type.endswith("declarator"):
                inner = name_node.child_by_field_name("declarator")
                name_node = inner if inner is not None else name_node.named_children[-1]
            if name_node.type in ("identifier", "field_identifier"):
                outer.known[self._word(name_node)] = "function"
        self.names = NameKinds(dict.fromkeys(types, "type"), outer)
        kind, _, words = self._specifiers(node)
        if "virtual" in words:
            self.fail(node, "virtual is not supported; write a function outside of the struct")
        result = None if kind is None else DeclaredType(self._type(kind), at=self._at(node))
        shape = result or DeclaredType(TypeName((("", None),), at=0), at=0)
        name_node, function = self._declarator(declarator, shape)
        if function is None:
            self.fail(node, "C cannot be read here; a function has its parameters in brackets")
        if name_node.type == "destructor_name":
            self._unknown(name_node)
        name = "".join(self._texts(name_node)) if name_node.type == "operator_name" else self._word(name_node)
        if struct is None and name_node.type != "operator_name" and not types and outer.known.get(name) != "function":
            outer.known[name] = ""
        if any(each.type == "trailing_return_type" for each in function.named_children):
            self.fail(function, "a type behind the parameters is not supported; write it in front of the function")
        params = self._parameters(function.child_by_field_name("parameters"))
        body = node.child_by_field_name("body")
        if body is None:
            self.fail(node, f"function {name!r} has no body of its own; write one, or leave it out")
        is_in_function, self._is_in_function = self._is_in_function, True
        sets = self._sets(node)
        self.names = NameKinds({}, self.names)
        statements = tuple(self._block(body))
        self._is_in_function = is_in_function
        self.names = outer
        return FunctionTree(
            name, result, params, Compound(statements, at=self._at(body)), types, sets, "static" in words,
            source=self.source, at=self._at(name_node), width=len(name),
        )  # fmt: skip

    def _parameters(self, node: Any) -> tuple[Parameter, ...]:
        found: list[Parameter] = []
        for each in node.named_children:
            if each.type not in ("parameter_declaration", "optional_parameter_declaration"):
                self._unknown(each)
            kind_node, is_const, _ = self._specifiers(each)
            base = self._type(kind_node)
            kind = DeclaredType(base, is_const=is_const, at=base.at)
            declarator, name, at = each.child_by_field_name("declarator"), "", self._at(each)
            if declarator is not None and declarator.type == "abstract_function_declarator":
                inner = declarator.child_by_field_name("parameters").named_children  # R(v)
                only = inner[0].child_by_field_name("type") if len(inner) == 1 else None
                if only is None or only.type != "type_identifier" or inner[0].child_count != 1:
                    self._unknown(declarator)
                name = self._word(only)
            elif declarator is not None and declarator.type.startswith("abstract_"):
                kind = self._abstract(declarator, kind)
            elif declarator is not None:
                name_node, function = self._declarator(declarator, kind)
                if function is not None:
                    self.fail(function, "a parameter must be a number, a struct, or a pointer or reference to them")
                name, at = self._word(name_node), self._at(name_node)
            if base.name == "void" and not kind.pointers and not name:
                continue
            if name:
                self._declare(name)
            default = each.child_by_field_name("default_value")
            found.append(
                Parameter(name, kind, None if default is None else self._expr(default), at=at, width=max(len(name), 1))
            )
        return tuple(found)

    def _sets(self, node: Any) -> tuple[tuple[str, Any], ...]:
        """The members' values before a constructor's body."""
        found: list[tuple[str, Any]] = []
        for each in node.named_children:
            if each.type != "field_initializer_list":
                continue
            for one in each.named_children:
                name, value = one.named_children
                args = Arguments(tuple(self._items(value)), at=self._at(one))
                found.append((name.text.decode().partition("<")[0].strip(), args))
        return tuple(found)

    def _struct_tree(self, node: Any, name: str, types: tuple[str, ...]) -> StructTree:
        at = self._at(node)
        if any(each.type == "base_class_clause" for each in node.children):
            self.fail(node, f"struct {name} has a base, which is not supported; make it a member")
        outer = self.names
        if not types:
            self._declare(name, "type")
        inside = NameKinds(dict.fromkeys(types, "type"), outer)
        inside.known[name] = "both" if types else "type"
        self.names = inside
        is_in_function, self._is_in_function = self._is_in_function, False
        members: list[Variable] = []
        aliases: list[Any] = []
        functions: dict[str, list[FunctionTree]] = {}
        constructors: list[FunctionTree] = []
        bodies = []
        for each in node.child_by_field_name("body").named_children:
            kind = each.child_by_field_name("type")
            if each.type == "field_declaration" and self._is_constant(each):
                aliases += self._constant_members(each)
            elif each.type == "field_declaration" and kind is not None and kind.type == "enum_specifier":
                aliases += self._definition_of(kind, "")[0]
                if each.child_by_field_name("declarator") is not None:
                    self.fail(each, f"struct {name}: give the enumeration a name, and declare its members behind it")
            elif each.type == "field_declaration":
                members += self._members(each, name, types)
            elif each.type in ("type_definition", "alias_declaration", "enum_specifier"):
                aliases += self._declaration(each)
            elif each.type == "function_definition":
                bodies.append(each)
            elif each.type == "declaration":  # a constructor without a body
                self.fail(each, f"struct {name}: a function has no body here; write one, or leave it out")
            elif each.type != "access_specifier":
                what = _NOT_SUPPORTED.get(each.type, each.type.replace("_", " "))
                self.fail(each, f"struct {name} has {what}, which is not supported; write it outside of it")
        if not members or len({each.name for each in members}) < len(members):
            self.fail(node, f"struct {name} must have members, each with a name of its own")
        found = StructTree(
            name, tuple(members), types, functions, constructors, tuple(aliases), source=self.source, at=at,
            width=len(name),
        )  # fmt: skip
        for each in bodies:
            self._own(found, each)
        self._is_in_function = is_in_function
        self.names = outer
        return found

    def _is_constant(self, node: Any) -> bool:
        """Whether a member is one constant for all structs of the type."""
        _, is_const, words = self._specifiers(node)
        return is_const and "static" in words and node.child_by_field_name("default_value") is not None

    def _constant_members(self, node: Any) -> list[Variable]:
        kind = DeclaredType(self._type(node.child_by_field_name("type")), is_const=True, at=self._at(node))
        name_node, function = self._declarator(node.child_by_field_name("declarator"), kind)
        if function is not None or kind.pointers or kind.extents or kind.is_reference:
            self.fail(node, "a constant within a struct must be a number")
        name = self._word(name_node)
        self._declare(name)
        value = self._expr(node.child_by_field_name("default_value"))
        return [Variable(name, kind, value, at=self._at(name_node), width=len(name))]

    def _members(self, node: Any, name: str, types: tuple[str, ...]) -> list[Variable]:
        kind_node, is_const, words = self._specifiers(node)
        what = " ".join(self._texts(node)).removesuffix(" ;")
        if "static" in words or kind_node is None or kind_node.child_by_field_name("body") is not None:
            self.fail(node, f"struct {name}: {what!r} is neither a number nor a struct, which each element has")
        base = self._type(kind_node)
        if base.name == name:
            self.fail(node, f"struct {name}: unknown type {str(base)!r} of a member: it holds itself")
        found = []
        for number, each in enumerate(node.children):
            if node.field_name_for_child(number) != "declarator":
                continue
            kind = DeclaredType(base, is_const=is_const, at=base.at)
            name_node, function = self._declarator(each, kind)
            if function is not None or kind.pointers or kind.is_reference:
                self.fail(each, f"struct {name}: {what!r} is neither a number nor a struct, nor an array of them")
            word = self._word(name_node)
            self._declare(word)
            found.append(Variable(word, kind, at=self._at(name_node), width=len(word)))
        default = node.child_by_field_name("default_value")
        if default is not None or any(each.type == "bitfield_clause" for each in node.children):
            self.fail(node, f"struct {name}: {what!r} has a value or a width of its own; set members in a constructor")
        return found

    def _own(self, struct: StructTree, node: Any) -> None:
        """Add a function of a struct."""
        if any(each.type == "default_method_clause" for each in node.children):
            return
        function = self._function(node, (), struct.name)
        function.struct = struct
        if function.name == struct.name or function.name.startswith("~"):
            if function.returns is not None or function.name.startswith("~"):
                self.fail(node, f"struct {struct.name}: {function.name} is not supported; write it outside of it")
            other = _other(struct, function)
            if other is not None:
                if not _is_copy(struct, function, other):
                    self.fail(
                        node, f"struct {struct.name} copies in a way of its own, which is not supported; write a "
                        "function outside of it",
                    )  # fmt: skip
                return
            for name, value in function.sets:
                if name not in {struct.name, *(each.name for each in struct.members)}:
                    text = self.source.text[value.at :].partition(")")[0]
                    raise self.source.error(f"struct {struct.name}: '{text})' sets no member", value.at)
            struct.constructors.append(function)
            return
        if function.returns is None:
            self.fail(node, f"struct {struct.name}: {function.name} has no type; write what it returns")
        if function.name == "operator=":
            other = _other(struct, function)
            if other is not None and _is_copy(struct, function, other):
                return
        if function.name in (
            "operator=",
            "operator()",
            "operator[]",
            "operator->",
            "operator,",
            "operator&&",
            "operator||",
            "operator++",
            "operator--",
        ):
            self.fail(
                node, f"struct {struct.name} has a function {function.name}, which is not supported; write it outside "
                "of it under a name of its own",
            )  # fmt: skip
        struct.functions.setdefault(function.name, []).append(function)


def _other(struct: StructTree, function: FunctionTree) -> str | None:
    """The parameter of a function that takes another such struct alone; None if it takes anything else."""
    if len(function.params) != 1:
        return None
    (param,) = function.params
    is_struct = param.type.base.name == struct.name and not param.type.pointers
    return param.name if is_struct else None


def _is_copy(struct: StructTree, function: FunctionTree, other: str) -> bool:
    """Whether a constructor or an assignment copies each member of ``other``, and does nothing else."""
    copied: list[tuple[str, Any]] = [
        (name, value.items[0] if len(value.items) == 1 else None) for name, value in function.sets
    ]
    for number, each in enumerate(function.body.statements):
        expr = each.expr if isinstance(each, Evaluate) else None
        if isinstance(expr, Assignment) and expr.op == "=":
            target: Any = expr.target
            own = (
                target.name
                if isinstance(target, Name)
                else (target.name if isinstance(target, Member) and isinstance(target.owner, This) else "")
            )
            copied.append((own, expr.value))
        elif not (isinstance(each, Return) and number == len(function.body.statements) - 1 and (
            isinstance(each.value, Unary) and each.value.op == "*" and isinstance(each.value.expr, This)
        )):  # fmt: skip
            return False
    pairs = [
        (name, value.name)
        for name, value in copied
        if isinstance(value, Member) and isinstance(value.owner, Name) and value.owner.name == other
    ]
    names = sorted(each.name for each in struct.members)
    return len(pairs) == len(copied) and sorted(pairs) == [(name, name) for name in names]


_EXPRESSIONS: dict[str, Any] = {
    "identifier": _Reading._name, "number_literal": _Reading._number, "string_literal": _Reading._number,
    "true": _Reading._constant, "false": _Reading._constant, "this": _Reading._this,
    "parenthesized_expression": _Reading._parentheses, "qualified_identifier": _Reading._parse_scoped_name,
    "template_function": _Reading._parse_scoped_name, "unary_expression": _Reading._unary,
    "pointer_expression": _Reading._unary,
    "update_expression": _Reading._update, "binary_expression": _Reading._binary,
    "assignment_expression": _Reading._assign,
    "conditional_expression": _Reading._choice, "comma_expression": _Reading._comma,
    "initializer_list": _Reading._list,
    "cast_expression": _Reading._cast, "compound_literal_expression": _Reading._compound,
    "sizeof_expression": _Reading._sizeof, "call_expression": _Reading._postfix, "field_expression": _Reading._postfix,
    "subscript_expression": _Reading._postfix, "argument_list": _Reading._list,
}  # fmt: skip
