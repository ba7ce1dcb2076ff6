//! The rules, applied to this repository. Each failure names every place that breaks the rule.

use repo_tests::*;
use std::sync::LazyLock;

static HERE: LazyLock<Repository> = LazyLock::new(Repository::read);

#[track_caller]
fn nothing_wrong(found: Vec<String>) {
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

/// All texts but those of the rules themselves, whose tests quote what breaks them.
fn texts() -> impl Iterator<Item = &'static Text> {
    HERE.texts().iter().filter(|t| !t.path.starts_with("tests/repo/src/"))
}

#[test]
fn every_dependency_goes_up_a_layer() {
    nothing_wrong(table_faults());
    nothing_wrong(illegal_edges(&HERE.manifests()));
}

#[test]
fn every_crate_is_a_member_of_the_workspace() {
    let root: toml::Table = toml::from_str(&HERE.text("Cargo.toml").content).unwrap();
    let members: Vec<_> =
        root["workspace"]["members"].as_array().unwrap().iter().filter_map(|m| m.as_str()).collect();
    let folders = HERE.manifests().into_iter().map(|m| m.path.trim_end_matches("/Cargo.toml").to_owned());
    nothing_wrong(folders.filter(|f| !members.contains(&f.as_str())).collect());
}

#[test]
fn the_architecture_prints_the_layers_that_are_checked() {
    assert_eq!(layers_in_prose(HERE.text("ARCHITECTURE.md")), layer_table());
}

#[test]
fn pure_crates_name_no_clock_socket_thread_file_or_random_order() {
    let mut wrong = Vec::new();
    for manifest in HERE.manifests().iter().filter(|m| pure_crates().contains(&m.name.as_str())) {
        let folder = manifest.path.replace("Cargo.toml", "src/");
        let sources: Vec<_> = HERE.sources().into_iter().filter(|t| t.path.starts_with(&folder)).collect();
        assert!(!sources.is_empty(), "{folder}");
        let of_tests: Vec<_> = sources
            .iter()
            .flat_map(|t| test_modules(&t.content).unwrap().into_iter().map(|m| (t.path.as_str(), m)))
            .collect();
        for source in sources {
            if of_tests.iter().all(|(parent, module)| !module.holds(parent, &source.path)) {
                let found = impure_uses(&source.content).unwrap();
                wrong.extend(found.into_iter().map(|what| format!("{}:{what}", source.path)));
            }
        }
    }
    nothing_wrong(wrong);
}

#[test]
fn clippy_looks_at_the_same_pure_crates() {
    let script = &HERE.text(".ci/pure").content;
    let named: Vec<_> = script.split_whitespace().zip(script.split_whitespace().skip(1)).collect();
    let named: Vec<_> = named.into_iter().filter(|(flag, _)| *flag == "-p").map(|(_, name)| name).collect();
    assert_eq!(named, pure_crates());
}

#[test]
fn every_outside_crate_says_what_it_is_for() {
    nothing_wrong(uncommented_dependencies(HERE.text("Cargo.toml")));
}

#[test]
fn every_outside_crate_is_used() {
    nothing_wrong(unused_dependencies(HERE.text("Cargo.toml"), &HERE.manifests()));
}

#[test]
fn every_crate_takes_its_settings_from_the_workspace() {
    nothing_wrong(unkept_manifest_rules(&HERE.manifests()));
}

#[test]
fn every_source_begins_by_saying_what_it_is() {
    nothing_wrong(unannounced(&HERE.sources()));
}

#[test]
fn no_source_holds_two_ideas() {
    nothing_wrong(over_long(&HERE.sources()));
}

#[test]
fn nothing_is_left_for_later() {
    nothing_wrong(unfinished(texts()));
}

#[test]
fn no_file_names_a_folder_of_one_machine() {
    nothing_wrong(with_machine_paths(texts()));
}

#[test]
fn what_is_cited_stands_in_the_specification() {
    let spec = |name: &str| HERE.text(&format!("docs/spec/{name}.md"));
    nothing_wrong(unknown_citations(spec("behaviour"), spec("faults"), spec("reliability"), texts()));
}

#[test]
fn links_in_documents_lead_somewhere() {
    nothing_wrong(broken_links(HERE.texts()));
}

#[test]
fn the_readme_begins_with_the_two_commands() {
    nothing_wrong(missing_commands(HERE.text("README.md")));
}

#[test]
fn both_licences_are_there_in_full() {
    assert!(HERE.text("LICENSE-MIT").content.contains("The gslb-dns authors"));
    assert!(HERE.text("LICENSE-APACHE").content.contains("END OF TERMS AND CONDITIONS"));
}
