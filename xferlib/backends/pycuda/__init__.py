"""The PyCUDA backend: arrays in the primary context, with the Array API's functions computed by xferlib's kernels."""

from __future__ import annotations

import atexit
import sys
import threading

_is_first = "pycuda.autoprimaryctx" not in sys.modules  # else its context lies where the program has imported it
import pycuda.autoprimaryctx  # noqa: E402
import pycuda.driver  # noqa: E402


def _give_back() -> None:
    """As the module's own handler, but for a context that is on no stack."""
    from pycuda.tools import clear_context_caches

    pycuda.autoprimaryctx.context = None
    clear_context_caches()


# The import has pushed the context in this thread. PyCUDA aborts the process when a thread ends with one on its stack,
# and the module's handler pops it at exit in the main thread, which has none. So it is taken off, before anything else
# can fail. Each thread that uses PyCUDA by xferlib, this one too, is given it until the thread ends.
if _is_first and threading.current_thread() is not threading.main_thread():
    pycuda.driver.Context.pop()
    atexit.unregister(pycuda.autoprimaryctx._finish_up)
    atexit.register(_give_back)

from xferlib.backends.pycuda.backend import PycudaBackend  # noqa: E402

__all__ = ["PycudaBackend"]
