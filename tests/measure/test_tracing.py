"""After a run, the loop takes a few steps under a profiler, which changes nothing that is recorded."""

import copy
import gzip
import json
from contextlib import nullcontext

import numpy as np
import pytest

from helpers.fake_clock import Ticking, feeding_threads
from helpers.specs import make_data, make_spec
from howmanygpus.measure.loop import tracing
from howmanygpus.measure.loop.loop import TrainingLoop
from howmanygpus.measure.loop.tracing import NUM_STEPS, Profiler, load_profiler, trace_run


class Noting(Profiler):
    """Writes the names of the marks. fails: the method that raises."""

    fails = ""

    def start(self):
        self.names = []
        self.fail("start")

    def mark(self, name):
        self.names.append(name)
        return nullcontext()

    def stop(self):
        self.fail("stop")
        (self.folder / "raw.json").write_text(json.dumps(self.names))
        return self.folder / "raw.json"

    def fail(self, method):
        if self.fails == method:
            raise RuntimeError(f"no {method}\nmore")


class FailingStart(Noting):
    fails = "start"


class FailingStop(Noting):
    fails = "stop"


def finish_run(**changes) -> TrainingLoop:
    """Return the loop of a run of 20 steps that is over."""
    spec, backend = make_spec(**{"epochs": 2, **changes}), Ticking()
    rates = np.arange(20, dtype=np.float32)
    loop = TrainingLoop(spec, make_data(num_train=80), backend, rates, None, clock=backend.clock)
    with loop:
        backend.train(loop)
    return loop


@pytest.mark.parametrize("prefetch", [0, 3])
def test_ten_steps_are_marked_after_a_lead_and_the_run_keeps_its_own_numbers(tmp_path, prefetch):
    loop = finish_run(prefetch=prefetch)
    clocks, laps = copy.deepcopy(loop.clocks), dict(loop.laps.seconds)
    traced = trace_run(loop, tmp_path / "trace", Noting)
    lead = prefetch + 2
    assert loop.backend.steps == 20 + lead + NUM_STEPS
    assert (loop.steps_done, loop.clocks, loop.laps.seconds) == (20, clocks, laps)
    assert loop.evaluation.predictions.epochs == [1, 2]
    kept = tmp_path / "trace" / "trace.json.gz"
    size = kept.stat().st_size
    assert traced == {"problem": None, "file": kept.name, "bytes": size, "steps": NUM_STEPS, "lead_steps": lead}
    names = json.loads(gzip.decompress(kept.read_bytes()))
    assert names == [f"howmanygpus_step_{i}" for i in range(1, lead + NUM_STEPS + 1)]
    seen = json.loads((tmp_path / "trace" / "steps.json").read_text())
    assert (seen["lead_steps"], len(seen["steps"]), seen["mark"]) == (lead, lead + NUM_STEPS, "howmanygpus_step_")
    assert all(step["began_s"] <= step["finished_s"] and step["ready_s"] is not None for step in seen["steps"])
    assert sorted(path.name for path in (tmp_path / "trace").iterdir()) == ["steps.json", "trace.json.gz"]
    assert not feeding_threads()


def test_the_traced_steps_have_the_last_learning_rate(tmp_path):
    loop = finish_run()
    trace_run(loop, tmp_path / "trace", Noting)
    assert set(loop.backend.rates[20:]) == {19.0}


def test_a_loss_that_is_not_finite_does_not_matter_any_more(tmp_path):
    loop = finish_run()
    loop.backend.losses = {loop.backend.steps + NUM_STEPS + 2: float("nan")}
    assert trace_run(loop, tmp_path / "trace", Noting)["problem"] is None


@pytest.mark.parametrize(("profiler", "num_steps"), [(FailingStart, 0), (FailingStop, NUM_STEPS + 2)])
def test_a_profiler_that_fails_leaves_its_reason_and_no_files(tmp_path, profiler, num_steps):
    loop = finish_run()
    traced = trace_run(loop, tmp_path / "trace", profiler)
    assert traced == {"problem": f"RuntimeError: no {profiler.fails}"}
    assert loop.backend.steps == 20 + num_steps, "without a profiler there is nothing to take steps for"
    assert not (tmp_path / "trace").exists()


def test_a_trace_that_is_too_large_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(tracing, "MAX_BYTES", 10)
    problem = trace_run(finish_run(), tmp_path / "trace", Noting)["problem"]
    assert "12 steps make a trace of" in problem and not (tmp_path / "trace").exists()


def test_a_family_without_a_profiler_is_named(tmp_path):
    loop = finish_run(family="toys", framework="toy")
    assert "toy" in trace_run(loop, tmp_path / "trace", load_profiler)["problem"]
    assert loop.backend.steps == 20


def test_an_error_in_a_traced_step_is_raised(tmp_path):
    loop = finish_run()

    def fail(*_):
        raise MemoryError("no room")

    loop.backend.train_step = fail
    with pytest.raises(MemoryError, match="no room"):
        trace_run(loop, tmp_path / "trace", Noting)
    assert not feeding_threads()
