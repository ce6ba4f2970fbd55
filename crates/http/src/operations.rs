//! Every call of the API: one row each, in the order of the description.

mod elections;
mod locks;
mod several;

use crate::operation::Operation;
use crate::{node, pages, recipes, sessions, tree};

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
    &sessions::create::OPERATION,
    &sessions::open::OPERATION,
    &sessions::keep_alive::OPERATION,
    &sessions::keep_many_alive::OPERATION,
    &locks::HISTORY,
    &sessions::close::OPERATION,
    &sessions::read::OPERATION,
    &sessions::list::OPERATION,
    &tree::put::OPERATION,
    &tree::post::OPERATION,
    &tree::get::OPERATION,
    &tree::delete::OPERATION,
    &tree::txn::OPERATION,
    &tree::watch::OPERATION,
    &recipes::latch::make::OPERATION,
    &recipes::latch::count_down::OPERATION,
    &recipes::latch::wait::OPERATION,
    &recipes::latch::delete::OPERATION,
    &recipes::barrier::arrive::OPERATION,
    &recipes::barrier::read::OPERATION,
    &recipes::barrier::leave::OPERATION,
    &recipes::double_barrier::enter::OPERATION,
    &recipes::double_barrier::read::OPERATION,
    &recipes::double_barrier::leave::OPERATION,
    &recipes::counter::read::OPERATION,
    &recipes::counter::add::OPERATION,
    &recipes::counter::set::OPERATION,
    &recipes::counter::delete::OPERATION,
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
