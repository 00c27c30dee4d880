"""`python -m emulator` is the `pubsub-emulator` command."""

import sys

from emulator.cli import main

sys.exit(main())
