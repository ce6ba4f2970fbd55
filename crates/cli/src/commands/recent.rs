//! `holdfast recent`: the figures of a node in the last 15 minutes, each with a small plot.

use std::time::Duration;

use clap::Args;
use holdfast_api::parameters::member::{LAST, METRIC, RECENT_MAX, STEP};
use holdfast_api::{Query, RecentBody, RecentFigureBody};
use holdfast_client::Call;
use holdfast_types::{RecentMetric, RecentUnit};

use crate::arguments::{ClusterArgs, duration};
use crate::exit::CommandFailure;
use crate::output::{answer_rows, cell, short_time, table};

/// The heights of a value in a plot, from the lowest.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The values of a plot.
const PLOT_VALUES: u64 = 30;

/// Show the figures of one node in the last 15 minutes.
#[derive(Debug, Args)]
#[command(
    after_help = "The node is the first of --addr that answers. Without --step, a plot has 30 values."
)]
pub(crate) struct RecentArgs {
    /// Only this figure, such as grants.
    #[arg(value_parser = metric)]
    metric: Option<RecentMetric>,
    /// How far the values go back, at most 15m.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "15m")]
    last: Duration,
    /// The time between two values: the mean of a rate, the largest of other figures.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    step: Option<Duration>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

fn metric(name: &str) -> Result<RecentMetric, String> {
    let known = RecentMetric::ALL.into_iter().find(|metric| metric.as_str() == name);
    let names = || RecentMetric::ALL.map(RecentMetric::as_str).join(", ");
    known.ok_or_else(|| format!("write one of {}", names()))
}

pub(crate) async fn run(args: RecentArgs) -> Result<(), CommandFailure> {
    let RecentArgs { metric, last, step, cluster } = args;
    let step = step.unwrap_or_else(|| plot_step(last));
    let query = Query::default()
        .with_some(&METRIC, metric.map(RecentMetric::as_str).as_ref())
        .with(&LAST, &last)
        .with(&STEP, &step);
    let call = Call::get(query.target("/v1/recent"));
    let body: RecentBody = cluster.quick_client()?.call(&call).await?;
    let newest = body.figures.iter().map(|figure| cell(newest(figure)));
    answer_rows(cluster.format(), &body, &body.figures, newest, &show(&body));
    Ok(())
}

/// The step with which a plot has [`PLOT_VALUES`] values.
fn plot_step(last: Duration) -> Duration {
    Duration::from_secs(last.min(RECENT_MAX).as_secs().div_ceil(PLOT_VALUES).max(1))
}

fn show(body: &RecentBody) -> String {
    let rows = body.figures.iter().map(|figure| {
        let known = || figure.values.iter().flatten().copied();
        let text = |value: Option<u32>| cell(value.map(|value| value_text(figure.unit, value)));
        let of =
            if figure.of_cluster { "cluster".to_owned() } else { format!("node {}", body.node) };
        [
            figure.metric.as_str().to_owned(),
            of,
            text(newest(figure)),
            text(known().min()),
            text(known().max()),
            plot(&figure.values),
        ]
    });
    table(["figure", "of", "newest", "least", "most", "plot"], rows)
}

fn newest(figure: &RecentFigureBody) -> Option<u32> {
    figure.values.last().copied().flatten()
}

/// `12/s`, `12`, `1m1s`
fn value_text(unit: RecentUnit, value: u32) -> String {
    match unit {
        RecentUnit::PerSecond => format!("{value}/s"),
        RecentUnit::Count => value.to_string(),
        RecentUnit::Milliseconds => short_time(value.into()),
    }
}

/// One character for each value, from zero to the largest; a space where the node has no value.
fn plot(values: &[Option<u32>]) -> String {
    let most = u64::from(values.iter().flatten().copied().max().unwrap_or(0)).max(1);
    let top = HEIGHTS.len() as u64 - 1;
    let height = |value: u32| {
        let height = usize::try_from((u64::from(value) * top).div_ceil(most)).unwrap_or(0);
        HEIGHTS.get(height).copied().unwrap_or('█')
    };
    values.iter().map(|value| value.map_or(' ', height)).collect()
}

#[cfg(test)]
mod tests {
    use holdfast_types::NodeId;

    use super::*;

    #[test]
    fn a_plot_has_one_character_a_value_and_shows_every_value_above_zero() {
        assert_eq!(plot(&[Some(0), None, Some(1), Some(350), Some(700)]), "▁ ▂▅█");
        assert_eq!(plot(&[Some(0), Some(0)]), "▁▁");
        assert_eq!(plot(&[]), "");
    }

    #[test]
    fn a_plot_has_as_many_values_for_every_time() {
        let seconds = |secs| plot_step(Duration::from_secs(secs)).as_secs();
        assert_eq!([900, 60, 10, 10_000].map(seconds), [30, 2, 1, 30]);
    }

    #[test]
    fn a_row_has_the_newest_the_least_and_the_most() {
        let figures = vec![
            RecentFigureBody::new(RecentMetric::Grants, vec![Some(2), None, Some(9), Some(4)]),
            RecentFigureBody::new(RecentMetric::ParkedCalls, vec![Some(1)]),
            RecentFigureBody::new(RecentMetric::WaitP99, vec![Some(61_000), None]),
        ];
        let body = RecentBody { node: NodeId(2), ends_at: None, interval_ms: 1_000, figures };
        let shown = show(&body);
        let lines: Vec<String> = shown
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(lines[1], "grants cluster 4/s 2/s 9/s ▃ █▅");
        assert_eq!(lines[2], "parked_calls node 2 1 1 1 █");
        assert_eq!(lines[3], "wait_p99 cluster - 1m1s 1m1s █");
    }

    #[test]
    fn an_unknown_figure_gets_the_names() {
        assert_eq!(metric("wait_p99"), Ok(RecentMetric::WaitP99));
        assert!(metric("x").unwrap_err().contains("grants, holds_ended"));
    }
}
