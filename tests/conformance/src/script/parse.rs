//! Parses the text format of steps, with one arm for each keyword of a request. `print` is the inverse.

use holdfast_zkwire::{
    Acl, AddWatchMode, Create, CreateMode, CreateOp, MultiOp, ReadOp, Reconfig, Request,
    SetWatches, WatcherType,
};

use super::words::{data, text};
use super::{SEEN, SLOTS, Step};

type Parsed<T> = Result<T, String>;

/// The words of one request.
struct Words<'a> {
    rest: std::str::SplitWhitespace<'a>,
    all: &'a str,
}

impl<'a> Words<'a> {
    fn new(all: &'a str) -> Self {
        Self { rest: all.split_whitespace(), all }
    }

    fn word(&mut self) -> Parsed<&'a str> {
        self.rest.next().ok_or_else(|| format!("`{}`: a word is missing", self.all))
    }

    fn text(&mut self) -> Parsed<String> {
        text(self.word()?)
    }

    fn number<T: std::str::FromStr>(&mut self) -> Parsed<T> {
        number(self.word()?)
    }

    fn watch(&mut self) -> Parsed<bool> {
        match self.rest.next() {
            None => Ok(false),
            Some("watch") => Ok(true),
            Some(other) => Err(format!("`{}`: `{other}` is not `watch`", self.all)),
        }
    }
}

fn number<T: std::str::FromStr>(word: &str) -> Parsed<T> {
    word.parse().map_err(|_| format!("`{word}` is no number"))
}

fn slot(word: &str) -> Parsed<usize> {
    let slot = number(word.trim())?;
    if slot < SLOTS { Ok(slot) } else { Err(format!("there is no session {slot}")) }
}

/// One line.
pub(super) fn step(line: &str) -> Parsed<Step> {
    if let Some((who, requests)) = line.split_once(':')
        && let Ok(slot) = slot(who)
    {
        let requests = requests.split(" ; ").map(request).collect::<Parsed<_>>()?;
        return Ok(Step::Burst { slot, requests });
    }
    let (what, who) = line.split_once(' ').ok_or_else(|| format!("`{line}`: no step"))?;
    let slot = slot(who)?;
    match what {
        "open" => Ok(Step::Open { slot }),
        "close" => Ok(Step::Close { slot }),
        "drop" => Ok(Step::Drop { slot }),
        "resume" => Ok(Step::Resume { slot }),
        "impostor" => Ok(Step::Impostor { slot }),
        _ => Err(format!("`{line}`: no step")),
    }
}

fn request(text: &str) -> Parsed<Request> {
    let mut items = text.split(" | ");
    let mut words = Words::new(items.next().unwrap_or_default());
    let name = words.word()?;
    Ok(match name {
        "multi" => Request::Multi(items.map(multi_op).collect::<Parsed<_>>()?),
        "multi-read" => Request::MultiRead(items.map(read_op).collect::<Parsed<_>>()?),
        "exists" => Request::Exists { path: words.text()?, watch: words.watch()? },
        "get" => Request::GetData { path: words.text()?, watch: words.watch()? },
        "list" => Request::GetChildren { path: words.text()?, watch: words.watch()? },
        "list2" => Request::GetChildren2 { path: words.text()?, watch: words.watch()? },
        "get-acl" => Request::GetAcl { path: words.text()? },
        "set-acl" => {
            let (path, acl) = (words.text()?, acls(words.word()?)?);
            Request::SetAcl { path, acl, version: words.number()? }
        }
        "sync" => Request::Sync { path: words.text()? },
        "ping" => Request::Ping,
        "reconfig" => Request::Reconfig(Reconfig { config_id: -1, ..Reconfig::default() }),
        "check-watches" => Request::CheckWatches { path: words.text()?, kind: kind(&mut words)? },
        "remove-watches" => Request::RemoveWatches { path: words.text()?, kind: kind(&mut words)? },
        "delete-container" => Request::DeleteContainer,
        "auth" => {
            let (scheme, auth) = (words.text()?, data(words.word()?)?);
            Request::Auth { kind: 0, scheme, auth }
        }
        "set-watches" => Request::SetWatches(set_watches(words)?),
        "sasl" => Request::Sasl { token: data(words.word()?)? },
        "ephemerals" => Request::GetEphemerals { prefix: words.text()? },
        "count" => Request::GetAllChildrenNumber { path: words.text()? },
        "add-watch" => {
            let path = words.text()?;
            let mode = match words.word()? {
                "persistent" => AddWatchMode::Persistent,
                "recursive" => AddWatchMode::PersistentRecursive,
                code => AddWatchMode::Unknown(number(code)?),
            };
            Request::AddWatch { path, mode }
        }
        "who-am-i" => Request::WhoAmI,
        "close-session" => Request::CloseSession,
        "op" => Request::Unknown(words.number()?),
        _ => write(name, words)?,
    })
}

fn write(name: &str, words: Words) -> Parsed<Request> {
    Ok(match op(name, words)? {
        MultiOp::Create(create) => Request::Create(create),
        MultiOp::Delete { path, version } => Request::Delete { path, version },
        MultiOp::SetData { path, data, version } => Request::SetData { path, data, version },
        MultiOp::Check { path, version } => Request::Check { path, version },
    })
}

fn multi_op(item: &str) -> Parsed<MultiOp> {
    let mut words = Words::new(item);
    op(words.word()?, words)
}

fn op(name: &str, mut words: Words) -> Parsed<MultiOp> {
    let path = words.text()?;
    let op = match name {
        "create" => CreateOp::Create,
        "create2" => CreateOp::Create2,
        "create-container" => CreateOp::Container,
        "create-ttl" => CreateOp::Ttl,
        "delete" => return Ok(MultiOp::Delete { path, version: words.number()? }),
        "check" => return Ok(MultiOp::Check { path, version: words.number()? }),
        "set" => {
            let data = data(words.word()?)?;
            return Ok(MultiOp::SetData { path, data, version: words.number()? });
        }
        _ => return Err(format!("`{name}`: no operation")),
    };
    let (data, acl) = (data(words.word()?)?, acls(words.word()?)?);
    Ok(MultiOp::Create(Create { op, path, data, acl, mode: mode(words.word()?)? }))
}

fn read_op(item: &str) -> Parsed<ReadOp> {
    let mut words = Words::new(item);
    match words.word()? {
        "get" => Ok(ReadOp::GetData { path: words.text()?, watch: words.watch()? }),
        "list" => Ok(ReadOp::GetChildren { path: words.text()?, watch: words.watch()? }),
        other => Err(format!("`{other}`: no read")),
    }
}

fn mode(word: &str) -> Parsed<CreateMode> {
    Ok(match word.split_once('=') {
        Some(("ttl", ms)) => CreateMode::Ttl(number(ms)?),
        Some(("ttl-sequential", ms)) => CreateMode::TtlSequential(number(ms)?),
        Some(("flags", flags)) => CreateMode::Unknown(number(flags)?),
        _ => match word {
            "persistent" => CreateMode::Persistent,
            "ephemeral" => CreateMode::Ephemeral,
            "persistent-sequential" => CreateMode::PersistentSequential,
            "ephemeral-sequential" => CreateMode::EphemeralSequential,
            "container" => CreateMode::Container,
            _ => return Err(format!("`{word}`: no kind of node")),
        },
    })
}

fn acls(word: &str) -> Parsed<Vec<Acl>> {
    match word {
        "open" => Ok(vec![Acl::open()]),
        "none" => Ok(Vec::new()),
        _ => word.split(',').map(acl).collect(),
    }
}

fn acl(entry: &str) -> Parsed<Acl> {
    let mut parts = entry.splitn(3, ':');
    let mut part = || parts.next().ok_or_else(|| format!("`{entry}`: no entry of a list"));
    Ok(Acl { perms: number(part()?)?, scheme: text(part()?)?, id: text(part()?)? })
}

fn kind(words: &mut Words) -> Parsed<WatcherType> {
    Ok(match words.word()? {
        "children" => WatcherType::Children,
        "data" => WatcherType::Data,
        "any" => WatcherType::Any,
        code => WatcherType::Unknown(number(code)?),
    })
}

fn set_watches(mut words: Words) -> Parsed<SetWatches> {
    let relative_zxid = match words.word()? {
        "seen" => SEEN,
        other => number(other)?,
    };
    let mut watches = SetWatches { relative_zxid, ..SetWatches::default() };
    for word in words.rest {
        let (list, path) = word.split_once(':').ok_or_else(|| format!("`{word}`: no watch"))?;
        let list = match list {
            "data" => &mut watches.data,
            "exist" => &mut watches.exist,
            "child" => &mut watches.child,
            "persistent" => &mut watches.persistent,
            "recursive" => &mut watches.recursive,
            _ => return Err(format!("`{word}`: no list of watches")),
        };
        list.push(text(path)?);
    }
    Ok(watches)
}
