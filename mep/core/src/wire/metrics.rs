//! Services of a site.

use super::{Allowance, Doubts, millis};
use crate::ServiceMetric;
use crate::proto::{self, frame::Body};
use gslb_types::{Rtt, ServiceName, ServiceState};
use std::time::Duration;

/// The body that tells these services, as they were so long ago.
pub(crate) fn metrics(services: &[ServiceMetric], age: Duration) -> Body {
    Body::Metrics(site_metrics(services, age))
}

/// Likewise, as part of another body.
pub(super) fn site_metrics(services: &[ServiceMetric], age: Duration) -> proto::SiteMetrics {
    let services = services.iter().map(|service| proto::Service {
        name: service.name.as_str().to_owned(),
        state: state_to_wire(service.state) as i32,
        response_time_us: service.response_time.map(Rtt::as_micros),
        active: service.active,
        connections: service.connections,
        bytes: service.bytes,
        packets: service.packets,
        requests: service.requests,
        ttfb_us: service.ttfb.map(Rtt::as_micros),
        load: service.load,
    });
    proto::SiteMetrics { age_ms: millis(age), services: services.collect() }
}

/// The services of a body; names that are none are left out and counted, and so are response times out of range.
pub(super) fn read_services(services: Vec<proto::Service>, doubts: &mut Doubts) -> Vec<ServiceMetric> {
    if !Allowance::new().take(services.len(), doubts) {
        return Vec::new();
    }
    services.into_iter().filter_map(|service| read_service(&service, doubts)).collect()
}

fn read_service(service: &proto::Service, doubts: &mut Doubts) -> Option<ServiceMetric> {
    let Ok(name) = ServiceName::new(&service.name) else {
        doubts.faults += 1;
        return None;
    };
    let mut time = |told: Option<u32>| {
        let read = told.filter(|us| (Rtt::MIN.as_micros()..=Rtt::MAX.as_micros()).contains(us));
        doubts.faults += u64::from(read != told);
        read.map(Rtt::from_micros)
    };
    let (response_time, ttfb) = (time(service.response_time_us), time(service.ttfb_us));
    Some(ServiceMetric {
        name,
        state: state_from_wire(service.state, doubts),
        response_time,
        active: service.active,
        connections: service.connections,
        bytes: service.bytes,
        packets: service.packets,
        requests: service.requests,
        ttfb,
        load: service.load,
    })
}

fn state_to_wire(state: ServiceState) -> proto::ServiceState {
    match state {
        ServiceState::Learning => proto::ServiceState::Learning,
        ServiceState::Up => proto::ServiceState::Up,
        ServiceState::Down => proto::ServiceState::Down,
        ServiceState::Disabled => proto::ServiceState::Disabled,
    }
}

/// A state this version does not know is never healthy (behaviour 8). It is not left out either: the last word before it
/// may have been "up".
fn state_from_wire(state: i32, doubts: &mut Doubts) -> ServiceState {
    match proto::ServiceState::try_from(state) {
        Ok(proto::ServiceState::Learning) => ServiceState::Learning,
        Ok(proto::ServiceState::Up) => ServiceState::Up,
        Ok(proto::ServiceState::Down) => ServiceState::Down,
        Ok(proto::ServiceState::Disabled) => ServiceState::Disabled,
        Ok(proto::ServiceState::Unspecified) => {
            doubts.faults += 1;
            ServiceState::Down
        }
        Err(_) => {
            doubts.unknown = true;
            ServiceState::Down
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Word, body, decode};

    fn up(name: &str) -> ServiceMetric {
        ServiceMetric::new(ServiceName::new(name).unwrap(), ServiceState::Up)
    }

    #[test]
    fn services_come_out_as_they_went_in_and_absent_is_not_zero() {
        let told = vec![
            up("web-a"),
            ServiceMetric {
                state: ServiceState::Learning,
                response_time: Some(Rtt::from_micros(1)),
                active: Some(0),
                connections: Some(u64::MAX),
                bytes: Some(7),
                packets: Some(1),
                requests: Some(12),
                ttfb: Some(Rtt::MAX),
                load: Some(1_500),
                ..up("web-b")
            },
        ];
        let age = Duration::from_millis(12);
        let read = decode(body(metrics(&told, age))).unwrap();
        assert_eq!(
            (read.word, read.doubts),
            (Some(Word::Metrics { age, services: told }), Doubts::default())
        );
    }

    #[test]
    fn a_state_this_version_does_not_know_is_down() {
        for (state, unknown) in [(0, false), (5, true), (-1, true), (i32::MAX, true)] {
            let mut doubts = Doubts::default();
            let told = proto::Service { name: "web".to_owned(), state, ..Default::default() };
            let read = read_services(vec![told], &mut doubts);
            let expected = Doubts { unknown, faults: u64::from(!unknown), implausible: 0 };
            assert_eq!((read[0].state, doubts), (ServiceState::Down, expected), "{state}");
        }
    }

    #[test]
    fn a_name_that_is_none_and_a_response_time_of_nothing_are_counted() {
        let told = |name: &str, us| proto::Service {
            name: name.to_owned(),
            state: 2,
            response_time_us: Some(us),
            ..Default::default()
        };
        let mut doubts = Doubts::default();
        let late = proto::Service { ttfb_us: Some(u32::MAX), ..told("ok", 5) };
        let read = read_services(vec![told("web\u{1b}[2J", 5), told("web", 0), late], &mut doubts);
        let ok = ServiceMetric { response_time: Some(Rtt::from_micros(5)), ..up("ok") };
        assert_eq!((read, doubts.faults), (vec![up("web"), ok], 3));
    }
}
