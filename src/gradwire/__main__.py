"""``python -m gradwire`` is the command ``gradwire``."""

import sys

from gradwire.cli import main

sys.exit(main())
