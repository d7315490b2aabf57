/* What Python gives to a launch, and what it gets back. All pointers belong to the caller and live until xf_run_launch returns. */
#ifndef XF_EMULATOR_H
#define XF_EMULATOR_H

#include "kernel.h"

enum { XF_IN_ORDER, XF_REVERSED, XF_RANDOM };                                   /* the order of threads and of blocks */
enum { XF_FIBERS = 1, XF_COOPERATIVE = 2, XF_CHECKED = 4, XF_TRACK = 8 };       /* flags of a launch */
enum { XF_REGION_READ_ONLY = 1, XF_REGION_CONST = 2, XF_REGION_UNWRITTEN = 4 }; /* flags of a region */

/* Memory that the kernel may touch: an argument, a variable of the module. */
typedef struct {
    u64 begin, nbytes; /* as the kernel sees it */
    u64 memory;        /* checked or tracked: the host's address of its first byte; 0: that is `begin` */
    u32 flags;
    u32 item_nbytes;  /* of its elements, for indices in reports */
    u64 *read;        /* XF_TRACK: what was read, or NULL. The third word and those behind it have one bit for each byte;
                         the first has the complement of the first byte read, the second the end of the last; else 0 */
    u64 *written;     /* the same of writes */
    u64 *initialised; /* XF_REGION_UNWRITTEN: one bit for each byte that has been written before; updated by the run */
} xf_region;

/* XF_TRACK: the bytes of a region that a site has read or written. All 0 before the launch. */
typedef struct {
    u64 region;         /* its number and 1; all ones: of several regions */
    u64 not_first, end; /* the complement of the first byte; the end of the last */
} xf_reach;

/* A variable in the shared window; between them are redzones. */
typedef struct {
    u32 offset, nbytes;
} xf_variable;

enum {
    XF_OK, XF_OUT_OF_BOUNDS, XF_MISALIGNED, XF_UNINITIALISED, XF_RACE, XF_DIVERGENT_BARRIER, XF_DEADLOCK,
    XF_READ_ONLY, XF_ENDLESS, XF_STACK_OVERFLOW, XF_SEGMENT_FAULT, XF_ASSERT, XF_TRAP, XF_UNSUPPORTED, XF_STOPPED,
    XF_BAD_MASK, XF_OUT_OF_MEMORY, XF_BAD_FREE, XF_OVERFLOW
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
    xf_reach *reaches;  /* XF_TRACK: one for each site, or NULL */
    volatile s32 *stop; /* not 0: end as soon as possible, with XF_STOPPED */
    u64 context;        /* what the functions below are called with */
    void (*print)(u64 context, const char *text, u64 nbytes); /* output of printf, whole lines of a thread together */
    /* Called by the thread that runs the launch, now and then, at the latest after some hundredths of a second: not 0 sets
       *stop. Python handles signals nowhere else. NULL: never. */
    u32 (*ask)(u64 context);
    /* Checked or tracked: an address that is in no region yet. Returns 1 and a further region, which has the next number,
       or 0 where there is no memory. NULL: there is none but the regions. */
    u32 (*find)(u64 context, u64 address, xf_region *found);
} xf_launch;

/* Run all blocks. Returns 0, or the kind of the fault that ended the launch, described in *report. The GIL is not held. */
__attribute__((visibility("default"))) u32 xf_run_launch(const xf_launch *launch, xf_report *report);

#endif
