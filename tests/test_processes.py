"""The processes that tests run programs in: one that is forked is as one that is started."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import processes
from xferlib.kernels import host_compiler

STATE = """
import atexit, os, random, signal, sys, threading
numbers = [int(each) for each in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + each)]
masks = [line for line in open("/proc/self/status") if line.startswith("Sig") and "SigQ" not in line]
print(sorted(numbers), masks, signal.getsignal(signal.SIGINT))
print(threading.active_count(), len(os.listdir("/proc/self/task")))
print(os.getcwd(), os.getsid(0) == os.getpid(), sys.argv, [each for each in sys.path if "tests" not in each])
print(sys.stdin.read() == "", sys.stdout.line_buffering, sys.stdout.encoding, sys.stderr.encoding, sys.flags, __name__)
print(dict(os.environ) == eval(sys.argv[1]), "__file__" in globals(), vars(sys.modules["__main__"]) is globals())
"""
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="programs are forked on Linux alone")


@needs_linux
def test_a_forked_program_finds_the_state_of_a_process_that_was_started(tmp_path: Path) -> None:
    environ = {**os.environ, "XFERLIB_OF_A_TEST": "1", "PYTHONPATH": processes.path_with(processes.ROOT, tmp_path)}
    found = [
        processes.printed("-c", STATE, repr(environ), cwd=tmp_path, environ=environ, after=after)
        for after in ((), processes.NUMPY)
    ]
    assert found[0] == found[1]


ENDS: dict[str, tuple[str, Any]] = {
    "a status": ("import sys; sys.exit(3)", 3),
    "an error": ("1 / 0", 1),
    "a text": ("raise SystemExit('that is all')", 1),
    "a signal": ("import os; os.kill(os.getpid(), 6)", -signal.SIGABRT),
    "Ctrl-C": ("import os, signal; os.kill(os.getpid(), signal.SIGINT); signal.pause()", -signal.SIGINT),
    "without buffers": ("import os; print(1); os._exit(4)", 4),
    "atexit": ("import atexit; atexit.register(print, 'the end'); print('before')", 0),
    "a thread": ("import threading; threading.Timer(0.01, print, ['of a thread']).start()", 0),
}


@needs_linux
@pytest.mark.parametrize("name", ENDS)
def test_a_forked_program_ends_as_one_that_was_started(name: str) -> None:
    program, status = ENDS[name]
    started, forked = (processes.run("-c", program, after=after) for after in ((), processes.NUMPY))
    assert started.returncode == forked.returncode == status
    assert started.stdout == forked.stdout
    assert started.stderr.splitlines()[-1:] == forked.stderr.splitlines()[-1:]


def test_variables_that_are_read_at_the_start_are_those_of_the_program() -> None:
    program = "import sys; print(sys.flags.hash_randomization, sys.flags.dev_mode, sys.warnoptions)"
    given = {"PYTHONHASHSEED": "0", "PYTHONDEVMODE": "1", "PYTHONWARNINGS": "error"}
    assert processes.printed("-c", program, **given) == "0 True ['default', 'error']\n"


@needs_linux
def test_a_process_that_forks_programs_and_is_killed_is_told_of_and_replaced() -> None:
    modules = ("json",)  # of no other test
    with pytest.raises(RuntimeError, match="that forks the programs of tests has ended: -9"):
        processes.run("-c", "import os; os.kill(os.getppid(), 9)", after=modules)
    assert processes.printed("-c", "print(1)", after=modules) == "1\n"


@needs_linux
def test_a_program_that_hangs_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "HANG_S", 0.1)
    assert processes.run("-c", "while True: pass").returncode == -signal.SIGKILL


TEXTS = """
import hashlib
import numpy as np
import xferlib as xl
from xferlib.kernels import host_compiler
load, texts = host_compiler.load_c, []
def load_c(source, *, flags, **given):
    texts.append((source, flags))
    return load(source, flags=(*flags, "-O0"), **given)
host_compiler.load_c = load_c
x, y = np.arange(24.0).reshape(4, 6), np.arange(24, dtype="f4").reshape(4, 6)
struct = "struct P { T a; T b; T sum() { return a + b; } }; T twice(T v) { return 2 * v; }"
snippet = "P p = {x, w[i]}; y = twice(p.sum()); z = sin(x);"
xl.elementwise(lambda a, b: (np.sin(a) + np.arctan2(a, b), np.exp(b), a > b, np.hypot(a, b)))(x, y)
xl.elementwise("T x, raw T w", "T y, T z", snippet, preamble=struct)(x, y.astype("f8"))
xl.reduction("T x, T w", "T y", map_expr="x * exp(w)", reduce_expr="a + b")(x, x, axis=1)
xl.scan("a * b + a")(x.ravel())
print(len(texts), hashlib.sha256(repr(texts).encode()).hexdigest())
"""


@pytest.mark.skipif(host_compiler.find_compiler() is None, reason="there is no C compiler")
def test_the_texts_of_kernels_do_not_depend_on_the_seed_of_hashes() -> None:
    """Programs that are forked share it: what is ordered as a set would have no other order in any of them."""
    found = {processes.printed("-c", TEXTS, PYTHONHASHSEED=seed, XFERLIB_CPU="native") for seed in ("1", "2")}
    assert len(found) == 1
    assert int(found.pop().split()[0]) >= 4
