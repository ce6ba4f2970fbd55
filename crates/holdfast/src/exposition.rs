//! What a node tells about itself at `/metrics`: the text format of Prometheus, as much of it as we read.

/// The value of a counter or a gauge without labels; none if it is not there or no whole number.
pub(crate) fn value(metrics: &str, name: &str) -> Option<u64> {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_is_found_among_others() {
        let text = "# TYPE disk_free_bytes gauge\ndisk_free_bytes_x 1\ndisk_free_bytes 4096\n";
        assert_eq!(value(text, "disk_free_bytes"), Some(4_096));
        assert_eq!(value(text, "other"), None);
    }
}
