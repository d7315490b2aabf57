"""Two ordinary arrays on two streams: the first is worked on while the second is still on its way.

Written with the libraries' own calls this does not overlap, because the memory is pageable; the usual
remedy is to copy it to pinned memory by hand. Here both forms overlap. Then the result comes back
into memory that exists already, and cannot be read too early.
"""

from typing import Any

import numpy as np

import xferlib as xl

SHAPE = (1000, 10_000)


def send_and_double(a: Any, b: Any) -> tuple[Any, Any, float]:
    """Copy both; double the first as soon as it is there. Returns the arrays, and by how much that came first."""
    first, second = xl.Stream(), xl.Stream()
    da, db = xl.empty(a.shape, a.dtype), xl.empty(b.shape, b.dtype)
    xl.to_device_async(a, out=da, stream=first)
    later = xl.to_device_async(b, out=db, stream=second)
    first.synchronize()  # the first copy only
    da *= 2
    doubled = xl.current_stream().record()
    copied = second.record()
    return da, later.result(), copied.elapsed_ms(doubled)


def main() -> None:
    a, b = np.ones(SHAPE), np.ones(SHAPE)
    for kind, sources in (("pageable", (a, b)), ("pinned", (xl.pinned_array(a), xl.pinned_array(b)))):
        da, db, ahead_ms = send_and_double(*sources)
        if xl.get_device().kind != "cpu":
            print(f"{kind}: doubled {ahead_ms:.1f} ms before the second copy had arrived")
        assert xl.to_host(db).sum() == b.size

    existing = np.empty(SHAPE)
    transfer = xl.to_host_async(da, out=existing)  # returns at once
    assert transfer.result() is existing  # waits until the data are complete
    print(f"doubled: {existing.min():g} to {existing.max():g}; {transfer.stats.nbytes / 1e6:.0f} MB came back")


if __name__ == "__main__":
    main()
