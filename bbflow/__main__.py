"""``python -m bbflow`` is the command ``bbflow``."""

import sys

from bbflow.cli import main

sys.exit(main())
