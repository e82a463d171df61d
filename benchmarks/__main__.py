"""Runs the benchmarks that are named, or all of them."""

from __future__ import annotations

import sys

from benchmarks import index, lexical, memory, revocation, rights, search, serve

_ALL = {
    "search": search.run,
    "index": index.run,
    "lexical": lexical.run,
    "memory": memory.run,
    "rights": rights.run,
    "revocation": revocation.run,
    "serve": serve.run,
}


def main() -> None:
    """Run; an unknown name is told with those there are."""
    names = sys.argv[1:] or list(_ALL)
    unknown = [name for name in names if name not in _ALL]
    if unknown:
        sys.exit(f"no benchmark {', '.join(unknown)}: there are {', '.join(_ALL)}")
    for name in names:
        _ALL[name]()


if __name__ == "__main__":
    main()
