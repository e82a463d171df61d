"""What the machine says of memory: limits, what this process has, what a GPU has in use.

From /proc and the cgroup on Linux; elsewhere nothing is known, and said so with None.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

_ROLLUP = Path("/proc/self/smaps_rollup")
_GROUPS = Path("/sys/fs/cgroup")
_MMAP_THRESHOLD, _TRIM_THRESHOLD, _KEPT_NBYTES = -3, -1, 4 << 20
_RESERVE_SHARE, _RESERVE_NBYTES = 10, 256 << 20


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """Bytes of this process, shared pages divided among who shares them (PSS).

    private: anonymous. mapped: pages of files that are in memory.
    """

    private: int
    mapped: int


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """Bytes of a GPU. used: by all programs. ours: by this process, None if it is not told."""

    total: int
    used: int
    ours: int | None


def process_memory(rollup: Path = _ROLLUP) -> ProcessMemory | None:
    """Measure this process. Source: Linux, Documentation/filesystems/proc.rst, smaps_rollup."""
    try:
        text = rollup.read_text()
    except OSError:
        return None
    found = {name: int(kib) << 10 for name, kib in re.findall(r"^(Pss\w*):\s+(\d+) kB", text, re.M)}
    if "Pss_Anon" not in found:  # before Linux 5.9 it is one sum
        return None
    return ProcessMemory(found["Pss_Anon"], found.get("Pss_File", 0))


def memory_limit(groups: Path = _GROUPS, membership: Path = Path("/proc/self/cgroup")) -> int:
    """Give the bytes this process may use: its cgroup's limit or physical memory, the smaller."""
    try:
        limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (ValueError, OSError):
        limits = [sys.maxsize]
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        _, kinds, path = line.split(":", 2)
        below = path.strip("/")
        if not kinds:
            limits += _limits(groups, below, "memory.max")
        elif "memory" in kinds.split(","):
            limits += _limits(groups / "memory", below, "memory.limit_in_bytes")
    return min(limits)


def default_budget() -> int:
    """Give the bytes that may be held: the limit less a tenth, at least 256 MiB less."""
    limit = memory_limit()
    return max(0, limit - max(_RESERVE_NBYTES, limit // _RESERVE_SHARE))


def keep_little() -> None:
    """Have the C library give big blocks back when they are freed. For the start of a server.

    By itself glibc learns to keep blocks of up to 32 MiB, and twice that at the end of each
    thread's heap, which `give_back` does not reach: a merged part stayed in memory for long.
    Blocks below 4 MiB, as searches use them, are kept and reused as before.
    Source: mallopt(3), M_MMAP_THRESHOLD, M_TRIM_THRESHOLD.
    """
    if sys.platform == "linux":
        try:
            library = ctypes.CDLL(None)
            for name in (_MMAP_THRESHOLD, _TRIM_THRESHOLD):
                library.mallopt(name, _KEPT_NBYTES)
        except AttributeError:  # another C library than glibc
            return


def give_back() -> None:
    """Return freed memory to the system; the C library keeps it for itself otherwise."""
    if sys.platform == "linux":
        try:
            ctypes.CDLL(None).malloc_trim(0)
        except AttributeError:  # another C library than glibc
            return


def gpu_memory(number: int) -> GpuMemory | None:
    """Ask the driver about a GPU; None without NVML (extra `gpu`) or without that GPU."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    try:
        device = pynvml.nvmlDeviceGetHandleByIndex(number)
        memory = pynvml.nvmlDeviceGetMemoryInfo(device)
        running = pynvml.nvmlDeviceGetComputeRunningProcesses(device)
        own = [each.usedGpuMemory for each in running if each.pid == os.getpid()]
        told = [int(each) for each in own if each is not None]
        return GpuMemory(int(memory.total), int(memory.used), sum(told) if told else None)
    except pynvml.NVMLError:
        return None
    finally:
        pynvml.nvmlShutdown()


def _limits(root: Path, below: str, name: str) -> list[int]:
    """Read the limits of a group and of those above it; inside a container it may be the root."""
    found: list[int] = []
    folder = root / below
    for each in (folder, *folder.parents):
        try:
            said = (each / name).read_text().strip()
        except OSError:
            said = ""
        if said.isdecimal():
            found.append(int(said))
        if each == root:
            break
    return found
