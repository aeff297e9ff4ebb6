"""Lists of the environment variables that processes of the workflow need."""

import re

SYSTEM_VARIABLES = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "TZ",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "KRB5CCNAME",
    "LD_LIBRARY_PATH",
    "CC",
    "CXX",
    "CUDA_HOME",
    "CUDA_PATH",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "LC_COLLATE",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NUMERIC",
    "LC_TIME",
    "LC_ADDRESS",
    "LC_IDENTIFICATION",
    "LC_MEASUREMENT",
    "LC_NAME",
    "LC_PAPER",
    "LC_TELEPHONE",
    "PYTHONPATH",
    "PYTHONUTF8",
]
"""
Identity and place of a process, its libraries and compilers. The rules' shell lines replace a user's PYTHONPATH by the
workflow's own (see OF_SNAKEMAKE), to which an interpreter's modules may add theirs.
"""
MODULE_VARIABLES = [
    "MODULEPATH",
    "MODULEPATH_ROOT",
    "MODULESHOME",
    "MODULES_CMD",
    "MODULERCFILE",
    "LOADEDMODULES",
    "_LMFILES_",
    "LMOD_CMD",
    "LMOD_DIR",
    "LMOD_PKG",
    "LMOD_ROOT",
    "LMOD_SETTARG_FULL_SUPPORT",
    "LMOD_VERSION",
    "LMOD_sys",
]
"""Where environment modules are, and which are loaded."""
OF_DEVICES = [
    "CUDA_VISIBLE_DEVICES",
    "CUDA_CACHE_PATH",
    "CUDA_CACHE_MAXSIZE",
    "CUDA_MPS_PIPE_DIRECTORY",
    "CUDA_MPS_LOG_DIRECTORY",
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
]
"""Which GPUs a scheduler or a container gives, how they are shared, and where their compiled kernels are."""
FAMILIES = {
    "SLURM": re.compile(r"(SLURM|SLURMD|SBATCH|SRUN|SQUEUE|SACCT|SCANCEL|SINFO)_[A-Z0-9_]+"),
    "networks of a cluster": re.compile(r"(NCCL|OFI_NCCL|FI|UCX|GLOO|OMPI_MCA|PRTE_MCA|PSM2|IBV|RDMAV)_\w+"),
    "the workflow": re.compile(r"HOWMANYGPUS_[A-Z0-9_]+"),
}
"""Variables that a site or the workflow sets, and whose names are too many for a list. Records show their values only
for the names of howmanygpus.base.shown."""
