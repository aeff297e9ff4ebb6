"""
Define the values that the rules' wildcards may have, and the part of names that several rules share.
"""

IMAGES_AND_CLASSES = "{height}x{width}x{channels}_classes{num_classes}"
"""What a network is built for."""


wildcard_constraints:
    study="[a-z][a-z0-9_]*",
    dataset="[a-z][a-z0-9_]*",
    form="png|jpeg",
    model="(?!own_)[a-z][a-z0-9_]*",
    own_model="own_[a-z0-9_]+?",
    options="(-[a-z0-9.]+)*",
    network="[a-z0-9_.-]+",
    start="imagenet|from-[0-9a-f]{12}",
    framework="[a-z][a-z0-9_]*",
    variant="[a-z][a-z0-9_]*",
    device="[a-z][a-z0-9-]*",
    weights=r"of_program_[a-z0-9_]+|[a-z0-9_.-]+_seed\d+[a-z0-9_-]*",
    num_gpus=r"\d+",
    spread=r"(_nodes\d+)?",
    run=r"(?:[a-z][a-z0-9_]*/){3}[a-z]+_[a-z0-9]+_[a-z0-9-]+_gpus\d+(?:_nodes\d+)?_batch\d+_repeat\d+",
    search="[a-z0-9_.-]+_upto[0-9]+",
    environment="[a-z0-9-]+",
    pins_hash="[0-9a-f]{8}",
    task="[a-z0-9_-]+_[0-9]+x[0-9]+x[0-9]+_classes[0-9]+_(local|synchronized)(_[a-z0-9.-]+)+",
    checked=r"[a-z0-9_.-]+-[0-9a-f]{8}",
    group="[a-z0-9_-]+-[0-9a-f]{8}",
    batchnorm="local|synchronized",
    variation="(_[a-z0-9.-]+)+",
    height=r"\d+",
    width=r"\d+",
    channels=r"\d+",
    num_classes=r"\d+",
    seed=r"\d+",
    shard=r"\d+",
    num_shards=r"\d+",
