/* What a call depends on beside its arrays: whether it may be replayed, its device, and its stream.

   Each thread keeps the answers for one epoch of the fast path, the generation counter that Python bumps whenever something that
   they rely on changes; a library and a device are described by Python when a call first meets them. */

#include "replay.h"

static _Thread_local struct { /* of a thread of the system */
    unsigned long long asked, settled; /* the epochs in which the answers were given */
    int may_replay, number;
    PyObject *scope;
    PyObject *blocks, *moves; /* those that were made true here, and the number of then */
} mine;

unsigned long long xf_epoch(void)
{
    return PyLong_AsUnsignedLongLong(PyList_GetItem(replay.epoch, 0));
}

/* Whether calls may be done here: the question's answer is then the address of xf_host_copy, its last arguments, and the most
   bytes of a copy between host arrays, else None. */
int xf_may_replay(void)
{
    unsigned long long now = xf_epoch(), copy;
    long long helper_nbytes, helpers, most_threads, spin_ns, host_most;
    if (now != mine.asked) {
        PyObject *answer = PyObject_CallNoArgs(replay.may_replay);
        if (!answer)
            return 0;
        mine.may_replay = answer != Py_None && PyArg_ParseTuple(answer, "KLLLLL", &copy, &helper_nbytes, &helpers, &most_threads,
                                                                &spin_ns, &host_most);
        Py_DECREF(answer);
        if (PyErr_Occurred())
            return 0;
        mine.asked = now;
        if (mine.may_replay) {
            replay.copy = (host_copy)(uintptr_t)copy;
            replay.helper_nbytes = helper_nbytes;
            replay.helpers = helpers;
            replay.most_threads = most_threads;
            replay.spin_ns = spin_ns;
            replay.host_most = (Py_ssize_t)host_most;
        }
    }
    return mine.may_replay;
}

int xf_is_answered(PyObject *question, int if_none)
{
    PyObject *answer;
    int result;
    if (!question)
        return if_none;
    answer = PyObject_CallNoArgs(question);
    if (!answer)
        return 0;
    result = PyObject_IsTrue(answer);
    Py_DECREF(answer);
    return result > 0;
}

static int is_entered(const device_entry *e)
{
    void *context = NULL;
    return !e->up.copier.current(&context) && (word)(uintptr_t)context == e->context;
}

/* Whether a copy can be made on a stream: CUDA has two more default ones of these numbers, and a graph that another library
   records would read the memory at each of its launches. */
static int is_served(const device_entry *e, const call_stream *on)
{
    enum { LEGACY = 1, PER_THREAD = 2 };
    const copier *up = &e->up.copier, *down = &e->down.copier;
    int result, status = 0;
    if (!on->handle)
        return 1;
    if ((uintptr_t)on->handle <= PER_THREAD || !up->wait || !up->enqueue || !down->enqueue)
        return 0;
    if (!up->is_captured)
        return 1;
    Py_BEGIN_ALLOW_THREADS /* it may block: see calls.c */
    result = up->is_captured(on->handle, &status);
    Py_END_ALLOW_THREADS
    return !result && !status;
}

/* Whether the device is the thread's, by its context and to its library, and the call's stream one of its; the current one is
   found here. */
int xf_is_current(const device_entry *e, call_stream *on)
{
    const DLPackExchangeAPI *exchange = e->library->exchange;
    PyObject *handle;
    if (!is_entered(e) || !xf_is_answered(e->is_current, 1))
        return 0;
    if (on->named)
        return on->device == e->device && is_served(e, on);
    on->handle = NULL;
    if (exchange)
        return exchange->current_stream(ON_CUDA, e->index, &on->handle) == 0 && is_served(e, on);
    handle = PyObject_CallNoArgs(e->stream);
    if (!handle)
        return 0;
    on->handle = (void *)(uintptr_t)PyLong_AsUnsignedLongLong(handle);
    Py_DECREF(handle);
    return !PyErr_Occurred() && is_served(e, on);
}

/* Read a stream that a call names, which is one of ours: 0 where Python is to look at it. */
int xf_read_stream(PyObject *stream, call_stream *on)
{
    PyObject *handle, *capture;
    if (!stream)
        return 1;
    if (!(on->named = PyObject_GetAttr(stream, replay.names.raw)))
        return 0;
    on->device = PyObject_GetAttr(on->named, replay.names.device);
    handle = on->device ? PyObject_GetAttr(on->named, replay.names.handle) : NULL;
    capture = handle ? PyObject_GetAttr(on->named, replay.names.capture) : NULL;
    on->handle = handle ? (void *)(uintptr_t)PyLong_AsUnsignedLongLong(handle) : NULL;
    Py_XDECREF(handle);
    Py_XDECREF(capture);
    return capture == Py_None && !PyErr_Occurred();
}

void xf_forget_stream(const call_stream *on)
{
    Py_XDECREF(on->named);
    Py_XDECREF(on->device);
}

/* Make the thread's devices and streams those of its context, once a block has chosen any. */
int xf_follow(void)
{
    PyObject *blocks;
    if (!PyList_Size(replay.scopes))
        return 1;
    blocks = PyObject_CallNoArgs(replay.scope);
    if (blocks && (blocks != mine.blocks || PyList_GetItem(replay.moves, 0) != mine.moves)) {
        Py_DECREF(blocks);
        blocks = PyObject_CallNoArgs(replay.follow);
        if (blocks) {
            Py_XDECREF(mine.blocks);
            Py_XDECREF(mine.moves);
            mine.blocks = Py_NewRef(blocks);
            mine.moves = Py_XNewRef(PyList_GetItem(replay.moves, 0));
        }
    }
    Py_XDECREF(blocks);
    return blocks != NULL;
}

/* Whether the device that was the thread's is no longer: the library has another now. */
static int has_moved(void)
{
    const device_entry *e = mine.number < 0 || mine.number >= replay.device_count ? NULL : replay.devices[mine.number];
    return e && e->kind == ON_CUDA && !is_entered(e);
}

/* The device of a call that names none; NULL where Python is to find it. */
device_entry *xf_default_device(void)
{
    unsigned long long now = xf_epoch();
    PyObject *scope = NULL, *answer;
    if (PyList_Size(replay.scopes)) { /* each asynchronous task has its own */
        scope = PyObject_CallNoArgs(replay.scope);
        if (!scope)
            return NULL;
        Py_DECREF(scope); /* the context variable, or `mine`, holds it */
    }
    if (now != mine.settled || scope != mine.scope || has_moved()) {
        answer = PyObject_CallNoArgs(replay.settle);
        if (!answer)
            return NULL;
        mine.number = (int)PyLong_AsLong(answer);
        Py_DECREF(answer);
        Py_XDECREF(mine.scope);
        mine.scope = Py_XNewRef(scope);
        mine.settled = now;
    }
    return mine.number < 0 || mine.number >= replay.device_count ? NULL : replay.devices[mine.number];
}

static int register_(PyObject *thing, int index)
{
    PyObject *done = PyObject_CallFunction(replay.register_, "Oi", thing, index);
    Py_XDECREF(done);
    return done != NULL;
}

device_entry *xf_find_device(PyObject *device)
{
    for (int twice = 0; twice < 2; ++twice) {
        for (int i = 0; i < replay.device_count; ++i)
            if (replay.devices[i]->device == device)
                return replay.devices[i]->kind ? replay.devices[i] : NULL;
        if (twice || (PyObject *)Py_TYPE(device) != replay.device || !register_(device, 0))
            break;
    }
    return NULL;
}

/* The device that is named by a specification, or as a backend's; NULL where Python is to find it. */
device_entry *xf_resolve_device(PyObject *device, PyObject *backend)
{
    PyObject *found;
    device_entry *e;
    if (device && !backend && (PyObject *)Py_TYPE(device) == replay.device)
        return xf_find_device(device);
    if ((device && !PyUnicode_CheckExact(device) && !PyLong_CheckExact(device)) || (backend && !PyUnicode_CheckExact(backend)))
        return NULL;
    found = PyObject_CallFunctionObjArgs(replay.resolve, device ? device : Py_None, backend ? backend : Py_None, NULL);
    e = found ? xf_find_device(found) : NULL;
    Py_XDECREF(found);
    return e;
}

const library *xf_find_library(PyObject *array)
{
    PyObject *type = (PyObject *)Py_TYPE(array);
    for (int twice = 0; twice < 2; ++twice) {
        for (int i = 0; i < replay.library_count; ++i)
            if (replay.libraries[i]->type == type)
                return replay.libraries[i]->is_known ? replay.libraries[i] : NULL;
        if (twice || !register_(type, -1))
            break;
    }
    return NULL;
}

/* The device that an array is on; NULL where Python is to copy it. */
device_entry *xf_device_of(const library *l, const description *d)
{
    if (d->kind != ON_CUDA || (!l->devices[d->index] && !register_(l->type, d->index)))
        return NULL;
    return l->devices[d->index] && l->devices[d->index]->kind ? l->devices[d->index] : NULL;
}
