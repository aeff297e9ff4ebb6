"""Names of the gate's cells, for pages and for check-gpu, whose own Python has no OpenCV when it starts."""


def describe_variant(cell: dict) -> str:
    """Name how a cell's runs train, if not in the usual way. See study.gate_cells.describe_settings."""
    parts = [cell["tier"]] * (cell["tier"] == "best")
    if cell["loader"] != "shared":
        parts.append(f"{cell['loader']} with {cell['loader_kind']} on {cell['input']}")
    if cell["gradient_compression"] != "none":
        rank = f" of rank {cell['powersgd_rank']}" if cell["powersgd_rank"] else ""
        parts.append(f"gradients by {cell['gradient_compression']}{rank}")
    parts += ["controller MPI"] * (cell["horovod_controller"] == "mpi")
    parts += [f"{key}: {value}" for key, value in cell.get("more", {}).items()]
    return ", ".join(parts)
