//! A group's certificates on disk: what `gslb-dns pki` makes, and what a node says about files that are not right.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use gslb_types::NodeId;
use mep_io::pki::{Overwrite, Validity, init, issue};
use mep_io::{Files, GroupName, Identity};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use tempfile::TempDir;

fn group() -> GroupName {
    "main".parse().unwrap()
}

fn id(text: &str) -> NodeId {
    text.parse().unwrap()
}

fn made() -> (TempDir, Files) {
    let dir = tempfile::tempdir().unwrap();
    init(dir.path(), &group()).unwrap();
    let files = issue(dir.path(), &id("fra/1"), Validity::default(), Overwrite::No).unwrap();
    (dir, files)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn wrong(files: &Files) -> String {
    Identity::load(files, &group(), &id("fra/1")).unwrap_err().to_string()
}

#[test]
fn what_is_issued_can_be_loaded() {
    let (dir, files) = made();
    assert_eq!(files.certificate, dir.path().join("fra-1.crt"));
    assert_eq!(files.key, dir.path().join("fra-1.key"));
    let subject = Identity::load(&files, &group(), &id("fra/1")).unwrap().subject();
    assert_eq!(subject.node, id("fra/1"));
    let days = (subject.expires - subject.valid_from) / 86_400;
    assert_eq!(days, 365);
}

#[test]
fn only_the_owner_can_read_a_key_and_nothing_else_is_left_behind() {
    let (dir, files) = made();
    assert_eq!(mode(&files.key), 0o600);
    assert_eq!(mode(&dir.path().join("ca.key")), 0o600);
    let mut names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["ca.crt", "ca.key", "fra-1.crt", "fra-1.key"]);
}

#[test]
fn a_ca_is_never_overwritten() {
    let (dir, _files) = made();
    let before = fs::read(dir.path().join("ca.key")).unwrap();
    let error = init(dir.path(), &group()).unwrap_err().to_string();
    assert_eq!(error, format!("{}: already there; not overwritten", dir.path().join("ca.key").display()));
    assert_eq!(fs::read(dir.path().join("ca.key")).unwrap(), before);
    fs::remove_file(dir.path().join("ca.key")).unwrap();
    let error = init(dir.path(), &group()).unwrap_err().to_string();
    assert!(error.contains("ca.crt: already there"), "the certificate alone is kept too: {error}");
    assert!(!dir.path().join("ca.key").exists());
}

#[test]
fn a_nodes_files_are_overwritten_only_when_told() {
    let (dir, files) = made();
    let before = fs::read(&files.certificate).unwrap();
    let again = |overwrite| issue(dir.path(), &id("fra/1"), Validity::days(30), overwrite);
    assert!(
        again(Overwrite::No).unwrap_err().to_string().ends_with("fra-1.key: already there; not overwritten")
    );
    assert_eq!(fs::read(&files.certificate).unwrap(), before);
    let identity = Identity::load(&files, &group(), &id("fra/1")).unwrap();
    let old = identity.subject();
    assert_eq!(again(Overwrite::Yes).unwrap(), files);
    assert_eq!(mode(&files.key), 0o600);
    identity.reload(&files).unwrap();
    assert_ne!(identity.subject().serial, old.serial);
}

#[test]
fn a_node_does_not_overwrite_another_one_with_the_same_file_name() {
    let dir = tempfile::tempdir().unwrap();
    init(dir.path(), &group()).unwrap();
    let files = issue(dir.path(), &id("a-b/c"), Validity::default(), Overwrite::No).unwrap();
    let error = issue(dir.path(), &id("a/b-c"), Validity::default(), Overwrite::Yes).unwrap_err().to_string();
    assert_eq!(
        error,
        format!("{}: already there, and not a certificate of a/b-c", files.certificate.display())
    );
}

#[test]
fn issuing_needs_a_ca_of_a_group() {
    let dir = tempfile::tempdir().unwrap();
    let attempt =
        || issue(dir.path(), &id("fra/1"), Validity::default(), Overwrite::No).unwrap_err().to_string();
    assert!(attempt().contains("ca.crt: No such file"), "{}", attempt());
    let ca = init(dir.path(), &group()).unwrap();
    let other = tempfile::tempdir().unwrap();
    let foreign = init(other.path(), &group()).unwrap();
    fs::copy(&foreign.key, &ca.key).unwrap();
    assert!(attempt().contains("ca.key: the key does not belong to the certificate in"), "{}", attempt());
    fs::write(&ca.certificate, "hello").unwrap();
    assert!(attempt().ends_with("ca.crt: not PEM: no -----BEGIN line"), "{}", attempt());
    let node = issue(other.path(), &id("fra/1"), Validity::default(), Overwrite::No).unwrap();
    fs::copy(&node.certificate, &ca.certificate).unwrap();
    assert!(attempt().ends_with("ca.crt: not the CA certificate of a group"), "{}", attempt());
    assert!(!dir.path().join("fra-1.key").exists() && !dir.path().join("fra-1.crt").exists());
}

#[test]
fn a_span_that_ends_before_it_begins_is_no_validity() {
    let (dir, _files) = made();
    for validity in [Validity { from: 2, until: 1 }, Validity { from: 0, until: i64::MAX }] {
        let error = issue(dir.path(), &id("ams/1"), validity, Overwrite::No).unwrap_err().to_string();
        assert!(error.starts_with("a certificate can't be valid from"), "{error}");
    }
}

#[test]
fn a_key_that_others_can_read_is_refused() {
    let (_dir, files) = made();
    for exposed in [0o644, 0o640, 0o604, 0o620] {
        fs::set_permissions(&files.key, Permissions::from_mode(exposed)).unwrap();
        let error = wrong(&files);
        assert!(error.contains("fra-1.key: others than its owner may use"), "{error}");
        assert!(error.contains(&format!("mode {exposed:04o}")), "{error}");
    }
    fs::set_permissions(&files.key, Permissions::from_mode(0o400)).unwrap();
    assert!(Identity::load(&files, &group(), &id("fra/1")).is_ok());
}

#[test]
fn errors_name_the_file() {
    let (dir, files) = made();
    let missing = Files { certificate: dir.path().join("nowhere.crt"), ..files.clone() };
    assert!(wrong(&missing).contains("nowhere.crt: No such file"), "{}", wrong(&missing));
    let swapped = Files { certificate: files.key.clone(), ..files.clone() };
    assert!(wrong(&swapped).ends_with("fra-1.key: holds no certificate"), "{}", wrong(&swapped));
    let other = issue(dir.path(), &id("ams/1"), Validity::default(), Overwrite::No).unwrap();
    let mixed = Files { key: other.key.clone(), ..files.clone() };
    assert_eq!(
        wrong(&mixed),
        format!(
            "{}: the key does not belong to the certificate in {}",
            other.key.display(),
            files.certificate.display()
        )
    );
    assert!(wrong(&other).contains("ams-1.crt: the certificate is for node ams/1, but this node is fra/1"));
    let elsewhere = tempfile::tempdir().unwrap();
    let foreign = init(elsewhere.path(), &group()).unwrap();
    let unsigned = Files { ca: foreign.certificate, ..files };
    assert!(wrong(&unsigned).contains("fra-1.crt: the certificate is not signed by the CA in"));
}

#[test]
fn a_bad_reload_keeps_what_was_loaded() {
    let (dir, files) = made();
    let identity = Identity::load(&files, &group(), &id("fra/1")).unwrap();
    let before = identity.subject();
    fs::write(dir.path().join("fra-1.crt"), "half a fi").unwrap();
    assert!(identity.reload(&files).is_err());
    assert_eq!(identity.subject(), before);
}
