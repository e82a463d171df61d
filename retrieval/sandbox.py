"""A process apart in which files from strangers are read, with bounds on time and memory."""

from __future__ import annotations

import multiprocessing
import resource
from collections.abc import Callable
from concurrent.futures import TimeoutError as TimedOut
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pebble import ProcessExpired, ProcessPool

from retrieval.errors import ParseFailed
from retrieval.types import Parsed

if TYPE_CHECKING:
    from retrieval.parse import ParseLimits

Reader = Callable[[str, bytes, "ParseLimits"], Parsed]
# Readers written in C may leak; a fresh process now and then costs half a second.
_FILES_PER_PROCESS = 200


class Sandbox:
    """Reads files in one worker process, so that a bad file can harm nothing but itself.

    A file that hangs, crashes its reader or wants too much memory is a ParseFailed, and the
    next one gets a new worker. May be used from several threads; files are read one at a time.
    """

    def __init__(self, limits: ParseLimits, reader: Reader | None = None) -> None:
        """Start nothing yet. `reader` must be a function of a module; default is `parse`."""
        self._limits = limits
        self._reader = reader or _parse
        self._pool = ProcessPool(
            max_workers=1,
            max_tasks=_FILES_PER_PROCESS,
            initializer=_confine,
            initargs=(limits.memory_nbytes,),
            context=multiprocessing.get_context("spawn"),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the worker, in the middle of a file if need be."""
        self._pool.stop()
        self._pool.join()

    def parse(self, name: str, content: bytes) -> Parsed:
        """Read one file. Raises: ParseFailed for whatever goes wrong in its reader."""
        limits = self._limits
        future = self._pool.schedule(
            _read, args=(self._reader, name, content, limits), timeout=limits.time_s
        )
        try:
            parsed: Parsed = future.result()
        except TimedOut:
            raise ParseFailed(f"reading took longer than {limits.time_s:g} s") from None
        except MemoryError:
            raise ParseFailed(f"reading needs more than {_mib(limits)} MiB of memory") from None
        except ProcessExpired as error:
            raise ParseFailed(
                f"the reader crashed (exit status {error.exitcode}): the file is damaged "
                f"or needs more than {_mib(limits)} MiB of memory"
            ) from None
        return parsed


def _mib(limits: ParseLimits) -> int:
    return limits.memory_nbytes // 2**20


def _confine(memory_nbytes: int) -> None:
    """Bound the worker: so much address space beyond what its libraries take, no core dumps."""
    import retrieval.parse  # noqa: F401 - loaded now, so that the bound holds for files alone

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    taken_nbytes = _address_space_nbytes()
    if taken_nbytes:
        most_nbytes = taken_nbytes + memory_nbytes
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        if hard != resource.RLIM_INFINITY:
            most_nbytes = min(most_nbytes, hard)
        resource.setrlimit(resource.RLIMIT_AS, (most_nbytes, most_nbytes))


def _address_space_nbytes() -> int:
    """Give the address space in use; 0 where the system does not tell (and can't bound it)."""
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:
            return int(statm.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 0


def _parse(name: str, content: bytes, limits: ParseLimits) -> Parsed:
    from retrieval.parse import parse

    return parse(name, content, limits)


def _read(reader: Reader, name: str, content: bytes, limits: ParseLimits) -> Parsed:
    """Run a reader so that only what the other side knows comes back from it."""
    try:
        return reader(name, content, limits)
    except (ParseFailed, MemoryError):
        raise
    except Exception as error:
        # Foreign errors may not survive the way back, and may quote the file.
        raise ParseFailed(f"the reader failed ({type(error).__name__}): damaged file") from None
