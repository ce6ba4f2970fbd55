//! The conditions that an operator should end: alarms, the facts that raise them, and the checks behind these facts.

pub(crate) mod alarm_facts;
pub(crate) mod alarms;
pub(crate) mod clock_check;
pub(crate) mod quota_warnings;
pub(crate) mod readiness;
