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
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload::Handle;

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
        .parse(quieted(text))
        .map_err(|error| format!("{text:?} is not a log filter ({error}): write {FILTER_FORM}"))
}

/// Installs the logger of the process, and returns the handle that changes its filter.
///
/// # Errors
/// The filter does not parse, or a logger is already installed.
pub(crate) fn start(node: NodeId, filter: &str, format: LogFormat) -> Result<LogFilter, String> {
    let parsed = parse_filter(filter)?;
    let terminal = std::io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt().with_writer(std::io::stderr).with_env_filter(parsed);
    let json = match format {
        LogFormat::Auto => !terminal,
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let started = if json {
        let inner = Format::default().json().flatten_event(true).with_current_span(false);
        let builder = builder.fmt_fields(JsonFields::new());
        let builder = builder.event_format(JsonWithNode { node, inner }).with_filter_reloading();
        let log_filter = changed_by(filter, builder.reload_handle());
        builder.try_init().map(|()| log_filter)
    } else {
        let inner = Format::default();
        let builder = builder.with_ansi(terminal).event_format(TextWithNode { node, inner });
        let builder = builder.with_filter_reloading();
        let log_filter = changed_by(filter, builder.reload_handle());
        builder.try_init().map(|()| log_filter)
    };
    started.map_err(|error| error.to_string())
}

fn changed_by<S: 'static>(configured: &str, handle: Handle<EnvFilter, S>) -> LogFilter {
    LogFilter::new(configured, move |text| {
        handle.reload(parse_filter(text)?).map_err(|error| error.to_string())
    })
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

    #[test]
    fn libraries_are_quiet_unless_named() {
        let quiet = quieted("info");
        assert!(quiet.starts_with("info,openraft=warn,") && quiet.ends_with(",sled=warn"));
        assert_eq!(quieted("info,openraft=debug"), "info,openraft=debug,sled=warn");
        assert!(EnvFilter::builder().parse(quiet).is_ok());
    }
}
