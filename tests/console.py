"""The ``xferlib`` command, as the installed script calls it."""

from importlib.metadata import entry_points

main = entry_points(group="console_scripts")["xferlib"].load()
