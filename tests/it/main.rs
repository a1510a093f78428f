//! Every integration test, in one program.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests drive the real thing from outside, and may stop at the first surprise"
)]

mod routing;
mod support;
mod tidy;
