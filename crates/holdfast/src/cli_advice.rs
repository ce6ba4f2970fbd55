//! Advice for a command line that clap rejects: commands and options of other systems, and a missing `--`.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Commands that callers of other systems write, with spaces between, and the command of their intent.
const COMMANDS: &[(&str, &str)] = &[
    ("version", "holdfast --version shows the version"),
    ("list ps locks show-locks", "holdfast ls lists the locks"),
    (
        "get show info inspect describe holder holders queue waiters owner",
        "holdfast who NAME shows the holders and the queue",
    ),
    (
        "kill steal break force force-unlock force-release revoke",
        "for operators: holdfast unlock NAME --force --reason TEXT",
    ),
    ("ask request-release", "holdfast unlock NAME --ask asks the holders to release the lock"),
    (
        "renew refresh extend keepalive heartbeat",
        "holdfast lock NAME and holdfast run NAME -- COMMAND renew by themselves",
    ),
    ("mutex exec flock with", "holdfast run NAME -- COMMAND runs a command under a lock"),
    ("semaphore sem permit permits", "holdfast lock NAME --permits 1/LIMIT acquires a permit"),
    ("rwlock shared read", "holdfast lock NAME --shared acquires a shared hold"),
    (
        "campaign leader-elect election elections candidate",
        "holdfast elect NAME -- COMMAND runs a command while leading",
    ),
    ("leader nodes endpoint", "holdfast status shows the nodes and the leader"),
    ("members peers raft", "holdfast member ls lists the members"),
    ("health ping check ready verify", "holdfast doctor checks each node and the cluster"),
    (
        "start server agent daemon up cluster-start",
        "holdfast dev starts a cluster on this machine, holdfast serve one node",
    ),
    ("stop down shutdown", "stop a node with SIGTERM, and holdfast dev with ^C"),
    ("snapshot dump export save", "holdfast backup --out FILE writes a backup"),
    ("import load", "holdfast restore FILE restores a backup"),
    (
        "kv put set create del rm mkdir",
        "holdfast tree changes the znodes: holdfast tree create, get, set, rm",
    ),
    (
        "events log-of-lock log logs",
        "holdfast history NAME shows the holds of a lock, holdfast node log the log level",
    ),
    (
        "monitor dashboard stats metrics ui",
        "holdfast top shows the busiest locks; nodes serve /metrics",
    ),
    ("token tokens login user role acl", "holdfast auth has the subjects, roles and access tokens"),
    ("lease leases sessions", "holdfast session ls lists the sessions"),
    (
        "init bootstrap",
        "holdfast auth bootstrap adds the first administrator; holdfast dev starts a cluster",
    ),
    (
        "docs man manual",
        "a node serves its documentation at /docs; holdfast help all lists the commands",
    ),
];

/// Options that callers of other systems write, and the option of their intent.
const OPTIONS: &[(&str, &str)] = &[
    ("--json", "-o json"),
    ("--format --out-format", "-o FORMAT"),
    (
        "--host --server --endpoint --endpoints --address --url --http-addr --node --nodes",
        "--addr ADDR[,ADDR]",
    ),
    ("--token --auth-token --api-key --password", "--access-token-file FILE"),
    ("--ca --ca-file --ca-cert --cafile --tls-ca", "--cacert FILE"),
    ("--key --key-file --tls-key", "--cert-key FILE"),
    ("--lease --lease-time --lease-ttl --expire --expiry --session-ttl", "--ttl TIME"),
    (
        "--wait-time --wait-timeout --max-wait --block --acquire-timeout -w --lock-timeout",
        "--wait TIME",
    ),
    ("--nowait --no-wait --nonblock --non-blocking --nb --immediate", "--try"),
    ("--limit --max --max-leases --capacity --count -n --slots", "--permits N/LIMIT"),
    ("--read --reader --read-lock", "--shared"),
    ("--owner --client-id --id --holder --lock-id", "--session SESSION"),
    ("--labels --tag --meta", "--label KEY=VALUE"),
    ("--yes --steal --break", "--force --reason TEXT"),
    ("--message --comment", "--reason TEXT"),
    ("--data --payload --note", "--value TEXT"),
];

/// Words of one intent among the commands of a group: `holdfast member list` means `holdfast member ls`.
const VERBS: [&[&str]; 6] = [
    &["ls", "list"],
    &["rm", "remove", "delete", "del"],
    &["show", "get", "info", "describe", "status", "read"],
    &["new", "create", "add", "make", "incr", "increment", "inc"],
    &["set", "update", "put", "change"],
    &["end", "close", "kill"],
];

/// The advice for an error of clap; `None` if clap's own text is better. `command` is the whole command line.
pub(crate) fn advice(
    error: &clap::Error,
    words: &[String],
    command: &clap::Command,
) -> Option<String> {
    let found = Found::of(words, command);
    if error.kind() == ErrorKind::MissingRequiredArgument {
        return missing_dashes(words).or_else(|| missing_session(words));
    }
    if error.kind() == ErrorKind::InvalidSubcommand {
        let typed = typed(error, ContextKind::InvalidSubcommand)?;
        let right = found.right_command(&typed)?;
        return Some(format!("there is no command '{typed}': {right}"));
    }
    if error.kind() == ErrorKind::UnknownArgument {
        let typed = typed(error, ContextKind::InvalidArg)?;
        let typed = typed.split('=').next().unwrap_or(&typed);
        let right = found.right_option(typed)?;
        return Some(format!("there is no option {typed}: write {right}"));
    }
    None
}

/// The command that the words of a command line name.
struct Found<'c> {
    command: &'c clap::Command,
    /// `holdfast member`.
    path: String,
    is_top: bool,
}

impl<'c> Found<'c> {
    fn of(words: &[String], all: &'c clap::Command) -> Self {
        let mut found = Self { command: all, path: "holdfast".to_owned(), is_top: true };
        for word in words {
            let Some(inner) = found.command.find_subcommand(word) else { break };
            let path = format!("{} {}", found.path, inner.get_name());
            found = Self { command: inner, path, is_top: false };
        }
        found
    }

    fn right_command(&self, typed: &str) -> Option<String> {
        if self.is_top {
            return find(COMMANDS, typed).map(str::to_owned);
        }
        if self.path == "holdfast backup" {
            return Some(
                "write holdfast backup --out FILE, or holdfast backup show FILE".to_owned(),
            );
        }
        let verbs = VERBS.iter().find(|verbs| verbs.contains(&typed))?;
        let right = verbs.iter().find(|verb| self.command.find_subcommand(verb).is_some())?;
        Some(format!("write {} {right}", self.path))
    }

    fn right_option(&self, typed: &str) -> Option<String> {
        if typed == "--prefix" && self.path.ends_with("ls") {
            return Some(format!("{} PREFIX", self.path));
        }
        let right = find(OPTIONS, typed)?;
        let option = right.split([' ', '[']).next().unwrap_or(right).trim_start_matches('-');
        let is_named = |arg: &clap::Arg| {
            arg.get_long() == Some(option)
                || arg.get_short().is_some_and(|short| option == short.to_string())
        };
        self.command.get_arguments().any(is_named).then(|| right.to_owned())
    }
}

fn typed(error: &clap::Error, kind: ContextKind) -> Option<String> {
    if let ContextValue::String(text) = error.get(kind)? { Some(text.clone()) } else { None }
}

fn find(table: &'static [(&str, &str)], typed: &str) -> Option<&'static str> {
    let row = table.iter().find(|(guesses, _)| guesses.split(' ').any(|guess| guess == typed));
    row.map(|(_, right)| *right)
}

/// The advice for an `unlock` that names neither a session nor another way.
fn missing_session(words: &[String]) -> Option<String> {
    let (name, rest) = words.split_first()?;
    let lock = rest.iter().find(|word| !word.starts_with('-'))?;
    let is_unlock = matches!(name.as_str(), "unlock" | "release");
    if is_unlock && rest.iter().any(|word| word == "--force") {
        return Some(format!("add the reason: holdfast unlock {lock} --force --reason TEXT"));
    }
    is_unlock.then(|| {
        format!(
            "name the session of your lock with --session or HOLDFAST_SESSION; to get the lock of another holder: \
             holdfast unlock {lock} --ask, or as operator: holdfast unlock {lock} --force --reason TEXT"
        )
    })
}

/// The advice for `run NAME COMMAND` and `elect NAME COMMAND` without `--` before the command.
fn missing_dashes(words: &[String]) -> Option<String> {
    let (name, rest) = words.split_first()?;
    if !matches!(name.as_str(), "run" | "elect") || rest.iter().any(|word| word == "--") {
        return None;
    }
    let (lock, command) = rest.split_first()?;
    if command.is_empty() || rest.iter().any(|word| word.starts_with('-')) {
        return Some(format!(
            "no command to run: write it after --, for example: holdfast {name} nightly -- ./backup.sh"
        ));
    }
    let command = command.join(" ");
    Some(format!("write -- before the command: holdfast {name} {lock} -- {command}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::command_line;

    fn advice_for(line: &str) -> String {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let all = std::iter::once("holdfast".to_owned()).chain(words.iter().cloned());
        let error = command_line().try_get_matches_from(all).unwrap_err();
        advice(&error, &words, &command_line()).unwrap_or_default()
    }

    #[test]
    fn a_guess_of_a_command_or_an_option_gets_the_right_one() {
        for (line, words) in [
            ("version", "holdfast --version"),
            ("list", "holdfast ls"),
            ("ps", "holdfast ls"),
            ("get orders", "holdfast who NAME"),
            ("kill orders", "unlock NAME --force --reason TEXT"),
            ("renew orders", "renew by themselves"),
            ("semaphore x", "--permits 1/LIMIT"),
            ("members", "holdfast member ls"),
            ("leader", "holdfast status"),
            ("health", "holdfast doctor"),
            ("start", "holdfast dev"),
            ("snapshot", "holdfast backup"),
            ("login", "holdfast auth"),
            ("ls --json", "write -o json"),
            ("who a --format=json", "write -o FORMAT"),
            ("lock a --endpoints x:1", "write --addr"),
            ("lock a --lease 30s", "write --ttl TIME"),
            ("lock a --max-wait 30s", "write --wait TIME"),
            ("lock a --nonblock", "write --try"),
            ("lock a --limit 3", "write --permits N/LIMIT"),
            ("run a --token x -- true", "write --access-token-file"),
            ("lock a --read", "write --shared"),
            ("ls --prefix a", "write holdfast ls PREFIX"),
            ("member list", "write holdfast member ls"),
            ("tree delete /a", "write holdfast tree rm"),
            ("counter incr c", "write holdfast counter add"),
            ("backup today.backup", "--out FILE"),
            ("unlock a", "holdfast unlock a --ask"),
            ("unlock a --force", "holdfast unlock a --force --reason TEXT"),
        ] {
            let found = advice_for(line);
            assert!(found.contains(words), "{line}: {found}");
        }
        // Clap has the nearest name of a mistyped word, and no advice names an option that the command lacks.
        for line in ["lokc a", "lock a --tty", "ls --lease 3s", "explain --limit 3"] {
            assert_eq!(advice_for(line), "", "{line}");
        }
    }

    #[test]
    fn every_advised_command_exists() {
        let command = command_line();
        for (_, text) in COMMANDS {
            let words: Vec<&str> = text.split([' ', ',', ';', ':']).collect();
            for pair in words.windows(2).filter(|pair| pair[0] == "holdfast") {
                let known = pair[1].starts_with("--") || pair[1] == "help";
                assert!(known || command.find_subcommand(pair[1]).is_some(), "{text}");
            }
        }
    }

    #[test]
    fn a_command_without_two_dashes_is_explained() {
        let advice = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            missing_dashes(&words)
        };
        let written = advice("run nightly echo hi").unwrap();
        assert_eq!(written, "write -- before the command: holdfast run nightly -- echo hi");
        assert!(advice("run nightly").unwrap().starts_with("no command to run"));
        assert!(
            advice("elect db --ttl 5s ./serve").unwrap().contains("holdfast elect nightly -- ")
        );
        assert_eq!(advice("run -- true"), None);
        assert_eq!(advice("unlock"), None);
    }
}
