//! Plots as SVG, drawn by `plotters`: lines and rows of dots over logarithmic axes, and squares of points.
//!
//! The page needs no script, no font and no other file. Colours of text follow the page's style.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::combinators::BindKeyPoints as _;
use plotters::prelude::*;

/// Colours that most readers with colour blindness can distinguish.
const COLOURS: [RGBColor; 10] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x7f, 0x3c, 0x8d),
    RGBColor(0x8c, 0x56, 0x4b),
    RGBColor(0x77, 0x77, 0x77),
    RGBColor(0xb8, 0xa0, 0x00),
];
/// The prefix of holdfast's lines, which are thicker.
const OWN: &str = "holdfast";
const GREY: RGBColor = RGBColor(0x80, 0x80, 0x80);
const FONT: (&str, u32) = ("sans-serif", 13);
const TITLE: (&str, u32) = ("sans-serif", 16);
const WIDTH: u32 = 900;
const LINES_HEIGHT: u32 = 440;
const LEGEND_WIDTH: u32 = 190;
const Y_AXIS_WIDTH: u32 = 75;
const LEGEND_LEFT: i32 = 722;
const LEGEND_TOP: i32 = 45;
const LEGEND_LINE: i32 = 20;
const ROW_HEIGHT: u32 = 24;
const ROW_NAME_WIDTH: u32 = 190;
/// Title and axis of a plot of rows.
const ROWS_FRAME: u32 = 100;

type Area<'s> = DrawingArea<SVGBackend<'s>, Shift>;
type DrawResult = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// A median with its minimum and maximum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PlotPoint {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlotLine {
    pub(super) name: String,
    /// The number of the line's colour, equal in every plot.
    pub(super) colour: usize,
    /// The points, from left to right.
    pub(super) points: Vec<PlotPoint>,
}

/// A row of dots on one axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DotRow {
    pub(super) name: String,
    pub(super) colour: usize,
    pub(super) values: Vec<f64>,
}

fn colour(number: usize) -> RGBColor {
    COLOURS.get(number % COLOURS.len()).copied().unwrap_or(BLACK)
}

/// Escapes text for HTML.
pub(super) fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;")
}

/// Formats a number as a label: 0.01, 1, 1,000.
pub(super) fn label(value: f64) -> String {
    if value >= 1000.0 {
        let whole = format!("{value:.0}");
        let mut grouped = String::new();
        for (at, digit) in whole.chars().enumerate() {
            if at > 0 && (whole.len() - at).is_multiple_of(3) {
                grouped.push(',');
            }
            grouped.push(digit);
        }
        return grouped;
    }
    let text = if value >= 100.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else if value >= 0.1 || value == 0.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    };
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// The whole powers of ten around these values; values of zero or below have no place on the axis.
fn decades(values: impl Iterator<Item = f64>) -> Range<f64> {
    let logs = values.filter(|value| *value > 0.0 && value.is_finite()).map(f64::log10);
    let (from, to) = logs.fold((f64::INFINITY, f64::NEG_INFINITY), |(from, to), log| {
        (from.min(log.floor()), to.max(log.ceil()))
    });
    let (from, to) = if from > to { (0.0, 1.0) } else { (from, to.max(from + 1.0)) };
    10_f64.powf(from)..10_f64.powf(to)
}

/// The title of a plot: the first sentence of the text beside it.
fn short(title: &str) -> &str {
    title.split(['.', ':']).next().unwrap_or(title)
}

/// Draws into a picture of this height. A picture in memory has no failures.
fn picture(height: u32, draw: impl FnOnce(&Area<'_>) -> DrawResult) -> String {
    let mut svg = String::new();
    let drawn = {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        draw(&area).and_then(|()| area.present())
    };
    match drawn {
        Ok(()) => svg,
        Err(error) => format!("<p>{}</p>", escaped(&error.to_string())),
    }
}

/// Draws lines over logarithmic axes, with a bar from minimum to maximum at each point, and a legend.
pub(super) fn lines(title: &str, across: &str, up: &str, lines: &[PlotLine]) -> String {
    let points = || lines.iter().flat_map(|line| &line.points);
    let mut xs: Vec<f64> = points().map(|point| point.x).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let (first, last) = (xs.first().copied().unwrap_or(1.0), xs.last().copied().unwrap_or(10.0));
    let x = (first..last.max(first * 2.0)).log_scale().with_key_points(xs);
    let y = decades(points().flat_map(|point| [point.low, point.high]));
    picture(LINES_HEIGHT, |area| {
        let mut chart = ChartBuilder::on(area)
            .caption(short(title), TITLE)
            .margin_right(LEGEND_WIDTH)
            .x_label_area_size(45)
            .y_label_area_size(Y_AXIS_WIDTH)
            .build_cartesian_2d(x, y.log_scale())?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GREY.mix(0.3))
            .axis_style(GREY)
            .label_style(FONT)
            .x_label_formatter(&|value| label(*value))
            .y_label_formatter(&|value| label(*value))
            .x_desc(across)
            .y_desc(up)
            .draw()?;
        for (number, line) in (0_i32..).zip(lines) {
            let colour = colour(line.colour);
            let style = colour.stroke_width(if line.name.starts_with(OWN) { 4 } else { 2 });
            let medians = line.points.iter().map(|point| (point.x, point.y));
            chart.draw_series(LineSeries::new(medians.clone(), style))?;
            chart.draw_series(medians.map(|at| Circle::new(at, 3, colour.filled())))?;
            let bars = line.points.iter().map(|point| {
                PathElement::new([(point.x, point.low), (point.x, point.high)], colour)
            });
            chart.draw_series(bars)?;
            let y = LEGEND_TOP + LEGEND_LINE * number;
            area.draw(&PathElement::new([(LEGEND_LEFT, y), (LEGEND_LEFT + 24, y)], style))?;
            area.draw(&Text::new(line.name.clone(), (LEGEND_LEFT + 32, y - 6), FONT))?;
        }
        Ok(())
    })
}

/// Draws a row of dots for each system over one logarithmic axis.
pub(super) fn dots(title: &str, across: &str, rows: &[DotRow]) -> String {
    let x = decades(rows.iter().flat_map(|row| row.values.iter().copied()));
    let count = u32::try_from(rows.len()).unwrap_or(u32::MAX);
    picture(ROW_HEIGHT * count + ROWS_FRAME, |area| {
        let mut chart = ChartBuilder::on(area)
            .caption(short(title), TITLE)
            .margin_right(30)
            .x_label_area_size(45)
            .y_label_area_size(ROW_NAME_WIDTH)
            .build_cartesian_2d(x.log_scale(), 0.0..f64::from(count.max(1)))?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GREY.mix(0.3))
            .axis_style(GREY)
            .label_style(FONT)
            .disable_y_mesh()
            .y_labels(0)
            .x_label_formatter(&|value| label(*value))
            .x_desc(across)
            .draw()?;
        for (number, row) in (0_u32..).zip(rows) {
            // The first row is at the top.
            let y = f64::from(count - number) - 0.5;
            let colour = colour(row.colour);
            let at = row.values.iter().map(|value| (*value, y));
            chart.draw_series(LineSeries::new(at.clone(), colour.mix(0.5)))?;
            chart.draw_series(at.map(|at| Circle::new(at, 4, colour.mix(0.7).filled())))?;
            let (_, below) = chart.as_coord_spec().translate(&(1.0, y));
            area.draw(&Text::new(row.name.clone(), (4, below - 6), FONT))?;
        }
        Ok(())
    })
}

/// Draws a square for each order: the position at enqueue (across) against the position at grant (down).
pub(super) fn orders(title: &str, squares: &[(String, &[u32])]) -> String {
    const SIDE: u32 = 170;
    const PER_ROW: usize = 5;
    let rows = squares.len().div_ceil(PER_ROW).max(1);
    let height = u32::try_from(rows).unwrap_or(1) * SIDE + 30;
    picture(height, |area| {
        let below = area.titled(short(title), TITLE)?;
        let cells = below.split_evenly((rows, PER_ROW));
        for (cell, (name, order)) in cells.iter().zip(squares) {
            let count = f64::from(u32::try_from(order.len()).unwrap_or(u32::MAX));
            let mut chart = ChartBuilder::on(cell)
                .caption(name, FONT)
                .margin(6)
                .build_cartesian_2d(0.0..count, 0.0..count)?;
            chart.configure_mesh().disable_mesh().axis_style(GREY).draw()?;
            let dots = (0_u32..).zip(*order).map(|(position, waiter)| {
                let at = (f64::from(*waiter) + 0.5, count - f64::from(position) - 0.5);
                Circle::new(at, 3, colour(0).filled())
            });
            chart.draw_series(dots)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(x: f64, y: f64) -> PlotPoint {
        PlotPoint { x, y, low: y / 2.0, high: y * 2.0 }
    }

    #[test]
    fn labels_have_three_significant_digits() {
        for (value, expected) in [
            (0.0, "0"),
            (0.0123, "0.012"),
            (0.5, "0.5"),
            (1.0, "1"),
            (12.34, "12.3"),
            (100.0, "100"),
            (1234.0, "1,234"),
            (1_000_000.0, "1,000,000"),
        ] {
            assert_eq!(label(value), expected);
        }
    }

    #[test]
    fn an_axis_has_whole_decades_around_its_values() {
        assert_eq!(decades([3.0, 700.0, 0.0].into_iter()), 1.0..1_000.0);
        assert_eq!(decades([5.0].into_iter()), 1.0..10.0);
        assert_eq!(decades(std::iter::empty()), 1.0..10.0);
    }

    #[test]
    fn nothing_to_plot_is_an_empty_plot() {
        for svg in [lines("t", "a", "u", &[]), dots("t", "a", &[]), orders("t", &[])] {
            assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn every_point_and_title_is_there_and_names_are_escaped() {
        let line = PlotLine {
            name: "a<b".to_owned(),
            colour: 12,
            points: vec![point(1.0, 10.0), point(16.0, 20.0)],
        };
        let svg = lines("the title", "a", "u", &[line]);
        assert_eq!(svg.matches("<circle").count(), 2);
        assert!(svg.contains("a&lt;b") && !svg.contains("a<b") && svg.contains("the title"));
        let row = DotRow { name: "r".to_owned(), colour: 0, values: vec![1.0] };
        assert_eq!(dots("t", "a", &[row]).matches("<circle").count(), 1);
        assert_eq!(orders("t", &[("o".to_owned(), &[2, 0, 1])]).matches("<circle").count(), 3);
    }
}
