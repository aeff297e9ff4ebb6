"""The checks of the parity gate: what each compares. The first that fails is named as the cause."""

CHECKS = {
    "weights": "parameter count, shapes and values after loading, relative difference of the worst array",
    "repeatable": "logits of the same images twice, relative difference; dropout left on makes them differ",
    "independent": "logits of an image in the company of others; batch statistics left on make them differ",
    "evaluation": "logits with running statistics drawn at random, before training",
    "batches": "batches whose bytes are not those that this process should have got",
    "skipped": "in fp16: tasks with other skips than of the one step whose gradients overflow, on the last device",
    "loss": "training loss of the first step",
    "averaging": "component of the gradient along the reference's, over its norm, less one; a sum over two devices: 1",
    "direction": "one minus the cosine between whole gradients or updates and the reference's; the worst of the three",
    "norm": "norm of the whole gradient or update over the reference's, less one; the worst of the three",
    "gradients": "gradient of the worst array after one step",
    "losses": "training losses of all steps, the worst",
    "updates_sgd": "change of the worst array over six steps of sgd with momentum, weight decay and a schedule",
    "updates_adam": "the same with adam",
    "statistics": "BatchNorm's running statistics after six steps, of the worst array",
    "evaluated": "test images that were not evaluated exactly once at the end of epochs 2 and 3",
    "evaluation_after": "losses of the test images in these evaluations, on all devices, with a short last batch; with "
    "any number of labels an image, the scores of each label",
    "evaluation_first": "the same on the first device, after adam",
    "replicas": "parameters of the devices after six steps, the same but for the rounding of six updates",
}
EVALUATIONS = {"sgd": "evaluation_after", "adam": "evaluation_first"}
"""The check of the evaluations of each optimizer's task."""
