"""The Array API for libraries without a namespace: PyCUDA's arrays and the simulator's."""
