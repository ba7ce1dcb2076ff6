//! From CSV to slices of time.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// Measured RTTs over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    sites: Vec<String>,
    slices: Vec<Slice>,
}

/// What was measured at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// From the beginning.
    pub at: Duration,
    /// By LDNS, then by site in the order in which they first appear; none if no answer came.
    pub rtts: BTreeMap<IpAddr, Vec<Option<Duration>>>,
}

/// A line that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// The head of the file is another one.
    #[error("the first line must be time_s,ldns,site,rtt_ms")]
    Head,
    /// A line is not what the head says.
    #[error("line {0}: expected a number, an address, a site and a number or nothing, by rising time")]
    Line(usize),
    /// There is nothing.
    #[error("there are no lines")]
    Empty,
}

const HEAD: &str = "time_s,ldns,site,rtt_ms";

impl Trace {
    /// Reads a trace.
    pub fn parse(csv: &str) -> Result<Trace, TraceError> {
        let mut lines = csv.lines();
        if lines.next().map(str::trim) != Some(HEAD) {
            return Err(TraceError::Head);
        }
        let mut trace = Trace { sites: Vec::new(), slices: Vec::new() };
        for (n, line) in lines.enumerate() {
            let row = Row::read(line).ok_or(TraceError::Line(n + 2))?;
            if trace.slices.last().is_some_and(|slice| row.at < slice.at) {
                return Err(TraceError::Line(n + 2));
            }
            trace.add(&row);
        }
        if trace.slices.is_empty() { Err(TraceError::Empty) } else { Ok(trace) }
    }

    /// The sites, in the order in which they first appear.
    pub fn sites(&self) -> impl ExactSizeIterator<Item = &str> {
        self.sites.iter().map(String::as_str)
    }

    /// The slices, by rising time.
    pub fn slices(&self) -> &[Slice] {
        &self.slices
    }

    /// When each slice ends: with the next, and the last after as long as the one before.
    pub fn ends(&self) -> impl Iterator<Item = Duration> + '_ {
        let last = self.slices.last().map_or(Duration::ZERO, |slice| slice.at);
        let before = self.slices.iter().rev().nth(1).map_or(Duration::ZERO, |slice| slice.at);
        let end = last + last.saturating_sub(before).max(Duration::from_secs(1));
        self.slices.iter().skip(1).map(|slice| slice.at).chain([end])
    }

    fn add(&mut self, row: &Row<'_>) {
        let site = self.sites.iter().position(|site| site == row.site).unwrap_or_else(|| {
            self.sites.push(row.site.to_owned());
            self.sites.len() - 1
        });
        if self.slices.last().is_none_or(|slice| slice.at < row.at) {
            self.slices.push(Slice { at: row.at, rtts: BTreeMap::new() });
        }
        if let Some(slice) = self.slices.last_mut() {
            let rtts = slice.rtts.entry(row.ldns).or_default();
            rtts.resize(rtts.len().max(site + 1), None);
            rtts[site] = row.rtt;
        }
    }
}

struct Row<'a> {
    at: Duration,
    ldns: IpAddr,
    site: &'a str,
    rtt: Option<Duration>,
}

impl<'a> Row<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let mut fields = line.trim_end().split(',');
        let at = seconds(fields.next()?, 1.0)?;
        let ldns = fields.next()?.parse().ok()?;
        let site = fields.next()?;
        let rtt = match fields.next()? {
            "" => None,
            text => Some(seconds(text, 1000.0)?),
        };
        fields.next().is_none().then_some(Row { at, ldns, site, rtt })
    }
}

fn seconds(text: &str, parts: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(text.parse::<f64>().ok()? / parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_one_time_are_a_slice() {
        let trace =
            Trace::parse("time_s,ldns,site,rtt_ms\n0,192.0.2.1,a,10\n0,192.0.2.1,b,\n15,192.0.2.1,b,2.5\n")
                .unwrap();
        assert_eq!(trace.sites().collect::<Vec<_>>(), ["a", "b"]);
        let ldns: IpAddr = "192.0.2.1".parse().unwrap();
        assert_eq!(trace.slices()[0].rtts[&ldns], [Some(Duration::from_millis(10)), None]);
        assert_eq!(trace.slices()[1].rtts[&ldns], [None, Some(Duration::from_micros(2500))]);
        assert_eq!(trace.ends().collect::<Vec<_>>(), [15, 30].map(Duration::from_secs));
    }

    #[test]
    fn what_is_no_trace_is_refused_with_its_line() {
        let head = "time_s,ldns,site,rtt_ms\n";
        assert_eq!(Trace::parse("0,192.0.2.1,a,10"), Err(TraceError::Head));
        assert_eq!(Trace::parse(head), Err(TraceError::Empty));
        for bad in [
            "0,nobody,a,10",
            "0,192.0.2.1,a",
            "0,192.0.2.1,a,x",
            "0,192.0.2.1,a,-1",
            "0,192.0.2.1,a,1,2",
            "9,192.0.2.1,a,1\n3,192.0.2.1,a,1",
        ] {
            let line = 1 + bad.lines().count();
            assert_eq!(Trace::parse(&format!("{head}{bad}")), Err(TraceError::Line(line)), "{bad}");
        }
    }
}
