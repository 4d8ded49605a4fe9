"""Everything here runs on eight devices of a CPU, which have to be asked for before JAX is first used."""

import os
import sys
from pathlib import Path

os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
# The reader of collectives is shared with the tests of the command.
sys.path.append(str(Path(__file__).parents[1]))
