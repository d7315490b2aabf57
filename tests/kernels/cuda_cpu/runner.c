/* Runs translated kernels thread after thread, without barriers: enough to look at what the translator writes. Checked
   kernels run as well: their accesses are counted, and done. */
#include "kernel.h"
#include "arithmetic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static u64 accesses, stores, atomics, begun, ended, printed, traps, ticks, fences, yields;

static char *host(xf_thread *t, u64 address, u32 flags) {
    return (char *)(flags & XF_SHARED ? t->shared + address : address);
}

static char *access_(xf_thread *t, u64 address, u32 nbytes, u32 flags, u32 site) {
    (void)nbytes, (void)site;
    accesses++;
    return host(t, address, flags);
}

static void store_(xf_thread *t, u64 address, u32 nbytes, u32 flags, const void *value, u32 site) {
    (void)site;
    stores++;
    memcpy(host(t, address, flags), value, nbytes);
}

static u64 combine(u64 old, u64 first, u64 second, u32 operation, u32 type) {
    switch (operation) {
        case XF_ADD:
            if (type == XF_F32) {
                f32 a, b;
                memcpy(&a, &old, 4), memcpy(&b, &first, 4);
                a += b;
                old = 0;
                memcpy(&old, &a, 4);
                return old;
            }
            if (type == XF_F64) {
                f64 a, b;
                memcpy(&a, &old, 8), memcpy(&b, &first, 8);
                a += b;
                memcpy(&old, &a, 8);
                return old;
            }
            return old + first;
        case XF_MIN:
            if (type == XF_S32) return (s32)old < (s32)first ? old : first;
            if (type == XF_S64) return (s64)old < (s64)first ? old : first;
            return old < first ? old : first;
        case XF_MAX:
            if (type == XF_S32) return (s32)old > (s32)first ? old : first;
            if (type == XF_S64) return (s64)old > (s64)first ? old : first;
            return old > first ? old : first;
        case XF_INC: return old >= first ? 0 : old + 1;
        case XF_DEC: return old == 0 || old > first ? first : old - 1;
        case XF_AND: return old & first;
        case XF_OR: return old | first;
        case XF_XOR: return old ^ first;
        case XF_EXCH: return first;
        default: return old == first ? second : old;
    }
}

static void atomic_(xf_thread *t, u64 address, u32 operation, u32 type, const void *first, const void *second, void *old,
                    u32 flags, u32 site) {
    static const u32 sizes[] = {2, 4, 8, 4, 8, 2, 4, 2, 4, 4, 8, 16};
    u64 a = 0, b = 0, c = 0;
    (void)site;
    atomics++;
    memcpy(&a, host(t, address, flags), sizes[type]);
    memcpy(&b, first, sizes[type]);
    if (second) memcpy(&c, second, sizes[type]);
    memcpy(old, &a, sizes[type]);
    a = combine(a, b, c, operation, type);
    memcpy(host(t, address, flags), &a, sizes[type]);
}

static void local_begin(xf_thread *t, char *memory, u32 nbytes) {
    (void)t;
    begun++;
    memset(memory, 0xa5, nbytes);
}

static void local_end(xf_thread *t, char *memory, u32 nbytes) {
    (void)t, (void)memory, (void)nbytes;
    ended++;
}

static void yield_(xf_thread *t, u32 site) {
    (void)t, (void)site;
    yields++;
}

static void tick(xf_thread *t, u32 site) {
    (void)site;
    ticks++;
    t->budget = 1000;
}

static u32 printf_(xf_thread *t, const char *format, const char *arguments, u32 site) {
    (void)t, (void)site, (void)arguments;
    printed += strlen(format);
    return 1;
}

static void trap(xf_thread *t, u32 site) {
    (void)t, (void)site;
    traps++;
}

static void fence(xf_thread *t, u32 scope, u32 site) {
    (void)t, (void)scope, (void)site;
    fences++;
}

static u64 allocate(xf_thread *t, u64 nbytes, u32 site) {
    (void)t, (void)site;
    return (u64)malloc(nbytes);
}

static void release(xf_thread *t, u64 address, u32 site) {
    (void)t, (void)site;
    free((void *)address);
}

static u64 clock_(xf_thread *t) {
    static u64 now;
    (void)t;
    return now += 10;
}

static u32 barrier(xf_thread *t, u32 kind, u32 id, u32 threads, u32 value, u32 site) { /* of one thread */
    (void)t, (void)kind, (void)id, (void)threads, (void)site;
    return value;
}

static u32 shuffle(xf_thread *t, u32 mode, u32 value, u32 b, u32 c, u32 mask, u32 *in_range, u32 site) {
    (void)t, (void)mode, (void)c, (void)mask, (void)site;
    *in_range = b == 0;
    return value;
}

static u32 vote(xf_thread *t, u32 mode, u32 predicate, u32 mask, u32 site) {
    (void)site, (void)mask;
    return mode == XF_VOTE_BALLOT ? predicate << t->lane : mode == XF_VOTE_UNI ? 1 : predicate;
}

static const xf_run table = {
    .access = access_, .store = store_, .atomic = atomic_, .local_begin = local_begin, .local_end = local_end,
    .yield = yield_, .tick = tick, .printf = printf_, .trap = trap, .fence = fence, .allocate = allocate,
    .release = release, .clock = clock_, .global_timer = clock_, .barrier = barrier, .shuffle = shuffle, .vote = vote,
};

void run_kernel(void (*entry)(xf_thread *, const char *), const char *params, u64 module, const u32 *grid, const u32 *block,
                u32 static_nbytes, u32 dynamic_nbytes) {
    char *shared = aligned_alloc(4096, ((u64)XF_SHARED_BEGIN + static_nbytes + dynamic_nbytes + 8192) & ~4095ull);
    xf_thread t = {.run = &table, .math = &xf_math_table, .shared = (u64)shared, .module = module, .budget = 1000};
    u64 here = (u64)&t;
    accesses = stores = atomics = begun = ended = printed = traps = ticks = fences = yields = 0;
    t.stack_begin = here - (1 << 20);
    t.stack_end = here + (1 << 16);
    t.dynamic_begin = (XF_SHARED_BEGIN + static_nbytes + 127) & ~127u;
    t.dynamic_nbytes = dynamic_nbytes;
    memcpy(t.ntid, block, sizeof t.ntid);
    memcpy(t.nctaid, grid, sizeof t.nctaid);
    for (t.ctaid[2] = 0; t.ctaid[2] < grid[2]; t.ctaid[2]++)
        for (t.ctaid[1] = 0; t.ctaid[1] < grid[1]; t.ctaid[1]++)
            for (t.ctaid[0] = 0; t.ctaid[0] < grid[0]; t.ctaid[0]++)
                for (t.tid[2] = 0; t.tid[2] < block[2]; t.tid[2]++)
                    for (t.tid[1] = 0; t.tid[1] < block[1]; t.tid[1]++)
                        for (t.tid[0] = 0; t.tid[0] < block[0]; t.tid[0]++) {
                            u32 number = t.tid[0] + block[0] * (t.tid[1] + block[1] * t.tid[2]);
                            t.lane = number % 32;
                            t.warp = number / 32;
                            entry(&t, params);
                        }
    free(shared);
}

void read_counts(u64 *counts) {
    const u64 all[] = {accesses, stores, atomics, begun, ended, printed, traps, ticks, fences, yields};
    memcpy(counts, all, sizeof all);
}

/* The approximate instructions themselves, on arrays; of consecutive floats without an operand. */
void approximate(u32 operation, u32 flushes, u32 first, const f32 *a, f32 *results, u32 count) {
    const xf_approximations *table = xf_math_table.approximate;
    f32 (*function)(f32) = flushes ? table->flushed[operation] : table->full[operation];
    for (u32 i = 0; i < count; i++) {
        u32 bits = first + i;
        f32 operand;
        memcpy(&operand, &bits, 4);
        results[i] = function(a ? a[i] : operand);
    }
}

void approximate_narrow(u32 operation, u32 format, u16 *results) {
    for (u32 bits = 0; bits < 65536; bits++)
        results[bits] = (u16)xf_math_table.approximate->narrow(operation, bits, format);
}

void approximate_double(u32 operation, u32 flushes, const f64 *a, f64 *results, u32 count) {
    const xf_approximations *table = xf_math_table.approximate;
    f64 (*function)(f64) = operation == XF_RCP ? table->rcp_f64 : flushes ? table->rsqrt_ftz_f64 : table->rsqrt_f64;
    for (u32 i = 0; i < count; i++) results[i] = function(a[i]);
}
