"""What a reduction is once its dtypes are known, and how C expressions define one.

A reduction maps every element to an accumulator, one or several numbers; combines two accumulators into
one; and turns the last one into the outputs. Each of the three is a program. The order in which
accumulators are combined is fixed, whatever runs it:

- the N elements of one result are cut into leaves of `LEAF` consecutive ones;
- in a leaf, lane l of `LANES` combines elements l, l + LANES, l + 2 LANES ... in that order;
- the lanes are halved: lane l takes in lane l + s for s = LANES/2 ... 2, 1, where both hold something;
- the results of the leaves are combined in neighbouring pairs, level by level, an odd one passing through.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from xferlib.errors import KernelSyntaxError, KernelTypeError, shown
from xferlib.kernels import csnippet, signature
from xferlib.kernels.carrays import indexed_otherwise
from xferlib.kernels.cscope import Scope, Variable
from xferlib.kernels.ctext import SnippetText
from xferlib.kernels.definitions import Kind, Specialization, bind_generics, check_names
from xferlib.kernels.ir import INT64, Builder, DType, Node, Param, Program, Store
from xferlib.kernels.numpy_engine import NumpyPlan
from xferlib.kernels.preamble import functions_of
from xferlib.kernels.types import C_TYPES

LANES = 512
LEAF = 8 * LANES


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionSpec:
    """A reduction for one set of dtypes.

    ``map_program`` has the inputs and then the accumulators it writes; in it, ``index`` is the element's
    number among those reduced together. ``combine`` has accumulators a, accumulators b, and the results.
    ``post`` has the accumulators, the int64 scalars in_size and out_size, and the outputs.
    """

    map_program: Program
    combine: Program
    post: Program
    inputs: int
    outputs: int
    identity: tuple[Any, ...] | None
    """The accumulator of no elements; None where an empty reduction is an error."""
    shortcut: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]] | None = None
    """NumPy's own reduction along the last axis, where the result does not depend on the order."""

    premap: Specialization | None = None
    """Where the map reads arrays at computed indices: the element-wise kernel that computes it first. The one input
    is then what that kernel writes."""

    @property
    def arguments(self) -> int:
        """How many a call takes."""
        return self.inputs if self.premap is None else self.premap.outputs[0]

    @property
    def accumulators(self) -> tuple[DType, ...]:
        return tuple(param.dtype for param in self.map_program.params[self.inputs :])

    @property
    def output_dtypes(self) -> tuple[DType, ...]:
        return tuple(param.dtype for param in self.post.params[len(self.accumulators) + 2 :])


class ReductionDefinition(Protocol):
    """A reduction before its dtypes are known."""

    name: str
    names: tuple[str, ...]

    def specialize(self, kinds: tuple[Kind, ...], scalars: frozenset[int]) -> ReductionSpec: ...


def build(
    inputs: Sequence[Param],
    mapping: Any,
    combining: Any,
    finishing: Any,
    *,
    identity: tuple[Any, ...] | None,
    shortcut: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]] | None = None,
    math: str = "exact",
) -> ReductionSpec:
    """A specification from functions on nodes.

    Args:
        inputs: The parameters.
        mapping: ``(builder, input nodes) -> accumulator nodes``.
        combining: ``(builder, accumulators a, accumulators b) -> accumulators``.
        finishing: ``(builder, accumulators, in_size, out_size) -> output nodes``.
        identity: The accumulator of no elements, or None.
        shortcut: NumPy's own reduction along the last axis, where the result does not depend on the order.
        math: ``"exact"`` or ``"fast"``.
    """
    b = Builder(inputs, math=math)
    mapped = mapping(b, [b.load(number) for number in range(len(inputs))])
    map_program = _storing(b, "acc", mapped)
    dtypes = [node.dtype for node in mapped]
    c = Builder([Param(name=f"{side}{k}", dtype=d) for side in "ab" for k, d in enumerate(dtypes)], math=math)
    count = len(dtypes)
    combined = combining(c, [c.load(k) for k in range(count)], [c.load(count + k) for k in range(count)])
    sizes = [Param(name=name, dtype=INT64, is_scalar=True) for name in ("in_size", "out_size")]
    p = Builder([*(Param(name=f"a{k}", dtype=d) for k, d in enumerate(dtypes)), *sizes], math=math)
    finished = finishing(p, [p.load(k) for k in range(count)], p.load(count), p.load(count + 1))
    return ReductionSpec(
        map_program=map_program,
        combine=_storing(c, "c", [c.cast(node, dtype) for node, dtype in zip(combined, dtypes, strict=True)]),
        post=_storing(p, "out", finished),
        inputs=len(inputs),
        outputs=len(finished),
        identity=identity,
        shortcut=shortcut,
    )


def _storing(b: Builder, prefix: str, nodes: Sequence[Node]) -> Program:
    first = len(b.params)
    b.params += [Param(name=f"{prefix}{number}", dtype=node.dtype) for number, node in enumerate(nodes)]
    return b.program([Store(param=first + number, value=node) for number, node in enumerate(nodes)])


class SnippetReduction:
    """CuPy's ReductionKernel or PyCUDA's, in C expressions over ``a`` and ``b``."""

    def __init__(
        self,
        in_params: str,
        out_params: str | None,
        *,
        map_expr: str,
        reduce_expr: str,
        post_map_expr: str | None,
        identity: str | None,
        dtype: Any,
        name: str,
        math: str,
        preamble: str = "",
    ) -> None:
        self.name = signature.check_name(name, "kernel name")
        self.math = math
        self._made_from = functools.partial(
            SnippetReduction, in_params, out_params, map_expr=map_expr, reduce_expr=reduce_expr,
            post_map_expr=post_map_expr, identity=identity, dtype=dtype, name=name, math=math, preamble=preamble,
        )  # fmt: skip
        self._inputs = signature.parse(in_params, "in_params")
        self._outputs = signature.parse(out_params or "", "out_params")
        self.names = tuple(param.name for param in (*self._inputs, *self._outputs))
        check_names(name, self.names)
        self._dtype = dtype
        if (raw := next((each for each in self._outputs if each.is_raw), None)) is not None:
            raise KernelSyntaxError(f"{name}: output {raw.name!r} is raw, but a reduction has one result; drop 'raw'")
        if not self._outputs and dtype is None:
            raise KernelSyntaxError(f"{name}: without out_params, dtype= must say what the result is")
        if self._outputs and not post_map_expr:
            raise KernelSyntaxError(f"{name}: post_map_expr must assign the outputs, for instance 'y = a'")
        generics = frozenset(param.generic for param in (*self._inputs, *self._outputs) if param.generic)
        self._functions = functions_of(preamble, generics)
        self._map = self._parse(map_expr, generics, "map_expr")
        free = indexed_otherwise(self._map[1])
        self._free = frozenset(
            each.name for each in self._inputs if each.is_raw or (each.is_pointer and each.name in free)
        )
        self._reduce = self._parse(reduce_expr, generics, "reduce_expr")
        self._post = self._parse(post_map_expr or "", generics, "post_map_expr")
        self._identity = self._parse(identity, generics, "identity") if identity is not None else None

    def __reduce__(self) -> tuple[Any, ...]:
        return self._made_from, ()

    @staticmethod
    def _parse(source: str, generics: frozenset[str], what: str) -> tuple[SnippetText, list[Any]]:
        text = SnippetText(source, generics, what)
        return text, csnippet.parse(text)

    def specialize(self, kinds: tuple[Kind, ...], scalars: frozenset[int]) -> ReductionSpec:
        """The programs for inputs, and given outputs, of these dtypes."""
        declared = (*self._inputs, *self._outputs)
        kinds = (*kinds, *[None] * (len(declared) - len(kinds)))
        types = bind_generics(declared, kinds)
        resolved = [param.dtype or types[str(param.generic)] for param in declared]
        inputs = resolved[: len(self._inputs)]
        params = [
            Param(name=param.name, dtype=dtype, is_scalar=number in scalars, is_raw=self._is_free(number, scalars))
            for number, (param, dtype) in enumerate(zip(self._inputs, inputs, strict=True))
        ]
        outputs = resolved[len(self._inputs) :]
        accumulator = self._accumulator(types, outputs)
        premap = None
        mapping = lambda b, nodes: [self._mapped(b, types, accumulator)]
        if any(param.is_raw for param in params):
            premap = self._premap(params, types, accumulator)
            params, mapping = [Param(name="mapped", dtype=accumulator)], lambda b, nodes: [nodes[0]]
        spec = build(
            params,
            mapping,
            lambda b, a, c: [self._value(b, self._reduce, types, accumulator, {"a": a[0], "b": c[0]})],
            lambda b, a, n, m: self._finished(b, a[0], n, m, types, outputs),
            identity=self._identity_value(types, accumulator),
            math=self.math,
        )
        return replace(spec, premap=premap)

    def _is_free(self, number: int, scalars: frozenset[int]) -> bool:
        """Whether input ``number`` is an array that the map indexes otherwise than by the element's number."""
        return self._inputs[number].name in self._free and number not in scalars

    def _premap(self, params: list[Param], types: dict[str, DType], accumulator: DType) -> Specialization:
        b = Builder(params, math=self.math)
        program = _storing(b, "acc", [self._mapped(b, types, accumulator)])
        return Specialization(program=program, outputs=(len(params),))

    def _accumulator(self, types: dict[str, DType], outputs: list[DType]) -> DType:
        if self._dtype is None:
            return outputs[0]
        name = str(self._dtype) if isinstance(self._dtype, str) else np.dtype(self._dtype).name
        found = types.get(name) or C_TYPES.get(name)
        if found is None:
            raise KernelTypeError(
                f"{self.name}: dtype={shown(self._dtype)} is no type of a kernel; use a NumPy or C name"
            )
        return found

    def _mapped(self, b: Builder, types: dict[str, DType], accumulator: DType) -> Node:
        scope = Scope(b)
        for number, param in enumerate(self._inputs):
            given = b.params[number]
            kind = "value" if given.is_scalar else "raw" if given.is_raw else "element"
            variable = Variable(param.name, given.dtype, number, kind, is_writable=False, needs_index=param.is_pointer)
            scope.bind(param.name, variable)
        text, statements = self._map
        value = csnippet.Translator(b, scope, text, types, self._functions).value(statements)
        return b.cast(value, accumulator)

    def _value(
        self,
        b: Builder,
        source: tuple[SnippetText, list[Any]],
        types: dict[str, DType],
        dtype: DType,
        names: dict[str, Node],
    ) -> Node:
        scope = Scope(b)
        for name, node in names.items():
            scope.bind_value(name, node)
        text, statements = source
        return b.cast(csnippet.Translator(b, scope, text, types, self._functions).value(statements), dtype)

    def _finished(
        self, b: Builder, a: Node, in_size: Node, out_size: Node, types: dict[str, DType], outputs: list[DType]
    ) -> list[Node]:
        if not self._outputs:
            return [a]
        scope = Scope(b)
        scope.bind_value("a", a)
        scope.bind_sizes(in_size, out_size)
        for param, dtype in zip(self._outputs, outputs, strict=True):
            scope.declare(param.name, dtype, None)
        text, statements = self._post
        csnippet.Translator(b, scope, text, types, self._functions).run(statements)

        def unwritten(message: str) -> Any:
            raise KernelSyntaxError(f"{self.name}: an output is never written by post_map_expr ({message})")

        return [scope.read(param.name, unwritten) for param in self._outputs]

    def _identity_value(self, types: dict[str, DType], accumulator: DType) -> tuple[Any, ...] | None:
        if self._identity is None:
            return None
        b = Builder(math=self.math)
        program = _storing(b, "out", [self._value(b, self._identity, types, accumulator, {})])
        out = np.empty((), accumulator)
        NumpyPlan(program, (), [out], is_aliased=False).run([out])
        return (out[()],)
