//! What answering costs, step by step, without sockets: `cargo bench -p bench`.

use bench::{Fixture, NAME, Query, ldns, query};
use criterion::{Criterion, criterion_group, criterion_main};
use gslb_core::{Client, Family, Turn, decide};
use gslb_types::Ldns;
use std::hint::black_box;
use std::time::Duration;

/// Rows of a large table: more than the caches hold.
const MANY: usize = 100_000;

/// A step through the table that visits all its rows, each far from the last one.
const STRIDE: usize = 7919;

fn answers(c: &mut Criterion) {
    let fixture = Fixture::new(8);
    let mut out = [0; 1232];
    let mut ask = |name: &str, request: Vec<u8>, len: usize| {
        assert_eq!(fixture.answer(&request, ldns(3), &mut out), len, "{name}: not what is to be measured");
        c.bench_function(&format!("answer/{name}"), |b| {
            b.iter(|| fixture.answer(black_box(&request), black_box(ldns(3)), &mut out));
        });
    };
    let question = |name: &str| 12 + name.len() + 2 + 4;
    ask("www, hot row", query(NAME, Query::Plain), question(NAME) + 16);
    ask("www, hot row, EDNS", query(NAME, Query::Edns), question(NAME) + 16 + 11);
    ask("static A", query("static.example.com", Query::Plain), question("static.example.com") + 16);
    let nobody = "nobody.example.com";
    ask("NXDOMAIN", query(nobody, Query::Plain), question(nobody) + 12 + 6 + 13 + 20);
    ask("REFUSED", query("www.example.org", Query::Plain), question(NAME));

    let many = Fixture::new(MANY);
    let request = query(NAME, Query::Plain);
    let mut next = 0;
    c.bench_function("answer/www, one of 100,000 rows", |b| {
        b.iter(|| {
            next = (next + STRIDE) % MANY;
            many.answer(black_box(&request), ldns(next), &mut out)
        });
    });
}

fn decisions(c: &mut Criterion) {
    let fixture = Fixture::new(8);
    let published = fixture.shared().published.load();
    let client = Client::new(ldns(3));
    let row = fixture.shared().rtts.row(Ldns::exact(client.ldns));
    assert!(row.is_some());
    c.bench_function("decide/rtt, four sites", |b| {
        b.iter(|| {
            let row = black_box(row.as_ref());
            decide(0, Family::V4, &published, row, &client, Turn::default(), fixture.now())
        });
    });
    c.bench_function("decide/backup method", |b| {
        b.iter(|| {
            decide(0, Family::V4, &published, black_box(None), &client, Turn::default(), fixture.now())
        });
    });
}

fn lookups(c: &mut Criterion) {
    let fixture = Fixture::new(MANY);
    let table = &fixture.shared().rtts;
    assert_eq!(table.len(), MANY);
    c.bench_function("table/the same row of 100,000", |b| {
        b.iter(|| table.row(black_box(Ldns::exact(ldns(3)))));
    });
    let mut next = 0;
    c.bench_function("table/any row of 100,000", |b| {
        b.iter(|| {
            next = (next + STRIDE) % MANY;
            table.row(black_box(Ldns::exact(ldns(next))))
        });
    });
}

criterion_group! {
    name = benches;
    // Minutes matter more than the last percent.
    config = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    targets = answers, decisions, lookups
}
criterion_main!(benches);
