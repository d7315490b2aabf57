/* The extension module `_calls`, and calls of C functions by address, for a twentieth of what ctypes takes.

   A module of CPython's limited API (3.11), compiled where the CPython headers are; without it ctypes, or
   Python, does the same. It knows no CUDA: the caller gives the addresses of the driver's functions.

   Blocking. A driver call that only enqueues still blocks while the stream's queue is full, and a query blocks behind a
   thread that does so inside the driver. If the device waits there for a host function that needs the GIL, a caller that
   holds the GIL waits for ever. Every call of the driver therefore releases it, except those that read what belongs to the
   calling thread or is constant. */

#include "calls.h"

#include <stdlib.h>

extern const unsigned int xf_fingerprint; /* of this source: the build adds it */

/* A tuple of some objects. */
PyObject *xf_pack(PyObject *const *given, Py_ssize_t count)
{
    PyObject *made = PyTuple_New(count);
    for (Py_ssize_t i = 0; made && i < count; ++i)
        PyTuple_SetItem(made, i, Py_NewRef(given[i]));
    return made;
}

PyObject *xf_call(PyObject *function, PyObject *const *given, Py_ssize_t count)
{
    PyObject *arguments = xf_pack(given, count), *result = arguments ? PyObject_CallObject(function, arguments) : NULL;
    Py_XDECREF(arguments);
    return result;
}

/* The same with arguments by keyword behind the others. */
PyObject *xf_call_with_names(PyObject *function, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    PyObject *arguments = xf_pack(given, count), *options = names ? PyDict_New() : NULL, *result = NULL;
    for (Py_ssize_t i = 0; options && i < PyTuple_Size(names); ++i)
        if (PyDict_SetItem(options, PyTuple_GetItem(names, i), given[count + i]))
            Py_CLEAR(options);
    if (arguments && (options || !names))
        result = PyObject_Call(function, arguments, options);
    Py_XDECREF(options);
    Py_XDECREF(arguments);
    return result;
}

/* Clear an error, which Python meets again if it is to be met: whether none is left, such as Ctrl-C. */
int xf_pass_over_error(void)
{
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception))
        PyErr_Clear();
    return !PyErr_Occurred();
}

int xf_is_word(PyObject *given, word *found)
{
    *found = PyLong_AsUnsignedLongLong(given);
    return *found != (word)-1 || !PyErr_Occurred();
}

/* Read an attribute that is a word: whether it is one. */
int xf_read_word(PyObject *object, PyObject *name, word *found)
{
    PyObject *value = PyObject_GetAttr(object, name);
    int is_word = value && xf_is_word(value, found);
    Py_XDECREF(value);
    return is_word;
}

/* --- functions with data of their own, which begin with a reference to the tuple that holds all objects among them */

/* New data, all else of which is 0, and the capsule that a function keeps them in; NULL with an error set. */
void *xf_new_data(PyObject *arguments, size_t nbytes, PyCapsule_Destructor destroy, PyObject **capsule)
{
    PyObject **data = PyMem_Calloc(1, nbytes);
    if (!data)
        return PyErr_NoMemory();
    if (!(*capsule = PyCapsule_New(data, NULL, destroy))) {
        PyMem_Free(data);
        return NULL;
    }
    *data = Py_NewRef(arguments);
    return data;
}

void xf_free_data(PyObject *capsule)
{
    PyObject **data = PyCapsule_GetPointer(capsule, NULL);
    Py_XDECREF(*data);
    PyMem_Free(data);
}

/* The function of the data in a capsule, whose reference it takes; None where C has no room for it; NULL where an error is set. */
PyObject *xf_make_function(PyObject *capsule, PyMethodDef *method, int has_room)
{
    PyObject *made = PyErr_Occurred() ? NULL : has_room ? PyCFunction_NewEx(method, capsule, NULL) : Py_NewRef(Py_None);
    Py_DECREF(capsule);
    return made;
}

/* --- calls of functions at addresses */

enum { MOST_ARGUMENTS = 4, MOST_ADDRESSES = 5, ORDERED = 10 };
enum { RECORD, WAIT, COPY, CURRENT, ENTER }; /* the functions of a copy behind another stream's work */

typedef struct {
    PyObject *kept;
    void *at[MOST_ADDRESSES];
    Py_ssize_t count; /* of arguments */
    int keeps_lock;
} function;

typedef int (*of_none)(void), (*of_one)(word), (*of_two)(word, word), (*of_three)(word, word, word);
typedef int (*of_four)(word, word, word, word), (*of_answer)(void **);

static int run(const function *f, const word *a)
{
    switch (f->count) {
    case 0: return ((of_none)f->at[0])();
    case 1: return ((of_one)f->at[0])(a[0]);
    case 2: return ((of_two)f->at[0])(a[0], a[1]);
    case 3: return ((of_three)f->at[0])(a[0], a[1], a[2]);
    default: return ((of_four)f->at[0])(a[0], a[1], a[2], a[3]);
    }
}

/* Read as many words as a function takes: whether that is possible. */
static int is_read(const function *f, PyObject *const *given, Py_ssize_t count, word *words)
{
    if (!f)
        return 0;
    if (count != f->count) {
        PyErr_Format(PyExc_TypeError, "the function takes %zd arguments, not %zd", f->count, count);
        return 0;
    }
    for (Py_ssize_t i = 0; i < count; ++i)
        if (!xf_is_word(given[i], &words[i]))
            return 0;
    return 1;
}

static PyObject *call(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    const function *f = PyCapsule_GetPointer(self, NULL);
    word words[MOST_ARGUMENTS] = {0};
    int result;
    if (!is_read(f, given, count, words))
        return NULL;
    if (f->keeps_lock)
        result = run(f, words);
    else
        WITHOUT_GIL(result = run(f, words));
    return PyLong_FromLong(result);
}

/* int f(void **pointer) -> the pointer that it writes, or 0 where it fails. */
static PyObject *ask(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    const function *f = PyCapsule_GetPointer(self, NULL);
    void *answer = NULL;
    if (!is_read(f, given, count, (word[1]){0}))
        return NULL;
    if (((of_answer)f->at[0])(&answer))
        answer = NULL;
    return PyLong_FromUnsignedLongLong((word)(uintptr_t)answer);
}

/* Make a context the thread's; 0 is any. `now` is the one that is. */
static int enter(const function *f, word context, word *now)
{
    int result = context && context != *now ? ((of_one)f->at[ENTER])(context) : 0;
    if (context && !result)
        *now = context;
    return result;
}

/* The copy, within the contexts of both streams; the caller leaves them. */
static int copy_in_contexts(const function *f, const word *a, word *now)
{
    int result;
    if ((result = enter(f, a[7], now)) || (result = ((of_two)f->at[RECORD])(a[4], a[3])) || (result = enter(f, a[8], now)) ||
        (result = ((of_three)f->at[WAIT])(a[5], a[4], 0)) || (result = ((of_four)f->at[COPY])(a[0], a[1], a[2], a[5])) ||
        (result = ((of_two)f->at[RECORD])(a[6], a[5])) || !a[9] || (result = enter(f, a[7], now)))
        return result;
    return ((of_three)f->at[WAIT])(a[3], a[6], 0);
}

/* (destination, source, bytes, stream to follow, event, stream of the copy, event after it, their contexts or 0 where no other
   can be current, whether the first stream waits for the copy) -> the driver's first result that is not 0: the copy waits for
   what the first stream has been given, by the first event, each step in the context of its stream. */
static PyObject *copy_behind(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    const function *f = PyCapsule_GetPointer(self, NULL);
    word a[ORDERED] = {0}, now;
    void *before = NULL;
    int result = 0, error = 0;
    if (!is_read(f, given, count, a))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    if (a[7] || a[8])
        result = ((of_answer)f->at[CURRENT])(&before);
    now = (word)(uintptr_t)before;
    if (!result)
        result = copy_in_contexts(f, a, &now);
    if (now != (word)(uintptr_t)before)
        error = ((of_one)f->at[ENTER])((word)(uintptr_t)before);
    Py_END_ALLOW_THREADS
    return PyLong_FromLong(result ? result : error);
}

/* (list of destinations, list of sources, list of sizes, stream) -> the driver's first result that is not 0. The GIL is
   released meanwhile: the driver blocks while the queue of the stream is full. */
static PyObject *copy_each(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    const function *f = PyCapsule_GetPointer(self, NULL);
    Py_ssize_t length;
    word stream, *words;
    int result = 0;
    if (!f)
        return NULL;
    if (count != 4 || !PyList_Check(given[0]) || !PyList_Check(given[1]) || !PyList_Check(given[2]) ||
        (length = PyList_Size(given[0])) != PyList_Size(given[1]) || length != PyList_Size(given[2]))
        return PyErr_Format(PyExc_TypeError, "copies take three lists of one length, and a stream");
    if (!xf_is_word(given[3], &stream))
        return NULL;
    words = malloc((size_t)(3 * length + 1) * sizeof *words);
    if (!words)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < 3 * length; ++i)
        if (!xf_is_word(PyList_GetItem(given[i % 3], i / 3), &words[i])) {
            free(words);
            return NULL;
        }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < length && !result; ++i)
        result = ((of_four)f->at[0])(words[3 * i], words[3 * i + 1], words[3 * i + 2], stream);
    Py_END_ALLOW_THREADS
    free(words);
    return PyLong_FromLong(result);
}

static struct {
    PyMethodDef method;
    int addresses;
} kinds[] = { /* by the numbers in xferlib/_native/__init__.py */
    {{"call", FAST(call)}, 1},
    {{"ask", FAST(ask)}, 1},
    {{"copy_behind", FAST(copy_behind)}, MOST_ADDRESSES},
    {{"copy_each", FAST(copy_each)}, 1},
};

/* (kind, number of its arguments, whether it keeps the GIL, addresses) -> a function that calls those at the addresses */
PyObject *xf_bind(PyObject *module, PyObject *arguments)
{
    unsigned long long at[MOST_ADDRESSES] = {0};
    int kind, is_given = 1;
    PyObject *capsule;
    function *f = xf_new_data(arguments, sizeof *f, xf_free_data, &capsule);
    (void)module;
    if (!f)
        return NULL;
    if (!PyArg_ParseTuple(arguments, "inpK|KKKK", &kind, &f->count, &f->keeps_lock, &at[0], &at[1], &at[2], &at[3], &at[4]))
        return xf_make_function(capsule, NULL, 0);
    if (kind < 0 || kind >= (int)(sizeof kinds / sizeof *kinds)) {
        PyErr_Format(PyExc_ValueError, "there are no functions of kind %d", kind);
        return xf_make_function(capsule, NULL, 0);
    }
    for (int i = 0; i < kinds[kind].addresses; ++i) {
        f->at[i] = (void *)(uintptr_t)at[i];
        is_given &= at[i] != 0;
    }
    if (!is_given || f->count < 0 || (f->count > MOST_ARGUMENTS && f->count != ORDERED))
        PyErr_Format(PyExc_ValueError, "%s needs an address and 0 to %d arguments for each function",
                     kinds[kind].method.ml_name, MOST_ARGUMENTS);
    return xf_make_function(capsule, &kinds[kind].method, 1);
}

/* --- where arrays lie */

/* Whether an array is plain bytes in C order, and in no memory map: then the caller releases `host`. An error may be set. */
int xf_is_plain_memory(PyObject *array, Py_buffer *host)
{
    if (xf_is_mapped(array))
        return 0;
    if (!PyObject_GetBuffer(array, host, PyBUF_SIMPLE))
        return 1;
    if (PyErr_ExceptionMatches(PyExc_ValueError) || PyErr_ExceptionMatches(PyExc_BufferError))
        PyErr_Clear();
    return 0;
}

/* An array -> the address of its bytes, or 0 where they are not plain bytes in C order, or lie in a memory map. */
PyObject *xf_address(PyObject *module, PyObject *array)
{
    Py_buffer host = {0};
    (void)module;
    if (xf_is_plain_memory(array, &host))
        PyBuffer_Release(&host); /* which leaves the address */
    return PyErr_Occurred() ? NULL : PyLong_FromUnsignedLongLong((word)(uintptr_t)host.buf);
}

/* --- a call between two others */

/* (before, function, after), none of which takes arguments -> the result of the function. Once `before` has been called `after` is,
   whatever fails. Python runs the handler of a signal between two steps of its own code, and there are none here: Ctrl-C may
   strike within a function that is written in Python, and so within `after`, which is called again then. */
PyObject *xf_call_between(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    PyObject *kind, *value, *traceback, *made = NULL;
    (void)module;
    if (count != 3)
        return PyErr_Format(PyExc_TypeError, "call_between takes three functions");
    if (is_done(PyObject_CallNoArgs(given[0])))
        made = PyObject_CallNoArgs(given[1]);
    PyErr_Fetch(&kind, &value, &traceback);
    if (!is_done(PyObject_CallNoArgs(given[2]))) {
        Py_CLEAR(made);
        if (kind) /* the first error is the one to tell */
            PyErr_Clear();
        else
            PyErr_Fetch(&kind, &value, &traceback);
        if (!is_done(PyObject_CallNoArgs(given[2])))
            PyErr_Clear();
    }
    if (kind)
        PyErr_Restore(kind, value, traceback);
    return made;
}

/* --- get_array_module: the namespace of arrays, by two dictionaries of exact types; what those do not have is looked up in
   Python, which fills them */

typedef struct {
    PyMethodDef method;
    PyObject *by_type;    /* dict: exact type -> backend, or None for what is no array */
    PyObject *namespaces; /* dict: exact type -> namespace, for some types of the other */
    PyObject *look_up;    /* does the same for any arguments, and fills the tables */
} dispatch;               /* the module's state; both live as long as the process */

static int is_scalar(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    return object == Py_None || type == &PyFloat_Type || type == &PyLong_Type || type == &PyComplex_Type || type == &PyBool_Type;
}

/* The namespace of arrays of known types, of one backend, among scalars. */
static PyObject *namespace_of(PyObject *module, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    const dispatch *d = PyModule_GetState(module);
    PyObject *decides = NULL, *found;
    if (names) /* which it refuses */
        return xf_call_with_names(d->look_up, given, count, names);
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject *type = (PyObject *)Py_TYPE(given[i]);
        if (type == decides || is_scalar(given[i]))
            continue;
        found = decides ? PyDict_GetItemWithError(d->by_type, type) : NULL;
        if (decides && (!found || found != PyDict_GetItemWithError(d->by_type, decides))) {
            decides = NULL;
            break;
        }
        decides = type;
    }
    found = decides ? PyDict_GetItemWithError(d->namespaces, decides) : NULL;
    if (found || PyErr_Occurred()) /* a metaclass may hash as it likes */
        return Py_XNewRef(found);
    return xf_call(d->look_up, given, count);
}

/* (by_type, namespaces, look_up, name of its module, docstring) -> the function */
PyObject *xf_bind_namespaces(PyObject *module, PyObject *arguments)
{
    dispatch *d = PyModule_GetState(module);
    PyObject *name, *doc;
    if (!PyArg_ParseTuple(arguments, "O!O!OUU", &PyDict_Type, &d->by_type, &PyDict_Type, &d->namespaces, &d->look_up, &name, &doc))
        return NULL;
    d->method = (PyMethodDef){"get_array_module", (PyCFunction)(void (*)(void))namespace_of,
                              METH_FASTCALL | METH_KEYWORDS, PyUnicode_AsUTF8AndSize(doc, NULL)};
    Py_INCREF(arguments); /* which holds all of them */
    return d->method.ml_doc ? PyCFunction_NewEx(&d->method, module, name) : NULL;
}

/* --- the module */

#define OF_TUPLE(name) {#name, xf_##name, METH_VARARGS, NULL},
#define OF_OBJECT(name) {#name, xf_##name, METH_O, NULL},
#define OF_NOTHING(name) {#name, xf_##name, METH_NOARGS, NULL},
#define OF_ARRAY(name) {#name, FAST(xf_##name)},
static PyMethodDef methods[] = { /* each is described above its code */
    XF_OF_TUPLE(OF_TUPLE) XF_OF_OBJECT(OF_OBJECT) XF_OF_NOTHING(OF_NOTHING) XF_OF_ARRAY(OF_ARRAY) {NULL, NULL, 0, NULL},
};

static int begin(PyObject *module)
{
    PyObject *found = PyLong_FromUnsignedLong(xf_fingerprint);
    int result = found ? PyObject_SetAttrString(module, "fingerprint", found) : -1;
    Py_XDECREF(found);
    return result || xf_add_lease(module) || xf_add_owner(module) ? -1 : xf_add_batches(module);
}

/* No slot Py_mod_gil: the module needs the GIL. Tables of forms, prepared calls, leases and streams of random numbers have
   no locks; they are read and changed with the GIL held. Where it is released, by WITHOUT_GIL or PyEval_SaveThread, what is
   used meanwhile has been copied, or a reference holds it. A free-threaded Python is refused, in xferlib/_runtime/supported.py:
   it loads no extension of the stable ABI before 3.15, and what is written in Python needs the GIL as well. */
static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)begin}, {0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_calls", NULL, sizeof(dispatch), methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__calls(void)
{
    return PyModuleDef_Init(&definition);
}
