//! The spans of `tracing` that a subscriber of the program receives.

use std::io::Write;
use std::sync::Mutex;

use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::format::FmtSpan;

use super::*;

/// The text that the subscriber of the test has written.
#[derive(Clone, Default)]
struct RecordedSpans(Arc<Mutex<Vec<u8>>>);

impl Write for RecordedSpans {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl RecordedSpans {
    /// Records the spans of this thread that end before the guard is dropped.
    fn start() -> (Self, DefaultGuard) {
        let recorded = Self::default();
        let writer = recorded.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .with_ansi(false)
            .with_span_events(FmtSpan::CLOSE)
            .with_writer(move || writer.clone())
            .finish();
        (recorded, tracing::subscriber::set_default(subscriber))
    }

    /// Ended spans with this name and first field, without the timing.
    fn ended(&self, begin: &str) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let spans = text.lines().filter_map(|line| line.split_once("DEBUG ")?.1.split_once('}'));
        let ended =
            spans.filter(|(span, rest)| span.starts_with(begin) && rest.contains(": close"));
        ended.map(|(span, _)| span.to_owned()).collect()
    }
}

#[tokio::test]
async fn an_acquire_and_a_release_have_one_span_each() {
    let (address, _) = lock_node(|call| match call {
        0 => Some(problem("outcome-unknown", 503, true)),
        _ => Some((200, grant(7, 0, 30_000))),
    })
    .await;
    let (recorded, _subscriber) = RecordedSpans::start();
    let guard = client([address]).lock("job").acquire().await.unwrap();
    let session = guard.session().to_string();
    guard.release().await.unwrap();
    let acquired = recorded.ended("acquire{lock=job");
    assert_eq!(acquired.len(), 1, "one for both calls: {acquired:?}");
    let begin = format!("acquire{{lock=job session={session} attempt=");
    assert!(acquired[0].starts_with(&begin), "{acquired:?}");
    assert_eq!(recorded.ended("release{"), [format!("release{{lock=job session={session}")]);
}

#[tokio::test]
async fn a_dropped_guard_has_the_span_of_its_release_in_the_background() {
    let (address, _) = lock_node(|_| Some((200, grant(7, 0, 30_000)))).await;
    let (recorded, _subscriber) = RecordedSpans::start();
    let client = client([address]);
    let guard = client.lock("job").acquire().await.unwrap();
    drop(guard);
    until("it is released", || !recorded.ended("release{lock=job").is_empty()).await;
    assert!(recorded.ended("release{")[0].ends_with("background=true"));
}
