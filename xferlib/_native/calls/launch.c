/* A launch that was checked once, repeated with other addresses and numbers.

   In Python the repetition takes as long as everything else of a launch: types are compared, values are put into a list,
   packed under a lock, and given to the driver. Here the arguments are written into a block on the caller's stack, so that
   threads need no lock, and the driver copies them from there during the launch.

   What is checked at each call, as in Python: the exact types of the arguments, what the owner of the arrays compares
   (shapes, strides, dtypes, device), the alignment of addresses, the range of numbers. Whatever does not fit gives NOT_FIT
   with nothing done, and Python checks the call anew and raises. */

#include "calls.h"

#include <math.h>
#include <string.h>

enum { MOST_PARAMETERS = 64, MOST_BLOCK = 1024, MOST_CONFIG = 128, NOT_FIT = -1 };

typedef struct {
    PyObject *type;  /* of the argument */
    PyObject *label; /* of an array that is written, for the owner's books; None: no such array */
    word mask, rest; /* of an array's address: the bits that are compared, and what they are */
    int offset;      /* in the block */
    char code;       /* 'A': an array; 'N': one that has elements, so an address; else as in Python's struct */
} field;

typedef struct {
    PyObject *kept;    /* holds all objects here */
    int (*launch)(const void *, void *, void **, void **); /* configuration, kernel, arguments, more */
    void *kernel;
    PyObject *matches; /* called with the arrays: whether they are as the checked ones */
    PyObject *names;   /* tuple: the attributes that lead from an array to its address */
    PyObject *note;    /* called with a written array and its label; None: nothing is */
    int is_method;     /* the last attribute is called */
    int count, stream_at;
    Py_ssize_t config_nbytes;
    const char *config;
    field fields[MOST_PARAMETERS];
} launcher;

/* The object that a path of attributes leads to. */
static PyObject *follow(PyObject *from, PyObject *names)
{
    PyObject *at = Py_NewRef(from), *next;
    for (Py_ssize_t i = 0; at && i < PyTuple_Size(names); ++i) {
        next = PyObject_GetAttr(at, PyTuple_GetItem(names, i));
        Py_DECREF(at);
        at = next;
    }
    return at;
}

/* 1 with the number to which attributes lead in *found, the last of which may be called; or -1 with an error set. */
static int find_number(PyObject *from, PyObject *names, int is_method, word *found)
{
    PyObject *at = follow(from, names), *next;
    if (at && is_method) {
        next = PyObject_CallNoArgs(at);
        Py_DECREF(at);
        at = next;
    }
    if (at && at != Py_None && !PyLong_Check(at)) {
        next = PyNumber_Long(at);
        Py_DECREF(at);
        at = next;
    }
    if (!at)
        return -1;
    *found = at == Py_None ? 0 : PyLong_AsUnsignedLongLong(at); /* None: memory of an empty array */
    Py_DECREF(at);
    return *found == (word)-1 && PyErr_Occurred() ? -1 : 1;
}

/* 1 with the address of an array's memory in *found, or -1 with an error set. */
static int find_address(const launcher *l, PyObject *array, word *found)
{
    return find_number(array, l->names, l->is_method, found);
}

/* Write a signed or an unsigned integer of some bytes; 0 where it is out of range, -1 with an error set. */
static int put_integer(char *to, PyObject *value, char code)
{
    static const char codes[] = "bhiqBHIQ";
    int which = (int)(strchr(codes, code) - codes), is_signed = which < 4, overflow = 0, fits;
    size_t nbytes = (size_t)1 << (which & 3);
    long long most = is_signed || nbytes == 8 ? INT64_MAX >> (64 - 8 * nbytes) : (1ll << (8 * nbytes)) - 1, number;
    PyObject *plain = PyNumber_Index(value); /* a NumPy number too */
    word bits;
    if (!plain)
        return -1;
    if (code == 'Q') {
        fits = xf_is_word(plain, &bits);
        PyErr_Clear(); /* negative, or too large */
    } else {
        number = PyLong_AsLongLongAndOverflow(plain, &overflow);
        fits = !overflow && number <= most && number >= (is_signed ? -most - 1 : 0);
        bits = (word)number;
    }
    Py_DECREF(plain);
    memcpy(to, &bits, nbytes); /* the first bytes are the lowest on every machine with a GPU */
    return fits;
}

/* 1, or 0 where the number is out of range, or -1 with an error set. */
int xf_put_number(char *to, PyObject *value, char code)
{
    double number;
    if (code == '?') {
        int truth = PyObject_IsTrue(value);
        *to = (char)(truth > 0);
        return truth < 0 ? -1 : 1;
    }
    if (code != 'f' && code != 'd')
        return put_integer(to, value, code);
    number = PyFloat_AsDouble(value);
    if (number == -1.0 && PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_OverflowError))
            return -1;
        PyErr_Clear();
        return 0;
    }
    if (code == 'd') {
        memcpy(to, &number, sizeof number);
    } else {
        float narrow = (float)number;
        if (isinf(narrow) && !isinf(number))
            return 0;
        memcpy(to, &narrow, sizeof narrow);
    }
    return 1;
}

/* 1 with the arguments in `block`, 0 where they do not fit, or -1 with an error set. */
static int fill(const launcher *l, PyObject *const *values, char *block)
{
    PyObject *arrays[MOST_PARAMETERS], *answer;
    int found, count = 0;
    for (int i = 0; i < l->count; ++i) {
        if ((PyObject *)Py_TYPE(values[i]) != l->fields[i].type)
            return 0;
        if (l->fields[i].code == 'A' || l->fields[i].code == 'N')
            arrays[count++] = values[i];
    }
    answer = xf_call(l->matches, arrays, count);
    found = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    for (int i = 0; found > 0 && i < l->count; ++i) {
        const field *f = &l->fields[i];
        if (f->code == 'A' || f->code == 'N') {
            word address = 0;
            found = find_address(l, values[i], &address);
            if (found > 0 && ((address & f->mask) != f->rest || (f->code == 'N' && !address)))
                return 0;
            memcpy(block + f->offset, &address, sizeof address);
        } else {
            found = xf_put_number(block + f->offset, values[i], f->code);
        }
    }
    for (int i = 0; found > 0 && l->note != Py_None && i < l->count; ++i)
        if (l->fields[i].label != Py_None)
            found = is_done(PyObject_CallFunctionObjArgs(l->note, values[i], l->fields[i].label, NULL)) ? 1 : -1;
    return found;
}

/* (arguments, handle of a stream) -> the driver's result, or NOT_FIT with nothing done. */
static PyObject *run(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    const launcher *l = PyCapsule_GetPointer(self, NULL);
    _Alignas(16) char block[MOST_BLOCK];
    _Alignas(16) char config[MOST_CONFIG];
    void *parameters[MOST_PARAMETERS];
    PyObject *values[MOST_PARAMETERS];
    int is_tuple, found, result;
    word stream;
    if (!l)
        return NULL;
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "a launch takes 2 arguments, not %zd", count);
    is_tuple = PyTuple_CheckExact(given[0]);
    if ((!is_tuple && !PyList_CheckExact(given[0])) || (is_tuple ? PyTuple_Size : PyList_Size)(given[0]) != l->count)
        return PyLong_FromLong(NOT_FIT);
    if (!xf_is_word(given[1], &stream))
        return NULL;
    for (int i = 0; i < l->count; ++i) { /* what is called below may change a list */
        values[i] = (is_tuple ? PyTuple_GetItem : PyList_GetItem)(given[0], i);
        Py_INCREF(values[i]);
    }
    found = fill(l, values, block);
    if (found > 0) {
        for (int i = 0; i < l->count; ++i)
            parameters[i] = block + l->fields[i].offset;
        memcpy(config, l->config, (size_t)l->config_nbytes);
        memcpy(config + l->stream_at, &stream, sizeof stream);
        WITHOUT_GIL(result = l->launch(config, l->kernel, parameters, NULL));
    } else {
        result = NOT_FIT;
    }
    for (int i = 0; i < l->count; ++i)
        Py_DECREF(values[i]);
    return found < 0 ? NULL : PyLong_FromLong(result);
}

static PyMethodDef one_launch = {"launch", FAST(run)};

/* Read the fields: whether that is possible. */
static int is_read(launcher *l, PyObject *given)
{
    Py_ssize_t count = PyTuple_Size(given);
    if (count > MOST_PARAMETERS) {
        PyErr_Format(PyExc_ValueError, "a launch has at most %d parameters, not %zd", MOST_PARAMETERS, count);
        return 0;
    }
    for (; l->count < count; ++l->count) {
        field *f = &l->fields[l->count];
        unsigned long long mask, rest;
        int code;
        if (!PyArg_ParseTuple(PyTuple_GetItem(given, l->count), "OCiKOK", &f->type, &code, &f->offset, &mask, &f->label, &rest))
            return 0;
        if (!strchr("AN?bhiqBHIQfd", code) || f->offset < 0 || f->offset > MOST_BLOCK - 8) {
            PyErr_Format(PyExc_ValueError, "a parameter of kind %c at %d", code, f->offset);
            return 0;
        }
        f->code = (char)code;
        f->mask = mask;
        f->rest = rest;
    }
    return 1;
}

/* (address of the launch, kernel, configuration as bytes, offset of the stream in it, what compares the arrays, names of
   attributes, whether the last is a method, what notes writes or None, fields) -> run; a field is (type, kind, offset,
   mask, label or None, what the masked address is). */
PyObject *xf_bind_launch(PyObject *module, PyObject *arguments)
{
    unsigned long long launch, kernel;
    PyObject *fields, *capsule;
    launcher *l = xf_new_data(arguments, sizeof *l, xf_free_data, &capsule);
    (void)module;
    if (!l)
        return NULL;
    if (PyArg_ParseTuple(arguments, "KKy#iOO!pOO!", &launch, &kernel, &l->config, &l->config_nbytes, &l->stream_at, &l->matches,
                         &PyTuple_Type, &l->names, &l->is_method, &l->note, &PyTuple_Type, &fields)) {
        l->launch = (int (*)(const void *, void *, void **, void **))(uintptr_t)launch;
        l->kernel = (void *)(uintptr_t)kernel;
        if (!launch || l->config_nbytes > MOST_CONFIG || l->stream_at < 0 || l->stream_at + 8 > l->config_nbytes)
            PyErr_Format(PyExc_ValueError, "a launch needs a function, and a stream within its %zd bytes", l->config_nbytes);
        else
            is_read(l, fields);
    }
    return xf_make_function(capsule, &one_launch, 1);
}

/* --- whole calls on the current stream, of one kernel or of two in order, which make their outputs or are given them

   On a stream of the program's own C does what Python does there: new outputs are of the stream's memory, and the use of a
   given array is noted where its memory is another stream's, which must not give it to others before this one has done its
   work.

   No frame of Python runs where the library's own functions do without: behind other work, which has emptied the caches, one
   costs more than the call that it makes. */

enum { MOST_LAUNCHES = 2, MOST_PAIRS = 32, MOST_GIVEN = 8 };
enum { PER_THREAD = 2 }; /* up to here CUDA's handles are names of default streams; but for 0 they are left to Python */

typedef struct {
    void *kernel;
    const char *config;
    Py_ssize_t config_nbytes;
    int count, offsets[MOST_PARAMETERS]; /* of its arguments in the block */
} step;

typedef struct {
    PyObject *calls[2]; /* tuples of (function, tuple of arguments), which make it one after the other on the default stream,
                           and on another one */
    int offset, also;   /* where its address stands in the block */
} output;

typedef struct {
    launcher common;
    PyObject *owner, *flag; /* while the flag of the owner is False, no use on the default stream is noted */
    PyObject *memory;    /* tells whose an array's memory is: see xf_find_owner() */
    PyObject *note;      /* (array, stream): notes the use */
    PyObject *current, *place, *handle; /* gives the library's current stream there, and the attributes that lead to its handle */
    PyObject *stream_of, *device, *is_current; /* gives our own object for it; whether the device is the current one, None: there
                               is one device */
    PyObject *captures;  /* a list: anything in it changes what a call on a stream means */
    int (*is_captured)(word, int *); /* of CUDA: whether a stream is recorded, by whichever library; NULL: none does */
    PyObject *known[2];  /* weak references to the default stream and to the last other one, */
    word known_handle;   /* of this handle */
    word only;           /* the handle of the one stream that the arguments are for, or ANY_STREAM */
    PyObject *others;    /* takes the calls on other streams; None: Python does */
    int spare;           /* of the outputs the last ones, which are not returned */
    PyObject *returned;  /* tuple: the numbers of the arguments that are returned; None: the new outputs are */
    int pairs;
    struct {
        int written, other, is_known; /* numbers of arguments; whether they share memory, */
        long long low, high, distance; /* which they do in between; from the first to the other, if they do */
    } pair[MOST_PAIRS];
    const char *block;   /* the arguments, of which arrays, numbers and outputs are replaced */
    Py_ssize_t nbytes;
    int count, made;
    step steps[MOST_LAUNCHES];
    output outputs[MOST_PARAMETERS];
} maker;

#define ANY_STREAM ((word)-1)

typedef struct {
    word handle;
    PyObject *stream; /* NULL: not asked for */
} launch_stream;

static void free_maker(PyObject *capsule)
{
    maker *m = PyCapsule_GetPointer(capsule, NULL);
    Py_XDECREF(m->known[0]);
    Py_XDECREF(m->known[1]);
    xf_free_data(capsule);
}

/* Find the stream's object: whether there is one, or an error is set. To ask Python takes long, and streams come again. */
static int find_stream(maker *m, launch_stream *on)
{
    PyObject **known = &m->known[on->handle != 0], *before = *known, *found;
    if (on->stream)
        return 1;
    if (before && (!on->handle || m->known_handle == on->handle)) {
        on->stream = PyObject_CallNoArgs(before);
        if (on->stream != Py_None) /* it would have died */
            return on->stream != NULL;
        Py_CLEAR(on->stream);
    }
    on->stream = PyObject_CallFunctionObjArgs(m->stream_of, m->device, NULL);
    if (!on->stream || !(found = PyWeakref_NewRef(on->stream, NULL)))
        return 0;
    before = *known; /* both calls may run Python, and another thread come here */
    *known = found;
    if (on->handle)
        m->known_handle = on->handle;
    Py_XDECREF(before);
    return 1;
}

/* Whether memory of the stream may be used now: what is recorded may run on any stream, beside other work of this one. */
static int may_share(const maker *m, word handle)
{
    int result, status = 0;
    if (m->only == ANY_STREAM || !handle || !m->is_captured)
        return 1;
    WITHOUT_GIL(result = m->is_captured(handle, &status));
    return !result && !status;
}

/* Find the current stream: whether calls on it are done here. An error may be set. */
static int is_served(maker *m, launch_stream *on)
{
    PyObject *found;
    int is_ready = 1;
    on->handle = ANY_STREAM; /* not known */
    if (m->is_current != Py_None) {
        found = PyObject_CallFunctionObjArgs(m->is_current, m->device, NULL);
        is_ready = found && PyObject_IsTrue(found) > 0;
        Py_XDECREF(found);
    }
    if (!is_ready || !(found = PyObject_CallFunctionObjArgs(m->current, m->place, NULL)))
        return 0;
    is_ready = find_number(found, m->handle, 0, &on->handle) > 0;
    Py_DECREF(found);
    return is_ready && (m->only == ANY_STREAM || m->only == on->handle) &&
           (!on->handle || (on->handle > PER_THREAD && !PyList_Size(m->captures) && may_share(m, on->handle) && find_stream(m, on)));
}

/* Whose an array's memory is, as far as can be told here: XF_OWN, of the stream of the handle; XF_FOREIGN, perhaps of another one;
   XF_UNKNOWN, of a kind whose uses are not noted; -1 with an error set. `known`: None where nothing is, or the path from an array
   to its memory; the type of memory whose uses are noted, None: any; and the path from there to its stream's handle. */
int xf_find_owner(PyObject *known, PyObject *array, word handle)
{
    PyObject *memory, *found;
    word own = 0;
    int is_own;
    if (known == Py_None)
        return XF_FOREIGN;
    memory = follow(array, PyTuple_GetItem(known, 0));
    found = PyTuple_GetItem(known, 1);
    if (memory && found != Py_None && (PyObject *)Py_TYPE(memory) != found) {
        Py_DECREF(memory);
        return XF_UNKNOWN;
    }
    found = memory ? follow(memory, PyTuple_GetItem(known, 2)) : NULL;
    is_own = found && xf_is_word(found, &own) && own == handle;
    Py_XDECREF(found);
    Py_XDECREF(memory);
    if (!xf_pass_over_error()) /* of memory that another object keeps: Python finds it */
        return -1;
    return is_own ? XF_OWN : XF_FOREIGN;
}

/* Whether arrays that are written share memory with others just as in the checked call. */
static int are_apart(const maker *m, const char *block)
{
    for (int i = 0; i < m->pairs; ++i) {
        long long at[2], distance;
        memcpy(&at[0], block + m->common.fields[m->pair[i].written].offset, sizeof at[0]);
        memcpy(&at[1], block + m->common.fields[m->pair[i].other].offset, sizeof at[1]);
        distance = at[1] - at[0];
        if (m->pair[i].is_known ? distance != m->pair[i].distance : distance > m->pair[i].low && distance < m->pair[i].high)
            return 0;
    }
    return 1;
}

/* Note the uses of given arrays: whether all are. */
static int are_noted(maker *m, PyObject *const *values, launch_stream *on)
{
    PyObject *may_skip = on->handle ? NULL : PyObject_GetAttr(m->owner, m->flag);
    int is_noted = on->handle || may_skip;
    for (int i = 0; may_skip != Py_False && is_noted && i < m->common.count; ++i) {
        const field *f = &m->common.fields[i];
        int owner = f->code == 'A' || f->code == 'N' ? xf_find_owner(m->memory, values[i], on->handle) : XF_UNKNOWN;
        if (owner < 0 || owner == XF_FOREIGN)
            is_noted = owner > 0 && find_stream(m, on) &&
                       is_done(PyObject_CallFunctionObjArgs(m->note, values[i], on->stream, NULL));
    }
    Py_XDECREF(may_skip);
    return is_noted;
}

/* The array that some calls make: each but the first has the array before its arguments, and the first one the stream if there is
   one. What a call returns takes the array's place, unless that is None. */
static PyObject *make_array(PyObject *calls, PyObject *stream)
{
    PyObject *array = Py_XNewRef(stream);
    for (Py_ssize_t i = 0; i < PyTuple_Size(calls); ++i) {
        PyObject *each = PyTuple_GetItem(calls, i), *function = PyTuple_GetItem(each, 0), *rest = PyTuple_GetItem(each, 1);
        PyObject *given[MOST_GIVEN] = {array}, *found;
        Py_ssize_t count = array ? PyTuple_Size(rest) : 0;
        for (Py_ssize_t j = 0; j < count; ++j)
            given[j + 1] = PyTuple_GetItem(rest, j);
        found = array ? xf_call(function, given, count + 1) : PyObject_CallObject(function, rest);
        if (found == Py_None && i) {
            Py_DECREF(found);
            continue;
        }
        Py_XDECREF(array);
        array = found;
        if (!array)
            break;
    }
    return array;
}

/* Make the outputs, and write their addresses into the block: how many were made, fewer with an error set. */
static int make_outputs(const maker *m, const launch_stream *on, char *block, PyObject **made)
{
    int count = 0;
    for (; count < m->made; ++count) {
        const output *o = &m->outputs[count];
        const int is_on = on->handle && o->calls[1] != Py_None;
        word address = 0;
        if (!(made[count] = make_array(o->calls[is_on], is_on ? on->stream : NULL)))
            break;
        if (find_address(&m->common, made[count], &address) < 0) {
            Py_DECREF(made[count]);
            break;
        }
        memcpy(block + o->offset, &address, sizeof address);
        memcpy(block + o->also, &address, sizeof address);
    }
    return count;
}

/* The driver's result of the launches, of which none follows one that it refuses. */
static int launch_steps(const maker *m, word handle, char *block)
{
    int result = 0;
    for (int i = 0; !result && i < m->count; ++i) {
        const step *s = &m->steps[i];
        _Alignas(16) char config[MOST_CONFIG];
        void *parameters[MOST_PARAMETERS];
        memcpy(config, s->config, (size_t)s->config_nbytes);
        memcpy(config + m->common.stream_at, &handle, sizeof handle);
        for (int j = 0; j < s->count; ++j)
            parameters[j] = block + s->offsets[j];
        result = m->common.launch(config, s->kernel, parameters, NULL);
    }
    return result;
}

/* The outputs of a call: the array itself where there is one, None where there is none, else a tuple. */
static PyObject *results_of(const maker *m, PyObject *const *values, PyObject *const *made)
{
    PyObject *given[MOST_PARAMETERS], *const *from = made;
    int count = m->made - m->spare;
    if (m->returned != Py_None) {
        from = given;
        for (count = 0; count < (int)PyTuple_Size(m->returned); ++count)
            given[count] = values[PyLong_AsLong(PyTuple_GetItem(m->returned, count))];
        if (!count)
            Py_RETURN_NONE;
    }
    return count == 1 ? Py_NewRef(from[0]) : xf_pack(from, count);
}

/* (arguments; an output that is given apart, or None) -> the outputs, or NotImplemented with no output written. */
static PyObject *run_new(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    maker *m = PyCapsule_GetPointer(self, NULL);
    const launcher *l = &m->common;
    launch_stream on = {0};
    _Alignas(16) char block[MOST_BLOCK];
    PyObject *values[MOST_PARAMETERS], *made[MOST_PARAMETERS], *answer = NULL;
    int found, ready = 0, result = NOT_FIT;
    int has_out = count > 1 && given[1] != Py_None;
    if (count < 1 || !PyTuple_CheckExact(given[0]) || PyTuple_Size(given[0]) + has_out != l->count ||
        (has_out && (m->returned == Py_None || PyTuple_Check(given[1]))))
        Py_RETURN_NOTIMPLEMENTED;
    for (int i = 0; i < l->count; ++i)
        values[i] = has_out && i == l->count - 1 ? given[1] : PyTuple_GetItem(given[0], i);
    memcpy(block, m->block, (size_t)m->nbytes);
    found = is_served(m, &on) ? fill(l, values, block) : 0;
    if (on.handle != ANY_STREAM && m->only != ANY_STREAM && on.handle != m->only && m->others != Py_None)
        return PyObject_CallFunctionObjArgs(m->others, given[0], Py_None, NULL);
    if (found > 0 && are_apart(m, block) && (ready = make_outputs(m, &on, block, made)) == m->made && are_noted(m, values, &on))
        WITHOUT_GIL(result = launch_steps(m, on.handle, block));
    if (!result)
        answer = results_of(m, values, made);
    for (int i = 0; i < ready; ++i)
        Py_DECREF(made[i]);
    Py_XDECREF(on.stream);
    if (answer || !xf_pass_over_error()) /* of which the call that does it step by step says what it was */
        return answer;
    Py_RETURN_NOTIMPLEMENTED;
}

static PyMethodDef one_new_launch = {"launch_new", FAST(run_new)};

/* Read the calls that make an output: whether there are any, each with a few arguments; an error is set otherwise. */
static int are_calls_read(PyObject *calls)
{
    if (!PyTuple_Check(calls)) {
        PyErr_SetString(PyExc_TypeError, "the calls that make an output are no tuple");
        return 0;
    }
    for (Py_ssize_t i = 0; i < PyTuple_Size(calls); ++i) {
        PyObject *function, *arguments;
        if (!PyArg_ParseTuple(PyTuple_GetItem(calls, i), "OO!", &function, &PyTuple_Type, &arguments))
            return 0;
        if (PyTuple_Size(arguments) >= MOST_GIVEN) {
            PyErr_Format(PyExc_ValueError, "a call with %zd arguments, of at most %d", PyTuple_Size(arguments), MOST_GIVEN - 1);
            return 0;
        }
    }
    return 1;
}

/* Read how the outputs are made: whether that is possible. */
static int are_outputs_read(maker *m, PyObject *makers)
{
    for (; m->made < PyTuple_Size(makers) && m->made < MOST_PARAMETERS; ++m->made) {
        output *o = &m->outputs[m->made];
        if (!PyArg_ParseTuple(PyTuple_GetItem(makers, m->made), "OOii", &o->calls[0], &o->calls[1], &o->offset, &o->also) ||
            !are_calls_read(o->calls[0]) || (o->calls[1] != Py_None && !are_calls_read(o->calls[1])))
            return 0;
        if (o->offset < 0 || o->also < 0 || o->offset > MOST_BLOCK - 8 || o->also > MOST_BLOCK - 8)
            break;
    }
    if (m->made == PyTuple_Size(makers))
        return 1;
    PyErr_Format(PyExc_ValueError, "%zd outputs, whose addresses stand in a block of %d bytes", PyTuple_Size(makers), MOST_BLOCK);
    return 0;
}

/* Read the launches: whether their arguments lie in the block. */
static int are_read(maker *m, PyObject *steps)
{
    for (; m->count < MOST_LAUNCHES && m->count < PyTuple_Size(steps); ++m->count) {
        step *s = &m->steps[m->count];
        unsigned long long kernel;
        PyObject *offsets;
        Py_ssize_t count;
        if (!PyArg_ParseTuple(PyTuple_GetItem(steps, m->count), "Ky#O!", &kernel, &s->config, &s->config_nbytes, &PyTuple_Type,
                              &offsets))
            return 0;
        if (s->config_nbytes > MOST_CONFIG || m->common.stream_at < 0 || m->common.stream_at + 8 > s->config_nbytes) {
            PyErr_Format(PyExc_ValueError, "a stream at %d in a configuration of %zd bytes", m->common.stream_at, s->config_nbytes);
            return 0;
        }
        s->kernel = (void *)(uintptr_t)kernel;
        count = PyTuple_Size(offsets);
        for (; s->count < count && s->count < MOST_PARAMETERS; ++s->count) {
            long at = PyLong_AsLong(PyTuple_GetItem(offsets, s->count));
            if (at < 0 || at > m->nbytes)
                break;
            s->offsets[s->count] = (int)at;
        }
        if (s->count < count) {
            if (!PyErr_Occurred())
                PyErr_Format(PyExc_ValueError, "%zd parameters in a block of %zd bytes", count, m->nbytes);
            return 0;
        }
    }
    if (m->count == PyTuple_Size(steps) && m->nbytes <= MOST_BLOCK && m->spare >= 0 && m->spare <= m->made)
        return 1;
    PyErr_Format(PyExc_ValueError, "%zd launches with arguments of %zd bytes", PyTuple_Size(steps), m->nbytes);
    return 0;
}

/* Read the pairs of arrays: whether they are arguments. */
static int are_pairs_read(maker *m, PyObject *pairs)
{
    const int most = m->common.count;
    for (; m->pairs < MOST_PAIRS && m->pairs < PyTuple_Size(pairs); ++m->pairs) {
        PyObject *distance;
        if (!PyArg_ParseTuple(PyTuple_GetItem(pairs, m->pairs), "iiLLO", &m->pair[m->pairs].written, &m->pair[m->pairs].other,
                              &m->pair[m->pairs].low, &m->pair[m->pairs].high, &distance))
            return 0;
        m->pair[m->pairs].is_known = distance != Py_None;
        if (m->pair[m->pairs].is_known && (m->pair[m->pairs].distance = PyLong_AsLongLong(distance)) == -1 && PyErr_Occurred())
            return 0;
        if (m->pair[m->pairs].written < 0 || m->pair[m->pairs].other < 0 || m->pair[m->pairs].written >= most ||
            m->pair[m->pairs].other >= most)
            break;
    }
    for (Py_ssize_t i = 0; m->returned != Py_None && i < PyTuple_Size(m->returned); ++i) {
        long number = PyLong_AsLong(PyTuple_GetItem(m->returned, i));
        if (number < 0 || number >= most)
            PyErr_Format(PyExc_ValueError, "argument %ld of %d is returned", number, most);
    }
    if (!PyErr_Occurred() && m->pairs < PyTuple_Size(pairs))
        PyErr_Format(PyExc_ValueError, "pair %d of %zd pairs of %d arguments", m->pairs, PyTuple_Size(pairs), most);
    return !PyErr_Occurred();
}

/* (address of the launch, launches, offset of the stream in their configurations, what compares the arrays, names of
   attributes, whether the last is a method, what notes writes or None, fields, block as bytes, makers, how many of the last
   outputs are not returned, pairs of arrays, numbers of the arguments that are returned or None, handle of the one stream that
   they are for or None, what takes calls on others or None, owner, name of its flag, (what is known of memory, what notes a use,
   (what gives the current stream, its argument, the attributes that lead to the handle), what gives our object for the stream, list
   of captures, address of the driver's function that tells whether a stream is recorded, or 0), device, what tells whether it is
   current or None) -> launch_new;
   a maker is (calls on the default stream, calls on another one or None for the same, offset, another one), and a launch
   (kernel, configuration as bytes, offsets of all parameters) */
PyObject *xf_bind_new_launch(PyObject *module, PyObject *arguments)
{
    unsigned long long launch, is_captured;
    PyObject *fields, *steps, *makers, *only, *pairs, *capsule;
    maker *m = xf_new_data(arguments, sizeof *m, free_maker, &capsule);
    launcher *l = &m->common;
    (void)module;
    if (!m)
        return NULL;
    if (PyArg_ParseTuple(arguments, "KO!iOO!pOO!y#O!iO!OOOOU(OO(OOO!)OO!K)OO", &launch, &PyTuple_Type, &steps, &l->stream_at, &l->matches,
                         &PyTuple_Type, &l->names, &l->is_method, &l->note, &PyTuple_Type, &fields, &m->block, &m->nbytes, &PyTuple_Type,
                         &makers, &m->spare, &PyTuple_Type, &pairs, &m->returned, &only, &m->others, &m->owner, &m->flag, &m->memory, &m->note,
                         &m->current, &m->place, &PyTuple_Type, &m->handle, &m->stream_of, &PyList_Type, &m->captures, &is_captured, &m->device,
                         &m->is_current)) {
        m->only = ANY_STREAM;
        m->is_captured = (int (*)(word, int *))(uintptr_t)is_captured;
        l->launch = (int (*)(const void *, void *, void **, void **))(uintptr_t)launch;
        if (!launch)
            PyErr_SetString(PyExc_ValueError, "a launch needs a function");
        else if ((only == Py_None || xf_is_word(only, &m->only)) && is_read(l, fields) && are_outputs_read(m, makers) && are_read(m, steps))
            are_pairs_read(m, pairs);
    }
    return xf_make_function(capsule, &one_new_launch, 1);
}

/* --- whether arrays are as earlier ones, by their types and some attributes: what each repeated call of a kernel asks first */

enum { TYPES, NAMES, VALUES };

/* The function's own object is a tuple: the types, the names of attributes, and for each array a tuple of their values. */
static PyObject *are_alike(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    PyObject *types = PyTuple_GetItem(self, TYPES), *names = PyTuple_GetItem(self, NAMES), *values = PyTuple_GetItem(self, VALUES);
    Py_ssize_t attributes = PyTuple_Size(names);
    int is_same = count == PyTuple_Size(types);
    for (Py_ssize_t i = 0; is_same && i < count; ++i) {
        PyObject *expected = PyTuple_GetItem(values, i);
        is_same = (PyObject *)Py_TYPE(given[i]) == PyTuple_GetItem(types, i);
        for (Py_ssize_t j = 0; is_same && j < attributes; ++j) {
            PyObject *found = PyObject_GetAttr(given[i], PyTuple_GetItem(names, j));
            if (!found)
                return NULL;
            is_same = PyObject_RichCompareBool(found, PyTuple_GetItem(expected, j), Py_EQ);
            Py_DECREF(found);
            if (is_same < 0)
                return NULL;
        }
    }
    return PyBool_FromLong(is_same);
}

static PyMethodDef one_comparison = {"are_alike", FAST(are_alike)};

/* (types, names, values) -> are_alike */
PyObject *xf_bind_alike(PyObject *module, PyObject *arguments)
{
    PyObject *types, *names, *values;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "O!O!O!", &PyTuple_Type, &types, &PyTuple_Type, &names, &PyTuple_Type, &values))
        return NULL;
    if (PyTuple_Size(types) != PyTuple_Size(values))
        return PyErr_Format(PyExc_ValueError, "%zd types, and values of %zd arrays", PyTuple_Size(types), PyTuple_Size(values));
    for (Py_ssize_t i = 0; i < PyTuple_Size(values); ++i) {
        PyObject *each = PyTuple_GetItem(values, i);
        if (!PyTuple_Check(each) || PyTuple_Size(each) != PyTuple_Size(names))
            return PyErr_Format(PyExc_ValueError, "an array has a tuple of as many values as there are names, %zd",
                                PyTuple_Size(names));
    }
    return PyCFunction_NewEx(&one_comparison, arguments, NULL);
}

enum { CHECK, FLAG, TABLE, KEY, STATE };

/* What `check` says of the arguments; False where the flag of one is set, a negative number is not in the table under the
   key, or there is a state. The function's own object is a tuple of these. */
static PyObject *are_alike_and_plain(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    PyObject *level, *state;
    int is_plain = 1;
    for (Py_ssize_t i = 0; is_plain > 0 && i < count; ++i) {
        PyObject *flag = PyObject_GetAttr(given[i], PyTuple_GetItem(self, FLAG));
        if (!flag)
            return NULL;
        is_plain = flag == Py_False;
        Py_DECREF(flag);
    }
    level = PyDict_GetItemWithError(PyTuple_GetItem(self, TABLE), PyTuple_GetItem(self, KEY));
    if (!level && PyErr_Occurred())
        return NULL;
    if (!is_plain || !level || PyLong_AsLong(level) >= 0)
        Py_RETURN_FALSE;
    if (PyErr_Occurred() || !(state = PyObject_CallNoArgs(PyTuple_GetItem(self, STATE))))
        return NULL;
    Py_DECREF(state);
    if (state != Py_None)
        Py_RETURN_FALSE;
    return xf_call(PyTuple_GetItem(self, CHECK), given, count);
}

static PyMethodDef one_plain_comparison = {"are_alike_and_plain", FAST(are_alike_and_plain)};

/* (check, flag, table, key, state) -> are_alike_and_plain */
PyObject *xf_bind_plain(PyObject *module, PyObject *arguments)
{
    PyObject *check, *flag, *table, *key, *state;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OUO!UO", &check, &flag, &PyDict_Type, &table, &key, &state))
        return NULL;
    return PyCFunction_NewEx(&one_plain_comparison, arguments, NULL);
}
