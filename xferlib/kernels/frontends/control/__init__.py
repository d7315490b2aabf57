"""Loops of C snippets that end with the data, and what a statement assigns."""
