/* Checked execution: every access is looked up before it is made.
 *
 * Memory that a kernel may touch is in areas: the regions of the launch (those that overlap are one area), the variables
 * of shared memory, the local variables of functions that run, the device's heap. An access outside of all is reported
 * with the nearest. Bits say which bytes have been written, so that a read of others is found.
 *
 * Races are found by a shadow. Each word of 4 bytes has a Cell: its last write, and two of its readers, for a write by
 * anyone conflicts with one of two different ones. What an access is, is packed in a stamp (order.h). Two accesses of
 * different threads, one of them a write, that may not meet by their strength, are a race unless one happened before
 * the other:
 *
 * - in one block, where a barrier of all threads lies between them (its interval differs), or synchronisations of the
 *   warp (`lanes`);
 * - anywhere, where the one's thread has released and the other's has acquired. A fence makes a thread's knowledge ready;
 *   the next strong write publishes it at its address, and a thread that reads that address by an atomic or a strong load
 *   learns it from its next fence on. What threads have made ready before a barrier, each of them may publish after it:
 *   kernels write, fence, synchronise, and let one thread set the flag. The other way round a barrier is no fence, for
 *   plain reads after it may find an old value in the cache; strong ones do not.
 *
 * Not reported: a write of the value that is in memory already, next to another thread's write of it; anything against a
 * thread that has left before a barrier; a plain read next to an atomic of another thread, if an atomic of the reader's on
 * the same item follows, for a loop of compare-and-swap begins with a plain read, and what it has read is verified. That
 * is a suspicion until the reader comes to such an atomic, to a barrier or to its end, or has looped for long.
 *
 * The relation is that of the whole program, not of one run's order, so that most races are found under any schedule.
 *
 * The shadow takes 8 bytes a byte that is touched, and 32 more in words whose bytes have been accessed so differently that
 * each has a cell of its own. It is mapped in chunks, by the first access. One worker runs a checked launch: the cells have
 * no locks.
 *
 * Global state: none; the heap's is in services.c.
 */

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 10
/* The compiler's analyzer loses memory whose pointer is kept behind a pointer that it knows nothing of. */
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

#include "heap.h"
#include "order.h"
#include "state.h"

#include <sys/mman.h>

#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS MAP_ANON
#endif

enum { CHUNK_WORDS = 8192, RESERVED_BEGIN = 512, SITE_BITS = 16, SITE_MASK = (1 << SITE_BITS) - 1, RECENT = 64 };
enum { SLOTS = 3, PART_BITS = 5, PART_BEGIN = SLOTS * SITE_BITS, HALVES = 17, BY_BYTE = 16 };
/* In `notes` above the sites: */
#define PARTS (((1ull << SLOTS * PART_BITS) - 1) << PART_BEGIN)
#define IS_SECOND_WRITE (1ull << 63) /* slot 2 is a strong write behind the plain one */

/* Slot 0 is the last write, 1 and 2 are readers. A slot's part says whose bytes of the word it is: 0 all of them; else a
   bit for each; with BY_BYTE byte k is the access of the thread with the number k higher, and as HALVES the upper half is
   that of the next thread: so accesses of neighbours to bytes and halves need no cells of their own. */
typedef struct {
    u64 slots[SLOTS]; /* slots[0] is SPLIT where the bytes have cells of their own */
    u64 notes; /* the sites of the slots, 16 bits each; their parts, 5 bits each; a flag */
} Cell;

#define SPLIT (~0ull)

typedef struct {
    Cell *words, *bytes; /* bytes: NULL as long as no word of the chunk is split */
    size_t words_nbytes, bytes_nbytes;
} Chunk;

typedef struct Area {
    struct Area *next; /* of those of the heap */
    u64 begin, end;
    u64 shift; /* to the host's addresses */
    u64 word_begin; /* begin, down to a multiple of 4 */
    Chunk *chunks;
    u64 chunk_count;
    u32 first, count; /* regions, in Checks.order */
    int is_plain; /* one region without flags */
    u64 *read, *written; /* of a plain one */
    int is_read_only; /* all of its regions: nothing to race with */
} Area;

typedef struct {
    u64 address;
    Knowledge *wide; /* of releases for the grid */
    Knowledge *narrow; /* for a block alone */
    u32 narrow_name;
} Point;

typedef struct {
    Point *points;
    u32 count, room; /* room: a power of two */
} Points;

struct Checks {
    Launch *launch;
    Area *areas;
    u32 area_count, area_room;
    xf_region *regions; /* those of the launch, and what it has been told of later */
    u32 region_count, region_room;
    u32 *order; /* regions by their begin; what came later stands behind the others */
    Area *recent[RECENT]; /* by site */
    Area *heap_areas;
    u64 serial;
    KnowledgePool pool;
    Points points;
    u32 *block_of, *later_name; /* by name: the block's number; the name that the block has had afterwards, or 0 */
    u32 names, name_room;
    int is_ordering; /* XF_CHECKED, not only XF_TRACK */
    u16 *
        short_sites; /* where a program has more sites than cells can name: those that the launch comes to, from 1 on */
    u32 *long_sites, short_count;
};

/* Which bytes of shared or local memory have a value. */
typedef struct {
    u64 *initialised; /* a bit a byte */
    u32 *doubts; /* by word: what its bytes without a value have received; NULL where none has */
} Values;

struct BlockChecks {
    u32 name, first_name; /* 0: the names are used up, and no races are looked for */
    u32 interval;
    Values values; /* of the shared window */
    Area shared;
    u32 last_variable;
    u16 *lanes; /* by warp, lane and lane: clocks that a lane knows of another */
    u32 *lanes_interval; /* by warp: where `lanes` counts */
    Knowledge *base; /* of every thread */
    Knowledge *for_strong; /* the same, of what threads have read and not fenced */
    Knowledge *ready; /* what any thread may publish */
    Knowledge *left_knowledge, *left_ready; /* of threads that are gone: they count at the next barrier */
    Points points; /* in shared memory */
    int has_releases, has_knowledge; /* of single threads, since the last barrier */
};

struct Release {
    Knowledge *wide, *narrow;
};

/* A plain read that has met an atomic of another thread. */
typedef struct Suspicion {
    struct Suspicion *next;
    u64 address, nbytes, ticks;
    xf_report report;
} Suspicion;

typedef struct Frame {
    u64 begin;
    u32 nbytes, room;
    Values values;
} Frame;

/* --- reports */

/* What is told of an access is written only where it is refused. */
typedef struct {
    Thread *thread;
    u64 stamp; /* with its strength */
    u32 flags, site, short_site;
    const char *memory; /* what the word holds, and what it shall: a write of the same is none */
    const char *value;
    u32 nbytes;
    xf_report *report;
    u64 address; /* the host's, of the whole access */
    u32 all_nbytes;
    int is_shared;
} Access;

static _Noreturn void refuse_access(const Access *access, u32 kind) {
    access->report->kind = kind;
    fill_place(&access->report->here, access->thread, access->site, access->flags);
    fail(access->thread, access->report);
}

/* Where in a report's terms an address of an area is; of several regions the first that holds it. */
static void locate(const Checks *checks, const Area *area, u64 address, xf_report *report) {
    const xf_region *regions = checks->regions;
    for (u32 i = area->first; i < area->first + area->count; i++) {
        const xf_region *region = &regions[checks->order[i]];
        report->region = (s32)checks->order[i];
        report->offset = (s64)(address - region->begin);
        if (address >= region->begin && address - region->begin < region->nbytes) return;
    }
}

/* How many bytes an address is away from memory; 0 within it. */
static u64 measure_distance(u64 address, u64 begin, u64 end) {
    return address < begin ? begin - address : address >= end ? address - end + 1 : 0;
}

static void locate_shared(const Block *block, u32 offset, xf_report *report) {
    const xf_launch *given = block->worker->launch->given;
    u64 nearest = ~0ull;
    report->region = -1;
    report->offset = offset;
    for (u32 i = 0; i < given->variable_count; i++) {
        const xf_variable *variable = &given->variables[i];
        u64 distance = measure_distance(offset, variable->offset, variable->offset + variable->nbytes);
        if (distance < nearest) nearest = distance, report->variable = (s32)i;
    }
    /* Dynamic memory has no number of a variable. */
    u32 begin = block->worker->launch->dynamic_begin;
    if (given->dynamic_nbytes && measure_distance(offset, begin, begin + given->dynamic_nbytes) < nearest)
        report->variable = -1;
}

/* --- what an access is in */

static int is_within(u64 address, u64 nbytes, u64 begin, u64 end) {
    return address >= begin && address < end && nbytes <= end - address;
}

static Area *find_area(Checks *checks, u64 address, u32 site) {
    Area **recent = &checks->recent[site % RECENT], *area = *recent;
    if (area && address >= area->begin && address < area->end) return area;
    u32 begin = 0, end = checks->area_count;
    while (begin < end) {
        u32 middle = (begin + end) / 2;
        if (checks->areas[middle].end <= address) begin = middle + 1;
        else end = middle;
    }
    if (begin == checks->area_count || address < checks->areas[begin].begin) return NULL;
    return *recent = &checks->areas[begin];
}

static Area *nearest_area(Checks *checks, u64 address) {
    Area *found = NULL;
    u64 nearest = ~0ull;
    for (u32 i = 0; i < checks->area_count; i++) {
        Area *area = &checks->areas[i];
        u64 distance = measure_distance(address, area->begin, area->end);
        if (area->count && distance < nearest) nearest = distance, found = area;
    }
    return nearest <= 1 << 20 ? found : NULL;
}

static void nearest_region(Checks *checks, u64 address, xf_report *report) {
    const Area *area = nearest_area(checks, address);
    report->offset = (s64)address;
    if (!area) return;
    const xf_region *regions = checks->regions;
    u64 nearest = ~0ull;
    for (u32 i = area->first; i < area->first + area->count; i++) {
        const xf_region *region = &regions[checks->order[i]];
        u64 distance = measure_distance(address, region->begin, region->begin + region->nbytes);
        if (distance >= nearest) continue;
        nearest = distance;
        report->region = (s32)checks->order[i];
        report->offset = (s64)(address - region->begin);
    }
}

static _Noreturn void refuse_bounds(const Access *access, u64 address) {
    nearest_region(access->thread->worker->launch->checks, address, access->report);
    refuse_access(access, XF_OUT_OF_BOUNDS);
}

/* Of a read that copies a struct some bytes may be padding, which nothing writes; but no 8 of them at a multiple of 8,
   and none of a number. */
static int is_unwritten(const u64 *bits, u64 first, u32 count, u32 flags) {
    for (u32 done = 0; done < count; done += 8) {
        u32 part = count - done < 8 ? count - done : 8;
        u64 word = bits[(first + done) / 64] >> (first + done) % 64;
        if ((first + done) % 64 + part > 64) word |= bits[(first + done) / 64 + 1] << (64 - (first + done) % 64);
        u64 wanted = (1ull << part) - 1;
        if (flags & XF_NUMBER ? (word & wanted) != wanted : !(word & wanted)) return 1;
    }
    return 0;
}

/* Why a byte among some has no value; 0 where it is that nothing has written it. */
static u32 find_doubt(const Values *values, u64 first, u32 count) {
    for (u64 byte = first; values->doubts && byte < first + count; byte++)
        if (!(values->initialised[byte / 64] >> byte % 64 & 1) && values->doubts[byte / 4]) return values->doubts[byte / 4];
    return 0;
}

static _Noreturn void refuse_doubt(Thread *thread, u32 doubt, u32 site) {
    xf_report report = {.kind = XF_UNINITIALISED, .region = -3, .variable = -1, .other = {.site = (u32)NO_SITE}};
    fill_place(&report.here, thread, site, 0);
    if (doubt != XF_UNSET) {
        report.other.site = (doubt >> XF_DOUBT_SITE) - 1;
        snprintf(report.text, sizeof report.text, "%u", doubt & XF_DOUBT_LANE);
    }
    fail(thread, &report);
}

static void set_bits(u64 *bits, u64 first, u32 count) {
    u64 mask = count == 64 ? ~0ull : (1ull << count) - 1, place = first % 64;
    bits[first / 64] |= mask << place;
    if (place + count > 64) bits[first / 64 + 1] |= mask >> (64 - place);
}

/* Note bytes that are read or written, and how far all of them extend. */
static void track(u64 *bytes, u64 first, u32 count) {
    if (~first > bytes[0]) bytes[0] = ~first;
    if (first + count > bytes[1]) bytes[1] = first + count;
    set_bits(bytes + 2, first, count);
}

static void extend(const Access *access, u32 region, u64 first) {
    const xf_launch *given = access->thread->worker->launch->given;
    if (!given->reaches || access->site >= given->place_count) return;
    xf_reach *reach = &given->reaches[access->site];
    if (!reach->region) reach->region = region + 1;
    else if (reach->region != region + 1) reach->region = ~0ull;
    if (~first > reach->not_first) reach->not_first = ~first;
    if (first + access->all_nbytes > reach->end) reach->end = first + access->all_nbytes;
}

static void require_alignment(const Access *access, u64 address, u32 nbytes) {
    if (address & (nbytes - 1) && !(nbytes & (nbytes - 1))) refuse_access(access, XF_MISALIGNED);
}

/* --- the relation of accesses */

static u16 *lanes_of(const struct BlockChecks *own, u32 warp) {
    return own->lanes + (size_t)warp * WARP * WARP;
}

static int is_known(const Checks *checks, const Knowledge *knowledge, u64 stamp) {
    if (!knowledge) return 0;
    if (knows(&checks->pool, knowledge, stamp)) return 1;
    for (u32 name = checks->later_name[name_of(stamp)]; name; name = checks->later_name[name])
        if (knows_of(&checks->pool, knowledge, name)) return 1;
    return 0;
}

/* Whether an access of another thread happened before the next operation of the thread. */
static int is_before(const Thread *thread, u64 stamp, int is_for_strong) {
    const Checks *checks = thread->worker->launch->checks;
    const struct BlockChecks *own = thread->block->checks;
    u32 name = name_of(stamp), other = thread_of(stamp);
    if (name == own->name) {
        if (interval_of(stamp) < own->interval) return 1;
        if (other == thread->number) return 1;
        u32 warp = thread->number / WARP;
        if (other / WARP == warp && own->lanes_interval[warp] == own->interval &&
            lanes_of(own, warp)[thread->seen.lane * WARP + other % WARP] > clock_of(stamp))
            return 1;
    } else if (name >= own->first_name && name < own->name && checks->block_of[name] == thread->block->number) return 1;
    if (is_known(checks, thread->knowledge, stamp) || is_known(checks, own->base, stamp)) return 1;
    return is_for_strong && (is_known(checks, thread->for_strong, stamp) || is_known(checks, own->for_strong, stamp));
}

static void describe_race(const Access *access, u64 stamp, u32 site, int is_write) {
    const Checks *checks = access->thread->worker->launch->checks;
    const xf_launch *given = checks->launch->given;
    u32 number = thread_of(stamp), block = checks->block_of[name_of(stamp)];
    xf_location *other = &access->report->other;
    other->tid[0] = number % given->block[0];
    other->tid[1] = number / given->block[0] % given->block[1];
    other->tid[2] = number / given->block[0] / given->block[1];
    other->ctaid[0] = block % given->grid[0];
    other->ctaid[1] = block / given->grid[0] % given->grid[1];
    other->ctaid[2] = block / given->grid[0] / given->grid[1];
    other->site = site == SITE_MASK ? (u32)NO_SITE : checks->short_sites ? checks->long_sites[site] : site;
    other->flags = (is_write ? XF_WRITE : XF_READ) | (is_strong(stamp) ? XF_STRONG : 0);
    access->report->kind = XF_RACE;
    fill_place(&access->report->here, access->thread, access->site, access->flags);
}

static _Noreturn void report_race(const Access *access, u64 stamp, u32 site, int is_write) {
    describe_race(access, stamp, site, is_write);
    fail(access->thread, access->report);
}

/* The thread that has made an access, if it may still clear a suspicion; else NULL. */
static Thread *find_thread(const Worker *worker, u64 stamp) {
    for (Block *block = worker->resident; block; block = block->next) {
        if (block->checks->name != name_of(stamp)) continue;
        Thread *thread = &block->threads[thread_of(stamp)];
        return thread->state != GONE && block->checks->interval == interval_of(stamp) ? thread : NULL;
    }
    return NULL;
}

/* The reader's plain read and an atomic of another thread: one of them is this access, the other one was before. */
static void suspect(const Access *access, Thread *reader, u64 stamp, u32 site, int is_write) {
    for (const Suspicion *each = reader ? reader->suspicions : NULL; each; each = each->next)
        if (each->address == access->address) return;
    Suspicion *suspicion = reader ? malloc(sizeof *suspicion) : NULL;
    describe_race(access, stamp, site, is_write);
    if (!suspicion) fail(access->thread, access->report);
    suspicion->address = access->address;
    suspicion->nbytes = access->all_nbytes;
    suspicion->ticks = reader->ticks;
    suspicion->report = *access->report;
    suspicion->next = reader->suspicions;
    reader->suspicions = suspicion;
}

static void clear_suspicions(Thread *thread, u64 address, u64 nbytes) {
    for (Suspicion **place = &thread->suspicions, *each; (each = *place) != NULL;) {
        if (address < each->address + each->nbytes && each->address < address + nbytes) {
            *place = each->next;
            free(each);
        } else place = &each->next;
    }
}

void settle_suspicions(Thread *thread, u64 ticks) {
    const Suspicion *first = thread->suspicions;
    if (first && thread->ticks >= first->ticks + ticks) fail(thread, &first->report);
}

static u32 site_in(const Cell *cell, u32 which) {
    return (u32)(cell->notes >> (SITE_BITS * which)) & SITE_MASK;
}

static void set_site(Cell *cell, u32 which, u32 site) {
    cell->notes = (cell->notes & ~((u64)SITE_MASK << (SITE_BITS * which))) | (u64)site << (SITE_BITS * which);
}

/* A site as cells name it. */
static u32 shorten_site(Checks *checks, u32 site) {
    if (!checks->short_sites) return site < SITE_MASK ? site : SITE_MASK;
    if (site >= checks->launch->given->place_count) return SITE_MASK;
    u16 *found = &checks->short_sites[site];
    if (!*found && checks->short_count + 1 < SITE_MASK) {
        *found = (u16)++checks->short_count;
        checks->long_sites[*found] = site;
    }
    return *found ? *found : SITE_MASK;
}

static int is_same_thread(u64 one, u64 other) {
    return one >> THREAD_SHIFT == other >> THREAD_SHIFT;
}

/* Cells of shared memory may hold what another block has left, which had the memory before. */
static int is_stale(const Access *access, u64 stamp) {
    return access->is_shared && stamp && name_of(stamp) < access->thread->block->checks->first_name;
}

/* Whether accesses of these strengths may meet without order. */
static int may_meet(u32 one, int does_one_write, u32 other, int does_other_write, int is_one_block) {
    if (one == PLAIN || other == PLAIN) return 0;
    if (one == GUARDED && !does_one_write) return 1;
    if (other == GUARDED && !does_other_write) return 1;
    if (one == GUARDED || other == GUARDED) return 0;
    if (one == NARROW || other == NARROW) return is_one_block;
    return one != VOLATILE || other != VOLATILE || does_one_write == does_other_write;
}

static int conflicts(const Access *access, u64 stamp, int is_write) {
    if (!stamp || is_same_thread(stamp, access->stamp) || (stamp & access->stamp & STRONG)) return 0;
    if (may_meet(strength_of(access->stamp), (access->flags & XF_WRITE) != 0, strength_of(stamp), is_write,
                 name_of(stamp) == name_of(access->stamp)))
        return 0;
    return !is_before(access->thread, stamp, is_strong(access->stamp));
}

static void note_write(const Access *access, Cell *cell) {
    u64 stamp = access->stamp;
    if (conflicts(access, cell->slots[0], 1) && !(access->value && !memcmp(access->memory, access->value, access->nbytes)))
        report_race(access, cell->slots[0], site_in(cell, 0), 1);
    int is_second_write = (cell->notes & IS_SECOND_WRITE) != 0;
    for (u32 i = 1; i < SLOTS; i++) {
        u64 other = cell->slots[i];
        int is_write = i == 2 && is_second_write;
        if (other && is_strong(stamp) && !is_write && is_same_thread(other, stamp))
            cell->slots[i] = (other & ~(u64)STRENGTH_MASK) | strength_of(stamp);
        if (!conflicts(access, other, is_write)) continue;
        if (!is_strong(stamp) || is_write) report_race(access, other, site_in(cell, i), is_write);
        suspect(access, find_thread(access->thread->worker, other), other, site_in(cell, i), 0);
    }
    if (is_strong(stamp) && cell->slots[0] && !is_strong(cell->slots[0])) {
        /* The plain write before it still conflicts with what strong writes do not. */
        cell->slots[2] = stamp;
        set_site(cell, 2, access->short_site);
        cell->notes |= IS_SECOND_WRITE;
        return;
    }
    cell->slots[0] = stamp;
    set_site(cell, 0, access->short_site);
    /* What happens after this write happens after those readers too, for they were before it; of strong ones it is not
       known. */
    if (!is_strong(stamp)) {
        cell->slots[1] = cell->slots[2] = 0;
        cell->notes &= ~IS_SECOND_WRITE;
    }
}

static void note_read(const Access *access, Cell *cell) {
    u64 stamp = access->stamp;
    if (conflicts(access, cell->slots[0], 1)) {
        if (!is_strong(cell->slots[0])) report_race(access, cell->slots[0], site_in(cell, 0), 1);
        suspect(access, access->thread, cell->slots[0], site_in(cell, 0), 1);
    }
    int is_second_write = (cell->notes & IS_SECOND_WRITE) != 0;
    if (is_second_write && conflicts(access, cell->slots[2], 1))
        suspect(access, access->thread, cell->slots[2], site_in(cell, 2), 1);
    u32 place = 0; /* none */
    if (!cell->slots[1] || is_same_thread(cell->slots[1], stamp)) place = 1;
    else if (is_second_write) place = is_before(access->thread, cell->slots[1], 0) ? 1 : 0;
    else if (!cell->slots[2] || is_same_thread(cell->slots[2], stamp)) place = 2;
    else if (is_before(access->thread, cell->slots[1], 0)) place = 1;
    else if (is_before(access->thread, cell->slots[2], 0) ||
             (name_of(cell->slots[1]) == name_of(cell->slots[2]) && name_of(stamp) != name_of(cell->slots[1])))
        place = 2;
    if (!place) return;
    /* A weaker read conflicts with more than a stronger one of the same thread and time. */
    if ((cell->slots[place] ^ stamp) <= STRENGTH_MASK && strength_of(cell->slots[place]) < strength_of(stamp)) return;
    cell->slots[place] = stamp;
    set_site(cell, place, access->short_site);
}

static void note_access(const Access *access, Cell *cell) {
    if (is_stale(access, cell->slots[0]) || is_stale(access, cell->slots[1]) || is_stale(access, cell->slots[2])) {
        *cell = (Cell){{0, 0, 0}, 0};
    }
    if (access->flags & XF_WRITE) note_write(access, cell);
    else note_read(access, cell);
}

/* --- the shadow */

static void *map_cells(u64 count, size_t *nbytes) {
    *nbytes = count * sizeof(Cell);
    void *memory = mmap(NULL, *nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static int open_area(Area *area, u64 begin, u64 end) {
    area->begin = begin;
    area->end = end;
    area->word_begin = begin & ~3ull;
    area->chunk_count = (end - area->word_begin) / (4 * CHUNK_WORDS) + 1;
    return (area->chunks = calloc(area->chunk_count, sizeof(Chunk))) != NULL;
}

static void close_area(Area *area) {
    for (u64 i = 0; area->chunks && i < area->chunk_count; i++) {
        if (area->chunks[i].words) munmap(area->chunks[i].words, area->chunks[i].words_nbytes);
        if (area->chunks[i].bytes) munmap(area->chunks[i].bytes, area->chunks[i].bytes_nbytes);
    }
    free(area->chunks);
    area->chunks = NULL;
}

static u64 words_of_chunk(const Area *area, u64 number) {
    u64 words = (area->end - area->word_begin + 3) / 4 - number * CHUNK_WORDS;
    return words < CHUNK_WORDS ? words : CHUNK_WORDS;
}

static u32 part_of(const Cell *cell, u32 slot) {
    return (u32)(cell->notes >> (PART_BEGIN + PART_BITS * slot)) & ((1 << PART_BITS) - 1);
}

/* How much higher the number of the thread is whose access byte `i` is. */
static u64 step_of(u32 part, u32 i) {
    return (u64)(part == HALVES ? i / 2 : part & BY_BYTE ? i : 0) << THREAD_SHIFT;
}

/* The cells that the four bytes of a word would have. */
static void unpack(const Access *access, const Cell *cell, Cell *bytes) {
    for (u32 i = 0; i < 4; i++) bytes[i] = (Cell){{0, 0, 0}, cell->notes & IS_SECOND_WRITE};
    for (u32 slot = 0; slot < SLOTS; slot++) {
        u32 part = part_of(cell, slot), mask = part == HALVES || !part ? 15 : part & 15;
        for (u32 i = 0; i < 4 && cell->slots[slot]; i++) {
            u64 stamp = cell->slots[slot] + step_of(part, i);
            if (!(mask >> i & 1) || is_stale(access, stamp)) continue;
            bytes[i].slots[slot] = stamp;
            set_site(&bytes[i], slot, site_in(cell, slot));
        }
    }
}

/* The cell of the word from those of its bytes; 0 where they differ too much. */
static int pack(Cell *cell, const Cell *bytes) {
    static const u32 steps[] = {0, BY_BYTE, HALVES};
    Cell word = {{0, 0, 0}, bytes[0].notes & IS_SECOND_WRITE};
    for (u32 i = 1; i < 4; i++)
        if ((bytes[i].notes ^ bytes[0].notes) & IS_SECOND_WRITE) return 0;
    for (u32 slot = 0; slot < SLOTS; slot++) {
        u32 mask = 0, first = 0, fits = 7;
        for (u32 i = 4; i-- > 0;)
            if (bytes[i].slots[slot]) mask |= 1u << i, first = i;
        if (!mask) continue;
        for (u32 i = first; i < 4; i++) {
            if (!(mask >> i & 1)) continue;
            if (site_in(&bytes[i], slot) != site_in(&bytes[first], slot)) return 0;
            for (u32 j = 0; j < 3; j++)
                if (bytes[i].slots[slot] - step_of(steps[j], i) != bytes[first].slots[slot] - step_of(steps[j], first))
                    fits &= ~(1u << j);
        }
        u32 part = fits & 1                 ? mask & (mask == 15 ? 0 : 15)
                   : fits & 2               ? BY_BYTE | mask
                   : fits & 4 && mask == 15 ? HALVES
                                            : 32;
        if (part == 32) return 0;
        word.slots[slot] = bytes[first].slots[slot] - step_of(part, first);
        word.notes |= (u64)part << (PART_BEGIN + PART_BITS * slot);
        set_site(&word, slot, site_in(&bytes[first], slot));
    }
    if (word.slots[0] == SPLIT) return 0;
    *cell = word;
    return 1;
}

/* Note an access to some bytes of a word, or to a word of which parts are noted. */
static void note_part(
    Access *access, Cell *cell, u64 from, u64 to, const char *memory, const char *value, Cell *bytes) {
    access->nbytes = 1;
    if (cell->slots[0] != SPLIT) unpack(access, cell, bytes);
    for (u64 i = from; i < to; i++) {
        access->memory = memory + (i - from);
        access->value = value ? value + (i - from) : NULL;
        note_access(access, &bytes[i]);
    }
}

/* The cells of the four bytes of a word. */
static Cell *split_word(Area *area, Chunk *chunk, u64 word, Thread *thread) {
    Cell *cell = &chunk->words[word % CHUNK_WORDS];
    if (!chunk->bytes &&
        !(chunk->bytes = map_cells(4 * words_of_chunk(area, word / CHUNK_WORDS), &chunk->bytes_nbytes)))
        fail_at(thread, XF_OUT_OF_MEMORY, (u32)NO_SITE, "the shadow of checked execution");
    Cell *bytes = &chunk->bytes[4 * (word % CHUNK_WORDS)];
    cell->slots[0] = SPLIT;
    return bytes;
}

/* Note an access in all of its cells. */
static void shade(Access *access, Area *area, u64 address, u32 nbytes) {
    access->short_site = shorten_site(access->thread->worker->launch->checks, access->site);
    u64 offset = address - area->word_begin, end = offset + nbytes;
    const char *memory = access->memory, *value = access->value;
    while (offset < end) {
        u64 word = offset / 4, from = offset % 4, to = end - word * 4 < 4 ? end - word * 4 : 4;
        Chunk *chunk = &area->chunks[word / CHUNK_WORDS];
        if (!chunk->words &&
            !(chunk->words = map_cells(words_of_chunk(area, word / CHUNK_WORDS), &chunk->words_nbytes)))
            fail_at(access->thread, XF_OUT_OF_MEMORY, access->site, "the shadow of checked execution");
        Cell *cell = &chunk->words[word % CHUNK_WORDS];
        u64 done = nbytes - (end - offset);
        access->memory = memory + done;
        access->value = value ? value + done : NULL;
        if (cell->slots[0] == SPLIT) {
            note_part(access, cell, from, to, memory + done, value ? value + done : NULL,
                      split_word(area, chunk, word, access->thread));
        } else if (from == 0 && to == 4 && !(cell->notes & PARTS)) {
            access->nbytes = 4;
            note_access(access, cell);
        } else {
            Cell bytes[4];
            note_part(access, cell, from, to, memory + done, value ? value + done : NULL, bytes);
            if (!pack(cell, bytes)) memcpy(split_word(area, chunk, word, access->thread), bytes, sizeof bytes);
        }
        offset = word * 4 + to;
    }
}

/* --- one access */

/* Bytes without a value are read: refused if nothing has written them, or if the use of what they hold is not checked. */
static void refuse_unwritten(const Access *access, const Values *values, u64 first, u32 count) {
    u32 doubt = find_doubt(values, first, count);
    if (!doubt) refuse_access(access, XF_UNINITIALISED);
    if (!(access->flags & XF_COPY)) refuse_doubt(access->thread, doubt, access->site);
}

static void check_shared(Access *access, u64 offset, u32 nbytes) {
    Thread *thread = access->thread;
    Block *block = thread->block;
    struct BlockChecks *own = block->checks;
    const Launch *launch = thread->worker->launch;
    const xf_launch *given = launch->given;
    const xf_variable *variable = &given->variables[own->last_variable];
    int is_in =
        given->variable_count && is_within(offset, nbytes, variable->offset, variable->offset + variable->nbytes);
    is_in = is_in || is_within(offset, nbytes, launch->dynamic_begin, launch->dynamic_begin + given->dynamic_nbytes);
    is_in = is_in || is_within(offset, nbytes, RESERVED_BEGIN, XF_SHARED_BEGIN);
    is_in = is_in || (!given->variable_count &&
                      is_within(offset, nbytes, XF_SHARED_BEGIN, XF_SHARED_BEGIN + given->static_nbytes));
    for (u32 i = 0; !is_in && i < given->variable_count; i++) {
        variable = &given->variables[i];
        is_in = is_within(offset, nbytes, variable->offset, variable->offset + variable->nbytes);
        if (is_in) own->last_variable = i;
    }
    if (!is_in) {
        locate_shared(block, (u32)offset, access->report);
        access->report->offset = (s64)offset;
        refuse_access(access, XF_OUT_OF_BOUNDS);
    }
    if (offset & (nbytes - 1)) {
        locate_shared(block, (u32)offset, access->report);
        require_alignment(access, offset, nbytes);
    }
    if (access->flags & XF_READ && offset >= XF_SHARED_BEGIN &&
        is_unwritten(own->values.initialised, offset, nbytes, access->flags)) {
        locate_shared(block, (u32)offset, access->report);
        refuse_unwritten(access, &own->values, offset, nbytes);
    }
    if (access->flags & XF_WRITE) set_bits(own->values.initialised, offset, nbytes);
    if (!access->stamp) return;
    access->is_shared = 1;
    access->report->region = -1;
    access->report->offset = (s64)offset;
    shade(access, &own->shared, offset, nbytes);
}

/* The variable that an access to the thread's stack is in; the nearest is reported. */
static void check_local(Access *access, u64 address, u32 nbytes) {
    Thread *thread = access->thread;
    Frame *nearest = NULL;
    u64 least = ~0ull;
    for (u32 i = thread->frame_count; i-- > 0;) {
        Frame *frame = &thread->frames[i];
        if (is_within(address, nbytes, frame->begin, frame->begin + frame->nbytes)) {
            u64 offset = address - frame->begin;
            access->report->region = -2;
            access->report->offset = (s64)offset;
            require_alignment(access, address, nbytes);
            if (access->flags & XF_READ && is_unwritten(frame->values.initialised, offset, nbytes, access->flags))
                refuse_unwritten(access, &frame->values, offset, nbytes);
            if (access->flags & XF_WRITE) set_bits(frame->values.initialised, offset, nbytes);
            return;
        }
        u64 distance = measure_distance(address, frame->begin, frame->begin + frame->nbytes);
        if (distance < least) least = distance, nearest = frame;
    }
    access->report->region = -2;
    access->report->offset = (s64)(nearest ? address - nearest->begin : address);
    refuse_access(access, XF_OUT_OF_BOUNDS);
}

static Area *area_of_heap(Checks *checks, HeapBlock *block) {
    if (block->owner == checks->serial) return block->shadow;
    Area *area = calloc(1, sizeof *area);
    if (!area || !open_area(area, block->begin, block->begin + block->nbytes)) return free(area), NULL;
    area->next = checks->heap_areas;
    checks->heap_areas = area;
    block->shadow = area;
    block->owner = checks->serial;
    return area;
}

/* Whether the address is of the device's heap; if so, checked. */
static int check_heap(Access *access, u64 address, u32 nbytes) {
    Thread *thread = access->thread;
    Checks *checks = thread->worker->launch->checks;
    HeapBlock *block = find_heap_block(address);
    if (!block) return 0;
    xf_report *report = access->report;
    u64 offset = address - block->begin;
    report->offset = (s64)offset;
    int is_in = is_within(address, nbytes, block->begin, block->begin + block->nbytes);
    if (!is_in || block->is_freed) {
        snprintf(report->text, sizeof report->text, "%s of %llu bytes in the device's heap",
                 block->is_freed ? "freed memory" : "memory", block->nbytes);
        refuse_access(access, XF_OUT_OF_BOUNDS);
    }
    require_alignment(access, address, nbytes);
    if (access->flags & XF_READ && is_noted(block) &&
        is_unwritten(block->initialised, offset, nbytes, access->flags)) {
        snprintf(report->text, sizeof report->text, "memory of %llu bytes in the device's heap", block->nbytes);
        refuse_access(access, XF_UNINITIALISED);
    }
    if (access->flags & XF_WRITE) set_bits(block->initialised, offset, nbytes);
    if (!access->stamp) return 1;
    Area *area = area_of_heap(checks, block);
    if (!area) fail_at(thread, XF_OUT_OF_MEMORY, access->site, "the shadow of checked execution");
    shade(access, area, address, nbytes);
    return 1;
}

/* All regions that hold the access take note of it; it must be allowed in one of them. */
static void check_regions(Access *access, const Area *area, u64 address, u32 nbytes) {
    const Checks *checks = access->thread->worker->launch->checks;
    const xf_region *regions = checks->regions;
    u32 flags = access->flags;
    int is_in = 0, may_write = 0, is_initialised = 0;
    for (u32 i = area->first; i < area->first + area->count; i++) {
        const xf_region *region = &regions[checks->order[i]];
        if (!is_within(address, nbytes, region->begin, region->begin + region->nbytes)) continue;
        u64 offset = address - region->begin;
        if (!is_in) extend(access, checks->order[i], offset);
        is_in = 1;
        may_write |= !(region->flags & (XF_REGION_READ_ONLY | XF_REGION_CONST));
        is_initialised |= !(region->flags & XF_REGION_UNWRITTEN) || !is_unwritten(region->initialised, offset, nbytes, flags);
        if (flags & XF_READ && region->read) track(region->read, offset, nbytes);
    }
    u32 kind = !is_in                               ? XF_OUT_OF_BOUNDS
               : flags & XF_WRITE && !may_write     ? XF_READ_ONLY
               : flags & XF_READ && !is_initialised ? XF_UNINITIALISED
                                                    : XF_OK;
    if (kind) {
        locate(checks, area, address, access->report);
        refuse_access(access, kind);
    }
    if (!(flags & XF_WRITE)) return;
    for (u32 i = area->first; i < area->first + area->count; i++) {
        const xf_region *region = &regions[checks->order[i]];
        if (!is_within(address, nbytes, region->begin, region->begin + region->nbytes)) continue;
        if (region->written) track(region->written, address - region->begin, nbytes);
        if (region->flags & XF_REGION_UNWRITTEN) set_bits(region->initialised, address - region->begin, nbytes);
    }
}

static int describe_area(Checks *checks, Area *area, u32 first, u32 count, u64 begin, u64 end);

/* The area of memory that the caller of the launch knows at an address, and gives; NULL where it knows none. */
static Area *find_further(Checks *checks, Thread *thread, u64 address, u32 site) {
    xf_region region;
    if (!ask_for_region(thread, address, &region)) return NULL;
    if (checks->region_count == checks->region_room) {
        u32 room = 2 * checks->region_room;
        u32 *order = realloc(checks->order, room * sizeof *order);
        if (order) checks->order = order;
        xf_region *regions = realloc(checks->regions, room * sizeof *regions);
        if (regions) checks->regions = regions;
        if (!order || !regions) fail_at(thread, XF_OUT_OF_MEMORY, site, "the memory that a kernel uses");
        checks->region_room = room;
    }
    if (checks->area_count == checks->area_room) {
        Area *areas = realloc(checks->areas, 2 * checks->area_room * sizeof *areas);
        if (!areas) fail_at(thread, XF_OUT_OF_MEMORY, site, "the memory that a kernel uses");
        checks->areas = areas;
        checks->area_room *= 2;
    }
    u32 number = checks->region_count++, place = checks->area_count;
    checks->regions[number] = region;
    checks->order[number] = number;
    for (; place && checks->areas[place - 1].begin > region.begin; place--)
        checks->areas[place] = checks->areas[place - 1];
    memset(&checks->areas[place], 0, sizeof(Area));
    memset(checks->recent, 0, sizeof checks->recent); /* they have moved */
    checks->area_count++;
    if (!describe_area(checks, &checks->areas[place], number, 1, region.begin, region.begin + region.nbytes))
        fail_at(thread, XF_OUT_OF_MEMORY, site, "the memory that a kernel uses");
    return find_area(checks, address, site);
}

static void check_global(Access *access, u64 address, u32 nbytes) {
    Thread *thread = access->thread;
    Checks *checks = thread->worker->launch->checks;
    Area *area = find_area(checks, address, access->site);
    if (!area) {
        if (checks->is_ordering ? check_heap(access, address, nbytes) : find_heap_block(address) != NULL) return;
        area = find_further(checks, thread, address, access->site);
        if (!area && checks->is_ordering) refuse_bounds(access, address);
        if (!area) return;
    }
    access->address = address + area->shift;
    access->memory = (const char *)(uintptr_t)access->address;
    if (checks->is_ordering && area->count) locate(checks, area, address, access->report);
    if (checks->is_ordering) require_alignment(access, address, nbytes);
    if (!area->is_plain) check_regions(access, area, address, nbytes);
    else {
        if (nbytes > area->end - address) refuse_bounds(access, address);
        if (area->count) extend(access, checks->order[area->first], address - area->begin);
        if (access->flags & XF_READ && area->read) track(area->read, address - area->begin, nbytes);
        if (access->flags & XF_WRITE && area->written) track(area->written, address - area->begin, nbytes);
    }
    if (!checks->is_ordering) return;
    if (!access->stamp || area->is_read_only) return;
    shade(access, area, address, nbytes);
}

static u32 find_strength(u32 flags) {
    if (!(flags & XF_STRONG)) return flags & XF_GUARDED ? GUARDED : PLAIN;
    return flags & XF_NARROW ? NARROW : flags & XF_DATA ? VOLATILE : STRONG;
}

/* Check an access; returns the host's address. */
static char *check(Thread *thread, u64 address, u32 nbytes, u32 flags, u32 site, const void *value) {
    const Launch *launch = thread->worker->launch;
    int is_ordering = launch->checks->is_ordering;
    u64 stamp = thread->stamp ? thread->stamp | find_strength(flags) : 0;
    if (flags & XF_SHARED) {
        if (!is_ordering) return (char *)(uintptr_t)(address + thread->seen.shared);
        address = (u32)address; /* 32-bit registers may wrap around */
    } else if (!(flags & (XF_GLOBAL | XF_CONST | XF_LOCAL))) {
        if (address - thread->seen.shared < launch->shared_nbytes) {
            if (!is_ordering) return (char *)(uintptr_t)address;
            address -= thread->seen.shared;
            flags |= XF_SHARED;
        } else if (address >= thread->seen.stack_begin && address < thread->seen.stack_end) flags |= XF_LOCAL;
    }
    xf_report report;
    report.kind = XF_OK;
    report.region = -3;
    report.variable = -1;
    report.nbytes = nbytes;
    report.offset = (s64)address;
    report.text[0] = 0;
    report.other.site = (u32)NO_SITE;
    Access access = {
        .thread = thread,
        .stamp = stamp,
        .flags = flags,
        .site = site,
        .value = value,
        .report = &report,
        .all_nbytes = nbytes,
    };
    if (flags & XF_SHARED) {
        access.memory = (const char *)(uintptr_t)(address + thread->seen.shared);
        access.address = address + thread->seen.shared;
        check_shared(&access, address, nbytes);
        return (char *)(uintptr_t)(address + thread->seen.shared);
    }
    access.memory = (const char *)(uintptr_t)address;
    access.address = address;
    if (flags & XF_LOCAL) {
        if (is_ordering) check_local(&access, address, nbytes);
    } else check_global(&access, address, nbytes);
    return (char *)(uintptr_t)access.address;
}

/* --- release and acquire */

static Point *find_point(Points *points, u64 address, int is_new) {
    if (!points->room) {
        if (!is_new || !(points->points = calloc(64, sizeof *points->points))) return NULL;
        points->room = 64;
    }
    for (;;) {
        u32 place = (u32)((address >> 1) * 0x9e3779b97f4a7c15ull >> 32) & (points->room - 1);
        while (points->points[place].address && points->points[place].address != address)
            place = (place + 1) & (points->room - 1);
        Point *point = &points->points[place];
        if (point->address || !is_new) return point->address ? point : NULL;
        if (2 * points->count < points->room) {
            points->count++;
            point->address = address;
            return point;
        }
        Points larger = {calloc(2 * points->room, sizeof *points->points), 0, 2 * points->room};
        if (!larger.points) return NULL;
        for (u32 i = 0; i < points->room; i++)
            if (points->points[i].address) *find_point(&larger, points->points[i].address, 1) = points->points[i];
        free(points->points);
        *points = larger;
    }
}

static void clear_points(KnowledgePool *pool, Points *points) {
    for (u32 i = 0; i < points->room && points->count; i++) {
        if (!points->points[i].address) continue;
        discard(pool, points->points[i].wide);
        discard(pool, points->points[i].narrow);
        points->points[i] = (Point){0, NULL, NULL, 0};
    }
    points->count = 0;
}

static Points *points_for(Thread *thread, u64 address) {
    const Launch *launch = thread->worker->launch;
    return address - thread->seen.shared < launch->shared_nbytes ? &thread->block->checks->points
                                                                 : &launch->checks->points;
}

static void move_knowledge(KnowledgePool *pool, Knowledge **into, Knowledge **from) {
    learn(pool, into, *from);
    discard(pool, *from);
    *from = NULL;
}

/* At a fence: what atomics have read counts from now on. */
static void count_unfenced(Thread *thread) {
    KnowledgePool *pool = &thread->worker->launch->checks->pool;
    move_knowledge(pool, &thread->knowledge, &thread->unfenced);
    move_knowledge(pool, &thread->knowledge, &thread->for_strong);
    learn(pool, &thread->knowledge, thread->block->checks->for_strong);
}

/* At a barrier: it counts for strong accesses. */
static void count_for_strong(Thread *thread) {
    move_knowledge(&thread->worker->launch->checks->pool, &thread->for_strong, &thread->unfenced);
}

/* Learn what has been published at an address. */
static void acquire(Thread *thread, u64 address, u32 flags) {
    Points *points = points_for(thread, address);
    if (!points->count) return;
    struct BlockChecks *own = thread->block->checks;
    Point *point = find_point(points, address, 0);
    if (!point) return;
    KnowledgePool *pool = &thread->worker->launch->checks->pool;
    learn(pool, &thread->unfenced, point->wide);
    if (point->narrow_name == own->name) learn(pool, &thread->unfenced, point->narrow);
    if (flags & XF_ACQUIRE) move_knowledge(pool, &thread->knowledge, &thread->unfenced);
    own->has_knowledge = 1;
}

static void set_clock(Thread *thread, u32 clock);

/* All that the thread knows and has done. */
static Knowledge *sum_up(Thread *thread) {
    Checks *checks = thread->worker->launch->checks;
    struct BlockChecks *own = thread->block->checks;
    ThreadClock clocks[WARP];
    u32 count = 0, warp = thread->number / WARP;
    const u16 *row = own->lanes_interval[warp] == own->interval ? lanes_of(own, warp) + thread->seen.lane * WARP : NULL;
    for (u32 lane = 0; lane < WARP; lane++) {
        u32 clock = warp * WARP + lane == thread->number ? clock_of(thread->stamp) + 1 : row ? row[lane] : 0;
        if (clock) clocks[count++] = (ThreadClock){(u16)(warp * WARP + lane), (u16)clock};
    }
    Knowledge *own_part = make_knowledge(&checks->pool, own->name, own->interval, clocks, count);
    learn(&checks->pool, &own_part, own->base);
    learn(&checks->pool, &own_part, thread->knowledge);
    return own_part;
}

static void drop_release(KnowledgePool *pool, Thread *thread) {
    if (!thread->release) return;
    discard(pool, thread->release->wide);
    discard(pool, thread->release->narrow);
    free(thread->release);
    thread->release = NULL;
}

static struct Release *release_of(Thread *thread) {
    if (!thread->release) thread->release = calloc(1, sizeof *thread->release);
    thread->block->checks->has_releases |= thread->release != NULL;
    return thread->release;
}

void check_fence(xf_thread *t, u32 scope, u32 site) {
    Thread *thread = as_thread(t);
    (void)site;
    if (!thread->stamp) return;
    Checks *checks = thread->worker->launch->checks;
    struct Release *release = release_of(thread);
    count_unfenced(thread);
    if (!release) return;
    Knowledge *all = sum_up(thread), **place = scope == XF_FENCE_BLOCK ? &release->narrow : &release->wide;
    discard(&checks->pool, *place);
    *place = all;
    set_clock(thread, clock_of(thread->stamp) + 1);
}

/* A strong write at an address publishes what fences have made ready. */
static void publish(Thread *thread, u64 address, u32 flags) {
    Checks *checks = thread->worker->launch->checks;
    struct BlockChecks *own = thread->block->checks;
    int is_narrow = (flags & XF_NARROW) != 0;
    if (flags & XF_RELEASE) check_fence(&thread->seen, is_narrow ? XF_FENCE_BLOCK : XF_FENCE_SYSTEM, (u32)NO_SITE);
    const struct Release *release = thread->release;
    if (!own->ready && !release) return;
    Point *point = find_point(points_for(thread, address), address, 1);
    if (!point) return;
    if (!is_narrow) {
        learn(&checks->pool, &point->wide, own->ready);
        if (release) learn(&checks->pool, &point->wide, release->wide);
    }
    if (!release || (!release->narrow && !is_narrow)) return;
    if (point->narrow_name != own->name) {
        discard(&checks->pool, point->narrow);
        point->narrow = NULL;
        point->narrow_name = own->name;
    }
    learn(&checks->pool, &point->narrow, release->narrow);
    if (is_narrow) learn(&checks->pool, &point->narrow, release->wide);
}

/* --- what kernels call */

u64 find_host_address(xf_thread *t, u64 address) {
    Checks *checks = as_thread(t)->worker->launch->checks;
    const Area *area = checks ? find_area(checks, address, 0) : NULL;
    return area ? address + area->shift : address;
}

char *check_access(xf_thread *t, u64 address, u32 nbytes, u32 flags, u32 site) {
    Thread *thread = as_thread(t);
    if (flags & (XF_STRONG | XF_ACQUIRE)) {
        flags |= XF_STRONG;
        poll(thread, site);
    }
    char *memory = check(thread, address, nbytes, flags, site, NULL);
    if (flags & XF_STRONG && thread->stamp) {
        if (flags & XF_READ) acquire(thread, (u64)(uintptr_t)memory, flags);
        if (flags & XF_WRITE) publish(thread, (u64)(uintptr_t)memory, flags);
    }
    return memory;
}

void check_store(xf_thread *t, u64 address, u32 nbytes, u32 flags, const void *value, u32 site) {
    Thread *thread = as_thread(t);
    if (flags & (XF_STRONG | XF_RELEASE)) {
        flags |= XF_STRONG;
        if (thread->worker->launch->given->schedule == XF_RANDOM) poll(thread, site);
    }
    char *memory = check(thread, address, nbytes, flags | XF_WRITE, site, value);
    if (flags & XF_STRONG && thread->stamp) publish(thread, (u64)(uintptr_t)memory, flags);
    if (!memcmp(memory, value, nbytes)) return;
    memcpy(memory, value, nbytes);
    note_progress(thread->worker);
}

void check_atomic(xf_thread *t,
                  u64 address,
                  u32 operation,
                  u32 type,
                  const void *first,
                  const void *second,
                  void *old,
                  u32 flags,
                  u32 site) {
    Thread *thread = as_thread(t);
    u32 nbytes = type_nbytes(type);
    poll(thread, site);
    flags |= XF_STRONG | XF_WRITE | XF_READ;
    /* What an exchange returns may be dropped: a lock is often initialised by one. */
    u32 seen = operation == XF_EXCH ? flags & ~(u32)XF_READ : flags;
    char *memory = check(thread, address, nbytes, seen, site, NULL);
    char before[16];
    if (thread->suspicions) clear_suspicions(thread, (u64)(uintptr_t)memory, nbytes);
    int is_shared = (u64)(uintptr_t)memory - t->shared < thread->worker->launch->shared_nbytes;
    if (thread->stamp) acquire(thread, (u64)(uintptr_t)memory, flags);
    int has_changed = change_memory(memory, operation, type, first, second, before, is_shared);
    int has_written = operation != XF_CAS || !memcmp(before, first, nbytes);
    if (thread->stamp && has_written) publish(thread, (u64)(uintptr_t)memory, flags);
    if (has_changed) note_progress(thread->worker);
    if (old) memcpy(old, before, nbytes);
}

void begin_local(xf_thread *t, char *memory, u32 nbytes) {
    Thread *thread = as_thread(t);
    if (!is_checked(thread->worker->launch)) return;
    if (thread->frame_count == thread->frame_room) {
        u32 room = thread->frame_room ? 2 * thread->frame_room : 4;
        Frame *frames = realloc(thread->frames, room * sizeof(Frame));
        if (!frames) fail_at(thread, XF_OUT_OF_MEMORY, (u32)NO_SITE, "the shadow of local memory");
        memset(frames + thread->frame_room, 0, (room - thread->frame_room) * sizeof(Frame));
        thread->frames = frames;
        thread->frame_room = room;
    }
    Frame *frame = &thread->frames[thread->frame_count];
    u32 words = nbytes / 64 + 1;
    if (frame->room < words) {
        u64 *larger = realloc(frame->values.initialised, words * sizeof(u64));
        if (!larger) fail_at(thread, XF_OUT_OF_MEMORY, (u32)NO_SITE, "the shadow of local memory");
        frame->values.initialised = larger;
        frame->room = words;
    }
    memset(frame->values.initialised, 0, words * sizeof(u64));
    free(frame->values.doubts);
    frame->values.doubts = NULL;
    frame->begin = (u64)(uintptr_t)memory;
    frame->nbytes = nbytes;
    thread->frame_count++;
}

void end_local(xf_thread *t, char *memory, u32 nbytes) {
    Thread *thread = as_thread(t);
    (void)nbytes;
    while (thread->frame_count && thread->frames[thread->frame_count - 1].begin != (u64)(uintptr_t)memory)
        thread->frame_count--;
    if (thread->frame_count) thread->frame_count--;
}

/* --- registers */

void refuse_unset(xf_thread *t, u32 doubt, u32 site) {
    if (is_checked(as_thread(t)->worker->launch)) refuse_doubt(as_thread(t), doubt, site);
}

/* The values of shared or local memory at an address, the first of its bytes in them, and how many there are; NULL for
   other memory. */
static Values *find_values(Thread *thread, u64 address, u32 nbytes, u32 flags, u64 *first, u32 *count) {
    const Launch *launch = thread->worker->launch;
    int is_shared = (flags & XF_SHARED) != 0;
    u64 offset = is_shared ? (u32)address : address - thread->seen.shared;
    if (is_shared || (!(flags & XF_LOCAL) && offset < launch->shared_nbytes)) {
        *first = offset;
        *count = launch->shared_nbytes;
        return offset < launch->shared_nbytes ? &thread->block->checks->values : NULL;
    }
    for (u32 i = thread->frame_count; i-- > 0;) {
        Frame *frame = &thread->frames[i];
        *first = address - frame->begin;
        *count = frame->nbytes;
        if (is_within(address, nbytes, frame->begin, frame->begin + frame->nbytes)) return &frame->values;
    }
    return NULL;
}

void forget_value(xf_thread *t, u64 address, u32 nbytes, u32 flags, u32 doubt, u32 site) {
    Thread *thread = as_thread(t);
    if (!is_checked(thread->worker->launch)) return;
    u64 first = 0;
    u32 count = 0;
    Values *values = find_values(thread, address, nbytes, flags, &first, &count);
    if (!values) refuse_doubt(thread, doubt, site);
    if (!values->doubts && !(values->doubts = calloc(count / 4 + 2, sizeof(u32))))
        fail_at(thread, XF_OUT_OF_MEMORY, site, "the shadow of checked execution");
    for (u64 byte = first; byte < first + nbytes; byte++) {
        values->initialised[byte / 64] &= ~(1ull << byte % 64);
        values->doubts[byte / 4] = doubt;
    }
}

u32 lacks_value(xf_thread *t, u64 address, u32 nbytes, u32 flags) {
    Thread *thread = as_thread(t);
    if (!is_checked(thread->worker->launch)) return 0;
    u64 first = 0;
    u32 count = 0;
    const Values *values = find_values(thread, address, nbytes, flags, &first, &count);
    return values && is_unwritten(values->initialised, first, nbytes, flags) ? find_doubt(values, first, nbytes) : 0;
}

void refuse_overflow(xf_thread *t, s64 value, u32 site) {
    if (!is_checked(as_thread(t)->worker->launch)) return;
    char text[32];
    snprintf(text, sizeof text, "%lld", value);
    fail_at(as_thread(t), XF_OVERFLOW, site, text);
}

/* --- threads and blocks over time */

static void make_own_stamp(Thread *thread, u32 clock) {
    const struct BlockChecks *own = thread->block->checks;
    thread->stamp = own->name ? make_stamp(own->name, thread->number, own->interval, clock) : 0;
}

/* A name of its own for a block; 0 where they are used up. */
static u32 new_name(Checks *checks, u32 block) {
    if (!checks->is_ordering || checks->names >= MOST_NAME || checks->names + 1 >= 1u << (4 * checks->pool.levels))
        return 0;
    if (checks->names + 1 >= checks->name_room) {
        u32 room = 2 * checks->name_room;
        u32 *blocks = realloc(checks->block_of, room * sizeof(u32));
        if (blocks) checks->block_of = blocks;
        u32 *later = realloc(checks->later_name, room * sizeof(u32));
        if (later) checks->later_name = later;
        if (!blocks || !later) return 0;
        checks->name_room = room;
    }
    u32 name = ++checks->names;
    checks->block_of[name] = block;
    checks->later_name[name] = 0;
    return name;
}

/* The block goes to its next interval; where the numbers are used up, it gets another name. */
static void begin_interval(Block *block) {
    struct BlockChecks *own = block->checks;
    if (++own->interval > MOST_INTERVAL) {
        Checks *checks = block->worker->launch->checks;
        u32 name = new_name(checks, block->number);
        if (name) checks->later_name[own->name] = name;
        own->name = name;
        own->interval = 1;
        memset(own->lanes_interval, 0, block->warp_count * sizeof(u32));
    }
    for (u32 i = 0; i < block->count; i++) make_own_stamp(&block->threads[i], 0);
}

/* At the end of the numbers an interval begins: accesses before it count as ordered, which may miss a race. */
static void set_clock(Thread *thread, u32 clock) {
    if (clock > MOST_CLOCK) begin_interval(thread->block);
    else make_own_stamp(thread, clock);
}

/* Shuffles and votes order no memory, but libraries (cooperative groups) let one lane acquire and tell the others so. */
void share_knowledge(Block *block, const Warp *warp, u32 lanes) {
    if (!block->checks->has_knowledge) return;
    KnowledgePool *pool = &block->worker->launch->checks->pool;
    Knowledge *all = NULL;
    for (u32 rest = lanes; rest; rest &= rest - 1) learn(pool, &all, warp->lanes[__builtin_ctz(rest)]->knowledge);
    for (u32 rest = lanes; rest; rest &= rest - 1) learn(pool, &warp->lanes[__builtin_ctz(rest)]->knowledge, all);
    discard(pool, all);
}

void order_warp(Block *block, const Warp *warp, u32 lanes) {
    struct BlockChecks *own = block->checks;
    Checks *checks = block->worker->launch->checks;
    if (!own->name || !(lanes & (lanes - 1))) return;
    u32 number = warp->lanes[__builtin_ctz(lanes)]->number / WARP;
    u16 *rows = lanes_of(own, number), together[WARP] = {0};
    if (own->lanes_interval[number] != own->interval) memset(rows, 0, WARP * WARP * sizeof *rows);
    own->lanes_interval[number] = own->interval;
    Knowledge *ready = NULL, *narrow = NULL;
    Knowledge *for_strong = NULL;
    for (u32 rest = lanes; rest; rest &= rest - 1) {
        Thread *thread = warp->lanes[__builtin_ctz(rest)];
        if (thread->unfenced) count_for_strong(thread);
        learn(&checks->pool, &for_strong, thread->for_strong);
    }
    share_knowledge(block, warp, lanes);
    for (u32 rest = lanes; rest; rest &= rest - 1) {
        u32 lane = (u32)__builtin_ctz(rest);
        const Thread *thread = warp->lanes[lane];
        rows[lane * WARP + lane] = (u16)(clock_of(thread->stamp) + 1);
        for (u32 i = 0; i < WARP; i++)
            together[i] = together[i] > rows[lane * WARP + i] ? together[i] : rows[lane * WARP + i];
        if (thread->release)
            learn(&checks->pool, &ready, thread->release->wide), learn(&checks->pool, &narrow, thread->release->narrow);
    }
    for (u32 rest = lanes; rest; rest &= rest - 1) {
        u32 lane = (u32)__builtin_ctz(rest);
        Thread *thread = warp->lanes[lane];
        memcpy(rows + lane * WARP, together, sizeof together);
        learn(&checks->pool, &thread->for_strong, for_strong);
        if ((ready || narrow) && release_of(thread)) {
            learn(&checks->pool, &thread->release->wide, ready);
            learn(&checks->pool, &thread->release->narrow, narrow);
        }
    }
    discard(&checks->pool, ready);
    discard(&checks->pool, narrow);
    discard(&checks->pool, for_strong);
    u32 interval = own->interval;
    for (u32 rest = lanes; rest && own->interval == interval; rest &= rest - 1) {
        Thread *thread = warp->lanes[__builtin_ctz(rest)];
        set_clock(thread, clock_of(thread->stamp) + 1);
    }
}

void note_arrival(Barrier *barrier, Thread *thread) {
    if (!thread->stamp || thread->mode != XF_BAR_ARRIVE) return; /* those that wait are asked at the end */
    Checks *checks = thread->worker->launch->checks;
    Knowledge *all = sum_up(thread);
    learn(&checks->pool, &barrier->knowledge, all);
    discard(&checks->pool, all);
    set_clock(thread, clock_of(thread->stamp) + 1);
}

/* What single threads know and have made ready becomes the block's. */
static void gather(Block *block) {
    struct BlockChecks *own = block->checks;
    KnowledgePool *pool = &block->worker->launch->checks->pool;
    for (u32 i = 0; i < block->count; i++) {
        Thread *thread = &block->threads[i];
        count_for_strong(thread);
        move_knowledge(pool, &own->for_strong, &thread->for_strong);
        move_knowledge(pool, &own->base, &thread->knowledge);
        if (!thread->release) continue;
        learn(pool, &own->ready, thread->release->wide);
        drop_release(pool, thread);
    }
    move_knowledge(pool, &own->base, &own->left_knowledge);
    move_knowledge(pool, &own->ready, &own->left_ready);
    own->has_knowledge = own->has_releases = 0;
}

/* Threads that are gone are not waited for; but those that have passed by the barrier before should have come to it. */
static void refuse_bypass(const Block *block, const Barrier *barrier) {
    const Thread *waits = &block->threads[barrier->number];
    if (!waits->seen.bypass) return;
    u32 join = waits->seen.bypass - 1;
    for (u32 i = 0; i < block->count; i++) {
        const Thread *thread = &block->threads[i];
        if (thread->state != GONE || thread->seen.joins[join] <= waits->seen.joins[join]) continue;
        xf_report report = {.kind = XF_DIVERGENT_BARRIER, .region = -3, .variable = -1};
        fill_place(&report.here, waits, barrier->site, 0);
        fill_place(&report.other, thread, (u32)NO_SITE, 0);
        fail(block->worker->current, &report);
    }
}

void order_barrier(Block *block, Barrier *barrier) {
    struct BlockChecks *own = block->checks;
    if (block->alive < block->count && is_checked(block->worker->launch)) refuse_bypass(block, barrier);
    Checks *checks = block->worker->launch->checks;
    if (!own->name) return;
    if (!barrier->has_arrivals && barrier->waiting.count == block->alive) { /* every thread waits at it */
        if (own->has_knowledge || own->has_releases) gather(block);
        begin_interval(block);
        return;
    }
    Knowledge *for_strong = NULL;
    for (Thread *thread = barrier->waiting.first; thread; thread = thread->next) {
        if (thread->unfenced) count_for_strong(thread);
        learn(&checks->pool, &for_strong, thread->for_strong);
        Knowledge *all = sum_up(thread);
        learn(&checks->pool, &barrier->knowledge, all);
        discard(&checks->pool, all);
    }
    own->has_knowledge = 1;
    u32 interval = own->interval;
    for (Thread *thread = barrier->waiting.first; thread; thread = thread->next) {
        learn(&checks->pool, &thread->knowledge, barrier->knowledge);
        learn(&checks->pool, &thread->for_strong, for_strong);
        if (own->interval == interval) set_clock(thread, clock_of(thread->stamp) + 1);
    }
    discard(&checks->pool, for_strong);
    discard(&checks->pool, barrier->knowledge);
    barrier->knowledge = NULL;
}

void begin_thread_checks(Thread *thread) {
    thread->frame_count = 0;
    thread->seen.bypass = 0;
    memset(thread->seen.joins, 0, sizeof thread->seen.joins);
    make_own_stamp(thread, 0);
}

void end_thread_checks(Thread *thread) {
    struct BlockChecks *own = thread->block->checks;
    KnowledgePool *pool = &thread->worker->launch->checks->pool;
    settle_suspicions(thread, 0);
    count_for_strong(thread);
    move_knowledge(pool, &own->for_strong, &thread->for_strong);
    if (thread->knowledge || thread->release) {
        learn(pool, &own->left_knowledge, thread->knowledge);
        if (thread->release) learn(pool, &own->left_ready, thread->release->wide);
        own->has_knowledge = 1;
        discard(pool, thread->knowledge);
        thread->knowledge = NULL;
        drop_release(pool, thread);
    }
}

static void forget_order(KnowledgePool *pool, struct BlockChecks *own) {
    Knowledge **all[] = {&own->base, &own->for_strong, &own->ready, &own->left_knowledge, &own->left_ready};
    for (u32 i = 0; i < sizeof all / sizeof *all; i++) discard(pool, *all[i]), *all[i] = NULL;
}

void begin_block_checks(Block *block) {
    struct BlockChecks *own = block->checks;
    Checks *checks = block->worker->launch->checks;
    own->name = own->first_name = new_name(checks, block->number);
    own->interval = 1;
    memset(own->values.initialised, 0, block->worker->launch->shared_nbytes / 8 + 8);
    free(own->values.doubts);
    own->values.doubts = NULL;
    memset(block->shared + RESERVED_BEGIN, 0, XF_SHARED_BEGIN - RESERVED_BEGIN);
    memset(own->lanes_interval, 0, block->warp_count * sizeof(u32));
    forget_order(&checks->pool, own);
    own->has_knowledge = own->has_releases = 0;
    if (own->points.count) clear_points(&checks->pool, &own->points);
}

int open_block_checks(Block *block) {
    const Launch *launch = block->worker->launch;
    struct BlockChecks *own = block->checks = calloc(1, sizeof *own);
    if (!own) return 0;
    own->values.initialised = calloc(launch->shared_nbytes / 64 + 2, sizeof(u64));
    own->lanes = malloc((size_t)block->warp_count * WARP * WARP * sizeof(u16));
    own->lanes_interval = calloc(block->warp_count, sizeof(u32));
    return own->values.initialised && own->lanes && own->lanes_interval && open_area(&own->shared, 0, launch->shared_nbytes);
}

void close_block_checks(Block *block) {
    struct BlockChecks *own = block->checks;
    KnowledgePool *pool = &block->worker->launch->checks->pool;
    for (u32 i = 0; i < block->count; i++) {
        Thread *thread = &block->threads[i];
        discard(pool, thread->knowledge);
        discard(pool, thread->unfenced);
        discard(pool, thread->for_strong);
        drop_release(pool, thread);
        clear_suspicions(thread, 0, ~0ull);
        for (u32 j = 0; j < thread->frame_room; j++) {
            free(thread->frames[j].values.initialised);
            free(thread->frames[j].values.doubts);
        }
        thread->frame_room = 0;
    }
    for (u32 i = 0; i < BARRIERS; i++) discard(pool, block->barriers[i].knowledge);
    forget_order(pool, own);
    clear_points(pool, &own->points);
    free(own->points.points);
    close_area(&own->shared);
    free(own->values.initialised);
    free(own->values.doubts);
    free(own->lanes);
    free(own->lanes_interval);
    free(own);
}

/* --- a launch */

static int sort_regions(Checks *checks) {
    const xf_launch *given = checks->launch->given;
    checks->region_count = given->region_count;
    checks->region_room = given->region_count + 8;
    checks->order = malloc(checks->region_room * sizeof(u32));
    checks->regions = malloc(checks->region_room * sizeof(xf_region));
    if (!checks->order || !checks->regions) return 0;
    if (given->region_count) memcpy(checks->regions, given->regions, given->region_count * sizeof(xf_region));
    for (u32 i = 0; i < given->region_count; i++) {
        u32 place = i;
        for (; place && given->regions[checks->order[place - 1]].begin > given->regions[i].begin; place--)
            checks->order[place] = checks->order[place - 1];
        checks->order[place] = i;
    }
    return 1;
}

static int describe_area(Checks *checks, Area *area, u32 first, u32 count, u64 begin, u64 end) {
    const xf_region *regions = checks->regions;
    area->first = first;
    area->count = count;
    area->is_plain = count == 0;
    area->is_read_only = count > 0;
    for (u32 i = first; i < first + count; i++) {
        const xf_region *region = &regions[checks->order[i]];
        u32 closed = region->flags & (XF_REGION_READ_ONLY | XF_REGION_CONST);
        area->is_read_only &= closed != 0;
        area->is_plain = count == 1 && !region->flags;
        area->read = region->read;
        area->written = region->written;
        if (region->memory) area->shift = region->memory - region->begin; /* those that overlap are one memory */
    }
    return open_area(area, begin, end);
}

/* Regions that overlap are one area; so is the workspace of a cooperative grid. */
static int make_areas(Checks *checks) {
    Launch *launch = checks->launch;
    const xf_launch *given = launch->given;
    u64 workspace = (u64)(uintptr_t)launch->workspace;
    int has_workspace = !(given->flags & XF_COOPERATIVE);
    checks->area_room = given->region_count + 8;
    checks->areas = calloc(checks->area_room, sizeof(Area));
    if (!checks->areas) return 0;
    for (u32 i = 0; i <= given->region_count;) {
        u64 begin = i < given->region_count ? given->regions[checks->order[i]].begin : ~0ull;
        if (!has_workspace && workspace < begin) {
            has_workspace = 1;
            if (!describe_area(checks, &checks->areas[checks->area_count++], 0, 0, workspace,
                               workspace + sizeof launch->workspace))
                return 0;
            continue;
        }
        if (i == given->region_count) break;
        u64 end = begin + given->regions[checks->order[i]].nbytes;
        u32 first = i++;
        for (; i < given->region_count && given->regions[checks->order[i]].begin < end; i++) {
            u64 other = given->regions[checks->order[i]].begin + given->regions[checks->order[i]].nbytes;
            end = other > end ? other : end;
        }
        if (!describe_area(checks, &checks->areas[checks->area_count++], first, i - first, begin, end)) return 0;
    }
    return 1;
}

int open_checks(Launch *launch) {
    static u64 serials; /* atomic: to know whose shadow a block of the heap has */
    Checks *checks = launch->checks = calloc(1, sizeof *checks);
    if (!checks) return 0;
    checks->launch = launch;
    checks->serial = __atomic_add_fetch(&serials, 1, __ATOMIC_RELAXED);
    checks->is_ordering = is_checked(launch);
    checks->name_room = 1024;
    open_pool(&checks->pool, 2 * launch->block_count + 4096);
    checks->block_of = calloc(checks->name_room, sizeof(u32));
    checks->later_name = calloc(checks->name_room, sizeof(u32));
    if (launch->given->place_count > SITE_MASK) {
        checks->short_sites = calloc(launch->given->place_count, sizeof(u16));
        checks->long_sites = calloc(SITE_MASK, sizeof(u32));
        if (!checks->short_sites || !checks->long_sites) return 0;
    }
    return checks->block_of && checks->later_name && sort_regions(checks) && make_areas(checks);
}

void close_checks(Launch *launch) {
    Checks *checks = launch->checks;
    clear_points(&checks->pool, &checks->points);
    free(checks->points.points);
    for (u32 i = 0; checks->areas && i < checks->area_count; i++) close_area(&checks->areas[i]);
    for (Area *area = checks->heap_areas, *next; area; area = next) {
        next = area->next;
        close_area(area);
        free(area);
    }
    close_pool(&checks->pool);
    free(checks->areas);
    free(checks->regions);
    free(checks->order);
    free(checks->block_of);
    free(checks->later_name);
    free(checks->short_sites);
    free(checks->long_sites);
    free(checks);
}
