"""The machine that computes: processor, instructions on which the last bits depend, cores."""

from __future__ import annotations

import os
import platform
from pathlib import Path

_LEVELS = {  # what LLVM calls the widest vectors that a processor has, and what people do
    "avx512f": "AVX-512",
    "avx2": "AVX2",
    "avx": "AVX",
    "sve": "SVE",
    "neon": "NEON",
}


def machine_name() -> str:
    """Return processor, instruction set (where it is known), number of cores and system."""
    cores = f"{os.cpu_count() or 1} cores"
    system = f"{platform.system()} {platform.machine()}"
    return ", ".join(filter(None, (processor_name(), instruction_set(), cores, system)))


def processor_name() -> str:
    """Return the processor's name; `platform` does not know it on Linux."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def instruction_set() -> str:
    """Return the widest vectors that kernels are compiled for, "" where LLVM does not know.

    The order in which a kernel adds depends on it: the same bits need the same instructions.
    """
    from llvmlite.binding import get_host_cpu_features

    try:
        features = get_host_cpu_features()
    except RuntimeError:  # LLVM has no list for this kind of processor
        return ""
    return next((name for mark, name in _LEVELS.items() if features.get(mark)), "")
