"""
Makes a folder of a user's model files importable like a network of the workflow.

Its modules are howmanygpus.train.models.{name}.parameters, .torch and so on, as if the folder were in train/models/.
They import each other relatively, because a plain `import torch` must not find torch.py.
"""

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

PACKAGE = "howmanygpus.train.models"


def add_folder(path: str) -> str:
    """Make the modules of a folder importable, in place of an earlier folder; return the name of their package."""
    folder = Path(path).resolve()
    name = f"{PACKAGE}.{folder.name}"
    for module in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
        del sys.modules[module]
    # Files that have changed since this process last looked would not be found otherwise.
    importlib.invalidate_caches()
    start = folder / "__init__.py"
    if start.exists():
        found = importlib.util.spec_from_file_location(name, start, submodule_search_locations=[str(folder)])
        assert found is not None and found.loader is not None
    else:
        found = ModuleSpec(name, None, is_package=True)
        found.submodule_search_locations = [str(folder)]
    sys.modules[name] = package = importlib.util.module_from_spec(found)
    if found.loader is not None:
        found.loader.exec_module(package)
    return name
