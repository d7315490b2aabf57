"""``with`` blocks that choose a backend, a device or a stream: of an asynchronous task, as context variables are.

The array libraries have a current device and a current stream for each thread, and tasks of one thread take turns. So a
context variable tells in which blocks the running code is, and each thread remembers which of them it has made true in
the libraries: `follow` brings the two together. Calls of xferlib that need a current stream or device ask for it. An
event loop of asyncio does before each step of a task, and takes it back behind that, from the first block that is
entered in the loop: so the libraries' own operations follow, too. Where another scheduler changes the context, or one
thread gives its context to another (`asyncio.to_thread`), they do from xferlib's next call on.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Protocol, TypeAlias

from xferlib._runtime import process
from xferlib.errors import BlockError

_modules = sys.modules  # bound here: blocks may be entered at each call of a program

Undo: TypeAlias = Callable[[], object]


class Change(Protocol):
    """A change of what is current in a thread."""

    def make(self, undo: list[Undo]) -> None:
        """Make it; of each part ``undo`` gets first what takes it back."""


class EnteredBlock:
    """A ``with`` block, from its begin to its end.

    Args:
        what: The object that was entered.
        scope: The default backend in the block; None: as around it.
        changes: What it changes in the libraries.
    """

    __slots__ = ("changes", "scope", "token", "what")

    token: Token[Blocks]
    """Tells the context that has entered the block from the copies that tasks and threads get. The running task would
    not: several may share one context, as the parts of an asynchronous test do."""

    def __init__(self, what: object, scope: str | None, changes: tuple[Change, ...] = ()) -> None:
        self.what = what
        self.scope = scope
        self.changes = changes

    def alter(self, scope: str | None, changes: tuple[Change, ...]) -> EnteredBlock:
        """The block behind a choice that holds until its end."""
        block = EnteredBlock(self.what, scope or self.scope, (*self.changes, *changes))
        block.token = self.token
        return block


Blocks: TypeAlias = "tuple[EnteredBlock, ...]"

_here: ContextVar[Blocks] = ContextVar("xferlib_blocks", default=())
here = _here.get
"""Returns the blocks around the running code, the innermost last."""


def scope() -> str | None:
    """The default backend of this context; None outside any block that chooses one."""
    for block in reversed(_here.get()):
        if block.scope is not None:
            return block.scope
    return None


# --- in a thread


class MadeBlock:
    """A block that a thread has made true in the libraries."""

    __slots__ = ("block", "is_whole", "undo")

    def __init__(self, block: EnteredBlock) -> None:
        self.block = block
        self.is_whole = False
        self.undo: list[Undo] = []


_UNKNOWN: Blocks = (EnteredBlock(None, None),)
"""The blocks of no context: the next look makes true what should be."""


moves = [1]
"""A number, another one after each change of the blocks that a thread has made true: C compares it."""
_numbers = itertools.count(1000)  # beyond the integers that Python shares


class _ThreadBlocks:
    """The blocks that are made true in one thread."""

    __slots__ = ("here", "made")

    def __init__(self) -> None:
        self.made: list[MadeBlock] = []
        self.here: Blocks | None = ()
        """The context's blocks that are made true; None while they change."""


class _Local(threading.local):
    def __init__(self) -> None:
        self.blocks = _ThreadBlocks()  # an object of its own: each attribute of a thread's takes ten times as long


_local = _Local()


def follow() -> Blocks:
    """Make the thread's current devices and streams those of the context, whose blocks it returns."""
    blocks = _here.get()
    if blocks is not (mine := _local.blocks).here:
        _become(blocks, mine)
    return blocks


def list_thread_blocks() -> list[MadeBlock]:
    """The blocks that are made true in this thread; a library that is met later adds to them."""
    return _local.blocks.made


def _become(blocks: Blocks, mine: _ThreadBlocks) -> None:
    if mine.here is None:  # a change asks for what is current
        return
    mine.here = None
    stack = mine.made
    try:
        common, most = 0, min(len(stack), len(blocks))  # not zip(), which takes ten times as long
        while common < most and stack[common].block is blocks[common] and stack[common].is_whole:
            common += 1
        while len(stack) > common:
            undo = stack[-1].undo
            while undo:  # Ctrl-C may come in between: what is done twice does no harm
                undo[-1]()
                del undo[-1]
            del stack[-1]
        for block in blocks[common:]:
            made = MadeBlock(block)
            stack.append(made)
            for change in block.changes:
                change.make(made.undo)
            made.is_whole = True
        mine.here = blocks
    except BaseException:
        mine.here = _UNKNOWN
        raise
    finally:
        moves[0] = next(_numbers)


# --- begin and end


class Enterable:
    """An object that begins a block, by `enter`, and ends it."""

    __slots__ = ()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        around = None
        try:
            around = _here.get()
            _leave(self, around, error)
        except KeyboardInterrupt:  # once more from the same blocks, for what may have been left undone
            _leave(self, _here.get() if around is None else around, error, is_again=True)
            raise


def enter(what: Enterable, scope: str | None, changes: tuple[Change, ...] = ()) -> None:
    """Begin a block, as `EnteredBlock` describes it; after an error, or Ctrl-C, it is not entered."""
    around = None
    try:
        around = _here.get()
        if not process.scopes:
            process.scopes.append(None)
        if changes:
            _watch_loop()
        mine = _local.blocks
        if around is not mine.here:
            _become(around, mine)
        block = EnteredBlock(what, scope, changes)
        blocks = (*around, block)
        block.token = _here.set(blocks)
        if changes:
            _become(blocks, mine)
        else:  # in a tenth of the time
            made = MadeBlock(block)
            made.is_whole = True
            mine.here = _UNKNOWN  # for Ctrl-C
            mine.made.append(made)
            mine.here = blocks
    except BaseException:
        if around is not None:
            restore(around)
        raise


def make_entry_error(what: object) -> BlockError:
    """The error of a block that ends without having begun."""
    return BlockError(
        f"{what!r}: its block has not been entered here, or has been left; leave each block once, in the task that "
        "entered it"
    )


def restore(blocks: Blocks) -> None:
    """Make these the blocks of the context, and true in the thread."""
    _here.set(blocks)
    if blocks is not (mine := _local.blocks).here:
        _become(blocks, mine)


def _leave(what: Enterable, blocks: Blocks, error: BaseException | None, *, is_again: bool = False) -> None:
    """End the innermost block of an object, where ``blocks`` are those of the context.

    Raises:
        BlockError: There is none, or it is another context's: nothing is done. Or blocks within it go on: it is ended,
            and the error of the block, if there is one, tells more.
    """
    mine, number = _local.blocks, len(blocks) - 1
    while number >= 0 and blocks[number].what is not what:
        number -= 1
    if number < 0:
        raise make_entry_error(what)
    try:
        _here.reset(blocks[number].token)
    except (ValueError, RuntimeError) as refused:  # another context's; used before
        if not is_again or isinstance(refused, ValueError):
            raise BlockError(f"{what!r}: its block was entered by another task, or thread; leave it there") from None
    rest = (*blocks[:number], *blocks[number + 1 :])
    if number == len(rest) and mine.here is blocks and not mine.made[-1].undo:  # the usual end of an unchanging block
        mine.here = _UNKNOWN  # for Ctrl-C
        _here.set(rest)
        del mine.made[-1]
        mine.here = rest
        return
    restore(rest)
    if number < len(rest) and error is None:
        raise BlockError(
            f"{what!r}: its block is left before that of {rest[-1].what!r} within it; leave the inner one first, and "
            "end generators that wait in blocks in the opposite order"
        )


def alter(scope: str | None, changes: tuple[Change, ...] = (), *, is_chosen: bool = False) -> bool:
    """Let a choice hold until the end of the innermost block, with ``is_chosen`` of one that has chosen a backend.

    Returns:
        False, a no-op, outside of such blocks.
    """
    blocks = follow()
    number = next((n for n in reversed(range(len(blocks))) if blocks[n].scope is not None or not is_chosen), None)
    if number is None:
        return False
    restore((*blocks[:number], blocks[number].alter(scope, changes), *blocks[number + 1 :]))
    return True


# --- asyncio


class _Step:
    """A call that an event loop makes: in it the thread is in the blocks of the call's context, and behind it again in
    those before."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __call__(self, *args: Any) -> Any:
        mine = _local.blocks
        around = _outside.pop(threading.get_ident(), mine.here)
        follow()
        try:
            return self._call(*args)
        finally:
            if mine.here is not around and around is not None:
                _become(around, mine)

    def __repr__(self) -> str:
        return repr(self._call)


_outside: dict[int, Blocks | None] = {}
"""The blocks around the loops whose step, in which they were first watched, has not ended: by thread."""


def _watch_loop() -> None:
    """Let the running event loop make each of its steps in the step's own blocks."""
    events = _modules.get("asyncio.events")  # which a program without it need not import
    loop: Any = events._get_running_loop() if events is not None else None
    if loop is None or isinstance(getattr(loop.call_soon, "__self__", None), _Watch):
        return
    for name in ("call_soon", "call_soon_threadsafe", "call_at"):
        setattr(loop, name, _Watch(getattr(loop, name), has_time=name == "call_at").call)
    for handle in [*getattr(loop, "_ready", ())]:
        if handle._callback is not None:  # else it was cancelled
            handle._callback = _Step(handle._callback)
    _outside[threading.get_ident()] = _local.blocks.here


class _Watch:
    """The method of an event loop by which it is given calls."""

    def __init__(self, own: Callable[..., Any], *, has_time: bool) -> None:
        self._own = own
        self._has_time = has_time

    def call(self, *args: Any, **options: Any) -> Any:
        at = int(self._has_time)
        if len(args) > at and callable(args[at]):
            args = (*args[:at], _Step(args[at]), *args[at + 1 :])
        return self._own(*args, **options)
