//! Log lines on stderr: text on a terminal, otherwise one JSON object per line.
//!
//! Every line has the id of the node in the field `node`. Other common fields are `term`, `request_id`, `lock` and
//! `session`. The logger writes lines directly, without a queue.

use std::fmt;
use std::io::IsTerminal;

use holdfast_http::LogFilter;
use holdfast_types::NodeId;
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::{Format, Full, Json, JsonFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry, reload};

use crate::traces::TraceExport;

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// Text on a terminal, otherwise JSON.
    Auto,
    Text,
    /// One JSON object per line.
    Json,
}

/// The form of a filter, for error texts.
pub(crate) const FILTER_FORM: &str =
    "error, warn, info, debug or trace, or a filter such as \"info,holdfast_raft=debug\"";

/// Parses a filter.
///
/// # Errors
/// What is wrong, and what to write instead.
pub(crate) fn parse_filter(text: &str) -> Result<EnvFilter, String> {
    // `tracing` accepts any single word as a module name, so a mistyped level would disable all logs.
    let is_level = |part: &str| part.trim().parse::<LevelFilter>().is_ok();
    if let Some(word) = text.split(',').find(|part| !part.contains(['=', '[']) && !is_level(part)) {
        return Err(format!("{word:?} is not a log level: write {FILTER_FORM}"));
    }
    EnvFilter::builder()
        .parse(format!("{},{}=off", quieted(text), holdfast_trace::TARGET))
        .map_err(|error| format!("{text:?} is not a log filter ({error}): write {FILTER_FORM}"))
}

/// Installs the logger of the process and the export of traces, and returns the handle that changes the logger's filter.
///
/// # Errors
/// The filter does not parse, or a logger is already installed.
pub(crate) fn start(
    node: NodeId,
    filter: &str,
    format: LogFormat,
    traces: Option<&TraceExport>,
) -> Result<LogFilter, String> {
    let (lines, handle) = log_lines(node, parse_filter(filter)?, format);
    let registry = tracing_subscriber::registry().with(layers(lines, traces));
    registry.try_init().map_err(|error| error.to_string())?;
    Ok(LogFilter::new(filter, move |text| {
        handle.reload(parse_filter(text)?).map_err(|error| error.to_string())
    }))
}

type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// The layers of the process. An absent layer must not be among them: it enables every span, and each then costs as much as
/// a log line.
fn layers(lines: BoxedLayer, traces: Option<&TraceExport>) -> Vec<BoxedLayer> {
    let mut layers = vec![lines];
    layers.extend(traces.map(|traces| traces.layer().boxed()));
    layers
}

/// The layer that writes log lines, and the handle that changes its filter.
fn log_lines(
    node: NodeId,
    filter: EnvFilter,
    format: LogFormat,
) -> (BoxedLayer, reload::Handle<EnvFilter, Registry>) {
    let (parsed, handle) = reload::Layer::new(filter);
    let terminal = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let json = match format {
        LogFormat::Auto => !terminal,
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let layer = if json {
        let inner = Format::default().json().flatten_event(true).with_current_span(false);
        let lines = lines.fmt_fields(JsonFields::new());
        lines.event_format(JsonWithNode { node, inner }).with_filter(parsed).boxed()
    } else {
        let inner = Format::default();
        let lines = lines.with_ansi(terminal).event_format(TextWithNode { node, inner });
        lines.with_filter(parsed).boxed()
    };
    (layer, handle)
}

/// Filters of libraries that log only warnings, unless the configured filter names them. They suppress errors that
/// repeat with every heartbeat to an unreachable peer: holdfast logs once when it loses a peer and once when the peer
/// returns.
const QUIET: [(&str, &str); 2] = [
    (
        "openraft",
        "openraft=warn,openraft::core::heartbeat=error,openraft::core::raft_core=error,openraft::replication=error,\
         openraft::engine::handler::replication_handler=error",
    ),
    ("sled", "sled=warn"),
];

fn quieted(filter: &str) -> String {
    QUIET
        .iter()
        .filter(|(library, _)| !filter.contains(*library))
        .fold(filter.to_owned(), |filter, (_, quiet)| format!("{filter},{quiet}"))
}

/// Formats a text line, e.g. `node=1 2026-.. INFO ..`.
struct TextWithNode {
    node: NodeId,
    inner: Format<Full>,
}

impl<S, N> FormatEvent<S, N> for TextWithNode
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        write!(writer, "node={} ", self.node)?;
        self.inner.format_event(context, writer, event)
    }
}

/// Formats a JSON line, e.g. `{"node":1,"timestamp":..}`.
struct JsonWithNode {
    node: NodeId,
    inner: Format<Json>,
}

impl<S, N> FormatEvent<S, N> for JsonWithNode
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = String::new();
        self.inner.format_event(context, Writer::new(&mut line), event)?;
        match line.strip_prefix('{') {
            Some(rest) => write!(writer, "{{\"node\":{},{rest}", self.node),
            None => writer.write_str(&line),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node creates several spans for each call.
    #[test]
    fn without_an_export_no_span_exists() {
        let (lines, _handle) =
            log_lines(NodeId(1), parse_filter("debug").unwrap(), LogFormat::Json);
        let registry = tracing_subscriber::registry().with(layers(lines, None));
        tracing::subscriber::with_default(registry, || {
            assert!(holdfast_trace::span!("commit").is_disabled());
            assert!(!tracing::debug_span!("http").is_disabled());
        });
    }

    #[test]
    fn libraries_are_quiet_unless_named() {
        let quiet = quieted("info");
        assert!(quiet.starts_with("info,openraft=warn,") && quiet.ends_with(",sled=warn"));
        assert_eq!(quieted("info,openraft=debug"), "info,openraft=debug,sled=warn");
        assert!(EnvFilter::builder().parse(quiet).is_ok());
    }
}
