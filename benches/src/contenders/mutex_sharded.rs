//! The limiter that one writes oneself: a plain token bucket for each key, in 128 hash tables
//! behind a mutex each. The key is hashed once, with the default hasher.

use std::hash::{BuildHasher, RandomState};
use std::time::Instant;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use parking_lot::Mutex;

use crate::key::Key;
use crate::subject::{Contender, Subject};

const SHARDS: usize = 128;

pub(super) fn keyed<K: Key>() -> Contender<K> {
    Contender::keyed("mutex-sharded", |setup| {
        Box::new(Sharded {
            shards: (0..SHARDS).map(|_| Shard(Mutex::new(HashTable::new()))).collect(),
            hasher: RandomState::new(),
            epoch: Instant::now(),
            rate: f64::from(setup.quota.tokens) / setup.quota.period.as_secs_f64(),
            burst: f64::from(setup.quota.burst),
        })
    })
}

struct Sharded<K> {
    shards: Box<[Shard<K>]>,
    hasher: RandomState,
    epoch: Instant,
    /// Tokens per second.
    rate: f64,
    burst: f64,
}

/// On cache lines of its own.
#[repr(align(128))]
struct Shard<K>(Mutex<HashTable<(K, Bucket)>>);

#[derive(Clone, Copy)]
struct Bucket {
    tokens: f64,
    /// Seconds since the epoch.
    at: f64,
}

impl<K: Key> Subject<K> for Sharded<K> {
    fn check(&self, key: &K) -> bool {
        let now = self.epoch.elapsed().as_secs_f64();
        let hash = self.hasher.hash_one(key);
        // The bits that the table uses for neither its position nor its tag.
        let mut table = self.shards[(hash >> 40) as usize % SHARDS].0.lock();
        let full = Bucket { tokens: self.burst, at: now };
        let rehash = |(key, _): &(K, Bucket)| self.hasher.hash_one(key);
        let mut entry = match table.entry(hash, |(other, _)| other == key, rehash) {
            Entry::Occupied(entry) => entry,
            Entry::Vacant(entry) => entry.insert((key.clone(), full)),
        };
        let bucket = &mut entry.get_mut().1;
        let elapsed = (now - bucket.at).max(0.0);
        let tokens = (bucket.tokens + elapsed * self.rate).min(self.burst);
        *bucket = Bucket { tokens, at: now.max(bucket.at) };
        let is_allowed = bucket.tokens >= 1.0;
        if is_allowed {
            bucket.tokens -= 1.0;
        }
        is_allowed
    }

    fn keys(&self) -> Option<usize> {
        Some(self.shards.iter().map(|shard| shard.0.lock().len()).sum())
    }
}
