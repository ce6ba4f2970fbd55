//! Two namespaces on one cluster: how a flood of calls in one changes the times of a single client in the other.
//!
//! Each round measures the single client alone, with the flood, and with a flood whose namespace has the quota
//! `calls_per_second`. The clients of the flood do not wait after a refusal.

use crate::statistics::Spread;
use clap::Args;
use holdfast_api::IssuedTokenBody;
use holdfast_cli::arguments::OutputArgs;
use holdfast_cli::exit::CommandFailure;
use holdfast_cli::output::{answer, table};
use holdfast_client::http::Method;
use holdfast_client::{AccessToken, Call, Client, Copies};
use serde::Serialize;

use super::access::Access;
use super::load::{LoadReport, LoadSettings, LockChoice, measure_times};
use super::report::{progress_bar, spread_cell};
use super::target::OwnCluster;
use holdfast_cli::dev::{Layout, first_administrator};

/// Measure how a flood in one namespace slows another down.
#[derive(Debug, Args)]
pub(super) struct NamespacesArgs {
    /// The number of clients of the flood.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    clients: u32,
    /// The calls per second to one node that the quota of the flood permits.
    #[arg(long, default_value_t = 250, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    calls_per_second: u32,
    /// The measured time of each case, seconds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// The number of measurements of each case.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    #[command(flatten)]
    output: OutputArgs,
}

/// The namespace of the single client, and that of the flood.
const NAMESPACES: [&str; 2] = ["quiet", "flood"];

#[derive(Clone, Copy, Debug)]
enum FloodCase {
    None,
    Unlimited,
    Limited,
}

const CASES: [(&str, FloodCase); 3] = [
    ("alone", FloodCase::None),
    ("with the flood", FloodCase::Unlimited),
    ("with a limited flood", FloodCase::Limited),
];

#[derive(Debug, Serialize)]
struct NamespacesReport {
    rounds: u32,
    cases: Vec<CaseReport>,
}

/// The single client in one case.
#[derive(Debug, Serialize)]
struct CaseReport {
    case: &'static str,
    cycles_per_second: Spread,
    p50_ms: Spread,
    p99_ms: Spread,
    /// The median p99 divided by that of the first case.
    p99_ratio: f64,
    /// Cycles/s of the flood.
    flood_cycles_per_second: Option<Spread>,
}

pub(super) async fn run(args: &NamespacesArgs) -> Result<(), CommandFailure> {
    let own = OwnCluster::start(3).await.map_err(CommandFailure::Failed)?;
    let report = rounds(args, own.cluster.layout()).await;
    own.stop().await;
    let report = report.map_err(CommandFailure::Failed)?;
    let ratio = report.cases.last().map_or(f64::NAN, |case| case.p99_ratio);
    answer(args.output.format, &report, format!("{ratio:.2}"), &report.text());
    Ok(())
}

/// The reports of the single client and of the flood in one turn.
type Turn = (LoadReport, Option<LoadReport>);

async fn rounds(args: &NamespacesArgs, layout: &Layout) -> Result<NamespacesReport, String> {
    let (admin, endpoints) = (administrator(layout).await?, layout.endpoints());
    let [quiet, flood] = NAMESPACES;
    let (one, many) = (access(&admin, quiet).await?, access(&admin, flood).await?);
    let bar = progress_bar("measuring by turns", u64::from(args.rounds), " rounds");
    let mut turns: [Vec<Turn>; CASES.len()] = Default::default();
    for _ in 0..args.rounds {
        for ((_, case), turns) in CASES.into_iter().zip(&mut turns) {
            let quota = match case {
                FloodCase::None | FloodCase::Unlimited => String::new(),
                FloodCase::Limited => format!("?calls_per_second={}", args.calls_per_second),
            };
            put(&admin, &format!("/v1/namespaces/{flood}{quota}")).await?;
            let settings = |clients| LoadSettings::new(clients, args.seconds, LockChoice::Spread);
            let (single, flooding) = (settings(1), settings(args.clients));
            let single = measure_times(&single, endpoints.clone(), &one);
            turns.push(match case {
                FloodCase::None => (single.await?, None),
                FloodCase::Unlimited | FloodCase::Limited => {
                    let flooding = measure_times(&flooding, endpoints.clone(), &many);
                    let (single, flooding) = tokio::join!(single, flooding);
                    (single?, Some(flooding?))
                }
            });
            for report in
                turns.last().iter().flat_map(|(single, flood)| flood.iter().chain([single]))
            {
                report.check().map_err(|failure| failure.to_string())?;
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    NamespacesReport::new(args.rounds, turns)
}

/// Adds the first administrator, which switches the authorization on.
async fn administrator(layout: &Layout) -> Result<Client, String> {
    let token = AccessToken::text(first_administrator(layout).await?);
    let admin = Client::builder(layout.endpoints()).access_token(token).build();
    let admin = admin.map_err(|error| error.to_string())?;
    let role = "/v1/auth/roles/user?permission=lock%20acquire%20*";
    put(&admin, role).await?;
    Ok(admin)
}

/// Registers a namespace with a subject, and returns how its clients reach the nodes.
async fn access(admin: &Client, namespace: &str) -> Result<Access, String> {
    put(admin, &format!("/v1/namespaces/{namespace}")).await?;
    put(admin, &format!("/v1/auth/subjects/{namespace}/bench?role=user")).await?;
    let token = issue(admin, &format!("/v1/auth/tokens?subject={namespace}/bench")).await?;
    Ok(Access { namespace: namespace.to_owned(), token: Some(token), ..Access::default() })
}

async fn issue(client: &Client, target: &str) -> Result<String, String> {
    let call = Call::new(Method::POST, target).copies(Copies::Never);
    let issued = client.call::<IssuedTokenBody>(&call).await;
    Ok(issued.map_err(|error| error.to_string())?.token)
}

async fn put(client: &Client, target: &str) -> Result<(), String> {
    let call = Call::new(Method::PUT, target);
    client.call_raw(&call).await.map(drop).map_err(|error| error.to_string())
}

impl NamespacesReport {
    fn new(rounds: u32, turns: [Vec<Turn>; CASES.len()]) -> Result<Self, String> {
        let mut cases = Vec::new();
        let mut base = None;
        for ((case, _), turns) in CASES.into_iter().zip(turns) {
            let spread = |value: fn(&Turn) -> Option<f64>| {
                Spread::of(&turns.iter().filter_map(value).collect::<Vec<_>>())
            };
            let (p50, p99) =
                (spread(|turn| Some(turn.0.times.p50)), spread(|turn| Some(turn.0.times.p99)));
            let rate = spread(|turn| Some(turn.0.cycles_per_second));
            let (Some(cycles_per_second), Some(p50_ms), Some(p99_ms)) = (rate, p50, p99) else {
                return Err(format!("no measurement {case}"));
            };
            let base = *base.get_or_insert(p99_ms.median);
            let flood = |turn: &Turn| turn.1.as_ref().map(|flood| flood.cycles_per_second);
            cases.push(CaseReport {
                case,
                cycles_per_second,
                p50_ms,
                p99_ms,
                p99_ratio: p99_ms.median / base,
                flood_cycles_per_second: spread(flood),
            });
        }
        Ok(Self { rounds, cases })
    }

    fn text(&self) -> String {
        let rows = self.cases.iter().map(|case| {
            let flood = case.flood_cycles_per_second;
            [
                case.case.to_owned(),
                spread_cell(case.cycles_per_second, 0),
                spread_cell(case.p50_ms, 2),
                spread_cell(case.p99_ms, 2),
                format!("{:.2}", case.p99_ratio),
                flood.map_or_else(|| "-".to_owned(), |spread| spread_cell(spread, 0)),
            ]
        });
        let header = ["median (range)", "cycles/s", "p50 ms", "p99 ms", "ratio", "flood cycles/s"];
        table(header, rows)
    }
}
