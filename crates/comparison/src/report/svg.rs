//! Plots as SVG text: lines over a logarithmic axis, points with their spread, and scatters.
//!
//! Owns geometry and marks. Refuses to know what is plotted. No script, no font, no file from elsewhere: the page stands
//! alone.

use std::fmt::Write as _;

/// Colours that are told apart, also by most who see few of them; with the dashes, twice as many lines.
const COLOURS: [&str; 10] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f3c8d", "#8c564b",
    "#555555", "#b8a000",
];

const WIDTH: f64 = 900.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 220.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 50.0;
const LINES_HEIGHT: f64 = 420.0;
const ROW: f64 = 24.0;
const NAME: f64 = 200.0;
const NAMED: f64 = 18.0;

/// A point of a line, with what it was in the least and the greatest repetition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    /// Across.
    pub(super) x: f64,
    /// Up.
    pub(super) y: f64,
    /// From there.
    pub(super) low: f64,
    /// To there.
    pub(super) high: f64,
}

/// A line with a name.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    /// For the legend.
    pub(super) name: String,
    /// Which colour; the same name has the same in every plot.
    pub(super) colour: usize,
    /// From left to right.
    pub(super) points: Vec<Point>,
}

/// A row of points on one axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Dots {
    /// At the left.
    pub(super) name: String,
    /// Which colour.
    pub(super) colour: usize,
    /// Values, each with a word that shows when the pointer rests on it.
    pub(super) values: Vec<(f64, String)>,
}

/// The colour of a number.
fn colour(number: usize) -> &'static str {
    COLOURS.get(number % COLOURS.len()).copied().unwrap_or("#000000")
}

/// A second round of colours has dashed lines.
fn dashes(number: usize) -> &'static str {
    if (number / COLOURS.len()).is_multiple_of(2) { "" } else { " stroke-dasharray=\"6 4\"" }
}

/// Text that cannot be mistaken for a mark.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            c => safe.push(c),
        }
    }
    safe
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
    /// Over these values; what is not above zero is left out.
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

    /// From the first to the last of these, exactly.
    fn between(values: &[f64], at: f64, length: f64) -> Self {
        let log =
            |value: Option<&f64>| value.filter(|value| **value > 0.0).map(|value| value.log10());
        let (from, to) = (log(values.first()).unwrap_or(0.0), log(values.last()).unwrap_or(1.0));
        Self { from, to: if to > from { to } else { from + 1.0 }, at, length }
    }

    /// Where a value is; what is below the axis is at its beginning.
    fn place(&self, value: f64) -> f64 {
        let log = if value > 0.0 { value.log10() } else { self.from };
        self.at + (log.clamp(self.from, self.to) - self.from) / (self.to - self.from) * self.length
    }

    /// The powers of ten on it.
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

/// A number as a label: 0.01, 1, 1,000.
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

fn open(height: f64, title: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH:.0} {height:.0}\" role=\"img\" aria-label=\"{}\">",
        escaped(title)
    )
}

// A string takes everything, so nothing that is written to one fails.
macro_rules! put {
    ($to:expr, $($what:tt)*) => { let _ = write!($to, $($what)*); };
}

/// Lines over logarithmic axes, with bars from the least to the greatest and a legend.
pub(super) fn lines(title: &str, across: &str, up: &str, lines: &[Line]) -> String {
    let points = || lines.iter().flat_map(|line| &line.points);
    let (width, height) = (WIDTH - LEFT - RIGHT, LINES_HEIGHT - TOP - BOTTOM);
    let mut xs: Vec<f64> = points().map(|point| point.x).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let x = Axis::between(&xs, LEFT, width);
    let y = Axis::over(points().flat_map(|point| [point.low, point.high]), 0.0, height);
    let y_at = |value: f64| TOP + height - y.place(value);
    let names = f64::from(u32::try_from(lines.len()).unwrap_or(u32::MAX));
    let mut svg = open(LINES_HEIGHT.max(2.0 * TOP + NAMED * names), title);
    for tick in y.ticks() {
        let at = y_at(tick);
        put!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>",
            LEFT + width
        );
        put!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            at + 4.0,
            label(tick)
        );
    }
    for tick in &xs {
        let at = x.place(*tick);
        put!(
            svg,
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>",
            TOP + height
        );
        put!(
            svg,
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            TOP + height + 18.0,
            label(*tick)
        );
    }
    put!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        LEFT + width / 2.0,
        LINES_HEIGHT - 10.0,
        escaped(across)
    );
    put!(svg, "<text x=\"4\" y=\"12\">{}</text>", escaped(up));
    for (number, line) in lines.iter().enumerate() {
        line.draw(&mut svg, &x, y_at);
        legend(&mut svg, number, line, LEFT + width + 16.0);
    }
    svg.push_str("</svg>");
    svg
}

impl Line {
    fn draw(&self, svg: &mut String, x: &Axis, y_at: impl Fn(f64) -> f64) {
        let (colour, dashes) = (colour(self.colour), dashes(self.colour));
        let place = |point: &Point| format!("{:.1},{:.1}", x.place(point.x), y_at(point.y));
        let path = self.points.iter().map(place).collect::<Vec<_>>().join(" ");
        put!(
            svg,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dashes} points=\"{path}\"/>"
        );
        for point in &self.points {
            let at = x.place(point.x);
            let (low, high, y) = (y_at(point.low), y_at(point.high), y_at(point.y));
            put!(
                svg,
                "<line stroke=\"{colour}\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{low:.1}\" y2=\"{high:.1}\"/>"
            );
            let said = format!("{}: {} at {}", self.name, label(point.y), label(point.x));
            put!(
                svg,
                "<circle cx=\"{at:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"><title>{}</title></circle>",
                escaped(&said)
            );
        }
    }
}

fn legend(svg: &mut String, number: usize, line: &Line, x: f64) {
    let rows = u32::try_from(number).unwrap_or(u32::MAX);
    let y = TOP + 10.0 + NAMED * f64::from(rows);
    let (colour, dashes) = (colour(line.colour), dashes(line.colour));
    put!(
        svg,
        "<line stroke=\"{colour}\" stroke-width=\"3\"{dashes} x1=\"{x:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>",
        x + 24.0
    );
    put!(svg, "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>", x + 30.0, y + 4.0, escaped(&line.name));
}

/// Rows of points on one logarithmic axis.
pub(super) fn dots(title: &str, across: &str, rows: &[Dots]) -> String {
    let count = f64::from(u32::try_from(rows.len()).unwrap_or(u32::MAX));
    let height = TOP + ROW * count + BOTTOM;
    let values = rows.iter().flat_map(|row| row.values.iter().map(|(value, _)| *value));
    let x = Axis::over(values, NAME, WIDTH - NAME - 40.0);
    let mut svg = open(height, title);
    for tick in x.ticks() {
        let at = x.place(tick);
        put!(
            svg,
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>",
            height - BOTTOM
        );
        put!(
            svg,
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            height - BOTTOM + 18.0,
            label(tick)
        );
    }
    put!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        WIDTH / 2.0,
        height - 8.0,
        escaped(across)
    );
    for (number, row) in (0_u32..).zip(rows) {
        let y = TOP + ROW * (f64::from(number) + 0.5);
        row.draw(&mut svg, &x, y);
    }
    svg.push_str("</svg>");
    svg
}

impl Dots {
    fn draw(&self, svg: &mut String, x: &Axis, y: f64) {
        let colour = colour(self.colour);
        put!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            NAME - 10.0,
            y + 4.0,
            escaped(&self.name)
        );
        let addresses = || self.values.iter().map(|(value, _)| x.place(*value));
        let ends = addresses().reduce(f64::min).zip(addresses().reduce(f64::max));
        if let Some((from, to)) = ends {
            put!(
                svg,
                "<line stroke=\"{colour}\" x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
            );
        }
        for (value, said) in &self.values {
            let (at, said) = (x.place(*value), escaped(said));
            put!(
                svg,
                "<circle cx=\"{at:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\" fill-opacity=\"0.6\"><title>{said}</title></circle>"
            );
        }
    }
}

/// Small squares side by side: for each, who came at which place (across) and left at which (down).
pub(super) fn orders(title: &str, squares: &[(String, &[u32])]) -> String {
    const SIDE: f64 = 130.0;
    const APART: f64 = 20.0;
    const ABREAST: usize = 6;
    let rows = f64::from(u32::try_from(squares.len().div_ceil(ABREAST)).unwrap_or(1));
    let mut svg = open(rows * (SIDE + 2.0 * APART) + APART, title);
    for (number, (name, order)) in squares.iter().enumerate() {
        let at = |count: usize| f64::from(u32::try_from(count).unwrap_or(0));
        let left = at(number % ABREAST) * (SIDE + APART) + 4.0;
        let top = at(number / ABREAST) * (SIDE + 2.0 * APART) + 1.5 * APART;
        let step = SIDE / at(order.len().max(1));
        put!(svg, "<text x=\"{left:.1}\" y=\"{:.1}\">{}</text>", top - 6.0, escaped(name));
        put!(
            svg,
            "<rect class=\"box\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{SIDE}\" height=\"{SIDE}\"/>"
        );
        for (place, contender) in order.iter().enumerate() {
            let (x, y) =
                (left + (f64::from(*contender) + 0.5) * step, top + (at(place) + 0.5) * step);
            put!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{}\"/>", colour(0));
        }
    }
    svg.push_str("</svg>");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(x: f64, y: f64) -> Point {
        Point { x, y, low: y / 2.0, high: y * 2.0 }
    }

    #[test]
    fn labels_have_as_many_digits_as_are_worth_reading() {
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
    fn a_greater_value_is_further_up_and_to_the_right() {
        let axis = Axis::over([3.0, 700.0].into_iter(), 10.0, 100.0);
        assert_eq!((axis.from, axis.to), (0.0, 3.0));
        assert!((axis.place(1.0) - 10.0).abs() < 1e-9 && (axis.place(1000.0) - 110.0).abs() < 1e-9);
        assert!(axis.place(0.0) <= axis.place(3.0) && axis.place(3.0) < axis.place(700.0));
        assert_eq!(axis.ticks().len(), 4);
    }

    #[test]
    fn a_legend_longer_than_the_plot_makes_the_picture_longer() {
        let line = |colour: usize| Line {
            name: colour.to_string(),
            colour,
            points: vec![point(1.0, 1.0)],
        };
        let height = |count: usize| {
            let svg = lines("t", "a", "u", &(0..count).map(line).collect::<Vec<_>>());
            svg.split('"').nth(1).unwrap().rsplit(' ').next().unwrap().parse::<f64>().unwrap()
        };
        assert!(height(3) < height(40) && height(40) > 40.0 * NAMED);
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
        let line = Line {
            name: "a<b".to_owned(),
            colour: 12,
            points: vec![point(1.0, 10.0), point(16.0, 0.0)],
        };
        let svg = lines("t", "a", "u", &[line]);
        assert_eq!(svg.matches("<circle").count(), 2);
        assert!(svg.contains("a&lt;b") && !svg.contains("a<b") && svg.contains("dasharray"));
        let row = Dots { name: "r".to_owned(), colour: 0, values: vec![(1.0, "p50".to_owned())] };
        assert_eq!(dots("t", "a", &[row]).matches("<circle").count(), 1);
        assert_eq!(orders("t", &[("o".to_owned(), &[2, 0, 1])]).matches("<circle").count(), 3);
    }
}
