"""
Fetch every wheel of an environment where there is a network, for a job that has none to install from.

What is published as source only is built here. Horovod is the exception: it is built beside its framework, so its
source is fetched with what builds it. All lie in the cache beside the environments.
"""

import subprocess
import tempfile
from pathlib import Path

from howmanygpus.environments.build import create, find_cache, hash_pins
from howmanygpus.environments.horovod import download_source
from howmanygpus.environments.pins import as_options, split_pins
from howmanygpus.files import atomic_folder, hold_lock


def fetch(pins: list[Path], tools: list[Path], source: Path | None, folder: Path) -> None:
    """Wheels of all pins and tools, and the source, in `folder`, which appears whole or not at all."""
    first, others = split_pins(pins)
    with atomic_folder(folder) as partial, tempfile.TemporaryDirectory() as scratch:
        pip = create(scratch)
        wheel = [*pip, "wheel", "--wheel-dir", str(partial)]
        if first:
            subprocess.run([*wheel, *as_options(first)], check=True)
            subprocess.run([*pip, "install", *as_options(first)], check=True)
        isolation = ["--no-build-isolation"] if first else []
        subprocess.run([*wheel, *isolation, *as_options(others)], check=True)
        if source:
            subprocess.run([*wheel, *as_options(tools)], check=True)
            subprocess.run([*pip, "install", *as_options(tools)], check=True)
            download_source(f"{scratch}/bin", source, partial)


def fetch_wheels(name: str, pins: list[Path], tools: list[Path], source: Path | None) -> dict:
    """The record of an environment's fetched wheels. tools, source: of Horovod, if the environment has it."""
    ingredients = [*pins, *tools, *([source] if source else [])]
    folder = find_cache() / f"{name}-{hash_pins(ingredients)[:12]}-wheels"
    with hold_lock(f"{folder}.lock"):
        if not folder.exists():
            fetch(pins, tools, source, folder)
    return {"name": name, "wheels": str(folder)}
