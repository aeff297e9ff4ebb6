"""Sample data beside the checkout, without which some tests are skipped."""

from pathlib import Path

import pytest


def needs(path: Path) -> Path:
    """Return a sample file; skip the test if it is absent."""
    if not path.exists():
        pytest.skip("the shared sample data are not beside this checkout")
    return path
