/* Calls of C functions by address, and whole small copies, for a twentieth of what ctypes takes; and the look-up of an
   array's namespace, which is one of a dictionary.

   An extension module of CPython's limited API (3.11), compiled where the CPython headers are; without it ctypes, or
   Python, does the same. It knows no CUDA: the caller gives the addresses of the driver's functions.

   Blocking. A driver call that only enqueues still blocks while the stream's queue is full, and a query blocks behind a
   thread that does so inside the driver. If the device waits there for a host function that needs the GIL, a caller that
   holds the GIL waits for ever. Every call of the driver therefore releases it, except those that read what belongs to the
   calling thread or is constant. */

#include "alike.h"
#include "copier.h"
#include "front.h"
#include "launch.h"
#include "lease.h"
#include "leaves.h"
#include "plain.h"

#include "threads.h"

#include <stdlib.h>
#include <string.h>

#ifndef _WIN32
#include <dlfcn.h>
#include <unistd.h>
#endif

#define MOST_ARGUMENTS 4

extern const unsigned int xf_fingerprint; /* of this source: the build adds it */

/* --- one call */

typedef struct {
    void *address;
    Py_ssize_t count;
    int keeps_lock;
} function;

static int called(const function *f, const word *a)
{
    switch (f->count) {
    case 0: return ((int (*)(void))f->address)();
    case 1: return ((int (*)(word))f->address)(a[0]);
    case 2: return ((int (*)(word, word))f->address)(a[0], a[1]);
    case 3: return ((int (*)(word, word, word))f->address)(a[0], a[1], a[2]);
    default: return ((int (*)(word, word, word, word))f->address)(a[0], a[1], a[2], a[3]);
    }
}

static int is_word(PyObject *given, word *found)
{
    *found = PyLong_AsUnsignedLongLong(given);
    return *found != (word)-1 || !PyErr_Occurred();
}

static PyObject *call(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    const function *f = PyCapsule_GetPointer(self, NULL);
    word words[MOST_ARGUMENTS];
    int result;
    if (!f)
        return NULL;
    if (count != f->count)
        return PyErr_Format(PyExc_TypeError, "the function takes %zd arguments, not %zd", f->count, count);
    for (Py_ssize_t i = 0; i < count; ++i)
        if (!is_word(given[i], &words[i]))
            return NULL;
    if (f->keeps_lock) {
        result = called(f, words);
    } else {
        Py_BEGIN_ALLOW_THREADS
        result = called(f, words);
        Py_END_ALLOW_THREADS
    }
    return PyLong_FromLong(result);
}

/* int f(void **pointer) -> the pointer that it writes, or 0 where it fails. */
static PyObject *ask(PyObject *self, PyObject *ignored)
{
    const function *f = PyCapsule_GetPointer(self, NULL);
    void *answer = NULL;
    (void)ignored;
    if (!f)
        return NULL;
    if (((int (*)(void **))f->address)(&answer))
        answer = NULL;
    return PyLong_FromUnsignedLongLong((word)(uintptr_t)answer);
}

/* --- one whole copy */

enum { PATIENCE_NS = 10000, IMPATIENT_CALLS = 16 };

/* How long the next call may wait for its stream. The driver returns from a small upload a few microseconds
   before its last bytes arrive. A call in that time would find the stream busy and take the way by the staging buffer,
   which costs twenty and leaves the stream busy for the next call too: in a loop all of them would. So a call waits about
   half as long as that way takes. Where kernels keep the stream busy, one call in IMPATIENT_CALLS does. */
static int64_t patience(unsigned *in_vain)
{
    if (!*in_vain)
        return PATIENCE_NS;
    *in_vain = (*in_vain + 1) % IMPATIENT_CALLS;
    return 0;
}

static int becomes_idle(const copier *c, void *stream, int64_t patience_ns)
{
    int64_t begun_ns;
    if (!c->query || c->query(stream) == 0)
        return 1;
    if (!patience_ns)
        return 0;
    begun_ns = now_ns();
    do
        if (c->query(stream) == 0)
            return 1;
    while (now_ns() - begun_ns < patience_ns);
    return 0;
}

/* Note, with the GIL held, how a call that waited for the stream came out. */
static void learn(unsigned *in_vain, int64_t patience_ns, int is_idle)
{
    if (is_idle)
        *in_vain = 0;
    else if (patience_ns)
        *in_vain = 1;
}

enum { MEMORY_TYPE = 2 }; /* of CUDA's driver: CU_POINTER_ATTRIBUTE_MEMORY_TYPE */

/* The kind of memory, as the driver has it: 0 where it does not know it, PINNED, or another, such as managed. It may read what it
   knows after its call has returned, unless that is pinned and the call synchronous. */
int xf_kind_of(const copier *c, const char *host)
{
    unsigned kind = 0;
    return c->attribute && c->attribute(&kind, MEMORY_TYPE, (word)(uintptr_t)host) == 0 ? (int)kind : 0;
}

enum { ENQUEUED_MOST = 64 << 10 }; /* more bytes, and the driver waits for the stream */

/* Send memory that the driver has read when it returns, to an idle stream: NULL is the default one, on which the synchronous
   copies run. On any other only copies that are enqueued are in order; of ordinary memory they are synchronous, too. */
static int send(const copier *c, word device, word memory, size_t nbytes, void *stream)
{
    return stream ? c->enqueue(device, memory, nbytes, stream) : c->copy(device, memory, nbytes);
}

/* Bring bytes to memory of any kind, behind the work of a stream; they are there when it returns. */
static int fetch(const copier *c, word memory, word device, size_t nbytes, void *stream)
{
    int result;
    if (!stream)
        return c->copy(memory, device, nbytes);
    result = c->enqueue(memory, device, nbytes, stream);
    return result ? result : c->wait(stream);
}

/* Copy between memory and the device, whose context is current, on a stream; NULL is the default one. To any other, ordinary
   memory alone may be sent. Returns the driver's result, or NOT_ASKED where the stream is busy. Little ordinary memory is
   enqueued there all the same: the driver has read it when it returns. Called with the GIL held. */
int xf_copy(copier *c, word device, word memory, size_t nbytes, void *stream)
{
    int is_little = c->is_upward && c->enqueue && nbytes <= ENQUEUED_MOST;
    int64_t patience_ns = is_little || !c->is_upward ? 0 : patience(&c->in_vain);
    int result = NOT_ASKED, is_idle = 1;
    Py_BEGIN_ALLOW_THREADS /* around the query too: see "Blocking" above */
    if (!c->is_upward) {
        result = fetch(c, memory, device, nbytes, stream);
    } else {
        is_idle = (stream && is_little) || becomes_idle(c, stream, patience_ns);
        if (is_idle)
            result = send(c, device, memory, nbytes, stream);
        else if (is_little && !xf_kind_of(c, (const char *)(uintptr_t)memory))
            result = c->enqueue(device, memory, nbytes, NULL);
    }
    Py_END_ALLOW_THREADS
    if (!is_little)
        learn(&c->in_vain, patience_ns, is_idle);
    return result;
}

/* Whether a stream of the device, whose context is current, has done its work, or does so in a few microseconds. Called with
   the GIL held. */
int xf_is_over(copier *c, void *stream)
{
    int64_t patience_ns = patience(&c->behind_in_vain);
    int is_idle;
    Py_BEGIN_ALLOW_THREADS
    is_idle = becomes_idle(c, stream, patience_ns);
    Py_END_ALLOW_THREADS
    learn(&c->behind_in_vain, patience_ns, is_idle);
    return is_idle;
}

/* --- one copy of an array of any layout */

enum { SPREAD = 7 };

/* Fetch plain bytes by way of pinned memory, as xf_copy. The driver brings bytes to ordinary memory in pieces, one after the
   other, at half the speed of one copy to pinned memory and one by the processor. To the device it is as fast by itself. Memory
   that the driver knows is filled directly. */
int xf_fetch_through(copier *c, char *host, word device, size_t nbytes, word memory, void *stream)
{
    char *pinned = (char *)(uintptr_t)memory;
    int result;
    Py_BEGIN_ALLOW_THREADS
    if (xf_kind_of(c, host))
        pinned = host;
    result = fetch(c, (word)(uintptr_t)pinned, device, nbytes, stream);
    if (!result && pinned != host)
        copy_plain(host, pinned, nbytes);
    Py_END_ALLOW_THREADS
    return result;
}

enum { SNOOPED_MOST = 256 << 10 }; /* more are gathered into pinned memory: the gathering takes most of the time */

/* Copy `count` elements between a host array of any layout and the device, by way of pinned memory of as many bytes as they
   have there: as xf_copy. Pinned memory that the device has read is no more in the processor's caches, and single elements
   are written there at a third of the speed: 190 KiB of a transposed array took 75 us on an H100's host. So few bytes are
   gathered into ordinary memory, of which the driver copies lines: 41 us. So is all that goes to a stream of the program's
   own: the driver would read pinned memory there after its call has returned. */
int xf_spread(spreader *s, const void *layout, char *host, word count, word device, size_t nbytes, word memory, void *stream)
{
    int is_little = stream && nbytes <= ENQUEUED_MOST; /* the driver has read it when it returns: see xf_copy() */
    int64_t patience_ns = is_little || !s->copier.is_upward ? 0 : patience(&s->copier.in_vain);
    int result = NOT_ASKED, is_idle = 1;
    Py_BEGIN_ALLOW_THREADS
    if (!s->copier.is_upward) {
        result = fetch(&s->copier, memory, device, nbytes, stream);
        if (!result)
            s->c.scatter(layout, host, 0, (int64_t)count, (const char *)(uintptr_t)memory, 1);
    } else if ((is_idle = is_little || becomes_idle(&s->copier, stream, patience_ns))) {
        char *ordinary = stream || nbytes <= SNOOPED_MOST ? malloc(nbytes) : NULL;
        char *gathered = ordinary || stream ? ordinary : (char *)(uintptr_t)memory;
        if (gathered) {
            s->c.gather(layout, host, 0, (int64_t)count, gathered, !ordinary);
            result = send(&s->copier, device, (word)(uintptr_t)gathered, nbytes, stream);
        }
        free(ordinary);
    }
    Py_END_ALLOW_THREADS
    if (!is_little)
        learn(&s->copier.in_vain, patience_ns, is_idle);
    return result;
}

/* (array, its layout for strided.c, elements, address on the device, bytes there, context, pinned memory of as many bytes)
   -> the driver's result, or NOT_ASKED with nothing done: another context is current, the default stream is busy, or the
   array is read-only and to be filled. */
static PyObject *copy_spread(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    spreader *s = PyCapsule_GetPointer(self, NULL);
    word a[SPREAD];
    void *current = NULL;
    int result = NOT_ASKED;
    Py_buffer host;
    if (!s)
        return NULL;
    if (count != SPREAD)
        return PyErr_Format(PyExc_TypeError, "a copy of any layout takes %d arguments, not %zd", SPREAD, count);
    for (Py_ssize_t i = 1; i < count; ++i)
        if (!is_word(given[i], &a[i]))
            return NULL;
    if (PyObject_GetBuffer(given[0], &host, s->copier.is_upward ? PyBUF_STRIDED_RO : PyBUF_STRIDED)) {
        if (!PyErr_ExceptionMatches(PyExc_ValueError) && !PyErr_ExceptionMatches(PyExc_BufferError))
            return NULL;
        PyErr_Clear();
        return PyLong_FromLong(NOT_ASKED);
    }
    if (s->copier.current(&current) == 0 && (word)(uintptr_t)current == a[5])
        result = xf_spread(s, (const void *)(uintptr_t)a[1], host.buf, a[2], a[3], (size_t)a[4], a[6], NULL);
    PyBuffer_Release(&host);
    return PyLong_FromLong(result);
}

/* --- one copy between two streams */

typedef struct {
    int (*record)(word, word);           /* event, stream */
    int (*wait)(word, word, word);       /* stream, event, 0 */
    int (*copy)(word, word, word, word); /* destination, source, bytes, stream */
    int (*current)(void **);             /* the thread's context */
    int (*enter)(void *);                /* makes a context the thread's */
} courier;

enum { ORDERED = 10 };

/* Make a context the thread's; 0 is any. `now` is the one that is. */
static int entered(const courier *c, word context, void **now)
{
    void *wanted = (void *)(uintptr_t)context;
    int result;
    if (!context || wanted == *now)
        return 0;
    result = c->enter(wanted);
    if (!result)
        *now = wanted;
    return result;
}

/* The copy, within the contexts of both streams; the caller leaves them. */
static int carried(const courier *c, const word *a, void **now)
{
    int result = entered(c, a[7], now);
    if (!result)
        result = c->record(a[4], a[3]);
    if (!result)
        result = entered(c, a[8], now);
    if (!result)
        result = c->wait(a[5], a[4], 0);
    if (!result)
        result = c->copy(a[0], a[1], a[2], a[5]);
    if (!result)
        result = c->record(a[6], a[5]);
    if (!result && a[9]) {
        result = entered(c, a[7], now);
        if (!result)
            result = c->wait(a[3], a[6], 0);
    }
    return result;
}

/* (destination, source, bytes, stream to follow, event, stream of the copy, event after it, their contexts or 0 where no other
   can be current, whether the first stream waits for the copy) -> the driver's first result that is not 0: the copy waits for
   what the first stream has been given, by the first event. */
static PyObject *copy_behind(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    const courier *c = PyCapsule_GetPointer(self, NULL);
    word a[ORDERED] = {0};
    void *before = NULL, *now;
    int result = 0, left;
    if (!c)
        return NULL;
    if (count != ORDERED)
        return PyErr_Format(PyExc_TypeError, "a copy between streams takes %d arguments, not %zd", ORDERED, count);
    for (Py_ssize_t i = 0; i < ORDERED; ++i)
        if (!is_word(given[i], &a[i]))
            return NULL;
    Py_BEGIN_ALLOW_THREADS
    if (a[7] || a[8])
        result = c->current(&before);
    now = before;
    if (!result)
        result = carried(c, a, &now);
    if (now != before) {
        left = c->enter(before);
        if (!result)
            result = left;
    }
    Py_END_ALLOW_THREADS
    return PyLong_FromLong(result);
}

/* --- where arrays lie */

/* An array -> the address of its bytes, or 0 where they are not plain bytes in C order. */
static PyObject *address(PyObject *module, PyObject *array)
{
    Py_buffer host;
    word found;
    (void)module;
    if (PyObject_GetBuffer(array, &host, PyBUF_SIMPLE)) {
        if (!PyErr_ExceptionMatches(PyExc_ValueError) && !PyErr_ExceptionMatches(PyExc_BufferError))
            return NULL;
        PyErr_Clear();
        return PyLong_FromLong(0);
    }
    found = (word)(uintptr_t)host.buf;
    PyBuffer_Release(&host);
    return PyLong_FromUnsignedLongLong(found);
}

/* --- the namespace of arrays */

typedef struct {
    PyMethodDef method;
    PyObject *doc;        /* holds the memory of the method's docstring */
    PyObject *by_type;    /* dict: exact type -> backend, or None for what is no array */
    PyObject *namespaces; /* dict: exact type -> namespace, for some types of the other */
    PyObject *look_up;    /* does the same for any arguments, and fills the tables */
} dispatch;               /* the module's state; both live as long as the process */

static int is_scalar(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    return object == Py_None || type == &PyFloat_Type || type == &PyLong_Type || type == &PyComplex_Type || type == &PyBool_Type;
}

static PyObject *looked_up(const dispatch *d, PyObject *const *given, Py_ssize_t count)
{
    PyObject *arguments, *result;
    if (PyErr_Occurred()) /* a metaclass may hash as it likes */
        return NULL;
    arguments = PyTuple_New(count);
    if (!arguments)
        return NULL;
    for (Py_ssize_t i = 0; i < count; ++i)
        PyTuple_SetItem(arguments, i, Py_NewRef(given[i]));
    result = PyObject_Call(d->look_up, arguments, NULL);
    Py_DECREF(arguments);
    return result;
}

/* The namespace of arrays of known types, of one backend, among scalars; all else is looked up in Python. */
static PyObject *namespace_of(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    const dispatch *d = PyModule_GetState(module);
    PyObject *decides = NULL, *found = NULL;
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject *type = (PyObject *)Py_TYPE(given[i]);
        if (type == decides || is_scalar(given[i]))
            continue;
        if (decides) {
            PyObject *backend = PyDict_GetItemWithError(d->by_type, type);
            if (!backend || backend != PyDict_GetItemWithError(d->by_type, decides))
                return looked_up(d, given, count);
        }
        decides = type;
    }
    if (decides)
        found = PyDict_GetItemWithError(d->namespaces, decides);
    return found ? Py_NewRef(found) : looked_up(d, given, count);
}

/* (by_type, namespaces, look_up, name of its module, docstring) -> the function */
static PyObject *bind_namespaces(PyObject *module, PyObject *arguments)
{
    dispatch *d = PyModule_GetState(module);
    PyObject *by_type, *namespaces, *look_up, *name, *doc;
    if (!PyArg_ParseTuple(arguments, "O!O!OUU", &PyDict_Type, &by_type, &PyDict_Type, &namespaces, &look_up, &name, &doc))
        return NULL;
    if (!PyUnicode_AsUTF8AndSize(doc, NULL))
        return NULL;
    d->method = (PyMethodDef){"get_array_module", (PyCFunction)(void (*)(void))namespace_of, METH_FASTCALL,
                              PyUnicode_AsUTF8AndSize(doc, NULL)};
    d->doc = Py_NewRef(doc);
    d->by_type = Py_NewRef(by_type);
    d->namespaces = Py_NewRef(namespaces);
    d->look_up = Py_NewRef(look_up);
    return PyCFunction_NewEx(&d->method, module, name);
}

/* --- the end of the interpreter */

#ifndef _WIN32 /* whose threads have neither glibc's destructors nor its cancellation */

extern int __cxa_thread_atexit_impl(void (*destructor)(void *), void *object, void *library) __attribute__((weak));
extern void *__dso_handle;

typedef void (*handler)(void);

static volatile int is_ending;
static pthread_t ending;
static handler terminate_before;

/* Runs where a thread ends, before what else belongs to it is destroyed (glibc: "__call_tls_dtors" first). */
static void keep_thread(void *ignored)
{
    (void)ignored;
    while (is_ending && !pthread_equal(pthread_self(), ending))
        pause();
}

/* Runs in place of C++'s terminate. pthread_exit unwinds the frames of a thread that wants the GIL, and calls it where
   one of them is noexcept: the thread stops there, as every such thread does from Python 3.14 on. */
static void keep_or_terminate(void)
{
    keep_thread(NULL);
    if (terminate_before)
        terminate_before();
    abort();
}

static void replace_terminate(void)
{
#ifdef RTLD_NOLOAD
    void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD); /* kept; where it is absent no frame is C++'s */
    handler (*set)(handler) = NULL;
    if (library)
        *(void **)&set = dlsym(library, "_ZSt13set_terminatePFvvE");
    if (set)
        terminate_before = set(keep_or_terminate);
#endif
}

/* Let the calling thread stop instead of end, if the interpreter ends it; whether that can be done here. */
static PyObject *guard_thread(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    return PyBool_FromLong(__cxa_thread_atexit_impl && !__cxa_thread_atexit_impl(keep_thread, NULL, &__dso_handle));
}

/* The calling thread ends the interpreter from now on. */
static PyObject *end_threads(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    ending = pthread_self();
    if (!is_ending)
        replace_terminate();
    is_ending = 1;
    Py_RETURN_NONE;
}

#else

static PyObject *guard_thread(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    Py_RETURN_FALSE;
}

static PyObject *end_threads(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    Py_RETURN_NONE;
}

#endif

/* --- making them */

static void freed(PyObject *capsule)
{
    PyMem_Free(PyCapsule_GetPointer(capsule, NULL));
}

static PyMethodDef one_call = {"call", (PyCFunction)(void (*)(void))call, METH_FASTCALL, NULL};
static PyMethodDef one_question = {"ask", ask, METH_NOARGS, NULL};
static PyMethodDef one_spread = {"copy", (PyCFunction)(void (*)(void))copy_spread, METH_FASTCALL, NULL};
static PyMethodDef one_courier = {"copy_behind", (PyCFunction)(void (*)(void))copy_behind, METH_FASTCALL, NULL};
static PyMethodDef many_copies = {"copy_each", (PyCFunction)(void (*)(void))xf_copy_each, METH_FASTCALL, NULL};

static PyObject *bound(PyMethodDef *method, const void *content, size_t nbytes)
{
    void *kept = PyMem_Malloc(nbytes);
    PyObject *capsule, *made;
    if (!kept)
        return PyErr_NoMemory();
    for (size_t i = 0; i < nbytes; ++i)
        ((char *)kept)[i] = ((const char *)content)[i];
    capsule = PyCapsule_New(kept, NULL, freed);
    if (!capsule) {
        PyMem_Free(kept);
        return NULL;
    }
    made = PyCFunction_NewEx(method, capsule, NULL);
    Py_DECREF(capsule);
    return made;
}

static PyObject *bind(PyObject *module, PyObject *arguments)
{
    unsigned long long address;
    function f = {0};
    (void)module;
    if (!PyArg_ParseTuple(arguments, "Knp", &address, &f.count, &f.keeps_lock))
        return NULL;
    if (!address || f.count < 0 || f.count > MOST_ARGUMENTS)
        return PyErr_Format(PyExc_ValueError, "address %llu with %zd arguments: needs an address and 0 to %d", address,
                            f.count, MOST_ARGUMENTS);
    f.address = (void *)(uintptr_t)address;
    return bound(&one_call, &f, sizeof f);
}

static PyObject *bind_question(PyObject *module, PyObject *arguments)
{
    unsigned long long address;
    function f = {0};
    (void)module;
    if (!PyArg_ParseTuple(arguments, "K", &address))
        return NULL;
    if (!address)
        return PyErr_Format(PyExc_ValueError, "a question needs the address of a function");
    f.address = (void *)(uintptr_t)address;
    return bound(&one_question, &f, sizeof f);
}

static PyObject *bind_spread(PyObject *module, PyObject *arguments)
{
    unsigned long long copy, current, query, spread;
    spreader s = {0};
    (void)module;
    if (!PyArg_ParseTuple(arguments, "KKKKp", &copy, &current, &query, &spread, &s.copier.is_upward))
        return NULL;
    if (!copy || !current || !spread || (s.copier.is_upward && !query))
        return PyErr_Format(PyExc_ValueError, "a copy of any layout needs the addresses of its functions");
    s.copier.copy = (int (*)(word, word, size_t))(uintptr_t)copy;
    s.copier.current = (int (*)(void **))(uintptr_t)current;
    s.copier.query = (int (*)(void *))(uintptr_t)query;
    if (s.copier.is_upward)
        s.c.gather = (void (*)(const void *, const char *, int64_t, int64_t, char *, int))(uintptr_t)spread;
    else
        s.c.scatter = (void (*)(const void *, char *, int64_t, int64_t, const char *, int))(uintptr_t)spread;
    return bound(&one_spread, &s, sizeof s);
}

static PyObject *bind_copy_behind(PyObject *module, PyObject *arguments)
{
    unsigned long long record, wait, copy, current, enter;
    courier c;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "KKKKK", &record, &wait, &copy, &current, &enter))
        return NULL;
    if (!record || !wait || !copy || !current || !enter)
        return PyErr_Format(PyExc_ValueError, "a copy between streams needs the addresses of five functions");
    c.record = (int (*)(word, word))(uintptr_t)record;
    c.wait = (int (*)(word, word, word))(uintptr_t)wait;
    c.copy = (int (*)(word, word, word, word))(uintptr_t)copy;
    c.current = (int (*)(void **))(uintptr_t)current;
    c.enter = (int (*)(void *))(uintptr_t)enter;
    return bound(&one_courier, &c, sizeof c);
}

static PyObject *bind_copy_each(PyObject *module, PyObject *arguments)
{
    unsigned long long copy;
    CopyEach c;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "K", &copy))
        return NULL;
    if (!copy)
        return PyErr_Format(PyExc_ValueError, "copies need the address of a function");
    c.copy = (int (*)(uint64_t, uint64_t, uint64_t, uint64_t))(uintptr_t)copy;
    return bound(&many_copies, &c, sizeof c);
}

static PyMethodDef methods[] = {
    {"bind", bind, METH_VARARGS,
     "bind(address, count, keeps_lock): call the C function there, of `count` 64-bit arguments, that returns an int."},
    {"bind_question", bind_question, METH_VARARGS,
     "bind_question(address): call `int f(void **)` there; returns what it writes, or 0 where it fails."},
    {"bind_spread", bind_spread, METH_VARARGS,
     "bind_spread(copy, current, query, spread, is_upward): a copy of an array of any layout, by way of pinned memory."},
    {"bind_copy_behind", bind_copy_behind, METH_VARARGS,
     "bind_copy_behind(record, wait, copy, current, enter): a copy on one stream behind another one's work, with an event after it."},
    {"flat", (PyCFunction)(void (*)(void))xf_flat, METH_FASTCALL,
     "flat(tree, arrays, others): the leaves of plain containers; None where there are others."},
    {"rebuilt", (PyCFunction)(void (*)(void))xf_rebuilt, METH_FASTCALL,
     "rebuilt(tree, leaves): the same containers with other leaves."},
    {"is_distinct", xf_is_distinct, METH_O, "is_distinct(list): whether no object is in it twice."},
    {"copied", (PyCFunction)(void (*)(void))xf_copied, METH_FASTCALL,
     "copied(list, most): the list, with copies of the small arrays in it; how many are none."},
    {"locate", (PyCFunction)(void (*)(void))xf_locate, METH_FASTCALL,
     "locate(arrays, places, parts): write where arrays lie; how many are not plain bytes."},
    {"bind_copy_each", bind_copy_each, METH_VARARGS,
     "bind_copy_each(copy): many copies on one stream, in one call."},
    {"address", address, METH_O,
     "address(array): where its bytes lie; 0 where they are not plain bytes in C order."},
    {"bind_namespaces", bind_namespaces, METH_VARARGS,
     "bind_namespaces(by_type, namespaces, look_up, module, doc): get_array_module, by two tables of exact types."},
    {"bind_front", xf_bind_front, METH_VARARGS,
     "bind_front(functions, lists, types, limits, elements, numpy, module, docs): to_device and to_host."},
    {"add_library", xf_add_library, METH_VARARGS,
     "add_library(type, is_known, exchange, whole, is_negated, is_conjugate, recording, note_write): its number."},
    {"add_end", xf_add_end, METH_VARARGS,
     "add_end(device, library, index, kind, functions, pool, addresses, context): its number."},
    {"fetch_pinned", xf_fetch_pinned, METH_O,
     "fetch_pinned(arrays): their elements in pinned memory; None, and nothing done, where Python is to do it."},
    {"forget_ends", xf_forget_ends, METH_NOARGS, "forget_ends(): know no library and no device any more."},
    {"lend", (PyCFunction)(void (*)(void))xf_lend, METH_FASTCALL,
     "lend(type, free, dead): a lease of the last free block of the pinned pool; None where none is free."},
    {"bind_alike", xf_bind_alike, METH_VARARGS,
     "bind_alike(types, names, values): whether arrays are of these types, and their attributes have these values."},
    {"bind_launch", xf_bind_launch, METH_VARARGS,
     "bind_launch(launch, kernel, config, stream_at, matches, names, is_method, note, fields): a checked launch, repeated."},
    {"guard_thread", guard_thread, METH_NOARGS,
     "guard_thread(): a thread that ends after end_threads() stops instead; whether that can be done here."},
    {"end_threads", end_threads, METH_NOARGS, "end_threads(): guarded threads, but this one, do not end any more; none ends the process."},
    {NULL, NULL, 0, NULL},
};

static int begin(PyObject *module)
{
    PyObject *found = PyLong_FromUnsignedLong(xf_fingerprint);
    int result = found ? PyObject_SetAttrString(module, "fingerprint", found) : -1;
    Py_XDECREF(found);
    return result ? result : xf_add_lease(module);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)begin}, {0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_calls", NULL, sizeof(dispatch), methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__calls(void)
{
    return PyModuleDef_Init(&definition);
}
