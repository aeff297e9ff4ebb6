"""What backends do on GPUs only, in frameworks that have none: stand-ins replace CUDA and NVML."""

import functools
import json
import os
import subprocess
from pathlib import Path

import pytest

from helpers.messages import says
from howmanygpus.base.shown import SHOWN
from project import ROOT


@pytest.fixture(scope="module")
def check(environment_python, kept):
    """Return a function that takes a framework's paths, once, and returns what was seen."""

    def see(framework, folder):
        folders = [ROOT / "workflow" / "lib", ROOT / "tests"]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders))}
        for name in ("NVIDIA_TF32_OVERRIDE", "XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"):
            environment.pop(name, None)
        command = [environment_python(f"{framework}-cpu"), Path(__file__).with_name("check_gpu_paths.py"), framework]
        result = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr[-3000:]
        (folder / "seen.json").write_text(result.stdout.splitlines()[-1])

    @functools.cache
    def get(framework):
        folder = kept(f"gpu-paths-{framework}", f"{framework}-cpu", lambda folder: see(framework, folder))
        return json.loads((folder / "seen.json").read_text())

    return get


def test_stock_leaves_pytorch_the_choice_of_the_optimizers_implementation(check):
    """If it got fused=False, PyTorch would loop over the parameters on GPUs instead of using foreach."""
    assert check("pytorch")["stock"] == {"fused": None, "foreach": None}
    assert check("pytorch")["best"]["fused"] is True


@pytest.mark.parametrize("framework", ["pytorch", "chainer"])
def test_a_task_of_the_best_tier_leaves_stock_its_algorithms(check, framework):
    """The parity gate does tasks of both tiers in one process."""
    assert check(framework)["autotunes"] == [False, True, False]


def test_every_network_of_a_process_is_compiled(check):
    """PyTorch has one limit for all networks that call the same function, and runs the others eagerly."""
    assert check("pytorch")["graphs"] == [1] * 12


def test_a_network_that_is_not_compiled_is_refused_or_recorded(check):
    seen = check("pytorch")
    assert seen["limited"] == "FailOnRecompileLimitHit"
    assert seen["executions"] == [
        "torch.compile, eager after its limit of recompilations",
        "torch.compile",
        "eager: torch.compile has compiled nothing",
    ]


def test_a_python_without_headers_cannot_compile_for_a_gpu(check):
    """Triton would fail in the first step, as a crash that is tried again."""
    assert says(check("pytorch")["headers"], "Python.h", "/nowhere", "python3-dev")


def test_the_best_tier_has_no_ddp_without_an_exchange_and_cuda_graphs_where_they_are_right(check):
    """A CUDA graph would overwrite gradients that are added up, and DDP's hooks are no part of it."""
    wrapped, buffers = check("pytorch")["wrapped"], {check("pytorch")["sync_options"][0]: False}
    assert wrapped["stock"][0] == buffers
    assert wrapped["best"] == [None, "reduce-overhead"] and wrapped["accumulated"] == [None, "default"]
    for kind in ("several", "compressed"):
        assert wrapped[kind] == [buffers | {"gradient_as_bucket_view": True}, "default"]


def test_ddp_of_older_pytorch_gets_the_option_that_it_knows(check):
    """A site's own PyTorch may be older than the pinned one."""
    assert check("pytorch")["sync_options"] == ["forward_sync_buffers", "broadcast_buffers"]


def test_stock_leaves_keras_its_defaults(check):
    seen = check("tensorflow")
    assert seen["fit"] == {"stock": {}, "best": {"jit_compile": True}}
    assert seen["devices"] == ["/gpu:0", "/gpu:1"] and seen["growing"] == []


def test_the_memory_of_each_gpu_grows_if_the_run_says_so(check):
    told = check("tensorflow")["told"]
    assert told == [[gpu, grows] for grows in (True, False) for gpu in ("GPU 0", "GPU 1")]


def test_chainer_without_cudnn_is_unsupported(check):
    """It would fall back to slower kernels of its own, and the run would count as Chainer's speed."""
    assert "found no cuDNN" in check("chainer")["reason"]


def test_chainers_libraries_do_not_choose_tf32(check):
    assert check("chainer")["tf32"] == "0"


@pytest.mark.parametrize(("framework", "name"), [("chainer", "GPU 3"), ("mxnet", "NVIDIA H200")])
def test_the_device_is_the_gpu(check, framework, name):
    assert check(framework)["device_model"] == name


def test_jax_takes_the_memory_before_it_finds_its_devices(check):
    """By default, JAX would take 75 % of the memory."""
    seen = check("jax")
    assert (seen["fraction"], seen["devices"]) == (0.95, ["cuda"])


def test_records_show_all_variables_that_jax_reads_for_a_gpu(check):
    assert "XLA_CLIENT_MEM_FRACTION" in check("jax")["read"]
    assert {*check("jax")["read"]} <= SHOWN


def test_jax_takes_all_gpus_of_a_node_in_a_step_of_slurm(check):
    """By default, JAX takes one GPU for each process there, and the run would count as one on all."""
    assert check("jax")["visible"] == "0,1"


def test_jax_refuses_to_train_on_fewer_devices(check):
    assert check("jax")["refused"].startswith("JAX finds 2 of the 3 devices on this node")


def test_jax_refuses_a_precision_that_an_older_gpu_lacks(check):
    """XLA would compute in float32 there, and the run would count as one in that precision."""
    older, newer = check("jax")["older"], check("jax")["newer"]
    assert set(newer.values()) == {older.pop("fp32")} == {""}
    for precision, said in older.items():
        assert said == f"{precision} needs compute capability 8.0 or later, not Tesla T4"


def test_a_run_completes_without_counts_from_the_allocator_of_jax(check):
    assert check("jax")["uncounted"] == [None, "default"]


@pytest.mark.parametrize(("framework", "in_use"), [("jax", [0.75, None]), ("tensorflow", 0.75)])
def test_memory_in_use_is_read_from_a_pool_that_holds_the_whole_device(check, framework, in_use):
    """To the driver, such a device is always full."""
    assert check(framework)["in_use"] == in_use


@pytest.mark.parametrize(("framework", "device"), [("pytorch", "device 1"), ("chainer", "device")])
def test_threads_choose_their_device_before_they_use_it(check, framework, device):
    """A thread begins on the first GPU; CUDA would make a context there in the processes of all other GPUs."""
    assert check(framework)["calls"] == [device, "stream", device, "step"]


def test_pytorchs_thread_that_pins_memory_uses_the_device_of_its_process(check):
    """It takes over the device of the thread that starts it, which is not the one that made the loader."""
    assert check("pytorch")["loading"] == ["device 1", "loader, pin_memory True"]


def test_pytorch_without_nccl_trains_on_one_gpu_and_refuses_ddp(check):
    seen = check("pytorch")
    assert seen["libraries"] == ["torch", "cuda", "cudnn"]
    assert "was built without NCCL" in seen["refused"]


def test_processes_of_ddp_wait_for_one_that_reads_all_images(check):
    """NCCL's own patience is ten minutes, after which DDP would be the only framework that loses the run."""
    assert check("pytorch")["patience_s"] == [86400.0, 86400.0]


def test_pytorch_marks_a_step_on_each_gpu(check):
    assert check("pytorch")["marked_on"] == [0, 1]


def test_threads_that_wait_for_a_gpu_sleep(check):
    """For a copy, and for a step on each GPU. A thread that spins would take a core from the loader."""
    assert check("pytorch")["sleeps"] == [True, True, True]
    assert check("chainer")["events"] == [{"block": True, "disable_timing": True}] * 2


def test_tensorflow_marks_a_step_on_each_gpu(check):
    """Variables that are read elsewhere are copied to the first GPU, for which the host waits in each step."""
    assert check("tensorflow")["marked_on"] == ["device:CPU:0", "device:CPU:1"]


def test_tensorflow_copies_from_page_locked_memory(check):
    """Memory is page-locked by the context of the process's own GPU, and used again only when a copy is done with."""
    seen = check("tensorflow")
    assert seen["host_memory"] == "page-locked" and seen["kept"]
    assert seen["asked"] == [[1, 3], [4000, 3], [4000, 3]] and seen["before"] == 3


def test_copies_of_fit_are_not_said_to_be_those_of_the_loop(check):
    """tf.data takes fit's batches to the devices; only a batch that stays there is copied by the loop."""
    fed = check("tensorflow")["fed"]
    assert (fed["arrays"], fed["resident"]) == ("tf.data's own", "page-locked")
    rate, reason = fed["rate"]
    assert rate is None and reason.endswith("takes batches to the devices itself")


def test_without_page_locked_memory_tensorflow_still_trains_and_the_record_says_so(check):
    seen = check("tensorflow")
    assert seen["refused"] == "pageable: CUDA error 2" and seen["still"]


SETTINGS_ON_GPUS = {
    "pytorch": {"tf32": "convolutions on, matrix products off", "allocator": "PyTorch's, native"},
    "tensorflow": {"tf32": "off", "allocator": "TensorFlow's BFC, takes the memory at once"},
    "jax": {"tf32": "off", "allocator": "default, takes 38.0 GiB"},
    "mxnet": {"autotune": "cuDNN autotune: limited workspace"},
    "chainer": {"tf32": "off (NVIDIA_TF32_OVERRIDE)", "cudnn": "not loaded, use_cudnn auto"},
}


@pytest.mark.parametrize("framework", SETTINGS_ON_GPUS)
def test_settings_of_gpus_are_read_back(check, framework):
    """PyTorch's values are its defaults, since no precision was set."""
    settings = check(framework)["settings"]
    assert settings.keys() == {"autotune", "tf32", "allocator", "cudnn"}
    assert SETTINGS_ON_GPUS[framework].items() <= settings.items()
