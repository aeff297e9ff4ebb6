"""Plans with `per_device_batch_size: max` for tests, by what searches found."""

from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.plan import Plan
from project import study

CPU = Machine("machine.yaml", {"cpu": Device(8, 1)})


def found(largest: int, limit: str = "memory", reason: str = "why") -> dict:
    return {"largest": largest, "limit": limit, "reason": reason}


def make_plan(torch=None, jax=None, machine=CPU, **changes) -> Plan:
    """torch, jax: what the searches of these frameworks found."""
    given = {"frameworks": ["pytorch_ddp", "jax_sharding"], "devices": ["cpu"], "num_gpus": [1], **changes}

    def find(record: str) -> dict | None:
        return torch if "/pytorch_ddp" in record else jax

    return Plan({"studies": {"small": study(**given)}}, machine, find)


def sizes(plan: Plan, framework: str = "pytorch_ddp", num_gpus: int = 1) -> list[int]:
    runs = [run for run in plan.runs.values() if (run.framework, run.num_gpus) == (framework, num_gpus)]
    return sorted(run.per_device_batch_size for run in runs if not run.unsupported)
