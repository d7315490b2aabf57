"""One call of a communicator: its description, which errors show and the ranks compare."""

from __future__ import annotations

import functools
import hashlib
from typing import NamedTuple

DIGEST_BITS = 40


class Signature(NamedTuple):
    """All that must be the same in every rank."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    options: str = ""
    """Such as ``"op='sum'"``."""
    via: str = "host"
    """Whether host memory carries the data, or the name of the driver of devices."""

    def __str__(self) -> str:
        of = f" of shape {self.shape}, dtype {self.dtype}" if self.dtype else ""
        options = f", {self.options}" if self.options else ""
        return f"{self.name}{of}{options}{'' if self.via == 'host' else f', through {self.via}'}"


class Call(NamedTuple):
    """A signature, and the how-manieth call of its communicator it is."""

    signature: Signature
    number: int
    kind: str = "call"
    """``"message"`` for `send` and `recv`, which are counted apart."""

    def __str__(self) -> str:
        return f"{self.kind} {self.number}, {self.signature}"


@functools.lru_cache(4096)
def digest(signature: Signature) -> int:
    """Digest of a signature, the same in every process, of `DIGEST_BITS`."""
    hashed = hashlib.blake2b(repr(tuple(signature)).encode(), digest_size=DIGEST_BITS // 8)
    return int.from_bytes(hashed.digest(), "little")
