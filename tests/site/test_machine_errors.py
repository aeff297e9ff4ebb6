"""A wrong machine file is refused, and the message names the file, the place, the value and the remedy."""

import math

import pytest
import yaml

from helpers.messages import list_texts, says
from howmanygpus.config.errors import ConfigError
from howmanygpus.site.machine import Device, Machine, read_machine, resolve_machine_file
from howmanygpus.study.plan import Plan
from project import study


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Return a function that writes a machine file for this machine, which has two cores and no GPU."""
    monkeypatch.setattr("howmanygpus.site.machine.count_cores", lambda: 2)
    monkeypatch.setattr("howmanygpus.measure.host.gpus.list_gpu_uuids", list)

    def write(**values):
        path = tmp_path / "machine.yaml"
        path.write_text(yaml.safe_dump(values))
        return path

    return write


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"gpus": 4}, 'machine.yaml: the machine file: unknown key "gpus"'),
        ([{"cpu": {}}], "is not of type object; write its keys below it"),
        ("cpu", 'machine.yaml: the machine file: "cpu" is not of type object; write its keys below it'),
        (
            {"environments": {"pytorch": {"python": "python3"}}},
            'machine.yaml: environments: "pytorch" replaces no environment; did you mean',
        ),
        (
            {"devices": {"cpu": {"price_per_hour": math.nan}}},
            "devices.cpu.price_per_hour: .nan is not finite; write a number",
        ),
        (
            {"devices": {"cpu": {"price_per_hour": -1}}},
            "machine.yaml: devices.cpu.price_per_hour: -1 is too small; give at",
        ),
        (
            {"devices": {"cpu": {"memory_per_device_mb": 4000.0}}},
            "memory_per_device_mb: 4000.0 is not of type integer; write 4000",
        ),
        (
            {"devices": {"cpu": {"max_nodes": 2}}},
            "machine.yaml: devices.cpu.max_nodes: 2 needs a scheduler, because all runs start on this machine "
            "otherwise; set `scheduler: slurm` with its keys, or leave max_nodes out",
        ),
        ({"devices": {"cpu": {"max_nodes": "1e1"}}}, 'devices.cpu.max_nodes: "1e1" is text, not a number; write 10'),
        (
            {"slurm": {"rendezvous_timeout_s": math.inf}},
            "slurm.rendezvous_timeout_s: .inf is not finite; write a number",
        ),
        ({"slurm": {"scratch": "~/scratch"}}, 'slurm.scratch: "~/scratch" does not match ^[/$]; Folder on each node'),
        ({"environments": {"pytorch-cpu": {"python": ""}}}, 'environments.pytorch-cpu.python: "" does not match'),
        (
            {"environments": {"pytorch-cpu": {"python": "apptainer exec 'my image.sif python"}}},
            'environments.pytorch-cpu.python: "apptainer exec \'my image.sif python" cannot be split into words: no '
            "closing quotation; close the quote",
        ),
        ({"devices": {5: {}}}, "machine.yaml: devices: the key 5 is not text; write it in quotes"),
        ({"devices": {"a100": {"request": "gpu:{type}:{n}"}}}, 'devices.a100.request: "gpu:{type}:{n}" does not match'),
        ({"devices": {"a100": {"request": "gpu:{n}}"}}}, 'devices.a100.request: "gpu:{n}}" does not match ^'),
        ({"devices": {"A100": {}}}, 'devices: "A100" is no valid name; use lower-case letters, digits and dashes'),
        (
            {"devices": {"cpu": {"devices_per_node": 0}}},
            "devices_per_node: 0 is too small; give at least 1",
        ),
        ({"devices": {"cpu": {"cores_per_device": "all"}}}, 'cores_per_device: "all" is not of type integer or null'),
    ],
)
def test_wrong_machine_file(tmp_path, values, message):
    path = tmp_path / "machine.yaml"
    path.write_text(yaml.safe_dump(values))
    with pytest.raises(ConfigError) as error:
        read_machine(path)
    assert message in str(error.value)


def test_a_missing_machine_file_is_refused():
    with pytest.raises(ConfigError, match=r"machine: nowhere.yaml does not exist; name an existing machine file"):
        resolve_machine_file("nowhere.yaml", [])


def test_a_machine_file_that_is_no_path_is_refused():
    with pytest.raises(ConfigError, match="machine: 5 is not the path of a file; name a machine file"):
        resolve_machine_file(5, [])


def test_packed_is_true_or_false(write):
    with pytest.raises(ConfigError, match='packed: "maybe" is not of type boolean; write true or false'):
        read_machine(write(), packed="maybe")


def test_the_machine_file_may_be_in_the_home_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HOWMANYGPUS_MACHINE", "")
    (tmp_path / "mine.yaml").touch()
    assert (
        resolve_machine_file("~/mine.yaml", []) == resolve_machine_file("$HOME/mine.yaml", []) == tmp_path / "mine.yaml"
    )


def test_anything_may_stand_under_keys_that_begin_with_x(tmp_path):
    path = tmp_path / "machine.yaml"
    path.write_text("x-gpu: &gpu {devices_per_node: 2}\ndevices: {cpu: *gpu}\n")
    assert read_machine(path).device("cpu").count == 2


def plan(path, **changes) -> Plan:
    return Plan({"studies": {"s": study(**{"frameworks": ["pytorch_ddp"], **changes})}}, read_machine(path))


def test_an_own_device_without_a_gpu_is_refused_with_the_reason(write):
    path = write(devices={"a100": {}})
    message = f'studies.s.devices[0]: "a100" is a device of {path}, but no NVIDIA GPU was found here; correct it there'
    with pytest.raises(ConfigError) as error:
        plan(path, devices=["a100"])
    assert str(error.value).startswith(message)


def test_an_own_device_with_more_cores_than_the_machine_is_refused_with_the_reason(write):
    with pytest.raises(
        ConfigError, match="but 64 cores per device are more than the 2 of this machine; correct it there"
    ):
        plan(write(devices={"socket": {"kind": "cpu", "cores_per_device": 64}}), devices=["socket"])


@pytest.mark.parametrize(
    ("device", "reason"),
    [
        ("cuda", "no NVIDIA GPU was found here"),
        ("cpu", "64 cores per device are more than the 2 of this machine"),
    ],
)
def test_a_device_that_the_machine_lacks_is_a_shortage_with_its_reason(write, device, reason):
    path = write(devices={"cpu": {"cores_per_device": 64}})
    (shortage,) = plan(path, devices=[device]).find_shortages()
    assert says(shortage, f"studies.s.devices: '{device}'", path, reason, "choose another device")


def test_a_device_that_the_cluster_lacks_is_a_shortage_that_names_the_others(write):
    device = {"devices_per_node": 2, "cores_per_device": 1, "request": "gpu:{n}"}
    planned = plan(write(scheduler="slurm", devices={"a100": device}), devices=["cuda"])
    (shortage,) = list_texts(planned.find_shortages())
    assert "'cuda' cannot be used" in shortage and "the machine file has no device of this name (a100)" in shortage


def test_three_devices_on_two_cores_are_a_shortage(write):
    (shortage,) = list_texts(plan(write(), devices=["cpu"], num_gpus=[3]).find_shortages())
    assert shortage.startswith("studies.s.num_gpus: 3 exceeds the 2 cpu devices of this machine")


@pytest.mark.parametrize(("num_gpus", "choice"), [(3, "2 or 4"), (5, "4 or 6")])
def test_devices_that_do_not_spread_evenly_may_be_fewer_or_more(write, num_gpus, choice):
    device = {"devices_per_node": 2, "cores_per_device": 1, "max_nodes": 3, "kind": "cpu"}
    path = write(scheduler="slurm", devices={"node": device})
    with pytest.raises(ConfigError, match=f"num_gpus: {num_gpus} does not spread evenly .*; choose {choice}$"):
        plan(path, devices=["node"], num_gpus=[num_gpus])


def test_a_gpu_is_called_by_its_name(write):
    device = {"devices_per_node": 2, "cores_per_device": 1, "request": "gpu:{n}"}
    with pytest.raises(ConfigError, match=r'"gpu" is no device of .*; write a100 or h100$'):
        plan(write(scheduler="slurm", devices={"a100": device, "h100": device}), devices=["gpu"])


def test_the_machine_file_stands_beside_the_profile(tmp_path, monkeypatch):
    for variable in ("SNAKEMAKE_PROFILE", "HOWMANYGPUS_MACHINE"):
        monkeypatch.delenv(variable, raising=False)
    path = tmp_path / "machine.yaml"
    path.touch()
    assert resolve_machine_file(None, ["snakemake", "--profile", str(tmp_path)]) == path
    monkeypatch.delenv("HOWMANYGPUS_MACHINE")
    assert resolve_machine_file(None, ["snakemake", f"--profile={tmp_path}"]) == path
    assert resolve_machine_file(None, ["snakemake"]) == path, "jobs find it through the environment"


def test_a_folder_in_place_of_the_machine_file_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r": this is a folder; name a file in it"):
        read_machine(resolve_machine_file(str(tmp_path), []))


@pytest.mark.parametrize(("name", "present"), [("cpu", 2), ("cuda", 1)])
def test_more_devices_in_the_file_than_on_the_machine_are_an_excess(tmp_path, monkeypatch, name, present):
    monkeypatch.setattr("howmanygpus.site.machine.count_cores", lambda: 4)
    monkeypatch.setattr("howmanygpus.site.machine.has_nvml", lambda: True)
    monkeypatch.setattr("howmanygpus.measure.host.gpus.list_gpu_uuids", lambda: ["GPU-1"])
    monkeypatch.setattr("howmanygpus.measure.host.gpus.read_compute_capability", lambda: "8.0")
    path = tmp_path / "machine.yaml"
    path.write_text(yaml.safe_dump({"devices": {name: {"devices_per_node": 8, "cores_per_device": 2}}}))
    machine = read_machine(path)
    assert (machine.device(name).devices_per_node, machine.count(name)) == (8, present)
    message = str(machine.excesses[name].finding)
    assert f"devices.{name}.devices_per_node: 8 exceeds the {present} that this machine has" in message
    assert "lower it, leave it out, or describe a cluster (`scheduler: slurm`)" in message
    path.write_text(yaml.safe_dump({"devices": {name: {"devices_per_node": present, "cores_per_device": 2}}}))
    assert read_machine(path).excesses == {}


@pytest.mark.parametrize(("uuids", "is_split"), [(["GPU-1", "GPU-2"], False), (["MIG-1", "MIG-2"], True)])
def test_parts_of_gpus_of_this_machine_are_known(tmp_path, monkeypatch, uuids, is_split):
    monkeypatch.setattr("howmanygpus.site.machine.has_nvml", lambda: True)
    monkeypatch.setattr("howmanygpus.measure.host.gpus.list_gpu_uuids", lambda: uuids)
    monkeypatch.setattr("howmanygpus.measure.host.gpus.read_compute_capability", lambda: "8.0")
    (tmp_path / "machine.yaml").write_text("")
    devices = read_machine(tmp_path / "machine.yaml").devices
    assert (devices["cuda"].devices_per_node, devices["cuda"].is_split) == (2, is_split) and not devices["cpu"].is_split


def test_a_device_of_the_file_of_which_the_machine_has_none_is_absent_for_its_reason(tmp_path, monkeypatch):
    monkeypatch.setattr("howmanygpus.site.machine.has_nvml", lambda: False)
    path = tmp_path / "machine.yaml"
    path.write_text(yaml.safe_dump({"devices": {"mi250": {"devices_per_node": 4}}}))
    machine = read_machine(path)
    assert machine.count("mi250") == 0
    assert machine.explain_absence("mi250") == "no NVIDIA GPU was found here"


@pytest.mark.parametrize(("device", "remedy"), [("a10", "did you mean a100?"), ("auot", "choose from a100")])
def test_an_unknown_device_is_refused_with_the_devices_of_the_file(device, remedy):
    cluster = Machine("machine.yaml", {"a100": Device(4, 8, "cuda")}, scheduler="slurm")
    with pytest.raises(ConfigError) as error:
        Plan({"studies": {"s": study(frameworks=["pytorch_ddp"], devices=[device])}}, cluster)
    assert f'studies.s.devices[0]: "{device}" is no device of machine.yaml; {remedy}' in str(error.value)


def test_an_option_of_srun_for_a_container_needs_its_value_in_the_same_word(tmp_path):
    path = tmp_path / "machine.yaml"
    command = "srun --container-image {} python"
    machine = {"scheduler": "slurm", "environments": {"pytorch-cpu": {"python": command.format("image.sqsh")}}}
    path.write_text(yaml.safe_dump(machine))
    with pytest.raises(ConfigError) as raised:
        read_machine(path)
    assert says(str(raised.value), f"{path}: environments.pytorch-cpu.python", "--container-image=VALUE")
    machine["environments"]["pytorch-cpu"]["python"] = "srun --container-image=image.sqsh python"
    path.write_text(yaml.safe_dump(machine))
    assert read_machine(path).environments["pytorch-cpu"]["python"] == "srun --container-image=image.sqsh python"


def test_a_network_that_nothing_measures_cannot_be_refused(tmp_path):
    path = tmp_path / "machine.yaml"
    path.write_text(yaml.safe_dump({"scheduler": "slurm", "slurm": {"judge_network": "refuse", "preflight": False}}))
    with pytest.raises(ConfigError) as raised:
        read_machine(path)
    assert says(str(raised.value), f"{path}: slurm.judge_network", "refuse", "preflight: true")
