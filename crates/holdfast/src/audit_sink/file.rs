//! A copy in a file of JSON lines, readable only by its owner.
//!
//! Each batch opens the file by its name, so a file that another program renames is replaced by a new one. Above its
//! size, the file is renamed to `NAME.1`, and the older ones to the next number; the oldest is deleted.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::AuditLine;

/// Longer than any line.
const TAIL: u64 = 64 << 10;

#[derive(Debug)]
pub(super) struct FileCopy {
    path: PathBuf,
    /// Bytes.
    size_max: u64,
    /// The number of renamed files that are kept.
    files: usize,
}

impl FileCopy {
    pub(super) fn new(path: PathBuf, size_max: u64, files: usize) -> Self {
        Self { path, size_max, files }
    }

    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// The number of the newest record of the file; 0 without one.
    pub(super) fn newest(&self) -> io::Result<u64> {
        let text = tail(&self.path)?;
        let number = |line: &str| {
            let body: serde_json::Value = serde_json::from_str(line).ok()?;
            body["number"].as_u64()
        };
        Ok(text.lines().rev().find_map(number).unwrap_or_default())
    }

    /// Returns when the lines are on the disk.
    pub(super) fn append(&self, lines: &[AuditLine]) -> io::Result<()> {
        let mut text = String::new();
        if !tail(&self.path)?.ends_with('\n') {
            // A crash has left the start of a line.
            text.push('\n');
        }
        for line in lines {
            text.push_str(&line.json);
            text.push('\n');
        }
        let size = std::fs::metadata(&self.path).map_or(0, |file| file.len());
        if size > 0 && size + text.len() as u64 > self.size_max {
            self.rotate()?;
        }
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?;
        file.write_all(text.as_bytes())?;
        file.sync_data()
    }

    fn rotate(&self) -> io::Result<()> {
        let older = |number: usize| PathBuf::from(format!("{}.{number}", self.path.display()));
        for number in (0..self.files).rev() {
            let from = if number == 0 { self.path.clone() } else { older(number) };
            match std::fs::rename(from, older(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        if self.files == 0 {
            std::fs::remove_file(&self.path)?;
        }
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    }
}

/// The end of a regular file; a line feed if it is empty, is missing, or is no regular file.
fn tail(path: &Path) -> io::Result<String> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok("\n".to_owned()),
        file => file?,
    };
    let file_type = file.metadata()?;
    if !file_type.is_file() || file_type.len() == 0 {
        return Ok("\n".to_owned());
    }
    file.seek(SeekFrom::Start(file_type.len().saturating_sub(TAIL)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
