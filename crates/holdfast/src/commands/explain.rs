//! `holdfast explain`: the meaning of an error code. Sends nothing to the cluster.

use clap::Args;
use holdfast_api::ErrorCode;
use holdfast_cli::arguments::{Format, OutputArgs};
use holdfast_cli::exit::CommandFailure;
use holdfast_cli::output::{answer, answer_rows, table};
use holdfast_service::AlarmKind;
use serde::Serialize;

/// Explain an error code or an alarm: its meaning, whether to retry, and what to do next.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The code, as in a problem document, e.g. lock-busy, or an alarm, e.g. disk-low; by default all codes are listed.
    code: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

/// An error code and its explanation.
#[derive(Debug, Serialize)]
struct ExplainedCode {
    code: ErrorCode,
    retryable: bool,
    title: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<String>,
}

impl ExplainedCode {
    fn short(code: ErrorCode) -> Self {
        let (retryable, title) = (code.retryable(), code.title());
        Self { code, retryable, title, explanation: None }
    }
}

/// # Errors
/// An unknown code, with the most similar one.
pub(crate) fn run(args: &ExplainArgs) -> Result<(), CommandFailure> {
    let Some(code) = &args.code else {
        let rows: Vec<_> = ErrorCode::ALL.iter().copied().map(ExplainedCode::short).collect();
        answer_rows(
            args.output.format,
            &rows,
            &rows,
            rows.iter().map(|row| row.code),
            &list(&rows),
        );
        return Ok(());
    };
    // The `type` of a problem document has this prefix.
    let parsed = code.trim_start_matches("/errors/").parse::<ErrorCode>();
    let alarm = AlarmKind::ALL.into_iter().find(|alarm| alarm.as_str() == code);
    if let (Err(_), Some(alarm)) = (&parsed, alarm) {
        explain_alarm(args.output.format, alarm);
        return Ok(());
    }
    let code = parsed.map_err(|error| {
        CommandFailure::failed(format!("{error} (holdfast explain lists all codes)"))
    })?;
    let text = holdfast_http::explanation(code).trim_end().to_owned();
    let body = ExplainedCode { explanation: Some(text.clone()), ..ExplainedCode::short(code) };
    answer(args.output.format, &body, code.title(), &text);
    Ok(())
}

/// An alarm and what to do.
#[derive(Debug, Serialize)]
struct ExplainedAlarm {
    alarm: &'static str,
    next_step: &'static str,
    docs: String,
}

fn explain_alarm(format: Format, alarm: AlarmKind) {
    let (name, next_step) = (alarm.as_str(), alarm.next_step());
    let docs = format!("docs/operations.md#{name}");
    let text =
        format!("{name} is an alarm. What to do: {next_step}.\nMore: {docs} in the documentation");
    answer(format, &ExplainedAlarm { alarm: name, next_step, docs }, next_step, &text);
}

fn list(rows: &[ExplainedCode]) -> String {
    let row = |row: &ExplainedCode| {
        let retry = if row.retryable { "yes" } else { "no" };
        [row.code.to_string(), retry.to_owned(), row.title.to_owned()]
    };
    table(["code", "retry", "meaning"], rows.iter().map(row))
}
