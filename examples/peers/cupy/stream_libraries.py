"""Functions of the arrays' library on a stream (CuPy: cublas, cufft, curand, cupy_kernel, cusolver, thrust).

`with stream:` makes it current for the library too, and so does `stream.use()`, from then on.
"""

from typing import Any

import numpy as np

import xferlib as xl


def functions(xp: Any) -> dict[str, Any]:
    """The computation of each of the programs, as far as the library has it."""
    found = {
        "matmul": lambda x: x @ x.T,
        "norm": xl.kernels.reductions.norm,
        "random": lambda x: xl.random.default_rng(0).normal(size=(1, 3)),
        "sort": xp.sort,
    }
    if hasattr(xp, "fft"):
        found |= {"eigh": lambda x: xp.linalg.eigh(x + x.T)[0], "fft": lambda x: xp.fft.fft(x[0])}
    return found


def main() -> None:
    x = xl.to_device([[1.0, 0, 3], [0, 5, 0], [7, 0, 9]])
    for name, function in functions(xl.get_array_module(x)).items():
        expected = xl.to_host(function(x))
        xl.synchronize()
        with xl.Stream() as stream:
            inside = function(x)
        stream.synchronize()
        before = xl.current_stream()
        afterwards = function(xl.to_device(xl.to_host(x), stream=xl.Stream().use()))
        found = xl.to_host(afterwards)
        before.use()
        np.testing.assert_array_equal(xl.to_host(inside), expected)
        np.testing.assert_array_equal(found, expected)
        print(f"{name}: the same on three streams")


if __name__ == "__main__":
    main()
