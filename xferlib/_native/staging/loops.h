/* The inner loops. elements.h includes this twice: for any processor, and for one with AVX2, which the compiler then uses.
   NAMED(x) gives the functions of each their names, TARGET their attribute. Loads and stores go through memcpy, since an
   element may have any address. */

/* --- words of one size: on the host `step` bytes apart, elsewhere one behind the other */

/* Some steps are constants, for which the compiler shuffles vectors. */
#define IF_STEP(SIZE, STEP, COPY)                           \
    if (HAS_STEPS(SIZE) && step == (STEP)) {                \
        COPY(SIZE, STEP, copy_words);                       \
        return;                                             \
    }
#define GATHER(SIZE, STEP, COPY) COPY(to, SIZE, from, STEP, count, SIZE)
#define SCATTER(SIZE, STEP, COPY) COPY(to, STEP, from, SIZE, count, SIZE)
#define WORDS_OF(NAME, SIZE, COPY)                                                                               \
    TARGET static void NAMED(NAME##_##SIZE)(char *restrict to, const char *restrict from, int64_t count, int64_t step) { \
        IF_STEP(SIZE, 2 * SIZE, COPY)                                                                            \
        IF_STEP(SIZE, 3 * SIZE, COPY)                                                                            \
        IF_STEP(SIZE, 4 * SIZE, COPY)                                                                            \
        IF_STEP(SIZE, -SIZE, COPY)                                                                               \
        COPY(SIZE, step, hop_words);                                                                              \
    }
#define BOTH_WAYS(SIZE) WORDS_OF(gather, SIZE, GATHER) WORDS_OF(scatter, SIZE, SCATTER)
EACH_SIZE(BOTH_WAYS)

/* The loops for words of that size; NULLs if there are none. */
static WordLoops NAMED(words_of)(int64_t size) {
#define WORDS_CASE(SIZE) \
    case SIZE: return (WordLoops){NAMED(gather_##SIZE), NAMED(scatter_##SIZE)};
    switch (size) { EACH_SIZE(WORDS_CASE) }
    return (WordLoops){NULL, NULL};
}

/* --- numbers in the other byte order; those of a complex number are two */

#define SWAP(BITS, SWAPPED)                                                                                      \
    TARGET static void NAMED(swap_##BITS)(char *restrict to, const char *restrict from, int64_t count) {         \
        for (int64_t i = 0; i < count; i++) {                                                                    \
            uint##BITS##_t x;                                                                                    \
            memcpy(&x, from + i * (BITS / 8), sizeof x);                                                         \
            x = SWAPPED;                                                                                         \
            memcpy(to + i * (BITS / 8), &x, sizeof x);                                                           \
        }                                                                                                        \
    }
SWAP(16, (uint16_t)(x << 8 | x >> 8))
SWAP(32, __builtin_bswap32(x))
SWAP(64, __builtin_bswap64(x))

static Convert NAMED(swap_of)(int64_t size) {
    return size == 2 ? NAMED(swap_16) : size == 4 ? NAMED(swap_32) : size == 8 ? NAMED(swap_64) : NULL;
}

/* --- conversions */

#define CONVERSION(FROM, TO, VALUE)                                                               \
    TARGET static void NAMED(FROM##_to_##TO)(char *restrict to, const char *restrict from, int64_t count) { \
        for (int64_t i = 0; i < count; i++) {                                                     \
            C_##FROM x;                                                                           \
            memcpy(&x, from + i * (int64_t)sizeof x, sizeof x);                                   \
            C_##TO y = VALUE;                                                                     \
            memcpy(to + i * (int64_t)sizeof y, &y, sizeof y);                                     \
        }                                                                                         \
    }

/* From a float to a half and back. The processor's own conversion makes signaling NaNs quiet, which NumPy does not do, so
   eight numbers with a NaN among them are converted one by one. */
#ifdef HALVES_BY_F16C
TARGET static void NAMED(f32_to_f16)(char *restrict to, const char *restrict from, int64_t count) {
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256 x = _mm256_loadu_ps((const float *)(const void *)(from + i * 4));
        if (_mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)))
            f32_to_f16_anywhere(to + i * 2, from + i * 4, 8);
        else _mm_storeu_si128((__m128i *)(void *)(to + i * 2), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
    }
    f32_to_f16_anywhere(to + i * 2, from + i * 4, count - i);
}
TARGET static void NAMED(f16_to_f32)(char *restrict to, const char *restrict from, int64_t count) {
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256 x = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + i * 2)));
        if (_mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)))
            f16_to_f32_anywhere(to + i * 4, from + i * 2, 8);
        else _mm256_storeu_ps((float *)(void *)(to + i * 4), x);
    }
    f16_to_f32_anywhere(to + i * 4, from + i * 2, count - i);
}
/* By way of floats that are rounded to odd, so that the second step rounds as one step from the double would: a float
   that is not exact gets the last bit 1, between the two that are next to the double. */
TARGET static __m128 NAMED(rounded_to_odd)(__m256d x) {
    __m128 near = _mm256_cvtpd_ps(x);
    __m256d back = _mm256_cvtps_pd(near), sign = _mm256_set1_pd(-0.0);
    __m256d wrong = _mm256_cmp_pd(back, x, _CMP_NEQ_OQ);
    __m256d above = _mm256_cmp_pd(_mm256_andnot_pd(sign, back), _mm256_andnot_pd(sign, x), _CMP_GT_OQ);
#define LOW_HALVES(MASK)                                                                                          \
    _mm_castps_si128(_mm_shuffle_ps(                                                                              \
        _mm_castpd_ps(_mm256_castpd256_pd128(MASK)), _mm_castpd_ps(_mm256_extractf128_pd(MASK, 1)), 0x88))
    __m128i bits = _mm_add_epi32(_mm_castps_si128(near), LOW_HALVES(above)); /* a mask is -1: one step towards 0 */
    return _mm_castsi128_ps(_mm_or_si128(bits, _mm_and_si128(LOW_HALVES(wrong), _mm_set1_epi32(1))));
#undef LOW_HALVES
}
TARGET static void NAMED(f64_to_f16)(char *restrict to, const char *restrict from, int64_t count) {
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256d x = _mm256_loadu_pd((const double *)(const void *)(from + i * 8));
        __m256d y = _mm256_loadu_pd((const double *)(const void *)(from + i * 8 + 32));
        if (_mm256_movemask_pd(_mm256_cmp_pd(x, y, _CMP_UNORD_Q))) {
            f64_to_f16_anywhere(to + i * 2, from + i * 8, 8);
            continue;
        }
        __m256 both = _mm256_set_m128(NAMED(rounded_to_odd)(y), NAMED(rounded_to_odd)(x));
        _mm_storeu_si128((__m128i *)(void *)(to + i * 2), _mm256_cvtps_ph(both, _MM_FROUND_TO_NEAREST_INT));
    }
    f64_to_f16_anywhere(to + i * 2, from + i * 8, count - i);
}
/* In parts of which each element is near enough for a formula that vectors know: none has one of the bits FAR in BITS. The
   elements of other parts are converted one by one. */
#define IN_PARTS(FROM, TO, VALUE, BITS, FAR, NEAR_VALUE)                                                           \
    TARGET static void NAMED(FROM##_to_##TO)(char *restrict to, const char *restrict from, int64_t count) {       \
        const int64_t size = (int64_t)sizeof(C_##FROM), there = (int64_t)sizeof(C_##TO);                          \
        C_##FROM x = 0;                                                                                           \
        for (int64_t part; count > 0; count -= part, to += part * there, from += part * size) {                   \
            __typeof__(BITS) all = 0;                                                                             \
            part = count < PART ? count : PART;                                                                   \
            for (int64_t i = 0; i < part; i++) memcpy(&x, from + i * size, sizeof x), all |= BITS;                \
            for (int64_t i = 0; i < part && !(all & FAR); i++) {                                                  \
                memcpy(&x, from + i * size, sizeof x);                                                            \
                C_##TO y = (C_##TO)NEAR_VALUE;                                                                    \
                memcpy(to + i * there, &y, sizeof y);                                                             \
            }                                                                                                     \
            if (all & FAR) FROM##_to_##TO##_anywhere(to, from, part);                                             \
        }                                                                                                         \
    }
/* Floats to integers that a float holds exactly: between their limits first, which compilers do by several comparisons. */
TARGET static inline __m256i NAMED(of_f32)(const char *from, float least, float most) {
    __m256 x = _mm256_loadu_ps((const float *)(const void *)from);
    x = _mm256_and_ps(x, _mm256_cmp_ps(x, x, _CMP_ORD_Q)); /* 0 for NaN */
    return _mm256_cvttps_epi32(_mm256_min_ps(_mm256_max_ps(x, _mm256_set1_ps(least)), _mm256_set1_ps(most)));
}
TARGET static inline __m128i NAMED(of_four_doubles)(const char *from, double least, double most) {
    __m256d x = _mm256_loadu_pd((const double *)(const void *)from);
    x = _mm256_and_pd(x, _mm256_cmp_pd(x, x, _CMP_ORD_Q));
    return _mm256_cvttpd_epi32(_mm256_min_pd(_mm256_max_pd(x, _mm256_set1_pd(least)), _mm256_set1_pd(most)));
}
TARGET static inline __m256i NAMED(of_f64)(const char *from, double least, double most) {
    return _mm256_set_m128i(NAMED(of_four_doubles)(from + 32, least, most), NAMED(of_four_doubles)(from, least, most));
}
#define NARROW(FROM, TO, LEAST, MOST)                                                                             \
    TARGET static void NAMED(FROM##_to_##TO)(char *restrict to, const char *restrict from, int64_t count) {       \
        const int64_t size = (int64_t)sizeof(C_##FROM), there = (int64_t)sizeof(C_##TO);                          \
        int32_t block[FLOATS];                                                                                    \
        for (int64_t part; count >= 8; count -= part, to += part * there, from += part * size) {                  \
            int32_t *integers = there < 4 ? block : (int32_t *)(void *)to;                                        \
            part = count < FLOATS ? count / 8 * 8 : FLOATS;                                                       \
            for (int64_t i = 0; i < part; i += 8)                                                                 \
                _mm256_storeu_si256((__m256i *)(void *)(integers + i), NAMED(of_##FROM)(from + i * size, LEAST, MOST)); \
            if (there < 4) NAMED(i32_to_##TO)(to, (const char *)block, part);                                     \
        }                                                                                                         \
        FROM##_to_##TO##_anywhere(to, from, count);                                                               \
    }
#else
#define IN_PARTS(FROM, TO, VALUE, BITS, FAR, NEAR_VALUE) CONVERSION(FROM, TO, VALUE)
#define NARROW(FROM, TO, LEAST, MOST) CONVERSION(FROM, TO, SATURATED(x, MOST, (C_##TO)(MOST), (C_##TO)(LEAST), C_##TO))
CONVERSION(f32, f16, float_to_half(x))
CONVERSION(f16, f32, half_to_float(x))
CONVERSION(f64, f16, double_to_half(x))
#endif

#define FROM_REAL(FROM, X)                               \
    CONVERSION(FROM, bool, (X) != 0)                     \
    CONVERSION(FROM, c64, complex_of((float)(X)))        \
    CONVERSION(FROM, c128, ((C_c128){(double)(X), 0}))

#define FROM_NUMBER(FROM, X)                             \
    FROM_REAL(FROM, X)                                   \
    CONVERSION(FROM, f32, (float)(X))                    \
    CONVERSION(FROM, f64, (double)(X))

#define FROM_INTEGER(FROM, X)                  \
    FROM_NUMBER(FROM, X)                       \
    TO_INTEGERS(FROM, X)

#define TO_INTEGERS(FROM, X)                   \
    CONVERSION(FROM, i8, (int8_t)(uint8_t)(X)) \
    CONVERSION(FROM, i16, (int16_t)(uint16_t)(X)) \
    CONVERSION(FROM, i32, (int32_t)(uint32_t)(X)) \
    CONVERSION(FROM, i64, (int64_t)(uint64_t)(X)) \
    CONVERSION(FROM, u8, (uint8_t)(X))         \
    CONVERSION(FROM, u16, (uint16_t)(X))       \
    CONVERSION(FROM, u32, (uint32_t)(X))       \
    CONVERSION(FROM, u64, (uint64_t)(X))

/* The last float up to the limit comes first: the limit itself may round to one more, which no integer of that size is. */
#define SATURATED(X, LAST, MOST, LEAST, TYPE) ((X) > (LAST) ? (MOST) : (X) < (LEAST) ? (LEAST) : (X) == (X) ? (TYPE)(X) : 0)

#define IN_TWO_STEPS(FROM, MIDDLE, TO)                                                                            \
    TARGET static void NAMED(FROM##_to_##TO)(char *restrict to, const char *restrict from, int64_t count) {       \
        in_two_steps(to, from, count, NAMED(FROM##_to_##MIDDLE), NAMED(f32_to_##TO), sizeof(C_##FROM), sizeof(C_##TO)); \
    }
#define THROUGH_FLOAT(FROM, TO) IN_TWO_STEPS(FROM, f32, TO)
#define EACH_INTEGER(DO) DO(i8) DO(i16) DO(i32) DO(i64) DO(u8) DO(u16) DO(u32) DO(u64)
#define TO_HALF(FROM) THROUGH_FLOAT(FROM, f16)
#define FROM_HALF(TO) THROUGH_FLOAT(f16, TO)

FROM_INTEGER(bool, x != 0)
FROM_INTEGER(i8, x)
FROM_INTEGER(i16, x)
FROM_INTEGER(i32, x)
FROM_REAL(i64, x)
TO_INTEGERS(i64, x)
FROM_INTEGER(u8, x)
FROM_INTEGER(u16, x)
FROM_INTEGER(u32, x)
FROM_REAL(u64, x)
TO_INTEGERS(u64, x)
/* Integers of 64 bits, from and to floats: AVX2 has no instruction for them. The sum of 2^52 + 2^51 and an integer that is
   nearer to 0 than 2^51 is exact, and has it in its low bits. */
IN_PARTS(i64, f64, (double)x, (int64_t)((uint64_t)x + NEAR), -(2 * NEAR), near_double(x))
IN_PARTS(i64, f32, (float)x, (int64_t)((uint64_t)x + NEAR), -(2 * NEAR), near_double(x))
IN_PARTS(u64, f64, (double)x, (int64_t)x, -NEAR, near_double((int64_t)x))
IN_PARTS(u64, f32, (float)x, (int64_t)x, -NEAR, near_double((int64_t)x))
IN_PARTS(f64, i64, SATURATED(x, 9223372036854774784.0, INT64_MAX, INT64_MIN, int64_t),
         NEAR_DOUBLE - (bits_of(x) & INT64_MAX), INT64_MIN, near_integer(x))
IN_PARTS(f32, i64, SATURATED(x, 9223371487098961920.0f, INT64_MAX, INT64_MIN, int64_t),
         NEAR_SINGLE - (single_bits(x) & INT32_MAX), INT32_MIN, near_integer(x))
IN_PARTS(f64, u64, double_to_u64(x), bits_of(x) | (NEAR_DOUBLE - (bits_of(x) & INT64_MAX)), INT64_MIN, near_integer(x))
IN_PARTS(f32, u64, double_to_u64(x), single_bits(x) | (NEAR_SINGLE - (single_bits(x) & INT32_MAX)), INT32_MIN, near_integer(x))

NARROW(f32, i8, -128.0f, 127.0f)
NARROW(f32, i16, -32768.0f, 32767.0f)
NARROW(f32, u8, 0.0f, 255.0f)
NARROW(f32, u16, 0.0f, 65535.0f)
NARROW(f64, i8, -128.0, 127.0)
NARROW(f64, i16, -32768.0, 32767.0)
NARROW(f64, i32, -2147483648.0, 2147483647.0)
NARROW(f64, u8, 0.0, 255.0)
NARROW(f64, u16, 0.0, 65535.0)
CONVERSION(f32, i32, SATURATED(x, 2147483520.0f, INT32_MAX, INT32_MIN, int32_t))
CONVERSION(f32, u32, SATURATED(x, 4294967040.0f, UINT32_MAX, 0, uint32_t))
CONVERSION(f64, u32, SATURATED(x, 4294967295.0, UINT32_MAX, 0, uint32_t))

CONVERSION(f16, bool, (x & 0x7fff) != 0)
CONVERSION(f16, f16, x) /* this and the next fill the table */
CONVERSION(f64, f64, x)
CONVERSION(f16, c64, complex_of(half_to_float(x)))
CONVERSION(f16, c128, ((C_c128){(double)half_to_float(x), 0}))
FROM_NUMBER(f32, x)
EACH_INTEGER(FROM_HALF) FROM_HALF(f64)
EACH_INTEGER(TO_HALF) TO_HALF(bool)
CONVERSION(f64, bool, x != 0)
CONVERSION(f64, f32, (float)x)
CONVERSION(f64, c64, complex_of((float)x))
CONVERSION(f64, c128, ((C_c128){x, 0}))
CONVERSION(c64, bool, (x & 0x7fffffff7fffffff) != 0) /* a bit beside those of the signs */
CONVERSION(c128, bool, x.real != 0 || x.imag != 0)
TARGET static void NAMED(c64_to_c128)(char *restrict to, const char *restrict from, int64_t count) {
    NAMED(f32_to_f64)(to, from, 2 * count);
}
TARGET static void NAMED(c128_to_c64)(char *restrict to, const char *restrict from, int64_t count) {
    NAMED(f64_to_f32)(to, from, 2 * count);
}

/* Small floats, by way of floats, which hold each of them; of wider numbers the floats are rounded to odd. */
#define THROUGH_ODD(FROM, TO) IN_TWO_STEPS(FROM, odd, TO)
#define EACH_SMALL(DO, WITH) DO(WITH, bf16) DO(WITH, e4m3) DO(WITH, e5m2) DO(WITH, e4m3z) DO(WITH, e5m2z)
#define NARROWING(_, TO) CONVERSION(f32, TO, to_##TO(x))
#define FROM_SMALL(_, FROM)                                                                                       \
    CONVERSION(FROM, f32, of_##FROM(x))                                                                           \
    EACH_INTEGER_OF(FROM)                                                                                         \
    THROUGH_FLOAT(FROM, bool) THROUGH_FLOAT(FROM, f16) THROUGH_FLOAT(FROM, f64) THROUGH_FLOAT(FROM, c64)          \
    THROUGH_FLOAT(FROM, c128)
#define EACH_INTEGER_OF(FROM)                                                                                     \
    THROUGH_FLOAT(FROM, i8) THROUGH_FLOAT(FROM, i16) THROUGH_FLOAT(FROM, i32) THROUGH_FLOAT(FROM, i64)            \
    THROUGH_FLOAT(FROM, u8) THROUGH_FLOAT(FROM, u16) THROUGH_FLOAT(FROM, u32) THROUGH_FLOAT(FROM, u64)
CONVERSION(i32, odd, odd_of_double(x))
CONVERSION(u32, odd, odd_of_double(x))
CONVERSION(i64, odd, odd_of_i64(x))
CONVERSION(u64, odd, odd_of_u64(x))
CONVERSION(f64, odd, odd_of_double(x))
EACH_SMALL(NARROWING, )
EACH_SMALL(FROM_SMALL, )
EACH_SMALL(THROUGH_FLOAT, bool)
EACH_SMALL(THROUGH_FLOAT, i8)
EACH_SMALL(THROUGH_FLOAT, i16)
EACH_SMALL(THROUGH_FLOAT, u8)
EACH_SMALL(THROUGH_FLOAT, u16)
EACH_SMALL(THROUGH_FLOAT, f16)
EACH_SMALL(THROUGH_FLOAT, bf16)
EACH_SMALL(THROUGH_FLOAT, e4m3)
EACH_SMALL(THROUGH_FLOAT, e5m2)
EACH_SMALL(THROUGH_FLOAT, e4m3z)
EACH_SMALL(THROUGH_FLOAT, e5m2z)
EACH_SMALL(THROUGH_ODD, i32)
EACH_SMALL(THROUGH_ODD, u32)
EACH_SMALL(THROUGH_ODD, i64)
EACH_SMALL(THROUGH_ODD, u64)
EACH_SMALL(THROUGH_ODD, f64)

/* By the numbers of the dtypes in `TYPES`; NULL where nothing is converted, or where it would drop imaginary parts. */
#define ROW(FROM)                                                                                               \
    {NAMED(FROM##_to_bool), NAMED(FROM##_to_i8), NAMED(FROM##_to_i16), NAMED(FROM##_to_i32), NAMED(FROM##_to_i64), \
     NAMED(FROM##_to_u8), NAMED(FROM##_to_u16), NAMED(FROM##_to_u32), NAMED(FROM##_to_u64), NAMED(FROM##_to_f16),  \
     NAMED(FROM##_to_f32), NAMED(FROM##_to_f64), NAMED(FROM##_to_c64), NAMED(FROM##_to_c128), NAMED(FROM##_to_bf16), \
     NAMED(FROM##_to_e4m3), NAMED(FROM##_to_e5m2), NAMED(FROM##_to_e4m3z), NAMED(FROM##_to_e5m2z)}
static const Convert NAMED(conversions)[TYPES][TYPES] = {
    ROW(bool), ROW(i8), ROW(i16), ROW(i32), ROW(i64), ROW(u8), ROW(u16), ROW(u32), ROW(u64), ROW(f16), ROW(f32), ROW(f64),
    {NAMED(c64_to_bool), [13] = NAMED(c64_to_c128)},
    {NAMED(c128_to_bool), [12] = NAMED(c128_to_c64)},
    ROW(bf16), ROW(e4m3), ROW(e5m2), ROW(e4m3z), ROW(e5m2z),
};

/* The other macros are the same the second time, which C allows. */
#undef IN_PARTS
#undef NARROW
#undef NAMED
#undef TARGET
