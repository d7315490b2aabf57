"""Methods in snippets: sizes, shapes and strides of arrays, an element's indices, parts of complex numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xferlib.errors import KernelTypeError
from xferlib.kernels.frontends.memory.contents import TranslatorPart
from xferlib.kernels.frontends.memory.structs import StructValue
from xferlib.kernels.frontends.memory.translation import is_place
from xferlib.kernels.ir.constants import constant_value
from xferlib.kernels.ir.layout_facts import MOST_AXES, LayoutFact
from xferlib.kernels.ir.nodes import INT64, Node, is_complex, part_dtype

_LISTS = {"shape": "extent", "strides": "stride"}


class Methods(TranslatorPart):
    """Translates ``x.size()``, ``x.shape()[k]``, ``_ind.get()[k]``, ``x.ndim``, ``z.real()``."""

    assign: Callable[[Any, Node], Node]
    _read: Callable[[Any], Any]

    def _method(self, node: Any) -> Node:
        """``_ind.size()``, ``x.size()`` of a raw parameter, ``z.real()``, ``z.real(x)``."""
        owner, method = node.name.name, node.name.field.name
        if node.args is not None and method in ("real", "imag") and len(node.args.exprs) == 1:
            return self._set_part(node, owner, method)
        if node.args is None and method == "size" and type(owner).__name__ == "ID":
            if owner.name in self.scope.sizes:
                size: Node = self.scope.sizes[owner.name]
                return size
            length: Node = self.scope.length(owner.name, lambda message: self.fail(owner, message))
            return length
        if node.args is None and method in ("real", "imag"):
            value = self.expression(owner)
            if is_complex(value.dtype):
                return self.b.real(value) if method == "real" else self.b.imag(value)
        problem = f"no method .{method}() here; known are _ind.size(), x.size(), z.real(), z.imag()"
        if type(owner).__name__ == "ID" and owner.name in ("math", "np", "numpy", "cp", "cupy", "torch", "std"):
            problem = f"C has no modules; write {method}(x) in place of {owner.name}.{method}(x)"
        raise self.error(node.name.field, problem)

    def _set_part(self, node: Any, owner: Any, method: str) -> Node:
        """``z.real(x)`` and ``z.imag(x)``."""
        whole = self.expression(owner)
        if not is_complex(whole.dtype):
            self.fail(node, f"{whole.dtype} has no parts; declare the variable complex", KernelTypeError)
        part = self.b.cast(self.expression(node.args.exprs[0]), part_dtype(whole.dtype))
        parts = (part, self.b.imag(whole)) if method == "real" else (self.b.real(whole), part)
        return self.assign(owner, self.b.complex(*parts))

    # --- layouts
    def _eval_structref(self, node: Any) -> Any:
        """``p.member``, ``f(x).member``, ``x.ndim`` and ``_ind.ndim``."""
        if type(node.name).__name__ != "ID" or node.field.name != "ndim" or self.scope.is_record(node.name.name):
            return self._read(node) if is_place(node) else self._member_of_value(node)
        return self.b.fact(LayoutFact(self._owner(node.name), "rank", 0))

    def _member_of_value(self, node: Any) -> Any:
        value = self.any_value(node.name)
        if not isinstance(value, StructValue) or node.field.name not in value.members:
            self.fail(node.field, f"{value.dtype} has no member {node.field.name!r}")
        return value.members[node.field.name]

    def _owner(self, node: Any) -> int | None:
        """The array that a name stands for; None for the call itself."""
        if node.name == "_ind" and "_ind" in self.scope.sizes:
            return None
        found: int = self.scope.array(node.name, lambda message: self.fail(node, message))
        return found

    def layout_entry(self, node: Any, axis: Node) -> Node | None:
        """``x.shape()[axis]``, ``x.strides()[axis]`` and ``_ind.get()[axis]``; None where ``node`` is none of them."""
        if type(node).__name__ != "FuncCall" or type(node.name).__name__ != "StructRef" or node.args is not None:
            return None
        name, owner = node.name.field.name, node.name.name
        if type(owner).__name__ != "ID" or name not in (*_LISTS, "get"):
            return None
        array = self._owner(owner)
        if (name == "get") != (array is None) and name != "shape":
            self.fail(
                node.name, f"{owner.name} has no {name}(); _ind has get() and shape(), arrays shape() and strides()"
            )
        if name != "get":
            return self.entry(array, _LISTS[name], axis)
        rows = self.b.op("idiv", self.scope.number, self.entry(None, "inner", axis))
        return self.b.op("imod", rows, self.entry(None, "extent", axis))

    def entry(self, array: int | None, what: str, axis: Node) -> Node:
        """An entry of a layout; 0 for an axis that does not exist."""
        known = constant_value(axis, self.work.known)
        if known is not None:
            return self.b.fact(LayoutFact(array, what, int(known)))
        found = self.b.const(0, INT64)
        for number in range(MOST_AXES):
            is_it = self.b.op("eq", axis, self.b.const(number, axis.dtype))
            found = self.b.select(is_it, self.b.fact(LayoutFact(array, what, number)), found)
        return found
