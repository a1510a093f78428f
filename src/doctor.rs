//! Doctor (temporary).
pub mod tool;
