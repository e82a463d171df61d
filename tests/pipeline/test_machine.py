"""What the machine says of memory."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from pipeline.machine import (
    GpuMemory,
    default_budget,
    give_back,
    gpu_memory,
    keep_little,
    memory_limit,
    process_memory,
)

ROLLUP = """00400000-7fff rollup
Rss:              100 kB
Pss:               80 kB
Pss_Anon:          50 kB
Pss_File:          30 kB
"""


def test_private_and_mapped_are_read_from_the_kernel_s_sums(tmp_path: Path) -> None:
    path = tmp_path / "smaps_rollup"
    path.write_text(ROLLUP)
    found = process_memory(path)

    assert found is not None
    assert (found.private, found.mapped) == (50 << 10, 30 << 10)
    path.write_text("Rss: 100 kB\n")
    assert process_memory(path) is None
    assert process_memory(tmp_path / "none") is None


@pytest.mark.skipif(process_memory() is None, reason="the system does not tell")
def test_bytes_that_are_taken_are_measured_and_given_back() -> None:
    keep_little()
    before = process_memory()
    taken = np.ones(32 << 20, dtype=np.uint8)
    during = process_memory()
    del taken
    give_back()
    after = process_memory()

    assert before is not None
    assert during is not None
    assert after is not None
    assert during.private - before.private == pytest.approx(32 << 20, rel=0.1)
    assert during.private - after.private > 28 << 20


@pytest.mark.parametrize(
    ("membership", "files", "limit"),
    [
        ("0::/a/b\n", {"a/b/memory.max": "max", "a/memory.max": "5000"}, 5000),
        ("0::/a\n", {"a/memory.max": "7000", "memory.max": "9000"}, 7000),
        ("4:memory:/x\n", {"memory/x/memory.limit_in_bytes": "3000"}, 3000),
        # In a container the path is the host's, and the limit is at the root.
        ("4:cpu,memory:/gone\n", {"memory/memory.limit_in_bytes": "4000"}, 4000),
        ("0::/\n", {}, None),
    ],
)
def test_the_smallest_limit_on_the_way_holds(
    tmp_path: Path, membership: str, files: dict[str, str], limit: int | None
) -> None:
    (tmp_path / "cgroup").write_text(membership)
    for name, text in files.items():
        path = tmp_path / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    found = memory_limit(tmp_path / "groups", tmp_path / "cgroup")

    if limit is None:
        assert found > 1 << 27 or found == sys.maxsize
    else:
        assert found == limit


def test_the_budget_leaves_a_reserve() -> None:
    limit = memory_limit()

    assert 0 <= default_budget() <= limit - limit // 10


def test_without_a_driver_a_gpu_is_not_known() -> None:
    assert gpu_memory(977) is None


class Driver(ModuleType):
    """As much of NVML as is asked: one GPU on which this process and another run."""

    class NVMLError(Exception):
        """What NVML raises."""

    def __init__(self, told: int | None) -> None:
        super().__init__("pynvml")
        self.told = told
        self.n_open = 0

    def nvmlInit(self) -> None:  # noqa: N802 - its name
        self.n_open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802 - its name
        self.n_open -= 1

    def nvmlDeviceGetHandleByIndex(self, number: int) -> int:  # noqa: N802 - its name
        if number:
            raise self.NVMLError
        return number

    def nvmlDeviceGetMemoryInfo(self, device: int) -> SimpleNamespace:  # noqa: N802 - its name
        return SimpleNamespace(total=100, used=70)

    def nvmlDeviceGetComputeRunningProcesses(self, device: int) -> list[SimpleNamespace]:  # noqa: N802 - its name
        own = SimpleNamespace(pid=os.getpid(), usedGpuMemory=self.told)
        return [SimpleNamespace(pid=1, usedGpuMemory=30), own]


@pytest.mark.parametrize("told", [40, None])
def test_of_a_gpu_the_driver_says_what_is_ours(
    monkeypatch: pytest.MonkeyPatch, told: int | None
) -> None:
    driver = Driver(told)
    monkeypatch.setitem(sys.modules, "pynvml", driver)

    assert gpu_memory(0) == GpuMemory(100, 70, told)
    assert gpu_memory(1) is None
    assert driver.n_open == 0
