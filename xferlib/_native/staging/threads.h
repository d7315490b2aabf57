/* What POSIX systems, macOS and Windows have each in its own way: clocks, timed waits, threads without signals, fork.

   Locks and conditions are POSIX's everywhere: on Windows winpthreads has them, which comes with the compilers for that
   system that know the GNU extensions used here (gcc and clang of MinGW, `zig cc`). Include it first. */

#ifndef XFERLIB_THREADS_H
#define XFERLIB_THREADS_H

#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* clock_gettime, pthread_atfork, pread */
#endif

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <time.h>

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#else
#include <signal.h>
#endif
#ifdef __linux__
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>
#ifndef RUSAGE_THREAD
#define RUSAGE_THREAD 1 /* which glibc names for programs of GNU's alone */
#endif
#endif

#ifdef __APPLE__
#define WAITING_CLOCK CLOCK_REALTIME /* the only one of its conditions */
#else
#define WAITING_CLOCK CLOCK_MONOTONIC /* a clock that is set back would lengthen the wait */
#endif

/* Nanoseconds of the clock of Python's time.perf_counter. */
static inline int64_t now_ns(void) {
#ifdef _WIN32
    LARGE_INTEGER ticks, in_a_second;
    QueryPerformanceFrequency(&in_a_second);
    QueryPerformanceCounter(&ticks);
    int64_t seconds = ticks.QuadPart / in_a_second.QuadPart, rest = ticks.QuadPart % in_a_second.QuadPart;
    return seconds * 1000000000 + rest * 1000000000 / in_a_second.QuadPart;
#else
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
#endif
}

/* A condition for `wait_at_most`. */
static inline void condition_init(pthread_cond_t *condition) {
    pthread_condattr_t waits;
    pthread_condattr_init(&waits);
#ifndef __APPLE__ /* which has no such function */
    pthread_condattr_setclock(&waits, WAITING_CLOCK);
#endif
    pthread_cond_init(condition, &waits);
    pthread_condattr_destroy(&waits);
}

/* Wait, with the lock held; 0 if the time is over. */
static inline int wait_at_most(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t most_ns) {
    struct timespec until;
    clock_gettime(WAITING_CLOCK, &until);
    int64_t nanoseconds = until.tv_nsec + most_ns;
    until.tv_sec += (time_t)(nanoseconds / 1000000000);
    until.tv_nsec = (long)(nanoseconds % 1000000000);
    return pthread_cond_timedwait(condition, lock, &until) == 0;
}

/* Start a thread that ends by itself; it takes no signals, which are Python's to handle. 0 if it cannot be started. */
static inline int start_thread(void *(*run)(void *), void *argument) {
    pthread_t thread;
#ifdef _WIN32 /* where no signal comes to a thread that waits */
    int result = pthread_create(&thread, NULL, run, argument);
#else
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int result = pthread_create(&thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
#endif
    if (result == 0) pthread_detach(thread);
    return result == 0;
}

/* The calling thread, as Python's threading.get_ident tells it. */
static inline int64_t thread_number(void) {
#ifdef _WIN32
    return (int64_t)GetCurrentThreadId();
#else
    return (int64_t)(intptr_t)pthread_self();
#endif
}

/* How often the kernel has given the calling thread's core to another thread that was ready; 0 where that is not told. */
static inline int64_t times_lost(void) {
#ifdef __linux__
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
#else
    return 0;
#endif
}

/* How many cores of the machine no thread of any program wants, at this moment, in a microsecond or two; less than 0 where
   threads wait for one, very many where that is not told. */
static inline int64_t idle_cores(void) {
#ifdef __linux__
    static int file, cores; /* atomic; 0: not yet known */
    int found = __atomic_load_n(&file, __ATOMIC_ACQUIRE), all = __atomic_load_n(&cores, __ATOMIC_RELAXED), ready = 0;
    char text[64]; /* 0.20 0.18 0.12 2/80 11206: the fourth is what is ready to run, of all threads */
    if (!found) {
        int opened = open("/proc/loadavg", O_RDONLY | O_CLOEXEC), expected = 0;
        if (!__atomic_compare_exchange_n(&file, &expected, opened, 0, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE)) {
            if (opened >= 0) close(opened);
            opened = expected;
        }
        found = opened;
    }
    if (!all) __atomic_store_n(&cores, all = (int)sysconf(_SC_NPROCESSORS_ONLN), __ATOMIC_RELAXED);
    ssize_t length = found > 0 ? pread(found, text, sizeof text, 0) : 0;
    for (ssize_t i = 0, spaces = 0; i < length && text[i] != '/'; i++) {
        if (text[i] == ' ') spaces++, ready = 0;
        else if (spaces == 3) ready = 10 * ready + text[i] - '0';
    }
    if (ready > 0 && all > 0) return all - ready;
#endif
    return INT32_MAX;
}

/* Call a function in each forked child; 0 if it cannot be arranged. */
static inline int at_fork_in_child(void (*function)(void)) {
#ifdef _WIN32
    (void)function;
    return 1;
#else
    return pthread_atfork(NULL, NULL, function) == 0;
#endif
}

#endif
