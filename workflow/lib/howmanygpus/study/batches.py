"""Number and size of the batches that each device computes for one optimizer step."""

from howmanygpus.config.errors import refuse


def split_batch(images: int, largest: int) -> tuple[int, int]:
    """Return number and size of equal batches for all images: as few as possible, of at most `largest` images."""
    count = next(count for count in range(-(-images // largest), images + 1) if images % count == 0)
    return count, images // count


def compute_curves(config: dict, sizes: list[int]) -> dict[str, list[int]]:
    """Return the batch sizes that each scaling mode keeps fixed: per device (weak scaling) or global (strong scaling).

    sizes: of a batch per device, on the smallest device count under strong scaling.
    """
    factor = min(config["num_gpus"]) * config["accumulate"]
    curves = {"weak": list(sizes), "strong": [size * factor for size in sizes]}
    return curves if config["scaling"] == "both" else {config["scaling"]: curves[config["scaling"]]}


def accumulate_batches(place: str, config: dict, sizes: list[int]) -> dict[int, dict[int, int]]:
    """Return the batches for one optimizer step, by device count and by the distinct per-device batch sizes to run.

    place: of the study in the config. sizes: as in compute_curves. Raises ConfigError for batches that the device
    counts do not divide.
    """
    if config["accumulate"] > 1 and config["scaling"] == "both":
        problem = "would make two runs of the same path with scaling: both"
        remedy = "make one study of weak scaling and one of strong scaling"
        raise refuse(f"{place}.accumulate", config["accumulate"], problem, remedy)
    return {num_gpus: _list_batches(place, config, sizes, num_gpus) for num_gpus in config["num_gpus"]}


def _list_batches(place: str, config: dict, sizes: list[int], num_gpus: int) -> dict[int, int]:
    curves = compute_curves(config, sizes)
    batches = dict.fromkeys(curves.get("weak", []), config["accumulate"])
    for largest, global_batch_size in zip(sizes, curves.get("strong", []), strict=False):
        if global_batch_size % num_gpus:
            raise refuse(
                f"{place}.num_gpus",
                num_gpus,
                f"does not divide the global batch of {global_batch_size} images under strong scaling",
                "choose a per_device_batch_size that every device count divides",
            )
        count, size = split_batch(global_batch_size // num_gpus, largest)
        if batches.setdefault(size, count) != count:
            problem = f"makes two different steps of {size} images at a time on {num_gpus} device{'s' * (num_gpus > 1)}"
            raise refuse(f"{place}.per_device_batch_size", sizes, problem, "give one study to each size")
    return dict(sorted(batches.items()))
