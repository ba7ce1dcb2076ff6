//! Certificates that change on disk while frames flow, and those that end (faults I-48).

use crate::support::{Node, Pair, authority, group, id, identity, join, over_both};
use bytes::Bytes;
use mep_core::carrier::{CarrierCommand, CarrierEvent, ConnId, Over};
use mep_io::pki::{Authority, Validity};
use mep_io::{Files, Identity, Limits, News, Pem};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;
use tokio::sync::mpsc;

over_both! {
    certificates_rotate_at_one_end_and_then_at_the_other_while_frames_flow,
    a_connection_ends_before_a_certificate_it_was_made_with,
    before_that_the_end_with_a_new_certificate_is_told_to_make_a_new_one,
    a_node_that_starts_with_an_expired_certificate_says_so_and_takes_the_renewed_one,
}

/// A folder as `mep.ca`, `mep.certificate` and `mep.key` name it.
struct Folder {
    dir: TempDir,
    files: Files,
}

impl Folder {
    fn with(pem: &Pem) -> Folder {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let files = Files { ca: at("ca.crt"), certificate: at("node.crt"), key: at("node.key") };
        let folder = Folder { dir, files };
        folder.write(&folder.files.ca, &pem.ca);
        folder.write(&folder.files.certificate, &pem.certificate);
        folder.write(&folder.files.key, &pem.key);
        folder
    }

    /// As a careful tool does: beside it, then moved.
    fn write(&self, path: &Path, text: &str) {
        let beside = self.dir.path().join("new");
        fs::write(&beside, text).unwrap();
        fs::set_permissions(&beside, Permissions::from_mode(0o600)).unwrap();
        fs::rename(&beside, path).unwrap();
    }

    fn identity(&self, me: &str) -> Arc<Identity> {
        Arc::new(Identity::load(&self.files, &group(), &id(me)).unwrap())
    }
}

fn now() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs().try_into().unwrap()
}

/// Sends a frame every few milliseconds until it is dropped.
fn flow(commands: mpsc::Sender<CarrierCommand>, conn: ConnId) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        let frame = Bytes::from_static(&[7; 300]);
        while commands.send(CarrierCommand::Send { conn, frame: frame.clone() }).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
}

/// Reads for so long; only frames and new connections may come. Returns how many frames, and the expiries that were shown.
async fn watched(node: &mut Node, wanted: Duration) -> (usize, Vec<i64>) {
    let (end, mut frames, mut shown) = (Instant::now() + wanted, 0, Vec::new());
    while Instant::now() < end {
        match node.event().await {
            CarrierEvent::Received { .. } => frames += 1,
            CarrierEvent::Connected { certificate_expires, .. } => shown.push(certificate_expires),
            other => panic!("{}: {other:?}", node.me),
        }
    }
    (frames, shown)
}

async fn certificates_rotate_at_one_end_and_then_at_the_other_while_frames_flow(over: Over) {
    let ca = authority();
    let folders = ["fra/1", "ams/1"].map(|me| Folder::with(&ca.issue(&id(me)).unwrap()));
    let node = |folder: &Folder, me| Node::start_with(over, folder.identity(me), Limits::default(), 256);
    let Pair { mut a, mut b, at_a, at_b } =
        join(node(&folders[0], "fra/1"), node(&folders[1], "ams/1")).await;
    let flows = [flow(a.commands.clone(), at_a), flow(b.commands.clone(), at_b)];
    let (mut at, mut bt) = (0, 0);
    for (turn, days) in [(0, 30), (1, 31)] {
        let (identity, folder) = [(&a.identity, &folders[0]), (&b.identity, &folders[1])]
            .map(|(i, f)| (i.clone(), f))[turn]
            .clone();
        let me = identity.me().clone();
        let before = identity.subject();
        let new = ca.issue_for(&me, Validity::days(days)).unwrap();
        assert_eq!(identity.refresh(false), News::None);

        // Certificate and key do not fit together for two seconds.
        folder.write(&folder.files.certificate, &new.certificate);
        assert_eq!(identity.refresh(false), News::None, "for a moment that is normal");
        let mismatch = format!(
            "{}: the key does not belong to the certificate in {}",
            folder.files.key.display(),
            folder.files.certificate.display()
        );
        assert_eq!(identity.status().error.map(|(reason, _)| reason), Some(mismatch.clone()));
        assert_eq!(identity.refresh(false), News::Refused(mismatch.clone()), "after that it is told");
        assert_eq!(identity.refresh(false), News::None, "once");
        assert_eq!(identity.refresh(true), News::Refused(mismatch), "and to whoever asks");
        assert_eq!(identity.subject(), before, "the one before stays in use");
        let ((fa, _), (fb, _)) =
            tokio::join!(watched(&mut a, Duration::from_secs(2)), watched(&mut b, Duration::from_secs(2)));
        (at, bt) = (at + fa, bt + fb);

        folder.write(&folder.files.key, &new.key);
        let News::Renewed(after) = identity.refresh(false) else { panic!("not taken") };
        assert!(after.serial != before.serial && after.expires < before.expires);
        let status = identity.status();
        assert_eq!((status.subject, status.reloads, status.error), (after.clone(), 1, None));

        // The other end sees the new one with the next connection, whoever dials it.
        if turn == 0 {
            b.dial("fra/1", a.address).await
        } else {
            a.dial("ams/1", b.address).await
        }
        let ((fa, shown_a), (fb, shown_b)) =
            tokio::join!(watched(&mut a, Duration::from_secs(1)), watched(&mut b, Duration::from_secs(1)));
        (at, bt) = (at + fa, bt + fb);
        assert_eq!(if turn == 0 { shown_b } else { shown_a }, [after.expires]);
    }
    flows.iter().for_each(tokio::task::JoinHandle::abort);
    println!("{over}: two rotations, 0 dropped connections, {at} and {bt} frames meanwhile");
    assert!(at > 100 && bt > 100, "frames flowed");
}

async fn a_connection_ends_before_a_certificate_it_was_made_with(over: Over) {
    const LIFE: i64 = 4;
    let ca = authority();
    let limits = Limits { path_rtt: Duration::from_millis(100), ..Limits::default() };
    let short = |me: &str, ca: &Authority| {
        let validity = Validity { from: now() - 60, until: now() + LIFE };
        ca.issue_for(&id(me), validity).unwrap()
    };
    // Whether it is the dialler's that ends or the other one's, and whether it is one's own or the peer's.
    for (turn, who) in ["fra/1", "ams/1"].into_iter().enumerate() {
        let node = |me: &str| {
            let pem = if me == who { short(me, &ca) } else { ca.issue(&id(me)).unwrap() };
            Node::start_with(over, identity(&pem, me), limits, 256)
        };
        let Pair { mut a, mut b, .. } = join(node("fra/1"), node("ams/1")).await;
        let ends = [&a, &b][turn].identity.subject().expires;
        let renewed = ca.issue(&id(who)).unwrap();
        let (told_a, told_b) = tokio::join!(a.closed(), b.closed());
        assert!(now() <= ends, "it outlived the certificate by {} s", now() - ends);
        for told in [&told_a, &told_b] {
            assert!(told.contains("certificate of this connection expires on"), "{told}");
        }
        let error = [&a, &b][turn].identity.reload_pem(&renewed);
        assert!(error.is_ok());
        a.dial("ams/1", b.address).await;
        a.connected().await;
        b.connected().await;
    }
}

async fn before_that_the_end_with_a_new_certificate_is_told_to_make_a_new_one(over: Over) {
    let ca = authority();
    let limits =
        Limits { path_rtt: Duration::from_millis(100), idle: Duration::from_secs(120), ..Limits::default() };
    // Three to six seconds are left when it is due: enough for a busy machine.
    let short = ca.issue_for(&id("ams/1"), Validity { from: now() - 60, until: now() + 24 }).unwrap();
    let start = |me: &str, pem: &Pem| Node::start_with(over, identity(pem, me), limits, 256);
    let a = start("fra/1", &ca.issue(&id("fra/1")).unwrap());
    let Pair { mut a, mut b, at_a, at_b } = join(a, start("ams/1", &short)).await;
    b.identity.reload_pem(&ca.issue(&id("ams/1")).unwrap()).unwrap();
    let renews = loop {
        match b.any_event().await {
            CarrierEvent::Ageing { conn, renew } => {
                assert_eq!(conn, at_b);
                if renew {
                    break now();
                }
            }
            CarrierEvent::PathRtt { .. } => {}
            other => panic!("{other:?}"),
        }
    };
    assert!(renews < b.identity.subject().expires);
    b.dial("fra/1", a.address).await;
    let mut aged = 0;
    let (reason, expires) = {
        let mut expires = None;
        loop {
            match a.any_event().await {
                CarrierEvent::Ageing { conn, renew } => {
                    assert_eq!((conn, renew), (at_a, false), "the other end's certificate ends");
                    aged += 1;
                }
                CarrierEvent::Connected { certificate_expires, .. } => expires = Some(certificate_expires),
                CarrierEvent::Closed { conn, reason } => {
                    assert_eq!(conn, at_a);
                    break (reason, expires);
                }
                CarrierEvent::PathRtt { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    };
    assert!(aged > 0 && reason.contains("certificate of this connection expires"), "{reason}");
    assert_eq!(expires, Some(b.identity.subject().expires), "the new one stood before the old one went");
}

async fn a_node_that_starts_with_an_expired_certificate_says_so_and_takes_the_renewed_one(over: Over) {
    let ca = authority();
    let old = ca.issue_for(&id("fra/1"), Validity { from: 1_500_000_000, until: 1_600_000_000 }).unwrap();
    let folder = Folder::with(&old);
    assert!(Identity::load(&folder.files, &group(), &id("fra/1")).is_err(), "a check tells");
    let own = Arc::new(Identity::load_at_start(&folder.files, &group(), &id("fra/1")).unwrap());
    let status = own.status();
    let why = "this node's own certificate expired on 2020-09-13 12:26:40 UTC";
    assert_eq!(status.error.as_ref().map(|(reason, _)| reason.as_str()), Some(why));
    assert!(status.days_left(now()) < -1000);

    let mut a = Node::start_with(over, own.clone(), Limits::default(), 16);
    let mut b = Node::start(over, &ca, "ams/1");
    a.dial("ams/1", b.address).await;
    assert_eq!(a.dial_failed().await, why);
    b.dial("fra/1", a.address).await;
    let reason = b.dial_failed().await;
    assert_eq!(reason, "its certificate was refused: certificate expired on 2020-09-13 12:26:40 UTC");
    let reason = a.refused().await;
    assert!(reason.starts_with("it refused our certificate: "), "{reason}");

    let new = ca.issue(&id("fra/1")).unwrap();
    folder.write(&folder.files.key, &new.key);
    folder.write(&folder.files.certificate, &new.certificate);
    assert!(matches!(own.refresh(false), News::Renewed(_)));
    assert_eq!(own.status().error, None);
    a.dial("ams/1", b.address).await;
    assert_eq!(a.connected().await.1, id("ams/1"));
}

#[test]
fn a_file_that_is_missing_or_readable_by_others_is_no_reason_to_let_go_of_what_is_loaded() {
    let ca = authority();
    let folder = Folder::with(&ca.issue(&id("fra/1")).unwrap());
    let own = folder.identity("fra/1");
    let before = own.subject();
    let key = &folder.files.key;
    fs::set_permissions(key, Permissions::from_mode(0o644)).unwrap();
    own.refresh(false);
    let News::Refused(reason) = own.refresh(false) else { panic!("not refused") };
    assert!(reason.contains("others than its owner may use this private key (mode 0644)"), "{reason}");
    fs::remove_file(key).unwrap();
    let News::Refused(reason) = own.refresh(true) else { panic!("not refused") };
    assert!(reason.contains("node.key: No such file"), "{reason}");
    assert_eq!(own.subject(), before);
    assert_eq!(own.status().reloads, 0);
}
