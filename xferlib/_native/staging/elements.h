/* Conversions of contiguous elements, and words that are apart on the host: each for any processor, and for one with AVX2.

   The obvious way, C's own conversions in one loop, is undefined where a float does not fit an integer, and compilers make no
   vectors of some. Conversions are those of NumPy's `astype`, but for floats to integers, which saturate, with 0 for NaN (as
   xferlib/_core/arrays.py says). The dtypes' numbers are places in the tables of loops.h and in xferlib/_native/__init__.py.

   Included by strided.c alone: what is called for a few elements has to be inlined there. */

#ifndef XFERLIB_ELEMENTS_H
#define XFERLIB_ELEMENTS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define HAS_AVX2 /* and F16C: every processor with the one has the other */
#endif

#define FLOATS 512 /* of a conversion in two steps: 2 KiB */
#define PART 16 /* elements that IN_PARTS converts at a time */
#define TYPES 19
#define NUMPYS 14 /* of them, the first */

typedef uint8_t C_bool;
typedef int8_t C_i8;
typedef int16_t C_i16;
typedef int32_t C_i32;
typedef int64_t C_i64;
typedef uint8_t C_u8;
typedef uint16_t C_u16;
typedef uint32_t C_u32;
typedef uint64_t C_u64;
typedef uint16_t C_f16;
typedef float C_f32, C_odd;
typedef double C_f64;
typedef uint64_t C_c64; /* of two floats: structures of them are not made by vectors */
typedef struct {
    double real, imag;
} C_c128;
typedef uint16_t C_bf16;
typedef uint8_t C_e4m3, C_e5m2, C_e4m3z, C_e5m2z; /* z: without a zero of negative sign, whose bits are those of NaN */

typedef void (*Convert)(char *restrict to, const char *restrict from, int64_t count);

typedef struct { /* words of one size: on the host `step` bytes apart, elsewhere one behind the other */
    void (*gather)(char *restrict to, const char *restrict from, int64_t count, int64_t step);
    void (*scatter)(char *restrict to, const char *restrict from, int64_t count, int64_t step);
} WordLoops;

/* The sizes of words for which there are loops; of some, steps are constants in some. */
#define EACH_SIZE(DO) DO(1) DO(2) DO(3) DO(4) DO(6) DO(8) DO(12) DO(16) DO(24) DO(32)
#define HAS_STEPS(SIZE) ((SIZE) == 1 || (SIZE) == 2 || (SIZE) == 4 || (SIZE) == 8)
#define INLINED static inline __attribute__((always_inline))

INLINED void copy_words(
    char *restrict to, int64_t to_step, const char *restrict from, int64_t from_step, int64_t count, size_t size) {
    for (int64_t i = 0; i < count; i++) memcpy(to + i * to_step, from + i * from_step, size);
}

/* Where a step is a variable, vectors would not help, but four at a time take the counting out of the way: a third less time for
   single bytes. */
INLINED void hop_words(
    char *restrict to, int64_t to_step, const char *restrict from, int64_t from_step, int64_t count, size_t size) {
    int64_t i = 0;
    for (; i + 4 <= count; i += 4, to += 4 * to_step, from += 4 * from_step) {
        memcpy(to, from, size), memcpy(to + to_step, from + from_step, size);
        memcpy(to + 2 * to_step, from + 2 * from_step, size), memcpy(to + 3 * to_step, from + 3 * from_step, size);
    }
    for (; i < count; i++, to += to_step, from += from_step) memcpy(to, from, size);
}

/* To nearest, ties to even. Adding a number whose last bit is worth that of the smallest half rounds subnormal ones. */
static inline uint16_t float_to_half(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    uint32_t sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    float small;
    memcpy(&small, &bits, 4);
    small += 0.5f;
    uint32_t subnormal;
    memcpy(&subnormal, &small, 4);
    subnormal -= 0x3f000000;
    uint32_t normal = (bits - (112u << 23) + 0xfff + (bits >> 13 & 1)) >> 13;
    uint32_t payload = bits >> 13 & 0x3ff;
    uint32_t nan = 0x7c00 | (payload ? payload : 1);
    uint32_t large = bits > 0x7f800000 ? nan : 0x7c00;
    return (uint16_t)(sign | (bits >= 143u << 23 ? large : bits < 113u << 23 ? subnormal : normal));
}

static inline uint16_t double_to_half(double value) {
    uint64_t bits;
    memcpy(&bits, &value, 8);
    uint64_t sign = bits >> 48 & 0x8000;
    bits &= 0x7fffffffffffffff;
    double small;
    memcpy(&small, &bits, 8);
    small += 268435456.0; /* 2^28: its last bit is worth 2^-24 */
    uint64_t subnormal;
    memcpy(&subnormal, &small, 8);
    subnormal -= 0x41b0000000000000;
    uint64_t normal = (bits - (1008ull << 52) + ((1ull << 41) - 1) + (bits >> 42 & 1)) >> 42;
    uint64_t payload = bits >> 42 & 0x3ff;
    uint64_t nan = 0x7c00 | (payload ? payload : 1);
    uint64_t large = bits > 0x7ff0000000000000 ? nan : 0x7c00;
    return (uint16_t)(sign | (bits >= 1039ull << 52 ? large : bits < 1009ull << 52 ? subnormal : normal));
}

/* Negative numbers become 0 by a mask: a branch on the sign of random numbers takes five times as long. From 2^63 on the
   signed conversion gets the rest; what is too large is the largest. */
static inline uint64_t double_to_u64(double value) {
    double most = 9223372036854775808.0, positive;
    int64_t bits;
    memcpy(&bits, &value, 8);
    bits &= ~(bits >> 63);
    memcpy(&positive, &bits, 8);
    if (positive < most) return (uint64_t)(int64_t)positive;
    if (positive < 2 * most) return (uint64_t)(int64_t)(positive - most) + (1ull << 63);
    return positive == positive ? UINT64_MAX : 0;
}

/* For numbers nearer to 0 than NEAR, see loops.h: exact, and the integer towards 0. */
#define MAGIC 6755399441055744.0
#define NEAR 2251799813685248
#define NEAR_DOUBLE 0x431fffffffffffff /* bits of the last float below NEAR; those of positive floats are in their order */
#define NEAR_SINGLE 0x58ffffff

static inline int64_t bits_of(double value) {
    int64_t bits;
    memcpy(&bits, &value, 8);
    return bits;
}

static inline double near_double(int64_t value) {
    int64_t bits = bits_of(MAGIC) + value;
    double sum;
    memcpy(&sum, &bits, 8);
    return sum - MAGIC;
}

static inline int64_t near_integer(double value) {
    return bits_of(__builtin_trunc(value) + MAGIC) - bits_of(MAGIC);
}

static inline int32_t single_bits(float value) {
    int32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

/* Exact. Subnormal halves are put in order by the subtraction of the smallest normal one. */
static inline float half_to_float(uint16_t half) {
    uint32_t bits = (uint32_t)(half & 0x7fff) << 13, exponent = bits & 0x0f800000;
    bits += 112u << 23;
    uint32_t raised = bits + (1u << 23), magic = 113u << 23;
    float low, smallest;
    memcpy(&low, &raised, 4);
    memcpy(&smallest, &magic, 4);
    low -= smallest;
    uint32_t subnormal;
    memcpy(&subnormal, &low, 4);
    bits = exponent == 0x0f800000 ? bits + (112u << 23) : exponent == 0 ? subnormal : bits;
    bits |= (uint32_t)(half & 0x8000) << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

/* Small floats: a sign, an exponent, and `fraction` bits, in one or two bytes. The table is in xferlib/_core/dtypes.py: the
   largest finite number, what is beyond it, NaN. To nearest, ties to even; as for halves above, adding a number whose last
   bit is worth that of the smallest number rounds subnormal ones. */
INLINED uint32_t narrow(
    float value, int nbytes, uint32_t fraction, uint32_t bias, uint32_t most, uint32_t beyond, uint32_t nan) {
    uint32_t bits = (uint32_t)single_bits(value), sign = bits >> 31 << (8 * nbytes - 1), drop = 23 - fraction;
    bits &= 0x7fffffff;
    uint32_t last = bits >> drop & 1, code = (bits - ((127 - bias) << 23) + (1u << (drop - 1)) - 1 + last) >> drop;
    if (bias != 127) { /* else the subnormal numbers are those of floats */
        uint32_t large = (151 - bias - fraction) << 23;
        float small, magic;
        memcpy(&small, &bits, 4);
        memcpy(&magic, &large, 4);
        uint32_t subnormal = (uint32_t)single_bits(small + magic) - large;
        code = bits < (128 - bias) << 23 ? subnormal : code;
    }
    code = bits > 0x7f800000 ? nan : code > most ? beyond : code;
    return nan == 0x80 && code == 0 ? 0 : sign | code;
}

/* Exact. */
INLINED float widen(uint32_t code, int nbytes, uint32_t fraction, uint32_t bias, uint32_t most, uint32_t beyond, uint32_t nan) {
    uint32_t sign = code >> (8 * nbytes - 1) << 31, size = code & ((1u << (8 * nbytes - 1)) - 1), drop = 23 - fraction;
    uint32_t bits = (size << drop) + ((127 - bias) << 23);
    if (bias != 127) {
        uint32_t least = (128 - bias - fraction) << 23;
        float unit;
        memcpy(&unit, &least, 4);
        uint32_t subnormal = (uint32_t)single_bits((float)(int32_t)size * unit);
        bits = size < 1u << fraction ? subnormal : bits;
        bits = size <= most ? bits : size == beyond && beyond != nan ? 0x7f800000 : 0x7fc00000;
        bits = nan == 0x80 && code == nan ? 0x7fc00000 : bits;
    }
    bits |= sign;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

/* In the order of that table: the place of a form, behind NumPy's dtypes, is the number of the dtype. */
#define EACH_FORM(DO)                        \
    DO(bf16, 7, 127, 0x7f7f, 0x7f80, 0x7fc0) \
    DO(e4m3, 3, 7, 0x7e, 0x7f, 0x7f)         \
    DO(e5m2, 2, 15, 0x7b, 0x7c, 0x7e)        \
    DO(e4m3z, 3, 8, 0x7f, 0x80, 0x80)        \
    DO(e5m2z, 2, 16, 0x7f, 0x80, 0x80)
#define SMALL(NAME, ...)                                                                                          \
    INLINED C_##NAME to_##NAME(float x) { return (C_##NAME)narrow(x, sizeof(C_##NAME), __VA_ARGS__); }            \
    INLINED float of_##NAME(C_##NAME x) { return widen(x, sizeof x, __VA_ARGS__); }
EACH_FORM(SMALL)

/* A float from which rounding once more gives what rounding once does: one that is not exact gets the last bit 1, between the
   two that are next to the number. */
INLINED float odd_of_double(double value) {
    float near = (float)value;
    double back = near;
    int32_t is_inexact = back != value && value == value, bits = single_bits(near);
    bits = (bits - (is_inexact & (__builtin_fabs(back) > __builtin_fabs(value)))) | is_inexact;
    memcpy(&near, &bits, 4);
    return near;
}

/* A double of 53 bits has not room for all; of a larger number the last ones become one, which is 1 if one of them is. */
INLINED float odd_of_i64(int64_t value) {
    int64_t rounded = (value & ~INT64_C(0x7ff)) | (int64_t)((value & 0x7ff) != 0) << 11;
    return odd_of_double((double)((uint64_t)value + (1ull << 53) > 1ull << 54 ? rounded : value));
}

INLINED float odd_of_u64(uint64_t value) {
    uint64_t rounded = (value & ~UINT64_C(0x7ff)) | (uint64_t)((value & 0x7ff) != 0) << 11;
    return odd_of_double((double)(value > 1ull << 53 ? rounded : value));
}

/* The real part comes first in memory. */
static inline C_c64 complex_of(float real) {
    uint32_t bits;
    memcpy(&bits, &real, 4);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return (C_c64)bits << 32;
#else
    return bits;
#endif
}

/* By way of float, which holds every small one, in blocks that stay in the first cache: each step uses vectors. Not inlined:
   each pair of dtypes would have its own code for both steps, three times as much in all. */
__attribute__((noinline)) static void in_two_steps(
    char *restrict to, const char *restrict from, int64_t count, Convert first, Convert second, int64_t from_size, int64_t to_size) {
    float block[FLOATS];
    for (int64_t done = 0, most; done < count; done += most) {
        most = count - done < FLOATS ? count - done : FLOATS;
        first((char *)block, from + done * from_size, most);
        second(to + done * to_size, (const char *)block, most);
    }
}

#define NAMED(NAME) NAME##_anywhere
#define TARGET
#include "loops.h"

#ifdef HAS_AVX2
#define NAMED(NAME) NAME##_avx2
#define TARGET __attribute__((target("avx2,f16c")))
#define HALVES_BY_F16C
#include "loops.h"
#undef HALVES_BY_F16C
#endif

#ifdef HAS_AVX2
#define BEST(NAME) (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c") ? NAME##_avx2 : NAME##_anywhere)
#else
#define BEST(NAME) NAME##_anywhere
#endif

#endif
