//! What the repository says of itself: pages, examples, layers, the bibliography, the package.

#[path = "../common/mod.rs"]
mod common;
#[path = "../oracles/mod.rs"]
mod oracles;

mod documents;
mod examples;
mod formulations;
mod layers;
mod library;
mod literature;
mod models;
mod package;
mod regions;
