/* Copies between an array in host memory and a device: finds how Python has decided it, by the array's form, and executes that.

   xferlib/_transfer/plan.py has all the policy, and decides once for each form: direction, pinned memory, shape, strides and
   both dtypes. Plain bytes have no form but their size, and one decision holds for a range of sizes. What is decided is kept
   here: there are as many places as loops have forms, and a form that finds its place taken takes it over. All functions are
   called with the GIL held, and any call of Python's may let another thread take a place over: so a caller gets a copy.

   The obvious way to execute is one call of the driver for all of it. The driver knows plain bytes alone, uses one thread, brings
   bytes to ordinary memory at half speed, and keeps the caller of an upload waiting for all work on a busy stream, where staging
   only enqueues. So an array is gathered, converted, or passes through pinned memory, by this thread or by several, or a kernel
   of the device puts it in order; and a copy to a busy stream is not begun here. */

#include "replay.h"

#include "../staging/plain.h"
#include "../staging/threads.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, LINE = 64 }; /* bytes of a page, and of a line of the cache */
enum { READ_AT_ONCE = 16 << 10 }; /* bytes that pass through ordinary memory, which the driver reads before its call returns */
enum { PATIENCE_NS = 10000, IMPATIENT_CALLS = 16, VALID_NS = 1000000000 };
enum { NOT_ASKED = -1 };
enum { PINNED = 1, MEMORY_TYPE = 2 }; /* of CUDA's driver: CU_MEMORYTYPE_HOST, CU_POINTER_ATTRIBUTE_MEMORY_TYPE */
enum { IS_PINNED = 2 };

static _Thread_local struct { /* of a thread of the system */
    unsigned long long found; /* the epoch in which its memory was */
    unsigned long long scratch, nbytes, next; /* its pinned memory, and where in it the next array from a device comes */
    int is_read; /* a copy from it is in flight */
    const device_entry *scratch_of;
    uint64_t owner; /* the Python thread whose scratch it is: one of C's may be several of them, one after the other */
} mine;

static size_t bytes_there(const device_copy *c)
{
    return (size_t)(c->host->count * replay.elements[c->element].itemsize);
}

/* The stream that a call names, for Python; None for the current one. */
static PyObject *stream_of(const call_stream *on)
{
    return on->named ? on->named : Py_None;
}

/* --- ways, by form */

typedef struct {
    int16_t is_upload, is_pinned, is_swapped, host;
    int32_t there, axes; /* `host` and `there`: numbers of the elements' types; no padding, since forms are compared as bytes */
    int64_t extents[MOST_AXES], strides[MOST_AXES]; /* of the end on the host */
} form;

typedef struct prepared {
    form form;
    way way;
} prepared;

static int are_equal(const form *one, const form *other)
{
    return !memcmp(one, other, offsetof(form, extents) + (size_t)one->axes * sizeof *one->extents) &&
           !memcmp(one->strides, other->strides, (size_t)one->axes * sizeof *one->strides);
}

static unsigned place_of(const form *f)
{
    uint64_t hash = (uint64_t)(f->is_upload + 2 * f->is_pinned + 4 * f->is_swapped + 8 * f->host + 256 * f->there);
    for (int i = 0; i < f->axes; ++i)
        hash = ((hash ^ (uint64_t)f->extents[i]) * 0x9E3779B97F4A7C15u ^ (uint64_t)f->strides[i]) * 0x9E3779B97F4A7C15u;
    return (unsigned)(hash >> 32) % WAYS_KEPT;
}

static void describe_form(const device_copy *c, form *f)
{
    const description *host = c->host;
    Py_ssize_t step = replay.elements[host->element].itemsize;
    f->is_upload = (int16_t)c->is_upload;
    f->is_pinned = (int16_t)host->is_pinned;
    f->is_swapped = (int16_t)host->is_swapped;
    f->axes = host->axes;
    f->host = (int16_t)host->element;
    f->there = c->element;
    for (int i = host->axes; i--; step *= host->extents[i]) {
        f->extents[i] = host->extents[i];
        f->strides[i] = host->strides && !host->is_c ? host->strides[i] : step;
    }
}

/* Read a kernel that Python has described: whether that is possible. */
static int read_kernel(PyObject *answer, way *made)
{
    unsigned long long handle;
    PyObject *numbers;
    if (!PyArg_ParseTuple(answer, "K(III)O!", &handle, &made->blocks, &made->block[0], &made->block[1], &PyTuple_Type, &numbers))
        return 0;
    if (PyTuple_Size(numbers) > MOST_NUMBERS) {
        PyErr_Format(PyExc_ValueError, "a kernel has at most %d arguments, not %zd", MOST_NUMBERS, PyTuple_Size(numbers));
        return 0;
    }
    made->kernel = (void *)(uintptr_t)handle;
    for (made->count = 0; made->count < (int)PyTuple_Size(numbers); ++made->count)
        made->numbers[made->count] = PyLong_AsLongLong(PyTuple_GetItem(numbers, made->count));
    return !PyErr_Occurred();
}

/* Ask Python for the way of a form, and for plain bytes the range of sizes that it holds for: whether it tells. */
static int ask_way(const device_entry *e, const form *f, way *made, Py_ssize_t *over, Py_ssize_t *most)
{
    PyObject *extents = xf_tuple_of(f->extents, f->axes, 1), *strides = xf_tuple_of(f->strides, f->axes, 1), *answer = NULL, *kernel;
    int is_told;
    made->kernel = NULL;
    if (extents && strides)
        answer = PyObject_CallFunction(e->prepare, "iiOOOOi", (int)f->is_upload, (int)f->is_pinned, extents, strides,
                                       replay.elements[f->host].dtype, replay.elements[f->there].dtype, (int)f->is_swapped);
    is_told = answer && PyArg_ParseTuple(answer, "innO", &made->flags, over, most, &kernel) &&
              (kernel == Py_None || read_kernel(kernel, made));
    Py_XDECREF(answer);
    Py_XDECREF(extents);
    Py_XDECREF(strides);
    return is_told;
}

/* The flags for plain bytes; LEFT with an error set where Python has failed. */
static int find_plain(const device_copy *c)
{
    ranges *known = &c->e->plain[c->is_upload][c->host->is_pinned != 0];
    const Py_ssize_t nbytes = c->host->nbytes;
    struct range range;
    form f;
    way made;
    for (int i = 0; i < known->count; ++i)
        if (nbytes > known->kept[i].over && nbytes <= known->kept[i].most)
            return known->kept[i].flags;
    describe_form(c, &f);
    if (!ask_way(c->e, &f, &made, &range.over, &range.most))
        return LEFT;
    range.flags = made.flags;
    known->kept[known->next] = range;
    known->next = (known->next + 1) % RANGES_KEPT;
    known->count += known->count < RANGES_KEPT;
    return range.flags;
}

/* How C makes a copy: whether it does; if not, Python does, or an error is set. A kernel needs aligned elements on the device,
   where `device` may be 0: yet to come. */
int xf_find_way(const device_copy *c, way *found)
{
    device_entry *e = c->e;
    prepared **place, *made;
    Py_ssize_t ignored;
    form f;
    if (!e->prepare || c->host->count <= 0)
        return 0;
    if (is_plain(c->host, c->element)) {
        found->kernel = NULL;
        found->flags = find_plain(c);
        return !(found->flags & LEFT);
    }
    describe_form(c, &f);
    place = &e->ways[place_of(&f)];
    if (!*place || !are_equal(&f, &(*place)->form)) {
        made = malloc(sizeof *made);
        if (!made || !ask_way(e, &f, &made->way, &ignored, &ignored)) {
            if (!made)
                PyErr_NoMemory();
            free(made);
            return 0;
        }
        made->form = f;
        free(*place);
        *place = made;
    }
    memcpy(found, &(*place)->way, (*place)->way.kernel ? sizeof *found : offsetof(way, blocks));
    return !(found->flags & LEFT) &&
           (!found->kernel || (e->launch && c->device % (word)replay.elements[c->element].itemsize == 0));
}

/* --- copies by this thread, that are over for the caller when they return */

/* How long the next upload may wait for its stream. The driver returns from a small upload a few microseconds
   before its last bytes arrive. A call in that time would find the stream busy and take the way by the staging buffer,
   which costs twenty and leaves the stream busy for the next call too: in a loop all of them would. So a call waits about
   half as long as that way takes. Where kernels keep the stream busy, one call in IMPATIENT_CALLS does. */
static int64_t patience(unsigned *in_vain)
{
    if (!*in_vain)
        return PATIENCE_NS;
    *in_vain = (*in_vain + 1) % IMPATIENT_CALLS;
    return 0;
}

static int becomes_idle(const device_entry *e, void *stream, int64_t patience_ns)
{
    int64_t begun_ns;
    if (!e->query || e->query(stream) == 0)
        return 1;
    if (!patience_ns)
        return 0;
    begun_ns = now_ns();
    do
        if (e->query(stream) == 0)
            return 1;
    while (now_ns() - begun_ns < patience_ns);
    return 0;
}

/* Note, with the GIL held, how a call that waited for the stream came out. */
static void learn(unsigned *in_vain, int64_t patience_ns, int is_idle)
{
    if (is_idle)
        *in_vain = 0;
    else if (patience_ns)
        *in_vain = 1;
}

int xf_is_idle(device_entry *e, void *stream)
{
    int64_t patience_ns = patience(&e->in_vain);
    int is_idle;
    WITHOUT_GIL(is_idle = becomes_idle(e, stream, patience_ns));
    learn(&e->in_vain, patience_ns, is_idle);
    return is_idle;
}

/* The kind of memory, as the driver has it: 0 where it does not know it, PINNED, or another, such as managed. It may read what it
   knows after its call has returned, unless that is pinned and the call synchronous. */
static int kind_of(const device_entry *e, const char *host)
{
    unsigned kind = 0;
    return e->attribute && e->attribute(&kind, MEMORY_TYPE, (word)(uintptr_t)host) == 0 ? (int)kind : 0;
}

/* Bring bytes to memory of any kind, behind the work of a stream; they are there when it returns. NULL is the default stream, on
   which the synchronous copies run. */
static int fetch(const device_entry *e, word memory, word device, size_t nbytes, void *stream)
{
    int result;
    if (!stream)
        return e->fetch(memory, device, nbytes);
    result = e->fetch_later(memory, device, nbytes, stream);
    return result ? result : e->wait(stream);
}

/* Copy on the call's stream plain bytes, or elements of a layout. `scratch` is
   pinned memory of as many bytes as they have on the device, by way of which they pass; 0: none.

   The driver brings bytes to ordinary memory in pieces, one after the other, at half the speed of one copy to pinned memory and
   one by the processor: hence the scratch of plain bytes, unless the driver knows the memory. Pinned memory that the device has
   read is no more in the processor's caches, and single elements are written there at a third of the speed: 190 KiB of a transposed
   array took 75 us on an H100's host. So few bytes are gathered into ordinary memory (`is_ordinary`), of which the driver copies
   lines: 41 us. So is all that goes to a stream of the program's own: the driver would read pinned memory there after its call has
   returned; ordinary memory it has read by then, and little of it is enqueued on a busy stream all the same.

   Returns the driver's result, or NOT_ASKED where the stream is busy. */
static int copy_by_driver(const device_copy *c, const Layout *layout, word scratch, int is_ordinary)
{
    device_entry *e = c->e;
    void *stream = c->on->handle;
    char *host = c->host->data, *memory = scratch ? (char *)(uintptr_t)scratch : host, *ordinary = NULL;
    size_t nbytes = bytes_there(c);
    int is_little = c->is_upload && e->enqueue && nbytes <= ENQUEUED_MOST && (stream || !layout), is_idle = 1, result = NOT_ASKED;
    int64_t patience_ns = is_little || !c->is_upload ? 0 : patience(&e->in_vain);
    Py_BEGIN_ALLOW_THREADS /* around the query too: see "Blocking" in calls.c */
    if (!c->is_upload) {
        if (!layout && scratch && kind_of(e, host))
            memory = host;
        result = fetch(e, (word)(uintptr_t)memory, c->device, nbytes, stream);
        if (!result && layout)
            e->spread(layout, host, 0, c->host->count, memory, 0, 1);
        else if (!result && memory != host)
            copy_plain(host, memory, nbytes);
    } else if ((stream && is_little) || becomes_idle(e, stream, patience_ns)) {
        if (layout && (stream || is_ordinary) && (ordinary = malloc(nbytes)))
            memory = ordinary;
        if (layout && (ordinary || !stream))
            e->spread(layout, host, 0, c->host->count, memory, 1, !ordinary);
        if (!layout || ordinary || !stream)
            result = stream ? e->enqueue(c->device, (word)(uintptr_t)memory, nbytes, stream)
                            : e->send(c->device, (word)(uintptr_t)memory, nbytes);
        free(ordinary);
    } else {
        is_idle = 0;
        if (is_little && !kind_of(e, host))
            result = e->enqueue(c->device, (word)(uintptr_t)host, nbytes, NULL);
    }
    Py_END_ALLOW_THREADS
    if (c->is_upload && !is_little)
        learn(&e->in_vain, patience_ns, is_idle);
    return result;
}

/* Enqueue copies between pinned memory and the device, which alone takes as long as small ones take to cross: `busy` is the stream to wait
   for. One call of the driver for all takes a third of the time: trees of 16 arrays of 256 KiB to an H200 96 us, and 130 one by one; 64 of
   80 KiB 152 and 285; from it up to 4 % less. But it takes no default stream. So there the first copy goes by itself, and waits for all that
   the default stream waits for; the others go to a stream that waits for the default one, as that does for it. Returns the driver's result. */
int xf_enqueue_each(const device_entry *e, void *stream, const word *to, const word *from, const size_t *nbytes, Py_ssize_t count,
                    int is_upload, void **busy)
{
    enum { IN_ORDER = 1 }; /* CU_MEMCPY_SRC_ACCESS_ORDER_STREAM */
    struct { int order, source[2], target[2]; unsigned flags; } attributes = {.order = IN_ORDER}; /* CUmemcpyAttributes */
    void *on = stream ? stream : e->beside;
    Py_ssize_t done = 0;
    size_t first = 0;
    int error = 0;
    *busy = stream;
    while (!error && done < count) {
        if (done == !stream && e->batch && on && count - done > 1 &&
            !e->batch(to + done, from + done, nbytes + done, (size_t)(count - done), &attributes, &first, 1, on)) {
            *busy = on;
            return 0;
        }
        error = (is_upload ? e->enqueue : e->fetch_later)(to[done], from[done], nbytes[done], stream);
        ++done;
    }
    return error;
}

/* Where in the thread's pinned memory an array passes. One from a device comes behind the one before: the device writes slowly to
   memory that a core has just read and still has in its cache, 192 KiB to the same place take 24 us, and 19.5 to others. 0 where
   it takes more than there is, or with an error set. */
word xf_scratch(const device_entry *e, size_t nbytes, int is_upload)
{
    unsigned long long now = xf_epoch(), start = 0, size = (nbytes + PAGE - 1) / PAGE * PAGE;
    uint64_t thread = PyThreadState_GetID(PyThreadState_Get());
    if (mine.found != now || mine.scratch_of != e || mine.owner != thread) {
        PyObject *answer = PyObject_CallNoArgs(e->scratch);
        int is_told = answer && PyArg_ParseTuple(answer, "KK", &mine.scratch, &mine.nbytes);
        Py_XDECREF(answer);
        mine.scratch_of = is_told ? e : NULL;
        mine.owner = thread;
        mine.found = now;
        if (!is_told)
            return 0;
    }
    if (size > mine.nbytes || mine.is_read)
        return 0;
    if (!is_upload) {
        start = mine.next + size <= mine.nbytes ? mine.next : 0;
        mine.next = start + size;
    }
    return mine.scratch ? mine.scratch + start : 0;
}

/* Note that a copy reads the thread's pinned memory on, while code of Python's may run: until this is called again, that memory is
   not given out. */
void xf_keep_scratch(int is_read)
{
    mine.is_read = is_read;
}

static int copy_at_once(const device_copy *c, int flags)
{
    Layout layout;
    int is_laid_out = !is_plain(c->host, c->element);
    word scratch = 0;
    if ((is_laid_out || flags & THROUGH) && !(scratch = xf_scratch(c->e, bytes_there(c), c->is_upload)))
        return 0;
    if (is_laid_out)
        xf_lay_out(c->host, c->element, &layout);
    return !copy_by_driver(c, is_laid_out ? &layout : NULL, scratch, flags & ORDINARY);
}

/* --- staged copies: staging.c copies, and this asks Python for what that needs

   Python makes a Setup for each direction, and chunks for a transfer of some size. Both last, so it is asked again only
   once a second (the cores that the process may use are counted as often), in another epoch of the fast path, and for a larger
   transfer. The setup is copied, and what it points to is kept, before the GIL is released: another thread may be given
   the next one meanwhile.

   The obvious way is to call the library from Python. After a pause, when the interpreter's own code and objects have left
   the processor's caches, its steps around the call take 120 us of the 430 in which 2 MiB reach an H100. */

/* The setup of the call's stream, which may have none yet. */
static stream_setup *setup_of(const device_copy *c)
{
    stream_setup *found = c->e->setups[c->is_upload];
    int *next = &c->e->next_setup[c->is_upload];
    if (!c->on->handle)
        return found;
    for (int each = 1; each < STREAMS; ++each)
        if (found[each].kept && found[each].stream == c->on->handle)
            return &found[each];
    *next = *next % (STREAMS - 1) + 1;
    return &found[*next];
}

static int ask_setup(const device_copy *c, stream_setup *w, int64_t nbytes, unsigned long long epoch)
{
    PyObject *answer = PyObject_CallFunction(c->e->stage_setup, "iLO", c->is_upload, (long long)nbytes, stream_of(c->on)), *kept;
    unsigned long long address;
    long long enough;
    if (!answer || answer == Py_None || !PyArg_ParseTuple(answer, "OKL", &kept, &address, &enough)) {
        Py_XDECREF(answer);
        return 0;
    }
    memcpy(&w->setup, (const void *)(uintptr_t)address, sizeof w->setup);
    Py_INCREF(kept);
    Py_DECREF(answer);
    answer = w->kept; /* the one before, and only now: Python may have let another thread in */
    w->kept = kept;
    w->stream = c->on->handle;
    w->epoch = epoch;
    w->until_ns = now_ns() + VALID_NS;
    w->nbytes = enough;
    Py_XDECREF(answer); /* last: it may run any code */
    return 1;
}

/* The setup of a stream for a transfer of some bytes, valid now: with the GIL held, a new reference to what its addresses are of. NULL
   where C cannot stage, or with an error set. */
static PyObject *find_setup(const device_copy *c, int64_t nbytes, Setup *setup)
{
    unsigned long long epoch = xf_epoch();
    stream_setup *w = setup_of(c);
    if (!c->e->stage_setup)
        return NULL;
    if (!w->kept || w->stream != c->on->handle || w->epoch != epoch || nbytes > w->nbytes || now_ns() >= w->until_ns)
        if (!ask_setup(c, w, nbytes, epoch) || w->stream != c->on->handle) /* another thread has taken the place over */
            return NULL;
    *setup = w->setup;
    return Py_NewRef(w->kept);
}

PyObject *xf_setup_of(device_entry *e, const call_stream *on, int64_t nbytes, int is_upload, Setup *setup)
{
    const device_copy c = {.e = e, .on = on, .is_upload = is_upload};
    return find_setup(&c, nbytes, setup);
}

/* Copy regions by several threads, in blocks: 1 where that is done, IS_PINNED where the driver had better copy by itself, otherwise 0
   with nothing done, or an error set. The driver may know memory at `asked`, if not NULL: it could read or fill that by itself.
   `is_looped`: only where helping threads spin for the next transfer. */
static int copy_regions(const device_copy *c, const Region *regions, int64_t count, int64_t nbytes, const char *asked, int is_looped)
{
    device_entry *e = c->e;
    Staging *opened = NULL;
    int64_t error = NO_MEMORY;
    int kind = 0;
    Setup setup;
    PyObject *kept = find_setup(c, nbytes, &setup);
    if (!kept || (is_looped && (!setup.spin_ns || e->is_crowded()))) {
        Py_XDECREF(kept);
        return 0;
    }
    Py_BEGIN_ALLOW_THREADS
    if (asked)
        kind = kind_of(e, asked);
    if (!kind)
        error = e->stage(&setup, regions, count, &opened);
    Py_END_ALLOW_THREADS
    if (!kind && error && error != NO_MEMORY &&
        is_done(PyObject_CallFunction(e->stage_finish, "iKLO", c->is_upload, (unsigned long long)(uintptr_t)opened,
                                      (long long)error, stream_of(c->on))))
        error = 0;
    Py_DECREF(kept);
    return kind ? kind == PINNED ? IS_PINNED : 0 : !error;
}

static int copy_in_blocks(const device_copy *c, int is_looped)
{
    const description *host = c->host;
    Region region = {.host = host->data, .device = c->device, .nbytes = (int64_t)bytes_there(c),
                     .unit = c->is_fresh ? HUGE_PAGE : LINE, .is_fresh = c->is_fresh};
    Layout layout;
    if (!is_plain(host, c->element)) {
        xf_lay_out(host, c->element, &layout);
        region.layout = &layout;
        region.unit = 0;
    } else if (host->is_pinned) { /* which the driver copies */
        return 0;
    }
    return copy_regions(c, &region, 1, region.nbytes, host->is_c ? host->data : NULL, is_looped);
}

/* Send arrays in a row by several threads, as in copy_in_blocks(): whether that is done. */
int xf_send_parts(device_entry *e, const call_stream *on, word device, size_t nbytes, const Part *parts, Py_ssize_t count, int is_looped)
{
    const Region region = {.device = device, .nbytes = (int64_t)nbytes, .unit = LINE, .part = parts, .parts = count};
    const device_copy c = {.e = e, .on = on, .is_upload = 1};
    if ((is_looped && now_ns() - e->last_ns >= LOOP_NS) || copy_regions(&c, &region, 1, region.nbytes, NULL, is_looped) != 1)
        return 0;
    e->last_ns = now_ns();
    return 1;
}

/* --- a way, executed */

/* Copy as the flags say: whether that is done. */
static int move(const device_copy *c, int flags)
{
    int is_done = 0;
    if (flags & AT_ONCE && flags & LOOPED && now_ns() - c->e->last_ns < LOOP_NS)
        is_done = copy_in_blocks(c, 1) == 1;
    if (!is_done && flags & AT_ONCE && !PyErr_Occurred())
        is_done = copy_at_once(c, flags);
    if (!is_done && !PyErr_Occurred())
        is_done = copy_in_blocks(c, 0);
    if (is_done == IS_PINNED)
        is_done = is_plain(c->host, c->element) && copy_at_once(c, flags);
    if (is_done && flags & LOOPED)
        c->e->last_ns = now_ns();
    return is_done;
}

/* Keep an array that has been filled on another stream than the default one until it is, and the source that is read there, if any:
   another stream that its memory may belong to must not give it to others before. A small copy is over, or is in a few microseconds,
   before Python has noted that. */
static int is_held(const device_copy *c, PyObject *array, PyObject *source)
{
    device_entry *e = c->e;
    void *stream = c->on->handle;
    int64_t patience_ns;
    int is_idle;
    if (!stream || (!source && e->memory && xf_find_owner(e->memory, array, (word)(uintptr_t)stream) == XF_OWN))
        return 1;
    if (PyErr_Occurred())
        return 0;
    patience_ns = patience(&e->behind_in_vain);
    WITHOUT_GIL(is_idle = becomes_idle(e, stream, patience_ns));
    learn(&e->behind_in_vain, patience_ns, is_idle);
    return is_idle || is_done(PyObject_CallFunctionObjArgs(e->hold, array, stream_of(c->on), source ? source : Py_None, NULL));
}

/* Upload without a kernel to memory of `array`: whether that is done. Pinned memory is read on a stream of the
   program's own when that comes to it: a call that names the stream does not wait, and one on the current stream does, unless the
   caller keeps the source. */
static int send(const device_copy *c, int flags, PyObject *array, int is_new)
{
    const device_entry *e = c->e;
    const description *src = c->host;
    int error, is_kept, kind = src->is_pinned && c->kept ? PINNED : 0;
    int is_loops = c->through && is_plain(src, c->element), is_little = is_loops && e->enqueue && src->nbytes <= ENQUEUED_MOST;
    int is_passing = is_loops && !is_little && src->nbytes <= c->through->nbytes;
    if (!kind && is_passing && (!c->kept || src->nbytes < c->through->asked_from)) /* of any kind: to ask takes longer than to copy some */
        return xf_send_through(c);
    if (!kind && (c->on->handle || src->is_pinned) && !c->kept && flags & AT_ONCE && e->enqueue && src->nbytes <= READ_AT_ONCE &&
        is_plain(src, c->element)) {
        /* To ask which kind the array's memory is takes longer than to copy it, and so does it to wait until the device has read pinned memory:
           of 16 KiB an H200's host takes 5 us so, and 12 to send them as they lie. */
        char ordinary[READ_AT_ONCE];
        copy_plain(ordinary, src->data, (size_t)src->nbytes);
        WITHOUT_GIL(error = e->enqueue(c->device, (word)(uintptr_t)ordinary, (size_t)src->nbytes, c->on->handle));
        return !error && (is_new || is_held(c, array, NULL));
    }
    if (!kind && (c->on->handle || c->kept || is_little) && is_plain(src, c->element))
        WITHOUT_GIL(kind = kind_of(e, src->data));
    if (!kind && is_little) { /* in a loop the stream is busy, and not asked: the loop may be ahead of it by more than the buffers */
        WITHOUT_GIL(error = e->enqueue(c->device, (word)(uintptr_t)src->data, (size_t)src->nbytes, c->on->handle));
        return !error;
    }
    if (!kind && is_passing)
        return xf_send_through(c);
    if (!kind || (kind == PINNED && !is_plain(src, c->element)))
        return move(c, flags) && (is_new || is_held(c, array, NULL));
    if (kind != PINNED || !e->enqueue || (c->kept && c->expected != c->on->handle)) /* managed: the driver would read it later */
        return 0;
    if (c->kept && PyList_Append(c->kept, c->source))
        return 0;
    WITHOUT_GIL(error = e->enqueue(c->device, (word)(uintptr_t)src->data, (size_t)src->nbytes, c->on->handle));
    is_kept = !error && (c->kept || (c->on->named && is_held(c, array, c->source)));
    if (!error && !is_kept)
        WITHOUT_GIL(error = e->wait(c->on->handle));
    return !error && !PyErr_Occurred();
}

/* Enqueue the kernel of a way; the driver may wait for room in its queue. Whether it is. */
static int launch(const device_copy *c, const way *w, word dst, word src)
{
    int64_t numbers[MOST_NUMBERS];
    void *arguments[2 + MOST_NUMBERS] = {&dst, &src};
    int result;
    memcpy(numbers, w->numbers, (size_t)w->count * sizeof *numbers);
    for (int i = 0; i < w->count; ++i)
        arguments[2 + i] = &numbers[i];
    WITHOUT_GIL(
        result = c->e->launch(w->kernel, w->blocks, 1, 1, w->block[0], w->block[1], 1, 0, c->on->handle, arguments, NULL));
    return !result;
}

/* Copy by way of memory of the device in which the elements have the dtype of the host's, and lie as they cross the link: whether
   that is done. */
static int move_in_steps(const device_copy *c, const way *w)
{
    description flat = *c->host;
    device_copy crossing = *c;
    PyObject *between;
    way first;
    int is_done = 0;
    flat.axes = 1;
    flat.extents[0] = flat.count;
    flat.strides = NULL;
    flat.is_c = 1;
    crossing.element = flat.element;
    crossing.device = 0;
    if (w->flags & AS_IT_LIES)
        crossing.host = &flat;
    if (!xf_find_way(&crossing, &first) || first.kernel)
        return 0;
    between = xf_make_on(c->e, c->on, &flat, 1, &crossing.device);
    if (crossing.device && c->is_upload)
        is_done = send(&crossing, first.flags, between, 1) && launch(c, w, c->device, crossing.device);
    else if (crossing.device)
        is_done = launch(c, w, crossing.device, c->device) && move(&crossing, first.flags);
    Py_XDECREF(between); /* its library reuses the memory in the order of the stream */
    return is_done;
}

/* Make a copy in its way, an upload to memory of `array`, which is a new one or not: whether that is done. */
int xf_run_way(const device_copy *c, const way *w, PyObject *array, int is_new)
{
    if (w->kernel)
        return move_in_steps(c, w) && (!c->is_upload || is_new || is_held(c, array, NULL));
    return c->is_upload ? send(c, w->flags, array, is_new) : move(c, w->flags);
}
