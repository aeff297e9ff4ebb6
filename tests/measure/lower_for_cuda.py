"""Translate JAX's training steps into the program that XLA would compile for a GPU. Prints what it has, as JSON.

In: JSON with the networks and their options by name.
"""

import json
import re
import sys

import jax
import numpy as np

from helpers.specs import make_data, make_spec
from howmanygpus.measure.frameworks.flax.sharding import JaxSharding
from howmanygpus.measure.models.initialization import draw_weights
from howmanygpus.measure.models.networks import list_draws

SHAPE, NUM_CLASSES, BATCH_SIZE = (8, 8, 3), 10, 8
PRODUCT = re.compile(r"stablehlo\.(?:convolution|dot_general)\b.*")
FORMAT = re.compile(r"x([a-z]+\d+)>")
PRECISION = re.compile(r"precision(?:_config)? = \[(?:#stablehlo<precision )?(\w+)")
COMPILED = "/jax/core/compile/backend_compile_duration"


def count_compilations(counted: list) -> None:
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: counted.append(seconds) if event == COMPILED else None
    )


def lower(model: str, options: dict, precision: str, counted: list) -> dict:
    spec = make_spec(
        **{"model": model, "model_options": options, "precision": precision, "family": "flax", "strategy": "sharding"},
        **{"framework": "jax_sharding", "global_batch_size": BATCH_SIZE},
    )
    data = make_data(image_shape=SHAPE, num_classes=NUM_CLASSES)
    weights = draw_weights(list_draws(model, SHAPE, NUM_CLASSES, **options), seed=1)
    counted.clear()
    backend = JaxSharding(spec, data, weights, np.full(10, 0.1, np.float32))
    num_compiled = len(counted)
    batch = jax.ShapeDtypeStruct((BATCH_SIZE, *SHAPE), np.uint8), jax.ShapeDtypeStruct((BATCH_SIZE,), np.int32)
    state = backend.parameters, backend.optimizer_state, backend.statistics
    lowered = backend._step.trace(*state, *batch).lower(lowering_platforms=("cuda",))
    text = lowered.as_text()
    # Attention's products have batches of matrices. JAX takes some of their backward pass in float32.
    products = [line for line in PRODUCT.findall(text) if "batching_dims" not in line]
    (main,) = re.findall(r"func\.func public @main\((.*)\) -> ", text)
    return {
        "compiled": num_compiled,
        "formats": sorted({found for line in products for found in FORMAT.findall(line.partition(" -> ")[0])}),
        "precisions": sorted({found[1] if (found := PRECISION.search(line)) else "DEFAULT" for line in products}),
        "donated": len(re.findall(r"tf\.aliasing_output|jax\.buffer_donor", main)),
        "state": len(jax.tree.leaves(state)),
    }


def main() -> None:
    counted: list[float] = []
    count_compilations(counted)
    seen = {
        f"{model}-{precision}": lower(model, options, precision, counted)
        for model, options in json.loads(sys.argv[1]).items()
        for precision in ("fp32", "tf32", "bf16")
    }
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
