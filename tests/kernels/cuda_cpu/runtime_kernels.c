/* Kernels as the translator writes them, by hand, for test_runtime.py; compiled with and without CHECKED.
 *
 * The number of a site is its line in this file. A line that a report must name carries a mark, MARK(a) or MARK(b).
 */
#include "kernel.h"

#define HERE __LINE__
#define MARK(name)
#define EXPORT __attribute__((visibility("default")))

#ifdef CHECKED
#define READ_AS(TYPE, ADDRESS, FLAGS) \
    (*(TYPE *)t->run->access(t, (u64)(ADDRESS), sizeof(TYPE), XF_READ | (FLAGS), HERE))
#define WRITE_AS(TYPE, ADDRESS, FLAGS, VALUE)                                                        \
    do {                                                                                             \
        TYPE written = (VALUE);                                                                      \
        t->run->store(t, (u64)(ADDRESS), sizeof(TYPE), XF_WRITE | (FLAGS), &written, HERE);          \
    } while (0)
#define BEGIN_LOCAL(MEMORY) t->run->local_begin(t, (char *)(MEMORY), sizeof(MEMORY))
#define END_LOCAL(MEMORY) t->run->local_end(t, (char *)(MEMORY), sizeof(MEMORY))
#else
#define READ_AS(TYPE, ADDRESS, FLAGS)                                                                \
    ((FLAGS) & (XF_STRONG | XF_ACQUIRE) ? t->run->yield(t, HERE) : (void)0,                          \
     *(volatile TYPE *)((FLAGS) & XF_SHARED ? (u64)(ADDRESS) + t->shared : (u64)(ADDRESS)))
#define WRITE_AS(TYPE, ADDRESS, FLAGS, VALUE) \
    (*(volatile TYPE *)((FLAGS) & XF_SHARED ? (u64)(ADDRESS) + t->shared : (u64)(ADDRESS)) = (VALUE))
#define BEGIN_LOCAL(MEMORY)
#define END_LOCAL(MEMORY)
#endif
#define GET(POINTER, INDEX) READ_AS(u32, (u64)(POINTER) + 4 * (u64)(s64)(INDEX), XF_GLOBAL)
#define PUT(POINTER, INDEX, VALUE) WRITE_AS(u32, (u64)(POINTER) + 4 * (u64)(s64)(INDEX), XF_GLOBAL, VALUE)
#define GET_STRONG(POINTER, INDEX) READ_AS(u32, (u64)(POINTER) + 4 * (u64)(s64)(INDEX), XF_GLOBAL | XF_STRONG)
#define PUT_STRONG(POINTER, INDEX, VALUE) WRITE_AS(u32, (u64)(POINTER) + 4 * (u64)(s64)(INDEX), XF_GLOBAL | XF_STRONG, VALUE)
#define SHARED_AT(INDEX) (XF_SHARED_BEGIN + 4 * (u64)(s64)(INDEX))
#define GET_SHARED(INDEX) READ_AS(u32, SHARED_AT(INDEX), XF_SHARED)
#define PUT_SHARED(INDEX, VALUE) WRITE_AS(u32, SHARED_AT(INDEX), XF_SHARED, VALUE)
#define SYNC() t->run->barrier(t, XF_BAR_SYNC, 0, 0, 0, HERE)
#define SYNC_WARP(MASK) t->run->warp_sync(t, MASK, HERE)
#define FENCE() t->run->fence(t, XF_FENCE_DEVICE, HERE)
#define TICK() (--t->budget <= 0 ? t->run->tick(t, HERE) : (void)0)
#define ATOMIC(OPERATION, POINTER, INDEX, VALUE) change(t, (u64)(POINTER) + 4 * (u64)(s64)(INDEX), OPERATION, VALUE, 0, XF_GLOBAL, HERE)
#define CAS(POINTER, INDEX, OLD, NEW) change(t, (u64)(POINTER) + 4 * (u64)(s64)(INDEX), XF_CAS, OLD, NEW, XF_GLOBAL, HERE)
#define ALL 0xffffffffu

typedef struct {
    u32 *in, *out, *more;
    u32 count, value;
} Arguments;

#define KERNEL(NAME) EXPORT void NAME(xf_thread *t, const char *params)
#define ARGUMENTS() const Arguments *a = (const Arguments *)params; (void)a
#define TID (t->tid[0])
#define BLOCK (t->ctaid[0])
#define INDEX (t->ctaid[0] * t->ntid[0] + t->tid[0])

static u32 change(xf_thread *t, u64 address, u32 operation, u32 first, u32 second, u32 flags, u32 site) {
    u32 old;
    t->run->atomic(t, address, operation, XF_U32, &first, &second, &old, XF_READ | XF_WRITE | XF_STRONG | flags, site);
    return old;
}

/* --- correct ones */

KERNEL(copy) {
    ARGUMENTS();
    if (INDEX < a->count) PUT(a->out, INDEX, GET(a->in, INDEX) + 1);
}

KERNEL(nothing) {
    (void)t, (void)params;
}

KERNEL(block_sum) {
    ARGUMENTS();
    PUT_SHARED(TID, GET(a->in, INDEX));
    SYNC();
    for (u32 half = t->ntid[0] / 2; half; half /= 2) {
        if (TID < half) PUT_SHARED(TID, GET_SHARED(TID) + GET_SHARED(TID + half));
        SYNC();
    }
    if (TID == 0) PUT(a->out, BLOCK, GET_SHARED(0));
}

KERNEL(warp_sum) {
    ARGUMENTS();
    u32 sum = GET(a->in, INDEX), is_in;
    for (u32 offset = 16; offset; offset /= 2) sum += t->run->shuffle(t, XF_SHFL_DOWN, sum, offset, 31, ALL, &is_in, HERE);
    if (t->lane == 0) PUT(a->out, INDEX / 32, sum);
}

/* All operations of a warp, their results combined, for the test to compute as well. */
KERNEL(warp_operations) {
    ARGUMENTS();
    u32 x = GET(a->in, INDEX), is_in, all_equal, *out = a->out + 16 * INDEX;
    PUT(out, 0, t->run->shuffle(t, XF_SHFL_UP, x, 3, 0, ALL, &is_in, HERE));
    PUT(out, 1, is_in);
    PUT(out, 2, t->run->shuffle(t, XF_SHFL_BFLY, x, 5, 0x1f, ALL, &is_in, HERE));
    PUT(out, 3, t->run->shuffle(t, XF_SHFL_IDX, x, 2, 0x1f | 24 << 8, ALL, &is_in, HERE));
    PUT(out, 4, t->run->vote(t, XF_VOTE_BALLOT, x & 1, ALL, HERE));
    PUT(out, 5, t->run->vote(t, XF_VOTE_ANY, x == 7, ALL, HERE) | t->run->vote(t, XF_VOTE_ALL, x < 99, ALL, HERE) << 1);
    PUT(out, 6, t->run->match(t, XF_MATCH_ANY, x & 3, ALL, &all_equal, HERE));
    PUT(out, 7, t->run->match(t, XF_MATCH_ALL, x >> 20, ALL, &all_equal, HERE));
    PUT(out, 8, all_equal);
    PUT(out, 9, t->run->redux(t, XF_MAX, XF_S32, x - 50, ALL, HERE));
    PUT(out, 10, t->run->redux(t, XF_ADD, XF_U32, x, 0xffu << (t->lane & ~7u), HERE));
    if (t->lane % 2) PUT(out, 11, t->run->active_mask(t, HERE));
    else PUT(out, 11, 1);
    PUT(out, 12, t->run->barrier(t, XF_BAR_POPC, 0, 0, x & 1, HERE));
    PUT(out, 13, t->run->barrier(t, XF_BAR_AND, 1, 0, x < 99, HERE) | t->run->barrier(t, XF_BAR_OR, 2, 0, x == 7, HERE) << 1);
}

static u32 *last_block(xf_thread *t, const Arguments *a, int has_fence) {
    SYNC();
    if (TID == 0) {
        u32 sum = 0;
        for (u32 i = 0; i < t->ntid[0]; i++) sum += GET_SHARED(i);
        PUT(a->more, 1 + BLOCK, sum); MARK(last_block_b)
        if (has_fence) FENCE();
        PUT_SHARED(t->ntid[0], ATOMIC(XF_ADD, a->more, 0, 1) == t->nctaid[0] - 1);
    }
    SYNC();
    if (!GET_SHARED(t->ntid[0])) return 0;
    FENCE();
    if (TID == 0) {
        u32 sum = 0;
        for (u32 i = 0; i < t->nctaid[0]; i++) sum += GET(a->more, 1 + i); MARK(last_block_a)
        PUT(a->out, 0, sum);
    }
    return 0;
}

KERNEL(grid_sum) {
    ARGUMENTS();
    PUT_SHARED(TID, GET(a->in, INDEX));
    last_block(t, a, 1);
}

KERNEL(spin_lock) {
    ARGUMENTS();
    while (CAS(a->more, 0, 0, 1)) TICK();
    FENCE();
    PUT(a->out, 0, GET(a->out, 0) + GET(a->in, INDEX));
    FENCE();
    ATOMIC(XF_EXCH, a->more, 0, 0);
}

KERNEL(double_buffer) {
    ARGUMENTS();
    u32 n = t->ntid[0];
    PUT_SHARED(TID, GET(a->in, INDEX));
    SYNC();
    for (u32 step = 0; step < 8; step++) {
        u32 from = step % 2 * n, to = n - from;
        PUT_SHARED(to + TID, GET_SHARED(from + TID) + GET_SHARED(from + (TID + 1) % n));
        SYNC();
    }
    PUT(a->out, INDEX, GET_SHARED(TID));
}

KERNEL(early_exit) {
    ARGUMENTS();
    if (INDEX >= a->count) return;
    PUT_SHARED(TID, INDEX);
    SYNC();
    u32 other = INDEX + 1 < a->count && TID + 1 < t->ntid[0] ? TID + 1 : TID;
    PUT(a->out, INDEX, GET_SHARED(other));
}

KERNEL(same_value) {
    ARGUMENTS();
    if (TID == 0) PUT_SHARED(0, 0);
    SYNC();
    if (GET(a->in, INDEX) > 10) {
        PUT_SHARED(0, 1);
        PUT(a->more, 0, 1);
    }
    SYNC();
    PUT(a->out, INDEX, GET_SHARED(0));
}

KERNEL(warp_synchronous) {
    ARGUMENTS();
    PUT_SHARED(TID, GET(a->in, INDEX));
    SYNC_WARP(ALL);
    for (u32 half = 16; half; half /= 2) {
        u32 sum = GET_SHARED(TID) + (t->lane < half ? GET_SHARED(TID + half) : 0);
        SYNC_WARP(ALL);
        PUT_SHARED(TID, sum);
        SYNC_WARP(ALL);
    }
    if (t->lane == 0) PUT(a->out, INDEX / 32, GET_SHARED(TID));
}

/* Tiles of eight lanes, which go different ways. */
KERNEL(tiles) {
    ARGUMENTS();
    u32 mask = 0xffu << (t->lane & ~7u);
    for (u32 i = 0; i <= t->lane / 8; i++) {
        PUT_SHARED(TID, GET(a->in, INDEX) + i);
        SYNC_WARP(mask);
        u32 value = GET_SHARED((TID & ~7u) + (TID + 1) % 8);
        SYNC_WARP(mask);
        if (i == t->lane / 8) PUT(a->out, INDEX, value);
    }
}

static void sync_grid(xf_thread *t) {
    u32 *barrier = (u32 *)(t->run->environment(t, 1) << 32 | t->run->environment(t, 2)) + 1;
    SYNC();
    if (TID == 0) {
        u32 expected = t->nctaid[0], more = BLOCK ? 1 : 0x80000000u - (expected - 1), old;
        t->run->atomic(t, (u64)barrier, XF_ADD, XF_U32, &more, 0, &old, XF_READ | XF_WRITE | XF_STRONG | XF_RELEASE | XF_GLOBAL, HERE);
        for (;;) {
            u32 now = READ_AS(u32, barrier, XF_GLOBAL | XF_STRONG | XF_ACQUIRE);
            if ((old ^ now) & 0x80000000u) break;
            TICK();
        }
    }
    SYNC();
}

KERNEL(grid_sync) {
    ARGUMENTS();
    u32 n = t->nctaid[0] * t->ntid[0];
    PUT(a->more, INDEX, GET(a->in, INDEX));
    for (u32 step = 0; step < 3; step++) {
        sync_grid(t);
        u32 value = GET(a->more, INDEX) + GET(a->more, (INDEX + 37) % n);
        sync_grid(t);
        PUT(a->more, INDEX, value);
    }
    PUT(a->out, INDEX, GET(a->more, INDEX));
}

/* Decoupled look-back: Merrill and Garland, 2016. Flag 1: the block's sum is there, 2: the sum of all up to it. */
KERNEL(look_back) {
    ARGUMENTS();
    u32 *flags = a->more, *sums = a->more + t->nctaid[0], *prefixes = sums + t->nctaid[0];
    PUT_SHARED(TID, GET(a->in, INDEX));
    SYNC();
    if (TID == 0) {
        u32 sum = 0, before = 0;
        for (u32 i = 0; i < t->ntid[0]; i++) sum += GET_SHARED(i);
        PUT(sums, BLOCK, sum);
        FENCE();
        PUT_STRONG(flags, BLOCK, 1);
        for (s32 block = (s32)BLOCK - 1; block >= 0; block--) {
            u32 flag;
            while (!(flag = GET_STRONG(flags, block))) TICK();
            FENCE();
            before += flag == 2 ? GET(prefixes, block) : GET(sums, block);
            if (flag == 2) break;
        }
        PUT(prefixes, BLOCK, before + sum);
        FENCE();
        PUT_STRONG(flags, BLOCK, 2);
        PUT_SHARED(t->ntid[0], before);
    }
    SYNC();
    u32 sum = GET_SHARED(t->ntid[0]);
    for (u32 i = 0; i <= TID; i++) sum += GET_SHARED(i);
    PUT(a->out, INDEX, sum);
}

/* Warp 0 makes, warp 1 takes, by two barriers of 64 threads. */
KERNEL(producer) {
    ARGUMENTS();
    u32 sum = 0;
    for (u32 i = 0; i < 6; i++) {
        if (t->warp == 0) {
            if (i) t->run->barrier(t, XF_BAR_SYNC, 2, 64, 0, HERE);
            PUT_SHARED(t->lane, GET(a->in, BLOCK * 32 + t->lane) * (i + 1));
            t->run->barrier(t, XF_BAR_ARRIVE, 1, 64, 0, HERE);
        } else {
            t->run->barrier(t, XF_BAR_SYNC, 1, 64, 0, HERE);
            sum += GET_SHARED((t->lane + i) % 32);
            if (i < 5) t->run->barrier(t, XF_BAR_ARRIVE, 2, 64, 0, HERE);
        }
    }
    if (t->warp == 1) PUT(a->out, BLOCK * 32 + t->lane, sum);
}

/* As the CUDA guide writes an atomic operation that the hardware does not have. */
KERNEL(swap_loop) {
    ARGUMENTS();
    u32 old = GET(a->out, 0), expected;
    do {
        expected = old;
        old = CAS(a->out, 0, expected, expected + GET(a->in, INDEX));
        TICK();
    } while (old != expected);
}

KERNEL(histogram) {
    ARGUMENTS();
    ATOMIC(XF_ADD, a->out, GET(a->in, INDEX) % 16, 1);
}

KERNEL(heap) {
    ARGUMENTS();
    u64 memory = t->run->allocate(t, 4 * (TID + 1), HERE);
    for (u32 i = 0; i <= TID; i++) PUT(memory, i, i);
    u32 sum = 0;
    for (u32 i = 0; i <= TID; i++) sum += GET(memory, i);
    t->run->release(t, memory, HERE);
    PUT(a->out, INDEX, sum);
}

static u32 sum_of(xf_thread *t, u64 memory, u32 count) {
    u32 own[4], sum = 0;
    BEGIN_LOCAL(own);
    for (u32 i = 0; i < 4; i++) WRITE_AS(u32, own + i, XF_LOCAL, i);
    for (u32 i = 0; i < count; i++) sum += READ_AS(u32, memory + 4 * i, 0) + READ_AS(u32, own + i % 4, 0);
    END_LOCAL(own);
    return sum;
}

KERNEL(local) {
    ARGUMENTS();
    u32 own[8];
    BEGIN_LOCAL(own);
    for (u32 i = 0; i < 8; i++) WRITE_AS(u32, own + i, XF_LOCAL, INDEX + i);
    PUT(a->out, INDEX, sum_of(t, (u64)own, 8));
    END_LOCAL(own);
}

KERNEL(bytes) {
    ARGUMENTS();
    u8 x = READ_AS(u8, (u64)a->in + INDEX, XF_GLOBAL);
    WRITE_AS(u8, (u64)a->out + INDEX, XF_GLOBAL, (u8)(x + 1));
    WRITE_AS(u8, XF_SHARED_BEGIN + TID, XF_SHARED, x);
    SYNC();
    WRITE_AS(u8, (u64)a->more + INDEX, XF_GLOBAL, READ_AS(u8, XF_SHARED_BEGIN + (TID ^ 1), XF_SHARED));
}

KERNEL(halves) {
    ARGUMENTS();
    u16 x = READ_AS(u16, (u64)a->in + 2 * INDEX, XF_GLOBAL);
    WRITE_AS(u16, (u64)a->out + 2 * INDEX, XF_GLOBAL, (u16)(x + 1));
    WRITE_AS(u16, XF_SHARED_BEGIN + 2 * TID, XF_SHARED, x);
    SYNC();
    WRITE_AS(u16, (u64)a->more + 2 * INDEX, XF_GLOBAL, READ_AS(u16, XF_SHARED_BEGIN + 2 * (TID ^ 3), XF_SHARED));
    SYNC();
    if (TID % 2 == 0) PUT(a->more, INDEX / 2, GET(a->more, INDEX / 2) + 1);
}

KERNEL(hello) {
    ARGUMENTS();
    struct { u32 index; u32 unused; f64 half; u64 text; u64 large; } values = {INDEX, 0, INDEX / 2.0, (u64) "abc", 1ull << 40};
    t->run->printf(t, "thread %3d: %.2f", (const char *)&values, HERE);
    if (a->value) SYNC();
    t->run->printf(t, " %-5s|%%|%lld\n", (const char *)&values.text, HERE);
}

/* More barriers and warp synchronisations than the stamps of the shadow have numbers for. */
KERNEL(long_double_buffer) {
    ARGUMENTS();
    u32 n = t->ntid[0];
    PUT_SHARED(TID, TID);
    SYNC();
    for (u32 step = 0; step < a->count; step++) {
        u32 from = step % 2 * n, to = n - from;
        PUT_SHARED(to + TID, GET_SHARED(from + (TID + 1) % n));
        if (a->value) SYNC();
        else SYNC_WARP(ALL);
    }
    PUT(a->out, INDEX, GET_SHARED(TID));
}

/* Structs with padding, in shared memory, copied as words. */
KERNEL(padding) {
    ARGUMENTS();
    WRITE_AS(u8, XF_SHARED_BEGIN + 8 * TID, XF_SHARED, (u8)TID);
    WRITE_AS(u16, XF_SHARED_BEGIN + 8 * TID + 4, XF_SHARED, (u16)TID);
    SYNC();
    u64 both = READ_AS(u64, XF_SHARED_BEGIN + 8 * (TID ^ 1), XF_SHARED);
    PUT(a->out, INDEX, (u32)both & 255);
}

KERNEL(only_barriers) {
    ARGUMENTS();
    for (u32 i = 0; i < a->count; i++) SYNC();
}

KERNEL(only_warps) {
    ARGUMENTS();
    for (u32 i = 0; i < a->count; i++) SYNC_WARP(ALL);
}

/* One atomic after the other on out[0..3], by one thread: operation value % 16, type value / 16; operands of 16 bytes. */
KERNEL(atomic_sequence) {
    ARGUMENTS();
    for (u32 i = 0; i < a->count; i++)
        t->run->atomic(t, (u64)a->out, a->value % 16, a->value / 16, a->in + 4 * i, a->in + 4 * (i + 1), a->more + 4 * i,
                       XF_READ | XF_WRITE | XF_STRONG | XF_GLOBAL, HERE);
}

/* --- one bug each; MARK(a) is the place of the report, MARK(b) the other one */

KERNEL(bug_out_of_bounds) {
    ARGUMENTS();
    PUT(a->out, INDEX, GET(a->in, INDEX + 1)); MARK(a)
}

KERNEL(bug_before_begin) {
    ARGUMENTS();
    PUT(a->out, (s32)INDEX - 1, 1); MARK(a)
}

KERNEL(bug_shared_bounds) {
    ARGUMENTS();
    PUT_SHARED(TID + 1, 1); MARK(a)
}

KERNEL(bug_dynamic_bounds) {
    ARGUMENTS();
    WRITE_AS(u32, t->dynamic_begin + 4 * (TID + 1), XF_SHARED, 1); MARK(a)
}

KERNEL(bug_null) {
    ARGUMENTS();
    PUT(0, INDEX, 1); MARK(a)
}

KERNEL(bug_misaligned) {
    ARGUMENTS();
    PUT(a->out, INDEX, (u32)READ_AS(u64, a->in + INDEX, XF_GLOBAL)); MARK(a)
}

KERNEL(bug_uninitialised_shared) {
    ARGUMENTS();
    if (TID < t->ntid[0] - 1) PUT_SHARED(TID, 1);
    SYNC();
    PUT(a->out, INDEX, GET_SHARED(TID)); MARK(a)
}

KERNEL(bug_uninitialised_local) {
    ARGUMENTS();
    u32 own[4];
    BEGIN_LOCAL(own);
    for (u32 i = 0; i < 3; i++) WRITE_AS(u32, own + i, XF_LOCAL, i);
    PUT(a->out, INDEX, READ_AS(u32, own + 3, XF_LOCAL)); MARK(a)
    END_LOCAL(own);
}

KERNEL(bug_uninitialised_global) {
    ARGUMENTS();
    PUT(a->out, INDEX, GET(a->more, INDEX)); MARK(a)
}

KERNEL(bug_uninitialised_heap) {
    ARGUMENTS();
    u64 memory = t->run->allocate(t, 16, HERE);
    PUT(a->out, INDEX, GET(memory, 0)); MARK(a)
}

KERNEL(bug_heap_bounds) {
    ARGUMENTS();
    u64 memory = t->run->allocate(t, 16, HERE);
    PUT(memory, 4, 1); MARK(a)
}

KERNEL(bug_after_free) {
    ARGUMENTS();
    u64 memory = t->run->allocate(t, 16, HERE);
    PUT(memory, 0, 1);
    t->run->release(t, memory, HERE);
    PUT(a->out, INDEX, GET(memory, 0)); MARK(a)
}

KERNEL(bug_double_free) {
    ARGUMENTS();
    u64 memory = t->run->allocate(t, 16, HERE);
    t->run->release(t, memory, HERE);
    t->run->release(t, memory, HERE); MARK(a)
}

KERNEL(bug_local_bounds) {
    ARGUMENTS();
    u32 own[4];
    BEGIN_LOCAL(own);
    for (u32 i = 0; i < 5; i++) {
        WRITE_AS(u32, own + i, XF_LOCAL, i); MARK(a)
    }
    END_LOCAL(own);
}

KERNEL(bug_ended_local) {
    ARGUMENTS();
    u32 own[4];
    BEGIN_LOCAL(own);
    END_LOCAL(own);
    WRITE_AS(u32, own, 0, 1); MARK(a)
}

KERNEL(bug_read_only) {
    ARGUMENTS();
    PUT(a->in, INDEX, 1); MARK(a)
}

KERNEL(bug_race_block) {
    ARGUMENTS();
    PUT_SHARED(TID, 0);
    SYNC();
    PUT_SHARED(TID, TID); MARK(b)
    PUT(a->out, INDEX, GET_SHARED((TID + 40) % t->ntid[0])); MARK(b)
}

KERNEL(bug_race_warp) {
    ARGUMENTS();
    PUT_SHARED(TID, 0);
    SYNC();
    PUT_SHARED(TID, TID); MARK(b)
    PUT(a->out, INDEX, GET_SHARED(TID ^ 1)); MARK(b)
}

KERNEL(bug_race_reduction) {
    ARGUMENTS();
    PUT_SHARED(TID, GET(a->in, INDEX));
    SYNC();
    for (u32 half = t->ntid[0] / 2; half; half /= 2) {
        if (TID < half) PUT_SHARED(TID, GET_SHARED(TID) + GET_SHARED(TID + half)); MARK(b)
    }
    if (TID == 0) PUT(a->out, BLOCK, GET_SHARED(0));
}

KERNEL(bug_race_blocks) {
    ARGUMENTS();
    if (TID == 0) PUT(a->out, 0, BLOCK); MARK(b)
}

KERNEL(bug_race_sum) {
    ARGUMENTS();
    PUT(a->out, 0, GET(a->out, 0) + 1); MARK(b)
}

KERNEL(bug_race_write_after_read) {
    ARGUMENTS();
    u32 n = t->ntid[0];
    PUT_SHARED(TID, GET(a->in, INDEX));
    SYNC();
    u32 other = GET_SHARED((TID + 1) % n); MARK(b)
    PUT_SHARED(TID, other); MARK(b)
}

KERNEL(bug_no_fence) {
    ARGUMENTS();
    PUT_SHARED(TID, GET(a->in, INDEX));
    last_block(t, a, 0);
}

KERNEL(bug_lock_without_fence) {
    ARGUMENTS();
    while (CAS(a->more, 0, 0, 1)) TICK();
    FENCE();
    PUT(a->out, 0, GET(a->out, 0) + GET(a->in, INDEX)); MARK(b)
    ATOMIC(XF_EXCH, a->more, 0, 0);
}

KERNEL(bug_lock_without_fence_behind) {
    ARGUMENTS();
    while (CAS(a->more, 0, 0, 1)) TICK();
    PUT(a->out, 0, GET(a->out, 0) + GET(a->in, INDEX)); MARK(b)
    FENCE();
    ATOMIC(XF_EXCH, a->more, 0, 0);
}

KERNEL(bug_atomic_and_plain) {
    ARGUMENTS();
    if (TID == 40) PUT(a->out, 0, 5); MARK(b)
    if (TID != 40) ATOMIC(XF_ADD, a->out, 0, 1); MARK(b)
}

KERNEL(bug_read_behind_atomics) {
    ARGUMENTS();
    ATOMIC(XF_ADD, a->more, 0, 1); MARK(b)
    PUT(a->out, INDEX, GET(a->more, 0)); MARK(b)
}

/* The one reader has no part in the sum. */
KERNEL(bug_read_beside_atomics) {
    ARGUMENTS();
    if (INDEX == 77) PUT(a->out, INDEX, GET(a->more, 0)); MARK(b)
    if (INDEX != 77) ATOMIC(XF_ADD, a->more, 0, 1); MARK(b)
}

/* Waits with plain reads for what another block's atomic sets. */
KERNEL(bug_plain_wait) {
    ARGUMENTS();
    if (BLOCK == 1) {
        while (GET(a->more, 0) < 99) TICK(); MARK(b)
    } else ATOMIC(XF_ADD, a->more, 0, 1); MARK(b)
}

KERNEL(bug_initialisation_without_barrier) {
    ARGUMENTS();
    u32 one = 1, old;
    if (TID == 0) PUT_SHARED(0, 0); MARK(b)
    if (TID == 0 || a->value == 0)
        t->run->atomic(t, XF_SHARED_BEGIN, XF_EXCH, XF_U32, &one, 0, &old, XF_READ | XF_WRITE | XF_STRONG | XF_SHARED, HERE); MARK(b)
}

/* Each synchronises its half of the tile only. */
KERNEL(bug_tiles) {
    ARGUMENTS();
    u32 mask = 0xfu << (t->lane & ~3u);
    PUT_SHARED(TID, 0);
    SYNC();
    PUT_SHARED(TID, INDEX); MARK(b)
    SYNC_WARP(mask);
    PUT(a->out, INDEX, GET_SHARED((TID & ~7u) + (TID + 1) % 8)); MARK(b)
}

KERNEL(bug_other_lock) {
    ARGUMENTS();
    u32 lock = BLOCK % 2;
    while (CAS(a->more, lock, 0, 1)) TICK();
    FENCE();
    PUT(a->out, 0, GET(a->out, 0) + GET(a->in, INDEX)); MARK(b)
    FENCE();
    ATOMIC(XF_EXCH, a->more, lock, 0);
}

KERNEL(bug_fence_of_the_block) {
    ARGUMENTS();
    PUT(a->out, INDEX, 1); MARK(b)
    t->run->fence(t, XF_FENCE_BLOCK, HERE);
    SYNC();
    if (TID == 0) PUT_SHARED(0, ATOMIC(XF_ADD, a->more, 0, 1) == t->nctaid[0] - 1);
    SYNC();
    if (GET_SHARED(0)) {
        u32 sum = 0;
        for (u32 i = 0; i < t->nctaid[0]; i++) sum += GET(a->out, i * t->ntid[0] + TID); MARK(b)
        PUT(a->more, 1 + TID, sum);
    }
}

KERNEL(bug_single_buffer) {
    ARGUMENTS();
    u32 n = t->ntid[0];
    PUT_SHARED(TID, GET(a->in, INDEX));
    SYNC();
    for (u32 step = 0; step < 8; step++) {
        u32 sum = GET_SHARED(TID) + GET_SHARED((TID + 1) % n); MARK(b)
        PUT_SHARED(TID, sum); MARK(b)
        SYNC();
    }
    PUT(a->out, INDEX, GET_SHARED(TID));
}

KERNEL(bug_bytes) {
    ARGUMENTS();
    WRITE_AS(u8, (u64)a->out + INDEX, XF_GLOBAL, (u8)INDEX); MARK(b)
    WRITE_AS(u8, (u64)a->more + INDEX, XF_GLOBAL, READ_AS(u8, (u64)a->out + (INDEX ^ 1), XF_GLOBAL)); MARK(b)
}

KERNEL(bug_halves) {
    ARGUMENTS();
    WRITE_AS(u16, (u64)a->out + 2 * INDEX, XF_GLOBAL, (u16)INDEX); MARK(b)
    if (TID == 62) PUT(a->more, BLOCK, GET(a->out, INDEX / 2)); MARK(b)
}

KERNEL(bug_producer_too_early) {
    ARGUMENTS();
    u32 sum = 0;
    for (u32 i = 0; i < 6; i++) {
        if (t->warp == 0) {
            PUT_SHARED(t->lane, GET(a->in, BLOCK * 32 + t->lane) * (i + 1)); MARK(b)
            t->run->barrier(t, XF_BAR_ARRIVE, 1, 64, 0, HERE);
            t->run->barrier(t, XF_BAR_SYNC, 3, 32, 0, HERE);
        } else {
            t->run->barrier(t, XF_BAR_SYNC, 1, 64, 0, HERE);
            sum += GET_SHARED((t->lane + i) % 32); MARK(b)
        }
    }
    if (t->warp == 1) PUT(a->out, BLOCK * 32 + t->lane, sum);
}

KERNEL(bug_plain_flag) {
    ARGUMENTS();
    if (BLOCK == 0) {
        PUT(a->more, 0, 1); MARK(b)
    } else if (GET(a->more, 0)) PUT(a->out, INDEX, 1); MARK(b)
}

KERNEL(bug_divergent_barrier) {
    ARGUMENTS();
    if (TID < 16) {
        SYNC(); MARK(b)
    } else {
        SYNC(); MARK(b)
    }
}

KERNEL(bug_deadlock) {
    ARGUMENTS();
    if (TID < 16) {
        t->run->barrier(t, XF_BAR_SYNC, 1, 0, 0, HERE); MARK(b)
    } else {
        t->run->barrier(t, XF_BAR_SYNC, 2, 0, 0, HERE); MARK(b)
    }
}

KERNEL(bug_warp_deadlock) {
    ARGUMENTS();
    if (TID < 16) {
        SYNC_WARP(ALL); MARK(b)
    } else {
        SYNC(); MARK(b)
    }
}

KERNEL(bug_mask) {
    ARGUMENTS();
    if (t->lane == 31) SYNC_WARP(0x7fffffffu); MARK(a)
}

KERNEL(bug_endless) {
    ARGUMENTS();
    for (volatile u32 i = 0;; i++) TICK(); MARK(a)
}

KERNEL(bug_spin) {
    ARGUMENTS();
    while (!GET_STRONG(a->more, 0)) TICK(); MARK(a)
}

static u32 recurse(xf_thread *t, volatile u32 *above) {
    volatile u32 room[64];
    room[0] = *above + 1;
    return recurse(t, room) + room[0];
}

KERNEL(bug_stack) {
    ARGUMENTS();
    volatile u32 begin = 0;
    if (INDEX == 5) PUT(a->out, INDEX, recurse(t, &begin));
}

/* An access that no check sees, as in unchecked execution. */
KERNEL(bug_wild) {
    ARGUMENTS();
    if (INDEX == 5) *(volatile u32 *)(u64)a->value = 1;
}

KERNEL(bug_division) {
    ARGUMENTS();
    volatile s32 zero = 0;
    if (INDEX == 5) PUT(a->out, INDEX, (u32)(7 / zero));
}

KERNEL(bug_assert) {
    ARGUMENTS();
    if (INDEX == 5) t->run->assert_fail(t, "x > 0", "file.cu", 12, "kernel", HERE); MARK(a)
}

KERNEL(bug_trap) {
    ARGUMENTS();
    if (INDEX == 5) t->run->trap(t, HERE); MARK(a)
}
