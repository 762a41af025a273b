//! What is written down is true: guides, man pages, findings, SECURITY.md, and the layers of the code.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod action;
mod findings;
mod guides;
mod layers;
mod links;
mod man;
mod names;
mod packages;
mod security;
#[path = "../support/skip.rs"]
mod skip;
mod unknown;
mod words;
