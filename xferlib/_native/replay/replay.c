/* The usual calls of to_device and to_host, each in one call of C.

   Most calls move one small array, and their time is that of the steps around the copy: some twenty frames of Python, and
   a question to the array's library for each thing to be known of it. Here a call looks at the arrays' own memory, asks the library
   for what that does not tell, finds the way that Python has prepared for its form, and runs it: see copies.c, which knows no
   policy. Between two arrays in host memory it copies by itself. All else is left, with nothing done, to the functions in
   Python, which know every case and raise every error: another keyword, other layouts on the device, managed memory, a
   recording, and what went wrong here. The stream may be one of the program's own: see calls.c for what that means to a copy. */

#include "replay.h"

typedef struct { /* the arguments of a usual call; NULL: not given, or None */
    PyObject *array, *out, *device, *backend, *dtype, *stream;
    int is_pinned;
    int may_stay; /* the array itself may be the result, where it fits */
    call_stream on;
    PyObject *kept; /* as in a device_copy, with the stream */
    void *expected;
    Py_ssize_t most, waited_most; /* bytes of the largest array, and of one that the call waits for; 0: any */
    loop_buffers *through;
} request;

/* Read a usual call: 0 where there are other arguments by keyword, or not just one by position. */
static int is_usual(PyObject *const *given, Py_ssize_t count, PyObject *names, int is_upload, request *r)
{
    Py_ssize_t length = names ? PyTuple_Size(names) : 0;
    if (count != 1)
        return 0;
    r->array = given[0];
    for (Py_ssize_t i = 0; i < length; ++i) {
        PyObject *name = PyTuple_GetItem(names, i), *value = given[count + i], *unless_none = value == Py_None ? NULL : value;
        if (name == replay.names.out)
            r->out = unless_none;
        else if (is_upload && name == replay.names.device)
            r->device = unless_none;
        else if (is_upload && name == replay.names.backend)
            r->backend = unless_none;
        else if (!is_upload && name == replay.names.pinned && (value == Py_False || value == Py_True))
            r->is_pinned = value == Py_True;
        else if (name == replay.names.dtype)
            r->dtype = unless_none;
        else if (name == replay.names.stream && (!unless_none || is_of(value, replay.stream)))
            r->stream = unless_none;
        else if (is_upload && name == replay.names.copy && value == Py_None)
            r->may_stay = 1;
        else if (name != replay.names.copy || value != Py_True)
            return 0;
    }
    return !(r->is_pinned && r->out);
}

/* --- between two arrays in host memory */

/* What a copy to new memory of a NumPy array gives, or to an array that the call names, whose memory `dst` describes. */
static PyObject *copy_to(const description *src, const description *arriving, PyObject *array, const description *dst)
{
    if (dst->kind != ON_CPU || !xf_are_alike(arriving, dst) || !xf_copy_on_host(src, dst))
        return NULL;
    return Py_NewRef(array);
}

static PyObject *copy_to_new_on_cpu(const request *r, const description *src, const description *arriving, const device_entry *e)
{
    PyObject *made, *result = NULL;
    description dst;
    if (e->library->type == replay.ndarray)
        return xf_copy_to_new_on_host(r->array, src, arriving);
    made = src->nbytes > 0 ? xf_make_on_cpu(e, arriving) : NULL;
    if (made && xf_describe(e->library, made, &dst) && dst.is_c)
        result = copy_to(src, arriving, made, &dst);
    Py_XDECREF(made);
    return result;
}

/* Whether `out` may be written, as a NumPy array; others always may. */
static int is_writable(PyObject *out)
{
    return !is_of(out, replay.ndarray) || ((const ndarray *)out)->flags & WRITABLE;
}

/* --- to a device */

static int is_noted(const library *l, PyObject *array)
{
    return !l->note_write || is_done(PyObject_CallFunctionObjArgs(l->note_write, array, replay.names.out, NULL));
}

static PyObject *upload_to_new(request *r, const description *src, const description *arriving, device_entry *e)
{
    device_copy c = {.e = e, .on = &r->on, .host = src, .element = arriving->element, .is_upload = 1, .source = r->array,
                     .kept = r->kept, .expected = r->expected, .through = r->through};
    PyObject *result;
    way w;
    if (e->kind == ON_CPU)
        return r->on.named ? NULL : copy_to_new_on_cpu(r, src, arriving, e);
    if (!xf_is_current(e, &r->on) || !xf_find_way(&c, &w))
        return NULL;
    result = xf_make_on(e, &r->on, arriving, 0, &c.device);
    if (c.device && xf_run_way(&c, &w, result, 1))
        return result;
    Py_XDECREF(result);
    return NULL;
}

static PyObject *upload_to_existing(request *r, const description *src, const description *arriving)
{
    const library *l = xf_find_library(r->out);
    device_copy c = {.on = &r->on, .host = src, .element = arriving->element, .is_upload = 1, .source = r->array};
    description dst;
    way w;
    if (!l || !xf_describe(l, r->out, &dst) || !xf_are_alike(arriving, &dst) || src->nbytes <= 0)
        return NULL;
    if (dst.kind == ON_CPU)
        return !r->on.named && is_writable(r->out) && is_noted(l, r->out) ? copy_to(src, arriving, r->out, &dst) : NULL;
    c.e = dst.is_c ? xf_device_of(l, &dst) : NULL;
    c.device = (word)(uintptr_t)dst.data;
    if (c.e && xf_is_current(c.e, &r->on) && xf_find_way(&c, &w) && is_noted(l, r->out) && xf_run_way(&c, &w, r->out, 0))
        return Py_NewRef(r->out);
    return NULL;
}

/* The device of a call; NULL where Python is to find it. */
static device_entry *device_of_call(const request *r)
{
    if (r->device || r->backend)
        return xf_resolve_device(r->device, r->backend);
    return r->on.named ? xf_find_device(r->on.device) : xf_default_device();
}

device_entry *xf_device_of_call(PyObject *device, PyObject *backend)
{
    const request r = {.device = device, .backend = backend};
    return device_of_call(&r);
}

/* Whether an array, on the CPU or simulated, is what a call wants: on its device, of its dtype. */
static int stays(const request *r)
{
    const library *l = xf_find_library(r->array);
    PyObject *simulated = l ? NULL : xf_simulated_device(r->array);
    description src, arriving;
    const device_entry *e;
    if ((!l && !simulated) || r->out || r->on.named || !xf_may_replay())
        return 0;
    if (simulated ? r->dtype != NULL
                  : !xf_describe(l, r->array, &src) || src.kind != ON_CPU || !xf_is_converted(&src, r->dtype, &arriving) ||
                        is_changed(&src, &arriving))
        return 0;
    e = device_of_call(r);
    return e && (simulated ? e->device == simulated : e->kind == ON_CPU && e->library == l);
}

/* Whether an array is too large for the call; then it is known whether it is pinned. */
static int is_large(const request *r, description *src)
{
    int is_waited_for; /* and not only enqueued, where it had better run beside the device's work */
    src->is_pinned = xf_is_lent(r->array);
    if (src->is_pinned && r->through && !r->kept) /* to wait until the device has read it is to wait for the consumer's work */
        return !src->is_c || src->is_swapped || src->nbytes <= ENQUEUED_MOST || src->nbytes > r->through->nbytes || src->nbytes > r->most;
    is_waited_for = r->kept && !src->is_pinned && (!r->through || r->through->is_behind || !r->through->helpers);
    return r->most && src->nbytes > (is_waited_for ? r->waited_most : r->most);
}

static PyObject *upload(request *r)
{
    description src, arriving;
    device_entry *e;
    if (r->may_stay && stays(r))
        return Py_NewRef(r->array);
    if (PyErr_Occurred())
        return NULL;
    if (!is_of(r->array, replay.ndarray) || (!xf_describe_host(r->array, &src) && !xf_describe_swapped(r->array, &src)) ||
        !xf_may_replay() || !xf_is_converted(&src, r->dtype, &arriving) || is_large(r, &src))
        return NULL;
    if (r->out)
        return r->device || r->backend ? NULL : upload_to_existing(r, &src, &arriving);
    e = device_of_call(r);
    return e && e->kind ? upload_to_new(r, &src, &arriving, e) : NULL;
}

/* --- to the host */

/* Whether an array, which is a NumPy array in host memory, is as a download wants it: then `dst` describes it. */
static int is_fit(PyObject *array, const description *arriving, description *dst)
{
    return is_of(array, replay.ndarray) && xf_describe_host(array, dst) && xf_are_alike(arriving, dst) && is_writable(array);
}

static PyObject *download(request *r)
{
    const library *l;
    description src, arriving, dst;
    device_copy c = {.on = &r->on};
    PyObject *result;
    way w;
    if (!xf_may_replay() || !(l = xf_find_library(r->array)))
        return NULL;
    if (!xf_describe(l, r->array, &src) && !(l->type == replay.ndarray && xf_describe_swapped(r->array, &src)))
        return NULL;
    if (!xf_is_converted(&src, r->dtype, &arriving) || (r->out && (!is_fit(r->out, &arriving, &dst) || src.nbytes <= 0)))
        return NULL;
    if (src.kind == ON_CPU && (r->is_pinned || r->on.named))
        return NULL;
    if (src.kind == ON_CPU && r->out)
        return copy_to(&src, &arriving, r->out, &dst);
    if (src.kind == ON_CPU)
        return xf_copy_to_new_on_host(l->type == replay.ndarray ? r->array : NULL, &src, &arriving);
    if (!src.is_c || src.nbytes <= 0 || (r->out && xf_may_overlap_itself(&dst)))
        return NULL;
    c.e = xf_device_of(l, &src);
    if (!c.e || !xf_is_current(c.e, &r->on))
        return NULL;
    c.host = r->out ? &dst : &arriving;
    c.element = src.element;
    c.device = (word)(uintptr_t)src.data;
    dst.is_pinned = arriving.is_pinned = r->out ? xf_is_lent(r->out) : r->is_pinned;
    if (!xf_find_way(&c, &w))
        return NULL;
    if (r->out)
        result = Py_NewRef(r->out);
    else
        result = r->is_pinned ? xf_make_pinned(c.e, &arriving) : xf_make_host_result(&arriving, HUGE_PAGE - 1, &c.is_fresh);
    if (result && !r->out) {
        if (!is_fit(result, &arriving, &dst) || (r->is_pinned && !((ndarray *)result)->base)) {
            Py_DECREF(result); /* ordinary memory, from a pool that is full */
            return NULL;
        }
        dst.is_pinned = r->is_pinned;
        c.host = &dst;
    }
    if (result && xf_run_way(&c, &w, result, 0))
        return result;
    Py_XDECREF(result);
    return NULL;
}

/* --- the functions */

/* The general function's result: nothing has been done here. An error is left for it to meet again, in its own words. */
PyObject *xf_call_general(PyObject *function, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    return xf_pass_over_error() ? xf_call_with_names(function, given, count, names) : NULL;
}

static PyObject *run(PyObject *const *given, Py_ssize_t count, PyObject *names, int is_upload)
{
    request r = {0};
    PyObject *done = NULL;
    if (!xf_follow())
        return NULL;
    if (is_usual(given, count, names, is_upload, &r) && xf_read_stream(r.stream, &r.on))
        done = is_upload ? upload(&r) : download(&r);
    Py_XDECREF(r.on.named);
    Py_XDECREF(r.on.device);
    return done ? done : xf_call_general(is_upload ? replay.to_device : replay.to_host, given, count, names);
}

/* What asarray() gives for an array in host memory, NULL for an omitted argument; NULL where Python is to do it. */
PyObject *xf_as_array(PyObject *array, PyObject *dtype, PyObject *device, PyObject *backend)
{
    request r = {.array = array, .device = device, .backend = backend, .dtype = dtype, .may_stay = 1};
    const library *l;
    description src;
    if (!replay.dtypes || !xf_follow())
        return NULL;
    if (stays(&r))
        return Py_NewRef(array);
    r.may_stay = 0;
    if (PyErr_Occurred() || !(l = xf_find_library(array)) || !xf_describe(l, array, &src) || src.kind != ON_CPU)
        return NULL;
    return upload(&r);
}

/* The array on the device, as to_device() gives it; NULL, and nothing done, where Python is to do it, or Ctrl-C is set. Pinned memory
   is read by a copy that is only enqueued: the list then has the array, until the caller has marked the current stream behind it,
   which must be the one of the address. Without a list, None, and other memory, it passes through the buffers of a loop: up to
   `waited_most` of a list, where no threads fill them or the device is behind. Left to Python are pinned memory without a list and
   buffers, and arrays of more than `most` bytes. */
PyObject *xf_hand_over(PyObject *array, PyObject *device, word stream, PyObject *kept, Py_ssize_t most, Py_ssize_t waited_most,
                       loop_buffers *through)
{
    request r = {.array = array, .device = device, .expected = (void *)(uintptr_t)stream, .most = most, .waited_most = waited_most,
                 .through = through};
    PyObject *done;
    r.kept = kept == Py_None ? NULL : kept;
    if (!is_of(array, replay.ndarray))
        return NULL;
    done = xf_follow() ? upload(&r) : NULL;
    if (!done)
        xf_pass_over_error();
    return done;
}

static PyObject *to_device(PyObject *self, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    (void)self;
    return run(given, count, names, 1);
}

static PyObject *to_host(PyObject *self, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    (void)self;
    return run(given, count, names, 0);
}

/* (objects, elements, NumPy's C API, name of the functions' module, documentation of both) -> the two functions */
PyObject *xf_bind_replay(PyObject *module, PyObject *arguments)
{
    static PyMethodDef methods[] = {
        {"to_device", (PyCFunction)(void (*)(void))to_device, METH_FASTCALL | METH_KEYWORDS, NULL},
        {"to_host", (PyCFunction)(void (*)(void))to_host, METH_FASTCALL | METH_KEYWORDS, NULL},
    };
    PyObject *objects, *elements, *numpy, *name, *docs[2], *functions[2] = {NULL, NULL};
    (void)module;
    if (!PyArg_ParseTuple(arguments, "O!O!OO(UU)", &PyDict_Type, &objects, &PyList_Type, &elements, &numpy, &name, &docs[0],
                          &docs[1]) ||
        !xf_fill_tables(objects, elements, numpy))
        return NULL;
    for (int each = 0; each < 2; ++each) {
        methods[each].ml_doc = PyUnicode_AsUTF8AndSize(docs[each], NULL);
        Py_INCREF(docs[each]); /* which holds the text */
        functions[each] = methods[each].ml_doc ? PyCFunction_NewEx(&methods[each], NULL, name) : NULL;
    }
    if (functions[0] && functions[1])
        return Py_BuildValue("(NN)", functions[0], functions[1]);
    Py_XDECREF(functions[0]);
    Py_XDECREF(functions[1]);
    return NULL;
}
