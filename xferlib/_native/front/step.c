/* Kernels that put in order, or convert, what crosses the link as it lies in the host's memory.

   Such a kernel depends on the form of the array alone: Python describes its launch once, and the description is kept. There
   are as many places as a loop has forms, and a form that finds its place taken takes it over. All functions are called with
   the GIL held, and any call of Python's may let another thread take a place over: so a caller gets a copy. */

#include "step.h"

#include <stdlib.h>
#include <string.h>

static size_t size_of(const step_form *form)
{
    return offsetof(step_form, extents) + (size_t)form->axes * sizeof *form->extents;
}

static int are_equal(const step_form *one, const step_form *other)
{
    return !memcmp(one, other, size_of(one)) &&
           !memcmp(one->strides, other->strides, (size_t)one->axes * sizeof *one->strides);
}

static unsigned place_of(const step_form *form)
{
    uint64_t hash = (uint64_t)(form->is_upward + 2 * form->is_pinned + 4 * form->host + 128 * form->there);
    for (int i = 0; i < form->axes; ++i)
        hash = ((hash ^ (uint64_t)form->extents[i]) * 0x9E3779B97F4A7C15u ^ (uint64_t)form->strides[i]) * 0x9E3779B97F4A7C15u;
    return (unsigned)(hash >> 32) % STEPS_KEPT;
}

PyObject *xf_tuple_of(const int64_t *numbers, int count)
{
    PyObject *made = PyTuple_New(count);
    for (int i = 0; made && i < count; ++i) {
        PyObject *each = PyLong_FromLongLong(numbers[i]);
        if (!each) {
            Py_DECREF(made);
            return NULL;
        }
        PyTuple_SetItem(made, i, each);
    }
    return made;
}

/* Read what Python has answered; 0, or -1 with an error set. */
static int read_answer(PyObject *answer, kernel_step *made)
{
    unsigned long long handle;
    PyObject *numbers;
    if (answer == Py_None)
        return 0;
    if (!PyArg_ParseTuple(answer, "K(III)O!", &handle, &made->blocks, &made->block[0], &made->block[1],
                          &PyTuple_Type, &numbers))
        return -1;
    if (PyTuple_Size(numbers) > MOST_NUMBERS) {
        PyErr_Format(PyExc_ValueError, "a step has at most %d arguments, not %zd", MOST_NUMBERS, PyTuple_Size(numbers));
        return -1;
    }
    made->handle = (void *)(uintptr_t)handle;
    for (made->count = 0; made->count < (int)PyTuple_Size(numbers); ++made->count)
        made->numbers[made->count] = PyLong_AsLongLong(PyTuple_GetItem(numbers, made->count));
    return PyErr_Occurred() ? -1 : 0;
}

/* Ask Python for the step of a form; NULL with an error set. */
static kernel_step *described(kernel_steps *s, const step_form *form, PyObject *host, PyObject *there)
{
    kernel_step *made = calloc(1, sizeof *made);
    PyObject *extents = xf_tuple_of(form->extents, form->axes), *strides = xf_tuple_of(form->strides, form->axes), *answer = NULL;
    if (extents && strides)
        answer = PyObject_CallFunction(s->describe, "iiOOOO", (int)form->is_upward, (int)form->is_pinned, extents, strides, host, there);
    if (!made)
        PyErr_NoMemory();
    Py_XDECREF(extents);
    Py_XDECREF(strides);
    if (!answer || !made || read_answer(answer, made)) {
        Py_XDECREF(answer);
        free(made);
        return NULL;
    }
    Py_DECREF(answer);
    made->form = *form;
    return made;
}

/* Whether there is a step for a form, whose dtypes are given too; then it is in `found`. */
int xf_find_step(kernel_steps *s, const step_form *form, PyObject *host, PyObject *there, kernel_step *found)
{
    kernel_step **place = &s->kept[place_of(form)], *made;
    if (!s->describe || !s->launch)
        return 0;
    if (!*place || !are_equal(form, &(*place)->form)) {
        made = described(s, form, host, there);
        if (!made)
            return 0;
        free(*place);
        *place = made;
    }
    *found = **place;
    return found->handle != NULL;
}

/* Enqueue a step on a stream, NULL is the default one; the driver may wait for room in its queue. Returns its result. */
int xf_launch_step(const kernel_steps *s, const kernel_step *found, uint64_t dst, uint64_t src, void *stream)
{
    uint64_t ends[2] = {dst, src};
    int64_t numbers[MOST_NUMBERS];
    void *arguments[2 + MOST_NUMBERS] = {&ends[0], &ends[1]};
    int result;
    memcpy(numbers, found->numbers, (size_t)found->count * sizeof *numbers);
    for (int i = 0; i < found->count; ++i)
        arguments[2 + i] = &numbers[i];
    Py_BEGIN_ALLOW_THREADS
    result = s->launch(found->handle, found->blocks, 1, 1, found->block[0], found->block[1], 1, 0, stream, arguments, NULL);
    Py_END_ALLOW_THREADS
    return result;
}
