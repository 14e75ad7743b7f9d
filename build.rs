//! Gives the program a fingerprint of the source that decides its results, so that a study never takes a result of an
//! older program for one of this. Reports, studies and the command line can change without it.

use std::path::{Path, PathBuf};

/// Folders of `src` that only carry results around.
const CARRIERS: [&str; 4] = ["cli", "embedded", "report", "study"];

fn main() {
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=Cargo.lock");
    let mut files = Vec::new();
    gather(Path::new("src"), &mut files);
    // A library that is built as part of another program has no lock file of its own.
    files.extend(Some(PathBuf::from("Cargo.lock")).filter(|path| path.exists()));
    files.sort();
    let mut hash = FNV_OFFSET;
    for path in files {
        let bytes = std::fs::read(&path).expect("a file of the source is readable");
        for byte in path.to_string_lossy().bytes().chain(bytes) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
        }
    }
    println!("cargo::rustc-env=STAGECUT_FINGERPRINT={hash:016x}");
}

/// Constants of the 64-bit hash FNV-1a of Fowler, Noll and Vo.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// All files below a folder, without those that only carry results.
fn gather(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).expect("a folder of the source is readable");
    for entry in entries {
        let path = entry.expect("an entry of a folder").path();
        let is_carrier = CARRIERS.iter().any(|name| path == Path::new("src").join(name));
        match path.is_dir() {
            true if is_carrier => {}
            true => gather(&path, files),
            false => files.push(path),
        }
    }
}
