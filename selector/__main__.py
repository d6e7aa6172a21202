"""`python -m selector` is `attention-selector`."""

import sys

from selector.command import main

sys.exit(main())
