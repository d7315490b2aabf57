/* Calls of a compiled reduction on NumPy arrays of one layout, without a step in Python.

   A sum of sixteen elements takes ten nanoseconds; to compare its arrays, allocate the result and collect addresses takes
   Python some microseconds. Whatever is not as in the call that was prepared gives NotImplemented with nothing done.

   xferlib/kernels/native_reduction.py has the other side of `reduce`. */

#include "../replay/replay.h"

#include <string.h>

enum { MOST_ARRAYS = 8 };

typedef void (*reduce_function)(long long, long long, long long, long long, const long long *, char *const *, char *const *);

typedef struct {
    PyObject *dtype;
    const char *layout; /* extents, then strides */
    Py_ssize_t nbytes;  /* of these */
} operand;

typedef struct {
    reduce_function reduce;
    const long long *geometry, *settings; /* of the settings the first: whether compiled functions are wanted */
    PyObject *kept;                       /* holds all objects here */
    PyObject *ndarray_type, *dtypes;      /* NumPy's type; those of the outputs */
    PyObject *(*new_array)(PyObject *, PyObject *, int, const Py_ssize_t *, const Py_ssize_t *, void *, int, PyObject *);
    const Py_ssize_t *extents; /* of an output */
    Py_ssize_t extents_nbytes, strides_nbytes;
    const Py_ssize_t *strides; /* of an output; NULL: C order */
    long long rows, room_nbytes; /* of memory in which elements are brought into their order */
    int along, keeps_lock, accumulators, inputs, firsts, outputs;
    int sources[MOST_ARRAYS]; /* the inputs of which the `firsts` behind them take a first element */
    operand operands[MOST_ARRAYS];
} fold_call;

static void free_fold(PyObject *capsule)
{
    fold_call *f = PyCapsule_GetPointer(capsule, NULL);
    Py_XDECREF(f->kept);
    PyMem_Free(f);
}

static int is_as_prepared(const fold_call *f, const operand *own, PyObject *value)
{
    const ndarray *array = (const ndarray *)value;
    size_t half = (size_t)own->nbytes / 2;
    return (PyObject *)Py_TYPE(value) == f->ndarray_type && array->dtype == own->dtype &&
           (size_t)array->axes * sizeof *array->extents == half && !memcmp(array->extents, own->layout, half) &&
           !memcmp(array->strides, own->layout + half, half);
}

/* (arguments) -> the result, or NotImplemented with nothing done. */
static PyObject *fold(PyObject *self, PyObject *arguments)
{
    const fold_call *f = PyCapsule_GetPointer(self, NULL);
    PyObject *made[MOST_ARRAYS], *result = NULL;
    char *p[2 * MOST_ARRAYS], *into[MOST_ARRAYS + 1] = {NULL}, *room = NULL;
    int count = 0;
    if (!f)
        return NULL;
    if (!f->settings[0] || !PyTuple_CheckExact(arguments) || PyTuple_Size(arguments) != f->inputs)
        Py_RETURN_NOTIMPLEMENTED;
    for (int i = 0; i < f->inputs; ++i) {
        PyObject *value = PyTuple_GetItem(arguments, i);
        if (!is_as_prepared(f, &f->operands[i], value))
            Py_RETURN_NOTIMPLEMENTED;
        p[i] = ((const ndarray *)value)->data;
    }
    for (int i = 0; i < f->firsts; ++i)
        p[f->inputs + i] = p[f->sources[i]];
    for (; count < f->outputs; ++count) {
        PyObject *dtype = Py_NewRef(PyTuple_GetItem(f->dtypes, count));
        int rank = (int)(f->extents_nbytes / (Py_ssize_t)sizeof *f->extents);
        made[count] = f->new_array(f->ndarray_type, dtype, rank, f->extents, f->strides, NULL, 0, NULL);
        if (!made[count])
            goto done;
        p[f->inputs + f->firsts + count] = ((const ndarray *)made[count])->data;
    }
    if (f->room_nbytes) { /* behind the addresses of parts' memory, of which there is none */
        room = PyMem_Malloc((size_t)f->room_nbytes);
        if (!room) {
            PyErr_NoMemory();
            goto done;
        }
        into[f->accumulators] = room;
    }
    if (f->keeps_lock)
        f->reduce(0, f->rows, 0, f->along, f->geometry, p, into);
    else
        WITHOUT_GIL(f->reduce(0, f->rows, 0, f->along, f->geometry, p, into));
    result = count == 1 ? Py_NewRef(made[0]) : xf_pack(made, count);
done:
    PyMem_Free(room);
    while (count--)
        Py_DECREF(made[count]);
    return result;
}

static PyMethodDef one_fold = {"fold", fold, METH_O, NULL};

/* (reduce, address of the settings, geometry as bytes, rows, which way, whether the GIL is kept, accumulators, bytes of memory
   for elements in order, inputs, the numbers of those whose first elements follow, dtypes of the outputs, extents and
   strides of an output as bytes, of which the latter may be none, NumPy's type and its C API, what else is held) -> fold;
   an input is (dtype, extents and strides as bytes). */
PyObject *xf_bind_fold(PyObject *module, PyObject *arguments)
{
    unsigned long long address, settings;
    PyObject *inputs, *sources, *held, *numpy, *capsule, *made = NULL;
    const char *geometry, *extents, *strides;
    Py_ssize_t nbytes;
    void **table;
    fold_call *f = PyMem_Calloc(1, sizeof *f);
    (void)module;
    if (!f)
        return PyErr_NoMemory();
    capsule = PyCapsule_New(f, NULL, free_fold);
    if (!capsule) {
        PyMem_Free(f);
        return NULL;
    }
    f->kept = Py_NewRef(arguments);
    if (PyArg_ParseTuple(arguments, "KKy#LiiiLO!O!O!y#y#OOO", &address, &settings, &geometry, &nbytes, &f->rows, &f->along,
                         &f->keeps_lock, &f->accumulators, &f->room_nbytes, &PyTuple_Type, &inputs, &PyTuple_Type, &sources,
                         &PyTuple_Type, &f->dtypes, &extents, &f->extents_nbytes, &strides, &f->strides_nbytes,
                         &f->ndarray_type, &numpy, &held) &&
        (table = xf_numpy_functions(numpy))) {
        memcpy(&f->new_array, &table[NEW_FROM_DTYPE], sizeof(void *));
        f->reduce = (reduce_function)(uintptr_t)address;
        f->settings = (const long long *)(uintptr_t)settings;
        f->geometry = (const long long *)geometry; /* the memory of bytes is aligned as any */
        f->extents = (const Py_ssize_t *)extents;
        f->strides = f->strides_nbytes ? (const Py_ssize_t *)strides : NULL;
        f->inputs = (int)PyTuple_Size(inputs);
        f->firsts = (int)PyTuple_Size(sources);
        f->outputs = (int)PyTuple_Size(f->dtypes);
        if (f->inputs + f->firsts > MOST_ARRAYS || f->outputs > MOST_ARRAYS || f->accumulators > MOST_ARRAYS) {
            made = Py_NewRef(Py_None);
        } else {
            for (int i = 0; i < f->inputs; ++i) {
                operand *own = &f->operands[i];
                if (!PyArg_ParseTuple(PyTuple_GetItem(inputs, i), "Oy#", &own->dtype, &own->layout, &own->nbytes))
                    break;
            }
            for (int i = 0; i < f->firsts; ++i)
                f->sources[i] = (int)PyLong_AsLong(PyTuple_GetItem(sources, i));
            made = PyErr_Occurred() ? NULL : PyCFunction_NewEx(&one_fold, capsule, NULL);
        }
    }
    Py_DECREF(capsule);
    return made;
}
