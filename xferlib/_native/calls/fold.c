/* Calls of a compiled reduction on NumPy arrays of any layout, without a step in Python.

   A sum of sixteen elements takes ten nanoseconds; to compare its arrays, allocate the result and collect addresses takes
   Python some microseconds. A new shape is planned by the function that Python's calls have, too. What has other dtypes or another rank than the
   call that was prepared, or is worth several threads, gives NotImplemented with nothing done.

   xferlib/kernels/native_reduction.py has the other side of `reduce`. */

#include "../replay/replay.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ARRAYS = 8, MOST_RANK = 16, MOST_GEOMETRY = 16 + (3 + 2 * MOST_ARRAYS) * (MOST_RANK + 4) };

typedef void (*reduce_function)(long long, long long, long long, long long, const long long *, char *const *, char *const *);
typedef void (*plan_function)(const long long *, long long, long long, const long long *, const long long *, long long *, long long *);

enum { ROWS, COUNT, WAY, TILE, ROOM_NBYTES, NUMBERS, FACTS }; /* what a plan finds, beside the geometry */

/* What is known of calls of one layout. */
typedef struct {
    Py_ssize_t extents[MOST_RANK], strides[MOST_RANK]; /* of an output */
    int is_c_order, keeps_lock, is_whole;              /* whether C does the whole call, on this thread */
    long long facts[FACTS], geometry[MOST_GEOMETRY];
} planned_call;

typedef struct {
    PyObject *kept_alive; /* holds all objects here */
    reduce_function reduce;
    plan_function plan;
    const long long *form, *settings; /* of the settings the first: whether compiled functions are wanted */
    PyObject *ndarray_type, *input_dtypes, *dtypes; /* NumPy's type; those of the outputs */
    double element_ns, result_ns, with_lock_ns, alone_ns; /* above the last, threads share the work */
    long long most_count;                                 /* elements of a result */
    Py_ssize_t itemsize;                                  /* of the first output */
    int accumulators, inputs, firsts, outputs, rank, kept, reduced, result_rank;
    int kept_axes[MOST_RANK], reduced_axes[MOST_RANK], result_axes[MOST_RANK]; /* of a result's: -1 where the extent is 1 */
    int sources[MOST_ARRAYS]; /* the inputs of which the `firsts` behind them take a first element */
    Py_ssize_t layouts[MOST_ARRAYS][2 * MOST_RANK]; /* of each input of the last call its extents, then its strides */
    planned_call last;
} fold_call;

static long long stride_of(const fold_call *f, int array, int axis)
{
    const Py_ssize_t *own = f->layouts[array < f->inputs ? array : f->sources[array - f->inputs]];
    return own[axis] == 1 ? 0 : own[f->rank + axis];
}

/* The kept axes as they follow in the memory of new results: the order in which all arrays lie, as `order_of_result` finds it. */
static void sort_kept(const fold_call *f, int *order)
{
    int count = 0;
    for (int k = f->kept - 1; k >= 0; --k) {
        int axis = f->kept_axes[k], place = count;
        for (int j = count - 1; j >= 0; --j) {
            int is_told = 0, is_outside = 0;
            for (int i = 0; i < f->inputs; ++i) {
                long long outer = llabs(stride_of(f, i, axis)), inner = llabs(stride_of(f, i, order[j]));
                is_told |= outer && inner;
                is_outside |= outer && inner && outer >= inner;
            }
            if (is_outside)
                break;
            if (is_told)
                place = j;
        }
        memmove(order + place + 1, order + place, (size_t)(count - place) * sizeof *order);
        order[place] = axis;
        ++count;
    }
    for (int k = 0; k < count / 2; ++k) {
        int axis = order[k];
        order[k] = order[count - 1 - k];
        order[count - 1 - k] = axis;
    }
}

/* Plan calls of arrays with these layouts. */
static void plan_layout(fold_call *f)
{
    planned_call *own = &f->last;
    int order[MOST_RANK] = {0}, arrays = f->inputs + f->firsts;
    long long kept[MOST_RANK * (1 + MOST_ARRAYS)], reduced[MOST_RANK * (1 + MOST_ARRAYS)], *to = kept, count = 1, rows = 1;
    own->is_whole = 0;
    sort_kept(f, order);
    own->is_c_order = !memcmp(order, f->kept_axes, (size_t)f->kept * sizeof *order);
    for (int k = 0; k < f->kept; ++k) {
        *to++ = f->layouts[0][order[k]];
        rows *= f->layouts[0][order[k]];
        for (int i = 0; i < arrays; ++i)
            *to++ = stride_of(f, i, order[k]);
    }
    to = reduced;
    for (int k = 0; k < f->reduced; ++k) {
        *to++ = f->layouts[0][f->reduced_axes[k]];
        count *= f->layouts[0][f->reduced_axes[k]];
        for (int i = 0; i < arrays; ++i)
            *to++ = i < f->inputs ? stride_of(f, i, f->reduced_axes[k]) : 0;
    }
    if (rows <= 0 || count <= 0 || count > f->most_count || (f->outputs > 1 && !own->is_c_order))
        return;
    f->plan(f->form, f->kept, f->reduced, kept, reduced, own->geometry, own->facts);
    double ns = (double)own->facts[ROWS] * ((double)own->facts[COUNT] * f->element_ns + (own->facts[WAY] & 1 ? f->result_ns : 0));
    own->keeps_lock = ns < f->with_lock_ns;
    own->is_whole = ns < f->alone_ns;
    Py_ssize_t step = f->itemsize, of_axis[MOST_RANK] = {0};
    for (int k = f->kept - 1; k >= 0; --k) {
        of_axis[order[k]] = step;
        step *= f->layouts[0][order[k]];
    }
    for (int k = 0; k < f->result_rank; ++k) {
        int axis = f->result_axes[k];
        own->extents[k] = axis < 0 ? 1 : f->layouts[0][axis];
        own->strides[k] = axis < 0 ? step : of_axis[axis];
    }
}

/* Whether C does a call of these arrays: of the dtypes and the rank that were prepared, of one shape. */
static int find_layout(fold_call *f, PyObject *arguments, char **p)
{
    size_t half = (size_t)f->rank * sizeof(Py_ssize_t);
    const Py_ssize_t *extents = NULL;
    int is_known = 1;
    for (int i = 0; i < f->inputs; ++i) {
        PyObject *value = PyTuple_GetItem(arguments, i);
        const ndarray *array = (const ndarray *)value;
        if ((PyObject *)Py_TYPE(value) != f->ndarray_type || array->dtype != PyTuple_GetItem(f->input_dtypes, i) ||
            array->axes != f->rank || (extents && memcmp(array->extents, extents, half)))
            return 0;
        extents = array->extents;
        is_known &= !memcmp(extents, f->layouts[i], half) && !memcmp(array->strides, f->layouts[i] + f->rank, half);
        p[i] = array->data;
    }
    if (!is_known || !f->last.facts[NUMBERS]) {
        for (int i = 0; i < f->inputs; ++i) {
            const ndarray *array = (const ndarray *)PyTuple_GetItem(arguments, i);
            memcpy(f->layouts[i], array->extents, half);
            memcpy(f->layouts[i] + f->rank, array->strides, half);
        }
        f->last.facts[NUMBERS] = 1;
        plan_layout(f);
    }
    return f->last.is_whole;
}

/* (arguments) -> the result, or NotImplemented with nothing done. */
static PyObject *fold(PyObject *self, PyObject *arguments)
{
    fold_call *f = PyCapsule_GetPointer(self, NULL);
    PyObject *made[MOST_ARRAYS], *result = NULL;
    char *p[2 * MOST_ARRAYS], *into[MOST_ARRAYS + 1] = {NULL}, *room = NULL;
    int count = 0;
    if (!f)
        return NULL;
    if (!f->settings[0] || !PyTuple_CheckExact(arguments) || PyTuple_Size(arguments) != f->inputs || !find_layout(f, arguments, p))
        Py_RETURN_NOTIMPLEMENTED;
    planned_call call; /* another thread, or what an allocation calls, may plan another one */
    memcpy(&call, &f->last, offsetof(planned_call, geometry) + (size_t)f->last.facts[NUMBERS] * sizeof *call.geometry);
    for (int i = 0; i < f->firsts; ++i)
        p[f->inputs + i] = p[f->sources[i]];
    for (; count < f->outputs; ++count) {
        PyObject *dtype = Py_NewRef(PyTuple_GetItem(f->dtypes, count));
        made[count] = xf_numpy.new_array(f->ndarray_type, dtype, f->result_rank, call.extents, call.is_c_order ? NULL : call.strides,
                                         NULL, 0, NULL);
        if (!made[count])
            goto done;
        p[f->inputs + f->firsts + count] = ((const ndarray *)made[count])->data;
    }
    if (call.facts[ROOM_NBYTES]) { /* behind the addresses of parts' memory, of which there is none */
        room = PyMem_Malloc((size_t)call.facts[ROOM_NBYTES]);
        if (!room) {
            PyErr_NoMemory();
            goto done;
        }
        into[f->accumulators] = room;
    }
    if (call.keeps_lock)
        f->reduce(0, call.facts[ROWS], 0, call.facts[WAY], call.geometry, p, into);
    else
        WITHOUT_GIL(f->reduce(0, call.facts[ROWS], 0, call.facts[WAY], call.geometry, p, into));
    result = count == 1 ? Py_NewRef(made[0]) : xf_pack(made, count);
done:
    PyMem_Free(room);
    while (count--)
        Py_DECREF(made[count]);
    return result;
}

static PyMethodDef one_fold = {"fold", fold, METH_O, NULL};

static int take_numbers(PyObject *tuple, int *to, int most)
{
    Py_ssize_t size = PyTuple_Size(tuple);
    for (Py_ssize_t k = 0; k < size && k < most; ++k)
        to[k] = (int)PyLong_AsLong(PyTuple_GetItem(tuple, k));
    return size <= most ? (int)size : -1;
}

/* (reduce, plan, address of the settings, form as bytes, nanoseconds of an element, of a result, of a call that keeps the GIL, and
   from which threads share it, most elements of a result, accumulators, rank, kept axes, reduced axes, axes of a result,
   dtypes of the inputs, the numbers of those whose first elements follow, dtypes of the outputs, the first one's bytes,
   NumPy's type and its C API, what else is held) -> fold, or None. */
PyObject *xf_bind_fold(PyObject *module, PyObject *arguments)
{
    unsigned long long reduce, plan, settings;
    PyObject *kept, *reduced, *results, *sources, *held, *numpy, *capsule;
    const char *form;
    Py_ssize_t nbytes;
    fold_call *f = xf_new_data(arguments, sizeof *f, xf_free_data, &capsule);
    int has_room = 0;
    (void)module;
    if (!f)
        return NULL;
    if (PyArg_ParseTuple(arguments, "KKKy#ddddLiiO!O!O!O!O!O!nOOO", &reduce, &plan, &settings, &form, &nbytes, &f->element_ns,
                         &f->result_ns, &f->with_lock_ns, &f->alone_ns, &f->most_count, &f->accumulators, &f->rank,
                         &PyTuple_Type, &kept, &PyTuple_Type, &reduced, &PyTuple_Type, &results, &PyTuple_Type,
                         &f->input_dtypes, &PyTuple_Type, &sources, &PyTuple_Type, &f->dtypes, &f->itemsize, &f->ndarray_type,
                         &numpy, &held) &&
        xf_numpy_functions(numpy)) {
        f->reduce = (reduce_function)(uintptr_t)reduce;
        f->plan = (plan_function)(uintptr_t)plan;
        f->settings = (const long long *)(uintptr_t)settings;
        f->form = (const long long *)form; /* the memory of bytes is aligned as any */
        f->inputs = (int)PyTuple_Size(f->input_dtypes);
        f->outputs = (int)PyTuple_Size(f->dtypes);
        f->kept = take_numbers(kept, f->kept_axes, MOST_RANK);
        f->reduced = take_numbers(reduced, f->reduced_axes, MOST_RANK);
        f->result_rank = take_numbers(results, f->result_axes, MOST_RANK);
        f->firsts = take_numbers(sources, f->sources, MOST_ARRAYS);
        has_room = f->rank <= MOST_RANK && f->firsts >= 0 && f->inputs + f->firsts <= MOST_ARRAYS && f->outputs <= MOST_ARRAYS &&
                   f->accumulators <= MOST_ARRAYS;
    }
    return xf_make_function(capsule, &one_fold, has_room);
}
