"""Streams, events, memory, clocks and byte ranges of the simulated devices: what there is, not what happens."""
