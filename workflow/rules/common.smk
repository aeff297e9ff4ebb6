"""
Create the object of this call, whose methods the rules use and which acts before and after the jobs.

The logic is in workflow/lib/howmanygpus/. This file connects it to Snakemake.
"""

from snakemake.logging import logger

from howmanygpus.invocation import commands, deciding
from howmanygpus.study.invalidation.code import hash_script, hash_templates
from howmanygpus.study.invalidation.pins import environment_record
from howmanygpus.invocation.rules.functions import give
from howmanygpus.invocation.rules.weights import DOWNLOADS
from howmanygpus.report import figures, tables
from howmanygpus.report.categories import number_category
from howmanygpus.report.pages import table_pages
from howmanygpus.invocation.invocation import Invocation

invocation = Invocation(workflow, config, logger)
PLAN = invocation.plan
HOWMANYGPUS = commands.begin_command(invocation.place)
# Snakemake prints a module's commands with the names of the workflow that imports it.
workflow.modifier_stack[0].globals[commands.NAME] = HOWMANYGPUS
training, parity, largest = invocation.training, invocation.parity, invocation.largest
data, weights, own_models = invocation.data, invocation.weights, invocation.own_models
cluster, environments, products = invocation.cluster, invocation.environments, invocation.products


onstart:
    invocation.start()


onsuccess:
    invocation.succeed()


onerror:
    invocation.fail()
