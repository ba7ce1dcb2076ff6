//! Rules about texts: how a source begins, how long it may be, what must not stand in it.

use crate::Text;

/// How long a source may be. At 500 lines one looks for the second idea in it; beyond this it is there.
const LONGEST: usize = 600;

/// Sources that do not begin by saying what they are.
pub fn unannounced(sources: &[&Text]) -> Vec<String> {
    let announced = |t: &Text| t.is_generated() || t.content.starts_with("//! ");
    sources
        .iter()
        .filter(|t| !announced(t))
        .map(|t| format!("{}: the first line is no `//! what it is`", t.path))
        .collect()
}

/// Sources that hold more than one idea.
pub fn over_long(sources: &[&Text]) -> Vec<String> {
    let lines = |t: &Text| t.content.lines().count();
    let long = sources.iter().filter(|t| !t.is_generated() && lines(t) > LONGEST);
    long.map(|t| format!("{}: {} lines, more than {LONGEST}", t.path, lines(t))).collect()
}

/// Lines of code that say they are not finished.
pub fn unfinished<'a>(texts: impl IntoIterator<Item = &'a Text>) -> Vec<String> {
    let words = ["TODO", "FIXME", "XXX"];
    let calls = ["unimplemented!", "todo!("];
    let says = |line: &str| {
        line.split(|c: char| !c.is_ascii_alphanumeric()).any(|w| words.contains(&w))
            || calls.iter().any(|c| line.contains(c))
    };
    let code = texts.into_iter().filter(|t| is_code(t) && !t.is_generated());
    code.flat_map(|t| lines_that(t, says, "says that it is not finished")).collect()
}

/// Lines that name a folder of somebody's machine.
pub fn with_machine_paths<'a>(texts: impl IntoIterator<Item = &'a Text>) -> Vec<String> {
    let paths = ["/work/", "/tmp/target", "/root/", "/home/"];
    let names = |line: &str| paths.iter().any(|p| line.contains(p));
    texts.into_iter().flat_map(|t| lines_that(t, names, "names a folder of one machine")).collect()
}

fn is_code(text: &Text) -> bool {
    [".rs", ".toml", ".proto", ".sh", ".py", ".scn"].iter().any(|e| text.ends(e))
        || text.path.starts_with(".ci/")
}

fn lines_that(text: &Text, bad: impl Fn(&str) -> bool, why: &str) -> Vec<String> {
    let found = text.content.lines().enumerate().filter(|(_, line)| bad(line));
    found.map(|(n, line)| format!("{}:{}: {why}: {}", text.path, n + 1, line.trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(content: &str) -> Text {
        Text::new("a/src/x.rs", content)
    }

    #[test]
    fn a_source_must_begin_with_what_it_is() {
        assert_eq!(unannounced(&[&text("//! Words.\n")]), [""; 0]);
        assert_eq!(unannounced(&[&text("use a;\n//! Words.\n"), &text("")]).len(), 2);
        assert_eq!(unannounced(&[&Text::new("a/gen/x.rs", "// written by a program")]), [""; 0]);
    }

    #[test]
    fn a_source_may_be_as_long_as_the_limit() {
        assert_eq!(over_long(&[&text(&"\n".repeat(LONGEST))]), [""; 0]);
        assert_eq!(over_long(&[&text(&"\n".repeat(LONGEST + 1))]).len(), 1);
    }

    #[test]
    fn unfinished_lines_are_found_and_words_that_contain_the_marks_are_not() {
        for line in ["// TODO: more", "// (FIXME)", "unimplemented!()", "todo!()"] {
            assert_eq!(unfinished([&text(line)]).len(), 1, "{line}");
        }
        assert_eq!(unfinished([&text("let mastodon = TODOS; // fixme-not")]), [""; 0]);
        assert_eq!(unfinished([&Text::new("a.md", "no TODO in code")]), [""; 0]);
    }

    #[test]
    fn a_folder_of_one_machine_is_found() {
        let found = with_machine_paths([&text("a\nlet p = \"/work/main\";")]);
        assert_eq!(found, ["a/src/x.rs:2: names a folder of one machine: let p = \"/work/main\";"]);
        assert_eq!(with_machine_paths([&text("networks: net/work; /tmp/x")]), [""; 0]);
    }
}
