"""PTX as C: each kernel becomes a function of kernel.h, and each place that can be at fault a site with its line.

`translate` returns a complete C text: the headers are in it, so that it compiles anywhere, also in memory. Compile it
with the options of `code.list_c_options`. A library of it exports each kernel by `Kernel.symbol`, and
`void xf_init_module(char *block)`, which completes a block of the module's variables (addresses of variables and
functions) after their initial bytes were copied. The block's address is `xf_launch.module`: one library serves any
number of loaded modules.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

from xferlib.kernels.cuda_cpu.assembler import assemble
from xferlib.kernels.cuda_cpu.dataflow import ValueFlow, close, find_results, find_sources, find_unwritten, find_used
from xferlib.kernels.cuda_cpu.function_writer import UNSIGNED, FunctionWriter, UncoveredError, make_site
from xferlib.kernels.cuda_cpu.instructions import find_handler
from xferlib.kernels.cuda_cpu.layout import ModuleLayout, align_up
from xferlib.kernels.cuda_cpu.ptx import (
    Address,
    Instruction,
    Module,
    Operand,
    PtxError,
    PtxFunction,
    PtxVariable,
    Symbol,
)
from xferlib.kernels.cuda_cpu.translation import (
    SHARED_BEGIN,
    FaultSite,
    Kernel,
    KernelParameter,
    SharedVariable,
    TranslatedModule,
)
from xferlib.kernels.cuda_engine import USUAL_SHARED_NBYTES


def translate(module: Module, *, checked: bool, finds_overflow: bool = False) -> TranslatedModule:
    """Write the C text of all kernels of a module; `uncovered` of the result says why one is left out.

    Args:
        module: What `ptx.parse` returned.
        checked: Each access goes through `run->access`, `store` or `atomic`, and variables have redzones between them.
        finds_overflow: In checked code, report a signed product or sum that does not fit in 32 bits, where it is
            widened to be part of an address.

    Raises:
        PtxError: A name is not defined, or operands do not fit their instruction.
    """
    return _ModuleWriter(module, checked, finds_overflow).write()


class _ModuleWriter:
    def __init__(self, module: Module, checked: bool, finds_overflow: bool) -> None:
        self.module = module
        self.finds_overflow = finds_overflow
        for function in module.functions.values():
            if function.body is not None:
                function.body = assemble(function)
        self.layout = ModuleLayout(module, checked=checked)
        self.sites: list[FaultSite] = []
        self.entries = [f for f in module.functions.values() if f.is_entry and f.body is not None]
        required = {name for entry in self.entries for name in self.layout.reached[entry.name]}
        named = [
            relocation.target for _, variable in self.layout.relocations for relocation in variable.relocations
            if relocation.target in module.functions
        ]  # fmt: skip
        self.optional = [name for name in self.layout.reach(named) if name not in required]
        self.required = [name for name in module.functions if name in required]
        self.passes_doubts = checked and self.finds_doubts()

    def finds_doubts(self) -> bool:
        """Whether a function may give another one what has no value."""
        functions = [self.module.functions[name] for name in (*self.required, *self.optional)]
        return not all(function.is_entry for function in functions) and any(
            find_unwritten(function) or any(item.opcode == "shfl" for _, item in function.instructions)
            for function in functions
        )

    def write(self) -> TranslatedModule:
        bodies, failures = {}, {}
        local: dict[str, int] = {}
        facts: dict[str, FunctionWriter] = {}
        for name in [*self.required, *self.optional]:
            function = self.module.functions[name]
            mark = len(self.sites)
            try:
                writer = FunctionWriter(
                    self.layout, function, find_handler, self.sites, finds_overflow=self.finds_overflow,
                    passes_doubts=self.passes_doubts,
                )  # fmt: skip
                bodies[name] = writer.write()
            except UncoveredError as error:
                del self.sites[mark:]
                failures[name] = error
                if not function.is_entry:
                    # A kernel that has only its address may call it after all, and is stopped there.
                    self.sites.append(error.site)
                    bodies[name] = f"{self.layout.declare(function)} {{ t->run->unsupported(t, {mark}); return 0; }}"
                continue
            local[name], facts[name] = writer.local_nbytes, writer
        uncovered = {}
        for entry in self.entries:
            for name in self.layout.reached[entry.name]:
                if name in failures:
                    uncovered[entry.name] = str(failures[name])
                    bodies.pop(entry.name, None)
        declarations = [self.layout.declare(self.module.functions[name]) + ";" for name in bodies]
        if any(writer.calls_pointers for writer in facts.values()):
            declarations.append(self.layout.write_functions(bodies.keys()))
        text = "\n".join([*declarations, *bodies.values(), self.write_init(bodies.keys())])
        kernels = {
            entry.name: self.describe_kernel(entry, local, facts) for entry in self.entries if entry.name in bodies
        }
        return TranslatedModule(
            "\n".join([_read_headers(), _choose_helpers(text), text, ""]), kernels, self.layout.variables,
            self.layout.block_nbytes, self.layout.block_align, self.sites, uncovered,
            capability=int("".join(filter(str.isdigit, self.module.target)) or 0),
        )  # fmt: skip

    def describe_kernel(self, entry: PtxFunction, local: dict[str, int], facts: dict[str, FunctionWriter]) -> Kernel:
        layout, reached = self.layout, self.layout.reached[entry.name]
        offset, params = 0, []
        for variable in entry.params:
            offset = align_up(offset, variable.align)
            params.append(KernelParameter(variable.name, offset, variable.nbytes, variable.align))
            offset += variable.nbytes
        variables = layout.find_window(entry.name)
        shared = tuple(SharedVariable(v.name, layout.offsets[id(v)], v.nbytes) for v in variables)
        end = max((layout.shared_end[id(v)] for v in variables), default=SHARED_BEGIN)
        static = 0
        for variable in variables:
            static = align_up(static, max(variable.align, 1)) + variable.nbytes
        if static > USUAL_SHARED_NBYTES:
            raise PtxError(
                f"'{entry.name}' has {static} bytes of shared variables, and the most is "
                f"{USUAL_SHARED_NBYTES}; use dynamic shared memory for more"
            )
        indirect = any(facts[name].calls_pointers for name in reached if name in facts)
        reached_all = {*reached, *(self.optional if indirect else ())}
        if indirect:  # any function whose address may have been taken
            everything = {name for other in layout.reached.values() for name in other}
            reached_all.update(name for name in everything if not self.module.functions[name].is_entry)
        own = [facts[name] for name in reached_all if name in facts]
        return Kernel(
            entry.name, layout.name_function(entry.name), tuple(params), offset, shared, end - SHARED_BEGIN, static,
            layout.find_dynamic_align(entry.name),
            needs_fibers=any(writer.needs_fibers for writer in own),
            is_cooperative=any(writer.is_cooperative for writer in own),
            maxntid=entry.attributes.get("maxntid", ()), reqntid=entry.attributes.get("reqntid", ()),
            local_nbytes=sum(local.get(name, 0) for name in reached_all),
            is_recursive=indirect or self.is_recursive(reached),
        )  # fmt: skip

    def is_recursive(self, names: list[str]) -> bool:
        return any(name in self.layout.reach(self.layout.uses[name][0]) for name in names)

    def write_init(self, written: Collection[str]) -> str:
        lines = []
        for offset, variable in self.layout.relocations:
            for relocation in variable.relocations:
                target = self.layout.resolve(relocation.target, self.module.functions.get(variable.function))
                if isinstance(target, PtxVariable) and id(target) in self.layout.offsets:
                    address = f"(u64)block + {self.layout.offsets[id(target)]}ull"
                    if target.space == "shared":
                        address = f"{self.layout.offsets[id(target)]}ull"
                elif isinstance(target, PtxFunction) and target.body is not None:
                    if target.name not in written:  # a kernel that was left out
                        continue
                    address = f"{self.layout.locate_function(target)}ull"
                else:
                    raise PtxError(
                        f"variable '{variable.name}' holds the address of '{relocation.target}', which is not defined"
                    )
                value = f"({address} + {relocation.addend & (1 << 64) - 1}ull) >> {relocation.shift}"
                kind = UNSIGNED[relocation.nbytes]
                lines.append(f"    *({kind} *)(block + {offset + relocation.offset}) = ({kind})({value});")
        return "\n".join(["void xf_init_module(char *block) {", "    (void)block;", *lines, "}"])


# The C that all texts share: the headers of the runtime, and helper functions.

_HELPERS = {
    "xf_b128": "typedef struct { u64 x, y; } xf_b128;",
    "xf_f32": "static inline f32 xf_f32(u32 a) { union { u32 u; f32 f; } x; x.u = a; return x.f; }",
    "xf_b32": "static inline u32 xf_b32(f32 a) { union { u32 u; f32 f; } x; x.f = a; return x.u; }",
    "xf_f64": "static inline f64 xf_f64(u64 a) { union { u64 u; f64 f; } x; x.u = a; return x.f; }",
    "xf_b64": "static inline u64 xf_b64(f64 a) { union { u64 u; f64 f; } x; x.f = a; return x.u; }",
    "xf_nan": "static inline f32 xf_nan(f32 a) { return a == a ? a : xf_f32(0x7fffffffu); }",
    "xf_ftz": """static inline f32 xf_ftz(f32 a) {
    return (xf_b32(a) & 0x7f800000u) ? a : xf_f32(xf_b32(a) & 0x80000000u);
}""",
    "xf_sat": "static inline f32 xf_sat(f32 a) { return a > 0 ? a < 1 ? a : 1.0f : 0.0f; }",
    "xf_sat64": "static inline f64 xf_sat64(f64 a) { return a > 0 ? a < 1 ? a : 1.0 : 0.0; }",
    "xf_fma32": """#if defined(__FMA__) || defined(__aarch64__)
#define xf_fma32(m, a, b, c) __builtin_fmaf(a, b, c)
#else
#define xf_fma32(m, a, b, c) (m)->fma_f32(a, b, c, XF_RN)
#endif""",
    "xf_fma64": """#if defined(__FMA__) || defined(__aarch64__)
#define xf_fma64(m, a, b, c) __builtin_fma(a, b, c)
#else
#define xf_fma64(m, a, b, c) (m)->fma_f64(a, b, c, XF_RN)
#endif""",
    "xf_sqrt32": """#if defined(__TINYC__)
#define xf_sqrt32(m, a) (m)->sqrt_f32(a, XF_RN)
#else
#define xf_sqrt32(m, a) __builtin_sqrtf(a)
#endif""",
    "xf_sqrt64": """#if defined(__TINYC__)
#define xf_sqrt64(m, a) (m)->sqrt_f64(a, XF_RN)
#else
#define xf_sqrt64(m, a) __builtin_sqrt(a)
#endif""",
    "xf_f32_from_u64": """#if defined(__TINYC__)
#define xf_f32_from_u64(m, a) (m)->f32_from_u64(a, XF_RN)
#else
#define xf_f32_from_u64(m, a) ((f32)(a))
#endif""",
    "xf_f64_from_u64": """#if defined(__TINYC__)
#define xf_f64_from_u64(m, a) (m)->f64_from_u64(a, XF_RN)
#else
#define xf_f64_from_u64(m, a) ((f64)(a))
#endif""",
    "xf_popc": """static inline u32 xf_popc(u64 a) {
    a -= a >> 1 & 0x5555555555555555ull;
    a = (a & 0x3333333333333333ull) + (a >> 2 & 0x3333333333333333ull);
    a = (a + (a >> 4)) & 0x0f0f0f0f0f0f0f0full;
    return (u32)(a * 0x0101010101010101ull >> 56);
}""",
    "xf_clz64": """static inline u32 xf_clz64(u64 a) {
#if defined(__TINYC__)
    u32 n = 0;
    if (!a) return 64;
    while (!(a >> 63)) a <<= 1, n++;
    return n;
#else
    return a ? __builtin_clzll(a) : 64;
#endif
}""",
    "xf_clz32": "static inline u32 xf_clz32(u32 a) { return xf_clz64(a) - 32; }",
    "xf_brev32": """static inline u32 xf_brev32(u32 a) {
    a = (a >> 1 & 0x55555555u) | (a & 0x55555555u) << 1;
    a = (a >> 2 & 0x33333333u) | (a & 0x33333333u) << 2;
    a = (a >> 4 & 0x0f0f0f0fu) | (a & 0x0f0f0f0fu) << 4;
    a = (a >> 8 & 0x00ff00ffu) | (a & 0x00ff00ffu) << 8;
    return a >> 16 | a << 16;
}""",
    "xf_brev64": """static inline u64 xf_brev64(u64 a) {
    return (u64)xf_brev32((u32)a) << 32 | xf_brev32((u32)(a >> 32));
}""",
    "xf_mulhi_u64": """static inline u64 xf_mulhi_u64(u64 a, u64 b) {
#if defined(__SIZEOF_INT128__)
    return (u64)((unsigned __int128)a * b >> 64);
#else
    u64 al = (u32)a, ah = a >> 32, bl = (u32)b, bh = b >> 32;
    u64 low = al * bl, one = ah * bl + (low >> 32), two = al * bh + (u32)one;
    return ah * bh + (one >> 32) + (two >> 32);
#endif
}""",
    "xf_mulhi_s64": """static inline u64 xf_mulhi_s64(u64 a, u64 b) {
    return xf_mulhi_u64(a, b) - ((s64)a < 0 ? b : 0) - ((s64)b < 0 ? a : 0);
}""",
    "xf_adds": """static inline u32 xf_adds(s32 a, s32 b) {
    s64 sum = (s64)a + b;
    return (u32)(sum > 0x7fffffff ? 0x7fffffff : sum < -0x80000000ll ? -0x80000000ll : sum);
}""",
    "xf_subs": """static inline u32 xf_subs(s32 a, s32 b) {
    s64 sum = (s64)a - b;
    return (u32)(sum > 0x7fffffff ? 0x7fffffff : sum < -0x80000000ll ? -0x80000000ll : sum);
}""",
    "xf_bfind": """static inline u32 xf_bfind(u64 a, u32 nbits, u32 is_signed, u32 shift_amount) {
    if (is_signed && a >> (nbits - 1) & 1) a = ~a;
    if (nbits == 32) a = (u32)a;
    return !a ? 0xffffffffu : shift_amount ? nbits - 64 + xf_clz64(a) : 63 - xf_clz64(a);
}""",
    "xf_fns": """static inline u32 xf_fns(u32 mask, u32 base, s32 offset) {
    s32 at = (s32)base, step = offset < 0 ? -1 : 1, count = offset == 0 ? 1 : offset < 0 ? -offset : offset;
    if (offset == 0) return base < 32 && mask >> base & 1 ? base : 0xffffffffu;
    for (; at >= 0 && at < 32; at += step)
        if (mask >> at & 1 && --count == 0) return (u32)at;
    return 0xffffffffu;
}""",
    "xf_bfe": """static inline u64 xf_bfe(u64 a, u32 begin, u32 count, u32 nbits, u32 is_signed) {
    u64 sign;
    begin &= 255, count &= 255;
    if (!count) return 0;
    sign = is_signed ? a >> (begin + count - 1 < nbits - 1 ? begin + count - 1 : nbits - 1) & 1 : 0;
    a = begin >= nbits ? 0 : (nbits == 32 ? (u32)a : a) >> begin;
    if (begin + count > nbits) count = begin >= nbits ? 0 : nbits - begin;
    if (count >= 64) return a;
    a &= (1ull << count) - 1;
    return sign ? a | ~0ull << count : a;
}""",
    "xf_bfi": """static inline u64 xf_bfi(u64 a, u64 b, u32 begin, u32 count, u32 nbits) {
    u64 mask;
    begin &= 255, count &= 255;
    if (begin >= nbits || !count) return b;
    mask = (count >= 64 ? ~0ull : (1ull << count) - 1) << begin;
    return (b & ~mask) | (a << begin & mask);
}""",
    "xf_bmsk": """static inline u32 xf_bmsk(u32 begin, u32 count, u32 wrap) {
    u64 mask;
    if (wrap) begin &= 31, count &= 31;
    if (begin >= 32) return 0;
    mask = count >= 32 ? 0xffffffffull : (1ull << count) - 1;
    return (u32)(mask << begin);
}""",
    "xf_szext": """static inline u32 xf_szext(u32 a, u32 count, u32 wrap, u32 is_signed) {
    if (wrap) count &= 31;
    if (!count) return 0;
    if (count >= 32) return a;
    a &= (1u << count) - 1;
    return is_signed && a >> (count - 1) & 1 ? a | 0xffffffffu << count : a;
}""",
    "xf_shf_l": """static inline u32 xf_shf_l(u32 a, u32 b, u32 n, u32 wrap) {
    n = wrap ? n & 31 : n > 32 ? 32 : n;
    return n == 0 ? b : n == 32 ? a : b << n | a >> (32 - n);
}""",
    "xf_shf_r": """static inline u32 xf_shf_r(u32 a, u32 b, u32 n, u32 wrap) {
    n = wrap ? n & 31 : n > 32 ? 32 : n;
    return n == 0 ? a : n == 32 ? b : b << (32 - n) | a >> n;
}""",
    "xf_prmt_byte": """static inline u32 xf_prmt_byte(u64 bytes, u32 selector) {
    u32 byte = (u32)(bytes >> (selector & 7) * 8) & 255;
    return selector & 8 ? byte >> 7 ? 255 : 0 : byte;
}""",
    "xf_prmt": """static inline u32 xf_prmt(u32 a, u32 b, u32 c) {
    u64 bytes = (u64)b << 32 | a;
    return xf_prmt_byte(bytes, c) | xf_prmt_byte(bytes, c >> 4) << 8 | xf_prmt_byte(bytes, c >> 8) << 16 |
           xf_prmt_byte(bytes, c >> 12) << 24;
}""",
    "xf_prmt_mode": """static inline u32 xf_prmt_mode(u32 a, u32 b, u32 c, u32 mode) {
    static const u16 table[6][4] = {{0x3210, 0x4321, 0x5432, 0x6543}, {0x5670, 0x6701, 0x7012, 0x0123},
        {0x0000, 0x1111, 0x2222, 0x3333}, {0x3210, 0x3211, 0x3222, 0x3333}, {0x0000, 0x1110, 0x2210, 0x3210},
        {0x1010, 0x3232, 0x1010, 0x3232}};
    return xf_prmt(a, b, table[mode][c & 3]);
}""",
    "xf_dot": """static inline u32 xf_dot4(u32 a, u32 b, u32 c, u32 a_signed, u32 b_signed) {
    u32 i;
    for (i = 0; i < 32; i += 8)
        c += (u32)((a_signed ? (s32)(s8)(a >> i) : (s32)(u8)(a >> i)) *
                   (b_signed ? (s32)(s8)(b >> i) : (s32)(u8)(b >> i)));
    return c;
}
static inline u32 xf_dot2(u32 a, u32 b, u32 c, u32 a_signed, u32 b_signed) {
    u32 i;
    for (i = 0; i < 2; i++)
        c += (u32)((a_signed ? (s32)(s16)(a >> i * 16) : (s32)(u16)(a >> i * 16)) *
                   (b_signed ? (s32)(s8)(b >> i * 8) : (s32)(u8)(b >> i * 8)));
    return c;
}""",
    "xf_neg64": "static inline f64 xf_neg64(f64 a) { return a == a ? -a : a; }",
    "xf_abs64": "static inline f64 xf_abs64(f64 a) { return a == a ? xf_f64(xf_b64(a) & ~(1ull << 63)) : a; }",
    "xf_half": """static inline f32 xf_half(u32 a) {
    u32 size = (a & 0x7fffu) << 13;
    f32 b = xf_f32(size) * 0x1p112f;
    if (size >= 0x0f800000u) b = xf_f32(size > 0x0f800000u ? 0x7fffffffu : 0x7f800000u);
    return size > 0x0f800000u ? b : xf_f32(xf_b32(b) | (a & 0x8000u) << 16);
}""",
    "xf_bfloat": "static inline f32 xf_bfloat(u32 a) { return xf_f32(a << 16); }",
    "xf_narrow_ftz": "static inline u32 xf_narrow_ftz(u32 a, u32 exponent) { return a & exponent ? a : a & 0x8000u; }",
    "xf_narrow_sat": """static inline u32 xf_narrow_sat(u32 a, u32 one, u32 infinity) {
    return a & 0x8000u || a > infinity ? 0 : a > one ? one : a;
}""",
    "xf_narrow_relu": "static inline u32 xf_narrow_relu(u32 a) { return a & 0x8000u ? 0 : a; }",
    "xf_to_s32": """static inline s32 xf_to_s32(f64 a, u32 nan) {
    return a >= -0x1p31 && a < 0x1p31 ? (s32)a : a != a ? (s32)nan : a < 0 ? (s32)0x80000000u : 0x7fffffff;
}""",
    # Rare: with -fcaller-saves the compiler keeps registers in the loop, and saves them around the call only.
    "XF_TICK": """#if defined(__TINYC__)
#define XF_TICK(site) do { if (--t->budget <= 0) run->tick(t, site); } while (0)
#else
#define XF_TICK(site) do { if (__builtin_expect(--t->budget <= 0, 0)) run->tick(t, site); } while (0)
#endif""",
}
for _nbits in (16, 32, 64):
    _u, _s = f"u{_nbits}", f"s{_nbits}"
    _HELPERS[f"xf_div_{_u}"] = f"static inline {_u} xf_div_{_u}({_u} a, {_u} b) {{ return b ? a / b : ({_u})~0ull; }}"
    _HELPERS[f"xf_rem_{_u}"] = f"static inline {_u} xf_rem_{_u}({_u} a, {_u} b) {{ return b ? a % b : ({_u})~0ull; }}"
    _HELPERS[f"xf_div_{_s}"] = (
        f"static inline {_u} xf_div_{_s}({_s} a, {_s} b) {{ "
        f"return !b ? ({_u})~0ull : b == -1 ? ({_u})(0 - ({_u})a) : ({_u})(a / b); }}"
    )
    _HELPERS[f"xf_rem_{_s}"] = (
        f"static inline {_u} xf_rem_{_s}({_s} a, {_s} b) {{ return !b ? ({_u})~0ull : b == -1 ? 0 : ({_u})(a % b); }}"
    )
for _nbits, _name, _sign, _is_first in (
    (32, "min", "<", ""), (32, "max", ">", "!"), (64, "min", "<", ""), (64, "max", ">", "!"),
):  # fmt: skip
    _HELPERS[f"xf_{_name}{_nbits}"] = f"""static inline f{_nbits} xf_{_name}{_nbits}(f{_nbits} a, f{_nbits} b) {{
    if (a != a) return b;
    if (b != b) return a;
    return a {_sign} b || (a == b && {_is_first}(xf_b{_nbits}(a) >> {_nbits - 1})) ? a : b;
}}"""
_HELPER_NAME = re.compile(r"\b(xf_\w+|XF_TICK)\b")
_HELPER_OF = {"xf_dot4": "xf_dot", "xf_dot2": "xf_dot"}


def _choose_helpers(text: str) -> str:
    """The functions that a text uses, each behind those that it uses itself."""
    chosen: dict[str, str] = {}

    def add(source: str) -> None:
        for name in dict.fromkeys(_HELPER_NAME.findall(source)):
            name = _HELPER_OF.get(name, name)
            if name in _HELPERS and name not in chosen:
                chosen[name] = ""
                add(_HELPERS[name])
                del chosen[name]
                chosen[name] = _HELPERS[name]

    add(text)
    return "\n".join(chosen.values())


@cache
def _read_headers() -> str:
    """The headers, without comments."""
    folder = Path(__file__).parents[2] / "_native" / "emulator"
    text = "".join((folder / name).read_text("utf-8") for name in ("kernel.h", "arithmetic.h"))
    text = re.sub(r"/\*.*?\*/|^#include[^\n]*", "", text, flags=re.DOTALL | re.MULTILINE)
    return "#define XF_KERNEL_ONLY 1\n" + re.sub(r"\n\s*\n+", "\n", text)


# Variables that a kernel uses and never sets, as far as the optimiser hides them.
#
# The optimiser does away with a variable that has no value, and with all that is computed from it, so that the PTX that
# runs shows nothing. The PTX of a debug build keeps each computation, and each variable in a register of its own. It is
# only read: what it shows is a fault in any run that comes there, for no path gives the variable a value before.

_MOST_USES = 64
"""Of variables that may have no value, in one function: each takes a walk through it."""


def find_unset(module: Module, file: str) -> dict[str, FaultSite]:
    """The kernels of a debug build that use a variable which nothing sets, and where.

    Args:
        module: Its PTX.
        file: The name of the source; what stands in other files, such as CUDA's headers, is not looked at.
    """
    layout = ModuleLayout(module, checked=False)
    sites: dict[str, list[FaultSite]] = {name: [] for name in layout.uses}
    flows = {name: ValueFlow(module.functions[name]) for name in layout.uses}
    sources = {each for name in layout.uses for each in module.functions[name].files.values() if each.endswith(file)}
    for name, flow in flows.items():
        sites[name] += [make_site(flow.function, item, sources) for item in _find_unset_registers(flow)]
    shared = {
        id(variable): variable
        for _, variables in layout.uses.values()
        for variable in variables.values()
        if variable.space == "shared" and not variable.is_extern
    }
    for variable in shared.values():
        reads: list[tuple[str, Instruction]] = []
        for name, flow in flows.items():  # a function that does not name it cannot write it
            if id(variable) not in layout.uses[name][1]:
                continue
            found = _find_reads(layout, flow, variable)
            if found is None:
                break
            reads += [(name, item) for item in found]
        else:
            for name, read in reads:
                sites[name].append(make_site(module.functions[name], read, sources))
    result: dict[str, FaultSite] = {}
    for kernel, reached in layout.reached.items():
        own = [site for name in reached for site in sites[name] if site.line and site.file.endswith(file)]
        if own:
            result[kernel] = min(own, key=lambda site: site.line)
    return result


def _find_unset_registers(flow: ValueFlow) -> Iterator[Instruction]:
    """Instructions that compute with a register to which no path brings a value.

    Copies compute nothing, and so do stores, for members of structs are copied that have no value.
    """
    unset = find_unwritten(flow.function)
    if not unset:
        return
    unset = close(unset, lambda number: find_results(*(user for user in flow.users[number] if user.opcode == "mov")))
    looked_at = 0
    for index, item in flow.instructions:
        if item.opcode in ("mov", "st", "call", "ret", "exit"):
            continue
        used = find_used(item)
        looked_at += bool(used & unset)
        if looked_at > _MOST_USES:
            return
        if any(not _has_value(flow, index, number, unset) for number in used & unset):
            yield item


def _has_value(flow: ValueFlow, index: int, number: int, tracked: set[int]) -> bool:
    """Whether any path to an instruction that does not pass it before gives a register a value."""
    known: dict[int, set[int]] = {0: set()}
    waiting = [0]
    while waiting:
        at = waiting.pop()
        if at == index or at >= len(flow.body):
            continue
        item, after = flow.body[at], set(known[at])
        if isinstance(item, Instruction):
            results = find_results(item) & tracked
            is_copy = item.opcode == "mov" and bool(find_sources(item) & tracked)
            if not is_copy or find_sources(item) & known[at]:
                after |= results
            elif item.guard is None:
                after -= results
        for following in flow.find_next(at):
            if following not in known or not after <= known[following]:
                known[following] = known.get(following, set()) | after
                waiting.append(following)
    return number in known.get(index, {number})  # code that is not reached has no fault


def _find_reads(layout: ModuleLayout, flow: ValueFlow, variable: PtxVariable) -> list[Instruction] | None:
    """The loads from a variable; None where something may write it."""

    def names(operand: Operand) -> bool:
        if isinstance(operand, Address):
            operand = operand.base
        if not isinstance(operand, Symbol):
            return False
        return layout.resolve(operand.target, flow.function) is variable

    derived: set[int] = set()
    while True:
        found: list[Instruction] = []
        more = set(derived)
        for _, item in flow.instructions:
            if not find_sources(item) & more and not any(map(names, item.operands)):
                continue
            if item.opcode in ("ld", "ldu"):
                found.append(item)
            elif item.opcode in ("mov", "cvta", "add", "mad", "sub", "selp", "cvt"):
                more |= find_results(item)
            elif item.opcode != "setp":
                return None
        if more == derived:
            return found
        derived = more
