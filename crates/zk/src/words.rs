//! Four-letter words: what monitoring and people with `nc` ask, answered as text.
//!
//! Owns which word shows what, in the layout that the programs which read them know from `ZooKeeper` 3.8. Refuses to know
//! sockets. Words that are not on the allow-list say so and show nothing.
//!
//! Bounds: `dump` shows at most [`SESSIONS_SHOWN_MAX`] sessions; the rest show what this node's connections have, which
//! is bounded with them.

mod connections;
mod node;
mod watches;

use holdfast_zkwire::FourLetterWord;

use crate::connection::Front;

/// Sessions that `dump` shows.
const SESSIONS_SHOWN_MAX: usize = 10_000;
/// What clients and monitoring take for a server they know. Feature checks read the first three numbers.
const VERSION: &str = concat!("3.8.0-holdfast-", env!("CARGO_PKG_VERSION"), ", built by cargo");
/// Said instead of an answer that only a node with a leader has.
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests\n";

/// The answer to a word.
pub(crate) async fn answer(front: &Front, word: FourLetterWord) -> String {
    if !front.config.words.allow(word) {
        return format!("{} is not executed because it is not in the whitelist.\n", word.as_str());
    }
    let serves = front.service.leader().is_some();
    match word {
        FourLetterWord::Ruok => "imok".to_owned(),
        FourLetterWord::Isro => if serves { "rw" } else { "null" }.to_owned(),
        FourLetterWord::Envi => node::environment(),
        FourLetterWord::Conf => node::configuration(front).await,
        FourLetterWord::Dirs => node::directories(front).await,
        FourLetterWord::Crst => {
            front.ledger.reset_accounts();
            "Connection stats reset.\n".to_owned()
        }
        FourLetterWord::Srst => {
            front.ledger.reset_totals();
            "Server stats reset.\n".to_owned()
        }
        _ if !serves => NOT_SERVING.to_owned(),
        FourLetterWord::Srvr => node::server(front, ""),
        FourLetterWord::Stat => node::server(front, &connections::brief(front)),
        FourLetterWord::Mntr => node::monitor(front).await,
        FourLetterWord::Cons => connections::detailed(front),
        FourLetterWord::Dump => connections::dump(front),
        FourLetterWord::Wchs => watches::summary(front),
        FourLetterWord::Wchc => watches::by_session(front),
        FourLetterWord::Wchp => watches::by_path(front),
    }
}
