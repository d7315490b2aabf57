/* Where threads wait for one another: the barriers of a block, the operations of a warp.
 *
 * Threads that have left do not count, neither at a barrier nor in a mask: so the hardware has it since Volta, and kernels
 * rely on it (early exits). Lanes of a warp meet if they name the same mask and the same kind of operation, at any
 * location of the program. The last one to arrive computes the results of all, wakes the others and queues behind them, so
 * that the order of threads stays what the schedule says.
 *
 * active_mask has no mask to wait for. It waits until every other lane of the warp waits for something too and gives the
 * lanes that are at the same place: what hardware gives where a warp has not diverged.
 */

#include "state.h"

static u32 bit(u32 lane) {
    return 1u << lane;
}

static Warp *warp_of(const Thread *thread) {
    return &thread->block->warps[thread->seen.warp];
}

static void require_fibers(Thread *thread, u32 site) {
    if (!has_fibers(thread->worker->launch))
        fail_at(thread, XF_UNSUPPORTED, site, "threads that wait for one another, in a launch without fibers");
}

/* --- lanes that converge */

static void release_lanes(Worker *worker, Warp *warp) {
    u32 left = warp->converging;
    warp->converging = 0;
    while (left) {
        u32 site = warp->lanes[__builtin_ctz(left)]->site, group = 0;
        for (u32 rest = left; rest; rest &= rest - 1)
            if (warp->lanes[__builtin_ctz(rest)]->site == site) group |= bit((u32)__builtin_ctz(rest));
        for (u32 rest = group; rest; rest &= rest - 1) {
            Thread *lane = warp->lanes[__builtin_ctz(rest)];
            lane->result = group;
            worker->converging_count--;
            push_ready(worker, lane);
        }
        left &= ~group;
    }
    note_progress(worker);
}

static void release_if_all_wait(Worker *worker, Warp *warp) {
    for (u32 rest = warp->alive & ~warp->converging; rest; rest &= rest - 1)
        if (warp->lanes[__builtin_ctz(rest)]->state == READY) return;
    release_lanes(worker, warp);
}

void release_converging(Worker *worker) {
    for (Block *block = worker->resident; block; block = block->next)
        for (u32 w = 0; w < block->warp_count; w++)
            if (block->warps[w].converging) release_lanes(worker, &block->warps[w]);
}

/* Wait in a queue, or for a meeting, until another thread makes this one ready. */
static void wait_in(Thread *thread, u32 state, u32 site) {
    Warp *warp = warp_of(thread);
    thread->state = state;
    thread->site = site;
    if (warp->converging) release_if_all_wait(thread->worker, warp);
    leave(thread);
}

u32 find_active_mask(xf_thread *t, u32 site) {
    Thread *thread = as_thread(t);
    if (!has_fibers(thread->worker->launch)) return bit(t->lane);
    Warp *warp = warp_of(thread);
    warp->converging |= bit(t->lane);
    thread->worker->converging_count++;
    wait_in(thread, AT_ACTIVE_MASK, site);
    return thread->result;
}

/* --- barriers */

static int is_complete(const Block *block, const Barrier *barrier) {
    return barrier->count >= (barrier->wanted ? barrier->wanted : block->alive);
}

/* The threads of the queue go on; `last` has not waited, and is NULL where a thread's end completes the barrier. */
static void complete(Block *block, Barrier *barrier, Thread *last) {
    if (last) push(&barrier->waiting, last);
    if (block->checks) order_barrier(block, barrier);
    for (Thread *thread = barrier->waiting.first; thread; thread = thread->next)
        thread->result = thread->mode == XF_BAR_POPC  ? barrier->popc
                         : thread->mode == XF_BAR_AND ? barrier->are_all
                         : thread->mode == XF_BAR_OR  ? barrier->is_any
                                                      : 0;
    wake(block->worker, &barrier->waiting);
    note_progress(block->worker);
    memset(barrier, 0, sizeof *barrier);
}

/* Hardware counts warps, each as 32 threads: lanes that the block does not have, or that are gone, come with the others. */
static void count_arrival(const Block *block, Barrier *barrier, const Thread *thread) {
    barrier->count++;
    if (!barrier->wanted) return;
    u32 *lanes = &barrier->lanes[thread->seen.warp];
    if (!*lanes) barrier->count += WARP - (u32)__builtin_popcount(block->warps[thread->seen.warp].alive);
    *lanes |= bit(thread->seen.lane);
}

static void refuse_divergence(Thread *thread, u32 site, const Block *block, const Barrier *barrier) {
    const Launch *launch = thread->worker->launch;
    u32 place = source_place(launch, site), first = source_place(launch, barrier->site);
    if (place == first || !place || !first) return;
    xf_report report = {.kind = XF_DIVERGENT_BARRIER, .region = -3, .variable = -1};
    fill_place(&report.here, thread, site, 0);
    fill_place(&report.other, &block->threads[barrier->number], barrier->site, 0);
    fail(thread, &report);
}

u32 wait_at_barrier(xf_thread *t, u32 kind, u32 id, u32 threads, u32 value, u32 site) {
    Thread *thread = as_thread(t);
    Block *block = thread->block;
    u32 is_unaligned = kind & XF_BAR_UNALIGNED;
    kind &= ~(u32)XF_BAR_UNALIGNED;
    require_fibers(thread, site);
    if (id >= BARRIERS) fail_at(thread, XF_UNSUPPORTED, site, "a barrier's number is 0 to 15");
    if (thread->suspicions) settle_suspicions(thread, 0);
    Barrier *barrier = &block->barriers[id];
    if (!barrier->count) {
        barrier->wanted = threads;
        barrier->are_all = 1;
        barrier->site = site;
        barrier->number = thread->number;
        barrier->is_unaligned = is_unaligned;
    } else if (is_checked(thread->worker->launch) && !is_unaligned && !barrier->is_unaligned && kind != XF_BAR_ARRIVE &&
               !barrier->has_arrivals && !threads)
        refuse_divergence(thread, site, block, barrier);
    count_arrival(block, barrier, thread);
    barrier->popc += value != 0;
    barrier->are_all &= value != 0;
    barrier->is_any |= value != 0;
    thread->mode = kind;
    if (kind == XF_BAR_ARRIVE) {
        barrier->has_arrivals = 1;
        if (block->checks) note_arrival(barrier, thread);
        if (is_complete(block, barrier)) complete(block, barrier, NULL);
        return 0;
    }
    if (is_complete(block, barrier)) {
        complete(block, barrier, thread); /* queues it behind the others */
        leave(thread);
        return thread->result;
    }
    if (block->checks) note_arrival(barrier, thread);
    push(&barrier->waiting, thread);
    wait_in(thread, AT_BARRIER, site);
    return thread->result;
}

/* --- meetings of lanes */

static u32 lane_of_shuffle(u32 mode, u32 lane, u32 b, u32 c, u32 *is_in_range) {
    /* PTX ISA, shfl.sync: the clamp in bits 0..4 of c, the mask of segments in bits 8..12. */
    u32 offset = b & 31, clamp = c & 31, segments = c >> 8 & 31;
    u32 most = (lane & segments) | (clamp & ~segments), least = lane & segments, source = lane;
    int is_in = 1;
    switch (mode) {
    case XF_SHFL_UP: is_in = (s32)(lane - offset) >= (s32)most, source = lane - offset; break;
    case XF_SHFL_DOWN: is_in = lane + offset <= most, source = lane + offset; break;
    case XF_SHFL_BFLY: is_in = (lane ^ offset) <= most, source = lane ^ offset; break;
    default: source = least | (offset & ~segments), is_in = source <= most;
    }
    *is_in_range = (u32)is_in;
    return is_in ? source & 31 : lane;
}

static void finish_shuffle(Warp *warp, u32 lanes) {
    for (u32 rest = lanes; rest; rest &= rest - 1) {
        u32 lane = (u32)__builtin_ctz(rest);
        Thread *thread = warp->lanes[lane];
        u32 source = lane_of_shuffle(thread->mode, lane, thread->b, thread->c, &thread->second_result);
        /* The value of a lane that takes no part is undefined; an H200 gives 0. */
        int takes_part = (lanes & bit(source)) != 0;
        thread->result = takes_part ? (u32)warp->lanes[source]->value : 0;
        thread->doubt = takes_part ? warp->lanes[source]->seen.doubt : (thread->site + 1) << XF_DOUBT_SITE | source;
    }
}

static void finish_vote(Warp *warp, u32 lanes) {
    u32 ballot = 0;
    for (u32 rest = lanes; rest; rest &= rest - 1)
        if (warp->lanes[__builtin_ctz(rest)]->value) ballot |= bit((u32)__builtin_ctz(rest));
    for (u32 rest = lanes; rest; rest &= rest - 1) {
        Thread *thread = warp->lanes[__builtin_ctz(rest)];
        switch (thread->mode) {
        case XF_VOTE_ALL: thread->result = ballot == lanes; break;
        case XF_VOTE_ANY: thread->result = ballot != 0; break;
        case XF_VOTE_UNI: thread->result = ballot == lanes || !ballot; break;
        default: thread->result = ballot;
        }
    }
}

static void finish_match(Warp *warp, u32 lanes) {
    u64 first = warp->lanes[__builtin_ctz(lanes)]->value;
    for (u32 rest = lanes; rest; rest &= rest - 1) {
        Thread *thread = warp->lanes[__builtin_ctz(rest)];
        u32 same = 0;
        for (u32 each = lanes; each; each &= each - 1) {
            u64 value = warp->lanes[__builtin_ctz(each)]->value;
            if (value == (thread->mode == XF_MATCH_ALL ? first : thread->value)) same |= bit((u32)__builtin_ctz(each));
        }
        thread->second_result = same == lanes;
        thread->result = thread->mode == XF_MATCH_ALL && same != lanes ? 0 : same;
    }
}

static void finish_reduction(Warp *warp, u32 lanes) {
    char sum[16] = {0};
    u32 first = (u32)__builtin_ctz(lanes);
    u32 value = (u32)warp->lanes[first]->value;
    memcpy(sum, &value, sizeof value);
    for (u32 rest = lanes & (lanes - 1); rest; rest &= rest - 1) {
        Thread *thread = warp->lanes[__builtin_ctz(rest)];
        value = (u32)thread->value;
        change_memory(sum, thread->b, thread->c, &value, NULL, NULL, 1);
    }
    memcpy(&value, sum, sizeof value);
    for (u32 rest = lanes; rest; rest &= rest - 1) warp->lanes[__builtin_ctz(rest)]->result = value;
}

/* All lanes of the mask that are not gone have arrived. */
static void finish_meeting(Block *block, Warp *warp, Meeting *meeting) {
    u32 lanes = meeting->arrived;
    if (block->checks && meeting->kind != MEET_SYNC) share_knowledge(block, warp, lanes);
    switch (meeting->kind) {
    case MEET_SYNC:
        if (block->checks) order_warp(block, warp, lanes);
        break;
    case MEET_SHUFFLE: finish_shuffle(warp, lanes); break;
    case MEET_VOTE: finish_vote(warp, lanes); break;
    case MEET_MATCH: finish_match(warp, lanes); break;
    default: finish_reduction(warp, lanes);
    }
    *meeting = warp->meetings[--warp->meeting_count];
    for (u32 rest = lanes; rest; rest &= rest - 1) push_ready(block->worker, warp->lanes[__builtin_ctz(rest)]);
    note_progress(block->worker);
}

static void meet(Thread *thread, u32 kind, u32 mask, u32 site) {
    Warp *warp = warp_of(thread);
    u32 own = bit(thread->seen.lane);
    require_fibers(thread, site);
    if (!(mask & own)) fail_at(thread, XF_BAD_MASK, site, "");
    if (thread->worker->launch->given->schedule == XF_RANDOM) poll(thread, site);
    Meeting *meeting = warp->meetings, *end = warp->meetings + warp->meeting_count;
    while (meeting != end && (meeting->mask != mask || meeting->kind != kind)) meeting++;
    if (meeting == end) {
        *meeting = (Meeting){mask, kind, 0};
        warp->meeting_count++;
    }
    meeting->arrived |= own;
    thread->mask = mask;
    thread->state = AT_WARP;
    if (!(mask & warp->alive & ~meeting->arrived)) {
        thread->site = site;
        if ((meeting->arrived & (meeting->arrived - 1)) == 0) { /* alone: no reason to switch */
            finish_meeting(thread->block, warp, meeting);
            thread->worker->ready_count--; /* the last of the queue, itself */
            return;
        }
        finish_meeting(thread->block, warp, meeting);
        leave(thread);
        return;
    }
    wait_in(thread, AT_WARP, site);
}

void synchronize_warp(xf_thread *t, u32 mask, u32 site) {
    meet(as_thread(t), MEET_SYNC, mask, site);
}

u32 shuffle(xf_thread *t, u32 mode, u32 value, u32 b, u32 c, u32 mask, u32 *in_range, u32 site) {
    Thread *thread = as_thread(t);
    thread->mode = mode;
    thread->value = value;
    thread->b = b;
    thread->c = c;
    thread->site = site;
    meet(thread, MEET_SHUFFLE, mask, site);
    t->doubt = thread->doubt;
    if (in_range) *in_range = thread->second_result;
    return thread->result;
}

u32 vote(xf_thread *t, u32 mode, u32 predicate, u32 mask, u32 site) {
    Thread *thread = as_thread(t);
    thread->mode = mode;
    thread->value = predicate != 0;
    meet(thread, MEET_VOTE, mask, site);
    return thread->result;
}

u32 match(xf_thread *t, u32 mode, u64 value, u32 mask, u32 *all_equal, u32 site) {
    Thread *thread = as_thread(t);
    thread->mode = mode;
    thread->value = value;
    meet(thread, MEET_MATCH, mask, site);
    if (all_equal) *all_equal = thread->second_result;
    return thread->result;
}

u32 reduce(xf_thread *t, u32 operation, u32 type, u32 value, u32 mask, u32 site) {
    Thread *thread = as_thread(t);
    thread->value = value;
    thread->b = operation;
    thread->c = type;
    meet(thread, MEET_REDUX, mask, site);
    return thread->result;
}

/* --- ends and dead ends */

void leave_convergence(Thread *thread) {
    Block *block = thread->block;
    Warp *warp = warp_of(thread);
    warp->alive &= ~bit(thread->seen.lane);
    warp->lanes[thread->seen.lane] = NULL;
    for (u32 i = warp->meeting_count; i-- > 0;)
        if (!(warp->meetings[i].mask & warp->alive & ~warp->meetings[i].arrived))
            finish_meeting(block, warp, &warp->meetings[i]);
    for (u32 i = 0; i < BARRIERS; i++) {
        Barrier *barrier = &block->barriers[i];
        if (!barrier->count) continue;
        u32 lanes = barrier->lanes[thread->seen.warp];
        if (lanes && !(lanes & bit(thread->seen.lane))) barrier->count++;
        if (is_complete(block, barrier)) complete(block, barrier, NULL);
    }
    if (warp->converging) release_if_all_wait(block->worker, warp);
}

void describe_deadlock(const Block *block, xf_report *report) {
    const Thread *first = NULL, *other = NULL;
    for (u32 i = 0; i < block->count; i++) {
        const Thread *thread = &block->threads[i];
        if (thread->state == GONE) continue;
        if (!first) first = thread;
        else if (thread->site != first->site && !other) other = thread;
    }
    if (!first) return;
    fill_place(&report->here, first, first->site, 0);
    if (other) fill_place(&report->other, other, other->site, 0);
}
