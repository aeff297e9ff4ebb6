"""Edits of Horovod's source: 0.28.1, the last release, is older than today's PyTorch and TensorFlow."""

from dataclasses import dataclass
from pathlib import Path


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


class EditError(Exception):
    """A place that an edit is about is not in the source as often as it should be."""


def apply_edits(source: Path) -> None:
    for edit in EDITS:
        path = source / edit.path
        text = path.read_text() if path.exists() else ""
        if (found := text.count(edit.old)) != edit.times:
            raise EditError(f"{edit.path} has {edit.old.strip()!r} {found} times, not {edit.times} ({edit.why})")
        path.write_text(text.replace(edit.old, edit.new))


def describe_edits() -> list[tuple[str, str, str, int]]:
    """What the edits do, without the reasons for them: a reworded reason builds no wheel again."""
    return [(edit.path, edit.old, edit.new, edit.times) for edit in EDITS]
