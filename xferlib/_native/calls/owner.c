/* The owner of device memory on a stream of the program's own, which frees it behind the work of each stream that uses it.

   Most arrays die where they were made: nothing is to be waited for, and their owner is some words, where a guard in Python
   takes longer than the driver's copy of a small array. If another stream is current, on which the library itself may have
   used the memory, the memory's stream waits for that one here, by two calls of the driver. In all other cases there is a
   guard, made when the first of them occurs, which has all the rules: see `Guard` in xferlib/backends/cuda/memory.py. */

#include "calls.h"

#include <stddef.h>
#include <structmember.h>

#ifndef _WIN32
#include <pthread.h>
#endif

enum { PER_THREAD = 2 }; /* up to here CUDA's handles are names of default streams */

typedef struct { /* makes a stream wait for another one */
    PyObject *kept;                       /* holds all objects here */
    int (*record)(word, word);            /* event, stream */
    int (*wait)(word, word, unsigned);    /* stream, event, flags */
    PyObject *idle;                       /* list: handles of events that may be recorded anew, which no wait minds */
    PyObject *captures;                   /* list: anything in it leaves the matter to Python */
    PyObject *make_guard;                 /* (stream) -> a guard of no memory yet */
    PyObject *handle_of, *device;         /* the handle of the device's current stream */
    PyObject *is_inside, *is_finalizing;  /* (device) -> whether its context is current, None: there is one; () */
} orderer;

typedef struct {
    PyObject_HEAD
    PyObject *capsule;            /* of the orderer */
    PyObject *allocation;         /* NULL: the guard has it */
    PyObject *stream;
    PyObject *guard;              /* NULL: there is none yet */
    unsigned long long handle;    /* of the stream */
    unsigned forks;               /* before it was made */
} Owner;

static PyTypeObject *owner_type;
static PyObject *handle_name, *device_name, *capture_name, *allocation_name, *used_on_name; /* interned */
static unsigned forks;

/* Let the stream `own` wait for what `user` has been given: 1 if it does, 0 where Python is to do it; -1 with an error set. */
static int order(const orderer *o, word user, word own)
{
    Py_ssize_t length = PyList_Size(o->idle);
    PyObject *event;
    word handle;
    int result;
    if (!o->record || !o->wait || !length || PyList_Size(o->captures) || (user && user <= PER_THREAD))
        return 0;
    event = Py_XNewRef(PyList_GetItem(o->idle, length - 1));
    if (!event || PyList_SetSlice(o->idle, length - 1, length, NULL) || !xf_is_word(event, &handle)) {
        Py_XDECREF(event);
        return -1;
    }
    Py_BEGIN_ALLOW_THREADS
    result = o->record(handle, user);
    if (!result)
        result = o->wait(own, handle, 0);
    Py_END_ALLOW_THREADS
    length = PyList_Append(o->idle, event);
    Py_DECREF(event);
    return length ? -1 : !result;
}

/* Whether a stream is free of captures, and the context is its device's; with the handle of the current stream. */
static int is_plain(const orderer *o, PyObject *stream, word *current)
{
    PyObject *answer = PyObject_GetAttr(stream, capture_name);
    int is_true = answer == Py_None;
    Py_XDECREF(answer);
    if (is_true && o->is_inside != Py_None) {
        answer = xf_call(o->is_inside, &o->device, 1);
        is_true = answer == Py_True;
        Py_XDECREF(answer);
    }
    if (!is_true)
        return 0;
    answer = xf_call(o->handle_of, &o->device, 1);
    is_true = answer && xf_is_word(answer, current);
    Py_XDECREF(answer);
    return is_true;
}

/* Whether the memory may be given back to its stream: 0 where Python is to do it, or an error is set. */
static int is_over(const Owner *self)
{
    const orderer *o = PyCapsule_GetPointer(self->capsule, NULL);
    PyObject *answer = PyObject_CallNoArgs(o->is_finalizing);
    int is_running = answer == Py_False;
    word current;
    Py_XDECREF(answer);
    return is_running && is_plain(o, self->stream, &current) &&
           (current == self->handle || order(o, current, self->handle) > 0);
}

/* Give the memory to a guard: whether it has it. Another thread may give it one meanwhile. */
static int is_guarded(Owner *self)
{
    const orderer *o = PyCapsule_GetPointer(self->capsule, NULL);
    PyObject *made = self->guard ? NULL : PyObject_CallFunctionObjArgs(o->make_guard, self->stream, NULL);
    if (made && !self->guard && !PyObject_SetAttr(made, allocation_name, self->allocation)) {
        self->guard = Py_NewRef(made);
        Py_CLEAR(self->allocation);
    }
    Py_XDECREF(made);
    return self->guard != NULL;
}

static void owner_dealloc(PyObject *object)
{
    Owner *self = (Owner *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback); /* an array may die while an error is on its way */
    if (self->allocation && self->forks != forks)
        self->allocation = NULL; /* the parent's: a forked child must not touch the driver */
    if (self->allocation && !is_over(self)) {
        if (PyErr_Occurred())
            PyErr_WriteUnraisable(NULL);
        if (!is_guarded(self)) {
            PyErr_Clear();
            self->allocation = NULL; /* the context is going away, and the memory with it */
        }
    }
    Py_XDECREF(self->allocation);
    Py_XDECREF(self->guard);
    PyErr_Restore(kind, value, traceback);
    Py_XDECREF(self->stream);
    Py_XDECREF(self->capsule);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

/* (stream): note that the memory must outlive the work enqueued so far there. */
static PyObject *used_on(PyObject *object, PyObject *stream)
{
    Owner *self = (Owner *)object;
    PyObject *devices[2];
    word found = 0;
    int is_own = xf_read_word(stream, handle_name, &found) && found == self->handle;
    if (PyErr_Occurred())
        return NULL;
    if (is_own) { /* the default streams of all devices have one handle */
        devices[0] = PyObject_GetAttr(stream, device_name);
        devices[1] = PyObject_GetAttr(self->stream, device_name);
        is_own = devices[0] && devices[0] == devices[1];
        Py_XDECREF(devices[0]);
        Py_XDECREF(devices[1]);
        if (PyErr_Occurred())
            return NULL;
    }
    if (is_own)
        Py_RETURN_NONE;
    return is_guarded(self) ? PyObject_CallMethodObjArgs(self->guard, used_on_name, stream, NULL) : NULL;
}

static PyMethodDef methods[] = {{"used_on", used_on, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static PyMemberDef members[] = {
    {"handle", T_ULONGLONG, offsetof(Owner, handle), READONLY, NULL},
    {"guard", T_OBJECT, offsetof(Owner, guard), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PyType_Slot slots[] = {{Py_tp_dealloc, (void *)owner_dealloc}, {Py_tp_methods, methods}, {Py_tp_members, members}, {0, NULL}};
static PyType_Spec spec = {
    "xferlib._native._calls.Owner", sizeof(Owner), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots,
};

/* (allocation, stream) -> its owner */
static PyObject *own(PyObject *capsule, PyObject *const *given, Py_ssize_t count)
{
    Owner *made;
    word found;
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "an owner takes an allocation and a stream");
    if (!xf_read_word(given[1], handle_name, &found) || !(made = (Owner *)((allocfunc)PyType_GetSlot(owner_type, Py_tp_alloc))(owner_type, 0)))
        return NULL;
    made->handle = found;
    made->forks = forks;
    made->capsule = Py_NewRef(capsule);
    made->allocation = Py_NewRef(given[0]);
    made->stream = Py_NewRef(given[1]);
    return (PyObject *)made;
}

/* (stream) -> whether it follows all that may have used its memory unnoted: the default stream's work, if that is the current one
   or the stream itself is. It waits for that now. False: Python is to do it. */
static PyObject *is_behind(PyObject *capsule, PyObject *stream)
{
    const orderer *o = PyCapsule_GetPointer(capsule, NULL);
    word handle, current;
    int result;
    if (!is_plain(o, stream, &current))
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_False);
    if (!xf_read_word(stream, handle_name, &handle))
        return NULL;
    if (current && current != handle)
        Py_RETURN_FALSE;
    result = handle ? order(o, 0, handle) : !current;
    return result < 0 ? NULL : PyBool_FromLong(result);
}

/* (addresses of the driver's functions that record an event and let a stream wait for one, list of handles of idle events, list of
   captures, what makes a guard of no memory, what tells the current stream's handle, device, what tells whether that is
   current or None, what tells whether the interpreter ends) -> (own, is_behind) */
PyObject *xf_bind_owner(PyObject *module, PyObject *arguments)
{
    static PyMethodDef functions[] = {
        {"own", FAST(own)},
        {"is_behind", is_behind, METH_O, NULL},
    };
    unsigned long long record, wait;
    PyObject *capsule, *made = NULL;
    orderer *o = xf_new_data(arguments, sizeof *o, xf_free_data, &capsule);
    (void)module;
    if (!o)
        return NULL;
    if (PyArg_ParseTuple(arguments, "KKO!O!OOOOO", &record, &wait, &PyList_Type, &o->idle, &PyList_Type, &o->captures, &o->make_guard,
                         &o->handle_of, &o->device, &o->is_inside, &o->is_finalizing)) {
        o->record = (int (*)(word, word))(uintptr_t)record;
        o->wait = (int (*)(word, word, unsigned))(uintptr_t)wait;
        made = Py_BuildValue("(NN)", PyCFunction_NewEx(&functions[0], capsule, NULL), PyCFunction_NewEx(&functions[1], capsule, NULL));
    }
    Py_DECREF(capsule);
    return made;
}

#ifndef _WIN32
static void note_fork(void)
{
    ++forks;
}
#endif

/* Add the type to the module. */
int xf_add_owner(PyObject *module)
{
    static struct {
        PyObject **name;
        const char *text;
    } names[] = {{&handle_name, "handle"}, {&device_name, "device"}, {&capture_name, "capture"}, {&allocation_name, "allocation"},
                 {&used_on_name, "used_on"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
        if (!*names[i].name && !(*names[i].name = PyUnicode_InternFromString(names[i].text)))
            return -1;
    if (!owner_type) {
#ifndef _WIN32
        if (pthread_atfork(NULL, NULL, note_fork)) {
            PyErr_NoMemory();
            return -1;
        }
#endif
        owner_type = (PyTypeObject *)PyType_FromSpec(&spec);
    }
    return owner_type ? PyObject_SetAttrString(module, "Owner", (PyObject *)owner_type) : -1;
}
