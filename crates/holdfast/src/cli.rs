//! The command line, with one row for each command. The file of a command has its arguments, its help and its handler.
//!
//! A new command is a function in the file of its noun and a variant of [`CliCommand`]. docs/cli.md shows the commands in use.

use std::process::ExitCode;

use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Error, FromArgMatches as _, Parser, Subcommand};
use holdfast_cli::exit::CommandFailure;
use holdfast_cli::{ClientCommand, block_on, dev, output, terminal_text, without_empty_variables};

use crate::cli_advice::advice;
use crate::commands::{backup, doctor, explain, new_node, recover, restore};
use crate::serve;

/// A self-hosted lock coordinator: locks in one HTTP call, with fencing tokens.
#[derive(Debug, Parser)]
#[command(name = "holdfast", version, about, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

/// The columns of the help on a wide terminal.
const HELP_WIDTH: usize = 100;

/// The commands that most people need: `holdfast help all` shows the others too.
const COMMON: [&str; 20] = [
    "lock", "run", "unlock", "elect", "wait", "ls", "who", "top", "history", "policy", "session",
    "fence", "dev", "serve", "status", "doctor", "member", "certs", "auth", "backup",
];

/// The commands of the help text, by task.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Locks", &["lock", "run", "unlock", "elect", "wait"]),
    ("Inspect", &["ls", "who", "top", "recent", "history", "policy", "session"]),
    ("Fencing", &["fence"]),
    (
        "Run a cluster",
        &[
            "dev",
            "serve",
            "init",
            "status",
            "alarms",
            "doctor",
            "member",
            "join",
            "cluster",
            "certs",
            "auth",
            "namespace",
            "audit",
            "node",
        ],
    ),
    ("Back up and restore", &["backup", "restore", "recover"]),
    ("More primitives", &["tree", "latch", "barrier", "counter", "group"]),
    ("Help", &["explain", "completions", "help"]),
];

/// The command line with its help text.
pub(crate) fn command_line() -> clap::Command {
    command_line_within(help_width(), |name| COMMON.contains(&name))
}

fn help_width() -> usize {
    output::terminal_width().map_or(HELP_WIDTH, |width| HELP_WIDTH.min(width.into()))
}

/// The command line whose help lists the commands for which `lists` is true. clap has no headings for subcommands.
fn command_line_within(width: usize, lists: impl Fn(&str) -> bool) -> clap::Command {
    let command = without_empty_variables(Cli::command().term_width(width));
    let text = grouped_commands(&command, width, lists);
    command
        .help_template(
            "{about-with-newline}\n{usage-heading} {usage}{after-help}\n\nOptions:\n{options}",
        )
        .after_help(text)
}

fn grouped_commands(command: &clap::Command, width: usize, lists: impl Fn(&str) -> bool) -> String {
    let help = "Print the help of a command; 'help all' lists every command";
    let line = |name: &&str| {
        let about = command.find_subcommand(name).and_then(clap::Command::get_about);
        let about = about.map_or(help.to_owned(), ToString::to_string);
        format!("  {name:<11}  {}", wrapped(&about, width, 15))
    };
    let group = |(group, names): (&str, &[&str])| {
        let listed = names.iter().filter(|name| **name == "help" || lists(name));
        let lines: Vec<String> = listed.map(line).collect();
        (!lines.is_empty()).then(|| format!("{group}:\n{}", lines.join("\n")))
    };
    GROUPS.into_iter().filter_map(group).collect::<Vec<_>>().join("\n\n")
}

/// Breaks a text between words, and begins each further line with `indent` spaces, so that no line is wider than `width`.
fn wrapped(text: &str, width: usize, indent: usize) -> String {
    let (mut lines, mut used) = (String::new(), indent);
    for word in text.split(' ') {
        let columns = terminal_text::width(word);
        if used > indent && used + 1 + columns > width {
            lines.push('\n');
            lines.push_str(&" ".repeat(indent));
            used = indent;
        } else if used > indent {
            lines.push(' ');
            used += 1;
        }
        lines += word;
        used += columns;
    }
    lines
}

/// The commands. `holdfast-cli` has those that only talk to a cluster.
#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "a process has one value")]
pub(crate) enum CliCommand {
    Serve(serve::ServeArgs),
    Dev(dev::DevArgs),
    Init(new_node::InitArgs),
    Join(new_node::JoinArgs),
    Explain(explain::ExplainArgs),
    #[command(hide = true)]
    Manual(explain::ManualArgs),
    Completions(explain::CompletionsArgs),
    Backup(backup::BackupArgs),
    Restore(restore::RestoreArgs),
    Recover(recover::RecoverArgs),
    Doctor(doctor::DoctorArgs),
    #[command(flatten)]
    Client(ClientCommand),
}

impl CliCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CommandFailure`] with an exit code of docs/cli.md.
    pub(crate) fn run(self) -> Result<(), CommandFailure> {
        match self {
            Self::Serve(args) => serve::run(&args),
            Self::Dev(args) => dev::run(&args),
            Self::Init(args) => new_node::init(&args),
            Self::Join(args) => new_node::join(&args),
            Self::Explain(args) => explain::explain(&args),
            Self::Manual(args) => {
                explain::manual(&args, without_variable(command_line_within(HELP_WIDTH, |_| true)))
            }
            Self::Completions(args) => explain::completions(&args, &command_line()),
            Self::Backup(args) => block_on(backup::run(args)),
            Self::Restore(args) => block_on(restore::run(args)),
            Self::Recover(args) => block_on(recover::run(args)),
            Self::Doctor(args) => block_on(doctor::run(args)),
            Self::Client(command) => command.run(),
        }
    }
}

/// Parses the arguments of this process.
pub(crate) fn parse_arguments() -> Result<Cli, Error> {
    let matches = if std::env::args_os().skip(1).eq(["help", "all"]) {
        command_line_within(help_width(), |_| true).try_get_matches_from(["holdfast", "--help"])?
    } else {
        command_line().try_get_matches()?
    };
    Cli::from_arg_matches(&matches)
}

/// Prints the help, the version or the usage error of an unparsed command line, and returns the exit code.
pub(crate) fn not_parsed(error: Error) -> ExitCode {
    if error.use_stderr() {
        // An argument may be no UTF-8.
        let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
        let words: Vec<String> = words.collect();
        if let Some(advice) = advice(&error, &words, &command_line()) {
            output::write_stderr(&format!("holdfast: {advice}"));
            return ExitCode::from(2);
        }
        if error.kind() == ErrorKind::InvalidUtf8
            && let Some(argument) = std::env::args_os().find(|argument| argument.to_str().is_none())
        {
            let argument = argument.as_encoded_bytes().escape_ascii();
            output::write_stderr(&format!(
                "holdfast: the argument \"{argument}\" is not valid UTF-8"
            ));
            return ExitCode::from(2);
        }
        let mut error = without_address_variable(error);
        // Only `run` and `elect` take values that begin with a dash, and their help shows how.
        error.remove(ContextKind::Suggested);
        remove_wrong_tips(&mut error, &command_line());
        let code = u8::try_from(error.exit_code()).unwrap_or(2);
        // An error of stderr has no other output channel.
        drop(error.print());
        return ExitCode::from(code);
    }
    output::record_write_error(error.print());
    output::check().map_or_else(|stop| stop.code(), |()| ExitCode::SUCCESS)
}

/// The largest number of typing errors in a command for which another command is suggested.
const TYPING_ERRORS_MAX: usize = 2;

/// Keeps the suggested commands that the help shows and that the caller probably meant. clap suggests more distant ones.
fn remove_wrong_tips(error: &mut Error, command: &clap::Command) {
    let typed = error.get(ContextKind::InvalidSubcommand).map(ToString::to_string);
    let typed = typed.unwrap_or_default();
    let is_meant = |name: &String| {
        let is_hidden = command.find_subcommand(name).is_some_and(clap::Command::is_hide_set);
        !is_hidden && strsim::damerau_levenshtein(&typed, name) <= TYPING_ERRORS_MAX
    };
    if let Some(ContextValue::Strings(mut names)) = error.remove(ContextKind::SuggestedSubcommand) {
        names.retain(is_meant);
        if !names.is_empty() {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(names));
        }
    }
}

/// Returns the error as if `HOLDFAST_ADDR` were not set. clap shows options set by the environment as required in the
/// usage.
fn without_address_variable(error: Error) -> Error {
    without_variable(command_line()).try_get_matches().err().unwrap_or(error)
}

fn without_variable(command: clap::Command) -> clap::Command {
    let unset = |arg: clap::Arg| match arg.get_id().as_str() {
        "addr" => arg.env(Resettable::Reset),
        _ => arg.hide_env_values(true),
    };
    command.mut_args(unset).mut_subcommands(without_variable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: &str) -> Result<CliCommand, String> {
        let words = line.split_whitespace();
        Cli::try_parse_from(words).map(|cli| cli.command).map_err(|error| error.to_string())
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_mistyped_command_gets_a_suggestion() {
        assert!(command("holdfast serv").unwrap_err().contains("serve"));
    }

    #[test]
    fn only_a_shown_command_that_was_probably_meant_is_in_a_tip() {
        let typed =
            [("manula", None), ("benhc", None), ("operator", None), ("sesion", Some("session"))];
        for (typed, tip) in typed {
            let mut error = Cli::try_parse_from(["holdfast", typed]).unwrap_err();
            remove_wrong_tips(&mut error, &command_line());
            let tips = error.get(ContextKind::SuggestedSubcommand).map(ToString::to_string);
            assert_eq!(tips.as_deref(), tip);
        }
    }

    #[test]
    fn the_help_lists_every_command_once_with_its_text() {
        let listed = GROUPS.iter().flat_map(|(_, names)| *names);
        let mut listed: Vec<&str> = listed.copied().filter(|name| *name != "help").collect();
        let command = Cli::command();
        let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
        let mut shown: Vec<&str> = shown.map(clap::Command::get_name).collect();
        listed.sort_unstable();
        shown.sort_unstable();
        assert_eq!(listed, shown);
        let help =
            |lists: fn(&str) -> bool| command_line_within(100, lists).render_help().to_string();
        let (all, first) = (help(|_| true), help(|name| COMMON.contains(&name)));
        for shown in [&all, &first] {
            assert!(shown.contains("\nLocks:\n  lock         Acquire one"), "{shown}");
        }
        let is_in = |help: &str, name: &str| help.contains(&format!("\n  {name} "));
        assert_eq!(listed.iter().find(|name| !is_in(&all, name)), None);
        let in_first: Vec<_> = listed.iter().filter(|name| is_in(&first, name)).collect();
        assert_eq!(in_first.len(), COMMON.len(), "{first}");
    }

    #[test]
    fn the_help_of_every_command_fits_the_terminal() {
        fn check(command: &mut clap::Command, width: usize) {
            let help = command.render_help().to_string();
            // The usage is one line, and a long word has its own line.
            let is_long = |line: &&str| {
                line.chars().count() > width
                    && !line.contains("holdfast ")
                    && line.trim().contains(' ')
            };
            assert_eq!(help.lines().find(is_long), None, "{help}");
            command.get_subcommands_mut().for_each(|command| check(command, width));
        }
        for width in [60, 80, 100] {
            let mut command = command_line_within(width, |_| true);
            command.build();
            check(&mut command, width);
        }
    }

    /// `HOLDFAST_REWRITE=1` rewrites the page.
    #[test]
    fn the_reference_page_has_the_help_of_every_command() {
        const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli-reference.md");
        let page = reference();
        if std::env::var_os("HOLDFAST_REWRITE").is_some() {
            std::fs::write(PATH, &page).unwrap();
        }
        let written = std::fs::read_to_string(PATH).unwrap();
        assert!(page == written, "run this test with HOLDFAST_REWRITE=1, and commit {PATH}");
    }

    fn reference() -> String {
        let mut command = without_variable(command_line_within(HELP_WIDTH, |_| true));
        command.build();
        let about = "# All commands and options\n\nGenerated from the program: the help of every command. \
                     [The command line](cli.md) explains the commands in use.";
        let mut parts = vec![about.to_owned()];
        append_help(&mut parts, &mut command);
        parts.join("\n\n") + "\n"
    }

    fn append_help(parts: &mut Vec<String>, command: &mut clap::Command) {
        let name = command.get_bin_name().unwrap_or("holdfast").to_owned();
        let help = command.render_help().to_string();
        let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
        parts.push(format!("## {name}\n\n```text\n{}\n```", lines.join("\n")));
        let shown =
            |command: &&mut clap::Command| !command.is_hide_set() && command.get_name() != "help";
        command.get_subcommands_mut().filter(shown).for_each(|command| append_help(parts, command));
    }
}
