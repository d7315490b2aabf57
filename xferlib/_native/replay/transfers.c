/* One array to a device or to the host, or several to pinned memory: NULL, with or without an error set, where Python is to do
   it. */

#include "replay.h"

/* How an array gets to `device`, or an address yet to come, if C copies it; a kernel needs aligned elements there. */
static int find_way(device_entry *e, const description *host, int wanted, word device, int is_upload, way *found)
{
    return xf_find_way(e, host, wanted, is_upload, found) &&
           (!found->kernel.handle || device % (word)replay.elements[wanted].itemsize == 0);
}

/* --- to a device */

static PyObject *send_to_cpu(PyObject *x, const description *src, const description *arriving, const device_entry *e)
{
    PyObject *result;
    description dst;
    if (e->library->type == replay.ndarray)
        return xf_copied_on_host(x, src, arriving);
    result = src->nbytes > 0 ? xf_make_on_cpu(e, arriving) : NULL;
    if (result && xf_describe(e->library, result, &dst) && dst.is_c && dst.kind == ON_CPU && xf_copy_on_host(src, &dst))
        return result;
    Py_XDECREF(result);
    return NULL;
}

static PyObject *send_to_new(PyObject *x, const description *src, const description *arriving, device_entry *e, call_stream *on)
{
    PyObject *result;
    word pointer;
    way w;
    if (e->kind == ON_CPU)
        return on->named ? NULL : send_to_cpu(x, src, arriving, e);
    if (!xf_is_current(e, on) || !find_way(e, src, arriving->element, 0, 1, &w))
        return NULL;
    result = xf_make_on(e, on, arriving, 0);
    pointer = result ? xf_address_of(e, result) : 0;
    if (pointer && (w.kernel.handle ? xf_move_in_steps(e, x, src, pointer, on, 0, 1, &w)
                                    : xf_send(e, on, x, src, arriving->element, pointer, result, 1, &w)))
        return result;
    Py_XDECREF(result);
    return NULL;
}

static PyObject *send_to_existing(PyObject *x, const description *src, const description *arriving, PyObject *out, call_stream *on)
{
    const library *l = xf_find_library(out);
    description dst;
    word device;
    way w;
    device_entry *e;
    if (!l || !xf_describe(l, out, &dst) || !xf_are_alike(arriving, &dst) || src->nbytes <= 0)
        return NULL;
    if (dst.kind == ON_CPU) {
        if (on->named || (l->type == replay.ndarray && !(((ndarray *)out)->flags & WRITABLE)))
            return NULL;
        return xf_note_write(l, out) && xf_copy_on_host(src, &dst) ? Py_NewRef(out) : NULL;
    }
    e = dst.is_c ? xf_device_of(l, &dst) : NULL;
    device = (word)(uintptr_t)dst.data;
    if (!e || !xf_is_current(e, on) || !find_way(e, src, dst.element, device, 1, &w) || !xf_note_write(l, out))
        return NULL;
    if (w.kernel.handle ? xf_move_in_steps(e, x, src, device, on, 0, 1, &w) && xf_is_held(e, on, out, NULL)
                        : xf_send(e, on, x, src, dst.element, device, out, 0, &w))
        return Py_NewRef(out);
    return NULL;
}

PyObject *xf_upload(PyObject *x, PyObject *device, PyObject *backend, PyObject *out, PyObject *dtype, call_stream *on)
{
    description src, arriving;
    int number;
    device_entry *e;
    if ((PyObject *)Py_TYPE(x) != replay.ndarray || (!xf_describe_host(x, &src) && !xf_describe_swapped(x, &src)) || !xf_may_replay())
        return NULL;
    number = dtype ? xf_element_of(dtype) : src.element;
    if (number < 0 || !xf_is_converted(&src, number, &arriving))
        return NULL;
    src.is_pinned = xf_is_lent(x);
    if (out)
        return device || backend ? NULL : send_to_existing(x, &src, &arriving, out, on);
    e = device || backend ? xf_resolve_device(device, backend) : on->named ? xf_find_device(on->device) : xf_default_device();
    if (!e || !e->kind)
        return NULL;
    return send_to_new(x, &src, &arriving, e, on);
}

/* --- to the host */

/* Copy an array that is in host memory already. */
static PyObject *fetched_on_host(PyObject *d, PyObject *out, const description *src, PyObject *dtype)
{
    description arriving, dst;
    int number = dtype ? xf_element_of(dtype) : src->element;
    if (number < 0 || !xf_is_converted(src, number, &arriving))
        return NULL;
    if (!out)
        return xf_copied_on_host((PyObject *)Py_TYPE(d) == replay.ndarray ? d : NULL, src, &arriving);
    if ((PyObject *)Py_TYPE(out) != replay.ndarray || !xf_describe_host(out, &dst) || !xf_are_alike(&arriving, &dst) ||
        !(((ndarray *)out)->flags & WRITABLE) || src->nbytes <= 0 || !xf_copy_on_host(src, &dst))
        return NULL;
    return Py_NewRef(out);
}

/* The addresses of a copy to pinned memory, and its stream. */
typedef struct {
    word memory, device;
    size_t nbytes;
    void *stream;
} arrival;

/* Enqueue the copy of an array to new pinned memory, which is returned; the last copy of several is waited for, and the
   others with it, since they are on one stream. NULL, with or without an error set, where Python is to do it. */
static PyObject *fetched_later(PyObject *d, device_entry **common, call_stream *on, int is_last, arrival *made_here)
{
    const library *l = xf_find_library(d);
    description src, dst;
    PyObject *result;
    device_entry *e;
    int error;
    if (!l || !xf_describe(l, d, &src) || src.kind == ON_CPU || !src.is_c || src.nbytes <= 0 || !(e = xf_device_of(l, &src)) ||
        !e->down.copier.enqueue || (*common ? e != *common : !xf_is_current(e, on)))
        return NULL;
    *common = e;
    result = xf_pinned_array(e, &src);
    if (!result || (PyObject *)Py_TYPE(result) != replay.ndarray || !xf_describe_host(result, &dst) || !((ndarray *)result)->base) {
        Py_XDECREF(result);
        return NULL;
    }
    *made_here = (arrival){(word)(uintptr_t)dst.data, (word)(uintptr_t)src.data, (size_t)src.nbytes, on->handle};
    if (is_last) {
        error = xf_copy(&e->down.copier, made_here->device, made_here->memory, made_here->nbytes, on->handle);
    } else {
        Py_BEGIN_ALLOW_THREADS /* a queue may be full */
        error = e->down.copier.enqueue(made_here->memory, made_here->device, made_here->nbytes, on->handle);
        Py_END_ALLOW_THREADS
    }
    if (error) {
        made_here->nbytes = 0;
        Py_DECREF(result);
        return NULL;
    }
    return result;
}

/* (list of arrays of one device, all in C order) -> list of arrays in pinned memory; None, and nothing done, where Python is
   to do it. One wait for all: each alone would take the link's 10 us. */
PyObject *xf_fetch_pinned(PyObject *module, PyObject *arrays)
{
    Py_ssize_t count = PyList_Check(arrays) ? PyList_Size(arrays) : 0, done = 0;
    PyObject *results = count && xf_may_replay() ? PyList_New(count) : NULL;
    arrival last = {0};
    call_stream on = {0};
    device_entry *common = NULL;
    (void)module;
    for (; results && done < count; ++done) {
        arrival made_here = {0};
        PyObject *array = Py_NewRef(PyList_GetItem(arrays, done)); /* the list may change while the GIL is released */
        PyObject *result = fetched_later(array, &common, &on, done == count - 1, &made_here);
        Py_DECREF(array);
        if (!result)
            break;
        PyList_SetItem(results, done, result);
        last = made_here;
        if (PyList_Size(arrays) != count)
            break;
    }
    if (results && done == count)
        return results;
    if (last.nbytes) { /* what is enqueued must be over before its memory is given up: waiting for the last once more does */
        PyObject *kind, *value, *traceback;
        PyErr_Fetch(&kind, &value, &traceback);
        xf_copy(&common->down.copier, last.device, last.memory, last.nbytes, last.stream);
        PyErr_Restore(kind, value, traceback);
    }
    Py_XDECREF(results);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

PyObject *xf_download(PyObject *d, PyObject *out, int is_pinned, PyObject *dtype, call_stream *on)
{
    const library *l;
    description src, arriving, dst;
    PyObject *result;
    int number, is_fresh = 0, is_done;
    way w;
    word device;
    device_entry *e;
    if (!xf_may_replay() || !(l = xf_find_library(d)))
        return NULL;
    if (!xf_describe(l, d, &src) && !(l->type == replay.ndarray && xf_describe_swapped(d, &src)))
        return NULL;
    if (src.kind == ON_CPU)
        return is_pinned || on->named ? NULL : fetched_on_host(d, out, &src, dtype);
    number = dtype ? xf_element_of(dtype) : src.element;
    if (!src.is_c || src.nbytes <= 0 || number < 0 || !xf_is_converted(&src, number, &arriving))
        return NULL;
    if (out) {
        if ((PyObject *)Py_TYPE(out) != replay.ndarray || !xf_describe_host(out, &dst) || !xf_are_alike(&arriving, &dst) ||
            xf_may_overlap_itself(&dst) || !(((ndarray *)out)->flags & WRITABLE))
            return NULL;
        is_pinned = xf_is_lent(out);
    }
    e = xf_device_of(l, &src);
    device = (word)(uintptr_t)src.data;
    if (!e || !xf_is_current(e, on))
        return NULL;
    dst.is_pinned = arriving.is_pinned = is_pinned;
    if (!find_way(e, out ? &dst : &arriving, src.element, device, 0, &w))
        return NULL;
    if (out) {
        result = Py_NewRef(out);
    } else {
        result = is_pinned ? xf_pinned_array(e, &arriving) : xf_host_result(&arriving, HUGE_PAGE - 1, &is_fresh);
        if (!result || (PyObject *)Py_TYPE(result) != replay.ndarray || !xf_describe_host(result, &dst) ||
            (is_pinned && !((ndarray *)result)->base)) {
            Py_XDECREF(result); /* ordinary memory, from a pool that is full */
            return NULL;
        }
    }
    dst.is_pinned = is_pinned;
    if (w.kernel.handle)
        is_done = xf_move_in_steps(e, NULL, &dst, device, on, is_fresh, 0, &w);
    else
        is_done = xf_move(e, &e->down, &dst, src.element, device, on, is_fresh, w.flags);
    if (!is_done) {
        Py_DECREF(result);
        return NULL;
    }
    return result;
}
