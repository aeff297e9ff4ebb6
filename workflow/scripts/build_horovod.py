"""
Build Horovod's wheel from its source for one framework, or find it in the cache, and record where it is.

Horovod 0.28.1, the last release, is older than today's PyTorch and TensorFlow: EDITS make it build. The wheel is built
beside an environment that has the framework, which it leaves as it is, and kept in the cache by the hash of all that
went into it.
"""

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from build_environment import as_options, call_pip, create, find_cache, use_fetched

from trainbench.data import sha256_of_file
from trainbench.records import write_json_atomic


@dataclass(frozen=True)
class Edit:
    """One place in the source, which is there as often as `times` says, and what takes its place."""

    path: str
    old: str
    new: str
    why: str
    times: int = 1


LATER_STANDARD = "PyTorch's and TensorFlow's headers are C++17"
NO_STREAM_VALUE = "TensorFlow no longer exports what gives a stream's CUDA handle"
OWN_BACKEND = "the backend of the Keras that is in use, not of whichever is installed"
EDITS = (
    Edit("CMakeLists.txt", "set(CMAKE_CXX_STANDARD 14)", "set(CMAKE_CXX_STANDARD 17)", LATER_STANDARD),
    Edit("horovod/torch/CMakeLists.txt", "set(CMAKE_CXX_STANDARD 14)", "set(CMAKE_CXX_STANDARD 17)", LATER_STANDARD),
    Edit(
        "horovod/common/ops/cuda/CMakeLists.txt",
        "set(CMAKE_CUDA_STANDARD 11)",
        "set(CMAKE_CUDA_STANDARD 17)",
        LATER_STANDARD,
    ),
    Edit(
        "horovod/tensorflow/CMakeLists.txt",
        'list(APPEND TF_SOURCES "${PROJECT_SOURCE_DIR}/horovod/tensorflow/xla_mpi_ops.cc")\n',
        "",
        "TensorFlow's wheel lacks headers of this optional operation, which is off by default",
    ),
    Edit(
        "horovod/tensorflow/mpi_ops.cc",
        "// Forward declaration of AsGpuStreamValue\n"
        "namespace stream_executor {\n"
        "namespace gpu {\n"
        "GpuStreamHandle AsGpuStreamValue(Stream* stream);\n"
        "} // namespace stream_executor\n"
        "} // namespace gpu\n",
        "",
        NO_STREAM_VALUE,
    ),
    Edit(
        "horovod/tensorflow/mpi_ops.cc",
        "#endif // TENSORFLOW_VERSION >= 2011000000\n#endif // HAVE_GPU\n",
        "#endif // TENSORFLOW_VERSION >= 2011000000\n"
        "namespace stream_executor::gpu {\n"
        "inline GpuStreamHandle AsGpuStreamValue(Stream* stream) {\n"
        "  return static_cast<GpuStreamHandle>(stream->platform_specific_handle().stream);\n"
        "}\n"
        "}  // namespace stream_executor::gpu\n"
        "#endif // HAVE_GPU\n",
        NO_STREAM_VALUE,
    ),
    *(
        Edit(f"horovod/tensorflow/keras/{name}.py", "from keras import backend as K", "K = keras.backend", OWN_BACKEND)
        for name in ("__init__", "callbacks")
    ),
)
SWITCHES = {"torch": "PYTORCH", "keras": "TENSORFLOW"}
"""What Horovod's build calls the frameworks, by family."""
RUN_PATH = r"-Wl,-rpath,\$ORIGIN/../../../.."
"""From the library in lib/python3.x/site-packages/horovod/<framework>/ to lib/, where Open MPI's own are."""
CAPABILITIES = {"torch": "75,80,86,89,90,100,120", "keras": "60,70,75,80,86,89,90"}
"""That Horovod's CUDA kernels are compiled for, by family: its own list is all that nvcc ever knew."""
FRAMEWORKS = ("PYTORCH", "TENSORFLOW", "MXNET")
BESIDE_TOOLS = ("--no-deps", "--no-build-isolation")
"""Options of pip in an environment that has the tools."""


class EditError(Exception):
    """A place that an edit is about is not in the source as often as it should be."""


def apply_edits(source: Path) -> None:
    for edit in EDITS:
        path = source / edit.path
        text = path.read_text() if path.exists() else ""
        if (found := text.count(edit.old)) != edit.times:
            raise EditError(f"{edit.path} has {edit.old.strip()!r} {found} times, not {edit.times} ({edit.why})")
        path.write_text(text.replace(edit.old, edit.new))


def hash_ingredients(base: dict, pins: list[Path], family: str, device: str) -> str:
    """Of what decides what is built: edits, switches, pins, the framework's packages and Python, the machine."""
    python = subprocess.run([base["python"], "-VV"], check=True, capture_output=True, text=True).stdout
    words = (base["packages"], python, os.uname().machine, EDITS, list_switches(family, device))
    digest = hashlib.sha256(repr(words).encode())
    for path in pins:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def make_builder(folder: Path, base_python: str, tools: list[Path]) -> Path:
    """A virtual environment with the tools, whose Python also sees the packages of the framework's; its folder bin."""
    pip, bin_folder = create(folder, base_python), folder / "bin"
    subprocess.run([*pip, "install", *as_options(tools)], check=True)
    (Path(find_packages(str(bin_folder / "python"))) / "framework.pth").write_text(f"{find_packages(base_python)}\n")
    return bin_folder


def find_packages(python: str) -> str:
    """Folder of an interpreter's packages."""
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return subprocess.run([python, "-c", ask], check=True, capture_output=True, text=True).stdout.strip()


def list_switches(family: str, device: str) -> dict[str, str]:
    """Environment variables that tell Horovod's build what to build for."""
    wanted = SWITCHES[family]
    switches = {f"HOROVOD_WITH{'' if name == wanted else 'OUT'}_{name}": "1" for name in FRAMEWORKS}
    switches |= {"HOROVOD_WITH_GLOO": "1", "HOROVOD_WITH_MPI": "1", "LDFLAGS": RUN_PATH}
    if device == "cuda":
        switches |= {"HOROVOD_GPU_OPERATIONS": "NCCL", "HOROVOD_NCCL_LINK": "SHARED"}
        switches |= {"HOROVOD_BUILD_CUDA_CC_LIST": CAPABILITIES[family]}
    return switches


def find_nvcc(bin_folder: Path) -> str:
    """The folder of the CUDA compiler: the builder's own where it is among the tools, else the one on PATH.

    The own is completed under the names that CMake looks for. Raises SystemExit where there is none.
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
    """The framework's own NCCL under the names that CMake looks for; returns the switch that points there."""
    nccl = Path(find_packages(base_python)) / "nvidia" / "nccl"
    (folder / "lib").mkdir(parents=True)
    (folder / "include").symlink_to(nccl / "include")
    (folder / "lib" / "libnccl.so").symlink_to(nccl / "lib" / "libnccl.so.2")
    return {"HOROVOD_NCCL_HOME": str(folder)}


def find_tools(*folders: Path | str) -> dict[str, str]:
    """Environment variables of a process that shall find the tools in these folders, beside its Python."""
    return os.environ | {"PATH": os.pathsep.join([*map(str, folders), os.environ["PATH"]])}


def download_source(bin_folder: Path | str, pins: Path, folder: Path) -> Path:
    """The archive, in `folder`, by pip for an environment that has the tools: it asks the source what it is."""
    command = [*call_pip(f"{bin_folder}/python"), "download", *BESIDE_TOOLS, "--no-binary", ":all:"]
    command += ["--require-hashes", "--requirement", str(pins), "--dest", str(folder)]
    subprocess.run(command, check=True, env=find_tools(bin_folder))
    (archive,) = folder.glob("horovod-*.tar.gz")
    return archive


def build(folder: Path, base: dict, tools: list[Path], source_pins: Path, switches: dict[str, str]) -> Path:
    """Build in a scratch folder; returns the wheel, in `folder`. switches: environment variables of the build."""
    with tempfile.TemporaryDirectory(prefix="horovod-") as scratch:
        scratch = Path(scratch)
        bin_folder = make_builder(scratch / "builder", base["python"], tools)
        archive = download_source(bin_folder, source_pins, scratch)
        with tarfile.open(archive) as file:
            file.extractall(scratch, filter="data")
        source = archive.with_name(archive.name.removesuffix(".tar.gz"))
        apply_edits(source)
        wheel = [*call_pip(bin_folder / "python"), "wheel", *BESIDE_TOOLS, "--verbose"]
        environment = find_tools(bin_folder) | switches
        if "HOROVOD_GPU_OPERATIONS" in switches:
            environment |= find_tools(bin_folder, find_nvcc(bin_folder)) | link_nccl(scratch / "nccl", base["python"])
        subprocess.run([*wheel, "--wheel-dir", str(folder), str(source)], check=True, env=environment)
    (wheel,) = folder.glob("horovod-*.whl")
    return wheel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", type=Path, required=True, help="record of the environment that has the framework")
    parser.add_argument("--family", choices=SWITCHES, required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--tools", type=Path, nargs="+", required=True, help="pins of what builds")
    parser.add_argument("--source", type=Path, required=True, help="pin and hash of the source")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="compilers at a time")
    parser.add_argument("--record", type=Path, required=True, help="JSON file to write: where the wheel is")
    parser.add_argument("--wheels", type=Path, nargs="?", help="record of fetched tools and source, to take no others")
    arguments = parser.parse_args()
    use_fetched(arguments.wheels)
    base = json.loads(arguments.base.read_text())
    digest = hash_ingredients(base, [*arguments.tools, arguments.source], arguments.family, arguments.device)
    folder = find_cache().with_name("wheels") / f"horovod-{arguments.family}-{arguments.device}-{digest[:12]}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        marker = folder / "complete.json"
        if not marker.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            switches = list_switches(arguments.family, arguments.device) | {"MAKEFLAGS": f"-j{arguments.jobs}"}
            wheel = build(folder, base, arguments.tools, arguments.source, switches)
            write_json_atomic(marker, {"wheel": str(wheel), "sha256": sha256_of_file(wheel), "python": sys.version})
    edits = [{"path": edit.path, "why": edit.why} for edit in EDITS]
    write_json_atomic(arguments.record, json.loads(marker.read_text()) | {"edits": edits})


if __name__ == "__main__":
    main()
