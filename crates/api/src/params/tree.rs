//! Reading and changing nodes of the tree. Data travels as the body, raw; versions as `If-Match`.

use std::time::Duration;

use holdfast_types::{AclEntry, Create, CreateKind, RequestId, SessionName, ZnodePath};

use super::query::Query;
use super::{LIST_LIMIT_DEFAULT, REDIRECT, ReadParams, about, limit, name};
use crate::acl::parse_list;
use crate::duration::check_bounds;
use crate::{
    DURATION_MAX, ErrorCode, Fields, Param, ParamList, Refusal, format_acl_entry, parse_duration,
};

/// Bounds of a node's time-to-live.
pub(crate) const NODE_TTL: (Duration, Duration) = (Duration::from_millis(1), DURATION_MAX);

/// For whom the tree is changed, and under which name a retry gets the first answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeParams {
    /// The session: owner of ephemerals, keeper of remembered answers.
    pub session: Option<SessionName>,
    /// The attempt. Needs a session.
    pub request: Option<RequestId>,
    /// Answer 307 to the leader.
    pub redirect: bool,
}

impl ChangeParams {
    /// What setting an access list takes in its query.
    pub const KEYS: ParamList =
        ParamList::of_call(&[about::SESSION, about::REQUEST, about::ACL, about::REDIRECT]);

    /// Checks every parameter; `header` is the request id that came as a header.
    ///
    /// # Errors
    /// [`Refusal`] names the parameter and what to write instead.
    pub fn parse(fields: &Fields<'_>, header: Option<&str>) -> Result<Self, Refusal> {
        let session = name(fields, "session", SessionName::new)?;
        let query = name(fields, "request", RequestId::new)?;
        let header = header.map(RequestId::new).transpose();
        let header = header.map_err(|error| Refusal::bad_name("request", &error))?;
        if query.is_some() && header.is_some() {
            let detail = "the request id is given twice: as 'request' and as Idempotency-Key";
            return Err(
                Refusal::of("request", ErrorCode::InvalidArgument, detail).hint("give it once")
            );
        }
        let request = query.or(header);
        if request.is_some() && session.is_none() {
            let detail = "a request id is remembered by a session, and none is named";
            return Err(Refusal::of("session", ErrorCode::InvalidArgument, detail)
                .hint("add ?session=ID of an open session, or leave the request id out"));
        }
        Ok(Self { session, request, redirect: fields.flag(REDIRECT) })
    }

    fn write(&self, query: &mut Query) {
        query.text("session", self.session.as_ref().map(SessionName::as_str));
        query.text("request", self.request.as_ref().map(RequestId::as_str));
        query.flag(REDIRECT, self.redirect);
    }
}

/// What a node is made as. Concerns its creation alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MakeParams {
    /// Which kind; none means persistent.
    pub kind: Option<CreateKind>,
    /// Its access list; none lets everybody do everything.
    pub acl: Option<Vec<AclEntry>>,
    /// Create missing directories as well.
    pub parents: bool,
}

impl MakeParams {
    /// Checks kind and list.
    pub(crate) fn parse(fields: &Fields<'_>, session: bool) -> Result<Self, Refusal> {
        let kind = kind(fields)?;
        if kind == Some(CreateKind::Ephemeral) && !session {
            let detail = "an ephemeral node needs the session that it goes with";
            return Err(Refusal::of("session", ErrorCode::InvalidArgument, detail)
                .hint("add ?session=ID of an open session (PUT /v1/sessions/ID opens one)"));
        }
        let acl = parse_list(fields.values("acl"))?;
        Ok(Self { kind, acl, parents: fields.flag("parents") })
    }

    fn write(&self, query: &mut Query) {
        match self.kind {
            None | Some(CreateKind::Persistent) => {}
            Some(CreateKind::Container) => query.flag("container", true),
            Some(CreateKind::Ephemeral) => query.flag("ephemeral", true),
            Some(CreateKind::Ttl { ms }) => query.duration("ttl", Some(Duration::from_millis(ms))),
        }
        for entry in self.acl.iter().flatten() {
            query.text("acl", Some(&format_acl_entry(entry)));
        }
        query.flag("parents", self.parents);
    }
}

/// `PUT /v1/tree/{path}`: create a node, or replace its data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PutParams {
    /// For whom.
    pub change: ChangeParams,
    /// As what. With a kind or a list the call creates, and replaces nothing.
    pub make: MakeParams,
}

impl PutParams {
    /// What the call takes.
    pub const KEYS: ParamList = ParamList::of_call(&[
        about::SESSION,
        about::REQUEST,
        Param::flag(
            "ephemeral",
            "Goes with its session, which must be open; has no children. Needs session",
        ),
        Param::flag("container", "Swept when its last child has gone"),
        Param::duration(
            "ttl",
            NODE_TTL,
            "Swept when it has no children and was not changed for so long",
        ),
        about::ACL,
        Param::flag("parents", "Create missing directories as well"),
        about::REDIRECT,
    ]);

    /// Checks every parameter.
    ///
    /// # Errors
    /// [`Refusal`] names the parameter and what to write instead.
    pub fn parse(fields: &Fields<'_>, request: Option<&str>) -> Result<Self, Refusal> {
        let change = ChangeParams::parse(fields, request)?;
        let make = MakeParams::parse(fields, change.session.is_some())?;
        Ok(Self { change, make })
    }

    /// Whether the call creates and never replaces.
    pub fn only_creates(&self) -> bool {
        self.make.kind.is_some() || self.make.acl.is_some()
    }

    /// The query that says the same.
    pub fn to_query(&self) -> String {
        let mut query = Query::default();
        self.change.write(&mut query);
        self.make.write(&mut query);
        query.0
    }
}

/// `POST /v1/tree/{dir}?sequential`: create a node whose name gets the next number of the directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PostParams {
    /// For whom.
    pub change: ChangeParams,
    /// As what.
    pub make: MakeParams,
    /// The beginning of its name; may be empty.
    pub name: String,
}

impl PostParams {
    /// What the call takes.
    pub const KEYS: ParamList = ParamList::of_call(&[
        Param::flag("sequential", "Says that the name gets a number").needed("true"),
        Param::text_or_empty("name", "The beginning of its name; contains no '/'"),
        about::SESSION,
        about::REQUEST,
        Param::flag(
            "ephemeral",
            "Goes with its session, which must be open; has no children. Needs session",
        ),
        Param::flag("container", "Swept when its last child has gone"),
        Param::duration(
            "ttl",
            NODE_TTL,
            "Swept when it has no children and was not changed for so long",
        ),
        about::ACL,
        Param::flag("parents", "Create missing directories as well"),
        about::REDIRECT,
    ]);

    /// Checks every parameter.
    ///
    /// # Errors
    /// [`Refusal`] names the parameter and what to write instead; `sequential` is needed.
    pub fn parse(fields: &Fields<'_>, request: Option<&str>) -> Result<Self, Refusal> {
        if !fields.flag("sequential") {
            let detail = "a POST makes a node whose name is numbered, and must say so";
            return Err(Refusal::of("sequential", ErrorCode::InvalidArgument, detail)
                .hint("add ?sequential; to create a node under a name of your own, PUT it"));
        }
        let change = ChangeParams::parse(fields, request)?;
        let make = MakeParams::parse(fields, change.session.is_some())?;
        let name = fields.value("name").unwrap_or_default().to_owned();
        if name.contains('/') {
            let detail = "'name' is the beginning of one name and contains no '/'";
            return Err(Refusal::of("name", ErrorCode::BadName, detail)
                .hint("the directory is in the path of the call"));
        }
        Ok(Self { change, make, name })
    }

    /// The query that says the same.
    pub fn to_query(&self) -> String {
        let mut query = Query::default();
        query.flag("sequential", true);
        query.text("name", Some(self.name.as_str()).filter(|name| !name.is_empty()));
        self.change.write(&mut query);
        self.make.write(&mut query);
        query.0
    }
}

/// `DELETE /v1/tree/{path}`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteParams {
    /// For whom.
    pub change: ChangeParams,
    /// With everything below it.
    pub recursive: bool,
}

impl DeleteParams {
    /// What the call takes.
    pub const KEYS: ParamList = ParamList::of_call(&[
        about::SESSION,
        about::REQUEST,
        Param::flag("recursive", "With everything below it, all or nothing"),
        about::REDIRECT,
    ]);

    /// Checks every parameter.
    ///
    /// # Errors
    /// [`Refusal`] names the parameter and what to write instead.
    pub fn parse(fields: &Fields<'_>, request: Option<&str>) -> Result<Self, Refusal> {
        let change = ChangeParams::parse(fields, request)?;
        Ok(Self { change, recursive: fields.flag("recursive") })
    }

    /// The query that says the same.
    pub fn to_query(&self) -> String {
        let mut query = Query::default();
        self.change.write(&mut query);
        query.flag("recursive", self.recursive);
        query.0
    }
}

/// What of a node is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aspect {
    /// Its data, as the body.
    #[default]
    Data,
    /// Its stat.
    Stat,
    /// Its children with their stats, page by page.
    Children,
    /// It and everything below it, page by page.
    Recursive,
    /// Its access list.
    Acl,
}

impl Aspect {
    const NAMED: [(&'static str, Self); 4] = [
        ("stat", Self::Stat),
        ("children", Self::Children),
        ("recursive", Self::Recursive),
        ("acl", Self::Acl),
    ];

    fn parse(fields: &Fields<'_>) -> Result<Self, Refusal> {
        let mut asked = Self::NAMED.into_iter().filter(|(name, _)| fields.flag(name));
        match (asked.next(), asked.next()) {
            (None, _) => Ok(Self::Data),
            (Some((_, aspect)), None) => Ok(aspect),
            (Some((one, _)), Some((other, _))) => {
                let detail = format!("'{one}' and '{other}' are two questions");
                Err(Refusal::of(other, ErrorCode::InvalidArgument, detail)
                    .hint("ask them in two calls"))
            }
        }
    }
}

/// `GET /v1/tree/{path}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeParams {
    /// What is wanted.
    pub aspect: Aspect,
    /// Items of one page, 1 to [`crate::LIST_LIMIT_MAX`]. Lists only.
    pub limit: usize,
    /// Where the previous page ended. Lists only.
    pub page_token: Option<String>,
    /// How to read.
    pub read: ReadParams,
}

impl Default for NodeParams {
    fn default() -> Self {
        let (aspect, limit) = (Aspect::Data, LIST_LIMIT_DEFAULT);
        Self { aspect, limit, page_token: None, read: ReadParams::default() }
    }
}

impl NodeParams {
    /// What the call takes.
    pub const KEYS: ParamList = ParamList::of_call(&[
        Param::flag("stat", "Its stat as JSON, instead of its data"),
        Param::flag(
            "children",
            "Its children with their stats, in order of their names, page by page",
        ),
        Param::flag(
            "recursive",
            "It and everything below it that the caller may read, page by page",
        ),
        Param::flag("acl", "Its access list"),
        about::LIMIT,
        about::PAGE_TOKEN,
        about::STALE,
        about::REDIRECT,
    ]);

    /// Checks every parameter.
    ///
    /// # Errors
    /// [`Refusal`] names the parameter and what to write instead.
    pub fn parse(fields: &Fields<'_>) -> Result<Self, Refusal> {
        let aspect = Aspect::parse(fields)?;
        let paged = matches!(aspect, Aspect::Children | Aspect::Recursive);
        let stray = ["limit", "page_token"].into_iter().find(|key| fields.value(key).is_some());
        if let (Some(key), false) = (stray, paged) {
            let detail = format!("'{key}' belongs to a list");
            return Err(Refusal::of(key, ErrorCode::InvalidArgument, detail)
                .hint("add ?children or ?recursive, or leave it out"));
        }
        let page_token = fields.value("page_token").map(str::to_owned);
        Ok(Self { aspect, limit: limit(fields)?, page_token, read: ReadParams::parse(fields) })
    }

    /// Where the page of a subtree begins.
    ///
    /// # Errors
    /// [`Refusal`] if the page token is none that a subtree gave out.
    pub fn after_path(&self) -> Result<Option<ZnodePath>, Refusal> {
        let token = self.page_token.as_deref().map(ZnodePath::new);
        token.transpose().map_err(|error| Refusal::bad_name("page_token", &error))
    }

    /// The query that says the same.
    pub fn to_query(&self) -> String {
        let mut query = Query::default();
        for (name, aspect) in Aspect::NAMED {
            query.flag(name, self.aspect == aspect);
        }
        let limit = (self.limit != LIST_LIMIT_DEFAULT).then(|| self.limit.to_string());
        query.text("limit", limit.as_deref());
        query.text("page_token", self.page_token.as_deref());
        query.flag("stale", self.read.stale);
        query.flag(REDIRECT, self.read.redirect);
        query.0
    }
}

/// The one kind that is asked for.
fn kind(fields: &Fields<'_>) -> Result<Option<CreateKind>, Refusal> {
    let ttl = ttl(fields)?;
    let ephemeral = fields.flag("ephemeral").then_some(("ephemeral", CreateKind::Ephemeral));
    let container = fields.flag("container").then_some(("container", CreateKind::Container));
    let ttl = ttl.map(|ms| ("ttl", CreateKind::Ttl { ms }));
    let mut asked = [ephemeral, container, ttl].into_iter().flatten();
    match (asked.next(), asked.next()) {
        (None, _) => Ok(None),
        (Some((_, kind)), None) => Ok(Some(kind)),
        (Some((one, _)), Some((other, _))) => {
            let detail = format!("'{one}' and '{other}' are two kinds of node");
            let hint = match (one, other) {
                ("ephemeral", "ttl") => {
                    "an ephemeral lives as long as its session: PUT /v1/sessions/ID?ttl=30s"
                }
                _ => "choose one",
            };
            Err(Refusal::of(other, ErrorCode::InvalidArgument, detail).hint(hint))
        }
    }
}

/// A node's time-to-live, milliseconds.
fn ttl(fields: &Fields<'_>) -> Result<Option<u64>, Refusal> {
    const ADVICE: &str = "leave ttl out for a node that stays";
    let Some(text) = fields.value("ttl") else { return Ok(None) };
    let bounds = NODE_TTL;
    let checked =
        parse_duration(text).and_then(|d| check_bounds(text, d, "a node's ttl", bounds, ADVICE));
    let ms = checked.map_err(|error| Refusal::bad_duration("ttl", &error))?.as_millis();
    Ok(Some(u64::try_from(ms).unwrap_or(u64::MAX).min(Create::TTL_MAX_MS)))
}

#[cfg(test)]
mod tests;
