"""The search for the largest batch finds the limit of any device, and says why there is none larger."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from howmanygpus.measure.largest.bisecting import (
    DATA_SET,
    FAILED,
    FITS,
    HOST_MEMORY,
    MEMORY,
    OUT_OF_HOST_MEMORY,
    OUT_OF_MEMORY,
    SearchError,
    SearchResult,
    SizeTry,
    choose_next,
    round_down,
)
from howmanygpus.measure.largest.tries import Launcher, TryData, do_try, draw_data, judge
from howmanygpus.measure.largest.try_log import TryLog
from howmanygpus.site.jobs.endings import explain_crash

Device = Callable[[int, bool, int], str]
"""A simulated device: the outcome of a batch size, of a confirmation or not, at the n-th try of this size."""


def search(device: Device, bound: int = 50_000, known: tuple[SizeTry, ...] = ()) -> tuple[SearchResult, list[SizeTry]]:
    tries = list(known)
    while not isinstance(step := choose_next(tries, bound), SearchResult):
        number = sum(each.batch == step.batch for each in tries)
        outcome = device(step.batch, step.is_confirmation, number)
        tries.append(SizeTry(step.batch, outcome, f"{step.batch} is {outcome}", step.is_confirmation))
        assert len(tries) < 60, tries
    return step, tries


def limited(largest: int, outcome: str = OUT_OF_MEMORY) -> Device:
    return lambda batch, is_confirmation, number: FITS if batch <= largest else outcome


@pytest.mark.parametrize("bound", [1, 5, 8, 24, 32, 40, 1432, 50_000])
def test_the_limit_is_found_exactly_in_few_tries(bound):
    for limit in (*range(70), 479, 480, 481, 1431, 1432, 5000, 60_000):
        found, tries = search(limited(limit), bound)
        assert found.largest == round_down(min(limit, bound)), (limit, tries)
        assert found.limit == (MEMORY if limit < bound else DATA_SET)
        # Doubling, halving, and the confirmation.
        assert len(tries) <= 2 * bound.bit_length() + 2
        sizes = [(each.batch, each.is_confirmation) for each in tries]
        assert len(set(sizes)) == len(sizes), "no size is tried twice, apart from the confirmation"
        assert not found.largest or sizes[-1] == (found.largest, True), (
            "the answer is the last that was tried, for long"
        )


def test_the_record_names_the_allocation_that_did_not_fit():
    found, _ = search(limited(100))
    assert found == SearchResult(96, MEMORY, "104 images at a time do not fit: 104 is out_of_memory")
    assert search(limited(100, OUT_OF_HOST_MEMORY))[0].limit == HOST_MEMORY
    assert search(limited(0))[0] == SearchResult(0, MEMORY, "1 images at a time do not fit: 1 is out_of_memory")
    assert search(limited(10**6), 640)[0].reason == "640 images fit, and more would leave a run no step to measure"


def test_a_size_that_fits_only_for_a_few_steps_is_not_the_answer():
    def fragmenting(batch: int, is_confirmation: bool, number: int) -> str:
        return FITS if batch <= (80 if is_confirmation else 100) else OUT_OF_MEMORY

    found, tries = search(fragmenting)
    assert found.largest == 80 and found.reason == "88 images at a time do not fit: 88 is out_of_memory"
    assert [each.batch for each in tries if each.is_confirmation] == [96, 88, 80]


def test_a_size_that_fits_above_one_that_does_not_is_not_the_answer():
    """An algorithm that needs more memory can be chosen for some sizes only."""

    def holed(batch: int, is_confirmation: bool, number: int) -> str:
        return OUT_OF_MEMORY if batch == 64 or batch > 500 else FITS

    assert search(holed)[0].largest == 56
    # What other searches tried is known too.
    known = tuple(SizeTry(batch, FITS) for batch in (32, 128))
    assert search(holed, known=(*known, SizeTry(64, OUT_OF_MEMORY)))[0].largest == 56


@pytest.mark.parametrize("limit", [70, 100, 300, 600, 10**6])
def test_tries_of_another_search_never_exceed_the_own_bound(limit):
    """A smaller data set has fewer images than the batches that did not fit."""
    for first, second in ((1000, 96), (96, 1000)):
        _, known = search(limited(limit), first)
        found, tries = search(limited(limit), second, tuple(known))
        assert found.largest == round_down(min(limit, second)) and found.limit == (
            MEMORY if limit < second else DATA_SET
        )
        assert all(each.batch <= second for each in tries[len(known) :])


def test_a_try_that_fails_once_is_repeated_and_one_that_fails_twice_ends_the_search():
    def flaky(batch: int, is_confirmation: bool, number: int) -> str:
        return FAILED if batch == 64 and number == 0 else limited(100)(batch, is_confirmation, number)

    found, tries = search(flaky)
    assert found.largest == 96 and [each.batch for each in tries][:4] == [32, 64, 64, 128]
    with pytest.raises(SearchError, match="64 images at a time: 64 is failed"):
        search(lambda batch, is_confirmation, number: FAILED if batch == 64 else FITS)


@pytest.mark.parametrize(
    ("program", "status", "reason"),
    [
        ("import os; os.kill(os.getpid(), 9)", "crashed", "the launcher ended without a word, by SIGKILL"),
        ("import sys; sys.exit(3)", "crashed", "the launcher ended without a word, by exit status 3"),
        (
            "import pathlib, sys; folder = pathlib.Path(sys.argv[sys.argv.index('--run-dir') + 1]); folder.mkdir(); "
            """(folder / 'run.json').write_text('{"status": "completed", "peak_memory_bytes": 7}')""",
            *("completed", ""),
        ),
    ],
)
def test_the_outcome_of_a_try_comes_from_its_record_or_its_launcher(program, status, reason, tmp_path):
    python = tmp_path / "python"
    python.write_text(f"#!{sys.executable}\n{program}\n")
    python.chmod(0o755)
    work, folder = TryData((6, 5, 3), 4, multi_label=False, images=8, num_test=8), tmp_path / "try"
    launcher = Launcher(str(python), "a.module", os.environ)
    ended = do_try(launcher, lambda data: {"device_kind": "cpu"}, work, folder, {}, 60.0, None, explain_crash)
    assert (ended.status, ended.reason) == (status, reason)
    assert ended.outcome == (FITS if status == "completed" else FAILED)
    # The attempt of a failed try stays, without its images.
    assert folder.exists() == (status != "completed") and not (folder / "data").exists()
    assert ended.peak_memory_bytes == (7 if status == "completed" else None)


def make_row(batch: int, outcome: str = FITS) -> dict:
    return {"batch": batch, "outcome": outcome, "reason": "", "is_confirmation": False, "seconds": 1.0}


def list_known(path: Path, code: str = "code", bound: int = 64) -> list[int]:
    return [each.batch for each in TryLog(path, code, bound).tries]


def test_a_search_that_was_stopped_goes_on_from_its_tries(tmp_path):
    path = tmp_path / "tries" / "work.json"
    notebook = TryLog(path, "code", 64)
    for row in (make_row(32), make_row(64, FAILED)):
        notebook.add(row)
    assert [each.batch for each in notebook.tries] == [32, 64]
    assert list_known(path) == [32], "another job tries once more what failed"
    assert list_known(path, code="other") == []
    notebook.end()
    assert list_known(path, bound=128) == [32], "a search with another bound begins with what is known"
    assert list_known(path) == [], "a search that has ended is done again on purpose"


ON_CPUS = [
    # Printed by PyTorch 2.13, MXNet 1.9, TensorFlow 2.21 (twice) and Chainer 7.8 under a limit of their memory.
    (
        "crashed",
        "RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 7 bytes",
    ),
    ("crashed", "MXNetError: Failed to allocate CPU Memory"),
    ("crashed", "killed by SIGSEGV\nRESOURCE_EXHAUSTED: OOM when allocating tensor with shape[800,64,64,64]"),
    ("out_of_memory", "Graph execution error:"),
    ("host_out_of_memory", "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 3.52 GiB for an array"),
    ("crashed", "killed by SIGABRT\nterminate called after throwing an instance of 'std::bad_alloc'"),
    ("crashed", "RuntimeError: could not create a primitive"),
    # Printed by JAX 0.10.
    ("crashed", "jax.errors.JaxRuntimeError: INTERNAL: YNNPACK operation failed: error\nallocate of <6> failed."),
]


@pytest.mark.parametrize(("status", "words"), ON_CPUS)
def test_no_memory_on_cpus_is_told_from_a_failure(status, words):
    assert judge(status, words, "cpu", has_killed=False) == OUT_OF_MEMORY


@pytest.mark.parametrize(
    ("status", "words", "kind", "has_killed", "expected"),
    [
        ("completed", "", "cuda", False, FITS),
        ("diverged", "training loss is nan", "cuda", False, FITS),
        ("out_of_memory", "CUDA out of memory", "cuda", False, OUT_OF_MEMORY),
        ("host_out_of_memory", "slurmstepd: error: Detected 1 oom-kill event", "cuda", False, OUT_OF_HOST_MEMORY),
        ("crashed", "killed by SIGKILL", "cuda", True, OUT_OF_HOST_MEMORY),
        ("crashed", "killed by SIGKILL", "cpu", True, OUT_OF_MEMORY),
        ("crashed", "exit status 137", "cpu", True, OUT_OF_MEMORY),
        ("crashed", "the launcher ended without a word, by SIGKILL", "cpu", True, OUT_OF_MEMORY),
        # A library prints that the device is full, and then ends the process.
        (
            "crashed",
            "killed by SIGABRT\nF0000 gpu.cc:9] failed: CUDA_ERROR_OUT_OF_MEMORY",
            "cuda",
            False,
            OUT_OF_MEMORY,
        ),
        # Nobody says that memory was the reason.
        ("crashed", "killed by SIGKILL", "cpu", False, FAILED),
        ("crashed", "exit status 1", "cpu", True, FAILED),
        ("crashed", "RuntimeError: a kernel failed", "cpu", False, FAILED),
        # A library of the host failed beside a device that has memory of its own.
        ("crashed", "RuntimeError: std::bad_alloc", "cuda", False, FAILED),
        ("time_limit", "not done after 60 s", "cpu", False, FAILED),
        ("unsupported", "no such precision", "cuda", False, FAILED),
    ],
)
def test_the_end_of_a_try_says_whether_its_batch_fits(status, words, kind, has_killed, expected):
    assert judge(status, words, kind, has_killed) == expected


@pytest.mark.parametrize("multi_label", [False, True])
def test_a_try_has_two_steps_per_epoch_and_one_batch_to_evaluate(multi_label):
    data = draw_data(TryData((6, 5, 3), 4, multi_label, images=100, num_test=70))
    assert data.train_images.shape == (200, 6, 5, 3) and data.test_images.shape == (70, 6, 5, 3)
    assert data.train_images.std() > 60 and len({image.tobytes() for image in data.train_images}) == 64
    assert data.multi_label == multi_label and data.train_labels.max() <= (1 if multi_label else 3)
    again = draw_data(TryData((6, 5, 3), 4, multi_label, images=100, num_test=70))
    assert (data.train_images == again.train_images).all() and (data.train_labels == again.train_labels).all()
