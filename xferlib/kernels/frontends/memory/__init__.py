"""Memory that a snippet reaches by more than a name: its own arrays, pointers and references."""
