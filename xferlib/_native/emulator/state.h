/* The state of a launch: who owns what, and which thread may touch it.
 *
 * A Launch has Workers, one an OS thread; a Worker has the Blocks that are resident on it; a Block has Threads. Only its
 * worker touches a block and its threads, so that neither needs a lock. What workers share stands in Launch and is atomic,
 * or behind `lock`.
 */
#ifndef XF_STATE_H
#define XF_STATE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* mmap's flags, pthread_getattr_np, clock_gettime */
#endif
#undef _FORTIFY_SOURCE /* its longjmp refuses to leave one stack for another */

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "emulator.h"

enum { WARP = 32, BARRIERS = 16, NO_SITE = -1 };

typedef struct Launch Launch;
typedef struct Worker Worker;
typedef struct Block Block;
typedef struct Thread Thread;
typedef struct Checks Checks;

/* Memory of a stack; the header stands at its upper end, which is in use anyway. */
typedef struct Stack {
    struct Stack *next;
    char *begin;   /* above the guard */
    size_t nbytes; /* from begin to this header */
    size_t guard_nbytes;
} Stack;

typedef struct {
    Thread *first, *last;
    u32 count;
} Queue;

typedef struct {
    char *bytes;
    size_t nbytes, room;
} Text;

enum { READY, AT_BARRIER, AT_WARP, AT_ACTIVE_MASK, GONE };

/* What a collective operation of a warp does; the mask and this must agree for threads to meet. */
enum { MEET_SYNC, MEET_SHUFFLE, MEET_VOTE, MEET_MATCH, MEET_REDUX };

struct Thread {
    xf_thread seen; /* the first field: kernels hold its address */
    Worker *worker;
    Block *block;
    Thread *next; /* in a queue */
    Context context;
    Stack *stack; /* NULL before the thread's first instruction, and after its last */
    u32 number;   /* in the block */
    u32 state;
    u32 site;     /* of what it waits at */
    u32 mode;     /* of the operation that it waits in */
    u32 mask;
    u32 polls;    /* atomics and volatile accesses */
    u32 result, second_result; /* of a barrier or warp operation */
    u32 doubt; /* of a shuffle's result */
    u64 value;
    u32 b, c;
    u64 ticks;
    Text line;    /* output of printf, up to the end of a line */
    /* Of checks.c: */
    u64 stamp;    /* who accesses, and when, as cells hold it */
    struct Knowledge *knowledge;
    struct Knowledge *unfenced; /* of atomics and strong loads, which counts from the next fence on */
    struct Knowledge *for_strong; /* of those before a barrier: for strong accesses it counts without a fence */
    struct Release *release; /* what a fence has made ready to be published */
    struct Suspicion *suspicions;
    u32 frame_count, frame_room;
    struct Frame *frames;
};

/* One of the sixteen barriers of a block. */
typedef struct {
    Queue waiting;
    u32 count;     /* threads that have arrived, with those missing of their warps where the number is given */
    u32 wanted;    /* 0: every thread of the block */
    u32 has_arrivals; /* of bar.arrive, which does not wait */
    u32 popc, are_all, is_any;
    u32 lanes[WARP]; /* where the number is given: those that have arrived, by warp */
    u32 site;      /* of the first arrival */
    u32 number;    /* its thread */
    u32 is_unaligned;
    struct Knowledge *knowledge;
} Barrier;

/* Threads of a warp that wait for one another. */
typedef struct {
    u32 mask, kind, arrived;
} Meeting;

typedef struct {
    Thread *lanes[WARP]; /* NULL: none, or gone */
    u32 alive;           /* bit l: lane l is not gone */
    u32 converging;      /* bit l: lane l waits in active_mask */
    u32 meeting_count;
    Meeting meetings[WARP];
} Warp;

struct Block {
    Block *next, *before; /* in the list of its worker */
    Worker *worker;
    u32 number, id[3];
    u32 count, alive; /* threads */
    u32 warp_count;
    Thread *threads;
    Warp *warps;
    Barrier barriers[BARRIERS];
    char *shared, *shared_memory; /* offset 0 of the window, and what holds it */
    struct BlockChecks *checks;
};

struct Worker {
    Launch *launch;
    u32 number;
    int is_alone;      /* the only worker */
    Thread **ready;    /* a ring */
    u32 ready_first, ready_count, ready_mask;
    Context main;      /* the worker's own stack */
    Thread *current;
    Block *resident, *spare;
    u32 resident_count, converging_count; /* converging: lanes in active_mask */
    u32 is_admitting;  /* a thread asks for a further block, for all that are here only poll */
    u64 polls;         /* since something else than polling happened, or a block was admitted for them */
    u64 idle_polls;    /* since anything happened that may end a wait */
    u64 random;
    Stack *stacks;     /* free ones */
    u64 chunk_begin, chunk_end; /* blocks that this worker has taken from the counter */
    Text output;       /* whole lines, to be printed from the worker's own stack */
    u64 clock;
    Thread *asker;        /* wants a callback from the worker's own stack: what memory is at `question`, or `ask` */
    u64 question;         /* 0: `ask` */
    u32 looks;            /* at whether the launch is to stop */
    u64 asked_ns;         /* when `ask` was called */
    xf_region answer;
    u32 has_answer;
    int is_executing;  /* kernels run: a fault is theirs */
    sigjmp_buf recovery;
    void *signal_stack;
    pthread_t os_thread; /* to be joined */
};

struct Launch {
    const xf_launch *given;
    xf_report *report;
    u64 block_count, next_block; /* next_block: atomic */
    u32 thread_count;            /* of a block */
    u32 dynamic_begin, shared_nbytes;
    xf_run run;
    u32 fault;                   /* atomic; the first to set it writes the report */
    u32 worker_count;
    u64 order_key[4], order_bits; /* the permutation of blocks */
    u32 workspace[2];            /* of cooperative grids, as CUDA's headers expect: size, barrier */
    pthread_mutex_t lock;        /* of printing, and of `running` */
    pthread_cond_t ended;
    u32 running;                 /* workers but the first */
    Checks *checks;
};

/* --- emulator.c: the scheduler */

/* End the launch because of this thread; does not return. `place` and `other` may be filled in *report before. */
_Noreturn void fail(Thread *thread, const xf_report *report);
_Noreturn void fail_at(Thread *thread, u32 kind, u32 site, const char *text);
void fill_place(xf_location *place, const Thread *thread, u32 site, u32 flags);
/* Let others run; the thread must be in a queue. */
void leave(Thread *thread);
void push_ready(Worker *worker, Thread *thread);
/* Ask the caller of the launch what memory is at an address; 0 where there is none. */
int ask_for_region(Thread *thread, u64 address, xf_region *found);
/* All threads of a queue become ready, in order. */
void wake(Worker *worker, Queue *queue);
/* A place where the thread may lose its turn: an atomic, a volatile access. */
void poll(Thread *thread, u32 site);
void note_progress(Worker *worker);
u64 draw(u64 *state);
/* As `fail`, on the way out of a signal handler. */
void record_fault(Worker *worker, const xf_report *report);

static inline void push(Queue *queue, Thread *thread) {
    thread->next = NULL;
    if (queue->last) queue->last->next = thread;
    else queue->first = thread;
    queue->last = thread;
    queue->count++;
}

static inline Thread *as_thread(xf_thread *seen) {
    return (Thread *)(void *)seen;
}

static inline int has_fibers(const Launch *launch) {
    return (launch->given->flags & XF_FIBERS) != 0;
}

static inline int is_checked(const Launch *launch) {
    return (launch->given->flags & XF_CHECKED) != 0;
}

static inline u32 source_place(const Launch *launch, u32 site) {
    return site < launch->given->place_count ? launch->given->places[site] : 0;
}

/* --- stacks.c */

Stack *take_stack(size_t nbytes);
void give_stacks(Stack *first);

/* --- convergence.c: barriers and warps */

u32 wait_at_barrier(xf_thread *t, u32 kind, u32 id, u32 threads, u32 value, u32 site);
void synchronize_warp(xf_thread *t, u32 mask, u32 site);
u32 shuffle(xf_thread *t, u32 mode, u32 value, u32 b, u32 c, u32 mask, u32 *in_range, u32 site);
u32 vote(xf_thread *t, u32 mode, u32 predicate, u32 mask, u32 site);
u32 match(xf_thread *t, u32 mode, u64 value, u32 mask, u32 *all_equal, u32 site);
u32 reduce(xf_thread *t, u32 operation, u32 type, u32 value, u32 mask, u32 site);
u32 find_active_mask(xf_thread *t, u32 site);
/* The thread has ended: what waited for it goes on. */
void leave_convergence(Thread *thread);
/* Lanes that wait for convergence go on, for the others only poll. */
void release_converging(Worker *worker);
/* No thread of the block can go on: where two of them wait. */
void describe_deadlock(const Block *block, xf_report *report);

/* --- atomics.c */

void run_atomic(xf_thread *t,
                u64 address,
                u32 operation,
                u32 type,
                const void *first,
                const void *second,
                void *old,
                u32 flags,
                u32 site);
/* The memory at `memory`; returns whether it has changed. */
int change_memory(
    char *memory, u32 operation, u32 type, const void *first, const void *second, void *old, int is_shared);
u32 type_nbytes(u32 type);

/* --- services.c: output, the heap, clocks */

u32 print_formatted(xf_thread *t, const char *format, const char *arguments, u32 site);
void end_line(Thread *thread);
void print_output(Worker *worker);
void fail_assertion(xf_thread *t, const char *message, const char *file, u32 line, const char *function, u32 site);
void run_trap(xf_thread *t, u32 site);
void refuse_instruction(xf_thread *t, u32 site);
u64 allocate_memory(xf_thread *t, u64 nbytes, u32 site);
void free_memory(xf_thread *t, u64 address, u32 site);
/* A launch without checks has ended. */
void note_unwatched(void);
u64 read_clock(xf_thread *t);
u64 read_global_timer(xf_thread *t);
u64 read_environment(xf_thread *t, u32 number);

/* --- faults.c: signals */

/* The signals that a worker's thread does not take, for they are Python's: all but the faults. */
void keep_signals_out(sigset_t *signals);
int catch_faults(Worker *worker);
void release_faults(Worker *worker);

/* --- checks.c */

int open_checks(Launch *launch);
void close_checks(Launch *launch);
int open_block_checks(Block *block);
void close_block_checks(Block *block);
void begin_block_checks(Block *block);
void begin_thread_checks(Thread *thread);
void end_thread_checks(Thread *thread);
/* The thread comes to a barrier or its end: a suspicion that is not cleared is a fault, if it is that many ticks old. */
void settle_suspicions(Thread *thread, u64 ticks);
/* A barrier is complete; the threads in its queue are those that wait at it. */
void order_barrier(Block *block, Barrier *barrier);
/* The thread arrives at a barrier that is not complete yet. */
void note_arrival(Barrier *barrier, Thread *thread);
/* These lanes of a warp have met in a synchronisation. */
void order_warp(Block *block, const Warp *warp, u32 lanes);
/* They have met in another operation. */
void share_knowledge(Block *block, const Warp *warp, u32 lanes);
void check_fence(xf_thread *t, u32 scope, u32 site);
void check_atomic(xf_thread *t,
                  u64 address,
                  u32 operation,
                  u32 type,
                  const void *first,
                  const void *second,
                  void *old,
                  u32 flags,
                  u32 site);
/* The host's address of one that a kernel has, without a check. */
u64 find_host_address(xf_thread *t, u64 address);
char *check_access(xf_thread *t, u64 address, u32 nbytes, u32 flags, u32 site);
void check_store(xf_thread *t, u64 address, u32 nbytes, u32 flags, const void *value, u32 site);
void begin_local(xf_thread *t, char *memory, u32 nbytes);
void end_local(xf_thread *t, char *memory, u32 nbytes);
void refuse_unset(xf_thread *t, u32 doubt, u32 site);
void forget_value(xf_thread *t, u64 address, u32 nbytes, u32 flags, u32 doubt, u32 site);
u32 lacks_value(xf_thread *t, u64 address, u32 nbytes, u32 flags);
void refuse_overflow(xf_thread *t, s64 value, u32 site);

#endif
