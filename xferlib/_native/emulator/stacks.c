/* Stacks of fibers, kept for the next launch: mapping one and touching its first page costs more than a small kernel.
 *
 * `pool` is the one state of this file, shared by all launches of the process, under its lock. Its lists are by size,
 * for launches differ in it; at most MOST_KEPT stacks stay mapped. Each stack has a guard below it, as large as a stack
 * frame with arrays may reasonably be, so that an overflow is a fault at a known address. A guard is a mapping of its
 * own, of which a process may have some 65,000: beyond MOST_GUARDED stacks, as cooperative launches have, none gets one.
 */

#include "state.h"

#include <sys/mman.h>
#include <unistd.h>

enum { MOST_KEPT = 2048, MOST_GUARDED = 12000, GUARD_NBYTES = 65536, COLOURS = 60 };

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif
#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS MAP_ANON
#endif

static struct {
    pthread_mutex_t lock;
    Stack *first;
    u32 kept, mapped, colour;
    int is_prepared;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

#ifdef XF_UCONTEXT
__thread void *xf_start_argument;
static __thread void (*start_of_next)(void *);

static void start_context(void) {
    start_of_next(xf_start_argument);
}
#endif

/* A forked child has the stacks, but maybe a lock that none of its threads holds. */
static void renew_lock(void) {
    pthread_mutex_init(&pool.lock, NULL);
}

static size_t mapping_nbytes(const Stack *stack) {
    return stack->guard_nbytes + (size_t)((const char *)(stack + 1) - stack->begin);
}

static void unmap(Stack *stack) {
    char *memory = stack->begin - stack->guard_nbytes;
    size_t nbytes = (size_t)sysconf(_SC_PAGESIZE);
    nbytes = (mapping_nbytes(stack) + nbytes - 1) / nbytes * nbytes;
    munmap(memory, nbytes);
}

static Stack *map_stack(size_t nbytes, u32 colour, int has_guard) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), guard = has_guard ? GUARD_NBYTES : 0;
    size_t all = (nbytes + guard + 2 * page - 1) / page * page; /* a page more, for header and colour */
    char *memory = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    if (guard && mprotect(memory, guard, PROT_NONE)) guard = 0; /* too many mappings: goes without */
    /* Stacks that all begin at multiples of a page would share a few sets of the cache. */
    size_t offset = (all - sizeof(Stack)) & ~(size_t)63;
    offset -= 64 * (size_t)(colour % COLOURS);
    Stack *stack = (Stack *)(void *)(memory + offset);
    stack->begin = memory + guard;
    stack->guard_nbytes = guard;
    stack->nbytes = (size_t)((char *)stack - stack->begin);
    return stack;
}

/* A stack of at least that many bytes; NULL where the system has no memory. */
Stack *take_stack(size_t nbytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    pthread_mutex_lock(&pool.lock);
    if (!pool.is_prepared) {
        pool.is_prepared = 1;
        pthread_atfork(NULL, NULL, renew_lock);
    }
    Stack **place = &pool.first, *stack;
    /* Not one of quite another size: a launch with large stacks must not leave all of its memory to those with small. */
    while ((stack = *place) != NULL && (stack->nbytes < nbytes || stack->nbytes > nbytes + 3 * page))
        place = &stack->next;
    if (stack) {
        *place = stack->next;
        pool.kept--;
        pthread_mutex_unlock(&pool.lock);
        return stack;
    }
    u32 colour = pool.colour++;
    int has_guard = pool.mapped++ < MOST_GUARDED;
    pthread_mutex_unlock(&pool.lock);
    stack = map_stack(nbytes, colour, has_guard);
    if (stack) return stack;
    pthread_mutex_lock(&pool.lock);
    pool.mapped--;
    pthread_mutex_unlock(&pool.lock);
    return NULL;
}

/* Give back a list of stacks. */
void give_stacks(Stack *first) {
    pthread_mutex_lock(&pool.lock);
    for (Stack *stack = first, *next; stack; stack = next) {
        next = stack->next;
        if (pool.kept < MOST_KEPT && stack->guard_nbytes) {
            stack->next = pool.first;
            pool.first = stack;
            pool.kept++;
        } else {
            pool.mapped--;
            unmap(stack);
        }
    }
    pthread_mutex_unlock(&pool.lock);
}

void prepare_context(Context *context, char *begin, size_t nbytes, void (*start)(void *)) {
    context->begin = begin;
    context->nbytes = nbytes;
    context->fake_stack = NULL;
#ifdef XF_ASAN /* frames of a fiber that a fault has left are still marked */
    __asan_unpoison_memory_region(begin, nbytes);
#endif
#ifdef XF_UCONTEXT
    getcontext(&context->place);
    context->place.uc_stack.ss_sp = begin;
    context->place.uc_stack.ss_size = nbytes;
    context->place.uc_link = NULL;
    start_of_next = start;
    makecontext(&context->place, start_context, 0);
#else
    u64 *top = (u64 *)(void *)((uintptr_t)(begin + nbytes) & ~(uintptr_t)15);
#ifdef __x86_64__
    top -= 2; /* as after a call: the stack pointer is 8 below a multiple of 16, and the return address is 0 */
    top[0] = (u64)(uintptr_t)start;
    top[1] = 0;
#else
    top -= 2;
    top[0] = 0; /* the frame pointer */
    top[1] = (u64)(uintptr_t)start;
#endif
    context->pointer = top;
#endif
}
