"""A kernel that prints (PyCUDA's wiki: using_printf and threads_and_blocks)."""

import xferlib as xl

SOURCE = """
extern "C" __global__ void say_hi() {
    printf("I am thread %d.%d of block %d.%d\\n", threadIdx.x, threadIdx.y, blockIdx.x, blockIdx.y);
}"""


def main() -> None:
    xl.raw_module(SOURCE).get_function("say_hi")((2, 2), (4, 4), ())
    xl.synchronize()


if __name__ == "__main__":
    main()
