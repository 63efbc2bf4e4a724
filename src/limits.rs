//! How much housekeeping one call may do. The models have smaller numbers of their own.

/// Other buckets that the insertion of a new one examines, to retire those that are full. Two, so
/// that the hand goes round faster than the table can grow.
pub(crate) const EXAMINED_PER_INSERT: u32 = 2;

/// Other buckets that a new key examines for room when there is none.
pub(crate) const EXAMINED_WHEN_FULL: u32 = 8;

/// How long a bucket must have been full before it is retired in passing, in nanoseconds: one
/// minute. Until then its key is likely to return, and finding a bucket is cheaper than making one.
pub(crate) const IDLE: u64 = 60_000_000_000;
