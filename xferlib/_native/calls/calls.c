/* The extension module `_calls`, and calls of C functions by address, for a twentieth of what ctypes takes.

   A module of CPython's limited API (3.11), compiled where the CPython headers are; without it ctypes, or
   Python, does the same. It knows no CUDA: the caller gives the addresses of the driver's functions.

   Blocking. A driver call that only enqueues still blocks while the stream's queue is full, and a query blocks behind a
   thread that does so inside the driver. If the device waits there for a host function that needs the GIL, a caller that
   holds the GIL waits for ever. Every call of the driver therefore releases it, except those that read what belongs to the
   calling thread or is constant. */

#include "../replay/replay.h"

#define MOST_ARGUMENTS 4

extern const unsigned int xf_fingerprint; /* of this source: the build adds it */

/* --- one call */

typedef struct {
    void *address;
    Py_ssize_t count;
    int keeps_lock;
} function;

static int called(const function *f, const word *a)
{
    switch (f->count) {
    case 0: return ((int (*)(void))f->address)();
    case 1: return ((int (*)(word))f->address)(a[0]);
    case 2: return ((int (*)(word, word))f->address)(a[0], a[1]);
    case 3: return ((int (*)(word, word, word))f->address)(a[0], a[1], a[2]);
    default: return ((int (*)(word, word, word, word))f->address)(a[0], a[1], a[2], a[3]);
    }
}

int xf_is_word(PyObject *given, word *found)
{
    *found = PyLong_AsUnsignedLongLong(given);
    return *found != (word)-1 || !PyErr_Occurred();
}

static PyObject *call(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    const function *f = PyCapsule_GetPointer(self, NULL);
    word words[MOST_ARGUMENTS];
    int result;
    if (!f)
        return NULL;
    if (count != f->count)
        return PyErr_Format(PyExc_TypeError, "the function takes %zd arguments, not %zd", f->count, count);
    for (Py_ssize_t i = 0; i < count; ++i)
        if (!xf_is_word(given[i], &words[i]))
            return NULL;
    if (f->keeps_lock) {
        result = called(f, words);
    } else {
        Py_BEGIN_ALLOW_THREADS
        result = called(f, words);
        Py_END_ALLOW_THREADS
    }
    return PyLong_FromLong(result);
}

/* int f(void **pointer) -> the pointer that it writes, or 0 where it fails. */
static PyObject *ask(PyObject *self, PyObject *ignored)
{
    const function *f = PyCapsule_GetPointer(self, NULL);
    void *answer = NULL;
    (void)ignored;
    if (!f)
        return NULL;
    if (((int (*)(void **))f->address)(&answer))
        answer = NULL;
    return PyLong_FromUnsignedLongLong((word)(uintptr_t)answer);
}

/* --- where arrays lie */

/* An array -> the address of its bytes, or 0 where they are not plain bytes in C order, or lie in a memory map. */
static PyObject *address(PyObject *module, PyObject *array)
{
    Py_buffer host;
    word found;
    (void)module;
    if (xf_is_mapped(array))
        return PyLong_FromLong(0);
    if (PyObject_GetBuffer(array, &host, PyBUF_SIMPLE)) {
        if (!PyErr_ExceptionMatches(PyExc_ValueError) && !PyErr_ExceptionMatches(PyExc_BufferError))
            return NULL;
        PyErr_Clear();
        return PyLong_FromLong(0);
    }
    found = (word)(uintptr_t)host.buf;
    PyBuffer_Release(&host);
    return PyLong_FromUnsignedLongLong(found);
}

/* --- making them */

static void freed(PyObject *capsule)
{
    PyMem_Free(PyCapsule_GetPointer(capsule, NULL));
}

static PyMethodDef one_call = {"call", (PyCFunction)(void (*)(void))call, METH_FASTCALL, NULL};
static PyMethodDef one_question = {"ask", ask, METH_NOARGS, NULL};
static PyMethodDef one_courier = {"copy_behind", (PyCFunction)(void (*)(void))xf_copy_behind, METH_FASTCALL, NULL};
static PyMethodDef many_copies = {"copy_each", (PyCFunction)(void (*)(void))xf_copy_each, METH_FASTCALL, NULL};

static PyObject *bound(PyMethodDef *method, const void *content, size_t nbytes)
{
    void *kept = PyMem_Malloc(nbytes);
    PyObject *capsule, *made;
    if (!kept)
        return PyErr_NoMemory();
    for (size_t i = 0; i < nbytes; ++i)
        ((char *)kept)[i] = ((const char *)content)[i];
    capsule = PyCapsule_New(kept, NULL, freed);
    if (!capsule) {
        PyMem_Free(kept);
        return NULL;
    }
    made = PyCFunction_NewEx(method, capsule, NULL);
    Py_DECREF(capsule);
    return made;
}

static PyObject *bind(PyObject *module, PyObject *arguments)
{
    unsigned long long address;
    function f = {0};
    (void)module;
    if (!PyArg_ParseTuple(arguments, "Knp", &address, &f.count, &f.keeps_lock))
        return NULL;
    if (!address || f.count < 0 || f.count > MOST_ARGUMENTS)
        return PyErr_Format(PyExc_ValueError, "address %llu with %zd arguments: needs an address and 0 to %d", address,
                            f.count, MOST_ARGUMENTS);
    f.address = (void *)(uintptr_t)address;
    return bound(&one_call, &f, sizeof f);
}

static PyObject *bind_question(PyObject *module, PyObject *arguments)
{
    unsigned long long address;
    function f = {0};
    (void)module;
    if (!PyArg_ParseTuple(arguments, "K", &address))
        return NULL;
    if (!address)
        return PyErr_Format(PyExc_ValueError, "a question needs the address of a function");
    f.address = (void *)(uintptr_t)address;
    return bound(&one_question, &f, sizeof f);
}

static PyObject *bind_copy_behind(PyObject *module, PyObject *arguments)
{
    unsigned long long record, wait, copy, current, enter;
    courier c;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "KKKKK", &record, &wait, &copy, &current, &enter))
        return NULL;
    if (!record || !wait || !copy || !current || !enter)
        return PyErr_Format(PyExc_ValueError, "a copy between streams needs the addresses of five functions");
    c.record = (int (*)(word, word))(uintptr_t)record;
    c.wait = (int (*)(word, word, word))(uintptr_t)wait;
    c.copy = (int (*)(word, word, word, word))(uintptr_t)copy;
    c.current = (int (*)(void **))(uintptr_t)current;
    c.enter = (int (*)(void *))(uintptr_t)enter;
    return bound(&one_courier, &c, sizeof c);
}

static PyObject *bind_copy_each(PyObject *module, PyObject *arguments)
{
    unsigned long long copy;
    CopyEach c;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "K", &copy))
        return NULL;
    if (!copy)
        return PyErr_Format(PyExc_ValueError, "copies need the address of a function");
    c.copy = (int (*)(uint64_t, uint64_t, uint64_t, uint64_t))(uintptr_t)copy;
    return bound(&many_copies, &c, sizeof c);
}

static PyMethodDef methods[] = {
    {"bind", bind, METH_VARARGS,
     "bind(address, count, keeps_lock): call the C function there, of `count` 64-bit arguments, that returns an int."},
    {"bind_question", bind_question, METH_VARARGS,
     "bind_question(address): call `int f(void **)` there; returns what it writes, or 0 where it fails."},
    {"bind_copy_behind", bind_copy_behind, METH_VARARGS,
     "bind_copy_behind(record, wait, copy, current, enter): a copy on one stream behind another one's work, with an event after it."},
    {"flat", (PyCFunction)(void (*)(void))xf_flat, METH_FASTCALL,
     "flat(tree, arrays, others): the leaves of plain containers; None where there are others."},
    {"rebuilt", (PyCFunction)(void (*)(void))xf_rebuilt, METH_FASTCALL,
     "rebuilt(tree, leaves): the same containers with other leaves."},
    {"is_distinct", xf_is_distinct, METH_O, "is_distinct(list): whether no object is in it twice."},
    {"copied", (PyCFunction)(void (*)(void))xf_copied, METH_FASTCALL,
     "copied(list, most): the list, with copies of the small arrays in it; how many are none."},
    {"locate", (PyCFunction)(void (*)(void))xf_locate, METH_FASTCALL,
     "locate(arrays, places, parts): write where arrays lie; how many are not plain bytes."},
    {"bind_copy_each", bind_copy_each, METH_VARARGS,
     "bind_copy_each(copy): many copies on one stream, in one call."},
    {"address", address, METH_O,
     "address(array): where its bytes lie; 0 where they are not plain bytes in C order."},
    {"bind_namespaces", xf_bind_namespaces, METH_VARARGS,
     "bind_namespaces(by_type, namespaces, look_up, module, doc): get_array_module, by two tables of exact types."},
    {"bind_replay", xf_bind_replay, METH_VARARGS,
     "bind_replay(objects, elements, numpy, module, docs): to_device and to_host."},
    {"add_library", xf_add_library, METH_VARARGS,
     "add_library(type, is_known, exchange, functions, dtypes): its number."},
    {"add_device", xf_add_device, METH_VARARGS,
     "add_device(device, library, index, kind, functions, addresses, context): its number."},
    {"fetch_pinned", xf_fetch_pinned, METH_O,
     "fetch_pinned(arrays): their elements in pinned memory; None, and nothing done, where Python is to do it."},
    {"forget_devices", xf_forget_devices, METH_NOARGS, "forget_devices(): know no library and no device any more."},
    {"lend", (PyCFunction)(void (*)(void))xf_lend, METH_FASTCALL,
     "lend(type, free, dead): a lease of the last free block of the pinned pool; None where none is free."},
    {"bind_alike", xf_bind_alike, METH_VARARGS,
     "bind_alike(types, names, values): whether arrays are of these types, and their attributes have these values."},
    {"bind_plain", xf_bind_plain, METH_VARARGS,
     "bind_plain(check, flag, table, key, state): what check says of arrays; False where they, or their library, are special."},
    {"bind_launch", xf_bind_launch, METH_VARARGS,
     "bind_launch(launch, kernel, config, stream_at, matches, names, is_method, note, fields): a checked launch, repeated."},
    {"guard_thread", xf_guard_thread, METH_NOARGS,
     "guard_thread(): a thread that ends after end_threads() stops instead; whether that can be done here."},
    {"end_threads", xf_end_threads, METH_NOARGS, "end_threads(): guarded threads, but this one, do not end any more; none ends the process."},
    {NULL, NULL, 0, NULL},
};

static int begin(PyObject *module)
{
    PyObject *found = PyLong_FromUnsignedLong(xf_fingerprint);
    int result = found ? PyObject_SetAttrString(module, "fingerprint", found) : -1;
    Py_XDECREF(found);
    return result ? result : xf_add_lease(module);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)begin}, {0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_calls", NULL, sizeof(dispatch), methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__calls(void)
{
    return PyModuleDef_Init(&definition);
}
