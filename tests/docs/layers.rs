//! Allowed imports: stages use only the stages before them, and files form no cycle.
//!
//! A file depends on the files that define the items it uses outside of its tests. Re-exports, also those of all items of a
//! file, are followed to the definition, and a re-export alone is no dependency.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

/// Each stage with the stages it may use. `capture` and `compare` are independent of each other, `report`
/// of `capture` and `store`.
const MAY_USE: [(&str, &[&str]); 17] = [
    ("model", &[]),
    ("sys", &[]),
    ("process", &["sys"]),
    ("names", &["model"]),
    ("diagnose", &["model"]),
    ("capture", &["model", "sys", "process", "names", "diagnose"]),
    ("store", &["model", "process", "sys", "series"]),
    ("statistics", &[]),
    ("export", &["model", "process", "names", "diagnose", "store"]),
    ("window", &["model"]),
    ("reasons", &["model"]),
    ("series", &["model", "window"]),
    ("record", &["model", "process", "capture", "window", "reasons", "series"]),
    ("compare", &["model", "names", "diagnose", "statistics", "window"]),
    ("report", &["model", "names", "diagnose", "statistics", "compare"]),
    ("top", &["model", "process", "diagnose", "series", "record", "compare", "report", "store"]),
    (
        "cli",
        &[
            "model",
            "process",
            "names",
            "diagnose",
            "capture",
            "store",
            "export",
            "statistics",
            "window",
            "series",
            "record",
            "compare",
            "report",
            "top",
        ],
    ),
];

/// Segments of a path.
type Segments = Vec<String>;

/// A module with a file of its own.
struct Module {
    file: String,
    /// The file's code without comments, imports and tests.
    code: String,
    /// The paths of its imports and re-exports, by name; globs are under `*`.
    bound: Vec<(String, Segments)>,
    /// The paths of its private imports.
    imports: Vec<Segments>,
    /// The first lines of its items that are not private.
    items: Vec<String>,
}

/// All modules of the library, by path: `[]` is the root.
type Modules = BTreeMap<Segments, Module>;

/// What each file depends on.
type Dependencies = BTreeMap<Segments, BTreeSet<Segments>>;

static LIBRARY: LazyLock<(Modules, Dependencies)> = LazyLock::new(|| {
    let mut modules = Modules::new();
    read_directory(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &[], &mut modules);
    let dependencies = dependencies(&modules);
    (modules, dependencies)
});

fn read_directory(directory: &Path, parents: &[String], modules: &mut Modules) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let child = [parents, std::slice::from_ref(&name)].concat();
        if path.is_dir() {
            read_directory(&path, &child, modules);
        } else if name != "main" {
            let of_directory = matches!(name.as_str(), "mod" | "lib");
            let module = if of_directory { parents.to_vec() } else { child.clone() };
            let file = [&child.join("/"), ".rs"].concat();
            modules.insert(module, Module::parse(file, &fs::read_to_string(&path).unwrap()));
        }
    }
}

impl Module {
    fn parse(file: String, text: &str) -> Self {
        let text = text.split("#[cfg(test)]\nmod ").next().unwrap();
        let without_comment = |line: &str| line.split("//").next().unwrap().to_owned();
        let text = text.lines().map(without_comment).collect::<Vec<_>>().join("\n");
        let (code, bound, imports, items) = Default::default();
        let mut module = Self { file, code, bound, imports, items };
        let mut rest = text.as_str();
        while let Some(line) = rest.lines().next() {
            let (visibility, item) = split_visibility(line.trim_start());
            let end = if item.starts_with("use ") { rest.find(';').unwrap() + 1 } else { line.len() };
            if item.starts_with("use ") {
                let from = rest.find("use ").unwrap() + 4;
                for (name, path) in paths(&rest[from..end]) {
                    if visibility.is_empty() {
                        module.imports.push(path.clone());
                    }
                    module.bound.push((name, path));
                }
            } else {
                // Methods are no items.
                let is_method = line.starts_with(' ') && item.contains("fn ");
                if !visibility.is_empty() && !is_method {
                    module.items.push(item.to_owned());
                }
                module.code.push_str(&line.replace(visibility, ""));
                module.code.push('\n');
            }
            rest = rest[end..].strip_prefix('\n').unwrap_or(&rest[end..]);
        }
        module
    }

    /// Whether the file has an item of that name for others, perhaps in a row of a macro.
    fn defines(&self, name: &str) -> bool {
        let is_item = |item: &str| {
            let after = |kind: &&str| Some(item.find(*kind)? + kind.len());
            let kinds =
                ["struct ", "enum ", "trait ", "type ", "static ", "fn ", "const ", " in pub ", " in pub(crate) "];
            kinds.iter().filter_map(after).any(|at| identifier(&item[at..]) == name)
        };
        let is_row = |line: &str| {
            let rest = line.trim_start().strip_prefix(name).unwrap_or_default();
            rest.starts_with(['(', ':']) && !rest.starts_with("::")
        };
        self.items.iter().any(|item| is_item(item))
            || (name.starts_with(char::is_uppercase) && self.code.lines().any(is_row))
    }
}

/// `pub`, `pub(in …)` or nothing, and the rest.
fn split_visibility(item: &str) -> (&str, &str) {
    let Some(after) = item.strip_prefix("pub") else { return ("", item) };
    let end = if after.starts_with('(') { after.find(')').map_or(0, |at| at + 1) } else { 0 };
    let (visibility, rest) = item.split_at(3 + end);
    if rest.starts_with(' ') { (visibility, rest.trim_start()) } else { ("", item) }
}

fn identifier(text: &str) -> &str {
    &text[..text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())]
}

/// The paths of a tree like `a::{b, c::d as e}`, each with the name that it binds.
fn paths(tree: &str) -> Vec<(String, Segments)> {
    let mut found = Vec::new();
    path_tree(&mut tree.trim_start(), &[], &mut found);
    found
}

fn path_tree(rest: &mut &str, prefix: &[String], found: &mut Vec<(String, Segments)>) {
    if let Some(list) = rest.strip_prefix('{') {
        *rest = list.trim_start();
        while !rest.starts_with('}') && !rest.is_empty() {
            path_tree(rest, prefix, found);
            *rest = rest.trim_start();
            *rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
        }
        *rest = rest.strip_prefix('}').unwrap_or(rest);
        return;
    }
    let segment = if rest.starts_with('*') { "*" } else { identifier(rest) };
    if segment.is_empty() {
        // Not an import, for example a turbofish.
        *rest = "";
        return found.extend(prefix.last().map(|name| (name.clone(), prefix.to_vec())));
    }
    *rest = &rest[segment.len()..];
    let path = if segment == "self" && !prefix.is_empty() {
        prefix.to_vec()
    } else {
        [prefix, &[segment.to_owned()]].concat()
    };
    if let Some(deeper) = rest.strip_prefix("::") {
        *rest = deeper;
        return path_tree(rest, &path, found);
    }
    let alias = rest.strip_prefix(" as ").map(identifier);
    *rest = alias.map_or(*rest, |alias| &rest[" as ".len() + alias.len()..]);
    let name = if segment == "*" { "*" } else { path.last().unwrap() };
    found.push((alias.unwrap_or(name).to_owned(), path));
}

/// The module that defines the item of `path`, used in `from`; `None` if another crate defines it.
fn resolve(modules: &Modules, from: &[String], path: &[String], depth: usize) -> Option<Segments> {
    let (first, rest) = path.split_first()?;
    let (start, rest) = match first.as_str() {
        "crate" => (vec![], rest),
        "self" => (from.to_vec(), rest),
        "super" => (from[..from.len() - 1].to_vec(), rest),
        _ if is_known(modules, from, first) => (from.to_vec(), path),
        _ => return None,
    };
    match rest.first().map(String::as_str) {
        Some("super") => resolve(modules, &start, rest, depth),
        _ => descend(modules, start, rest, depth),
    }
}

fn is_known(modules: &Modules, module: &[String], name: &str) -> bool {
    let child = [module, &[name.to_owned()]].concat();
    modules.contains_key(&child) || modules[module].bound.iter().any(|(bound, _)| bound == name)
}

fn descend(modules: &Modules, mut module: Segments, path: &[String], depth: usize) -> Option<Segments> {
    for (at, segment) in path.iter().enumerate() {
        let child = [&module[..], std::slice::from_ref(segment)].concat();
        if modules.contains_key(&child) {
            module = child;
            continue;
        }
        if depth > 0 {
            let bound = modules[&module].bound.iter().filter(|(name, _)| name == segment);
            for (_, target) in bound.filter(|(_, target)| target.last() != target.first() || target.len() > 1) {
                let target = [&target[..], &path[at + 1..]].concat();
                if let Some(found) = resolve(modules, &module, &target, depth - 1) {
                    return Some(found);
                }
            }
            let globs = modules[&module].bound.iter().filter_map(|(_, target)| target.strip_suffix(&["*".to_owned()]));
            for glob in globs {
                let found = resolve(modules, &module, &[glob, &path[at..]].concat(), depth - 1);
                if let Some(found) = found.filter(|found| modules[found].defines(segment)) {
                    return Some(found);
                }
            }
        }
        break;
    }
    Some(module)
}

/// The paths in code that start at a keyword, a child module or an imported module.
fn inline_paths(modules: &Modules, module: &[String]) -> Vec<Segments> {
    let code = &modules[module].code;
    let mut found = Vec::new();
    for (at, _) in code.match_indices("::") {
        let start = code[..at].rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |at| at + 1);
        let name = &code[start..at];
        let is_first = !code[..start].ends_with("::");
        let is_start = matches!(name, "crate" | "super" | "self") || is_known(modules, module, name);
        if is_first && is_start && !name.is_empty() {
            found.extend(paths(&code[start..]).into_iter().take(1).map(|(_, path)| path));
        }
    }
    found
}

/// Every file with the files that it depends on.
fn dependencies(modules: &Modules) -> Dependencies {
    let of_module = |(path, module): (&Segments, &Module)| {
        let named = module.imports.iter().cloned().chain(inline_paths(modules, path));
        let targets = named.filter_map(|named| resolve(modules, path, &named, 8));
        (path.clone(), targets.filter(|target| target != path).collect())
    };
    modules.iter().map(of_module).collect()
}

#[test]
fn a_stage_sees_only_the_stages_before_it() {
    let (modules, dependencies) = &*LIBRARY;
    for (from, targets) in dependencies {
        let Some(stage) = from.first() else { continue };
        let (_, may_use) = MAY_USE.iter().find(|(listed, _)| listed == stage).unwrap();
        for target in targets.iter().filter_map(|target| target.first()) {
            let allowed = target == stage || may_use.contains(&target.as_str());
            assert!(allowed, "{}: {stage} may not use {target}", modules[from].file);
        }
    }
}

#[test]
fn files_form_no_cycle() {
    let (modules, edges) = &*LIBRARY;
    let shown = |cycle: &BTreeSet<Segments>| {
        let line = |path| {
            let inside = edges[path].iter().filter(|target| cycle.contains(*target));
            let inside: Vec<_> = inside.map(|target| modules[target].file.as_str()).collect();
            format!("  {} → {}\n", modules[path].file, inside.join(", "))
        };
        cycle.iter().map(line).collect::<String>()
    };
    let left: Vec<_> = cycles(edges).iter().map(shown).collect();
    assert!(left.is_empty(), "files depend on each other:\n{}", left.join("\n"));
}

/// The sets of files that reach each other.
fn cycles(edges: &Dependencies) -> Vec<BTreeSet<Segments>> {
    let reached = |from: &Segments| {
        let (mut reached, mut open) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(next) = open.pop() {
            open.extend(edges[&next].iter().filter(|target| reached.insert((*target).clone())).cloned());
        }
        reached
    };
    let reach: BTreeMap<_, _> = edges.keys().map(|from| (from, reached(from))).collect();
    let of_file = |from: &Segments| reach[from].iter().filter(|to| reach[to].contains(from)).cloned().collect();
    let sets: BTreeSet<BTreeSet<Segments>> = edges.keys().map(of_file).collect();
    sets.into_iter().filter(|set| !set.is_empty()).collect()
}

#[test]
fn imports_are_followed_to_the_file_that_defines_a_name() {
    let texts = [
        ("", "mod a;\nmod b;\npub use a::X;"),
        (
            "a",
            "mod c;\nmod d;\npub use self::c::X;\npub(in crate::a) use self::d::{self, Z as W};\npub use self::e::*;",
        ),
        ("a/c", "use super::super::b;\n// use crate::b::Y;\npub struct X(b::Y);\n#[cfg(test)]\nmod tests {}"),
        ("a/d", "pub fn f() -> super::W { std::mem::take::<super::super::b::Y>() }"),
        ("a/e", "pub struct V;"),
        ("b", "use std::fmt;\nuse crate::a::V;\npub(in crate::a) fn f(_: crate::X) { self::g() }\nfn g() {}\n"),
    ];
    let split = |path: &str| path.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect::<Segments>();
    let modules = texts.map(|(path, text)| (split(path), Module::parse(path.to_owned(), text))).into();
    let edges = dependencies(&modules);
    let flat = edges.iter().flat_map(|(from, to)| to.iter().map(|to| format!("{}>{}", from.join("/"), to.join("/"))));
    assert_eq!(flat.collect::<Vec<_>>(), ["a/c>b", "a/d>b", "b>a/c", "b>a/e"]);
    assert_eq!(cycles(&edges), [[split("a/c"), split("b")].into()]);
}

#[test]
fn every_module_is_in_the_table() {
    for stage in LIBRARY.0.keys().filter_map(|path| path.first()) {
        assert!(MAY_USE.iter().any(|(listed, _)| listed == stage), "{stage} has no place among the stages");
    }
}

#[test]
fn unsafe_code_is_in_sys_only() {
    for (path, module) in LIBRARY.0.iter().filter(|(path, _)| path.first().is_none_or(|stage| stage != "sys")) {
        let is_unsafe = module.code.contains("unsafe {") || module.code.contains("allow(unsafe_code");
        assert!(!is_unsafe, "{}", path.join("/"));
    }
}
