/* Copies plain bytes, as fast wherever the two ends lie.

   The obvious way is memcpy alone. From 2 KiB up to the size of a second-level cache glibc copies by `rep movsb` on processors
   that call themselves fast at it. AMD's are 10 to 17 times slower at it where the end that is written lies 1 to 31 bytes
   behind the one that is read, counted within a page (measured on an EPYC of family 25 with glibc 2.36: 212 KB take 89 us
   instead of 5; glibc's bug 30994). Pinned memory begins with a page, and what malloc gives for large arrays 16 bytes behind
   one: a result in ordinary memory is just that case. */

#ifndef XFERLIB_PLAIN_H
#define XFERLIB_PLAIN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <emmintrin.h>

enum { REP_LEAST = 2048, OF_A_PAGE = 4095, NEAR_BEHIND = 63 };

static inline int is_slow_by_rep(const char *to, const char *from, size_t nbytes) {
    return nbytes > REP_LEAST && (((uintptr_t)to - (uintptr_t)from - 1) & OF_A_PAGE) < NEAR_BEHIND && __builtin_cpu_is("amd");
}

static inline void copy_by_vectors(char *restrict to, const char *restrict from, size_t nbytes) {
    size_t ahead = -(uintptr_t)to & 15;
    memcpy(to, from, 16);
    to += ahead, from += ahead, nbytes -= ahead;
    for (; nbytes >= 64; nbytes -= 64, to += 64, from += 64) {
        __m128i words[4];
        for (int i = 0; i < 4; i++) words[i] = _mm_loadu_si128((const __m128i *)(const void *)(from + 16 * i));
        for (int i = 0; i < 4; i++) _mm_store_si128((__m128i *)(void *)(to + 16 * i), words[i]);
    }
    memcpy(to, from, nbytes);
}

static inline void copy_plain(char *restrict to, const char *restrict from, size_t nbytes) {
    if (is_slow_by_rep(to, from, nbytes)) copy_by_vectors(to, from, nbytes);
    else memcpy(to, from, nbytes);
}

/* To memory that the caches have no room for: lines are written without being read before, and no later store overtakes them. */
static inline void stream_plain(char *restrict to, const char *restrict from, size_t nbytes) {
    size_t done = -(uintptr_t)to & 63;
    done = done < nbytes ? done : nbytes;
    memcpy(to, from, done);
    for (; done + 64 <= nbytes; done += 64)
        for (int i = 0; i < 64; i += 16)
            _mm_stream_si128((__m128i *)(void *)(to + done + i), _mm_loadu_si128((const __m128i *)(const void *)(from + done + i)));
    _mm_sfence();
    memcpy(to + done, from + done, nbytes - done);
}
#else
static inline void copy_plain(char *restrict to, const char *restrict from, size_t nbytes) {
    memcpy(to, from, nbytes);
}

static inline void stream_plain(char *restrict to, const char *restrict from, size_t nbytes) {
    memcpy(to, from, nbytes);
}
#endif

#endif
