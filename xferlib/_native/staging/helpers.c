/* Threads that help with transfers: started when they are first wanted, and never ended; asleep they cost nothing.

   They are shared by all transfers. Which one a thread joins depends on how many already work in its direction: two directions in
   turn end sooner than at once. The obvious way, threads of each transfer's own, would have more of them than there are cores as
   soon as there are two transfers.

   The pool's lock is never held together with another: the head of staging.c says what it protects. */

#include "state.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define LAP 4                /* pieces that a thread does before it checks whether it is wanted elsewhere */
#define UPWARD_SHARE 10      /* sixteenths of the threads that upload while downloads are at work too */
#define CROWDED_NS 10000000  /* how long none spins, nor comes to a busy core, once one has lost its core to another thread */
#define KEPT_NS 100000       /* how long it is not asked again whether cores are idle */
#define WOKEN_AT_ONCE 2      /* threads that one thread wakes: those wake more, or it would be busy with nothing else */

int64_t at_work[2];
static int64_t crowded_ns; /* until when other threads are known to want the cores; atomic */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t wanted, left;
    Staging *first;     /* of those that want more threads, in the order of their asking */
    Staging *all;       /* every transfer that is open */
    int64_t tickets;    /* threads that all of them want; read without the lock too */
    int64_t watching;   /* threads that spin until there are tickets, rather than sleep; read without the lock too */
    int64_t working[2]; /* threads in downloads and uploads, Python's too: two in turn end sooner than at once */
    int64_t each_way;   /* how many of the pool there may be of either, where the other is not at work */
    int64_t most;       /* threads of the pool that there may be */
    int64_t threads, idle;
    int64_t roused, rouse_ns; /* threads that are to spin, which sleep now, and how long */
    int is_prepared;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .wanted = PTHREAD_COND_INITIALIZER, .left = PTHREAD_COND_INITIALIZER};

/* A forked child has none of the threads, and the thread that held the lock is not there to give it back. */
static void forget_threads(void) {
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.wanted, NULL);
    pthread_cond_init(&pool.left, NULL);
    pool.first = pool.all = NULL;
    pool.tickets = pool.watching = pool.threads = pool.idle = pool.roused = pool.working[0] = pool.working[1] = 0;
    at_work[0] = at_work[1] = 0;
    forget_fills();
}

/* More tickets, or fewer, with the pool's lock held. */
static void tickets(int64_t more) {
    __atomic_add_fetch(&pool.tickets, more, __ATOMIC_RELAXED);
}

void pause_briefly(void) {
#ifdef __SSE2__
    for (int each = 0; each < 4; each++) _mm_pause();
#else
    sched_yield();
#endif
}

/* How many threads may work in one direction, with the pool's lock held; one of them is Python's. Where both are
   at work more upload: a thread copies data that a device has written faster than data in the program's memory. */
static int64_t limit(int way) {
    int64_t alone = pool.each_way + 1;
    if (__atomic_load_n(&at_work[!way], __ATOMIC_RELAXED) == 0) return alone;
    int64_t all = pool.most + 2, upward = all * UPWARD_SHARE / 16;
    return least(way ? upward : all - upward, alone);
}

/* Put a staging, with the pool's lock held, at the end of the queue for threads. */
static void enlist(Staging *staging) {
    Staging **place = &pool.first;
    while (*place != NULL) place = &(*place)->following_wanted;
    *place = staging;
    staging->following_wanted = NULL;
}

/* Take a staging, with the pool's lock held, out of the queue for threads. */
static void withdraw(Staging *staging) {
    Staging **place = &pool.first;
    while (*place != NULL && *place != staging) place = &(*place)->following_wanted;
    if (*place != NULL) *place = staging->following_wanted;
    tickets(-staging->wanted);
    staging->wanted = 0;
}

/* The first staging, with the pool's lock held, that a thread may join; NULL when there is none. */
static Staging *next_wanted(void) {
    Staging *staging = pool.first;
    while (staging != NULL && pool.working[way_of(staging)] >= limit(way_of(staging))) staging = staging->following_wanted;
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
static int help_out(Staging *staging, int64_t number) {
    const Setup *setup = &staging->setup;
    int result = setup->enter == NULL ? 0 : setup->enter(setup->context);
    if (result) {
        pthread_mutex_lock(&staging->lock);
        if (!staging->error) staging->error = result;
        pthread_cond_broadcast(&staging->changed);
        pthread_mutex_unlock(&staging->lock);
    }
    while (run_pieces(staging, LAP, number))
        if (is_wanted_elsewhere(way_of(staging))) return 0;
    return 1;
}

/* A thread leaves, with the pool's lock held: from here on the transfer may be freed. */
static void leave(Staging *staging) {
    if (--staging->helping == 0) pthread_cond_broadcast(&pool.left);
}

/* Do some pieces of another transfer that has chunks of the same ring; 0 where there is none, or none is left to take. */
int help_another(Staging *staging) {
    pthread_mutex_lock(&pool.lock);
    Staging *other = pool.all;
    while (other != NULL && (other == staging || other->setup.ring != staging->setup.ring || !held(other)))
        other = other->behind;
    if (other != NULL) other->helping++;
    pthread_mutex_unlock(&pool.lock);
    if (other == NULL) return 0;
    int is_left = run_pieces(other, LAP, 0);
    pthread_mutex_lock(&pool.lock);
    leave(other);
    pthread_mutex_unlock(&pool.lock);
    return is_left;
}

/* Spin for tickets, with the pool's lock held, rather than sleep: waking a thread takes longer than copying a MiB. Fills that begin
   meanwhile are helped with, and spun for anew. */
static void watch(int64_t spin_ns) {
    int64_t until = now_ns() + spin_ns;
    __atomic_add_fetch(&pool.watching, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&pool.lock);
    do {
        pause_briefly();
        if (help_fills()) until = now_ns() + spin_ns;
    } while (__atomic_load_n(&pool.tickets, __ATOMIC_RELAXED) == 0 && now_ns() < until);
    pthread_mutex_lock(&pool.lock);
    __atomic_sub_fetch(&pool.watching, 1, __ATOMIC_RELAXED);
}

/* Wake threads for the tickets there are, with the pool's lock held; those that spin see them by themselves. */
static void wake(void) {
    int64_t asleep = least(most(pool.tickets - pool.watching, 0) + pool.roused, WOKEN_AT_ONCE);
    for (int64_t each = 0; each < asleep; each++) pthread_cond_signal(&pool.wanted);
}

/* Other threads want the cores. */
void note_crowded(void) {
    __atomic_store_n(&crowded_ns, now_ns() + CROWDED_NS, __ATOMIC_RELAXED);
}

static void *live(void *number) {
    int64_t spin_ns = 0; /* how long to spin after the last transfer */
    int64_t lost = times_lost();
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        Staging *staging;
        while ((staging = next_wanted()) == NULL) {
            if (has_fills()) {
                pthread_mutex_unlock(&pool.lock);
                help_fills();
                pthread_mutex_lock(&pool.lock);
                continue;
            }
            if (spin_ns && pool.tickets == 0) watch(spin_ns);
            else pthread_cond_wait(&pool.wanted, &pool.lock);
            spin_ns = 0;
            if (pool.roused > 0) {
                pool.roused--;
                spin_ns = pool.rouse_ns;
                wake();
            }
        }
        spin_ns = staging->spin_ns;
        int way = way_of(staging);
        staging->wanted--;
        staging->helping++;
        pool.working[way]++;
        tickets(-1);
        pool.idle--;
        if (staging->wanted == 0) withdraw(staging);
        wake();
        pthread_mutex_unlock(&pool.lock);
        int64_t added = __atomic_load_n(&staging->added, __ATOMIC_RELAXED);
        int is_over = help_out(staging, (int64_t)(intptr_t)number);
        int64_t lost_now = times_lost();
        if (lost_now != lost) note_crowded(), spin_ns = 0;
        lost = lost_now;
        pthread_mutex_lock(&pool.lock);
        pool.idle++;
        pool.working[way]--;
        is_over = is_over && added == __atomic_load_n(&staging->added, __ATOMIC_RELAXED); /* none came too late to be seen */
        if (is_over) staging->called--; /* another region may call it again */
        else if (!__atomic_load_n(&staging->is_ending, __ATOMIC_RELAXED)) { /* xf_end() sets it before it locks */
            if (staging->wanted++ == 0) enlist(staging);
            tickets(1);
        }
        leave(staging);
    }
    return NULL;
}

/* Start a thread, with the pool's lock held. */
static int start(void) {
    if (!start_thread(live, (void *)(intptr_t)-(pool.threads + 1))) return 0;
    pool.threads++;
    pool.idle++;
    return 1;
}

/* Let up to `count` threads in all come and help with what there is now. They are numbered -1, -2, ... */
void call_helpers(Staging *staging, int64_t count) {
    const Setup *setup = &staging->setup;
    if (count <= 0) return;
    pthread_mutex_lock(&pool.lock);
    int64_t more = count - staging->called;
    if (more > 0) {
        pool.each_way = (staging->is_fresh ? setup->clearing : setup->each_way) - 1;
        pool.most = setup->both_ways;
        if (staging->wanted == 0) enlist(staging);
        staging->wanted += more;
        staging->called += more;
        pool.roused = 0; /* these are what they were roused for */
        tickets(more);
        while (pool.idle < pool.tickets && pool.threads < pool.most && start());
        wake();
    }
    pthread_mutex_unlock(&pool.lock);
}

/* Whether a helper has lately lost its core to another thread. One that spins uses up its time, and then has to wait for
   more with a piece half done; one that has slept gets a core at once. */
EXPORT int xf_is_crowded(void) {
    int64_t until_ns = __atomic_load_n(&crowded_ns, __ATOMIC_RELAXED);
    return until_ns && now_ns() < until_ns;
}

/* The transfer is one of those that are open. */
void list_transfer(Staging *staging) {
    pthread_mutex_lock(&pool.lock);
    if (!pool.is_prepared) pool.is_prepared = at_fork_in_child(forget_threads);
    staging->behind = pool.all;
    pool.all = staging;
    pthread_mutex_unlock(&pool.lock);
}

/* Wait until every helper has left: from here on none comes. */
void unlist_transfer(Staging *staging) {
    pthread_mutex_lock(&pool.lock);
    withdraw(staging);
    for (int64_t until = now_ns() + staging->setup.spin_ns; staging->helping && now_ns() < until;) {
        pthread_mutex_unlock(&pool.lock);
        pause_briefly();
        pthread_mutex_lock(&pool.lock);
    }
    while (staging->helping) pthread_cond_wait(&pool.left, &pool.lock);
    Staging **place = &pool.all;
    while (*place != NULL && *place != staging) place = &(*place)->behind; /* a forked child has none of them */
    if (*place != NULL) *place = staging->behind;
    pthread_mutex_unlock(&pool.lock);
}

/* A Python thread comes (1) or goes (-1): it counts as one of those that work in its direction. */
void count_work(int way, int more) {
    pthread_mutex_lock(&pool.lock);
    pool.working[way] += more;
    int is_wanted = more < 0 && next_wanted() != NULL; /* a thread may have slept because of this one */
    pthread_mutex_unlock(&pool.lock);
    if (is_wanted) pthread_cond_signal(&pool.wanted);
}

/* How many cores there are for helpers, which may spin on some of them. The answer is kept for a while: asking takes as
   long as copying 20 KiB. */
int64_t free_cores(void) {
    static int64_t until_ns, kept; /* atomic */
    int64_t now = now_ns();
    if (now >= __atomic_load_n(&until_ns, __ATOMIC_ACQUIRE)) {
        __atomic_store_n(&kept, idle_cores() + __atomic_load_n(&pool.watching, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
        __atomic_store_n(&until_ns, now + KEPT_NS, __ATOMIC_RELEASE);
    }
    return __atomic_load_n(&kept, __ATOMIC_RELAXED);
}

/* Have `count` helpers awake, which look for work for `spin_ns`: those that sleep are woken, and up to `most_threads` started in
   all. Whether any was to be woken. */
int rouse(int64_t count, int64_t most_threads, int64_t spin_ns) {
    if (__atomic_load_n(&pool.watching, __ATOMIC_RELAXED) >= count) return 0;
    count = least(count, free_cores());
    pthread_mutex_lock(&pool.lock);
    if (!pool.is_prepared) pool.is_prepared = at_fork_in_child(forget_threads);
    while (pool.idle < count && pool.threads < most_threads && start());
    pool.roused = most(least(count, pool.idle) - pool.watching, 0);
    pool.rouse_ns = spin_ns;
    wake();
    pthread_mutex_unlock(&pool.lock);
    return 1;
}

/* Wake up to `count` of the helpers that there are, for a transfer that begins in some microseconds: they spin for it, and it is cut as
   one of a loop. */
EXPORT void xf_rouse(int64_t count, int64_t spin_ns) {
    if (spin_ns > 0 && !xf_is_crowded() && rouse(count, 0, spin_ns)) begin_loop();
}
