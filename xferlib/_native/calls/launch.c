/* A launch that was checked once, repeated with other addresses and numbers.

   In Python the repetition takes as long as everything else of a launch: types are compared, values are put into a list,
   packed under a lock, and given to the driver. Here the arguments are written into a block on the caller's stack, so that
   threads need no lock, and the driver copies them from there during the launch.

   What is checked at each call, as in Python: the exact types of the arguments, what the owner of the arrays compares
   (shapes, strides, dtypes, device), the alignment of addresses, the range of numbers. Whatever does not fit gives NOT_FIT
   with nothing done, and Python checks the call anew and raises. */

#include "calls.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

typedef uint64_t word;

enum { MOST_PARAMETERS = 64, MOST_BLOCK = 1024, MOST_CONFIG = 128, NOT_FIT = -1 };

typedef struct {
    PyObject *type;  /* of the argument */
    PyObject *label; /* of an array that is written, for the owner's books; NULL: none */
    word mask;       /* the bits of an array's address that are 0 */
    int offset;      /* in the block */
    char code;       /* 'A': an array; else as in Python's struct */
} field;

typedef struct {
    int (*launch)(const void *, void *, void **, void **); /* configuration, kernel, arguments, more */
    void *kernel;
    PyObject *matches; /* called with the arrays: whether they are as the checked ones */
    PyObject *names;   /* tuple: the attributes that lead from an array to its address */
    PyObject *note;    /* called with a written array and its label; NULL: none */
    int is_method;     /* the last attribute is called */
    int count, arrays, nbytes, config_nbytes, stream_at;
    char config[MOST_CONFIG];
    field fields[MOST_PARAMETERS];
} launcher;

static void freed(PyObject *capsule)
{
    launcher *l = PyCapsule_GetPointer(capsule, NULL);
    Py_XDECREF(l->matches);
    Py_XDECREF(l->names);
    Py_XDECREF(l->note);
    for (int i = 0; i < l->count; ++i) {
        Py_XDECREF(l->fields[i].type);
        Py_XDECREF(l->fields[i].label);
    }
    PyMem_Free(l);
}

/* 1 with the address of an array's memory in *found, or -1 with an error set. */
static int address_of(const launcher *l, PyObject *array, word *found)
{
    PyObject *at = array, *next;
    Py_ssize_t count = PyTuple_Size(l->names);
    Py_INCREF(at);
    for (Py_ssize_t i = 0; i < count; ++i) {
        next = PyObject_GetAttr(at, PyTuple_GetItem(l->names, i));
        Py_DECREF(at);
        if (!next)
            return -1;
        at = next;
    }
    if (l->is_method) {
        next = PyObject_CallNoArgs(at);
        Py_DECREF(at);
        if (!next)
            return -1;
        at = next;
    }
    if (at == Py_None) { /* memory of an empty array */
        *found = 0;
    } else {
        if (!PyLong_Check(at)) {
            next = PyNumber_Long(at);
            Py_DECREF(at);
            if (!next)
                return -1;
            at = next;
        }
        *found = PyLong_AsUnsignedLongLong(at);
    }
    Py_DECREF(at);
    return *found == (word)-1 && PyErr_Occurred() ? -1 : 1;
}

/* Write a signed or an unsigned integer of some bytes; 0 where it is out of range, -1 with an error set. */
static int put_integer(char *to, PyObject *value, char code)
{
    static const char codes[] = "bhiqBHIQ";
    const char *found = strchr(codes, code);
    int which = (int)(found - codes), is_signed = which < 4;
    size_t nbytes = (size_t)1 << (which & 3);
    PyObject *plain = PyNumber_Index(value); /* a NumPy number too */
    word bits;
    int fits = 1;
    if (!plain)
        return -1;
    if (is_signed) {
        int overflow = 0;
        long long number = PyLong_AsLongLongAndOverflow(plain, &overflow);
        long long most = nbytes == 8 ? INT64_MAX : ((long long)1 << (8 * nbytes - 1)) - 1;
        fits = !overflow && number <= most && number >= -most - 1;
        bits = (word)number;
    } else {
        bits = PyLong_AsUnsignedLongLong(plain);
        if (bits == (word)-1 && PyErr_Occurred()) {
            PyErr_Clear(); /* negative, or too large */
            fits = 0;
        } else {
            fits = nbytes == 8 || bits >> (8 * nbytes) == 0;
        }
    }
    Py_DECREF(plain);
    memcpy(to, &bits, nbytes); /* the first bytes are the lowest on every machine with a GPU */
    return fits;
}

/* 1, or 0 where the number is out of range, or -1 with an error set. */
static int put_number(char *to, PyObject *value, char code)
{
    double number;
    if (code == '?') {
        int truth = PyObject_IsTrue(value);
        *to = (char)(truth > 0);
        return truth < 0 ? -1 : 1;
    }
    if (code != 'f' && code != 'd')
        return put_integer(to, value, code);
    number = PyFloat_AsDouble(value);
    if (number == -1.0 && PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_OverflowError))
            return -1;
        PyErr_Clear();
        return 0;
    }
    if (code == 'd') {
        memcpy(to, &number, sizeof number);
    } else {
        float narrow = (float)number;
        if (isinf(narrow) && !isinf(number))
            return 0;
        memcpy(to, &narrow, sizeof narrow);
    }
    return 1;
}

/* Whether the owner finds the arrays to be as the checked ones; -1 with an error set. */
static int matched(const launcher *l, PyObject *const *arrays)
{
    PyObject *given = PyTuple_New(l->arrays), *answer;
    int found;
    if (!given)
        return -1;
    for (int i = 0; i < l->arrays; ++i) {
        Py_INCREF(arrays[i]);
        PyTuple_SetItem(given, i, arrays[i]);
    }
    answer = PyObject_CallObject(l->matches, given);
    Py_DECREF(given);
    if (!answer)
        return -1;
    found = PyObject_IsTrue(answer);
    Py_DECREF(answer);
    return found;
}

static int noted(const launcher *l, PyObject *const *values)
{
    for (int i = 0; i < l->count; ++i)
        if (l->fields[i].label) {
            PyObject *result = PyObject_CallFunctionObjArgs(l->note, values[i], l->fields[i].label, NULL);
            Py_XDECREF(result);
            if (!result)
                return -1;
        }
    return 1;
}

/* 1 with the arguments in `block`, 0 where they do not fit, or -1 with an error set. */
static int filled(const launcher *l, PyObject *const *values, char *block)
{
    PyObject *arrays[MOST_PARAMETERS];
    int found, count = 0;
    for (int i = 0; i < l->count; ++i) {
        if ((PyObject *)Py_TYPE(values[i]) != l->fields[i].type)
            return 0;
        if (l->fields[i].code == 'A')
            arrays[count++] = values[i];
    }
    if ((found = matched(l, arrays)) <= 0)
        return found;
    for (int i = 0; i < l->count; ++i) {
        const field *f = &l->fields[i];
        if (f->code == 'A') {
            word address = 0;
            if (address_of(l, values[i], &address) < 0)
                return -1;
            if (address & f->mask)
                return 0;
            memcpy(block + f->offset, &address, sizeof address);
        } else if ((found = put_number(block + f->offset, values[i], f->code)) <= 0) {
            return found;
        }
    }
    return l->note ? noted(l, values) : 1;
}

/* (arguments, handle of a stream) -> the driver's result, or NOT_FIT with nothing done. */
static PyObject *run(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    const launcher *l = PyCapsule_GetPointer(self, NULL);
    _Alignas(16) char block[MOST_BLOCK];
    _Alignas(16) char config[MOST_CONFIG];
    void *parameters[MOST_PARAMETERS];
    PyObject *values[MOST_PARAMETERS];
    int is_tuple, found, result;
    word stream;
    if (!l)
        return NULL;
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "a launch takes 2 arguments, not %zd", count);
    is_tuple = PyTuple_CheckExact(given[0]);
    if ((!is_tuple && !PyList_CheckExact(given[0])) || (is_tuple ? PyTuple_Size : PyList_Size)(given[0]) != l->count)
        return PyLong_FromLong(NOT_FIT);
    stream = PyLong_AsUnsignedLongLong(given[1]);
    if (stream == (word)-1 && PyErr_Occurred())
        return NULL;
    for (int i = 0; i < l->count; ++i) { /* what is called below may change a list */
        values[i] = (is_tuple ? PyTuple_GetItem : PyList_GetItem)(given[0], i);
        Py_INCREF(values[i]);
    }
    found = filled(l, values, block);
    if (found > 0) {
        for (int i = 0; i < l->count; ++i)
            parameters[i] = block + l->fields[i].offset;
        memcpy(config, l->config, (size_t)l->config_nbytes);
        memcpy(config + l->stream_at, &stream, sizeof stream);
        Py_BEGIN_ALLOW_THREADS
        result = l->launch(config, l->kernel, parameters, NULL);
        Py_END_ALLOW_THREADS
    } else {
        result = NOT_FIT;
    }
    for (int i = 0; i < l->count; ++i)
        Py_DECREF(values[i]);
    return found < 0 ? NULL : PyLong_FromLong(result);
}

static PyMethodDef one_launch = {"launch", (PyCFunction)(void (*)(void))run, METH_FASTCALL, NULL};

/* Take the fields over; 0, or -1 with an error set. */
static int take_fields(launcher *l, PyObject *given)
{
    Py_ssize_t count = PyTuple_Size(given);
    if (count < 0 || count > MOST_PARAMETERS) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_ValueError, "a launch has at most %d parameters, not %zd", MOST_PARAMETERS, count);
        return -1;
    }
    for (; l->count < count; ++l->count) {
        field *f = &l->fields[l->count];
        unsigned long long mask;
        PyObject *label;
        int code;
        if (!PyArg_ParseTuple(PyTuple_GetItem(given, l->count), "OCiKO", &f->type, &code, &f->offset, &mask, &label))
            return -1;
        if (!strchr("A?bhiqBHIQfd", code) || f->offset < 0 || f->offset > MOST_BLOCK - 8) {
            PyErr_Format(PyExc_ValueError, "a parameter of kind %c at %d", code, f->offset);
            return -1;
        }
        f->code = (char)code;
        f->mask = mask;
        f->label = label == Py_None ? NULL : label;
        Py_INCREF(f->type);
        Py_XINCREF(f->label);
        l->arrays += code == 'A';
    }
    return 0;
}

/* (address of the launch, kernel, configuration as bytes, offset of the stream in it, what compares the arrays, names of
   attributes, whether the last is a method, what notes writes or None, fields) -> run; a field is (type, kind, offset,
   mask, label or None). */
PyObject *xf_bind_launch(PyObject *module, PyObject *arguments)
{
    unsigned long long launch, kernel;
    const char *config;
    Py_ssize_t config_nbytes;
    PyObject *fields, *capsule, *made;
    launcher *l = PyMem_Calloc(1, sizeof *l);
    (void)module;
    if (!l)
        return PyErr_NoMemory();
    capsule = PyCapsule_New(l, NULL, freed);
    if (!capsule) {
        PyMem_Free(l);
        return NULL;
    }
    if (!PyArg_ParseTuple(arguments, "KKy#iOO!pOO!", &launch, &kernel, &config, &config_nbytes, &l->stream_at, &l->matches,
                          &PyTuple_Type, &l->names, &l->is_method, &l->note, &PyTuple_Type, &fields)) {
        l->matches = l->names = l->note = NULL;
        Py_DECREF(capsule);
        return NULL;
    }
    if (l->note == Py_None)
        l->note = NULL;
    Py_INCREF(l->matches);
    Py_INCREF(l->names);
    Py_XINCREF(l->note);
    l->launch = (int (*)(const void *, void *, void **, void **))(uintptr_t)launch;
    l->kernel = (void *)(uintptr_t)kernel;
    l->config_nbytes = (int)config_nbytes;
    if (!launch || config_nbytes > MOST_CONFIG || l->stream_at < 0 || l->stream_at + 8 > config_nbytes)
        PyErr_Format(PyExc_ValueError, "a launch needs a function, and a stream within its %zd bytes", config_nbytes);
    else
        memcpy(l->config, config, (size_t)config_nbytes);
    made = PyErr_Occurred() || take_fields(l, fields) ? NULL : PyCFunction_NewEx(&one_launch, capsule, NULL);
    Py_DECREF(capsule);
    return made;
}
