//! Plots as SVG, drawn from numbers. A class of the stylesheet gives each part its colour and its pattern.

use maud::{Markup, html};

/// The width of a plot, in the units of its `viewBox`; the page scales it.
const WIDTH: f64 = 600.0;
/// The height of one row of a timeline.
const ROW: f64 = 18.0;
/// The height of a curve.
const HEIGHT: f64 = 60.0;

/// A bar of a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TimelineBar {
    /// Index of its row, from 0.
    pub(crate) row: usize,
    /// Milliseconds on the axis of the plot.
    pub(crate) begin: u64,
    pub(crate) end: u64,
    /// A class of the stylesheet.
    pub(crate) class: &'static str,
    /// The text for a pointer that rests on the bar.
    pub(crate) title: String,
}

/// Bars in rows, from the time `from` to the time `to`, milliseconds.
pub(crate) fn timeline(
    label: &str,
    rows: usize,
    (from, to): (u64, u64),
    bars: &[TimelineBar],
) -> Markup {
    let x = |ms: u64| scaled(ms.clamp(from, to) - from, to - from);
    let height = ROW * rounded(rows);
    html! {
        svg class="plot" role="img" aria-label=(label) viewBox={ "0 0 " (WIDTH) " " (height) } preserveAspectRatio="none" {
            @for bar in bars {
                @let (left, right) = (x(bar.begin), x(bar.end));
                // A short hold stays visible.
                rect class=(bar.class) x=(two(left)) y=(two(ROW * rounded(bar.row) + 2.0))
                    width=(two((right - left).max(1.5))) height=(two(ROW - 4.0)) {
                    title { (bar.title) }
                }
            }
        }
    }
}

/// A curve of values at equal distances; a missing value is a gap.
pub(crate) fn curve(label: &str, values: &[Option<f64>]) -> Markup {
    let top = values.iter().flatten().fold(0.0_f64, |top, value| top.max(*value));
    let steps = rounded(values.len().saturating_sub(1).max(1));
    let point = |at: usize, value: f64| {
        let y = if top > 0.0 { HEIGHT - value / top * (HEIGHT - 2.0) - 1.0 } else { HEIGHT - 1.0 };
        format!("{},{}", two(WIDTH * rounded(at) / steps), two(y))
    };
    let numbered: Vec<_> = values.iter().copied().enumerate().collect();
    let parts = numbered.split(|(_, value)| value.is_none()).filter(|part| !part.is_empty());
    html! {
        svg class="plot curve" role="img" aria-label=(label) viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" {
            @for part in parts {
                @let points: Vec<String> = part.iter().filter_map(|(at, value)| Some(point(*at, (*value)?))).collect();
                polyline points=(points.join(" ")) {}
            }
        }
    }
}

fn scaled(part: u64, whole: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a pixel needs few digits")]
    let ratio = part as f64 / whole.max(1) as f64;
    ratio * WIDTH
}

fn rounded(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

fn two(value: f64) -> String {
    format!("{value:.2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_stays_within_the_plot_and_a_short_one_is_visible() {
        let bar = |begin, end| TimelineBar {
            row: 1,
            begin,
            end,
            class: "held",
            title: "<4812>".to_owned(),
        };
        let plot = timeline("holds", 2, (1_000, 2_000), &[bar(0, 1_500), bar(1_500, 1_500)]);
        let text = plot.into_string();
        assert!(text.contains(r#"x="0.00" y="20.00" width="300.00" height="14.00""#), "{text}");
        assert!(text.contains(r#"x="300.00" y="20.00" width="1.50""#), "{text}");
        assert!(text.contains("&lt;4812&gt;") && !text.contains("style="), "{text}");
        let empty = timeline("holds", 0, (5, 5), &[bar(5, 5)]).into_string();
        assert!(empty.contains(r#"x="0.00""#), "{empty}");
    }

    #[test]
    fn a_curve_has_a_gap_where_a_value_is_missing() {
        let values = [Some(0.0), Some(10.0), None, Some(5.0), Some(10.0)];
        let text = curve("cycles", &values).into_string();
        assert_eq!(text.matches("<polyline").count(), 2, "{text}");
        assert!(text.contains(r#"points="0.00,59.00 150.00,1.00""#), "{text}");
        assert!(!curve("nothing", &[None, None]).into_string().contains("polyline"));
        assert!(curve("zero", &[Some(0.0)]).into_string().contains("0.00,59.00"));
    }
}
