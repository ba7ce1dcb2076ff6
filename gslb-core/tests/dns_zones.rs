//! Plain zones: wildcards, aliases, DNAME, cuts and what goes into the additional section. What is expected is what NSD 4.6.1
//! answers for the same zones, but for names in other zones (see `an_alias_into_another_zone_is_not_followed`).

mod dns_support;

use dns_support::{ANY, Server, query};

const A: u16 = 1;
const NS: u16 = 2;
const CNAME: u16 = 5;
const MX: u16 = 15;
const TXT: u16 = 16;
const SRV: u16 = 33;
const DNAME: u16 = 39;
const DS: u16 = 43;

const HEAD: &str = "
@ 3600 SOA ns1.z.test. h.z.test. 1 2 3 4 5
@ 3600 NS ns1.z.test.
ns1 60 A 192.0.2.1
www 60 A 192.0.2.10
";

const SOA: &str = "z.test. 5 SOA ns1.z.test. h.z.test. 1 2 3 4 5";

fn zone(more: &str) -> Server {
    Server::with_zones(&[("z.test.", &format!("{HEAD}{more}"))])
}

/// Header and records of the reply, names short of `.z.test`.
fn ask(server: &Server, name: &str, qtype: u16) -> String {
    let name = if name == "@" { "z.test".to_owned() } else { format!("{name}.z.test") };
    let reply = server.ask_tcp(&query(&name, qtype));
    format!("{} {}", reply.header(), reply.records()).replace(".z.test.", "")
}

fn negative(rcode: u8) -> String {
    format!("aa rcode={rcode} 1/0/1/0  | {SOA}").replace(".z.test.", "")
}

#[test]
fn an_alias_is_followed_through_its_zone() {
    let server =
        zone("a 60 CNAME b.z.test.\nb 60 CNAME www.z.test.\nn 60 CNAME nope.z.test.\nt 60 CNAME www.z.test.");
    assert_eq!(ask(&server, "a", A), "aa rcode=0 1/3/0/0 a 60 CNAME b, b 60 CNAME www, www 60 A 192.0.2.10");
    assert_eq!(ask(&server, "a", CNAME), "aa rcode=0 1/1/0/0 a 60 CNAME b");
    assert_eq!(ask(&server, "a", ANY), "aa rcode=0 1/1/0/0 a 60 CNAME b");
    let soa = SOA.replace(".z.test.", "");
    assert_eq!(ask(&server, "n", A), format!("aa rcode=3 1/1/1/0 n 60 CNAME nope | {soa}"));
    assert_eq!(ask(&server, "t", TXT), format!("aa rcode=0 1/1/1/0 t 60 CNAME www | {soa}"));
}

#[test]
fn loops_of_aliases_end_where_they_close() {
    let server = zone(
        "self 60 CNAME self.z.test.\na 60 CNAME b.z.test.\nb 60 CNAME a.z.test.\n*.w 60 CNAME f.w.z.test.",
    );
    assert_eq!(ask(&server, "self", A), "aa rcode=0 1/1/0/0 self 60 CNAME self");
    assert_eq!(ask(&server, "a", A), "aa rcode=0 1/2/0/0 a 60 CNAME b, b 60 CNAME a");
    assert_eq!(ask(&server, "x.w", A), "aa rcode=0 1/2/0/0 x.w 60 CNAME f.w, f.w 60 CNAME f.w");
}

#[test]
fn a_chain_of_aliases_ends_after_32() {
    let chain: String = (0..100).map(|n| format!("c{n} 60 CNAME c{}.z.test.\n", n + 1)).collect();
    assert!(ask(&zone(&chain), "c0", A).starts_with("aa rcode=0 1/32/0/0 c0"));
    assert!(ask(&zone(&chain), "c69", A).starts_with("aa rcode=3 1/31/1/0 c69"), "31 aliases and their end");
}

#[test]
fn an_alias_into_another_zone_is_not_followed() {
    let server = Server::with_zones(&[
        (
            "z.test.",
            &format!("{HEAD}a 60 CNAME www.other.test.\nc 60 CNAME www.child.z.test.\nchild 60 NS ns.x."),
        ),
        ("other.test.", "@ 60 SOA ns.x. h.x. 1 2 3 4 5\nwww 60 A 192.0.2.99"),
        ("child.z.test.", "@ 60 SOA ns.x. h.x. 1 2 3 4 5\nwww 60 A 192.0.2.98"),
    ]);
    assert_eq!(ask(&server, "a", A), "aa rcode=0 1/1/0/0 a 60 CNAME www.other.test.");
    assert_eq!(ask(&server, "c", A), "aa rcode=0 1/1/0/0 c 60 CNAME www.child");
}

#[test]
fn a_wildcard_stands_for_what_has_no_nearer_name() {
    let server = zone("* 60 TXT w\na.b 60 A 192.0.2.2\n*.c 60 CNAME www.z.test.\nx.*.d 60 A 192.0.2.3");
    assert_eq!(ask(&server, "q", TXT), "aa rcode=0 1/1/0/0 q 60 TXT w");
    assert_eq!(ask(&server, "r.q", TXT), "aa rcode=0 1/1/0/0 r.q 60 TXT w");
    assert_eq!(ask(&server, "b", TXT), negative(0), "an empty name is there, so no wildcard stands for it");
    assert_eq!(ask(&server, "x.b", TXT), negative(3), "nor for what lies below it");
    assert_eq!(ask(&server, "q.c", A), "aa rcode=0 1/2/0/0 q.c 60 CNAME www, www 60 A 192.0.2.10");
    assert_eq!(ask(&server, "q.d", A), negative(0), "an empty wildcard exists as well");
    assert_eq!(ask(&server, "q.*.d", A), negative(3), "and is an ordinary name to what lies below it");
}

#[test]
fn dname_renames_what_lies_below_it() {
    let server = zone("d 60 DNAME e.z.test.\nd 60 A 192.0.2.4\nx.e 60 A 192.0.2.5\nup 60 DNAME z.test.");
    assert_eq!(
        ask(&server, "x.d", A),
        "aa rcode=0 1/3/0/0 d 60 DNAME e, x.d 60 CNAME x.e, x.e 60 A 192.0.2.5"
    );
    assert_eq!(ask(&server, "x.d", CNAME), "aa rcode=0 1/2/0/0 d 60 DNAME e, x.d 60 CNAME x.e");
    assert_eq!(ask(&server, "d", A), "aa rcode=0 1/1/0/0 d 60 A 192.0.2.4");
    assert_eq!(ask(&server, "d", DNAME), "aa rcode=0 1/1/0/0 d 60 DNAME e");
    let twice = ask(&server, "www.up.up", A);
    assert!(twice.starts_with("aa rcode=0 1/4/0/0"), "the DNAME once, two aliases, the address: {twice}");
}

#[test]
fn a_dname_to_below_itself_is_applied_once() {
    let server = zone("d 60 DNAME a.d.z.test.");
    assert_eq!(ask(&server, "x.d", A), "aa rcode=0 1/2/0/0 d 60 DNAME a.d, x.d 60 CNAME x.a.d");
}

#[test]
fn a_name_that_dname_makes_too_long_is_yxdomain() {
    let long = ["a".repeat(63), "b".repeat(63), "c".repeat(63)].join(".");
    let server = zone(&format!("d 60 DNAME {long}.z.test."));
    let name = format!("{}.d", "x".repeat(54));
    let fits = server.ask_tcp(&query(&format!("{name}.z.test"), A));
    assert_eq!(fits.header(), "aa rcode=3 1/2/1/0");
    let too_long = server.ask_tcp(&query(&format!("x{name}.z.test"), A));
    assert_eq!(too_long.header(), "aa rcode=6 1/1/0/0", "the DNAME alone (RFC 6672 section 2.2)");
}

const CUT: &str = "
sub 60 NS ns.sub.z.test.
sub 60 NS ns1.z.test.
sub 60 NS ns.elsewhere.
sub 60 DS 1 8 2 00
ns.sub 60 A 192.0.2.7
deep.sub 60 NS ns.deep.sub.z.test.
to 60 CNAME x.sub.z.test.
";

fn cut() -> Server {
    zone(&CUT.replace("sub 60 DS 1 8 2 00", "sub 60 TYPE43 \\# 0001080200"))
}

#[test]
fn below_a_cut_there_are_referrals_with_glue() {
    let server = cut();
    let referral = "rcode=0 1/0/3/2  | sub 60 NS ns.sub, sub 60 NS ns1, sub 60 NS ns.elsewhere. \
                    | ns.sub 60 A 192.0.2.7, ns1 60 A 192.0.2.1";
    for (name, qtype) in
        [("sub", A), ("sub", NS), ("x.y.sub", A), ("ns.sub", A), ("x.deep.sub", TXT), ("x.sub", DS)]
    {
        assert_eq!(ask(&server, name, qtype), referral, "{name}");
    }
    let aliased = ask(&server, "to", A);
    assert_eq!(aliased, format!("aa rcode=0 1/1/3/2 to 60 CNAME x.sub{}", &referral[16..]));
}

#[test]
fn ds_at_a_cut_is_answered_by_the_zone_above() {
    assert!(ask(&cut(), "sub", DS).starts_with("aa rcode=0 1/1/0/0 sub 60 DS"));
    assert_eq!(ask(&zone("sub 60 NS ns.elsewhere."), "sub", DS), negative(0));
}

#[test]
fn ds_of_a_zone_beside_its_parent_is_answered_by_the_parent() {
    let child = "@ 60 SOA ns.child.z.test. h.x. 1 2 3 4 9\n@ 60 NS ns.child.z.test.";
    let server =
        Server::with_zones(&[("z.test.", &format!("{HEAD}child 60 NS ns.x.")), ("child.z.test.", child)]);
    assert_eq!(ask(&server, "child", DS), negative(0));
    assert!(ask(&server, "child", NS).starts_with("aa rcode=0 1/1/0/0 child 60 NS ns.child"));
    assert!(ask(&server, "x.child", DS).starts_with("aa rcode=3 1/0/1/0  | child 9 SOA"));
    let alone = Server::with_zones(&[("child.z.test.", child)]);
    assert!(ask(&alone, "child", DS).starts_with("aa rcode=0 1/0/1/0  | child 9 SOA"));
}

#[test]
fn glue_below_the_cut_must_fit_and_other_glue_may_be_missing() {
    let ns = |n: usize, place: &str| format!("sub 60 NS {}{n}.{place}z.test.\n", "n".repeat(40));
    let a = |n: usize, place: &str| format!("{}{n}{place} 60 A 192.0.2.9\n", "n".repeat(40));
    let below: String = (0..8).map(|n| ns(n, "sub.") + &a(n, ".sub")).collect();
    let sibling: String = (0..8).map(|n| ns(n, "") + &a(n, "")).collect();
    let packet = query("x.sub.z.test", A);
    let truncated = zone(&below).ask(&packet);
    assert_eq!(truncated.header(), "tc rcode=0 1/0/0/0", "RFC 9471 section 3.1");
    let partly = zone(&sibling).ask(&packet);
    assert!(partly.header().starts_with("rcode=0 1/0/8/"), "{}", partly.header());
    assert!(partly.message.additionals.len() < 8 && partly.bytes.len() <= 512);
    assert_eq!(zone(&below).ask_tcp(&packet).header(), "rcode=0 1/0/8/8");
}

#[test]
fn additional_addresses_are_of_the_same_zone_and_visible() {
    let server = Server::with_zones(&[
        (
            "z.test.",
            &format!(
                "{HEAD}{}mx 60 MX 1 www.z.test.\nmx 60 MX 2 www.z.test.\nmx 60 MX 3 w.wild.z.test.\n\
                 mx 60 MX 4 to.z.test.\nmx 60 MX 5 ns.sub.z.test.\nmx 60 MX 6 www.other.test.\n*.wild 60 A 192.0.2.8\n\
                 srv 60 SRV 1 2 3 www.z.test.",
                CUT.replace("sub 60 DS 1 8 2 00\n", "")
            ),
        ),
        ("other.test.", "@ 60 SOA ns.x. h.x. 1 2 3 4 5\nwww 60 A 192.0.2.99"),
    ]);
    let mx = ask(&server, "mx", MX);
    assert!(mx.starts_with("aa rcode=0 1/6/0/2 "), "{mx}");
    assert!(mx.ends_with(" | www 60 A 192.0.2.10, w.wild 60 A 192.0.2.8"), "{mx}");
    assert_eq!(ask(&server, "srv", SRV), "aa rcode=0 1/1/0/1 srv 60 SRV 1 2 3 www |  | www 60 A 192.0.2.10");
}

#[test]
fn additional_records_give_way_before_the_answer_is_truncated() {
    let targets: String =
        (0..20).map(|n| format!("mx 60 MX {n} m{n}.z.test.\nm{n} 60 A 192.0.2.9\n")).collect();
    let reply = zone(&targets).ask(&query("mx.z.test", MX));
    assert!(reply.header().starts_with("aa rcode=0 1/20/0/"), "{}", reply.header());
    assert!(reply.message.additionals.len() < 20 && reply.bytes.len() <= 512);
}

#[test]
fn the_addresses_of_a_target_go_in_whole_or_not_at_all() {
    let six = |n: usize| (0..3).map(|i| format!("m{n} 60 AAAA 2001:db8::{i}\n")).collect::<String>();
    let more: String =
        (0..5).map(|n| format!("mx 60 MX {n} m{n}.z.test.\nm{n} 60 A 192.0.2.9\n{}", six(n))).collect();
    let server = zone(&more);
    for size in 512..700 {
        let reply = server.ask(&query("mx.z.test", MX).edns(size));
        assert_eq!(reply.message.answers.len(), 5);
        assert_eq!(reply.message.additionals.len() % 4, 0, "{size}: {}", reply.records());
    }
}

#[test]
fn any_is_answered_with_the_smallest_set() {
    let server = zone("two 60 TXT 0123456789\ntwo 60 A 192.0.2.1\ntwo 60 MX 1 www.z.test.");
    assert_eq!(ask(&server, "two", ANY), "aa rcode=0 1/1/0/0 two 60 A 192.0.2.1");
}

#[test]
fn a_zone_named_like_a_wildcard_is_no_wildcard_of_its_parent() {
    let server = Server::with_zones(&[
        ("z.test.", HEAD),
        ("*.z.test.", "@ 60 SOA ns.x. h.x. 1 2 3 4 6\n@ 60 A 192.0.2.5\n"),
    ]);
    assert_eq!(ask(&server, "x", A), negative(3));
    assert_eq!(ask(&server, "*", A), "aa rcode=0 1/1/0/0 * 60 A 192.0.2.5");
}

#[test]
fn a_root_zone_refers_to_its_children() {
    let server = Server::with_zones(&[(
        ".",
        "@ 60 SOA ns. h. 1 2 3 4 5\n@ 60 NS ns.\nns 60 A 192.0.2.1\ncom 60 NS ns.com.\nns.com 60 A 192.0.2.2",
    )]);
    let text = |name: &str, qtype| {
        let reply = server.ask(&query(name, qtype));
        format!("{} {}", reply.header(), reply.records())
    };
    assert_eq!(text("", NS), "aa rcode=0 1/1/0/1 . 60 NS ns. |  | ns. 60 A 192.0.2.1");
    assert_eq!(text("www.example.com", A), "rcode=0 1/0/1/1  | com. 60 NS ns.com. | ns.com. 60 A 192.0.2.2");
    assert_eq!(text("nope", A), "aa rcode=3 1/0/1/0  | . 5 SOA ns. h. 1 2 3 4 5");
}

#[test]
fn the_deepest_zone_answers() {
    let server = Server::with_zones(&[
        ("test.", "@ 60 SOA ns.x. h.x. 1 2 3 4 5\nx.z 60 TXT outer"),
        ("z.test.", "@ 60 SOA ns.x. h.x. 1 2 3 4 6\nx 60 TXT inner"),
    ]);
    assert_eq!(ask(&server, "x", TXT), "aa rcode=0 1/1/0/0 x 60 TXT inner");
    assert!(ask(&server, "nope", A).contains("z.test. 6 SOA"), "{}", ask(&server, "nope", A));
}

#[test]
fn equal_records_are_answered_once() {
    let server = zone("two 60 A 192.0.2.1\ntwo 60 A 192.0.2.1\ntwo 60 A 192.0.2.2");
    assert_eq!(ask(&server, "two", A), "aa rcode=0 1/2/0/0 two 60 A 192.0.2.1, two 60 A 192.0.2.2");
}
