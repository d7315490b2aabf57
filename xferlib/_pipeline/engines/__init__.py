"""`stream_map` in other processes: on the workers of an executor, or on the ranks of a communicator.

A range is a few consecutive chunks. Each is computed by the same `chunk_map.ChunkMap` as in one process, so that every
chunk has the same rows, and a result the same bits.
"""
