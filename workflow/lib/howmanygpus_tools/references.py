"""
Generates reference tables in Markdown. The keys of config and machine file come from the schemas, the frameworks from
the registry, and what figures and tables show from their captions in the report.

A document contains a table between two comments, `<!-- generated: NAME -->` and `<!-- end -->`. `make references`
writes the text between them, and a test checks that it is up to date.
"""

import argparse
import csv
import json
import re
import textwrap
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from howmanygpus.config.schema import read_schema
from howmanygpus.files import write_text_atomic
from howmanygpus.measure.models.networks import import_network
from howmanygpus.registry import FRAMEWORKS, Framework
from howmanygpus.report.categories import CATEGORIES
from howmanygpus.report.columns import COLUMNS
from howmanygpus.report.figures import describe_figure, list_figures
from howmanygpus.report.pages import table_pages
from howmanygpus.report.tables import list_tables
from howmanygpus.study.loaders import NATIVE_LOADERS
from howmanygpus.study.networks import list_models
from howmanygpus.study.published import PROTOCOLS, read_rows

DOCUMENTS = (
    *(Path("config/README.md"), Path("profiles/README.md")),
    *(Path("docs/figures.md"), Path("docs/gpu.md"), Path("docs/preparation.md")),
    *(Path("docs/studies.md"), Path("docs/tiers.md")),
)
CARDS = Path("docs/gpu")
"""Folder with a file for each card and date, which `make check-gpu` writes."""
PREPARED = {"xrays": "X-rays", "birds": "birds"}
"""Tables in docs/preparation/, as the target `preparation` makes them, with the words for them."""
MARKED = re.compile(r"(?P<start><!-- generated: (?P<name>[a-z_]+) -->\n).*?(?P<end><!-- end -->)", re.DOTALL)
NOTHING = "-"
PROCESSES = {
    "plain": ("one for all devices", "srun starts one task; one node at most"),
    "per_node": ("one per node", "srun starts one task per node"),
    "per_device": ("one per device", "srun starts one task per device"),
    "horovodrun": ("one per device", "srun starts one task per device; mpirun with `horovod_controller: mpi`"),
    "mpirun": ("one per device", "mpirun of the environment starts them on the job's nodes"),
}
"""The processes of a run, and how they start in a SLURM job, by launcher; see measure.launch.launchers."""


class MarkerError(ValueError):
    """A document names a table that does not exist, or contains no table."""


def render_document(text: str, name: str) -> str:
    """Return the text of a document with regenerated tables. `name` is the document's name for error messages."""
    if not MARKED.search(text):
        raise MarkerError(f"{name}: no `<!-- generated: NAME -->` ... `<!-- end -->` was found; restore the comments")

    def fill(match: re.Match) -> str:
        if match["name"] not in TABLES:
            known = ", ".join(sorted(TABLES))
            raise MarkerError(f"{name}: the generated table {match['name']!r} is unknown; choose from {known}")
        return f"{match['start']}{TABLES[match['name']]()}{match['end']}"

    return MARKED.sub(fill, text)


def format_table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table with one line per row."""
    lines = [list(header), *map(list, rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def describe_keys(schema_name: str, object_name: str | None = None) -> str:
    """Return a table of the keys of one object of a schema, or of its top level."""
    schema = read_schema(schema_name)
    rule = schema["$defs"][object_name] if object_name else schema
    rows = []
    for key, value in rule["properties"].items():
        resolved = _resolve(value, schema)
        required = (*rule.get("required", ()), *rule.get("else", {}).get("required", ()))
        default = _show(resolved["default"]) if "default" in resolved else NOTHING
        default = "required" if key in required else default
        rows.append([f"`{key}`", _describe_values(resolved, schema), default, resolved["description"]])
    return format_table(("key", "accepts", "default", "meaning"), rows)


def describe_model_options() -> str:
    """Return a table of the options of every model."""
    rows = []
    for model in list_models():
        options: dict[str, dict] = getattr(import_network(model), "OPTIONS", {})
        rows += [] if options else [[f"`{model}`", NOTHING, NOTHING, NOTHING, "It has no options."]]
        for name, rule in options.items():
            accepts = _describe_values(rule, rule)
            rows.append([f"`{model}`", f"`{name}`", accepts, _show(rule["default"]), rule["description"]])
    return format_table(("model", "option", "accepts", "default", "meaning"), rows)


def describe_unfair() -> str:
    """Return a table of what was unfair in published studies, by the protocol that repeats it."""
    rows = [[f"`{row['source']}`", f"`{row['protocol']}`", row["statement"]] for row in read_rows(PROTOCOLS)]
    return format_table(("source", "protocol", "what the source did"), rows)


def list_overrides() -> str:
    """Return one sentence that lists the keys that a variant may override."""
    keys = read_schema("config")["$defs"]["overrides"]["properties"]
    return f"A variant may override {_join_words([f'`{key}`' for key in keys])}.\n"


def _resolve(rule: dict, schema: dict) -> dict:
    if "$ref" not in rule:
        return rule
    target = schema["$defs"][rule["$ref"].rpartition("/")[2]]
    return {**_resolve(target, schema), **{key: value for key, value in rule.items() if key != "$ref"}}


def _show(value) -> str:
    """Format a value as YAML writes it."""
    if isinstance(value, float) and value < 1e-3:
        return f"`{value:.1e}`".replace("e-0", "e-")
    text = json.dumps(value)
    return f"`{text}`" if text == '""' else f"`{text.replace(chr(34), '')}`"


def _describe_values(rule: dict, schema: dict) -> str:
    """Describe in words the values that a key accepts."""
    rule = _resolve(rule, schema)
    if "enum" in rule:
        return ", ".join("null" if value is None else f"`{value}`" for value in rule["enum"])
    kinds = [rule["type"]] if isinstance(rule["type"], str) else rule["type"]
    single = " or ".join(_describe_kind(kind, rule, schema) for kind in kinds if kind != "array")
    # A list stands last, because the words for its entries would take in what follows.
    several = [_describe_kind(kind, rule, schema) for kind in kinds if kind == "array"]
    return ", or ".join([single, *several] if single else several)


def _describe_kind(kind: str, rule: dict, schema: dict) -> str:
    match kind:
        case "array":
            exactly = rule.get("minItems") if rule.get("minItems") == rule.get("maxItems") else None
            return f"list{f' of {exactly}' if exactly else ''}: {_describe_values(rule['items'], schema)}"
        case "boolean":
            return "`true`, `false`"
        case "object":
            return "mapping"
        case "string":
            # A pattern that consists of plain text is a single word.
            word = re.fullmatch(r"\^(\w+)\$", rule.get("pattern", ""))
            return f"`{word[1]}`" if word else "text"
        case "integer" | "number":
            return " ".join([kind, *filter(None, [_describe_bounds(rule)])])
    return kind


def _describe_bounds(rule: dict) -> str:
    words = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    return ", ".join(f"{sign} {rule[bound]}" for bound, sign in words.items() if bound in rule)


def _join_words(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)


def _by_framework(header: tuple[str, ...], describe: Callable[[Framework], list[str]]) -> str:
    rows = [[f"`{name}`", *describe(entry)] for name, entry in FRAMEWORKS.items()]
    return format_table(("framework", *header), rows)


def _code(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words) or NOTHING


def describe_frameworks() -> str:
    """Return a table of the processes, environments and GPU generations of every framework."""

    def describe(entry: Framework) -> list[str]:
        lowest, highest = entry.capabilities
        capability = f"{lowest} to {highest}" if highest else f"{lowest} or later"
        environments = [_code(filter(None, [entry.environments.get(kind)])) for kind in ("cpu", "cuda")]
        return [f"{PROCESSES[entry.launcher][0]} (`{entry.launcher}`)", *environments, capability, entry.support]

    header = ("processes (launcher)", "CPU environment", "GPU environment", "compute capability", "support")
    return _by_framework(header, describe)


def describe_abilities() -> str:
    """Return a table of the settings that only some frameworks support."""

    def describe(entry: Framework) -> list[str]:
        synchronized = [kind for kind, offered in entry.batchnorm.items() if "synchronized" in offered]
        precisions = [_code(entry.precisions.get(kind, ())) for kind in ("cpu", "cuda")]
        limits = [f"at most {most} {kind} device" + "s" * (most > 1) for kind, most in entry.max_devices.items()]
        if synchronized and not entry.synchronizes_over_nodes:
            limits.append("synchronizes BatchNorm only within a node")
        return [*precisions, _code(synchronized), _code(entry.compressions), "; ".join(limits) or NOTHING]

    header = (
        "`precision` on CPU",
        "`precision` on GPU",
        "`batchnorm: synchronized`",
        "`gradient_compression`",
        "limits",
    )
    return _by_framework(header, describe)


def describe_best_tiers() -> str:
    return _by_framework(
        ("on CPU", "on GPU"), lambda entry: [entry.best.get(kind, NOTHING) for kind in ("cpu", "cuda")]
    )


def describe_loaders() -> str:
    """Return a table of the native loaders: their frameworks, kinds of workers, inputs, and whether they resize."""
    rows = []
    for name, loader in NATIVE_LOADERS.items():
        users = [
            framework for framework, entry in FRAMEWORKS.items() if name in (entry.native_loader, entry.dali_loader)
        ]
        resizes = f"no: it resizes {loader.resizes}" if loader.resizes else "yes"
        rows.append([loader.description, _code(users), _code(loader.kinds), _code(loader.inputs), resizes])
    if without := [framework for framework, entry in FRAMEWORKS.items() if entry.native_loader is None]:
        rows.append(["none: reported as unsupported", _code(without), NOTHING, NOTHING, NOTHING])
    header = ("native loader", "frameworks", "`loader_kind` (default first)", "`inputs`", "`random_resized_crop`")
    return format_table(header, rows)


def describe_processes() -> str:
    """Return a table of how processes start on a cluster. Frameworks that start in the same way share a row."""
    users: dict[tuple[str, str], list[str]] = {}
    for name, entry in FRAMEWORKS.items():
        users.setdefault(PROCESSES[entry.launcher], []).append(name)
    rows = [[processes, _code(names), start] for (processes, start), names in users.items()]
    return format_table(("processes of a run", "frameworks", "on a cluster"), rows)


def describe_cards() -> str:
    """Return a table of the networks that were trained beside an expert on each card, or that there is none."""
    rows = []
    for path in sorted(CARDS.glob("*.json")):
        card = json.loads(path.read_text())
        rows += [[card["card"], card["date"], card["commit"][:12], *_describe_rate(row)] for row in card["rows"]]
    header = ("card", "date", "commit", "network, batch", "framework, way", "images/s", "step, ms", "first step, s")
    return format_table((*header, "memory, GiB", "over the expert's"), rows) if rows else "No card was measured yet.\n"


def describe_preparation(part: str, columns: dict[str, tuple[str, str]]) -> str:
    """Return a table of one part of docs/preparation/. columns: title and number format of each column, by its name."""
    found: dict[str, list[str]] = {}
    for stem in PREPARED:
        with Path("docs/preparation", f"{stem}.tsv").open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t"):
                if row["part"] == part:
                    cells = [form.format(float(row[name])) if row[name] else "" for name, (_, form) in columns.items()]
                    found.setdefault(row["name"], []).extend(cells)
    header = [f"{words}, {title}" for words in PREPARED.values() for title, _ in columns.values()]
    return format_table((part, *header), ([f"`{name}`", *cells] for name, cells in found.items()))


def _describe_rate(row: dict) -> list[str]:
    named = f"{row['model']}, {row['batch_size']}", f"`{row['framework']}`, {row['way']}"
    if row["status"] != "completed":
        return [*named, row["status"] or row["reason"], *[NOTHING] * 4]
    memory_gib, ratio = row["peak_memory_gib"], row.get("over_expert")
    rates = f"{row['images_per_s']:,.0f}", f"{1000 * row['step_s']:.2f}", f"{row['first_step_s']:.1f}"
    beside = NOTHING if ratio is None else f"{ratio:.3f} ({row['expert_way']})"
    return [*named, *rates, NOTHING if memory_gib is None else f"{memory_gib:.1f}", beside]


def read_point(name: str) -> str:
    """Return the first sentence of a caption of the report in Markdown, which says what to look at."""
    caption = table_pages.read_caption(table_pages.CAPTIONS / f"{name}.rst").replace("``", "`")
    return re.split(r"(?<=[.])\s+(?=[A-Z`])", caption, maxsplit=1)[0]


def describe_figures() -> str:
    """Return title, name and point of each figure, by the categories of the report."""
    parts = []
    for category in CATEGORIES:
        figures = {name: described.title for name, described in _FIGURES.items() if described.category == category}
        texts = [f"**{title}** (`{name}`). {read_point(name)}" for name, title in figures.items()]
        parts += [f"### {category}", *texts] if texts else []
    return _join_paragraphs(parts)


def describe_report_tables() -> str:
    """Return the point of each table that has a caption of its own and no figure of its name."""
    names = [name for name in list_tables() if name not in _FIGURES and table_pages.find_caption(name)]
    return _join_paragraphs([f"**`{name}`**. {read_point(name)}" for name in (*names, "probes")])


def describe_columns() -> str:
    """Return a table of the columns that name a run."""
    return format_table(("column", "meaning"), ([f"`{column.name}`", column.meaning] for column in COLUMNS))


def _join_paragraphs(parts: list[str]) -> str:
    wrapped = (textwrap.fill(part, 120, break_long_words=False, break_on_hyphens=False) for part in parts)
    return "\n" + "\n\n".join(wrapped) + "\n\n"


_FIGURES = {name: describe_figure(name) for name in list_figures()}
SPEEDS = {"images_per_s": ("images/s", "{:,.0f}"), "mb_per_s": ("MB/s", "{:.0f}")}
ERRORS = {"psnr_db": ("PSNR (dB)", "{:.1f}"), "mean_difference": ("mean difference", "{:.2f}")}
TABLES: dict[str, Callable[[], str]] = {
    "config_keys": partial(describe_keys, "config"),
    "dataset_keys": partial(describe_keys, "config", "dataset"),
    "study_keys": partial(describe_keys, "config", "study"),
    "program_keys": partial(describe_keys, "config", "program"),
    "optimizer_keys": partial(describe_keys, "config", "optimizer"),
    "random_resized_crop_keys": partial(describe_keys, "config", "random_resized_crop"),
    "protocols_keys": partial(describe_keys, "config", "protocols"),
    "quality_keys": partial(describe_keys, "config", "quality"),
    "overrides": list_overrides,
    "unfair_protocols": describe_unfair,
    "model_options": describe_model_options,
    "machine_keys": partial(describe_keys, "machine"),
    "device_keys": partial(describe_keys, "machine", "device"),
    "slurm_keys": partial(describe_keys, "machine", "slurm"),
    "interpreter_keys": partial(describe_keys, "machine", "interpreter"),
    "frameworks": describe_frameworks,
    "abilities": describe_abilities,
    "best_tiers": describe_best_tiers,
    "loaders": describe_loaders,
    "processes": describe_processes,
    "cards": describe_cards,
    "figures": describe_figures,
    "report_tables": describe_report_tables,
    "columns": describe_columns,
    "preparation_libraries": partial(describe_preparation, "library", SPEEDS),
    "preparation_filters": partial(describe_preparation, "filter", {"images_per_s": SPEEDS["images_per_s"]} | ERRORS),
    "preparation_formats": partial(
        describe_preparation, "format", {"kb_per_image": ("kB", "{:.1f}"), "psnr_db": ERRORS["psnr_db"]}
    ),
}
"""All generated tables, by the name in their comments."""


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    texts = {path: render_document(path.read_text(), str(path)) for path in DOCUMENTS}
    for path, written in texts.items():
        if not path.exists() or path.read_text() != written:
            write_text_atomic(path, written)
            print(f"{path} was written")


if __name__ == "__main__":
    main()
