/* Running results of an operation over one row: in the order of the kernels of xferlib/kernels/scan.py, and of those of
   xferlib/_arrays/indexing.py.

   A scan's kernels run once for each distance d = 1, 2, 4 ... below the length: element i becomes the element d before it,
   combined with itself, if there is one. Where an operation gives the same bits in any order, one pass does the same. Sums
   and products of floats do not: three distances are done in one pass. */

#include "compute.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *x;
    char *out;
    Py_ssize_t count;
} row;

typedef int (*scan_row)(const row *r); /* whether there was memory */

/* --- operations that give the same bits in any order: one pass */

#define IN_ONE_PASS(NAME, T, WIDE, ENTER, COMBINE, LEAVE)             \
    static int NAME(const row *r)                                     \
    {                                                                 \
        const T *x = (const T *)(const void *)r->x;                   \
        T *out = (T *)(void *)r->out;                                 \
        WIDE a = ENTER(x[0]);                                         \
        out[0] = (T)LEAVE(a);                                         \
        for (Py_ssize_t i = 1; i < r->count; ++i) {                   \
            const WIDE b = ENTER(x[i]);                               \
            a = (WIDE)(COMBINE);                                      \
            out[i] = (T)LEAVE(a);                                     \
        }                                                             \
        return 1;                                                     \
    }
#define AS_IT_IS(x) (x)
#define INTEGERS(BITS)                                                                        \
    IN_ONE_PASS(add_##BITS, uint##BITS##_t, uint64_t, AS_IT_IS, a + b, AS_IT_IS)              \
    IN_ONE_PASS(mul_##BITS, uint##BITS##_t, uint64_t, AS_IT_IS, a * b, AS_IT_IS)              \
    IN_ONE_PASS(and_##BITS, uint##BITS##_t, uint##BITS##_t, AS_IT_IS, a & b, AS_IT_IS)        \
    IN_ONE_PASS(or_##BITS, uint##BITS##_t, uint##BITS##_t, AS_IT_IS, a | b, AS_IT_IS)         \
    IN_ONE_PASS(xor_##BITS, uint##BITS##_t, uint##BITS##_t, AS_IT_IS, a ^ b, AS_IT_IS)        \
    IN_ONE_PASS(min_u##BITS, uint##BITS##_t, uint##BITS##_t, AS_IT_IS, a < b ? a : b, AS_IT_IS) \
    IN_ONE_PASS(max_u##BITS, uint##BITS##_t, uint##BITS##_t, AS_IT_IS, a > b ? a : b, AS_IT_IS) \
    IN_ONE_PASS(min_i##BITS, int##BITS##_t, int##BITS##_t, AS_IT_IS, a < b ? a : b, AS_IT_IS) \
    IN_ONE_PASS(max_i##BITS, int##BITS##_t, int##BITS##_t, AS_IT_IS, a > b ? a : b, AS_IT_IS)
INTEGERS(8)
INTEGERS(16)
INTEGERS(32)
INTEGERS(64)

/* Floats by the order of integers, with -0 below 0: the bits of a negative one but for its sign are turned over, which also
   leads back. A NaN counts as the greatest or as the least, both of which are NaN again: as the one it wins, as the other it is
   passed over. */
#define FLOATS(BITS, INFINITY_BITS)                                                                                           \
    INLINED int##BITS##_t turn_##BITS(int##BITS##_t x)                                                                        \
    {                                                                                                                         \
        return (int##BITS##_t)(x < 0 ? x ^ INT##BITS##_MAX : x);                                                              \
    }                                                                                                                         \
    INLINED int##BITS##_t rank_##BITS(int##BITS##_t x, int##BITS##_t nan)                                                     \
    {                                                                                                                         \
        return (x & INT##BITS##_MAX) > (INFINITY_BITS) ? nan : turn_##BITS(x);                                                \
    }                                                                                                                         \
    INLINED int##BITS##_t above_##BITS(int##BITS##_t x) { return rank_##BITS(x, INT##BITS##_MAX); }                           \
    INLINED int##BITS##_t below_##BITS(int##BITS##_t x) { return rank_##BITS(x, INT##BITS##_MIN); }                           \
    IN_ONE_PASS(maximum_f##BITS, int##BITS##_t, int##BITS##_t, above_##BITS, a > b ? a : b, turn_##BITS)                      \
    IN_ONE_PASS(minimum_f##BITS, int##BITS##_t, int##BITS##_t, below_##BITS, a < b ? a : b, turn_##BITS)                      \
    IN_ONE_PASS(fmax_f##BITS, int##BITS##_t, int##BITS##_t, below_##BITS, a > b ? a : b, turn_##BITS)                         \
    IN_ONE_PASS(fmin_f##BITS, int##BITS##_t, int##BITS##_t, above_##BITS, a < b ? a : b, turn_##BITS)
FLOATS(16, 0x7C00)
FLOATS(32, 0x7F800000)
FLOATS(64, 0x7FF0000000000000)

/* --- sums and products of floats: distance by distance */

#define SUM(a, b) ((a) + (b))
#define PRODUCT(a, b) ((a) * (b))
#define COMPLEX_NUMBERS(NAME, T)                                                    \
    typedef struct {                                                                \
        T real, imag;                                                               \
    } NAME;                                                                         \
    INLINED NAME sum_##NAME(NAME a, NAME b)                                         \
    {                                                                               \
        return (NAME){a.real + b.real, a.imag + b.imag};                            \
    }                                                                               \
    INLINED NAME product_##NAME(NAME a, NAME b)                                     \
    {                                                                               \
        return (NAME){a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real}; \
    }
COMPLEX_NUMBERS(c64, float)
COMPLEX_NUMBERS(c128, double)

typedef float f32x8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef double f64x4 __attribute__((vector_size(32), aligned(8), may_alias));
typedef float f32x16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef double f64x8 __attribute__((vector_size(64), aligned(8), may_alias));

#if defined(__clang__)
#define SHUFFLE(PLACES, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(PLACES, a, b, ...) __builtin_shuffle(a, b, (PLACES){__VA_ARGS__})
#endif
typedef int32_t i32x8 __attribute__((vector_size(32)));
typedef int64_t i64x4 __attribute__((vector_size(32)));

/* Products of a packet of complex numbers: those of the real parts of a with b, and of its imaginary ones with b turned over.
   Macros, since not every processor returns such vectors. */
#define BY_REAL_64(a, b) (SHUFFLE(i32x8, a, a, 0, 0, 2, 2, 4, 4, 6, 6) * (b))
#define BY_IMAG_64(a, b) (SHUFFLE(i32x8, a, a, 1, 1, 3, 3, 5, 5, 7, 7) * SHUFFLE(i32x8, b, b, 1, 0, 3, 2, 5, 4, 7, 6))
#define BY_REAL_128(a, b) (SHUFFLE(i64x4, a, a, 0, 0, 2, 2) * (b))
#define BY_IMAG_128(a, b) (SHUFFLE(i64x4, a, a, 1, 1, 3, 3) * SHUFFLE(i64x4, b, b, 1, 0, 3, 2))
#define PRODUCTS_64(a, b)                                                                                              \
    (f32x8)SHUFFLE(i32x8, BY_REAL_64(a, b) - BY_IMAG_64(a, b), BY_REAL_64(a, b) + BY_IMAG_64(a, b), 0, 9, 2, 11, 4, 13, 6, 15)
#define PRODUCTS_128(a, b) \
    (f64x4)SHUFFLE(i64x4, BY_REAL_128(a, b) - BY_IMAG_128(a, b), BY_REAL_128(a, b) + BY_IMAG_128(a, b), 0, 5, 2, 7)

enum {
    TILE_PACKETS = 4096, /* a tile and what its chains keep stay in the second cache */
    STATE = 7,           /* packets that a chain of three distances keeps */
    STRIP_NBYTES = 128,  /* two lines of the cache, which the processor fetches together, of each tile */
};

/* Up to three distances d, 2d and 4d in one pass, from the first element on, in place: what each step needs of the steps before
   it is kept, in `state` for the next tile too, and a chain of elements d apart never meets another. V is a packet of WIDTH
   elements that lie side by side. Before the first element stands NEUTRAL, or nothing where EXISTS says so. */
#define CHAIN_STEP(COMBINE, EXISTS, K)                                   \
    {                                                                    \
        const V x = *(const V *)(const void *)(v + i);                   \
        const V a = EXISTS(q + K, 1, COMBINE(last, x), x);              \
        const V b = EXISTS(q + K, 2, COMBINE(one[(K) & 1], a), a);     \
        const V c = EXISTS(q + K, 4, COMBINE(two[K], b), b);           \
        last = x;                                                        \
        one[(K) & 1] = a;                                                \
        two[K] = b;                                                      \
        *(V *)(void *)(v + i) = levels == 3 ? c : levels == 2 ? b : a;   \
        if ((i += d) >= n)                                               \
            break;                                                       \
    }
#define LEVELS(d, size) (4 * (d) < (size) ? 3 : 2 * (d) < (size) ? 2 : 1) /* below a size */
#define ALWAYS(q, k, combined, alone) ((void)(q), (combined))
#define FROM(q, k, combined, alone) ((q) >= (k) ? (combined) : (alone))

#define FOUR_c64(COMBINE, x, step) FIRST_4(product_c64, x, step)
#define TWO_c128(COMBINE, x, step) FIRST_2(product_c128, x, step)
#define FIRST_2(COMBINE, x, step) COMBINE((x)[-(step)], (x)[0])
#define FIRST_4(COMBINE, x, step) COMBINE(FIRST_2(COMBINE, (x) - 2 * (step), step), FIRST_2(COMBINE, x, step))
#define FIRST_8(COMBINE, x, step) COMBINE(FIRST_4(COMBINE, (x) - 4 * (step), step), FIRST_4(COMBINE, x, step))

/* What comes of the first elements of a row, where the product with a neutral element is not the other factor: of infinities. */
#define AS_ALL(T, x, v, n) {}
#define BEGIN_c128(T, x, v, n) { (v)[0] = (x)[0]; }
#define BEGIN_c64(T, x, v, n)                                            \
    for (Py_ssize_t i = 0; i < 3 && i < (n); ++i)                        \
        (v)[i] = i == 2 ? product_c64((x)[0], product_c64((x)[1], (x)[2])) : i ? product_c64((x)[0], (x)[1]) : (x)[0];

/* NAME: the chains of distance d in n elements of T, by packets. */
#define CHAINS(NAME, T, PACKET, COMBINE, NEUTRAL, EXISTS)                                                                     \
    INLINED void NAME##_of(T *v, Py_ssize_t d, Py_ssize_t n, int levels, T *state, Py_ssize_t begun)                          \
    {                                                                                                                         \
        typedef PACKET V;                                                                                                     \
        enum { LENGTH = sizeof(V) / sizeof(T) };                                                                              \
        V none[STATE];                                                                                                        \
        memset(none, 0, sizeof none); /* the analyzer does not follow the loop */                                             \
        for (int k = 0; k < STATE * LENGTH; ++k)                                                                              \
            ((T *)(void *)none)[k] = NEUTRAL;                                                                                 \
        for (Py_ssize_t r = 0; r < d && r < n; r += LENGTH) {                                                                 \
            V *kept = state ? (V *)(void *)(state + STATE * r) : none;                                                        \
            V last = kept[0], one[2] = {kept[1], kept[2]}, two[4] = {kept[3], kept[4], kept[5], kept[6]};                     \
            Py_ssize_t i = r;                                                                                                 \
            for (Py_ssize_t q = begun / d;; q += 4) {                                                                         \
                CHAIN_STEP(COMBINE, EXISTS, 0)                                                                                \
                CHAIN_STEP(COMBINE, EXISTS, 1)                                                                                \
                CHAIN_STEP(COMBINE, EXISTS, 2)                                                                                \
                CHAIN_STEP(COMBINE, EXISTS, 3)                                                                                \
            }                                                                                                                 \
            if (state) {                                                                                                      \
                kept[0] = last, kept[1] = one[0], kept[2] = one[1];                                                           \
                kept[3] = two[0], kept[4] = two[1], kept[5] = two[2], kept[6] = two[3];                                       \
            }                                                                                                                 \
        }                                                                                                                     \
    }                                                                                                                         \
    INLINED void NAME(T *v, Py_ssize_t d, Py_ssize_t n, int levels, T *state, Py_ssize_t begun)                               \
    {                                                                                                                         \
        if (levels == 3)                                                                                                      \
            NAME##_of(v, d, n, 3, state, begun);                                                                              \
        else if (levels == 2)                                                                                                 \
            NAME##_of(v, d, n, 2, state, begun);                                                                              \
        else                                                                                                                  \
            NAME##_of(v, d, n, 1, state, begun);                                                                              \
    }

/* NAME: sums or products of rows of T, by COMBINE; LANES: the elements of T in one of the row. WIDE is a packet for distances
   that are no shorter. FIRST has all distances within a packet. Distances within a tile are done tile by tile; those from a tile
   on, of which elements at one place of all tiles meet no others, in strips of a few places. */
#define BY_DISTANCE(NAME, T, PACKET, WIDE, WIDTH, COMBINE, NEUTRAL, EXISTS, FIRST, LANES, BEGIN)                              \
    CHAINS(NAME##_by_packets, T, PACKET, COMBINE, NEUTRAL, EXISTS)                                                            \
    CHAINS(NAME##_by_wide_packets, T, WIDE, COMBINE, NEUTRAL, EXISTS)                                                         \
    INLINED void NAME##_chains_body(T *v, Py_ssize_t d, Py_ssize_t n, int levels, T *state, Py_ssize_t begun)                 \
    {                                                                                                                         \
        NAME##_by_packets(v, d, n, levels, state, begun);                                                                     \
    }                                                                                                                         \
    INLINED void NAME##_chains_wide_body(T *v, Py_ssize_t d, Py_ssize_t n, int levels, T *state, Py_ssize_t begun)            \
    {                                                                                                                         \
        if (d * (Py_ssize_t)sizeof(T) < (Py_ssize_t)sizeof(WIDE))                                                             \
            NAME##_by_packets(v, d, n, levels, state, begun);                                                                 \
        else                                                                                                                  \
            NAME##_by_wide_packets(v, d, n, levels, state, begun);                                                            \
    }                                                                                                                         \
    FOR_WIDE_VECTORS(NAME##_chains, (T * v, Py_ssize_t d, Py_ssize_t n, int levels, T *state, Py_ssize_t begun),              \
                     (v, d, n, levels, state, begun))                                                                         \
    INLINED void NAME##_first_body(const T *x, T *v, Py_ssize_t n)                                                            \
    {                                                                                                                         \
        for (Py_ssize_t i = 0; i < n; ++i)                                                                                    \
            v[i] = FIRST(COMBINE, x + i, LANES);                                                                              \
    }                                                                                                                         \
    FOR_VECTORS(NAME##_first, (const T *x, T *v, Py_ssize_t n), (x, v, n))                                                    \
                                                                                                                              \
    static void NAME##_fill(T *to, Py_ssize_t n)                                                                              \
    {                                                                                                                         \
        for (Py_ssize_t i = 0; i < n; ++i)                                                                                    \
            to[i] = NEUTRAL;                                                                                                  \
    }                                                                                                                         \
                                                                                                                              \
    /* All distances within a tile; whether there was memory. Beside the tile as it is given and as it becomes, `room` has the\
       states of the chains of each pass. */                                                                                  \
    static int NAME##_tiles(const T *x, T *out, Py_ssize_t count)                                                             \
    {                                                                                                                         \
        enum { SIZE = TILE_PACKETS * (WIDTH) };                                                                               \
        const Py_ssize_t longest = count < SIZE ? count : SIZE;                                                               \
        const Py_ssize_t length = longest + (Py_ssize_t)(sizeof(WIDE) / sizeof(T)); /* the last packet may end behind it */   \
        Py_ssize_t chains = 0;                                                                                                \
        for (Py_ssize_t d = WIDTH; d < longest; d *= 8)                                                                       \
            chains += d;                                                                                                      \
        T *const given = malloc((size_t)(2 * length + STATE * chains) * sizeof(T));                                           \
        T *const v = given + length, *const states = v + length;                                                              \
        if (!given)                                                                                                           \
            return 0;                                                                                                         \
        NAME##_fill(states, STATE * chains);                                                                                  \
        NAME##_fill(given, WIDTH);                                                                                            \
        for (Py_ssize_t at = 0, n; at < count; at += n) {                                                                     \
            T *state = states;                                                                                                \
            n = count - at < SIZE ? count - at : SIZE;                                                                        \
            memcpy(given + (WIDTH), x + at, (size_t)n * sizeof(T));                                                           \
            NAME##_first(given + (WIDTH), v, n);                                                                              \
            if (!at)                                                                                                          \
                BEGIN(T, given + (WIDTH), v, n)                                                                               \
            for (Py_ssize_t d = WIDTH; d < longest; d *= 8, state += STATE * d / 8)                                           \
                NAME##_chains_widest(v, d, n, LEVELS(d, SIZE), state, at);                                                           \
            memmove(given, given + n, (WIDTH) * sizeof(T)); /* of a last short tile they overlap */                           \
            memcpy(out + at, v, (size_t)n * sizeof(T));                                                                       \
        }                                                                                                                     \
        free(given);                                                                                                          \
        return 1;                                                                                                             \
    }                                                                                                                         \
                                                                                                                              \
    /* All distances from a tile on, for the `width` elements at each of the places at, at + SIZE ...  */                     \
    static void NAME##_strip(T *out, Py_ssize_t count, Py_ssize_t at, Py_ssize_t width, T *strip)                             \
    {                                                                                                                         \
        enum { SIZE = TILE_PACKETS * (WIDTH) };                                                                               \
        const Py_ssize_t rows = (count - at + SIZE - 1) / SIZE, rest = count - at - (rows - 1) * SIZE;                        \
        const Py_ssize_t last = rest < width ? rest : width;                                                                  \
        for (Py_ssize_t q = 0; q < rows; ++q)                                                                                 \
            memcpy(strip + q * width, out + at + q * SIZE, (size_t)(q < rows - 1 ? width : last) * sizeof(T));                \
        for (Py_ssize_t d = 1; d < rows; d *= 8)                                                                              \
            NAME##_chains_widest(strip, d * width, rows * width, LEVELS(d, rows), NULL, 0);                                          \
        for (Py_ssize_t q = 0; q < rows; ++q)                                                                                 \
            memcpy(out + at + q * SIZE, strip + q * width, (size_t)(q < rows - 1 ? width : last) * sizeof(T));                \
    }                                                                                                                         \
                                                                                                                              \
    static int NAME(const row *r)                                                                                             \
    {                                                                                                                         \
        enum { SIZE = TILE_PACKETS * (WIDTH) };                                                                               \
        T *const out = (T *)(void *)r->out;                                                                                   \
        const Py_ssize_t count = (LANES) * r->count, rows = (count + SIZE - 1) / SIZE;                                        \
        const Py_ssize_t width = STRIP_NBYTES / (Py_ssize_t)sizeof(T);                                                        \
        if (!NAME##_tiles((const T *)(const void *)r->x, out, count))                                                         \
            return 0;                                                                                                         \
        if (rows > 1) {                                                                                                       \
            T *room = calloc((size_t)(rows * width), sizeof(T));                                                              \
            if (!room)                                                                                                        \
                return 0;                                                                                                     \
            for (Py_ssize_t at = 0; at < SIZE && at < count; at += width)                                                     \
                NAME##_strip(out, count, at, width, room);                                                                    \
            free(room);                                                                                                       \
        }                                                                                                                     \
        return 1;                                                                                                             \
    }
#define ONE_64 ((c64){1, 0})
#define ONE_128 ((c128){1, 0})
BY_DISTANCE(add_f32, float, f32x8, f32x16, 8, SUM, -0.0f, ALWAYS, FIRST_8, 1, AS_ALL)
BY_DISTANCE(mul_f32, float, f32x8, f32x16, 8, PRODUCT, 1, ALWAYS, FIRST_8, 1, AS_ALL)
BY_DISTANCE(add_f64, double, f64x4, f64x8, 4, SUM, -0.0, ALWAYS, FIRST_4, 1, AS_ALL)
BY_DISTANCE(mul_f64, double, f64x4, f64x8, 4, PRODUCT, 1, ALWAYS, FIRST_4, 1, AS_ALL)
BY_DISTANCE(add_c64, float, f32x8, f32x16, 8, SUM, -0.0f, ALWAYS, FIRST_4, 2, AS_ALL)
BY_DISTANCE(add_c128, double, f64x4, f64x8, 4, SUM, -0.0, ALWAYS, FIRST_2, 2, AS_ALL)
BY_DISTANCE(mul_c64, c64, f32x8, f32x8, 4, PRODUCTS_64, ONE_64, FROM, FOUR_c64, 1, BEGIN_c64)
BY_DISTANCE(mul_c128, c128, f64x4, f64x4, 2, PRODUCTS_128, ONE_128, FROM, TWO_c128, 1, BEGIN_c128)

/* --- the same of the namespaces: chunks one element after the other, and the totals of chunks likewise */

enum { CHUNK = 32 }; /* as in xferlib/_arrays/indexing.py */

#define BY_CHUNKS(NAME, T, COMBINE)                                                                                          \
    static void NAME##_chunks(const T *x, T *out, Py_ssize_t count, T *totals)                                               \
    {                                                                                                                        \
        Py_ssize_t chunks = (count + CHUNK - 1) / CHUNK;                                                                     \
        for (Py_ssize_t n = 0; n < chunks - 1; ++n) {                                                                        \
            T sum = x[n * CHUNK];                                                                                            \
            for (int k = 1; k < CHUNK; ++k)                                                                                  \
                sum = COMBINE(sum, x[n * CHUNK + k]);                                                                        \
            totals[n] = sum;                                                                                                 \
        }                                                                                                                    \
        if (chunks > 2)                                                                                                      \
            NAME##_chunks(totals, totals, chunks - 1, totals + chunks);                                                      \
        for (Py_ssize_t n = 0; n < chunks; ++n) {                                                                            \
            Py_ssize_t at = n * CHUNK, end = at + CHUNK < count ? at + CHUNK : count;                                        \
            T sum = n ? COMBINE(totals[n - 1], x[at]) : x[at];                                                               \
            out[at] = sum;                                                                                                   \
            while (++at < end) {                                                                                             \
                sum = COMBINE(sum, x[at]);                                                                                   \
                out[at] = sum;                                                                                               \
            }                                                                                                                \
        }                                                                                                                    \
    }                                                                                                                        \
                                                                                                                             \
    static int NAME##_by_chunks(const row *r)                                                                                \
    {                                                                                                                        \
        T *totals = malloc((size_t)(r->count / (CHUNK / 2) + CHUNK) * sizeof(T));                                            \
        if (totals)                                                                                                          \
            NAME##_chunks((const T *)(const void *)r->x, (T *)(void *)r->out, r->count, totals);                             \
        free(totals);                                                                                                        \
        return totals != NULL;                                                                                               \
    }
BY_CHUNKS(add_f32, float, SUM)
BY_CHUNKS(mul_f32, float, PRODUCT)
BY_CHUNKS(add_f64, double, SUM)
BY_CHUNKS(mul_f64, double, PRODUCT)
BY_CHUNKS(add_c64, c64, sum_c64)
BY_CHUNKS(mul_c64, c64, product_c64)
BY_CHUNKS(add_c128, c128, sum_c128)
BY_CHUNKS(mul_c128, c128, product_c128)

/* --- the functions by name */

typedef struct {
    const char *operations, *dtypes; /* by their names in xferlib/kernels/scan.py; as NumPy writes them without the byte order */
    scan_row run;
    Py_ssize_t itemsize;
} known;

#define OF_INTEGERS(BYTES, BITS)                                                                               \
    {"add", "i" BYTES " u" BYTES, add_##BITS, BITS / 8}, {"mul", "i" BYTES " u" BYTES, mul_##BITS, BITS / 8},  \
    {"and", "i" BYTES " u" BYTES, and_##BITS, BITS / 8}, {"or", "i" BYTES " u" BYTES, or_##BITS, BITS / 8},    \
    {"xor", "i" BYTES " u" BYTES, xor_##BITS, BITS / 8},                                                       \
    {"min fmin less", "u" BYTES, min_u##BITS, BITS / 8}, {"max fmax greater", "u" BYTES, max_u##BITS, BITS / 8}, \
    {"min fmin less", "i" BYTES, min_i##BITS, BITS / 8}, {"max fmax greater", "i" BYTES, max_i##BITS, BITS / 8}
#define OF_FLOATS(BYTES, BITS)                                                                    \
    {"max", "f" BYTES, maximum_f##BITS, BITS / 8}, {"min", "f" BYTES, minimum_f##BITS, BITS / 8}, \
    {"fmax", "f" BYTES, fmax_f##BITS, BITS / 8}, {"fmin", "f" BYTES, fmin_f##BITS, BITS / 8}
#define BY_ORDER(DTYPE, TYPE, SIZE)                                                                        \
    {"add", DTYPE, add_##TYPE, SIZE}, {"mul", DTYPE, mul_##TYPE, SIZE},                                    \
    {"chunked-add", DTYPE, add_##TYPE##_by_chunks, SIZE}, {"chunked-mul", DTYPE, mul_##TYPE##_by_chunks, SIZE}

static const known table[] = {
    {"add max fmax or greater", "b1", or_8, 1}, {"mul min fmin and less", "b1", and_8, 1}, {"xor", "b1", xor_8, 1},
    OF_INTEGERS("1", 8), OF_INTEGERS("2", 16), OF_INTEGERS("4", 32), OF_INTEGERS("8", 64),
    OF_FLOATS("2", 16), OF_FLOATS("4", 32), OF_FLOATS("8", 64),
    BY_ORDER("f4", f32, 4), BY_ORDER("f8", f64, 8), BY_ORDER("c8", c64, 8), BY_ORDER("c16", c128, 16),
};

/* Keep NumPy's type of arrays, where replay.c is not bound yet. */
void xf_meet_arrays(PyObject *type)
{
    if (!replay.ndarray)
        replay.ndarray = Py_NewRef(type);
}

static int is_among(const char *names, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = names; length && (at = strstr(at, name)); ++at)
        if ((at == names || at[-1] == ' ') && (!at[length] || at[length] == ' '))
            return 1;
    return 0;
}

/* Each segment by itself, which is what the kernels do: an element is never combined with one before its segment's first.
   Segments begin at flags, or have one length. */
static int scan_segments(const known *k, const row *r, const char *begins, Py_ssize_t length)
{
    row part = *r;
    for (Py_ssize_t at = 0; at < r->count; at += part.count) {
        const char *next = begins ? memchr(begins + at + 1, 1, (size_t)(r->count - at - 1)) : NULL;
        part.count = next ? next - begins - at : begins || length > r->count - at ? r->count - at : length;
        part.x = r->x + at * k->itemsize;
        part.out = r->out + at * k->itemsize;
        if (!k->run(&part))
            return 0;
    }
    return 1;
}

/* (x, out, flags, or the length of each segment): the running results, anew at each flag. `out` is `x` itself or apart from it.
   True; False, a no-op, where the arrays are not rows of one length in C order. The caller vouches for the dtypes. */
static PyObject *run_scan(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    const known *k = PyCapsule_GetPointer(self, NULL);
    const char *begins = NULL;
    Py_ssize_t written = 0, flags = 0, length = 0;
    row r;
    int has_memory, has_flags;
    if (!k || count != 3)
        return PyErr_Format(PyExc_TypeError, "a scan takes three arguments");
    has_flags = is_of(given[2], replay.ndarray);
    r.x = row_of(given[0], &r.count, 0);
    r.out = row_of(given[1], &written, 1);
    if (has_flags)
        begins = row_of(given[2], &flags, 0);
    else if ((length = PyLong_AsSsize_t(given[2])) < 1)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "segments have 1 element or more");
    if (!r.x || !r.out || written != r.count || (has_flags && (!begins || flags != written)))
        return Py_NewRef(Py_False);
    if (r.count < LONG_COUNT)
        has_memory = scan_segments(k, &r, begins, length);
    else
        WITHOUT_GIL(has_memory = scan_segments(k, &r, begins, length));
    return has_memory ? Py_NewRef(Py_True) : PyErr_NoMemory();
}

/* (operation, dtype as NumPy writes it without the byte order, NumPy's type of arrays) -> the function above for them; None where
   there is none */
PyObject *xf_bind_scan(PyObject *module, PyObject *arguments)
{
    static PyMethodDef method = {"scan", (PyCFunction)(void (*)(void))run_scan, METH_FASTCALL, NULL};
    const char *operation, *dtype;
    PyObject *type;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "ssO", &operation, &dtype, &type))
        return NULL;
    xf_meet_arrays(type);
    for (size_t i = 0; i < sizeof table / sizeof *table; ++i)
        if (is_among(table[i].operations, operation) && is_among(table[i].dtypes, dtype)) {
            PyObject *capsule = PyCapsule_New((void *)(uintptr_t)&table[i], NULL, NULL);
            PyObject *made = capsule ? PyCFunction_NewEx(&method, capsule, NULL) : NULL;
            Py_XDECREF(capsule);
            return made;
        }
    return Py_NewRef(Py_None);
}
