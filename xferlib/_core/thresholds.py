"""Sizes and counts at which transfers change their ways: what each decides, and what was measured.

Plain bytes in C order take the first way that fits:

| bytes | way |
|---|---|
| 1 MiB | a blocking upload on an idle stream is the driver's own copy; a download up to 2 MiB; less in a loop |
| 24 MiB | the same for an upload from the pinned pool, and for both directions where nothing stages in C |
| 64 KiB | one thread, through its slab, in one copy |
| 768 KiB, not plain | gathered by one thread into its slab, for one copy; less in a loop |
| any | several threads of C, through the ring; one thread, through its slab, where C cannot |

Any other layout, and conversions, take the last three.

``_MOST`` is the largest size that takes a way, ``_FROM`` the smallest. Sizes are in bytes. Where a size has no figure
there is no measurement on record. ``C_`` is for threads of `staging.c`, ``HOST_`` for copies between host arrays.
"""

from __future__ import annotations

# --- which way one array goes

SMALL_NBYTES = 64 << 10
"""Up to here one thread and the slab are fastest."""
MEDIUM_NBYTES = 2 << 20
"""Most bytes of a slab's segment, and of a copy that is staged as a whole."""
SMALL_SEGMENT_NBYTES = 256 << 10
"""Up to here a copy uses the thread's slab of small segments, up to `MEDIUM_NBYTES` the one of large segments."""
DRIVER_MOST_UP = 1 << 20
"""Up to here the driver's own copy of pageable memory takes as long after a pause as threads that sleep: on an H100's
host 141 and 142 us for 1 MiB, 250 and 183 for 2 MiB."""
DRIVER_MOST_DOWN = 2 << 20
"""The same to the host: 186 and 238 us for 2 MiB."""
LOOPED_FROM = 384 << 10
"""From here on a transfer that follows another one within a millisecond is staged, as threads spin for it: to an H100
and back 55 and 66 us instead of 81 and 97 for 1 MiB, 37 and 46 instead of 46 and 59 for 512 KiB."""
LOOPED_GATHERED_FROM = 256 << 10
"""The same of an upload that is gathered or converted. Of 2,000 random cases on an H200 half of the uploads of 640 KiB
and more take at most 0.9 of one thread's time so; rows, cropped and reversed arrays of 512 KiB 0.7, of 256 KiB 0.92.
Bytes on the side where they are more."""
LOOPED_SCATTERED_FROM = 512 << 10
"""The same of a download, in bytes on the device: 0.86 of one thread's time there, at 256 KiB a twentieth more."""
THROUGH_FROM = 32 << 10
"""From here on a synchronous copy to memory that is not pinned passes through pinned memory of the thread: 14 instead
of 17 us for 64 KiB, 24 instead of 27 for 192 KiB. To the device the driver is faster by itself: 22 instead of 27 us
for 207 KiB."""
THROUGH_MOST = 384 << 10
"""Up to here it is faster in a loop: 320 KiB take 30 us so and 48 by the driver. After a pause the driver is: 256 KiB
take 71 us and 58, which is half of what CuPy and torch take."""
DRIVER_MOST_OF_ALL = 24 << 20
"""The same in both directions where the threads stage in Python; and for an upload from the pinned pool."""
PINNED_QUERY_FROM = 256 << 10
"""From here on the driver is asked whether memory that is not of the pool is pinned."""
GATHERED_MOST = 768 << 10
"""Up to here one thread gathers or converts an array into its slab, for one copy; bytes on the side where they are
more. On an H100's host every second row of 768 KiB takes 105 us so and 124 by several threads, after a pause 194
and 202; of 2 MiB 360 and 133, after a pause 603 and 277."""
SCRATCH_NBYTES = 4 << 20
"""Pinned memory of each thread for these two ways. Arrays from a device come one behind the other in it, more than a
core's caches hold: the device writes slowly to what a core has just read. On an H200's host 64, 128 and 192 KiB take
12.8, 19.0 and 24.0 us by way of the same bytes each time, and 11.7, 15.8 and 19.5 by way of 32 times as many."""
REORDERED_FROM = 96 << 10
"""From here on dense arrays in another order of axes are sent as they lie, and put in C order on the device; and
likewise on the way back to such an array. One core of an H200's host gathers an element in 0.2 to 0.8 ns, a kernel that
C launches takes 10 us: 128 KiB of float16 take 32 us gathered and 31 as they lie, after a pause 146 and 62; 384 KiB 99
and 52, after a pause 249 and 91."""
REORDERED_ELEMENTS_FROM = 32 << 10
"""Fewer elements are gathered in less time than that: 16,000 of 8 bytes, 126 KiB, take CuPy, which does so, 27 us, and
took 31 as they lie."""
REORDERED_NARROWED_FROM = 4 << 20
"""The same of an upload that becomes narrower, though twice the bytes cross the link so: of 17 random cases on an H100
the median takes 0.88 of the time, after a pause 0.75; of 2 MiB and less many take longer. Bytes on the host."""
CAST_TO_QUARTER_FROM = 128 << 10
"""From here on a transfer that waits leaves a conversion to a kernel, which C launches, if a quarter of the bytes or
less crosses the link then: on an H200's host bytes that become 256 KiB of float32 take 21 us so and 41 by the host,
after a pause 70 and 102. Likewise to half of the bytes from integers of 64 bits, which one core converts at 15 GB/s:
down to 100 KiB of float32 22 and 34 us. Bytes of the wider dtype."""
CAST_TO_HALF_FROM = 384 << 10
"""The same if half of them does: float64 down to 200 KiB of float32 in pinned memory take 25 us and 38 by the host; 128
KiB as long, and after a pause half as long again."""
CAST_ON_DEVICE_FROM = 512 << 10
"""The same for a transfer that does not wait, complex numbers and pinned memory: Python launches that kernel."""
HOST_ONE_CALL_MOST = 8 << 20
"""Less than this is copied between two host arrays in one call of C; the results of more lie in recycled memory."""

# --- many arrays as one

PACKED_LEAF_MOST = 256 << 10
"""Leaves of a tree of up to this size share an allocation."""
FEW_LEAVES = 8
"""Fewer arrays are copied one after the other, if all but `FEW_LARGE_LEAVES` are small: on an H100's host one takes
some 10 us, and to begin a tree takes Python 80."""
FEW_LARGE_LEAVES = 3
"""Most arrays of such a tree that are not small: on an H100's host a batch of 2 MiB and its labels takes 118 us to the
device so and 224 as a tree, after a pause 302 and 674, to the host 137 and 332, 359 and 831; of 64 MiB 1697 and 1960.
Four take as long either way, seven of 3 MiB a fifth more so."""
FEW_PINNED_LEAVES = 20
"""Up to this number of arrays go to pinned memory by a copy each, which are enqueued, and waited for once."""
PACKED_UP_FROM = 3
"""Small leaves are packed from this number on: to begin a slab takes as long as the copies of two leaves."""
PACKED_DOWN_FROM = 2
"""The same to the host."""
GATHERED_LEAVES_MOST = 5
"""More leaves are gathered by a kernel: on an H100's host that takes 14 us for 10 leaves of 4 KiB and 21 for 100, from
the launch until they are in pinned memory; copies that are enqueued 23 and 177, and 12 for four of them."""
GROUP_NBYTES = 1 << 20
"""Large leaves are described in groups, the first of this size, each later one twice as large: the link carries one
while Python describes the next."""
TOGETHER_FROM = 2 << 20
"""From here on `prefetch` stages a tree by a transfer that is open while its leaves are described; `to_device`
does from `ONE_CALL_MOST` on."""
ONE_CALL_MOST = 8 << 20
"""Less of an upload is staged by one call of C, when all is described: an open transfer takes Python 35 us more."""
SCATTERED_FROM = 256 << 10
"""From here on threads of C collect packed leaves: less is copied by one thread in the time that it takes to begin."""

# --- the ring

CHUNK_NBYTES = 8 << 20
"""Each copy costs the link some microseconds: on an H200 pieces of 4 MiB get 53.6 GB/s of 55.5, of 8 MiB 54.6."""
RING_CHUNKS = 24
"""The ring holds at most 192 MiB of pinned memory: what two transfers in one direction and one in the other can use."""
LENT_CHUNKS = 8
"""Most chunks of one transfer: more fall out of the processor's cache before the device has read them."""
ONE_WAY_CHUNKS = 16
"""Most chunks of all transfers in one direction together, so that those in the other go on meanwhile."""
SHARED_CHUNKS = 6
"""Chunks of a transfer while the other direction is at work: more fall out of the processor's cache before they are
read, and with fewer the threads wait for the device. On an H200's host 5, 6 and 8 chunks carry 41, 43 and 38 GB/s
each way."""
# --- how staging in C is cut

C_HELPER_NBYTES = 128 << 10
"""Bytes for each thread that helps, if it spins; four times as many if it sleeps, and takes 20 to 200 us to come (a
virtual machine with 16 cores). With 512 KiB 4 MiB take 351 us to an H200 after a pause, and so 271."""
C_HELPERS_OF_MEDIUM = 5
"""Most helper threads of a copy of up to `MEDIUM_NBYTES`: more gain nothing, as there is little to hand out."""
C_GATHER_FROM = 32 << 10
"""From here on the C that gathers and converts is as fast as NumPy, whose call takes two microseconds less."""
C_PIECE_MOST = 1 << 20
"""A thread copies as fast from here on; more would leave the threads with unequal shares at the end."""
C_PIECE_LEAST = 64 << 10
"""A block is shared by fewer threads rather than cut into smaller pieces. Those of bytes that go to the device as
they lie are twice as large: on an H100's host 2 and 8 MiB of a loop take 6 and 4 % less time so; rows of 1 MiB 10 %
more."""
C_FIRST_BLOCK_NBYTES = 512 << 10
"""The size of the first block, so that the link starts early; each later one is twice as large, up to the largest."""
C_LARGEST_BLOCK_PARTS = 4
"""The largest block is a transfer's size divided by this, so that filling and sending overlap."""
C_STREAMED_FROM = 256 << 10
"""From here on chunks are filled past the processor's caches: 1 MiB takes 58 us to an H100 and 82 by way of them,
after a pause 144 and 202; 384 to 512 KiB take an H200 in a loop 0.75 of the time. Less is one copy of one thread."""
C_STREAMED_MOST = 100 << 20
"""Up to here chunks are filled past the processor's caches: to an H200 38.5 MB take 28 GB/s by way of the caches and 39
past them, after a pause 23 and 35; 102 MB 41 and 44, ResNet-50's 161 arrays 33 and 40. More keeps the device so far
behind that it finds the chunks in memory anyway: 256 MB take 48 and 46."""

C_PATIENT_FROM = 32 << 20
"""Helpers for less come to free cores only, but for one, where there are cores enough: after a loop of torch's on all
of them the first 7 MiB took 4.8 ms on an H200's host, as one helper waited for a core, and the driver takes 0.7."""
C_SPIN_NS = 300_000
"""How long a helper looks for the next transfer of a loop before it sleeps, on a host with cores enough."""

# --- copies between host arrays

HOST_HELPER_NBYTES = 256 << 10
"""Bytes for each thread that helps, if it spins; sixteen times as many if it sleeps, and takes some 20 us to come. On
two cores 384 KiB take 7.0 us by two threads and 8.1 to 9.0 by one, 1 MiB 15 and 23, 4 MiB after a pause 99 and 154."""
HOST_SPIN_NS = 300_000
"""How long a helper looks for the next copy of a loop before it sleeps, where a core is free."""

# --- batches of a loop, and trees

DIRECT_MOST = 128 << 10
"""Up to here copying an array takes less time than ordering two streams by events: on an H100 a loop with a kernel
takes 33 us for each batch of 64 KiB and 39 for 128 KiB, and 84 and 69 by way of another stream. If the device has 860
us of work for each, it takes 868 and 859."""
AHEAD_MOST = 8 << 20
"""Contiguous data is staged as a whole up to here, by spinning threads: to begin a transfer of several blocks
takes Python 200 us on an H200's host. A batch of 6 MiB takes 176 us so and 378 the other way, of 8 MiB 213 and 377, of
16 MiB 453 and 450."""
WAITING_MOST = 24 << 20
"""Data that is cut into no more blocks than `LENT_CHUNKS`: see `staging.c`."""
PYTHON_LEAF_FROM = 4 << 20
"""A smaller leaf that no threads of C stage is copied by the thread that begins the tree: waking another of Python's
takes as long."""
IN_TURN_MOST = 8 << 20
"""A larger chunk of a `stream_map` on a CPU is copied by threads of its own, if there are cores. Below, copies leave
the function's data in the caches, and threads beside it win less than their hand-overs take: 4 MiB take 1.4 of a plain
loop's time in turn, and 2.4 with threads (two busy cores)."""
RECYCLED_CHUNK_FROM = 128 << 10
"""From here on such a chunk lies in recycled memory: malloc may return its pages to the kernel in each step."""
