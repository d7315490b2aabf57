"""The devices that there are (PyCUDA: examples/dump_properties.py)."""

import xferlib as xl


def main() -> None:
    for device in xl.get_backend().devices():
        print(f"{device}: {device.properties.name}")
        if device.kind == "cuda":
            print(f"  compute capability {device.properties.compute_capability}, {device.total_memory >> 10} KiB")
            for name in ("warp_size", "max_threads_per_block", "multiprocessor_count", "clock_rate"):
                print(f"  {name}: {device.attribute(name)}")


if __name__ == "__main__":
    main()
