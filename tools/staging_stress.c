/* Transfers from several threads at once, over few chunks, in both directions, some ended early: a program for the
   sanitizers, together with the C files of xferlib/_native/staging, without Python. tools/check_native.py runs it. */

#include "../xferlib/_native/staging/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Ring *xf_ring_new(void);
int64_t xf_ring_add(Ring *ring, char *memory, void *event);
int64_t xf_ring_lent(Ring *ring, int64_t way);
int64_t xf_ring_free(Ring *ring);
void xf_host_copy(
    const Layout *layout, char *host, char *plain, int64_t nbytes, int is_gathered, int64_t helper_nbytes, int64_t helpers,
    int64_t most_threads, int64_t spin_ns);
void *xf_fill_begin(char *pinned, const char *host, int64_t nbytes, int64_t is_streamed, int64_t helpers, int64_t most_threads, int64_t spin_ns);
void xf_fill_end(void *fill);
void xf_fill(char *pinned, const char *host, int64_t nbytes, int64_t is_streamed, int64_t helpers, int64_t most_threads, int64_t spin_ns);

#define THREADS 4
#ifdef FEW_ROUNDS
#define ROUNDS 100
#else
#define ROUNDS 300
#endif
#define NBYTES 20000
#define CHUNK_NBYTES 1024

/* One device: copies are made when an event behind them is waited for, or at once; either is a driver's right. */
static int copy(uint64_t dst, uint64_t src, size_t nbytes, void *stream) {
    (void)stream;
    memcpy((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, nbytes);
    return 0;
}

static Ring *ring;

static Setup setup_of(int is_upward, int helpers) {
    return (Setup){
        .ring = ring, .copy = copy, .record = records_nothing, .wait = awaits_nothing, .is_upward = is_upward, .most_chunks = 3,
        .shared_chunks = 2, .way_chunks = 8, .first_block = 100, .largest_block = CHUNK_NBYTES, .block_parts = 4,
        .least_piece = 16, .most_piece = 200, .helper_nbytes = 1000, .spin_ns = 20000,
        .each_way = helpers + 1, .clearing = helpers + 1, .both_ways = 6, .is_marked = 0,
    };
}

static int number_below(uint64_t *seed, int limit) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((*seed >> 33) % (uint64_t)limit);
}

/* Between two host arrays: 2-byte elements of every second place, there and back. */
static void copy_on_host(uint64_t *seed) {
    int64_t count = 100000 + number_below(seed, 200000), nbytes = 2 * count;
    Layout layout = {.axes = 1, .extents = {count}, .strides = {4}, .host_size = 2, .device_size = 2};
    char *host = malloc((size_t)(2 * nbytes)), *plain = malloc((size_t)nbytes), *again = malloc((size_t)nbytes);
    if (host == NULL || plain == NULL || again == NULL) abort();
    for (int64_t i = 0; i < nbytes; i++) plain[i] = (char)(i * 7 >> 3);
    xf_host_copy(&layout, host, plain, nbytes, 0, 1000, 3, 6, 20000);
    xf_host_copy(&layout, host, again, nbytes, 1, 1000, 3, 6, 20000);
    if (memcmp(plain, again, (size_t)nbytes)) exit((puts("the bytes differ on the host"), 1));
    memset(plain, 0, (size_t)nbytes);
    xf_host_copy(NULL, again, plain, nbytes, 1, 1000, 3, 6, 20000);
    if (memcmp(plain, again, (size_t)nbytes)) exit((puts("plain bytes differ on the host"), 1));
    free(host), free(plain), free(again);
}

/* Memory that threads fill together, one fill after the other and two at a time: with those of other threads more than can be. */
static void fill_often(uint64_t *seed) {
    enum { MOST = 700000 };
    char *host = malloc(MOST), *filled[2] = {malloc(MOST), malloc(MOST)};
    if (host == NULL || filled[0] == NULL || filled[1] == NULL) abort();
    for (int i = 0; i < MOST; i++) host[i] = (char)(i * 11 >> 2);
    for (int round = 0; round < 20; round++) {
        int64_t nbytes[2];
        void *fills[2];
        for (int each = 0; each < 2; each++) {
            nbytes[each] = number_below(seed, MOST + 1);
            memset(filled[each], 0, MOST);
            fills[each] = xf_fill_begin(filled[each], host, nbytes[each], each, 3, 6, 20000);
        }
        for (int each = 0; each < 2; each++) {
            if (fills[each] != NULL) xf_fill_end(fills[each]);
            else xf_fill(filled[each], host, nbytes[each], each, 3, 6, 20000);
            int is_right = !memcmp(filled[each], host, (size_t)nbytes[each]);
            for (int64_t i = nbytes[each]; i < MOST; i++) is_right &= !filled[each][i];
            if (!is_right) exit((puts("memory is filled with other bytes"), 1));
        }
    }
    free(host), free(filled[0]), free(filled[1]);
}

static void *work(void *number) {
    uint64_t seed = (uint64_t)(uintptr_t)number;
    char *host = malloc(NBYTES), *device = malloc(NBYTES), *expected = malloc(NBYTES);
    if (host == NULL || device == NULL || expected == NULL) abort();
    for (int round = 0; round < ROUNDS; round++) {
        if (round % 100 == 0) copy_on_host(&seed), fill_often(&seed);
        int is_upward = number_below(&seed, 2), is_ended = !number_below(&seed, 8);
        for (int i = 0; i < NBYTES; i++) host[i] = (char)number_below(&seed, 256), device[i] = (char)number_below(&seed, 256);
        memcpy(expected, is_upward ? host : device, NBYTES);
        Setup setup = setup_of(is_upward, number_below(&seed, 4));
        Staging *staging = xf_open(&setup);
        int64_t start = 0;
        while (start < NBYTES) {
            int64_t nbytes = 1 + number_below(&seed, 6000);
            if (nbytes > NBYTES - start) nbytes = NBYTES - start;
            Region region = {.host = host + start, .device = (uint64_t)(uintptr_t)(device + start), .nbytes = nbytes, .unit = 1};
            start += nbytes;
            if (!xf_add(staging, &region, 1, start == NBYTES, 0)) abort();
            if (number_below(&seed, 2)) xf_run(staging, 3);
        }
        if (is_ended) xf_run(staging, 5);
        else while (xf_run(staging, 16));
        if (xf_end(staging)) abort();
        xf_close(staging, 0);
        if (!is_ended && (memcmp(host, expected, NBYTES) || memcmp(device, expected, NBYTES))) {
            puts("the bytes differ");
            exit(1);
        }
    }
    free(host), free(device), free(expected);
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    static char memory[5][CHUNK_NBYTES];
    ring = xf_ring_new();
    for (intptr_t each = 0; each < 5; each++) xf_ring_add(ring, memory[each], (void *)(each + 1));
    for (uintptr_t each = 0; each < THREADS; each++)
        if (pthread_create(&threads[each], NULL, work, (void *)(each + 1))) abort();
    for (int each = 0; each < THREADS; each++) pthread_join(threads[each], NULL);
    if (xf_ring_lent(ring, 0) || xf_ring_lent(ring, 1) || xf_ring_free(ring) != 5) {
        puts("chunks are missing");
        return 1;
    }
    return 0; /* the helpers live on, asleep */
}
