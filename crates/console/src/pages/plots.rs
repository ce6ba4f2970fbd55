//! The plots of the overview: the figures of the last 15 minutes that this node remembers.

use holdfast_api::{RecentBody, RecentFigureBody};
use holdfast_types::{RecentMetric, RecentUnit};
use maud::{Markup, html};

use crate::call::ApiResult;
use crate::layout::missing;
use crate::plot::curve;
use crate::request::PageRequest;
use crate::text::grouped;
use crate::time::measured;

/// One value for five seconds.
const TARGET: &str = "/v1/recent?last=15m&step=5s";
/// The values of 15 minutes.
const VALUES: usize = 180;

const PLOTS: [(RecentMetric, &str); 6] = [
    (RecentMetric::Grants, "Grants"),
    (RecentMetric::LocksHeld, "Held locks"),
    (RecentMetric::LockWaiters, "Waiters"),
    (RecentMetric::WaitP50, "Median wait"),
    (RecentMetric::WaitP99, "99th percentile of waits"),
    (RecentMetric::SessionsExpired, "Expired sessions"),
];

pub(super) async fn section(request: &PageRequest) -> Markup {
    let figures: ApiResult<RecentBody> = request.api.read(TARGET).await;
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
    let missing = VALUES.saturating_sub(values.len());
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
