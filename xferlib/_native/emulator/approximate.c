/* The approximate instructions with the bits of an NVIDIA H200 (sm_90): rcp, rsqrt, sqrt, sin, cos, lg2, ex2 and tanh.
 *
 * A GPU computes them in one unit, a quadratic interpolator (the design is described by Oberman and Siu, "A
 * high-performance area-efficient multifunction interpolator", 17th IEEE Symposium on Computer Arithmetic, 2005). The
 * leading bits of the operand choose a segment, the others are x, an integer of 17 bits (16 for rcp), and the result
 * is constant + slope * x + curve * square(x) in integers, cut off to 24 bits; nothing is rounded but by a number that
 * is part of the constant. The square leaves out the products of single bits whose weight is below 2^19 (2^17 for rcp).
 *
 * What is here was found from results alone: every float of the binades that a function distinguishes, 2^23 each,
 * gives the bits of the GPU, and so do all operands of the narrow types and all upper halves of double.
 *
 * Around the unit stands what NVIDIA's assembler makes of an instruction: without .ftz a subnormal operand is scaled
 * and the result scaled back, sin and cos multiply by 1/(2 pi) before. kernels/cuda_cpu/assembler.py has the rest.
 */
#include "arithmetic.h"
#include "floats.h"
#include "approximate_tables.h"

#include <math.h>
#include <string.h>

enum { NAN_BITS = 0x7fffffff, INFINITY_BITS = 0x7f800000, FRACTION = 0x7fffff };
#define SIGN 0x80000000u
#define LEAST 0x1p-126f /* the smallest normal float */

static u32 bits_of(f32 a) {
    u32 bits;
    memcpy(&bits, &a, 4);
    return bits;
}

/* ---- the unit ---- */

/* The square of `nbits` bits without the products of bits below 2^least, in units of 2^least. */
static u32 define_square(u32 x, u32 nbits, u32 least) {
    u32 sum = 0;
    for (u32 i = 0; i < nbits; i++) {
        if (!(x >> i & 1)) continue;
        if (2 * i >= least) sum += 1u << (2 * i - least);
        /* With all higher bits j at once, whose weight is 2^(i + j + 1). */
        u32 first = 2 * i + 2 > least ? i + 1 : least - i - 1;
        sum += (u32)((u64)(x >> first) << (first + i + 1 - least));
    }
    return sum;
}

/* A square is that of the bits from 2^5 on, and what bits below add, which meet the highest bits only: the other products
   are left out. Of 17 bits: of the bits 2 to 4 with 14 to 16. Of 16 bits, for rcp: 1 to 4 with 12 to 15. */
static u16 squares[1 << 12], squares_16[1 << 11];
static u8 corners[1 << 6], corners_16[1 << 8];

__attribute__((constructor)) static void fill_squares(void) {
    for (u32 k = 0; k < 1 << 12; k++) squares[k] = (u16)define_square(k << 5, 17, 19);
    for (u32 k = 0; k < 1 << 11; k++) squares_16[k] = (u16)define_square(k << 5, 16, 17);
    for (u32 k = 0; k < 1 << 6; k++) {
        u32 high = k >> 3 << 14, low = (k & 7) << 2;
        corners[k] = (u8)(define_square(high | low, 17, 19) - define_square(high, 17, 19));
    }
    for (u32 k = 0; k < 1 << 8; k++) {
        u32 high = k >> 4 << 12, low = (k & 15) << 1;
        corners_16[k] = (u8)(define_square(high | low, 16, 17) - define_square(high, 16, 17));
    }
}

static s64 square(u32 x) {
    return squares[x >> 5] + corners[x >> 14 << 3 | (x >> 2 & 7)];
}

static s64 square_16(u32 x) {
    return squares_16[x >> 5] + corners_16[x >> 12 << 4 | (x >> 1 & 15)];
}

/* The value at a fraction of 23 bits; with the widths of the coefficients, so that the constants are folded. */
static inline s64 interpolate(const segment *table, u32 fraction, s32 constant_shift, s32 curve_shift, s64 rounding) {
    const segment *s = &table[fraction >> 17];
    u32 x = fraction & 0x1ffff;
    return (s64)s->constant * (1ll << constant_shift) + rounding + (s64)s->slope * x +
           (s64)s->curve * square(x) * (1ll << curve_shift);
}

/* Between 2^23 and 2^24: 2^24 / (1 + fraction / 2^23), with bits behind the point. */
enum { RCP_BITS = 15, RSQRT_BITS = 16 };

static u32 find_reciprocal(u32 fraction) {
    const segment *s = &reciprocals[fraction >> 16];
    u32 x = fraction & 0xffff;
    return (u32)(((s64)s->constant * (1 << 13) + 2023 + (s64)s->slope * x + s->curve * square_16(x)) >> RCP_BITS);
}

/* Between 2^23 and 2^24: the root of 2^48 / (1 + fraction / 2^23), or of half of it. */
static u32 find_reciprocal_root(u32 fraction, u32 is_odd) {
    if (!(fraction | is_odd)) return 1 << 24;
    return (u32)(interpolate(reciprocal_roots + 64 * is_odd, fraction, 14, 1, -1) >> RSQRT_BITS);
}

static u32 cut_off(s64 value, s32 unit, u32 sign) {
    if (value <= 0) return sign; /* of a positive value times 2^unit, without rounding */
    s32 exponent = 63 - __builtin_clzll((u64)value), shift = exponent - 23;
    u32 significand = shift >= 0 ? (u32)(value >> shift) : (u32)value << -shift;
    return sign | (((u32)(exponent - unit + 126) << 23) + significand);
}

static u32 rcp_bits(u32 a) {
    u32 sign = a & SIGN, exponent = a >> 23 & 255, fraction = a & FRACTION;
    if (exponent == 0) return sign | INFINITY_BITS;
    if (exponent == 255) return fraction ? NAN_BITS : sign;
    s32 magnitude = (252 - (s32)exponent) * (1 << 23) + (s32)find_reciprocal(fraction);
    return sign | (magnitude < 1 << 23 ? 0 : (u32)magnitude);
}

static u32 rsqrt_bits(u32 a) {
    u32 exponent = a >> 23 & 255, fraction = a & FRACTION;
    if (exponent == 0) return (a & SIGN) | INFINITY_BITS;
    if (exponent == 255 && fraction) return NAN_BITS;
    if (a & SIGN) return NAN_BITS;
    if (exponent == 255) return 0;
    u32 is_odd = ~exponent & 1;
    return ((188 - ((exponent - is_odd - 1) >> 1)) << 23) + find_reciprocal_root(fraction, is_odd);
}

static u32 sqrt_bits(u32 a) {
    u32 exponent = a >> 23 & 255, fraction = a & FRACTION;
    if (exponent == 0) return a & SIGN;
    if (exponent == 255 && fraction) return NAN_BITS;
    if (a & SIGN) return NAN_BITS;
    if (exponent == 255) return INFINITY_BITS;
    u32 is_odd = ~exponent & 1;
    u32 root = (u32)(interpolate(roots + 64 * is_odd, fraction, 14, 1, -1) >> 17);
    return ((63 + ((exponent - is_odd - 1) >> 1)) << 23) + root;
}

static u32 lg2_bits(u32 a) {
    u32 fraction = a & FRACTION;
    s32 exponent = (s32)(a >> 23 & 255) - 127;
    if (exponent == -127) return SIGN | INFINITY_BITS;
    if (exponent == 128 && fraction) return NAN_BITS;
    if (a & SIGN) return NAN_BITS;
    if (exponent == 128) return INFINITY_BITS;
    if (a == 0x3f800000) return 0;
    s64 value = (interpolate(logarithms, fraction, 12, 1, 837) >> 2) + exponent * (1ll << 36);
    return value < 0 ? cut_off(~value, 36, SIGN) : cut_off(value, 36, 0);
}

static u32 ex2_bits(u32 a) {
    u32 exponent = a >> 23 & 255, significand = (a & FRACTION) | 1 << 23;
    if (exponent == 255 && (a & FRACTION)) return NAN_BITS;
    if (exponent > 134) return a & SIGN ? 0 : INFINITY_BITS;
    if (exponent < 103) return 0x3f800000;
    /* With 23 bits behind the point, and the complement in the place of a negative fraction. No branch depends on the
       sign: it would be mispredicted. */
    u32 fixed = (u32)((u64)significand << 8 >> (135 - exponent));
    u32 fraction = fixed & FRACTION, negative = 0 - (a >> 31), is_complement = negative & (0 - (u32)(fraction != 0));
    s32 whole = (s32)(((fixed >> 23) ^ negative) - negative + is_complement);
    fraction ^= is_complement & FRACTION;
    if (whole > 127) return INFINITY_BITS;
    if (whole < -126) return 0;
    return ((u32)(whole + 126) << 23) + (u32)(interpolate(powers, fraction, 14, 1, 12228) >> 16);
}

/* The quarter is added to the operand in turns. */
static u32 sine_bits(u32 a, u32 quarter, u32 sign) {
    u32 exponent = a >> 23 & 255;
    if (exponent == 255) return NAN_BITS;
    /* The product with 1/(2 pi), a float, is cut off to 24 bits, and then to 25 behind the point. */
    u64 product = (u64)((a & FRACTION) | 1 << 23) * 0xa2f983;
    s32 shift = 23 + (s32)(product >> 47), up = shift + (s32)exponent - 151;
    u64 significand = product >> shift;
    u32 turn = up >= 25 || up <= -24 ? 0 : (u32)(significand << (up + 24) >> 24);
    turn += quarter << 23;
    u32 fraction = (turn & FRACTION) ^ ((0 - (turn >> 23 & 1)) & FRACTION);
    return cut_off(interpolate(sines, fraction, 12, 0, 0), 37, sign ^ (turn << 7 & SIGN));
}

static u32 sin_bits(u32 a) {
    return sine_bits(a, 0, a & SIGN);
}

static u32 cos_bits(u32 a) {
    return sine_bits(a, 1, 0);
}

/* From 2^-8, where tanh leaves its operand alone, to 8, where it is 1: by binade, its first segment and the number of
   bits that choose one. */
static u32 tanh_bits(u32 a) {
    static const u8 first[] = {0, 1, 2, 3, 5, 7, 11, 15, 19, 27, 43}, nbits[] = {0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 3};
    u32 size = a & ~SIGN, sign = a & SIGN, fraction = a & FRACTION;
    if (size > INFINITY_BITS) return NAN_BITS;
    if (size < 0x3b800000) return a;
    if (size >= 0x41000000) return sign | 0x3f800000;
    u32 binade = (size >> 23) - 119, n = nbits[binade];
    const segment *s = &tangents[first[binade] + (fraction >> (23 - n))];
    u32 x = fraction >> (6 - n) & 0x1ffff;
    return cut_off((s64)s->constant * (1 << 15) + (s64)s->slope * x + s->curve * square(x) * 2, 39, sign);
}

/* ---- float ---- */

#define IN_FLOATS(NAME)                          \
    static f32 NAME##_flushed(f32 a) {           \
        return float_of(NAME##_bits(bits_of(a))); \
    }
IN_FLOATS(rcp)
IN_FLOATS(rsqrt)
IN_FLOATS(sqrt)
IN_FLOATS(sin)
IN_FLOATS(cos)
IN_FLOATS(lg2)
IN_FLOATS(ex2)
IN_FLOATS(tanh)

static f32 rcp_full(f32 a) {
    f32 scale = fabsf(a) > 0x1p126f ? 0.25f : fabsf(a) < LEAST ? 0x1p24f : 1;
    return canonical(scale * rcp_flushed(a * scale));
}

static f32 rsqrt_full(f32 a) {
    return fabsf(a) < LEAST ? canonical(rsqrt_flushed(a * 0x1p24f) * 0x1p12f) : rsqrt_flushed(a);
}

static f32 sqrt_full(f32 a) {
    return fabsf(a) < LEAST ? canonical(sqrt_flushed(a * 0x1p24f) * 0x1p-12f) : sqrt_flushed(a);
}

static f32 lg2_full(f32 a) {
    return fabsf(a) < LEAST ? canonical(lg2_flushed(a * 0x1p24f) - 24) : lg2_flushed(a);
}

static f32 ex2_full(f32 a) {
    if (!(a < -126)) return ex2_flushed(a);
    f32 root = ex2_flushed(a * 0.5f);
    return root * root;
}

/* ---- narrow floats: computed as float and cut off ---- */

static u32 narrow_approximate(u32 operation, u32 bits, u32 format) {
    f32 a = xf_math_table.widen(bits, format);
    f32 result = operation == XF_EX2 ? ex2_flushed(a) : tanh_flushed(a);
    if (format == XF_HALF && result >= 0x1p16f) result = INFINITY;
    return xf_math_table.narrow(result, format, XF_RZ, XF_INFINITE);
}

/* ---- double: the upper halves only, but for rsqrt without .ftz ---- */

static u32 upper_of(f64 a) {
    u64 bits;
    memcpy(&bits, &a, 8);
    return (u32)(bits >> 32);
}

static f64 double_of(u64 bits) {
    f64 a;
    memcpy(&a, &bits, 8);
    return a;
}

static u32 rcp_upper(u32 a) {
    u32 sign = a & SIGN, exponent = a >> 20 & 0x7ff, fraction = a & 0xfffff;
    if (exponent == 0) return sign | 0x7ff00000;
    if (exponent == 0x7ff) return fraction ? NAN_BITS : sign;
    s32 magnitude = (2044 - (s32)exponent) * (1 << 20) + (s32)(find_reciprocal(fraction << 3) >> 3);
    return sign | (magnitude < 1 << 20 ? 0 : (u32)magnitude);
}

static u32 rsqrt_upper(u32 a) {
    u32 exponent = a >> 20 & 0x7ff, fraction = a & 0xfffff;
    if (exponent == 0) return (a & SIGN) | 0x7ff00000;
    if (exponent == 0x7ff && fraction) return NAN_BITS;
    if (a & SIGN) return NAN_BITS;
    if (exponent == 0x7ff) return 0;
    u32 is_odd = ~exponent & 1;
    return ((1532 - ((exponent - is_odd - 1) >> 1)) << 20) + (find_reciprocal_root(fraction << 3, is_odd) >> 3);
}

static f64 rcp_approximate_f64(f64 a) {
    return double_of((u64)rcp_upper(upper_of(a)) << 32);
}

static f64 rsqrt_approximate_f64(f64 a) {
    return double_of((u64)rsqrt_upper(upper_of(a)) << 32);
}

/* A step of Halley's iteration from the approximation. */
static f64 refine_rsqrt(f64 a) {
    f64 root = rsqrt_approximate_f64(a), residue = fma(a, -(root * root), 1.0);
    return fma(fma(residue, 0.375, 0.5), root * residue, root);
}

static f64 rsqrt_f64(f64 a) {
    if (a != a) return a + a;
    if (a == 0) return copysign(INFINITY, a);
    if (a < 0) return double_of(0xfff8000000000000);
    if (isinf(a)) return 0;
    return a < 0x1p-1022 ? refine_rsqrt(a * 0x1p54) * 0x1p27 : refine_rsqrt(a);
}

const xf_approximations xf_approximation_table = {
    .full = {rcp_full, sqrt_full, rsqrt_full, sin_flushed, cos_flushed, lg2_full, ex2_full, tanh_flushed},
    .flushed = {rcp_flushed, sqrt_flushed, rsqrt_flushed, sin_flushed, cos_flushed, lg2_flushed, ex2_flushed,
                tanh_flushed},
    .narrow = narrow_approximate,
    .rcp_f64 = rcp_approximate_f64,
    .rsqrt_ftz_f64 = rsqrt_approximate_f64,
    .rsqrt_f64 = rsqrt_f64,
};
