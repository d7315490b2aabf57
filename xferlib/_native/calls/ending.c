/* Threads that the interpreter would end when it ends: they stop instead.

   Up to Python 3.13 a thread that wants the GIL then is ended by pthread_exit, in the middle of whatever calls it: destructors
   of its thread run while the process still uses what they destroy, and a frame of C++ that may not be unwound ends the
   process. */

#include "calls.h"

#ifndef _WIN32 /* whose threads have neither glibc's destructors nor its cancellation */

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

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

#endif

/* Let the calling thread stop instead of end, if the interpreter ends it; whether that can be done here. */
PyObject *xf_guard_thread(PyObject *module, PyObject *ignored)
{
    int is_guarded = 0;
    (void)module, (void)ignored;
#ifndef _WIN32
    is_guarded = __cxa_thread_atexit_impl && !__cxa_thread_atexit_impl(keep_thread, NULL, &__dso_handle);
#endif
    return PyBool_FromLong(is_guarded);
}

/* The calling thread ends the interpreter from now on. */
PyObject *xf_end_threads(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
#ifndef _WIN32
    ending = pthread_self();
    if (!is_ending)
        replace_terminate();
    is_ending = 1;
#endif
    Py_RETURN_NONE;
}
