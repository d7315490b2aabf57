"""A reduction before its dtypes are known, and its definition by C expressions."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Protocol

from xferlib._core.array import check_dtype
from xferlib.errors import KernelSyntaxError, KernelTypeError, UnsupportedDTypeError, shown
from xferlib.kernels.c_frontend import parse, preprocess
from xferlib.kernels.c_frontend.parse import Snippet, names_in
from xferlib.kernels.c_frontend.scope import (
    Constant,
    OutputReadError,
    Own,
    Raw,
    ReadOnly,
    ShapeOfCall,
    StructType,
    StructValue,
    leaves,
)
from xferlib.kernels.c_frontend.translate import Translator
from xferlib.kernels.frontends import signature
from xferlib.kernels.frontends.definitions import ArgumentKind, bind_generics, check_definition, check_names
from xferlib.kernels.frontends.indexed_arrays import indexed_otherwise
from xferlib.kernels.ir.constants import stored_value
from xferlib.kernels.ir.formulas.bit_functions import read_bits
from xferlib.kernels.ir.nodes import INT64, Builder, DType, Node, Param, Program
from xferlib.kernels.ir.reduction import Elementwise, Postmap, ReductionSpec, build, storing


class ReductionDefinition(Protocol):
    """A reduction before its dtypes are known."""

    name: str
    names: tuple[str, ...]

    def specialize(self, kinds: tuple[ArgumentKind, ...], scalars: frozenset[int]) -> ReductionSpec: ...


class SnippetReduction:
    """A reduction defined as CuPy's and PyCUDA's ReductionKernel are: by C expressions over ``a`` and ``b``."""

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
        macros: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.name = signature.check_name(name, "kernel name")
        self.math = math
        self._made_from = functools.partial(
            SnippetReduction, in_params, out_params, map_expr=map_expr, reduce_expr=reduce_expr,
            post_map_expr=post_map_expr, identity=identity, dtype=dtype, name=name, math=math, preamble=preamble,
            macros=dict(macros),
        )  # fmt: skip
        self._inputs = signature.parse(in_params, "in_params")
        self._outputs = signature.parse(out_params or "", "out_params")
        self.names = tuple(param.name for param in (*self._inputs, *self._outputs))
        self.inputs = len(self._inputs)
        check_names(name, self.names)
        told = {param.generic for param in self._inputs}
        self.open_outputs = frozenset(
            n for n, each in enumerate(self._outputs) if each.generic and each.generic not in told
        )
        """The outputs whose types no input tells, so that a given output must."""
        self._dtype = dtype
        if (raw := next((each for each in self._outputs if each.is_raw), None)) is not None:
            raise KernelSyntaxError(f"{name}: output {raw.name!r} is raw, but a reduction has one result; drop 'raw'")
        if not self._outputs and dtype is None:
            raise KernelSyntaxError(f"{name}: without out_params, dtype= must say what the result is")
        if post_map_expr is None and len(self._outputs) == 1:
            post_map_expr = f"{self._outputs[0].name} = a"
        if self._outputs and not post_map_expr:
            raise KernelSyntaxError(f"{name}: post_map_expr must assign the outputs, for instance 'y = a'")
        generics = frozenset(param.generic for param in (*self._inputs, *self._outputs) if param.generic)
        self._preamble = parse.read_preamble(preamble, generics, preprocess.defined_by(macros))
        self._reads_bits = read_bits(preamble, map_expr, reduce_expr, post_map_expr or "")
        self._map = self._expression(map_expr, "map_expr")
        free = indexed_otherwise(self._map.statements)
        self._free = frozenset(
            each.name for each in self._inputs if each.is_raw or (each.is_pointer and each.name in free)
        )
        self._reduce = self._expression(reduce_expr, "reduce_expr")
        self._post = parse.read_snippet(post_map_expr or "", "post_map_expr", self._preamble)
        self._post_names = names_in(*self._post.statements)
        self._identity = self._expression(identity, "identity") if identity is not None else None

    def __reduce__(self) -> tuple[Any, ...]:
        return self._made_from, ()

    def _expression(self, source: str, what: str) -> Snippet:
        return parse.read_snippet(source, what, self._preamble, is_expression=True)

    def _translator(self, b: Builder, types: Mapping[str, DType], *, has_sizes: bool = False) -> Translator:
        """A translator; ``has_sizes`` where a reduction's sizes take the place of its call's."""
        found = Translator(b, self._preamble, types)
        is_pycudas = any(param.is_pointer for param in self._inputs)
        found.declare_kernel({} if has_sizes else {"_ind": (b.size(), True)}, is_pycudas=is_pycudas)
        return found

    def specialize(self, kinds: tuple[ArgumentKind, ...], scalars: frozenset[int]) -> ReductionSpec:
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
        used = tuple(number for number, param in enumerate(params) if self._is_in_post(param))
        if not used:
            try:
                return self._spec(params, types, accumulator, outputs)
            except OutputReadError:
                pass
        spec = self._spec(params, types, accumulator, None)
        return replace(spec, postmap=self._postmap(params, used, types, accumulator, outputs))

    def _spec(
        self, params: list[Param], types: dict[str, DType], accumulator: Any, outputs: list[DType] | None
    ) -> ReductionSpec:
        """The programs; ``outputs`` is None where they give the accumulators, which another kernel finishes."""
        premap = None
        whole = _whole(accumulator)
        mapping = lambda b, nodes: self._leaves(b, self._mapped(b, types, accumulator))
        if any(param.is_raw for param in params):
            if isinstance(accumulator, StructType):
                raise KernelSyntaxError(
                    f"{self.name}: the map indexes an array freely and gives a {accumulator}; compute its members "
                    "with an element-wise kernel, and reduce those"
                )
            premap = self._premap(params, types, accumulator)
            params, mapping = [Param(name="mapped", dtype=accumulator)], lambda b, nodes: [nodes[0]]
        spec = build(
            params,
            mapping,
            lambda b, a, c: self._leaves(
                b, self._value(b, self._reduce, types, accumulator, {"a": whole(a), "b": whole(c)})
            ),
            lambda b, a, n, m: a if outputs is None else self._finished(b, whole(a), n, m, types, outputs),
            identity=self._identity_value(types, accumulator),
            math=self.math,
        )
        for program in (spec.map_program, spec.combine, spec.post):
            self._refuse_loops(program)
        return replace(spec, premap=premap)

    def _is_in_post(self, param: Param) -> bool:
        """Whether post_map_expr uses an input that is the same for all elements."""
        return param.name in self._post_names and (param.is_scalar or param.is_raw)

    def _postmap(
        self,
        params: list[Param],
        used: tuple[int, ...],
        types: dict[str, DType],
        accumulator: Any,
        outputs: list[DType],
    ) -> Postmap:
        """The kernel that computes post_map_expr from accumulators, inputs and the outputs' contents."""
        dtypes = accumulator.leaves() if isinstance(accumulator, StructType) else [accumulator]
        count = len(dtypes)
        sizes = [Param(name=name, dtype=INT64, is_scalar=True) for name in ("in_size", "out_size")]
        accumulators = [Param(name=f"a{k}", dtype=dtype) for k, dtype in enumerate(dtypes)]
        b = Builder([*accumulators, *(params[each] for each in used), *sizes], math=self.math)
        inputs = len(b.params)
        b.params += [Param(name=each.name, dtype=dtype) for each, dtype in zip(self._outputs, outputs, strict=True)]
        translator = self._translator(b, types, has_sizes=True)
        _bind(translator, "a", _whole(accumulator)([b.load(k) for k in range(count)]))
        _bind_sizes(translator, b.load(inputs - 2), b.load(inputs - 1))
        for number, param in enumerate(b.params[count : inputs - 2], count):
            _bind_input(translator, number, param, needs_index=False)
        written = [param.name for param in b.params[inputs:]]
        for number, param in enumerate(b.params[inputs:], inputs):
            translator.bind(param.name, translator.memory.cell(param.name, param.dtype, number))
        translator.run(self._post)
        program = b.program(translator.stores(), translator.memory.effects())
        for number, name in enumerate(written, inputs):
            if number not in program.writes:
                raise KernelSyntaxError(f"{self.name}: output {name!r} is never written by post_map_expr")
        return Postmap(program=program, inputs=inputs, arguments=used)

    def check(self) -> None:
        """Raise the error that every call would raise."""
        check_definition(self._inputs, self._outputs, self.specialize, self._map.source.text, lambda: 0)

    def _is_free(self, number: int, scalars: frozenset[int]) -> bool:
        """Whether input ``number`` is an array that the map indexes by anything but the element's number."""
        return self._inputs[number].name in self._free and number not in scalars

    def _premap(self, params: list[Param], types: dict[str, DType], accumulator: DType) -> Elementwise:
        b = Builder(params, math=self.math)
        program = storing(b, "acc", self._leaves(b, self._mapped(b, types, accumulator)))
        return Elementwise(program=program, inputs=len(params))

    def _leaves(self, b: Builder, accumulator: Any) -> list[Node]:
        """The numbers of an accumulator, whose bits a later expression may read."""
        found = leaves(accumulator)
        return [b.one_nan(each) for each in found] if self._reads_bits else found

    def _accumulator(self, types: dict[str, DType], outputs: list[DType]) -> Any:
        """The dtype of the accumulator, or the type of a struct."""
        if self._dtype is None:
            return outputs[0]
        if isinstance(self._dtype, str):
            found = self._translator(Builder(math=self.math), types).type_named(str(self._dtype))
            if found is not None:
                return found
        try:
            return check_dtype(self._dtype)  # NumPy's other names too, as "f4" and "q"
        except UnsupportedDTypeError:
            raise KernelTypeError(
                f"{self.name}: dtype={shown(self._dtype)} is no type of a kernel; use a NumPy or C name"
            ) from None

    def _mapped(self, b: Builder, types: dict[str, DType], accumulator: Any) -> Any:
        translator = self._translator(b, types)
        # CuPy's numbers of an element: of those reduced together, and of all, which are the same with raw arrays.
        _bind(translator, "_J", b.index())
        if any(each.is_raw for each in b.params):
            _bind(translator, "_j", b.index())
        for number, param in enumerate(self._inputs):  # which come first
            _bind_input(translator, number, b.params[number], param.name, needs_index=param.is_pointer)
        return translator.result(self._map, accumulator)

    def _value(self, b: Builder, text: Snippet, types: dict[str, DType], dtype: Any, names: dict[str, Any]) -> Any:
        translator = self._translator(b, types)
        for name, value in names.items():
            _bind(translator, name, value)
        return translator.result(text, dtype)

    def _finished(
        self, b: Builder, a: Any, in_size: Node, out_size: Node, types: dict[str, DType], outputs: list[DType]
    ) -> list[Node]:
        if not self._outputs:
            return leaves(a)
        translator = self._translator(b, types, has_sizes=True)
        memory = translator.memory
        _bind(translator, "a", a)
        _bind_sizes(translator, in_size, out_size)
        cells = [memory.cell(param.name, dtype) for param, dtype in zip(self._outputs, outputs, strict=True)]
        memory.outputs = frozenset(cells)
        for cell in cells:
            translator.bind(cell.name, cell)
        translator.run(self._post)
        found = [memory.state.cells.get(cell) for cell in cells]
        for cell, slot in zip(cells, found, strict=True):
            if slot is None:
                raise KernelSyntaxError(f"{self.name}: output {cell.name!r} is never written by post_map_expr")
            if slot.written is not memory.true:  # another path keeps what the output holds
                raise OutputReadError
        return [slot.value for slot in found if slot is not None]

    def _identity_value(self, types: dict[str, DType], accumulator: Any) -> tuple[Any, ...] | None:
        if self._identity is None:
            return None
        b = Builder(math=self.math)
        numbers = leaves(self._value(b, self._identity, types, accumulator, {}))
        programs = [storing(Builder(math=self.math), "out", [node]) for node in numbers]
        for program in programs:
            self._refuse_loops(program)
        return tuple(map(stored_value, programs))

    def _refuse_loops(self, program: Program) -> None:
        if any(node.op == "fact" for node in program.nodes):
            raise KernelSyntaxError(
                f"{self.name}: _ind.get(), shape() and ndim are for element-wise kernels, and for maps of raw arrays"
            )
        if any(node.op == "loop" for node in program.nodes):
            raise KernelSyntaxError(
                f"{self.name}: a function of its preamble has a loop that ends with the data, or is too long to be "
                "written out, which a reduction's expressions cannot run; compute an array with an element-wise kernel "
                "and reduce that"
            )


def _whole(accumulator: Any) -> Any:
    """A function that makes an accumulator of its numbers."""
    return (
        (lambda nodes: accumulator.of(iter(nodes))) if isinstance(accumulator, StructType) else (lambda nodes: nodes[0])
    )


def _bind(translator: Translator, name: str, value: Any) -> None:
    """Declare a name for a value."""
    if isinstance(value, StructValue):
        translator.bind(name, ReadOnly(translator.memory.temporary(translator.own_value(value))))
    else:
        translator.bind(name, Constant(value))


def _bind_input(translator: Translator, number: int, param: Param, name: str = "", *, needs_index: bool) -> None:
    """Declare an input."""
    name = name or param.name
    if param.is_raw:
        translator.bind(name, ReadOnly(translator.memory.raw(Raw(name, param.dtype, number))))
        return
    found = ReadOnly(translator.memory.cell(name, param.dtype, number))
    translator.bind(name, Own(name, found) if needs_index and not param.is_scalar else found)


def _bind_sizes(translator: Translator, in_size: Node, out_size: Node) -> None:
    """Declare ``_in_ind`` and ``_out_ind``."""
    translator.bind("_in_ind", ShapeOfCall("_in_ind", in_size, has_axes=False))
    translator.bind("_out_ind", ShapeOfCall("_out_ind", out_size, has_axes=False))
