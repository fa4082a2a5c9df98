"""`python -m torpor` is `torpor`."""

import sys

from torpor.cli import main

sys.exit(main())
