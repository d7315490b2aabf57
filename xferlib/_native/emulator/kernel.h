/* What a translated kernel sees of the runtime, and the runtime of a kernel.
 *
 * A kernel of PTX becomes one C function `void entry(xf_thread *t, const char *params)`, called once for each thread of
 * a block. This file stands before each translated kernel and includes nothing, so that libtcc compiles it as well;
 * what a kernel needs beyond plain C (barriers, shuffles, atomics, checks, rounding modes) it calls through the two
 * tables `t->run` and `t->math`: a compiled kernel has no unresolved symbol, and the runtime needs no compiler.
 *
 * Addresses: global, constant, local and generic addresses are the host's. An address in the shared window is an offset
 * from `t->shared`, as 32-bit PTX registers hold such addresses: `cvta.shared` adds `t->shared`, `cvta.to.shared`
 * subtracts it. Offsets begin at XF_SHARED_BEGIN, so that offset 0, a null pointer, is outside.
 */
#ifndef XF_KERNEL_H
#define XF_KERNEL_H

typedef signed char s8;
typedef unsigned char u8;
typedef short s16;
typedef unsigned short u16;
typedef int s32;
typedef unsigned int u32;
typedef long long s64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;

enum { XF_SHARED_BEGIN = 1024, XF_JOINS = 32, XF_PASSED = 8 };

/* What an access is: flags of `access`, `store` and `atomic`. */
enum {
    XF_READ = 1,
    XF_WRITE = 2,
    XF_STRONG = 4,   /* volatile, relaxed or atomic: does not race with others of its kind */
    XF_ACQUIRE = 8,
    XF_RELEASE = 16,
    XF_GLOBAL = 32,  /* the state space that the instruction names; none of the four is a generic address */
    XF_SHARED = 64,  /* the address is an offset from t->shared */
    XF_LOCAL = 128,
    XF_CONST = 256,
    XF_NARROW = 512,  /* an atomic for the threads of the block alone */
    XF_DATA = 1024,   /* a volatile write, or a volatile read of more than a flag: its value is computed with */
    XF_GUARDED = 2048, /* a plain read that decides only whether its thread writes there, or that write */
    XF_NUMBER = 4096, /* a read of a number that is computed with: it has no padding */
    XF_COPY = 8192    /* a read of what may have received no value: `lacks` tells, and its use is checked */
};

enum { XF_SHFL_UP, XF_SHFL_DOWN, XF_SHFL_BFLY, XF_SHFL_IDX };
enum { XF_VOTE_ALL, XF_VOTE_ANY, XF_VOTE_UNI, XF_VOTE_BALLOT };
enum { XF_MATCH_ANY, XF_MATCH_ALL };
enum { XF_BAR_SYNC, XF_BAR_ARRIVE, XF_BAR_POPC, XF_BAR_AND, XF_BAR_OR, XF_BAR_UNALIGNED = 8 };
/* XF_BAR_UNALIGNED, added to a kind: barrier.* without .aligned, where threads may come from different places. */
enum { XF_ADD, XF_MIN, XF_MAX, XF_INC, XF_DEC, XF_AND, XF_OR, XF_XOR, XF_EXCH, XF_CAS };
enum { XF_U16, XF_U32, XF_U64, XF_S32, XF_S64, XF_F16, XF_F16X2, XF_BF16, XF_BF16X2, XF_F32, XF_F64, XF_B128 };
enum { XF_FENCE_BLOCK, XF_FENCE_DEVICE, XF_FENCE_SYSTEM };

/* Checked execution: why a register has no value. 0: it has one; XF_UNSET: nothing has set it; else it is of a shuffle,
 * from a lane that took no part: the lane in the lower bits, and above them the shuffle's site, from 1 on. */
enum { XF_UNSET = 1, XF_DOUBT_LANE = 31, XF_DOUBT_SITE = 5 };

typedef struct xf_thread xf_thread;
typedef struct xf_run xf_run;
typedef struct xf_math xf_math;

struct xf_thread {
    u32 tid[3], ntid[3], ctaid[3], nctaid[3];
    u32 lane, warp;
    u64 shared;        /* the host's address of the block's shared window, such that offset o is at shared + o */
    u64 module;        /* the host's address of the block of memory that holds the module's variables */
    u64 stack_begin, stack_end; /* of the stack that this thread runs on: what isspacep.local compares with */
    u32 dynamic_begin; /* the offset at which dynamic shared memory begins */
    u32 dynamic_nbytes;
    s32 budget;        /* counted down at each backward branch; at 0 the kernel calls run->tick, which refills it */
    u32 bypass;        /* while it waits at a barrier in a branch: its number in `joins`, from 1 on */
    u32 doubt;         /* checked execution: that of the value which a shuffle takes, and afterwards of what it gives */
    u32 doubts[XF_PASSED]; /* of a function's first arguments at its begin, and of what it returns at its end */
    const xf_run *run;
    const xf_math *math;
    u32 joins[XF_JOINS]; /* checked execution: how often the thread has passed the end of the branch of each barrier */
    /* the runtime's own fields follow */
};

/* `site` in all of these numbers the place in the program: the translator's table gives its line and instruction.
 * Functions that find a fault do not return: they end the launch. */
struct xf_run {
    /* Barriers: id 0..15; threads is 0 for all threads of the block. The result is that of popc, and, or; else 0. */
    u32 (*barrier)(xf_thread *t, u32 kind, u32 id, u32 threads, u32 value, u32 site);
    void (*warp_sync)(xf_thread *t, u32 mask, u32 site);
    /* As shfl.sync: b is the lane or offset, c the clamp and segment mask; *in_range is its predicate. */
    u32 (*shuffle)(xf_thread *t, u32 mode, u32 value, u32 b, u32 c, u32 mask, u32 *in_range, u32 site);
    u32 (*vote)(xf_thread *t, u32 mode, u32 predicate, u32 mask, u32 site);
    u32 (*match)(xf_thread *t, u32 mode, u64 value, u32 mask, u32 *all_equal, u32 site);
    u32 (*redux)(xf_thread *t, u32 operation, u32 type, u32 value, u32 mask, u32 site);
    u32 (*active_mask)(xf_thread *t, u32 site);
    void (*fence)(xf_thread *t, u32 scope, u32 site);
    /* Atomics of every width: *old receives the value before; operands by their bits; second is that of cas. */
    void (*atomic)(xf_thread *t, u64 address, u32 operation, u32 type, const void *first, const void *second, void *old,
                   u32 flags, u32 site);
    /* Checked execution: where the access may be made, and whether. Returns the host's address. */
    char *(*access)(xf_thread *t, u64 address, u32 nbytes, u32 flags, u32 site);
    void (*store)(xf_thread *t, u64 address, u32 nbytes, u32 flags, const void *value, u32 site);
    /* Checked execution: the memory of a function's local variables, which begins and ends to be valid. */
    void (*local_begin)(xf_thread *t, char *memory, u32 nbytes);
    void (*local_end)(xf_thread *t, char *memory, u32 nbytes);
    /* Unchecked execution: called at volatile, relaxed and acquiring loads, so that spin loops let others run. */
    void (*yield)(xf_thread *t, u32 site);
    void (*tick)(xf_thread *t, u32 site);
    u32 (*printf)(xf_thread *t, const char *format, const char *arguments, u32 site);
    void (*assert_fail)(xf_thread *t, const char *message, const char *file, u32 line, const char *function, u32 site);
    void (*trap)(xf_thread *t, u32 site);
    u64 (*allocate)(xf_thread *t, u64 nbytes, u32 site);
    void (*release)(xf_thread *t, u64 address, u32 site);
    u64 (*clock)(xf_thread *t);        /* cycles; grows with each call */
    u64 (*global_timer)(xf_thread *t); /* nanoseconds */
    u64 (*environment)(xf_thread *t, u32 number); /* %envreg<number>: 1 and 2 address the grid's barrier workspace */
    void (*unsupported)(xf_thread *t, u32 site);
    /* Checked execution of registers: one without a value is used, or stored, which only shared and local memory may
       receive; the doubt of what memory holds; an index does not fit in 32 bits. */
    void (*unset)(xf_thread *t, u32 doubt, u32 site);
    void (*forget)(xf_thread *t, u64 address, u32 nbytes, u32 flags, u32 doubt, u32 site);
    u32 (*lacks)(xf_thread *t, u64 address, u32 nbytes, u32 flags);
    void (*overflow)(xf_thread *t, s64 value, u32 site);
};

#endif
