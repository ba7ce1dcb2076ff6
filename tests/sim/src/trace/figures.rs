//! What a replay comes to.

use gslb_types::Timestamp;
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

/// Answers, one by one.
#[derive(Default)]
pub(super) struct Tally {
    answers: u64,
    lost: u64,
    sum: f64,
    best: f64,
    round_robin: f64,
    regrets: Vec<f64>,
    late: (f64, u64),
    changes: u64,
    last: BTreeMap<IpAddr, usize>,
    began: Option<Timestamp>,
    ended: Timestamp,
}

/// A replay in figures. Regret is the RTT of the site answered minus the lowest of that moment; milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Answers that were judged.
    pub answers: u64,
    /// Answers whose site did not reply in that slice: left out of the rest.
    pub left_out: u64,
    /// Mean RTT of the sites answered.
    pub mean_rtt: f64,
    /// Mean of the lowest RTTs.
    pub oracle: f64,
    /// Mean regret of round robin.
    pub round_robin_regret: f64,
    /// Mean regret.
    pub mean_regret: f64,
    /// Mean regret of the queries at the very moment the RTTs change: what is known then is a slice old.
    pub late_regret: f64,
    /// Half of the answers lose no more, then 95 and 99 of a hundred.
    pub regret_quantiles: [f64; 3],
    /// Answers within 5 ms of the best, of a hundred.
    pub within_tolerance: f64,
    /// Answers with another site than the one before, for each LDNS and hour.
    pub changes: f64,
    /// Changes of advertised values, likewise.
    pub advertised: f64,
    /// Rows told to peers, likewise.
    pub rows: f64,
    /// Probes, likewise.
    pub probes: f64,
}

impl Tally {
    /// An answer; `late` if the RTTs have changed just now.
    pub(super) fn answered(
        &mut self,
        now: Timestamp,
        ldns: IpAddr,
        site: usize,
        rtts: &[Option<Duration>],
        late: bool,
    ) {
        self.began.get_or_insert(now);
        self.ended = now;
        if self.last.insert(ldns, site).is_some_and(|before| before != site) {
            self.changes += 1;
        }
        let known: Vec<f64> = rtts.iter().flatten().map(|rtt| rtt.as_secs_f64() * 1000.0).collect();
        let best = known.iter().copied().fold(f64::INFINITY, f64::min);
        let Some(Some(rtt)) = rtts.get(site) else {
            self.lost += 1;
            return;
        };
        let rtt = rtt.as_secs_f64() * 1000.0;
        self.answers += 1;
        self.sum += rtt;
        self.best += best;
        self.round_robin += known.iter().sum::<f64>() / known.len() as f64 - best;
        self.regrets.push(rtt - best);
        if late {
            self.late = (self.late.0 + rtt - best, self.late.1 + 1);
        }
    }

    pub(super) fn figures(mut self, advertised: u64, rows: u64, probes: u64) -> Figures {
        self.regrets.sort_by(f64::total_cmp);
        let answers = (self.answers as f64).max(1.0);
        let quantile = |q: f64| self.regrets.get((q * (answers - 1.0)) as usize).copied().unwrap_or(0.0);
        let span = self.ended.since(self.began.unwrap_or_default()).as_secs_f64().max(1.0);
        let ldns_hours = self.last.len().max(1) as f64 * span / 3600.0;
        let near = self.regrets.partition_point(|regret| *regret <= 5.0);
        Figures {
            answers: self.answers,
            left_out: self.lost,
            mean_rtt: self.sum / answers,
            oracle: self.best / answers,
            round_robin_regret: self.round_robin / answers,
            mean_regret: (self.sum - self.best) / answers,
            late_regret: self.late.0 / (self.late.1 as f64).max(1.0),
            regret_quantiles: [quantile(0.5), quantile(0.95), quantile(0.99)],
            within_tolerance: 100.0 * near as f64 / answers,
            changes: self.changes as f64 / ldns_hours,
            advertised: advertised as f64 / ldns_hours,
            rows: rows as f64 / ldns_hours,
            probes: probes as f64 / ldns_hours,
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [half, most, nearly_all] = self.regret_quantiles;
        let share = 100.0 * self.mean_regret / self.round_robin_regret.max(f64::MIN_POSITIVE);
        writeln!(
            f,
            "answers            {} ({} left out: the site did not reply)",
            self.answers, self.left_out
        )?;
        writeln!(f, "mean RTT           {:.1} ms; the lowest {:.1} ms", self.mean_rtt, self.oracle)?;
        writeln!(
            f,
            "regret             mean {:.1} ms, {share:.1} % of round robin's {:.1} ms",
            self.mean_regret, self.round_robin_regret
        )?;
        writeln!(f, "                   mean {:.1} ms at the moment of a change", self.late_regret)?;
        writeln!(
            f,
            "                   50 % {half:.1} ms, 95 % {most:.1} ms, 99 % {nearly_all:.1} ms; {:.1} % within 5 ms",
            self.within_tolerance
        )?;
        writeln!(
            f,
            "for LDNS and hour  {:.1} changes of site, {:.1} advertised, {:.1} rows told, {:.0} probes",
            self.changes, self.advertised, self.rows, self.probes
        )
    }
}
