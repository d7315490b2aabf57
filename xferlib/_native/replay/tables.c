/* What a call depends on beside its arrays: whether it may be replayed, its device, and its stream.

   xferlib/_transfer/replay.py tells it, by the names of the fields below: once for the process, and of a library or a device
   when a call first meets it. Each thread keeps the answers for one epoch of the fast path, the generation counter that Python
   bumps whenever something that they rely on changes. */

#include "replay.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct tables replay;
struct numpy_functions xf_numpy;

static _Thread_local struct { /* of a thread of the system */
    unsigned long long asked, settled; /* the epochs in which the answers were given */
    int may_replay, number;
    PyObject *scope;
    PyObject *blocks, *moves; /* those that were made true here, and the number of then */
} mine;

/* --- dictionaries, whose values go to the fields of a struct */

typedef struct {
    const char *name;
    size_t offset;
} field;

#define LENGTH(list) ((int)(sizeof(list) / sizeof *(list)))
#define T(name) {#name, offsetof(struct tables, name)}
#define N(name) {#name, offsetof(struct tables, names.name)}
#define L(name) {#name, offsetof(library, name)}
#define D(name) {#name, offsetof(device_entry, name)}

static const field objects[] = {
    T(epoch), T(scopes), T(scope), T(may_replay), T(moves), T(follow), T(settle), {"register", offsetof(struct tables, register_)},
    T(resolve), T(to_device), T(to_host), T(ndarray), T(device), T(stream), T(dtype), T(dtypes), T(swapped), T(memmap), T(mmap),
    T(between), T(result), T(bool_), T(int64), T(float64), T(one),
};
static const field names[] = {
    N(backend), N(capture), N(copy), N(device), N(dtype), N(handle), N(out), N(pinned), N(_raw), N(_reuses), N(stream),
};
static const field functions_of_library[] = {L(whole), L(is_negated), L(is_conjugate), L(recording), L(maker), L(note_write)};
static const field functions_of_device[] = {
    D(empty), D(maker), D(maker_on), D(empty_on), D(empty_between), D(hold), D(memory), D(pointer), D(stream), D(is_current), D(pinned), D(scratch), D(lease),
    D(free), D(dead), D(hand_out), D(pool), D(is_followed), D(stage_setup), D(stage_finish), D(prepare),
};
static const field addresses_of_device[] = { /* of functions in C */
    D(send), D(fetch), D(enqueue), D(fetch_later), D(current), D(query), D(attribute), D(wait), D(is_captured), D(launch),
    D(batch), D(beside), D(spread), D(stage), D(take_chunk), D(give_chunk), D(lose_chunk), D(is_crowded), D(rouse),
};

enum { OBJECT, ADDRESS };

/* Write the values of a dictionary to the fields of those names; one that is absent, where it may be, stays as it is. Whether
   that is possible. */
static int fill(const field *fields, int count, PyObject *values, int kind, int may_be_absent, void *target)
{
    Py_ssize_t known = 0;
    for (int i = 0; i < count; ++i) {
        PyObject *value = PyDict_GetItemString(values, fields[i].name);
        void *kept;
        if (!value && !may_be_absent)
            PyErr_SetString(PyExc_KeyError, fields[i].name);
        else if (value) {
            if (kind == OBJECT)
                kept = value == Py_None ? NULL : Py_NewRef(value);
            else
                kept = (void *)(uintptr_t)PyLong_AsUnsignedLongLong(value); /* a function's is as wide: POSIX says so */
            memcpy((char *)target + fields[i].offset, &kept, sizeof kept);
            ++known;
        }
        if (PyErr_Occurred())
            return 0;
    }
    if (known != PyDict_Size(values))
        PyErr_Format(PyExc_KeyError, "%R has names that C does not know", values);
    return known == PyDict_Size(values);
}

/* --- what does not change while the process lives */

/* Take what is called here from NumPy's table of functions: 0 with an error set where its ABI is another one. */
int xf_numpy_functions(PyObject *capsule)
{
    void **table = PyCapsule_GetPointer(capsule, NULL);
    if (!table)
        return 0;
    if (((unsigned (*)(void))table[ABI_VERSION])() >> 24 != NUMPY_ABI >> 24) {
        PyErr_SetString(PyExc_RuntimeError, "this NumPy has another ABI");
        return 0;
    }
    void *const found[] = {table[NEW_COPY], table[NEW_FROM_DTYPE], table[SET_BASE], table[NEW_EMPTY], table[NEW_ZEROS], table[READ_NUMBER]};
    _Static_assert(sizeof found == sizeof xf_numpy, "one for each field, in their order");
    memcpy(&xf_numpy, found, sizeof xf_numpy); /* a function's address is as wide as any */
    return 1;
}

/* Keep more types of elements, behind those that are known: whether they are described as they must be. */
static int take_elements(PyObject *elements)
{
    for (Py_ssize_t i = 0; i < PyList_Size(elements) && replay.element_count < MOST_TYPES; ++i) {
        element *each = &replay.elements[replay.element_count];
        if (!PyArg_ParseTuple(PyList_GetItem(elements, i), "Obbn", &each->dtype, &each->code, &each->bits, &each->itemsize))
            return 0;
        Py_INCREF(each->dtype);
        replay.element_count++;
    }
    return 1;
}

/* (elements): dtypes that have been met since bind_replay() */
PyObject *xf_add_elements(PyObject *module, PyObject *elements)
{
    (void)module;
    return PyList_Check(elements) && take_elements(elements) ? Py_NewRef(Py_None) : NULL;
}

/* Keep what bind_replay() is given: whether that is possible. Without NumPy's functions nothing is kept, so that all that asks for
   replay.dtypes leaves its work to Python. */
int xf_fill_tables(PyObject *things, PyObject *elements, PyObject *numpy)
{
    if (!xf_numpy_functions(numpy) || !fill(objects, LENGTH(objects), things, OBJECT, 0, &replay))
        return 0;
    replay.element_count = 0;
    replay.byte = -1;
    if (!take_elements(elements))
        return 0;
    for (int i = 0; i < replay.element_count; ++i)
        if (replay.elements[i].code == WHOLE && replay.elements[i].itemsize == 1)
            replay.byte = i;
    for (int i = 0; i < LENGTH(names); ++i) {
        PyObject **name = (PyObject **)(void *)((char *)&replay + names[i].offset);
        if (!*name && !(*name = PyUnicode_InternFromString(names[i].name)))
            return 0;
    }
    return 1;
}

/* --- libraries and devices */

static void *duplicate(const void *entry, size_t size)
{
    void *copy = malloc(size);
    return copy ? memcpy(copy, entry, size) : PyErr_NoMemory();
}

/* (type of arrays, whether they are known here, capsule of the exchange API or None, functions, the library's dtypes) -> its
   number, -1 where there is no room */
PyObject *xf_add_library(PyObject *module, PyObject *arguments)
{
    PyObject *exchange, *functions;
    library l = {0};
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OpOO!O!", &l.type, &l.is_known, &exchange, &PyDict_Type, &functions, &PyTuple_Type,
                          &l.dtypes))
        return NULL;
    if (replay.library_count == MOST_ENTRIES)
        return PyLong_FromLong(-1);
    if (exchange != Py_None && !(l.exchange = PyCapsule_GetPointer(exchange, "dlpack_exchange_api")))
        return NULL;
    if (l.exchange && (l.exchange->major != 1 || !l.exchange->describe || !l.exchange->current_stream))
        l.exchange = NULL;
    if (!fill(functions_of_library, LENGTH(functions_of_library), functions, OBJECT, 1, &l))
        return NULL;
    Py_INCREF(l.type);
    Py_INCREF(l.dtypes);
    if (PyTuple_Size(l.dtypes) < replay.element_count)
        l.maker = NULL; /* it would not know which one is meant */
    replay.libraries[replay.library_count] = duplicate(&l, sizeof l);
    return replay.libraries[replay.library_count] ? PyLong_FromLong(replay.library_count++) : NULL;
}

/* (device, number of its library, index, kind, functions, addresses, context) -> its number, -1 where there is no room; `kind` as
   in DLPack, 0 for a device that is left to Python */
PyObject *xf_add_device(PyObject *module, PyObject *arguments)
{
    PyObject *functions, *addresses;
    unsigned long long context;
    int number;
    device_entry e = {0}, *added;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OiiiO!O!K", &e.device, &number, &e.index, &e.kind, &PyDict_Type, &functions, &PyDict_Type,
                          &addresses, &context))
        return NULL;
    if (replay.device_count == MOST_ENTRIES || e.index < 0 || e.index >= MOST_INDEX || number >= replay.library_count)
        return PyLong_FromLong(-1);
    if (number < 0 || !replay.libraries[number]->is_known)
        e.kind = 0;
    else
        e.library = replay.libraries[number];
    if (!fill(functions_of_device, LENGTH(functions_of_device), functions, OBJECT, 1, &e) ||
        !fill(addresses_of_device, LENGTH(addresses_of_device), addresses, ADDRESS, 1, &e))
        return NULL;
    if (!e.library || PyTuple_Size(e.library->dtypes) < replay.element_count)
        e.maker = e.maker_on = NULL; /* they would not know which dtype is meant */
    Py_INCREF(e.device);
    e.context = context;
    added = replay.devices[replay.device_count] = duplicate(&e, sizeof e);
    if (!added)
        return NULL;
    if (e.kind != ON_CPU && number >= 0)
        replay.libraries[number]->devices[e.index] = added;
    return PyLong_FromLong(replay.device_count++);
}

/* Know no library and no device any more: some are gone, or other ones now. */
PyObject *xf_forget_devices(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    replay.library_count = replay.device_count = 0;
    Py_RETURN_NONE;
}

/* Let Python tell of a type or a device that a call meets for the first time. */
static int register_(PyObject *thing, int index)
{
    return is_done(PyObject_CallFunction(replay.register_, "Oi", thing, index));
}

device_entry *xf_find_device(PyObject *device)
{
    for (int twice = 0; twice < 2; ++twice) {
        for (int i = 0; i < replay.device_count; ++i)
            if (replay.devices[i]->device == device)
                return replay.devices[i]->kind ? replay.devices[i] : NULL;
        if (twice || !is_of(device, replay.device) || !register_(device, 0))
            break;
    }
    return NULL;
}

/* The device that is named by a specification, or as a backend's; NULL where Python is to find it. */
device_entry *xf_resolve_device(PyObject *device, PyObject *backend)
{
    static struct {
        PyObject *device, *backend; /* the very objects, as constants of a program are */
        device_entry *e;            /* a CPU, which is no matter of the thread, as a current GPU is */
        unsigned long long epoch;
    } known[MOST_ENTRIES];
    static int next;
    PyObject *found;
    device_entry *e;
    if (device && !backend && is_of(device, replay.device))
        return xf_find_device(device);
    for (int i = 0; i < MOST_ENTRIES && !PyList_Size(replay.scopes); ++i)
        if (known[i].e && known[i].device == device && known[i].backend == backend && known[i].epoch == xf_epoch())
            return known[i].e;
    if ((device && !PyUnicode_CheckExact(device) && !PyLong_CheckExact(device)) || (backend && !PyUnicode_CheckExact(backend)))
        return NULL;
    found = PyObject_CallFunctionObjArgs(replay.resolve, device ? device : Py_None, backend ? backend : Py_None, NULL);
    e = found ? xf_find_device(found) : NULL;
    Py_XDECREF(found);
    if (e && e->kind == ON_CPU && !PyList_Size(replay.scopes)) {
        PyObject *before[2] = {known[next].device, known[next].backend};
        known[next].device = Py_XNewRef(device);
        known[next].backend = Py_XNewRef(backend);
        known[next].e = e;
        known[next].epoch = xf_epoch();
        next = (next + 1) % MOST_ENTRIES;
        Py_XDECREF(before[0]);
        Py_XDECREF(before[1]);
    }
    return e;
}

const library *xf_find_library(PyObject *array)
{
    PyObject *type = (PyObject *)Py_TYPE(array);
    for (int twice = 0; twice < 2; ++twice) {
        for (int i = 0; i < replay.library_count; ++i)
            if (replay.libraries[i]->type == type)
                return replay.libraries[i]->is_known ? replay.libraries[i] : NULL;
        if (twice || !register_(type, -1))
            break;
    }
    return NULL;
}

/* The device that an array is on; NULL where Python is to copy it. */
device_entry *xf_device_of(const library *l, const description *d)
{
    if (d->kind != ON_CUDA || (!l->devices[d->index] && !register_(l->type, d->index)))
        return NULL;
    return l->devices[d->index] && l->devices[d->index]->kind ? l->devices[d->index] : NULL;
}

/* --- what holds for an epoch */

unsigned long long xf_epoch(void)
{
    return PyLong_AsUnsignedLongLong(PyList_GetItem(replay.epoch, 0));
}

/* Whether calls may be done here: the question's answer is then the addresses of functions, their last arguments, and the most
   bytes of a copy between host arrays; else None. */
int xf_may_replay(void)
{
    unsigned long long now = xf_epoch(), at[2] = {0};
    if (now != mine.asked) {
        PyObject *answer = PyObject_CallNoArgs(replay.may_replay);
        mine.may_replay = answer && answer != Py_None &&
                          PyArg_ParseTuple(answer, "(KK)LLLLLn", &at[0], &at[1], &replay.helper_nbytes, &replay.helpers,
                                           &replay.most_threads, &replay.spin_ns, &replay.fillers, &replay.host_most);
        if (mine.may_replay)
            memcpy(&replay.copy, at, 2 * sizeof replay.copy); /* a function's address is as wide as any: POSIX says so */
        if (!is_done(answer) || PyErr_Occurred())
            return mine.may_replay = 0;
        mine.asked = now;
    }
    return mine.may_replay;
}

static int is_entered(const device_entry *e)
{
    void *context = NULL;
    return !e->current(&context) && (word)(uintptr_t)context == e->context;
}

/* Whether a copy can be made on a stream: CUDA has two more default ones of these numbers, and a graph that another library
   records would read the memory at each of its launches. */
static int is_served(const device_entry *e, const call_stream *on)
{
    enum { PER_THREAD = 2 };
    int result, status = 0;
    if (!on->handle)
        return 1;
    if ((uintptr_t)on->handle <= PER_THREAD || !e->wait || !e->enqueue || !e->fetch_later)
        return 0;
    if (!e->is_captured)
        return 1;
    WITHOUT_GIL(result = e->is_captured(on->handle, &status));
    return !result && !status;
}

/* Whether the device is the thread's, by its context and to its library, and the call's stream one of its; the current one is
   found here. */
int xf_is_current(const device_entry *e, call_stream *on)
{
    const DLPackExchangeAPI *exchange = e->library->exchange;
    PyObject *handle;
    if (!is_entered(e) || xf_is_unusual(e->is_current, NULL, Py_True))
        return 0;
    if (on->named)
        return on->device == e->device && is_served(e, on);
    on->handle = NULL;
    if (exchange)
        return exchange->current_stream(ON_CUDA, e->index, &on->handle) == 0 && is_served(e, on);
    handle = PyObject_CallNoArgs(e->stream);
    if (!handle)
        return 0;
    on->handle = (void *)(uintptr_t)PyLong_AsUnsignedLongLong(handle);
    Py_DECREF(handle);
    return !PyErr_Occurred() && is_served(e, on);
}

/* Read a stream that a call names, which is one of ours: 0 where Python is to look at it. */
int xf_read_stream(PyObject *stream, call_stream *on)
{
    PyObject *handle, *capture;
    if (!stream)
        return 1;
    if (!(on->named = PyObject_GetAttr(stream, replay.names._raw)))
        return 0;
    on->device = PyObject_GetAttr(on->named, replay.names.device);
    handle = on->device ? PyObject_GetAttr(on->named, replay.names.handle) : NULL;
    capture = handle ? PyObject_GetAttr(on->named, replay.names.capture) : NULL;
    on->handle = handle ? (void *)(uintptr_t)PyLong_AsUnsignedLongLong(handle) : NULL;
    Py_XDECREF(handle);
    Py_XDECREF(capture);
    return capture == Py_None && !PyErr_Occurred();
}

/* Make the thread's devices and streams those of its context, once a block has chosen any: whether that is done; not before the
   tables are filled. An error may be set. */
int xf_follow(void)
{
    PyObject *blocks;
    if (!replay.scopes)
        return 0;
    if (!PyList_Size(replay.scopes))
        return 1;
    blocks = PyObject_CallNoArgs(replay.scope);
    if (blocks && (blocks != mine.blocks || PyList_GetItem(replay.moves, 0) != mine.moves)) {
        Py_DECREF(blocks);
        blocks = PyObject_CallNoArgs(replay.follow);
        if (blocks) {
            Py_XDECREF(mine.blocks);
            Py_XDECREF(mine.moves);
            mine.blocks = Py_NewRef(blocks);
            mine.moves = Py_XNewRef(PyList_GetItem(replay.moves, 0));
        }
    }
    return is_done(blocks);
}

/* The device of a call that names none; NULL where Python is to find it. */
device_entry *xf_default_device(void)
{
    unsigned long long now = xf_epoch();
    PyObject *scope = NULL, *answer;
    const device_entry *e;
    if (PyList_Size(replay.scopes)) { /* each asynchronous task has its own */
        scope = PyObject_CallNoArgs(replay.scope);
        if (!scope)
            return NULL;
        Py_DECREF(scope); /* the context variable, or `mine`, holds it */
    }
    e = replay.device_count > mine.number && mine.number >= 0 ? replay.devices[mine.number] : NULL;
    if (now != mine.settled || scope != mine.scope || (e && e->kind == ON_CUDA && !is_entered(e))) { /* it has another */
        answer = PyObject_CallNoArgs(replay.settle);
        if (!answer)
            return NULL;
        mine.number = (int)PyLong_AsLong(answer);
        Py_DECREF(answer);
        Py_XDECREF(mine.scope);
        mine.scope = Py_XNewRef(scope);
        mine.settled = now;
    }
    return mine.number < 0 || mine.number >= replay.device_count ? NULL : replay.devices[mine.number];
}
