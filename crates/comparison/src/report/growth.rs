//! Draws the curves of `holdfast bench growth`: a row for each curve, a column for each measure.

use holdfast_client::load::{LoadCurve, LoadGrowth, LoadPoint, Spread};

use super::plots::{self, PlotLine, PlotPoint};

/// Draws all curves as one SVG.
///
/// # Errors
/// The text is not the JSON of `holdfast bench growth`.
pub fn draw(json: &str) -> Result<String, String> {
    let growth: LoadGrowth = serde_json::from_str(json)
        .map_err(|error| format!("not a report of holdfast bench growth --output json: {error}"))?;
    let rows: Vec<_> =
        growth.curves.iter().map(|curve| (curve.over.clone(), columns(curve))).collect();
    Ok(plots::grid("growth", &rows).svg)
}

/// Returns the plots of a curve, each with the name of its measure.
fn columns(curve: &LoadCurve) -> [(String, PlotLine); 3] {
    let column = |name: &str, measure: fn(&LoadPoint) -> Option<Spread>| {
        let points =
            curve.points.iter().filter_map(|point| Some(plotted(point.at, measure(point)?)));
        (name.to_owned(), PlotLine { name: plots::OWN.to_owned(), points: points.collect() })
    };
    [
        column("cycles/s", |point| Some(point.cycles_per_second)),
        column("p99, ms", |point| Some(point.p99_ms)),
        column("processor µs a cycle", |point| point.processor_us_per_cycle),
    ]
}

/// A logarithmic axis has no zero, so the point at 0 is drawn at 1.
fn plotted(at: u32, spread: Spread) -> PlotPoint {
    let Spread { median, min, max, .. } = spread;
    PlotPoint { x: f64::from(at.max(1)), y: median, low: min, high: max }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_curve_has_three_plots() {
        let spread = r#"{"median":2.0,"min":1.0,"max":3.0,"count":3}"#;
        let point = |at: u32| {
            format!(
                r#"{{"at":{at},"cycles_per_second":{spread},"p99_ms":{spread},"processor_us_per_cycle":{spread}}}"#
            )
        };
        let json = format!(
            r#"{{"rounds":3,"curves":[{{"over":"clients","points":[{},{}]}}]}}"#,
            point(0),
            point(64)
        );
        let svg = draw(&json).unwrap();
        assert_eq!(svg.matches("<circle").count(), 6, "two points in each plot");
        assert!(svg.contains("clients") && svg.contains("p99, ms"), "{svg}");
        assert!(draw("{}").unwrap_err().contains("bench growth"));
    }
}
