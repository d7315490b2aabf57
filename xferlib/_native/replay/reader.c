/* The next batch of a loop, in one call of C: an array of a list, or of an iterator, is copied on the consumer's stream when
   its turn comes, as a plain loop would do it.

   In Python the steps from the loop to that copy are four calls, which take 1 us by themselves and 8 between kernels, where their
   code and objects have left the processor's caches: a quarter of what 64 KiB take to reach a GPU. Whatever is not usual is
   left, with nothing done, to the feed in Python, which sets `is_free` once an array has gone this way: another kind of item, a
   larger one, a closed feed, an error.

   xferlib/_pipeline/feeds.py has the rules. */

#include "replay.h"

#include "../staging/threads.h"

#include <stddef.h>
#include <structmember.h>

typedef struct {
    PyObject_HEAD
    PyObject *items;              /* list or tuple; NULL: an iterator gives them */
    PyObject *run, *next, *source; /* source: asked by run(next, source), in the context of who made the feed; NULL: it has ended */
    PyObject *device;
    PyObject *acquire, *release; /* of the feed's turn */
    PyObject *pinned;            /* list of sources whose copies no event follows; None: each item is read on return */
    PyObject *held;              /* an item that has been read, until it is handed out */
    PyObject *error;             /* that the source has raised, for the feed to raise */
    unsigned long long stream;   /* that the pinned sources are read on */
    Py_ssize_t number, most, followed; /* batches handed out; bytes of the largest array; pinned sources that may be without an event */
    long long work_ns, left_ns, hidden_ns; /* how long the last batch took, when it was handed out, and from when a thread pays */
    char is_free, is_open, is_hidden; /* is_hidden: take() found that a thread pays */
} Reader;

typedef struct {
    PyObject_HEAD
    PyObject *reader, *fallback;
} Iteration;

static PyObject *reader_type, *iteration_type;

/* Put a new reference into a field. */
static void set(PyObject **field, PyObject *value)
{
    PyObject *before = *field;
    *field = value;
    Py_XDECREF(before);
}

static int visit_reader(PyObject *self, visitproc visit, void *arg)
{
    Reader *r = (Reader *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(r->items);
    Py_VISIT(r->run);
    Py_VISIT(r->next);
    Py_VISIT(r->source);
    Py_VISIT(r->device);
    Py_VISIT(r->acquire);
    Py_VISIT(r->release);
    Py_VISIT(r->pinned);
    Py_VISIT(r->held);
    Py_VISIT(r->error);
    return 0;
}

static int clear_reader(PyObject *self)
{
    Reader *r = (Reader *)self;
    Py_CLEAR(r->items);
    Py_CLEAR(r->run);
    Py_CLEAR(r->next);
    Py_CLEAR(r->source);
    Py_CLEAR(r->device);
    Py_CLEAR(r->acquire);
    Py_CLEAR(r->release);
    Py_CLEAR(r->pinned);
    Py_CLEAR(r->held);
    Py_CLEAR(r->error);
    return 0;
}

static int visit_iteration(PyObject *self, visitproc visit, void *arg)
{
    Iteration *i = (Iteration *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(i->reader);
    Py_VISIT(i->fallback);
    return 0;
}

static int clear_iteration(PyObject *self)
{
    Iteration *i = (Iteration *)self;
    Py_CLEAR(i->reader);
    Py_CLEAR(i->fallback);
    return 0;
}

static void deallocate(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    ((inquiry)PyType_GetSlot(type, Py_tp_clear))(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* The next item, a new reference: NULL where there is none, or with the source's error set. */
static PyObject *read_item(Reader *r)
{
    PyObject *items = r->items;
    if (items) {
        int is_list = PyList_CheckExact(items);
        if (r->number >= (is_list ? PyList_Size(items) : PyTuple_Size(items)))
            return NULL;
        return Py_XNewRef(is_list ? PyList_GetItem(items, r->number) : PyTuple_GetItem(items, r->number));
    }
    if (!r->held && r->source) {
        PyObject *source = Py_NewRef(r->source); /* another thread may close the feed meanwhile */
        PyObject *item = PyObject_CallFunctionObjArgs(r->run, r->next, source, NULL);
        Py_DECREF(source);
        set(&r->held, item);
    }
    return Py_XNewRef(r->held);
}

/* Hand the next batch out; NULL without an error where Python is to do it. */
static PyObject *take(Reader *r)
{
    long long begun = 0;
    PyObject *item, *value = NULL;
    if (r->error) {
        PyErr_SetObject((PyObject *)Py_TYPE(r->error), r->error);
        Py_CLEAR(r->error);
        return NULL;
    }
    if (!r->is_open || (r->items && PyList_Check(r->pinned) && PyList_Size(r->pinned) >= r->followed))
        return NULL;
    if (!r->items) {
        long long rest;
        begun = now_ns();
        rest = begun - r->left_ns;
        r->is_hidden = (rest < r->work_ns ? rest : r->work_ns) > r->hidden_ns;
        if (r->is_hidden)
            return NULL;
    }
    item = read_item(r);
    if (item && r->is_open && is_of(item, replay.ndarray))
        value = xf_hand_over(item, r->device, r->stream, r->pinned, r->most);
    Py_XDECREF(item);
    if (!value)
        return NULL;
    if (!r->is_open) {
        Py_DECREF(value);
        return NULL;
    }
    ++r->number;
    Py_CLEAR(r->held);
    if (!r->items) {
        r->left_ns = now_ns();
        r->work_ns = r->left_ns - begun;
    }
    return value;
}

/* () -> a tuple of the item that is held, if any, which is not held any more; and the source is let go. */
static PyObject *reader_end(PyObject *self, PyObject *ignored)
{
    Reader *r = (Reader *)self;
    PyObject *found = PyTuple_New(r->held != NULL);
    (void)ignored;
    if (found && r->held) {
        PyTuple_SetItem(found, 0, r->held);
        r->held = NULL;
    }
    set(&r->source, NULL);
    return found;
}

/* () -> the next batch; None where Python is to hand it out. With the feed's turn taken. */
static PyObject *reader_take(PyObject *self, PyObject *ignored)
{
    PyObject *value = take((Reader *)self);
    (void)ignored;
    return value || PyErr_Occurred() ? value : Py_NewRef(Py_None);
}

/* The same, with the turn taken meanwhile, where batches go this way; an error of the source is kept for the feed to raise. */
static PyObject *take_in_turn(Reader *r)
{
    PyObject *value = NULL, *turn, *kind, *error, *traceback;
    if (!r->is_free)
        return NULL;
    if (!(turn = PyObject_CallNoArgs(r->acquire)))
        return NULL;
    Py_DECREF(turn);
    if (r->is_free)
        value = take(r);
    PyErr_Fetch(&kind, &error, &traceback);
    if (kind) {
        PyErr_NormalizeException(&kind, &error, &traceback);
        if (traceback)
            PyException_SetTraceback(error, traceback);
        set(&r->error, error);
        Py_XDECREF(kind);
        Py_XDECREF(traceback);
    }
    turn = PyObject_CallNoArgs(r->release);
    if (!turn)
        Py_CLEAR(value);
    Py_XDECREF(turn);
    return value;
}

/* () -> the next batch; None where Python is to hand it out. */
static PyObject *reader_take_in_turn(PyObject *self, PyObject *ignored)
{
    PyObject *value = take_in_turn((Reader *)self);
    (void)ignored;
    return value || PyErr_Occurred() ? value : Py_NewRef(Py_None);
}

static PyObject *iteration_next(PyObject *self)
{
    Iteration *i = (Iteration *)self;
    PyObject *value = take_in_turn((Reader *)i->reader);
    return value || PyErr_Occurred() ? value : PyObject_CallNoArgs(i->fallback);
}

static PyMemberDef reader_members[] = {
    {"number", T_PYSSIZET, offsetof(Reader, number), 0, NULL},
    {"stream", T_ULONGLONG, offsetof(Reader, stream), 0, NULL},
    {"pinned", T_OBJECT, offsetof(Reader, pinned), 0, NULL},
    {"held", T_OBJECT, offsetof(Reader, held), 0, NULL}, /* deleted when it has been handed out */
    {"work_ns", T_LONGLONG, offsetof(Reader, work_ns), 0, NULL},
    {"left_ns", T_LONGLONG, offsetof(Reader, left_ns), 0, NULL},
    {"is_free", T_BOOL, offsetof(Reader, is_free), 0, NULL},
    {"is_hidden", T_BOOL, offsetof(Reader, is_hidden), READONLY, NULL},
    {"is_open", T_BOOL, offsetof(Reader, is_open), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef reader_methods[] = {
    {"end", reader_end, METH_NOARGS, NULL},
    {"take", reader_take, METH_NOARGS, NULL},
    {"take_in_turn", reader_take_in_turn, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot reader_slots[] = {
    {Py_tp_dealloc, (void *)deallocate}, {Py_tp_traverse, (void *)visit_reader}, {Py_tp_clear, (void *)clear_reader},
    {Py_tp_members, reader_members},     {Py_tp_methods, reader_methods},        {0, NULL},
};
static PyType_Slot iteration_slots[] = {
    {Py_tp_dealloc, (void *)deallocate},
    {Py_tp_traverse, (void *)visit_iteration},
    {Py_tp_clear, (void *)clear_iteration},
    {Py_tp_iter, (void *)PyObject_SelfIter},
    {Py_tp_iternext, (void *)iteration_next},
    {0, NULL},
};
static PyType_Spec reader_spec = {"xferlib._native._calls.Reader", sizeof(Reader), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, reader_slots};
static PyType_Spec iteration_spec = {"xferlib._native._calls.Iteration", sizeof(Iteration), 0,
                                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, iteration_slots};

static PyObject *new_of(PyObject **type, PyType_Spec *spec)
{
    if (!*type && !(*type = PyType_FromSpec(spec)))
        return NULL;
    return ((allocfunc)PyType_GetSlot((PyTypeObject *)*type, Py_tp_alloc))((PyTypeObject *)*type, 0); /* all zero, but for the head */
}

/* (list or tuple, or None; run, next and iterator; device; acquire, release; list for pinned sources, or None; bytes of the largest
   array; how many pinned sources; nanoseconds from which a thread pays) -> a reader */
PyObject *xf_new_reader(PyObject *module, PyObject *arguments)
{
    PyObject *items, *run, *next, *source, *device, *acquire, *release, *pinned;
    Py_ssize_t most, followed;
    long long hidden_ns;
    Reader *r;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOOOOOOOnnL", &items, &run, &next, &source, &device, &acquire, &release, &pinned, &most,
                          &followed, &hidden_ns) ||
        !(r = (Reader *)new_of(&reader_type, &reader_spec)))
        return NULL;
    r->items = items == Py_None ? NULL : Py_NewRef(items);
    r->run = Py_NewRef(run);
    r->next = Py_NewRef(next);
    r->source = source == Py_None ? NULL : Py_NewRef(source);
    r->device = Py_NewRef(device);
    r->acquire = Py_NewRef(acquire);
    r->release = Py_NewRef(release);
    r->pinned = Py_NewRef(pinned);
    r->stream = (unsigned long long)-1; /* of no stream */
    r->most = most;
    r->followed = followed;
    r->hidden_ns = hidden_ns;
    r->is_open = 1;
    return (PyObject *)r;
}

/* (reader, function that gives the next batch where C does not) -> an iterator over the batches */
PyObject *xf_iterate(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    Iteration *i;
    (void)module;
    if (count != 2 || !reader_type || !is_of(given[0], reader_type))
        return PyErr_Format(PyExc_TypeError, "iterate takes a reader and a function");
    if (!(i = (Iteration *)new_of(&iteration_type, &iteration_spec)))
        return NULL;
    i->reader = Py_NewRef(given[0]);
    i->fallback = Py_NewRef(given[1]);
    return (PyObject *)i;
}
