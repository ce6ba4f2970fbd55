//! The frames of `corpus/`, one on each line: kind, name, bytes in hexadecimal.

use std::path::PathBuf;
use std::{fs, io};

use bytes::Bytes;
use holdfast_zkwire::ReplyKind;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    ConnectRequest,
    ConnectResponse,
    Request,
    /// A request that the decoder must reject.
    BadRequest,
    Reply(ReplyKind),
    Event,
}

/// A frame without its length.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) what: What,
    /// The name of the file, and the name of the frame in the file.
    pub(crate) name: String,
    pub(crate) bytes: Bytes,
}

/// All frames, in the order of files and lines.
pub(crate) fn frames() -> io::Result<Vec<Frame>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut files = fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()?;
    files.retain(|path| path.extension().is_some_and(|ending| ending == "hex"));
    files.sort();
    let mut frames = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file)?;
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        for line in lines {
            let bad = || io::Error::other(format!("{}: not a frame: {line}", file.display()));
            frames.push(parse(&stem, line).ok_or_else(bad)?);
        }
    }
    Ok(frames)
}

fn parse(file: &str, line: &str) -> Option<Frame> {
    let mut words = line.split(' ');
    let what = match words.next()? {
        "connect-request" => What::ConnectRequest,
        "connect-response" => What::ConnectResponse,
        "request" => What::Request,
        "bad-request" => What::BadRequest,
        "event" => What::Event,
        "reply" => What::Reply(kind(words.next()?)?),
        _ => return None,
    };
    let name = format!("{file}: {}", words.next()?);
    let digits = words.next()?;
    let pairs = (0..digits.len()).step_by(2);
    let bytes = pairs.map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok());
    Some(Frame { what, name, bytes: bytes.collect::<Option<Vec<_>>>()?.into() })
}

fn kind(name: &str) -> Option<ReplyKind> {
    ReplyKind::ALL.iter().copied().find(|kind| format!("{kind:?}") == name)
}
