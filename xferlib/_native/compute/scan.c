/* Running results of an operation over one row: in the order of the kernels of xferlib/kernels/scan.py, and of those of
   xferlib/_arrays/indexing.py.

   A scan's kernels run once for each distance d = 1, 2, 4 ... below the length: element i becomes the element d before it,
   combined with itself, if there is one. Where an operation gives the same bits in any order, one pass does the same. Sums
   and products of floats do not: they are computed in place, from the last element down, so that no element is read after
   it was written. A long row is done in tiles that fit the cache, each with the elements before it that it reaches, up to a
   certain distance; then all elements at one place of a tile, which no longer meet any other, for the other distances. */

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

enum { GROUP = 16, TILE_NBYTES = 1 << 15, LINE_NBYTES = 64, MOST_ROWS = 4096 };

#define BY_DISTANCE(NAME, T, COMBINE, LANES)                                                                                  \
    INLINED void NAME##_pass_body(T *v, Py_ssize_t count, Py_ssize_t distance)                                               \
    {                                                                                                                        \
        Py_ssize_t i = count;                                                                                                \
        for (; i - GROUP >= distance; i -= GROUP) {                                                                          \
            const T *to = v + i - GROUP, *from = to - distance;                                                              \
            T made[GROUP];                                                                                                   \
            for (int j = 0; j < GROUP; ++j)                                                                                  \
                made[j] = COMBINE(from[j], to[j]);                                                                           \
            memcpy(v + i - GROUP, made, sizeof made);                                                                        \
        }                                                                                                                    \
        while (--i >= distance)                                                                                              \
            v[i] = COMBINE(v[i - distance], v[i]);                                                                           \
    }                                                                                                                        \
    FOR_VECTORS(NAME##_pass, (T * v, Py_ssize_t count, Py_ssize_t distance), (v, count, distance))                           \
                                                                                                                             \
    static void NAME##_below(T *v, Py_ssize_t count, Py_ssize_t most)                                                        \
    {                                                                                                                        \
        for (Py_ssize_t distance = LANES; distance < count && distance < most; distance *= 2)                                \
            NAME##_pass(v, count, distance);                                                                                 \
    }                                                                                                                        \
                                                                                                                             \
    /* All distances from `step` on, for the `width` elements at each of the places at, at + step ...  */                    \
    static void NAME##_strip(T *out, Py_ssize_t count, Py_ssize_t step, Py_ssize_t at, Py_ssize_t width, T *strip)           \
    {                                                                                                                        \
        Py_ssize_t rows = (count - at + step - 1) / step, last = count - at - (rows - 1) * step;                             \
        last = last < width ? last : width;                                                                                  \
        for (Py_ssize_t q = 0; q < rows; ++q)                                                                                \
            memcpy(strip + q * width, out + at + q * step, (size_t)(q < rows - 1 ? width : last) * sizeof(T));               \
        for (Py_ssize_t distance = 1; distance < rows; distance *= 2)                                                        \
            NAME##_pass(strip, rows * width, distance * width);                                                              \
        for (Py_ssize_t q = 0; q < rows; ++q)                                                                                \
            memcpy(out + at + q * step, strip + q * width, (size_t)(q < rows - 1 ? width : last) * sizeof(T));               \
    }                                                                                                                        \
                                                                                                                             \
    static int NAME(const row *r)                                                                                            \
    {                                                                                                                        \
        const T *x = (const T *)(const void *)r->x;                                                                          \
        T *out = (T *)(void *)r->out, *room;                                                                                 \
        Py_ssize_t count = LANES * r->count, step = TILE_NBYTES / 4 / (Py_ssize_t)sizeof(T), tile, rows, size;               \
        const Py_ssize_t width = LINE_NBYTES / (Py_ssize_t)sizeof(T);                                                        \
        if (count <= 4 * step) {                                                                                             \
            memmove(out, x, (size_t)count * sizeof(T));                                                                      \
            NAME##_below(out, count, count);                                                                                 \
            return 1;                                                                                                        \
        }                                                                                                                    \
        while (count / step > MOST_ROWS)                                                                                     \
            step *= 2;                                                                                                       \
        tile = 4 * step;                                                                                                     \
        rows = (count + step - 1) / step;                                                                                    \
        size = rows * width > tile + step ? rows * width : tile + step;                                                      \
        if (!(room = calloc((size_t)size, sizeof(T))))                                                                       \
            return 0;                                                                                                        \
        for (Py_ssize_t at = (count - 1) / tile * tile; at >= 0; at -= tile) { /* x may be out: the last tile first */       \
            Py_ssize_t before = at < step ? at : step, length = count - at < tile ? count - at : tile;                       \
            memcpy(room, x + at - before, (size_t)(before + length) * sizeof(T));                                            \
            NAME##_below(room, before + length, step);                                                                       \
            memcpy(out + at, room + before, (size_t)length * sizeof(T));                                                     \
        }                                                                                                                    \
        for (Py_ssize_t at = 0; at < step; at += width)                                                                      \
            NAME##_strip(out, count, step, at, width, room);                                                                 \
        free(room);                                                                                                          \
        return 1;                                                                                                            \
    }
BY_DISTANCE(add_f32, float, SUM, 1)
BY_DISTANCE(mul_f32, float, PRODUCT, 1)
BY_DISTANCE(add_f64, double, SUM, 1)
BY_DISTANCE(mul_f64, double, PRODUCT, 1)
BY_DISTANCE(add_c64, float, SUM, 2)
BY_DISTANCE(add_c128, double, SUM, 2)
BY_DISTANCE(mul_c64, c64, product_c64, 1)
BY_DISTANCE(mul_c128, c128, product_c128, 1)

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
