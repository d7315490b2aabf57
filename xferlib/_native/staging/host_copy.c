/* Copies between two host arrays, which send nothing.

   Each is a transfer of one block, whose chunk is memory that nothing else uses, so that the same threads share it. */

#include "state.h"

#include <stdlib.h>

#define HOST_PIECE (512 << 10) /* most bytes that a thread copies at a time between two host arrays of a loop: less is slower */
#define LATE_PIECE (128 << 10) /* the same of plain bytes where helpers sleep: who comes late has little to do at the end */
#define HOST_PATIENT_FROM (32 << 20) /* bytes from which on helpers come to busy cores too */
#define HOST_PAST_FROM (16 << 20)    /* bytes of such a copy that goes past the processor's caches */
#define LINE 64                      /* bytes of a line of the cache */

int sends_nothing(uint64_t dst, uint64_t src, size_t nbytes, void *stream) {
    (void)dst, (void)src, (void)nbytes, (void)stream;
    return 0;
}

int records_nothing(void *event, void *stream) {
    (void)event, (void)stream;
    return 0;
}

int awaits_nothing(void *event) {
    (void)event;
    return 0;
}

/* A transfer of one block, whose chunk is memory that nothing else uses; NULL where there is no memory for its state. Outside a
   loop its pieces have `late_piece` bytes, if not 0. */
static Staging *open_alone(const Setup *setup, Chunk *chunk, const Region *region, int64_t late_piece) {
    Staging *staging = xf_open(setup);
    if (staging == NULL) return NULL;
    rest(staging); /* no transfer in the other direction has less of the link by it */
    staging->blocks[0].chunk = chunk;
    push(&staging->free, &staging->blocks[0]);
    if (staging->spin_ns == 0 && late_piece) staging->setup.most_piece = late_piece;
    if (xf_add(staging, region, 1, 1, 0)) return staging;
    xf_end(staging);
    xf_close(staging, 0);
    return NULL;
}

/* Do what is left in the calling thread too, and wait for the others. */
static void end_alone(Staging *staging) {
    while (xf_run(staging, INT64_MAX));
    xf_end(staging);
    xf_close(staging, 0);
}

/* Copy between two host arrays, and convert: `nbytes` of `plain`, which is in C order, from or to `host`, which is so too
   where it has no layout. From `helper_nbytes` on up to `helpers` threads, of `most_threads`, take part where cores are free
   for them. */
EXPORT void xf_host_copy(
    const Layout *layout, char *host, char *plain, int64_t nbytes, int is_gathered, int64_t helper_nbytes, int64_t helpers,
    int64_t most_threads, int64_t spin_ns) {
    Region region = {.host = host, .nbytes = nbytes, .unit = layout == NULL ? LINE : 0, .layout = layout};
    int is_upward = layout == NULL || is_gathered;
    if (helpers <= 0 || work_of(&region) < helper_nbytes) {
        if (nbytes) move_part(is_upward, nbytes >= HOST_PAST_FROM, layout, host, plain, 0, nbytes);
        return;
    }
    int64_t piece = least(HOST_PIECE, 2 * helper_nbytes);
    int64_t block = nbytes + (layout == NULL ? LINE : xf_unit(layout)); /* one block, though those are multiples of a unit */
    Setup setup = {
        .copy = sends_nothing, .record = records_nothing, .wait = awaits_nothing, .is_upward = is_upward,
        .most_chunks = 1, .shared_chunks = 1, .first_block = block, .largest_block = block, .block_parts = 1,
        .least_piece = most(piece / 4, 1), .most_piece = piece, .helper_nbytes = helper_nbytes, .spin_ns = spin_ns,
        .streamed_from = HOST_PAST_FROM, .cached_from = INT64_MAX, .shared_cached_from = INT64_MAX,
        .patient_from = HOST_PATIENT_FROM,
        .each_way = helpers + 1, .clearing = helpers + 1, .both_ways = most_threads,
    };
    Chunk chunk = {.memory = plain};
    Staging *staging = open_alone(&setup, &chunk, &region, layout == NULL ? least(piece, LATE_PIECE) : 0);
    if (staging != NULL) end_alone(staging);
    else move_part(is_upward, nbytes >= HOST_PAST_FROM, layout, host, plain, 0, nbytes);
}
