"""Tests of the simulator; its studies are at a tenth of their size in a short run."""
