"""Copies: what a call means, which path an array takes, and the executors of each path."""
