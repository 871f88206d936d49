"""RocksDB state stores in the driver's JVM, and a snapshot of one outside of a batch.

From StateStore$, RocksDBStateStoreProvider and RocksDB of org.apache.spark.sql.execution.streaming.state.
`RocksDB.createSnapshot` is private; its code is the same in Spark 4.1 to 4.3.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

from py4j.protocol import Py4JError

from ..internals import Internals, field

_STORES = "org.apache.spark.sql.execution.streaming.state.StateStore"
_ROCKSDB = "RocksDBStateStoreProvider"
DEFAULT = "default"  # the name of an operator's only store, which has no folder of its own

_ENDING = threading.Lock()  # two tasks may be closed at the same time


class StoreKey(NamedTuple):
    """Which store of a query's checkpoint directory it is.

    :param name: "" for the only one of its operator.
    """

    operator: int
    partition: int
    name: str


class Store:
    """A store that a query has loaded, at the version of its last commit."""

    def __init__(self, jvm: Any, gateway: Any, database: Any) -> None:
        self._jvm = jvm
        self._gateway = gateway
        self._database = database

    @property
    def version(self) -> int:
        """The batch that it has committed last, plus one; -1 if that failed."""
        return int(self._database.loadedVersion())

    def upload_snapshot(self) -> None:
        """Write a snapshot of its version into the checkpoint directory, as its maintenance does.

        No batch may run, and no maintenance: it closes the stores of queries that have ended, and to use a
        closed one kills the JVM.

        :raises Py4JError: it failed. What was written is not a snapshot, and Spark deletes it in time.
        """
        methods = self._database.getClass().getDeclaredMethods()
        create = next((m for m in methods if m.getName() == "createSnapshot"), None)
        if create is None:
            raise Py4JError("RocksDB has no method createSnapshot")
        create.setAccessible(True)
        arguments = self._gateway.new_array(self._jvm.java.lang.Object, 2)
        arguments[0], arguments[1] = self._jvm.java.lang.Long(self.version), self._jvm.scala.Option.empty()
        self._database.uploadSnapshot(create.invoke(self._database, arguments)._1().get())


class Stores:
    """The state stores of this JVM.

    :raises Py4JError: this Spark has no such class.
    """

    def __init__(self, internals: Internals) -> None:
        self._jvm, self._gateway = internals.jvm, internals.gateway
        self._all = internals.module(_STORES)
        self._loaded = field(self._all, "loadedProviders").get(self._all)

    def are_none(self) -> bool:
        """Whether this JVM holds no state. With executors they do."""
        return bool(self._loaded.isEmpty())

    def end_maintenance(self) -> None:
        """Wait for the running maintenance, and let no other one begin before the next batch of a query.

        Not by `stopMaintenanceTask`: it waits under the lock that running maintenance needs to end.
        """
        with _ENDING:
            self._all.stopMaintenanceTaskWithoutLock()

    def of_run(self, run: str) -> dict[StoreKey, Store]:
        """The RocksDB stores that one run of a query has loaded.

        No maintenance may run. With checkpoint ids (`stateStore.checkpointFormatVersion` 2), a store is left
        out: the id of its next snapshot is its own to choose.
        """
        found: dict[StoreKey, Store] = {}
        entries = self._loaded.iterator()
        while entries.hasNext():
            entry = entries.next()
            key, provider = entry._1(), entry._2()
            if str(key.queryRunId()) != run or str(provider.getClass().getSimpleName()) != _ROCKSDB:
                continue
            database, of = provider.rocksDB(), key.storeId()
            if database.lastCommittedStateStoreCkptId().isEmpty():
                name = str(of.storeName())
                place = StoreKey(int(of.operatorId()), int(of.partitionId()), "" if name == DEFAULT else name)
                found[place] = Store(self._jvm, self._gateway, database)
        return found
