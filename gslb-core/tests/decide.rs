//! Which site and service is answered, step by step (behaviour 2, 3, 5, 6; faults I-40, I-46, I-54, I-55, I-58).
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

mod text;

use gslb_core::{
    Cell, Client, Confirmed, Decision, Family, Published, Reason, Row, RttTable, Shared, Turn,
    decide::Verdict,
};
use gslb_types::{AllDown, GslbMethod, Ldns, Reach, Rtt, ServiceState, SiteIndex, Timestamp};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Three sites with a service each, and nothing that chooses among them.
fn group() -> String {
    let parts = [
        "version = 1\nnode = \"a/1\"\n",
        &text::sites(&["a", "b", "c"]),
        &text::nodes(&["a/1"]),
        &text::service("a1", "a", "192.0.2.10", ""),
        &text::service("b1", "b", "192.0.2.20", ""),
        &text::service("c1", "c", "192.0.2.30", ""),
        text::WWW,
    ];
    parts.concat()
}

/// The three services a1, b1, c1 are services 0, 1, 2; `vserver` is what stands in its table beside the name.
struct Bench {
    published: Published,
    row: Option<Row>,
    now: Timestamp,
    turn: Turn,
}

fn at(s: u64) -> Timestamp {
    Timestamp::from_micros(s * 1_000_000)
}

fn ms(n: u32) -> Reach {
    Reach::Known(Rtt::from_micros(n * 1000))
}

fn site(n: usize) -> SiteIndex {
    SiteIndex::new(n).unwrap()
}

impl Bench {
    fn new(vserver: &str) -> Self {
        Bench::of(&format!("{}\n[[vservers]]\nname = \"www\"\n{vserver}\n", group()))
    }

    fn plain(more: &str) -> Self {
        Bench::new(&format!("services = [\"a1\", \"b1\", \"c1\"]\n{more}"))
    }

    fn of(text: &str) -> Self {
        let shared = Shared::new(&text::load(text, None), 1, at(0));
        let mut published = Arc::into_inner(shared.published.into_inner()).unwrap();
        published.services.iter_mut().for_each(|s| s.state = Up);
        Bench { published, row: None, now: at(100), turn: Turn::default() }
    }

    /// What each site says of the LDNS, seen first at this second.
    fn row(mut self, first_seen: u64, reaches: [Reach; 3]) -> Self {
        let table = RttTable::new(3, 1);
        let ldns = Ldns::exact([198, 51, 100, 1].into());
        table.sighted(ldns, at(first_seen));
        for (index, reach) in reaches.into_iter().enumerate() {
            table.write(ldns, site(index), Cell::new(reach, None, self.now));
        }
        self.row = table.row(ldns);
        self
    }

    fn states(mut self, states: [ServiceState; 3]) -> Self {
        self.published.services.iter_mut().zip(states).for_each(|(s, state)| s.state = state);
        self
    }

    fn decide_as(&self, ldns: IpAddr, family: Family) -> Decision {
        gslb_core::decide(
            0,
            family,
            &self.published,
            self.row.as_ref(),
            &Client::new(ldns),
            self.turn,
            self.now,
        )
    }

    fn decide(&self) -> Decision {
        self.decide_as([198, 51, 100, 1].into(), Family::V4)
    }

    fn verdict(&self) -> Verdict {
        self.decide().verdict
    }

    /// How often each service is answered in so many queries, the turn moving as the DNS side moves it.
    fn shares(&mut self, queries: u64) -> BTreeMap<usize, u64> {
        let mut shares = BTreeMap::new();
        for _ in 0..queries {
            let decision = self.decide();
            let Verdict::Service(service) = decision.verdict else { panic!("{decision:?}") };
            *shares.entry(service).or_default() += 1;
            self.turn = Turn { round: self.turn.round + u64::from(decision.took_turn), last: Some(service) };
        }
        shares
    }
}

use ServiceState::{Disabled, Down, Learning, Up};

#[test]
fn the_site_with_the_lowest_rtt_is_answered() {
    let b = Bench::plain("").row(0, [ms(30), ms(12), ms(200)]);
    let decision = b.decide();
    assert_eq!(decision.verdict, Verdict::Service(1));
    assert!(!decision.took_turn);
    assert_eq!(
        decision.reasons.as_slice(),
        [
            Reason::Up(3),
            Reason::Site(site(0), ms(30)),
            Reason::Site(site(1), ms(12)),
            Reason::Site(site(2), ms(200)),
            Reason::Nearest(site(1), Rtt::from_micros(12_000)),
            Reason::Chosen(site(1), GslbMethod::Rtt),
            Reason::OnlyService(1),
        ]
    );
}

#[test]
fn the_nearest_site_that_is_down_is_passed_over() {
    let b = Bench::plain("").row(0, [ms(30), ms(12), ms(200)]).states([Up, Down, Up]);
    assert_eq!(b.verdict(), Verdict::Service(0));
}

#[test]
fn sites_within_the_selection_tolerance_take_turns_and_exactly_the_tolerance_is_within() {
    let mut b = Bench::plain("selection_tolerance = \"5ms\"").row(0, [ms(17), ms(12), ms(18)]);
    assert_eq!(b.shares(1000), BTreeMap::from([(0, 500), (1, 500)]));
    let mut none = Bench::plain("").row(0, [ms(13), ms(12), ms(18)]);
    assert_eq!(none.shares(1000), BTreeMap::from([(1, 1000)]));
}

/// Faults I-58 and I-40: an LDNS equally near to all sites gives none of them an advantage.
#[test]
fn equal_rtts_share_exactly_and_a_down_site_doubles_nobody() {
    let mut b = Bench::plain("").row(0, [ms(1), ms(1), ms(1)]);
    assert_eq!(b.shares(3000), BTreeMap::from([(0, 1000), (1, 1000), (2, 1000)]));
    let mut two = Bench::plain("").row(0, [ms(1), ms(1), ms(1)]).states([Up, Down, Up]);
    assert_eq!(two.shares(3000), BTreeMap::from([(0, 1500), (2, 1500)]));
}

#[test]
fn an_ldns_nobody_knows_is_answered_by_the_backup_method() {
    let mut b = Bench::plain("");
    assert_eq!(b.decide().reasons[1], Reason::UnknownLdns);
    assert_eq!(b.shares(3000), BTreeMap::from([(0, 1000), (1, 1000), (2, 1000)]));
}

#[test]
fn a_pending_site_is_waited_for_ten_seconds_after_first_sight_and_no_longer() {
    let nine = Bench::plain("").row(91, [ms(30), Reach::Pending, ms(20)]).decide();
    assert!(nine.reasons.contains(&Reason::Waiting) && nine.took_turn);
    let ten = Bench::plain("").row(90, [ms(30), Reach::Pending, ms(20)]);
    assert_eq!(ten.verdict(), Verdict::Service(2));
}

#[test]
fn a_site_known_unreachable_is_not_waited_for() {
    let b = Bench::plain("").row(99, [ms(30), Reach::Unreachable, ms(20)]);
    assert_eq!(b.verdict(), Verdict::Service(2));
}

#[test]
fn a_pending_site_that_is_down_is_not_waited_for() {
    let b = Bench::plain("").row(99, [ms(30), Reach::Pending, ms(20)]).states([Up, Down, Up]);
    assert_eq!(b.verdict(), Verdict::Service(2));
}

#[test]
fn unreachable_sites_are_answered_only_if_none_is_known() {
    let mut b = Bench::plain("").row(0, [Reach::Unreachable; 3]);
    assert!(b.decide().reasons.contains(&Reason::NoRtt));
    assert_eq!(b.shares(300), BTreeMap::from([(0, 100), (1, 100), (2, 100)]));
    let known = Bench::plain("").row(0, [Reach::Unreachable, Reach::Unreachable, ms(900)]);
    assert_eq!(known.verdict(), Verdict::Service(2));
}

/// Faults I-46.
#[test]
fn a_value_older_than_the_maximum_age_does_not_compete() {
    let mut b = Bench::plain("").row(0, [ms(30), ms(12), ms(200)]);
    b.now = at(160);
    assert_eq!(b.verdict(), Verdict::Service(1));
    b.now = at(161);
    assert!(b.decide().reasons.contains(&Reason::NoRtt));
    b.published.sites[1].confirmed = Some(Confirmed::new(at(50), at(150)));
    assert_eq!(b.verdict(), Verdict::Service(1), "its session goes on and confirms it");
}

#[test]
fn queries_of_unmeasured_ldns_are_dropped_where_that_is_configured() {
    let b = Bench::plain("drop_ldns_requests = true");
    assert_eq!(b.verdict(), Verdict::Drop);
    let never_probed = b.decide_as([127, 0, 0, 1].into(), Family::V4).verdict;
    assert!(matches!(never_probed, Verdict::Service(_)), "it would meet silence for ever");
    assert_eq!(
        Bench::plain("drop_ldns_requests = true").row(99, [ms(1), Reach::Pending, ms(2)]).verdict(),
        Verdict::Drop
    );
    let waited = Bench::plain("drop_ldns_requests = true").row(0, [Reach::Pending; 3]);
    assert!(matches!(waited.verdict(), Verdict::Service(_)), "after ten seconds it is answered all the same");
}

#[test]
fn the_backup_method_can_be_a_hash_that_stays() {
    let b = Bench::plain("backup_method = \"source_ip_hash\"");
    let first = b.verdict();
    assert!((0..50).all(|_| b.verdict() == first) && !b.decide().took_turn);
    let of = |n: u8| b.decide_as([203, 0, 113, n].into(), Family::V4).verdict;
    let distinct: std::collections::BTreeSet<usize> =
        (0..100).filter_map(|n| if let Verdict::Service(s) = of(n) { Some(s) } else { None }).collect();
    assert_eq!(distinct.len(), 3, "clients are spread over all sites");
}

#[test]
fn weights_share_turns() {
    let mut b = Bench::new("services = [\"a1\", { service = \"b1\", weight = 3 }]\nmethod = \"round_robin\"");
    assert_eq!(b.shares(400), BTreeMap::from([(0, 100), (1, 300)]));
}

/// Faults I-54: a service not checked yet stands in only while none is up.
#[test]
fn learning_services_are_answered_only_while_none_is_up() {
    let row = [ms(30), ms(12), ms(200)];
    assert_eq!(Bench::plain("").row(0, row).states([Up, Learning, Learning]).verdict(), Verdict::Service(0));
    assert_eq!(
        Bench::plain("").row(0, row).states([Down, Learning, Learning]).verdict(),
        Verdict::Service(1)
    );
}

#[test]
fn all_down_answers_as_if_all_were_up_unless_configured() {
    let b = Bench::plain("").row(0, [ms(30), ms(12), ms(200)]).states([Down, Down, Down]);
    assert_eq!(b.verdict(), Verdict::Service(1));
    assert!(b.decide().reasons.contains(&Reason::AllDown(AllDown::All)));
    let disabled = Bench::plain("").row(0, [ms(30), ms(12), ms(200)]).states([Down, Disabled, Down]);
    assert_eq!(disabled.verdict(), Verdict::Service(0), "a disabled service is not answered even then");
    let all_disabled = Bench::plain("").states([Disabled, Disabled, Disabled]);
    assert_eq!(all_disabled.verdict(), Verdict::Empty);
}

#[test]
fn all_down_can_be_empty_or_a_backup_address_of_the_family() {
    let down = [Down, Down, Down];
    assert_eq!(Bench::plain("all_down = \"empty\"").states(down).verdict(), Verdict::Empty);
    let backup = Bench::plain("all_down = \"backup_ip\"\nbackup_ip = [\"192.0.2.99\"]").states(down);
    assert_eq!(backup.verdict(), Verdict::BackupIp);
    let up = Bench::plain("all_down = \"empty\"").states([Down, Down, Up]);
    assert_eq!(up.verdict(), Verdict::Service(2), "one is enough");
}

#[test]
fn all_down_can_be_who_was_up_last() {
    let mut b =
        Bench::plain("all_down = \"last_good\"").row(0, [ms(30), ms(12), ms(200)]).states([Down, Down, Down]);
    b.published.last_good[0].fill(false);
    assert_eq!(b.verdict(), Verdict::Service(1), "nobody ever was: as if all were up");
    b.published.last_good[0] = vec![true, false, true];
    assert_eq!(b.verdict(), Verdict::Service(0));
}

#[test]
fn a_family_without_a_service_is_no_data() {
    let decision = Bench::plain("").decide_as([198, 51, 100, 1].into(), Family::V6);
    assert_eq!(
        (decision.verdict, decision.reasons.as_slice()),
        (Verdict::Empty, &[Reason::NoServiceOfFamily][..])
    );
}

mod within_the_site {
    use super::*;

    const TWO_AT_A: &str = r#"
[[services]]
name = "a2"
site = "a"
address = "192.0.2.11"
port = 80
"#;

    fn bench(method: &str) -> Bench {
        let vserver =
            format!("name = \"www\"\nlocal_method = \"{method}\"\nservices = [\"a1\", \"b1\", \"a2\"]");
        let mut b = Bench::of(&format!("{}{TWO_AT_A}\n[[vservers]]\n{vserver}\n", group()));
        b.published.services[2].state = Up;
        b.row(0, [ms(5), ms(50), ms(60)])
    }

    const A1: usize = 0;
    const A2: usize = 3;

    #[test]
    fn lrtm_takes_the_lower_response_time() {
        let mut b = bench("lrtm");
        b.published.services[A1].response_time = Some(Rtt::from_micros(900));
        b.published.services[A2].response_time = Some(Rtt::from_micros(800));
        assert_eq!(b.shares(10), BTreeMap::from([(A2, 10)]));
        b.published.services[A2].response_time = Some(Rtt::from_micros(900));
        assert_eq!(b.shares(10), BTreeMap::from([(A1, 5), (A2, 5)]), "a tie goes round");
    }

    #[test]
    fn lrtm_goes_round_until_all_are_measured() {
        assert_eq!(bench("lrtm").shares(10), BTreeMap::from([(A1, 5), (A2, 5)]));
    }

    #[test]
    fn round_robin_within_the_nearest_site_and_over_equal_sites_shares_exactly() {
        assert_eq!(bench("round_robin").shares(10), BTreeMap::from([(A1, 5), (A2, 5)]));
        let mut all_equal = bench("round_robin").row(0, [ms(5), ms(5), ms(5)]);
        assert_eq!(all_equal.shares(300), BTreeMap::from([(A1, 100), (1, 100), (A2, 100)]));
    }

    #[test]
    fn turns_of_sites_and_turns_within_a_site_do_not_march_in_step() {
        // Unmeasured services go round within the site; the site is chosen by turn as well.
        let mut b = bench("lrtm").row(0, [ms(5), ms(5), ms(60)]);
        let shares = b.shares(3000);
        assert_eq!((shares[&A1], shares[&A2], shares[&1]), (1000, 1000, 1000));
    }
}
