"""A library of CUDA that finds no memory is an outcome like a framework that finds none; another error is a crash."""

import math

import pytest

from helpers.fake_clock import Ticking
from helpers.messages import says
from helpers.nvml import FakeGpu, FakeNvml
from helpers.specs import make_data, make_spec
from howmanygpus.measure.loop.backend import Backend
from howmanygpus.measure.loop.prefetch import measure_host_to_device
from howmanygpus.site.jobs.endings import name_crash


class Framework(Backend):
    out_of_memory_errors = (MemoryError,)
    out_of_memory_text = "device"


QUOTED = [
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    "Check failed: e == CUDNN_STATUS_SUCCESS (2 vs. 0) : cuDNN: CUDNN_STATUS_ALLOC_FAILED",
    "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call",
    "Triton Error [CUDA]: out of memory",
    "OutOfMemoryError: CUDA out of memory. Tried to allocate 7.00 GiB.\n\nSet TORCHDYNAMO_VERBOSE=1 for the trace",
    "NCCL error: unhandled cuda error, NCCL version 2.27.5\nLast error:\nCuda failure 2 'out of memory'",
    "NCCL error: unhandled cuda error, NCCL version 2.14.3\nLast error:\nCuda failure 'out of memory'",
    "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nFailed to CUDA calloc async 4194304 bytes",
    "cudaErrorMemoryAllocation: out of memory",
    "Failed copying input tensor from CPU:0 to GPU:0 in order to run _EagerConst: Dst tensor is not initialized.",
    "INTERNAL: failed to allocate: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
    "INTERNAL: All algorithms tried for %cudnn-conv = (f32[9,1]) failed. Falling back to default algorithm.  "
    "Per-algorithm errors:\n  Profiling failure on cuDNN engine eng1{k2=4,k3=0}: UNKNOWN: CUDNN_STATUS_ALLOC_FAILED",
    "INTERNAL: All algorithms tried for %cudnn-conv = (f32[9,1]) failed. Falling back to default algorithm.  "
    "Per-algorithm errors:\n  RESOURCE_EXHAUSTED: Out of memory while trying to allocate 2147483648 bytes.",
]
AMBIGUOUS_MESSAGES = [
    "GET was unable to find an engine to execute this computation",
    "FIND was unable to find an engine to execute this computation",
    "cuDNN error: CUDNN_STATUS_NOT_INITIALIZED",
    "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR",
    "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
    "INTERNAL: All algorithms tried for %cudnn-conv = (f32[9,1]) failed. Falling back to default algorithm.",
    "INTERNAL: Autotuning failed for HLO: %cudnn-conv = (f32[9,1]) with error: NOT_FOUND: No valid config found!",
    "No algorithm worked!  Error messages:",
    "Failed to find any forward convolution algorithm.  with workspace size of 1073741824 bytes",
    "NCCL_ERROR_UNHANDLED_CUDA_ERROR: unhandled cuda error",
]
OTHER = [
    RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED"),
    RuntimeError("Cuda failure 700 'an illegal memory access was encountered'"),
    RuntimeError("NCCL error: unhandled cuda error\nLast error:\nCuda failure 700 'an illegal memory access'"),
    RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED"),
    RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"),
    RuntimeError("out of resource: shared memory, Required: 147456, Hardware limit: 101376"),
    RuntimeError("INTERNAL: Autotuner could not compile any configs for HLO: %gemm_fusion"),
    MemoryError("the device: shared memory size limit exceeded: requested 327680, available: 232448"),
    MemoryError("the host is full"),
]


@pytest.fixture
def fill(monkeypatch):
    """A function that puts programs on a GPU that take a fraction of its memory."""

    def put(fraction):
        FakeNvml([FakeGpu("GPU-1", used_frac=0.01), FakeGpu("GPU-2", used_frac=fraction)]).install(monkeypatch)

    return put


@pytest.mark.parametrize("message", QUOTED)
def test_a_failed_allocation_of_a_library_is_out_of_memory(message):
    assert Framework.explain_out_of_memory(RuntimeError(message)) == message.splitlines()[0]


@pytest.mark.parametrize("message", AMBIGUOUS_MESSAGES)
def test_a_library_that_finds_no_algorithm_is_out_of_memory_on_a_full_device_alone(message, fill):
    """It says the same if the layer has no algorithm."""
    fill(0.3)
    assert not Framework.explain_out_of_memory(RuntimeError(message))
    fill(0.97)
    expected = f"{message.splitlines()[0]} (97% of the device's memory was in use)"
    assert Framework.explain_out_of_memory(RuntimeError(message)) == expected


def test_without_a_gpu_nobody_knows_that_its_memory_is_full(monkeypatch):
    FakeNvml([]).install(monkeypatch)
    assert not Framework.explain_out_of_memory(RuntimeError(AMBIGUOUS_MESSAGES[0]))


@pytest.mark.parametrize("error", OTHER, ids=str)
def test_a_full_device_does_not_relabel_other_errors(error, fill):
    fill(0.97)
    assert not Framework.explain_out_of_memory(error)


@pytest.mark.parametrize("message", ["", "the device is full\nin two lines"])
def test_the_reason_is_the_first_line_or_the_name_of_the_error(message):
    class Exhausted(Framework):
        out_of_memory_text = ""

    assert Exhausted.explain_out_of_memory(MemoryError(message)) == (message.partition("\n")[0] or "MemoryError")


def test_the_cause_of_an_error_is_asked_too():
    """Compilers and threads raise errors of their own, and closing what has failed may fail too."""
    try:
        try:
            raise MemoryError("the device is full")
        except MemoryError:
            raise ValueError("a thread could not be joined")  # noqa: B904
    except ValueError as error:
        assert Framework.explain_out_of_memory(error) == "the device is full"
        wrapped = RuntimeError("compiled")
        wrapped.__cause__ = error
    assert Framework.explain_out_of_memory(wrapped) == "the device is full"


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "crashed"),
        ("cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 7 bytes", "crashed"),
        ("MemoryError", "host_out_of_memory"),
        ("numpy.core._exceptions._ArrayMemoryError: Unable to allocate 3.52 GiB", "host_out_of_memory"),
        ("RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED", "host_out_of_memory"),
    ],
)
def test_a_crash_for_memory_of_the_device_asks_for_no_more_memory_of_the_host(reason, status):
    assert name_crash(reason) == {"status": status, "reason": reason}


class Full(Ticking):
    """Has room for `room` copies of a batch. others_fail: whether another process has no room for the second."""

    out_of_memory_errors, others_fail, told = (MemoryError,), False, ()

    def put_on_device(self, images, labels):
        if len(self.put) == self.room:
            raise self.error
        return super().put_on_device(images, labels)

    def wait_for_batch(self, batch):
        self.now += 0.5

    def max_over_ranks(self, value):
        self.told = (*self.told, value)
        return math.inf if self.others_fail and len(self.told) == 2 else value


@pytest.mark.parametrize(("room", "num_told"), [(0, 1), (1, 2), (3, 2)])
def test_a_run_that_has_no_room_for_another_batch_after_training_is_done_all_the_same(room, num_told):
    """The other processes wait for this one in a collective, which it must not leave out."""
    backend, spec = Full(), make_spec(device_kind="cuda")
    backend.room, backend.error = room, MemoryError("tried to allocate 7 GiB")
    assert measure_host_to_device(backend, spec, make_data(), backend.clock) == (None, "tried to allocate 7 GiB")
    assert len(backend.told) == num_told and backend.told[-1] == math.inf


def test_no_process_has_a_rate_if_one_lacks_memory():
    backend = Full()
    backend.room, backend.others_fail = 100, True
    rate, problem = measure_host_to_device(backend, make_spec(device_kind="cuda"), make_data(), backend.clock)
    assert rate is None and says(problem, "another process", "no memory")


def test_another_error_of_the_copies_is_not_hidden():
    backend = Full()
    backend.room, backend.error = 1, RuntimeError("an illegal memory access was encountered")
    with pytest.raises(RuntimeError, match="illegal"):
        measure_host_to_device(backend, make_spec(device_kind="cuda"), make_data(), backend.clock)
