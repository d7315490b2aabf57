"""Calls of functions, for the translator of snippets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from xferlib.errors import KernelTypeError
from xferlib.kernels.frontends.calls import atomics, cfunctions, float_functions, overloads
from xferlib.kernels.frontends.cpp import type_names
from xferlib.kernels.frontends.cpp.structs import METHOD, SELF
from xferlib.kernels.frontends.memory.contents import Place, TranslatorPart
from xferlib.kernels.frontends.memory.structs import VECTORS, StructType, StructValue, leaves
from xferlib.kernels.frontends.memory.translation import is_place, named, pointee
from xferlib.kernels.frontends.preamble import MOST_DEPTH, Inliner, PreambleFunction
from xferlib.kernels.ir.nodes import BOOL, FLOAT32, FLOAT64, DType, Node

NO_TYPES: Mapping[str, DType] = MappingProxyType({})


class Calls(TranslatorPart):
    """Translates ``f(x)``."""

    made_record: Callable[..., Any]
    pointed: Callable[[Any], Place]
    place: Callable[[Any], Place]
    is_lvalue: Callable[[Any], bool]
    _method: Callable[[Any], Node]
    _functions: Mapping[str, tuple[PreambleFunction, ...]]
    _depth: int
    within: Callable[[PreambleFunction, Mapping[str, DType]], Any]

    def _eval_funccall(self, node: Any) -> Any:
        if type(node.name).__name__ == "StructRef":
            return self._method_of_struct(node) or self._method(node)
        if type(node.name).__name__ != "ID":
            self.fail(node, "only named functions can be called")
        name, count = type_names.typed_call(node.name.name)
        if count:
            return self._of_template(node, name, node.args.exprs[:count], node.args.exprs[count:])
        if name in ("nan", "nanf"):  # its text says which bits, and any NaN is as good as any other
            return self.b.const(float("nan"), FLOAT64 if name == "nan" else FLOAT32)
        given = node.args.exprs if node.args else []
        if (found := self._own_method(node, given)) is not None:
            return found
        if name == "assert" and len(given) == 1:
            return self.b.const(False, BOOL)  # as compiled with NDEBUG
        if (functions := self._functions.get(name)) is not None:
            return self._inlined(node, *self._overload(node, functions, given))
        if (vector := VECTORS.get(name.removeprefix("make_"))) is not None and name.startswith("make_"):
            cfunctions.check_arity(name, given, len(vector.members), lambda *problem: self.fail(node, *problem))
            return self.made_record(node, vector, given)
        if (base := cfunctions.known_name(name, float_functions.PAIRS)) is not None:
            return self._pair(node, float_functions.PAIRS[base], given)
        if (base := cfunctions.known_name(name, float_functions.SPLITS)) is not None:
            return self._split(node, float_functions.SPLITS[base], given, is_single=name != base)
        if name in atomics.KINDS:
            return atomics.call(self, node, given, is_used=True)
        args = [self.expression(each) for each in given]
        return cfunctions.call(self.b, name, args, lambda message, kind: self.fail(node.name, message, kind))

    def _split(self, node: Any, split: float_functions.Split, given: list[Any], *, is_single: bool) -> Node:
        """``frexp(x, &exponent)`` and its like: one part is the value, the other one goes behind the pointer."""
        name, fail = node.name.name, lambda message, kind: self.fail(node.name, message, kind)
        cfunctions.check_arity(name, given, split.operands + 1, fail)
        args = [self.expression(each) for each in given[: split.operands]]
        place = self.pointed(given[-1])
        operands = cfunctions.real_operands(self.b, name, args, split.operands, is_single, fail)
        value, other = split.make(self.b, *operands)
        if place.variable.dtype != (split.second or value.dtype):  # C++ converts no pointers
            what = f"a pointer to {split.second or value.dtype}, and one to {place.variable.dtype} is given"
            self.fail(node, f"{name}() needs {what}", KernelTypeError)
        self.scope.write_place(place, other, "*", lambda message: self.fail(node, message))
        return value

    def _pair(self, node: Any, make: Callable[..., float_functions.Parts], given: list[Any]) -> Node:
        """``sincos(x, &sine, &cosine)``: the pointers say the type of the operand, as C++ chooses the overload."""
        name = node.name.name
        cfunctions.check_arity(name, given, 3, lambda *problem: self.fail(node, *problem))
        places = [self.pointed(each) for each in given[1:]]
        dtype = places[0].variable.dtype
        if dtype not in (FLOAT32, FLOAT64) or places[1].variable.dtype != dtype:
            self.fail(node, f"{name}() needs two pointers to float or to double", KernelTypeError)
        value = self.b.cast(self.expression(given[0]), dtype)
        for part, place in zip(make(self.b, value), places, strict=True):
            self.scope.write_place(place, part, "*", lambda message: self.fail(node, message))
        return value

    def _of_template(self, node: Any, name: str, named: list[Any], given: list[Any]) -> Any:
        """``f<T, U>(x)``: the call of a function whose template's first types are named."""
        kinds = [self.expression(each).dtype for each in named]
        functions = [each for each in self._functions.get(name, ()) if len(each.types) >= len(kinds)]
        if not functions:
            self.fail(node.name, f"the preamble has no template {name}<> of {len(kinds)} type(s)")
        function, given = self._overload(node, functions, given)
        return self._inlined(node, function, given, dict(zip(function.types, kinds, strict=False)))

    def _overload(
        self, node: Any, functions: Sequence[PreambleFunction], given: list[Any]
    ) -> tuple[PreambleFunction, list[Any]]:
        """The function of a name that a call means, and its arguments, which are evaluated once to find it."""
        if len(functions) == 1:
            return functions[0], given
        given = [self._once(each) for each in given]
        arguments = [self._argument_type(each) for each in given]
        type_of = lambda function, kind: self.within(function, {}).type_of(kind)
        found = overloads.chosen(functions, arguments, type_of, {})
        if len(found) != 1:
            many = "more than one function" if found else "no function"
            self.fail(
                node.name, f"{many} {node.name.name}() for these arguments; cast them to its types", KernelTypeError
            )
        return found[0], given

    def _once(self, node: Any) -> Any:
        """Evaluate an argument, but for names and addresses, which cost nothing to evaluate again."""
        is_address = type(node).__name__ == "UnaryOp" and node.op == "&"
        if isinstance(node, (Node, StructValue, Place)) or is_place(node) or is_address:
            return node
        return self.place(node) if self.is_lvalue(node) else self.any_value(node)

    def _method_of_struct(self, node: Any, *, as_place: bool = False) -> Any:
        """The value of ``p.f(x)``, where the struct has such a function; None otherwise."""
        owner, functions = node.name.name, self._functions.get(METHOD + node.name.field.name)
        if node.name.type == "->":
            owner = pointee(owner)
        if functions is None:
            return None
        before = self.scope.snapshot()
        owner = self._once(owner)
        if not self.is_struct(owner):
            self.scope.restore(before)
            return None
        given = [owner, *(node.args.exprs if node.args else [])]
        return self._inlined(node, *self._overload(node, functions, given), as_place=as_place)

    def _own_method(self, node: Any, given: list[Any], *, as_place: bool = False) -> Any:
        """The value of ``f(x)`` in a function of a struct that has an ``f``; None otherwise."""
        functions = self._functions.get(METHOD + node.name.name)
        if functions is None or not self.scope.is_record(SELF):
            return None
        owner = named(SELF, node)
        base = self._argument_type(owner).dtype.base
        if not any(self._owner_of(each) == base for each in functions):
            return None
        given = [owner, *given]
        return self._inlined(node, *self._overload(node, functions, given), as_place=as_place)

    def _owner_of(self, method: PreambleFunction) -> str:
        """The name of the struct that a method is for."""
        name = " ".join(method.params[0].type.type.type.names)
        return type_names.instance(method.text.aliases.get(name, name))[0]

    def is_overloaded(self, sign: str) -> bool:
        """Whether the preamble has a function for an operator."""
        return type_names.operator_name(sign) in self._functions

    def operand(self, node: Any) -> Any:
        """Evaluate an operand once: to the place of a struct, or to a value, but for the name of a number."""
        return self.place(node) if is_place(node) and self.is_struct(node) else self._once(node)

    def operated(self, node: Any, sign: str, given: list[Any], *, as_place: bool = False) -> Any:
        """The value of an operator of structs; None where the preamble has no function for these operands."""
        functions = self._functions.get(type_names.operator_name(sign))
        if functions is None or not any(map(self.is_struct, given)):
            return None
        return self._inlined(node, *self._overload(node, functions, given), as_place=as_place)

    def returns_reference(self, node: Any) -> bool:
        """Whether an expression is the call of a function, or of an operator of structs, that returns a reference."""
        name, _ = self._callee(node)
        return any(each.returns_reference for each in self._functions.get(name, ()))

    def call_place(self, node: Any) -> Place | None:
        """The place to which a call's reference leads; None where an expression is no such call."""
        if not self.returns_reference(node):
            return None
        name, given = self._callee(node)
        found: Place | None = None
        if type(node).__name__ == "Assignment":
            right = self.operand(given[1])
            found = self.operated(node, node.op, [self.operand(given[0]), right], as_place=True)
        elif type(node).__name__ != "FuncCall":
            found = self.operated(node, node.op, [self.operand(each) for each in given], as_place=True)
        elif type(node.name).__name__ == "StructRef":
            found = self._method_of_struct(node, as_place=True)
        elif name.startswith(METHOD):
            found = self._own_method(node, given, as_place=True)
        else:
            found = self._inlined(node, *self._overload(node, self._functions[name], given), as_place=True)
        return found

    def _callee(self, node: Any) -> tuple[str, list[Any]]:
        """The name of the functions that an expression may call, and their arguments."""
        kind = type(node).__name__
        if kind == "FuncCall":
            given = node.args.exprs if node.args else []
            if type(node.name).__name__ == "StructRef":
                return METHOD + node.name.field.name, given
            own = getattr(node.name, "name", "")
            return (METHOD + own if METHOD + own in self._functions and self.scope.is_record(SELF) else own), given
        if kind in ("BinaryOp", "Assignment", "UnaryOp"):
            given = [node.expr] if kind == "UnaryOp" else [node.lvalue, node.rvalue] if kind == "Assignment" else []
            return type_names.operator_name(node.op), given or [node.left, node.right]
        return "", []

    def is_struct(self, given: Any) -> bool:
        """Whether a value or an expression is a struct."""
        if type(given).__name__ == "ID":
            return bool(self.scope.is_record(given.name))
        return isinstance(self._argument_type(given).dtype, StructType)

    def _argument_type(self, given: Any) -> overloads.Argument:
        """The type of a value or an expression, which is evaluated once more for the call."""
        if isinstance(given, (Node, StructValue, Place)):
            return overloads.Argument((given.variable if isinstance(given, Place) else given).dtype)
        is_address = type(given).__name__ == "UnaryOp" and given.op == "&"
        is_pointer = is_address or (type(given).__name__ == "ID" and self.scope.leads_to_numbers(given.name))
        before = self.scope.snapshot()
        dtype = self.pointed(given).variable.dtype if is_pointer else self.any_value(given).dtype
        self.scope.restore(before)
        return overloads.Argument(dtype, is_pointer)

    def dtype_of(self, node: Any) -> Any:
        """The type of an expression."""
        return self._argument_type(node).dtype

    def constructed(self, node: Any, dtype: Any, name: str, values: list[Any], types: Mapping[str, DType]) -> Any:
        """The struct that a constructor makes, for these types of its template."""
        self._check_depth(node)
        type_of = lambda function, kind: self.within(function, types).type_of(kind)
        arguments = [overloads.Argument(each.dtype) for each in values]
        found = overloads.chosen(self._functions[name], arguments, type_of, types)
        if len(found) != 1:
            count = f"{dtype} has {'more than one' if found else 'no'} constructor for these {len(values)} values"
            self.fail(node, f"{count}; cast them to the types of a constructor's parameters", KernelTypeError)
        inliner = Inliner(self, found[0], lambda _: self.within(found[0], types))
        return inliner.call(node, values, is_apart=False, is_told=True)

    def _check_depth(self, node: Any) -> None:
        if self._depth >= MOST_DEPTH:
            self.fail(node, f"calls are nested more than {MOST_DEPTH} deep; a function must not call itself")

    def _inlined(
        self,
        node: Any,
        function: PreambleFunction,
        given: list[Any],
        types: Mapping[str, DType] = NO_TYPES,
        *,
        as_place: bool = False,
    ) -> Any:
        """The call of a function of the preamble, and the types of its template that the call names."""
        self._check_depth(node)
        inliner = Inliner(self, function, lambda types: self.within(function, types), types)
        if function.has_places:
            return inliner.call(node, given, is_apart=False, as_place=as_place)
        args = [self.evaluated(node, each) for each in given]
        is_apart = not self.work.has_loops  # a loop must not run where it is not reached
        numbers = [leaf for each in args for leaf in leaves(each)]
        dtypes = (*types.values(), *(each.dtype for each in args))
        key = (id(function.tree), id(None if is_apart else self.scope.path), *dtypes, *map(id, numbers))
        if key not in self.work.results:  # a function has no effect but its result
            self.work.results[key] = inliner.call(node, args, is_apart=is_apart)
        return self.work.results[key]

    def evaluated(self, node: Any, given: Any) -> Any:
        """The value of an argument: a value, a place or an expression."""
        if isinstance(given, Place):
            return self.scope.read_place(given, "*", lambda message: self.fail(node, message))
        return given if isinstance(given, (Node, StructValue)) else self.any_value(given)
