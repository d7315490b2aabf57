"""A module loaded for a CPU: its kernels, its variables, launches over host memory, and their faults in words."""

from __future__ import annotations

import ctypes
import functools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib._runtime import process, threads
from xferlib.errors import KernelCompileError, KernelFaultError, KernelTypeError, UnsupportedError
from xferlib.kernels.cuda_cpu import runtime
from xferlib.kernels.cuda_cpu.translation import REDZONE, SHARED_BEGIN
from xferlib.kernels.cuda_launch import MOST_SHARED_NBYTES, MOST_THREADS, USUAL_SHARED_NBYTES

if TYPE_CHECKING:
    from xferlib._runtime.process import Config
    from xferlib.kernels.cuda_cpu.code import CpuCode
    from xferlib.kernels.cuda_cpu.translation import FaultSite, Kernel, SharedVariable
    from xferlib.kernels.cuda_signature import RawParameter

_STACK_NBYTES = 64 << 10
"""Of a thread, beyond twice its local variables: what the C compiler adds, and calls."""
_RECURSIVE_STACK_NBYTES = 1 << 20
_TURNS = 64
"""The setting counts the turns of one loop; a thread may run many, if it is alone."""
_MOST_RESIDENT = 1 << 18
"""Threads: 128 multiprocessors of 2048."""

_SCHEDULES = {"in-order": runtime.IN_ORDER, "reversed": runtime.REVERSED, "random": runtime.RANDOM}
_LIKE_SIM = {"eager": runtime.IN_ORDER, "lazy": runtime.IN_ORDER, "lifo": runtime.REVERSED, "random": runtime.RANDOM}


class KernelMemory(NamedTuple):
    """Memory that a kernel may touch."""

    name: str
    memory: np.ndarray[Any, Any]
    is_const: bool = False
    address: int | None = None
    """Of its first byte, as the kernel has it; the host's if omitted."""
    kind: str = "argument"
    """``argument`` or ``variable``; empty where the name says all."""
    values: np.ndarray[Any, Any] | None = None
    """One bit for each byte that has a value; None where all have."""
    owner: Any = None
    """For the caller."""

    @property
    def words(self) -> str:
        return f"{self.kind} {self.name!r}" if self.kind else self.name


class TouchedBytes(NamedTuple):
    """The bytes of an operand that a launch has read and written so far, as `emulator.h` has them."""

    operand: KernelMemory
    read: np.ndarray[Any, Any]
    written: np.ndarray[Any, Any]
    lines: list[tuple[int, int, int]]
    """The source line of each instruction that used it, the first byte, and the end of the last; known at the end."""

    @staticmethod
    def find_extent(found: np.ndarray[Any, Any]) -> tuple[int, int]:
        """The first byte that ``read`` or ``written`` holds, and the end of the last; equal if it is empty."""
        end = int(found[1])
        return (int(~found[0]), end) if end else (0, 0)

    @staticmethod
    def find_flags(found: np.ndarray[Any, Any], first: int, end: int) -> np.ndarray[Any, Any] | None:
        """A flag for each byte of an extent; None if all are set."""
        words = found[2 + first // 64 : 2 + -(-end // 64)]
        before, behind = first % 64, -end % 64
        ends = [(1 << 64) - 1] * len(words[:2])
        ends[0] = ends[0] >> before << before
        ends[-1] &= ((1 << 64) - 1) >> behind
        if [int(words[0]), int(words[-1])][: len(ends)] == ends and (words[1:-1] == ~np.uint64(0)).all():
            return None
        flags = np.unpackbits(words.view(np.uint8), bitorder="little").view(np.bool_)
        return flags[before : len(flags) - behind]


class CpuModule:
    """Code with variables of its own.

    Args:
        code: The code.
        memory: ``code.variables_nbytes`` bytes for its variables, which belong to the module from now on.
        owner: Of this memory, as of `KernelMemory`.
    """

    def __init__(self, code: CpuCode, memory: np.ndarray[Any, Any], owner: Any = None) -> None:
        self.owner = owner
        self._code, self._translation = code, code.translation
        self._start = -memory.ctypes.data % self._translation.block_align
        self._memory = memory[self._start :]
        self._variables = [each for each in self._translation.variables.values() if each.nbytes]

    def initialise(self) -> None:
        """Give the variables their initial values."""
        initial = self._translation.make_block()
        self._memory[: len(initial)] = np.frombuffer(initial, np.uint8)
        self._code.library.xf_init_module(self._memory.ctypes.data)

    def find_variable(self, name: str) -> tuple[int, int] | None:
        """The offset in ``memory`` and the bytes of a variable; None where the module has none of that name."""
        found = self._translation.variables.get(name)
        return None if found is None else (self._start + found.offset, found.nbytes)

    def find_kernel(self, name: str) -> Kernel:
        """The translation of a kernel.

        Raises:
            KernelCompileError: There is none of that name.
            UnsupportedError: It has an instruction that no CPU runs: textures, tensor cores, asynchronous copies.
        """
        found = self._translation.kernels.get(name)
        if (uncovered := self._translation.uncovered.get(name)) is not None:
            raise UnsupportedError(f"{uncovered}; leave it out, or give get_function(..., cpu=...)")
        if found is None:
            known = ", ".join(self._translation.kernels) or "none"
            raise KernelCompileError(
                f'the module has no kernel {name!r}; its kernels are {known}: declare it extern "C" __global__, or '
                "name it in names="
            )
        return found

    def get_attributes(self, name: str) -> dict[str, int]:
        """The values of `KernelAttributes`."""
        kernel = self.find_kernel(name)
        most = _count_most_threads(kernel)
        constant = sum(each.nbytes for each in self._variables if each.space == "const")
        return {
            "registers": 0, "max_threads": most, "shared_nbytes": kernel.static_nbytes, "constant_nbytes": constant,
            "local_nbytes": kernel.local_nbytes, "max_dynamic_shared_nbytes": USUAL_SHARED_NBYTES,
            "ptx_version": self._translation.capability, "binary_version": self._translation.capability,
        }  # fmt: skip

    @property
    def has_variables(self) -> bool:
        """Whether launches may read or write memory of the module."""
        return bool(self._variables)

    def check_launch(
        self,
        name: str,
        sizes: Sequence[int],
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        *,
        shared_nbytes: int,
        is_cooperative: bool,
        label: str,
    ) -> None:
        """Compare a launch with the compiled kernel, before anything is enqueued.

        Raises:
            KernelTypeError: There are more or fewer arguments than parameters, or one has another size; the block is
                larger than the kernel's launch bounds, or has more shared memory than any GPU; the kernel waits for
                the grid, and the launch is not cooperative, or has more threads than any GPU runs at a time.
        """
        kernel = self.find_kernel(name)
        most = _count_most_threads(kernel)
        if math.prod(block) > most:
            raise KernelTypeError(
                f"{label}(): block {block} has more threads than the {most} of the kernel's __launch_bounds__; make it "
                "smaller"
            )
        if kernel.is_cooperative and not is_cooperative:
            raise KernelTypeError(f"{label}(): the kernel waits for the whole grid; launch it with cooperative=True")
        count = math.prod(grid) * math.prod(block)
        if is_cooperative and count > _MOST_RESIDENT:
            raise KernelTypeError(
                f"{label}(): a cooperative launch of {count} threads is too large, since all run at a time and a GPU "
                f"has room for {_MOST_RESIDENT}; use fewer blocks"
            )
        if kernel.static_nbytes + shared_nbytes > MOST_SHARED_NBYTES:
            raise KernelTypeError(
                f"{label}(): a block needs {kernel.static_nbytes + shared_nbytes} bytes of shared memory, and the most "
                f"on any GPU are {MOST_SHARED_NBYTES}; use less"
            )
        params = kernel.params
        if len(sizes) != len(params):
            raise KernelTypeError(
                f"{label}(): the compiled kernel has {len(params)} parameter(s), and the signature {len(sizes)}; "
                "correct the signature"
            )
        for number, (nbytes, parameter) in enumerate(zip(sizes, params, strict=True)):
            if nbytes != parameter.nbytes:
                raise KernelTypeError(
                    f"{label}(): parameter {number} of the compiled kernel has {parameter.nbytes} bytes, and the "
                    f"signature {nbytes}; correct the signature"
                )

    def launch(
        self,
        name: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        values: Sequence[bytes],
        operands: Sequence[KernelMemory],
        *,
        label: str,
        is_checked: bool | None = None,
        touched: list[TouchedBytes] | None = None,
        find: Callable[[int], KernelMemory | None] | None = None,
        shared_nbytes: int = 0,
        is_cooperative: bool = False,
        follows_sim: bool = False,
        config: Config | None = None,
    ) -> None:
        """Run a kernel to its end.

        Args:
            name: The kernel's, as in the PTX.
            grid, block: Extents.
            values: The arguments by their bytes.
            operands: The arrays among them, which the kernel may touch.
            label: The kernel's name in messages.
            is_checked: Raise what is wrong with an access, some ten times slower; as the code allows it if omitted.
            touched: Receives what the kernel touches, also where it ends by a fault.
            find: What else the kernel may touch, by an address.
            shared_nbytes: Dynamic shared memory of a block.
            is_cooperative: All blocks are resident.
            follows_sim: The schedule is that of the simulator where the setting is ``auto``.
            config: The settings at the call, which the simulator carries out later; those in force if omitted.

        Raises:
            KernelFaultError: What the kernel did wrong.
        """
        if 0 in grid:
            return
        kernel, config = self.find_kernel(name), config or process.get()
        is_checked = self._code.is_checked if is_checked is None else is_checked
        if is_checked and (unset := self._translation.unset.get(name)) is not None:
            raise_unset(label, unset)
        params = _pack(kernel, values)
        launch = runtime.EmulatedLaunch()
        launch.entry = ctypes.cast(self._code.library[kernel.symbol], ctypes.c_void_p).value
        launch.params = params.ctypes.data
        launch.module = self._memory.ctypes.data
        launch.grid, launch.block = runtime.Extents(*grid), runtime.Extents(*block)
        launch.static_nbytes, launch.dynamic_nbytes = kernel.shared_nbytes, shared_nbytes
        launch.flags = (
            runtime.FIBERS * (kernel.needs_fibers or is_checked)
            | runtime.COOPERATIVE * is_cooperative
            | runtime.CHECKED * is_checked
            | runtime.TRACK * self._code.is_checked
        )
        launch.workers = 1 if self._code.is_checked else config.threads or threads.usable_cores()
        launch.schedule = _schedule(config, follows_sim=follows_sim)
        launch.seed = config.sim_seed & (2**64 - 1)
        launch.stack_nbytes = 2 * kernel.local_nbytes + (
            _RECURSIVE_STACK_NBYTES if kernel.is_recursive else _STACK_NBYTES
        )
        if is_checked:
            launch.most_ticks = config.loop_turns * max(1, _TURNS // math.prod(block))
        known = [*self._list_operands(operands, params)]
        regions = [_describe(each, touched) for each in known]
        shared = [(each.offset, each.nbytes) for each in kernel.shared]
        region_array = runtime.make_array(runtime.MemoryRegion, regions)
        shared_array = runtime.make_array(runtime.SharedRange, shared)
        launch.regions, launch.region_count = ctypes.addressof(region_array), len(regions)
        launch.variables, launch.variable_count = ctypes.addressof(shared_array), len(shared)
        launch.places, launch.place_count = self._code.places.ctypes.data, self._code.places.size

        def find_region(address: int) -> tuple[Any, ...] | None:
            found = find(address) if find is not None else None
            if found is None:
                return None
            known.append(found)
            return _describe(found, touched)

        reaches = None
        if touched is not None:
            reaches = np.zeros((len(self._translation.sites), 3), np.uint64)
            launch.reaches = reaches.ctypes.data
        report = runtime.run(launch, _write, find_region if find is not None else None)
        if touched is not None and reaches is not None:
            self._list_lines(reaches, known, touched)
        if report is not None:
            raise_fault(label, report, self._translation.sites, known, kernel.shared)

    def _list_lines(
        self, reaches: np.ndarray[Any, Any], known: Sequence[KernelMemory], touched: Sequence[TouchedBytes]
    ) -> None:
        """Note the lines that have used each memory, but for instructions that have used several."""
        lines = {id(each.operand): each.lines for each in touched}
        for site in np.flatnonzero(reaches[:, 0]).tolist():
            number, not_first, end = reaches[site].tolist()
            if number <= len(known) and (found := lines.get(id(known[number - 1]))) is not None:
                found.append((self._translation.sites[site].source_line, ~not_first & (1 << 64) - 1, end))

    def _list_operands(self, operands: Sequence[KernelMemory], params: np.ndarray[Any, Any]) -> Iterator[KernelMemory]:
        """The memory that a launch may touch: its arguments, and the variables of the module."""
        for operand in operands:
            yield KernelMemory(*operand)
        base = self._memory.ctypes.data
        for each in self._variables:
            memory = self._memory[each.offset : each.offset + each.nbytes]
            yield KernelMemory(
                each.name, memory, each.space == "const", base + each.offset, "variable", owner=self.owner
            )
        params.flags.writeable = False
        yield KernelMemory("the arguments themselves", params, kind="")


class EmulatedKernel:
    """CUDA source that runs on a CPU, with its arguments.

    Attributes:
        values: The arguments by their bytes, as the kernel gets them.
        memory: That of the module's variables, an array of the device; None where it has none.
    """

    def __init__(
        self,
        module: CpuModule,
        name: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        values: list[bytes],
        arrays: dict[int, tuple[RawParameter, int]],
        *,
        memory: Any,
        **options: Any,
    ) -> None:
        self.values = values
        self.memory = memory
        self._arrays = arrays
        config = process.get()
        self._launch: Callable[..., None] = functools.partial(
            module.launch, name, grid, block, values, config=config, **options
        )

    def __iter__(self) -> Iterator[int]:
        """The numbers of the arguments that are arrays."""
        return iter(self._arrays)

    def run(self, *operands: Any) -> None:
        """Run it on the arguments, with arrays as NumPy arrays."""
        self._launch([self.describe(number, operands[number]) for number in self._arrays])

    def follow(
        self, operands: Sequence[KernelMemory], touched: list[TouchedBytes], find: Callable[[int], KernelMemory | None]
    ) -> None:
        """Run it, and learn which bytes it touches; arguments as `CpuModule.launch` has them."""
        self._launch(operands, touched=touched, find=find)

    def describe(self, number: int, memory: Any, owner: Any = None, values: Any = None) -> KernelMemory:
        """An argument as the kernel may touch it.

        Args:
            number: Of the argument.
            memory: Its memory.
            owner, values: As of `KernelMemory`.
        """
        parameter, address = self._arrays[number]
        return KernelMemory(parameter.name, memory, parameter.is_const, address, owner=owner, values=values)


def _describe(operand: KernelMemory, touched: list[TouchedBytes] | None) -> tuple[Any, ...]:
    """The fields of a region; ``touched`` grows by what it will have been used for."""
    memory, values = operand.memory, None
    bits: tuple[int | None, int | None] = (None, None)
    flags = runtime.CONST * operand.is_const | runtime.READ_ONLY * (not memory.flags.writeable)
    if touched is not None and operand.owner is not None:
        read, written = (np.zeros(memory.nbytes // 64 + 3, np.uint64) for _ in range(2))
        touched.append(TouchedBytes(operand, read, written, []))
        bits = read.ctypes.data, written.ctypes.data
    if operand.values is not None:
        flags |= runtime.UNWRITTEN
        values = operand.values.ctypes.data
    host = memory.ctypes.data
    begin = host if operand.address is None else operand.address
    return begin, memory.nbytes, host, flags, max(memory.itemsize, 1), *bits, values


def _write(text: str) -> None:
    """Write what a kernel prints, as Python prints: nowhere if there is no standard output."""
    print(text, end="")


def _pack(kernel: Kernel, values: Sequence[bytes]) -> np.ndarray[Any, Any]:
    """The block of a launch's arguments."""
    nbytes = max(kernel.params_nbytes, 1)
    params = np.zeros(nbytes + 16, np.uint8)
    params = params[-params.ctypes.data % 16 :][:nbytes]
    for value, parameter in zip(values, kernel.params, strict=True):
        params[parameter.offset : parameter.offset + parameter.nbytes] = np.frombuffer(value, np.uint8)
    return params


def _count_most_threads(kernel: Kernel) -> int:
    """The most threads of a block, by the kernel's launch bounds."""
    return math.prod(kernel.maxntid or kernel.reqntid or (MOST_THREADS,))


def _schedule(config: Config, *, follows_sim: bool) -> int:
    if config.kernel_schedule != "auto":
        return _SCHEDULES[config.kernel_schedule]
    return _LIKE_SIM[config.sim_schedule] if follows_sim else runtime.IN_ORDER


# A fault in words: kernel, source line, threads and blocks, argument and index, and the remedy.

_SHARED, _LOCAL, _NOWHERE = -1, -2, -3
_NULL_NBYTES = 4096
"""Addresses below are elements of what a null pointer points to."""
_DIGITS = re.compile(r"[1-9]\d*")

_REMEDIES = {
    "out of bounds": "guard the access, as in `if (i < n)`, or make the array larger",
    "dynamic": "give the launch as much as its threads use: shared_nbytes=",
    "misaligned": "let each access begin at a multiple of its own size",
    "uninitialised": "write the memory first, in the thread that reads it, or in another one before a __syncthreads()",
    "unset": "give it a value where it is declared",
    "lane": "name in the mask the lanes that call the shuffle, and use values of these alone",
    "race": "separate the two with __syncthreads() in a block, or use atomics",
    "race between blocks": (
        "give each element to one block, use atomics, or __threadfence() before a flag is set and after it is read"
    ),
    "divergent barrier": "move __syncthreads() out of the branch, so that all threads of the block reach the same one",
    "deadlock": "let all threads that a barrier or a mask names reach it, or leave the kernel",
    "read-only": "declare the parameter without const and pass a writable array, or do not write",
    "endless": "let the loop end; xferlib.configure(loop_turns=...) allows more turns",
    "stack overflow": "use less local memory, or fewer levels of recursion",
    "segmentation fault": "pass the array, and use no pointer that does not come from an argument",
    "assertion": "see the kernel's own condition",
    "trap": "see the kernel's own condition",
    "unsupported": "leave it out of what runs on a CPU, or give get_function(..., cpu=function)",
    "bad mask": "name in the mask just the threads that reach the call: __activemask() or a smaller mask",
    "out of memory": "use less memory",
    "overflow": "compute it in 64 bits, as in `(size_t)row * width + column`",
    "bad free": "free what malloc returned in a kernel, and once",
}

_OPERATIONS = {True: "writes", False: "reads"}


def raise_fault(
    kernel: str,
    report: runtime.FaultReport,
    sites: Sequence[FaultSite],
    memories: Sequence[KernelMemory],
    shared: Sequence[SharedVariable],
) -> None:
    """Raise the fault that ended a launch.

    Args:
        kernel: Its name.
        report: What the runtime found.
        sites: The locations in the program, by number.
        memories: The regions of the launch, in their order.
        shared: The kernel's shared variables.

    Raises:
        KernelFaultError: Always.
    """
    kind = runtime.FAULTS[report.kind]
    here, other = report.here, report.other
    where, index = _locate(report, memories, shared)
    does = _OPERATIONS[bool(here.flags & runtime.WRITE)]
    bytes_of = f"{report.nbytes} byte{'s' * (report.nbytes != 1)}"
    is_race_of_blocks = kind == "race" and tuple(here.ctaid) != tuple(other.ctaid)
    is_register = kind == "uninitialised" and not here.flags
    is_of_lane = is_register and other.site != runtime.NOWHERE
    remedy = _REMEDIES[
        "race between blocks" if is_race_of_blocks else "lane" if is_of_lane else "unset" if is_register else kind
    ]
    if kind == "out of bounds" and report.region == _NOWHERE:
        remedy = _REMEDIES["segmentation fault"]
    elif kind == "out of bounds" and report.region == _SHARED and report.offset >= _find_end(shared):
        remedy = _REMEDIES["dynamic"]
    fact = {
        "out of bounds": f"{does} {bytes_of} out of bounds, {where}",
        "misaligned": f"{does} {bytes_of} at an address that is not a multiple of {report.nbytes}, {where}",
        "uninitialised": (
            f"uses the value of lane {report.text.decode()}, which takes no part in the shuffle at "
            f"{_find_words(other, sites)}"
            if is_of_lane
            else "uses a variable that nothing has set"
            if is_register
            else f"reads {bytes_of} that nothing has written, {where}"
        ),
        "overflow": f"computes the index {report.text.decode()}, which does not fit in 32 bits",
        "race": f"{does} {where}",
        "divergent barrier": (
            "waits at a barrier while other threads of its block wait at another one"
            if other.site != runtime.NOWHERE
            else f"waits at a barrier that {_describe_thread(other)} has passed by"
        ),
        "deadlock": "waits at a barrier that other threads never reach",
        "read-only": f"writes {where}, which is read-only",
        "endless": "has not left a loop after very many turns",
        "stack overflow": "has used up its stack",
        "segmentation fault": f"uses memory {where}"
        if report.region == _NOWHERE
        else f"uses an address that is no memory of the launch, {where}",
        "assertion": f"fails an assertion: {report.text.decode(errors='replace')}",
        "trap": f"executes a trap{_in_brackets(report)}",
        "unsupported": f"reaches {_quote_instruction(here, sites)!r}, which does not run on a CPU",
        "bad mask": "calls a warp function with a mask of threads that do not take part",
        "out of memory": f"gets no memory{_in_brackets(report)}",
        "bad free": "frees what is not an allocation of a kernel",
    }[kind]
    if kind == "race":
        also = _OPERATIONS[bool(other.flags & runtime.WRITE)]
        fact += f", which {_describe_thread(other)} {also} at {_find_words(other, sites)} without order between them"
    elif other.site != runtime.NOWHERE and not is_of_lane:
        fact += f" ({_describe_thread(other)}, {_find_words(other, sites)})"
    is_known = here.site < len(sites)  # without checks neither the place nor the thread
    where_at = f", {_find_words(here, sites)}: {_describe_thread(here)}" if is_known else ": a thread"
    line = sites[here.site].source_line if is_known else 0
    message = f"{kernel}(){where_at} {fact}; {remedy}"
    raise KernelFaultError(
        message, kind=kind, kernel=kernel, line=line, thread=tuple(here.tid), block=tuple(here.ctaid), index=index
    )


def raise_unset(kernel: str, site: FaultSite) -> None:
    """Raise that a kernel uses a variable which nothing sets, as the source shows without a run.

    Raises:
        KernelFaultError: Always.
    """
    message = f"{kernel}(), line {site.line}: uses a variable that nothing has set; {_REMEDIES['unset']}"
    raise KernelFaultError(message, kind="uninitialised", kernel=kernel, line=site.line)


def _describe_thread(location: runtime.ThreadLocation) -> str:
    return f"thread {tuple(location.tid)} of block {tuple(location.ctaid)}"


def _find_words(location: runtime.ThreadLocation, sites: Sequence[FaultSite]) -> str:
    return sites[location.site].words if location.site < len(sites) else "a line that is not known"


def _quote_instruction(location: runtime.ThreadLocation, sites: Sequence[FaultSite]) -> str:
    return sites[location.site].instruction if location.site < len(sites) else "an instruction"


def _in_brackets(report: runtime.FaultReport) -> str:
    text = report.text.decode(errors="replace")
    return f" ({text})" if text else ""


def _demangle(name: str) -> str:
    """The last name in a mangled one, such as ``_ZZ4stepPfE4tile``: that of a variable in a kernel."""
    if not name.startswith("_Z"):
        return name
    found, at = "", 0
    while at < len(name):
        digits = _DIGITS.match(name, at)
        if digits is None:
            at += 1
            continue
        at = digits.end() + int(digits[0])
        found = name[digits.end() : at] or found
    return found or name


def _find_end(shared: Sequence[SharedVariable]) -> int:
    """Where dynamic shared memory begins in the window, at the least."""
    return shared[-1].offset + shared[-1].nbytes + REDZONE if shared else SHARED_BEGIN


def _locate(
    report: runtime.FaultReport, memories: Sequence[KernelMemory], shared: Sequence[SharedVariable]
) -> tuple[str, int | None]:
    """The memory of an access in words, and the index of the element; None where there is no index."""
    if report.region >= 0:
        operand = memories[report.region]
        nbytes, dtype = operand.memory.nbytes, operand.memory.dtype
        if operand.kind != "argument":
            return f"{operand.words} at byte {report.offset} of {nbytes}", None
        index, size = (each // max(dtype.itemsize, 1) for each in (report.offset, nbytes))
        return f"{operand.words} at index {index} of {size} element{'s' * (size != 1)} of {dtype}", index
    if report.region == _SHARED:
        if report.offset < SHARED_BEGIN:
            return f"shared memory at byte {report.offset}, where no variable is", None
        if report.offset >= _find_end(shared):
            return "dynamic shared memory", None
        # Redzones are as wide on both sides: an access between two variables is nearest to one of them.
        nearest = min(
            shared, key=lambda each: max(each.offset - report.offset, report.offset - each.offset - each.nbytes)
        )
        byte = report.offset - nearest.offset
        return f"shared variable {_demangle(nearest.name)!r} at byte {byte} of {nearest.nbytes}", None
    if report.region == _LOCAL:
        return f"local memory at byte {report.offset}", None
    address = report.offset & (2**64 - 1)
    text = f"at address {address:#x}{' (a null pointer)' * (address < _NULL_NBYTES)}, in no array of the launch"
    return report.text.decode(errors="replace") or text, None
