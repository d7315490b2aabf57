/* Atomic operations of every type: the compiler's lock-free builtins for 16, 32 and 64 bits, a lock for 128.
 *
 * `wide` is the one state of this file: locks for 128-bit values, by address, since not every processor can exchange as
 * many bits at once. Floating-point operations are loops of compare-and-swap, so that they round as one operation.
 */

#include "state.h"

enum { LOCKS = 64 };

static pthread_mutex_t wide[LOCKS] = {[0 ... LOCKS - 1] = PTHREAD_MUTEX_INITIALIZER};

u32 type_nbytes(u32 type) {
    switch (type) {
    case XF_U16:
    case XF_F16:
    case XF_BF16: return 2;
    case XF_U64:
    case XF_S64:
    case XF_F64: return 8;
    case XF_B128: return 16;
    default: return 4;
    }
}

/* --- one value */

static u64 combine(u32 operation, u64 old, u64 first, u64 second, int is_less) {
    switch (operation) {
    case XF_ADD: return old + first;
    case XF_MIN: return is_less ? first : old;
    case XF_MAX: return is_less ? old : first;
    case XF_INC: return old >= first ? 0 : old + 1;
    case XF_DEC: return old == 0 || old > first ? first : old - 1;
    case XF_AND: return old & first;
    case XF_OR: return old | first;
    case XF_XOR: return old ^ first;
    case XF_EXCH: return first;
    default: return old == first ? second : old; /* XF_CAS */
    }
}

static f32 flush(f32 x) {
    return x < 1.17549435e-38f && x > -1.17549435e-38f ? __builtin_copysignf(0.0f, x) : x;
}

static f32 as_f32(u32 bits) {
    f32 x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static u32 bits_of_f32(f32 x) {
    u32 bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static f32 from_half(u32 half) {
    u32 sign = (half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 1023;
    if (exponent == 31) return as_f32(sign | 0x7f800000 | fraction << 13);
    if (exponent) return as_f32(sign | (exponent + 112) << 23 | fraction << 13);
    f32 x = (f32)fraction * 0x1p-24f;
    return as_f32(sign | bits_of_f32(x));
}

/* To nearest, ties to even. */
static u32 to_half(f32 x) {
    u32 bits = bits_of_f32(x), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000) return 0x7fff;
    if (rest >= 0x477ff000) return sign | 0x7c00;
    if (rest < 0x38800000) { /* subnormal: the sum has its units where a half has */
        f32 sum = as_f32(rest) + 0.5f;
        return sign | (bits_of_f32(sum) - 0x3f000000);
    }
    rest += 0xfff + (rest >> 13 & 1);
    return sign | ((rest - 0x38000000) >> 13);
}

static u32 to_bfloat(f32 x) {
    u32 bits = bits_of_f32(x);
    if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

static f32 combine_floats(u32 operation, f32 old, f32 first) {
    if (operation == XF_ADD) return old + first;
    if (old != old) return first;
    if (first != first) return old;
    /* -0 is less than 0. */
    int is_less = first < old || (first == old && __builtin_signbit(first) > __builtin_signbit(old));
    return operation == XF_MIN ? (is_less ? first : old) : is_less ? old : first;
}

static f64 combine_doubles(u32 operation, f64 old, f64 first) {
    if (operation == XF_ADD) return old + first;
    if (old != old) return first;
    if (first != first) return old;
    int is_less = first < old || (first == old && __builtin_signbit(first) > __builtin_signbit(old));
    return operation == XF_MIN ? (is_less ? first : old) : is_less ? old : first;
}

static u32 combine_small(u32 operation, u32 type, u32 old, u32 first) {
    if (type == XF_F16) return to_half(combine_floats(operation, from_half(old), from_half(first)));
    return to_bfloat(combine_floats(operation, as_f32(old << 16), as_f32(first << 16)));
}

static int has_number_operation(u32 operation) {
    return operation == XF_ADD || operation == XF_MIN || operation == XF_MAX;
}

static u64 next_value(u32 operation, u32 type, u64 old, u64 first, u64 second, int is_shared) {
    if (has_number_operation(operation)) switch (type) {
        case XF_S32: return combine(operation, old, first, second, (s32)first < (s32)old);
        case XF_S64: return combine(operation, old, first, second, (s64)first < (s64)old);
        case XF_F32: {
            f32 x = as_f32((u32)old), y = as_f32((u32)first);
            /* PTX ISA, atom: an addition in global memory flushes subnormal numbers, in shared memory it does not. */
            if (operation == XF_ADD && !is_shared) return bits_of_f32(flush(flush(x) + flush(y)));
            return bits_of_f32(combine_floats(operation, x, y));
        }
        case XF_F64: {
            f64 x, y;
            memcpy(&x, &old, sizeof x);
            memcpy(&y, &first, sizeof y);
            x = combine_doubles(operation, x, y);
            memcpy(&old, &x, sizeof x);
            return old;
        }
        case XF_F16:
        case XF_BF16: return combine_small(operation, type, (u32)old & 0xffff, (u32)first & 0xffff);
        case XF_F16X2:
        case XF_BF16X2: {
            u32 small = type == XF_F16X2 ? XF_F16 : XF_BF16;
            u32 low = combine_small(operation, small, (u32)old & 0xffff, (u32)first & 0xffff);
            return low | combine_small(operation, small, (u32)(old >> 16) & 0xffff, (u32)(first >> 16) & 0xffff) << 16;
        }
        default: break;
        }
    return combine(operation, old, first, second, first < old);
}

/* --- memory */

static int change_wide(char *memory, u32 operation, const void *first, const void *second, void *old) {
    pthread_mutex_t *lock = &wide[(uintptr_t)memory / 16 % LOCKS];
    char before[16];
    pthread_mutex_lock(lock);
    memcpy(before, memory, 16);
    const void *value = operation == XF_EXCH ? first : memcmp(before, first, 16) == 0 ? second : before;
    int has_changed = memcmp(before, value, 16) != 0;
    memcpy(memory, value, 16);
    pthread_mutex_unlock(lock);
    if (old) memcpy(old, before, 16);
    return has_changed;
}

/* A loop of compare-and-swap; the fast operations of the processor where there is one. */
#define DEFINE_CHANGE(NAME, TYPE)                                                                                  \
    static int NAME(TYPE *memory, u32 operation, u32 type, TYPE first, TYPE second, TYPE *before, int is_shared) { \
        if (type != XF_F32 && type != XF_F64 && operation == XF_ADD && type != XF_F16 && type != XF_BF16 &&        \
            type != XF_F16X2 && type != XF_BF16X2) {                                                               \
            *before = __atomic_fetch_add(memory, first, __ATOMIC_SEQ_CST);                                         \
            return first != 0;                                                                                     \
        }                                                                                                          \
        TYPE old = __atomic_load_n(memory, __ATOMIC_SEQ_CST), value;                                               \
        do value = (TYPE)next_value(operation, type, old, first, second, is_shared);                               \
        while (!__atomic_compare_exchange_n(memory, &old, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));          \
        *before = old;                                                                                             \
        return value != old;                                                                                       \
    }

DEFINE_CHANGE(change_2, u16)
DEFINE_CHANGE(change_4, u32)
DEFINE_CHANGE(change_8, u64)

#define CHANGE(FUNCTION, TYPE)                                                                         \
    do {                                                                                               \
        TYPE one = 0, two = 0, before;                                                                 \
        if (first) memcpy(&one, first, sizeof one);                                                    \
        if (second) memcpy(&two, second, sizeof two);                                                  \
        has_changed = FUNCTION((TYPE *)(void *)memory, operation, type, one, two, &before, is_shared); \
        if (old) memcpy(old, &before, sizeof before);                                                  \
    } while (0)

int change_memory(
    char *memory, u32 operation, u32 type, const void *first, const void *second, void *old, int is_shared) {
    int has_changed = 0;
    switch (type_nbytes(type)) {
    case 2: CHANGE(change_2, u16); break;
    case 4: CHANGE(change_4, u32); break;
    case 8: CHANGE(change_8, u64); break;
    default: has_changed = change_wide(memory, operation, first, second, old);
    }
    return has_changed;
}

void run_atomic(xf_thread *t,
                u64 address,
                u32 operation,
                u32 type,
                const void *first,
                const void *second,
                void *old,
                u32 flags,
                u32 site) {
    Thread *thread = as_thread(t);
    const Launch *launch = thread->worker->launch;
    u64 offset = address - (flags & XF_SHARED ? 0 : t->shared);
    int is_shared = (flags & XF_SHARED) != 0 || offset < launch->shared_nbytes;
    if (flags & XF_SHARED) address += t->shared;
    poll(thread, site);
    if (change_memory((char *)(uintptr_t)address, operation, type, first, second, old, is_shared))
        note_progress(thread->worker);
}
