"""The metrics of a client in a registry of `prometheus_client`."""

from __future__ import annotations

import uuid

import holdfast
import pytest
from conftest import Cluster

prometheus = pytest.importorskip("prometheus_client")


def test_a_registry_counts_what_a_client_does(cluster: Cluster) -> None:
    from holdfast.contrib.prometheus import PrometheusMetrics

    registry = prometheus.CollectorRegistry()
    name = f"prometheus/{uuid.uuid4()}"
    with holdfast.Client(cluster.addresses, ttl=15, metrics=PrometheusMetrics(registry)) as hf:
        guard = hf.lock(name).acquire()
        with pytest.raises(holdfast.Busy):
            hf.lock(name, wait=0).acquire()
        hf.force_release(name, "maintenance")
        assert guard.lost.wait(20)
        hf.lock(name, wait=20).acquire().release()

    def value(metric: str, **labels: str) -> float:
        found = registry.get_sample_value(f"holdfast_client_{metric}", labels)
        return 0.0 if found is None else float(found)

    assert value("acquire_seconds_count") == 2
    assert value("acquire_failures_total", error="busy") == 1
    assert value("losses_total", cause="force-released") == 1
    assert value("hold_seconds_count") == 1
    assert value("renewals_total", acknowledged="true") >= 1
    assert name not in prometheus.generate_latest(registry).decode()
