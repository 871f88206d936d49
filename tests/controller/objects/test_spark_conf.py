"""Spark's configuration: our defaults, the user's settings, and the settings that control needs."""

from __future__ import annotations

from ..factories import config


def test_local_mode() -> None:
    conf = config().spark_conf
    assert conf["spark.master"] == "local[*]"
    assert conf["spark.driver.memory"] == "1024m"
    assert config().executor_template is None
    assert not [k for k in conf if "kubernetes" in k]


def test_executors_are_sparks_own() -> None:
    conf = config(epoch=3, executor={"instances": 2, "cores": 4, "memory": "3Gi"}).spark_conf
    assert conf["spark.master"] == "k8s://https://kubernetes.default.svc"
    assert conf["spark.kubernetes.driver.pod.name"] == "orders-driver-3"
    assert conf["spark.kubernetes.executor.podNamePrefix"] == "orders-3"
    assert (conf["spark.executor.instances"], conf["spark.executor.cores"]) == ("2", "4")
    assert conf["spark.executor.memory"] == "3072m"


def test_executors_have_room_for_python_beside_the_heap() -> None:
    """As spark-submit gives it to them in cluster mode."""
    key, older = "spark.executor.memoryOverheadFactor", "spark.kubernetes.memoryOverheadFactor"
    executor = {"instances": 1}
    assert config(executor=executor).spark_conf[key] == "0.4"
    assert config(executor=executor, sparkConf={key: "0.2"}).spark_conf[key] == "0.2"
    assert key not in config(executor=executor, sparkConf={older: "0.3"}).spark_conf


def test_spark_chooses_the_number_within_bounds() -> None:
    dynamic = {"dynamicAllocation": {"min": 1, "max": 4, "idleTimeout": "2m"}}
    conf = config(executor=dynamic).spark_conf
    found = {k: v for k, v in conf.items() if k.startswith("spark.dynamicAllocation.")}
    assert found == {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.minExecutors": "1",
        "spark.dynamicAllocation.initialExecutors": "1",
        "spark.dynamicAllocation.maxExecutors": "4",
        "spark.dynamicAllocation.executorIdleTimeout": "120s",
        "spark.dynamicAllocation.shuffleTracking.enabled": "false",
    }
    assert "spark.executor.instances" not in conf
    assert conf["spark.master"].startswith("k8s://")
    mine = {"spark.dynamicAllocation.shuffleTracking.enabled": "true"}
    assert mine.items() <= config(executor=dynamic, sparkConf=mine).spark_conf.items()


def test_an_executor_that_has_to_go_is_decommissioned_unless_the_user_says_otherwise() -> None:
    conf = config(executor={"instances": 1}).spark_conf
    assert conf["spark.decommission.enabled"] == "true"
    assert conf["spark.storage.decommission.enabled"] == "true"
    assert conf["spark.storage.decommission.shuffleBlocks.enabled"] == "true"
    off = {"spark.decommission.enabled": "false"}
    assert off.items() <= config(executor={"instances": 1}, sparkConf=off).spark_conf.items()


def test_a_driver_listens_for_its_executors_where_a_policy_can_name_it() -> None:
    conf = config(executor={"instances": 1}).spark_conf
    assert (conf["spark.driver.port"], conf["spark.driver.blockManager.port"]) == ("7078", "7079")
    assert (
        config(executor={"instances": 1}, sparkConf={"spark.driver.port": "1"}).spark_conf[
            "spark.driver.port"
        ]
        == "1"
    )


def test_the_users_configuration_wins_except_where_control_would_be_lost() -> None:
    mine = {
        "spark.app.name": "mine",
        "spark.master": "yarn",
        "spark.kubernetes.executor.disableConfigMap": "false",
    }
    conf = config(sparkConf=mine, executor={"instances": 1}).spark_conf
    assert conf["spark.app.name"] == "mine"
    assert conf["spark.kubernetes.executor.disableConfigMap"] == "false"
    assert conf["spark.master"].startswith("k8s://")
