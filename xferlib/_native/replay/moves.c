/* One copy between an array in host memory and a device: executes ways.

   The obvious way is one call of the driver for all of it. The driver knows plain bytes alone, uses one thread, and brings bytes
   to ordinary memory at half speed. So an array is gathered, converted, or passes through pinned memory, by this thread or by
   several, or a kernel of the device puts it in order. Python has decided which: see ways.c. */

#include "replay.h"

enum { PAGE = 4096, LINE = 64 }; /* bytes of a page, and of a line of the cache */

static _Thread_local struct { /* of a thread of the system */
    unsigned long long found; /* the epoch in which its memory was */
    unsigned long long scratch, nbytes, next; /* its pinned memory, and where in it the next array from a device comes */
    const device_entry *scratch_of;
    uint64_t owner; /* the Python thread whose scratch it is: one of C's may be several of them, one after the other */
} mine;

static word scratch_of(const device_entry *e)
{
    unsigned long long now = xf_epoch(), start, nbytes;
    uint64_t thread = PyThreadState_GetID(PyThreadState_Get());
    if (mine.found != now || mine.scratch_of != e || mine.owner != thread) {
        PyObject *answer = PyObject_CallNoArgs(e->scratch);
        int is_told = answer && PyArg_ParseTuple(answer, "KK", &start, &nbytes);
        Py_XDECREF(answer);
        if (!is_told)
            return 0;
        mine.scratch = start;
        mine.nbytes = nbytes;
        mine.scratch_of = e;
        mine.owner = thread;
        mine.found = now;
    }
    return mine.scratch;
}

/* Where in the thread's pinned memory an array from a device comes: behind the one before. The device writes slowly to memory
   that a core has just read and still has in its cache: 192 KiB to the same place take 24 us, and 19.5 to others. */
static word landing_of(const device_entry *e, Py_ssize_t nbytes)
{
    word scratch = scratch_of(e);
    unsigned long long size = ((unsigned long long)nbytes + PAGE - 1) / PAGE * PAGE;
    unsigned long long start = mine.next + size <= mine.nbytes ? mine.next : 0;
    mine.next = start + size;
    return scratch ? scratch + start : 0;
}

/* Copy between a host array and the device, whose context is current, where the elements are of the number `wanted`, by this
   thread: whether that is done. */
static int copy_at_once(device_entry *e, spreader *s, const description *host, int wanted, word device, const call_stream *on,
                        int flags)
{
    Layout layout;
    word scratch;
    if (is_plain(host, wanted) && !(flags & THROUGH))
        return !xf_copy(&s->copier, device, (word)(uintptr_t)host->data, (size_t)host->nbytes, on->handle);
    scratch = s->copier.is_upward ? scratch_of(e) : landing_of(e, bytes_there(host, wanted));
    if (!scratch || PyErr_Occurred())
        return 0;
    if (is_plain(host, wanted))
        return !xf_fetch_through(&s->copier, host->data, device, (size_t)host->nbytes, scratch, on->handle);
    xf_lay_out(host, wanted, &layout);
    return !xf_spread(s, &layout, host->data, (word)host->count, device, (size_t)bytes_there(host, wanted), scratch, on->handle,
                      flags & ORDINARY);
}

/* The same by several threads, in blocks. `is_fresh`: the pages were never touched; `is_looped`: only where threads spin. */
static int copy_in_blocks(device_entry *e, spreader *s, const description *host, int wanted, word device, const call_stream *on,
                          int is_fresh, int is_looped)
{
    Layout layout;
    Region region = {.host = host->data, .device = device, .nbytes = bytes_there(host, wanted), .unit = is_fresh ? HUGE_PAGE : LINE,
                     .is_fresh = is_fresh};
    if (host->is_pinned && is_plain(host, wanted)) /* which the driver copies */
        return 0;
    if (!is_plain(host, wanted)) {
        xf_lay_out(host, wanted, &layout);
        region.layout = &layout;
        region.unit = 0;
    }
    return xf_stage(&e->staged, &s->copier, &region, on, host->is_c, is_looped);
}

/* The same as its way says: whether that is done. */
int xf_move(device_entry *e, spreader *s, const description *host, int wanted, word device, const call_stream *on, int is_fresh,
            int flags)
{
    int is_done = 0;
    if ((flags & AT_ONCE) && (flags & LOOPED) && xf_is_looped(&e->staged))
        is_done = copy_in_blocks(e, s, host, wanted, device, on, is_fresh, 1) == 1;
    if (!is_done && (flags & AT_ONCE) && !PyErr_Occurred())
        is_done = copy_at_once(e, s, host, wanted, device, on, flags);
    if (!is_done && !PyErr_Occurred())
        is_done = copy_in_blocks(e, s, host, wanted, device, on, is_fresh, 0);
    if (is_done == IS_PINNED)
        is_done = is_plain(host, wanted) && copy_at_once(e, s, host, wanted, device, on, flags);
    if (is_done && (flags & LOOPED))
        xf_note_end(&e->staged);
    return is_done;
}

/* Keep an array that has been filled on another stream than the default one until it is: the stream that its memory belongs to
   must not give it to others before. A small copy is over before Python has noted that. */
int xf_is_held(device_entry *e, const call_stream *on, PyObject *array, PyObject *source)
{
    PyObject *done;
    if (!on->handle || xf_is_over(&e->up.copier, on->handle))
        return 1;
    done = PyObject_CallFunctionObjArgs(e->hold, array, stream_of(on), source ? source : Py_None, NULL);
    Py_XDECREF(done);
    return done != NULL;
}

/* Send an array that no kernel follows to memory of `array`: whether that is done. Pinned memory is read on a stream of the
   program's own when that comes to it: a call that names the stream does not wait, and one on the current stream does. */
int xf_send(device_entry *e, const call_stream *on, PyObject *x, const description *src, int wanted, word device, PyObject *array,
            int is_new, const way *w)
{
    const copier *c = &e->up.copier;
    int error, is_kept, kind = 0;
    if (on->handle && is_plain(src, wanted)) {
        Py_BEGIN_ALLOW_THREADS
        kind = xf_kind_of(c, src->data);
        Py_END_ALLOW_THREADS
    }
    if (kind && kind != PINNED) /* managed: the driver would read it later */
        return 0;
    if (!kind)
        return xf_move(e, &e->up, src, wanted, device, on, 0, w->flags) && (is_new || xf_is_held(e, on, array, NULL));
    Py_BEGIN_ALLOW_THREADS
    error = c->enqueue(device, (word)(uintptr_t)src->data, (size_t)src->nbytes, on->handle);
    Py_END_ALLOW_THREADS
    is_kept = !error && on->named && xf_is_held(e, on, array, x);
    if (!error && !is_kept) {
        Py_BEGIN_ALLOW_THREADS
        error = c->wait(on->handle);
        Py_END_ALLOW_THREADS
    }
    return !error && !PyErr_Occurred();
}

/* Copy by way of memory of the device in which the elements have the dtype of the host's, and lie as they cross the link; `x` is
   the source of an upload. Whether that is done. */
int xf_move_in_steps(device_entry *e, PyObject *x, const description *host, word device, const call_stream *on, int is_fresh,
                     int is_upload, const way *w)
{
    description flat = *host;
    const description *crossing = w->flags & AS_IT_LIES ? &flat : host;
    PyObject *between;
    word there;
    way first;
    int is_done = 0;
    flat.axes = 1;
    flat.extents[0] = host->count;
    flat.strides = NULL;
    flat.is_c = 1;
    if (!xf_find_way(e, crossing, host->element, is_upload, &first) || first.kernel.handle)
        return 0;
    between = xf_make_on(e, on, &flat, 1);
    there = between ? xf_address_of(e, between) : 0;
    if (there && is_upload)
        is_done = xf_send(e, on, x, crossing, host->element, there, between, 1, &first) &&
                  !xf_launch(&e->ways, &w->kernel, device, there, on->handle);
    else if (there)
        is_done = !xf_launch(&e->ways, &w->kernel, there, device, on->handle) &&
                  xf_move(e, &e->down, crossing, host->element, there, on, is_fresh, first.flags);
    Py_XDECREF(between); /* its library reuses the memory in the order of the stream */
    return is_done;
}
