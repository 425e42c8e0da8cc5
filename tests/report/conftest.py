"""Where the sample profiles of the exporters' tests are found."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "formats"))
