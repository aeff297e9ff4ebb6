"""
Published peaks of GPUs in dense arithmetic, in TFLOPS.

Sources are NVIDIA's data sheets of V100 (2020), T4 (2019), A100 (2021), A40 (2022), H100 and H200 (2024) and L40S
(2023), and for GeForce the white papers on GA102 (2021) and Ada (2022). Rates that a source prints for sparse matrices
are halved. Those of bf16 and fp16 are of Tensor cores that add up in float32, those of fp32 are of the other cores. A
card without a format has no entry for it.
"""

import re

PEAKS = {
    r"V100-SXM2-(16|32)GB": {"fp32": 15.7, "fp16": 125.0},
    r"V100-PCIE-(16|32)GB": {"fp32": 14.0, "fp16": 112.0},
    r"V100S-PCIE-32GB": {"fp32": 16.4, "fp16": 130.0},
    r"T4": {"fp32": 8.1, "fp16": 65.0},
    r"A100(-SXM4-[48]0GB|-PCIE-40GB| 80GB PCIe)": {"fp32": 19.5, "tf32": 156.0, "bf16": 312.0, "fp16": 312.0},
    r"A40": {"fp32": 37.4, "tf32": 74.8, "bf16": 149.7, "fp16": 149.7},
    r"GeForce RTX 3090": {"fp32": 35.6, "tf32": 35.6, "bf16": 71.0, "fp16": 71.0},
    r"GeForce RTX 4090": {"fp32": 82.6, "tf32": 82.6, "bf16": 165.2, "fp16": 165.2},
    r"L40S": {"fp32": 91.6, "tf32": 183.0, "bf16": 362.05, "fp16": 362.05},
    r"H100 80GB HBM3|H200": {"fp32": 67.0, "tf32": 494.7, "bf16": 989.4, "fp16": 989.4},
    r"H100 PCIe": {"fp32": 51.2, "tf32": 378.0, "bf16": 756.0, "fp16": 756.0},
    r"H100 NVL|H200 NVL": {"fp32": 60.0, "tf32": 417.5, "bf16": 835.5, "fp16": 835.5},
}
"""By the name that the driver gives a card, without the maker's, and by the precision of a run."""
MAKERS = re.compile(r"^(NVIDIA |Tesla )*")


def find_peak(device_model: str | None, precision: str) -> float | None:
    """Return the peak of a device in FLOPS; None if it is not known, as for a CPU or a part of a GPU (MIG)."""
    name = MAKERS.sub("", device_model or "")
    rates: dict[str, float] = next((found for names, found in PEAKS.items() if re.fullmatch(names, name)), {})
    return rates[precision] * 1e12 if precision in rates else None
