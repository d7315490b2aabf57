"""Conformance: the environment, fork, threads, and the end of the interpreter, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import xferlib as xl
from xferlib.testing.asserts import assert_same_bits
from xferlib.testing.harness import Harness, in_threads
from xferlib.testing.settings import forced
from xferlib.testing.strategies import bits_of

_LIMIT_S = 300
"""A process that hangs fails; a busy machine does not."""


class Processes(Harness):
    """Calls keep their promises in other environments, processes and threads, and at the interpreter's end."""

    def python(self, code: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a script that has ``DEVICE`` and the usual imports, in a fresh interpreter with the same import path."""
        preamble = f"""
            import gc, os, sys, threading
            import numpy as np
            import xferlib as xl
            DEVICE, IS_ASYNC = {str(self.target_device)!r}, {self.is_async}
        """
        program = textwrap.dedent(preamble) + textwrap.dedent(code)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("XFERLIB_")}
        return subprocess.run(
            [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program],
            env={**kept, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environ},
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )

    def passes(self, code: str, **environ: str) -> str:
        """The output of a script, which must succeed without a warning."""
        done = self.python(code, **environ)
        assert done.returncode == 0, done.stderr
        assert not done.stderr.strip(), done.stderr
        return done.stdout.strip()

    def test_the_environment_names_the_default(self) -> None:
        asks = "print(xl.get_backend().name, xl.device_of(xl.zeros(2)))"
        told = f"{self.backend} {self.target_device}"
        assert self.passes(asks, XFERLIB_BACKEND=self.backend, XFERLIB_DEVICE=self._spec()) == told
        assert self.passes(asks, XFERLIB_DEVICE=str(self.target_device)) == told
        code = "xl.use_backend('numpy'); print(xl.get_backend().name)"
        assert self.passes(code, XFERLIB_BACKEND=self.backend) == "numpy"

    def _spec(self) -> str:
        device = self.target_device
        return device.kind if device.kind == "cpu" else f"{device.kind}:{device.index}"

    def test_an_environment_that_cannot_be_met_is_an_error_that_names_it(self) -> None:
        for environ, words in [
            ({"XFERLIB_BACKEND": "abacus"}, ["abacus", "registered"]),
            ({"XFERLIB_BACKEND": self.backend, "XFERLIB_DEVICE": "cuda:99"}, ["XFERLIB_DEVICE", "cuda:99"]),
            ({"XFERLIB_PINNED_LIMIT": "lots"}, ["XFERLIB_PINNED_LIMIT", "lots"]),
        ]:
            done = self.python("xl.zeros(2)", **environ)
            assert done.returncode != 0
            assert all(word in done.stderr.splitlines()[-1] for word in words), done.stderr

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
    def test_a_forked_child_gets_an_error_or_works_and_never_crashes(self) -> None:
        self.need("fork")
        self.passes(
            """
            xl.Device(DEVICE).use()  # a call that names no device means this one, in the child as well
            x = np.arange(3 << 18).reshape(-1, 3)[:, ::2]
            d = xl.to_device(x, device=DEVICE)
            pinned = xl.pinned_array(x, backend=xl.Device(DEVICE).backend)
            stream, event = xl.Stream(DEVICE), xl.Event()
            stream.record(event)
            assert (xl.to_host(d) == x).all()
            calls = {
                "to_device": lambda: xl.to_host(xl.to_device(x, device=DEVICE)),
                "to_device(pinned)": lambda: xl.to_host(xl.to_device(pinned, device=DEVICE)),
                "to_host": lambda: xl.to_host(d),
                "to_host_async": lambda: xl.to_host_async(d).result(),
                "synchronize": lambda: stream.synchronize(),
                "record": lambda: stream.record(),
                "event": lambda: event.synchronize(),
                "pinned_empty": lambda: xl.pinned_empty(5, backend=xl.Device(DEVICE).backend),
                "Stream": lambda: xl.Stream(DEVICE),
            }
            child = os.fork()
            if not child:
                status = 0
                for name, call in calls.items():
                    try:
                        found = call()
                        if IS_ASYNC or name.startswith("to_") and not (found == x).all():
                            status, _ = 1, print(name, "did not raise ForkError", file=sys.stderr)
                    except xl.errors.ForkError as error:
                        if not IS_ASYNC or "fork" not in str(error):
                            status, _ = 1, print(name, repr(error), file=sys.stderr)
                    except BaseException as error:
                        status, _ = 1, print(name, repr(error), file=sys.stderr)
                assert (xl.to_host(xl.to_device(x, backend="numpy")) == x).all()
                del d, pinned, stream, event, calls
                gc.collect()
                sys.stderr.flush()
                os._exit(status)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert (xl.to_host(d) == x).all() and (pinned == x).all()
            """
        )

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
    def test_a_transfer_that_is_in_flight_at_a_fork_is_so_in_the_parent_alone(self) -> None:
        self.need("fork")
        self.passes(
            """
            sources = [np.arange(n, dtype=np.float32)[::step] for n in (9, 3 << 14, 1 << 20) for step in (1, 2)]
            pinned = [xl.pinned_array(x, backend=xl.Device(DEVICE).backend) for x in sources]
            arrays = [xl.to_device(x, device=DEVICE) for x in sources]
            begun = [xl.to_device_async(x, device=DEVICE) for x in (*sources, *pinned)]
            begun += [xl.to_host_async(d) for d in arrays]
            child = os.fork()
            if not child:
                status = 0
                for transfer, x in zip(begun, [*sources, *pinned, *sources]):
                    for call in (transfer.done, transfer.result, lambda: transfer.result(timeout=1)):
                        try:
                            found = call()
                        except xl.errors.ForkError as error:
                            status = status or not IS_ASYNC or "fork" not in str(error)
                        else:  # it was complete
                            is_right = found is True or (xl.to_host(found) == x).all()
                            status = status or not is_right or (IS_ASYNC and transfer.is_upload and found is not True)
                    assert "Transfer of" in repr(transfer) and transfer.stats.nbytes >= 0
                del transfer, begun, arrays, pinned
                gc.collect()
                os._exit(status)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            for transfer, x in zip(begun, [*sources, *pinned, *sources]):
                assert (xl.to_host(transfer.result()) == x).all()
            """
        )

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
    def test_a_forked_child_destroys_nothing_of_its_parent(self) -> None:
        self.need("fork")
        self.passes(
            """
            xl.Device(DEVICE).use()
            for _ in range(3):  # streams that are no longer referenced, and memory that their copies used
                with xl.Stream(DEVICE) as stream:
                    xl.to_host(xl.to_device(np.arange(9.0)))
                    xl.to_device_async(np.arange(1 << 20)).result()
            with xl.prefetch(np.arange(9.0) + k for k in range(3)) as batches:
                kept = [xl.to_host(each) for each in batches]
            del stream, batches
            child = os.fork()
            if not child:
                gc.collect()
                os._exit(0)  # as multiprocessing ends its children
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert (xl.to_host(xl.to_device(kept[2])) == kept[2]).all()
            """
        )

    def test_the_interpreter_may_end_with_work_in_flight(self) -> None:
        said = self.passes(
            """
            kept = []
            source = np.ones((2000, 999), np.float32)[:, ::2]
            for number in range(12):
                kept.append(xl.to_device_async(source, device=DEVICE))
                kept.append(xl.to_host_async(kept[-1].result() if number % 2 else xl.zeros(300_000, device=DEVICE)))
            pinned = xl.pinned_zeros(300_000, backend=xl.Device(DEVICE).backend)
            stream = xl.Stream(DEVICE)
            stream.__enter__()
            kept.append(xl.to_device(pinned, device=DEVICE, stream=stream))
            kept.append(xl.pin(np.zeros(300_000), backend=xl.Device(DEVICE).backend))
            kept[-1].__enter__()
            threading.Thread(target=lambda: xl.to_host(xl.to_device(source, device=DEVICE))).start()
            print("ends")
            """
        )
        assert said == "ends"

    def test_sixteen_threads_transfer_at_once(self) -> None:
        barrier = threading.Barrier(16)

        def work(number: int) -> None:
            barrier.wait()
            for count, nbytes in enumerate((100, 40 << 10, 300 << 10, 3 << 20)):
                source = bits_of(nbytes, np.uint8, seed=number * 10 + count)
                given = source if (number + count) % 2 else self.pinned(source)
                with forced(None, chunk_nbytes=64 << 10):
                    if number % 3:
                        d = self.up(given)
                        assert_same_bits(self.down(d), source)
                    else:
                        d = self.up_async(given).result()
                        assert_same_bits(xl.to_host_async(d).result(), source)

        in_threads(work, range(16))
