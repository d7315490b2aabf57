"""Updates of arrays' elements in CUDA C: see `xferlib.kernels.ir.updates`."""

from __future__ import annotations

from collections.abc import Iterable

from xferlib.kernels.engines.cuda.ops import binary, c_type, loaded, storage_type, stored
from xferlib.kernels.ir.loops import bodies
from xferlib.kernels.ir.nodes import DType, Program
from xferlib.kernels.ir.updates import Update

FUNCTIONS = """\
template <typename T, typename F> __device__ __forceinline__ T xf_update(char* at, F next) {
  if constexpr (sizeof(T) == 8) {
    union { unsigned long long bits; T value; } before, after;
    unsigned long long* word = (unsigned long long*)at;
    unsigned long long seen = *(volatile unsigned long long*)word;
    do { before.bits = seen; after.value = next(before.value); seen = atomicCAS(word, before.bits, after.bits); }
    while (seen != before.bits);
    return before.value;
  } else {
    union { unsigned int bits; T value; } before, after;
    const unsigned int byte = (unsigned int)((unsigned long long)at & 3), shift = 8 * byte;
    const unsigned int own = (sizeof(T) == 4 ? 0xffffffffu : (1u << 8 * sizeof(T) % 32) - 1u) << shift;
    unsigned int* word = (unsigned int*)(at - byte);
    unsigned int seen = *(volatile unsigned int*)word, now;
    do {
      now = seen; before.bits = (now & own) >> shift; after.bits = 0; after.value = next(before.value);
      seen = atomicCAS(word, now, (now & ~own) | (after.bits << shift));
    } while (seen != now);
    return before.value;
  }
}
"""
"""Any update of an element of up to 8 bytes, by compare-and-swap on the word around it."""

_NATIVE = {
    "int32": "unsigned int", "uint32": "unsigned int", "int64": "unsigned long long", "uint64": "unsigned long long",
    "float32": "float", "float64": "double",
}  # fmt: skip
"""The types whose sums a device has an instruction for; two's complement serves signed integers."""


def kinds(programs: Iterable[Program]) -> set[str]:
    """The kinds of updates in programs and their loops."""
    inner = [each for program in programs for each in bodies(program)]
    return {node.attr.kind for each in inner for node in each.nodes if node.op == "update"}


def statement(what: Update, dtype: DType, address: str, args: list[str], name: str) -> str:
    """The statement that updates the element at ``address`` and puts its value before into ``name``."""
    memory, value = storage_type(dtype), args[1]
    if what.kind == "add" and dtype.name in _NATIVE:
        native = _NATIVE[dtype.name]
        return f"{name} = ({c_type(dtype)})atomicAdd(({native}*)({address}), ({native}){value});"
    if what.kind == "exch":
        after = stored(value, dtype)
    elif what.kind == "cas":
        after = f"before == {args[3]} ? {stored(value, dtype)} : old"
    else:
        after = stored(binary(what.kind, dtype, "before", value), dtype)
    function = (
        f"[&]({memory} old) {{ const {c_type(dtype)} before = {loaded('old', dtype)}; return ({memory})({after}); }}"
    )
    return f"{name} = {loaded(f'xf_update<{memory}>({address}, {function})', dtype)};"
