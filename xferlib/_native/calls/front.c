/* The first look at a kernel's call: functions made by `bind_host` or `bind_launch` take it, without a frame of Python.

   A frame, the tuple and the dict of `def call(self, *args, out=None, **keywords)` cost as much as a kernel on sixteen elements. */

#include "calls.h"

typedef struct {
    PyObject *kept;   /* holds all objects here */
    PyObject *python; /* takes any call */
    PyObject *known;  /* a list: the functions, as a list, and what says whether they still hold, or None; of a
                         reduction the function, or None, and the values of its keywords */
    PyObject *scopes; /* a list: empty while no block has ever chosen what is current */
    PyObject *observed, *active; /* a dict and its key, which holds None while nothing records */
    PyObject *out, *axis, *keepdims; /* names of keywords: the first of kernels, the others of reductions */
} front;

/* Whether the functions still hold; -1 with an error set that ends the call. */
static int holds(PyObject *question)
{
    PyObject *answer;
    int is_true;
    if (question == Py_None)
        return 1;
    answer = PyObject_CallNoArgs(question);
    is_true = answer == Py_True;
    Py_XDECREF(answer);
    return xf_pass_over_error() ? is_true : -1;
}

/* What one of the functions gives, or NotImplemented. */
static PyObject *try_all(PyObject *functions, PyObject *const *args, Py_ssize_t count, PyObject *out)
{
    PyObject *given = xf_pack(args, count), *found = given ? Py_NewRef(Py_NotImplemented) : NULL;
    for (Py_ssize_t i = 0; found == Py_NotImplemented && i < PyList_Size(functions); ++i) {
        PyObject *one = Py_NewRef(PyList_GetItem(functions, i));
        Py_DECREF(found);
        found = PyObject_CallFunctionObjArgs(one, given, out, NULL);
        Py_DECREF(one);
    }
    Py_XDECREF(given);
    return found;
}

static PyObject *call_known(const front *f, PyObject *const *args, Py_ssize_t count, PyObject *out)
{
    PyObject *functions = Py_XNewRef(PyList_GetItem(f->known, 0)), *question = Py_XNewRef(PyList_GetItem(f->known, 1)), *found = NULL;
    if (functions && question) { /* held here: the question runs Python, which may change the list */
        int do_hold = PyList_Size(functions) > 0 ? holds(question) : 0;
        found = do_hold < 0 ? NULL : do_hold ? try_all(functions, args, count, out) : Py_NewRef(Py_NotImplemented);
    }
    Py_XDECREF(functions);
    Py_XDECREF(question);
    return found;
}

/* Whether C looks at a call first: nothing records it, and what is current in the thread is so by the blocks around the call.
   An error may be set. */
static int is_plain(const front *f)
{
    return (!PyList_Size(f->scopes) || xf_follow()) && PyDict_GetItemWithError(f->observed, f->active) == Py_None;
}

static PyObject *call(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    const front *f = PyCapsule_GetPointer(self, NULL);
    Py_ssize_t more = names ? PyTuple_Size(names) : 0;
    PyObject *found;
    if (!f)
        return NULL;
    if ((!more || (more == 1 && PyTuple_GetItem(names, 0) == f->out)) && is_plain(f)) {
        found = call_known(f, args, count, more ? args[count] : Py_None);
        if (found != Py_NotImplemented)
            return found;
        Py_DECREF(found);
    }
    return PyErr_Occurred() ? NULL : xf_call_with_names(f->python, args, count, names);
}

static PyObject *call_reduction(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    const front *f = PyCapsule_GetPointer(self, NULL);
    PyObject *axis = Py_None, *keepdims = Py_False, *function, *given, *found;
    int is_known = 1;
    if (!f)
        return NULL;
    for (Py_ssize_t i = 0, more = names ? PyTuple_Size(names) : 0; i < more; ++i) {
        PyObject *name = PyTuple_GetItem(names, i);
        if (name == f->axis)
            axis = args[count + i];
        else if (name == f->keepdims)
            keepdims = args[count + i];
        else
            is_known = 0;
    }
    function = PyList_GetItem(f->known, 0);
    if (!function)
        return NULL;
    if (is_known && function != Py_None && PyList_GetItem(f->known, 1) == axis && PyList_GetItem(f->known, 2) == keepdims) {
        Py_INCREF(function); /* what is called below may change the list */
        found = Py_NewRef(Py_NotImplemented);
        if (is_plain(f) && (given = xf_pack(args, count))) {
            Py_DECREF(found);
            found = PyObject_CallFunctionObjArgs(function, given, NULL);
            Py_DECREF(given);
        }
        Py_DECREF(function);
        if (found != Py_NotImplemented)
            return found;
        Py_DECREF(found);
    }
    return PyErr_Occurred() ? NULL : xf_call_with_names(f->python, args, count, names);
}

static PyMethodDef one_reduction = {"call", (PyCFunction)(void (*)(void))call_reduction, METH_FASTCALL | METH_KEYWORDS,
                                    "call($self, *args, axis=None, keepdims=False, out=None)\n--\n\n"};

/* Its text is what `inspect.signature` reads. */
static PyMethodDef one_call = {"call", (PyCFunction)(void (*)(void))call, METH_FASTCALL | METH_KEYWORDS,
                               "call($self, *args, out=None, size=None, **keywords)\n--\n\n"};

/* The beginning of a type up to Python 3.11. */
typedef struct {
    PyObject_VAR_HEAD
    const char *name;
    Py_ssize_t nbytes, item_nbytes;
    void *deallocate;
    Py_ssize_t vectorcall_offset;
    void *before[8], *call, *behind[4];
    unsigned long flags;
} type_head;

/* (type) -> None: its objects are called as those of its base, as long as it does not define a call of its own. A class of Python
   has that from its base since Python 3.12; before, each call of an object made a dict of its keywords. */
PyObject *xf_inherit_vectorcall(PyObject *module, PyObject *object)
{
    enum { HAS_VECTORCALL = 1 << 11 };
    PyTypeObject *type = (PyTypeObject *)object, *base;
    type_head *own = (type_head *)object;
    const type_head *from;
    (void)module;
    if (!PyType_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "inherit_vectorcall() takes a type");
        return NULL;
    }
    if (Py_Version >= 0x030C0000)
        Py_RETURN_NONE;
    base = PyType_GetSlot(type, Py_tp_base);
    from = (const type_head *)base;
    if (base && PyType_GetFlags(base) & HAS_VECTORCALL && own->flags == PyType_GetFlags(type) &&
        from->flags == PyType_GetFlags(base) && own->vectorcall_offset > 0 && own->vectorcall_offset == from->vectorcall_offset)
        own->flags = own->call == from->call ? own->flags | HAS_VECTORCALL : own->flags & ~(unsigned long)HAS_VECTORCALL;
    Py_RETURN_NONE;
}

/* (what takes any call, list of what is known, list of scopes, dict and key of the recorder, names of keywords: `out`, or
   of a reduction `axis` and `keepdims`) -> call */
PyObject *xf_bind_front(PyObject *module, PyObject *arguments)
{
    PyObject *capsule, *first, *second = NULL, *made = NULL;
    front *f = xf_new_data(arguments, sizeof *f, xf_free_data, &capsule);
    (void)module;
    if (!f)
        return NULL;
    if (PyArg_ParseTuple(arguments, "OO!O!O!UU|U", &f->python, &PyList_Type, &f->known, &PyList_Type, &f->scopes, &PyDict_Type,
                         &f->observed, &f->active, &first, &second)) {
        PyObject *name = PyUnicode_FromString("xferlib.kernels"); /* what torch.compile says that it cannot follow */
        *(second ? &f->axis : &f->out) = first;
        f->keepdims = second;
        made = name ? PyCFunction_NewEx(second ? &one_reduction : &one_call, capsule, name) : NULL;
        Py_XDECREF(name);
    }
    Py_DECREF(capsule);
    return made;
}
