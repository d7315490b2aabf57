"""Things that outlive the interpreter, whenever it is that they are kept."""

from __future__ import annotations

import subprocess
import sys

import pytest

_SCRIPT = """
import builtins, os, sys
from xferlib._runtime import process as _immortal


class Stream:
    def __del__(self):
        os.write(1, b"destroyed")


class Guard:
    def __init__(self):
        self.stream = Stream()

    def __del__(self, keep=_immortal.keep):
        keep(self.stream)


if sys.argv[1] == "at once":
    kept = Stream()
    _immortal.keep(kept)
else:
    builtins.held = Guard()  # dies when there is nothing to be imported any more
"""


@pytest.mark.parametrize("when", ["at once", "at the end"])
def test_a_kept_object_is_never_destroyed(when: str) -> None:
    done = subprocess.run([sys.executable, "-c", _SCRIPT, when], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
