/* The leaves of a tree: where they lie on the host, and copies of many of them in one call.

   A tree of a thousand arrays pays for each step a thousand times: the address of an array costs Python half a
   microsecond, and a copy that is enqueued one and a half. Here they cost 50 ns, and what the driver takes. */

#include "../replay/replay.h"

#include <stdlib.h>

/* --- their structure */

enum { DEEPEST = 100 }; /* of containers within each other: a deeper tree is left to Python, which refuses endless ones */

static Py_ssize_t length_of(PyObject *list_or_tuple)
{
    return PyList_CheckExact(list_or_tuple) ? PyList_Size(list_or_tuple) : PyTuple_Size(list_or_tuple);
}

/* A new reference: what is done with the item may run code that changes the list. */
static PyObject *item_of(PyObject *list_or_tuple, Py_ssize_t place)
{
    PyObject *(*get)(PyObject *, Py_ssize_t) = PyList_CheckExact(list_or_tuple) ? PyList_GetItem : PyTuple_GetItem;
    return Py_XNewRef(get(list_or_tuple, place));
}

/* Add the leaves of a node to a list: 1; 0 where Python has to look at one; -1 with an error set. */
static int add_leaves(PyObject *node, PyObject *arrays, PyObject *others, PyObject *leaves, int depth)
{
    PyObject *key, *value, *type = (PyObject *)Py_TYPE(node);
    Py_ssize_t place = 0;
    int found = 1, is_dict = PyDict_CheckExact(node);
    if (is_dict || PyList_CheckExact(node) || PyTuple_CheckExact(node)) {
        found = depth < DEEPEST;
        while (found == 1 && (is_dict ? PyDict_Next(node, &place, &key, &value) : place < length_of(node))) {
            value = is_dict ? Py_NewRef(value) : item_of(node, place++);
            found = value ? add_leaves(value, arrays, others, leaves, depth + 1) : -1;
            Py_XDECREF(value);
        }
        return found;
    }
    value = PyDict_GetItemWithError(arrays, type);
    if (!value && PyErr_Occurred())
        return -1;
    found = value && value != Py_None ? 1 : PySet_Contains(others, type);
    return found == 1 && PyList_Append(leaves, node) ? -1 : found;
}

/* (tree, dict of types to what is not None for those of arrays, set of the types of other leaves) -> a list of the leaves
   of dicts, lists and tuples within each other; None where there is an object of any other type. */
PyObject *xf_flatten(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    PyObject *leaves;
    int found;
    (void)module;
    if (count != 3 || !PyDict_Check(given[1]) || !PyAnySet_Check(given[2]))
        return PyErr_Format(PyExc_TypeError, "flatten takes a tree, a dict and a set");
    leaves = PyList_New(0);
    found = leaves ? add_leaves(given[0], given[1], given[2], leaves, 0) : -1;
    if (found == 1)
        return leaves;
    Py_XDECREF(leaves);
    return found ? NULL : Py_NewRef(Py_None);
}

static PyObject *rebuild(PyObject *node, PyObject *leaves, Py_ssize_t *next)
{
    PyObject *made, *key, *value;
    Py_ssize_t place = 0;
    int is_list = PyList_CheckExact(node), is_dict = PyDict_CheckExact(node), error = 0;
    if (!is_dict && !is_list && !PyTuple_CheckExact(node))
        return Py_XNewRef(PyList_GetItem(leaves, (*next)++));
    if (is_dict)
        made = PyDict_Copy(node); /* whose values may be replaced while it is looked through */
    else
        made = is_list ? PyList_New(length_of(node)) : PyTuple_New(length_of(node));
    while (made && !error && (is_dict ? PyDict_Next(made, &place, &key, &value) : place < length_of(made))) {
        PyObject *old = is_dict ? Py_NewRef(value) : item_of(node, place), *new = old ? rebuild(old, leaves, next) : NULL;
        Py_XDECREF(old);
        if (new && is_dict) {
            error = PyDict_SetItem(made, key, new);
            Py_DECREF(new);
        } else {
            error = !new || (is_list ? PyList_SetItem(made, place, new) : PyTuple_SetItem(made, place, new));
        }
        place += !is_dict;
    }
    if (error)
        Py_CLEAR(made);
    return made;
}

/* (tree, list) -> new dicts, lists and tuples as in a tree that `flatten` took, with the objects of the list as their leaves. */
PyObject *xf_rebuild(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    Py_ssize_t next = 0;
    PyObject *made;
    (void)module;
    if (count != 2 || !PyList_Check(given[1]))
        return PyErr_Format(PyExc_TypeError, "rebuild takes a tree and a list");
    made = rebuild(given[0], given[1], &next);
    if (made && next == PyList_Size(given[1]))
        return made;
    if (made || PyErr_ExceptionMatches(PyExc_IndexError))
        PyErr_Format(PyExc_RuntimeError, "the tree was changed while its arrays were copied");
    Py_XDECREF(made);
    return NULL;
}

/* --- on the host */

/* A list -> whether no object is in it twice. */
PyObject *xf_is_distinct(PyObject *module, PyObject *list)
{
    Py_ssize_t length, room = 16;
    PyObject **seen;
    int is_distinct = 1;
    (void)module;
    if (!PyList_Check(list))
        return PyErr_Format(PyExc_TypeError, "is_distinct takes a list");
    length = PyList_Size(list);
    while (room < 2 * length)
        room *= 2;
    seen = calloc((size_t)room, sizeof *seen);
    if (!seen)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < length && is_distinct; ++i) {
        PyObject *item = PyList_GetItem(list, i);
        uint64_t place = ((uint64_t)(uintptr_t)item >> 4) * 0x9E3779B97F4A7C15u >> 20;
        while (seen[place & (uint64_t)(room - 1)] && seen[place & (uint64_t)(room - 1)] != item)
            ++place;
        is_distinct = !seen[place & (uint64_t)(room - 1)];
        seen[place & (uint64_t)(room - 1)] = item;
    }
    free(seen);
    return PyBool_FromLong(is_distinct);
}

/* (list, most bytes) -> a list with copies of the NumPy arrays that are not larger and have a dtype that every device holds,
   the other objects as they are; and how many those are. */
PyObject *xf_copy_small(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    Py_ssize_t length, most, others = 0;
    PyObject *made;
    (void)module;
    if (count != 2 || !PyList_Check(given[0]))
        return PyErr_Format(PyExc_TypeError, "copy_small takes a list and a size");
    most = PyLong_AsSsize_t(given[1]);
    if (most == -1 && PyErr_Occurred())
        return NULL;
    length = PyList_Size(given[0]);
    made = PyList_New(length);
    for (Py_ssize_t i = 0; made && i < length; ++i) {
        PyObject *item = Py_XNewRef(PyList_GetItem(given[0], i)), *copy = item ? xf_small_copy(item, most) : NULL;
        if (!copy && item && !PyErr_Occurred())
            copy = Py_NewRef(item), ++others;
        Py_XDECREF(item);
        if (!copy || PyList_SetItem(made, i, copy)) {
            Py_DECREF(made);
            return NULL;
        }
    }
    return made ? Py_BuildValue("Nn", made, others) : NULL;
}

/* --- between host and device */

/* (list of arrays, list of their offsets, address of as many parts) -> how many of the arrays are not plain bytes in C
   order, or lie in a memory map. The parts then say where the others lie; the address and the size of those stay 0. */
PyObject *xf_locate(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    Part *parts;
    Py_ssize_t length, odd = 0;
    (void)module;
    if (count != 3 || !PyList_Check(given[0]) || !PyList_Check(given[1]) || PyList_Size(given[0]) != PyList_Size(given[1]))
        return PyErr_Format(PyExc_TypeError, "locate takes two lists of one length and an address");
    parts = (Part *)(uintptr_t)PyLong_AsUnsignedLongLong(given[2]);
    if (PyErr_Occurred())
        return NULL;
    length = PyList_Size(given[0]);
    for (Py_ssize_t i = 0; i < length; ++i) {
        Py_buffer host;
        Part *part = &parts[i];
        *part = (Part){.place = PyLong_AsLongLong(PyList_GetItem(given[1], i))};
        if (part->place == -1 && PyErr_Occurred())
            return NULL;
        if (!xf_is_plain_memory(PyList_GetItem(given[0], i), &host)) {
            if (PyErr_Occurred())
                return NULL;
            ++odd;
            continue;
        }
        part->host = host.buf;
        part->nbytes = host.len;
        PyBuffer_Release(&host);
    }
    return PyLong_FromSsize_t(odd);
}
