//! Parses single values of `/metrics`, which is in the text format of Prometheus.

use std::str::FromStr;

/// Returns the value of a counter or gauge without labels; `None` if it is missing or not a number of type `T`.
pub fn value<T: FromStr>(metrics: &str, name: &str) -> Option<T> {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_is_found_among_others() {
        let text = "# TYPE disk_free_bytes gauge\ndisk_free_bytes_x 1\ndisk_free_bytes 4096\n";
        assert_eq!(value(text, "disk_free_bytes"), Some(4_096_u64));
        assert_eq!(value::<u64>(text, "other"), None);
    }
}
