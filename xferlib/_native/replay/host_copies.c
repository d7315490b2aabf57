/* Copies between two arrays in host memory, of any layouts and dtypes.

   Small ones are made with the GIL held: to give it up and to take it again would take as long as they do. */

#include "../staging/plain.h"
#include "replay.h"

enum { GIL_KEPT_MOST = 64 << 10, SHORT_ROW = 8 }; /* bytes; elements */

/* Copy between two host arrays, of which `plain` is in C order and in native byte order, as is the other one where it has no
   layout. */
static void copy(const Layout *layout, char *host, const description *plain, int is_gathered, Py_ssize_t nbytes)
{
    PyThreadState *state = nbytes > GIL_KEPT_MOST ? PyEval_SaveThread() : NULL;
    if (!state && !layout)
        copy_plain(plain->data, host, (size_t)nbytes);
    else
        replay.copy(layout, host, plain->data, plain->nbytes, is_gathered, replay.helper_nbytes, replay.helpers,
                    replay.most_threads, replay.spin_ns);
    if (state)
        PyEval_RestoreThread(state);
}

/* Whether an array of at least one element has bytes in common with one in C order, or may have. */
static int may_overlap(const description *one, const description *other)
{
    uintptr_t low = (uintptr_t)one->data, high = low + (size_t)replay.elements[one->element].itemsize;
    for (int i = 0; i < one->axes; ++i) {
        Py_ssize_t reach = (one->extents[i] - 1) * one->strides[i];
        if (reach < 0)
            low += (uintptr_t)reach;
        else
            high += (uintptr_t)reach;
    }
    return low < (uintptr_t)other->data + (size_t)other->nbytes && (uintptr_t)other->data < high;
}

/* Give two arrays of one shape, neither in C order, their axes in the order in which `dst` lies in memory, if it is dense: then it
   is in C order, as strided.c wants one of them. Whether that is done. */
static int is_turned(description *dst, description *src)
{
    int order[MOST_AXES], axes = dst->axes, is_c = 1;
    Py_ssize_t here[MOST_AXES], there[MOST_AXES], size = replay.elements[dst->element].itemsize;
    int64_t extents[MOST_AXES];
    for (int i = 0; i < axes; ++i) { /* the largest step first */
        int place = i;
        for (; place > 0 && dst->strides[order[place - 1]] < dst->strides[i]; --place)
            order[place] = order[place - 1];
        order[place] = i;
    }
    for (int i = axes; i--;) {
        Py_ssize_t step = replay.elements[src->element].itemsize;
        for (int j = axes - 1; j > order[i]; --j)
            step *= src->extents[j];
        extents[i] = dst->extents[order[i]];
        there[i] = dst->strides[order[i]];
        here[i] = src->strides ? src->strides[order[i]] : step;
        if (extents[i] > 1 && there[i] != size)
            return 0;
        size *= extents[i];
    }
    size = replay.elements[src->element].itemsize;
    for (int i = axes; i--; size *= extents[i]) {
        is_c &= extents[i] == 1 || here[i] == size;
        dst->extents[i] = src->extents[i] = extents[i];
        dst->steps[i] = there[i];
        src->steps[i] = here[i];
    }
    dst->strides = dst->steps;
    src->strides = src->steps;
    dst->is_c = 1;
    src->is_c = is_c;
    return 1;
}

/* Whether the last two axes of an array have elements enough for a block of them to be worth converting. */
static int has_rows(const description *d)
{
    int64_t last = d->extents[d->axes - 1];
    return last >= SHORT_ROW && (d->axes < 2 || last * d->extents[d->axes - 2] >= SHORT_ROW * SHORT_ROW);
}

/* Copy between two host arrays of as many elements; 0, with nothing done, where they may share memory, or are as no way here
   takes them. */
int xf_copy_on_host(const description *src, const description *dst)
{
    description turned_dst, turned_src, host;
    const description *plain;
    Layout layout;
    int is_gathered;
    /* Where `src` is in C order, to scatter it takes as long as this, on average. */
    if (!dst->is_c && !dst->is_swapped && (!src->is_c || src->is_swapped)) {
        xf_describe_again(&turned_dst, dst);
        xf_describe_again(&turned_src, src);
        if (is_turned(&turned_dst, &turned_src) && (!is_changed(src, dst) || has_rows(&turned_dst)))
            dst = &turned_dst, src = &turned_src;
    }
    if (src->is_c && dst->is_c && !is_changed(src, dst)) {
        uintptr_t to = (uintptr_t)dst->data, from = (uintptr_t)src->data, nbytes = (uintptr_t)src->nbytes;
        if (to < from + nbytes && from < to + nbytes)
            return 0;
        copy(NULL, src->data, dst, 1, src->nbytes);
        return 1;
    }
    is_gathered = dst->is_c;
    xf_describe_again(&host, is_gathered ? src : dst);
    plain = is_gathered ? dst : src;
    if (!plain->is_c || plain->is_swapped || xf_may_overlap_itself(dst) ||
        (uintptr_t)plain->data % (size_t)replay.elements[plain->element].itemsize)
        return 0;
    if (!host.strides) { /* in C order */
        Py_ssize_t step = replay.elements[host.element].itemsize;
        for (int i = host.axes - 1; i >= 0; step *= host.extents[i--])
            host.steps[i] = step;
        host.strides = host.steps;
    }
    if (may_overlap(&host, plain))
        return 0;
    xf_lay_out(&host, plain->element, &layout);
    copy(&layout, host.data, plain, is_gathered, src->nbytes > dst->nbytes ? src->nbytes : dst->nbytes);
    return 1;
}

/* A new NumPy array with the elements of one in host memory; NULL, with or without an error set, where Python is to do it.
   NumPy's own copy of `x`, its own array, knows arrays without elements, and keeps a dtype that is another object than the one
   that NumPy has for it, such as one with metadata. */
PyObject *xf_copy_to_new_on_host(PyObject *x, const description *src, const description *arriving)
{
    PyObject *result;
    description dst;
    int is_usual = !x || ((const ndarray *)x)->dtype == replay.elements[src->element].dtype, is_fresh;
    if (x && !is_changed(src, arriving) && (src->nbytes <= 0 || !is_usual))
        return src->nbytes <= replay.host_most ? xf_numpy.new_copy(x, 0) : NULL;
    result = src->nbytes > 0 ? xf_make_host_result(arriving, replay.host_most, &is_fresh) : NULL;
    if (result && xf_describe_host(result, &dst) && xf_copy_on_host(src, &dst))
        return result;
    Py_XDECREF(result);
    return NULL;
}

/* A copy of a NumPy array of up to `most` bytes and of a dtype that every device holds; NULL, without an error but for the
   copy's own, of any other object. */
PyObject *xf_small_copy(PyObject *object, Py_ssize_t most)
{
    description d;
    if (!replay.dtypes || (PyObject *)Py_TYPE(object) != replay.ndarray || !xf_describe_host(object, &d) || d.nbytes > most)
        return NULL;
    return xf_numpy.new_copy(object, 0);
}
