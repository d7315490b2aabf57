"""Sizes and counts at which transfers change their ways: what each decides, and what was measured.

Plain bytes in C order take the first way that fits:

| bytes | way |
|---|---|
| 2 MiB up, 6 MiB down | a blocking copy on an idle stream is the driver's own |
| 24 MiB | the same for an upload from the pinned pool, and for both directions where nothing stages in C |
| 64 KiB | one thread, through its slab |
| 2 MiB up | the same in one copy, with the help of spinning threads |
| 1 MiB, not plain | gathered, scattered or converted by one thread, in one copy |
| any | several threads, through the ring |

``_MOST`` is the largest size that takes a way, ``_FROM`` the smallest. Sizes are in bytes. Where a size has no figure
there is no measurement on record. ``C_`` is for threads of `staging.c`, ``PYTHON_`` for those that need the GIL.
"""

from __future__ import annotations

# --- which way one array goes

SMALL_NBYTES = 64 << 10
"""Up to here one thread and the slab are fastest."""
MEDIUM_NBYTES = 2 << 20
"""Up to here one thread is as fast as several, which must be woken."""
MEDIUM_STRIDED_NBYTES = 1 << 20
"""The same where the array is gathered, scattered or converted: a core of an AMD EPYC takes 20 to 130 us for 1 MiB, as
long as several threads take to come."""
SMALL_SEGMENT_NBYTES = 256 << 10
"""Up to here a copy uses the thread's slab of small segments, up to `MEDIUM_NBYTES` the one of large segments."""
DRIVER_MOST_UP = 2 << 20
"""Up to here the driver's own copy of pageable memory is as fast as several threads, which must be woken."""
DRIVER_MOST_DOWN = 6 << 20
"""The same to the host."""
DRIVER_MOST_OF_ALL = 24 << 20
"""The same in both directions where the threads stage in Python; and for an upload from the pinned pool."""
PINNED_QUERY_FROM = 256 << 10
"""From here on the driver is asked whether memory that is not of the pool is pinned."""
PERMUTED_FROM = 1 << 20
"""From here on a dense array in another axis order is sent as it lies, and put in C order on the device."""
CAST_ON_DEVICE_FROM = 1 << 20
"""From here on a conversion is a kernel on the device, if that lets the narrower values cross the link."""
PARALLEL_HOST_FROM = 8 << 20
"""From here on several threads copy between two host arrays."""

# --- many arrays as one

PACKED_LEAF_MOST = 256 << 10
"""Leaves of a tree of up to this size travel together."""
GROUP_NBYTES = 16 << 20
"""Large leaves are staged together in groups of this size: Python describes one while the link carries another."""
TOGETHER_FROM = 1 << 20
"""Large leaves are staged together from this sum on: two transfers of less take as long as to begin one."""
SCATTERED_FROM = 512 << 10
"""From here on several threads of C collect packed leaves: less is copied by one thread before another has come."""

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
read, and with fewer the threads wait for the device. On an H200's host 5, 6 and 8 chunks carry 41, 43 and 38 GB/s each
way."""
NARROW_CHUNKS = 4
"""Chunks of a transfer of rows of up to `NARROW_ROW_MOST` bytes: threads gather single elements more slowly than the
device reads, so few chunks do."""
NARROW_ROW_MOST = 16

# --- how staging in C is cut

C_HELPER_NBYTES = 512 << 10
"""A thread that sleeps takes 20 to 200 us to come (a virtual machine with 16 cores): it pays from about here."""
C_HELPERS_OF_MEDIUM = 5
"""Most helper threads of a copy of up to `MEDIUM_NBYTES`: more gain nothing, as there is little to hand out."""
C_GATHER_FROM = 32 << 10
"""From here on the C that gathers and converts is as fast as NumPy, whose call takes two microseconds less."""
C_PIECE_MOST = 1 << 20
"""A thread copies as fast from here on; more would leave the threads with unequal shares at the end."""
C_PIECE_LEAST = 128 << 10
"""A block is shared by fewer threads rather than cut into smaller pieces."""
C_FIRST_BLOCK_NBYTES = 256 << 10
"""The size of the first block, so that the link starts early; each later one is twice as large, up to the largest."""
C_LARGEST_BLOCK_PARTS = 4
"""The largest block is a transfer's size divided by this, so that filling and sending overlap."""
C_STREAMED_MOST = 32 << 20
"""Up to here chunks are filled past the processor's caches: 25 instead of 15 GB/s for 16 MiB on an H200. More keeps the
device so far behind that it finds the chunks in memory anyway, and threads copy faster through caches."""

# --- how staging in Python is cut

PYTHON_HELPER_NBYTES = 4 << 20
"""A thread that sleeps takes about 50 us to come: it pays from about here."""
PYTHON_PIECE_MOST = 4 << 20
"""Bytes that a thread fills or empties at a time: 1 MiB gave 17 to 25 GB/s on an H200, 4 MiB 50, 16 MiB 46."""
PYTHON_PIECE_LEAST = 512 << 10
"""A transfer is cut into fewer pieces rather than into smaller ones."""
PYTHON_ENDS_FROM = 32 << 20
"""From here on a transfer begins and ends with smaller pieces."""
PYTHON_FIRST_PIECES = (256 << 10, 512 << 10, 1 << 20, 1 << 20, 2 << 20, 2 << 20)
"""The link starts early, and the threads come one after the other."""
PYTHON_LAST_PIECES = (1 << 20,) * 8
"""Little is left to do once the link, or the last thread, is done."""

# --- batches of a loop, and trees

TOGETHER_MOST = 128 << 10
"""Up to here copying a batch takes less time than ordering two streams by events."""
PINNED_ON_CONSUMER_MOST = 1 << 20
"""Up to here a batch of pinned memory goes on the consumer's stream: the device needs 20 us for it."""
AHEAD_MOST = 4 << 20
"""Contiguous data is staged as a whole up to here, by spinning threads: to begin a transfer of several blocks
takes Python 200 us on an H200's host, and its threads as long to come. From 8 MiB on there is no difference."""
WAITING_MOST = 24 << 20
"""Data that is cut into no more blocks than `LENT_CHUNKS`: see `xferlib._transfer.cutting`."""
PYTHON_LEAF_FROM = 4 << 20
"""A smaller leaf is staged by the thread that begins the tree: waking another of Python's takes as long."""
C_LEAF_FROM = 512 << 10
"""The same where the threads need no GIL."""
RESULT_BEGUN_FROM = 8 << 20
"""From here on the copy of a chunk's result is begun ahead: less is copied in the time that it takes to begin it."""
