"""Edits of Horovod's source, because the last release, 0.28.1, is older than current PyTorch and TensorFlow."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Edit:
    """A text in the source that occurs exactly `times` times, and its replacement."""

    path: str
    old: str
    new: str
    why: str
    times: int = 1


LATER_STANDARD = "PyTorch's and TensorFlow's headers are C++17"
NO_STREAM_VALUE = "TensorFlow no longer exports what gives a stream's CUDA handle"
OWN_BACKEND = "the backend of the Keras that is in use, not of whichever is installed"
EDITS = (
    Edit(
        "setup.py",
        "else 'RelWithDebInfo'",
        "else 'Release'",
        "debugging information takes a fifth of the build's time; the optimization, -O3, is the same",
    ),
    Edit("CMakeLists.txt", "set(CMAKE_CXX_STANDARD 14)", "set(CMAKE_CXX_STANDARD 17)", LATER_STANDARD),
    Edit("horovod/torch/CMakeLists.txt", "set(CMAKE_CXX_STANDARD 14)", "set(CMAKE_CXX_STANDARD 17)", LATER_STANDARD),
    Edit(
        "cmake/Modules/FindPytorch.cmake",
        "(CUDA_HOME is not None))",
        "(CUDA_HOME is not None) and 'HOROVOD_GPU_OPERATIONS' in __import__('os').environ)",
        "a build for CPUs needs no CUDA, also with the CUDA build of PyTorch beside an nvcc",
    ),
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


class EditError(Exception):
    """The text that an edit replaces does not occur in the source as often as expected."""


def apply_edits(source: Path) -> None:
    for edit in EDITS:
        path = source / edit.path
        text = path.read_text() if path.exists() else ""
        if (found := text.count(edit.old)) != edit.times:
            raise EditError(f"{edit.path} has {edit.old.strip()!r} {found} times, not {edit.times} ({edit.why})")
        path.write_text(text.replace(edit.old, edit.new))


def describe_edits() -> list[tuple[str, str, str, int]]:
    """Describe the edits without their reasons, so that a reworded reason does not rebuild a wheel."""
    return [(edit.path, edit.old, edit.new, edit.times) for edit in EDITS]
