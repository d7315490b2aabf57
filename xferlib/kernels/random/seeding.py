"""The stream of a seed: a key and the upper half of a counter, hashed from it."""

from __future__ import annotations

import numpy as np


def stream(seed: int | tuple[int, ...], path: tuple[int, ...]) -> tuple[int, int]:
    """The key of a stream, of 64 bits, and its first counter, a multiple of 2^64 below 2^128.

    NumPy's ``SeedSequence`` hashes words of 32 bits. Each number comes after its length, and all come after their
    count: without that, 5 + 3 * 2^128 would have the words, and so the stream, of child number 3 of 5.

    Args:
        seed: One number or several, each from 0 on.
        path: The numbers, below 2^32, by which generators made each other, from that of the seed to this one.
    """
    numbers = (seed,) if isinstance(seed, int) else seed
    entropy = [len(numbers), *(each for number in numbers for each in (number.bit_length(), number))]
    words = np.random.SeedSequence(entropy, spawn_key=path).generate_state(4, np.uint32).tolist()
    return words[0] | words[1] << 32, words[2] << 64 | words[3] << 96
