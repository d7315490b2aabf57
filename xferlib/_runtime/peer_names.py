"""Names of other libraries' objects, for the errors of a program that is being moved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

ARRAY_NAMES = {
    **dict.fromkeys(
        ("asnumpy", "copy_to_host", "cpu", "detach", "get", "get_async", "numpy", "to_host"),
        "xferlib.to_host(x) copies it to the host",
    ),
    "block_until_ready": "xferlib.synchronize() waits for all work on its device",
    "clone": "x.copy() makes another",
    "cuda": "xferlib.to_device(x, device='cuda:0') copies it there",
    "data_ptr": "x.__cuda_array_interface__ has the address on a GPU",
    "dim": "x.ndim counts its axes",
    "fill_": "x[...] = value fills it",
    "gpudata": "x.__cuda_array_interface__ has the address on a GPU",
    "is_cuda": "x.device.kind == 'cuda' tells",
    "numel": "x.size counts its elements",
    "permute": "get_array_module(x).permute_dims does that",
    "to": "x.astype(dtype) converts it, xferlib.to_device(x, device=...) copies it to a device",
    "type": "x.astype(dtype) converts it",
    "unsqueeze": "get_array_module(x).expand_dims does that",
    "zero_": "x[...] = 0 fills it",
}
"""For arrays: attributes that ours do not have, with what to say."""
DEVICE_NAMES = {
    "id": "device.index",
    "type": "device.kind",
    "mem_info": "device.free_memory and device.total_memory",
    "compute_capability": "device.properties",
    "name": "device.properties.name",
}
TRACE_NAMES = {
    **dict.fromkeys(("dump", "export", "export_chrome_trace", "save", "to_json"), "trace.write('run.json')"),
    **dict.fromkeys(("savefig", "show"), "trace.plot('run.png')"),
    **dict.fromkeys(("events", "key_averages", "table"), "trace.summary() or trace.operations"),
}
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
