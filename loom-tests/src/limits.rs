//! Stand-in for the library's `limits.rs`: the smallest numbers that take the same paths.

pub(crate) const EXAMINED_PER_INSERT: u32 = 1;
pub(crate) const EXAMINED_WHEN_FULL: u32 = 2;
pub(crate) const IDLE: u64 = 0;
