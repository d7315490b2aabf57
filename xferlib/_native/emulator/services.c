/* What a kernel asks of its surroundings: output, memory of the device's heap, clocks.
 *
 * `heap` is the one state of this file, shared by all launches of the process, under its lock: as on a device, memory that
 * one kernel has allocated another one may use and free. It is a treap (Seidel and Aragon, 1996) of blocks by address, for
 * checks ask which block an address is in. A block that is free stays known, and its memory is not given to others, until
 * FREED_NBYTES of such memory have come together: so that a use after the end is found. Before and behind each block are
 * bytes that belong to no block.
 */

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 10
/* As in checks.c: the compiler's analyzer loses a line's memory, which is kept behind the thread's pointer. */
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

#include "heap.h"
#include "state.h"

#include <stdarg.h>
#include <time.h>

enum { HEAP_NBYTES = 1 << 26, FREED_NBYTES = 1 << 24, HEAP_MARGIN = 64 };

/* --- printf */

/* What has no room is dropped. */
static void append(Text *text, const char *more, size_t count) {
    if (text->nbytes + count > text->room) {
        size_t wanted = text->room ? text->room : 128;
        while (wanted < text->nbytes + count) wanted *= 2;
        char *larger = realloc(text->bytes, wanted);
        if (!larger) return;
        text->bytes = larger;
        text->room = wanted;
    }
    if (count) memcpy(text->bytes + text->nbytes, more, count);
    text->nbytes += count;
}

static void move_lines(Thread *thread, size_t count) {
    Text *line = &thread->line;
    append(&thread->worker->output, line->bytes, count);
    memmove(line->bytes, line->bytes + count, line->nbytes - count);
    line->nbytes -= count;
}

void end_line(Thread *thread) {
    move_lines(thread, thread->line.nbytes);
}

/* On the worker's own stack: the callback is Python's. */
void print_output(Worker *worker) {
    Launch *launch = worker->launch;
    if (launch->given->print) {
        pthread_mutex_lock(&launch->lock);
        launch->given->print(launch->given->context, worker->output.bytes, worker->output.nbytes);
        pthread_mutex_unlock(&launch->lock);
    }
    worker->output.nbytes = 0;
}

static void write_text(Thread *thread, const char *text, size_t count) {
    append(&thread->line, text, count);
}

/* The arguments lie one behind the other, each at a multiple of its size. */
static u64 take_argument(const char **arguments, size_t *offset, size_t nbytes) {
    u64 value = 0;
    u32 narrow;
    *offset = (*offset + nbytes - 1) / nbytes * nbytes;
    if (nbytes == 8) memcpy(&value, *arguments + *offset, 8);
    else memcpy(&narrow, *arguments + *offset, 4), value = narrow;
    *offset += nbytes;
    return value;
}

typedef struct {
    char text[40]; /* the conversion as the host's printf takes it */
    size_t nbytes;
    int longs; /* number of l */
    char kind;
} Conversion;

/* Read one conversion behind its '%'; a '*' becomes the number that the arguments hold. Returns what follows it. */
static const char *read_conversion(const char *from, Conversion *found, const char **arguments, size_t *offset) {
    char *to = found->text, *end = found->text + sizeof found->text - 16;
    *to++ = '%';
    found->longs = 0;
    for (; *from && to < end; from++) {
        if (*from == '*') to += snprintf(to, 12, "%d", (s32)take_argument(arguments, offset, 4));
        else if (strchr("#0- +.123456789", *from)) *to++ = *from;
        else if (*from == 'l') found->longs++;
        else if (*from != 'h' && *from != 'z' && *from != 'j' && *from != 't') break;
        else if (*from != 'h') found->longs = 1;
    }
    found->kind = *from;
    if (found->longs && strchr("diouxX", *from)) *to++ = 'l', *to++ = 'l';
    if (*from) *to++ = *from;
    *to = 0;
    return *from ? from + 1 : from;
}

static void write_conversion(Thread *thread, const Conversion *found, const char **arguments, size_t *offset) {
    char small[512], *text = small;
    int count = 0;
    u64 value = 0;
    f64 real = 0;
    int is_real = strchr("eEfFgGaA", found->kind) != NULL, is_string = found->kind == 's';
    int is_integer = strchr("diouxX", found->kind) != NULL, is_wide = is_integer && found->longs;
    if (is_real || is_string || found->kind == 'p' || is_wide) value = take_argument(arguments, offset, 8);
    else if (is_integer || found->kind == 'c') value = take_argument(arguments, offset, 4);
    else { /* nothing that CUDA's printf knows: as it stands */ write_text(thread, found->text, strlen(found->text));
        return;
    }
    memcpy(&real, &value, sizeof real);
    const char *string = value ? (const char *)(uintptr_t)find_host_address(&thread->seen, value) : "(null)";
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    for (size_t room = sizeof small;; room = (size_t)count + 1) {
        count = is_real              ? snprintf(text, room, found->text, real)
                : is_string          ? snprintf(text, room, found->text, string)
                : found->kind == 'p' ? snprintf(text, room, found->text, (void *)(uintptr_t)value)
                : is_wide            ? snprintf(text, room, found->text, value)
                                     : snprintf(text, room, found->text, (u32)value);
        if (count < 0 || (size_t)count < room || text != small || !(text = malloc((size_t)count + 1))) break;
    }
#pragma GCC diagnostic pop
    if (text && count > 0) write_text(thread, text, (size_t)count);
    if (text != small) free(text);
}

u32 print_formatted(xf_thread *t, const char *format, const char *arguments, u32 site) {
    Thread *thread = as_thread(t);
    size_t offset = 0;
    u32 conversions = 0;
    (void)site;
    if (!format) return (u32)-1;
    for (const char *from = format; *from;) {
        const char *percent = strchr(from, '%');
        size_t count = percent ? (size_t)(percent - from) : strlen(from);
        write_text(thread, from, count);
        if (!percent) break;
        from = percent + 1;
        if (*from == '%') {
            write_text(thread, from++, 1);
            continue;
        }
        Conversion found;
        from = read_conversion(from, &found, &arguments, &offset);
        write_conversion(thread, &found, &arguments, &offset);
        conversions++;
    }
    size_t end = thread->line.nbytes;
    while (end && thread->line.bytes[end - 1] != '\n') end--;
    if (end) move_lines(thread, end);
    return conversions;
}

void fail_assertion(xf_thread *t, const char *message, const char *file, u32 line, const char *function, u32 site) {
    char text[sizeof((xf_report *)NULL)->text];
    const char *name = function ? function : "";
    snprintf(text, sizeof text, "%.200s:%u: %.100s%sassertion `%.180s` failed", file ? file : "", line, name,
             *name ? ": " : "", message ? message : "");
    fail_at(as_thread(t), XF_ASSERT, site, text);
}

void run_trap(xf_thread *t, u32 site) {
    fail_at(as_thread(t), XF_TRAP, site, "");
}

void refuse_instruction(xf_thread *t, u32 site) {
    fail_at(as_thread(t), XF_UNSUPPORTED, site, "");
}

/* --- the heap */

static struct {
    pthread_mutex_t lock;
    HeapBlock *root;
    HeapBlock *first_freed, *last_freed; /* in the order of their ends */
    u64 nbytes, freed_nbytes;
    u64 random, unwatched;
    int is_prepared;
} heap = {.lock = PTHREAD_MUTEX_INITIALIZER, .random = 88172645463325252ull};

static void renew_lock(void) {
    pthread_mutex_init(&heap.lock, NULL);
}

static void lock_heap(void) {
    pthread_mutex_lock(&heap.lock);
    if (heap.is_prepared) return;
    heap.is_prepared = 1;
    pthread_atfork(NULL, NULL, renew_lock);
}

static void split(HeapBlock *root, u64 begin, HeapBlock **low, HeapBlock **high) {
    while (root) {
        if (root->begin < begin) {
            *low = root;
            low = &root->right;
            root = *low;
        } else {
            *high = root;
            high = &root->left;
            root = *high;
        }
    }
    *low = *high = NULL;
}

static HeapBlock *join_trees(HeapBlock *low, HeapBlock *high) {
    HeapBlock *root, **place = &root;
    while (low && high) {
        if (low->priority > high->priority) {
            *place = low;
            place = &low->right;
            low = *place;
        } else {
            *place = high;
            place = &high->left;
            high = *place;
        }
    }
    *place = low ? low : high;
    return root;
}

static void insert_block(HeapBlock *block) {
    HeapBlock **place = &heap.root;
    while (*place && (*place)->priority >= block->priority)
        place = block->begin < (*place)->begin ? &(*place)->left : &(*place)->right;
    split(*place, block->begin, &block->left, &block->right);
    *place = block;
}

static void remove_block(HeapBlock *block) {
    HeapBlock **place = &heap.root;
    while (*place != block) place = block->begin < (*place)->begin ? &(*place)->left : &(*place)->right;
    *place = join_trees(block->left, block->right);
}

static HeapBlock *last_block_before(u64 address) {
    HeapBlock *found = NULL;
    for (HeapBlock *block = heap.root; block;) {
        if (block->begin <= address) found = block, block = block->right;
        else block = block->left;
    }
    return found;
}

HeapBlock *find_heap_block(u64 address) {
    lock_heap();
    HeapBlock *block = last_block_before(address);
    if (block && address >= block->begin + block->nbytes + HEAP_MARGIN) block = NULL;
    pthread_mutex_unlock(&heap.lock);
    return block;
}

static void drop_oldest_freed(void) {
    HeapBlock *block = heap.first_freed;
    heap.first_freed = block->next_freed;
    if (!heap.first_freed) heap.last_freed = NULL;
    heap.freed_nbytes -= block->nbytes;
    remove_block(block);
    free(block->initialised);
    free(block->memory);
    free(block);
}

void note_unwatched(void) {
    lock_heap();
    heap.unwatched++;
    pthread_mutex_unlock(&heap.lock);
}

int is_noted(const HeapBlock *block) {
    return block->unwatched == heap.unwatched;
}

u64 allocate_memory(xf_thread *t, u64 nbytes, u32 site) {
    (void)t, (void)site;
    if (nbytes == 0 || nbytes > HEAP_NBYTES) return 0;
    HeapBlock *block = calloc(1, sizeof *block);
    char *memory = malloc(nbytes + 2 * HEAP_MARGIN);
    u64 *initialised = calloc((nbytes + 63) / 64, sizeof(u64));
    lock_heap();
    int fits = block && memory && initialised && heap.nbytes + nbytes <= HEAP_NBYTES;
    if (fits) {
        block->begin = (u64)(uintptr_t)memory + HEAP_MARGIN;
        block->nbytes = nbytes;
        block->memory = memory;
        block->initialised = initialised;
        block->unwatched = heap.unwatched;
        block->priority = draw(&heap.random);
        heap.nbytes += nbytes;
        insert_block(block);
    }
    pthread_mutex_unlock(&heap.lock);
    if (fits) return block->begin;
    free(block);
    free(memory);
    free(initialised);
    return 0;
}

void free_memory(xf_thread *t, u64 address, u32 site) {
    if (!address) return;
    lock_heap();
    HeapBlock *block = last_block_before(address);
    int is_block = block && block->begin == address && !block->is_freed;
    if (is_block) {
        block->is_freed = 1;
        block->next_freed = NULL;
        if (heap.last_freed) heap.last_freed->next_freed = block;
        else heap.first_freed = block;
        heap.last_freed = block;
        heap.nbytes -= block->nbytes;
        heap.freed_nbytes += block->nbytes;
        while (heap.freed_nbytes > FREED_NBYTES) drop_oldest_freed();
    }
    pthread_mutex_unlock(&heap.lock);
    if (!is_block) fail_at(as_thread(t), XF_BAD_FREE, site, block && block->begin == address ? "freed before" : "");
}

/* --- clocks */

static u64 nanoseconds(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (u64)time.tv_sec * 1000000000 + (u64)time.tv_nsec;
}

/* A cycle is a nanosecond; two readings of one thread differ. */
u64 read_clock(xf_thread *t) {
    Worker *worker = as_thread(t)->worker;
    u64 now = nanoseconds(CLOCK_MONOTONIC);
    poll(as_thread(t), (u32)NO_SITE); /* kernels wait by the clock */
    note_progress(worker);
    return worker->clock = now > worker->clock ? now : worker->clock + 1;
}

u64 read_global_timer(xf_thread *t) {
    poll(as_thread(t), (u32)NO_SITE);
    note_progress(as_thread(t)->worker);
    return nanoseconds(CLOCK_REALTIME);
}

/* Cooperative groups find the grid's workspace in registers 1 and 2, the high half first. */
u64 read_environment(xf_thread *t, u32 number) {
    const Launch *launch = as_thread(t)->worker->launch;
    u64 address = (u64)(uintptr_t)launch->workspace;
    if (!(launch->given->flags & XF_COOPERATIVE)) return 0;
    return number == 1 ? address >> 32 : number == 2 ? address & 0xffffffff : 0;
}
