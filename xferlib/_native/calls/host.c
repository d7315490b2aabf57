/* Calls of compiled kernels on arrays of NumPy, or of another library on the CPU, of any shapes and strides, without a step in Python.

   A kernel on sixteen elements takes ten nanoseconds, and its call some microseconds if Python compares the arrays with those
   of the last call, looks for shared memory and collects addresses. Here all of that is done at once, from the fields of NumPy's
   arrays, and from what DLPack's exchange API says of others. What is not plain gives NotImplemented with nothing done: Python
   then checks the call. A call that is worth several threads is handed to Python, too, which has them.

   xferlib/kernels/native_source.py has the other side of `run`. */

#include "../replay/replay.h"

#include <string.h>

enum { MOST_PARAMETERS = 32, MOST_SITES = 16, HEAD = 4 };
enum { MOST_DIMENSIONS = 8 };
#define MOST_EXACT (1ll << 53)

typedef int (*run_function)(void *, const void *, char *const *, const long long *, long long, long long, long long *, char *);

typedef struct {
    PyObject *kind; /* the dtype of an array, or the type of a number */
    int code, is_written, is_used, itemsize; /* code: 'A' for an array, 'R' for a raw one, 'N' for NumPy's number, else as in launch.c */
    int exchanged, bits;                     /* the dtype, as DLPack has it */
    PyObject *own;                           /* the library's dtype */
} parameter;

/* A library whose arrays DLPack describes; NumPy has none of this. */
typedef struct {
    PyObject *type;
    const DLPackExchangeAPI *exchange;
    PyObject *is_negated, *is_conjugate, *recording; /* as in replay.h */
    PyObject *levels, *level, *tracked; /* a dict and its key, which holds -1 where no array has a tangent; an attribute of arrays */
    PyObject *maker, *is_frozen, *count_writes; /* is_frozen: whether writes to an array are refused; count_writes: of a tuple of arrays */
    PyObject *make_check; /* of plain arrays: a function that answers for others of their ranks all that is asked above at once */
} other_library;

/* The function of `make_check` for arrays of these ranks, and None where there is none; NULL before they have come twice. */
typedef struct {
    PyObject *function;
    unsigned long long ranks;
} known_check;

/* An array, whichever library it is of. */
typedef struct {
    char *data;
    int axes, is_c;
    const Py_ssize_t *extents, *strides;
    Py_ssize_t steps[MOST_DIMENSIONS]; /* room for strides that the library has in elements */
} view;

typedef struct {
    PyObject *kept;            /* holds all objects here */
    run_function run;
    void *function;
    const void *form;
    const long long *settings; /* whether compiled kernels are wanted, the most turns of a loop, and of threads, 0: all cores */
    PyObject *failed;          /* called with the numbers of the sites and the geometry: raises */
    PyObject *divide;          /* called with addresses and geometry: computes in threads */
    long long most, most_with_lock, most_alone; /* elements: between two looks for a signal, while the GIL is held, and of one thread */
    int count, outputs, sites, keeps_order, raw, needs_outputs; /* whether a call without its outputs is refused */
    other_library other;
    known_check checks[2]; /* of calls whose outputs are new, and are given */
    parameter parameters[MOST_PARAMETERS];
} host_call;

static PyObject *ndarray_type; /* as long as the process, as NumPy is */

static void free_host(PyObject *capsule)
{
    host_call *h = PyCapsule_GetPointer(capsule, NULL);
    Py_XDECREF(h->checks[0].function);
    Py_XDECREF(h->checks[1].function);
    xf_free_data(capsule);
}

/* The layout of a call: extents, outermost first, and the strides of each array along them. */
typedef struct {
    int rank, arrays;
    long long elements, extents[MOST_DIMENSIONS], strides[MOST_PARAMETERS][MOST_DIMENSIONS];
} layout;

static int is_array(const parameter *own)
{
    return own->code == 'A' || own->code == 'R';
}

static int see_numpy(const parameter *own, PyObject *value, view *v)
{
    const ndarray *array = (const ndarray *)value;
    if (array->dtype != own->kind || (own->is_written && !(array->flags & WRITABLE)))
        return 0;
    v->data = array->data;
    v->axes = array->axes;
    v->is_c = array->flags & C_ORDER;
    v->extents = array->extents;
    v->strides = array->strides;
    return 1;
}

/* Whether no array has a tangent. */
static int has_no_levels(const other_library *l)
{
    PyObject *level = PyDict_GetItemWithError(l->levels, l->level);
    return level && PyLong_AsLong(level) == -1;
}

/* Whether an array's elements are what its memory holds, and its library does not follow what becomes of them. */
static int is_plain_array(const other_library *l, const parameter *own, PyObject *value)
{
    PyObject *tracked = PyObject_GetAttr(value, l->tracked);
    Py_XDECREF(tracked);
    return tracked == Py_False && !xf_is_unusual(l->is_negated, value, Py_False) &&
           (own->exchanged != COMPLEX || !xf_is_unusual(l->is_conjugate, value, Py_False)) &&
           (!own->is_written || !xf_is_unusual(l->is_frozen, value, Py_False));
}

static int see_other(const other_library *l, const parameter *own, PyObject *value, view *v)
{
    int64_t step = 1;
    DLTensor t;
    if (l->exchange->describe(value, &t) || !t.data || t.lanes != 1 || t.kind != ON_CPU || t.code != own->exchanged ||
        t.bits != own->bits || t.axes > MOST_DIMENSIONS)
        return 0;
    v->data = (char *)t.data + t.offset;
    v->axes = t.axes;
    v->is_c = 1;
    v->extents = (const Py_ssize_t *)t.extents;
    v->strides = v->steps;
    for (int a = t.axes; a--; step *= t.extents[a]) {
        v->steps[a] = (Py_ssize_t)(t.strides ? t.strides[a] : step) * own->itemsize;
        v->is_c &= t.extents[a] == 1 || v->steps[a] == (Py_ssize_t)step * own->itemsize;
    }
    return 1;
}

/* Whether an argument is an array as the parameter says. */
static int see(const host_call *h, const parameter *own, PyObject *value, view *v)
{
    PyObject *type = (PyObject *)Py_TYPE(value);
    int is_seen;
    if (type == ndarray_type)
        return !h->other.type && see_numpy(own, value, v);
    is_seen = type == h->other.type && see_other(&h->other, own, value, v);
    if (!is_seen)
        PyErr_Clear();
    return is_seen;
}

/* Make a check of plain arrays where arrays of their ranks came last time, too; else remember the ranks. An error may be set. */
static void remember_check(const other_library *l, known_check *check, unsigned long long ranks, PyObject *const *arrays, Py_ssize_t count)
{
    PyObject *before, *made = NULL;
    if (check->ranks == ranks && check->function)
        return;
    if (check->ranks == ranks && !(made = xf_call(l->make_check, arrays, count)))
        return;
    before = check->function; /* which another thread may have set meanwhile */
    check->function = made;
    check->ranks = ranks;
    Py_XDECREF(before);
}

/* Whether the arrays' elements are what their memory holds, and their library just computes: it records nothing, and does not follow
   what becomes of them. Ctrl-C may be set. */
static int are_plain(const host_call *h, known_check *check, PyObject *const *values, int known, const view *views)
{
    PyObject *arrays[MOST_PARAMETERS], *function = check->function, *answer;
    unsigned long long ranks = 1;
    Py_ssize_t count = 0;
    int is_plain;
    if (!has_no_levels(&h->other))
        return 0;
    for (int i = 0; i < known; ++i)
        if (is_array(&h->parameters[i])) {
            ranks = ranks * (MOST_DIMENSIONS + 1) + (unsigned)views[i].axes;
            arrays[count++] = values[i];
        }
    if (function && function != Py_None && check->ranks == ranks) {
        Py_INCREF(function);
        answer = xf_call(function, arrays, count);
        Py_DECREF(function);
        if (is_done(answer) && answer == Py_True)
            return 1;
        if (!xf_pass_over_error())
            return 0;
    }
    is_plain = !xf_is_unusual(h->other.recording, NULL, Py_None);
    for (int i = 0; i < known && is_plain; ++i)
        is_plain = !is_array(&h->parameters[i]) || is_plain_array(&h->other, &h->parameters[i], values[i]);
    if (is_plain && h->other.make_check)
        remember_check(&h->other, check, ranks, arrays, count);
    return xf_pass_over_error() && is_plain;
}

/* Broadcast the extents of one more array: whether that is possible. */
static int broadcast(layout *l, const view *array)
{
    int more = array->axes - l->rank;
    if (array->axes > MOST_DIMENSIONS)
        return 0;
    if (more > 0) {
        memmove(l->extents + more, l->extents, (size_t)l->rank * sizeof *l->extents);
        for (int a = 0; a < more; ++a)
            l->extents[a] = 1;
        l->rank = array->axes;
    }
    for (int a = 0; a < array->axes; ++a) {
        long long *extent = &l->extents[l->rank - array->axes + a];
        if (*extent == 1)
            *extent = array->extents[a];
        else if (array->extents[a] != 1 && array->extents[a] != *extent)
            return 0;
    }
    return 1;
}

static int has_shape(const view *array, const layout *l)
{
    int is_same = array->axes == l->rank;
    for (int a = 0; is_same && a < l->rank; ++a)
        is_same = array->extents[a] == l->extents[a];
    return is_same;
}

static long long size_of(long long stride)
{
    return stride < 0 ? -stride : stride;
}

/* Whether axis a comes before axis b: the last array decides, then the one before it. */
static int is_outer(const layout *l, int a, int b)
{
    for (int e = l->arrays - 1; e >= 0; --e)
        if (size_of(l->strides[e][a]) != size_of(l->strides[e][b]))
            return size_of(l->strides[e][a]) > size_of(l->strides[e][b]);
    return 0;
}

static void swap_axes(layout *l, int a, int b)
{
    long long kept = l->extents[a];
    l->extents[a] = l->extents[b];
    l->extents[b] = kept;
    for (int e = 0; e < l->arrays; ++e) {
        kept = l->strides[e][a];
        l->strides[e][a] = l->strides[e][b];
        l->strides[e][b] = kept;
    }
}

/* The same elements in as few dimensions as possible, and one at least; as `collapse` in xferlib/kernels/ir.py. */
static void collapse(layout *l, int keeps_order)
{
    int rank = 0;
    for (int a = 0; a < l->rank; ++a)
        if (l->extents[a] != 1) {
            if (a != rank)
                swap_axes(l, a, rank);
            ++rank;
        }
    for (int a = 1; !keeps_order && a < rank; ++a)
        for (int b = a; b > 0 && is_outer(l, b, b - 1); --b)
            swap_axes(l, b, b - 1);
    l->rank = rank > 0;
    for (int a = 1; a < rank; ++a) { /* behind the last one that is kept: merged with it, or kept too */
        int into = l->rank - 1, is_one = 1;
        for (int e = 0; e < l->arrays; ++e)
            is_one &= l->strides[e][into] == l->strides[e][a] * l->extents[a];
        if (!is_one)
            into = l->rank++;
        l->extents[into] = is_one ? l->extents[into] * l->extents[a] : l->extents[a];
        for (int e = 0; e < l->arrays; ++e)
            l->strides[e][into] = l->strides[e][a];
    }
    if (!l->rank) {
        l->rank = 1;
        l->extents[0] = 1;
        for (int e = 0; e < l->arrays; ++e)
            l->strides[e][0] = 0;
    }
}

/* A number as a parameter says: 1, 0 where Python has to convert it, -1 with an error set. */
static int put(const parameter *own, PyObject *value, char *to)
{
    if ((PyObject *)Py_TYPE(value) != own->kind)
        return 0;
    if (own->code == 'N') {
        xf_numpy.read_number(value, to);
        return 1;
    }
    if (PyLong_CheckExact(value) && (own->code == 'f' || own->code == 'd')) {
        int overflow;
        long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
        if (overflow || number > MOST_EXACT || number < -MOST_EXACT) /* else it would be rounded twice */
            return 0;
    }
    return xf_put_number(to, value, (char)own->code);
}

/* The memory of an array. */
static void find_bounds(const view *array, int itemsize, char **begin, char **end)
{
    *begin = *end = array->data;
    for (int a = 0; a < array->axes; ++a)
        *(array->strides[a] < 0 ? begin : end) += (array->extents[a] - 1) * array->strides[a];
    *end += itemsize;
}

static int is_same_memory(const view *one, const view *two)
{
    size_t nbytes = (size_t)one->axes * sizeof *one->extents;
    return one->data == two->data && one->axes == two->axes && !memcmp(one->extents, two->extents, nbytes) &&
           !memcmp(one->strides, two->strides, nbytes);
}

static long long size_of_view(const view *v)
{
    long long size = 1;
    for (int a = 0; a < v->axes; ++a)
        size *= v->extents[a];
    return size;
}

/* Whether no output shares memory with another array, unless it is the whole of an input; none is empty. */
static int are_apart(const host_call *h, const view *views)
{
    char *begins[MOST_PARAMETERS], *ends[MOST_PARAMETERS];
    for (int i = 0; i < h->count; ++i)
        if (is_array(&h->parameters[i]))
            find_bounds(&views[i], h->parameters[i].itemsize, &begins[i], &ends[i]);
    for (int i = 0; i < h->count; ++i) {
        const parameter *one = &h->parameters[i];
        if (!one->is_written)
            continue;
        if (!views[i].is_c && xf_may_overlap(views[i].axes, (const int64_t *)views[i].extents, views[i].strides, one->itemsize))
            return 0;
        for (int j = 0; j < h->count; ++j) {
            const parameter *two = &h->parameters[j];
            if (j == i || !is_array(two) || begins[i] >= ends[j] || begins[j] >= ends[i])
                continue;
            if (two->is_written || one->code == 'R' || two->code == 'R' || one->itemsize != two->itemsize || !is_same_memory(&views[i], &views[j]))
                return 0;
        }
    }
    return 1;
}

static PyObject *raise(const host_call *h, const long long *report, PyObject *geometry)
{
    PyObject *numbers = PyTuple_New(3 * h->sites), *answer;
    for (int i = 0; numbers && i < 3 * h->sites; ++i)
        PyTuple_SetItem(numbers, i, PyLong_FromLongLong(report[i]));
    answer = numbers && geometry ? PyObject_CallFunctionObjArgs(h->failed, numbers, geometry, NULL) : NULL;
    Py_XDECREF(numbers);
    Py_XDECREF(answer);
    return NULL;
}

static int compute_in_threads(const host_call *h, char *const *p, PyObject *geometry)
{
    PyObject *addresses = PyTuple_New(h->count), *answer;
    for (int i = 0; addresses && i < h->count; ++i)
        PyTuple_SetItem(addresses, i, PyLong_FromVoidPtr(p[i]));
    answer = addresses && geometry ? PyObject_CallFunctionObjArgs(h->divide, addresses, geometry, NULL) : NULL;
    Py_XDECREF(addresses);
    return is_done(answer) ? 0 : -1;
}

/* Compute: 0, or -1 with an error set. */
static int compute(const host_call *h, char *const *p, const view *views, const layout *l)
{
    long long report[3 * MOST_SITES] = {0}, geometry[HEAD + MOST_PARAMETERS + MOST_DIMENSIONS * (1 + MOST_PARAMETERS)];
    long long *next = geometry + HEAD;
    PyObject *bytes;
    int found = 0;
    geometry[0] = l->rank;
    geometry[1] = l->elements;
    geometry[2] = h->settings[1];
    geometry[3] = h->keeps_order;
    for (int i = 0; h->raw && i < h->count; ++i)
        if (h->parameters[i].code == 'R')
            *next++ = size_of_view(&views[i]);
    for (int a = 0; a < l->rank; ++a)
        *next++ = l->extents[a];
    for (int e = 0; e < l->arrays; ++e)
        for (int a = 0; a < l->rank; ++a)
            *next++ = l->strides[e][a];
    if (l->elements > h->most_alone && h->settings[2] != 1) {
        bytes = PyBytes_FromStringAndSize((const char *)geometry, (char *)next - (char *)geometry);
        found = compute_in_threads(h, p, bytes);
        Py_XDECREF(bytes);
        return found;
    }
    if (l->elements <= h->most_with_lock)
        found = h->run(h->function, h->form, p, geometry, 0, l->elements, report, NULL);
    for (long long begin = 0; l->elements > h->most_with_lock && begin < l->elements && !found; begin += h->most) {
        long long end = l->elements - begin < h->most ? l->elements : begin + h->most;
        WITHOUT_GIL(found = h->run(h->function, h->form, p, geometry, begin, end, report, NULL));
        if (end < l->elements && PyErr_CheckSignals())
            return -1;
    }
    if (found) {
        bytes = PyBytes_FromStringAndSize((const char *)geometry, (char *)next - (char *)geometry);
        raise(h, report, bytes);
        Py_XDECREF(bytes);
    }
    return found ? -1 : 0;
}

/* The arguments of a call, its outputs behind them or in `out`: how many, or -1 where outputs stand in for inputs, or are too many. */
static int collect(const host_call *h, PyObject *args, PyObject *out, PyObject **values)
{
    Py_ssize_t count = PyTuple_Size(args), more = out == Py_None ? 0 : PyTuple_CheckExact(out) ? PyTuple_Size(out) : 1;
    if (count + more > h->count || (more && (more != h->outputs || count + more != h->count)))
        return -1;
    for (Py_ssize_t i = 0; i < count; ++i)
        values[i] = PyTuple_GetItem(args, i);
    for (Py_ssize_t i = 0; i < more; ++i)
        values[count + i] = PyTuple_CheckExact(out) ? PyTuple_GetItem(out, i) : out;
    return (int)(count + more);
}

/* Whether an axis lies within another one that is known to be further in, in all arrays: 1, 0 where not, -1 where none tells. */
static int is_within(const host_call *h, const view *views, const layout *l, int axis, int inner)
{
    int found = -1;
    for (int i = 0; i < h->count - h->outputs; ++i) {
        const view *array = &views[i];
        int own = axis - (l->rank - (h->parameters[i].is_used ? array->axes : 0)), other = own + inner - axis;
        if (own < 0 || other < 0 || array->extents[own] == 1 || array->extents[other] == 1 || !array->strides[own] || !array->strides[other])
            continue;
        if (size_of(array->strides[own]) >= size_of(array->strides[other]))
            return 0;
        found = 1;
    }
    return found;
}

/* The strides of a new array, which lies as all arrays do: see `order_of_result` in xferlib/kernels/ir.py. */
static void order_result(const host_call *h, const view *views, const layout *l, Py_ssize_t step, Py_ssize_t *strides)
{
    int inwards[MOST_DIMENSIONS];
    for (int axis = l->rank - 1, count = 0; axis >= 0; --axis, ++count) {
        int place = count;
        for (int k = count - 1, found; k >= 0 && (found = is_within(h, views, l, axis, inwards[k])); --k)
            place = found > 0 ? k : place;
        memmove(inwards + place + 1, inwards + place, (size_t)(count - place) * sizeof *inwards);
        inwards[place] = axis;
    }
    for (int a = 0; a < l->rank; ++a) {
        strides[inwards[a]] = step;
        step *= (Py_ssize_t)l->extents[inwards[a]];
    }
}

/* A new array of the library; NULL without an error where Python is to make it. */
static PyObject *make_other(const other_library *l, const parameter *own, int rank, const Py_ssize_t *extents, const Py_ssize_t *strides, view *v)
{
    PyObject *shape = xf_tuple_of((const int64_t *)extents, rank, 1), *steps = xf_tuple_of((const int64_t *)strides, rank, own->itemsize);
    PyObject *made = NULL;
    if (shape && steps)
        made = PyObject_CallFunctionObjArgs(l->maker, shape, steps, own->own, NULL);
    Py_XDECREF(shape);
    Py_XDECREF(steps);
    if (made && !see_other(l, own, made, v))
        Py_CLEAR(made);
    if (!made)
        PyErr_Clear();
    return made;
}

/* A new array for each output: 1, 0 where Python is to make them, -1 with an error set. */
static int make_outputs(const host_call *h, const layout *l, PyObject **values, view *views)
{
    Py_ssize_t extents[MOST_DIMENSIONS], strides[MOST_DIMENSIONS];
    int is_plain = l->arrays < 0 || !l->elements || l->rank < 2; /* in C order */
    for (int a = 0; a < l->rank; ++a)
        extents[a] = (Py_ssize_t)l->extents[a];
    for (int i = h->count - h->outputs; i < h->count; ++i) {
        const parameter *own = &h->parameters[i];
        Py_ssize_t step = own->itemsize;
        for (int a = l->rank; is_plain && a--; step *= extents[a])
            strides[a] = step;
        if (!is_plain)
            order_result(h, views, l, step, strides);
        if (h->other.type)
            values[i] = make_other(&h->other, own, l->rank, extents, strides, &views[i]);
        else
            values[i] = xf_numpy.new_array(ndarray_type, Py_NewRef(own->kind), l->rank, extents, is_plain ? NULL : strides, NULL, 0, NULL);
        if (!values[i]) {
            while (--i >= h->count - h->outputs)
                Py_DECREF(values[i]);
            return h->other.type ? 0 : -1;
        }
        if (!h->other.type)
            see_numpy(own, values[i], &views[i]);
    }
    return 1;
}

static PyObject *result_of(const host_call *h, PyObject **values)
{
    if (!h->outputs)
        Py_RETURN_NONE;
    if (h->outputs == 1)
        return Py_NewRef(values[h->count - 1]);
    return xf_pack(&values[h->count - h->outputs], h->outputs);
}

/* Find the arrays' common shape, by those that are read: whether all fit it. */
static int find_shape(const host_call *h, const view *views, int known, layout *l)
{
    int is_flat = 1, has_any = 0;
    l->rank = 0;
    l->elements = 1;
    for (int i = 0; i < known; ++i)
        if (h->parameters[i].code == 'A' && !(h->parameters[i].is_written && has_any)) {
            has_any = 1;
            if (!broadcast(l, &views[i]))
                return 0;
        }
    for (int i = 0; i < known; ++i)
        if (h->parameters[i].code == 'A') {
            int is_whole = has_shape(&views[i], l);
            is_flat &= (is_whole && views[i].is_c) || !h->parameters[i].is_used;
            if (h->parameters[i].is_written && !is_whole)
                return 0;
        }
    for (int a = 0; a < l->rank; ++a)
        l->elements *= l->extents[a];
    l->arrays = is_flat ? -1 : 0; /* strides are of no interest then */
    return has_any;
}

/* The strides of the arrays, and the fewest dimensions. */
static void find_strides(const host_call *h, const view *views, layout *l)
{
    int is_flat = l->arrays < 0, rank = l->rank;
    l->arrays = 0;
    for (int i = 0; i < h->count; ++i) {
        const view *array = &views[i];
        if (!h->parameters[i].is_used)
            continue;
        if (is_flat) {
            l->strides[l->arrays++][0] = h->parameters[i].itemsize;
            continue;
        }
        for (int a = 0; a < rank; ++a) {
            int own = a - (rank - array->axes);
            l->strides[l->arrays][a] = own < 0 || array->extents[own] == 1 ? 0 : array->strides[own];
        }
        ++l->arrays;
    }
    if (is_flat) {
        l->rank = 1;
        l->extents[0] = l->elements;
    } else {
        collapse(l, h->keeps_order);
    }
}

/* Look at the arguments, and put the numbers and the addresses where they belong: 1, 0 where Python is to look, -1 with an error. */
static int take(const host_call *h, PyObject *const *values, int known, view *views, char (*numbers)[16], char **p)
{
    if (h->other.type && (known == 0 || (PyObject *)Py_TYPE(values[0]) == ndarray_type))
        return 0;
    for (int i = 0; i < known; ++i) {
        const parameter *own = &h->parameters[i];
        int is_put = is_array(own) ? see(h, own, values[i], &views[i]) : put(own, values[i], numbers[i]);
        if (is_put <= 0)
            return is_put;
        p[i] = is_array(own) ? views[i].data : numbers[i];
        if (own->code == 'R' && (!views[i].is_c || (uintptr_t)p[i] % (uintptr_t)own->itemsize || !size_of_view(&views[i])))
            return 0;
    }
    return 1;
}

/* Tell a library that counts writes of the given arrays that are written: 0 with an error set. */
static int count_writes(const host_call *h, PyObject *const *values, int known)
{
    PyObject *written[MOST_PARAMETERS], *tuple;
    Py_ssize_t count = 0;
    for (int i = 0; h->other.count_writes && i < known; ++i)
        if (h->parameters[i].is_written)
            written[count++] = values[i];
    if (!count)
        return 1;
    tuple = xf_pack(written, count);
    count = tuple && is_done(PyObject_CallFunctionObjArgs(h->other.count_writes, tuple, NULL));
    Py_XDECREF(tuple);
    return (int)count;
}

/* (arguments, out) -> the result, or NotImplemented with nothing done. */
static PyObject *run(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    host_call *h = PyCapsule_GetPointer(self, NULL);
    PyObject *values[MOST_PARAMETERS], *result = NULL;
    char *p[MOST_PARAMETERS];
    _Alignas(16) char numbers[MOST_PARAMETERS][16];
    view views[MOST_PARAMETERS];
    layout l;
    int known, is_new, state;
    if (!h)
        return NULL;
    if (count != 2 || !PyTuple_CheckExact(given[0]))
        return PyErr_Format(PyExc_TypeError, "a call takes its arguments and out");
    known = collect(h, given[0], given[1], values);
    is_new = known != h->count;
    if (!h->settings[0] || (is_new && (h->needs_outputs || known != h->count - h->outputs)))
        Py_RETURN_NOTIMPLEMENTED;
    if ((state = take(h, values, known, views, numbers, p)) < 0)
        return NULL;
    if (!state || !find_shape(h, views, known, &l))
        Py_RETURN_NOTIMPLEMENTED;
    if (h->other.type && !are_plain(h, &h->checks[!is_new], values, known, views)) {
        if (PyErr_Occurred())
            return NULL;
        Py_RETURN_NOTIMPLEMENTED;
    }
    if (is_new) {
        if ((state = make_outputs(h, &l, values, views)) < 0)
            return NULL;
        if (!state)
            Py_RETURN_NOTIMPLEMENTED;
        for (int i = known; i < h->count; ++i)
            p[i] = views[i].data;
    }
    if (l.elements && !are_apart(h, views)) {
        result = Py_NewRef(Py_NotImplemented);
    } else if (count_writes(h, values, known)) {
        find_strides(h, views, &l);
        if (!l.elements || !compute(h, p, views, &l))
            result = result_of(h, values);
    }
    for (int i = known; i < h->count; ++i)
        Py_DECREF(values[i]);
    return result;
}

static PyMethodDef one_call = {"call", FAST(run)};

static int read_library(PyObject *given, other_library *l)
{
    PyObject *exchange, **questions[] = {&l->is_negated, &l->is_conjugate, &l->recording, &l->is_frozen, &l->count_writes, &l->make_check};
    if (given == Py_None)
        return 1;
    if (!PyArg_ParseTuple(given, "OOOOOOOOOOOO", &l->type, &exchange, &l->is_negated, &l->is_conjugate, &l->recording, &l->levels, &l->level,
                          &l->tracked, &l->maker, &l->is_frozen, &l->count_writes, &l->make_check) ||
        !(l->exchange = PyCapsule_GetPointer(exchange, "dlpack_exchange_api")))
        return 0;
    for (int i = 0; i < 6; ++i)
        if (*questions[i] == Py_None)
            *questions[i] = NULL;
    if (l->exchange->major != 1 || !l->exchange->describe)
        PyErr_SetString(PyExc_RuntimeError, "this DLPack has another ABI");
    return !PyErr_Occurred();
}

static void read_parameters(PyObject *given, host_call *h)
{
    for (int i = 0; i < h->count && !PyErr_Occurred(); ++i) {
        parameter *own = &h->parameters[i];
        PyArg_ParseTuple(PyTuple_GetItem(given, i), "OCiiiiiO", &own->kind, &own->code, &own->is_written, &own->is_used, &own->itemsize,
                         &own->exchanged, &own->bits, &own->own);
        h->raw += own->code == 'R';
    }
}

/* (run, function, form, address of the settings, what is called after a failure, and for threads, most elements between two looks
   for a signal, with the GIL, and of one thread, number of outputs, of sites, whether axes keep their order, whether outputs
   must be given, parameters, NumPy's type and its
   C API, the fields of another library or None, what else is held) -> call; a parameter is (dtype or type, code, is written, is used as an
   array, itemsize, code and bits of DLPack, dtype of the library). None for more parameters or sites than C takes. */
PyObject *xf_bind_host(PyObject *module, PyObject *arguments)
{
    unsigned long long address, function, form, settings;
    PyObject *parameters, *other, *held, *numpy, *capsule;
    host_call *h = xf_new_data(arguments, sizeof *h, free_host, &capsule);
    int has_room = 0;
    (void)module;
    if (!h)
        return NULL;
    if (PyArg_ParseTuple(arguments, "KKKKOOLLLiiiiO!OOOO", &address, &function, &form, &settings, &h->failed, &h->divide, &h->most,
                         &h->most_with_lock, &h->most_alone, &h->outputs, &h->sites, &h->keeps_order, &h->needs_outputs, &PyTuple_Type, &parameters,
                         &ndarray_type, &numpy, &other, &held) &&
        xf_numpy_functions(numpy)) {
        h->run = (run_function)(uintptr_t)address;
        h->function = (void *)(uintptr_t)function;
        h->form = (const void *)(uintptr_t)form;
        h->settings = (const long long *)(uintptr_t)settings;
        h->count = (int)PyTuple_Size(parameters);
        has_room = h->count <= MOST_PARAMETERS && h->sites <= MOST_SITES && h->outputs <= h->count;
        if (has_room && read_library(other, &h->other))
            read_parameters(parameters, h);
    }
    return xf_make_function(capsule, &one_call, has_room);
}
