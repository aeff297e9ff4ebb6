"""Arrays are saved with the values that they have, whatever their order in memory."""

import numpy as np
import pytest
from safetensors.numpy import load_file

from howmanygpus.measure.models.saving import save_arrays
from project import ROOT

ARRAY = np.arange(12, dtype=np.float32).reshape(3, 4)
ORDERS = {
    "transposed": ARRAY.T,
    "fortran": np.asfortranarray(ARRAY),
    "every_second_column": ARRAY[:, ::2],
    "reversed": ARRAY[::-1],
    "repeated": np.broadcast_to(ARRAY[0], (2, 4)),
    "number": np.float32(2.5),
}


@pytest.mark.parametrize("order", ORDERS)
def test_an_array_comes_back_as_it_was(order, tmp_path):
    save_arrays({order: ORDERS[order]}, tmp_path / "arrays.safetensors")
    loaded = load_file(tmp_path / "arrays.safetensors")[order]
    assert loaded.shape == ORDERS[order].shape
    np.testing.assert_array_equal(loaded, ORDERS[order])


def test_nothing_else_of_the_workflow_saves_arrays():
    """The library's own function writes them as they lie in memory."""
    sources = [path for top in ("lib", "scripts") for path in (ROOT / "workflow" / top).rglob("*.py")]
    assert [path.name for path in sources if "save_file" in path.read_text()] == ["saving.py"]
