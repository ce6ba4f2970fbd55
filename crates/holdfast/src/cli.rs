//! The command line, with one row for each command. The file of a command has its arguments, its help and its handler.
//!
//! A new command is a file and a row of `commands!`. docs/cli.md shows the commands in use.

use std::ffi::OsStr;
use std::process::ExitCode;

use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Error, FromArgMatches as _, Parser, Subcommand};

use crate::cli_advice::advice;
use crate::commands::{
    alarms, audit, auth, backup, barrier, certs, cluster, completions, counter, doctor, elect,
    explain, fence, group, history, init, latch, lock, ls, manual, member, namespace, node, policy,
    recover, restore, run, session, status, top, tree, unlock, wait, who,
};
use crate::exit::CommandFailure;
use crate::{bench, dev, serve};
use crate::{columns, output};

/// A self-hosted lock coordinator: locks in one HTTP call, with fencing tokens.
#[derive(Debug, Parser)]
#[command(name = "holdfast", version, about, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The columns of the help on a wide terminal.
const HELP_WIDTH: usize = 100;

/// The commands of the help text, by task.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Locks", &["lock", "run", "unlock", "elect", "wait"]),
    ("Inspect", &["ls", "who", "top", "history", "policy", "session"]),
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

/// The command line with its help text. clap has no headings for subcommands.
pub(crate) fn command_line() -> clap::Command {
    command_line_within(
        output::terminal_width().map_or(HELP_WIDTH, |width| HELP_WIDTH.min(width.into())),
    )
}

fn command_line_within(width: usize) -> clap::Command {
    let command = without_empty_variables(Cli::command().term_width(width));
    let text = grouped_commands(&command, width);
    command
        .help_template(
            "{about-with-newline}\n{usage-heading} {usage}{after-help}\n\nOptions:\n{options}",
        )
        .after_help(text)
}

/// Ignores variables with an empty value: `HOLDFAST_ADDR=` counts as unset.
fn without_empty_variables(command: clap::Command) -> clap::Command {
    let is_empty = |name: &OsStr| std::env::var_os(name).is_some_and(|value| value.is_empty());
    let reset = |arg: clap::Arg| {
        let is_unset = arg.get_env().is_some_and(is_empty);
        if is_unset { arg.env(Resettable::Reset) } else { arg }
    };
    command.mut_args(reset).mut_subcommands(without_empty_variables)
}

fn grouped_commands(command: &clap::Command, width: usize) -> String {
    let line = |name: &&str| {
        let about = command.find_subcommand(name).and_then(clap::Command::get_about);
        let about = about.map_or("Print the help of a command".to_owned(), ToString::to_string);
        format!("  {name:<11}  {}", wrapped(&about, width, 15))
    };
    let lines = |names: &[&str]| names.iter().map(line).collect::<Vec<_>>().join("\n");
    GROUPS.map(|(group, names)| format!("{group}:\n{}", lines(names))).join("\n\n")
}

/// Breaks a text between words, and begins each further line with `indent` spaces, so that no line is wider than `width`.
fn wrapped(text: &str, width: usize, indent: usize) -> String {
    let (mut lines, mut used) = (String::new(), indent);
    for word in text.split(' ') {
        let columns = columns::width(word);
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

/// Defines the enum of the commands and the calls of their handlers. A local command is a function. A cluster command
/// is an asynchronous function on one thread.
macro_rules! commands {
    (
        local { $($(#[$local_attribute:meta])* $local:ident($local_args:ty) => $local_run:expr,)* }
        client { $($(#[$attribute:meta])* $name:ident($args:ty) => $run:expr,)* }
    ) => {
        #[derive(Debug, Subcommand)]
        pub(crate) enum Command {
            $($(#[$local_attribute])* $local($local_args),)*
            $($(#[$attribute])* $name($args),)*
        }

        impl Command {
            /// Runs the command.
            ///
            /// # Errors
            /// [`CommandFailure`] with an exit code of docs/cli.md.
            pub(crate) fn run(self) -> Result<(), CommandFailure> {
                match self {
                    $(Self::$local(args) => $local_run(&args),)*
                    $(Self::$name(args) => block_on($run(args)),)*
                }
            }
        }
    };
}

commands! {
    local {
        Serve(serve::ServeArgs) => serve::run,
        Dev(dev::DevArgs) => dev::run,
        #[command(hide = true)]
        Bench(bench::BenchArgs) => bench::run,
        #[command(subcommand)]
        Certs(certs::CertsCommand) => certs::run,
        Init(init::InitArgs) => init::run,
        Join(member::JoinArgs) => member::join,
        Explain(explain::ExplainArgs) => explain::run,
        #[command(hide = true)]
        Manual(manual::ManualArgs) => |args: &_| manual::run(args, without_variable(command_line_within(HELP_WIDTH))),
        Completions(completions::CompletionsArgs) => |args: &_| completions::run(args, &command_line()),
    }
    client {
        #[command(subcommand)]
        Auth(auth::AuthCommand) => auth::run,
        #[command(subcommand)]
        Audit(audit::AuditCommand) => audit::run,
        #[command(subcommand)]
        Member(member::MemberCommand) => member::run,
        #[command(subcommand)]
        Cluster(cluster::ClusterCommand) => cluster::run,
        #[command(subcommand)]
        Namespace(namespace::NamespaceCommand) => namespace::run,
        #[command(subcommand)]
        Node(node::NodeCommand) => node::run,
        Backup(backup::BackupArgs) => backup::run,
        Restore(restore::RestoreArgs) => restore::run,
        Recover(recover::RecoverArgs) => recover::run,
        Status(status::StatusArgs) => status::run,
        Alarms(alarms::AlarmsArgs) => alarms::run,
        Doctor(doctor::DoctorArgs) => doctor::run,
        #[command(alias = "acquire")]
        Lock(lock::LockArgs) => lock::run,
        Run(run::RunArgs) => run::run,
        Elect(elect::ElectArgs) => elect::run,
        #[command(alias = "release")]
        Unlock(unlock::UnlockArgs) => unlock::run,
        Ls(ls::LsArgs) => ls::run,
        Who(who::WhoArgs) => who::run,
        #[command(subcommand)]
        Fence(fence::FenceCommand) => fence::run,
        Top(top::TopArgs) => top::run,
        History(history::HistoryArgs) => history::run,
        Wait(wait::WaitArgs) => wait::run,
        #[command(subcommand)]
        Tree(tree::TreeCommand) => tree::run,
        #[command(subcommand)]
        Session(session::SessionCommand) => session::run,
        Policy(policy::PolicyArgs) => policy::run,
        #[command(subcommand)]
        Latch(latch::LatchCommand) => latch::run,
        #[command(subcommand)]
        Barrier(barrier::BarrierCommand) => barrier::run,
        #[command(subcommand)]
        Counter(counter::CounterCommand) => counter::run,
        #[command(subcommand)]
        Group(group::GroupCommand) => group::run,
    }
}

/// Runs a mode of this program that only `holdfast run` starts. These modes are no commands of the command line, so no
/// tip and no completion shows them.
pub(crate) fn internal_command() -> Option<Result<(), CommandFailure>> {
    let mut arguments = std::env::args_os();
    let mode = arguments.by_ref().nth(1)?;
    if mode == run::LAUNCHER {
        return Some(Err(run::launch(&arguments.collect::<Vec<_>>())));
    }
    let watchdog = || {
        let command = without_empty_variables(run::WatchdogArgs::command());
        let words = std::iter::once(mode.clone()).chain(arguments);
        let matches = command.try_get_matches_from(words)?;
        run::WatchdogArgs::from_arg_matches(&matches)
    };
    let parsed = (mode == run::WATCHDOG).then(watchdog)?;
    Some(parsed.map_err(CommandFailure::usage).and_then(|args| block_on(run::watchdog(args))))
}

fn block_on(
    command: impl Future<Output = Result<(), CommandFailure>>,
) -> Result<(), CommandFailure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(CommandFailure::failed)?.block_on(command)
}

/// Parses the arguments of this process.
pub(crate) fn parse_arguments() -> Result<Cli, Error> {
    let matches = command_line().try_get_matches()?;
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

/// Parses the arguments of a command of type `T`, for tests: `parse::<LockArgs>("lock a --try")`.
#[cfg(test)]
pub(crate) fn parse<T: clap::FromArgMatches>(line: &str) -> Result<T, String> {
    let words = std::iter::once("holdfast").chain(line.split_whitespace());
    let matches = Cli::command().try_get_matches_from(words).map_err(|error| error.to_string())?;
    let (_, arguments) = matches.subcommand().ok_or("no command")?;
    T::from_arg_matches(arguments).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: &str) -> Result<Command, String> {
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
    fn aliases_of_other_lock_services_work_and_no_internal_command_is_suggested() {
        assert!(matches!(command("holdfast release a --session me"), Ok(Command::Unlock(_))));
        assert!(matches!(command("holdfast acquire a"), Ok(Command::Lock(_))));
        for typed in ["lease", "releas", "least", "watchdog"] {
            let error = command(&format!("holdfast {typed} a")).unwrap_err();
            assert!(!error.contains(run::WATCHDOG), "{error}");
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
        let help = command_line_within(100).render_help().to_string();
        assert!(help.contains("\nLocks:\n  lock         Acquire one"), "{help}");
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
            let mut command = command_line_within(width);
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
        let mut command = without_variable(command_line_within(HELP_WIDTH));
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
