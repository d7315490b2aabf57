/* The next batch of a loop, in one call of C: an array of a list, or of an iterator, is copied on the consumer's stream when
   its turn comes, as a plain loop would do it.

   In Python the steps from the loop to that copy are four calls, which take 1 us by themselves and 8 between kernels, where their
   code and objects have left the processor's caches: a quarter of what 64 KiB take to reach a GPU. Whatever is not usual is
   left, with nothing done, to the feed in Python, which sets `is_free` once an array has gone this way: another kind of item, a
   larger one, a closed feed, an error.

   The driver copies ordinary memory at half speed, and waits for the consumer's work where that is more than a few bytes. So the
   array is copied into pinned memory of the loop's own, from which the driver only enqueues: threads fill a buffer together where
   that pays, and while the consumer works on one array of a list they fill the next buffer with the next. There is an event behind
   the last copy from each buffer, and before that is complete nothing is written there.

   Pinned arrays of a list are only enqueued: small ones in their turn, and others ahead on a stream beside the consumer's, into memory
   of the consumer's stream. SideStreamUploader in xferlib/_pipeline/batches.py has the rules, and this the usual steps: two events
   and two waits take some 4 us between kernels, in Python 40 (H200), which is why a loop whose time is its own calls loses nothing.
   What is sent ahead and not handed out goes back to Python (`drain`) as soon as anything is not usual: another current stream, a
   recording, a closed feed.

   xferlib/_pipeline/feeds.py has the rules. */

#include "replay.h"

#include "../staging/plain.h"
#include "../staging/threads.h"

#include <stddef.h>
#include <string.h>
#include <structmember.h>

enum { MOST_AHEAD = 8 };

typedef struct { /* copies beside the consumer's work; Python provides it, down to `order` */
    PyObject *kept; /* what the addresses are of; NULL: there is none */
    void *stream;
    void *freed;  /* event behind the consumer's work that may still use the memory of an array that was allocated just now */
    int count;    /* most arrays ahead */
    void *events[MOST_AHEAD];
    int (*record)(void *, void *), (*wait)(void *), (*order)(void *, void *, unsigned); /* the driver's */
    int first, pending; /* arrays that are sent ahead, in a ring, and not handed out */
    PyObject *sources[MOST_AHEAD], *arrays[MOST_AHEAD];
} copies_beside;

typedef struct {
    PyObject_HEAD
    PyObject *items;              /* list or tuple; NULL: an iterator gives them */
    PyObject *run, *next, *source; /* source: asked by run(next, source), in the context of who made the feed; NULL: it has ended */
    PyObject *device;
    PyObject *acquire, *release; /* of the feed's turn */
    PyObject *pinned;            /* list of sources whose copies no event follows; None: each item is read on return */
    PyObject *held;              /* an item that has been read, until it is handed out */
    PyObject *error;             /* of the source, or met behind a batch: for the feed to raise */
    PyObject *provide;           /* (bytes) -> buffers that hold them; NULL: there will be none */
    PyObject *provide_beside;    /* () -> what copies beside the consumer's work need; NULL: there are none */
    loop_buffers through;
    copies_beside beside;
    unsigned long long stream;   /* that the pinned sources are read on */
    Py_ssize_t number, followed;   /* batches handed out; pinned sources that may be without an event */
    Py_ssize_t most, waited_most; /* bytes of the largest array, and of one that a call waits for while the device works */
    long long work_ns, left_ns, hidden_ns; /* how long the last batch took, when it was handed out, and from when a thread pays */
    Py_ssize_t judged, hidden;             /* the last batch that was asked for, and how many one behind the other could be hidden */
    char is_free, is_open, is_hidden; /* is_hidden: take() found that a thread pays, or copies beside the device's work */
    char has_ended;                   /* the items have, while batches went this way; an iterator without a value */
    int taking;                       /* calls of take() that have not returned: they use the buffers */
} Reader;

typedef struct {
    PyObject_HEAD
    PyObject *reader; /* hands out the batches that it can; NULL or None: there is none */
} Batches;

enum { HIDDEN = 3 }; /* a thread pays once it would have for 3 batches in turn: any one may be late by chance, as the first is */

static PyObject *reader_type;

/* Put a new reference into a field. */
static void set(PyObject **field, PyObject *value)
{
    PyObject *before = *field;
    *field = value;
    Py_XDECREF(before);
}

/* The objects that a reader holds, but for those that are being copied. */
#define OBJECTS(X)                                                                                                             \
    X(items) X(run) X(next) X(source) X(device) X(acquire) X(release) X(pinned) X(held) X(error) X(provide) X(provide_beside)  \
    X(through.kept) X(beside.kept)

static int visit_reader(PyObject *self, visitproc visit, void *arg)
{
    Reader *r = (Reader *)self;
#define VISIT(field) Py_VISIT(r->field);
    Py_VISIT(Py_TYPE(self));
    OBJECTS(VISIT)
    Py_VISIT(r->through.source);
    for (int each = 0; each < r->beside.pending; ++each) {
        Py_VISIT(r->beside.sources[(r->beside.first + each) % r->beside.count]);
        Py_VISIT(r->beside.arrays[(r->beside.first + each) % r->beside.count]);
    }
    return 0;
}

/* End what threads do ahead: on return no source is read. */
static void end_filling(loop_buffers *l)
{
    void *filling = l->filling;
    PyObject *source = l->source;
    l->filling = NULL; /* before another thread may come */
    l->source = NULL;
    if (filling)
        WITHOUT_GIL(l->fill_end(filling));
    Py_XDECREF(source);
}

/* Take the oldest of the arrays that are sent ahead from the ring. */
static void pop(copies_beside *b, PyObject **source, PyObject **array)
{
    *source = b->sources[b->first];
    *array = b->arrays[b->first];
    b->first = (b->first + 1) % b->count;
    --b->pending;
}

/* Wait for the copies that were sent ahead, and drop their arrays: no feed has taken them back. */
static void end_copies(copies_beside *b)
{
    PyObject *source, *array;
    if (b->pending) {
        void *last = b->events[(b->first + b->pending - 1) % b->count];
        WITHOUT_GIL(b->wait(last));
    }
    while (b->pending) {
        pop(b, &source, &array);
        Py_DECREF(array);
        Py_DECREF(source);
    }
}

static int clear_reader(PyObject *self)
{
    Reader *r = (Reader *)self;
    end_filling(&r->through);
    end_copies(&r->beside);
#define CLEAR(field) Py_CLEAR(r->field);
    OBJECTS(CLEAR)
    return 0;
}

static int visit_batches(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((Batches *)self)->reader);
    return 0;
}

static int clear_batches(PyObject *self)
{
    Py_CLEAR(((Batches *)self)->reader);
    return 0;
}

static void deallocate(PyObject *self, inquiry clear)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    clear(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static void deallocate_reader(PyObject *self)
{
    deallocate(self, clear_reader);
}

static void deallocate_batches(PyObject *self)
{
    deallocate(self, clear_batches);
}

/* Whether the error that is set is the end of an iterator, without a value; then it is set no more. */
static int is_plain_end(void)
{
    PyObject *kind, *error, *traceback, *value;
    int is_plain;
    if (!PyErr_ExceptionMatches(PyExc_StopIteration))
        return 0;
    PyErr_Fetch(&kind, &error, &traceback);
    PyErr_NormalizeException(&kind, &error, &traceback);
    value = PyObject_GetAttrString(error, "args");
    is_plain = value && PyTuple_CheckExact(value) && !PyTuple_Size(value);
    Py_XDECREF(value);
    if (!is_plain) {
        PyErr_Restore(kind, error, traceback);
        return 0;
    }
    Py_XDECREF(kind);
    Py_XDECREF(error);
    Py_XDECREF(traceback);
    return 1;
}

/* An item of a list, a new reference; NULL where there is none. */
static PyObject *item_at(PyObject *items, Py_ssize_t number)
{
    int is_list = PyList_CheckExact(items);
    if (number >= (is_list ? PyList_Size(items) : PyTuple_Size(items)))
        return NULL;
    return Py_XNewRef(is_list ? PyList_GetItem(items, number) : PyTuple_GetItem(items, number));
}

/* The next item, a new reference: NULL where there is none, or with the source's error set. */
static PyObject *read_item(Reader *r)
{
    if (r->items)
        return item_at(r->items, r->number);
    if (!r->held && r->source) {
        PyObject *source = Py_NewRef(r->source); /* another thread may close the feed meanwhile */
        PyObject *item = PyObject_CallFunctionObjArgs(r->run, r->next, source, NULL);
        Py_DECREF(source);
        set(&r->held, item);
        if (!item && is_plain_end()) {
            r->has_ended = 1;
            set(&r->source, NULL);
        }
    }
    return Py_XNewRef(r->held);
}

/* Keep the error that is set, if any, for the next call to raise. */
static void keep_error(Reader *r)
{
    PyObject *kind, *error, *traceback;
    PyErr_Fetch(&kind, &error, &traceback);
    if (!kind)
        return;
    PyErr_NormalizeException(&kind, &error, &traceback);
    if (traceback)
        PyException_SetTraceback(error, traceback);
    set(&r->error, error);
    Py_XDECREF(kind);
    Py_XDECREF(traceback);
}

/* What `provider` gives is not needed: after an error of Python's or a driver's the loop goes on without. 0 where one is to be raised. */
static int go_without(PyObject **provider)
{
    if (!xf_pass_over_error())
        return 0;
    Py_CLEAR(*provider);
    return 1;
}

/* Have buffers for an item, if it is one that passes through them; 0 with an error set. */
static int have_buffers(Reader *r, PyObject *item)
{
    loop_buffers *l = &r->through, found = {0};
    unsigned long long at[7], memory, event;
    PyObject *answer, *memory_of, *buffers;
    description d;
    if (!r->provide || !xf_describe_host(item, &d) || d.nbytes <= ENQUEUED_MOST || d.nbytes <= l->nbytes || d.nbytes > r->most || !d.is_c || d.is_swapped ||
        (r->items && xf_is_lent(item)))
        return !PyErr_Occurred();
    end_filling(l);
    answer = PyObject_CallFunction(r->provide, "n", d.nbytes);
    if (answer == Py_None) {
        Py_CLEAR(r->provide);
        Py_DECREF(answer);
        return 1;
    }
    if (!answer || !PyArg_ParseTuple(answer, "OnO!(KKKKKKK)LLLnnn", &memory_of, &found.nbytes, &PyTuple_Type, &buffers, &at[0], &at[1],
                                     &at[2], &at[3], &at[4], &at[5], &at[6], &found.helpers, &found.most_threads, &found.spin_ns,
                                     &found.shared_from, &found.past_most, &found.asked_from)) {
        Py_XDECREF(answer);
        return go_without(&r->provide);
    }
    for (; found.count < MOST_BUFFERS && found.count < PyTuple_Size(buffers); ++found.count) {
        if (!PyArg_ParseTuple(PyTuple_GetItem(buffers, found.count), "KK", &memory, &event))
            break;
        found.at[found.count].memory = (char *)(uintptr_t)memory;
        found.at[found.count].event = (void *)(uintptr_t)event;
    }
    memcpy(&found.copy, at, 7 * sizeof found.copy); /* a function's address is as wide as any: POSIX says so */
    if (found.count && !PyErr_Occurred()) {
        PyObject *before = l->kept;
        found.kept = Py_NewRef(answer);
        found.is_behind = l->is_behind;
        found.patience_ns = r->hidden_ns;
        *l = found;
        Py_XDECREF(before);
    }
    Py_DECREF(answer);
    return !PyErr_Occurred() || go_without(&r->provide);
}

/* Let threads fill the next buffer with the next item of a list, while the consumer works. */
static void fill_ahead(Reader *r)
{
    loop_buffers *l = &r->through;
    PyObject *item;
    description d;
    int status;
    if (!l->is_in_use || l->is_behind || !r->items || l->filling || !(item = read_item(r)))
        return;
    if (is_of(item, replay.ndarray) && xf_describe_host(item, &d) && d.is_c && !d.is_swapped && d.nbytes > l->shared_from &&
        d.nbytes <= l->nbytes && !xf_is_lent(item)) {
        WITHOUT_GIL(status = l->query(l->at[l->next].event));
        if (!status && r->is_open)
            l->filling = l->fill_begin(l->at[l->next].memory, d.data, d.nbytes, d.nbytes <= l->past_most, l->helpers, l->most_threads,
                                       l->spin_ns);
        if (l->filling)
            l->source = Py_NewRef(item);
    }
    Py_DECREF(item);
}

/* Send plain bytes through the next buffer: whether that is done. They have been read on return. */
int xf_send_through(const device_copy *c)
{
    loop_buffers *l = c->through;
    const description *host = c->host;
    char *memory = l->at[l->next].memory;
    void *event = l->at[l->next].event, *filling, *stream = c->on->handle;
    long long begun;
    int error;
    if (l->source != c->source)
        end_filling(l);
    filling = l->filling;
    l->filling = NULL;
    Py_BEGIN_ALLOW_THREADS
    begun = now_ns();
    error = !filling && l->query(event) ? l->wait(event) : 0; /* to wait takes 1.7 us though the event is complete, to ask 0.4 (H200) */
    l->is_behind |= l->passed++ >= l->count && now_ns() - begun > l->patience_ns; /* the first arrays may wait for work enqueued before the loop */
    if (filling)
        l->fill_end(filling);
    else if (!error && host->nbytes > l->shared_from)
        l->fill(memory, host->data, host->nbytes, host->nbytes <= l->past_most, l->helpers, l->most_threads, l->spin_ns);
    else if (!error)
        copy_plain(memory, host->data, (size_t)host->nbytes);
    if (!error)
        error = l->copy(c->device, (word)(uintptr_t)memory, (size_t)host->nbytes, stream);
    if (!error && (error = l->record(event, stream)))
        c->e->wait(stream); /* no event is behind the copy */
    Py_END_ALLOW_THREADS
    Py_CLEAR(l->source);
    l->next = (l->next + !error) % l->count;
    l->is_in_use = !error;
    return !error;
}

/* --- pinned arrays of a list */

/* Have what copies beside the consumer's work need, if there is any. An error may be set, which is none of Exception's. */
static void have_beside(Reader *r)
{
    copies_beside *b = &r->beside, found = {0};
    unsigned long long at[3], stream, freed, event;
    PyObject *answer, *kept, *events;
    if (b->kept || !r->provide_beside)
        return;
    answer = PyObject_CallNoArgs(r->provide_beside);
    if (answer == Py_None)
        Py_CLEAR(r->provide_beside);
    if (answer && answer != Py_None &&
        PyArg_ParseTuple(answer, "OKKO!(KKK)", &kept, &stream, &freed, &PyTuple_Type, &events, &at[0], &at[1], &at[2])) {
        for (; found.count < MOST_AHEAD && found.count < PyTuple_Size(events); ++found.count) {
            event = PyLong_AsUnsignedLongLong(PyTuple_GetItem(events, found.count));
            found.events[found.count] = (void *)(uintptr_t)event;
        }
        memcpy(&found.record, at, sizeof at); /* see have_buffers() */
        found.stream = (void *)(uintptr_t)stream;
        found.freed = (void *)(uintptr_t)freed;
        if (found.count && !PyErr_Occurred() && !b->kept) { /* a finalizer may have been here */
            found.kept = Py_NewRef(kept);
            *b = found;
        }
    }
    Py_XDECREF(answer);
    if (PyErr_Occurred())
        go_without(&r->provide_beside);
}

/* Find the device of the loop where C may use it now, with the stream on which pinned arrays are read as the current one; NULL otherwise. */
static device_entry *device_of_loop(const Reader *r, call_stream *on)
{
    device_entry *e = xf_may_replay() ? xf_device_of_call(r->device, NULL) : NULL;
    return e && e->kind && e->kind != ON_CPU && e->enqueue && xf_is_current(e, on) && on->handle == (void *)(uintptr_t)r->stream ? e : NULL;
}

/* Whether an array is sent ahead, on its device and its current stream. */
static int send_array_ahead(Reader *r, PyObject *item)
{
    copies_beside *b = &r->beside;
    const Py_ssize_t number = r->number;
    const int pending = b->pending, place = (b->first + pending) % b->count;
    call_stream on = {0};
    description src, arriving;
    device_copy c = {.on = &on, .host = &src, .is_upload = 1, .source = item};
    PyObject *array;
    void *event = b->events[place], *stream = b->stream, *freed = b->freed;
    int (*record)(void *, void *) = b->record, (*order)(void *, void *, unsigned) = b->order, error;
    way w;
    if (!is_of(item, replay.ndarray) || !xf_describe_host(item, &src) || src.nbytes < r->waited_most || !src.is_c || src.is_swapped ||
        !(src.is_pinned = xf_is_lent(item)) || !xf_is_converted(&src, NULL, &arriving) || !(c.e = device_of_loop(r, &on)))
        return 0;
    c.element = arriving.element;
    if (!xf_find_way(&c, &w) || w.kernel)
        return 0;
    array = xf_make_on(c.e, &on, &arriving, 0, &c.device);
    if (!array || !c.device || !r->is_open || r->number != number || b->pending != pending) { /* or a finalizer has been here */
        Py_XDECREF(array);
        return 0;
    }
    WITHOUT_GIL(error = record(freed, on.handle) || order(stream, freed, 0) ||
                        c.e->enqueue(c.device, (word)(uintptr_t)src.data, (size_t)src.nbytes, stream) || record(event, stream));
    if (error || !r->is_open) { /* closed meanwhile: nothing else waits for the copy */
        WITHOUT_GIL(c.e->wait(stream));
        Py_DECREF(array);
        return 0;
    }
    b->sources[place] = Py_NewRef(item);
    b->arrays[place] = array;
    ++b->pending;
    return 1;
}

static void send_ahead(Reader *r)
{
    int is_sent = 1;
    while (is_sent && r->beside.kept && r->is_open && r->taking == 1 && r->beside.pending < r->beside.count) {
        PyObject *item = item_at(r->items, r->number + r->beside.pending);
        is_sent = item && send_array_ahead(r, item);
        Py_XDECREF(item);
    }
}

/* The oldest array that was sent ahead, ordered on the current stream; NULL where Python is to take them back. */
static PyObject *take_sent(Reader *r)
{
    copies_beside *b = &r->beside;
    call_stream on = {0};
    PyObject *array, *source;
    void *event;
    int error;
    if (!xf_follow() || !device_of_loop(r, &on) || !r->is_open || !b->pending || PyList_Append(r->pinned, b->sources[b->first]))
        return NULL;
    array = Py_NewRef(b->arrays[b->first]); /* another thread may close the feed meanwhile */
    event = b->events[b->first];
    WITHOUT_GIL(error = b->order(on.handle, event, 0));
    if (error || !r->is_open) {
        Py_DECREF(array);
        return NULL;
    }
    Py_DECREF(array);
    pop(b, &source, &array);
    Py_DECREF(source);
    return array;
}

/* An array of a list, copied on the current stream in its turn. */
static PyObject *take_in_order(Reader *r, PyObject *item)
{
    const int is_pinned = xf_is_lent(item), is_any = is_pinned && (r->provide_beside || r->beside.kept);
    const Py_ssize_t before = PyList_Size(r->pinned);
    PyObject *value;
    description d;
    value = xf_hand_over(item, r->device, r->stream, r->pinned, is_any ? 0 : r->most, r->waited_most, &r->through);
    if (value && is_pinned && r->is_open && PyList_Size(r->pinned) > before && xf_describe_host(item, &d) && d.nbytes >= r->waited_most)
        have_beside(r);
    if (value && PyErr_Occurred())
        Py_CLEAR(value);
    return value;
}

/* --- the next batch */

static PyObject *take_item(Reader *r)
{
    long long begun = 0;
    PyObject *item, *value = NULL;
    if (r->error) {
        PyErr_SetObject((PyObject *)Py_TYPE(r->error), r->error);
        Py_CLEAR(r->error);
        return NULL;
    }
    if (!r->is_open || r->has_ended || (r->items && PyList_Check(r->pinned) && PyList_Size(r->pinned) >= r->followed))
        return NULL;
    if (!r->items) {
        long long rest;
        begun = now_ns();
        rest = begun - r->left_ns;
        if (r->number != r->judged)
            r->hidden = (rest < r->work_ns ? rest : r->work_ns) > r->hidden_ns ? r->hidden + 1 : 0;
        r->judged = r->number;
        r->is_hidden = r->hidden >= HIDDEN || (r->through.is_behind && r->through.nbytes > r->waited_most);
        if (r->is_hidden)
            return NULL;
    }
    r->through.is_in_use = 0;
    if (r->beside.pending) {
        value = take_sent(r);
        xf_pass_over_error();
    } else {
        item = read_item(r);
        r->has_ended |= !item && r->items;
        if (item && r->is_open && is_of(item, replay.ndarray) && have_buffers(r, item))
            value = r->items ? take_in_order(r, item)
                             : xf_hand_over(item, r->device, r->stream, r->pinned, r->most, r->waited_most, &r->through);
        Py_XDECREF(item);
    }
    if (!value)
        return NULL;
    if (!r->is_open) {
        Py_DECREF(value);
        return NULL;
    }
    ++r->number;
    Py_CLEAR(r->held);
    fill_ahead(r);
    send_ahead(r);
    if (!xf_pass_over_error())
        keep_error(r); /* Ctrl-C: the batch is handed out, and is not to be lost */
    if (!r->items) {
        r->left_ns = now_ns();
        r->work_ns = r->left_ns - begun;
    }
    return value;
}

/* Hand the next batch out; NULL without an error where Python is to do it. No thread reads an item that is handed out. */
static PyObject *take(Reader *r)
{
    PyObject *value;
    ++r->taking;
    value = take_item(r);
    --r->taking;
    if (!value || !r->through.is_in_use)
        end_filling(&r->through);
    return value;
}

/* () -> (the source, None if it has ended; a tuple of the item that is held, if any): neither is held here any more. */
static PyObject *reader_end(PyObject *self, PyObject *ignored)
{
    Reader *r = (Reader *)self;
    PyObject *held = PyTuple_New(r->held != NULL), *source = r->source ? r->source : Py_NewRef(Py_None);
    (void)ignored;
    r->source = NULL;
    if (held && r->held) {
        PyTuple_SetItem(held, 0, r->held);
        r->held = NULL;
    }
    return Py_BuildValue("(NN)", source, held);
}

/* () -> (what `provide_beside` gave, None if nothing; whether nothing uses it here any more; a list of (source, array, number of its
   event)): those that were sent ahead, none of which is held here any more. With the feed's turn taken, or the feed is closed. */
static PyObject *reader_drain(PyObject *self, PyObject *ignored)
{
    Reader *r = (Reader *)self;
    copies_beside *b = &r->beside;
    PyObject *list = PyList_New(0), *kept, *source, *array;
    (void)ignored;
    while (list && b->pending) {
        PyObject *part = Py_BuildValue("(OOi)", b->sources[b->first], b->arrays[b->first], b->first);
        if (!part || PyList_Append(list, part))
            Py_CLEAR(list);
        else {
            pop(b, &source, &array);
            Py_DECREF(array);
            Py_DECREF(source);
        }
        Py_XDECREF(part);
    }
    if (!list) {
        end_copies(b);
        return NULL;
    }
    kept = b->kept ? b->kept : Py_None;
    if (r->taking || !b->kept)
        return Py_BuildValue("(OiN)", kept, 0, list);
    b->kept = NULL;
    return Py_BuildValue("(NiN)", kept, 1, list);
}

/* () -> None: this is a forked child, which has none of the threads, nor a device. */
static PyObject *reader_forget(PyObject *self, PyObject *ignored)
{
    Reader *r = (Reader *)self;
    (void)ignored;
    r->is_free = 0; /* the feed refuses */
    r->through.filling = NULL;
    r->beside.pending = 0;
    Py_RETURN_NONE;
}

/* () -> what `provide` gave, for the next loop; None: nothing, or a call uses it. The feed is closed, and no thread reads ahead on
   return. */
static PyObject *reader_close(PyObject *self, PyObject *ignored)
{
    Reader *r = (Reader *)self;
    PyObject *kept;
    (void)ignored;
    r->is_free = r->is_open = 0;
    end_filling(&r->through);
    kept = r->taking ? NULL : r->through.kept;
    if (kept) {
        r->through.kept = NULL;
        r->through.nbytes = 0;
    }
    return kept ? kept : Py_NewRef(Py_None);
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
    PyObject *value = NULL, *turn;
    if (!r->is_free) {
        end_filling(&r->through);
        return NULL;
    }
    if (!(turn = PyObject_CallNoArgs(r->acquire)))
        return NULL;
    Py_DECREF(turn);
    if (r->is_free)
        value = take(r);
    keep_error(r);
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

/* The next batch, which Python's method hands out where C does not. */
static PyObject *next_batch(PyObject *self)
{
    PyObject *reader = ((Batches *)self)->reader, *value = NULL;
    int is_over = 0;
    if (reader && reader_type && is_of(reader, reader_type)) {
        Reader *r = (Reader *)Py_NewRef(reader); /* Python may begin anew meanwhile, with another one */
        value = take_in_turn(r);
        is_over = r->has_ended && r->is_free;
        Py_DECREF(reader);
    }
    return value || is_over || PyErr_Occurred() ? value : PyObject_CallMethod(self, "_take", NULL);
}

static PyMemberDef reader_members[] = {
    {"number", T_PYSSIZET, offsetof(Reader, number), 0, NULL},
    {"stream", T_ULONGLONG, offsetof(Reader, stream), 0, NULL},
    {"pinned", T_OBJECT, offsetof(Reader, pinned), 0, NULL},
    {"source", T_OBJECT, offsetof(Reader, source), READONLY, NULL},
    {"held", T_OBJECT, offsetof(Reader, held), 0, NULL}, /* deleted when it has been handed out */
    {"work_ns", T_LONGLONG, offsetof(Reader, work_ns), 0, NULL},
    {"left_ns", T_LONGLONG, offsetof(Reader, left_ns), 0, NULL},
    {"sent", T_INT, offsetof(Reader, beside.pending), READONLY, NULL}, /* arrays ahead, and not handed out */
    {"is_free", T_BOOL, offsetof(Reader, is_free), 0, NULL},
    {"is_hidden", T_BOOL, offsetof(Reader, is_hidden), READONLY, NULL},
    {"has_ended", T_BOOL, offsetof(Reader, has_ended), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef reader_methods[] = {
    {"close", reader_close, METH_NOARGS, NULL},
    {"drain", reader_drain, METH_NOARGS, NULL},
    {"end", reader_end, METH_NOARGS, NULL},
    {"forget", reader_forget, METH_NOARGS, NULL},
    {"take", reader_take, METH_NOARGS, NULL},
    {"take_in_turn", reader_take_in_turn, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot reader_slots[] = {
    {Py_tp_dealloc, (void *)deallocate_reader}, {Py_tp_traverse, (void *)visit_reader}, {Py_tp_clear, (void *)clear_reader},
    {Py_tp_members, reader_members},     {Py_tp_methods, reader_methods},        {0, NULL},
};
static PyMemberDef batches_members[] = {
    {"_reader", T_OBJECT, offsetof(Batches, reader), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PyType_Slot batches_slots[] = {
    {Py_tp_dealloc, (void *)deallocate_batches}, {Py_tp_traverse, (void *)visit_batches},
    {Py_tp_clear, (void *)clear_batches},        {Py_tp_members, batches_members},
    {Py_tp_iter, (void *)PyObject_SelfIter},     {Py_tp_iternext, (void *)next_batch},
    {0, NULL},
};
static PyType_Spec reader_spec = {"xferlib._native._calls.Reader", sizeof(Reader), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, reader_slots};
static PyType_Spec batches_spec = {"xferlib._native._calls.Batches", sizeof(Batches), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE, batches_slots};

/* Add the base of what hands batches out to the module. */
int xf_add_batches(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&batches_spec);
    int result = type ? PyObject_SetAttrString(module, "Batches", type) : -1;
    Py_XDECREF(type);
    return result;
}

static Reader *new_reader(void)
{
    if (!reader_type && !(reader_type = PyType_FromSpec(&reader_spec)))
        return NULL;
    return (Reader *)((allocfunc)PyType_GetSlot((PyTypeObject *)reader_type, Py_tp_alloc))((PyTypeObject *)reader_type, 0); /* all zero, but for the head */
}

/* (list or tuple, or None; run, next and iterator; device; acquire, release; list for pinned sources, or None; bytes of the largest
   array, and of one that is waited for; how many pinned sources; nanoseconds from which a thread pays; functions that provide buffers, and what copies beside the
   consumer's work need, or None) -> a reader */
PyObject *xf_new_reader(PyObject *module, PyObject *arguments)
{
    PyObject *items, *run, *next, *source, *device, *acquire, *release, *pinned, *provide, *provide_beside;
    Py_ssize_t most, waited_most, followed;
    long long hidden_ns;
    Reader *r;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOOOOOOOnnnLOO", &items, &run, &next, &source, &device, &acquire, &release, &pinned, &most,
                          &waited_most, &followed, &hidden_ns, &provide, &provide_beside) ||
        !(r = new_reader()))
        return NULL;
    r->items = items == Py_None ? NULL : Py_NewRef(items);
    r->run = Py_NewRef(run);
    r->next = Py_NewRef(next);
    r->source = source == Py_None ? NULL : Py_NewRef(source);
    r->device = Py_NewRef(device);
    r->acquire = Py_NewRef(acquire);
    r->release = Py_NewRef(release);
    r->pinned = Py_NewRef(pinned);
    r->provide = provide == Py_None ? NULL : Py_NewRef(provide);
    r->provide_beside = provide_beside == Py_None ? NULL : Py_NewRef(provide_beside);
    r->stream = (unsigned long long)-1; /* of no stream */
    r->most = most;
    r->waited_most = waited_most;
    r->followed = followed;
    r->hidden_ns = hidden_ns;
    r->is_open = 1;
    r->judged = -1;
    if (r->items && replay.dtypes && xf_may_replay())
        xf_device_of_call(r->device, NULL); /* by which the first pinned array is known as one */
    if (!xf_pass_over_error())
        Py_CLEAR(r);
    return (PyObject *)r;
}
