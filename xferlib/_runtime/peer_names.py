"""Names of other libraries' objects, for the errors of a program that is being moved."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import NoReturn

ARRAY_NAMES = {
    **dict.fromkeys(
        ("asnumpy", "copy_to_host", "cpu", "detach", "get", "get_async", "numpy", "to_host"),
        "xferlib.to_host(x) copies it to the host",
    ),
    "at": "x[index] = value writes in place",
    "block_until_ready": "xferlib.synchronize() waits for all work on its device",
    "clone": "x.copy() makes another",
    "contiguous": "x.copy() is contiguous",
    "cuda": "xferlib.to_device(x, device='cuda:0') copies it there",
    "data_ptr": "x.__cuda_array_interface__ has the address on a GPU",
    **dict.fromkeys(
        ("double", "float", "half", "int", "long", "type"), "get_array_module(x).astype(x, dtype) converts it"
    ),
    "dim": "x.ndim counts its axes",
    "fill_": "x[...] = value fills it",
    "gpudata": "x.__cuda_array_interface__ has the address on a GPU",
    "is_cuda": "x.device.kind == 'cuda' tells",
    "numel": "x.size counts its elements",
    "permute": "get_array_module(x).permute_dims does that",
    "to": "get_array_module(x).astype(x, dtype) converts it, xferlib.copy_to(x, device) copies it to a device",
    "unsqueeze": "get_array_module(x).expand_dims does that",
    "zero_": "x[...] = 0 fills it",
}
"""For arrays: attributes that ours do not have, with what to say."""
TREE_NAMES = {
    name.removeprefix("tree_"): f"optree.{name}({arguments}, namespace='xferlib')"
    for name, arguments in {
        "tree_leaves": "tree", "tree_map": "function, tree", "tree_reduce": "function, tree",
        "tree_structure": "tree", "tree_unflatten": "structure, leaves",
    }.items()
}  # fmt: skip
TREE_NAMES |= {f"tree_{name}": ours for name, ours in TREE_NAMES.items()}
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

_AT_ONCE = "to_device_async(x) and to_host_async(x) return at once"
_PIN = "nothing has to be pinned; pinned_array(x) makes an array that is"
_OF_TRANSFERS = {
    **dict.fromkeys(("async_", "asynchronous", "blocking", "non_blocking"), _AT_ONCE),
    "pin_memory": _PIN,
}
_AHEAD = "depth=n copies n batches ahead"
_AS_THEY_COME = "prefetch takes batches as they come: a DataLoader, a generator or a list"
_WORKERS = "engine= takes an executor of concurrent.futures or a Dask client, whose workers compute"
KEYWORDS = {
    "copy_to": _OF_TRANSFERS | {"out": "xferlib.to_device(x, out=y) fills an array that exists"},
    "to_device": _OF_TRANSFERS,
    "to_device_async": _OF_TRANSFERS,
    "to_host": _OF_TRANSFERS,
    "to_host_async": _OF_TRANSFERS,
    "RawKernel": {
        "shared_mem": "shared_nbytes= is dynamic shared memory of a block",
        "texrefs": "a texture object is passed as an argument, by its handle",
        "time_kernel": "events made with Event(timing=True), recorded around the call, have elapsed_ms",
    },
    "prefetch": {
        **dict.fromkeys(("buffer_size", "maxsize", "prefetch_factor", "queue_size", "size"), _AHEAD),
        **dict.fromkeys(("batch_size", "num_workers", "shuffle", "workers"), _AS_THEY_COME),
        **dict.fromkeys(("fn", "func", "function", "map"), "transform=function is applied to each batch"),
        "pin_memory": _PIN,
    },
    "stream_map": dict.fromkeys(("max_workers", "n_jobs", "num_workers", "processes", "threads", "workers"), _WORKERS),
}
"""For calls: the keywords that ours do not have, with what to say."""


def refuse(thing: object, name: str, names: Mapping[str, str]) -> NoReturn:
    """Raise the `AttributeError` of a name that ``thing`` does not have, with ours where another library has it."""
    remedy = f"; write {names[name]}" if name in names else ""
    owner = f"module {thing.__name__!r}" if isinstance(thing, ModuleType) else f"{type(thing).__name__!r} object"
    raise AttributeError(f"{owner} has no attribute {name!r}{remedy}", name=name, obj=thing)
