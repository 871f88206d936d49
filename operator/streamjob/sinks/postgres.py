"""A sink that publishes rows in a PostgreSQL table atomically, with PREPARE TRANSACTION and COMMIT PREPARED.

    TABLE_streamjob_rows        rows of the batches: the columns of the frame, owner, batch, row number
    TABLE_streamjob_commits     owner, batch, checkpoint: the newest transaction that the owner has committed

Spark writes each batch to the first table, in parallel; the rows are durable there. At a checkpoint, one
transaction moves the batches into the target table and is prepared. This checks the constraints, so the
transaction can be committed whatever happens afterwards. A prepared transaction holds its locks until it is
committed or rolled back: `select gid from pg_prepared_xacts` shows its owner.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit, monotonically_increasing_id

from ..runtime.spark import handles
from ..transactional import SinkFailed, Transaction, TransactionalSink, TransactionLost

DRIVER = "org.postgresql.Driver"
OWNER, BATCH, ROW = "streamjob_owner", "streamjob_batch", "streamjob_row"

Rows = list[tuple[object, ...]]
Run = Callable[..., Rows]


class PostgresSink(TransactionalSink):
    """`frame.writeStream.foreachBatch(PostgresSink(url, "orders", user="shop",
    password=os.environ["PGPASSWORD"]))`

    The server needs `max_prepared_transactions` above 0, and the Spark driver needs `org.postgresql.Driver`
    on its class path. The frame's columns are matched with the table's by name.

    :param url: `jdbc:postgresql://host/database`.
    :param table: an existing table, NAME or SCHEMA.NAME.
    :param properties: properties of the JDBC driver: user, password, ssl, …
    :raises ValueError: the table's name is too long or would have to be quoted.
    """

    def __init__(self, url: str, table: str, **properties: str) -> None:
        if not re.fullmatch(r"([a-z_][a-z0-9_]*\.)?[a-z_][a-z0-9_]{0,40}", table):
            raise ValueError(f"{table[:200]!r} is not a table's name in lower case, NAME or SCHEMA.NAME")
        self._url, self._table = url, table
        self._properties = {"driver": DRIVER, **properties}
        self._rows, self._commits = f"{table}_streamjob_rows", f"{table}_streamjob_commits"
        self._owner = ""
        self._there: set[str] = set()  # our own tables that are known to exist

    def recover(self, owner: str, batch: int | None) -> Sequence[Transaction]:
        self._owner = owner
        with self._connection() as run:
            if self._exists(run, self._rows):
                which = f"{OWNER} = ? AND {BATCH} > ?"
                run(f"DELETE FROM {self._rows} WHERE {which}", owner, -1 if batch is None else batch)
            return [t for t in self._prepared(run) if t.owner == owner]

    def begin(self, batch: int) -> None:
        with self._connection() as run:
            if self._exists(run, self._rows):
                run(f"DELETE FROM {self._rows} WHERE {OWNER} = ? AND {BATCH} = ?", self._owner, batch)

    def write(self, frame: DataFrame, batch: int) -> None:
        self._create_rows(frame.columns)
        # The row number is in a unique index: if Spark writes part of a batch again, after a lost answer, the
        # write fails instead of adding duplicate rows.
        marked = (
            frame.withColumn(OWNER, lit(self._owner))
            .withColumn(BATCH, lit(batch))
            .withColumn(ROW, monotonically_increasing_id())
        )
        marked.write.jdbc(self._url, self._rows, mode="append", properties=self._properties)

    def pre_commit(self, transaction: Transaction) -> None:
        self._create_commits()  # in its own transaction: creating a table locks it until the commit
        with self._connection(commit=False) as run:
            prepared = self._prepared(run)
            if transaction in prepared:
                return
            if self._exists(run, self._rows):  # missing until the first batch
                taken = max((t.batch for t in prepared if t.owner == self._owner), default=-1)
                self._publish(run, max(taken, self._committed(run, self._owner)), transaction.batch)
            run(
                f"INSERT INTO {self._commits} VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                self._owner,
                transaction.batch,
                # Part of the key: a transaction without a new batch has the same batch as the one before it,
                # and would otherwise wait for that one's prepared row.
                transaction.checkpoint,
            )
            run(f"PREPARE TRANSACTION '{transaction}'")

    def commit(self, transaction: Transaction) -> None:
        with self._connection() as run:
            if transaction in self._prepared(run):
                run(f"COMMIT PREPARED '{transaction}'")
            elif self._committed(run, transaction.owner) < transaction.batch:
                raise TransactionLost(
                    f"transaction {transaction} of {self._table} is neither prepared nor committed: somebody "
                    "has rolled it back",
                    remedy="Restore an earlier savepoint, or write its rows by hand and give the job a new "
                    "name",
                )
            if self._exists(run, self._commits):  # not if it was prepared for another table
                older = "owner = ? AND batch < ?"
                run(f"DELETE FROM {self._commits} WHERE {older}", transaction.owner, transaction.batch)

    def abort(self, transaction: Transaction) -> None:
        with self._connection() as run:
            if transaction in self._prepared(run):
                run(f"ROLLBACK PREPARED '{transaction}'")

    def knows(self, owner: str) -> bool:
        with self._connection() as run:
            waiting = f"SELECT 1 FROM {self._rows} WHERE {OWNER} = ? LIMIT 1"
            written = self._exists(run, self._rows) and run(waiting, owner)
            return bool(written) or self._committed(run, owner) >= 0

    # --- SQL ------------------------------------------------------------------------------------------------

    def _prepared(self, run: Run) -> list[Transaction]:
        rows = run("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()")
        found = [Transaction.read(str(gid)) for (gid,) in rows]
        return [t for t in found if t is not None]  # other programs prepare transactions, too

    def _committed(self, run: Run, owner: str) -> int:
        """The last batch in a committed transaction of the owner; -1 if there is none."""
        if not self._exists(run, self._commits):
            return -1
        ((batch,),) = run(f"SELECT coalesce(max(batch), -1) FROM {self._commits} WHERE owner = ?", owner)
        return int(str(batch))

    def _publish(self, run: Run, after: int, last: int) -> None:
        """Move the rows of the batches after `after` up to `last` into the target table."""
        columns = _quoted(self._columns(run))
        which = f"{OWNER} = ? AND {BATCH} > ? AND {BATCH} <= ?"
        bounds = (self._owner, after, last)
        run(
            f"INSERT INTO {self._table} ({columns}) SELECT {columns} FROM {self._rows} WHERE {which} "
            f"ORDER BY {BATCH}, {ROW}",
            *bounds,
        )
        run(f"DELETE FROM {self._rows} WHERE {which}", *bounds)

    def _create_rows(self, columns: Sequence[str]) -> None:
        """Create the table of rows if it is missing: the frame's columns with the target table's types."""
        ours = f"NULL::text AS {OWNER}, NULL::bigint AS {BATCH}, NULL::bigint AS {ROW}"
        key = f"{self._rows.rpartition('.')[2]}_key"
        self._create(
            self._rows,
            f"CREATE TABLE {self._rows} AS SELECT {_quoted(columns)}, {ours} FROM {self._table} WITH NO DATA",
            f"CREATE UNIQUE INDEX {key} ON {self._rows} ({OWNER}, {BATCH}, {ROW})",
        )

    def _create_commits(self) -> None:
        columns = "owner text, batch bigint, checkpoint bigint"
        key = "PRIMARY KEY (owner, batch, checkpoint)"
        self._create(self._commits, f"CREATE TABLE {self._commits} ({columns}, {key})")

    def _create(self, table: str, *statements: str) -> None:
        """Create one of our own tables if it does not exist."""
        if table in self._there:
            return
        with self._connection(commit=False) as run:
            run("SELECT pg_advisory_xact_lock(hashtext(?))", table)  # IF NOT EXISTS alone loses races
            # It also locks an existing table, and would then wait for a prepared transaction of another
            # shard.
            if not self._exists(run, table):
                for statement in statements:
                    run(statement)
                run("COMMIT")
        self._there.add(table)

    def _exists(self, run: Run, table: str) -> bool:
        return bool(run("SELECT 1 WHERE to_regclass(?) IS NOT NULL", table))

    def _columns(self, run: Run) -> list[str]:
        query = (
            "SELECT attname FROM pg_attribute WHERE attrelid = ?::regclass AND attnum > 0 AND NOT "
            "attisdropped"
        )
        return [str(name) for (name,) in run(query, self._rows) if name not in (OWNER, BATCH, ROW)]

    @contextmanager
    def _connection(self, *, commit: bool = True) -> Iterator[Run]:
        """Connect to the server. Yields a function that runs one statement and returns its rows.

        :param commit: true: commit each statement by itself; false: roll back at the end what is not
            prepared.
        :raises SinkFailed: the server refused; its message is included.
        """
        jvm = handles.jvm(SparkSession.builder.getOrCreate())
        with _translated(self._table):
            # Through Spark's registry: the driver may be in a jar that only Spark's class loader knows.
            jvm.org.apache.spark.sql.execution.datasources.jdbc.DriverRegistry.register(DRIVER)
            connection = jvm.java.sql.DriverManager.getConnection(self._url, _java(jvm, self._properties))
            try:
                connection.setAutoCommit(commit)
                yield lambda statement, *values: _run(connection, statement, values)
            finally:
                try:
                    if not commit:
                        connection.rollback()
                finally:
                    connection.close()


def _quoted(columns: Sequence[str]) -> str:
    return ", ".join('"{}"'.format(name.replace('"', '""')) for name in columns)


def _run(connection: Any, statement: str, values: Sequence[object]) -> Rows:
    prepared = connection.prepareStatement(statement)
    try:
        for position, value in enumerate(values, 1):
            if isinstance(value, int):
                prepared.setLong(position, value)
            else:
                prepared.setString(position, value)
        if not prepared.execute():
            return []
        found, rows = prepared.getResultSet(), []
        width = found.getMetaData().getColumnCount()
        while found.next():
            rows.append(tuple(found.getObject(i) for i in range(1, width + 1)))
        return rows
    finally:
        prepared.close()


def _java(jvm: Any, properties: Mapping[str, str]) -> Any:
    found = jvm.java.util.Properties()
    for key, value in properties.items():
        found.setProperty(key, value)
    return found


@contextmanager
def _translated(table: str) -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as e:
        said = str(e.java_exception.getMessage() or e.java_exception.getClass().getName()).strip()
        remedy = "See the message; it is tried again"
        if "max_prepared_transactions" in said or "prepared transactions are disabled" in said:
            remedy = (
                "Set max_prepared_transactions in the server's postgresql.conf to 10 or more and restart it"
            )
        raise SinkFailed(
            f"PostgreSQL refused what the sink of table {table} asked for: {said}", remedy=remedy
        ) from e
