//! The API as others meet it.
