//! Exports the spans of traced calls to a collector of OpenTelemetry, over OTLP/HTTP.
//!
//! Spans wait in a queue for a thread that sends them in batches. A full queue drops spans, so that a slow or unreachable
//! collector delays no call. Bounds: [`QUEUE_MAX`] spans, and the timeouts below.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use holdfast_trace::{ENTRY_TARGET, SpanContexts, TARGET, TraceContext};
use holdfast_types::NodeId;
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState, TracerProvider as _,
};
use opentelemetry::{Context as OtelContext, KeyValue};
use opentelemetry_otlp::{WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider, Span as SdkSpan,
    SpanData, SpanExporter, SpanProcessor,
};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use tracing::subscriber::Interest;
use tracing::{Metadata, Span, Subscriber};
use tracing_opentelemetry::{OpenTelemetryLayer, OpenTelemetrySpanExt as _};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Filter};
use tracing_subscriber::registry::LookupSpan;

/// The maximum number of spans that wait for their export, or are being exported.
const QUEUE_MAX: usize = 2_048;
/// The timeout of one export.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);
/// The time for the last export when the node stops.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// The export of this process.
pub(crate) struct TraceExport {
    provider: SdkTracerProvider,
    dropped: Counter,
}

impl TraceExport {
    /// Starts the thread of the export to the base URL of a collector, with these headers.
    ///
    /// # Errors
    /// The client cannot be created.
    pub(crate) fn start(
        endpoint: &str,
        headers: HashMap<String, String>,
        cluster: &str,
        node: NodeId,
    ) -> Result<Self, String> {
        let (queued, dropped) = (Arc::<AtomicUsize>::default(), Counter::default());
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_endpoint(format!("{endpoint}/v1/traces"))
            .with_headers(headers)
            .with_timeout(EXPORT_TIMEOUT)
            .build()
            .map_err(|error| format!("cannot export traces: {error}"))?;
        let exporter = ReportingExporter {
            exporter,
            endpoint: endpoint.to_owned(),
            queued: queued.clone(),
            dropped: dropped.clone(),
            fails: AtomicBool::new(false),
        };
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE_MAX)
            .with_scheduled_delay(Duration::from_secs(1))
            .build();
        let batches = BatchSpanProcessor::builder(exporter).with_batch_config(batches).build();
        let resource = Resource::builder_empty().with_attributes([
            KeyValue::new("service.name", "holdfast"),
            KeyValue::new("service.namespace", cluster.to_owned()),
            KeyValue::new("service.instance.id", node.to_string()),
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        ]);
        let provider = SdkTracerProvider::builder()
            .with_span_processor(BoundedQueue { batches, queued, dropped: dropped.clone() })
            .with_sampler(Sampler::AlwaysOn)
            .with_resource(resource.build())
            .build();
        holdfast_trace::install(SpanContexts { context_of, set_parent });
        Ok(Self { provider, dropped })
    }

    /// The layer that turns spans of traced calls into spans of OpenTelemetry.
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let layer: OpenTelemetryLayer<S, SdkTracer> =
            OpenTelemetryLayer::new(self.provider.tracer("holdfast"));
        let layer = layer.with_location(false).with_threads(false).with_target(false);
        let layer = layer.with_tracked_inactivity(false).with_context_activation(false);
        layer.with_filter(TracedCalls)
    }

    pub(crate) fn register_metrics(&self, registry: &mut Registry) {
        let help =
            "Spans that this node dropped because its collector of traces is slow or unreachable";
        registry.register("trace_spans_dropped", help, self.dropped.clone());
    }

    /// Sends the last spans, for at most [`FLUSH_TIMEOUT`]. Blocks.
    pub(crate) fn shut_down(&self) {
        if let Err(error) = self.provider.shutdown_with_timeout(FLUSH_TIMEOUT) {
            tracing::warn!(%error, "the last traces are lost");
        }
    }
}

fn context_of(span: &Span) -> Option<TraceContext> {
    let context = span.context();
    let context = context.span().span_context().clone();
    context.is_valid().then(|| TraceContext {
        trace: u128::from_be_bytes(context.trace_id().to_bytes()),
        span: u64::from_be_bytes(context.span_id().to_bytes()),
    })
}

fn set_parent(span: &Span, TraceContext { trace, span: parent }: TraceContext) {
    let (trace, parent) = (TraceId::from(trace), SpanId::from(parent));
    let remote = SpanContext::new(trace, parent, TraceFlags::SAMPLED, true, TraceState::default());
    if let Err(error) = span.set_parent(OtelContext::new().with_remote_span_context(remote)) {
        tracing::debug!(%error, "a span has lost its parent");
    }
}

/// Enables the spans of traced calls only: the first one, and those within another.
struct TracedCalls;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Filter<S> for TracedCalls {
    fn enabled(&self, metadata: &Metadata<'_>, context: &Context<'_, S>) -> bool {
        metadata.is_span()
            && match metadata.target() {
                ENTRY_TARGET => true,
                TARGET => context.lookup_current().is_some(),
                _ => false,
            }
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        match metadata.target() {
            ENTRY_TARGET | TARGET => Interest::sometimes(),
            _ => Interest::never(),
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::INFO)
    }
}

/// Drops and counts spans while the queue is full. The library drops them too, but does not tell how many.
#[derive(Debug)]
struct BoundedQueue {
    batches: BatchSpanProcessor,
    queued: Arc<AtomicUsize>,
    dropped: Counter,
}

impl SpanProcessor for BoundedQueue {
    fn on_start(&self, span: &mut SdkSpan, context: &OtelContext) {
        self.batches.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        if self.queued.fetch_add(1, Ordering::Relaxed) < QUEUE_MAX {
            self.batches.on_end(span);
        } else {
            self.queued.fetch_sub(1, Ordering::Relaxed);
            self.dropped.inc();
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.batches.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.batches.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.batches.set_resource(resource);
    }
}

/// Logs when exports begin to fail, and when they succeed again.
#[derive(Debug)]
struct ReportingExporter<E> {
    exporter: E,
    endpoint: String,
    queued: Arc<AtomicUsize>,
    dropped: Counter,
    fails: AtomicBool,
}

impl<E: SpanExporter> SpanExporter for ReportingExporter<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len();
        let result = self.exporter.export(batch).await;
        self.queued.fetch_sub(count, Ordering::Relaxed);
        let failed_before = self.fails.swap(result.is_err(), Ordering::Relaxed);
        let endpoint = &self.endpoint;
        if let Err(error) = &result {
            self.dropped.inc_by(count as u64);
            if !failed_before {
                tracing::warn!(endpoint, %error, "the collector accepts no traces: check traces.endpoint; calls continue");
            }
        } else if failed_before {
            tracing::info!(endpoint, "the collector accepts traces again");
        }
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
