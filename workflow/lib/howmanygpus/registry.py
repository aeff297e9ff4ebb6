"""The registry of frameworks: the family, environments and launcher of each, and the settings that it supports."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Framework:
    """One framework of the registry. The keys of dictionaries are device kinds, `cpu` or `cuda`.

    family: folder of its code in measure/frameworks/, and file name in a user's folder with a file for each family.
    strategy: file in the family's folder that implements training on several devices.
    launcher: how its processes start, see measure.launch.launchers. All launchers except `plain` can span nodes.
    environments: names of the pin files in envs/.
    capabilities: lowest and highest CUDA compute capability for which its builds contain machine code.
    precisions: the precisions that it offers.
    batchnorm: the kinds of BatchNorm that it offers on more than one device.
    lacks_synchronized: why it has no synchronized BatchNorm, by device kind, if its library has one for other cases.
    synchronizes_over_nodes: whether its synchronized BatchNorm covers the devices of all nodes.
    max_devices: the maximum number of devices, if there is one.
    compressions: the gradient compressions that it offers, which are the same for every device kind.
    best: a description of the fast path that it recommends. Without an entry, only the `stock` tier exists.
    native_loader: its own loader, a key of study.loaders.NATIVE_LOADERS, or None if it has none.
    dali_loader: the one that uses DALI, such a key too. dali_environments: the environments that have DALI.
    measures_noise: whether it measures gradient noise, see Backend.measure_gradients.
    one_device: its overhead for collective operations on one device, which does not need them.
    best_without: whether its `best` tier avoids that overhead on one device, unless gradients are compressed.
    best_on_one: why its `best` tier has one device at most, if so.
    keeps_exchange: why no run can leave out the exchange of gradients, by precision; empty if a run can.
    clause: what it is, to tell it from a framework whose name differs by one letter; empty without such a one.
    support: `current`; `maintained` here, though its project publishes no more releases; or `retired`, with the
        pins of envs/retired.txt and a Python of its own, which hold back nothing else.
    """

    family: str
    strategy: str
    launcher: str
    environments: dict[str, str]
    precisions: dict[str, tuple[str, ...]]
    capabilities: tuple[str, str | None] = ("7.0", None)
    batchnorm: dict[str, tuple[str, ...]] = field(
        default_factory=lambda: {"cpu": ("local", "synchronized"), "cuda": ("local", "synchronized")}
    )
    lacks_synchronized: dict[str, str] = field(default_factory=dict)
    synchronizes_over_nodes: bool = True
    max_devices: dict[str, int] = field(default_factory=dict)
    compressions: tuple[str, ...] = ()
    best: dict[str, str] = field(default_factory=dict)
    native_loader: str | None = None
    dali_loader: str | None = None
    dali_environments: dict[str, str] = field(default_factory=dict)
    measures_noise: bool = False
    one_device: str = ""
    best_without: bool = False
    best_on_one: str = ""
    keeps_exchange: dict[str, str] = field(default_factory=dict)
    clause: str = ""
    support: str = "current"

    def resolve_machinery(self, settings: dict[str, Any]) -> str:
        """Return the overhead of a run on one device for collective operations. settings: `tier`, compression."""
        needs_none = settings["tier"] == "best" and settings["gradient_compression"] == "none"
        return "" if self.best_without and needs_none else self.one_device

    def resolve_environment(self, device_kind: str, loader: str) -> str:
        """Return the environment of a run. loader: `shared`, or a module."""
        return (self.dali_environments if loader == self.dali_loader else self.environments)[device_kind]

    def list_environments(self) -> list[str]:
        return [*self.environments.values(), *self.dali_environments.values()]

    def spans_nodes(self, batchnorm: str) -> bool:
        return self.launcher != "plain" and (batchnorm == "local" or self.synchronizes_over_nodes)


HOROVOD_ALONE = "Horovod with one process"
MIRRORED_ALONE = "MirroredStrategy with one replica"
PRECISIONS = {"cpu": ("fp32", "bf16"), "cuda": ("fp32", "tf32", "bf16")}
WITH_FP16 = {kind: (*precisions, "fp16") for kind, precisions in PRECISIONS.items()}
"""Precisions of PyTorch and Keras, which have dynamic loss scaling. float16 works on every device of their builds."""
AGREES_ON_SKIPS = {"fp16": "its replicas decide together in each step whether they skip it"}
ONLY_FP32: dict[str, tuple[str, ...]] = {"cpu": ("fp32",), "cuda": ("fp32",)}
BEST_TORCH = {
    "cpu": "channels_last and a fused optimizer",
    "cuda": "channels_last, torch.compile, a fused optimizer and cudnn.benchmark",
}
BEST_DDP = {
    "cpu": "gradients are views of DDP's buckets; no DDP on one device",
    "cuda": "gradients are views of DDP's buckets; on one device CUDA graphs and no DDP",
}
TORCH: dict[str, Any] = {
    "family": "torch",
    "environments": {"cpu": "pytorch-cpu", "cuda": "pytorch-cuda13"},
    "capabilities": ("7.5", None),
    "precisions": WITH_FP16,
    "native_loader": "torch.loader",
    "dali_loader": "torch.dali",
    "dali_environments": {"cpu": "pytorch-dali-cpu", "cuda": "pytorch-dali-cuda13"},
    "measures_noise": True,
    "best": BEST_TORCH,
}
TENSORFLOW: dict[str, Any] = {
    "family": "keras",
    "launcher": "plain",
    "environments": {"cpu": "tensorflow-cpu", "cuda": "tensorflow-cuda12"},
    # The build has no kernels for later GPUs, and they refuse those that it would compile.
    "capabilities": ("6.0", "9.0"),
    "precisions": WITH_FP16,
    "native_loader": "keras.tf_data",
    "measures_noise": True,
    "best": {"cuda": "XLA (jit_compile)"},
}
HOROVOD_TENSORFLOW = TENSORFLOW | {
    "support": "maintained",
    "launcher": "horovodrun",
    "environments": {"cpu": "horovod-tensorflow-cpu", "cuda": "horovod-tensorflow-cuda12"},
    "batchnorm": {"cpu": ("local",), "cuda": ("local",)},
    "lacks_synchronized": dict.fromkeys(
        ("cpu", "cuda"), "Horovod's SyncBatchNormalization is a layer of Keras 2, and this is Keras 3"
    ),
    "compressions": ("fp16",),
    "one_device": HOROVOD_ALONE,
    # XLA cannot compile a step that contains Horovod's operation.
    "best": {},
}

FRAMEWORKS = {
    "pytorch_ddp": Framework(
        strategy="ddp",
        clause="DistributedDataParallel, a process per device",
        launcher="per_device",
        one_device="DistributedDataParallel with one process",
        best_without=True,
        batchnorm={"cpu": ("local",), "cuda": ("local", "synchronized")},
        lacks_synchronized={"cpu": "torch.nn.SyncBatchNorm is for GPUs only"},
        compressions=("fp16", "powersgd"),
        **TORCH | {"best": {kind: f"{path}; {BEST_DDP[kind]}" for kind, path in BEST_TORCH.items()}},
    ),
    "pytorch_dp": Framework(
        strategy="dp",
        clause="DataParallel, one for all",
        launcher="plain",
        batchnorm={"cpu": ("local",), "cuda": ("local",)},
        # On CPUs nn.DataParallel silently runs on one device.
        max_devices={"cpu": 1},
        keeps_exchange=dict.fromkeys(
            WITH_FP16["cuda"], "nn.DataParallel has one set of weights, which it copies to all devices in each step"
        ),
        # The code of torch.compile would compute the original network's output in every replica.
        **TORCH | {"best": BEST_TORCH | {"cuda": "channels_last, a fused optimizer and cudnn.benchmark"}},
    ),
    "horovod_pytorch": Framework(
        strategy="horovod",
        support="maintained",
        launcher="horovodrun",
        batchnorm={"cpu": ("local",), "cuda": ("local",)},
        lacks_synchronized={
            "cpu": "Horovod's SyncBatchNorm is for GPUs only",
            "cuda": "Horovod's SyncBatchNorm, which is for GPUs only, is not used here",
        },
        compressions=("fp16",),
        one_device=HOROVOD_ALONE,
        **TORCH
        | {
            "environments": {"cpu": "horovod-pytorch-cpu", "cuda": "horovod-pytorch-cuda13"},
            # Horovod is built beside one environment only.
            "dali_loader": None,
            "dali_environments": {},
        },
    ),
    "horovod_tensorflow": Framework(strategy="horovod", **HOROVOD_TENSORFLOW),
    "horovod_keras": Framework(strategy="fit_horovod", **HOROVOD_TENSORFLOW | {"native_loader": "keras.loader"}),
    "tensorflow_mirrored": Framework(
        strategy="mirrored", one_device=MIRRORED_ALONE, keeps_exchange=AGREES_ON_SKIPS, **TENSORFLOW
    ),
    "keras_mirrored": Framework(
        strategy="fit_mirrored",
        one_device=MIRRORED_ALONE,
        keeps_exchange=AGREES_ON_SKIPS,
        best_on_one="XLA compiles the step of fit for the variables of one device",
        **TENSORFLOW | {"native_loader": "keras.loader", "best": {"cuda": "XLA (jit_compile), on one device only"}},
    ),
    "tensorflow_multiworker": Framework(
        strategy="multiworker",
        one_device="MultiWorkerMirroredStrategy with one worker",
        keeps_exchange=AGREES_ON_SKIPS,
        **TENSORFLOW | {"launcher": "per_device"},
    ),
    "jax_sharding": Framework(
        family="flax",
        strategy="sharding",
        launcher="per_node",
        environments={"cpu": "jax-cpu", "cuda": "jax-cuda13"},
        capabilities=("7.5", None),
        precisions=PRECISIONS,
        measures_noise=True,
    ),
    "mxnet_gluon": Framework(
        family="gluon",
        support="retired",
        strategy="contexts",
        launcher="per_node",
        environments={"cpu": "mxnet-cpu", "cuda": "mxnet-cuda11"},
        # The build contains machine code for sm_50 to sm_86, and no PTX that later devices could compile.
        capabilities=("5.0", "8.6"),
        precisions=ONLY_FP32,
        batchnorm={"cpu": ("local",), "cuda": ("local", "synchronized")},
        synchronizes_over_nodes=False,
        native_loader="gluon.loader",
        measures_noise=True,
        best=dict.fromkeys(("cpu", "cuda"), "hybridize with static memory and shapes"),
    ),
    "chainer_mn": Framework(
        family="chainer",
        support="retired",
        strategy="multi_node",
        launcher="mpirun",
        one_device="ChainerMN's optimizer with one process",
        environments={"cpu": "chainer-cpu", "cuda": "chainer-cuda12"},
        capabilities=("5.0", "9.0"),
        precisions=ONLY_FP32,
        native_loader="chainer.loader",
        measures_noise=True,
        best={"cuda": "cuDNN autotune"},
    ),
}
LOSS_ON_EVERY_DEVICE = "pytorch_dp"
"""The only framework that computes its loss on the first device alone unless it is told otherwise."""
LOSS_ON_FIRST_DEVICE = "mxnet_gluon"
"""The only framework that computes its loss on the first device alone if it is told to."""
FIRST_STATISTICS = ("pytorch_dp",)
"""Frameworks that always evaluate with the first device's running statistics, because they keep no others."""


def tell_apart(names: Iterable[str]) -> str:
    """Say what those frameworks are whose names differ by one letter from others in `names`; empty without any."""
    known = sorted(set(names) & FRAMEWORKS.keys())
    alike = [one for one in known if any(differ_by_one_letter(one, other) for other in known)]
    return "; ".join(f"{name}: {FRAMEWORKS[name].clause}" for name in alike)


def differ_by_one_letter(one: str, other: str) -> bool:
    """Whether a letter more, less or instead makes one name of another."""
    short, long = sorted((one, other), key=len)
    rest = len(short) == len(long)
    return one != other and any(short[:i] + long[i] + short[i + rest :] == long for i in range(len(long)))


def explain_unsupported(framework: str, device, precision: str, layout: tuple[int, int], settings: dict) -> str:
    """Return why a combination is not supported, or an empty text if it is.

    device: a site.machine.Device. layout: the numbers of devices and nodes. settings: `batchnorm`, `tier`,
    `gradient_compression`, `horovod_controller`, `loss_on_every_device`, `loss_on_first_device`, `memory_growth` and
    `independent`; `eval_batchnorm` if an unfair protocol sets it.
    """
    entry, device_kind, capability = FRAMEWORKS[framework], device.kind, device.compute_capability
    num_gpus, num_nodes = layout
    if settings["independent"]:
        if num_nodes > 1:
            return f"independent runs are compared on one node, and {num_gpus} devices are on {num_nodes}"
        if settings["horovod_controller"] != "gloo":
            return "independent runs start without mpirun, which horovod_controller: mpi needs"
        num_gpus = 1
    if device_kind not in entry.environments:
        return f"{framework} has no environment for {device_kind}"
    if capability is not None and device_kind == "cuda":
        lowest, highest = entry.capabilities
        if _version(capability) < _version(lowest) or (highest and _version(capability) > _version(highest)):
            between = f"{lowest} to {highest}" if highest else f"{lowest} or later"
            return f"{framework} is built for compute capability {between}, not {capability}"
    if num_nodes > 1 and not entry.spans_nodes(settings["batchnorm"]):
        what = "is one process" if entry.launcher == "plain" else "synchronizes BatchNorm within a process"
        return f"{framework} {what}: it uses the {device.devices_per_node} devices of one node at most"
    if precision not in entry.precisions[device_kind]:
        why = ", which needs a loss scaling that it lacks here" if precision == "fp16" else ""
        return f"{framework} offers {', '.join(entry.precisions[device_kind])} on {device_kind}, not {precision}{why}"
    if num_gpus > entry.max_devices.get(device_kind, num_gpus):
        return f"{framework} uses {entry.max_devices[device_kind]} {device_kind} device at most"
    if num_gpus > 1 and settings["batchnorm"] not in entry.batchnorm[device_kind]:
        reason = entry.lacks_synchronized.get(device_kind)
        because = f": {reason}" if reason else ""
        return f"{framework} has no {settings['batchnorm']} BatchNorm on {device_kind}{because}"
    if settings["tier"] == "best" and device_kind not in entry.best:
        return f"{framework} has no faster path of its own on {device_kind}: its best tier is the stock one"
    if settings["tier"] == "best" and num_gpus > 1 and entry.best_on_one:
        return f"{framework} has no faster path of its own on several devices: {entry.best_on_one}"
    compression = settings["gradient_compression"]
    if compression != "none" and compression not in entry.compressions:
        return f"{framework} has no {compression} compression of gradients"
    if compression == "powersgd" and precision == "fp16":
        return f"{framework} has no {compression} compression in fp16: it would keep what overflowed for later steps"
    if settings["horovod_controller"] != "gloo" and entry.launcher != "horovodrun":
        return f"horovod_controller is a choice of Horovod; {framework} has none"
    if settings.get("eval_batchnorm") == "batch" and entry.family == "gluon" and settings["tier"] == "best":
        return f"{framework} hybridizes its network in the best tier, which then cannot evaluate by the batch"
    if settings["loss_on_every_device"] and framework != LOSS_ON_EVERY_DEVICE:
        return f"loss_on_every_device is a choice of {LOSS_ON_EVERY_DEVICE}; {framework} always does so"
    if settings["loss_on_first_device"] and framework != LOSS_ON_FIRST_DEVICE:
        usual = "does so" if framework == LOSS_ON_EVERY_DEVICE else "computes it on each device"
        return f"loss_on_first_device is a choice of {LOSS_ON_FIRST_DEVICE}; {framework} {usual}"
    if settings["memory_growth"] is not None and (entry.family != "keras" or device_kind != "cuda"):
        return f"memory_growth is a choice of TensorFlow on GPUs; {framework} on {device_kind} has none"
    return ""


NO_WHEELS = {
    "aarch64": {
        "tensorflow-cuda12": "TensorFlow's wheel is for processors alone",
        "horovod-tensorflow-cuda12": "TensorFlow's wheel is for processors alone",
        "mxnet-cuda11": "mxnet-cu112 has no wheel",
        "chainer-cuda12": "cuDNN 8 for CUDA 12 has no wheel",
    }
}
"""Environments that cannot be installed on processors of a kind (platform.machine), and why, by the files on PyPI."""


def explain_missing_wheels(framework: str, device_kind: str, processor: str) -> str:
    """Return why a framework cannot be installed on a kind of processor, or an empty text if it can."""
    environment = FRAMEWORKS[framework].environments.get(device_kind, "")
    why = NO_WHEELS.get(processor, {}).get(environment)
    remedy = "name a build of the site under `environments` of the machine file"
    return f"{framework} cannot be installed for {device_kind} on {processor}: {why}; {remedy}" if why else ""


def explain_kept_exchange(framework: str, precision: str) -> str:
    """Return why no run of a framework can leave out the exchange of gradients, or an empty text if one can."""
    reason = FRAMEWORKS[framework].keeps_exchange.get(precision)
    return f"{framework} cannot leave out the exchange of gradients: {reason}" if reason else ""


def _version(capability: str) -> tuple[int, ...]:
    return tuple(int(part) for part in capability.split("."))
