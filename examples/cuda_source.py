"""The raw kernels that PyCUDA's and CuPy's documentation shows, in one program: the same output on every backend.

A product in PyCUDA's way of calling, complex numbers, a template for two types, constant memory, and a barrier of the
whole grid. On a CPU the same source runs with NVRTC (`pip install "xferlib[cuda-on-cpu]"`).
"""

import numpy as np

import xferlib as xl

SOURCE = """
#include <cooperative_groups.h>
#include <cuComplex.h>

__constant__ float weights[3];

extern "C" __global__ void multiply(float *out, const float *a, const float *b)
{
    const int i = threadIdx.x + threadIdx.y * blockDim.x;
    out[i] = a[i] * b[i];
}

extern "C" __global__ void rotate(const cuFloatComplex *z, cuFloatComplex by, cuFloatComplex *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = cuCmulf(z[i], by);
}

template <typename T> __global__ void fma(const T *x, T factor, T *y, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] += factor * x[i];
}

extern "C" __global__ void smooth(const float *x, float *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0;
    for (int k = -1; k <= 1; ++k)
        if (i + k >= 0 && i + k < n) sum += weights[k + 1] * x[i + k];
    out[i] = sum;
}

extern "C" __global__ void reverse_sums(const float *x, float *partial, float *out)
{
    auto grid = cooperative_groups::this_grid();
    const int i = grid.thread_rank(), n = grid.size();
    partial[i] = x[i] + x[(i + 1) % n];
    grid.sync();
    out[i] = partial[n - 1 - i];
}
"""
TEMPLATES = ("fma<float>", "fma<double>")


def main() -> None:
    module = xl.raw_module(SOURCE, names=TEMPLATES)
    a, b = np.random.default_rng(0).normal(size=(2, 8, 32)).astype("float32")
    x, y = xl.tree.to_device((a, b))
    out = xl.empty_like(x)

    module.get_function("multiply")(out, x, y, block=(32, 8, 1), grid=(1, 1))  # PyCUDA's way of calling
    print("multiply:", xl.to_host(out)[0, :4], (xl.to_host(out) == a * b).all())

    z = xl.to_device((a + 1j * b).ravel())
    turned = xl.empty_like(z)
    module.get_function("rotate")(4, 64, (z, 1j, turned, a.size))
    print("rotate:", xl.to_host(turned)[:2])

    for name, dtype in zip(TEMPLATES, ("float32", "float64"), strict=True):
        total = xl.to_device(b.astype(dtype))
        module.get_function(name)(2, 64, (xl.to_device(a.astype(dtype)), 0.1, total, a.size))
        print(f"{name}:", xl.to_host(total)[0, :2])

    xl.to_device(np.array([0.25, 0.5, 0.25], "float32"), out=module.get_global("weights"))
    module.get_function("smooth")((4,), (64,), (x, out, a.size))
    print("smooth:", xl.to_host(out)[0, :4])

    module.get_function("reverse_sums")(4, 64, (x, xl.empty_like(x), out), cooperative=True)
    print("reverse_sums:", xl.to_host(out).ravel()[:4])


if __name__ == "__main__":
    main()
