"""
Check a GPU that is lent for minutes: see howmanygpus_tools/check_gpu/lent.py.

    python3 benchmarks/gpu/first_minutes.py --seconds 545 --save-to FOLDER
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "workflow" / "lib"))

from howmanygpus_tools.check_gpu.lent import main

if __name__ == "__main__":
    main()
