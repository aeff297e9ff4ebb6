"""Take the paths of GPUs in a framework that has none, with stand-ins for CUDA. Prints what was seen, as JSON.

Each function imports its framework itself.
"""

import inspect
import json
import os
import re
import sys
import threading
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pynvml

from helpers.nvml import FakeGpu, FakeNvml
from helpers.specs import make_data, make_spec


def install_nvml() -> None:
    fake = FakeNvml([FakeGpu("GPU-one", memory_gib=40.0)])
    for name in (name for name in vars(FakeNvml) if name.startswith("nvml")):
        setattr(pynvml, name, getattr(fake, name))


def pytorch() -> dict:
    import torch

    from howmanygpus.measure.frameworks.torch.optimizers import build_optimizer

    def flags(tier: str) -> dict:
        group = build_optimizer([torch.nn.Parameter(torch.zeros(1))], make_spec(tier=tier)).param_groups[0]
        return {name: group[name] for name in ("fused", "foreach")}

    from howmanygpus.measure.frameworks.torch.settings import describe_cuda

    torch.cuda.get_allocator_backend = lambda: "native"
    seen = {tier: flags(tier) for tier in ("stock", "best")} | {"settings": describe_cuda()}
    seen |= compile_by_pytorch() | {"autotunes": autotune_by_pytorch()}
    seen |= copy_by_pytorch() | run_pytorch_without_nccl() | join_pytorch()
    return seen | {"wrapped": wrap_by_pytorch(), "loading": load_by_pytorch(), "headers": compile_without_headers()}


def compile_without_headers() -> str:
    """Return why a network is not compiled for a GPU."""
    import torch

    from howmanygpus.measure.frameworks.torch import family
    from howmanygpus.measure.loop.backend import UnsupportedError

    family.sysconfig = SimpleNamespace(get_path=lambda name: "/nowhere")
    try:
        family.apply_tier(torch.nn.Identity(), make_spec(tier="best", device="cuda", device_kind="cuda"), "default")
    except UnsupportedError as error:
        return str(error)
    return ""


def autotune_by_pytorch() -> list[bool]:
    """Return whether cuDNN's algorithms are measured in tasks of both tiers that one process does."""
    import torch

    from howmanygpus.measure.frameworks.torch.family import apply_tier

    found = []
    for tier in ("stock", "best", "stock"):
        apply_tier(torch.nn.Identity(), make_spec(tier=tier, device="cuda", device_kind="cuda"), compile_mode=None)
        found.append(torch.backends.cudnn.benchmark)
    return found


def compile_by_pytorch() -> dict:
    """Return how often networks of one process ran as graphs, by a compiler that only counts, and what records say."""
    import functools

    import torch

    from howmanygpus.measure.frameworks.torch.family import apply_tier
    from howmanygpus.measure.frameworks.torch.settings import describe_execution

    class Network(torch.nn.Module):
        """Is compiled again for every text."""

        text = ""

        def forward(self, x):
            return x * len(self.text)

    class NotCompiled(Network):
        forward = torch._dynamo.disable(Network.forward)

    ran = []

    def count(graph, inputs):
        def run(*arguments):
            ran[-1] += 1
            return graph(*arguments)

        return run

    def build(network, **changes):
        return apply_tier(network, make_spec(tier="best", device="cuda", device_kind="cuda", **changes), "default")

    def call(network, length=0):
        network.text = length * "a"
        ran.append(0)
        network(torch.ones(3))

    torch.nn.Module.compile = functools.partialmethod(torch.nn.Module.compile, backend=count)
    for length in range(12):
        call(build(Network()), length)
    seen: dict = {"graphs": ran.copy()}
    one = build(Network())
    try:
        for length in range(12):
            call(one, length)
    except torch._dynamo.exc.FailOnRecompileLimitHit as error:
        seen["limited"] = type(error).__name__
    own = build(Network(), model_file="own.py")
    for length in range(12):
        call(own, length)
    seen["executions"] = [describe_execution(own)]
    for network in (Network(), NotCompiled()):
        call(build(network))
        seen["executions"].append(describe_execution(network))
    return seen


def copy_by_pytorch() -> dict:
    """Return in which order a thread chooses its device, copies, and waits for a step, and where a step is marked."""
    import torch

    from howmanygpus.measure.frameworks.torch.batch import Copier
    from howmanygpus.measure.frameworks.torch.dp import PytorchDp

    calls, marked = [], []
    torch.cuda.set_device = lambda device: calls.append(f"device {device.index}")
    torch.cuda.Stream = lambda device: SimpleNamespace(record_event=lambda event: event)
    torch.cuda.stream = lambda stream: calls.append("stream") or nullcontext()
    torch.Tensor.pin_memory = lambda tensor: tensor
    torch.Tensor.to = lambda tensor, device, non_blocking: tensor
    torch.cuda.Event = lambda blocking=False: SimpleNamespace(record=marked.append, blocking=blocking)
    arrival = Copier(torch.device("cuda", 1)).put(np.zeros(3, np.uint8)).copied
    backend = object.__new__(PytorchDp)
    backend.device = torch.device("cuda", 1)
    backend.wait_for_step([SimpleNamespace(synchronize=lambda: calls.append("step"))])
    torch.cuda.current_stream = lambda device: device.index
    backend.is_cuda, backend.devices = True, [torch.device("cuda", 0), torch.device("cuda", 1)]
    waits = [arrival, *backend.mark_step()]
    return {"calls": calls, "marked_on": marked, "sleeps": [event.blocking for event in waits]}


def run_pytorch_without_nccl() -> dict:
    """Return the libraries whose versions are known, and why DDP refuses. PyTorch for CPUs has no NCCL."""
    import torch

    from howmanygpus.measure.frameworks.torch.ddp import SYNC_BUFFERS, PytorchDdp, detect_sync_option
    from howmanygpus.measure.frameworks.torch.dp import PytorchDp
    from howmanygpus.measure.loop.backend import UnsupportedError

    class DdpBefore213:
        def __init__(self, module, device_ids=None, broadcast_buffers=True, init_sync=True):
            pass

    backend = object.__new__(PytorchDp)
    backend.is_cuda, torch.version.cuda = True, "13.0"
    seen = {"libraries": list(backend.versions()), "sync_options": [SYNC_BUFFERS, detect_sync_option(DdpBefore213)]}
    try:
        PytorchDdp(make_spec(device="cuda", device_kind="cuda"), None, {}, None)
    except UnsupportedError as error:
        seen["refused"] = str(error)
    return seen


def join_pytorch() -> dict:
    """Return how long DDP lets a process wait for the others, in seconds, whatever devices evaluate."""
    import torch.distributed as dist

    from howmanygpus.measure.frameworks.torch.ddp import PytorchDdp

    class Joined(Exception):
        pass

    def init_process_group(backend, **options):
        raise Joined(options["timeout"].total_seconds())

    def join(eval_devices: str) -> float:
        backend = object.__new__(PytorchDdp)
        backend.set_up = lambda *arguments: setattr(backend, "device", None)
        try:
            backend.__init__(make_spec(eval_devices=eval_devices), None, {}, None)
        except Joined as joined:
            return joined.args[0]
        raise AssertionError("DDP has joined no process group")

    os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "HOWMANYGPUS_LEAVE_BINDING": "1"}
    PytorchDdp.is_cuda, dist.init_process_group = False, init_process_group
    return {"patience_s": [join("all"), join("first")]}


def wrap_by_pytorch() -> dict[str, list]:
    """Return the options of DDP, None without it, and the mode in which the network is compiled, by kind of run."""
    import torch.distributed as dist

    from howmanygpus.measure.frameworks.torch import ddp

    kinds: dict[str, dict] = {"stock": {}, "best": {"tier": "best"}, "several": {"tier": "best", "num_gpus": 2}}
    kinds |= {"accumulated": {"tier": "best", "accumulate": 2}}
    kinds |= {"compressed": {"tier": "best", "gradient_compression": "fp16"}}
    dist.init_process_group = lambda *arguments, **options: None
    ddp.DistributedDataParallel = lambda network, device_ids, **options: SimpleNamespace(
        options=options, register_comm_hook=lambda *arguments: None
    )
    found = {}
    for kind, changes in kinds.items():
        backend = object.__new__(ddp.PytorchDdp)
        vars(backend).update(set_up=lambda *arguments: None, spec=make_spec(**changes), device=None, network=None)
        backend.__init__(backend.spec, None, {}, None)
        found[kind] = [getattr(backend.network, "options", None), backend.compile_mode]
    return found


def load_by_pytorch() -> list[str]:
    """Return in which order the thread that iterates over PyTorch's loader chooses its device and starts the loader."""
    import torch

    from howmanygpus.measure.frameworks.torch import loader

    calls: list[str] = []
    torch.cuda.current_device, torch.cuda.set_device = lambda: 1, lambda device: calls.append(f"device {device}")
    loader.use_clean_workers = lambda module: None
    loader.DataLoader = lambda *_, **options: calls.append(f"loader, pin_memory {options['pin_memory']}") or []
    batches = loader.TorchBatches(make_spec(device="cuda", device_kind="cuda"), make_data(), 0, 1)
    thread = threading.Thread(target=list, args=[batches])
    thread.start()
    thread.join()
    return calls


def chainer() -> dict:
    from chainer.backends import cuda

    from howmanygpus.measure.frameworks.chainer.family import apply_tier
    from howmanygpus.measure.frameworks.chainer.multi_node import ChainerMn
    from howmanygpus.measure.frameworks.chainer.settings import describe_cuda
    from howmanygpus.measure.loop.backend import UnsupportedError

    backend, reason = object.__new__(ChainerMn), None
    try:
        backend.__init__(make_spec(device="cuda", device_kind="cuda"), None, {}, None)
    except UnsupportedError as error:
        reason = str(error)
    properties = SimpleNamespace(getDeviceProperties=lambda number: {"name": f"GPU {number}".encode()})
    cuda.cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=properties))
    backend.is_cuda, backend.device = True, SimpleNamespace(device=SimpleNamespace(id=3))
    seen = {"reason": reason, "tf32": os.environ.get("NVIDIA_TF32_OVERRIDE"), "settings": describe_cuda()}
    seen |= {"device_model": backend.device_model(), "autotunes": []}
    for tier in ("stock", "best", "stock"):
        apply_tier(tier)
        seen["autotunes"].append(describe_cuda()["autotune"].endswith("on"))
    cuda.Stream = SimpleNamespace(null=SimpleNamespace(record=lambda event: event))
    cuda.cupy = SimpleNamespace(cuda=SimpleNamespace(Event=lambda **options: options), asarray=np.asarray)
    arrival, calls = copy_by_chainer()
    return seen | {"events": [arrival, backend.mark_step()], "calls": calls}


def copy_by_chainer() -> tuple[dict, list[str]]:
    """Return the event of a copy, and in which order a thread chooses its device, copies, and waits for a step."""
    from howmanygpus.measure.frameworks.chainer.batch import Copier
    from howmanygpus.measure.frameworks.chainer.multi_node import ChainerMn

    class Stream(nullcontext):
        def __enter__(self):
            calls.append("stream")

        def record(self, event):
            return event

    calls = []
    device = SimpleNamespace(name="@numpy", use=lambda: calls.append("device"))
    copier = Copier(device)
    copier._stream = Stream()
    arrival = copier.put(np.zeros(3, np.uint8)).copied
    backend = object.__new__(ChainerMn)
    backend.device = device
    backend.wait_for_step(SimpleNamespace(synchronize=lambda: calls.append("step")))
    return arrival, calls


def mxnet() -> dict:
    from howmanygpus.measure.frameworks.gluon.contexts import MxnetGluon
    from howmanygpus.measure.frameworks.gluon.settings import describe_cuda

    backend = object.__new__(MxnetGluon)
    backend.spec = make_spec(device="cuda", device_kind="cuda")
    return {"device_model": backend.device_model(), "settings": describe_cuda()}


def jax() -> dict:
    import jax
    from jaxlib import xla_client

    from howmanygpus.measure.frameworks.flax.settings import describe_cuda
    from howmanygpus.measure.frameworks.flax.sharding import JaxSharding, set_up_devices

    seen = {}

    def list_devices(backend: str) -> list:
        seen["fraction"] = xla_client.generate_pjrt_gpu_plugin_options()["memory_fraction"]
        return [backend, backend]

    jax.local_devices = list_devices
    gpu = {"device": "cuda", "device_kind": "cuda"}
    seen["devices"] = set_up_devices(make_spec(**gpu))
    seen["visible"] = find_visible_in_slurm(set_up_devices, make_spec(num_gpus=4, num_nodes=2, **gpu))
    try:
        set_up_devices(make_spec(num_gpus=3, **gpu))
    except RuntimeError as error:
        seen["refused"] = str(error)
    uncounted = SimpleNamespace(platform="gpu", memory_stats=lambda: None)
    backend = object.__new__(JaxSharding)
    backend.devices = [uncounted]
    seen |= {"uncounted": [backend.peak_memory_bytes(), describe_cuda(uncounted)["allocator"]]}
    pools = [SimpleNamespace(memory_stats=lambda: {"peak_bytes_in_use": 30, "bytes_limit": 40}), uncounted]
    jax.local_devices = lambda: pools
    seen["in_use"] = [JaxSharding.read_memory_in_use_frac()]
    pools.pop(0)
    seen["in_use"].append(JaxSharding.read_memory_in_use_frac())
    seen["older"] = set_precisions_by_jax("7.5")
    seen["newer"] = set_precisions_by_jax("8.0")
    jax.config.update("jax_default_matmul_precision", "highest")
    seen |= {"settings": describe_cuda(SimpleNamespace(memory_stats=lambda: {"bytes_limit": 38 * 2**30}))}
    return seen | {"read": re.findall(r"'(XLA_\w+)'", inspect.getsource(xla_client.generate_pjrt_gpu_plugin_options))}


def set_precisions_by_jax(capability: str) -> dict[str, str]:
    """Return what JAX says to each precision on a GPU of a compute capability: nothing if it takes it."""
    from howmanygpus.measure.frameworks.flax.family import MATMUL_PRECISIONS, set_precision
    from howmanygpus.measure.loop.backend import UnsupportedError

    gpu, said = SimpleNamespace(platform="gpu", compute_capability=capability, device_kind="Tesla T4"), {}
    for precision in MATMUL_PRECISIONS:
        said[precision] = ""
        try:
            set_precision(make_spec(precision=precision), gpu)
        except UnsupportedError as error:
            said[precision] = str(error)
    return said


def find_visible_in_slurm(set_up_devices, spec) -> str:
    """Return the GPUs to which JAX restricts the first process of a node in a step of SLURM."""
    from jax._src import distributed, xla_bridge

    os.environ |= {"HOWMANYGPUS_ADDRESSES": "node0:1234,node1:1234", "WORLD_SIZE": "2", "RANK": "1"}
    os.environ |= {"SLURM_JOB_ID": "1", "SLURM_STEP_NODELIST": "node[0-1]", "SLURM_NTASKS": "2"}
    os.environ |= {"SLURM_PROCID": "1", "SLURM_LOCALID": "0", "SLURM_STEP_NUM_NODES": "2"}
    client = SimpleNamespace(connect=lambda: None, shutdown=lambda: None)
    distributed._jax.get_distributed_runtime_client = lambda *arguments, **options: client
    distributed.State.initialize_preemption_sync_manager = lambda state: None
    set_up_devices(spec)
    return xla_bridge.CUDA_VISIBLE_DEVICES.value


def tensorflow() -> dict:
    return {**mark_by_tensorflow(), **copy_by_tensorflow(), **set_up_tensorflow()}


def mark_by_tensorflow() -> dict:
    """Return where a step's marker reads the variables of two devices, which are parts of the host here."""
    import tensorflow as tf

    from howmanygpus.measure.frameworks.keras.fit_mirrored import KerasMirrored

    host = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(host, [tf.config.LogicalDeviceConfiguration()] * 2)
    backend, marked, identity = object.__new__(KerasMirrored), [], tf.identity
    backend.spec, backend._readers = make_spec(device_kind="cuda"), SimpleNamespace(submit=lambda read: read())
    backend.strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    with backend.strategy.scope():
        variable = tf.Variable([0.0, 1.0])
    backend.model = SimpleNamespace(trainable_variables=[SimpleNamespace(value=variable)])

    def note(value):
        marked.append(identity(value))
        return marked[-1]

    tf.identity = note
    backend.mark_step()
    tf.identity = identity
    return {"marked_on": [value.device.rpartition("/")[2] for value in marked]}


def set_up_tensorflow() -> dict:
    """Return what Keras's fit is told in each tier, and whether MirroredStrategy's GPUs have memory that grows."""
    import tensorflow as tf

    from howmanygpus.measure.frameworks.keras import family
    from howmanygpus.measure.frameworks.keras.fit_mirrored import KerasMirrored
    from howmanygpus.measure.frameworks.keras.replicas import set_up_devices
    from howmanygpus.measure.frameworks.keras.settings import describe_cuda
    from howmanygpus.measure.loop.prefetch import measure_host_to_device

    told, growing = {}, []
    tf.config.list_physical_devices = lambda kind: ["GPU 0", "GPU 1"]
    tf.config.experimental.set_memory_growth = lambda gpu, grows: growing.append([gpu, grows])
    on_gpus = {"device": "cuda", "device_kind": "cuda", "num_gpus": 2}
    devices = set_up_devices(make_spec(**on_gpus))
    by_default = growing.copy()
    for grows in (True, False):
        set_up_devices(make_spec(**on_gpus, memory_growth=grows))
    for tier in ("stock", "best"):
        backend = object.__new__(KerasMirrored)
        backend.spec = make_spec(tier=tier)
        backend.compile = lambda optimizer, tier=tier, **options: told.update({tier: options})
        backend.prepare_training(None)
    tf.config.experimental.get_memory_growth = lambda gpu: False
    tf.config.experimental.enable_tensor_float_32_execution(False)
    # TensorFlow knows no memory of another worker's GPU, such as /job:worker/replica:0/task:1/device:GPU:0.
    tf.config.get_visible_devices = lambda kind: [SimpleNamespace(name="/physical_device:GPU:1")]
    tf.config.experimental.get_memory_info = lambda name: {"peak": {"GPU:0": 30 * 2**30}[name]}
    in_use = KerasMirrored.read_memory_in_use_frac()
    fed, family.describe_settings = {}, lambda *arguments: {}
    for source in ("arrays", "resident"):
        backend.spec, backend.copier = make_spec(**on_gpus, input=source), SimpleNamespace(host_memory="page-locked")
        backend.model, backend.optimizer = SimpleNamespace(jit_compile=False), None
        backend._describe_exchange = lambda: "none"
        fed[source] = backend.settings()["host_memory"]
    fed["rate"] = measure_host_to_device(backend, backend.spec, None)
    seen = {"fed": fed, "fit": told, "devices": devices, "growing": by_default, "told": growing, "in_use": in_use}
    return seen | {"settings": describe_cuda("GPU 0")}


def copy_by_tensorflow() -> dict:
    import tensorflow as tf

    from howmanygpus.measure.frameworks.keras import copying

    asked, refuses = [], False

    def allocate(num_bytes: int, device: int) -> np.ndarray:
        if refuses:
            raise copying.PageLockedError("CUDA error 2")
        asked.append([num_bytes, device])
        # TensorFlow uses numpy's memory as it is if it begins at a multiple of 64 bytes, as CUDA's does.
        memory = np.zeros(num_bytes + 64, np.uint8)
        start = -memory.ctypes.data % 64
        return memory[start : start + num_bytes]

    copying.allocate_page_locked = allocate
    tf.config.get_visible_devices = lambda kind: [SimpleNamespace(name="/physical_device:GPU:3")]
    copier, images = copying.Copier(is_cuda=True), np.arange(1000, dtype=np.int32).reshape(10, 100)
    first, second = copier.put(images), copier.put(images + 1)
    kept = bool((first.numpy() == images).all() and (second.numpy() == images + 1).all())
    before = len(asked)
    del first
    third = copier.put(images + 2)
    kept = kept and bool((second.numpy() == images + 1).all() and (third.numpy() == images + 2).all())
    refuses = True
    refused = copying.Copier(is_cuda=True)
    return {
        **{"asked": asked, "before": before, "kept": kept, "host_memory": copier.host_memory},
        **{"refused": refused.host_memory, "still": bool((refused.put(images).numpy() == images).all())},
    }


if __name__ == "__main__":
    install_nvml()
    print(json.dumps(globals()[sys.argv[1]]()))
