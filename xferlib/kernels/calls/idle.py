"""Calls of a kernel that computes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xferlib.kernels.calls.prepared import Prepared

if TYPE_CHECKING:
    from xferlib._core.array import ArrayInfo


class IdleCall(Prepared):
    """A call without a computation: its arguments are checked, and new outputs are as `empty` makes them."""

    def _check(self, infos: dict[int, ArrayInfo]) -> None:
        super()._check(infos)
        for number in self._outputs:
            if number in infos:
                self._check_written(number, infos[number])

    def run_again(self, given: Sequence[Any], values: list[Any]) -> Any:
        """Allocate the omitted outputs."""
        stream = self.backend.stream_current(self.device)
        dtypes = [self.program.params[number].dtype for number in self._omitted]
        new = [self.backend.empty(self.shape, dtype, device=self.device, stream=stream) for dtype in dtypes]
        return self._returned([*given, *new])
