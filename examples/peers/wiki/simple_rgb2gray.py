"""A colour image made gray (PyCUDA's wiki: simple_rgb2gray, with colours of its own in place of a file)."""

import numpy as np

import xferlib as xl

gray = xl.elementwise("float r, float g, float b", "float y", "y = 0.299 * r + 0.587 * g + 0.114 * b")


def main(side: int = 256) -> None:
    image = np.random.default_rng(0).integers(0, 256, (side, side, 3)).astype("float32")
    x = xl.to_device(image)
    found = xl.to_host(gray(x[:, :, 0], x[:, :, 1], x[:, :, 2]))
    np.testing.assert_allclose(found, image @ [0.299, 0.587, 0.114], rtol=1e-6)
    print(f"mean brightness {found.mean():.2f}")


if __name__ == "__main__":
    main()
