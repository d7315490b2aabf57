/* Trees of one form: what their arrays are is kept, so that one call looks through the next tree of that form, and says where its
   arrays lie.

   A loop sends or fetches the same tree again and again. The obvious way describes each array anew: in Python that takes 4 us for
   each leaf, as long as it takes to copy 40 KiB. Here an array is compared with what is kept of it in 20 ns, and 200 where its
   library is asked.

   xferlib/_transfer/many.py has the policy: which arrays travel together, and their places. */

#include "replay.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    PyObject *type;       /* exactly; the tuple of the form holds it */
    Py_ssize_t part;      /* its number among those that travel together; -1: it is no array */
    int64_t place;        /* where it begins in the memory of all, in bytes */
    int element, axes;
    const int64_t *extents;
} kept_leaf;

typedef struct {
    PyObject *types;
    int64_t *extents; /* of all leaves */
    Py_ssize_t count;
    int is_host, index; /* NumPy's arrays; or of the device with this index */
    kept_leaf leaves[];
} kept_form;

static void free_form(PyObject *capsule)
{
    kept_form *f = PyCapsule_GetPointer(capsule, NULL);
    Py_XDECREF(f->types);
    free(f->extents);
    free(f);
}

/* Describe an array that is plain bytes in C order: whether it is one. */
static int describe(PyObject *array, description *d)
{
    const library *l = xf_find_library(array);
    return l && xf_describe(l, array, d) && d->is_c && d->nbytes > 0;
}

static int note_member(kept_form *f, Py_ssize_t number, PyObject *leaf, PyObject *place, int64_t *extents, int is_first)
{
    kept_leaf *k = &f->leaves[number];
    description d;
    if (!describe(leaf, &d))
        return 0;
    if (is_first) {
        f->is_host = is_of(leaf, replay.ndarray);
        f->index = d.index;
    }
    k->place = PyLong_AsLongLong(place);
    k->element = d.element;
    k->axes = d.axes;
    k->extents = extents;
    memcpy(extents, d.extents, (size_t)d.axes * sizeof *extents);
    if (f->is_host && ((const ndarray *)leaf)->dtype != replay.elements[d.element].dtype)
        return 0;
    return f->is_host == is_of(leaf, replay.ndarray) && (f->is_host || d.kind == ON_CUDA) && f->index == d.index;
}

/* (list of leaves, list of the numbers of those that travel together, list of their places) -> what is kept of them; None where one
   of these is not plain bytes in C order, or of another device, or where another leaf is an array. */
PyObject *xf_keep_form(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    Py_ssize_t length, members;
    kept_form *f;
    int is_kept = 1;
    (void)module;
    if (count != 3 || !PyList_Check(given[0]) || !PyList_Check(given[1]) || !PyList_Check(given[2]) ||
        PyList_Size(given[1]) != PyList_Size(given[2]))
        return PyErr_Format(PyExc_TypeError, "keep_form takes three lists, of which two are of one length");
    length = PyList_Size(given[0]);
    members = PyList_Size(given[1]);
    if (!(f = calloc(1, sizeof *f + (size_t)length * sizeof *f->leaves)))
        return PyErr_NoMemory();
    f->count = length;
    f->extents = malloc((size_t)(members * MOST_AXES + 1) * sizeof *f->extents);
    f->types = PyTuple_New(length);
    for (Py_ssize_t i = 0; f->types && i < length; ++i) {
        PyObject *type = (PyObject *)Py_TYPE(PyList_GetItem(given[0], i));
        f->leaves[i].type = type;
        f->leaves[i].part = -1;
        PyTuple_SetItem(f->types, i, Py_NewRef(type));
    }
    is_kept = f->types && f->extents;
    for (Py_ssize_t j = 0; is_kept && j < members; ++j) {
        Py_ssize_t number = PyLong_AsSsize_t(PyList_GetItem(given[1], j));
        PyObject *leaf = number >= 0 && number < length ? Py_XNewRef(PyList_GetItem(given[0], number)) : NULL;
        is_kept = leaf && note_member(f, number, leaf, PyList_GetItem(given[2], j), f->extents + j * MOST_AXES, !j);
        if (is_kept)
            f->leaves[number].part = j;
        Py_XDECREF(leaf);
    }
    for (Py_ssize_t i = 0; is_kept && i < length; ++i) {
        PyObject *leaf = f->leaves[i].part < 0 ? Py_XNewRef(PyList_GetItem(given[0], i)) : NULL;
        is_kept = !leaf || !xf_find_library(leaf);
        Py_XDECREF(leaf);
    }
    if (is_kept && !PyErr_Occurred()) {
        PyObject *capsule = PyCapsule_New(f, NULL, free_form);
        if (capsule)
            return capsule;
    }
    Py_XDECREF(f->types);
    free(f->extents);
    free(f);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* Whether an array is as the one that is kept: then where it lies. */
static int is_alike(const kept_form *f, const kept_leaf *k, PyObject *leaf, char **data)
{
    const ndarray *a = (const ndarray *)leaf;
    description d;
    if (f->is_host) {
        *data = a->data;
        return a->dtype == replay.elements[k->element].dtype && a->axes == k->axes && a->flags & C_ORDER &&
               !memcmp(a->extents, k->extents, (size_t)k->axes * sizeof *k->extents) && !xf_is_mapped(leaf);
    }
    if (!describe(leaf, &d) || d.kind != ON_CUDA || d.index != f->index)
        return 0;
    *data = d.data;
    return d.element == k->element && d.axes == k->axes && !memcmp(d.extents, k->extents, (size_t)k->axes * sizeof *k->extents);
}

/* (what is kept, list of leaves, address of as many parts as travel together) -> whether they have that form: then the parts say
   where they lie. */
PyObject *xf_match_form(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    const kept_form *f = count == 3 ? PyCapsule_GetPointer(given[0], NULL) : NULL;
    Part *parts;
    int is_same;
    (void)module;
    if (!f || !PyList_Check(given[1]))
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "match_form takes a form, a list and an address");
    parts = (Part *)(uintptr_t)PyLong_AsUnsignedLongLong(given[2]);
    is_same = !PyErr_Occurred() && PyList_Size(given[1]) == f->count;
    for (Py_ssize_t i = 0; is_same && i < f->count; ++i) {
        const kept_leaf *k = &f->leaves[i];
        PyObject *leaf = i < PyList_Size(given[1]) ? Py_NewRef(PyList_GetItem(given[1], i)) : NULL; /* a question may change it */
        char *data = NULL;
        is_same = leaf && is_of(leaf, k->type) && (k->part < 0 || is_alike(f, k, leaf, &data));
        if (is_same && k->part >= 0) {
            int64_t nbytes = replay.elements[k->element].itemsize;
            for (int axis = 0; axis < k->axes; ++axis)
                nbytes *= k->extents[axis];
            parts[k->part] = (Part){.host = data, .place = k->place, .nbytes = nbytes};
        }
        Py_XDECREF(leaf);
    }
    return PyErr_Occurred() ? NULL : PyBool_FromLong(is_same);
}

/* (what is kept, list of leaves, NumPy array of bytes) -> a list of the leaves, with views of the array in the places of those that
   travelled together. */
PyObject *xf_cut_form(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    const kept_form *f = count == 3 ? PyCapsule_GetPointer(given[0], NULL) : NULL;
    PyObject *made;
    (void)module;
    if (!f || !PyList_Check(given[1]) || PyList_Size(given[1]) != f->count || !is_of(given[2], replay.ndarray))
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "cut_form takes a form, its leaves and an array");
    made = PyList_New(f->count);
    for (Py_ssize_t i = 0; made && i < f->count; ++i) {
        const kept_leaf *k = &f->leaves[i];
        PyObject *leaf;
        if (k->part < 0) {
            leaf = Py_XNewRef(PyList_GetItem(given[1], i));
        } else {
            leaf = replay.new_array(replay.ndarray, Py_NewRef(replay.elements[k->element].dtype), k->axes, k->extents, NULL,
                                    ((const ndarray *)given[2])->data + k->place, C_ORDER | ALIGNED | WRITABLE, NULL);
            if (leaf && replay.set_base(leaf, Py_NewRef(given[2])))
                Py_CLEAR(leaf);
        }
        if (!leaf || PyList_SetItem(made, i, leaf)) {
            Py_DECREF(made);
            return NULL;
        }
    }
    return made;
}
