"""Print the folder of rules, for `--rules` and `ATTENTION_SELECTOR_RULES`."""

import sys

from flex_backend import RULES

sys.stdout.write(f"{RULES}\n")
