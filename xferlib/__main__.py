"""``python -m xferlib``."""

import sys

from xferlib._cli.main import main

if __name__ == "__main__":
    sys.exit(main())
