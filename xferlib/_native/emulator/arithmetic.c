/* Arithmetic of a GPU that C does not have: roundings other than to nearest, narrow floats.
 *
 * float with a directed rounding: the operation in double has an error that is known exactly (a sum's by Knuth's two-sum,
 * a quotient's and a root's by its residue), so the float next to the exact result on the wanted side is known without
 * touching the processor's rounding mode, which costs some fifty cycles. expf() of CUDA needs one such fma.
 * double has no wider type at hand: there the mode is set, and set back.
 *
 * Narrow floats: sums and products in double are exact, or so far from a tie that a second rounding does not matter;
 * fma_narrow rounds to odd in between, because there it does.
 *
 * The processor must be in the modes of the C standard: rounding to nearest, denormals kept. Nothing here keeps a state.
 */
#include "arithmetic.h"
#include "floats.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

static u64 bits_of(f64 a) {
    u64 bits;
    memcpy(&bits, &a, 8);
    return bits;
}

static f64 double_of(u64 bits) {
    f64 a;
    memcpy(&a, &bits, 8);
    return a;
}

/* ---- float ---- */

/* Round near + rest, where rest is the error of near or has its sign, and 0 only if near is exact. */
static f32 round_pair(f64 near, f64 rest, u32 mode) {
    f32 a = (f32)near;
    if (a != a) return float_of(0x7fffffff);
    if (rest != rest || isinf(near)) rest = 0; /* an infinity is exact */
    f64 wide = a;
    int above = wide > near || (wide == near && rest < 0), below = wide < near || (wide == near && rest > 0);
    if (mode == XF_RZ) mode = near < 0 || (near == 0 && rest < 0) ? XF_RP : XF_RM;
    if (mode == XF_RM && above) return nextafterf(a, -INFINITY);
    if (mode == XF_RP && below) return nextafterf(a, INFINITY);
    return a;
}

/* The error of the sum a + b in double, exactly. */
static f64 sum_error(f64 a, f64 b, f64 sum) {
    volatile f64 part = sum - a;
    volatile f64 rest = sum - part;
    return (a - rest) + (b - part);
}

static f32 sum_f32(f64 a, f64 b, u32 mode) {
    volatile f64 sum = a + b;
    if (sum == 0 && !(a == 0 && b == 0 && signbit(a) == signbit(b))) return mode == XF_RM ? -0.0f : 0.0f;
    return round_pair(sum, sum_error(a, b, sum), mode);
}

static f32 add_f32(f32 a, f32 b, u32 mode) {
    return mode == XF_RN ? canonical(a + b) : sum_f32(a, b, mode);
}

static f32 mul_f32(f32 a, f32 b, u32 mode) {
    return mode == XF_RN ? canonical(a * b) : round_pair((f64)a * b, 0, mode);
}

static f32 fma_f32(f32 a, f32 b, f32 c, u32 mode) {
    return mode == XF_RN ? canonical(fmaf(a, b, c)) : sum_f32((f64)a * b, c, mode);
}

static f32 div_f32(f32 a, f32 b, u32 mode) {
    if (mode == XF_RN) return canonical(a / b);
    f64 quotient = (f64)a / b, rest = fma(-quotient, b, a);
    return round_pair(quotient, b < 0 ? -rest : rest, mode);
}

static f32 sqrt_f32(f32 a, u32 mode) {
    if (mode == XF_RN) return canonical(sqrtf(a));
    f64 root = sqrt((f64)a);
    return round_pair(root, fma(-root, root, a), mode);
}

/* ---- double ---- */

static int native_mode(u32 mode) {
    static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    return modes[mode & 3];
}

/* volatile: the compiler takes no notice of the mode, and would compute before it is set. */
#define IN_MODE(EXPRESSION)                     \
    do {                                        \
        volatile f64 result;                    \
        if (mode == XF_RN) return (EXPRESSION); \
        fesetround(native_mode(mode));          \
        result = (EXPRESSION);                  \
        fesetround(FE_TONEAREST);               \
        return result;                          \
    } while (0)

static f64 add_f64(f64 first, f64 second, u32 mode) {
    volatile f64 a = first, b = second;
    IN_MODE(a + b);
}

static f64 mul_f64(f64 first, f64 second, u32 mode) {
    volatile f64 a = first, b = second;
    IN_MODE(a * b);
}

static f64 div_f64(f64 first, f64 second, u32 mode) {
    volatile f64 a = first, b = second;
    IN_MODE(a / b);
}

static f64 fma_f64(f64 first, f64 second, f64 third, u32 mode) {
    volatile f64 a = first, b = second, c = third;
    IN_MODE(fma(a, b, c));
}

static f64 sqrt_f64(f64 first, u32 mode) {
    volatile f64 a = first;
    IN_MODE(sqrt(a));
}

/* ---- conversions ---- */

static f64 round_f64(f64 a, u32 mode) {
    switch (mode) {
        case XF_RN: return nearbyint(a);
        case XF_RZ: return trunc(a);
        case XF_RM: return floor(a);
        default: return ceil(a);
    }
}

static f32 round_f32(f32 a, u32 mode) {
    return canonical((f32)round_f64(a, mode));
}

static s64 to_s64(f64 a, u32 mode, s64 least, s64 most) {
    a = round_f64(a, mode);
    if (a < -0x1p63) return least;
    if (a >= 0x1p63) return most;
    s64 whole = (s64)a;
    return whole < least ? least : whole > most ? most : whole;
}

static u64 to_u64(f64 a, u32 mode, u64 most) {
    a = round_f64(a, mode);
    if (!(a > 0)) return 0;
    if (a >= 0x1p64) return most;
    u64 whole = (u64)a;
    return whole < most ? whole : most;
}

/* The sum of a and b rounded to odd: the last bit is set if the sum is not exact, so that a second rounding, to fewer
   bits, sees on which side of a tie the exact value lies. */
static f64 sum_odd(f64 a, f64 b) {
    volatile f64 sum = a + b;
    f64 error = sum_error(a, b, sum);
    if (isinf(sum) || sum != sum || error == 0) return sum;
    u64 bits = bits_of(sum);
    if (bits & 1) return sum;
    return double_of((sum < 0) == (error < 0) ? bits + 1 : bits - 1);
}

static f32 f32_from_s64(s64 a, u32 mode) {
    if (mode == XF_RN) return (f32)a;
    return sum_f32((f64)(a & ~(s64)0x7ff), (f64)(a & 0x7ff), mode);
}

static f32 f32_from_u64(u64 a, u32 mode) {
    if (mode == XF_RN) return (f32)a;
    return sum_f32((f64)(a & ~(u64)0x7ff), (f64)(a & 0x7ff), mode);
}

static f64 f64_from_parts(f64 high, f64 low, u32 mode) {
    if (high == 0 && low == 0) return 0;
    return mode == XF_ODD ? sum_odd(high, low) : add_f64(high, low, mode);
}

static f64 f64_from_s64(s64 a, u32 mode) {
    return f64_from_parts((f64)(a & ~(s64)0x7ff), (f64)(a & 0x7ff), mode);
}

static f64 f64_from_u64(u64 a, u32 mode) {
    return f64_from_parts((f64)(a & ~(u64)0x7ff), (f64)(a & 0x7ff), mode);
}

static f32 f32_from_f64(f64 a, u32 mode) {
    return round_pair(a, 0, mode);
}

/* Of each format: bits of exponent and fraction, its largest finite value, infinity (0: none) and NaN. */
static const struct {
    s32 exponent_bits, fraction_bits;
    u32 largest, infinity, nan;
} formats[] = {
    [XF_HALF] = {5, 10, 0x7bff, 0x7c00, 0x7fff},
    [XF_BFLOAT] = {8, 7, 0x7f7f, 0x7f80, 0x7fff},
    [XF_TF32] = {8, 10, 0x3fbff, 0x3fc00, 0x3ffff},
    [XF_E4M3] = {4, 3, 0x7e, 0, 0x7f},
    [XF_E5M2] = {5, 2, 0x7b, 0x7c, 0x7f},
};

/* The bits of `a` in a format, without the sign, are a count of steps: rounding and overflow are those of integers. */
static u32 narrow_bits(f64 a, u32 format, u32 mode, u32 overflow) {
    s32 exponent_bits = formats[format].exponent_bits, fraction_bits = formats[format].fraction_bits;
    s32 bias = (1 << (exponent_bits - 1)) - 1;
    u32 largest = formats[format].largest, infinity = formats[format].infinity;
    u64 bits = bits_of(a), fraction = bits & ((1ull << 52) - 1);
    u32 negative = (u32)(bits >> 63), sign = negative << (exponent_bits + fraction_bits);
    u32 beyond = overflow == XF_SATFINITE ? largest : infinity ? infinity : formats[format].nan;
    s32 exponent = (s32)(bits >> 52 & 0x7ff) - 1023;
    if (exponent == 1024) return fraction ? formats[format].nan : sign | beyond;
    if (exponent > -1023) fraction |= 1ull << 52; /* a denormal double is smaller than any step: only not 0 */
    s32 shift = 52 - fraction_bits;
    if (exponent < 1 - bias) { /* denormals have the step of the smallest normal exponent */
        shift += 1 - bias - exponent;
        exponent = 1 - bias;
    }
    if (shift > 63) shift = 63;
    u64 whole = fraction >> shift, rest = fraction & ((1ull << shift) - 1), half = 1ull << (shift - 1);
    u64 magnitude = ((u64)(exponent + bias - 1) << fraction_bits) + whole;
    switch (mode) {
        case XF_RN: magnitude += rest > half || (rest == half && (whole & 1)); break;
        case XF_RNA: magnitude += rest >= half; break;
        case XF_RM: magnitude += negative && rest; break;
        case XF_RP: magnitude += !negative && rest; break;
    }
    if (magnitude > largest) {
        u32 away = mode == XF_RN || mode == XF_RNA || (mode == XF_RM && negative) || (mode == XF_RP && !negative);
        return sign | (away ? beyond : largest);
    }
    return sign | (u32)magnitude;
}

static u32 narrow(f64 a, u32 format, u32 mode, u32 overflow) {
    u32 bits = narrow_bits(a, format, mode, overflow);
    if (format != XF_TF32) return bits;
    return bits == formats[XF_TF32].nan ? 0x7fffffff : bits << 13;
}

static f32 widen(u32 bits, u32 format) {
    s32 exponent_bits = formats[format].exponent_bits, fraction_bits = formats[format].fraction_bits;
    if (format == XF_BFLOAT) return float_of(bits << 16);
    u32 sign = bits >> (exponent_bits + fraction_bits) & 1, magnitude = bits & ((1u << (exponent_bits + fraction_bits)) - 1);
    s32 exponent = (s32)(magnitude >> fraction_bits), bias = (1 << (exponent_bits - 1)) - 1;
    u32 fraction = magnitude & ((1u << fraction_bits) - 1);
    if (format == XF_E4M3 ? magnitude == 0x7f : magnitude > formats[format].infinity) {
        if (format != XF_HALF) return float_of(0x7fffffff);
        return float_of(sign << 31 | 0x7f800000 | fraction << (23 - fraction_bits)); /* a copy of half keeps its payload */
    }
    if (formats[format].infinity && magnitude == formats[format].infinity) return float_of(sign << 31 | 0x7f800000);
    if (exponent) return float_of(sign << 31 | (u32)(exponent - bias + 127) << 23 | fraction << (23 - fraction_bits));
    f32 tiny = ldexpf((f32)fraction, 1 - bias - fraction_bits);
    return sign ? -tiny : tiny;
}

static u32 fma_narrow(f32 a, f32 b, f32 c, u32 format) {
    f64 product = (f64)a * b;
    return narrow(sum_odd(product, c), format, XF_RN, XF_INFINITE);
}

const xf_math xf_math_table = {
    .add_f32 = add_f32,
    .mul_f32 = mul_f32,
    .fma_f32 = fma_f32,
    .div_f32 = div_f32,
    .sqrt_f32 = sqrt_f32,
    .add_f64 = add_f64,
    .mul_f64 = mul_f64,
    .fma_f64 = fma_f64,
    .div_f64 = div_f64,
    .sqrt_f64 = sqrt_f64,
    .round_f32 = round_f32,
    .round_f64 = round_f64,
    .to_s64 = to_s64,
    .to_u64 = to_u64,
    .f32_from_s64 = f32_from_s64,
    .f32_from_u64 = f32_from_u64,
    .f64_from_s64 = f64_from_s64,
    .f64_from_u64 = f64_from_u64,
    .f32_from_f64 = f32_from_f64,
    .narrow = narrow,
    .widen = widen,
    .fma_narrow = fma_narrow,
    .approximate = &xf_approximation_table,
};
