"""
Build Horovod's wheel from its source for one framework, or find it in the cache.

The build uses an environment that has the framework and leaves that environment unchanged. The cache keeps the wheel
under the hash of everything that went into it.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from contextlib import nullcontext
from pathlib import Path

from howmanygpus.files import hold_lock, sha256_of_file, write_json_atomic
from howmanygpus.site.environments.build import call_pip, create
from howmanygpus.site.environments.cache import find_made, resolve_cache
from howmanygpus.site.environments.horovod_edits import EDITS, apply_edits, describe_edits
from howmanygpus.site.environments.pins import as_options, hash_requirements
from howmanygpus.site.environments.uv import install_packages

SWITCHES = {"torch": "PYTORCH", "keras": "TENSORFLOW"}
"""The names of the frameworks in Horovod's build, by family."""
RUN_PATH = r"-Wl,-rpath,\$ORIGIN/../../../.."
"""Path from the library in lib/python3.x/site-packages/horovod/<framework>/ to lib/, which has Open MPI's libraries."""
CAPABILITIES = {"torch": "75,80,86,89,90,100,120", "keras": "60,70,75,80,86,89,90"}
"""CUDA compute capabilities that Horovod's kernels are compiled for, by family.

Horovod's default list has every capability that nvcc has ever supported.
"""
FRAMEWORKS = ("PYTORCH", "TENSORFLOW", "MXNET")
BESIDE_TOOLS = ("--no-deps", "--no-build-isolation")
"""pip's options in an environment that already has the build tools."""


def hash_ingredients(base: dict, pins: list[Path], family: str, device: str) -> str:
    """Hash everything that determines the wheel: edits, switches, pins, the framework's packages, Python, machine."""
    python = subprocess.run([base["python"], "-VV"], check=True, capture_output=True, text=True).stdout
    words = (base["packages"], python, os.uname().machine, describe_edits(), list_switches(family, device))
    return hash_requirements(pins, repr(words))


def make_builder(folder: Path, base_python: str, tools: list[Path]) -> Path:
    """Create an environment with the tools that also sees the framework's packages; return its folder bin."""
    create(folder, base_python)
    bin_folder = folder / "bin"
    install_packages(bin_folder / "python", as_options(tools))
    (Path(find_packages(str(bin_folder / "python"))) / "framework.pth").write_text(f"{find_packages(base_python)}\n")
    return bin_folder


def find_packages(python: str) -> str:
    """Return the folder of an interpreter's packages."""
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return subprocess.run([python, "-c", ask], check=True, capture_output=True, text=True).stdout.strip()


def list_switches(family: str, device: str) -> dict[str, str]:
    """Return the environment variables that tell Horovod's build its targets."""
    wanted = SWITCHES[family]
    switches = {f"HOROVOD_WITH{'' if name == wanted else 'OUT'}_{name}": "1" for name in FRAMEWORKS}
    switches |= {"HOROVOD_WITH_GLOO": "1", "HOROVOD_WITH_MPI": "1", "LDFLAGS": RUN_PATH}
    if device == "cuda":
        switches |= {"HOROVOD_GPU_OPERATIONS": "NCCL", "HOROVOD_NCCL_LINK": "SHARED"}
        switches |= {"HOROVOD_BUILD_CUDA_CC_LIST": CAPABILITIES[family]}
    return switches


def find_nvcc(bin_folder: Path) -> str:
    """Return the folder of the CUDA compiler: the builder's own if the tools include one, else the one on PATH.

    The builder's own compiler gets links with the names that CMake looks for. Raises SystemExit if there is none.
    """
    packages = Path(find_packages(str(bin_folder / "python")))
    for nvcc in packages.glob("nvidia/cu*/bin/nvcc"):
        toolkit = nvcc.parent.parent
        (toolkit / "lib64").symlink_to("lib")
        (runtime,) = (toolkit / "lib").glob("libcudart.so.*")
        (toolkit / "lib" / "libcudart.so").symlink_to(runtime.name)
        return str(nvcc.parent)
    if found := shutil.which("nvcc"):
        return str(Path(found).parent)
    sys.exit("nvcc is not on PATH: load the module of the CUDA that the framework is built with, and run again")


def link_nccl(folder: Path, base_python: str) -> dict[str, str]:
    """Link the framework's own NCCL under the names that CMake looks for; return the switch that points there."""
    nccl = Path(find_packages(base_python)) / "nvidia" / "nccl"
    (folder / "lib").mkdir(parents=True)
    (folder / "include").symlink_to(nccl / "include")
    (folder / "lib" / "libnccl.so").symlink_to(nccl / "lib" / "libnccl.so.2")
    return {"HOROVOD_NCCL_HOME": str(folder)}


def make_tool_variables(*folders: Path | str) -> dict[str, str]:
    """Return environment variables with which a process finds the tools in these folders, besides its Python."""
    return os.environ | {"PATH": os.pathsep.join([*map(str, folders), os.environ["PATH"]])}


def download_source(bin_folder: Path | str, pins: Path, folder: Path) -> Path:
    """Download the archive into `folder`. pip needs the tools, because it asks the source for its metadata."""
    command = [*call_pip(f"{bin_folder}/python"), "download", *BESIDE_TOOLS, "--no-binary", ":all:"]
    command += ["--require-hashes", "--requirement", str(pins), "--dest", str(folder)]
    subprocess.run(command, check=True, env=make_tool_variables(bin_folder))
    (archive,) = folder.glob("horovod-*.tar.gz")
    return archive


def build(folder: Path, base: dict, tools: list[Path], source_pins: Path, switches: dict[str, str]) -> Path:
    """Build in a scratch folder and return the wheel, in `folder`. `switches`: environment variables of the build."""
    with tempfile.TemporaryDirectory(prefix="horovod-") as temporary:
        scratch = Path(temporary)
        bin_folder = make_builder(scratch / "builder", base["python"], tools)
        archive = download_source(bin_folder, source_pins, scratch)
        with tarfile.open(archive) as file:
            file.extractall(scratch, filter="data")
        source = archive.with_name(archive.name.removesuffix(".tar.gz"))
        apply_edits(source)
        command = [*call_pip(bin_folder / "python"), "wheel", *BESIDE_TOOLS, "--verbose"]
        environment = make_tool_variables(bin_folder) | switches
        if "HOROVOD_GPU_OPERATIONS" in switches:
            environment |= make_tool_variables(bin_folder, find_nvcc(bin_folder)) | link_nccl(
                scratch / "nccl", base["python"]
            )
        subprocess.run([*command, "--wheel-dir", str(folder), str(source)], check=True, env=environment)
    (wheel,) = folder.glob("horovod-*.whl")
    return wheel


def build_horovod(base: dict, tools: list[Path], source_pins: Path, family: str, device: str, jobs: int) -> dict:
    """Return the wheel's record: its path, its hash, the edits, and the ingredients to build it again.

    base: the record of the framework's environment. family: `torch` or `keras`. device: `cpu` or `cuda`. jobs: the
    number of compilers that run at a time.
    """
    digest = hash_ingredients(base, [*tools, source_pins], family, device)
    folder = resolve_cache().with_name("wheels") / f"horovod-{family}-{device}-{digest[:12]}"
    marker = find_made(folder / "complete.json")
    with nullcontext() if marker.exists() else hold_lock(f"{folder}.lock"):
        if not marker.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            switches = list_switches(family, device) | {"MAKEFLAGS": f"-j{jobs}"}
            wheel = build(folder, base, tools, source_pins, switches)
            write_json_atomic(marker, {"wheel": str(wheel), "sha256": sha256_of_file(wheel), "python": sys.version})
    edits = [{"path": edit.path, "why": edit.why} for edit in EDITS]
    ingredients = {
        **{"base": base["name"], "base_pins": base["pins"], "tools": [str(path) for path in tools]},
        **{"source": str(source_pins), "family": family, "device": device},
    }
    return json.loads(marker.read_text()) | {"edits": edits, "ingredients": ingredients}
