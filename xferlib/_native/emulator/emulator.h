/* What Python gives to a launch, and what it gets back. All pointers belong to the caller and live until xf_run_launch returns. */
#ifndef XF_EMULATOR_H
#define XF_EMULATOR_H

#include "kernel.h"

enum { XF_IN_ORDER, XF_REVERSED, XF_RANDOM };                                   /* the order of threads and of blocks */
enum { XF_FIBERS = 1, XF_COOPERATIVE = 2, XF_CHECKED = 4, XF_TRACK = 8 };       /* flags of a launch */
enum { XF_REGION_READ_ONLY = 1, XF_REGION_CONST = 2, XF_REGION_UNWRITTEN = 4 }; /* flags of a region */

/* Memory that the kernel may touch: an argument, a variable of the module. */
typedef struct {
    u64 begin, nbytes;
    u32 flags;
    u32 item_nbytes;  /* of its elements, for indices in reports */
    u64 *read;        /* XF_TRACK: one bit for each byte of it that was read, or NULL */
    u64 *written;     /* the same of writes */
    u64 *initialised; /* XF_REGION_UNWRITTEN: one bit for each byte that has been written before; updated by the run */
} xf_region;

/* A variable in the shared window; between them are redzones. */
typedef struct {
    u32 offset, nbytes;
} xf_variable;

enum {
    XF_OK, XF_OUT_OF_BOUNDS, XF_MISALIGNED, XF_UNINITIALISED, XF_RACE, XF_DIVERGENT_BARRIER, XF_DEADLOCK,
    XF_READ_ONLY, XF_ENDLESS, XF_STACK_OVERFLOW, XF_SEGMENT_FAULT, XF_ASSERT, XF_TRAP, XF_UNSUPPORTED, XF_STOPPED,
    XF_BAD_MASK, XF_OUT_OF_MEMORY, XF_BAD_FREE
};

typedef struct {
    u32 tid[3], ctaid[3];
    u32 site;
    u32 flags; /* of the access */
} xf_location;

typedef struct {
    u32 kind;
    s32 region;    /* the number of the region; -1 in shared memory, -2 in local memory, -3 nowhere known */
    s64 offset;    /* in bytes from the region's begin, which may be negative or beyond the end; in shared: the offset */
    u32 nbytes;
    s32 variable;  /* in shared memory: the variable that is nearest */
    xf_location here, other; /* other: of a race or a barrier; its site is 0xffffffff where there is none */
    char text[512];       /* an assertion's message, file and line; else empty */
} xf_report;

typedef struct {
    void (*entry)(xf_thread *, const char *);
    const char *params;
    u64 module; /* the address of the module's variables, which each thread gets */
    u32 grid[3], block[3];
    u32 static_nbytes;  /* shared memory with its redzones, from XF_SHARED_BEGIN on; dynamic memory follows, aligned */
    u32 dynamic_nbytes;
    u32 flags;
    u32 workers;        /* OS threads; 1 where a schedule must be repeatable */
    u32 schedule;
    u32 stack_nbytes;   /* of a fiber */
    u64 seed;
    u64 most_ticks;     /* backward branches of one thread before it counts as endless, a turn that it gives away in
                           polling as 64; 0: no limit */
    const xf_region *regions;
    const xf_variable *variables;
    const u32 *places;  /* of each site in the source, numbered: one for copies of one barrier; 0 where unknown */
    u32 region_count, variable_count, place_count;
    u32 unused;
    volatile s32 *stop; /* not 0: end as soon as possible, with XF_STOPPED */
    void (*print)(const char *text, u64 nbytes); /* output of printf, whole lines of a thread together */
} xf_launch;

/* Run all blocks. Returns 0, or the kind of the fault that ended the launch, described in *report. The GIL is not held. */
__attribute__((visibility("default"))) u32 xf_run_launch(const xf_launch *launch, xf_report *report);

#endif
