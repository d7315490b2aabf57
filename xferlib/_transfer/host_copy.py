"""Copies between host arrays: what a transfer to or from a CPU device is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from xferlib._core import layout, observe
from xferlib._core.convert import copy_into
from xferlib._core.layout import HostArray
from xferlib._core.observe import Kind
from xferlib._core.thresholds import PARALLEL_HOST_FROM, PYTHON_PIECE_MOST
from xferlib._runtime.jobs import Computation
from xferlib._runtime.threads import workers
from xferlib._transfer import partition

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device


def copy_on_cpu(kind: Kind, dst: HostArray, src: HostArray, backend: Backend, device: Device) -> None:
    """Fill one host array from another that shares no memory with it: all that a copy to or from a CPU device is."""
    if (recorder := observe.active) is None:
        copy_on_host(dst, src)
    else:
        recorder.on_host(kind, "copy", dst.nbytes, backend, device, lambda: copy_on_host(dst, src))


def copy_on_host(dst: HostArray, src: HostArray) -> None:
    """Fill one host array from another, in parallel where it is large."""
    if dst.nbytes < PARALLEL_HOST_FROM or not dst.flags.c_contiguous:
        copy_into(dst, src)
        return
    chunks = layout.chunked(src, dst.itemsize, PYTHON_PIECE_MOST)
    flat = dst.reshape(-1)

    def work(take: Callable[[], int]) -> None:
        while (index := take()) >= 0:
            offset, part = chunks[index]
            start = offset // dst.itemsize
            copy_into(flat[start : start + part.size].reshape(part.shape), part)

    workers.run(Computation(chunks.count, work, helpers=partition.helpers(dst.nbytes)))
