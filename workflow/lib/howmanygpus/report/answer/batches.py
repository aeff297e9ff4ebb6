"""Which batch size: the knee of each curve, what a doubling of the batch buys and costs, and the gradient noise."""

import pandas as pd

from howmanygpus.report.answer.names import add_series, name_devices
from howmanygpus.report.metrics import name_metric
from howmanygpus.report.rows import choose_inputs, name_count
from howmanygpus.report.tables.batch_sizes import CURVE

MAX_KNEES_NAMED = 6
NO_KNEE = "none up to"


def answer_batches(batch_sizes: pd.DataFrame) -> list[str]:
    """Describe the batch sizes of a study by its table of that name; nothing if no curve has two of them."""
    table = add_series(choose_inputs(batch_sizes))
    sound = table[(table["num_repeats"] > 0) & (table["num_failed"] == 0)]
    known = _select_knees(table).sort_values("images_per_s_median", ascending=False, kind="stable")
    if known.empty:
        return []
    fastest = sound.sort_values("images_per_s_median", ascending=False, kind="stable").iloc[0]
    curve = sound[(sound[CURVE] == fastest[CURVE]).all(axis=1)].sort_values("global_batch_size")
    return [line for line in (_describe_knees(known, table), _describe_doubling(curve), _describe_noise(table)) if line]


def _select_knees(table: pd.DataFrame) -> pd.DataFrame:
    """Return the knee of each curve with several sizes; for a curve without a knee, the largest batch."""
    is_knee, curves = table["is_knee"].astype(bool), [table[name] for name in CURVE]
    is_last = table["global_batch_size"] == table.groupby(CURVE, dropna=False)["global_batch_size"].transform("max")
    has_knee = is_knee.groupby(curves, dropna=False).transform("any")
    return table[is_knee | (is_last & ~has_knee & table["knee_lowest"].notna())]


def _describe_knees(known: pd.DataFrame, table: pd.DataFrame) -> str:
    parts = [_describe_knee(row) for _, row in known.head(MAX_KNEES_NAMED).iterrows()]
    more = [f"and {len(known) - MAX_KNEES_NAMED} more in batch_sizes.tsv"] if len(known) > MAX_KNEES_NAMED else []
    text = f"Knee, the smallest global batch within 5 % of the best rate: {'; '.join(parts + more)}."
    return f"{text} Where there is none, a larger batch may be faster." if NO_KNEE in text else text


def _describe_knee(row: pd.Series) -> str:
    """Name the knee of a curve and its range. row: a row of _select_knees."""
    lowest, highest = row["knee_lowest"], row["knee_highest"]
    name = f"{row['series']} on {name_devices(row)}"
    if not row["is_knee"]:
        return f"{name}: {NO_KNEE} {name_count(row['global_batch_size'], 'image')}"
    text = f"{name}: {name_count(row['global_batch_size'], 'image')}"
    if row["num_repeats"] == 1:
        return f"{text} (one repeat)"
    if pd.isna(highest):
        return f"{text} ({lowest:.0f} or more by the spread of the repeats)"
    return text if lowest == highest else f"{text} ({lowest:.0f} to {highest:.0f} by the spread of the repeats)"


def _describe_doubling(curve: pd.DataFrame) -> str:
    """Compare the knee with the next batch of at least twice its size; without one, the last such pair."""
    sizes = curve["global_batch_size"]
    first = curve[curve["is_knee"].astype(bool)]
    bases = pd.concat([first, curve.iloc[::-1]])
    base = next((row for _, row in bases.iterrows() if (sizes >= 2 * row["global_batch_size"]).any()), None)
    if base is None:
        return ""
    larger = curve[sizes >= 2 * base["global_batch_size"]].iloc[0]
    gain = larger["images_per_s_median"] / base["images_per_s_median"]
    text = (
        f"{base['series']} on {name_devices(base)}, "
        f"{larger['global_batch_size']} instead of {base['global_batch_size']} images a batch: the rate changes by "
        f"{gain - 1:+.0%} ({base['images_per_s_median']:,.0f} to {larger['images_per_s_median']:,.0f} images/s"
        f"{_describe_spread(base, larger)})"
    )
    return f"{text}{describe_cost(base, larger)}."


def _describe_spread(base: pd.Series, larger: pd.Series) -> str:
    """Write the range in which the spread of the repeats leaves a change of the rate."""
    if max(base["num_repeats"], larger["num_repeats"]) == 1:
        return ", one repeat each"
    low = larger["images_per_s_min"] / base["images_per_s_max"]
    high = larger["images_per_s_max"] / base["images_per_s_min"]
    return f", {low - 1:+.0%} to {high - 1:+.0%} by the spread of the repeats"


def describe_cost(base: pd.Series, larger: pd.Series) -> str:
    """Say how many more images the larger batch needs to reach the target, and how much more time."""
    if pd.isna(base["images_to_target_median"]) or not larger["num_judged"]:
        return ""
    target = f"test {name_metric(base['metric'])} {base['target']:g}"
    if pd.isna(larger["images_to_target_median"]):
        if larger["num_judged"] == 1:
            return f", and its only repeat does not reach {target}"
        reach = "reaches" if larger["num_reached"] == 1 else "reach"
        return f", and {larger['num_reached']} of {larger['num_judged']} repeats {reach} {target}"
    more = larger["images_to_target_median"] / base["images_to_target_median"]
    epochs = f"{base['epochs_to_target_median']:g} to {larger['epochs_to_target_median']:g} epochs"
    longer = larger["train_s_to_target_median"] / base["train_s_to_target_median"]
    return (
        f", the images to {target} by {more - 1:+.0%} ({epochs}), and the time of training to it by {longer - 1:+.0%}"
    )


def _describe_noise(table: pd.DataFrame) -> str:
    """Name the range of the measured noise scales; nothing if none was measured."""
    if not table["num_noise_measurements"].sum():
        return ""
    scales = table["noise_scale"].dropna()
    if scales.empty:
        return "The gradient noise scale is not known: the measured gradients are lost in their noise."
    low, high = scales.min(), scales.max()
    span = f"{low:,.0f}" if f"{low:.2g}" == f"{high:.2g}" else f"{low:,.0f} to {high:,.0f}"
    images = "image" if span == "1" else "images"
    return (
        f"Gradient noise scale: {span} {images}, averaged over each run. A larger batch saves steps as long as it is "
        f"below this scale; above it, it mostly costs more images.{_describe_time_of_noise(table)}"
    )


def _describe_time_of_noise(table: pd.DataFrame) -> str:
    """Say what measuring the noise costs, which the clock of training leaves out."""
    parts = table["noise_s_per_train_s"].dropna().astype(float)
    if parts.empty:
        return ""
    low, high = f"{100 * parts.min():.2g}", f"{100 * parts.max():.2g}"
    return f" Measuring it took {low if low == high else f'{low} to {high}'} % of the training time, on top of it."
