"""
Published peaks of GPUs: dense arithmetic in TFLOPS by the precision of a run, and memory bandwidth in GB/s.

A comment above cards names their source, which is NVIDIA's without an author. Rates that a source prints for sparse
matrices are halved, and those of a board of eight GPUs divided by eight. Those of bf16 and fp16 are of Tensor cores
that add up in float32, those of fp32 are of the other cores. A card without a format has no entry for it.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Card:
    """names: the driver's name of a card without the maker's, as a regular expression.

    is_power_bound: whether the limit of its power keeps a long product far below the peak of its Tensor cores. A T4 of
    70 W reaches 24 of 65 TFLOPS, which NVIDIA's support calls expected (developer forum, "About GPU peak performance",
    2023). A10 and L4, whose limits are 150 and 72 W, are taken to be the same, because no source tells their rates.
    """

    names: str
    tflops: dict[str, float]
    memory_gb_per_s: float
    is_power_bound: bool = False


def rates(fp32: float, tf32: float, half: float) -> dict[str, float]:
    """Return the rates of a card whose Tensor cores are as fast in bf16 as in fp16 (`half`)."""
    return {"fp32": fp32, "tf32": tf32, "bf16": half, "fp16": half}


A100, HOPPER = rates(19.5, 156.0, 312.0), rates(67.0, 494.7, 989.4)
CARDS = (
    # V100 data sheet, 2020
    Card(r"V100-SXM2-(16|32)GB", {"fp32": 15.7, "fp16": 125.0}, 900.0),
    Card(r"V100-PCIE-(16|32)GB", {"fp32": 14.0, "fp16": 112.0}, 900.0),
    Card(r"V100S-PCIE-32GB", {"fp32": 16.4, "fp16": 130.0}, 1134.0),
    # T4 data sheet, 2019
    Card(r"T4", {"fp32": 8.1, "fp16": 65.0}, 320.0, is_power_bound=True),
    # A100 data sheet, 2021
    Card(r"A100-(SXM4|PCIE)-40GB", A100, 1555.0),
    Card(r"A100-SXM4-80GB", A100, 2039.0),
    Card(r"A100 80GB PCIe", A100, 1935.0),
    # Turisini et al., Leonardo (JLSRF 8, A186, 2023): an A100 with 124 multiprocessors instead of 108, whose rates are
    # derived by their ratio
    Card(r"A100-SXM-64GB", rates(22.4, 179.1, 358.2), 1640.0),
    # A30 data sheet, 2022
    Card(r"A30", rates(10.3, 82.0, 165.0), 933.0),
    # A10 data sheet, 2021
    Card(r"A10", rates(31.2, 62.5, 125.0), 600.0, is_power_bound=True),
    # A40 data sheet, 2022
    Card(r"A40", rates(37.4, 74.8, 149.7), 696.0),
    # white paper on GA102, 2021
    Card(r"RTX A6000", rates(38.7, 77.4, 154.8), 768.0),
    Card(r"GeForce RTX 3090", rates(35.6, 35.6, 71.0), 936.0),
    # white paper on Ada, 2022
    Card(r"GeForce RTX 4090", rates(82.6, 82.6, 165.2), 1008.0),
    # L4 data sheet, 2023
    Card(r"L4", rates(30.3, 60.0, 121.0), 300.0, is_power_bound=True),
    # L40S data sheet, 2023
    Card(r"L40S", rates(91.6, 183.0, 362.05), 864.0),
    # H100 data sheet, 2024
    Card(r"H100 80GB HBM3", HOPPER, 3350.0),
    # H200 data sheet, 2024
    Card(r"H200", HOPPER, 4800.0),
    # H100 data sheet, 2024
    Card(r"H100 PCIe", rates(51.2, 378.0, 756.0), 2000.0),
    Card(r"H100 NVL", rates(60.0, 417.5, 835.5), 3900.0),
    # H200 data sheet, 2024
    Card(r"H200 NVL", rates(60.0, 417.5, 835.5), 4800.0),
    # GH200 data sheet, 2024
    Card(r"GH200 (120|480)GB", HOPPER, 4000.0),
    Card(r"GH200 144G HBM3e", HOPPER, 4900.0),
    # HGX B200 data sheet, 2025
    Card(r"B200", rates(75.0, 1125.0, 2250.0), 7700.0),
    # HGX B300 data sheet, 2025
    Card(r"B300( SXM6.*)?", rates(75.0, 1125.0, 2250.0), 8000.0),
    # white paper on RTX Blackwell PRO, 2025
    Card(r"RTX PRO 6000 Blackwell Workstation Edition", rates(126.0, 251.9, 503.8), 1792.0),
    # RTX PRO 6000 Server Edition data sheet, 2025, which has no dense rates of Tensor cores in these formats
    Card(r"RTX PRO 6000 Blackwell Server Edition", {"fp32": 120.0}, 1597.0),
    # RTX PRO 6000 Max-Q data sheet, 2025, the same
    Card(r"RTX PRO 6000 Blackwell Max-Q.*", {"fp32": 110.0}, 1792.0),
)
MAKERS = re.compile(r"^(NVIDIA |Tesla )*")


def find_card(device_model: str | None) -> Card | None:
    """Return the card of a name that the driver gives; None for a CPU, a part of a GPU (MIG) and unknown cards."""
    name = MAKERS.sub("", device_model or "")
    return next((card for card in CARDS if re.fullmatch(card.names, name)), None)


def find_peak(device_model: str | None, precision: str) -> float | None:
    """Return the peak of a device in FLOPS; None if it is not known."""
    card = find_card(device_model)
    return card.tflops[precision] * 1e12 if card and precision in card.tflops else None
