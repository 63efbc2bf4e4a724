#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
// Without std there is no map, and so nothing that retires buckets.
#![cfg_attr(not(feature = "std"), allow(dead_code))]

#[cfg(feature = "std")]
extern crate std;

// From the public call to the atomic instruction: limiter -> table -> cell.
#[cfg(feature = "std")]
mod builder;
#[cfg(feature = "std")]
mod limiter;
#[cfg(feature = "std")]
mod sweeper;

// Buckets by key.
#[cfg(feature = "std")]
mod key_map;
#[cfg(feature = "std")]
mod limits;
#[cfg(feature = "std")]
mod overflow;
#[cfg(feature = "std")]
mod slots;
#[cfg(feature = "std")]
mod table;

// One bucket: the packed word, the pure arithmetic, the compare-and-swap loop.
mod arithmetic;
mod bucket;
mod cell;
mod rate;
mod state;
mod sync;

// What goes in and what comes out.
mod clock;
mod decision;
mod error;
mod quota;
#[cfg(feature = "serde")]
mod quota_serde;
mod quota_text;
mod timestamp;

pub use bucket::{Bucket, is_lock_free};
pub use clock::Clock;
#[cfg(feature = "coarse")]
pub use clock::CoarseClock;
#[cfg(feature = "quanta")]
pub use clock::TscClock;
#[cfg(feature = "std")]
pub use clock::{ManualClock, MonotonicClock};
pub use decision::{Allowed, Decision, Denied, Peek, Reason, RetryAfter};
#[cfg(feature = "std")]
pub use error::BuildError;
pub use error::{CostError, QuotaError};
pub use quota::{EffectiveRate, Quota};
pub use timestamp::Timestamp;

#[cfg(feature = "std")]
pub use {builder::Builder, limiter::RateLimiter, overflow::Overflow};

/// The guide, rendered from `docs/GUIDE.md`.
#[doc = include_str!("../docs/GUIDE.md")]
#[cfg(any(doc, doctest))]
pub mod guide {}
