"""The drivers, which carry data between processes: one module for each library, primitives only."""
