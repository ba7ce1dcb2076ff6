//! Purity: what a pure crate's sources must not name (ARCHITECTURE.md).
//!
//! The same bans as clippy-pure/clippy.toml, without a compiler: sources are parsed, `use` is followed, code under
//! `#[cfg(test)]` is left out. So `cargo test` alone catches a clock, and a type that clippy cannot tell: a map whose hasher
//! is the randomly seeded default.

use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeMap;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, Item, Path, PathArguments, UseTree};

/// A ban: everything whose path begins like this, and why.
const BANS: &[(&str, &str)] = &[
    ("std::time::Instant", "a clock: take `now: Timestamp`"),
    ("std::time::SystemTime", "a clock: take `now: Timestamp`"),
    ("std::time::UNIX_EPOCH", "a clock: take `now: Timestamp`"),
    ("std::net::TcpStream", "a socket: return an Output that an I/O crate carries out"),
    ("std::net::TcpListener", "a socket: return an Output that an I/O crate carries out"),
    ("std::net::UdpSocket", "a socket: return an Output that an I/O crate carries out"),
    ("std::net::ToSocketAddrs", "asks a resolver: take the address"),
    ("std::os", "the operating system belongs into I/O crates"),
    ("std::thread", "a thread: machines have one owner"),
    ("std::fs", "a file: take its text"),
    ("std::env", "the environment: take the setting"),
    ("std::process", "a process: return an Output"),
    ("std::io::stdin", "a terminal: take the text"),
    ("std::io::stdout", "a terminal: return the text"),
    ("std::io::stderr", "a terminal: return the text"),
    ("std::sync::Mutex", "a blocking lock: machines have one owner, readers use arc-swap"),
    ("std::sync::RwLock", "a blocking lock: machines have one owner, readers use arc-swap"),
    ("std::sync::Condvar", "a blocking lock: machines have one owner"),
    ("std::sync::Barrier", "a blocking lock: machines have one owner"),
    ("std::sync::mpsc", "a channel: machines have handle_x and poll_output"),
    ("std::hash::RandomState", "random order: two runs must be alike; take the hasher"),
    ("std::hash::DefaultHasher", "differs between Rust versions: nodes of different builds must agree"),
    ("std::collections::hash_map::RandomState", "random order: two runs must be alike; take the hasher"),
    (
        "std::collections::hash_map::DefaultHasher",
        "differs between Rust versions: nodes of different builds must agree",
    ),
    ("foldhash::fast::RandomState", "random order: two runs must be alike; take the seed"),
    ("foldhash::quality::RandomState", "random order: two runs must be alike; take the seed"),
    ("foldhash::HashMap", "random order: two runs must be alike; take the seed"),
    ("foldhash::HashSet", "random order: two runs must be alike; take the seed"),
];

/// Maps that are in random order unless a hasher is named: how many type arguments they have when it is.
const MAPS: &[(&str, usize)] = &[
    ("std::collections::HashMap", 3),
    ("std::collections::HashSet", 2),
    ("std::collections::hash_map::HashMap", 3),
    ("std::collections::hash_set::HashSet", 2),
    ("dashmap::DashMap", 3),
    ("dashmap::DashSet", 2),
];

const MAP_WHY: &str = "random order: use BTreeMap, or name the hasher and take its seed";

/// Macros that write to a terminal or make a thread's own state.
const MACROS: &[&str] = &["println", "print", "eprintln", "eprint", "dbg", "thread_local"];

/// Every place where the source of a pure crate names what it must not, as `line: name: why`.
pub fn impure_uses(source: &str) -> syn::Result<Vec<String>> {
    let file = syn::parse_file(source)?;
    let mut names = Names::default();
    names.visit_file(&file);
    let mut finder = Finder { names: names.0, found: Vec::new() };
    finder.visit_file(&file);
    finder.found.sort();
    finder.found.dedup();
    Ok(finder.found.into_iter().map(|(line, what)| format!("{line}: {what}")).collect())
}

/// The files of modules that exist only for tests: `#[cfg(test)] mod helpers;`
pub fn test_modules(source: &str) -> syn::Result<Vec<Module>> {
    let items = syn::parse_file(source)?.items;
    let modules = items.into_iter().filter_map(|item| match item {
        Item::Mod(m) if m.content.is_none() && is_test(&m.attrs) => Some(Module(m.ident.to_string())),
        _ => None,
    });
    Ok(modules.collect())
}

/// A module in a file of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module(String);

impl Module {
    /// Whether `path` belongs to this module, which the file `parent` declares.
    pub fn holds(&self, parent: &str, path: &str) -> bool {
        let folder = match parent.rsplit_once('/') {
            Some((folder, "lib.rs" | "main.rs" | "mod.rs")) => folder,
            _ => parent.trim_end_matches(".rs"),
        };
        let own = format!("{folder}/{}", self.0);
        path == format!("{own}.rs") || path.starts_with(&format!("{own}/"))
    }
}

/// What the short names of a file stand for.
#[derive(Default)]
struct Names(BTreeMap<String, String>);

impl<'a> Visit<'a> for Names {
    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        leaves(&item.tree, "", &mut |name, path| drop(self.0.insert(name.to_owned(), path.to_owned())));
    }
}

/// Calls `each` with every name that a `use` brings in (`*` for a whole module) and its full path.
fn leaves(tree: &UseTree, before: &str, each: &mut impl FnMut(&str, &str)) {
    let join = |name: &str| if before.is_empty() { name.to_owned() } else { format!("{before}::{name}") };
    match tree {
        UseTree::Path(p) => leaves(&p.tree, &join(&p.ident.to_string()), each),
        UseTree::Name(n) if n.ident == "self" => each(before.rsplit("::").next().unwrap_or(before), before),
        UseTree::Name(n) => each(&n.ident.to_string(), &join(&n.ident.to_string())),
        UseTree::Rename(r) if r.ident == "self" => each(&r.rename.to_string(), before),
        UseTree::Rename(r) => each(&r.rename.to_string(), &join(&r.ident.to_string())),
        UseTree::Glob(_) => each("*", before),
        UseTree::Group(g) => g.items.iter().for_each(|t| leaves(t, before, each)),
    }
}

struct Finder {
    names: BTreeMap<String, String>,
    found: Vec<(usize, String)>,
}

impl Finder {
    /// The whole path that a written one stands for.
    fn whole(&self, written: &[String]) -> String {
        let (first, rest) = match written.split_first() {
            Some((first, rest)) => (first.as_str(), rest),
            None => return String::new(),
        };
        let start = self.names.get(first).map_or(first, String::as_str);
        let mut whole = start.to_owned();
        for segment in rest {
            whole.push_str("::");
            whole.push_str(segment);
        }
        in_std(&whole)
    }

    fn report(&mut self, line: usize, what: String) {
        self.found.push((line, what));
    }

    fn check(&mut self, whole: &str, line: usize) {
        if let Some((_, why)) = BANS.iter().find(|(ban, _)| is_within(whole, ban)) {
            self.report(line, format!("{whole}: {why}"));
        }
    }

    /// A map made by one of its functions: only those that take the hasher are fine.
    fn check_map_call(&mut self, whole: &str, line: usize) {
        let made = MAPS.iter().find_map(|(map, _)| whole.strip_prefix(map)?.strip_prefix("::"));
        if made.is_some_and(|function| !function.contains("hasher")) {
            self.report(line, format!("{whole}: {MAP_WHY}"));
        }
    }

    /// A map named as a type: its hasher must be named too.
    fn check_map_type(&mut self, path: &Path) {
        let whole = self.whole(&segments(path));
        let Some((_, wanted)) = MAPS.iter().find(|(map, _)| *map == whole) else { return };
        let named = match path.segments.last().map(|s| &s.arguments) {
            Some(PathArguments::AngleBracketed(a)) => a.args.len(),
            _ => 0,
        };
        if named < *wanted {
            self.report(path.span().start().line, format!("{whole}: {MAP_WHY}"));
        }
    }

    /// A macro's tokens are not syntax yet: only paths are looked for.
    fn check_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let (mut line, mut colons) = (0, 0);
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.end_of_path(&mut path, line);
                    }
                    line = ident.span().start().line;
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(p) if p.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.end_of_path(&mut path, line);
                    self.check_tokens(group.stream());
                    colons = 0;
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {
                    self.end_of_path(&mut path, line);
                    colons = 0;
                }
            }
        }
        self.end_of_path(&mut path, line);
    }

    fn end_of_path(&mut self, path: &mut Vec<String>, line: usize) {
        let whole = self.whole(path);
        self.check(&whole, line);
        self.check_map_call(&whole, line);
        path.clear();
    }
}

impl<'a> Visit<'a> for Finder {
    fn visit_item(&mut self, item: &'a Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        let line = item.span().start().line;
        let mut paths = Vec::new();
        leaves(&item.tree, "", &mut |name, path| paths.push((name == "*", in_std(path))));
        for (everything, path) in paths {
            self.check(&path, line);
            if everything && BANS.iter().any(|(ban, _)| is_within(ban, &path)) {
                self.report(line, format!("{path}::*: brings in what is banned; name what is meant"));
            }
        }
    }

    fn visit_path(&mut self, path: &'a Path) {
        let whole = self.whole(&segments(path));
        self.check(&whole, path.span().start().line);
        visit::visit_path(self, path);
    }

    fn visit_type_path(&mut self, ty: &'a syn::TypePath) {
        self.check_map_type(&ty.path);
        visit::visit_type_path(self, ty);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Path(e) = expr
            && e.qself.is_none()
        {
            let whole = self.whole(&segments(&e.path));
            self.check_map_call(&whole, e.span().start().line);
        }
        visit::visit_expr(self, expr);
    }

    fn visit_macro(&mut self, mac: &'a syn::Macro) {
        let name = mac.path.segments.last().map(|s| s.ident.to_string()).unwrap_or_default();
        if MACROS.contains(&name.as_str()) {
            let line = mac.path.span().start().line;
            self.report(line, format!("{name}!: writes to a terminal, or keeps state in a thread"));
        }
        self.check_tokens(mac.tokens.clone());
    }
}

fn segments(path: &Path) -> Vec<String> {
    path.segments.iter().map(|s| s.ident.to_string()).collect()
}

/// `core` and `alloc` are the same things under other names.
fn in_std(path: &str) -> String {
    let rest = ["core::", "alloc::"].iter().find_map(|root| path.strip_prefix(root));
    rest.map_or_else(|| path.to_owned(), |rest| format!("std::{rest}"))
}

/// Whether `path` is `module`, or lies within it.
fn is_within(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|a| {
        a.path().is_ident("test")
            || (a.path().is_ident("cfg") && a.parse_args::<Path>().is_ok_and(|p| p.is_ident("test")))
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(i) => &i.attrs,
        Item::Enum(i) => &i.attrs,
        Item::Fn(i) => &i.attrs,
        Item::Impl(i) => &i.attrs,
        Item::Macro(i) => &i.attrs,
        Item::Mod(i) => &i.attrs,
        Item::Static(i) => &i.attrs,
        Item::Struct(i) => &i.attrs,
        Item::Trait(i) => &i.attrs,
        Item::Type(i) => &i.attrs,
        Item::Use(i) => &i.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str) -> Vec<String> {
        let strip = |line: String| line.split(": ").take(2).collect::<Vec<_>>().join(" ");
        impure_uses(source).unwrap().into_iter().map(strip).collect()
    }

    #[test]
    fn a_clock_is_found_however_it_is_written() {
        assert_eq!(found("fn f() { let t = std::time::Instant::now(); }"), ["1 std::time::Instant::now"]);
        assert_eq!(found("use std::time;\nfn f() -> time::SystemTime { g() }"), ["2 std::time::SystemTime"]);
        assert_eq!(
            found("use std::{time::Instant as Clock, fmt};\nfn f() { Clock::now(); }"),
            ["1 std::time::Instant", "2 std::time::Instant::now"]
        );
        assert_eq!(found("use ::std::time::*;"), ["1 std::time::*"]);
        assert_eq!(found("fn f() { use std::thread::spawn; }"), ["1 std::thread::spawn"]);
        assert_eq!(
            found("fn f() { assert!(std::time::Instant::now() > t); }"),
            ["1 std::time::Instant::now"]
        );
    }

    #[test]
    fn sockets_files_threads_locks_and_terminals_are_found() {
        for (source, name) in [
            ("struct S { s: std::net::UdpSocket }", "std::net::UdpSocket"),
            ("fn f() { std::fs::read(p); }", "std::fs::read"),
            ("fn f() { std::thread::sleep(d); }", "std::thread::sleep"),
            ("fn f() { std::env::var(\"X\"); }", "std::env::var"),
            ("struct S { l: std::sync::Mutex<u8> }", "std::sync::Mutex"),
            ("fn f(x: &core::sync::RwLock<u8>) {}", "std::sync::RwLock"),
            ("fn f() { println!(\"x\"); }", "println!"),
            ("fn f() { foldhash::fast::RandomState::default(); }", "foldhash::fast::RandomState::default"),
        ] {
            assert_eq!(found(source), [format!("1 {name}")]);
        }
    }

    #[test]
    fn a_map_needs_a_hasher_of_its_own() {
        let with = |code: &str| found(&format!("use std::collections::{{HashMap, HashSet}};\n{code}"));
        let bad_map = "2 std::collections::HashMap";
        assert_eq!(with("struct S { m: HashMap<u8, u8> }"), [bad_map]);
        assert_eq!(with("fn f() -> HashSet<u8> { g() }"), ["2 std::collections::HashSet"]);
        assert_eq!(with("fn f() { let m = HashMap::new(); }"), [format!("{bad_map}::new")]);
        assert_eq!(with("fn f() { let m = vec![HashMap::new()]; }"), [format!("{bad_map}::new")]);
        assert_eq!(found("fn f(m: dashmap::DashMap<u8, u8>) {}"), ["1 dashmap::DashMap"]);
        assert_eq!(with("struct S<H> { m: HashMap<u8, u8, H> }"), [""; 0]);
        assert_eq!(with("fn f<H>(h: H) { let m = HashMap::with_hasher(h); }"), [""; 0]);
    }

    #[test]
    fn what_is_pure_passes() {
        let source = "use std::net::{IpAddr, SocketAddr};\nuse std::time::Duration;\nuse std::sync::{Arc, atomic::AtomicU64};\n\
                      use std::collections::BTreeMap;\nfn environment() -> Duration { Duration::ZERO }\n\
                      struct Instant; fn f(i: Instant) { write!(o, \"{i}\"); }";
        assert_eq!(found(source), [""; 0]);
    }

    #[test]
    fn tests_may_be_impure() {
        let source = "#[cfg(test)]\nmod tests { use std::fs; #[test] fn t() { fs::read(p); println!(); } }";
        assert_eq!(found(source), [""; 0]);
        assert_eq!(found("#[cfg(not(test))]\nmod m { fn t() { std::fs::read(p); } }"), ["2 std::fs::read"]);
    }

    #[test]
    fn a_file_that_only_tests_declare_is_theirs() {
        let modules = test_modules("mod a;\n#[cfg(test)]\nmod helpers;\n#[cfg(test)]\nmod t { }").unwrap();
        assert_eq!(modules, [Module("helpers".to_owned())]);
        assert!(modules[0].holds("x/src/lib.rs", "x/src/helpers.rs"));
        assert!(modules[0].holds("x/src/dns.rs", "x/src/dns/helpers/deep.rs"));
        assert!(!modules[0].holds("x/src/dns.rs", "x/src/helpers.rs"));
    }
}
