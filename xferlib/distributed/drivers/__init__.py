"""What carries the data between processes: one module for each library, primitives only."""
