"""Several arrays in one launch, described by structs in the device's memory (PyCUDA: examples/demo_struct.py).

The structs hold where each array begins, not its address, so that the program is the same on every backend.
"""

import numpy as np

import xferlib as xl

SOURCE = """
struct Part { int start, count; };
extern "C" __global__ void twice(const Part *parts, float *data) {
    const Part part = parts[blockIdx.x];
    for (int i = threadIdx.x; i < part.count; i += blockDim.x) data[part.start + i] *= 2;
}"""


def main() -> None:
    parts, data = xl.to_device(np.array([[0, 3], [3, 2]], "int32")), xl.to_device(np.array([1, 2, 3, 0, 4], "float32"))
    twice = xl.raw_module(SOURCE).get_function("twice")
    for name, chosen in (("both", parts), ("the second", parts[1:])):
        twice(len(chosen), 32, (chosen, data))
        print(f"doubled {name}: {xl.to_host(data).tolist()}")


if __name__ == "__main__":
    main()
