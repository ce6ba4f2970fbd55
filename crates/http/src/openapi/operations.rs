//! Which operation each action is. No arm is a wildcard: an action does not compile until it is described.

use axum::http::StatusCode;
use holdfast_api::{
    AcquireParams, AskParams, AskedBody, BrokenBody, ContentionBody, ErrorCode, ExplainedBody,
    FENCING_TOKEN, FenceBody, FenceParams, GrantBody, HOLDFAST_ENTRIES_LEFT, HandedBody,
    HistoryBody, HistoryParams, ListParams, LockBody, LocksBody, PolicyBody, PolicyParams,
    ReadParams, ReleaseParams, Schemas,
};

use super::{
    Answer, Content, Header, Operation, Reach, elections, node, recipes, sessions, several, tree,
};
use crate::action::Action;

/// The operation of an action; none for those that no method and path leads to.
pub(crate) fn of(action: Action) -> Option<Operation> {
    Some(match action {
        Action::Acquire => acquire(),
        Action::Release => release(),
        Action::SetPolicy => set_policy(),
        Action::AskRelease => ask_release(),
        Action::AcquireAll => several::acquire(),
        Action::ReleaseAll => several::release(),
        Action::ReadLock => read_lock(),
        Action::ListLocks => list_locks(),
        Action::Fence => fence(),
        Action::CreateSession => sessions::create(),
        Action::OpenSession => sessions::open(),
        Action::KeepAlive => sessions::keep_alive(),
        Action::KeepManyAlive => sessions::keep_many_alive(),
        Action::History => history(),
        Action::CloseSession => sessions::close(),
        Action::ReadSession => sessions::read(),
        Action::ListSessions => sessions::list(),
        Action::PutNode => tree::put(),
        Action::PostNode => tree::post(),
        Action::ReadNode => tree::get(),
        Action::DeleteNode => tree::delete(),
        Action::Txn => tree::txn(),
        Action::Watch => tree::watch(),
        Action::Cluster => node::cluster(),
        Action::Live => node::live(),
        Action::Ready => node::ready(),
        Action::Metrics => node::metrics(),
        Action::Version => node::version(),
        Action::Explain => node::explain(),
        Action::OpenApi => node::openapi(),
        Action::Docs => node::docs(),
        Action::MakeLatch => recipes::make_latch(),
        Action::CountDown => recipes::count_down(),
        Action::AwaitLatch => recipes::await_latch(),
        Action::DeleteLatch => recipes::delete_latch(),
        Action::ArriveAtBarrier => recipes::arrive(),
        Action::ReadBarrier => recipes::read_barrier(),
        Action::LeaveBarrier => recipes::leave(),
        Action::EnterDoubleBarrier => recipes::enter(),
        Action::ReadDoubleBarrier => recipes::read_double_barrier(),
        Action::LeaveDoubleBarrier => recipes::leave_double_barrier(),
        Action::ReadCounter => recipes::read_counter(),
        Action::AddToCounter => recipes::add_to_counter(),
        Action::SetCounter => recipes::set_counter(),
        Action::DeleteCounter => recipes::delete_counter(),
        Action::Campaign => elections::campaign(),
        Action::ReadElection => elections::read(),
        Action::Resign => elections::resign(),
        Action::WrongMethod | Action::NoSuchPath => return None,
    })
}

fn acquire() -> Operation {
    const TOKEN: Header = Header::number(FENCING_TOKEN, "The fencing token of the grant");
    Operation {
        id: "acquireLock",
        summary: "Take a lock, or renew it",
        about: "2xx means that you hold the lock, 423 that you do not. The same call may be sent again at any time: it \
                renews, with the same token. Accept: text/plain answers just the token. With segments the answer names the segment.",
        keys: AcquireParams::KEYS,
        headers: &[],
        reach: Reach::Change,
        answers: vec![
            Answer::json(StatusCode::OK, "You hold the lock", Schemas::of::<GrantBody>)
                .or("text/plain", Content::Text)
                .or("text/event-stream", Content::Text)
                .with(&[TOKEN]),
        ],
        codes: &[
            ErrorCode::QuotaExceeded,
            ErrorCode::EphemeralParent,
            ErrorCode::SessionExpired,
            ErrorCode::ModeConflict,
            ErrorCode::Deadlock,
            ErrorCode::InUse,
            ErrorCode::LimitMismatch,
            ErrorCode::SegmentsMismatch,
            ErrorCode::AttemptOver,
            ErrorCode::NotReentrant,
            ErrorCode::LockClosed,
            ErrorCode::LockBusy,
            ErrorCode::WaitTimeout,
            ErrorCode::TooManyWaiters,
        ],
    }
}

fn set_policy() -> Operation {
    Operation {
        id: "setPolicy",
        summary: "Change the rules of a lock, while it is in use",
        about: "What is not named stays as it is. Nobody who holds is sent away. Answers the rules as they are then. A call that \
                names no rule is refused: GET shows the rules.",
        keys: PolicyParams::KEYS,
        headers: &[],
        reach: Reach::Change,
        answers: vec![Answer::json(StatusCode::OK, "The rules", Schemas::of::<PolicyBody>)],
        codes: &[ErrorCode::InUse, ErrorCode::QuotaExceeded, ErrorCode::EphemeralParent],
    }
}

fn ask_release() -> Operation {
    Operation {
        id: "askForRelease",
        summary: "Ask the holders of a lock to release it",
        about: "The call requires ask=release and does not acquire the lock: PUT acquires it. A holder learns of the request \
                from a keepalive that waits for events. With revoke the hold ends at the deadline. A second request replaces \
                the first.",
        keys: AskParams::KEYS,
        headers: &[],
        reach: Reach::Change,
        answers: vec![Answer::json(
            StatusCode::OK,
            "Who was asked is counted",
            Schemas::of::<AskedBody>,
        )],
        codes: &[ErrorCode::NotHolder, ErrorCode::SessionExpired, ErrorCode::NotFound],
    }
}

fn release() -> Operation {
    const LEFT: Header = Header::number(
        HOLDFAST_ENTRIES_LEFT,
        "If the call named an attempt: attempts that still keep the lock",
    );
    Operation {
        id: "releaseLock",
        summary: "Give a lock back, leave its queue, hand the lock on, or take it from its holders",
        about: "With token or attempt a copy of the call that arrives late changes nothing; without them the call gives up whatever \
                place the owner has when it arrives. With to another session holds the lock at once, under a new token; with force \
                everybody who holds it loses it. Of a lock that is cut into segments it is the caller's segment.",
        keys: ReleaseParams::KEYS,
        headers: &[],
        reach: Reach::Change,
        answers: vec![
            Answer::empty(StatusCode::NO_CONTENT, "The place is given up").with(&[LEFT]),
            Answer::json(StatusCode::OK, "The lock was handed on", Schemas::of::<HandedBody>)
                .or("application/json", Content::Json(Schemas::of::<BrokenBody>)),
        ],
        codes: &[
            ErrorCode::NotFound,
            ErrorCode::NotHolder,
            ErrorCode::InUse,
            ErrorCode::Deadlock,
            ErrorCode::QuotaExceeded,
            ErrorCode::LimitMismatch,
            ErrorCode::SessionExpired,
        ],
    }
}

fn read_lock() -> Operation {
    Operation {
        id: "readLock",
        summary: "Who holds a lock and who waits for it",
        about: "A lock that nobody ever took is free, not missing. Of one that is cut every segment is listed.",
        keys: ReadParams::KEYS,
        headers: &[],
        reach: Reach::Read,
        answers: vec![
            Answer::json(StatusCode::OK, "The lock", Schemas::of::<ExplainedBody>)
                .or("application/json", Content::Json(Schemas::of::<LockBody>)),
        ],
        codes: &[],
    }
}

fn list_locks() -> Operation {
    Operation {
        id: "listLocks",
        summary: "Many locks, in order of their names",
        about: "If there are more, next_page_token is to be given back as page_token.",
        keys: ListParams::LOCK_KEYS,
        headers: &[],
        reach: Reach::Read,
        answers: vec![
            Answer::json(StatusCode::OK, "A page of locks", Schemas::of::<LocksBody>)
                .or("application/json", Content::Json(Schemas::of::<ContentionBody>)),
        ],
        codes: &[],
    }
}

fn history() -> Operation {
    Operation {
        id: "readHistory",
        summary: "Who held a lock when, with which token, and why it ended",
        about: "As this node remembers it: complete_after says from where on nothing is missing.",
        keys: HistoryParams::KEYS,
        headers: &[],
        reach: Reach::Read,
        answers: vec![Answer::json(StatusCode::OK, "The history", Schemas::of::<HistoryBody>)],
        codes: &[],
    }
}

fn fence() -> Operation {
    Operation {
        id: "checkToken",
        summary: "Is this fencing token still good?",
        about: "Advice: the check that counts is made where the write lands.",
        keys: FenceParams::KEYS,
        headers: &[],
        reach: Reach::Read,
        answers: vec![Answer::json(StatusCode::OK, "It is good", Schemas::of::<FenceBody>)],
        codes: &[ErrorCode::StaleToken],
    }
}
