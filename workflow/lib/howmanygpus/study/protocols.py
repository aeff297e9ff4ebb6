"""
Unfair protocols of published studies, which a study can switch on to measure their effect beside its own numbers.

`first_epoch_inside` and `eval_other_images` need no runs: the tables compute them from those of the study. The others
repeat the runs of the study's first variant in single frameworks, with the protocol's name in place of the variant's.
Random images are neither evaluated nor augmented, so these protocols leave them out.
"""

FIRST_EPOCH, OTHER_IMAGES = "first_epoch_inside", "eval_other_images"
BATCH_STATISTICS, AUGMENTATION = "eval_batch_statistics", "own_augmentation"
FULL_BATCHES = "full_batches"


def list_overrides(protocols: dict) -> dict[str, dict[str, dict]]:
    """Return the training settings that each protocol with runs of its own changes, by framework.

    protocols: the study's key of that name, complete.
    """
    by_batch = {framework: {"eval_batchnorm": "batch"} for framework in protocols[BATCH_STATISTICS]}
    changes = {BATCH_STATISTICS: by_batch, AUGMENTATION: protocols[AUGMENTATION]}
    return {name: by_framework for name, by_framework in changes.items() if by_framework}


def complete_overrides(protocols: dict, first: dict) -> dict[str, dict[str, dict]]:
    """Return the complete settings by protocol and framework. first: those of the study's first variant."""
    return {
        name: {framework: first | own for framework, own in by_framework.items()}
        for name, by_framework in list_overrides(protocols).items()
    }
