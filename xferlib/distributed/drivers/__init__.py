"""The libraries that carry data between processes: one module for each library, primitives only."""
