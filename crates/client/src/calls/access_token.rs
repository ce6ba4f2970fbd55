//! The access token that a client sends with every call.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

/// An access token, or the file that has it.
///
/// The file has one line: the token, or the header `Authorization: Bearer TOKEN`, which `curl -H @FILE` reads. A changed file
/// is read again, so that the token of a running program can be replaced.
#[derive(Clone)]
pub struct AccessToken(Arc<Source>);

enum Source {
    Text(String),
    File { path: PathBuf, last: Mutex<Option<ReadFile>> },
}

/// The content of the file when it was last read.
#[derive(Clone)]
struct ReadFile {
    modified: SystemTime,
    token: String,
}

impl AccessToken {
    /// A token as text. Spaces and ends of lines around it do not count.
    pub fn text(token: impl Into<String>) -> Self {
        let text = token.into();
        Self(Arc::new(Source::Text(token_in(&text).unwrap_or(text.trim()).to_owned())))
    }

    /// The token in a file, which is read now and again after it has changed.
    ///
    /// # Errors
    /// If the file cannot be read, or has no token.
    pub fn file(path: impl Into<PathBuf>) -> io::Result<Self> {
        let token = Self(Arc::new(Source::File { path: path.into(), last: Mutex::new(None) }));
        token.read().map(|_| token)
    }

    /// Whether a later read may return another token.
    pub(crate) fn may_change(&self) -> bool {
        matches!(&*self.0, Source::File { .. })
    }

    /// Reads the file at the next use, even if its time of change is the same.
    pub(crate) fn read_again(&self) {
        if let Source::File { last, .. } = &*self.0
            && let Ok(mut last) = last.lock()
            && let Some(last) = last.as_mut()
        {
            last.modified = SystemTime::UNIX_EPOCH;
        }
    }

    /// The value of the header `Authorization`; `None` if the file was never readable. While it cannot be read, its last content
    /// is used.
    pub fn header(&self) -> Option<String> {
        let token = self.read().ok().or_else(|| match &*self.0 {
            Source::Text(_) => None,
            Source::File { last, .. } => last.lock().ok()?.clone().map(|read| read.token),
        })?;
        Some(format!("Bearer {token}"))
    }

    fn read(&self) -> io::Result<String> {
        let (path, last) = match &*self.0 {
            Source::Text(token) => return Ok(token.clone()),
            Source::File { path, last } => (path, last),
        };
        let modified = std::fs::metadata(path)?.modified()?;
        let poisoned = || io::Error::other("a thread has panicked");
        if let Some(read) = &*last.lock().map_err(|_| poisoned())?
            && read.modified == modified
        {
            return Ok(read.token.clone());
        }
        let text = std::fs::read_to_string(path)?;
        let token = token_in(&text).ok_or_else(|| {
            let what = "has no access token: write the token, or Authorization: Bearer TOKEN";
            io::Error::new(io::ErrorKind::InvalidData, what)
        })?;
        let token = token.to_owned();
        *last.lock().map_err(|_| poisoned())? = Some(ReadFile { modified, token: token.clone() });
        Ok(token)
    }
}

/// The token in the content of a file.
fn token_in(text: &str) -> Option<&str> {
    let line = text.trim();
    let token = match line.split_once(':') {
        Some((name, value)) if name.eq_ignore_ascii_case("authorization") => {
            let (scheme, token) = value.trim().split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())?
        }
        Some(_) | None => line,
    };
    let is_plain = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    is_plain.then_some(token)
}

/// Without the token.
impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Source::Text(_) => f.write_str("AccessToken(..)"),
            Source::File { path, .. } => write!(f, "AccessToken({})", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_token_or_a_header() {
        for text in ["hf_a\n", "Authorization: Bearer hf_a\n", "authorization:  bearer   hf_a"] {
            assert_eq!(token_in(text), Some("hf_a"), "{text}");
        }
        for text in ["", "\n", "two words", "Authorization: Basic abc", "Authorization: Bearer"] {
            assert_eq!(token_in(text), None, "{text}");
        }
    }

    #[test]
    fn a_token_as_text_may_end_with_a_line() {
        assert_eq!(AccessToken::text("hf_a\r\n").header().unwrap(), "Bearer hf_a");
    }

    #[test]
    fn a_changed_file_is_read_again_and_a_missing_one_keeps_its_token() {
        let dir = std::env::temp_dir().join(format!("holdfast-token-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("token");
        assert!(AccessToken::file(&path).is_err());
        std::fs::write(&path, "hf_one").unwrap();
        let token = AccessToken::file(&path).unwrap();
        assert_eq!(token.header().unwrap(), "Bearer hf_one");
        std::fs::write(&path, "hf_two").unwrap();
        let later = SystemTime::now() + std::time::Duration::from_secs(2);
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(later).unwrap();
        assert_eq!(token.header().unwrap(), "Bearer hf_two");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(token.header().unwrap(), "Bearer hf_two");
        assert!(!format!("{token:?}").contains("hf_"), "{token:?}");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
