//! The text format of Prometheus 0.0.4, made from OpenMetrics text, for scrapers that do not ask for OpenMetrics.
//!
//! The samples are the same. Only the names and types in the comments differ.

/// Converts metrics. The text has no exemplars.
pub(super) fn of_openmetrics(text: &str) -> String {
    let mut converted = String::with_capacity(text.len());
    // The help of a metric precedes its type, which decides the name.
    let mut help = "";
    for line in text.lines() {
        if let Some(of) = line.strip_prefix("# HELP ") {
            help = of.split_once(' ').map_or("", |(_, help)| help);
        } else if let Some(of) = line.strip_prefix("# TYPE ") {
            let (name, kind) = of.split_once(' ').unwrap_or((of, "unknown"));
            let (suffix, kind) = match kind {
                "counter" => ("_total", kind),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                other => ("", other),
            };
            for piece in
                ["# HELP ", name, suffix, " ", help, "\n# TYPE ", name, suffix, " ", kind, "\n"]
            {
                converted.push_str(piece);
            }
            help = "";
        } else if !line.starts_with('#') {
            converted.push_str(line);
            converted.push('\n');
        }
    }
    converted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_comments_have_the_names_of_the_samples() {
        let open = "# HELP a Calls.\n# TYPE a counter\na_total{x=\"# TYPE\"} 1\n# HELP b Version.\n# TYPE b info\nb_info{v=\"1\"} 1\n\
                    # HELP c_seconds Time.\n# TYPE c_seconds histogram\n# UNIT c_seconds seconds\nc_seconds_count 2\n\
                    # TYPE d unknown\nd 3\n# EOF\n";
        let expected = "# HELP a_total Calls.\n# TYPE a_total counter\na_total{x=\"# TYPE\"} 1\n# HELP b_info Version.\n\
                        # TYPE b_info gauge\nb_info{v=\"1\"} 1\n# HELP c_seconds Time.\n# TYPE c_seconds histogram\n\
                        c_seconds_count 2\n# HELP d \n# TYPE d untyped\nd 3\n";
        assert_eq!(of_openmetrics(open), expected);
    }
}
