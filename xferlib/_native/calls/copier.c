/* Copies by the driver that are over for the caller when they return.

   The driver's synchronous copy alone would not do. Of an upload to a busy stream it would keep the caller waiting for all work
   there, where the way by a staging buffer only enqueues: such a copy is not begun. To ordinary memory it brings bytes in pieces,
   at half the speed of one copy to pinned memory and one by the processor. And it knows plain bytes alone. */

#include "calls.h"

#include "../staging/plain.h"
#include "../staging/threads.h"

#include <stdlib.h>

enum { PATIENCE_NS = 10000, IMPATIENT_CALLS = 16 };

/* How long the next call may wait for its stream. The driver returns from a small upload a few microseconds
   before its last bytes arrive. A call in that time would find the stream busy and take the way by the staging buffer,
   which costs twenty and leaves the stream busy for the next call too: in a loop all of them would. So a call waits about
   half as long as that way takes. Where kernels keep the stream busy, one call in IMPATIENT_CALLS does. */
static int64_t patience(unsigned *in_vain)
{
    if (!*in_vain)
        return PATIENCE_NS;
    *in_vain = (*in_vain + 1) % IMPATIENT_CALLS;
    return 0;
}

static int becomes_idle(const copier *c, void *stream, int64_t patience_ns)
{
    int64_t begun_ns;
    if (!c->query || c->query(stream) == 0)
        return 1;
    if (!patience_ns)
        return 0;
    begun_ns = now_ns();
    do
        if (c->query(stream) == 0)
            return 1;
    while (now_ns() - begun_ns < patience_ns);
    return 0;
}

/* Note, with the GIL held, how a call that waited for the stream came out. */
static void learn(unsigned *in_vain, int64_t patience_ns, int is_idle)
{
    if (is_idle)
        *in_vain = 0;
    else if (patience_ns)
        *in_vain = 1;
}

enum { MEMORY_TYPE = 2 }; /* of CUDA's driver: CU_POINTER_ATTRIBUTE_MEMORY_TYPE */

/* The kind of memory, as the driver has it: 0 where it does not know it, PINNED, or another, such as managed. It may read what it
   knows after its call has returned, unless that is pinned and the call synchronous. */
int xf_kind_of(const copier *c, const char *host)
{
    unsigned kind = 0;
    return c->attribute && c->attribute(&kind, MEMORY_TYPE, (word)(uintptr_t)host) == 0 ? (int)kind : 0;
}

enum { ENQUEUED_MOST = 64 << 10 }; /* more bytes, and the driver waits for the stream */

/* Send memory that the driver has read when it returns, to an idle stream: NULL is the default one, on which the synchronous
   copies run. On any other only copies that are enqueued are in order; of ordinary memory they are synchronous, too. */
static int send(const copier *c, word device, word memory, size_t nbytes, void *stream)
{
    return stream ? c->enqueue(device, memory, nbytes, stream) : c->copy(device, memory, nbytes);
}

/* Bring bytes to memory of any kind, behind the work of a stream; they are there when it returns. */
static int fetch(const copier *c, word memory, word device, size_t nbytes, void *stream)
{
    int result;
    if (!stream)
        return c->copy(memory, device, nbytes);
    result = c->enqueue(memory, device, nbytes, stream);
    return result ? result : c->wait(stream);
}

/* Copy between memory and the device, whose context is current, on a stream; NULL is the default one. To any other, ordinary
   memory alone may be sent. Returns the driver's result, or NOT_ASKED where the stream is busy. Little ordinary memory is
   enqueued there all the same: the driver has read it when it returns. Called with the GIL held. */
int xf_copy(copier *c, word device, word memory, size_t nbytes, void *stream)
{
    int is_little = c->is_upward && c->enqueue && nbytes <= ENQUEUED_MOST;
    int64_t patience_ns = is_little || !c->is_upward ? 0 : patience(&c->in_vain);
    int result = NOT_ASKED, is_idle = 1;
    Py_BEGIN_ALLOW_THREADS /* around the query too: see "Blocking" in calls.c */
    if (!c->is_upward) {
        result = fetch(c, memory, device, nbytes, stream);
    } else {
        is_idle = (stream && is_little) || becomes_idle(c, stream, patience_ns);
        if (is_idle)
            result = send(c, device, memory, nbytes, stream);
        else if (is_little && !xf_kind_of(c, (const char *)(uintptr_t)memory))
            result = c->enqueue(device, memory, nbytes, NULL);
    }
    Py_END_ALLOW_THREADS
    if (!is_little)
        learn(&c->in_vain, patience_ns, is_idle);
    return result;
}

/* Whether a stream of the device, whose context is current, has done its work, or does so in a few microseconds. Called with
   the GIL held. */
int xf_is_over(copier *c, void *stream)
{
    int64_t patience_ns = patience(&c->behind_in_vain);
    int is_idle;
    Py_BEGIN_ALLOW_THREADS
    is_idle = becomes_idle(c, stream, patience_ns);
    Py_END_ALLOW_THREADS
    learn(&c->behind_in_vain, patience_ns, is_idle);
    return is_idle;
}

/* Fetch plain bytes by way of pinned memory, as xf_copy. The driver brings bytes to ordinary memory in pieces, one after the
   other, at half the speed of one copy to pinned memory and one by the processor. To the device it is as fast by itself. Memory
   that the driver knows is filled directly. */
int xf_fetch_through(copier *c, char *host, word device, size_t nbytes, word memory, void *stream)
{
    char *pinned = (char *)(uintptr_t)memory;
    int result;
    Py_BEGIN_ALLOW_THREADS
    if (xf_kind_of(c, host))
        pinned = host;
    result = fetch(c, (word)(uintptr_t)pinned, device, nbytes, stream);
    if (!result && pinned != host)
        copy_plain(host, pinned, nbytes);
    Py_END_ALLOW_THREADS
    return result;
}

/* Copy `count` elements between a host array of any layout and the device, by way of pinned memory of as many bytes as they
   have there: as xf_copy. Pinned memory that the device has read is no more in the processor's caches, and single elements
   are written there at a third of the speed: 190 KiB of a transposed array took 75 us on an H100's host. So few bytes are
   gathered into ordinary memory (`is_ordinary`), of which the driver copies lines: 41 us. So is all that goes to a stream of
   the program's own: the driver would read pinned memory there after its call has returned. */
int xf_spread(spreader *s, const void *layout, char *host, word count, word device, size_t nbytes, word memory, void *stream,
              int is_ordinary)
{
    int is_little = stream && nbytes <= ENQUEUED_MOST; /* the driver has read it when it returns: see xf_copy() */
    int64_t patience_ns = is_little || !s->copier.is_upward ? 0 : patience(&s->copier.in_vain);
    int result = NOT_ASKED, is_idle = 1;
    Py_BEGIN_ALLOW_THREADS
    if (!s->copier.is_upward) {
        result = fetch(&s->copier, memory, device, nbytes, stream);
        if (!result)
            s->c.scatter(layout, host, 0, (int64_t)count, (const char *)(uintptr_t)memory, 1);
    } else if ((is_idle = is_little || becomes_idle(&s->copier, stream, patience_ns))) {
        char *ordinary = stream || is_ordinary ? malloc(nbytes) : NULL;
        char *gathered = ordinary || stream ? ordinary : (char *)(uintptr_t)memory;
        if (gathered) {
            s->c.gather(layout, host, 0, (int64_t)count, gathered, !ordinary);
            result = send(&s->copier, device, (word)(uintptr_t)gathered, nbytes, stream);
        }
        free(ordinary);
    }
    Py_END_ALLOW_THREADS
    if (!is_little)
        learn(&s->copier.in_vain, patience_ns, is_idle);
    return result;
}
