"""The kernel that `front.c` launches behind an upload, or before a download, of an array that crosses as it lies.

An array that is dense but not in C order, as a transposed one, crosses the link in the order of the host's memory, and
one that the device converts in the host's dtype. The rest of such a call is one kernel, which depends on the form of
the array alone. So it is described once, and C launches it from then on: in Python the second step takes 100 us after a
pause, as long as 3 MiB take to cross.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xferlib._core.array import c_strides
from xferlib._core.layout import dense_order
from xferlib._transfer import plan, relayout
from xferlib._transfer.plan import Conversion, Path

if TYPE_CHECKING:
    import numpy as np

    from xferlib._core.backend import Backend
    from xferlib._core.device import Device

_MOST_ARGS = 60
"""As in `step.h`."""


def described(
    backend: Backend, device: Device, is_upward: int, is_pinned: int, shape: tuple[int, ...], strides: tuple[int, ...],
    host: np.dtype[Any], there: np.dtype[Any],
) -> tuple[int, tuple[int, int, int], tuple[int, ...]] | None:  # fmt: skip
    """The launch that moves an array between its order in the host's memory and C order, both on the device.

    Args:
        backend, device: The kernel's.
        is_upward: 1: to the device, where it writes C order; 0: to the host.
        is_pinned: 1: the device reads or fills the host's memory by itself.
        shape: The array's.
        strides, host: Of its end on the host, whose dtype crosses the link.
        there: Its dtype on the device.

    Returns:
        The handle of the kernel, which `relayout` keeps loaded, the blocks and the two sides of each, and the arguments
        after the addresses of what is written and read. None where the plan is another one, or one kernel cannot do it.
    """
    means = plan.known.get(device) or plan.means_of(backend, device)
    memory: plan.Memory = "pooled" if is_pinned else "pageable"
    found = plan.compiled(shape, strides, host, there, means, bool(is_upward), True, True, True, memory, None)
    is_step = found.path is Path.PERMUTED or found.conversion is Conversion.ON_DEVICE
    if not is_step or dense_order(shape, strides, host.itemsize) is None:
        return None
    in_order = c_strides(shape, there.itemsize)
    ends = (in_order, strides, host, there) if is_upward else (strides, in_order, there, host)
    launch = relayout.converting(shape, *ends)
    if launch is None or len(launch.args) > _MOST_ARGS:
        return None
    code: Any = relayout.kernel(launch.name, launch.source, launch.key, backend, device)
    return code.handle, (min(launch.blocks, relayout.MOST_BLOCKS), *launch.block[:2]), launch.args
