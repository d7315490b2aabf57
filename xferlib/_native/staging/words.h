/* Words that are apart on both sides, rows of few bytes, and squares that are turned in registers: all within few bytes, so that
   strided.c, which alone includes this, has them inlined. A square by way of a pointer takes twice the time. */

#ifndef XFERLIB_WORDS_H
#define XFERLIB_WORDS_H

#include "elements.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* Words that are apart on both sides. */
typedef void (*Hop)(char *restrict to, int64_t to_step, const char *restrict from, int64_t from_step, int64_t count);

#define HOP(SIZE)                                                                                               \
    static void hop_##SIZE(char *restrict to, int64_t to_step, const char *restrict from, int64_t from_step, int64_t count) { \
        hop_words(to, to_step, from, from_step, count, SIZE);                                                         \
    }
EACH_SIZE(HOP)

/* The loop for words of that size; NULL if there is none. */
static Hop hop_of(int64_t size) {
#define HOP_CASE(SIZE) \
    case SIZE: return hop_##SIZE;
    switch (size) { EACH_SIZE(HOP_CASE) }
    return NULL;
}

/* Rows of few bytes: each by its first bytes and its last ones, which overlap. A call of memcpy for each takes three times as
   long. */
typedef void (*Rows)(char *restrict to, int64_t to_step, const char *restrict from, int64_t from_step, int64_t count, int64_t nbytes);

#define ROWS(PART)                                                                                                 \
    static void rows_##PART(                                                                                       \
        char *restrict to, int64_t to_step, const char *restrict from, int64_t from_step, int64_t count, int64_t nbytes) { \
        for (int64_t i = 0; i < count; i++, to += to_step, from += from_step) {                                    \
            char first[PART], last[PART];                                                                          \
            memcpy(first, from, PART), memcpy(last, from + nbytes - PART, PART);                                   \
            memcpy(to, first, PART), memcpy(to + nbytes - PART, last, PART);                                       \
        }                                                                                                          \
    }
ROWS(4)
ROWS(8)
ROWS(16)
ROWS(32)
#undef ROWS

/* The loop for rows of that many bytes; NULL if there is none. */
static Rows rows_of(int64_t nbytes) {
    return nbytes < 4 || nbytes > 64 ? NULL : nbytes <= 8 ? rows_4 : nbytes <= 16 ? rows_8 : nbytes <= 32 ? rows_16 : rows_32;
}

/* Turn a square of elements over its diagonal: interleaving the first half of the rows with the second, as often as the
   side has bits, does it. Elements of a row are together on both sides. */
#ifdef __SSE2__
#define SQUARE(SIZE, SIDE, BITS)                                                                                  \
    static void square_##SIZE(char *to, int64_t to_stride, const char *from, int64_t from_stride) {               \
        __m128i rows[SIDE], next[SIDE];                                                                           \
        for (int row = 0; row < SIDE; row++) rows[row] = _mm_loadu_si128((const __m128i *)(from + row * from_stride)); \
        for (int done = 1; done < SIDE; done *= 2) {                                                              \
            for (int row = 0; row < SIDE / 2; row++) {                                                            \
                next[2 * row] = _mm_unpacklo_epi##BITS(rows[row], rows[row + SIDE / 2]);                          \
                next[2 * row + 1] = _mm_unpackhi_epi##BITS(rows[row], rows[row + SIDE / 2]);                      \
            }                                                                                                     \
            memcpy(rows, next, sizeof rows);                                                                      \
        }                                                                                                         \
        for (int row = 0; row < SIDE; row++) _mm_storeu_si128((__m128i *)(to + row * to_stride), rows[row]);      \
    }
SQUARE(1, 16, 8)
SQUARE(2, 8, 16)
SQUARE(4, 4, 32)
SQUARE(8, 2, 64)
#endif

#ifdef HAS_AVX2
/* The same for 8 bytes, by 4. */
__attribute__((target("avx2"))) static void square_8_avx2(char *to, int64_t to_stride, const char *from, int64_t from_stride) {
    __m256i a = _mm256_loadu_si256((const __m256i *)from), b = _mm256_loadu_si256((const __m256i *)(from + from_stride));
    __m256i c = _mm256_loadu_si256((const __m256i *)(from + 2 * from_stride));
    __m256i d = _mm256_loadu_si256((const __m256i *)(from + 3 * from_stride));
    __m256i even = _mm256_unpacklo_epi64(a, b), odd = _mm256_unpackhi_epi64(a, b);
    __m256i even_too = _mm256_unpacklo_epi64(c, d), odd_too = _mm256_unpackhi_epi64(c, d);
    _mm256_storeu_si256((__m256i *)to, _mm256_permute2x128_si256(even, even_too, 0x20));
    _mm256_storeu_si256((__m256i *)(to + to_stride), _mm256_permute2x128_si256(odd, odd_too, 0x20));
    _mm256_storeu_si256((__m256i *)(to + 2 * to_stride), _mm256_permute2x128_si256(even, even_too, 0x31));
    _mm256_storeu_si256((__m256i *)(to + 3 * to_stride), _mm256_permute2x128_si256(odd, odd_too, 0x31));
}
#endif

typedef void (*Square)(char *to, int64_t to_stride, const char *from, int64_t from_stride);

/* The function for elements of a size, and the side of its squares; NULL if there is none. */
static Square square_of(int64_t size, int64_t *side) {
    *side = 16 / size;
#ifdef HAS_AVX2
    if (size == 8 && __builtin_cpu_supports("avx2")) {
        *side = 4;
        return square_8_avx2;
    }
#endif
#ifdef __SSE2__
    return size == 1 ? square_1 : size == 2 ? square_2 : size == 4 ? square_4 : size == 8 ? square_8 : NULL;
#else
    (void)size;
    return NULL;
#endif
}

#endif
