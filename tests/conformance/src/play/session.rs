//! One session of a run: its connection, its last zxid, and its recorded lines.

use holdfast_zkwire::{ConnectRequest, PASSWORD_LEN, Request, xid};

use super::{Target, folder};
use crate::render::Folder;
use crate::script::SEEN;
use holdfast_lab::zk::{ZkConnection, ZkIncoming, new_session};

/// Attempts to take over a session that a node does not know yet.
const ATTEMPTS: usize = 200;

pub(super) struct Session {
    slot: usize,
    connections: usize,
    identity: Option<(i64, [u8; PASSWORD_LEN])>,
    connection: Option<ZkConnection>,
    /// The largest zxid received.
    seen: i64,
    lines: Vec<String>,
}

impl Session {
    pub(super) fn new(slot: usize) -> Self {
        Self { slot, connections: 0, identity: None, connection: None, seen: 0, lines: Vec::new() }
    }

    pub(super) fn take_lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }

    fn say(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    pub(super) async fn open(&mut self, target: &Target) -> Result<(), String> {
        if self.identity.is_some() {
            self.say("has a session");
            return Ok(());
        }
        self.seen = 0;
        self.connect(target, new_session(folder::SESSION_MS)).await
    }

    pub(super) async fn resume(&mut self, target: &Target) -> Result<(), String> {
        let Some((session_id, password)) = self.identity else {
            self.say("no session");
            return Ok(());
        };
        let hello = ConnectRequest {
            session_id,
            password: Some(password),
            last_zxid_seen: self.seen,
            ..new_session(folder::SESSION_MS)
        };
        let old = self.connection.take();
        self.connect(target, hello).await?;
        if let Some(mut old) = old {
            if target.nodes.len() > 1 {
                // On another node the old connection stays open until its next write, as in a ZooKeeper ensemble. A
                // session that may still write gets the error that the root cannot be deleted.
                old.send(&Request::Delete { path: "/".to_owned(), version: -1 }).await;
            }
            self.drain(&mut old).await;
        }
        Ok(())
    }

    /// Records the frames on an old connection until the server closes it.
    async fn drain(&mut self, old: &mut ZkConnection) {
        loop {
            match old.next().await {
                ZkIncoming::Closed => return self.say("the old connection is closed"),
                ZkIncoming::Silence => return self.say("the old connection stays open"),
                other => self.say(format!("the old connection: {other:?}")),
            }
        }
    }

    async fn connect(&mut self, target: &Target, hello: ConnectRequest) -> Result<(), String> {
        for _ in 0..ATTEMPTS {
            let at = (self.slot + self.connections) % target.nodes.len().max(1);
            let address = *target.nodes.get(at).ok_or("a target without nodes")?;
            self.connections += 1;
            let (connection, answer) = ZkConnection::open(address, &hello).await?;
            let Some(answer) = answer else { continue };
            if answer.session_id == 0 {
                self.identity = None;
                self.say("refused");
            } else {
                self.identity = Some((answer.session_id, answer.password));
                self.connection = Some(connection);
                self.say(format!("session s:{} for {}", answer.session_id, answer.timeout_ms));
            }
            return Ok(());
        }
        Err(format!("no node took the session {:#x}", hello.session_id))
    }

    /// Only for a session without a connection: ZooKeeper closes the connection on a request with the session's number,
    /// holdfast does not.
    pub(super) async fn impostor(&mut self, target: &Target) -> Result<(), String> {
        let Some((session_id, mut password)) = self.identity else {
            self.say("no session");
            return Ok(());
        };
        self.connection = None;
        password[0] ^= 0xff;
        let hello = ConnectRequest {
            session_id,
            password: Some(password),
            ..new_session(folder::SESSION_MS)
        };
        let address = *target.nodes.first().ok_or("a target without nodes")?;
        let (_, answer) = ZkConnection::open(address, &hello).await?;
        let answer = answer.map(|answer| (answer.session_id, answer.timeout_ms));
        self.say(format!("the impostor is told {answer:?}"));
        Ok(())
    }

    pub(super) fn cut(&mut self) {
        self.connection = None;
    }

    pub(super) async fn close(&mut self, folder: &str) {
        let Some(mut connection) = self.connection.take() else {
            return self.say("no connection");
        };
        connection.send(&Request::CloseSession).await;
        let stops = |_: usize| false;
        self.listen(&mut connection, folder, stops).await;
        self.identity = None;
        self.say("session closed");
    }

    pub(super) async fn burst(&mut self, requests: Vec<Request>) {
        let Some(mut connection) = self.connection.take() else {
            return self.say("no connection");
        };
        for mut request in requests {
            if let Request::SetWatches(watches) = &mut request
                && watches.relative_zxid == SEEN
            {
                watches.relative_zxid = self.seen;
            }
            connection.send(&request).await;
        }
        self.connection = Some(connection);
    }

    /// Reads until every request has a reply.
    pub(super) async fn settle(&mut self, folder: &str) {
        let Some(mut connection) = self.connection.take() else { return };
        let last = connection.send(&Request::Sync { path: "/".to_owned() }).await;
        if self.listen(&mut connection, folder, |number| number == last).await {
            self.connection = Some(connection);
        }
    }

    /// Records incoming frames up to the reply for which `stops` is true; false if the connection closes first.
    async fn listen(
        &mut self,
        connection: &mut ZkConnection,
        folder: &str,
        stops: impl Fn(usize) -> bool,
    ) -> bool {
        let folder = Folder(folder);
        loop {
            match connection.next().await {
                ZkIncoming::Event { header, event } => self.say(folder.event(header, &event)),
                ZkIncoming::Reply { number, header, body, passed } => {
                    for _ in passed {
                        self.say("reply none");
                    }
                    self.seen = self.seen.max(header.zxid);
                    if stops(number) {
                        if header.err != 0 {
                            self.say(format!("sync error {}", header.err));
                        }
                        return true;
                    }
                    let line = folder.reply(header, body.as_ref());
                    let special = if header.xid < xid::EVENT { "*" } else { "" };
                    self.say(format!("reply{special} {line}"));
                }
                ZkIncoming::Closed => {
                    self.say("closed");
                    return false;
                }
                ZkIncoming::Silence => {
                    self.say("silence");
                    return false;
                }
                ZkIncoming::Unreadable(why) => self.say(format!("unreadable: {why}")),
            }
        }
    }

    /// Closes the session, so that it cannot expire later.
    pub(super) async fn end(&mut self, target: &Target, folder: &str) -> Result<(), String> {
        if self.identity.is_some() && self.connection.is_none() {
            self.resume(target).await?;
        }
        if self.connection.is_some() {
            self.close(folder).await;
        }
        Ok(())
    }
}
