/* Copies between host and device without Python: threads fill and empty pinned chunks while the link moves others.

   Python describes the arrays of a transfer as regions: memory on the host, of any layout and dtype, and as many
   contiguous bytes on the device. Regions are cut into blocks, each one copy on the link by way of one chunk, and blocks
   into pieces, which one thread fills or empties at a time. The thread that fills the last piece of an upload's block
   sends it. Of a download blocks are asked for until no chunk is free, so that the link never idles, and emptied as they
   arrive. The first blocks are small, so that the link starts early; a download ends with small ones too, so that little
   is left to empty when the link is done. Regions may be added while others are on their way: the arrays of a tree are
   one transfer, and Python describes some while threads copy others. The driver's functions come in as addresses: nothing
   is linked to.

   The obvious way, a thread that fills whole chunks one after the other and waits for each, leaves the link idle while it
   fills and itself idle while the link sends; threads with fixed shares of the transfer all wait for the slowest. So
   threads take small pieces of the same block, in order. The calling thread takes pieces too: it has finished a MiB
   before a thread that slept has come.

   Chunks come from the device's ring, one by one. A thread whose transfer has none, while the ring has none to give, works
   for another transfer that has some: perhaps no other thread will, and both would wait for ever.

   Each transfer's `lock` protects its regions, queues, counts and error; bytes are copied without it, and an upload's
   driver calls made without it. `marking` is taken after it or alone, and only by recordings; the ring's lock after it or
   alone. The lock of the pool in helpers.c protects the helpers, the queue for them, the list of all transfers, and `wanted`, `called`,
   `helping` and `following` of each transfer; it is never held together with another. A block belongs to the threads that
   have its pieces, and the last of them gives it on. xf_end() returns when no helper is left in the transfer: only then
   may its memory go. */

#include "state.h"

#include <stdlib.h>

#define ROUNDS 16            /* pieces for each thread, before pieces grow with the transfer */
#define PATIENCE_NS 50000000 /* how long Ctrl-C may have to wait for a thread that itself waits for others */

static int64_t last_ns; /* when the last transfer ended; atomic */

/* Whether transfers in the other direction are at work too. */
static int is_shared(const Staging *staging) {
    return __atomic_load_n(&at_work[!way_of(staging)], __ATOMIC_RELAXED) > 0;
}

/* --- chunks */

/* Give a free chunk back to the ring, with the lock held. */
static void give_back(Staging *staging) {
    Block *block = pop(&staging->free);
    xf_ring_give(staging->setup.ring, block->chunk, way_of(staging));
    block->chunk = NULL;
    __atomic_sub_fetch(&staging->held, 1, __ATOMIC_RELAXED);
}

/* Whether a chunk is free for the next block, with the lock held. */
static int has_free(Staging *staging) {
    const Setup *setup = &staging->setup;
    if (setup->ring == NULL) return staging->free.count > 0;
    /* Those of two directions at work fit the processor's caches only if each has few. */
    int64_t limit = is_shared(staging) ? setup->shared_chunks : setup->most_chunks;
    while (held(staging) > limit && staging->free.count) give_back(staging);
    if (staging->free.count) return 1;
    if (held(staging) >= limit) return 0;
    Chunk *chunk = xf_ring_take(setup->ring, way_of(staging), setup->way_chunks, 0);
    if (chunk == NULL) return 0;
    Block *block = staging->blocks;
    while (block->chunk != NULL) block++;
    block->chunk = chunk;
    __atomic_add_fetch(&staging->held, 1, __ATOMIC_RELAXED);
    push(&staging->free, block);
    return 1;
}

/* --- blocks */

static int has_more(const Staging *staging) {
    return staging->region < staging->region_count;
}

/* Bytes of the next block, with the lock held. */
static int64_t next_size(Staging *staging, const Region *region) {
    const Setup *setup = &staging->setup;
    int64_t left = region->nbytes - staging->offset;
    int64_t largest = most(setup->first_block, least(setup->largest_block, staging->total / setup->block_parts));
    int64_t size = least(staging->following, largest);
    staging->following = least(2 * staging->following, setup->largest_block);
    if (staging->is_closed && !setup->is_upward) /* the last ones are small: little is left to empty */
        size = least(size, most(setup->first_block, (staging->total - staging->begun) / 2));
    return least(multiple(size, region->unit), left);
}

/* Find out, with the lock held, whether every block has been begun. */
static void note_last(Staging *staging) {
    if (staging->is_closed && !has_more(staging)) __atomic_store_n(&staging->all, staging->asked, __ATOMIC_RELAXED);
}

/* Whether a block goes past the processor's caches. A device that reads a chunk right behind would have to fetch it out of
   them, at half the speed of both. But in a long upload it comes so far behind that it does not wait for them, and memory has
   less to do, which counts most while downloads use it as well. Not so for parts: 256 of 1 MiB went up at 28 GB/s past them and
   at 24 through them (H200's host). */
static int goes_past_caches(const Staging *staging, const Region *region) {
    const Setup *setup = &staging->setup;
    if (staging->total < setup->streamed_from) return 0;
    if (!setup->is_upward || region->parts) return 1;
    return staging->total < (is_shared(staging) ? setup->shared_cached_from : setup->cached_from);
}

/* Give a free chunk, with the lock held, to the next block. */
static Block *begin(Staging *staging) {
    const Setup *setup = &staging->setup;
    Block *block = pop(&staging->free);
    const Region *region = &staging->regions[staging->region];
    block->region = *region;
    block->offset = staging->offset;
    block->nbytes = next_size(staging, region);
    block->memory = setup->is_upward || setup->ring == NULL ? block->chunk->memory
                                                            : place_in(block->chunk, block->nbytes, setup->largest_block);
    int64_t each = (block->nbytes + staging->threads - 1) / staging->threads;
    /* A large transfer has blocks enough for all threads: each takes more of one, and fewer meet at the lock. */
    int is_plain = setup->is_upward && region->layout == NULL; /* no work but to copy: a piece takes half as long */
    int64_t enough = most(setup->least_piece << is_plain, staging->total / (ROUNDS * staging->threads));
    block->share = multiple(least(setup->most_piece, most(each, enough)), region->unit);
    block->next = 0;
    block->pieces = block->left = (block->nbytes + block->share - 1) / block->share;
    block->is_settled = !block->chunk->is_busy;
    block->is_streamed = goes_past_caches(staging, region);
    staging->begun += block->nbytes;
    staging->offset += block->nbytes;
    if (staging->offset == region->nbytes) staging->region++, staging->offset = 0;
    staging->asked++;
    note_last(staging);
    return block;
}

/* Until the chunk may be filled, or has arrived: each thread asks the driver, which answers sooner than another thread
   could, but none once that is known. */
static int settle(const Setup *setup, Block *block) {
    if (__atomic_load_n(&block->is_settled, __ATOMIC_ACQUIRE)) return 0;
    int result = setup->wait(block->chunk->event);
    if (result == 0) __atomic_store_n(&block->is_settled, 1, __ATOMIC_RELEASE);
    return result;
}

/* Enqueue the copy of a block, and the event behind it. */
static int enqueue(const Setup *setup, Block *block) {
    Chunk *chunk = block->chunk;
    uint64_t device = block->region.device + (uint64_t)block->offset, pinned = (uint64_t)(uintptr_t)block->memory;
    int result = 0;
    if (!setup->is_upward && chunk->is_busy) /* asked for without waiting: what still reads the chunk comes first */
        result = setup->order != NULL ? setup->order(setup->stream, chunk->event, 0) : setup->wait(chunk->event);
    if (result) return result;
    result = setup->is_upward ? setup->copy(device, pinned, (size_t)block->nbytes, setup->stream)
                              : setup->copy(pinned, device, (size_t)block->nbytes, setup->stream);
    if (result) return result;
    chunk->is_busy = 1;
    block->is_settled = 0;
    return setup->record(chunk->event, setup->stream);
}

/* The same, with a recording's events before the first block and after the last one. */
static int send(Staging *staging, Block *block) {
    const Setup *setup = &staging->setup;
    if (!setup->is_marked) return enqueue(setup, block);
    pthread_mutex_lock(&staging->marking);
    int result = staging->sent++ ? 0 : setup->record(setup->before_first, setup->stream);
    if (result == 0) result = enqueue(setup, block);
    if (result == 0 && staging->sent == __atomic_load_n(&staging->all, __ATOMIC_RELAXED)) {
        result = setup->record(setup->after_last, setup->stream);
        staging->is_ended = 1;
    }
    pthread_mutex_unlock(&staging->marking);
    return result;
}

/* --- pieces */

/* Wait, with the lock held, for a chunk: one of its own, or any. 0 after a while in which none has come. */
static int await_chunk(Staging *staging) {
    const Setup *setup = &staging->setup;
    if (held(staging) || setup->ring == NULL) return wait_at_most(&staging->changed, &staging->lock, PATIENCE_NS);
    pthread_mutex_unlock(&staging->lock);
    int has_come = !help_another(staging) && ring_await(setup->ring, way_of(staging), setup->way_chunks, PATIENCE_NS);
    pthread_mutex_lock(&staging->lock);
    return has_come; /* 0 behind another's pieces too: Python looks for Ctrl-C */
}

/* Wait, with the lock held, for a block with a piece to fill; NULL when there is none left, or after a while. */
static Block *open_up(Staging *staging) {
    while (!staging->error && !staging->is_ending) {
        if (staging->open != NULL) return staging->open;
        if (!has_more(staging)) break;
        if (has_free(staging)) staging->open = begin(staging);
        else if (!await_chunk(staging)) break;
    }
    return NULL;
}

/* Ask, with the lock held, for blocks as long as chunks are free, then wait for one with a piece to empty; NULL when
   there is none left, or after a while. */
static Block *open_down(Staging *staging) {
    while (!staging->is_ending) {
        while (!staging->error && has_more(staging) && has_free(staging)) {
            Block *block = begin(staging);
            staging->error = send(staging, block);
            push(&staging->arriving, block);
        }
        if (staging->error) return NULL;
        if (staging->open != NULL) return staging->open;
        if (staging->arriving.count) staging->open = pop(&staging->arriving);
        else if (!has_more(staging) || !await_chunk(staging)) return NULL;
    }
    return NULL;
}

/* Between a chunk and one array: `nbytes` from `offset` on. */
void move_part(
    int is_upward, int is_streamed, const Layout *layout, char *host, char *pinned, int64_t offset, int64_t nbytes) {
    if (layout != NULL) {
        int64_t first = offset / layout->device_size, count = nbytes / layout->device_size;
        xf_spread(layout, host, first, count, pinned, is_upward, is_streamed);
    } else if (is_upward) chunk_fill(is_streamed, pinned, host + offset, (size_t)nbytes);
    else chunk_empty(is_streamed, host + offset, pinned, (size_t)nbytes);
}

/* Between a chunk and parts that lie anywhere; the piece begins `offset` bytes into the region. What is between the
   places of two parts stays as it is. */
void move_parts(
    int is_upward, int is_streamed, const Region *region, char *pinned, int64_t offset, int64_t nbytes) {
    const Part *first = region->part, *end = region->part + region->parts;
    for (int64_t count = region->parts; count > 1;) { /* the last one that begins at or before the piece */
        int64_t half = count / 2;
        if (first[half].place <= offset) first += half, count -= half;
        else count = half;
    }
    for (const Part *part = first; part < end && part->place < offset + nbytes; part++) {
        int64_t skipped = most(offset - part->place, 0), place = part->place + skipped - offset;
        int64_t left = least(part->nbytes - skipped, nbytes - place);
        if (left > 0) move_part(is_upward, is_streamed, part->layout, part->host, pinned + place, skipped, left);
    }
}

/* Fill or empty one piece's share of its chunk; `mark` says when, for a recording. */
static int carry(Staging *staging, Block *block, int64_t piece, Mark *mark) {
    const Setup *setup = &staging->setup;
    int result = settle(setup, block);
    if (result) return result;
    if (setup->is_marked) mark->begun_ns = now_ns();
    int64_t start = piece * block->share, nbytes = least(block->share, block->nbytes - start);
    int64_t offset = block->offset + start;
    int is_streamed = block->is_streamed;
    char *pinned = block->memory + start;
    const Region *region = &block->region;
    if (region->parts) move_parts(setup->is_upward != 0, is_streamed, region, pinned, offset, nbytes);
    else move_part(setup->is_upward != 0, is_streamed, region->layout, region->host, pinned, offset, nbytes);
    mark->nbytes = nbytes;
    if (setup->is_marked) mark->ended_ns = now_ns();
    return 0;
}

/* Keep a mark, with the lock held; a recording that finds no memory misses it. */
static void note(Staging *staging, const Mark *mark) {
    if (staging->mark_count == staging->mark_room) {
        int64_t room = most(2 * staging->mark_room, 64);
        Mark *more = realloc(staging->marks, (size_t)room * sizeof *more);
        if (more == NULL) return;
        staging->marks = more, staging->mark_room = room;
    }
    staging->marks[staging->mark_count++] = *mark;
}

static int is_complete(const Staging *staging) {
    return staging->is_closed && !has_more(staging) && staging->done == staging->asked;
}

/* All blocks are done, with the lock held: nothing more needs the chunks. */
static void complete(Staging *staging) {
    rest(staging);
    while (staging->setup.ring != NULL && staging->free.count) give_back(staging);
}

/* A piece has been done, with the lock held: the thread that does the last one sends the block, or has emptied it. */
static void finish(Staging *staging, Block *block) {
    if (--block->left) return;
    if (!staging->setup.is_upward) block->chunk->is_busy = 0;
    else if (!staging->error) {
        pthread_mutex_unlock(&staging->lock);
        int result = send(staging, block);
        pthread_mutex_lock(&staging->lock);
        if (result && !staging->error) staging->error = result;
    }
    staging->done++;
    push(&staging->free, block);
    if (is_complete(staging) && !staging->error) complete(staging);
    pthread_cond_broadcast(&staging->changed);
}

/* With the lock held: whether no piece is left to take. */
static int is_handed_out(const Staging *staging) {
    return staging->error || staging->is_ending ||
           (staging->open == NULL && staging->arriving.count == 0 && !has_more(staging));
}

/* Do up to `count` pieces in the calling thread, whose number a recording notes; 0 when there is no more for it. */
int run_pieces(Staging *staging, int64_t count, int64_t number) {
    const Setup *setup = &staging->setup;
    pthread_mutex_lock(&staging->lock);
    while (count-- > 0) {
        Block *block = setup->is_upward ? open_up(staging) : open_down(staging);
        if (block == NULL) break;
        int64_t piece = block->next++;
        if (block->next == block->pieces) staging->open = NULL; /* its chunk may be free, and asked for again, before long */
        pthread_mutex_unlock(&staging->lock);
        Mark mark = {0};
        int result = carry(staging, block, piece, &mark);
        pthread_mutex_lock(&staging->lock);
        if (result && !staging->error) staging->error = result;
        if (result) pthread_cond_broadcast(&staging->changed);
        else if (setup->is_marked) mark.thread = number ? number : thread_number(), note(staging, &mark);
        finish(staging, block);
    }
    int is_over = is_handed_out(staging);
    pthread_mutex_unlock(&staging->lock);
    return !is_over;
}

/* --- the life of a transfer */

/* Let the next transfer be one of a loop, for which threads spin. */
void begin_loop(void) {
    __atomic_store_n(&last_ns, now_ns(), __ATOMIC_RELAXED);
}

/* The transfer and its regions are freed; chunks of one that failed are given back, or lost with `is_lost`. Only
   after xf_end(). */
EXPORT void xf_close(Staging *staging, int is_lost) {
    if (staging == NULL) return;
    rest(staging);
    for (int64_t each = 0; each < staging->setup.most_chunks && staging->setup.ring != NULL; each++) {
        Chunk *chunk = staging->blocks != NULL ? staging->blocks[each].chunk : NULL;
        if (chunk == NULL) continue;
        if (is_lost) xf_ring_lose(staging->setup.ring, way_of(staging));
        else xf_ring_give(staging->setup.ring, chunk, way_of(staging));
    }
    free(staging->blocks);
    free(staging->free.blocks);
    free(staging->arriving.blocks);
    free(staging->regions);
    free(staging->marks);
    pthread_cond_destroy(&staging->changed);
    pthread_mutex_destroy(&staging->marking);
    pthread_mutex_destroy(&staging->lock);
    free(staging);
}

/* NULL when there is no memory for it. The setup is copied. */
EXPORT Staging *xf_open(const Setup *setup) {
    Staging *staging = calloc(1, sizeof *staging);
    if (staging == NULL) return NULL;
    staging->setup = *setup;
    if (staging->setup.shared_chunks < 1) staging->setup.shared_chunks = 1; /* or it could not go on */
    staging->following = setup->first_block;
    staging->threads = 1;
    staging->free_cores = staging->all = -1;
    int64_t since_ns = now_ns() - __atomic_load_n(&last_ns, __ATOMIC_RELAXED);
    staging->spin_ns = since_ns < LOOP_NS && !xf_is_crowded() ? setup->spin_ns : 0;
    pthread_mutex_init(&staging->lock, NULL);
    pthread_mutex_init(&staging->marking, NULL);
    condition_init(&staging->changed);
    size_t count = (size_t)setup->most_chunks;
    staging->free.room = staging->arriving.room = setup->most_chunks;
    staging->blocks = calloc(count, sizeof(Block));
    staging->free.blocks = calloc(count, sizeof(Block *));
    staging->arriving.blocks = calloc(count, sizeof(Block *));
    if (staging->blocks == NULL || staging->free.blocks == NULL || staging->arriving.blocks == NULL) {
        xf_close(staging, 0);
        return NULL;
    }
    staging->is_counted = 1;
    __atomic_add_fetch(&at_work[way_of(staging)], 1, __ATOMIC_RELAXED);
    list_transfer(staging);
    return staging;
}

/* How many threads are worth their coming, with the lock held. Where other threads want all cores, as those of OpenMP that
   spin for milliseconds after a loop of torch's, a helper may lose its core with a piece half done, and the transfer waits
   until it has one again: with nine of them 7 MiB took 5 ms on an H200's host. One alone finds a place: 0.3 ms, 0.6 at the
   ninth of ten calls, and 0.55 and 0.8 without it. So beyond the free cores one is called, and none for a while after one has
   lost its core; unless the transfer takes longer than such a wait. A copy that sends nothing is soon done without it. */
static int64_t threads_for(Staging *staging) {
    const Setup *setup = &staging->setup;
    int64_t threads = staging->is_fresh ? setup->clearing : setup->each_way;
    int64_t late = setup->copy == sends_nothing ? 16 : 4; /* who sleeps comes late, and a link keeps the others waiting too */
    int64_t share = staging->spin_ns ? setup->helper_nbytes : late * setup->helper_nbytes;
    threads = most(least(threads, 1 + staging->work / share), 1);
    if (threads == 1 || staging->work >= setup->patient_from) return threads;
    if (staging->free_cores < 0) staging->free_cores = most(free_cores(), 0);
    if (staging->free_cores >= threads - 1) return threads;
    staging->spin_ns = 0;
    return 1 + most(staging->free_cores, setup->copy != sends_nothing && !xf_is_crowded());
}

/* Tell how a transfer of one region in a loop is cut: its blocks, bytes of the first and of the largest, threads,
   and whether it goes past the caches. */
EXPORT void xf_cut(const Setup *setup, int64_t nbytes, int64_t unit, int64_t *cut) {
    Region region = {.nbytes = nbytes, .unit = unit};
    Staging staging = {
        .setup = *setup, .total = nbytes, .work = nbytes, .following = setup->first_block, .spin_ns = setup->spin_ns,
        .free_cores = INT32_MAX, .is_closed = 1};
    cut[0] = cut[1] = cut[2] = 0;
    for (int64_t size; staging.offset < nbytes; staging.offset += size, staging.begun += size) {
        size = next_size(&staging, &region);
        if (!cut[0]++) cut[1] = size;
        cut[2] = most(cut[2], size);
    }
    cut[3] = threads_for(&staging);
    cut[4] = goes_past_caches(&staging, &region);
}

/* Add regions, which are copied; what they point to must outlive the transfer. Helpers are
   called for them, `more` beside those that a Python thread wants; none are added after `is_last`, which may come alone. Returns
   0, and nothing has been added, where there is no memory for them. */
EXPORT int xf_add(Staging *staging, const Region *regions, int64_t count, int is_last, int64_t more) {
    pthread_mutex_lock(&staging->lock);
    int64_t all = staging->region_count + count;
    if (all > staging->region_room) {
        int64_t room = most(all, 2 * staging->region_room);
        Region *wider = realloc(staging->regions, (size_t)room * sizeof *wider);
        if (wider == NULL) {
            pthread_mutex_unlock(&staging->lock);
            return 0;
        }
        staging->regions = wider, staging->region_room = room;
    }
    for (int64_t each = 0; each < count; each++) {
        if (regions[each].nbytes <= 0) continue; /* nothing to copy: a block has a byte at least */
        Region *added = &staging->regions[staging->region_count++];
        *added = regions[each];
        if (!added->unit) {
            int64_t unit = xf_unit(added->layout);
            added->unit = unit <= staging->setup.most_piece ? unit : added->layout->device_size;
        }
        staging->total += regions[each].nbytes;
        staging->work += work_of(&regions[each]);
        staging->is_fresh |= regions[each].is_fresh != 0;
    }
    if (is_last) {
        staging->is_closed = 1;
        note_last(staging);
        if (is_complete(staging) && !staging->error) complete(staging);
    }
    int64_t threads = staging->threads = threads_for(staging);
    __atomic_add_fetch(&staging->added, 1, __ATOMIC_RELAXED); /* before `called` is looked at */
    pthread_cond_broadcast(&staging->changed);
    pthread_mutex_unlock(&staging->lock);
    call_helpers(staging, threads - 1 + more);
    return 1;
}

/* `run_pieces` in a Python thread, which counts as one of those that work in its direction. */
EXPORT int xf_run(Staging *staging, int64_t count) {
    count_work(way_of(staging), 1);
    int is_left = run_pieces(staging, count, 0);
    count_work(way_of(staging), -1);
    return is_left;
}

/* Hand out nothing more, and wait until every helper has left. Returns the driver's first result that is not 0. */
EXPORT int64_t xf_end(Staging *staging) {
    const Setup *setup = &staging->setup;
    pthread_mutex_lock(&staging->lock);
    __atomic_store_n(&staging->is_ending, 1, __ATOMIC_RELAXED);
    pthread_cond_broadcast(&staging->changed);
    pthread_mutex_unlock(&staging->lock);
    unlist_transfer(staging);
    begin_loop();
    pthread_mutex_lock(&staging->lock);
    if (setup->is_marked && staging->sent && !staging->is_ended && !staging->error) /* it was ended or closed late */
        staging->error = setup->record(setup->after_last, setup->stream);
    int64_t error = staging->error;
    pthread_mutex_unlock(&staging->lock);
    return error;
}

/* The marks of a recording, after xf_end(); they live until xf_close(). */
EXPORT int64_t xf_marks(Staging *staging, const Mark **marks) {
    *marks = staging->marks;
    return staging->mark_count;
}

/* A whole transfer in the calling thread, with helpers: 0 when it is done. NO_MEMORY: nothing has been done. STARVED: it
   waited long for a chunk; the caller goes on with xf_run(), when it has seen that there are any. Otherwise the driver's
   first result that is not 0, behind xf_end(). In the last two cases `opened` is the transfer, which the caller closes. */
EXPORT int64_t xf_copy(const Setup *setup, const Region *regions, int64_t count, Staging **opened) {
    int64_t error = NO_MEMORY;
    Staging *staging = *opened = xf_open(setup);
    if (staging == NULL) return NO_MEMORY;
    if (xf_add(staging, regions, count, 1, 0)) {
        if (xf_run(staging, INT64_MAX)) return STARVED;
        error = xf_end(staging);
        if (error) return error;
    } else xf_end(staging);
    xf_close(staging, 0);
    *opened = NULL;
    return error;
}

/* Collect parts, whose places end with `nbytes`, in the calling thread. */
EXPORT void xf_collect(const Part *parts, int64_t count, int64_t nbytes, char *memory) {
    Region region = {.nbytes = nbytes, .part = parts, .parts = count};
    if (count) move_parts(1, 0, &region, memory, 0, nbytes);
}
