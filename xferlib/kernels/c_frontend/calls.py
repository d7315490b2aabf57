"""Calls: functions, methods, operators, constructors and templates of a preamble, and CUDA's functions that write.

A function is inlined at each call, so that it means the same on every backend: its parameters become names for the
arguments, a reference for the argument's object itself. Of several functions of one name the arguments choose, as C++
has it; the types of a template follow from them, or are named by the call. A function whose parameters are values has
no effect but its result, which is kept, so that a further call with the same values is free.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from xferlib._core.dtypes import small_float
from xferlib.errors import KernelSyntaxError, KernelTypeError
from xferlib.kernels.c_frontend import functions, tree
from xferlib.kernels.c_frontend.memory import RefusedError
from xferlib.kernels.c_frontend.scope import (
    VECTORS,
    ArrayType,
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
        self.translator = translator
        self.types = types
        self._names: set[str] = set()
        """Of all functions of structs and of all operators."""
        self.results: dict[tuple[Any, ...], Any] = {}
        self.has_loops = False

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
        self.has_loops = self.has_loops or any(isinstance(each, tree.Loop) for each in tree.walk(function.body))

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
        entity = self.translator.frame.scope.find(name)
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
        t = self.translator
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
        t = self.translator
        t.count(1)
        try:
            return self._dispatch(node, is_used=is_used)
        except RefusedError as problem:
            raise t.error(node, str(problem), problem.kind) from None

    def _dispatch(self, node: tree.CallExpression, *, is_used: bool) -> Any:
        t, function = self.translator, node.function
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
            return self.types.construct(node, entity, node.args)
        if entity is not None and is_variable(entity):
            t.fail(function, f"{name!r} is a variable, and not a function", KernelTypeError)
        return self._call_known(node, name, is_used=is_used)

    def _call_overloads(self, node: tree.CallExpression, entity: Overloads, name: tree.Name) -> Any:
        t = self.translator
        candidates = entity.functions
        kinds: list[Any] = []
        if name.args is not None:
            kinds = [self.types.resolve_argument(each) for each in name.args]
            candidates = [each for each in candidates if len(each.types) >= len(kinds)]
            if not candidates:
                t.fail(name, f"the preamble has no template {name.name}<> of {len(kinds)} type(s)")
        args = [self.argument(each) for each in node.args]
        chosen = self._choose(node, name, entity, args, candidates, kinds)
        function, this = chosen.function, None
        if function.struct is not None and not function.is_static:
            this = entity.this if entity.this is not None else t.frame.this
            if this is None:
                t.fail(name, f"{name.name}() is a function of a struct; call it of one", KernelTypeError)
        return chosen.run(this)

    def _call_known(self, node: tree.CallExpression, name: str, *, is_used: bool) -> Any:
        """The value of a function of C, C++ or CUDA."""
        t, given = self.translator, node.args
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
        t = self.translator
        assert name.owner is not None
        args = name.owner.parts[0][1] or ()
        if len(args) != 1 or node.args:
            t.fail(node, f"{name.owner}::{name.name}() takes one type and no argument")
        kind = self.types.resolve_argument(args[0])
        if not isinstance(kind, np.dtype):
            t.fail(node, f"numeric_limits of {kind} are not known; name a type of numbers")
        return functions.limit(t.b, name.name, kind, lambda message, error: t.fail(node, message, error))

    def _split(self, node: tree.CallExpression, name: str, split: functions.Split, *, is_single: bool) -> Node:
        """``frexp(x, &exponent)`` and its like: one part is the value, the other one goes behind the pointer."""
        t, given = self.translator, node.args
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
        t, given = self.translator, node.args
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
        t, given, kind = self.translator, node.args, ATOMICS[name]
        count = 3 if kind == "cas" else 2
        if len(given) != count:
            t.fail(node.function, f"{name}() takes {count} argument(s), {len(given)} were given", KernelTypeError)
        pointer = t.pointer(given[0])
        place = t.memory.element(pointer, t.b.const(0, INT64))
        dtype = pointer.dtype
        if not isinstance(dtype, np.dtype) or dtype.kind not in _ATOMIC_KINDS.get(kind, "iu") or small_float(dtype):
            t.fail(
                node.function,
                f"{name}() is not defined for {dtype}; use integers, or NumPy's floats to add",
                KernelTypeError,
            )
        values = [t.b.cast(t.value_of_number(each), dtype) for each in given[1:]]
        compared = values[0] if kind == "cas" else None
        return t.memory.update(place, kind, values[-1], compared, name, is_used=is_used)

    # --- methods
    def _method(self, node: tree.CallExpression, function: tree.Member) -> Any:
        t, name = self.translator, function.name
        owner = function.owner
        at = tree.Name(name, at=function.name_at, width=len(name))
        place = self._owner_of(function)
        kind = None if isinstance(plain(place), (Raw, Own, ShapeOfCall)) else t.type_at(place)
        if isinstance(kind, StructType):
            entity = kind.scope.names.get(name) if kind.scope is not None else None
            if isinstance(entity, Overloads):
                args = [self.argument(each) for each in node.args]
                chosen = self._choose(node, at, entity, args, entity.functions)
                return chosen.run(None if chosen.function.is_static else place)
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
        t, owner = self.translator, function.owner
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
        t, inner = self.translator, plain(place)
        if isinstance(inner, ShapeOfCall):
            return inner.size
        if isinstance(inner, Raw):
            return t.b.length(inner.param)
        if isinstance(inner, Own) or getattr(inner, "param", None) is not None:
            return t.b.size()
        raise t.error(owner, f"{owner.name!r} is a number, which has no size()")

    def _set_part(self, node: tree.CallExpression, place: Any, kind: Any, name: str) -> Node:
        """``z.real(x)`` and ``z.imag(x)``."""
        t = self.translator
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
        t, first = self.translator, args[0].kind
        if isinstance(first, StructType) and first.scope is not None:
            entity = first.scope.names.get(name)
            if isinstance(entity, Overloads):
                own = [each for each in entity.functions if len(each.params) == len(args) - 1]
                if own:
                    chosen = self._choose(node, node, entity, args[1:], own)
                    return chosen.run(args[0].place if args[0].place is not None else t.memory.temporary(args[0].value))
        entity = t.globals.names.get(name)
        if not isinstance(entity, Overloads):
            return None
        return self._choose(node, node, entity, args, entity.functions).run()

    # --- structs
    def has_constructor(self, kind: StructType) -> bool:
        """Whether a struct, or one within it, is made by constructors."""
        return bool(_constructors(kind)) or any(
            self.has_constructor(inner)
            for inner in (each.element if isinstance(each, ArrayType) else each for _, each in kind.members)
            if isinstance(inner, StructType)
        )

    def make(self, node: Any, kind: StructType, given: list[Any], *, is_implicit: bool = False) -> CompoundValue:
        """A struct from one of its own type, by a constructor, or from its members' values."""
        t = self.translator
        if not _constructors(kind):
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
        chosen = _best(self._list_calls(node, _constructors(kind), kind.scope, args))
        if len(chosen) != 1:
            count = f"{kind} has {'more than one' if chosen else 'no'} constructor for these {len(args)} values"
            t.fail(node, f"{count}; cast them to the types of a constructor's parameters", KernelTypeError)
        record = t.memory.new("a value", kind)
        chosen[0].run(record)
        return t.memory.load(record)  # type: ignore[no-any-return]

    def _aggregate(self, node: Any, kind: StructType, given: list[Any]) -> CompoundValue:
        """A struct from its members' expressions, or from one of its own type; what is missing is 0."""
        t = self.translator
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
        t = self.translator
        if not waiting:
            return self.types.zero(node, kind)
        if isinstance(waiting[-1], tree.Listed):
            listed = waiting.pop()
            return self.types.construct(listed, kind, listed.items)
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
        self, node: Any, at: Any, entity: Overloads, args: Sequence[Argument],
        candidates: list[tree.FunctionTree], kinds: Sequence[Any] = (),
    ) -> _Call:  # fmt: skip
        """The function that a call means; ``kinds`` are the types that it names."""
        found = self._list_calls(node, candidates, entity.scope, args, kinds)
        if len(found) > 1:
            found = _best(found)
            if len(found) != 1:
                many = "more than one function" if found else "no function"
                problem = f"{many} {candidates[0].name}() for these arguments; cast them to its types"
                self.translator.fail(at, problem, KernelTypeError)
        return found[0]

    def _list_calls(
        self, node: Any, candidates: Sequence[tree.FunctionTree], scope: Scope, args: Sequence[Argument],
        kinds: Sequence[Any] = (),
    ) -> list[_Call]:  # fmt: skip
        return [_Call(self, node, each, scope, args, dict(zip(each.types, kinds, strict=False))) for each in candidates]


def _best(calls: Sequence[_Call]) -> list[_Call]:
    """The call that fits the arguments best; none where none fits, several where C++ refuses to choose."""
    ranks = [(each, found, each.freedom()) for each in calls if (found := each.rank()) is not None]
    best = [
        each
        for each, own, freedom in ranks  # a function fits better than a template, and complex<S> better than S
        if all(
            all(one <= other for one, other in zip(own, others, strict=True))
            and (own != others or freedom <= other_freedom)
            for _, others, other_freedom in ranks
        )
    ]
    return best or [each for each, _, _ in ranks]


class _Call:
    """A call of one function with some arguments: how well they fit, and the body in the place of the call."""

    def __init__(
        self, calls: Calls, node: Any, function: tree.FunctionTree, scope: Scope, args: Sequence[Argument],
        bound: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """``bound`` are the types of a template that the call names."""
        self._calls = calls
        self._t = calls.translator
        self._types = calls.types
        self._node = node
        self.function = function
        self._args = args
        self._bound = bound
        self._open = set(function.types) - bound.keys()
        self._scope = Scope(scope)
        self._scope.names.update(bound)

    def _pairs(self) -> Iterator[tuple[tree.Parameter, Argument]]:
        return zip(self.function.params, self._args, strict=False)

    def _fail(self, message: str, kind: type[Exception] | None = KernelTypeError) -> NoReturn:
        self._t.fail(self._node, message, kind)

    def _fail_within(self, message: str, kind: type[Exception] = KernelSyntaxError) -> NoReturn:
        """Point an error at the function."""
        function = self.function
        raise function.source.error(message, function.at, function.width, kind)

    def has_fitting_count(self) -> bool:
        required = sum(each.default is None for each in self.function.params)
        return required <= len(self._args) <= len(self.function.params)

    # --- how well the arguments fit
    def rank(self) -> list[int] | None:
        """How well each argument fits; None where one does not."""
        if not self.has_fitting_count():
            return None
        self._t.count(1 + len(self._args))
        found = []
        for param, each in self._pairs():
            rank = self._rank(param.type, each)
            if rank is None:
                return None
            found.append(rank)
        return found

    def _rank(self, declared: tree.DeclaredType, given: Argument) -> int | None:
        kind = given.kind
        is_pointer = bool(declared.pointers or declared.extents)
        if is_pointer != isinstance(kind, PointerType):
            return None
        inner = kind.element if isinstance(kind, PointerType) else kind
        is_changed = declared.is_reference and not declared.is_const
        if is_changed and given.place is None:
            return None
        first, args = declared.base.parts[0]
        if len(declared.base.parts) == 1 and args is None and first in self._open:
            return _SAME
        if args is not None and any(_names_of(each) & self._open for each in args):
            base = inner.base if isinstance(inner, StructType) else inner.name[:7] if is_complex(inner) else ""
            return _SAME if base == first else None
        with self._t.inside(self._scope, self.function.source):
            own = self._types.resolve_name(declared.base)
        if own == inner:
            return _SAME
        if is_pointer or is_changed or not isinstance(own, np.dtype) or not isinstance(inner, np.dtype):
            return None
        is_promoted = own == promote_c(inner) or (inner == FLOAT32 and own == FLOAT64)
        return _PROMOTED if is_promoted else _CONVERTED

    def freedom(self) -> int:
        """0 for a plain function; else 1, and one more for each parameter that may be anything."""
        parts = [each.type.base.parts[0] for each in self.function.params]
        return 1 + sum(args is None and name in self._open for name, args in parts) if self._open else 0

    def _deduce(self) -> dict[str, Any]:
        """The types of a template, by those of the arguments."""
        found = dict(self._bound)
        for param, each in self._pairs():
            kind = each.kind
            if isinstance(kind, PointerType):
                if not (param.type.pointers or param.type.extents):
                    continue
                kind = kind.element
            self._match(param.type.base, kind, found)
        if missing := set(self.function.types) - found.keys():
            self._fail(f"no argument says what {min(missing)} of the template is")
        return found

    def _match(self, name: tree.TypeName, kind: Any, found: dict[str, Any]) -> None:
        """Find the types of a template in one parameter's, which a type is given for."""
        first, args = name.parts[0]
        if len(name.parts) > 1 or first in self._bound:
            return
        inner: Sequence[Any] = ()
        if args is None:
            if first in self.function.types and found.setdefault(first, kind) != kind:
                problem = f"{first} of the template is {found[first]} by one argument and {kind} by another"
                self._fail(f"{problem}; cast one")
        elif first == "complex" and len(args) == 1 and isinstance(kind, np.dtype):
            if not is_complex(kind):
                self._fail(f"a complex number is wanted, and {kind} is given")
            inner = [part_dtype(kind)]
        elif isinstance(kind, StructType) and (kind.base, len(kind.args)) == (first, len(args)):
            inner = kind.args
        for each, given in zip(args or (), inner, strict=False):
            if isinstance(each, tree.DeclaredType):
                self._match(each.base, given, found)

    # --- inlining
    def run(self, this: Any = None) -> Any:
        """The value of the call, or the object that it stands for."""
        t, function = self._t, self.function
        if t.frame.depth >= MOST_DEPTH:
            self._fail(f"calls are nested more than {MOST_DEPTH} deep; a function must not call itself", None)
        if not self.has_fitting_count():
            count = f"{len(function.params)} argument(s), {len(self._args)} were given"
            self._fail_within(f"{function.name}() takes {count}", KernelTypeError)
        types = self._deduce() if function.types else self._bound
        self._scope.names.update(types)
        returns = self._return_type()
        is_reference = function.returns is not None and function.returns.is_reference
        is_pure = this is None and not is_reference and not isinstance(returns, PointerType) and all(
            not each.type.pointers and not each.type.extents and (not each.type.is_reference or each.type.is_const)
            for each in function.params
        )  # fmt: skip
        if is_pure:
            return self._pure(types, returns)
        names = {param.name: self._bind(param, each) for param, each in self._pairs()}
        return self._inline(names, returns, this, is_apart=False)

    def _pure(self, types: Mapping[str, Any], returns: Any) -> Any:
        """The value of a function that has no effect but its result."""
        memory, results = self._t.memory, self._calls.results
        values = [self._value(param, each) for param, each in self._pairs()]
        is_apart = not self._calls.has_loops  # a loop must not run where it is not reached
        numbers = [leaf for each in values for leaf in leaves(each)]
        path = None if is_apart else memory.path
        key = (id(self.function), id(path), *types.values(), *(each.dtype for each in values), *map(id, numbers))
        if key not in results:
            mark = len(memory.created)
            pairs = zip(self.function.params, values, strict=False)
            names = {param.name: self._declare(param.name, value) for param, value in pairs if param.name}
            result = self._inline(names, returns, None, is_apart=is_apart)
            memory.forget(mark)
            results[key] = result, (path, numbers)  # which live on, and keep their identities
        return results[key][0]

    def _declare(self, name: str, value: Any) -> Any:
        """A new variable."""
        found = self._t.memory.new(name, value.dtype)
        self._t.memory.store(found, value, name)
        return found

    def _value(self, param: tree.Parameter, given: Argument) -> Any:
        """The value of an argument, converted to the parameter's type."""
        with self._t.inside(self._scope, self.function.source):
            kind = self._types.resolve(param.type)
        value = given.value
        if isinstance(value, CompoundValue) and value.dtype is kind:
            return value
        if isinstance(value, Node) and isinstance(kind, np.dtype):
            return self._t.b.cast(value, kind)
        if isinstance(value, Node) and isinstance(kind, StructType) and _constructors(kind):
            return self._calls.make(self._node, kind, [value], is_implicit=True)
        what = "a pointer" if isinstance(value, Pointer) else f"a {value.dtype}"
        raise self._t.error(self._node, f"argument {param.name!r} is {what}, and must be {kind}", KernelTypeError)

    def _bind(self, param: tree.Parameter, given: Argument) -> Any:
        """The meaning of a parameter's name."""
        t, declared = self._t, param.type
        with t.inside(self._scope, self.function.source):
            extents = tuple(None if each is None else self._types.extent(declared, each) for each in declared.extents)
            kind = self._types.resolve(
                tree.DeclaredType(declared.base, declared.pointers, is_const=declared.is_const, at=declared.at)
            )
        is_array = bool(extents) and (declared.is_reference or len(extents) > 1)
        if is_array:
            found = getattr(plain(given.place), "dtype", None)
            wanted = ArrayType(kind, tuple(each or 0 for each in extents))
            if not declared.is_reference and isinstance(found, ArrayType):  # a pointer to rows, of any number
                wanted = ArrayType(kind, (found.extents[0], *wanted.extents[1:]))
            if given.place is None or found != wanted:
                self._fail(f"argument {param.name!r} must be an array of the declared length")
        elif declared.pointers or extents:
            value = given.value
            if not isinstance(value, Pointer):
                what = f"argument {param.name!r} is {given.kind}, and must be a pointer"
                self._fail(f"{what}; write &x, &x[k] or an array")
            pointer = kind if isinstance(kind, PointerType) else PointerType(kind, declared.is_const)
            self._types.check_pointer(self._node, pointer, value)
            is_const = value.is_const or pointer.is_const
            return t.memory.pointer_variable(param.name, Pointer(value.base, value.index, value.dtype, is_const))
        elif not declared.is_reference:
            return self._declare(param.name, self._value(param, given))
        if is_array or (given.place is not None and given.kind == kind):
            return ReadOnly(given.place) if declared.is_const else given.place
        if not declared.is_const:
            what = f"a reference to {kind} cannot lead to {given.kind}; convert"
            if given.place is None:
                what = f"reference {param.name!r} may change what it leads to, and is given a value; pass a variable"
            self._fail(what)
        return ReadOnly(t.memory.temporary(self._value(param, given)))

    def _return_type(self) -> Any:
        """The type that a function returns; None of ``void`` and of constructors."""
        declared = self.function.returns
        if declared is None or (declared.base.name == "void" and not declared.pointers):
            return None
        if declared.base.name == "auto":
            self._fail_within(f"{self.function.name}() returns auto; name the type")
        with self._t.inside(self._scope, self.function.source):
            return self._types.resolve(declared)

    def _inline(self, names: dict[str, Any], returns: Any, this: Any, *, is_apart: bool) -> Any:
        """Translate the function's body; its value, or the object that it stands for."""
        t, memory, function = self._t, self._t.memory, self.function
        outside, path, jumps = t.frame, memory.path, memory.state.jumps
        mark = len(memory.created)
        params = Scope(self._scope)
        if this is not None:
            params.names.update({name: memory.member(this, name) for name, _ in t.type_at(this).members})
        own = Scope(params)
        own.names.update({name: each for name, each in names.items() if name})
        frame = Frame(function.source, own, Jump(), is_function=True, this=this, depth=outside.depth + 1)
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
        for param in function.params[len(self._args) :]:
            self._set_default(param)
        if returns is None and function.returns is None and this is not None:
            self._set_members(this)
        frame.scope = Scope(own)
        t.statements(function.body.statements)
        found: Any = t.b.const(False, BOOL)
        if returns is not None:
            if memory.jump_condition() is not memory.true:
                t.fail(function, "a path through the function ends without return")
            found = self._outcome(frame)
        t.frame, memory.path, memory.state.jumps = outside, path, jumps
        if frame.references is None:
            memory.forget(mark)
        return found

    def _set_default(self, param: tree.Parameter) -> None:
        """Declare a parameter that the call leaves out."""
        if param.type.is_reference and not param.type.is_const:
            self._t.fail(param, f"{param.name!r} needs a variable, and has a default value")
        value = self._types.convert(param.default, self._types.resolve(param.type))
        self._t.frame.scope.names[param.name] = self._declare(param.name, value)

    def _outcome(self, frame: Frame) -> Any:
        """The result of the function."""
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
            choices.append((condition if rest is None else t.b.op("and", rest, condition), each))
            no = t.b.op("not", condition)
            rest = no if rest is None else t.b.op("and", rest, no)
        assert rest is not None
        return Either((*choices, (rest, found)), t.type_at(found))

    def _set_members(self, this: Any) -> None:
        """The members' values before a constructor's body, in the order of the members."""
        t, memory, function, make = self._t, self._t.memory, self.function, self._calls.make
        kind: StructType = t.type_at(this)
        given = dict(function.sets)
        if kind.definition.name in given:  # another constructor makes it
            if len(given) != 1:
                t.fail(function, f"a constructor of {kind} that calls another one sets no member itself")
            memory.store(this, make(function, kind, list(given[kind.definition.name].items)))
            return
        for name, inner in kind.members:
            place = memory.member(this, name)
            if name in given:
                memory.store(place, self._types.construct(given[name], inner, given[name].items), name)
            elif isinstance(inner, StructType) and self._calls.has_constructor(inner):
                memory.store(place, make(function, inner, []), name)


def _constructors(kind: StructType) -> list[tree.FunctionTree]:
    return kind.definition.constructors if kind.definition is not None else []


def _names_of(given: Any) -> set[str]:
    """The names in an argument of a template."""
    if isinstance(given, tree.Name):
        return {given.name}
    if not isinstance(given, tree.DeclaredType):
        return set()
    inner = [_names_of(each) for _, args in given.base.parts for each in args or ()]
    return {name for name, _ in given.base.parts}.union(*inner)
