"""The same with pinned sources: one call pins an array, whatever its shape and dtype."""

import numpy as np
from pageable_xferlib import SHAPE, run

import xferlib as xl


def main() -> None:
    a = np.ones(SHAPE)
    pinned = xl.pinned_array(a)
    assert (pinned.shape, pinned.dtype) == (a.shape, a.dtype)
    assert np.array_equal(pinned, a)
    da, db = run(pinned, xl.pinned_array(a))
    print(f"sums {xl.to_host(da).sum():g} and {xl.to_host(db).sum():g}")


if __name__ == "__main__":
    main()
