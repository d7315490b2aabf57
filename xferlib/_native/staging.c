/* Staging of plain bytes without Python: threads that fill and empty pinned chunks while the link moves others.

   Python cuts the transfer into loads and each load into pieces, lends a chunk for each load, and conducts: one thread
   of its own calls xf_run() without the GIL, and threads that live here help. A piece is what one thread fills or
   empties at a time; a load is what the link carries at a time: larger, because each copy costs the link some
   microseconds. Of an upload the thread that fills the last piece of a load sends it. Of a download loads are requested
   until no chunk is free, so that the link never idles, and emptied as they arrive. The driver's functions come in as
   addresses: nothing is linked to.

   The obvious way, a thread that fills whole chunks one after the other and waits for each, leaves the link idle while
   it fills and itself idle while the link sends; threads with fixed shares of the transfer all wait for the slowest. So
   threads take small pieces of the same load, in order.

   Each transfer's `lock` protects its queues, counts and error; bytes are copied without it, and an upload's driver
   calls made without it. `marking` is taken after it or alone, and only by recordings. The `pool` lock protects the
   helpers, the queue for them, and `wanted`, `helping` and `following` of each transfer; it is never held together with
   another. A load belongs to the threads that have its pieces, and the last of them gives it on. xf_end() returns when
   no helper is left in the transfer: only then may its memory go. */

#define _POSIX_C_SOURCE 200112L /* clock_gettime, pthread_atfork */

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "strided.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define LAP 4 /* pieces that a thread does before it checks whether it is wanted elsewhere */
#define UPWARD_SHARE 10      /* sixteenths of the threads that upload while downloads are at work too */
#define PATIENCE_NS 50000000 /* how long Ctrl-C may have to wait for a thread that itself waits for others */
#ifdef __APPLE__
#define PATIENCE_CLOCK CLOCK_REALTIME
#else
#define PATIENCE_CLOCK CLOCK_MONOTONIC /* a clock that is set back would lengthen the wait */
#endif

typedef struct {
    char *memory;
    void *event;
    int64_t is_busy; /* a copy may still use it until the event completes */
} Chunk;

typedef struct {
    int64_t begun_ns, ended_ns; /* when the chunk was filled or emptied */
    int64_t thread;             /* by which of the callers */
} Mark; /* what a recording wants to know of one piece */

typedef struct {
    char *host;
    int64_t place, nbytes; /* its offset in the transfer, in bytes on the device, and its size there */
    const Layout *layout;  /* of an array that is not plain; NULL: contiguous bytes stay as they are */
} Part;

typedef struct {
    char *host;
    uint64_t device;
    const uint64_t *devices; /* the address of each load there; NULL: `device` and its offset */
    const int64_t *offsets;  /* of each load, and the end of the last */
    const int64_t *shares;  /* bytes of each piece of a load; the last one may be smaller */
    const int64_t *firsts;  /* the number of the first piece of each load, and of all pieces */
    int64_t loads;
    Chunk *chunks;
    int64_t chunk_count;
    void *stream;
    int (*copy)(uint64_t dst, uint64_t src, size_t nbytes, void *stream);
    int (*record)(void *event, void *stream);
    int (*wait)(void *event);
    int (*enter)(void *context); /* what a thread calls before it calls the others; NULL: nothing */
    void *context;
    int64_t is_upward;
    int64_t is_streamed;             /* upload: chunks are filled past the processor's caches */
    int64_t shared_chunks;           /* of which no more are used while the other direction is at work too */
    const Layout *layout;            /* of an array that is not plain; NULL: contiguous bytes stay as they are */
    int64_t spin_ns;                 /* spin time before a helper sleeps */
    int64_t parts;                   /* arrays that are copied together; 0: one array */
    const Part *part;                /* in the order of their offsets */
    Mark *marks;                     /* one for each piece; NULL without a recording */
    void *before_first, *after_last; /* events that a recording wants around all loads */
} Setup; /* what Python fills in: see xferlib/_native/__init__.py */

typedef struct {
    Chunk *chunk;
    int64_t number;
    int64_t next; /* the first of its pieces that no thread has taken */
    int64_t end;  /* the first piece of the next load */
    int64_t left; /* pieces that are not done */
    int is_settled; /* the chunk may be filled, or has arrived */
} Load;

typedef struct {
    Load **loads;
    int64_t first, count, room;
} Queue;

typedef struct Staging Staging;

struct Staging {
    Setup setup;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_mutex_t marking; /* so that a recording's events are outside all loads */
    Load *loads;             /* one for each chunk */
    Queue free, arriving;
    Queue resting; /* free chunks that are not used while the other direction is at work */
    Load *open;    /* the load whose pieces are being handed out; NULL when all of them are */
    int64_t next;  /* the first load that has no chunk */
    int64_t sent;  /* loads, in a recording */
    int64_t error; /* the driver's first result that is not 0 */
    int is_ending; /* no thread may take another piece */
    int64_t done;   /* loads */
    int is_counted; /* among those at work */
    int64_t wanted, helping; /* threads of the pool that may still come, and that are here; the pool's lock guards them */
    Staging *following;      /* the next one that wants threads */
};

static void push(Queue *queue, Load *load) {
    queue->loads[(queue->first + queue->count++) % queue->room] = load;
}

static Load *pop(Queue *queue) {
    Load *load = queue->loads[queue->first];
    queue->first = (queue->first + 1) % queue->room;
    queue->count--;
    return load;
}

static int64_t at_work[2]; /* downloads and uploads that are open; atomic */

/* It is not at work any more. */
static void rest(Staging *staging) {
    if (staging->is_counted) __atomic_sub_fetch(&at_work[staging->setup.is_upward != 0], 1, __ATOMIC_RELAXED);
    staging->is_counted = 0;
}

EXPORT void xf_close(Staging *staging) {
    if (staging == NULL) return;
    rest(staging);
    free(staging->loads);
    free(staging->free.loads);
    free(staging->arriving.loads);
    free(staging->resting.loads);
    pthread_cond_destroy(&staging->changed);
    pthread_mutex_destroy(&staging->marking);
    pthread_mutex_destroy(&staging->lock);
    free(staging);
}

static int is_shared(const Staging *staging) {
    return __atomic_load_n(&at_work[staging->setup.is_upward == 0], __ATOMIC_RELAXED) > 0;
}

/* NULL when there is no memory for it. The setup is copied; what it points to must outlive the staging. */
EXPORT Staging *xf_open(const Setup *setup) {
    Staging *staging = calloc(1, sizeof *staging);
    if (staging == NULL) return NULL;
    staging->setup = *setup;
    if (staging->setup.shared_chunks < 1) staging->setup.shared_chunks = 1; /* or it could not go on */
    pthread_mutex_init(&staging->lock, NULL);
    pthread_mutex_init(&staging->marking, NULL);
    pthread_condattr_t waits;
    pthread_condattr_init(&waits);
#ifndef __APPLE__ /* which has no such function */
    pthread_condattr_setclock(&waits, PATIENCE_CLOCK);
#endif
    pthread_cond_init(&staging->changed, &waits);
    pthread_condattr_destroy(&waits);
    size_t count = (size_t)setup->chunk_count;
    staging->free.room = staging->arriving.room = staging->resting.room = setup->chunk_count;
    staging->loads = calloc(count, sizeof(Load));
    staging->free.loads = calloc(count, sizeof(Load *));
    staging->arriving.loads = calloc(count, sizeof(Load *));
    staging->resting.loads = calloc(count, sizeof(Load *));
    if (staging->loads == NULL || staging->free.loads == NULL || staging->arriving.loads == NULL ||
        staging->resting.loads == NULL) {
        xf_close(staging);
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        staging->loads[i].chunk = &setup->chunks[i];
        push(&staging->free, &staging->loads[i]);
    }
    staging->is_counted = 1;
    __atomic_add_fetch(&at_work[setup->is_upward != 0], 1, __ATOMIC_RELAXED);
    return staging;
}

EXPORT int64_t xf_error(Staging *staging) {
    pthread_mutex_lock(&staging->lock);
    int64_t error = staging->error;
    pthread_mutex_unlock(&staging->lock);
    return error;
}

static int64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Until the chunk may be filled, or has arrived: each thread asks the driver, which answers sooner than another thread
   could, but none once that is known. */
static int settle(const Setup *setup, Load *load) {
    if (__atomic_load_n(&load->is_settled, __ATOMIC_ACQUIRE)) return 0;
    int result = setup->wait(load->chunk->event);
    if (result == 0) __atomic_store_n(&load->is_settled, 1, __ATOMIC_RELEASE);
    return result;
}

/* Enqueue the copy of a load, and the event behind it. */
static int send(const Setup *setup, Load *load) {
    const int64_t *offset = &setup->offsets[load->number];
    size_t nbytes = (size_t)(offset[1] - offset[0]);
    uint64_t device = setup->devices != NULL ? setup->devices[load->number] : setup->device + (uint64_t)offset[0];
    uint64_t pinned = (uint64_t)(uintptr_t)load->chunk->memory;
    int result = setup->is_upward ? setup->copy(device, pinned, nbytes, setup->stream)
                                  : setup->copy(pinned, device, nbytes, setup->stream);
    if (result) return result;
    load->chunk->is_busy = 1;
    load->is_settled = 0;
    return setup->record(load->chunk->event, setup->stream);
}

/* The same, with a recording's events before the first load and after the last one. */
static int send_marked(Staging *staging, Load *load) {
    const Setup *setup = &staging->setup;
    if (setup->marks == NULL) return send(setup, load);
    pthread_mutex_lock(&staging->marking);
    int result = staging->sent ? 0 : setup->record(setup->before_first, setup->stream);
    if (result == 0) result = send(setup, load);
    if (result == 0 && ++staging->sent == setup->loads) result = setup->record(setup->after_last, setup->stream);
    pthread_mutex_unlock(&staging->marking);
    return result;
}

/* Whether a chunk is free, with the lock held. Chunks of two directions at work fit the processor's caches only if each
   uses few: then the others rest. */
static int has_free(Staging *staging) {
    if (is_shared(staging)) {
        const Load *resting = staging->loads + staging->setup.shared_chunks;
        while (staging->free.count && staging->free.loads[staging->free.first] >= resting)
            push(&staging->resting, pop(&staging->free));
    } else {
        while (staging->resting.count) push(&staging->free, pop(&staging->resting));
    }
    return staging->free.count > 0;
}

/* Give a free chunk, with the lock held, to the next load. */
static Load *begin(Staging *staging) {
    Load *load = pop(&staging->free);
    load->number = staging->next++;
    load->next = staging->setup.firsts[load->number];
    load->end = staging->setup.firsts[load->number + 1];
    load->left = load->end - load->next;
    load->is_settled = !load->chunk->is_busy;
    return load;
}

/* Wait, with the lock held, until something has changed; 0 after a while in which nothing has. */
static int await_change(Staging *staging) {
    struct timespec until;
    clock_gettime(PATIENCE_CLOCK, &until);
    until.tv_nsec += PATIENCE_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return pthread_cond_timedwait(&staging->changed, &staging->lock, &until) == 0;
}

/* Wait, with the lock held, for a load with a piece to fill; NULL when there is none left, or after a while. */
static Load *open_up(Staging *staging) {
    while (!staging->error && !staging->is_ending) {
        if (staging->open != NULL) return staging->open;
        if (staging->next >= staging->setup.loads) break;
        if (has_free(staging)) staging->open = begin(staging);
        else if (!await_change(staging)) break;
    }
    return NULL;
}

/* Ask, with the lock held, for loads as long as chunks are free, then wait for one with a piece to empty; NULL when
   there is none left, or after a while. What a chunk held before has been emptied, or the stream waits for the
   copies that still read it. */
static Load *open_down(Staging *staging) {
    while (!staging->is_ending) {
        while (!staging->error && staging->next < staging->setup.loads && has_free(staging)) {
            Load *asked = begin(staging);
            staging->error = send_marked(staging, asked);
            push(&staging->arriving, asked);
        }
        if (staging->error) return NULL;
        if (staging->open != NULL) return staging->open;
        if (staging->arriving.count) staging->open = pop(&staging->arriving);
        else if (staging->next >= staging->setup.loads || !await_change(staging)) return NULL;
    }
    return NULL;
}

/* Between a chunk and one array: `nbytes` from `offset` on. */
static void move_part(const Setup *setup, const Layout *layout, char *host, char *pinned, int64_t offset, int64_t nbytes) {
    if (layout != NULL) {
        int64_t first = offset / layout->device_size, count = nbytes / layout->device_size;
        if (setup->is_upward) xf_gather(layout, host, first, count, pinned, setup->is_streamed != 0);
        else xf_scatter(layout, host, first, count, pinned);
    } else if (setup->is_upward) chunk_fill(setup->is_streamed != 0, pinned, host + offset, (size_t)nbytes);
    else chunk_empty(host + offset, pinned, (size_t)nbytes);
}

/* Between a chunk and parts that lie anywhere; the piece begins `offset` bytes into all of them. What is between the
   places of two parts stays as it is. */
static void move_parts(const Setup *setup, char *pinned, int64_t offset, int64_t nbytes) {
    const Part *first = setup->part, *end = setup->part + setup->parts;
    for (int64_t count = setup->parts; count > 1;) { /* the last one that begins at or before the piece */
        int64_t half = count / 2;
        if (first[half].place <= offset) first += half, count -= half;
        else count = half;
    }
    for (const Part *part = first; part < end && part->place < offset + nbytes; part++) {
        int64_t skipped = offset > part->place ? offset - part->place : 0;
        int64_t left = part->nbytes - skipped, place = part->place + skipped - offset;
        if (left > nbytes - place) left = nbytes - place;
        if (left > 0) move_part(setup, part->layout, part->host, pinned + place, skipped, left);
    }
}

/* Fill or empty one piece's share of its chunk. */
static int carry(const Setup *setup, Load *load, int64_t piece, int64_t thread) {
    int result = settle(setup, load);
    if (result) return result;
    int64_t begun_ns = setup->marks == NULL ? 0 : now_ns();
    const int64_t *bounds = &setup->offsets[load->number];
    int64_t share = setup->shares[load->number];
    int64_t offset = bounds[0] + (piece - setup->firsts[load->number]) * share;
    int64_t nbytes = bounds[1] - offset < share ? bounds[1] - offset : share;
    char *pinned = load->chunk->memory + (offset - bounds[0]);
    if (setup->parts) move_parts(setup, pinned, offset, nbytes);
    else move_part(setup, setup->layout, setup->host, pinned, offset, nbytes);
    if (setup->marks == NULL) return 0;
    Mark *mark = &setup->marks[piece];
    mark->begun_ns = begun_ns;
    mark->ended_ns = now_ns();
    mark->thread = thread;
    return 0;
}

/* A piece has been done, with the lock held: the thread that does the last one sends the load, or has emptied it. */
static void finish(Staging *staging, Load *load) {
    if (--load->left) return;
    if (!staging->setup.is_upward) load->chunk->is_busy = 0;
    else if (!staging->error) {
        pthread_mutex_unlock(&staging->lock);
        int result = send_marked(staging, load);
        pthread_mutex_lock(&staging->lock);
        if (result && !staging->error) staging->error = result;
    }
    if (++staging->done == staging->setup.loads) rest(staging);
    push(&staging->free, load);
    pthread_cond_broadcast(&staging->changed);
}

/* With the lock held: whether no piece is left to take. */
static int is_handed_out(const Staging *staging) {
    return staging->error || staging->is_ending ||
           (staging->open == NULL && staging->arriving.count == 0 && staging->next >= staging->setup.loads);
}

/* Do up to `most` pieces in the calling thread, whose number a recording notes; 0 when there is no more for it. */
static int run(Staging *staging, int64_t most, int64_t thread) {
    const Setup *setup = &staging->setup;
    pthread_mutex_lock(&staging->lock);
    while (most-- > 0) {
        Load *load = setup->is_upward ? open_up(staging) : open_down(staging);
        if (load == NULL) break;
        int64_t piece = load->next++;
        if (load->next == load->end) staging->open = NULL; /* its chunk may be free, and asked for again, before long */
        pthread_mutex_unlock(&staging->lock);
        int result = carry(setup, load, piece, thread);
        pthread_mutex_lock(&staging->lock);
        if (result && !staging->error) staging->error = result;
        if (result) pthread_cond_broadcast(&staging->changed);
        finish(staging, load);
    }
    int is_over = is_handed_out(staging);
    pthread_mutex_unlock(&staging->lock);
    return !is_over;
}

/* --- threads that help: started when they are first wanted, and never ended; asleep they cost nothing */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t wanted, left;
    Staging *first;     /* of those that want more threads, in the order of their asking */
    int64_t tickets;    /* threads that all of them want; read without the lock too */
    int64_t watching;   /* threads that spin until there are tickets, rather than sleep */
    int64_t working[2]; /* threads in downloads and uploads, Python's too: two in turn end sooner than at once */
    int64_t each_way;   /* how many of the pool there may be of either, where the other is not at work */
    int64_t most;       /* threads of the pool that there may be */
    int64_t threads, idle;
    int is_prepared;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .wanted = PTHREAD_COND_INITIALIZER, .left = PTHREAD_COND_INITIALIZER};

/* A forked child has none of the threads, and the thread that held the lock is not there to give it back. */
static void forget_threads(void) {
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.wanted, NULL);
    pthread_cond_init(&pool.left, NULL);
    pool.first = NULL;
    pool.tickets = pool.watching = pool.threads = pool.idle = pool.working[0] = pool.working[1] = 0;
    at_work[0] = at_work[1] = 0;
}

/* More tickets, or fewer, with the pool's lock held. */
static void tickets(int64_t more) {
    __atomic_add_fetch(&pool.tickets, more, __ATOMIC_RELAXED);
}

static void pause_a_little(void) {
#ifdef __SSE2__
    for (int each = 0; each < 32; each++) _mm_pause();
#else
    sched_yield();
#endif
}

/* How many threads may work in one direction, with the pool's lock held; one of them is Python's. Where both are
   at work more upload: a thread copies data that a device has written faster than data in the program's memory. */
static int64_t limit(int way) {
    int64_t alone = pool.each_way + 1;
    if (__atomic_load_n(&at_work[!way], __ATOMIC_RELAXED) == 0) return alone;
    int64_t all = pool.most + 2, upward = all * UPWARD_SHARE / 16, most = way ? upward : all - upward;
    return most < alone ? most : alone;
}

/* Put a staging, with the pool's lock held, at the end of the queue for threads. */
static void enlist(Staging *staging) {
    Staging **place = &pool.first;
    while (*place != NULL) place = &(*place)->following;
    *place = staging;
    staging->following = NULL;
}

/* Take a staging, with the pool's lock held, out of the queue for threads. */
static void withdraw(Staging *staging) {
    Staging **place = &pool.first;
    while (*place != NULL && *place != staging) place = &(*place)->following;
    if (*place != NULL) *place = staging->following;
    tickets(-staging->wanted);
    staging->wanted = 0;
}

/* The first staging, with the pool's lock held, that a thread may join; NULL when there is none. */
static Staging *next_wanted(void) {
    Staging *staging = pool.first;
    for (; staging != NULL; staging = staging->following) {
        int way = staging->setup.is_upward != 0;
        if (pool.working[way] < limit(way)) break;
    }
    return staging;
}

/* Whether there is more help in one direction than there may be, and the other wants some. */
static int is_wanted_elsewhere(int way) {
    pthread_mutex_lock(&pool.lock);
    int is_wanted = pool.working[way] > limit(way) && next_wanted() != NULL;
    pthread_mutex_unlock(&pool.lock);
    return is_wanted;
}

/* Returns whether there is nothing left to help with. */
static int help_out(Staging *staging, int64_t thread) {
    const Setup *setup = &staging->setup;
    int result = setup->enter == NULL ? 0 : setup->enter(setup->context);
    if (result) {
        pthread_mutex_lock(&staging->lock);
        if (!staging->error) staging->error = result;
        pthread_cond_broadcast(&staging->changed);
        pthread_mutex_unlock(&staging->lock);
    }
    while (run(staging, LAP, thread))
        if (is_wanted_elsewhere(setup->is_upward != 0)) return 0;
    return 1;
}

/* Spin for tickets, with the pool's lock held, rather than sleep: waking a thread takes longer than copying a MiB. */
static void watch(int64_t spin_ns) {
    int64_t until = now_ns() + spin_ns;
    pool.watching++;
    pthread_mutex_unlock(&pool.lock);
    do pause_a_little();
    while (__atomic_load_n(&pool.tickets, __ATOMIC_RELAXED) == 0 && now_ns() < until);
    pthread_mutex_lock(&pool.lock);
    pool.watching--;
}

static void *live(void *number) {
    int64_t spin_ns = 0; /* how long to spin after the last transfer */
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        Staging *staging;
        while ((staging = next_wanted()) == NULL) {
            if (spin_ns && pool.tickets == 0) watch(spin_ns);
            else pthread_cond_wait(&pool.wanted, &pool.lock);
            spin_ns = 0;
        }
        spin_ns = staging->setup.spin_ns;
        int way = staging->setup.is_upward != 0;
        staging->wanted--;
        staging->helping++;
        pool.working[way]++;
        tickets(-1);
        pool.idle--;
        if (staging->wanted == 0) withdraw(staging);
        pthread_mutex_unlock(&pool.lock);
        int is_over = help_out(staging, (int64_t)(intptr_t)number);
        pthread_mutex_lock(&pool.lock);
        pool.idle++;
        pool.working[way]--;
        if (!is_over && !__atomic_load_n(&staging->is_ending, __ATOMIC_RELAXED)) { /* xf_end() sets it before it locks */
            if (staging->wanted++ == 0) enlist(staging);
            tickets(1);
        }
        if (--staging->helping == 0) pthread_cond_broadcast(&pool.left); /* it may be freed from here on */
    }
    return NULL;
}

/* `run` in a Python thread, which counts as one of those that work in its direction. */
EXPORT int xf_run(Staging *staging, int64_t most, int64_t thread) {
    int way = staging->setup.is_upward != 0;
    pthread_mutex_lock(&pool.lock);
    pool.working[way]++;
    pthread_mutex_unlock(&pool.lock);
    int is_left = run(staging, most, thread);
    pthread_mutex_lock(&pool.lock);
    pool.working[way]--;
    int is_wanted = next_wanted() != NULL; /* a thread may have slept because of this one */
    pthread_mutex_unlock(&pool.lock);
    if (is_wanted) pthread_cond_signal(&pool.wanted);
    return is_left;
}

/* Start a thread, with the pool's lock held; it takes no signals, which are Python's to handle. */
static int start(void) {
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int result = pthread_create(&thread, NULL, live, (void *)(intptr_t)-(pool.threads + 1));
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (result) return 0;
    pthread_detach(thread);
    pool.threads++;
    pool.idle++;
    return 1;
}

/* Let up to `count` threads come and help, of `most` that there may be, and `each_way` that help in one direction. They
   are numbered -1, -2, ... Once only. */
EXPORT void xf_help(Staging *staging, int64_t count, int64_t each_way, int64_t most) {
    if (count <= 0) return;
    pthread_mutex_lock(&pool.lock);
    pool.each_way = each_way;
    pool.most = most;
    if (!pool.is_prepared) pool.is_prepared = pthread_atfork(NULL, NULL, forget_threads) == 0;
    enlist(staging);
    staging->wanted = count;
    tickets(count);
    while (pool.idle < pool.tickets && pool.threads < most && start());
    int64_t asleep = count - pool.watching; /* a spinning thread sees them, or looks before it sleeps */
    pthread_mutex_unlock(&pool.lock);
    for (int64_t each = 0; each < asleep; each++) pthread_cond_signal(&pool.wanted);
}

/* Hand out nothing more, and wait until every thread of the pool has left. */
EXPORT void xf_end(Staging *staging) {
    pthread_mutex_lock(&staging->lock);
    __atomic_store_n(&staging->is_ending, 1, __ATOMIC_RELAXED);
    pthread_cond_broadcast(&staging->changed);
    pthread_mutex_unlock(&staging->lock);
    pthread_mutex_lock(&pool.lock);
    withdraw(staging);
    for (int64_t until = now_ns() + staging->setup.spin_ns; staging->helping && now_ns() < until;) {
        pthread_mutex_unlock(&pool.lock);
        pause_a_little();
        pthread_mutex_lock(&pool.lock);
    }
    while (staging->helping) pthread_cond_wait(&pool.left, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
}

/* --- memory that one thread sends by itself, filled by it and by spinning helpers */

#define FILL_PIECE (128 << 10)
#define LOOP_NS 1000000       /* fills that come so soon after one another are a loop, for which threads spin */
#define FILL_SPIN_NS 300000
#define FEW 2                 /* threads that are woken elsewhere */

typedef struct {
    int64_t offsets[2], firsts[2], share;
    Chunk chunk;
    Staging *staging;
} Filling;

static int sends_nothing(uint64_t dst, uint64_t src, size_t nbytes, void *stream) {
    (void)dst, (void)src, (void)nbytes, (void)stream;
    return 0;
}

static int records_nothing(void *event, void *stream) {
    (void)event, (void)stream;
    return 0;
}

/* Whether the fill that begins now comes soon after the one before. */
static int is_in_loop(void) {
    static int64_t last_ns; /* atomic */
    int64_t begun_ns = now_ns();
    return begun_ns - __atomic_exchange_n(&last_ns, begun_ns, __ATOMIC_RELAXED) < LOOP_NS;
}

/* Let up to `helpers` threads, of `most`, fill pinned memory past the processor's caches; NULL, and nothing done, where
   one is as good. The memory is filled, and may be given up, when xf_fill_end() returns. */
static Filling *begin_filling(
    char *pinned, const char *host, int64_t nbytes, int is_loop, int64_t helpers, int64_t each_way, int64_t most) {
    Filling *filling = nbytes > FILL_PIECE && helpers > 0 ? calloc(1, sizeof *filling) : NULL;
    if (filling == NULL) return NULL;
    filling->offsets[1] = nbytes;
    filling->share = FILL_PIECE;
    filling->firsts[1] = (nbytes + FILL_PIECE - 1) / FILL_PIECE;
    if (helpers >= filling->firsts[1]) helpers = filling->firsts[1] - 1;
    filling->chunk.memory = pinned;
    Setup setup = {
        .host = (char *)(uintptr_t)host, .offsets = filling->offsets, .shares = &filling->share,
        .firsts = filling->firsts, .loads = 1, .chunks = &filling->chunk, .chunk_count = 1, .copy = sends_nothing,
        .record = records_nothing, .is_upward = 1, .is_streamed = 1, .spin_ns = is_loop ? FILL_SPIN_NS : 0,
    };
    filling->staging = xf_open(&setup);
    if (filling->staging == NULL) {
        free(filling);
        return NULL;
    }
    xf_help(filling->staging, is_loop || helpers < FEW ? helpers : FEW, each_way, most);
    return filling;
}

EXPORT Filling *xf_fill_begin(
    char *pinned, const char *host, int64_t nbytes, int64_t helpers, int64_t each_way, int64_t most) {
    return begin_filling(pinned, host, nbytes, is_in_loop(), helpers, each_way, most);
}

/* Do what is left in the calling thread too, and wait for the others. */
EXPORT void xf_fill_end(Filling *filling) {
    while (xf_run(filling->staging, INT64_MAX, 0));
    xf_end(filling->staging);
    xf_close(filling->staging);
    free(filling);
}

/* Fill pinned memory past the processor's caches; in a loop with up to `helpers` threads of `most`. */
EXPORT void xf_fill(char *pinned, const char *host, int64_t nbytes, int64_t helpers, int64_t each_way, int64_t most) {
    Filling *filling =
        is_in_loop() ? begin_filling(pinned, host, nbytes, 1, helpers, each_way, most) : NULL;
    if (filling != NULL) xf_fill_end(filling);
    else chunk_fill(1, pinned, host, (size_t)nbytes);
}
