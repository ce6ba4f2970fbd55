//! The command line: what can be typed, and nothing about what it does. docs/cli.md shows it in use.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

mod bench;
mod elect;
mod fence;
mod group;
mod look;
mod recipes;
mod run;
mod sem;
mod tree;
mod usage;

pub(crate) use bench::{
    BenchArgs, BenchCommand, FailoverArgs, LoadArgs, Locks, SessionsArgs, SnapshotsArgs,
    WaitersArgs, ZnodesArgs,
};
pub(crate) use elect::{ElectArgs, ElectCommand, ElectLsArgs, ElectWatchArgs};
pub(crate) use fence::{DrillArgs, FenceCheckArgs, FenceCommand, FenceInitArgs};
pub(crate) use group::{GroupCommand, JoinArgs};
pub(crate) use look::{DoctorArgs, HistoryArgs, LsArgs, LsSort, TopArgs, WaitArgs, WhoArgs};
pub(crate) use recipes::{
    BarrierArgs, CounterCommand, DoubleBarrierCommand, EnterArgs, LatchCommand, LeaveArgs,
    RecipeArgs,
};
pub(crate) use run::{OnLoss, Permits, RunArgs, TakeArgs};
pub(crate) use sem::{Order, RulesArgs, SemCommand, SemSetArgs};
pub(crate) use tree::{CreateArgs, NodeArgs, RmArgs, SetArgs, TreeCommand, TreeLsArgs, WatchArgs};
pub(crate) use usage::not_parsed;

/// A self-hosted lock coordinator: locks in one HTTP call, with fencing tokens.
#[derive(Debug, Parser)]
#[command(name = "holdfast", version, about, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one node of a cluster.
    Serve(ServeArgs),
    /// Start a whole cluster on this machine, for development.
    Dev(DevArgs),
    /// Generate load and measure it.
    Bench(BenchArgs),
    /// Say what an error code means, whether to retry, and what to do next.
    Explain(ExplainArgs),
    /// Print what lets a shell complete this program's commands and options.
    Completions(CompletionsArgs),
    /// Everything that talks to a running cluster.
    #[command(flatten)]
    Client(ClientCommand),
}

/// `holdfast serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The node's TOML file.
    #[arg(long, env = "HOLDFAST_CONFIG", value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Which member this is; overrides `node`.
    #[arg(long, value_name = "ID")]
    pub(crate) node: Option<String>,
    /// Where log, snapshots and identity live; overrides `data_dir`.
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<String>,
    /// Overrides `log.level`.
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log_level: Option<String>,
    /// Overrides `log.format`: auto, text or json.
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<String>,
    /// Overrides any key, for example `--set raft.heartbeat=50ms`.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<(String, String)>,
    /// Found a new cluster without the members that are absent, if a majority is there. For one start of one node of a
    /// cluster that never was; refused by a node that belongs to one.
    #[arg(long)]
    pub(crate) bootstrap: bool,
    /// Stop when stdin ends: the process that started this node is gone.
    #[arg(long, hide = true)]
    pub(crate) exit_with_parent: bool,
}

/// `holdfast dev`.
#[derive(Clone, Debug, Args)]
pub(crate) struct DevArgs {
    /// How many nodes: 1, 3 or 5. The default is what --data holds already, or 3.
    #[arg(long, value_name = "N", value_parser = node_count)]
    pub(crate) nodes: Option<u64>,
    /// Keep the nodes' data here; without it they live in a temporary directory that goes with them.
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Node n serves HTTP on PORT + 10(n-1), its peers on the next port, `ZooKeeper` on the one after.
    #[arg(long, value_name = "PORT", default_value_t = 7400, value_parser = clap::value_parser!(u16).range(1024..))]
    pub(crate) port: u16,
    /// What the nodes log into their node.log.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub(crate) log_level: String,
}

/// The command that `holdfast run` starts beside the user's. No word that a person types is close to it, so that it is
/// never suggested.
pub(crate) const LEASH: &str = "__process-group";

/// A command that talks to a running cluster.
#[derive(Debug, Subcommand)]
pub(crate) enum ClientCommand {
    /// Show the cluster's nodes.
    Status(Target),
    /// Check the nodes one by one and the cluster as a whole; say what is wrong and what to do.
    Doctor(DoctorArgs),
    /// Take a lock, or several at once, print the fencing token, hold it until ^C.
    #[command(alias = "acquire")]
    Lock(LockArgs),
    /// Run a command while holding a lock, or several at once, and stop it before one can be lost.
    Run(RunArgs),
    /// Stand for an election and run a command while leading, or look at elections.
    Elect(ElectArgs),
    /// Kill this process group when what is said on stdin runs out.
    #[command(hide = true, name = LEASH)]
    Leash,
    /// Give a lock back, hand it to another session, or take it from its holders.
    #[command(alias = "release")]
    Unlock(UnlockArgs),
    /// Ask the holders of a lock to give it back.
    Ask(AskArgs),
    /// List the locks that are held or waited for.
    Ls(LsArgs),
    /// Show who holds a lock and who waits for it.
    Who(WhoArgs),
    /// Guard what a lock protects against holders that were away.
    #[command(subcommand)]
    Fence(FenceCommand),
    /// Show the locks that are waited for most; on a terminal again and again, until ^C.
    Top(TopArgs),
    /// Show who held a lock when, with which token, and why it ended.
    History(HistoryArgs),
    /// Wait until a lock is free, or held, without taking it.
    Wait(WaitArgs),
    /// Look at nodes of the tree, and change them.
    #[command(subcommand)]
    Tree(TreeCommand),
    /// Semaphores: locks of several permits.
    #[command(subcommand)]
    Sem(SemCommand),
    /// Show the rules of a lock, or change them for everybody and at once.
    Rules(RulesArgs),
    /// Latches: counted down once for each key, open at zero.
    #[command(subcommand)]
    Latch(LatchCommand),
    /// Arrive at a barrier and wait for the others; print the place in the order of arrival.
    Barrier(BarrierArgs),
    /// Double barriers: members enter together and leave together.
    #[command(subcommand)]
    DoubleBarrier(DoubleBarrierCommand),
    /// Counters of 64 bits that never wrap.
    #[command(subcommand)]
    Counter(CounterCommand),
    /// Groups: who is there, each with something to say.
    #[command(subcommand)]
    Group(GroupCommand),
    /// Print what changes below a prefix of the tree, until ^C.
    Watch(WatchArgs),
}

/// Where to ask, and how to answer.
#[derive(Clone, Debug, Args)]
pub(crate) struct Target {
    /// HTTP addresses of one or more nodes, separated by commas; any node answers for all.
    #[arg(
        long,
        env = "HOLDFAST_ADDR",
        value_name = "ADDR[,ADDR]",
        value_delimiter = ',',
        default_value = "127.0.0.1:7400"
    )]
    pub(crate) addr: Vec<String>,
    /// How to print the answer.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
}

/// How an answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// For programs: one JSON document, as the HTTP API answers it; of `ls` and `group ls` the list of rows.
    Json,
    /// For programs that read line by line: one JSON document to each row or event.
    Jsonl,
    /// The one value that matters, for shell variables.
    Value,
}

/// `holdfast lock`.
#[derive(Debug, Args)]
pub(crate) struct LockArgs {
    /// Which lock, and how.
    #[command(flatten)]
    pub(crate) take: TakeArgs,
    /// Where to ask.
    #[command(flatten)]
    pub(crate) target: Target,
}

/// `holdfast explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The code, as problems and messages name it: lock-busy. Without it, all of them are listed.
    pub(crate) code: Option<String>,
    /// How to print the answer.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
}

/// `holdfast completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// For which shell.
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// `holdfast unlock`.
#[derive(Debug, Args)]
pub(crate) struct UnlockArgs {
    /// The lock.
    pub(crate) name: String,
    /// The session that holds it or waits for it.
    #[arg(long, env = "HOLDFAST_SESSION", required_unless_present = "force")]
    pub(crate) session: Option<String>,
    /// Hand the lock to this session instead, which must be open: it holds it at once, with a new token.
    #[arg(long, value_name = "SESSION", conflicts_with = "force")]
    pub(crate) to: Option<String>,
    /// Take the lock from everybody who holds it, whatever --session says. For operators.
    #[arg(long, requires = "reason")]
    pub(crate) force: bool,
    /// Why: told to those who lose it, and written into the audit trail.
    #[arg(long, value_name = "TEXT", requires = "force")]
    pub(crate) reason: Option<String>,
    /// Where to ask.
    #[command(flatten)]
    pub(crate) target: Target,
}

/// `holdfast ask`.
#[derive(Debug, Args)]
pub(crate) struct AskArgs {
    /// The lock.
    pub(crate) name: String,
    /// Only this session, if it holds the lock.
    #[arg(long)]
    pub(crate) session: Option<String>,
    /// Why, for the holder to see.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// By when the lock is wanted, from now.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30s")]
    pub(crate) deadline: Duration,
    /// Take it away then, if it was not given back.
    #[arg(long)]
    pub(crate) revoke: bool,
    /// Where to ask.
    #[command(flatten)]
    pub(crate) target: Target,
}

fn duration(text: &str) -> Result<Duration, String> {
    holdfast_api::parse_duration(text).map_err(|error| error.to_string())
}

/// `off` is how `holdfast rules` prints a time of zero.
fn duration_or_off(text: &str) -> Result<Duration, String> {
    if text == "off" { Ok(Duration::ZERO) } else { duration(text) }
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        Some(_) | None => Err(format!("{text:?} is no KEY=VALUE")),
    }
}

fn node_count(text: &str) -> Result<u64, String> {
    match text {
        "1" | "3" | "5" => text.parse().map_err(|_| String::new()),
        "2" | "4" => {
            Err(format!("{text} nodes survive no more failures than one less: use 1, 3 or 5"))
        }
        other => Err(format!("{other} is no number of nodes: use 1, 3 or 5")),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Command, String> {
        Cli::try_parse_from(line.split_whitespace())
            .map(|cli| cli.command)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn dev_takes_one_three_or_five_nodes() {
        let Ok(Command::Dev(args)) = parse("holdfast dev --nodes 5 --port 8400") else { panic!() };
        assert_eq!((args.nodes, args.port), (Some(5), 8400));
        assert!(parse("holdfast dev --nodes 4").unwrap_err().contains("use 1, 3 or 5"));
        assert!(parse("holdfast dev --nodes 0").unwrap_err().contains("use 1, 3 or 5"));
    }

    #[test]
    fn several_addresses_are_separated_by_commas() {
        let Ok(Command::Client(ClientCommand::Status(target))) =
            parse("holdfast status --addr a:1,b:2")
        else {
            panic!()
        };
        assert_eq!(target.addr, ["a:1", "b:2"]);
    }

    #[test]
    fn try_and_wait_exclude_each_other() {
        assert!(parse("holdfast lock a --try --wait 1s").is_err());
    }

    #[test]
    fn a_bare_number_of_time_is_refused_with_the_fix() {
        let complaint = parse("holdfast lock a --ttl 30").unwrap_err();
        assert_eq!(complaint.matches("did you mean 30s?").count(), 1, "{complaint}");
    }

    #[test]
    fn labels_are_pairs() {
        let Ok(Command::Client(ClientCommand::Lock(args))) =
            parse("holdfast lock a --label team=shop --label why=x=y")
        else {
            panic!()
        };
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(args.take.label, [pair("team", "shop"), pair("why", "x=y")]);
        assert!(parse("holdfast lock a --label team").unwrap_err().contains("KEY=VALUE"));
    }

    #[test]
    fn a_node_is_of_one_kind() {
        let Ok(Command::Client(ClientCommand::Tree(TreeCommand::Create(args)))) =
            parse("holdfast tree create /a x --ttl 1h --parents --acl world:anyone:r")
        else {
            panic!()
        };
        assert_eq!((args.data.as_str(), args.parents, args.acl.len()), ("x", true, 1));
        assert!(parse("holdfast tree create /a --container --ttl 1h").is_err());
        assert!(parse("holdfast tree set /a").unwrap_err().contains("<DATA>"));
    }

    #[test]
    fn a_wait_is_for_one_of_two_things() {
        let Ok(Command::Client(ClientCommand::Wait(args))) =
            parse("holdfast wait a --free --timeout 1s")
        else {
            panic!()
        };
        assert!(args.free && !args.held && args.timeout == Some(Duration::from_secs(1)));
        assert!(
            parse("holdfast wait a").is_err() && parse("holdfast wait a --free --held").is_err()
        );
    }

    #[test]
    fn unlock_needs_a_session() {
        assert!(parse("holdfast unlock a").unwrap_err().contains("--session"));
    }

    #[test]
    fn bench_measures_load_unless_told_otherwise() {
        let Ok(Command::Bench(args)) = parse("holdfast bench --clients 16 --locks hot") else {
            panic!()
        };
        assert!(args.what.is_none());
        assert_eq!((args.load.clients, args.load.locks), (16, Locks::Hot));
        let Ok(Command::Bench(args)) = parse("holdfast bench failover --rounds 3") else {
            panic!()
        };
        assert!(matches!(args.what, Some(BenchCommand::Failover(FailoverArgs { rounds: 3, .. }))));
    }

    #[test]
    fn a_mistyped_command_gets_a_suggestion() {
        assert!(parse("holdfast serv").unwrap_err().contains("serve"));
    }

    #[test]
    fn the_words_of_other_lock_services_are_taken_and_no_internal_command_is_suggested() {
        let release = parse("holdfast release a --session me");
        assert!(matches!(release, Ok(Command::Client(ClientCommand::Unlock(_)))), "{release:?}");
        let acquire = parse("holdfast acquire a");
        assert!(matches!(acquire, Ok(Command::Client(ClientCommand::Lock(_)))), "{acquire:?}");
        for typed in ["lease", "releas", "least", "leash"] {
            let complaint = parse(&format!("holdfast {typed} a")).unwrap_err();
            assert!(!complaint.contains(LEASH), "{complaint}");
        }
    }

    #[test]
    fn a_rule_of_time_can_be_off() {
        let Ok(Command::Client(ClientCommand::Rules(args))) =
            parse("holdfast rules a --cooldown off --lock-delay 5s")
        else {
            panic!()
        };
        assert_eq!(args.cooldown, Some(Duration::ZERO));
        let complaint = parse("holdfast rules a --cooldown never").unwrap_err();
        assert_eq!(complaint.matches("write whole numbers").count(), 1, "{complaint}");
    }
}
