"""Calls: functions, methods, operators, constructors and templates of a preamble, and CUDA's functions that write.

A function is inlined at each call, so that it means the same on every backend: its parameters become names for the
arguments, a reference for the argument's object itself. Of several functions of one name the arguments choose, as C++
has it; the types of a template follow from them, or are named by the call. A function whose parameters are values has
no effect but its result, which is kept, so that a further call with the same values is free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib.errors import KernelTypeError
from xferlib.kernels.c_frontend import functions, tree
from xferlib.kernels.c_frontend.memory import RefusedError
from xferlib.kernels.c_frontend.scope import (
    VECTORS,
    ArrayType,
    CompoundObject,
    CompoundValue,
    Either,
    Frame,
    Jump,
    Overloads,
    Own,
    Pointer,
    PointerType,
    Raw,
    ReadOnly,
    Scope,
    ShapeOfCall,
    StructType,
    is_variable,
    leaves,
    plain,
)
from xferlib.kernels.c_frontend.translation import Translation
from xferlib.kernels.c_frontend.types import Types
from xferlib.kernels.functions import promote_c
from xferlib.kernels.ir import BOOL, FLOAT32, FLOAT64, INT64, Node, is_complex, part_dtype

if TYPE_CHECKING:
    from collections.abc import Callable


MOST_DEPTH = 32
NO_TYPES: Mapping[str, Any] = MappingProxyType({})
ATOMICS = {
    f"atomic{name}": name.lower() for name in ("Add", "Sub", "Min", "Max", "And", "Or", "Xor", "Exch", "CAS")
}  # fmt: skip
"""The kind of update by the name of the function."""
_ATOMIC_KINDS = {"add": "iuf", "exch": "iuf"}
_SAME, _PROMOTED, _CONVERTED = range(3)


class Argument:
    """An argument of a call: an object where the expression stands for one, else a value."""

    __slots__ = ("_translator", "_value", "kind", "node", "place")

    def __init__(self, translator: Translation, node: Any, place: Any, value: Any) -> None:
        self._translator = translator
        self.node = node
        self.place = place
        self._value = value
        self.kind: Any
        """Its type; that of an array is the pointer to its first element."""
        if place is not None:
            self.kind = translator.type_at(place)
            if isinstance(self.kind, ArrayType):
                self.kind = PointerType(self.kind.element, isinstance(place, ReadOnly))
        elif isinstance(value, Pointer):
            self.kind = PointerType(value.dtype, value.is_const)
        else:
            self.kind = value.dtype

    @property
    def value(self) -> Any:
        """The value, read at the first use."""
        if self._value is None:
            self._value = self._translator.memory.load(self.place)
        return self._value


class Calls:
    """Translates calls, for a translator."""

    def __init__(self, translator: Translation, types: Types) -> None:
        self._t = translator
        self._types = types
        self._names: set[str] = set()
        """Of all functions of structs and of all operators."""
        self._results: dict[tuple[Any, ...], Any] = {}
        self._has_loops = False

    # --- definitions
    def define(self, scope: Scope, function: tree.FunctionTree) -> None:
        """Declare a function of a preamble or a struct."""
        self.note(function)
        found = scope.names.get(function.name)
        if not isinstance(found, Overloads):
            found = scope.names[function.name] = Overloads([], scope)
        found.functions.append(function)

    def note(self, function: tree.FunctionTree) -> None:
        self._names.add(function.name)
        self._has_loops = self._has_loops or tree.has((tree.Loop,), function.body)

    def note_struct(self, struct: tree.StructTree) -> None:
        """Note the names of a struct's functions, which its types declare later."""
        for each in (*struct.constructors, *(one for many in struct.functions.values() for one in many)):
            self.note(each)

    # --- what the syntax of a call says
    def operator(self, sign: str) -> str | None:
        """The name of an operator's functions; None where there are none."""
        name = f"operator{sign.lstrip('p') if sign in ('p++', 'p--') else sign}"
        return name if name in self._names else None

    def may_write(self, node: tree.CallExpression) -> bool:
        """Whether a call may write to its arguments."""
        name = getattr(node.function, "name", "")
        entity = self._t.frame.scope.find(name)
        if isinstance(entity, Overloads):
            return any(
                each.type.pointers or each.type.extents or each.type.is_reference
                for function in entity.functions for each in function.params
            )  # fmt: skip
        return (
            functions.find_name(name, functions.SPLITS) is not None
            or functions.find_name(name, functions.PAIRS) is not None
            or name in ATOMICS or name in self._names
        )  # fmt: skip

    # --- calls
    def argument(self, given: Any) -> Argument:
        """An argument, an expression or a value."""
        t = self._t
        if isinstance(given, (Node, CompoundValue, Pointer)):
            return Argument(t, None, None, given)
        if isinstance(given, tree.Listed):
            t.fail(given, "a list has no type of its own here; name the type in front of it")
        place, value = t.evaluate(given)
        if isinstance(plain(place), Own):
            place, value = None, t.value(given)  # says what is wrong
        return Argument(t, given, place, value)

    def call(self, node: tree.CallExpression, *, is_used: bool) -> Any:
        """The value of a call, or the object that it stands for."""
        t = self._t
        t.count(1)
        try:
            return self._dispatch(node, is_used=is_used)
        except RefusedError as problem:
            raise t.error(node, str(problem), problem.kind) from None

    def _dispatch(self, node: tree.CallExpression, *, is_used: bool) -> Any:
        t, function = self._t, node.function
        if isinstance(function, tree.Member):
            return self._method(node, function)
        if not isinstance(function, tree.Name):
            t.fail(node, "only named functions can be called")
        if function.owner is not None and function.owner.parts[0][0] == "numeric_limits":
            return self._limit(node, function)
        name = function.name
        entity = t.resolve_scope(function) if function.owner is not None else t.frame.scope.find(name)
        if isinstance(entity, Overloads):
            return self._call_overloads(node, entity, function)
        if function.args is not None:
            t.fail(function, f"the preamble has no template {name}<> of {len(function.args)} type(s)")
        if isinstance(entity, (np.dtype, StructType)):
            return self._types.construct(node, entity, node.args)
        if entity is not None and is_variable(entity):
            t.fail(function, f"{name!r} is a variable, and not a function", KernelTypeError)
        return self._call_known(node, name, is_used=is_used)

    def _call_overloads(self, node: tree.CallExpression, entity: Overloads, name: tree.Name) -> Any:
        t = self._t
        candidates, types = entity.functions, NO_TYPES
        kinds: list[Any] = []
        if name.args is not None:
            kinds = [self._types.resolve_argument(each) for each in name.args]
            candidates = [each for each in candidates if len(each.types) >= len(kinds)]
            if not candidates:
                t.fail(name, f"the preamble has no template {name.name}<> of {len(kinds)} type(s)")
        args = [self.argument(each) for each in node.args]
        function = self._choose(name, name.name, candidates, entity.scope, args, kinds)
        types = dict(zip(function.types, kinds, strict=False))
        this = None
        if function.struct is not None and not function.is_static:
            this = entity.this if entity.this is not None else t.frame.this
            if this is None:
                t.fail(name, f"{name.name}() is a function of a struct; call it of one", KernelTypeError)
        return self._inline(node, entity.scope, function, args, types, this)

    def _call_known(self, node: tree.CallExpression, name: str, *, is_used: bool) -> Any:
        """The value of a function of C, C++ or CUDA."""
        t, given = self._t, node.args
        fail = lambda message, kind: t.fail(node.function, message, kind)
        if name in ("nan", "nanf"):  # its text says which bits, and any NaN is as good as any other
            return t.b.const(float("nan"), FLOAT64 if name == "nan" else FLOAT32)
        if name == "assert" and len(given) == 1:
            return t.b.const(False, BOOL)  # as compiled with NDEBUG
        if name == "__ldg" and len(given) == 1:  # a read, by whichever cache
            return t.value(tree.Unary("*", given[0], at=node.at))
        if (vector := VECTORS.get(name.removeprefix("make_"))) is not None and name.startswith("make_"):
            functions.check_arity(name, given, len(vector.members), fail)
            return self.make(node, vector, list(given))
        if (base := functions.find_name(name, functions.PAIRS)) is not None:
            return self._pair(node, name, functions.PAIRS[base])
        if (base := functions.find_name(name, functions.SPLITS)) is not None:
            return self._split(node, name, functions.SPLITS[base], is_single=name != base)
        if name in ATOMICS:
            return self._atomic(node, name, is_used=is_used)
        if any(isinstance(each, tree.Literal) and each.text.startswith('"') for each in given):
            t.fail(node.function, f"unknown function {name!r} of a text")
        args = [t.value_of_number(each) for each in given]
        return functions.call(t.b, name, args, fail)

    def _limit(self, node: tree.CallExpression, name: tree.Name) -> Node:
        t = self._t
        assert name.owner is not None
        args = name.owner.parts[0][1] or ()
        if len(args) != 1 or node.args:
            t.fail(node, f"{name.owner}::{name.name}() takes one type and no argument")
        kind = self._types.resolve_argument(args[0])
        if not isinstance(kind, np.dtype):
            t.fail(node, f"numeric_limits of {kind} are not known; name a type of numbers")
        return functions.limit(t.b, name.name, kind, lambda message, error: t.fail(node, message, error))

    def _split(self, node: tree.CallExpression, name: str, split: functions.Split, *, is_single: bool) -> Node:
        """``frexp(x, &exponent)`` and its like: one part is the value, the other one goes behind the pointer."""
        t, given = self._t, node.args
        fail = lambda message, kind: t.fail(node.function, message, kind)
        functions.check_arity(name, given, split.operands + 1, fail)
        args = [t.value_of_number(each) for each in given[: split.operands]]
        pointer = t.pointer(given[-1])
        operands = functions.real_operands(t.b, name, args, is_single, fail)
        value, other = split.make(t.b, *operands)
        if pointer.dtype != (split.second or value.dtype):  # C++ converts no pointers
            what = f"a pointer to {split.second or value.dtype}, and one to {pointer.dtype} is given"
            t.fail(node, f"{name}() needs {what}", KernelTypeError)
        t.memory.store(t.memory.element(pointer, t.b.const(0, INT64)), other, "*")
        return value

    def _pair(self, node: tree.CallExpression, name: str, make: Callable[..., functions.Parts]) -> Node:
        """``sincos(x, &sine, &cosine)``: the pointers say the type of the operand, as C++ chooses the overload."""
        t, given = self._t, node.args
        functions.check_arity(name, given, 3, lambda *problem: t.fail(node, *problem))
        number = t.value_of_number(given[0])
        pointers = [t.pointer(each) for each in given[1:]]
        dtype = pointers[0].dtype
        if dtype not in (FLOAT32, FLOAT64) or pointers[1].dtype != dtype:
            t.fail(node, f"{name}() needs two pointers to float or to double", KernelTypeError)
        for part, pointer in zip(make(t.b, t.b.cast(number, dtype)), pointers, strict=True):
            t.memory.store(t.memory.element(pointer, t.b.const(0, INT64)), part, "*")
        return t.b.const(False, BOOL)

    def _atomic(self, node: tree.CallExpression, name: str, *, is_used: bool) -> Node:
        """``atomicAdd(&x[k], v)`` and its like; the value before."""
        t, given, kind = self._t, node.args, ATOMICS[name]
        count = 3 if kind == "cas" else 2
        if len(given) != count:
            t.fail(node.function, f"{name}() takes {count} argument(s), {len(given)} were given", KernelTypeError)
        pointer = t.pointer(given[0])
        place = t.memory.element(pointer, t.b.const(0, INT64))
        dtype = pointer.dtype
        if not isinstance(dtype, np.dtype) or dtype.kind not in _ATOMIC_KINDS.get(kind, "iu"):
            t.fail(
                node.function, f"{name}() is not defined for {dtype}; use integers, or floats to add", KernelTypeError
            )
        values = [t.b.cast(t.value_of_number(each), dtype) for each in given[1:]]
        compared = values[0] if kind == "cas" else None
        return t.memory.update(place, kind, values[-1], compared, name, is_used=is_used)

    # --- methods
    def _method(self, node: tree.CallExpression, function: tree.Member) -> Any:
        t, name = self._t, function.name
        owner = function.owner
        at = tree.Name(name, at=function.name_at, width=len(name))
        place = self._owner_of(function)
        kind = None if isinstance(plain(place), (Raw, Own, ShapeOfCall)) else t.type_at(place)
        if isinstance(kind, StructType):
            entity = kind.scope.names.get(name) if kind.scope is not None else None
            if isinstance(entity, Overloads):
                args = [self.argument(each) for each in node.args]
                chosen = self._choose(at, name, entity.functions, entity.scope, args, [])
                this = None if chosen.is_static else place
                return self._inline(node, entity.scope, chosen, args, NO_TYPES, this)
        elif isinstance(kind, np.dtype) and name in ("real", "imag") and len(node.args) == 1:
            return self._set_part(node, place, kind, name)
        elif isinstance(kind, np.dtype) and is_complex(kind) and name in ("real", "imag") and not node.args:
            value = t.memory.load(place)
            return t.b.real(value) if name == "real" else t.b.imag(value)
        elif name == "size" and not node.args and isinstance(owner, tree.Name):
            return self._size(owner, place)
        problem = f"no method .{name}() here; known are _ind.size(), x.size(), z.real(), z.imag()"
        if isinstance(kind, StructType) and kind.definition is not None:
            known = ", ".join(each for each in kind.definition.functions if not each.startswith("operator"))
            problem = f"no method .{name}() here; those of {kind} are {known or 'none'}"
        raise t.error(at, problem)

    def _owner_of(self, function: tree.Member) -> Any:
        """The object whose method is called."""
        t, owner = self._t, function.owner
        if function.is_arrow:
            return t.memory.element(t.pointer(owner), t.b.const(0, INT64))
        if isinstance(owner, tree.Name) and owner.name in ("math", "np", "numpy", "cp", "cupy", "torch"):
            if t.frame.scope.find(owner.name) is None:
                call = f"{function.name}(x)"
                t.fail(owner, f"C has no modules; write {call} in place of {owner.name}.{call}")
        if isinstance(owner, tree.Name):
            entity = t.entity(owner)
            if isinstance(entity, ShapeOfCall):
                return entity
        place, value = t.evaluate(owner)
        return t.memory.temporary(value) if place is None else place

    def _size(self, owner: tree.Name, place: Any) -> Node:
        """``_ind.size()`` and ``x.size()``."""
        t, inner = self._t, plain(place)
        if isinstance(inner, ShapeOfCall):
            return inner.size
        if isinstance(inner, Raw):
            return t.b.length(inner.param)
        if isinstance(inner, Own) or getattr(inner, "param", None) is not None:
            return t.b.size()
        raise t.error(owner, f"{owner.name!r} is a number, which has no size()")

    def _set_part(self, node: tree.CallExpression, place: Any, kind: Any, name: str) -> Node:
        """``z.real(x)`` and ``z.imag(x)``."""
        t = self._t
        if not is_complex(kind):
            t.fail(node, f"{kind} has no parts; declare the variable complex", KernelTypeError)
        part = t.b.cast(t.value_of_number(node.args[0]), part_dtype(kind))
        whole = t.memory.load(place)
        parts = (part, t.b.imag(whole)) if name == "real" else (t.b.real(whole), part)
        owner = node.function.owner
        found: Node = t.memory.store(place, t.b.complex(*parts), getattr(owner, "name", "this"))
        return found

    # --- operators
    def call_operator(self, node: Any, sign: str, args: Sequence[Argument]) -> Any:
        """The result of a preamble's operator; None where no operand is a struct, or there is no such function."""
        name = self.operator(sign)
        if name is None or not any(isinstance(each.kind, StructType) for each in args):
            return None
        t, at = self._t, node
        first = args[0].kind
        if isinstance(first, StructType) and first.scope is not None:
            entity = first.scope.names.get(name)
            if isinstance(entity, Overloads):
                own = [each for each in entity.functions if len(each.params) == len(args) - 1]
                if own:
                    chosen = self._choose(at, name, own, entity.scope, args[1:], [])
                    this = args[0].place if args[0].place is not None else t.memory.temporary(args[0].value)
                    return self._inline(node, entity.scope, chosen, args[1:], NO_TYPES, this)
        entity = t.globals.names.get(name)
        if not isinstance(entity, Overloads):
            return None
        chosen = self._choose(at, name, entity.functions, entity.scope, args, [])
        return self._inline(node, entity.scope, chosen, args, NO_TYPES, None)

    # --- structs
    def has_constructor(self, kind: StructType) -> bool:
        """Whether a struct, or one within it, is made by constructors."""
        if kind.definition is not None and kind.definition.constructors:
            return True
        return any(
            self.has_constructor(inner)
            for inner in (each.element if isinstance(each, ArrayType) else each for _, each in kind.members)
            if isinstance(inner, StructType)
        )

    def make(self, node: Any, kind: StructType, given: list[Any], *, is_implicit: bool = False) -> CompoundValue:
        """A struct from one of its own type, by a constructor, or from its members' values."""
        t = self._t
        constructors = kind.definition.constructors if kind.definition is not None else []
        if not constructors:
            if is_implicit:
                value = given[0]
                what = value.dtype if not isinstance(value, Pointer) else "a pointer"
                t.fail(node, f"{what} cannot become {kind}; it must be {kind}: set its members", KernelTypeError)
            return self._aggregate(node, kind, given)
        if any(isinstance(each, tree.Listed) for each in given):
            t.fail(node, f"a constructor of {kind} takes no list; name the type of the value")
        args = [self.argument(each) for each in given]
        if len(args) == 1 and args[0].kind is kind:
            found: CompoundValue = args[0].value
            return found
        chosen = self._best(constructors, kind.scope, args, [])
        if len(chosen) != 1:
            count = f"{kind} has {'more than one' if chosen else 'no'} constructor for these {len(args)} values"
            t.fail(node, f"{count}; cast them to the types of a constructor's parameters", KernelTypeError)
        record = t.memory.new("a value", kind)
        self._inline(node, kind.scope, chosen[0], args, NO_TYPES, record)
        return t.memory.load(record)  # type: ignore[no-any-return]

    def _aggregate(self, node: Any, kind: StructType, given: list[Any]) -> CompoundValue:
        """A struct from its members' expressions, or from one of its own type; what is missing is 0."""
        t = self._t
        if len(given) == 1 and not isinstance(given[0], tree.Listed):
            value = given[0] if not isinstance(given[0], tree.Tree) else t.value(given[0])
            if isinstance(value, CompoundValue):
                if value.dtype is kind:
                    return value
                if value.dtype is not kind.members[0][1]:
                    t.fail(node, f"{value.dtype} cannot become {kind}; set its members", KernelTypeError)
            given = [value]
        waiting = list(reversed(given))
        found = self._take(node, kind, waiting)
        if waiting:
            t.fail(node, f"{kind} has {len(kind.members)} member(s), {len(given)} are given", KernelTypeError)
        return found

    def _take(self, node: Any, kind: StructType, waiting: list[Any]) -> CompoundValue:
        """A struct from the next of some values, of which braces may be left out."""
        return CompoundValue(kind, tuple(self._part(node, each, waiting) for each in kind.parts))

    def _part(self, node: Any, kind: Any, waiting: list[Any]) -> Any:
        t = self._t
        if not waiting:
            return self._types.zero(node, kind)
        if isinstance(waiting[-1], tree.Listed):
            listed = waiting.pop()
            return self._types.construct(listed, kind, listed.items)
        if isinstance(waiting[-1], tree.Tree):
            waiting[-1] = t.value(waiting[-1])
        if isinstance(kind, ArrayType):
            return CompoundValue(kind, tuple(self._part(node, each, waiting) for each in kind.parts))
        if isinstance(kind, StructType):
            value = waiting[-1]
            if isinstance(value, CompoundValue) and value.dtype is kind:
                return waiting.pop()
            if self.has_constructor(kind):
                return self.make(node, kind, [waiting.pop()], is_implicit=True)
            if isinstance(value, CompoundValue):
                t.fail(node, f"a member is a {kind}, and {value.dtype} is given", KernelTypeError)
            return self._take(node, kind, waiting)
        value = waiting.pop()
        if not isinstance(value, Node):
            t.fail(node, f"a member is {kind}, and a struct or a pointer is given", KernelTypeError)
        return t.b.cast(value, kind)

    # --- the choice among functions of one name
    def _choose(
        self, node: Any, name: str, candidates: list[tree.FunctionTree], scope: Scope, args: Sequence[Argument],
        kinds: list[Any],
    ) -> tree.FunctionTree:  # fmt: skip
        """The function that a call means; ``kinds`` are the types that it names."""
        if len(candidates) == 1:
            return candidates[0]
        found = self._best(candidates, scope, args, kinds)
        if len(found) != 1:
            many = "more than one function" if found else "no function"
            self._t.fail(node, f"{many} {name}() for these arguments; cast them to its types", KernelTypeError)
        return found[0]

    def _best(
        self, candidates: Sequence[tree.FunctionTree], scope: Scope, args: Sequence[Argument], kinds: list[Any]
    ) -> list[tree.FunctionTree]:
        """The function that fits the arguments best; none where none fits, several where C++ refuses to choose."""
        ranks: dict[int, tuple[list[int], int]] = {}
        for number, each in enumerate(candidates):
            bound = dict(zip(each.types, kinds, strict=False))
            found = self._ranks(each, scope, args, bound)
            if found is not None:  # a function fits better than a template, and complex<S> better than S
                ranks[number] = (found, _freedom(each, set(each.types) - bound.keys()))
        best = [
            number
            for number, (own, freedom) in ranks.items()
            if all(
                all(one <= other for one, other in zip(own, others, strict=True))
                and (own != others or freedom <= other_freedom)
                for others, other_freedom in ranks.values()
            )
        ]
        return [candidates[number] for number in best or ranks]

    def _ranks(
        self, function: tree.FunctionTree, scope: Scope, args: Sequence[Argument], bound: Mapping[str, Any]
    ) -> list[int] | None:
        """How well each argument fits; None where one does not."""
        required = sum(each.default is None for each in function.params)
        if not required <= len(args) <= len(function.params):
            return None
        self._t.count(1 + len(args))
        inner = Scope(scope)
        inner.names.update(bound)
        open_types = set(function.types) - bound.keys()
        found = []
        for param, each in zip(function.params, args, strict=False):
            rank = self._rank(function, inner, param.type, each, open_types)
            if rank is None:
                return None
            found.append(rank)
        return found

    def _rank(
        self,
        function: tree.FunctionTree,
        scope: Scope,
        declared: tree.DeclaredType,
        given: Argument,
        open_types: set[str],
    ) -> int | None:
        kind = given.kind
        is_pointer = bool(declared.pointers or declared.extents)
        if is_pointer != isinstance(kind, PointerType):
            return None
        inner = kind.element if isinstance(kind, PointerType) else kind
        if declared.is_reference and not declared.is_const and given.place is None:
            return None
        first, args = declared.base.parts[0]
        if len(declared.base.parts) == 1 and args is None and first in open_types:
            return _SAME
        if args is not None and any(_names_of(each) & open_types for each in args):
            base = inner.base if isinstance(inner, StructType) else inner.name[:7] if is_complex(inner) else ""
            return _SAME if base == first else None
        t = self._t
        with t.inside(scope, function.source):
            own = self._types.resolve_name(declared.base)
        if own == inner:
            return _SAME
        if is_pointer or not isinstance(own, np.dtype) or not isinstance(inner, np.dtype):
            return None
        if declared.is_reference and not declared.is_const:
            return None
        is_promoted = own == promote_c(inner) or (inner == FLOAT32 and own == FLOAT64)
        return _PROMOTED if is_promoted else _CONVERTED

    def _deduce(
        self, node: Any, function: tree.FunctionTree, args: Sequence[Argument], types: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The types of a template, by those of the arguments."""
        found: dict[str, Any] = {**types}
        for param, each in zip(function.params, args, strict=False):
            kind = each.kind
            if isinstance(kind, PointerType):
                if not (param.type.pointers or param.type.extents):
                    continue
                kind = kind.element
            self._match(node, function, param.type.base, kind, found, types)
        if missing := set(function.types) - found.keys():
            self._t.fail(node, f"no argument says what {min(missing)} of the template is", KernelTypeError)
        return found

    def _match(
        self, node: Any, function: tree.FunctionTree, name: tree.TypeName, kind: Any, found: dict[str, Any],
        named: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """Find the types of a template in one parameter's, which a type is given for."""
        first, args = name.parts[0]
        if len(name.parts) > 1 or first in named:
            return
        if args is None:
            if first in function.types and found.setdefault(first, kind) != kind:
                problem = f"{first} of the template is {found[first]} by one argument and {kind} by another"
                self._t.fail(node, f"{problem}; cast one", KernelTypeError)
            return
        if first == "complex" and len(args) == 1 and isinstance(kind, np.dtype):
            if not is_complex(kind):
                self._t.fail(node, f"a complex number is wanted, and {kind} is given", KernelTypeError)
            self._match_inner(node, function, args[0], part_dtype(kind), found, named)
        elif isinstance(kind, StructType) and (kind.base, len(kind.args)) == (first, len(args)):
            for each, given in zip(args, kind.args, strict=True):
                self._match_inner(node, function, each, given, found, named)

    def _match_inner(
        self,
        node: Any,
        function: tree.FunctionTree,
        given: Any,
        kind: Any,
        found: dict[str, Any],
        named: Mapping[str, Any],
    ) -> None:
        if isinstance(given, tree.DeclaredType):
            self._match(node, function, given.base, kind, found, named)

    # --- inlining
    def _inline(
        self, node: Any, scope: Scope, function: tree.FunctionTree, args: Sequence[Argument], types: Mapping[str, Any],
        this: Any,
    ) -> Any:  # fmt: skip
        """The value of a call, or the object that it stands for."""
        t = self._t
        if t.frame.depth >= MOST_DEPTH:
            t.fail(node, f"calls are nested more than {MOST_DEPTH} deep; a function must not call itself")
        required = sum(each.default is None for each in function.params)
        if not required <= len(args) <= len(function.params):
            name = function.name
            self._fail(
                function, f"{name}() takes {len(function.params)} argument(s), {len(args)} were given", KernelTypeError
            )
        found = self._deduce(node, function, args, types) if function.types else dict(types)
        inner = Scope(scope)
        inner.names.update(found)
        returns = self._return_type(function, inner)
        is_reference = function.returns is not None and function.returns.is_reference
        is_pure = this is None and not is_reference and not isinstance(returns, PointerType) and all(
            not each.type.pointers and not each.type.extents and (not each.type.is_reference or each.type.is_const)
            for each in function.params
        )  # fmt: skip
        if is_pure:
            return self._pure(node, inner, function, args, found, returns)
        names = {
            param.name: self._bind(node, inner, function, param, each)
            for param, each in zip(function.params, args, strict=False)
        }
        return self._run(node, inner, function, names, returns, this, is_apart=False)

    def _pure(
        self, node: Any, scope: Scope, function: tree.FunctionTree, args: Sequence[Argument], types: dict[str, Any],
        returns: Any,
    ) -> Any:  # fmt: skip
        """The value of a function that has no effect but its result."""
        t = self._t
        values = [
            self._as_value(node, scope, function, param, each)
            for param, each in zip(function.params, args, strict=False)
        ]
        is_apart = not self._has_loops  # a loop must not run where it is not reached
        numbers = [leaf for each in values for leaf in leaves(each)]
        path = None if is_apart else t.memory.path
        key = (id(function), id(path), *types.values(), *(each.dtype for each in values), *map(id, numbers))
        if key not in self._results:
            names = {}
            mark = len(t.memory.created)
            for param, value in zip(function.params, values, strict=False):
                if param.name:
                    names[param.name] = t.memory.new(param.name, value.dtype)
                    t.memory.store(names[param.name], value, param.name)
            result = self._run(node, scope, function, names, returns, None, is_apart=is_apart)
            t.memory.forget(mark)
            self._results[key] = result, (path, numbers)  # which live on, and keep their identities
        return self._results[key][0]

    def _as_value(
        self, node: Any, scope: Scope, function: tree.FunctionTree, param: tree.Parameter, given: Argument
    ) -> Any:
        t = self._t
        with t.inside(scope, function.source):
            kind = self._types.resolve(param.type)
        value = given.value
        if isinstance(value, CompoundValue) and value.dtype is kind:
            return value
        if isinstance(value, Node) and isinstance(kind, np.dtype):
            return t.b.cast(value, kind)
        what = "a pointer" if isinstance(value, Pointer) else f"a {value.dtype}"
        if (
            isinstance(kind, StructType)
            and isinstance(value, Node)
            and kind.definition is not None
            and kind.definition.constructors
        ):
            return self.make(node, kind, [value], is_implicit=True)
        raise t.error(node, f"argument {param.name!r} is {what}, and must be {kind}", KernelTypeError)

    def _bind(
        self, node: Any, scope: Scope, function: tree.FunctionTree, param: tree.Parameter, given: Argument
    ) -> Any:
        """The meaning of a parameter's name."""
        t, declared = self._t, param.type
        with t.inside(scope, function.source):
            extents = tuple(None if each is None else self._types.extent(declared, each) for each in declared.extents)
            kind = self._types.resolve(
                tree.DeclaredType(declared.base, declared.pointers, is_const=declared.is_const, at=declared.at)
            )
        if extents and (declared.is_reference or len(extents) > 1):
            place = plain(given.place)
            wanted = ArrayType(kind, tuple(each or 0 for each in extents))
            found = getattr(place, "dtype", None)
            if not declared.is_reference and isinstance(found, ArrayType):  # a pointer to rows, of any number
                wanted = ArrayType(kind, (found.extents[0], *wanted.extents[1:]))
            if place is None or found != wanted:
                t.fail(node, f"argument {param.name!r} must be an array of the declared length", KernelTypeError)
            return ReadOnly(given.place) if declared.is_const else given.place
        if declared.pointers or extents:
            value = given.value
            if not isinstance(value, Pointer):
                t.fail(
                    node,
                    f"argument {param.name!r} is {given.kind}, and must be a pointer; write &x, &x[k] or an array",
                    KernelTypeError,
                )
            pointer = kind if isinstance(kind, PointerType) else PointerType(kind, declared.is_const)
            self._types.check_pointer(node, pointer, value)
            is_const = value.is_const or pointer.is_const
            return t.memory.pointer_variable(param.name, Pointer(value.base, value.index, value.dtype, is_const))
        if not declared.is_reference:
            value = self._as_value(node, scope, function, param, given)
            found = t.memory.new(param.name, value.dtype)
            t.memory.store(found, value, param.name)
            return found
        if given.place is not None and given.kind == kind:
            return ReadOnly(given.place) if declared.is_const else given.place
        if not declared.is_const:
            what = f"a reference to {kind} cannot lead to {given.kind}; convert"
            if given.place is None:
                what = f"reference {param.name!r} may change what it leads to, and is given a value; pass a variable"
            t.fail(node, what, KernelTypeError)
        return ReadOnly(t.memory.temporary(self._as_value(node, scope, function, param, given)))

    def _return_type(self, function: tree.FunctionTree, scope: Scope) -> Any:
        """The type that a function returns; None of ``void`` and of constructors."""
        t, declared = self._t, function.returns
        if declared is None or (declared.base.name == "void" and not declared.pointers):
            return None
        if declared.base.name == "auto":
            self._fail(function, f"{function.name}() returns auto; name the type")
        with t.inside(scope, function.source):
            return self._types.resolve(declared)

    def _fail(self, function: tree.FunctionTree, message: str, kind: type[Exception] | None = None) -> Any:
        kinds: dict[str, Any] = {"kind": kind} if kind else {}
        raise function.source.error(message, function.at, function.width, **kinds)

    def _run(
        self, node: Any, scope: Scope, function: tree.FunctionTree, names: dict[str, Any], returns: Any, this: Any,
        *, is_apart: bool,
    ) -> Any:  # fmt: skip
        """Translate a function's body; its value, or the object that it stands for."""
        t, memory = self._t, self._t.memory
        outside, path, jumps = t.frame, memory.path, memory.state.jumps
        mark = len(memory.created)
        params = Scope(scope)
        if this is not None:
            owner = plain(this)
            kind = t.type_at(this)
            params.names.update({name: memory.member(this, name) for name, _ in kind.members})
            assert isinstance(owner, (CompoundObject, Either))
        own = Scope(params)
        own.names.update({name: each for name, each in names.items() if name})
        frame = Frame(function.source, own, Jump("return"), is_function=True, this=this, depth=outside.depth + 1)
        is_reference = function.returns is not None and function.returns.is_reference
        if is_reference or isinstance(returns, PointerType):
            frame.references = []
        else:
            frame.returns = returns
            frame.result = None if returns is None else memory.new("the result", returns)
        frame.is_pointer = isinstance(returns, PointerType) and not is_reference
        t.frame = frame
        memory.state.jumps = {}
        if is_apart:
            memory.path = None
        for param in function.params[len(names) :] if function.params else ():
            self._default(function, param)
        if returns is None and function.returns is None and this is not None:
            self._set_members(node, function, this)
        frame.scope = Scope(own)
        t.statements(function.body.statements)
        is_whole = memory.jump_condition() is memory.true
        found: Any = t.b.const(False, BOOL)
        if returns is not None:
            if not is_whole:
                t.fail(function, "a path through the function ends without return")
            found = self._outcome(frame)
        t.frame, memory.path, memory.state.jumps = outside, path, jumps
        if frame.references is None:
            memory.forget(mark)
        return found

    def _default(self, function: tree.FunctionTree, param: tree.Parameter) -> None:
        """Declare a parameter that the call leaves out."""
        t = self._t
        if param.type.is_reference and not param.type.is_const:
            t.fail(param, f"{param.name!r} needs a variable, and has a default value")
        kind = self._types.resolve(param.type)
        found = t.memory.new(param.name, kind)
        t.memory.store(found, self._types.convert(param.default, kind), param.name)
        t.frame.scope.names[param.name] = found

    def _outcome(self, frame: Frame) -> Any:
        """The result of a function."""
        t, memory = self._t, self._t.memory
        if frame.references is None:
            return memory.load(frame.result, is_whole=True)
        (_, found), *others = reversed(frame.references)
        if not others:
            return found
        if frame.is_pointer:
            for condition, each in others:
                assert condition is not None
                found = memory.select(condition, each, found)
            return found
        choices: list[tuple[Node, Any]] = []
        rest: Node | None = None
        for condition, each in frame.references[:-1]:
            assert condition is not None
            taken = condition if rest is None else t.b.op("and", rest, condition)
            choices.append((taken, each))
            no = t.b.op("not", condition)
            rest = no if rest is None else t.b.op("and", rest, no)
        assert rest is not None
        return Either((*choices, (rest, found)), t.type_at(found))

    def _set_members(self, node: Any, function: tree.FunctionTree, this: Any) -> None:
        """The members' values before a constructor's body, in the order of the members."""
        t, memory = self._t, self._t.memory
        kind: StructType = t.type_at(this)
        given = dict(function.sets)
        if kind.definition.name in given:  # another constructor makes it
            if len(given) != 1:
                t.fail(function, f"a constructor of {kind} that calls another one sets no member itself")
            memory.store(this, self.make(function, kind, list(given[kind.definition.name].items)))
            return
        for name, inner in kind.members:
            place = memory.member(this, name)
            if name in given:
                memory.store(place, self._types.construct(given[name], inner, given[name].items), name)
            elif isinstance(inner, StructType) and self.has_constructor(inner):
                memory.store(place, self.make(function, inner, []), name)


def _names_of(given: Any) -> set[str]:
    """The names in an argument of a template."""
    if isinstance(given, tree.Name):
        return {given.name}
    if not isinstance(given, tree.DeclaredType):
        return set()
    found = set()
    for name, args in given.base.parts:
        found.add(name)
        for each in args or ():
            found |= _names_of(each)
    return found


def _freedom(function: tree.FunctionTree, open_types: set[str]) -> int:
    """0 for a plain function; else 1, and one more for each parameter that may be anything."""
    names = [each.type.base.parts[0][0] for each in function.params if each.type.base.parts[0][1] is None]
    return 1 + sum(name in open_types for name in names) if open_types else 0
