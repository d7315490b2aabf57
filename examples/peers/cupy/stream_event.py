"""The time that a computation takes on its device, by events on three streams (CuPy: examples/stream/cupy_event.py)."""

from typing import Any

import xferlib as xl


def timed_norm(x: Any) -> float:
    start = xl.current_stream().record()
    y = xl.kernels.reductions.norm(x)
    elapsed_ms = xl.current_stream().record().elapsed_ms(start)
    print(f"{xl.current_stream().device}: {elapsed_ms:.3f} ms")
    return float(xl.to_host(y))


def main() -> None:
    x = xl.to_device([1.0, 2, 3])
    expected = timed_norm(x)
    xl.synchronize()
    with xl.Stream():
        inside = timed_norm(x)
    before = xl.current_stream()
    xl.Stream().use()
    assert timed_norm(x) == inside == expected
    before.use()
    print(f"norm {expected:.6f} on each stream")


if __name__ == "__main__":
    main()
