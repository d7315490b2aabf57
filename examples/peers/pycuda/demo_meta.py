"""A kernel whose source Python writes, unrolled (PyCUDA: demo_meta_codepy, demo_meta_template, demo_meta_cgen)."""

import numpy as np

import xferlib as xl

STRIDES, BLOCK, BLOCKS = 16, 256, 33
LINES = [f"    c[at + {k * BLOCK}] = a[at + {k * BLOCK}] + b[at + {k * BLOCK}];" for k in range(STRIDES)]
SOURCE = f"""
extern "C" __global__ void add(float *c, const float *a, const float *b) {{
    const int at = threadIdx.x + {STRIDES * BLOCK} * blockIdx.x;
{chr(10).join(LINES)}
}}"""


def main() -> None:
    a, b = np.random.default_rng(0).normal(size=(2, STRIDES * BLOCK * BLOCKS)).astype("float32")
    add = xl.raw_module(SOURCE).get_function("add")
    c = xl.empty(a.shape, "float32")
    add(BLOCKS, BLOCK, (c, *xl.tree.to_device((a, b))))
    print(f"norm of the difference: {np.linalg.norm(xl.to_host(c) - (a + b))}")


if __name__ == "__main__":
    main()
