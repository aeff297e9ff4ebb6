"""
Fetch every wheel of an environment on a machine with a network, so that a job without a network can install them.

Packages that are published only as source are built here. Horovod is the exception: it is built beside its framework,
so its source and its build tools are fetched. The cache keeps all of them beside the environments.
"""

import subprocess
import tempfile
from contextlib import nullcontext
from pathlib import Path

from howmanygpus.files import atomic_folder, hold_lock
from howmanygpus.site.environments.build import create, find_python, hash_pins
from howmanygpus.site.environments.cache import find_made, resolve_cache
from howmanygpus.site.environments.horovod import download_source
from howmanygpus.site.environments.pins import as_options, is_lock, read_requirements, split_pins
from howmanygpus.site.environments.uv import install_packages


def fetch(pins: list[Path], tools: list[Path], source: Path | None, folder: Path) -> None:
    """Fetch the wheels of all pins and tools, and the source, into `folder`, which appears whole or not at all."""
    with atomic_folder(folder) as partial, tempfile.TemporaryDirectory() as temporary:
        scratch = Path(temporary)
        first, others = split_pins([_drop_hashes(path, scratch) if is_lock(path) else path for path in pins])
        pip, python = create(scratch / "environment", find_python(pins)), scratch / "environment" / "bin" / "python"
        wheel = [*pip, "wheel", "--wheel-dir", str(partial)]
        if first:
            subprocess.run([*wheel, *as_options(first)], check=True)
            install_packages(python, as_options(first))
        isolation = ["--no-build-isolation"] if first else []
        subprocess.run([*wheel, *isolation, *as_options(others)], check=True)
        if source:
            subprocess.run([*wheel, *as_options(tools)], check=True)
            install_packages(python, as_options(tools))
            download_source(python.parent, source, partial)


def _drop_hashes(lock: Path, scratch: Path) -> Path:
    """Return a copy of a lock without hashes, because with any, pip demands one of every requirement."""
    path = scratch / "locks" / lock.name
    path.parent.mkdir()
    path.write_text("".join(f"{line.partition(' --hash')[0]}\n" for line in read_requirements(lock)))
    return path


def fetch_wheels(name: str, pins: list[Path], tools: list[Path], source: Path | None) -> dict:
    """Return the record of an environment's fetched wheels. `tools` and `source` are Horovod's, if it has Horovod."""
    ingredients = [*pins, *tools, *([source] if source else [])]
    folder = find_made(resolve_cache() / f"{name}-{hash_pins(ingredients, find_python(pins))[:12]}-wheels")
    with nullcontext() if folder.exists() else hold_lock(f"{folder}.lock"):
        if not folder.exists():
            fetch(pins, tools, source, folder)
    return {"name": name, "wheels": str(folder)}
