//! holdfast's lock through the Rust client: a renewed session, and a guard with its deadline.

use std::time::{Duration, Instant};

use holdfast_client::{Client, Error, Guard};

use crate::limitation::Limitation::ExpiresUnderHolder;
use crate::lock::{
    Adapter, HeldLock, LoadUsage, LockClient, LockError, LockKind, Target, UsageCounter,
};

pub const LOCK: LockKind = LockKind {
    name: "holdfast-sdk",
    limitations: &[ExpiresUnderHolder],
    connect: |target| {
        Box::pin(
            async move { Ok(Box::new(HoldfastRustClient::new(&target)?) as Box<dyn LockClient>) },
        )
    },
};

/// A client whose usage does not count background renewals.
#[derive(Debug)]
pub struct HoldfastRustClient {
    client: Client,
    guard: Option<Guard>,
    counter: UsageCounter,
}

impl HoldfastRustClient {
    fn new(target: &Target) -> Result<Self, LockError> {
        target.node()?;
        let nodes = target.addresses.nodes.iter().map(ToString::to_string);
        let client = Client::builder(nodes).ttl(target.settings.ttl).build();
        let client = client.map_err(|error| LockError::Rejected(error.to_string()))?;
        Ok(Self { client, guard: None, counter: UsageCounter::default() })
    }
}

impl Adapter for HoldfastRustClient {
    async fn acquire(&mut self, lock: &str, timeout: Duration) -> Result<HeldLock, LockError> {
        self.counter.round_trip();
        let request = self.client.lock(lock);
        let guard = if timeout.is_zero() {
            request.try_acquire().await?
        } else {
            request.timeout(timeout).acquire().await?
        };
        let held = HeldLock::new(lock, "").with_token(guard.token().0);
        let held = held.for_ttl(Instant::now(), guard.remaining());
        self.guard = Some(guard);
        Ok(held)
    }

    async fn release(&mut self, _held: HeldLock) -> Result<(), LockError> {
        let Some(guard) = self.guard.take() else {
            return Err(LockError::Lost("there is no guard".to_owned()));
        };
        self.counter.round_trip();
        Ok(guard.release().await?)
    }

    fn usage(&self) -> LoadUsage {
        self.counter.usage()
    }
}

impl From<Error> for LockError {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::Busy(_) => Self::Busy,
            Error::Lost(_) => Self::Lost(text),
            Error::Unavailable(_) | Error::OutcomeUnknown(_) => Self::Unreachable(text),
            Error::Rejected(_) | Error::UnexpectedResponse(_) | Error::InvalidArgument(_) => {
                Self::Rejected(text)
            }
        }
    }
}
