//! How a group and its nodes are named in certificates.
//!
//! A node's certificate carries two names. The DNS name `NODE.SITE.GROUP.mep.gslb.internal` is what TLS itself checks while
//! the dialler shakes hands: a wrong peer never gets further. The URI `spiffe://GROUP.gslb.internal/site/SITE/node/NODE`
//! is what both ends read afterwards to learn who stands at the other end. The URI decides: an underscore can't stand in a
//! host name (RFC 952), so the DNS name has a hyphen in its place, and two nodes may share one.

use gslb_types::{NameError, NodeId, NodeName, SiteName};
use rustls_pki_types::CertificateDer;
use std::fmt;
use std::str::FromStr;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

/// The name of a group: what site names may be, since it stands in certificates as a label too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupName(SiteName);

impl GroupName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The URI of the group itself: the CA certificate carries it.
    pub(crate) fn uri(&self) -> String {
        format!("{SCHEME}{self}{DOMAIN}")
    }

    /// The URI that names this node in its certificate.
    pub(crate) fn node_uri(&self, node: &NodeId) -> String {
        format!("{}/site/{}/node/{}", self.uri(), node.site, node.node)
    }

    /// The DNS name that the dialler's TLS asks the certificate for.
    pub(crate) fn node_dns(&self, node: &NodeId) -> String {
        format!("{}.{}.{self}.mep.gslb.internal", node.node, node.site).replace('_', "-")
    }
}

impl FromStr for GroupName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        SiteName::new(text).map(GroupName)
    }
}

impl fmt::Display for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

const SCHEME: &str = "spiffe://";
const DOMAIN: &str = ".gslb.internal";

/// What a certificate says about its holder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subject {
    /// Site and node.
    pub node: NodeId,
    /// First second of validity, since the Unix epoch.
    pub valid_from: i64,
    /// Last second of validity, since the Unix epoch.
    pub expires: i64,
    /// The serial number as hexadecimal octets with colons, as `openssl x509 -serial` readers know it.
    pub serial: String,
}

/// Why a certificate names no node of the group. Whether it is genuine is TLS's question, not this one.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SubjectError {
    /// Not an X.509 certificate.
    #[error("the certificate can't be read")]
    Unreadable,
    /// No URI of the expected form, or more than one (a SPIFFE certificate has exactly one).
    #[error(
        "the certificate names no node: its SAN needs exactly one URI spiffe://GROUP.gslb.internal/site/SITE/node/NODE"
    )]
    NoNode,
    /// A node of another group.
    #[error("the certificate is for group '{found}', not '{expected}'")]
    OtherGroup {
        /// The group in the certificate.
        found: String,
        /// The group of this node.
        expected: String,
    },
}

impl Subject {
    /// Reads a node's certificate.
    pub fn read(certificate: &CertificateDer<'_>, group: &GroupName) -> Result<Self, SubjectError> {
        let parsed = parse(certificate)?;
        let (found, node) = node_of(one_uri(&parsed)?).ok_or(SubjectError::NoNode)?;
        if found != group.as_str() {
            return Err(SubjectError::OtherGroup { found: found.to_owned(), expected: group.to_string() });
        }
        Ok(Subject {
            node,
            valid_from: parsed.validity().not_before.timestamp(),
            expires: parsed.validity().not_after.timestamp(),
            serial: parsed.raw_serial_as_string(),
        })
    }
}

/// Whom the certificates that TLS has checked name.
pub(crate) fn peer_of(chain: Option<&[CertificateDer<'_>]>, group: &GroupName) -> Result<Subject, String> {
    let leaf = chain.and_then(<[_]>::first).ok_or("it showed no certificate")?;
    Subject::read(leaf, group).map_err(|error| error.to_string())
}

/// The group a CA certificate was made for.
pub(crate) fn group_of_ca(certificate: &CertificateDer<'_>) -> Option<GroupName> {
    let parsed = parse(certificate).ok()?;
    one_uri(&parsed).ok()?.strip_prefix(SCHEME)?.strip_suffix(DOMAIN)?.parse().ok()
}

fn parse<'a>(certificate: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, SubjectError> {
    X509Certificate::from_der(certificate).map(|(_, parsed)| parsed).map_err(|_| SubjectError::Unreadable)
}

fn one_uri<'a>(certificate: &'a X509Certificate<'_>) -> Result<&'a str, SubjectError> {
    let san = certificate.subject_alternative_name().map_err(|_| SubjectError::Unreadable)?;
    let names = san.map(|san| san.value.general_names.as_slice()).unwrap_or_default();
    let mut uris = names.iter().filter_map(|name| match name {
        GeneralName::URI(uri) => Some(*uri),
        _ => None,
    });
    match (uris.next(), uris.next()) {
        (Some(uri), None) => Ok(uri),
        _ => Err(SubjectError::NoNode),
    }
}

fn node_of(uri: &str) -> Option<(&str, NodeId)> {
    let (domain, path) = uri.strip_prefix(SCHEME)?.split_once("/site/")?;
    let (site, node) = path.split_once("/node/")?;
    let id = NodeId { site: SiteName::new(site).ok()?, node: NodeName::new(node).ok()? };
    Some((domain.strip_suffix(DOMAIN)?, id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str) -> GroupName {
        name.parse().unwrap()
    }

    #[test]
    fn a_nodes_uri_names_it_and_its_group() {
        let id: NodeId = "fra_1/n-2".parse().unwrap();
        let uri = group("main").node_uri(&id);
        assert_eq!(uri, "spiffe://main.gslb.internal/site/fra_1/node/n-2");
        assert_eq!(node_of(&uri), Some(("main", id)));
    }

    #[test]
    fn an_underscore_stands_as_a_hyphen_in_the_dns_name() {
        let id: NodeId = "fra_1/n_2".parse().unwrap();
        assert_eq!(group("my_group").node_dns(&id), "n-2.fra-1.my-group.mep.gslb.internal");
    }

    #[test]
    fn the_longest_names_still_make_a_domain_name() {
        let long = "a".repeat(63);
        let id: NodeId = format!("{long}/{long}").parse().unwrap();
        assert!(group(&long).node_dns(&id).len() <= 253);
    }

    #[test]
    fn other_uris_name_no_node() {
        for uri in [
            "https://main.gslb.internal/site/fra/node/1",
            "spiffe://main.gslb.internal/site/fra",
            "spiffe://main.gslb.internal/site/fra/node/",
            "spiffe://main.gslb.internal/site/fra/node/1/2",
            "spiffe://main.example.org/site/fra/node/1",
            "spiffe://main.gslb.internal/site/FRA/node/1",
            "",
        ] {
            assert_eq!(node_of(uri), None, "{uri}");
        }
    }

    #[test]
    fn bytes_that_are_no_certificate_are_unreadable() {
        let garbage = CertificateDer::from(vec![0x30, 0x82, 0xff, 0xff, 1, 2, 3]);
        assert_eq!(Subject::read(&garbage, &group("main")), Err(SubjectError::Unreadable));
    }
}
