/* Running results in the order of chunks: the elements of a chunk of CHUNK one after the other, the first after the running
   result of the chunks before it, which are those of the chunks' totals, in chunks likewise. An element that begins a segment
   is combined with none before it. This text is also a part of the scans that xferlib/kernels/scan.py compiles. */

enum {
    CHUNK = 32,   /* as in xferlib/kernels/scan.py */
    TOGETHER = 4, /* chunks whose elements are combined in turns: each combination waits for the one before it */
    LINE_NBYTES = 64,
    LEVELS = 13,  /* chunks of chunks ... up to 2^63 elements */
};

/* NAME(x, out, count, begins): the running results of a row by COMBINE(a, b), anew where `begins`, unless it is NULL, is not zero;
   `out` is `x` itself or apart from it. Elements and results are X in memory; LOAD and STORE make them T, and that X again. */
#define BY_CHUNKS(NAME, X, T, LOAD, COMBINE, STORE)                                                                 \
    typedef struct {                                                                                                \
        T running, total; /* of all elements so far, and of those of the chunk since it or a segment begins */      \
        long long count;                                                                                            \
        int has_begun; /* whether a segment begins in the chunk */                                                  \
    } NAME##_level;                                                                                                 \
                                                                                                                    \
    static void NAME##_add(NAME##_level *level, T x, int begins)                                                    \
    {                                                                                                               \
        const int at = (int)(level->count++ % CHUNK);                                                               \
        level->total = at && !begins ? COMBINE(level->total, x) : x;                                                \
        level->has_begun = begins || (at && level->has_begun);                                                      \
        level->running = begins || level->count == 1 ? x : COMBINE(at ? level->running : level[1].running, x);      \
        if (at == CHUNK - 1)                                                                                        \
            NAME##_add(level + 1, level->total, level->has_begun);                                                  \
    }                                                                                                               \
                                                                                                                    \
    static void NAME(const X *x, X *out, long long count, const char *begins)                                       \
    {                                                                                                               \
        NAME##_level levels[LEVELS];                                                                                \
        for (int n = 0; n < LEVELS; ++n)                                                                            \
            levels[n].count = 0;                                                                                    \
        for (long long at = 0, end; at < count; at = end) {                                                         \
            const X *const from = x + at;                                                                           \
            X *const to = out + at;                                                                                 \
            T made[TOGETHER];                                                                                       \
            int is_plain = count - at >= CHUNK * TOGETHER;                                                          \
            end = is_plain ? at + CHUNK * TOGETHER : count;                                                         \
            for (long long i = at; i < end && begins; ++i)                                                          \
                is_plain &= !begins[i];                                                                             \
            if (!is_plain) {                                                                                        \
                for (; at < end; ++at) {                                                                            \
                    NAME##_add(levels, LOAD(x[at]), begins && begins[at]);                                          \
                    out[at] = STORE(levels->running);                                                               \
                }                                                                                                   \
                continue;                                                                                           \
            }                                                                                                       \
            for (int n = 0; n < CHUNK * TOGETHER * (int)sizeof(X); n += LINE_NBYTES) { /* all at once, for large X */ \
                __builtin_prefetch((const char *)from + n);                                                         \
                __builtin_prefetch((const char *)to + n, 1);                                                        \
            }                                                                                                       \
            for (int c = 0; c < TOGETHER; ++c)                                                                      \
                made[c] = LOAD(from[c * CHUNK]);                                                                    \
            for (int k = 1; k < CHUNK; ++k)                                                                         \
                for (int c = 0; c < TOGETHER; ++c)                                                                  \
                    made[c] = COMBINE(made[c], LOAD(from[c * CHUNK + k]));                                          \
            for (int c = 0; c < TOGETHER; ++c) {                                                                    \
                const T total = made[c], first = LOAD(from[c * CHUNK]);                                             \
                made[c] = levels[1].count ? COMBINE(levels[1].running, first) : first;                              \
                to[c * CHUNK] = STORE(made[c]);                                                                     \
                NAME##_add(levels + 1, total, 0);                                                                   \
            }                                                                                                       \
            for (int k = 1; k < CHUNK; ++k)                                                                         \
                for (int c = 0; c < TOGETHER; ++c) {                                                                \
                    made[c] = COMBINE(made[c], LOAD(from[c * CHUNK + k]));                                          \
                    to[c * CHUNK + k] = STORE(made[c]);                                                             \
                }                                                                                                   \
            levels->count += CHUNK * TOGETHER;                                                                      \
        }                                                                                                           \
    }
