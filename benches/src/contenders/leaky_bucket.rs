//! leaky-bucket: made for waiting under tokio; its `try_acquire` needs no runtime. Tokens come
//! back in whole intervals of at least a millisecond.
//!
//! It is `fair`, as it is by default: each call takes a mutex. Without `fair` there is a path
//! without the mutex, but then it must not be used from two threads: a call that finds no tokens
//! writes the state that it has read back when it drops it (1.1.2, `lib.rs`, `Drop for State`), and
//! so undoes what another thread did in between.

use std::hint::black_box;
use std::time::Duration;

use ::leaky_bucket::RateLimiter;

use super::mapped::{Alone, Mapped, Single};
use crate::key::Key;
use crate::subject::{Contender, Setup};

const SHORTEST: Duration = Duration::from_millis(1);

/// In a map.
pub(super) fn mapped<K: Key>() -> Contender<K> {
    Contender::keyed("leaky-bucket", Mapped::<K, RateLimiter>::boxed)
}

/// Alone.
pub(super) fn alone<K: Key>() -> Contender<K> {
    Contender::single("leaky-bucket-alone", Alone::<RateLimiter>::boxed)
}

impl Single for RateLimiter {
    fn new(setup: &Setup) -> Self {
        let interval = (setup.quota.period / setup.quota.tokens).max(SHORTEST);
        let burst = setup.quota.burst as usize;
        // Of the case's quota the rate, rounded to whole tokens in the interval.
        let rate = f64::from(setup.quota.tokens) / setup.quota.period.as_secs_f64();
        let refill = (rate * interval.as_secs_f64()).round();
        #[expect(clippy::cast_sign_loss, reason = "a rate is positive")]
        let refill = refill as usize;
        Self::builder().initial(burst).max(burst).refill(refill).interval(interval).build()
    }

    fn take_one(&self) -> bool {
        black_box(self.try_acquire(1))
    }
}
