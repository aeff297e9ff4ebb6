"""Every framework a study may name: the family of its models, its environments, its launcher, what it supports."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Framework:
    """One entry.

    family: file name of its models in models/<model>/ and of its shared code in families/.
    launcher: how its processes start, an entry of trainbench.launch.build_command.
    environments: pins in envs/ by device kind. precisions: what it offers by device kind.
    """

    family: str
    launcher: str
    environments: dict[str, str]
    precisions: dict[str, tuple[str, ...]]


CPU_PRECISIONS = ("fp32", "bf16")
CUDA_PRECISIONS = ("fp32", "tf32", "bf16")

FRAMEWORKS = {
    "pytorch_ddp": Framework(
        family="torch",
        launcher="torchrun",
        environments={"cpu": "pytorch-cpu", "cuda": "pytorch-cuda13"},
        precisions={"cpu": CPU_PRECISIONS, "cuda": CUDA_PRECISIONS},
    ),
    "keras_mirrored": Framework(
        family="keras",
        launcher="plain",
        environments={"cpu": "tensorflow-cpu", "cuda": "tensorflow-cuda12"},
        precisions={"cpu": CPU_PRECISIONS, "cuda": CUDA_PRECISIONS},
    ),
}


def find_unsupported_reason(framework: str, device_kind: str, precision: str) -> str:
    """Why a combination is not run at all; empty where it is."""
    entry = FRAMEWORKS[framework]
    if device_kind not in entry.environments:
        return f"{framework} has no environment for {device_kind}"
    if precision not in entry.precisions[device_kind]:
        return f"{framework} offers {', '.join(entry.precisions[device_kind])} on {device_kind}, not {precision}"
    return ""
