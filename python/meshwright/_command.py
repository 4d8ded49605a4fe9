"""The `meshwright` command, as it is installed with the package."""

from __future__ import annotations

import signal
import sys

from meshwright import _core


def main() -> int:
    """Runs the command on the words of the command line and gives its exit code."""
    # Python would remember Ctrl-C until the command is over; nothing of Python has to be cleaned up here.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _core.run_command(["meshwright", *sys.argv[1:]])
