/* Staging of plain bytes without Python: threads that fill and empty pinned chunks while the link moves others.

   Python cuts the transfer into pieces, lends the chunks and brings the threads, which call xf_run() without the
   interpreter's lock. Upward, a thread fills a free chunk and sends it. Downward, it first asks for pieces until no
   chunk is free, so that the link never idles, then empties the one that arrives next. The driver's functions come in
   as addresses: nothing is linked to. */

#define _POSIX_C_SOURCE 199309L /* clock_gettime */

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

typedef struct {
    char *memory;
    void *event;
    int64_t is_busy; /* a copy may still use it until the event has passed */
} Chunk;

typedef struct {
    void *first, *last;                    /* events before and after the copy */
    int64_t asked_ns, sent_ns;             /* when the copy was enqueued */
    int64_t begun_ns, ended_ns;            /* when the chunk was filled or emptied */
    int64_t thread;                        /* by which of the callers */
} Mark; /* what a recording wants to know of one piece */

typedef struct {
    char *host;
    uint64_t device;
    const int64_t *offsets, *sizes;
    int64_t pieces;
    Chunk *chunks;
    int64_t chunk_count;
    void *stream;
    int (*copy)(uint64_t dst, uint64_t src, size_t nbytes, void *stream);
    int (*record)(void *event, void *stream);
    int (*wait)(void *event);
    int64_t is_upward;
    Mark *marks; /* one for each piece; NULL where nobody records */
} Setup; /* what Python fills in: see xferlib/_native/__init__.py */

typedef struct {
    Chunk *chunk;
    int64_t piece;
} Place;

typedef struct {
    Place *places;
    int64_t first, count, room;
} Queue;

typedef struct {
    Setup setup;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_mutex_t marking; /* so that nobody else's copy comes between two events */
    Queue free, arriving;
    int64_t next;  /* the first piece that nobody has taken */
    int64_t error; /* the driver's first result that is not 0 */
} Staging;

static void push(Queue *queue, Place place) {
    queue->places[(queue->first + queue->count++) % queue->room] = place;
}

static Place pop(Queue *queue) {
    Place place = queue->places[queue->first];
    queue->first = (queue->first + 1) % queue->room;
    queue->count--;
    return place;
}

EXPORT void xf_close(Staging *staging) {
    if (staging == NULL) return;
    free(staging->free.places);
    free(staging->arriving.places);
    pthread_cond_destroy(&staging->changed);
    pthread_mutex_destroy(&staging->marking);
    pthread_mutex_destroy(&staging->lock);
    free(staging);
}

/* NULL when there is no memory for it. The setup is copied; what it points to must outlive the staging. */
EXPORT Staging *xf_open(const Setup *setup) {
    Staging *staging = calloc(1, sizeof *staging);
    if (staging == NULL) return NULL;
    staging->setup = *setup;
    pthread_mutex_init(&staging->lock, NULL);
    pthread_mutex_init(&staging->marking, NULL);
    pthread_cond_init(&staging->changed, NULL);
    staging->free.room = staging->arriving.room = setup->chunk_count;
    staging->free.places = calloc((size_t)setup->chunk_count, sizeof(Place));
    staging->arriving.places = calloc((size_t)setup->chunk_count, sizeof(Place));
    if (staging->free.places == NULL || staging->arriving.places == NULL) {
        xf_close(staging);
        return NULL;
    }
    for (int64_t i = 0; i < setup->chunk_count; i++) push(&staging->free, (Place){&setup->chunks[i], -1});
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

/* Until no copy uses the chunk. */
static int settle(const Setup *setup, Chunk *chunk) {
    int result = chunk->is_busy ? setup->wait(chunk->event) : 0;
    if (result == 0) chunk->is_busy = 0;
    return result;
}

/* Enqueue a copy from or to the chunk, and the event behind it. */
static int send(const Setup *setup, Chunk *chunk, uint64_t dst, uint64_t src, int64_t nbytes) {
    int result = setup->copy(dst, src, (size_t)nbytes, setup->stream);
    if (result) return result;
    chunk->is_busy = 1;
    return setup->record(chunk->event, setup->stream);
}

/* The same between the events of a recording. */
static int send_marked(Staging *staging, Place place, uint64_t dst, uint64_t src) {
    const Setup *setup = &staging->setup;
    int64_t nbytes = setup->sizes[place.piece];
    if (setup->marks == NULL) return send(setup, place.chunk, dst, src, nbytes);
    Mark *mark = &setup->marks[place.piece];
    mark->asked_ns = now_ns();
    pthread_mutex_lock(&staging->marking);
    int result = setup->record(mark->first, setup->stream);
    if (result == 0) result = send(setup, place.chunk, dst, src, nbytes);
    if (result == 0) result = setup->record(mark->last, setup->stream);
    pthread_mutex_unlock(&staging->marking);
    if (result == 0) mark->sent_ns = now_ns();
    return result;
}

static void copy_marked(const Setup *setup, Place place, void *dst, const void *src, int64_t thread) {
    int64_t begun_ns = setup->marks == NULL ? 0 : now_ns();
    memcpy(dst, src, (size_t)setup->sizes[place.piece]);
    if (setup->marks == NULL) return;
    Mark *mark = &setup->marks[place.piece];
    mark->begun_ns = begun_ns;
    mark->ended_ns = now_ns();
    mark->thread = thread;
}

/* Wait, with the lock held, for a piece that this thread may fill; 0 when there is none left. */
static int take_up(Staging *staging, Place *place) {
    for (;;) {
        if (staging->error || staging->next >= staging->setup.pieces) return 0;
        if (staging->free.count) break;
        pthread_cond_wait(&staging->changed, &staging->lock);
    }
    *place = pop(&staging->free);
    place->piece = staging->next++;
    return 1;
}

/* Ask, with the lock held, for pieces as long as chunks are free, then wait for one to empty; 0 when there is none.
   What a chunk held before has been emptied, or the stream waits for whatever still reads it. */
static int take_down(Staging *staging, Place *place) {
    const Setup *setup = &staging->setup;
    for (;;) {
        while (!staging->error && staging->free.count && staging->next < setup->pieces) {
            Place asked = pop(&staging->free);
            asked.piece = staging->next++;
            uint64_t source = setup->device + (uint64_t)setup->offsets[asked.piece];
            staging->error = send_marked(staging, asked, (uint64_t)(uintptr_t)asked.chunk->memory, source);
            push(&staging->arriving, asked);
        }
        if (staging->error) return 0;
        if (staging->arriving.count) break;
        if (staging->next >= setup->pieces) return 0;
        pthread_cond_wait(&staging->changed, &staging->lock);
    }
    *place = pop(&staging->arriving);
    return 1;
}

static int fill(Staging *staging, Place place, int64_t thread) {
    const Setup *setup = &staging->setup;
    int64_t offset = setup->offsets[place.piece];
    int result = settle(setup, place.chunk);
    if (result) return result;
    copy_marked(setup, place, place.chunk->memory, setup->host + offset, thread);
    return send_marked(staging, place, setup->device + (uint64_t)offset, (uint64_t)(uintptr_t)place.chunk->memory);
}

static int empty(Staging *staging, Place place, int64_t thread) {
    const Setup *setup = &staging->setup;
    int result = settle(setup, place.chunk);
    if (result) return result;
    copy_marked(setup, place, setup->host + setup->offsets[place.piece], place.chunk->memory, thread);
    return 0;
}

/* Do up to `most` pieces in the calling thread, whose number a recording notes; 0 when there is no more for it. */
EXPORT int xf_run(Staging *staging, int64_t most, int64_t thread) {
    const Setup *setup = &staging->setup;
    Place place;
    int has_more = 1;
    pthread_mutex_lock(&staging->lock);
    while (most-- > 0) {
        has_more = setup->is_upward ? take_up(staging, &place) : take_down(staging, &place);
        if (!has_more) break;
        pthread_mutex_unlock(&staging->lock);
        int result = setup->is_upward ? fill(staging, place, thread) : empty(staging, place, thread);
        pthread_mutex_lock(&staging->lock);
        if (result && !staging->error) staging->error = result;
        push(&staging->free, place);
        pthread_cond_broadcast(&staging->changed);
    }
    pthread_mutex_unlock(&staging->lock);
    return has_more;
}
