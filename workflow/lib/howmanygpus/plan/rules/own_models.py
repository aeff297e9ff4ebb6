"""Computes inputs and parameters for the rules of users' own models."""

import json

from howmanygpus.plan.invalidation.code import hash_initialization, hash_own_reference
from howmanygpus.plan.invalidation.pins import environment_record
from howmanygpus.plan.own.model import OwnModel
from howmanygpus.plan.plan import Plan
from howmanygpus.plan.rules.answers import Answers


class OwnModelRules(Answers):
    """The wildcards `own_model` and `options` make up the name of a network."""

    def __init__(self, plan: Plan):
        super().__init__()
        self._plan = plan

    def _model(self, wildcards) -> OwnModel:
        return self._plan.own_models[wildcards.own_model + wildcards.options]

    def environment(self, wildcards) -> str:
        return environment_record(self._model(wildcards).environment)

    def initialization(self, wildcards) -> str:
        """Return the hash of the code that draws the weights, with that of the user's file."""
        return hash_initialization(self._model(wildcards))

    def reference(self, wildcards) -> str:
        """Return the hash of the code that does the gate's task, with that of the user's file."""
        return hash_own_reference(self._model(wildcards))

    def options(self, wildcards) -> str:
        return json.dumps(self._plan.networks[wildcards.own_model + wildcards.options])

    def family(self, wildcards) -> str:
        return self._model(wildcards).family

    def name(self, wildcards) -> str:
        return self._model(wildcards).name

    def file(self, wildcards, input) -> str:
        """Return the path of the file. As a parameter that depends on `input`, it reruns nothing by itself."""
        return self._model(wildcards).path
