//! The bound on the number of buckets, and what happens at it.

use super::{World, explore, quota};
use crate::{Overflow, Reason};

/// Two new keys, room for one: one is admitted, the other learns that the table is full.
#[test]
fn overflow_at_the_bound() {
    explore("overflow_at_the_bound", Some(4), || {
        let world = World::limiter(quota(1, 10, 1), 1, 0);
        let other = world.spawn(|world| {
            world.acquire(1);
        });
        world.acquire(0);
        other.join().unwrap();
        assert_eq!(world.admissions(), 1);
        let denied = world.subject.try_acquire(&2).denied().unwrap();
        assert_eq!(denied.reason(), Reason::TableFull);
        world.check();
        world.check_bound();
    });
}

/// The same key twice: both threads insert, one bucket stays, and the loser's slot is free again.
#[test]
fn insert_against_insert() {
    explore("insert_against_insert", Some(4), || {
        let world = World::limiter(quota(1, 10, 1), 2, 0);
        let other = world.spawn(|world| {
            world.acquire(0);
        });
        world.acquire(0);
        other.join().unwrap();
        assert_eq!((world.admissions(), world.len()), (1, 1));
        world.acquire(1);
        assert_eq!((world.admissions(), world.len()), (2, 2));
        world.check();
        world.check_bound();
    });
}

/// The one bucket is full: a new key wants its slot, while its own key comes back.
#[test]
fn slot_changes_hands() {
    explore("slot_changes_hands", Some(3), || {
        let world = World::limiter(quota(1, 10, 1), 1, 0);
        world.acquire(0);
        world.clock().set(10);
        let other = world.spawn(|world| {
            world.acquire(1);
        });
        world.acquire(0);
        other.join().unwrap();
        assert!(world.admissions() >= 2, "whoever has the slot is admitted");
        world.check();
        world.check_bound();
    });
}

/// Forgetting keeps the bound, and whoever is forgotten begins no earlier than that.
#[test]
fn forget_at_the_bound() {
    explore("forget_at_the_bound", Some(2), || {
        let world = World::overflowing(Overflow::Forget, quota(1, 10, 1), 1, 0);
        world.acquire(0);
        let others = [1, 2].map(|key| {
            world.spawn(move |world| {
                let _decision = world.subject.try_acquire(&key);
            })
        });
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(world.len(), 1);
        world.check();
        world.check_bound();
    });
}

/// New keys share one overflow bucket: together they get no more than one quota from it.
#[test]
fn share_at_the_bound() {
    explore("share_at_the_bound", Some(3), || {
        let world = World::overflowing(Overflow::Share, quota(1, 10, 1), 1, 0);
        world.acquire(0);
        let other = world.spawn(|world| {
            world.acquire(1);
        });
        world.acquire(2);
        other.join().unwrap();
        assert_eq!(world.admissions(), 2, "one from the bucket of 0, one from the shared bucket");
        world.check();
        world.check_bound();
    });
}
