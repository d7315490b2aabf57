/* Trees of one form: what their arrays are is kept, so that one call looks through the next tree of that form, and says where its
   arrays lie.

   A loop sends or fetches the same tree again and again. The obvious way describes each array anew: in Python that takes 4 us for
   each leaf, as long as it takes to copy 40 KiB. Here an array is compared with what is kept of it in 20 ns, and 200 where its
   library is asked.

   From the device a kernel puts the arrays in a row, in pinned memory. The obvious way has it in memory of the device first, from which
   the link carries it in blocks: 6 MiB to pinned memory take 145 us from an H200 so, and 138 by the kernel alone. To ordinary memory the
   row passes through chunks of the ring, step by step: threads copy one to where its arrays belong while the kernel writes the next.
   That it tells of each tile gains nothing: its blocks write all of them at once.

   xferlib/_transfer/many.py has the policy: which arrays travel together, and their places. */

#include "replay.h"

#include "../staging/threads.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    PyObject *type;       /* exactly; the tuple of the form holds it */
    Py_ssize_t part;      /* its number among those that travel together; -1: it is no array */
    int64_t place;        /* where it begins in the memory of all, in bytes */
    int element, axes;
    const int64_t *extents;
} kept_leaf;

typedef struct {
    PyObject *types;
    int64_t *extents; /* of all leaves */
    Py_ssize_t count;
    int is_host, index; /* NumPy's arrays; or of the device with this index */
    kept_leaf leaves[];
} kept_form;

static void free_form(PyObject *capsule)
{
    kept_form *f = PyCapsule_GetPointer(capsule, NULL);
    Py_XDECREF(f->types);
    free(f->extents);
    free(f);
}

/* Describe an array that is plain bytes in C order: whether it is one. */
static int describe(PyObject *array, description *d)
{
    const library *l = xf_find_library(array);
    return l && xf_describe(l, array, d) && d->is_c && d->nbytes > 0;
}

static int note_member(kept_form *f, Py_ssize_t number, PyObject *leaf, PyObject *place, int64_t *extents, int is_first)
{
    kept_leaf *k = &f->leaves[number];
    description d;
    if (!describe(leaf, &d))
        return 0;
    if (is_first) {
        f->is_host = is_of(leaf, replay.ndarray);
        f->index = d.index;
    }
    k->place = PyLong_AsLongLong(place);
    k->element = d.element;
    k->axes = d.axes;
    k->extents = extents;
    memcpy(extents, d.extents, (size_t)d.axes * sizeof *extents);
    if (f->is_host && ((const ndarray *)leaf)->dtype != replay.elements[d.element].dtype)
        return 0;
    return f->is_host == is_of(leaf, replay.ndarray) && (f->is_host || d.kind == ON_CUDA) && f->index == d.index;
}

/* (list of leaves, list of the numbers of those that travel together, list of their places) -> what is kept of them; None where one
   of these is not plain bytes in C order, or of another device, or where another leaf is an array. */
PyObject *xf_keep_form(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    Py_ssize_t length, members;
    kept_form *f;
    int is_kept = 1;
    (void)module;
    if (count != 3 || !PyList_Check(given[0]) || !PyList_Check(given[1]) || !PyList_Check(given[2]) ||
        PyList_Size(given[1]) != PyList_Size(given[2]))
        return PyErr_Format(PyExc_TypeError, "keep_form takes three lists, of which two are of one length");
    length = PyList_Size(given[0]);
    members = PyList_Size(given[1]);
    if (!(f = calloc(1, sizeof *f + (size_t)length * sizeof *f->leaves)))
        return PyErr_NoMemory();
    f->count = length;
    f->extents = malloc((size_t)(members * MOST_AXES + 1) * sizeof *f->extents);
    f->types = PyTuple_New(length);
    for (Py_ssize_t i = 0; f->types && i < length; ++i) {
        PyObject *type = (PyObject *)Py_TYPE(PyList_GetItem(given[0], i));
        f->leaves[i].type = type;
        f->leaves[i].part = -1;
        PyTuple_SetItem(f->types, i, Py_NewRef(type));
    }
    is_kept = f->types && f->extents;
    for (Py_ssize_t j = 0; is_kept && j < members; ++j) {
        Py_ssize_t number = PyLong_AsSsize_t(PyList_GetItem(given[1], j));
        PyObject *leaf = number >= 0 && number < length ? Py_XNewRef(PyList_GetItem(given[0], number)) : NULL;
        is_kept = leaf && note_member(f, number, leaf, PyList_GetItem(given[2], j), f->extents + j * MOST_AXES, !j);
        if (is_kept)
            f->leaves[number].part = j;
        Py_XDECREF(leaf);
    }
    for (Py_ssize_t i = 0; is_kept && i < length; ++i) {
        PyObject *leaf = f->leaves[i].part < 0 ? Py_XNewRef(PyList_GetItem(given[0], i)) : NULL;
        is_kept = !leaf || !xf_find_library(leaf);
        Py_XDECREF(leaf);
    }
    if (is_kept && !PyErr_Occurred()) {
        PyObject *capsule = PyCapsule_New(f, NULL, free_form);
        if (capsule)
            return capsule;
    }
    Py_XDECREF(f->types);
    free(f->extents);
    free(f);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* Whether an array is as the one that is kept: then where it lies. `asked`: the library of the one before, which records nothing. */
static int is_alike(const kept_form *f, const kept_leaf *k, PyObject *leaf, const library **asked, char **data)
{
    const ndarray *a = (const ndarray *)leaf;
    const library *l;
    description d;
    if (f->is_host) {
        *data = a->data;
        return a->dtype == replay.elements[k->element].dtype && a->axes == k->axes && a->flags & C_ORDER &&
               !memcmp(a->extents, k->extents, (size_t)k->axes * sizeof *k->extents) && !xf_is_mapped(leaf);
    }
    l = *asked && (*asked)->type == (PyObject *)Py_TYPE(leaf) ? *asked : xf_find_library(leaf);
    if (!l || (l != *asked && xf_is_recorded(l)))
        return 0;
    *asked = l;
    if (!xf_describe_unrecorded(l, leaf, &d) || !d.is_c || d.nbytes <= 0 || d.kind != ON_CUDA || d.index != f->index)
        return 0;
    *data = d.data;
    return d.element == k->element && d.axes == k->axes && !memcmp(d.extents, k->extents, (size_t)k->axes * sizeof *k->extents);
}

/* (what is kept, list of leaves, address of as many parts as travel together) -> whether they have that form: then the parts say
   where they lie. */
PyObject *xf_match_form(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    const kept_form *f = count == 3 ? PyCapsule_GetPointer(given[0], NULL) : NULL;
    const library *asked = NULL;
    Part *parts;
    int is_same;
    (void)module;
    if (!f || !PyList_Check(given[1]))
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "match_form takes a form, a list and an address");
    parts = (Part *)(uintptr_t)PyLong_AsUnsignedLongLong(given[2]);
    is_same = !PyErr_Occurred() && PyList_Size(given[1]) == f->count;
    for (Py_ssize_t i = 0; is_same && i < f->count; ++i) {
        const kept_leaf *k = &f->leaves[i];
        PyObject *leaf = i < PyList_Size(given[1]) ? Py_NewRef(PyList_GetItem(given[1], i)) : NULL; /* a question may change it */
        char *data = NULL;
        is_same = leaf && is_of(leaf, k->type) && (k->part < 0 || is_alike(f, k, leaf, &asked, &data));
        if (is_same && k->part >= 0) {
            int64_t nbytes = replay.elements[k->element].itemsize;
            for (int axis = 0; axis < k->axes; ++axis)
                nbytes *= k->extents[axis];
            parts[k->part] = (Part){.host = data, .place = k->place, .nbytes = nbytes};
        }
        Py_XDECREF(leaf);
    }
    return PyErr_Occurred() ? NULL : PyBool_FromLong(is_same);
}

/* The leaves, with new arrays in the places of those that travelled together: the first `joined` of these are views of `memory`, the
   others those of a list. */
static PyObject *cut(const kept_form *f, PyObject *leaves, PyObject *memory, Py_ssize_t joined, PyObject *apart)
{
    PyObject *made = PyList_New(f->count);
    for (Py_ssize_t i = 0; made && i < f->count; ++i) {
        const kept_leaf *k = &f->leaves[i];
        PyObject *leaf;
        if (k->part < 0) {
            leaf = Py_XNewRef(PyList_GetItem(leaves, i));
        } else if (k->part >= joined) {
            leaf = Py_XNewRef(PyList_GetItem(apart, k->part - joined));
        } else {
            leaf = xf_numpy.new_array(replay.ndarray, Py_NewRef(replay.elements[k->element].dtype), k->axes, k->extents, NULL,
                                    ((const ndarray *)memory)->data + k->place, C_ORDER | ALIGNED | WRITABLE, NULL);
            if (leaf && xf_numpy.set_base(leaf, Py_NewRef(memory)))
                Py_CLEAR(leaf);
        }
        if (!leaf || PyList_SetItem(made, i, leaf))
            Py_CLEAR(made);
    }
    return made;
}

/* (what is kept, list of leaves, NumPy array of bytes) -> a list of the leaves, with views of the array in the places of those that
   travelled together. */
PyObject *xf_cut_form(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    const kept_form *f = count == 3 ? PyCapsule_GetPointer(given[0], NULL) : NULL;
    (void)module;
    if (!f || !PyList_Check(given[1]) || PyList_Size(given[1]) != f->count || !is_of(given[2], replay.ndarray))
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "cut_form takes a form, its leaves and an array");
    return cut(f, given[1], given[2], f->count, NULL);
}

/* --- whole calls */

/* Bytes: see send_packed() and xf_fetch_tree(). Those of the same names in xferlib/_core/thresholds.py have the same values. */
enum {
    PACKED_MOST = 1 << 20,
    LOOPED_FROM = 384 << 10,
    FIRST_BLOCK_NBYTES = 512 << 10,
    SMALL_NBYTES = 64 << 10,
    MEDIUM_NBYTES = 2 << 20
};
enum { LINE = 64 };

typedef struct {
    PyObject *leaves;
    device_entry *e;
    call_stream on;
    void *busy; /* the stream to wait for */
} call;

/* Enqueue copies between the parts, in pinned memory or on the device, and memory at one address or at one for each: whether they are. */
static int enqueue_parts(call *c, const Part *parts, Py_ssize_t count, word memory, const word *apart, int is_upload)
{
    word *ends = malloc((size_t)count * (2 * sizeof *ends + sizeof(size_t))), *lying;
    size_t *nbytes;
    int error;
    if (!ends)
        return 0;
    lying = ends + count;
    nbytes = (size_t *)(lying + count);
    for (Py_ssize_t i = 0; i < count; ++i) {
        ends[i] = apart ? apart[i] : memory + (word)parts[i].place;
        lying[i] = (word)(uintptr_t)parts[i].host;
        nbytes[i] = (size_t)parts[i].nbytes;
    }
    WITHOUT_GIL(error = xf_enqueue_each(c->e, c->on.handle, ends, lying, nbytes, count, is_upload, &c->busy));
    free(ends);
    return !error;
}

/* The leaves of a tree of dicts, lists and tuples, each of which stands in one place; 0 where Python is to look. */
static int take_apart(PyObject *tree, PyObject *arrays, PyObject *others, call *c)
{
    PyObject *given[] = {tree, arrays, others}, *distinct;
    if (!xf_follow() || !xf_may_replay() || !(c->leaves = xf_flatten(NULL, given, 3)) || c->leaves == Py_None)
        return 0;
    distinct = xf_is_distinct(NULL, c->leaves);
    Py_XDECREF(distinct);
    return distinct == Py_True;
}

/* Read what Python keeps of trees with as many leaves: a new reference to the one of this form, its parts filled in. NULL without. */
static PyObject *find_form(PyObject *forms, PyObject *leaves, Part **parts, const kept_form **found, Py_ssize_t *members)
{
    Py_ssize_t count = forms && PyList_Check(forms) ? PyList_Size(forms) : 0;
    *parts = NULL;
    Py_XINCREF(forms); /* Python replaces the list when it keeps another form */
    for (Py_ssize_t i = 0; i < count && i < PyList_Size(forms); ++i) {
        PyObject *kept = Py_NewRef(PyList_GetItem(forms, i)), *capsule = PyTuple_GetItem(kept, 0), *same = NULL;
        const kept_form *f = capsule ? PyCapsule_GetPointer(capsule, NULL) : NULL;
        if (f && f->count == PyList_Size(leaves)) {
            Part *room = realloc(*parts, (size_t)f->count * sizeof **parts);
            PyObject *address = room ? PyLong_FromVoidPtr(*parts = room) : PyErr_NoMemory();
            same = address ? xf_match_form(NULL, (PyObject *[]){capsule, leaves, address}, 3) : NULL;
            Py_XDECREF(address);
            Py_XDECREF(same);
        }
        if (f && same == Py_True) {
            *found = f;
            *members = 0;
            for (Py_ssize_t j = 0; j < f->count; ++j)
                *members += f->leaves[j].part >= 0;
            Py_DECREF(forms);
            return kept;
        }
        Py_DECREF(kept);
        if (PyErr_Occurred())
            break;
    }
    Py_XDECREF(forms);
    free(*parts);
    *parts = NULL;
    return NULL;
}

/* Copy the arrays to their places; in a loop threads that spin take part. */
static void pack(char *memory, const Part *parts, Py_ssize_t count, size_t nbytes, int is_looped)
{
    long long helpers = is_looped ? replay.fillers : 0;
    replay.fill_parts(memory, parts, count, 0, (int64_t)nbytes, 0, helpers > 0, helpers, replay.most_threads, replay.spin_ns);
}

/* New arrays for those of a form that travel, in their order: a list of them, and their addresses. */
static PyObject *make_apart(const call *c, const kept_form *f, Py_ssize_t members, word *addresses)
{
    PyObject *made = PyList_New(members);
    for (Py_ssize_t i = 0; made && i < f->count; ++i) {
        const kept_leaf *k = &f->leaves[i];
        description d = {.axes = k->axes, .element = k->element, .count = 1, .is_c = 1};
        PyObject *array;
        if (k->part < 0)
            continue;
        for (int axis = 0; axis < k->axes; ++axis)
            d.count *= d.extents[axis] = k->extents[axis];
        d.nbytes = d.count * replay.elements[k->element].itemsize;
        array = xf_make_on(c->e, &c->on, &d, 0, &addresses[k->part]);
        if (!array || !addresses[k->part] || PyList_SetItem(made, k->part, array)) {
            if (!addresses[k->part])
                Py_XDECREF(array);
            Py_CLEAR(made);
        }
    }
    return made;
}

/* Enqueue the copy of a row, or of each of its arrays, to memory of its own. */
static int enqueue_row(const call *c, const char *memory, word device, const word *apart, const Part *parts, Py_ssize_t count,
                       size_t nbytes)
{
    int error = 0;
    if (!apart)
        return c->e->enqueue(device, (word)(uintptr_t)memory, nbytes, c->on.handle);
    for (Py_ssize_t i = 0; i < count && !error; ++i)
        error = c->e->enqueue(apart[i], (word)(uintptr_t)memory + (word)parts[i].place, (size_t)parts[i].nbytes, c->on.handle);
    return error;
}

enum { READ_ARRAYS = 1, READ_SCRATCH = 2 };

/* Send arrays in a row, to one memory on the device, or each to its own `apart`: whether that is done. Few bytes are read by the driver
   before its call returns, also while the stream is busy. More pass through pinned memory, of threads that spin in a loop, or of this one,
   which must be free again: that is for an idle stream. `is_read`: a copy may read the arrays, or the thread's pinned memory, until
   read_all() returns; the caller cuts the device's memory meanwhile. */
static int send_packed(call *c, word device, const word *apart, const Part *parts, Py_ssize_t count, size_t nbytes, int is_lent,
                       int *is_read)
{
    device_entry *e = c->e;
    void *stream = c->on.handle;
    word scratch = 0;
    int error, is_looped;
    *is_read = 0;
    c->busy = stream;
    if (!e->enqueue || !e->wait)
        return 0;
    if (is_lent) {
        *is_read = READ_ARRAYS;
        return enqueue_parts(c, parts, count, device, apart, 1);
    }
    if (nbytes <= ENQUEUED_MOST) {
        char *memory = malloc(nbytes);
        if (!memory)
            return 0;
        pack(memory, parts, count, nbytes, 0);
        WITHOUT_GIL(error = enqueue_row(c, memory, device, apart, parts, count, nbytes));
        free(memory);
        return !error;
    }
    if (nbytes <= PACKED_MOST && xf_is_idle(e, stream))
        scratch = xf_scratch(e, nbytes, 1);
    if (!scratch)
        return nbytes > LOOPED_FROM && !apart && !PyErr_Occurred() &&
               xf_send_parts(e, &c->on, device, nbytes, parts, count, nbytes <= PACKED_MOST);
    is_looped = now_ns() - e->last_ns < LOOP_NS;
    e->last_ns = now_ns();
    Py_BEGIN_ALLOW_THREADS
    pack((char *)(uintptr_t)scratch, parts, count, nbytes, is_looped);
    error = enqueue_row(c, (char *)(uintptr_t)scratch, device, apart, parts, count, nbytes);
    Py_END_ALLOW_THREADS
    if (!error || apart) {
        *is_read = READ_SCRATCH;
        xf_keep_scratch(1);
    }
    return !error;
}

/* After an error it is not known whether they are read. A call that took no scratch may be one within a call that did. */
static int read_all(const call *c, int is_read)
{
    int error;
    WITHOUT_GIL(error = c->e->wait(c->busy));
    if (!error && is_read == READ_SCRATCH)
        xf_keep_scratch(0);
    return !error;
}

/* The leaves with others in the places of those that travelled. */
static PyObject *with(const kept_form *f, PyObject *leaves, PyObject *made)
{
    PyObject *list = PyList_New(f->count);
    for (Py_ssize_t i = 0; list && i < f->count; ++i) {
        Py_ssize_t part = f->leaves[i].part;
        PyObject *leaf = part < 0 ? PyList_GetItem(leaves, i) : PyList_GetItem(made, part);
        if (!leaf || PyList_SetItem(list, i, Py_NewRef(leaf))) {
            Py_DECREF(list);
            return NULL;
        }
    }
    return list;
}

static PyObject *rebuilt(PyObject *tree, PyObject *leaves)
{
    PyObject *made = leaves ? xf_rebuild(NULL, (PyObject *[]){tree, leaves}, 2) : NULL;
    Py_XDECREF(leaves);
    return made;
}

/* None, with an error left for Python to meet again in its own words; but for Ctrl-C. */
static PyObject *left_to_python(void)
{
    return xf_pass_over_error() ? Py_NewRef(Py_None) : NULL;
}

/* Send those of some leaves that lie in the pinned pool as they are: a list of them on the device, and None for each other. Their copies are
   enqueued one behind the other, and waited for once. NULL, and nothing done, where Python is to do it. */
static PyObject *send_lent(PyObject *leaves, PyObject *device, const device_entry *e, const call_stream *on)
{
    PyObject *kept = PyList_New(0), *made = kept ? PyList_New(0) : NULL;
    int is_read = 1;
    for (Py_ssize_t i = 0; made && i < PyList_Size(leaves); ++i) {
        PyObject *array = Py_NewRef(PyList_GetItem(leaves, i)), *sent = NULL;
        if (is_of(array, replay.ndarray) && xf_is_lent(array))
            sent = xf_hand_over(array, device, (word)(uintptr_t)on->handle, kept, 0, 0, NULL);
        if (PyErr_Occurred() || PyList_Append(made, sent ? sent : Py_None))
            Py_CLEAR(made);
        Py_XDECREF(sent);
        Py_DECREF(array);
    }
    if (kept && PyList_Size(kept)) { /* also where an error is set: the sources may be changed on return */
        int error;
        WITHOUT_GIL(error = e->wait(on->handle));
        is_read = !error;
    }
    Py_XDECREF(kept);
    if (!is_read)
        Py_CLEAR(made);
    return made;
}

/* Whether all arrays of a form lie in the pinned pool. */
static int are_members_lent(const kept_form *f, PyObject *leaves)
{
    for (Py_ssize_t i = 0; i < f->count; ++i)
        if (f->leaves[i].part >= 0 && !xf_is_lent(PyList_GetItem(leaves, i)))
            return 0;
    return 1;
}

/* Whether all arrays among leaves do, are so large that the device reads each where it lies in less time than it takes to pack them, and one
   so large that their form is not kept; the other leaves are of the types in a set. */
static int are_lent(PyObject *leaves, PyObject *others)
{
    Py_ssize_t count = 0, nbytes = 0;
    int is_large = 0;
    for (Py_ssize_t i = 0; i < PyList_Size(leaves); ++i) {
        PyObject *leaf = PyList_GetItem(leaves, i);
        description d;
        if (is_of(leaf, replay.ndarray) && xf_is_lent(leaf) && xf_describe_host(leaf, &d)) {
            ++count;
            nbytes += d.nbytes;
            is_large |= d.nbytes > MEDIUM_NBYTES;
        } else if (PySet_Contains(others, (PyObject *)Py_TYPE(leaf)) != 1) {
            return 0;
        }
    }
    return is_large && nbytes > SMALL_NBYTES * count;
}

/* The leaves on a device, those of the pinned pool as they are; NULL, and nothing done, where Python is to do it. */
static PyObject *send_all_lent(const call *c)
{
    PyObject *made = send_lent(c->leaves, c->e->device, c->e, &c->on);
    for (Py_ssize_t i = 0; made && i < PyList_Size(made); ++i)
        if (PyList_GetItem(made, i) == Py_None) {
            PyObject *leaf = PyList_GetItem(c->leaves, i);
            if (is_of(leaf, replay.ndarray)) /* of an unusual dtype, say */
                Py_CLEAR(made);
            else
                PyList_SetItem(made, i, Py_NewRef(leaf));
        }
    return made;
}

/* (tree, types of arrays, types of other leaves, device or None, backend or None, dict of devices to lists of (form, bytes, function
   that cuts memory of the device, whether each array has memory of its own there)) -> the tree on the device; None, and nothing done,
   where Python is to do it. */
PyObject *xf_send_tree(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    call c = {0};
    PyObject *kept = NULL, *memory = NULL, *views = NULL, *made = NULL;
    const kept_form *f = NULL;
    Part *parts = NULL;
    Py_ssize_t members = 0, nbytes = 0;
    word address = 0, *addresses = NULL;
    int is_ready, is_lent, is_read = 0;
    (void)module;
    if (count != 6 || !PyDict_Check(given[5]))
        return PyErr_Format(PyExc_TypeError, "send_tree takes a tree, two tables of types, a device, a backend and a dict");
    is_ready = take_apart(given[0], given[1], given[2], &c) &&
               (c.e = xf_device_of_call(given[3] == Py_None ? NULL : given[3], given[4] == Py_None ? NULL : given[4])) &&
               c.e->kind == ON_CUDA && c.e->wait && xf_is_current(c.e, &c.on);
    if (is_ready)
        kept = find_form(PyDict_GetItemWithError(given[5], c.e->device), c.leaves, &parts, &f, &members);
    if (kept && f && f->is_host)
        nbytes = PyLong_AsSsize_t(PyTuple_GetItem(kept, 1));
    is_lent = nbytes > SMALL_NBYTES * members && are_members_lent(f, c.leaves);
    if (nbytes > 0 && PyTuple_GetItem(kept, 3) == Py_True) {
        if ((addresses = calloc((size_t)members, sizeof *addresses)) && (memory = make_apart(&c, f, members, addresses)) &&
            send_packed(&c, 0, addresses, parts, members, (size_t)nbytes, is_lent, &is_read))
            made = rebuilt(given[0], with(f, c.leaves, memory));
        if (is_read && !read_all(&c, is_read))
            Py_CLEAR(made);
    } else if (nbytes > 0 && replay.byte >= 0) {
        description d = {.axes = 1, .element = replay.byte, .count = nbytes, .nbytes = nbytes, .is_c = 1, .extents = {nbytes}};
        memory = xf_make_on(c.e, &c.on, &d, 0, &address);
        if (address && send_packed(&c, address, NULL, parts, members, (size_t)nbytes, is_lent, &is_read))
            views = PyObject_CallFunctionObjArgs(PyTuple_GetItem(kept, 2), memory, NULL);
        if (views && PyList_Check(views))
            made = rebuilt(given[0], with(f, c.leaves, views));
        if (is_read && !read_all(&c, is_read))
            Py_CLEAR(made);
    } else if (is_ready && !kept && !PyErr_Occurred() && are_lent(c.leaves, given[2])) {
        made = rebuilt(given[0], send_all_lent(&c));
    }
    free(addresses);
    free(parts);
    Py_XDECREF(views);
    Py_XDECREF(memory);
    Py_XDECREF(kept);
    Py_XDECREF(c.leaves);
    return made ? made : left_to_python();
}

/* A download in one call. To pinned memory the first arrays of a tree, which are small, come in a row, and the others as they lie. To
   ordinary memory all come in a row, by way of chunks of the ring, into each of which a kernel writes a step. */
typedef struct {
    Chunk *chunk;
    char *memory; /* where in it */
    int64_t start, nbytes; /* of the row */
} step;

enum { STEPS = 4, TILE_NBYTES = 16 << 10 /* as in many.py */ };

typedef struct {
    call *c;
    const kept_form *f;
    const Part *parts; /* of all arrays: `host` is where each lies on the device */
    Py_ssize_t members, joined; /* arrays, and those that share memory on the host */
    Py_ssize_t row_nbytes, nbytes; /* of these in a row, and of all arrays in one */
    unsigned long long kernel; /* puts arrays in a row, in blocks of `threads` threads */
    unsigned long threads;
    const char *starts;        /* the numbers of the first array of each tile of the row */
    Py_ssize_t starts_nbytes, placed; /* arrays of the row */
    int is_pinned;
    char *table; /* in the thread's pinned memory: what the kernel reads */
    PyObject *memory, *apart, *between; /* NumPy array of those that share it, or of all; list of the others; a row on the device; NULL: none */
    Part *targets; /* in ordinary memory */
    Py_ssize_t count;
    Setup setup; /* of the ring */
    PyObject *ring; /* keeps it; NULL: it is not used */
    step ahead[STEPS]; /* those that have been enqueued, and not been emptied */
    int enqueued, emptied;
    int64_t written; /* tiles of the steps that have been enqueued */
} download;

static int64_t tiles_of(const download *l)
{
    return l->starts_nbytes / (Py_ssize_t)sizeof(int64_t) - 1;
}

static size_t table_nbytes(const download *l)
{
    return (size_t)l->placed * sizeof *l->parts + (size_t)l->starts_nbytes;
}

/* Read what Python keeps of a form: whether it is of this device. */
static int read_download(download *l, PyObject *kept)
{
    char *starts = NULL;
    l->row_nbytes = PyLong_AsSsize_t(PyTuple_GetItem(kept, 1));
    l->kernel = PyLong_AsUnsignedLongLong(PyTuple_GetItem(kept, 2));
    l->threads = PyLong_AsUnsignedLong(PyTuple_GetItem(kept, 3));
    l->joined = PyLong_AsSsize_t(PyTuple_GetItem(kept, 5));
    l->nbytes = PyLong_AsSsize_t(PyTuple_GetItem(kept, 6));
    l->placed = l->is_pinned ? l->joined : l->members;
    if (PyErr_Occurred() || PyBytes_AsStringAndSize(PyTuple_GetItem(kept, l->is_pinned ? 4 : 8), &starts, &l->starts_nbytes))
        return 0;
    l->starts = starts;
    return !l->f->is_host && l->f->index == l->c->e->index && l->nbytes > 0 && replay.byte >= 0;
}

/* Put what the kernel reads into the thread's pinned memory: whether there is room. It is not given out again until the download ends: code
   of Python's runs meanwhile. */
static int write_table(download *l)
{
    const size_t parts_nbytes = (size_t)l->placed * sizeof *l->parts;
    if (!l->placed)
        return 1;
    if (!(l->table = (char *)(uintptr_t)xf_scratch(l->c->e, table_nbytes(l), 0)))
        return 0;
    xf_keep_scratch(1);
    memcpy(l->table, l->parts, parts_nbytes);
    memcpy(l->table + parts_nbytes, l->starts, (size_t)l->starts_nbytes);
    return 1;
}

/* New memory on the host for the arrays that share it, or, pinned, for all. Returns where it lies; NULL where Python is to go on. */
static char *make_memory(download *l)
{
    const Py_ssize_t nbytes = l->is_pinned ? l->nbytes : l->row_nbytes;
    const description d = {.axes = 1, .element = replay.byte, .count = nbytes, .nbytes = nbytes, .is_c = 1, .extents = {nbytes}};
    int is_fresh;
    l->memory = l->is_pinned ? xf_make_pinned(l->c->e, &d) : xf_make_host_result(&d, HUGE_PAGE - 1, &is_fresh);
    if (!l->memory || (l->is_pinned && !((const ndarray *)l->memory)->base)) /* the pool is full */
        return NULL;
    return ((const ndarray *)l->memory)->data;
}

/* Make the results in ordinary memory. */
static int make_results(download *l)
{
    char *memory = NULL;
    if (!(l->targets = calloc((size_t)(l->members - l->joined) + 1, sizeof *l->targets)) || !(l->apart = PyList_New(l->members - l->joined)) ||
        (l->joined && !(memory = make_memory(l))))
        return 0;
    if (memory)
        l->targets[l->count++] = (Part){.host = memory, .nbytes = l->row_nbytes};
    for (Py_ssize_t i = 0; i < l->f->count; ++i) {
        const kept_leaf *k = &l->f->leaves[i];
        description d = {.axes = k->axes, .element = k->element, .count = 1, .is_c = 1};
        PyObject *array;
        int is_fresh;
        if (k->part < l->joined)
            continue;
        for (int axis = 0; axis < k->axes; ++axis)
            d.count *= d.extents[axis] = k->extents[axis];
        d.nbytes = l->parts[k->part].nbytes;
        array = xf_make_host_result(&d, HUGE_PAGE - 1, &is_fresh);
        if (!array || PyList_SetItem(l->apart, k->part - l->joined, array))
            return 0;
        l->targets[k->part - l->joined + !!memory] =
            (Part){.host = ((const ndarray *)array)->data, .place = k->place, .nbytes = d.nbytes};
        ++l->count;
    }
    return 1;
}

/* Enqueue the kernel that puts arrays in a row, for some of its tiles, as if all of it lay at `to`: the driver's result. Without the GIL. */
static int gather(const download *l, word to, int64_t first, int64_t tiles)
{
    word table = (word)(uintptr_t)l->table, starts = table + (word)l->placed * sizeof *l->parts;
    void *arguments[] = {&to, &table, &starts, &first};
    return l->c->e->launch((void *)(uintptr_t)l->kernel, (unsigned)tiles, 1, 1, (unsigned)l->threads, 1, 1, 0, l->c->on.handle, arguments, NULL);
}

/* The tiles of the next step: of a large row the first and the last ones are few, so that threads begin early, and little is left when the
   device is done. */
static int64_t next_tiles(const download *l)
{
    const int64_t all = tiles_of(l), left = all - l->written, most = l->setup.largest_block / TILE_NBYTES;
    int64_t few = l->nbytes > MEDIUM_NBYTES ? all / 8 : all, many = 3 * all / 8, tiles = few;
    if (l->nbytes > 4 * MEDIUM_NBYTES)
        few = tiles = MEDIUM_NBYTES / 2 / TILE_NBYTES;
    if (l->written)
        tiles = left <= 2 * few ? left : many < left - few ? many : left - few;
    return tiles <= most ? tiles : most > 0 ? most : 1;
}

/* Enqueue steps as long as there are chunks for them: the driver's result. One chunk is left to others: between steps code of Python's runs,
   which may make a transfer, and wait for a chunk. Without the GIL. */
static int enqueue_steps(download *l)
{
    const Setup *s = &l->setup;
    int error = 0;
    while (!error && l->enqueued - l->emptied < STEPS && l->written < tiles_of(l)) {
        step *at = &l->ahead[l->enqueued % STEPS];
        int64_t tiles = next_tiles(l), left = l->nbytes - l->written * TILE_NBYTES;
        if (!(at->chunk = l->c->e->take_chunk(s->ring, 0, s->way_chunks, 1)))
            break;
        at->start = l->written * TILE_NBYTES;
        at->nbytes = tiles * TILE_NBYTES < left ? tiles * TILE_NBYTES : left;
        at->memory = place_in(at->chunk, at->nbytes, s->largest_block);
        if (at->chunk->is_busy) /* what still reads it comes first */
            error = s->order ? s->order(s->stream, at->chunk->event, 0) : s->wait(at->chunk->event);
        if (error) {
            l->c->e->give_chunk(s->ring, at->chunk, 0);
            break;
        }
        ++l->enqueued;
        error = gather(l, (word)(uintptr_t)at->memory - (word)at->start, l->written, tiles);
        if (!error)
            error = s->record(at->chunk->event, s->stream);
        l->written += tiles;
    }
    return error;
}

/* Give the chunk of the oldest step back, from which nothing is read any more. */
static void end_step(download *l)
{
    step *at = &l->ahead[l->emptied++ % STEPS];
    at->chunk->is_busy = 0;
    l->c->e->give_chunk(l->setup.ring, at->chunk, 0);
}

/* Copy the arrays on, step by step, while the device writes the next: whether that is done. */
static int empty_steps(download *l)
{
    const int is_loop = replay.fillers > 0;
    int error = 0;
    Py_BEGIN_ALLOW_THREADS
    while (!error && l->emptied < l->enqueued) {
        const step *at = &l->ahead[l->emptied % STEPS];
        if ((error = l->setup.wait(at->chunk->event)))
            break;
        replay.fill_parts(at->memory, l->targets, l->count, at->start, at->nbytes, 1, l->nbytes > MEDIUM_NBYTES, is_loop ? replay.fillers : replay.helpers,
                          replay.most_threads, is_loop ? replay.spin_ns : 0);
        end_step(l);
        error = enqueue_steps(l);
    }
    Py_END_ALLOW_THREADS
    return !error && l->written == tiles_of(l);
}

/* Enqueue what the link carries to pinned memory: the row, if the kernel has not written it, and arrays as they lie. */
static int enqueue_crossings(const download *l, char *memory, word row)
{
    const Part whole = {.host = (char *)(uintptr_t)row, .nbytes = l->row_nbytes}; /* on the device */
    return (!row || enqueue_parts(l->c, &whole, 1, (word)(uintptr_t)memory, NULL, 0)) &&
           (l->joined == l->members ||
            enqueue_parts(l->c, l->parts + l->joined, l->members - l->joined, (word)(uintptr_t)memory, NULL, 0));
}

/* To pinned memory: the kernel writes a row to the result by itself; the link carries a large one from memory of the device. */
static int begin_pinned(download *l, int is_written)
{
    const call *c = l->c;
    const description d = {.axes = 1, .element = replay.byte, .count = l->row_nbytes, .nbytes = l->row_nbytes, .is_c = 1,
                           .extents = {l->row_nbytes}};
    char *memory = make_memory(l);
    word to = (word)(uintptr_t)memory;
    int error = 0;
    if (!memory)
        return 0;
    if (l->joined && !is_written && (!(l->between = xf_make_on(c->e, &c->on, &d, 1, &to)) || !to))
        return 0;
    if (l->joined)
        WITHOUT_GIL(error = gather(l, to, 0, tiles_of(l)));
    return !error && enqueue_crossings(l, memory, l->between ? to : 0);
}

/* To ordinary memory: the device writes the first steps while the results are made. There is to be a chunk for them, and one that is left. */
static int begin_ordinary(download *l)
{
    int error;
    if (!(l->ring = xf_setup_of(l->c->e, &l->c->on, l->nbytes + FIRST_BLOCK_NBYTES, 0, &l->setup)) || !l->setup.ring)
        return 0;
    WITHOUT_GIL(error = enqueue_steps(l));
    return !error && l->enqueued && make_results(l);
}

/* The tree on the host; NULL, and nothing done, where Python is to do it. It is made while the device works. */
static PyObject *fetch(download *l, PyObject *tree, int is_written)
{
    PyObject *made = NULL;
    int error = 0, is_done = 0;
    l->c->busy = l->c->on.handle;
    if (write_table(l) && (l->is_pinned ? begin_pinned(l, is_written) : begin_ordinary(l)))
        made = rebuilt(tree, cut(l->f, l->c->leaves, l->memory, l->is_pinned ? l->members : l->joined, l->apart));
    if (made && !l->is_pinned)
        is_done = empty_steps(l);
    if (!is_done) {
        WITHOUT_GIL(error = l->c->e->wait(l->c->busy)); /* what is enqueued must be over before its memory is given up */
        is_done = !error && l->is_pinned;
    }
    if (error) { /* it is not known whether it is over: nothing is given up, ever */
        while (l->emptied++ < l->enqueued)
            l->c->e->lose_chunk(l->setup.ring, 0);
        return NULL;
    }
    while (l->emptied < l->enqueued)
        end_step(l);
    free(l->targets);
    if (l->table)
        xf_keep_scratch(0);
    if (!is_done)
        Py_CLEAR(made);
    Py_XDECREF(l->ring);
    Py_XDECREF(l->memory);
    Py_XDECREF(l->apart);
    Py_XDECREF(l->between);
    return made;
}

/* Wake threads that sleep, while this one makes ready what they are to copy. */
static void rouse(const device_entry *e, Py_ssize_t nbytes)
{
    long long most = replay.fillers > 0 ? nbytes / SMALL_NBYTES : replay.helper_nbytes > 0 ? nbytes / replay.helper_nbytes : 0;
    long long helpers = replay.fillers > 0 ? replay.fillers : replay.helpers;
    if (e->rouse && most > 0)
        e->rouse(most < helpers ? most : helpers, replay.spin_ns);
}

/* (list of arrays, device) -> a list of those in pinned memory as they are on the device, and None for each other: see send_lent().
   None, and nothing done, where Python is to do it. */
PyObject *xf_send_pinned(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    call_stream on = {0};
    PyObject *made = NULL;
    device_entry *e;
    (void)module;
    if (count != 2 || !PyList_Check(given[0]))
        return PyErr_Format(PyExc_TypeError, "send_pinned takes a list and a device");
    if (xf_follow() && xf_may_replay() && (e = xf_find_device(given[1])) && e->kind == ON_CUDA && e->wait && xf_is_current(e, &on))
        made = send_lent(given[0], given[1], e, &on);
    return made ? made : left_to_python();
}

/* The device of the first array among leaves; NULL where Python is to copy that. */
static device_entry *device_of_first(PyObject *leaves)
{
    device_entry *e = NULL;
    const library *l = NULL;
    for (Py_ssize_t i = 0; !l && i < PyList_Size(leaves); ++i) {
        PyObject *leaf = Py_NewRef(PyList_GetItem(leaves, i));
        description d;
        if ((l = xf_find_library(leaf)) && xf_describe(l, leaf, &d))
            e = xf_device_of(l, &d);
        Py_DECREF(leaf);
    }
    return e;
}

/* (tree, types of arrays, types of other leaves, whether to pinned memory, dict of devices to lists of what FetchedForm in many.py says)
   -> the tree on the host; None where Python is to do it. */
PyObject *xf_fetch_tree(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    call c = {0};
    PyObject *kept = NULL, *made = NULL;
    Part *parts = NULL;
    download l = {.c = &c};
    (void)module;
    if (count != 5 || !PyDict_Check(given[4]))
        return PyErr_Format(PyExc_TypeError, "fetch_tree takes a tree, two tables of types, a flag and a dict");
    l.is_pinned = given[3] == Py_True;
    if (take_apart(given[0], given[1], given[2], &c) && (c.e = device_of_first(c.leaves)) && c.e->kind == ON_CUDA && c.e->launch &&
        c.e->wait && c.e->fetch_later && xf_is_current(c.e, &c.on))
        kept = find_form(PyDict_GetItemWithError(given[4], c.e->device), c.leaves, &parts, &l.f, &l.members);
    l.parts = parts;
    if (kept && l.f && read_download(&l, kept)) {
        if (l.nbytes > LOOPED_FROM && !l.is_pinned)
            rouse(c.e, l.nbytes);
        made = fetch(&l, given[0], PyTuple_GetItem(kept, 7) == Py_True);
    }
    free(parts);
    Py_XDECREF(kept);
    Py_XDECREF(c.leaves);
    return made ? made : left_to_python();
}
