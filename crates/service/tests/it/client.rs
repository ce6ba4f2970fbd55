//! A client of a stream that acts like a front-end: it sends tagged requests and reads the outbox.

use holdfast_service::{
    Attachment, Failure, Notice, NoticeKind, Outbox, Outgoing, Service, SessionKey, SessionStream,
    StreamAnswer, StreamEnd, StreamLimits, StreamRead, StreamReply,
};
use holdfast_types::{
    Create, CreateKind, Labels, Multi, Op, Rejection, Revision, TreeRejection, Ttl, ZnodePath,
};

use crate::nodes::DEADLINE;

/// A TTL that exceeds the duration of every test.
pub(crate) const TTL: Ttl = Ttl::DEFAULT;

/// One connection.
pub(crate) struct Client {
    pub(crate) stream: SessionStream,
    pub(crate) outbox: Outbox,
    pub(crate) attached: Attachment,
    tag: i64,
}

pub(crate) fn path(text: &str) -> ZnodePath {
    ZnodePath::new(text).unwrap()
}

pub(crate) fn create(at: &str, data: &[u8], kind: CreateKind) -> Op {
    let (directory, name) = ZnodePath::for_create(at, false).unwrap();
    let (data, acl) = (data.into(), None);
    Op::Create(Create { directory, name, data, kind, sequential: false, acl, parents: false })
}

pub(crate) fn node(at: &str) -> Op {
    create(at, b"", CreateKind::Persistent)
}

pub(crate) fn ephemeral(at: &str) -> Op {
    create(at, b"", CreateKind::Ephemeral)
}

pub(crate) fn set(at: &str, data: &[u8]) -> Op {
    Op::SetData { path: path(at), data: data.into(), version: None }
}

pub(crate) fn delete(at: &str) -> Op {
    Op::Delete { path: path(at), version: None, recursive: false }
}

pub(crate) fn multi(then: Vec<Op>) -> Multi {
    Multi { then, ..Multi::default() }
}

impl Client {
    pub(crate) async fn open(service: &Service) -> Self {
        Self::open_with(service, TTL, StreamLimits::default()).await
    }

    pub(crate) async fn open_with(service: &Service, ttl: Ttl, limits: StreamLimits) -> Self {
        let (key, labels) = (SessionKey::generate().unwrap(), Labels::default());
        let attached = service.open_stream_session(key, ttl, labels, Revision(0)).await.unwrap();
        Self::of(service, attached, limits)
    }

    /// Attaches the same session to a connection to this node.
    pub(crate) async fn attach(&self, service: &Service) -> Result<Self, Failure> {
        self.attach_seen(service, Revision(0)).await
    }

    /// Attaches the same session; the client has seen this revision.
    pub(crate) async fn attach_seen(
        &self,
        service: &Service,
        seen: Revision,
    ) -> Result<Self, Failure> {
        let Attachment { id, password, ttl, .. } = self.attached.clone();
        let attached = service.attach_session(SessionKey { id, password }, ttl, seen).await?;
        Ok(Self::of(service, attached, StreamLimits::default()))
    }

    fn of(service: &Service, attached: Attachment, limits: StreamLimits) -> Self {
        let (stream, outbox) = service.stream(&attached, limits).unwrap();
        Self { stream, outbox, attached, tag: 0 }
    }

    fn next_tag(&mut self) -> i64 {
        self.tag += 1;
        self.tag
    }

    /// Returns the next item of the outbox.
    pub(crate) async fn next(&mut self) -> Outgoing {
        tokio::time::timeout(DEADLINE, self.outbox.next()).await.unwrap()
    }

    /// Returns the next item, which must be a notice.
    pub(crate) async fn notice(&mut self) -> (NoticeKind, String) {
        match self.next().await {
            Outgoing::Notice(Notice { kind, path, .. }) => (kind, path.to_string()),
            other => panic!("not a notice: {other:?}"),
        }
    }

    /// Returns the next item, which must be the reply to the last request.
    pub(crate) async fn reply(&mut self) -> StreamReply {
        match self.next().await {
            Outgoing::Reply(reply) => {
                assert_eq!(reply.tag, self.tag);
                reply
            }
            other => panic!("not a reply: {other:?}"),
        }
    }

    /// Returns the next item, which must be the end of the stream.
    pub(crate) async fn ended(&mut self) -> StreamEnd {
        match self.next().await {
            Outgoing::End(reason) => reason,
            other => panic!("not the end: {other:?}"),
        }
    }

    /// Asserts that the outbox is empty.
    pub(crate) fn nothing(&mut self) {
        let found = self.outbox.try_next();
        assert!(found.is_none(), "{found:?}");
    }

    pub(crate) async fn ask_read(&mut self, read: StreamRead, watch: bool) {
        let tag = self.next_tag();
        self.stream.read(tag, read, watch).await;
    }

    pub(crate) async fn ask_write(&mut self, ops: Vec<Op>) {
        let tag = self.next_tag();
        self.stream.write(tag, multi(ops)).await;
    }

    /// Reads. The next item must be the reply.
    pub(crate) async fn read(&mut self, read: StreamRead, watch: bool) -> Answered {
        self.ask_read(read, watch).await;
        answered(self.reply().await)
    }

    pub(crate) async fn exists(&mut self, at: &str, watch: bool) -> bool {
        match self.read(StreamRead::Exists(path(at)), watch).await {
            Ok(StreamAnswer::Exists(_)) => true,
            Err(Rejection::Tree(TreeRejection::NoZnode { .. })) => false,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn data(&mut self, at: &str, watch: bool) -> Option<Vec<u8>> {
        match self.read(StreamRead::Data(path(at)), watch).await {
            Ok(StreamAnswer::Data { data, .. }) => Some(data.to_vec()),
            Err(Rejection::Tree(TreeRejection::NoZnode { .. })) => None,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn children(&mut self, at: &str, watch: bool) -> Vec<String> {
        match self.read(StreamRead::Children(path(at)), watch).await {
            Ok(StreamAnswer::Children { names, .. }) => names,
            other => panic!("{other:?}"),
        }
    }

    /// Writes. The next item must be the reply.
    pub(crate) async fn write(&mut self, ops: Vec<Op>) -> Answered {
        self.ask_write(ops).await;
        answered(self.reply().await)
    }

    /// Writes one operation, which must succeed.
    pub(crate) async fn does(&mut self, op: Op) {
        let done = self.write(vec![op]).await;
        assert!(done.is_ok(), "{done:?}");
    }

    /// Waits until the node has applied every acknowledged write.
    pub(crate) async fn sync(&mut self) {
        let tag = self.next_tag();
        self.stream.sync(tag).await;
        assert_eq!(answered(self.reply().await), Ok(StreamAnswer::Done));
    }

    pub(crate) fn tag(&mut self) -> i64 {
        self.next_tag()
    }
}

pub(crate) type Answered = Result<StreamAnswer, Rejection>;

/// Returns the answer, or the machine's rejection.
pub(crate) fn answered(reply: StreamReply) -> Answered {
    match reply.result {
        Ok(answer) => Ok(answer),
        Err(Failure::Rejected(Rejection::Tree(TreeRejection::OfOperation { why, .. }))) => {
            Err(*why)
        }
        Err(Failure::Rejected(rejection)) => Err(rejection),
        Err(other) => panic!("neither an answer nor a rejection: {other:?}"),
    }
}
