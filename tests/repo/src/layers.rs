//! The layers: a crate may use only what stands above it, never a sibling (ARCHITECTURE.md).

use crate::{Manifest, Text, Use};

/// One crate's place in the house.
struct Rule {
    name: &'static str,
    level: u8,
    /// The crates of ours that it may use.
    may_use: &'static [&'static str],
    kind: Kind,
}

enum Kind {
    /// No clock, socket, thread, file: it may name only these outside crates, each for a reason.
    Pure(&'static [(&'static str, &'static str)]),
    /// It may touch the world.
    Io,
    /// It proves the others; nobody may use it.
    Proof,
}

/// Who may use whom. The product uses exactly these edges; tests of a crate may use anything of a level above it.
const TABLE: &[Rule] = &[
    Rule {
        name: "gslb-types",
        level: 0,
        may_use: &[],
        kind: Kind::Pure(&[
            ("serde", "the words appear in recorded inputs and in the API"),
            ("thiserror", "errors of names and weights"),
        ]),
    },
    Rule {
        name: "lb-core",
        level: 1,
        may_use: &["gslb-types"],
        kind: Kind::Pure(&[
            ("serde", "what a virtual server shows of itself appears in the API"),
            ("siphasher", "source-IP hash, the same on every node and version"),
        ]),
    },
    Rule {
        name: "probes-core",
        level: 1,
        may_use: &["gslb-types"],
        kind: Kind::Pure(&[
            ("serde", "inputs are recorded"),
            ("serde_json", "pages of Envoy"),
            ("csv", "pages of HAProxy"),
            ("ipnet", "exclusions and prefix budgets"),
            ("foldhash", "the LDNS map's hasher, its seed an argument"),
            ("hashbrown", "the LDNS map itself: indices, hashed by that hasher"),
            ("rand_core", "the generator is an argument"),
            ("rand_pcg", "jitter from a seed that is an argument"),
            ("siphasher", "sharing LDNS out among the nodes of a site"),
            ("smallvec", "short lists in line"),
            ("arrayvec", "short lists in line"),
            ("tracing", "one event for each change of state"),
        ]),
    },
    Rule {
        name: "mep-core",
        level: 1,
        may_use: &["gslb-types"],
        kind: Kind::Pure(&[
            ("serde", "inputs are recorded"),
            ("prost", "protobuf messages"),
            ("bytes", "frames without copying"),
            ("thiserror", "errors of frames and sessions"),
            ("rand_core", "the generator is an argument"),
            ("rand_pcg", "jitter from a seed that is an argument"),
            ("siphasher", "the hash of must-match settings"),
            ("tracing", "one event for each change of state"),
        ]),
    },
    Rule {
        name: "config",
        level: 1,
        may_use: &["gslb-types"],
        kind: Kind::Pure(&[
            ("serde", "TOML to values"),
            ("toml", "the format, with spans"),
            ("serde_spanned", "where a value stood"),
            ("strsim", "the nearest known key"),
            ("ipnet", "prefixes"),
            ("regex", "a pattern that does not compile is refused where it stands"),
            ("hickory-proto", "record data; its transports are features that stay off"),
            ("domain", "RFC 1035 zone files"),
            ("siphasher", "the hash of must-match settings"),
            ("thiserror", "errors with file, line and column"),
        ]),
    },
    Rule {
        name: "gslb-core",
        level: 2,
        may_use: &["gslb-types", "lb-core", "probes-core", "mep-core", "config"],
        kind: Kind::Pure(&[
            ("serde", "inputs are recorded"),
            ("hickory-proto", "records off the fast path; its transports are features that stay off"),
            ("arc-swap", "readers never wait for the writer"),
            ("dashmap", "the RTT table: one writer, many readers, its hasher an argument"),
            ("foldhash", "that hasher, its seed an argument"),
            ("arrayvec", "the query path does not allocate"),
            ("smallvec", "rows of small groups in line"),
            ("bytes", "frames without copying"),
            ("rand_core", "the generator is an argument"),
            ("rand_pcg", "jitter from a seed that is an argument"),
            ("siphasher", "hashes that nodes must agree on"),
            ("ipnet", "prefixes"),
            ("prefix-trie", "which configured prefix holds an address"),
            ("maxminddb", "databases of places, read from bytes that the shell loaded"),
            ("thiserror", "errors"),
            ("tracing", "one event for each change of state"),
        ]),
    },
    Rule { name: "probes-io", level: 3, may_use: &["gslb-types", "probes-core"], kind: Kind::Io },
    Rule { name: "lb-proxy", level: 3, may_use: &["gslb-types", "lb-core"], kind: Kind::Io },
    Rule { name: "mep-io", level: 3, may_use: &["gslb-types", "mep-core"], kind: Kind::Io },
    Rule { name: "admin", level: 3, may_use: &["gslb-types", "config", "gslb-core"], kind: Kind::Io },
    Rule {
        name: "gslb-dns",
        level: 4,
        may_use: &[
            "gslb-types",
            "lb-core",
            "probes-core",
            "mep-core",
            "config",
            "gslb-core",
            "probes-io",
            "mep-io",
            "lb-proxy",
            "admin",
        ],
        kind: Kind::Io,
    },
    Rule {
        name: "sim",
        level: 5,
        may_use: &["gslb-types", "lb-core", "probes-core", "mep-core", "config", "gslb-core"],
        kind: Kind::Proof,
    },
    Rule { name: "lab", level: 5, may_use: &["gslb-types", "config"], kind: Kind::Proof },
    Rule {
        name: "conformance",
        level: 6,
        may_use: &["gslb-types", "config", "gslb-core", "lab"],
        kind: Kind::Proof,
    },
    Rule {
        name: "bench",
        level: 5,
        may_use: &["gslb-types", "lb-core", "probes-core", "mep-core", "config", "gslb-core", "mep-io"],
        kind: Kind::Proof,
    },
    Rule { name: "repo-tests", level: 5, may_use: &[], kind: Kind::Proof },
];

/// The names of the crates of each level, in alphabetical order, without those that only prove.
pub fn layer_table() -> Vec<Vec<&'static str>> {
    let product = || TABLE.iter().filter(|r| !matches!(r.kind, Kind::Proof));
    let deepest = product().map(|r| r.level).max().unwrap_or(0);
    (0..=deepest).map(|level| sorted(product().filter(|r| r.level == level).map(|r| r.name))).collect()
}

/// The crates that must be pure.
pub fn pure_crates() -> Vec<&'static str> {
    TABLE.iter().filter(|r| matches!(r.kind, Kind::Pure(_))).map(|r| r.name).collect()
}

/// What is wrong with the table itself: an edge it allows that does not go up.
pub fn table_faults() -> Vec<String> {
    let mut wrong = Vec::new();
    for rule in TABLE {
        for used in rule.may_use {
            match of(used) {
                Some(other) if other.level < rule.level => (),
                Some(other) => wrong.push(format!(
                    "{} (L{}) may not be allowed {used} (L{})",
                    rule.name, rule.level, other.level
                )),
                None => wrong.push(format!("{} is allowed {used}, which is not in the table", rule.name)),
            }
        }
    }
    wrong
}

/// Every dependency that the table does not allow, and every crate that it does not know.
pub fn illegal_edges(manifests: &[Manifest]) -> Vec<String> {
    manifests.iter().flat_map(illegal_edges_of).collect()
}

fn illegal_edges_of(manifest: &Manifest) -> Vec<String> {
    let Some(rule) = of(&manifest.name) else {
        return vec![format!("{}: the table of layers does not know this crate", manifest.name)];
    };
    let mut wrong = Vec::new();
    for dependency in &manifest.dependencies {
        let name = dependency.name.as_str();
        let edge = format!("{} -> {name}", manifest.name);
        match (of(name), dependency.for_use, &rule.kind) {
            (Some(_), Use::Product, _) if rule.may_use.contains(&name) => (),
            (Some(_), Use::Product, _) => wrong.push(format!("{edge}: the table of layers has no such edge")),
            (Some(other), Use::Tests, _) if other.level < rule.level => (),
            (Some(other), Use::Tests, _) => {
                wrong.push(format!("{edge}: tests of L{} may not use L{}", rule.level, other.level));
            }
            (None, Use::Product, Kind::Pure(outside)) if outside.iter().all(|(known, _)| *known != name) => {
                wrong.push(format!("{edge}: a pure crate may name only the outside crates in the table"));
            }
            (None, ..) => (),
        }
    }
    wrong
}

/// The layers as a document prints them: lines such as `L1  lb-core · config   what they are`.
pub fn layers_in_prose(document: &Text) -> Vec<Vec<String>> {
    let lines = document.content.lines().filter_map(|line| {
        let (level, names) = line.strip_prefix('L')?.split_once("  ")?;
        level.parse::<u8>().ok()?;
        Some(names)
    });
    lines
        .map(|names| sorted(names.split('·').filter_map(|n| n.split_whitespace().next()).map(str::to_owned)))
        .collect()
}

fn of(name: &str) -> Option<&'static Rule> {
    TABLE.iter().find(|r| r.name == name)
}

fn sorted<T: Ord>(names: impl Iterator<Item = T>) -> Vec<T> {
    let mut names: Vec<T> = names.collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(of: &str, dependencies: &str) -> Vec<String> {
        let text = format!("[package]\nname = \"{of}\"\n{dependencies}");
        illegal_edges(&[Manifest::parse(&Text::new("x/Cargo.toml", &text)).unwrap()])
    }

    #[test]
    fn an_edge_of_the_table_is_legal() {
        assert_eq!(
            edges("gslb-core", "[dependencies]\nlb-core.workspace = true\ndashmap.workspace = true"),
            [""; 0]
        );
        assert_eq!(
            edges("probes-io", "[dependencies]\nprobes-core.workspace = true\ntokio.workspace = true"),
            [""; 0]
        );
    }

    #[test]
    fn a_sibling_and_a_lower_layer_are_not() {
        let none = "the table of layers has no such edge";
        assert_eq!(
            edges("lb-core", "[dependencies]\nmep-core.workspace = true"),
            [format!("lb-core -> mep-core: {none}")]
        );
        assert_eq!(
            edges("gslb-types", "[build-dependencies]\nconfig.workspace = true"),
            [format!("gslb-types -> config: {none}")]
        );
        assert_eq!(
            edges("mep-io", "[dependencies]\ngslb-core.workspace = true"),
            [format!("mep-io -> gslb-core: {none}")]
        );
        assert_eq!(
            edges("admin", "[target.'cfg(unix)'.dependencies]\nx = { package = \"mep-io\", path = \"y\" }"),
            [format!("admin -> mep-io: {none}")]
        );
    }

    #[test]
    fn a_pure_crate_may_not_name_a_runtime_but_its_tests_may_use_any_outside_crate() {
        assert_eq!(
            edges("gslb-core", "[dependencies]\ntokio.workspace = true"),
            ["gslb-core -> tokio: a pure crate may name only the outside crates in the table"]
        );
        assert_eq!(edges("gslb-core", "[dev-dependencies]\ntokio.workspace = true"), [""; 0]);
    }

    #[test]
    fn tests_may_use_a_higher_layer_and_no_sibling() {
        assert_eq!(edges("mep-io", "[dev-dependencies]\nconfig.workspace = true"), [""; 0]);
        assert_eq!(
            edges("lb-core", "[dev-dependencies]\nconfig.workspace = true"),
            ["lb-core -> config: tests of L1 may not use L1"]
        );
    }

    #[test]
    fn nobody_uses_what_only_proves_and_a_stranger_is_named() {
        assert_eq!(edges("gslb-dns", "[dependencies]\nsim.workspace = true").len(), 1);
        assert_eq!(edges("newcomer", ""), ["newcomer: the table of layers does not know this crate"]);
    }

    #[test]
    fn the_layers_of_a_document_are_read_by_level() {
        let prose =
            "text\nL0  gslb-types\nL1  lb-core · config      pure\nLX  no\nL2  gslb-core   composes L1\n";
        let expected = [vec!["gslb-types"], vec!["config", "lb-core"], vec!["gslb-core"]];
        assert_eq!(layers_in_prose(&Text::new("a.md", prose)), expected);
    }
}
