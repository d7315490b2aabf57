"""The shapes of the parameters of published networks, in the order in which their authors' code has them."""

from __future__ import annotations

from collections.abc import Callable

Shape = tuple[int, ...]


def resnet50() -> list[Shape]:
    """161 tensors, 25.6 million numbers: He et al., Deep Residual Learning for Image Recognition, 2015."""
    shapes: list[Shape] = [(64, 3, 7, 7), (64,), (64,)]
    given = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            convolutions = [(width, given, 1, 1), (width, width, 3, 3), (4 * width, width, 1, 1)]
            if not block:
                convolutions.append((4 * width, given, 1, 1))
            for shape in convolutions:
                shapes += [shape, (shape[0],), (shape[0],)]
            given = 4 * width
    return [*shapes, (1000, 2048), (1000,)]


def bert_base() -> list[Shape]:
    """197 tensors, 108.9 million numbers: Devlin et al., BERT, 2018; without the pooler."""
    shapes: list[Shape] = [(30522, 768), (512, 768), (2, 768), (768,), (768,)]
    for _ in range(12):
        for rows, columns in ((768, 768),) * 4:
            shapes += [(rows, columns), (rows,)]
        shapes += [(768,), (768,), (3072, 768), (3072,), (768, 3072), (768,), (768,), (768,)]
    return shapes


def decoder_1b() -> list[Shape]:
    """201 tensors, 1.1 billion numbers: Zhang et al., TinyLlama, 2024."""
    shapes: list[Shape] = [(32000, 2048)]
    for _ in range(22):
        shapes += [(2048, 2048), (256, 2048), (256, 2048), (2048, 2048)]
        shapes += [(5632, 2048), (5632, 2048), (2048, 5632), (2048,), (2048,)]
    return [*shapes, (2048,), (32000, 2048)]


def unet() -> list[Shape]:
    """46 tensors, 31 million numbers: Ronneberger et al., U-Net, 2015."""
    widths = (64, 128, 256, 512, 1024)
    shapes: list[Shape] = []

    def convolved(given: int, width: int) -> None:
        for each in (given, width):
            shapes.extend([(width, each, 3, 3), (width,)])

    for given, width in zip((1, *widths), widths, strict=False):
        convolved(given, width)
    for width in widths[-2::-1]:
        shapes.extend([(2 * width, width, 2, 2), (width,)])
        convolved(2 * width, width)
    return [*shapes, (2, 64, 1, 1), (2,)]


NETWORKS: dict[str, Callable[[], list[Shape]]] = {
    "ResNet-50": resnet50,
    "BERT-base": bert_base,
    "decoder of 1.1 billion": decoder_1b,
    "U-Net": unet,
}
