//! The concurrent map from key to bucket. The only file that names papaya.
//!
//! The hash of a key is computed once, outside, and kept with the key (31 bits of it): that
//! finds a bucket again from its slot, without its key, and spares the map hashing every key anew
//! when it grows.

use core::borrow::Borrow;
use core::hash::{BuildHasherDefault, Hash, Hasher};

use papaya::{Equivalent, HashMap, HashMapRef, LocalGuard};

use crate::cell::StateCell;
use crate::slots::{Slot, Tag};

type Inner<K> = HashMap<Entry<K>, StateCell, BuildHasherDefault<TagHasher>>;

pub(crate) struct KeyMap<K> {
    inner: Inner<K>,
}

/// Access to the map. While it exists, buckets that others take out of the map stay readable.
pub(crate) struct Pinned<'m, K> {
    inner: HashMapRef<'m, Entry<K>, StateCell, BuildHasherDefault<TagHasher>, LocalGuard<'m>>,
}

/// A bucket that was in the map when it was looked up.
#[derive(Clone, Copy)]
pub(crate) struct Found<'p> {
    slot: Slot,
    tag: Tag,
    cell: &'p StateCell,
}

impl Found<'_> {
    #[inline]
    pub(crate) const fn slot(&self) -> Slot {
        self.slot
    }

    #[inline]
    pub(crate) const fn tag(&self) -> Tag {
        self.tag
    }

    #[inline]
    pub(crate) const fn cell(&self) -> &StateCell {
        self.cell
    }
}

impl<K: Hash + Eq> KeyMap<K> {
    pub(crate) fn new() -> Self {
        Self { inner: HashMap::with_hasher(BuildHasherDefault::default()) }
    }

    #[inline]
    pub(crate) fn pin(&self) -> Pinned<'_, K> {
        Pinned { inner: self.inner.pin() }
    }
}

impl<K: Hash + Eq> Pinned<'_, K> {
    /// The bucket of this key.
    #[inline]
    pub(crate) fn get<Q>(&self, tag: Tag, key: &Q) -> Option<Found<'_>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.inner.get_key_value(&ByKey { tag, key }).map(found)
    }

    /// The bucket that owns this slot.
    pub(crate) fn get_slot(&self, slot: Slot, tag: Tag) -> Option<Found<'_>> {
        self.inner.get_key_value(&BySlot { tag, slot }).map(found)
    }

    /// Inserts a fresh bucket; false if the key has a bucket already.
    pub(crate) fn insert(&self, key: K, tag: Tag, slot: Slot) -> bool {
        self.inner.try_insert(Entry { slot, tag, key }, StateCell::fresh()).is_ok()
    }

    /// Removes the bucket that owns this slot, if it is retired. True for exactly one of the
    /// threads that remove the same bucket: the slot is now that caller's.
    pub(crate) fn remove_retired(&self, slot: Slot, tag: Tag) -> bool {
        // RETIRED is for good, so the answer cannot change between this question and the removal.
        let removed = self.inner.remove_if(&BySlot { tag, slot }, |_, cell| cell.is_retired());
        matches!(removed, Ok(Some(_)))
    }
}

#[inline]
const fn found<'p, K>((entry, cell): (&'p Entry<K>, &'p StateCell)) -> Found<'p> {
    Found { slot: entry.slot, tag: entry.tag, cell }
}

struct Entry<K> {
    slot: Slot,
    tag: Tag,
    key: K,
}

impl<K: Eq> PartialEq for Entry<K> {
    fn eq(&self, other: &Self) -> bool {
        self.tag == other.tag && self.key == other.key
    }
}

impl<K: Eq> Eq for Entry<K> {}

impl<K> Hash for Entry<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.tag.hash(state);
    }
}

/// Looks a bucket up by its key, in borrowed form.
struct ByKey<'q, Q: ?Sized> {
    tag: Tag,
    key: &'q Q,
}

impl<Q: ?Sized> Hash for ByKey<'_, Q> {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.tag.hash(state);
    }
}

impl<K, Q> Equivalent<Entry<K>> for ByKey<'_, Q>
where
    K: Borrow<Q>,
    Q: Eq + ?Sized,
{
    #[inline]
    fn equivalent(&self, entry: &Entry<K>) -> bool {
        // The tag first: it is in this cache line, where a long key is not.
        self.tag == entry.tag && self.key == entry.key.borrow()
    }
}

/// Looks a bucket up by the slot that it owns.
struct BySlot {
    tag: Tag,
    slot: Slot,
}

impl Hash for BySlot {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.tag.hash(state);
    }
}

impl<K> Equivalent<Entry<K>> for BySlot {
    fn equivalent(&self, entry: &Entry<K>) -> bool {
        self.slot == entry.slot
    }
}

/// Hands a tag through as the map's hash: it is part of a good hash already.
#[derive(Default)]
struct TagHasher(u64);

impl Hasher for TagHasher {
    #[inline]
    fn write_u32(&mut self, tag: u32) {
        // The map takes its position from the low bits and a check byte from the top seven. The
        // odd constant (2^64 / golden ratio) carries the tag's 31 bits into both.
        self.0 = u64::from(tag).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write(&mut self, bytes: &[u8]) {
        // Only tags are hashed here. Still correct for anything else.
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}
