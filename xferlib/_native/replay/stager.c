/* One staged transfer of the calling thread: staging.c copies, and this asks Python for what that needs.

   Python makes a Setup for each direction, and chunks for a transfer of some size. Both last, so it is asked again only
   once a second (the cores that the process may use are counted as often), in another epoch of the fast path, and for a larger
   transfer. The setup is copied, and what it points to is kept, before the GIL is released: another thread may be given
   the next one meanwhile.

   The obvious way is to call the library from Python. After a pause, when the interpreter's own code and objects have left
   the processor's caches, its steps around the call take 120 us of the 430 in which 2 MiB reach an H100. */

#include "replay.h"

#include "../staging/threads.h"

#include <string.h>

enum { VALID_NS = 1000000000 };

/* The setup of a stream, which may have none yet. */
static stream_setup *setup_on(stager *s, int is_upward, void *stream)
{
    stream_setup *found = s->setups[is_upward];
    if (!stream)
        return found;
    for (int each = 1; each < STREAMS; ++each)
        if (found[each].kept && found[each].stream == stream)
            return &found[each];
    s->next[is_upward] = s->next[is_upward] % (STREAMS - 1) + 1;
    return &found[s->next[is_upward]];
}

static int ask(stager *s, stream_setup *w, int is_upward, const call_stream *on, int64_t nbytes, unsigned long long epoch)
{
    PyObject *answer = PyObject_CallFunction(s->prepare, "iLO", is_upward, (long long)nbytes, stream_of(on)), *kept, *before;
    unsigned long long address;
    long long enough;
    if (!answer || answer == Py_None || !PyArg_ParseTuple(answer, "OKL", &kept, &address, &enough)) {
        Py_XDECREF(answer);
        return 0;
    }
    memcpy(&w->setup, (const void *)(uintptr_t)address, sizeof w->setup);
    before = w->kept; /* only now: Python may have let another thread in */
    w->kept = Py_NewRef(kept);
    w->stream = on->handle;
    w->epoch = epoch;
    w->until_ns = now_ns() + VALID_NS;
    w->nbytes = enough;
    Py_DECREF(answer);
    Py_XDECREF(before); /* last: it may run any code */
    return 1;
}

/* Stage a region in the order of a stream of the device, whose context is current: whether that is done. If not, nothing has
   been done, or an error is set. Called with the GIL held.

   may_be_drivers: the driver may know the memory, and is asked: it could read or fill it by itself.
   is_looped: only where helping threads spin for the next transfer.
   Returns 1 where the region is staged, IS_PINNED where the caller had better let the driver copy, otherwise 0. */
int xf_stage(stager *s, const copier *c, const Region *region, const call_stream *on, int may_be_drivers, int is_looped)
{
    int is_upward = c->is_upward != 0, kind = 0;
    int64_t error = NO_MEMORY;
    unsigned long long epoch = xf_epoch();
    stream_setup *w = setup_on(s, is_upward, on->handle);
    Staging *opened = NULL;
    PyObject *kept, *done;
    Setup setup;
    if (!s->prepare)
        return 0;
    if (!w->kept || w->stream != on->handle || w->epoch != epoch || region->nbytes > w->nbytes || now_ns() >= w->until_ns)
        if (!ask(s, w, is_upward, on, region->nbytes, epoch) || w->stream != on->handle) /* another thread has taken the place over */
            return 0;
    if (is_looped && (!w->setup.spin_ns || s->is_crowded()))
        return 0;
    setup = w->setup;
    kept = Py_NewRef(w->kept);
    Py_BEGIN_ALLOW_THREADS
    if (may_be_drivers)
        kind = xf_kind_of(c, region->host);
    if (!kind)
        error = s->copy(&setup, region, 1, &opened);
    Py_END_ALLOW_THREADS
    if (!kind && error && error != NO_MEMORY) {
        done = PyObject_CallFunction(s->finish, "iKLO", is_upward, (unsigned long long)(uintptr_t)opened, (long long)error,
                                     stream_of(on));
        error = done ? 0 : error;
        Py_XDECREF(done);
    }
    Py_DECREF(kept);
    return kind ? kind == PINNED ? IS_PINNED : 0 : !error;
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
