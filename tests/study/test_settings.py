"""Every setting of a run is declared in one table, from which everything else follows."""

import subprocess
import sys

import pytest

from helpers.specs import make_spec
from howmanygpus.config.schema import read_schema, study_defaults
from howmanygpus.report.trajectory import select_work
from howmanygpus.settings import OPTIMIZER, SETTINGS, TRAINING_KEYS, list_defaults
from howmanygpus.study.largest.search import select_settings
from howmanygpus.study.runs import HOW, check_fields
from project import ROOT

FORGETFUL = """
from howmanygpus.settings import {table}
{table}["new_key"] = {table}["{beside}"]
import howmanygpus.study.plan
"""


@pytest.mark.parametrize(
    ("table", "beside", "typed"), [("SETTINGS", "epochs", "RunSpec"), ("OPTIMIZER", "momentum", "OptimizerSpec")]
)
def test_a_setting_without_a_field_stops_the_planner_with_the_remedy(table, beside, typed):
    code = FORGETFUL.format(table=table, beside=beside)
    environment = {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    message = result.stderr.splitlines()[-1]
    assert "'new_key'" in message and typed in message and "add `new_key: <type>`" in message


def test_a_field_without_a_setting_is_refused_with_the_remedy():
    with pytest.raises(TypeError, match=r"'old_key' of RunSpec .* SETTINGS .* add an entry there, or remove the field"):
        check_fields(["epochs"], ["epochs", "old_key"], "SETTINGS", "RunSpec")


def test_the_schema_has_the_settings_of_a_study_and_a_variant_in_the_order_of_the_table():
    definitions = read_schema("config")["$defs"]
    study, overrides = (list(definitions[name]["properties"]) for name in ("study", "overrides"))
    assert [key for key in study if key in SETTINGS] == list(TRAINING_KEYS)
    assert overrides == [key for key, setting in SETTINGS.items() if setting.variant]
    assert study.index(TRAINING_KEYS[-1]) == study.index("quality") - 1, "the other keys stay where they are"
    assert "eval_batchnorm" not in study


def test_defaults_match_the_schema_of_a_study():
    defaults, usual = list_defaults(), study_defaults()
    assert defaults["optimizer"] | {"by_framework": {}} == usual["optimizer"]
    others = [key for key in TRAINING_KEYS if key != "optimizer"]
    assert {key: defaults[key] for key in others} == {key: usual[key] for key in others}


@pytest.mark.parametrize("key", SETTINGS)
def test_a_search_depends_on_the_settings_that_change_the_memory(key):
    given = {"optimizer": {"name": "adam"}}.get(key, "other")
    assert (key in select_settings({key: given, "dataset": "d"})) == SETTINGS[key].memory


@pytest.mark.parametrize("key", OPTIMIZER)
def test_a_search_depends_on_the_keys_of_the_optimizer_that_change_the_memory(key):
    assert bool(select_settings({"optimizer": {key: "other"}})) == OPTIMIZER[key].memory


@pytest.mark.parametrize("key", SETTINGS)
def test_runs_do_the_same_work_if_only_how_they_do_it_differs(key):
    one, other = make_spec().to_dict(), make_spec().to_dict() | {key: "other"}
    assert (select_work(one, HOW) == select_work(other, HOW)) != SETTINGS[key].work


def test_keys_below_a_key_can_say_how_work_is_done():
    spec = {"optimizer": {"name": "sgd", "fused": True}, "steps": 3}
    assert select_work(spec, ["optimizer.fused"]) == {"optimizer": {"name": "sgd"}, "steps": 3}
