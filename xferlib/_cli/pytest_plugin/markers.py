"""The markers, by name, as ``pytest --markers`` shows them."""

MARKERS = {
    "gpu": "gpu: skip the test unless a backend of xferlib can use a GPU; with xl_backend it runs on those backends",
    "multi_gpu": "multi_gpu(n=2): as gpu, for tests that need n GPUs",
}
