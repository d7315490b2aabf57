/* Calls of compiled kernels on NumPy arrays of one shape, in C order: any shape, without a step in Python.

   A kernel on sixteen elements takes ten nanoseconds, and its call some microseconds if Python compares the arrays with those
   of the last call, looks for shared memory and collects addresses. Here all of that is done at once, from the fields of the
   arrays. Whatever is not plain gives NotImplemented with nothing done: Python then checks the call.

   xferlib/kernels/native_source.py has the other side of `run`. */

#include "../replay/replay.h"

#include <string.h>

enum { MOST_PARAMETERS = 32, MOST_SITES = 16, HEAD = 4 };
#define MOST_EXACT (1ll << 53)

typedef int (*run_function)(void *, const void *, char *const *, const long long *, long long, long long, long long *, char *);

typedef struct {
    PyObject *kind; /* the dtype of an array, or the type of a number */
    int code, is_written, itemsize; /* code: 'A' for an array, else as in launch.c */
} parameter;

typedef struct {
    run_function run;
    void *function;
    const void *form;
    const long long *settings; /* whether compiled kernels are wanted, and the most turns of a loop */
    PyObject *kept;            /* holds all objects here */
    PyObject *failed;          /* called with the numbers of the sites: raises */
    long long most, most_with_lock; /* elements: of a call, and while the GIL is held */
    int count, outputs, sites;
    parameter parameters[MOST_PARAMETERS];
} host_call;

static PyObject *ndarray_type; /* as long as the process, as NumPy is */
static PyObject *(*new_array)(PyObject *, PyObject *, int, const Py_ssize_t *, const Py_ssize_t *, void *, int, PyObject *);

static void free_host(PyObject *capsule)
{
    host_call *h = PyCapsule_GetPointer(capsule, NULL);
    Py_XDECREF(h->kept);
    PyMem_Free(h);
}

/* Whether an argument is an array as the parameter says, of the shape of the first one. */
static int is_plain_array(const parameter *own, PyObject *value, const ndarray *first)
{
    const ndarray *array = (const ndarray *)value;
    int flags = C_ORDER | ALIGNED | (own->is_written ? WRITABLE : 0);
    return (PyObject *)Py_TYPE(value) == ndarray_type && array->dtype == own->kind && (array->flags & flags) == flags &&
           (!first || (array->axes == first->axes &&
                       !memcmp(array->extents, first->extents, (size_t)array->axes * sizeof *array->extents)));
}

/* A number as a parameter says: 1, 0 where Python has to convert it, -1 with an error set. */
static int put(const parameter *own, PyObject *value, char *to)
{
    if ((PyObject *)Py_TYPE(value) != own->kind)
        return 0;
    if (PyLong_CheckExact(value) && (own->code == 'f' || own->code == 'd')) {
        int overflow;
        long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
        if (overflow || number > MOST_EXACT || number < -MOST_EXACT) /* else it would be rounded twice */
            return 0;
    }
    return xf_put_number(to, value, (char)own->code);
}

/* Whether no output shares memory with another array, unless it is the whole of an input. */
static int are_apart(const host_call *h, char *const *p, long long elements)
{
    for (int i = 0; i < h->count; ++i) {
        const parameter *one = &h->parameters[i];
        if (!one->is_written)
            continue;
        for (int j = 0; j < h->count; ++j) {
            const parameter *two = &h->parameters[j];
            if (j == i || two->code != 'A' || p[i] >= p[j] + elements * two->itemsize || p[j] >= p[i] + elements * one->itemsize)
                continue;
            if (two->is_written || p[i] != p[j] || one->itemsize != two->itemsize)
                return 0;
        }
    }
    return 1;
}

static PyObject *raise(const host_call *h, const long long *report)
{
    PyObject *numbers = PyTuple_New(3 * h->sites), *answer;
    for (int i = 0; numbers && i < 3 * h->sites; ++i)
        PyTuple_SetItem(numbers, i, PyLong_FromLongLong(report[i]));
    answer = numbers ? PyObject_CallFunctionObjArgs(h->failed, numbers, NULL) : NULL;
    Py_XDECREF(numbers);
    Py_XDECREF(answer);
    return NULL;
}

/* Compute: 0, or -1 with an error set. */
static int compute(const host_call *h, char *const *p, long long elements)
{
    long long report[3 * MOST_SITES] = {0}, geometry[HEAD + 1 + MOST_PARAMETERS] = {1, elements, h->settings[1], 0, elements};
    int found, axis = HEAD + 1;
    for (int i = 0; i < h->count; ++i)
        if (h->parameters[i].code == 'A')
            geometry[axis++] = h->parameters[i].itemsize;
    if (elements > h->most_with_lock)
        WITHOUT_GIL(found = h->run(h->function, h->form, p, geometry, 0, elements, report, NULL));
    else
        found = h->run(h->function, h->form, p, geometry, 0, elements, report, NULL);
    if (found)
        raise(h, report);
    return found ? -1 : 0;
}

/* The arguments of a call, its outputs behind them or in `out`: how many, or -1 for too many. */
static int collect(const host_call *h, PyObject *args, PyObject *out, PyObject **values)
{
    Py_ssize_t count = PyTuple_Size(args), more = out == Py_None ? 0 : PyTuple_CheckExact(out) ? PyTuple_Size(out) : 1;
    if (count + more > h->count)
        return -1;
    for (Py_ssize_t i = 0; i < count; ++i)
        values[i] = PyTuple_GetItem(args, i);
    for (Py_ssize_t i = 0; i < more; ++i)
        values[count + i] = PyTuple_CheckExact(out) ? PyTuple_GetItem(out, i) : out;
    return (int)(count + more);
}

/* A new array for each output: whether there is memory for them. */
static int make_outputs(const host_call *h, const ndarray *like, PyObject **values)
{
    for (int i = h->count - h->outputs; i < h->count; ++i) {
        values[i] = new_array(ndarray_type, Py_NewRef(h->parameters[i].kind), like->axes,
                                      like->extents, NULL, NULL, 0, NULL);
        if (!values[i]) {
            while (--i >= h->count - h->outputs)
                Py_DECREF(values[i]);
            return 0;
        }
    }
    return 1;
}

static PyObject *result_of(const host_call *h, PyObject **values)
{
    if (!h->outputs)
        Py_RETURN_NONE;
    if (h->outputs == 1)
        return Py_NewRef(values[h->count - 1]);
    return xf_pack(&values[h->count - h->outputs], h->outputs);
}

/* (arguments, out) -> the result, or NotImplemented with nothing done. */
static PyObject *run(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    const host_call *h = PyCapsule_GetPointer(self, NULL);
    PyObject *values[MOST_PARAMETERS], *result = NULL;
    char *p[MOST_PARAMETERS];
    _Alignas(16) char numbers[MOST_PARAMETERS][16];
    const ndarray *first = NULL;
    long long elements = 1;
    int known, is_new;
    if (!h)
        return NULL;
    if (count != 2 || !PyTuple_CheckExact(given[0]))
        return PyErr_Format(PyExc_TypeError, "a call takes its arguments and out");
    known = collect(h, given[0], given[1], values);
    is_new = known != h->count;
    if (!h->settings[0] || (is_new && known != h->count - h->outputs))
        Py_RETURN_NOTIMPLEMENTED;
    for (int i = 0; i < known; ++i) {
        const parameter *own = &h->parameters[i];
        if (own->code != 'A') {
            int is_put = put(own, values[i], numbers[i]);
            if (is_put < 0)
                return NULL;
            if (!is_put)
                Py_RETURN_NOTIMPLEMENTED;
            p[i] = numbers[i];
            continue;
        }
        if (!is_plain_array(own, values[i], first))
            Py_RETURN_NOTIMPLEMENTED;
        p[i] = ((const ndarray *)values[i])->data;
        first = first ? first : (const ndarray *)values[i];
    }
    for (int a = 0; first && a < first->axes; ++a)
        elements *= first->extents[a];
    if (!first || elements > h->most)
        Py_RETURN_NOTIMPLEMENTED;
    if (is_new) {
        if (!make_outputs(h, first, values))
            return NULL;
        for (int i = known; i < h->count; ++i)
            p[i] = ((const ndarray *)values[i])->data;
    }
    if (!elements || are_apart(h, p, elements)) {
        if (!elements || !compute(h, p, elements))
            result = result_of(h, values);
    } else {
        result = Py_NewRef(Py_NotImplemented);
    }
    for (int i = known; i < h->count; ++i)
        Py_DECREF(values[i]);
    return result;
}

static PyMethodDef one_call = {"call", (PyCFunction)(void (*)(void))run, METH_FASTCALL, NULL};

/* (run, function, form, address of the settings, what is called after a failure, most elements, most elements with the GIL,
   number of outputs, of sites, parameters, NumPy's type and its C API, what else is held) -> call; a parameter is (dtype or
   type, code, is written, itemsize). None for more parameters or sites than C takes. */
PyObject *xf_bind_host(PyObject *module, PyObject *arguments)
{
    unsigned long long address, function, form, settings;
    PyObject *parameters, *held, *numpy, *capsule, *made = NULL;
    void **table;
    host_call *h;
    (void)module;
    h = PyMem_Calloc(1, sizeof *h);
    if (!h)
        return PyErr_NoMemory();
    capsule = PyCapsule_New(h, NULL, free_host);
    if (!capsule) {
        PyMem_Free(h);
        return NULL;
    }
    h->kept = Py_NewRef(arguments);
    if (PyArg_ParseTuple(arguments, "KKKKOLLiiO!OOO", &address, &function, &form, &settings, &h->failed, &h->most,
                         &h->most_with_lock, &h->outputs, &h->sites, &PyTuple_Type, &parameters, &ndarray_type, &numpy, &held) &&
        (table = xf_numpy_functions(numpy))) {
        memcpy(&new_array, &table[NEW_FROM_DTYPE], sizeof(void *));
        h->run = (run_function)(uintptr_t)address;
        h->function = (void *)(uintptr_t)function;
        h->form = (const void *)(uintptr_t)form;
        h->settings = (const long long *)(uintptr_t)settings;
        h->count = (int)PyTuple_Size(parameters);
        if (h->count > MOST_PARAMETERS || h->sites > MOST_SITES || h->outputs > h->count) {
            made = Py_NewRef(Py_None);
        } else {
            for (int i = 0; i < h->count; ++i) {
                parameter *own = &h->parameters[i];
                if (!PyArg_ParseTuple(PyTuple_GetItem(parameters, i), "OCii", &own->kind, &own->code, &own->is_written, &own->itemsize))
                    break;
            }
            made = PyErr_Occurred() ? NULL : PyCFunction_NewEx(&one_call, capsule, NULL);
        }
    }
    Py_DECREF(capsule);
    return made;
}
