"""Names the likeliest cause of a failed verdict on a user's own model, by which checks failed on how many devices."""

NEAR = 0.1
"""Largest difference of the gradient's length from the number of devices, per device, at which it is a sum."""
OF_TRAINING = ("loss", "averaging", "direction", "norm", "gradients", "losses", "updates_sgd", "updates_own")
SUMMED = "gradients are summed over the {devices} devices and not averaged: they are {factor:.2f} times as long"
DRIFTING = "the devices do not exchange the gradients of all parameters, because they end with different ones"
MIXING = (
    "several devices differ from one: a layer computes with the other images of its batch, as statistics of the batch "
    "do, or a loss of a layer is a sum over the batch and not a mean"
)
BY_CHECK = {
    "weights": "build makes other arrays in a run than when the weights were drawn, or a layer changes what is loaded",
    "repeatable": "the model in evaluation draws random numbers, or changes something that it keeps",
    "independent": "the model in evaluation computes with statistics of the batch",
    "evaluation": "a part of the network that is not among the weights differs, as a plain attribute that build draws",
    "numbers": "a layer computes or keeps numbers in a format of its own",
    "noise": "the model computes in a format of its own, whatever the precision is",
}
BY_CHECK["exchange"] = (
    "the devices exchange something else than one float32 gradient of each trained weight: a hook changes gradients, a "
    "weight has none or another format, or the model exchanges something by itself"
)
BY_CHECK["united"] = "devices evaluate with different numbers: a layer keeps some that are not among the weights"
BY_CHECK |= dict.fromkeys(
    ("loss", "losses"),
    "evaluation agrees and training does not: the model draws other random numbers, or keeps something from step to "
    "step outside of its weights",
)
BY_CHECK |= dict.fromkeys(
    ("averaging", "direction", "norm", "gradients"),
    "the loss agrees and its gradient does not: a hook changes gradients, or gradients are not averaged",
)
BY_CHECK |= dict.fromkeys(
    ("updates_sgd", "updates_own"),
    "the first gradient agrees and later steps do not: the model changes its parameters, or what it keeps, by itself",
)
BY_CHECK |= dict.fromkeys(
    ("statistics", "evaluation_after", "evaluation_first"),
    "training agrees and running statistics do not: the model updates them in another way on several devices",
)


def name_cause(rows: list[dict]) -> str:
    """Return the likeliest cause of the failed rows of a verdict; empty if none failed or none is known.

    rows: of all layouts, in the order of the checks within each.
    """
    failed = [row for row in rows if not row["passed"]]
    if not failed:
        return ""
    checks, fewest = {row["check"] for row in failed}, min(row["devices"] for row in failed)
    first = next(row["check"] for row in failed if row["devices"] == fewest)
    if first in ("exchange", *OF_TRAINING):
        for row in failed:
            devices, off = row["devices"], row["value"]
            if row["check"] == "averaging" and devices > 1 and off and abs(off + 1 - devices) < NEAR * devices:
                return SUMMED.format(devices=devices, factor=off + 1)
        if "replicas" in checks:
            return DRIFTING
        if fewest > 1 and first != "exchange":
            return MIXING
    return DRIFTING if first == "replicas" else BY_CHECK.get(first, "")
