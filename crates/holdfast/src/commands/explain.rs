//! The commands that explain the program, and send nothing to a cluster.
//!
//! `holdfast explain` has the meaning of an error code or an alarm. `completions` and `manual` print the completion script of a
//! shell and write the manual pages for packages, both generated from the command line.

use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_mangen::Man;
use holdfast_api::ErrorCode;
use holdfast_cli::arguments::{Format, OutputArgs};
use holdfast_cli::exit::CommandFailure;
use holdfast_cli::output::{answer, answer_rows, print, table};
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
pub(crate) fn explain(args: &ExplainArgs) -> Result<(), CommandFailure> {
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
        CommandFailure::usage(format!("{error} (holdfast explain lists all codes)"))
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

/// Print the completion script of a shell.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

#[expect(clippy::unnecessary_wraps, reason = "every command returns a result")]
pub(crate) fn completions(args: &CompletionsArgs, command: &Command) -> Result<(), CommandFailure> {
    print(script_of(args.shell, command).trim_end());
    Ok(())
}

/// The script for the commands that the help shows: `clap_complete` includes hidden ones.
fn script_of(shell: clap_complete::Shell, command: &Command) -> String {
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let mut shown = Command::new("holdfast").args(command.get_arguments()).subcommands(shown);
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut shown, "holdfast", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Write the manual pages of all commands.
#[derive(Debug, Args)]
pub(crate) struct ManualArgs {
    /// The directory, which must exist.
    dir: PathBuf,
}

pub(crate) fn manual(args: &ManualArgs, mut command: Command) -> Result<(), CommandFailure> {
    command.build();
    write(&command, &args.dir)
}

/// Writes the page of a command, and of each of its commands: `holdfast-auth-token.1`.
fn write(command: &Command, dir: &Path) -> Result<(), CommandFailure> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let path = dir.join(format!("{name}.1"));
    let failed = |error| CommandFailure::failed(format!("{}: {error}", path.display()));
    let mut page = Vec::new();
    Man::new(command.clone()).manual("holdfast").render(&mut page).map_err(failed)?;
    std::fs::write(&path, page).map_err(failed)?;
    let shown = |command: &&Command| !command.is_hide_set() && command.get_name() != "help";
    command.get_subcommands().filter(shown).try_for_each(|command| write(command, dir))
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn hidden_commands_are_in_no_completion() {
        let command = Command::new("holdfast")
            .subcommand(Command::new("shown-command"))
            .subcommand(Command::new("hidden-command").hide(true));
        for shell in clap_complete::Shell::value_variants() {
            let script = script_of(*shell, &command);
            assert!(script.contains("shown-command"), "{shell}");
            assert!(!script.contains("hidden-command"), "{shell}");
        }
    }
}
