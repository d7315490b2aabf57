/* What instructions of PTX mean, where C has no operator for it.
 *
 * Of the groups of this file, which empty lines part, those that a translated kernel uses stand before it: to read all
 * would take the compiler a tenth longer. A name stands first where it is defined.
 */
#ifndef XF_INSTRUCTIONS_H
#define XF_INSTRUCTIONS_H

#include "arithmetic.h"

/* Floats by their bits, and as what the GPU makes of them. */
typedef struct { u64 x, y; } xf_b128;
static inline f32 xf_f32(u32 a) { union { u32 u; f32 f; } x; x.u = a; return x.f; }
static inline u32 xf_b32(f32 a) { union { u32 u; f32 f; } x; x.f = a; return x.u; }
static inline f64 xf_f64(u64 a) { union { u64 u; f64 f; } x; x.u = a; return x.f; }
static inline u64 xf_b64(f64 a) { union { u64 u; f64 f; } x; x.f = a; return x.u; }
static inline f32 xf_nan(f32 a) { return a == a ? a : xf_f32(0x7fffffffu); }
static inline f32 xf_ftz(f32 a) {
    return (xf_b32(a) & 0x7f800000u) ? a : xf_f32(xf_b32(a) & 0x80000000u);
}
static inline f32 xf_sat(f32 a) { return a > 0 ? a < 1 ? a : 1.0f : 0.0f; }
static inline f64 xf_sat64(f64 a) { return a > 0 ? a < 1 ? a : 1.0 : 0.0; }
static inline f64 xf_neg64(f64 a) { return a == a ? -a : a; }
static inline f64 xf_abs64(f64 a) { return a == a ? xf_f64(xf_b64(a) & ~(1ull << 63)) : a; }

/* One instruction where the processor has it, a call where it has not; tcc has neither. */
#if defined(__FMA__) || defined(__aarch64__)
#define xf_fma32(m, a, b, c) __builtin_fmaf(a, b, c)
#else
#define xf_fma32(m, a, b, c) (m)->fma_f32(a, b, c, XF_RN)
#endif
#if defined(__FMA__) || defined(__aarch64__)
#define xf_fma64(m, a, b, c) __builtin_fma(a, b, c)
#else
#define xf_fma64(m, a, b, c) (m)->fma_f64(a, b, c, XF_RN)
#endif
#if defined(__TINYC__)
#define xf_sqrt32(m, a) (m)->sqrt_f32(a, XF_RN)
#else
#define xf_sqrt32(m, a) __builtin_sqrtf(a)
#endif
#if defined(__TINYC__)
#define xf_sqrt64(m, a) (m)->sqrt_f64(a, XF_RN)
#else
#define xf_sqrt64(m, a) __builtin_sqrt(a)
#endif
#if defined(__TINYC__)
#define xf_f32_from_u64(m, a) (m)->f32_from_u64(a, XF_RN)
#else
#define xf_f32_from_u64(m, a) ((f32)(a))
#endif
#if defined(__TINYC__)
#define xf_f64_from_u64(m, a) (m)->f64_from_u64(a, XF_RN)
#else
#define xf_f64_from_u64(m, a) ((f64)(a))
#endif

/* Bits. */
static inline u32 xf_popc(u64 a) {
    a -= a >> 1 & 0x5555555555555555ull;
    a = (a & 0x3333333333333333ull) + (a >> 2 & 0x3333333333333333ull);
    a = (a + (a >> 4)) & 0x0f0f0f0f0f0f0f0full;
    return (u32)(a * 0x0101010101010101ull >> 56);
}
static inline u32 xf_clz64(u64 a) {
#if defined(__TINYC__)
    u32 n = 0;
    if (!a) return 64;
    while (!(a >> 63)) a <<= 1, n++;
    return n;
#else
    return a ? (u32)__builtin_clzll(a) : 64;
#endif
}
static inline u32 xf_clz32(u32 a) { return xf_clz64(a) - 32; }
static inline u32 xf_brev32(u32 a) {
    a = (a >> 1 & 0x55555555u) | (a & 0x55555555u) << 1;
    a = (a >> 2 & 0x33333333u) | (a & 0x33333333u) << 2;
    a = (a >> 4 & 0x0f0f0f0fu) | (a & 0x0f0f0f0fu) << 4;
    a = (a >> 8 & 0x00ff00ffu) | (a & 0x00ff00ffu) << 8;
    return a >> 16 | a << 16;
}
static inline u64 xf_brev64(u64 a) {
    return (u64)xf_brev32((u32)a) << 32 | xf_brev32((u32)(a >> 32));
}
static inline u32 xf_bfind(u64 a, u32 nbits, u32 is_signed, u32 shift_amount) {
    if (is_signed && a >> (nbits - 1) & 1) a = ~a;
    if (nbits == 32) a = (u32)a;
    return !a ? 0xffffffffu : shift_amount ? nbits - 64 + xf_clz64(a) : 63 - xf_clz64(a);
}
static inline u32 xf_fns(u32 mask, u32 base, s32 offset) {
    s32 at = (s32)base, step = offset < 0 ? -1 : 1, count = offset == 0 ? 1 : offset < 0 ? -offset : offset;
    if (offset == 0) return base < 32 && mask >> base & 1 ? base : 0xffffffffu;
    for (; at >= 0 && at < 32; at += step)
        if (mask >> at & 1 && --count == 0) return (u32)at;
    return 0xffffffffu;
}
static inline u64 xf_bfe(u64 a, u32 begin, u32 count, u32 nbits, u32 is_signed) {
    u64 sign;
    begin &= 255, count &= 255;
    if (!count) return 0;
    sign = is_signed ? a >> (begin + count - 1 < nbits - 1 ? begin + count - 1 : nbits - 1) & 1 : 0;
    a = begin >= nbits ? 0 : (nbits == 32 ? (u32)a : a) >> begin;
    if (begin + count > nbits) count = begin >= nbits ? 0 : nbits - begin;
    if (count >= 64) return a;
    a &= (1ull << count) - 1;
    return sign ? a | ~0ull << count : a;
}
static inline u64 xf_bfi(u64 a, u64 b, u32 begin, u32 count, u32 nbits) {
    u64 mask;
    begin &= 255, count &= 255;
    if (begin >= nbits || !count) return b;
    mask = (count >= 64 ? ~0ull : (1ull << count) - 1) << begin;
    return (b & ~mask) | (a << begin & mask);
}
static inline u32 xf_bmsk(u32 begin, u32 count, u32 wrap) {
    u64 mask;
    if (wrap) begin &= 31, count &= 31;
    if (begin >= 32) return 0;
    mask = count >= 32 ? 0xffffffffull : (1ull << count) - 1;
    return (u32)(mask << begin);
}
static inline u32 xf_szext(u32 a, u32 count, u32 wrap, u32 is_signed) {
    if (wrap) count &= 31;
    if (!count) return 0;
    if (count >= 32) return a;
    a &= (1u << count) - 1;
    return is_signed && a >> (count - 1) & 1 ? a | 0xffffffffu << count : a;
}
static inline u32 xf_shf_l(u32 a, u32 b, u32 n, u32 wrap) {
    n = wrap ? n & 31 : n > 32 ? 32 : n;
    return n == 0 ? b : n == 32 ? a : b << n | a >> (32 - n);
}
static inline u32 xf_shf_r(u32 a, u32 b, u32 n, u32 wrap) {
    n = wrap ? n & 31 : n > 32 ? 32 : n;
    return n == 0 ? a : n == 32 ? b : b << (32 - n) | a >> n;
}
static inline u32 xf_prmt_byte(u64 bytes, u32 selector) {
    u32 byte = (u32)(bytes >> (selector & 7) * 8) & 255;
    return selector & 8 ? byte >> 7 ? 255 : 0 : byte;
}
static inline u32 xf_prmt(u32 a, u32 b, u32 c) {
    u64 bytes = (u64)b << 32 | a;
    return xf_prmt_byte(bytes, c) | xf_prmt_byte(bytes, c >> 4) << 8 | xf_prmt_byte(bytes, c >> 8) << 16 |
           xf_prmt_byte(bytes, c >> 12) << 24;
}
static inline u32 xf_prmt_mode(u32 a, u32 b, u32 c, u32 mode) {
    static const u16 table[6][4] = {{0x3210, 0x4321, 0x5432, 0x6543}, {0x5670, 0x6701, 0x7012, 0x0123},
        {0x0000, 0x1111, 0x2222, 0x3333}, {0x3210, 0x3211, 0x3222, 0x3333}, {0x0000, 0x1110, 0x2210, 0x3210},
        {0x1010, 0x3232, 0x1010, 0x3232}};
    return xf_prmt(a, b, table[mode][c & 3]);
}

/* Integers. */
static inline u64 xf_mulhi_u64(u64 a, u64 b) {
#if defined(__SIZEOF_INT128__)
    return (u64)((unsigned __int128)a * b >> 64);
#else
    u64 al = (u32)a, ah = a >> 32, bl = (u32)b, bh = b >> 32;
    u64 low = al * bl, one = ah * bl + (low >> 32), two = al * bh + (u32)one;
    return ah * bh + (one >> 32) + (two >> 32);
#endif
}
static inline u64 xf_mulhi_s64(u64 a, u64 b) {
    return xf_mulhi_u64(a, b) - ((s64)a < 0 ? b : 0) - ((s64)b < 0 ? a : 0);
}
static inline u32 xf_adds(s32 a, s32 b) {
    s64 sum = (s64)a + b;
    return (u32)(sum > 0x7fffffff ? 0x7fffffff : sum < -0x80000000ll ? -0x80000000ll : sum);
}
static inline u32 xf_subs(s32 a, s32 b) {
    s64 sum = (s64)a - b;
    return (u32)(sum > 0x7fffffff ? 0x7fffffff : sum < -0x80000000ll ? -0x80000000ll : sum);
}
static inline u32 xf_dot4(u32 a, u32 b, u32 c, u32 a_signed, u32 b_signed) {
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
}

/* A quotient by 0 has all bits set, and so has the rest; the least number by -1 is itself. */
#define XF_DIVISION(name, type, sign) \
    static inline type name(type a, type b) { return (type)(b ? a sign b : ~0ull); }
#define XF_SIGNED_DIVISION(name, signed_type, type, sign, by_minus_1) \
    static inline type name(signed_type a, signed_type b) {           \
        if (!b) return (type)~0ull;                                   \
        return b == -1 ? (type)(by_minus_1) : (type)(a sign b);       \
    }
XF_DIVISION(xf_div_u16, u16, /)
XF_DIVISION(xf_div_u32, u32, /)
XF_DIVISION(xf_div_u64, u64, /)
XF_DIVISION(xf_rem_u16, u16, %)
XF_DIVISION(xf_rem_u32, u32, %)
XF_DIVISION(xf_rem_u64, u64, %)
XF_SIGNED_DIVISION(xf_div_s16, s16, u16, /, 0 - (u16)a)
XF_SIGNED_DIVISION(xf_div_s32, s32, u32, /, 0 - (u32)a)
XF_SIGNED_DIVISION(xf_div_s64, s64, u64, /, 0 - (u64)a)
XF_SIGNED_DIVISION(xf_rem_s16, s16, u16, %, 0)
XF_SIGNED_DIVISION(xf_rem_s32, s32, u32, %, 0)
XF_SIGNED_DIVISION(xf_rem_s64, s64, u64, %, 0)

/* The one that is a number; of two zeros -0 is the smaller one. */
#define XF_EXTREMUM(name, type, sign, is_first)      \
    static inline type name(type a, type b) {              \
        if (a != a) return b;                              \
        if (b != b) return a;                              \
        return a sign b || (a == b && (is_first)) ? a : b; \
    }
XF_EXTREMUM(xf_min32, f32, <, xf_b32(a) >> 31)
XF_EXTREMUM(xf_max32, f32, >, !(xf_b32(a) >> 31))
XF_EXTREMUM(xf_min64, f64, <, xf_b64(a) >> 63)
XF_EXTREMUM(xf_max64, f64, >, !(xf_b64(a) >> 63))

/* Narrow floats, and conversions. */
static inline f32 xf_half(u32 a) {
    u32 size = (a & 0x7fffu) << 13;
    f32 b = xf_f32(size) * 0x1p112f;
    if (size >= 0x0f800000u) b = xf_f32(size > 0x0f800000u ? 0x7fffffffu : 0x7f800000u);
    return size > 0x0f800000u ? b : xf_f32(xf_b32(b) | (a & 0x8000u) << 16);
}
static inline f32 xf_bfloat(u32 a) { return xf_f32(a << 16); }
static inline u32 xf_narrow_ftz(u32 a, u32 exponent) { return a & exponent ? a : a & 0x8000u; }
static inline u32 xf_narrow_sat(u32 a, u32 one, u32 infinity) {
    return a & 0x8000u || a > infinity ? 0 : a > one ? one : a;
}
static inline u32 xf_narrow_relu(u32 a) { return a & 0x8000u ? 0 : a; }
static inline s32 xf_to_s32(f64 a, u32 nan) {
    return a >= -0x1p31 && a < 0x1p31 ? (s32)a : a != a ? (s32)nan : a < 0 ? (s32)0x80000000u : 0x7fffffff;
}

/* At a backward branch. The call is rare: with -fcaller-saves the compiler keeps registers in the loop, and saves them
 * around the call only.
 */
#if defined(__TINYC__)
#define XF_TICK(site) do { if (--t->budget <= 0) run->tick(t, site); } while (0)
#else
#define XF_TICK(site) do { if (__builtin_expect(--t->budget <= 0, 0)) run->tick(t, site); } while (0)
#endif

#endif
