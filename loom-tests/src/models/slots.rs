//! The slots alone: no slot has two owners, and none is lost.

use std::sync::Arc;

use loom::thread;

use super::explore;
use crate::slots::{Slot, Slots, Tag};

/// Claims a slot and keeps it.
fn claim(slots: &Slots, tag: u64) -> Option<Slot> {
    let claim = slots.claim(Tag::new(tag << 33))?;
    let slot = claim.slot();
    claim.hand_over();
    Some(slot)
}

/// Three threads, two slots: claims and frees in all orders.
#[test]
fn claim_against_free() {
    explore("claim_against_free", Some(3), || {
        let slots = Arc::new(Slots::new(2));
        let first = claim(&slots, 1).unwrap();
        let second = claim(&slots, 2).unwrap();
        slots.free(first);
        let others: Vec<_> = [None, Some(second)]
            .into_iter()
            .map(|owned: Option<Slot>| {
                let slots = Arc::clone(&slots);
                thread::spawn(move || {
                    if let Some(slot) = owned {
                        slots.free(slot);
                    }
                    let claimed = claim(&slots, 3);
                    if let Some(slot) = claimed {
                        slots.free(slot);
                    }
                    claim(&slots, 4)
                })
            })
            .collect();
        let mine = claim(&slots, 5);
        let claimed: Vec<_> =
            others.into_iter().filter_map(|other| other.join().unwrap()).chain(mine).collect();
        assert!(slots.in_use() <= 2);
        assert_eq!(slots.in_use() as usize, claimed.len());
        assert!(claimed.len() <= 2, "two slots, {} owners", claimed.len());
        if let [one, other] = claimed[..] {
            assert_ne!(one, other, "one slot, two owners");
        }
        // Whatever is not owned can be had.
        for _ in claimed.len()..2 {
            assert!(claim(&slots, 6).is_some(), "a slot was lost");
        }
        assert!(claim(&slots, 7).is_none());
    });
}
