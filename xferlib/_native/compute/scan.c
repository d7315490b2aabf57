/* Running results of an operation over rows: of the scans of xferlib/kernels/scan.py, and of the namespaces of libraries that have
   none. Where an operation gives the same bits in any order, one pass does it; sums and products of floats have the order of
   chunks.h. */

#include "chunks.h"
#include "compute.h"

#include <string.h>

/* (row, running results, count, where segments begin or NULL) */
typedef void (*scan_row)(const char *, char *, long long, const char *);

/* --- operations that give the same bits in any order: one pass */

#define IN_ONE_PASS(NAME, T, WIDE, ENTER, COMBINE, LEAVE)                                         \
    static void NAME(const char *row, char *result, long long count, const char *begins)          \
    {                                                                                             \
        const T *x = (const T *)(const void *)row;                                                \
        T *out = (T *)(void *)result;                                                             \
        WIDE a = 0;                                                                               \
        for (long long i = 0; i < count; ++i) {                                                   \
            const WIDE b = ENTER(x[i]);                                                           \
            a = i && !(begins && begins[i]) ? (WIDE)(COMBINE) : b;                                \
            out[i] = (T)LEAVE(a);                                                                 \
        }                                                                                         \
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

/* --- sums and products of floats: by chunks */

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

#define BY_ORDER(NAME, T, COMBINE)                                                                  \
    BY_CHUNKS(NAME##_of, T, T, AS_IT_IS, COMBINE, AS_IT_IS)                                         \
    static void NAME(const char *x, char *out, long long count, const char *begins)                 \
    {                                                                                               \
        NAME##_of((const T *)(const void *)x, (T *)(void *)out, count, begins);                     \
    }
BY_ORDER(add_f32, float, SUM)
BY_ORDER(mul_f32, float, PRODUCT)
BY_ORDER(add_f64, double, SUM)
BY_ORDER(mul_f64, double, PRODUCT)
BY_ORDER(add_c64, c64, sum_c64)
BY_ORDER(mul_c64, c64, product_c64)
BY_ORDER(add_c128, c128, sum_c128)
BY_ORDER(mul_c128, c128, product_c128)

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
#define OF_ROUNDED(DTYPE, TYPE, SIZE) {"add", DTYPE, add_##TYPE, SIZE}, {"mul", DTYPE, mul_##TYPE, SIZE}

static const known table[] = {
    {"add max fmax or greater", "b1", or_8, 1}, {"mul min fmin and less", "b1", and_8, 1}, {"xor", "b1", xor_8, 1},
    OF_INTEGERS("1", 8), OF_INTEGERS("2", 16), OF_INTEGERS("4", 32), OF_INTEGERS("8", 64),
    OF_FLOATS("2", 16), OF_FLOATS("4", 32), OF_FLOATS("8", 64),
    OF_ROUNDED("f4", f32, 4), OF_ROUNDED("f8", f64, 8), OF_ROUNDED("c8", c64, 8), OF_ROUNDED("c16", c128, 16),
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

/* Whether two rows are of the dtype and one row or apart. */
static int are_fit(PyObject *x, PyObject *out, PyObject *dtype, Py_ssize_t distance, Py_ssize_t nbytes)
{
    return ((ndarray *)x)->dtype == dtype && ((ndarray *)out)->dtype == dtype && (!distance || distance >= nbytes || -distance >= nbytes);
}

static void scan_rows(const known *k, const char *x, char *out, Py_ssize_t count, Py_ssize_t length, const char *begins)
{
    for (Py_ssize_t at = 0; at < count; at += length)
        k->run(x + at * k->itemsize, out + at * k->itemsize, length < count - at ? length : count - at, begins);
}

/* (x, out, flags, or the length of rows): the running results of one row, anew at each flag; or of rows that lie one behind the other.
   `out` is `x` itself or apart from it. True; False, a no-op, where the arrays are not in C order, of one axis and one length. The
   caller vouches for the dtypes. With None, which is one row, it need not: False also for other dtypes, and for arrays that overlap. */
static PyObject *run_scan(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    const known *k = PyCapsule_GetPointer(self, NULL);
    const char *x, *begins = NULL;
    char *out;
    Py_ssize_t elements = 0, written = 0, flags = 0, length;
    if (!k || count != 3)
        return PyErr_Format(PyExc_TypeError, "a scan takes three arguments");
    x = row_of(given[0], &elements, 0);
    out = row_of(given[1], &written, 1);
    if (!x || !out || written != elements)
        return Py_NewRef(Py_False);
    length = elements ? elements : 1;
    if (given[2] == Py_None) {
        if (!are_fit(given[0], given[1], PyCapsule_GetContext(self), out - x, elements * k->itemsize))
            return Py_NewRef(Py_False);
    } else if (is_of(given[2], replay.ndarray)) {
        if (!(begins = row_of(given[2], &flags, 0)) || flags != elements)
            return Py_NewRef(Py_False);
    } else if ((length = PyLong_AsSsize_t(given[2])) < 1)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "rows have 1 element or more");
    if (elements < LONG_COUNT)
        scan_rows(k, x, out, elements, length, begins);
    else
        WITHOUT_GIL(scan_rows(k, x, out, elements, length, begins));
    return Py_NewRef(Py_True);
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
