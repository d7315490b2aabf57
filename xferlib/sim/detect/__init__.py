"""The race detector and its reports."""
