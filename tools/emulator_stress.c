/* Launches of CUDA C on a CPU from several threads at once, right kernels and faulty ones: a program for the sanitizers,
   and for processors that no machine at hand has, together with the C files of xferlib/_native/emulator and the kernels
   of tests/kernels/cuda_cpu/runtime_kernels.c, without Python. tools/check_native.py runs it. */

#include "../xferlib/_native/emulator/emulator.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rounds: each case once in each schedule. */
enum { THREADS = 4, ROUNDS = 3, GRID = 6, BLOCK = 64, COUNT = GRID * BLOCK };

typedef void Kernel(xf_thread *, const char *);

typedef struct {
    const char *name;
    Kernel *entry;
    u32 flags, unchecked, checked; /* the kinds of fault, unchecked and checked */
} Case;

#define EACH_PLAIN(X)                                                \
    X(copy, 0, XF_OK, XF_OK)                                         \
    X(histogram, 0, XF_OK, XF_OK)                                    \
    X(local, 0, XF_OK, XF_OK)                                        \
    X(hello, 0, XF_OK, XF_OK)                                        \
    X(heap, 0, XF_OK, XF_OK)                                         \
    X(bug_wild, 0, XF_SEGMENT_FAULT, XF_SEGMENT_FAULT)              \
    X(bug_trap, 0, XF_TRAP, XF_TRAP)                                 \
    X(bug_assert, 0, XF_ASSERT, XF_ASSERT)
#define EACH_WITH_FIBERS(X)                                          \
    X(block_sum, XF_FIBERS, XF_OK, XF_OK)                            \
    X(warp_sum, XF_FIBERS, XF_OK, XF_OK)                             \
    X(grid_sum, XF_FIBERS, XF_OK, XF_OK)                             \
    X(spin_lock, XF_FIBERS, XF_OK, XF_OK)                            \
    X(double_buffer, XF_FIBERS, XF_OK, XF_OK)                        \
    X(tiles, XF_FIBERS, XF_OK, XF_OK)                                \
    X(look_back, XF_FIBERS, XF_OK, XF_OK)                            \
    X(producer, XF_FIBERS, XF_OK, XF_OK)                             \
    X(grid_sync, XF_FIBERS | XF_COOPERATIVE, XF_OK, XF_OK)           \
    X(bug_deadlock, XF_FIBERS, XF_DEADLOCK, XF_DEADLOCK)             \
    X(bug_divergent_barrier, XF_FIBERS, XF_OK, XF_DIVERGENT_BARRIER) \
    X(bug_stack, XF_FIBERS, XF_STACK_OVERFLOW, XF_STACK_OVERFLOW)
#define EACH(X) EACH_PLAIN(X) EACH_WITH_FIBERS(X)

#define DECLARE(NAME, FLAGS, UNCHECKED, CHECKED) extern Kernel NAME;
#define LIST(NAME, FLAGS, UNCHECKED, CHECKED) {#NAME, NAME, FLAGS, UNCHECKED, CHECKED},
EACH(DECLARE)
static const Case cases[] = {EACH(LIST)};

#ifdef CHECKED
enum { IS_CHECKED = 1 };
#else
enum { IS_CHECKED = 0 };
#endif

static void ignore(u64 context, const char *text, u64 nbytes) {
    (void)context, (void)text, (void)nbytes;
}

/* One launch with arrays of its own; 1 if it ends otherwise than it should. */
static int run_case(const Case *each, u32 schedule, u32 workers, u64 seed) {
    struct {
        u32 *in, *out, *more;
        u32 count, value;
    } arguments = {0};
    u32 *arrays[3], places[2000];
    xf_region regions[3] = {{0}};
    for (u32 i = 0; i < 2000; i++) places[i] = i;
    for (int i = 0; i < 3; i++) {
        if (!(arrays[i] = calloc(COUNT, sizeof(u32)))) abort();
        regions[i] = (xf_region){.begin = (u64)(uintptr_t)arrays[i], .nbytes = COUNT * sizeof(u32), .item_nbytes = 4};
    }
    for (u32 i = 0; i < COUNT; i++) arrays[0][i] = i % 23;
    arguments.in = arrays[0], arguments.out = arrays[1], arguments.more = arrays[2], arguments.count = COUNT;
    xf_variable variable = {XF_SHARED_BEGIN, 4 * (2 * BLOCK + 1)};
    xf_launch launch = {
        .entry = each->entry, .params = (const char *)&arguments, .grid = {GRID, 1, 1}, .block = {BLOCK, 1, 1},
        .static_nbytes = (variable.nbytes + 31) / 16 * 16, .workers = workers, .schedule = schedule, .seed = seed,
        .flags = each->flags | (IS_CHECKED ? XF_CHECKED | XF_FIBERS : 0), .stack_nbytes = 65536, .most_ticks = 10000000,
        .regions = regions, .region_count = 3, .variables = &variable, .variable_count = 1, .places = places,
        .place_count = 2000, .print = ignore,
    };
    xf_report report = {0};
    u32 kind = xf_run_launch(&launch, &report), wanted = IS_CHECKED ? each->checked : each->unchecked;
    for (int i = 0; i < 3; i++) free(arrays[i]);
    if (kind != wanted) printf("%s: fault %u, not %u (%s)\n", each->name, kind, wanted, report.text);
    return kind != wanted;
}

static void *run_some(void *number) {
    u64 seed = (u64)(uintptr_t)number;
    uintptr_t failed = 0;
    for (u32 round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            failed += (uintptr_t)run_case(&cases[(i + seed) % (sizeof cases / sizeof *cases)], round % 3, 1 + round % 3, seed);
    return (void *)failed;
}

int main(void) {
    pthread_t threads[THREADS];
    uintptr_t failed = 0;
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, run_some, (void *)i)) abort();
    for (int i = 0; i < THREADS; i++) {
        void *one;
        pthread_join(threads[i], &one);
        failed += (uintptr_t)one;
    }
    return failed != 0;
}
