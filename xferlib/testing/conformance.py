"""The whole suite in one class."""

from __future__ import annotations

from xferlib.testing.copies import Copies
from xferlib.testing.streams import Streams
from xferlib.testing.transfers import Transfers


class BackendConformance(Copies, Transfers, Streams):
    """Every sentence of the semantics, as tests of one backend on one device.

    Subclass it in a test module and name the backend; pytest does the rest.
    """
