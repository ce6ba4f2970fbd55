//! Plays a script against one server and records the transcript.
//!
//! A run has its own sessions and its own folder. After every step each connection sends a `sync`, so that all events
//! of the step have arrived: events to other clients are recorded with the step that caused them. Events to the client
//! that caused them keep their position between the replies.

mod folder;
mod session;

use std::net::SocketAddr;

use crate::script::{SLOTS, Step};
use session::Session;

/// The addresses of a server.
#[derive(Clone, Debug)]
pub struct Target {
    /// The nodes; each new connection of a session goes to the next one.
    pub nodes: Vec<SocketAddr>,
}

/// The transcript by steps: lines in the format of [`crate::compare()`].
pub type Transcript = Vec<Vec<String>>;

/// Plays a script in a new folder of this name (e.g. `/run7`).
///
/// # Errors
/// The server cannot be reached, or the folder cannot be created.
pub async fn play(target: &Target, folder: &str, steps: &[Step]) -> Result<Transcript, String> {
    folder::make(target, folder).await?;
    let mut player =
        Player { target, folder, sessions: std::array::from_fn(Session::new), lines: Vec::new() };
    let mut transcript = Vec::new();
    for step in steps {
        player.step(step).await?;
        player.settle(step).await;
        transcript.push(std::mem::take(&mut player.lines));
    }
    player.end().await?;
    Ok(transcript)
}

struct Player<'a> {
    target: &'a Target,
    folder: &'a str,
    sessions: [Session; SLOTS],
    lines: Vec<String>,
}

impl Player<'_> {
    async fn step(&mut self, step: &Step) -> Result<(), String> {
        let (target, folder) = (self.target, self.folder);
        match step {
            Step::Open { slot } => self.sessions[*slot].open(target).await,
            Step::Resume { slot } => self.sessions[*slot].resume(target).await,
            Step::Impostor { slot } => self.sessions[*slot].impostor(target).await,
            Step::Drop { slot } => {
                self.sessions[*slot].cut();
                Ok(())
            }
            Step::Close { slot } => {
                self.sessions[*slot].close(folder).await;
                Ok(())
            }
            Step::Burst { slot, requests } => {
                let requests = requests.iter().map(|each| folder::inside(each, folder)).collect();
                self.sessions[*slot].burst(requests).await;
                Ok(())
            }
        }
    }

    /// Waits for the effects of the step and records them, those of the client that caused them first. The end of a
    /// session deletes its nodes in no particular order.
    async fn settle(&mut self, step: &Step) {
        let actor = step.slot();
        for slot in std::iter::once(actor).chain((0..SLOTS).filter(|slot| *slot != actor)) {
            let session = &mut self.sessions[slot];
            session.settle(self.folder).await;
            let mut lines = session.take_lines();
            if matches!(step, Step::Close { .. }) {
                lines.sort();
            }
            self.lines.extend(lines.into_iter().map(|line| format!("{slot} {line}")));
        }
    }

    async fn end(&mut self) -> Result<(), String> {
        for session in &mut self.sessions {
            session.end(self.target, self.folder).await?;
        }
        Ok(())
    }
}
