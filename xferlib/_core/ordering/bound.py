"""Objects that belong to a process: a copy is the object itself, and another process makes its own."""

from __future__ import annotations

from typing import Any, NoReturn, Self

from xferlib.errors import StreamTypeError


class ProcessBound:
    """The base of objects that stand for something of this process's driver."""

    __slots__ = ()
    _elsewhere = ""
    """The remedy of the message: it says how another process gets such an object."""

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise StreamTypeError(
            f"{type(self).__name__} objects belong to their process and cannot be pickled; {self._elsewhere}"
        )
