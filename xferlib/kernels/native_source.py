"""C for an element-wise program: loops over arrays of any layout, from the nodes that CUDA C++ is written from.

One text serves every call of a program: extents and strides are arguments, or each new shape would wait for the
compiler. A loop over any strides is what a compiler cannot vectorise. So there is one loop, over contiguous memory: an
operand that is not contiguous is gathered into a small buffer first, block by block, and a result scattered from one.

What rounds is written as plain C: the options of the compiler (`OPTIONS`) let nothing be contracted or reordered. No
function of another library is called, and nothing is included.

Errors that the NumPy engine finds between its steps are noted at numbered `Site`\\ s, in the order of those steps; the
engine reads them when the function returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xferlib.kernels import cuda_source
from xferlib.kernels.cuda_source import (
    FMA_OF_HALF,
    Dialect,
    Writer,
    binary,
    c_type,
    storage_type,
    to_memory,
    to_register,
)
from xferlib.kernels.formulas import expand
from xferlib.kernels.indices import is_distinct
from xferlib.kernels.ir import FLOAT16, FLOAT64, DType, Node, Program, Store, bodies, facts, is_float

OPTIONS = (
    "-std=gnu11", "-O3", "-w", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-fno-strict-aliasing",
    "-fwrapv", "-fno-tree-loop-distribute-patterns", "-fvisibility=hidden",
)  # fmt: skip
"""IEEE arithmetic; a loop that copies is not made a call of another library's function."""

ENTRY = "xf_kernel"
HEAD = 4
"""Numbers of the geometry before the lengths of raw arrays: rank, size, most turns of a loop, nothing yet."""
MOST_AXES = 64
STORED_BLOCK = 16384
"""Elements whose indexed stores are kept until all of them are computed, as the NumPy engine does."""


@dataclass(frozen=True, slots=True)
class Site:
    """A place where a call may fail."""

    kind: str
    """``index``: beyond an array; ``stored``: two values for one element; ``loop``: too many turns."""
    param: int
    """The parameter of the array."""


@dataclass(frozen=True, slots=True)
class NativeSource:
    """The text of a program.

    ``scratch_nbytes`` is the memory that a call needs for each element of a block of `STORED_BLOCK`.
    """

    text: str
    sites: tuple[Site, ...]
    scratch_nbytes: int
    is_ordered: bool
    """Whether the elements must be computed one after the other."""


def why_not(program: Program) -> str:
    """Why a program has no C text yet; empty if it has one."""
    for each in bodies(expand(program)):
        each = expand(each)
        for node in each.nodes:
            if node.op == "call":
                return f"{node.attr} of {node.dtype} is computed by NumPy"
            if node.op == "update" and node.attr.kind == "store" and not is_distinct(node.args[0], list(each.params)):
                return "writes in an order are compared with one another by NumPy"
    return ""


def needs_fma(program: Program) -> bool:
    """Whether it needs the processor's fused multiply-add."""
    programs = [expand(each) for each in bodies(expand(program))]
    return any(node.op == "fma" and node.dtype != FLOAT16 for each in programs for node in each.nodes)


def native_source(program: Program) -> NativeSource:
    """The C text of a program."""
    return _NativeWriter(expand(program)).source()


def _no_call(node: Node, args: list[str], math: str) -> str:
    raise AssertionError(node.attr)  # see `why_not`


class _NativeWriter:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.params = list(program.params)
        self.elements, self.raw, self.scalars = program.elements, program.raw, program.scalars
        self.facts = facts(program)
        self.sites: list[Site] = []
        self.names: dict[int, str] = {}
        self.kept = self._kept_stores()
        self.dialect = Dialect(
            typed=lambda name, dtype: f"{name}_{dtype.name}",
            pair=lambda kind, x, y: f"({kind}){{{x}, {y}}}",
            nothing="{0}",
            call=_no_call,
            begin_loop=self._begin_loop,
        )

    def source(self) -> NativeSource:
        block = self._block()
        text = "".join([PRELUDE, _needed(self.program), block, self._driver()])
        nbytes = sum(9 + self._dtype(self.program.stores[n].param).itemsize for n in self.kept)
        is_ordered = any(node.op == "update" for each in bodies(self.program) for node in each.nodes)
        return NativeSource(text, tuple(self.sites), nbytes, is_ordered)

    def _kept_stores(self) -> list[int]:
        """The indexed stores that wait until the block is computed: the order of elements or stores could show."""
        stores = self.program.stores
        indexed = [number for number, store in enumerate(stores) if store.index is not None]
        targets = [stores[number].param for number in indexed]
        is_plain = len(set(targets)) == len(targets) and not set(targets) & self.program.reads
        if is_plain and all(is_distinct(self._index(stores[number]), self.params) for number in indexed):
            return []
        return indexed

    def _index(self, store: Store) -> Node:
        assert store.index is not None
        return store.index

    def _dtype(self, number: int) -> DType:
        return self.params[number].dtype

    def _site(self, kind: str, param: int) -> int:
        self.sites.append(Site(kind, param))
        return len(self.sites) - 1

    def _begin_loop(self, name: str, start: str) -> list[str]:
        note = f"xf_miss(xf_report + {3 * self._site('loop', -1)}, 0)"
        return [
            f"    long long {name}_turns = 0;",
            f"    for (bool {name} = {start}; {name};) {{",
            f"    if ({name}_turns++ >= xf_most) {{ {note}; break; }}",
        ]

    # --- the block: contiguous operands
    def _block(self) -> str:
        # A site is numbered when its statement is written: nodes first, then stores.
        lines = self._nodes()
        stores = self._stores()
        loads, names = [], []
        for number in self.elements:
            memory = storage_type(self._dtype(number))
            const = "" if number in self.program.writes else "const "
            names.append(f"  {const}{memory} *p{number} = ({const}{memory} *)q[{self.elements.index(number)}];\n")
            if number in self.program.reads:
                loads.append(f"    const {memory} l{number} = p{number}[j];\n")
        for number in self.raw:
            memory = storage_type(self._dtype(number))
            const = "" if number in self.program.writes else "const "
            names.append(f"  {const}{memory} *p{number} = ({const}{memory} *)p[{number}];\n")
            names.append(f"  const long long n{number} = g[{HEAD + self.raw.index(number)}];\n")
        for number in self.scalars:
            names.append(f"  const {storage_type(self._dtype(number))} s{number} = "
                         f"*(const {storage_type(self._dtype(number))} *)p[{number}];\n")  # fmt: skip
        for number, _ in enumerate(self.facts):
            names.append(f"  const long long fact{number} = g[{HEAD + len(self.raw) + number}];\n")
        ahead = "" if self._has_order() else "  XF_INDEPENDENT\n"
        return (
            "static void xf_block(long long n, long long first, char *const *q, char *const *p, const long long *g, "
            "long long *xf_report, char *scratch) {\n"
            "  const long long xf_size = g[1], xf_most = g[2];\n"
            + "".join(names) + self._scratch() + ahead
            + "  for (long long j = 0; j < n; ++j) {\n" + "".join(loads)
            + "".join(f"{each}\n" for each in lines) + "".join(f"    {each}\n" for each in stores)
            + "  }\n" + self._late_stores() + "}\n"
        )  # fmt: skip

    def _has_order(self) -> bool:
        """Whether iterations may not be computed at a time."""
        return bool(self.program.effects) or any(store.index is not None for store in self.program.stores)

    def _nodes(self) -> list[str]:
        writer = Writer(self._leaf, self._gather, self._update, self.program.math, self.dialect)
        return writer.statements(self.program.nodes, self.names, "v")

    def _leaf(self, node: Node) -> str:
        if node.op == "load":
            is_scalar = self.params[node.attr].is_scalar
            return to_register(f"{'s' if is_scalar else 'l'}{node.attr}", node.dtype)
        if node.op == "fact":
            return f"fact{self.facts.index(node.attr)}"
        return {"index": "first + j", "size": "xf_size"}.get(node.op, f"n{node.attr}")

    def _inside(self, index: str, array: int) -> str:
        site = self._site("index", array)
        return f"XF_INSIDE({index}, n{array}, xf_report + {3 * site})"

    def _gather(self, node: Node, array: int, args: list[str]) -> str:
        index, *mask = args
        inside = " && ".join([*mask, self._inside(index, array)])
        value = to_register(f"p{array}[{index}]", node.dtype)
        zero = f"({c_type(node.dtype)}){{0, 0}}" if node.dtype.kind == "c" else f"({c_type(node.dtype)})0"
        return f"{inside} ? {value} : {zero}"

    def _update(self, node: Node, array: int, args: list[str], name: str) -> str:
        index, value, mask, *rest = args
        what, dtype = node.attr, node.dtype
        at = f"p{array}[{index}]"
        before = f"{name} = {to_register(at, dtype)}; "
        if what.kind in ("store", "exch"):
            done = f"{at} = {to_memory(value, dtype)};"
        elif what.kind == "cas":
            done = f"if ({name} == {rest[0]}) {at} = {to_memory(value, dtype)};"
        else:
            done = f"{at} = {to_memory(binary(what.kind, dtype, name, value, self.dialect), dtype)};"
        return f"if ({mask} && {self._inside(index, array)}) {{ {before}{done} }}"

    # --- stores
    def _stores(self) -> list[str]:
        lines = []
        for number, store in enumerate(self.program.stores):
            dtype = self._dtype(store.param)
            value = to_memory(self.names[id(store.value)], dtype)
            if store.index is None:
                lines.append(f"p{store.param}[j] = {value};")
                continue
            index = self.names[id(store.index)]
            mask = "1" if store.mask is None else self.names[id(store.mask)]
            if number in self.kept:
                lines.append(f"i{number}[j] = {index}; w{number}[j] = {value}; m{number}[j] = {mask};")
                continue
            lines.append(f"if ({mask} && {self._inside(index, store.param)}) p{store.param}[{index}] = {value};")
        return lines

    def _scratch(self) -> str:
        """The arrays of the stores that wait, in the caller's memory: the widest elements first."""
        lines, at = [], 0
        for name, kind, size in sorted(
            [
                part
                for number in self.kept
                for dtype in [self._dtype(self.program.stores[number].param)]
                for part in (
                    (f"i{number}", "long long", 8),
                    (f"w{number}", storage_type(dtype), dtype.itemsize),
                    (f"m{number}", "bool", 1),
                )
            ],
            key=lambda part: -part[2],
        ):
            lines.append(f"  {kind} *{name} = ({kind} *)(scratch + {at * STORED_BLOCK});\n")
            at += size
        return "".join(lines)

    def _late_stores(self) -> str:
        lines = []
        for number in self.kept:
            store = self.program.stores[number]
            to, index = f"p{store.param}", f"i{number}[j]"
            each = f"  for (long long j = 0; j < n; ++j) if (m{number}[j]"
            lines.append(f"{each} && !({self._inside(index, store.param)})) m{number}[j] = 0;")
            lines.append(f"  if (xf_report[{3 * len(self.sites) - 3}]) return;")
            lines.append(f"{each}) {to}[{index}] = w{number}[j];")
            if not is_distinct(self._index(store), self.params):
                site = self._site("stored", store.param)
                differs = f"xf_differs((const char *)&{to}[{index}], (const char *)&w{number}[j], sizeof *{to})"
                lines.append(f"{each} && {differs}) {{ xf_miss(xf_report + {3 * site}, {index}); return; }}")
        return "".join(f"{each}\n" for each in lines)

    # --- the function that is called
    def _driver(self) -> str:
        sizes = ", ".join(str(self._dtype(number).itemsize) for number in self.elements) or "1"
        aligned = ", ".join(str(self._dtype(number).alignment) for number in self.elements) or "1"
        reads = ", ".join(str(int(number in self.program.reads)) for number in self.elements) or "0"
        writes = ", ".join(str(int(number in self.program.writes)) for number in self.elements) or "0"
        places = ", ".join(map(str, self.elements)) or "0"
        widest = max((self._dtype(number).itemsize for number in self.elements), default=1)
        return DRIVER.replace("@COUNT", str(len(self.elements))).replace("@SIZES", sizes).replace(
            "@ALIGNED", aligned).replace("@READS", reads).replace("@WRITES", writes).replace(
            "@PLACES", places).replace("@WIDEST", str(widest)).replace("@ROOM", str(max(len(self.elements), 1))).replace(
            "@GEOMETRY", str(HEAD + len(self.raw) + len(self.facts))).replace("@SITES", str(max(1, len(self.sites)))
            ).replace("@LATE", str(STORED_BLOCK if self.kept else 1 << 62))  # fmt: skip


# The C functions that texts use.

PRELUDE = """\
#define bool _Bool
#define true 1
#define false 0
#define __device__ static
#define __forceinline__ inline
#if defined(__clang__)
#define XF_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define XF_INDEPENDENT _Pragma("GCC ivdep")
#else
#define XF_INDEPENDENT
#endif
#if defined(__GNUC__)
#define XF_RARE __attribute__((noinline, cold))
#define XF_ANY __attribute__((aligned(1), may_alias))
#define XF_EXPORT __attribute__((visibility("default")))
#else
#define XF_RARE
#define XF_ANY
#define XF_EXPORT
#endif
typedef struct { float x, y; } xf_c64;
typedef struct { double x, y; } xf_c128;
static inline float __int_as_float(unsigned int bits) { union { unsigned int i; float f; } it; it.i = bits; return it.f; }
static inline float __uint_as_float(unsigned int bits) { return __int_as_float(bits); }
static inline unsigned int __float_as_uint(float x) { union { unsigned int i; float f; } it; it.f = x; return it.i; }
static inline double __longlong_as_double(long long bits) { union { long long i; double f; } it; it.i = bits; return it.f; }
static inline long long __double_as_longlong(double x) { union { long long i; double f; } it; it.f = x; return it.i; }
#define __fadd_rn(x, y) ((x) + (y))
#define __fsub_rn(x, y) ((x) - (y))
#define __fmul_rn(x, y) ((x) * (y))
#define __fdiv_rn(x, y) ((x) / (y))
#define __dadd_rn(x, y) ((x) + (y))
#define __dsub_rn(x, y) ((x) - (y))
#define __dmul_rn(x, y) ((x) * (y))
#define __ddiv_rn(x, y) ((x) / (y))
#define __fmaf_rn(x, y, z) __builtin_fmaf(x, y, z)
#define __fma_rn(x, y, z) __builtin_fma(x, y, z)
#define __fsqrt_rn(x) __builtin_sqrtf(x)
#define __dsqrt_rn(x) __builtin_sqrt(x)
static inline float fabsf(float x) { return __uint_as_float(__float_as_uint(x) & 0x7fffffffu); }
static inline double fabs(double x) { return __longlong_as_double(__double_as_longlong(x) & 0x7fffffffffffffffll); }
/* Note a number at a site: how often, the least and the greatest. */
XF_RARE static void xf_miss(long long *site, long long number) {
  if (!site[0]++) site[1] = site[2] = number;
  if (number < site[1]) site[1] = number;
  if (number > site[2]) site[2] = number;
}
#define XF_INSIDE(index, length, site) \\
  ((unsigned long long)(index) < (unsigned long long)(length) || (xf_miss(site, index), 0))
static int xf_differs(const char *x, const char *y, int nbytes) {
  for (int i = 0; i < nbytes; ++i) if (x[i] != y[i]) return 1;
  return 0;
}
"""

_ROUNDING = """\
#if defined(__SSE4_1__) || defined(__aarch64__)
#define floorf __builtin_floorf
#define ceilf __builtin_ceilf
#define truncf __builtin_truncf
#define rintf __builtin_rintf
#define floor __builtin_floor
#define ceil __builtin_ceil
#define trunc __builtin_trunc
#define rint __builtin_rint
#else
/* By the addition of a number whose last bit counts one; the sign of zero is the operand's. */
#define XF_ROUND(T, F, SIGN, WHOLE, BITS, BACK, FABS, U, TOP) \\
  static inline T SIGN(T y, T x) { return BACK((BITS(y) & ~(U)TOP) | (BITS(x) & (U)TOP)); } \\
  static inline T rint##F(T x) { T a = FABS(x), y = (a + WHOLE) - WHOLE; return a < WHOLE ? SIGN(y, x) : x; } \\
  static inline T floor##F(T x) { T y = rint##F(x); return y > x ? SIGN(y - 1, x) : y; } \\
  static inline T ceil##F(T x) { T y = rint##F(x); return y < x ? SIGN(y + 1, x) : y; } \\
  static inline T trunc##F(T x) { T a = FABS(x), y = rint##F(a); return a < WHOLE ? SIGN(y > a ? y - 1 : y, x) : x; }
XF_ROUND(float, f, xf_signf, 0x1p23f, __float_as_uint, __uint_as_float, fabsf, unsigned int, 0x80000000u)
XF_ROUND(double, , xf_sign, 0x1p52, __double_as_longlong, __longlong_as_double, fabs, long long, 0x8000000000000000ll)
#endif
"""

_FMOD = """\
/* The exact remainder: long division of the significands, bit by bit. */
static double xf_long_fmod(double x, double y) {
  unsigned long long a = __double_as_longlong(x) & 0x7fffffffffffffffull, b = __double_as_longlong(y) & 0x7fffffffffffffffull;
  const unsigned long long sign = __double_as_longlong(x) & 0x8000000000000000ull, inf = 0x7ff0000000000000ull;
  if (a >= inf || b > inf || b == 0) return __longlong_as_double(0x7ff8000000000000ll);
  if (a < b) return x;
  int ea = (int)(a >> 52), eb = (int)(b >> 52);
  a &= 0xfffffffffffffull; b &= 0xfffffffffffffull;
  if (ea) a |= 1ull << 52; else ea = 1;
  if (eb) b |= 1ull << 52; else eb = 1;
  for (; ea > eb; --ea) { if (a >= b) a -= b; a <<= 1; }
  if (a >= b) a -= b;
  if (!a) return __longlong_as_double((long long)sign);
  while (!(a >> 52) && ea > 1) { a <<= 1; --ea; }
  if (a >> 52) a = (a & 0xfffffffffffffull) | (unsigned long long)ea << 52;
  return __longlong_as_double((long long)(a | sign));
}
static inline double fmod(double x, double y) {
  double a = fabs(x), b = fabs(y);
  if (a < b) return x;
#if defined(__FMA__) || defined(__aarch64__)
  /* The quotient is the right one or one more, and the difference exact: it is a multiple of what b's last bit counts. */
  double q = a / b;
  if (q < 0x1p52 && b < __longlong_as_double(0x7ff0000000000000ll)) {
    double r = __builtin_fma(-(double)(long long)q, b, a);
    r = r < 0 ? r + b : r;
    return __longlong_as_double(__double_as_longlong(r) | (__double_as_longlong(x) & ~0x7fffffffffffffffll));
  }
#endif
  return xf_long_fmod(x, y);
}
static inline float fmodf(float x, float y) {
  /* With a quotient below 2^28 its product with y, and the difference, are exact in double. */
  double a = fabs((double)x), b = fabs((double)y), q = a / b;
  if (!(q < 0x1p28 && b < 0x1p128)) return (float)xf_long_fmod(x, y);
  double r = a - (double)(int)q * b;
  r = r < 0 ? r + b : r;
  return __uint_as_float(__float_as_uint((float)r) | (__float_as_uint(x) & 0x80000000u));
}
"""

_HALF = """\
/* In integers, which compilers vectorise on any processor, and which keep the bits of a NaN. */
static inline float xf_from_half(unsigned short half) {
  unsigned int h = half, a = h & 0x7fffu, sign = (h & 0x8000u) << 16;
  unsigned int normal = (a << 13) + (a < 0x7c00u ? 112u << 23 : 224u << 23);
  unsigned int small = __float_as_uint((float)(int)a * 0x1p-24f);
  return __uint_as_float((a < 0x400u ? small : normal) | sign);
}
static inline unsigned short xf_to_half(float f) {
  unsigned int u = __float_as_uint(f), a = u & 0x7fffffffu, sign = u >> 16 & 0x8000u;
  unsigned int normal = ((a + 0xfffu + (a >> 13 & 1u)) >> 13) - (112u << 10);
  unsigned int small = __float_as_uint(__uint_as_float(a < 0x38800000u ? a : 0u) * 0x1p24f + 0x1p23f) & 0xffffu;
  unsigned int nan = 0x7c00u | (a >> 13 & 0x3ffu);
  unsigned int found = a < 0x38800000u ? small : a >= 0x47800000u ? 0x7c00u : normal;
  nan = nan == 0x7c00u ? 0x7e00u : nan;
  return (unsigned short)((a > 0x7f800000u ? nan : found) | sign);
}
static inline float xf_half(float f) { return xf_from_half(xf_to_half(f)); }
/* By way of a float that is rounded to odd, so that rounding it again is right. */
static inline float xf_half_of_double(double d) {
  float f = (float)d;
  double back = (double)f;
  unsigned int bits = __float_as_uint(f), odd = (fabs(back) > fabs(d) ? bits - 1 : bits) | 1u;
  return xf_half(__uint_as_float(back == d || d != d ? bits : odd));
}
"""

_CHOICE = """\
static inline float xf_min_f(float x, float y) {
  float same = __uint_as_float(__float_as_uint(x) | __float_as_uint(y));
  return x < y ? x : y < x ? y : x == y ? same : x + y;
}
static inline float xf_max_f(float x, float y) {
  float same = __uint_as_float(__float_as_uint(x) & __float_as_uint(y));
  return x > y ? x : y > x ? y : x == y ? same : x + y;
}
static inline double xf_min_d(double x, double y) {
  double same = __longlong_as_double(__double_as_longlong(x) | __double_as_longlong(y));
  return x < y ? x : y < x ? y : x == y ? same : x + y;
}
static inline double xf_max_d(double x, double y) {
  double same = __longlong_as_double(__double_as_longlong(x) & __double_as_longlong(y));
  return x > y ? x : y > x ? y : x == y ? same : x + y;
}
#define xf_min(x, y) _Generic((x), double: xf_min_d, default: xf_min_f)(x, y)
#define xf_max(x, y) _Generic((x), double: xf_max_d, default: xf_max_f)(x, y)
"""

_INTEGER = """\
#define xf_narrow_NAME(bits) ((T)(bits))
static inline T xf_idiv_NAME(T x, T y) {
  QUOTIENT
}
static inline T xf_imod_NAME(T x, T y) { return y == 0 ? (T)0 : (T)((U)x - (U)xf_idiv_NAME(x, y) * (U)y); }
static inline T xf_floordiv_NAME(T x, T y) {
  T quotient = xf_idiv_NAME(x, y), rest = xf_imod_NAME(x, y);
  return rest != 0 && ((rest < 0) != (y < 0)) ? (T)((U)quotient - 1) : quotient;
}
static inline T xf_floormod_NAME(T x, T y) {
  T rest = xf_imod_NAME(x, y);
  return rest != 0 && ((rest < 0) != (y < 0)) ? (T)((U)rest + (U)y) : rest;
}
static inline T xf_shl_NAME(T x, T count) {
  return (S)count < BITS ? (T)((U)x << ((U)count & (BITS - 1))) : (T)0;
}
static inline T xf_shr_NAME(T x, T count) {
  return (S)count < BITS ? (T)(x >> ((U)count & (BITS - 1))) : x < 0 ? (T)-1 : (T)0;
}
#define xf_saturate_NAME(x, low, high, least, most) \\
  ((x) != (x) ? (T)0 : (x) >= (high) ? (most) : (x) < (low) ? (least) : (T)(x))
"""

_BY_FLOAT = "F q = (F)x / (F)(y == 0 || y == NONE ? 1 : y); return y == 0 ? (T)0 : y == NONE ? MINUS : (T)q;"
"""In a float type of twice the bits a quotient is never rounded up to an integer; and it is vectorised."""
_BY_INTEGER = "return y == 0 ? (T)0 : y == NONE ? MINUS : (T)(x / (y == 0 || y == NONE ? (T)1 : y));"


def _integer_functions(dtype: DType) -> str:
    bits, is_signed = 8 * dtype.itemsize, dtype.kind == "i"
    kind = c_type(dtype)
    narrow = kind if not is_signed else f"unsigned {kind.removeprefix('signed ')}"
    quotient = _BY_INTEGER if bits == 64 else _BY_FLOAT
    quotient = quotient.replace("MINUS", "(T)(0 - (U)x)" if is_signed else "x")
    quotient = quotient.replace("NONE", "-1" if is_signed else "1").replace("F", "double" if bits == 32 else "float")
    text = _INTEGER.replace("QUOTIENT", quotient).replace("NAME", dtype.name).replace("BITS", str(bits))
    wide = "unsigned long long" if bits == 64 else "unsigned int"
    for name, meaning in (("T", kind), ("U", wide), ("S", narrow)):
        text = _word(text, name, meaning)
    return text


def _word(text: str, name: str, meaning: str) -> str:
    import re

    return re.sub(rf"\b{name}\b", meaning, text)


_TYPED = frozenset({"idiv", "imod", "floordiv", "floormod", "shl", "shr", "neg", "abs"})


def _needed(program: Program) -> str:
    """The functions that a program needs."""
    nodes: list[Any] = [node for each in bodies(program) for node in expand(each).nodes]
    dtypes = {node.dtype for node in nodes} | {param.dtype for each in bodies(program) for param in each.params}
    parts = []
    if any(node.op in ("floor", "ceil", "trunc", "rint") for node in nodes):
        parts.append(_ROUNDING)
    if any(node.op == "fmod" for node in nodes):
        parts.append(_FMOD)
    if FLOAT16 in dtypes:
        parts += [_HALF, FMA_OF_HALF]
    if any(node.op in ("min", "max") and is_float(node.dtype) for node in nodes) or any(
        node.op == "update" and node.attr.kind in ("min", "max") and is_float(node.dtype) for node in nodes
    ):
        parts.append(_CHOICE)
    typed = {
        node.dtype.name: node.dtype
        for node in nodes
        if node.dtype.kind in "iu" and (node.op in _TYPED or (node.op == "cast" and is_float(node.args[0].dtype)))
    }
    return "".join([*parts, *(_integer_functions(dtype) for _, dtype in sorted(typed.items()))])


DRIVER = """\
enum { XF_COUNT = @COUNT, XF_BLOCK = 256, XF_SHORT = 64 };
static const int xf_sizes[@ROOM] = {@SIZES}, xf_aligned[@ROOM] = {@ALIGNED}, xf_reads[@ROOM] = {@READS};
static const int xf_writes[@ROOM] = {@WRITES}, xf_places[@ROOM] = {@PLACES};
typedef struct { long long x, y; } xf_w16;
#define XF_MOVE(T) do { \\
    typedef T word XF_ANY; \\
    if (from_step == 0) { const T held = *(const word *)from; for (long long i = 0; i < n; ++i) ((word *)to)[i] = held; } \\
    else if (to_step == sizeof(T)) for (long long i = 0; i < n; ++i) ((word *)to)[i] = *(const word *)(from + i * from_step); \\
    else for (long long i = 0; i < n; ++i) *(word *)(to + i * to_step) = *(const word *)(from + i * from_step); \\
  } while (0)
static void xf_move(char *to, long long to_step, const char *from, long long from_step, long long n, int size) {
  switch (size) {
  case 1: XF_MOVE(unsigned char); break;
  case 2: XF_MOVE(unsigned short); break;
  case 4: XF_MOVE(unsigned int); break;
  case 8: XF_MOVE(unsigned long long); break;
  default: XF_MOVE(xf_w16);
  }
}
/* Between a buffer and n elements that may reach over several rows. */
static void xf_rows(char *buffer, char *base, const long long *start, long long rank, const long long *extent,
                    const long long *stride, long long n, int size, int is_store) {
  long long at[@AXES];
  for (long long a = 0; a < rank; ++a) at[a] = start[a];
  while (n > 0) {
    long long left = extent[rank - 1] - at[rank - 1], m = left < n ? left : n, step = stride[rank - 1];
    char *row = base;
    for (long long a = 0; a < rank; ++a) row += at[a] * stride[a];
    if (is_store) xf_move(row, step, buffer, size, m, size); else xf_move(buffer, size, row, step, m, size);
    buffer += m * size;
    n -= m;
    at[rank - 1] += m;
    for (long long a = rank - 1; a > 0 && at[a] == extent[a]; --a) { at[a] = 0; ++at[a - 1]; }
  }
}
static int xf_failed(const long long *report) {
  for (int s = 0; s < @SITES; ++s) if (report[3 * s]) return 1;
  return 0;
}
static int xf_general(char *const *p, const long long *g, long long begin, long long end, long long *report, char *scratch) {
  const long long rank = g[0], *extent = g + @GEOMETRY, *stride = extent + rank;
  long long at[@AXES];
  char *held[@ROOM]; /* the element that fills a buffer */
  char *q[@ROOM];
  _Alignas(64) char buffers[@ROOM][XF_BLOCK * @WIDEST];
  int is_unit[@ROOM], are_unit = 1;
  long long rest = begin;
  for (long long a = rank - 1; a >= 0; --a) { at[a] = a ? rest % extent[a] : rest; rest /= extent[a]; }
  for (int e = 0; e < XF_COUNT; ++e) {
    is_unit[e] = ((unsigned long long)p[xf_places[e]] % (unsigned)xf_aligned[e]) == 0;
    for (long long a = 0; a < rank; ++a)
      is_unit[e] &= a == rank - 1 ? stride[e * rank + a] == xf_sizes[e] : stride[e * rank + a] % xf_aligned[e] == 0;
    are_unit &= is_unit[e];
    held[e] = 0;
  }
  while (begin < end) {
    const long long left = extent[rank - 1] - at[rank - 1];
    const int is_row = left >= XF_SHORT || left >= end - begin;
    long long n = is_row ? left : XF_BLOCK;
    if (!are_unit && n > XF_BLOCK) n = XF_BLOCK;
    if (n > end - begin) n = end - begin;
    if (n > @LATEll) n = @LATEll;
    for (int e = 0; e < XF_COUNT; ++e) {
      const long long *own = stride + e * rank;
      char *base = p[xf_places[e]];
      long long offset = 0;
      for (long long a = 0; a < rank; ++a) offset += at[a] * own[a];
      if (is_row && is_unit[e]) { q[e] = base + offset; continue; }
      q[e] = buffers[e];
      if (!xf_reads[e]) continue;
      if (is_row && own[rank - 1] == 0) { /* one value for the row, kept from block to block */
        if (held[e] != base + offset) xf_move(buffers[e], xf_sizes[e], base + offset, 0, XF_BLOCK, xf_sizes[e]);
        held[e] = base + offset;
        continue;
      }
      held[e] = 0;
      xf_rows(buffers[e], base, at, rank, extent, own, n, xf_sizes[e], 0);
    }
    xf_block(n, begin, q, p, g, report, scratch);
    for (int e = 0; e < XF_COUNT; ++e)
      if (xf_writes[e] && q[e] == buffers[e])
        xf_rows(buffers[e], p[xf_places[e]], at, rank, extent, stride + e * rank, n, xf_sizes[e], 1);
    if (xf_failed(report)) return 1;
    begin += n;
    at[rank - 1] += n;
    for (long long a = rank - 1; a > 0 && at[a] >= extent[a]; --a) {
      at[a - 1] += at[a] / extent[a];
      at[a] %= extent[a];
    }
  }
  return 0;
}
XF_EXPORT int xf_kernel(char *const *p, const long long *g, long long begin, long long end, long long *report, char *scratch) {
  const long long *stride = g + @GEOMETRY + 1;
  int is_flat = g[0] == 1;
  char *q[@ROOM];
  for (int e = 0; e < XF_COUNT; ++e) {
    is_flat &= stride[e] == xf_sizes[e] && ((unsigned long long)p[xf_places[e]] % (unsigned)xf_aligned[e]) == 0;
    q[e] = p[xf_places[e]] + begin * xf_sizes[e];
  }
  if (!is_flat) return xf_general(p, g, begin, end, report, scratch);
  while (begin < end) {
    const long long n = end - begin < @LATEll ? end - begin : @LATEll;
    xf_block(n, begin, q, p, g, report, scratch);
    if (xf_failed(report)) return 1;
    for (int e = 0; e < XF_COUNT; ++e) q[e] += n * xf_sizes[e];
    begin += n;
  }
  return 0;
}
""".replace("@AXES", str(MOST_AXES))
