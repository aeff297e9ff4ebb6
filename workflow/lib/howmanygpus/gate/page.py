"""Write the parity page: a table of frameworks by checks with the numbers, as one self-contained HTML file."""

from html import escape

import pandas as pd

from howmanygpus.gate.allowances import CHECKS
from howmanygpus.gate.variants import describe_variant

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 90em; padding: 0 1em; color: #222; }
div { overflow-x: auto; margin: 1em 0 2em; }
table { border-collapse: separate; border-spacing: 0; font-size: 13px; border-left: 1px solid #ccc; }
th, td { border: solid #ccc; border-width: 0 1px 1px 0; padding: .35em .5em; text-align: right; vertical-align: top; }
th:first-child, td:first-child, dd, dt { text-align: left; }
th:first-child, td:first-child { position: sticky; left: 0; }
td:first-child { background: #fff; }
td[colspan] { text-align: left; }
thead th { background: #f2f2f2; border-top-width: 1px; }
td + td { white-space: nowrap; }
td small { display: block; color: #666; }
.passed { background: #e3f0fa; } .failed { background: #f6d5c3; font-weight: bold; } .none { color: #888; }
dt { font-weight: bold; margin-top: .5em; } dd { margin-left: 1.5em; }
"""
GROUP = ("model", "task", "batchnorm", "precision", "device")
COLUMNS = (
    *("framework", *GROUP, "loss_on_every_device", "variant", "status", "reason"),
    *("running_statistics", "not_compared", "versions"),
    *("devices", "nodes", "check", "value", "tolerance", "passed", "detail"),
)


def tabulate(verdicts: list[dict]) -> pd.DataFrame:
    """Return a table with one row per check. A verdict without checks has one row with the reason."""
    rows = []
    for verdict in verdicts:
        common = {key: verdict.get(key) for key in COLUMNS if key in verdict and key != "versions"}
        common["not_compared"] = "; ".join(verdict.get("not_compared", []))
        common["variant"] = describe_variant(verdict)
        common["versions"] = " ".join(f"{name} {version}" for name, version in verdict.get("versions", {}).items())
        rows += [common | check for check in verdict["checks"]] or [common]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def render_page(table: pd.DataFrame) -> str:
    sections = [
        render_section(dict(zip(GROUP, key, strict=True)), rows)
        for key, rows in table.groupby(list(GROUP), dropna=False, sort=True)
    ]
    terms = "".join(f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in CHECKS.items())
    not_checked = (
        ""
        if table.empty or table["check"].notna().any()
        else "<p><strong>Nobody checked it here: the studies have <code>parity: off</code>.</strong></p>"
    )
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>Parity</title><style>{STYLE}</style>"
        f"<main><h1>Do all frameworks do the same work?</h1>{not_checked}"
        "<p>The parity gate has each framework do one task before anything is timed: fixed images and weights, "
        "optimizer steps, evaluations. Each number is its relative difference from a float64 reference or, for a "
        "model in a file of the user, from what one device does in the same framework, with its tolerance below it. "
        "A tolerance grows where ReLU inputs lie so near to zero that float32 may put them on either side.</p>"
        f"{''.join(sections)}<h2>What is checked</h2><dl>{terms}</dl></main></html>"
    )


def render_section(group: dict, rows: pd.DataFrame) -> str:
    checks = [name for name in CHECKS if name in set(rows["check"].dropna())]
    breakable = [name.replace("_", "_<wbr>") for name in checks]
    titles = ("framework", "devices", *breakable, "running statistics that evaluate")
    head = "".join(f"<th>{title}</th>" for title in titles)
    layouts = ["framework", "loss_on_every_device", "variant", "devices", "nodes"]
    body = "".join(
        render_row(framework, devices, nodes, cell, checks)
        for (framework, _, _, devices, nodes), cell in rows.groupby(layouts, dropna=False, sort=True)
    )
    title = f"{group['model']} on {group['device']}, {group['precision']}, {group['batchnorm']} BatchNorm"
    # A table that is wider than the window scrolls by itself, also by the keyboard, and its first column stays.
    table = f'<div role="region" tabindex="0" aria-label="{escape(title)}"><table>'
    table += f"<thead><tr>{head}</tr></thead>{body}</table></div>"
    return f"<h2>{escape(title)}</h2><p>{escape(group['task'])}</p>{table}"


def render_row(framework: str, devices: float, nodes: float, cell: pd.DataFrame, checks: list[str]) -> str:
    first = cell.iloc[0]
    option = ", loss on every device" if first["loss_on_every_device"] else ""
    option += f", {escape(first['variant'])}" if first["variant"] else ""
    name = f"{escape(framework)}{option}<small>{escape(str(first['versions']))}</small>"
    if first["status"] == "passed" and first["not_compared"]:
        name += f"<small>passed, not compared: {escape(first['not_compared'])}</small>"
    if pd.isna(devices):
        said = escape(f"{first['status'].replace('_', ' ')}: {first['reason']}")
        kind = "failed" if first["status"] == "failed" else "none"
        return f'<tr><td>{name}</td><td colspan={len(checks) + 2} class="{kind}">{said}</td></tr>'
    by_check = {row["check"]: row for _, row in cell.iterrows()}
    cells = "".join(render_check(by_check.get(check)) for check in checks)
    where = f"{devices:.0f}" + (f" on {nodes:.0f} nodes" if nodes > 1 else "")
    return f"<tr><td>{name}</td><td>{where}</td>{cells}<td>{first['running_statistics']}</td></tr>"


def render_check(row: pd.Series | None) -> str:
    if row is None:
        return '<td class="none">&mdash;</td>'
    value = "not a number" if pd.isna(row["value"]) else f"{row['value']:.1e}" if row["value"] else "0"
    kind, detail = "passed" if row["passed"] else "failed", escape(str(row["detail"] or ""))
    allowed = f"≤ {row['tolerance']:.1e}" if row["tolerance"] else "= 0"
    return f'<td class="{kind}" title="{detail}">{value}<small>{allowed}</small></td>'
