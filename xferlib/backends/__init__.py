"""How to add a backend.

1. Subclass `xferlib.backends.base.Backend`; its nineteen abstract methods are the primitives, and
   `Capabilities` says what the library can do besides. A library on the CPU starts from `HostBackend`
   and needs three to five short methods: `xferlib.backends.numpy` is the model. A library on CUDA
   starts from `CudaBackend` and adds how to allocate an array, read its pointer and name its current
   stream: `xferlib.backends.cupy` is the model.
2. Register the class under the entry-point group ``xferlib.backends``; the entry point's name is the
   backend's.
3. Run the conformance suite on it: `xferlib.testing`.

A backend executes and decides nothing: no validation, no defaults, no caching, no policy.
"""
