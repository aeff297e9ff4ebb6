"""Say whether this system, a Python and the cache can be used, and what lacks. `make` starts it by that Python."""

import platform
import sys
from pathlib import Path

OLDEST = (3, 11, 4)
AMD = Path("/dev/kfd")
"""Device of ROCm's driver."""


def describe_platform() -> list[str]:
    """Return remarks on a processor on which nothing was tried, and on GPUs that cannot be used."""
    remarks = []
    if platform.machine() != "x86_64":
        remarks.append(
            f"This machine is {platform.machine()}, on which the workflow was never tried. Frameworks that publish no "
            "packages for it cannot be installed, such as MXNet."
        )
    if AMD.exists():
        remarks.append(f"This machine has an AMD GPU ({AMD}), which the workflow cannot use: a device is a CPU core.")
    return remarks


def main() -> None:
    if sys.platform != "linux":
        sys.exit(
            f"{sys.executable} runs on {sys.platform}; the workflow needs Linux, which binds processes to cores and "
            "tells what they do: use a machine with Linux, or a virtual one"
        )
    for remark in describe_platform():
        print(remark)
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        sys.exit(f"{sys.executable} is Python {version}; {oldest} or later is needed: make PYTHON=python3.11 ...")
    # A Python that is too old could not import these modules.
    from howmanygpus.registry import FRAMEWORKS
    from howmanygpus.site.environments.cache import CacheError, check_cache
    from howmanygpus.site.environments.pins import list_pin_files, read_newest_python

    try:
        check_cache()
    except CacheError as error:
        sys.exit(str(error))
    pins = {
        name: [path for environment in entry.list_environments() for path in list_pin_files(environment)]
        for name, entry in FRAMEWORKS.items()
    }
    newest = {name: read_newest_python(paths) for name, paths in pins.items()}
    lacking = [name for name, python in newest.items() if python and python < sys.version_info[:2]]
    if lacking:
        last = ".".join(map(str, min(filter(None, newest.values()))))
        print(
            f"{sys.executable} is Python {version}. {', '.join(lacking)} need Python {last}, which the workflow looks "
            "for when they are measured; it may be beside this one."
        )


if __name__ == "__main__":
    main()
