//! What is printed: a table of rounds, medians, and the ratio.

use crate::{Cost, Round};
use std::fmt;

/// The rounds of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    rounds: Vec<Round>,
}

impl Report {
    /// The head of the table.
    pub const HEAD: &str = "                gslb-dns                          gdnsd\n\
                            round   us/answer answers/s    loss    us/answer answers/s    loss   ratio";

    /// Adds a round and gives its line of the table.
    pub fn add(&mut self, round: Round) -> String {
        self.rounds.push(round);
        line(&self.rounds.len().to_string(), &round.ours, &round.theirs, round.ratio())
    }

    /// The median of the rounds' ratios: one round that was disturbed does not move it.
    pub fn ratio(&self) -> f64 {
        median(self.rounds.iter().map(Round::ratio))
    }

    fn medians(&self, of: impl Fn(&Round) -> Cost) -> Cost {
        let each = |field: fn(&Cost) -> f64| median(self.rounds.iter().map(|round| field(&of(round))));
        Cost { micros: each(|c| c.micros), per_second: each(|c| c.per_second), loss: each(|c| c.loss) }
    }
}

/// The medians, and as the last line `ratio R (min..max)`.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ours, theirs) = (self.medians(|r| r.ours), self.medians(|r| r.theirs));
        writeln!(f, "{}", line("median", &ours, &theirs, self.ratio()))?;
        let ratios = || self.rounds.iter().map(Round::ratio);
        let (min, max) = (ratios().fold(f64::INFINITY, f64::min), ratios().fold(0.0, f64::max));
        write!(f, "ratio {:.2} ({min:.2}..{max:.2})", self.ratio())
    }
}

fn line(label: &str, ours: &Cost, theirs: &Cost, ratio: f64) -> String {
    let cost = |c: &Cost| format!("{:9.3} {:9.0} {:6.3}%", c.micros, c.per_second, c.loss * 100.0);
    format!("{label:<7} {}    {}   {ratio:5.2}", cost(ours), cost(theirs))
}

/// The middle one, or the mean of the two in the middle.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let middle = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
    (middle(sorted.len().saturating_sub(1) / 2) + middle(sorted.len() / 2)) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(micros: f64) -> Cost {
        Cost { micros, per_second: 400_000.0, loss: 0.0 }
    }

    #[test]
    fn the_last_line_is_the_median_ratio_with_its_range() {
        let mut report = Report::default();
        for (ours, theirs) in [(2.2, 2.0), (2.0, 2.0), (3.0, 2.0)] {
            report.add(Round { ours: cost(ours), theirs: cost(theirs) });
        }
        let text = report.to_string();
        assert_eq!(text.lines().last(), Some("ratio 1.10 (1.00..1.50)"));
        assert!(text.starts_with("median "), "{text}");
    }

    #[test]
    fn lines_stand_under_their_heads() {
        let mut report = Report::default();
        let line = report.add(Round { ours: cost(2.2), theirs: cost(2.0) });
        assert_eq!(line, "1           2.200    400000  0.000%        2.000    400000  0.000%    1.10");
        assert_eq!(Report::HEAD.lines().last().map(str::len), Some(line.len()));
    }

    #[test]
    fn a_median_of_an_even_number_lies_between() {
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
        assert_eq!(median([5.0].into_iter()), 5.0);
    }
}
