/* Trees of one form: what their arrays are is kept, so that one call looks through the next tree of that form, and says where its
   arrays lie.

   A loop sends or fetches the same tree again and again. The obvious way describes each array anew: in Python that takes 4 us for
   each leaf, as long as it takes to copy 40 KiB. Here an array is compared with what is kept of it in 20 ns, and 200 where its
   library is asked.

   From the device a kernel puts the arrays in a row, in pinned memory if there is room. The obvious way has it in memory of the device
   first, from which the link carries it in blocks: 6 MiB to pinned memory take 145 us from an H200 so, and 138 by the kernel alone.
   That the kernel tells of each tile which it has written, so that threads copy that meanwhile, gains nothing: 1.3 to 2.1 MiB take 132
   to 136 us, and 118 to 133 where they wait for all of it.

   xferlib/_transfer/many.py has the policy: which arrays travel together, and their places. */

#include "replay.h"

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

/* Whether an array is as the one that is kept: then where it lies. */
static int is_alike(const kept_form *f, const kept_leaf *k, PyObject *leaf, char **data)
{
    const ndarray *a = (const ndarray *)leaf;
    description d;
    if (f->is_host) {
        *data = a->data;
        return a->dtype == replay.elements[k->element].dtype && a->axes == k->axes && a->flags & C_ORDER &&
               !memcmp(a->extents, k->extents, (size_t)k->axes * sizeof *k->extents) && !xf_is_mapped(leaf);
    }
    if (!describe(leaf, &d) || d.kind != ON_CUDA || d.index != f->index)
        return 0;
    *data = d.data;
    return d.element == k->element && d.axes == k->axes && !memcmp(d.extents, k->extents, (size_t)k->axes * sizeof *k->extents);
}

/* (what is kept, list of leaves, address of as many parts as travel together) -> whether they have that form: then the parts say
   where they lie. */
PyObject *xf_match_form(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    const kept_form *f = count == 3 ? PyCapsule_GetPointer(given[0], NULL) : NULL;
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
        is_same = leaf && is_of(leaf, k->type) && (k->part < 0 || is_alike(f, k, leaf, &data));
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

/* (what is kept, list of leaves, NumPy array of bytes) -> a list of the leaves, with views of the array in the places of those that
   travelled together. */
PyObject *xf_cut_form(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    const kept_form *f = count == 3 ? PyCapsule_GetPointer(given[0], NULL) : NULL;
    PyObject *made;
    (void)module;
    if (!f || !PyList_Check(given[1]) || PyList_Size(given[1]) != f->count || !is_of(given[2], replay.ndarray))
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "cut_form takes a form, its leaves and an array");
    made = PyList_New(f->count);
    for (Py_ssize_t i = 0; made && i < f->count; ++i) {
        const kept_leaf *k = &f->leaves[i];
        PyObject *leaf;
        if (k->part < 0) {
            leaf = Py_XNewRef(PyList_GetItem(given[1], i));
        } else {
            leaf = replay.new_array(replay.ndarray, Py_NewRef(replay.elements[k->element].dtype), k->axes, k->extents, NULL,
                                    ((const ndarray *)given[2])->data + k->place, C_ORDER | ALIGNED | WRITABLE, NULL);
            if (leaf && replay.set_base(leaf, Py_NewRef(given[2])))
                Py_CLEAR(leaf);
        }
        if (!leaf || PyList_SetItem(made, i, leaf)) {
            Py_DECREF(made);
            return NULL;
        }
    }
    return made;
}

/* --- whole calls */

/* Bytes: see send_packed() and fetch(). Those of the same names in xferlib/_core/thresholds.py have the same values. */
enum {
    PACKED_MOST = 1 << 20,
    LOOPED_FROM = 384 << 10,
    LARGE_NBYTES = 8 << 20,
    SMALL_NBYTES = 64 << 10
};
enum { THREADS = 256 };

typedef struct {
    PyObject *leaves;
    device_entry *e;
    call_stream on;
} call;

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
            return kept;
        }
        Py_DECREF(kept);
        if (PyErr_Occurred())
            break;
    }
    free(*parts);
    *parts = NULL;
    return NULL;
}

static void pack(char *memory, const Part *parts, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; ++i)
        memcpy(memory + parts[i].place, parts[i].host, (size_t)parts[i].nbytes);
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

/* Send arrays in a row, to one memory on the device, or each to its own `apart`: whether that is done. Few bytes are read by the driver
   before its call returns, also while the stream is busy. More pass through pinned memory, of threads that spin in a loop, or of this one,
   which must be free again: that is for an idle stream. `is_read`: a copy may read the thread's pinned memory until read_all() returns; the
   caller cuts the device's memory meanwhile. */
static int send_packed(const call *c, word device, const word *apart, const Part *parts, Py_ssize_t count, size_t nbytes, int *is_read)
{
    device_entry *e = c->e;
    void *stream = c->on.handle;
    word scratch = 0;
    int error;
    *is_read = 0;
    if (!e->enqueue || !e->wait)
        return 0;
    if (nbytes <= ENQUEUED_MOST) {
        char *memory = malloc(nbytes);
        if (!memory)
            return 0;
        pack(memory, parts, count);
        WITHOUT_GIL(error = enqueue_row(c, memory, device, apart, parts, count, nbytes));
        free(memory);
        return !error;
    }
    if (nbytes > LOOPED_FROM && !apart && xf_send_parts(e, &c->on, device, nbytes, parts, count, nbytes <= PACKED_MOST))
        return 1;
    if (nbytes <= PACKED_MOST && !PyErr_Occurred() && xf_is_idle(e, stream))
        scratch = xf_scratch(e, nbytes, 1);
    if (!scratch)
        return 0;
    Py_BEGIN_ALLOW_THREADS
    pack((char *)(uintptr_t)scratch, parts, count);
    error = enqueue_row(c, (char *)(uintptr_t)scratch, device, apart, parts, count, nbytes);
    Py_END_ALLOW_THREADS
    *is_read = !error || apart;
    xf_keep_scratch(*is_read);
    return !error;
}

static int read_all(const call *c)
{
    int error;
    WITHOUT_GIL(error = c->e->wait(c->on.handle));
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
    if (PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_Exception))
            return NULL;
        PyErr_Clear();
    }
    Py_RETURN_NONE;
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

/* Whether all arrays among leaves lie in the pinned pool, and are so large that the device reads each where it lies in less time than it
   takes to pack them; the other leaves are of the types in a set. */
static int are_lent(PyObject *leaves, PyObject *others)
{
    Py_ssize_t count = 0, nbytes = 0;
    for (Py_ssize_t i = 0; i < PyList_Size(leaves); ++i) {
        PyObject *leaf = PyList_GetItem(leaves, i);
        description d;
        if (is_of(leaf, replay.ndarray) && xf_is_lent(leaf) && xf_describe_host(leaf, &d)) {
            ++count;
            nbytes += d.nbytes;
        } else if (PySet_Contains(others, (PyObject *)Py_TYPE(leaf)) != 1) {
            return 0;
        }
    }
    return nbytes > SMALL_NBYTES * count;
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
    int is_ready, is_read = 0;
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
    if (nbytes > 0 && PyTuple_GetItem(kept, 3) == Py_True) {
        if ((addresses = calloc((size_t)members, sizeof *addresses)) && (memory = make_apart(&c, f, members, addresses)) &&
            send_packed(&c, 0, addresses, parts, members, (size_t)nbytes, &is_read))
            made = rebuilt(given[0], with(f, c.leaves, memory));
        if (is_read && !read_all(&c))
            Py_CLEAR(made);
    } else if (nbytes > 0 && replay.byte >= 0) {
        description d = {.axes = 1, .element = replay.byte, .count = nbytes, .nbytes = nbytes, .is_c = 1, .extents = {nbytes}};
        memory = xf_make_on(c.e, &c.on, &d, 0, &address);
        if (address && send_packed(&c, address, NULL, parts, members, (size_t)nbytes, &is_read))
            views = PyObject_CallFunctionObjArgs(PyTuple_GetItem(kept, 2), memory, NULL);
        if (views && PyList_Check(views))
            made = rebuilt(given[0], with(f, c.leaves, views));
        if (is_read && !read_all(&c))
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

/* What a kernel needs to put arrays in a row, in the thread's pinned memory: the arrays, and the numbers of the first of each tile. */
typedef struct {
    char *memory;
    const Part *parts;
    const char *starts;
    size_t parts_nbytes, starts_nbytes;
    unsigned long long kernel;
} row_table;

/* The table of a form, and the bytes that it takes; 0 with an error set. */
static size_t size_table(row_table *t, const Part *parts, Py_ssize_t members, PyObject *kept)
{
    char *starts = NULL;
    Py_ssize_t length = 0;
    *t = (row_table){.parts = parts, .parts_nbytes = (size_t)members * sizeof *parts};
    t->kernel = PyLong_AsUnsignedLongLong(PyTuple_GetItem(kept, 2));
    if (PyErr_Occurred() || PyBytes_AsStringAndSize(PyTuple_GetItem(kept, 3), &starts, &length))
        return 0;
    t->starts = starts;
    t->starts_nbytes = (size_t)length;
    return (t->parts_nbytes + t->starts_nbytes + 63) / 64 * 64;
}

/* Put arrays in a row at `to` by a kernel: whether it is enqueued. */
static int gather(const call *c, const row_table *t, word to)
{
    word table = (word)(uintptr_t)t->memory, starts = table + t->parts_nbytes;
    void *arguments[] = {&to, &table, &starts};
    unsigned tiles = (unsigned)(t->starts_nbytes / sizeof(int64_t) - 1);
    int error;
    memcpy(t->memory, t->parts, t->parts_nbytes);
    memcpy(t->memory + t->parts_nbytes, t->starts, t->starts_nbytes);
    WITHOUT_GIL(error = c->e->launch((void *)(uintptr_t)t->kernel, tiles, 1, 1, THREADS, 1, 1, 0, c->on.handle, arguments, NULL));
    return !error;
}

/* Wait for the stream, and copy a row on from pinned memory that it has passed: whether that is done. */
static int take(const call *c, char *to, char *passed, int64_t nbytes)
{
    int error;
    Py_BEGIN_ALLOW_THREADS
    error = c->e->wait(c->on.handle);
    if (!error)
        replay.copy(NULL, passed, to, nbytes, 1, replay.helper_nbytes, replay.helpers, replay.most_threads, replay.spin_ns);
    Py_END_ALLOW_THREADS
    return !error;
}

/* Bring arrays to `array`, bytes on the host: whether they are there. The kernel writes a row by itself to `written`, pinned memory, which
   is the array's or passes it on; the link carries more from memory of the device, as one array, while threads copy. */
static int fetch(const call *c, const row_table *t, char *written, PyObject *array, const description *d, int is_fresh)
{
    device_copy crossing = {.e = c->e, .on = &c->on, .host = d, .element = d->element, .is_fresh = is_fresh};
    PyObject *between = NULL;
    word to = (word)(uintptr_t)written;
    int error, is_there = 0;
    way w;
    if (!written) {
        between = xf_make_on(c->e, &c->on, d, 1, &crossing.device);
        to = crossing.device;
    }
    if (!to || (!written && (!xf_find_way(&crossing, &w) || w.kernel))) {
        Py_XDECREF(between);
        return 0;
    }
    xf_keep_scratch(1); /* before the table is written: a call of Python's may use that memory until here */
    if (gather(c, t, to)) {
        if (!written)
            is_there = xf_run_way(&crossing, &w, array, 0);
        else
            is_there = written == d->data || take(c, d->data, written, d->nbytes);
        if (written == d->data || !is_there) { /* what is enqueued must be over before its memory is given up */
            WITHOUT_GIL(error = c->e->wait(c->on.handle));
            is_there = is_there && !error;
        }
    }
    xf_keep_scratch(0);
    Py_XDECREF(between);
    return is_there;
}

/* Wake threads that sleep, while this one makes ready what they are to copy. */
static void rouse(const device_entry *e, Py_ssize_t nbytes)
{
    long long most = replay.helper_nbytes > 0 ? nbytes / replay.helper_nbytes : 0;
    if (e->rouse && most > 0)
        e->rouse(most < replay.helpers ? most : replay.helpers, replay.spin_ns);
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

/* (tree, types of arrays, types of other leaves, whether to pinned memory, dict of devices to lists of (form, bytes, kernel, numbers of each
   tile's first array))
   -> the tree on the host; None where Python is to do it. */
PyObject *xf_fetch_tree(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    call c = {0};
    PyObject *kept = NULL, *array = NULL, *made = NULL;
    const kept_form *f = NULL;
    Part *parts = NULL;
    Py_ssize_t members = 0, nbytes = 0;
    row_table t = {0};
    size_t table = 0, room;
    int is_pinned, is_written;
    (void)module;
    if (count != 5 || !PyDict_Check(given[4]))
        return PyErr_Format(PyExc_TypeError, "fetch_tree takes a tree, two tables of types, a flag and a dict");
    is_pinned = given[3] == Py_True;
    if (take_apart(given[0], given[1], given[2], &c) && (c.e = device_of_first(c.leaves)) && c.e->kind == ON_CUDA && c.e->launch &&
        c.e->wait && c.e->fetch_later && xf_is_current(c.e, &c.on))
        kept = find_form(PyDict_GetItemWithError(given[4], c.e->device), c.leaves, &parts, &f, &members);
    if (kept && f && !f->is_host && f->index == c.e->index && (table = size_table(&t, parts, members, kept)))
        nbytes = PyLong_AsSsize_t(PyTuple_GetItem(kept, 1));
    is_written = nbytes <= LARGE_NBYTES;
    if (nbytes > LOOPED_FROM && !is_pinned)
        rouse(c.e, nbytes);
    if (nbytes > 0 && replay.byte >= 0) {
        room = table + (is_written && !is_pinned ? (size_t)nbytes : 0);
        t.memory = (char *)(uintptr_t)xf_scratch(c.e, room, 0);
        if (!t.memory && room > table && !PyErr_Occurred()) { /* the row does not pass there */
            is_written = 0;
            t.memory = (char *)(uintptr_t)xf_scratch(c.e, table, 0);
        }
    }
    if (nbytes > 0 && replay.byte >= 0 && t.memory) {
        description d = {.axes = 1, .element = replay.byte, .count = nbytes, .nbytes = nbytes, .is_c = 1, .extents = {nbytes}};
        int is_fresh = 0;
        array = is_pinned ? xf_make_pinned(c.e, &d) : xf_make_host_result(&d, PACKED_MOST, &is_fresh);
        if (array && (!is_pinned || ((const ndarray *)array)->base)) { /* else the pool is full */
            d.data = ((const ndarray *)array)->data;
            d.kind = ON_CPU;
            d.is_pinned = is_pinned;
            if (fetch(&c, &t, !is_written ? NULL : is_pinned ? d.data : t.memory + table, array, &d, is_fresh))
                made = rebuilt(given[0], xf_cut_form(NULL, (PyObject *[]){PyTuple_GetItem(kept, 0), c.leaves, array}, 3));
        }
    }
    free(parts);
    Py_XDECREF(array);
    Py_XDECREF(kept);
    Py_XDECREF(c.leaves);
    return made ? made : left_to_python();
}
