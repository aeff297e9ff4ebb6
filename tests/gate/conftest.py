"""Copies of the library with faulty backends, and what frameworks do with them."""

import hashlib
import shutil
from pathlib import Path

import pytest

from gate.cells import supports
from gate.faults import FAMILIES, FAULTY_HOROVOD
from gate.observing import Observer, names_of
from howmanygpus.gate.judge import judge
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.site.environments.cache import resolve_cache
from howmanygpus.study.invalidation.pins import hash_pins
from project import FAKES, ROOT


@pytest.fixture(scope="session")
def copies(tmp_path_factory):
    """A function from a name to a copy of the library with faulty backends.

    `gate` is the gate as it is; `compiled` has a backend that compiles its network on CPUs too; `faults` does the
    gate's tasks with one fault after the other.
    """
    folder = tmp_path_factory.mktemp("library")
    for name in ("gate", "compiled", "faults"):
        library = shutil.copytree(
            ROOT / "workflow" / "lib", folder / name, ignore=shutil.ignore_patterns("__pycache__")
        )
        measure = library / "howmanygpus" / "measure"
        if name == "compiled":
            shutil.copy2(FAKES / "compiled_ddp.py", measure / "frameworks" / "torch" / "compiled_ddp.py")
    for name, (family, *_) in FAULTY_HOROVOD.items():
        shutil.copy2(FAKES / f"{name}.py", measure / "frameworks" / family / f"{name}.py")
    for family in FAMILIES:
        shutil.copy2(FAKES / f"planted_{family}.py", measure / "frameworks" / family / "planted.py")
    shutil.copy2(FAKES / "planted.py", measure / "frameworks" / "planted.py")
    gate = library / "howmanygpus" / "gate"
    (gate / "process.py").rename(gate / "renamed_process.py")
    shutil.copy2(FAKES / "process_of_faults.py", gate / "process.py")
    return lambda name: folder / name


@pytest.fixture(scope="session")
def compiled():
    """Variables with which JAX keeps what it compiles in the cache. What is tested is the result, not the compilation.

    The name of an entry is a hash of the program, as XLA is given it, and of all options, so that changed code finds
    nothing. The folder is that of the pins and of the processor's instructions, because code for others may not run
    here. With a largest size, JAX locks the folder when it writes.
    """
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    flags = next(line for line in lines if line.startswith(("flags", "Features")))
    processor = hashlib.sha256(flags.encode()).hexdigest()[:8]
    folder = resolve_cache().with_name("compiled") / f"jax-{hash_pins('jax-cpu')}-{processor}"
    folder.mkdir(parents=True, exist_ok=True)
    return {
        **{"JAX_COMPILATION_CACHE_DIR": str(folder), "JAX_COMPILATION_CACHE_MAX_SIZE": str(2**29)},
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.05",
    }


@pytest.fixture(scope="session")
def gate(copies, environment_python, scratch, compiled):
    return Observer(copies("gate"), scratch, environment_python, **compiled)


@pytest.fixture(scope="session")
def faulty_gate(copies, environment_python, scratch, compiled, gate):
    """The tasks and references are the gate's, since no fault is planted in what computes them."""
    observer = Observer(copies("faults"), scratch, environment_python, **compiled)
    observer.task = gate.task
    return observer


@pytest.fixture(scope="session")
def compiling_gate(copies, environment_python, scratch, gate):
    """The tasks and references are the gate's. PyTorch keeps what it compiles in the cache."""
    folder = resolve_cache().with_name("compiled") / f"pytorch-{hash_pins('pytorch-cpu')}"
    variables = {"TORCHINDUCTOR_CACHE_DIR": str(folder)}
    observer = Observer(copies("compiled"), scratch, environment_python, **variables)
    observer.task = gate.task
    return observer


@pytest.fixture(scope="session")
def observe_cells(gate):
    """A function from a framework and cells to the folder of what one start did with those that it supports."""

    def get(framework, cells, num_devices):
        supported = {name: cell for name, cell in cells.items() if supports(framework, cell)}
        return gate.observe(names_of(framework), FRAMEWORKS[framework].environments["cpu"], supported, num_devices)

    return get


@pytest.fixture(scope="session")
def judge_cell(gate, observe_cells):
    """A function from a framework, cells and one of them to the verdict, with what one start for all of them did."""

    def get(framework, cells, key, num_devices):
        folder = observe_cells(framework, cells, num_devices)
        return judge({(num_devices, 1): folder / key}, gate.task(cells[key], num_devices))

    return get
