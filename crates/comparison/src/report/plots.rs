//! Plots as SVG: lines and rows of dots over logarithmic axes, and squares of points.
//!
//! This module replaces a plot library, because every point shows its value under the pointer, which SVG libraries do
//! not offer. The page needs no script, no font and no other file.

/// Colours that most readers with colour blindness can distinguish.
const COLOURS: [&str; 10] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f3c8d", "#8c564b",
    "#555555", "#b8a000",
];

/// The prefix of holdfast's lines, which are thicker.
const OWN: &str = "holdfast";
const WIDTH: f64 = 900.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 220.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
const LINES_HEIGHT: f64 = 420.0;
const ROW_HEIGHT: f64 = 24.0;
const ROW_NAME_WIDTH: f64 = 200.0;
const LEGEND_HEIGHT: f64 = 18.0;

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
    /// The values, each with its text under the pointer.
    pub(super) values: Vec<(f64, String)>,
}

fn colour(number: usize) -> &'static str {
    COLOURS.get(number % COLOURS.len()).copied().unwrap_or("#000000")
}

/// Returns the dashes of a line; the second ten lines are dashed.
fn dashes(number: usize) -> &'static str {
    if (number / COLOURS.len()).is_multiple_of(2) { "" } else { " stroke-dasharray=\"6 4\"" }
}

/// Escapes text for HTML and SVG.
pub(super) fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;")
}

/// A logarithmic axis over whole powers of ten.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Axis {
    from: f64,
    to: f64,
    at: f64,
    length: f64,
}

impl Axis {
    /// Creates an axis over these values, without values of zero or below.
    fn over(values: impl Iterator<Item = f64>, at: f64, length: f64) -> Self {
        let (mut from, mut to) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| *value > 0.0 && value.is_finite()) {
            from = from.min(value.log10().floor());
            to = to.max(value.log10().ceil());
        }
        if from > to {
            (from, to) = (0.0, 1.0);
        }
        if to - from < 1.0 {
            to = from + 1.0;
        }
        Self { from, to, at, length }
    }

    /// Creates an axis from the first to the last of these values.
    fn between(values: &[f64], at: f64, length: f64) -> Self {
        let log =
            |value: Option<&f64>| value.filter(|value| **value > 0.0).map(|value| value.log10());
        let (from, to) = (log(values.first()).unwrap_or(0.0), log(values.last()).unwrap_or(1.0));
        Self { from, to: if to > from { to } else { from + 1.0 }, at, length }
    }

    /// Returns the position of a value; the start of the axis for a value below it.
    fn position(&self, value: f64) -> f64 {
        let log = if value > 0.0 { value.log10() } else { self.from };
        self.at + (log.clamp(self.from, self.to) - self.from) / (self.to - self.from) * self.length
    }

    /// Returns the powers of ten on the axis.
    fn ticks(&self) -> Vec<f64> {
        let mut ticks = Vec::new();
        let mut log = self.from;
        while log <= self.to + 0.5 {
            ticks.push(10_f64.powf(log));
            log += 1.0;
        }
        ticks
    }
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

/// A picture, drawn element by element.
struct Svg(String);

impl Svg {
    fn new(height: f64, title: &str) -> Self {
        let title = escaped(title);
        Self(format!(
            "<svg viewBox=\"0 0 {WIDTH:.0} {height:.0}\" role=\"img\" aria-label=\"{title}\">"
        ))
    }

    fn finish(mut self) -> String {
        self.0.push_str("</svg>");
        self.0
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // A write to a `String` cannot fail.
        let _infallible = std::fmt::Write::write_fmt(&mut self.0, element);
    }

    fn line(&mut self, style: &str, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2]) {
        self.add(format_args!(
            "<line {style} x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        ));
    }

    /// `anchor` is `start`, `middle` or `end`.
    fn text(&mut self, anchor: &str, [x, y]: [f64; 2], text: &str) {
        let text = escaped(text);
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    /// The title, above the picture.
    fn title(&mut self, text: &str) {
        let text = escaped(text);
        self.add(format_args!("<text class=\"title\" x=\"4\" y=\"13\">{text}</text>"));
    }

    fn dot(&mut self, colour: &str, [x, y]: [f64; 2], under_pointer: &str) {
        let title = escaped(under_pointer);
        self.add(format_args!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\" fill-opacity=\"0.7\"><title>{title}</title></circle>"
        ));
    }

    /// Draws a vertical line of the grid with its label below.
    fn x_tick(&mut self, x: f64, bottom: f64, value: f64) {
        self.line("class=\"grid\"", [x, TOP], [x, bottom]);
        self.text("middle", [x, bottom + 18.0], &label(value));
    }
}

/// Draws lines over logarithmic axes, with a bar from minimum to maximum at each point, and a legend.
pub(super) fn lines(title: &str, across: &str, up: &str, lines: &[PlotLine]) -> String {
    let points = || lines.iter().flat_map(|line| &line.points);
    let (width, bottom) = (WIDTH - LEFT - RIGHT, LINES_HEIGHT - BOTTOM);
    let mut xs: Vec<f64> = points().map(|point| point.x).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let x = Axis::between(&xs, LEFT, width);
    let y = Axis::over(points().flat_map(|point| [point.low, point.high]), 0.0, bottom - TOP);
    let y_at = |value: f64| bottom - y.position(value);
    let legend_height = 2.0 * TOP + LEGEND_HEIGHT * count(lines.len());
    let mut svg = Svg::new(LINES_HEIGHT.max(legend_height), title);
    for tick in y.ticks() {
        let at = y_at(tick);
        svg.line("class=\"grid\"", [LEFT, at], [LEFT + width, at]);
        svg.text("end", [LEFT - 8.0, at + 4.0], &label(tick));
    }
    for tick in &xs {
        svg.x_tick(x.position(*tick), bottom, *tick);
    }
    svg.text("middle", [LEFT + width / 2.0, LINES_HEIGHT - 10.0], across);
    svg.title(title);
    svg.text("start", [4.0, 28.0], up);
    for (number, line) in lines.iter().enumerate() {
        let (colour, dashes) = (colour(line.colour), dashes(line.colour));
        let stroke = if line.name.starts_with(OWN) { 4 } else { 2 };
        let thick = format!("stroke=\"{colour}\" stroke-width=\"{stroke}\"{dashes}");
        for pair in line.points.windows(2) {
            let [from, to] = [0, 1].map(|at| [x.position(pair[at].x), y_at(pair[at].y)]);
            svg.line(&thick, from, to);
        }
        for PlotPoint { x: across, y: up, low, high } in &line.points {
            let at = x.position(*across);
            svg.line(&format!("stroke=\"{colour}\""), [at, y_at(*low)], [at, y_at(*high)]);
            let value = format!("{}: {} at {}", line.name, label(*up), label(*across));
            svg.dot(colour, [at, y_at(*up)], &value);
        }
        let (at, down) = (LEFT + width + 16.0, TOP + 10.0 + LEGEND_HEIGHT * count(number));
        svg.line(&thick, [at, down], [at + 24.0, down]);
        svg.text("start", [at + 30.0, down + 4.0], &line.name);
    }
    svg.finish()
}

/// Draws rows of dots on one logarithmic axis.
pub(super) fn dots(title: &str, across: &str, rows: &[DotRow]) -> String {
    let bottom = TOP + ROW_HEIGHT * count(rows.len());
    let values = rows.iter().flat_map(|row| row.values.iter().map(|(value, _)| *value));
    let x = Axis::over(values, ROW_NAME_WIDTH, WIDTH - ROW_NAME_WIDTH - 40.0);
    let mut svg = Svg::new(bottom + BOTTOM, title);
    svg.title(title);
    for tick in x.ticks() {
        svg.x_tick(x.position(tick), bottom, tick);
    }
    svg.text("middle", [WIDTH / 2.0, bottom + BOTTOM - 8.0], across);
    for (number, row) in rows.iter().enumerate() {
        let (y, colour) = (TOP + ROW_HEIGHT * (count(number) + 0.5), colour(row.colour));
        svg.text("end", [ROW_NAME_WIDTH - 10.0, y + 4.0], &row.name);
        let at = || row.values.iter().map(|(value, _)| x.position(*value));
        if let Some((from, to)) = at().reduce(f64::min).zip(at().reduce(f64::max)) {
            svg.line(&format!("stroke=\"{colour}\""), [from, y], [to, y]);
        }
        for (value, text) in &row.values {
            svg.dot(colour, [x.position(*value), y], text);
        }
    }
    svg.finish()
}

/// Draws a square for each order: the position at enqueue (across) against the position at grant (down).
pub(super) fn orders(title: &str, squares: &[(String, &[u32])]) -> String {
    const SIDE: f64 = 130.0;
    const GAP: f64 = 20.0;
    const PER_ROW: usize = 6;
    let rows = count(squares.len().div_ceil(PER_ROW));
    let mut svg = Svg::new(rows * (SIDE + 2.0 * GAP) + GAP, title);
    svg.title(title);
    for (number, (name, order)) in squares.iter().enumerate() {
        let left = count(number % PER_ROW) * (SIDE + GAP) + 4.0;
        let top = count(number / PER_ROW) * (SIDE + 2.0 * GAP) + 1.5 * GAP;
        let step = SIDE / count(order.len().max(1));
        svg.text("start", [left, top - 6.0], name);
        let [right, bottom] = [left + SIDE, top + SIDE];
        for [from, to] in [
            [[left, top], [right, top]],
            [[left, bottom], [right, bottom]],
            [[left, top], [left, bottom]],
            [[right, top], [right, bottom]],
        ] {
            svg.line("class=\"grid\"", from, to);
        }
        for (position, waiter) in order.iter().enumerate() {
            let x = left + (f64::from(*waiter) + 0.5) * step;
            let y = top + (count(position) + 0.5) * step;
            svg.dot(colour(0), [x, y], &format!("waiter {waiter}, granted as number {position}"));
        }
    }
    svg.finish()
}

fn count(of: usize) -> f64 {
    f64::from(u32::try_from(of).unwrap_or(u32::MAX))
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
    fn a_greater_value_has_a_greater_position() {
        let axis = Axis::over([3.0, 700.0].into_iter(), 10.0, 100.0);
        assert_eq!((axis.from, axis.to), (0.0, 3.0));
        assert!(
            (axis.position(1.0) - 10.0).abs() < 1e-9
                && (axis.position(1000.0) - 110.0).abs() < 1e-9
        );
        assert!(
            axis.position(0.0) <= axis.position(3.0) && axis.position(3.0) < axis.position(700.0)
        );
        assert_eq!(axis.ticks().len(), 4);
    }

    #[test]
    fn a_legend_longer_than_the_plot_makes_the_picture_longer() {
        let line = |colour: usize| PlotLine {
            name: colour.to_string(),
            colour,
            points: vec![point(1.0, 1.0)],
        };
        let height = |count: usize| {
            let svg = lines("t", "a", "u", &(0..count).map(line).collect::<Vec<_>>());
            svg.split('"').nth(1).unwrap().rsplit(' ').next().unwrap().parse::<f64>().unwrap()
        };
        assert!(height(3) < height(40) && height(40) > 40.0 * LEGEND_HEIGHT);
    }

    #[test]
    fn nothing_to_plot_is_an_empty_plot() {
        for svg in [lines("t", "a", "u", &[]), dots("t", "a", &[]), orders("t", &[])] {
            assert!(svg.starts_with("<svg") && svg.ends_with("</svg>"), "{svg}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn every_point_is_there_and_names_are_escaped() {
        let line = PlotLine {
            name: "a<b".to_owned(),
            colour: 12,
            points: vec![point(1.0, 10.0), point(16.0, 0.0)],
        };
        let svg = lines("t", "a", "u", &[line]);
        assert_eq!(svg.matches("<circle").count(), 2);
        assert!(svg.contains("a&lt;b") && !svg.contains("a<b") && svg.contains("dasharray"));
        let row = DotRow { name: "r".to_owned(), colour: 0, values: vec![(1.0, "p50".to_owned())] };
        assert_eq!(dots("t", "a", &[row]).matches("<circle").count(), 1);
        assert_eq!(orders("t", &[("o".to_owned(), &[2, 0, 1])]).matches("<circle").count(), 3);
    }
}
