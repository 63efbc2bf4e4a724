//! Stand-in for the library's `sync.rs`.

use std::sync::{Mutex, OnceLock, PoisonError};

pub(crate) use crossbeam_utils::{Backoff, CachePadded};
use loom::sync::atomic::AtomicBool;
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A 128-bit atomic for loom, which has none: a loom `AtomicU64` that holds the index of the value
/// in a table.
///
/// Equal values have equal indices, so a compare-and-swap means the same. The caller's `Ordering`
/// is handed to loom as it is, so a missing Release or Acquire shows. The table only ever grows
/// and is behind a mutex that loom does not see, so it adds no ordering of its own.
#[derive(Debug)]
pub(crate) struct AtomicU128 {
    index: AtomicU64,
}

static VALUES: Mutex<Vec<u128>> = Mutex::new(Vec::new());

fn intern(value: u128) -> u64 {
    let mut values = VALUES.lock().unwrap_or_else(PoisonError::into_inner);
    let index = values.iter().position(|&known| known == value).unwrap_or_else(|| {
        values.push(value);
        values.len() - 1
    });
    index as u64
}

fn value_of(index: u64) -> u128 {
    VALUES.lock().unwrap_or_else(PoisonError::into_inner)[index as usize]
}

impl AtomicU128 {
    pub(crate) fn new(value: u128) -> Self {
        Self { index: AtomicU64::new(intern(value)) }
    }

    pub(crate) fn load(&self, order: Ordering) -> u128 {
        value_of(self.index.load(order))
    }

    /// For mutants only: the library never stores blindly.
    pub(crate) fn store(&self, value: u128, order: Ordering) {
        self.index.store(intern(value), order);
    }

    pub(crate) fn compare_exchange_weak(
        &self,
        current: u128,
        new: u128,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u128, u128> {
        self.index
            .compare_exchange_weak(intern(current), intern(new), success, failure)
            .map(value_of)
            .map_err(value_of)
    }

    pub(crate) const fn is_lock_free() -> bool {
        true
    }
}

/// Stand-in for `boxcar::Vec`: an item is published by its flag, with Release to Acquire, as there.
pub(crate) struct AppendVec<T> {
    items: [OnceLock<T>; 4],
    active: [AtomicBool; 4],
    claimed: std::sync::atomic::AtomicUsize,
}

impl<T> AppendVec<T> {
    pub(crate) fn new() -> Self {
        Self {
            items: std::array::from_fn(|_| OnceLock::new()),
            active: std::array::from_fn(|_| AtomicBool::new(false)),
            claimed: std::sync::atomic::AtomicUsize::new(0),
        }
    }

    pub(crate) fn push(&self, item: T) -> usize {
        let index = self.claimed.fetch_add(1, Ordering::Relaxed);
        assert!(self.items[index].set(item).is_ok());
        self.active[index].store(true, Ordering::Release);
        index
    }

    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        let active = self.active.get(index)?.load(Ordering::Acquire);
        if active { self.items[index].get() } else { None }
    }

    pub(crate) fn count(&self) -> usize {
        self.claimed.load(Ordering::Relaxed)
    }
}
