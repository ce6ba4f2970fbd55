//! The first page: the health of the cluster in one sentence, its alarms, the figures of the last 15 minutes that this node
//! remembers, and the locks with the longest queues and the oldest holders.

use futures_util::FutureExt as _;
use holdfast_api::{
    AlarmsBody, ClusterBody, ContentionBody, LockBody, LocksBody, RecentBody, RecentFigureBody,
};
use holdfast_types::{RecentMetric, RecentUnit};
use maud::{Markup, html};

use super::locks::{first_call, lock_table, oldest_hold, sort_descending};
use crate::call::ApiResult;
use crate::layout::missing;
use crate::page::{ConsolePage, PageContent, PageRequest};
use crate::plot::curve;
use crate::text::{count, grouped, measured, visible};

pub(super) static PAGE: ConsolePage = ConsolePage {
    path: "",
    title: "Overview",
    in_navigation: true,
    render: |request| render(request).boxed(),
};

/// Rows of each table.
const ROWS: usize = 10;
/// The most held locks among which the oldest are found.
const HELD_MAX: usize = 500;

async fn render(request: &PageRequest) -> ApiResult<PageContent> {
    let api = &request.api;
    let cluster: ApiResult<ClusterBody> = api.read("/v1/cluster").await;
    let alarms: ApiResult<AlarmsBody> = api.read("/v1/alarms").await;
    // An update shows what this node has applied.
    let stale = if request.is_update { "&stale" } else { "" };
    let queues = format!("/v1/locks?sort=contention&limit={ROWS}{stale}");
    let contention: ContentionBody = api.read(&queues).await?;
    let held: LocksBody = api.read(&format!("/v1/locks?held&limit={HELD_MAX}{stale}")).await?;
    let revision = held.revision;
    let live = html! {
        @match &cluster {
            Ok(cluster) => (health(cluster)),
            Err(problem) => (missing("the cluster", problem)),
        }
        @match &alarms {
            Ok(alarms) => (alarm_list(alarms)),
            Err(problem) => (missing("the alarms", problem)),
        }
        (plots(request).await)
        (contended(request, contention))
        (oldest(request, held))
    };
    Ok(PageContent {
        title: "Overview".to_owned(),
        live,
        revision: Some(revision),
        ..PageContent::default()
    })
}

/// The health of a cluster in words.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ClusterHealth {
    sentence: String,
    /// `good`, `warning` or `bad`.
    tone: &'static str,
}

impl ClusterHealth {
    fn of(cluster: &ClusterBody) -> Self {
        let voters = cluster.nodes.iter().filter(|node| node.votes);
        let (healthy, all) = voters.fold((0_usize, 0_usize), |(healthy, all), node| {
            (healthy + usize::from(node.healthy), all + 1)
        });
        let majority = all / 2 + 1;
        let survives = healthy.saturating_sub(majority);
        let of_all = format!("{healthy} of {all} voting nodes are healthy");
        let (rest, tone) = match cluster.leader {
            None => ("no node leads, so changes wait".to_owned(), "bad"),
            Some(_) if healthy < majority => ("a majority is missing".to_owned(), "bad"),
            Some(leader) => {
                let more =
                    if survives == 1 { "1 node".to_owned() } else { format!("{survives} nodes") };
                let tone = if healthy == all { "good" } else { "warning" };
                (format!("the cluster survives the loss of {more}; node {leader} leads"), tone)
            }
        };
        Self { sentence: format!("{of_all}; {rest}."), tone }
    }
}

pub(super) fn health(cluster: &ClusterBody) -> Markup {
    let ClusterHealth { sentence, tone } = ClusterHealth::of(cluster);
    let word = match tone {
        "good" => "Healthy",
        "warning" => "Degraded",
        _ => "Down",
    };
    html! {
        p id="health" class={ "health " (tone) } data-tone=(tone) { strong { (word) ": " } (sentence) }
        @if let Some(seal) = &cluster.seal {
            p class="problem" { strong { "Sealed: " } (visible(&seal.reason.to_string())) }
        }
    }
}

fn alarm_list(alarms: &AlarmsBody) -> Markup {
    html! {
        section aria-labelledby="alarms-title" {
            h2 id="alarms-title" { "Alarms" }
            @if alarms.alarms.is_empty() { p id="no-alarms" { "No alarm." } }
            ul class="alarms" {
                @for alarm in &alarms.alarms {
                    li id={ "alarm-" (alarm.name) } data-alarm=(alarm.name) class=(alarm.severity) {
                        p { strong { (alarm.severity) ": " (alarm.name) } " " (visible(&alarm.detail)) }
                        p { "Next step: " (visible(&alarm.hint)) }
                    }
                }
            }
            @if !alarms.unreachable.is_empty() {
                p.quiet { "Without the alarms of "
                    @for (at, node) in alarms.unreachable.iter().enumerate() { @if at > 0 { ", " } "node " (node) }
                    ", which does not answer."
                }
            }
        }
    }
}

fn contended(request: &PageRequest, contention: ContentionBody) -> Markup {
    let locks = contention.locks.into_iter().map(|explained| explained.lock);
    let waiting: Vec<LockBody> = locks.filter(|lock| lock.waiters > 0).collect();
    html! {
        section id="queues" aria-labelledby="queues-title" {
            h2 id="queues-title" { "Longest queues" }
            @if waiting.is_empty() { p { "No caller waits." } } @else { (lock_table("queue", &waiting, request.now)) }
        }
    }
}

fn oldest(request: &PageRequest, held: LocksBody) -> Markup {
    let is_cut = held.next_page_token.is_some();
    let mut locks = held.locks;
    let number = locks.len() as u64;
    sort_descending(&mut locks, oldest_hold);
    locks.truncate(ROWS);
    html! {
        section id="holders" aria-labelledby="holders-title" {
            h2 id="holders-title" { "Oldest holders" }
            @if locks.is_empty() {
                p { "No lock is held." }
                (first_call(request))
            } @else {
                p.quiet { @if is_cut { "Of the first " (count(number, "held lock")) ", by name." } @else { (count(number, "held lock")) "." } }
                (lock_table("hold", &locks, request.now))
            }
        }
    }
}

/// One value for five seconds.
const FIGURES: &str = "/v1/recent?last=15m&step=5s";
/// The values of 15 minutes.
const PLOT_VALUES: usize = 180;

const PLOTS: [(RecentMetric, &str); 6] = [
    (RecentMetric::Grants, "Grants"),
    (RecentMetric::LocksHeld, "Held locks"),
    (RecentMetric::LockWaiters, "Waiters"),
    (RecentMetric::WaitP50, "Median wait"),
    (RecentMetric::WaitP99, "99th percentile of waits"),
    (RecentMetric::SessionsExpired, "Expired sessions"),
];

async fn plots(request: &PageRequest) -> Markup {
    let figures: ApiResult<RecentBody> = request.api.read(FIGURES).await;
    html! {
        section id="plots" aria-labelledby="plots-title" {
            h2 id="plots-title" { "The last 15 minutes" }
            @match &figures {
                Ok(body) => div class="cards" { @for (metric, title) in PLOTS { (plot(body, metric, title)) } },
                Err(problem) => (missing("the figures", problem)),
            }
        }
    }
}

fn plot(body: &RecentBody, metric: RecentMetric, title: &str) -> Markup {
    let Some(figure) = body.figures.iter().find(|figure| figure.metric == metric) else {
        return html! {};
    };
    let RecentFigureBody { unit, values, .. } = figure;
    let most = values.iter().flatten().copied().max();
    let newest = values.iter().rev().find_map(|value| *value);
    // A node that started later has nothing on the left.
    let missing = PLOT_VALUES.saturating_sub(values.len());
    let points: Vec<_> = std::iter::repeat_n(None, missing)
        .chain(values.iter().map(|value| value.map(f64::from)))
        .collect();
    let text = |value: Option<u32>| {
        value.map_or_else(|| "none".to_owned(), |value| in_words(*unit, value))
    };
    let label =
        format!("{title} in the last 15 minutes: newest {}, most {}", text(newest), text(most));
    html! {
        article id={ "plot-" (metric.as_str()) } data-newest=[newest] data-most=[most] {
            p { strong { (title) } " " (text(newest)) span.quiet { ", most " (text(most)) } }
            (curve(&label, &points))
        }
    }
}

fn in_words(unit: RecentUnit, value: u32) -> String {
    match unit {
        RecentUnit::PerSecond => format!("{} a second", grouped(value.into())),
        RecentUnit::Count => grouped(value.into()),
        RecentUnit::Milliseconds => measured(value.into()),
    }
}

#[cfg(test)]
mod tests {
    use holdfast_types::NodeId;

    use super::*;

    fn cluster(leader: &str, healthy: [bool; 3]) -> ClusterBody {
        let node = |(at, healthy): (usize, bool)| {
            format!(
                r#"{{"id":{},"role":"follower","votes":true,"http":"h:1","peer":"h:2","zookeeper":"h:3","applied_revision":1,"healthy":{healthy}}}"#,
                at + 1
            )
        };
        let nodes: Vec<String> = healthy.into_iter().enumerate().map(node).collect();
        let text = format!(
            r#"{{"cluster":"c","cluster_id":null,"level":1,"term":1,"leader":{leader},"nodes":[{}]}}"#,
            nodes.join(",")
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn the_health_is_one_sentence() {
        let of = |leader, healthy| {
            let ClusterHealth { sentence, tone } = ClusterHealth::of(&cluster(leader, healthy));
            (sentence, tone)
        };
        let (sentence, tone) = of("2", [true; 3]);
        let expected = "3 of 3 voting nodes are healthy; the cluster survives the loss of 1 node; node 2 leads.";
        assert_eq!((sentence.as_str(), tone), (expected, "good"));
        let (sentence, tone) = of("2", [true, true, false]);
        assert!(sentence.contains("2 of 3") && sentence.contains("loss of 0 nodes"), "{sentence}");
        assert_eq!(tone, "warning");
        assert_eq!(of("2", [true, false, false]).1, "bad");
        let (sentence, tone) = of("null", [true; 3]);
        assert!(sentence.contains("no node leads") && tone == "bad", "{sentence}");
    }

    #[test]
    fn a_plot_names_its_newest_and_its_largest_value_and_begins_on_the_right() {
        let values = vec![Some(3), Some(1_200), None];
        let figures = vec![RecentFigureBody::new(RecentMetric::WaitP99, values)];
        let body = RecentBody { node: NodeId(1), ends_at: None, interval_ms: 5_000, figures };
        let text = plot(&body, RecentMetric::WaitP99, "Waits").into_string();
        assert!(text.contains("newest 1200 ms, most 1200 ms"), "{text}");
        assert!(text.contains(r#"data-newest="1200" data-most="1200""#), "{text}");
        assert_eq!(text.matches("<polyline").count(), 1, "{text}");
        let first = 600.0 / 179.0 * 177.0;
        assert!(text.contains(&format!("points=\"{first:.2},")), "{text}");
        assert_eq!(plot(&body, RecentMetric::Grants, "Grants").into_string(), "");
    }
}
