//! Who is probed next: queues by class, each in order of due time.
//!
//! An entry whose time has not come stands in its queue already, so nothing is moved when it comes, and nobody walks all
//! of them.

use super::entry::Class;
use super::order::Order;
use gslb_types::Timestamp;

/// The entries that wait for their next probe.
pub(super) struct Queues {
    by_class: [Order<Timestamp>; 4],
    turn: u8,
}

/// Which class goes first, turn by turn, while several wait.
///
/// LDNS with a sample get three quarters of the budget. The rest is shared by newcomers and by those that were silent so
/// far, so that neither can shut the other out. Of the newcomers those that have asked in two different seconds go first:
/// under pressure, and only then, this is the stricter admission of threat T3.
const TURNS: [[Class; 4]; 8] = {
    use Class::{Measured, New, Returned, Silent};
    let one = [Measured, Returned, New, Silent];
    let other = [Measured, Silent, Returned, New];
    [one, other, one, [Silent, Returned, New, Measured], one, other, one, [Returned, New, Silent, Measured]]
};

impl Queues {
    pub(super) fn new() -> Self {
        Queues { by_class: std::array::from_fn(|_| Order::new()), turn: 0 }
    }

    pub(super) fn insert(&mut self, class: Class, due: Timestamp, index: u32) {
        self.by_class[class as usize].insert(due, index);
    }

    pub(super) fn remove(&mut self, class: Class, due: Timestamp, index: u32) {
        self.by_class[class as usize].remove(due, index);
    }

    /// The entry whose turn it is, if anybody is due. Those never probed only with `newcomers`.
    pub(super) fn due(&self, now: Timestamp, newcomers: bool) -> Option<u32> {
        let order = TURNS[usize::from(self.turn) % TURNS.len()];
        let mut classes = order.into_iter().filter(|class| newcomers || !is_unprobed(*class));
        classes.find_map(|class| self.first(class).filter(|(due, _)| *due <= now)).map(|(_, index)| index)
    }

    /// Passes the turn on; to be called when a probe leaves.
    pub(super) fn served(&mut self) {
        self.turn = self.turn.wrapping_add(1);
    }

    /// When the next entry is due, given when each budget opens.
    pub(super) fn next(&self, probes_open: Timestamp, newcomers_open: Timestamp) -> Option<Timestamp> {
        let classes = [Class::Measured, Class::Silent, Class::Returned, Class::New];
        let times = classes.into_iter().filter_map(|class| {
            let open = if is_unprobed(class) { probes_open.max(newcomers_open) } else { probes_open };
            self.first(class).map(|(due, _)| due.max(open))
        });
        times.min().filter(|at| *at != Timestamp::MAX)
    }

    fn first(&self, class: Class) -> Option<(Timestamp, u32)> {
        self.by_class[class as usize].first()
    }
}

/// Whether a probe of it counts against the budget of newcomers.
pub(super) fn is_unprobed(class: Class) -> bool {
    match class {
        Class::Returned | Class::New => true,
        Class::Measured | Class::Silent => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Class::{Measured, New, Returned, Silent};

    fn at(s: u64) -> Timestamp {
        Timestamp::from_micros(s * 1_000_000)
    }

    /// Who is served in eight turns when that many of each class are due.
    fn served(classes: &[Class]) -> [usize; 4] {
        let mut queues = Queues::new();
        for class in classes {
            for n in 0..8 {
                queues.insert(*class, at(n), n as u32 + 10 * *class as u32);
            }
        }
        let mut count = [0; 4];
        for _ in 0..8 {
            let index = queues.due(at(9), true).unwrap();
            let class = [Measured, Silent, Returned, New][index as usize / 10];
            queues.remove(class, at(u64::from(index % 10)), index);
            count[class as usize] += 1;
            queues.served();
        }
        count
    }

    #[test]
    fn the_measured_get_three_quarters_and_nobody_but_a_lone_asker_is_shut_out() {
        assert_eq!(served(&[Measured, Silent, Returned, New]), [6, 1, 1, 0]);
        assert_eq!(served(&[Measured, Silent, New]), [6, 1, 0, 1]);
        assert_eq!(served(&[Measured, New]), [6, 0, 0, 2]);
        assert_eq!(served(&[Silent, New]), [0, 3, 0, 5]);
        assert_eq!(served(&[New]), [0, 0, 0, 8]);
    }

    #[test]
    fn within_a_class_the_oldest_goes_first_and_nobody_before_the_time() {
        let mut queues = Queues::new();
        queues.insert(Measured, at(5), 1);
        queues.insert(Measured, at(4), 2);
        assert_eq!((queues.due(at(3), true), queues.due(at(4), true)), (None, Some(2)));
        queues.remove(Measured, at(4), 2);
        assert_eq!((queues.due(at(4), true), queues.due(at(5), true)), (None, Some(1)));
    }

    #[test]
    fn the_next_moment_waits_for_the_budget_it_needs() {
        let mut queues = Queues::new();
        assert_eq!(queues.next(at(0), at(0)), None);
        queues.insert(New, at(2), 1);
        assert_eq!(queues.next(at(0), at(9)), Some(at(9)));
        assert_eq!(queues.due(at(9), false), None);
        queues.insert(Silent, at(3), 2);
        assert_eq!(queues.next(at(0), at(9)), Some(at(3)));
        assert_eq!(queues.next(at(5), at(9)), Some(at(5)));
        assert_eq!(queues.next(Timestamp::MAX, at(9)), None);
    }
}
