/* Kernels on simulated arrays, enqueued without a step in Python: calls of a layout that Python has prepared.

   Python orders an operation, checks it and remembers it in objects with slots. Here the same slots are read and written by
   their places in memory, and new objects are allocated and filled without a call of their `__init__`. What is not plain gives
   NotImplemented with nothing done: xferlib/sim/launches.py, whose classes these functions belong to, then does the same.
   Python's methods are called for what is rare.

   Ctrl-C strikes between two steps of Python, thus never between two steps here. But each Python method that is called may be
   struck, and in Python 3.11 each allocation may run a finalizer: objects that other code can replace are held meanwhile. */

#include "../replay/replay.h"

#include <math.h>
#include <string.h>

enum { MOST_ARGUMENTS = 16, MOST_DIMENSIONS = 8, SMALL = 512, PIECE = 8192, ALIGNMENT = 64, POOL_UNIT = 512 };

/* --- the slots of the simulator's classes */

#define SLOTS(X)                                                                                                             \
    X(MACHINE, lock) X(MACHINE, hosts) X(MACHINE, memory) X(MACHINE, detector) X(MACHINE, engine) X(MACHINE, guard)            \
    X(MACHINE, faults) X(MACHINE, timeline) X(MACHINE, listener) X(MACHINE, function) X(MACHINE, lifetimes)                    \
    X(MACHINE, forked_from) X(MACHINE, settings) X(MACHINE, is_direct)                                                         \
    X(FAULTS, plan) X(FAULTS, lost) X(DETECTOR, is_on) X(DETECTOR, postponed)                                                  \
    X(HOSTS, main) X(HOSTS, _own) X(HOST, time_ps)                                                                             \
    X(LIFETIMES, deaths) X(LIFETIMES, released)                                                                                \
    X(MEMORY, _piece) X(MEMORY, _piece_at) X(MEMORY, used)                                                                     \
    X(TIMELINE, enqueue_ps) X(TIMELINE, _kernels) X(TIMELINE, _keeps) X(TIMELINE, _busy_until_ps) X(TIMELINE, slowed)          \
    X(ENGINE, schedule) X(ENGINE, most_pending) X(ENGINE, _in_flight) X(ENGINE, serial)                                        \
    X(STREAM, clock) X(STREAM, key) X(STREAM, version) X(STREAM, _seen) X(STREAM, is_retired) X(STREAM, tail)                  \
    X(STREAM, others) X(STREAM, time_ps) X(STREAM, pool) X(STREAM, awaited) X(STREAM, last_wait) X(STREAM, recorded)           \
    X(HANDLE, stream) X(POOL, _freed) X(POOL, _trim_at)                                                                        \
    X(BLOCK, _bytes) X(BLOCK, _at) X(BLOCK, _data) X(BLOCK, nbytes) X(BLOCK, _pointer) X(BLOCK, _space) X(BLOCK, is_counted)   \
    X(BLOCK, device) X(BLOCK, stream) X(BLOCK, location) X(BLOCK, left) X(BLOCK, has_void) X(BLOCK, value_flags)               \
    X(BLOCK, accesses) X(BLOCK, last_owner)                                                                                    \
    X(ALLOCATION, block) X(ALLOCATION, _deaths) X(ALLOCATION, users) X(ALLOCATION, events)                                     \
    X(ARRAY, allocation) X(ARRAY, _info) X(ARRAY, kind) X(ARRAY, _memory) X(ARRAY, _offset) X(ARRAY, _spans)                   \
    X(ARRAY, _uses_whole)                                                                                                      \
    X(KIND, dtype) X(KIND, shape) X(KIND, strides) X(KIND, start) X(KIND, stop) X(KIND, form) X(KIND, facts)                   \
    X(OPERATION, name) X(OPERATION, arguments) X(OPERATION, participant) X(OPERATION, location) X(OPERATION, call)             \
    X(OPERATION, tick) X(OPERATION, run) X(OPERATION, around) X(OPERATION, serial) X(OPERATION, before) X(OPERATION, take)     \
    X(OPERATION, source) X(OPERATION, target) X(OPERATION, has_host_memory) X(OPERATION, has_failed)                           \
    X(OPERATION, is_repeatable) X(OPERATION, is_computed) X(OPERATION, _is_done)                                               \
    X(HISTORY, _accesses) X(HISTORY, _count) X(HISTORY, _long) X(ACCESSES, latest) X(ACCESSES, regions) X(ACCESSES, logs)

enum { MACHINE, FAULTS, DETECTOR, HOSTS, HOST, LIFETIMES, MEMORY, TIMELINE, ENGINE, STREAM, HANDLE, POOL, BLOCK, ALLOCATION, ARRAY,
       KIND, OPERATION, HISTORY, ACCESSES, CLASSES };

#define AS_NUMBER(class, slot) class##_##slot,
#define AS_ROW(class, slot) {class, #slot},
enum { SLOTS(AS_NUMBER) ALL_SLOTS };
static const struct {
    int class;
    const char *name;
} slots[ALL_SLOTS] = {SLOTS(AS_ROW)};

/* The names of attributes that are not slots of these classes: made once, since a new string is hashed each time. */
#define NAMES(X)                                                                                                             \
    X(streams) X(reuses_memory) X(is_eager) X(memory_nbytes) X(acquire) X(release) X(start) X(stop) X(step) X(co_filename)     \
    X(f_lasti) X(index) X(popleft) X(offset) X(is_done) X(check) X(add_kernel) X(memory) X(allocate) X(take) X(order) X(join)  \
    X(add) X(is_clear) X(note) X(free_collected) X(is_noted)

#define AS_NAME(name) NAME_##name,
#define AS_TEXT(name) #name,
enum { NAMES(AS_NAME) ALL_NAMES };
static const char *const texts[ALL_NAMES] = {NAMES(AS_TEXT)};
static PyObject *names[ALL_NAMES];
#define ATTRIBUTE(object, name) PyObject_GetAttr(object, names[NAME_##name])

/* The simulator: one for a process, since its classes are; `machine` is of the backend that was loaded last. */
static struct {
    Py_ssize_t at[ALL_SLOTS];
    PyTypeObject *types[CLASSES];
    PyObject *kept; /* holds all of these */
    PyObject *machine, *local, *make_owner, *owner_type, *kind_of, *is_ours, *threading_file, *call_from, *partial, *take, *view_type, *number_type,
        *dtype_type;
    PyObject *ndarray;
    PyObject *lock, *acquire, *release; /* the machine's lock and its methods */
    PyObject *zero, *nothing, *at_once; /* 0, (), and (False,) */
    int is_ready;
} sim;

#define SLOT(object, number) (*(PyObject **)((char *)(object) + sim.at[number]))

/* Where a slot lies: the limited API does not tell, so an object shows where a mark appears; -1 with an error set. */
static Py_ssize_t find_slot(PyTypeObject *type, PyObject *object, const char *name)
{
    PyObject *mark = PyList_New(0), *size = PyObject_GetAttrString((PyObject *)type, "__basicsize__");
    Py_ssize_t end = size ? PyLong_AsSsize_t(size) : -1, found = -1;
    if (mark && end > 0 && !PyObject_SetAttrString(object, name, mark)) {
        for (Py_ssize_t at = (Py_ssize_t)sizeof(PyObject); at < end && found < 0; at += (Py_ssize_t)sizeof(PyObject *))
            if (*(PyObject **)((char *)object + at) == mark)
                found = at;
        if (PyObject_DelAttrString(object, name))
            found = -1;
    }
    Py_XDECREF(size);
    Py_XDECREF(mark);
    if (found < 0 && !PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "%R has no slot %s", type, name);
    return found;
}

static int find_slots(PyObject *types)
{
    PyObject *made[CLASSES] = {NULL};
    int is_found = 1;
    for (int i = 0; i < CLASSES; ++i)
        sim.types[i] = (PyTypeObject *)PyTuple_GetItem(types, i);
    for (int i = 0; i < ALL_SLOTS && is_found; ++i) {
        int class = slots[i].class;
        if (!made[class])
            made[class] = PyType_GenericAlloc(sim.types[class], 0);
        is_found = made[class] && (sim.at[i] = find_slot(sim.types[class], made[class], slots[i].name)) > 0;
    }
    for (int i = 0; i < CLASSES; ++i)
        Py_XDECREF(made[i]);
    return is_found;
}

/* Put an object, whose reference is taken, in the place of another one. */
static void replace(PyObject **at, PyObject *value)
{
    PyObject *before = *at;
    *at = value;
    Py_XDECREF(before);
}

static void put(PyObject *object, int slot, PyObject *value)
{
    replace(&SLOT(object, slot), value);
}

static void set(PyObject *object, int slot, PyObject *value)
{
    put(object, slot, Py_NewRef(value));
}

/* Put one value into several slots. */
#define SET_ALL(object, value, ...) set_all(object, value, (const int[]){__VA_ARGS__, -1})

static void set_all(PyObject *object, PyObject *value, const int *slots_of)
{
    for (; *slots_of >= 0; ++slots_of)
        set(object, *slots_of, value);
}

static long long number_in(PyObject *object, int slot)
{
    PyObject *found = SLOT(object, slot);
    return found ? PyLong_AsLongLong(found) : -1;
}

/* Put a number into a slot: whether there was memory. */
static int put_number(PyObject *object, int slot, long long value)
{
    PyObject *made = PyLong_FromLongLong(value);
    if (made)
        put(object, slot, made);
    return made != NULL;
}

/* Call a method of Python's, with up to three arguments. */
#define CALL(object, name, ...) call_method(object, names[NAME_##name], (PyObject *[]){__VA_ARGS__, NULL})

static PyObject *call_method(PyObject *object, PyObject *name, PyObject **given)
{
    Py_ssize_t count = 0;
    PyObject *method = PyObject_GetAttr(object, name), *found = NULL;
    while (given[count])
        ++count;
    if (method)
        found = xf_call(method, given, count);
    Py_XDECREF(method);
    return found;
}

/* --- what a launch is */

typedef struct {
    PyObject *kept, *machine, *name, *device, *lane, *accesses, *legacy; /* accesses: a `LaunchedAccesses` */
    PyObject *kind, *dtype; /* of the new array; NULL where there is none */
    long long nbytes, new_nbytes;
    Py_ssize_t extents[MOST_DIMENSIONS], strides[MOST_DIMENSIONS];
    int axes, reads, uses, places[MOST_ARGUMENTS];
} launch;

/* Python's numbers that a dtype takes as they are: rounded once at most. */
typedef struct {
    int place, is_float;
    double low, high;      /* of floats */
    long long least, most; /* of integers */
} plain_numbers;

/* A call that comes to one launch. */
typedef struct {
    PyObject *kept, *runs[2], *python; /* runs: where no output is an input, and where one is */
    const launch *of;
    int pairs, apart[MOST_ARGUMENTS][3]; /* a written argument, another one, and whether they may be one array; else their blocks differ */
    int scalars;
    plain_numbers numbers[MOST_ARGUMENTS]; /* the arguments that are numbers */
    int result;                          /* the argument that it returns; -1: the new array, or None */
} known_call;

/* --- arrays */

static int is_array(PyObject *value)
{
    return Py_TYPE(value) == sim.types[ARRAY];
}

/* The device of a simulated array, borrowed; NULL for any other, or with an error set. */
PyObject *xf_simulated_device(PyObject *array)
{
    if (!sim.is_ready || !is_array(array))
        return NULL;
    if (SLOT(array, ARRAY_kind) == Py_None && !is_done(PyObject_CallFunctionObjArgs(sim.kind_of, array, NULL)))
        return NULL;
    return PyTuple_GetItem(SLOT(SLOT(array, ARRAY_kind), KIND_facts), 3); /* which `kind_of` leaves with the array */
}

/* The block of an array: borrowed; NULL where another class than `Allocation` has it. */
static PyObject *block_of(PyObject *array)
{
    PyObject *allocation = SLOT(array, ARRAY_allocation);
    return Py_TYPE(allocation) == sim.types[ALLOCATION] ? SLOT(allocation, ALLOCATION_block) : NULL;
}

/* Where an array begins in its block; -1 with an error set. */
static long long offset_of(PyObject *array)
{
    PyObject *found = SLOT(array, ARRAY__offset);
    long long offset;
    if (found != Py_None)
        return PyLong_AsLongLong(found);
    if (SLOT(array, ARRAY__info) == Py_None)
        return 0;
    found = ATTRIBUTE(array, offset);
    offset = found ? PyLong_AsLongLong(found) : -1;
    Py_XDECREF(found);
    return offset;
}

/* A NumPy array over bytes that `base` keeps alive. */
static PyObject *over(PyObject *base, char *data, PyObject *dtype, int axes, const Py_ssize_t *extents, const Py_ssize_t *strides)
{
    PyObject *made = xf_numpy.new_array(sim.ndarray, Py_NewRef(dtype), axes, extents, strides, data, ALIGNED | WRITABLE, NULL);
    if (made && xf_numpy.set_base(made, Py_NewRef(base)))
        Py_CLEAR(made);
    return made;
}

static int read_sizes(PyObject *tuple, Py_ssize_t *sizes)
{
    Py_ssize_t count = PyTuple_Size(tuple);
    for (Py_ssize_t i = 0; i < count && count <= MOST_DIMENSIONS; ++i)
        sizes[i] = PyLong_AsSsize_t(PyTuple_GetItem(tuple, i));
    return count <= MOST_DIMENSIONS ? (int)count : -1;
}

/* The memory of an array, as `SimArray.memory`. */
static PyObject *memory_of(PyObject *array)
{
    PyObject *kind = SLOT(array, ARRAY_kind), *block = block_of(array), *made;
    Py_ssize_t extents[MOST_DIMENSIONS], strides[MOST_DIMENSIONS];
    long long offset;
    int axes;
    if (SLOT(array, ARRAY__memory) != Py_None)
        return Py_NewRef(SLOT(array, ARRAY__memory));
    if (kind == Py_None || !block || (axes = read_sizes(SLOT(kind, KIND_shape), extents)) < 0)
        return CALL(array, memory, NULL);
    read_sizes(SLOT(kind, KIND_strides), strides);
    offset = offset_of(array);
    if (offset < 0 || PyErr_Occurred())
        return NULL;
    offset += number_in(block, BLOCK__at);
    made = over(SLOT(block, BLOCK__bytes), ((ndarray *)SLOT(block, BLOCK__bytes))->data + offset, SLOT(kind, KIND_dtype), axes, extents, strides);
    if (made)
        set(array, ARRAY__memory, made);
    return made;
}

static PyObject *new_view(PyObject *allocation, PyObject *kind, PyObject *memory, PyObject *offset, PyObject *uses_whole)
{
    PyObject *made = PyType_GenericAlloc(sim.types[ARRAY], 0);
    if (made) {
        set(made, ARRAY_allocation, allocation);
        set(made, ARRAY_kind, kind);
        set(made, ARRAY__memory, memory);
        set(made, ARRAY__offset, offset);
        set(made, ARRAY__uses_whole, uses_whole);
        SET_ALL(made, Py_None, ARRAY__info, ARRAY__spans);
    }
    return made;
}

/* --- the ends of arrays */

/* Count a block's bytes among those in use on its device, or no more: whether there was memory. */
static int count_bytes(PyObject *block, long long more)
{
    PyObject *used = SLOT(SLOT(sim.machine, MACHINE_memory), MEMORY_used), *index = ATTRIBUTE(SLOT(block, BLOCK_device), index);
    PyObject *before = index ? PyDict_GetItemWithError(used, index) : NULL;
    PyObject *after = index ? PyLong_FromLongLong((before ? PyLong_AsLongLong(before) : 0) + more) : NULL;
    int is_counted = after && !PyDict_SetItem(used, index, after);
    Py_XDECREF(index);
    Py_XDECREF(after);
    if (is_counted)
        set(block, BLOCK_is_counted, more > 0 ? Py_True : Py_False);
    return is_counted;
}

/* Free a block that its stream alone has used, in whose order it is freed: 1, 0 where Python does that, -1 with an error. */
static int free_simply(PyObject *death)
{
    PyObject *block = PyTuple_GetItem(death, 0), *accesses = SLOT(block, BLOCK_accesses), *stream = SLOT(block, BLOCK_stream), *last, *pool;
    PyObject *freed, *users, *owner, *entry;
    long long nbytes = number_in(block, BLOCK_nbytes);
    int is_freed;
    if (!PyTuple_CheckExact(accesses) || PyDict_Size(PyTuple_GetItem(death, 1)) || PyDict_Size(PyTuple_GetItem(death, 2)) ||
        SLOT(block, BLOCK_left) != Py_None || SLOT(block, BLOCK__pointer) != Py_None || SLOT(block, BLOCK_is_counted) != Py_True || nbytes < 1)
        return 0;
    last = PyTuple_GetItem(accesses, 1);
    pool = SLOT(stream, STREAM_pool);
    freed = SLOT(pool, POOL__freed);
    if (SLOT(last, OPERATION_participant) != stream || SLOT(stream, STREAM_is_retired) != Py_False ||
        PyList_Size(freed) + 1 >= number_in(pool, POOL__trim_at))
        return 0;
    users = PyTuple_Pack(1, last);
    owner = users ? PyTuple_Pack(2, users, PyTuple_GetItem(death, 3)) : NULL;
    Py_XDECREF(users);
    users = owner;
    owner = users ? PyObject_CallFunctionObjArgs(sim.make_owner, sim.owner_type, users, NULL) : NULL;
    Py_XDECREF(users);
    entry = owner ? Py_BuildValue("(LN)", (nbytes + POOL_UNIT - 1) / POOL_UNIT * POOL_UNIT, owner) : NULL;
    is_freed = entry && !PyList_Append(freed, entry) && count_bytes(block, -nbytes);
    Py_XDECREF(entry);
    return is_freed ? 1 : -1;
}

/* As `Lifetimes.free_collected`, while nothing else has been collected: 0, or -1 with an error set. */
static int free_collected(PyObject *schedule)
{
    PyObject *lifetimes = SLOT(sim.machine, MACHINE_lifetimes), *deaths = SLOT(lifetimes, LIFETIMES_deaths), *reuses;
    int state = 1;
    reuses = ATTRIBUTE(schedule, reuses_memory);
    state = reuses == Py_False && SLOT(SLOT(sim.machine, MACHINE_detector), DETECTOR_is_on) == Py_True;
    Py_XDECREF(reuses);
    while (state > 0 && PyObject_Size(deaths) > 0) {
        PyObject *death = PySequence_GetItem(deaths, 0);
        state = death ? free_simply(death) : -1;
        if (state > 0 && !is_done(CALL(deaths, popleft, NULL)))
            state = -1;
        Py_XDECREF(death);
    }
    if (state < 0 || PyErr_Occurred())
        return -1;
    return state > 0 || is_done(CALL(lifetimes, free_collected, NULL)) ? 0 : -1;
}

/* --- the parts of an enqueue */

/* Whether nothing but the detector and the schedule looks at operations, and nothing refuses them. */
static int is_unwatched(PyObject *machine)
{
    PyObject *faults = SLOT(machine, MACHINE_faults), *hosts = SLOT(machine, MACHINE_hosts), *own = SLOT(hosts, HOSTS__own), *ident;
    int is_own;
    if (SLOT(machine, MACHINE_is_direct) != Py_True || SLOT(machine, MACHINE_function) != Py_None || SLOT(machine, MACHINE_guard) != Py_None ||
        SLOT(machine, MACHINE_listener) != Py_None || SLOT(faults, FAULTS_plan) != Py_None || PySet_Size(SLOT(faults, FAULTS_lost)) ||
        SLOT(machine, MACHINE_forked_from) != sim.zero)
        return 0;
    if (!PyDict_Size(own))
        return 1;
    ident = PyLong_FromUnsignedLong(PyThread_get_thread_ident());
    is_own = !ident || PyDict_Contains(own, ident);
    Py_XDECREF(ident);
    return !is_own;
}

/* The calling thread's current stream: borrowed from the dict or the handle that has it. */
static PyObject *current_stream(const launch *l)
{
    PyObject *streams = ATTRIBUTE(sim.local, streams), *handle = streams ? PyDict_GetItemWithError(streams, l->device) : NULL;
    PyObject *found = handle ? SLOT(handle, HANDLE_stream) : l->legacy;
    Py_XDECREF(streams);
    return PyErr_Occurred() ? NULL : found;
}

/* A new block of uninitialised memory: a part of the piece that small ones share, where it has room. */
static PyObject *new_block(const launch *l, PyObject *stream, PyObject *location)
{
    PyObject *memory = SLOT(sim.machine, MACHINE_memory), *made = PyType_GenericAlloc(sim.types[BLOCK], 0), *piece = SLOT(memory, MEMORY__piece);
    long long at = number_in(memory, MEMORY__piece_at), nbytes = l->new_nbytes;
    if (!made)
        return NULL;
    if (nbytes > SMALL || piece == Py_None || at + nbytes > PIECE) {
        PyObject *size = PyLong_FromLongLong(nbytes);
        Py_DECREF(made);
        made = size ? CALL(memory, allocate, size, l->device, stream, location) : NULL;
        Py_XDECREF(size);
        return made;
    }
    if (!put_number(made, BLOCK__at, at) || !put_number(made, BLOCK_nbytes, nbytes) ||
        !put_number(memory, MEMORY__piece_at, at + (nbytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT)) {
        Py_DECREF(made);
        return NULL;
    }
    set(made, BLOCK__bytes, piece);
    set(made, BLOCK__space, memory);
    set(made, BLOCK_is_counted, Py_False);
    set(made, BLOCK_device, l->device);
    set(made, BLOCK_stream, stream);
    set(made, BLOCK_location, location);
    set(made, BLOCK_has_void, Py_True);
    SET_ALL(made, Py_None, BLOCK__data, BLOCK__pointer, BLOCK_left, BLOCK_value_flags, BLOCK_accesses, BLOCK_last_owner);
    return made;
}

/* The owner of a new block, as `Allocation`, and the block's bytes counted as used; takes the reference to the block. */
static PyObject *new_allocation(PyObject *block)
{
    PyObject *made = block ? PyType_GenericAlloc(sim.types[ALLOCATION], 0) : NULL;
    if (!made) {
        Py_XDECREF(block);
        return NULL;
    }
    put(made, ALLOCATION_block, block);
    set(made, ALLOCATION__deaths, SLOT(SLOT(sim.machine, MACHINE_lifetimes), LIFETIMES_deaths));
    put(made, ALLOCATION_users, PyDict_New());
    put(made, ALLOCATION_events, PyDict_New());
    if (PyErr_Occurred() || !count_bytes(block, number_in(block, BLOCK_nbytes)))
        Py_CLEAR(made);
    return made;
}

/* Whether an action has an own stream and is not yet known to the host. */
static int is_at_work(PyObject *action, PyObject *stream, PyObject *clock)
{
    PyObject *known = PyDict_GetItemWithError(clock, SLOT(stream, STREAM_key));
    return SLOT(action, OPERATION_participant) == stream && (known ? PyLong_AsLongLong(known) : 0) < number_in(action, OPERATION_tick);
}

/* The last owner of recycled memory, as `Pool.take`; None where the memory is new. */
static PyObject *take_owner(const launch *l, PyObject *stream)
{
    PyObject *pool = SLOT(stream, STREAM_pool), *freed = SLOT(pool, POOL__freed), *last, *owner, *users, *size;
    PyObject *clock = SLOT(SLOT(SLOT(sim.machine, MACHINE_hosts), HOSTS_main), STREAM_clock);
    Py_ssize_t count = PyList_Size(freed);
    if (!count)
        return Py_NewRef(Py_None);
    last = PyList_GetItem(freed, count - 1);
    owner = PyTuple_GetItem(last, 1);
    users = PyTuple_GetItem(owner, 0);
    if (PyLong_AsLongLong(PyTuple_GetItem(last, 0)) == (l->new_nbytes + POOL_UNIT - 1) / POOL_UNIT * POOL_UNIT && PyTuple_Size(users) == 1 &&
        SLOT(stream, STREAM_is_retired) == Py_False && is_at_work(PyTuple_GetItem(users, 0), stream, clock)) {
        Py_INCREF(owner);
        if (PyList_SetSlice(freed, count - 1, count, NULL))
            Py_CLEAR(owner);
        return owner;
    }
    size = PyLong_FromLongLong(l->new_nbytes);
    owner = size ? CALL(pool, take, size, clock) : NULL;
    Py_XDECREF(size);
    return owner;
}

/* Whether no other participant has used the memory of a last owner. */
static int is_of_stream(PyObject *owner, PyObject *stream)
{
    PyObject *users = owner == Py_None ? sim.nothing : PyTuple_GetItem(owner, 0);
    for (Py_ssize_t i = 0; i < PyTuple_Size(users); ++i)
        if (SLOT(PyTuple_GetItem(users, i), OPERATION_participant) != stream)
            return 0;
    return 1;
}

/* What comes before the next operation of a stream, as `Machine.order`, with the host's and the stream's time. */
static PyObject *order(PyObject *stream, PyObject *host)
{
    PyObject *seen, *last_wait = SLOT(stream, STREAM_last_wait);
    if (PyObject_Size(SLOT(stream, STREAM_others)) || PyDict_Size(SLOT(stream, STREAM_awaited)))
        return CALL(sim.machine, order, stream, host);
    seen = PyDict_GetItemWithError(SLOT(stream, STREAM__seen), SLOT(host, STREAM_key));
    if ((!seen || PyLong_AsLongLong(seen) != number_in(host, STREAM_version)) && !is_done(CALL(stream, join, host)))
        return NULL;
    if (number_in(stream, STREAM_time_ps) < number_in(host, HOST_time_ps))
        set(stream, STREAM_time_ps, SLOT(host, HOST_time_ps));
    return last_wait == Py_None ? PyTuple_Pack(1, SLOT(stream, STREAM_tail)) : PyTuple_Pack(2, SLOT(stream, STREAM_tail), last_wait);
}

/* A new operation, as `Operation`: the next action of a stream. */
static PyObject *new_operation(const launch *l, PyObject *stream, PyObject *run, PyObject *called_at, int is_repeatable)
{
    PyObject *made = PyType_GenericAlloc(sim.types[OPERATION], 0), *clock = SLOT(stream, STREAM_clock), *key = SLOT(stream, STREAM_key), *tick;
    if (!made)
        return NULL;
    set(made, OPERATION_name, l->name);
    set(made, OPERATION_participant, stream);
    set(made, OPERATION_location, PyTuple_GetItem(called_at, 0));
    set(made, OPERATION_call, PyTuple_GetItem(called_at, 1));
    set(made, OPERATION_run, run);
    set(made, OPERATION_serial, sim.zero);
    set(made, OPERATION_is_repeatable, is_repeatable ? Py_True : Py_False);
    SET_ALL(made, sim.nothing, OPERATION_arguments, OPERATION_before);
    SET_ALL(made, Py_None, OPERATION_around, OPERATION_take, OPERATION_source, OPERATION_target);
    SET_ALL(made, Py_False, OPERATION_has_host_memory, OPERATION_has_failed, OPERATION_is_computed, OPERATION__is_done);
    tick = PyDict_GetItemWithError(clock, key);
    tick = tick ? PyLong_FromLongLong(PyLong_AsLongLong(tick) + 1) : NULL;
    if (!tick || !put_number(stream, STREAM_version, number_in(stream, STREAM_version) + 1) || PyDict_SetItem(clock, key, tick)) {
        Py_XDECREF(tick);
        Py_DECREF(made);
        return NULL;
    }
    put(made, OPERATION_tick, tick);
    return made;
}

/* --- the accesses */

/* The bytes of an array in its block. */
typedef struct {
    PyObject *block, *form;
    long long start, stop;
} bytes_used;

enum { WHOLE_BLOCK, PART_OF_BLOCK, BY_PYTHON }; /* how an access is remembered */

/* The accesses of a stream, where a history has those of no other participant: borrowed, or NULL. */
static PyObject *only_accesses(PyObject *history, PyObject *stream)
{
    PyObject *all = SLOT(history, HISTORY__accesses), *found;
    if (PyDict_Size(all) != 1)
        return NULL;
    found = PyDict_GetItemWithError(all, SLOT(stream, STREAM_key));
    return found && number_in(history, HISTORY__count) < number_in(history, HISTORY__long) ? found : NULL;
}

/* How an access to bytes of a block that follows all others is remembered. */
static int choose(const bytes_used *used, PyObject *stream, int is_read)
{
    PyObject *accesses = SLOT(used->block, BLOCK_accesses);
    int is_whole = used->form == Py_None && used->stop - used->start >= number_in(used->block, BLOCK_nbytes);
    if (is_whole && (!is_read || (PyTuple_CheckExact(accesses) && SLOT(PyTuple_GetItem(accesses, 1), OPERATION_participant) == stream)))
        return WHOLE_BLOCK;
    if (Py_TYPE(accesses) == sim.types[HISTORY] && only_accesses(accesses, stream) && (is_read || SLOT(used->block, BLOCK_has_void) == Py_False))
        return PART_OF_BLOCK;
    return BY_PYTHON;
}

/* Whether an access to an array follows all others, and which bytes it has: 1, 0 where only Python can tell, -1 with an error. */
static int look(PyObject *array, PyObject *stream, PyObject *operation, int is_read, bytes_used *used)
{
    PyObject *kind = SLOT(array, ARRAY_kind), *block = block_of(array), *accesses, *answer;
    long long offset;
    int is_clear;
    if (!block || kind == Py_None || (is_read && SLOT(block, BLOCK_has_void) != Py_False))
        return 0;
    if ((offset = offset_of(array)) < 0)
        return -1;
    *used = (bytes_used){block, SLOT(kind, KIND_form), offset + number_in(kind, KIND_start), offset + number_in(kind, KIND_stop)};
    if (used->start >= used->stop)
        return 0;
    accesses = SLOT(block, BLOCK_accesses);
    if ((PyTuple_CheckExact(accesses) && SLOT(PyTuple_GetItem(accesses, 1), OPERATION_participant) == stream) ||
        (Py_TYPE(accesses) == sim.types[HISTORY] && only_accesses(accesses, stream)))
        return 1;
    answer = CALL(block, is_clear, operation, SLOT(stream, STREAM_clock));
    is_clear = answer == Py_True;
    return is_done(answer) ? is_clear : -1;
}

/* The key of bytes among the accesses to a block. */
static PyObject *name_region(const bytes_used *used, PyObject *is_write)
{
    PyObject *start = PyLong_FromLongLong(used->start), *stop = PyLong_FromLongLong(used->stop);
    PyObject *made = start && stop ? PyTuple_Pack(4, start, stop, used->form, is_write) : NULL;
    Py_XDECREF(start);
    Py_XDECREF(stop);
    return made;
}

/* As `Block.note`, of a part of a block that one stream alone has used; whether that was possible. */
static int note_part(const bytes_used *used, PyObject *stream, PyObject *operation, int is_read)
{
    PyObject *history = SLOT(used->block, BLOCK_accesses), *accesses = only_accesses(history, stream), *regions = SLOT(accesses, ACCESSES_regions);
    PyObject *region = name_region(used, is_read ? Py_False : Py_True), *read = NULL;
    Py_ssize_t before = PyDict_Size(regions);
    long long more = 0;
    int state = region ? PyDict_Contains(regions, region) : -1;
    set(accesses, ACCESSES_latest, operation);
    if (state > 0 && PyDict_DelItem(regions, region)) /* the last one is at the end */
        state = -1;
    if (state >= 0 && PyDict_SetItem(regions, region, operation))
        state = -1;
    more = PyDict_Size(regions) - before;
    if (state >= 0 && !is_read && PyDict_Size(regions) > 1) { /* the write stands for the read too */
        read = name_region(used, Py_False);
        state = read ? PyDict_Contains(regions, read) : -1;
        if (state > 0) {
            more -= 1;
            state = PyDict_DelItem(regions, read);
        }
    }
    Py_XDECREF(read);
    Py_XDECREF(region);
    return state >= 0 && (!more || put_number(history, HISTORY__count, number_in(history, HISTORY__count) + more));
}

static int note_whole(PyObject *block, PyObject *operation, int is_read)
{
    PyObject *accesses = SLOT(block, BLOCK_accesses), *made = PyTuple_Pack(2, is_read ? PyTuple_GetItem(accesses, 0) : operation, operation);
    if (!made)
        return 0;
    put(block, BLOCK_accesses, made);
    if (!is_read) {
        set(block, BLOCK_has_void, Py_False);
        set(block, BLOCK_value_flags, Py_None);
    }
    return 1;
}

/* Remember accesses that come after all others to the same memory: 1, 0 and nothing done for any other, -1 with an error
   set. */
static int note_plain(const launch *l, PyObject *const *given, PyObject *stream, PyObject *operation, PyObject *made)
{
    bytes_used used[MOST_ARGUMENTS];
    for (int i = 0, state; i < l->uses; ++i)
        if ((state = look(given[l->places[i]], stream, operation, i < l->reads, &used[i])) <= 0)
            return state;
    for (int i = 0, is_noted; i < l->uses; ++i) {
        int is_read = i < l->reads, how = choose(&used[i], stream, is_read);
        if (how == BY_PYTHON)
            is_noted = is_done(CALL(l->accesses, note, given[l->places[i]], operation, is_read ? Py_False : Py_True));
        else
            is_noted = how == WHOLE_BLOCK ? note_whole(used[i].block, operation, is_read) : note_part(&used[i], stream, operation, is_read);
        if (!is_noted)
            return -1;
    }
    if (made) {
        PyObject *block = block_of(made), *accesses = PyTuple_Pack(2, operation, operation);
        if (!accesses)
            return -1;
        put(block, BLOCK_accesses, accesses);
        set(block, BLOCK_has_void, Py_False);
    }
    return 1;
}

/* --- an enqueue */

/* The new array of a launch, in memory whose last owner is `*owner`, None where it has none. */
static PyObject *make_result(const launch *l, PyObject *stream, PyObject *location, PyObject **owner)
{
    PyObject *allocation = new_allocation(new_block(l, stream, location)), *block, *memory, *made = NULL;
    *owner = allocation ? take_owner(l, stream) : NULL;
    if (*owner) {
        block = SLOT(allocation, ALLOCATION_block);
        memory = over(SLOT(block, BLOCK__bytes), ((ndarray *)SLOT(block, BLOCK__bytes))->data + number_in(block, BLOCK__at), l->dtype, l->axes,
                      l->extents, l->strides);
        made = memory ? new_view(allocation, l->kind, memory, Py_None, Py_True) : NULL;
        Py_XDECREF(memory);
        if (!made)
            Py_CLEAR(*owner);
    }
    Py_XDECREF(allocation);
    return made;
}

/* `run` on the memory of the arguments and of the new array. */
static PyObject *bind_run(PyObject *run, PyObject *const *given, Py_ssize_t count, PyObject *made)
{
    PyObject *operands = PyTuple_New(count + (made != NULL)), *found = NULL;
    for (Py_ssize_t i = 0; operands && i < count + (made != NULL); ++i) {
        PyObject *one = i < count ? given[i] : made;
        one = is_array(one) ? memory_of(one) : Py_NewRef(one);
        if (!one)
            Py_CLEAR(operands);
        else
            PyTuple_SetItem(operands, i, one);
    }
    if (operands)
        found = PyObject_CallFunctionObjArgs(sim.partial, run, operands, NULL);
    Py_XDECREF(operands);
    return found;
}

/* Put an operation behind others, as `Engine.order`. */
static int order_operation(PyObject *engine, PyObject *operation, PyObject *after)
{
    PyObject *kept[MOST_ARGUMENTS], *before = NULL;
    Py_ssize_t count = PySequence_Size(after), found = 0;
    if (count > MOST_ARGUMENTS || PyList_Check(after))
        return is_done(CALL(engine, order, operation, after));
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject *one = PyTuple_GetItem(after, i), *answer;
        if (one == Py_None || SLOT(one, OPERATION__is_done) == Py_True)
            continue;
        if (SLOT(one, OPERATION_run) == Py_None) {
            answer = ATTRIBUTE(one, is_done);
            if (!is_done(answer))
                return 0;
            if (answer == Py_True)
                continue;
        }
        kept[found++] = one;
    }
    before = xf_pack(kept, found);
    if (!before || !put_number(engine, ENGINE_serial, number_in(engine, ENGINE_serial) + 1)) {
        Py_XDECREF(before);
        return 0;
    }
    set(operation, OPERATION_serial, SLOT(engine, ENGINE_serial));
    put(operation, OPERATION_before, before);
    return 1;
}

/* Run a kernel on the virtual clock, as `Timeline.add_kernel`. */
static int add_time(const launch *l, PyObject *stream)
{
    PyObject *timeline = SLOT(sim.machine, MACHINE_timeline), *busy = SLOT(timeline, TIMELINE__busy_until_ps), *costs, *until, *end;
    long long start;
    double speed, latency;
    if (SLOT(timeline, TIMELINE__keeps) != Py_False || PyDict_Size(SLOT(timeline, TIMELINE_slowed))) {
        PyObject *nbytes = PyLong_FromLongLong(l->nbytes), *method = ATTRIBUTE(timeline, add_kernel);
        end = nbytes && method ? PyObject_CallFunctionObjArgs(method, l->lane, nbytes, SLOT(stream, STREAM_key), l->name, SLOT(stream, STREAM_time_ps), NULL)
                               : NULL;
        Py_XDECREF(nbytes);
        Py_XDECREF(method);
    } else {
        costs = SLOT(timeline, TIMELINE__kernels);
        speed = PyFloat_AsDouble(PyTuple_GetItem(costs, 0));
        latency = PyFloat_AsDouble(PyTuple_GetItem(costs, 1));
        until = PyDict_GetItemWithError(busy, l->lane);
        start = until ? PyLong_AsLongLong(until) : 0;
        if (start < number_in(stream, STREAM_time_ps))
            start = number_in(stream, STREAM_time_ps);
        end = PyLong_FromLongLong(start + llrint((double)l->nbytes * 1e12 / speed + latency));
        if (end && PyDict_SetItem(busy, l->lane, end))
            Py_CLEAR(end);
    }
    if (end)
        put(stream, STREAM_time_ps, end);
    return end != NULL;
}

/* Let the schedule carry out an operation from now on, as `Engine.add`. */
static int add_operation(PyObject *engine, PyObject *schedule, PyObject *operation)
{
    PyObject *flight = SLOT(engine, ENGINE__in_flight), *is_eager;
    if (PyDict_SetItem(flight, operation, Py_None) || !(is_eager = ATTRIBUTE(schedule, is_eager)))
        return 0;
    Py_DECREF(is_eager);
    return (is_eager == Py_False && PyDict_Size(flight) <= number_in(engine, ENGINE_most_pending)) || is_done(CALL(engine, add, operation));
}

/* Order, check and remember an operation, until it is the last one of its stream: whether that was done. */
static int enter(const launch *l, PyObject *const *given, Py_ssize_t count, PyObject *stream, PyObject *operation, PyObject *after, PyObject *made,
                 PyObject *owner)
{
    int state = is_of_stream(owner, stream) ? note_plain(l, given, stream, operation, made) : 0;
    if (!state) {
        PyObject *arguments = xf_pack(given, count), *results = xf_pack(&made, made != NULL), *check = ATTRIBUTE(l->accesses, check);
        PyObject *owners = owner == Py_None ? PyTuple_New(0) : Py_BuildValue("((OO))", block_of(made), owner);
        state = check && arguments && results && owners &&
                        is_done(PyObject_CallFunctionObjArgs(check, operation, stream, arguments, results, owners, NULL)) ? 1 : -1;
        Py_XDECREF(arguments);
        Py_XDECREF(results);
        Py_XDECREF(owners);
        Py_XDECREF(check);
    }
    if (state < 0 || !order_operation(SLOT(sim.machine, MACHINE_engine), operation, after)) {
        if (SLOT(stream, STREAM_tail) != operation) /* it will not be carried out: no later access can conflict with it */
            set(operation, OPERATION_tick, sim.zero);
        return 0;
    }
    set(stream, STREAM_tail, operation);
    return 1;
}

/* Whether the memory of a new array fits on its device; -1 with an error set. */
static int fits(const launch *l)
{
    PyObject *limit = ATTRIBUTE(SLOT(sim.machine, MACHINE_settings), memory_nbytes);
    PyObject *used = PyDict_GetItemWithError(SLOT(SLOT(sim.machine, MACHINE_memory), MEMORY_used), PyTuple_GetItem(l->lane, 0));
    long long most = limit ? PyLong_AsLongLong(limit) : -1;
    Py_XDECREF(limit);
    return PyErr_Occurred() ? -1 : (used ? PyLong_AsLongLong(used) : 0) + l->new_nbytes <= most;
}

static int add_to_time(PyObject *host, PyObject *timeline)
{
    return put_number(host, HOST_time_ps, number_in(host, HOST_time_ps) + number_in(timeline, TIMELINE_enqueue_ps));
}

/* The new array, None where there is none, or NotImplemented with nothing done but collected objects freed. */
static PyObject *enqueue_locked(const launch *l, PyObject *const *given, Py_ssize_t count, PyObject *run, PyObject *called_at, PyObject *stream)
{
    PyObject *machine = sim.machine, *lifetimes = SLOT(machine, MACHINE_lifetimes), *engine = SLOT(machine, MACHINE_engine);
    PyObject *schedule = SLOT(engine, ENGINE_schedule), *detector = SLOT(machine, MACHINE_detector), *timeline = SLOT(machine, MACHINE_timeline);
    PyObject *host = SLOT(SLOT(machine, MACHINE_hosts), HOSTS_main), *made = NULL, *owner = Py_NewRef(Py_None), *after = NULL, *bound = NULL, *operation = NULL;
    int state, is_entered = 0;
    if (PyObject_Size(SLOT(lifetimes, LIFETIMES_deaths)) && free_collected(schedule))
        goto end;
    if ((state = l->kind ? fits(l) : 1) < 0)
        goto end;
    if (!state || SLOT(detector, DETECTOR_is_on) != Py_True || PyList_Size(SLOT(detector, DETECTOR_postponed)) ||
        PyObject_Size(SLOT(lifetimes, LIFETIMES_released)) || SLOT(stream, STREAM_recorded) != Py_None) {
        made = Py_NewRef(Py_NotImplemented);
        is_entered = 1;
        goto end;
    }
    if (l->kind) {
        Py_DECREF(owner);
        owner = NULL;
        if (!add_to_time(host, timeline) || !(made = make_result(l, stream, PyTuple_GetItem(called_at, 0), &owner)))
            goto end;
    }
    if (!(bound = bind_run(run, given, count, made)) || !add_to_time(host, timeline) || !(after = order(stream, host)) ||
        !(operation = new_operation(l, stream, bound, called_at, l->reads == l->uses)))
        goto end;
    is_entered = enter(l, given, count, stream, operation, after, made, owner) && add_time(l, stream) && add_operation(engine, schedule, operation);
end:
    Py_XDECREF(owner);
    Py_XDECREF(after);
    Py_XDECREF(bound);
    Py_XDECREF(operation);
    if (!is_entered)
        Py_CLEAR(made);
    return is_entered && !made ? Py_NewRef(Py_None) : made;
}

/* Keep the methods of the machine's lock, which a forked child makes anew. */
static int find_lock(PyObject *lock)
{
    PyObject *acquire = ATTRIBUTE(lock, acquire), *release = ATTRIBUTE(lock, release);
    if (!acquire || !release) {
        Py_XDECREF(acquire);
        Py_XDECREF(release);
        return 0;
    }
    replace(&sim.lock, Py_NewRef(lock));
    replace(&sim.acquire, acquire);
    replace(&sim.release, release);
    return 1;
}

/* As `PreparedLaunch.enqueue`: the new array, None where there is none, or NotImplemented with nothing done. */
static PyObject *enqueue(const launch *l, PyObject *const *given, Py_ssize_t count, PyObject *run, PyObject *called_at)
{
    PyObject *answer, *stream, *release, *found = NULL, *type, *value, *trace;
    int is_taken;
    if (l->machine != sim.machine || !is_unwatched(sim.machine) || !PyTuple_CheckExact(called_at))
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_NotImplemented);
    for (int i = 0; i < l->uses; ++i)
        if (l->places[i] >= count || !is_array(given[l->places[i]]))
            Py_RETURN_NOTIMPLEMENTED;
    if (SLOT(sim.machine, MACHINE_lock) != sim.lock && !find_lock(SLOT(sim.machine, MACHINE_lock)))
        return NULL;
    release = Py_NewRef(sim.release);
    answer = PyObject_Call(sim.acquire, sim.at_once, NULL); /* another thread that has it would need the GIL */
    is_taken = answer == Py_True;
    if (is_done(answer) && is_taken) {
        stream = Py_XNewRef(current_stream(l));
        if (stream)
            found = enqueue_locked(l, given, count, run, called_at, stream);
        Py_XDECREF(stream);
        PyErr_Fetch(&type, &value, &trace);
        if (!is_done(PyObject_CallNoArgs(release)))
            Py_CLEAR(found);
        if (type)
            PyErr_Restore(type, value, trace);
    } else if (answer) {
        found = Py_NewRef(Py_NotImplemented);
    }
    Py_DECREF(release);
    return found;
}

/* (arguments, run, (location, call)) -> the new array, None where there is none, or NotImplemented */
static PyObject *call_launch(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    const launch *l = PyCapsule_GetPointer(self, NULL);
    PyObject *arguments[MOST_ARGUMENTS];
    Py_ssize_t length;
    if (!l || count != 3)
        return PyErr_Format(PyExc_TypeError, "a launch takes its arguments, what computes, and where it is called");
    if ((length = PySequence_Size(given[0])) < 0 || length > MOST_ARGUMENTS || !(PyTuple_CheckExact(given[0]) || PyList_CheckExact(given[0])))
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_NotImplemented);
    for (Py_ssize_t i = 0; i < length; ++i)
        arguments[i] = PyTuple_CheckExact(given[0]) ? PyTuple_GetItem(given[0], i) : PyList_GetItem(given[0], i);
    return enqueue(l, arguments, length, given[1], given[2]);
}

/* --- calls that come to one launch */

/* (whether of floats, the least, the greatest): whether it is such. */
static int read_plain(PyObject *tuple, plain_numbers *to)
{
    if ((to->is_float = PyTuple_GetItem(tuple, 0) == Py_True)) {
        to->low = PyFloat_AsDouble(PyTuple_GetItem(tuple, 1));
        to->high = PyFloat_AsDouble(PyTuple_GetItem(tuple, 2));
    } else {
        to->least = PyLong_AsLongLong(PyTuple_GetItem(tuple, 1));
        to->most = PyLong_AsLongLong(PyTuple_GetItem(tuple, 2));
    }
    return !PyErr_Occurred();
}

static int takes_number(const plain_numbers *of, PyObject *value)
{
    int is_over = 0;
    long long number;
    if (of->is_float)
        return PyFloat_CheckExact(value) && !(PyFloat_AsDouble(value) < of->low || PyFloat_AsDouble(value) > of->high);
    number = PyLong_CheckExact(value) ? PyLong_AsLongLongAndOverflow(value, &is_over) : 0;
    return PyLong_CheckExact(value) && !is_over && number >= of->least && number <= of->most;
}

/* The number that a dtype makes of one that is given, as a float or an integer; NULL, with no error set, where Python has to tell. */
static PyObject *convert_plain(PyObject *bounds, PyObject *value)
{
    plain_numbers of, whole = {.least = -(1LL << 53), .most = 1LL << 53};
    PyObject *made = NULL;
    if (bounds == Py_None || !read_plain(bounds, &of))
        return NULL;
    if (of.is_float && takes_number(&whole, value))
        made = PyFloat_FromDouble((double)PyLong_AsLongLong(value));
    else
        made = Py_NewRef(value);
    if (made && !takes_number(&of, made))
        Py_CLEAR(made);
    return made;
}

/* Whether two arrays certainly share no byte. */
static int lie_apart(PyObject *one, PyObject *two)
{
    PyObject *block = block_of(one), *own = SLOT(one, ARRAY_kind), *other = SLOT(two, ARRAY_kind);
    if (!block || block != block_of(two))
        return block != NULL;
    if (own == Py_None || other == Py_None)
        return 0;
    const long long at = offset_of(one), place = offset_of(two);
    if (at < 0 || place < 0) {
        PyErr_Clear();
        return 0;
    }
    return at + number_in(own, KIND_stop) <= place + number_in(other, KIND_start) ||
           place + number_in(other, KIND_stop) <= at + number_in(own, KIND_start);
}

static PyObject *repeat(const known_call *c, PyObject *const *given, Py_ssize_t count, PyObject *called_at)
{
    PyObject *found = NULL, *arguments;
    int is_simple = 1, is_aliased = 0;
    for (int i = 0; i < c->pairs && is_simple; ++i) {
        PyObject *one = given[c->apart[i][0]], *two = given[c->apart[i][1]];
        if (one == two && c->apart[i][2])
            is_aliased = 1;
        else
            is_simple = is_array(one) && is_array(two) && lie_apart(one, two);
    }
    for (int i = 0; i < c->scalars && is_simple; ++i)
        is_simple = takes_number(&c->numbers[i], given[c->numbers[i].place]);
    found = is_simple ? enqueue(c->of, given, count, c->runs[is_aliased], called_at) : Py_NewRef(Py_NotImplemented);
    if (found == Py_NotImplemented) {
        Py_DECREF(found);
        arguments = xf_pack(given, count);
        found = arguments ? PyObject_CallFunctionObjArgs(c->python, arguments, called_at, NULL) : NULL;
        Py_XDECREF(arguments);
    } else if (found && c->result >= 0) {
        Py_DECREF(found);
        found = Py_NewRef(given[c->result]);
    }
    return found;
}

/* Call what a form of call has come to: one of the calls here at once. */
static PyObject *repeat_any(PyObject *repeated, PyObject *const *given, Py_ssize_t count, PyObject *called_at);

/* (arguments, (location, call)) -> the result, or NotImplemented where Python has to say what is wrong */
static PyObject *call_known(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    const known_call *c = PyCapsule_GetPointer(self, NULL);
    PyObject *arguments[MOST_ARGUMENTS], *tuple, *found = NULL;
    Py_ssize_t length;
    if (!c || count != 2)
        return PyErr_Format(PyExc_TypeError, "a call takes its arguments, and where it is called");
    tuple = PySequence_Tuple(given[0]);
    if (!tuple)
        return NULL;
    length = PyTuple_Size(tuple);
    for (Py_ssize_t i = 0; i < length && i < MOST_ARGUMENTS; ++i)
        arguments[i] = PyTuple_GetItem(tuple, i);
    if (length > MOST_ARGUMENTS)
        found = Py_NewRef(Py_NotImplemented);
    else
        found = repeat(c, arguments, length, given[1]);
    Py_DECREF(tuple);
    return found;
}

/* --- calls that come to several launches, or to views */

typedef struct {
    PyObject *kept, *steps, *result;
} known_steps;

/* An array over a part of another one, as `KnownView.over`. */
static PyObject *part_of(PyObject *view, PyObject *array)
{
    long long offset = offset_of(array);
    PyObject *place = offset < 0 ? NULL : PyLong_FromLongLong(offset + PyLong_AsLongLong(PyTuple_GetItem(view, 1)));
    PyObject *made = place ? new_view(SLOT(array, ARRAY_allocation), PyTuple_GetItem(view, 2), Py_None, place, Py_None) : NULL;
    Py_XDECREF(place);
    return made;
}

/* An argument of a call, or what one of its steps has made: borrowed. */
static PyObject *at_place(PyObject *place, PyObject *args, PyObject *const *made)
{
    Py_ssize_t number = PyLong_AsSsize_t(place);
    return number >= 0 ? PyTuple_GetItem(args, number) : made[~number];
}

/* An argument of a step, or the result; NULL with an error set where a number cannot be converted. */
static PyObject *take_source(PyObject *source, PyObject *args, PyObject *const *made, Py_ssize_t count)
{
    if (PyLong_CheckExact(source))
        return Py_XNewRef(at_place(source, args, made));
    if (Py_TYPE(source) == (PyTypeObject *)sim.view_type)
        return part_of(source, at_place(PyTuple_GetItem(source, 0), args, made));
    if (Py_TYPE(source) == (PyTypeObject *)sim.number_type) {
        PyObject *number = convert_plain(PyTuple_GetItem(source, 2), PyTuple_GetItem(args, PyLong_AsSsize_t(PyTuple_GetItem(source, 0))));
        if (number || PyErr_Occurred())
            return number;
    }
    PyObject *results = xf_pack(made, count), *found = results ? PyObject_CallFunctionObjArgs(sim.take, source, args, results, NULL) : NULL;
    Py_XDECREF(results);
    return found;
}

/* One step: its result, or NotImplemented. */
static PyObject *make_step(PyObject *step, PyObject *args, PyObject *const *made, Py_ssize_t number, PyObject *called_at)
{
    PyObject *sources = PyTuple_GetItem(step, 1), *given[MOST_ARGUMENTS], *found = NULL;
    Py_ssize_t count = PyTuple_Size(sources), taken = 0;
    while (taken < count && (given[taken] = take_source(PyTuple_GetItem(sources, taken), args, made, number)))
        ++taken;
    if (taken == count) {
        found = repeat_any(PyTuple_GetItem(step, 0), given, count, called_at);
    } else if (PyErr_ExceptionMatches(PyExc_Exception)) {
        PyErr_Clear();
        found = Py_NewRef(Py_NotImplemented);
    }
    while (taken--)
        Py_DECREF(given[taken]);
    return found;
}

static PyObject *repeat_steps(const known_steps *k, PyObject *args, PyObject *called_at)
{
    PyObject *made[MOST_ARGUMENTS], *found = Py_NewRef(Py_None);
    Py_ssize_t steps = PyTuple_Size(k->steps), count = 0;
    while (count < steps && found && found != Py_NotImplemented) {
        Py_DECREF(found);
        found = make_step(PyTuple_GetItem(k->steps, count), args, made, count, called_at);
        if (found && found != Py_NotImplemented)
            made[count++] = Py_NewRef(found);
    }
    if (found && found != Py_NotImplemented) {
        Py_DECREF(found);
        found = k->result == Py_None ? Py_NewRef(Py_None) : take_source(k->result, args, made, count);
    }
    while (count--)
        Py_DECREF(made[count]);
    return found;
}

/* (arguments, (location, call)) -> the result, or NotImplemented where the function itself has to be called */
static PyObject *call_steps(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    const known_steps *k = PyCapsule_GetPointer(self, NULL);
    PyObject *args, *found;
    if (!k || count != 2)
        return PyErr_Format(PyExc_TypeError, "a call takes its arguments, and where it is called");
    args = PySequence_Tuple(given[0]);
    found = args ? repeat_steps(k, args, given[1]) : NULL;
    Py_XDECREF(args);
    return found;
}

static PyMethodDef launch_method = {"launch", FAST(call_launch)};
static PyMethodDef call_of_launch = {"repeat", FAST(call_known)};
static PyMethodDef steps_method = {"repeat", FAST(call_steps)};

static PyObject *repeat_any(PyObject *repeated, PyObject *const *given, Py_ssize_t count, PyObject *called_at)
{
    PyObject *arguments, *found;
    if (PyCFunction_Check(repeated) && PyCFunction_GetFunction(repeated) == call_of_launch.ml_meth && count <= MOST_ARGUMENTS)
        return repeat(PyCapsule_GetPointer(PyCFunction_GetSelf(repeated), NULL), given, count, called_at);
    arguments = xf_pack(given, count);
    found = arguments ? PyObject_CallFunctionObjArgs(repeated, arguments, called_at, NULL) : NULL;
    Py_XDECREF(arguments);
    return found;
}

/* --- functions of the namespace */

enum { BY_VALUES, BY_TYPES, OF_ASSIGNMENT }; /* what the key of a call is made of */
enum { MOST_KEYS = 64 };

typedef struct {
    PyObject *kept, *table, *name;
    int keys;
} operation;

/* A key that grows: references of its own. */
typedef struct {
    PyObject *parts[MOST_KEYS];
    Py_ssize_t count;
} key;

static int add_part(key *k, PyObject *part) /* takes the reference */
{
    if (!part || k->count == MOST_KEYS) {
        Py_XDECREF(part);
        return 0;
    }
    k->parts[k->count++] = part;
    return 1;
}

static PyObject *pack_key(key *k, int is_right)
{
    PyObject *made = is_right ? PyTuple_New(k->count) : NULL;
    for (Py_ssize_t i = 0; i < k->count; ++i)
        if (made)
            PyTuple_SetItem(made, i, k->parts[i]);
        else
            Py_DECREF(k->parts[i]);
    return made;
}

static int add_kind(key *k, PyObject *array)
{
    PyObject *kind = SLOT(array, ARRAY_kind);
    return add_part(k, kind != Py_None ? Py_NewRef(kind) : PyObject_CallFunctionObjArgs(sim.kind_of, array, NULL));
}

static int add_slice(key *k, PyObject *slice)
{
    PyObject *const parts[] = {names[NAME_start], names[NAME_stop], names[NAME_step]};
    int is_added = add_part(k, Py_NewRef((PyObject *)&PySlice_Type));
    for (int i = 0; i < 3 && is_added; ++i) {
        PyObject *bound = PyObject_GetAttr(slice, parts[i]);
        if (bound && !PyLong_CheckExact(bound) && bound != Py_None)
            Py_CLEAR(bound);
        is_added = add_part(k, bound);
    }
    return is_added;
}

static int add_values(key *k, PyObject *const *given, Py_ssize_t count);

/* The key of a tuple without arrays. */
static PyObject *key_of_tuple(PyObject *tuple)
{
    key inner = {{NULL}, 0};
    PyObject *parts[MOST_ARGUMENTS];
    Py_ssize_t count = PyTuple_Size(tuple);
    if (count > MOST_ARGUMENTS)
        return NULL;
    for (Py_ssize_t i = 0; i < count; ++i)
        if (is_array(parts[i] = PyTuple_GetItem(tuple, i)))
            return NULL;
    return pack_key(&inner, add_values(&inner, parts, count));
}

/* Add arrays and simple values, as `_make_key`; 0 for a call that is not repeated. */
static int add_values(key *k, PyObject *const *given, Py_ssize_t count)
{
    int is_added = 1;
    for (Py_ssize_t i = 0; i < count && is_added; ++i) {
        PyObject *one = given[i];
        if (is_array(one))
            is_added = add_kind(k, one);
        else if (PyLong_CheckExact(one))
            is_added = add_part(k, Py_NewRef(one));
        else if (one == Py_None || one == Py_Ellipsis || PyBool_Check(one) || PyUnicode_CheckExact(one) || Py_TYPE(one) == &PyType_Type)
            is_added = add_part(k, Py_NewRef((PyObject *)Py_TYPE(one))) && add_part(k, Py_NewRef(one));
        else if (Py_TYPE(one) == &PySlice_Type)
            is_added = add_slice(k, one);
        else if (PyTuple_CheckExact(one))
            is_added = add_part(k, key_of_tuple(one));
        else
            is_added = PyType_IsSubtype(Py_TYPE(one), (PyTypeObject *)sim.dtype_type) && add_part(k, Py_NewRef(sim.dtype_type)) &&
                       add_part(k, Py_NewRef(one)) && add_part(k, PyObject_GetAttrString(one, "char"));
    }
    return is_added;
}

/* Whether it is a list or a tuple with an array. */
static int holds_array(PyObject *value)
{
    int is_list = PyList_CheckExact(value);
    Py_ssize_t count = is_list ? PyList_Size(value) : PyTuple_CheckExact(value) ? PyTuple_Size(value) : 0;
    for (Py_ssize_t i = 0; i < count; ++i)
        if (is_array(is_list ? PyList_GetItem(value, i) : PyTuple_GetItem(value, i)))
            return 1;
    return 0;
}

/* The arguments with the items of lists and tuples of arrays in their place, as `_flatten`; `nested` notes where which of these were,
   or is NULL. NULL with an error set, or where there are too many. */
static PyObject *flatten(PyObject *args, PyObject **nested)
{
    PyObject *found[MOST_ARGUMENTS], *notes = NULL, *made = NULL;
    Py_ssize_t count = PyTuple_Size(args), all = 0;
    int is_right = count <= MOST_ARGUMENTS;
    *nested = NULL;
    for (Py_ssize_t i = 0; i < count && is_right && !notes; ++i)
        if (holds_array(PyTuple_GetItem(args, i)) && !(notes = PyList_New(0)))
            is_right = 0;
    if (is_right && !notes)
        return Py_NewRef(args);
    for (Py_ssize_t i = 0; i < count && is_right; ++i) {
        PyObject *one = PyTuple_GetItem(args, i), *items, *noted;
        if (!holds_array(one)) {
            if ((is_right = all < MOST_ARGUMENTS))
                found[all++] = Py_NewRef(one);
            continue;
        }
        items = PySequence_Tuple(one); /* of its own: a list may change */
        noted = items ? Py_BuildValue("(nOn)", i, Py_TYPE(one), PyTuple_Size(items)) : NULL;
        is_right = noted && !PyList_Append(notes, noted) && all + PyTuple_Size(items) <= MOST_ARGUMENTS;
        for (Py_ssize_t n = 0; is_right && n < PyTuple_Size(items); ++n)
            found[all++] = Py_NewRef(PyTuple_GetItem(items, n));
        Py_XDECREF(noted);
        Py_XDECREF(items);
    }
    if (is_right && (made = xf_pack(found, all)) && !(*nested = PyList_AsTuple(notes)))
        Py_CLEAR(made);
    while (all--)
        Py_DECREF(found[all]);
    Py_XDECREF(notes);
    return made;
}

static int add_types(key *k, PyObject *const *given, Py_ssize_t count)
{
    int is_added = 1;
    for (Py_ssize_t i = 0; i < count && is_added; ++i)
        is_added = is_array(given[i]) ? add_kind(k, given[i]) : add_part(k, Py_NewRef((PyObject *)Py_TYPE(given[i])));
    return is_added;
}

/* Add the pairs of arrays of one allocation, as `_find_shared`. */
static int add_shared(key *k, PyObject *const *given, Py_ssize_t count)
{
    PyObject *arrays[MOST_ARGUMENTS];
    Py_ssize_t found = 0;
    int is_added = 1, has_any = 0;
    for (Py_ssize_t i = 0; i < count; ++i)
        if (is_array(given[i]))
            arrays[found++] = given[i];
    for (Py_ssize_t two = 1; two < found; ++two)
        for (Py_ssize_t one = 0; one < two && is_added; ++one)
            if (SLOT(arrays[one], ARRAY_allocation) == SLOT(arrays[two], ARRAY_allocation)) {
                long long first = offset_of(arrays[one]), second = offset_of(arrays[two]);
                is_added = first >= 0 && second >= 0 && (has_any || add_part(k, Py_NewRef((PyObject *)sim.types[ARRAY]))) &&
                           add_part(k, Py_BuildValue("(nnL)", one, two, second - first));
                has_any = 1;
            }
    return is_added;
}

static int is_number(PyObject *value)
{
    return PyFloat_CheckExact(value) || PyLong_CheckExact(value) || Py_TYPE(value) == &PyComplex_Type || PyBool_Check(value);
}

/* The key of a call, as `KnownCalls.find_key` makes it; NULL for one that is not repeated, or with an error set. */
static PyObject *make_key(const operation *o, PyObject *args, PyObject *nested, PyObject *options)
{
    PyObject *given[MOST_ARGUMENTS], *name, *value;
    Py_ssize_t count = PyTuple_Size(args), place = 0, own = count, all;
    key k = {{NULL}, 0};
    int is_right, ends_in_number;
    if (count + PyDict_Size(options) > MOST_ARGUMENTS || (o->keys == BY_TYPES && PyDict_Size(options)))
        return NULL;
    for (Py_ssize_t i = 0; i < count; ++i)
        given[i] = PyTuple_GetItem(args, i);
    all = count;
    while (PyDict_Next(options, &place, &name, &value))
        given[all++] = value;
    ends_in_number = o->keys == OF_ASSIGNMENT && all == count && count && is_number(given[count - 1]);
    own = all - ends_in_number;
    is_right = (o->keys == BY_TYPES ? add_types : add_values)(&k, given, own) && add_shared(&k, given, own);
    if (ends_in_number)
        is_right = is_right && add_part(&k, Py_NewRef((PyObject *)Py_TYPE(given[count - 1])));
    for (place = 0; is_right && PyDict_Next(options, &place, &name, &value);)
        is_right = add_part(&k, Py_NewRef(name));
    if (nested)
        is_right = is_right && add_part(&k, Py_NewRef(nested));
    return pack_key(&k, is_right);
}

/* Where a function with that name is called, as `call_from`. */
static PyObject *find_call(PyObject *frame, PyObject *name)
{
    PyObject *code = (PyObject *)PyFrame_GetCode((PyFrameObject *)frame), *file = ATTRIBUTE(code, co_filename), *offset, *location, *found = NULL;
    PyObject *is_ours = file ? PyDict_GetItemWithError(sim.is_ours, file) : NULL;
    if (is_ours == Py_False && file != sim.threading_file) {
        offset = ATTRIBUTE(frame, f_lasti);
        location = offset ? PyTuple_Pack(2, code, offset) : NULL;
        found = location ? PyTuple_Pack(2, location, name) : NULL;
        Py_XDECREF(offset);
        Py_XDECREF(location);
    } else if (!PyErr_Occurred()) {
        found = PyObject_CallFunctionObjArgs(sim.call_from, frame, name, NULL);
    }
    Py_DECREF(code);
    Py_XDECREF(file);
    return found;
}

static PyObject *repeat_known(const operation *o, PyObject *known, PyObject *args, PyObject *frame)
{
    PyObject *called_at, *given[MOST_ARGUMENTS], *found = NULL;
    Py_ssize_t count = PyTuple_Size(args);
    if (Py_TYPE(known) == (PyTypeObject *)sim.view_type)
        return part_of(known, PyTuple_GetItem(args, PyLong_AsSsize_t(PyTuple_GetItem(known, 0))));
    if (!(called_at = find_call(frame, o->name)))
        return NULL;
    if (PyCFunction_Check(known) && PyCFunction_GetFunction(known) == steps_method.ml_meth) {
        found = repeat_steps(PyCapsule_GetPointer(PyCFunction_GetSelf(known), NULL), args, called_at);
    } else {
        for (Py_ssize_t i = 0; i < count; ++i)
            given[i] = PyTuple_GetItem(args, i);
        found = repeat_any(known, given, count, called_at);
    }
    Py_DECREF(called_at);
    return found;
}

/* (arguments, options, the frame of the caller) -> the result, or NotImplemented where the function itself has to be called */
static PyObject *call_operation(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    const operation *o = PyCapsule_GetPointer(self, NULL);
    PyObject *args, *nested, *made, *known, *found = NULL;
    if (!o || count != 3 || !PyTuple_CheckExact(given[0]) || !PyDict_CheckExact(given[1]))
        return PyErr_Format(PyExc_TypeError, "an operation takes its arguments, its options, and the frame of its caller");
    args = flatten(given[0], &nested);
    made = args ? make_key(o, args, nested, given[1]) : NULL;
    known = made ? PyDict_GetItemWithError(o->table, made) : NULL;
    if (known) {
        Py_INCREF(known); /* which a full table may drop */
        found = repeat_known(o, known, args, given[2]);
        Py_DECREF(known);
    } else if (!PyErr_Occurred()) {
        found = Py_NewRef(Py_NotImplemented);
    }
    Py_XDECREF(made);
    Py_XDECREF(nested);
    Py_XDECREF(args);
    return found;
}

static PyMethodDef operation_method = {"operation", FAST(call_operation)};

/* --- what Python binds */

/* (machine, what has each thread's streams, NumPy's type and C API, the classes in the order of `enum`, `tuple.__new__` and
   `LastOwner`, `kind_of`, the files that are xferlib's or not, the file of `threading`, `call_from`, `functools.partial`, `_take`,
   `KnownView`, `ConvertedNumber` and `np.dtype`) -> None: from now on the functions here work on this machine */
PyObject *xf_set_simulator(PyObject *module, PyObject *arguments)
{
    PyObject *types, *numpy;
    (void)module;
    sim.zero = sim.zero ? sim.zero : PyLong_FromLong(0);
    sim.nothing = sim.nothing ? sim.nothing : PyTuple_New(0);
    sim.at_once = sim.at_once ? sim.at_once : PyTuple_Pack(1, Py_False);
    for (int i = 0; i < ALL_NAMES; ++i)
        names[i] = names[i] ? names[i] : PyUnicode_InternFromString(texts[i]);
    Py_XDECREF(sim.kept);
    sim.kept = Py_NewRef(arguments);
    sim.is_ready = 0;
    if (!PyArg_ParseTuple(arguments, "OOOOO!OOOO!OOOOOOO", &sim.machine, &sim.local, &sim.ndarray, &numpy, &PyTuple_Type, &types, &sim.make_owner,
                          &sim.owner_type, &sim.kind_of, &PyDict_Type, &sim.is_ours, &sim.threading_file, &sim.call_from, &sim.partial, &sim.take,
                          &sim.view_type, &sim.number_type, &sim.dtype_type) ||
        !xf_numpy_functions(numpy))
        return NULL;
    if (PyTuple_Size(types) != CLASSES || !find_slots(types))
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "there are %d classes", CLASSES);
    sim.is_ready = 1;
    Py_RETURN_NONE;
}

static int read_places(PyObject *given, int *places)
{
    Py_ssize_t count = PyTuple_Size(given);
    for (Py_ssize_t i = 0; i < count && i < MOST_ARGUMENTS; ++i)
        places[i] = (int)PyLong_AsLong(PyTuple_GetItem(given, i));
    return count <= MOST_ARGUMENTS ? (int)count : -1;
}

/* (machine, its `LaunchedAccesses`, name, device, key of its engine, its legacy stream, places of what is read, places of what is read and
   then of what is written, bytes in all, and (kind, dtype, shape, strides, bytes) of the new array or None) -> launch; None where
   C has no room for it */
PyObject *xf_bind_simulated_launch(PyObject *module, PyObject *arguments)
{
    launch *l;
    PyObject *reads, *uses, *new, *shape, *strides, *capsule;
    int ignored[MOST_ARGUMENTS], has_room = 0;
    (void)module;
    if (!sim.is_ready)
        Py_RETURN_NONE;
    if (!(l = xf_new_data(arguments, sizeof *l, xf_free_data, &capsule)))
        return NULL;
    if (PyArg_ParseTuple(arguments, "OOOOO!OO!O!LO", &l->machine, &l->accesses, &l->name, &l->device, &PyTuple_Type, &l->lane, &l->legacy, &PyTuple_Type, &reads,
                         &PyTuple_Type, &uses, &l->nbytes, &new)) {
        has_room = (l->reads = read_places(reads, ignored)) >= 0 && (l->uses = read_places(uses, l->places)) >= 0;
        if (has_room && new != Py_None &&
            PyArg_ParseTuple(new, "OOO!O!L", &l->kind, &l->dtype, &PyTuple_Type, &shape, &PyTuple_Type, &strides, &l->new_nbytes))
            has_room = (l->axes = read_sizes(shape, l->extents)) >= 0 && read_sizes(strides, l->strides) >= 0;
    }
    return xf_make_function(capsule, &launch_method, has_room);
}

/* (launch, what computes where no output is an input, and where one is, Python's way, pairs of places with whether they may be one
   array, places of numbers, each with which are taken as they are, place of the result or -1) -> repeat; None where C has no room for it */
PyObject *xf_bind_simulated_call(PyObject *module, PyObject *arguments)
{
    PyObject *of, *pairs, *numbers, *capsule;
    known_call *c = xf_new_data(arguments, sizeof *c, xf_free_data, &capsule);
    int has_room = 0;
    (void)module;
    if (!c)
        return NULL;
    if (PyArg_ParseTuple(arguments, "OOOOO!O!i", &of, &c->runs[0], &c->runs[1], &c->python, &PyTuple_Type, &pairs, &PyTuple_Type, &numbers,
                         &c->result) &&
        PyTuple_Size(pairs) <= MOST_ARGUMENTS && PyTuple_Size(numbers) <= MOST_ARGUMENTS) {
        has_room = (c->of = PyCapsule_GetPointer(PyCFunction_GetSelf(of), NULL)) != NULL;
        for (; has_room && c->scalars < PyTuple_Size(numbers); ++c->scalars) {
            PyObject *one = PyTuple_GetItem(numbers, c->scalars);
            c->numbers[c->scalars].place = (int)PyLong_AsLong(PyTuple_GetItem(one, 0));
            has_room = read_plain(PyTuple_GetItem(one, 1), &c->numbers[c->scalars]);
        }
        for (c->pairs = 0; has_room && c->pairs < PyTuple_Size(pairs); ++c->pairs)
            has_room = PyArg_ParseTuple(PyTuple_GetItem(pairs, c->pairs), "iip", &c->apart[c->pairs][0], &c->apart[c->pairs][1],
                                        &c->apart[c->pairs][2]);
    }
    return xf_make_function(capsule, &call_of_launch, has_room);
}

/* (steps, source of the result or None) -> repeat; a step is what repeats a call, and the sources of its arguments. None where C
   has no room for it */
PyObject *xf_bind_simulated_steps(PyObject *module, PyObject *arguments)
{
    known_steps *k;
    PyObject *capsule;
    int has_room = 0;
    (void)module;
    if (!sim.is_ready)
        Py_RETURN_NONE;
    if (!(k = xf_new_data(arguments, sizeof *k, xf_free_data, &capsule)))
        return NULL;
    if (PyArg_ParseTuple(arguments, "O!O", &PyTuple_Type, &k->steps, &k->result)) {
        has_room = PyTuple_Size(k->steps) <= MOST_ARGUMENTS;
        for (Py_ssize_t i = 0; has_room && i < PyTuple_Size(k->steps); ++i)
            has_room = PyTuple_Size(PyTuple_GetItem(PyTuple_GetItem(k->steps, i), 1)) <= MOST_ARGUMENTS;
    }
    return xf_make_function(capsule, &steps_method, has_room);
}

/* (table of known calls, name, what keys are made of) -> operation; None where the functions here have no machine */
PyObject *xf_bind_simulated_operation(PyObject *module, PyObject *arguments)
{
    operation *o;
    PyObject *capsule;
    (void)module;
    if (!sim.is_ready)
        Py_RETURN_NONE;
    if (!(o = xf_new_data(arguments, sizeof *o, xf_free_data, &capsule)))
        return NULL;
    PyArg_ParseTuple(arguments, "O!Ui", &PyDict_Type, &o->table, &o->name, &o->keys);
    return xf_make_function(capsule, &operation_method, 1);
}

/* Carry an operation out, once, as `Operation.carry_out`: no error strikes between its work and the note that it is done. */
static int carry_out(PyObject *simulated)
{
    PyObject *run = Py_NewRef(SLOT(simulated, OPERATION_run));
    int is_over = is_done(PyObject_CallFunctionObjArgs(run, NULL));
    Py_DECREF(run);
    if (is_over) {
        set(simulated, OPERATION__is_done, Py_True);
        set(simulated, OPERATION_run, Py_None);
        set(simulated, OPERATION_before, sim.nothing);
    }
    return is_over;
}

/* Whether an operation may run now, and nothing watches it. */
static int is_next(PyObject *simulated)
{
    PyObject *before = SLOT(simulated, OPERATION_before);
    Py_ssize_t count = PyTuple_Size(before);
    if (SLOT(simulated, OPERATION_run) == Py_None || SLOT(simulated, OPERATION_around) != Py_None)
        return 0;
    return !count || (count == 1 && SLOT(PyTuple_GetItem(before, 0), OPERATION__is_done) == Py_True);
}

/* Delete the first operations of a list, with an error set; NULL. */
static PyObject *leave_out(PyObject *operations, Py_ssize_t count)
{
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    if (PyList_SetSlice(operations, 0, count, NULL))
        PyErr_Clear();
    PyErr_Restore(kind, value, traceback);
    return NULL;
}

/* (list of operations, those in flight, `deferred`) -> how many from the first one on have been carried out: up to one that has to
   wait or that something watches, or to Ctrl-C. If one fails, those before it are done, and are no longer in the list; if a signal's
   handler raises behind one, nothing is, for none has failed. */
PyObject *xf_carry_out(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    Py_ssize_t done = 0;
    int is_noted = 0;
    (void)module;
    if (count != 3 || !PyList_CheckExact(given[0]) || !PyDict_CheckExact(given[1]))
        return PyErr_Format(PyExc_TypeError, "operations are carried out with those in flight and what notes Ctrl-C");
    for (; done < PyList_Size(given[0]) && !is_noted; ++done) {
        PyObject *simulated = Py_NewRef(PyList_GetItem(given[0], done)), *noted;
        int state = is_next(simulated) ? carry_out(simulated) : -1;
        if (state > 0 && (state = PyDict_Contains(given[1], simulated)) >= 0)
            state = (state && PyDict_DelItem(given[1], simulated)) ? 0 : 1;
        Py_DECREF(simulated);
        if (state < 0 && !PyErr_Occurred())
            break;
        if (state <= 0)
            return leave_out(given[0], done);
        if (PyErr_CheckSignals()) /* else the next operation would end, and be taken for what has failed */
            return leave_out(given[0], PyList_Size(given[0]));
        noted = ATTRIBUTE(given[2], is_noted);
        is_noted = noted != Py_False;
        if (!is_done(noted))
            return NULL;
    }
    return PyLong_FromSsize_t(done);
}
