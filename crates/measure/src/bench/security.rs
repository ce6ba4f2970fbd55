//! The cost of security: the same load on clusters with and without TLS and access tokens, by turns; also while strangers
//! hold connections to the nodes without a handshake.
//!
//! Each turn starts a new cluster. Every second round goes through the variants in the other order.

use std::time::Duration;

use crate::statistics::Spread;
use clap::Args;
use holdfast_cli::arguments::OutputArgs;
use holdfast_cli::exit::CommandFailure;
use holdfast_cli::output::{answer, table};
use holdfast_tls::TlsConnector;
use serde::Serialize;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::access::Access;
use super::load::{LoadReport, LoadSettings, measure};
use super::processor_time::ALL;
use super::report::{progress_bar, spread_cell};
use super::target::OwnCluster;
use holdfast_cli::dev::{DevTls, Layout, first_administrator};

/// Measure what TLS and access tokens cost.
#[derive(Debug, Args)]
pub(super) struct SecurityArgs {
    #[command(flatten)]
    load: LoadSettings,
    /// The number of nodes.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=5))]
    nodes: u64,
    /// The number of measurements of each variant.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    #[command(flatten)]
    output: OutputArgs,
}

/// What a cluster uses.
#[derive(Clone, Copy, Debug)]
struct Variant {
    name: &'static str,
    tls: DevTls,
    /// Every call has an access token, and the mode of the authorization is `on`.
    tokens: bool,
    /// Connections to the nodes that never send anything. Nodes close them, and they are opened again.
    silent: usize,
}

const VARIANTS: [Variant; 6] = [
    Variant { name: "open", tls: DevTls::None, tokens: false, silent: 0 },
    Variant { name: "TLS between nodes", tls: DevTls::Peers, tokens: false, silent: 0 },
    Variant { name: "TLS for clients", tls: DevTls::Clients, tokens: false, silent: 0 },
    Variant { name: "access tokens", tls: DevTls::None, tokens: true, silent: 0 },
    Variant { name: "all", tls: DevTls::All, tokens: true, silent: 0 },
    Variant { name: "all, 2,000 half-open", tls: DevTls::All, tokens: true, silent: 2_000 },
];

#[derive(Debug, Serialize)]
struct SecurityReport {
    rounds: u32,
    variants: Vec<VariantReport>,
}

#[derive(Debug, Serialize)]
struct VariantReport {
    variant: &'static str,
    cycles_per_second: Spread,
    /// The median divided by that of the first variant.
    ratio: f64,
    p50_ms: Spread,
    p99_ms: Spread,
    /// `None` if it is unknown.
    processor_us_per_cycle: Option<Spread>,
    turns: Vec<LoadReport>,
}

pub(super) async fn run(args: &SecurityArgs) -> Result<(), CommandFailure> {
    let report = rounds(args).await.map_err(CommandFailure::Failed)?;
    let all = report.variants.iter().find(|variant| variant.variant == "all");
    let ratio = all.map_or(f64::NAN, |variant| variant.ratio);
    answer(args.output.format, &report, format!("{ratio:.2}"), &report.text());
    report.variants.iter().flat_map(|variant| &variant.turns).try_for_each(LoadReport::check)
}

async fn rounds(args: &SecurityArgs) -> Result<SecurityReport, String> {
    let bar = progress_bar("measuring by turns", u64::from(args.rounds), " rounds");
    let mut turns: [Vec<LoadReport>; VARIANTS.len()] = Default::default();
    for round in 0..args.rounds {
        let mut order: Vec<_> = VARIANTS.into_iter().zip(&mut turns).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for (variant, turns) in order {
            turns.push(turn(args, variant).await?);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let mut variants = Vec::new();
    let mut base = None;
    for (variant, turns) in VARIANTS.into_iter().zip(turns) {
        let spread = |value: fn(&LoadReport) -> Option<f64>| {
            Spread::of(&turns.iter().filter_map(value).collect::<Vec<_>>())
        };
        let cycles_per_second = spread(|turn| Some(turn.cycles_per_second));
        let (p50, p99) = (spread(|turn| Some(turn.times.p50)), spread(|turn| Some(turn.times.p99)));
        let (Some(cycles_per_second), Some(p50_ms), Some(p99_ms)) = (cycles_per_second, p50, p99)
        else {
            return Err(format!("no measurement of {}", variant.name));
        };
        let base = *base.get_or_insert(cycles_per_second.median);
        variants.push(VariantReport {
            variant: variant.name,
            cycles_per_second,
            ratio: cycles_per_second.median / base,
            p50_ms,
            p99_ms,
            processor_us_per_cycle: spread(|turn| turn.processor_us_per_cycle.get(ALL).copied()),
            turns,
        });
    }
    Ok(SecurityReport { rounds: args.rounds, variants })
}

/// Measures one new cluster.
async fn turn(args: &SecurityArgs, variant: Variant) -> Result<LoadReport, String> {
    let own = OwnCluster::start_as(args.nodes, |layout| layout.with_tls(variant.tls)).await?;
    let layout = own.cluster.layout();
    let report = match access(layout, variant).await {
        Ok(access) => {
            let _silent = open_silent(&layout.endpoints(), variant.silent);
            measure(&args.load, layout.endpoints(), &access).await
        }
        Err(error) => Err(error),
    };
    own.stop().await;
    report.map_err(|error| format!("{}: {error}", variant.name))
}

/// Opens connections that send nothing, and opens each again when its node closes it, until the set is dropped.
fn open_silent(endpoints: &[String], count: usize) -> JoinSet<()> {
    let mut connections = JoinSet::new();
    for endpoint in endpoints.iter().cycle().take(count) {
        let endpoint = endpoint.clone();
        connections.spawn(async move {
            loop {
                if let Ok(mut stream) = TcpStream::connect(&endpoint).await {
                    // The end of the connection is all that matters.
                    drop(stream.read(&mut [0]).await);
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
    }
    connections
}

async fn access(layout: &Layout, variant: Variant) -> Result<Access, String> {
    let ca = layout.security().map(|files| files.ca());
    let tls = ca.as_deref().map(TlsConnector::open).transpose();
    let tls = tls.map_err(|error| error.to_string())?;
    let mut token = None;
    if variant.tokens {
        token = Some(first_administrator(layout).await?);
    }
    Ok(Access { tls, token, ..Access::default() })
}

impl SecurityReport {
    fn text(&self) -> String {
        let rows = self.variants.iter().map(|variant| {
            let processor = variant.processor_us_per_cycle;
            [
                variant.variant.to_owned(),
                spread_cell(variant.cycles_per_second, 0),
                format!("{:.2}", variant.ratio),
                spread_cell(variant.p50_ms, 2),
                spread_cell(variant.p99_ms, 2),
                processor.map_or_else(|| "-".to_owned(), |spread| spread_cell(spread, 0)),
            ]
        });
        let header =
            ["median (range)", "cycles/s", "ratio", "p50 ms", "p99 ms", "processor µs a cycle"];
        table(header, rows)
    }
}
