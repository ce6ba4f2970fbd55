//! Groups and cached parts of the tree without async; see [`crate::recipes::Group`] and [`crate::Subtree`].

use std::sync::Arc;
use std::time::Duration;

use super::{Client, Engine};
use crate::recipes::{self, Member};
use crate::{Change, Error, Loss};

impl Client {
    /// A group; see [`crate::Client::group`].
    pub fn group(&self, name: impl Into<String>) -> Group {
        Group { engine: self.0.clone(), group: self.0.client.group(name) }
    }

    /// A part of the tree; see [`crate::Client::subtree`].
    ///
    /// # Errors
    /// As there.
    pub fn subtree(&self, path: impl AsRef<str>) -> Result<Subtree, Error> {
        let subtree = self.0.run(self.0.client.subtree(path))?;
        Ok(Subtree { subtree, engine: self.0.clone() })
    }
}

/// A group; see [`recipes::Group`].
#[derive(Clone, Debug)]
pub struct Group {
    engine: Arc<Engine>,
    group: recipes::Group,
}

impl Group {
    /// See [`recipes::Group::join`].
    ///
    /// # Errors
    /// As there.
    pub fn join(&self, value: impl Into<String>) -> Result<Membership, Error> {
        let membership = self.engine.run(self.group.join(value))?;
        Ok(Membership { membership, engine: self.engine.clone() })
    }

    /// See [`recipes::Group::members`].
    ///
    /// # Errors
    /// As there.
    pub fn members(&self) -> Result<Vec<Member>, Error> {
        self.engine.run(self.group.members())
    }

    /// See [`recipes::Group::follow`].
    ///
    /// # Errors
    /// As there.
    pub fn follow(&self) -> Result<Subtree, Error> {
        let subtree = self.engine.run(self.group.follow())?;
        Ok(Subtree { subtree, engine: self.engine.clone() })
    }
}

/// A membership; see [`recipes::Membership`].
#[derive(Debug)]
#[must_use = "dropping the membership leaves the group"]
pub struct Membership {
    membership: recipes::Membership,
    /// Last, so that the runtime outlives the membership.
    engine: Arc<Engine>,
}

impl Membership {
    /// See [`recipes::Membership::ensure`].
    ///
    /// # Errors
    /// As there.
    pub fn ensure(&self) -> Result<(), Loss> {
        self.membership.ensure()
    }

    /// See [`recipes::Membership::say`].
    ///
    /// # Errors
    /// As there.
    pub fn say(&self, value: impl Into<String>) -> Result<(), Error> {
        self.engine.run(self.membership.say(value))
    }

    /// See [`recipes::Membership::leave`].
    ///
    /// # Errors
    /// As there.
    pub fn leave(self) -> Result<(), Error> {
        let Self { membership, engine } = self;
        engine.run(membership.leave())
    }
}

/// A part of the tree; see [`crate::Subtree`], which it shows.
#[derive(Debug)]
pub struct Subtree {
    subtree: crate::Subtree,
    engine: Arc<Engine>,
}

impl std::ops::Deref for Subtree {
    type Target = crate::Subtree;

    fn deref(&self) -> &crate::Subtree {
        &self.subtree
    }
}

impl Subtree {
    /// Waits up to `patience` for the next change and takes it in; none if there is none. See [`crate::Subtree::next`].
    ///
    /// # Errors
    /// As there.
    pub fn next_within(&mut self, patience: Duration) -> Result<Option<Change>, Error> {
        let subtree = &mut self.subtree;
        let next = async { tokio::time::timeout(patience, subtree.next()).await };
        self.engine.run(async { next.await.ok().transpose() })
    }
}
