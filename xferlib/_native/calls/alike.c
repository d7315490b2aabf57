/* Whether arrays are as earlier ones, by their types and some attributes: what each repeated call of a kernel asks first. */

#include "calls.h"

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

enum { CHECK, FLAG, TABLE, KEY, STATE };

/* What `check` says of the arguments; False where the flag of one is set, a negative number is not in the table under the
   key, or there is a state. The function's own object is a tuple of these. */
static PyObject *are_alike_and_plain(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    PyObject *level, *state, *arguments, *result;
    int is_plain = 1;
    for (Py_ssize_t i = 0; is_plain > 0 && i < count; ++i) {
        PyObject *flag = PyObject_GetAttr(given[i], PyTuple_GetItem(self, FLAG));
        if (!flag)
            return NULL;
        is_plain = flag == Py_False;
        Py_DECREF(flag);
    }
    level = PyDict_GetItemWithError(PyTuple_GetItem(self, TABLE), PyTuple_GetItem(self, KEY));
    if (!level && PyErr_Occurred())
        return NULL;
    if (!is_plain || !level || PyLong_AsLong(level) >= 0)
        Py_RETURN_FALSE;
    if (PyErr_Occurred() || !(state = PyObject_CallNoArgs(PyTuple_GetItem(self, STATE))))
        return NULL;
    Py_DECREF(state);
    if (state != Py_None)
        Py_RETURN_FALSE;
    if (!(arguments = PyTuple_New(count)))
        return NULL;
    for (Py_ssize_t i = 0; i < count; ++i) {
        Py_INCREF(given[i]);
        PyTuple_SetItem(arguments, i, given[i]);
    }
    result = PyObject_CallObject(PyTuple_GetItem(self, CHECK), arguments);
    Py_DECREF(arguments);
    return result;
}

static PyMethodDef one_plain_comparison = {"are_alike_and_plain", (PyCFunction)(void (*)(void))are_alike_and_plain, METH_FASTCALL,
                                           NULL};

/* (check, flag, table, key, state) -> are_alike_and_plain */
PyObject *xf_bind_plain(PyObject *module, PyObject *arguments)
{
    PyObject *check, *flag, *table, *key, *state;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OUO!UO", &check, &flag, &PyDict_Type, &table, &key, &state))
        return NULL;
    return PyCFunction_NewEx(&one_plain_comparison, arguments, NULL);
}
