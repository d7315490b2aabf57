"""A program that ends while daemon threads use the library: ``python exiting.py BACKEND WAY [FOLDER OF PLUG-INS]``."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

warnings.simplefilter("ignore")
backend, way, *folders = sys.argv[1:]
sys.path += folders

import xferlib as xl  # noqa: E402 - behind the folders

xl.use_backend(backend)
small, large = np.ones(1000, np.float32), np.ones(3_000_000, np.float32)
started = threading.Semaphore(0)
held: list[Any] = []


@xl.elementwise
def twice(x: Any) -> Any:
    return x + x


def endless() -> Iterator[Any]:
    while True:
        yield small
        yield large


def transfer() -> None:
    while True:
        for array in (small, large):
            xl.to_host(xl.to_device(array))
        started.release()


def asynchronous() -> None:
    while True:
        sent = [xl.to_device_async(large).result() for _ in range(3)]
        for back in [xl.to_host_async(each) for each in sent]:
            back.result()
        started.release()


def prefetch() -> None:
    for _ in xl.prefetch(endless()):
        started.release()


def stream_map() -> None:
    while True:
        xl.stream_map(lambda x: x, np.ones((400, 1000), np.float32), chunk_rows=10)
        started.release()


def kernel() -> None:
    x = xl.to_device(small)
    while True:
        twice(x)
        started.release()


def current() -> None:
    with xl.Stream(xl.get_device()):
        transfer()


def trees() -> None:
    while True:
        xl.tree.to_host(xl.tree.to_device({"a": small, "b": [large, small]}))
        started.release()


def sleeper() -> None:
    xl.to_device(small)
    started.release()
    started.release()
    time.sleep(1000)


WORKS = {
    "transfer": transfer, "asynchronous": asynchronous, "prefetch": prefetch, "stream_map": stream_map,
    "kernel": kernel, "current": current, "trees": trees, "sleeper": sleeper,
}  # fmt: skip
chosen = [WORKS[way]] * 2 if way in WORKS else [transfer, prefetch]
for work in chosen:
    threading.Thread(target=work, daemon=True).start()
for _ in range(4):
    started.acquire()
if way == "in flight":
    held += [xl.to_device_async(large) for _ in range(4)]
    held.append(next(iter(xl.prefetch(endless()))))
    xl.Stream(xl.get_device()).__enter__()
if way == "sys.exit":
    sys.exit(3)
if way == "exception":
    raise SystemError("on purpose")
if way == "fork":
    child = os.fork()
    if child == 0:
        sys.exit(0)
    sys.exit(os.waitpid(child, 0)[1])
