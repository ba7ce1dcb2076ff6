//! Rules about the documents: their links lead somewhere, and the README begins with what to do.

use crate::Text;
use std::collections::BTreeSet;

/// Links of Markdown files to files that are not there.
pub fn broken_links(texts: &[Text]) -> Vec<String> {
    let files: BTreeSet<&str> = texts.iter().map(|t| t.path.as_str()).collect();
    let there = |target: &str| {
        let folder = format!("{target}/");
        files.contains(target) || files.iter().any(|f| f.starts_with(&folder))
    };
    let mut wrong = Vec::new();
    for document in texts.iter().filter(|t| t.ends(".md")) {
        for link in links(&document.content) {
            let target = resolve(&document.path, link);
            if !there(&target) {
                wrong.push(format!("{}: {link} leads nowhere", document.path));
            }
        }
    }
    wrong
}

/// The targets of `[text](target)` within the repository, without anchors.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let inside = targets.filter(|t| !t.contains("://") && !t.starts_with('#') && !t.contains(' '));
    inside.filter_map(|t| t.split('#').next())
}

/// The path from the root that a link in `document` means.
fn resolve(document: &str, link: &str) -> String {
    let mut path: Vec<&str> = document.split('/').collect();
    path.pop();
    for step in link.trim_end_matches('/').split('/') {
        match step {
            "." | "" => (),
            ".." => drop(path.pop()),
            name => path.push(name),
        }
    }
    path.join("/")
}

/// The commands that a newcomer needs, and that the README does not show within its first lines.
pub fn missing_commands(readme: &Text) -> Vec<String> {
    let top: Vec<&str> = readme.content.lines().take(15).collect();
    let shown = |command: &str| top.iter().any(|line| line.starts_with(command));
    let wanted = ["cargo run --release -- demo", "cargo test --workspace"];
    wanted.iter().filter(|c| !shown(c)).map(|c| format!("{}: `{c}` is not at the top", readme.path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_followed_from_where_it_stands() {
        let doc = |path: &str, text: &str| Text::new(path, text);
        let texts = [
            doc("README.md", "see [spec](docs/spec), [x](docs/spec/a.md#part), [web](https://example.org/y)"),
            doc("docs/spec/a.md", "[up](../../README.md) [down](b.md)"),
        ];
        assert_eq!(broken_links(&texts), ["docs/spec/a.md: b.md leads nowhere"]);
    }

    #[test]
    fn the_two_commands_stand_at_the_top() {
        let readme = |text: &str| missing_commands(&Text::new("README.md", text));
        assert_eq!(
            readme("# X\n```\ncargo run --release -- demo   # try it\ncargo test --workspace\n```\n"),
            [""; 0]
        );
        assert_eq!(
            readme(&format!("{}cargo run --release -- demo\ncargo test --workspace\n", "\n".repeat(20)))
                .len(),
            2
        );
        assert_eq!(
            readme("cargo run --release -- demo\n"),
            ["README.md: `cargo test --workspace` is not at the top"]
        );
    }
}
