/* The lease of a block of the pinned pool: the object that NumPy's arrays over the block keep alive.

   A new pinned result takes a lease, and its death gives the block back: both are in every iteration of a loop. In Python
   that is an object of ctypes, a weak reference with a callback, and the pool's lock and books, 2.5 us together. Here a
   lease is some words, and goes back by itself: to the pool's list of free blocks where no copy is in flight, else to the
   pool's list of the dead, whose events Python looks at. Each of the two steps is one call of C with the GIL held, so
   neither Ctrl-C nor another thread can come in between.

   xferlib/_memory/pinned.py has the rules. */

#include "calls.h"

#include <stddef.h>
#include <structmember.h>

typedef struct {
    PyObject_HEAD
    PyObject *block;    /* the pool's own object; NULL after a failure in xf_lend() */
    PyObject *free;     /* list: free blocks of this size */
    PyObject *dead;     /* list-like: blocks whose lease has died while copies may use them */
    PyObject *weak;     /* references to this object */
    void *memory;
    Py_ssize_t nbytes;
} Lease;

static PyObject *events_name, *user_name, *pointer_name, *nbytes_name; /* of attributes of a block; interned, for the life of the process */

/* Whether no event of a copy is noted for the block; -1 with an error set. */
static int is_quiet(PyObject *block)
{
    PyObject *events = PyObject_GetAttr(block, events_name);
    Py_ssize_t length;
    if (!events)
        return -1;
    length = PyList_Size(events);
    Py_DECREF(events);
    return length < 0 ? -1 : length == 0;
}

static int give_back(const Lease *lease)
{
    int quiet = is_quiet(lease->block);
    PyObject *result;
    if (quiet < 0)
        return -1;
    if (quiet) {
        if (PyObject_SetAttr(lease->block, user_name, Py_None))
            return -1;
        return PyList_Append(lease->free, lease->block);
    }
    result = PyObject_CallMethod(lease->dead, "append", "O", lease->block);
    Py_XDECREF(result);
    return result ? 0 : -1;
}

static void lease_dealloc(PyObject *self)
{
    Lease *lease = (Lease *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback); /* an array may die while an error is on its way */
    if (lease->weak)
        PyObject_ClearWeakRefs(self);
    if (lease->block && give_back(lease))
        PyErr_WriteUnraisable(lease->block);
    PyErr_Restore(kind, value, traceback);
    Py_XDECREF(lease->block);
    Py_XDECREF(lease->free);
    Py_XDECREF(lease->dead);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static int lease_buffer(PyObject *self, Py_buffer *view, int flags)
{
    Lease *lease = (Lease *)self;
    return PyBuffer_FillInfo(view, self, lease->memory, lease->nbytes, 0, flags);
}

static PyMemberDef members[] = {
    {"_block", T_OBJECT_EX, offsetof(Lease, block), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Lease, weak), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot lease_slots[] = {
    {Py_tp_dealloc, (void *)lease_dealloc},
    {Py_tp_members, members},
    {Py_bf_getbuffer, (void *)lease_buffer},
    {0, NULL},
};
static PyType_Spec spec = {
    "xferlib._native._calls.Lease", sizeof(Lease), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    lease_slots,
};

/* Add the type to the module. */
int xf_add_lease(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&spec);
    int result;
    events_name = PyUnicode_InternFromString("events");
    user_name = PyUnicode_InternFromString("user");
    pointer_name = PyUnicode_InternFromString("pointer");
    nbytes_name = PyUnicode_InternFromString("nbytes");
    if (!type || !events_name || !user_name || !pointer_name || !nbytes_name)
        return -1;
    result = PyObject_SetAttrString(module, "Lease", type);
    Py_DECREF(type);
    return result;
}

void *xf_leased_memory(PyObject *lease)
{
    return ((Lease *)lease)->memory;
}

/* (a subclass of Lease, list of free blocks, list-like of the dead) -> a lease of the last free block, which names it as
   its user; None where none is free. Where there is no memory for it the block stays free. */
PyObject *xf_lend(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    Py_ssize_t length;
    word address = 0, nbytes = 0;
    PyObject *block, *user = NULL;
    PyTypeObject *type;
    Lease *lease;
    (void)module;
    if (count != 3 || !PyType_Check(given[0]) || !PyList_Check(given[1]))
        return PyErr_Format(PyExc_TypeError, "lend takes a type of leases and two lists");
    type = (PyTypeObject *)given[0];
    length = PyList_Size(given[1]);
    if (!length)
        Py_RETURN_NONE;
    block = Py_XNewRef(PyList_GetItem(given[1], length - 1));
    if (!block || PyList_SetSlice(given[1], length - 1, length, NULL)) {
        Py_XDECREF(block);
        return NULL;
    }
    /* It is out of the list before anything is allocated: that may collect garbage, and run a finalizer that takes one. */
    lease = (Lease *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0); /* all zero, but for the head */
    user = lease ? PyWeakref_NewRef((PyObject *)lease, NULL) : NULL;
    if (!user || !xf_read_word(block, pointer_name, &address) || !xf_read_word(block, nbytes_name, &nbytes) ||
        PyObject_SetAttr(block, user_name, user)) {
        PyObject *kind, *value, *traceback;
        PyErr_Fetch(&kind, &value, &traceback);
        if (PyList_Append(given[1], block))
            PyErr_WriteUnraisable(block);
        PyErr_Restore(kind, value, traceback);
        Py_XDECREF(user);
        Py_XDECREF((PyObject *)lease);
        Py_DECREF(block);
        return NULL;
    }
    Py_DECREF(user);
    lease->memory = (void *)(uintptr_t)address;
    lease->nbytes = (Py_ssize_t)nbytes;
    lease->free = Py_NewRef(given[1]);
    lease->dead = Py_NewRef(given[2]);
    lease->block = block; /* last: from now on its death gives the block back */
    return (PyObject *)lease;
}
