/* Faults of kernels: wild pointers, stacks that overflow, divisions by zero, illegal instructions.
 *
 * Signal handlers belong to the process, and Python and its libraries have theirs. The handlers here are in place only
 * while a launch runs, and act only for threads that execute a kernel: each worker has a slot in `workers`, for a handler
 * may not call what finds thread-local variables. Every other fault goes to the handler from before.
 *
 * The handler runs on a stack of its own, since the kernel's may be full, and leaves it by siglongjmp to the worker's own
 * stack; the fibers stay as they are and are freed with the launch.
 *
 * `table` is the one state of this file: under its lock, but for the slots, which handlers read.
 */

#include "state.h"

#include <errno.h>
#include <sched.h>
#include <sys/mman.h>

enum { SLOTS = 1024, SIGNALS = 4, SIGNAL_STACK_NBYTES = 65536 };

static const int fault_signals[SIGNALS] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};

static struct {
    pthread_mutex_t lock;
    u32 launches; /* workers between catch_faults and release_faults */
    struct sigaction before[SIGNALS];
    struct {
        uintptr_t thread; /* 0: of none. A handler looks at the worker of its own thread alone: others may be gone */
        Worker *worker;
    } slots[SLOTS]; /* atomic */
    int is_prepared;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The threads that ran kernels are not in a forked child. */
static void forget_workers(void) {
    pthread_mutex_init(&table.lock, NULL);
    if (table.launches)
        for (int i = 0; i < SIGNALS; i++) sigaction(fault_signals[i], &table.before[i], NULL);
    memset(table.slots, 0, sizeof table.slots);
    table.launches = 0;
}

void keep_signals_out(sigset_t *signals) {
    sigfillset(signals);
    for (int i = 0; i < SIGNALS; i++) sigdelset(signals, fault_signals[i]);
}

/* The calling thread as a number. */
static uintptr_t find_thread(void) {
    return (uintptr_t)pthread_self();
}

static Worker *find_worker(void) {
    uintptr_t self = find_thread();
    for (int i = 0; i < SLOTS; i++)
        if (__atomic_load_n(&table.slots[i].thread, __ATOMIC_ACQUIRE) == self)
            return __atomic_load_n(&table.slots[i].worker, __ATOMIC_ACQUIRE);
    return NULL;
}

static void pass_on(int number, siginfo_t *info, void *context) {
    int i = 0;
    while (fault_signals[i] != number) i++;
    const struct sigaction *before = &table.before[i];
    if (before->sa_flags & SA_SIGINFO) before->sa_sigaction(number, info, context);
    else if (before->sa_handler == SIG_DFL || before->sa_handler == SIG_IGN)
        sigaction(number, before, NULL); /* the instruction faults again, and is treated as before */
    else before->sa_handler(number);
}

static int is_in_guard(const Thread *thread, u64 address) {
    const Stack *stack = thread->stack;
    if (!stack) return 0;
    u64 begin = (u64)(uintptr_t)stack->begin;
    return address < begin + 64 && address >= begin - stack->guard_nbytes;
}

/* The region nearest to an address, if it is within a MiB of it. */
static void find_region(const xf_launch *given, u64 address, xf_report *report) {
    u64 nearest = 1 << 20;
    report->offset = (s64)address;
    for (u32 i = 0; i < given->region_count; i++) {
        const xf_region *region = &given->regions[i];
        u64 distance = address < region->begin                     ? region->begin - address
                       : address >= region->begin + region->nbytes ? address - region->begin - region->nbytes
                                                                   : 0;
        if (distance >= nearest) continue;
        nearest = distance;
        report->region = (s32)i;
        report->offset = (s64)(address - region->begin);
    }
}

static void handle(int number, siginfo_t *info, void *context) {
    int kept = errno;
    Worker *worker = find_worker();
    /* A signal that another process has sent is no fault. */
    if (!worker || !worker->is_executing || info->si_code <= 0) {
        pass_on(number, info, context);
        errno = kept;
        return;
    }
    u64 address = (u64)(uintptr_t)info->si_addr;
    Thread *thread = worker->current;
    xf_report report = {.kind = XF_SEGMENT_FAULT, .region = -3, .variable = -1};
    report.here.site = report.other.site = (u32)NO_SITE;
    if (thread) {
        memcpy(report.here.tid, thread->seen.tid, sizeof report.here.tid);
        memcpy(report.here.ctaid, thread->seen.ctaid, sizeof report.here.ctaid);
    }
    if (number == SIGFPE || number == SIGILL) {
        report.kind = XF_TRAP;
        strcpy(report.text, number == SIGFPE ? "division by zero" : "illegal instruction");
    } else if (thread && is_in_guard(thread, address)) report.kind = XF_STACK_OVERFLOW;
    else find_region(worker->launch->given, address, &report);
    worker->is_executing = 0;
    record_fault(worker, &report);
    siglongjmp(worker->recovery, 1);
}

/* Make the calling thread one whose faults end its launch; 0 where that is not possible. */
int catch_faults(Worker *worker) {
    stack_t stack = {.ss_size = SIGNAL_STACK_NBYTES};
    stack.ss_sp =
        mmap(NULL, SIGNAL_STACK_NBYTES + sizeof(stack_t), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
    if (stack.ss_sp == MAP_FAILED) return 0;
    worker->signal_stack = stack.ss_sp;
    if (sigaltstack(&stack, (stack_t *)(void *)((char *)stack.ss_sp + SIGNAL_STACK_NBYTES))) {
        munmap(stack.ss_sp, SIGNAL_STACK_NBYTES + sizeof(stack_t));
        worker->signal_stack = NULL;
        return 0;
    }
    for (int is_in = 0; !is_in;) {
        for (int i = 0; i < SLOTS && !is_in; i++) {
            Worker *none = NULL;
            is_in = __atomic_compare_exchange_n(&table.slots[i].worker, &none, worker, 0, __ATOMIC_ACQ_REL,
                                                __ATOMIC_ACQUIRE);
            if (is_in) __atomic_store_n(&table.slots[i].thread, find_thread(), __ATOMIC_RELEASE);
        }
        if (!is_in) sched_yield(); /* as many workers as slots: wait for one to end */
    }
    pthread_mutex_lock(&table.lock);
    if (!table.is_prepared) {
        table.is_prepared = 1;
        pthread_atfork(NULL, NULL, forget_workers);
    }
    if (table.launches++ == 0) {
        struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
        action.sa_sigaction = handle;
        sigemptyset(&action.sa_mask);
        for (int i = 0; i < SIGNALS; i++) sigaction(fault_signals[i], &action, &table.before[i]);
    }
    pthread_mutex_unlock(&table.lock);
    worker->is_executing = 1;
    return 1;
}

void release_faults(Worker *worker) {
    worker->is_executing = 0;
    pthread_mutex_lock(&table.lock);
    if (--table.launches == 0)
        for (int i = 0; i < SIGNALS; i++) {
            struct sigaction now;
            sigaction(fault_signals[i], NULL, &now);
            /* Another library may have put its handler in place meanwhile: it stays. */
            if (now.sa_flags & SA_SIGINFO && now.sa_sigaction == handle)
                sigaction(fault_signals[i], &table.before[i], NULL);
        }
    pthread_mutex_unlock(&table.lock);
    for (int i = 0; i < SLOTS; i++) {
        if (__atomic_load_n(&table.slots[i].worker, __ATOMIC_ACQUIRE) != worker) continue;
        __atomic_store_n(&table.slots[i].thread, 0, __ATOMIC_RELEASE); /* first: the next one may have the slot */
        __atomic_store_n(&table.slots[i].worker, NULL, __ATOMIC_RELEASE);
        break;
    }
    if (!worker->signal_stack) return;
    sigaltstack((stack_t *)(void *)((char *)worker->signal_stack + SIGNAL_STACK_NBYTES), NULL);
    munmap(worker->signal_stack, SIGNAL_STACK_NBYTES + sizeof(stack_t));
}
