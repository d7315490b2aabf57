/* One array to a device: NULL, with or without an error set, where Python is to do it. */

#include "transfers.h"

#include "arrays.h"
#include "ends.h"
#include "moves.h"
#include "results.h"

static PyObject *send_to_new(PyObject *x, const description *src, const description *arriving, end *e, line *l)
{
    PyObject *result;
    word pointer;
    kernel_step second;
    int is_second;
    if (e->kind == ON_CPU) {
        description dst;
        if (l->named)
            return NULL;
        if (e->library->type == front.ndarray)
            return xf_copied_on_host(x, src, arriving);
        result = xf_is_for_one_call(src, arriving) ? xf_made_on_cpu(e, arriving) : NULL;
        if (result && xf_see(e->library, result, &dst) && dst.is_c && dst.kind == ON_CPU && xf_copy_on_host(src, &dst))
            return result;
        Py_XDECREF(result);
        return NULL;
    }
    if (!xf_is_at_hand(e, l))
        return NULL;
    if ((is_second = xf_choose_step(e, src, arriving->element, 0, 1, &second)) < 0)
        return NULL;
    result = xf_made_on(e, l, arriving, 0);
    pointer = result ? xf_address_of(e, result) : 0;
    if (pointer && (is_second ? xf_move_in_steps(e, x, src, pointer, l, 0, &second)
                              : xf_send_as_is(e, l, x, src, arriving->element, pointer, result, 1)))
        return result;
    Py_XDECREF(result);
    return NULL;
}

static PyObject *send_to_existing(PyObject *x, const description *src, const description *arriving, PyObject *out, line *on)
{
    const library *l = xf_find_library(out);
    description dst;
    word device;
    kernel_step second;
    int is_second;
    end *e;
    if (!l || !xf_see(l, out, &dst) || !xf_are_alike(arriving, &dst) || src->nbytes <= 0)
        return NULL;
    if (dst.kind == ON_CPU) {
        if (on->named || !xf_is_for_one_call(src, &dst) || (l->type == front.ndarray && !(((ndarray *)out)->flags & WRITABLE)))
            return NULL;
        return xf_note_write(l, out) && xf_copy_on_host(src, &dst) ? Py_NewRef(out) : NULL;
    }
    e = dst.is_c ? xf_end_of(l, &dst) : NULL;
    device = (word)(uintptr_t)dst.data;
    if (!e || !xf_is_at_hand(e, on))
        return NULL;
    if ((is_second = xf_choose_step(e, src, dst.element, device, 1, &second)) < 0 || !xf_note_write(l, out))
        return NULL;
    if (is_second ? xf_move_in_steps(e, x, src, device, on, 0, &second) && xf_is_held(e, on, out, NULL, dst.nbytes)
                  : xf_send_as_is(e, on, x, src, dst.element, device, out, 0))
        return Py_NewRef(out);
    return NULL;
}

PyObject *xf_sent(PyObject *x, PyObject *device, PyObject *backend, PyObject *out, PyObject *dtype, line *l)
{
    description src, arriving;
    int number;
    end *e;
    if ((PyObject *)Py_TYPE(x) != front.ndarray || (!xf_see_host(x, &src) && !xf_see_swapped(x, &src)) || !xf_may_skip())
        return NULL;
    number = dtype ? xf_element_of(dtype) : src.element;
    if (number < 0 || !xf_is_converted(&src, number, &arriving))
        return NULL;
    src.is_pinned = src.nbytes > front.most_up && xf_is_lent(x);
    if (out)
        return device || backend ? NULL : send_to_existing(x, &src, &arriving, out, l);
    e = device || backend ? xf_resolved_end(device, backend) : l->named ? xf_find_end(l->device) : xf_default_end();
    if (!e || !e->kind)
        return NULL;
    return send_to_new(x, &src, &arriving, e, l);
}
