"""Write the page of `make check-gpu` in Markdown: failures with their reasons, then tables of results."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import pandas as pd

ABSENT = "—"
NETWORK_COLUMNS = {
    **{"model": "network", "batch_size": "batch", "framework": "framework", "way": "way", "status": "status"},
    **{"images_per_s": "images/s", "step_s": "step, ms", "first_step_s": "first step, s"},
    **{"peak_memory_gib": "peak memory, GiB", "over_expert": "over the expert's", "expert_way": "which is"},
}
RATE_COLUMNS = {
    **{"framework": "framework", "variant": "variant", "input": "input", "precision": "precision"},
    **{"status": "status", "images_per_s": "images/s", "step_s_median": "median step, ms", "data_wait_frac": "waiting"},
    **{"compile_s": "first step, s", "peak_memory_gib": "peak memory, GiB", "parity": "gate"},
}
TELEMETRY_COLUMNS = {
    **{"run": "run", "samples": "samples", "last_s": "last after, s", "utilisation_frac": "mean utilisation"},
    **{"memory_gib": "largest memory, GiB", "power_w": "mean power, W", "energy_j": "energy, J", "problem": "problem"},
}
WAIT_COLUMNS = {
    **{"framework": "framework", "status": "status", "with_wait_s": "median step with the wait, ms"},
    **{"without_s": "without it, ms", "reason": "reason"},
}
LARGEST_COLUMNS = {
    **{"framework": "framework", "largest": "largest batch", "images_per_s": "images/s there"},
    **{"peak_memory_gib": "peak memory there, GiB", "next": "next batch", "status": "its status", "reason": "reason"},
}
FRACTIONS, SECONDS_TO_MS = (
    ("data_wait_frac", "utilisation_frac"),
    ("step_s", "step_s_median", "with_wait_s", "without_s"),
)


def render_page(
    machine: dict,
    frameworks: list[dict],
    networks: list[dict],
    verdicts: list[dict],
    rates: pd.DataFrame,
    telemetry: list[dict],
    waits: list[dict],
    largest: list[dict],
    failures: list[str],
) -> str:
    """Return the page. machine: values by their description. Other arguments: see the modules of this folder."""
    said = f"{len(failures)} failures" if failures else "Everything passed"
    said += f" in the steps {machine['steps']}" if "steps" in machine else ""
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    sections = {
        "What failed, and why": "\n".join(f"- {escape(failure)}" for failure in failures) or "Nothing.",
        "Machine": render_table({"key": "", "value": ""}, [{"key": key, "value": machine[key]} for key in machine]),
        "Frameworks": render_table(
            {"environment": "environment", "version": "version", "python": "Python", "reason": "why it is not used"},
            frameworks,
        ),
        "Beside an expert": render_table(NETWORK_COLUMNS, networks),
        "Parity gate": render_verdicts(verdicts),
        "Rates": render_table(RATE_COLUMNS, rates.to_dict("records")),
        "Telemetry": render_table(TELEMETRY_COLUMNS, telemetry),
        "Waits": render_table(WAIT_COLUMNS, waits),
        "Largest batch on one device": render_table(LARGEST_COLUMNS, largest),
    }
    body = "\n\n".join(f"## {title}\n\n{text}" for title, text in sections.items())
    return f"# What `make check-gpu` saw\n\n{said} on {machine['host']}, {date}.\n\n{body}\n"


def render_verdicts(verdicts: list[dict]) -> str:
    """Return a table of frameworks and variants by precisions."""
    precisions = list(dict.fromkeys(verdict["precision"] for verdict in verdicts))
    rows: dict[tuple, dict] = {}
    for verdict in verdicts:
        cell = {name: verdict[name] for name in ("framework", "variant")}
        row = rows.setdefault(tuple(cell.values()), cell)
        row[verdict["precision"]] = verdict["status"].replace("_", " ") or "missing"
    return render_table({name: name for name in ("framework", "variant", *precisions)}, rows.values())


def render_table(columns: dict[str, str], rows: Iterable[Mapping]) -> str:
    """Return a Markdown table. columns: headings by key; a value that is missing or undefined becomes a dash."""
    lines = ["| " + " | ".join(columns.values()) + " |", "|" + " --- |" * len(columns)]
    lines += ["| " + " | ".join(render_value(key, row.get(key)) for key in columns) + " |" for row in rows]
    return "\n".join(lines) if len(lines) > 2 else "Nothing was seen."


def render_value(key: str, value) -> str:
    if value is None or value == "" or pd.isna(value):
        return ABSENT
    if key in FRACTIONS:
        return f"{value:.1%}"
    if key in SECONDS_TO_MS:
        return f"{1000 * value:.2f}"
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.2f}"
    return escape(str(value))


def escape(text: str) -> str:
    """Escape text that would end a table entry or a line."""
    return " ".join(text.replace("|", "\\|").split())
