/* The usual calls of to_device and to_host, each in one call of C.

   Most calls move one small array, and their time is that of the steps around the copy: some twenty frames of Python, and
   a question to the array's library for each thing to be known of it. Here a call looks at the arrays' own memory (a
   NumPy array's is laid out as its C API promises; torch's is described by DLPack's C exchange API), asks the library
   for what that does not tell, finds the way that Python has prepared for its form, and runs it: see ways.c, which knows no
   policy. Between two arrays in host memory it copies by itself. All else is left, with nothing done, to the functions in
   Python, which know every case and raise every error: another keyword, other layouts on the device, managed memory, a
   recording, and what went wrong here. The stream may be one of the program's own: see calls.c for what that means to a copy.

   What no call changes is asked once in each epoch of the fast path: whether calls may be replayed, and where arrays go for
   which no device is named. Both answers belong to a thread. xferlib/_transfer/replay.py gives them, and describes libraries,
   devices and ways. */

#include "replay.h"

/* Read the arguments by keyword of a usual call: 0 where there are others, or not just one by position. */
static int is_usual(PyObject *const *given, Py_ssize_t count, PyObject *names, int is_upward, PyObject **out, PyObject **other,
                    PyObject **backend, PyObject **dtype, PyObject **stream)
{
    Py_ssize_t length = names ? PyTuple_Size(names) : 0;
    if (count != 1)
        return 0;
    for (Py_ssize_t i = 0; i < length; ++i) {
        PyObject *name = PyTuple_GetItem(names, i), *value = given[count + i];
        if (name == replay.names.out)
            *out = value == Py_None ? NULL : value;
        else if (is_upward && name == replay.names.device)
            *other = value == Py_None ? NULL : value;
        else if (is_upward && name == replay.names.backend)
            *backend = value == Py_None ? NULL : value;
        else if (!is_upward && name == replay.names.pinned && (value == Py_False || value == Py_True))
            *other = value == Py_False ? NULL : value;
        else if (name == replay.names.dtype)
            *dtype = value == Py_None ? NULL : value;
        else if (name == replay.names.stream && (PyObject *)Py_TYPE(value) == replay.stream)
            *stream = value;
        else if (name == replay.names.copy ? value != Py_True : value != Py_None)
            return 0;
        else if (name != replay.names.stream && name != replay.names.copy)
            return 0;
    }
    return 1;
}

/* The general function's result: nothing has been done here. An error is left for it to meet again, in its own words. */
static PyObject *in_general(PyObject *function, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    Py_ssize_t length = names ? PyTuple_Size(names) : 0;
    PyObject *arguments, *options = NULL, *result = NULL;
    if (PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_Exception)) /* Ctrl-C */
            return NULL;
        PyErr_Clear();
    }
    arguments = PyTuple_New(count);
    if (!arguments)
        return NULL;
    for (Py_ssize_t i = 0; i < count; ++i)
        PyTuple_SetItem(arguments, i, Py_NewRef(given[i]));
    if (!length || (options = PyDict_New()) != NULL) {
        for (Py_ssize_t i = 0; i < length; ++i)
            if (PyDict_SetItem(options, PyTuple_GetItem(names, i), given[count + i]))
                goto done;
        result = PyObject_Call(function, arguments, options);
    }
done:
    Py_XDECREF(options);
    Py_DECREF(arguments);
    return result;
}

static PyObject *to_device(PyObject *self, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    PyObject *out = NULL, *device = NULL, *backend = NULL, *dtype = NULL, *stream = NULL, *done = NULL;
    call_stream l = {0};
    (void)self;
    if (!xf_follow())
        return NULL;
    if (is_usual(given, count, names, 1, &out, &device, &backend, &dtype, &stream) && xf_read_stream(stream, &l))
        done = xf_upload(given[0], device, backend, out, dtype, &l);
    xf_forget_stream(&l);
    return done ? done : in_general(replay.to_device, given, count, names);
}

static PyObject *to_host(PyObject *self, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    PyObject *out = NULL, *pinned = NULL, *dtype = NULL, *stream = NULL, *done = NULL;
    call_stream l = {0};
    (void)self;
    if (!xf_follow())
        return NULL;
    if (is_usual(given, count, names, 0, &out, &pinned, NULL, &dtype, &stream) && !(pinned && out) && xf_read_stream(stream, &l))
        done = xf_download(given[0], out, pinned != NULL, dtype, &l);
    xf_forget_stream(&l);
    return done ? done : in_general(replay.to_host, given, count, names);
}

static PyObject *function_of(int number, const char *name, PyCFunction code, PyObject *module, PyObject *doc)
{
    static PyMethodDef methods[2];
    const char *text = PyUnicode_AsUTF8AndSize(doc, NULL);
    if (!text)
        return NULL;
    Py_INCREF(doc); /* which holds the text */
    methods[number] = (PyMethodDef){name, code, METH_FASTCALL | METH_KEYWORDS, text};
    return PyCFunction_NewEx(&methods[number], NULL, module);
}

/* (objects, elements, NumPy's C API, name of the functions' module, documentation of both) -> the two functions */
PyObject *xf_bind_replay(PyObject *module, PyObject *arguments)
{
    PyObject *objects, *elements, *numpy, *name, *doc_up, *doc_down, *up, *down;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "O!O!OO(OO)", &PyDict_Type, &objects, &PyList_Type, &elements, &numpy,
                          &name, &doc_up, &doc_down) ||
        !xf_fill_tables(objects, elements, numpy))
        return NULL;
    up = function_of(0, "to_device", (PyCFunction)(void (*)(void))to_device, name, doc_up);
    down = up ? function_of(1, "to_host", (PyCFunction)(void (*)(void))to_host, name, doc_down) : NULL;
    if (!down) {
        Py_XDECREF(up);
        return NULL;
    }
    return Py_BuildValue("(NN)", up, down);
}
