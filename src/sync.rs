//! The atomics that the crate is built on, in one place: the model checker compiles the very
//! sources beside this file against a `sync` of its own.

pub(crate) use core::sync::atomic::Ordering;
pub(crate) use crossbeam_utils::Backoff;
pub(crate) use portable_atomic::AtomicU128;

#[cfg(feature = "std")]
pub(crate) use boxcar::Vec as AppendVec;
#[cfg(feature = "std")]
pub(crate) use core::sync::atomic::AtomicU32;
#[cfg(feature = "std")]
pub(crate) use crossbeam_utils::CachePadded;
// Not core's: some 32-bit targets have none.
#[cfg(feature = "std")]
pub(crate) use portable_atomic::AtomicU64;
