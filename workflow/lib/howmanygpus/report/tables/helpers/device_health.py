"""
Judge the devices and hosts of runs: their state before a run, and their rates by the reference kernel.

Each finding has the place, a code and values; the template health.jinja has its sentence, with a remedy. A finding
flags a run, and no run is left out for it. Nothing is judged that was not read.
"""

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from howmanygpus.report.tables.helpers.peak_rates import find_card
from howmanygpus.report.words import word

SLOW_LIMIT = 0.9
"""Smallest rate of a healthy device, as a share of the median of the devices beside it.

Equal GPUs of a cluster differ by 8 % on average (Sinha et al., SC'22, arXiv:2208.11035), those of one node by 15 % in a
study of training. Repeats on one device differ by less than 3 %.
"""
PEAK_LIMIT = 0.5
"""Smallest rate of a healthy GPU, as a share of its card's published peak.

Large products in half precision reach 78 to 86 % on A100, H100, H200, GH200 and B200 (Bekman, Machine Learning
Engineering, maximum achievable matmul FLOPS). Below half, something limits the card. Copies of memory have the same
limit, because no such table of them is known.
"""
UNDISTURBED_FRAC = 0.9
"""Smallest share of the time in which a CPU device must have had its cores for its rates to be compared."""
OTHER_CPU_LIMIT = 0.2
"""Largest share of the run's cores that others may have in the half second before it starts.

A daemon's task of 0.1 s on the only core is 20 %. While a run is measured, the limit of report.disturbance counts.
"""
FREE_LIMIT = 0.1
"""Smallest free share of the host's memory, or of the limit of the run's control groups.

With less, the kernel drops the cached files of the data set and begins to swap.
"""
FREE_GPU_LIMIT = 0.9
"""Smallest free share of a GPU's memory. A driver keeps a few per cent; the context of a further program takes more."""
SLOWDOWN_MARGIN_C = 5.0
"""A GPU that is so near to the temperature of its slowdown before a run reaches it as soon as the run loads it."""
POWER_LIMIT_FRAC = 0.98
"""Smallest power limit as a share of the default; drivers round."""
CLOCK_FRAC = 0.95
"""Smallest clock that counts as the maximum. GPUs have steps of 7.5 or 15 MHz, and lower the clock a step when warm."""
THROTTLED = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")
"""Throttle reasons that slow down every program (NVML API, nvmlClocksEventReasons).

`sw_power_cap` is none: at full load it is the usual state, and a lowered limit is a finding of its own.
"""
SET_CLOCKS = "applications_clocks_setting"
HARMLESS_PROGRAMS = ("nvidia-cuda-mps-server",)
"""Programs that the driver counts as computing and that only serve others."""
SCALING_DRIVERS = ("intel_pstate", "intel_cpufreq", "amd-pstate", "amd-pstate-epp", "amd_pstate")
"""Drivers whose governor `powersave` raises clocks with the load (kernel, admin-guide/pm/intel_pstate, amd-pstate)."""
MAX_NAMED = 3
"""Most processes that a sentence names."""
PAGE = "health"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong. where: device or host. code, facts: its state, with the values."""

    where: str
    code: str
    facts: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.where}: {word(PAGE, self.code, **self.facts)}"


def list_states(record: dict) -> list[dict]:
    """Return the states of a run's nodes before it started. record: a run.json or an attempt.json."""
    of_nodes = [process["health"] for process in record.get("processes", []) if "health" in process]
    return of_nodes or ([record["health"]] if "health" in record else [])


def judge_state(state: dict) -> list[Finding]:
    """Return the findings on a node and its GPUs. state: an entry `health`."""
    host = state["host"]
    found = list(judge_host(host))
    for gpu in state["gpus"]:
        found += judge_gpu(gpu, f"{host['hostname']}, {name_gpu(gpu)}")
    return found


def name_gpu(gpu: dict) -> str:
    return gpu["uuid"] + (f" ({gpu['name']})" if "name" in gpu else "")


def judge_host(host: dict) -> Iterator[Finding]:
    where = host["hostname"]
    if host["other_cpu_frac"] > OTHER_CPU_LIMIT:
        yield Finding(where, "busy_cores", {"frac": host["other_cpu_frac"]})
    for total, free in (
        ("memory_limit_gib", "memory_free_in_limit_gib"),
        ("memory_total_gib", "memory_available_gib"),
    ):
        if total in host and host.get(free, host[total]) < FREE_LIMIT * host[total]:
            facts = {"free_gib": max(host[free], 0), "total_gib": host[total], "swap_gib": host.get("swap_used_gib")}
            yield Finding(where, "little_memory", facts | {"is_limited": total == "memory_limit_gib"})
            break
    yield from judge_cpu_clocks(host)


def judge_cpu_clocks(host: dict) -> Iterator[Finding]:
    allowed, most = host.get("cpu_clock_allowed_mhz"), host.get("cpu_clock_max_mhz")
    if allowed and most and allowed < CLOCK_FRAC * most:
        yield Finding(host["hostname"], "limited_cpu_clock", {"clock_mhz": allowed, "most_mhz": most})
    if "powersave" in host.get("cpu_governor", "").split() and host.get("cpu_driver") not in (None, *SCALING_DRIVERS):
        yield Finding(host["hostname"], "powersave", {"driver": host["cpu_driver"]})


def judge_gpu(gpu: dict, where: str) -> Iterator[Finding]:
    """Yield the findings on a GPU before a run."""
    yield from judge_heat(gpu, where)
    yield from judge_settings(gpu, where)
    yield from judge_use(gpu, where)
    if errors := gpu.get("uncorrected_errors"):
        yield Finding(where, "memory_errors", {"number": errors})
    if gpu.get("remapping_failed"):
        yield Finding(where, "faulty_memory", {})
    width, most = gpu.get("pcie_width"), gpu.get("pcie_width_max")
    if width and most and width < most:
        yield Finding(where, "narrow_link", {"width": width, "most": most})


def judge_heat(gpu: dict, where: str) -> Iterator[Finding]:
    temperature, slowdown = gpu.get("temperature_c"), gpu.get("temperature_slowdown_c")
    if temperature is not None and slowdown and temperature >= slowdown - SLOWDOWN_MARGIN_C:
        yield Finding(where, "hot", {"temperature_c": temperature, "slowdown_c": slowdown})
    for reason in list_throttling(gpu):
        yield Finding(where, "throttled", {"reason": reason, "is_under_load": False})


def list_throttling(gpu: dict) -> list[str]:
    """Return the harmful throttle reasons of a GPU. The general one is left out beside a particular one."""
    found = [reason for reason in THROTTLED if reason in gpu.get("throttle_reasons", "").split()]
    return [reason for reason in found if reason != "hw_slowdown" or len(found) == 1]


def judge_settings(gpu: dict, where: str) -> Iterator[Finding]:
    limit, default = gpu.get("power_limit_w"), gpu.get("power_limit_default_w")
    if limit and default and limit < POWER_LIMIT_FRAC * default:
        yield Finding(where, "power_limit", {"limit_w": limit, "default_w": default})
    yield from judge_set_clock(gpu, where, gpu.get("sm_clock_set_mhz"))
    clock, most = gpu.get("memory_clock_mhz"), gpu.get("memory_clock_max_mhz")
    # In the fastest state the memory has one clock. In others, which idle GPUs take, it is lower.
    if gpu.get("performance_state") == 0 and clock and most and clock < CLOCK_FRAC * most:
        yield Finding(where, "slow_memory_clock", {"clock_mhz": clock, "most_mhz": most})


def judge_set_clock(gpu: dict, where: str, clock: float | None) -> Iterator[Finding]:
    """Yield a finding if a clock of a GPU is below its default, because somebody has set it.

    clock: the one that is set, in MHz, or the one at which a loaded GPU runs.
    """
    default = gpu.get("sm_clock_default_mhz") or gpu.get("sm_clock_max_mhz")
    if clock and default and clock < CLOCK_FRAC * default:
        yield Finding(where, "set_clock", {"clock_mhz": clock, "default_mhz": default})


def judge_use(gpu: dict, where: str) -> Iterator[Finding]:
    others = [process for process in gpu.get("processes", []) if process.get("name") not in HARMLESS_PROGRAMS]
    if others:
        named = [{"name": None, "memory_gib": None} | process for process in others[:MAX_NAMED]]
        yield Finding(where, "other_processes", {"number": len(others), "named": named})
    free, total = gpu.get("memory_free_gib"), gpu.get("memory_total_gib")
    if total and free is not None and free < FREE_GPU_LIMIT * total:
        yield Finding(where, "used_memory", {"free_gib": free, "total_gib": total})


RATES = {"product": "product_tflop_per_s", "copy": "copy_gib_per_s"}
"""Rates of the reference kernel, with their columns."""


@dataclass(frozen=True)
class DeviceRates:
    """A device as the reference kernel has measured it on one day.

    group: what devices must have in common to be compared. facts: the device's entry in the record.
    """

    hostname: str
    group: tuple
    facts: dict

    @property
    def key(self) -> tuple[str, str, str]:
        return self.hostname, self.facts["device"], self.facts["measured_at"]

    @property
    def day(self) -> str:
        return self.facts["measured_at"][:10]

    @property
    def is_comparable(self) -> bool:
        """Whether it has rates, and had its cores while they were measured."""
        return "problem" not in self.facts and self.facts.get("cores_frac", 1.0) >= UNDISTURBED_FRAC


@dataclass(frozen=True)
class Comparison:
    """A device beside its siblings: others on its node on the same day, or else the same model on other nodes.

    fractions: its rates by RATES as shares of the siblings' medians; empty without siblings. compared_with: words for
    the siblings.
    """

    device: DeviceRates
    fractions: dict[str, float]
    compared_with: str
    findings: tuple[Finding, ...]


def list_devices(records: Iterable[dict]) -> list[DeviceRates]:
    """Return each device of each day once. records: contents of run.json files."""
    found = {}
    for record in records:
        for node in record.get("reference_kernel", {}).get("nodes", []):
            for facts in node["devices"]:
                group = (
                    node["kind"],
                    facts["model"],
                    node["program"],
                    node["cores_per_device"] * (node["kind"] == "cpu"),
                )
                device = DeviceRates(node["hostname"], group, facts)
                found[device.key] = device
    return sorted(found.values(), key=lambda device: (device.day, device.hostname, device.facts["device"]))


def compare_devices(devices: list[DeviceRates]) -> list[Comparison]:
    return [compare(device, devices) for device in devices]


def compare(device: DeviceRates, devices: list[DeviceRates]) -> Comparison:
    """Compare a device with its siblings on the node and with the same devices of other nodes."""
    alike = [other for other in devices if other.group == device.group and other.is_comparable]
    beside = [other for other in alike if other.hostname == device.hostname and other.day == device.day]
    beside = [other for other in beside if other.facts["device"] != device.facts["device"]]
    elsewhere = [other for other in alike if other.hostname != device.hostname]
    where = f"{device.hostname}, {name_measured(device.facts)}"
    if "problem" in device.facts:
        finding = Finding(where, "kernel_failed", {"problem": device.facts["problem"]})
        return Comparison(device, {}, "", (finding,))
    findings = list(judge_under_load(device.facts, where))
    if not device.is_comparable:
        return Comparison(device, {}, "", tuple(findings))
    chosen: tuple[dict[str, float], str] = {}, ""
    for siblings in (beside, elsewhere):
        if siblings:
            number = len({other.key[:2] for other in siblings})
            text = word(PAGE, "siblings", number=number, is_elsewhere=siblings is elsewhere)
            fractions = compute_fractions(device, siblings)
            slow = [name for name, fraction in fractions.items() if fraction < SLOW_LIMIT]
            findings += [describe_slow(device, where, name, fractions[name], text) for name in slow]
            chosen = chosen if chosen[0] else (fractions, text)
    findings += judge_peaks(device, where, {finding.facts.get("rate") for finding in findings})
    return Comparison(device, *chosen, tuple(findings))


def judge_peaks(device: DeviceRates, where: str, named: set[str | None]) -> Iterator[Finding]:
    """Yield a finding for each rate far below the peak of its card, as where all cards of a site are slow.

    named: rates of which it is said already that they are slow.
    """
    card = find_card(device.facts["model"])
    for name, fraction in compute_peak_fractions(device.facts).items():
        is_expected = name == "product" and card is not None and card.is_power_bound
        if fraction < PEAK_LIMIT and name not in named and not is_expected:
            facts = {"rate": name, "frac": fraction, "value": device.facts[RATES[name]], "state": list_state(device)}
            yield Finding(where, "below_peak", facts | {"day": device.day})


def compute_peak_fractions(facts: dict) -> dict[str, float]:
    """Return the rates of a GPU as shares of its card's peaks, as far as these are known; nothing for a CPU."""
    card = find_card(facts["model"])
    if card is None or "problem" in facts:
        return {}
    fractions = {"copy": facts["copy_gib_per_s"] * 2**30 / 1e9 / card.memory_gb_per_s}
    if "fp16" in card.tflops:
        fractions["product"] = facts["product_tflop_per_s"] / card.tflops["fp16"]
    return fractions


def name_measured(facts: dict) -> str:
    return f"{facts['device']} ({facts['model'] or 'unknown model'})"


def compute_fractions(device: DeviceRates, siblings: list[DeviceRates]) -> dict[str, float]:
    """Return the rates of a device as shares of the medians of its siblings."""
    medians = {name: statistics.median(other.facts[column] for other in siblings) for name, column in RATES.items()}
    return {name: device.facts[column] / medians[name] for name, column in RATES.items() if medians[name]}


def describe_slow(device: DeviceRates, where: str, name: str, fraction: float, siblings: str) -> Finding:
    found = {"kind": device.group[0], "rate": name, "frac": fraction, "value": device.facts[RATES[name]]}
    return Finding(where, "slow", found | {"state": list_state(device), "siblings": siblings, "day": device.day})


def list_state(device: DeviceRates) -> list[str]:
    """Return the state of a device under load in words, each value with its unit."""
    facts = device.facts
    state = [
        f"{facts[key]:,.0f} {unit}" for key, unit in (("sm_clock_mhz", "MHz"), ("temperature_c", "°C")) if key in facts
    ]
    return state + ([facts["throttle_reasons"]] if facts.get("throttle_reasons") else [])


def judge_under_load(facts: dict, where: str) -> Iterator[Finding]:
    """Yield the findings on a GPU while it computes the reference kernel."""
    for reason in list_throttling(facts):
        yield Finding(where, "throttled", {"reason": reason, "is_under_load": True})
    if SET_CLOCKS in facts.get("throttle_reasons", "").split():
        yield from judge_set_clock(facts, where, facts.get("sm_clock_mhz"))


def list_own_devices(record: dict) -> set[tuple[str, str]]:
    """Return node and name of each device that a run had, as the reference kernel names them.

    There is none if the run was refused before it was on any node.
    """
    own = set()
    for hostname, gpus, topology in list_places(record):
        cores = topology["cores"] if topology and not gpus else []
        own |= {(hostname, uuid) for uuid in gpus}
        own |= {(hostname, f"cores {' '.join(map(str, each['cores']))}") for each in cores}
    return own


def list_places(record: dict) -> list[tuple[str, list[str], dict | None]]:
    """Return the node of each process of a run, with its GPUs and its `topology`, as far as they are known."""
    if "host" not in record:
        return []
    # On one machine, processes need not say where they were.
    placed = [each for each in record.get("processes", []) if "hostname" in each]
    places = [(each["hostname"], each.get("gpu_uuids", []), each.get("topology")) for each in placed]
    return places or [(record["host"]["hostname"], record["host"]["gpu_uuids"], record.get("topology"))]


def judge_cores(record: dict) -> Iterator[Finding]:
    """Yield a finding for each node on which a run may use fewer cores than its devices were given.

    A launcher that binds processes itself refuses this. A scheduler may bind all processes to the same few cores.
    """
    spec, cores = record["spec"], dict[str, set[int]]()
    for hostname, _, topology in list_places(record):
        own = topology["cores"] if topology else []
        cores.setdefault(hostname, set()).update(core for each in own for core in each["cores"])
    wanted = spec["cores_per_device"] * spec["num_gpus"] // spec["num_nodes"]
    for hostname, found in cores.items():
        if 0 < len(found) < wanted:
            yield Finding(hostname, "few_cores", {"number": len(found), "wanted": wanted})


def judge_run(record: dict, comparisons: list[Comparison]) -> list[Finding]:
    """Return the findings on a run: on the state of its nodes before it, its cores, and its devices on that day.

    record: a run.json or an attempt.json. comparisons: those of the devices of all runs.
    """
    own, measured = list_own_devices(record), {device.key for device in list_devices([record])}
    slow = [
        finding
        for comparison in comparisons
        if comparison.device.key in measured and comparison.device.key[:2] in own
        for finding in comparison.findings
    ]
    states = [finding for state in list_states(record) for finding in judge_state(state)]
    return [*states, *judge_cores(record), *slow]


def describe_findings(findings: Iterable[Finding]) -> str | None:
    """Return findings as text, each once; None without any."""
    return " ".join(dict.fromkeys(map(str, findings))) or None
