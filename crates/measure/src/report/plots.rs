//! Plots as SVG, drawn by `plotters`: lines and rows of dots over logarithmic axes, and squares of points.
//!
//! Text and axes are black and holdfast has a colour of its own; the page's style replaces both in dark mode.

use plotters::coord::Shift;
use plotters::coord::combinators::{LogCoord, WithKeyPoints};
use plotters::coord::ranged1d::ValueFormatter;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use super::label::label;

/// The prefix of holdfast's names, which are highlighted.
pub(crate) const OWN: &str = "holdfast";
const OWN_COLOUR: RGBColor = RGBColor(0, 114, 178);
/// Colours of the other lines that most readers with colour blindness can distinguish.
const COLOURS: [RGBColor; 5] = [
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(148, 103, 189),
];
const OTHERS: RGBColor = RGBColor(136, 136, 136);

const WIDTH: u32 = 900;
const LEGEND_WIDTH: i32 = 190;
const LINES_HEIGHT: u32 = 400;
const ROW_HEIGHT: u32 = 24;
const ROW_NAME_WIDTH: u32 = 190;
const AXIS_HEIGHT: u32 = 50;
const SQUARE_HEIGHT: u32 = 165;
const SQUARES_PER_ROW: usize = 6;
const CELL_HEIGHT: u32 = 190;
const FONT: (&str, u32) = ("sans-serif", 13);

/// A drawn plot with its title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plot {
    pub(crate) title: String,
    pub(crate) svg: String,
}

/// A median with its minimum and maximum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PlotPoint {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// The points of one system, from left to right.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlotLine {
    pub(crate) name: String,
    pub(crate) points: Vec<PlotPoint>,
}

/// A row of dots on one axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DotRow {
    pub(crate) name: String,
    pub(crate) values: Vec<f64>,
}

type LogAxis = WithKeyPoints<LogCoord<f64>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Draws a plot. A comment with the error replaces a plot that does not fit its area.
fn draw(title: &str, height: u32, draw: impl FnOnce(&Area<'_>) -> Drawn) -> Plot {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
    let drawn = draw(&area).and_then(|()| area.present());
    drop(area);
    if let Err(error) = drawn {
        svg = format!("<!-- not drawn: {error} -->");
    }
    Plot { title: title.to_owned(), svg }
}

fn is_own(name: &str) -> bool {
    name.starts_with(OWN)
}

/// Returns the powers of ten around the positive values, at least two.
fn decades(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let logs: Vec<f64> =
        values.filter(|value| *value > 0.0 && value.is_finite()).map(f64::log10).collect();
    let first = logs.iter().copied().reduce(f64::min).unwrap_or(0.0).floor();
    let last = logs.iter().copied().reduce(f64::max).unwrap_or(1.0).ceil().max(first + 1.0);
    let next = |log: &f64| Some(log + 1.0).filter(|log| *log < last + 0.5);
    std::iter::successors(Some(first), next).map(|log| 10_f64.powf(log)).collect()
}

/// Returns a logarithmic axis over these ticks, which are in order.
fn log_axis(ticks: Vec<f64>) -> LogAxis {
    let first = ticks.first().copied().unwrap_or(1.0);
    let last = ticks.last().copied().unwrap_or(1.0).max(first * 2.0);
    (first..last).log_scale().with_key_points(ticks)
}

/// Draws at most six lines over logarithmic axes, with a bar from minimum to maximum at each point, and a legend.
pub(crate) fn lines(title: &str, across: &str, up: &str, lines: &[PlotLine]) -> Plot {
    draw(title, LINES_HEIGHT, |root| {
        let (area, legend) = root.split_horizontally(WIDTH.cast_signed() - LEGEND_WIDTH);
        draw_lines(&area, [across, up], lines)?;
        draw_legend(&legend, lines)
    })
}

/// Draws a row of three small plots for each name, which is the text below their horizontal axes.
pub(crate) fn grid(title: &str, rows: &[(String, [(String, PlotLine); 3])]) -> Plot {
    let count = u32::try_from(rows.len().max(1)).unwrap_or(1);
    draw(title, CELL_HEIGHT * count, |root| {
        let cells = root.split_evenly((rows.len().max(1), 3));
        let plots =
            rows.iter().flat_map(|(across, plots)| plots.iter().map(move |plot| (across, plot)));
        plots.zip(&cells).try_for_each(|((across, (up, line)), cell)| {
            draw_lines(cell, [across, up], std::slice::from_ref(line))
        })
    })
}

/// Draws at most six lines of percentages, with a legend; only the axis across is logarithmic.
pub(crate) fn percentages(title: &str, across: &str, up: &str, lines: &[PlotLine]) -> Plot {
    draw(title, LINES_HEIGHT, |root| {
        let (area, legend) = root.split_horizontally(WIDTH.cast_signed() - LEGEND_WIDTH);
        draw_on(&area, [across, up], lines, RangedCoordf64::from(0.0..100.0), 0.0)?;
        draw_legend(&legend, lines)
    })
}

fn draw_lines(area: &Area<'_>, names: [&str; 2], lines: &[PlotLine]) -> Drawn {
    let points = lines.iter().flat_map(|line| &line.points);
    let y = decades(points.flat_map(|point| [point.low, point.high]));
    let floor = y.first().copied().unwrap_or(1.0);
    draw_on(area, names, lines, log_axis(y), floor)
}

fn draw_on<Y: Ranged<ValueType = f64> + ValueFormatter<f64>>(
    area: &Area<'_>,
    [across, up]: [&str; 2],
    lines: &[PlotLine],
    axis: Y,
    floor: f64,
) -> Drawn {
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(AXIS_HEIGHT)
        .y_label_area_size(70)
        .build_cartesian_2d(log_axis(places(lines)), axis)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .label_style(FONT)
        .x_desc(across)
        .y_desc(up)
        .x_label_formatter(&|value| label(*value))
        .y_label_formatter(&|value| label(*value))
        .draw()?;
    let numbered = lines.iter().zip(styles(lines));
    let (own, others): (Vec<_>, Vec<_>) = numbered.partition(|(line, _)| is_own(&line.name));
    others
        .into_iter()
        .chain(own)
        .try_for_each(|(line, style)| draw_line(&mut chart, line, style, floor))
}

/// Returns each place across, once and in order.
fn places(lines: &[PlotLine]) -> Vec<f64> {
    let points = lines.iter().flat_map(|line| &line.points);
    let mut places: Vec<f64> = points.map(|point| point.x).filter(|x| *x > 0.0).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    places
}

/// Returns a style for each line: holdfast's is thick.
fn styles(lines: &[PlotLine]) -> Vec<ShapeStyle> {
    let mut colours = COLOURS.iter().cycle();
    let mut style = |line: &PlotLine| {
        if is_own(&line.name) {
            return OWN_COLOUR.stroke_width(4);
        }
        colours.next().unwrap_or(&OTHERS).stroke_width(2)
    };
    lines.iter().map(&mut style).collect()
}

fn draw_line<Y: Ranged<ValueType = f64>>(
    chart: &mut ChartContext<'_, SVGBackend<'_>, Cartesian2d<LogAxis, Y>>,
    line: &PlotLine,
    style: ShapeStyle,
    floor: f64,
) -> Drawn {
    let area = chart.plotting_area();
    let medians: Vec<(f64, f64)> = line.points.iter().map(|point| (point.x, point.y)).collect();
    area.draw(&PathElement::new(medians, style))?;
    for PlotPoint { x, y, low, high } in &line.points {
        let spread = vec![(*x, low.max(floor)), (*x, high.max(floor))];
        area.draw(&PathElement::new(spread, style.color.stroke_width(1)))?;
        area.draw(&Circle::new((*x, *y), 4, style.color.filled()))?;
    }
    Ok(())
}

/// Draws the names, in the order of the lines' right ends.
fn draw_legend(area: &Area<'_>, lines: &[PlotLine]) -> Drawn {
    let end = |line: &PlotLine| line.points.last().map_or(0.0, |point| point.y);
    let mut named: Vec<(&PlotLine, ShapeStyle)> = lines.iter().zip(styles(lines)).collect();
    named.sort_by(|(one, _), (other, _)| end(other).total_cmp(&end(one)));
    for (y, (line, style)) in (40..).step_by(22).zip(named) {
        area.draw(&PathElement::new(vec![(0, y), (22, y)], style))?;
        area.draw(&Text::new(line.name.clone(), (30, y - 7), FONT))?;
    }
    Ok(())
}

/// Draws rows of dots on one logarithmic axis; a band highlights holdfast's rows.
pub(crate) fn dots(title: &str, across: &str, rows: &[DotRow]) -> Plot {
    let count = u32::try_from(rows.len()).unwrap_or(0);
    draw(title, ROW_HEIGHT * count + AXIS_HEIGHT + 24, |root| draw_dots(root, across, rows))
}

fn draw_dots(root: &Area<'_>, across: &str, rows: &[DotRow]) -> Drawn {
    let ticks = decades(rows.iter().flat_map(|row| row.values.iter().copied()));
    let ends = ticks.first().copied().zip(ticks.last().copied());
    let (top, middles) = row_middles(rows.len());
    let name = |y: &i32| {
        let row = middles.iter().position(|middle| middle == y).and_then(|at| rows.get(at));
        row.map_or_else(String::new, |row| row.name.clone())
    };
    let mut chart = ChartBuilder::on(root)
        .margin(12)
        .margin_right(36)
        .x_label_area_size(AXIS_HEIGHT)
        .y_label_area_size(ROW_NAME_WIDTH)
        .build_cartesian_2d(log_axis(ticks), (0..top).with_key_points(middles.clone()))?;
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(TRANSPARENT).label_style(FONT).x_desc(across).y_label_formatter(&name);
    mesh.x_label_formatter(&|value| label(*value)).draw()?;
    let (area, rows) = (chart.plotting_area(), rows.iter().zip(&middles));
    for (row, y) in rows {
        if let Some((left, right)) = ends.filter(|_| is_own(&row.name)) {
            let band = [(left, y - 1), (right, y + 1)];
            area.draw(&Rectangle::new(band, OWN_COLOUR.mix(0.15).filled()))?;
        }
        row_of_dots(row, *y).try_for_each(|dot| area.draw(&dot))?;
    }
    Ok(())
}

/// Returns the height of an axis with these rows, and the middle of each row from above. Each row has two units.
fn row_middles(rows: usize) -> (i32, Vec<i32>) {
    let top = i32::try_from(rows.max(1)).unwrap_or(1) * 2;
    (top, (0..top).filter(|y| y % 2 == 1).rev().collect())
}

fn row_of_dots(row: &DotRow, y: i32) -> impl Iterator<Item = Circle<(f64, i32), i32>> {
    let colour = if is_own(&row.name) { OWN_COLOUR } else { OTHERS };
    let values = row.values.iter().filter(|value| **value > 0.0);
    values.map(move |value| Circle::new((*value, y), 4, colour.mix(0.8).filled()))
}

/// Draws a square for each order: the position at enqueue (across) against the position at grant (down).
pub(crate) fn orders(title: &str, squares: &[(String, &[u32])]) -> Plot {
    let rows = squares.len().div_ceil(SQUARES_PER_ROW).max(1);
    let height = SQUARE_HEIGHT * u32::try_from(rows).unwrap_or(1);
    draw(title, height, |root| {
        let areas = root.split_evenly((rows, SQUARES_PER_ROW));
        squares.iter().zip(&areas).try_for_each(|((name, order), area)| square(area, name, order))
    })
}

fn square(area: &Area<'_>, name: &str, order: &[u32]) -> Drawn {
    let side = u32::try_from(order.len().max(1)).unwrap_or(1);
    let chart = ChartBuilder::on(area)
        .margin(8)
        .caption(name, FONT)
        .build_cartesian_2d(0..side, 0..side)?;
    let area = chart.plotting_area();
    area.draw(&Rectangle::new([(0, 0), (side, side)], OTHERS))?;
    let colour = if is_own(name) { OWN_COLOUR } else { OTHERS };
    for (waiter, down) in order.iter().zip((0..side).rev()) {
        area.draw(&Circle::new((*waiter, down), 3, colour.filled()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, ys: &[f64]) -> PlotLine {
        let points = ys.iter().zip([1.0, 16.0, 64.0]);
        let points = points.map(|(y, x)| PlotPoint { x, y: *y, low: y / 2.0, high: y * 2.0 });
        PlotLine { name: name.to_owned(), points: points.collect() }
    }

    #[test]
    fn an_axis_begins_and_ends_at_powers_of_ten() {
        let label_of = |values: &[f64]| {
            decades(values.iter().copied()).into_iter().map(label).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(label_of(&[3.0, 700.0, 0.0, f64::NAN]), "1 10 100 1,000");
        assert_eq!(label_of(&[0.2, 10.0]), "0.1 1 10");
        assert_eq!(label_of(&[10.0]), "10 100");
        assert_eq!(label_of(&[]), "1 10");
    }

    #[test]
    fn nothing_to_plot_is_an_empty_plot() {
        for plot in [lines("t", "a", "u", &[]), dots("t", "a", &[]), orders("t", &[])] {
            assert!(
                plot.svg.starts_with("<svg") && plot.svg.trim_end().ends_with("</svg>"),
                "{plot:?}"
            );
            assert!(!plot.svg.contains("NaN") && !plot.svg.contains("inf"), "{plot:?}");
        }
    }

    #[test]
    fn every_point_is_there_and_names_are_escaped() {
        let plot = lines("Title", "a", "u", &[line("a<b", &[10.0, 0.5])]);
        assert_eq!((plot.title.as_str(), plot.svg.matches("<circle").count()), ("Title", 2));
        assert!(plot.svg.contains("a&lt;b") && !plot.svg.contains("a<b"), "{plot:?}");
        let row = DotRow { name: "r".to_owned(), values: vec![1.0, 0.0] };
        assert_eq!(dots("t", "a", &[row]).svg.matches("<circle").count(), 1, "zero has no place");
        let plot = orders("t", &[("o".to_owned(), &[2, 0, 1])]);
        assert_eq!(plot.svg.matches("<circle").count(), 3);
    }

    #[test]
    fn only_the_line_of_holdfast_is_thick() {
        let lines = [line("etcd-lock", &[1.0]), line("holdfast-http", &[1.0])];
        let widths: Vec<u32> = styles(&lines).iter().map(|style| style.stroke_width).collect();
        assert_eq!(widths, [2, 4]);
    }

    #[test]
    fn the_legend_is_in_the_order_of_the_right_ends() {
        let svg = lines("t", "a", "u", &[line("low", &[9.0, 1.0]), line("high", &[1.0, 9.0])]).svg;
        assert!(svg.find("high") < svg.find("low"), "{svg}");
    }
}
