//! ratelimit: tokens and the time of the last refill in two atomics, a single bucket with its own
//! `Instant` clock. If less than a microsecond has passed since the last refill it only takes a
//! token; on random keys that is never so.

use std::hint::black_box;

use ::ratelimit::Ratelimiter;

use super::mapped::{Alone, Mapped, Single};
use crate::key::Key;
use crate::subject::{Contender, Setup};

/// In a map.
pub(super) fn mapped<K: Key>() -> Contender<K> {
    Contender::keyed("ratelimit", Mapped::<K, Ratelimiter>::boxed)
}

/// Alone.
pub(super) fn alone<K: Key>() -> Contender<K> {
    Contender::single("ratelimit-alone", Alone::<Ratelimiter>::boxed)
}

impl Single for Ratelimiter {
    fn new(setup: &Setup) -> Self {
        Self::builder(u64::from(setup.quota.tokens))
            .period(setup.quota.period)
            .max_tokens(u64::from(setup.quota.burst))
            .initial_available(u64::from(setup.quota.burst))
            .build()
            .expect("the quotas of the cases are valid")
    }

    fn take_one(&self) -> bool {
        black_box(self.try_wait()).is_ok()
    }
}
