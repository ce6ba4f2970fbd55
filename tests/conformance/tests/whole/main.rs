//! holdfast beside others: the same questions, and the answers compared.

mod differential;
