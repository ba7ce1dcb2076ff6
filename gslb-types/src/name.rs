//! Names of sites, nodes, services and virtual servers, and the small numbers that stand for sites in tables.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// How many sites a group can have (behaviour 4: 32 sites, full mesh).
pub const MAX_SITES: usize = 32;

/// Why a text is not a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing stands there.
    #[error("a name must not be empty")]
    Empty,
    /// Longer than a DNS label may be (RFC 1035 section 2.3.4), since site and node names stand in certificates as labels.
    #[error("'{0}' is longer than 63 characters")]
    TooLong(String),
    /// Holds a character other than `a-z 0-9 - _`, or starts or ends with a hyphen.
    #[error("'{0}' may hold only a-z, 0-9, '-' and '_', and must start and end with a letter or digit")]
    BadCharacter(String),
    /// A node is written SITE/NODE.
    #[error("'{0}' is not of the form SITE/NODE")]
    NotANode(String),
}

fn checked(text: &str) -> Result<Arc<str>, NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.len() > 63 {
        return Err(NameError::TooLong(text.to_owned()));
    }
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let inner = |c: char| edge(c) || c == '-' || c == '_';
    if !text.chars().all(inner) || !text.starts_with(edge) || !text.ends_with(edge) {
        return Err(NameError::BadCharacter(text.to_owned()));
    }
    Ok(text.into())
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(Arc<str>);

        impl $type {
            /// The name, if the text can be one.
            pub fn new(text: &str) -> Result<Self, NameError> {
                checked(text).map($type)
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $type {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                $type::new(text)
            }
        }

        impl TryFrom<String> for $type {
            type Error = NameError;

            fn try_from(text: String) -> Result<Self, NameError> {
                $type::new(&text)
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> String {
                name.0.as_ref().to_owned()
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name! {
    /// The name of a data centre.
    SiteName
}
name! {
    /// The name of one `gslb-dns` process within its site.
    NodeName
}
name! {
    /// The name of a service: one address that can be answered.
    ServiceName
}
name! {
    /// The name of a GSLB virtual server: the policy behind GSLB domains.
    VserverName
}
name! {
    /// The name of an LB virtual server: a listener that proxies to services of its site.
    LbVserverName
}

/// The name of a zone, lower case, absolute, with the final dot: `gslb.test.`
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ZoneName(Arc<str>);

impl ZoneName {
    /// Takes a name already known to be a domain name; folds its case and completes the final dot.
    pub fn new(text: &str) -> Self {
        let mut t = text.to_ascii_lowercase();
        if !t.ends_with('.') {
            t.push('.');
        }
        ZoneName(t.into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One node of the group, written `fra/1`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodeId {
    /// The site the node stands in.
    pub site: SiteName,
    /// Its name within the site.
    pub node: NodeName,
}

impl FromStr for NodeId {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let (site, node) = text.split_once('/').ok_or_else(|| NameError::NotANode(text.to_owned()))?;
        Ok(NodeId { site: site.parse()?, node: node.parse()? })
    }
}

impl TryFrom<String> for NodeId {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl From<NodeId> for String {
    fn from(id: NodeId) -> String {
        id.to_string()
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.site, self.node)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The place of a site in the configuration's order, below [`MAX_SITES`]. The same on every node with the same group text;
/// between nodes names travel, not numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SiteIndex(u8);

impl SiteIndex {
    /// The index, if it is below [`MAX_SITES`].
    pub const fn new(index: usize) -> Option<Self> {
        if index < MAX_SITES { Some(SiteIndex(index as u8)) } else { None }
    }

    /// As an index into tables.
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_label_a_certificate_can_hold() {
        assert!(SiteName::new("fra-1").is_ok());
        for bad in ["", "Fra", "a b", "-a", "a-", "ü", "a.b", "a/b", &"a".repeat(64)] {
            assert!(SiteName::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_node_is_written_site_slash_node() {
        let id: NodeId = "fra/1".parse().unwrap();
        assert_eq!(id.to_string(), "fra/1");
        assert!("fra".parse::<NodeId>().is_err());
        assert!("fra/1/2".parse::<NodeId>().is_err());
    }

    #[test]
    fn there_is_no_site_beyond_the_maximum() {
        assert_eq!(SiteIndex::new(31).map(SiteIndex::get), Some(31));
        assert_eq!(SiteIndex::new(32), None);
        assert_eq!(SiteIndex::new(256), None);
    }
}
