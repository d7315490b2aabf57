"""The parts of a simulated machine, for the classes that each do some of its work.

Those take `Parts` and not the machine, which calls them: so no module imports another in a circle.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Protocol

from xferlib._core.device import make_device
from xferlib._runtime.callsite import user_site
from xferlib.sim.detect.detector import Detector
from xferlib.sim.machine import schedules
from xferlib.sim.machine.engine import Engine
from xferlib.sim.machine.injection import Faults
from xferlib.sim.machine.settings import Settings
from xferlib.sim.model.clocks import ParticipantKeys
from xferlib.sim.model.hosts import Hosts, HostThread
from xferlib.sim.model.memory import AddressSpace, Watches
from xferlib.sim.model.operations import Operation
from xferlib.sim.model.streams import DeviceStreams, SimStream, StreamKind
from xferlib.sim.timing.timeline import Timeline

if TYPE_CHECKING:
    from xferlib._core.layout import HostArray
    from xferlib._core.raw import OperationListener
    from xferlib.sim.machine.page_guard import PageGuard
    from xferlib.sim.model.clocks import Clock

    class FunctionInFlight(Protocol):
        """See `xferlib.sim.machine.host_functions`."""

        stream: SimStream
        operation: Operation | None
        clock: Clock

        def access(self, data: HostArray, *, is_write: bool) -> None: ...


class Parts:
    """The parts of one machine, and the order among its streams. A ``with`` block may exchange some of them.

    Attributes:
        lock: Held by every call into the machine.
        guard: The page guard of a ``with`` block, or None.
        listener: Is told of every operation and its time on the virtual clock.
        function: The function of `Stream.call` that runs now, in the thread that holds the lock.
        functions: Those that have been enqueued and have not run.
        watches: Of the host memory that copies in flight use.
    """

    def __init__(self, settings: Settings, schedule: schedules.Schedule | None) -> None:
        self.settings = settings
        self.lock = threading.RLock()
        self.participants = ParticipantKeys(3)  # 0 to 2 are the handles of the default streams
        self.hosts = Hosts(self.participants)
        self.memory = AddressSpace()
        self.detector = Detector(settings.mode)
        self.engine = Engine(schedule or schedules.named(settings.schedule, settings.seed))
        self.guard: PageGuard | None = None
        self.faults = Faults()
        self.timeline = Timeline(settings.profile, keeps=False)
        self.listener: OperationListener | None = None
        self.function: FunctionInFlight | None = None
        self.watches = Watches()
        self.functions: weakref.WeakSet[FunctionInFlight] = weakref.WeakSet()
        self.devices = tuple(make_device("sim", "sim", index) for index in range(settings.devices))
        self.streams = {
            device: DeviceStreams(SimStream(self.participants.enter(), device, StreamKind.LEGACY, user_site()))
            for device in self.devices
        }

    def order(self, stream: SimStream, host: HostThread) -> list[Operation | None]:
        """Order the next operation of ``stream`` behind all that CUDA's rules put before it."""
        stream.join(host)
        if stream.time_s < host.time_s:
            stream.time_s = host.time_s
        if stream.kind is StreamKind.NON_BLOCKING:
            return [stream.tail]
        after = [stream.tail]
        if stream.awaited:
            for event in stream.awaited.values():
                stream.learn(event.clock)
            stream.awaited = {}
        if stream.last_wait is not None:
            after.append(stream.last_wait)
        for other in self.streams[stream.device].before(stream):
            stream.join(other)
            after.append(other.tail)
            stream.time_s = max(stream.time_s, other.time_s)
        return after
