//! The configurations that are read, as `docs/models.md` tells it: its tables are written from the code, and from models whose counts are known.
//!
//! With `WRITE_TABLES=1` they are written.

use std::path::{Path, PathBuf};

use stagecut::generate::transformer::Precision;
use stagecut::import::config::{described, seeing, summary};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/models.md");

/// Holds a table of the page against `current`, or writes it.
fn compare(table: &str, current: impl Fn(&str) -> Option<String>) {
    let page = std::fs::read_to_string(PAGE).expect("a page");
    let begin = format!("<!-- {table}: written by `make models` -->\n");
    let (before, rest) = page.split_once(&begin).expect("a place for the table");
    let (shown, after) = rest.split_once("<!-- end -->").expect("an end of the table");
    let Some(current) = current(shown) else { return };
    if std::env::var_os("WRITE_TABLES").is_some() {
        std::fs::write(PAGE, format!("{before}{begin}{current}<!-- end -->{after}")).expect("written");
        return;
    }
    assert_eq!(shown, current, "run `make models`");
}

fn architectures() -> String {
    let mut table = "| architecture | `model_type` | attention | MLP | norms | head is the table of words |\n|---|---|---|---|---|---|\n".to_owned();
    for row in described() {
        let types: Vec<String> = row.types.iter().map(|name| format!("`{name}`")).collect();
        let tied = if row.is_tied { "yes" } else { "no" };
        table += &format!(
            "| {} | {} | {} | {} | {} | {tied} |\n",
            row.name,
            types.join(", "),
            row.attention,
            row.feed_forward,
            row.norms
        );
    }
    let seeing: Vec<String> = seeing().iter().map(|name| format!("`{name}`")).collect();
    table + &format!("\nWith a vision tower: {}.\n", seeing.join(", "))
}

/// A number with a comma before every three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let mut parts = vec![&digits[..first]];
    parts.extend((first..digits.len()).step_by(3).map(|at| &digits[at..at + 3]));
    parts.retain(|part| !part.is_empty());
    parts.join(",")
}

fn row(path: &Path) -> String {
    let (found, _) = summary(path, Precision::Bf16).expect("a configuration");
    let layers = found.layers.last().map_or(0, |run| run.last + 1);
    format!(
        "| {} | {} | {} | {layers} | {} |\n",
        path.file_stem().expect("a name").to_string_lossy(),
        grouped(found.parameters),
        grouped(found.active_parameters),
        grouped(found.kv_bytes_per_token)
    )
}

/// The models whose counts are known, where they are at hand: all of them where the table is written, else those that it shows.
fn known(shown: &str) -> Option<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/model-configs/configs");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        eprintln!("skipped: no ../shared/data/model-configs");
        return None;
    };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let is_shown = |line: &&str| !line.starts_with("| model") && !line.starts_with("|---");
    let lines: Vec<&str> = shown.lines().filter(is_shown).collect();
    let name = |path: &Path| path.file_stem().expect("a name").to_string_lossy().into_owned();
    if std::env::var_os("WRITE_TABLES").is_none() {
        paths.retain(|path| {
            lines
                .iter()
                .any(|line| line.starts_with(&format!("| {} |", name(path))))
        });
        // Other files may lie there than when the table was written.
        if paths.len() != lines.len() {
            eprintln!("skipped: other models in ../shared/data/model-configs");
            return None;
        }
    }
    let head = "| model | parameters | active for a token | layers | bytes kept of a token |\n|---|---:|---:|---:|---:|\n";
    Some(head.to_owned() + &paths.iter().map(|path| row(path)).collect::<String>())
}

/// One test, since both stand in one file.
#[test]
fn the_tables_of_models_are_what_the_code_says() {
    compare("architectures", |_| Some(architectures()));
    compare("known", known);
}
