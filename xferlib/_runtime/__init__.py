"""The lowest layer: settings, threads and jobs, Ctrl-C, fork, exit, the user's line of code."""
