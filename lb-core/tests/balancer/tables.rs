//! The articles' worked examples through the whole machine: its numbers come in as health, first bytes, traffic and open
//! transactions, as they do at a real virtual server.

use crate::common::{self, Row, Table};
use crate::fixture::{Played, client, settings, us};
use gslb_types::{LbMethod, ServiceName, ServiceState};
use lb_core::{MemberId, MemberSettings, MemberView};

/// All files of vectors.
const ALL: [&str; 6] = [
    include_str!("../vectors/lrtm.toml"),
    include_str!("../vectors/lrtm-weighted.toml"),
    include_str!("../vectors/lrt.toml"),
    include_str!("../vectors/lrt-weighted.toml"),
    include_str!("../vectors/bandwidth.toml"),
    include_str!("../vectors/bandwidth-weighted.toml"),
];

#[test]
fn the_worked_examples_come_out_row_by_row() {
    let mut rows = 0;
    for text in ALL {
        let table = Table::read(text);
        let mut wrong = play(&table, &table.printed, table.uncounted_in_printed);
        wrong.extend(play(&table, &table.calculated, None));
        assert!(wrong.is_empty(), "{}:\n{}", table.method.as_str(), wrong.join("\n"));
        rows += table.printed.len() + table.calculated.len();
    }
    println!("{rows} rows of {} tables", ALL.len());
    assert_eq!(rows, 6 * (8 + 16));
}

/// Plays the requests and says where the rows differ from what happens.
fn play(table: &Table, rows: &[Row], uncounted: Option<u32>) -> Vec<String> {
    let (mut lb, ids) = prepared(table);
    let mut wrong = Vec::new();
    for row in rows {
        let at = format!("request {}", row.request);
        let views = lb.lb.view(lb.now).members;
        let pick = lb.pick();
        let chosen = &table.service[pick.position];
        if chosen.name != row.service {
            wrong.push(format!("{at}: {} chosen, not {}", chosen.name, row.service));
        }
        let before = shown(table, &views, pick.position);
        if !row.before.shows(before) || pick.score.map(|s| s.get()) != views[pick.position].nw {
            wrong.push(format!(
                "{at}: {before:?} before ({:?} in the pick), not {:?}",
                pick.score, row.before
            ));
        }
        let tied: Vec<_> = tied(table, &views, pick.position).collect();
        if row.tied.as_ref().is_some_and(|expected| *expected != tied) || pick.tied != tied.len() {
            wrong.push(format!("{at}: {tied:?} tied ({} said), not {:?}", pick.tied, row.tied));
        }
        if uncounted == Some(row.request) {
            lb.lb.ended(lb.now, pick.member);
        } else {
            lb.lb.traffic(lb.now, ids[pick.position], chosen.bytes_per_request.unwrap_or(0), 1);
        }
        let after = shown(table, &lb.lb.view(lb.now).members, pick.position);
        if !row.after.shows(after) {
            wrong.push(format!("{at}: {after:?} after, not {:?}", row.after));
        }
    }
    wrong
}

/// The virtual server with the numbers that the table begins with.
fn prepared(table: &Table) -> (Played, Vec<MemberId>) {
    let member = |(n, s): (usize, &common::Service)| MemberSettings {
        name: ServiceName::new(&s.name.to_lowercase()).unwrap(),
        weight: s.weight,
        ..crate::fixture::member(n)
    };
    let members: Vec<_> = table.service.iter().enumerate().map(member).collect();
    let names: Vec<_> = members.iter().map(|m| m.name.clone()).collect();
    let mut lb = Played::unchecked(lb_core::BalancerSettings { members, ..settings(table.method, 0) });
    for name in &names {
        lb.lb.handle_health(lb.now, name, ServiceState::Up, None);
    }
    let ids = in_order(&mut lb, names.len());
    for (s, (name, id)) in table.service.iter().zip(names.iter().zip(&ids)) {
        let others: Vec<_> = ids.iter().copied().filter(|other| other != id).collect();
        for _ in 0..s.active.unwrap_or(0) {
            lb.lb.pick(lb.now, &client(), &others).unwrap();
        }
        lb.lb.traffic(lb.now, *id, s.bytes.unwrap_or(0), 1);
        let time = s.response_time.map(us);
        lb.lb.handle_health(lb.now, name, ServiceState::Up, time);
        if let Some(time) = time {
            lb.lb.first_byte(lb.now, *id, time);
        }
    }
    // The tables begin with nobody's request before them, which is as if the last service had had it.
    let (last, rest) = ids.split_last().unwrap();
    lb.lb.pick(lb.now, &client(), rest).unwrap();
    lb.lb.ended(lb.now, *last);
    (lb, ids)
}

/// The number of each member, by its place.
fn in_order(lb: &mut Played, members: usize) -> Vec<MemberId> {
    let mut by_place = vec![None; members];
    let mut tried = Vec::new();
    while let Ok(pick) = lb.lb.pick(lb.now, &client(), &tried) {
        by_place[pick.position] = Some(pick.member);
        tried.push(pick.member);
        lb.lb.unsent(lb.now, pick.member);
    }
    by_place.into_iter().map(Option::unwrap).collect()
}

fn tied<'a>(table: &'a Table, views: &'a [MemberView], chosen: usize) -> impl Iterator<Item = &'a str> {
    (0..views.len()).filter(move |i| views[*i].nw == views[chosen].nw).map(|i| table.service[i].name.as_str())
}

fn shown(table: &Table, views: &[MemberView], position: usize) -> common::Exact {
    let view = &views[position];
    let n = match table.method {
        LbMethod::LeastBandwidth => view.window_bytes,
        LbMethod::LeastResponseTime => u64::from(view.active) * u64::from(view.ttfb.unwrap().as_micros()),
        _ => u64::from(view.active) * u64::from(view.response_time.unwrap().as_micros()),
    };
    assert_eq!(view.n, Some(n));
    table.exact(n, view.weight, view.nw.unwrap())
}
