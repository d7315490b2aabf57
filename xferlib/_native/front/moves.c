/* One array between host memory and a device, whose context is current: by this thread, by the driver or by several threads,
   and by way of a kernel that puts it in order or converts it.

   Which is fastest depends on the size, the layout and whether transfers follow one another; the limits are those of
   xferlib/_core/thresholds.py. */

#include "moves.h"

#include "arrays.h"
#include "ends.h"
#include "results.h"

enum { PAGE = 4096, LINE = 64 }; /* bytes of a page, and of a line of the cache */
enum { SOON_OVER = 256 << 10 }; /* bytes */

static _Thread_local struct { /* of a thread of the system */
    unsigned long long found; /* the circumstances in which its memory was */
    word scratch;
    Py_ssize_t next; /* where in it the next array from a device comes */
    const end *scratch_of;
    uint64_t owner; /* the Python thread whose scratch it is: one of C's may be several of them, one after the other */
} mine;

/* Whether it is sure that the host puts an array in order and converts it, if that must be, which has elements of the number
   `wanted` on the device: where the device may do it by a kernel, plan.py decides. */
static int is_for_host(const description *host, int wanted, int is_upward)
{
    Py_ssize_t there = bytes_there(host, wanted);
    int is_changed = host->is_swapped || host->element != wanted;
    Py_ssize_t size = front.elements[host->element].itemsize, size_there = front.elements[wanted].itemsize;
    int is_slow = (size == 8 && front.elements[host->element].code < 2) || (size_there == 8 && front.elements[wanted].code < 2);
    int is_quarter = is_slow || 4 * size <= size_there || 4 * size_there <= size;
    Py_ssize_t least = is_quarter ? front.least_quartered : front.least_halved;
    int is_wider = size > size_there;
    if (host->count <= 0)
        return 0;
    if (!host->is_c && there > front.most_ordered && host->count >= front.least_reordered &&
        (!is_changed || !is_wider || !is_upward || host->nbytes >= front.least_narrowed) && xf_is_dense(host))
        return 0;
    if (!is_changed || (host->nbytes < least && there < least))
        return 1;
    return is_wider || size == size_there;
}

static word scratch_of(const end *e)
{
    unsigned long long now = xf_circumstances();
    uint64_t thread = PyThreadState_GetID(PyThreadState_Get());
    if (mine.found != now || mine.scratch_of != e || mine.owner != thread) {
        PyObject *found = PyObject_CallNoArgs(e->scratch);
        if (!found)
            return 0;
        mine.scratch = PyLong_AsUnsignedLongLong(found);
        mine.scratch_of = e;
        mine.owner = thread;
        mine.found = now;
        Py_DECREF(found);
    }
    return mine.scratch;
}

/* Where in the thread's pinned memory an array from a device comes: behind the one before. The device writes slowly to memory
   that a core has just read and still has in its cache: 192 KiB to the same place take 24 us, and 19.5 to others. */
static word landing_of(const end *e, Py_ssize_t nbytes)
{
    word scratch = scratch_of(e);
    Py_ssize_t size = (nbytes + PAGE - 1) / PAGE * PAGE, start = mine.next + size <= front.scratch ? mine.next : 0;
    mine.next = start + size;
    return scratch ? scratch + (word)start : 0;
}

/* Copy between a host array and the device, whose context is current, where the elements are of the number `wanted`, by this
   thread: whether that is done. */
static int copy_at_once(end *e, spreader *s, const description *host, int wanted, word device, const line *l)
{
    Layout layout;
    word scratch;
    if (is_plain(host, wanted) && (s->copier.is_upward || host->nbytes < front.least_through || host->is_pinned ||
                                   host->nbytes > front.most_through))
        return !xf_copy(&s->copier, device, (word)(uintptr_t)host->data, (size_t)host->nbytes, l->handle);
    scratch = s->copier.is_upward ? scratch_of(e) : landing_of(e, bytes_there(host, wanted));
    if (!scratch || PyErr_Occurred())
        return 0;
    if (is_plain(host, wanted))
        return !xf_fetch_through(&s->copier, host->data, device, (size_t)host->nbytes, scratch, l->handle);
    xf_lay_out(host, wanted, &layout);
    return !xf_spread(s, &layout, host->data, (word)host->count, device, (size_t)bytes_there(host, wanted), scratch, l->handle);
}

/* The same by several threads, in blocks. `is_fresh`: the pages were never touched; `is_looped`: only where threads spin. */
static int copy_in_blocks(end *e, spreader *s, const description *host, int wanted, word device, const line *l, int is_fresh,
                          int is_looped)
{
    Layout layout;
    Region region = {.host = host->data, .device = device, .nbytes = bytes_there(host, wanted), .unit = is_fresh ? HUGE_PAGE : LINE,
                     .is_fresh = is_fresh};
    if (host->is_pinned)
        return 0;
    if (!is_plain(host, wanted)) {
        xf_lay_out(host, wanted, &layout);
        region.layout = &layout;
        region.unit = 0;
    }
    return xf_stage(&e->staged, &s->copier, &region, l->handle, l->named, xf_circumstances(), host->is_c, is_looped);
}

/* The same by the way that is fastest: one thread for little; the driver for somewhat more; several threads from less on in a
   loop, where they are awake. */
int xf_move(end *e, spreader *s, const description *host, int wanted, word device, const line *l, int is_fresh)
{
    Py_ssize_t there = bytes_there(host, wanted), size = host->nbytes > there ? host->nbytes : there;
    int plain = is_plain(host, wanted), is_upward = s->copier.is_upward;
    Py_ssize_t most = !plain ? front.most_spread : is_upward ? front.most_up : front.most_down;
    int is_at_once = size <= most || (plain && host->is_pinned), is_done = 0;
    int is_shared = plain ? size > front.least_looped : is_upward ? size > front.least_looped_up : there > front.least_looped_down;
    if (is_at_once && is_shared && !host->is_pinned && xf_is_looped(&e->staged))
        is_done = copy_in_blocks(e, s, host, wanted, device, l, is_fresh, 1) == 1;
    if (!is_done && is_at_once && !PyErr_Occurred())
        is_done = copy_at_once(e, s, host, wanted, device, l);
    if (!is_done && !PyErr_Occurred())
        is_done = copy_in_blocks(e, s, host, wanted, device, l, is_fresh, 0);
    if (is_done == IS_PINNED)
        is_done = plain && copy_at_once(e, s, host, wanted, device, l);
    if (is_done && (is_shared || size > front.least_looped))
        xf_note_end(&e->staged);
    return is_done;
}

/* Whether an array crosses the link as it lies in host memory, where a kernel of the device puts it in order or converts it; else
   the host gathers or scatters it, and the kernel converts what is in C order. */
static int crosses_as_it_lies(const description *host)
{
    return host->is_c || xf_is_dense(host);
}

/* Whether one kernel puts an array in host memory in order, or converts it, which has elements of the number `wanted` at
   `device`, or at an address yet to come; then it is in `found`. */
static int find_step(end *e, const description *host, int wanted, word device, int is_upward, kernel_step *found)
{
    step_form form;
    Py_ssize_t itemsize = front.elements[host->element].itemsize;
    int lies = crosses_as_it_lies(host);
    if (host->is_swapped || host->count <= 0 || device % (word)front.elements[wanted].itemsize)
        return 0;
    form.is_upward = (int16_t)is_upward;
    form.is_pinned = (int16_t)(lies && host->is_pinned);
    form.axes = host->axes;
    form.host = host->element;
    form.there = wanted;
    for (int i = host->axes; i--; itemsize *= host->extents[i]) {
        form.extents[i] = host->extents[i];
        form.strides[i] = host->is_c || !lies ? itemsize : host->strides[i];
    }
    return xf_find_step(&e->steps, &form, front.elements[host->element].dtype, front.elements[wanted].dtype, found);
}

/* Whether the device should convert what it reads or fills by itself, if it can: threads convert pinned memory more slowly than
   the link carries it. */
static int is_better_there(const description *host, int wanted)
{
    return host->is_pinned && host->element != wanted;
}

/* How an array in host memory gets to or from `device`, or an address yet to come, where its elements are of the number `wanted`:
   0, as the host puts it in order and converts it; 1, by the kernel that is in `found` then; -1 where Python is to decide. */
int xf_choose_step(end *e, const description *host, int wanted, word device, int is_upward, kernel_step *found)
{
    int is_needed = !is_for_host(host, wanted, is_upward);
    int is_found = (is_needed || is_better_there(host, wanted)) && find_step(e, host, wanted, device, is_upward, found);
    return (is_needed && !is_found) || PyErr_Occurred() ? -1 : is_found;
}

/* Keep an array that has been filled on another stream than the default one until it is: the stream that its memory belongs to
   must not give it to others before. A small copy is over before Python has noted that. */
int xf_is_held(end *e, const line *l, PyObject *array, PyObject *source, Py_ssize_t nbytes)
{
    PyObject *done;
    if (!l->handle || (nbytes <= SOON_OVER && xf_is_over(&e->up.copier, l->handle)))
        return 1;
    done = PyObject_CallFunctionObjArgs(e->hold, array, stream_of(l), source ? source : Py_None, NULL);
    Py_XDECREF(done);
    return done != NULL;
}

/* Send an array that no step follows to memory of `array`: whether that is done. Pinned memory is read on a stream of the
   program's own when that comes to it: a call that names the stream does not wait, and one on the current stream does. */
int xf_send_as_is(end *e, const line *l, PyObject *x, const description *src, int wanted, word device, PyObject *array,
                      int is_new)
{
    const copier *c = &e->up.copier;
    int error, is_kept, kind = 0;
    if (l->handle && is_plain(src, wanted)) {
        Py_BEGIN_ALLOW_THREADS
        kind = xf_kind_of(c, src->data);
        Py_END_ALLOW_THREADS
    }
    if (kind && kind != PINNED) /* managed: the driver would read it later */
        return 0;
    if (!kind)
        return xf_move(e, &e->up, src, wanted, device, l, 0) && (is_new || xf_is_held(e, l, array, NULL, src->nbytes));
    Py_BEGIN_ALLOW_THREADS
    error = c->enqueue(device, (word)(uintptr_t)src->data, (size_t)src->nbytes, l->handle);
    Py_END_ALLOW_THREADS
    is_kept = !error && l->named && xf_is_held(e, l, array, x, src->nbytes);
    if (!error && !is_kept) {
        Py_BEGIN_ALLOW_THREADS
        error = c->wait(l->handle);
        Py_END_ALLOW_THREADS
    }
    return !error && !PyErr_Occurred();
}

/* Copy by way of memory of the device in which the elements have the dtype of the host's, and lie as they cross the link; `x` is
   the source of an upload. */
int xf_move_in_steps(end *e, PyObject *x, const description *host, word device, const line *l, int is_fresh,
                         const kernel_step *s)
{
    description flat = *host;
    const description *crossing = crosses_as_it_lies(host) ? &flat : host;
    PyObject *between;
    word there;
    int is_done = 0;
    flat.axes = 1;
    flat.extents[0] = host->count;
    flat.strides = NULL;
    flat.is_c = 1;
    between = xf_made_on(e, l, &flat, 1);
    there = between ? xf_address_of(e, between) : 0;
    if (there && s->form.is_upward)
        is_done = xf_send_as_is(e, l, x, crossing, host->element, there, between, 1) &&
                  !xf_launch_step(&e->steps, s, device, there, l->handle);
    else if (there)
        is_done = !xf_launch_step(&e->steps, s, there, device, l->handle) &&
                  xf_move(e, &e->down, crossing, host->element, there, l, is_fresh);
    Py_XDECREF(between); /* its library reuses the memory in the order of the stream */
    return is_done;
}
