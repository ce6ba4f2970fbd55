/** The metrics of a client in the SDK of OpenTelemetry. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { AggregationTemporality, DataPointType, InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } from "@opentelemetry/sdk-metrics";
import { BusyError, Client } from "holdfast";
import { openTelemetryMetrics } from "holdfast/opentelemetry";
import { Cluster, eventually, skip } from "./cluster.js";

describe("OpenTelemetry", { skip }, () => {
  let cluster: Cluster;

  before(async () => {
    cluster = await Cluster.start(32_700, 1);
  });
  after(() => cluster.stop());

  test("counts what a client does, without the names of locks", async () => {
    const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
    const provider = new MeterProvider({ readers: [new PeriodicExportingMetricReader({ exporter })] });
    const hf = new Client({ addresses: cluster.addresses, metrics: openTelemetryMetrics(provider.getMeter("test")) });
    const guard = await hf.lock("secret-name");
    await assert.rejects(hf.lock("secret-name", { wait: 0 }), BusyError);
    await hf.forceRelease("secret-name", { reason: "maintenance" });
    await eventually(() => guard.lost !== undefined, "the loss");
    await (await hf.lock("secret-name")).release();
    await hf.close();
    await provider.forceFlush();

    const measured = new Map<string, number>();
    for (const metric of exporter.getMetrics().flatMap((resource) => resource.scopeMetrics).flatMap((scope) => scope.metrics)) {
      for (const point of metric.dataPoints) {
        const count = metric.dataPointType === DataPointType.HISTOGRAM ? (point.value as { count: number }).count : Number(point.value);
        measured.set([metric.descriptor.name, ...Object.values(point.attributes)].join(" "), count);
      }
    }
    await provider.shutdown();
    assert.equal(measured.get("holdfast.client.acquire"), 2);
    assert.equal(measured.get("holdfast.client.hold"), 1);
    assert.equal(measured.get("holdfast.client.acquire.failures busy"), 1);
    assert.equal(measured.get("holdfast.client.losses force-released"), 1);
    assert.ok((measured.get("holdfast.client.renewals true") ?? 0) >= 1);
    assert.doesNotMatch([...measured.keys()].join(), /secret-name/);
  });
});
