//! Draws the curves of `holdfast bench growth`: a row for each curve, a column for each measure.

use holdfast_client::load::Spread;
use serde::Deserialize;

use super::plots::{self, PlotLine, PlotPoint};

/// The JSON of `holdfast bench growth --output json`.
#[derive(Debug, Deserialize)]
struct GrowthRecord {
    curves: Vec<RecordedCurve>,
}

#[derive(Debug, Deserialize)]
struct RecordedCurve {
    over: String,
    points: Vec<RecordedPoint>,
}

#[derive(Debug, Deserialize)]
struct RecordedPoint {
    at: f64,
    cycles_per_second: Spread,
    p99_ms: Spread,
    processor_us_per_cycle: Option<Spread>,
}

/// Draws all curves as one SVG.
///
/// # Errors
/// The text is not the JSON of `holdfast bench growth`.
pub fn draw(json: &str) -> Result<String, String> {
    let record: GrowthRecord = serde_json::from_str(json)
        .map_err(|error| format!("not a report of holdfast bench growth --output json: {error}"))?;
    let rows: Vec<_> =
        record
            .curves
            .iter()
            .map(|curve| {
                let column =
                    |name: &str, of: fn(&RecordedPoint) -> Option<Spread>| {
                        let points = curve
                            .points
                            .iter()
                            .filter_map(|point| of(point).map(|spread| (point.at, spread)));
                        // A logarithmic axis has no zero.
                        let points = points.map(|(at, Spread { median, min, max, .. })| {
                            PlotPoint { x: at.max(1.0), y: median, low: min, high: max }
                        });
                        (
                            name.to_owned(),
                            PlotLine { name: plots::OWN.to_owned(), points: points.collect() },
                        )
                    };
                let columns = [
                    column("cycles/s", |point| Some(point.cycles_per_second)),
                    column("p99, ms", |point| Some(point.p99_ms)),
                    column("processor µs a cycle", |point| point.processor_us_per_cycle),
                ];
                (curve.over.clone(), columns)
            })
            .collect();
    Ok(plots::grid("growth", &rows).svg)
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
