"""A thread for each device (PyCUDA's wiki: multiple_threads)."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

import xferlib as xl

add_six = xl.elementwise("T x", "T y", "y = x + 6")


def work(device: xl.Device) -> float:
    with device:
        return float(xl.to_host(add_six(xl.to_device(np.ones((1, 512), "float32")))).mean())


def main() -> None:
    devices = xl.get_backend().devices()
    with ThreadPoolExecutor() as pool:
        for device, mean in zip(devices, pool.map(work, devices), strict=True):
            print(f"{device}: {mean}")


if __name__ == "__main__":
    main()
