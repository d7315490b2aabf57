/* New arrays on the CPU: the usual calls of empty, zeros, ones, full, asarray and arange, and of what fills a new array by itself.

   As in replay.c, all else is left to Python, with nothing done: accelerators, other orders of elements, a recording, and what
   is not an exact number of Python. */

#include "replay.h"

#include <math.h>
#include <string.h>

enum { SIGNED, UNSIGNED, REAL, BOOL = 6, GIL_KEPT = 64 << 10 }; /* DLPack's codes; bytes */

/* Read a shape: 0 where Python is to look at it. */
static int is_read(PyObject *size, description *d)
{
    int is_tuple = PyTuple_CheckExact(size);
    Py_ssize_t axes = is_tuple ? PyTuple_Size(size) : size != Py_None;
    if (axes > MOST_AXES)
        return 0;
    d->axes = (int)axes;
    d->count = 1;
    for (int i = 0; i < d->axes; ++i) {
        PyObject *each = is_tuple ? PyTuple_GetItem(size, i) : size;
        if (!PyLong_CheckExact(each))
            return 0;
        d->extents[i] = PyLong_AsLongLong(each);
        if (d->extents[i] < 0 || PyErr_Occurred() || __builtin_mul_overflow(d->count, (Py_ssize_t)d->extents[i], &d->count))
            return 0;
    }
    d->strides = NULL;
    d->is_c = 1;
    d->is_swapped = d->is_pinned = 0;
    return !__builtin_mul_overflow(d->count, replay.elements[d->element].itemsize, &d->nbytes);
}

/* A new array of a shape, a dtype and a device as calls give them, NULL for what is omitted; `d` describes it, `on` its device. NULL, with or
   without an error set, where Python is to make it. */
PyObject *xf_make_new(PyObject *size, PyObject *dtype, PyObject *device, PyObject *backend, int is_zero, description *d,
                      const device_entry **on)
{
    const device_entry *e;
    PyObject *made;
    if (!replay.dtypes || !xf_follow() || (d->element = xf_element_of(dtype)) < 0 || !is_read(size, d) || !xf_may_replay())
        return NULL;
    e = device || backend ? xf_resolve_device(device, backend) : xf_default_device();
    if (!(*on = e) || e->kind != ON_CPU || !e->library->is_known)
        return NULL;
    if (e->library->type == replay.ndarray) {
        PyObject *kept = Py_NewRef(replay.elements[d->element].dtype); /* which the next call takes */
        made = (is_zero ? xf_numpy.zeros : xf_numpy.empty)(d->axes, d->extents, kept, 0);
        d->data = made ? ((const ndarray *)made)->data : NULL;
        return made;
    }
    if (d->nbytes <= 0 || d->nbytes > replay.host_most)
        return NULL;
    made = xf_make_on_cpu(e, d);
    if (made && xf_describe(e->library, made, d) && d->is_c && d->kind == ON_CPU) {
        if (is_zero)
            memset(d->data, 0, (size_t)d->nbytes);
        return made;
    }
    Py_XDECREF(made);
    return NULL;
}

/* Write a number to every element: 0 where Python is to do it, or to refuse. */
static int is_filled(PyObject *value, const description *d)
{
    const element *each = &replay.elements[d->element];
    PyThreadState *state;
    uint64_t bits = 0;
    int is_number = PyFloat_CheckExact(value) || PyLong_CheckExact(value);
    if (each->code == REAL && each->bits >= 32) {
        double number = is_number ? PyFloat_AsDouble(value) : 0;
        float rounded = (float)number;
        uint32_t half;
        if (!is_number || PyErr_Occurred() || (PyLong_CheckExact(value) && fabs(number) > 1 << 24))
            return 0;
        if (each->bits == 32 && !isfinite(rounded))
            return 0;
        memcpy(&half, &rounded, sizeof half);
        memcpy(&bits, &number, sizeof bits);
        bits = each->bits == 32 ? half : bits;
    } else if (each->code <= UNSIGNED && PyLong_CheckExact(value)) {
        int width = each->bits - (each->code == SIGNED);
        long long number = PyLong_AsLongLong(value);
        if (PyErr_Occurred() || (each->code == UNSIGNED && number < 0))
            return 0;
        if (width < 63 && (number >= 1LL << width || number < -(1LL << width)))
            return 0;
        bits = (uint64_t)number;
    } else if (each->code == BOOL && PyBool_Check(value)) {
        bits = value == Py_True;
    } else {
        return 0;
    }
    state = d->nbytes > GIL_KEPT ? PyEval_SaveThread() : NULL;
#define FILL(T)                                          \
    for (Py_ssize_t i = 0; i < d->count; ++i)            \
        ((T *)(void *)d->data)[i] = (T)bits
    switch (each->itemsize) {
    case 1: FILL(uint8_t); break;
    case 2: FILL(uint16_t); break;
    case 4: FILL(uint32_t); break;
    default: FILL(uint64_t); break;
    }
    if (state)
        PyEval_RestoreThread(state);
    return 1;
}

enum { EMPTY, ZEROS, ONES, FULL, ASARRAY, ARANGE, KINDS };
static PyObject *general[KINDS];

typedef struct {
    PyObject *dtype, *device, *backend; /* NULL: not given; the last two also for None */
} options;

/* Read the arguments by keyword of a usual call, and the dtype at its place: 0 where there are others. */
static int is_usual_call(PyObject *const *given, Py_ssize_t count, PyObject *names, Py_ssize_t before, options *o)
{
    Py_ssize_t length = names ? PyTuple_Size(names) : 0;
    *o = (options){count > before ? given[before] : NULL, NULL, NULL};
    for (Py_ssize_t i = 0; i < length; ++i) {
        PyObject *name = PyTuple_GetItem(names, i), *each = given[count + i];
        if (name == replay.names.dtype && !o->dtype)
            o->dtype = each;
        else if (name == replay.names.device)
            o->device = each == Py_None ? NULL : each;
        else if (name == replay.names.backend)
            o->backend = each == Py_None ? NULL : each;
        else
            return 0;
    }
    return count <= before + 1;
}

/* The array that has been made on a device, whose library is told that the program gets it; NULL with an error, which comes once, as
   a warning does. Where there is none, what the general function makes. */
static PyObject *hand_out(PyObject *made, const device_entry *e, int kind, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    if (!made)
        return xf_call_general(general[kind], given, count, names);
    if (e->hand_out && !is_done(PyObject_CallNoArgs(e->hand_out)))
        Py_CLEAR(made);
    return made;
}

static PyObject *create(int kind, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    Py_ssize_t before = kind == FULL ? 2 : 1; /* arguments before the dtype */
    PyObject *made = NULL, *value = NULL, *dtype;
    const device_entry *e = NULL;
    options o;
    description d;
    int is_usual = is_usual_call(given, count, names, before, &o) && count >= before;
    dtype = o.dtype;
    if (is_usual && kind == FULL)
        value = given[1];
    if (!dtype || (dtype == Py_None && kind != EMPTY))
        dtype = !value || PyFloat_CheckExact(value) ? replay.float64 : PyBool_Check(value) ? replay.bool_ : replay.int64;
    if (is_usual && given[0] != Py_None)
        made = xf_make_new(given[0], dtype, o.device, o.backend, kind == ZEROS, &d, &e);
    if (made && kind == ONES)
        value = replay.elements[d.element].code == BOOL ? Py_True : replay.one;
    if (made && value && !is_filled(value, &d))
        Py_CLEAR(made);
    return hand_out(made, e, kind, given, count, names);
}

/* Lists of Python's own numbers, in lists of equal length: their shape, and which kinds there are. */
enum { HAS_FLOATS = 1, HAS_INTEGERS = 2, HAS_BOOLS = 4 };
#define MOST_EXACT (1LL << 53) /* between which doubles hold every integer */
typedef struct {
    int axes, kinds;
    Py_ssize_t extents[MOST_AXES];
} list_form;

static int kind_of(PyObject *x)
{
    return PyFloat_CheckExact(x) ? HAS_FLOATS : PyLong_CheckExact(x) ? HAS_INTEGERS : PyBool_Check(x) ? HAS_BOOLS : 0;
}

/* Note the kinds of what lies below an axis: 0 where that is not of the form. */
static int is_of_form(PyObject *x, list_form *f, int axis)
{
    int kind = 0;
    if (axis == f->axes) {
        f->kinds |= kind = kind_of(x);
        return kind;
    }
    if (!PyList_CheckExact(x) || PyList_Size(x) != f->extents[axis])
        return 0;
    for (Py_ssize_t i = 0; i < f->extents[axis]; ++i)
        if (!is_of_form(PyList_GetItem(x, i), f, axis + 1))
            return 0;
    return 1;
}

/* Write numbers as they are read: what follows them, or NULL where Python is to convert them. */
static char *write_numbers(PyObject *x, const list_form *f, int axis, const element *each, char *to)
{
    if (axis < f->axes) {
        for (Py_ssize_t i = 0; to && i < f->extents[axis]; ++i)
            to = write_numbers(PyList_GetItem(x, i), f, axis + 1, each, to);
        return to;
    }
    if (each->code == BOOL) {
        *to = x == Py_True;
    } else if (PyFloat_CheckExact(x)) {
        double number = PyFloat_AsDouble(x);
        float rounded = (float)number;
        if (each->code != REAL || (each->bits == 32 && isinf(rounded) && !isinf(number)))
            return NULL;
        memcpy(to, each->bits == 32 ? (const void *)&rounded : &number, (size_t)each->itemsize);
    } else {
        int overflow;
        long long number = PyLong_AsLongLongAndOverflow(x, &overflow);
        double wide = (double)number;
        float rounded = (float)wide;
        if (overflow || (each->code == REAL && (number > MOST_EXACT || number < -MOST_EXACT)))
            return NULL;
        memcpy(to, each->code == SIGNED ? (const void *)&number : each->bits == 32 ? (const void *)&rounded : &wide, (size_t)each->itemsize);
    }
    return to + each->itemsize;
}

/* A new array of a number, or of lists of them; NULL, with or without an error set, where Python is to make it. */
static PyObject *make_of_numbers(PyObject *x, const options *o, const device_entry **e)
{
    list_form f = {0, 0, {0}}, again;
    PyObject *size, *made, *part = x, *dtype;
    const element *each;
    description d;
    for (; PyList_CheckExact(part); part = PyList_GetItem(part, 0))
        if (f.axes == MOST_AXES || !(f.extents[f.axes++] = PyList_Size(part)))
            return NULL;
    if (!is_of_form(x, &f, 0) || (f.kinds & HAS_BOOLS && f.kinds != HAS_BOOLS))
        return NULL;
    dtype = f.kinds & HAS_FLOATS ? replay.float64 : f.kinds == HAS_BOOLS ? replay.bool_ : replay.int64;
    if (!(size = PyTuple_New(f.axes)))
        return NULL;
    for (int a = 0; a < f.axes; ++a)
        PyTuple_SetItem(size, a, PyLong_FromSsize_t(f.extents[a]));
    made = xf_make_new(size, o->dtype && o->dtype != Py_None ? o->dtype : dtype, o->device, o->backend, 0, &d, e);
    Py_DECREF(size);
    if (!made)
        return NULL;
    each = &replay.elements[d.element];
    again = f; /* for the library may have run another thread */
    again.kinds = 0;
    if ((f.kinds == HAS_BOOLS ? each->code == BOOL : (each->code == REAL && each->bits >= 32) || (each->code == SIGNED && each->bits == 64)) &&
        is_of_form(x, &again, 0) && again.kinds == f.kinds && write_numbers(x, &f, 0, each, d.data))
        return made;
    Py_DECREF(made);
    return NULL;
}

static PyObject *asarray(PyObject *self, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    PyObject *found = NULL;
    const device_entry *e = NULL;
    options o;
    (void)self;
    if (is_usual_call(given, count, names, 1, &o) && count) {
        if (PyList_CheckExact(given[0]) || kind_of(given[0])) {
            found = make_of_numbers(given[0], &o, &e);
            return hand_out(found, e, ASARRAY, given, count, names);
        }
        found = xf_as_array(given[0], o.dtype == Py_None ? NULL : o.dtype, o.device, o.backend);
    }
    return found ? found : xf_call_general(general[ASARRAY], given, count, names);
}

/* Write first, first + step, ... as int64, of a range of ints; a new array, or NULL where Python is to do it. */
static PyObject *make_range(PyObject *const *given, Py_ssize_t count, const options *o, description *d, const device_entry **e)
{
    int64_t numbers[3] = {0, 0, 1}, distance, length;
    PyObject *size, *made;
    int is_from_0 = count == 1 || given[1] == Py_None;
    for (Py_ssize_t i = 0; i < count && i < 3; ++i) {
        if (i == 1 && is_from_0)
            continue;
        if (!PyLong_CheckExact(given[i]))
            return NULL;
        numbers[is_from_0 && !i ? 1 : i] = PyLong_AsLongLong(given[i]);
        if (PyErr_Occurred())
            return NULL;
    }
    if (!numbers[2] || __builtin_sub_overflow(numbers[1], numbers[0], &distance) || numbers[2] < -INT32_MAX)
        return NULL;
    length = distance / numbers[2] + (distance % numbers[2] && (distance < 0) == (numbers[2] < 0));
    size = PyLong_FromLongLong(length > 0 ? length : 0);
    made = size ? xf_make_new(size, replay.int64, o->device, o->backend, 0, d, e) : NULL;
    Py_XDECREF(size);
    for (int64_t i = 0; made && i < length; ++i)
        ((int64_t *)(void *)d->data)[i] = numbers[0] + i * numbers[2];
    return made;
}

static PyObject *arange(PyObject *self, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    PyObject *made = NULL;
    const device_entry *e = NULL;
    description d;
    options o;
    (void)self;
    if (is_usual_call(given, count, names, 3, &o) && count && (!o.dtype || o.dtype == Py_None || o.dtype == replay.int64))
        made = make_range(given, count, &o, &d, &e);
    return hand_out(made, e, ARANGE, given, count, names);
}

#define CREATION(NAME, KIND)                                                                                    \
    static PyObject *NAME(PyObject *self, PyObject *const *given, Py_ssize_t count, PyObject *names)            \
    {                                                                                                           \
        (void)self; /* NULL: an object would have to be pickled with the function */                            \
        return create(KIND, given, count, names);                                                               \
    }
CREATION(empty, EMPTY)
CREATION(zeros, ZEROS)
CREATION(ones, ONES)
CREATION(full, FULL)

/* ((the general functions, in the order of KINDS), name of their module, (documentation of each)) -> the same in C */
PyObject *xf_bind_creation(PyObject *module, PyObject *arguments)
{
#define METHOD(NAME) {#NAME, (PyCFunction)(void (*)(void))NAME, METH_FASTCALL | METH_KEYWORDS, NULL}
    static PyMethodDef methods[KINDS] = {METHOD(empty), METHOD(zeros), METHOD(ones), METHOD(full), METHOD(asarray), METHOD(arange)};
    PyObject *functions, *docs, *name, *made = PyTuple_New(KINDS);
    (void)module;
    if (!made || !PyArg_ParseTuple(arguments, "O!UO!", &PyTuple_Type, &functions, &name, &PyTuple_Type, &docs)) {
        Py_XDECREF(made);
        return NULL;
    }
    Py_INCREF(arguments); /* which holds all of them */
    for (int i = 0; i < KINDS; ++i) {
        PyObject *function;
        methods[i].ml_doc = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(docs, i), NULL);
        general[i] = PyTuple_GetItem(functions, i);
        function = methods[i].ml_doc && general[i] ? PyCFunction_NewEx(&methods[i], NULL, name) : NULL;
        if (!function || PyTuple_SetItem(made, i, function)) {
            Py_DECREF(made);
            return NULL;
        }
    }
    return made;
}
