//! What is drawn by lot, from a seed.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;
use std::time::Duration;

/// A seeded source of everything random in a world: the same seed gives the same run.
#[derive(Clone)]
pub struct Chance(Pcg32);

impl Chance {
    /// The source of this seed.
    pub fn new(seed: u64) -> Self {
        Chance(Pcg32::seed_from_u64(seed))
    }

    /// One of 0 to `n - 1`; 0 if `n` is 0.
    pub fn below(&mut self, n: u32) -> u32 {
        let scaled = u64::from(self.0.next_u32()) * u64::from(n);
        (scaled >> 32) as u32
    }

    /// A place in a list of that length.
    pub fn place(&mut self, len: usize) -> usize {
        self.below(u32::try_from(len).unwrap_or(u32::MAX)) as usize
    }

    /// One of several values.
    pub fn pick<T: Copy, const N: usize>(&mut self, of: [T; N]) -> T {
        of[self.place(N)]
    }

    /// Whether something comes true that does so that often in a thousand times.
    pub fn permille(&mut self, times: u32) -> bool {
        self.below(1000) < times
    }

    /// A duration of 0 to `most`, in microseconds.
    pub fn within(&mut self, most: Duration) -> Duration {
        let most = u32::try_from(most.as_micros()).unwrap_or(u32::MAX - 1);
        Duration::from_micros(u64::from(self.below(most + 1)))
    }

    /// A duration from `least` to `most`.
    pub fn between(&mut self, least: Duration, most: Duration) -> Duration {
        least + self.within(most.saturating_sub(least))
    }

    /// A number for a boot id or another seed.
    pub fn number(&mut self) -> u64 {
        self.0.next_u64()
    }
}
