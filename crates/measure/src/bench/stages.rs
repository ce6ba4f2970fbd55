//! `measure stages`: the instructions of one cycle, an acquire and a release, in each stage alone.
//!
//! A stage of the caller is a loop of cycles in a separate process. callgrind runs it with two numbers of cycles, and the
//! difference is the cost of a cycle without that of the process. The stages of the node are in `node_stages.rs`.
//! Instructions depend neither on the hour nor on other programs.

use std::process::Stdio;
use std::time::Duration;

use clap::{Args, ValueEnum};
use holdfast_cli::arguments::OutputArgs;
use holdfast_cli::exit::CommandFailure;
use holdfast_cli::output::{answer_rows, table};
use holdfast_client::Client;
use serde::Serialize;
use tokio::process::Command;

use super::access::Access;
use super::connection::HttpConnection;
use super::node_stages;
use super::requests::{Requests, run_name};
use super::target::OwnCluster;

/// The cycles of the shorter run, also the warm-up of the longer one.
const CYCLES_FEW: u32 = 200;
const TTL: Duration = Duration::from_mins(10);
/// What valgrind prints before the number of instructions.
const COLLECTED: &str = "Collected : ";

/// Count the instructions of an acquire and a release in each stage alone (needs valgrind).
#[derive(Debug, Args)]
pub struct StagesArgs {
    /// The number of counted cycles.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    cycles: u32,
    /// The time in which a node below callgrind is counted, seconds; 0 leaves its stages out.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(0..=3_600))]
    node_seconds: u64,
    #[command(flatten)]
    output: OutputArgs,
}

/// A stage, as a separate process.
#[derive(Debug, Args)]
pub struct StageArgs {
    stage: MeasuredStage,
    /// The HTTP addresses of the nodes, the leader first.
    #[arg(long, value_delimiter = ',')]
    addr: Vec<String>,
    #[arg(long)]
    cycles: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MeasuredStage {
    /// The calls as bytes over one connection, without an HTTP library.
    BareHttp,
    /// The Rust client.
    RustClient,
}

impl MeasuredStage {
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

#[derive(Debug, Serialize)]
struct StageRow {
    stage: String,
    instructions: u64,
    /// In times of the bare calls.
    ratio: f64,
}

impl StageRow {
    /// `first` has the instructions of the bare calls.
    fn new(stage: String, instructions: u64, first: u64) -> Self {
        let number = crate::statistics::number;
        Self { stage, instructions, ratio: number(instructions) / number(first.max(1)) }
    }
}

/// # Errors
/// [`CommandFailure::Failed`] if valgrind is not installed, or no cluster starts.
pub async fn run(args: &StagesArgs) -> Result<(), CommandFailure> {
    let own = OwnCluster::start(1).await.map_err(CommandFailure::failed)?;
    let rows = rows(args, &own.cluster.layout().endpoints()).await;
    own.stop().await;
    let rows = rows.map_err(CommandFailure::failed)?;
    let cells = rows
        .iter()
        .map(|row| [row.stage.clone(), row.instructions.to_string(), format!("{:.2}", row.ratio)]);
    let text = table(["stage", "instructions a cycle", "ratio"], cells);
    let values = rows.iter().map(|row| row.instructions);
    answer_rows(args.output.format, &rows, &rows, values, &text);
    Ok(())
}

async fn rows(args: &StagesArgs, endpoints: &[String]) -> Result<Vec<StageRow>, String> {
    let mut rows: Vec<StageRow> = Vec::new();
    for stage in MeasuredStage::value_variants() {
        let few = count(*stage, endpoints, CYCLES_FEW).await?;
        let many = count(*stage, endpoints, CYCLES_FEW + args.cycles).await?;
        let instructions = many.saturating_sub(few) / u64::from(args.cycles);
        let first = rows.first().map_or(instructions, |first| first.instructions);
        rows.push(StageRow::new(stage.name(), instructions, first));
    }
    if args.node_seconds > 0 {
        let first = rows.first().map_or(1, |first| first.instructions);
        let node = node_stages::count(args.node_seconds).await?;
        let all = node.iter().map(|(_, instructions)| instructions).sum();
        let node = node.into_iter().map(|(name, cost)| (format!("leader, {name}"), cost));
        let node = [("leader".to_owned(), all)].into_iter().chain(node);
        rows.extend(node.map(|(name, instructions)| StageRow::new(name, instructions, first)));
    }
    Ok(rows)
}

/// Returns the instructions of a process that runs so many cycles.
async fn count(stage: MeasuredStage, endpoints: &[String], cycles: u32) -> Result<u64, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(this);
    command.args(["stage", &stage.name(), "--addr", &endpoints.join(",")]);
    command.args(["--cycles", &cycles.to_string()]).stdin(Stdio::null()).kill_on_drop(true);
    let missing =
        |error| format!("cannot run valgrind, on Debian install the package valgrind: {error}");
    let output = command.output().await.map_err(missing)?;
    let text = String::from_utf8_lossy(&output.stderr);
    let collected = text.lines().find_map(|line| line.split_once(COLLECTED)?.1.trim().parse().ok());
    collected.filter(|_| output.status.success()).ok_or_else(|| format!("{}: {text}", stage.name()))
}

/// Runs the cycles of one stage.
///
/// # Errors
/// The node rejected or did not answer a call.
pub async fn run_stage(args: &StageArgs) -> Result<(), String> {
    match args.stage {
        MeasuredStage::BareHttp => bare_http(args).await,
        MeasuredStage::RustClient => rust_client(args).await.map_err(|error| error.to_string()),
    }
}

async fn bare_http(args: &StageArgs) -> Result<(), String> {
    let endpoint = args.addr.first().ok_or("no address")?;
    let (access, name) = (Access::default(), run_name());
    let requests = Requests::new("stage", &name, TTL, Duration::ZERO);
    let requests = requests.map_err(|error| error.to_string())?;
    let connection = HttpConnection::open(endpoint, &access).await;
    let mut connection = connection.map_err(|error| error.to_string())?;
    for _ in 0..args.cycles {
        for request in [&requests.acquire, &requests.release] {
            let reply = connection.exchange(request).await.map_err(|error| error.to_string())?;
            if !reply.is_success() {
                return Err(format!("status {}", reply.status));
            }
        }
    }
    connection.exchange(&requests.close).await.map(drop).map_err(|error| error.to_string())
}

async fn rust_client(args: &StageArgs) -> Result<(), holdfast_client::Error> {
    let client = Client::builder(&args.addr).ttl(TTL).build();
    let client =
        client.map_err(|error| holdfast_client::Error::InvalidArgument(error.to_string()))?;
    for _ in 0..args.cycles {
        client.lock("stage").try_acquire().await?.release().await?;
    }
    client.close().await
}
