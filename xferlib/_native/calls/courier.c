/* A copy on one stream behind the work of another, in one call: an event on the one, a wait and the copy on the other, an event
   behind it, each in the context of its stream. */

#include "calls.h"

enum { ORDERED = 10 };

/* Make a context the thread's; 0 is any. `now` is the one that is. */
static int entered(const courier *c, word context, void **now)
{
    void *wanted = (void *)(uintptr_t)context;
    int result;
    if (!context || wanted == *now)
        return 0;
    result = c->enter(wanted);
    if (!result)
        *now = wanted;
    return result;
}

/* The copy, within the contexts of both streams; the caller leaves them. */
static int carried(const courier *c, const word *a, void **now)
{
    int result = entered(c, a[7], now);
    if (!result)
        result = c->record(a[4], a[3]);
    if (!result)
        result = entered(c, a[8], now);
    if (!result)
        result = c->wait(a[5], a[4], 0);
    if (!result)
        result = c->copy(a[0], a[1], a[2], a[5]);
    if (!result)
        result = c->record(a[6], a[5]);
    if (!result && a[9]) {
        result = entered(c, a[7], now);
        if (!result)
            result = c->wait(a[3], a[6], 0);
    }
    return result;
}

/* (destination, source, bytes, stream to follow, event, stream of the copy, event after it, their contexts or 0 where no other
   can be current, whether the first stream waits for the copy) -> the driver's first result that is not 0: the copy waits for
   what the first stream has been given, by the first event. */
PyObject *xf_copy_behind(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    const courier *c = PyCapsule_GetPointer(self, NULL);
    word a[ORDERED] = {0};
    void *before = NULL, *now;
    int result = 0, left;
    if (!c)
        return NULL;
    if (count != ORDERED)
        return PyErr_Format(PyExc_TypeError, "a copy between streams takes %d arguments, not %zd", ORDERED, count);
    for (Py_ssize_t i = 0; i < ORDERED; ++i)
        if (!xf_is_word(given[i], &a[i]))
            return NULL;
    Py_BEGIN_ALLOW_THREADS
    if (a[7] || a[8])
        result = c->current(&before);
    now = before;
    if (!result)
        result = carried(c, a, &now);
    if (now != before) {
        left = c->enter(before);
        if (!result)
            result = left;
    }
    Py_END_ALLOW_THREADS
    return PyLong_FromLong(result);
}
