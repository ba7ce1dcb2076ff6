//! From text to steps.

use super::claim::{self, Claim};
use super::words::{ParseError, Words};
use super::{Action, Deed, Expected, Query, Scenario, Step, Ways, When};
use crate::group::Group;
use crate::world::{HostIndex, Manner};
use gslb_types::ProbeKind;
use std::net::IpAddr;
use std::time::Duration;

pub(super) const KINDS: [(&str, ProbeKind); 3] =
    [("ping", ProbeKind::Ping), ("dns-udp", ProbeKind::DnsUdp), ("dns-tcp", ProbeKind::DnsTcp)];

const MANNERS: [(&str, Manner); 4] = [
    ("answers", Manner::Answers),
    ("refuses", Manner::Refuses),
    ("prohibited", Manner::Prohibited),
    ("silent", Manner::Silent),
];

/// Reads a script. The first thing that is wrong ends it.
pub fn parse(text: &str) -> Result<Scenario, ParseError> {
    let mut scenario =
        Scenario { group: Group::new(&[]), services: Vec::new(), steps: Vec::new(), wrong: None };
    for (n, line) in text.lines().enumerate() {
        let mut words = Words::of(n + 1, line);
        if !words.is_done() {
            statement(&mut scenario, &mut words, n + 1, line)?;
            words.end()?;
        }
    }
    if scenario.steps.is_empty() {
        return Err(ParseError {
            line: text.lines().count(),
            column: 1,
            message: "a script has a step at least".to_owned(),
        });
    }
    Ok(scenario)
}

fn statement(
    scenario: &mut Scenario,
    words: &mut Words<'_>,
    line: usize,
    text: &str,
) -> Result<(), ParseError> {
    if scenario.group.sites().len() == 0 {
        return sites(scenario, words);
    }
    match words.peek() {
        Some(word @ ("sites" | "nodes" | "service" | "set")) if !scenario.steps.is_empty() => {
            Err(words.here(format!("'{word}' belongs before the first step")))
        }
        Some("sites") => Err(words.here("'sites' stands there already".to_owned())),
        Some("nodes") => nodes(scenario, words),
        Some("service") => service(scenario, words),
        Some("set") => set(scenario, words),
        _ => {
            if let Some(wrong) = scenario.wrong.take() {
                return Err(wrong);
            }
            let when = when(words)?;
            let action = Reader { scenario }.action(words)?;
            let text = text.split('#').next().unwrap_or(text).trim().to_owned();
            scenario.steps.push(Step { line, text, when, action });
            Ok(())
        }
    }
}

fn sites(scenario: &mut Scenario, words: &mut Words<'_>) -> Result<(), ParseError> {
    if !words.takes("sites") {
        return Err(words.here("a script begins with 'sites NAME...'".to_owned()));
    }
    let mut names = vec![words.word("the name of a site")?];
    while !words.is_done() {
        names.push(words.word("a site")?);
    }
    scenario.group = Group::new(&names);
    scenario.services = names.iter().map(|name| format!("web-{name}")).collect();
    Ok(())
}

fn nodes(scenario: &mut Scenario, words: &mut Words<'_>) -> Result<(), ParseError> {
    words.expect("nodes")?;
    let site = Reader { scenario }.site_name(words)?;
    let count = words.number()?;
    scenario.group = scenario.group.clone().with_nodes(site, usize::try_from(count).unwrap_or(1));
    Ok(())
}

fn service(scenario: &mut Scenario, words: &mut Words<'_>) -> Result<(), ParseError> {
    words.expect("service")?;
    let name = words.word("the name of a service")?;
    words.expect("at")?;
    let site = words.word("a site")?;
    if scenario.group.site(site).is_none() {
        return Err(words.before(format!("there is no site '{site}'")));
    }
    scenario.group = scenario.group.clone().with_service(name, site);
    scenario.services.push(name.to_owned());
    Ok(())
}

/// The product's own complaint about settings stands beside the line from which on they were wrong: one may be right only
/// with the next.
fn set(scenario: &mut Scenario, words: &mut Words<'_>) -> Result<(), ParseError> {
    words.expect("set")?;
    let setting = words.word("a setting such as mep.down_delay")?;
    if !Group::has_table_of(setting) {
        return Err(words.before(format!("'{setting}' is in no table that a script can set")));
    }
    let value = words.word("a value in TOML")?;
    let error = words.before(String::new());
    let group = scenario.group.clone();
    scenario.group = match words.takes("at") {
        true => group.with_at(Reader { scenario }.site_name(words)?, setting, value),
        false => group.with(setting, value),
    };
    let complaints = (0..scenario.group.nodes().count()).find_map(|node| scenario.group.config(node).err());
    scenario.wrong = complaints.map(|errors| {
        let first = scenario.wrong.take().unwrap_or(error);
        ParseError { message: errors.to_string(), ..first }
    });
    Ok(())
}

fn when(words: &mut Words<'_>) -> Result<When, ParseError> {
    Ok(if words.takes("at") {
        When::At(words.time()?)
    } else if words.takes("after") {
        When::After(words.time()?)
    } else {
        When::Now
    })
}

/// Reads what names sites and services.
pub(super) struct Reader<'s> {
    pub(super) scenario: &'s Scenario,
}

impl Reader<'_> {
    fn action(&self, words: &mut Words<'_>) -> Result<Action, ParseError> {
        let deeds = [
            ("start", Deed::Start),
            ("kill", Deed::Kill),
            ("restart", Deed::Restart),
            ("stop", Deed::Stop),
            ("resume", Deed::Resume),
            ("stick", Deed::Stick),
            ("mute", Deed::Mute(true)),
            ("unmute", Deed::Mute(false)),
        ];
        let verb = words.word("a verb")?;
        if let Some((_, deed)) = deeds.iter().find(|(name, _)| *name == verb) {
            return Ok(Action::Process(self.who(words)?, *deed));
        }
        match verb {
            "freeze" => {
                let who = self.who(words)?;
                let span = if words.takes("for") { Some(words.time()?) } else { None };
                Ok(Action::Process(who, Deed::Freeze(span)))
            }
            "jump" => {
                let who = self.who(words)?;
                words.expect("by")?;
                Ok(Action::Process(who, Deed::Jump(words.time()?)))
            }
            "cut" => {
                let a = self.node(words)?;
                let ways = if words.takes("->") { Ways::One } else { Ways::Both };
                Ok(Action::Cut(a, self.node(words)?, ways))
            }
            "isolate" => Ok(Action::Isolate(self.who(words)?)),
            "wave" => {
                let (a, b) = (self.node(words)?, self.node(words)?);
                words.expect("up")?;
                let up = words.time()?;
                words.expect("down")?;
                let down = words.time()?;
                words.expect("for")?;
                Ok(Action::Wave(a, b, (up, down), words.time()?))
            }
            "heal" if words.takes("all") => Ok(Action::HealAll),
            "heal" => Ok(Action::Heal(self.node(words)?, self.node(words)?)),
            "ldns" => Ok(Action::Resolver(words.address()?, self.pairs(words, |words| words.time())?)),
            "manner" => self.manner(words),
            "up" | "down" => Ok(Action::Service(self.service(words)?, verb == "up")),
            "hide" | "show" => {
                let service = self.service(words)?;
                words.expect("from")?;
                Ok(Action::Reach(self.site(words)?, service, verb == "show"))
            }
            "query" => Ok(Action::Query(self.query(words)?)),
            "every" => self.every(words),
            "rotate" => self.rotate(words),
            "mark" => Ok(Action::Mark),
            "expect" => self.expect(words),
            _ => Err(words.before(format!(
                "no verb is called '{verb}'; there are start, kill, restart, stop, freeze, resume, stick, mute, unmute, jump, \
                 cut, isolate, wave, heal, ldns, manner, up, down, hide, show, query, every, rotate, mark, expect"
            ))),
        }
    }

    fn manner(&self, words: &mut Words<'_>) -> Result<Action, ParseError> {
        let ldns = words.address()?;
        let kinds = match words.takes("all") {
            true => ProbeKind::DEFAULT_ORDER.to_vec(),
            false => vec![words.one_of("a kind of probe, or 'all'", &KINDS)?],
        };
        Ok(Action::Manner(ldns, kinds, words.one_of("how it takes them", &MANNERS)?))
    }

    fn every(&self, words: &mut Words<'_>) -> Result<Action, ParseError> {
        let pause = words.time()?;
        if pause.is_zero() {
            return Err(words.before("time must pass between two queries".to_owned()));
        }
        words.expect("for")?;
        let span = words.time()?;
        words.expect("query")?;
        Ok(Action::Every(pause, span, self.query(words)?))
    }

    fn query(&self, words: &mut Words<'_>) -> Result<Query, ParseError> {
        let whom = self.who(words)?;
        let from = self.from(words)?;
        words.expect("->")?;
        let expected = match words.word("an answer")? {
            "answer" => Expected::Answer,
            "nothing" => Expected::Nothing,
            "silence" => Expected::Silence,
            text => match text.parse() {
                Ok(address) => Expected::Address(address),
                Err(_) => Expected::OneOf(
                    text.split('|').map(|name| self.named_service(words, name)).collect::<Result<_, _>>()?,
                ),
            },
        };
        Ok(Query { whom, from, expected })
    }

    fn rotate(&self, words: &mut Words<'_>) -> Result<Action, ParseError> {
        let (whom, from) = (self.who(words)?, self.from(words)?);
        words.expect("over")?;
        let mut services = vec![self.service(words)?];
        while !words.is_done() {
            services.push(self.service(words)?);
        }
        Ok(Action::Rotate(whom, from, services))
    }

    fn from(&self, words: &mut Words<'_>) -> Result<IpAddr, ParseError> {
        words.expect("from")?;
        words.address()
    }

    fn expect(&self, words: &mut Words<'_>) -> Result<Action, ParseError> {
        let claim: Claim = claim::read(self, words)?;
        let within = if words.takes("within") { words.time()? } else { Duration::ZERO };
        Ok(Action::Expect(claim, within))
    }

    /// Pairs of a site and something, to the end of the line or to the next word that names no site.
    pub(super) fn pairs<T>(
        &self,
        words: &mut Words<'_>,
        read: impl Fn(&mut Words<'_>) -> Result<T, ParseError>,
    ) -> Result<Vec<(usize, T)>, ParseError> {
        let mut pairs = vec![(self.site(words)?, read(words)?)];
        while words.peek().is_some_and(|word| self.scenario.group.site(word).is_some()) {
            pairs.push((self.site(words)?, read(words)?));
        }
        Ok(pairs)
    }

    /// A node, the nodes of a site, or all of them.
    pub(super) fn who(&self, words: &mut Words<'_>) -> Result<Vec<HostIndex>, ParseError> {
        let group = &self.scenario.group;
        let nodes: Vec<(String, HostIndex)> = group.nodes().zip(0..).collect();
        if words.takes("all") {
            return Ok(nodes.into_iter().map(|(_, n)| n).collect());
        }
        if let Some((_, node)) = nodes.iter().find(|(name, _)| Some(name.as_str()) == words.peek()) {
            words.word("a node")?;
            return Ok(vec![*node]);
        }
        let name = self.site_name(words)?;
        let of_the_site = |node: &str| node.split('/').next() == Some(name);
        Ok(nodes.iter().filter(|(node, _)| of_the_site(node)).map(|(_, n)| *n).collect())
    }

    /// A node, by its name, or that of its site if it is the only one there.
    pub(super) fn node(&self, words: &mut Words<'_>) -> Result<HostIndex, ParseError> {
        let several = words.here("the site has several nodes: SITE/NODE".to_owned());
        match self.who(words)?.as_slice() {
            [node] => Ok(*node),
            _ => Err(several),
        }
    }

    /// A site, by its place.
    fn site(&self, words: &mut Words<'_>) -> Result<usize, ParseError> {
        let sites: Vec<(&str, usize)> = self.scenario.group.sites().zip(0..).collect();
        words.one_of("a site", &sites)
    }

    fn site_name<'w>(&self, words: &mut Words<'w>) -> Result<&'w str, ParseError> {
        let name = words.peek().unwrap_or_default();
        self.site(words).map(|_| name)
    }

    pub(super) fn service(&self, words: &mut Words<'_>) -> Result<usize, ParseError> {
        let name = words.word("a service")?;
        self.named_service(words, name)
    }

    fn named_service(&self, words: &Words<'_>, name: &str) -> Result<usize, ParseError> {
        let services = &self.scenario.services;
        services.iter().position(|service| service == name).ok_or_else(|| {
            words.before(format!("there is no service '{name}'; there are {}", services.join(", ")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn a_script_is_a_group_and_steps() {
        let scenario = parse(
            "# a claim\nsites fra iad\nservice api at fra\nset mep.down_delay \"0s\"\n\
             ldns 192.0.2.1 fra 5ms iad 70ms\nat 1s start all\nafter 2s query fra from 192.0.2.1 -> web-fra|api",
        )
        .unwrap();
        assert_eq!(scenario.services, ["web-fra", "web-iad", "api"]);
        assert_eq!(scenario.steps[1].when, When::At(Duration::from_secs(1)));
        let ldns = "192.0.2.1".parse().unwrap();
        let query = Query { whom: vec![0], from: ldns, expected: Expected::OneOf(vec![0, 2]) };
        assert_eq!(scenario.steps[2].action, Action::Query(query));
        assert_eq!(
            (scenario.steps[2].line, scenario.steps[2].when),
            (7, When::After(Duration::from_secs(2)))
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place_and_what_would_be_right() {
        let sites = "sites fra iad\n";
        for (text, expected) in [
            ("start all", "1:1: a script begins with 'sites NAME...'"),
            ("sites fra", "1:1: a script has a step at least"),
            (
                &format!("{sites}at 5 start all"),
                "2:4: expected a time such as 5s, 200ms, 2m or 1h, found '5'",
            ),
            (&format!("{sites}start rome"), "2:7: expected a site: fra, iad, found 'rome'"),
            (&format!("{sites}start fra now"), "2:11: 'now' is too much"),
            (&format!("{sites}down web"), "2:6: there is no service 'web'; there are web-fra, web-iad"),
            (
                &format!("{sites}query fra from nobody -> web-fra"),
                "2:16: expected an address, found 'nobody'",
            ),
            (&format!("{sites}query fra from 192.0.2.1 web-fra"), "2:26: expected '->', found 'web-fra'"),
            (
                &format!("{sites}expect peers fra iad gone"),
                "2:22: expected a state: up, suspect, down, connecting, found 'gone'",
            ),
            (&format!("{sites}start all\nset ldns.cap 5"), "3:1: 'set' belongs before the first step"),
            (&format!("{sites}set mepp.x 5"), "2:5: 'mepp.x' is in no table that a script can set"),
        ] {
            assert_eq!(error(text), expected);
        }
    }

    #[test]
    fn a_wrong_setting_is_refused_by_the_product_itself_beside_its_line() {
        let text = error("sites fra\n\nset mep.down_dely \"5s\"\nset ldns.cap 9\nstart all");
        assert!(text.starts_with("3:19: ") && text.contains("down_delay"), "{text}");
    }
}
