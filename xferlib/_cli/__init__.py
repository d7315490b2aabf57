"""The ``xferlib`` command, a module a subcommand."""
