"""Versions of native libraries are those of the files that a process has loaded."""

from types import SimpleNamespace

import pytest

from helpers.shell_variables import PASSWORD, PLANTED, TOKENS
from howmanygpus.base import variables
from howmanygpus.measure.host import libraries


def test_a_loaded_library_is_found_by_its_name(tmp_path, monkeypatch):
    maps = tmp_path / "maps"
    maps.write_text(
        "7f00-7f01 r--p 0 08:01 1  /lib/libc.so.6\n7f02-7f03 rw-p 0 00:00 0 [heap]\n7f04-7f05 rw-p 0 00:00 0\n"
    )
    monkeypatch.setattr(libraries, "MAPS", maps)
    assert libraries.find_loaded_library("libc.so") == "/lib/libc.so.6"
    assert libraries.find_loaded_library("libcudnn.so") is None and libraries.read_cudnn_version() is None


@pytest.mark.parametrize(("number", "version"), [(91002, "9.10.2"), (90100, "9.1.0"), (8907, "8.9.7"), (7605, "7.6.5")])
def test_cudnn_numbers_its_versions_in_two_ways(monkeypatch, number, version):
    library = SimpleNamespace(cudnnGetVersion=type("Function", (), {"__call__": lambda self: number})())
    monkeypatch.setattr(libraries, "find_loaded_library", lambda name: "/lib/libcudnn.so.9")
    monkeypatch.setattr(libraries.ctypes, "CDLL", lambda path: library)
    assert libraries.read_cudnn_version() == version


def test_variables_of_libraries_are_listed_without_variables_of_single_processes(monkeypatch):
    kept = {"NCCL_ALGO": "Ring", "XLA_FLAGS": "--a", "KMP_AFFINITY": "compact", "TF_ENABLE_ONEDNN_OPTS": "0"}
    kept |= {
        "CUDA_CACHE_PATH": "/c",
        "MXNET_CUDNN_AUTOTUNE_DEFAULT": "0",
        "JAX_ENABLE_X64": "1",
        "OMP_NUM_THREADS": "4",
    }
    kept |= {"OMPI_MCA_btl": "tcp", "HOROVOD_FUSION_THRESHOLD": "0"}
    kept |= {"TORCHINDUCTOR_MAX_AUTOTUNE": "1", "TORCHDYNAMO_DISABLE": "1", "TRITON_F32_DEFAULT": "ieee"}
    kept |= {"ATEN_CPU_CAPABILITY": "avx2", "CUBLASLT_WORKSPACE_SIZE": "1", "FLAX_USE_FLAXLIB": "1"}
    kept |= {"UCX_TLS": "tcp", "FI_PROVIDER": "efa", "OFI_NCCL_PROTOCOL": "RDMA", "GRPC_POLL_STRATEGY": "poll"}
    left_out = {"TORCHINDUCTOR_CACHE_DIR": "/tmp/me", "TRITON_CACHE_DIR": "/tmp/me/triton/0"}
    left_out |= {"TF_CONFIG": "{}", "HOROVOD_RANK": "1", "HOROVOD_GLOO_RENDEZVOUS_ADDR": "h", "PATH": "/bin"}
    left_out |= {"RANK": "0", "OMPI_MCA_ess_base_jobid": "1", "_HOROVOD_SECRET_KEY": "s", "TOKEN_TF_X": "s"}
    monkeypatch.setattr("os.environ", kept | left_out)
    assert variables.list_variables() == kept


def test_tokens_and_places_of_a_user_are_in_no_record(monkeypatch):
    """A token may be in any variable, also in one of a family that is kept for the networks of a cluster."""
    given = TOKENS | {
        "HOME": "/home/me",
        "NCCL_NEW_TOKEN": PLANTED,
        "XLA_FLAGS": "--xla_dump_to=/home/me/x --y=/home/meat",
    }
    given |= {"CUDA_CACHE_PATH": f"https://me:{PASSWORD}@host/cache"}
    monkeypatch.setattr("os.environ", given)
    assert variables.list_variables() == {
        "CUDA_CACHE_PATH": "https://host/cache",
        "NCCL_NEW_TOKEN": "set",
        "XLA_FLAGS": "--xla_dump_to=~/x --y=/home/meat",
    }
