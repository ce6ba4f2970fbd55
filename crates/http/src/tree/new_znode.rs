//! How a call creates a znode: its kind, its access list, and missing directories.

use std::time::Duration;

use holdfast_api::{ErrorCode, ParamError};
use holdfast_types::{AclEntry, Create, CreateKind, Data, ZnodePath};

use crate::status::HttpError;

#[derive(Clone, Debug)]
pub(super) struct NewZnode {
    /// `None` creates a persistent znode.
    pub(super) kind: Option<CreateKind>,
    /// `None` grants every permission to every client.
    pub(super) acl: Option<Vec<AclEntry>>,
    pub(super) parents: bool,
}

impl NewZnode {
    /// Builds the operation that creates the znode at a path.
    ///
    /// # Errors
    /// `bad-name` for a path at which no node can be created.
    pub(super) fn at(self, path: &ZnodePath, data: Data) -> Result<Create, HttpError> {
        let (directory, name) = ZnodePath::for_create(path.as_str(), false)
            .map_err(|error| ParamError::new(ErrorCode::BadName, error.to_string()))?;
        Ok(self.named(directory, name, data, false))
    }

    /// Builds the operation that creates the znode in a directory. The name of a sequential znode gets the directory's
    /// next number.
    pub(super) fn named(
        self,
        directory: ZnodePath,
        name: String,
        data: Data,
        sequential: bool,
    ) -> Create {
        let Self { kind, acl, parents } = self;
        let kind = kind.unwrap_or(CreateKind::Persistent);
        Create { directory, name, data, kind, sequential, acl, parents }
    }
}

/// The parameters that choose the kind of a new znode.
#[derive(Clone, Copy, Debug)]
pub(super) struct KindParams {
    pub(super) ephemeral: bool,
    pub(super) container: bool,
    pub(super) ttl: Option<Duration>,
}

impl KindParams {
    /// Returns the kind, or `None` if no parameter selects one.
    ///
    /// # Errors
    /// [`ParamError`] for two kinds, and for an ephemeral znode without a session.
    pub(super) fn kind(self, has_session: bool) -> Result<Option<CreateKind>, ParamError> {
        let ephemeral = self.ephemeral.then_some(("ephemeral", CreateKind::Ephemeral));
        let container = self.container.then_some(("container", CreateKind::Container));
        let ttl = self.ttl.map(|ttl| ("ttl", CreateKind::Ttl { ms: holdfast_types::millis(ttl) }));
        let mut kinds = [ephemeral, container, ttl].into_iter().flatten();
        match (kinds.next(), kinds.next()) {
            (None, _) => Ok(None),
            (Some((_, CreateKind::Ephemeral)), None) if !has_session => {
                let detail = "an ephemeral znode requires a session";
                Err(ParamError::invalid("session", detail)
                    .hint("add ?session=ID of an open session (PUT /v1/sessions/ID opens one)"))
            }
            (Some((_, kind)), None) => Ok(Some(kind)),
            (Some((one, _)), Some((other, _))) => {
                let detail = format!("'{one}' and '{other}' are two kinds of znode");
                let hint = match (one, other) {
                    ("ephemeral", "ttl") => {
                        "an ephemeral znode lives as long as its session: PUT /v1/sessions/ID?ttl=30s"
                    }
                    _ => "choose one",
                };
                Err(ParamError::invalid(other, detail).hint(hint))
            }
        }
    }
}
