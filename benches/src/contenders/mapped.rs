//! Single buckets made keyed in the way that comes to mind first: in a `DashMap` with its default
//! hasher.

use dashmap::DashMap;

use crate::key::Key;
use crate::subject::{Setup, Subject};

/// A bucket without a key.
pub(super) trait Single: Send + Sync + Sized + 'static {
    fn new(setup: &Setup) -> Self;
    fn take_one(&self) -> bool;
}

/// One bucket for each key.
pub(super) struct Mapped<K, B> {
    buckets: DashMap<K, B>,
    setup: Setup,
}

impl<K: Key, B: Single> Mapped<K, B> {
    pub(super) fn boxed(setup: &Setup) -> Box<dyn Subject<K>> {
        Box::new(Self { buckets: DashMap::new(), setup: *setup })
    }
}

impl<K: Key, B: Single> Subject<K> for Mapped<K, B> {
    fn check(&self, key: &K) -> bool {
        if let Some(bucket) = self.buckets.get(key) {
            return bucket.take_one();
        }
        let bucket = self.buckets.entry(key.clone()).or_insert_with(|| B::new(&self.setup));
        bucket.downgrade().take_one()
    }

    fn keys(&self) -> Option<usize> {
        Some(self.buckets.len())
    }
}

/// One bucket for all.
pub(super) struct Alone<B>(B);

impl<B: Single> Alone<B> {
    pub(super) fn boxed<K: Key>(setup: &Setup) -> Box<dyn Subject<K>> {
        Box::new(Self(B::new(setup)))
    }
}

impl<K: Key, B: Single> Subject<K> for Alone<B> {
    fn check(&self, _key: &K) -> bool {
        self.0.take_one()
    }
}
