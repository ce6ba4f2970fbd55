//! The detail of a record: one line of bounded length.
//!
//! It names what the change did, and the holds and waits that it ended, as far as they fit.

use std::fmt::{self, Write as _};

use holdfast_types::{AuditRecord, Event, LockEvent, LossCause};

/// A text of at most [`AuditRecord::DETAIL_MAX`] bytes. A longer one ends with "…".
#[derive(Debug, Default)]
pub(super) struct Detail(pub(super) String);

impl Detail {
    const ELLIPSIS: &str = "…";

    /// Adds a part after a comma.
    pub(super) fn add(&mut self, part: impl fmt::Display) {
        if self.0.ends_with(Self::ELLIPSIS) {
            return;
        }
        let before = self.0.len();
        let comma = if self.0.is_empty() { "" } else { ", " };
        // Writing into a string does not fail.
        let _infallible = write!(self.0, "{comma}{part}");
        if self.0.len() > AuditRecord::DETAIL_MAX - Self::ELLIPSIS.len() {
            self.0.truncate(before);
            self.0.push_str(Self::ELLIPSIS);
        }
    }

    pub(super) fn of(parts: impl IntoIterator<Item: fmt::Display>) -> Self {
        let mut detail = Self::default();
        for part in parts {
            detail.add(part);
        }
        detail
    }

    pub(super) fn add_ended(&mut self, event: &Event) {
        match event {
            Event::Lock(LockEvent::HoldEnded { lock, session, token, cause, .. })
                if *cause == LossCause::Broken =>
            {
                self.add(format_args!("{session} lost {lock} (token {token})"));
            }
            Event::Lock(LockEvent::WaitEnded { lock, session, cause, .. })
                if *cause == LossCause::Broken =>
            {
                self.add(format_args!("{session} left the queue of {lock}"));
            }
            Event::Lock(_)
            | Event::Session(_)
            | Event::Tree(_)
            | Event::Recipe(_)
            | Event::MemberChanged { .. }
            | Event::LevelChanged { .. }
            | Event::AuthChanged
            | Event::VerifyState
            | Event::SealChanged
            | Event::Audited { .. } => {}
        }
    }
}
