"""The checks of the parity gate: what each compares. The first that fails is named as the cause."""

from howmanygpus.train.parity.optimizers import OWN, SGD

CHECKS = {
    "weights": "parameter count, shapes and values after loading, relative difference of the worst array",
    "repeatable": "logits of the same images twice, relative difference; dropout left on makes them differ",
    "independent": "logits of an image in the company of others; batch statistics left on make them differ",
    "numbers": "kinds of numbers (weights, running statistics, moments of the optimizer, losses, activations) that a "
    "framework keeps or computes in another format than the precision says, read back from it",
    "evaluation": "logits with running statistics drawn at random, before training",
    "noise": "in reduced precision: the least difference of these logits that it must leave, over the difference that "
    "it left; above 1 the framework computed in more digits than it says",
    "batches": "batches whose bytes are not those that this process should have got",
    "skipped": "in fp16: tasks with other skips than of the one step whose gradients overflow, on the last device",
    "loss": "training loss of the first step",
    "averaging": "component of the gradient along the reference's, over its norm, less one; a sum over two devices: 1",
    "direction": "one minus the cosine between whole gradients or updates and the reference's; the worst of the three",
    "norm": "norm of the whole gradient or update over the reference's, less one; the worst of the three",
    "gradients": "gradient of the worst array after one step",
    "losses": "training losses of all steps, the worst",
    "updates_sgd": "change of the worst array over six steps of sgd with momentum, weight decay and a schedule",
    "updates_own": "the same with the optimizer and the schedule of the runs",
    "statistics": "BatchNorm's running statistics after six steps, of the worst array",
    "evaluated": "test images that were not evaluated exactly once at the end of epochs 2 and 3",
    "evaluation_after": "losses of the test images in these evaluations, on all devices, with a short last batch; with "
    "any number of labels an image, the scores of each label",
    "evaluation_first": "the same on the first device, after the steps of the runs' optimizer",
    "replicas": "parameters of the devices after six steps, the same but for the rounding of six updates",
}
EVALUATIONS = {SGD: "evaluation_after", OWN: "evaluation_first"}
"""The check of the evaluations of each optimizer's task."""
