//! What does a scan over settings say? Order of its cells, and its conclusions.
