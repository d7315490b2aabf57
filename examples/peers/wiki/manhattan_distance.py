"""Three numbers taken off three times an element (PyCUDA's wiki: manhattan_distance_for_2D_array)."""

import numpy as np

import xferlib as xl

spread = xl.elementwise("int *a, float x, float y, float z", "a[i] = (a[i] - x) + (a[i] - y) + (a[i] - z)")


def main(width: int = 7) -> None:
    a = xl.to_device(np.zeros((width, width), "int32"))
    spread(a, 2, 1, 1)
    print(xl.to_host(a))


if __name__ == "__main__":
    main()
