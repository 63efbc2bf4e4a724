//! better-bucket: one instant in an `AtomicU64`, a single bucket with its own `Instant` clock,
//! 128 bytes each.

use std::hint::black_box;

use ::better_bucket::Bucket;

use super::mapped::{Alone, Mapped, Single};
use crate::key::Key;
use crate::subject::{Contender, Setup};

/// In a map.
pub(super) fn mapped<K: Key>() -> Contender<K> {
    Contender::keyed("better-bucket", Mapped::<K, Bucket>::boxed)
}

/// Alone.
pub(super) fn alone<K: Key>() -> Contender<K> {
    Contender::single("better-bucket-alone", Alone::<Bucket>::boxed)
}

impl Single for Bucket {
    fn new(setup: &Setup) -> Self {
        Self::builder()
            .capacity(setup.quota.burst)
            .refill(setup.quota.tokens, setup.quota.period)
            .initial(setup.quota.burst)
            .build()
            .expect("the quotas of the cases are valid")
    }

    fn take_one(&self) -> bool {
        black_box(self.acquire(1)).is_allowed()
    }
}
