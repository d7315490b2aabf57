/* Running results of an operation over one row: in the order of the kernels of xferlib/kernels/scan.py, and of those of
   xferlib/_arrays/indexing.py.

   A scan's kernels run once for each distance d = 1, 2, 4 ... below the length: element i becomes the element d before it,
   combined with itself, if there is one. Where an operation gives the same bits in any order, one pass does the same. Sums
   and products of floats do not: four distances are done in one pass. */

#include "compute.h"

#include "../staging/plain.h"

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
typedef int32_t i32x16 __attribute__((vector_size(64)));
typedef int64_t i64x8 __attribute__((vector_size(64)));

/* The last K elements of a vector, and the first ones of the next; any for another K than a distance within a vector. */
#define FROM_4(K) ((4 - (K)) & 7), ((5 - (K)) & 7), ((6 - (K)) & 7), ((7 - (K)) & 7)
#define FROM_8(K) ((8 - (K)) & 15), ((9 - (K)) & 15), ((10 - (K)) & 15), ((11 - (K)) & 15), FROM_4_OF_8(K)
#define FROM_4_OF_8(K) ((12 - (K)) & 15), ((13 - (K)) & 15), ((14 - (K)) & 15), ((15 - (K)) & 15)
#define BEHIND_f64x4(K, a, b) SHUFFLE(i64x4, a, b, FROM_4(K))
#define BEHIND_f32x8(K, a, b) SHUFFLE(i32x8, a, b, FROM_8(K))
#define BEHIND_f64x8(K, a, b) SHUFFLE(i64x8, a, b, FROM_8(K))
#define BEHIND_f32x16(K, a, b) SHUFFLE(i32x16, a, b, (16 - (K)), (17 - (K)), (18 - (K)), (19 - (K)), (20 - (K)), (21 - (K)), (22 - (K)), (23 - (K)), \
                                       (24 - (K)), (25 - (K)), (26 - (K)), (27 - (K)), (28 - (K)), (29 - (K)), (30 - (K)), (31 - (K)))

/* Products of a vector of complex numbers: those of the real parts of a with b, and of its imaginary ones with b turned over.
   Macros, since not every processor returns such vectors. */
#define BY_REAL_64(a, b) (SHUFFLE(i32x8, a, a, 0, 0, 2, 2, 4, 4, 6, 6) * (b))
#define BY_IMAG_64(a, b) (SHUFFLE(i32x8, a, a, 1, 1, 3, 3, 5, 5, 7, 7) * SHUFFLE(i32x8, b, b, 1, 0, 3, 2, 5, 4, 7, 6))
#define BY_REAL_128(a, b) (SHUFFLE(i64x4, a, a, 0, 0, 2, 2) * (b))
#define BY_IMAG_128(a, b) (SHUFFLE(i64x4, a, a, 1, 1, 3, 3) * SHUFFLE(i64x4, b, b, 1, 0, 3, 2))
#define PRODUCTS_64(a, b)                                                                                              \
    (f32x8)SHUFFLE(i32x8, BY_REAL_64(a, b) - BY_IMAG_64(a, b), BY_REAL_64(a, b) + BY_IMAG_64(a, b), 0, 9, 2, 11, 4, 13, 6, 15)
#define PRODUCTS_128(a, b) \
    (f64x4)SHUFFLE(i64x4, BY_REAL_128(a, b) - BY_IMAG_128(a, b), BY_REAL_128(a, b) + BY_IMAG_128(a, b), 0, 5, 2, 7)

/* Vectors of `nbytes` are the unit of what follows: elements that lie side by side in one never meet again. */
typedef struct {
    Py_ssize_t nbytes;
    void (*fill)(char *v, Py_ssize_t n); /* with what changes nothing */
    void (*begin)(char *v);              /* the distances within the first vector, where `fill` does not do for it, or NULL */
    void (*first)(const char *x, char *v, Py_ssize_t n, int levels, char *kept, Py_ssize_t begun, const char *begin);
    void (*chain)(const char *x, char *v, Py_ssize_t d, Py_ssize_t e, Py_ssize_t chains, Py_ssize_t n, int levels, char *kept, Py_ssize_t begun);
    void (*move)(char *strip, char *out, Py_ssize_t rows, int is_back);
} by_distance;

enum {
    BLOCK = 256, TILE = 8 * BLOCK, /* vectors that stay in the first cache, and in the second one, with what their chains keep */
    PITCH = BLOCK + 1,             /* from block to block: a load waits for a store before it to the same place of another page */
    FIRST_KEPT = 4, KEPT = 15,     /* vectors that are kept by distances within one, and by a chain of four distances */
    TILE_KEPT = 7,                 /* by a chain of the three distances of blocks in a tile */
    COLUMNS = 16,                  /* vectors of each tile that are done together: a few lines, as memory is fast by */
    STRIP = COLUMNS + 1,           /* from tile to tile of them: as PITCH */
    LINE_NBYTES = 64,
};

/* Up to four distances d, 2d, 4d and 8d in one pass, from the first vector on, to results that are e apart: what each step needs of the steps before it is
   kept, in `kept` for the next block too, and a chain of vectors d apart never meets another. Before the first element
   stands one that changes nothing, or there is nothing where EXISTS says so. */
#define CHAIN_STEP(COMBINE, BEHIND, LANES, EXISTS, K)                    \
    {                                                                    \
        V x = from[i];                                                   \
        if (is_first) {                                                  \
            FIRST_STEP(COMBINE, BEHIND, LANES, 1, 0)                     \
            FIRST_STEP(COMBINE, BEHIND, LANES, 2, 1)                     \
            FIRST_STEP(COMBINE, BEHIND, LANES, 4, 2)                     \
            FIRST_STEP(COMBINE, BEHIND, LANES, 8, 3)                     \
            if ((K) == 0 && begin && !i)                                 \
                x = *begin;                                              \
        }                                                                \
        const V a = EXISTS(q + K, 1, COMBINE(last, x), x);               \
        const V b = EXISTS(q + K, 2, COMBINE(two[(K) & 1], a), a);       \
        const V c = EXISTS(q + K, 4, COMBINE(four[(K) & 3], b), b);      \
        last = x;                                                        \
        two[(K) & 1] = a;                                                \
        four[(K) & 3] = b;                                               \
        if (most == 4) {                                                 \
            v[o] = EXISTS(q + K, 8, COMBINE(eight[K], c), c);            \
            eight[K] = c;                                                \
        } else                                                           \
            v[o] = levels == 3 ? c : levels == 2 ? b : a;                \
        if ((i += d) >= n)                                               \
            break;                                                       \
        o += e;                                                          \
    }
#define ALWAYS(q, k, combined, alone) ((void)(q), (combined))
#define FROM(q, k, combined, alone) ((q) >= (k) ? (combined) : (alone))

/* A distance of K elements, where that is less than a vector and no part of a complex number. */
#define FIRST_STEP(COMBINE, BEHIND, LANES, K, AT)                        \
    if ((K) >= (LANES) && (K) < WIDTH) {                                 \
        const V behind = BEHIND(K, before[AT], x);                       \
        before[AT] = x;                                                  \
        x = COMBINE(behind, x);                                          \
    }

/* NAME: sums or products by COMBINE, in vectors VECTOR of elements T, of which a number has LANES. */
#define BY_DISTANCE(NAME, T, VECTOR, LANES, COMBINE, NEUTRAL, EXISTS)                                                     \
    INLINED void NAME##_fill_body(char *v, Py_ssize_t n)                                                                  \
    {                                                                                                                     \
        for (Py_ssize_t i = 0; i < n * (Py_ssize_t)(sizeof(VECTOR) / sizeof(T)); ++i)                                     \
            ((T *)(void *)v)[i] = NEUTRAL;                                                                                \
    }                                                                                                                     \
    INLINED void NAME##_chain_of(const VECTOR *from, VECTOR *v, Py_ssize_t d, Py_ssize_t e, Py_ssize_t chains, Py_ssize_t n, \
                                 int levels, VECTOR *kept, Py_ssize_t begun, const VECTOR *begin, const int most,         \
                                 const int is_first)                                                                      \
    {                                                                                                                     \
        typedef VECTOR V;                                                                                                 \
        enum { WIDTH = sizeof(V) / sizeof(T) };                                                                           \
        V none[KEPT], before[FIRST_KEPT];                                                                                 \
        if (!kept) {                                                                                                      \
            memset(none, 0, sizeof none); /* the analyzer does not follow the loop */                                     \
            NAME##_fill_body((char *)none, KEPT);                                                                         \
        }                                                                                                                 \
        if (is_first)                                                                                                     \
            memcpy(before, kept, sizeof before);                                                                          \
        for (Py_ssize_t r = 0; r < chains && r < n; ++r) {                                                                \
            V *own = kept ? kept + (is_first ? FIRST_KEPT : 0) + ((1 << most) - 1) * r : none;                            \
            V last = own[0], two[2] = {own[1], own[2]}, four[4] = {own[3], own[4], own[5], own[6]}, eight[8];             \
            Py_ssize_t i = r, o = r;                                                                                      \
            for (int k = 0; k < 8 && most == 4; ++k)                                                                      \
                eight[k] = own[7 + k];                                                                                    \
            for (Py_ssize_t q = begun / d;; q += 8) {                                                                     \
                CHAIN_STEP(COMBINE, BEHIND_##VECTOR, LANES, EXISTS, 0)                                                    \
                CHAIN_STEP(COMBINE, BEHIND_##VECTOR, LANES, EXISTS, 1)                                                    \
                CHAIN_STEP(COMBINE, BEHIND_##VECTOR, LANES, EXISTS, 2)                                                    \
                CHAIN_STEP(COMBINE, BEHIND_##VECTOR, LANES, EXISTS, 3)                                                    \
                CHAIN_STEP(COMBINE, BEHIND_##VECTOR, LANES, EXISTS, 4)                                                    \
                CHAIN_STEP(COMBINE, BEHIND_##VECTOR, LANES, EXISTS, 5)                                                    \
                CHAIN_STEP(COMBINE, BEHIND_##VECTOR, LANES, EXISTS, 6)                                                    \
                CHAIN_STEP(COMBINE, BEHIND_##VECTOR, LANES, EXISTS, 7)                                                    \
            }                                                                                                             \
            if (kept) {                                                                                                   \
                own[0] = last, own[1] = two[0], own[2] = two[1];                                                          \
                own[3] = four[0], own[4] = four[1], own[5] = four[2], own[6] = four[3];                                   \
                for (int k = 0; k < 8 && most == 4; ++k)                                                                  \
                    own[7 + k] = eight[k];                                                                                \
            }                                                                                                             \
        }                                                                                                                 \
        if (is_first)                                                                                                     \
            memcpy(kept, before, sizeof before);                                                                          \
    }                                                                                                                     \
    INLINED void NAME##_first_body(const char *x, char *v, Py_ssize_t n, int levels, char *kept, Py_ssize_t begun, const char *begin) \
    {                                                                                                                     \
        const VECTOR *from = (const VECTOR *)(const void *)x, *one = (const VECTOR *)(const void *)begin;                 \
        VECTOR *to = (VECTOR *)(void *)v, *own = (VECTOR *)(void *)kept;                                                  \
        if (levels == 4)                                                                                                  \
            NAME##_chain_of(from, to, 1, 1, 1, n, 4, own, begun, one, 4, 1);                                              \
        else                                                                                                              \
            NAME##_chain_of(from, to, 1, 1, 1, n, levels, own, begun, one, 3, 1);                                         \
    }                                                                                                                     \
    INLINED void NAME##_chain_body(const char *x, char *v, Py_ssize_t d, Py_ssize_t e, Py_ssize_t chains, Py_ssize_t n,    \
                                   int levels, char *kept, Py_ssize_t begun)                                              \
    {                                                                                                                     \
        const VECTOR *from = (const VECTOR *)(const void *)x;                                                             \
        VECTOR *to = (VECTOR *)(void *)v, *own = (VECTOR *)(void *)kept;                                                  \
        if (levels == 4)                                                                                                  \
            NAME##_chain_of(from, to, d, e, chains, n, 4, own, begun, NULL, 4, 0);                                        \
        else                                                                                                              \
            NAME##_chain_of(from, to, d, e, chains, n, levels, own, begun, NULL, 3, 0);                                   \
    }                                                                                                                     \
    INLINED void NAME##_move_body(char *strip, char *out, Py_ssize_t rows, int is_back)                                   \
    {                                                                                                                     \
        VECTOR *one = (VECTOR *)(void *)strip, *two = (VECTOR *)(void *)out;                                              \
        for (Py_ssize_t q = 0; q < rows; ++q, one += STRIP, two += TILE) {                                                \
            for (Py_ssize_t c = 0; c < COLUMNS && !is_back; ++c)                                                          \
                __builtin_prefetch(two + COLUMNS + c, 1, 2); /* of the next ones */                                       \
            for (Py_ssize_t c = 0; c < COLUMNS; ++c)                                                                      \
                *(is_back ? &two[c] : &one[c]) = *(is_back ? &one[c] : &two[c]);                                          \
        }                                                                                                                 \
    }
#define OF_FILL (char *v, Py_ssize_t n), (v, n)
#define OF_FIRST                                                                                                          \
    (const char *x, char *v, Py_ssize_t n, int levels, char *kept, Py_ssize_t begun, const char *begin), (x, v, n, levels, kept, begun, begin)
#define OF_CHAIN                                                                                                          \
    (const char *x, char *v, Py_ssize_t d, Py_ssize_t e, Py_ssize_t chains, Py_ssize_t n, int levels, char *kept, Py_ssize_t begun), \
        (x, v, d, e, chains, n, levels, kept, begun)
#define OF_MOVE (char *strip, char *out, Py_ssize_t rows, int is_back), (strip, out, rows, is_back)
#define WITH(MACRO, ...) MACRO(__VA_ARGS__)
#define EACH(MACRO, NAME, VECTOR, BEGIN)                                                                                  \
    WITH(MACRO, NAME##_fill, OF_FILL)                                                                                     \
    WITH(MACRO, NAME##_first, OF_FIRST)                                                                                   \
    WITH(MACRO, NAME##_chain, OF_CHAIN)                                                                                   \
    WITH(MACRO, NAME##_move, OF_MOVE)                                                                                     \
    static const by_distance NAME##_vectors = {sizeof(VECTOR), NAME##_fill, BEGIN, NAME##_first, NAME##_chain, NAME##_move};
#define NARROW(NAME, VECTOR, BEGIN) EACH(FOR_VECTORS, NAME, VECTOR, BEGIN)
#define WIDE(NAME, VECTOR) EACH(WITH_WIDE_VECTORS, NAME, VECTOR, NULL)

/* How many distances d, 2d ... are below a length: at most 4. */
static int levels_below(Py_ssize_t d, Py_ssize_t length)
{
    int levels = 1;
    while (levels < 4 && d << levels < length)
        ++levels;
    return levels;
}

static Py_ssize_t shorter(Py_ssize_t a, Py_ssize_t b)
{
    return a < b ? a : b;
}

/* All distances below a tile, for its vectors from `at` on of a row of `count`: to `out` where its last distances end there, else to
   blocks that lie PITCH apart, and copied to `out`. `kept` has what each pass keeps. */
static void scan_tile(const by_distance *o, const char *x, char *v, char *out, Py_ssize_t at, Py_ssize_t count, Py_ssize_t nbytes,
                      char *kept)
{
    const Py_ssize_t size = o->nbytes, n = shorter(TILE, count - at);
    char *const states = kept + (FIRST_KEPT + KEPT) * size;
    _Alignas(LINE_NBYTES) char begin[LINE_NBYTES] = {0};
    const int has_begin = !at && o->begin, are_whole = count > BLOCK && nbytes - at * size >= n * size;
    if (has_begin) {
        memcpy(begin, x, (size_t)shorter(size, nbytes));
        o->begin(begin);
    }
    for (Py_ssize_t b = 0; b < n; b += BLOCK) {
        const Py_ssize_t m = shorter(BLOCK, n - b), left = nbytes - (at + b) * size;
        const char *from = x + b * size;
        char *block = v + b / BLOCK * PITCH * size;
        if (left < m * size) { /* the last vector is read as a whole */
            memset(block + (m - 1) * size, 0, (size_t)size);
            from = memcpy(block, from, (size_t)left);
        }
        o->first(from, block, m, levels_below(1, count), kept, at + b, has_begin && !b ? begin : NULL);
        if (count > 16)
            o->chain(block, block, 16, 16, 16, m, levels_below(16, count), count > BLOCK ? states : NULL, at + b);
    }
    if (count > BLOCK)
        o->chain(v, are_whole ? out : v, PITCH, are_whole ? BLOCK : PITCH, BLOCK, n / BLOCK * PITCH + n % BLOCK,
                 levels_below(BLOCK, shorter(count, TILE)), count > TILE ? states + KEPT * 16 * size : NULL, at / BLOCK * PITCH);
    for (Py_ssize_t b = 0; b < n && !are_whole; b += BLOCK)
        copy_plain(out + b * size, v + b / BLOCK * PITCH * size, (size_t)shorter(BLOCK * size, nbytes - (at + b) * size));
}

/* The vectors of COLUMNS of all tiles, `strip` to `out` or back; the last tile has `left` bytes from them on. */
static void move_columns(const by_distance *o, char *strip, char *out, Py_ssize_t rows, Py_ssize_t left, int is_back)
{
    char run[COLUMNS * LINE_NBYTES] = {0}, *last = out + (rows - 1) * TILE * o->nbytes;
    const size_t nbytes = left > 0 ? (size_t)shorter(left, COLUMNS * o->nbytes) : 0;
    o->move(strip, out, rows - 1, is_back);
    if (!is_back && nbytes)
        memcpy(run, last, nbytes);
    o->move(strip + (rows - 1) * STRIP * o->nbytes, run, 1, is_back);
    if (is_back && nbytes)
        memcpy(last, run, nbytes);
}

/* All distances: those within a tile tile by tile, and the others, in which vectors at one place of all tiles meet no others, a few
   columns at a time. Each is one way through memory. */
static int scan_by_distance(const by_distance *o, const char *x, char *out, Py_ssize_t nbytes)
{
    const Py_ssize_t size = o->nbytes, count = (nbytes + size - 1) / size, rows = (count + TILE - 1) / TILE;
    const Py_ssize_t kept = FIRST_KEPT + KEPT * (count > BLOCK ? 17 : 1) + (count > TILE ? TILE_KEPT * BLOCK : 0);
    const Py_ssize_t part = shorter(count, TILE), tile = part / BLOCK * PITCH + part % BLOCK, longest = rows * STRIP > tile ? rows * STRIP : tile;
    char *room = malloc((size_t)((kept + longest) * size + LINE_NBYTES)), *states, *v;
    if (!room)
        return 0;
    states = room + LINE_NBYTES - (uintptr_t)room % LINE_NBYTES;
    v = states + kept * size;
    o->fill(states, kept);
    for (Py_ssize_t at = 0; at < count; at += TILE)
        scan_tile(o, x + at * size, v, out + at * size, at, count, nbytes, states);
    for (Py_ssize_t q = 0; q < rows && rows > 1; ++q) /* the columns between */
        o->fill(v + (q * STRIP + COLUMNS) * size, 1);
    for (Py_ssize_t at = 0; at < TILE && rows > 1; at += COLUMNS) {
        const Py_ssize_t left = nbytes - ((rows - 1) * TILE + at) * size;
        move_columns(o, v, out + at * size, rows, left, 0);
        for (Py_ssize_t d = 1; d < rows; d *= 16)
            o->chain(v, v, d * STRIP, d * STRIP, d * STRIP, rows * STRIP, levels_below(d, rows), NULL, 0);
        move_columns(o, v, out + at * size, rows, left, 1);
    }
    free(room);
    return 1;
}

/* What comes of the first vector of a row, where the product with 1 is not the other factor: of infinities. */
static void begin_c64(char *v)
{
    c64 *x = (c64 *)(void *)v;
    x[3] = product_c64(product_c64(x[0], x[1]), product_c64(x[2], x[3]));
    x[2] = product_c64(x[0], product_c64(x[1], x[2]));
    x[1] = product_c64(x[0], x[1]);
}
static void begin_c128(char *v)
{
    c128 *x = (c128 *)(void *)v;
    x[1] = product_c128(x[0], x[1]);
}

#define RUN(NAME, SIZE, VECTORS)                                                  \
    static int NAME(const row *r)                                                 \
    {                                                                             \
        return scan_by_distance(VECTORS, r->x, r->out, (SIZE) * r->count);        \
    }
#ifdef HAS_WIDE_VECTORS
#define OF_REALS(NAME, T, SIZE, NARROW_ONE, WIDE_ONE, LANES, COMBINE, NEUTRAL)          \
    BY_DISTANCE(NAME##_narrow, T, NARROW_ONE, LANES, COMBINE, NEUTRAL, ALWAYS)          \
    BY_DISTANCE(NAME##_wide, T, WIDE_ONE, LANES, COMBINE, NEUTRAL, ALWAYS)              \
    NARROW(NAME##_narrow, NARROW_ONE, NULL)                                             \
    WIDE(NAME##_wide, WIDE_ONE)                                                         \
    RUN(NAME, SIZE, HAS_WIDE_VECTORS ? &NAME##_wide_vectors : &NAME##_narrow_vectors)
#else
#define OF_REALS(NAME, T, SIZE, NARROW_ONE, WIDE_ONE, LANES, COMBINE, NEUTRAL)          \
    BY_DISTANCE(NAME##_narrow, T, NARROW_ONE, LANES, COMBINE, NEUTRAL, ALWAYS)          \
    NARROW(NAME##_narrow, NARROW_ONE, NULL)                                             \
    RUN(NAME, SIZE, &NAME##_narrow_vectors)
#endif
#define OF_PRODUCTS(NAME, T, SIZE, NARROW_ONE, COMBINE, BEGIN)                          \
    BY_DISTANCE(NAME, T, NARROW_ONE, 2, COMBINE, 1, FROM)                               \
    NARROW(NAME, NARROW_ONE, BEGIN)                                                     \
    RUN(NAME, SIZE, &NAME##_vectors)
OF_REALS(add_f32, float, 4, f32x8, f32x16, 1, SUM, -0.0f)
OF_REALS(mul_f32, float, 4, f32x8, f32x16, 1, PRODUCT, 1)
OF_REALS(add_f64, double, 8, f64x4, f64x8, 1, SUM, -0.0)
OF_REALS(mul_f64, double, 8, f64x4, f64x8, 1, PRODUCT, 1)
OF_REALS(add_c64, float, 8, f32x8, f32x16, 2, SUM, -0.0f)
OF_REALS(add_c128, double, 16, f64x4, f64x8, 2, SUM, -0.0)
OF_PRODUCTS(mul_c64, float, 8, f32x8, PRODUCTS_64, begin_c64)
OF_PRODUCTS(mul_c128, double, 16, f64x4, PRODUCTS_128, begin_c128)

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

/* Whether two rows are of the dtype and one row or apart. */
static int are_fit(PyObject *x, PyObject *out, PyObject *dtype, const row *r, Py_ssize_t itemsize)
{
    const Py_ssize_t distance = r->out - r->x, nbytes = r->count * itemsize;
    return ((ndarray *)x)->dtype == dtype && ((ndarray *)out)->dtype == dtype && (!distance || distance >= nbytes || -distance >= nbytes);
}

/* (x, out, flags, or the length of each segment): the running results, anew at each flag. `out` is `x` itself or apart from it.
   True; False, a no-op, where the arrays are not rows of one length in C order. The caller vouches for the dtypes. With None, which
   is one segment, it need not: False also for other dtypes, and for rows that overlap. */
static PyObject *run_scan(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    const known *k = PyCapsule_GetPointer(self, NULL);
    const char *begins = NULL;
    Py_ssize_t written = 0, flags = 0, length = 0;
    row r;
    int has_memory, has_flags, is_checked;
    if (!k || count != 3)
        return PyErr_Format(PyExc_TypeError, "a scan takes three arguments");
    has_flags = is_of(given[2], replay.ndarray);
    is_checked = given[2] == Py_None;
    r.x = row_of(given[0], &r.count, 0);
    r.out = row_of(given[1], &written, 1);
    if (has_flags)
        begins = row_of(given[2], &flags, 0);
    else if (!is_checked && (length = PyLong_AsSsize_t(given[2])) < 1)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "segments have 1 element or more");
    if (!r.x || !r.out || written != r.count || (has_flags && (!begins || flags != written)))
        return Py_NewRef(Py_False);
    if (is_checked) {
        if (!are_fit(given[0], given[1], PyCapsule_GetContext(self), &r, k->itemsize))
            return Py_NewRef(Py_False);
        length = r.count ? r.count : 1;
    }
    if (r.count < LONG_COUNT)
        has_memory = scan_segments(k, &r, begins, length);
    else
        WITHOUT_GIL(has_memory = scan_segments(k, &r, begins, length));
    return has_memory ? Py_NewRef(Py_True) : PyErr_NoMemory();
}

static void free_scan(PyObject *capsule)
{
    Py_XDECREF((PyObject *)PyCapsule_GetContext(capsule));
}

/* (operation, dtype as NumPy writes it without the byte order, NumPy's type of arrays, the dtype) -> the function above for them;
   None where there is none */
PyObject *xf_bind_scan(PyObject *module, PyObject *arguments)
{
    static PyMethodDef method = {"scan", (PyCFunction)(void (*)(void))run_scan, METH_FASTCALL, NULL};
    const char *operation, *dtype;
    PyObject *type, *object;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "ssOO", &operation, &dtype, &type, &object))
        return NULL;
    xf_meet_arrays(type);
    for (size_t i = 0; i < sizeof table / sizeof *table; ++i)
        if (is_among(table[i].operations, operation) && is_among(table[i].dtypes, dtype)) {
            PyObject *capsule = PyCapsule_New((void *)(uintptr_t)&table[i], NULL, free_scan);
            if (capsule)
                PyCapsule_SetContext(capsule, Py_NewRef(object));
            PyObject *made = capsule ? PyCFunction_NewEx(&method, capsule, NULL) : NULL;
            Py_XDECREF(capsule);
            return made;
        }
    return Py_NewRef(Py_None);
}
