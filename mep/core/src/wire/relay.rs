//! What a node says of a site that the reader does not hear itself.

use super::links::node;
use super::metrics::{read_services, site_metrics};
use super::rows::{read_rtts, rtt_rows};
use super::{Allowance, Doubts, from_millis, millis};
use crate::proto::{self, frame::Body, relayed::What};
use crate::{RttRow, ServiceMetric};
use gslb_types::{NodeId, SiteName};
use std::time::Duration;

/// A relay's word about a site.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Relayed {
    pub(crate) site: SiteName,
    /// How long ago the relay last heard the site.
    pub(crate) word_age: Duration,
    /// How long ago it last heard who tells the site's column.
    pub(crate) column_age: Duration,
    pub(crate) said: Said,
}

/// What the site said.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Said {
    Nothing,
    Begin,
    End,
    Rtts(Vec<RttRow>),
    Metrics { node: NodeId, age: Duration, services: Vec<ServiceMetric> },
}

/// The body that asks for these sites.
pub(crate) fn relay_request<'a>(sites: impl Iterator<Item = &'a SiteName>) -> Body {
    Body::RelayRequest(proto::RelayRequest { sites: sites.map(|site| site.as_str().to_owned()).collect() })
}

/// The body that relays this.
pub(crate) fn relayed(site: &SiteName, word_age: Duration, column_age: Duration, said: &Said) -> Body {
    let what = match said {
        Said::Nothing => None,
        Said::Begin => Some(What::Begin(proto::RelayBegin {})),
        Said::End => Some(What::End(proto::RelayEnd {})),
        Said::Rtts(rows) => Some(What::Rtts(rtt_rows(rows))),
        Said::Metrics { node, age, services } => Some(What::Metrics(proto::NodeMetrics {
            node: node.node.as_str().to_owned(),
            metrics: Some(site_metrics(services, *age)),
        })),
    };
    Body::Relayed(proto::Relayed {
        site: site.as_str().to_owned(),
        word_age_ms: millis(word_age),
        what,
        column_age_ms: Some(millis(column_age)),
    })
}

/// The sites of a request; names that are none are left out and counted.
pub(super) fn read_request(request: proto::RelayRequest, doubts: &mut Doubts) -> Vec<SiteName> {
    if !Allowance::of_names().take(request.sites.len(), doubts) {
        return Vec::new();
    }
    let sites: Vec<SiteName> = request.sites.iter().filter_map(|site| SiteName::new(site).ok()).collect();
    doubts.faults += request.sites.len().saturating_sub(sites.len()) as u64;
    sites
}

/// The word of a body, unless it names no site or no node.
pub(super) fn read_relayed(relayed: proto::Relayed, doubts: &mut Doubts) -> Option<Relayed> {
    let Ok(site) = SiteName::new(&relayed.site) else {
        doubts.faults += 1;
        return None;
    };
    let said = match relayed.what {
        None => Said::Nothing,
        Some(What::Begin(_)) => Said::Begin,
        Some(What::End(_)) => Said::End,
        Some(What::Rtts(rows)) => Said::Rtts(read_rtts(rows, doubts)),
        Some(What::Metrics(told)) => {
            let Some(node) = node(&relayed.site, &told.node) else {
                doubts.faults += 1;
                return None;
            };
            let metrics = told.metrics.unwrap_or_default();
            let services = read_services(metrics.services, doubts);
            Said::Metrics { node, age: from_millis(metrics.age_ms), services }
        }
    };
    let word_age = from_millis(relayed.word_age_ms);
    let column_age = relayed.column_age_ms.map_or(word_age, |ms| from_millis(ms).max(word_age));
    Some(Relayed { site, word_age, column_age, said })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Word, body, decode};
    use gslb_types::{Ldns, ProbeKind, Reach, Rtt, ServiceName, ServiceState};

    fn site() -> SiteName {
        SiteName::new("ber").unwrap()
    }

    #[test]
    fn relayed_words_come_out_as_they_went_in() {
        let row = RttRow {
            ldns: Ldns::exact("192.0.2.1".parse().unwrap()),
            reach: Reach::Known(Rtt::from_micros(27_000)),
            kind: Some(ProbeKind::Ping),
            age: Duration::from_secs(3),
        };
        let up = ServiceMetric::new(ServiceName::new("web").unwrap(), ServiceState::Up);
        let age = Duration::from_millis(900);
        for said in [
            Said::Nothing,
            Said::Begin,
            Said::End,
            Said::Rtts(vec![row]),
            Said::Metrics { node: "ber/2".parse().unwrap(), age, services: vec![up] },
        ] {
            let word_age = Duration::from_millis(1_200);
            let column_age = Duration::from_millis(7_000);
            let read = decode(body(relayed(&site(), word_age, column_age, &said))).unwrap();
            let expected = Relayed { site: site(), word_age, column_age, said };
            assert_eq!((read.word, read.doubts), (Some(Word::Relayed(expected)), Doubts::default()));
        }
    }

    /// Nobody tells a column who is not of the site.
    #[test]
    fn a_column_is_never_younger_than_the_site_s_last_word() {
        for (column_age_ms, expected) in [(None, 500), (Some(499), 500), (Some(501), 501)] {
            let told = proto::Relayed {
                site: "ber".to_owned(),
                word_age_ms: 500,
                column_age_ms,
                ..Default::default()
            };
            let read = read_relayed(told, &mut Doubts::default()).unwrap();
            assert_eq!(read.column_age, Duration::from_millis(expected));
        }
    }

    #[test]
    fn requests_come_out_as_they_went_in_and_names_that_are_none_are_counted() {
        let read = decode(body(relay_request([site()].iter()))).unwrap();
        assert_eq!((read.word, read.doubts), (Some(Word::RelayRequest(vec![site()])), Doubts::default()));
        let mut doubts = Doubts::default();
        let sites = vec!["ber".to_owned(), "B\n".to_owned()];
        assert_eq!(read_request(proto::RelayRequest { sites }, &mut doubts), [site()]);
        assert_eq!(doubts.faults, 1);
    }

    #[test]
    fn a_word_about_no_site_or_of_no_node_is_left_out_and_counted() {
        let mut doubts = Doubts::default();
        let nowhere = proto::Relayed { site: "-".to_owned(), ..Default::default() };
        assert_eq!(read_relayed(nowhere, &mut doubts), None);
        let what = Some(What::Metrics(proto::NodeMetrics { node: String::new(), metrics: None }));
        let nobody = proto::Relayed { site: "ber".to_owned(), what, ..Default::default() };
        assert_eq!((read_relayed(nobody, &mut doubts), doubts.faults), (None, 2));
    }
}
