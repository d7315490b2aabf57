/* One staged transfer of the calling thread: staging.c copies, and this asks Python for what that needs.

   Python makes a Setup for each direction, and chunks for a transfer of some size. Both last, so it is asked again only
   once a second (the cores that the process may use are counted as often), in other circumstances, and for a larger
   transfer. The setup is copied, and what it points to is kept, before the GIL is released: another thread may be given
   the next one meanwhile.

   The obvious way is to call the library from Python. After a pause, when the interpreter's own code and objects have left
   the processor's caches, its steps around the call take 120 us of the 430 in which 2 MiB reach an H100. */

#include "stager.h"

#include "threads.h"

#include <string.h>

enum { VALID_NS = 1000000000, LOOP_NS = 1000000, LINE = 64, MOST_UNIT = 512 << 10 };

static int ask(stager *s, int is_upward, int64_t nbytes, unsigned long long number)
{
    way *w = &s->ways[is_upward];
    PyObject *answer = PyObject_CallFunction(s->prepare, "iL", is_upward, (long long)nbytes), *kept, *before = w->kept;
    unsigned long long address;
    long long enough;
    if (!answer || answer == Py_None || !PyArg_ParseTuple(answer, "OKL", &kept, &address, &enough)) {
        Py_XDECREF(answer);
        return 0;
    }
    memcpy(&w->setup, (const void *)(uintptr_t)address, sizeof w->setup);
    w->kept = Py_NewRef(kept);
    w->number = number;
    w->until_ns = now_ns() + VALID_NS;
    w->nbytes = enough;
    Py_DECREF(answer);
    Py_XDECREF(before); /* last: it may run any code */
    return 1;
}

/* Stage a region in the order of the default stream of the device, whose context is current: whether that is done. If not,
   nothing has been done, or an error is set. Called with the GIL held.

   may_be_drivers: the driver may know the memory, and is asked: it could read or fill it by itself, which is left to Python.
   is_looped: only where helping threads spin for the next transfer. */
int xf_stage(stager *s, const copier *c, const Region *region, unsigned long long number, int may_be_drivers, int is_looped)
{
    int is_upward = c->is_upward != 0, is_asked = 0;
    int64_t error = NO_MEMORY;
    way *w = &s->ways[is_upward];
    Staging *opened = NULL;
    PyObject *kept, *done;
    Setup setup;
    if (!s->prepare)
        return 0;
    if (!w->kept || w->number != number || region->nbytes > w->nbytes || now_ns() >= w->until_ns)
        if (!ask(s, is_upward, region->nbytes, number))
            return 0;
    if (is_looped && !w->setup.spin_ns)
        return 0;
    setup = w->setup;
    kept = Py_NewRef(w->kept);
    Py_BEGIN_ALLOW_THREADS
    if (!may_be_drivers || !xf_is_drivers(c, region->host)) {
        is_asked = 1;
        error = s->copy(&setup, region, 1, &opened);
    }
    Py_END_ALLOW_THREADS
    if (is_asked && error && error != NO_MEMORY) {
        done = PyObject_CallFunction(s->finish, "iKL", is_upward, (unsigned long long)(uintptr_t)opened, (long long)error);
        error = done ? 0 : error;
        Py_XDECREF(done);
    }
    Py_DECREF(kept);
    return !error;
}

/* Whether a transfer that begins now comes soon after the one before. */
int xf_is_looped(const stager *s)
{
    return now_ns() - s->last_ns < LOOP_NS;
}

void xf_note_end(stager *s)
{
    s->last_ns = now_ns();
}

/* Bytes on the device of which a piece has a multiple, so that no two threads use one line of the cache: as in
   xferlib/_transfer/compiled_copies.py. */
int64_t xf_unit_of(const Layout *layout, int64_t most)
{
    int64_t near = 0, row = layout->device_size, rows, step;
    for (int64_t axis = 1; axis < layout->axes; ++axis) {
        int64_t one = layout->strides[axis], best = layout->strides[near];
        if ((one < 0 ? -one : one) < (best < 0 ? -best : best))
            near = axis;
    }
    for (int64_t axis = near + 1; axis < layout->axes; ++axis)
        row *= layout->extents[axis];
    if (near == layout->axes - 1 || row > MOST_UNIT)
        return layout->device_size;
    step = layout->strides[near] < 0 ? -layout->strides[near] : layout->strides[near];
    rows = step && step < LINE ? LINE / step : step ? 1 : LINE;
    rows = rows < layout->extents[near] ? rows : layout->extents[near];
    rows = rows < MOST_UNIT / row ? rows : MOST_UNIT / row;
    return row * rows <= most ? row * rows : layout->device_size;
}
