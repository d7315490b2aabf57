/* One array to the host, or several to pinned memory: NULL, with or without an error set, where Python is to do it. */

#include "transfers.h"

#include "arrays.h"
#include "ends.h"
#include "front.h"
#include "moves.h"
#include "results.h"

/* Copy an array that is in host memory already. */
static PyObject *fetched_on_host(PyObject *d, PyObject *out, const description *src, PyObject *dtype)
{
    description arriving, dst;
    int number = dtype ? xf_element_of(dtype) : src->element;
    if (number < 0 || !xf_is_converted(src, number, &arriving))
        return NULL;
    if (!out)
        return xf_copied_on_host((PyObject *)Py_TYPE(d) == front.ndarray ? d : NULL, src, &arriving);
    if ((PyObject *)Py_TYPE(out) != front.ndarray || !xf_see_host(out, &dst) || !xf_are_alike(&arriving, &dst) ||
        !(((ndarray *)out)->flags & WRITABLE) || !xf_is_for_one_call(src, &dst) || !xf_copy_on_host(src, &dst))
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
static PyObject *fetched_later(PyObject *d, end **common, line *on, int is_last, arrival *made_here)
{
    const library *l = xf_find_library(d);
    description src, dst;
    PyObject *result;
    end *e;
    int error;
    if (!l || !xf_see(l, d, &src) || src.kind == ON_CPU || !src.is_c || src.nbytes <= 0 || !(e = xf_end_of(l, &src)) ||
        !e->down.copier.enqueue || (*common ? e != *common : !xf_is_at_hand(e, on)))
        return NULL;
    *common = e;
    result = xf_pinned_array(e, &src);
    if (!result || (PyObject *)Py_TYPE(result) != front.ndarray || !xf_see_host(result, &dst) || !((ndarray *)result)->base) {
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
    PyObject *results = count && xf_may_skip() ? PyList_New(count) : NULL;
    arrival last = {0};
    line on = {0};
    end *common = NULL;
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

PyObject *xf_fetched(PyObject *d, PyObject *out, int is_pinned, PyObject *dtype, line *on)
{
    const library *l;
    description src, arriving, dst;
    PyObject *result;
    int number, is_first, is_fresh = 0, is_done;
    kernel_step first;
    word device;
    end *e;
    if (!xf_may_skip() || !(l = xf_find_library(d)))
        return NULL;
    if (!xf_see(l, d, &src) && !(l->type == front.ndarray && xf_see_swapped(d, &src)))
        return NULL;
    if (src.kind == ON_CPU)
        return is_pinned || on->named ? NULL : fetched_on_host(d, out, &src, dtype);
    number = dtype ? xf_element_of(dtype) : src.element;
    if (!src.is_c || src.nbytes <= 0 || number < 0 || !xf_is_converted(&src, number, &arriving))
        return NULL;
    if (out) {
        if ((PyObject *)Py_TYPE(out) != front.ndarray || !xf_see_host(out, &dst) || !xf_are_alike(&arriving, &dst) ||
            xf_may_overlap_itself(&dst) || !(((ndarray *)out)->flags & WRITABLE))
            return NULL;
        is_pinned = src.nbytes > front.most_down && xf_is_lent(out);
    }
    e = xf_end_of(l, &src);
    device = (word)(uintptr_t)src.data;
    if (!e || !xf_is_at_hand(e, on))
        return NULL;
    dst.is_pinned = arriving.is_pinned = is_pinned;
    if ((is_first = xf_choose_step(e, out ? &dst : &arriving, src.element, device, 0, &first)) < 0)
        return NULL;
    if (out) {
        result = Py_NewRef(out);
    } else {
        result = is_pinned ? xf_pinned_array(e, &arriving) : xf_host_result(e, &arriving, &is_fresh);
        if (!result || (PyObject *)Py_TYPE(result) != front.ndarray || !xf_see_host(result, &dst) ||
            (is_pinned && !((ndarray *)result)->base)) {
            Py_XDECREF(result); /* ordinary memory, from a pool that is full */
            return NULL;
        }
    }
    dst.is_pinned = is_pinned;
    if (is_first)
        is_done = xf_move_in_steps(e, NULL, &dst, device, on, is_fresh, &first);
    else
        is_done = xf_move(e, &e->down, &dst, src.element, device, on, is_fresh);
    if (!is_done) {
        Py_DECREF(result);
        return NULL;
    }
    return result;
}
