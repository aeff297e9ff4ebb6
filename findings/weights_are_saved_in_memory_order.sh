#!/usr/bin/env bash
# Finding:  safetensors.numpy 0.8.0 saves an array as the bytes lie in memory: a transposed array comes back with the right
#           shape and its values in other places, and one of every second column has values of the columns left out.
#           Slices, reversed arrays, those in Fortran order and broadcast ones are wrong, too. 0.7.0 saves all of them right.
# Packages: safetensors==0.8.0 numpy==2.4.6
# Topic:    programs
# Source:   _flatten() in safetensors/numpy.py passes the address and the length of the array's data; its docstring asks for
#           contiguous arrays, and nothing checks. Until 0.7.0 it called tobytes(), which copies in order.
# Guess:    an array is saved by its values, or refused, as safetensors.torch does.
# Hurts:    converting weights between frameworks, which is done by transposing: the network loads and is another.
# Here:     measure/models/saving.py copies each array into its order first; config/README.md names it
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > save.py <<'P'
import sys

import numpy as np
import safetensors
from safetensors.numpy import load_file, save_file

array = np.arange(12, dtype=np.float32).reshape(3, 4)
kinds = {
    "as it is": array,
    "rows": array[1:],
    "transposed": array.T,
    "Fortran order": np.asfortranarray(array),
    "every second column": array[:, ::2],
    "reversed": array[::-1],
    "broadcast": np.broadcast_to(array[0], (3, 4)),
    "transposed and copied": np.ascontiguousarray(array.T),
}
save_file(kinds, "arrays.safetensors")
loaded = load_file("arrays.safetensors")
assert all(loaded[name].shape == kinds[name].shape for name in kinds)
right = [name for name in kinds if np.array_equal(loaded[name], kinds[name])]
print(f"safetensors {safetensors.__version__}: right {right}; wrong {[name for name in kinds if name not in right]}; "
      f"transposed, saved {kinds['transposed'][0].tolist()} and loaded {loaded['transposed'][0].tolist()} in row 0")
sys.exit(right != ["as it is", "rows", "transposed and copied"])
P
"$python" save.py
