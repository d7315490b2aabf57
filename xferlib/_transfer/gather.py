"""One kernel that collects many small device arrays into one slab."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xferlib._transfer import relayout, upload
from xferlib._transfer.host_end import HostEnd
from xferlib._transfer.upload import Upload

if TYPE_CHECKING:
    from xferlib._core.array import ArrayInfo
    from xferlib._core.backend import Backend
    from xferlib._core.raw import RawStream

_THREADS = 256

_SOURCE = """
typedef long long i64;
struct Piece { const char* from; i64 offset; i64 nbytes; };

extern "C" __global__ void gather_pieces(char* dst, const Piece* pieces) {
    Piece piece = pieces[blockIdx.x];
    char* to = dst + piece.offset;
    i64 done = 0;
    if (!(((i64)piece.from | (i64)to) & 15)) {
        i64 words = piece.nbytes / 16;
        for (i64 i = threadIdx.x; i < words; i += blockDim.x) ((uint4*)to)[i] = ((const uint4*)piece.from)[i];
        done = words * 16;
    }
    for (i64 i = done + threadIdx.x; i < piece.nbytes; i += blockDim.x) to[i] = piece.from[i];
}
"""


def gather(dst: ArrayInfo, pieces: list[tuple[int, int, int]], backend: Backend, stream: RawStream) -> None:
    """Enqueue copies of ``(pointer, offset, nbytes)`` pieces into ``dst``, all in one launch."""
    table = np.array(pieces, dtype=np.int64)
    on_device = backend.empty(table.shape, table.dtype, device=stream.device, stream=stream)
    info = backend.view(on_device)
    upload.send(Upload(HostEnd(table, table.dtype, backend), on_device, info, stream, is_blocking=False))
    code = relayout.kernel("gather_pieces", _SOURCE, (0, 0), backend, stream.device)
    args = (dst.pointer, info.pointer)
    relayout.launch(
        code, len(pieces), (_THREADS, 1, 1), args, backend, stream, name="gather_pieces", nbytes=2 * dst.nbytes
    )
