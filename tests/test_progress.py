"""Progress bars over long work, as the documentation writes them."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xferlib as xl

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "overlap.md"
DATA = np.arange(1000.0).reshape(500, 2)


def block(text: str) -> str:
    """The page's program that holds a text."""
    (found,) = (each for each in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL) if text in each)
    return str(found)


@pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not beside the tests")
@pytest.mark.parametrize("library", ["tqdm", "rich"])
def test_the_bars_of_the_page_count_rows(library: str, backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip(library)
    names: dict[str, Any] = {"xl": xl, "np": np, "data": DATA, "largest": lambda chunk: xl.to_host(chunk).max()}
    exec(block(f"from {library}."), names)
    if library == "tqdm":
        assert names["bar"].n == len(DATA)
        assert "500/500" in capsys.readouterr().err
    else:
        (task,) = names["bars"].tasks
        assert task.completed == task.total == len(DATA)


def test_a_bar_goes_on_where_an_interrupted_map_does() -> None:
    tqdm = pytest.importorskip("tqdm")
    chunks = iter(range(10))

    def fails(chunk: Any) -> Any:
        return chunk if next(chunks) < 3 else 1 / 0

    with pytest.raises(ZeroDivisionError) as raised, tqdm.tqdm(total=len(DATA), file=io.StringIO()) as bar:
        xl.stream_map(fails, DATA, chunk_rows=100, progress=lambda done, rows: bar.update(done - bar.n))
    error: Any = raised.value
    assert bar.n <= error.rows_complete == 300
    with tqdm.tqdm(total=len(DATA), initial=error.rows_complete, file=io.StringIO()) as bar:
        xl.stream_map(
            lambda chunk: chunk, DATA, chunk_rows=100, start=error.rows_complete, out=error.out,
            progress=lambda done, rows: bar.update(done - bar.n),
        )  # fmt: skip
    assert bar.n == len(DATA)


def test_a_bar_over_a_prefetcher_knows_the_number_of_batches() -> None:
    tqdm, text = pytest.importorskip("tqdm"), io.StringIO()
    for _ in tqdm.tqdm(xl.prefetch([DATA] * 5, device="numpy"), file=text):
        pass
    assert "5/5" in text.getvalue()
