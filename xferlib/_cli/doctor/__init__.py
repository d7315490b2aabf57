"""``xferlib doctor``: checks of this machine, each a file; the child processes in which libraries are tried."""
