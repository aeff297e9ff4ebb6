"""
Fetch every wheel of an environment where there is a network, for a job that has none to install from.

What is published as source only is built here, but for Horovod, which is built beside its framework: its source is
fetched, and what builds it. All lie in the cache beside the environments.
"""

import argparse
import fcntl
import shutil
import subprocess
import tempfile
from pathlib import Path

from build_environment import as_options, create, find_cache, hash_pins, split_pins
from build_horovod import download_source

from trainbench.records import write_json_atomic


def fetch(pins: list[Path], tools: list[Path], source: Path | None, folder: Path) -> None:
    """Wheels of all pins and tools, and the source, in `folder`, which appears whole or not at all."""
    first, others = split_pins(pins)
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
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
    partial.rename(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True)
    parser.add_argument("--pins", type=Path, nargs="+", required=True, help="requirements files")
    parser.add_argument("--tools", type=Path, nargs="*", default=[], help="pins of what builds Horovod")
    parser.add_argument("--source", type=Path, nargs="?", help="pin and hash of Horovod's source")
    parser.add_argument("--record", type=Path, required=True, help="JSON file to write: where the wheels are")
    arguments = parser.parse_args()
    cache = find_cache()
    cache.mkdir(parents=True, exist_ok=True)
    ingredients = [*arguments.pins, *arguments.tools, *filter(None, [arguments.source])]
    folder = cache / f"{arguments.name}-{hash_pins(ingredients)[:12]}-wheels"
    with open(cache / f"{folder.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            fetch(arguments.pins, arguments.tools, arguments.source, folder)
    write_json_atomic(arguments.record, {"name": arguments.name, "wheels": str(folder)})


if __name__ == "__main__":
    main()
