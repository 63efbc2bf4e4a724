//! The numbered slots that bound the number of buckets, and the hand that goes round them.
//!
//! A bucket may be in the map only while it owns a slot: the slot is claimed before the bucket is
//! inserted and freed after it was removed. There are at most `max` slots, so there are at most
//! `max` buckets, whatever the threads do.
//!
//! A slot in use holds its bucket's hash, so that the hand can look the bucket up from here. That
//! makes housekeeping incremental, which the map alone does not: it can only be walked from its
//! start. A free slot holds the number of the next free one (a Treiber stack), so a free slot is
//! found at once, if there is one.
//!
//! ```text
//!   in use:  1 | hash (31 bits)          free:  0 | next free slot + 1, or 0 (31 bits)
//! ```

use core::mem;

use crate::sync::{AppendVec, AtomicU32, AtomicU128, CachePadded, Ordering};

/// The most slots that can be numbered.
pub(crate) const MAX_SLOTS: usize = (1 << 31) - 2;

const IN_USE: u32 = 1 << 31;

/// A slot's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot(pub(crate) u32);

/// The 31 bits of a key's hash by which its bucket is found again from its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Tag(u32);

impl Tag {
    #[inline]
    pub(crate) const fn new(hash: u64) -> Self {
        // The upper half of a good hash is as good as the lower one.
        Self((hash >> 33) as u32)
    }

    #[inline]
    pub(crate) const fn get(self) -> u32 {
        self.0
    }
}

/// The top of the stack of free slots. The count of its changes keeps a thread that was stalled in
/// `pop` from mistaking a new stack for the one it saw (96 bits do not come round).
#[derive(Clone, Copy)]
struct Top {
    /// The free slot's number + 1; 0: none.
    link: u32,
    changes: u128,
}

impl Top {
    const fn pack(self) -> u128 {
        (self.changes << 32) | self.link as u128
    }

    #[expect(clippy::cast_possible_truncation, reason = "the field is cut out on purpose")]
    const fn unpack(word: u128) -> Self {
        Self { link: word as u32, changes: word >> 32 }
    }
}

pub(crate) struct Slots {
    words: AppendVec<AtomicU32>,
    free: CachePadded<AtomicU128>,
    /// The slot at which the hand stands.
    hand: CachePadded<AtomicU32>,
    /// Slots that exist or are about to.
    grown: CachePadded<AtomicU32>,
    in_use: AtomicU32,
    max: u32,
}

/// A slot whose bucket is not in the map yet: freed when it is dropped, also by a panic of the
/// user's key, unless the bucket takes it over.
#[must_use]
pub(crate) struct Claim<'s> {
    slots: &'s Slots,
    slot: Slot,
}

impl Claim<'_> {
    pub(crate) const fn slot(&self) -> Slot {
        self.slot
    }

    /// The bucket is in the map: the slot is its own now.
    pub(crate) fn hand_over(self) {
        mem::forget(self);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.slots.free(self.slot);
    }
}

impl Slots {
    pub(crate) fn new(max: u32) -> Self {
        Self {
            words: AppendVec::new(),
            free: CachePadded::new(AtomicU128::new(0)),
            hand: CachePadded::new(AtomicU32::new(0)),
            grown: CachePadded::new(AtomicU32::new(0)),
            in_use: AtomicU32::new(0),
            max,
        }
    }

    pub(crate) const fn max(&self) -> u32 {
        self.max
    }

    /// Slots in use, never more than `max`.
    pub(crate) fn in_use(&self) -> u32 {
        // Relaxed: a number to look at. Its changes are inside the times at which the slots are
        // claimed, so it is never above `max`.
        self.in_use.load(Ordering::Relaxed)
    }

    /// Slots that exist, in use or free.
    pub(crate) fn len(&self) -> u32 {
        // Never above `max`, which fits.
        u32::try_from(self.words.count()).unwrap_or(u32::MAX)
    }

    /// Claims a slot for a bucket that is about to be inserted: a free one, else a new one; None
    /// if all `max` are in use.
    pub(crate) fn claim(&self, tag: Tag) -> Option<Claim<'_>> {
        let claim = match self.pop() {
            Some(slot) => self.reuse(slot, tag),
            None => Claim { slots: self, slot: self.grow(tag)? },
        };
        self.in_use.fetch_add(1, Ordering::Relaxed);
        Some(claim)
    }

    /// Frees the slot of a bucket that is not in the map (any more).
    pub(crate) fn free(&self, slot: Slot) {
        self.in_use.fetch_sub(1, Ordering::Relaxed);
        self.push(slot);
    }

    /// Gives a slot whose bucket has left the map to another one, without freeing it in between.
    pub(crate) fn reuse(&self, slot: Slot, tag: Tag) -> Claim<'_> {
        if let Some(word) = self.word(slot) {
            // Relaxed: a hand that reads it early finds no bucket of this slot in the map and goes
            // on; the map's own synchronization publishes the bucket.
            word.store(IN_USE | tag.get(), Ordering::Relaxed);
        }
        Claim { slots: self, slot }
    }

    /// Moves the hand on by one slot, and tells which bucket to look for there; None if the slot
    /// is free.
    pub(crate) fn next(&self) -> Option<(Slot, Tag)> {
        let len = self.len();
        let round = |at: u32| Some(if at + 1 < len { at + 1 } else { 0 });
        // Relaxed: threads only have to see different numbers. It never refuses.
        let at = self.hand.fetch_update(Ordering::Relaxed, Ordering::Relaxed, round).ok()?;
        self.look(Slot(at))
    }

    /// Which bucket to look for in this slot; None if it is free.
    pub(crate) fn look(&self, slot: Slot) -> Option<(Slot, Tag)> {
        // Relaxed: the answer is a hint, whose bucket is then looked up in the map.
        let word = self.word(slot)?.load(Ordering::Relaxed);
        (word & IN_USE != 0).then_some((slot, Tag(word & !IN_USE)))
    }

    fn word(&self, slot: Slot) -> Option<&AtomicU32> {
        self.words.get(usize::try_from(slot.0).ok()?)
    }

    fn grow(&self, tag: Tag) -> Option<Slot> {
        let below_max = |grown: u32| (grown < self.max).then(|| grown + 1);
        // Relaxed: only the count matters; the slot itself is published by `AppendVec`.
        self.grown.fetch_update(Ordering::Relaxed, Ordering::Relaxed, below_max).ok()?;
        let index = self.words.push(AtomicU32::new(IN_USE | tag.get()));
        u32::try_from(index).ok().map(Slot)
    }

    fn push(&self, slot: Slot) {
        let Some(word) = self.word(slot) else { return };
        let mut seen = self.free.load(Ordering::Relaxed);
        loop {
            let top = Top::unpack(seen);
            word.store(top.link, Ordering::Relaxed);
            let next = Top { link: slot.0 + 1, changes: top.changes + 1 }.pack();
            // Release: pairs with the Acquire loads in `pop`. Who pops the slot sees its link, and
            // that its last bucket has left the map.
            match self.free.compare_exchange_weak(seen, next, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(newer) => seen = newer,
            }
        }
    }

    fn pop(&self) -> Option<Slot> {
        let mut seen = self.free.load(Ordering::Acquire);
        loop {
            let top = Top::unpack(seen);
            let slot = Slot(top.link.checked_sub(1)?);
            let link = self.word(slot)?.load(Ordering::Relaxed);
            // If the slot was popped by another thread in between, its word is no link; then the
            // stack has changed as well and the exchange fails.
            let next = Top { link: link & !IN_USE, changes: top.changes + 1 }.pack();
            // Acquire: pairs with the Release in `push`, also across the exchanges in between, as
            // each of them continues the release sequence.
            match self.free.compare_exchange_weak(seen, next, Ordering::Acquire, Ordering::Acquire)
            {
                Ok(_) => return Some(slot),
                Err(newer) => seen = newer,
            }
        }
    }
}
