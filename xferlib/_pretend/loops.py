"""CuPy's element-wise kernels as loops of CUDA C, for operations that `xl.elementwise` does not take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import xferlib as xl
from xferlib.errors import ArgumentError

_HEAD = """
struct Indexer { long long count; __device__ long long size() const { return count; } };
template <typename T> struct RawArray {
    T *data; const long long *extents; int ndim;
    __device__ T &operator[](long long i) const { return data[i]; }
    template <typename I, int N> __device__ T &operator[](const I (&index)[N]) const {
        long long at = 0;
        for (int k = 0; k < N; ++k) at = at * extents[k] + index[k];
        return data[at];
    }
    __device__ const long long *shape() const { return extents; }
    __device__ long long size() const { long long n = 1; for (int k = 0; k < ndim; ++k) n *= extents[k]; return n; }
};
"""
_COMPLEX = """
#include <cuda/std/complex>
using cuda::std::complex;
"""
_THREADS = 128
_NAMES = {"bool": "bool", "complex64": "complex<float>", "complex128": "complex<double>", "float16": "__half",
          "float32": "float", "float64": "double"}  # fmt: skip


class LoopParameter(NamedTuple):
    """A parameter of a kernel."""

    type: str
    name: str
    is_raw: bool
    is_out: bool


def parse(text: str, *, is_out: bool) -> list[LoopParameter]:
    """The parameters in CuPy's text."""
    found = []
    for each in filter(None, (part.split() for part in text.split(","))):
        words = [word for word in each if word not in ("raw", "const")]
        found.append(LoopParameter(words[0], words[1], "raw" in each, is_out))
    return found


def _c_name(dtype: Any) -> str:
    kind = np.dtype(dtype)
    return _NAMES.get(kind.name) or {"i": "", "u": "unsigned "}[kind.kind] + {
        1: "signed char" if kind.kind == "i" else "char", 2: "short", 4: "int", 8: "long long",
    }[kind.itemsize]  # fmt: skip


class CudaLoop:
    """A kernel whose operation is compiled as it stands: one thread for each element, arrays of C order.

    Args:
        in_params: CuPy's parameters, as text: ``raw`` ones are indexed by the operation.
        out_params: The same of the results.
        operation: Statements for the element of index ``i``.
        name: Of the kernel.
        preamble: Source that stands before it.
        loop_prep: Statements before the loop over the elements of a thread.
        after_loop: Statements behind it.
        options: Of the compiler.
    """

    def __init__(
        self, in_params: str, out_params: str, operation: str, name: str, preamble: str = "", *, loop_prep: str = "",
        after_loop: str = "", options: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self._parameters = [*parse(in_params, is_out=False), *parse(out_params, is_out=True)]
        self._inputs = sum(not each.is_out for each in self._parameters)
        self._text = operation, loop_prep, after_loop, preamble
        self._name, self._options = name, tuple(options)
        self._compiled: dict[tuple[Any, ...], Any] = {}

    def __call__(self, *args: Any, size: int | None = None) -> Any:
        if len(args) not in (self._inputs, len(self._parameters)):
            raise ArgumentError(
                f"{self._name}: {len(args)} arguments; it takes {self._inputs}, or {len(self._parameters)} with results"
            )
        types = self._types(args)
        shape = np.broadcast_shapes(*(
            each.shape for each, p in zip(args, self._parameters, strict=False) if xl.is_array(each) and not p.is_raw
        ))  # fmt: skip
        count = int(np.prod(shape)) if size is None else int(size)
        given, meta, results = [], [], []
        xp = xl.namespace()
        for number, parameter in enumerate(self._parameters):
            x = args[number] if number < len(args) else xl.empty(shape, types[parameter.type])
            if not xl.is_array(x):
                given.append(np.dtype(types[parameter.type]).type(x))
                continue
            if not parameter.is_raw and x.shape != shape:
                x = xp.broadcast_to(x, shape)
            whole = xl.to_device(x, order="C") if not parameter.is_out and not _is_whole(x) else x
            if not _is_whole(whole):
                raise NotImplementedError(f"{self._name}: the result {parameter.name!r} is not in C order")
            meta += [whole.ndim, *whole.shape]
            given.append(whole)
            if parameter.is_out:
                results.append(whole)
        kinds = tuple((xl.is_array(x), str(x.dtype)) for x in given)
        kernel = self._compiled.get(kinds)
        if kernel is None:
            kernel = self._compiled[kinds] = self._compile(types, given)
        if count:
            extents = xl.to_device(np.asarray(meta or [0], np.int64))
            blocks = min(-(-count // _THREADS), 65535)
            kernel((blocks,), (_THREADS,), [*given, extents, np.int64(count)])
        return results[0] if len(results) == 1 else tuple(results) or None

    def _types(self, args: Sequence[Any]) -> dict[str, Any]:
        """The dtype of each name of a type: of an argument that has it, or a dtype's own name."""
        found: dict[str, Any] = {}
        for value, parameter in zip(args, self._parameters, strict=False):
            if xl.is_array(value) or parameter.type not in found:
                found[parameter.type] = np.dtype(value.dtype) if hasattr(value, "dtype") else np.dtype(type(value))
        for parameter in self._parameters:
            if len(parameter.type) > 1:
                found[parameter.type] = np.dtype(parameter.type)
        return found

    def _compile(self, types: dict[str, Any], given: Sequence[Any]) -> Any:
        operation, before, behind, preamble = self._text
        heads, begins, elements, at = [], [], [], 0
        for parameter, x in zip(self._parameters, given, strict=True):
            name, kind = parameter.name, _c_name(x.dtype)
            if not xl.is_array(x):
                heads.append(f"{kind} {name}")
                continue
            const = "" if parameter.is_out else "const "
            heads.append(f"{const}{kind} *p_{name}")
            if parameter.is_raw:
                begins.append(f"RawArray<{const}{kind}> {name} = {{p_{name}, meta_ + {at + 1}, (int)meta_[{at}]}};")
            else:
                elements.append(f"{const}{kind} &{name} = p_{name}[i];")
            at += 1 + x.ndim
        named = {each: dtype for each, dtype in types.items() if len(each) == 1}
        uses_complex = any(np.dtype(each).kind == "c" for each in types.values())
        head = ", ".join([*heads, "const long long *meta_", "long long n_"])
        source = "\n".join([
            _COMPLEX if uses_complex else "", _HEAD,
            *(f"typedef {_c_name(kind)} {each};" for each, kind in named.items()),
            preamble, f'extern "C" __global__ void {self._name}({head}) {{',
            "Indexer _ind = {n_};", *begins, before,
            "long long step_ = gridDim.x * (long long)blockDim.x;",
            "for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n_; i += step_) {",
            *elements, operation + ";", "}", behind, "}",
        ])  # fmt: skip
        return xl.raw_module(source, options=self._options).get_function(self._name)


def _is_whole(x: Any) -> bool:
    return xl.get_backend(x).view(x).is_c_contiguous
