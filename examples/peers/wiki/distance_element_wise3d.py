"""The distances of points in space from one of them (PyCUDA's wiki: distance_element_wise3d)."""

import numpy as np

import xferlib as xl

distance = xl.elementwise(
    "float px, float py, float pz, float *x, float *y, float *z, float *r",
    "r[i] = sqrt((x[i] - px) * (x[i] - px) + (y[i] - py) * (y[i] - py) + (z[i] - pz) * (z[i] - pz))",
)


def main() -> None:
    points = xl.random.default_rng(0).uniform(-100, 100, (3, 50, 50, 2), "float32")
    r = xl.empty((50, 50, 2), "float32")
    start = xl.current_stream().record()
    distance(10.0, 20.0, 30.0, points[0], points[1], points[2], r)
    print(f"{xl.current_stream().record().elapsed_ms(start):.3f} ms")
    offsets = xl.to_host(points).astype(float) - np.array([10, 20, 30]).reshape(3, 1, 1, 1)
    np.testing.assert_allclose(xl.to_host(r), np.sqrt((offsets**2).sum(axis=0)), rtol=1e-5)
    print(f"the farthest point is {xl.to_host(r).max():.2f} away")


if __name__ == "__main__":
    main()
