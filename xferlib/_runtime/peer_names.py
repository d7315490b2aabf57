"""Names of the streams, events and devices of other libraries, for the errors of a program that is being moved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

STREAM_NAMES = {
    "add_callback": "stream.call(function, *arguments)",
    "launch_host_func": "stream.call(function, *arguments)",
    "begin_capture": "with stream.capture() as graph:",
    "end_capture": "with stream.capture() as graph:",
    "cuda_stream": "stream.handle",
    "ptr": "stream.handle",
    "done": "stream.is_done",
    "query": "stream.is_done",
    "record_event": "stream.record(event)",
    "wait_event": "stream.wait(event)",
    "wait_for_event": "stream.wait(event)",
    "wait_stream": "stream.wait(other)",
}
EVENT_NAMES = {
    "done": "event.is_done",
    "query": "event.is_done",
    "elapsed_time": "end.elapsed_ms(start)",
    "time_since": "end.elapsed_ms(start)",
    "time_till": "end.elapsed_ms(start)",
    "record": "stream.record(event)",
    "wait": "stream.wait(event)",
}
DEVICE_NAMES = {
    "attributes": "device.attribute(name)",
    "compute_capability": "device.properties.compute_capability",
    "get_attribute": "device.attribute(name)",
    "get_attributes": "device.attribute(name)",
    "id": "device.index",
    "mem_info": "device.free_memory, device.total_memory",
    "multi_processor_count": "device.properties.multiprocessor_count",
    "name": "device.properties.name",
    "type": "device.kind",
}
TRANSFER_NAMES = {
    "get": "transfer.result()",
    "is_done": "transfer.done()",
    "query": "transfer.done()",
    "synchronize": "transfer.result()",
}


def refuse(thing: object, name: str, names: Mapping[str, str]) -> NoReturn:
    """Raise the `AttributeError` of a name that ``thing`` does not have, with ours where another library has it."""
    remedy = f"; write {names[name]}" if name in names else ""
    raise AttributeError(f"{type(thing).__name__!r} object has no attribute {name!r}{remedy}", name=name, obj=thing)
