//! Four-letter words: status commands for monitoring, answered as text in the layout of ZooKeeper 3.8.
//!
//! A word that is not on the allow-list is rejected. With authorization, a caller needs the permission `metrics read`, which
//! only a certificate can prove here, except for `ruok`, `isro` and `srvr`. Bounds: `dump` shows at most [`SESSIONS_SHOWN_MAX`] sessions; the
//! other answers are bounded by the number of connections.

mod connections;
mod node;

use holdfast_service::Service;
use holdfast_types::Right;
use holdfast_zkwire::FourLetterWord;

use crate::context::ServerContext;

const SESSIONS_SHOWN_MAX: usize = 10_000;
/// The version in ZooKeeper's format. Clients check features by its first three numbers.
const VERSION: &str = concat!("3.8.0-holdfast-", env!("CARGO_PKG_VERSION"), ", built by cargo");
/// The answer of a node without a leader to most words.
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests\n";

pub(crate) async fn answer(
    context: &ServerContext,
    word: FourLetterWord,
    caller: &Service,
) -> String {
    if !context.config.words.allow(word) {
        return format!("{} is not executed because it is not in the whitelist.\n", word.as_str());
    }
    let is_open =
        matches!(word, FourLetterWord::Ruok | FourLetterWord::Isro | FourLetterWord::Srvr);
    if !is_open && caller.require(Right::MetricsRead).is_err() {
        return format!("{} needs the permission metrics read.\n", word.as_str());
    }
    let serves = context.service.leader().is_some();
    match word {
        FourLetterWord::Ruok => "imok".to_owned(),
        FourLetterWord::Isro => if serves { "rw" } else { "null" }.to_owned(),
        FourLetterWord::Envi => node::environment(),
        FourLetterWord::Conf => node::configuration(context).await,
        FourLetterWord::Dirs => node::directories(context).await,
        FourLetterWord::Crst => {
            context.connections.reset_connections();
            "Connection stats reset.\n".to_owned()
        }
        FourLetterWord::Srst => {
            context.connections.reset_totals();
            "Server stats reset.\n".to_owned()
        }
        _ if !serves => NOT_SERVING.to_owned(),
        FourLetterWord::Srvr => node::server(context, ""),
        FourLetterWord::Stat => node::server(context, &connections::brief(context)),
        FourLetterWord::Mntr => node::monitor(context).await,
        FourLetterWord::Cons => connections::detailed(context),
        FourLetterWord::Dump => connections::dump(context),
        FourLetterWord::Wchs => connections::watch_summary(context),
        FourLetterWord::Wchc => connections::watches_by_session(context),
        FourLetterWord::Wchp => connections::watches_by_path(context),
    }
}
