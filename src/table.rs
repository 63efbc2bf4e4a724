//! Buckets by key: how they come into the map, and how they leave it without their tokens being
//! sold again.
//!
//! # The retire protocol
//!
//! A pinned map protects the memory of a removed bucket, not its membership: a thread can still
//! spend from a bucket that another has just removed, while a third inserts a new, full one. So a
//! bucket leaves in this order, and comes in this order:
//!
//! 1. Who retires a bucket raises the *floor* to the tick at which it became full, then exchanges
//!    its state for RETIRED. If anybody spent in between, the exchange fails.
//! 2. Then the very bucket, known by its slot, is removed from the map. Whoever meets RETIRED
//!    helps with that and looks the key up again. The one whose removal succeeded frees the slot.
//! 3. A new bucket is inserted FRESH, without a tick. Whoever spends from it first stamps it with
//!    the later of its own clock reading and the floor, read after it saw FRESH in the map.
//!
//! By 3, a caller whose clock reading is from before its key's last bucket was full again cannot
//! begin a second one in the past. The floor it reads is high enough, because the bucket that it
//! found FRESH could be inserted only after the old one was removed, which came after the mark,
//! which came after the raise.

use core::hash::Hash;
use core::ops::ControlFlow;
use std::borrow::{Borrow, ToOwned};
use std::boxed::Box;

use crate::cell::{Retire, StateCell};
use crate::decision::{Decision, Reason, RetryAfter};
use crate::key_map::{Found, KeyMap, Pinned};
use crate::limits::{EXAMINED_PER_INSERT, EXAMINED_WHEN_FULL, IDLE};
use crate::overflow::Overflow;
use crate::rate::Rate;
use crate::slots::{Claim, Slot, Slots, Tag};
use crate::state::Level;
use crate::sync::{AtomicU64, CachePadded, Ordering};

pub(crate) struct Table<K> {
    map: KeyMap<K>,
    slots: Slots,
    /// The latest tick at which a retired bucket was full.
    floor: CachePadded<AtomicU64>,
    overflow: Overflow,
    /// The overflow buckets of [`Overflow::Share`]; else empty.
    shared: Box<[CachePadded<StateCell>]>,
}

/// What a caller asks of a bucket: the same for every bucket that the call may meet.
#[derive(Clone, Copy)]
pub(crate) struct Request<'r> {
    pub(crate) rate: &'r Rate,
    pub(crate) price: u64,
    pub(crate) now: u64,
    /// The key's hash.
    pub(crate) hash: u64,
}

impl<K: Hash + Eq> Table<K> {
    pub(crate) fn new(max_keys: u32, overflow: Overflow, shared_buckets: usize) -> Self {
        let shared_buckets = if overflow == Overflow::Share { shared_buckets } else { 0 };
        Self {
            map: KeyMap::new(),
            slots: Slots::new(max_keys),
            floor: CachePadded::new(AtomicU64::new(0)),
            overflow,
            shared: (0..shared_buckets).map(|_| CachePadded::new(StateCell::fresh())).collect(),
        }
    }

    /// Takes the price from the key's bucket, which is made if it does not exist.
    #[inline]
    pub(crate) fn acquire<Q>(&self, key: &Q, request: Request<'_>) -> Decision
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Eq + ToOwned + ?Sized,
    {
        let Request { rate, price, now, hash } = request;
        let tag = Tag::new(hash);
        let pinned = self.map.pin();
        loop {
            let Some(found) = pinned.get(tag, key) else {
                match self.insert(&pinned, key, request) {
                    ControlFlow::Continue(()) => continue,
                    ControlFlow::Break(decision) => return decision,
                }
            };
            let acquire = found.cell().acquire(rate, price, now, || self.floor());
            match Decision::from_acquire(acquire, rate, now, Reason::Spent) {
                Some(decision) => return decision,
                None => self.unlink(&pinned, &found),
            }
        }
    }

    /// Gives the price back, and tells the level after it.
    pub(crate) fn refund<Q>(&self, key: &Q, request: Request<'_>) -> Level
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let Request { rate, price, now, hash } = request;
        let pinned = self.map.pin();
        let found = pinned.get(Tag::new(hash), key);
        let level = found.and_then(|found| found.cell().refund(rate, price, now));
        level.unwrap_or_else(|| self.start(rate, now))
    }

    /// The key's level as it was last counted, or as it would begin. Writes nothing.
    pub(crate) fn level<Q>(&self, key: &Q, hash: u64, rate: &Rate, now: u64) -> Level
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let pinned = self.map.pin();
        let level = pinned.get(Tag::new(hash), key).and_then(|found| found.cell().level());
        level.unwrap_or_else(|| self.start(rate, now))
    }

    /// Drops the key's bucket whatever it holds; false if it has none.
    pub(crate) fn remove<Q>(&self, key: &Q, hash: u64) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let pinned = self.map.pin();
        let Some(found) = pinned.get(Tag::new(hash), key) else { return false };
        let is_mine = found.cell().retire(|tick| self.raise_floor(tick));
        self.unlink(&pinned, &found);
        is_mine
    }

    /// Retires every bucket that is full, and tells how many.
    pub(crate) fn sweep(&self, rate: &Rate, now: u64) -> usize {
        let slots = (0..self.slots.len()).filter_map(|slot| self.slots.look(Slot(slot)));
        slots.filter(|&bucket| self.tidy(bucket, rate, now, least_idle(rate))).count()
    }

    /// Buckets in the map, or about to be.
    pub(crate) fn len(&self) -> usize {
        usize::try_from(self.slots.in_use()).unwrap_or(usize::MAX)
    }

    pub(crate) fn max_keys(&self) -> usize {
        usize::try_from(self.slots.max()).unwrap_or(usize::MAX)
    }

    pub(crate) const fn overflow(&self) -> Overflow {
        self.overflow
    }

    /// What a bucket that is made at this instant begins with.
    fn start(&self, rate: &Rate, now: u64) -> Level {
        rate.start(now.max(self.floor()))
    }

    fn floor(&self) -> u64 {
        // Relaxed: the raise that this must see happened before, by way of the mark (Release to
        // Acquire on the word) and the map (removal to insertion to look-up).
        self.floor.load(Ordering::Relaxed)
    }

    fn raise_floor(&self, tick: u64) {
        // Relaxed: published by the Release exchange that sets the mark, which comes next.
        self.floor.fetch_max(tick, Ordering::Relaxed);
    }

    /// Puts a fresh bucket for the key into the map (or finds that another thread did), or decides
    /// without one.
    #[cold]
    fn insert<Q>(
        &self,
        pinned: &Pinned<'_, K>,
        key: &Q,
        request: Request<'_>,
    ) -> ControlFlow<Decision>
    where
        K: From<Q::Owned>,
        Q: ToOwned + ?Sized,
    {
        let tag = Tag::new(request.hash);
        for _ in 0..EXAMINED_PER_INSERT {
            if let Some(bucket) = self.slots.next() {
                self.tidy(bucket, request.rate, request.now, IDLE);
            }
        }
        let claim = match self.slots.claim(tag) {
            Some(claim) => claim,
            None => match self.make_room(pinned, request) {
                Ok(claim) => claim,
                Err(soonest) => return ControlFlow::Break(self.overflowed(request, soonest)),
            },
        };
        if pinned.insert(K::from(key.to_owned()), tag, claim.slot()) {
            claim.hand_over();
        }
        ControlFlow::Continue(())
    }

    /// Finds a slot when all are in use, by retiring a full bucket or, under
    /// [`Overflow::Forget`], the one closest to full. Else gives the least tick at which one of
    /// the buckets it looked at can be retired.
    fn make_room(
        &self,
        pinned: &Pinned<'_, K>,
        request: Request<'_>,
    ) -> Result<Claim<'_>, Option<u64>> {
        let Request { rate, now, hash, .. } = request;
        let tag = Tag::new(hash);
        let idle = least_idle(rate);
        let mut soonest = None;
        let mut fullest: Option<(Level, Found<'_>)> = None;
        for _ in 0..EXAMINED_WHEN_FULL.min(self.slots.len()) {
            let Some((slot, old_tag)) = self.slots.next() else { continue };
            let Some(found) = pinned.get_slot(slot, old_tag) else { continue };
            match found.cell().retire_if_full(rate, now, idle, |tick| self.raise_floor(tick)) {
                Retire::Marked | Retire::Already => {
                    if pinned.remove_retired(slot, old_tag) {
                        return Ok(self.slots.reuse(slot, tag));
                    }
                }
                Retire::InUse(level) => {
                    let full = rate.due(level, rate.capacity).map(|due| due.saturating_add(idle));
                    soonest = soonest.into_iter().chain(full).min();
                    if fullest.as_ref().is_none_or(|(most, _)| level.credits > most.credits) {
                        fullest = Some((level, found));
                    }
                }
                Retire::Fresh => {}
            }
        }
        if let (Overflow::Forget, Some((_, found))) = (self.overflow, fullest) {
            found.cell().retire(|tick| self.raise_floor(tick));
            if pinned.remove_retired(found.slot(), found.tag()) {
                return Ok(self.slots.reuse(found.slot(), tag));
            }
        }
        // Somebody may have made room meanwhile. If no bucket was seen in use, all were about to be.
        let empty = Level { credits: 0, tick: now };
        self.slots.claim(tag).ok_or_else(|| soonest.or(rate.due(empty, rate.capacity)))
    }

    /// The decision about a new key without a bucket of its own.
    fn overflowed(&self, request: Request<'_>, soonest: Option<u64>) -> Decision {
        let Request { rate, price, now, hash } = request;
        // The low half of the hash, as the tag is from the upper half.
        let pick = usize::try_from(hash & u64::from(u32::MAX)).unwrap_or(0);
        let shared = pick.checked_rem(self.shared.len()).and_then(|index| self.shared.get(index));
        shared
            .and_then(|cell| {
                // These are never retired, so no floor is under them.
                let acquire = cell.acquire(rate, price, now, || 0);
                Decision::from_acquire(acquire, rate, now, Reason::SharedSpent)
            })
            .unwrap_or_else(|| Decision::table_full(RetryAfter::until(soonest, now)))
    }

    /// Retires the bucket of this slot if it has been full for so long; tells whether.
    fn tidy(&self, (slot, tag): (Slot, Tag), rate: &Rate, now: u64, idle: u64) -> bool {
        // A pin of its own: in a sweep, one pin for all would keep the memory of every bucket that
        // anybody removes meanwhile.
        let pinned = self.map.pin();
        let Some(found) = pinned.get_slot(slot, tag) else { return false };
        let retire = found.cell().retire_if_full(rate, now, idle, |tick| self.raise_floor(tick));
        if let Retire::Marked | Retire::Already = retire {
            self.unlink(&pinned, &found);
        }
        retire == Retire::Marked
    }

    /// Takes a retired bucket out of the map and frees its slot, unless another thread does.
    #[cold]
    fn unlink(&self, pinned: &Pinned<'_, K>, found: &Found<'_>) {
        if pinned.remove_retired(found.slot(), found.tag()) {
            self.slots.free(found.slot());
        }
    }
}

/// How long a bucket must have been full to be retired by a sweep or for want of room.
///
/// Where a new bucket starts full, it is the same as a full one: not at all. Where it starts with
/// less, whoever was told when to come back shall find what he was promised, if he is not late.
const fn least_idle(rate: &Rate) -> u64 {
    if rate.initial < rate.capacity { IDLE } else { 0 }
}
