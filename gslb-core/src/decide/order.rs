//! Orders of preference among the services of a virtual server.

use super::contenders::Contenders;
use super::{Deciding, Decision, Reason};

impl Deciding<'_> {
    /// Leaves those of the first order that has enough of them; if none has, of the first order there is. What can be answered
    /// is answered, however few.
    pub(super) fn keep_order(&self, contenders: &mut Contenders, steps: &mut Decision) {
        if !self.policy.has_orders {
            return;
        }
        let Some(first) = contenders.iter().map(|c| c.order).min() else { return };
        let count = |order: u16| contenders.iter().filter(|c| c.order == order).count();
        let next = |order: u16| contenders.iter().map(|c| c.order).filter(|other| *other > order).min();
        let mut orders = std::iter::successors(Some(first), |order| next(*order));
        let enough = orders.find(|order| {
            let count = count(*order);
            let is_enough = count as u64 >= u64::from(self.policy.order_threshold);
            if !is_enough {
                steps.say(Reason::TooFewOfOrder(*order, count));
            }
            is_enough
        });
        let order = enough.unwrap_or(first);
        contenders.retain(|c| c.order == order);
        steps.say(Reason::Order(order, contenders.len()));
    }
}
