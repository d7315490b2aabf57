/* Checked execution. */

#include "state.h"

int open_checks(Launch *launch) { (void)launch; return 1; }
void close_checks(Launch *launch) { (void)launch; }
int open_block_checks(Block *block) { (void)block; return 1; }
void close_block_checks(Block *block) { (void)block; }
void begin_block_checks(Block *block) { (void)block; }
void begin_thread_checks(Thread *thread) { (void)thread; }
void end_thread_checks(Thread *thread) { (void)thread; }
void order_barrier(Block *block, Barrier *barrier, Thread *last) { (void)block, (void)barrier, (void)last; }
void note_arrival(Barrier *barrier, Thread *thread) { (void)barrier, (void)thread; }
void order_warp(Block *block, const Warp *warp, u32 lanes) { (void)block, (void)warp, (void)lanes; }
void check_fence(xf_thread *t, u32 scope, u32 site) { (void)t, (void)scope, (void)site; }
void check_atomic(xf_thread *t, u64 address, u32 operation, u32 type, const void *first, const void *second, void *old, u32 flags, u32 site) { run_atomic(t, address, operation, type, first, second, old, flags, site); }
char *check_access(xf_thread *t, u64 address, u32 nbytes, u32 flags, u32 site) { (void)nbytes, (void)site; return (char *)(uintptr_t)(flags & XF_SHARED ? address + t->shared : address); }
void check_store(xf_thread *t, u64 address, u32 nbytes, u32 flags, const void *value, u32 site) { memcpy(check_access(t, address, nbytes, flags, site), value, nbytes); }
void begin_local(xf_thread *t, char *memory, u32 nbytes) { (void)t, (void)memory, (void)nbytes; }
void end_local(xf_thread *t, char *memory, u32 nbytes) { (void)t, (void)memory, (void)nbytes; }
