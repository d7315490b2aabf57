"""The abilities of a backend, as data."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The abilities of a backend. A missing ability is a skip with a reason, never a ``hasattr``.

    ``why`` maps the name of a missing ability to the sentence that an error or a skipped test shows.
    """

    streams: bool = False
    """Streams run concurrently with the host; without it every operation is complete on return."""
    priorities: bool = False
    """Streams have priorities."""
    foreign_streams: bool = False
    """A stream made elsewhere can become the library's current stream."""
    native_current_stream: bool = False
    """The library's own operations follow ``with stream:``."""
    pinned_memory: bool = False
    """Host memory can be page-locked."""
    peer_copy: bool = False
    """Copies between two devices of the backend."""
    kernels: bool = False
    """CUDA source can be compiled and launched."""
    namespace: bool = False
    """The library has an Array-API namespace."""
    strided: bool = False
    """The library's own operations take views of any stride."""
    graphs: bool = False
    """The work of a stream can be captured, and enqueued again as one."""
    in_place: bool = True
    """Arrays can be written after they were made; False: ``out=`` and kernels that write an argument are refused."""
    fork: bool = True
    """A process that has used the library may fork; False: the library itself warns of it."""
    small_at_once: bool = True
    """A small transfer may be complete when an asynchronous call returns; False: each takes as long as the contract
    allows, at every size."""
    why: dict[str, str] = field(default_factory=dict)

    def reason(self, ability: str) -> str:
        """Why ``ability`` is missing, in one sentence."""
        return self.why.get(ability, f"the backend has no {ability.replace('_', ' ')}")
