/* get_array_module: the namespace of arrays, by two dictionaries of exact types.

   What the tables do not have is looked up in Python, which fills them. */

#include "calls.h"

static int is_scalar(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    return object == Py_None || type == &PyFloat_Type || type == &PyLong_Type || type == &PyComplex_Type || type == &PyBool_Type;
}

static PyObject *looked_up(const dispatch *d, PyObject *const *given, Py_ssize_t count)
{
    PyObject *arguments, *result;
    if (PyErr_Occurred()) /* a metaclass may hash as it likes */
        return NULL;
    arguments = PyTuple_New(count);
    if (!arguments)
        return NULL;
    for (Py_ssize_t i = 0; i < count; ++i)
        PyTuple_SetItem(arguments, i, Py_NewRef(given[i]));
    result = PyObject_Call(d->look_up, arguments, NULL);
    Py_DECREF(arguments);
    return result;
}

/* The namespace of arrays of known types, of one backend, among scalars; all else is looked up in Python. */
static PyObject *namespace_of(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    const dispatch *d = PyModule_GetState(module);
    PyObject *decides = NULL, *found = NULL;
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject *type = (PyObject *)Py_TYPE(given[i]);
        if (type == decides || is_scalar(given[i]))
            continue;
        if (decides) {
            PyObject *backend = PyDict_GetItemWithError(d->by_type, type);
            if (!backend || backend != PyDict_GetItemWithError(d->by_type, decides))
                return looked_up(d, given, count);
        }
        decides = type;
    }
    if (decides)
        found = PyDict_GetItemWithError(d->namespaces, decides);
    return found ? Py_NewRef(found) : looked_up(d, given, count);
}

/* (by_type, namespaces, look_up, name of its module, docstring) -> the function */
PyObject *xf_bind_namespaces(PyObject *module, PyObject *arguments)
{
    dispatch *d = PyModule_GetState(module);
    PyObject *by_type, *namespaces, *look_up, *name, *doc;
    if (!PyArg_ParseTuple(arguments, "O!O!OUU", &PyDict_Type, &by_type, &PyDict_Type, &namespaces, &look_up, &name, &doc))
        return NULL;
    if (!PyUnicode_AsUTF8AndSize(doc, NULL))
        return NULL;
    d->method = (PyMethodDef){"get_array_module", (PyCFunction)(void (*)(void))namespace_of, METH_FASTCALL,
                              PyUnicode_AsUTF8AndSize(doc, NULL)};
    d->doc = Py_NewRef(doc);
    d->by_type = Py_NewRef(by_type);
    d->namespaces = Py_NewRef(namespaces);
    d->look_up = Py_NewRef(look_up);
    return PyCFunction_NewEx(&d->method, module, name);
}
