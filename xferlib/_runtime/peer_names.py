"""Names of other libraries' streams, events and communicators, for the errors of a program that is being moved."""

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
TRANSFER_NAMES = {
    "get": "transfer.result()",
    "is_done": "transfer.done()",
    "query": "transfer.done()",
    "synchronize": "transfer.result()",
}
COLLECTIVE_NAMES = {
    "Test": "operation.is_done",
    "Wait": "operation.wait()",
    "get_future": "operation.wait()",
    "is_completed": "operation.is_done",
    "result": "operation.wait()",
    "synchronize": "operation.wait()",
    "test": "operation.is_done",
}
_OF_MPI = {
    "Abort": "abort(reason)", "Allgather": "all_gather(x)", "Allreduce": "all_reduce(x)", "Alltoall": "all_to_all(x)",
    "Barrier": "barrier()", "Bcast": "broadcast(x, root)", "Free": "close()", "Get_rank": "rank", "Get_size": "size",
    "Iallreduce": "all_reduce(x, async_op=True)", "Recv": "recv(out, source)",
    "Reduce_scatter_block": "reduce_scatter(x)", "Send": "send(x, dest)", "Split": "split(color, key)",
}  # fmt: skip
_OF_TORCH = {
    "all_gather_into_tensor": "all_gather(x)", "all_to_all_single": "all_to_all(x)",
    "destroy_process_group": "close()", "get_rank": "rank", "get_world_size": "size", "new_group": "split(color, key)",
    "reduce": "all_reduce(x)", "reduce_scatter_tensor": "reduce_scatter(x)", "world_size": "size",
}  # fmt: skip
COMMUNICATOR_NAMES = {name: f"comm.{ours}" for name, ours in (_OF_MPI | _OF_TORCH).items()}
COMMUNICATOR_NAMES |= {name.lower(): ours for name, ours in COMMUNICATOR_NAMES.items()}


def refuse(thing: object, name: str, names: Mapping[str, str]) -> NoReturn:
    """Raise the `AttributeError` of a name that ``thing`` does not have, with ours where another library has it."""
    remedy = f"; write {names[name]}" if name in names else ""
    raise AttributeError(f"{type(thing).__name__!r} object has no attribute {name!r}{remedy}", name=name, obj=thing)
