"""An array sorted on its device (PyCUDA's wiki: thrust_interop)."""

import numpy as np

import xferlib as xl


def main(length: int = 100) -> None:
    a = xl.random.default_rng(0).random(length, "float32")
    found = xl.to_host(xl.get_array_module(a).sort(a))
    np.testing.assert_array_equal(found, np.sort(xl.to_host(a)))
    print(f"sorted: {found[:3]} to {found[-1]}")


if __name__ == "__main__":
    main()
