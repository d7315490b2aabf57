"""The policy of transfers in numbers: what each decides, and what was measured.

Other files have multiples of these. C has the few that its own call for a tree needs (`trees.c`); a test holds that
those of the same names are equal.

Plain bytes in C order take the first way that fits:

| bytes | way |
|---|---|
| 1 MiB | a blocking copy on an idle stream is the driver's own; over 384 KiB threads of C in a loop |
| any, of the pinned pool | the same |
| 64 KiB | one thread, through its slab, in one copy |
| any | several threads of C, through the ring; without them the driver, or on the simulator one thread and its slab |

Any other layout, and conversions: up to 1 MiB one thread gathers or converts into its slab, for one copy.

``_MOST`` is the largest size that takes a way, ``_FROM`` the smallest. Sizes are in bytes. The last line of each says
where its figure was measured: on the host of an H100, of an H200, or on two cores without a GPU. What was measured on
one host alone is known to hold there; of "none" no measurement of its own is known. Sizes of buffers and numbers of
chunks follow from these, where they are used.
"""

from __future__ import annotations

# --- classes of size

SMALL_NBYTES = 64 << 10
"""Up to here one thread and the slab are fastest, of an asynchronous transfer too (H100's host, two cores).
Hosts: H100, two cores."""
MEDIUM_NBYTES = 2 << 20
"""Most bytes of a slab's segment, and of a copy that is staged as a whole: to begin several blocks takes Python 200
us on an H200's host, and 35 on an H100's.
Hosts: H100, H200."""
LARGE_NBYTES = 8 << 20
"""From here on it pays to begin ahead, to cut, and to recycle: an open transfer takes Python 35 us more, and threads
20 to 50 us to wake. A batch of 6 MiB that is staged as a whole takes 176 us and 378 the other way, of 8 MiB 213 and
377, of 16 MiB 453 and 450 (H200's host). A chunk of a `stream_map` on a CPU that is copied in turn leaves its data in
the caches: 4 MiB take 1.4 of a plain loop's time so, and 2.4 by threads (two cores). A transposed upload that becomes
narrower is sent as it lies: 0.88 of the time, after a pause 0.75 (H100). An item of a loop that is copied into pinned
memory before any of it is sent may have four times as many bytes: 40 of 11.5 MiB of a list take 243 us each so and 336
in blocks, of 21 MiB 429 and 536 (H200).
Hosts: H100, H200, two cores."""

# --- which way one array goes

DRIVER_MOST = 1 << 20
"""Up to here one thread copies, gathers or converts as fast as threads that sleep: on an H100's host, after a pause,
plain bytes of 1 MiB take 141 and 142 us, 2 MiB 250 and 183; every second row of 768 KiB 194 and 202, of 2 MiB 603 and
277. To the host 1 to 2 MiB take as long either way (H200).
Hosts: H100, H200."""
LOOPED_FROM = 384 << 10
"""More than this is staged in a loop, as threads spin for it: to an H100 and back 55 and 66 us instead of 81 and 97
for 1 MiB, 37 and 46 instead of 46 and 59 for 512 KiB; rows, cropped and reversed arrays of 512 KiB to an H200 0.7 of
one thread's time, from it 0.86. Less comes back by way of pinned memory of the thread (320 KiB 30 us, 48 by the
driver), and is gathered for an upload in ordinary memory (190 KiB of a transposed array 41 us, 75 in pinned
memory).
Hosts: H100, H200."""
PINNED_QUERY_FROM = 256 << 10
"""From here on the driver is asked whether memory that is not of the pool is pinned: the question takes a
microsecond.
Hosts: none."""
REORDERED_FROM = 48 << 10
"""More elements that are dense in another order of axes are sent as they lie, and put in C order on the device;
likewise on the way back. One core of an H200's host gathers an element in 0.2 to 0.8 ns, a kernel that C launches
takes 10 us: 128 KiB of float16 take 32 us gathered and 31 as they lie, after a pause 146 and 62; 384 KiB 99 and 52,
249 and 91.
Hosts: H200."""
CAST_TO_QUARTER_FROM = 128 << 10
"""From here on a transfer that waits leaves a conversion to a kernel, if a quarter of the bytes or less crosses the
link then: bytes that become 256 KiB of float32 take 21 us so and 41 by the host, after a pause 70 and 102 (H200).
Likewise to half of the bytes from integers of 64 bits, which one core converts at 15 GB/s. Bytes of the wider
dtype.
Hosts: H200."""
CAST_FROM = 384 << 10
"""Likewise for any conversion that saves bytes: float64 down to 200 KiB of float32 in pinned memory take 25 us and 38
by the host; 128 KiB as long, and after a pause half as long again (H200).
Hosts: H200."""

# --- many arrays as one

TOGETHER_FROM = 256 << 10
"""Leaves of a tree of up to this size share an allocation. From this size in all on threads of C collect them, and the
link carries those that come in a copy of their own; a kernel writes fewer bytes to pinned memory by itself, and up to
`LARGE_NBYTES` of a form that is known.
Hosts: none."""
FEW_LEAVES = 8
"""Fewer arrays are copied one after the other, if all but `FEW_LARGE_LEAVES` are small: on an H100's host one takes
some 10 us, and to begin a tree takes Python 80. Up to this number are copied from the device by a copy each: a kernel
that gathers them takes 14 us for 10 leaves of 4 KiB and 21 for 100, copies 23 and 177, and 12 for four.
Hosts: H100."""
FEW_LARGE_LEAVES = 3
"""Most arrays of such a tree that are not small: on an H100's host a batch of 2 MiB and its labels takes 118 us to the
device so and 224 as a tree, after a pause 302 and 674, to the host 137 and 332, 359 and 831; of 64 MiB 1697 and 1960.
Four take as long either way, seven of 3 MiB a fifth more so.
Hosts: H100."""

# --- the ring, and how staging in C is cut

CHUNK_NBYTES = 8 << 20
"""Each copy costs the link some microseconds: on an H200 pieces of 4 MiB get 53.6 GB/s of 55.5, of 8 MiB 54.6.
Hosts: H200."""
LENT_CHUNKS = 8
"""Most chunks of one transfer: more fall out of the processor's cache before the device has read them. Three quarters
of them while the other direction is at work: 5, 6 and 8 chunks carry 41, 43 and 38 GB/s each way (H200's host).
Hosts: H200."""
HELPER_NBYTES = 128 << 10
"""Bytes for each thread that helps, if it spins; four times as many if it sleeps, and takes 20 to 200 us to come (a
virtual machine with 16 cores). With 512 KiB 4 MiB take 351 us to an H200 after a pause, and so 271.
Hosts: H200."""
PIECE_MOST = 1 << 20
"""A thread copies as fast from here on; more would leave the threads with unequal shares at the end.
Hosts: none."""
PIECE_LEAST = 64 << 10
"""A block is shared by fewer threads rather than cut into smaller pieces; a buffer of a loop is cut into pieces of this
size (`fill.c`). Those of bytes that go to the device as
they lie are twice as large: rows of 1 MiB would take 10 % more (H100's host).
Hosts: H100."""
FIRST_BLOCK_NBYTES = 512 << 10
"""The size of the first block, so that the link starts early; each later one is twice as large, up to the largest.
Hosts: none."""
LARGEST_BLOCK_PARTS = 4
"""The largest block is a transfer's size divided by this, so that filling and sending overlap.
Hosts: none."""
LONG_FROM = 32 << 20
"""A long transfer. Helpers for less come to free cores only, but for one, where there are cores enough: after a loop of
torch's on all of them the first 7 MiB took 4.8 ms on an H200's host, as one helper waited for a core, and the driver
takes 0.7. As many bytes that go up while others come down fill chunks through the processor's caches: 256 MiB at a time
cross at 43 GB/s each way so and at 38 past the caches, 64 MiB at 30 and 28; with four cores at 19 and 16, with two at
8 either way. Eight times as many do so alone: 512 MiB go up at 50 GB/s and 46 with 16 cores, at 34 and 29 with four,
128 MiB at 42 and 41, at 37 and 41 with twelve (H200's host).
Hosts: H200."""
SPIN_NS = 300_000
"""How long a helper looks for the next copy of a loop before it sleeps, where a core is free for it.
Hosts: none."""

# --- copies between host arrays, and batches of a loop

HOST_HELPER_NBYTES = 256 << 10
"""Bytes for each thread that helps, if it spins; sixteen times as many if it sleeps, and takes some 20 us to come. On
two cores 384 KiB take 7.0 us by two threads and 8.1 to 9.0 by one, 1 MiB 15 and 23, 4 MiB after a pause 99 and 154.
Hosts: two cores."""
DIRECT_MOST = 1 << 20
"""Up to here copying an array takes less time than ordering two streams by events and waking threads: on an H200 a
loop with eight kernels takes 119 us for each batch of 256 KiB and 180 for 1 MiB, and 140 and 184 by way of another
stream; with one kernel 44, 97, 59 and 117. Of 2 MiB it takes 195 and 168; and 81 and 146 where threads fill pinned
buffers of the loop ahead, so four times as many bytes go this way then. Items of a generator of up to as many are
copied by its consumer, unless reading takes long; up to 32 times as many where threads help: 40 of 7 MiB take 181 us
each so and 223 by a thread, of 21 MiB 466 and 492. Up to four times as many are filled past the caches: of a list 3
MiB take 85 us each so and 115 through them, of 7 MiB 180 and 155. Pinned arrays of a list take another stream from
here on: C sends them, so that 1.0 MiB with one kernel take 24 us each and 33 on the consumer's, 2.0 MiB with three 42
and 56, 3.6 MiB with five 74 and 95; 1.1 MiB with eight, whose calls take longer than the device, 110 and 106. Leaves
of a tree are packed into one copy by one thread, of any size together, if none has more bytes (11 leaves of 740 KB
took 359 us to an H200 by threads, and 174 packed).
Hosts: H200."""
THREAD_FROM_NS = 200_000
"""How long it takes to read and to copy an item of a generator from which on a thread does it beside the consumer's
work, if that takes as long: a thread costs 60 to 90 us for each item, and 50 to 100 once. Less than 0: from the first
item on.
Hosts: H200."""
