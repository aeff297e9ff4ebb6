"""
Fill a folder with every wheel that `make check-gpu` needs, and install the workflow's environment from it.

The folder may be for another Python and platform than this machine's. Packages that are published only as source are
built here, so they must not contain compiled code.
"""

import difflib
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from howmanygpus.clone import CLONE
from howmanygpus.files import write_json_atomic
from howmanygpus.site.environments.build import call_pip, create
from howmanygpus.site.environments.cache import resolve_cache
from howmanygpus.site.environments.pins import FOLDER, read_requirements

WORKFLOW, MEASURED = FOLDER / "check_gpu.txt", FOLDER / "measured.txt"
NOT_NEEDED_ON_SITE = ("pulp",)
"""Dependencies that no step imports: the solver of Snakemake's other scheduler (profiles/local names greedy), 16 MB."""
VERSION = re.compile(r"3\.(1[1-9]|[2-9]\d)")
"""Versions of Python that run the workflow; see workflow/scripts/check_python.py."""
LINUX = re.compile(r"manylinux_2_(\d+)_(\w+)")
OLDEST_GLIBC, OLDER_NAMES = 5, {5: "manylinux1", 12: "manylinux2010", 17: "manylinux2014"}


class WheelhouseError(Exception):
    """The folder cannot be filled, or nothing can be installed from it; the text names the remedy."""


def normalize(name: str) -> str:
    """Return a package's name as it is compared: without version and extras, in lower case, with hyphens."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\s\[=<>!~;]", name.strip())[0]).lower()


def select(requirements: list[str], python: str | None) -> list[str]:
    """Return the requirements that apply to a Python, such as 3.12 (None: this one), without their conditions.

    pip would apply the conditions of its own Python, whatever Python it downloads for.
    """
    # What installs from a folder of wheels starts without any package.
    from packaging.requirements import Requirement

    target = {"python_version": python, "python_full_version": f"{python}.0"} if python else None
    parsed = [Requirement(line) for line in requirements]
    applying = [each for each in parsed if each.marker is None or each.marker.evaluate(target)]
    return [f"{each.name}[{','.join(sorted(each.extras))}]{each.specifier}".replace("[]", "") for each in applying]


def list_wanted(site_has: list[str], python: str | None = None) -> list[str]:
    """Return the requirements of the workflow's steps and of the measured side that the site's Python lacks.

    python: its version (None: that of this Python).

    Raises WheelhouseError for a name in `site_has` that is not a requirement of the measured side, because no other
    packages can be taken from there.
    """
    measured = {normalize(line): line for line in select(read_requirements(MEASURED), python)}
    has = [normalize(name) for name in site_has]
    if unknown := [name for name in has if name not in measured]:
        nearest = difflib.get_close_matches(unknown[0], sorted(measured), n=1, cutoff=0)[0]
        raise WheelhouseError(
            f"SITE_HAS: {', '.join(unknown)} is not in {MEASURED.relative_to(CLONE)}; did you mean {nearest}? There "
            f"are {', '.join(sorted(measured))}"
        )
    workflow = {normalize(line): line for line in select(read_requirements(WORKFLOW), python)}
    kept = {name: line for name, line in measured.items() if name not in has}
    return [*(kept | workflow).values()]


def list_platforms(platform: str) -> list[str]:
    """Return all platforms whose wheels run on a platform: those of its version of glibc and of all older ones.

    platform: such as manylinux_2_28_x86_64, whose 28 is the minor version of glibc. Raises WheelhouseError otherwise.
    """
    match = LINUX.fullmatch(platform)
    if not match or int(match[1]) < OLDEST_GLIBC:
        raise WheelhouseError(
            f"FOR_PLATFORM: {platform} is unknown; write manylinux_2_N_ARCHITECTURE with the machine's glibc 2.N "
            "(`ldd --version`) and its architecture (`uname -m`), such as manylinux_2_28_x86_64"
        )
    versions = range(int(match[1]), OLDEST_GLIBC - 1, -1)
    names = [name for version in versions for name in (f"manylinux_2_{version}", OLDER_NAMES.get(version)) if name]
    return [f"{name}_{match[2]}" for name in names]


def describe_target(python: str | None, platform: str | None) -> list[str]:
    """Return pip's options for the wheels of another Python (such as 3.12) or platform; none for this machine's.

    Raises WheelhouseError for a version or a platform that does not exist.
    """
    if python and not VERSION.fullmatch(python):
        raise WheelhouseError(f"FOR_PYTHON: {python} is no version of Python; write 3.11 or later, such as 3.12")
    options = ["--python-version", python, "--implementation", "cp"] if python else []
    if platform:
        options += [word for name in list_platforms(platform) for word in ("--platform", name)]
    return options


def list_source_only(requirements: list[str]) -> list[str]:
    """Return name==version of each package that pip would install from source, dependencies included."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [*call_pip(sys.executable), "install", "--quiet", "--dry-run", "--ignore-installed"]
        subprocess.run([*command, "--report", str(report), *requirements], check=True)
        planned = json.loads(report.read_text())["install"]
    sources = [item["metadata"] for item in planned if not item["download_info"]["url"].endswith(".whl")]
    return [f"{metadata['name']}=={metadata['version']}" for metadata in sources]


def build_pure(package: str, folder: Path) -> None:
    """Build a wheel from source. Raises WheelhouseError if it is for one Python or platform only."""
    with tempfile.TemporaryDirectory() as scratch:
        wheel = [*call_pip(sys.executable), "wheel", "--quiet", "--no-deps", "--wheel-dir", scratch, package]
        subprocess.run(wheel, check=True)
        (built,) = Path(scratch).glob("*.whl")
        if not built.name.endswith("-none-any.whl"):
            raise WheelhouseError(
                f"{package} is published as source and contains compiled code ({built.name}); fill the folder with "
                "the Python and on the platform that it is for"
            )
        (folder / built.name).write_bytes(built.read_bytes())


def fill(folder: Path, python: str | None, platform: str | None, site_has: list[str]) -> list[Path]:
    """Fill a folder, which may exist, with the wheels for a Python and platform (None: this machine's); return them."""
    folder.mkdir(parents=True, exist_ok=True)
    target, wanted = describe_target(python, platform), list_wanted(site_has, python)
    for package in list_source_only(wanted):
        build_pure(package, folder)
    download = [*call_pip(sys.executable), "download", "--quiet", "--only-binary=:all:", "--find-links", str(folder)]
    subprocess.run([*download, *target, "--dest", str(folder), *wanted], check=True)
    wheels = sorted(folder.glob("*.whl"))
    for wheel in wheels:
        if normalize(wheel.name.split("-")[0]) in NOT_NEEDED_ON_SITE:
            wheel.unlink()
    return [wheel for wheel in wheels if wheel.exists()]


def install_all(wheels: Path) -> dict:
    """Install every wheel of a folder in an environment of this Python, in the cache; return its record.

    Raises WheelhouseError if the folder has no wheel of Snakemake.
    """
    found = sorted(path.resolve() for path in wheels.glob("*.whl"))
    if not [path for path in found if path.name.startswith("snakemake-")]:
        raise WheelhouseError(f"WHEELS: {wheels} has no wheel of Snakemake; `make wheelhouse` fills a folder")
    content = [sys.version, *(f"{path.name} {path.stat().st_size}" for path in found)]
    folder = resolve_cache() / f"check-gpu-{hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]}"
    marker = folder / "complete.json"
    if not marker.exists():
        # The folder contains all dependencies that are imported, so pip need not look for others.
        install = [*create(folder), "install", "--quiet", "--no-index", "--no-deps", *map(str, found)]
        if subprocess.run(install).returncode:
            own = ".".join(map(str, sys.version_info[:2]))
            raise WheelhouseError(
                f"WHEELS: the wheels of {wheels} cannot be installed with Python {own}, as pip says above; fill the "
                f"folder for this machine: make wheelhouse FOR_PYTHON={own} FOR_PLATFORM=..."
            )
        write_json_atomic(marker, {"name": "check-gpu", "python": str(folder / "bin" / "python")})
    return json.loads(marker.read_text())
