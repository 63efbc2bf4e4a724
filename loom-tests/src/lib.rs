//! The models compile the very files of `src/`, against stand-ins for three of them:
//!
//! - `sync.rs`: loom's atomics, and a 128-bit atomic made of one of them;
//! - `key_map.rs`: a map that promises what papaya promises, and no more;
//! - `limits.rs`: smaller numbers.
//!
//! So there is no `cfg(loom)` in the library, and nothing that is modelled differs from what
//! ships. `mutants.rs` (a program beside this) breaks the sources on purpose and requires that a
//! model notices.

#![allow(dead_code, reason = "the models use a part of the library")]

#[path = "../../src/arithmetic.rs"]
mod arithmetic;
#[path = "../../src/bucket.rs"]
mod bucket;
#[path = "../../src/builder.rs"]
mod builder;
#[path = "../../src/cell.rs"]
mod cell;
#[path = "../../src/clock/mod.rs"]
mod clock;
#[path = "../../src/decision.rs"]
mod decision;
#[path = "../../src/error.rs"]
mod error;
#[path = "../../src/limiter.rs"]
mod limiter;
#[path = "../../src/overflow.rs"]
mod overflow;
#[path = "../../src/quota.rs"]
mod quota;
#[path = "../../src/quota_text.rs"]
mod quota_text;
#[path = "../../src/rate.rs"]
mod rate;
#[path = "../../src/slots.rs"]
mod slots;
#[path = "../../src/state.rs"]
mod state;
#[path = "../../src/sweeper.rs"]
mod sweeper;
#[path = "../../src/table.rs"]
mod table;
#[path = "../../src/timestamp.rs"]
mod timestamp;

mod key_map;
mod limits;
mod sync;

#[cfg(test)]
mod models;

pub use bucket::{Bucket, is_lock_free};
pub use builder::Builder;
pub use clock::{Clock, ManualClock, MonotonicClock};
pub use decision::{Allowed, Decision, Denied, Peek, Reason, RetryAfter};
pub use error::{BuildError, CostError, QuotaError};
pub use limiter::RateLimiter;
pub use overflow::Overflow;
pub use quota::{EffectiveRate, Quota};
pub use timestamp::Timestamp;
