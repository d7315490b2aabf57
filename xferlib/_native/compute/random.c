/* Random numbers by counter, in host memory: the bits of the kernels of xferlib/kernels/random.py, which says where each step is
   from. A block of four words is a function of its counter and its key; a distribution makes as many numbers of each block as
   the kernel does, by the same exact and rounded operations. */

#include "compute.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

enum { ROUNDS = 10, TOGETHER = 64, AT_LEAST = 16 }; /* blocks that are made together: at least as many as vectors hold */
static const uint32_t MULTIPLIERS[2] = {0xD2511F53, 0xCD9E8D57}, WEYL[2] = {0x9E3779B9, 0xBB67AE85};

typedef struct {
    uint32_t counter[4], key[2];
} place;

typedef union {
    struct {
        double first, second; /* low and span; loc and scale */
    } real;
    struct {
        uint64_t low, second; /* the second is the shift, or the count */
    } whole;
} parameters;

typedef uint32_t blocks[4][TOGETHER];

/* The blocks of a counter and of those after it; its lowest word does not overflow. */
static void make_blocks_anywhere(blocks w, const place *p, int count)
{
    for (int j = 0; j < count; ++j) {
        uint32_t c0 = p->counter[0] + (uint32_t)j, c1 = p->counter[1], c2 = p->counter[2], c3 = p->counter[3];
        uint32_t k0 = p->key[0], k1 = p->key[1];
        for (int round = 0; round < ROUNDS; ++round) {
            uint64_t one = (uint64_t)c0 * MULTIPLIERS[0], two = (uint64_t)c2 * MULTIPLIERS[1];
            c0 = (uint32_t)(two >> 32) ^ c1 ^ k0;
            c1 = (uint32_t)two;
            c2 = (uint32_t)(one >> 32) ^ c3 ^ k1;
            c3 = (uint32_t)one;
            k0 += WEYL[0];
            k1 += WEYL[1];
        }
        w[0][j] = c0;
        w[1][j] = c1;
        w[2][j] = c2;
        w[3][j] = c3;
    }
}

/* Compilers put the halves of products together by permutations, three times as slowly. A multiplication takes every other
   word of a vector; the others are moved to their places, and the halves of both chosen from each. */
#define BY_VECTORS(NAME, TARGET, VECTOR, LANES, OF_ALL, ADD, XOR, MULTIPLY, RIGHT, LEFT, CHOOSE)                   \
    __attribute__((target(TARGET))) static void NAME(blocks w, const place *p, int count)                          \
    {                                                                                                              \
        VECTOR numbers;                                                                                            \
        memcpy(&numbers, NUMBERS, sizeof numbers);                                                                 \
        for (int j = 0; j < count; j += LANES) {                                                                   \
            VECTOR c0 = ADD(OF_ALL((int)(p->counter[0] + (uint32_t)j)), numbers), c1 = OF_ALL((int)p->counter[1]); \
            VECTOR c2 = OF_ALL((int)p->counter[2]), c3 = OF_ALL((int)p->counter[3]);                               \
            uint32_t k0 = p->key[0], k1 = p->key[1];                                                               \
            for (int round = 0; round < ROUNDS; ++round) {                                                         \
                const VECTOR m0 = OF_ALL((int)MULTIPLIERS[0]), m1 = OF_ALL((int)MULTIPLIERS[1]);                   \
                VECTOR even = MULTIPLY(c0, m0), odd = MULTIPLY(RIGHT(c0, 32), m0);                                 \
                VECTOR high = CHOOSE(RIGHT(even, 32), odd), low = CHOOSE(even, LEFT(odd, 32));                     \
                even = MULTIPLY(c2, m1);                                                                           \
                odd = MULTIPLY(RIGHT(c2, 32), m1);                                                                 \
                c0 = XOR(XOR(CHOOSE(RIGHT(even, 32), odd), c1), OF_ALL((int)k0));                                  \
                c1 = CHOOSE(even, LEFT(odd, 32));                                                                  \
                c2 = XOR(XOR(high, c3), OF_ALL((int)k1));                                                          \
                c3 = low;                                                                                          \
                k0 += WEYL[0];                                                                                     \
                k1 += WEYL[1];                                                                                     \
            }                                                                                                      \
            memcpy(&w[0][j], &c0, sizeof c0);                                                                      \
            memcpy(&w[1][j], &c1, sizeof c1);                                                                      \
            memcpy(&w[2][j], &c2, sizeof c2);                                                                      \
            memcpy(&w[3][j], &c3, sizeof c3);                                                                      \
        }                                                                                                          \
    }
#if defined(__x86_64__) && defined(__GNUC__)
static const uint32_t NUMBERS[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#define CHOOSE_8(x, y) _mm256_blend_epi32(x, y, 0xAA)
#define CHOOSE_16(x, y) _mm512_mask_blend_epi32(0xAAAA, x, y)
BY_VECTORS(make_blocks_avx2, "avx2", __m256i, 8, _mm256_set1_epi32, _mm256_add_epi32, _mm256_xor_si256, _mm256_mul_epu32,
           _mm256_srli_epi64, _mm256_slli_epi64, CHOOSE_8)
BY_VECTORS(make_blocks_avx512, "avx512f", __m512i, 16, _mm512_set1_epi32, _mm512_add_epi32, _mm512_xor_si512, _mm512_mul_epu32,
           _mm512_srli_epi64, _mm512_slli_epi64, CHOOSE_16)
#endif

static void make_blocks(blocks w, const place *p, int count)
{
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx512f"))
        make_blocks_avx512(w, p, count);
    else if (__builtin_cpu_supports("avx2"))
        make_blocks_avx2(w, p, count);
    else
#endif
        make_blocks_anywhere(w, p, count);
}

static void step_on(place *p, uint32_t count)
{
    uint64_t low = p->counter[0] | (uint64_t)p->counter[1] << 32, high = p->counter[2] | (uint64_t)p->counter[3] << 32;
    high += low + count < low;
    low += count;
    p->counter[0] = (uint32_t)low;
    p->counter[1] = (uint32_t)(low >> 32);
    p->counter[2] = (uint32_t)high;
    p->counter[3] = (uint32_t)(high >> 32);
}

/* --- the numbers of a block: VALUES(j, v) writes PER of them to v */

#define DISTRIBUTION(NAME, T, PER, VALUES)                                                                       \
    INLINED void NAME##_body(char *out, Py_ssize_t count, place p, parameters given)                             \
    {                                                                                                            \
        T *to = (T *)(void *)out, *into, rest[TOGETHER * PER];                                                   \
        blocks w = {{0}}; /* as no compiler sees that what is read is written */                                 \
        while (count > 0) {                                                                                      \
            Py_ssize_t made = TOGETHER * PER;                                                                    \
            uint32_t left = UINT32_MAX - p.counter[0];                                                           \
            int number = count < made ? (int)((count + PER - 1) / PER) : TOGETHER, many;                         \
            number = left < TOGETHER && (int)left + 1 < number ? (int)left + 1 : number;                         \
            many = (number + AT_LEAST - 1) / AT_LEAST * AT_LEAST;                                                \
            made = number * PER < count ? number * PER : count;                                                  \
            into = made == number * PER ? to : rest;                                                             \
            make_blocks(w, &p, many);                                                                            \
            for (int j = 0; j < number; ++j)                                                                     \
                VALUES(T, into + j * PER);                                                                       \
            if (into == rest)                                                                                    \
                memcpy(to, rest, (size_t)made * sizeof(T));                                                      \
            to += made;                                                                                          \
            count -= made;                                                                                       \
            step_on(&p, (uint32_t)number);                                                                       \
        }                                                                                                        \
        (void)given;                                                                                             \
    }                                                                                                            \
    FOR_VECTORS(NAME, (char *out, Py_ssize_t count, place p, parameters given), (out, count, p, given))

/* The steps in double are exact where a whole number is cut in two, and round once where the halves meet: vectors have no
   conversion of 64 bits. */
#define LOW_HALF(x) ((double)(uint32_t)(x))
INLINED double of_unsigned(uint64_t x)
{
    return (double)(uint32_t)(x >> 32) * 4294967296.0 + LOW_HALF(x);
}
INLINED double of_signed(int64_t x)
{
    return (double)(int32_t)(x >> 32) * 4294967296.0 + LOW_HALF(x);
}
#define WIDE(n) ((uint64_t)w[2 * (n) + 1][j] << 32 | w[2 * (n)][j])
#define UNIT_f32(n) ((float)(int32_t)(w[n][j] >> 8) * 0x1p-24f)
#define UNIT_f64(n) (of_signed((int64_t)(WIDE(n) >> 11)) * 0x1p-53)

#define RANDOM_f32(T, v)                                          \
    do {                                                          \
        for (int n = 0; n < 4; ++n)                               \
            (v)[n] = UNIT_f32(n);                                 \
    } while (0)
#define RANDOM_f64(T, v)                                          \
    do {                                                          \
        for (int n = 0; n < 2; ++n)                               \
            (v)[n] = UNIT_f64(n);                                 \
    } while (0)
#define UNIFORM_f32(T, v)                                                                         \
    do {                                                                                          \
        for (int n = 0; n < 4; ++n)                                                               \
            (v)[n] = (float)given.real.first + (float)given.real.second * UNIT_f32(n);            \
    } while (0)
#define UNIFORM_f64(T, v)                                                          \
    do {                                                                           \
        for (int n = 0; n < 2; ++n)                                                \
            (v)[n] = given.real.first + given.real.second * UNIT_f64(n);           \
    } while (0)
DISTRIBUTION(random_f32, float, 4, RANDOM_f32)
DISTRIBUTION(random_f64, double, 2, RANDOM_f64)
DISTRIBUTION(uniform_f32, float, 4, UNIFORM_f32)
DISTRIBUTION(uniform_f64, double, 2, UNIFORM_f64)

/* --- normal numbers */

#define BITS_OF(TO, FROM)                                      \
    INLINED TO TO##_of_##FROM(FROM x)                          \
    {                                                          \
        TO bits;                                               \
        memcpy(&bits, &x, sizeof bits);                        \
        return bits;                                           \
    }
BITS_OF(uint32_t, float)
BITS_OF(float, uint32_t)
BITS_OF(uint64_t, double)
BITS_OF(double, uint64_t)

/* Two normal numbers of two words, as _pair() makes them: the terms of the series of log, cos and sin in SERIES. */
#define NORMAL(NAME, T, U, S, BITS, MANTISSA, ROOT_HALF, FLOAT_OF_U, FLOAT_OF_S, ROOT, LOG_TERMS, TERMS)                      \
    INLINED void NAME(U x, U y, T loc, T scale, T *v)                                                                         \
    {                                                                                                                         \
        static const T of_log[] = LOG_TERMS, of_cosine[] = {TERMS(0)}, of_sine[] = {TERMS(1)};                                \
        const U one = U##_of_##T(1), bits = U##_of_##T(FLOAT_OF_U(x | 1)) + (one - (U)(ROOT_HALF));                           \
        const int32_t k = (int32_t)(bits >> MANTISSA) - (int32_t)((one >> MANTISSA) + BITS);                                  \
        const T m = T##_of_##U((bits & (((U)1 << MANTISSA) - 1)) + (U)(ROOT_HALF)), s = (m - 1) / (m + 1), s2 = s * s;        \
        const T angle = FLOAT_OF_S(((S)y >> (BITS - MANTISSA - 2)) | 1) * (T)(0.78539816339744830962 / 2 / ((U)1 << MANTISSA)); \
        const T a2 = angle * angle;                                                                                           \
        const U mirrored = (U)0 - (y & 1);                                                                                    \
        T series = of_log[sizeof of_log / sizeof(T) - 1], cosine = of_cosine[sizeof of_cosine / sizeof(T) - 1];               \
        T sine = of_sine[sizeof of_sine / sizeof(T) - 1], radius;                                                             \
        U one_bits, other_bits;                                                                                               \
        for (int n = (int)(sizeof of_log / sizeof(T)) - 2; n >= 0; --n)                                                       \
            series = series * s2 + of_log[n];                                                                                 \
        for (int n = (int)(sizeof of_cosine / sizeof(T)) - 2; n >= 0; --n) {                                                  \
            cosine = cosine * a2 + of_cosine[n];                                                                              \
            sine = sine * a2 + of_sine[n];                                                                                    \
        }                                                                                                                     \
        sine = angle * sine;                                                                                                  \
        radius = ROOT((T)k * (T)-1.3862943611198906 + (s * -4) * series);                                                     \
        radius = T##_of_##U(U##_of_##T(radius) ^ (y >> 1) << (BITS - 1));                                                     \
        one_bits = (U##_of_##T(sine) & mirrored) | (U##_of_##T(cosine) & ~mirrored);                                          \
        other_bits = (U##_of_##T(cosine) & mirrored) | (U##_of_##T(sine) & ~mirrored);                                        \
        v[0] = loc + scale * (radius * T##_of_##U(one_bits));                                                                 \
        v[1] = loc + scale * (radius * T##_of_##U(other_bits));                                                               \
    }
#define SINGLE_LOG {1, (float)(1.0 / 3), (float)(1.0 / 5), (float)(1.0 / 7), (float)(1.0 / 9), (float)(1.0 / 11)}
#define DOUBLE_LOG {1, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21}
/* 1 / n!, with alternating signs, for even n, or for the odd ones after them. */
#define SINGLE_TERMS(ODD)                                                                                                  \
    1, (float)(-1.0 / (ODD ? 6 : 2)), (float)(1.0 / (ODD ? 120 : 24)), (float)(-1.0 / (ODD ? 5040 : 720)),                 \
        (float)(1.0 / (ODD ? 362880 : 40320)), (float)(-1.0 / (ODD ? 39916800 : 3628800))
#define DOUBLE_TERMS(ODD)                                                                                                  \
    1, -1.0 / (ODD ? 6 : 2), 1.0 / (ODD ? 120 : 24), -1.0 / (ODD ? 5040 : 720), 1.0 / (ODD ? 362880 : 40320),              \
        -1.0 / (ODD ? 39916800 : 3628800), 1.0 / (ODD ? 6227020800.0 : 479001600.0),                                       \
        -1.0 / (ODD ? 1307674368000.0 : 87178291200.0), 1.0 / (ODD ? 355687428096000.0 : 20922789888000.0)
#define FLOAT_OF(x) ((float)(x))
NORMAL(normal_pair_f32, float, uint32_t, int32_t, 32, 23, 0x3F3504F3, FLOAT_OF, FLOAT_OF, sqrtf, SINGLE_LOG, SINGLE_TERMS)
NORMAL(normal_pair_f64, double, uint64_t, int64_t, 64, 52, 0x3FE6A09E667F3BCD, of_unsigned, of_signed, sqrt, DOUBLE_LOG,
       DOUBLE_TERMS)
#define NORMAL_f32(T, v)                                                                                                  \
    do {                                                                                                                  \
        normal_pair_f32(w[0][j], w[1][j], (float)given.real.first, (float)given.real.second, (v));                        \
        normal_pair_f32(w[2][j], w[3][j], (float)given.real.first, (float)given.real.second, (v) + 2);                    \
    } while (0)
#define NORMAL_f64(T, v) normal_pair_f64(WIDE(0), WIDE(1), given.real.first, given.real.second, (v))
DISTRIBUTION(normal_f32, float, 4, NORMAL_f32)
DISTRIBUTION(normal_f64, double, 2, NORMAL_f64)

/* --- integers */

INLINED uint64_t upper(uint64_t x, uint64_t y) /* the bits from 64 on of the product */
{
#ifdef __SIZEOF_INT128__
    __extension__ typedef unsigned __int128 product;
    return (uint64_t)((product)x * y >> 64);
#else
    uint64_t x0 = (uint32_t)x, x1 = x >> 32, y0 = (uint32_t)y, y1 = y >> 32, middle = x1 * y0 + (x0 * y0 >> 32);
    return x1 * y1 + (middle >> 32) + ((x0 * y1 + (uint32_t)middle) >> 32);
#endif
}
INLINED uint64_t of_96(uint64_t low, uint64_t high, uint64_t count)
{
    return (high * count + (low * count >> 32)) >> 32;
}
INLINED uint64_t of_192(uint64_t low, uint64_t high, uint64_t count)
{
    uint64_t carry = upper(low, count), middle = high * count;
    return upper(high, count) + (middle + carry < middle);
}
#define AS_BOOL(T, offset) ((uint32_t)(given.whole.low + (offset)) != 0)
#define AS_NUMBER(T, offset) ((T)(given.whole.low + (offset)))
#define SHIFT32(T, v, AS)                                                    \
    do {                                                                     \
        for (int n = 0; n < 4; ++n)                                          \
            (v)[n] = AS(T, (uint64_t)w[n][j] >> given.whole.second);         \
    } while (0)
#define SHIFT64(T, v, AS)                                        \
    do {                                                         \
        for (int n = 0; n < 2; ++n)                              \
            (v)[n] = AS(T, WIDE(n) >> given.whole.second);       \
    } while (0)
#define PRODUCT64(T, v, AS)                                                                       \
    do {                                                                                          \
        for (int n = 0; n < 2; ++n)                                                               \
            (v)[n] = AS(T, of_96(w[2 * n][j], w[2 * n + 1][j], given.whole.second));              \
    } while (0)
#define PRODUCT128(T, v, AS) ((v)[0] = AS(T, of_192(WIDE(0), WIDE(1), given.whole.second)))
#define SHIFT32_b(T, v) SHIFT32(T, v, AS_BOOL)
#define SHIFT64_b(T, v) SHIFT64(T, v, AS_BOOL)
#define PRODUCT64_b(T, v) PRODUCT64(T, v, AS_BOOL)
#define PRODUCT128_b(T, v) PRODUCT128(T, v, AS_BOOL)
#define SHIFT32_n(T, v) SHIFT32(T, v, AS_NUMBER)
#define SHIFT64_n(T, v) SHIFT64(T, v, AS_NUMBER)
#define PRODUCT64_n(T, v) PRODUCT64(T, v, AS_NUMBER)
#define PRODUCT128_n(T, v) PRODUCT128(T, v, AS_NUMBER)
#define INTEGERS(NAME, T, KIND)                            \
    DISTRIBUTION(shift32_##NAME, T, 4, SHIFT32_##KIND)     \
    DISTRIBUTION(shift64_##NAME, T, 2, SHIFT64_##KIND)     \
    DISTRIBUTION(product64_##NAME, T, 2, PRODUCT64_##KIND) \
    DISTRIBUTION(product128_##NAME, T, 1, PRODUCT128_##KIND)
INTEGERS(b, uint8_t, b)
INTEGERS(8, uint8_t, n)
INTEGERS(16, uint16_t, n)
INTEGERS(32, uint32_t, n)
INTEGERS(64, uint64_t, n)

/* --- by name */

typedef void (*fill_row)(char *, Py_ssize_t, place, parameters);

enum { OF_BOOL, OF_8, OF_16, OF_32, OF_64, OF_F32, OF_F64, FORMATS };
enum { RANDOM, UNIFORM, NORMAL, SHIFT32, SHIFT64, PRODUCT64, PRODUCT128, KINDS };

#define OF_INTEGERS(NAME, PER) {{NAME##_b, NAME##_8, NAME##_16, NAME##_32, NAME##_64, NULL, NULL}, PER, PER, 0}
#define OF_FLOATS(NAME) {{NULL, NULL, NULL, NULL, NULL, NAME##_f32, NAME##_f64}, 4, 2, 1}
static const struct {
    fill_row fill[FORMATS];
    int per_block, per_block_f64, is_real;
} kinds[KINDS] = {
    OF_FLOATS(random),       OF_FLOATS(uniform),        OF_FLOATS(normal),         OF_INTEGERS(shift32, 4),
    OF_INTEGERS(shift64, 2), OF_INTEGERS(product64, 2), OF_INTEGERS(product128, 1),
};
static const char *const names[KINDS] = {"random", "uniform", "normal", "shift32", "shift64", "product64", "product128"};

/* The format of a dtype, by DLPack's code of it and its bits; FORMATS if none. */
static int format_of(int code, int bits)
{
    enum { SIGNED, UNSIGNED, REAL, BOOL = 6 };
    if (code == BOOL)
        return OF_BOOL;
    if (code == REAL)
        return bits == 32 ? OF_F32 : bits == 64 ? OF_F64 : FORMATS;
    if (code != SIGNED && code != UNSIGNED)
        return FORMATS;
    return bits == 8 ? OF_8 : bits == 16 ? OF_16 : bits == 32 ? OF_32 : OF_64;
}

static void fill(int kind, int format, char *out, Py_ssize_t count, const place *p, const parameters *given)
{
    if (count < LONG_COUNT)
        kinds[kind].fill[format](out, count, *p, *given);
    else
        WITHOUT_GIL(kinds[kind].fill[format](out, count, *p, *given));
}

static void put_place(place *p, uint64_t key, uint64_t low, uint64_t high)
{
    *p = (place){{(uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32)},
                 {(uint32_t)key, (uint32_t)(key >> 32)}};
}

/* (name of a distribution, DLPack's code of the dtype, its bits, row, lower and upper half of the counter, key, two parameters, NumPy's
   type of arrays): fill the row. True; False, a no-op, where it is not in C order. The caller vouches for the dtype. */
PyObject *xf_fill_random(PyObject *module, PyObject *arguments)
{
    const char *name;
    int code, bits, kind = 0, format;
    unsigned long long low, high, key;
    PyObject *array, *first, *second, *type;
    parameters given;
    Py_ssize_t count = 0;
    place p;
    char *out;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "siiOKKKOOO", &name, &code, &bits, &array, &low, &high, &key, &first, &second, &type))
        return NULL;
    xf_meet_arrays(type);
    while (kind < KINDS && strcmp(names[kind], name))
        ++kind;
    format = format_of(code, bits);
    if (kind == KINDS || format == FORMATS || !kinds[kind].fill[format])
        return PyErr_Format(PyExc_ValueError, "there are no numbers %s of that dtype", name);
    if (kinds[kind].is_real) {
        given.real.first = PyFloat_AsDouble(first);
        given.real.second = PyFloat_AsDouble(second);
    } else {
        given.whole.low = PyLong_AsUnsignedLongLongMask(first);
        given.whole.second = PyLong_AsUnsignedLongLongMask(second);
    }
    if (PyErr_Occurred())
        return NULL;
    if (!(out = row_of(array, &count, 1)))
        return Py_NewRef(Py_False);
    put_place(&p, key, low, high);
    fill(kind, format, out, count, &p, &given);
    return Py_NewRef(Py_True);
}

/* --- random orders */

typedef struct {
    uint64_t key;
    int64_t place;
} ranked;

enum { FEW_RANKED = 12, MOST_BITS = 10 }; /* rows that are sorted by insertion; 1,024 buckets have each a line in the cache */

/* Sort rows by the lowest `left` bits of their keys, in which alone they differ; equal ones stay in their order. Random keys fall
   into buckets of a few rows each. */
static void sort_ranked(ranked *rows, ranked *room, Py_ssize_t count, int left)
{
    Py_ssize_t ends[(1 << MOST_BITS) + 1], begin = 0;
    int bits = 1;
    if (count <= FEW_RANKED || !left) {
        for (Py_ssize_t i = 1, at; i < count; ++i) {
            ranked row = rows[i];
            for (at = i; at && rows[at - 1].key > row.key; --at)
                rows[at] = rows[at - 1];
            rows[at] = row;
        }
        return;
    }
    while (bits < MOST_BITS && bits < left && count >> (bits + 1))
        ++bits;
    left -= bits;
    memset(ends, 0, (((size_t)1 << bits) + 1) * sizeof *ends);
#define BUCKET(row) ((row).key >> left & ((UINT64_C(1) << bits) - 1))
    for (Py_ssize_t i = 0; i < count; ++i)
        ++ends[BUCKET(rows[i]) + 1];
    for (int bucket = 0; bucket < 1 << bits; ++bucket)
        ends[bucket + 1] += ends[bucket]; /* the next row of each goes there, and behind all of them it ends there */
    for (Py_ssize_t i = 0; i < count; ++i)
        room[ends[BUCKET(rows[i])]++] = rows[i];
#undef BUCKET
    memcpy(rows, room, (size_t)count * sizeof *rows);
    for (int bucket = 0; bucket < 1 << bits; begin = ends[bucket++])
        sort_ranked(rows + begin, room, ends[bucket] - begin, left);
}

static void order(const uint64_t *keys, int64_t *places, Py_ssize_t count, ranked *rows)
{
    for (Py_ssize_t i = 0; i < count; ++i)
        rows[i] = (ranked){keys[i], i};
    sort_ranked(rows, rows + count, count, 64);
    for (Py_ssize_t i = 0; i < count; ++i)
        places[i] = rows[i].place;
}

/* (keys of 64 bits, places of 64 bits, NumPy's type of arrays): write the places of the keys in ascending order; equal ones stay in
   their order. True; False, a no-op, where they are not in C order, or there is no memory. The caller vouches for the dtypes. */
PyObject *xf_order_keys(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    Py_ssize_t each = 0, other = 0;
    char *keys, *places;
    ranked *rows;
    (void)module;
    if (count != 3)
        return PyErr_Format(PyExc_TypeError, "keys are ordered into places");
    xf_meet_arrays(given[2]);
    if (!(keys = row_of(given[0], &each, 0)) || !(places = row_of(given[1], &other, 1)) || each != other ||
        each > PTRDIFF_MAX / (Py_ssize_t)(2 * sizeof *rows) || !(rows = malloc(2 * (size_t)(each + 1) * sizeof *rows)))
        return Py_NewRef(Py_False);
    if (each < LONG_COUNT)
        order((const uint64_t *)(void *)keys, (int64_t *)(void *)places, each, rows);
    else
        WITHOUT_GIL(order((const uint64_t *)(void *)keys, (int64_t *)(void *)places, each, rows));
    free(rows);
    return Py_NewRef(Py_True);
}

/* --- the usual calls of a generator */

typedef struct {
    uint64_t key, high, block, is_over; /* the high half of the counter; its low half, 2^64 where the stream is over */
} stream_state; /* as xferlib/random.py packs it */

/* Take blocks of a stream: 0 where it has too few, or Python is to find out. The GIL makes that one step. */
static int take(stream_state *s, uint64_t wanted, place *p)
{
    uint64_t end;
    if (s->is_over || __builtin_add_overflow(s->block, wanted, &end))
        return 0;
    put_place(p, s->key, s->block, s->high);
    s->block = end;
    return 1;
}

static stream_state *state_of(PyObject *array)
{
    int is_fit = PyByteArray_CheckExact(array) && PyByteArray_Size(array) == (Py_ssize_t)sizeof(stream_state);
    return is_fit ? (stream_state *)(void *)PyByteArray_AsString(array) : NULL;
}

/* (state, how many) -> the number of the first block taken; None where the stream has not as many below 2^64. */
PyObject *xf_take_blocks(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    stream_state *s = count == 2 ? state_of(given[0]) : NULL;
    uint64_t first, wanted;
    place p;
    (void)module;
    if (!s)
        return PyErr_Format(PyExc_TypeError, "blocks are taken of a state");
    if (!xf_is_word(given[1], &wanted))
        return NULL;
    first = s->block;
    return take(s, wanted, &p) ? PyLong_FromUnsignedLongLong(first) : Py_NewRef(Py_None);
}

/* Read a number that a float of the dtype holds after one rounding: 0 where Python is to look at it. */
static int is_real(PyObject *given, int bits, double *found)
{
    *found = PyFloat_CheckExact(given) || PyLong_CheckExact(given) ? PyFloat_AsDouble(given) : NAN;
    if (PyErr_Occurred() || (PyLong_CheckExact(given) && fabs(*found) > 1 << 24))
        return 0;
    if (bits == 32)
        *found = (float)*found;
    return isfinite(*found);
}

/* Read the least and the greatest of the integers wanted, and which method makes them: 0 where Python is to look. */
static int is_range(PyObject *low, PyObject *high, int has_endpoint, const element *e, int *kind, parameters *found)
{
    int64_t first = 0, last;
    uint64_t more;
    int shift = 0;
    if (!PyLong_CheckExact(low) || (high != Py_None && !PyLong_CheckExact(high)) || (e->code > 1 && e->code != 6))
        return 0;
    last = PyLong_AsLongLong(high == Py_None ? low : high);
    if (high != Py_None)
        first = PyLong_AsLongLong(low);
    if (PyErr_Occurred() || (last -= !has_endpoint, last < first) || last == INT64_MAX)
        return 0;
    if (e->code == 6 ? first < 0 || last > 1 : e->code == 1 ? first < 0 || (e->bits < 64 && last >> e->bits) :
        e->bits < 64 && (first < -(INT64_C(1) << (e->bits - 1)) || last >= INT64_C(1) << (e->bits - 1)))
        return 0;
    more = (uint64_t)last - (uint64_t)first; /* values but for one */
    if (more == UINT64_MAX)
        return 0;
    found->whole.low = (uint64_t)first;
    while (shift < 63 && (more + 1) >> (shift + 1))
        ++shift;
    if (more + 1 == UINT64_C(1) << shift) {
        *kind = shift <= 32 ? SHIFT32 : SHIFT64;
        found->whole.second = (uint64_t)((shift <= 32 ? 32 : 64) - shift);
    } else {
        *kind = shift < 32 ? PRODUCT64 : PRODUCT128;
        found->whole.second = more + 1;
    }
    return 1;
}

enum { OF_INTEGERS_IN = 3 }; /* the method beside RANDOM, UNIFORM and NORMAL */

/* (state, method, two parameters, whether the second is a value, size, dtype, device, backend) -> a new array; None, and nothing
   done, where Python is to do it. */
PyObject *xf_draw(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    stream_state *s = count == 9 ? state_of(given[0]) : NULL;
    int kind = s ? (int)PyLong_AsLong(given[1]) : -1, format, per, has_endpoint = s && given[4] == Py_True;
    parameters numbers = {{0, 0}};
    PyObject *made = NULL;
    const device_entry *on;
    const element *e;
    description d;
    place p;
    (void)module;
    if (kind < 0 || kind > OF_INTEGERS_IN)
        return PyErr_Format(PyExc_TypeError, "numbers are drawn of a state, by a method");
    if (!replay.dtypes || (!has_endpoint && given[4] != Py_False) || (d.element = xf_element_of(given[6])) < 0)
        goto left;
    e = &replay.elements[d.element];
    if (kind != OF_INTEGERS_IN && (e->code != 2 || e->bits < 32))
        goto left;
    if (kind == OF_INTEGERS_IN) {
        if (!is_range(given[2], given[3], has_endpoint, e, &kind, &numbers))
            goto left;
    } else if (kind != RANDOM) {
        double *low = &numbers.real.first, *high = &numbers.real.second;
        if (!is_real(given[2], e->bits, low) || !is_real(given[3], e->bits, high))
            goto left;
        if (kind == UNIFORM)
            *high = e->bits == 32 ? (double)((float)*high - (float)*low) : *high - *low;
        if (!(*high >= 0) || !isfinite(*high))
            goto left;
    }
    made = xf_make_new(given[5], given[6], given[7] == Py_None ? NULL : given[7], given[8] == Py_None ? NULL : given[8], 0, &d, &on);
    if (!made)
        goto left;
    format = format_of(e->code, e->bits);
    per = format == OF_F64 ? kinds[kind].per_block_f64 : kinds[kind].per_block;
    if (!take(s, (uint64_t)(d.count / per + (d.count % per != 0)), &p))
        goto left;
    fill(kind, format, d.data, d.count, &p, &numbers);
    return made;
left:
    Py_XDECREF(made);
    if (PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_Exception)) /* Ctrl-C */
            return NULL;
        PyErr_Clear(); /* for Python to meet again, in its own words */
    }
    return Py_NewRef(Py_None);
}
