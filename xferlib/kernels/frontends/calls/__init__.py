"""Calls in snippets: functions of the preamble, atomic functions, methods of arrays, indices and numbers."""
