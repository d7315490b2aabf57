/* Kernels that put in order, or convert, what crosses the link as it lies in the host's memory.

   Such a kernel depends on the form of the array alone: it is described by Python once, and kept. There are as many places
   as a loop has forms, and a form that finds its place taken takes it over. All is called with the GIL held, which a launch
   lets go, as the driver may wait for room in its queue: so a caller gets a copy of what is kept. */

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
    uint64_t hash = (uint64_t)(form->is_upward + 2 * form->host + 64 * form->there);
    for (int i = 0; i < form->axes; ++i)
        hash = ((hash ^ (uint64_t)form->extents[i]) * 0x9E3779B97F4A7C15u ^ (uint64_t)form->strides[i]) * 0x9E3779B97F4A7C15u;
    return (unsigned)(hash >> 32) % STEPS_KEPT;
}

static PyObject *tuple_of(const int64_t *numbers, int count)
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
static int read_answer(PyObject *answer, step *made)
{
    unsigned long long handle;
    PyObject *numbers;
    if (answer == Py_None)
        return 0;
    if (!PyArg_ParseTuple(answer, "OK(III)O!", &made->kernel, &handle, &made->blocks, &made->block[0], &made->block[1],
                          &PyTuple_Type, &numbers))
        return -1;
    if (PyTuple_Size(numbers) > MOST_NUMBERS) {
        PyErr_Format(PyExc_ValueError, "a step has at most %d arguments, not %zd", MOST_NUMBERS, PyTuple_Size(numbers));
        return -1;
    }
    made->handle = (void *)(uintptr_t)handle;
    for (made->count = 0; made->count < (int)PyTuple_Size(numbers); ++made->count)
        made->numbers[made->count] = PyLong_AsLongLong(PyTuple_GetItem(numbers, made->count));
    if (PyErr_Occurred())
        return -1;
    Py_INCREF(made->kernel);
    return 0;
}

/* Ask Python for the step of a form, and keep it; 0, or -1 with an error set. */
static int describe(steps *s, const step_form *form, PyObject *host, PyObject *there, step **place)
{
    step *made = calloc(1, sizeof *made), *before;
    PyObject *extents = tuple_of(form->extents, form->axes), *strides = tuple_of(form->strides, form->axes), *answer = NULL;
    if (made && extents && strides)
        answer = PyObject_CallFunction(s->describe, "iOOOO", (int)form->is_upward, extents, strides, host, there);
    else if (!made)
        PyErr_NoMemory();
    Py_XDECREF(extents);
    Py_XDECREF(strides);
    if (!answer || read_answer(answer, made)) {
        Py_XDECREF(answer);
        free(made);
        return -1;
    }
    Py_DECREF(answer);
    made->form = *form;
    before = *place; /* the question may have let other threads in */
    *place = made;
    if (before) {
        Py_XDECREF(before->kernel);
        free(before);
    }
    return 0;
}

/* Whether there is a step for a form, whose dtypes are given too; then it is in `found`, with a reference to its kernel. */
int xf_find_step(steps *s, const step_form *form, PyObject *host, PyObject *there, step *found)
{
    step **place = &s->kept[place_of(form)];
    if (!s->describe || !s->launch)
        return 0;
    if ((!*place || !are_equal(form, &(*place)->form)) && describe(s, form, host, there, place))
        return 0;
    if (!(*place)->kernel)
        return 0;
    *found = **place;
    Py_INCREF(found->kernel);
    return 1;
}

/* Enqueue a step on the default stream; takes the reference to its kernel. Returns the driver's result. */
int xf_launch_step(const steps *s, const step *found, uint64_t dst, uint64_t src)
{
    uint64_t ends[2] = {dst, src};
    int64_t numbers[MOST_NUMBERS];
    void *arguments[2 + MOST_NUMBERS] = {&ends[0], &ends[1]};
    int result;
    memcpy(numbers, found->numbers, (size_t)found->count * sizeof *numbers);
    for (int i = 0; i < found->count; ++i)
        arguments[2 + i] = &numbers[i];
    Py_BEGIN_ALLOW_THREADS
    result = s->launch(found->handle, found->blocks, 1, 1, found->block[0], found->block[1], 1, 0, NULL, arguments, NULL);
    Py_END_ALLOW_THREADS
    Py_DECREF(found->kernel);
    return result;
}
