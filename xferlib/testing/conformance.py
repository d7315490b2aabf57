"""The whole suite in one class."""

from __future__ import annotations

from xferlib.testing.choosing import Choosing
from xferlib.testing.copies import Copying
from xferlib.testing.overlapping import Overlapping
from xferlib.testing.pinning import Pinning
from xferlib.testing.processes import Processes
from xferlib.testing.streams import Ordering
from xferlib.testing.tracing import Tracing
from xferlib.testing.transfers import Transfers


class BackendConformance(Choosing, Copying, Transfers, Ordering, Pinning, Tracing, Overlapping, Processes):
    """Every sentence of the semantics, as tests of one backend on one device.

    Subclass it in a test module and name the backend; pytest does the rest.
    """
