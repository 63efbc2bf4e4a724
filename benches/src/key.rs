//! The keys: numbers, and addresses as text.

use std::hash::Hash;
use std::net::Ipv4Addr;

/// A key that every contender takes.
pub trait Key: Hash + Eq + Clone + Send + Sync + 'static {
    /// The key with this number. Different numbers give different keys, in no visible order.
    fn numbered(number: u32) -> Self;

    /// 64 bits of the key, well mixed; for the floor, which has no hasher. As cheap as can be.
    fn mixed(&self) -> u64;

    /// The key as rate-net has it. Neither kind is long enough to be allocated.
    fn for_rate_net(&self) -> rate_net::Key;
}

/// A user's number.
impl Key for u64 {
    fn numbered(number: u32) -> Self {
        mix(u64::from(number))
    }

    fn mixed(&self) -> u64 {
        *self
    }

    fn for_rate_net(&self) -> rate_net::Key {
        (*self).into()
    }
}

/// A client's address, as it stands in a log or a header: 7 to 15 bytes.
impl Key for String {
    fn numbered(number: u32) -> Self {
        // An odd factor and a xor-shift are one to one.
        let bits = number.wrapping_mul(0x9E37_79B9);
        Ipv4Addr::from(bits ^ (bits >> 15)).to_string()
    }

    fn mixed(&self) -> u64 {
        let bytes = self.as_bytes();
        let (first, last) = (bytes.first_chunk(), bytes.last_chunk());
        // Two words of four bytes that may overlap; addresses have seven at least.
        let first = u32::from_le_bytes(*first.unwrap_or(&[0; 4]));
        let last = u32::from_le_bytes(*last.unwrap_or(&[0; 4]));
        let middle = bytes.get(bytes.len() / 2).copied().unwrap_or(0);
        let word = u64::from(first) << 32 | u64::from(last);
        (word ^ u64::from(middle) << 28).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    fn for_rate_net(&self) -> rate_net::Key {
        self.as_str().into()
    }
}

/// The first `count` keys.
pub fn keys<K: Key>(count: usize) -> Vec<K> {
    (0..u32::try_from(count).expect("keys have 32-bit numbers")).map(K::numbered).collect()
}

/// `length` draws from these keys, in a random order that is the same for each run and each
/// contender, and another one for each `stream`. The keys are copied, so that reading them is
/// sequential and costs all contenders next to nothing.
pub fn shuffled<K: Key>(keys: &[K], length: usize, stream: usize) -> Vec<K> {
    let mut random = Random(mix(stream as u64 + 1));
    (0..length).map(|_| keys[random.below(keys.len())].clone()).collect()
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        scale(mix(self.0), bound)
    }
}

/// A number below `bound` from 64 random bits.
pub fn scale(bits: u64, bound: usize) -> usize {
    ((u128::from(bits) * bound as u128) >> 64) as usize
}

/// The finalizer of splitmix64, which is one to one.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}
