//! The API's description of itself: one [`Operation`] for each action, and the `OpenAPI` document made of them.
//!
//! Owns the vocabulary of operations; `operations` says what each action is in it, `document` writes it down. What can
//! be known from elsewhere is taken from there: methods and paths from `action`, parameters from the `Keys` that the
//! handlers parse with, bodies from the types that they write, statuses from `status`. Refuses to know any handler.

mod document;
mod elections;
mod node;
mod operations;
mod recipes;
mod sessions;
mod several;
mod tree;

use axum::http::StatusCode;
use holdfast_api::{ErrorCode, Keys, Schemas};
use serde_json::Value;

use crate::action::Action;

pub(crate) use document::{ABOUT, codes, document, path_parameter, tag};

/// What one action is, for those who call it.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    /// Unique, in camel case: what generated clients call it.
    pub(crate) id: &'static str,
    /// One line, without a full stop.
    pub(crate) summary: &'static str,
    /// What is good to know, in whole sentences.
    pub(crate) about: &'static str,
    /// The parameters that the handler takes.
    pub(crate) keys: Keys,
    /// Headers that it looks at, beside those that every call may have.
    pub(crate) headers: &'static [Header],
    /// How far it reaches into the cluster, and so how it can fail.
    pub(crate) reach: Reach,
    /// What it answers when it does what was asked.
    pub(crate) answers: Vec<Answer>,
    /// How it can fail, beside what follows from its parameters, its body and its reach.
    pub(crate) codes: &'static [ErrorCode],
}

/// How far a call reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The node answers by itself.
    Here,
    /// The cluster is asked.
    Read,
    /// The cluster is changed.
    Change,
}

impl Reach {
    /// How every call that reaches so far can fail.
    pub(crate) const fn codes(self) -> &'static [ErrorCode] {
        const READ: [ErrorCode; 6] = [
            ErrorCode::RateLimited,
            ErrorCode::Internal,
            ErrorCode::NoLeader,
            ErrorCode::ShuttingDown,
            ErrorCode::Starting,
            ErrorCode::DiskFull,
        ];
        const CHANGE: [ErrorCode; 8] = [
            ErrorCode::PayloadTooLarge,
            ErrorCode::RateLimited,
            ErrorCode::Internal,
            ErrorCode::NoLeader,
            ErrorCode::OutcomeUnknown,
            ErrorCode::ShuttingDown,
            ErrorCode::Starting,
            ErrorCode::DiskFull,
        ];
        match self {
            Self::Here => &[],
            Self::Read => &READ,
            Self::Change => &CHANGE,
        }
    }
}

/// A header of a call or an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    /// As it is written.
    pub(crate) name: &'static str,
    /// Whether it is a number.
    pub(crate) number: bool,
    /// What it means.
    pub(crate) about: &'static str,
}

impl Header {
    /// A header with text in it.
    pub(crate) const fn text(name: &'static str, about: &'static str) -> Self {
        Self { name, number: false, about }
    }

    /// A header with a number in it.
    pub(crate) const fn number(name: &'static str, about: &'static str) -> Self {
        Self { name, number: true, about }
    }
}

/// One answer of an operation.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// Its status.
    pub(crate) status: StatusCode,
    /// When it is given.
    pub(crate) about: &'static str,
    /// Its bodies, by media type; one of them comes.
    pub(crate) contents: Vec<(&'static str, Content)>,
    /// Headers that it has, beside those of every answer.
    pub(crate) headers: Vec<Header>,
}

/// What is in a body.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content {
    /// JSON of a type; several types of one media type are alternatives.
    Json(fn(&mut Schemas) -> Value),
    /// Text.
    Text,
    /// Bytes that mean nothing to us.
    Bytes,
}

impl Answer {
    /// Without a body.
    pub(crate) fn empty(status: StatusCode, about: &'static str) -> Self {
        Self { status, about, contents: Vec::new(), headers: Vec::new() }
    }

    /// With a JSON body.
    pub(crate) fn json(
        status: StatusCode,
        about: &'static str,
        schema: fn(&mut Schemas) -> Value,
    ) -> Self {
        Self::empty(status, about).or("application/json", Content::Json(schema))
    }

    /// The same, or with another body.
    pub(crate) fn or(mut self, media: &'static str, content: Content) -> Self {
        self.contents.push((media, content));
        self
    }

    /// The same with headers.
    pub(crate) fn with(mut self, headers: &[Header]) -> Self {
        self.headers.extend_from_slice(headers);
        self
    }
}

/// Actions that a method and a path lead to, with what they are.
pub(crate) fn all() -> impl Iterator<Item = (Action, Operation)> {
    Action::ALL.iter().filter_map(|action| Some((*action, operations::of(*action)?)))
}

#[cfg(test)]
mod tests;
