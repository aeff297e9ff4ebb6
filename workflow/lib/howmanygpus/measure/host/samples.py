"""The columns of telemetry.csv, and what a source of samples has to offer."""

from collections.abc import Iterable
from typing import Any, Protocol

COLUMNS = (
    *("time_s", "node", "device", "utilisation_frac", "memory_gib", "power_w", "energy_j"),
    *("temperature_c", "sm_clock_mhz", "memory_clock_mhz", "throttle_reasons"),
    *("pcie_rx_gib_per_s", "pcie_tx_gib_per_s", "nvlink_rx_gib_per_s", "nvlink_tx_gib_per_s"),
    *("sm_active_frac", "tensor_active_frac", "dram_bandwidth_frac"),
    *("cores_frac", "disk_read_gib_per_s", "disk_write_gib_per_s", "network_rx_gib_per_s", "network_tx_gib_per_s"),
)
WORDS = {
    "utilisation_frac": "utilisation",
    "memory_gib": "memory",
    "power_w": "power",
    "energy_j": "energy",
    "temperature_c": "temperature",
    "sm_clock_mhz": "SM clock",
    "memory_clock_mhz": "memory clock",
    "throttle_reasons": "throttle reasons",
    "pcie_rx_gib_per_s": "rate received over PCIe",
    "pcie_tx_gib_per_s": "rate sent over PCIe",
    "nvlink_rx_gib_per_s": "rate received over NVLink",
    "nvlink_tx_gib_per_s": "rate sent over NVLink",
    "sm_active_frac": "activity of SMs",
    "tensor_active_frac": "activity of tensor cores",
    "dram_bandwidth_frac": "use of the memory bandwidth",
    "cores_frac": "utilisation of each core",
    "disk_read_gib_per_s": "rate of reading from disks",
    "disk_write_gib_per_s": "rate of writing to disks",
    "network_rx_gib_per_s": "rate received from the network",
    "network_tx_gib_per_s": "rate sent to the network",
}


def name_columns(columns: Iterable[str]) -> str:
    return ", ".join(WORDS[column] for column in columns)


class Source(Protocol):
    """What a sampler asks for values of one or several devices.

    expected: the columns of each device. missing: why some of them were not given so far, if that is known.
    of_board: columns of parts of GPUs whose values are those of the whole GPU.
    """

    expected: dict[str, tuple[str, ...]]
    missing: dict[str, dict[str, str]]
    of_board: dict[str, list[str]]

    def sample(self, time_s: float, is_slow: bool) -> Iterable[tuple[str, dict[str, Any]]]:
        """Yield each device with its values by column; a value is None if there is none yet.

        time_s: of the sample. is_slow: whether to read those of once a second too.
        """

    def find_problems(self) -> list[str]:
        """Return since when and why values are not given that were given before."""
