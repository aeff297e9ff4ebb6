"""Say whether a Python and the cache can be used, and what cannot be installed. `make` starts it by that Python."""

import sys

OLDEST = (3, 11, 4)


def main() -> None:
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
            f"{sys.executable} is Python {version}: {', '.join(lacking)} cannot be installed with it, all other "
            f"frameworks can. To measure these too: make PYTHON=python{last} ..."
        )


if __name__ == "__main__":
    main()
