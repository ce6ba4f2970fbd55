//! Parses one line of a golden script into a command, if a front-end can express it.
//!
//! The parser covers the commands on the tree and its sessions; it returns `None` for all others.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

/// An entry of an access list: scheme, id, letters.
pub(super) type Entry = (String, String, String);

/// An operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Create {
        path: String,
        data: String,
        kind: Kind,
        sequential: bool,
        parents: bool,
        acl: Option<Vec<Entry>>,
    },
    Delete {
        path: String,
        version: Option<i32>,
        recursive: bool,
    },
    Set {
        path: String,
        data: String,
        version: Option<i32>,
    },
    SetAcl {
        path: String,
        acl: Vec<Entry>,
        version: Option<i32>,
    },
    Check {
        path: String,
        version: Option<i32>,
    },
}

/// A kind of node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Persistent,
    Ephemeral,
    Container,
    Ttl(i64),
}

/// A query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Node,
    Stat,
    Children,
    Acl,
}

/// The caller: a session, and proofs of identity (`user:password`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Who {
    pub(super) session: Option<String>,
    pub(super) proofs: Vec<String>,
}

/// A query or a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ScriptCommand {
    Ops { ops: Vec<Op>, multi: bool, who: Who },
    Open(String),
    Close(String),
    Look { what: What, path: String, who: Who },
}

struct Words<'a>(Vec<&'a str>);

impl<'a> Words<'a> {
    fn of(line: &'a str) -> Self {
        Self(line.split_whitespace().collect())
    }

    fn value(&self, key: &str) -> Option<&'a str> {
        self.0.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    fn flag(&self, word: &str) -> bool {
        self.0.contains(&word)
    }

    fn path(&self) -> Option<String> {
        let path = self.0.get(1)?;
        // `/x*1000` is a long name.
        (path.starts_with('/') && !path.contains('*')).then(|| (*path).to_owned())
    }

    fn who(&self) -> Option<Who> {
        if self.value("request").is_some() || self.value("attachment").is_some() {
            return None;
        }
        let shown = self.value("as").unwrap_or("").split(',').filter(|shown| !shown.is_empty());
        // The hash in a script serves as the password, so that a client can present it.
        let proof = |shown: &str| shown.strip_prefix("digest:").map(str::to_owned);
        Some(Who {
            session: self.value("session").map(str::to_owned),
            proofs: shown.map(proof).collect::<Option<_>>()?,
        })
    }

    fn acl(&self) -> Option<Vec<Entry>> {
        let entries = self.value("acl")?.split(',').filter(|entry| !entry.is_empty());
        entries.map(entry).collect()
    }

    fn data(&self) -> Option<String> {
        let plain = self.value("zeros").is_none() && !self.flag("null");
        plain.then(|| self.value("data").unwrap_or("").to_owned())
    }

    fn op(&self) -> Option<Op> {
        let path = self.path()?;
        let version = match self.value("version") {
            Some(number) => Some(number.parse().ok()?),
            None => None,
        };
        Some(match *self.0.first()? {
            "create" => Op::Create {
                path,
                data: self.data()?,
                kind: self.kind()?,
                sequential: self.flag("sequential"),
                parents: self.flag("parents"),
                acl: if self.value("acl").is_some() { Some(self.acl()?) } else { None },
            },
            "delete" => Op::Delete { path, version, recursive: self.flag("recursive") },
            "set" => Op::Set { path, data: self.data()?, version },
            "setacl" => Op::SetAcl { path, acl: self.acl()?, version },
            "check" => Op::Check { path, version },
            _ => return None,
        })
    }

    fn kind(&self) -> Option<Kind> {
        Some(match self.value("ttl") {
            Some(ms) => Kind::Ttl(ms.parse().ok()?),
            None if self.flag("ephemeral") => Kind::Ephemeral,
            None if self.flag("container") => Kind::Container,
            None => Kind::Persistent,
        })
    }
}

fn entry(text: &str) -> Option<Entry> {
    let (who, perms) = text.rsplit_once(':')?;
    let (scheme, id) = who.split_once(':')?;
    Some((scheme.to_owned(), proven(scheme, id), perms.to_owned()))
}

/// The id of `alice:h` for a client with the password `h`; other ids unchanged.
fn proven(scheme: &str, id: &str) -> String {
    match id.split_once(':') {
        Some((user, password)) if scheme == "digest" && !password.contains(':') => {
            format!("{user}:{}", STANDARD.encode(Sha1::digest(format!("{user}:{password}"))))
        }
        _ => id.to_owned(),
    }
}

/// Converts the id of an access list entry from a front-end's form to the script's form. The masked hash stays `x`.
pub(super) fn scripted(id: &str) -> String {
    let Some((user, hash)) = id.split_once(':') else { return id.to_owned() };
    let known = ["h", "h1", "h2", "g", "p"].into_iter();
    let password =
        known.into_iter().find(|password| proven("digest", &format!("{user}:{password}")) == id);
    format!("{user}:{}", password.unwrap_or(hash))
}

impl ScriptCommand {
    /// `None` if no front-end can express the line.
    pub(super) fn parse(line: &str, question: bool) -> Option<Self> {
        let words = Words::of(line);
        if question {
            return look(&words);
        }
        match *words.0.first()? {
            "open" if words.0.len() == 2 => Some(Self::Open((*words.0.get(1)?).to_owned())),
            "close" if words.0.len() == 2 => Some(Self::Close((*words.0.get(1)?).to_owned())),
            "multi" => {
                let mut segments = line.split(" | ");
                let who = Words::of(segments.next()?).who()?;
                let ops = segments.map(|segment| Words::of(segment).op());
                Some(Self::Ops { ops: ops.collect::<Option<_>>()?, multi: true, who })
            }
            _ => Some(Self::Ops { ops: vec![words.op()?], multi: false, who: words.who()? }),
        }
    }
}

fn look(words: &Words) -> Option<ScriptCommand> {
    let what = match *words.0.first()? {
        "node" => What::Node,
        "stat" => What::Stat,
        "children" => What::Children,
        "acl" => What::Acl,
        _ => return None,
    };
    Some(ScriptCommand::Look { what, path: words.path()?, who: words.who()? })
}
