/* Whether arrays are as earlier ones, by their types and some attributes: what each repeated call of a kernel asks first. */

#include "alike.h"

enum { TYPES, NAMES, VALUES };

/* The function's own object is a tuple: the types, the names of attributes, and for each array a tuple of their values. */
static PyObject *are_alike(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    PyObject *types = PyTuple_GetItem(self, TYPES), *names = PyTuple_GetItem(self, NAMES), *values = PyTuple_GetItem(self, VALUES);
    Py_ssize_t attributes = PyTuple_Size(names);
    int is_same = count == PyTuple_Size(types);
    for (Py_ssize_t i = 0; is_same && i < count; ++i) {
        PyObject *expected = PyTuple_GetItem(values, i);
        is_same = (PyObject *)Py_TYPE(given[i]) == PyTuple_GetItem(types, i);
        for (Py_ssize_t j = 0; is_same && j < attributes; ++j) {
            PyObject *found = PyObject_GetAttr(given[i], PyTuple_GetItem(names, j));
            if (!found)
                return NULL;
            is_same = PyObject_RichCompareBool(found, PyTuple_GetItem(expected, j), Py_EQ);
            Py_DECREF(found);
            if (is_same < 0)
                return NULL;
        }
    }
    return PyBool_FromLong(is_same);
}

static PyMethodDef one_comparison = {"are_alike", (PyCFunction)(void (*)(void))are_alike, METH_FASTCALL, NULL};

/* (types, names, values) -> are_alike */
PyObject *xf_bind_alike(PyObject *module, PyObject *arguments)
{
    PyObject *types, *names, *values;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "O!O!O!", &PyTuple_Type, &types, &PyTuple_Type, &names, &PyTuple_Type, &values))
        return NULL;
    if (PyTuple_Size(types) != PyTuple_Size(values))
        return PyErr_Format(PyExc_ValueError, "%zd types, and values of %zd arrays", PyTuple_Size(types), PyTuple_Size(values));
    for (Py_ssize_t i = 0; i < PyTuple_Size(values); ++i) {
        PyObject *each = PyTuple_GetItem(values, i);
        if (!PyTuple_Check(each) || PyTuple_Size(each) != PyTuple_Size(names))
            return PyErr_Format(PyExc_ValueError, "an array has a tuple of as many values as there are names, %zd",
                                PyTuple_Size(names));
    }
    return PyCFunction_NewEx(&one_comparison, arguments, NULL);
}
