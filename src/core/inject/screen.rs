//! What a captured pane says.
