//! Serving HTTP on a listener of our own.
