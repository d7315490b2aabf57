/* Plain bytes copied into pinned memory, or out of it, by several threads, for a loop of transfers.

   The obvious way is a staged transfer of one block. Its threads take pieces under a lock, leave under another one, and all that
   spin see the same transfer at once: the first has the lock, the others sleep for it, and to wake one takes as long as to copy a
   piece. So a fill has no lock. Its pieces are counted by one atomic word, from which a thread takes the next one and learns how
   many there are; another counter says how many are done. Threads that spin in helpers.c look at the words, and the calling thread
   copies as many pieces as they leave to it.

   A thread that has taken a piece may read what describes it: the fill does not end before. The place is used again for another
   fill, and one who comes late takes a piece of that. */

#include "state.h"

#define PIECE_LEAST (64 << 10) /* bytes that a thread copies at a time */
#define LATE_NS 200000        /* a thread that takes more time for a piece has lost its core */
#define ASLEEP_LEAST (2 << 20) /* bytes for which helpers come that may not spin, and so are asleep */

enum { PLACES = 8 }; /* fills at a time; more are done by their callers alone */
enum { BITS = 24 };  /* of each half of the word, which has the next piece below how many there are */

typedef struct {
    char *pinned;
    const char *host;
    const Part *part; /* instead of `host`: arrays that lie anywhere, in the order of their places */
    int64_t parts;
    int64_t offset; /* among these places, at which the pinned memory begins */
    int64_t nbytes;
    int is_streamed; /* past the processor's caches */
    int is_emptied;  /* the pinned memory is read */
} Copy;

typedef struct {
    uint64_t word __attribute__((aligned(64))); /* atomic */
    int64_t done __attribute__((aligned(64)));  /* pieces; atomic */
    Copy copy __attribute__((aligned(64)));
    int64_t pieces;
    int is_used; /* atomic */
} Fill;

static Fill fills[PLACES];

static int64_t next_of(uint64_t word) {
    return (int64_t)(word & ((1u << BITS) - 1));
}

static int64_t pieces_of(uint64_t word) {
    return (int64_t)(word >> BITS);
}

static int is_open(const Fill *fill) {
    uint64_t word = __atomic_load_n(&fill->word, __ATOMIC_RELAXED);
    return next_of(word) < pieces_of(word);
}

static void copy_range(const Copy *copy, int64_t start, int64_t nbytes) {
    const Region region = {.part = copy->part, .parts = copy->parts};
    char *pinned = copy->pinned + start;
    if (copy->parts) move_parts(!copy->is_emptied, copy->is_streamed, &region, pinned, copy->offset + start, nbytes);
    else chunk_fill(copy->is_streamed, pinned, copy->host + start, (size_t)nbytes);
}

/* Copy pieces of a fill until none is left to take; how many. */
static int take_pieces(Fill *fill) {
    int taken = 0;
    while (is_open(fill)) {
        uint64_t word = __atomic_fetch_add(&fill->word, 1, __ATOMIC_ACQUIRE);
        if (next_of(word) >= pieces_of(word)) break;
        int64_t start = next_of(word) * PIECE_LEAST;
        copy_range(&fill->copy, start, least(PIECE_LEAST, fill->copy.nbytes - start));
        __atomic_add_fetch(&fill->done, 1, __ATOMIC_RELEASE);
        taken++;
    }
    return taken;
}

int has_fills(void) {
    for (int each = 0; each < PLACES; each++)
        if (is_open(&fills[each])) return 1;
    return 0;
}

int help_fills(void) {
    int taken = 0;
    for (int each = 0; each < PLACES; each++) taken += take_pieces(&fills[each]);
    return taken;
}

/* In a forked child, which has none of the threads, and does not end what its parent began. */
void forget_fills(void) {
    for (int each = 0; each < PLACES; each++) {
        __atomic_store_n(&fills[each].word, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&fills[each].is_used, 0, __ATOMIC_RELAXED);
    }
}

static Fill *begin(const Copy *copy, int64_t helpers, int64_t most_threads, int64_t spin_ns) {
    int64_t pieces = (copy->nbytes + PIECE_LEAST - 1) / PIECE_LEAST;
    if (helpers <= 0 || pieces <= 1 || pieces >> BITS) return NULL;
    for (int each = 0; each < PLACES; each++) {
        Fill *fill = &fills[each];
        if (__atomic_exchange_n(&fill->is_used, 1, __ATOMIC_ACQUIRE)) continue;
        fill->copy = *copy, fill->pieces = pieces;
        __atomic_store_n(&fill->done, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&fill->word, (uint64_t)pieces << BITS, __ATOMIC_RELEASE);
        if (xf_is_crowded()) spin_ns = 0;
        if (spin_ns > 0 || copy->nbytes >= ASLEEP_LEAST)
            rouse(least(helpers, pieces - 1), most_threads, spin_ns);
        return fill;
    }
    return NULL;
}

/* Let up to `helpers` threads, of `most_threads`, fill pinned memory; NULL, and nothing done, where one is as good. The memory is
   filled, and may be given up, when xf_fill_end() returns. */
EXPORT Fill *xf_fill_begin(
    char *pinned, const char *host, int64_t nbytes, int64_t is_streamed, int64_t helpers, int64_t most_threads,
    int64_t spin_ns) {
    const Copy copy = {.pinned = pinned, .host = host, .nbytes = nbytes, .is_streamed = is_streamed != 0};
    return begin(&copy, helpers, most_threads, spin_ns);
}

/* On return the memory is filled, and may be given up. */
EXPORT void xf_fill_end(Fill *fill) {
    take_pieces(fill);
    if (__atomic_load_n(&fill->done, __ATOMIC_ACQUIRE) < fill->pieces) {
        int64_t late_ns = now_ns() + LATE_NS;
        while (pause_briefly(), __atomic_load_n(&fill->done, __ATOMIC_ACQUIRE) < fill->pieces)
            if (now_ns() > late_ns) sched_yield(), note_crowded();
    }
    __atomic_store_n(&fill->is_used, 0, __ATOMIC_RELEASE);
}

/* Fill pinned memory, past the processor's caches or not, with up to `helpers` threads of `most_threads`. */
EXPORT void xf_fill(
    char *pinned, const char *host, int64_t nbytes, int64_t is_streamed, int64_t helpers, int64_t most_threads,
    int64_t spin_ns) {
    Fill *fill = xf_fill_begin(pinned, host, nbytes, is_streamed, helpers, most_threads, spin_ns);
    if (fill != NULL) xf_fill_end(fill);
    else chunk_fill(is_streamed != 0, pinned, host, (size_t)nbytes);
}

/* Collect arrays in pinned memory likewise, or distribute its bytes to them; `offset`: the place at which it begins. */
EXPORT void xf_fill_parts(
    char *pinned, const Part *parts, int64_t count, int64_t offset, int64_t nbytes, int64_t is_emptied, int64_t is_streamed,
    int64_t helpers, int64_t most_threads, int64_t spin_ns) {
    const Copy copy = {
        .pinned = pinned, .part = parts, .parts = count, .offset = offset, .nbytes = nbytes, .is_streamed = is_streamed != 0,
        .is_emptied = is_emptied != 0};
    Fill *fill = begin(&copy, helpers, most_threads, spin_ns);
    if (fill != NULL) xf_fill_end(fill);
    else copy_range(&copy, 0, nbytes);
}
