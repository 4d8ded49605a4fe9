"""What the models and modules of these tests are is shared with the benches."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
