//! Stand-in for the library's `key_map.rs`.
//!
//! What the library relies on of papaya, and so all that this gives: insertion and removal are
//! atomic; an insertion of a key happens after the removal of the key's last entry; a look-up that
//! finds an entry happens after its insertion; a look-up may be stale otherwise. (A mutex would
//! promise more: that a look-up happens before a later insertion.)
//!
//! The map is one loom atomic: the number of its present version, in a list of versions that loom
//! does not see.

use std::borrow::Borrow;
use std::cell::Cell;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use loom::sync::atomic::{AtomicUsize, Ordering};

use crate::cell::StateCell;
use crate::slots::{Slot, Tag};

thread_local! {
    /// The most entries that the map of this model has held. (All of a model's threads run on one
    /// thread of the system; other models run on others.)
    pub(crate) static PEAK: Cell<usize> = const { Cell::new(0) };
}

struct Entry<K> {
    slot: Slot,
    tag: Tag,
    key: K,
    cell: StateCell,
}

type Version<K> = Vec<Arc<Entry<K>>>;

pub(crate) struct KeyMap<K> {
    present: AtomicUsize,
    versions: Mutex<Vec<Version<K>>>,
}

pub(crate) struct Pinned<'m, K> {
    map: &'m KeyMap<K>,
}

/// Keeps the entry alive, as papaya's guard does.
#[derive(Clone)]
pub(crate) struct Found<'p> {
    slot: Slot,
    tag: Tag,
    cell: Arc<dyn AsRef<StateCell> + 'p>,
}

impl<K> AsRef<StateCell> for Entry<K> {
    fn as_ref(&self) -> &StateCell {
        &self.cell
    }
}

impl Found<'_> {
    pub(crate) const fn slot(&self) -> Slot {
        self.slot
    }

    pub(crate) const fn tag(&self) -> Tag {
        self.tag
    }

    pub(crate) fn cell(&self) -> &StateCell {
        (*self.cell).as_ref()
    }
}

impl<K: Hash + Eq> KeyMap<K> {
    pub(crate) fn new() -> Self {
        Self { present: AtomicUsize::new(0), versions: Mutex::new(vec![Vec::new()]) }
    }

    pub(crate) fn pin(&self) -> Pinned<'_, K> {
        Pinned { map: self }
    }

    fn version(&self, number: usize) -> Version<K> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)[number].clone()
    }

    fn add_version(&self, version: Version<K>) -> usize {
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        versions.push(version);
        versions.len() - 1
    }

    /// Replaces the present version by what `change` makes of it; gives up when it says None.
    fn change<T>(&self, change: impl Fn(&mut Version<K>) -> Option<T>) -> Option<T> {
        let mut seen = self.present.load(Ordering::Acquire);
        loop {
            let mut version = self.version(seen);
            let outcome = change(&mut version)?;
            let len = version.len();
            let next = self.add_version(version);
            match self.present.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    PEAK.set(PEAK.get().max(len));
                    return Some(outcome);
                }
                Err(newer) => seen = newer,
            }
        }
    }
}

impl<K: Hash + Eq> Pinned<'_, K> {
    fn find(&self, is_it: impl Fn(&Entry<K>) -> bool) -> Option<Found<'_>> {
        let version = self.map.version(self.map.present.load(Ordering::Acquire));
        let entry = version.into_iter().find(|entry| is_it(entry))?;
        Some(Found { slot: entry.slot, tag: entry.tag, cell: entry })
    }

    pub(crate) fn get<Q>(&self, tag: Tag, key: &Q) -> Option<Found<'_>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.find(|entry| entry.tag == tag && entry.key.borrow() == key)
    }

    pub(crate) fn get_slot(&self, slot: Slot, tag: Tag) -> Option<Found<'_>> {
        self.find(|entry| entry.tag == tag && entry.slot == slot)
    }

    pub(crate) fn insert(&self, key: K, tag: Tag, slot: Slot) -> bool {
        let entry = Arc::new(Entry { slot, tag, key, cell: StateCell::fresh() });
        let inserted = self.map.change(|version| {
            let is_new = version.iter().all(|other| other.key != entry.key);
            is_new.then(|| version.push(Arc::clone(&entry)))
        });
        inserted.is_some()
    }

    pub(crate) fn remove_retired(&self, slot: Slot, tag: Tag) -> bool {
        let removed = self.map.change(|version| {
            let is_it = |entry: &Arc<Entry<K>>| entry.tag == tag && entry.slot == slot;
            let index = version.iter().position(is_it)?;
            version[index].cell.is_retired().then(|| version.remove(index))
        });
        removed.is_some()
    }
}
