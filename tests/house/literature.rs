//! The bibliography: `references.bib`, its list in `docs/literature.md`, and the citations of code and pages say the same.
//! With `WRITE_TABLES=1` the list is written (`make literature`).

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use biblatex::{Bibliography, ChunksExt, Entry, PermissiveType, Person};
use deunicode::deunicode;
use regex::Regex;

const BEGIN: &str = "<!-- references: written by `make literature` -->\n";
const END: &str = "<!-- end -->\n";

/// Folders and files whose citations are held against the list.
const PLACES: &[&str] = &[
    "src",
    "formulations",
    "docs",
    "studies",
    "benches",
    "examples",
    "instances",
    "tools",
    "python",
    "tests",
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
];

/// Characters before a year in which its citation may stand: the longest has authors and a title of 300.
const WINDOW: usize = 330;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn bibliography() -> Bibliography {
    let text = fs::read_to_string(root().join("references.bib")).expect("references.bib");
    Bibliography::parse(&text).expect("references.bib is BibTeX")
}

fn authors(entry: &Entry) -> Vec<Person> {
    let authors = entry.author();
    authors.unwrap_or_else(|error| panic!("`{}` has no authors: {error}", entry.key))
}

fn year(entry: &Entry) -> String {
    entry
        .get("year")
        .map(ChunksExt::format_verbatim)
        .unwrap_or_default()
}

/// The first of some fields that an entry has.
fn field(entry: &Entry, names: &[&str]) -> Option<String> {
    let chunks = names.iter().find_map(|name| entry.get(name));
    chunks.map(ChunksExt::format_verbatim)
}

/// The name that citations use: the family name of the first author, without accents.
fn cited_name(entry: &Entry) -> String {
    let first = authors(entry).remove(0);
    let prefix = if first.prefix.is_empty() {
        String::new()
    } else {
        format!("{} ", first.prefix)
    };
    deunicode(&format!("{prefix}{}", first.name))
}

/// One item of the list.
fn item(entry: &Entry) -> String {
    let names: Vec<String> = authors(entry)
        .iter()
        .map(|person| match person.name.as_str() {
            "others" => "et al.".to_owned(),
            _ => [&person.given_name, &person.prefix, &person.name]
                .into_iter()
                .filter(|part| !part.is_empty())
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(" "),
        })
        .collect();
    let title = field(entry, &["title"]).expect("a title");
    let place = field(entry, &["journal", "booktitle", "publisher", "howpublished"]);
    let place = place.unwrap_or_else(|| panic!("`{}` has no venue", entry.key));
    let volume = field(entry, &["volume"])
        .map(|volume| format!(" {volume}"))
        .unwrap_or_default();
    let pages = field(entry, &["pages"])
        .map(|pages| format!(", {}", pages.replace("--", "-")))
        .unwrap_or_default();
    let doi = field(entry, &["doi"])
        .map(|doi| format!(". doi:{doi}"))
        .unwrap_or_default();
    let eprint = field(entry, &["eprint"]).filter(|eprint| !place.contains(eprint));
    let eprint = eprint
        .map(|eprint| format!(". arXiv:{eprint}"))
        .unwrap_or_default();
    let names = names.join(", ").replace(", et al.", " et al.");
    format!(
        "* `{}`: {names}, *{title}*, {place}{volume}{pages}, {}{doi}{eprint}\n",
        entry.key,
        year(entry)
    )
}

#[test]
fn the_list_is_made_of_the_file() {
    let list: String = bibliography().iter().map(item).collect();
    let path = root().join("docs/literature.md");
    let page = fs::read_to_string(&path).expect("docs/literature.md");
    let (before, rest) = page.split_once(BEGIN).expect("the list's first line");
    let (found, after) = rest.split_once(END).expect("the list's end");
    if std::env::var_os("WRITE_TABLES").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{list}{END}{after}"))
            .expect("docs/literature.md can be written");
        return;
    }
    assert_eq!(
        found, list,
        "docs/literature.md is not what references.bib says; run `make literature`"
    );
}

#[test]
fn every_source_says_who_what_where_and_when() {
    let bibliography = bibliography();
    let mut seen = BTreeSet::new();
    let mut last = String::new();
    for entry in bibliography.iter() {
        let key = &entry.key;
        assert!(last < *key, "`{key}` does not come in order of its key");
        assert!(
            matches!(entry.date(), Ok(PermissiveType::Typed(_))),
            "`{key}` has no year"
        );
        let title = field(entry, &["title"]).unwrap_or_else(|| panic!("`{key}` has no title"));
        assert!(
            seen.insert(title.to_lowercase()),
            "`{key}`: *{title}* stands twice"
        );
        if let Some(doi) = field(entry, &["doi"]) {
            assert!(
                doi.starts_with("10.") && seen.insert(doi.clone()),
                "`{key}`: {doi} is no DOI or stands twice"
            );
        }
        assert!(
            key.contains(&year(entry)),
            "`{key}` names another year than {}",
            year(entry)
        );
        assert!(item(entry).len() > key.len());
        last.clone_from(key);
    }
}

/// A year that a text names, with the characters before and after it.
struct Mention {
    place: String,
    year: String,
    before: String,
}

/// Files of code and prose, without what git ignores.
fn files(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_dir() {
        let mut inside: Vec<PathBuf> = fs::read_dir(path)
            .expect("a folder")
            .flatten()
            .map(|entry| entry.path())
            .collect();
        inside.sort();
        inside.iter().for_each(|path| files(path, found));
    } else if path
        .extension()
        .is_some_and(|extension| ["md", "rs", "py"].iter().any(|known| extension == *known))
    {
        found.push(path.to_owned());
    }
}

/// The years that may end a citation: not part of a date, a number or a name, nor a count of what follows.
fn mentions() -> Vec<Mention> {
    let broken_line = Regex::new(r"\s*\n\s*(//[/!]?|#+|>|\*)?\s*").expect("a pattern");
    let years =
        Regex::new(r"(^|[^\w.,-])(1[89]\d\d|20[0-2]\d)($|[^\w., -]| [^a-z]|[.,](\D|$))").expect("a pattern");
    // Layouts of Megatron have asterisks, as titles do.
    let code = Regex::new(r"`[^`\n]*\*[^`\n]*`").expect("a pattern");
    let mut paths = Vec::new();
    PLACES
        .iter()
        .for_each(|place| files(&root().join(place), &mut paths));
    let mut found = Vec::new();
    for path in paths.iter().filter(|path| !path.ends_with("tests/literature.rs")) {
        let text = fs::read_to_string(path).expect("text");
        // The list itself cites nothing.
        let text = text.split_once(BEGIN).map_or(text.as_str(), |(before, _)| before);
        let text = code.replace_all(text, " ");
        let text = deunicode(&broken_line.replace_all(&text, " ").replace("\\ ", " "));
        for year in years.captures_iter(&text) {
            let year = year.get(2).expect("a year");
            found.push(Mention {
                place: path.strip_prefix(root()).expect("inside").display().to_string(),
                year: year.as_str().to_owned(),
                before: text[year.start().saturating_sub(WINDOW)..year.start()].to_owned(),
            });
        }
    }
    found
}

fn cites(mention: &Mention, entry: &(String, String, Regex)) -> bool {
    mention.year == entry.1 && entry.2.is_match(&mention.before)
}

/// Key, year and the name that citations use, of each source.
fn sources() -> Vec<(String, String, Regex)> {
    let name =
        |entry: &Entry| Regex::new(&format!(r"\b{}\b", regex::escape(&cited_name(entry)))).expect("a name");
    bibliography()
        .iter()
        .map(|entry| (entry.key.clone(), year(entry), name(entry)))
        .collect()
}

#[test]
fn every_source_of_the_list_is_cited() {
    let mentions = mentions();
    let uncited: Vec<String> = sources()
        .iter()
        .filter(|source| !mentions.iter().any(|mention| cites(mention, source)))
        .map(|source| source.0.clone())
        .collect();
    assert!(uncited.is_empty(), "nothing cites {uncited:?} of references.bib");
}

#[test]
fn every_citation_is_in_the_list() {
    let sources = sources();
    // Authors, a title between asterisks, or two names before the year. What else ends in a year is a date.
    let citation = Regex::new(
        r"et al|[A-Z]\. [A-Z][a-z]+|\*[^*]{12,}\*|[A-Z][a-z]+ and [A-Z][a-z]+,? $|[A-Z][a-z]+ and [A-Z][a-z]+ \($",
    );
    let citation = citation.expect("a pattern");
    let missing: Vec<String> = mentions()
        .iter()
        .filter(|mention| !sources.iter().any(|source| cites(mention, source)))
        .map(|mention| {
            (
                mention,
                &mention.before[mention.before.len().saturating_sub(150)..],
            )
        })
        .filter(|(_, before)| citation.is_match(before))
        .map(|(mention, before)| format!("{}: ...{before}{}", mention.place, mention.year))
        .collect();
    assert!(
        missing.is_empty(),
        "no source of references.bib for:\n{}",
        missing.join("\n")
    );
}
