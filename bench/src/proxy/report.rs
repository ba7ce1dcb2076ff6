//! What is printed: a line for each round, and as the last lines the ratio of each kind of traffic.

use super::{Case, Turn};
use crate::report::median;
use std::fmt;

/// The rounds of a run: ours and haproxy's turn of each.
#[derive(Clone, Debug, Default)]
pub struct ProxyReport {
    rounds: Vec<(Case, [Turn; 2])>,
}

impl ProxyReport {
    /// The head of the table.
    pub const HEAD: &str = "               gslb-dns                       haproxy\n\
                            case      us/request requests/s  p99 ms   us/request requests/s  p99 ms   ratio";

    /// Adds a round and gives its line of the table.
    pub fn add(&mut self, case: Case, turns: [Turn; 2]) -> String {
        self.rounds.push((case, turns));
        line(case, turns)
    }

    fn of(&self, case: Case) -> impl Iterator<Item = [Turn; 2]> {
        self.rounds.iter().filter(move |(of, _)| *of == case).map(|(_, turns)| *turns)
    }

    /// The median of the rounds' ratios of CPU time per request.
    pub fn ratio(&self, case: Case) -> f64 {
        median(self.of(case).map(ratio))
    }
}

/// The medians of each case, then a line `case R` for each.
impl fmt::Display for ProxyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for case in Case::ALL {
            let middle = |nth: usize, field: fn(&Turn) -> f64| {
                median(self.of(case).filter_map(|t| t.get(nth).map(field)))
            };
            let turn = |nth| Turn {
                micros: middle(nth, |t| t.micros),
                per_second: middle(nth, |t| t.per_second),
                p99: middle(nth, |t| t.p99),
            };
            let (min, max) =
                self.of(case).map(ratio).fold((f64::INFINITY, 0.0_f64), |(a, b), r| (a.min(r), b.max(r)));
            writeln!(f, "median {} ({min:.2}..{max:.2})", line(case, [turn(0), turn(1)]))?;
        }
        let last = Case::ALL.map(|case| format!("{} {:.2}", case.name(), self.ratio(case)));
        f.write_str(&last.join("\n"))
    }
}

fn ratio([ours, theirs]: [Turn; 2]) -> f64 {
    ours.micros / theirs.micros
}

fn line(case: Case, turns: [Turn; 2]) -> String {
    let cost = |t: &Turn| format!("{:10.2} {:10.0} {:7.2}", t.micros, t.per_second, t.p99);
    let [ours, theirs] = turns;
    format!("{:<9} {}   {}   {:5.2}", case.name(), cost(&ours), cost(&theirs), ratio(turns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_the_ratios() {
        let mut report = ProxyReport::default();
        let turn = |micros| Turn { micros, per_second: 1000.0, p99: 1.0 };
        for case in Case::ALL {
            for ours in [30.0, 10.0, 20.0] {
                report.add(case, [turn(ours), turn(10.0)]);
            }
        }
        let text = report.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[lines.len() - 4..], ["http 2.00", "http-new 2.00", "ssl 2.00", "tcp 2.00"]);
    }
}
