/* Runs a kernel's blocks on OS threads, and a block's threads as fibers of one of them.
 *
 * A kernel without barriers and warp operations is a loop over threads: nothing switches. Otherwise each thread of a block
 * has a stack of its own and runs until it waits; then the next ready thread of that worker runs. The order of ready
 * threads is a queue (in order, reversed) or a draw (random), and with one worker and one seed it is the same each time.
 *
 * Fibers switch to one another directly. They go back to the worker's own stack where something needs it: a block to be
 * admitted, lines to be printed (the callback is Python's, whose interpreter wants more stack than a fiber has), the end.
 * A fault leaves all fibers of all workers as they are: kernels own nothing but memory that ends with the launch.
 *
 * A block may wait for another one: all of a cooperative launch are resident from the start, and a worker whose threads
 * have only polled for a while admits a further block, so that those that are waited for run at last.
 *
 * Global state: none here; stacks.c, services.c and faults.c each say what they share between launches.
 */

#include "state.h"

#include <sched.h>

enum {
    TICKS = 16384,
    POLL_TICKS = 64 /* a turn costs as much as 64 branches */,
    MOST_RESIDENT_THREADS = 1 << 18,
    OUTPUT_NBYTES = 1 << 16,
    MOST_IDLE_POLLS = 2000000,
    MOST_FIRST_BLOCKS = 4,
    ASK_NS = 20000000
};

extern const xf_math xf_math_table; /* arithmetic.c */

/* xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled", 2016. */
u64 draw(u64 *state) {
    u64 x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * 0x2545f4914f6cdd1dull;
}

static u64 scramble(u64 x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return (x ^ (x >> 31)) | 1;
}

/* --- faults */

void fill_place(xf_location *place, const Thread *thread, u32 site, u32 flags) {
    memcpy(place->tid, thread->seen.tid, sizeof place->tid);
    memcpy(place->ctaid, thread->seen.ctaid, sizeof place->ctaid);
    place->site = site;
    place->flags = flags;
}

/* The first fault of a launch is the one that is reported. */
static void record(Launch *launch, const xf_report *report) {
    u32 none = 0;
    if (__atomic_compare_exchange_n(&launch->fault, &none, report->kind, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        *launch->report = *report;
}

static xf_report empty_report(u32 kind) {
    xf_report report = {.kind = kind, .region = -3, .variable = -1};
    report.here.site = report.other.site = (u32)NO_SITE;
    return report;
}

static _Noreturn void abandon(Thread *thread) {
    switch_context(&thread->context, &thread->worker->main, NULL, 1);
    abort();
}

_Noreturn void fail(Thread *thread, const xf_report *report) {
    record(thread->worker->launch, report);
    abandon(thread);
}

_Noreturn void fail_at(Thread *thread, u32 kind, u32 site, const char *text) {
    xf_report report = empty_report(kind);
    fill_place(&report.here, thread, site, 0);
    snprintf(report.text, sizeof report.text, "%s", text);
    fail(thread, &report);
}

static void fail_worker(Worker *worker, u32 kind) {
    xf_report report = empty_report(kind);
    if (worker->current) fill_place(&report.here, worker->current, (u32)NO_SITE, 0);
    record(worker->launch, &report);
}

static int has_failed(const Launch *launch) {
    return __atomic_load_n(&launch->fault, __ATOMIC_RELAXED) != 0;
}

static u64 now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (u64)now.tv_sec * 1000000000u + (u64)now.tv_nsec;
}

/* On the worker's own stack. */
static void ask(Worker *worker) {
    const xf_launch *given = worker->launch->given;
    worker->asked_ns = now_ns();
    if (given->ask(given->context)) *given->stop = 1;
}

static int is_asking(Worker *worker) {
    if (worker->number || !worker->launch->given->ask || ++worker->looks & 15) return 0;
    return now_ns() - worker->asked_ns > ASK_NS;
}

/* Whether the launch is to stop; `thread` runs, or NULL on the worker's own stack. */
static int is_stopped(Worker *worker, Thread *thread) {
    const xf_launch *given = worker->launch->given;
    if (is_asking(worker)) {
        if (thread) {
            worker->asker = thread;
            worker->question = 0;
            switch_context(&thread->context, &worker->main, NULL, 0);
        } else ask(worker);
    }
    return given->stop && *given->stop;
}

/* --- the queue of ready threads */

static int make_room(Worker *worker, u32 threads) {
    u32 room = worker->ready_mask + 1, wanted = room;
    while (wanted < threads) wanted *= 2;
    if (wanted == room && worker->ready) return 1;
    Thread **ready = malloc(wanted * sizeof(Thread *));
    if (!ready) return 0;
    for (u32 i = 0; i < worker->ready_count; i++)
        ready[i] = worker->ready[(worker->ready_first + i) & worker->ready_mask];
    free(worker->ready);
    worker->ready = ready;
    worker->ready_first = 0;
    worker->ready_mask = wanted - 1;
    return 1;
}

void push_ready(Worker *worker, Thread *thread) {
    worker->ready[(worker->ready_first + worker->ready_count++) & worker->ready_mask] = thread;
    thread->state = READY;
}

void wake(Worker *worker, Queue *queue) {
    for (Thread *thread = queue->first; thread; thread = thread->next) push_ready(worker, thread);
    *queue = (Queue){NULL, NULL, 0};
}

static Thread *pop_ready(Worker *worker) {
    if (!worker->ready_count) return NULL;
    Thread **first = &worker->ready[worker->ready_first & worker->ready_mask];
    if (worker->launch->given->schedule == XF_RANDOM) {
        u64 chosen = (draw(&worker->random) >> 32) * worker->ready_count >> 32;
        Thread **place = &worker->ready[(worker->ready_first + (u32)chosen) & worker->ready_mask], *thread = *place;
        *place = *first;
        *first = thread;
    }
    worker->ready_first++;
    worker->ready_count--;
    return *first;
}

/* --- fibers */

static void run_fiber(void *argument);

/* Whether the thread has a stack to begin or go on with. */
static int has_stack(Worker *worker, Thread *thread) {
    if (thread->stack) return 1;
    Stack *stack = worker->stacks;
    if (stack) worker->stacks = stack->next;
    else if (!(stack = take_stack(worker->launch->given->stack_nbytes))) return 0;
    thread->stack = stack;
    prepare_context(&thread->context, stack->begin, stack->nbytes, run_fiber);
    thread->seen.stack_begin = (u64)(uintptr_t)stack->begin;
    thread->seen.stack_end = (u64)(uintptr_t)stack;
    return 1;
}

void leave(Thread *thread) {
    Worker *worker = thread->worker;
    if (has_failed(worker->launch)) abandon(thread);
    Thread *next = pop_ready(worker);
    if (next == thread) return;
    if (!next) {
        switch_context(&thread->context, &worker->main, NULL, 0);
        return;
    }
    if (!has_stack(worker, next)) fail_at(thread, XF_OUT_OF_MEMORY, (u32)NO_SITE, "stacks of threads");
    worker->current = next;
    switch_context(&thread->context, &next->context, next, 0);
}

/* Go on with the thread that is at work, until nothing is asked any more. */
static void switch_to(Worker *worker, Thread *thread) {
    switch_context(&worker->main, &thread->context, thread, 0);
    for (Thread *asker; (asker = worker->asker);) {
        const xf_launch *given = worker->launch->given;
        worker->asker = NULL;
        if (worker->question) worker->has_answer = given->find(given->context, worker->question, &worker->answer);
        else ask(worker);
        switch_context(&worker->main, &asker->context, asker, 0);
    }
}

int ask_for_region(Thread *thread, u64 address, xf_region *found) {
    Worker *worker = thread->worker;
    if (!worker->launch->given->find || !address) return 0;
    worker->asker = thread;
    worker->question = address;
    switch_context(&thread->context, &worker->main, NULL, 0);
    *found = worker->answer;
    return worker->has_answer != 0;
}

void note_progress(Worker *worker) {
    worker->polls = worker->idle_polls = 0;
}

static void visit_main(Thread *thread) {
    switch_context(&thread->context, &thread->worker->main, NULL, 0);
    if (has_failed(thread->worker->launch)) abandon(thread);
}

static void give_turn(Thread *thread) {
    Worker *worker = thread->worker;
    push_ready(worker, thread);
    if (++worker->polls > 4 * (u64)worker->ready_count + 64) { /* all of them only poll */
        worker->polls = 0;
        if (is_stopped(worker, thread)) fail_at(thread, XF_STOPPED, (u32)NO_SITE, "");
        if (worker->converging_count) release_converging(worker);
        else worker->is_admitting = 1;
        visit_main(thread);
        return;
    }
    leave(thread);
}

void poll(Thread *thread, u32 site) {
    Worker *worker = thread->worker;
    const xf_launch *given = worker->launch->given;
    if (!(given->flags & XF_FIBERS)) return;
    /* Checked execution sees every change of memory. Where all threads poll for long without one, none will come. */
    if (given->flags & XF_CHECKED && ++worker->idle_polls > MOST_IDLE_POLLS + 1000ull * worker->ready_count &&
        __atomic_load_n(&worker->launch->next_block, __ATOMIC_RELAXED) >= worker->launch->block_count)
        fail_at(thread, XF_ENDLESS, site, "");
    /* The lock that it polls for may be free in a moment: a switch costs more than a few tries. */
    if (given->schedule != XF_RANDOM && (++thread->polls & 15)) return;
    thread->ticks += POLL_TICKS;
    give_turn(thread);
}

static void yield_at_access(xf_thread *t, u32 site) {
    poll(as_thread(t), site);
}

static void tick(xf_thread *t, u32 site) {
    Thread *thread = as_thread(t);
    const Launch *launch = thread->worker->launch;
    thread->ticks += TICKS;
    t->budget = TICKS;
    if (has_failed(launch)) abandon(thread);
    if (is_stopped(thread->worker, thread)) fail_at(thread, XF_STOPPED, site, "");
    /* A thread that does not go to an atomic waits, by plain reads, for what it may never see. */
    if (thread->suspicions) settle_suspicions(thread, 4 * TICKS);
    if (launch->given->most_ticks && thread->ticks >= launch->given->most_ticks) fail_at(thread, XF_ENDLESS, site, "");
    if (has_fibers(launch)) give_turn(thread);
}

/* --- blocks */

/* A permutation of the blocks: a Feistel network of four rounds over as many bits as needed, walked until in range. */
static u64 permute(const Launch *launch, u64 x) {
    u64 half = launch->order_bits / 2, mask = (1ull << half) - 1;
    do {
        u64 left = x >> half, right = x & mask;
        for (int round = 0; round < 4; round++) {
            u64 mixed = left ^ (scramble(right ^ launch->order_key[round]) >> 20 & mask);
            left = right;
            right = mixed;
        }
        x = left << half | right;
    } while (x >= launch->block_count);
    return x;
}

static u64 block_at(const Launch *launch, u64 position) {
    switch (launch->given->schedule) {
    case XF_REVERSED: return launch->block_count - 1 - position;
    case XF_RANDOM: return permute(launch, position);
    default: return position;
    }
}

/* The next block for this worker; 0 where there is none left. */
static int take_block(Worker *worker, u64 *number) {
    Launch *launch = worker->launch;
    if (launch->given->flags & XF_COOPERATIVE) { /* each worker has its share, all of it resident */
        if (worker->chunk_begin >= launch->block_count) return 0;
        *number = block_at(launch, worker->chunk_begin);
        worker->chunk_begin += launch->worker_count;
        return 1;
    }
    if (worker->chunk_begin == worker->chunk_end) {
        u64 share = has_fibers(launch) ? 1 : launch->block_count / (16 * (u64)launch->worker_count);
        share = share < 1 ? 1 : share > 64 ? 64 : share;
        worker->chunk_begin = __atomic_fetch_add(&launch->next_block, share, __ATOMIC_RELAXED);
        if (worker->chunk_begin >= launch->block_count)
            return worker->chunk_begin = worker->chunk_end = launch->block_count, 0;
        worker->chunk_end =
            worker->chunk_begin + share < launch->block_count ? worker->chunk_begin + share : launch->block_count;
    }
    *number = block_at(launch, worker->chunk_begin++);
    return 1;
}

static void free_block(Block *block) {
    if (block->checks) close_block_checks(block);
    for (u32 i = 0; block->threads && i < block->count; i++)
        free(block->threads[i].line.bytes), free(block->threads[i].frames);
    free(block->threads);
    free(block->warps);
    free(block->shared_memory);
    free(block);
}

static Block *new_block(Worker *worker, u32 threads) {
    const Launch *launch = worker->launch;
    const xf_launch *given = launch->given;
    Block *block = calloc(1, sizeof *block);
    if (!block) return NULL;
    block->worker = worker;
    block->count = threads;
    block->warp_count = (launch->thread_count + WARP - 1) / WARP;
    block->threads = calloc(threads, sizeof(Thread));
    block->warps = calloc(block->warp_count, sizeof(Warp));
    block->shared_memory = calloc(1, launch->shared_nbytes + 1024);
    if (!block->threads || !block->warps || !block->shared_memory) return free_block(block), NULL;
    block->shared = (char *)(((uintptr_t)block->shared_memory + 1023) & ~(uintptr_t)1023);
    for (u32 i = 0; i < threads; i++) {
        Thread *thread = &block->threads[i];
        xf_thread *seen = &thread->seen;
        memcpy(seen->ntid, given->block, sizeof seen->ntid);
        memcpy(seen->nctaid, given->grid, sizeof seen->nctaid);
        seen->tid[0] = i % given->block[0];
        seen->tid[1] = i / given->block[0] % given->block[1];
        seen->tid[2] = i / given->block[0] / given->block[1];
        seen->lane = i % WARP;
        seen->warp = i / WARP;
        seen->shared = (u64)(uintptr_t)block->shared;
        seen->module = given->module;
        seen->dynamic_begin = launch->dynamic_begin;
        seen->dynamic_nbytes = given->dynamic_nbytes;
        seen->run = &launch->run;
        seen->math = &xf_math_table;
        thread->worker = worker;
        thread->block = block;
        thread->number = i;
    }
    if (launch->checks && !open_block_checks(block)) return free_block(block), NULL;
    return block;
}

static void place_block(Block *block, u64 number) {
    const xf_launch *given = block->worker->launch->given;
    block->number = (u32)number;
    block->id[0] = (u32)(number % given->grid[0]);
    block->id[1] = (u32)(number / given->grid[0] % given->grid[1]);
    block->id[2] = (u32)(number / given->grid[0] / given->grid[1]);
    for (u32 i = 0; i < block->count; i++) memcpy(block->threads[i].seen.ctaid, block->id, sizeof block->id);
    if (block->checks) begin_block_checks(block);
}

static void begin_thread(Thread *thread) {
    thread->seen.budget = TICKS;
    thread->ticks = 0;
    if (thread->block->checks) begin_thread_checks(thread);
}

/* Make a block resident, its threads ready; 0 without memory. */
static int admit(Worker *worker, u64 number) {
    Launch *launch = worker->launch;
    Block *block = worker->spare;
    if (!make_room(worker, (worker->resident_count + 1) * launch->thread_count)) return 0;
    if (block) worker->spare = block->next;
    else if (!(block = new_block(worker, launch->thread_count))) return 0;
    block->next = worker->resident;
    block->before = NULL;
    if (block->next) block->next->before = block;
    worker->resident = block;
    worker->resident_count++;
    block->alive = block->count;
    place_block(block, number);
    memset(block->barriers, 0, sizeof block->barriers);
    for (u32 w = 0; w < block->warp_count; w++) {
        Warp *warp = &block->warps[w];
        u32 lanes = block->count - w * WARP < WARP ? block->count - w * WARP : WARP;
        warp->alive = lanes == WARP ? ~0u : (1u << lanes) - 1;
        warp->converging = warp->meeting_count = 0;
        for (u32 lane = 0; lane < lanes; lane++) warp->lanes[lane] = &block->threads[w * WARP + lane];
    }
    int is_reversed = launch->given->schedule == XF_REVERSED;
    for (u32 i = 0; i < block->count; i++) {
        Thread *thread = &block->threads[is_reversed ? block->count - 1 - i : i];
        begin_thread(thread);
        thread->polls = 0;
        push_ready(worker, thread);
    }
    return 1;
}

static void dismiss(Worker *worker, Block *block) {
    if (block->next) block->next->before = block->before;
    if (block->before) block->before->next = block->next;
    else worker->resident = block->next;
    worker->resident_count--;
    block->next = worker->spare;
    worker->spare = block;
}

static void end_thread(Thread *thread) {
    Worker *worker = thread->worker;
    Block *block = thread->block;
    if (thread->line.nbytes) end_line(thread);
    if (block->checks) end_thread_checks(thread);
    thread->state = GONE;
    thread->stack = NULL;
    note_progress(worker);
    block->alive--;
    leave_convergence(thread);
    if (!block->alive) dismiss(worker, block);
}

/* A fiber runs one thread after the other, as long as none before it waits: kernels that seldom wait need few stacks. */
static void run_fiber(void *argument) {
    Thread *thread = argument;
    Worker *worker = thread->worker;
    Stack *stack = thread->stack;
    Context last = thread->context;
#ifdef XF_ASAN
    const void *begin;
    size_t nbytes;
    __sanitizer_finish_switch_fiber(NULL, &begin, &nbytes);
    if (!worker->main.begin) worker->main.begin = begin, worker->main.nbytes = nbytes;
#endif
    for (;;) {
        worker->launch->given->entry(&thread->seen, worker->launch->given->params);
        end_thread(thread);
        Thread *next = has_failed(worker->launch) ? NULL : pop_ready(worker);
        worker->current = next;
        if (next && !next->stack) {
            thread = next;
            thread->stack = stack;
            thread->seen.stack_begin = (u64)(uintptr_t)stack->begin;
            thread->seen.stack_end = (u64)(uintptr_t)stack;
            thread->context = last;
            continue;
        }
        stack->next = worker->stacks; /* free once this has switched, for nothing here takes one before */
        worker->stacks = stack;
        switch_context(&last, next ? &next->context : &worker->main, next, 1);
    }
}

/* Some at a time in a random order: what a block does while another one is half done shows only so. */
static u32 count_first_blocks(Worker *worker) {
    const Launch *launch = worker->launch;
    if (launch->given->schedule != XF_RANDOM) return 1;
    u32 most = MOST_RESIDENT_THREADS / launch->thread_count, count = 1 + (u32)(draw(&worker->random) % MOST_FIRST_BLOCKS);
    return count < most ? count : most ? most : 1;
}

/* The calling context is the worker's own. */
static void run_fibers(Worker *worker) {
    Launch *launch = worker->launch;
    u64 number;
    if (launch->given->flags & XF_COOPERATIVE)
        while (take_block(worker, &number))
            if (!admit(worker, number)) return fail_worker(worker, XF_OUT_OF_MEMORY);
    while (!has_failed(launch)) {
        if (worker->output.nbytes) print_output(worker);
        u32 wanted = worker->resident_count ? 0 : count_first_blocks(worker);
        if (worker->is_admitting) {
            worker->is_admitting = 0;
            wanted = worker->resident_count * (u64)launch->thread_count < MOST_RESIDENT_THREADS;
            if (!worker->is_alone) sched_yield(); /* what they poll for may be another worker's */
        }
        while (wanted-- && take_block(worker, &number)) {
            if (is_stopped(worker, NULL)) return fail_worker(worker, XF_STOPPED);
            if (!admit(worker, number)) return fail_worker(worker, XF_OUT_OF_MEMORY);
        }
        Thread *next = pop_ready(worker);
        if (!next && worker->resident_count) {
            xf_report report = empty_report(XF_DEADLOCK);
            describe_deadlock(worker->resident, &report);
            record(launch, &report);
            return;
        }
        if (!next) return;
        if (!has_stack(worker, next)) return fail_worker(worker, XF_OUT_OF_MEMORY);
        worker->current = next;
        switch_to(worker, next);
    }
}

/* A thread that waits for no other, from its begin to its end; its indices in the block are set. */
static inline void run_whole(const xf_launch *given, Block *block, Thread *thread, u32 number) {
    thread->seen.lane = number % WARP;
    thread->seen.warp = number / WARP;
    thread->number = number;
    begin_thread(thread);
    given->entry(&thread->seen, given->params);
    if (thread->line.nbytes) end_line(thread);
    if (block->checks) end_thread_checks(thread);
}

/* --- plain loops */

static void run_in_order(Block *block) {
    Thread *thread = &block->threads[0];
    const xf_launch *given = block->worker->launch->given;
    xf_thread *seen = &thread->seen;
    u32 number = 0;
    for (u32 z = 0; z < given->block[2]; z++)
        for (u32 y = 0; y < given->block[1]; y++)
            for (u32 x = 0; x < given->block[0]; x++, number++) {
                seen->tid[0] = x;
                seen->tid[1] = y;
                seen->tid[2] = z;
                run_whole(given, block, thread, number);
            }
}

/* The threads by the numbers in `order`. */
static void run_as_listed(Block *block, const u32 *order) {
    Thread *thread = &block->threads[0];
    const Launch *launch = block->worker->launch;
    const xf_launch *given = launch->given;
    xf_thread *seen = &thread->seen;
    for (u32 i = 0; i < launch->thread_count; i++) {
        u32 number = order[i];
        seen->tid[0] = number % given->block[0];
        seen->tid[1] = number / given->block[0] % given->block[1];
        seen->tid[2] = number / given->block[0] / given->block[1];
        run_whole(given, block, thread, number);
    }
}

static void shuffle_order(Worker *worker, u32 *order, u32 count) {
    for (u32 i = count; i > 1; i--) {
        u32 j = (u32)((draw(&worker->random) >> 32) * i >> 32), kept = order[i - 1];
        order[i - 1] = order[j];
        order[j] = kept;
    }
}

/* On a stack of a fiber's, so that an overflow is told in the same way. */
static void run_loop(void *argument) {
    Thread *thread = argument;
    Worker *worker = thread->worker;
    Launch *launch = worker->launch;
    u32 schedule = launch->given->schedule, order[1024];
    u64 number;
#ifdef XF_ASAN
    __sanitizer_finish_switch_fiber(NULL, &worker->main.begin, &worker->main.nbytes);
#endif
    for (u32 i = 0; i < launch->thread_count; i++) order[i] = launch->thread_count - 1 - i;
    while (!has_failed(launch) && take_block(worker, &number)) {
        if (is_stopped(worker, thread)) fail_at(thread, XF_STOPPED, (u32)NO_SITE, "");
        place_block(thread->block, number);
        if (schedule == XF_RANDOM) shuffle_order(worker, order, launch->thread_count);
        if (schedule == XF_IN_ORDER) run_in_order(thread->block);
        else run_as_listed(thread->block, order);
        if (worker->output.nbytes > OUTPUT_NBYTES) visit_main(thread);
    }
    worker->current = NULL;
    switch_context(&thread->context, &worker->main, NULL, 1);
}

static void run_plain(Worker *worker) {
    Block *block = new_block(worker, 1);
    Stack *stack = block ? take_stack(worker->launch->given->stack_nbytes) : NULL;
    worker->spare = block;
    worker->stacks = stack;
    if (stack) stack->next = NULL;
    if (!stack) return fail_worker(worker, XF_OUT_OF_MEMORY);
    Thread *thread = block->threads;
    block->alive = worker->launch->thread_count;
    thread->seen.stack_begin = (u64)(uintptr_t)stack->begin;
    thread->seen.stack_end = (u64)(uintptr_t)stack;
    thread->stack = stack;
    prepare_context(&thread->context, stack->begin, stack->nbytes, run_loop);
    worker->current = thread;
    do {
        switch_to(worker, thread);
        if (worker->output.nbytes) print_output(worker);
    } while (worker->current && !has_failed(worker->launch));
}

/* --- workers and launches */

static void free_worker(Worker *worker) {
    for (Block *block = worker->resident, *next; block; block = next) next = block->next, free_block(block);
    for (Block *block = worker->spare, *next; block; block = next) next = block->next, free_block(block);
    free(worker->ready);
    free(worker->output.bytes);
    free(worker);
}

/* The stacks of threads that a fault has left in the middle go back too. */
static void collect_stacks(Worker *worker) {
    for (Block *block = worker->resident; block; block = block->next)
        for (u32 i = 0; i < block->count; i++) {
            Stack *stack = block->threads[i].stack;
            if (!stack) continue;
            stack->next = worker->stacks;
            worker->stacks = stack;
        }
    if (worker->stacks) give_stacks(worker->stacks);
    worker->stacks = NULL;
}

static void *run_worker(void *argument) {
    Worker *worker = argument;
    if (!catch_faults(worker)) {
        fail_worker(worker, XF_OUT_OF_MEMORY);
        return NULL;
    }
    if (sigsetjmp(worker->recovery, 1) == 0) { /* else faults.c has recorded a fault and left the fibers */
        if (has_fibers(worker->launch)) run_fibers(worker);
        else run_plain(worker);
    }
    release_faults(worker);
    if (worker->output.nbytes) print_output(worker);
    collect_stacks(worker);
    return NULL;
}

static void *run_other_worker(void *argument) {
    Launch *launch = ((Worker *)argument)->launch;
    run_worker(argument);
    pthread_mutex_lock(&launch->lock);
    launch->running--;
    pthread_cond_signal(&launch->ended);
    pthread_mutex_unlock(&launch->lock);
    return NULL;
}

/* Until the other workers have ended; the first one is asked meanwhile. */
static void wait_for_workers(Launch *launch, Worker *first) {
    pthread_mutex_lock(&launch->lock);
    while (launch->running) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += ASK_NS;
        if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
        pthread_cond_timedwait(&launch->ended, &launch->lock, &until);
        if (!launch->running || !launch->given->ask || now_ns() - first->asked_ns < ASK_NS) continue;
        pthread_mutex_unlock(&launch->lock); /* which printing takes, while it waits for the GIL */
        ask(first);
        pthread_mutex_lock(&launch->lock);
    }
    pthread_mutex_unlock(&launch->lock);
}

void record_fault(Worker *worker, const xf_report *report) {
    record(worker->launch, report);
}

static Worker *new_worker(Launch *launch, u32 number) {
    Worker *worker = calloc(1, sizeof *worker);
    if (!worker) return NULL;
    worker->launch = launch;
    worker->number = number;
    worker->chunk_begin = launch->given->flags & XF_COOPERATIVE ? number : 0;
    worker->random = scramble(launch->given->seed + number);
    worker->ready_mask = 255;
    worker->asked_ns = launch->given->ask ? now_ns() : 0;
    return worker;
}

static void fill_tables(Launch *launch) {
    int is_watched = (launch->given->flags & (XF_CHECKED | XF_TRACK)) != 0;
    launch->run = (xf_run){
        .barrier = wait_at_barrier,
        .warp_sync = synchronize_warp,
        .shuffle = shuffle,
        .vote = vote,
        .match = match,
        .redux = reduce,
        .active_mask = find_active_mask,
        .fence = check_fence,
        .atomic = is_watched ? check_atomic : run_atomic,
        .access = check_access,
        .store = check_store,
        .local_begin = begin_local,
        .local_end = end_local,
        .yield = yield_at_access,
        .tick = tick,
        .printf = print_formatted,
        .assert_fail = fail_assertion,
        .trap = run_trap,
        .allocate = allocate_memory,
        .release = free_memory,
        .clock = read_clock,
        .global_timer = read_global_timer,
        .environment = read_environment,
        .unsupported = refuse_instruction,
        .unset = refuse_unset,
        .forget = forget_value,
        .lacks = lacks_value,
        .overflow = refuse_overflow,
    };
    u64 bits = 2;
    while (bits < 64 && (1ull << bits) < launch->block_count) bits += 2;
    launch->order_bits = bits;
    for (u64 round = 0; round < 4; round++) launch->order_key[round] = scramble(launch->given->seed * 4 + round);
}

static int is_acceptable(const Launch *launch) {
    const xf_launch *given = launch->given;
    u64 threads = (u64)given->block[0] * given->block[1] * given->block[2];
    return threads >= 1 && threads <= 1024 && launch->block_count >= 1;
}

u32 xf_run_launch(const xf_launch *given, xf_report *report) {
    Launch launch = {.given = given, .report = report};
    *report = empty_report(XF_OK);
    launch.thread_count = given->block[0] * given->block[1] * given->block[2];
    launch.block_count = (u64)given->grid[0] * given->grid[1] * given->grid[2];
    if (!is_acceptable(&launch)) {
        snprintf(report->text, sizeof report->text, "a block has 1 to 1024 threads, a grid 1 block or more");
        return report->kind = XF_UNSUPPORTED;
    }
    launch.dynamic_begin = (XF_SHARED_BEGIN + given->static_nbytes + (given->static_nbytes ? 16 : 0) + 127) & ~127u;
    launch.shared_nbytes = launch.dynamic_begin + given->dynamic_nbytes + 128;
    launch.workspace[0] = sizeof launch.workspace;
    /* One worker where accesses are watched: cells of the shadow have no locks, and a report is the same each time. */
    int is_watched = (given->flags & (XF_CHECKED | XF_TRACK)) != 0;
    launch.worker_count = given->workers < 1 || is_watched ? 1 : given->workers < 256 ? given->workers : 256;
    if (launch.worker_count > launch.block_count) launch.worker_count = (u32)launch.block_count;
    fill_tables(&launch);
    pthread_mutex_init(&launch.lock, NULL);
    pthread_cond_init(&launch.ended, NULL);
    Worker *workers[256];
    u32 count = 0;
    if (is_watched && !open_checks(&launch)) launch.worker_count = 0;
    while (count < launch.worker_count && (workers[count] = new_worker(&launch, count))) count++;
    launch.worker_count = count;
    if (!count) report->kind = launch.fault = XF_OUT_OF_MEMORY;
    /* The caller is the first worker: starting a thread takes longer than a small kernel. */
    u32 started = 1;
    sigset_t others, before;
    keep_signals_out(&others);
    pthread_sigmask(SIG_BLOCK, &others, &before);
    for (; started < count; started++)
        if (pthread_create(&workers[started]->os_thread, NULL, run_other_worker, workers[started])) break;
    pthread_mutex_lock(&launch.lock);
    launch.running += started - 1;
    pthread_mutex_unlock(&launch.lock);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started < count && given->flags & XF_COOPERATIVE) { /* blocks of theirs would be waited for */
        xf_report without = empty_report(XF_OUT_OF_MEMORY);
        record(&launch, &without);
    }
    if (count) {
        workers[0]->is_alone = started == 1;
        run_worker(workers[0]);
    }
    if (started > 1) wait_for_workers(&launch, workers[0]);
    for (u32 i = 1; i < started; i++) pthread_join(workers[i]->os_thread, NULL);
    for (u32 i = 0; i < count; i++) free_worker(workers[i]);
    if (launch.checks) close_checks(&launch);
    if (!is_checked(&launch)) note_unwatched();
    pthread_cond_destroy(&launch.ended);
    pthread_mutex_destroy(&launch.lock);
    return launch.fault;
}
