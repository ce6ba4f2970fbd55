//! Log lines on stderr: text on a terminal, otherwise one JSON object per line.
//!
//! Every line has the id of the node in the field `node`. Other common fields are `term`, `request_id`, `lock` and
//! `session`. A thread writes the lines: `apply` logs while the state machine is locked, and the reader of stderr may not
//! read. Bounds: [`LINES_MAX`] lines wait; later ones are dropped and counted in the next line.

use std::fmt;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use holdfast_http::LogFilter;
use holdfast_types::NodeId;
use parking_lot::{Condvar, Mutex};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::{Format, JsonFields, Writer};
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

/// The maximum number of waiting log lines.
const LINES_MAX: usize = 1_024;
/// How long the end of the process waits for the reader of stderr.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// The queue of log lines. Clones share it.
#[derive(Clone, Debug)]
struct LogQueue {
    lines: SyncSender<Vec<u8>>,
    counts: Arc<(Mutex<LineCounts>, Condvar)>,
}

#[derive(Debug, Default)]
struct LineCounts {
    /// The lines in the queue, and the one that is being written.
    unwritten: usize,
    /// The lines that were dropped since the last written one.
    dropped: u64,
}

impl LogQueue {
    /// Starts the thread that writes the lines, and reports the number of those that were dropped.
    fn start(
        mut output: impl io::Write + Send + 'static,
        report: impl Fn(u64) + Send + 'static,
    ) -> io::Result<Self> {
        let (lines, queue) = sync_channel::<Vec<u8>>(LINES_MAX);
        let counts = Arc::<(Mutex<LineCounts>, Condvar)>::default();
        let shared = counts.clone();
        let write_all = move || {
            for line in queue {
                drop(output.write_all(&line));
                let mut counts = shared.0.lock();
                counts.unwritten -= 1;
                // With less room, the lines of other threads could take the place of the number.
                let has_room = counts.unwritten <= LINES_MAX / 2;
                let dropped = if has_room { std::mem::take(&mut counts.dropped) } else { 0 };
                drop(counts);
                shared.1.notify_all();
                if dropped > 0 {
                    report(dropped);
                }
            }
        };
        std::thread::Builder::new().name("log".to_owned()).spawn(write_all)?;
        Ok(Self { lines, counts })
    }

    /// Waits until all lines are written, at most for [`FLUSH_TIMEOUT`].
    fn wait_until_written(&self) {
        let (counts, written) = &*self.counts;
        written.wait_while_for(&mut counts.lock(), |counts| counts.unwritten > 0, FLUSH_TIMEOUT);
    }
}

fn report_dropped(dropped: u64) {
    tracing::warn!(dropped, "log lines were dropped: the reader of stderr was too slow");
}

/// Gets one line with each call.
impl io::Write for LogQueue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut counts = self.counts.0.lock();
        match self.lines.try_send(line.to_vec()) {
            Ok(()) => counts.unwritten += 1,
            Err(_) => counts.dropped += 1,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes the waiting log lines when it is dropped, also after a panic.
#[derive(Debug)]
pub(crate) struct LogGuard(LogQueue);

impl Drop for LogGuard {
    fn drop(&mut self) {
        self.0.wait_until_written();
    }
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
/// The filter does not parse, a logger is already installed, or the system has no thread for it.
pub(crate) fn start(
    node: NodeId,
    filter: &str,
    format: LogFormat,
    traces: Option<&TraceExport>,
) -> Result<(LogFilter, LogGuard), String> {
    let queue = LogQueue::start(io::stderr(), report_dropped).map_err(|error| error.to_string())?;
    let guard = LogGuard(queue.clone());
    let (lines, handle) = log_lines(node, parse_filter(filter)?, format, queue);
    let registry = tracing_subscriber::registry().with(layers(lines, traces));
    registry.try_init().map_err(|error| error.to_string())?;
    let log_filter = LogFilter::new(filter, move |text| {
        handle.reload(parse_filter(text)?).map_err(|error| error.to_string())
    });
    Ok((log_filter, guard))
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
    queue: LogQueue,
) -> (BoxedLayer, reload::Handle<EnvFilter, Registry>) {
    let (parsed, handle) = reload::Layer::new(filter);
    let terminal = io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt::layer().with_writer(move || queue.clone());
    let json = match format {
        LogFormat::Auto => !terminal,
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let layer = if json {
        let inner = Format::default().json().flatten_event(true).with_current_span(false);
        let lines = lines.fmt_fields(JsonFields::new());
        lines.event_format(WithNode { node, inner, json }).with_filter(parsed).boxed()
    } else {
        let inner = Format::default();
        let lines = lines.with_ansi(terminal).event_format(WithNode { node, inner, json });
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

/// Formats a text line, e.g. `node=1 2026-.. INFO ..`, or a JSON line, e.g. `{"node":1,"timestamp":..}`.
struct WithNode<F> {
    node: NodeId,
    inner: F,
    json: bool,
}

impl<S, N, F> FormatEvent<S, N> for WithNode<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if !self.json {
            write!(writer, "node={} ", self.node)?;
            return self.inner.format_event(context, writer, event);
        }
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
        let queue = LogQueue::start(io::sink(), report_dropped).unwrap();
        let (lines, _handle) =
            log_lines(NodeId(1), parse_filter("debug").unwrap(), LogFormat::Json, queue);
        let registry = tracing_subscriber::registry().with(layers(lines, None));
        tracing::subscriber::with_default(registry, || {
            assert!(holdfast_trace::span!("commit").is_disabled());
            assert!(!tracing::debug_span!("http").is_disabled());
        });
    }

    /// Takes bytes while its lock is free.
    struct Reader(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Reader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_does_not_read_delays_no_log_line() {
        let read = Arc::<Mutex<Vec<u8>>>::default();
        let mut queue = LogQueue::start(Reader(read.clone()), |_| {}).unwrap();
        let reads_nothing = read.lock();
        for _ in 0..2 * LINES_MAX {
            io::Write::write_all(&mut queue, b"x").unwrap();
        }
        let LineCounts { unwritten, dropped } = *queue.counts.0.lock();
        assert!((LINES_MAX..=LINES_MAX + 1).contains(&unwritten), "{unwritten}");
        assert_eq!(dropped, u64::try_from(2 * LINES_MAX - unwritten).unwrap());
        drop(reads_nothing);
        while queue.counts.0.lock().unwritten > 0 {
            queue.wait_until_written();
        }
        assert_eq!(read.lock().len(), unwritten);
    }

    #[test]
    fn the_number_of_dropped_lines_is_not_dropped() {
        let (read, slot) =
            (Arc::<Mutex<Vec<u8>>>::default(), Arc::<Mutex<Option<LogQueue>>>::default());
        let reporting = slot.clone();
        let report = move |dropped| {
            let mut queue = reporting.lock().clone().unwrap();
            io::Write::write_all(&mut queue, format!("{dropped} ").as_bytes()).unwrap();
        };
        let mut queue = LogQueue::start(Reader(read.clone()), report).unwrap();
        *slot.lock() = Some(queue.clone());
        let reads_nothing = read.lock();
        for _ in 0..2 * LINES_MAX {
            io::Write::write_all(&mut queue, b"x").unwrap();
        }
        let LineCounts { unwritten, dropped } = *queue.counts.0.lock();
        drop(reads_nothing);
        while queue.counts.0.lock().unwritten > 0 {
            queue.wait_until_written();
        }
        let read = String::from_utf8(read.lock().clone()).unwrap();
        assert_eq!(read.matches('x').count(), unwritten);
        assert_eq!(read.replace('x', ""), format!("{dropped} "));
    }

    #[test]
    fn libraries_are_quiet_unless_named() {
        let quiet = quieted("info");
        assert!(quiet.starts_with("info,openraft=warn,") && quiet.ends_with(",sled=warn"));
        assert_eq!(quieted("info,openraft=debug"), "info,openraft=debug,sled=warn");
        assert!(EnvFilter::builder().parse(quiet).is_ok());
    }
}
