/* How arrays travel, as Python has decided it: found by their form.

   xferlib/_transfer/plan.py has all the policy, and decides once for each form: direction, pinned memory, shape, strides and
   both dtypes. Plain bytes have no form but their size, and one decision holds for a range of sizes. What is decided is kept
   here: there are as many places as loops have forms, and a form that finds its place taken takes it over. All functions are
   called with the GIL held, and any call of Python's may let another thread take a place over: so a caller gets a copy. */

#include "replay.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    int16_t is_upload, is_pinned, is_swapped, host;
    int32_t there, axes; /* `host` and `there`: numbers of the elements' types; no padding, since forms are compared as bytes */
    int64_t extents[MOST_AXES], strides[MOST_AXES]; /* of the end on the host */
} form;

typedef struct prepared {
    form form;
    way way;
} prepared;

static size_t size_of(const form *f)
{
    return offsetof(form, extents) + (size_t)f->axes * sizeof *f->extents;
}

static int are_equal(const form *one, const form *other)
{
    return !memcmp(one, other, size_of(one)) &&
           !memcmp(one->strides, other->strides, (size_t)one->axes * sizeof *one->strides);
}

static unsigned place_of(const form *f)
{
    uint64_t hash = (uint64_t)(f->is_upload + 2 * f->is_pinned + 4 * f->is_swapped + 8 * f->host + 256 * f->there);
    for (int i = 0; i < f->axes; ++i)
        hash = ((hash ^ (uint64_t)f->extents[i]) * 0x9E3779B97F4A7C15u ^ (uint64_t)f->strides[i]) * 0x9E3779B97F4A7C15u;
    return (unsigned)(hash >> 32) % WAYS_KEPT;
}

static void describe_form(const description *host, int wanted, int is_upload, form *f)
{
    Py_ssize_t step = replay.elements[host->element].itemsize;
    f->is_upload = (int16_t)is_upload;
    f->is_pinned = (int16_t)host->is_pinned;
    f->is_swapped = (int16_t)host->is_swapped;
    f->axes = host->axes;
    f->host = (int16_t)host->element;
    f->there = wanted;
    for (int i = host->axes; i--; step *= host->extents[i]) {
        f->extents[i] = host->extents[i];
        f->strides[i] = host->strides && !host->is_c ? host->strides[i] : step;
    }
}

/* Read a kernel that Python has described; 0, or -1 with an error set. */
static int read_kernel(PyObject *answer, kernel_launch *made)
{
    unsigned long long handle;
    PyObject *numbers;
    if (!PyArg_ParseTuple(answer, "K(III)O!", &handle, &made->blocks, &made->block[0], &made->block[1],
                          &PyTuple_Type, &numbers))
        return -1;
    if (PyTuple_Size(numbers) > MOST_NUMBERS) {
        PyErr_Format(PyExc_ValueError, "a kernel has at most %d arguments, not %zd", MOST_NUMBERS, PyTuple_Size(numbers));
        return -1;
    }
    made->handle = (void *)(uintptr_t)handle;
    for (made->count = 0; made->count < (int)PyTuple_Size(numbers); ++made->count)
        made->numbers[made->count] = PyLong_AsLongLong(PyTuple_GetItem(numbers, made->count));
    return PyErr_Occurred() ? -1 : 0;
}

/* Ask Python for the way of a form, and for plain bytes the range of sizes that it holds for; 0, or -1 with an error set. */
static int ask(const ways *w, const form *f, way *made, Py_ssize_t *over, Py_ssize_t *most)
{
    PyObject *extents = xf_tuple_of(f->extents, f->axes), *strides = xf_tuple_of(f->strides, f->axes), *answer = NULL, *kernel;
    int result = -1;
    made->kernel.handle = NULL;
    if (extents && strides)
        answer = PyObject_CallFunction(w->prepare, "iiOOOOi", (int)f->is_upload, (int)f->is_pinned, extents, strides,
                                       replay.elements[f->host].dtype, replay.elements[f->there].dtype, (int)f->is_swapped);
    if (answer && PyArg_ParseTuple(answer, "innO", &made->flags, over, most, &kernel))
        result = kernel == Py_None ? 0 : read_kernel(kernel, &made->kernel);
    Py_XDECREF(answer);
    Py_XDECREF(extents);
    Py_XDECREF(strides);
    return result;
}

/* The flags for plain bytes; LEFT with an error set where Python has failed. */
static int find_plain(ways *w, const description *host, int wanted, int is_upload)
{
    form f;
    way made;
    Py_ssize_t over, most;
    int is_pinned = host->is_pinned != 0, count = w->plain[is_upload][is_pinned].count, row;
    for (int i = 0; i < count; ++i)
        if (host->nbytes > w->plain[is_upload][is_pinned].rows[i].over && host->nbytes <= w->plain[is_upload][is_pinned].rows[i].most)
            return w->plain[is_upload][is_pinned].rows[i].flags;
    describe_form(host, wanted, is_upload, &f);
    if (ask(w, &f, &made, &over, &most))
        return LEFT;
    row = w->plain[is_upload][is_pinned].next++ % PLAIN_KEPT;
    w->plain[is_upload][is_pinned].rows[row].over = over;
    w->plain[is_upload][is_pinned].rows[row].most = most;
    w->plain[is_upload][is_pinned].rows[row].flags = made.flags;
    if (w->plain[is_upload][is_pinned].count < PLAIN_KEPT)
        w->plain[is_upload][is_pinned].count++;
    return made.flags;
}

/* How an array in host memory gets to the device, or from there, where its elements are of the number `wanted`: whether C
   copies it; if not, Python does, or an error is set. */
int xf_find_way(device_entry *e, const description *host, int wanted, int is_upload, way *found)
{
    ways *w = &e->ways;
    prepared **place, *made;
    Py_ssize_t ignored;
    form f;
    if (!w->prepare || host->count <= 0)
        return 0;
    if (is_plain(host, wanted)) {
        found->kernel.handle = NULL;
        found->flags = find_plain(w, host, wanted, is_upload);
        return !(found->flags & LEFT);
    }
    describe_form(host, wanted, is_upload, &f);
    place = &w->kept[place_of(&f)];
    if (!*place || !are_equal(&f, &(*place)->form)) {
        made = malloc(sizeof *made);
        if (!made) {
            PyErr_NoMemory();
            return 0;
        }
        if (ask(w, &f, &made->way, &ignored, &ignored)) {
            free(made);
            return 0;
        }
        memcpy(&made->form, &f, sizeof f);
        free(*place);
        *place = made;
    }
    found->flags = (*place)->way.flags;
    found->kernel.handle = (*place)->way.kernel.handle;
    if (found->kernel.handle)
        found->kernel = (*place)->way.kernel;
    return !(found->flags & LEFT) && (!found->kernel.handle || w->launch);
}

/* Enqueue a kernel on a stream, NULL is the default one; the driver may wait for room in its queue. Returns its result. */
int xf_launch(const ways *w, const kernel_launch *kernel, uint64_t dst, uint64_t src, void *stream)
{
    uint64_t ends[2] = {dst, src};
    int64_t numbers[MOST_NUMBERS];
    void *arguments[2 + MOST_NUMBERS] = {&ends[0], &ends[1]};
    int result;
    memcpy(numbers, kernel->numbers, (size_t)kernel->count * sizeof *numbers);
    for (int i = 0; i < kernel->count; ++i)
        arguments[2 + i] = &numbers[i];
    Py_BEGIN_ALLOW_THREADS
    result = w->launch(kernel->handle, kernel->blocks, 1, 1, kernel->block[0], kernel->block[1], 1, 0, stream, arguments, NULL);
    Py_END_ALLOW_THREADS
    return result;
}
