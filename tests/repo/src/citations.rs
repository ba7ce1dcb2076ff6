//! Rules about citations: what code cites as a requirement stands in docs/spec.
//!
//! Known forms: "behaviour 3" (a section), "[S-RTT]" (a source), "faults I-37", "threat T6", "bar R8".

use crate::Text;
use std::collections::BTreeSet;

/// Citations in `texts` of things that the three specification texts do not hold.
pub fn unknown_citations<'a>(
    behaviour: &Text,
    faults: &Text,
    reliability: &Text,
    texts: impl IntoIterator<Item = &'a Text>,
) -> Vec<String> {
    let known = known(behaviour, faults, reliability);
    let mut wrong = Vec::new();
    for text in texts {
        for (number, line) in text.content.lines().enumerate() {
            let unknown = citations(line).into_iter().filter(|c| !known.contains(c));
            wrong.extend(unknown.map(|c| format!("{}:{}: {c} is not in docs/spec", text.path, number + 1)));
        }
    }
    wrong
}

/// Everything that can be cited, in the form in which [`citations`] names it.
fn known(behaviour: &Text, faults: &Text, reliability: &Text) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    for line in behaviour.content.lines() {
        if let Some((section, _)) = line.strip_prefix("## ").and_then(|l| l.split_once(". ")) {
            known.insert(format!("behaviour {section}"));
        }
    }
    let sources = behaviour.content.lines().take_while(|l| !l.starts_with("## "));
    known.extend(sources.flat_map(bracketed));
    for line in faults.content.lines() {
        known.extend(
            line.strip_prefix("### ").and_then(|l| l.split(' ').next()).map(|id| format!("faults {id}")),
        );
    }
    for line in reliability.content.lines() {
        let id = line.strip_prefix("| ").and_then(|l| l.split(' ').next()).unwrap_or_default();
        match numbered(id) {
            Some('T') => drop(known.insert(format!("threat {id}"))),
            Some('R') => drop(known.insert(format!("bar {id}"))),
            _ => (),
        }
    }
    known
}

/// What one line cites.
fn citations(line: &str) -> Vec<String> {
    let mut found: Vec<String> = bracketed(line).collect();
    let words: Vec<&str> =
        line.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').filter(|w| !w.is_empty()).collect();
    let mut context = "";
    for (at, word) in words.iter().enumerate() {
        let lower = word.to_ascii_lowercase();
        match lower.as_str() {
            "threat" | "threats" => context = "threat",
            "bar" | "bars" => context = "bar",
            "behaviour" => {
                let next = words.iter().skip(at + 1).find(|w| !["md", "section"].contains(w));
                let section = next.filter(|w| w.chars().all(|c| c.is_ascii_digit()));
                found.extend(section.map(|n| format!("behaviour {n}")));
            }
            "and" | "to" => (),
            _ => match numbered(word) {
                Some('T') if context == "threat" => found.push(format!("threat {word}")),
                Some('R') if context == "bar" => found.push(format!("bar {word}")),
                _ => context = "",
            },
        }
        if word.strip_prefix("I-").is_some_and(|n| n.len() == 2 && n.chars().all(|c| c.is_ascii_digit())) {
            found.push(format!("faults {word}"));
        }
    }
    found
}

/// The letter of an identifier such as `T6`.
fn numbered(word: &str) -> Option<char> {
    let letter = word.chars().next()?;
    let digits = word.get(letter.len_utf8()..)?;
    (!digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit())).then_some(letter)
}

/// Sources: `[S-RTT]`, `[CR]` is too short a name to be told from other brackets.
fn bracketed(line: &str) -> impl Iterator<Item = String> + '_ {
    let inside = line.split('[').skip(1).filter_map(|rest| rest.split(']').next());
    let source =
        |name: &&str| name.strip_prefix("S-").is_some_and(|n| n.chars().all(|c| c.is_ascii_uppercase()));
    inside.filter(source).map(|name| format!("[{name}]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str) -> Vec<String> {
        let behaviour =
            Text::new("b.md", "Sources: [S-RTT] [S-BW]\n## 1. Words\n## 3. Dynamic RTT\n[S-FAKE]\n");
        let faults = Text::new("f.md", "### I-01 EDNS\n### I-37 RTT of 0 ns\nlike I-99\n");
        let reliability = Text::new("r.md", "| R1 | hostile |\n| T1 | loops |\n| T6 | spoofing |\n");
        unknown_citations(&behaviour, &faults, &reliability, [&Text::new("x.rs", line)])
    }

    #[test]
    fn what_stands_in_the_specification_may_be_cited() {
        for good in [
            "// behaviour 3, [S-RTT]; faults I-37, I-01; threats T1 and T6; bar R1",
            "// Behaviour section 3; docs/spec/behaviour.md section 1",
            "struct Pair<T1, T2>(T1, T2); // its behaviour is simple; RFC 2308 section 5",
        ] {
            assert_eq!(check(good), [""; 0], "{good}");
        }
    }

    #[test]
    fn what_does_not_may_not() {
        for (bad, what) in [
            ("// behaviour 2", "behaviour 2"),
            ("// (behaviour 10)", "behaviour 10"),
            ("// behaviour.md section 4", "behaviour 4"),
            ("// faults I-37 and I-99", "faults I-99"),
            ("// threat T2", "threat T2"),
            ("// threats T1, T6 and T7", "threat T7"),
            ("// bar R9", "bar R9"),
            ("// [S-FAKE]", "[S-FAKE]"),
        ] {
            assert_eq!(check(bad), [format!("x.rs:1: {what} is not in docs/spec")], "{bad}");
        }
    }
}
