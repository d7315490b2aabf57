/* What a call depends on beside its arrays: the circumstances, its device, and its stream.

   Each thread keeps the answers until the circumstances have another number; a library and a device are described by Python when
   a call first meets them. */

#include "ends.h"

static _Thread_local struct { /* of a thread of the system */
    unsigned long long asked, settled; /* the circumstances in which the answers were given */
    int may_skip, end;
    PyObject *scope;
    PyObject *blocks, *moves; /* those that were made true here, and the number of then */
} mine;

unsigned long long xf_circumstances(void)
{
    return PyLong_AsUnsignedLongLong(PyList_GetItem(front.number, 0));
}

/* Whether calls may be done here: the question's answer is then the address of xf_host_copy and its last arguments, else
   None. */
int xf_may_skip(void)
{
    unsigned long long now = xf_circumstances(), copy;
    long long helper_nbytes, helpers, most_threads, spin_ns;
    if (now != mine.asked) {
        PyObject *answer = PyObject_CallNoArgs(front.may_skip);
        if (!answer)
            return 0;
        mine.may_skip = answer != Py_None &&
                        PyArg_ParseTuple(answer, "KLLLL", &copy, &helper_nbytes, &helpers, &most_threads, &spin_ns);
        Py_DECREF(answer);
        if (PyErr_Occurred())
            return 0;
        mine.asked = now;
        if (mine.may_skip) {
            front.copy = (host_copy)(uintptr_t)copy;
            front.helper_nbytes = helper_nbytes;
            front.helpers = helpers;
            front.most_threads = most_threads;
            front.spin_ns = spin_ns;
        }
    }
    return mine.may_skip;
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

static int is_entered(const end *e)
{
    void *context = NULL;
    return !e->up.copier.current(&context) && (word)(uintptr_t)context == e->context;
}

/* Whether a copy can be made on a stream: CUDA has two more default ones of these numbers, and a graph that another library
   records would read the memory at each of its launches. */
static int is_served(const end *e, const line *l)
{
    enum { LEGACY = 1, PER_THREAD = 2 };
    const copier *up = &e->up.copier, *down = &e->down.copier;
    int result, status = 0;
    if (!l->handle)
        return 1;
    if ((uintptr_t)l->handle <= PER_THREAD || !up->wait || !up->enqueue || !down->enqueue)
        return 0;
    if (!up->is_captured)
        return 1;
    Py_BEGIN_ALLOW_THREADS /* it may block: see calls.c */
    result = up->is_captured(l->handle, &status);
    Py_END_ALLOW_THREADS
    return !result && !status;
}

/* Whether the device is the thread's, by its context and to its library, and the call's stream one of its; the current one is
   found here. */
int xf_is_at_hand(const end *e, line *l)
{
    const DLPackExchangeAPI *exchange = e->library->exchange;
    PyObject *handle;
    if (!is_entered(e) || !xf_is_answered(e->is_current, 1))
        return 0;
    if (l->named)
        return l->device == e->device && is_served(e, l);
    l->handle = NULL;
    if (exchange)
        return exchange->current_stream(ON_CUDA, e->index, &l->handle) == 0 && is_served(e, l);
    handle = PyObject_CallNoArgs(e->stream);
    if (!handle)
        return 0;
    l->handle = (void *)(uintptr_t)PyLong_AsUnsignedLongLong(handle);
    Py_DECREF(handle);
    return !PyErr_Occurred() && is_served(e, l);
}

/* Read a stream that a call names, which is one of ours: 0 where Python is to look at it. */
int xf_read_line(PyObject *stream, line *l)
{
    PyObject *handle, *capture;
    if (!stream)
        return 1;
    if (!(l->named = PyObject_GetAttr(stream, front.names.raw)))
        return 0;
    l->device = PyObject_GetAttr(l->named, front.names.device);
    handle = l->device ? PyObject_GetAttr(l->named, front.names.handle) : NULL;
    capture = handle ? PyObject_GetAttr(l->named, front.names.capture) : NULL;
    l->handle = handle ? (void *)(uintptr_t)PyLong_AsUnsignedLongLong(handle) : NULL;
    Py_XDECREF(handle);
    Py_XDECREF(capture);
    return capture == Py_None && !PyErr_Occurred();
}

void xf_forget_line(const line *l)
{
    Py_XDECREF(l->named);
    Py_XDECREF(l->device);
}

/* Make the thread's devices and streams those of its context, once a block has chosen any. */
int xf_follow(void)
{
    PyObject *blocks;
    if (!PyList_Size(front.scopes))
        return 1;
    blocks = PyObject_CallNoArgs(front.scope);
    if (blocks && (blocks != mine.blocks || PyList_GetItem(front.moves, 0) != mine.moves)) {
        Py_DECREF(blocks);
        blocks = PyObject_CallNoArgs(front.follow);
        if (blocks) {
            Py_XDECREF(mine.blocks);
            Py_XDECREF(mine.moves);
            mine.blocks = Py_NewRef(blocks);
            mine.moves = Py_XNewRef(PyList_GetItem(front.moves, 0));
        }
    }
    Py_XDECREF(blocks);
    return blocks != NULL;
}

/* Whether the device that was the thread's is no longer: the library has another now. */
static int has_moved(void)
{
    const end *e = mine.end < 0 || mine.end >= front.end_count ? NULL : front.ends[mine.end];
    return e && e->kind == ON_CUDA && !is_entered(e);
}

/* The device of a call that names none; NULL where Python is to find it. */
end *xf_default_end(void)
{
    unsigned long long now = xf_circumstances();
    PyObject *scope = NULL, *answer;
    if (PyList_Size(front.scopes)) { /* each asynchronous task has its own */
        scope = PyObject_CallNoArgs(front.scope);
        if (!scope)
            return NULL;
        Py_DECREF(scope); /* the context variable, or `mine`, holds it */
    }
    if (now != mine.settled || scope != mine.scope || has_moved()) {
        answer = PyObject_CallNoArgs(front.settle);
        if (!answer)
            return NULL;
        mine.end = (int)PyLong_AsLong(answer);
        Py_DECREF(answer);
        Py_XDECREF(mine.scope);
        mine.scope = Py_XNewRef(scope);
        mine.settled = now;
    }
    return mine.end < 0 || mine.end >= front.end_count ? NULL : front.ends[mine.end];
}

static int introduce(PyObject *thing, int index)
{
    PyObject *done = PyObject_CallFunction(front.introduce, "Oi", thing, index);
    Py_XDECREF(done);
    return done != NULL;
}

end *xf_find_end(PyObject *device)
{
    for (int twice = 0; twice < 2; ++twice) {
        for (int i = 0; i < front.end_count; ++i)
            if (front.ends[i]->device == device)
                return front.ends[i]->kind ? front.ends[i] : NULL;
        if (twice || (PyObject *)Py_TYPE(device) != front.device || !introduce(device, 0))
            break;
    }
    return NULL;
}

/* The device that is named by a specification, or as a backend's; NULL where Python is to find it. */
end *xf_resolved_end(PyObject *device, PyObject *backend)
{
    PyObject *found;
    end *e;
    if (device && !backend && (PyObject *)Py_TYPE(device) == front.device)
        return xf_find_end(device);
    if ((device && !PyUnicode_CheckExact(device) && !PyLong_CheckExact(device)) || (backend && !PyUnicode_CheckExact(backend)))
        return NULL;
    found = PyObject_CallFunctionObjArgs(front.resolve, device ? device : Py_None, backend ? backend : Py_None, NULL);
    e = found ? xf_find_end(found) : NULL;
    Py_XDECREF(found);
    return e;
}

const library *xf_find_library(PyObject *array)
{
    PyObject *type = (PyObject *)Py_TYPE(array);
    for (int twice = 0; twice < 2; ++twice) {
        for (int i = 0; i < front.library_count; ++i)
            if (front.libraries[i]->type == type)
                return front.libraries[i]->is_known ? front.libraries[i] : NULL;
        if (twice || !introduce(type, -1))
            break;
    }
    return NULL;
}

/* The device that an array is on; NULL where Python is to copy it. */
end *xf_end_of(const library *l, const description *d)
{
    if (d->kind != ON_CUDA || (!l->ends[d->index] && !introduce(l->type, d->index)))
        return NULL;
    return l->ends[d->index] && l->ends[d->index]->kind ? l->ends[d->index] : NULL;
}
