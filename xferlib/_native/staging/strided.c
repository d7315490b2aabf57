/* Gathers elements of a host array of any strides into contiguous memory, or scatters them back, and converts them.

   The obvious way is one loop over all indices that adds up strides. It is slow in three ways. Where neighbours lie
   together, a call for each element costs more than its bytes: runs are found first, and copied as words of a constant
   size, or as blocks. Where neighbours in the result lie far apart on the host (a transposed array), each element takes
   a whole line out of memory, of which the next use is a row away: tiles read the lines of some rows completely. And a
   conversion in the same loop cannot use vectors: elements are first brought together in a block that stays in the
   cache, and converted there, contiguous to contiguous.

   The range is cut into boxes: a range of one axis with all inner axes whole. In a box the order of the loops is free.

   The innermost loops are in elements.h and words.h. Nothing here allocates, locks, or keeps a state. */

#include "elements.h"
#include "plain.h"
#include "staging.h"
#include "words.h"

#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define PREFETCH_NBYTES 2048 /* how far ahead of a copy memory is asked for */
#define LONG_ROW 64          /* elements of a row that is converted where it lies; shorter ones are brought together */
#define SHORT_ROW 16         /* elements of rows that are too short to be converted one by one, or turned by squares */
#define PAST_LEAST 16384     /* fewer bytes are copied through the caches */
#define STREAM_LEAST 16384   /* shorter runs lose more by their fence, and by the lines at both ends that two runs share */
#define BLOCK_NBYTES 16384   /* elements that wait for their conversion: half of a small first-level cache */
#define HOPS_BELOW 16       /* words of an innermost loop: fewer cost less than what is around it */
#define HOPS_MOST 64         /* words of one hop: what they and their neighbours take stays in the first cache */
#define LINE 64              /* bytes of a line of the cache */
#define UNIT_MOST (512 << 10) /* bytes of a unit: more rows would leave too little to share */
#define ELEMENTS_MOST 2048   /* of a block of small ones: each may be in another line of the cache */
#define RUNS_LEAST 512       /* elements of two axes: rows that lie together on the host need no third axis to fill a block */
#define SIDE_MOST 16         /* the side of the largest ones that are turned in registers */
#define TILE_COLUMNS 64      /* rows of the host that a tile touches: as many pages as a first-level TLB holds */

/* The bytes and the form of each small float, for the test that compares them with the table in Python. */
#define FORM(NAME, ...) {sizeof(C_##NAME), __VA_ARGS__},
EXPORT const int32_t xf_small_floats[TYPES - NUMPYS][6] = {EACH_FORM(FORM)};

/* Copy past the processor's caches: memory that is written need not be read first, and what the caches hold stays there.
   In a loop of 1 MiB a thread of a Xeon of 2024 fills cold memory at 18 GB/s so, and at 8 through the caches. */
static void copy_past(char *restrict to, const char *restrict from, size_t nbytes) {
#ifdef __SSE2__
    size_t ahead = -(uintptr_t)to & 63;
    if (ahead > nbytes) ahead = nbytes;
    memcpy(to, from, ahead);
    to += ahead, from += ahead, nbytes -= ahead;
    for (; nbytes >= 64; nbytes -= 64, to += 64, from += 64) {
        _mm_prefetch(from + PREFETCH_NBYTES, _MM_HINT_T1); /* beyond the end too: it never faults */
        for (int part = 0; part < 64; part += 16)
            _mm_stream_si128((__m128i *)(to + part), _mm_loadu_si128((const __m128i *)(from + part)));
    }
    memcpy(to, from, nbytes);
    _mm_sfence();
#else
    memcpy(to, from, nbytes);
#endif
}

/* Fill a part of a chunk. A device that reads right behind would have to fetch it out of the caches, at half the speed of
   both, so what is long goes past them. */
void chunk_fill(int is_streamed, char *restrict pinned, const char *restrict host, size_t nbytes) {
    if (is_streamed && nbytes >= STREAM_LEAST) copy_past(pinned, host, nbytes);
    else copy_plain(pinned, host, nbytes);
}

/* Empty a part of a chunk: what is long goes past the caches, which then hold the chunks and nothing else. */
void chunk_empty(int is_streamed, char *restrict host, const char *restrict pinned, size_t nbytes) {
    if (is_streamed && nbytes >= PAST_LEAST) copy_past(host, pinned, nbytes);
    else copy_plain(host, pinned, nbytes);
}

/* --- bytes that stay as they are, between two dimensions of the host and rows elsewhere */

typedef struct {
    const Layout *layout;
    int is_gather, is_streamed;
    Convert convert;    /* of a gather from the host's dtype, of a scatter to it; NULL: none */
    Convert swap;       /* of the host's numbers; NULL: none */
    int64_t numbers;    /* of an element, for `swap` */
    WordLoops elements; /* of the host's size */
} Work;

typedef struct {
    int64_t extent, stride; /* on the host */
} Axis;

static int64_t distance(int64_t stride) {
    return stride < 0 ? -stride : stride;
}

/* How many neighbours along an axis a line of the cache holds. */
static int64_t held_by_line(int64_t stride, int64_t extent) {
    int64_t step = distance(stride), count = step == 0 ? LINE : step < LINE ? LINE / step : 1;
    return count < extent ? count : extent;
}

static void run(const Work *work, char *host, char *other, int64_t nbytes) {
    if (work->is_gather) chunk_fill(work->is_streamed, other, host, (size_t)nbytes);
    else chunk_empty(work->is_streamed, host, other, (size_t)nbytes);
}

/* Words `step` bytes apart on the host, contiguous elsewhere. */
static void line(const Work *work, const WordLoops *words, char *host, char *other, int64_t count, int64_t step) {
    if (work->is_gather) words->gather(other, host, count, step);
    else words->scatter(host, other, count, step);
}

/* A part of `move` that stays in the cache: by squares where rows are together on the host, the rest by lines. */
static void tile(const Work *work, char *host, char *other, Axis rows, int64_t other_stride, Axis columns) {
    int64_t size = work->layout->host_size, side = 1;
    Square square = rows.stride == size ? square_of(size, &side) : NULL;
    int64_t across = square != NULL ? columns.extent / side * side : 0;
    int64_t down = across ? rows.extent / side * side : 0;
    for (int64_t row = 0; row < down; row += side)
        for (int64_t column = 0; column < across; column += side) {
            char *there = host + row * size + column * columns.stride, *here = other + row * other_stride + column * size;
            if (work->is_gather) square(here, other_stride, there, columns.stride);
            else square(there, columns.stride, here, other_stride);
        }
    for (int64_t column = across; down && column < columns.extent; column++) { /* few columns: each along all rows */
        char *there = host + column * columns.stride, *here = other + column * size;
        if (work->is_gather) hop_of(size)(here, other_stride, there, rows.stride, down);
        else hop_of(size)(there, rows.stride, here, other_stride, down);
    }
    for (int64_t row = down; row < rows.extent; row++)
        line(work, &work->elements, host + row * rows.stride, other + row * other_stride, columns.extent, columns.stride);
}

/* Rows of `nbytes`, each together on both sides. */
static void lines(const Work *work, char *host, char *other, Axis rows, int64_t other_stride, int64_t nbytes) {
    WordLoops words = other_stride == nbytes ? BEST(words_of)(nbytes) : (WordLoops){NULL, NULL};
    Rows few = rows_of(nbytes);
    if (words.gather != NULL) line(work, &words, host, other, rows.extent, rows.stride);
    else if (few != NULL && work->is_gather) few(other, other_stride, host, rows.stride, rows.extent, nbytes);
    else if (few != NULL) few(host, rows.stride, other, other_stride, rows.extent, nbytes);
    else
        for (int64_t row = 0; row < rows.extent; row++)
            run(work, host + row * rows.stride, other + row * other_stride, nbytes);
}

/* The same to where they follow one another, past the caches: each alone would be too short for that, so they are put
   together in a block that stays in the first cache. */
static void lines_past(const Work *work, char *host, char *other, Axis rows, int64_t nbytes) {
    char block[BLOCK_NBYTES];
    Axis part = {BLOCK_NBYTES / nbytes, rows.stride};
    for (int64_t row = 0; row < rows.extent; row += part.extent) {
        if (part.extent > rows.extent - row) part.extent = rows.extent - row;
        lines(work, host + row * rows.stride, block, part, nbytes, nbytes);
        copy_past(other + row * nbytes, block, (size_t)(part.extent * nbytes));
    }
}

/* Rows by columns: `rows` has its strides on both sides, columns are contiguous elsewhere. */
static void move(const Work *work, char *host, char *other, Axis rows, int64_t other_stride, Axis columns) {
    int64_t size = work->layout->host_size;
    if (columns.stride == size) {
        int64_t nbytes = columns.extent * size;
        int is_short = nbytes < STREAM_LEAST && other_stride == nbytes && nbytes * rows.extent >= STREAM_LEAST;
        if (work->is_gather && work->is_streamed && is_short) lines_past(work, host, other, rows, nbytes);
        else lines(work, host, other, rows, other_stride, nbytes);
        return;
    }
    int64_t near = distance(rows.stride);
    if (near >= distance(columns.stride) || rows.extent == 1) {
        for (int64_t row = 0; row < rows.extent; row++)
            line(work, &work->elements, host + row * rows.stride, other + row * other_stride, columns.extent, columns.stride);
        return;
    }
    int64_t height = near ? (64 + near - 1) / near : rows.extent; /* what a line of the cache holds */
    for (int64_t top = 0; top < rows.extent; top += height) {
        Axis part = {top + height < rows.extent ? height : rows.extent - top, rows.stride};
        for (int64_t left = 0; left < columns.extent; left += TILE_COLUMNS) {
            Axis across = {left + TILE_COLUMNS < columns.extent ? TILE_COLUMNS : columns.extent - left, columns.stride};
            tile(work, host + top * rows.stride + left * columns.stride, other + top * other_stride + left * size, part,
                 other_stride, across);
        }
    }
}

/* --- with conversion: through a block that stays in the cache */

/* Elements that are contiguous on both sides; `spare` has room for them. */
static void turn(const Work *work, char *host, char *device, char *spare, int64_t count) {
    char *between = work->convert == NULL ? device : work->swap == NULL ? host : spare;
    if (work->is_gather) {
        if (work->swap != NULL) work->swap(between, host, count * work->numbers);
        if (work->convert != NULL) work->convert(device, between, count);
    } else {
        if (work->convert != NULL) work->convert(between, device, count);
        if (work->swap != NULL) work->swap(host, between, count * work->numbers);
    }
}

static void move_through(const Work *work, char *host, char *device, Axis rows, int64_t device_stride, Axis columns) {
    char block[BLOCK_NBYTES], spare[BLOCK_NBYTES];
    Work inside = *work; /* the block stays in the cache */
    inside.is_streamed = 0;
    int64_t size = work->layout->host_size, device_size = work->layout->device_size;
    int64_t most = BLOCK_NBYTES / size, width = columns.extent < most ? columns.extent : most;
    if (columns.stride != size && rows.extent > 1 && width > 4 * TILE_COLUMNS) width = 4 * TILE_COLUMNS;
    int64_t height = most / width;
    int is_whole = width == columns.extent && device_stride == width * device_size;
    for (int64_t top = 0; top < rows.extent; top += height) {
        int64_t count = top + height < rows.extent ? height : rows.extent - top;
        for (int64_t left = 0; left < columns.extent; left += width) {
            int64_t wide = left + width < columns.extent ? width : columns.extent - left;
            char *there = host + top * rows.stride + left * columns.stride;
            char *here = device + top * device_stride + left * device_size;
            Axis down = {count, rows.stride}, across = {wide, columns.stride};
            if (columns.stride == size && (count == 1 || wide >= LONG_ROW)) { /* rows are converted where they lie */
                for (int64_t row = 0; row < count; row++)
                    turn(work, there + row * rows.stride, here + row * device_stride, spare, wide);
                continue;
            }
            if (work->is_gather) move(&inside, there, block, down, wide * size, across);
            if (is_whole) turn(work, block, here, spare, count * wide);
            else
                for (int64_t row = 0; row < count; row++)
                    turn(work, block + row * wide * size, here + row * device_stride, spare, wide);
            if (!work->is_gather) move(&inside, there, block, down, wide * size, across);
        }
    }
}

/* --- boxes, and ranges of them */

/* The next index of the outer axes, but for the one that was `done` inside; whether there is one. */
static int next(char **host, char **device, const Axis *axes, const int64_t *strides, int64_t *indices, int64_t count,
                int64_t done) {
    for (int64_t axis = count; axis-- > 0;) {
        if (axis == done) continue;
        *host += axes[axis].stride, *device += strides[axis];
        if (++indices[axis] < axes[axis].extent) return 1;
        *host -= axes[axis].stride * axes[axis].extent, *device -= strides[axis] * axes[axis].extent;
        indices[axis] = 0;
    }
    return 0;
}

/* How many bytes of the cache's lines each step along an axis takes, on both sides. */
static int64_t lines_of(Axis axis, int64_t device_stride) {
    int64_t host = distance(axis.stride);
    return (host < 64 ? host : 64) + (device_stride < 64 ? device_stride : 64);
}

/* Where the innermost loop would be short, word by word along a long axis: of several the one whose neighbours are
   nearest. 0, with nothing done, elsewhere. */
static int hops(const Work *work, char *host, char *device, const Axis *axes, const int64_t *strides, int64_t count,
                int64_t row) {
    int64_t size = work->layout->host_size, last = count - 1, inner = axes[last].extent, longest = 0;
    if (work->convert != NULL || work->swap != NULL) return 0;
    if (axes[last].stride == size && hop_of(inner * size) != NULL) {
        size *= inner, count--, last--;
        if (count == 0) return 0;
        inner = row >= 0 && strides[row] == size ? axes[row].extent : 1;
    } else if (axes[last].stride == size) return 0; /* long runs */
    int64_t side = 0;
    if (row >= 0 && axes[row].stride == size && axes[row].extent >= 8 && square_of(size, &side) != NULL && inner >= 8 && inner >= side)
        return 0; /* squares are faster */
    for (int64_t axis = 1; axis < count; axis++) {
        int is_long = axes[axis].extent >= HOPS_BELOW, was_long = axes[longest].extent >= HOPS_BELOW;
        int is_longer = axes[axis].extent > axes[longest].extent;
        int is_nearer = lines_of(axes[axis], strides[axis]) <= lines_of(axes[longest], strides[longest]);
        if (is_long != was_long ? is_long : is_long ? is_nearer : is_longer) longest = axis;
    }
    if (inner >= HOPS_BELOW || axes[longest].extent < 2 * inner) return 0;
    int64_t indices[XF_MOST_AXES] = {0}, extent = axes[longest].extent, there = axes[longest].stride, here = strides[longest];
    Hop hop = hop_of(size);
    if (hop == NULL) return 0;
    for (int64_t done = 0; done < extent; done += HOPS_MOST) {
        int64_t words = extent - done < HOPS_MOST ? extent - done : HOPS_MOST;
        char *from = host + done * there, *to = device + done * here;
        do {
            if (work->is_gather) hop(to, here, from, there, words);
            else hop(from, there, to, here, words);
        } while (next(&from, &to, axes, strides, indices, count, longest));
    }
    return 1;
}

/* The inner axes of a block of that many elements: `inner` of them in whole axes, from `outer` on, and of the axis before
   those up to `wide`. */
typedef struct {
    int64_t outer, inner, wide;
} Block;

static Block block_of(const Axis *axes, int64_t count, int64_t most) {
    Block block = {count, 1, 1};
    while (block.outer > 0 && block.inner * axes[block.outer - 1].extent <= most) block.inner *= axes[--block.outer].extent;
    block.wide = most / block.inner;
    if (block.wide > SIDE_MOST) block.wide -= block.wide % SIDE_MOST;
    return block;
}

static void box(const Work *work, char *host, char *device, const Axis *axes, int64_t count);

/* With conversion, where rows are short: a block of several inner axes is brought together by the loops for bytes that stay as
   they are, and converted at once, since a call for each row costs more than its elements. Neighbours on the host are of axis
   `near`: where that is an outer one, the block has as many of them as a line of the cache, and each is converted by itself. */
static void box_through(const Work *work, char *host, char *device, const Axis *axes, const int64_t *strides, int64_t count,
                        int64_t near) {
    char block[BLOCK_NBYTES], spare[BLOCK_NBYTES];
    int64_t size = work->layout->host_size, device_size = work->layout->device_size, indices[XF_MOST_AXES] = {0};
    Layout layout = {.host_size = size, .device_size = size};
    Work inside = {&layout, work->is_gather, 0, NULL, NULL, 1, work->elements};
    int64_t most = size < 8 ? ELEMENTS_MOST : BLOCK_NBYTES / size, height = held_by_line(axes[near].stride, axes[near].extent);
    Block parts = block_of(axes, count, most);
    int64_t cut = parts.outer - 1, is_tall = near < cut || (near == cut && most / parts.inner < height);
    if (is_tall) { /* less room for inner axes, so that `near` is before them and the one that is cut */
        parts = block_of(axes, count, most / height);
        cut = parts.outer - 1;
    } else height = 1;
    int64_t inner = parts.inner, outer = parts.outer, wide = parts.wide;
    Axis rows = is_tall ? axes[near] : (Axis){1, 0}, columns = outer ? axes[cut] : (Axis){1, 0};
    do {
        for (int64_t top = 0; top < rows.extent; top += height)
            for (int64_t left = 0; left < columns.extent; left += wide) {
                int64_t tall = top + height < rows.extent ? height : rows.extent - top, given = 0;
                int64_t across = left + wide < columns.extent ? wide : columns.extent - left;
                char *there = host + top * rows.stride + left * columns.stride;
                char *here = device + top * (is_tall ? strides[near] : 0) + left * inner * device_size;
                Axis part[XF_MOST_AXES + 1];
                if (tall > 1) part[given++] = (Axis){tall, rows.stride};
                if (across > 1) part[given++] = (Axis){across, columns.stride};
                for (int64_t axis = outer; axis < count; axis++) part[given++] = axes[axis];
                if (given == 0) part[given++] = (Axis){1, size};
                if (work->is_gather) box(&inside, there, block, part, given);
                for (int64_t row = 0; row < tall; row++)
                    turn(work, block + row * across * inner * size, here + row * (is_tall ? strides[near] : 0), spare, across * inner);
                if (!work->is_gather) box(&inside, there, block, part, given);
            }
    } while (cut > 0 && next(&host, &device, axes, strides, indices, cut, is_tall ? near : cut));
}

/* All elements of the given axes, which are contiguous on the device. */
static void box(const Work *work, char *host, char *device, const Axis *axes, int64_t count) {
    int64_t strides[XF_MOST_AXES], indices[XF_MOST_AXES]; /* on the device; of the outer axes */
    int64_t nbytes = work->layout->device_size;
    for (int64_t axis = count; axis-- > 0; nbytes *= axes[axis].extent) strides[axis] = nbytes, indices[axis] = 0;
    /* Rows: of the outer axes the one whose neighbours are nearest, if nearer than columns; else the innermost. */
    int64_t last = count - 1, row = last - 1;
    if (axes[last].stride != work->layout->host_size)
        for (int64_t axis = last - 1; axis-- > 0;)
            if (distance(axes[axis].stride) < distance(axes[row].stride)) row = axis;
    int is_converted = work->convert != NULL || work->swap != NULL, is_run = axes[last].stride == work->layout->host_size;
    int are_many = row >= 0 && is_run && axes[row].extent * axes[last].extent >= RUNS_LEAST;
    if (is_converted && row >= 0 && axes[last].extent < SHORT_ROW && !are_many) {
        box_through(work, host, device, axes, strides, count, is_run ? last : row);
        return;
    }
    if (hops(work, host, device, axes, strides, count, row)) return;
    Axis rows = row >= 0 ? axes[row] : (Axis){1, 0};
    int64_t row_stride = row >= 0 ? strides[row] : nbytes;
    do {
        if (is_converted) move_through(work, host, device, rows, row_stride, axes[last]);
        else move(work, host, device, rows, row_stride, axes[last]);
    } while (next(&host, &device, axes, strides, indices, last, row));
}

static void range(const Work *work, char *start, int64_t first, int64_t count, char *device) {
    const Layout *layout = work->layout;
    int64_t axes = layout->axes, inner[XF_MOST_AXES + 1], indices[XF_MOST_AXES];
    inner[axes] = 1;
    for (int64_t axis = axes; axis-- > 0;) inner[axis] = inner[axis + 1] * layout->extents[axis];
    while (count > 0) {
        char *host = start;
        int64_t rest = first, axis = axes - 1;
        for (int64_t each = 0; each < axes; each++) {
            indices[each] = rest / inner[each + 1], rest %= inner[each + 1];
            host += indices[each] * layout->strides[each];
        }
        while (axis > 0 && first % inner[axis] == 0 && count >= inner[axis]) axis--; /* whole inner axes */
        int64_t extent = layout->extents[axis] - indices[axis];
        if (extent > count / inner[axis + 1]) extent = count / inner[axis + 1];
        Axis part[XF_MOST_AXES];
        for (int64_t each = axis; each < axes; each++) part[each - axis] = (Axis){layout->extents[each], layout->strides[each]};
        part[0].extent = extent;
        box(work, host, device, part, axes - axis);
        first += extent * inner[axis + 1], count -= extent * inner[axis + 1];
        device += extent * inner[axis + 1] * layout->device_size;
    }
}

static Work work_of(const Layout *layout, int is_gather) {
    int64_t host = layout->host_type, device = layout->device_type, numbers = host == 12 || host == 13 ? 2 : 1;
    Work work = {layout, is_gather, 0, NULL, NULL, numbers, BEST(words_of)(layout->host_size)};
    if (host != device) work.convert = is_gather ? BEST(conversions)[host][device] : BEST(conversions)[device][host];
    if (layout->is_swapped) work.swap = BEST(swap_of)(layout->host_size / numbers);
    return work;
}

/* Bytes on the device of which a thread takes a multiple, so that it uses lines of the cache wholly: where neighbours on the
   host are of an outer axis, as many of its rows as a line holds parts of. */
int64_t xf_unit(const Layout *layout) {
    int64_t near = 0, row = layout->device_size;
    for (int64_t axis = 1; axis < layout->axes; axis++)
        if (distance(layout->strides[axis]) < distance(layout->strides[near])) near = axis;
    for (int64_t axis = near + 1; axis < layout->axes; axis++) row *= layout->extents[axis];
    if (near == layout->axes - 1 || row > UNIT_MOST) return layout->device_size;
    int64_t rows = held_by_line(layout->strides[near], layout->extents[near]);
    if (rows > UNIT_MOST / row) rows = UNIT_MOST / row;
    return row * rows;
}

/* Copy elements `first` to `first + count` in C order to contiguous memory, or from there to their places; `host` is the element
   whose indices are all 0. */
void xf_spread(
    const Layout *layout, char *host, int64_t first, int64_t count, char *device, int is_gather, int is_streamed) {
    Work work = work_of(layout, is_gather);
    work.is_streamed = is_streamed;
    range(&work, host, first, count, device);
}
