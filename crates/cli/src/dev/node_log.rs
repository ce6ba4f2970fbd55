//! The log file of a node: its last lines, and the last error of one run.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// The length of the printed end of a log, bytes.
const TAIL_LEN: u64 = 2_000;
/// The length of the end of a log that is searched for an error, bytes.
const SEARCH_LEN: u64 = 64 * 1024;

/// The start of the message of a process that fails.
const FAILED: &str = "holdfast: ";

/// Returns the last lines of a log.
pub(super) fn tail(path: &Path) -> String {
    match read_end(path, 0, TAIL_LEN) {
        Ok(text) => text.trim_end().to_owned(),
        Err(error) => format!("({} cannot be read: {error})", path.display()),
    }
}

/// Returns the length of a log, bytes; 0 if there is none.
pub(super) fn len(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |data| data.len())
}

/// Returns the last error that was logged after the first `start` bytes.
pub(super) fn last_error(path: &Path, start: u64) -> Option<String> {
    let text = read_end(path, start, SEARCH_LEN).ok()?;
    let line = text.lines().rev().find(|line| is_error(line))?;
    Some(line.strip_prefix(FAILED).unwrap_or(line).to_owned())
}

/// An event of level ERROR, the message of a failed start, or a panic.
fn is_error(line: &str) -> bool {
    line.contains(" ERROR ") || line.starts_with(FAILED) || line.contains("' panicked at ")
}

fn read_end(path: &Path, start: u64, len_max: u64) -> io::Result<String> {
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    file.seek(SeekFrom::Start(start.max(len.saturating_sub(len_max))))?;
    let mut bytes = Vec::new();
    file.take(len_max).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_error_of_a_run_is_not_an_earlier_one_or_another_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node.log");
        let first = "node=1 2026 ERROR holdfast: this node cannot continue and stops\nholdfast: this node cannot continue: disk\n";
        fs::write(&path, first).unwrap();
        assert_eq!(last_error(&path, 0).unwrap(), "this node cannot continue: disk");
        let start = len(&path);
        assert_eq!(last_error(&path, start), None);
        let second =
            "node=1 2026 ERROR the log is corrupt\nnode=1 2026  INFO session expired session=me\n";
        fs::write(&path, format!("{first}{second}")).unwrap();
        assert_eq!(last_error(&path, start).unwrap(), "node=1 2026 ERROR the log is corrupt");
        assert!(tail(&path).ends_with("session=me"));
        assert_eq!(last_error(&dir.path().join("none"), 0), None);
    }
}
