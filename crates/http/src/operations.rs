//! Every call of the API: one row each, in the order of the description.

mod elections;
mod locks;
mod recipes;
mod sessions;
mod several;
mod tree;

use crate::operation::Operation;
use crate::{node, pages};

pub(crate) use crate::node::unmatched::{NO_SUCH_PATH, WRONG_METHOD};

pub(crate) static OPERATIONS: &[&Operation] = &[
    &locks::ACQUIRE,
    &locks::RELEASE,
    &locks::SET_POLICY,
    &locks::ASK_RELEASE,
    &several::ACQUIRE,
    &several::RELEASE,
    &locks::READ_LOCK,
    &locks::LIST_LOCKS,
    &locks::FENCE,
    &sessions::CREATE,
    &sessions::OPEN,
    &sessions::KEEP_ALIVE,
    &sessions::KEEP_MANY_ALIVE,
    &locks::HISTORY,
    &sessions::CLOSE,
    &sessions::READ,
    &sessions::LIST,
    &tree::PUT,
    &tree::POST,
    &tree::GET,
    &tree::DELETE,
    &tree::TXN,
    &tree::WATCH,
    &recipes::MAKE_LATCH,
    &recipes::COUNT_DOWN,
    &recipes::AWAIT_LATCH,
    &recipes::DELETE_LATCH,
    &recipes::ARRIVE,
    &recipes::READ_BARRIER,
    &recipes::LEAVE,
    &recipes::ENTER,
    &recipes::READ_DOUBLE_BARRIER,
    &recipes::LEAVE_DOUBLE_BARRIER,
    &recipes::READ_COUNTER,
    &recipes::ADD_TO_COUNTER,
    &recipes::SET_COUNTER,
    &recipes::DELETE_COUNTER,
    &elections::CAMPAIGN,
    &elections::READ,
    &elections::RESIGN,
    &node::cluster::OPERATION,
    &node::health::LIVE,
    &node::health::READY,
    &node::metrics::OPERATION,
    &node::version::OPERATION,
    &pages::error::OPERATION,
    &pages::openapi::OPERATION,
    &pages::docs::OPERATION,
];
