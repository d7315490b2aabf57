"""cuFFT: plans, kept for the next transform of their shape."""

from __future__ import annotations

import collections
import math
import threading
from typing import TYPE_CHECKING, Any

from xferlib.backends.cuda.libraries import DATA_TYPES, Handle, Libraries, translated

if TYPE_CHECKING:
    from xferlib._core.array import ArrayInfo
    from xferlib._core.raw import RawStream

_FORWARD, _INVERSE = -1, 1
_MOST_PLANS = 32

Key = tuple[Any, ...]


class _Plan(Handle):
    """A plan without memory of its own: each transform brings a workspace."""

    def __init__(self, cufft: Any, key: Key) -> None:
        _, sizes, batch, source, target = key
        super().__init__(cufft.create(), cufft.destroy)
        cufft.set_auto_allocation(self.number, 0)
        half = (*sizes[:-1], sizes[-1] // 2 + 1)
        layouts: list[Any] = []
        for kind, other in ((source, target), (target, source)):
            shape = half if (kind.kind, other.kind) == ("c", "f") else sizes
            layouts += [[*shape], 1, math.prod(shape), DATA_TYPES[kind.name]]
        complex_type = DATA_TYPES[(source if source.kind == "c" else target).name]
        self.nbytes = cufft.xt_make_plan_many(self.number, len(sizes), [*sizes], *layouts, batch, complex_type)


class Transforms(Libraries):
    """Transforms of contiguous arrays."""

    def __init__(self, backend: Any, bindings: dict[str, Any]) -> None:
        super().__init__(backend, bindings)
        self._plans: collections.OrderedDict[Key, list[_Plan]] = collections.OrderedDict()
        self._planning = threading.Lock()

    def transform(
        self, x: ArrayInfo, out: ArrayInfo, sizes: tuple[int, ...], *, is_inverse: bool, stream: RawStream
    ) -> None:
        """See `DeviceMath.transform`."""
        cufft = self._bindings["cufft"]
        batch = math.prod((x if x.dtype.kind == "f" else out).shape) // math.prod(sizes)
        key = (stream.device.index, sizes, batch, x.dtype, out.dtype)
        with translated("cuFFT", "fft"), self._backend.inside(stream.device):
            plan = self._take(key) or _Plan(cufft, key)
            _memory, pointer = self._workspace(plan.nbytes, stream)
            cufft.set_stream(plan.number, stream.handle)
            if pointer:
                cufft.set_work_area(plan.number, pointer)
            cufft.xt_exec(plan.number, x.pointer, out.pointer, _INVERSE if is_inverse else _FORWARD)
            self._give(key, plan)

    def _take(self, key: Key) -> _Plan | None:
        with self._planning:
            idle = self._plans.pop(key, None)
            if not idle:
                return None
            plan = idle.pop()
            if idle:
                self._plans[key] = idle
        return plan

    def _give(self, key: Key, plan: _Plan) -> None:
        oldest = None  # freed outside of the lock: that may wait for the device
        with self._planning:
            self._plans.setdefault(key, []).append(plan)
            self._plans.move_to_end(key)
            if len(self._plans) > _MOST_PLANS:
                oldest = self._plans.popitem(last=False)
        del oldest
