"""
Unfair protocols of published studies, which a study can switch on to measure their effect beside its own numbers.

`first_epoch_inside` and `eval_other_images` need no runs: the tables compute them from those of the study. The others
repeat the runs of the study's first variant in single frameworks, with the protocol's name in place of the variant's.
Random images are neither evaluated nor augmented, nor in another order, so these protocols leave them out.
"""

FIRST_EPOCH, OTHER_IMAGES = "first_epoch_inside", "eval_other_images"
BATCH_STATISTICS, AUGMENTATION = "eval_batch_statistics", "own_augmentation"
FIRST_STATISTICS, FROZEN_BATCHES, EVERY_LOSS = "eval_first_statistics", "frozen_batches", "read_every_loss"
FULL_BATCHES = "full_batches"
SWITCHED: dict[str, dict] = {
    BATCH_STATISTICS: {"eval_batchnorm": "batch"},
    FIRST_STATISTICS: {"eval_batchnorm": "first"},
    FROZEN_BATCHES: {"frozen_batches": True},
    EVERY_LOSS: {"reads_every_loss": True},
}
"""What protocols that only name frameworks change in these."""


def list_overrides(protocols: dict) -> dict[str, dict[str, dict]]:
    """Return the training settings that each protocol with runs of its own changes, by framework.

    protocols: the study's key of that name, complete.
    """
    changes = {name: dict.fromkeys(protocols[name], settings) for name, settings in SWITCHED.items()}
    changes |= {AUGMENTATION: protocols[AUGMENTATION]}
    return {name: by_framework for name, by_framework in changes.items() if by_framework}


def complete_overrides(protocols: dict, first: dict) -> dict[str, dict[str, dict]]:
    """Return the complete settings by protocol and framework. first: those of the study's first variant."""
    return {
        name: {framework: first | own for framework, own in by_framework.items()}
        for name, by_framework in list_overrides(protocols).items()
    }
