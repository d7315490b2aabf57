"""xferlib imports without CUDA and without loading any array library but NumPy; it says what is missing and why."""

import sys

import xferlib as xl


def main() -> None:
    print("loaded by the import:", ", ".join(sorted({"numpy", "torch", "cupy", "pycuda"} & set(sys.modules))))
    for name, status in xl.available_backends().items():
        print(f"{name}: {status}")
    try:
        xl.use_backend("abacus")
    except xl.errors.XferError as error:
        print(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
