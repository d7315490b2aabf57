"""A progress bar on a terminal: rich's if that is installed, else a line."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

_WIDTH = 30
_EVERY_S = 0.1


class Progress:
    """Shows how many rows are done.

    Args:
        shows: True: on standard error; a function: it is called with the rows done and all rows; False: nothing.
        total: Rows in all.
        done: Rows done already.
    """

    def __init__(self, shows: bool | Callable[[int, int], Any], total: int, done: int) -> None:
        self._total = total
        self._done = -1
        self._shows = shows
        self._bar: Any = None
        self._last_s = 0.0
        self._began = (time.perf_counter(), done)
        if shows is True and sys.stderr.isatty() and find_spec("rich") is not None:
            self._bar = _rich_bar()
            self._task = self._bar.add_task("stream_map", total=total)
            self._bar.start()
        self.report(done)

    def report(self, done: int) -> None:
        """Show the number of rows that are done."""
        if done == self._done or self._shows is False:
            return
        before, self._done = self._done, done
        if callable(self._shows):
            self._shows(done, self._total)
        elif self._bar is not None:
            self._bar.update(self._task, completed=done)
        elif sys.stderr.isatty():
            self._draw()
        elif self._total and done * 10 // self._total > max(before, 0) * 10 // self._total:
            print(f"stream_map: {done} of {self._total} rows", file=sys.stderr)

    def _draw(self) -> None:
        now = time.perf_counter()
        if now - self._last_s < _EVERY_S and self._done < self._total:
            return
        self._last_s = now
        share = self._done / self._total if self._total else 1.0
        speed = (self._done - self._began[1]) / max(now - self._began[0], 1e-9)
        bar = ("#" * round(share * _WIDTH)).ljust(_WIDTH, ".")
        sys.stderr.write(f"\r\x1b[Kstream_map [{bar}] {share:4.0%} {speed:,.0f} rows/s")
        sys.stderr.flush()

    def close(self) -> None:
        """Leave the bar as it is, and go to the next line."""
        if self._bar is not None:
            self._bar.stop()
        elif self._shows is True and sys.stderr.isatty():
            sys.stderr.write("\n")


def _rich_bar() -> Any:
    from rich import progress
    from rich.console import Console

    return progress.Progress(
        progress.TextColumn("{task.description}"), progress.BarColumn(), progress.TaskProgressColumn(),
        progress.MofNCompleteColumn(), progress.TimeRemainingColumn(), console=Console(stderr=True),
    )  # fmt: skip
