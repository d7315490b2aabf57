/* What Python tells: the functions that C asks, the limits, the elements of arrays, the libraries, and the devices.

   xferlib/_api/replay.py gives them, by the names that stand in the lists here. */

#include "replay.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { NUMPY_ABI = 0x02000000, ABI_VERSION = 0, NEW_COPY = 85, NEW_FROM_DTYPE = 94, SET_BASE = 282 }; /* its table */

struct tables replay;

/* --- dictionaries, whose values go to the fields of a struct */

typedef struct {
    const char *name;
    size_t offset;
} field;

#define LENGTH(list) ((int)(sizeof(list) / sizeof *(list)))

static const field objects[] = {
    {"epoch", offsetof(struct tables, epoch)},         {"scopes", offsetof(struct tables, scopes)},
    {"scope", offsetof(struct tables, scope)},         {"may_replay", offsetof(struct tables, may_replay)},
    {"moves", offsetof(struct tables, moves)},         {"follow", offsetof(struct tables, follow)},
    {"settle", offsetof(struct tables, settle)},       {"register", offsetof(struct tables, register_)},
    {"resolve", offsetof(struct tables, resolve)},     {"to_device", offsetof(struct tables, to_device)},
    {"to_host", offsetof(struct tables, to_host)},     {"ndarray", offsetof(struct tables, ndarray)},
    {"device", offsetof(struct tables, device)},       {"stream", offsetof(struct tables, stream)},
    {"dtype", offsetof(struct tables, dtype)},         {"dtypes", offsetof(struct tables, dtypes)},
    {"swapped", offsetof(struct tables, swapped)},     {"memmap", offsetof(struct tables, memmap)},
    {"mmap", offsetof(struct tables, mmap)},           {"between", offsetof(struct tables, between)},
    {"result", offsetof(struct tables, result)},
};

static const field functions_of_library[] = {
    {"whole", offsetof(library, whole)},               {"is_negated", offsetof(library, is_negated)},
    {"is_conjugate", offsetof(library, is_conjugate)}, {"recording", offsetof(library, recording)},
    {"maker", offsetof(library, maker)},               {"note_write", offsetof(library, note_write)},
};

static const field functions_of_device[] = {
    {"empty", offsetof(device_entry, empty)},
    {"empty_on", offsetof(device_entry, empty_on)},
    {"empty_between", offsetof(device_entry, empty_between)},
    {"hold", offsetof(device_entry, hold)},
    {"pointer", offsetof(device_entry, pointer)},
    {"stream", offsetof(device_entry, stream)},
    {"is_current", offsetof(device_entry, is_current)},
    {"pinned", offsetof(device_entry, pinned)},
    {"scratch", offsetof(device_entry, scratch)},
    {"lease", offsetof(device_entry, lease)},
    {"free", offsetof(device_entry, free)},
    {"dead", offsetof(device_entry, dead)},
    {"pool", offsetof(device_entry, pool)},
    {"is_followed", offsetof(device_entry, is_followed)},
    {"stage_setup", offsetof(device_entry, staged.prepare)},
    {"stage_finish", offsetof(device_entry, staged.finish)},
    {"prepare", offsetof(device_entry, ways.prepare)},
};

static const field addresses_of_device[] = { /* of functions in C; one may be for both directions */
    {"send", offsetof(device_entry, up.copier.copy)},
    {"fetch", offsetof(device_entry, down.copier.copy)},
    {"enqueue", offsetof(device_entry, up.copier.enqueue)},
    {"fetch_later", offsetof(device_entry, down.copier.enqueue)},
    {"current", offsetof(device_entry, up.copier.current)},
    {"query", offsetof(device_entry, up.copier.query)},
    {"attribute", offsetof(device_entry, up.copier.attribute)},
    {"attribute", offsetof(device_entry, down.copier.attribute)},
    {"wait", offsetof(device_entry, up.copier.wait)},
    {"wait", offsetof(device_entry, down.copier.wait)},
    {"is_captured", offsetof(device_entry, up.copier.is_captured)},
    {"launch", offsetof(device_entry, ways.launch)},
    {"gather", offsetof(device_entry, up.c.gather)},
    {"scatter", offsetof(device_entry, down.c.scatter)},
    {"stage", offsetof(device_entry, staged.copy)},
    {"is_crowded", offsetof(device_entry, staged.is_crowded)},
};

enum { OBJECT, ADDRESS };

/* Write a value to a field: whether that is possible. */
static int keep(PyObject *value, int kind, char *place)
{
    if (kind == OBJECT) {
        PyObject *object = value == Py_None ? NULL : Py_NewRef(value);
        memcpy(place, &object, sizeof object);
    } else {
        void *address = (void *)(uintptr_t)PyLong_AsUnsignedLongLong(value); /* a function's is as wide: POSIX says so */
        memcpy(place, &address, sizeof address);
    }
    return !PyErr_Occurred();
}

/* Write the values of a dictionary to the fields of those names; one that is absent, where it may be, stays as it is. A name
   may have two fields, one behind the other in the list. */
static int fill(const field *fields, int count, PyObject *values, int kind, int may_be_absent, void *target)
{
    Py_ssize_t known = 0;
    for (int i = 0; i < count; ++i) {
        PyObject *value = PyDict_GetItemString(values, fields[i].name);
        known += value && (!i || strcmp(fields[i].name, fields[i - 1].name));
        if (value && !keep(value, kind, (char *)target + fields[i].offset))
            return 0;
        if (!value && !may_be_absent) {
            PyErr_SetString(PyExc_KeyError, fields[i].name);
            return 0;
        }
    }
    if (known == PyDict_Size(values))
        return 1;
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_KeyError, "%R has names that C does not know", values);
    return 0;
}

/* --- what does not change while the process lives */

static int takes_numpy(PyObject *capsule)
{
    void **table = PyCapsule_GetPointer(capsule, NULL);
    if (!table)
        return 0;
    if (((unsigned (*)(void))table[ABI_VERSION])() >> 24 != NUMPY_ABI >> 24) {
        PyErr_SetString(PyExc_RuntimeError, "this NumPy has another ABI");
        return 0;
    }
    replay.new_copy = (PyObject * (*)(PyObject *, int)) table[NEW_COPY];
    replay.new_array = (PyObject * (*)(PyObject *, PyObject *, int, const int64_t *, const Py_ssize_t *, void *, int, PyObject *))
        table[NEW_FROM_DTYPE];
    replay.set_base = (int (*)(PyObject *, PyObject *))table[SET_BASE];
    return 1;
}

static int intern_names(void)
{
    const struct {
        PyObject **name;
        const char *text;
    } all[] = {
        {&replay.names.backend, "backend"}, {&replay.names.capture, "capture"}, {&replay.names.copy, "copy"},
        {&replay.names.device, "device"},   {&replay.names.dtype, "dtype"},     {&replay.names.handle, "handle"},
        {&replay.names.out, "out"},         {&replay.names.pinned, "pinned"},   {&replay.names.raw, "_raw"},
        {&replay.names.reuses, "_reuses"},  {&replay.names.stream, "stream"},
    };
    for (int i = 0; i < LENGTH(all); ++i)
        if (!*all[i].name && !(*all[i].name = PyUnicode_InternFromString(all[i].text)))
            return 0;
    return 1;
}

/* Keep what bind_replay() is given: whether that is possible. */
int xf_fill_tables(PyObject *things, PyObject *elements, PyObject *numpy)
{
    if (!fill(objects, LENGTH(objects), things, OBJECT, 0, &replay))
        return 0;
    replay.element_count = 0;
    for (Py_ssize_t i = 0; i < PyList_Size(elements) && i < MOST_TYPES; ++i) {
        element *each = &replay.elements[i];
        if (!PyArg_ParseTuple(PyList_GetItem(elements, i), "Obbn", &each->dtype, &each->code, &each->bits, &each->itemsize))
            return 0;
        Py_INCREF(each->dtype);
        replay.element_count = (int)i + 1;
    }
    return takes_numpy(numpy) && intern_names();
}

/* --- libraries and devices */

static void *kept(const void *entry, size_t size)
{
    void *copy = malloc(size);
    if (!copy)
        return PyErr_NoMemory();
    return memcpy(copy, entry, size);
}

/* (type of arrays, whether they are known here, capsule of the exchange API or None, functions, the library's dtypes) -> its
   number, -1 where there is no room */
PyObject *xf_add_library(PyObject *module, PyObject *arguments)
{
    PyObject *type, *exchange, *functions, *dtypes;
    library l = {0};
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OpOO!O!", &type, &l.is_known, &exchange, &PyDict_Type, &functions, &PyTuple_Type, &dtypes))
        return NULL;
    if (replay.library_count == MOST_ENTRIES)
        return PyLong_FromLong(-1);
    if (exchange != Py_None) {
        l.exchange = PyCapsule_GetPointer(exchange, "dlpack_exchange_api");
        if (!l.exchange)
            return NULL;
        if (l.exchange->major != 1 || !l.exchange->describe || !l.exchange->current_stream)
            l.exchange = NULL;
    }
    if (!fill(functions_of_library, LENGTH(functions_of_library), functions, OBJECT, 1, &l))
        return NULL;
    l.type = Py_NewRef(type);
    l.dtypes = Py_NewRef(dtypes);
    if (PyTuple_Size(dtypes) != replay.element_count)
        l.maker = NULL; /* it would not know which one is meant */
    replay.libraries[replay.library_count] = kept(&l, sizeof l);
    return replay.libraries[replay.library_count] ? PyLong_FromLong(replay.library_count++) : NULL;
}

/* (device, number of its library, index, kind, functions, addresses, context) -> its number, -1 where there is no room; `kind` as
   in DLPack, 0 for a device that is left to Python */
PyObject *xf_add_device(PyObject *module, PyObject *arguments)
{
    PyObject *device, *functions, *addresses;
    unsigned long long context;
    int number;
    device_entry e = {0};
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OiiiO!O!K", &device, &number, &e.index, &e.kind, &PyDict_Type, &functions, &PyDict_Type,
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
    e.device = Py_NewRef(device);
    e.context = context;
    e.up.copier.is_upward = 1;
    replay.devices[replay.device_count] = kept(&e, sizeof e);
    if (!replay.devices[replay.device_count])
        return NULL;
    if (e.kind != ON_CPU && number >= 0)
        replay.libraries[number]->devices[e.index] = replay.devices[replay.device_count];
    return PyLong_FromLong(replay.device_count++);
}

/* Know no library and no device any more: some are gone, or other ones now. */
PyObject *xf_forget_devices(PyObject *module, PyObject *ignored)
{
    (void)module;
    (void)ignored;
    replay.library_count = replay.device_count = 0;
    Py_RETURN_NONE;
}
