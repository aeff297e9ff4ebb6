"""The figure of a study in the gallery: the rate of each entry's fastest framework by number of devices."""

from matplotlib.figure import Figure

from howmanygpus.report.style import COLOURS, MARKERS, label_lines, make_panels, mark_counts
from howmanygpus_tools.gallery.gallery import Entry


def draw_rates(entries: list[Entry]) -> Figure:
    """Draw medians with their intervals, one line for each entry. entries: of one study."""
    study, network, dataset = entries[0].study
    unit = entries[0].result["decision"]["unit"]
    title = " ".join(filter(None, (f"{study}:", network, f"on {dataset}" if dataset else "")))
    figure, (axes,) = make_panels([f"{title}, fastest framework of each entry"], panel_size=(6.4, 4.2))
    ends, counts = {}, set()
    for number, entry in enumerate(entries):
        colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
        points = [(one["num_gpus"], one["summary"]["images_per_s"]) for one in entry.list_counts()]
        where, medians = [count for count, _ in points], [rate["median"] for _, rate in points]
        reaches = [
            [0.0 if rate[end] is None else abs(rate["median"] - rate[end]) for _, rate in points]
            for end in ("low", "high")
        ]
        axes.errorbar(where, medians, yerr=reaches, capsize=4, color=colour, marker=marker)
        ends[entry.name] = where[-1], medians[-1], colour
        counts |= set(where)
    mark_counts(axes, counts)
    axes.set_xlabel("devices")
    axes.set_ylabel(f"{unit}/s over all devices")
    axes.set_ylim(0, 1.06 * axes.dataLim.ymax)
    label_lines(axes, ends)
    return figure
